"""What tests of importers do with a file: write it, import it, and look at what became of it."""

from __future__ import annotations

import csv
import json
import pickle
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from conftest import FIXTURES, REAL, Row, event_rows, profile_in_place, scratch

from nsysconv import api, schema
from nsysconv.errors import InputError
from nsysconv.notes import Note, Severity
from nsysconv.store.location import reading
from nsysconv.store.read import Profile


def written(folder: Path, content: object) -> Path:
    """A file with these bytes, this text, or this as JSON; its name says nothing."""
    path = folder / "unnamed"
    if not isinstance(content, bytes):
        content = (content if isinstance(content, str) else json.dumps(content)).encode()
    path.write_bytes(content)
    return path


def pickled(folder: Path, content: object) -> Path:
    """A file with these bytes, or this as a pickle."""
    return written(folder, content if isinstance(content, bytes) else pickle.dumps(content))


def changed_copy(source: Path, folder: Path, *statements: str) -> Path:
    """A copy of a database, after some SQL."""
    name = source.name if source.parent != folder else f"changed-{source.name}"
    path = Path(shutil.copyfile(source, folder / name))
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(";\n".join(statements))
    return path


_stores: dict[tuple[Path, tuple[str, ...]], Path] = {}


@contextmanager
def profiles(path: Path, include: Sequence[str] = ()) -> Iterator[list[Profile]]:
    """The profiles of a file, in a store; a fixture is imported once, and not to be written to."""
    store = _stores.get((path, tuple(include)))
    with TemporaryDirectory() as folder:
        if store is None:
            is_fixture = path.is_relative_to(FIXTURES)
            store = (scratch() if is_fixture else Path(folder)) / "store.db"
            result = api.import_files([path], store, include=include)
            assert not result.errors, result.errors
            if is_fixture:
                _stores[path, tuple(include)] = store
        with reading(store) as opened:
            yield list(opened.profiles())


@contextmanager
def imported(path: Path, include: Sequence[str] = ()) -> Iterator[Profile]:
    """The only profile of a file."""
    with profiles(path, include) as (profile,):
        yield profile


def rows_since(first: int) -> Callable[..., list[tuple[Any, ...]]]:
    """Return the function that gives these columns of a table, with times since the first call."""

    def rows(profile: Profile, table: str, *columns: str) -> list[tuple[Any, ...]]:
        found = []
        for row in event_rows(profile, table):
            if row["start_ns"] is not None:
                row["start_ns"] -= first
            found.append(tuple(row[column] for column in columns))
        return found

    return rows


def notes(profile: Profile) -> dict[str, list[tuple[Severity, int, str]]]:
    """Severity, count and place of all notes by their slug."""
    found: dict[str, list[tuple[Severity, int, str]]] = {}
    for note in profile.notes:
        found.setdefault(note.slug, []).append((note.severity, note.count, note.where))
    return found


def counts(profile: Profile) -> dict[str, int]:
    """The count of each note by its slug."""
    return {note.slug: note.count for note in profile.notes}


def slugs(profile: Profile) -> set[str]:
    """The slugs of all notes."""
    return {note.slug for note in profile.notes}


def only_note(profile: Profile, slug: str) -> Note:
    """The only note of this slug."""
    (found,) = (note for note in profile.notes if note.slug == slug)
    return found


def totals_of(profile: Profile) -> list[Row]:
    """The totals with words for codes, without what is null; those inside ranges apart."""
    domains = {row["domain_id"]: row["name"] for row in profile.rows("domain")}
    rows = []
    for row in profile.rows("aggregate"):
        ids = {i for i in (row["name_id"], row["range_name_id"]) if i is not None}
        names = profile.names(ids)
        told = {k: v for k, v in row.items() if v is not None and k not in ("id", "profile_id")}
        for column in ("kind", "layer", "direction"):
            if isinstance(told.get(column), int):
                codes = schema.metadata.tables["aggregate"].c[column].info["codes"]
                told[column] = codes[told[column]]
        for column, word in (("name_id", "name"), ("range_name_id", "within")):
            if column in told:
                told[word] = names[told.pop(column)]
        if "domain_id" in told:
            told["domain"] = domains.get(told.pop("domain_id"))
        rows.append(told)
    return rows


@contextmanager
def read(text: str) -> Iterator[Profile]:
    """The only profile of a text."""
    with TemporaryDirectory() as folder, imported(written(Path(folder), text)) as profile:
        yield profile


def places(path: Path) -> dict[str, tuple[int, str]]:
    """Count and place of each note of a file by its slug."""
    with profile_in_place(path) as profile:
        return {note.slug: (note.count, note.where) for note in profile.notes}


def refusal(path: Path) -> InputError:
    """Why a file is not read."""
    with pytest.raises(InputError) as caught, api.open(path):
        pass
    return caught.value


def told(table: str) -> list[dict[str, str]]:
    """The rows of a table of real files, what is said of each; one row where they are not here."""
    if not (REAL / table).exists():
        return [{"file": "missing"}]
    with (REAL / table).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
