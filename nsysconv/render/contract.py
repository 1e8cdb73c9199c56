"""The contract of output formats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TextIO

from nsysconv.errors import UsageError
from nsysconv.report import Report


@dataclass(frozen=True)
class Options:
    """For whom to write.

    `width` is that of the terminal in cells; None = no terminal: nothing is shortened, left out or
    padded to a width. `color` allows escape sequences.
    """

    width: int | None = None
    color: bool = False


Render = Callable[[Sequence[Report], TextIO, Options], None]
"""Writes the reports to the stream, in their order."""


class RendererModule(Protocol):
    """A module of this package that is a format: its files' suffix, and its function."""

    SUFFIX: str
    render: Render


def single_report(reports: Sequence[Report], format_name: str) -> Report:
    """Return the only report of a format that holds one; raises UsageError."""
    check_single(len(reports), format_name)
    return reports[0]


def check_single(count: int, format_name: str) -> None:
    """Raise UsageError unless there is one report, for a format that holds one."""
    if count != 1:
        hint = "several reports: use -o DIR/" if count else "Name a report."
        raise UsageError(f"{format_name} holds one report, and there are {count}", hint=hint)
