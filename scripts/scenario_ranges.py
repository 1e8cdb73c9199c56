"""`ranges`: annotations of every style on two threads of a process.

Times in us. Main thread 4300, worker 4301; one GPU, one stream:

  id   thread  call      GPU time   gap before    parts of the gap
  ---  ------  --------  ---------  ------------  --------------------------
  601  main     3 -  4    5 -  8    -
  602  worker   6 -  7    9 - 12     8 -  9   1   queue 1
  603  main    21 - 22   23 - 26    12 - 23  11   host 9 launch 1 queue 1
  604  worker  30 - 31   41 - 43    26 - 41  15   host 4 launch 1 queue 10
  605  main    46 - 47   48 - 49    43 - 48   5   host 3 launch 1 queue 1

Window 5 - 49: 44, busy 3+3+3+2+1 = 12, idle 32.

  range            style       threads         time          ops by the definition of its style
  ---------------  ----------  --------------  ------------  ------------------------------------
  epoch            start/end   main -> worker   1  - 45      any thread: 601 602 603 604
  ProfilerStep#1   push/pop    main             2  - 20      step, any thread: 601 602
    forward        push/pop    main             2.5 -  9     own thread: 601
  backward         push/pop    worker           5.8 -  7.2   own thread: 602
  prefetch         start/end   worker           5.5 -  7.5   any thread: 602
  ProfilerStep#2   push/pop    main            20  - 40      step, any thread: 603 604
  shutdown         push/pop    main            45.5 - open   own thread: 605
  note             mark        worker          13
"""

from __future__ import annotations

from answers import Answers, ApiAnswer, GapAnswer, KernelAnswer, ProjectionAnswer
from machine import REDUCE, SAXPY, STENCIL, a100, stream
from workload import (
    ApiCall,
    Category,
    Domain,
    Events,
    Kernel,
    Process,
    Range,
    Thread,
    Workload,
    combine,
)

GPU = a100(0)
PROCESS = Process(4300, "python", (GPU,))
MAIN = Thread(PROCESS, 4300, "python")
WORKER = Thread(PROCESS, 4301, "pt_autograd_0")
NULL = stream(PROCESS, 7, "null")

WORK = Events(
    calls=(
        ApiCall(MAIN, 601, "cudaLaunchKernel_v7000", 3_000, 4_000),
        ApiCall(WORKER, 602, "cudaLaunchKernel_v7000", 6_000, 7_000),
        ApiCall(MAIN, 603, "cudaLaunchKernel_v7000", 21_000, 22_000),
        ApiCall(WORKER, 604, "cudaLaunchKernel_v7000", 30_000, 31_000),
        ApiCall(MAIN, 605, "cudaLaunchKernel_v7000", 46_000, 47_000),
    ),
    kernels=(
        Kernel(NULL, 601, SAXPY, 5_000, 8_000),
        Kernel(NULL, 602, REDUCE, 9_000, 12_000),
        Kernel(NULL, 603, SAXPY, 23_000, 26_000),
        Kernel(NULL, 604, REDUCE, 41_000, 43_000),
        Kernel(NULL, 605, STENCIL, 48_000, 49_000),
    ),
)
ANNOTATIONS = Events(
    domains=(Domain(PROCESS, 1, "nn"),),
    categories=(Category(WORKER, 0, 7, "remarks"),),
    ranges=(
        Range(MAIN, "epoch", 1_000, 45_000, "start_end", registered=True, end_thread=WORKER,
              range_id=1),
        Range(MAIN, "ProfilerStep#1", 2_000, 20_000),
        Range(MAIN, "forward", 2_500, 9_000, domain_id=1, registered=True, color=0xFF76B900),
        Range(WORKER, "prefetch", 5_500, 7_500, "start_end", range_id=2),
        Range(WORKER, "backward", 5_800, 7_200, domain_id=1, registered=True),
        Range(WORKER, "note", 13_000, None, "mark", category_id=7, color=0xFF0000FF),
        Range(MAIN, "ProfilerStep#2", 20_000, 40_000),
        Range(MAIN, "shutdown", 45_500, None),
    ),
)  # fmt: skip

WORKLOAD = Workload(
    name="ranges",
    title="annotations of every style on two threads; one is never closed",
    duration_ns=60_000,
    devices=(GPU,),
    processes=(PROCESS,),
    threads=(MAIN, WORKER),
    streams=(NULL,),
    events=combine((WORK, ANNOTATIONS)),
    command="python",
    arguments=("train.py",),
)

EXPECTED: Answers = {
    "devices": {
        0: {
            "window_start_ns": 5_000, "window_ns": 44_000, "busy_ns": 12_000, "idle_ns": 32_000,
            "no_kernel_idle_ns": 32_000, "kernel_count": 5, "kernel_sum_ns": 12_000,
            "kernel_union_ns": 12_000, "memcpy_count": 0, "memcpy_sum_ns": 0, "memset_count": 0,
            "memset_sum_ns": 0, "um_count": 0, "um_sum_ns": 0, "um_bytes_sum": 0,
            "graph_launch_count": 0, "graph_launch_sum_ns": 0,
        },
    },
    "gaps": {
        0: [
            GapAnswer(8_000, 1_000, "queue", 0, 0, 1_000),
            GapAnswer(12_000, 11_000, "host", 9_000, 1_000, 1_000),
            GapAnswer(26_000, 15_000, "queue", 4_000, 1_000, 10_000),
            GapAnswer(43_000, 5_000, "host", 3_000, 1_000, 1_000),
        ],
    },
    "transfers": {},
    "kernels": {
        (0, SAXPY.demangled): KernelAnswer(2, 6_000),
        (0, REDUCE.demangled): KernelAnswer(2, 5_000),
        (0, STENCIL.demangled): KernelAnswer(1, 1_000),
    },
    "api": {
        # Latencies 2, 3, 2, 11, 2; queue times 1, 2, 1, 10, 1.
        ("runtime", "cudaLaunchKernel"): ApiAnswer(
            5, 5_000, 5, kernel_sum_ns=12_000, latency_count=5, latency_sum_ns=20_000,
            queue_count=5, queue_sum_ns=15_000),
    },
    "api_call_count": {4300: 5},
    "api_sum_ns": {4300: 5_000},
    "api_outermost_sum_ns": {4300: 5_000},
    "projections": {
        (4300, "epoch"): ProjectionAnswer(5_000, 43_000, 11_000, 4),
        (4300, "ProfilerStep#1"): ProjectionAnswer(5_000, 12_000, 6_000, 2),
        (4300, "forward"): ProjectionAnswer(5_000, 8_000, 3_000, 1),
        (4300, "backward"): ProjectionAnswer(9_000, 12_000, 3_000, 1),
        (4300, "prefetch"): ProjectionAnswer(9_000, 12_000, 3_000, 1),
        (4300, "ProfilerStep#2"): ProjectionAnswer(23_000, 43_000, 5_000, 2),
        (4300, "shutdown"): ProjectionAnswer(48_000, 49_000, 1_000, 1),
    },
}  # fmt: skip
