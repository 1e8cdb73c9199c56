"""Explicit copies and migrations as one set of columns, for the reports on transfers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysconv.codes import DIRECTIONS, MEMORY_KINDS
from nsysconv.queries.contract import Array
from nsysconv.report import MISSING
from nsysconv.timeline.timeline import Timeline

# Directions of migrations are numbered after those of explicit copies.
_MIGRATION = len(DIRECTIONS)


@dataclass(frozen=True)
class Copies:
    """Columns of equal length. `direction` numbers what `direction_names` spells."""

    device: Array
    peer: Array
    direction: Array
    src_kind: Array
    dst_kind: Array
    bytes: Array
    dur: Array
    pid: Array


def moved(timeline: Timeline) -> Copies:
    """The copies and migrations."""
    shared = ("device_id", "direction", "bytes", "dur_ns", "pid")
    copy = timeline.columns("memcpy", (*shared, "peer_device_id", "src_kind", "dst_kind"))
    migration = timeline.columns("unified_memory_event", shared)
    nothing = np.full(len(migration["pid"]), MISSING)
    directions = np.where(migration["direction"] == MISSING, 0, migration["direction"]) + _MIGRATION

    def both(name: str, other: Array | None = None) -> Array:
        return np.concatenate((copy[name], migration[name] if other is None else other))

    return Copies(
        device=both("device_id"),
        peer=both("peer_device_id", nothing),
        direction=both("direction", directions),
        src_kind=both("src_kind", nothing),
        dst_kind=both("dst_kind", nothing),
        bytes=both("bytes"),
        dur=both("dur_ns"),
        pid=both("pid"),
    )


def direction_code(direction: int | None, *, migration: bool) -> int:
    """The number of a direction of explicit copies or of migrations; what is not told is Unknown."""
    return (direction or 0) + (_MIGRATION if migration else 0)


def direction_names(codes: Array) -> list[str]:
    """Directions as reports spell them."""
    words = [*DIRECTIONS, *(f"UM {word}" for word in DIRECTIONS)]
    return [words[code] if 0 <= code < len(words) else "Unknown" for code in codes.tolist()]


def kind_names(codes: Array) -> list[str | None]:
    """Memory kinds as reports spell them."""
    return [
        MEMORY_KINDS[code] if 0 <= code < len(MEMORY_KINDS) else None for code in codes.tolist()
    ]
