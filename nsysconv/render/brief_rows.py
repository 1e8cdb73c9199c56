"""Tables as small JSON, for programs that pay by the word: leading columns, first rows, what is cut."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TextIO

from nsysconv.document import Section
from nsysconv.names import shorten
from nsysconv.notes import Note, Severity
from nsysconv.render.contract import Options
from nsysconv.render.json import FORM

MOST_BYTES = 4000
_MOST_ROWS, _MOST_NOTES = 100, 2
_NAME, _SENTENCE = 60, 160


def render_all(reports: Sequence[Section], out: TextIO, options: Options) -> None:
    """Write the same document with all rows of the reports: somebody asked for so many."""
    kept = [(report, _rows(report, len(report.rows()))) for report in reports]
    out.write(json.dumps(_document(reports, kept), separators=(",", ":")) + "\n")


def render(reports: Sequence[Section], out: TextIO, options: Options) -> None:
    """Write `reports`: of each its `rows_total` and first rows, with the brief columns that have values.

    No report has columns' descriptions: `nsysconv schema REPORT` prints these. What does not fit is cut:
    rows of the longest report first, then reports that were not recorded, then the last ones.
    """
    kept = [(report, _rows(report, _MOST_ROWS)) for report in reports]
    while True:
        text = json.dumps(_document(reports, kept), separators=(",", ":"))
        most = max((len(rows) for _, rows in kept), default=0)
        if len(text.encode()) < MOST_BYTES or not kept:
            out.write(text + "\n")
            return
        recorded = [each for each in kept if each[0].table is not None]
        if most > 1:
            longest = next(rows for _, rows in kept if len(rows) == most)
            del longest[most * 3 // 4 :]
        elif 0 < len(recorded) < len(kept):
            kept = recorded
        else:
            kept.pop()


def _document(
    reports: Sequence[Section], kept: Sequence[tuple[Section, list[dict[str, Any]]]]
) -> dict[str, Any]:
    notes = {note.slug: note for report in reports for note in report.notes}
    weightiest = sorted(notes.values(), key=lambda note: note.severity is not Severity.DROPPED)
    doubts = [note for note in weightiest if note.severity is not Severity.INFO][:_MOST_NOTES]
    return {
        "format": FORM,
        "reports": [_table(report, rows) for report, rows in kept],
        **({"notes": list(map(_note, doubts))} if doubts else {}),
        "omitted": {"notes": len(notes) - len(doubts), "reports": len(reports) - len(kept)},
    }


def _table(report: Section, rows: list[dict[str, Any]]) -> dict[str, Any]:
    if report.table is None:
        return {"name": report.name, "not_recorded": list(report.not_recorded)}
    kept = {name for row in rows for name in row}
    return {
        "name": report.name,
        "rows_total": report.row_count,
        "rows": rows,
        "columns_omitted": len(report.columns) - len(kept),
    }


def _rows(report: Section, most: int) -> list[dict[str, Any]]:
    # Key columns and brief ones; what is null is left out.
    names = [column.name for column in report.columns if column.key or column.brief]
    few = report.limited(most).rows() if report.table is not None else []
    return [{n: _short(row[n]) for n in names if row[n] is not None} for row in few]


def _note(note: Note) -> dict[str, str]:
    return {
        "slug": note.slug,
        "severity": note.severity.value,
        "text": shorten(note.text, _SENTENCE),
    }


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 3)
    return shorten(value, _NAME) if isinstance(value, str) else value
