"""`cuda_gpu_mem_size_sum` of `nsys stats`: bytes per kind of memory operation."""

from __future__ import annotations

from nsysconv.facts import Fact
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.queries.stats.memory_ops import KINDS, memory_ops, name_of
from nsysconv.queries.stats.summary import (
    most_first,
    size_columns,
    size_table,
    sizes_of_totals,
    sums,
)
from nsysconv.report import Column, Printed
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import totals
from nsysconv.units import Unit

COLUMNS = size_columns(
    Column("memory_op_count", Unit.COUNT, "Operations.", printed=Printed("Count")),
    Column("operation", Unit.TEXT, "What it does.", key=True, printed=Printed("Operation")),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per kind of operation, most bytes first."""
    if Fact.MEMCPYS in timeline.profile.facts:
        ops = memory_ops(timeline)
        rows = sums(ops.name, ops.bytes, [(name,) for name in ops.names])
    else:
        rows = sizes_of_totals(totals(timeline, *KINDS), name_of, lambda name: (name,))
    return size_table(COLUMNS, most_first(rows))


CUDA_GPU_MEM_SIZE_SUM = Query(
    title="CUDA GPU MemOps Summary (by Size)",
    needs={Fact.MEMCPYS},
    uses={Fact.MEMSETS, Fact.UNIFIED_MEMORY, Fact.UNIFIED_MEMORY_TOTALS},
    totals={Fact.MEMORY_TOTALS},
    columns=COLUMNS,
    compute=compute,
)
