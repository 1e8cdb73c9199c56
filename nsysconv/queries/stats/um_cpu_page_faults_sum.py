"""Page faults of CPUs on unified memory, by the instruction that caused them."""

from __future__ import annotations

import numpy as np

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.report import MISSING, Column, Printed
from nsysconv.timeline.arrays import distinct, factorize, sums
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = (
    Column("fault_count", Unit.COUNT, "Faults.", better="less", printed=Printed("CPU Page Faults")),
    Column(
        "instruction",
        Unit.TEXT,
        "The instruction that faulted.",
        key=True,
        printed=Printed("CPU Instruction Address"),
    ),
    Column("source_file", Unit.TEXT, "Its source file.", key=True, printed=Printed("Source File")),
    Column("source_line", Unit.ID, "Its line there.", key=True, printed=Printed("Source Line")),
)

_CPU = codes.PAGE_FAULT_KINDS.index("cpu")


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """One row per instruction, most faults first."""
    names = ("kind", "count", "instruction_id", "source_file_id", "source_line")
    column = timeline.columns("page_fault", names)
    mine = column["kind"] == _CPU
    size, *keys = (column[name][mine] for name in names[1:])
    group, (instruction, file, line) = factorize(*keys)
    # A fault whose number is not told is one.
    faults = sums(group, np.where(size == MISSING, 1, size), len(line)).tolist()
    texts = timeline.profile.names(distinct(np.concatenate((instruction, file))))
    told: dict[int, str | None] = {**texts, MISSING: None}
    rows = [
        (count, told[i], told[f], place)
        for count, i, f, place in zip(
            faults, instruction.tolist(), file.tolist(), line.tolist(), strict=True
        )
    ]
    rows.sort(key=lambda row: (-row[0], row[1] or "", row[2] or "", row[3]))
    return {
        "fault_count": [row[0] for row in rows],
        "instruction": [row[1] for row in rows],
        "source_file": [row[2] for row in rows],
        "source_line": [row[3] for row in rows],
    }


UM_CPU_PAGE_FAULTS_SUM = Query(
    title="Unified Memory CPU Page Faults Summary",
    needs={Fact.PAGE_FAULTS},
    columns=COLUMNS,
    compute=compute,
)
