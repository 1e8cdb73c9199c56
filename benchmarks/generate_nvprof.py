"""Write a large, made-up GPU trace of nvprof (`--print-gpu-trace --csv`, CUDA 10) for benchmarks.

    python benchmarks/generate_nvprof.py OUT.csv --rows 1000000 [--seed 1]

The file looks like what a training job on a V100 prints: banner, header, units, rows. What it promises:

* exactly `--rows` rows, ordered by Start; work of one stream does not overlap;
* Start, Duration, sizes and shared memory are exact: nanoseconds and bytes come back by rounding;
* Throughput is Size over Duration, with prefixes of 1024;
* correlation ids are unique and grow in the order of launching, which is not quite that of starting;
* same arguments, same bytes (numpy's random numbers permitting); memory does not grow with the size.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Totals = dict[str, Counter[str]]
"""Sums of the rows written, by table of a store and its column; and the `rows`."""

PID = 4242
DEVICE = "Tesla V100-SXM2-16GB (0)"
CONTEXT = 1
STREAMS = np.array([7, 18, 22, 26])
STREAM_SHARES = (0.7, 0.1, 0.1, 0.1)
# One unit per column for the whole table.
UNITS = "ms,us,,,,,,,,KB,B,KB,GB/s,,,,,,,"
HEADER = (
    '"Start","Duration","Grid X","Grid Y","Grid Z","Block X","Block Y","Block Z",'
    '"Registers Per Thread","Static SMem","Dynamic SMem","Size","Throughput","SrcMemType",'
    '"DstMemType","Device","Context","Stream","Name","Correlation_ID"'
)
# The lines before the rows, by their number from 0: a reader by columns wants the header alone.
HEADER_LINE, UNITS_LINE = 3, 4

FIRST_NS = 312_480_561
FIRST_CORRELATION = 1097
# Launches between two waits of the host for the device: no work runs across a wait.
STEP = 1000
LAUNCH_NS = 8000
KERNEL_SHARE = 0.85
SUMS = ("registers_per_thread", "static_shared_bytes", "dynamic_shared_bytes", "grid_x", "block_x")


def kernel_names() -> Iterator[str]:
    """Yield 60 names as nvprof demangles them: template arguments that are values carry their type."""
    native, array = "at::native::", "at::detail::Array<char*, int={}>"
    types = ("float", "c10::Half", "long")
    functors = ("AddFunctor", "MulFunctor", "BUnaryFunctor", "FillFunctor", "AbsFunctor")
    for n, (kind, functor) in enumerate(product(types, functors)):
        parts = f"{native}{functor}<{kind}>, {array.format(1 + n % 3)}"
        yield f"void {native}vectorized_elementwise_kernel<int={2 << n % 2}, {parts}>(int, {parts})"
    for kind, functor in product(types, ("threshold", "clamp", "where", "copy")):
        scope = f"{native}{functor}_kernel_cuda(at::TensorIterator&)"
        op = f"{scope}::{{lambda({kind}, {kind})#1}}"
        yield (
            f"void {native}unrolled_elementwise_kernel<{op}, {array.format(3)}, "
            f"OffsetCalculator<int=2, unsigned int>, {native}memory::LoadWithoutCast>"
            f"(int, {op}, {array.format(3)}, OffsetCalculator<int=2, unsigned int>)"
        )
    for kind, op in product(types[:2], ("Mean", "Sum", "Norm")):
        ops = f"{native}{op}Ops<{kind}, float>"
        reduce = f"{native}ReduceOp<{kind}, {ops}, unsigned int, {kind}, int=4>"
        yield f"void {native}reduce_kernel<int=512, int=1, {reduce}>({reduce})"
    for kind, way in product(("__half", "float"), ("fw_tr", "bw", "fw_inf")):
        yield (
            f"void cudnn::bn_{way}_1C11_kernel_NCHW<{kind}, float, int=512, bool=1, int=1>"
            f"(cudnnTensorStruct, {kind} const *, cudnnTensorStruct, {kind}*, float const *, "
            "float const *, float, float, float*, float*, float*, float*)"
        )
    for kind, way in product(("__half", "float"), ("dgrad2d_alg1_1", "wgrad_alg0_engine")):
        yield (
            f"void cudnn::detail::{way}<{kind}, int=512, int=6, int=5, int=3, int=3, int=3, bool=1, "
            f"bool=1>(int, int, int, {kind} const *, int, {kind}*, {kind} const *, kernel_grad_params, "
            "unsigned long, int, float, int, int, int, int)"
        )
    for tile, layout in product(("128x64", "128x128", "64x64"), ("nn", "nt", "tn")):
        yield f"volta_fp16_s884gemm_fp16_{tile}_ldg8_f2f_{layout}"
    for tile in ("128x32", "128x64", "128x128"):
        yield f"volta_scudnn_{tile}_relu_interior_nn_v1"
    for kind in ("float", "c10::Half"):
        yield (
            f"void _GLOBAL__N__51_tmpxft_00001a2b_00000000_8_SoftMax_cpp1_ii_5d1ee2a5::"
            f"softmax_warp_forward<{kind}, {kind}, float, int=10, bool=1>({kind}*, {kind} const *, "
            "int, int, int)"
        )
    for functor, depth in (("AdamFunctor<float, float>", 4), ("ScaleFunctor<float, float>", 2)):
        parts = f"TensorListMetadata<int={depth}>, {functor}"
        yield (
            f"void multi_tensor_apply_kernel<{parts}, float, float>"
            f"(int, int volatile *, {parts}, float, float)"
        )
    yield "ncclAllReduceRingLLKernel_sum_f32(ncclColl)"


@dataclass(frozen=True)
class Operation:
    """One kind of row: what of it is the same each time, and how long it takes in the median."""

    table: str
    template: str
    dur_ns: int
    share: float
    size: int = 0
    sums: dict[str, int] = field(default_factory=dict)


def row_template(cells: str, throughput: str, kinds: str, name: str) -> str:
    """Return a row's format: Start (ms, ns), Duration (us, ns), throughput, stream, correlation."""
    return (
        f"{{0}}.{{1:06d}},{{2}}.{{3:03d}}000,{cells},{throughput},{kinds},"
        f'"{DEVICE}","{CONTEXT}","{{5}}","{name}",{{6}}\n'
    )


def kernels() -> Iterator[Operation]:
    """Yield all kernels: each name with three grids. Few names make up most launches, as in real jobs."""
    names = list(kernel_names())
    weights = [1 / (1 + n * 7 % len(names)) for n in range(len(names))]
    for n, (name, weight) in enumerate(zip(names, weights, strict=True)):
        block, registers = 64 << n % 4, 16 + n * 5 % 112
        static, dynamic = 16 * (n * 37 % 600), 4096 * (n % 4) + 16 * (n % 3)
        for size in range(3):
            grid = (1 + n * 29 % 640) << size
            cells = f"{grid},1,1,{block},1,1,{registers},{static / 1024:.6f},{dynamic},"
            # Braces of lambdas are no fields of the template.
            text = name.replace("{", "{{").replace("}", "}}")
            values = (registers, static, dynamic, grid, block)
            yield Operation(
                "kernel",
                row_template(cells, "", ",", f"{text} [{{6}}]"),
                (1800 + n * 941 % 18_000) << size,
                KERNEL_SHARE * weight / sum(weights) / 3,
                sums=dict(zip(SUMS, values, strict=True)),
            )


def transfers() -> Iterator[Operation]:
    """Yield copies and sets. Large batches are rare; most copies are a few bytes."""
    for kind, source, target, size, bytes_per_ns, weight in (
        ("HtoD", "Pageable", "Device", 38_535_168, 6, 0.1),
        ("HtoD", "Pinned", "Device", 2048, 8, 2),
        ("HtoD", "Pageable", "Device", 4, 4, 2),
        ("DtoH", "Device", "Pageable", 4, 4, 3),
        ("DtoH", "Device", "Pinned", 262_144, 10, 0.6),
        ("DtoD", "Device", "Device", 1_605_633, 350, 2.3),
        ("memset", "Device", "", 16, 4, 2),
        ("memset", "Device", "", 1_048_576, 500, 3),
    ):
        kinds = ",".join(f'"{memory}"' if memory else "" for memory in (source, target))
        name = "[CUDA memset]" if kind == "memset" else f"[CUDA memcpy {kind}]"
        yield Operation(
            "memset" if kind == "memset" else "memcpy",
            row_template(f",,,,,,,,,{size / 1024:.6f}", "{4:.6f}", kinds, name),
            900 + size // bytes_per_ns,
            (1 - KERNEL_SHARE) * weight / 15,
            size,
            {"bytes": size},
        )


class Trace:
    """The rows, a step at a time."""

    def __init__(self, rows: int, seed: int) -> None:
        """Begin a log of this seed."""
        self.rows, self.seed = rows, seed
        self.operations = [*kernels(), *transfers()]
        self.dur_ns = np.array([operation.dur_ns for operation in self.operations])
        self.size = np.array([operation.size for operation in self.operations])
        shares = np.array([operation.share for operation in self.operations])
        self.shares = shares / shares.sum()
        # Sums by operation, over the rows written so far.
        self.sums = {
            column: np.zeros(len(self.operations), np.int64)
            for column in ("rows", "dur_ns", "stream_id", "correlation_id")
        }

    def pieces(self) -> Iterator[str]:
        """Yield the file's text; `totals` counts the pieces taken so far."""
        yield (
            f"=={PID}== NVPROF is profiling process {PID}, command: ./train\n"
            f"=={PID}== Profiling application: ./train\n"
            f"=={PID}== Profiling result:\n{HEADER}\n{UNITS}\n"
        )
        zero = FIRST_NS
        for number, first in enumerate(range(0, self.rows, STEP)):
            rng = np.random.default_rng((self.seed, number))
            text, zero = self._step(rng, first, min(STEP, self.rows - first), zero)
            yield text

    def _step(self, rng: np.random.Generator, first: int, rows: int, zero: int) -> tuple[str, int]:
        """Return a step's rows, and when the next one begins."""
        kind = rng.choice(len(self.operations), rows, p=self.shares)
        stream = rng.choice(STREAMS, rows, p=STREAM_SHARES)
        ready = zero + np.cumsum(rng.exponential(LAUNCH_NS, rows).astype(np.int64))
        dur = (self.dur_ns[kind] * rng.lognormal(0, 0.1, rows)).astype(np.int64)
        start = np.zeros(rows, np.int64)
        for each in STREAMS:
            mine = stream == each
            spent = dur[mine] + 640  # from one piece of work of a stream to the next
            before = np.cumsum(spent) - spent
            start[mine] = np.maximum.accumulate(ready[mine] - before) + before
        correlation = FIRST_CORRELATION + 3 * (first + np.arange(rows))
        ones = np.ones(rows, np.int64)
        for sums, values in zip(self.sums.values(), (ones, dur, stream, correlation), strict=True):
            np.add.at(sums, kind, values)
        order = np.argsort(start, kind="stable")
        text = self._text(kind[order], start[order], dur[order], stream[order], correlation[order])
        return text, int((start + dur).max()) + 25_000 + int(rng.exponential(40_000))

    def _text(self, kind: Ints, start: Ints, dur: Ints, stream: Ints, correlation: Ints) -> str:
        """Return rows as nvprof prints them."""
        throughput = self.size[kind] / dur * 1e9 / 2**30
        columns = (
            *np.divmod(start, 1_000_000),
            *np.divmod(dur, 1000),
            throughput,
            stream,
            correlation,
        )
        lists = [column.tolist() for column in columns]
        operations = self.operations
        return "".join(
            operations[number].template.format(*values)
            for number, *values in zip(kind.tolist(), *lists, strict=True)
        )

    def totals(self) -> Totals:
        """Return what the rows written so far add up to."""
        found: Totals = {}
        for number, operation in enumerate(self.operations):
            table = found.setdefault(operation.table, Counter())
            table.update({column: int(sums[number]) for column, sums in self.sums.items()})
            rows = int(self.sums["rows"][number])
            table.update({column: value * rows for column, value in operation.sums.items()})
        return found


def generate(path: Path, rows: int, seed: int = 1) -> Totals:
    """Write a trace of so many rows and says what is in it."""
    trace = Trace(rows, seed)
    with path.open("w", encoding="ascii", newline="\n") as out:
        out.writelines(trace.pieces())
    return trace.totals()


def main() -> None:
    """Write the files that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    for table, totals in generate(options.out, options.rows, options.seed).items():
        seconds, megabytes = totals["dur_ns"] / 1e9, totals["bytes"] / 1e6
        print(f"{table:8} {totals['rows']:9} rows {seconds:9.3f} s {megabytes:9.0f} MB")


if __name__ == "__main__":
    main()
