"""What nvprof says in sentences: known ones become notes, in our words; no other text is copied."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nsysconv import schema
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers.contract import MOST_RECORDINGS, too_many_recordings
from nsysconv.importers.demangle import demangler
from nsysconv.importers.gpu_work import NO_GPU_WORK
from nsysconv.importers.nsys_stats.survey import tables_in
from nsysconv.importers.nvprof_log.survey import TRACES, LogSurvey, NvprofTable, Run
from nsysconv.importers.nvprof_log.totals import Counters, Gathered, Totals
from nsysconv.importers.nvprof_log.trace import NvprofTraceRows, TraceReader
from nsysconv.importers.printed import remarks as printed
from nsysconv.importers.printed.quantities import GPU_TOTALS
from nsysconv.importers.printed.text import refuse_quotations, utf8_files
from nsysconv.importers.probe import Probe
from nsysconv.notes import Note, Severity
from nsysconv.store.recording import Batch, ProfileAttributes, Recording, rows_of

if TYPE_CHECKING:
    from nsysconv.importers.nvprof_log.totals import Counters, Totals

_GPU = frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS})
_API = frozenset({Fact.API_CALLS, Fact.API_TOTALS})
_ALL: frozenset[Fact] = frozenset()

# What a message says -> slug, severity, our text, what it touches. `{}` is the message's number.
_KNOWN: tuple[tuple[re.Pattern[str], str, Severity, str, frozenset[Fact]], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), slug, severity, text, facts)
    for pattern, slug, severity, text, facts in (
        (
            r"\b(\d{1,18}) API trace records have same start and end",
            "profiler-diagnostic",
            Severity.INFO,
            "{} API calls were too short for the timer and have a duration of 0",
            _API,
        ),
        (
            r"\b(\d{1,18}) records have invalid timestamps due to insufficient",
            "profiler-diagnostic",
            Severity.DROPPED,
            "the profiler lost the times of {} records because its buffers were too small "
            "(--device-buffer-size)",
            _GPU,
        ),
        (
            r"kernel\(s\) will be replayed",
            "kernels-serialised",
            Severity.INFO,
            "kernels were run several times, one after the other, to collect events or metrics",
            _GPU | {Fact.METRICS},
        ),
        (
            r"One or more events or metrics can't be profiled",
            "profiler-diagnostic",
            Severity.DROPPED,
            "some events or metrics could not be measured",
            frozenset({Fact.METRICS}),
        ),
        (
            r"Found (\d{1,18}) invalid range marker",
            "profiler-diagnostic",
            Severity.DROPPED,
            "{} markers of ranges were invalid",
            frozenset({Fact.RANGE_TOTALS}),
        ),
        (
            r"Profiling results might be incorrect with current version of nvcc",
            "profiler-diagnostic",
            Severity.INFO,
            "the profiler doubts its results for programs built with a compiler before CUDA 9",
            _ALL,
        ),
        (
            r"not supported on devices with compute capability|doesn't support the underlying device",
            "profiler-diagnostic",
            Severity.DROPPED,
            "nvprof does not support this GPU and recorded nothing of it; use nsys profile",
            _GPU,
        ),
        (
            r"Unified Memory Profiling is not supported",
            "profiler-diagnostic",
            Severity.DROPPED,
            "unified memory was not profiled: the GPUs have no peer-to-peer access",
            frozenset({Fact.UNIFIED_MEMORY, Fact.UNIFIED_MEMORY_TOTALS}),
        ),
        (
            r"Auto boost enabled",
            "profiler-diagnostic",
            Severity.INFO,
            "the GPU changed its clock by itself while it was profiled",
            _ALL,
        ),
        (
            r"Application received signal (\d{1,18})|Application returned non-zero code (\d{1,18})",
            "profiler-diagnostic",
            Severity.INFO,
            "the program ended with signal or status {}",
            _ALL,
        ),
        (
            r"ERR_NVGPUCTRPERM|not have permission to (?:profile|access)",
            "profiler-diagnostic",
            Severity.DROPPED,
            "the user was not permitted to read the GPU's counters",
            frozenset({Fact.METRICS, *_GPU}),
        ),
    )
)
# What goes on from a message before it, or tells only that nvprof is at work.
_IDLE = re.compile(r"Replaying kernel|This can happen because|Profiling all processes|\(done\)")


def notes(messages: Iterable[tuple[int, str]]) -> Iterator[Note]:
    """The messages' notes; those that are not known are counted."""
    unknown: list[int] = []
    for line, said in messages:
        if _IDLE.search(said):
            continue
        for pattern, slug, severity, text, facts in _KNOWN:
            if match := pattern.search(said):
                number = next((group for group in match.groups() if group), "")
                yield Note(slug, severity, text.format(number), 1, f"line {line}", facts)
                break
        else:
            unknown.append(line)
    if unknown:
        yield Note(
            "profiler-diagnostic",
            Severity.INFO,
            "the profiler left messages that nsysconv does not know; read them in the log",
            len(unknown),
            f"line {unknown[0]}",
        )


def on_totals(found: Totals) -> Iterator[Note]:
    """What the tables of totals tell."""
    yield from printed.rounded_times(found.times)
    if found.sizes.count:
        yield Note(
            "rounded-bytes",
            Severity.APPROXIMATED,
            f"bytes of migrations are known to {float(found.sizes.step):,.0f} bytes at the worst",
            found.sizes.count,
            "",
            frozenset({Fact.UNIFIED_MEMORY_TOTALS}),
        )
    for kind, count in found.unknown_types.items():
        text = f"totals of the unknown type {kind!r} were left out"
        yield Note("category-unknown", Severity.DROPPED, text, count)
    yield from printed.incomplete(found.missing)
    if found.unread:
        yield printed.unread(len(found.unread), found.unread[0])


def on_counters(found: Counters) -> Iterator[Note]:
    """What the tables of metrics and events tell."""
    facts = frozenset({Fact.METRICS})
    if found.unread:
        yield printed.unread(len(found.unread), found.unread[0], facts)
    if found.overflows:
        text = "values that the counters could not hold are not recorded"
        yield Note("counter-overflow", Severity.DROPPED, text, found.overflows, "", facts)


def not_read(what: str, count: int) -> Note:
    """A table that has no place yet."""
    text = f"{what} has no table in a store yet and was not read"
    return Note("rows-not-read", Severity.INFO, text, count)


def nsys_tables(tables: Mapping[str, int]) -> Note:
    """Tables of another profiler in the same file."""
    text = f"tables of nsys stats in the same file were left out: {', '.join(tables)}"
    return Note("mixed-output", Severity.DROPPED, text, sum(tables.values()))


def symbols_only(count: int) -> Note:
    """Kernels without demangled names."""
    text = "the log spells symbols of kernels, and no demangler is installed"
    return Note("symbols-only", Severity.INFO, text, count, "", frozenset({Fact.KERNELS}))


def joined_runs(pids: set[int]) -> Note:
    """Files of different runs were joined."""
    listed = ", ".join(map(str, sorted(pids)))
    text = (
        f"the joined files are of several runs (processes {listed}): links hold only as far as the "
        "runs made the same calls in the same order"
    )
    return Note("joined-runs", Severity.APPROXIMATED, text, 1, "", frozenset({Fact.API_LINKS}))


def no_units(count: int, line: int) -> Note:
    """A trace whose row of units is missing or damaged."""
    text = "a table's row of units is missing: its times were taken as nanoseconds"
    return Note(
        "number-ambiguous", Severity.APPROXIMATED, text, count, f"line {line}", printed.EVENTS
    )


def no_process() -> Note:
    """A log without a banner."""
    return Note("process-unnamed", Severity.INFO, "the log does not say which process it is of")


_EVENT_FACTS = {
    NvprofTable.GPU_TRACE: frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS}),
    NvprofTable.API_TRACE: frozenset({Fact.API_CALLS}),
    NvprofTable.COUNTERS: frozenset({Fact.METRICS}),
    NvprofTable.COUNTER_TRACE: frozenset({Fact.METRICS}),
}
_NOTHING_PROFILED = {
    NvprofTable.GPU_TRACE: GPU_TOTALS,
    NvprofTable.API_TRACE: frozenset({Fact.API_TOTALS}),
}
_MIB = 20
_CUT_OUT = "Cut what nsys stats printed out of the file, and import it from a file of its own."


@dataclass(frozen=True)
class _File:
    """One log: where its text stands, and what is in it; `nsys`: of nsys's tables, which are not read."""

    probe: Probe
    path: Path
    survey: LogSurvey
    nsys: Counter[str]


@dataclass(frozen=True)
class _Part:
    """A run as one file tells it."""

    file: _File
    run: Run


class NvprofLogReader:
    """Reads logs, once. Several files are parts of one recording."""

    def __init__(
        self, probes: Sequence[Probe], possible: frozenset[Fact], advice: Mapping[Fact, str]
    ) -> None:
        self._probes = probes
        self._possible = possible
        self._advice = advice

    def recordings(self) -> Iterator[Recording]:
        """The recordings of the files, in the order in which they begin."""
        with utf8_files(self._probes) as paths:
            files = [
                _surveyed(probe, path) for probe, path in zip(self._probes, paths, strict=True)
            ]
            runs = [
                [_Part(file, run) for run in file.survey.runs if run.blocks or run.nothing]
                for file in files
            ]
            self._refuse_empty(files, runs)
            found = _joined(runs)
            if len(found) > MOST_RECORDINGS:
                raise too_many_recordings(str(self._probes[0].origin))
            firsts = [each[0] for each in found]
            for parts in found:
                yield self._recording(parts, _name_of(parts[0], firsts) if found[1:] else "")

    def _refuse_empty(self, files: Sequence[_File], runs: Sequence[Sequence[_Part]]) -> None:
        """Raises InputError for a file of which nothing can be imported, with its reason."""
        for probe, file, parts in zip(self._probes, files, runs, strict=True):
            if parts and any(part.run.blocks for part in parts):
                continue
            said = [note.text for run in file.survey.runs for note in notes(run.messages)]
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
            notes.append(joined_runs(pids))
        return Recording(
            attributes=lambda: ProfileAttributes(recording_ns=recording.gathered.end_ns or None),
            facts=recording.facts,
            advice=self._advice,
            notes=notes,
            batches=recording.batches(notes, () if name else self._probes),
            part=lambda: name,
            possible=self._possible - _needless(parts),
        )


class _Recorded:
    """One recording on its way to the store."""

    def __init__(self, parts: Sequence[_Part], gathered: Gathered) -> None:
        self._parts = parts
        self.gathered = gathered
        self._facts: set[Fact] = set()

    def batches(self, notes: list[Note], whole: Sequence[Probe]) -> Iterator[Batch]:
        """All rows; `notes` are complete afterwards. `whole`: the files of which it is all."""
        rows = NvprofTraceRows(self.gathered)
        totals, counters = Totals(self.gathered), Counters(self.gathered)
        for part in self._parts:
            yield from self._traces(part, rows, notes)
            for block in part.run.blocks:
                table = block.header.table
                self._facts |= _EVENT_FACTS.get(table, frozenset())
                if table is NvprofTable.SUMMARY:
                    totals.summary(block)
                elif table is NvprofTable.UNIFIED_MEMORY:
                    others = totals.unified_memory(block)
                    rows.tally.counts["fault"] += others
                elif table in (NvprofTable.COUNTERS, NvprofTable.COUNTER_TRACE):
                    counters.add(block)
            for nothing in part.run.nothing:
                if not any(block.header.table in TRACES for block in part.run.blocks):
                    self._facts |= _NOTHING_PROFILED[nothing]
        if whole and not any(part.run.nothing for part in self._parts):
            printed_rows = self.gathered.rows.total() + len(totals.rows) + len(counters.rows)
            refuse_quotations(whole, printed_rows)
        self._facts |= totals.facts
        notes += [*printed.on_traces(rows.tally), *on_totals(totals)]
        notes += [*on_counters(counters), *self._on_whole()]
        yield rows_of(schema.metric_sample, counters.rows)
        yield rows_of(schema.aggregate, totals.rows)
        yield from self._small()

    def _traces(self, part: _Part, rows: NvprofTraceRows, notes: list[Note]) -> Iterator[Batch]:
        for block in part.run.blocks:
            if block.header.table not in TRACES:
                continue
            reader = TraceReader(part.file.probe, part.file.path, block)
            only_calls = block.header.table is NvprofTable.API_TRACE
            for cells, end in reader.cells():
                done = f"{end >> _MIB:,} MiB of rows"
                yield from rows.batches(cells, only_calls=only_calls, done=done)
            if "Unified Memory" in block.header.columns:
                self._facts.add(Fact.UNIFIED_MEMORY)
            notes += printed.on_refused(reader.refused, part.file.survey.unfinished)
            if reader.unitless:
                notes.append(no_units(reader.unitless, block.line))

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
            yield from notes(part.run.messages)
            for what, count in part.run.not_read.items():
                yield not_read(what, count)
            if part.file.nsys:
                yield nsys_tables(part.file.nsys)
        if self.gathered.symbols_only:
            yield symbols_only(self.gathered.symbols_only)
        if self.gathered.pid is None:
            yield no_process()
        if any(NvprofTable.GPU_TRACE in part.run.nothing for part in self._parts):
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
    survey = LogSurvey(path)
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
    if NvprofTable.GPU_TRACE in tables:
        needless |= {*GPU_TOTALS, Fact.UNIFIED_MEMORY_TOTALS}
    if NvprofTable.API_TRACE in tables:
        needless.add(Fact.API_TOTALS)
    if NvprofTable.SUMMARY not in tables:
        needless |= {Fact.RANGE_TOTALS, Fact.DIRECTIVE_TOTALS}
    return frozenset(needless)
