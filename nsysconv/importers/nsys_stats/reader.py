"""Recordings of nsys stats: surveyed, grouped, and handed on as batches of rows with their notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nsysconv import schema
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers.contract import MAX_RECORDINGS, NO_GPU_WORK, too_many_recordings_error
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
from nsysconv.importers.printed.text import (
    RejectedLines,
    refuse_quotations,
    truncation_note,
    utf8_files,
)
from nsysconv.importers.printed.trace import EVENTS
from nsysconv.importers.probe import Probe
from nsysconv.names import demangler
from nsysconv.notes import Note, Severity
from nsysconv.store.recording import Batch, Batches, ProfileAttributes, Recording, Summary, rows_of

_MIB = 20
# nsys prints these in the place of a table without rows.
_NO_KERNELS = "CUDA kernel data"
_NO_DATA = {_NO_KERNELS: Fact.KERNEL_TOTALS, "GPU memory data": Fact.MEMORY_TOTALS}


@dataclass(frozen=True)
class LogPart:
    """One recording's tables in one file."""

    probe: Probe
    path: Path
    survey: LogSurvey
    run: Run


def read_recordings(
    probes: Sequence[Probe], possible: frozenset[Fact], advice: Mapping[Fact, str]
) -> Iterator[Recording]:
    """Yield the recordings of one file, or the one that several files make together.

    Raises InputError for files that hold nothing to import, or that cannot be joined.
    """
    with utf8_files(probes) as paths:
        surveys = [
            (probe, path, LogSurvey(path)) for probe, path in zip(probes, paths, strict=True)
        ]
        files = [
            [LogPart(probe, path, survey, run) for run in split_runs(survey.items)]
            for probe, path, survey in surveys
        ]
        for probe, parts in zip(probes, files, strict=True):
            _refuse_empty(probe, [part.run for part in parts])
        recordings = _joined([[part for part in parts if part.run.tables] for parts in files])
        if len(recordings) > MAX_RECORDINGS:
            raise too_many_recordings_error(str(probes[0].origin))
        for number, parts in enumerate(recordings, 1):
            kinds = {kind for part in parts for kind in part.run.tables}
            name = f"run-{number}" if recordings[1:] else ""
            yield Recording(
                PrintedRecording(parts, probes, name).batches(advice),
                possible=possible - _needless(kinds),
                one_of_several=bool(name),
            )


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


def _joined(files: Sequence[Sequence[LogPart]]) -> list[list[LogPart]]:
    if len(files) == 1:
        return [[part] for part in files[0]]
    if several := next((parts for parts in files if len(parts) > 1), None):
        raise InputError(
            "the file holds several recordings and cannot be joined with others",
            where=str(several[0].probe.origin),
            hint="Import it without --join.",
        )
    joined = [part for parts in files for part in parts]
    seen: dict[NsysTable, LogPart] = {}
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


def _needless(kinds: set[NsysTable]) -> frozenset[Fact]:
    # Totals are not needed if the events are in the log, or if the log is not a summary.
    needless = needless_totals(
        gpu_trace=NsysTable.GPU_TRACE in kinds, api_trace=NsysTable.API_TRACE in kinds
    )
    if kinds <= TRACES:
        needless |= {Fact.RANGE_TOTALS, Fact.DIRECTIVE_TOTALS, Fact.OSRT_TOTALS}
    return needless


class PrintedRecording:
    """One recording on its way to the store."""

    def __init__(self, parts: Sequence[LogPart], probes: Sequence[Probe], name: str) -> None:
        """Take the tables of a recording; `name` is empty if it is all that the files hold."""
        self._parts = parts
        self._probes = probes
        self._name = name
        self._tables = {kind: table for part in parts for kind, table in part.run.tables.items()}
        self._no_data = {kind for part in parts for kind in part.run.no_data}
        self._notes = [note for probe in probes for note in probe.notes]
        self._facts: set[Fact] = set()

    def batches(self, advice: Mapping[Fact, str]) -> Batches:
        """Yield all rows; return the summary. Raises InputError for a text that only quotes a table."""
        ids = NsysIds(demangler())
        rows, totals = NsysTraceRows(ids), Totals(ids)
        sums = TraceTotals(rows.tally)
        # API calls first: they name the process of the GPU's work.
        for kind in (NsysTable.API_TRACE, NsysTable.GPU_TRACE):
            for part in self._parts:
                if kind in part.run.tables:
                    yield from self._trace(part, part.run.tables[kind], rows, sums)
        cut_rows = list(self._cut_rows())
        totals.add({k: table for k, table in self._tables.items() if k not in TRACES}, sums.sums())
        # Rows whose numbers could be two are printed rows, though they are left out.
        ambiguous = totals.ambiguous or any(n.slug == "number-ambiguous" for n in self._notes)
        if not (self._name or ambiguous or self._no_data):
            printed_rows = rows.counts.total() + max(len(totals.rows), sums.rows)
            refuse_quotations(self._probes, printed_rows)
        self._facts |= totals.facts
        if totals.facts & GPU_TOTALS:
            # The GPU's work was recorded: of what nsys did not find, nothing happened.
            self._facts |= {_NO_DATA[kind] for kind in self._no_data & _NO_DATA.keys()}
        self._notes += rows.tally.notes()
        if rows.without_pid:
            text = "the GPU trace names no process; the only one of the API trace was assumed"
            severity, count = Severity.APPROXIMATED, rows.without_pid
            self._notes.append(Note("process-assumed", severity, text, count, "", EVENTS))
        self._notes += totals.notes()
        if sums.rows:
            text = (
                "starts in a trace were cut to whole seconds: its rows became totals only; "
                "nsys stats -f csv prints them in full"
            )
            facts = EVENTS | TOTALS
            self._notes.append(Note("decimals-cut", Severity.DROPPED, text, sums.rows, "", facts))
        self._notes += [*cut_rows, *ids.notes(), *self._log_notes()]
        yield rows_of(schema.aggregate, totals.rows)
        yield from ids.rows()
        return Summary(
            attributes=ProfileAttributes(recording_ns=rows.end_ns or None),
            facts=self._all_facts(rows, ids),
            advice=advice,
            notes=tuple(self._notes),
            part=self._name,
        )

    def _trace(
        self, part: LogPart, table: PrintedTable, rows: NsysTraceRows, sums: TraceTotals
    ) -> Iterator[Batch]:
        reader = TraceReader(part.path, table)
        only_calls = table.kind is NsysTable.API_TRACE
        for cells, end in reader.cells():
            if reader.is_cut:
                sums.add(cells, only_calls=only_calls)
            else:
                done = f"{end >> _MIB:,} MiB of rows"
                yield from rows.batches(cells, only_calls=only_calls, done=done)
        if not reader.is_cut:
            self._facts |= (
                {Fact.API_CALLS} if only_calls else {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS}
            )
            if only_calls and table.header.place("tid") is not None:
                self._facts.add(Fact.THREADS)
        self._notes += reader.rejected.notes(part.survey.unfinished)
        where = f"line {table.line}"
        for slug, text, count in (
            ("number-ambiguous", AMBIGUOUS, reader.ambiguous),
            ("cell-unreadable", NO_NUMBERS, reader.no_numbers),
        ):
            if count:
                self._notes.append(Note(slug, Severity.DROPPED, text, count, where, EVENTS))

    def _cut_rows(self) -> Iterator[Note]:
        # A last line without an end is no damaged row of a table of totals: the file ends too early.
        for part in self._parts:
            unfinished = part.survey.unfinished
            for table in part.run.tables.values():
                if unfinished in table.unread:
                    table.unread = [line for line in table.unread if line != unfinished]
                    yield truncation_note(unfinished or 0)

    def _log_notes(self) -> Iterator[Note]:
        for part in self._parts:
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
        has_gpu_work = self._facts & {*GPU_TOTALS, Fact.KERNELS}
        if not has_gpu_work and NsysTable.API in self._tables and _NO_KERNELS in self._no_data:
            # nsys does not say whether there was no GPU work or it was not recorded.
            yield NO_GPU_WORK

    def _all_facts(self, rows: NsysTraceRows, ids: NsysIds) -> frozenset[Fact]:
        facts = set(self._facts)
        if rows.counts["unified_memory_event"]:
            facts.add(Fact.UNIFIED_MEMORY)
        if rows.counts["api_call"]:
            facts.add(Fact.API_CALLS)
        # Among several processes it is not known whose the GPU's work is.
        if {Fact.KERNELS, Fact.API_CALLS} <= facts and len(ids.pids) <= 1:
            facts.add(Fact.API_LINKS)
        return frozenset(facts)
