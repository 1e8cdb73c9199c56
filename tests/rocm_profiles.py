"""What the tests of AMD's formats ask of a profile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conftest import event_rows

from nsysconv import api
from nsysconv.notes import Severity
from nsysconv.store.location import reading
from nsysconv.store.read import Profile


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
