"""Pieces of markup that all parts of the page are made of, and tables. Every text is escaped here.

Tables are sorted, searched, filtered and saved by the page's script, and are plain tables without it. A
number has a unit of its own, in which it reads well; rows carry the exact ones where that lost digits.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

from nsysconv.document import Section
from nsysconv.names import WHOLE, escaped, shorten, shorten_apart, shorten_kernel
from nsysconv.render import display
from nsysconv.render.display import DisplayColumn, informative_columns
from nsysconv.report import Unit, human, scale_for

LONGEST = 60
"""Names of more characters are shortened where they are read at a glance."""
_UNBROKEN = 32
"""Texts of more characters may be broken into lines in a table."""

_SUFFIXES = ("_bytes_per_s", "_flop_per_s", "_ns", "_bytes", "_pct", "_id")
_KERNEL_COLUMNS = frozenset({"name", "next_op", "top_name"})
_WORDS = {
    **{
        word: word.upper()
        for word in ("api", "cpu", "gpu", "sm", "pid", "tid", "utc", "flop", "mpi")
    },
    "device_id": "GPU",
    "htod": "HtoD",
    "dtoh": "DtoH",
    "dur": "duration",
    "est": "estimated",
    "um": "unified memory",
}
"""Words of the page for parts of columns' names, or for a whole one."""


def escape(words: object) -> str:
    """Return the words as text of the page."""
    return html.escape(escaped(str(words)))


def prose(words: object) -> str:
    """Return sentences as text of the page; what is between two backticks becomes code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(words))


def tooltip(words: str) -> str:
    """Return the words in full, but for the middle of a very long name."""
    return escape(shorten(words, WHOLE))


def code(words: str, kernel: bool = True) -> str:
    """Return a name as code, shortened where it is long; all of it is a tooltip."""
    short = shortened(words, kernel)
    title = f' title="{tooltip(words)}"' if short != words else ""
    return f"<code{title}>{escape(short)}</code>"


def shortened(words: str, kernel: bool = True) -> str:
    """Shorten a name: a kernel's to what distinguishes it, others to their ends."""
    return (shorten_kernel if kernel else shorten)(escaped(words), LONGEST)


def shortened_apart(names: Iterable[str], longest: int, kernel: bool = True) -> dict[str, str]:
    """Shorten names to so many characters so that no two of them look alike."""
    cut = shorten_kernel if kernel else shorten
    short = {escaped(name): cut(escaped(name), longest) for name in names}
    if len(set(short.values())) < len(short):
        short = shorten_apart(short, longest)
    return {name: short[escaped(name)] for name in names}


def column_words(column: str) -> str:
    """Return a column's name in words, without its unit: `kernel time`, `API time`, `GPU`."""
    if column.startswith("bucket_min_"):
        return "bucket"
    if column.endswith("_sum_ns"):
        column = column.removesuffix("_sum_ns") + "_time"
    if column.endswith("bytes_sum"):
        column = column.removesuffix("_sum")
    elif column not in _WORDS:
        for suffix in _SUFFIXES:
            column = column.removesuffix(suffix)
    return _WORDS.get(column) or " ".join(_WORDS.get(word, word) for word in column.split("_"))


def compared_column(report: Section) -> str | None:
    """Return the name of the column whose change a comparison is about; None in other reports."""
    names = (column.name for column in report.columns)
    return next((name.removeprefix("diff_") for name in names if name.startswith("diff_")), None)


def amount(value: float | None, unit: Unit) -> str:
    """Return a value with its unit in few digits; what is not recorded is a dash."""
    if value is None:
        return "–"
    if unit is Unit.PCT:
        return f"{value:.1f} %"
    divisor, name_of_unit = scale_for(unit, value)
    if divisor == 1 and value != int(value):
        return f"{value:,.3g} {name_of_unit}".rstrip()
    return human(value, unit)


def share(part: float, whole: float) -> str:
    """Return `37.2 %`, and no 0.0 % or 100.0 % for what is not."""
    if not whole:
        return "–"
    pct = 100.0 * part / whole
    if 0 < pct < 0.05:
        return "< 0.1 %"
    if 99.95 <= pct < 100:
        return "> 99.9 %"
    return f"{pct:.1f} %"


def anchor(report_name: str) -> str:
    """Return a report's anchor in the page."""
    return "r-" + "".join(c if c.isalnum() else "-" for c in report_name)


def data_element(data: dict[str, Any], ident: str) -> str:
    """Return data for the page's scripts as an element; whatever names are in it, they cannot end it."""
    encoded = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    encoded = encoded.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return f'<script type="application/json" id="{ident}">{encoded}</script>'


def rows(report: Section | None) -> Iterator[dict[str, Any]]:
    """Yield a report's rows, all of them where they are kept; none where it was not recorded."""
    if report is None or report.table is None:
        return
    names = [column.name for column in report.columns]
    table = report.table if report.uncut is None else report.uncut
    for row in replace(report, table=table).tuples():
        yield dict(zip(names, row, strict=True))


def places(report: Section) -> Callable[[Mapping[str, Any]], str]:
    """Return what says what a row is about, such as `rank 3, GPU 0`.

    Of several profiles it is the rank where each has one that no other has, else the profile's label.
    """
    by_rank = has_own_ranks(report)

    def place(row: Mapping[str, Any]) -> str:
        words = []
        rank, label = row.get("rank"), str(row.get("profile"))
        if len(report.profiles) > 1 and not by_rank:
            words.append(label)
            rank = None if str(rank) in label else rank
        if rank is not None:
            words.append(f"rank {rank}")
        if row.get("device_id") is not None:
            words.append(f"GPU {row['device_id']}")
        return ", ".join(words) or "GPU"

    return place


def has_own_ranks(report: Section) -> bool:
    """Return whether each row of a profile says its rank, and no two profiles have the same."""
    labels_of: dict[Any, set[Any]] = {}
    for row in rows(report):
        if row.get("profile") is not None:
            labels_of.setdefault(row.get("rank"), set()).add(row["profile"])
    return None not in labels_of and all(len(labels) == 1 for labels in labels_of.values())


def natural(words: str) -> list[tuple[int, str]]:
    """Return a key for sorting by which numbers in words are in their order: `GPU 2`, `GPU 10`."""
    parts = re.findall(r"[0-9]+|[^0-9]+", words)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


_FEW = 8
"""Tables of at most this number of rows have no search field."""


def report_table_html(
    report: Section, address: Callable[[Mapping[str, Any]], str | None] | None = None
) -> Iterator[str]:
    """Yield the rows, and the sentences below them; columns that are not brief can be hidden.

    Heads are words; their `data-name` is the column's name, and `data-x` the place of its exact numbers
    in each row's `data-v`. A row's `data-to` is its `address`, to which the script makes a link.
    """
    for said in report.texts:
        yield from (f"<p>{escape(said.head)}</p>",) if said.head else ()
        yield f"<ul>{''.join(f'<li>{prose(line)}' for line in said.lines)}</ul>"
    if not report.in_rows:
        yield from (f"<p>{escape(line)}</p>" for line in display.sentences_below(report, ()))
        return
    shown_table = informative_columns(report, own_units=not report.is_printed)
    ident = f"t{anchor(report.name)[1:]}"
    minor = [i for i, shown in enumerate(shown_table.columns, 1) if not shown.column.brief]
    long = any(len(cell) > len(short) for shown in shown_table.columns
               for cell, short in _shortened(shown))  # fmt: skip
    if minor:
        places = ",".join(f":nth-child({i})" for i in minor)
        yield f"<style>#{ident}:not(.full) :is(td,th):is({places}){{display:none}}</style>"
    hint = ' data-more="1"' if minor or long else ""
    search = ' data-search="1"' if report.table is not None and report.table.num_rows > _FEW else ""
    exact = {} if report.is_printed else _exact_values(report, shown_table.columns)
    yield f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(report.title)}">'
    table_rows = report if report.uncut is None else replace(report, uncut=None)
    to = [_leads_to(address and address(row)) for row in rows(table_rows)]
    first = next((i for i, shown in enumerate(shown_table.columns) if shown.column.brief), 0)
    link = f' data-link="{first}"' if any(to) else ""
    yield f'<table id="{ident}" class="full"{hint}{search}{link}><thead><tr>'
    yield from _headers(report, shown_table.columns, list(exact))
    yield "</tr></thead><tbody>"
    columns = [list(map(_cell, _shortened(s), [s] * len(s.cells))) for s in shown_table.columns]
    values = zip(*exact.values(), strict=True) if exact else repeat(())
    for cells, numbers, leads in zip(zip(*columns, strict=True), values, to, strict=False):
        yield f"<tr{_exact_attribute(numbers)}{leads}>{''.join(cells)}"
    yield "</table></div>"
    for line in display.sentences_below(report, shown_table.unrecorded):
        yield f'<p class="quiet">{prose(line)}</p>'


def _leads_to(address: str | None) -> str:
    return f' data-to="{escape(address)}"' if address else ""


def _exact_values(report: Section, columns: Sequence[DisplayColumn]) -> dict[str, list[str]]:
    # By name the columns of numbers of which what is shown is rounded, or in another unit.
    values_of = dict(zip((c.name for c in report.columns), report.by_column(), strict=True))
    found = {}
    for shown in columns:
        if shown.right:
            exact = ["" if value is None else str(value) for value in values_of[shown.column.name]]
            if any(cell.replace(",", "") != (text or display.NULL)
                   for cell, text in zip(shown.cells, exact, strict=True)):  # fmt: skip
                found[shown.column.name] = exact
    return found


def _exact_attribute(numbers: Sequence[str]) -> str:
    # What sorting, filters, and CSV of the page's script take in place of what is shown.
    return f' data-v="{",".join(numbers)}"' if numbers else ""


def _headers(
    report: Section, columns: Sequence[DisplayColumn], exact: Sequence[str]
) -> Iterator[str]:
    headers = dict(
        zip((c.name for c in report.columns), display.column_headers(report), strict=True)
    )
    words = [s.name if report.is_printed else column_words(s.column.name) for s in columns]
    texts = list(zip(words, (shown.unit for shown in columns), strict=True))
    for shown, (text, unit) in zip(columns, texts, strict=True):
        name, doc = headers[shown.column.name], shown.column.doc
        if texts.count((text, unit)) > 1:
            text = shown.column.name.replace("_", " ")
        kind = "" if shown.right else ' class="t"'
        place = f' data-x="{exact.index(name)}"' if name in exact else ""
        small = f" <small>{escape(unit)}</small>" if unit else ""
        yield (
            f'<th scope="col"{kind} data-name="{escape(name)}"{place} '
            f'title="{escape(f"{name}: {doc}" if doc else name)}">{escape(text)}{small}</th>'
        )


def _shortened(shown: DisplayColumn) -> list[tuple[str, str]]:
    if shown.right:
        return [(cell, cell) for cell in shown.cells]
    kernel = shown.column.name in _KERNEL_COLUMNS
    short = shortened_apart(dict.fromkeys(shown.cells), LONGEST, kernel)
    return [(shorten(cell, WHOLE), short[cell]) for cell in shown.cells]


def _cell(cell: tuple[str, str], shown: DisplayColumn) -> str:
    full, short = cell
    if shown.right:
        return f"<td>{escape(full.rstrip())}"
    # Blanks of a tree's level would stay in a line of their own before a word that is too long for it.
    level = len(full) - len(full.lstrip(" "))
    inset = f' style="padding-left:calc(0.6rem + {level}ch)"' if level else ""
    full, short = full.lstrip(" "), short.lstrip(" ")
    if full == short:
        return f'<td class="t{" w" if len(full) > _UNBROKEN else ""}"{inset}>{escape(full)}'
    spans = f'<span class="s">{escape(short)}</span><span class="l">{escape(full)}</span>'
    return f'<td class="t w"{inset}>{spans}'
