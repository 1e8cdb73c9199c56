"""Occupancy of each device by kernels, over all or step by step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsysconv.errors import UsageError
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.queries.columns import (
    DEVICE,
    PROFILE,
    RANK,
    WINDOW,
    duration_column,
    values_by_column,
)
from nsysconv.queries.contract import Array, Option, Query, Request, Result
from nsysconv.queries.steps import OCCURRENCE, STEP, identity, steps_of
from nsysconv.report import Column, Unit
from nsysconv.timeline.arrays import distinct
from nsysconv.timeline.idle import window
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.utilization import Utilization, utilization
from nsysconv.timeline.windows import Window

COLUMNS = (
    PROFILE,
    RANK,
    Column("pid", Unit.ID, "Process of the step; null: rows are not per step.", key=True),
    STEP,
    OCCURRENCE,
    DEVICE,
    Column("device", Unit.TEXT, "Name of the GPU; null: not recorded."),
    Column("window_start_ns", Unit.NS, "Where the window begins.", brief=False),
    duration_column("window_ns", "Length of the window, or of the step. " + WINDOW),
    Column(
        "kernel_graph_union_ns",
        Unit.NS,
        "Time in the window with a kernel running, or a graph recorded as one interval.",
        brief=False,
    ),
    Column("gpu_utilization_pct", Unit.PCT, "That time as a share of the window.", better="more"),
    Column(
        "est_sm_efficiency_pct",
        Unit.PCT,
        "Estimate: share of SMs that the blocks of the running kernels can occupy, mean over the "
        "window; null: grids or the number of SMs are not recorded, or too much ran in graphs.",
        better="more",
    ),
    Column(
        "est_achieved_occupancy_pct",
        Unit.PCT,
        "Estimate: mean occupancy of the kernels, weighted by duration, where occupancy is the "
        "share of an SM's warps that the launch can keep resident; null: launches or the device "
        "are not recorded, or too much ran in graphs.",
        better="more",
    ),
)


_BY = ("device", "step")
_FIGURES = tuple(column.name for column in COLUMNS[7:])


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per device; by step, one per step and device that its process used."""
    names = {row["device_id"]: row["name"] for row in timeline.profile.rows("device")}
    rows: list[dict[str, Any]] = []
    notes = []
    by = request.options["by"]
    if by not in _BY:
        raise UsageError(
            f"gpu_utilization has no rows by {by!r}", hint=f"There are: {', '.join(_BY)}"
        )
    for windows in _by_step(timeline, request) if by == "step" else _whole(timeline):
        figures = utilization(timeline, windows.device, windows.low, windows.high, windows.within)
        for i, key in enumerate(windows.keys):
            row = {**key, "device_id": windows.device, "device": names.get(windows.device)}
            rows.append(row | _figures(windows, figures, i))
        if figures.rounded:
            text = "kernels with the recorded occupancy, rounded to whole percent"
            facts = frozenset({Fact.KERNELS})
            notes.append(
                Note("occupancy-rounded", Severity.APPROXIMATED, text, figures.rounded, facts=facts)
            )
    data = values_by_column(rows, COLUMNS[1:])
    return Result(data, notes=tuple(notes))


GPU_UTILIZATION = Query(
    options=(Option("by", "device", "Rows per device (device), or per step and device (step)."),),
    columns=COLUMNS,
    compute=compute,
)


@dataclass(frozen=True)
class _Windows:
    """Windows [low, high) of one device, with what identifies each; `within` is what of them counts
    (None: all), `measurable` is False where the GPU's time says nothing about them.
    """

    device: int
    keys: list[dict[str, Any]]
    low: Array
    high: Array
    within: Window | None = None
    measurable: bool = True


def _whole(timeline: Timeline) -> Iterator[_Windows]:
    for device in timeline.devices:
        span = window(timeline, device, timeline.ops_on(device))
        low, high = (0, 0) if span is None else (span.start, span.end)
        key = {"rank": timeline.rank_of(timeline.pids_on(device))}
        yield _Windows(device, [key], np.array([low]), np.array([high]), span, span is not None)


def _by_step(timeline: Timeline, request: Request) -> Iterator[_Windows]:
    """Yield the steps of each process, for each device it used."""
    ops = timeline.at_any_time
    # Steps are moments of the CPU: they say nothing about a GPU with another clock.
    measurable = not timeline.clocks_disagree
    for steps in steps_of(timeline, request, "gpu_utilization"):
        keys = [identity(timeline, steps, i) for i in range(len(steps))]
        for device in distinct(ops.device[ops.pid == steps.pid]).tolist():
            yield _Windows(device, keys, steps.start, steps.end, steps.within, measurable)


def _figures(windows: _Windows, figures: Utilization, place: int) -> dict[str, Any]:
    if not windows.measurable:
        return {}
    low = int(windows.low[place])
    values = (low, *(column[place] for column in figures.columns))
    return dict(zip(_FIGURES, values, strict=True))
