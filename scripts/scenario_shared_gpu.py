"""`two_processes_one_gpu`: two MPI ranks share a GPU; their correlation ids and domains collide.

Times in us. GPU ops in order of time:

  process  id   what           call      GPU time   gap before   parts of the gap
  -------  ---  -------------  --------  ---------  -----------  ------------------------
  5001     201  HtoD pageable   1 -  4    2 -  3    -
  5001     202  saxpy           5 -  6    7 - 12     3 -  7  4   host 2 launch 1 queue 1
  5002     201  reduce_sum      3 -  4   10 - 15    - (overlaps)
  5002     202  DtoH pageable  16 - 19   17 - 18    15 - 17  2   host 1 launch 1 (a tie)
  5001     203  reduce_sum     20 - 21   22 - 24    18 - 22  4   host 2 launch 1 queue 1
  5002     203  memset         26 - 27   28 - 29    24 - 28  4   host 2 launch 1 queue 1

Window 2 - 29: 27. Busy 1+8+1+2+1 = 13, idle 14 = 4+2+4+4. Kernels 5+5+2 = 12, union 8+2 = 10.
Profiler overhead of 5001 at 24.5-25.5 lies in the last gap, which 5002 ends: it does not count.
Whoever joins by correlation id alone finds other parts: 202 is a launch in one process and a copy
in the other.
"""

from __future__ import annotations

from answers import Answers, ApiAnswer, GapAnswer, KernelAnswer, ProjectionAnswer
from answers import TransferAnswer as Moved
from machine import REDUCE, SAXPY, a100, stream
from workload import (
    ApiCall,
    Diagnostic,
    Domain,
    Events,
    Kernel,
    Memcpy,
    Memset,
    Overhead,
    Process,
    Range,
    Sync,
    Thread,
    Workload,
    combine,
)

GPU = a100(0)
FIRST = Process(5001, "solver", (GPU,), rank=0)
SECOND = Process(5002, "solver", (GPU,), rank=1)
FIRST_MAIN = Thread(FIRST, 5001, "solver")
SECOND_MAIN = Thread(SECOND, 5002, "solver")
FIRST_NULL = stream(FIRST, 7, "null")
SECOND_NULL = stream(SECOND, 7, "null")

FIRST_EVENTS = Events(
    calls=(
        ApiCall(FIRST_MAIN, 201, "cudaMemcpy_v3020", 1_000, 4_000),
        ApiCall(FIRST_MAIN, 202, "cudaLaunchKernel_v7000", 5_000, 6_000),
        ApiCall(FIRST_MAIN, 203, "cudaLaunchKernel_v7000", 20_000, 21_000),
        ApiCall(FIRST_MAIN, 204, "cudaDeviceSynchronize_v3020", 25_000, 26_000),
    ),
    memcpys=(Memcpy(FIRST_NULL, 201, "HtoD", "pageable", "device", 1_000, 2_000, 3_000),),
    kernels=(
        Kernel(FIRST_NULL, 202, SAXPY, 7_000, 12_000),
        Kernel(FIRST_NULL, 203, REDUCE, 22_000, 24_000),
    ),
    syncs=(Sync(FIRST_NULL, 204, "device", 25_200, 25_800),),
    domains=(Domain(FIRST, 1, "alpha"),),
    ranges=(Range(FIRST_MAIN, "work", 4_500, 6_500, domain_id=1),),
    overheads=(Overhead(FIRST_MAIN, "buffer_flush", 24_500, 25_500),),
)
SECOND_EVENTS = Events(
    calls=(
        ApiCall(SECOND_MAIN, 201, "cudaLaunchKernel_v7000", 3_000, 4_000),
        ApiCall(SECOND_MAIN, 202, "cudaMemcpy_v3020", 16_000, 19_000),
        ApiCall(SECOND_MAIN, 203, "cudaMemsetAsync_v3020", 26_000, 27_000),
        ApiCall(SECOND_MAIN, 204, "cudaStreamSynchronize_v3020", 30_000, 31_000),
    ),
    kernels=(Kernel(SECOND_NULL, 201, REDUCE, 10_000, 15_000),),
    memcpys=(Memcpy(SECOND_NULL, 202, "DtoH", "device", "pageable", 2_000, 17_000, 18_000),),
    memsets=(Memset(SECOND_NULL, 203, 255, 64, 28_000, 29_000),),
    syncs=(Sync(SECOND_NULL, 204, "stream", 30_200, 30_800),),
    domains=(Domain(SECOND, 1, "beta"),),
    ranges=(Range(SECOND_MAIN, "work", 2_500, 20_000, domain_id=1),),
)
MESSAGES = Events(diagnostics=(Diagnostic(0, "info", "analysis", "Profiling has started."),))

WORKLOAD = Workload(
    name="two_processes_one_gpu",
    title="two MPI ranks on one GPU; equal correlation ids, equal domain ids of other names",
    duration_ns=40_000,
    devices=(GPU,),
    processes=(FIRST, SECOND),
    threads=(FIRST_MAIN, SECOND_MAIN),
    streams=(FIRST_NULL, SECOND_NULL),
    events=combine((FIRST_EVENTS, SECOND_EVENTS, MESSAGES)),
    command="mpirun",
    arguments=("-np", "2", "./solver"),
    environment=(("SLURM_JOB_ID", "123456"), ("CUDA_VISIBLE_DEVICES", "0")),
    mpi_traced=True,
)

EXPECTED: Answers = {
    "devices": {
        0: {
            "window_start_ns": 2_000, "window_ns": 27_000, "busy_ns": 13_000, "idle_ns": 14_000,
            "no_kernel_idle_ns": 17_000, "kernel_count": 3, "kernel_sum_ns": 12_000,
            "kernel_union_ns": 10_000, "memcpy_count": 2, "memcpy_sum_ns": 2_000,
            "memset_count": 1, "memset_sum_ns": 1_000, "um_count": 0, "um_sum_ns": 0,
            "um_bytes_sum": 0, "graph_launch_count": 0, "graph_launch_sum_ns": 0,
        },
    },
    "gaps": {
        0: [
            GapAnswer(3_000, 4_000, "host", 2_000, 1_000, 1_000),
            GapAnswer(15_000, 2_000, "host", 1_000, 1_000, 0),
            GapAnswer(18_000, 4_000, "host", 2_000, 1_000, 1_000),
            GapAnswer(24_000, 4_000, "host", 2_000, 1_000, 1_000),
        ],
    },
    "transfers": {
        (0, "HtoD", "pageable", "device"): Moved(1, 1_000, 1_000),
        (0, "DtoH", "device", "pageable"): Moved(1, 2_000, 1_000),
    },
    "kernels": {
        (0, SAXPY.demangled): KernelAnswer(1, 5_000),
        (0, REDUCE.demangled): KernelAnswer(2, 7_000),
    },
    "api": {
        ("runtime", "cudaMemcpy"): ApiAnswer(
            2, 6_000, 2, memcpy_sum_ns=2_000, latency_count=2, latency_sum_ns=2_000),
        ("runtime", "cudaLaunchKernel"): ApiAnswer(
            3, 3_000, 3, kernel_sum_ns=12_000, latency_count=3, latency_sum_ns=11_000,
            queue_count=3, queue_sum_ns=8_000),
        ("runtime", "cudaMemsetAsync"): ApiAnswer(
            1, 1_000, 1, memset_sum_ns=1_000, latency_count=1, latency_sum_ns=2_000,
            queue_count=1, queue_sum_ns=1_000),
        ("runtime", "cudaDeviceSynchronize"): ApiAnswer(1, 1_000),
        ("runtime", "cudaStreamSynchronize"): ApiAnswer(1, 1_000),
    },
    "api_call_count": {5001: 4, 5002: 4},
    "api_sum_ns": {5001: 6_000, 5002: 6_000},
    "api_outermost_sum_ns": {5001: 6_000, 5002: 6_000},
    "projections": {
        (5001, "work"): ProjectionAnswer(7_000, 12_000, 5_000, 1),
        (5002, "work"): ProjectionAnswer(10_000, 18_000, 6_000, 2),
    },
}  # fmt: skip
