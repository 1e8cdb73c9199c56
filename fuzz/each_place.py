"""Wrong bytes and types in every column of a database and in every argument of a trace, one by one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

# As SQL has them. What is declared otherwise is stored otherwise: a column may be one of texts.
CELLS = (
    "'x'", "''", "x'ed00'", "CAST(x'61ed' AS TEXT)", "1.5", "NULL", "9223372036854775807", "-1",
)  # fmt: skip
Way = tuple[Any, ...]
VALUES: tuple[Any, ...] = (
    None, True, -1, 1 << 70, 1.5, "", "x", "7", "007", "1e999", "\ud800", "RAW", [], ["x"], [1], [[]],
    {}, {"a": 1}, [None], ["007", "[1, 007]", "1e999", "RAW", {}],
)  # fmt: skip
_RAW = b"a\xed\xff"


def columns(source: Path) -> list[tuple[str, str]]:
    """Return the tables and columns of a database."""
    with closing(sqlite3.connect(source)) as database:
        tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        return [
            (table, column)
            for (table,) in database.execute(tables).fetchall()
            for _, column, *_ in database.execute(f'PRAGMA table_info("{table}")')
        ]


def with_cells(source: Path, path: Path, table: str, column: str, cells: Sequence[str]) -> None:
    """Put the cells into a column's rows, one after the other; without cells, make it one of texts."""
    path.write_bytes(source.read_bytes())
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        names = [name for _, name, *_ in database.execute(f'PRAGMA table_info("{table}")')]
        of_texts = None if cells else column
        declared = ", ".join(f'"{name}"' + " TEXT" * (name == of_texts) for name in names)
        database.execute(f"CREATE TABLE other ({declared})")
        database.execute(f'INSERT INTO other SELECT * FROM "{table}"')
        database.execute(f'DROP TABLE "{table}"')
        database.execute(f'ALTER TABLE other RENAME TO "{table}"')
        for number, cell in enumerate(cells):
            rows = f"rowid % {len(cells)} = {number}"
            database.execute(f'UPDATE "{table}" SET "{column}" = {cell} WHERE {rows}')


def places(trace: dict[str, Any]) -> dict[Any, list[Way]]:
    """Return where each key is: of events of a category, of their arguments, and of the trace."""
    found: dict[Any, list[Way]] = {}
    for number, event in enumerate(trace["traceEvents"]):
        for key in event:
            found.setdefault((event.get("cat"), key), []).append(("traceEvents", number, key))
        for key in event.get("args") or ():
            way = ("traceEvents", number, "args", key)
            found.setdefault((event.get("cat"), "args", key), []).append(way)
    return found | {(key,): [(key,)] for key in trace if key != "traceEvents"}


def with_values(trace: dict[str, Any], ways: Sequence[Way], values: Sequence[Any]) -> bytes:
    """Return a trace with a value at each of these places."""
    changed = json.loads(json.dumps(trace))
    for (*way, last), value in zip(ways, values, strict=False):
        inner = changed
        for key in way:
            inner = inner[key]
        inner[last] = value
    return json.dumps(changed).encode().replace(b"RAW", _RAW)
