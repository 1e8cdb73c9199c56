"""Many inputs at a time: each comes into a store of its own in another process, and from there into the
one that is wanted, in the order of the inputs. The outcome is that of one after the other.
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import compress
from pathlib import Path

from nsysconv.api.inputs import Input, Inputs, MissingRank, SkippedFile, check_there, found, joined
from nsysconv.api.profile_file import (
    FileResult,
    ImportOptions,
    Progress,
    add_complete,
    add_stored,
    belonging,
    digest,
    pattern,
    rank_from,
    suggestion,
    take_in,
)
from nsysconv.api.targets import Say, Target, Words, several, silent
from nsysconv.api.workers import Workers, workers
from nsysconv.cores import cores
from nsysconv.errors import InputError, InUseError, NsysconvError, UsageError
from nsysconv.importers import detection
from nsysconv.importers.contract import Options
from nsysconv.importers.nsys_report import is_report
from nsysconv.importers.probe import Probe
from nsysconv.partials import building
from nsysconv.phases import phase
from nsysconv.store.address import Url
from nsysconv.store.filesystem import file_system
from nsysconv.store.location import Location, is_new, is_store, parse_location, reading, writing
from nsysconv.store.merging import stored
from nsysconv.store.runs import RankCoverage, coverage_by_run
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


def import_in_parallel(
    inputs: Sequence[Input],
    away: Container[Work],
    folder: Path,
    several: Workers,
    writer: Writer,
    wishes: ImportOptions,
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


def _make(folder: Path, wishes: ImportOptions, known: frozenset[str], each: Input) -> _Made:
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


def _merged(each: Input, made: _Made, writer: Writer, wishes: ImportOptions) -> FileResult:
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


_PATIENCE_S = 600.0
"""How long what is complete waits for others to be added before."""
_POLL_S = 0.1

Done = Callable[[int, int], None]
"""Called with the number of inputs that are done, and of all."""


@dataclass(frozen=True)
class RunResult:
    """A run that profiles of an import are of, and who is there of it."""

    label: str
    census: RankCoverage


@dataclass(frozen=True)
class ImportResult:
    """What became of an import: the store and one entry per file, in the order of reading.

    `passed` are files that were not read because their recording is there in another form, `lost` are
    records of ranks that left no report; `runs` are those that the profiles are of. `rank_from` is what
    `--rank-from` may be, where no rank is known and one number in the files' names differs. `is_one_run`:
    the store holds one run, and a report needs no more than the store's name.
    """

    store: Location
    files: tuple[FileResult, ...]
    passed: tuple[SkippedFile, ...] = ()
    lost: tuple[MissingRank, ...] = ()
    runs: tuple[RunResult, ...] = ()
    rank_from: str | None = None
    is_one_run: bool = False

    @property
    def errors(self) -> tuple[NsysconvError, ...]:
        """What went wrong with files that were named (files of a folder may be anything)."""
        return tuple(file.error for file in self.files if file.error and not file.skipped)


def import_files(
    paths: Target | Sequence[Target],
    store: Target | None = None,
    *,
    include: Words = (),
    join: bool = False,
    label: str | None = None,
    tags: Mapping[str, str] | None = None,
    run: str | None = None,
    rank_from: str | None = None,
    replace: bool = False,
    strict: bool = False,
    jobs: int | None = None,
    dask: str | None = None,
    progress: Progress = silent,
    done: Done = silent,
    say: Say = silent,
) -> ImportResult:
    """Imports profiles into a store, which is made if it does not exist.

    `paths` is one or more profile files, stores, or folders (all files below; what is no profile is
    skipped with its reason, and a recording that is there in several forms is read once). The profiles
    of a store are taken over whole. Without `store` it is STEM.db of the only path in the current
    folder, and must be new. Importing the same bytes again changes nothing; `replace` reads them again.
    `include` names rows that are left out unless asked for, such as python_functions. `join` makes one
    recording of all files: what several logs tell of one run. `label` is what the profiles are called
    in the store (by default, after their files), with a number behind it where the name is taken;
    `tags` are kept with each of them. Neither makes a profile another one: of what is there already
    they change nothing but with `replace`, and then they are those given now. `strict` refuses files of
    which something had to be dropped or approximated.

    Ranks of one job, or of one folder or list of files, are one run; `run` names the run that all
    profiles are of. `rank_from` is a regular expression whose first group is the rank in a path as it
    was named. `jobs` files are read at a time (None: as many as pay), by processes of this machine or, by
    way of `dask` (a scheduler's address or file, or "local"), of others; the outcome is the same. `done`
    is told how many inputs are done.

    One bad file does not keep the others out: see ImportResult.errors. Raises InputError where a path is
    not there, before any is read; UsageError where the store cannot be made or is something else, and for
    words that cannot be what they are given for.
    """
    if isinstance(paths, (str, os.PathLike, Url)):
        paths = [paths]
    options = Options(frozenset(several(include)))
    detection.check_included(options)
    if label is not None:
        _check_label(label, "profile")
    if run is not None:
        _check_label(run, "run")
    _check_tags(tags or {})
    wanted = pattern(rank_from)
    check_there(parse_location(path) for path in paths)
    target = parse_location(store) if store is not None else _default_store(paths, join=join)
    inputs = joined(paths) if join else found(paths, target)
    if store is None and isinstance(target, Path):
        _check_default(target, inputs.read)
    if not inputs.read and not inputs.lost:
        raise InputError("no files in it", where=", ".join(str(parse_location(p)) for p in paths))
    if wanted is not None:
        _check_matches(wanted, rank_from, inputs)
    results: list[FileResult] = []
    with phase("import"):
        away = frozenset(Work) if dask or (jobs or 0) > 1 else worthwhile(inputs.read)
        # One core copies rows; more threads than the others would only slow it down.
        threads = max(1, cores() - 1)
        wishes = ImportOptions(
            options, label, tags or {}, run, wanted, replace, strict, progress, say, threads
        )
        _say_where(target, say)

        def appeared(complete: Path, there: Path) -> None:
            if store is None:
                _check_default(there, inputs.read)
            results[:] = _added(results, complete, there, wishes)

        try:
            with writing(target, appeared) as writer:
                fresh = is_new(target)
                every = _results(inputs.read, away, target, writer, wishes, jobs, dask, fresh=fresh)
                for result in every:
                    results.append(result)
                    done(len(results), len(inputs.read))
                if not any(result.imported for result in results):
                    raise _NothingImportedError
        except _NothingImportedError:
            return ImportResult(target, tuple(results), inputs.passed, inputs.lost)
    runs, count = _runs(target, results)
    hint = None if wanted or any(each.census.ranks for each in runs) else _suggestion(inputs.read)
    return ImportResult(
        target, tuple(results), inputs.passed, inputs.lost, runs, hint, is_one_run=count == 1
    )


class _NothingImportedError(Exception):
    """Leaves the transaction so that no empty store appears."""


def _added(
    results: Sequence[FileResult], complete: Path, target: Path, wishes: ImportOptions
) -> list[FileResult]:
    """What becomes of what is complete where another import has made the store meanwhile: it is added."""
    there: dict[int, Imported] = {}
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with writing(target) as writer:
                add_complete(complete, writer, wishes, there, target)
            break
        except InUseError:
            # Others add theirs.
            if time.monotonic() > end:
                raise
            time.sleep(_POLL_S)
    return [replace(each, imported=tuple(_at(each.imported, there))) for each in results]


def _at(imported: Sequence[Imported], there: Mapping[int, Imported]) -> Iterator[Imported]:
    """What became of profiles elsewhere; one that another input replaced did not get there."""
    return (there[one.profile_id] for one in imported if one.profile_id in there)


def _say_where(target: Location, say: Say) -> None:
    """Says what to expect of adding to a store where other hosts may want to add, too."""
    kind = file_system(target) if isinstance(target, Path) and target.exists() else None
    if kind is not None:
        say(
            f"{target} is on a network file system ({kind}): one import adds to it at a time. Many write "
            "at once into PostgreSQL, or each into a store of its own, to be imported together later."
        )


def _results(
    inputs: Sequence[Input],
    away: frozenset[Work],
    target: Location,
    writer: Writer,
    wishes: ImportOptions,
    jobs: int | None,
    dask: str | None,
    *,
    fresh: bool,
) -> Iterator[FileResult]:
    """What becomes of each input, in their order."""
    if not away or (dask is None and (jobs == 1 or len(inputs) == 1)):
        for each in inputs:
            yield take_in(each, writer, wishes, None if fresh else writer.find)
        return
    with _folder(target, dask) as folder, workers(dask, jobs) as several:
        yield from import_in_parallel(inputs, away, folder, several, writer, wishes, fresh=fresh)


@contextmanager
def _folder(target: Location, dask: str | None) -> Iterator[Path]:
    """A private folder for what workers make: beside the store, which is where there is room."""
    if isinstance(target, Path):
        with building(target) as folder:
            folder.mkdir(0o700)
            yield folder
        return
    # A database has no folder; a cluster's workers need one that they share with us.
    with tempfile.TemporaryDirectory(
        prefix=".nsysconv-", dir=None if dask is None else "."
    ) as name:
        yield Path(name).absolute()


def _runs(target: Location, results: Sequence[FileResult]) -> tuple[tuple[RunResult, ...], int]:
    """The runs of the profiles that came in or were there, and how many the store holds."""
    ids = {imported.run_id for result in results for imported in result.imported}
    with reading(target) as store:
        labels = {int(row["id"]): str(row["label"]) for row in store.runs()}
        counted = coverage_by_run(store)
    return tuple(RunResult(labels[i], counted[i]) for i in sorted(ids) if i in counted), len(
        counted
    )


def _suggestion(inputs: Sequence[Input]) -> str | None:
    return suggestion([each.path for each in inputs if len(each.paths) == 1])


def _check_matches(wanted: re.Pattern[str], text: str | None, inputs: Inputs) -> None:
    """Refuses an expression that finds no rank anywhere, before anything is read."""
    paths = [str(each.path) for each in inputs.read]
    if paths and all(rank_from(path, wanted) is None for path in paths):
        raise UsageError(
            f"--rank-from {text!r} finds no rank in any of the paths",
            where=paths[0],
            hint="It is looked for anywhere in a path as it was named; its first group is the rank.",
        )


def _check_label(label: str, what: str) -> None:
    """Refuses labels by which STORE@LABEL would not find the profile, or the run, again."""
    reasons = {
        "it is empty": not label.strip(),
        "STORE@NUMBER stands for a profile's number": label.isdigit(),
        "STORE@rank=N stands for a rank": label.startswith("rank="),
        "it has an @ in it": "@" in label,
        "it has characters that cannot be printed": not label.isprintable(),
    }
    for reason, holds in reasons.items():
        if holds:
            raise UsageError(
                f"{label!r} cannot be a label: {reason}",
                hint=f"Take a word, such as main: the {what} is STORE@main then.",
            )


_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def _check_tags(tags: Mapping[str, str]) -> None:
    """Refuses keys that are no names, and values that would steer a terminal."""
    for key, value in tags.items():
        if not _KEY.fullmatch(key):
            raise UsageError(
                f"{key!r} cannot be the key of a tag",
                hint="A key begins with a letter or _; letters, digits, _, . and - may follow.",
            )
        if not value.isprintable():
            raise UsageError(
                f"the value of tag {key} has characters that cannot be printed: {value!r}",
                hint="Take text on one line.",
            )


def _default_store(paths: Sequence[Target], *, join: bool) -> Path:
    """The store of an only input."""
    if len(paths) != 1 and not join:
        raise UsageError("several inputs need a store", hint="Name one: -o STORE.db")
    given = parse_location(paths[0])
    if isinstance(given, Url):
        raise UsageError("a database has no file's name", hint="Name a store: -o STORE.db")
    return Path(
        (given.resolve().name if given.is_dir() else detection.profile_label(given)) + ".db"
    )


def _check_default(target: Path, inputs: Sequence[Input]) -> None:
    """Refuses to add to a store that nobody named, unless there is nothing to add."""
    if target.exists() and not (is_store(target) and _holds(target, inputs)):
        raise UsageError(
            "the file exists and is not the store of this input",
            where=str(target),
            hint=f"Add to it with -o {target}, name another with -o OTHER.db, or move it away.",
        )


def _holds(store: Path, inputs: Sequence[Input]) -> bool:
    """Whether a store already holds all of these inputs."""
    with reading(store) as opened:
        known = {profile.attributes["sha256"] for profile in opened.profiles()}
    return all(
        all(path.is_file() for path in each.paths)
        and not each.is_store
        and digest([_sha256(path) for path in each.paths]) in known
        for each in inputs
    )


def _sha256(path: Path) -> str:
    with Probe(path) as probe:
        return probe.sha256()
