"""`unified_memory`: migrations before, inside, between and after kernels.

Times in us:

  op  what                      call      GPU time      gap before       parts of the gap
  --  ------------------------  --------  ------------  ---------------  ---------------------------
   1  UM HtoD    4096 B         -          1   -  2     (outside the window)
   2  UM HtoD    4096 B         -          4.5 -  5.5   (reaches into the window)
   3  saxpy                      3 -  4    5   - 15     -
   4  UM HtoD   65536 B         -          6   -  8     - (inside 3)
   5  UM DtoH    8192 B         -         20   - 22     15 - 20      5   host 5
   6  UM DtoD    4096 B         -         23   - 23.5   22 - 23      1   host 1
   7  reduce_sum                24 - 25   26   - 30     23.5 - 26  2.5   host 0.5 launch 1 queue 1
   8  DtoH 100 B pageable       27 - 27.5 28   - 29     - (inside 7)
   9  UM DtoH    4096 B         -         29.5 - 30.5   (reaches out of the window)
  10  UM DtoH    4096 B         -         31   - 33     (outside the window)

Window: from the first to the last op that is not a migration, 5 - 30: 25. Busy 10+2+0.5+4 = 16.5, idle
8.5 = 5+1+2.5. Kernels 14, without a kernel 11. All migrations, inside the window or not:
1+1+2+2+0.5+1+2 = 9.5 us; HtoD 73728 B, DtoH 16384 B, DtoD 4096 B, together 94208 B.
"""

from __future__ import annotations

from answers import NO_API_CALL, Answers, ApiAnswer, GapAnswer, KernelAnswer
from answers import TransferAnswer as Moved
from machine import REDUCE, SAXPY, a100, stream
from workload import (
    ApiCall,
    Events,
    Kernel,
    Memcpy,
    Migration,
    PageFault,
    Process,
    Thread,
    Workload,
    combine,
)

GPU = a100(0)
PROCESS = Process(8001, "managed", (GPU,))
MAIN = Thread(PROCESS, 8001, "managed")
NULL = stream(PROCESS, 7, "null")
SIDE = stream(PROCESS, 13)
BASE = 0x7F00_0000_0000

WORK = Events(
    calls=(
        ApiCall(MAIN, 501, "cudaLaunchKernel_v7000", 3_000, 4_000),
        ApiCall(MAIN, 502, "cudaLaunchKernel_v7000", 24_000, 25_000),
        ApiCall(MAIN, 503, "cudaMemcpyAsync_v3020", 27_000, 27_500),
    ),
    kernels=(
        Kernel(NULL, 501, SAXPY, 5_000, 15_000),
        Kernel(NULL, 502, REDUCE, 26_000, 30_000),
    ),
    memcpys=(Memcpy(SIDE, 503, "DtoH", "device", "pageable", 100, 28_000, 29_000),),
)
# Two spellings of "no API call" among them.
MIGRATIONS = Events(
    migrations=(
        Migration(PROCESS, 0, "HtoD", 4_096, 1_000, 2_000, "prefetch", BASE),
        Migration(PROCESS, 0, "HtoD", 4_096, 4_500, 5_500, "page_fault", BASE + 0x1000),
        Migration(PROCESS, 0, "HtoD", 65_536, 6_000, 8_000, "speculative", BASE + 0x2000, None),
        Migration(PROCESS, 0, "DtoH", 8_192, 20_000, 22_000, "page_fault", BASE),
        Migration(PROCESS, 0, "DtoD", 4_096, 23_000, 23_500, "prefetch", BASE + 0x2000, None),
        Migration(PROCESS, 0, "DtoH", 4_096, 29_500, 30_500, "eviction", BASE + 0x3000),
        Migration(PROCESS, 0, "DtoH", 4_096, 31_000, 33_000, "page_fault", BASE + 0x4000),
    ),
    page_faults=(
        PageFault(PROCESS, 0, BASE + 0x2000, 5_800, 6_000, 16),
        PageFault(PROCESS, None, BASE, 19_900, 19_900),
    ),
)

WORKLOAD = Workload(
    name="unified_memory",
    title="managed memory: migrations before, inside, between and after kernels",
    duration_ns=40_000,
    devices=(GPU,),
    processes=(PROCESS,),
    threads=(MAIN,),
    streams=(NULL, SIDE),
    events=combine((WORK, MIGRATIONS)),
    command="./managed",
)

EXPECTED: Answers = {
    "devices": {
        0: {
            "window_start_ns": 5_000, "window_ns": 25_000, "busy_ns": 16_500, "idle_ns": 8_500,
            "no_kernel_idle_ns": 11_000, "kernel_count": 2, "kernel_sum_ns": 14_000,
            "kernel_union_ns": 14_000, "memcpy_count": 1, "memcpy_sum_ns": 1_000,
            "memset_count": 0, "memset_sum_ns": 0, "um_count": 7, "um_sum_ns": 9_500,
            "um_bytes_sum": 94_208, "graph_launch_count": 0, "graph_launch_sum_ns": 0,
        },
    },
    "gaps": {
        0: [
            GapAnswer(15_000, 5_000, "host", host_ns=5_000),
            GapAnswer(22_000, 1_000, "host", host_ns=1_000),
            GapAnswer(23_500, 2_500, "launch", 500, 1_000, 1_000),
        ],
    },
    "transfers": {
        (0, "DtoH", "device", "pageable"): Moved(1, 100, 1_000),
        (0, "UM HtoD", None, None): Moved(3, 73_728, 4_000),
        (0, "UM DtoH", None, None): Moved(3, 16_384, 5_000),
        (0, "UM DtoD", None, None): Moved(1, 4_096, 500),
    },
    "kernels": {
        (0, SAXPY.demangled): KernelAnswer(1, 10_000),
        (0, REDUCE.demangled): KernelAnswer(1, 4_000),
    },
    "api": {
        ("runtime", "cudaLaunchKernel"): ApiAnswer(
            2, 2_000, 2, kernel_sum_ns=14_000, latency_count=2, latency_sum_ns=4_000,
            queue_count=2, queue_sum_ns=2_000),
        ("runtime", "cudaMemcpyAsync"): ApiAnswer(
            1, 500, 1, memcpy_sum_ns=1_000, latency_count=1, latency_sum_ns=1_000,
            queue_count=1, queue_sum_ns=500),
        # Migrations are GPU ops without a call; their time is in none of the sums.
        NO_API_CALL: ApiAnswer(0, 0, 7),
    },
    "api_call_count": {8001: 3},
    "api_sum_ns": {8001: 2_500},
    "api_outermost_sum_ns": {8001: 2_500},
    "projections": {},
}  # fmt: skip
