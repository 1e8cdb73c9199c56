"""What limits each kernel by its metrics, and what limits its occupancy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.columns import BY_DEVICE, count_column, key_column, ranks_by_group, sum_column
from nsysconv.queries.contract import Array, ColumnValues, Query, Request, Result
from nsysconv.queries.kernel_metrics import (
    OF_METRICS,
    Limits,
    own_samples,
    samples_of_launches,
)
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import factorize, percent, sums
from nsysconv.timeline.measured import measured
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.utilization import (
    LIMITS,
    SHARED,
    block_limits,
    shared_memory,
    sm_of,
    warps_of,
)

_LIMIT, _COMPUTE, _MEMORY = OF_METRICS
COLUMNS = (
    *BY_DEVICE,
    key_column("name", "Demangled kernel name."),
    count_column(
        "kernel_count",
        "Number of executions; null: neither kernels nor their durations are recorded.",
    ),
    sum_column(
        "kernel_sum_ns",
        "Total duration of the executions, or the measured durations if kernels are not timed; "
        "null: not recorded.",
        "kernel_count",
    ),
    Column(
        "kernel_pct",
        Unit.PCT,
        "Share of the kernel time of all rows in this table; null: no metrics are recorded.",
        better="less",
        adds=True,
        optional=True,
    ),
    _LIMIT,
    _COMPUTE,
    Column("compute_metric", Unit.TEXT, "Metric behind this value; null: none.", brief=False),
    _MEMORY,
    Column("memory_metric", Unit.TEXT, "Metric behind this value; null: none."),
    Column("stall_pct", Unit.PCT, "Share of stalls with the most frequent reason.", brief=False),
    Column(
        "stall_reason", Unit.TEXT, "Most frequent stall reason; null: not measured.", brief=False
    ),
    Column(
        "achieved_occupancy_pct",
        Unit.PCT,
        "Measured occupancy: active warps as a share of the maximum per SM.",
        better="more",
    ),
    Column(
        "occupancy_pct",
        Unit.PCT,
        "Theoretical occupancy of the launch size with the most time; null: unknown.",
        better="more",
    ),
    Column(
        "occupancy_limit",
        Unit.TEXT,
        "What limits the number of such blocks on an SM: registers, shared memory, warps or "
        "blocks.",
    ),
)

_SIZES = ("block_x", "block_y", "block_z")
_Key = tuple[int, str]


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per device and kernel name, most time first."""
    found: dict[_Key, Limits] = defaultdict(Limits)
    has_metrics = Fact.METRICS in timeline.profile.facts
    if has_metrics:
        for kernel, (device, metric, value, executions) in own_samples(timeline):
            found[device, kernel].add(metric, value, executions)
    if Fact.KERNELS in timeline.profile.facts:
        for key, launched in _launched(timeline):
            found[key].launched = launched
    of_launched = samples_of_launches(timeline)
    for (device, name), limits in found.items():
        # Another run may have measured kernels on other devices than this one has them.
        samples = of_launched.get(name, [])
        limits.add_all([each for each in samples if each[0] == device] or samples)
    seen = measured(timeline)
    order = sorted(found, key=lambda key: (-(found[key].of_launches("kernel_sum_ns") or 0), key))
    rows = [found[key] for key in order]
    of_launches = ("rank", "kernel_count", "kernel_sum_ns", "occupancy_pct", "occupancy_limit")
    spent = [each.of_launches("kernel_sum_ns") or 0 for each in rows]
    shares = percent(np.array(spent, np.int64), sum(spent) or 1)
    values: ColumnValues = {
        "device_id": [device for device, _ in order],
        "name": [name for _, name in order],
        "kernel_pct": shares if has_metrics else [None] * len(rows),
        "limit": [each.limit for each in rows],
        "compute_pct": [each.compute[0] for each in rows],
        "compute_metric": [each.compute[1] for each in rows],
        "memory_pct": [each.memory[0] for each in rows],
        "memory_metric": [each.memory[1] for each in rows],
        "stall_pct": [each.commonest_stall[0] for each in rows],
        "stall_reason": [each.commonest_stall[1] for each in rows],
        "achieved_occupancy_pct": [each.achieved for each in rows],
        **{name: [each.of_launches(name) for each in rows] for name in of_launches},
    }
    return Result(values, notes=seen.notes if seen else ())


def _launched(timeline: Timeline) -> Iterable[tuple[_Key, dict[str, Any]]]:
    # What launches say of each kernel: the occupancy is that of the launch size with most time; without
    # times, of most launches.
    names = ("dur_ns", "device_id", "pid", "name_id", *_SIZES, "registers_per_thread", *SHARED)
    read = timeline.columns("kernel", names)
    timed = read["dur_ns"] != MISSING
    dur = np.where(timed, read["dur_ns"], 0)
    group, (devices, ids) = factorize(read["device_id"], read["name_id"])
    count = len(ids)
    size, keys = factorize(group, *(read[name] for name in names[4:]))
    spent, own = sums(size, dur, len(keys[0])), dict(zip(names[4:], keys[1:], strict=True))
    # The last one of each group is that with most time.
    by_time = np.lexsort((np.bincount(size), spent, keys[0]))
    most = by_time[np.searchsorted(keys[0][by_time], np.arange(count), side="right") - 1]
    own = {name: values[most] for name, values in own.items()}
    occupancy, limiter = _occupancy(timeline, devices, own)
    texts = timeline.profile.names(ids[ids != MISSING])
    total, launches = sums(group, dur, count), np.bincount(group, minlength=count)
    has_time = np.bincount(group[timed], minlength=count) > 0
    ranks = ranks_by_group(timeline, read["pid"], group, count)
    for i in range(count):
        key = int(devices[i]), texts.get(int(ids[i]), "[no name]")
        yield (
            key,
            {
                "rank": ranks[i],
                "kernel_count": int(launches[i]),
                "kernel_sum_ns": int(total[i]) if has_time[i] else None,
                "occupancy_pct": occupancy[i],
                "occupancy_limit": limiter[i],
            },
        )


def _occupancy(
    timeline: Timeline, devices: Array, own: Mapping[str, Array]
) -> tuple[list[float], list[str | None]]:
    # The occupancy of each launch size, in per cent, and what limits it; not known: NaN and None.
    result, limiter = np.full(len(devices), np.nan), np.full(len(devices), None, object)
    threads = np.ones(len(devices), np.int64)
    for name in _SIZES:
        threads = np.where((threads > 0) & (own[name] > 0), threads * own[name], MISSING)
    for device in np.unique(devices).tolist():
        sm, mine = sm_of(timeline, device), np.flatnonzero(devices == device)
        if sm is None:
            continue
        wanted = threads[mine], own["registers_per_thread"][mine], shared_memory(own)[mine]
        limits = block_limits(sm, *wanted)
        held = limits.min(axis=0)
        known = np.flatnonzero(held != MISSING)
        warps = held[known] * warps_of(wanted[0][known])
        result[mine[known]] = 100 * warps / sm.warps
        for i in known.tolist():
            least = [LIMITS[n] for n in np.flatnonzero(limits[:, i] == held[i]).tolist()]
            limiter[mine[i]] = ", ".join(least)
    return result.tolist(), limiter.tolist()


KERNEL_LIMITS = Query(columns=COLUMNS, compute=compute)
