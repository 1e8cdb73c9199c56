"""The contract of exporters, and their options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nsysconv.notes import Note
from nsysconv.timeline.timeline import Timeline


@dataclass(frozen=True)
class Options:
    """Options of an export: `names` beside ids and codes; `compressed`, for a name in `.gz`."""

    names: bool = True
    compressed: bool = False


@dataclass(frozen=True)
class Written:
    """The result of an export: numbers of rows (or events) by table (or kind), and notes on losses."""

    counts: dict[str, int]
    notes: tuple[Note, ...] = ()


class Exporter(Protocol):
    """One format: a module with these names."""

    TITLE: str
    """The title of the format, for people."""
    SUFFIXES: tuple[str, ...]
    """Suffixes of its files, the usual one first; empty: it writes a folder."""

    @staticmethod
    def export(timelines: Sequence[Timeline], path: Path, options: Options) -> Written:
        """Write whole profiles, or their slices, to `path`, which does not exist yet.

        `path` may be a temporary name without the suffix: the caller renames it, and removes what is left
        there after an error. Memory is bounded beside what a time line itself needs. Raises UsageError
        where the format cannot hold what is asked for.
        """
