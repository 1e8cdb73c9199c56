"""Floating-point operations of operators and the bytes of their operands (docs/definitions).

Both come from the shapes, types and values of inputs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array, counts, factorize
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.intervals import grouped_measure
from nsysconv.timeline.kernel_categories import categories
from nsysconv.timeline.operator_calls import (
    CALLED,
    OperatorCalls,
    input_shapes,
    node_of_ops,
)
from nsysconv.timeline.timeline import Timeline

Shapes = Sequence[Sequence[int]]
Values = Sequence[Any]
Operands = list[tuple[int, int]]
"""For each operand: the place of the input whose type it has, and its elements."""
_CACHED = 1 << 16
MOST_FLOP = 1 << 53
"""No call does more, nor has as many bytes: weeks of work of the fastest GPU, and what a double holds."""
_UNKNOWN = "[]"


def flop_of_calls(timeline: Timeline, calls: OperatorCalls) -> Array:
    """Return per node its floating-point operations, MISSING where there is no formula, or no shapes.

    Of calls inside each other only the innermost have some: `aten::linear` and `aten::matmul` call what
    does the work.
    """
    has_shapes = input_shapes(timeline, calls.asked)[0] != MISSING
    result = _of_calls(timeline, calls, calls.kept & has_shapes, flop)
    has_some = (result != MISSING).astype(np.int64)
    around = calls.with_nested(has_some) - has_some
    result[around > 0] = MISSING
    return result


def operand_bytes_of_calls(timeline: Timeline, calls: OperatorCalls, which: Array) -> Array:
    """Return the bytes of the operands of the nodes of a mask, MISSING where they are not known."""
    return _of_calls(timeline, calls, which, operand_bytes)


def _of_calls(
    timeline: Timeline,
    calls: OperatorCalls,
    which: Array,
    formula: Callable[[str, str, str, str], int | None],
) -> Array:
    # Each formula is evaluated once for all calls with the same inputs.
    spans, (shapes, shape_texts) = calls.spans, input_shapes(timeline, calls.asked)
    known = np.flatnonzero(which & (spans.kind == CALLED))
    ids = [calls.column(timeline, name)[known] for name in ("arguments_id", "types_id")]
    place, keys = factorize(spans.name[known], shapes[known], *ids)
    both = np.concatenate(keys[2:])
    texts = timeline.profile.names(both[both != MISSING])
    found = [
        formula(
            spans.names[name],
            shape_texts[shape],
            texts.get(values, _UNKNOWN),
            texts.get(types, _UNKNOWN),
        )
        for name, shape, values, types in zip(*(key.tolist() for key in keys), strict=True)
    ]
    result = np.full(len(spans), MISSING)
    result[known] = np.array([MISSING if each is None else each for each in found], np.int64)[place]
    return result


def time_of_calls(timeline: Timeline, calls: OperatorCalls, flop: Array) -> Array:
    """Return the time on the GPU of each node that has operations: the union of what was launched in it
    and inside. 0 where there is none, or it was on several devices.
    """
    ops = timeline.ops
    held = calls.rows[timeline.holds(calls.spans)[calls.rows]]
    doing = np.append(calls.innermost(flop != MISSING), -1)[node_of_ops(timeline, calls, held)]
    mine = np.flatnonzero((doing >= 0) & ops.timed)
    mine = mine[np.lexsort((ops.start[mine], doing[mine]))]
    spent = grouped_measure(ops.start[mine], ops.end[mine], doing[mine], len(flop))
    _, (node, _) = factorize(doing[mine], ops.device[mine])
    spent[counts(node, len(flop)) > 1] = 0
    return spent


def uncounted(timeline: Timeline, calls: OperatorCalls, flop: Array) -> tuple[Array, Array]:
    """Return the kernels that do such work as has formulas, and which of them no formula counts.

    The first are GPU operations by index, matrix products, convolutions and attention by their names; the
    second is a mask of these: no call with operations launched them.
    """
    category, names = categories(timeline)
    wanted = [number for number, name in enumerate(names) if name in _COUNTED]
    ops = timeline.ops
    kernels = np.flatnonzero(ops.kind == OpKind.KERNEL)
    kernels = kernels[np.isin(category[ops.row[kernels]], wanted)]
    node = node_of_ops(timeline, calls, calls.rows)[kernels]
    without: Array = np.append(calls.innermost(flop != MISSING), -1)[node] < 0
    return kernels, without


@lru_cache(_CACHED)
def flop(name: str, shapes: str, values: str = _UNKNOWN, types: str = _UNKNOWN) -> int | None:
    """Return the floating-point operations of one call; None where there is no formula for it.

    `shapes`, `values` and `types` are those of its inputs, as JSON.
    """
    formula = _FORMULAS.get(name)
    if formula is None:
        return None
    try:
        sizes = json.loads(shapes)
        count = formula(sizes, json.loads(values)) if _are_shapes(sizes) else None
    except _NO_INPUTS:
        return None
    if count is not None and name == _SCALED_MM and _TWO_IN_ONE in types:
        count *= 2  # the inner size is in bytes, of two values each
    return count if count is not None and count <= MOST_FLOP else None


@lru_cache(_CACHED)
def operand_bytes(name: str, shapes: str, values: str, types: str) -> int | None:
    """Return the bytes of the inputs and outputs of one call, each once; None where it is not known.

    Inputs have their own types; outputs, whose types are not recorded, have that of an input.
    """
    formula = _OPERANDS.get(name)
    if formula is None:
        return None
    try:
        sizes, kinds = json.loads(shapes), json.loads(types)
        operands = formula(sizes, json.loads(values)) if _are_shapes(sizes) else []
        total = sum(elements * _TYPE_BYTES[kinds[place]] for place, elements in operands)
    except _NO_INPUTS:
        return None
    return total if operands and total <= MOST_FLOP else None


_COUNTED = frozenset(("gemm", "convolution", "attention"))
# Formulas raise these for inputs that do not fit them.
_NO_INPUTS = (ValueError, LookupError, TypeError, ZeroDivisionError)


def _are_shapes(sizes: Any) -> bool:
    return isinstance(sizes, list) and all(
        isinstance(shape, list) and all(map(_is_size, shape)) for shape in sizes
    )


def _is_size(size: Any) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size >= 0


def _matmul(shapes: Shapes, _: Values, *, first: int) -> int:
    # The shapes are (…, M, K) and (K, N) or (…, K, N); `first` is the place of the first of the two.
    (*batch, rows, inner), (*_, other, columns) = shapes[first], shapes[first + 1]
    if inner != other:
        raise ValueError(shapes)
    return 2 * prod(batch) * rows * inner * columns


def _matmul_operands(shapes: Shapes, _: Values, *, first: int) -> Operands:
    left, right = shapes[first], shapes[first + 1]
    inputs = [(place, prod(shapes[place])) for place in range(first + 2)]
    return [*inputs, (first, prod(left[:-1]) * right[-1])]


def _elements(shapes: Shapes, _: Values) -> int:
    return prod(shapes[0])


def _elementwise_operands(shapes: Shapes, _: Values) -> Operands:
    first, second = shapes[:2]
    result = np.broadcast_shapes(tuple(first), tuple(second))
    return [(0, prod(first)), (1, prod(second)), (0, prod(result))]


@dataclass(frozen=True)
class _Convolution:
    # These are the places of the arguments. If arguments are not recorded, there is no formula.
    stride: int
    padding: int
    dilation: int
    groups: int
    transposed: int | None = None
    output_padding: int | None = None
    bias: int | None = None

    def flop(self, shapes: Shapes, values: Values) -> int:
        """Return the operations of a forward convolution."""
        (batch, channels, *size), (_, inner, *kernel) = shapes[0], shapes[1]
        if self._is_transposed(values):
            return 2 * batch * prod(size) * channels * inner * prod(kernel)
        results = self._output(shapes, values)
        return 2 * prod(results) * (channels // _whole(values[self.groups])) * prod(kernel)

    def operands(self, shapes: Shapes, values: Values) -> Operands:
        """Return input, weight, bias if there is one, and output."""
        inputs = [(place, prod(shapes[place])) for place in (0, 1)]
        if self.bias is not None and shapes[self.bias]:
            inputs.append((self.bias, prod(shapes[self.bias])))
        return [*inputs, (0, prod(self._output(shapes, values)))]

    def _is_transposed(self, values: Values) -> bool:
        return self.transposed is not None and bool(values[self.transposed])

    def _output(self, shapes: Shapes, values: Values) -> list[int]:
        (batch, _, *size), (out, inner, *kernel) = shapes[0], shapes[1]
        count = len(size)
        group = _whole(values[self.groups])
        steps, pads, holes = (
            _each(values[i], count) for i in (self.stride, self.padding, self.dilation)
        )
        sides = zip(size, kernel, steps, pads, holes, strict=True)
        if self._is_transposed(values):
            assert self.output_padding is not None
            more = _each(values[self.output_padding], count)
            out = inner * group
            results = [
                (i - 1) * step - 2 * pad + hole * (k - 1) + 1 + extra
                for (i, k, step, pad, hole), extra in zip(sides, more, strict=True)
            ]
        else:
            results = [
                (i + 2 * pad - hole * (k - 1) - 1) // step + 1 for i, k, step, pad, hole in sides
            ]
        if min(results, default=0) < 0:
            raise ValueError(results)
        return [batch, out, *results]


def _convolution_backward(shapes: Shapes, values: Values) -> int:
    # The gradients of the input and of the weight each take as much as the forward: every output times
    # every weight.
    (batch, out, *results), (_, channels, *size), (_, inner, *kernel) = shapes[:3]
    transposed, group = values[7], _whole(values[9])
    if transposed:
        once = 2 * batch * prod(size) * channels * inner * prod(kernel)
    else:
        once = 2 * batch * out * prod(results) * (channels // group) * prod(kernel)
    return once * sum(_wanted(values)[:2])


def _convolution_backward_operands(shapes: Shapes, values: Values) -> Operands:
    # The input's gradient reads the weight and writes a result of the input's size. The weight's
    # gradient reads the input and writes a result of the weight's size.
    of_input, of_weight, of_bias = _wanted(values)
    gradient, *both = ((place, prod(shapes[place])) for place in range(3))
    return [gradient, *both * (of_input + of_weight), *[(0, shapes[0][1])] * of_bias]


def _wanted(values: Values) -> list[bool]:
    # The result says which gradients are computed: those of input, weight and bias.
    mask = values[10]
    wanted = [True, True, False] if mask is None else [bool(each) for each in mask]
    if len(wanted) != 3:
        raise ValueError(values)
    return wanted


def _attention(shapes: Shapes, values: Values, *, causal: int) -> int:
    pairs, depth, depth_of_values = _attended(shapes[:3], values[causal])
    return 2 * pairs * (depth + depth_of_values)


def _attention_backward(shapes: Shapes, values: Values) -> int:
    # The backward pass has five products, because it computes that of queries and keys again.
    pairs, depth, depth_of_values = _attended(shapes[1:4], values[11])
    return 2 * pairs * (3 * depth + 2 * depth_of_values)


def _attention_operands(shapes: Shapes, _: Values) -> Operands:
    inputs = [(place, prod(shapes[place])) for place in range(3)]
    return [*inputs, (0, _output_of_attention(shapes[:3]))]


def _attention_backward_operands(shapes: Shapes, _: Values) -> Operands:
    # The gradient of the output is read besides the inputs, and theirs are written.
    inputs = [(place, prod(shapes[place])) for place in (1, 2, 3)]
    return [*inputs, *inputs, (0, _output_of_attention(shapes[1:4]))]


def _output_of_attention(shapes: Shapes) -> int:
    (batch, heads, queries, _), _, (_, _, _, depth) = shapes
    return batch * heads * queries * depth


def _attended(shapes: Shapes, causal: Any) -> tuple[int, int, int]:
    # The result is the number of pairs of a query and a key, and the sizes of keys and values. Shapes
    # are (batch, heads, length, size).
    (batch, heads, queries, depth), (_, _, keys, _), (_, _, _, depth_of_values) = shapes
    pairs = batch * heads * queries * keys
    # A causal mask leaves half of them.
    return (pairs // 2 if causal is True and queries == keys else pairs), depth, depth_of_values


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(value)
    return value


def _each(value: Any, count: int) -> list[int]:
    # One number is for all dimensions.
    numbers = value if isinstance(value, list) else [value]
    if len(numbers) == 1:
        numbers = numbers * count
    if len(numbers) != count or not all(map(_is_size, numbers)):
        raise ValueError(value)
    return numbers


_SCALED_MM = "aten::_scaled_mm"
_TWO_IN_ONE = "Float4_e2m1fn_x2"
_CONVOLUTIONS = {
    "aten::conv2d": _Convolution(stride=3, padding=4, dilation=5, groups=6, bias=2),
    **dict.fromkeys(
        ("aten::convolution", "aten::_convolution"),
        _Convolution(
            stride=3, padding=4, dilation=5, groups=8, transposed=6, output_padding=7, bias=2
        ),
    ),
    "aten::cudnn_convolution": _Convolution(stride=3, padding=2, dilation=4, groups=5),
    "aten::miopen_convolution": _Convolution(stride=4, padding=3, dilation=5, groups=6, bias=2),
}
_FORMULAS: dict[str, Callable[[Shapes, Values], int]] = {
    "aten::mm": partial(_matmul, first=0),
    "aten::addmm": partial(_matmul, first=1),
    "aten::bmm": partial(_matmul, first=0),
    "aten::baddbmm": partial(_matmul, first=1),
    _SCALED_MM: partial(_matmul, first=0),
    "aten::add": _elements,
    "aten::mul": _elements,
    **{name: places.flop for name, places in _CONVOLUTIONS.items()},
    "aten::convolution_backward": _convolution_backward,
    "aten::_scaled_dot_product_flash_attention": partial(_attention, causal=4),
    "aten::_scaled_dot_product_efficient_attention": partial(_attention, causal=6),
    "aten::_scaled_dot_product_cudnn_attention": partial(_attention, causal=6),
    "aten::_scaled_dot_product_flash_attention_backward": _attention_backward,
    "aten::_scaled_dot_product_efficient_attention_backward": _attention_backward,
}
"""The formulas of docs/definitions, by operator."""
# Not those of _scaled_mm: the type of its output, another one than that of its inputs, is not recorded.
_OPERANDS: dict[str, Callable[[Shapes, Values], Operands]] = {
    "aten::mm": partial(_matmul_operands, first=0),
    "aten::addmm": partial(_matmul_operands, first=1),
    "aten::bmm": partial(_matmul_operands, first=0),
    "aten::baddbmm": partial(_matmul_operands, first=1),
    **dict.fromkeys(("aten::add", "aten::mul"), _elementwise_operands),
    **{name: places.operands for name, places in _CONVOLUTIONS.items()},
    "aten::convolution_backward": _convolution_backward_operands,
    **{
        name: _attention_backward_operands if name.endswith("_backward") else _attention_operands
        for name in _FORMULAS
        if "_attention" in name
    },
}
_TYPE_BYTES = {
    **dict.fromkeys(("double", "long", "long int", "c10::complex<float>"), 8),
    **dict.fromkeys(("float", "int", "c10::complex<c10::Half>"), 4),
    **dict.fromkeys(("c10::Half", "c10::BFloat16", "short", "short int"), 2),
    **dict.fromkeys(("unsigned char", "signed char", "bool"), 1),
    **dict.fromkeys(
        (f"c10::Float8_{form}" for form in ("e4m3fn", "e4m3fnuz", "e5m2", "e5m2fnuz")), 1
    ),
    "c10::complex<double>": 16,
    "Scalar": 0,
}
"""Bytes of an element by the type's name, as PyTorch records it; a number is no operand in memory."""
