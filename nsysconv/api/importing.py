"""Profiles into a store: many files at a time, each as a whole or not at all.

Where it pays, inputs come into stores of their own in other processes, and from there into the one that
is wanted, in the order of the inputs: the outcome is that of one after the other.
"""

from __future__ import annotations

import re
import secrets
import tempfile
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import compress
from pathlib import Path
from typing import Unpack

from nsysconv.api import file_ranks, kept_reports, profile_file
from nsysconv.api.inputs import (
    Input,
    Inputs,
    MissingRank,
    SkippedFile,
    check_existing,
    expanded,
    find_inputs,
    joined,
)
from nsysconv.api.profile_file import FileResult, ImportKeywords, ImportOptions
from nsysconv.api.targets import Say, Target, Words, several, silent
from nsysconv.api.workers import Workers, workers
from nsysconv.arguments import normalize, one_or_several
from nsysconv.errors import InputError, InUseError, NsysconvError, UsageError
from nsysconv.importers import detection
from nsysconv.importers.detection import is_report
from nsysconv.importers.probe import Probe
from nsysconv.launch import cores
from nsysconv.partials import building
from nsysconv.phases import phase
from nsysconv.store.checksums import require_sound
from nsysconv.store.filesystem import network_file_system
from nsysconv.store.location import (
    Location,
    Url,
    check_no_secret,
    is_store,
    parse_location,
    reading,
    writing,
)
from nsysconv.store.merging import stored_profiles
from nsysconv.store.runs import RankCoverage, coverage_by_run
from nsysconv.store.write import Imported, Writer

# One process decodes less text than this before other processes have started.
_FEW_BYTES = 100_000_000
# With fewer cores, the core that copies what another process decodes could have decoded it as well.
_CORES_FOR_TEXT = 4

_PATIENCE_S = 600.0
"""Seconds that a store that is complete waits for imports that add to the same store."""
_POLL_S = 0.1


@dataclass(frozen=True)
class RunResult:
    """A run that profiles of an import are of, and which ranks of it are there."""

    label: str
    census: RankCoverage


@dataclass(frozen=True)
class ImportResult:
    """The result of an import: the store and one entry per file, in the order of reading.

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
        """Return the errors of all inputs, without files of a folder that are not profiles."""
        return tuple(file.error for file in self.files if file.error and not file.skipped)


def import_files(
    paths: Target | Sequence[Target],
    store: Target | None = None,
    *,
    include: Words = (),
    **options: Unpack[ImportKeywords],
) -> ImportResult:
    """Import profiles into a store, which is made if it does not exist.

    `paths` is one or more profile files, stores, or folders (all files below; what is no profile is
    skipped with its reason, and a recording that is there in several forms is read once). The profiles
    of a store are taken over whole. Without `store` it is STEM.db of the only path in the current
    folder, and must be new. Importing the same bytes again changes nothing. `include` names rows that
    are left out unless asked for, such as python_functions. Ranks of one job, or of one folder or list
    of files, are one run.

    One bad file does not keep the others out: see ImportResult.errors. Raises InputError where a path is
    not there, before any is read; UsageError where the store cannot be made or is something else, and for
    words that cannot be what they are given for.
    """
    listed = [paths] if isinstance(paths, Url) else [*one_or_several(paths)]
    asked = ImportOptions(include=frozenset(several(include)), **options)
    normalize(asked)
    return import_targets(listed, store, asked)


def import_targets(
    paths: Sequence[Target], store: Target | None, options: ImportOptions
) -> ImportResult:
    """Import profiles into a store as `import_files` does, with the options as a value."""
    _check_options(options)
    paths = list(expanded(paths))
    if not options.join:
        check_existing(parse_location(path) for path in paths)
    target = (
        parse_location(store) if store is not None else _default_store(paths, join=options.join)
    )
    inputs = joined(paths) if options.join else find_inputs(paths, target)
    if store is None and isinstance(target, Path):
        _check_default_store(target, inputs.read)
    if not inputs.read and not inputs.lost:
        raise InputError("no files in it", where=", ".join(str(parse_location(p)) for p in paths))
    _check_rank_from(options, inputs)
    with phase("import"):
        _say_where(target, options.say)
        results = _import_all(inputs.read, target, options, is_default=store is None)
        result = ImportResult(target, tuple(results), inputs.passed, inputs.lost)
        if not any(each.imported for each in results):
            return result
    runs, count = _runs(target, results)
    has_ranks = options.rank_from is not None or any(run.census.ranks for run in runs)
    single = [item.path for item in inputs.read if len(item.paths) == 1]
    hint = None if has_ranks else file_ranks.suggest_rank_from(single)
    return replace(result, runs=runs, rank_from=hint, is_one_run=count == 1)


def _check_options(options: ImportOptions) -> None:
    detection.check_included(options.reader)
    if options.label is not None:
        _check_label(options.label, "profile")
    if options.run is not None:
        _check_label(options.run, "run")
    _check_tags(options.tags)
    # The pattern is compiled here, so that a wrong one is an error before any file is read.
    _ = options.rank_pattern


def _import_all(
    inputs: Sequence[Input], target: Location, options: ImportOptions, *, is_default: bool
) -> list[FileResult]:
    results: list[FileResult] = []

    def add_to_existing(complete: Path, existing: Path) -> None:
        # Another import has made the store meanwhile; what is complete is added to that one.
        if is_default:
            _check_default_store(existing, inputs)
        results[:] = _add_complete_store(results, complete, existing, options)

    if isinstance(target, Path) and target.exists():
        # A database is not checked, because that would take long and other processes write to it.
        _require_sound(target)
    inputs = [_with_damage(item) for item in inputs]
    with suppress(_NothingImported), writing(target, add_to_existing) as writer:
        for result in _import_each(inputs, target, writer, options):
            results.append(result)
            options.done(len(results), len(inputs))
        if not any(result.imported for result in results):
            raise _NothingImported
        _keep_derived(writer, target, options.say)
    return results


def _keep_derived(writer: Writer, target: Location, say: Say) -> None:
    kept_reports.keep(writer, say)
    if reason := writer.keep_checksums():
        say(f"{target}: no checksums were kept ({reason}); the next import into it tries again.")


def _require_sound(store: Location) -> None:
    # A store is not refused because another process writes to it now, or because its pages cannot be
    # read.
    with suppress(UsageError):
        require_sound(store)


def _with_damage(item: Input) -> Input:
    # This check comes before the target store is opened. While that is open, the files of stores whose
    # pages are read stay open, and no more than a few dozen may be open.
    try:
        if item.store is not None:
            _require_sound(item.store)
    except InputError as error:
        return replace(item, damage=error)
    return item


class _NothingImported(Exception):  # noqa: N818 - leaves a writer so that no empty store appears
    pass


def _import_each(
    inputs: Sequence[Input], target: Location, writer: Writer, options: ImportOptions
) -> Iterator[FileResult]:
    count, dask = options.workers, options.dask
    remote = frozenset(Work) if dask or (count or 0) > 1 else worthwhile(inputs)
    if not remote or (dask is None and (count == 1 or len(inputs) == 1)):
        for item in inputs:
            yield profile_file.import_input(item, writer, options)
        return
    with _shared_folder(target, dask) as folder, workers(dask, count) as processes:
        yield from _import_in_parallel(inputs, remote, processes, folder, writer, options)


def _add_complete_store(
    results: Sequence[FileResult], complete: Path, target: Path, options: ImportOptions
) -> list[FileResult]:
    added: dict[int, Imported] = {}
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            with writing(target) as writer:
                profile_file.add_store(complete, writer, options, added, target)
                _keep_derived(writer, target, options.say)
            break
        except InUseError:
            # Other processes add their profiles.
            if time.monotonic() > end:
                raise
            time.sleep(_POLL_S)
    # A profile that another input replaced is not among those that were added.
    return [
        replace(
            result,
            imported=tuple(added[i.profile_id] for i in result.imported if i.profile_id in added),
        )
        for result in results
    ]


def _say_where(target: Location, say: Say) -> None:
    kind = network_file_system(target) if isinstance(target, Path) and target.exists() else None
    if kind is not None:
        say(
            f"{target} is on a network file system ({kind}): one import adds to it at a time. Many write "
            "at once into PostgreSQL, or each into a store of its own, to be imported together later."
        )


def _runs(target: Location, results: Sequence[FileResult]) -> tuple[tuple[RunResult, ...], int]:
    # The result is the runs of the profiles that were imported or existed, and the number of runs in
    # the store.
    ids = {imported.run_id for result in results for imported in result.imported}
    with reading(target) as store, store.snapshot():
        labels = {int(row["id"]): str(row["label"]) for row in store.runs()}
        counted = coverage_by_run(store)
    runs = tuple(RunResult(labels[i], counted[i]) for i in sorted(ids) if i in counted)
    return runs, len(counted)


# -- in other processes


class Work(Enum):
    """A request to read an input."""

    COPYING = "rows that the database itself copies"
    DECODING = "text that is decoded"
    EXPORTING = "a report whose tables are made first"


def work_of(item: Input) -> Work:
    """Return what reading an input asks for, by a look at its content."""
    with suppress(InputError), Probe(item.path) as probe:
        if is_report(probe):
            return Work.EXPORTING
        if not item.is_store and not probe.is_sqlite:
            return Work.DECODING
    return Work.COPYING


def worthwhile(inputs: Sequence[Input]) -> frozenset[Work]:
    """Return the kinds of work that pay to be done by other processes; chosen by what was measured.

    Not the copying of rows: a second copy takes three quarters of the time of an import, and only one
    process can write. Decoding takes twice as long as copying what it gives, which on two cores is
    eaten up by the copying (benchmarks/notes.md).
    """
    kinds = {item: work_of(item) for item in inputs}
    text = [item.path for item, kind in kinds.items() if kind is Work.DECODING]
    paying = set()
    if sum(kind is Work.EXPORTING for kind in kinds.values()) > 1 and cores() > 1:
        paying.add(Work.EXPORTING)
    if len(text) > 1 and cores() >= _CORES_FOR_TEXT:
        size = sum(path.stat().st_size for path in text)
        paying |= {Work.DECODING} if size >= _FEW_BYTES else set()
    return frozenset(paying)


@dataclass(frozen=True)
class _RemoteResult:
    # Another process made a store of an input, or no store if there is an error.
    result: FileResult
    store: Path | None = None
    known: str | None = None  # the identity by which the wanted store holds it already
    lines: tuple[str, ...] = ()  # for `say`


def _import_in_parallel(
    inputs: Sequence[Input],
    remote: Container[Work],
    workers: Workers,
    folder: Path,
    writer: Writer,
    options: ImportOptions,
) -> Iterator[FileResult]:
    # Workers do the kinds of work in `remote`, into stores in a folder that all of them see.
    known = frozenset() if options.replace else writer.identities()
    # Each worker reads with one process: there are several of them.
    alone = replace(options, processes=1, threads=1, progress=silent, done=silent, say=silent)
    read = partial(_read_remotely, folder, alone, known)
    is_remote = [not item.is_store and work_of(item) in remote for item in inputs]
    items = [item.absolute() for item in compress(inputs, is_remote)]
    remote_results = iter(workers.map(read, items, _killed, lambda item: item.paths))
    for item, is_elsewhere in zip(inputs, is_remote, strict=True):
        if is_elsewhere:
            yield _add_remote_result(item, next(remote_results), writer, options)
        else:
            yield profile_file.import_input(item, writer, options)


def _add_remote_result(
    item: Input, remote: _RemoteResult, writer: Writer, options: ImportOptions
) -> FileResult:
    for line in remote.lines:
        options.say(line)
    result = replace(remote.result, path=item.path)
    run = profile_file.run_membership(item, options)
    if result.error is not None:
        named = str(item.paths[0])
        result.error.where = result.error.where.replace(str(item.path.absolute()), named)
        return result
    if remote.known is not None:
        existing = writer.find(remote.known)
        writer.met(existing, run)
        return replace(result, imported=existing)
    assert remote.store is not None
    with stored_profiles(remote.store) as profiles:
        imported = [
            copied
            for profile in profiles
            for copied in profile_file.add_stored(profile, writer, options, run, [], item.path)
        ]
    remote.store.unlink()
    return replace(result, imported=tuple(imported))


def _read_remotely(
    folder: Path, options: ImportOptions, known: frozenset[str], item: Input
) -> _RemoteResult:
    # A piece of work may be done a second time by another worker: the name is a new one each time.
    store = folder / f"{secrets.token_hex(8)}.db"
    lines: list[str] = []
    result = FileResult(item.path)
    stored_as: str | None = None
    options = replace(options, say=lines.append)
    try:
        with writing(store) as writer:
            result = profile_file.import_input(item, writer, options, known)
            if not result.imported:
                raise _NothingImported
    except profile_file.AlreadyStored as stored_already:
        stored_as = str(stored_already)
    except _NothingImported:
        pass
    made = store if result.imported else None
    return _RemoteResult(result, made, stored_as, tuple(lines))


def _killed(item: Input) -> _RemoteResult:
    error = InputError(
        "the process that read it was killed, or the memory ran out",
        where=item.named[0],
        hint="Import it again, alone or with fewer at a time: --jobs 1.",
    )
    return _RemoteResult(FileResult(item.path, error=error))


@contextmanager
def _shared_folder(target: Location, dask: str | None) -> Iterator[Path]:
    # The folder lies beside the store, where there is enough space.
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


# -- what is refused


def _check_rank_from(options: ImportOptions, inputs: Inputs) -> None:
    # An expression that finds no rank anywhere is refused before anything is read.
    if options.rank_pattern is None:
        return
    paths = [str(item.path) for item in inputs.read]
    if paths and all(file_ranks.rank_from(path, options.rank_pattern) is None for path in paths):
        what = f"--rank-from {options.rank_from!r} finds no rank in any of the paths"
        hint = "It is looked for anywhere in a path as it was named; its first group is the rank."
        raise UsageError(what, where=paths[0], hint=hint)


def _check_label(label: str, kind: str) -> None:
    # A label is refused if STORE@LABEL could not select the profile or the run by it.
    check_no_secret(label, f"the label of a {kind}")
    reasons = {
        "it is empty": not label.strip(),
        "STORE@NUMBER stands for a profile's number": label.isdigit(),
        "STORE@rank=N stands for a rank": label.startswith("rank="),
        "it has an @ in it": "@" in label,
        "it has characters that cannot be printed": not label.isprintable(),
    }
    for reason, holds in reasons.items():
        if holds:
            hint = f"Take a word, such as main: the {kind} is STORE@main then."
            raise UsageError(f"{label!r} cannot be a label: {reason}", hint=hint)


_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def _check_tags(tags: Mapping[str, str]) -> None:
    for key, value in tags.items():
        check_no_secret(f"{key}={value}", "a tag")
        if not _KEY.fullmatch(key):
            hint = "A key begins with a letter or _; letters, digits, _, . and - may follow."
            raise UsageError(f"{key!r} cannot be the key of a tag", hint=hint)
        # Control characters would steer the terminal that shows them.
        if not value.isprintable():
            what = f"the value of tag {key} has characters that cannot be printed: {value!r}"
            raise UsageError(what, hint="Take text on one line.")


def _default_store(paths: Sequence[Target], *, join: bool) -> Path:
    if len(paths) != 1 and not join:
        raise UsageError("several inputs need a store", hint="Name one: -o STORE.db")
    path = parse_location(paths[0])
    if isinstance(path, Url):
        raise UsageError("a database has no file's name", hint="Name a store: -o STORE.db")
    return Path((path.resolve().name if path.is_dir() else detection.profile_label(path)) + ".db")


def _check_default_store(target: Path, inputs: Sequence[Input]) -> None:
    # Nothing is added to a store that nobody named; importing again what it holds changes nothing.
    if target.exists() and not (is_store(target) and _holds_all(target, inputs)):
        what = "the file exists and is not the store of this input"
        hint = f"Add to it with -o {target}, name another with -o OTHER.db, or move it away."
        raise UsageError(what, where=str(target), hint=hint)


def _holds_all(store: Path, inputs: Sequence[Input]) -> bool:
    with reading(store) as opened:
        known = {profile.attributes["sha256"] for profile in opened.profiles()}
    return all(
        all(path.is_file() for path in item.paths)
        and not item.is_store
        and profile_file.digest([_sha256(path) for path in item.paths]) in known
        for item in inputs
    )


def _sha256(path: Path) -> str:
    with Probe(path) as probe:
        return probe.sha256()
