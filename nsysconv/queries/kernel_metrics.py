"""What metrics say of kernels: how near they come to the peaks of the GPU, and what limits them by that.

That both are below 60 % of their peaks is the sign of latency in the guided analysis of NVIDIA's Visual
Profiler (its user's guide, "Guided Application Analysis").
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.metrics import values_of_metrics
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import Array, among
from nsysconv.timeline.measured import measured
from nsysconv.timeline.timeline import Timeline, cached_whole_small

COMPUTE, BANDWIDTH, LATENCY, SMALL_GRID = "compute", "bandwidth", "latency", "small grid"
"""What may limit a kernel."""

OF_METRICS = (
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
    Column(
        "memory_pct",
        Unit.PCT,
        "Utilization of the busiest memory or cache, as a share of its peak.",
    ),
)
"""What metrics say of a kernel in short: how it is limited, and the shares of peak behind that."""

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

Sample = tuple[int, str, float, int]
"""A kernel's metric: device, name, per cent of a peak or number, executions of which it is the mean."""


@dataclass
class Limits:
    """A kernel's shares of peak, each with the metric that has it, and what its launches say."""

    compute: tuple[float, str | None] = (np.nan, None)
    memory: tuple[float, str | None] = (np.nan, None)
    stall: tuple[float, str | None] = (np.nan, None)
    achieved: float = np.nan
    waves: float = np.nan
    executions: int = 0
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

    def add_all(self, samples: Iterable[Sample]) -> Limits:
        """Take the mean of each metric over all executions; return it."""
        sums: dict[str, tuple[float, int]] = {}
        for _, metric, value, count in samples:
            total, executions = sums.get(metric, (0.0, 0))
            sums[metric] = total + value * count, executions + count
        for metric, (total, executions) in sums.items():
            self.add(metric, total / max(executions, 1), executions)
            self.executions = max(self.executions, executions)
        return self

    def in_short(self) -> dict[str, Any]:
        """Return the values of OF_METRICS."""
        values = (self.limit, self.compute[0], self.memory[0])
        return {column.name: value for column, value in zip(OF_METRICS, values, strict=True)}

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
    def has_share(self) -> bool:
        """Return whether a share of peak is known."""
        return not (np.isnan(self.compute[0]) and np.isnan(self.memory[0]))

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


def own_samples(timeline: Timeline) -> Iterator[tuple[str, Sample]]:
    """Yield the metrics of kernels here, each after the kernel's name.

    Those of single launches are left out where these are matched to kernels (`measured`).
    """
    if measured(timeline) is None:
        yield from _samples(timeline, None)
    else:
        launch_ids = timeline.columns("metric_sample", ("launch_id",))["launch_id"]
        yield from _samples(timeline, launch_ids == MISSING)


@cached_whole_small
def samples_of_launches(timeline: Timeline) -> dict[str, list[Sample]]:
    """Return the metrics of measured launches, by the demangled name that their kernels have here.

    They are of the whole profile, whatever the slice.
    """
    seen = measured(timeline)
    if seen is None:
        return {}
    whole, by_name = timeline.whole, defaultdict(list)
    launch_ids = whole.columns("metric_sample", ("launch_id",))["launch_id"]
    for kernel, sample in _samples(whole, launch_ids != MISSING):
        by_name[kernel].append(sample)
    return {name: by_name[other] for name, other in seen.names.items() if other in by_name}


@cached_whole_small
def limits_by_name(timeline: Timeline) -> dict[str, Limits]:
    """Return what metrics say of each kernel of which they say a share of peak, by its demangled name."""
    if Fact.METRICS not in timeline.profile.facts or not _has_kernels(timeline):
        return {}
    by_name = defaultdict(list, samples_of_launches(timeline))
    for kernel, sample in own_samples(timeline.whole):
        by_name[kernel] = [*by_name[kernel], sample]
    found = {name: Limits().add_all(samples) for name, samples in by_name.items()}
    return {name: limits for name, limits in found.items() if limits.has_share}


def shares_of_peak(timeline: Timeline, row: int) -> dict[str, Any]:
    """Return the values of OF_METRICS of one kernel, by its row, and `measured_count`; {}: no metrics.

    They are of this launch if it was measured, else of as many launches of the name.
    """
    limits = limits_by_name(timeline)
    if not limits:
        return {}
    whole, seen, count = timeline.whole, measured(timeline), None
    launches = seen.launches_of(row) if seen else np.empty(0, np.int64)
    if len(launches):
        kept = among(whole.columns("metric_sample", ("launch_id",))["launch_id"], launches)
        own = Limits().add_all(sample for _, sample in _samples(whole, kept))
    else:
        name_id = int(whole.profile.columns("kernel", ("name_id",))["name_id"][row])
        own = limits.get(whole.profile.names([name_id])[name_id], Limits())
        count = own.executions
    return {**own.in_short(), "measured_count": count} if own.has_share else {}


def _has_kernels(timeline: Timeline) -> bool:
    # Millions of samples may be of no kernel.
    ids = timeline.whole.columns("metric_sample", ("kernel_name_id",))["kernel_name_id"]
    return bool((ids != MISSING).any())


def _samples(timeline: Timeline, kept: Array | None) -> Iterator[tuple[str, Sample]]:
    values = values_of_metrics(timeline, kept)
    wanted = ("device_id", "kernel", "metric", "unit", "value_avg", "sample_count")
    columns = (values[name] for name in wanted)
    for device, kernel, metric, unit, value, executions in zip(*columns, strict=True):
        is_number = metric in (_DURATION, _WAVES) or _STALLED.fullmatch(metric)
        factor = 1.0 if is_number else _TO_PCT.get(unit)
        if factor == 100 and not _OCCUPANCY.fullmatch(metric):
            factor = None
        if kernel is not None and factor is not None and not np.isnan(value):
            place = MISSING if device is None else device
            yield kernel, (place, metric, float(value) * factor, int(executions))
