"""The sides of a comparison on the page: before and after, in place of base and other."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from nsysconv.document import Section
from nsysconv.report import Column, report_table

WORDS = {"base": "before", "other": "after"}
"""The words for the sides, by those of the reports."""

_PREFIX = re.compile(r"^(base|other)(?=_|$)")
_HEAD = re.compile(r"^(Base|Other)(?=:)|^Other (?:minus|less) base\b|^Other divided by base\b")
_IN = re.compile(r"\bin (base|other)\b(?=[.,:;]|$)")
_CELLS = {"where", "why", "side"}
_IN_CELL = re.compile(r"^(?P<only>only in )?(?P<side>base|other)$")
# Not as a part of the name of a profile or a file: base.sqlite, other-3.
_WORD = r"(?<![\w./-])(?:{})(?![\w/-]|\.\w)"
_IN_NOTE = re.compile(_WORD.format("base"))
_SIDE = re.compile(_WORD.format("base|other"))
_MISSING = re.compile(r"\((base|other)\)$")


def in_words(report: Section) -> Section:
    """Return a report of a comparison with its columns and cells in the words of the page."""
    columns = tuple(map(_column, report.columns))
    names = [column.name for column in columns]
    tables = []
    for table in (report.table, report.uncut):
        if table is not None:
            table = table.rename_columns(names)
            for place, column in enumerate(columns):
                if column.name in _CELLS:
                    cells = [_cell(text) for text in table.column(place).to_pylist()]
                    plain = report_table([column], {column.name: cells})
                    table = table.set_column(place, column.name, plain.column(0))
        tables.append(table)
    missing = tuple(
        _MISSING.sub(lambda found: f"({WORDS[found[1]]})", m) for m in report.not_recorded
    )
    return replace(report, columns=columns, table=tables[0], uncut=tables[1], not_recorded=missing)


def of_sides(text: str) -> str:
    """Return a sentence on base and other in the words of the page."""
    return _SIDE.sub(lambda found: WORDS[found[0]], text)


def side_words(texts: Iterable[str]) -> str:
    """Return which sides notes on a comparison speak of; nothing where they speak of none."""
    if not any(_IN_NOTE.search(text) for text in texts):
        return ""
    return "Base is the side before, other the one after."


def _column(column: Column) -> Column:
    name = _PREFIX.sub(lambda found: WORDS[found[1]], column.name)
    doc = _IN.sub(lambda found: WORDS[found[1]], _HEAD.sub(_head, column.doc))
    return replace(column, name=name, doc=doc)


def _head(found: re.Match[str]) -> str:
    text = found[0]
    for name, word in WORDS.items():
        text = text.replace(name.title(), word.title()).replace(name, word)
    return text


def _cell(text: str | None) -> str | None:
    found = _IN_CELL.fullmatch(text or "")
    if found is None:
        return text
    return f"only {WORDS[found['side']]}" if found["only"] else WORDS[found["side"]]
