"""Rules on PyTorch's operators: which products run how, who reads values, who works tensor by tensor."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nsysconv.codes import DIRECTIONS
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.names import WAITS, called, shorten_kernel
from nsysconv.queries.findings.contract import (
    NAMES_CALL,
    NAMES_VALUE,
    Found,
    Scene,
    clipped,
    counted,
    frameworks,
    remaining,
)
from nsysconv.queries.findings.waits import after_waits, gap_at, gaps_after
from nsysconv.report import MISSING
from nsysconv.threads import cached_in
from nsysconv.timeline.annotations import operators, ranges, which_named
from nsysconv.timeline.arrays import Array, by_group, counts, distinct, factorize, sums, take
from nsysconv.timeline.events import OpKind, Spans, number_threads
from nsysconv.timeline.intervals import Union, union
from nsysconv.timeline.kernel_categories import (
    NO,
    categories,
    kernel_names,
    tensor_core_use,
)
from nsysconv.timeline.peaks import device_peaks
from nsysconv.timeline.range_names import split_name
from nsysconv.timeline.utilization import compute_capability

if TYPE_CHECKING:
    from nsysconv.timeline.operator_calls import OperatorCalls

_NAME = 48

# -- products and convolutions

_PRODUCTS = ("gemm", "convolution")
# In double precision; with vectors, which memory bounds; and AMD's, whose numbers of capability say
# nothing of matrix cores.
_NO_CANDIDATE = re.compile(r"[dz]gemm|f64|double|gemv|dot_kernel|^cijk", re.IGNORECASE)
# cuBLAS, cuDNN and CUTLASS give such names to kernels that compute in float on CUDA cores.
_SINGLE = re.compile(
    r"(?:maxwell|volta|turing|ampere|hopper)_(?:sgemm|scudnn)_|simt_sgemm_|xmma_\w*f32f32\w*ffma"
    r"|convolve_sgemm<float"
)
HALF = re.compile(r"f16|fp16|half", re.IGNORECASE)
TF32 = re.compile(r"tf32|s1688")
# The name has the generation of GPUs for which a kernel was made; it runs on these and on later ones.
_MADE_FOR = re.compile(r"(?:^|_)(volta|turing|ampere|hopper)_|(?:sm|cutlass_)(\d\d+)_")
_GENERATIONS = {"volta": 70, "turing": 75, "ampere": 80, "hopper": 90}
_TENSOR_CORES, _HAS_TF32 = 70, 80
_MATMULS = {"aten::mm": 0, "aten::bmm": 0, "aten::addmm": 1, "aten::baddbmm": 1}
_HALVES = ("c10::Half", "c10::BFloat16")
_MULTIPLE = 8
_OF_INPUTS = "shapes and types of operators' inputs"


def tensor_cores_unused(scene: Scene) -> Found | None:
    """Measure products and convolutions of PyTorch's that run without Tensor Cores."""
    if not _has_operators(scene):
        return None
    mine = _run_without(scene)
    if scene.has("fp32_matmul", fp32_matmul):
        mine &= ~kernels_named(scene, _is_single)
    at_most = of_kernels(scene, mine)
    if not scene.speaks("tensor_cores_unused", at_most):
        return at_most
    if not _can(scene, _TENSOR_CORES):
        return None
    return of_kernels(scene, mine & _is_eligible(scene)[launchers(scene)])


def _is_eligible(scene: Scene) -> Array:
    # The mask is true for calls of eligible operators. The last element is false, because -1 means no
    # node.
    from nsysconv.timeline.operator_calls import eligible_names, node_of_ops

    calls = operator_calls_of(scene)
    node = node_of_ops(scene.timeline, calls, calls.rows)
    could = eligible_names(scene.timeline, calls, calls.rows, node)
    return np.append(could[calls.spans.name], False)


def _run_without(scene: Scene) -> Array:
    # The mask is true for kernels that could use Tensor Cores and do not.
    category, words = categories(scene.timeline)
    products = [number for number, word in enumerate(words) if word in _PRODUCTS]
    mine = (tensor_core_use(scene.timeline) == NO) & np.isin(category, products)
    if not mine.any():
        return np.zeros(len(scene.ops), bool)
    ops = scene.ops
    is_kernel = ops.kind == OpKind.KERNEL
    without = is_kernel & np.append(mine, False)[np.where(is_kernel, ops.row, -1)]
    return np.asarray(without & ~kernels_named(scene, _NO_CANDIDATE.search))


@cached_in("measured")
def fp32_matmul(scene: Scene) -> Found | None:
    """Measure products and convolutions in single precision on a GPU with TF32, where none uses that."""
    measured = of_kernels(scene, kernels_named(scene, _is_single))
    if not scene.speaks("fp32_matmul", measured):
        return measured
    if kernels_named(scene, lambda name: TF32.search(name) and not HALF.search(name)).any():
        return None
    if measured is None or not _can(scene, _HAS_TF32):
        return None
    return replace(measured, details={**measured.details, "peaks": _peaks_of_float(scene)})


def _peaks_of_float(scene: Scene) -> str:
    # How much more TF32 could do than FP32, if both peaks are known: on GeForce RTX it is not more.
    rows = scene.timeline.profile.rows("device")
    row = next((each for each in rows if each["device_id"] == scene.device), None)
    peaks = device_peaks(row) if row else None
    both = peaks.flop_per_s if peaks else {}
    if not {"fp32", "tf32_tensor"} <= both.keys():
        return ""
    single, tf32 = (both[kind] / 1e12 for kind in ("fp32", "tf32_tensor"))
    return f" (peaks: FP32 {single:.4g}, TF32 {tf32:.4g} TFLOP/s)"


def _is_single(name: str) -> bool:
    # Each of them holds one of these words, which are found sooner.
    may_be = "sgemm" in name or "scudnn" in name or "ffma" in name
    return may_be and bool(_SINGLE.search(name)) and not HALF.search(name)


def matmul_alignment(scene: Scene) -> Found | None:
    """Measure products of half and bfloat16 whose inner or last size is no multiple of 8."""
    if not (_has_operators(scene) and has_named(scene, frozenset(_MATMULS))):
        return None
    if Fact.INPUT_TYPES not in scene.timeline.profile.facts:
        raise NotRecorded("findings", [_OF_INPUTS])
    calls = operator_calls_of(scene)
    node = launchers(scene)
    launched = (node >= 0) & (scene.ops.kind == OpKind.KERNEL)
    launched[launched] = calls.named(frozenset(_MATMULS))[node[launched]]
    nodes = distinct(node[launched])
    if not len(nodes):
        return None
    inputs = _inputs(scene, calls, nodes)
    if not any(each.types and each.shapes for each in inputs):
        raise NotRecorded("findings", [_OF_INPUTS])
    uneven = [i for i, each in zip(nodes.tolist(), inputs, strict=True) if each.is_uneven]
    return of_kernels(scene, launched & np.isin(node, uneven))


class _Inputs(NamedTuple):
    # These are the inputs of a call of a product. Shapes and types are JSON lists, empty if not
    # recorded, and `first` is the place of the left operand in them.
    first: int
    shapes: str
    types: str

    @property
    def is_uneven(self) -> bool:
        try:
            types, shapes = json.loads(self.types), json.loads(self.shapes)
            left, right = shapes[self.first : self.first + 2]
            return types[self.first] in _HALVES and any(
                size % _MULTIPLE for size in (left[-1], right[-1])
            )
        except (ValueError, TypeError, IndexError):
            return False


def _inputs(scene: Scene, calls: OperatorCalls, nodes: Array) -> list[_Inputs]:
    # A row has types, but a node has no row. The types are found by rows with such names that begin as
    # the nodes do.
    from nsysconv.timeline.operator_calls import input_shapes

    run = operators(scene.timeline)
    run = run.take(which_named(run, lambda name: name.partition(".")[0] in _MATMULS))
    ids = take(scene.timeline.profile.columns("operator", ("types_id",))["types_id"], run.row)
    texts = scene.timeline.profile.names(distinct(ids[ids != MISSING]))
    types = dict(zip(_places(run), ids.tolist(), strict=True))
    spans = calls.spans.take(nodes)
    number, shape_texts = input_shapes(scene.timeline, calls.asked)
    return [
        _Inputs(
            _MATMULS[spans.names[name]],
            "" if shapes == MISSING else shape_texts[shapes],
            texts.get(types.get(place, MISSING), ""),
        )
        for name, shapes, place in zip(
            spans.name.tolist(), number[nodes].tolist(), _places(spans), strict=True
        )
    ]


def _places(spans: Spans) -> list[tuple[int, int, int]]:
    columns = (spans.pid.tolist(), spans.tid.tolist(), spans.start.tolist())
    return list(zip(*columns, strict=True))


def of_kernels(scene: Scene, mine: Array) -> Found | None:
    """Return the time of these kernels, a mask of `ops`; the value is its share of all, in per cent."""
    if not mine.any():
        return None
    ops, dur = scene.ops, scene.ops.dur
    whole, own = int(dur.sum(where=ops.kind == OpKind.KERNEL)), dur[mine]
    if not whole:
        return None
    ids = scene.timeline.profile.columns("kernel", ("name_id",))["name_id"][ops.row[mine]]
    place, (names,) = factorize(ids)
    top = int(names[sums(place, own, len(names)).argmax()])
    name = scene.timeline.profile.names(np.array([top])).get(top, "")
    details = {
        "name": shorten_kernel(name, _NAME),
        "count": counted(len(own), "launch", "launches"),
    }
    time = scene.span.measure(ops.start, ops.end, mine)
    event = scene.longest_op(mine)
    when = partial(clipped, ops.start, ops.end, scene.span, mine)
    share = 100 * int(own.sum()) / whole
    return Found(share, time, details, event=event, when=when, names=NAMES_CALL)


def kernels_named(scene: Scene, fits: Callable[[str], object]) -> Array:
    """Return which operations are kernels whose name fits, as a mask."""
    place, names = kernel_names(scene.timeline)
    fitting = np.array([name is not None and bool(fits(name)) for name in names], bool)
    ops = scene.ops
    result = np.zeros(len(ops), bool)
    if fitting.any():
        kernels = np.flatnonzero(ops.kind == OpKind.KERNEL)
        result[kernels] = fitting.take(place.take(ops.row[kernels]))
    return result


def _can(scene: Scene, wanted: int) -> bool:
    # The result says whether the device has this compute capability (times 10). If it is not known,
    # this raises NotRecorded.
    known = compute_capability(scene.timeline, scene.device)
    if known is not None:
        return 10 * known[0] + known[1] >= wanted
    if not kernels_named(scene, lambda name: _least_capability(name) >= wanted).any():
        raise NotRecorded("findings", ["the GPU's compute capability"])
    return True


def _least_capability(name: str) -> int:
    found = _MADE_FOR.search(name)
    if found is None:
        return 0
    return _GENERATIONS[found[1]] if found[1] else int(found[2])


# -- waits

_READS = frozenset(
    (
        "aten::item",
        "aten::_local_scalar_dense",
        "aten::nonzero",
        "aten::is_nonzero",
        "aten::equal",
    )
)
_COPIES = frozenset(("aten::to",))
_DTOH = DIRECTIONS.index("DtoH")


@cached_in("measured")
def host_sync(scene: Scene) -> Found | None:
    """Measure the gaps that began while an operator waited for a value that the host reads."""
    if not (_has_operators(scene) and has_named(scene, _READS | _COPIES)):
        return None
    waits = scene.calls_named(called(*WAITS, "blocking_copy"))
    if scene.gaps is None or not len(waits):
        return None
    most = gaps_after(scene, waits).time
    # The finding cannot exceed all waits. The search for the calling operators takes longest, so it
    # comes after this check.
    if not scene.speaks("host_sync", at_most := Found(scene.of_span(most), most)):
        return at_most
    calls = operator_calls_of(scene)
    reads = calls.named(_READS) | (calls.named(_COPIES) & _copies_back(scene, calls))
    reader = _outermost(calls, calls.node_of_call[waits], reads)
    waits, reader = waits[reader >= 0], reader[reader >= 0]
    after = gaps_after(scene, waits)
    names = Counter(calls.spans.names[i] for i in calls.spans.name[reader].tolist())
    details = {
        "count": counted(after.outlasting, "gap", "gaps"),
        "operators": ", ".join(name for name, _ in names.most_common(2)),
    }
    where = gap_at(scene, scene.gaps, after.costliest)
    when, share = partial(after_waits, scene, waits), scene.of_span(after.time)
    return Found(share, after.time, details, when=when, names=NAMES_VALUE, **where)


def _copies_back(scene: Scene, calls: OperatorCalls) -> Array:
    # The mask is true for nodes that hold a copy to the host.
    copies = scene.ops.kind == OpKind.MEMCPY
    direction = scene.timeline.profile.columns("memcpy", ("direction",))["direction"]
    copies[copies] = direction[scene.ops.row[copies]] == _DTOH
    here = distinct(launchers(scene)[copies])
    result = np.zeros(len(calls.parent), bool)
    while len(here := here[here >= 0]):
        result[here] = True
        here = distinct(calls.parent[here])
    return result


def _outermost(calls: OperatorCalls, nodes: Array, wanted: Array) -> Array:
    # The result is, per node, the outermost wanted node that is the node itself or encloses it, or -1.
    result = np.full(len(nodes), -1)
    here = nodes
    while (inside := here >= 0).any():
        result = np.where(inside & wanted[here], here, result)
        here = np.where(inside, calls.parent[here], -1)
    return result


# -- the program's own calls: what they launched

_STEP = re.compile(
    r"Optimizer\.step#(?:Adadelta|Adafactor|Adagrad|Adam|AdamW|Adamax|ASGD|NAdam|RAdam|RMSprop|Rprop|SGD)"
    r"\.step(?:,|$)"
)
_ZERO_GRAD = re.compile(r"Optimizer\.zero_grad#")
_AT_ONCE = re.compile(r"multi_tensor_apply|fused", re.IGNORECASE)


def optimizer_single_tensor(scene: Scene) -> Found | None:
    """Measure the steps of PyTorch's optimisers that launch kernels for each tensor of its own."""
    if not _has_operators(scene):
        return None
    spans = _program_calls(scene, _STEP)
    if spans is None:
        return None
    group = launched_in(scene, spans)
    at_once = group[(group >= 0) & kernels_named(scene, _AT_ONCE.search)]
    group = np.where(np.isin(group, at_once), -1, group)
    of_kernels = group[(group >= 0) & (scene.ops.kind == OpKind.KERNEL)]
    kernels = counts(of_kernels, len(spans))
    step_count = int(np.count_nonzero(kernels))
    if not step_count:
        return Found(0.0, 0)
    details = {
        "steps": counted(step_count, "step", "steps"),
        "optimizer": spans.names[int(spans.name[of_kernels[0]])].split("#")[1].split(".")[0],
    }
    when = partial(_from_first_to_last, scene, group)
    return Found(
        int(kernels.sum()) / step_count, when().measure, details, when=when, names=NAMES_CALL
    )


def zero_grad(scene: Scene) -> Found | None:
    """Measure what setting gradients to zero launches."""
    if not _has_operators(scene):
        return None
    spans = _program_calls(scene, _ZERO_GRAD)
    if spans is None:
        return None
    group = launched_in(scene, spans)
    ops = counts(group[group >= 0], len(spans))
    when = partial(_from_first_to_last, scene, group)
    time = when().measure
    details = {
        "calls": counted(int(np.count_nonzero(ops)), "call", "calls"),
        "count": counted(int(ops.sum()), "kernel or memset", "kernels and memsets"),
    }
    return Found(scene.of_span(time), time, details, when=when, names=NAMES_CALL)


def _program_calls(scene: Scene, pattern: re.Pattern[str]) -> Spans | None:
    # The result is the ranges, or else the operators, with such a name in processes of the device, or
    # None.
    pids = scene.timeline.pids_on(scene.device)
    for spans in (ranges(scene.timeline), operators(scene.timeline)):
        if any(map(pattern.match, spans.names)):
            mine = spans.take(which_named(spans, pattern.match) & np.isin(spans.pid, pids))
            if len(mine):
                return mine
    return None


def launched_in(scene: Scene, spans: Spans) -> Array:
    """Return, per operation, the last of these spans in which its thread launched it, or -1."""
    calls, owner = scene.timeline.calls, scene.owner
    linked = np.flatnonzero(owner >= 0)
    call = owner[linked]
    began, thread = take(calls.start, call), take(calls.thread, call)
    own, threads = number_threads(spans.pid, spans.tid)
    result = np.full(len(owner), -1)
    for key, mine in zip(threads, by_group(own, len(threads)), strict=True):
        if key not in calls.threads:
            continue
        here = np.flatnonzero(thread == calls.threads.index(key))
        mine = mine[np.argsort(spans.start[mine], kind="stable")]
        place = np.searchsorted(spans.start[mine], began[here], side="right") - 1
        inside = (place >= 0) & (began[here] < spans.end[mine][place])
        result[linked[here[inside]]] = mine[place[inside]]
    return result


def _from_first_to_last(scene: Scene, group: Array) -> Union:
    # The time reaches from the first to the last operation of each group, without what other operations
    # cover.
    ops = scene.ops
    mine = np.flatnonzero(group >= 0)
    place, (groups,) = factorize(group[mine])
    first = np.full(len(groups), np.iinfo(np.int64).max)
    last = np.full(len(groups), np.iinfo(np.int64).min)
    np.minimum.at(first, place, ops.start[mine])
    np.maximum.at(last, place, ops.end[mine])
    others = union(ops.start, ops.end, group < 0)
    return remaining(union(first, last), others, scene.span)


# -- operators


@cached_in("measured")
def _has_operators(scene: Scene) -> bool:
    # Raises where the program shows signs of PyTorch, and its operators were not recorded.
    if records_operators(scene):
        return True
    if "pytorch" in frameworks(scene.timeline):
        raise NotRecorded("findings", [Fact.OPERATORS])
    return False


def records_operators(scene: Scene) -> bool:
    """Return whether operators were recorded; `operator_calls_of` is to be asked where they were."""
    from nsysconv.timeline.operator_calls import may_have_operators

    return may_have_operators(scene.timeline)


def has_named(scene: Scene, names: frozenset[str]) -> bool:
    """Return whether there are operators of these names, which is sooner known than what lies in them."""
    both = ranges(scene.timeline), operators(scene.timeline)
    return any(map(is_named(names), (name for spans in both for name in spans.names)))


def is_named(names: frozenset[str]) -> Callable[[str], bool]:
    """Return what says whether a range or an operator is an operator of one of these names."""

    def is_one(name: str) -> bool:
        # Most names hold none of them, which is sooner seen.
        holds = any(each in name for each in names)
        return holds and split_name(name).name.partition(".")[0] in names

    return is_one


def operator_calls_of(scene: Scene) -> OperatorCalls:
    """Return the tree of operators; to be asked where names do not rule a finding out."""
    from nsysconv.timeline.operator_calls import operator_calls

    return operator_calls(scene.timeline)


@cached_in("measured")
def launchers(scene: Scene) -> Array:
    """Return per operation the node of the innermost operator that launched it, -1 for none."""
    from nsysconv.timeline.operator_calls import node_of_ops

    calls = operator_calls_of(scene)
    return scene.of_ops(node_of_ops(scene.timeline, calls, calls.rows))
