"""Which rank a recording is of, as far as what lies around it tells: its name, its record, the user.

The recording itself comes first, but for `--rank-from`. Importers know nothing of names and records:
the rows of processes are completed on their way into the store.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from nsysconv import record, schema
from nsysconv.api.inputs import Input
from nsysconv.api.targets import Say, silent
from nsysconv.errors import InputError, NsysconvError, StrictError, UsageError
from nsysconv.facts import Fact
from nsysconv.importers import detection
from nsysconv.importers.contract import Importer, Options
from nsysconv.importers.probe import Probe
from nsysconv.notes import Note, Severity
from nsysconv.record import Record
from nsysconv.store.filesystem import private_folder
from nsysconv.store.location import reading, writing
from nsysconv.store.merging import Stored, StoredRun, stored
from nsysconv.store.read import Store
from nsysconv.store.recording import ArrowRows, Batch, Batches, Recording, filter_batches, rows_of
from nsysconv.store.runs import RunMembership
from nsysconv.store.sqlite.virtual_store import NotInPlace, in_place
from nsysconv.store.write import Imported, Origin, Writer

Row = dict[str, Any]

_RANK = r"[0-9]{1,9}"
_NAMED = re.compile(rf"(?<![a-z])(?<!local[_-])rank[_-]?({_RANK})(?![0-9])", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+")
_RANKS = frozenset({Fact.RANKS})
_USER = "--rank-from"
# What goes with a rank: of another rank it says nothing.
_WITH_RANK = ("local_rank", "world_size")
_WITHOUT_RANK = ("host", "job")


@dataclass(frozen=True)
class RankClaim:
    """What one voice says of a recording; `voice` names it."""

    voice: str
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    job: str | None = None
    guessed: bool = False


def pattern(text: str | None) -> re.Pattern[str] | None:
    """The expression of `--rank-from`. Raises UsageError where it is none, or has no group."""
    if text is None:
        return None
    hint = r"Its first group is the rank: --rank-from 'train\.(\d+)\.'"
    try:
        compiled = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(
            f"--rank-from {text!r} is no regular expression: {error}", hint=hint
        ) from None
    if not compiled.groups:
        raise UsageError(f"--rank-from {text!r} has no group", hint=hint)
    return compiled


def rank_from(path: str, wanted: re.Pattern[str]) -> int | None:
    """The rank that `--rank-from` finds in a path as it was named; None where it finds none."""
    match = wanted.search(path)
    found = match.group(1) if match else None
    return int(found) if found is not None and re.fullmatch(_RANK, found) else None


def rank_in_name(path: Path) -> int | None:
    """The rank where a file's name says `rank` and one number: rank0, rank_0, rank-12."""
    found = {int(number) for number in _NAMED.findall(path.name)}
    return found.pop() if len(found) == 1 else None


def rank_claims(
    path: Path, wanted: re.Pattern[str] | None, named: Sequence[str] = ()
) -> list[RankClaim]:
    """What the user, a record beside it and its name say of a file, those that say something.

    `named` is how the user named it, where that is not `path`.
    """
    found = []
    forced = rank_from(named[0] if named else str(path), wanted) if wanted is not None else None
    if forced is not None:
        found.append(RankClaim(_USER, forced))
    beside = record_of(path)
    if beside is not None:
        found.append(
            RankClaim(
                "the record beside it",
                beside.rank,
                beside.local_rank,
                beside.world_size,
                beside.host,
                beside.job,
            )
        )
    guess = rank_in_name(path)
    if guess is not None:
        found.append(RankClaim("the file's name", guess, guessed=True))
    return found


def record_of(path: Path) -> Record | None:
    """The record beside a file; None where there is none, or it is that of another file."""
    found = record.read(record.record_path(path))
    if found is None or (found.report is not None and Path(found.report).stem != path.stem):
        return None
    return found


def suggestion(paths: Sequence[Path]) -> str | None:
    """The `--rank-from` by which the one number in which names differ is their rank.

    Ranks begin at 0; where no name has that, the numbers are those of repeats.
    """
    shapes: dict[str, list[tuple[int, ...]]] = {}
    for path in paths:
        numbers = tuple(int(n) for n in _NUMBER.findall(path.name) if len(n) < 10)
        shapes.setdefault(_NUMBER.sub("0", path.name), []).append(numbers)
    if len(shapes) != 1:
        return None
    ((shape, numbers_of),) = shapes.items()
    if len(numbers_of) < 2 or len({len(numbers) for numbers in numbers_of}) != 1:
        return None
    columns = list(zip(*numbers_of, strict=True))
    differing = [i for i, column in enumerate(columns) if len(set(column)) > 1]
    if len(differing) != 1:
        return None
    ranks = columns[differing[0]]
    if len(set(ranks)) != len(ranks) or min(ranks) != 0:
        return None
    parts = [re.escape(part).replace("\\-", "-") for part in shape.split("0")]
    (at,) = differing
    head = r"\d+".join(parts[: at + 1])
    tail = r"\d+".join(parts[at + 1 :])
    return rf"{head}(\d+){tail}$"


def with_ranks(recording: Recording, claims: Sequence[RankClaim]) -> Recording:
    """Return the recording with what the claims say in its rows of processes.

    One of several recordings of a file is returned as it is: nothing outside the file says which of
    them it is.
    """
    if not claims or recording.one_of_several:
        return recording
    return replace(recording, batches=_RankCompletion(claims).batches(recording.batches))


class _RankCompletion:
    def __init__(self, claims: Sequence[RankClaim]) -> None:
        self._claims = claims
        self._has_rank = False
        self._notes: list[Note] = []
        self._processes: list[ArrowRows] = []

    def batches(self, batches: Batches) -> Batches:
        # Rows of processes come last: only the summary says which of them are at work.
        summary = yield from filter_batches(batches, self._hold_back_processes)
        for batch in self._processes:
            rows = self._completed(batch.rows.to_pylist(), summary.gpu_pids)
            yield rows_of(schema.process, rows)
        host = next((claim.host for claim in self._claims if claim.host), None)
        attributes = summary.attributes
        return replace(
            summary,
            attributes=attributes if attributes.host else replace(attributes, host=host),
            facts=summary.facts | (_RANKS if self._has_rank else frozenset()),
            notes=(*summary.notes, *self._notes),
        )

    def _hold_back_processes(self, batch: Batch) -> bool:
        if not isinstance(batch, ArrowRows) or batch.table != schema.process.name:
            return True
        self._processes.append(batch)
        return False

    def _completed(self, rows: list[Row], gpu_pids: frozenset[int]) -> list[Row]:
        for row in rows:
            for column in _WITHOUT_RANK:
                values = (getattr(claim, column) for claim in self._claims)
                row[column] = row.get(column) or next((value for value in values if value), None)
        ranked = [row for row in rows if row.get("rank") is not None]
        claims = [claim for claim in self._claims if claim.rank is not None]
        working = gpu_pids or {row["pid"] for row in rows}
        only = [row for row in rows if row["pid"] in working] if len(working) == 1 else []
        if claims and only and ranked in ([], only):
            self._set_rank(only[0], claims)
        elif claims and not ranked and rows:
            voices = " and ".join(claim.voice for claim in claims)
            text = f"{voices}: rank {claims[0].rank}, but {len(working)} processes are at work"
            self._notes.append(Note("rank-unused", Severity.INFO, text, facts=_RANKS))
        return rows

    def _set_rank(self, row: Row, claims: Sequence[RankClaim]) -> None:
        own = RankClaim(
            "the recording", row.get("rank"), row.get("local_rank"), row.get("world_size")
        )
        forced = [claim for claim in claims if claim.voice == _USER]
        order = [*forced, own, *(claim for claim in claims if claim not in forced)]
        first, *others = [claim for claim in order if claim.rank is not None]
        row["rank"] = first.rank
        for column in _WITH_RANK:
            agreeing = (getattr(c, column) for c in (first, *others) if c.rank == first.rank)
            row[column] = next((value for value in agreeing if value is not None), None)
        self._has_rank = True
        if first.guessed:
            # The rank is the place, so that the notes of a run's profiles are one with their number.
            text, where = "the rank was taken from the file's name", f"rank {first.rank}"
            note = Note("rank-from-name", Severity.APPROXIMATED, text, 1, where, _RANKS)
            self._notes.append(note)
        for other in others:
            if other.rank != first.rank:
                text = (
                    f"{first.voice} says rank {first.rank}, {other.voice} {other.rank}; "
                    f"{first.rank} was kept"
                )
                self._notes.append(Note("rank-clash", Severity.INFO, text, facts=_RANKS))


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
class ImportOptions:
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


def take_in(
    each: Input, writer: Writer, wishes: ImportOptions, find: Find | None = None
) -> FileResult:
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
    item: Stored,
    writer: Writer,
    wishes: ImportOptions,
    run: RunMembership,
    told: Sequence[RankClaim],
    path: Path,
) -> tuple[Imported, ...]:
    """A store's profile into another, unless it is there. `path` is the file that progress names."""
    existing = writer.find(item.origin.identity)
    if existing and not wishes.replace:
        writer.met(existing, run)
        return existing
    return writer.add(
        [with_ranks(item.recording, told)],
        lambda: replace(item.origin, run=run),
        lambda table, rows: wishes.progress(path, table, rows),
        _acceptance(wishes),
        [one.profile_id for one in existing],
    )


def add_complete(
    store: Path, writer: Writer, wishes: ImportOptions, there: dict[int, Imported], path: Path
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


def belonging(each: Input, wishes: ImportOptions) -> RunMembership:
    """What is known of an input's run before it is read. Ranks in one file are of one run."""
    if each.together is None and not each.is_store:
        return RunMembership(wishes.run, f"file {each.path}", detection.profile_label(each.path))
    return RunMembership(wishes.run, each.together, each.label)


def _merged(each: Input, writer: Writer, wishes: ImportOptions) -> Iterator[Imported]:
    assert each.store is not None
    with stored(each.store) as profiles:
        every = list(profiles)
        told = rank_claims(each.path, wishes.rank_from) if len(every) == 1 else []
        for item in every:
            label = wishes.label or item.origin.label
            origin = replace(item.origin, label=label, tags={**item.origin.tags, **wishes.tags})
            run = _of_unit(item, each, wishes) or belonging(each, wishes)
            yield from add_stored(
                replace(item, origin=origin), writer, wishes, run, told, each.path
            )


def _of_unit(item: Stored, each: Input, wishes: ImportOptions) -> RunMembership | None:
    """Profiles of one run stay one run; None for a run that is no more than its profile."""
    run: StoredRun = item.run
    if wishes.run is not None or (run.profile_count == 1 and run.label == item.origin.label):
        return None
    # Stores of parts of one run have it under one name.
    return RunMembership(
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
    wishes: ImportOptions,
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

    told = [] if len(each.paths) > 1 else rank_claims(each.path, wishes.rank_from, each.named)

    def completed(recordings: Iterator[Recording]) -> Iterator[Recording]:
        for recording in recordings:
            # Not before: rows wait for what the importer has put in the queue, and for no hash.
            hash_sources()
            yield with_ranks(recording, told)

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


def _acceptance(wishes: ImportOptions) -> Callable[[Sequence[Note]], None]:
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


class ProfileFile(AbstractContextManager["ProfileFile"]):
    """A profile file, and stores over it: what they are without depends on what they were asked for.

    `on_request` are the facts that a store has only where they were. Making one raises InputError where
    the file cannot be read. The stores are open as long as the file.
    """

    def __init__(self, path: Path, say: Say) -> None:
        self._path = path
        self._open = ExitStack()
        with ExitStack() as stack:
            self._probe = stack.enter_context(detection.open_probe(path, say))
            self._importer = detection.detect(self._probe)
            self._open = stack.pop_all()
        # The word that includes rows of a kind is the fact's own.
        self.on_request = frozenset(Fact(word) for word in self._importer.INCLUDABLE)

    def __exit__(self, *exception: object) -> None:
        self._open.close()

    def store(self, include: frozenset[str]) -> Store:
        """A store over the file as it is; where it has to be copied, over a private copy of its rows.

        Of rows that are left out of imports unless asked for, those that `include` names are in it.
        """
        origin, recordings = self._source(include)
        try:
            return self._open.enter_context(in_place(next(recordings()), origin))
        except NotInPlace:
            return self._open.enter_context(reading(self._copy(origin, recordings)))

    def copy(self) -> Path:
        """A store in a private folder, with the rows that an import of the file would make."""
        return self._copy(*self._source(frozenset()))

    def _source(self, include: frozenset[str]) -> tuple[Origin, Callable[[], Iterator[Recording]]]:
        """What the file is, and what reads it; as an import does."""
        label = detection.profile_label(self._path)
        run = RunMembership(together=f"file {self._path}", label=label)
        origin = Origin(label, self._importer.NAME, str(self._path), "", "", run=run)
        options = Options(include, in_place=True)
        told = rank_claims(self._path, None)
        return origin, partial(_recordings, self._importer, self._probe, options, told)

    def _copy(self, origin: Origin, recordings: Callable[[], Iterator[Recording]]) -> Path:
        store = self._open.enter_context(private_folder()) / "store.db"
        with writing(store) as writer:
            writer.add(recordings(), lambda: origin, silent)
        return store


def _recordings(
    importer: Importer, probe: Probe, options: Options, told: Sequence[RankClaim]
) -> Iterator[Recording]:
    """The recordings of a file with what its name and the record beside it say of ranks."""
    for recording in importer.read([probe], options):
        yield with_ranks(recording, told)
