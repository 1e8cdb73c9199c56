"""Floating-point operations, each formula by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nsysconv.timeline.flop import flop

IMAGE, WEIGHT = [2, 4, 8, 8], [6, 4, 3, 3]
# 8 + 2·1 − 3 + 1 = 8 outputs a side; with a stride of 2: ⌊(8 + 2 − 3)/2⌋ + 1 = 4; in two groups half.
ONCE = 2 * 2 * 6 * 8 * 8 * 4 * 3 * 3
QUERY, KEY, VALUE = [2, 3, 10, 16], [2, 3, 10, 16], [2, 3, 10, 8]
PAIRS = 2 * 3 * 10 * 10

CASES: dict[str, tuple[str, list[Any], list[Any], int | None]] = {
    "mm": ("aten::mm", [[2, 3], [3, 5]], [], 2 * 2 * 3 * 5),
    "addmm": ("aten::addmm", [[5], [2, 3], [3, 5]], [], 2 * 2 * 3 * 5),
    "bmm": ("aten::bmm", [[7, 2, 3], [7, 3, 5]], [], 7 * 2 * 2 * 3 * 5),
    "baddbmm": ("aten::baddbmm", [[7, 2, 5], [7, 2, 3], [7, 3, 5]], [], 7 * 2 * 2 * 3 * 5),
    "_scaled_mm": ("aten::_scaled_mm", [[2, 3], [3, 5], [], []], [], 2 * 2 * 3 * 5),
    "add": ("aten::add", [[2, 3], [3]], [], 6),
    "add of numbers": ("aten::add", [[], []], [], 1),
    "convolution": ("aten::convolution", [IMAGE, WEIGHT, [6]],
                    [None, None, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1], ONCE),
    "convolution with a stride": ("aten::convolution", [IMAGE, WEIGHT, [6]],
                                  [None, None, None, [2], [1], [1], False, [0], 1], ONCE // 4),
    "convolution in groups": ("aten::convolution", [IMAGE, [6, 2, 3, 3], [6]],
                              [None, None, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 2], ONCE // 2),
    "transposed convolution": ("aten::convolution", [IMAGE, [4, 6, 3, 3], [6]],
                               [None, None, None, [1, 1], [1, 1], [1, 1], True, [0, 0], 1],
                               2 * 2 * 8 * 8 * 4 * 6 * 9),
    "conv2d": ("aten::conv2d", [IMAGE, WEIGHT, [6]], [None, None, None, [1, 1], [1, 1], [1, 1], 1], ONCE),
    "cudnn_convolution": ("aten::cudnn_convolution", [IMAGE, WEIGHT],
                          [None, None, [1, 1], [2, 2], [1, 1], 1], ONCE // 4),
    "miopen_convolution": ("aten::miopen_convolution", [IMAGE, WEIGHT, []],
                           [None, None, None, [1, 1], [2, 2], [1, 1], 1], ONCE // 4),
    "backward of both": ("aten::convolution_backward", [[2, 6, 8, 8], IMAGE, WEIGHT],
                         [None, None, None, [6], [1, 1], [1, 1], [1, 1], False, [0, 0], 1,
                          [True, True, False]], 2 * ONCE),
    "backward of the weight": ("aten::convolution_backward", [[2, 6, 8, 8], IMAGE, WEIGHT],
                               [None, None, None, [6], [1, 1], [1, 1], [1, 1], False, [0, 0], 1,
                                [False, True, True]], ONCE),
    "attention": ("aten::_scaled_dot_product_flash_attention", [QUERY, KEY, VALUE],
                  [None, None, None, 0.0, False], 2 * PAIRS * (16 + 8)),
    "causal attention": ("aten::_scaled_dot_product_efficient_attention", [QUERY, KEY, VALUE],
                         [None, None, None, None, True, 0.0, True], PAIRS * (16 + 8)),
    "backward of attention": ("aten::_scaled_dot_product_flash_attention_backward",
                              [VALUE, QUERY, KEY, VALUE], [None] * 11 + [False],
                              2 * PAIRS * (3 * 16 + 2 * 8)),
    "sizes below zero": ("aten::mm", [[-4, 5], [5, 6]], [], None),
    "a size that is no number": ("aten::mm", [[True, 5], [5, 6]], [], None),
    "sizes beyond any GPU": ("aten::mm", [[1 << 21, 1 << 21], [1 << 21, 1 << 21]], [], None),
    "a padding below zero": ("aten::conv2d", [IMAGE, WEIGHT, [6]],
                             [None, None, None, [1, 1], [-99, 0], [1, 1], 1], None),
    "shapes that do not fit": ("aten::mm", [[2, 3], [4, 5]], [], None),
    "no shapes": ("aten::mm", [], [], None),
    "no values": ("aten::convolution", [IMAGE, WEIGHT, [6]], [], None),
    "a padding that is a word": ("aten::conv2d", [IMAGE, WEIGHT, [6]],
                                 [None, None, None, [1, 1], None, [1, 1], 1], None),
    "no formula": ("aten::relu", [[2, 3]], [], None),
}  # fmt: skip


@pytest.mark.parametrize("what", CASES)
def test_floating_point_operations(what: str) -> None:
    name, shapes, values, expected = CASES[what]
    assert flop(name, json.dumps(shapes), json.dumps(values)) == expected


@pytest.mark.parametrize(
    "shapes", ["", "[[2, 3]", "{}", "3", "[[[2], [3]], [[4]]]", '[["a", 3], [3, 4]]'])  # fmt: skip
def test_what_is_no_shapes_has_none(shapes: str) -> None:
    assert flop("aten::mm", shapes) is None
