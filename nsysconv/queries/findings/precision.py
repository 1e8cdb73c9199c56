"""Rules on what kernels compute in: TF32 where 16 bit would do, double precision, converted layouts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.names import shorten_kernel
from nsysconv.queries.findings.contract import Found, Scene
from nsysconv.queries.findings.kernels import underfilling
from nsysconv.queries.findings.operators import (
    HALF,
    TF32,
    has_named,
    is_named,
    kernels_named,
    launched_in,
    of_kernels,
    records_operators,
)
from nsysconv.report import MISSING, Unit, human
from nsysconv.timeline.annotations import operators, ranges, which_named
from nsysconv.timeline.arrays import Array, distinct, factorize, sums, take
from nsysconv.timeline.events import Spans
from nsysconv.timeline.intervals import Union, union
from nsysconv.timeline.kernel_categories import categories, rules
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.utilization import compute_capability, device_name
from nsysconv.timeline.vendors import is_of_amd

# Data in double precision, by types of what a kernel gets (`double*`, `<double`) and by names of
# libraries. A number alone (`float*, double, double`) is a parameter, such as a learning rate.
_DOUBLE = re.compile(
    r"\bdouble(?: const)? ?[*&]|<double\b|(?<![a-z])f64(?!\d)|d884"
    r"|(?<![a-z])[dz](?:gemm|gemv|symm|syrk|trsm|trmm)",
    re.IGNORECASE,
)
_MOVE_DATA = ("copy", "indexing", "sort")
LAYOUT_NAMES = re.compile(
    r"n?chw_?(?:2|to)_?\w*hwc|hwc_?(?:2|to)_?\w*chw|nchw2cnhw|tensortransform", re.I
)
_CONTIGUOUS = frozenset(("aten::contiguous",))
_COPY = "aten::copy_"
_COPYING = frozenset((_COPY, "aten::clone", "aten::_to_copy", "aten::to"))
_CALLER = 48
# GPUs with 1/32 or 1/64 as many units in double as in single precision.
_FEW_DOUBLES = frozenset(
    ["5.0", "5.2", "5.3", "6.1", "6.2", "7.2", "7.5", "8.6", "8.7", "8.9", "10.3", "11.0", "12.0", "12.1"]
)  # fmt: skip
FEW_DOUBLES_NAMES = re.compile(
    r"GeForce (?:GTX (?!TITAN)|RTX|MX)|\bRTX\b|\bTesla (?:M|T|P4)|\b(?:T4|L4|L40S?|A2|A10G?|A16|A40)\b"
)
_CAPABILITY = "the GPU's compute capability"


def tf32_matmul(scene: Scene) -> Found | None:
    """Measure half of the time of GEMMs and convolutions in TF32, where 16 bit is twice as fast."""
    if not sixteen_bit_doubles(scene.timeline):
        return None
    mine = kernels_named(scene, lambda name: TF32.search(name) and not HALF.search(name))
    whole = of_kernels(scene, mine)
    if whole is None or whole.when is None:
        return None
    half = partial(_first_halves, whole.when)
    details = {**whole.details, "all": human(whole.time_ns, Unit.NS)}
    return replace(whole, time_ns=half().measure, details=details, when=half)


def sixteen_bit_doubles(timeline: Timeline) -> bool:
    """Return whether Tensor Cores compute twice as fast in 16 bit as in TF32.

    All NVIDIA GPUs with TF32 do, by their data sheets: A100 312 and 156 TFLOP/s, H100 989 and 495,
    RTX 3090 71 and 36, B200 2250 and 1125, without sparsity. Of other makers' it is not known.
    """
    return not is_of_amd(timeline)


def _first_halves(whole: Callable[[], Union]) -> Union:
    # Half of each interval: at twice the rate it ends there.
    found = whole()
    ends = found.starts + (found.ends - found.starts) // 2
    some = ends > found.starts
    return Union(found.starts[some], ends[some])


def double_precision(scene: Scene) -> Found | None:
    """Measure kernels that compute in double precision on a GPU that has few units for it.

    Those that leave most of the GPU idle do not wait for its units.
    """
    mine = kernels_named(scene, computes_in_double)
    measured = of_kernels(scene, mine)
    if not scene.speaks("double_precision", measured):
        return measured
    few = has_few_doubles(scene.timeline, scene.device)
    if few is None:
        raise NotRecorded("findings", [_CAPABILITY])
    with suppress(NotRecorded):
        for underfill in underfilling(scene):
            mine[underfill] = False
    return of_kernels(scene, mine) if few else None


def computes_in_double(name: str) -> bool:
    """Return whether a kernel of this name computes in double precision."""
    return bool(_DOUBLE.search(name)) and rules().category(name) not in _MOVE_DATA


def has_few_doubles(timeline: Timeline, device: int) -> bool | None:
    """Return whether the device has 1/32 or fewer units in double precision; None: not known.

    By compute capability, from "Throughput of Native Arithmetic Instructions" of the CUDA programming
    guide (7.5, 8.6, 8.9, 12.0: 2 results per clock and SM; 8.0: 32; 9.0: 64), else by the model.
    """
    if is_of_amd(timeline):
        return False
    known = compute_capability(timeline, device)
    if known is not None:
        return f"{known[0]}.{known[1]}" in _FEW_DOUBLES
    return True if FEW_DOUBLES_NAMES.search(device_name(timeline, device) or "") else None


def layout_conversions(scene: Scene) -> Found | None:
    """Measure kernels that only change a tensor's layout: NCHW to NHWC and back, aten::contiguous.

    Where strides are recorded, copies into another order of dimensions count, whoever makes them.
    """
    mine = kernels_named(scene, LAYOUT_NAMES.search)
    has_operators = records_operators(scene)
    if has_operators and has_named(scene, _CONTIGUOUS):
        mine |= _in_contiguous(scene)
    has_types = has_operators and Fact.INPUT_TYPES in scene.timeline.profile.facts
    # Strides, which are recorded with types, are read only if copies could make a finding.
    if not has_types or not scene.speaks(
        "layout_conversions", of_kernels(scene, mine | _copying(scene))
    ):
        return _with_details(of_kernels(scene, mine))
    copies, layouts = _reordering_copies(scene)
    copy = np.where(scene.is_kernel, launched_in(scene, copies), -1)
    return _with_source(scene, mine | (copy >= 0), copies, copy, layouts)


def _copying(scene: Scene) -> Array:
    category, words = categories(scene.timeline)
    copies = np.append(category == (words.index("copy") if "copy" in words else -1), False)
    result: Array = copies[np.where(scene.is_kernel, scene.ops.row, -1)]
    return result


def _with_details(found: Found | None, source: str = "", case: str = "") -> Found | None:
    return found and replace(found, details={**found.details, "source": source}, case=case)


class _Layout(NamedTuple):
    # These are the sizes and strides of a tensor that is copied, and the advice that fits.
    shape: str
    strides: str
    case: str


def _reordering_copies(scene: Scene) -> tuple[Spans, list[_Layout]]:
    # The copies are those between tensors of one shape and type in another order of dimensions. Their
    # `row` is the place of their layout in the list.
    run = operators(scene.timeline)
    run = run.take(which_named(run, _COPY.__eq__))
    columns = scene.timeline.profile.columns("operator", ("strides_id", "shapes_id", "types_id"))
    place, ids = factorize(*(take(column, run.row) for column in columns.values()))
    texts = scene.timeline.profile.names(distinct(np.concatenate(ids)))
    spelled = zip(*([texts.get(i, "") for i in each.tolist()] for each in ids), strict=True)
    found = [_layout(*each) for each in spelled]
    numbers: dict[_Layout, int] = {}
    number = [numbers.setdefault(each, len(numbers)) if each else -1 for each in found]
    row = np.array(number, np.int64)[place]
    return replace(run, row=row).take(row >= 0), list(numbers)


def _layout(strides: str, shapes: str, types: str) -> _Layout | None:
    try:
        given = [json.loads(text)[:2] for text in (strides, shapes, types)]
        (to, source), (shape, other), (kind, of_source) = given
        after, before = (_order(shape, each) for each in (to, source))
        # A stride of 0 repeats values, which is more than a layout.
        is_same = after == before or shape != other or kind != of_source
        if is_same or not all(source[i] for i in before):
            return None
    except (ValueError, TypeError, LookupError):
        return None
    channels_last = [i for i in (0, *range(2, len(shape)), 1) if shape[i] > 1]
    if len(shape) > 3 and sorted((before, after)) == sorted((sorted(before), channels_last)):
        case = "channels"
    else:
        case = "transposed" if before == [*after[:-2], *after[:-3:-1]] else "permuted"
    return _Layout(json.dumps(shape), json.dumps(source), case)


def _order(shape: list[int], strides: list[int]) -> list[int]:
    # The dimensions come in the order in which the tensor lies in memory, the outermost first.
    return sorted((i for i, size in enumerate(shape) if size > 1), key=lambda i: -strides[i])


def _with_source(
    scene: Scene, mine: Array, copies: Spans, copy: Array, layouts: list[_Layout]
) -> Found | None:
    # The clause names the layout whose copies take most, if that is half of the time or more.
    found = of_kernels(scene, mine)
    moved = np.flatnonzero(copy >= 0)
    if not (found and len(moved)):
        return _with_details(found)
    layout, dur = copies.row[copy[moved]], scene.ops.dur[moved]
    time = sums(layout, dur, len(layouts))
    most = int(time.argmax())
    if 2 * int(dur.sum()) < int(scene.ops.dur[mine].sum()):
        return _with_details(found)
    of_most = np.where(layout == most, dur, -1)
    who = _makers(scene, copies, int(copy[moved[of_most.argmax()]]))
    shape, strides, case = layouts[most]
    spelled = f"; {human(int(time[most]), Unit.NS)} of it in {who}, whose input {shape} has strides"
    return _with_details(found, f"{spelled} {strides}", case)


def _makers(scene: Scene, copies: Spans, copy: int) -> str:
    # The result names the operator that needs the copy, and what it lies in: the innermost two around
    # the copy that are more than a copy themselves.
    pid, tid, start, end = (
        int(each[copy]) for each in (copies.pid, copies.tid, copies.start, copies.end)
    )
    around = []
    for spans in (ranges(scene.timeline), operators(scene.timeline)):
        here = (spans.pid == pid) & (spans.tid == tid) & (spans.start <= start) & (spans.end >= end)
        held = np.flatnonzero(here).tolist()
        around += [(int(spans.end[i] - spans.start[i]), spans.names[spans.name[i]]) for i in held]
    names = [shorten_kernel(name, _CALLER) for _, name in sorted(around)]
    return " of ".join([name for name in names if name not in _COPYING][:2] or names[-1:])


def _in_contiguous(scene: Scene) -> Array:
    # The mask is true for kernels that a thread launched while it was in aten::contiguous. The tree of
    # all operators says the same, and takes seconds and gigabytes for a million kernels.
    timeline, calls = scene.timeline, scene.timeline.calls
    inside = np.zeros(len(calls) + 1, bool)  # the last is that of operations without a call
    for spans in (ranges(timeline), operators(timeline)):
        mine = spans.take(which_named(spans, is_named(_CONTIGUOUS)))
        for number, (pid, tid) in enumerate(calls.threads):
            here = (mine.pid == pid) & (mine.tid == tid)
            if tid != MISSING and here.any():
                own = np.flatnonzero(calls.thread == number)
                start = calls.start[own]
                held = union(mine.start, mine.end, here).meets(start, start)
                inside[own[held]] = True
    result: Array = inside[scene.of_ops(timeline.owner)] & scene.is_kernel
    return result
