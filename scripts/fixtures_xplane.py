"""Profiles of XLA's profiler: three steps of a made-up JAX training on one of two GPUs, and odd ones.

The session begins at START, the lines 1 ms later. Of each step, in µs since its begin, every 4 ms:

    host     0 .. 3900  train (StepTraceAnnotation)      50 .. 550  load batch (TraceAnnotation)
           150 .. 160   cuMemcpyHtoDAsync_v2            600 .. 900  PjitFunction(step), and in it
           620 .. 630   wrapped_convert (of XLA)        650, 660    cuLaunchKernel, 5 µs each
    GPU    200 .. 300   a copy of 1 MiB                1000 .. 1500 gemm_fusion_dot
          1600 .. 1800  loop_add_fusion

The gemm begins and ends 600 ps later: 500,001 ns by the floor of both ends. The layout is that of
tsl/profiler/protobuf/xplane.proto and of real files: the names come behind the lines.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fixture import Fixture

SECRET = "hunter2-xplane"
"""Lies wherever users and programs leave texts that nobody needs."""
START, LENGTH = 1_700_000_000_000_000_000, 20_000_000
PID, HOST, THREAD, POOL = 4321, "node1", -4873677596631185127, 77
STEPS = 3
STEP_US, US = 4_000, 1_000_000  # µs of a step, ps of a µs

Value = int | float | str | bytes


class Ref(str):
    """A text that is written by reference: as the name of a stat."""

    __slots__ = ()


class Unsigned(int):
    """A number that is written as unsigned."""


def varint(value: int) -> bytes:
    """Return a number as protobuf spells it."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def item(number: int, value: Value) -> bytes:
    """Return a field of a message: a number, a real, or what has a length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


@dataclass
class Plane:
    """A plane on its way to its bytes."""

    name: str
    stats: dict[str, Value] = field(default_factory=dict)
    lines: list[bytes] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    stat_names: dict[str, int] = field(default_factory=dict)
    shared: dict[str, dict[str, Value]] = field(default_factory=dict)
    """Stats that all events of a name share."""

    def id_of_stat(self, name: str) -> int:
        """Return the id of a stat, or of a text that is referred to."""
        return self.stat_names.setdefault(name, len(self.stat_names) + 1)

    def stat(self, name: str, value: Value) -> bytes:
        """Return a stat."""
        key = item(1, self.id_of_stat(name))
        if isinstance(value, Ref):
            return key + item(7, self.id_of_stat(str(value)))
        numbers = {Unsigned: 3, int: 4, float: 2, str: 5, bytes: 6}
        return key + item(numbers[type(value)], value)

    def event(self, name: str | int, start_us: float, dur_us: float, /, **stats: Value) -> bytes:
        """Return an event, by the id of its name if that is a number."""
        return self.event_ps(name, round(start_us * US), round(dur_us * US), **stats)

    def event_ps(self, name: str | int, start: int, dur: int, /, **stats: Value) -> bytes:
        """Return the same, in ps. As in protobuf, zeros are left out."""
        key = self.names.setdefault(name, len(self.names) + 1) if isinstance(name, str) else name
        times = [item(number, value) for number, value in ((2, start), (3, dur)) if value]
        own = [item(4, self.stat(stat, value)) for stat, value in stats.items()]
        return b"".join([item(1, key), *times, *own])

    def line(self, key: int, name: str, events: Iterable[bytes], start_ns: int = 1_000_000) -> None:
        """Add a line with these events."""
        head = item(1, key) + item(2, name) + item(3, start_ns)
        self.lines.append(head + b"".join(item(4, event) for event in events))

    def encoded(self) -> bytes:
        """Return the plane."""
        stats = [item(6, self.stat(name, value)) for name, value in self.stats.items()]
        names = []
        for text, key in self.names.items():
            own = [item(5, self.stat(*stat)) for stat in self.shared.get(text, {}).items()]
            names.append(item(4, item(1, key) + item(2, item(1, key) + item(2, text) + b"".join(own))))
        stat_names = [
            item(5, item(1, key) + item(2, item(1, key) + item(2, text) + item(3, f"about {SECRET}")))
            for text, key in self.stat_names.items()
        ]
        return b"".join([item(2, self.name), *(item(3, line) for line in self.lines),
                         *names, *stat_names, *stats])  # fmt: skip


def space(planes: Iterable[Plane], warnings: Iterable[str] = ()) -> bytes:
    """Return a file of planes."""
    found = [item(1, plane.encoded()) for plane in planes]
    return b"".join([*found, *(item(3, text) for text in warnings), item(4, HOST)])


def environment() -> Plane:
    """Return the plane with the time of day."""
    times = {"profile_start_time": Unsigned(START), "profile_stop_time": Unsigned(START + LENGTH)}
    return Plane("Task Environment", {**times, "profile_options": SECRET.encode()})


def metadata() -> Plane:
    """Return the plane of programs, whose bytes nobody reads."""
    stats: dict[str, Value] = {"jax_version": "0.10.2", "jaxlib_version": "0.10.2", "process_id": PID}
    program = b"\x0a\x08jit_step" + SECRET.encode() * 100
    return Plane("/host:metadata", stats, names={"jit_step": 1}, shared={"jit_step": {"hlo": program}})


NVIDIA: dict[str, Value] = {
    "device_vendor": "Nvidia", "clock_rate": 1_410_000, "core_count": 108,
    "memory_bandwidth": 1_555_000_000_000, "memory_size": 42_949_672_960,
    "compute_cap_major": 8, "compute_cap_minor": 0,
}  # fmt: skip
GEMM = "regs:32 static_shared:0 dynamic_shared:49152 grid:64,1,1 block:256,1,1 occ_pct:50"
ADD = "regs:16 static_shared:1024 dynamic_shared:0 grid:128,2,1 block:128,1,1 occ_pct:0"


def gpu() -> Plane:
    """Return the plane of the GPU that is used."""
    plane = Plane("/device:GPU:0", NVIDIA)
    compute, copies = [], []
    for step in range(STEPS):
        at, number = step * STEP_US, 10 * step
        if not step:
            details = "kind:device num_bytes:4096 async:1"
            compute.append(plane.event("Memset", at + 700, 10, correlation_id=Unsigned(99),
                                       memset_details=details, context_id="$$1"))  # fmt: skip
        hlo: dict[str, Value] = {
            "hlo_op": Ref("fusion.1"), "name": Ref(f"jit(step)/{SECRET}"), "context_id": "$$1",
        }  # fmt: skip
        compute += [
            plane.event_ps("gemm_fusion_dot", (at + 1000) * US + 600, 500 * US + 600,
                           correlation_id=Unsigned(number + 2), kernel_details=GEMM,
                           theoretical_occupancy_pct=62.5, **hlo),
            plane.event("loop_add_fusion", at + 1600, 200, correlation_id=Unsigned(number + 3),
                        kernel_details=Ref(ADD), theoretical_occupancy_pct=0.0, **hlo),
        ]  # fmt: skip
        details = "kind_src:pinned kind_dst:device size:1048576 dest:0 async:1"
        copies.append(plane.event("MemcpyH2D", at + 200, 100, correlation_id=Unsigned(number + 1),
                                  memcpy_details=details, context_id="$$1"))  # fmt: skip
    plane.line(7, "Stream #7(Compute,Memset)", compute)
    plane.line(8, "Stream #8(MemcpyH2D)", copies)
    plane.line(-559038737, "Steps", [plane.event(f"step {SECRET}", 0, 9000)])
    return plane


def host() -> Plane:
    """Return the plane of the host: its Python thread and a pool of XLA."""
    plane, events = Plane("/host:CPU"), []
    events.append(plane.event(f"evaluate#path=/home/{SECRET},n=3#", -500, 100))
    for step in range(STEPS):
        at, number = step * STEP_US, 10 * step
        launch: dict[str, Value] = {"device_id": 0}
        block: dict[str, Value] = {
            "allocator_name": Ref("GPU_0_bfc"), "bytes_allocated": 3_000_000, "addr": 4096,
            "allocation_bytes": 1_048_576, "requested_bytes": 1_000_000, "tf_op": SECRET,
        }  # fmt: skip
        events += [
            plane.event("train", at, 3900, step_num=step, _r=1),
            plane.event("load batch", at + 50, 500, label=Ref(SECRET), path=f"/data/{SECRET}"),
            plane.event(f"$/home/{SECRET}/train.py:12 load", at + 60, 400),
            plane.event("MemoryAllocation", at + 100, 0, **block),
            plane.event("cuMemcpyHtoDAsync_v2", at + 150, 10, **launch,
                        correlation_id=Unsigned(number + 1)),
            plane.event("PjitFunction(step)", at + 600, 300),
            plane.event("wrapped_convert", at + 620, 10),
            *(
                plane.event("cuLaunchKernel", at + 650 + 10 * i, 5, **launch,
                            correlation_id=Unsigned(number + 2 + i))
                for i in range(2)
            ),
            *([plane.event("cuMemsetD32Async", at + 690, 5, **launch, correlation_id=Unsigned(99))]
              if not step else []),
            plane.event("ThreadpoolListener::Record", at + 800, 0, _p=1, _pt=15),
            plane.event("MemoryDeallocation", at + 3000, 0, **{**block, "bytes_allocated": 1_951_424}),
            plane.event("cuStreamSynchronize", at + 3100, 700),
        ]  # fmt: skip
    plane.line(THREAD, "python", events)
    hlo: dict[str, Value] = {"hlo_op": Ref("fusion.2"), "hlo_module": Ref("jit_step"), "program_id": 4}
    plane.line(POOL, f"tf_XLAPjRtCpuClient/{POOL}", [plane.event("fusion.2", 2000, 50, **hlo)])
    return plane


def training() -> bytes:
    """Return the profile of three steps."""
    return space([metadata(), gpu(), Plane("/device:GPU:1", {"device_vendor": "Nvidia"}), host(),
                  environment()])  # fmt: skip


GARBAGE = (
    "regs:2191500840 static_shared:32462 dynamic_shared:4071622176 grid:8,1,1 block:64,1,1 occ_pct:0"
)


def odd() -> bytes:
    """Return a profile with what goes wrong in real ones; no time of day."""
    amd = Plane("/device:GPU:3", {"device_vendor": "AMD", "core_count": 304, "compute_cap_major": 9})
    launched: dict[str, Value] = {"correlation_id": Unsigned(5), "kernel_details": Ref(GARBAGE)}
    unknown = item(9, 5) + item(10, 1.5) + item(11, b"x") + varint(12 << 3 | 5) + b"\0\0\0\0"
    amd.shared["fill.kd"] = {"kernel_details": " grid:4,1,1 block:32,1,1 private_mem:8 group_mem:64"}
    amd.line(1, "Stream #1(Kernel)", [
        amd.event("im2col [clone .kd]", 10, 2, **launched) + unknown,
        amd.event(900, 20, 2, correlation_id=Unsigned(6), kernel_details=Ref(GARBAGE)),
        amd.event("fill.kd", 30, 2, correlation_id=Unsigned(0)),
        item(1, 1) + item(5, 12),  # so many occurrences, at no time
        amd.event_ps("im2col [clone .kd]", 40 * US, -US),
        amd.event_ps("im2col [clone .kd]", (1 << 63) - 1, US),
        amd.event_ps("im2col [clone .kd]", 40 * US, (1 << 63) - 1),
        amd.event("what is this", 50, 2),
    ])  # fmt: skip
    details = "kind:Unknown size:655360 dest:2 async:1"
    amd.line(2, "Stream #2(MemcpyOther)", [
        amd.event("CopyDeviceToDevice", 60, 3, correlation_id=Unsigned(7), memcpy_details=Ref(details)),
        amd.event("MemcpyOther", 70, 3, correlation_id=Unsigned(8), memcpy_details=details),
    ])  # fmt: skip
    amd.line(3, "XLA Ops", [amd.event("fusion", 10, 2), amd.event("fusion", 20, 2)])
    cpu = Plane("/host:CPU")
    cpu.line(THREAD, f"py_xla_execute/{THREAD}", [
        cpu.event("im2col", 1, 1, correlation_id=Unsigned(5)),
        cpu.event("hipMemcpyDtoDAsync", 2, 1, correlation_id=Unsigned(7)),
        cpu.event(901, 3, 1),
        cpu.event("my own", 4, 1, correlation_id=Unsigned(0)),
    ])  # fmt: skip
    custom = Plane("/device:CUSTOM:Megascale Trace")
    custom.line(1, "x", [custom.event(SECRET, 1, 1)])
    return space([cpu, amd, custom], warnings=[f"dropped 3 buffers of {SECRET}"])


def tpu() -> bytes:
    """Return a profile of a TPU."""
    plane = Plane("/device:TPU:0")
    plane.line(1, "XLA Ops", [plane.event("fusion", 1, 1)])
    return space([plane, host(), environment()])


CONTENTS: dict[str, tuple[Callable[[], bytes], str]] = {
    "training.xplane.pb": (training, "three steps of a JAX training on one of two GPUs"),
    "training.xplane.pb.gz": (lambda: gzip.compress(training(), 9, mtime=0), "the same, compressed"),
    "odd.xplane.pb": (odd, "an AMD GPU, odd and missing names, times and details"),
}


def _write(make: Callable[[], bytes], path: Path) -> None:
    path.write_bytes(make())


ABOUT = """\
`xplane/` holds profiles as XLA's profiler writes them (`scripts/fixtures_xplane.py`), with a made-up
secret in programs, arguments of annotations, folders, warnings and whatever else no report needs.
"""
EXAMPLE = "xplane/training.xplane.pb"
FILES = [
    Fixture(f"xplane/{name}", holds, partial(_write, make)) for name, (make, holds) in CONTENTS.items()
]
