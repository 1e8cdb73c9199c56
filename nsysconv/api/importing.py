"""Profiles into a store: many files at a time, each as a whole or not at all."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from nsysconv.api.elsewhere import Work, gathered, worthwhile
from nsysconv.api.inputs import Input, Inputs, Passed, check_there, found, joined
from nsysconv.api.intake import FileResult, Progress, Wishes, add_complete, digest, take_in
from nsysconv.api.lost import Lost
from nsysconv.api.ranks import pattern, rank_from, suggestion
from nsysconv.api.words import Say, Target, Words, several, silent
from nsysconv.api.workers import workers
from nsysconv.cores import cores
from nsysconv.errors import InputError, InUseError, NsysconvError, UsageError
from nsysconv.importers import detection
from nsysconv.importers.contract import Options
from nsysconv.importers.probe import Probe
from nsysconv.partials import building
from nsysconv.phases import phase
from nsysconv.store.census import Census, censuses
from nsysconv.store.database import is_store
from nsysconv.store.places import Place, Url, is_new, place
from nsysconv.store.read import reading
from nsysconv.store.sqlite.network import file_system
from nsysconv.store.write import Imported, Writer, writing

_PATIENCE_S = 600.0
"""How long what is complete waits for others to be added before."""
_POLL_S = 0.1

Done = Callable[[int, int], None]
"""Called with the number of inputs that are done, and of all."""


@dataclass(frozen=True)
class RunResult:
    """A run that profiles of an import are of, and who is there of it."""

    label: str
    census: Census


@dataclass(frozen=True)
class ImportResult:
    """What became of an import: the store and one entry per file, in the order of reading.

    `passed` are files that were not read because their recording is there in another form, `lost` are
    records of ranks that left no report; `runs` are those that the profiles are of. `rank_from` is what
    `--rank-from` may be, where no rank is known and one number in the files' names differs. `is_one_run`:
    the store holds one run, and a report needs no more than the store's name.
    """

    store: Place
    files: tuple[FileResult, ...]
    passed: tuple[Passed, ...] = ()
    lost: tuple[Lost, ...] = ()
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
    check_there(place(path) for path in paths)
    target = place(store) if store is not None else _default_store(paths, join=join)
    inputs = joined(paths) if join else found(paths, target)
    if store is None and isinstance(target, Path):
        _check_default(target, inputs.read)
    if not inputs.read and not inputs.lost:
        raise InputError("no files in it", where=", ".join(str(place(p)) for p in paths))
    if wanted is not None:
        _check_matches(wanted, rank_from, inputs)
    results: list[FileResult] = []
    with phase("import"):
        away = frozenset(Work) if dask or (jobs or 0) > 1 else worthwhile(inputs.read)
        # One core copies rows; more threads than the others would only slow it down.
        threads = max(1, cores() - 1)
        wishes = Wishes(
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
    results: Sequence[FileResult], complete: Path, target: Path, wishes: Wishes
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


def _say_where(target: Place, say: Say) -> None:
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
    target: Place,
    writer: Writer,
    wishes: Wishes,
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
        yield from gathered(inputs, away, folder, several, writer, wishes, fresh=fresh)


@contextmanager
def _folder(target: Place, dask: str | None) -> Iterator[Path]:
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


def _runs(target: Place, results: Sequence[FileResult]) -> tuple[tuple[RunResult, ...], int]:
    """The runs of the profiles that came in or were there, and how many the store holds."""
    ids = {imported.run_id for result in results for imported in result.imported}
    with reading(target) as store:
        labels = {int(row["id"]): str(row["label"]) for row in store.runs()}
        counted = censuses(store)
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
    given = place(paths[0])
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
