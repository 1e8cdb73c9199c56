"""A step of a made-up training job as events, and their text as libkineto writes it.

A step is put together once: ops as `with` blocks, runtime calls and what they launch inside them. Its
numbers are slots, so that one text serves for all steps of the same kind (`Section.render`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Dims = tuple[int, ...]
# An input of an op: a tensor's dimensions, a scalar or list as text, or nothing.
Input = Dims | str | None

PID, BACKWARD_TID, DEVICE, SMS = 40112, 40377, 0, 132
COMPUTE, COMMUNICATION, COPIES = 7, 20, 24
STREAMS = (COMPUTE, COMMUNICATION, COPIES)
SYNC_TID = 1_000_000

# The numbers of an event: rows of the matrix that `render` gets.
FIELDS = ("start_us", "start_ns", "dur_us", "dur_ns", "id", "index", "correlation", "flow", "sequence",
          "bandwidth", "bandwidth_rest", "step")  # fmt: skip
# How they appear in the text.
FORMATS = {"ts": ("%d.%03d", ("start_us", "start_ns")), "dur": ("%d.%03d", ("dur_us", "dur_ns")),
           "bandwidth": ("%d.%012d", ("bandwidth", "bandwidth_rest")),
           **{name: ("%d", (name,)) for name in ("id", "index", "correlation", "flow", "sequence",
                                                 "step")}}  # fmt: skip
BANDWIDTH_DIGITS = 10**12
# Runtime calls: (cbid, nanoseconds that they take).
CALLS = {
    "cudaLaunchKernel": (211, 4200), "cudaLaunchKernelExC": (430, 4600), "cudaMemcpyAsync": (41, 5200),
    "cudaMemsetAsync": (51, 3600), "cudaEventRecord": (135, 1300), "cudaStreamIsCapturing": (317, 450),
    "cudaStreamGetPriority": (203, 380), "cudaDeviceGetStreamPriorityRange": (205, 400),
    "cudaFuncSetAttribute": (273, 700), "cudaStreamWaitEvent": (147, 1200),
    "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags": (251, 900),
    "cudaEventQuery": (138, 900), "cudaStreamSynchronize": (131, 2500),
    "cudaStreamGetCaptureInfo_v2": (409, 500),
}  # fmt: skip
# Calls that begin an `ac2g` arrow; at all others one ends.
ARROWS = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync", "cudaMemsetAsync",
          "cudaStreamSynchronize", "cudaStreamWaitEvent")  # fmt: skip

def json_list(items: Sequence[str]) -> str:
    """A list as libkineto writes it."""
    return f"[{', '.join(items)}]"


def strides(dims: Dims) -> list[str]:
    """The strides of a contiguous tensor."""
    return [str(int(np.prod(dims[at + 1 :], dtype=np.int64))) for at in range(len(dims))]


def shapes(inputs: Sequence[Input]) -> str:
    """What `record_shapes` adds to an op."""
    values, types, steps, dims = [], [], [], []
    for value in inputs:
        tensor = value if isinstance(value, tuple) else ()
        text = value if isinstance(value, str) else ""
        values.append(f'"{text}"')
        types.append('"float"' if isinstance(value, tuple) else
                     '""' if value is None else '"ScalarList"' if text[0] == "[" else '"Scalar"')
        steps.append(json_list(strides(tensor)))
        dims.append(json_list([str(n) for n in tensor]))
    return (f'"Concrete Inputs": {json_list(values)}, "Input type": {json_list(types)}, '
            f'"Input Strides": {json_list(steps)}, "Input Dims": {json_list(dims)}, ')  # fmt: skip


def slot(name: str, event: int) -> str:
    """A place in the text that an event's number is filled into."""
    return f"\0{name}:{event}\0"


@dataclass(frozen=True)
class Section:
    """Text with slots: a format for `%`, and where its numbers lie in the flattened matrix."""

    text: str
    picks: Ints

    def render(self, numbers: Ints) -> str:
        """The text with the numbers filled in."""
        return self.text % tuple(numbers.ravel()[self.picks].tolist())


def section(rows: Sequence[str], events: int) -> Section:
    """Compiles rows."""
    picks: list[int] = []

    def place(found: re.Match[str]) -> str:
        text, fields = FORMATS[found[1]]
        picks.extend(FIELDS.index(name) * events + int(found[2]) for name in fields)
        return text

    text = re.sub("\0(\\w+):(\\d+)\0", place, "".join(rows).replace("%", "%%"))
    return Section(text, np.array(picks, np.int64))


@dataclass
class Step:
    """One step under construction: its events, the order of their beginnings and ends, its text.

    `gaps` are the nanoseconds between one beginning or end and the next, over both threads: the main
    thread waits while the backward thread works. So whatever the gaps, events of a thread nest.
    """

    image: int
    gaps: list[int] = field(default_factory=list)
    opens: list[int] = field(default_factory=list)  # per event: the gap that ends at its beginning
    closes: list[int] = field(default_factory=list)
    rows: dict[str, list[str]] = field(default_factory=lambda: {
        "backward": [], "forward": [], "device": [], "device_ranges": []})  # fmt: skip
    counts: Counter[str] = field(default_factory=Counter)
    ops: dict[str, list[int]] = field(default_factory=lambda: {"backward": [], "forward": []})
    calls: list[int] = field(default_factory=list)
    # (event, its call, stream, ns) of device work; (event, its call) of synchronisations.
    work: list[tuple[int, int, int, int]] = field(default_factory=list)
    syncs: list[tuple[int, int]] = field(default_factory=list)
    bytes: dict[int, int] = field(default_factory=dict)
    device_ranges: list[tuple[int, list[int]]] = field(default_factory=list)
    flows: dict[int, int] = field(default_factory=dict)
    sequences: dict[int, int] = field(default_factory=dict)
    overheads: list[int] = field(default_factory=list)
    thread: str = "forward"
    _stack: list[int] = field(default_factory=list)
    _ranges: dict[int, list[int]] = field(default_factory=dict)

    def event(self) -> int:
        """A new event, with no times on the CPU yet."""
        self.opens.append(0)
        self.closes.append(0)
        return len(self.opens) - 1

    def add(self, where: str, category: str, text: str) -> None:
        """A row of text."""
        self.counts[category] += 1
        self.rows[where].append(text)

    @property
    def tid(self) -> int:
        """The system's id of the current thread."""
        return PID if self.thread == "forward" else BACKWARD_TID

    def edge(self, nanoseconds: int) -> int:
        """Time passes up to a beginning or an end."""
        self.gaps.append(nanoseconds)
        return len(self.gaps) - 1

    def complete(self, category: str, name: str, event: int, pid: int, tid: int, args: str) -> str:
        """The text of an `X` event."""
        args = f',\n    "args": {{\n      {args}\n    }}' if args else ""
        return (f'  {{\n    "ph": "X", "cat": "{category}", "name": "{name}", "pid": {pid}, "tid": {tid},'
                f'\n    "ts": {slot("ts", event)}, "dur": {slot("dur", event)}{args}\n  }},\n')

    def arrow(self, phase: str, kind: str, number: str, event: int, pid: int, tid: int) -> str:
        """The text of a flow event at the beginning of an event."""
        end = ', "bp": "e"' if phase == "f" else ""
        return (f'  {{\n    "ph": "{phase}", "id": {number}, "pid": {pid}, "tid": {tid}, '
                f'"ts": {slot("ts", event)},\n    "cat": "{kind}", "name": "{kind}"{end}\n  }},\n')

    @contextmanager
    def op(self, name: str, *inputs: Input, annotation: bool = False, autograd: str = "",
           sequence: int | None = None) -> Iterator[None]:  # fmt: skip
        """An op or annotation around what the block adds.

        `sequence` is shared by a forward op and its gradient's ops; `autograd` is "call" for the
        engine's row, "from" and "to" for the two ends of the arrow between op and gradient.
        """
        event = self.event()
        self.opens[event] = self.edge(900)
        self._stack.append(event)
        category = "user_annotation" if annotation else "cpu_op"
        thread = int(self.thread == "backward")
        self.ops[self.thread].append(event)
        number = ""
        if sequence is not None:
            self.sequences[event] = sequence
            number = f'"Sequence number": {slot("sequence", event)}, "Fwd thread id": {thread}, '
        record = '"Record function id": 0, '
        order = record + number if autograd == "call" else number + record
        args = (f'"External id": {slot("id", event)},{order}{shapes(inputs) if inputs else ""}'
                f'"Ev Idx": {slot("index", event)}')  # fmt: skip
        if annotation:
            args = args.replace('"Ev Idx"', '"scope": "user_scope", "Ev Idx"')
        name = name.replace("#N", f"#{slot('step', event)}")
        self.add(self.thread, category, self.complete(category, name, event, PID, self.tid, args))
        if autograd in ("from", "to") and sequence is not None:
            self.flows[event] = sequence
            phase = "s" if autograd == "from" else "f"
            self.add(self.thread, f"fwdbwd {phase}",
                     self.arrow(phase, "fwdbwd", slot("flow", event), event, PID, self.tid))
        if annotation:
            self._ranges[event] = []
        yield
        self._stack.pop()
        self.closes[event] = self.edge(700)
        if annotation and not name.startswith("ProfilerStep"):
            self._device_ranges(event, name)

    def call_in(self, name: str, calls: Sequence[str]) -> None:
        """An op without inputs around some calls."""
        with self.op(name):
            for call in calls:
                self.call(call)

    def leaf(self, name: str, *inputs: Input) -> None:
        """An op that calls nothing."""
        with self.op(name, *inputs):
            pass

    def _device_ranges(self, event: int, name: str) -> None:
        """What an annotation looks like on each stream that it launched work to."""
        by_event = {work[0]: work[2] for work in self.work}
        for stream in STREAMS:
            inside = [work for work in self._ranges[event] if by_event[work] == stream]
            if inside:
                copy = self.event()
                self.device_ranges.append((copy, inside))
                self.add("device_ranges", "gpu_user_annotation", self.complete(
                    "gpu_user_annotation", name, copy, DEVICE, stream,
                    f'"External id": {slot("id", event)}'))

    def call(self, name: str, device: tuple[str, str, int, int, str] | None = None) -> int:
        """A runtime call, with its device work as (category, name, stream, ns, args) if it has any."""
        event = self.event()
        cbid, nanoseconds = CALLS[name]
        self.opens[event] = self.edge(600)
        self.closes[event] = self.edge(nanoseconds)
        self.calls.append(event)
        parent = slot("id", self._stack[-1])
        correlation = slot("correlation", event)
        if device is not None:
            category, what, stream, dur, args = device
            done = self.event()
            self.work.append((done, event, stream, dur))
            for outer in self._stack:
                if outer in self._ranges:
                    self._ranges[outer].append(done)
            args = args.replace("CORRELATION", correlation).replace("BANDWIDTH", slot("bandwidth", done))
            self.add("device", category, self.complete(
                category, what, done, DEVICE, stream, f'"External id": {parent},      {args}'))
            self.add("device", "ac2g f",
                     self.arrow("f", "ac2g", correlation, done, DEVICE, stream))
        self.add("device", "cuda_runtime", self.complete(
            "cuda_runtime", name, event, PID, self.tid,
            f'"External id": {parent},      "cbid": {cbid}, "correlation": {correlation}'))
        phase = "s" if name in ARROWS else "f"
        self.add("device", f"ac2g {phase}", self.arrow(phase, "ac2g", correlation, event, PID, self.tid))
        return event

    def launch(self, name: str, nanoseconds: int, blocks: int, threads: int = 128, registers: int = 32,
               shared: int = 0, stream: int = COMPUTE, extra: str = "", call: str = "cudaLaunchKernel",
               ) -> None:  # fmt: skip
        """A launch and its kernel."""
        per_sm = blocks / SMS
        occupancy = min(100, round(min(per_sm * threads / 2048, 65536 / registers / 2048) * 100))
        self.call(call, ("kernel", name, stream, nanoseconds, (
            f'"queued": 0, "device": {DEVICE}, "context": 1,      "stream": {stream}, '
            f'"correlation": CORRELATION,      "registers per thread": {registers},      '
            f'"shared memory": {shared},      "blocks per SM": {per_sm:.6f},      '
            f'"warps per SM": {per_sm * threads / 32:.6f},      "grid": [{blocks}, 1, 1],      '
            f'"block": [{threads}, 1, 1],      "est. achieved occupancy %": {occupancy}{extra}')))

    def transfer(self, what: str, size: int, per_ns: int, stream: int = COMPUTE) -> None:
        """A copy or memset call and its work; `per_ns` bytes go in a nanosecond."""
        category = "gpu_memset" if what.startswith("Memset") else "gpu_memcpy"
        self.call("cudaMemsetAsync" if category == "gpu_memset" else "cudaMemcpyAsync", (
            category, what, stream, 1100 + size // per_ns,
            f'"device": {DEVICE}, "context": 1,      "stream": {stream}, "correlation": CORRELATION,'
            f'      "bytes": {size}, "memory bandwidth (GB/s)": BANDWIDTH'))
        self.bytes[self.work[-1][0]] = size

    def sync(self, call: int, kind: str, stream: int, waits: str) -> None:
        """The row of a synchronisation, with its call's times."""
        event = self.event()
        self.syncs.append((event, call))
        correlation = slot("correlation", call)
        self.add("device", "cuda_sync", self.complete(
            "cuda_sync", kind, event, DEVICE, stream + SYNC_TID,
            f'"External id": {slot("id", self._stack[-1])},      "cuda_sync_kind": "{kind}",      {waits}'
            f'"stream": {stream}, "correlation": {correlation},      "device": {DEVICE}, "context": 1'))
        self.add("device", "ac2g f",
                 self.arrow("f", "ac2g", correlation, event, DEVICE, stream + SYNC_TID))

    def overhead(self, name: str) -> None:
        """What the profiler itself costs."""
        event = self.event()
        self.overheads.append(event)
        self.add("device", "overhead", self.complete("overhead", name, event, -1, 0, ""))
