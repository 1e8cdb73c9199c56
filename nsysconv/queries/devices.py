"""What each device is, and what it could do at most."""

from __future__ import annotations

from typing import Any

from nsysconv import schema
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.queries.columns import BY_DEVICE, values_by_column
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.report import Column, Unit
from nsysconv.timeline.peaks import KINDS, device_peaks
from nsysconv.timeline.timeline import Timeline

_WHOLE = {"int8_tensor": ", which are not floating-point operations"}
_BRIEF_PEAKS = ("fp32", "tf32_tensor", "fp16_tensor")
COLUMNS = (
    *BY_DEVICE,
    Column("device", Unit.TEXT, "Name of the GPU; null: not recorded."),
    Column(
        "compute_capability",
        Unit.TEXT,
        "Compute capability; for AMD GPUs the architecture number (9.4: gfx94…).",
        brief=False,
    ),
    Column("sm_count", Unit.COUNT, "Number of SMs; for AMD GPUs of compute units."),
    Column("sm_clock_hz", Unit.HZ, "Maximum SM clock."),
    Column("memory_clock_hz", Unit.HZ, "Maximum memory clock.", brief=False, optional=True),
    Column("memory_bytes", Unit.BYTES, "Size of the device memory."),
    Column(
        "memory_bandwidth_bytes_per_s",
        Unit.BYTES_PER_S,
        "Memory bandwidth, as recorded.",
        brief=False,
    ),
    Column(
        "threads_per_warp", Unit.COUNT, "Threads per warp; for AMD GPUs per wavefront.", brief=False
    ),
    Column("max_warps_per_sm", Unit.COUNT, "Maximum resident warps per SM.", brief=False),
    Column(
        "max_threads_per_sm",
        Unit.COUNT,
        "Maximum resident threads per SM, as recorded, else computed from warps.",
        brief=False,
    ),
    Column("max_blocks_per_sm", Unit.COUNT, "Maximum resident blocks per SM.", brief=False),
    Column("max_registers_per_sm", Unit.COUNT, "Registers per SM.", brief=False),
    Column("max_shared_bytes_per_sm", Unit.BYTES, "Shared memory per SM.", brief=False),
    *(
        Column(
            f"peak_{kind}_flop_per_s",
            Unit.FLOP_PER_S,
            f"Peak rate of {words} operations, without sparsity{_WHOLE.get(kind, '')}; null: "
            "unknown.",
            brief=kind in _BRIEF_PEAKS,
            optional=True,
        )
        for kind, words in KINDS.items()
    ),
    Column(
        "peak_memory_bytes_per_s",
        Unit.BYTES_PER_S,
        "Peak memory bandwidth; null: unknown.",
        optional=True,
    ),
    Column(
        "peak_source",
        Unit.TEXT,
        "Source of the peaks: the vendor's publication, or how they were computed; null: no "
        "peaks are known.",
    ),
)
_RECORDED = tuple(c.name for c in COLUMNS[4:] if c.name in schema.device.columns)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per described device, by its number, whatever ran on it.

    Raises NotRecorded where nothing is known of any.
    """
    profile = timeline.profile
    rows = [
        _row(timeline, row)
        for row in profile.rows("device")
        if row["name"] or any(row[name] for name in _RECORDED)
    ]
    if not rows:
        advice = profile.advice.get(Fact.DEVICES)
        raise NotRecorded("devices", ["what the devices are"], [advice] if advice else [])
    return values_by_column(rows, COLUMNS[1:])


DEVICES = Query(columns=COLUMNS, compute=compute)


def _row(timeline: Timeline, described: dict[str, Any]) -> dict[str, Any]:
    device, major = described["device_id"], described["compute_major"]
    row = {name: described[name] for name in _RECORDED}
    row |= {
        "device_id": device,
        "rank": timeline.rank_of(timeline.pids_on(device)) if device in timeline.devices else None,
        "device": described["name"],
        "compute_capability": None
        if major is None
        else f"{major}.{described['compute_minor'] or 0}",
    }
    warps, threads = row["max_warps_per_sm"], row["threads_per_warp"]
    if row["max_threads_per_sm"] is None and warps and threads:
        row["max_threads_per_sm"] = warps * threads
    peaks = device_peaks(described)
    if peaks is not None:
        row |= {f"peak_{kind}_flop_per_s": rate for kind, rate in peaks.flop_per_s.items()}
        row |= {"peak_memory_bytes_per_s": peaks.bytes_per_s, "peak_source": peaks.source}
    return row
