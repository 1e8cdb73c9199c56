"""A made-up training run of many steps, and the same with one thing changed: what a diff has to find."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from machine import APPLY, REDUCE, SAXPY, STENCIL, a100, stream
from workload import (
    ApiCall,
    Events,
    Function,
    Kernel,
    Memcpy,
    Process,
    Range,
    Thread,
    Workload,
)
from write_kineto import write_kineto
from write_nsys import write_nsys
from write_nvprof_database import write_nvprof_database
from write_nvprof_log import gpu_trace_csv, write_log

STEPS = 25
STEP_NS = 400_000
KERNELS: tuple[tuple[Function, int], ...] = (
    (SAXPY, 40_000),
    (REDUCE, 20_000),
    (STENCIL, 10_000),
    (APPLY, 5_000),
)
COPY_NS, COPY_BYTES = 8_000, 65_536
_GPU = a100(0)
_PROCESS = Process(4242, "train", (_GPU,))
_MAIN = Thread(_PROCESS, 4242, "train")
_STREAM = stream(_PROCESS, 7, "null")

Change = Callable[[Events], Events]


# -- runs of which each length is given


@dataclass(frozen=True)
class Launch:
    """A kernel, the call that launches it, and how long the GPU then has nothing to do."""

    function: Function
    kernel_ns: int
    call_ns: int = 2_000
    then_idle_ns: int = 1_000


@dataclass(frozen=True)
class Copy:
    """A copy to the device, and how long the GPU then has nothing to do."""

    copy_ns: int
    size: int = COPY_BYTES
    then_idle_ns: int = 1_000


def run_of(
    steps: Sequence[Sequence[Launch | Copy]],
    *,
    annotated: bool = True,
    step_ns: Sequence[int] = (),
    between_ns: int = 10_000,
) -> Workload:
    """A run that does this in its steps, one thing after the other on one stream.

    A step lasts until its work is done, or as long as `step_ns` says, and so much longer is the time
    until the next one begins. Not `annotated`: nothing in the recording says that there are steps.
    Correlation numbers begin with 1,000 and then with the next hundred in each step.
    """
    calls: list[ApiCall] = []
    kernels: list[Kernel] = []
    copies: list[Memcpy] = []
    ranges: list[Range] = []
    at, number = 10_000, 1_000
    for step, work in enumerate(steps):
        begin, number = at, max(number, 1_000 + 100 * step)
        for item in work:
            if isinstance(item, Launch):
                started = at + item.call_ns + 1_000
                calls.append(
                    ApiCall(_MAIN, number, "cudaLaunchKernel_v7000", at, at + item.call_ns)
                )
                ended = started + item.kernel_ns
                kernels.append(Kernel(_STREAM, number, item.function, started, ended))
                at = ended + item.then_idle_ns
            else:
                calls.append(ApiCall(_MAIN, number, "cudaMemcpyAsync_v3020", at, at + 2_000))
                copies.append(
                    Memcpy(_STREAM, number, "HtoD", "pinned", "device", item.size, at + 3_000,
                           at + 3_000 + item.copy_ns)
                )  # fmt: skip
                at += 3_000 + item.copy_ns + item.then_idle_ns
            number += 1
        if step_ns:
            if begin + step_ns[step] < at:
                raise ValueError(f"step {step} has more to do than fits into it")
            at = begin + step_ns[step]
        if annotated:
            ranges.append(Range(_MAIN, f"ProfilerStep#{step}", begin, at))
        at += between_ns
    events = Events(
        calls=tuple(calls), kernels=tuple(kernels), memcpys=tuple(copies), ranges=tuple(ranges)
    )
    return Workload(
        "planted", "Lengths that were chosen", at + 10_000, (_GPU,), (_PROCESS,), (_MAIN,),
        (_STREAM,), events,
    )  # fmt: skip


# -- many equal steps, and one thing changed


def training(change: Change = lambda events: events) -> Workload:
    """Steps of one copy and of each kernel twice, one after the other."""
    once = [Launch(function, duration) for function, duration in KERNELS]
    made = run_of([[Copy(COPY_NS, then_idle_ns=4_000), *once, *once]] * STEPS,
                  step_ns=[STEP_NS - 20_000] * STEPS, between_ns=20_000)  # fmt: skip
    return replace(made, name="training", title="Many equal steps", events=change(made.events),
                   duration_ns=STEPS * STEP_NS + 20_000)  # fmt: skip


def slower(events: Events) -> Events:
    """saxpy takes 10 % longer, into the kernel that follows it on the stream."""
    return replace(
        events,
        kernels=tuple(
            replace(k, end_ns=k.end_ns + 4_000) if k.function is SAXPY else k
            for k in events.kernels
        ),
    )


def removed(events: Events) -> Events:
    """apply is gone, and with it its launches."""
    gone = {k.correlation_id for k in events.kernels if k.function is APPLY}
    return replace(
        events,
        kernels=tuple(k for k in events.kernels if k.function is not APPLY),
        calls=tuple(c for c in events.calls if c.correlation_id not in gone),
    )


def more(events: Events) -> Events:
    """Every fifth step runs stencil once more: 5 more launches of it, 10 % of 50."""
    extra, calls = [], []
    for step in range(0, STEPS, 5):
        at = 10_000 + step * STEP_NS + 250_000
        number = 1000 + step * 100 + 50
        calls.append(ApiCall(_MAIN, number, "cudaLaunchKernel_v7000", at, at + 2_000))
        extra.append(Kernel(_STREAM, number, STENCIL, at + 3_000, at + 13_000))
    return replace(events, kernels=(*events.kernels, *extra), calls=(*events.calls, *calls))


LATE_NS = 500_000


def waiting(events: Events) -> Events:
    """The host comes 500 us late with the very last launch."""
    last = 1000 + (STEPS - 1) * 100 + 8
    return replace(
        events,
        kernels=tuple(_later(k) if k.correlation_id == last else k for k in events.kernels),
        calls=tuple(_later(c) if c.correlation_id == last else c for c in events.calls),
    )


def _later(event: Any) -> Any:
    return replace(event, start_ns=event.start_ns + LATE_NS, end_ns=event.end_ns + LATE_NS)


def doubled(events: Events) -> Events:
    """Every copy is made twice."""
    again = [
        replace(m, correlation_id=(m.correlation_id or 0) + 60, start_ns=m.start_ns + 300_000,
                end_ns=m.end_ns + 300_000)
        for m in events.memcpys
    ]  # fmt: skip
    calls = [
        ApiCall(_MAIN, (m.correlation_id or 0), "cudaMemcpyAsync_v3020", m.start_ns - 3_000,
                m.start_ns - 1_000)
        for m in again
    ]  # fmt: skip
    return replace(events, memcpys=(*events.memcpys, *again), calls=(*events.calls, *calls))


CHANGES: dict[str, Change] = {
    "slower": slower, "removed": removed, "more": more, "waiting": waiting, "doubled": doubled,
}  # fmt: skip


# -- as the files of each source


def _nsys(workload: Workload, folder: Path) -> Path:
    write_nsys(workload, folder / "run.sqlite", "3.25.0")
    return folder / "run.sqlite"


def _kineto(workload: Workload, folder: Path) -> Path:
    write_kineto(workload, workload.processes[0], folder / "run.json", "2.13")
    return folder / "run.json"


def _database(workload: Workload, folder: Path) -> Path:
    write_nvprof_database(workload, workload.processes[0], folder / "run.nvvp", "12")
    return folder / "run.nvvp"


def _log(workload: Workload, folder: Path) -> Path:
    write_log(folder / "run.csv", gpu_trace_csv(workload, workload.processes[0], calls=True))
    return folder / "run.csv"


SOURCES: dict[str, Callable[[Workload, Path], Path]] = {
    "nsys": _nsys, "kineto": _kineto, "nvprof database": _database, "nvprof log": _log,
}  # fmt: skip
"""What writes a workload as a file of a source into a folder, and says which file."""
