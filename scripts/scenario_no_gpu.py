"""`no_gpu`: a program that found no GPU. Its API calls fail; nothing ran on a device.

Times in us: cudaGetDeviceCount 1 - 4 with cuInit 2 - 3 inside, cudaMalloc 5 - 6; all of them return
100 (no device). API time 3+1+1 = 5, outermost calls only 4.
"""

from __future__ import annotations

from answers import Answers, ApiAnswer
from workload import ApiCall, Diagnostic, Events, Process, Range, Thread, Workload

PROCESS = Process(9001, "train", ())
MAIN = Thread(PROCESS, 9001, "train")

WORKLOAD = Workload(
    name="no_gpu",
    title="a program on a machine without a GPU; every API call fails",
    duration_ns=10_000,
    devices=(),
    processes=(PROCESS,),
    threads=(MAIN,),
    streams=(),
    events=Events(
        calls=(
            ApiCall(MAIN, 901, "cudaGetDeviceCount_v3020", 1_000, 4_000, result=100),
            ApiCall(MAIN, 902, "cuInit", 2_000, 3_000, "driver", result=100),
            ApiCall(MAIN, 903, "cudaMalloc_v3020", 5_000, 6_000, result=100),
        ),
        ranges=(Range(MAIN, "setup", 500, 7_000),),
        diagnostics=(
            Diagnostic(0, "info", "analysis", "Profiling has started."),
            Diagnostic(8_000, "warning", "analysis",
                       "CUDA profiling might have not been started correctly.", PROCESS),
            Diagnostic(8_000, "warning", "analysis",
                       "No CUDA events collected. Does the process use CUDA?", PROCESS),
        ),
    ),
)  # fmt: skip

EXPECTED: Answers = {
    "devices": {},
    "gaps": {},
    "transfers": {},
    "kernels": {},
    "api": {
        ("runtime", "cudaGetDeviceCount"): ApiAnswer(1, 3_000),
        ("driver", "cuInit"): ApiAnswer(1, 1_000),
        ("runtime", "cudaMalloc"): ApiAnswer(1, 1_000),
    },
    "api_call_count": {9001: 3},
    "api_sum_ns": {9001: 5_000},
    "api_outermost_sum_ns": {9001: 4_000},
    "projections": {},
}
