"""Migrations of unified memory and page faults, by virtual address."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.contract import ColumnValues, Option, Query, Request
from nsysconv.queries.stats import um
from nsysconv.report import MISSING, Column, Printed
from nsysconv.timeline.arrays import counts, factorize, sums
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

Array = np.ndarray

_NONE = "null: there was none"
COLUMNS = (
    Column(
        "address",
        Unit.TEXT,
        f"The address, {um.ADDRESS}.",
        key=True,
        printed=Printed("Virtual Address"),
    ),
    Column(
        "htod_bytes_sum",
        Unit.BYTES,
        f"Bytes that migrated to a device; {_NONE}.",
        better="less",
        printed=Printed("HtoD Migration Size (MB)", 3, um.MEGA),
    ),
    Column(
        "dtoh_bytes_sum",
        Unit.BYTES,
        f"Bytes that migrated to the host; {_NONE}.",
        better="less",
        printed=Printed("DtoH Migration Size (MB)", 3, um.MEGA),
    ),
    Column(
        "cpu_fault_count",
        Unit.COUNT,
        f"Page faults of CPUs; {_NONE}, or they were not recorded.",
        better="less",
        printed=Printed("CPU Page Faults"),
    ),
    Column(
        "gpu_fault_count",
        Unit.COUNT,
        f"Page faults of GPUs; {_NONE}, or they were not recorded.",
        better="less",
        printed=Printed("GPU Page Faults"),
    ),
    Column(
        "throughput_bytes_per_s",
        Unit.BYTES_PER_S,
        "Bytes that migrated, times the whole part of one second by the sum of the durations.",
        better="more",
        printed=Printed("Migration Throughput (MB/s)", 3, um.MEGA),
    ),
)

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class _Address:
    address: int
    htod: int | None
    dtoh: int | None
    cpu: int | None
    gpu: int | None
    throughput: int | None


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per address, highest throughput first, at most as many as option `rows` says."""
    rows = _rows(timeline)
    rows.sort(
        key=lambda row: (
            -(-1 if row.throughput is None else row.throughput),
            um.unsigned(row.address),
        )
    )
    most = int(request.options["rows"])
    rows = rows[:most] if most > 0 else rows
    return {
        "address": [um.spelled(um.unsigned(row.address)) for row in rows],
        "htod_bytes_sum": [row.htod for row in rows],
        "dtoh_bytes_sum": [row.dtoh for row in rows],
        "cpu_fault_count": [row.cpu for row in rows],
        "gpu_fault_count": [row.gpu for row in rows],
        "throughput_bytes_per_s": [row.throughput for row in rows],
    }


UM_SUM = Query(
    title="Unified Memory Analysis Summary",
    needs={Fact.UNIFIED_MEMORY},
    uses={Fact.PAGE_FAULTS},
    options=(Option("rows", 10, "So many rows at most; 0 or less: all."),),
    columns=COLUMNS,
    compute=compute,
)


def _rows(timeline: Timeline) -> list[_Address]:
    moved, faults = um.migrations(timeline), um.faults(timeline)
    parts = [moved.of(um.HTOD), moved.of(um.DTOH)]
    parts += [] if faults is None else [faults.of(um.CPU), faults.of(um.GPU)]
    group, (addresses,) = factorize(np.concatenate([part.address for part in parts]))
    count = len(addresses)
    told: list[list[int | None]] = []
    spent = np.zeros(count, np.int64)
    low = 0
    for part in parts:
        own = group[low : low + len(part.address)]
        low += len(own)
        total = sums(own, np.where(part.quantity == MISSING, 0, part.quantity), count)
        spent += sums(own, np.where(part.dur == MISSING, 0, part.dur), count)
        some = counts(own, count) > 0
        told.append([t if s else None for t, s in zip(total.tolist(), some.tolist(), strict=True)])
    told += [[None] * count] * (4 - len(told))
    return [
        _Address(address, htod, dtoh, cpu, gpu, _throughput(htod, dtoh, ns))
        for address, htod, dtoh, cpu, gpu, ns in zip(
            addresses.tolist(), *told, spent.tolist(), strict=True
        )
    ]


def _throughput(htod: int | None, dtoh: int | None, ns: int) -> int | None:
    if not ns:
        return None
    return ((htod or 0) + (dtoh or 0)) * (_SECOND_NS // ns)
