"""Comparison of a file in place with its store: the rows of reports, and notes on missing rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from findings import Looked

from nsysconv.facts import Fact
from nsysconv.importers.nsys_sqlite import tables

Document = Mapping[str, Any]
"""A report as its JSON has it."""

# In place these notes are about whole tables; rows have theirs in the reports that read them.
_ABOUT = ("profile", "facts")
_DIRECTIVES = (*tables.OPENMP, *tables.OPENACC)
_ON_REQUEST = frozenset(fact.label for fact in (Fact.OSRT_CALLS, Fact.METRICS))
_SHOWN = 1000


def compare(
    imported: Mapping[str, Document], in_place: Mapping[str, Document], looked: Looked
) -> None:
    """Compare each report of a store and of the file in place, by name."""
    for name in imported.keys() & in_place.keys() - set(_ABOUT):
        one, other = imported[name], in_place[name]
        # What a store holds only where it was included, a report that cannot do without reads of a file.
        if not one["rows"] and set(one["not_recorded"]) & _ON_REQUEST:
            continue
        if _rows(one) != _rows(other):
            detail = f"{name}\n{_difference(one, other)}"
            looked.wrong("in place as imported", detail, f"in place {name}")
        # Where a report has no rows, it had no need to read every table.
        elif one["row_count"] and _left_out(one) != _left_out(other):
            detail = f"{name}\nimported {_left_out(one)}\nin place {_left_out(other)}"
            slugs = sorted({slug for slug, *_ in _left_out(one) ^ _left_out(other)})
            looked.wrong("the same notes in place", detail, f"notes in place {slugs}")


def _rows(report: Document) -> Any:
    return report["row_count"], report["rows"], report["not_recorded"]


def _difference(one: Document, other: Document) -> str:
    for first, second in zip(one["rows"] or (), other["rows"] or (), strict=False):
        if first != second:
            return f"imported {str(first)[:_SHOWN]}\nin place {str(second)[:_SHOWN]}"
    answers = [f"{r['row_count']} rows, not recorded: {r['not_recorded']}" for r in (one, other)]
    return f"imported {answers[0]}\nin place {answers[1]}"


def _left_out(report: Document) -> set[tuple[Any, ...]]:
    return {
        (note["slug"], note["text"], note["count"])
        for note in report["notes"]
        # Directives are read only where no call and no operator says what a thread did, ranges of gaps
        # only where a call followed.
        if "left out" in note["text"]
        and not note["text"].startswith(_DIRECTIVES)
        and not (report["report"] == "idle_gaps" and note["text"].startswith("NVTX_EVENTS"))
    }
