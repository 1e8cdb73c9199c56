"""JSON: all reports in one document, base units unrounded, null = not recorded and nothing else.

`rows` is null where the report could not be made; `not_recorded` says what is missing, and the counts
of rows are null as well, for a zero would be an answer. A row or a declaration is a line, so that grep
and diff work. Each row has a key. A headline is a field of the document beside its reports. The form is
described in docs/json.md.

A printed report that is alone is what its readers know instead: an array of objects whose keys are
its headers, with its rounding, and an empty text for null. Its notes go to `notes_text`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TextIO

from nsysconv.document import Section
from nsysconv.notes import Note
from nsysconv.render.contract import Options
from nsysconv.render.display import column_headers, printed_rows
from nsysconv.render.row_keys import row_keys
from nsysconv.report import Column

SUFFIX = ".json"

# The form's version. It grows when a reader of the old form would go wrong, not with new fields.
FORM = 2

# What json leaves as it is and yet steers a terminal (C1 codes, direction marks), or is no text
# (surrogates).
_UNSAFE = re.compile("[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_NOT_ASCII = re.compile("[^\x00-\x7f]")

# As `json.dumps`, which would make an encoder for every row.
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


def render(reports: Sequence[Section], out: TextIO, options: Options) -> None:
    """Write the document. Rows are written as they are made, never held together."""
    if is_printed(reports):
        for piece in _array(reports[0]):
            out.write(_encodable(piece, out))
        return
    out.write(f'{{"format": {FORM}, ')
    for headline in (report for report in reports if report.headline):
        out.write(_encodable(_headline(headline), out))
    tables = [report for report in reports if not report.headline]
    out.write('"reports": [')
    for i, report in enumerate(tables):
        out.write(",\n" if i else "\n")
        for piece in _pieces(report):
            out.write(_encodable(piece, out))
    out.write("\n]}\n" if tables else "]}\n")


def columns_schema(name: str, title: str, columns: Sequence[Column]) -> dict[str, Any]:
    """Return the JSON Schema of a report's rows: each column's type, unit, and what it means."""
    kinds = {"int": "integer", "float": "number", "text": "string"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        "description": title,
        "type": "object",
        "properties": {
            column.name: {
                "type": [kinds[column.kind], "null"],
                "unit": column.unit.value,
                "description": column.doc,
                **({"key": True} if column.key else {}),
                **({"brief": True} if column.brief else {}),
            }
            for column in columns
        },
    }


def is_printed(reports: Sequence[Section]) -> bool:
    """Return whether these reports are one printed report with an answer."""
    return len(reports) == 1 and reports[0].is_printed and reports[0].table is not None


def _headline(report: Section) -> str:
    (row,) = report.rows()
    value = {"line": report.title, **row, "notes": [*map(_note, report.notes)]}
    return f"{_dump(report.name)}: {_dump(value)},\n"


def _array(report: Section) -> Iterator[str]:
    keys = [_dump(header) for header in column_headers(report)]
    quoted = [column.kind == "text" for column in report.columns]
    opening = "[\n"
    for row in printed_rows(report):
        cells = zip(keys, row, quoted, strict=True)
        pairs = (f"{key}: {_dump(text) if name or not text else text}" for key, text, name in cells)
        yield f"{opening} {{{', '.join(pairs)}}}"
        opening = ",\n"
    yield "[]\n" if opening == "[\n" else "\n]\n"


def _pieces(report: Section) -> Iterator[str]:
    profiles = (
        {"id": p.id, "label": p.label, "source": p.source, "path": p.path} for p in report.profiles
    )
    columns = (
        {"name": c.name, "unit": str(c.unit), "doc": c.doc, "key": c.key, "better": c.better,
         "adds": c.adds_up}
        for c in report.columns
    )  # fmt: skip
    yield f' {{"report": {_dump(report.name)},\n  "profiles": '
    yield from _listed(profiles)
    limits = None if report.slice is None else dict(report.slice)
    yield f',\n  "slice": {_dump(limits)},\n  "columns": '
    yield from _listed(columns)
    yield from _rows(report)
    yield ',\n  "notes": '
    yield from _listed(map(_note, report.notes))
    yield ',\n  "not_recorded": '
    yield from _listed(report.not_recorded)
    yield "}"


def _rows(report: Section) -> Iterator[str]:
    if report.table is None:
        counts, rows = (None, None, None), iter(["null"])
    else:
        shown = report.table.num_rows
        count = max(report.row_count, shown)
        counts, rows = (count, shown, count - shown), _listed(_keyed_rows(report))
    for name, value in zip(("row_count", "rows_shown", "rows_cut"), counts, strict=True):
        yield f',\n  "{name}": {_dump(value)}'
    yield ',\n  "rows": '
    yield from rows


def _keyed_rows(report: Section) -> Iterator[dict[str, Any]]:
    names = [column.name for column in report.columns]
    field = "key"
    # A column that somebody selected with `sql` keeps its name.
    while field in names:
        field = f"row_{field}"
    names.insert(0, field)
    key_of = row_keys(report.columns)
    for row in report.tuples():
        yield dict(zip(names, (key_of(row), *row), strict=True))


def _note(note: Note) -> dict[str, Any]:
    return {
        "slug": note.slug,
        "severity": str(note.severity),
        "count": note.count,
        "of": note.of or None,
        "where": note.where,
        "text": note.text,
    }


def _listed(items: Iterable[Any]) -> Iterator[str]:
    empty = True
    for item in items:
        yield f"{'[' if empty else ','}\n   {_dump(item)}"
        empty = False
    yield "[]" if empty else "\n  ]"


def _dump(value: Any) -> str:
    text = _encode(value)
    if text.isascii() and "\x7f" not in text:
        return text
    return _UNSAFE.sub(_escape, text)


def _encodable(piece: str, out: TextIO) -> str:
    if piece.isascii():
        return piece
    try:
        piece.encode(getattr(out, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return _NOT_ASCII.sub(_escape, piece)
    return piece


def _escape(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]
