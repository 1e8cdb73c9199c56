"""What has to be said with a table: what it is, what is missing, what to mind. No layout."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from nsysconv.names import escaped
from nsysconv.notes import Note, Severity
from nsysconv.report import Report
from nsysconv.units import Unit, scale_for

_SEVERITIES = {
    Severity.INFO: "note",
    Severity.APPROXIMATED: "approximated",
    Severity.DROPPED: "dropped",
}


_WEIGHTS = {severity: weight for weight, severity in enumerate(reversed(Severity))}

# What a slice's keys are called where their own name would not read well.
_WORDS = {
    "devices": "device",
    "streams": "stream",
    "ranks": "rank",
    "processes": "process",
    "threads": "thread",
    "skip_first": "steps left out first",
    "projected": "on the GPU",
}


def heading(report: Report) -> str:
    """The title, the profile where there is one, and the slice."""
    parts = [report.title]
    if len(report.profiles) == 1:
        profile = report.profiles[0]
        parts.append(profile.label or profile.path)
    if report.slice is not None:
        parts.append(slice_words(report.slice))
    return " - ".join(escaped(part) for part in parts if part)


def unrecorded_sentences(report: Report) -> list[str]:
    """That the report could not be made and what helps, a sentence each; none where it was made."""
    if report.table is not None:
        return []
    profiles = "this profile" if len(report.profiles) < 2 else "these profiles"
    missing = ", ".join(escaped(fact) for fact in report.not_recorded)
    first = f"Not recorded in {profiles}: {missing}." if missing else f"Not recorded in {profiles}."
    return [first, *(escaped(line) for text in report.advice for line in text.splitlines())]


def cut_sentence(report: Report) -> str:
    """That there are more rows than are shown, or nothing."""
    if report.table is None or report.row_count <= report.table.num_rows:
        return ""
    return f"… {report.table.num_rows:,} of {report.row_count:,} rows, --limit 0 shows all"


def empty_sentence(report: Report) -> str:
    """That the question could be answered, and the answer is an empty table; or nothing."""
    if report.table is None or report.table.num_rows:
        return ""
    return "No rows in this slice." if report.slice is not None else "No rows."


def sentences_below(report: Report, unrecorded: Sequence[str]) -> list[str]:
    """All that stands between a table, or its place, and the notes."""
    said = [
        *unrecorded_sentences(report),
        cut_sentence(report),
        empty_sentence(report),
        unrecorded_columns(unrecorded),
    ]
    return [sentence for sentence in said if sentence]


def unrecorded_columns(columns: Sequence[str]) -> str:
    """That these columns have no value in any row, or nothing."""
    return f"Not recorded in any row: {', '.join(columns)}" if columns else ""


def note_sentences(report: Report) -> Iterator[tuple[Note, str]]:
    """Each note with its text, what weighs most first: `note unlinked-ops: … (3 of 16: 18.8 %)`."""
    for note in sorted(report.notes, key=lambda note: (_WEIGHTS[note.severity], -note.share)):
        yield (
            note,
            f"{_SEVERITIES[note.severity]} {note.slug}: {escaped(note.text)}{_note_place(note)}",
        )


def _note_place(note: Note) -> str:
    where = escaped(note.where)
    if note.count == 1 and not note.of:
        return f" (at {where})" if where else ""
    times = f"{note.count:,} of {note.of:,}: {_share(note)}" if note.of else f"{note.count:,} times"
    return f" ({times}, first at {where})" if where else f" ({times})"


def _share(note: Note) -> str:
    """The part in percent; only nothing is 0 and only all is 100."""
    text = f"{100 * note.share:.1f}"
    if note.count < note.of:
        text = {"0.0": "<0.1", "100.0": ">99.9"}.get(text, text)
    return f"{text} %"


def slice_words(limits: Mapping[str, Any]) -> str:
    """The slice in words: `slice 1 s to 2 s, device 0`."""
    said = []
    if {"start_ns", "end_ns"} <= limits.keys():
        said.append(f"{_exact_time(limits['start_ns'])} to {_exact_time(limits['end_ns'])}")
    for key, value in limits.items():
        if key not in ("start_ns", "end_ns"):
            said.append(f"{_WORDS.get(key, key)}{_slice_value(value)}")
    return "slice " + ", ".join(said)


def _slice_value(value: Any) -> str:
    if value is True:
        return ""
    return f" {', '.join(map(str, value)) if isinstance(value, list) else value}"


def _exact_time(ns: int) -> str:
    """A moment without rounding, for it can be typed in again: 1500000001 is `1.500000001 s`."""
    divisor, unit = scale_for(Unit.NS, ns)
    number = f"{Decimal(ns) / int(divisor):f}"
    if "." in number:
        number = number.rstrip("0").removesuffix(".")
    return f"{number} {unit}"
