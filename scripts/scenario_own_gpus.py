"""`two_processes_two_gpus`: each process calls its own GPU device 0; peer copies between them.

The machine numbers the GPUs 2 and 5; process 6001 runs with CUDA_VISIBLE_DEVICES=2,5 and 6002 with
5,2. Correlation ids collide. Times in us:

  GPU  process  id   what                 call      GPU time   gap before   parts of the gap
  ---  -------  ---  -------------------  --------  ---------  -----------  ------------------------
  2    6001     301  HtoD pinned           1 -  2    3 -  5    -
  2    6001     302  saxpy                 4 -  5    6 - 10     5 -  6  1   queue 1
  2    6001     303  PtoP to GPU 5        11 - 12   13 - 17    10 - 13  3   host 1 launch 1 queue 1
  2    6001     304  reduce_sum           18 - 19   20 - 22    17 - 20  3   host 1 launch 1 queue 1
  5    6002     301  reduce_sum            2 -  3    4 -  9    -
  5    6002     302  PtoP from GPU 2      10 - 11   12 - 13     9 - 12  3   host 1 launch 1 queue 1
  5    6002     303  DtoH pinned          14 - 15   15 - 19    13 - 15  2   host 1 launch 1 (a tie)

GPU 2: window 3 - 22: 19, busy 2+4+4+2 = 12, idle 7. GPU 5: window 4 - 19: 15, busy 5+1+4 = 10,
idle 5. Both peer copies ran on the device 0 of their process. A source without a map from
(process, device) to GPU cannot know which GPU is which; the figures per (process, 0) are the same.
"""

from __future__ import annotations

from answers import Answers, ApiAnswer, GapAnswer, KernelAnswer
from answers import TransferAnswer as Moved
from machine import REDUCE, SAXPY, a100, stream
from workload import ApiCall, Events, Kernel, Memcpy, Process, Thread, Workload, combine

GPU_2 = a100(2)
GPU_5 = a100(5)
FIRST = Process(6001, "worker", (GPU_2, GPU_5))
SECOND = Process(6002, "worker", (GPU_5, GPU_2))
FIRST_MAIN = Thread(FIRST, 6001, "worker")
SECOND_MAIN = Thread(SECOND, 6002, "worker")
FIRST_STREAM = stream(FIRST, 7, "null")
SECOND_STREAM = stream(SECOND, 7, "null")

FIRST_EVENTS = Events(
    calls=(
        ApiCall(FIRST_MAIN, 301, "cudaMemcpyAsync_v3020", 1_000, 2_000),
        ApiCall(FIRST_MAIN, 302, "cudaLaunchKernel_v7000", 4_000, 5_000),
        ApiCall(FIRST_MAIN, 303, "cudaMemcpyPeerAsync_v4000", 11_000, 12_000),
        ApiCall(FIRST_MAIN, 304, "cudaLaunchKernel_v7000", 18_000, 19_000),
    ),
    memcpys=(
        Memcpy(FIRST_STREAM, 301, "HtoD", "pinned", "device", 2_000, 3_000, 5_000),
        Memcpy(FIRST_STREAM, 303, "PtoP", "device", "device", 8_000, 13_000, 17_000, 0, 1),
    ),
    kernels=(
        Kernel(FIRST_STREAM, 302, SAXPY, 6_000, 10_000),
        Kernel(FIRST_STREAM, 304, REDUCE, 20_000, 22_000),
    ),
)
SECOND_EVENTS = Events(
    calls=(
        ApiCall(SECOND_MAIN, 301, "cudaLaunchKernel_v7000", 2_000, 3_000),
        ApiCall(SECOND_MAIN, 302, "cudaMemcpyPeerAsync_v4000", 10_000, 11_000),
        ApiCall(SECOND_MAIN, 303, "cudaMemcpyAsync_v3020", 14_000, 15_000),
    ),
    memcpys=(
        Memcpy(SECOND_STREAM, 302, "PtoP", "device", "device", 1_000, 12_000, 13_000, 1, 0),
        Memcpy(SECOND_STREAM, 303, "DtoH", "device", "pinned", 4_000, 15_000, 19_000),
    ),
    kernels=(Kernel(SECOND_STREAM, 301, REDUCE, 4_000, 9_000),),
)

WORKLOAD = Workload(
    name="two_processes_two_gpus",
    title="two processes, each with another GPU as its device 0; peer copies",
    duration_ns=30_000,
    devices=(GPU_2, GPU_5),
    processes=(FIRST, SECOND),
    threads=(FIRST_MAIN, SECOND_MAIN),
    streams=(FIRST_STREAM, SECOND_STREAM),
    events=combine((FIRST_EVENTS, SECOND_EVENTS)),
    command="./start_workers.sh",
    environment=(("SLURM_JOB_ID", "123456"),),
)

EXPECTED: Answers = {
    "devices": {
        2: {
            "window_start_ns": 3_000, "window_ns": 19_000, "busy_ns": 12_000, "idle_ns": 7_000,
            "no_kernel_idle_ns": 13_000, "kernel_count": 2, "kernel_sum_ns": 6_000,
            "kernel_union_ns": 6_000, "memcpy_count": 2, "memcpy_sum_ns": 6_000,
            "memset_count": 0, "memset_sum_ns": 0, "um_count": 0, "um_sum_ns": 0,
            "um_bytes_sum": 0, "graph_launch_count": 0, "graph_launch_sum_ns": 0,
        },
        5: {
            "window_start_ns": 4_000, "window_ns": 15_000, "busy_ns": 10_000, "idle_ns": 5_000,
            "no_kernel_idle_ns": 10_000, "kernel_count": 1, "kernel_sum_ns": 5_000,
            "kernel_union_ns": 5_000, "memcpy_count": 2, "memcpy_sum_ns": 5_000,
            "memset_count": 0, "memset_sum_ns": 0, "um_count": 0, "um_sum_ns": 0,
            "um_bytes_sum": 0, "graph_launch_count": 0, "graph_launch_sum_ns": 0,
        },
    },
    "gaps": {
        2: [
            GapAnswer(5_000, 1_000, "queue", 0, 0, 1_000),
            GapAnswer(10_000, 3_000, "host", 1_000, 1_000, 1_000),
            GapAnswer(17_000, 3_000, "host", 1_000, 1_000, 1_000),
        ],
        5: [
            GapAnswer(9_000, 3_000, "host", 1_000, 1_000, 1_000),
            GapAnswer(13_000, 2_000, "host", 1_000, 1_000, 0),
        ],
    },
    "transfers": {
        (2, "HtoD", "pinned", "device"): Moved(1, 2_000, 2_000),
        (2, "PtoP", "device", "device"): Moved(1, 8_000, 4_000),
        (5, "PtoP", "device", "device"): Moved(1, 1_000, 1_000),
        (5, "DtoH", "device", "pinned"): Moved(1, 4_000, 4_000),
    },
    "kernels": {
        (2, SAXPY.demangled): KernelAnswer(1, 4_000),
        (2, REDUCE.demangled): KernelAnswer(1, 2_000),
        (5, REDUCE.demangled): KernelAnswer(1, 5_000),
    },
    "api": {
        ("runtime", "cudaMemcpyAsync"): ApiAnswer(
            2, 2_000, 2, memcpy_sum_ns=6_000, latency_count=2, latency_sum_ns=3_000,
            queue_count=2, queue_sum_ns=1_000),
        ("runtime", "cudaLaunchKernel"): ApiAnswer(
            3, 3_000, 3, kernel_sum_ns=11_000, latency_count=3, latency_sum_ns=6_000,
            queue_count=3, queue_sum_ns=3_000),
        ("runtime", "cudaMemcpyPeerAsync"): ApiAnswer(
            2, 2_000, 2, memcpy_sum_ns=5_000, latency_count=2, latency_sum_ns=4_000,
            queue_count=2, queue_sum_ns=2_000),
    },
    "api_call_count": {6001: 4, 6002: 3},
    "api_sum_ns": {6001: 4_000, 6002: 3_000},
    "api_outermost_sum_ns": {6001: 4_000, 6002: 3_000},
    "projections": {},
}  # fmt: skip
