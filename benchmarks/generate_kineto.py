"""Write a large, made-up Kineto trace (PyTorch 2.13, JSON) for benchmarks.

    python benchmarks/generate_kineto.py OUT.json[.gz] --mb 500 [--seed 1]

The file looks like the export of a training job (`kineto_job.py`), text layout and order as libkineto
writes them: ops of the backward thread, ops of the main thread, device work with runtime calls,
annotations on the device, names, the span. What it promises:

* the size to within one step (1.4 MB), before compression;
* ops and annotations of a thread nest properly; work of one stream does not overlap;
* correlation ids are unique to a call; each piece of device work has its call;
* same arguments, same bytes (numpy's random numbers permitting); memory does not grow with the size.
"""

from __future__ import annotations

import argparse
import gzip
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO

import kineto_job
import numpy as np
from kineto_step import (
    BACKWARD_TID,
    BANDWIDTH_DIGITS,
    COMMUNICATION,
    COMPUTE,
    DEVICE,
    FIELDS,
    PID,
    SMS,
    STREAMS,
    SYNC_TID,
    Ints,
    Section,
    Step,
    section,
)

BASE_NS = 1_790_857_026_000_000_000
FIRST_NS = 4_311_856_449_544_295
FIRST_STEP = 1000
GPU_COUNT = 16
SECTIONS = ("backward", "forward", "device", "device_ranges")
GZIP_LEVEL = 6


class Plan:
    """A step's events as arrays, and the times they get in a certain step."""

    def __init__(self, step: Step) -> None:
        self.events = len(step.opens)
        self.counts = step.counts
        self.sections = {name: section(step.rows[name], self.events) for name in SECTIONS}
        self.gaps = np.array(step.gaps)
        host = np.sort(np.array(step.ops["forward"] + step.ops["backward"] + step.calls))
        self.host = host
        self.opens, self.closes = np.array(step.opens)[host], np.array(step.closes)[host]
        self.work, self.work_call, self.stream, self.work_ns = np.array(step.work).T
        self.sync, self.sync_call = np.array(step.syncs).T
        self.overheads = np.array(step.overheads)
        self.ranges = [(event, np.array(inside)) for event, inside in step.device_ranges]
        # The last call waits for the device: from its end on, everything is later.
        self.last = step.closes[step.calls[-1]]
        self.fixed = np.zeros((len(FIELDS), self.events), np.int64)
        ops = np.sort(np.array(step.ops["forward"] + step.ops["backward"]))
        self.ids = self._number("id", ops, np.arange(len(ops)))
        self.backward = self._number("index", np.array(step.ops["backward"]),
                                     np.arange(len(step.ops["backward"])))
        self.forward = np.array(step.ops["forward"])
        self._number("index", self.forward, np.arange(len(self.forward)))
        # Ids skip what the profiler does not record.
        self.correlations = self._number("correlation", np.array(step.calls), np.cumsum(
            1 + np.arange(len(step.calls)) * 7 % 4))
        self.flows = self._number("flow", np.array(list(step.flows)), np.array(list(step.flows.values())))
        self.sequences = self._number("sequence", np.array(list(step.sequences)),
                                      np.array(list(step.sequences.values())))
        self.sizes = np.zeros(self.events, np.int64)
        self.sizes[list(step.bytes)] = list(step.bytes.values())

    def _number(self, name: str, events: Ints, numbers: Ints) -> int:
        """Gives events their numbers within the step; returns how many a step needs."""
        self.fixed[FIELDS.index(name), events] = numbers
        return int(numbers.max()) + 1

    def times(self, zero: int, rng: np.random.Generator) -> tuple[Ints, Ints, int]:
        """Beginnings and durations of all events, and the time at which the next step begins."""
        gaps = (self.gaps * rng.lognormal(0, 0.35, len(self.gaps))).astype(np.int64) + 60
        stalls = np.where(rng.random(len(gaps)) < 0.001, rng.exponential(80_000, len(gaps)), 0)
        gaps += stalls.astype(np.int64)
        clock = zero + np.cumsum(gaps)
        start, dur = np.zeros((2, self.events), np.int64)
        start[self.host], dur[self.host] = clock[self.opens], clock[self.closes] - clock[self.opens]
        late = 900 + rng.exponential(1500, len(self.work)).astype(np.int64)
        ready = start[self.work_call] + dur[self.work_call] * 7 // 10 + late
        dur[self.work] = self.work_ns * rng.lognormal(0, 0.08, len(self.work))
        for stream in STREAMS:
            mine = self.stream == stream
            spent = dur[self.work[mine]] + 640  # from one piece of work of a stream to the next
            before = np.cumsum(spent) - spent
            start[self.work[mine]] = np.maximum.accumulate(ready[mine] - before) + before
        done = int((start[self.work] + dur[self.work]).max())
        clock[self.last:] += max(0, done + 1500 - int(clock[self.last]))
        dur[self.host] = clock[self.closes] - clock[self.opens]
        start[self.sync] = start[self.sync_call] + 200
        dur[self.sync] = np.maximum(dur[self.sync_call] - 300, 100)
        start[self.overheads], dur[self.overheads] = zero, 3100
        for event, inside in self.ranges:
            start[event] = start[inside].min() - 1
            dur[event] = (start[inside] + dur[inside]).max() + 1 - start[event]
        return start, dur, int(clock[-1]) + 5000 + int(rng.exponential(200_000))


@dataclass(frozen=True)
class Counters:
    """The numbers that the steps before have used up."""

    ids: int = 1
    backward: int = 0
    forward: int = 0
    correlations: int = 20_000
    flows: int = 1
    sequences: int = 500

    def after(self, plan: Plan) -> Counters:
        """With one more step."""
        return Counters(self.ids + plan.ids, self.backward + plan.backward,
                        self.forward + len(plan.forward), self.correlations + plan.correlations,
                        self.flows + plan.flows, self.sequences + plan.sequences)


class Trace:
    """All steps. Each section is written in a pass of its own, so none has to be kept."""

    def __init__(self, size: int, seed: int) -> None:
        self.seed = seed
        self.plans = [Plan(kineto_job.build(image)) for image in kineto_job.IMAGE_SIZES]
        # What the steps before each have used up, and when it begins; the last entries are the end.
        self.used, self.zero = [Counters()], [FIRST_NS]
        frame = len(self.header()) + len(self.footer())
        # Sizes of steps differ by the digits of their numbers: those in the middle are typical.
        middle = Counters(*[value * size // 600 for value in (1, 1, 1, 1, 0, 0)])
        typical = [sum(len(s.render(self._numbers(plan, 0, middle))) for s in plan.sections.values())
                   for plan in self.plans]
        self.steps = max(1, round((size - frame) / (sum(typical) / len(typical))))
        for step in range(self.steps):
            plan = self.plan(step)
            self.used.append(self.used[-1].after(plan))
            self.zero.append(plan.times(self.zero[-1], self._rng(step))[2])

    def plan(self, step: int) -> Plan:
        """What a step does: image sizes take turns."""
        return self.plans[step % len(self.plans)]

    def _rng(self, step: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, step))

    @cached_property
    def counts(self) -> Counter[str]:
        """Rows by category."""
        total: Counter[str] = Counter()
        for step in range(self.steps):
            total.update(self.plan(step).counts)
        return total

    def _numbers(self, plan: Plan, step: int, used: Counters) -> Ints:
        """The matrix that a step's sections are filled in from."""
        start, dur, _ = plan.times(self.zero[step], self._rng(step))
        numbers = plan.fixed.copy()
        row = {name: numbers[at] for at, name in enumerate(FIELDS)}
        row["start_us"][:], row["start_ns"][:] = np.divmod(start, 1000)
        row["dur_us"][:], row["dur_ns"][:] = np.divmod(dur, 1000)
        row["id"] += used.ids
        row["index"] += used.backward
        row["index"][plan.forward] += self.used[-1].backward + used.forward - used.backward
        row["correlation"] += used.correlations
        row["flow"] += used.flows
        row["sequence"] += used.sequences
        row["bandwidth"][:], rest = np.divmod(plan.sizes, np.maximum(dur, 1))
        row["bandwidth_rest"][:] = rest * BANDWIDTH_DIGITS // np.maximum(dur, 1)
        row["step"][:] = FIRST_STEP + step
        return numbers

    def pieces(self) -> Iterator[str]:
        """The file's text, a step's section at a time."""
        yield self.header()
        for name in SECTIONS:
            for step in range(self.steps):
                plan = self.plan(step)
                part: Section = plan.sections[name]
                yield part.render(self._numbers(plan, step, self.used[step]))
        yield self.footer()

    def header(self) -> str:
        """Everything before the events."""
        return f"""
  {{
    "schemaVersion": 1,
    "deviceProperties": [
    {{
      "id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85017493504,
      "computeMajor": 9, "computeMinor": 0,
      "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048,
      "regsPerBlock": 65536, "warpSize": 32,
      "sharedMemPerBlock": 49152, "numSms": {SMS}
    , "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 232448, \
"sharedMemPerMultiprocessor": 233472
    }}
    ],
      "distributedInfo": {{"backend": "nccl", "rank": 0, "world_size": 8, "pg_count": 1, "pg_config": \
[{{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": 8, "ranks": \
[0, 1, 2, 3, 4, 5, 6, 7]}}], "nccl_version": "2.27.5"}},
      "trace_id": "6B1C0D5A9E2F4B7C8A3D5E6F70819203",
      "record_shapes": 1,
      "cuda_driver_version": 13000,
      "cuda_runtime_version": 13000,
      "cupti_version": 130001,
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": {BASE_NS},
  "traceEvents": [
"""

    def footer(self) -> str:
        """Names of processes and threads, the span, and everything after the events."""
        begin, end = micros(FIRST_NS - 60_000), micros(self.zero[-1] + 400_000)
        length = micros(self.zero[-1] - FIRST_NS + 260_000)

        def name(what: str, pid: int, tid: int, args: str) -> str:
            return (f'  {{\n    "name": "{what}", "ph": "M", "ts": {begin}, "pid": {pid}, "tid": {tid},\n'
                    f'    "args": {{\n      {args}\n    }}\n  }},\n')  # fmt: skip

        rows = []
        for pid, label, order in [(PID, "CPU", PID), *(
                (gpu, f"GPU {gpu}", 5_000_000 + gpu) for gpu in range(GPU_COUNT))]:
            rows += [name("process_name", pid, 0, '"name": "python3"'),
                     name("process_labels", pid, 0, f'"labels": "{label}"'),
                     name("process_sort_index", pid, 0, f'"sort_index": {order}')]
        threads = [(DEVICE, stream, f"stream {stream} ") for stream in STREAMS]
        threads += [(DEVICE, stream + SYNC_TID, f"stream {stream} (sync)")
                    for stream in (COMPUTE, COMMUNICATION)]
        threads += [(PID, PID, f"thread {PID} (python3)"),
                    (PID, BACKWARD_TID, f"thread {BACKWARD_TID} (pt_autograd_0)")]
        for pid, tid, text in threads:
            rows += [name("thread_name", pid, tid, f'"name": "{text}"'),
                     name("thread_sort_index", pid, tid, f'"sort_index": {tid}')]
        return "".join(rows) + f"""  {{
    "ph": "X", "cat": "Trace", "ts": {begin}, "dur": {length},
    "pid": "Spans", "tid": "PyTorch Profiler",
    "name": "PyTorch Profiler (0)",
    "args": {{
      "Op count": 0
    }}
  }},
  {{
    "name": "process_sort_index", "ph": "M", "ts": {begin},
    "pid": "Spans", "tid": 0,
    "args": {{
      "sort_index": 536870912
    }}
  }},
  {{
    "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g",
    "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {begin}
  }},
  {{
    "name": "Record Window End", "ph": "i", "s": "g",
    "pid": "", "tid": "", "ts": {end}
  }}
  ],
  "traceName": "./tb_trace/benchmark_{PID}.1796868882000000000.pt.trace.json"
}}"""


def micros(nanoseconds: int) -> str:
    """Nanoseconds as libkineto writes times."""
    return f"{nanoseconds // 1000}.{nanoseconds % 1000:03d}"


def generate(path: Path, size: int, seed: int = 1) -> Counter[str]:
    """Writes a trace of about `size` bytes, compressed where the name ends in .gz; counts its rows."""
    trace = Trace(size, seed)
    with ExitStack() as stack:
        file = stack.enter_context(path.open("wb"))
        out: IO[bytes] | gzip.GzipFile = file
        if path.suffix == ".gz":
            # No name and no time in the gzip header: same bytes every time.
            out = stack.enter_context(gzip.GzipFile("", "wb", GZIP_LEVEL, file, mtime=0))
        for piece in trace.pieces():
            out.write(piece.encode("ascii"))
    return trace.counts


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--mb", type=float, default=500, help="megabytes (10^6) before compression")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    counts = generate(options.out, int(options.mb * 1e6), options.seed)
    total = sum(counts.values())
    for category, count in counts.most_common():
        print(f"{category:20} {count:9} {100 * count / total:5.1f} %")
    print(f"{'all':20} {total:9}")


if __name__ == "__main__":
    main()
