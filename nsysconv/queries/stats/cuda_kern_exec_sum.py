"""`cuda_kern_exec_sum` of `nsys stats`: how long kernels took to launch, to wait and to run."""

from __future__ import annotations

import numpy as np

from nsysconv.facts import Fact
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.queries.stats.api_calls import shown_name
from nsysconv.queries.stats.kernels import OPTIONS
from nsysconv.queries.stats.launched import launched, ordinals
from nsysconv.queries.stats.summary import Sum, statistics_columns, statistics_of, sums
from nsysconv.report import MISSING, Column, Printed
from nsysconv.timeline.arrays import factorize
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = (
    Column("pid", Unit.ID, "The process.", key=True, printed=Printed("PID")),
    Column("tid", Unit.ID, "The thread that launched it.", key=True, printed=Printed("TID")),
    Column("ordinal", Unit.ID, "CUDA ordinal of the device.", key=True, printed=Printed("DevId")),
    Column("kernel_count", Unit.COUNT, "Executions.", printed=Printed("Count")),
    Column(
        "queue_count",
        Unit.COUNT,
        "Those that did not start before their call returned.",
        printed=Printed("QCount"),
    ),
    *statistics_columns("total", "T"),
    *statistics_columns("api", "A"),
    *statistics_columns("queue", "Q"),
    *statistics_columns("kernel", "K"),
    Column(
        "api", Unit.TEXT, "The function that launched it.", key=True, printed=Printed("API Name")
    ),
    Column("name", Unit.TEXT, "Name of the kernel.", key=True, printed=Printed("Kernel Name")),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per thread, device, function and kernel, largest mean of the total first."""
    found, calls = launched(timeline, request), timeline.calls
    group, keys = factorize(
        calls.thread[found.call], found.device, calls.name_id[found.call], found.name
    )
    threads, devices, name_ids, names = (values.tolist() for values in keys)
    labels: list[tuple[str | None, ...]] = [()] * len(threads)
    queued = np.bincount(group[found.queue != MISSING], minlength=len(labels)).tolist()
    parts = (
        found.total,
        (calls.end - calls.start)[found.call],
        found.queue,
        found.end - found.start,
    )
    told: list[list[Sum]] = [sums(group, values, labels) for values in parts]
    symbols = timeline.profile.names(name_ids)
    ordinal = ordinals(timeline)
    pids, tids = zip(*(calls.threads[i] for i in threads), strict=True) if threads else ((), ())
    first = [
        pids,
        tids,
        [ordinal.get(device, MISSING) for device in devices],
        [row.count for row in told[0]],
        queued,
    ]
    last = [
        [shown_name(symbols[i]) for i in name_ids],
        [found.names[i] for i in names],
    ]
    every = [*first, *(values for part in told for values in statistics_of(part)), *last]
    order = sorted(
        range(len(labels)),
        key=lambda i: (-(told[0][i].mean or 0), *(column[i] for column in (*first[:3], *last))),
    )
    return {
        column.name: [values[i] for i in order]
        for column, values in zip(COLUMNS, every, strict=True)
    }


CUDA_KERN_EXEC_SUM = Query(
    title="CUDA Kernel Launch & Exec Time Summary",
    needs={Fact.KERNELS, Fact.API_CALLS, Fact.API_LINKS},
    uses={Fact.THREADS},
    options=OPTIONS,
    columns=COLUMNS,
    compute=compute,
)
