"""`graphs`: one process whose CUDA graphs are recorded as intervals, one with their nodes.

Times in us. Process 7001 uses GPU 0, process 7002 GPU 1 (its device 1). What is captured into a
graph has API calls and no GPU work.

  GPU  id   what                call      GPU time       gap before       parts of the gap
  ---  ---  ------------------  --------  -------------  ---------------  -------------------------
  0    405  graph               10 - 12   13   - 18      -
  0    406  graph               20 - 21   22   - 27      18 - 22      4   host 2 launch 1 queue 1
  0    407  saxpy, no graph     28 - 29   30   - 31      27 - 30      3   host 1 launch 1 queue 1
  1    408  node saxpy          10 - 12   13   - 15      -
  1    408  node reduce_sum     (same)    16   - 19      15 - 16      1   queue 1
  1    408  node DtoH           (same)    20   - 21      19 - 20      1   queue 1
  1    408  node memset         (same)    21.5 - 22      21 - 21.5  0.5   queue 0.5
  1    409  node saxpy          30 - 31   33   - 35      22 - 33     11   host 8 launch 1 queue 2
  1    409  node reduce_sum     (same)    35   - 38      -
  1    409  node DtoH           (same)    38   - 39      -
  1    409  node memset         (same)    39   - 39.5    -

GPU 0: window 13 - 31: 18, busy 5+5+1 = 11, idle 7; one kernel, and two graph launches of 10 in total.
GPU 1: window 13 - 39.5: 26.5, busy 2+3+1+0.5 twice = 13, idle 13.5; four kernels of 10 in total,
without a kernel 16.5.
"""

from __future__ import annotations

from answers import Answers, ApiAnswer, GapAnswer, KernelAnswer
from answers import TransferAnswer as Moved
from machine import REDUCE, SAXPY, a100, stream
from workload import (
    ApiCall,
    Events,
    GraphCreation,
    GraphLaunch,
    GraphNodeCreation,
    Kernel,
    Memcpy,
    Memset,
    Process,
    Thread,
    Workload,
    combine,
)

GPUS = (a100(0), a100(1))
WHOLE = Process(7001, "infer", GPUS)
NODES = Process(7002, "infer", GPUS)
WHOLE_MAIN = Thread(WHOLE, 7001, "infer")
NODES_MAIN = Thread(NODES, 7002, "infer")
WHOLE_STREAM = stream(WHOLE, 13)
NODES_STREAM = stream(NODES, 13, ordinal=1)
# The numbers of nodes: those of the graph, and their clones in the executable graph.
ORIGINAL = 1 << 32
CLONE = 2 << 32

WHOLE_EVENTS = Events(
    calls=(
        ApiCall(WHOLE_MAIN, 401, "cudaStreamBeginCapture_v10000", 1_000, 2_000),
        ApiCall(WHOLE_MAIN, 402, "cudaLaunchKernel_v7000", 3_000, 4_000),
        ApiCall(WHOLE_MAIN, 403, "cudaStreamEndCapture_v10000", 5_000, 6_000),
        ApiCall(WHOLE_MAIN, 404, "cudaGraphInstantiate_v12000", 7_000, 9_000),
        ApiCall(WHOLE_MAIN, 405, "cudaGraphLaunch_v10000", 10_000, 12_000),
        ApiCall(WHOLE_MAIN, 406, "cudaGraphLaunch_v10000", 20_000, 21_000),
        ApiCall(WHOLE_MAIN, 407, "cudaLaunchKernel_v7000", 28_000, 29_000),
    ),
    graphs=(
        GraphCreation(WHOLE_MAIN, 1_500, 1),
        GraphCreation(WHOLE_MAIN, 8_500, 1, graph_exec_id=2),
    ),
    graph_launches=(
        GraphLaunch(WHOLE_STREAM, 405, 1, 2, 13_000, 18_000),
        GraphLaunch(WHOLE_STREAM, 406, 1, 2, 22_000, 27_000),
    ),
    kernels=(Kernel(WHOLE_STREAM, 407, SAXPY, 30_000, 31_000),),
)
NODES_CAPTURE = Events(
    calls=(
        ApiCall(NODES_MAIN, 401, "cudaStreamBeginCapture_v10000", 1_000, 2_000),
        ApiCall(NODES_MAIN, 402, "cudaLaunchKernel_v7000", 2_500, 3_000),
        ApiCall(NODES_MAIN, 403, "cudaLaunchKernel_v7000", 3_500, 4_000),
        ApiCall(NODES_MAIN, 404, "cudaMemcpyAsync_v3020", 4_200, 4_400),
        ApiCall(NODES_MAIN, 405, "cudaMemsetAsync_v3020", 4_600, 4_800),
        ApiCall(NODES_MAIN, 406, "cudaStreamEndCapture_v10000", 5_000, 6_000),
        ApiCall(NODES_MAIN, 407, "cudaGraphInstantiate_v12000", 7_000, 9_000),
    ),
    graph_nodes=(
        GraphNodeCreation(NODES_MAIN, 2_700, ORIGINAL),
        GraphNodeCreation(NODES_MAIN, 3_700, ORIGINAL + 1),
        GraphNodeCreation(NODES_MAIN, 4_300, ORIGINAL + 2),
        GraphNodeCreation(NODES_MAIN, 4_700, ORIGINAL + 3),
        GraphNodeCreation(NODES_MAIN, 8_000, CLONE, ORIGINAL),
        GraphNodeCreation(NODES_MAIN, 8_100, CLONE + 1, ORIGINAL + 1),
        GraphNodeCreation(NODES_MAIN, 8_200, CLONE + 2, ORIGINAL + 2),
        GraphNodeCreation(NODES_MAIN, 8_300, CLONE + 3, ORIGINAL + 3),
    ),
)
NODES_LAUNCHES = Events(
    calls=(
        ApiCall(NODES_MAIN, 408, "cudaGraphLaunch_v10000", 10_000, 12_000),
        ApiCall(NODES_MAIN, 409, "cudaGraphLaunch_v10000", 30_000, 31_000),
    ),
    kernels=(
        Kernel(NODES_STREAM, 408, SAXPY, 13_000, 15_000, graph_node_id=CLONE),
        Kernel(NODES_STREAM, 408, REDUCE, 16_000, 19_000, graph_node_id=CLONE + 1),
        Kernel(NODES_STREAM, 409, SAXPY, 33_000, 35_000, graph_node_id=CLONE),
        Kernel(NODES_STREAM, 409, REDUCE, 35_000, 38_000, graph_node_id=CLONE + 1),
    ),
    memcpys=(
        Memcpy(NODES_STREAM, 408, "DtoH", "device", "pinned", 1_000, 20_000, 21_000,
               graph_node_id=CLONE + 2),
        Memcpy(NODES_STREAM, 409, "DtoH", "device", "pinned", 1_000, 38_000, 39_000,
               graph_node_id=CLONE + 2),
    ),
    memsets=(
        Memset(NODES_STREAM, 408, 0, 512, 21_500, 22_000, graph_node_id=CLONE + 3),
        Memset(NODES_STREAM, 409, 0, 512, 39_000, 39_500, graph_node_id=CLONE + 3),
    ),
)  # fmt: skip

WORKLOAD = Workload(
    name="graphs",
    title="CUDA graphs, recorded as intervals in one process and by node in the other",
    duration_ns=50_000,
    devices=GPUS,
    processes=(WHOLE, NODES),
    threads=(WHOLE_MAIN, NODES_MAIN),
    streams=(WHOLE_STREAM, NODES_STREAM),
    events=combine((WHOLE_EVENTS, NODES_CAPTURE, NODES_LAUNCHES)),
    command="./infer",
)

EXPECTED: Answers = {
    "devices": {
        0: {
            "window_start_ns": 13_000, "window_ns": 18_000, "busy_ns": 11_000, "idle_ns": 7_000,
            "no_kernel_idle_ns": 7_000, "kernel_count": 1, "kernel_sum_ns": 1_000,
            "kernel_union_ns": 1_000, "memcpy_count": 0, "memcpy_sum_ns": 0, "memset_count": 0,
            "memset_sum_ns": 0, "um_count": 0, "um_sum_ns": 0, "um_bytes_sum": 0,
            "graph_launch_count": 2, "graph_launch_sum_ns": 10_000,
        },
        1: {
            "window_start_ns": 13_000, "window_ns": 26_500, "busy_ns": 13_000,
            "idle_ns": 13_500, "no_kernel_idle_ns": 16_500, "kernel_count": 4,
            "kernel_sum_ns": 10_000, "kernel_union_ns": 10_000, "memcpy_count": 2,
            "memcpy_sum_ns": 2_000, "memset_count": 2, "memset_sum_ns": 1_000, "um_count": 0,
            "um_sum_ns": 0, "um_bytes_sum": 0, "graph_launch_count": 0, "graph_launch_sum_ns": 0,
        },
    },
    "gaps": {
        0: [
            GapAnswer(18_000, 4_000, "host", 2_000, 1_000, 1_000),
            GapAnswer(27_000, 3_000, "host", 1_000, 1_000, 1_000),
        ],
        1: [
            GapAnswer(15_000, 1_000, "queue", 0, 0, 1_000),
            GapAnswer(19_000, 1_000, "queue", 0, 0, 1_000),
            GapAnswer(21_000, 500, "queue", 0, 0, 500),
            GapAnswer(22_000, 11_000, "host", 8_000, 1_000, 2_000),
        ],
    },
    "transfers": {(1, "DtoH", "device", "pinned"): Moved(2, 2_000, 2_000)},
    "kernels": {
        (0, SAXPY.demangled): KernelAnswer(1, 1_000),
        (1, SAXPY.demangled): KernelAnswer(2, 4_000),
        (1, REDUCE.demangled): KernelAnswer(2, 6_000),
    },
    "api": {
        # Latencies 13-10, 22-20, 13-10, 33-30; queue times 1, 1, 1, 2; ops 2 graphs, 8 nodes.
        ("runtime", "cudaGraphLaunch"): ApiAnswer(
            4, 6_000, 10, 10_000, 2_000, 1_000, latency_count=4, latency_sum_ns=11_000,
            queue_count=4, queue_sum_ns=5_000),
        ("runtime", "cudaLaunchKernel"): ApiAnswer(
            4, 3_000, 1, 1_000, latency_count=1, latency_sum_ns=2_000, queue_count=1,
            queue_sum_ns=1_000),
        ("runtime", "cudaStreamBeginCapture"): ApiAnswer(2, 2_000),
        ("runtime", "cudaStreamEndCapture"): ApiAnswer(2, 2_000),
        ("runtime", "cudaGraphInstantiate"): ApiAnswer(2, 4_000),
        ("runtime", "cudaMemcpyAsync"): ApiAnswer(1, 200),
        ("runtime", "cudaMemsetAsync"): ApiAnswer(1, 200),
    },
    "api_call_count": {7001: 7, 7002: 9},
    "api_sum_ns": {7001: 9_000, 7002: 8_400},
    "api_outermost_sum_ns": {7001: 9_000, 7002: 8_400},
    "projections": {},
}  # fmt: skip
