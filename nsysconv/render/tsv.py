"""TSV: one report, a header of column names, base units unrounded, no quotes. Notes go elsewhere.

An empty cell is null (not recorded), and also an empty name. A tab, line break or backslash in a
name is written `\\t`, `\\n`, `\\r`, `\\\\`, so that a line is a row for cut and awk, and nothing is
lost. On a terminal control characters are escaped, too, which would steer it. A printed report has its
own headers and rounding, and a blank in place of a tab or line break.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TextIO

from nsysconv.document import Section
from nsysconv.names import encodable, escaped
from nsysconv.render.contract import Options, single_report
from nsysconv.render.display import column_headers, printed_rows
from nsysconv.report import Value

SUFFIX = ".tsv"

_BLANKS = str.maketrans("\t\n\r", "   ")
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})


def render(reports: Sequence[Section], out: TextIO, options: Options) -> None:
    """Write the one report."""
    report = single_report(reports, "tsv")
    cell: Callable[[Any], str] = _printed_cell if report.is_printed else _cell
    shown: Callable[[str], str] = escaped if out.isatty() else str
    headers = "\t".join(map(shown, column_headers(report)))
    out.write(encodable(headers, out, "backslashreplace") + "\n")
    for row in printed_rows(report) if report.is_printed else report.tuples():
        line = "\t".join(shown(cell(value)) for value in row)
        out.write(encodable(line, out, "backslashreplace") + "\n")


def _printed_cell(text: str) -> str:
    return text.translate(_BLANKS)


def _cell(value: Value) -> str:
    if value is None:
        return ""
    return value.translate(_ESCAPES) if isinstance(value, str) else repr(value)
