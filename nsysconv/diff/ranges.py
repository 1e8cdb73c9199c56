"""Names of ranges: what a framework numbers anew in every run is no part of them."""

from __future__ import annotations

import re
from dataclasses import replace

from nsysconv.report import Report, report_table

# PyTorch numbers the operators of a run: `aten::mm, seq = 47588, op_id = 999618`.
_OPERATOR_NUMBERS = re.compile(
    r",? (?:stashed )?(?:seq|op_id|seqid|input_op_ids) = (?:\[[^\]]*\]|[^,]*)"
)


def range_key(name: str) -> str:
    """The name of a range without the numbers that a framework gives its operators."""
    return _OPERATOR_NUMBERS.sub("", name)


def without_operator_numbers(report: Report) -> Report:
    """A report whose names of ranges are such names."""
    if report.table is None:
        return report
    place = report.table.column_names.index("name")
    names = [range_key(name) for name in report.table.column(place).to_pylist()]
    renamed = report_table([report.columns[place]], {"name": names})
    return replace(report, table=report.table.set_column(place, "name", renamed.column(0)))
