"""`cuda_api_gpu_sum` of `nsys stats`: time per API function, kernel and memory operation."""

from __future__ import annotations

from nsysconv.facts import Fact
from nsysconv.queries.contract import Answer, Request
from nsysconv.queries.stats.activities import (
    CATEGORY,
    OPERATION,
    api_sums,
    kernel_sums,
    memory_sums,
    partial,
)
from nsysconv.queries.stats.kernels import OPTIONS
from nsysconv.queries.stats.summary import most_first, time_columns, time_table
from nsysconv.report import Column, Printed
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import GPU_KINDS
from nsysconv.units import Unit

__all__ = ["OPTIONS"]

TITLE = "CUDA Summary (API/Kernels/MemOps)"
NEEDS = frozenset({Fact.API_CALLS})
USES = frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY, *GPU_KINDS})
TOTALS = frozenset({Fact.API_TOTALS})
COLUMNS = time_columns(
    "activity",
    Column(
        "activity_count", Unit.COUNT, "Calls, kernels or operations.", printed=Printed("Instances")
    ),
    CATEGORY,
    OPERATION,
)


def compute(timeline: Timeline, request: Request) -> Answer:
    """One row per name, most time first."""
    rows = [
        *api_sums(timeline),
        *kernel_sums(timeline, request),
        *memory_sums(timeline),
    ]
    return Answer(time_table(COLUMNS, most_first(rows)), notes=partial(timeline))
