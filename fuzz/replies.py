"""Answers of a profile: every report, in every format, with a check that its numbers are possible."""

from __future__ import annotations

import io
import json
import re
import traceback
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import process_time
from typing import Any

from bounds import TooSlow, within
from findings import Looked, Step, sign_of
from same import Document
from stored import SECRET

from nsysconv import api, render
from nsysconv.api.open_profile import OpenProfile
from nsysconv.api.profile_info import info_reports
from nsysconv.document import Section
from nsysconv.errors import NotRecorded, NsysconvError
from nsysconv.timeline.idle import PARTS

# Line ends are the only control characters that people may be shown.
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_FORMATS = ("text", "csv", "tsv", "markdown", "html", "column")
# JSON has all rows; other formats would take minutes for what is many times the same.
_SHOWN_ROWS = 1000
_KEPT_ROWS = 10_000
# A printed report alone has a form of its own, of texts.
_BESIDE = Section("beside", "", (), None)
_NEVER_NEGATIVE = ("window_ns", "busy_ns", "idle_ns", "kernel_graph_union_ns")


class Steps:
    """Steps of what is done with one file in this process; `seconds` is what each may take."""

    def __init__(self, looked: Looked, seconds: int) -> None:
        """Take the file and where findings go."""
        self._looked = looked
        self._seconds = seconds

    @contextmanager
    def step(self, kind: str, promise: str) -> Iterator[None]:
        """Time a step of the work; an exception in it is a finding, unless it ends the whole run."""
        began = process_time()
        try:
            with within(self._seconds):
                yield
        except (TooSlow, MemoryError):
            raise
        except Exception as error:
            self._looked.wrong(promise, traceback.format_exc(), sign_of(error))
        finally:
            self._looked.steps.append(Step(kind, False, process_time() - began))


def words(what: str, text: str, looked: Looked) -> None:
    """Check what people read: every report as text and the findings in words."""
    if _CONTROL.search(text):
        looked.wrong(f"{what} without control characters", repr(text), f"control {what}")
    if SECRET in text:
        looked.wrong(f"{what} without secrets", text, f"secret {what}")
    if "Traceback (" in text:
        looked.wrong(f"{what} in words", text)
    if len(text) > 20_000:
        looked.wrong(f"{what} of bounded length", f"{len(text)} characters: {text[:300]!r}")


class Replies:
    """Reports of profiles, looked at; a file's `key` says which format they are shown in beside JSON."""

    def __init__(self, names: Sequence[str], key: str, looked: Looked, steps: Steps) -> None:
        """Take the file and where findings go."""
        self._names = names
        self._format = _FORMATS[zlib.crc32(key.encode()) % len(_FORMATS)]
        self._looked = looked
        self._steps = steps

    def of(self, opened: OpenProfile, where: str) -> dict[str, Document]:
        """Return all reports of a profile by name, as JSON has them; `where`: in a store or a file."""
        found: dict[str, Document] = {}
        for name in self._names:
            report: Section | None = None
            with self._steps.step(f"report ({where})", f"every report answers: {name}"):
                try:
                    report = opened.report(name)
                except NotRecorded as missing:
                    words("an answer", str(missing), self._looked)
                    continue
                except NsysconvError as error:
                    self._looked.wrong("every report answers", f"{name}: {error}", sign_of(error))
                    continue
            if report is not None:
                found |= self._looked_at(report)
        answers: list[Section] = []
        with self._steps.step("info", "info answers"):
            answers += info_reports(opened)
        for report in answers:
            found |= self._looked_at(report)
        return found

    def _looked_at(self, report: Section) -> dict[str, Document]:
        documents: list[dict[str, Any]] = []
        with self._steps.step("JSON", f"rendering raises nothing: {report.name} as JSON"):
            out = io.StringIO()
            render.renderer("json")([report, _BESIDE], out, render.Options())
            documents += json.loads(out.getvalue(), parse_constant=_refuse)["reports"][:1]
        self._rendered(report.limited(_SHOWN_ROWS))
        for document in documents:
            self._adds_up(document["report"], document)
            if len(document["rows"] or ()) > _KEPT_ROWS:
                # So many are only compared for being the same.
                document["rows"] = [hash(str(row)) for row in document["rows"]]
        return {document["report"]: document for document in documents}

    def page(self, target: Path, where: str) -> None:
        """Make the HTML page."""
        with self._steps.step(f"page ({where})", "a page can be made"):
            out = io.StringIO()
            render.renderer("html")(api.page(target), out, render.Options())

    def export(self, target: Path, where: str, to: str, made: Path, rows: dict[str, int]) -> None:
        """Export the profile and compare its rows, as far as no note says otherwise."""
        with self._steps.step(f"export {to} ({where})", f"it can be exported: {to}"):
            written = api.export_profiles(target, to, made).written
            for table, count in rows.items():
                noted = sum(note.count for note in written.notes)
                if count > written.counts.get(table, 0) + noted:
                    self._looked.wrong(
                        "nothing is lost without a word",
                        f"{to}: {count} rows of {table}, {written.counts}, {written.notes}",
                        f"lost {to} {table}",
                    )

    def _rendered(self, report: Section) -> None:
        promise = f"rendering raises nothing: {report.name} as {self._format}"
        with self._steps.step(self._format, promise):
            out = io.StringIO()
            width = 80 if self._format == "text" else None
            render.renderer(self._format)([report], out, render.Options(width))
            if self._format == "text" and (found := _CONTROL.search(out.getvalue())):
                near = out.getvalue()[max(0, found.start() - 30) :][:60]
                self._looked.wrong(
                    "text without control characters", f"{report.name}: {near!r}", "control text"
                )

    def _adds_up(self, name: str, report: Document) -> None:
        for row in report["rows"] or ():
            if name in ("idle_summary", "idle_gaps"):
                self._gap(name, row)
            for column in _NEVER_NEGATIVE:
                if (row.get(column) or 0) < 0:
                    self._looked.wrong(
                        "idle time is not negative", f"{name}: {row}", f"negative {name}.{column}"
                    )

    def _gap(self, name: str, row: dict[str, Any]) -> None:
        ending = "_sum_ns" if name == "idle_summary" else "_ns"
        parts = [row[f"{part}{ending}"] for part in PARTS]
        total = row.get("gap_sum_ns", row.get("dur_ns"))
        if total is None or total < 0 or any(v is not None and v < 0 for v in parts):
            self._looked.wrong("idle time is not negative", f"{name}: {row}", f"negative {name}")
        # Nobody says whose the idle time of one stream is.
        if None not in parts and sum(parts) != total:
            self._looked.wrong("parts of gaps add up", f"{name}: {row}", f"parts {name}")


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")
