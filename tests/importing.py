"""What tests of importers do with a file: write it, import it, and look at what became of it."""

from __future__ import annotations

import csv
import json
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL, event_rows, profile_in_place

from nsysconv import api
from nsysconv.errors import InputError
from nsysconv.notes import Severity
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


@contextmanager
def imported(path: Path, folder: Path, include: Sequence[str] = ()) -> Iterator[Profile]:
    """The only profile of a file, in a store in this folder."""
    (file,) = api.import_files([path], folder / "store.db", include=include).files
    assert file.error is None
    with reading(folder / "store.db") as store:
        (profile,) = store.profiles()
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
