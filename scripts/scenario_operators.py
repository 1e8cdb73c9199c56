"""`operators`: one step of a network's training, operator by operator, for profilers that see these.

PyTorch's profiler records operators as such; under Nsight Systems `emit_nvtx` makes a range of each
(`emit_nvtx.py`), so this is written as traces and as exports. Times in ns, no two alike, so that a sum
which lacks one or has one twice is another number. GPU 0, streams 7 and 20.

  main    iteration 1  annotation, torch.cuda.nvtx's or record_function's   1003 - 60007
            aten::linear                                                    5011 - 15013
              aten::t                                                       5503 -  5901
              aten::addmm                                                   6007 - 14009
                801 cudaLaunchKernel                                        9001 - 10501
            aten::cat            of a list of two tensors                  15511 - 18013
              802 cudaLaunchKernel                                         16001 - 17003
            triton_poi_fused_add_0                                         18503 - 20009
              803 cuLaunchKernel                                           18701 - 19207
            aten::to                                                       21011 - 27017
              aten::to           all that it holds: the same call          21503 - 26507
                804 cudaMemcpyAsync                                        23003 - 25007
            808 cudaDeviceSynchronize in no operator                       50021 - 58027
            809 cudaLaunchKernel in no operator                            58103 - 59107
  back    autograd::engine::evaluate_function: AddmmBackward0              30011 - 46021
            AddmmBackward0                                                 30509 - 45503
              aten::t                                                      30601 - 30707
              aten::mm           half                                      31013 - 37019
                805 cudaLaunchKernel                                       32003 - 33503
              aten::mm           single                                    38011 - 44017
                806 cudaMemsetAsync                                        38501 - 39503
                807 cudaLaunchKernel                                       40009 - 41011
          torch::autograd::AccumulateGrad                                  46103 - 47111

  GPU     801 half GEMM  stream  7   12007 - 20021      806 memset         39607 - 39701
          802 saxpy      stream 20   18019 - 24029      807 single GEMM    41507 - 47017  stream 20
          803 triton     stream  7   20101 - 21121      809 reduce_sum     59203 - 59999
          804 HtoD       stream  7   24107 - 26111      no call: stencil   62003 - 62521
          805 half GEMM  stream  7   34019 - 42023

By hand: aten::linear takes 10002, of which aten::t 398 and aten::addmm 8002: 1602 of its own.
aten::addmm: 8002 - 1500. aten::to: once, 6006 - 2004. aten::mm: 2 calls, 12012, and 12012 - 1500 - 1002
- 1002 = 8508 of its own; GPU 8004 + 94 + 5510 = 13608, together [34019, 47017): 12998. Launched by no
operator: 796 + 518.
"""

from __future__ import annotations

from kineto_framework import Framework, Operator
from machine import REDUCE, SAXPY, STENCIL, TRITON, a100, stream
from workload import (
    ApiCall,
    Events,
    Function,
    Kernel,
    Memcpy,
    Memset,
    Process,
    Range,
    Thread,
    Workload,
)

GPU = a100(0)
PROCESS = Process(8100, "python", (GPU,))
MAIN = Thread(PROCESS, 8100, "python")
BACK = Thread(PROCESS, 8155, "pt_autograd_0")
NULL = stream(PROCESS, 7, "null")
SIDE = stream(PROCESS, 20)
HALF_GEMM = Function(*["ampere_fp16_s16816gemm_fp16_64x64_tn"] * 4)
SINGLE_GEMM = Function(*["ampere_sgemm_128x64_nn"] * 4)

EVENTS = Events(
    calls=(
        ApiCall(MAIN, 801, "cudaLaunchKernel_v7000", 9_001, 10_501),
        ApiCall(MAIN, 802, "cudaLaunchKernel_v7000", 16_001, 17_003),
        ApiCall(MAIN, 803, "cuLaunchKernel", 18_701, 19_207, "driver"),
        ApiCall(MAIN, 804, "cudaMemcpyAsync_v3020", 23_003, 25_007),
        ApiCall(BACK, 805, "cudaLaunchKernel_v7000", 32_003, 33_503),
        ApiCall(BACK, 806, "cudaMemsetAsync_v3020", 38_501, 39_503),
        ApiCall(BACK, 807, "cudaLaunchKernel_v7000", 40_009, 41_011),
        ApiCall(MAIN, 808, "cudaDeviceSynchronize_v3020", 50_021, 58_027),
        ApiCall(MAIN, 809, "cudaLaunchKernel_v7000", 58_103, 59_107),
    ),
    kernels=(
        Kernel(NULL, 801, HALF_GEMM, 12_007, 20_021, (216, 1, 1), (128, 1, 1), 96, 0, 32_768),
        Kernel(SIDE, 802, SAXPY, 18_019, 24_029, (1_000, 1, 1), (256, 1, 1), 24),
        Kernel(NULL, 803, TRITON, 20_101, 21_121, (54, 1, 1), (128, 1, 1), 168, 0, 2_048),
        Kernel(NULL, 805, HALF_GEMM, 34_019, 42_023, (54, 2, 1), (128, 1, 1), 96, 0, 32_768),
        Kernel(SIDE, 807, SINGLE_GEMM, 41_507, 47_017, (27, 1, 2), (64, 2, 1), 120, 8_192),
        Kernel(NULL, 809, REDUCE, 59_203, 59_999, (108, 1, 1), (1_024, 1, 1), 40, 8_192),
        Kernel(NULL, None, STENCIL, 62_003, 62_521, (16, 16, 4), (8, 8, 8), 64),
    ),
    memcpys=(Memcpy(NULL, 804, "HtoD", "pinned", "device", 4_096, 24_107, 26_111),),
    memsets=(Memset(SIDE, 806, 0, 2_048, 39_607, 39_701),),
    ranges=(Range(MAIN, "iteration 1", 1_003, 60_007),),
)

FRAMEWORK = Framework(
    operators=(
        Operator(MAIN, "aten::linear", 5_011, 15_013, "[[16, 8], [4, 8], [4]]",
                 '["c10::Half", "c10::Half", "c10::Half"]', sequence=12),
        Operator(MAIN, "aten::t", 5_503, 5_901, "[[4, 8]]", '["c10::Half"]', sequence=12),
        Operator(MAIN, "aten::addmm", 6_007, 14_009, "[[4], [16, 8], [8, 4], [], []]",
                 '["c10::Half", "c10::Half", "c10::Half", "Scalar", "Scalar"]', sequence=13),
        Operator(MAIN, "aten::cat", 15_511, 18_013, "[[[16, 4], [16, 2]], []]",
                 '["TensorList", "Scalar"]', sequence=14),
        Operator(MAIN, "triton_poi_fused_add_0", 18_503, 20_009, "[[16, 6]]", '["float"]'),
        Operator(MAIN, "aten::to", 21_011, 27_017, "[[16, 8], [], [], [], []]",
                 '["c10::Half", "Scalar", "Scalar", "Scalar", ""]'),
        Operator(MAIN, "aten::to", 21_503, 26_507, "[[16, 8], [], [], [], [], [], [], []]",
                 '["c10::Half", "Scalar", "Scalar", "", "", "Scalar", "Scalar", ""]'),
        Operator(BACK, "autograd::engine::evaluate_function: AddmmBackward0", 30_011, 46_021,
                 sequence=13, forward=MAIN),
        Operator(BACK, "AddmmBackward0", 30_509, 45_503, "[[16, 4]]", '["c10::Half"]',
                 sequence=13, forward=MAIN),
        Operator(BACK, "aten::t", 30_601, 30_707, "[[8, 4]]", '["c10::Half"]'),
        Operator(BACK, "aten::mm", 31_013, 37_019, "[[16, 4], [4, 8]]",
                 '["c10::Half", "c10::Half"]'),
        Operator(BACK, "aten::mm", 38_011, 44_017, "[[4, 16], [16, 8]]", '["float", "float"]'),
        Operator(BACK, "torch::autograd::AccumulateGrad", 46_103, 47_111, "[[4, 8]]", '["float"]'),
    ),
)  # fmt: skip

WORKLOAD = Workload(
    name="operators",
    title="operators of a step: nested, backward on another thread, work of none",
    duration_ns=70_000,
    devices=(GPU,),
    processes=(PROCESS,),
    threads=(MAIN, BACK),
    streams=(NULL, SIDE),
    events=EVENTS,
    command="python",
    arguments=("train.py",),
)
