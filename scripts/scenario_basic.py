"""`basic`: one process, one thread, one GPU, two streams; a gap of every cause.

Times in us. GPU ops in order of time, with the call that launched them and the gap before them:

  op  what              call        GPU time    gap before     parts of the gap
  --  ----------------  ----------  ----------  -------------  ---------------------------------
   1  HtoD pinned        10 -  12    13 -  15   -
   2  HtoD pageable      16 -  21    18 -  20    15 -  18   3  host 1 launch 2
   3  saxpy              30 -  32    33 -  43    20 -  33  13  host 10 launch 2 queue 1
   4  reduce_sum         34 -  36    40 -  50    - (overlaps 3)
   5  stencil            48 -  70    71 -  75    50 -  71  21  launch 20 queue 1
   6  saxpy              72 -  74    95 - 100    75 -  95  20  queue 20
   7  apply             130 - 132   133 - 137   100 - 133  33  host 17 profiler 13 launch 2 queue 1
   8  memset (0 ns)     134 - 135   140 - 140    - (splits no gap)
   9  DtoD              id 0        150 - 152   137 - 150  13  unknown 13
  10  reduce_sum        no id       160 - 161   152 - 160   8  unknown 8
  11  stencil           id 999      165 - 166   161 - 165   4  unknown 4 (999 has no call)
  12  DtoH pageable     170 - 180   172 - 178   166 - 172   6  host 4 launch 2
  13  DtoH pinned       181 - 182   184 - 186   178 - 184   6  host 3 launch 1 queue 2
  14  DtoD              183 - 185   186 - 187    - (touches 13)
  15  HtoH              188 - 189   190 - 191   187 - 190   3  host 1 launch 1 queue 1 (a tie)
  16  triton            192 - 193   193 - 196   191 - 193   2  host 1 launch 1 (a tie)

Window 13 - 196: 183. Busy 2+2+17+4+5+4+0+2+1+1+6+3+1+3 = 51 (3 and 4 together 17, 13 and 14
together 3). Idle 183 - 51 = 132 = 3+13+21+20+33+13+8+4+6+6+3+2.
Kernels 10+10+4+5+4+1+1+3 = 38; union 38 - 3 = 35; without a kernel 183 - 35 = 148.
Profiler: 105-115 and 110-118 make 13 together; 131-131.5 lies in the launch part and is not host.
"""

from __future__ import annotations

from answers import NO_API_CALL, Answers, ApiAnswer, GapAnswer, KernelAnswer, ProjectionAnswer
from answers import TransferAnswer as Moved
from machine import APPLY, REDUCE, SAXPY, STENCIL, TRITON, a100, stream
from workload import (
    ApiCall,
    Category,
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
PROCESS = Process(4242, "train", (GPU,), rank=3)
MAIN = Thread(PROCESS, 4242, "train")
NULL = stream(PROCESS, 7, "null")
SIDE = stream(PROCESS, 13)

COPIES = Events(
    calls=(
        ApiCall(MAIN, 101, "cudaMalloc_v3020", 1_000, 5_000),
        ApiCall(MAIN, 102, "cuMemAlloc_v2", 2_000, 4_000, "driver"),
        ApiCall(MAIN, 103, "cudaMemcpyAsync_v3020", 10_000, 12_000),
        ApiCall(MAIN, 104, "cudaMemcpy_v3020", 16_000, 21_000),
        ApiCall(MAIN, 112, "cudaMemcpy_v3020", 170_000, 180_000),
        ApiCall(MAIN, 113, "cudaMemcpyAsync_v3020", 181_000, 182_000),
        ApiCall(MAIN, 114, "cudaMemcpyAsync_v3020", 183_000, 185_000),
        ApiCall(MAIN, 115, "cudaMemcpyAsync_v3020", 188_000, 189_000),
    ),
    memcpys=(
        Memcpy(SIDE, 103, "HtoD", "pinned", "device", 4_000, 13_000, 15_000),
        Memcpy(NULL, 104, "HtoD", "pageable", "device", 1_000, 18_000, 20_000),
        Memcpy(NULL, 0, "DtoD", "device", "device", 3_000, 150_000, 152_000),
        Memcpy(NULL, 112, "DtoH", "device", "pageable", 6_000, 172_000, 178_000),
        Memcpy(SIDE, 113, "DtoH", "device", "pinned", 2_000, 184_000, 186_000),
        Memcpy(NULL, 114, "DtoD", "device", "device", 10_000, 186_000, 187_000),
        Memcpy(NULL, 115, "HtoH", "pageable", "pinned", 500, 190_000, 191_000),
    ),
)
KERNELS = Events(
    calls=(
        ApiCall(MAIN, 105, "cudaLaunchKernel_v7000", 30_000, 32_000),
        # With the suffix of per-thread default streams.
        ApiCall(MAIN, 106, "cudaLaunchKernel_ptsz_v7000", 34_000, 36_000),
        ApiCall(MAIN, 107, "cudaLaunchKernel_v7000", 48_000, 70_000),
        ApiCall(MAIN, 108, "cuLibraryLoadData", 49_000, 69_000, "driver"),
        ApiCall(MAIN, 109, "cudaLaunchKernel_v7000", 72_000, 74_000),
        ApiCall(MAIN, 110, "cudaLaunchKernel_v7000", 130_000, 132_000),
        ApiCall(MAIN, 111, "cudaMemsetAsync_v3020", 134_000, 135_000),
        ApiCall(MAIN, 116, "cuLaunchKernel", 192_000, 193_000, "driver"),
    ),
    kernels=(
        Kernel(NULL, 105, SAXPY, 33_000, 43_000, (1_000, 1, 1), (256, 1, 1), 24),
        Kernel(SIDE, 106, REDUCE, 40_000, 50_000, (108, 1, 1), (1_024, 1, 1), 40, 8_192),
        Kernel(NULL, 107, STENCIL, 71_000, 75_000, (16, 16, 4), (8, 8, 8), 64, 0, 16_384),
        Kernel(SIDE, 109, SAXPY, 95_000, 100_000, (500, 1, 1), (256, 1, 1), 24),
        Kernel(NULL, 110, APPLY, 133_000, 137_000),
        Kernel(NULL, None, REDUCE, 160_000, 161_000, (108, 1, 1), (1_024, 1, 1), 40, 8_192),
        Kernel(NULL, 999, STENCIL, 165_000, 166_000, (16, 16, 4), (8, 8, 8), 64, 0, 16_384),
        Kernel(SIDE, 116, TRITON, 193_000, 196_000, (54, 1, 1), (128, 1, 1), 168),
    ),
    memsets=(Memset(NULL, 111, 0, 256, 140_000, 140_000),),
)
WAITS_AND_FAILURES = Events(
    calls=(
        ApiCall(MAIN, 117, "cudaMalloc_v3020", 200_000, 201_000, result=2),
        ApiCall(MAIN, 118, "cudaLaunchKernel_v7000", 202_000, 203_000, result=98),
        ApiCall(MAIN, 119, "cudaStreamSynchronize_v3020", 204_000, 206_000),
        ApiCall(MAIN, 120, "cudaDeviceSynchronize_v3020", 210_000, 212_000),
    ),
    syncs=(
        Sync(SIDE, 119, "stream", 204_500, 205_500),
        Sync(NULL, 120, "device", 210_500, 211_500),
    ),
)
ANNOTATIONS = Events(
    domains=(Domain(PROCESS, 1, "solver"),),
    categories=(Category(MAIN, 1, 3, "io"),),
    ranges=(
        Range(MAIN, "iteration 1", 9_000, 199_000),
        Range(MAIN, "load", 9_500, 22_000, domain_id=1, category_id=3, color=0xFF00FF00,
              registered=True),
        Range(MAIN, "compute", 29_000, 137_500, registered=True),
        Range(MAIN, "saxpy step", 29_500, 33_500),
        Range(MAIN, "checkpoint", 139_000, None, "mark", color=0xFFFF0000),
        Range(MAIN, "compute", 191_500, 193_500, domain_id=1),
    ),
)  # fmt: skip
PROFILER = Events(
    overheads=(
        Overhead(MAIN, "lazy_loading", 49_000, 69_000, 107),
        Overhead(MAIN, "buffer_flush", 105_000, 115_000),
        Overhead(MAIN, "resource", 110_000, 118_000),
        Overhead(MAIN, "instrumentation", 131_000, 131_500),
    ),
    diagnostics=(
        Diagnostic(0, "info", "analysis", "Profiling has started."),
        Diagnostic(220_000, "info", "analysis", "Number of CUDA events collected: \t36.", PROCESS),
        Diagnostic(250_000, "info", "analysis", "Profiling has stopped."),
    ),
)

WORKLOAD = Workload(
    name="basic",
    title="one process, thread and GPU; a gap of every cause; ops without a call",
    duration_ns=250_000,
    devices=(GPU,),
    processes=(PROCESS,),
    threads=(MAIN,),
    streams=(NULL, SIDE),
    events=combine((COPIES, KERNELS, WAITS_AND_FAILURES, ANNOTATIONS, PROFILER)),
    arguments=("--epochs", "1"),
    environment=(
        ("SLURM_JOB_ID", "123456"),
        ("SLURM_PROCID", "3"),
        ("SLURM_LOCALID", "1"),
        ("OMPI_COMM_WORLD_RANK", "3"),
        ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
        ("CUDA_VISIBLE_DEVICES", "0"),
    ),
)

EXPECTED: Answers = {
    "devices": {
        0: {
            "window_start_ns": 13_000, "window_ns": 183_000, "busy_ns": 51_000,
            "idle_ns": 132_000, "no_kernel_idle_ns": 148_000, "kernel_count": 8,
            "kernel_sum_ns": 38_000, "kernel_union_ns": 35_000, "memcpy_count": 7,
            "memcpy_sum_ns": 16_000, "memset_count": 1, "memset_sum_ns": 0, "um_count": 0,
            "um_sum_ns": 0, "um_bytes_sum": 0, "graph_launch_count": 0, "graph_launch_sum_ns": 0,
        },
    },
    "gaps": {
        0: [
            GapAnswer(15_000, 3_000, "launch", 1_000, 2_000, 0),
            GapAnswer(20_000, 13_000, "host", 10_000, 2_000, 1_000),
            GapAnswer(50_000, 21_000, "launch", 0, 20_000, 1_000),
            GapAnswer(75_000, 20_000, "queue", 0, 0, 20_000),
            GapAnswer(100_000, 33_000, "host", 17_000, 2_000, 1_000, profiler_ns=13_000),
            GapAnswer(137_000, 13_000, "unknown", unknown_ns=13_000),
            GapAnswer(152_000, 8_000, "unknown", unknown_ns=8_000),
            GapAnswer(161_000, 4_000, "unknown", unknown_ns=4_000),
            GapAnswer(166_000, 6_000, "host", 4_000, 2_000, 0),
            GapAnswer(178_000, 6_000, "host", 3_000, 1_000, 2_000),
            GapAnswer(187_000, 3_000, "host", 1_000, 1_000, 1_000),
            GapAnswer(191_000, 2_000, "host", 1_000, 1_000, 0),
        ],
    },
    "transfers": {
        (0, "HtoD", "pinned", "device"): Moved(1, 4_000, 2_000),
        (0, "HtoD", "pageable", "device"): Moved(1, 1_000, 2_000),
        (0, "DtoH", "device", "pageable"): Moved(1, 6_000, 6_000),
        (0, "DtoH", "device", "pinned"): Moved(1, 2_000, 2_000),
        (0, "DtoD", "device", "device"): Moved(2, 13_000, 3_000),
        (0, "HtoH", "pageable", "pinned"): Moved(1, 500, 1_000),
    },
    "kernels": {
        (0, SAXPY.demangled): KernelAnswer(2, 15_000),
        (0, REDUCE.demangled): KernelAnswer(2, 11_000),
        (0, STENCIL.demangled): KernelAnswer(2, 5_000),
        (0, APPLY.demangled): KernelAnswer(1, 4_000),
        (0, TRITON.demangled): KernelAnswer(1, 3_000),
    },
    # Latencies: copies 3+3+3+2 and 2+2; launches 3+6+23+23+3; memset 6; driver launch 1.
    # Queue times: copies 1+2+1+1 and none (both start inside their call); 1+4+1+21+1; 5; 0.
    "api": {
        ("runtime", "cudaMalloc"): ApiAnswer(2, 5_000),
        ("driver", "cuMemAlloc"): ApiAnswer(1, 2_000),
        ("runtime", "cudaMemcpyAsync"): ApiAnswer(
            4, 6_000, 4, memcpy_sum_ns=6_000, latency_count=4, latency_sum_ns=11_000,
            queue_count=4, queue_sum_ns=5_000),
        ("runtime", "cudaMemcpy"): ApiAnswer(
            2, 15_000, 2, memcpy_sum_ns=8_000, latency_count=2, latency_sum_ns=4_000),
        ("runtime", "cudaLaunchKernel"): ApiAnswer(
            6, 31_000, 5, kernel_sum_ns=33_000, latency_count=5, latency_sum_ns=58_000,
            queue_count=5, queue_sum_ns=28_000),
        ("driver", "cuLibraryLoadData"): ApiAnswer(1, 20_000),
        ("runtime", "cudaMemsetAsync"): ApiAnswer(
            1, 1_000, 1, latency_count=1, latency_sum_ns=6_000, queue_count=1,
            queue_sum_ns=5_000),
        ("driver", "cuLaunchKernel"): ApiAnswer(
            1, 1_000, 1, kernel_sum_ns=3_000, latency_count=1, latency_sum_ns=1_000,
            queue_count=1),
        ("runtime", "cudaStreamSynchronize"): ApiAnswer(1, 2_000),
        ("runtime", "cudaDeviceSynchronize"): ApiAnswer(1, 2_000),
        NO_API_CALL: ApiAnswer(0, 0, 3, kernel_sum_ns=2_000, memcpy_sum_ns=2_000),
    },
    "api_call_count": {4242: 20},
    "api_sum_ns": {4242: 85_000},
    # 2 of cuMemAlloc and 20 of cuLibraryLoadData lie inside other calls.
    "api_outermost_sum_ns": {4242: 63_000},
    "projections": {
        # Ops 1-8 and 12-16; union 2+2+17+4+5+4+0 and 6+3+1+3.
        (4242, "iteration 1"): ProjectionAnswer(13_000, 196_000, 47_000, 13),
        (4242, "load"): ProjectionAnswer(13_000, 20_000, 4_000, 2),
        (4242, "saxpy step"): ProjectionAnswer(33_000, 43_000, 10_000, 1),
    },
}  # fmt: skip
