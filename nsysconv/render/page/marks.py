"""Small pieces of markup that all parts of the page are made of. Every text is escaped here."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from nsysconv.names import escaped, shorten, shorten_kernel
from nsysconv.report import Column, ProfileRef, Report
from nsysconv.units import Unit, human, scale_for

LONGEST = 60
"""Names of more characters are shortened where they are read at a glance."""
WHOLE = 4000
"""Names of more characters are nowhere in the page as a whole."""

_SUFFIXES = ("_bytes_per_s", "_ns", "_bytes", "_pct")
_KERNEL_COLUMNS = frozenset({"name", "next_op", "top_name"})


def escape(words: object) -> str:
    """The words as text of the page."""
    return html.escape(escaped(str(words)))


def tooltip(words: str) -> str:
    """The words in full, but for the middle of a very long name."""
    return escape(shorten(words, WHOLE))


def code(words: str, kernel: bool = True) -> str:
    """A name, shortened where it is long; all of it is a tooltip."""
    short = shortened(words, kernel)
    title = f' title="{tooltip(words)}"' if short != words else ""
    return f"<code{title}>{escape(short)}</code>"


def shortened(words: str, kernel: bool = True) -> str:
    """A name in few characters: of a kernel's what tells it apart, of others the ends."""
    return (shorten_kernel if kernel else shorten)(escaped(words), LONGEST)


def holds_kernels(column: Column) -> bool:
    """Whether names of kernels are among a column's texts."""
    return column.name in _KERNEL_COLUMNS


def column_words(column: str) -> str:
    """A column's name in words, without its unit: `kernel time`, `busy`."""
    if column.endswith("_sum_ns"):
        column = column.removesuffix("_sum_ns") + "_time"
    for suffix in _SUFFIXES:
        column = column.removesuffix(suffix)
    return column.replace("_", " ")


def amount(value: float | None, unit: Unit) -> str:
    """A value with its unit in few digits; what is not recorded is a dash."""
    if value is None:
        return "–"
    if unit is Unit.PCT:
        return f"{value:.1f} %"
    divisor, name_of_unit = scale_for(unit, value)
    if divisor == 1 and value != int(value):
        return f"{value:,.3g} {name_of_unit}".rstrip()
    return human(value, unit)


def share(part: float, whole: float) -> str:
    """`37.2 %`, and no 0.0 % or 100.0 % of what is not."""
    if not whole:
        return "–"
    pct = 100.0 * part / whole
    if 0 < pct < 0.05:
        return "< 0.1 %"
    if 99.95 <= pct < 100:
        return "> 99.9 %"
    return f"{pct:.1f} %"


def anchor(report_name: str) -> str:
    """A report's place in the page."""
    return "r-" + "".join(c if c.isalnum() else "-" for c in report_name)


def rows(report: Report | None) -> Iterator[dict[str, Any]]:
    """A report's rows, all of them where they are kept; none where it was not recorded."""
    if report is None or report.table is None:
        return
    names = [column.name for column in report.columns]
    table = report.table if report.uncut is None else report.uncut
    for row in replace(report, table=table).tuples():
        yield dict(zip(names, row, strict=True))


def row_place(row: dict[str, Any], profiles: Sequence[ProfileRef]) -> str:
    """What a row is about: the profile where there are several, the rank, the device."""
    words = []
    if len(profiles) > 1:
        rank, label = row.get("rank"), str(row.get("profile"))
        words.append(label if rank is None or str(rank) in label else f"{label}, rank {rank}")
    elif row.get("rank") is not None:
        words.append(f"rank {row['rank']}")
    if row.get("device_id") is not None:
        words.append(f"device {row['device_id']}")
    return ", ".join(words) or "GPU"
