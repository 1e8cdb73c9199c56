"""The result of damage of one place beside that of the whole file."""

from __future__ import annotations

import sqlite3
import tempfile
from collections import Counter
from collections.abc import Collection
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from cases import Case
from findings import Looked
from seeds import Seed, is_printed

from nsysconv import api, schema
from nsysconv.errors import InputError
from nsysconv.importers.kineto.trace import EVENT_BORDER
from nsysconv.notes import Severity

LEFT_OUT = frozenset({
    "trace-truncated", "event-unreadable", "wrong-type", "negative-duration", "impossible-time",
    "category-unknown", "category-assumed", "json-repaired", "no-time",
})  # fmt: skip
"""Notes on what was left out, repaired or guessed of a trace."""
# Rows of a trace that differ from others by an argument or a name alone: nobody can know it to be wrong.
TOLD_BY_VALUES = ("collective", "memory_event")
_SAID = "nothing is lost without a word"
# The store's own numbers; and that of the process, which a log says in another table.
_NUMBERED = ("id", "profile_id", "pid")
Cells = tuple[Any, ...]


@dataclass(frozen=True)
class Found:
    """The content of a store: rows by table, notes by slug, and those that say more than is ordinary."""

    cells: dict[str, list[Cells]]
    timed: Counter[str]
    notes: Counter[str]
    loud: frozenset[str]

    @property
    def sure(self) -> int:
        """Return the number of rows that are rows whatever they are called."""
        return sum(count for name, count in self.timed.items() if name not in TOLD_BY_VALUES)


def found_in(store: Path) -> Found:
    """Return what is in a store, in all profiles: of rows those that have all their times are counted."""
    cells: dict[str, list[Cells]] = {}
    timed: Counter[str] = Counter()
    notes: Counter[str] = Counter()
    with closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)) as sql:
        found = sql.execute("SELECT profile_id, id, text FROM name")
        names = {(profile, number): text for profile, number, text in found}
        for table in schema.EVENT_TABLES:
            columns = schema.metadata.tables[table].c
            rows = sql.execute(f"SELECT {', '.join(columns.keys())} FROM {table} ORDER BY id").fetchall()
            kept = [
                (place, schema.is_name_id(column))
                for place, column in enumerate(columns)
                if column.name not in _NUMBERED
            ]
            cells[table] = [
                tuple(names.get((row[1], row[n])) if named else row[n] for n, named in kept)
                for row in rows
            ]
            if "dur_ns" in columns:
                start, dur = columns.keys().index("start_ns"), columns.keys().index("dur_ns")
                rows = [row for row in rows if row[start] is None or row[dur] is not None]
            timed[table] += len(rows)
        cells["aggregate"] = sql.execute("SELECT kind, count, sum_ns FROM aggregate").fetchall()
        said = sql.execute("SELECT slug, severity, count FROM note").fetchall()
    for slug, _, count in said:
        notes[slug] += count
    loud = frozenset(slug for slug, severity, _ in said if severity != Severity.INFO.value)
    return Found(cells, +timed, notes, loud)


@lru_cache(200)
def of_whole(seed: Seed) -> Found | None:
    """Return what the whole file gives; None if it is refused."""
    with tempfile.TemporaryDirectory(prefix="fuzz-whole-") as folder:
        source, store = Path(folder) / seed.name, Path(folder) / "store.db"
        source.write_bytes(seed.content)
        (file,) = api.import_files([source], store).files
        return None if file.error is not None else found_in(store)


def compare(case: Case, store: Path, looked: Looked) -> None:
    """Find rows of a file with damage of one place that went, or are others, without a note."""
    whole = of_whole(case.seed)
    if whole is None:
        return
    found = found_in(store)
    if case.kind == "nsys_sqlite-cut":
        other = [table for table, rows in found.cells.items() if rows != whole.cells[table]]
        if other:
            looked.wrong("a cut database is refused or whole", f"other rows of {other}")
    elif case.importer == "kineto":
        (_trace_cut if case.kind.endswith("cut") else _trace_changed)(case, found, whole, looked)
    elif is_printed(case.importer):
        for table, rows in found.cells.items():
            odd = Counter(rows) - Counter(whole.cells[table])
            # The last may lack the end of its last cell.
            in_order = case.importer == "nsys_stats" and table in schema.EVENT_TABLES
            if in_order and rows[:-1] != whole.cells[table][: max(len(rows) - 1, 0)]:
                odd.update(rows)
            if odd.total() > 1:
                looked.wrong("rows before a cut are as they were", f"{table}: {odd}")


def _trace_cut(case: Case, found: Found, whole: Found, looked: Looked) -> None:
    said = {"trace-truncated", "metadata-unreadable"} & found.loud
    if not said and _rest(case):
        looked.wrong(_SAID, f"cut, and no note says so: {found.notes}", "cut trace")
    if "trace-truncated" not in found.notes and found.timed != whole.timed:
        looked.wrong(_SAID, f"{whole.timed - found.timed} are missing", "cut trace")
    events = _events_before(case)
    if events is not None and found.timed != events.timed:
        detail = f"{found.timed} and not {events.timed}"
        looked.wrong("whole events before a cut are read", detail, "cut trace")
    if not found.timed <= whole.timed:
        looked.wrong("no row is made up", f"{found.timed - whole.timed}", "cut trace")


def _events_before(case: Case) -> Found | None:
    """Return what the events before the cut give in a whole file; None if it is not among them."""
    content, borders = case.content, EVENT_BORDER.finditer(case.seed.content)
    places = [match.start() + 1 for match in borders]
    last = max((place for place in places if place <= len(content)), default=0)
    if not last or last == places[-1] or not case.seed.content.startswith(content):
        return None
    return of_whole(Seed(case.name.removesuffix(".gz"), content[:last] + b"]}"))


def _rest(case: Case) -> bytes:
    """Return what was cut off and is no space; of compressed content anything."""
    content = case.seed.content
    return content[len(case.content) :].strip() if content.startswith(case.content) else b"packed"


def _trace_changed(case: Case, found: Found, whole: Found, looked: Looked) -> None:
    noted = new_notes(found, whole) & LEFT_OUT
    if found.sure < whole.sure and not noted:
        looked.wrong(_SAID, f"{whole.timed - found.timed} are missing: {found.notes}", "changed trace")
    for name in TOLD_BY_VALUES:  # one byte is in one event only
        if whole.timed[name] - found.timed[name] > 1 and not noted:
            looked.wrong(_SAID, f"several rows of {name} are missing", "changed trace")


def new_notes(found: Found, whole: Found) -> set[str]:
    """Return the notes that the whole file has not, or of less."""
    return {slug for slug, count in found.notes.items() if count > whole.notes[slug]}


def compare_in_place(case: Case, source: Path, looked: Looked) -> None:
    """Find tables of a cut database, read in place, that have fewer rows without a word."""
    whole = of_whole(case.seed)
    tables: Collection[str] = () if whole is None else whole.timed
    with suppress(InputError), api.open(source) as opened:
        for table in tables:
            if whole is not None and opened.timeline.profile.row_count(table) != len(whole.cells[table]):
                looked.wrong("a cut database is refused or whole", f"in place: {table}", "cut in place")
