"""`cuda_gpu_kern_gb_sum` of `nsys stats`: time per kernel and size of its launch."""

from __future__ import annotations

from nsysconv.facts import Fact
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.queries.stats.kernels import AXES, OPTIONS, kernel_names, xyz
from nsysconv.queries.stats.summary import most_first, sums, time_columns, time_table
from nsysconv.report import Column, Printed
from nsysconv.timeline.arrays import factorize
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = time_columns(
    "kernel",
    Column("kernel_count", Unit.COUNT, "Executions.", printed=Printed("Instances")),
    Column("grid", Unit.TEXT, "Blocks in x, y and z.", key=True, printed=Printed("GridXYZ")),
    Column(
        "block",
        Unit.TEXT,
        "Threads of a block in x, y and z.",
        key=True,
        printed=Printed("BlockXYZ"),
    ),
    Column("name", Unit.TEXT, "Name of the kernel.", key=True, printed=Printed("Name")),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per name, grid and block, most time first."""
    names = kernel_names(timeline, request)
    column = timeline.columns("kernel", ("dur_ns", *AXES))
    group, found = factorize(names.number, *(column[axis] for axis in AXES))
    labels = [
        (xyz(*sizes[:3]), xyz(*sizes[3:]), names.texts[name])
        for name, *sizes in zip(*(values.tolist() for values in found), strict=True)
    ]
    return time_table(COLUMNS, most_first(sums(group, column["dur_ns"], labels)))


CUDA_GPU_KERN_GB_SUM = Query(
    title="CUDA GPU Kernel/Grid/Block Summary",
    needs={Fact.KERNELS},
    options=OPTIONS,
    columns=COLUMNS,
    compute=compute,
)
