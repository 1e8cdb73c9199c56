"""The answer as JSON of at most 2 kB, for programs that pay by the word."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from nsysconv.codes import TIME_CLASS_COLUMNS
from nsysconv.document import Section
from nsysconv.names import drop_clauses, shorten
from nsysconv.notes import Note, Severity
from nsysconv.render.contract import Options
from nsysconv.render.json import FORM

MOST_BYTES = 2000
_MOST_DEVICES, _MOST_FINDINGS, _MOST_NOTES = 2, 3, 2
_NAME, _SENTENCE, _NOTE, _MOST_LINES = 40, 200, 120, 8
_DEVICE = ("profile", "rank", "device_id", "device", "span_ns", "window_ns", "busy_pct")
_FINDING = (
    "rule",
    "saving_ns",
    "cost_ns",
    "share_pct",
    "part_of",
    "rank",
    "device_id",
    "finding",
    "advice",
    "event",
    "gap",
)
_CHECKS = {"rules-found-nothing", "rules-cannot-look"}
_REPORTS, _NEXT = 2, "next"
_CLASS_COLUMNS = frozenset(TIME_CLASS_COLUMNS.values())


def render(reports: Sequence[Section], out: TextIO, options: Options) -> None:
    """Write the document: `answer`, `devices`, the least busy ones first, `findings`, `omitted`.

    Without timed GPU work, the sections of the answer for people follow these reports: `lines` has what
    they say, and `next` their commands.
    `findings` are in their order; those that have the time of another one are omitted.
    Before them `notes`, if something is missing or not exact: the weightiest ones. At last the checks
    that found nothing, with value and threshold, and those that could not run, as far as there is room.
    """
    by_name = {report.name.partition(":")[0]: report for report in reports[:_REPORTS]}
    devices = by_name["summary"].rows()
    devices.sort(key=lambda row: row["busy_pct"] if row["busy_pct"] is not None else 101)
    findings = [row for row in by_name["findings"].rows() if not row["same_as"]]
    texts = by_name["findings"].texts
    notes = {note.slug: note for report in reports for note in report.notes}
    doubts = [note for note in notes.values() if note.severity is not Severity.INFO]
    doubts.sort(key=lambda note: note.severity is not Severity.DROPPED)
    said = [
        {"slug": note.slug, "severity": note.severity.value, "text": _said(note.text)}
        for note in doubts[:_MOST_NOTES]
    ]
    said_first = " ".join(texts[0].lines) if len(texts) > 1 else ""
    more: dict[str, Any] = {}
    if sections := reports[_REPORTS:]:
        lines = _words(section for section in sections if section.name != _NEXT)
        # Before the first sentence may be notes and what was recorded.
        said_first = next((line for line in lines if line.endswith((".", ":"))), "")
        others = [_said(line) for line in lines if line != said_first]
        more = {
            "lines": others[:_MOST_LINES],
            _NEXT: _words(section for section in sections if section.name == _NEXT),
        }
    shown_devices, shown_findings = _MOST_DEVICES, _MOST_FINDINGS
    while True:
        document = {
            "format": FORM,
            **({"notes": said} if said else {}),
            **({"answer": shorten(said_first, _SENTENCE)} if said_first else {}),
            **more,
            "devices": [_device(row) for row in devices[:shown_devices]],
            "findings": [_finding(row) for row in findings[:shown_findings]],
            "omitted": {
                "devices": max(len(devices) - shown_devices, 0),
                "findings": max(len(findings) - shown_findings, 0),
                "notes": len(notes.keys() - _CHECKS) - len(said),
            },
        }
        if len(_dump(document)) < MOST_BYTES or not (shown_devices or shown_findings):
            _add_checks(document, notes)
            out.write(_dump(document) + "\n")
            return
        # Left out are the last finding, then devices, and the first finding only after them.
        if shown_findings > 1:
            shown_findings -= 1
        elif shown_devices:
            shown_devices -= 1
        else:
            shown_findings = 0


def _words(sections: Iterable[Section]) -> list[str]:
    every = (line for section in sections for text in section.texts for line in text.lines)
    return [" ".join(line.split()) for line in every if line.strip()]


def _add_checks(document: dict[str, Any], notes: Mapping[str, Note]) -> None:
    # The checks without a finding, as many as there is room for: those that found nothing, with the value
    # of the threshold, the nearest first; and those that could not run.
    def words(slug: str) -> list[str]:
        said = notes[slug].text.partition(": ")[2] if slug in notes else ""
        return said.split("; ") if said else []

    nothing = [" ".join(each.split(" ")[:4]) for each in words("rules-found-nothing")]
    blind = [
        name for each in words("rules-cannot-look") for name in each.split(": ")[0].split(", ")
    ]
    for field, names in (("could_not_run", blind), ("found_nothing", nothing)):
        for count in range(len(names), 0, -1):
            omitted = {**document["omitted"], field: len(names) - count}
            more = {**document, "omitted": omitted, field: names[:count]}
            if len(_dump(more)) < MOST_BYTES:
                document |= more
                break


def _dump(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"))


def _device(row: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: row[name] for name in _DEVICE}
    # Classes of the account that took some time.
    found |= {
        name: value for name, value in row.items()
        if value and name in _CLASS_COLUMNS
    }  # fmt: skip
    found["top_kernel"] = row["top_kernel"]
    return {key: _short(value) for key, value in found.items() if value is not None}


def _finding(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _short(row[name], _SENTENCE) for name in _FINDING if row[name] is not None}


def _said(text: str) -> str:
    return shorten(drop_clauses(text, _NOTE), _NOTE)


def _short(value: Any, longest: int = _NAME) -> Any:
    if isinstance(value, float):
        return round(value, 2)
    return shorten(value, longest) if isinstance(value, str) else value
