"""One trace file into recordings: pieces decoded beside each other, rows handed on as they come."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
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
from nsysconv.importers.kineto import PYTHON_FUNCTIONS, arrays, remarks
from nsysconv.importers.kineto.arrays import GPU_TABLES, Columns, Gathered
from nsysconv.importers.kineto.decode import decoded, worker_count
from nsysconv.importers.kineto.packed import ACCELERATOR, FURTHER_ARRAY, MISSING, Piece
from nsysconv.importers.kineto.trace import Metadata, Trace
from nsysconv.importers.probe import Probe
from nsysconv.names import plain_api_name
from nsysconv.notes import Note
from nsysconv.processes import ProcessDiedError
from nsysconv.store.private import private_folder
from nsysconv.store.recording import Batch, Batches, ProfileAttributes, Recording, Summary, rows_of

_SECOND_NS = 1_000_000_000
# Times of day in ns are larger than this since 2001, and no relative time is.
_TIME_OF_DAY_NS = 10**18
_OF_GPU = (Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS)
# Tables whose rows do not name their process.
_OF_A_PROCESS = (*GPU_TABLES, "sync", "collective", "overhead")

Rows = tuple[str, Columns, list[str]]
"""A table, columns of it, and the names that these point to."""


class Reader:
    """Reads one trace, once. The first recording's batches read the file; merged files hold more."""

    def __init__(
        self,
        probe: Probe,
        options: Options,
        possible: frozenset[Fact],
        advice: Mapping[Fact, str],
    ) -> None:
        self._probe = probe
        self._python_functions = PYTHON_FUNCTIONS in options.include
        self._processes = options.processes
        self._possible = possible
        self._advice = dict(advice)
        self._trace: Trace
        self._metadata = Metadata()
        # What rows count from, and when the first and last event of all began: they may stand anywhere.
        self._zero = 0
        self._span: tuple[int, int] | None = None
        self._counts: Counter[str] = Counter()
        self._first: dict[str, int] = {}
        self._thread_names: dict[tuple[int, ...], str] = {}
        self._process_names: dict[int, str] = {}
        self._ranks: dict[int, int] = {}
        self._sizes: dict[tuple[int, int], int] = {}
        self._sm_counts: dict[int, int] = {}
        self._events = 0
        self._fractions = False
        self._main: int | None = None
        self._current: int = MISSING
        self._spools: dict[int, Spool] = {}

    def recordings(self) -> Iterator[Recording]:
        """The first process's recording, and those of further processes that are merged in the file."""
        with ExitStack() as stack:
            self._folder = stack.enter_context(private_folder())
            gathered, notes = Gathered(), list(self._probe.notes)
            yield Recording(self._batches(gathered, notes), possible=self._possible)
            for pid, spool in self._spools.items():
                batches = self._spooled(Gathered(), spool, _part(pid))
                yield Recording(batches, possible=self._possible, one_of_several=True)

    def _summary(self, gathered: Gathered, notes: list[Note], part: str) -> Summary:
        return Summary(
            attributes=self._attributes(gathered),
            facts=self._facts(gathered),
            advice=self._advice,
            notes=tuple(notes),
            part=part,
            # Of those set aside each has a recording of its own.
            gpu_pids=frozenset(gathered.pids | self._spools.keys()),
            late_ns=self._late_ns,
        )

    # -- rows

    def _batches(self, gathered: Gathered, notes: list[Note]) -> Batches:
        late: list[tuple[Columns, list[str]]] = []
        for table, columns, names in self._of_main():
            if table == "memcpy" and (columns["bytes"] == MISSING).any():
                # Their API calls, which may tell the bytes, may come later.
                late.append((columns, names))
            elif len(columns["start_ns"]):
                yield gathered.take(table, columns, names, self._done)
        for columns, names in late:
            yield gathered.take("memcpy", self._with_sizes(columns), names, self._done)
        self._finish(gathered, notes)
        yield from self._small_batches(gathered)
        return self._summary(gathered, notes, _part(self._main) if self._spools else "")

    def _spooled(self, gathered: Gathered, spool: Spool, part: str) -> Batches:
        for table, columns, names in spool.rows():
            if table == "memcpy":
                columns = self._with_sizes(columns)
            yield gathered.take(table, columns, names, self._done)
        yield from self._small_batches(gathered)
        notes = [remarks.merged_processes(1 + len(self._spools))]
        return self._summary(gathered, notes, part)

    def _small_batches(self, gathered: Gathered) -> Iterator[Batch]:
        yield rows_of(schema.device, device_rows(gathered, self._metadata, self._sm_counts))
        told = self._metadata if not self._spools else Metadata(host=self._metadata.host)
        yield rows_of(
            schema.process,
            process_rows(gathered, self._process_names, self._ranks, told),
        )
        yield rows_of(schema.thread, thread_rows(gathered, self._thread_names))
        yield rows_of(schema.stream, stream_rows(gathered))
        yield rows_of(schema.name, name_rows(gathered))

    def _decoded(self) -> Iterator[tuple[Piece, dict[str, Columns]]]:
        """The pieces of the file, in order, and their rows by table."""
        path = self._probe.readable
        workers = worker_count(self._probe.size, self._probe.head, self._processes)
        self._trace = Trace(path)
        with decoded(self._trace, workers, python_functions=self._python_functions) as pieces:
            try:
                first = list(islice(pieces, 1))
                self._metadata.add(_closed(self._trace.head))
                yield from map(self._noted, chain(first, pieces))
            except ProcessDiedError:
                raise InputError(
                    "a process that read the trace ended early",
                    hint="It was killed, or the memory ran out; nothing was imported.",
                ) from None

    def _noted(self, piece: Piece) -> tuple[Piece, dict[str, Columns]]:
        """Keeps what a piece tells beside its rows."""
        span = arrays.span(piece, self._zero if self._span else None)
        if span is not None and self._span is None:
            self._zero = _whole_second(span[0])
            self._span = span
        elif span is not None and self._span is not None:
            self._span = min(span[0], self._span[0]), max(span[1], self._span[1])
        tables = arrays.tables(piece, self._zero)
        self._counts.update(piece.counts)
        for what, place in piece.first.items():
            self._first.setdefault(what, place)
        self._thread_names.update(piece.threads)
        self._process_names.update(piece.process_names)
        self._ranks.update(piece.ranks)
        self._sizes.update(piece.sizes)
        for device, count in piece.sm_counts.items():
            self._sm_counts.setdefault(device, count)
        self._events += piece.event_count
        self._fractions = self._fractions or piece.has_fractions
        return piece, tables

    @property
    def _done(self) -> str:
        """How far the file is read, for people."""
        return f"{self._trace.place >> 20:,} MiB of events"

    # -- processes

    def _of_main(self) -> Iterator[Rows]:
        """The rows of the first process; those of others are set aside."""
        with ExitStack() as stack:
            early: Spool | None = None  # work of a GPU whose process is met only later
            for piece, tables in self._decoded():
                if self._main is None and not piece.processes_seen:
                    if early is None:
                        early = Spool(stack.enter_context(private_folder()) / "early.rows")
                    for table, columns in tables.items():
                        early.add(table, columns, piece.names)
                    continue
                if self._main is None:
                    self._main = self._current = piece.processes_seen[0]
                    if early is not None:
                        yield from map(self._with_process, early.rows())
                yield from self._of_piece(piece, tables)
                if piece.last_process != MISSING:
                    self._current = piece.last_process
            if self._main is None and early is not None:
                yield from early.rows()

    def _of_piece(self, piece: Piece, tables: dict[str, Columns]) -> Iterator[Rows]:
        several = set(piece.processes_seen) - {self._main} or self._spools
        for rows in tables.items():
            table, columns, names = self._with_process((*rows, piece.names))
            if not several:
                yield table, columns, names
                continue
            pid = columns["pid"]
            for process in np.unique(pid).tolist():
                own = {name: values[pid == process] for name, values in columns.items()}
                if process in (self._main, MISSING):
                    yield table, own, names
                else:
                    self._spool(process).add(table, own, names)

    def _with_process(self, rows: Rows) -> Rows:
        """Rows of a GPU before which their piece names no process: they are the current one's."""
        table, columns, names = rows
        unknown = columns["pid"] == MISSING
        if table in _OF_A_PROCESS and unknown.any():
            columns = {**columns, "pid": np.where(unknown, self._current, columns["pid"])}
        return table, columns, names

    def _spool(self, pid: int) -> Spool:
        if pid not in self._spools:
            if len(self._spools) + 1 >= MAX_RECORDINGS:
                raise too_many_recordings_error(str(self._probe.origin))
            self._spools[pid] = Spool(self._folder / f"{pid}.rows")
        return self._spools[pid]

    def _with_sizes(self, columns: Columns) -> Columns:
        """Copies with the bytes that their API calls told."""
        size, pid, number = columns["bytes"], columns["pid"], columns["correlation_id"]
        told = [
            self._sizes.get((p, n), MISSING) if b == MISSING else b
            for b, p, n in zip(size.tolist(), pid.tolist(), number.tolist(), strict=True)
        ]
        return {**columns, "bytes": np.array(told, np.int64)}

    # -- what is told of the whole

    def _finish(self, gathered: Gathered, notes: list[Note]) -> None:
        trace = self._trace
        if not trace.is_list:
            self._metadata.add(
                b"{" + trace.tail.strip().lstrip(b",") if trace.tail.strip() else b""
            )
        if not self._events and not trace.events_found:
            raise InputError(
                "the trace holds no events",
                where=str(self._probe.origin),
                hint="The file is cut off before its traceEvents; record or copy it again.",
            )
        if trace.further_arrays:
            self._counts[FURTHER_ARRAY] += trace.further_arrays
        notes += remarks.counted(self._counts, self._first)
        if trace.gzip_damage:
            notes.append(remarks.gzip_damage(trace.gzip_damage, trace.place))
        elif trace.lost_bytes is not None:
            notes.append(remarks.truncated(trace.lost_bytes, trace.place))
        if trace.trailing_place is not None:
            notes.append(
                remarks.trailing(self._probe.size - trace.trailing_place, trace.trailing_place)
            )
        if self._metadata.further_events:
            notes.append(remarks.further_events(self._metadata.further_events))
        if self._metadata.damaged and trace.lost_bytes is None:
            notes.append(remarks.METADATA)
        if gathered.rows["api_call"]:
            notes.append(remarks.PARTIAL_API)
        if self._events and not self._fractions:
            notes.append(remarks.COARSE_TIMES)
        if self._zero_utc_ns() is None:
            notes.append(remarks.NO_BASE)
        if not any(gathered.rows[table] for table in GPU_TABLES):
            if self._launched(gathered):
                notes.append(remarks.LOST_GPU_WORK)
            elif not self._accelerated:
                notes.append(NO_GPU_WORK)
            if self._accelerated:
                self._advice |= dict.fromkeys(_OF_GPU, remarks.NOT_CONVERTED)
        if self._spools:
            notes.append(remarks.merged_processes(1 + len(self._spools)))
        unnamed = [
            row
            for row in device_rows(gathered, self._metadata, self._sm_counts)
            if "name" not in row
        ]
        if unnamed:
            notes.append(remarks.device_unnamed(len(unnamed)))

    def _launched(self, gathered: Gathered) -> bool:
        """Whether API calls put work on a GPU."""
        texts = {number: text for text, number in gathered.names.items()}
        return any("Launch" in texts[i] or "Memcpy" in texts[i] for i in gathered.api_names)

    @property
    def _accelerated(self) -> bool:
        """Whether work of an accelerator was left out."""
        return any(what.startswith(ACCELERATOR) for what in self._counts)

    @property
    def _late_ns(self) -> int:
        """How much later than the second of the first event the moment is that rows count from."""
        if self._span is None:
            return 0
        first, last = _whole_second(self._span[0]), self._span[1]
        # Of times further apart than a store keeps, no zero is right for all.
        return self._zero - first if last - first <= schema.TIME_LIMIT_NS else 0

    def _zero_utc_ns(self) -> int | None:
        zero = self._zero - self._late_ns
        if zero >= _TIME_OF_DAY_NS:
            return zero
        base = self._metadata.numbers.get("baseTimeNanoseconds")
        return base + zero if base is not None else None

    def _attributes(self, gathered: Gathered) -> ProfileAttributes:
        version = self._metadata.numbers.get("schemaVersion")
        return ProfileAttributes(
            tool_version=self._metadata.tool_version,
            format_version=None if version is None else str(version),
            zero_utc_ns=self._zero_utc_ns(),
            recording_ns=gathered.end_ns and gathered.end_ns + self._late_ns,
            driver_version=self._metadata.driver_version,
            host=self._metadata.host,
        )

    def _facts(self, gathered: Gathered) -> frozenset[Fact]:
        rows = gathered.rows
        facts = {
            item.fact
            for name, item in schema.EVENT_TABLES.items()
            if rows[name] and (name != "operator")
        }
        on_gpu = any(rows[table] for table in GPU_TABLES)
        idle = rows["api_call"] and not self._launched(gathered) and not self._accelerated
        if on_gpu or idle:
            facts.update(_OF_GPU)
        if rows["api_call"]:
            facts.add(Fact.THREADS)
            if on_gpu:
                facts.add(Fact.API_LINKS)
        if rows["operator"] or rows["range"]:
            facts |= {Fact.OPERATORS, Fact.RANGES}
        if self._python_functions and self._events:
            facts.add(Fact.PYTHON_FUNCTIONS)
        if gathered.pids & self._ranks.keys() or (
            self._metadata.rank is not None and not self._spools
        ):
            facts.add(Fact.RANKS)
        if self._zero_utc_ns() is not None:
            facts.add(Fact.UTC)
        devices = device_rows(gathered, self._metadata, self._sm_counts)
        if devices and all("name" in row for row in devices):
            facts.add(Fact.DEVICES)
        return frozenset(facts)


class Spool:
    """Rows set aside in a file until the first recording is written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()

    def add(self, table: str, columns: Columns, names: list[str]) -> None:
        """Appends rows."""
        with self._path.open("ab") as file:
            pickle.dump((table, columns, names), file)

    def rows(self) -> Iterator[Rows]:
        """The rows, as they were added."""
        with self._path.open("rb") as file:
            while True:
                try:
                    yield pickle.load(file)
                except EOFError:
                    return


def _part(pid: int | None) -> str:
    """What a recording is called among those of its file."""
    return f"pid{pid}"


def _whole_second(time_ns: int) -> int:
    return time_ns // _SECOND_NS * _SECOND_NS


def _closed(head: bytes) -> bytes:
    """The text before the events as an object of its own."""
    return head + b"[]}" if head.strip() else b""


Row = dict[str, Any]


def device_rows(found: Gathered, told: Metadata, sm_counts: Mapping[int, int]) -> list[Row]:
    """The devices with GPU operations.

    A device is described under its own number. ROCm numbers devices otherwise than it describes them:
    where all that are described are alike, that is what they are.
    """
    alike = list(told.devices.values())
    shared = alike[0] if alike and all(each == alike[0] for each in alike) else {}
    rows = []
    for device in sorted(found.devices):
        row = {"device_id": device, "ordinal": device, **told.devices.get(device, shared)}
        if "sm_count" not in row and device in sm_counts:
            row["sm_count"] = sm_counts[device]
        rows.append(row)
    return rows


def process_rows(
    found: Gathered, names: Mapping[int, str], ranks: Mapping[int, int], told: Metadata
) -> list[Row]:
    """The processes with events. What the trace says of its rank is said of its only process; `ranks` are
    those of processes, of traces that were merged."""
    alone = len(found.pids) == 1
    return [
        {
            "pid": pid,
            "name": names.get(pid),
            "rank": told.rank if alone and told.rank is not None else ranks.get(pid),
            "world_size": told.world_size if alone else None,
            "host": told.host,
        }
        for pid in sorted(found.pids)
    ]


def thread_rows(found: Gathered, names: Mapping[tuple[int, ...], str]) -> list[Row]:
    """The threads with events."""
    return [
        {"pid": pid, "tid": tid, "name": names.get((pid, tid))}
        for pid, tid in sorted(found.threads)
    ]


def stream_rows(found: Gathered) -> list[Row]:
    """The streams with GPU operations."""
    return [
        {"pid": pid, "context_id": context, "stream_id": stream}
        for pid, context, stream in sorted(found.streams)
    ]


def name_rows(found: Gathered) -> list[Row]:
    """The names that rows refer to."""
    return [
        {
            "id": number,
            "text": text,
            "plain": plain_api_name(text) if number in found.api_names else None,
        }
        for text, number in found.names.items()
    ]
