"""CSV: one report, a header of column names, base units unrounded. Notes go to `notes_text`.

An empty cell is null (not recorded), and also an empty name. Lines end in one newline. Names stand
as they are, also those that begin with `=`, `+`, `-` or `@`: programs read this, and a prefix
against spreadsheets that take a name for a formula would change it. Only what the stream cannot
encode (lone surrogates) is spelled out, and on a terminal control characters, which would steer it. A
report that was not recorded has its header and no row.
A printed report has its own headers and rounding.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import TextIO

from nsysconv.document import Section
from nsysconv.names import encodable, escaped
from nsysconv.render.contract import Options, single_report
from nsysconv.render.display import column_headers, printed_rows

SUFFIX = ".csv"


class _Lines:
    # Takes the csv writer's `\r\n`, gives `\n`: with "\n" as its own line end, Python before 3.11.9
    # leaves a name's carriage return unquoted.

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, line: str) -> int:
        line = line.removesuffix("\r\n")
        line = escaped(line) if self._out.isatty() else line
        return self._out.write(encodable(line, self._out, "backslashreplace") + "\n")


def render(reports: Sequence[Section], out: TextIO, options: Options) -> None:
    """Write the one report."""
    report = single_report(reports, "csv")
    writer = csv.writer(_Lines(out), lineterminator="\r\n")
    writer.writerow(column_headers(report))
    writer.writerows(printed_rows(report) if report.is_printed else report.tuples())
