"""`cuda_gpu_mem_time_sum` of `nsys stats`: time per kind of memory operation."""

from __future__ import annotations

from nsysconv.facts import Fact
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.queries.stats.activities import of_memory_ops
from nsysconv.queries.stats.summary import most_first, time_columns, time_table
from nsysconv.report import Column, Printed
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = time_columns(
    "memory_op",
    Column("memory_op_count", Unit.COUNT, "Operations.", printed=Printed("Count")),
    Column("operation", Unit.TEXT, "What it does.", key=True, printed=Printed("Operation")),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per kind of operation, most time first."""
    return time_table(COLUMNS, most_first(of_memory_ops(timeline)))


CUDA_GPU_MEM_TIME_SUM = Query(
    title="CUDA GPU MemOps Summary (by Time)",
    needs={Fact.MEMCPYS},
    uses={Fact.MEMSETS, Fact.UNIFIED_MEMORY, Fact.UNIFIED_MEMORY_TOTALS},
    totals={Fact.MEMORY_TOTALS},
    columns=COLUMNS,
    compute=compute,
)
