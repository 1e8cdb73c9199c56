"""One profile file: its format detected, its rows into a store, or a store over the file as it is."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from nsysconv.api.file_ranks import RankClaim, rank_claims, with_ranks
from nsysconv.api.inputs import Input
from nsysconv.api.targets import Say, silent
from nsysconv.errors import InputError, NoProfileError, NsysconvError, StrictError, UsageError
from nsysconv.facts import Fact
from nsysconv.importers import detection
from nsysconv.importers.contract import Importer, Options
from nsysconv.importers.probe import Probe
from nsysconv.launch import cores
from nsysconv.notes import Note, Severity
from nsysconv.regex import regular_expression
from nsysconv.store.filesystem import private_folder
from nsysconv.store.location import reading, writing
from nsysconv.store.merging import StoredProfile, StoredRun, copy_profile, stored_profiles
from nsysconv.store.read import Store
from nsysconv.store.recording import Recording
from nsysconv.store.runs import RunMembership
from nsysconv.store.sqlite.virtual_store import open_virtual_store
from nsysconv.store.write import Imported, Origin, Writer, require_exact
from nsysconv.timeline.plausibility import examine

Row = dict[str, Any]
Failure = TypeVar("Failure", bound=NsysconvError)

# -- into a store

Progress = Callable[[Path, str, int], None]
"""Called with the file, the table and the number of source rows just copied."""

Done = Callable[[int, int], None]
"""Called with the number of inputs that are done, and of all."""


@dataclass(frozen=True)
class FileResult:
    """The result of an input: `imported` recordings, or `error`; `skipped`: no profile, in a folder."""

    path: Path
    imported: tuple[Imported, ...] = ()
    error: NsysconvError | None = None
    skipped: bool = False


class ImportKeywords(TypedDict, total=False):
    """Keywords of an import, the same for all inputs.

    `join` makes one recording of all files: logs of one run. `label` is what the profiles are called in
    the store (by default, after their files), with a number behind it where the name is taken; `tags` are
    kept with each of them. Neither makes a profile another one: of what is there already they change
    nothing but with `replace`, which reads again what the store holds, and then they are those given now.
    `strict` refuses files of which something had to be dropped or approximated.

    `run` names the run that all profiles are of. `rank_from` is a regular expression whose first group is
    the rank in a path as it was named. `workers` files are read at a time (None: automatic), by
    processes of this machine or, by way of `dask` (a scheduler's address or file, or "local"), of others;
    the outcome is the same. `progress` and `done` are called while it goes on, `say` with lines that a
    person may want to read meanwhile.
    """

    join: bool
    label: str | None
    tags: Mapping[str, str]
    run: str | None
    rank_from: str | None
    replace: bool
    strict: bool
    workers: int | None
    dask: str | None
    progress: Progress
    done: Done
    say: Say


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """The value of ImportKeywords.

    `threads` is how many may work on one input (None: one per core but for the core that copies rows),
    `processes` how many may decode it (None: automatic).
    """

    include: frozenset[str] = frozenset()
    join: bool = False
    label: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    run: str | None = None
    rank_from: str | None = None
    replace: bool = False
    strict: bool = False
    workers: int | None = None
    dask: str | None = None
    progress: Progress = silent
    done: Done = silent
    say: Say = silent
    threads: int | None = None
    processes: int | None = None

    @cached_property
    def rank_pattern(self) -> re.Pattern[str] | None:
        """Return the compiled `rank_from`, or None. Raises UsageError if it is wrong."""
        text, hint = self.rank_from, r"Its first group is the rank: --rank-from 'train\.(\d+)\.'"
        if text is None:
            return None
        pattern = regular_expression(text, f"--rank-from {text!r}", hint=hint)
        if not pattern.groups:
            raise UsageError(f"--rank-from {text!r} has no group", hint=hint)
        return pattern

    @property
    def reader(self) -> Options:
        """Return what of it importers have to know."""
        return Options(self.include, processes=self.processes)


class AlreadyStored(Exception):  # noqa: N818 - leaves a writer: another store holds the file
    """The file of an input is in the store that this one is made for; its text is the identity."""


def import_input(
    item: Input, writer: Writer, options: ImportOptions, known: Container[str] = ()
) -> FileResult:
    """Import one input into the store; what is wrong with it is in the result.

    `known` are the identities of files that another store holds, which this one is made for. Raises
    AlreadyStored for one of them, before its rows are copied.
    """
    if item.damage is not None:
        return FileResult(item.path, error=item.damage)
    try:
        if item.is_store:
            return FileResult(item.path, tuple(_import_store(item, writer, options)))
        threads = options.threads or max(1, cores() - 1)
        with detection.refusing_defects(item.path), ExitStack() as stack:
            probes = list(_open_probes(item, stack, options.say, threads))
            importer, probes = _detected(item, probes)
            # It takes a twentieth of the time of copying rows that may be there already.
            origin = _origin(item, probes, importer, options)
            if origin.identity in known:
                raise AlreadyStored(origin.identity)
            imported = _import_files(item, probes, importer, origin, writer, options)
            return FileResult(item.path, _examined(imported, writer))
    except (InputError, StrictError) as error:
        if not error.where:
            error.where = " + ".join(item.shown)
        is_skipped = item.from_folder and isinstance(error, NoProfileError)
        return FileResult(item.path, error=_without_traceback(error), skipped=is_skipped)


def _examined(imported: tuple[Imported, ...], writer: Writer) -> tuple[Imported, ...]:
    # The profiles get notes on what cannot be believed. If the examination fails, they are removed from
    # the store.
    try:
        found = writer.examine(examine, [each.profile_id for each in imported])
    except Exception:
        writer.remove([each.profile_id for each in imported if not each.existing])
        raise
    return tuple(
        replace(each, notes=(*each.notes, *found.get(each.profile_id, ()))) for each in imported
    )


def _without_traceback(error: Failure) -> Failure:
    # Frames keep what they hold alive: results of thousands of files must not keep their rows.
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def digest(digests: Sequence[str]) -> str:
    """Return the digest of an input: its file's, or one of all files that are joined."""
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def add_stored(
    item: StoredProfile,
    writer: Writer,
    options: ImportOptions,
    run: RunMembership,
    claims: Sequence[RankClaim],
    path: Path,
) -> tuple[Imported, ...]:
    """Copy a profile of another store, unless it is there. `path` is what progress calls it."""
    existing = writer.find(item.origin.identity)
    if existing and not options.replace:
        writer.met(existing, run)
        return existing
    return writer.add(
        [with_ranks(item.recording, claims)],
        replace(item.origin, run=run),
        partial(options.progress, path),
        [profile.profile_id for profile in existing],
        strict=options.strict,
    )


def add_store(
    store: Path, writer: Writer, options: ImportOptions, added: dict[int, Imported], path: Path
) -> None:
    """Copy the profiles of a store whose ids are not in `added`, and note there what became of each."""
    item = Input((store,), store=store)
    with stored_profiles(store) as profiles:
        for profile in profiles:
            if profile.profile_id not in added:
                run = _run_of_store(profile, item, options) or run_membership(item, options)
                (added[profile.profile_id],) = add_stored(profile, writer, options, run, [], path)


def run_membership(item: Input, options: ImportOptions) -> RunMembership:
    """Return an input's run, as known before it is read; ranks in a file share it."""
    if item.together is None and not item.is_store:
        return RunMembership(options.run, f"file {item.path}", item.own_label)
    return RunMembership(options.run, item.together, item.label)


def _import_store(item: Input, writer: Writer, options: ImportOptions) -> Iterator[Imported]:
    assert item.store is not None
    with stored_profiles(item.store) as opened:
        profiles = list(opened)
        claims = rank_claims([item.path], options.rank_pattern) if len(profiles) == 1 else []
        for profile in profiles:
            label = options.label or profile.origin.label
            tags = {**profile.origin.tags, **options.tags}
            # The run is looked up by the label that the profile still has: a run with this label and no
            # other profile is only that profile.
            run = _run_of_store(profile, item, options) or run_membership(item, options)
            profile = replace(profile, origin=replace(profile.origin, label=label, tags=tags))
            yield from add_stored(profile, writer, options, run, claims, item.path)


def _run_of_store(
    profile: StoredProfile, item: Input, options: ImportOptions
) -> RunMembership | None:
    # Profiles of one run stay one run; a run that is no more than its profile is None.
    run: StoredRun = profile.run
    if options.run is not None or (run.profile_count == 1 and run.label == profile.origin.label):
        return None
    # Stores of parts of one run give it the same name.
    return RunMembership(
        together=f"run {run.label}",
        label=run.label,
        unit=f"run {run.id} of {item.path}",
        ranks=run.ranks,
    )


def _origin(
    item: Input, probes: Sequence[Probe], importer: Importer, options: ImportOptions
) -> Origin:
    sha256 = digest([probe.sha256() for probe in probes])
    included = sorted(options.include & importer.INCLUDABLE.keys())
    return Origin(
        options.label or _of_timeline(item, importer).own_label,
        importer.NAME,
        " + ".join(item.shown),
        sha256,
        ":".join((sha256, importer.NAME, str(importer.VERSION), *included)),
        options.tags,
        run_membership(item, options),
    )


def _import_files(
    item: Input,
    probes: Sequence[Probe],
    importer: Importer,
    origin: Origin,
    writer: Writer,
    options: ImportOptions,
) -> tuple[Imported, ...]:
    existing = writer.find(origin.identity)
    if existing and not options.replace:
        writer.met(existing, origin.run)
        return existing
    own = _of_timeline(item, importer)
    claims = rank_claims(own.paths, options.rank_pattern, own.named)
    if options.strict:
        _require_believed(item, options)
    try:
        with closing(importer.read(probes, options.reader)) as recordings:
            return writer.add(
                (with_ranks(recording, claims) for recording in recordings),
                origin,
                partial(options.progress, item.path),
                [profile.profile_id for profile in existing],
                strict=options.strict,
            )
    except InputError as error:
        # Users know nothing of the copy that is read if a journal lies beside the file.
        error.where = next(
            (str(probe.origin) for probe in probes if error.where == str(probe.readable)),
            error.where,
        )
        raise


def _require_believed(item: Input, options: ImportOptions) -> None:
    # This is checked before anything is written, because an import with `replace` could not be undone
    # later.
    with ProfileFile(item, silent, options.include) as file:
        for profile in file.store().profiles():
            profile.examine = examine
            require_exact(profile.notes)


def _open_probes(item: Input, stack: ExitStack, say: Say, threads: int | None) -> Iterator[Probe]:
    # A profile of a database is copied into a private store.
    for path, url, selector in zip_longest(item.paths, item.urls, item.selectors):
        if url:
            name = f"{url.database.replace('/', '-')}.db"
            path = stack.enter_context(private_folder()) / name
            copy_profile(url, selector, path)
        yield stack.enter_context(detection.open_probe(path, say, threads=threads))


def _detected(item: Input, probes: Sequence[Probe]) -> tuple[Importer, list[Probe]]:
    # Returns the importer, and the files of one recording that it reads. Raises InputError if there is
    # none, or the user joins files that it cannot join.
    if item.joined:
        from nsysconv.api.joining import importer_of_joined

        return importer_of_joined(item, probes), list(probes)
    if len(probes) > 1:
        return _detected_group(probes)
    return detection.detect(probes[0]), list(probes)


def _of_timeline(item: Input, importer: Importer) -> Input:
    # What names and records say is said of these files: those joined to them are of another run.
    own = getattr(importer, "own_paths", None)
    return replace(item, paths=own, named=()) if own else item


def _importers_of(
    probes: Sequence[Probe],
) -> tuple[list[tuple[Importer, Probe]], dict[Probe, InputError]]:
    # The files with their importers, and why the others are not read.
    found: list[tuple[Importer, Probe]] = []
    refused: dict[Probe, InputError] = {}
    for probe in probes:
        try:
            found.append((detection.detect(probe), probe))
        except InputError as error:
            refused[probe] = error
    is_part = getattr(found[0][0], "is_part", None) if found and refused else None
    for probe in [probe for probe in refused if is_part and is_part(probe)]:
        found.append((found[0][0], probe))
        del refused[probe]
    return found, refused


def _detected_group(probes: Sequence[Probe]) -> tuple[Importer, list[Probe]]:
    # Files that were found together go by their names; one that is damaged costs what is in it alone.
    found, refused = _importers_of(probes)
    if not found:
        raise next(iter(refused.values()))
    importer, first = found[0]
    whats = {probe: error.what for probe, error in refused.items()}
    whats |= {probe: f"{each.TITLE}" for each, probe in found if each is not importer}
    for probe, what in whats.items():
        text = f"a file of the recording was not read: {what}"
        first.notes.append(Note("part-unread", Severity.DROPPED, text, 1, probe.origin.name))
    return importer, [probe for each, probe in found if each is importer]


# -- in place


class ProfileFile(AbstractContextManager["ProfileFile"]):
    """Stores over the file, or files, of a profile, open as long as it.

    `on_request`: facts to be asked for.
    """

    def __init__(self, item: Input, say: Say, include: Iterable[str] = ()) -> None:
        """Open the files, `include` in all stores over them. Raises InputError if they cannot be read."""
        self._path = item.path
        self._include = frozenset(include)
        self._copies: dict[frozenset[str], Path] = {}
        self._open = ExitStack()
        with ExitStack() as stack:
            probes = list(_open_probes(item, stack, say, None))
            self._importer, self._probes = _detected(item, probes)
            self._open = stack.pop_all()
        own = _of_timeline(item, self._importer)
        self._claims = rank_claims(own.paths, None, own.named)
        label, path = own.own_label, " + ".join(item.shown)
        run = RunMembership(together=f"file {path}", label=label)
        self._origin = Origin(label, self._importer.NAME, path, "", "", run=run)
        # The word that includes rows of a kind is the fact's own, where all such rows are left out.
        self.on_request = frozenset(fact for fact in Fact if fact in self._importer.INCLUDABLE)

    def __exit__(self, *failure: Any) -> None:
        """Close the file and the stores over it; what works on them ends soon where a signal came."""
        self._open.__exit__(*failure)

    def store(self, more: frozenset[str] = frozenset()) -> Store:
        """Return a store over the file, or a copy of its rows if need be, `more` included, too."""
        recordings = self._recordings(self._include | more)
        with detection.refusing_defects(self._path):
            store = self._open.enter_context(open_virtual_store(next(recordings), self._origin))
        if store is None:
            store = self._open.enter_context(reading(self.copy(more)))
        return store

    def copy(self, more: frozenset[str] = frozenset()) -> Path:
        """Return a store in a private folder, with the rows that an import would make, made once."""
        include = self._include | more
        if include not in self._copies:
            store = self._open.enter_context(private_folder()) / "store.db"
            with detection.refusing_defects(self._path), writing(store) as writer:
                added = writer.add(self._recordings(include), self._origin, silent)
                writer.examine(examine, [each.profile_id for each in added])
            self._copies[include] = store
        return self._copies[include]

    def _recordings(self, include: frozenset[str]) -> Iterator[Recording]:
        for recording in self._importer.read(self._probes, Options(include)):
            yield with_ranks(recording, self._claims)
