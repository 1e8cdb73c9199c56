"""One input into a store: a profile file, several that are joined, or a store."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

from nsysconv.api.inputs import Input
from nsysconv.api.ranks import Told, ranked, voices
from nsysconv.api.words import Say
from nsysconv.errors import InputError, NsysconvError, StrictError
from nsysconv.importers import detection
from nsysconv.importers.contract import Importer, Options
from nsysconv.importers.probe import Probe
from nsysconv.notes import Note, Severity
from nsysconv.store.merging import Stored, StoredRun, stored
from nsysconv.store.profiles import Origin
from nsysconv.store.recording import Recording
from nsysconv.store.runs import Belonging
from nsysconv.store.write import Imported, Writer

Progress = Callable[[Path, str, int], None]
"""Called with the file, the table and the number of source rows just copied."""


@dataclass(frozen=True)
class FileResult:
    """What became of one input: `imported` recordings, or `error`; `skipped` where a folder held it."""

    path: Path
    imported: tuple[Imported, ...] = ()
    error: NsysconvError | None = None
    skipped: bool = False


@dataclass(frozen=True)
class Wishes:
    """What is asked for all inputs alike.

    `label` None: each is called after its file; `run` None: ranks and jobs tell which run it is of.
    `threads` may work on one input beside the one that copies rows.
    """

    options: Options
    label: str | None
    tags: Mapping[str, str]
    run: str | None
    rank_from: re.Pattern[str] | None
    replace: bool
    strict: bool
    progress: Progress
    say: Say
    threads: int


Find = Callable[[str], tuple[Imported, ...]]
"""What is in the store already, by the identity of its file."""


def take_in(each: Input, writer: Writer, wishes: Wishes, find: Find | None = None) -> FileResult:
    """One input into the store; what is wrong with it is in the result.

    `find` is asked before rows are copied, for hashing first is cheaper than copying rows that are
    there; without it the store is new.
    """
    try:
        if each.is_store:
            return FileResult(each.path, tuple(_merged(each, writer, wishes)))
        with ExitStack() as stack:
            probes = [
                stack.enter_context(detection.open_probe(one, wishes.say, threads=wishes.threads))
                for one in each.paths
            ]
            try:
                importer = _detected(probes)
            except InputError as error:
                return FileResult(each.path, error=_kept(error), skipped=each.from_folder)
            return FileResult(each.path, _written(each, probes, importer, writer, wishes, find))
    except (InputError, StrictError) as error:
        if not error.where:
            error.where = str(each.path)
        return FileResult(each.path, error=_kept(error))


def _kept(error: NsysconvError) -> NsysconvError:
    """The error without where it was raised, which would keep all that was at hand there."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def digest(digests: Sequence[str]) -> str:
    """The digest of an input: its file's, or of those of the files that were joined."""
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def add_stored(
    item: Stored, writer: Writer, wishes: Wishes, run: Belonging, told: Sequence[Told], path: Path
) -> tuple[Imported, ...]:
    """A store's profile into another, unless it is there. `path` is the file that progress names."""
    existing = writer.find(item.origin.identity)
    if existing and not wishes.replace:
        writer.met(existing, run)
        return existing
    return writer.add(
        [ranked(item.recording, told)],
        lambda: replace(item.origin, run=run),
        lambda table, rows: wishes.progress(path, table, rows),
        _acceptance(wishes),
        [one.profile_id for one in existing],
    )


def add_complete(
    store: Path, writer: Writer, wishes: Wishes, there: dict[int, Imported], path: Path
) -> None:
    """The profiles of a new store into the one that was made in its place; `there` tells by their numbers
    what became of them, and which need not be added again. `path` is the file that progress names.
    """
    each = Input((store,), store=store)
    with stored(store) as profiles:
        for item in profiles:
            if item.profile_id not in there:
                run = _of_unit(item, each, wishes) or belonging(each, wishes)
                (there[item.profile_id],) = add_stored(item, writer, wishes, run, [], path)


def belonging(each: Input, wishes: Wishes) -> Belonging:
    """What is known of an input's run before it is read. Ranks in one file are of one run."""
    if each.together is None and not each.is_store:
        return Belonging(wishes.run, f"file {each.path}", detection.profile_label(each.path))
    return Belonging(wishes.run, each.together, each.label)


def _merged(each: Input, writer: Writer, wishes: Wishes) -> Iterator[Imported]:
    assert each.store is not None
    with stored(each.store) as profiles:
        every = list(profiles)
        told = voices(each.path, wishes.rank_from) if len(every) == 1 else []
        for item in every:
            label = wishes.label or item.origin.label
            origin = replace(item.origin, label=label, tags={**item.origin.tags, **wishes.tags})
            run = _of_unit(item, each, wishes) or belonging(each, wishes)
            yield from add_stored(
                replace(item, origin=origin), writer, wishes, run, told, each.path
            )


def _of_unit(item: Stored, each: Input, wishes: Wishes) -> Belonging | None:
    """Profiles of one run stay one run; None for a run that is no more than its profile."""
    run: StoredRun = item.run
    if wishes.run is not None or (run.profile_count == 1 and run.label == item.origin.label):
        return None
    # Stores of parts of one run have it under one name.
    return Belonging(
        together=f"run {run.label}",
        label=run.label,
        unit=f"run {run.id} of {each.path}",
        ranks=run.ranks,
    )


def _written(
    each: Input,
    probes: Sequence[Probe],
    importer: Importer,
    writer: Writer,
    wishes: Wishes,
    find: Find | None,
) -> tuple[Imported, ...]:
    """The recordings of an input into the store, or those that are there already."""
    hashing: list[Future[str]] = []

    def hash_sources() -> None:
        if not hashing:
            hashing.extend(probe.submit(probe.sha256) for probe in probes)

    def hashed() -> str:
        hash_sources()
        return digest([one.result() for one in hashing])

    replacing: Sequence[int] = ()
    if find is not None:
        existing = find(_identity(hashed(), importer, wishes.options))
        if existing and not wishes.replace:
            writer.met(existing, belonging(each, wishes))
            return existing
        replacing = [one.profile_id for one in existing]

    def origin() -> Origin:
        return Origin(
            wishes.label or detection.profile_label(each.path),
            importer.NAME,
            " + ".join(map(str, each.named or each.paths)),
            hashed(),
            _identity(hashed(), importer, wishes.options),
            wishes.tags,
            belonging(each, wishes),
        )

    told = [] if len(each.paths) > 1 else voices(each.path, wishes.rank_from, each.named)

    def completed(recordings: Iterator[Recording]) -> Iterator[Recording]:
        for recording in recordings:
            # Not before: rows wait for what the importer has put in the queue, and for no hash.
            hash_sources()
            yield ranked(recording, told)

    try:
        with closing(importer.read(probes, wishes.options)) as recordings:
            return writer.add(
                completed(recordings),
                origin,
                lambda table, rows: wishes.progress(each.path, table, rows),
                _acceptance(wishes),
                replacing,
            )
    except InputError as error:
        # Users know nothing of the copy that is read where a journal lies beside the file.
        error.where = next(
            (str(probe.origin) for probe in probes if error.where == str(probe.readable)),
            error.where,
        )
        raise


def _detected(probes: Sequence[Probe]) -> Importer:
    """The importer of all files. Raises InputError where there is none, or none that joins them."""
    importers = [detection.detect(probe) for probe in probes]
    first = importers[0]
    if len(probes) > 1 and not (first.JOINS and all(other is first for other in importers)):
        titles = ", ".join(dict.fromkeys(importer.TITLE for importer in importers))
        raise InputError(
            f"files of this kind cannot be joined: {titles}",
            where=str(probes[0].origin),
            hint="Only logs are parts of one recording. Import the files without --join.",
        )
    return first


def _identity(hashed: str, importer: Importer, options: Options) -> str:
    asked = sorted(options.include & importer.INCLUDABLE.keys())
    return ":".join((hashed, importer.NAME, str(importer.VERSION), *asked))


def _acceptance(wishes: Wishes) -> Callable[[Sequence[Note]], None]:
    return _strictly if wishes.strict else _everything


def _everything(notes: Sequence[Note]) -> None:
    pass


def _strictly(notes: Sequence[Note]) -> None:
    doubtful = [note for note in notes if note.severity is not Severity.INFO]
    if doubtful:
        texts = "\n".join(f"  {note.slug}: {note.text} ({note.count})" for note in doubtful)
        raise StrictError(
            "not imported, because --strict allows nothing dropped or approximated", hint=texts
        )
