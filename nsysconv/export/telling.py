"""What is told of rows, whatever their kind: names, categories and arguments as columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nsysconv.export.about import About
from nsysconv.export.ordered import Coded, Rows

Array = np.ndarray


@dataclass(frozen=True)
class Triple:
    """Three numbers per row, x, y, z."""

    x: Array
    y: Array
    z: Array


@dataclass(frozen=True)
class Told:
    """What is told of rows beside when and where they were.

    `repeated` are arguments with few different values, `single` those that tell rows apart: arrays with
    MISSING (or NaN) for none, Coded texts, or a Triple. `json` are texts that are JSON themselves.
    `dur` replaces the rows' durations.
    """

    category: Coded
    name: Coded
    repeated: Mapping[str, Any] = field(default_factory=dict)
    single: Mapping[str, Any] = field(default_factory=dict)
    dur: Array | None = None


class Json(Coded):
    """Texts that are JSON themselves."""


def words(codes: Array, texts: Iterable[str]) -> Coded:
    """Codes of a column as the words they stand for; none for null and unknown codes."""
    known = tuple(texts)
    return Coded(np.where((codes >= 0) & (codes < len(known)), codes, -1), known)


def always(text: str, count: int) -> Coded:
    """One text for all rows."""
    return Coded(np.zeros(count, np.int64), (text,))


@dataclass(frozen=True)
class Teller:
    """How rows of one kind are told: which columns of theirs are read, and what is made of these."""

    columns: tuple[str, ...]
    tell: Callable[[Rows, About], Told]


def reads(*columns: str) -> Callable[[Callable[[Rows, About], Told]], Teller]:
    """Makes a function that tells rows a Teller: these are the columns that it reads."""
    return lambda tell: Teller(columns, tell)
