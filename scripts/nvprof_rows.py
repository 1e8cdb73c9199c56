"""The rows of nvprof's traces of a process, before they are spelt."""

from __future__ import annotations

from dataclasses import dataclass

from nvprof_spelling import MEMORY, TIMES, function
from workload import Kernel, Memcpy, Memset, Migration, PageFault, Process, Stream, Workload

NS_PER_S = TIMES["s"]


@dataclass(frozen=True)
class Line:
    """One row of a trace, before it is spelt; None is an empty cell.

    `devices` are two for a migration from device to device, which has a cell more than the header.
    `migrated` are bytes, or the text of the cell; `peer` is device and context of both ends.
    """

    start_ns: int
    dur_ns: int | None
    name: str
    kernel: Kernel | None = None
    bytes: int | None = None
    kinds: tuple[str | None, str | None] = (None, None)
    devices: tuple[int, ...] = ()
    stream: Stream | None = None
    peer: tuple[int, int, int, int] | None = None
    migrated: int | str | None = None
    address: int | None = None
    correlation: int | None = None

    @property
    def rate(self) -> float | None:
        """Return bytes per second; 0 where no time passed, None where nothing was moved."""
        if self.bytes is None or self.dur_ns is None:
            return None
        return self.bytes * NS_PER_S / self.dur_ns if self.dur_ns else 0.0


def lines(workload: Workload, process: Process, *, calls: bool = False) -> list[Line]:
    """Return all GPU work of the process (and its API calls, if asked for) in order of start."""
    if any(launch.stream.process == process for launch in workload.events.graph_launches):
        raise ValueError(f"{workload.name}: nvprof records the nodes of graphs")
    events = workload.events
    found = [_kernel(k) for k in events.kernels if k.stream.process == process]
    found += [_memcpy(c) for c in events.memcpys if c.stream.process == process]
    found += [_memset(s) for s in events.memsets if s.stream.process == process]
    found += [_migration(m) for m in events.migrations if m.process == process]
    found += [_fault(f) for f in events.page_faults if f.process == process]
    if calls:
        found += call_lines(workload, process)
    return sorted(found, key=lambda line: line.start_ns)


def call_lines(workload: Workload, process: Process) -> list[Line]:
    """Return the process's API calls in order of start; launches name the kernel they launched."""
    kernels = {k.correlation_id: _kernel(k).name for k in workload.events.kernels
               if k.stream.process == process and k.correlation_id}  # fmt: skip
    found = []
    for call in workload.events.calls:
        if call.thread.process == process:
            name = function(call.symbol)
            # The launch of a graph names none of its kernels.
            kernel = kernels.get(call.correlation_id)
            if kernel and "LaunchKernel" in name:
                name = f"{name} ({kernel})"
            found.append(Line(call.start_ns, call.end_ns - call.start_ns, name,
                              correlation=call.correlation_id))  # fmt: skip
    return sorted(found, key=lambda line: line.start_ns)


def _kernel(kernel: Kernel) -> Line:
    number = kernel.correlation_id or 0
    name = kernel.function.demangled + (f" [{number}]" if number else "")
    return Line(kernel.start_ns, kernel.end_ns - kernel.start_ns, name, kernel=kernel,
                devices=(kernel.stream.ordinal,), stream=kernel.stream,
                correlation=number)  # fmt: skip


def _memcpy(copy: Memcpy) -> Line:
    peer = None
    if copy.src_ordinal is not None and copy.dst_ordinal is not None:
        # Contexts as the scenarios number them: one of each device.
        peer = (copy.src_ordinal, copy.src_ordinal + 1, copy.dst_ordinal, copy.dst_ordinal + 1)
    return Line(copy.start_ns, copy.end_ns - copy.start_ns, f"[CUDA memcpy {copy.direction}]",
                bytes=copy.bytes, kinds=(MEMORY[copy.src_kind], MEMORY[copy.dst_kind]),
                devices=(copy.stream.ordinal,), stream=copy.stream, peer=peer,
                correlation=copy.correlation_id or 0)  # fmt: skip


def _memset(item: Memset) -> Line:
    return Line(item.start_ns, item.end_ns - item.start_ns, "[CUDA memset]", bytes=item.bytes,
                kinds=(MEMORY[item.kind], None), devices=(item.stream.ordinal,),
                stream=item.stream, correlation=item.correlation_id or 0)  # fmt: skip


def _migration(item: Migration) -> Line:
    devices = (item.ordinal,) * (2 if item.direction == "DtoD" else 1)
    return Line(item.start_ns, item.end_ns - item.start_ns,
                f"[Unified Memory Memcpy {item.direction}]", devices=devices,
                migrated=item.bytes, address=item.address)  # fmt: skip


def _fault(fault: PageFault) -> Line:
    if fault.ordinal is None:
        return Line(fault.start_ns, None, "[Unified Memory CPU page faults]",
                    migrated="PC 0x402f5a", address=fault.address)  # fmt: skip
    return Line(fault.start_ns, fault.end_ns - fault.start_ns, "[Unified Memory GPU page faults]",
                devices=(fault.ordinal,), migrated=str(fault.count),
                address=fault.address)  # fmt: skip
