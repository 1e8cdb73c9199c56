"""The tables of one recording of a rocpd file: their names all end in its suffix."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import as_whole_number, texts_by_id
from nsysconv.importers.unread_tables import unread_tables_note
from nsysconv.notes import Note


class SuffixTables:
    """Reads tables by their names between `rocpd_` and the suffix; absent ones have no rows."""

    def __init__(self, probe: Probe, suffix: str) -> None:
        """Look at the tables of `probe` that end in this suffix."""
        self._probe = probe
        self._suffix = suffix
        self._used: dict[tuple[str, str], set[int]] = {}
        self.suspects: set[str] = set()

    def name(self, table: str) -> str:
        """Return the whole name of a table."""
        return f"rocpd_{table}{self._suffix}"

    def unread(self, read: Iterable[str], others: Iterable[str]) -> list[Note]:
        """Return a note on the tables that are not `read`; `others` are suffixes of other recordings."""
        of_others = [
            name for name in self._probe.tables for other in others if name.endswith(other)
        ]
        return unread_tables_note(self._probe, {*map(self.name, read), *of_others}, self._suffix)

    def columns(self, table: str) -> Sequence[str]:
        """Return the columns of a table; none if it is not there."""
        found = self._probe.tables.get(self.name(table))
        return found.columns if found else ()

    def source(self, table: str) -> str:
        """Return a table as `row`, joined with its events and tracks."""
        source = f"{self.name(table)} AS row"
        for name in ("event", "track"):
            if self._joins(table, name):
                source += f" LEFT JOIN {self.name(name)} AS {name} ON {name}.id = row.{name}_id"
        return source

    def cell(self, table: str, name: str) -> str:
        """Return a column of `source`, which may be that of the track, as SQL."""
        if name in self.columns(table):
            return f'row."{name}"'
        return self.joined_cell(table, "track", name)

    def joined_cell(self, table: str, other: str, name: str) -> str:
        """Return a column of the event or the track of each row of `source`, as SQL."""
        is_there = self._joins(table, other) and name in self.columns(other)
        return f"{other}.{name}" if is_there else "NULL"

    def _joins(self, table: str, other: str) -> bool:
        return f"{other}_id" in self.columns(table) and "id" in self.columns(other)

    def rows(self, table: str, *names: str, where: str = "1") -> Iterator[tuple[Any, ...]]:
        """Yield rows of a table, with NULL in columns that are not there."""
        if self.columns(table):
            cells = ", ".join(self.cell(table, name) for name in names)
            yield from self._probe.iterate(
                f"SELECT {cells} FROM {self.source(table)} WHERE {where}"
            )

    def used(self, table: str, name: str) -> set[int]:
        """Return the numbers in a column of a table, and note in `suspects` if other cells are there."""
        if (table, name) not in self._used:
            cell = self.cell(table, name)
            rows = []
            if self.columns(table) and cell != "NULL":
                rows = self._probe.select(f"SELECT DISTINCT {cell} FROM {self.source(table)}")
            # Guarded rows take a text for the number that it spells.
            numbers = {as_whole_number(cell) for (cell,) in rows}
            self._used[table, name] = {number for number in numbers if number is not None}
            if any(cell is not None and not isinstance(cell, int) for (cell,) in rows):
                self.suspects.add(table)
        return self._used[table, name]

    def texts(self, ids: Iterable[int]) -> dict[int, str]:
        """Return the texts of these ids, of those that have one."""
        if not {"id", "string"} <= set(self.columns("string")):
            return {}
        return texts_by_id(self._probe, self.name("string"), "id", ids, "string")
