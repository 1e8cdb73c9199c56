"""Many inputs at a time: each comes into a store of its own in another process, and from there into the
one that is wanted, in the order of the inputs. The outcome is that of one after the other.
"""

from __future__ import annotations

import secrets
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import compress
from pathlib import Path

from nsysconv.api.inputs import Input
from nsysconv.api.intake import FileResult, Wishes, add_stored, belonging, take_in
from nsysconv.api.words import silent
from nsysconv.api.workers import Workers
from nsysconv.cores import cores
from nsysconv.errors import InputError
from nsysconv.importers.nsys_report import is_report
from nsysconv.importers.probe import Probe
from nsysconv.store.location import writing
from nsysconv.store.merging import stored
from nsysconv.store.write import Imported, Writer

# Of less text, processes have only just started when one alone is done.
_FEW_BYTES = 100_000_000
# Below, what is made elsewhere is copied by a core that could as well have made it.
_CORES_FOR_TEXT = 4


@dataclass(frozen=True)
class _Made:
    """What another process made of an input: a store, or none where there is an error.

    `there`: what the wanted store holds already, and there was nothing to do; `said` are its remarks.
    """

    result: FileResult
    store: Path | None = None
    there: str | None = None
    said: tuple[str, ...] = ()


class _KnownError(Exception):
    """The recordings of a file are in the wanted store already."""

    def __init__(self, identity: str) -> None:
        super().__init__(identity)
        self.identity = identity


class _NothingError(Exception):
    """Leaves no store of nothing."""


class Work(Enum):
    """What reading an input asks for."""

    COPYING = "rows that the database itself copies"
    DECODING = "text that is decoded"
    EXPORTING = "a report that its own tool exports first"


def work_of(each: Input) -> Work:
    """What reading an input asks for."""
    with suppress(InputError), Probe(each.path) as probe:
        if is_report(probe):
            return Work.EXPORTING
        if not each.is_store and not probe.is_sqlite:
            return Work.DECODING
    return Work.COPYING


def worthwhile(inputs: Sequence[Input]) -> frozenset[Work]:
    """The kinds of work that pay to be done by other processes; chosen by what was measured.

    Not the copying of rows: a second copy takes three quarters of the time of an import, and only one
    process can write. Decoding takes twice as long as copying what it gives, which on two cores is
    eaten up by the copying (benchmarks/notes.md).
    """
    kinds = {each: work_of(each) for each in inputs}
    text = [each.path for each, kind in kinds.items() if kind is Work.DECODING]
    found = set()
    if sum(kind is Work.EXPORTING for kind in kinds.values()) > 1 and cores() > 1:
        found.add(Work.EXPORTING)
    if len(text) > 1 and cores() >= _CORES_FOR_TEXT:
        size = sum(path.stat().st_size for path in text)
        found |= {Work.DECODING} if size >= _FEW_BYTES else set()
    return frozenset(found)


def gathered(
    inputs: Sequence[Input],
    away: Container[Work],
    folder: Path,
    several: Workers,
    writer: Writer,
    wishes: Wishes,
    *,
    fresh: bool,
) -> Iterator[FileResult]:
    """What becomes of each input; work of the kinds `away` is the workers'.

    Stores are made in `folder`, which all workers see.
    """
    known = frozenset() if fresh or wishes.replace else writer.identities()
    # One process for each: there are several of them.
    options = replace(wishes.options, processes=1)
    apart = replace(wishes, options=options, threads=1, progress=silent, say=silent)
    make = partial(_make, folder, apart, known)
    elsewhere = [not each.is_store and work_of(each) in away for each in inputs]
    files = [_absolute(each) for each in compress(inputs, elsewhere)]
    made = iter(several.map(make, files, _lost, lambda each: each.paths))
    for each, is_elsewhere in zip(inputs, elsewhere, strict=True):
        if not is_elsewhere:
            yield take_in(each, writer, wishes, None if fresh else writer.find)
            continue
        one = next(made)
        for line in one.said:
            wishes.say(line)
        yield _merged(each, one, writer, wishes)


def _absolute(each: Input) -> Input:
    """The input as it is called from any folder."""
    paths = tuple(path.absolute() for path in each.paths)
    return replace(each, paths=paths, named=tuple(map(str, each.paths)))


def _make(folder: Path, wishes: Wishes, known: frozenset[str], each: Input) -> _Made:
    """An input into a store of its own. A piece may be begun again elsewhere: the name is a new one."""
    store = folder / f"{secrets.token_hex(8)}.db"
    said: list[str] = []

    def find(identity: str) -> tuple[Imported, ...]:
        if identity in known:
            raise _KnownError(identity)
        return ()

    result = FileResult(each.path)
    try:
        with writing(store) as writer:
            result = take_in(
                each, writer, replace(wishes, say=said.append), find if known else None
            )
            if not result.imported:
                raise _NothingError
    except _KnownError as there:
        return _Made(result, there=there.identity, said=tuple(said))
    except _NothingError:
        return _Made(result, said=tuple(said))
    return _Made(result, store, said=tuple(said))


def _merged(each: Input, made: _Made, writer: Writer, wishes: Wishes) -> FileResult:
    """What was made of an input into the wanted store."""
    result = replace(made.result, path=each.path)
    run = belonging(each, wishes)
    if result.error is not None:
        away, (named,) = str(each.path.absolute()), map(str, each.paths[:1])
        result.error.where = result.error.where.replace(away, named)
        return result
    if made.there is not None:
        existing = writer.find(made.there)
        writer.met(existing, run)
        return replace(result, imported=existing)
    assert made.store is not None
    with stored(made.store) as profiles:
        imported = [
            one for item in profiles for one in add_stored(item, writer, wishes, run, [], each.path)
        ]
    made.store.unlink()
    return replace(result, imported=tuple(imported))


def _lost(each: Input) -> _Made:
    error = InputError(
        "the process that read it was killed, or the memory ran out",
        where=each.named[0],
        hint="Import it again, alone or with fewer at a time: --jobs 1.",
    )
    return _Made(FileResult(each.path, error=error))
