"""The made-up training job behind the large Kineto traces: what one step of it calls and launches.

It trains a small residual network, data parallel, on one H100, run eagerly. The mix follows the real
trace `nccl_data` of HolisticTraceAnalysis, with recorded shapes as PyTorch 2.13 writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from kineto_step import COMMUNICATION, COMPUTE, COPIES, SMS, Dims, Input, Step, slot

IMAGE_SIZES = (224, 192, 160)
BATCH = 64
BUCKET = (25_000_000,)
# (channels, the image's side over this is the layer's) of the network's convolutions.
LAYERS = ((64, 2), *[(64, 4)] * 4, *[(128, 8)] * 5, *[(256, 16)] * 5, *[(512, 32)] * 5)

_AT = "at::native::"
_MUL = f"{_AT}binary_internal::MulFunctor<float> "
_THRESHOLD = (f"{_AT}BinaryFunctor<float, float, float, {_AT}(anonymous namespace)::"
              "threshold_kernel_impl<float>(at::TensorIteratorBase&, float, float)::"
              "{lambda(float, float)#1}>")  # fmt: skip
_CLAMP = (f"{_AT}(anonymous namespace)::launch_clamp_scalar(at::TensorIteratorBase&, c10::Scalar, "
          f"c10::Scalar, {_AT}detail::ClampLimits)::{{lambda()#1}}::operator()() const::"
          "{lambda()#7}::operator()() const::{lambda(float)#1}")  # fmt: skip
_BN = "cudnnTensorStruct, float const*, cudnnTensorStruct, float"


def elementwise(functor: str, arrays: int) -> str:
    """The name of a vectorized kernel: the functor twice, as the compiler spells it."""
    array = f"std::array<char*, {arrays}ul>"
    return f"void {_AT}vectorized_elementwise_kernel<4, {functor}, {array} >(int, {functor}, {array})"


def multi_tensor(depth: int, functor: str) -> str:
    """The name of a `foreach` kernel."""
    space = f"{_AT}(anonymous namespace)::"
    parts = f"{space}TensorListMetadata<{depth}>, {space}{functor}"
    return f"void {space}multi_tensor_apply_kernel<{parts}>({parts})"


def convolution_kernel(kind: str, layer: int) -> str:
    """The name of a convolution kernel; layers use different tiles."""
    tile = ("128x128x32", "64x128x32", "256x64x32", "64x64x64", "128x256x32")[layer % 5]
    return (f"sm90_xmma_{kind}_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize{tile}_stage"
            f"{2 + layer % 4}_warpgroupsize1x1x1_g1_execute_segment_k_off_kernel__5x_cudnn")  # fmt: skip


TO_NHWC = ("void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, "
           "(cudnnKernelDataType_t)2>(cudnn::ops::nchw2nhwc_params_t<float>, float const*, "
           "float*)")  # fmt: skip
TO_NCHW = ("void cudnn::ops::nhwcToNchwKernel<float, float, float, true, false, "
           "(cudnnKernelDataType_t)0>(cudnn::ops::nhwc2nchw_params_t<float>, float const*, "
           "float*)")  # fmt: skip
MUL = elementwise(f"{_AT}AUnaryFunctor<float, float, float, {_MUL}>", 2)
ADD = elementwise(f"{_AT}CUDAFunctor_add<float>", 3)
COUNT = elementwise(f"{_AT}CUDAFunctorOnSelf_add<long>", 2)
FILL = elementwise(f"{_AT}FillFunctor<float>", 1)
REDUCE = (f"void {_AT}reduce_kernel<512, 1, {_AT}ReduceOp<float, {_AT}MeanOps<float, float, float, "
          f"float>, unsigned int, float, 4, 4> >({_AT}ReduceOp<float, {_AT}MeanOps<float, float, float, "
          "float>, unsigned int, float, 4, 4>)")  # fmt: skip
SOFTMAX = (f"void {_AT}(anonymous namespace)::cunn_SoftMaxForwardReg<float, float, float, {_AT}"
           "(anonymous namespace)::LogSoftMaxForwardEpilogue, long, 8>(float*, float const*, "
           "long)")  # fmt: skip
NLL = (f"void {_AT}(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>"
       "(float*, float*, float const*, long const*, float const*, bool, long, long, long, "
       "long)")  # fmt: skip
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def handles(step: Step) -> None:
    """What cuDNN asks before it works."""
    for name in ("cudaStreamIsCapturing", "cudaStreamGetPriority", "cudaDeviceGetStreamPriorityRange",
                 "cudaEventRecord"):  # fmt: skip
        step.call(name)


def convolve(step: Step, layer: int, x: Dims, w: Dims, work: int) -> None:
    """Convolution, normalisation and activation of a layer, forwards."""
    options = ("[1, 1]", "[1, 1]", "[1, 1]")
    number = 3 * layer
    with (step.op("aten::conv2d", x, w, None, *options, "1"),
          step.op("aten::convolution", x, w, None, *options, "False", "[0, 0]", "1", autograd="from",
                  sequence=number),
          step.op("aten::_convolution", x, w, None, *options, "False", "[0, 0]", "1", "False", "False",
                  "True", "True"),
          step.op("aten::cudnn_convolution", x, w, *options, "1", "False", "False", "True")):  # fmt: skip
        handles(step)
        step.leaf("aten::empty", "[0]", None, None, None, None, None)
        step.launch(TO_NHWC, work // 8, x[1] * 16, 256, 31, 16384)
        step.launch(TO_NHWC, 2600, w[0], 256, 31, 16384)
        step.call("cudaFuncSetAttribute")
        step.launch(convolution_kernel("fprop", layer), work, 4 * SMS + layer, 384, 168, 180224,
                    call="cudaLaunchKernelExC")
    with step.op("aten::add_", (), "1", "1"):
        step.launch(COUNT, 1500, 1, 128, 16)
    stat = (w[0],)
    bn = (x, stat, stat, stat, stat, "True", "0.1", "1e-05", "True")
    with (step.op("aten::batch_norm", *bn), step.op("aten::_batch_norm_impl_index", *bn),
          step.op("aten::cudnn_batch_norm", *bn[:-1], autograd="from", sequence=number + 1)):  # fmt: skip
        step.leaf("aten::empty_like", x, None, None, None, None, "0")
        step.leaf("aten::view", stat, f"[{w[0]}]")
        step.leaf("aten::empty", f"[{w[0]}]", "6", "0", None, "False", None)
        step.leaf("aten::empty", "[0]", "0", "0", None, "False", None)
        step.launch(f"void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, {x[1]}, true, 1, true>("
                    f"{_BN}*, float const*, float const*, float, float, float*, float*, float*, float*, "
                    "float, float)", work // 3, x[1], 512, 48, 8208)
    with (step.op("aten::relu_", x, autograd="from", sequence=number + 2),
          step.op("aten::clamp_min_", x, "0")):  # fmt: skip
        step.launch(elementwise(_CLAMP, 2), work // 6, x[1] * 64, 128, 16)


@contextmanager
def gradient(step: Step, name: str, sequence: int, *inputs: Input) -> Iterator[None]:
    """The two rows of a gradient function."""
    with (step.op(f"autograd::engine::evaluate_function: {name}", autograd="call", sequence=sequence),
          step.op(name, *inputs, autograd="to", sequence=sequence)):  # fmt: skip
        yield


def accumulate(step: Step, w: Dims) -> None:
    """A parameter's gradient goes into its bucket."""
    name = "torch::autograd::AccumulateGrad"
    with step.op(f"autograd::engine::evaluate_function: {name}"), step.op(name, w):
        with step.op("aten::detach", w):
            step.leaf("detach", w)
        step.leaf("aten::result_type", w, "1.")
        step.leaf("aten::result_type", w, "1.")
        with step.op("torch::distributed::reducer::mul_out", w), step.op("aten::mul", w, "1.", w):
            step.launch(MUL, 1800 + 4 * int(np.prod(w)) // 2000, max(1, int(np.prod(w)) // 512), 128, 18)


def convolve_back(step: Step, layer: int, x: Dims, w: Dims, work: int) -> None:
    """The gradients of a layer."""
    number = 3 * layer
    stat = (w[0],)
    with gradient(step, "ReluBackward0", number + 2, x), step.op("aten::threshold_backward", x, x, "0"):
        step.launch(elementwise(_THRESHOLD, 3), work // 5, x[1] * 64, 128, 20)
    with (gradient(step, "CudnnBatchNormBackward0", number + 1, x, None, None),
          step.op("aten::cudnn_batch_norm_backward", x, x, stat, stat, stat, stat, stat, "1e-05", (0,))):
        step.leaf("aten::empty_like", x, None, None, None, None, "0")
        step.leaf("aten::empty", f"[{w[0]}]", "6", "0", None, "False", None)
        step.leaf("aten::empty", f"[{w[0]}]", "6", "0", None, "False", None)
        step.launch(f"void cudnn::bn_bw_1C11_kernel_new<float, float, float2, {x[1]}, true, 1>(float, "
                    f"float, float, float, {_BN} const*, {_BN}*, float const*, float*, float*, float "
                    "const*, float const*, float)", work // 2, x[1], 512, 40, 400)  # fmt: skip
    accumulate(step, stat)
    accumulate(step, stat)
    options = ("[1, 1]", "[1, 1]", "[1, 1]")
    with (gradient(step, "ConvolutionBackward0", number, x),
          step.op("aten::convolution_backward", x, x, w, "[0]", *options, "False", "[0, 0]", "1",
                  "[True, True, False]")):  # fmt: skip
        for kind in ("dgrad", "wgrad"):
            handles(step)
            step.leaf("aten::empty", "[0]", None, None, None, None, None)
            step.launch(TO_NHWC, work // 8, x[1] * 16, 256, 31, 16384)
            step.launch(TO_NHWC, 2600, w[0], 256, 31, 16384)
            if kind == "wgrad":
                step.transfer("Memset (Device)", 4 * int(np.prod(w)), 1300)
            step.call("cudaFuncSetAttribute")
            step.call("cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags")
            step.launch(convolution_kernel(kind, layer), work * 5 // 4, 4 * SMS + layer, 384, 168, 180224,
                        call="cudaLaunchKernelExC")
            step.launch(TO_NCHW, 2600 + work // 9, w[0], 256, 31, 16384)
    accumulate(step, w)


def all_reduce(step: Step, elements: int) -> None:
    """A full bucket goes to the other ranks, on the communication stream."""
    with (step.op("c10d::allreduce_", (elements,), None, None, None, "-1"),
          step.op("record_param_comms", (elements,), "0"),
          step.op("nccl:all_reduce", annotation=True)):  # fmt: skip
        recorded = step.call("cudaEventRecord")
        waiting = step.call("cudaStreamWaitEvent")
        step.sync(waiting, "Stream Wait Event", COMMUNICATION,
                  f'"wait_on_stream": {COMPUTE},      "wait_on_cuda_event_record_corr_id": '
                  f'{slot("correlation", recorded)},      "wait_on_cuda_event_id": 12,      ')
        step.call("cudaStreamGetCaptureInfo_v2")
        step.launch(ALL_REDUCE, 18_000 + elements // 40, 24, 512, 96, 82224, COMMUNICATION, (
            ', "Collective name": "allreduce", "In msg nelems": '
            f'{elements}, "Out msg nelems": {elements}, "Group size": 8, "dtype": "Float", '
            '"In split size": "[]", "Out split size": "[]", "Process Group Name": "0", '
            '"Process Group Description": "default_pg", "Process Group Ranks": '
            '"[0, 1, 2, 3, 4, 5, 6, 7]", "Rank": 0'), "cudaLaunchKernelExC")
        step.call("cudaEventRecord")


def load(step: Step, image: Dims) -> None:
    """The next batch comes and is copied."""
    with step.op("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", annotation=True):
        step.leaf("aten::empty", "[64]", "4", None, None, "True", None)
        step.edge(30_000)
    for dims in (image, (BATCH,)):
        with (step.op("aten::to", dims, "[0]", "6", None, "True", "False", None),
              step.op("aten::_to_copy", dims, "6", None, "0", None, "True", None)):  # fmt: skip
            step.leaf("aten::empty_strided", f"{list(dims)}", "[1]", "6", None, "0", None)
            with step.op("aten::copy_", dims, dims, "True"):
                step.call("cudaStreamIsCapturing")
                step.transfer("Memcpy HtoD (Pinned -> Device)", 4 * int(np.prod(dims)), 52, COPIES)
    step.call_in("aten::record_stream", ("cudaEventRecord", "cudaStreamWaitEvent"))


def loss(step: Step) -> None:
    """The network's head and the loss."""
    logits, features = (BATCH, 1000), (BATCH, 512)
    number = 3 * len(LAYERS)
    with step.op("aten::linear", features, (1000, 512), (1000,)):
        with step.op("aten::t", (1000, 512)), step.op("aten::transpose", (1000, 512), "0", "1"):
            step.leaf("aten::as_strided", (1000, 512), "[512, 1000]", "[1, 512]", None)
        with step.op("aten::addmm", (1000,), features, (512, 1000), "1", "1", autograd="from",
                     sequence=number):  # fmt: skip
            step.launch("nvjet_tst_64x128_64x8_1x2_h_bz_TNT", 5200, 64, 384, 168, 197632,
                        call="cudaLaunchKernelExC")
    with step.op("aten::cross_entropy_loss", logits, (BATCH,), None, "1", "-100", "0."):
        with (step.op("aten::log_softmax", logits, "1", None),
              step.op("aten::_log_softmax", logits, "1", "False", autograd="from", sequence=number + 1)):
            step.launch(SOFTMAX, 3100, BATCH, 256, 34, 1024)
        with (step.op("aten::nll_loss_nd", logits, (BATCH,), None, "1", "-100"),
              step.op("aten::nll_loss", logits, (BATCH,), None, "1", "-100"),
              step.op("aten::nll_loss_forward", logits, (BATCH,), None, "1", "-100", autograd="from",
                      sequence=number + 2)):  # fmt: skip
            step.launch(NLL, 2900, 1, 32, 38, 0)


def loss_back(step: Step) -> None:
    """The gradients of the loss and the head."""
    logits, number = (BATCH, 1000), 3 * len(LAYERS)
    with (gradient(step, "NllLossBackward0", number + 2, ()),
          step.op("aten::nll_loss_backward", (), logits, (BATCH,), None, "1", "-100", ()),
          step.op("aten::zero_", logits), step.op("aten::fill_", logits, "0")):  # fmt: skip
        step.launch(FILL, 1700, 63, 128, 16)
    with (gradient(step, "LogSoftmaxBackward0", number + 1, logits),
          step.op("aten::_log_softmax_backward_data", logits, logits, "1", "6")):  # fmt: skip
        step.launch(SOFTMAX.replace("Forward", "Backward"), 3300, BATCH, 256, 34, 1024)
    with gradient(step, "AddmmBackward0", number, logits):
        for left in (logits, (1000, BATCH)):
            with step.op("aten::mm", left, (left[1], 512)):
                step.launch("nvjet_tst_128x64_64x8_2x1_v_bz_NNT", 5600, 64, 384, 168, 197632,
                            call="cudaLaunchKernelExC")
        with step.op("aten::sum", logits, "[0]", "True", None):
            step.launch(REDUCE, 3400, 8, 512, 32, 16)
    accumulate(step, (1000,))
    accumulate(step, (1000, 512))


def finish(step: Step, parameters: Sequence[Dims]) -> None:
    """Reduced gradients go back, the optimizer runs, the loss is read."""
    for dims in parameters:
        with step.op("torch.distributed.ddp.reducer::copy_bucket_to_grad", dims):
            flat = (int(np.prod(dims)),)
            with (step.op("aten::narrow", BUCKET, "0", "0", str(flat[0])),
                  step.op("aten::slice", BUCKET, "0", "0", str(flat[0]), "1")):  # fmt: skip
                step.leaf("aten::as_strided", BUCKET, f"[{flat[0]}]", "[1]", "0")
            step.leaf("aten::view", flat, f"{list(dims)}")
            with step.op("aten::copy_", dims, dims, "False"):
                step.call("cudaStreamIsCapturing")
                step.transfer("Memcpy DtoD (Device -> Device)", 4 * flat[0], 1100)


def optimize(step: Step, parameters: Sequence[Dims]) -> None:
    """The optimizer's step on the main thread, and the read of the loss."""
    with step.op("Optimizer.step#AdamW.step", annotation=True):
        step.call_in("aten::result_type", ("cudaStreamIsCapturing",))
        for start in range(0, len(parameters), 16):
            flat = parameters[start]
            with step.op("aten::_fused_adamw_", flat, flat, flat, flat, "0.001", "0.9", "0.999", "0.01"):
                step.launch(multi_tensor(4, "FusedAdamMathFunctor<float, 4, "
                                            f"({_AT}ADAM_MODE)1, false>, float const*, double, double, "
                                            "double, double, double, bool, float const*, float const*"),
                            34_000, 320, 512, 62)
    with step.op("Optimizer.zero_grad#AdamW.zero_grad", annotation=True), step.op("aten::_foreach_zero_"):
        step.launch(multi_tensor(1, "ZeroFunctor<float, 1, 1, 0>"), 9000, 320, 512, 20)
    with step.op("aten::add", (), (), "1"):
        step.launch(ADD, 1500, 1, 128, 22)
    with step.op("aten::item", ()), step.op("aten::_local_scalar_dense", ()):
        step.transfer("Memcpy DtoH (Device -> Pageable)", 4, 30)
        call = step.call("cudaStreamSynchronize")
        step.sync(call, "Stream Sync", COMPUTE, "")


def build(image: int) -> Step:
    """A whole step at an image size."""
    step = Step(image)
    dims = [(BATCH, channels, image // scale, image // scale) for channels, scale in LAYERS]
    weights = [(channels, dims[max(0, at - 1)][1], 3, 3) for at, (channels, _) in enumerate(LAYERS)]
    work = [8000 + 60_000 * image // 224 * (at % 4 + 1) // 4 for at in range(len(LAYERS))]
    parameters = [shape for w in weights for shape in (w, (w[0],), (w[0],))] + [(1000, 512), (1000,)]
    step.overhead("Activity Buffer Request")
    with step.op("ProfilerStep#N", annotation=True):
        load(step, (BATCH, 3, image, image))
        with step.op("DistributedDataParallel.forward", annotation=True):
            for at in range(len(LAYERS)):
                convolve(step, at, dims[at], weights[at], work[at])
            with (step.op("aten::adaptive_avg_pool2d", dims[-1], "[1, 1]"),
                  step.op("aten::mean", dims[-1], "[-1, -2]", "True", None)):  # fmt: skip
                step.launch(REDUCE, 4100, 256, 512, 32, 16)
        loss(step)
        step.edge(40_000)
        step.thread = "backward"
        loss_back(step)
        for at in reversed(range(len(LAYERS))):
            convolve_back(step, at, dims[at], weights[at], work[at])
            if at % 5 == 0:
                all_reduce(step, sum(int(np.prod(w)) for w in weights[at : at + 5]))
        finish(step, parameters)
        step.edge(25_000)
        step.thread = "forward"
        optimize(step, parameters)
    return step
