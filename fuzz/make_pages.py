"""nsys exports with so many rows that their pages are read without SQLite, laid out in many ways."""

from __future__ import annotations

import random
from collections.abc import Callable

from made import CALLS, COPIES, KERNELS, Export, Layout, Made, Row, call, kernel, times_of

from nsysconv.importers.probe import MIN_ROWS_FOR_PAGES

_OURS = {CALLS: "api_call", KERNELS: "kernel", COPIES: "memcpy"}
_PAGES = (512, 1024, 4096, 4096, 16_384, 65_536)
_RESERVED = (0, 0, 0, 1, 8, 32)
_COUNTS = (MIN_ROWS_FOR_PAGES - 1, MIN_ROWS_FOR_PAGES, MIN_ROWS_FOR_PAGES + 1, 12_000, 25_000)
# Whole numbers stay whole in all of them.
_TYPES = ("INTEGER", "INTEGER", "INTEGER", "INT", "BIGINT", "UNSIGNED BIG INT", "NUMERIC", "")
_TEXTS = ("text", "jsonText", "binaryData", "tensorSizeMinusOneElements")
# Columns that nobody knows: their declared types, and the content of two thirds of their cells.
_EXTRA = (
    ("extra INTEGER", "rowid"), ("extra TEXT", "'text'"), ("extra REAL", "0.5"),
    ("extra", "zeroblob(300)"), ("extra TEXT", "printf('%.5000c', 'x')"), ("extra INTEGER", None),
    ("extra INTEGER DEFAULT 7", None),
)  # fmt: skip
_LONG_ROWS = 3000
# What is done to a table's rows once they are there.
_AFTER = {
    "nothing": "SELECT 1",
    "deleted": "DELETE FROM {table} WHERE rowid % 7 = 0",
    "deleted mostly": "DELETE FROM {table} WHERE rowid % 7",
    "far apart": "UPDATE {table} SET rowid = rowid * 1000003 + 9000000000",
    "backwards": "UPDATE {table} SET rowid = -rowid",
    "updated": "UPDATE {table} SET correlationId = correlationId + (1 << 33) WHERE rowid % 5 = 0",
    "vacuumed": "VACUUM",
}
_STAYS: dict[str, Callable[[int], bool]] = {
    "deleted": lambda place: place % 7 != 0,
    "deleted mostly": lambda place: place % 7 == 0,
}


def make(random_: random.Random) -> Made:
    """Make one of the exports."""
    layout = Layout(random_.choice(_PAGES), random_.choice(_RESERVED), _declaring(random_))
    count, after = random_.choice(_COUNTS), random_.choice(list(_AFTER))
    wal = random_.random() < 0.3
    export = Export(layout)
    tables = _tables(random_, export, count)
    done = [
        f"{count} rows, pages of {layout.page_bytes} bytes, {layout.reserved} reserved, {after}"
    ]
    done += ["written through a log"] * wal
    for table, rows in tables.items():
        export.add(table, rows)
        export.sql.execute(_AFTER[after].format(table=table))
        if after in _STAYS:
            rows[:] = [row for place, row in enumerate(rows, 1) if _STAYS[after](place)]
        if random_.random() < 0.4:
            declared, value = random_.choice(_EXTRA)
            export.sql.execute(f"ALTER TABLE {table} ADD COLUMN {declared}")
            which = f"abs(rowid) < {_LONG_ROWS}" if value and "5000" in value else "rowid % 3"
            export.sql.execute(
                f"UPDATE {table} SET extra = {value} WHERE {which}" if value else "SELECT 1"
            )
            done.append(f"{table} has {declared}: {value}")
    truths = tuple(times_of(_OURS[table], rows) for table, rows in tables.items())
    return Made("pages.sqlite", export.bytes(wal=wal), tuple(done), truths)


def _declaring(random_: random.Random) -> Callable[[str, list[str]], str]:
    shuffled, typed, keyed = (random_.random() < 0.5 for _ in range(3))

    def declared(table: str, columns: list[str]) -> str:
        names = random_.sample(columns, len(columns)) if shuffled else columns
        parts = [f"{name} {'TEXT' if name in _TEXTS else random_.choice(_TYPES if typed else _TYPES[:1])}"
                 for name in names]  # fmt: skip
        if keyed:
            parts.insert(random_.randint(0, len(parts)), "id INTEGER PRIMARY KEY")
        return f"CREATE TABLE {table} ({', '.join(parts)})"

    return declared


def _tables(random_: random.Random, export: Export, count: int) -> dict[str, list[Row]]:
    order = list(range(1, count + 1))
    if random_.random() < 0.5:
        random_.shuffle(order)
    far = random_.choice((0, 0, 1 << 31, 1 << 40))
    tables: dict[str, list[Row]] = {CALLS: [], KERNELS: [], COPIES: []}
    for number in order:
        start = 1000 * number + far
        tables[CALLS].append(call(export, start, start + 100, number))
        tables[KERNELS].append(
            kernel(export, start + 200, start + 200 + number % 500, f"k{number % 7}",
                   correlationId=number, streamId=number % 5)
        )  # fmt: skip
        tables[COPIES].append(
            {"start": start + 720, "end": start + 740, "bytes": number, "correlationId": 0}
        )
    return tables
