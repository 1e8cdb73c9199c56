"""Recordings of nvprof's logs: one for each run of each process, as batches of rows with their notes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nsysconv import schema
from nsysconv.errors import InputError, NoProfileError
from nsysconv.facts import Fact
from nsysconv.importers.contract import (
    MAX_RECORDINGS,
    NO_GPU_WORK,
    lost_gpu_work,
    too_many_recordings_error,
)
from nsysconv.importers.nvprof_log import ADVICE, POSSIBLE
from nsysconv.importers.nvprof_log.survey import TRACES, LogSurvey, NvprofTable, Run
from nsysconv.importers.nvprof_log.totals import Counters, Totals
from nsysconv.importers.nvprof_log.trace import NvprofTraceRows, TraceReader
from nsysconv.importers.printed.quantities import GPU_TOTALS, needless_totals
from nsysconv.importers.printed.registry import IdRegistry
from nsysconv.importers.printed.text import refuse_quotations, utf8_files
from nsysconv.importers.printed.trace import EVENTS
from nsysconv.importers.probe import Probe
from nsysconv.names import demangler
from nsysconv.notes import Note, Severity
from nsysconv.store.recording import Batch, Batches, ProfileAttributes, Recording, Summary, rows_of

_EVENT_FACTS = {
    NvprofTable.GPU_TRACE: frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS}),
    NvprofTable.API_TRACE: frozenset({Fact.API_CALLS}),
    **dict.fromkeys((NvprofTable.COUNTERS, NvprofTable.COUNTER_TRACE), frozenset({Fact.METRICS})),
}
# What it records that nvprof found nothing.
_NO_DATA_FACTS = {
    NvprofTable.GPU_TRACE: GPU_TOTALS,
    NvprofTable.API_TRACE: frozenset({Fact.API_TOTALS}),
}
_MIB = 20
_CUT_OUT = "Cut what nsys stats printed out of the file, and import it from a file of its own."


@dataclass(frozen=True)
class _LogPart:
    # One run's tables in one file.
    probe: Probe
    path: Path
    survey: LogSurvey
    run: Run


def read_recordings(probes: Sequence[Probe]) -> Iterator[Recording]:
    """Yield the recordings of files. Raises InputError for files that hold nothing to import."""
    with utf8_files(probes) as paths:
        files = []
        for probe, path in zip(probes, paths, strict=True):
            survey = LogSurvey(path)
            runs = [run for run in survey.runs if run.tables or run.no_data]
            files.append([_LogPart(probe, path, survey, run) for run in runs])
            _refuse_empty(probe, survey)
        recordings = _joined(files)
        if len(recordings) > MAX_RECORDINGS:
            raise too_many_recordings_error(str(probes[0].origin))
        firsts = [parts[0] for parts in recordings]
        for parts in recordings:
            name = _name_of(parts[0], firsts) if recordings[1:] else ""
            yield Recording(
                _PrintedRecording(parts, probes, name).batches(),
                possible=POSSIBLE - _needless(parts),
                one_of_several=bool(name),
            )


def _refuse_empty(probe: Probe, survey: LogSurvey) -> None:
    runs, written = survey.runs, survey.written
    if any(run.tables for run in runs):
        return
    hints = [note.text for run in runs for note in message_notes(run.messages)]
    not_read = sorted({table for run in runs for table in run.not_read})
    if survey.nsys_tables:
        hints.append(_CUT_OUT)
        not_read += [f"{table} of nsys stats" for table in survey.nsys_tables]
    if written:
        hints.insert(0, f"Import what nvprof wrote: {', '.join(written)}.")
    error: type[InputError] = InputError
    if any(run.no_data for run in runs) and not survey.nsys_tables:
        reason = "nvprof profiled nothing: no kernels and no API calls"
    elif not_read:
        reason = f"the log holds only what nsysconv does not read: {', '.join(not_read)}"
    elif written:
        # It lies beside the profile.
        error = NoProfileError
        reason = "the log holds no table: the profile was written into a file of its own"
    else:
        reason = "the log ends before its first table"
    raise error(
        reason,
        where=str(probe.origin),
        hint="\n".join(dict.fromkeys(hints))
        or "Run the program on a GPU that nvprof supports, or record with nsys profile.",
    )


def _joined(files: Sequence[Sequence[_LogPart]]) -> list[list[_LogPart]]:
    # What the files hold of one run of one process is a recording.
    if all(len(parts) == 1 for parts in files):
        return [[part for (part,) in files]]
    recordings: dict[tuple[int | None, int], list[_LogPart]] = {}
    for parts in files:
        runs: Counter[int | None] = Counter()
        for part in parts:
            recordings.setdefault((part.run.pid, runs[part.run.pid]), []).append(part)
            runs[part.run.pid] += 1
    return list(recordings.values())


def _name_of(part: _LogPart, parts: Sequence[_LogPart]) -> str:
    # By its process, and by its place among those of the same process.
    same = [other for other in parts if other.run.pid == part.run.pid]
    name = f"pid{part.run.pid}" if part.run.pid is not None else "run"
    return name if len(same) == 1 else f"{name}-{same.index(part) + 1}"


def _needless(parts: Sequence[_LogPart]) -> frozenset[Fact]:
    # Totals that nobody misses: the events themselves are there, or the log is no summary.
    kinds = {table.header.kind for part in parts for table in part.run.tables}
    needless = needless_totals(
        gpu_trace=NvprofTable.GPU_TRACE in kinds, api_trace=NvprofTable.API_TRACE in kinds
    )
    if NvprofTable.SUMMARY not in kinds:
        needless |= {Fact.RANGE_TOTALS, Fact.DIRECTIVE_TOTALS}
    return needless


class _PrintedRecording:
    def __init__(self, parts: Sequence[_LogPart], probes: Sequence[Probe], name: str) -> None:
        # `name` is empty if the recording is all that the files hold.
        self._parts = parts
        self._probes = probes
        self._name = name
        self._pids = [part.run.pid for part in parts if part.run.pid is not None]
        self._notes = [note for probe in probes for note in probe.notes]
        if len(pids := set(self._pids)) > 1:
            text = (
                f"the joined files are of several runs (processes {', '.join(map(str, sorted(pids)))}): "
                "links are valid only if the runs made the same calls in the same order"
            )
            facts = frozenset({Fact.API_LINKS})
            self._notes.append(Note("joined-runs", Severity.APPROXIMATED, text, 1, "", facts))
        self._facts: set[Fact] = set()
        self._unread: set[Fact] = set()  # of tables with rows that could not be read

    def batches(self) -> Batches:
        ids = IdRegistry(demangler(), next(iter(self._pids), None))
        rows, totals, counters = NvprofTraceRows(ids), Totals(ids), Counters(ids)
        for part in self._parts:
            yield from self._traces(part, rows)
            for table in part.run.tables:
                kind = table.header.kind
                self._facts |= _EVENT_FACTS.get(kind, frozenset())
                if kind is NvprofTable.SUMMARY:
                    totals.add_summary(table)
                elif kind is NvprofTable.UNIFIED_MEMORY:
                    rows.tally.counts["fault"] += totals.add_unified_memory(table)
                elif kind not in TRACES:
                    counters.add(table)
            if not any(table.header.kind in TRACES for table in part.run.tables):
                self._facts.update(*(_NO_DATA_FACTS[kind] for kind in part.run.no_data))
        if not self._name and not any(part.run.no_data for part in self._parts):
            printed_rows = rows.counts.total() + len(totals.rows) + len(counters.rows)
            refuse_quotations(self._probes, printed_rows)
        self._facts |= totals.known_facts()
        self._facts -= self._unread - {
            fact for name, fact in schema.EVENT_TABLES.items() if rows.counts[name]
        }
        self._notes += [*rows.tally.notes(), *totals.notes(), *counters.notes()]
        self._notes += self._log_notes(ids)
        if any(note.slug == "gpu-activity-missing" for note in self._notes):
            self._facts -= GPU_TOTALS - totals.times.keys()
        yield rows_of(schema.metric_sample, counters.rows)
        yield rows_of(schema.aggregate, totals.rows)
        yield from ids.rows()
        if rows.counts["api_call"]:
            self._facts.add(Fact.API_CALLS)
        if {Fact.KERNELS, Fact.API_CALLS} <= self._facts:
            self._facts.add(Fact.API_LINKS)
        return Summary(
            attributes=ProfileAttributes(recording_ns=rows.end_ns or None),
            facts=frozenset(self._facts),
            advice=ADVICE,
            notes=tuple(self._notes),
            part=self._name,
        )

    def _traces(self, part: _LogPart, rows: NvprofTraceRows) -> Iterator[Batch]:
        for table in part.run.tables:
            if table.header.kind not in TRACES:
                continue
            reader = TraceReader(part.probe, part.path, table)
            only_calls = table.header.kind is NvprofTable.API_TRACE
            for cells, end in reader.cells():
                done = f"{end >> _MIB:,} MiB of rows"
                yield from rows.batches(cells, only_calls=only_calls, done=done)
            if "Unified Memory" in table.header.columns:
                self._facts.add(Fact.UNIFIED_MEMORY)
            self._notes += reader.rejected.notes(part.survey.unfinished)
            if reader.rejected.count:
                # A kind without a row is not known to have none.
                self._unread |= _EVENT_FACTS[table.header.kind]
            if count := reader.unitless:
                text = "a table's units row is missing: its times were read as nanoseconds"
                where, severity = f"line {table.line}", Severity.APPROXIMATED
                self._notes.append(Note("number-ambiguous", severity, text, count, where, EVENTS))

    def _log_notes(self, ids: IdRegistry) -> Iterator[Note]:
        for part in self._parts:
            yield from message_notes(part.run.messages)
            for table, count in part.run.not_read.items():
                text = f"{table} is not supported yet and was not read"
                yield Note("rows-not-read", Severity.INFO, text, count)
            if tables := part.survey.nsys_tables:
                text = f"tables of nsys stats in the same file were left out: {', '.join(tables)}"
                yield Note("mixed-output", Severity.DROPPED, text, tables.total())
        if ids.symbols_only:
            text = "the log prints kernel symbols, and no demangler is installed"
            facts = frozenset({Fact.KERNELS})
            yield Note("symbols-only", Severity.INFO, text, ids.symbols_only, "", facts)
        if not self._pids:
            text = "the log does not name its process"
            yield Note("process-unnamed", Severity.INFO, text)
        if any(NvprofTable.GPU_TRACE in part.run.no_data for part in self._parts):
            call = ids.working_call()
            yield lost_gpu_work(call) if call else NO_GPU_WORK


# -- what nvprof says in sentences: known ones become notes in our words, no other text is copied

_GPU = frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS})
_API = frozenset({Fact.API_CALLS, Fact.API_TOTALS})
_METRICS = frozenset({Fact.METRICS})
_MIGRATIONS = frozenset({Fact.UNIFIED_MEMORY, Fact.UNIFIED_MEMORY_TOTALS})

_DIAGNOSTIC, _SERIALIZED = "profiler-diagnostic", "kernels-serialized"
_INFO, _DROPPED = Severity.INFO, Severity.DROPPED
# What a message says -> slug, severity, our text, what it touches. `{}` is the message's number.
_MESSAGES: tuple[tuple[re.Pattern[str], str, Severity, str, frozenset[Fact]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), slug, severity, text, facts)
    for pattern, slug, severity, text, facts in (
        (r"\b(\d{1,18}) API trace records have same start and end", _DIAGNOSTIC, _INFO,
         "{} API calls were too short for the timer and have a duration of 0", _API),
        (r"\b(\d{1,18}) records have invalid timestamps due to insufficient", _DIAGNOSTIC, _DROPPED,
         "the profiler lost the times of {} records because its buffers were too small "
         "(--device-buffer-size)", _GPU),
        (r"kernel\(s\) will be replayed", _SERIALIZED, _INFO,
         "kernels were serialized and run several times to collect events or metrics",
         _GPU | _METRICS),
        (r"One or more events or metrics can't be profiled", _DIAGNOSTIC, _DROPPED,
         "some events or metrics could not be measured", _METRICS),
        (r"Found (\d{1,18}) invalid range marker", _DIAGNOSTIC, _DROPPED,
         "{} range markers were invalid", frozenset({Fact.RANGE_TOTALS})),
        (r"Profiling results might be incorrect with current version of nvcc", _DIAGNOSTIC, _INFO,
         "the profiler doubts its results for programs built with a compiler before CUDA 9",
         frozenset()),
        (r"not supported on devices with compute capability|doesn't support the underlying device",
         _DIAGNOSTIC, _DROPPED,
         "nvprof does not support this GPU and did not record it; use nsys profile", _GPU),
        (r"Unified Memory Profiling is not supported", _DIAGNOSTIC, _DROPPED,
         "unified memory was not profiled: the GPUs have no peer-to-peer access", _MIGRATIONS),
        (r"Auto boost enabled", _DIAGNOSTIC, _INFO,
         "the GPU changed its clock automatically during profiling", frozenset()),
        (r"Application received signal (\d{1,18})|Application returned non-zero code (\d{1,18})",
         _DIAGNOSTIC, _INFO, "the program ended with signal or status {}", frozenset()),
        (r"ERR_NVGPUCTRPERM|not have permission to (?:profile|access)", _DIAGNOSTIC, _DROPPED,
         "the user was not permitted to read the GPU's counters", _GPU | _METRICS),
    )
)  # fmt: skip
# What continues the message before it, or says only that nvprof is at work.
_IDLE = re.compile(r"Replaying kernel|This can happen because|Profiling all processes|\(done\)")


def message_notes(messages: Iterable[tuple[int, str]]) -> Iterator[Note]:
    """Yield the notes of messages, given with their lines; unknown ones are counted in one note."""
    unknown: list[int] = []
    for line, message in messages:
        if _IDLE.search(message):
            continue
        for pattern, slug, severity, text, facts in _MESSAGES:
            if match := pattern.search(message):
                number = next((group for group in match.groups() if group), "")
                yield Note(slug, severity, text.format(number), 1, f"line {line}", facts)
                break
        else:
            unknown.append(line)
    if unknown:
        text = "the profiler left messages unknown to nsysconv; read them in the log"
        yield Note(_DIAGNOSTIC, Severity.INFO, text, len(unknown), f"line {unknown[0]}")
