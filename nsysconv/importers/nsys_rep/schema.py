"""What the TOML files beside this say: tables of events, small tables, options."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FieldPath = tuple[int, ...]
"""A field: of the event's payload `(5,)`, of a message in it `(5, 2)`, of its inner message `(0, 5)`."""


@dataclass(frozen=True)
class ColumnFields:
    """A column: its name, the fields of which the first that is there counts, and what it holds."""

    name: str
    paths: tuple[FieldPath, ...]
    is_text: bool
    names_string: bool


@dataclass(frozen=True)
class EventTable:
    """One table of events."""

    name: str
    payload: int
    inner: int
    classes: tuple[int, ...]
    columns: tuple[ColumnFields, ...]
    inferred: frozenset[str]


@cache
def read(name: str) -> Mapping[str, Any]:
    """Return one of the files."""
    return tomllib.loads(Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8"))


def field_path(words: str) -> FieldPath:
    """Return `5`, `5.2` or `.5` as a path."""
    return tuple(int(part or 0) for part in words.split("."))


def columns(words: str) -> tuple[ColumnFields, ...]:
    """Return the columns that a line of a file names."""
    found = []
    for each in words.split():
        name, _, where = each.partition("=")
        paths = tuple(map(field_path, filter(None, where.rstrip("st").split("/"))))
        found.append(ColumnFields(name, paths, where.endswith("t"), where.endswith("s")))
    return tuple(found)


@cache
def event_tables() -> Mapping[str, EventTable]:
    """Return the tables of events by name."""
    made = {}
    for name, given in read("tables").items():
        if "payload" in given:
            classes, inferred = given.get("classes", ()), given.get("inferred", "").split()
            of = given["payload"], given.get("inner", 0), tuple(classes)
            made[name] = EventTable(name, *of, columns(given["columns"]), frozenset(inferred))
    return made


@cache
def small_tables() -> Mapping[str, tuple[ColumnFields, ...]]:
    """Return the columns of the other tables by name."""
    return {name: columns(given["columns"]) for name, given in read("targets").items()}


@cache
def table_columns() -> Mapping[str, Mapping[str, str]]:
    """Return the SQL types of columns by table, in the order of nsys' own."""
    listed = {name: table.columns for name, table in event_tables().items()} | dict(small_tables())
    return {
        name: {
            each.name: "TEXT" if each.is_text else "INTEGER"
            for each in of
            if each.name != "program"
        }
        for name, of in listed.items()
    }
