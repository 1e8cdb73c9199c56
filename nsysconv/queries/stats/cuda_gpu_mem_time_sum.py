"""`cuda_gpu_mem_time_sum` of `nsys stats`: time per kind of memory operation."""

from __future__ import annotations

from nsysconv.facts import Fact
from nsysconv.queries.contract import Data, Option, Request
from nsysconv.queries.stats.activities import of_memory_ops
from nsysconv.queries.stats.summary import most_first, time_columns, time_table
from nsysconv.report import Column, Printed
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

TITLE = "CUDA GPU MemOps Summary (by Time)"
NEEDS = frozenset({Fact.MEMCPYS})
USES = frozenset({Fact.MEMSETS, Fact.UNIFIED_MEMORY, Fact.UNIFIED_MEMORY_TOTALS})
TOTALS = frozenset({Fact.MEMORY_TOTALS})
OPTIONS: tuple[Option, ...] = ()
COLUMNS = time_columns(
    "memory_op",
    Column("memory_op_count", Unit.COUNT, "Operations.", printed=Printed("Count")),
    Column("operation", Unit.TEXT, "What it does.", key=True, printed=Printed("Operation")),
)


def compute(timeline: Timeline, request: Request) -> Data:
    """One row per kind of operation, most time first."""
    return time_table(COLUMNS, most_first(of_memory_ops(timeline)))
