"""What limits each kernel: computing, bandwidth or latency by its metrics, and what limits its occupancy.

That both are below 60 % of their peaks is the sign of latency in the guided analysis of NVIDIA's Visual
Profiler (its user's guide, "Guided Application Analysis").
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.names import plain_kernel
from nsysconv.notes import Note, Severity
from nsysconv.queries import metrics
from nsysconv.queries.columns import BY_DEVICE, count_column, key_column, ranks_by_group, sum_column
from nsysconv.queries.contract import Array, ColumnValues, Option, Query, Request, Result
from nsysconv.report import MISSING, Column, Unit
from nsysconv.store.location import parse_location, reading
from nsysconv.timeline.arrays import factorize, sums
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.utilization import (
    LIMITS,
    SHARED,
    block_limits,
    shared_memory,
    sm_of,
    warps_of,
)

COMPUTE, BANDWIDTH, LATENCY, SMALL_GRID = "compute", "bandwidth", "latency", "small grid"
"""What may limit a kernel."""

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
        "limit",
        Unit.TEXT,
        "What limits the kernel according to its metrics: compute or bandwidth (the larger, at "
        "least 60 % of peak); latency (both are lower); small grid (both are lower, and its "
        "blocks do not fill the GPU once); null: unknown.",
    ),
    Column(
        "compute_pct", Unit.PCT, "Utilization of the busiest compute unit, as a share of its peak."
    ),
    Column("compute_metric", Unit.TEXT, "Metric behind this value; null: none.", brief=False),
    Column(
        "memory_pct",
        Unit.PCT,
        "Utilization of the busiest memory or cache, as a share of its peak.",
    ),
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

METRICS_OF = Option(
    "metrics",
    None,
    "Store with metrics of the same program's kernels from another run, added by kernel name.",
)

_PEAK_PCT = 60.0
# Shares of peak, by names of metrics: of units that compute, and that issue; of memories and caches.
# Units for loads, stores and textures are on the way to memory, and count for neither.
_COMPUTES = re.compile(
    r"issue_slot_utilization|flop_[shd]p_efficiency"
    r"|(?!ldst_|tex_|texture_)\w+_fu_utilization"
    r"|sm__throughput\.avg\.pct_of_peak_sustained_elapsed"
)
_MEMORY = re.compile(
    r"(?:dram|l2|shared|tex|l1_shared)_utilization"
    r"|(?:gpu__compute_memory|dram_|lts_|l1tex_)_throughput\.avg\.pct_of_peak_sustained_elapsed"
)
# As far as kernels use memory, this one has the others in it.
_ALL_MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
_OCCUPANCY = re.compile(r"achieved_occupancy|sm__warps_active\.avg\.pct_of_peak_sustained_active")
_STALL = "stall_"
# What is not a share: how often the blocks of a launch fill the GPU, its duration in ns, and stalls per
# instruction by reason.
_WAVES = "launch__waves_per_multiprocessor"
_STALLED = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
_NOT_STALLED = "selected"
_DURATION = "gpu__time_duration.sum"
# A level goes from 0 (idle) to 10 (max); an occupancy without a unit from 0 to 1.
_TO_PCT: Mapping[str | None, float] = {"level": 10.0, "%": 1.0, "number": 100.0, None: 100.0}

_SIZES = ("block_x", "block_y", "block_z")
_Key = tuple[int, str]


@dataclass
class _Limits:
    # These are a kernel's shares, each with the metric that has it, and its launches.
    compute: tuple[float, str | None] = (np.nan, None)
    memory: tuple[float, str | None] = (np.nan, None)
    stall: tuple[float, str | None] = (np.nan, None)
    achieved: float = np.nan
    waves: float = np.nan
    measured: dict[str, int] = field(default_factory=dict)
    stalled: dict[str, float] = field(default_factory=dict)
    launched: dict[str, Any] = field(default_factory=dict)

    def add(self, metric: str, pct: float, executions: int = 1) -> None:
        """Take a metric over executions, in per cent of a peak; what is no share as it is."""
        if metric == _DURATION:
            self.measured = {"kernel_count": executions, "kernel_sum_ns": round(pct * executions)}
        elif metric == _WAVES:
            self.waves = pct
        elif match := _STALLED.fullmatch(metric):
            self.stalled[match[1]] = pct
        elif _COMPUTES.fullmatch(metric):
            self.compute = _larger(self.compute, pct, metric)
        elif metric == _ALL_MEMORY:
            self.memory = pct, metric
        elif _MEMORY.fullmatch(metric) and self.memory[1] != _ALL_MEMORY:
            self.memory = _larger(self.memory, pct, metric)
        elif _OCCUPANCY.fullmatch(metric):
            self.achieved = pct
        elif metric.startswith(_STALL):
            self.stall = _larger(self.stall, pct, metric.removeprefix(_STALL).replace("_", " "))

    @property
    def limit(self) -> str | None:
        """Return what limits the kernel; None: not known."""
        compute, memory = self.compute[0], self.memory[0]
        if np.fmax(compute, memory) >= _PEAK_PCT:
            return BANDWIDTH if memory > compute or np.isnan(compute) else COMPUTE
        if np.isnan(compute) or np.isnan(memory):
            return None
        return SMALL_GRID if self.waves < 1 else LATENCY

    @property
    def commonest_stall(self) -> tuple[float, str | None]:
        """Return the share in per cent of the commonest reason of stalls, and that reason."""
        total = sum(self.stalled.values())
        reasons = [(cycles, name) for name, cycles in self.stalled.items() if name != _NOT_STALLED]
        if not reasons or not total > 0:
            return self.stall
        cycles, reason = max(reasons)
        return 100 * cycles / total, reason.replace("_", " ")

    def of_launches(self, name: str) -> Any:
        """Return a column of its launches; where they have no times, of those measured."""
        found = self.launched.get(name)
        return self.measured.get(name) if found is None else found


def _larger(one: tuple[float, str | None], pct: float, name: str) -> tuple[float, str | None]:
    return one if one[0] >= pct else (pct, name)


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per device and kernel name, most time first."""
    found: dict[_Key, _Limits] = defaultdict(_Limits)
    notes: tuple[Note, ...] = ()
    if Fact.METRICS in timeline.profile.facts:
        for device, kernel, metric, pct, executions in _measured(timeline, request):
            found[device, kernel].add(metric, pct, executions)
    if Fact.KERNELS in timeline.profile.facts:
        for key, launched in _launched(timeline):
            found[key].launched = launched
    if path := request.options["metrics"]:
        notes = tuple(_add_of_store(found, path))
    order = sorted(found, key=lambda key: (-(found[key].of_launches("kernel_sum_ns") or 0), key))
    rows = [found[key] for key in order]
    of_launches = ("rank", "kernel_count", "kernel_sum_ns", "occupancy_pct", "occupancy_limit")
    values: ColumnValues = {
        "device_id": [device for device, _ in order],
        "name": [name for _, name in order],
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
    return Result(values, notes=notes)


def _add_of_store(found: Mapping[_Key, _Limits], path: str) -> Iterator[Note]:
    # Adds the metrics that a store has of kernels with the same names, on whichever device.
    sums: dict[str, dict[str, tuple[float, int]]] = defaultdict(dict)
    with reading(parse_location(path)) as store:
        for profile in store.profiles():
            if Fact.METRICS in profile.facts:
                for _, kernel, metric, value, count in _measured(Timeline(profile), Request()):
                    total, executions = sums[kernel].get(metric, (0.0, 0))
                    sums[kernel][metric] = total + value * count, executions + count
    partners = _same_kernels({name for _, name in found}, set(sums))
    for (_, name), limits in found.items():
        for metric, (total, executions) in sums.get(partners.get(name, ""), {}).items():
            limits.add(metric, total / max(executions, 1), executions)
    if partners:
        text = "metrics are of another run, of kernels with the same names"
        yield Note("metrics-of-another-run", Severity.APPROXIMATED, text, len(partners))
    if alone := set(sums) - set(partners.values()):
        text = "kernels with metrics in the other store that did not run here, or whose name fits several"
        yield Note("metrics-without-kernel", Severity.INFO, text, len(alone), min(alone))


def _same_kernels(names: set[str], others: set[str]) -> dict[str, str]:
    # By kernel that of others with the same name: as profilers spell it, else without template arguments.
    # A name that several have stays that of none, also when the others have found theirs.
    found: dict[str, str] = {}
    for shorten in (str, _spelled_alike, _base_name):
        own, theirs = _by_short_name(names, shorten), _by_short_name(others, shorten)
        pairs = ((own[short], theirs[short]) for short in own.keys() & theirs.keys())
        taken = set(found.values())
        found |= {name: other for name, other in pairs if name not in found and other not in taken}
    return found


def _by_short_name(names: Collection[str], shorten: Callable[[str], str]) -> dict[str, str]:
    # What several kernels are called is the name of none.
    count = Counter(map(shorten, names))
    return {shorten(name): name for name in names if count[shorten(name)] == 1}


def _spelled_alike(name: str) -> str:
    # Demanglers differ in parameters and blanks.
    return plain_kernel(name).replace(" ", "")


def _base_name(name: str) -> str:
    return plain_kernel(name).partition("<")[0].rpartition("::")[2]


def _measured(timeline: Timeline, request: Request) -> Iterable[tuple[int, str, str, float, int]]:
    # The metrics of kernels that matter here: device, kernel, metric, per cent or number, executions.
    values = metrics.compute(timeline, request)
    wanted = ("device_id", "kernel", "metric", "unit", "value_avg", "sample_count")
    columns = (values[name] for name in wanted)
    for device, kernel, metric, unit, value, executions in zip(*columns, strict=True):
        is_number = metric in (_DURATION, _WAVES) or _STALLED.fullmatch(metric)
        factor = 1.0 if is_number else _TO_PCT.get(unit)
        if factor == 100 and not _OCCUPANCY.fullmatch(metric):
            factor = None
        if kernel is not None and factor is not None and not np.isnan(value):
            number = float(value) * factor
            yield MISSING if device is None else device, kernel, metric, number, int(executions)


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


KERNEL_LIMITS = Query(columns=COLUMNS, options=(METRICS_OF,), compute=compute)
