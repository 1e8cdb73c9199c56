"""`cuda_gpu_sum` of `nsys stats`: time per kernel and memory operation."""

from __future__ import annotations

from nsysconv.facts import Fact
from nsysconv.queries.contract import Query, Request, Result
from nsysconv.queries.stats.activities import (
    CATEGORY,
    OPERATION,
    kernel_sums,
    memory_sums,
    partial,
)
from nsysconv.queries.stats.kernels import OPTIONS
from nsysconv.queries.stats.summary import most_first, time_columns, time_table
from nsysconv.report import Column, Printed
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = time_columns(
    "gpu_op",
    Column("gpu_op_count", Unit.COUNT, "Kernels or operations.", printed=Printed("Instances")),
    CATEGORY,
    OPERATION,
)


def compute(timeline: Timeline, request: Request) -> Result:
    """One row per name, most time first."""
    rows = most_first([*kernel_sums(timeline, request), *memory_sums(timeline)])
    return Result(time_table(COLUMNS, rows), notes=partial(timeline))


CUDA_GPU_SUM = Query(
    title="CUDA GPU Summary (Kernels/MemOps)",
    needs={Fact.KERNELS},
    uses={Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY, Fact.UNIFIED_MEMORY_TOTALS},
    totals={Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS},
    options=OPTIONS,
    columns=COLUMNS,
    compute=compute,
)
