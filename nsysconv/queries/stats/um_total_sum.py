"""Migrations of unified memory and page faults, all in one row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.queries.stats import um
from nsysconv.report import MISSING, Column, Printed
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import MIGRATION, combine, totals
from nsysconv.units import Unit

Array = np.ndarray

COLUMNS = (
    Column(
        "htod_bytes_sum",
        Unit.BYTES,
        "Bytes that migrated to a device.",
        better="less",
        printed=Printed("Total HtoD Migration Size (MB)", 3, um.MEGA),
    ),
    Column(
        "dtoh_bytes_sum",
        Unit.BYTES,
        "Bytes that migrated to the host.",
        better="less",
        printed=Printed("Total DtoH Migration Size (MB)", 3, um.MEGA),
    ),
    Column(
        "cpu_fault_count",
        Unit.COUNT,
        "Page faults of CPUs.",
        better="less",
        printed=Printed("Total CPU Page Faults"),
    ),
    Column(
        "gpu_fault_count",
        Unit.COUNT,
        "Page faults of GPUs.",
        better="less",
        printed=Printed("Total GPU PageFaults"),
    ),
    Column(
        "first_address",
        Unit.TEXT,
        f"Lowest address of them all, {um.ADDRESS}.",
        printed=Printed("Minimum Virtual Address"),
    ),
    Column(
        "last_address",
        Unit.TEXT,
        f"Highest address of them all, {um.ADDRESS}.",
        printed=Printed("Maximum Virtual Address"),
    ),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row."""
    if Fact.UNIFIED_MEMORY not in timeline.profile.facts:
        return _of_totals(timeline)
    moved, faults = um.migrations(timeline), um.faults(timeline)
    parts = [moved.of(um.HTOD), moved.of(um.DTOH)]
    parts += [] if faults is None else [faults.of(um.CPU), faults.of(um.GPU)]
    sums: list[int | None] = [int(p.quantity[p.quantity != MISSING].sum()) for p in parts]
    htod, dtoh, cpu, gpu = sums + [None] * (4 - len(sums))
    address = np.concatenate([part.address for part in parts])
    return {
        "htod_bytes_sum": [htod],
        "dtoh_bytes_sum": [dtoh],
        "cpu_fault_count": [cpu],
        "gpu_fault_count": [gpu],
        "first_address": [_extreme(address, np.min)],
        "last_address": [_extreme(address, np.max)],
    }


UM_TOTAL_SUM = Query(
    title="Unified Memory Totals Summary",
    needs={Fact.UNIFIED_MEMORY},
    uses={Fact.PAGE_FAULTS},
    totals={Fact.UNIFIED_MEMORY_TOTALS},
    columns=COLUMNS,
    compute=compute,
)


def _extreme(address: Array, least: Callable[[Array], int]) -> str | None:
    known = address[address != MISSING].astype(np.int64).view(np.uint64)
    return um.spelled(int(least(known))) if len(known) else None


def _of_totals(timeline: Timeline) -> ColumnValues:
    found = totals(timeline, MIGRATION)
    sizes = [
        combine(total for total in found if total.direction == direction).bytes_sum
        for direction in (um.HTOD, um.DTOH)
    ]
    names = [column.name for column in COLUMNS]
    values = (*sizes, None, None, None, None)
    return {name: [value] for name, value in zip(names, values, strict=True)}
