"""Kernels as `nsys stats` names them: the options that its tables of kernels share."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysconv.errors import UsageError
from nsysconv.queries.contract import Array, Option, Request
from nsysconv.report import MISSING
from nsysconv.timeline.annotations import ranges
from nsysconv.timeline.arrays import by_group, factorize, take
from nsysconv.timeline.events import OpKind, number_threads
from nsysconv.timeline.intervals import parents
from nsysconv.timeline.timeline import Timeline

OPTIONS = (
    Option(
        "nvtx-name",
        False,
        "Put the name of the innermost range around the launch, and a slash, before the kernel's.",
    ),
    Option("base", False, "Names without arguments and scopes."),
    Option("mangled", False, "Symbols, where they are recorded."),
)

AXES = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
"""The columns of a kernel that say how large its launch was."""

_NAME_COLUMNS = {"demangled": "name_id", "short": "short_name_id", "mangled": "mangled_name_id"}


@dataclass(frozen=True)
class Names:
    """Per row of the kernels' table, as far as it belongs to the slice, the number of its name."""

    number: Array
    texts: list[str]


def kernel_names(timeline: Timeline, request: Request) -> Names:
    """What the slice's kernels are called by the options of the request. Names are told apart by what
    the source takes for different ones, in the order of its numbers.

    Raises UsageError for two spellings at once.
    """
    wanted = _NAME_COLUMNS[_spelling(request)]
    column = timeline.columns("kernel", ("name_id", wanted))
    ids = column[wanted]
    if wanted != "name_id":
        ids = np.where(ids == MISSING, column["name_id"].astype(np.int64), ids)
    if not request.options["nvtx-name"]:
        names, (distinct,) = factorize(ids)
        texts = timeline.profile.names(distinct)
        return Names(names, [texts[i] for i in distinct.tolist()])
    prefix, around = _ranges_around(timeline)
    names, (outer, distinct) = factorize(prefix, ids)
    texts = timeline.profile.names(distinct)
    spelled = [
        texts[i] if place < 0 else f"{around[place]}/{texts[i]}"
        for place, i in zip(outer.tolist(), distinct.tolist(), strict=True)
    ]
    return Names(names, spelled)


def _spelling(request: Request) -> str:
    if request.options["base"] and request.options["mangled"]:
        raise UsageError("base and mangled are two spellings", hint="Give one of them.")
    if request.options["base"]:
        return "short"
    return "mangled" if request.options["mangled"] else request.kernel_names


def owners(timeline: Timeline) -> Array:
    """Per row of the kernels' table in the slice the call that launched it, -1 for none."""
    whole = timeline.whole
    mine = np.flatnonzero(whole.ops.kind == OpKind.KERNEL)
    owner = np.full(len(mine), -1, np.int64)
    owner[whole.ops.row[mine]] = whole.owner[mine]
    kept: Array = owner if timeline.is_whole else owner[timeline.rows("kernel")]
    return kept


def innermost_around(starts: Array, ends: Array, since: Array, until: Array) -> Array:
    """Per call, from `since` to `until`, the innermost interval that it is wholly inside of, -1 for none.

    The intervals are those of one thread by start, the longest first.
    """
    parent, _ = parents(starts, ends)
    # The last to begin before a call lies, as the call does, in all that are around the call.
    place = np.searchsorted(starts, since, side="right") - 1
    rest = np.flatnonzero(place >= 0)
    while len(rest):
        rest = rest[ends[place[rest]] < until[rest]]
        place[rest] = parent[place[rest]]
        rest = rest[place[rest] >= 0]
    return place


def _ranges_around(timeline: Timeline) -> tuple[Array, tuple[str, ...]]:
    """Per kernel of the slice the number of the innermost range around its call, -1 for none; and the
    ranges' names. Ranges that another thread closed are no thread's own.
    """
    spans = ranges(timeline)
    if len(spans):
        end_tid = timeline.profile.columns("range", ("end_tid",))["end_tid"][spans.row]
        spans = spans.take((end_tid == MISSING) | (end_tid == spans.tid))
    calls = timeline.calls
    around = np.full(len(calls) + 1, -1, np.int64)  # the last one is for kernels without a call
    threads, known = number_threads(spans.pid, spans.tid)
    numbers = {thread: i for i, thread in enumerate(calls.threads)}
    called = by_group(calls.thread, len(calls.threads))
    for thread, members in zip(known, by_group(threads, len(known)), strict=True):
        if thread not in numbers or thread[1] == MISSING:
            continue
        mine = called[numbers[thread]]
        members = members[np.lexsort((-spans.end[members], spans.start[members]))]
        place = innermost_around(
            spans.start[members], spans.end[members], calls.start[mine], calls.end[mine]
        )
        around[mine[place >= 0]] = spans.name[members[place[place >= 0]]]
    return take(around, owners(timeline)), spans.names


def xyz(x: int, y: int, z: int) -> str | None:
    """Three sizes in one text, as `nsys stats` prints them; None where one is not recorded."""
    return None if MISSING in (x, y, z) else f"{x:4} {y:4} {z:4}"
