"""Recordings of nvprof's logs: one for each run of each process, as batches of rows with their notes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from nsysconv import schema
from nsysconv.errors import InputError, NoProfileError
from nsysconv.facts import Fact
from nsysconv.importers.contract import NO_GPU_WORK, lost_gpu_work
from nsysconv.importers.nvprof_log import ADVICE, POSSIBLE
from nsysconv.importers.nvprof_log.survey import TRACES, LogSurvey, NvprofTable, Run
from nsysconv.importers.nvprof_log.totals import Counters, Totals
from nsysconv.importers.nvprof_log.trace import NvprofTraceRows, TraceReader
from nsysconv.importers.printed.quantities import GPU_TOTALS, needless_totals
from nsysconv.importers.printed.recordings import LogPart, PrintedRecording
from nsysconv.importers.printed.registry import IdRegistry
from nsysconv.importers.printed.trace import EVENTS
from nsysconv.importers.probe import Probe
from nsysconv.names import demangler
from nsysconv.notes import Note, Severity
from nsysconv.store.recording import Batch

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
_CUT_OUT = "Cut what nsys stats printed out of the file, and import it from a file of its own."


_Part = LogPart[LogSurvey, Run]


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


class NvprofRecording(PrintedRecording[LogSurvey, Run]):
    """One run of one process."""

    POSSIBLE = POSSIBLE
    ADVICE = ADVICE
    totals: Totals

    def __init__(self, parts: Sequence[_Part], probes: Sequence[Probe], name: str) -> None:
        """Take the tables of a run; several processes may have printed the files that are joined."""
        super().__init__(parts, probes, name)
        self._pids = [part.run.pid for part in parts if part.run.pid is not None]
        if len(pids := set(self._pids)) > 1:
            text = (
                f"the joined files are of several runs (processes {', '.join(map(str, sorted(pids)))}): "
                "links are valid only if the runs made the same calls in the same order"
            )
            facts = frozenset({Fact.API_LINKS})
            self.notes.append(Note("joined-runs", Severity.APPROXIMATED, text, 1, "", facts))
        self._unread: set[Fact] = set()  # of tables with rows that could not be read
        self._ids = IdRegistry(demangler(), next(iter(self._pids), None))
        self.rows, self.totals = NvprofTraceRows(self._ids), Totals(self._ids)
        self._counters = Counters(self._ids)
        self.counters = self._counters.rows

    @classmethod
    def _survey(cls, probe: Probe, path: Path) -> tuple[LogSurvey, list[Run]]:
        survey = LogSurvey(path)
        _refuse_empty(probe, survey)
        return survey, [run for run in survey.runs if run.tables or run.no_data]

    @classmethod
    def _joined(cls, files: list[list[_Part]]) -> list[list[_Part]]:
        # What the files hold of one run of one process is a recording.
        if all(len(parts) == 1 for parts in files):
            return [[part for (part,) in files]]
        recordings: dict[tuple[int | None, int], list[_Part]] = {}
        for parts in files:
            runs: Counter[int | None] = Counter()
            for part in parts:
                recordings.setdefault((part.run.pid, runs[part.run.pid]), []).append(part)
                runs[part.run.pid] += 1
        return list(recordings.values())

    @classmethod
    def _name_of(cls, number: int, recordings: list[list[_Part]]) -> str:
        # By its process, and by its place among those of the same process.
        pids = [parts[0].run.pid for parts in recordings]
        pid = pids[number]
        name = f"pid{pid}" if pid is not None else "run"
        return name if pids.count(pid) == 1 else f"{name}-{pids[: number + 1].count(pid)}"

    @classmethod
    def _needless(cls, parts: Sequence[_Part]) -> frozenset[Fact]:
        kinds = {table.header.kind for part in parts for table in part.run.tables}
        needless = needless_totals(
            gpu_trace=NvprofTable.GPU_TRACE in kinds, api_trace=NvprofTable.API_TRACE in kinds
        )
        if NvprofTable.SUMMARY not in kinds:
            needless |= {Fact.RANGE_TOTALS, Fact.DIRECTIVE_TOTALS}
        return needless

    def _read_tables(self) -> Iterator[Batch]:
        for part in self.parts:
            yield from self._traces(part)
            for table in part.run.tables:
                kind = table.header.kind
                self.facts |= _EVENT_FACTS.get(kind, frozenset())
                if kind is NvprofTable.SUMMARY:
                    self.totals.add_summary(table)
                elif kind is NvprofTable.UNIFIED_MEMORY:
                    self.rows.tally.counts["fault"] += self.totals.add_unified_memory(table)
                elif kind not in TRACES:
                    self._counters.add(table)
            if not any(table.header.kind in TRACES for table in part.run.tables):
                self.facts.update(*(_NO_DATA_FACTS[kind] for kind in part.run.no_data))
        self.facts |= self.totals.known_facts()
        self.facts -= self._unread - {
            fact for name, fact in schema.EVENT_TABLES.items() if self.rows.counts[name]
        }

    def _traces(self, part: _Part) -> Iterator[Batch]:
        for table in part.run.tables:
            if table.header.kind not in TRACES:
                continue
            reader = TraceReader(part.probe, part.path, table)
            only_calls = table.header.kind is NvprofTable.API_TRACE
            yield from self.events(reader.cells(), only_calls=only_calls)
            self.notes += reader.rejected.notes(part.survey.unfinished)
            if "Unified Memory" in table.header.columns:
                self.facts.add(Fact.UNIFIED_MEMORY)
            if reader.rejected.count:
                # A kind without a row is not known to have none.
                self._unread |= _EVENT_FACTS[table.header.kind]
            if count := reader.unitless:
                text = "a table's units row is missing: its times were read as nanoseconds"
                where, severity = f"line {table.line}", Severity.APPROXIMATED
                self.notes.append(Note("number-ambiguous", severity, text, count, where, EVENTS))

    def _printed_rows(self) -> int | None:
        if any(part.run.no_data for part in self.parts):
            return None
        return self.rows.counts.total() + len(self.totals.rows) + len(self.counters)

    def _log_notes(self) -> Iterator[Note]:
        yield from self._counters.notes()
        for part in self.parts:
            yield from message_notes(part.run.messages)
            for table, count in part.run.not_read.items():
                text = f"{table} is not supported yet and was not read"
                yield Note("rows-not-read", Severity.INFO, text, count)
            if tables := part.survey.nsys_tables:
                text = f"tables of nsys stats in the same file were left out: {', '.join(tables)}"
                yield Note("mixed-output", Severity.DROPPED, text, tables.total())
        if self._ids.symbols_only:
            text = "the log prints kernel symbols, and no demangler is installed"
            facts = frozenset({Fact.KERNELS})
            yield Note("symbols-only", Severity.INFO, text, self._ids.symbols_only, "", facts)
        if not self._pids:
            text = "the log does not name its process"
            yield Note("process-unnamed", Severity.INFO, text)
        if any(NvprofTable.GPU_TRACE in part.run.no_data for part in self.parts):
            if call := self._ids.working_call():
                self.facts -= GPU_TOTALS - self.totals.times.keys()
                yield lost_gpu_work(call)
            else:
                yield NO_GPU_WORK


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
