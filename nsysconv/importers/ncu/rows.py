"""Makes rows of launches: a kernel without a start for each, and a row for each of its metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

import numpy as np

from nsysconv import codes, schema
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers.contract import NO_GPU_WORK
from nsysconv.importers.ncu import ADVICE, MAGIC
from nsysconv.importers.ncu.launches import ATTRIBUTE, DURATION, LAUNCH, Launch
from nsysconv.importers.ncu.pages import Table
from nsysconv.importers.ncu.report import blocks_of, launches_of
from nsysconv.importers.printed.registry import IdRegistry
from nsysconv.importers.printed.text import (
    refuse_quotations,
    truncation_note,
    utf8_files,
)
from nsysconv.importers.probe import Probe
from nsysconv.names import demangler
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING
from nsysconv.store.recording import (
    ArrayRows,
    Batch,
    Batches,
    ProfileAttributes,
    Summary,
    rows_of,
)

_ROWS_AT_ONCE = 50_000
_MOST = 1 << 53
_SIZES = ("x", "y", "z")
# Metrics that are columns of a kernel.
_GRID, _BLOCK, _CONTEXT, _STREAM, _DEVICE = (
    f"{LAUNCH}{word}"
    for word in ("grid_dim_{}", "block_dim_{}", "context_id", "stream_id", "device_id")
)
_COLUMNS = frozenset(
    {
        _CONTEXT,
        _STREAM,
        _DEVICE,
        *(name.format(axis) for name in (_GRID, _BLOCK) for axis in _SIZES),
    }
)
_OF_KERNEL = {
    "registers_per_thread": f"{LAUNCH}registers_per_thread",
    "static_shared_bytes": f"{LAUNCH}shared_mem_per_block_static",
    "dynamic_shared_bytes": f"{LAUNCH}shared_mem_per_block_dynamic",
    "dur_ns": DURATION,
}
# Columns of a device, the attribute that has each, and the unit that it counts.
_OF_DEVICE = {
    "sm_count": ("multiprocessor_count", 1),
    "compute_major": ("compute_capability_major", 1),
    "compute_minor": ("compute_capability_minor", 1),
    "memory_bytes": ("total_memory", 1),
    "max_warps_per_sm": ("max_warps_per_multiprocessor", 1),
    "max_blocks_per_sm": ("max_blocks_per_multiprocessor", 1),
    "max_registers_per_sm": ("max_registers_per_multiprocessor", 1),
    "max_shared_bytes_per_sm": ("max_shared_memory_per_multiprocessor", 1),
    "max_threads_per_sm": ("max_threads_per_multiprocessor", 1),
    "threads_per_warp": ("warp_size", 1),
    "sm_clock_hz": ("clock_rate", 1000),
    "memory_clock_hz": ("memory_clock_rate", 1000),
}  # fmt: skip
_METRICS, _KERNELS = frozenset({Fact.METRICS}), frozenset({Fact.KERNELS})

Row = dict[str, Any]


class LaunchRows:
    """The rows of one file, and what its notes are about."""

    def __init__(self, probe: Probe) -> None:
        """Start without rows."""
        self._probe = probe
        self._ids = IdRegistry(demangler())
        self._kernels: list[Row] = []
        self._samples: list[Row] = []
        self._devices: dict[int, Row] = {}
        self._counts: Counter[str] = Counter()
        self._step_ns = 0.0
        self._notes = list(probe.notes)

    def batches(self) -> Batches:
        """Yield all rows; return the summary. Raises InputError for a file without readable launches."""
        is_report = self._probe.head.startswith(MAGIC)
        for launch in self._of_report() if is_report else self._of_table():
            self._add(launch)
            if len(self._samples) >= _ROWS_AT_ONCE:
                yield from self._flush()
        yield from self._flush()
        yield from self._ids.rows()
        yield rows_of(schema.device, [self._devices[i] for i in sorted(self._devices)])
        self._notes += self._closing_notes()
        facts = {Fact.METRICS}
        if self._counts["kernel"]:
            facts.add(Fact.KERNELS)
        if any("sm_count" in row for row in self._devices.values()):
            facts.add(Fact.DEVICES)
        return Summary(
            ProfileAttributes(), frozenset(facts), ADVICE, tuple(self._notes),
            gpu_pids=frozenset(self._ids.pids),
        )  # fmt: skip

    def _of_report(self) -> Iterator[Launch]:
        probe = self._probe
        blocks = blocks_of(probe.readable)
        for launch in launches_of(probe.readable, probe.origin, blocks):
            if launch is not None:
                yield launch
            self._counts["unread"] += launch is None
        if blocks.cut_at is not None:
            if not self._counts["launch"]:
                raise InputError(
                    f"the Nsight Compute report ends before its first launch, at byte {probe.size:,}",
                    where=str(probe.origin),
                    hint="Copy the report again.",
                )
            text = f"the file ends within a block that begins at byte {blocks.cut_at:,}"
            where = f"byte {blocks.cut_at:,}"
            self._notes.append(Note("trace-truncated", Severity.DROPPED, text, 1, where))

    def _of_table(self) -> Iterator[Launch]:
        with utf8_files([self._probe]) as (path,):
            table = Table(path)
            yield from table.launches()
        refuse_quotations([self._probe], table.rows)
        if table.cut_line:
            self._notes.append(truncation_note(table.cut_line))
        self._notes += table.rejected.notes(None)
        if table.decimals.ambiguous and not table.decimals.point:
            text = (
                "numbers such as 1,234 were read without decimals: no other number shows the locale"
            )
            count = table.decimals.ambiguous
            self._notes.append(
                Note("number-ambiguous", Severity.APPROXIMATED, text, count, facts=_METRICS)
            )

    # -- rows

    def _add(self, launch: Launch) -> None:
        values = {metric.name: metric.average for metric in launch.metrics}
        self._counts.update(
            launch=1, unreadable=launch.unreadable, text=launch.left_out, range=not launch.is_kernel
        )
        name, symbol = self._ids.kernel(launch.kernel)
        if launch.symbol and launch.symbol != launch.kernel:
            symbol = self._ids.name(launch.symbol)
        where = {
            "pid": launch.pid,
            "device_id": self._device(launch, values),
            "context_id": _whole(values.get(_CONTEXT, launch.context)),
            "stream_id": _whole(values.get(_STREAM, launch.stream)),
        }
        if launch.pid is not None:
            self._ids.pids.add(launch.pid)
            if where["stream_id"] is not None and where["context_id"] is not None:
                self._ids.stream(where["context_id"], where["stream_id"])
        if launch.is_kernel and launch.invocations is None:
            self._counts["kernel"] += 1
            self._step_ns = max(self._step_ns, launch.step_ns)
            self._kernels.append({
                **where, "name_id": name, "mangled_name_id": symbol,
                "short_name_id": self._ids.name(launch.short) if launch.short else None,
                **_sizes("grid", launch.grid, _GRID, values),
                **_sizes("block", launch.block, _BLOCK, values),
                **{column: _whole(values.get(metric)) for column, metric in _OF_KERNEL.items()},
            })  # fmt: skip
        for metric in launch.metrics:
            if metric.name.startswith(ATTRIBUTE) or metric.name in _COLUMNS:
                self._counts["column"] += 1
                continue
            unit = codes.METRIC_UNITS.index(metric.unit)
            self._samples.append({
                **where, "name_id": self._ids.name(metric.name), "kind": 0, "unit": unit,
                "description_id": self._ids.name(metric.spelled) if not unit and metric.spelled else None,
                "kernel_name_id": name if launch.is_kernel else None,
                "execution_count": 1 if launch.invocations is None else launch.invocations,
                "value_min": metric.least, "value_max": metric.most, "value_avg": metric.average,
            })  # fmt: skip

    def _device(self, launch: Launch, values: Mapping[str, float]) -> int:
        # Its id; what older tables print names no device.
        recorded = launch.device if launch.device is not None else values.get(_DEVICE)
        device = _whole(recorded) or 0
        row = self._devices.setdefault(device, {"device_id": device})
        if recorded is not None:
            row["ordinal"] = device
        if launch.gpu:
            row["name"] = launch.gpu
        if len(launch.capability) == 2:
            row["compute_major"], row["compute_minor"] = launch.capability
        for column, (attribute, unit) in _OF_DEVICE.items():
            number = _whole(values.get(f"{ATTRIBUTE}{attribute}"))
            if number is not None:
                row[column] = number * unit
        return device

    def _flush(self) -> Iterator[Batch]:
        if self._kernels:
            columns = {
                name: np.array([_or_missing(row[name]) for row in self._kernels], np.int64)
                for name in self._kernels[0]
            }
            columns["start_ns"] = np.full(len(self._kernels), MISSING)
            yield ArrayRows("kernel", columns)
        if self._samples:
            yield rows_of(schema.metric_sample, self._samples)
        self._kernels, self._samples = [], []

    def _closing_notes(self) -> Iterator[Note]:
        counts, count = self._counts, self._counts["kernel"]
        if count:
            text = "kernels ran alone, and several times each: durations differ from the program's"
            yield Note("kernels-serialized", Severity.APPROXIMATED, text, count, facts=_KERNELS)
        if not counts["launch"]:
            yield NO_GPU_WORK
        if self._step_ns > 1:
            text = f"durations of kernels are accurate to {self._step_ns:,.0f} ns or better"
            yield Note("rounded-times", Severity.APPROXIMATED, text, count, facts=_KERNELS)
        for slug, severity, text, count in (
            ("launches-unread", Severity.DROPPED,
             "launches that NVIDIA's ncu_report could not read were left out", counts["unread"]),
            ("cell-unreadable", Severity.DROPPED, "values of metrics that are not numbers",
             counts["unreadable"]),
            ("metrics-of-ranges", Severity.INFO,
             "ranges or graphs of several kernels were measured as one: their metrics name no kernel",
             counts["range"]),
            ("texts-left-out", Severity.INFO,
             "texts, advice of rules, and metrics of single instructions alone were left out",
             counts["text"]),
        ):  # fmt: skip
            if count:
                yield Note(slug, severity, text, count, facts=_METRICS)


def _whole(value: float | None) -> int | None:
    # A count, an id or a time; None for what can be none.
    if value is None or not isfinite(value) or not 0 <= value < _MOST:
        return None
    return round(value)


def _or_missing(value: int | None) -> int:
    return MISSING if value is None else value


def _sizes(what: str, printed: tuple[int, ...], metric: str, values: Mapping[str, float]) -> Row:
    found = [_whole(values.get(metric.format(axis))) for axis in _SIZES]
    if len(printed) == len(_SIZES):
        found = [size or None for size in printed]
    return {f"{what}_{axis}": size for axis, size in zip(_SIZES, found, strict=True)}
