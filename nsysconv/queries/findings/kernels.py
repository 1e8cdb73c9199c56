"""Rules on kernels: one takes most, long ones fill the device badly, all is computation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from nsysconv.codes import COMMUNICATION
from nsysconv.errors import NotRecorded
from nsysconv.names import shorten_kernel
from nsysconv.queries.findings.contract import NAMES_CALL, Found, Scene, clipped, counted
from nsysconv.queries.kernel_categories import computes
from nsysconv.report import MISSING
from nsysconv.threads import cached_in
from nsysconv.timeline.account import GRAPH_LAUNCH
from nsysconv.timeline.arrays import Array, blocks, factorize, sums, take
from nsysconv.timeline.events import OpKind, event_id
from nsysconv.timeline.intervals import Union, lasting, union
from nsysconv.timeline.kernel_categories import communicates, kernel_name_ids, rules
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import KERNEL, totals
from nsysconv.timeline.utilization import BLOCK, GRID, KernelFill, kernel_fill, sm_count

_LONG_KERNEL_NS = 100_000
_LOW_OCCUPANCY = 0.125
# A launch is small if it has fewer blocks than this share of the SMs. A few blocks fewer than SMs do no
# harm.
_FEW_BLOCKS = 0.75
# Products, convolutions and attention work with few warps that have many registers each.
_FEW_WARPS = ("gemm", "convolution", "attention")
# Shorter kernels count if they leave most SMs idle, by name. A block of fewer warps than an SM has
# schedulers, four, counts for less.
_HALF_THE_SMS = 0.5
_WHOLE_BLOCK = 128
_SHARE_OF_A_NAME_PCT = 1
_MOST_LOOKED_AT = 200_000
_SIZES = "sizes of GPUs and kernels"
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
    time = scene.span.measure(ops.start[mine], ops.end[mine])
    when = partial(clipped, ops.start[mine], ops.end[mine], scene.span)
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
    """Measure the time in which kernels ran that have few blocks or, if long, a low occupancy."""
    ops = scene.ops
    most = scene.window.measure(ops.start, ops.end, scene.is_kernel)
    # Sizes are most of what there is to read of a kernel.
    if not scene.speaks("low_parallelism", at_most := Found(scene.of_window(most), most)):
        return at_most
    few, weak, short = underfilling(scene)
    if not (len(few) or len(weak) or len(short)):
        return None
    multiprocessors = sm_count(scene.timeline, scene.device)
    mine = np.concatenate((few, weak, short))
    mine = mine[np.argsort(ops.start[mine], kind="stable")]
    starts, ends = ops.start[mine], ops.end[mine]
    time = scene.window.measure(starts, ends)
    top, _ = _most(_name_ids(scene, ops.row[mine]), ends - starts)
    reasons = (
        (few, f"blocks for less than 75 % of the {multiprocessors} SMs"),
        (weak, "an occupancy below 12.5 %"),
        (short, f"less than 100 µs and warps for less than half of the {multiprocessors} SMs"),
    )
    few_words = [f"{len(each):,} with {what}" for each, what in reasons if len(each)]
    details = {"few": ", ".join(few_words), "name": _kernel_name(scene, top)}
    event = event_id("kernel", int(ops.row[mine[(ends - starts).argmax()]]))
    when = partial(clipped, starts, ends, scene.window)
    # Larger batches have more blocks; they do not make a block's needs smaller.
    is_weak = 2 * ops.dur[weak].sum() > ops.dur[mine].sum()
    case = "occupancy" if is_weak else ""
    share = scene.of_window(time)
    return Found(share, time, details, event=event, when=when, case=case, names=NAMES_CALL)


@cached_in("measured")
def underfilling(scene: Scene) -> tuple[Array, Array, Array]:
    """Return the kernels that underfill the GPU, as indices of operations.

    Long ones with few blocks come first, then others of these with a low occupancy, then short ones with
    few warps.
    """
    multiprocessors = sm_count(scene.timeline, scene.device)
    if multiprocessors is None:
        raise NotRecorded("findings", [_SIZES])
    short = _short_and_few(scene, multiprocessors)
    long = scene.is_kernel & lasting(scene.ops.start, scene.ops.end, _LONG_KERNEL_NS)
    few, weak = _long_and_few(scene, multiprocessors) if long.any() else (short[:0], short[:0])
    return few, weak, short


def _long_and_few(scene: Scene, multiprocessors: int) -> tuple[Array, Array]:
    # The kernels of 100 µs or more, as indices of operations: those with few blocks, and of the others
    # those with a low occupancy.
    fill = kernel_fill(scene.timeline, scene.device, _LONG_KERNEL_NS)
    if np.isnan(fill.blocks).all():
        raise NotRecorded("findings", [_SIZES])
    place, categories = _categories(scene, fill.row)
    talks, few_warps = (
        np.array([each in some for each in categories], bool)[place]
        for some in ((COMMUNICATION,), _FEW_WARPS)
    )
    few = _run_with_few_blocks(fill, _FEW_BLOCKS * multiprocessors) & ~talks
    # 0 % is what profilers write that do not know it.
    weak = ~few & (fill.occupancy < _LOW_OCCUPANCY) & (fill.occupancy > 0) & ~talks & ~few_warps
    ops = scene.ops
    long = np.flatnonzero(scene.is_kernel & lasting(ops.start, ops.end, _LONG_KERNEL_NS))
    return long[few], long[weak]


def _run_with_few_blocks(fill: KernelFill, enough: float) -> Array:
    # The mask is true for kernels that run for most of their time when all of these together have too
    # few blocks.
    few = fill.blocks < enough
    starts, ends = fill.start[few], fill.end[few]
    known = ~np.isnan(fill.blocks)
    at = np.concatenate((fill.start[known], fill.end[known]))
    change = np.concatenate((fill.blocks[known], -fill.blocks[known]))
    order = np.argsort(at, kind="stable")
    at, running = at[order], np.cumsum(change[order])
    together = union(at[:-1], at[1:], running[:-1] < enough)
    few[few] = 2 * together.covered(starts, ends) > ends - starts
    return few


def _short_and_few(scene: Scene, multiprocessors: int) -> Array:
    # The shorter kernels, as indices of operations, that run alone with warps for less than half of the
    # SMs, if those of one name take 1 % of the window.
    ops = scene.ops
    alone = np.ones(len(ops), bool)
    alone[1:] &= ops.start[1:] >= np.maximum.accumulate(ops.end)[:-1]
    alone[:-1] &= ops.end[:-1] <= ops.start[1:]
    alone &= scene.is_kernel & ~lasting(ops.start, ops.end, _LONG_KERNEL_NS)
    found = []
    for block in blocks(len(ops)):
        mine = np.flatnonzero(alone[block]) + block.start
        few = _blocks_of(scene, ops.row[mine]) < _HALF_THE_SMS * multiprocessors
        found.append(mine[few])
    mine = np.concatenate(found) if found else np.empty(0, np.int64)
    place, (names,) = factorize(_name_ids(scene, ops.row[mine]))
    spent = sums(place, ops.dur[mine], len(names))
    _, categories = _categories(scene, ops.row[mine])
    computes_here = np.array([each != COMMUNICATION for each in categories], bool)
    large = (spent * 100 >= scene.window.length * _SHARE_OF_A_NAME_PCT) & computes_here
    result: Array = mine[large[place]]
    return result


def _blocks_of(scene: Scene, rows: Array) -> Array:
    # The blocks of each kernel's grid, small ones by their threads; infinite where not recorded.
    read = scene.timeline.profile.columns("kernel", (*GRID, *BLOCK))
    grid, block = np.ones(len(rows)), np.ones(len(rows))
    for size, names in ((grid, GRID), (block, BLOCK)):
        for name in names:
            mine = take(read[name], rows)
            size *= np.where(mine > 0, mine, np.inf)
    result: Array = grid * np.minimum(block / _WHOLE_BLOCK, 1.0)
    return result


def fills_no_wave(scene: Scene) -> bool:
    """Return whether most kernels have fewer blocks than the GPU holds at once.

    With larger batches these do more in the same time, and a launch is for more. Of very many kernels it
    is not looked at, and where sizes are not recorded it is not known: both are False. Communication does
    not count.
    """
    multiprocessors = sm_count(scene.timeline, scene.device)
    if multiprocessors is None or np.count_nonzero(scene.is_kernel) > _MOST_LOOKED_AT:
        return False
    fill = kernel_fill(scene.timeline, scene.device)
    place, categories = _categories(scene, fill.row)
    works = np.array([each != COMMUNICATION for each in categories], bool)[place]
    held = np.where(np.isnan(fill.resident), 1.0, fill.resident) * multiprocessors
    return 2 * int((works & (fill.blocks < held)).sum()) > int(works.sum())


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
    return clipped(ops.start, ops.end, scene.span, works)
