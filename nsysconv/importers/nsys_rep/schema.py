"""What the TOML files beside this say: tables of events, small tables, options."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from nsysconv.report import Kind

FieldPath = tuple[int, ...]
"""A field: of the event's payload `(5,)`, of a message in it `(5, 2)`, of its inner message `(0, 5)`."""

_SQL_TYPES: Mapping[Kind, str] = {"text": "TEXT", "int": "INTEGER"}


@dataclass(frozen=True)
class ColumnFields:
    """A column: its name, its possible fields (the first present one counts), and its kind."""

    name: str
    paths: tuple[FieldPath, ...]
    kind: Kind
    names_string: bool


@dataclass(frozen=True)
class Table:
    """What one table is made of: events, or messages at a path. Without columns it is not made."""

    name: str
    columns: tuple[ColumnFields, ...] = ()
    payload: int = 0
    inner: int = 0
    classes: Sequence[int] = ()
    path: Sequence[int] = ()
    inferred: str = ""
    not_read: str = ""


@cache
def read(name: str) -> Mapping[str, Any]:
    """Return one of the files."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def columns(words: str) -> tuple[ColumnFields, ...]:
    """Return the columns that a line of a file names."""
    found = []
    for each in words.split():
        name, _, where = each.partition("=")
        paths = filter(None, where.rstrip("st").split("/"))
        fields = tuple(tuple(int(part or 0) for part in path.split(".")) for path in paths)
        kind: Kind = "text" if where.endswith("t") else "int"
        found.append(ColumnFields(name, fields, kind, where.endswith("s")))
    return tuple(found)


@cache
def tables(file: str) -> Mapping[str, Table]:
    """Return the tables that one of the files describes, by name."""
    return {
        name: Table(name, **{**given, "columns": columns(given.get("columns", ""))})
        for name, given in read(file).items()
    }


@cache
def table_columns() -> Mapping[str, Mapping[str, str]]:
    """Return the SQL types of columns by table, in the order of nsys' own."""
    return {
        name: {c.name: _SQL_TYPES[c.kind] for c in table.columns if c.name != "program"}
        for name, table in {**tables("tables"), **tables("targets")}.items()
        if table.columns
    }
