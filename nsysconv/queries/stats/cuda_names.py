"""Names of kernels, memory operations and API functions as `nsys stats` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nsysconv.errors import UsageError
from nsysconv.queries.columns import KERNEL_NAME_COLUMNS, kernel_name_ids
from nsysconv.queries.contract import Array, Option, Request
from nsysconv.report import MISSING
from nsysconv.timeline.annotations import exact_ranges
from nsysconv.timeline.arrays import by_group, factorize, take
from nsysconv.timeline.events import OpKind, number_threads
from nsysconv.timeline.intervals import parents
from nsysconv.timeline.timeline import Timeline

KERNEL_OPTIONS = (
    Option(
        "nvtx-name",
        False,
        "Prefix kernel names with the innermost range around the launch and a slash.",
    ),
    Option("base", False, "Show names without arguments and scopes."),
    Option("mangled", False, "Show mangled names, if recorded."),
)
"""The options that all tables of kernels have."""

AXES = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
"""The columns of a kernel that say how large its launch was."""

# In the order of the codes of directions.
_DIRECTIONS = (
    "Unknown",
    "Host-to-Device",
    "Device-to-Host",
    "Host-to-Array",
    "Array-to-Host",
    "Array-to-Array",
    "Array-to-Device",
    "Device-to-Array",
    "Device-to-Device",
    "Host-to-Host",
    "Peer-to-Peer",
)
MEMORY_OPS = (
    *(f"[CUDA memcpy {direction}]" for direction in _DIRECTIONS),
    *(f"[CUDA memcpy Unified {direction}]" for direction in _DIRECTIONS),
    "[CUDA memset]",
)
"""The names of memory operations, by number."""
MEMSET_NUMBER = len(MEMORY_OPS) - 1


def copy_numbers(directions: Array, *, migration: bool = False) -> Array:
    """Return the numbers in MEMORY_OPS of copies, or migrations, of these directions."""
    known = (directions >= 0) & (directions < len(_DIRECTIONS))
    return np.where(known, directions, 0) + (len(_DIRECTIONS) if migration else 0)


def function_name(symbol: str) -> str:
    """Return a symbol without a version of `_v` and exactly four characters.

    `cudaMalloc_v3020` is `cudaMalloc`, and `cudaLaunchKernelExC_v11060` stays as it is.
    """
    return symbol[:-6] if symbol[-6:-4] == "_v" else symbol


def launch_size(x: int, y: int, z: int) -> str | None:
    """Return three sizes in one text, as `nsys stats` prints them; None where one is not recorded."""
    return None if MISSING in (x, y, z) else f"{x:4} {y:4} {z:4}"


def texts_at(texts: Sequence[str | None], places: Array) -> Array:
    """Return the texts at these places, as objects; None at -1."""
    result: Array = np.array([*texts, None], object)[places]
    return result


@dataclass(frozen=True)
class KernelNames:
    """The number of the name of each kernel in the slice, and the names by number."""

    number: Array
    texts: list[str]

    def number_at(self, timeline: Timeline, rows: Array) -> Array:
        """Return the numbers of the names of the slice's kernels at these rows of the whole table."""
        place_in_slice = np.cumsum(timeline.rows("kernel")) - 1
        result: Array = self.number[place_in_slice[rows]]
        return result


def kernel_names(timeline: Timeline, request: Request) -> KernelNames:
    """Return the names of the slice's kernels, as the request's options spell them.

    Names that the source keeps apart are apart, in the order of its numbers. Raises UsageError for two
    spellings at once.
    """
    spelling = _spelling(request)
    ids = kernel_name_ids(
        timeline.columns("kernel", ("name_id", KERNEL_NAME_COLUMNS[spelling])), spelling
    )
    if not request.options["nvtx-name"]:
        numbers, (name_ids,) = factorize(ids)
        texts = timeline.profile.names(name_ids)
        return KernelNames(numbers, [texts[i] for i in name_ids.tolist()])
    range_numbers, range_names = ranges_around(timeline)
    numbers, (prefixes, name_ids) = factorize(range_numbers, ids)
    texts = timeline.profile.names(name_ids)
    spelled = [
        texts[i] if prefix < 0 else f"{range_names[prefix]}/{texts[i]}"
        for prefix, i in zip(prefixes.tolist(), name_ids.tolist(), strict=True)
    ]
    return KernelNames(numbers, spelled)


def _spelling(request: Request) -> str:
    if request.options["base"] and request.options["mangled"]:
        raise UsageError("base and mangled are two spellings", hint="Give one of them.")
    if request.options["base"]:
        return "short"
    return "mangled" if request.options["mangled"] else request.kernel_names


def kernel_calls(timeline: Timeline) -> Array:
    """Return the call that launched each of the slice's kernels, by row; -1: not recorded."""
    whole = timeline.whole
    kernels = np.flatnonzero(whole.ops.kind == OpKind.KERNEL)
    calls = np.full(len(kernels), -1, np.int64)
    calls[whole.ops.row[kernels]] = whole.owner[kernels]
    in_slice: Array = calls if timeline.is_whole else calls[timeline.rows("kernel")]
    return in_slice


def innermost_around(starts: Array, ends: Array, since: Array, until: Array) -> Array:
    """Return for each call [since, until) the innermost interval that holds all of it, -1 for none.

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


def ranges_around(timeline: Timeline) -> tuple[Array, tuple[str, ...]]:
    """Return the number of the innermost range around the call of each kernel of the slice, -1 for none;
    and the ranges' names. A range that another thread closed belongs to no thread.
    """
    spans = exact_ranges(timeline)
    if len(spans):
        end_tid = timeline.profile.columns("range", ("end_tid",))["end_tid"][spans.row]
        spans = spans.take((end_tid == MISSING) | (end_tid == spans.tid))
    calls = timeline.calls
    around = np.full(len(calls) + 1, -1, np.int64)  # the last one is for kernels without a call
    thread_numbers, threads = number_threads(spans.pid, spans.tid)
    call_threads = {thread: i for i, thread in enumerate(calls.threads)}
    calls_by_thread = by_group(calls.thread, len(calls.threads))
    for thread, members in zip(threads, by_group(thread_numbers, len(threads)), strict=True):
        if thread not in call_threads or thread[1] == MISSING:
            continue
        own_calls = calls_by_thread[call_threads[thread]]
        members = members[np.lexsort((-spans.end[members], spans.start[members]))]
        place = innermost_around(
            spans.start[members], spans.end[members], calls.start[own_calls], calls.end[own_calls]
        )
        around[own_calls[place >= 0]] = spans.name[members[place[place >= 0]]]
    return take(around, kernel_calls(timeline)), spans.names
