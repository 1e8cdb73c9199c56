"""What a comparison asks of one profile: small answers, kept when the profile forgets its events."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from nsysconv.report import MISSING
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.idle import window
from nsysconv.timeline.steps import in_slice
from nsysconv.timeline.steps import steps as steps_of
from nsysconv.timeline.timeline import Timeline, cached_small
from nsysconv.timeline.totals import GPU_KINDS, Total, totals


@cached_small
def op_count(timeline: Timeline) -> int:
    """GPU operations of a profile, by its events or its totals."""
    return len(timeline.ops) or sum(total.count for total in _totals(timeline))


def devices_used(timeline: Timeline) -> set[int | None]:
    """The devices with GPU operations; None among them for operations that name none."""
    found = {None if device == MISSING else device for device in timeline.devices}
    return found or {total.device_id for total in _totals(timeline)}


def _totals(timeline: Timeline) -> list[Total]:
    """Totals of GPU operations."""
    return totals(timeline, *chain.from_iterable(GPU_KINDS.values()))


@cached_small
def step_counts(timeline: Timeline, pattern: str) -> list[int]:
    """How many steps each process has."""
    return [len(found) for found in in_slice(timeline, steps_of(timeline, pattern))]


@cached_small
def pace(timeline: Timeline, pattern: str) -> float | None:
    """The mean time in ns from the begin of a step to that of the next, of the process where it is the
    longest; None without annotated steps.
    """
    cut = in_slice(timeline, steps_of(timeline, pattern))
    means = [int(mine.end[-1] - mine.start[0]) / len(mine) for mine in cut if len(mine)]
    return max(means, default=None)


def uuids(side: Iterable[Timeline]) -> set[str]:
    """The UUIDs of the GPUs of a side that were used; empty where one is not recorded."""
    used = {
        row["uuid"]
        for timeline in side
        for row in timeline.profile.rows("device")
        if row["device_id"] in devices_used(timeline)
    }
    return set() if None in used else used


@cached_small
def has_graph_intervals(timeline: Timeline) -> bool:
    """Whether a launch of a graph was recorded as one interval."""
    return bool((timeline.ops.kind == OpKind.GRAPH).any())


@cached_small
def window_lengths(timeline: Timeline) -> dict[int, int]:
    """The length of the window of each device that has one."""
    windows = {
        device: window(timeline, device, timeline.ops_on(device)) for device in timeline.devices
    }
    return {device: found.length for device, found in windows.items() if found is not None}
