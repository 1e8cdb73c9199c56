"""Floating-point operations, each formula by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nsysconv.timeline.flop import flop, operand_bytes

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
    "a size that is not a number": ("aten::mm", [[True, 5], [5, 6]], [], None),
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


def test_two_values_in_a_byte_double_the_inner_size() -> None:
    types = '["c10::Float4_e2m1fn_x2", "c10::Float4_e2m1fn_x2", "c10::Float8_e4m3fn"]'
    assert flop("aten::_scaled_mm", "[[2, 3], [3, 5], [1]]", "[]", types) == 2 * 2 * (2 * 3) * 5
    assert flop("aten::mm", "[[2, 3], [3, 5]]", "[]", types) == 2 * 2 * 3 * 5


HALF, FLOAT, LONG = "c10::Half", "float", "long int"
PADDED = [None, None, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1]
OUTPUT = 2 * 6 * 8 * 8  # with a padding of 1 as large as the input
BYTES: dict[str, tuple[str, list[Any], list[Any], list[str], int | None]] = {
    "mm": ("aten::mm", [[2, 3], [3, 5]], [], [HALF, HALF], 2 * (6 + 15 + 10)),
    "factors of two types": ("aten::mm", [[2, 3], [3, 5]], [], [FLOAT, HALF], 4 * 6 + 2 * 15 + 4 * 10),
    "addmm": ("aten::addmm", [[8], [4, 16], [16, 8], [], []], [],
              [HALF, HALF, HALF, "Scalar", "Scalar"], 464),
    "bmm": ("aten::bmm", [[7, 2, 3], [7, 3, 5]], [], [FLOAT, FLOAT], 4 * 7 * (6 + 15 + 10)),
    "baddbmm": ("aten::baddbmm", [[7, 2, 5], [7, 2, 3], [7, 3, 5]], [], [LONG, HALF, HALF],
                8 * 70 + 2 * 7 * (6 + 15 + 10)),
    "convolution": ("aten::convolution", [IMAGE, WEIGHT, [6]], PADDED, [HALF, HALF, HALF], 2 * 1502),
    "convolution without a bias": ("aten::convolution", [IMAGE, WEIGHT, []], PADDED, [HALF, HALF, ""],
                                   2 * 1496),
    "cudnn_convolution": ("aten::cudnn_convolution", [IMAGE, WEIGHT],
                          [None, None, [1, 1], [2, 2], [1, 1], 1], [HALF, HALF],
                          2 * (512 + 216 + OUTPUT // 4)),
    "transposed convolution": (  # (8 − 1)·2 − 2·1 + 2 + 1 + 1 = 16 a side, 6 channels in each of 2 groups
        "aten::convolution", [IMAGE, [4, 6, 3, 3], []],
        [None, None, None, [2, 2], [1, 1], [1, 1], True, [1, 1], 2], [HALF, HALF, ""],
        2 * (512 + 216 + 2 * 12 * 16 * 16)),
    "backward of all": ("aten::convolution_backward", [[2, 6, 8, 8], IMAGE, WEIGHT],
                        [None, None, None, [6], [1, 1], [1, 1], [1, 1], False, [0, 0], 1,
                         [True, True, True]], [HALF] * 3, 2 * (OUTPUT + 2 * 512 + 2 * 216 + 6)),
    "backward of the weight": ("aten::convolution_backward", [[2, 6, 8, 8], IMAGE, WEIGHT],
                               [None, None, None, [6], [1, 1], [1, 1], [1, 1], False, [0, 0], 1,
                                [False, True, False]], [HALF] * 3, 2 * (OUTPUT + 512 + 216)),
    "attention": ("aten::_scaled_dot_product_flash_attention", [QUERY, KEY, VALUE],
                  [None, None, None, 0.0, True], [HALF] * 3, 2 * 2880),
    "backward of attention": ("aten::_scaled_dot_product_flash_attention_backward",
                              [VALUE, QUERY, KEY, VALUE], [], [HALF] * 4,
                              2 * (2 * (960 + 960 + 480) + 480)),
    "add": ("aten::add", [[4, 1], [3], []], [], [FLOAT, HALF, "Scalar"], 4 * 4 + 2 * 3 + 4 * 12),
    "add of a number": ("aten::add", [[4], []], [], [FLOAT, "Scalar"], 4 * 4 + 4 * 4),
    "shapes that do not broadcast": ("aten::add", [[4], [3]], [], [FLOAT, FLOAT], None),
    "no types": ("aten::mm", [[2, 3], [3, 5]], [], [], None),
    "a type that is not known": ("aten::mm", [[2, 3], [3, 5]], [], [HALF, "c10::quint8"], None),
    "more than any memory": ("aten::mm", [[1 << 40, 0], [0, 1 << 40]], [], [HALF, HALF], None),
    "an output of unknown type": ("aten::_scaled_mm", [[2, 3], [3, 5]], [], ["c10::Float8_e4m3fn"] * 2,
                                  None),
}  # fmt: skip


@pytest.mark.parametrize("what", BYTES)
def test_bytes_of_operands(what: str) -> None:
    name, shapes, values, types, expected = BYTES[what]
    assert operand_bytes(name, *map(json.dumps, (shapes, values, types))) == expected


def test_whatever_has_operations_and_types_has_bytes() -> None:
    """But for products whose output has another type."""
    for name, shapes, values, count in CASES.values():
        if count is not None and name != "aten::_scaled_mm":
            types = json.dumps([HALF] * len(shapes))
            assert operand_bytes(name, json.dumps(shapes), json.dumps(values), types), name


def test_outputs_of_fewer_than_no_places_have_neither() -> None:
    shapes, values = json.dumps([[2, 4, 2, 2], [6, 4, 9, 9], []]), json.dumps(PADDED)
    assert flop("aten::convolution", shapes, values) is None
    assert operand_bytes("aten::convolution", shapes, values, json.dumps([HALF] * 3)) is None
