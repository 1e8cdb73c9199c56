"""`cuda_gpu_kern_sum` of `nsys stats`: time per kernel."""

from __future__ import annotations

from nsysconv.facts import Fact
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.queries.stats.activities import of_kernels
from nsysconv.queries.stats.kernels import OPTIONS
from nsysconv.queries.stats.summary import most_first, time_columns, time_table
from nsysconv.report import Column, Printed
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = time_columns(
    "kernel",
    Column("kernel_count", Unit.COUNT, "Executions.", printed=Printed("Instances")),
    Column("name", Unit.TEXT, "Name of the kernel.", key=True, printed=Printed("Name")),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per name, most time first."""
    return time_table(COLUMNS, most_first(of_kernels(timeline, request)))


CUDA_GPU_KERN_SUM = Query(
    title="CUDA GPU Kernel Summary",
    needs={Fact.KERNELS},
    totals={Fact.KERNEL_TOTALS},
    options=OPTIONS,
    columns=COLUMNS,
    compute=compute,
)
