"""A made-up training of realistic size: what the README, the tutorials and `make demo` look at.

A transformer on images, in mixed precision: 12 blocks, AdamW, some 800 kernels in each step. No program
ran. Times follow from sizes and from what a GPU of the kind does, with some noise out of a seed, so that
the same arguments give the same events on every machine. What holds the training back is put there:

* the host loads a batch while the GPU waits (`loader_us`);
* the batch is copied from pageable memory, which nothing overlaps (`pinned`);
* the optimizer launches a kernel for each parameter and operation (`fused_optimizer`);
* of several ranks one loads longer, and the others wait for it in their collectives (`late_rank`).

A host clock launches; streams run what was launched, in order; `item()` waits once a step.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kineto_framework import Collective, Framework, Operator, PythonFunction
from machine import a100, stream
from workload import (
    ApiCall,
    Device,
    Events,
    Function,
    Kernel,
    MemoryKind,
    Memcpy,
    Process,
    Range,
    Stream,
    Sync,
    Thread,
    Workload,
)

BLOCKS = 12
PARAMETERS = 76
TOKENS, WIDTH, HIDDEN = 8192, 1024, 4096
BATCH_BYTES = 64 * 3 * 224 * 224 * 4
BUCKET_BYTES = 2 * 85_000_000 // 4
BLOCKS_PER_BUCKET = 3
US = 1000
ADAM = ("mul_", "lerp_", "mul_", "addcmul_", "sqrt", "addcdiv_")

V100 = Device(
    gpu_id=0,
    name="Tesla V100-SXM2-16GB",
    chip="GV100",
    uuid="b100b100-0000-4000-8000-000000000000",
    bus_id="0000:01:00.0",
    sm_count=80,
    compute=(7, 0),
    memory_bytes=16_945_512_448,
)


@dataclass(frozen=True)
class Training:
    """How the training goes, and how it is annotated."""

    name: str
    steps: int = 20
    ranks: int = 1
    start_up_us: int = 2_000
    loader_us: int = 13_000
    pinned: bool = False
    fused_optimizer: bool = False
    late_rank: int | None = None
    gpu: Device = field(default_factory=lambda: a100(0))
    # As NVTX ranges in the training's own words, or as PyTorch's profiler names them.
    by_pytorch: bool = False
    seed: int = 1


@dataclass(frozen=True)
class Names:
    """The kernel functions, of one architecture and type."""

    dtype: str
    gemm_prefix: str

    def gemm(self, tile: str) -> Function:
        """Return a matrix product of cuBLAS, which has no C++ name."""
        return Function(*[f"{self.gemm_prefix}_{tile}"] * 4)

    def elementwise(self, functor: str) -> Function:
        """Return a kernel of PyTorch that applies a functor to every element."""
        name = "vectorized_elementwise_kernel"
        typed = f"at::native::{functor}<{self.dtype}>"
        return Function(
            demangled=f"void at::native::{name}<(int)4, {typed}, "
            "std::array<char *, (unsigned long)3>>(int, T2, T3)",
            itanium=f"void at::native::{name}<4, {typed}, std::array<char*, 3ul> >"
            f"(int, {typed}, std::array<char*, 3ul>)",
            short=name,
            mangled=f"_ZN2at6native29{name}ILi4ENS0_{len(functor)}{functor}I{self._mangled}E"
            "ESt5arrayIPcLm3EEEEviT0_T1_",
        )

    def template(self, space: str, name: str) -> Function:
        """Return a function template of the type, in a namespace."""
        text = f"void {space}::{name}<{self.dtype}>(int)"
        parts = "".join(f"{len(part)}{part}" for part in [*space.split("::"), name])
        return Function(text, text, name, f"_ZN{parts}I{self._mangled}EEvi")

    @property
    def _mangled(self) -> str:
        parts = self.dtype.split("::")
        return "N" + "".join(f"{len(part)}{part}" for part in parts) + "E"


def _all_reduce() -> Function:
    text = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
    argument = "ncclDevKernelArgsStorage"
    return Function(
        demangled=f"{text}({argument}<(unsigned long)4096>)",
        itanium=f"{text}({argument}<4096ul>)",
        short=text,
        mangled=f"_Z{len(text)}{text}{len(argument)}{argument}ILm4096EE",
    )


ALL_REDUCE = _all_reduce()


@dataclass(frozen=True)
class _Arrival:
    """A rank has come to a collective, which could start there now."""

    ready_ns: int


class _Rank:
    """One process: a host clock, streams, and all that was recorded."""

    def __init__(self, training: Training, rank: int) -> None:
        self.training, self.rank = training, rank
        # Each rank has a GPU of its own, which it calls its first.
        device = training.gpu if training.ranks == 1 else a100(rank)
        self.process = Process(21_000 + rank, "python", (device,), rank if training.ranks > 1 else None)
        self.main = Thread(self.process, self.process.pid, "python")
        self.back = Thread(self.process, self.process.pid + 55, "pt_autograd_0")
        self.compute = stream(self.process, 7, "null")
        self.communication = stream(self.process, 20)
        self.random = random.Random(training.seed * 1000 + rank)
        volta = device is V100
        self.names = Names(
            "c10::Half" if volta else "c10::BFloat16",
            "volta_fp16_s884gemm_fp16" if volta else "ampere_bf16_s16816gemm_bf16",
        )
        # A V100 does half as much in the same time.
        self.slowness = 2.2 if volta else 1.0
        self.thread = self.main
        self.now = 2_000 * US
        self.free = {self.compute: 0, self.communication: 0}
        self.correlation = 1
        self.sequence = 0
        self.calls: list[ApiCall] = []
        self.kernels: list[Kernel] = []
        self.copies: list[Memcpy] = []
        self.syncs: list[Sync] = []
        self.ranges: list[Range] = []
        self.operators: list[Operator] = []
        self.collectives: list[Collective] = []
        self.functions: list[PythonFunction] = []
        self.open_functions: list[int] = []

    # -- what the host does

    def noise(self, value: float, spread: float = 0.03) -> int:
        """Return about so many ns: `value` is in us."""
        return max(1, round(value * US * self.random.gauss(1, spread)))

    def spend(self, us: float) -> None:
        """Let the host work on something that is not recorded."""
        self.now += self.noise(us, 0.1)

    def call(self, symbol: str, us: float) -> ApiCall:
        """Record an API call from now on, and move the clock to its end."""
        start = self.now
        self.now += self.noise(us, 0.15)
        self.correlation += 1
        made = ApiCall(self.thread, self.correlation, symbol, start, self.now)
        self.calls.append(made)
        return made

    def until(self, call: ApiCall, end_ns: int, where: Stream, kind: str) -> None:
        """Make the last call wait: it ends then, and so does its synchronisation."""
        self.now = max(self.now, end_ns + 3 * US)
        self.calls[-1] = ApiCall(call.thread, call.correlation_id, call.symbol, call.start_ns, self.now)
        start = min(call.start_ns + 800, self.now - 400)
        if kind == "stream":
            self.syncs.append(Sync(where, call.correlation_id, "stream", start, self.now - 300))

    @contextmanager
    def annotated(self, text: str) -> Iterator[None]:
        """Record what happens inside as a range."""
        start = self.now
        self.now += US
        yield
        self.now += US
        self.ranges.append(Range(self.main, text, start, self.now))

    @contextmanager
    def operator(self, name: str, shapes: str = "[]", sequence: int | None = None) -> Iterator[None]:
        """Record what happens inside as an operator; only PyTorch's profiler knows it."""
        start = self.now
        self.spend(1.6)
        place = len(self.operators)
        yield
        self.spend(0.6)
        count = shapes.count("[") - 1
        types = "[" + ", ".join([f'"{self.names.dtype}"'] * count) + "]" if count else "[]"
        forward = self.main if self.thread is self.back else None
        made = Operator(self.thread, name, start, self.now, shapes, types, sequence, forward)
        self.operators.insert(place, made)

    @contextmanager
    def module(self, name: str) -> Iterator[None]:
        """Record what happens inside as the call of a module of the network."""
        number, start = len(self.functions) + len(self.open_functions) + 1, self.now
        parent = self.open_functions[-1] if self.open_functions else None
        self.open_functions.append(number)
        self.spend(2)
        yield
        self.open_functions.pop()
        made = PythonFunction(self.main, f"nn.Module: {name}", start, self.now, number, parent)
        self.functions.append(made)

    # -- what the GPU does

    def launch(self, function: Function, us: float, grid: int = 1024, registers: int = 64) -> None:
        """Launch a kernel on the compute stream."""
        self.spend(1.2)
        call = self.call("cudaLaunchKernel_v7000", 3.4)
        ready = max(call.start_ns + self.noise(4.2, 0.1), self.free[self.compute] + 900)
        end = ready + self.noise(us * self.slowness)
        self.free[self.compute] = end
        shape = (grid, 1, 1), (256, 1, 1)
        kernel = Kernel(self.compute, call.correlation_id, function, ready, end, *shape, registers)
        self.kernels.append(kernel)

    def copy_batch(self) -> None:
        """Copy the next batch to the GPU: from pageable memory the host waits for it."""
        call = self.call("cudaMemcpyAsync_v3020", 6)
        kind: MemoryKind = "pinned" if self.training.pinned else "pageable"
        rate = 24.6 if self.training.pinned else 5.6
        start = max(call.start_ns + 5 * US, self.free[self.compute] + 900)
        end = start + self.noise(BATCH_BYTES / rate / US, 0.02)
        self.copies.append(Memcpy(self.compute, call.correlation_id, "HtoD", kind, "device",
                                  BATCH_BYTES, start, end))  # fmt: skip
        self.free[self.compute] = end
        if not self.training.pinned:
            self.until(call, end, self.compute, "copy")

    def item(self) -> None:
        """Copy the loss to the host, and wait for it."""
        with self.operator("aten::item"), self.operator("aten::_local_scalar_dense"):
            call = self.call("cudaMemcpyAsync_v3020", 5)
            start = max(call.start_ns + 4 * US, self.free[self.compute] + 900)
            self.copies.append(Memcpy(self.compute, call.correlation_id, "DtoH", "device",
                                      "pageable", 4, start, start + 1_400))  # fmt: skip
            self.free[self.compute] = start + 1_400
            call = self.call("cudaStreamSynchronize_v3020", 2)
            self.until(call, self.free[self.compute], self.compute, "stream")

    def all_reduce(self) -> Generator[_Arrival, int, None]:
        """Sum up a bucket of gradients over all ranks, beside the backward pass."""
        start_ns = self.now
        self.spend(12)
        call = self.call("cudaLaunchKernelExC_v11060", 5)
        ready = max(call.start_ns + 6 * US, self.free[self.communication] + 900,
                    self.free[self.compute])  # fmt: skip
        end = yield _Arrival(ready)
        self.free[self.communication] = end
        self.kernels.append(Kernel(self.communication, call.correlation_id, ALL_REDUCE, ready, end,
                                   (24, 1, 1), (544, 1, 1), 96))  # fmt: skip
        self.sequence += 1
        members = tuple(range(self.training.ranks))
        self.collectives.append(Collective(self.thread, call.correlation_id, "allreduce", start_ns,
                                           self.now, BUCKET_BYTES // 2, "BFloat16", "0", members,
                                           self.sequence))  # fmt: skip

    # -- the training

    def linear(self, inputs: int, outputs: int, us: float) -> None:
        tile = "128x256_ldg8_f2f_tn" if outputs > WIDTH else "128x128_ldg8_f2f_tn"
        shapes = f"[[{TOKENS}, {inputs}], [{outputs}, {inputs}], [{outputs}]]"
        with self.module(f"Linear_{len(self.functions)}"), self.operator("aten::linear", shapes):
            inner = f"[[{outputs}], [{TOKENS}, {inputs}], [{inputs}, {outputs}]]"
            with self.operator("aten::addmm", inner, self.sequence):
                self.launch(self.names.gemm(tile), us, outputs // 128 * 64, 234)

    def elementwise(self, name: str, functor: str, us: float, width: int = WIDTH) -> None:
        with self.operator(f"aten::{name}", f"[[{TOKENS}, {width}]]", self.sequence):
            self.launch(self.names.elementwise(functor), us, 4096, 32)

    def layer_norm(self) -> None:
        shapes = f"[[{TOKENS}, {WIDTH}], [{WIDTH}], [{WIDTH}]]"
        with self.operator("aten::layer_norm", shapes), self.operator(
            "aten::native_layer_norm", shapes, self.sequence
        ):  # fmt: skip
            self.launch(self.names.template("at::native", "vectorized_layer_norm_kernel"), 23, TOKENS)

    def attention(self) -> None:
        shapes = "[[64, 16, 128, 64], [64, 16, 128, 64], [64, 16, 128, 64]]"
        with self.operator("aten::scaled_dot_product_attention", shapes), self.operator(
            "aten::_flash_attention_forward", shapes, self.sequence
        ):  # fmt: skip
            self.launch(self.names.template("pytorch_flash", "flash_fwd_kernel"), 74, 1024, 255)

    def forward(self) -> None:
        for block in range(BLOCKS):
            with self.module(f"Block_{block}"):
                self.layer_norm()
                self.linear(WIDTH, 3 * WIDTH, 262)
                self.attention()
                self.linear(WIDTH, WIDTH, 94)
                self.elementwise("add", "CUDAFunctor_add", 34)
                self.layer_norm()
                self.linear(WIDTH, HIDDEN, 348)
                self.elementwise("gelu", "GeluFunctor", 92, HIDDEN)
                self.linear(HIDDEN, WIDTH, 340)
                self.elementwise("add", "CUDAFunctor_add", 34)
            self.sequence += 1

    @contextmanager
    def backward_node(self, name: str, shapes: str = "[]") -> Iterator[None]:
        """Record a node of the backward pass as the autograd engine runs it."""
        with self.operator(f"autograd::engine::evaluate_function: {name}", "[]", self.sequence):
            with self.operator(name, shapes, self.sequence):
                yield

    def backward(self) -> Generator[_Arrival, int, None]:
        self.thread = self.back
        for block in range(BLOCKS):
            self.sequence -= 1
            for inputs, outputs, us in (
                (HIDDEN, WIDTH, 344), (WIDTH, HIDDEN, 350), (WIDTH, WIDTH, 97), (WIDTH, 3 * WIDTH, 266),
            ):  # fmt: skip
                gradient = f"[[{TOKENS}, {outputs}]]"
                with self.backward_node("AddmmBackward0", gradient):
                    for tile in ("128x256_ldg8_f2f_nn", "128x128_ldg8_f2f_nt"):
                        with self.operator("aten::mm", f"[[{TOKENS}, {outputs}], [{outputs}, {inputs}]]"):
                            self.launch(self.names.gemm(tile), us, outputs // 128 * 64, 234)
                with self.backward_node("torch::autograd::AccumulateGrad"):
                    self.launch(self.names.elementwise("CUDAFunctor_add"), 9, 512, 32)
                if inputs == HIDDEN:
                    with self.backward_node("GeluBackward0", gradient):
                        self.launch(self.names.elementwise("GeluBackwardFunctor"), 128, 4096, 40)
            with self.backward_node("ScaledDotProductFlashAttentionBackward0"):
                self.launch(self.names.template("pytorch_flash", "flash_bwd_kernel"), 168, 1024, 255)
            for _ in range(2):
                with self.backward_node("NativeLayerNormBackward0", f"[[{TOKENS}, {WIDTH}]]"):
                    name = "layer_norm_grad_input_kernel_vectorized"
                    self.launch(self.names.template("at::native", name), 38, TOKENS)
            if self.training.ranks > 1 and block % BLOCKS_PER_BUCKET == BLOCKS_PER_BUCKET - 1:
                yield from self.all_reduce()
        self.sequence += BLOCKS
        self.thread = self.main

    def optimize(self) -> None:
        # The communication stream is waited for on the GPU, not on the host.
        self.free[self.compute] = max(self.free.values())
        if self.training.fused_optimizer:
            for _ in range(4):
                with self.operator("aten::_fused_adamw_"):
                    name = "multi_tensor_apply_kernel"
                    self.launch(self.names.template("at::native", name), 560, 320, 48)
            return
        for parameter in range(PARAMETERS):
            shape = (WIDTH, HIDDEN) if parameter % 6 == 0 else (WIDTH,)
            us = 27 if len(shape) > 1 else 2.1
            for name in ADAM:
                functor = "".join(word.title() for word in name.split("_")) + "Functor"
                with self.operator(f"aten::{name}", f"[{list(shape)}]"):
                    self.launch(self.names.elementwise(functor), us, 64 if us < 5 else 4096, 32)

    def load(self) -> None:
        late = 6_500 if self.rank == self.training.late_rank else 0
        self.spend(self.training.loader_us + late)

    def run(self) -> Generator[_Arrival, int, None]:
        """Train; yields where a collective begins and is sent when it ends."""
        pytorch = self.training.by_pytorch
        self.call("cudaMalloc_v3020", self.training.start_up_us)
        for step in range(self.training.steps):
            with self.annotated(f"ProfilerStep#{step}" if pytorch else f"step {step}"):
                loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
                with self.annotated(loader if pytorch else "load batch"):
                    self.load()
                with self.operator("aten::to"), self.operator("aten::copy_"):
                    self.copy_batch()
                with self.annotated("forward"):
                    self.forward()
                with self.annotated("backward"):
                    yield from self.backward()
                with self.annotated("Optimizer.step#AdamW.step" if pytorch else "optimizer"):
                    self.optimize()
                self.item()

    def workload(self) -> Workload:
        """Return what was recorded."""
        training = self.training
        environment = (
            ("SLURM_JOB_ID", "123456"), ("SLURM_PROCID", str(self.rank)),
            ("SLURM_LOCALID", str(self.rank)), ("SLURM_NTASKS", str(training.ranks)),
        ) if training.ranks > 1 else ()  # fmt: skip
        streams = (self.compute, self.communication) if training.ranks > 1 else (self.compute,)
        return Workload(
            name=training.name,
            title=f"{training.steps} steps of a made-up training",
            duration_ns=self.now + 4_000 * US,
            devices=self.process.devices,
            processes=(self.process,),
            threads=(self.main, self.back),
            streams=streams,
            events=Events(
                calls=tuple(self.calls), kernels=tuple(self.kernels), memcpys=tuple(self.copies),
                syncs=tuple(self.syncs), ranges=tuple(self.ranges),
            ),
            command="python",
            arguments=("train.py",),
            environment=environment,
        )  # fmt: skip

    def framework(self) -> Framework:
        """Return what only PyTorch's profiler sees."""
        return Framework(
            operators=tuple(self.operators),
            collectives=tuple(self.collectives),
            functions=tuple(sorted(self.functions, key=lambda each: each.number)),
        )


def train(training: Training) -> list[tuple[Workload, Framework]]:
    """Return what was recorded of each rank."""
    ranks = [_Rank(training, number) for number in range(training.ranks)]
    running = [rank.run() for rank in ranks]
    arrivals = [next(each, None) for each in running]
    while all(arrivals):
        # As long as the last one needs for the bucket, over NVLink.
        last = max(arrival.ready_ns for arrival in arrivals if arrival)
        end = last + round(BUCKET_BYTES / 92)
        arrivals = [_sent(each, end + 700 * number) for number, each in enumerate(running)]
    return [(rank.workload(), rank.framework()) for rank in ranks]


def _sent(running: Generator[_Arrival, int, None], end_ns: int) -> _Arrival | None:
    try:
        return running.send(end_ns)
    except StopIteration:
        return None
