"""Contents of a generated file that must be in its store, too."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from findings import Looked

Notes = Sequence[tuple[Any, ...]]
"""Rows of (slug, severity, count, place, text)."""


@dataclass(frozen=True)
class Truth:
    """Rows that a select on the store gives."""

    select: str
    rows: tuple[tuple[Any, ...], ...]
    what: str

    def look(self, sql: sqlite3.Connection, notes: Notes, looked: Looked) -> None:
        """Check that the select gives these rows."""
        found = tuple(sql.execute(self.select).fetchall())
        if found != self.rows:
            looked.wrong("what was written is read", f"{self.what}: {found[:3]}, not {self.rows[:3]}; "
                         f"{rows_noted(notes)}", f"{self.what} are others")  # fmt: skip


@dataclass(frozen=True)
class Printed:
    """A table that was printed: rows of the store's `aggregate` of one kind by what they are called.

    `rows` says from what to what each figure can be, for it was printed with so many decimals.
    """

    what: str
    kind: int
    key: str
    rows: Mapping[Any, Mapping[str, tuple[int, int]]]

    def look(self, sql: sqlite3.Connection, notes: Notes, looked: Looked) -> None:
        """Check that every printed figure was read as printed, or left out with a note."""
        figures = list(next(iter(self.rows.values())))
        found: dict[Any, tuple[Any, ...]] = {}
        for key, *values in sql.execute(
            f"SELECT {self.key}, {', '.join(figures)} FROM aggregate a LEFT JOIN name n "
            "ON n.profile_id = a.profile_id AND n.id = a.name_id WHERE a.kind = ?", (self.kind,)
        ):  # fmt: skip
            if key in found or key not in self.rows:
                looked.wrong(
                    "no row is made up", f"{self.what}: {key!r} {values}", f"made up {self.what}"
                )
            found[key] = tuple(values)
        noted = rows_noted(notes)
        for key, printed in self.rows.items():
            if key not in found:
                if not noted:
                    looked.wrong("nothing is lost without a word", f"{self.what}: {key!r} is missing",
                                 f"lost {self.what}")  # fmt: skip
                continue
            for figure, value in zip(figures, found[key], strict=True):
                if value is None:
                    if not noted:
                        looked.wrong("nothing is lost without a word", f"{self.what}: {key!r} has no "
                                     f"{figure}", f"lost {self.what}.{figure}")  # fmt: skip
                elif not printed[figure][0] <= value <= printed[figure][1]:
                    looked.wrong("numbers are read as printed", f"{self.what}: {key!r} {figure} "
                                 f"{printed[figure]} is read as {value}; {noted}",
                                 f"misread {self.what}.{figure}")  # fmt: skip


def rows_noted(notes: Notes) -> list[tuple[Any, ...]]:
    """Return what notes say of rows or figures that are missing."""
    return [note[:3] for note in notes if note[1] != "info" and note[0] != "rounded-bytes"]
