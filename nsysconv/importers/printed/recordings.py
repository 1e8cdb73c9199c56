"""Recordings of printed logs: survey, runs, parts, batches, summary. A dialect fills in the steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from nsysconv import schema
from nsysconv.facts import Fact
from nsysconv.importers.contract import MAX_RECORDINGS, too_many_recordings_error
from nsysconv.importers.printed.quantities import PrintedTotals
from nsysconv.importers.printed.registry import Row
from nsysconv.importers.printed.text import refuse_quotations, utf8_files
from nsysconv.importers.printed.trace import TraceCells, TraceRows
from nsysconv.importers.probe import Probe
from nsysconv.notes import Note
from nsysconv.store.recording import Batch, Batches, ProfileAttributes, Recording, Summary, rows_of

Survey = TypeVar("Survey")
Run = TypeVar("Run")
_MIB = 20


@dataclass(frozen=True)
class LogPart(Generic[Survey, Run]):
    """One run's tables in one file, whose survey has them all."""

    probe: Probe
    path: Path
    survey: Survey
    run: Run


Part = LogPart[Survey, Run]


class PrintedRecording(ABC, Generic[Survey, Run]):
    """One recording on its way to the store; `name` is empty if it is all that the files hold.

    A dialect surveys its files, says whose the runs are, and sets `rows` and `totals` when it is made.
    `facts` and `notes` grow while it reads tables.
    """

    POSSIBLE: ClassVar[frozenset[Fact]]
    ADVICE: ClassVar[Mapping[Fact, str]]
    rows: TraceRows
    totals: PrintedTotals
    counters: Sequence[Row] = ()

    def __init__(
        self, parts: Sequence[Part[Survey, Run]], probes: Sequence[Probe], name: str
    ) -> None:
        """Take the tables of a recording."""
        self.parts, self.probes, self.name = parts, probes, name
        self.notes = [note for probe in probes for note in probe.notes]
        self.facts: set[Fact] = set()

    @classmethod
    def recordings(cls, probes: Sequence[Probe]) -> Iterator[Recording]:
        """Yield the recordings of files. Raises InputError for files that hold nothing to import."""
        with utf8_files(probes) as paths:
            files = []
            for probe, path in zip(probes, paths, strict=True):
                survey, runs = cls._survey(probe, path)
                files.append([LogPart(probe, path, survey, run) for run in runs])
            recordings = cls._joined(files)
            if len(recordings) > MAX_RECORDINGS:
                raise too_many_recordings_error(str(probes[0].origin))
            for number, parts in enumerate(recordings):
                name = cls._name_of(number, recordings) if recordings[1:] else ""
                batches, needless = cls(parts, probes, name).batches(), cls._needless(parts)
                yield Recording(
                    batches, possible=cls.POSSIBLE - needless, one_of_several=bool(name)
                )

    def batches(self) -> Batches:
        """Yield all rows; return the summary. Raises InputError for a text that only quotes a table."""
        yield from self._read_tables()
        rows, totals = self.rows, self.totals
        printed = self._printed_rows()
        if not self.name and printed is not None:
            refuse_quotations(self.probes, printed)
        self.notes += [*rows.notes(), *totals.notes()]
        self.notes += self._log_notes()
        yield rows_of(schema.metric_sample, self.counters)
        yield rows_of(schema.aggregate, totals.rows)
        yield from rows.ids.rows()
        if rows.counts["api_call"]:
            self.facts.add(Fact.API_CALLS)
        # Among several processes it is not known whose the GPU's work is.
        if {Fact.KERNELS, Fact.API_CALLS} <= self.facts and len(rows.ids.pids) <= 1:
            self.facts.add(Fact.API_LINKS)
        attributes = ProfileAttributes(recording_ns=rows.end_ns or None)
        facts, notes = frozenset(self.facts), tuple(self.notes)
        return Summary(attributes, facts, self.ADVICE, notes, part=self.name)

    def events(
        self, pieces: Iterable[tuple[TraceCells, int]], *, only_calls: bool
    ) -> Iterator[Batch]:
        """Yield the rows of a trace, given as cells and up to which byte the file is read."""
        for cells, end in pieces:
            done = f"{end >> _MIB:,} MiB of rows"
            yield from self.rows.batches(cells, only_calls=only_calls, done=done)

    # -- what a dialect fills in

    @classmethod
    @abstractmethod
    def _survey(cls, probe: Probe, path: Path) -> tuple[Survey, list[Run]]:
        # What a file holds, and its runs that say anything. Raises InputError for a file without any.
        ...

    @classmethod
    @abstractmethod
    def _joined(cls, files: list[list[Part[Survey, Run]]]) -> list[list[Part[Survey, Run]]]:
        # The parts of each recording, given those of each file.
        ...

    @classmethod
    @abstractmethod
    def _name_of(cls, number: int, recordings: list[list[Part[Survey, Run]]]) -> str:
        # What to call one of several recordings.
        ...

    @classmethod
    @abstractmethod
    def _needless(cls, parts: Sequence[Part[Survey, Run]]) -> frozenset[Fact]:
        # Totals that nobody misses: the events themselves are there, or the log is no summary.
        ...

    @abstractmethod
    def _read_tables(self) -> Iterator[Batch]: ...

    @abstractmethod
    def _printed_rows(self) -> int | None: ...  # None if the text is surely no quotation

    @abstractmethod
    def _log_notes(self) -> Iterator[Note]: ...  # facts that depend on all rows are settled here
