"""Rules on kernels: one takes most, long ones fill the device badly, all is computation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from nsysconv.codes import COMMUNICATION
from nsysconv.errors import NotRecorded
from nsysconv.names import shorten_kernel
from nsysconv.queries.findings.contract import Found, Measure, Scene, clipped, counted
from nsysconv.queries.kernel_categories import computes
from nsysconv.report import MISSING
from nsysconv.timeline.account import GRAPH_LAUNCH
from nsysconv.timeline.arrays import Array, factorize, sums
from nsysconv.timeline.events import OpKind, event_id
from nsysconv.timeline.intervals import Union, lasting, measure
from nsysconv.timeline.kernel_categories import communicates, kernel_name_ids, rules
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import KERNEL, totals
from nsysconv.timeline.utilization import kernel_fill, sm_count

_LONG_KERNEL_NS = 100_000
_LOW_OCCUPANCY = 0.125
# A launch is small if it has fewer blocks than this share of the SMs. A few blocks fewer than SMs do no
# harm.
_FEW_BLOCKS = 0.75
# Products, convolutions and attention work with few warps that have many registers each.
_FEW_WARPS = ("gemm", "convolution", "attention")
_NAME = 48


def one_kernel(scene: Scene) -> Found | None:
    """Measure the kernel that takes most time, of those that compute, as a share of all kernels."""
    kernels = [
        entry
        for entry in scene.account.entries
        if entry.part in ("computation", COMMUNICATION) and entry.name != GRAPH_LAUNCH
    ]
    whole = sum(entry.sum_ns for entry in kernels)
    entries = [entry for entry in kernels if entry.part != COMMUNICATION]
    if not whole or not entries:
        return None
    top = max(entries, key=lambda entry: entry.sum_ns)
    measured = Found(100 * top.sum_ns / whole, top.sum_ns)
    if not scene.speaks("one_kernel", measured):
        return measured
    ops = scene.ops
    mine = np.flatnonzero(ops.kind == OpKind.KERNEL)
    mine = mine[_is_named(scene, ops.row[mine], top.name)]
    low, high = scene.span.start, scene.span.end
    time = measure(ops.start[mine], ops.end[mine], low, high)
    when = partial(clipped, ops.start[mine], ops.end[mine], low, high)
    details = {
        "name": shorten_kernel(top.name, _NAME),
        "count": counted(top.count, "launch", "launches"),
    }
    event = (
        ops.event_id(int(mine[(ops.end[mine] - ops.start[mine]).argmax()])) if len(mine) else None
    )
    return replace(measured, time_ns=time, details=details, event=event, when=when)


def _is_named(scene: Scene, rows: Array, name: str) -> Array:
    # Two ids may be of one name.
    place, known = kernel_name_ids(scene.timeline)
    texts = scene.timeline.profile.names(known)
    wanted = np.array([texts[i] == name for i in known.tolist()], bool)
    result: Array = wanted.take(place.take(rows))
    return result


def one_kernel_of_totals(timeline: Timeline) -> Found | None:
    """Measure the kernel with most time in totals of several names, which have no window."""
    by_name: dict[str, list[int]] = {}
    for total in totals(timeline, KERNEL):
        if total.sum_ns is not None:
            figures = by_name.setdefault(total.name, [0, 0])
            figures[0] += total.sum_ns
            figures[1] += total.count
    whole = sum(spent for spent, _ in by_name.values())
    if not whole or len(by_name) < 2:
        return None
    works = {n: each for n, each in by_name.items() if rules().category(n) != COMMUNICATION}
    if not works:
        return None
    name, (spent, count) = max(works.items(), key=lambda item: item[1][0])
    details = {
        "name": shorten_kernel(name, _NAME),
        "count": counted(count, "launch", "launches"),
    }
    return Found(100 * spent / whole, spent, details)


def _most(name_ids: Array, spent: Array) -> tuple[int, int]:
    # The result is the id of the name with most time, and its time.
    group, (names,) = factorize(name_ids)
    by_name = sums(group, spent, len(names))
    top = int(by_name.argmax())
    return int(names[top]), int(by_name[top])


def _name_ids(scene: Scene, rows: Array) -> Array:
    ids = scene.timeline.profile.columns("kernel", ("name_id",))["name_id"]
    result: Array = ids[rows]
    return result


def _kernel_name(scene: Scene, name_id: int) -> str:
    texts = scene.timeline.profile.names(np.array([name_id])) if name_id != MISSING else {}
    return shorten_kernel(texts.get(name_id, "[no name]"), _NAME)


def low_parallelism(scene: Scene) -> Found | None:
    """Measure the time in which long kernels ran that have few blocks or a low occupancy."""
    ops = scene.ops
    long = (ops.kind == OpKind.KERNEL) & lasting(ops.start, ops.end, _LONG_KERNEL_NS)
    low, high = scene.window.start, scene.window.end
    most = measure(ops.start, ops.end, low, high, long)
    # Sizes are most of what there is to read of a kernel.
    if not scene.speaks("low_parallelism", at_most := Found(scene.of_window(most), most)):
        return at_most
    fill = kernel_fill(scene.timeline, scene.device, _LONG_KERNEL_NS)
    multiprocessors = sm_count(scene.timeline, scene.device)
    if not len(fill.row):
        return None
    if multiprocessors is None or np.isnan(fill.blocks).all():
        raise NotRecorded("findings", ["sizes of GPUs and kernels"])
    place, categories = _categories(scene, fill.row)
    talks, few_warps = (
        np.array([each in some for each in categories], bool)[place]
        for some in ((COMMUNICATION,), _FEW_WARPS)
    )
    few = (fill.blocks < _FEW_BLOCKS * multiprocessors) & ~talks
    # 0 % is what profilers write that do not know it.
    weak = ~few & (fill.occupancy < _LOW_OCCUPANCY) & (fill.occupancy > 0) & ~talks & ~few_warps
    mine = np.flatnonzero(few | weak)
    if not len(mine):
        return None
    time = measure(fill.start[mine], fill.end[mine], low, high)
    top, _ = _most(_name_ids(scene, fill.row[mine]), (fill.end - fill.start)[mine])
    reasons = (
        (few, f"blocks for less than 75 % of the {multiprocessors} SMs"),
        (weak, "an occupancy below 12.5 %"),
    )
    few_words = [f"{int(each.sum()):,} with {what}" for each, what in reasons if each.any()]
    details = {"few": ", ".join(few_words), "name": _kernel_name(scene, top)}
    longest = mine[(fill.end - fill.start)[mine].argmax()]
    event = event_id("kernel", int(fill.row[longest]))
    when = partial(clipped, fill.start[mine], fill.end[mine], low, high)
    return Found(scene.of_window(time), time, details, event=event, when=when)


def _categories(scene: Scene, rows: Array) -> tuple[Array, list[str]]:
    # The first result numbers the name of each kernel; the second has the category of each name.
    place, (ids,) = factorize(_name_ids(scene, rows))
    texts = scene.timeline.profile.names(ids[ids != MISSING])
    return place, rules().categories([texts.get(i, "") for i in ids.tolist()])


def gpu_bound(scene: Scene) -> Found | None:
    """Measure computation in the window, where the window is half of the time of the account or more."""
    if 2 * scene.window.length < scene.span.length:
        return None
    time = scene.times["computation"]
    event = scene.longest_op(scene.ops.kind == OpKind.KERNEL)
    return Found(scene.of_window(time), time, event=event, when=partial(_computing, scene))


def _computing(scene: Scene) -> Union:
    ops = scene.ops
    works = computes(ops, scene.of_ops(communicates(scene.timeline)))
    return clipped(ops.start, ops.end, scene.span.start, scene.span.end, works)


RULES: dict[str, Measure] = {
    "one_kernel": one_kernel,
    "low_parallelism": low_parallelism,
    "gpu_bound": gpu_bound,
}
