"""Logs into recordings: one for each run of each process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nsysconv import schema
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers.contract import MAX_RECORDINGS, NO_GPU_WORK, too_many_recordings_error
from nsysconv.importers.nsys_stats.runs import tables_in
from nsysconv.importers.nvprof_log import messages, remarks
from nsysconv.importers.nvprof_log.counters import Counters
from nsysconv.importers.nvprof_log.gathered import Gathered
from nsysconv.importers.nvprof_log.headers import TRACES, Table
from nsysconv.importers.nvprof_log.pieces import Reader as RowReader
from nsysconv.importers.nvprof_log.survey import Run, Survey
from nsysconv.importers.nvprof_log.totals import Totals
from nsysconv.importers.nvprof_log.trace import TraceRows
from nsysconv.importers.printed import remarks as printed
from nsysconv.importers.printed.aggregates import GPU_SUMS
from nsysconv.importers.printed.encoding import in_utf8
from nsysconv.importers.printed.quoted import refuse_quoted
from nsysconv.importers.probe import Probe
from nsysconv.names import demangler
from nsysconv.notes import Note
from nsysconv.store.recording import Batch, Batches, ProfileAttributes, Recording, Summary, rows_of

_EVENT_FACTS = {
    Table.GPU_TRACE: frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS}),
    Table.API_TRACE: frozenset({Fact.API_CALLS}),
    Table.COUNTERS: frozenset({Fact.METRICS}),
    Table.COUNTER_TRACE: frozenset({Fact.METRICS}),
}
_NOTHING_PROFILED = {Table.GPU_TRACE: GPU_SUMS, Table.API_TRACE: frozenset({Fact.API_TOTALS})}
_MIB = 20
_CUT_OUT = "Cut what nsys stats printed out of the file, and import it from a file of its own."


@dataclass(frozen=True)
class _File:
    """One log: where its text stands, and what is in it; `nsys`: of nsys's tables, which are not read."""

    probe: Probe
    path: Path
    survey: Survey
    nsys: Counter[str]


@dataclass(frozen=True)
class _Part:
    """A run as one file tells it."""

    file: _File
    run: Run


class Reader:
    """Reads logs, once. Several files are parts of one recording."""

    def __init__(
        self, probes: Sequence[Probe], possible: frozenset[Fact], advice: Mapping[Fact, str]
    ) -> None:
        self._probes = probes
        self._possible = possible
        self._advice = advice

    def recordings(self) -> Iterator[Recording]:
        """The recordings of the files, in the order in which they begin."""
        with in_utf8(self._probes) as paths:
            files = [
                _surveyed(probe, path) for probe, path in zip(self._probes, paths, strict=True)
            ]
            runs = [
                [_Part(file, run) for run in file.survey.runs if run.blocks or run.nothing]
                for file in files
            ]
            self._refuse_empty(files, runs)
            found = _joined(runs)
            if len(found) > MAX_RECORDINGS:
                raise too_many_recordings_error(str(self._probes[0].origin))
            firsts = [each[0] for each in found]
            for parts in found:
                yield self._recording(parts, _name_of(parts[0], firsts) if found[1:] else "")

    def _refuse_empty(self, files: Sequence[_File], runs: Sequence[Sequence[_Part]]) -> None:
        """Raises InputError for a file of which nothing can be imported, with its reason."""
        for probe, file, parts in zip(self._probes, files, runs, strict=True):
            if parts and any(part.run.blocks for part in parts):
                continue
            said = [note.text for run in file.survey.runs for note in messages.notes(run.messages)]
            others = sorted({what for run in file.survey.runs for what in run.not_read})
            if file.nsys:
                said.append(_CUT_OUT)
                others += [f"{table} of nsys stats" for table in file.nsys]
            if file.survey.written:
                said.insert(0, f"Import what nvprof wrote: {', '.join(file.survey.written)}.")
            if parts and not file.nsys:
                what = "nvprof profiled nothing: no kernels and no API calls"
            elif others:
                what = f"the log holds only what nsysconv does not read: {', '.join(others)}"
            elif file.survey.written:
                what = "the log holds no table: the profile was written into a file of its own"
            else:
                what = "the log ends before its first table"
            raise InputError(
                what,
                where=str(probe.origin),
                hint="\n".join(dict.fromkeys(said))
                or "Run the program on a GPU that nvprof supports, or record with nsys profile.",
            )

    def _recording(self, parts: Sequence[_Part], name: str) -> Recording:
        """A recording; `name` where it is one of several."""
        pids = {part.run.pid for part in parts if part.run.pid is not None}
        pid = next((part.run.pid for part in parts if part.run.pid is not None), None)
        recording = _Recorded(parts, Gathered(pid, demangler()))
        notes = [note for probe in self._probes for note in probe.notes]
        if len(pids) > 1:
            notes.append(remarks.joined_runs(pids))
        return Recording(
            self._batches(recording, notes, name),
            possible=self._possible - _needless(parts),
            one_of_several=bool(name),
        )

    def _batches(self, recording: _Recorded, notes: list[Note], name: str) -> Batches:
        yield from recording.batches(notes, () if name else self._probes)
        return Summary(
            attributes=ProfileAttributes(recording_ns=recording.gathered.end_ns or None),
            facts=recording.facts(),
            advice=self._advice,
            notes=tuple(notes),
            part=name,
        )


class _Recorded:
    """One recording on its way to the store."""

    def __init__(self, parts: Sequence[_Part], gathered: Gathered) -> None:
        self._parts = parts
        self.gathered = gathered
        self._facts: set[Fact] = set()

    def batches(self, notes: list[Note], whole: Sequence[Probe]) -> Iterator[Batch]:
        """All rows; `notes` are complete afterwards. `whole`: the files of which it is all."""
        rows = TraceRows(self.gathered)
        totals, counters = Totals(self.gathered), Counters(self.gathered)
        for part in self._parts:
            yield from self._traces(part, rows, notes)
            for block in part.run.blocks:
                table = block.header.table
                self._facts |= _EVENT_FACTS.get(table, frozenset())
                if table is Table.SUMMARY:
                    totals.summary(block)
                elif table is Table.UNIFIED_MEMORY:
                    others = totals.unified_memory(block)
                    rows.tally.counts["fault"] += others
                elif table in (Table.COUNTERS, Table.COUNTER_TRACE):
                    counters.add(block)
            for nothing in part.run.nothing:
                if not any(block.header.table in TRACES for block in part.run.blocks):
                    self._facts |= _NOTHING_PROFILED[nothing]
        if whole and not any(part.run.nothing for part in self._parts):
            printed_rows = self.gathered.rows.total() + len(totals.rows) + len(counters.rows)
            refuse_quoted(whole, printed_rows)
        self._facts |= totals.facts
        notes += [*printed.on_traces(rows.tally), *remarks.on_totals(totals)]
        notes += [*remarks.on_counters(counters), *self._on_whole()]
        yield rows_of(schema.metric_sample, counters.rows)
        yield rows_of(schema.aggregate, totals.rows)
        yield from self._small()

    def _traces(self, part: _Part, rows: TraceRows, notes: list[Note]) -> Iterator[Batch]:
        for block in part.run.blocks:
            if block.header.table not in TRACES:
                continue
            reader = RowReader(part.file.probe, part.file.path, block)
            only_calls = block.header.table is Table.API_TRACE
            for cells, end in reader.cells():
                done = f"{end >> _MIB:,} MiB of rows"
                yield from rows.batches(cells, only_calls=only_calls, done=done)
            if "Unified Memory" in block.header.columns:
                self._facts.add(Fact.UNIFIED_MEMORY)
            notes += printed.on_refused(reader.refused, part.file.survey.unfinished)
            if reader.unitless:
                notes.append(remarks.no_units(reader.unitless, block.line))

    def _small(self) -> Iterator[Batch]:
        found = self.gathered
        yield rows_of(schema.device, found.device_rows())
        yield rows_of(schema.process, found.process_rows())
        yield rows_of(schema.thread, found.thread_rows())
        yield rows_of(schema.stream, found.stream_rows())
        yield rows_of(schema.domain, found.domain_rows())
        yield rows_of(schema.name, found.name_rows())

    def _on_whole(self) -> Iterator[Note]:
        for part in self._parts:
            yield from messages.notes(part.run.messages)
            for what, count in part.run.not_read.items():
                yield remarks.not_read(what, count)
            if part.file.nsys:
                yield remarks.nsys_tables(part.file.nsys)
        if self.gathered.symbols_only:
            yield remarks.symbols_only(self.gathered.symbols_only)
        if self.gathered.pid is None:
            yield remarks.no_process()
        if any(Table.GPU_TRACE in part.run.nothing for part in self._parts):
            yield NO_GPU_WORK

    def facts(self) -> frozenset[Fact]:
        """What the recording holds."""
        found = set(self._facts)
        rows = self.gathered.rows
        if rows["api_call"]:
            found.add(Fact.API_CALLS)
        if Fact.KERNELS in found and Fact.API_CALLS in found:
            found.add(Fact.API_LINKS)
        return frozenset(found)


def _surveyed(probe: Probe, path: Path) -> _File:
    survey = Survey(path)
    return _File(probe, path, survey, tables_in(path) if survey.has_nsys else Counter())


def _joined(runs: Sequence[Sequence[_Part]]) -> list[list[_Part]]:
    """The parts of each recording: what the files tell of one run of one process."""
    if all(len(parts) == 1 for parts in runs):
        return [[part for parts in runs for part in parts]]
    found: dict[tuple[int | None, int], list[_Part]] = {}
    for parts in runs:
        times: Counter[int | None] = Counter()
        for part in parts:
            found.setdefault((part.run.pid, times[part.run.pid]), []).append(part)
            times[part.run.pid] += 1
    return list(found.values())


def _name_of(part: _Part, parts: Sequence[_Part]) -> str:
    """What a recording is called among those of its file: by its process, and its place there."""
    same = [other for other in parts if other.run.pid == part.run.pid]
    name = f"pid{part.run.pid}" if part.run.pid is not None else "run"
    return name if len(same) == 1 else f"{name}-{same.index(part) + 1}"


def _needless(parts: Sequence[_Part]) -> frozenset[Fact]:
    """Totals that nobody misses: the events themselves are there, or the log is no summary."""
    blocks = [block for part in parts for block in part.run.blocks]
    tables = {block.header.table for block in blocks}
    needless: set[Fact] = set()
    if Table.GPU_TRACE in tables:
        needless |= {*GPU_SUMS, Fact.UNIFIED_MEMORY_TOTALS}
    if Table.API_TRACE in tables:
        needless.add(Fact.API_TOTALS)
    if Table.SUMMARY not in tables:
        needless |= {Fact.RANGE_TOTALS, Fact.DIRECTIVE_TOTALS}
    return frozenset(needless)
