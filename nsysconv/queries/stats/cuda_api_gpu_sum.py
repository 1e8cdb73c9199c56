"""`cuda_api_gpu_sum` of `nsys stats`: time per API function, kernel and memory operation."""

from __future__ import annotations

from nsysconv.facts import Fact
from nsysconv.queries.contract import Query, Request, Result
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

COLUMNS = time_columns(
    "activity",
    Column(
        "activity_count", Unit.COUNT, "Calls, kernels or operations.", printed=Printed("Instances")
    ),
    CATEGORY,
    OPERATION,
)


def compute(timeline: Timeline, request: Request) -> Result:
    """One row per name, most time first."""
    rows = [
        *api_sums(timeline),
        *kernel_sums(timeline, request),
        *memory_sums(timeline),
    ]
    return Result(time_table(COLUMNS, most_first(rows)), notes=partial(timeline))


CUDA_API_GPU_SUM = Query(
    title="CUDA Summary (API/Kernels/MemOps)",
    needs={Fact.API_CALLS},
    uses={Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY, *GPU_KINDS},
    totals={Fact.API_TOTALS},
    options=OPTIONS,
    columns=COLUMNS,
    compute=compute,
)
