"""A made-up server of a language model: passes in prefill, in decode and in both, with annotations."""

from __future__ import annotations

from machine import APPLY, REDUCE, SAXPY, a100, stream
from workload import ApiCall, Events, Function, Kernel, Memcpy, Process, Range, Thread, Workload

# The annotation, its begin and end; then of each kernel the begin of its call, its own begin and end.
Pass = tuple[str, int, int, tuple[tuple[Function, int, int, int], ...]]
PASSES: tuple[Pass, ...] = (
    ("execute_2_context_2(sq96sk96sqsq4608sqsk4608)_generation_0(sq0sk0sqsq0sqsk0)", 10_000, 40_000,
     ((SAXPY, 12_000, 20_000, 60_000), (REDUCE, 15_000, 62_000, 70_000))),
    ("execute_3_context_1(sq30sk30sqsq900sqsk900)_generation_2(sq2sk98sqsq2sqsk98)", 50_000, 80_000,
     ((SAXPY, 52_000, 71_000, 90_000),)),
    ("execute_3_context_0(sq0sk0sqsq0sqsk0)_generation_3(sq3sk130sqsq3sqsk130)", 100_000, 120_000,
     ((APPLY, 102_000, 106_000, 120_000),)),
    ("execute_3_context_0(sq0sk0sqsq0sqsk0)_generation_3(sq3sk133sqsq3sqsk133)", 130_000, 140_000,
     ((APPLY, 131_000, 134_000, 150_000),)),
)  # fmt: skip

_GPU = a100(0)
_PROCESS = Process(4242, "serve", (_GPU,))
_MAIN = Thread(_PROCESS, 4242, "serve")
_STREAM = stream(_PROCESS, 7, "null")
_LAUNCHES = [launch for *_, launches in PASSES for launch in launches]
_COPY = len(_LAUNCHES) + 1

SERVING = Workload(
    name="serving",
    title="a server of a language model",
    duration_ns=200_000,
    devices=(_GPU,),
    processes=(_PROCESS,),
    threads=(_MAIN,),
    streams=(_STREAM,),
    events=Events(
        calls=(
            *(ApiCall(_MAIN, number, "cudaLaunchKernel_v7000", call, call + 2_000)
              for number, (_, call, *_) in enumerate(_LAUNCHES, 1)),
            ApiCall(_MAIN, _COPY, "cudaMemcpyAsync_v3020", 160_000, 162_000),
        ),
        kernels=tuple(
            Kernel(_STREAM, number, function, start, end)
            for number, (function, _, start, end) in enumerate(_LAUNCHES, 1)
        ),
        memcpys=(Memcpy(_STREAM, _COPY, "HtoD", "pinned", "device", 4096, 165_000, 170_000),),
        ranges=tuple(Range(_MAIN, text, start, end) for text, start, end, _ in PASSES),
    ),
    command="python",
)  # fmt: skip
