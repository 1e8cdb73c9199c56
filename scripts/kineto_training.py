"""`training`: one step of a rank that trains, with all that PyTorch knows about it.

Written for Kineto only: other profilers record no operators. Times in us. Main thread 3100,
backward thread 3155; GPU 0, streams 7 (compute) and 20 (communication).

  id   thread  call                        GPU time    stream  what
  ---  ------  --------------------------  ----------  ------  -------------------------------
  701  main    cudaMemcpyAsync    6 -   8    9 -  12    7      HtoD pinned 8000 B
  702  main    cudaLaunchKernel  16 -  18   20 -  40    7      saxpy, of aten::addmm
  703  main    cuLaunchKernel    24 -  25   40 -  44    7      triton (driver call)
  704  back    cudaLaunchKernel  52 -  54   56 -  70    7      reduce_sum, of a backward op
  705  back    cudaEventCreate   55 -  56                      not recorded from 1.12 on
  706  back    cudaEventRecord   57 -  58
  707  back    cudaStreamWait..  59 -  60                      stream 20 waits for the event
  708  back    cudaLaunchKernel  63 -  65   72 -  90   20      ncclDevKernel_AllReduce
  709  main    cudaSetDevice     91 -  92                      never recorded
  710  main    cudaMemcpyAsync   94 -  96   97 -  98    7      DtoH pageable 4 B, of aten::item
  711  main    cudaStreamSync..  96 - 100
"""

from __future__ import annotations

from kineto_framework import (
    Block,
    Collective,
    Framework,
    Operator,
    PythonFunction,
)
from machine import REDUCE, SAXPY, TRITON, a100, stream
from workload import (
    ApiCall,
    EventRecord,
    Events,
    Function,
    Kernel,
    Memcpy,
    Overhead,
    Process,
    Range,
    Sync,
    Thread,
    Workload,
)

GPU = a100(0)
PROCESS = Process(3100, "python", (GPU,), rank=1)
MAIN = Thread(PROCESS, 3100, "python")
BACK = Thread(PROCESS, 3155, "pt_autograd_0")
COMPUTE = stream(PROCESS, 7, "null")
COMMUNICATION = stream(PROCESS, 20)
_ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ALL_REDUCE = Function(
    demangled=_ALL_REDUCE,
    itanium=_ALL_REDUCE,
    short="ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    mangled="_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
)

EVENTS = Events(
    calls=(
        ApiCall(MAIN, 701, "cudaMemcpyAsync_v3020", 6_000, 8_000),
        ApiCall(MAIN, 702, "cudaLaunchKernel_v7000", 16_000, 18_000),
        ApiCall(MAIN, 703, "cuLaunchKernel", 24_000, 25_000, "driver"),
        ApiCall(BACK, 704, "cudaLaunchKernel_v7000", 52_000, 54_000),
        ApiCall(BACK, 705, "cudaEventCreateWithFlags_v3020", 55_000, 56_000),
        ApiCall(BACK, 706, "cudaEventRecord_v3020", 57_000, 58_000),
        ApiCall(BACK, 707, "cudaStreamWaitEvent_v3020", 59_000, 60_000),
        ApiCall(BACK, 708, "cudaLaunchKernel_v7000", 63_000, 65_000),
        ApiCall(MAIN, 709, "cudaSetDevice_v3020", 91_000, 92_000),
        ApiCall(MAIN, 710, "cudaMemcpyAsync_v3020", 94_000, 96_000),
        ApiCall(MAIN, 711, "cudaStreamSynchronize_v3020", 96_000, 100_000),
    ),
    kernels=(
        Kernel(COMPUTE, 702, SAXPY, 20_000, 40_000, (1_000, 1, 1), (256, 1, 1), 24),
        Kernel(COMPUTE, 703, TRITON, 40_000, 44_000, (54, 1, 1), (128, 1, 1), 168, 0, 2_048),
        Kernel(COMPUTE, 704, REDUCE, 56_000, 70_000, (108, 1, 1), (1_024, 1, 1), 40, 8_192),
        Kernel(COMMUNICATION, 708, ALL_REDUCE, 72_000, 90_000, (24, 1, 1), (544, 1, 1), 96, 32_768),
    ),
    memcpys=(
        Memcpy(COMPUTE, 701, "HtoD", "pinned", "device", 8_000, 9_000, 12_000),
        Memcpy(COMPUTE, 710, "DtoH", "device", "pageable", 4, 97_000, 98_000),
    ),
    syncs=(
        Sync(COMMUNICATION, 707, "stream_wait_event", 59_200, 59_400, event_id=5),
        Sync(COMPUTE, 711, "stream", 96_500, 99_500),
    ),
    event_records=(EventRecord(COMPUTE, 706, 5, 70_500),),
    ranges=(
        Range(MAIN, "ProfilerStep#4", 1_000, 110_000),
        Range(MAIN, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 2_000, 5_000),
        Range(BACK, "nccl:all_reduce", 61_500, 66_500),
        Range(MAIN, "Optimizer.step#SGD.step", 102_000, 108_000),
    ),
    overheads=(
        Overhead(MAIN, "lazy_loading", 16_200, 17_000, 702),
        Overhead(MAIN, "buffer_flush", 101_000, 101_500),
    ),
)

FRAMEWORK = Framework(
    operators=(
        Operator(MAIN, "aten::to", 5_500, 8_500, "[[16, 125], []]", '["float", "Scalar"]'),
        Operator(MAIN, "aten::copy_", 5_800, 8_200, "[[16, 125], [16, 125]]",
                 '["float", "float"]'),
        Operator(MAIN, "aten::linear", 14_000, 21_000, "[[16, 125], [64, 125], [64]]",
                 '["float", "float", "float"]', sequence=12),
        Operator(MAIN, "aten::addmm", 15_000, 20_000, "[[64], [16, 125], [125, 64]]",
                 '["float", "float", "float"]', sequence=12),
        Operator(MAIN, "triton_poi_fused_add_0", 23_000, 26_000, "[[16, 64]]", '["float"]'),
        Operator(BACK, "autograd::engine::evaluate_function: AddmmBackward0", 50_000, 68_000,
                 sequence=12, forward=MAIN),
        Operator(BACK, "AddmmBackward0", 50_500, 55_000, "[[16, 64]]", '["float"]',
                 sequence=12, forward=MAIN),
        Operator(MAIN, "aten::item", 93_000, 101_000, "[[]]", '["float"]'),
    ),
    collectives=(
        Collective(BACK, 708, "allreduce", 62_000, 66_000, 8_064, "Float", "0", (0, 1), 7),
    ),
    blocks=(
        Block(MAIN, 5_600, 0x7F20_0000_0000, 8_192, 8_192, 2_097_152, 0),
        Block(MAIN, 3_000, 0x5500_0000_1000, 64, 64, 0, None),
        Block(BACK, 54_500, 0x7F20_0000_0000, -8_192, 0, 2_097_152, 0),
    ),
    functions=(
        PythonFunction(MAIN, "train.py(12): main", 500, 115_000, 1, None),
        PythonFunction(MAIN, "nn.Module: Linear_0", 13_500, 21_500, 2, 1),
        PythonFunction(MAIN, "<built-in function linear>", 13_800, 21_200, 3, 2),
    ),
)  # fmt: skip

WORKLOAD = Workload(
    name="training",
    title="one step of a rank that trains: operators, a collective, memory, Python functions",
    duration_ns=120_000,
    devices=(GPU,),
    processes=(PROCESS,),
    threads=(MAIN, BACK),
    streams=(COMPUTE, COMMUNICATION),
    events=EVENTS,
    command="python",
    arguments=("train.py",),
)
