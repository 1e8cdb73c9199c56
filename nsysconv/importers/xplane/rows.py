"""Events of a line as rows of our tables: of a GPU's streams, and of the host's threads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from nsysconv import codes, schema
from nsysconv.importers import rocm
from nsysconv.importers.wire import Array
from nsysconv.importers.xplane import details
from nsysconv.importers.xplane.events import EventDecoder, Events, distinct
from nsysconv.importers.xplane.notes import Tally
from nsysconv.importers.xplane.planes import Line
from nsysconv.report import MISSING

Columns = dict[str, Array]
TableRows = Iterator[tuple[str, Columns]]

GPU_NUMBERS = ("correlation_id", "theoretical_occupancy_pct", "context_id", "cuda_graph_node_id")
GPU_WORDS = ("kernel_details", "memcpy_details", "memset_details")
HOST_NUMBERS = ("correlation_id", "step_num", "allocation_bytes", "bytes_allocated", "addr")
HOST_WORDS = ("allocator_name",)
"""Stats of the events of each that become columns."""

_GPU_TABLES = ("kernel", "memcpy", "memset")
_UNNAMED = "(unnamed launch)"
# What JAX's profiler does where it starts and stops, as Python functions.
_PROFILER = re.compile(r"profiler\.py:\d+ (?:start|stop)_trace")
_PROFILER_OVERHEAD = codes.OVERHEAD_KINDS.index("profiler")
_PUSH_POP = codes.RANGE_KINDS.index("push_pop")
_OPERATOR, _PYTHON = (codes.OPERATOR_KINDS.index(k) for k in ("operator", "python_function"))
_DEVICE_MEMORY = codes.MEMORY_KINDS.index("Device")
_LIMIT_NS = schema.TIME_LIMIT_NS
_NEVER = -(1 << 62)


class Source:
    """A plane that is read: its lines, and what its names say.

    `device` is the number of the GPU; MISSING for a plane of the host. `is_users`: its events are
    annotations of the program.
    """

    def __init__(
        self, texts: Sequence[str], decoder: EventDecoder, lines: list[Line],
        device: int = MISSING, vendor: str = "", *, is_users: bool = False,
    ) -> None:  # fmt: skip
        """Look at each name once. The place -1, the last, is that of events without a name."""
        self.decoder, self.lines, self.device, self.vendor = decoder, lines, device, vendor
        self.is_users = is_users
        nameless = details.HostName(details.RUNTIME, "", MISSING)
        self.said = [*map(details.host_name, texts), nameless] if device == MISSING else []
        self.names = [each.name for each in self.said] or [*map(rocm.kernel_name, texts), ""]
        self.kinds = np.array([each.kind for each in self.said])
        self.steps = np.array([each.step for each in self.said])
        self.is_profiler = np.array([bool(_PROFILER.fullmatch(each.name)) for each in self.said])
        self.tables = np.array([*map(details.kind_by_name, texts), ""])


@dataclass
class Thread:
    """What a thread's events up to here say of those that follow."""

    is_users: bool
    end_of_execution: int = _NEVER
    end_of_profiler: int = _NEVER


@dataclass
class RowMaker:
    """Makes rows, and keeps what small tables need.

    `runtime_kernels` are AMD's, by number; `step_ns` is the time in annotated steps, by their name.
    """

    tally: Tally
    python_functions: bool
    pid: int = MISSING
    zero_ns: int = 0
    end_ns: int = 0
    has_python: bool = False
    names: dict[str, int] = field(default_factory=dict)
    api_names: set[str] = field(default_factory=set)
    runtime_kernels: Counter[str] = field(default_factory=Counter)
    step_ns: Counter[str] = field(default_factory=Counter)
    threads: dict[int, str] = field(default_factory=dict)
    streams: set[tuple[int, int, int]] = field(default_factory=set)

    def _id(self, name: str) -> int:
        return self.names.setdefault(name, len(self.names) + 1) if name else MISSING

    def _timed(self, line: Line, events: Events) -> tuple[Columns, Array]:
        # The result is columns of all rows, and which of the events have a time that can be.
        most = _LIMIT_NS * 1000 + 1000
        offset, duration = events.offset_ps.clip(-most, most), events.duration_ps.clip(0, most)
        base = min(max(line.start_ns - self.zero_ns, -2 * _LIMIT_NS), 2 * _LIMIT_NS)
        start = base + offset // 1000
        # Both ends are floored, so that nesting stays intact; the sum of both may not fit in 64 bits.
        dur = duration // 1000 + (offset % 1000 + duration % 1000) // 1000
        keep = ~events.is_aggregated
        self.tally.mark("aggregated", ~keep, events.byte)
        for key, mask in (
            ("negative duration", events.duration_ps < 0),
            ("impossible time", (np.abs(start) > _LIMIT_NS) | (dur > _LIMIT_NS)),
        ):
            self.tally.mark(key, mask & keep, events.byte)
            keep &= ~mask
        self.end_ns = int((start + dur)[keep].max(initial=self.end_ns))
        self.tally.mark("nameless", keep & (events.name < 0), events.byte)
        is_timeless = (start == 0) & (dur == 0)
        start, dur = (np.where(is_timeless, MISSING, values) for values in (start, dur))
        return {"start_ns": start, "dur_ns": dur, "pid": np.full(len(events), self.pid)}, keep

    # -- streams of a GPU

    def of_stream(self, source: Source, line: Line, stream: int, events: Events) -> TableRows:
        """Yield the kernels, copies and memsets of a stream's events."""
        columns, keep = self._timed(line, events)
        columns |= {
            "device_id": np.full(len(events), source.device),
            "context_id": _zero_as_null(events.stats["context_id"]),
            "stream_id": np.full(len(events), stream),
            "correlation_id": _zero_as_null(events.stats["correlation_id"]),
            "graph_node_id": _zero_as_null(events.stats["cuda_graph_node_id"]),
        }
        table, byte = source.tables[events.name], events.byte
        for name, word in reversed([*zip(_GPU_TABLES, GPU_WORDS, strict=True)]):
            table = np.where(events.stats[word] != MISSING, name, table)
        # Without details, only what a call launched is known to be a kernel.
        has_details = events.stats["kernel_details"] != MISSING
        is_launched = has_details | (columns["correlation_id"] != MISSING)
        is_unknown = (table == "") | ((table == "kernel") & ~is_launched)
        self.tally.mark("stream event unknown", is_unknown & keep, byte)
        keep &= ~is_unknown
        contexts, _ = distinct(columns["context_id"][keep])
        self.streams.update((source.device, context, stream) for context in contexts)
        makers = {"kernel": self._kernels, "memcpy": self._copies, "memset": self._sets}
        for name, make in makers.items():
            which = np.flatnonzero(keep & (table == name))
            if len(which):
                rows = {column: values[which] for column, values in columns.items()}
                yield name, rows | make(source, line, events, which)

    def _kernels(self, source: Source, line: Line, events: Events, which: Array) -> Columns:
        places, byte = events.name[which], events.byte[which]
        cells = _mapped(
            events.stats["kernel_details"][which],
            lambda i: details.kernel_details(_text(events, i)),
        )
        self.tally.mark("garbage", cells[-1] == 1, byte)
        columns = dict(zip(details.KERNEL_COLUMNS, cells[:-1], strict=True))
        occupancy = events.stats["theoretical_occupancy_pct"][which]
        is_known = (occupancy > 0) & (occupancy <= 100)
        columns["occupancy_pct"] = np.where(is_known, occupancy, columns["occupancy_pct"])
        self.tally.mark("occupancy", columns["occupancy_pct"] != MISSING, byte)
        if source.vendor == "AMD":
            counts = np.bincount(places + 1, minlength=len(source.names))[1:].tolist()
            for name, count in zip(source.names[:-1], counts, strict=True):
                self.runtime_kernels[name] += count
        return columns | {"name_id": self._name_ids(source, places)}

    def _copies(self, source: Source, line: Line, events: Events, which: Array) -> Columns:
        words = events.stats["memcpy_details"][which]
        count = len(source.names)
        keys = np.where(words == MISSING, 0, words + 1) * count + events.name[which] % count

        def details_of(key: int) -> tuple[int, ...]:
            word, place = divmod(key, count)
            text = _text(events, word - 1 if word else MISSING)
            return details.copy_details(text, source.names[place], line.name, source.vendor)

        return dict(zip(details.COPY_COLUMNS, _mapped(keys, details_of), strict=True))

    def _sets(self, source: Source, line: Line, events: Events, which: Array) -> Columns:
        words = events.stats["memset_details"][which]
        columns = _mapped(words, lambda i: details.memset_details(_text(events, i)))
        return dict(zip(("bytes", "memory_kind"), columns, strict=True))

    # -- threads of the host

    def of_thread(self, source: Source, line: Line, events: Events, state: Thread) -> TableRows:
        """Yield the rows of a thread's events."""
        columns, keep = self._timed(line, events)
        kind, stats = source.kinds[events.name], events.stats
        step = np.where(stats["step_num"] == MISSING, source.steps[events.name], stats["step_num"])
        correlation = _zero_as_null(stats["correlation_id"])
        is_call = (correlation != MISSING) | (kind == details.API)
        is_memory = ~is_call & ((kind == details.TAKEN) | (kind == details.GIVEN_BACK))
        is_python, is_mark = (
            ~is_call & (kind == details.PYTHON),
            ~is_call & (kind == details.MARKER),
        )
        is_profiler = is_python & source.is_profiler[events.name]
        is_python &= ~is_profiler
        is_other = ~(is_call | is_memory | is_python | is_mark | is_profiler)
        # What runs while the profiler starts or stops, such as a garbage collection, is its own.
        is_own, state.end_of_profiler = _inside(columns, is_profiler, state.end_of_profiler)
        is_profiler |= is_other & is_own
        is_other &= ~is_own
        is_range = is_other & (step != MISSING)
        state.is_users |= bool(is_range.any())
        # Within XLA's own calls, what looks like an annotation of the program is one of XLA.
        is_inside, state.end_of_execution = _inside(
            columns, kind == details.EXECUTION, state.end_of_execution
        )
        if state.is_users:
            is_range |= is_other & (kind == details.ANY) & ~events.is_marked & ~is_inside
        self.tally.mark("markers", keep & is_mark, events.byte)
        if not self.python_functions:
            self.tally.mark("python functions", keep & is_python, events.byte)
            keep &= ~is_python
        tables = {
            "api_call": is_call,
            "range": is_range,
            "memory_event": is_memory,
            "operator": is_python | (is_other & ~is_range),
            "overhead": is_profiler,
        }
        for table, mask in tables.items():
            which = np.flatnonzero(keep & mask)
            if not len(which):
                continue
            self.threads.setdefault(line.id, line.name)
            rows = {name: values[which] for name, values in columns.items()}
            rows["tid"] = np.full(len(which), line.id)
            places = events.name[which]
            if table == "api_call":
                rows |= self._calls(source, places, events.byte[which])
                rows["correlation_id"] = correlation[which]
            elif table == "range":
                rows["kind"] = np.full(len(which), _PUSH_POP)
                rows["name_id"] = self._step_ids(source, places, step[which])
                self._add_steps(source, places, step[which], rows["dur_ns"])
            elif table == "overhead":
                rows["kind"] = np.full(len(which), _PROFILER_OVERHEAD)
                rows["name_id"] = self._name_ids(source, places)
            elif table == "operator":
                self.has_python |= bool(is_python[which].any())
                rows["kind"] = np.where(is_python[which], _PYTHON, _OPERATOR)
                rows["name_id"] = self._name_ids(source, places)
            else:
                del rows["dur_ns"]
                rows |= self._memory(events, which, kind[which] == details.GIVEN_BACK)
            yield table, rows

    def _name_ids(self, source: Source, places: Array) -> Array:
        return _mapped(
            places, lambda place: self._id(source.names[-1 if place == MISSING else place])
        )

    def _step_ids(self, source: Source, places: Array, steps: Array) -> Array:
        numbers, inverse = distinct(steps)
        count = len(source.names)

        def id_of(key: int) -> int:
            number, place = divmod(key, count)
            text = "" if numbers[number] == MISSING else f" {numbers[number]}"
            return self._id(f"{source.names[place]}{text}".lstrip())

        return _mapped(inverse * count + places % count, id_of)

    def _add_steps(self, source: Source, places: Array, steps: Array, dur: Array) -> None:
        mine = np.flatnonzero((steps != MISSING) & (places >= 0))
        found, which = distinct(places[mine])
        spent = np.bincount(which, dur[mine], len(found)).tolist()
        for place, time in zip(found, spent, strict=True):
            self.step_ns[source.names[place]] += int(time)

    @property
    def step_range(self) -> str | None:
        """The name of the annotated steps that take most time, with `*` for their numbers.

        None if there are none, or if other events are named alike: `train input` beside `train 3`.
        """
        names = [name for name in self.step_ns if name]
        if not names:
            return None
        name = max(names, key=lambda name: (self.step_ns[name], name))
        alike = (text[len(name) + 1 :] for text in self.names if text.startswith(f"{name} "))
        return f"{name} *" if all(each.lstrip("-").isdigit() for each in alike) else None

    def _calls(self, source: Source, places: Array, byte: Array) -> Columns:
        is_named = source.kinds[places] == details.API
        self.tally.mark("unnamed calls", ~is_named, byte)
        values, inverse = distinct(places % len(source.names))
        calls = [source.names[i] if source.kinds[i] == details.API else _UNNAMED for i in values]
        self.api_names.update(calls)
        ids, layers = (np.array([*map(of, calls)])[inverse] for of in (self._id, details.api_layer))
        return {"name_id": ids, "layer": np.where(is_named, layers, MISSING)}

    def _memory(self, events: Events, which: Array, is_given_back: Array) -> Columns:
        stats = {name: values[which] for name, values in events.stats.items()}
        size = np.where(stats["allocation_bytes"] < 0, MISSING, stats["allocation_bytes"])
        allocator = stats["allocator_name"]
        device = _mapped(allocator, lambda i: details.device_of(_text(events, i)))
        return {
            "bytes": np.where(is_given_back & (size != MISSING), -size, size),
            "allocated_bytes": stats["bytes_allocated"],
            "address": stats["addr"],
            "device_id": device,
            "memory_kind": np.where(device == MISSING, MISSING, _DEVICE_MEMORY),
        }


def _inside(columns: Columns, which: Array, reached_ns: int) -> tuple[Array, int]:
    # The mask has the events that start before the end of one of these that started earlier; with it
    # comes the latest end. `reached_ns` is that of the events before.
    start, end = columns["start_ns"], columns["start_ns"] + columns["dur_ns"]
    order = np.lexsort((-end, start))
    ends = np.where(which[order], end[order], _NEVER)
    reached = np.maximum.accumulate(np.concatenate(([reached_ns], ends)))
    inside = np.zeros(len(start), bool)
    inside[order] = start[order] < reached[:-1]
    return inside, int(reached[-1])


def _mapped(keys: Array, of: Callable[[int], int | tuple[int, ...]]) -> Array:
    # What each key is mapped to: a number, or several, which become columns.
    values, inverse = distinct(keys)
    mapped: Array = np.array([of(value) for value in values], np.int64)[inverse].T
    return mapped


def _text(events: Events, place: int) -> str:
    return "" if place == MISSING else events.texts[place]


def _zero_as_null(values: Array) -> Array:
    return np.where(values == 0, MISSING, values)
