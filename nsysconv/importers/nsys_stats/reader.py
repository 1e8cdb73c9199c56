"""Printed tables into recordings: the tables of one are those up to the first that comes again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nsysconv import schema
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers.contract import MAX_RECORDINGS, NO_GPU_WORK, too_many_recordings_error
from nsysconv.importers.nsys_stats import remarks
from nsysconv.importers.nsys_stats.cells import TraceReader
from nsysconv.importers.nsys_stats.gathered import Gathered
from nsysconv.importers.nsys_stats.runs import Run, runs
from nsysconv.importers.nsys_stats.survey import Block, Survey
from nsysconv.importers.nsys_stats.tables import TRACES, Table
from nsysconv.importers.nsys_stats.totals import Totals
from nsysconv.importers.nsys_stats.trace import TraceRows
from nsysconv.importers.nsys_stats.trace_totals import TraceTotals
from nsysconv.importers.printed import remarks as printed
from nsysconv.importers.printed.aggregates import GPU_SUMS
from nsysconv.importers.printed.encoding import in_utf8
from nsysconv.importers.printed.lines import Refused
from nsysconv.importers.printed.quoted import refuse_quoted
from nsysconv.importers.probe import Probe
from nsysconv.names import demangler
from nsysconv.notes import Note
from nsysconv.store.recording import Batch, Batches, ProfileAttributes, Recording, Summary, rows_of

_MIB = 20
# What nsys says in the place of a table without rows.
_NO_KERNELS = "CUDA kernel data"
_NOTHING = {_NO_KERNELS: Fact.KERNEL_TOTALS, "GPU memory data": Fact.MEMORY_TOTALS}


@dataclass(frozen=True)
class _File:
    """One log: where its text stands, and what is in it."""

    probe: Probe
    path: Path
    survey: Survey


@dataclass(frozen=True)
class _Part:
    """What one file tells of a recording."""

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
                _File(probe, path, Survey(path))
                for probe, path in zip(self._probes, paths, strict=True)
            ]
            told = [[_Part(file, run) for run in runs(file.survey.items)] for file in files]
            for file, parts in zip(files, told, strict=True):
                _refuse_empty(file, [part.run for part in parts])
            found = _joined([[part for part in parts if part.run.blocks] for parts in told])
            if len(found) > MAX_RECORDINGS:
                raise too_many_recordings_error(str(self._probes[0].origin))
            for number, parts in enumerate(found, 1):
                yield self._recording(parts, f"run-{number}" if found[1:] else "")

    def _recording(self, parts: Sequence[_Part], name: str) -> Recording:
        """A recording; `name` where it is one of several."""
        recording = _Recorded(parts, Gathered(demangler()))
        notes = [note for probe in self._probes for note in probe.notes]
        return Recording(
            self._batches(recording, notes, name),
            possible=self._possible - _needless(set(recording.blocks)),
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
        self.blocks = {t: block for part in parts for t, block in part.run.blocks.items()}
        self.gathered = gathered
        self._facts: set[Fact] = set()

    def batches(self, notes: list[Note], whole: Sequence[Probe]) -> Iterator[Batch]:
        """All rows; `notes` are complete afterwards. `whole`: the files of which it is all."""
        rows, totals = TraceRows(self.gathered), Totals(self.gathered)
        traced = TraceTotals(rows.tally)
        # Calls first: they name the process of the GPU's work.
        for table in sorted(
            TRACES & self.blocks.keys(), key=lambda table: table is Table.GPU_TRACE
        ):
            for part in self._parts:
                if table in part.run.blocks:
                    yield from self._trace(part, part.run.blocks[table], rows, traced, notes)
        cut = list(self._cut_rows())
        tables = {t: block for t, block in self.blocks.items() if t not in TRACES}
        totals.add(tables, traced.figures())
        # Rows whose numbers could be two each are printed rows, though none is kept.
        unsure = totals.ambiguous or any(note.slug == "number-ambiguous" for note in notes)
        if whole and not unsure and not self._nothing():
            told = max(len(totals.rows), traced.rows)
            refuse_quoted(whole, self.gathered.rows.total() + told)
        self._facts |= totals.facts
        if totals.facts & GPU_SUMS:
            # The GPU's work was recorded: what nsys found none of did not happen.
            self._facts |= {_NOTHING[what] for what in self._nothing() & _NOTHING.keys()}
        notes += [*remarks.on_traces(rows), *remarks.on_totals(totals)]
        if traced.rows:
            notes.append(remarks.starts_cut(traced.rows))
        notes += [*cut, *remarks.on_names(self.gathered), *self._on_whole()]
        yield rows_of(schema.aggregate, totals.rows)
        yield from self._small()

    def _trace(
        self,
        part: _Part,
        block: Block,
        rows: TraceRows,
        traced: TraceTotals,
        notes: list[Note],
    ) -> Iterator[Batch]:
        reader = TraceReader(part.file.path, block)
        only_calls = block.table is Table.API_TRACE
        for cells, end in reader.cells():
            if reader.is_cut:
                traced.add(cells, reader.steps, only_calls=only_calls)
                continue
            done = f"{end >> _MIB:,} MiB of rows"
            yield from rows.batches(cells, reader.steps, only_calls=only_calls, done=done)
        if not reader.is_cut:
            self._facts |= _facts_of(block)
        notes += printed.on_refused(reader.refused, part.file.survey.unfinished)
        if reader.ambiguous:
            notes.append(remarks.ambiguous(reader.ambiguous, block.line))
        if reader.no_numbers:
            notes.append(remarks.no_numbers(reader.no_numbers, block.line))

    def _cut_rows(self) -> Iterator[Note]:
        """What of tables of totals is missing because a file ends too early."""
        for part in self._parts:
            unfinished = part.file.survey.unfinished
            for block in part.run.blocks.values():
                if unfinished in block.unread:
                    block.unread = [line for line in block.unread if line != unfinished]
                    yield printed.truncated(unfinished or 0)

    def _small(self) -> Iterator[Batch]:
        found = self.gathered
        yield rows_of(schema.device, found.device_rows())
        yield rows_of(schema.process, found.process_rows())
        yield rows_of(schema.thread, found.thread_rows())
        yield rows_of(schema.stream, found.stream_rows())
        yield rows_of(schema.name, found.name_rows())

    def _on_whole(self) -> Iterator[Note]:
        for part in self._parts:
            if part.file.survey.truncated is not None:
                yield printed.truncated(part.file.survey.truncated)
            for what, count in part.run.not_read.items():
                yield remarks.not_read(what, count)
            foreign = Refused()
            for block in sorted(part.run.blocks.values(), key=lambda block: block.line):
                foreign.take(block.foreign)
            if foreign.count:
                yield remarks.foreign(foreign)
        told = self._facts & {*GPU_SUMS, Fact.KERNELS}
        if not told and Table.API in self.blocks and _NO_KERNELS in self._nothing():
            # Whether there was none, or it was not recorded, nsys does not say.
            yield NO_GPU_WORK

    def _nothing(self) -> set[str]:
        """What nsys says it found none of."""
        return {what for part in self._parts for what in part.run.nothing}

    def facts(self) -> frozenset[Fact]:
        """What the recording holds."""
        found, rows = set(self._facts), self.gathered.rows
        if rows["unified_memory_event"]:
            found.add(Fact.UNIFIED_MEMORY)
        if rows["api_call"]:
            found.add(Fact.API_CALLS)
        # Of several processes nobody knows whose the GPU's work is.
        if {Fact.KERNELS, Fact.API_CALLS} <= found and len(self.gathered.pids) <= 1:
            found.add(Fact.API_LINKS)
        return frozenset(found)


def _facts_of(trace: Block) -> set[Fact]:
    """What the rows of a trace tell."""
    if trace.table is not Table.API_TRACE:
        return {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS}
    return {Fact.API_CALLS} | ({Fact.THREADS} if trace.header.place("tid") is not None else set())


def _refuse_empty(file: _File, found: Sequence[Run]) -> None:
    """Raises InputError for a file of which nothing can be imported, with its reason."""
    if any(run.blocks for run in found):
        return
    others = list(dict.fromkeys(what for run in found for what in run.not_read))
    nothing = list(dict.fromkeys(what for run in found for what in sorted(run.nothing)))
    hint = "Print what nsysconv reads: nsys stats -r cuda_api_sum,cuda_gpu_kern_sum,cuda_gpu_mem_time_sum"
    if others:
        what = f"the file holds only tables that nsysconv does not read: {', '.join(others)}"
        hint += ",cuda_gpu_mem_size_sum -f csv FILE"
    elif nothing:
        what = f"nsys printed no table: it says that there is no {', no '.join(nothing)}"
        hint = "Record with nsys profile --trace=cuda,nvtx … on a GPU that nsys supports."
    else:
        what = "the file ends before its first table"
        hint += ",cuda_gpu_mem_size_sum -f csv FILE"
    raise InputError(what, where=str(file.probe.origin), hint=hint)


def _joined(told: Sequence[Sequence[_Part]]) -> list[list[_Part]]:
    """The parts of each recording: what several files tell of it, or the recordings of one file."""
    if len(told) == 1:
        return [[part] for part in told[0]]
    if any(len(parts) > 1 for parts in told):
        path = next(parts[0].file.probe.origin for parts in told if len(parts) > 1)
        raise InputError(
            "the file holds several recordings and cannot be joined with others",
            where=str(path),
            hint="Import it without --join.",
        )
    parts = [part for of_file in told for part in of_file]
    seen: dict[Table, _Part] = {}
    for part in parts:
        for table in part.run.blocks:
            if table in seen:
                raise InputError(
                    f"the table {table.value} is in another of the joined files, too: "
                    f"{seen[table].file.probe.origin}",
                    where=str(part.file.probe.origin),
                    hint="Join tables of one recording; import recordings one by one.",
                )
            seen[table] = part
    return [parts]


def _needless(tables: set[Table]) -> frozenset[Fact]:
    """Totals that nobody misses: the events themselves are there, or the log is no summary."""
    needless: set[Fact] = set()
    if Table.GPU_TRACE in tables:
        needless |= {*GPU_SUMS, Fact.UNIFIED_MEMORY_TOTALS}
    if Table.API_TRACE in tables:
        needless.add(Fact.API_TOTALS)
    if tables <= TRACES:
        needless |= {Fact.RANGE_TOTALS, Fact.DIRECTIVE_TOTALS, Fact.OSRT_TOTALS}
    return frozenset(needless)
