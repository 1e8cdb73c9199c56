"""The made-up training job behind the large benchmark files: names, threads, times.

Every process has two launching threads (one per device when there are more devices), each with
two streams. A thread works in steps of `CALLS` API calls, of which `LAUNCHES` launch kernels; the
last call of a step waits for the step's GPU work, so steps do not depend on each other and whole
chunks of steps are computed at once as (step, call) matrices.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

VM = 1 << 48
CALLS = 120
LAUNCHES = 100
STEPS_PER_CHUNK = 256
NAME_COUNT = 1000

LAUNCH, LAUNCH_EX, COPY, SET, SYNC, RECORD, WAIT, QUERY, CAPTURING, MALLOC, FREE, INNER = range(12)
API_NAMES = (
    "cudaLaunchKernel_v7000",
    "cuLaunchKernelEx",
    "cudaMemcpyAsync_v3020",
    "cudaMemsetAsync_v3020",
    "cudaStreamSynchronize_v3020",
    "cudaEventRecord_v3020",
    "cudaStreamWaitEvent_v3020",
    "cudaEventQuery_v3020",
    "cudaStreamIsCapturing_v10000",
    "cudaMalloc_v3020",
    "cudaFree_v3020",
    "cuMemAlloc_v2",
)
# Median duration of a call on the CPU, in ns, by the constants above.
API_NS = np.array([2600, 2400, 3800, 3200, 2000, 1100, 900, 900, 500, 9000, 7000, 0])
# (copyKind, srcKind, dstKind, bytes per ns), drawn per copy with these weights.
COPIES = np.array(
    [(1, 1, 2, 24), (1, 0, 2, 9), (2, 2, 1, 25), (2, 2, 0, 8), (8, 2, 2, 900)], dtype=np.int64
)
COPY_WEIGHTS = (0.4, 0.1, 0.2, 0.1, 0.2)


def kernel_names() -> Iterator[tuple[str, str, str]]:
    """Yield (demangled, short, mangled) names as CUPTI and the exporter spell them, without end."""
    types = (("float", "f"), ("double", "d"), ("int", "i"), ("long", "l"),
             ("c10::BFloat16", "N3c108BFloat16E"), ("c10::Half", "N3c104HalfE"))  # fmt: skip
    functors = ("CUDAFunctor_add", "CUDAFunctorOnSelf_add", "FillFunctor", "AbsFunctor")
    files = ("PowKernel", "Shape", "layer_norm_kernel", "IndexKernel", "SoftMax")
    for n in itertools.count():
        text, code = types[n % 6]
        functor, file, vec, tile = functors[n % 4], files[n % 5], 2 << n % 3, 64 << n % 3
        short = "vectorized_elementwise_kernel"
        yield (
            f"void at::native::{short}<(int){vec}, at::native::{functor}<{text}>, "
            f"std::array<char *, (unsigned long){n + 2}>>(int, T2, T3)",
            short,
            f"_ZN2at6native29{short}ILi{vec}ENS0_{len(functor)}{functor}I{code}EE"
            f"St5arrayIPcLm{n + 2}EEEEviT0_T1_",
        )
        gemm = f"cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_{tile}x{128 + n}_32x{vec}_tn_align8"
        yield (
            f"void cutlass::Kernel2<{gemm}>(T1::Params)",
            "Kernel2",
            f"_ZN7cutlass7Kernel2I{len(gemm)}{gemm}EEvNT_6ParamsE",
        )
        name = f"vectorized_{file}_{n}"
        space = f"_GLOBAL__N__{n + 0x2173:08x}_{len(file) + 3}_{file}_cu_9c5ada8a"
        yield (
            f"void at::native::<unnamed>::{name}<{text}, (bool){n % 2}>(int, T1, const T1 *)",
            name,
            f"_ZN2at6native{len(space)}{space}{len(name)}{name}I{code}Lb{n % 2}EEEviT_PKT_",
        )
        yield (
            f"void at::native::reduce_kernel<(int)512, (int){n}, at::native::ReduceOp<float, "
            "at::native::MeanOps<float, float, float, float>, unsigned int, float, (int)4, "
            "(int)4>>(T3)",
            "reduce_kernel",
            f"_ZN2at6native13reduce_kernelILi512ELi{n}ENS0_8ReduceOpIfNS0_7MeanOpsIffffEEjf"
            "Li4ELi4EEEEEvT1_",
        )
        op = f"ncclDevKernel_{('AllReduce', 'AllGather', 'ReduceScatter')[n % 3]}_Sum_bf16_RING_{n}"
        yield (
            f"{op}(ncclDevKernelArgsStorage<(unsigned long)4096>)",
            op,
            f"_Z{len(op)}{op}24ncclDevKernelArgsStorageILm4096EE",
        )
        plain = f"triton_poi_fused__to_copy_add_mul_native_layer_norm_{n}"
        yield plain, plain, plain


@dataclass
class Strings:
    """The export's string table: `id_of` hands out ids, `rows` are what StringIds holds."""

    rows: dict[str, int] = field(default_factory=dict)

    def id_of(self, text: str) -> int:
        """Return the id of the text, a new one at first use."""
        return self.rows.setdefault(text, len(self.rows) + 21)


@dataclass(frozen=True)
class Names:
    """String ids of everything the generator names, and the meaning of each kernel name."""

    api: Ints
    kernels: Ints  # (NAME_COUNT, 3): demangled, short, mangled
    shares: npt.NDArray[np.float64]  # cumulated Zipf shares, for searchsorted
    dur_ns: Ints
    shape: Ints  # (NAME_COUNT, 5): registers, grid x, block x, static and dynamic shared memory


def make_names(strings: Strings, rng: np.random.Generator) -> Names:
    """Return names of everything, with kernels by popularity: a few are most of all launches."""
    triples = list(itertools.islice(kernel_names(), NAME_COUNT))
    ids = [[strings.id_of(text) for text in triple] for triple in triples]
    order = rng.permutation(NAME_COUNT)
    shares = 1.0 / np.arange(1, NAME_COUNT + 1) ** 1.1
    shape = [
        rng.integers(16, 168, NAME_COUNT),
        2 ** rng.integers(0, 14, NAME_COUNT),
        2 ** rng.integers(5, 10, NAME_COUNT),
        1024 * rng.integers(0, 4, NAME_COUNT),
        4096 * rng.integers(0, 8, NAME_COUNT),
    ]
    return Names(
        api=np.array([strings.id_of(name) for name in API_NAMES]),
        kernels=np.array(ids)[order],
        shares=np.cumsum(shares / shares.sum()),
        dur_ns=np.clip(rng.lognormal(8.0, 0.8, NAME_COUNT), 900, 90_000).astype(np.int64),
        shape=np.stack(shape, axis=1),
    )


@dataclass
class Thread:
    """A launching thread and how far it has got."""

    pid: int
    tid: int
    device: int
    streams: Ints
    first_id: int
    id_stride: int
    steps: int
    now: int
    step: int = 0

    @property
    def context(self) -> int:
        """Return the context of a device; the process has one per device."""
        return self.device + 1

    @property
    def global_pid(self) -> int:
        """Return the process as the export writes it: VM and pid bits."""
        return VM | self.pid << 24

    @property
    def global_tid(self) -> int:
        """Return the thread as the export writes it: the process and tid bits."""
        return self.global_pid | self.tid


@dataclass(frozen=True)
class Chunk:
    """Some steps of a thread. All arrays are (step, call); times are absolute ns."""

    kind: Ints
    start: Ints
    end: Ints
    correlation: Ints
    stream: Ints
    op_start: Ints
    op_end: Ints
    kernel: Ints
    copy: Ints
    bytes: Ints


def call_kinds(rng: np.random.Generator, steps: int) -> Ints:
    """Return what each call of each step does; (steps, CALLS). `LAUNCHES` of a step's calls launch."""
    kind = np.where(rng.random((steps, CALLS)) < 0.1, LAUNCH_EX, LAUNCH)
    for value, positions in (
        (MALLOC, [1]), (FREE, [118]), (COPY, [3, 5, 7, 105, 110, 115]), (SET, [9]),
        (CAPTURING, [15, 25, 45, 80]), (RECORD, [33, 57, 95]), (WAIT, [34, 58]),
        (QUERY, [69]), (SYNC, [CALLS - 1]),
    ):  # fmt: skip
        kind[:, positions] = value
    # A fifth of the steps clears a second buffer in place of the query.
    kind[:, 69] = np.where(rng.random(steps) < 0.2, SET, QUERY)
    return kind


def op_times(ready: Ints, dur: Ints, stream: Ints, is_op: Flags) -> Ints:
    """Start of each op: when it is ready and the stream's op before it has ended.

    start[k] = max(ready[k], end[k-1]) with end = start + dur becomes a running maximum once the
    sum of the durations before k is taken off.
    """
    start = np.zeros_like(ready)
    for index in (0, 1):
        mine = is_op & (stream == index)
        spent = np.where(mine, dur, 0)
        before = np.cumsum(spent, axis=1) - spent
        slack = np.where(mine, ready - before, np.iinfo(np.int64).min // 2)
        start += np.where(mine, np.maximum.accumulate(slack, axis=1) + before, 0)
    return start


def rare(rng: np.random.Generator, shape: tuple[int, ...], share: float, scale_ns: int) -> Ints:
    """Return mostly 0; a `share` of the cells is exponentially distributed with mean `scale_ns`."""
    return np.where(rng.random(shape) < share, rng.exponential(scale_ns, shape), 0).astype(np.int64)


def make_chunk(thread: Thread, steps: int, names: Names, rng: np.random.Generator) -> Chunk:
    """Return the next `steps` steps of the thread; moves the thread's clock on."""
    shape = (steps, CALLS)
    kind = call_kinds(rng, steps)
    # The three causes of gaps between GPU ops: late calls, long calls, late ops.
    host = 600 + rng.exponential(2200, shape).astype(np.int64) + rare(rng, shape, 0.004, 150_000)
    api = (API_NS[kind] * rng.lognormal(0, 0.3, shape)).astype(np.int64) + 120
    api += np.where(kind <= SET, rare(rng, shape, 0.003, 60_000), 0)
    late = rng.integers(300, 2500, shape) + rare(rng, shape, 0.006, 40_000)
    start = np.cumsum(host + api, axis=1) - api
    kernel = np.minimum(np.searchsorted(names.shares, rng.random(shape)), NAME_COUNT - 1)
    copy = rng.choice(len(COPIES), shape, p=COPY_WEIGHTS)
    size = 4 * (2 ** rng.uniform(0, 19, shape)).astype(np.int64)
    dur = (names.dur_ns[kernel] * rng.lognormal(0, 0.1, shape)).astype(np.int64)
    dur = np.where(kind == COPY, 1200 + size // COPIES[copy, 3], dur)
    dur = np.where(kind == SET, 900 + size // 1000, dur)
    stream = (rng.random(shape) < 0.2).astype(np.int64)
    is_op = kind <= SET
    # 700 ns: what the GPU needs from one op of a stream to the next.
    op_start = op_times(start + api * 7 // 10 + late, dur + 700, stream, is_op)
    op_end = np.where(is_op, op_start + dur, 0)
    end = start + api
    end[:, -1] = np.maximum(end[:, -1], op_end.max(axis=1) + 1500)
    tail = 6000 + rng.exponential(25_000, steps) + rare(rng, (steps,), 0.03, 1_000_000)
    length = end[:, -1] + tail.astype(np.int64)
    zero = (thread.now + np.cumsum(length) - length)[:, None]
    # One id more than calls: the driver call inside cudaMalloc takes the one after it.
    position = np.arange(CALLS) + (np.arange(CALLS) > 1)
    serial = (thread.step + np.arange(steps))[:, None] * (CALLS + 1) + position
    thread.now += int(length.sum())
    return Chunk(
        kind=kind, start=start + zero, end=end + zero, stream=thread.streams[stream],
        correlation=thread.first_id + serial * thread.id_stride,
        op_start=op_start + zero, op_end=op_end + zero, kernel=kernel, copy=copy, bytes=size,
    )  # fmt: skip


def make_threads(kernels: int, processes: int, devices: int) -> list[Thread]:
    """Return all launching threads; together their steps launch at least `kernels` kernels."""
    per_process = max(2, devices)
    count = processes * per_process
    steps = -(-kernels // (LAUNCHES * count))
    return [
        Thread(
            pid=4000 + 17 * process, tid=4000 + 17 * process + 41 * number,
            device=number % devices, streams=np.array([13 + 2 * number, 14 + 2 * number]),
            first_id=100 + number, id_stride=per_process, steps=steps,
            now=1_000_000_000 + 3_000_000 * number,
        )
        for process in range(processes) for number in range(per_process)
    ]  # fmt: skip
