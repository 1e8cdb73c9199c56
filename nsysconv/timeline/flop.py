"""Floating-point operations of operators, from the shapes of their inputs (docs/definitions.md)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array, factorize
from nsysconv.timeline.operator_calls import CALLED, OperatorCalls, added_up
from nsysconv.timeline.timeline import Timeline

Shapes = Sequence[Sequence[int]]
Values = Sequence[Any]
_CACHED = 1 << 16
MOST_FLOP = 1 << 53
"""No call does more: weeks of work of the fastest GPU, and what a double holds exactly."""


def flop_of_calls(timeline: Timeline, calls: OperatorCalls) -> Array:
    """Return per node its floating-point operations, MISSING where there is no formula, or no shapes.

    Of calls inside each other only the innermost have some: `aten::linear` and `aten::matmul` call what
    does the work.
    """
    spans = calls.spans
    known = np.flatnonzero(calls.kept & (spans.kind == CALLED) & (calls.shapes != MISSING))
    values = calls.column(timeline, "arguments_id")[known]
    place, (names, shapes, arguments) = factorize(spans.name[known], calls.shapes[known], values)
    texts = timeline.profile.names(arguments[arguments != MISSING])
    found = [
        flop(spans.names[name], calls.shape_texts[shape], texts.get(values, "[]"))
        for name, shape, values in zip(
            names.tolist(), shapes.tolist(), arguments.tolist(), strict=True
        )
    ]
    result = np.full(len(spans), MISSING)
    result[known] = np.array([MISSING if each is None else each for each in found], np.int64)[place]
    has_some = (result != MISSING).astype(np.int64)
    around = added_up(calls.parent, has_some, calls.rows) - has_some
    result[around > 0] = MISSING
    return result


@lru_cache(_CACHED)
def flop(name: str, shapes: str, values: str = "[]") -> int | None:
    """Return the floating-point operations of one call; None where there is no formula for it.

    `shapes` and `values` are those of its inputs, as JSON.
    """
    formula = _FORMULAS.get(name)
    if formula is None:
        return None
    try:
        sizes = json.loads(shapes)
        count = formula(sizes, json.loads(values)) if _are_shapes(sizes) else None
    except (ValueError, IndexError, TypeError, ZeroDivisionError):
        return None
    return count if count is not None and count <= MOST_FLOP else None


def _are_shapes(sizes: Any) -> bool:
    return isinstance(sizes, list) and all(
        isinstance(shape, list) and all(map(_is_size, shape)) for shape in sizes
    )


def _is_size(size: Any) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size >= 0


def _matmul(shapes: Shapes, _: Values, *, first: int) -> int:
    # (…, M, K) by (K, N) or (…, K, N); `first` is the place of the first of the two.
    (*batch, rows, inner), (*_, other, columns) = shapes[first], shapes[first + 1]
    if inner != other:
        raise ValueError(shapes)
    return 2 * prod(batch) * rows * inner * columns


def _elements(shapes: Shapes, _: Values) -> int:
    return prod(shapes[0])


def _convolution(
    shapes: Shapes,
    values: Values,
    *,
    stride: int,
    padding: int,
    dilation: int,
    groups: int,
    transposed: int | None = None,
) -> int:
    # The places of the arguments; where these are not recorded there is no formula.
    (batch, channels, *size), (out, inner, *kernel) = shapes[0], shapes[1]
    count = len(size)
    group = _whole(values[groups])
    if transposed is not None and values[transposed]:
        return 2 * batch * prod(size) * channels * inner * prod(kernel)
    steps, pads, holes = (_each(values[i], count) for i in (stride, padding, dilation))
    results = [
        (i + 2 * pad - hole * (k - 1) - 1) // step + 1
        for i, k, step, pad, hole in zip(size, kernel, steps, pads, holes, strict=True)
    ]
    return 2 * batch * out * prod(results) * (channels // group) * prod(kernel)


def _convolution_backward(shapes: Shapes, values: Values) -> int:
    # Gradients of input and weight, each as much as the forward: every output with every weight.
    (batch, out, *results), (_, channels, *size), (_, inner, *kernel) = shapes[:3]
    transposed, group, mask = values[7], _whole(values[9]), values[10]
    if transposed:
        once = 2 * batch * prod(size) * channels * inner * prod(kernel)
    else:
        once = 2 * batch * out * prod(results) * (channels // group) * prod(kernel)
    wanted = [True, True] if mask is None else mask[:2]
    return once * sum(map(bool, wanted))


def _attention(shapes: Shapes, values: Values, *, causal: int) -> int:
    pairs, depth, depth_of_values = _attended(shapes[:3], values[causal])
    return 2 * pairs * (depth + depth_of_values)


def _attention_backward(shapes: Shapes, values: Values) -> int:
    # Five products: that of queries and keys is computed anew.
    pairs, depth, depth_of_values = _attended(shapes[1:4], values[11])
    return 2 * pairs * (3 * depth + 2 * depth_of_values)


def _attended(shapes: Shapes, causal: Any) -> tuple[int, int, int]:
    # Pairs of a query and a key, and the sizes of keys and values; (batch, heads, length, size) each.
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


_FORMULAS: dict[str, Callable[[Shapes, Values], int]] = {
    "aten::mm": partial(_matmul, first=0),
    "aten::addmm": partial(_matmul, first=1),
    "aten::bmm": partial(_matmul, first=0),
    "aten::baddbmm": partial(_matmul, first=1),
    "aten::_scaled_mm": partial(_matmul, first=0),
    "aten::add": _elements,
    "aten::mul": _elements,
    "aten::conv2d": partial(_convolution, stride=3, padding=4, dilation=5, groups=6),
    **dict.fromkeys(
        ("aten::convolution", "aten::_convolution"),
        partial(_convolution, stride=3, padding=4, dilation=5, groups=8, transposed=6),
    ),
    "aten::cudnn_convolution": partial(_convolution, stride=3, padding=2, dilation=4, groups=5),
    "aten::miopen_convolution": partial(_convolution, stride=4, padding=3, dilation=5, groups=6),
    "aten::convolution_backward": _convolution_backward,
    "aten::_scaled_dot_product_flash_attention": partial(_attention, causal=4),
    "aten::_scaled_dot_product_efficient_attention": partial(_attention, causal=6),
    "aten::_scaled_dot_product_cudnn_attention": partial(_attention, causal=6),
    "aten::_scaled_dot_product_flash_attention_backward": _attention_backward,
    "aten::_scaled_dot_product_efficient_attention_backward": _attention_backward,
}
"""The formulas of docs/definitions.md, by operator."""
