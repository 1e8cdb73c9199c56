"""TSV: one report, a header of column names, base units unrounded, no quotes. Notes go elsewhere.

An empty cell is null (not recorded), and also an empty name. A tab, line break or backslash in a
name is written `\\t`, `\\n`, `\\r`, `\\\\`, so that a line is a row for cut and awk, and nothing is
lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from nsysconv.render.contract import Options, encodable, only
from nsysconv.render.values import Value, rows
from nsysconv.report import Report

SUFFIX = ".tsv"

_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def render(reports: Sequence[Report], out: TextIO, options: Options) -> None:
    """Write the one report."""
    report = only(reports, "tsv")
    out.write("\t".join(column.name for column in report.columns) + "\n")
    for row in rows(report):
        out.write(encodable("\t".join(map(_cell, row)), out, "backslashreplace") + "\n")


def _cell(value: Value) -> str:
    if value is None:
        return ""
    return value.translate(_ESCAPES) if isinstance(value, str) else repr(value)
