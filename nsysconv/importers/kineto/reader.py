"""A trace file as recordings: chunks are decoded side by side, their rows handed on in order.

A file may hold the merged traces of several processes. The rows of the first are handed on as they are
decoded; those of others wait in files, and become recordings of their own.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from nsysconv import schema
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers.contract import (
    MAX_RECORDINGS,
    NO_GPU_WORK,
    Options,
    too_many_recordings_error,
)
from nsysconv.importers.kineto import ADVICE, ADVICE_WHERE_SET, POSSIBLE, PYTHON_FUNCTIONS
from nsysconv.importers.kineto.arrays import (
    GPU_TABLES,
    ColumnArrays,
    RecordingIndex,
    first_and_last_start,
    tables_of,
)
from nsysconv.importers.kineto.decode import decode_chunks, worker_count
from nsysconv.importers.kineto.packed import ACCELERATOR, FURTHER_ARRAY, LANE_KEY, MISSING, Chunk
from nsysconv.importers.kineto.trace import Metadata, Trace
from nsysconv.importers.probe import Probe
from nsysconv.notes import Note, Severity
from nsysconv.processes import ProcessDiedError
from nsysconv.store.filesystem import private_folder
from nsysconv.store.recording import Batches, ProfileAttributes, Recording, Summary

_SECOND_NS = 1_000_000_000
# Times of day in ns are larger than this since 2001, and no relative time is.
_TIME_OF_DAY_NS = 10**18
_TABLES_WITHOUT_PID = (*GPU_TABLES, "sync", "collective", "overhead")

TableRows = tuple[str, ColumnArrays, list[str]]
"""A table, columns of it, and the names that these index."""


class KinetoReader:
    """Reads one trace file, once, while the batches of its first recording are used up."""

    def __init__(self, probe: Probe, options: Options) -> None:
        """Prepare to read."""
        self._probe = probe
        self._options = options
        self._python_functions = PYTHON_FUNCTIONS in options.include
        self._advice = dict(ADVICE)
        self._trace = Trace(probe.readable)
        self._metadata = Metadata()
        self._findings = Chunk()  # of all chunks, without their rows
        # These are the moment from which rows count, and when the first and the last of all events
        # began. Events need not be in order: a later chunk may begin before the zero, which the first
        # chunk determines.
        self._zero = 0
        self._bounds: tuple[int, int] | None = None
        self._main_pid: int | None = None
        self._current_pid = MISSING
        self._folder: Path
        self._spools: dict[int, _Spool] = {}  # rows of processes other than the first
        self._lanes: dict[int, int] = {}  # as those of Chunk, of all chunks so far

    def recordings(self) -> Iterator[Recording]:
        """Yield the recording of the first process, then those of the other processes in the file."""
        with private_folder() as self._folder:
            yield Recording(self._main_batches(), possible=POSSIBLE)
            for pid, spool in list(self._spools.items()):
                batches = self._spooled_batches(spool, pid)
                yield Recording(batches, possible=POSSIBLE, one_of_several=True)

    # -- rows

    def _main_batches(self) -> Batches:
        index, notes = RecordingIndex(self._findings.texts), list(self._probe.notes)
        late: list[tuple[ColumnArrays, list[str]]] = []
        for table, columns, names in self._rows_of_first_process():
            if table == "memcpy" and (columns["bytes"] == MISSING).any():
                # Their API calls, which may give the bytes, may come later.
                late.append((columns, names))
            elif len(columns["start_ns"]):
                yield index.add(table, columns, names, self._progress)
        for table, columns, names in self._unclaimed_rows():
            if table == "memcpy":
                late.append((columns, names))
            else:
                yield index.add(table, columns, names, self._progress)
        for columns, names in late:
            yield index.add("memcpy", self._with_copy_bytes(columns), names, self._progress)
        self._finish_reading()
        notes += self._notes(index)
        yield from index.rows(self._findings, self._metadata, is_merged=bool(self._spools))
        part = self._part(self._main_pid) if self._spools else ""
        return self._summary(index, notes, part)

    def _spooled_batches(self, spool: _Spool, pid: int) -> Batches:
        index = RecordingIndex(self._findings.texts)
        for table, columns, names in spool.rows():
            if table == "memcpy":
                columns = self._with_copy_bytes(columns)
            yield index.add(table, columns, names, self._progress)
        yield from index.rows(self._findings, self._metadata, is_merged=True)
        return self._summary(index, [self._merged_note()], self._part(pid))

    def _chunks(self) -> Iterator[tuple[Chunk, dict[str, ColumnArrays]]]:
        workers = worker_count(self._probe.size, self._probe.head, self._options.processes)
        with decode_chunks(self._trace, workers, python_functions=self._python_functions) as chunks:
            try:
                first = list(islice(chunks, 1))
                head = self._trace.head  # complete once there is a chunk
                self._metadata.add(head + b"[]}" if head.strip() else b"")
                for chunk in chain(first, chunks):
                    yield chunk, self._tables_of(chunk)
            except ProcessDiedError:
                raise InputError(
                    "a process that read the trace ended early",
                    hint="It was killed, or the memory ran out; nothing was imported.",
                ) from None

    def _tables_of(self, chunk: Chunk) -> dict[str, ColumnArrays]:
        bounds = first_and_last_start(chunk, self._zero if self._bounds else None)
        if bounds is not None:
            first, last = self._bounds or bounds
            if self._bounds is None:
                self._zero = _whole_second(first)
            self._bounds = min(bounds[0], first), max(bounds[1], last)
        tables = tables_of(chunk, self._zero)
        self._findings.add_findings(chunk)
        return tables

    @property
    def _progress(self) -> str:
        return f"{self._trace.offset >> 20:,} MiB of events"

    # -- processes

    def _rows_of_first_process(self) -> Iterator[TableRows]:
        with ExitStack() as stack:
            early: _Spool | None = None  # GPU rows before the first row that names a process
            for chunk, tables in self._chunks():
                if self._main_pid is None and not chunk.pids:
                    early = early or _Spool(stack.enter_context(private_folder()) / "early.rows")
                    for table, columns in tables.items():
                        early.add(table, columns, chunk.names)
                    continue
                if self._main_pid is None:
                    self._main_pid = self._current_pid = chunk.pids[0]
                    for table, columns, names in early.rows() if early is not None else ():
                        yield from self._split_by_process({table: columns}, names)
                yield from self._split_by_process(tables, chunk.names)
                self._lanes |= chunk.lanes
                if chunk.last_pid != MISSING:
                    self._current_pid = chunk.last_pid
            if self._main_pid is None and early is not None:
                for table, columns, names in early.rows():
                    if self._main_pid is None and (columns["pid"] != MISSING).any():
                        self._main_pid = int(columns["pid"].max())
                    yield from self._split_by_process({table: columns}, names)

    def _split_by_process(
        self, tables: dict[str, ColumnArrays], names: list[str]
    ) -> Iterator[TableRows]:
        for table, columns in tables.items():
            columns = self._with_pid(table, columns)
            of_main = (columns["pid"] == self._main_pid) | (columns["pid"] == MISSING)
            if of_main.all():
                yield table, columns, names
                continue
            for pid in np.unique(columns["pid"]).tolist():
                own = {name: values[columns["pid"] == pid] for name, values in columns.items()}
                if pid in (self._main_pid, MISSING):
                    yield table, own, names
                else:
                    self._spool(pid).add(table, own, names)

    def _with_pid(self, table: str, columns: ColumnArrays) -> ColumnArrays:
        """Return the rows with the current process where their chunk names none before them."""
        if table not in _TABLES_WITHOUT_PID:
            return columns
        pid = columns["pid"]
        if (unknown := pid == MISSING).any():
            pid = np.where(unknown, self._current_pid, pid)
        for lane in self._lanes.keys() & set(pid[pid >= LANE_KEY].tolist()):
            pid = np.where(pid == lane, self._lanes[lane], pid)
        return {**columns, "pid": pid}

    def _unclaimed_rows(self) -> Iterator[TableRows]:
        """Yield the rows of the first process among those that come before the process that they name.

        Rows whose process has no other rows belong to the first process, if there is one.
        """
        if self._main_pid is None or self._main_pid >= LANE_KEY:
            return
        for lane in [pid for pid in self._spools if pid >= LANE_KEY]:
            pid = self._lanes.get(lane, self._main_pid)
            for table, columns, names in self._spools.pop(lane).rows():
                columns = {**columns, "pid": np.full(len(columns["pid"]), pid)}
                if pid == self._main_pid:
                    yield table, columns, names
                else:
                    self._spool(pid).add(table, columns, names)

    def _spool(self, pid: int) -> _Spool:
        if pid not in self._spools:
            if len(self._spools) + 1 >= MAX_RECORDINGS:
                raise too_many_recordings_error(str(self._probe.origin))
            self._spools[pid] = _Spool(self._folder / f"{pid}.rows")
        return self._spools[pid]

    def _with_copy_bytes(self, columns: ColumnArrays) -> ColumnArrays:
        """Return copies with the bytes that their API calls give where they have none themselves."""
        keys = zip(columns["pid"].tolist(), columns["correlation_id"].tolist(), strict=True)
        sizes = [
            self._findings.copy_bytes.get(key, MISSING) if size == MISSING else size
            for size, key in zip(columns["bytes"].tolist(), keys, strict=True)
        ]
        return {**columns, "bytes": np.array(sizes, np.int64)}

    @property
    def _pids(self) -> list[int]:
        # The first process comes before the others; a file without a process has no pid.
        return [*([] if self._main_pid is None else [self._main_pid]), *self._spools]

    def _ranks_in_names(self) -> dict[int, int]:
        """Return the ranks of merged processes if all have one number, of their own, beside their pid."""
        texts = [self._findings.texts.get(pid) for pid in self._pids]
        numbers = [re.findall("[0-9]+", text.rest) if text else [] for text in texts]
        ranks = [int(number[0]) for number in numbers if len(number) == 1 and len(number[0]) < 10]
        is_known = len(set(ranks)) == len(texts) > 1
        return dict(zip(self._pids, ranks, strict=True)) if is_known else {}

    def _part(self, pid: int | None) -> str:
        # The recording of a process has its number as name, with the process's name if another has the
        # same number.
        parts: dict[str, int] = {}
        for each in self._pids:
            text = self._findings.texts.get(each)
            part = f"pid{text.number if text else each}"
            if part in parts and text:
                part += "-" + re.sub(r"\W+", "-", text.name)
            parts[f"{part}-{len(parts)}" if part in parts else part] = each
        return next(part for part, each in parts.items() if each == pid)

    # -- the recording as a whole

    def _finish_reading(self) -> None:
        trace = self._trace
        tail = trace.tail.strip()
        if tail and not trace.is_list:
            self._metadata.add(b"{" + tail.lstrip(b","))
        if not self._findings.event_count and not trace.events_found:
            raise InputError(
                "the trace holds no events",
                where=str(self._probe.origin),
                hint="The file is cut off before its traceEvents; record or copy it again.",
            )
        self._findings.ranks |= self._ranks_in_names()
        if trace.further_arrays:
            self._findings.counts[FURTHER_ARRAY] += trace.further_arrays

    def _notes(self, index: RecordingIndex) -> Iterator[Note]:
        findings = self._findings
        yield from _counted_notes(findings)
        yield from _damage_notes(self._trace, self._probe.size, self._metadata)
        if index.row_counts["api_call"]:
            yield _note("api calls partial")
        if findings.event_count and not findings.has_fractions:
            yield _note("coarse times")
        if self._zero_utc_ns() is None:
            yield _note("no time base")
        if not _has_gpu_rows(index):
            if _has_launches(index):
                yield _note("gpu activity missing")
            elif not self._has_accelerator_work:
                yield NO_GPU_WORK
            if self._has_accelerator_work:
                self._advice |= dict.fromkeys(_GPU_FACTS, _NOT_CONVERTED)
        for option, advice in ADVICE_WHERE_SET.items():
            if self._metadata.numbers.get(option):
                self._advice |= advice
        if findings.counts["python functions"]:
            self._advice[Fact.PYTHON_FUNCTIONS] = _LEFT_OUT
        if self._spools:
            yield self._merged_note()
        if unnamed := [row for row in self._device_rows(index) if "name" not in row]:
            yield _note("device unnamed", len(unnamed))

    def _merged_note(self) -> Note:
        is_named = all(pid in self._findings.texts for pid in self._pids)
        return _note("process named" if is_named else "process assumed", len(self._pids))

    def _device_rows(self, index: RecordingIndex) -> list[dict[str, Any]]:
        return index.device_rows(self._metadata, self._findings.sm_counts)

    @property
    def _has_accelerator_work(self) -> bool:
        return any(key.startswith(ACCELERATOR) for key in self._findings.counts)

    @property
    def _late_ns(self) -> int:
        """Return how much later than the second of the first event the moment is that rows count from."""
        if self._bounds is None:
            return 0
        first, last = _whole_second(self._bounds[0]), self._bounds[1]
        # If times lie further apart than a store can keep, no zero suits all of them.
        return self._zero - first if last - first <= schema.TIME_LIMIT_NS else 0

    def _zero_utc_ns(self) -> int | None:
        zero = self._zero - self._late_ns
        if zero >= _TIME_OF_DAY_NS:
            return zero
        base = self._metadata.numbers.get("baseTimeNanoseconds")
        return base + zero if base is not None else None

    def _summary(self, index: RecordingIndex, notes: list[Note], part: str) -> Summary:
        version = self._metadata.numbers.get("schemaVersion")
        return Summary(
            attributes=ProfileAttributes(
                tool_version=self._metadata.tool_version,
                format_version=None if version is None else str(version),
                zero_utc_ns=self._zero_utc_ns(),
                recording_ns=index.end_ns and index.end_ns + self._late_ns,
                driver_version=self._metadata.driver_version,
                host=self._metadata.host,
            ),
            facts=self._facts(index),
            advice=self._advice,
            notes=tuple(notes),
            part=part,
            # Each spooled process has a recording of its own.
            gpu_pids=frozenset(map(index.number_of, index.pids)) | self._spools.keys(),
            one_run=bool(self._spools) and self._findings.texts.keys() >= set(self._pids),
            late_ns=self._late_ns,
        )

    def _facts(self, index: RecordingIndex) -> frozenset[Fact]:
        counts = index.row_counts
        facts = {
            fact
            for name, fact in schema.EVENT_TABLES.items()
            if counts[name] and name != "operator"
        }
        on_gpu = _has_gpu_rows(index)
        # Without launches, no GPU rows means no GPU work, which is known then.
        idle = counts["api_call"] and not _has_launches(index) and not self._has_accelerator_work
        if on_gpu or idle:
            facts |= _GPU_FACTS
        if counts["api_call"]:
            facts.add(Fact.THREADS)
            if on_gpu:
                facts.add(Fact.API_LINKS)
        if counts["operator"] or counts["range"]:
            facts |= {Fact.OPERATORS, Fact.RANGES}
        facts |= {
            _FACT_OF_COLUMN[name] for name in _FACT_OF_COLUMN.keys() & index.recorded_of_operators
        }
        if index.pids & self._findings.ranks.keys() or (
            self._metadata.rank is not None and not self._spools
        ):
            facts.add(Fact.RANKS)
        if self._zero_utc_ns() is not None:
            facts.add(Fact.UTC)
        devices = self._device_rows(index)
        if devices and all("name" in row for row in devices):
            facts.add(Fact.DEVICES)
        return frozenset(facts)


class _Spool:
    # Rows in a file, in the order in which they were added.
    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()

    def add(self, table: str, columns: ColumnArrays, names: list[str]) -> None:
        with self._path.open("ab") as file:
            pickle.dump((table, columns, names), file)

    def rows(self) -> Iterator[TableRows]:
        with self._path.open("rb") as file, suppress(EOFError):
            while True:
                yield pickle.load(file)


def _has_gpu_rows(index: RecordingIndex) -> bool:
    return any(index.row_counts[table] for table in GPU_TABLES)


def _has_launches(index: RecordingIndex) -> bool:
    texts = {number: text for text, number in index.names.items()}
    return any("Launch" in texts[i] or "Memcpy" in texts[i] for i in index.api_names)


def _whole_second(time_ns: int) -> int:
    return time_ns // _SECOND_NS * _SECOND_NS


# -- notes on what was repaired, left out or assumed

_FACT_OF_COLUMN = {
    "shapes_id": Fact.INPUT_SHAPES,
    "types_id": Fact.INPUT_TYPES,
    "stack_id": Fact.STACKS,
    "forward_thread": Fact.FORWARD_LINKS,
    PYTHON_FUNCTIONS: Fact.PYTHON_FUNCTIONS,
}
_GPU_FACTS = frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS})
_TIMED = POSSIBLE.intersection(schema.EVENT_TABLES.values())
_INFO, _APPROXIMATED, _DROPPED = Severity.INFO, Severity.APPROXIMATED, Severity.DROPPED
# Each note has a severity and a text. The keys are those of Chunk.counts, and further ones of this
# module.
_TEXTS = {
    "no number": (_INFO, "values like inf or N/A are not recorded"),
    "no UTF-8": (_INFO, "bytes of names that are not UTF-8 were replaced"),
    "lone backslash": (_INFO, "events with lone backslashes were repaired"),
    "unescaped quote": (_INFO, "events with unescaped quotes were repaired"),
    "control character": (_INFO, "events with raw control characters were repaired"),
    "unreadable": (_DROPPED, "events that are not JSON and could not be repaired were left out"),
    "second array": (_DROPPED, "events of a second traceEvents were left out"),
    "no time stamp": (_DROPPED, "events whose time is not a number were left out"),
    "no duration": (_DROPPED, "events whose duration is not a number were left out"),
    "negative duration": (_DROPPED, "events that end before they start were left out"),
    "impossible time": (_DROPPED, "events more than 104 days away from the first were left out"),
    FURTHER_ARRAY: (
        _APPROXIMATED,
        "the trace has several traceEvents lists; the events of all were read (most programs read only "
        "the last), but not what is between them",
    ),
    "category assumed": (
        _APPROXIMATED,
        "rows of unknown categories were treated as kernels or API calls",
    ),
    "category unknown": (_INFO, "rows of unknown categories were left out"),
    "python functions": (
        _INFO,
        "Python functions were left out; --include python_functions reads them",
    ),
    "api calls partial": (
        _INFO,
        "PyTorch leaves out API calls (cudaGetDevice, cudaSetDevice, cudaGetLastError, event calls, most "
        "driver calls): API time totals are smaller than those of other profilers",
    ),
    "coarse times": (_INFO, "times are whole microseconds: shorter operations take 0 or 1 us"),
    "no time base": (
        _INFO,
        "the trace's times count from an unknown moment (its end, with the time base, is missing)",
    ),
    "gpu activity missing": (_DROPPED, "API calls launched GPU work, but none was recorded"),
    "process assumed": (
        _APPROXIMATED,
        "several processes are merged in this file; GPU rows were assigned to the process whose rows "
        "precede them",
    ),
    "process named": (
        _APPROXIMATED,
        "several processes are merged in this file; the texts in place of their numbers identify them, "
        "their GPU rows and, if the texts have one number more, their ranks",
    ),
    "device unnamed": (_APPROXIMATED, "devices without a description in the trace have no name"),
    "metadata unreadable": (
        _APPROXIMATED,
        "the trace's metadata is not valid JSON; known fields were read from it",
    ),
}
# The slug of others is their key, with hyphens.
_SLUGS = {
    **dict.fromkeys(("no number", "no UTF-8", "lone backslash"), "json-repaired"),
    **dict.fromkeys(("unescaped quote", "control character"), "json-repaired"),
    **dict.fromkeys(("unreadable", "second array"), "event-unreadable"),
    **dict.fromkeys(("no time stamp", "no duration"), "wrong-type"),
    FURTHER_ARRAY: "events-in-two-arrays",
    "python functions": "python-functions-left-out",
    "process named": "process-assumed",
}
# A note touches these facts; the other notes touch all rows with times.
_TOUCHED_FACTS = {
    "category assumed": frozenset({Fact.KERNELS, Fact.API_CALLS}),
    "python functions": frozenset({Fact.PYTHON_FUNCTIONS}),
    "api calls partial": frozenset({Fact.API_CALLS}),
    "no time base": frozenset({Fact.UTC}),
    "gpu activity missing": _GPU_FACTS,
    "process assumed": _GPU_FACTS | {Fact.API_LINKS},
    "process named": _GPU_FACTS | {Fact.API_LINKS, Fact.RANKS},
    "device unnamed": frozenset({Fact.DEVICES}),
    "metadata unreadable": frozenset({Fact.DEVICES, Fact.RANKS, Fact.UTC}),
}
_LEFT_OUT = (
    "They were left out at the import: import the trace again with `--include python_functions`."
)
_NOT_CONVERTED = "The trace is of an accelerator whose events nsysconv does not convert."


def _note(key: str, count: int = 1, where: str = "") -> Note:
    severity, text = _TEXTS[key]
    slug = _SLUGS.get(key, key.replace(" ", "-"))
    return Note(slug, severity, text, count, where, _TOUCHED_FACTS.get(key, _TIMED))


def _counted_notes(findings: Chunk) -> Iterator[Note]:
    for key, count in findings.counts.items():
        offset = findings.first_offsets.get(key)
        where = "" if offset is None else f"byte {offset:,}"
        if key.startswith(ACCELERATOR):
            text = (
                "events of an unsupported accelerator (category "
                f"{key.removeprefix(ACCELERATOR)}) were left out: its work is in no table"
            )
            yield Note("accelerator-left-out", _DROPPED, text, count, where, _TIMED)
        else:
            yield _note(key, count, where)


def _damage_notes(trace: Trace, file_size: int, metadata: Metadata) -> Iterator[Note]:
    if trace.gzip_damage:
        text = f"the compressed data is damaged ({trace.gzip_damage}); what follows is missing"
        where = f"byte {trace.offset:,} of the content"
        yield Note("trace-truncated", _DROPPED, text, 1, where, _TIMED)
    elif trace.lost_bytes is not None:
        text = (
            f"the file ends early; {trace.lost_bytes:,} bytes of an unfinished event were left out, "
            "and what would have followed is missing"
        )
        yield Note("trace-truncated", _DROPPED, text, 1, f"byte {trace.offset:,}", _TIMED)
    if trace.trailing_offset is not None:
        size = file_size - trace.trailing_offset
        text = f"{size:,} bytes after the compressed trace are not gzip and were left out"
        yield Note("trailing-data", _DROPPED, text, 1, f"byte {trace.trailing_offset:,}", _TIMED)
    if metadata.further_events:
        yield _note("second array", metadata.further_events)
    if metadata.damaged and trace.lost_bytes is None:
        yield _note("metadata unreadable")
