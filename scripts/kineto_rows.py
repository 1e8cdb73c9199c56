"""One process of a workload as the rows that Kineto writes, in the order of its files."""

from __future__ import annotations

import json
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from kineto_ages import Age, cbid, plain, starts_arrow
from kineto_framework import Collective, Framework, Operator
from workload import (
    ApiCall,
    Device,
    Events,
    Kernel,
    Memcpy,
    Memset,
    Process,
    Range,
    Sync,
    Workload,
    records_before,
)

# Properties of the GPU that scenarios run on, where `Device` has none.
THREADS_PER_SM, REGISTERS_PER_SM, BLOCKS_PER_SM = 2_048, 65_536, 32
SHARED_PER_SM, SHARED_OPT_IN = 167_936, 166_912
# Rows of metadata that every file has, with or without work on these GPUs.
LISTED_GPUS = 8

_MEMORY = {"pinned": "Pinned", "pageable": "Pageable", "device": "Device", "managed": "Managed",
           "unknown": "Unknown"}  # fmt: skip
_SYNCS = {"device": "Context Sync", "stream": "Stream Sync", "event": "Event Sync",
          "stream_wait_event": "Stream Wait Event"}  # fmt: skip
_OVERHEADS = {"buffer_flush": "Buffer Flush", "instrumentation": "Instrumentation",
              "resource": "Resource", "lazy_loading": "Lazy Function Loading"}  # fmt: skip

# A line of arguments: what Kineto writes between two line breaks, as (key, JSON text).
Line = tuple[tuple[str, str], ...]
GpuOp = Kernel | Memcpy | Memset
_OnCpu = Operator | Collective | Range


@dataclass(frozen=True)
class Row:
    """One event. `cat` is the spelling of today; `external` the id of an operator, if any."""

    ph: str
    cat: str
    name: str
    pid: int | str
    tid: int | str
    start_ns: int
    dur_ns: int | None = None
    args: tuple[Line, ...] = ()
    external: int | None = None
    flow: int | None = None


def rows(workload: Workload, process: Process, age: Age, framework: Framework) -> list[Row]:
    """Return everything of that process that a file of that age holds."""
    events = _TraceRows(workload, process, age, framework)
    first = list(events.names())
    rest = [*events.cpu_rows(), *events.instants(), *events.cuda_rows(), *events.mirrors()]
    # The newest age writes the names first.
    return [*first, *rest] if age.version >= (2, 13) else [*rest, *first]


def events_of(workload: Workload, process: Process) -> Events:
    """Return the events of one process."""
    events = workload.events
    return Events(
        calls=tuple(e for e in events.calls if e.thread.process == process),
        kernels=tuple(e for e in events.kernels if e.stream.process == process),
        memcpys=tuple(e for e in events.memcpys if e.stream.process == process),
        memsets=tuple(e for e in events.memsets if e.stream.process == process),
        syncs=tuple(e for e in events.syncs if e.stream.process == process),
        event_records=tuple(e for e in events.event_records if e.stream.process == process),
        ranges=tuple(e for e in events.ranges if e.thread.process == process),
        overheads=tuple(e for e in events.overheads if e.thread.process == process),
    )


def ranges_with_rows(workload: Workload, process: Process) -> list[Range]:
    """Return the ranges that become rows; marks do not."""
    ranges = events_of(workload, process).ranges
    return sorted((r for r in ranges if r.style != "mark"), key=lambda r: (r.start_ns, r.text))


def occupancy(device: Device, kernel: Kernel) -> tuple[float, dict[str, int | str]]:
    """Return Kineto's estimate in percent, unrounded, and its inputs, by CUDA's rule (8.0)."""
    threads = kernel.block[0] * kernel.block[1] * kernel.block[2]
    blocks = kernel.grid[0] * kernel.grid[1] * kernel.grid[2] / device.sm_count
    warps = -(-threads // 32)
    registers = -(-kernel.registers * 32 // 256) * 256
    shared = -(-(kernel.static_shared_bytes + kernel.dynamic_shared_bytes + 1_024) // 128) * 128
    limits = {
        "WARPS": THREADS_PER_SM // 32 // warps,
        "REGS": REGISTERS_PER_SM // 4 // registers * 4 // warps,
        "SMEM": SHARED_PER_SM // shared,
        "BLOCKS": BLOCKS_PER_SM,
    }
    active = min(limits.values())
    return min(active, blocks) * threads / THREADS_PER_SM * 100, {
        "activeBlocksPerMultiprocessor": active,
        "limitingFactors": "|".join(name for name, limit in limits.items() if limit == active),
        "blockLimitRegs": limits["REGS"], "blockLimitSharedMem": limits["SMEM"],
        "blockLimitWarps": limits["WARPS"], "blockLimitBlocks": limits["BLOCKS"],
        "blockLimitBarriers": 32, "allocatedRegistersPerBlock": registers * warps,
        "allocatedSharedMemPerBlock": shared,
    }  # fmt: skip


def float32(value: float, age: Age) -> str:
    """Return a single-precision number: six decimals today, earlier its shortest text."""
    if age.version >= (2, 13):
        return f"{value:.6f}"
    single = struct.unpack("f", struct.pack("f", value))[0]
    texts = (f"{single:.{digits}g}" for digits in range(1, 10))
    return next(t for t in texts if struct.unpack("f", struct.pack("f", float(t)))[0] == single)


def _line(*pairs: tuple[str, object]) -> Line:
    return tuple((key, value.text if isinstance(value, _Json) else json.dumps(value))
                 for key, value in pairs)  # fmt: skip


@dataclass(frozen=True)
class _Json:
    text: str


class _TraceRows:
    """The rows of one process, by kind."""

    def __init__(
        self, workload: Workload, process: Process, age: Age, framework: Framework
    ) -> None:
        self.workload, self.process, self.age = workload, process, age
        self.events = events_of(workload, process)
        self.framework = framework
        self.end_ns = workload.duration_ns
        # Operators and annotations in the order of their start, the outer one first.
        ranges = ranges_with_rows(workload, process)
        cpu: list[_OnCpu] = [*ranges, *framework.operators, *framework.collectives]
        self.cpu = sorted(cpu, key=lambda item: (item.start_ns, -self._end(item)))
        # The id of an operator is its place.
        self.ids = {id(item): number for number, item in enumerate(self.cpu, 1)}
        self.calls: dict[int, ApiCall] = {}
        for call in self.events.calls:
            self.calls.setdefault(call.correlation_id, call)
        self.on_thread: dict[int, list[_OnCpu]] = {}
        for item in self.cpu:
            self.on_thread.setdefault(item.thread.tid, []).append(item)

    def _innermost(self, call: ApiCall, kinds: tuple[type, ...]) -> _OnCpu | None:
        """Return the last of these that began before a call on its thread and had not ended."""
        items = self.on_thread.get(call.thread.tid, [])
        before = bisect_right(items, call.start_ns, key=lambda item: item.start_ns)
        around = (item for item in reversed(items[:before])
                  if isinstance(item, kinds) and call.start_ns < self._end(item))  # fmt: skip
        return next(around, None)

    def _end(self, item: Range | Operator | Collective) -> int:
        return self.end_ns if item.end_ns is None else item.end_ns

    # -- threads

    def cpu_rows(self) -> Iterator[Row]:
        for number, item in enumerate(self.cpu):
            cat = "user_annotation" if isinstance(item, Range) else "cpu_op"
            name = {Range: "text", Operator: "name"}.get(type(item))
            text = getattr(item, name) if name else "record_param_comms"
            yield Row("X", cat, text, self.process.pid, item.thread.tid, item.start_ns,
                      self._end(item) - item.start_ns, (self._cpu_args(item, number),),
                      external=self.ids[id(item)])  # fmt: skip
        if self.age.version >= (1, 11):
            for place, function in enumerate(self.framework.functions, len(self.cpu)):
                yield Row("X", "python_function", function.name, self.process.pid,
                          function.thread.tid, function.start_ns,
                          function.end_ns - function.start_ns,
                          (_line(("Python parent id", function.parent),
                                 ("Python id", function.number), ("Ev Idx", place)),))  # fmt: skip

    def _cpu_args(self, item: Range | Operator | Collective, number: int) -> Line:
        pairs: list[tuple[str, object]] = []
        if isinstance(item, Operator):
            if item.sequence is not None:
                # PyTorch's own number of the thread, not the system's.
                pairs += [("Sequence number", item.sequence),
                          ("Fwd thread id", int(item.forward is not None))]  # fmt: skip
            if item.shapes != "[]":
                pairs += [("Input type", _Json(item.types)), ("Input Dims", _Json(item.shapes))]
        elif isinstance(item, Collective):
            pairs += self._collective(item)
            if self.age.version >= (2, 10):
                pairs.append(("Seq", item.sequence))
        elif item.end_ns is None and self.age.version >= (2, 0):
            pairs.append(("finished", False))
        if self.age.version < (2, 0):
            return _line(*pairs)
        return _line(("Record function id", 0), *pairs, ("Ev Idx", number))

    def _collective(self, item: Collective) -> list[tuple[str, object]]:
        return [
            ("Collective name", item.name), ("In msg nelems", item.elements),
            ("Out msg nelems", item.elements), ("Group size", len(item.ranks)),
            ("dtype", item.dtype), ("In split size", "[]"), ("Out split size", "[]"),
            ("Process Group Name", item.group), ("Process Group Description", "default_pg"),
            ("Process Group Ranks", json.dumps(item.ranks)),
        ]  # fmt: skip

    def instants(self) -> Iterator[Row]:
        for place, block in enumerate(self.framework.blocks, 100):
            kind = ("Device Type", int(block.ordinal is not None))
            device = ("Device Id", -1 if block.ordinal is None else block.ordinal)
            taken = ("Bytes", block.bytes)
            if self.age.version < (2, 0):
                line = _line(kind, device, taken)
            else:
                line = _line(("Total Reserved", block.reserved_bytes),
                             ("Total Allocated", block.allocated_bytes), taken, device, kind,
                             ("Addr", block.address), ("Ev Idx", place))  # fmt: skip
            yield Row("i", "cpu_instant_event", "[memory]", self.process.pid, block.thread.tid,
                      block.time_ns, None, (line,))  # fmt: skip

    # -- CUDA

    def cuda_rows(self) -> Iterator[Row]:
        """Yield GPU work before the call that launched it, as activity buffers hold them."""
        ops: list[GpuOp] = [*self.events.kernels, *self.events.memcpys, *self.events.memsets]
        syncs = self.events.syncs if self.age.syncs else ()
        launched: dict[int | None, list[GpuOp]] = {}
        for op in ops:
            launched.setdefault(op.correlation_id, []).append(op)
        done: set[int] = set()
        for call in self.events.calls:
            for op in launched.get(call.correlation_id, ()):
                done.add(id(op))
                yield from self._op(op)
            for sync in (s for s in syncs if s.correlation_id == call.correlation_id):
                yield self._sync(sync)
            if self.age.records(call):
                yield from self._call(call)
        for op in ops:
            if id(op) not in done:
                yield from self._op(op)
        if self.age.version >= (2, 10):
            for record in self.events.event_records:
                where = record.stream
                yield Row("X", "cuda_event", "cudaEvent", where.ordinal, where.stream_id,
                          record.time_ns, 1, (_line(
                              ("event_id", record.event_id), ("stream", where.stream_id),
                              ("correlation", record.correlation_id), ("device", where.ordinal),
                              ("context", where.context_id)),))  # fmt: skip
        if self.age.overheads:
            for overhead in self.events.overheads:
                yield Row("X", "overhead", _OVERHEADS[overhead.kind], -1, 0, overhead.start_ns,
                          overhead.end_ns - overhead.start_ns)  # fmt: skip

    def _operator(self, correlation_id: int | None) -> _OnCpu | None:
        call = self.calls.get(correlation_id or 0)
        if call is None:
            return None
        # Before 1.10 annotations were operators, too.
        kinds = (Operator, Collective) if self.age.version >= (1, 10) else (Operator, Collective, Range)
        return self._innermost(call, kinds)

    def _external(self, correlation_id: int | None) -> int | None:
        operator = self._operator(correlation_id)
        if operator is not None:
            return self.ids[id(operator)]
        if self.age.version < (1, 12):
            return 0
        # Until 2.5 an unlinked row has CUPTI's number here; since 2.6 there is no such key.
        return (correlation_id or 0) if self.age.version < (2, 6) else None

    def _call(self, call: ApiCall) -> Iterator[Row]:
        name, pid, tid = plain(call.symbol), self.process.pid, call.thread.tid
        line = _line(("cbid", cbid(call)), ("correlation", call.correlation_id))
        yield Row("X", f"cuda_{call.layer}", name, pid, tid, call.start_ns,
                  call.end_ns - call.start_ns, (line,),
                  self._external(call.correlation_id))  # fmt: skip
        ph = "s" if starts_arrow(call) else "f"
        if ph == "s" or self.age.version >= (2, 0):
            yield Row(ph, "ac2g", "ac2g", pid, tid, call.start_ns, flow=call.correlation_id)

    def _op(self, op: GpuOp) -> Iterator[Row]:
        if isinstance(op, Kernel):
            cat, name, args = self._kernel(op)
        else:
            cat, name, args = self._memcpy(op) if isinstance(op, Memcpy) else self._memset(op)
        where = op.stream
        yield Row("X", cat, name, where.ordinal, where.stream_id, op.start_ns,
                  op.end_ns - op.start_ns, args, self._external(op.correlation_id))  # fmt: skip
        if op.correlation_id:
            yield Row("f", "ac2g", "ac2g", where.ordinal, where.stream_id, op.start_ns,
                      flow=op.correlation_id)  # fmt: skip

    def _kernel(self, kernel: Kernel) -> tuple[str, str, tuple[Line, ...]]:
        where = kernel.stream
        device = self.process.devices[where.ordinal]
        blocks = kernel.grid[0] * kernel.grid[1] * kernel.grid[2] / device.sm_count
        threads = kernel.block[0] * kernel.block[1] * kernel.block[2]
        percent, reasons = occupancy(device, kernel)
        shared = kernel.static_shared_bytes + kernel.dynamic_shared_bytes
        lines = [
            _line(("queued", 0), ("device", where.ordinal), ("context", where.context_id)),
            _line(("stream", where.stream_id), ("correlation", kernel.correlation_id or 0)),
            _line(("registers per thread", kernel.registers)),
            _line(("shared memory", shared)),
            _line(("blocks per SM", _Json(float32(blocks, self.age)))),
            _line(("warps per SM", _Json(float32(blocks * threads / 32, self.age)))),
            _line(("grid", kernel.grid)),
            _line(("block", kernel.block)),
            _line(("est. achieved occupancy %", int(0.5 + percent))),
        ]
        if self.age.graph_nodes:
            lines += [_line(("occupancy", reasons)), *self._graph(kernel)]
        called = self._operator(kernel.correlation_id)
        if isinstance(called, Collective) and self.age.version >= (2, 2):
            lines.append(_line(*self._collective(called)))
        return "kernel", kernel.function.itanium, tuple(lines)

    def _graph(self, op: GpuOp) -> tuple[Line, ...]:
        if not self.age.graph_nodes:
            return ()
        node = op.graph_node_id or 0
        return (_line(("graph id", int(node > 0)), ("graph node id", node)),
                _line(("channel", 8), ("channel_type", 1)))  # fmt: skip

    def _moved(self, op: Memcpy | Memset) -> Line:
        duration = op.end_ns - op.start_ns
        pairs: list[tuple[str, object]] = [("bytes", op.bytes)]
        if duration:
            pairs.append(("memory bandwidth (GB/s)", op.bytes / duration))
        elif self.age.version < (1, 10):
            pairs.append(("memory bandwidth (GB/s)", _Json("N/A")))
        elif self.age.version < (2, 13):
            pairs.append(("memory bandwidth (GB/s)", "N/A"))
        return _line(*pairs)

    def _memcpy(self, copy: Memcpy) -> tuple[str, str, tuple[Line, ...]]:
        kinds = f"{_MEMORY[copy.src_kind]} -> {_MEMORY[copy.dst_kind]}"
        stream = _line(("stream", copy.stream.stream_id), ("correlation", copy.correlation_id or 0))
        here = copy.stream.ordinal
        if copy.direction == "PtoP":
            source, target = copy.src_ordinal or 0, copy.dst_ordinal or 0
            where = [
                _line(("fromDevice", source), ("inDevice", here), ("toDevice", target)),
                _line(("fromContext", source + 1), ("inContext", here + 1),
                      ("toContext", target + 1)),
            ]  # fmt: skip
        else:
            where = [_line(("device", here), ("context", copy.stream.context_id))]
        return ("gpu_memcpy", f"Memcpy {copy.direction} ({kinds})",
                (*where, stream, self._moved(copy), *self._graph(copy)))  # fmt: skip

    def _memset(self, item: Memset) -> tuple[str, str, tuple[Line, ...]]:
        where = item.stream
        return "gpu_memset", f"Memset ({_MEMORY[item.kind]})", (
            _line(("device", where.ordinal), ("context", where.context_id)),
            _line(("stream", where.stream_id), ("correlation", item.correlation_id or 0)),
            self._moved(item), *self._graph(item))  # fmt: skip

    def _sync(self, sync: Sync) -> Row:
        stream = -1 if sync.kind in ("device", "event") else sync.stream.stream_id
        lines = [_line(("cuda_sync_kind", _SYNCS[sync.kind]))]
        if sync.kind in ("event", "stream_wait_event"):
            records = records_before(self.events, sync)[-1:]
            lines += [
                _line(("wait_on_stream", records[0].stream.stream_id if records else -1)),
                _line(("wait_on_cuda_event_record_corr_id",
                       records[0].correlation_id if records else -1)),
                _line(("wait_on_cuda_event_id", sync.event_id)),
            ]  # fmt: skip
        lines += [
            _line(("stream", stream), ("correlation", sync.correlation_id)),
            _line(("device", sync.stream.ordinal), ("context", sync.stream.context_id)),
        ]
        tid = stream if self.age.version < (2, 13) else stream + 1_000_000
        return Row("X", "cuda_sync", _SYNCS[sync.kind], sync.stream.ordinal, tid, sync.start_ns,
                   sync.end_ns - sync.start_ns, tuple(lines),
                   self._external(sync.correlation_id))  # fmt: skip

    def mirrors(self) -> Iterator[Row]:
        """Yield annotations as Kineto draws them over the GPU work that they launched."""
        if self.age.version < (1, 10):
            return
        drawn: dict[tuple[int, int, int], list[GpuOp]] = {}
        ops: list[GpuOp] = [*self.events.kernels, *self.events.memcpys, *self.events.memsets]
        for op in ops:
            call = self.calls.get(op.correlation_id or 0)
            around = self._innermost(call, (Range,)) if call else None
            if around:
                key = (self.ids[id(around)], op.stream.ordinal, op.stream.stream_id)
                drawn.setdefault(key, []).append(op)
        texts = {self.ids[id(r)]: r.text for r in self.cpu if isinstance(r, Range)}
        for (number, ordinal, stream), covered in drawn.items():
            start = min(op.start_ns for op in covered) - 1
            yield Row("X", "gpu_user_annotation", texts[number], ordinal, stream, start,
                      max(op.end_ns for op in covered) + 1 - start, (), number)  # fmt: skip

    # -- names of processes, threads and streams; the span of the recording

    def names(self) -> Iterator[Row]:
        pid, name = self.process.pid, self.process.name
        yield from self._name("process", pid, 0, name, "CPU", pid)
        for gpu in range(LISTED_GPUS):
            yield from self._name("process", gpu, 0, name, f"GPU {gpu}", 5_000_000 + gpu)
        if self.age.version >= (1, 10):
            used = {(s.ordinal, s.stream_id) for s in self.workload.streams
                    if s.process == self.process}  # fmt: skip
            for ordinal, stream in sorted(used):
                yield from self._name("thread", ordinal, stream, f"stream {stream} ", None, stream)
            if self.age.version >= (2, 13):
                for ordinal, stream in sorted(used):
                    yield from self._name("thread", ordinal, stream + 1_000_000,
                                          f"stream {stream} (sync)", None, stream)  # fmt: skip
        for thread in self.workload.threads:
            if thread.process == self.process:
                yield from self._name("thread", pid, thread.tid,
                                      f"thread {thread.tid} ({thread.name})", None,
                                      thread.tid)  # fmt: skip

    def _name(
        self, kind: str, pid: int, tid: int, name: str, label: str | None, order: int
    ) -> Iterator[Row]:
        yield Row("M", "", f"{kind}_name", pid, tid, 0, None, (_line(("name", name)),))
        if label:
            yield Row("M", "", "process_labels", pid, tid, 0, None, (_line(("labels", label)),))
        if self.age.version >= (1, 10):
            yield Row("M", "", f"{kind}_sort_index", pid, tid, 0, None,
                      (_line(("sort_index", order)),))  # fmt: skip
