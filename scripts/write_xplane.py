"""Writes workloads as XLA's profiler does: a file per process, a plane per GPU, a line per stream.

It knows no domains of ranges, no waits and no overhead of its own recording; ranges are annotations of
Python's threads, closed ones only. A function is called as the program calls it, without a version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fixtures_xplane import START, Plane, Unsigned, Value, space
from workload import MemoryKind, Process, Stream, Workload

_PS = 1000
_COPIES = {"HtoD": "H2D", "DtoH": "D2H", "DtoD": "D2D", "HtoH": "H2H", "PtoP": "P2P"}


def plain_name(symbol: str) -> str:
    """Return a function's name without its version and the mode of the default stream."""
    return re.sub(r"(_ptsz)?_v\d{4,}$", "", symbol)


def write_xplane(workload: Workload, path: Path, process: Process | None = None) -> None:
    """Write what one process did, by default the first."""
    process = process or workload.processes[0]
    planes = [_gpu(workload, process, ordinal) for ordinal in range(len(process.devices))]
    times = {"start": START, "stop": START + workload.duration_ns}
    session = {f"profile_{what}_time": Unsigned(time) for what, time in times.items()}
    metadata = Plane("/host:metadata", {"process_id": process.pid, "jax_version": "0.10.2"})
    path.write_bytes(space([metadata, *planes, _host(workload, process),
                            Plane("Task Environment", {**session})]))  # fmt: skip


def _timed(plane: Plane, name: str, event: Any, correlation_id: int | None, **stats: Value) -> bytes:
    if correlation_id:
        stats["correlation_id"] = Unsigned(correlation_id)
    start, end = event.start_ns * _PS, event.end_ns * _PS
    return plane.event_ps(name, start, end - start, **stats)


def _gpu(workload: Workload, process: Process, ordinal: int) -> Plane:
    device = process.devices[ordinal]
    major, minor = device.compute
    plane = Plane(f"/device:GPU:{ordinal}", {
        "device_vendor": "Nvidia", "core_count": device.sm_count, "memory_size": device.memory_bytes,
        "compute_cap_major": major, "compute_cap_minor": minor,
    })  # fmt: skip
    for stream in workload.streams:
        if stream.process == process and stream.ordinal == ordinal:
            plane.line(stream.stream_id, f"Stream #{stream.stream_id}",
                       _work(plane, workload, stream), start_ns=0)  # fmt: skip
    return plane


def _work(plane: Plane, workload: Workload, stream: Stream) -> Iterable[bytes]:
    events, context = workload.events, f"$${stream.context_id}"

    def on_gpu(name: str, event: Any, what: str, text: str) -> bytes:
        stats: dict[str, Value] = {f"{what}_details": text, "context_id": context}
        if event.graph_node_id:
            stats["cuda_graph_node_id"] = Unsigned(event.graph_node_id)
        return _timed(plane, name, event, event.correlation_id, **stats)

    for kernel in events.kernels:
        if kernel.stream == stream:
            grid, block = (",".join(map(str, size)) for size in (kernel.grid, kernel.block))
            text = (
                f"regs:{kernel.registers} static_shared:{kernel.static_shared_bytes} "
                f"dynamic_shared:{kernel.dynamic_shared_bytes} grid:{grid} block:{block} occ_pct:0"
            )
            yield on_gpu(kernel.function.demangled, kernel, "kernel", text)
    for copy in events.memcpys:
        if copy.stream == stream:
            peer = 0 if copy.dst_ordinal is None else copy.dst_ordinal
            text = (
                f"kind_src:{_kind(copy.src_kind)} kind_dst:{_kind(copy.dst_kind)} size:{copy.bytes} "
                f"dest:{peer} async:1"
            )
            yield on_gpu(f"Memcpy{_COPIES[copy.direction]}", copy, "memcpy", text)
    for each in events.memsets:
        if each.stream == stream:
            text = f"kind:{_kind(each.kind)} num_bytes:{each.bytes} async:1"
            yield on_gpu("Memset", each, "memset", text)


def _kind(kind: MemoryKind) -> str:
    return kind.replace(" ", "_")


def _host(workload: Workload, process: Process) -> Plane:
    plane = Plane("/host:CPU")
    for thread in workload.threads:
        if thread.process != process:
            continue
        found = [
            _timed(plane, plain_name(call.symbol), call, call.correlation_id, device_id=0)
            for call in workload.events.calls
            if call.thread == thread
        ]
        found += [
            _timed(plane, each.text, each, None)
            for each in workload.events.ranges
            if each.thread == thread and each.end_ns is not None and each.style == "push_pop"
        ]
        plane.line(thread.tid, f"python/{thread.tid}", found, start_ns=0)
    return plane
