"""Copies, memory sets and migrations as `nsys stats` names them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysconv.queries.contract import Array
from nsysconv.report import MISSING
from nsysconv.timeline.arrays import factorize
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import MEMCPY, MEMSET, MIGRATION, Total

# In the order of DIRECTIONS.
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
_COUNT = len(_DIRECTIONS)
NAMES = (
    *(f"[CUDA memcpy {direction}]" for direction in _DIRECTIONS),
    *(f"[CUDA memcpy Unified {direction}]" for direction in _DIRECTIONS),
    "[CUDA memset]",
)
"""What memory operations are called, by number."""
_SET = len(NAMES) - 1


@dataclass(frozen=True)
class MemoryOps:
    """Columns of equal length: `name` numbers `names`."""

    name: Array
    dur: Array
    bytes: Array
    names: list[str]


def memory_ops(timeline: Timeline) -> MemoryOps:
    """The slice's copies, migrations and memory sets."""
    wanted = ("dur_ns", "bytes")
    copies = timeline.columns("memcpy", (*wanted, "direction"))
    moved = timeline.columns("unified_memory_event", (*wanted, "direction"))
    put = timeline.columns("memset", wanted)
    codes = np.concatenate(
        (
            copy_numbers(copies["direction"]),
            copy_numbers(moved["direction"], migration=True),
            np.full(len(put["dur_ns"]), _SET),
        )
    )
    names, (distinct,) = factorize(codes)
    dur, size = (np.concatenate([part[name] for part in (copies, moved, put)]) for name in wanted)
    return MemoryOps(names, dur, size, [NAMES[code] for code in distinct.tolist()])


def copy_numbers(direction: Array, *, migration: bool = False) -> Array:
    """Per copy, by its direction, the number of its name."""
    known = (direction >= 0) & (direction < _COUNT)
    return np.where(known, direction, 0) + (_COUNT if migration else 0)


KINDS = (MEMCPY, MIGRATION, MEMSET)
"""The kinds of totals that are memory operations."""


def name_of(total: Total) -> str:
    """What the operations behind a total are called."""
    if total.kind == MEMSET:
        return NAMES[_SET]
    direction = np.array([MISSING if total.direction is None else total.direction])
    return NAMES[int(copy_numbers(direction, migration=total.kind == MIGRATION)[0])]
