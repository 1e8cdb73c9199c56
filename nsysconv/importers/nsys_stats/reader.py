"""Recordings of nsys stats: surveyed, grouped, and handed on as batches of rows with their notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers.contract import NO_GPU_WORK
from nsysconv.importers.nsys_stats import ADVICE, POSSIBLE
from nsysconv.importers.nsys_stats.survey import LogSurvey, PrintedTable, Run, split_runs
from nsysconv.importers.nsys_stats.tables import TRACES, NsysTable
from nsysconv.importers.nsys_stats.totals import (
    AMBIGUOUS,
    NO_NUMBERS,
    TOTALS,
    NsysIds,
    Totals,
    not_read_note,
)
from nsysconv.importers.nsys_stats.trace import NsysTraceRows, TraceReader, TraceTotals
from nsysconv.importers.printed.quantities import GPU_TOTALS, needless_totals
from nsysconv.importers.printed.recordings import LogPart, PrintedRecording
from nsysconv.importers.printed.text import RejectedLines, truncation_note
from nsysconv.importers.printed.trace import EVENTS
from nsysconv.importers.probe import Probe
from nsysconv.names import demangler
from nsysconv.notes import Note, Severity
from nsysconv.store.recording import Batch

# nsys prints these in the place of a table without rows.
_NO_KERNELS = "CUDA kernel data"
_NO_DATA = {_NO_KERNELS: Fact.KERNEL_TOTALS, "GPU memory data": Fact.MEMORY_TOTALS}


_Part = LogPart[LogSurvey, Run]


def _refuse_empty(probe: Probe, runs: Sequence[Run]) -> None:
    if any(run.tables for run in runs):
        return
    not_read = list(dict.fromkeys(table for run in runs for table in run.not_read))
    no_data = list(dict.fromkeys(kind for run in runs for kind in sorted(run.no_data)))
    hint = "Print what nsysconv reads: nsys stats -r cuda_api_sum,cuda_gpu_kern_sum,cuda_gpu_mem_time_sum"
    if not_read:
        reason = f"the file holds only tables that nsysconv does not read: {', '.join(not_read)}"
        hint += ",cuda_gpu_mem_size_sum -f csv FILE"
    elif no_data:
        reason = f"nsys printed no table: it says that there is no {', no '.join(no_data)}"
        hint = "Record with nsys profile --trace=cuda,nvtx … on a GPU that nsys supports."
    else:
        reason = "the file ends before its first table"
        hint += ",cuda_gpu_mem_size_sum -f csv FILE"
    raise InputError(reason, where=str(probe.origin), hint=hint)


class NsysRecording(PrintedRecording[LogSurvey, Run]):
    """One run of nsys stats."""

    POSSIBLE = POSSIBLE
    ADVICE = ADVICE
    totals: Totals

    def __init__(self, parts: Sequence[_Part], probes: Sequence[Probe], name: str) -> None:
        """Take the tables of a run."""
        super().__init__(parts, probes, name)
        self._tables = {kind: table for part in parts for kind, table in part.run.tables.items()}
        self._no_data = {kind for part in parts for kind in part.run.no_data}
        self._ids = NsysIds(demangler())
        self.rows, self.totals = NsysTraceRows(self._ids), Totals(self._ids)
        self._sums = TraceTotals(self.rows.tally)

    @classmethod
    def _survey(cls, probe: Probe, path: Path) -> tuple[LogSurvey, list[Run]]:
        survey = LogSurvey(path)
        runs = list(split_runs(survey.items))
        _refuse_empty(probe, runs)
        return survey, [run for run in runs if run.tables]

    @classmethod
    def _joined(cls, files: list[list[_Part]]) -> list[list[_Part]]:
        if len(files) == 1:
            return [[part] for part in files[0]]
        if several := next((parts for parts in files if len(parts) > 1), None):
            raise InputError(
                "the file holds several recordings and cannot be joined with others",
                where=str(several[0].probe.origin),
                hint="Import it without --join.",
            )
        joined = [part for parts in files for part in parts]
        seen: dict[NsysTable, _Part] = {}
        for part in joined:
            for kind in part.run.tables:
                if kind in seen:
                    raise InputError(
                        f"the table {kind.value} is in another of the joined files, too: "
                        f"{seen[kind].probe.origin}",
                        where=str(part.probe.origin),
                        hint="Join tables of one recording; import recordings one by one.",
                    )
                seen[kind] = part
        return [joined]

    @classmethod
    def _name_of(cls, number: int, recordings: list[list[_Part]]) -> str:
        return f"run-{number + 1}"

    @classmethod
    def _needless(cls, parts: Sequence[_Part]) -> frozenset[Fact]:
        kinds = {kind for part in parts for kind in part.run.tables}
        needless = needless_totals(
            gpu_trace=NsysTable.GPU_TRACE in kinds, api_trace=NsysTable.API_TRACE in kinds
        )
        if kinds <= TRACES:
            needless |= {Fact.RANGE_TOTALS, Fact.DIRECTIVE_TOTALS, Fact.OSRT_TOTALS}
        return needless

    def _read_tables(self) -> Iterator[Batch]:
        # API calls first: they name the process of the GPU's work.
        for kind in (NsysTable.API_TRACE, NsysTable.GPU_TRACE):
            for part in self.parts:
                if kind in part.run.tables:
                    yield from self._trace(part, part.run.tables[kind])
        self._cut_rows = list(self._truncations())
        tables = {kind: table for kind, table in self._tables.items() if kind not in TRACES}
        self.totals.add(tables, self._sums.sums())
        self.facts |= self.totals.facts
        if self.totals.facts & GPU_TOTALS:
            # The GPU's work was recorded: of what nsys did not find, nothing happened.
            self.facts |= {_NO_DATA[kind] for kind in self._no_data & _NO_DATA.keys()}
        if self.rows.counts["unified_memory_event"]:
            self.facts.add(Fact.UNIFIED_MEMORY)

    def _trace(self, part: _Part, table: PrintedTable) -> Iterator[Batch]:
        reader = TraceReader(part.path, table)
        only_calls = table.kind is NsysTable.API_TRACE
        if reader.is_cut:
            for cells, _ in reader.cells():
                self._sums.add(cells, only_calls=only_calls)
        else:
            yield from self.events(reader.cells(), only_calls=only_calls)
            self.facts |= (
                {Fact.API_CALLS} if only_calls else {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS}
            )
            if only_calls and table.header.place("tid") is not None:
                self.facts.add(Fact.THREADS)
        self.notes += reader.rejected.notes(part.survey.unfinished)
        where = f"line {table.line}"
        for slug, text, count in (
            ("number-ambiguous", AMBIGUOUS, reader.ambiguous),
            ("cell-unreadable", NO_NUMBERS, reader.no_numbers),
        ):
            if count:
                self.notes.append(Note(slug, Severity.DROPPED, text, count, where, EVENTS))

    def _printed_rows(self) -> int | None:
        # Rows whose numbers could be two are printed rows, though they are left out.
        is_ambiguous = any(note.slug == "number-ambiguous" for note in self.notes)
        if self._no_data or is_ambiguous or self.totals.ambiguous:
            return None
        return self.rows.counts.total() + max(len(self.totals.rows), self._sums.rows)

    def _truncations(self) -> Iterator[Note]:
        # A last line without an end is no damaged row of a table of totals: the file ends too early.
        for part in self.parts:
            unfinished = part.survey.unfinished
            for table in part.run.tables.values():
                if unfinished in table.unread:
                    table.unread = [line for line in table.unread if line != unfinished]
                    yield truncation_note(unfinished or 0)

    def _log_notes(self) -> Iterator[Note]:
        if self._sums.rows:
            text = (
                "starts in a trace were cut to whole seconds: its rows became totals only; "
                "nsys stats -f csv prints them in full"
            )
            facts, count = EVENTS | TOTALS, self._sums.rows
            yield Note("decimals-cut", Severity.DROPPED, text, count, "", facts)
        yield from (*self._cut_rows, *self._ids.notes())
        for part in self.parts:
            if part.survey.truncated is not None:
                yield truncation_note(part.survey.truncated)
            for table, count in part.run.not_read.items():
                yield not_read_note(table, count)
            lines = RejectedLines()
            for printed in sorted(part.run.tables.values(), key=lambda printed: printed.line):
                lines.extend(printed.foreign)
            if lines.count:
                text = "lines between table rows that do not belong to a table were skipped"
                where = f"line {lines.first}"
                yield Note("foreign-lines", Severity.INFO, text, lines.count, where)
        has_gpu_work = self.facts & {*GPU_TOTALS, Fact.KERNELS}
        if not has_gpu_work and NsysTable.API in self._tables and _NO_KERNELS in self._no_data:
            # nsys does not say whether there was no GPU work or it was not recorded.
            yield NO_GPU_WORK
