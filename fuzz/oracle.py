"""What must hold for any file: an error in words and nothing left, or rows that are accounted for."""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
import tempfile
import threading
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bounds import TooSlow, peak, peak_reset, within
from cases import Case
from findings import Looked, shape_of, sign_of
from seeds import SQLITE
from stored import SECRET, Stored

from nsysconv import api, queries, render
from nsysconv.api.listing import about
from nsysconv.api.opening import OpenProfile, open_all
from nsysconv.errors import InputError, NotRecorded, NsysconvError
from nsysconv.importers.contract import Yes
from nsysconv.importers.detection import all_importers
from nsysconv.importers.nsys_sqlite import cpu_side
from nsysconv.importers.probe import Probe
from nsysconv.report import Report
from nsysconv.timeline.idle import PARTS

# A select on a source is given up after 20 s, and a source is read twice.
SECONDS = 60
MEMORY_BYTES = 700 << 20
# Line ends are the only control characters that people may be shown.
_DIRECTIVES = (*cpu_side.OPENMP, *cpu_side.OPENACC)
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_MOST_PROFILES = 3
# Reports in place do not read every page, nor every cell.
_BAD_PAGES = ("the file is damaged", "SQLite cannot read it")
_PRINTED = frozenset({"nvprof_log", "nsys_stats", "nvidia_smi", "kineto"})
# In place they tell of tables as they stand; what is wrong with rows, the reports that read them tell.
_ABOUT = ("profile", "facts")
_FORMATS = ("text", "csv", "tsv", "markdown", "html", "column")


def look(case: Case, *, all_reports: bool = False, seconds: int = SECONDS) -> Looked:
    """Tries one file in every way; anything that must not be is in the result, and nothing is raised."""
    looked = Looked()
    unraised: list[str] = []
    hooks = sys.unraisablehook, threading.excepthook
    sys.unraisablehook = lambda found: unraised.append(f"{found.exc_value!r} in {found.object!r}")
    threading.excepthook = lambda found: unraised.append(f"{found.exc_value!r} in a thread")
    before = peak_reset()
    try:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder, within(seconds):
            Lab(case, Path(folder), looked, all_reports=all_reports).look()
    except TooSlow:
        looked.wrong("ends in time", f"more than {seconds} s\n{traceback.format_exc()}", "too slow")
    except MemoryError:
        looked.wrong("bounded memory", traceback.format_exc(), "memory")
    finally:
        sys.unraisablehook, threading.excepthook = hooks
    for text in unraised:
        looked.wrong("raises nothing in the background", text)
    grown = peak() - before
    if grown > MEMORY_BYTES:
        looked.wrong("bounded memory", f"{grown >> 20} MiB", "memory")
    return looked


class Lab:
    """One file in a folder of its own, and what is done with it."""

    def __init__(self, case: Case, folder: Path, looked: Looked, *, all_reports: bool) -> None:
        self._case = case
        self._mixed = False
        self._looked = looked
        self._reports = queries.REPORTS if all_reports else queries.CORE
        self._format = _FORMATS[zlib.crc32(case.key.encode()) % len(_FORMATS)]
        self._scratch = folder / "temporary"
        self._scratch.mkdir()
        self._place = folder / "source"
        self._place.mkdir()
        self._stores = folder / "stores"
        self._stores.mkdir()
        self._source = self._place / case.name
        self._source.write_bytes(case.content)
        for ending, content in case.beside.items():
            Path(f"{self._source}{ending}").write_bytes(content)
        self._untouched = self._lying()

    def look(self) -> None:
        """All of it."""
        before, tempfile.tempdir = tempfile.tempdir, str(self._scratch)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self._detection()
                self._import()
        finally:
            tempfile.tempdir = before
        if self._lying() != self._untouched:
            self._looked.wrong(
                "the source stays as it is", f"{list(self._untouched)} -> {list(self._lying())}"
            )
        left = [path.name for path in self._scratch.iterdir()]
        if left:
            self._looked.wrong("nothing stays in the temporary folder", str(left))

    def _lying(self) -> dict[str, str]:
        """What lies in the source's folder."""
        return {
            path.name: f"{hashlib.sha256(path.read_bytes()).hexdigest()} {path.stat().st_mtime_ns}"
            for path in sorted(self._place.iterdir())
        }

    @contextmanager
    def _nothing_raised(self, promise: str) -> Iterator[None]:
        """An exception is a finding, but those that end the whole."""
        try:
            yield
        except (TooSlow, MemoryError):
            raise
        except Exception as error:
            self._looked.wrong(promise, traceback.format_exc(), sign_of(error))

    # -- detection

    def _detection(self) -> None:
        claims = []
        for importer in all_importers():
            with (
                self._nothing_raised("sniffing raises nothing"),
                Probe(self._source, threads=1) as probe,
            ):
                answer = importer.sniff(probe)
                if isinstance(answer, Yes):
                    claims.append(importer.NAME)
                else:
                    self._words("a refusal", f"{answer.reason}\n{answer.hint}")
        # What several tools printed may stand in one file, which is refused then.
        self._mixed = len(claims) > 1 and set(claims) <= _PRINTED
        if len(claims) > 1 and not self._mixed:
            self._looked.wrong("one importer at most says yes", ", ".join(claims))

    def _words(self, what: str, text: str) -> None:
        """What people are told."""
        found = _CONTROL.search(text)
        if found:
            self._looked.wrong(f"{what} without control characters", repr(text), f"control {what}")
        if SECRET in text:
            self._looked.wrong(f"{what} without secrets", text, f"secret {what}")
        if "Traceback" in text and "Traceback" not in self._case.name:
            self._looked.wrong(f"{what} in words", text)
        if len(text) > 20_000:
            self._looked.wrong(
                f"{what} of bounded length", f"{len(text)} characters: {text[:300]!r}"
            )

    # -- import

    def _import(self) -> None:
        store = self._stores / "store.db"
        with self._nothing_raised("importing raises nothing"):
            (file,) = api.import_files([self._source], store).files
            if file.error is not None:
                self._refused(file.error, store)
                return
            self._looked.outcome = "imported"
            if self._mixed:
                self._looked.wrong("one importer at most says yes", "imported all the same")
            lying = [path.name for path in self._stores.iterdir()]
            if lying != [store.name]:
                self._looked.wrong("nothing beside the store", str(lying))
            Stored(self._case, self._source, self._looked).look(
                store, sum((Counter(one.row_counts) for one in file.imported), Counter())
            )
            self._answers(store)

    def _refused(self, error: NsysconvError, store: Path) -> None:
        self._looked.outcome = "refused"
        if not isinstance(error, InputError):
            self._looked.wrong("a refusal is an InputError", repr(error), f"refusal {type(error)}")
        text = str(error)
        self._words("an error", text)
        bad_page = any(words in error.what for words in _BAD_PAGES)
        if str(self._source) not in text:
            self._looked.wrong("an error names the file", text)
        left = [path.name for path in self._stores.iterdir()]
        if left:
            self._looked.wrong("a refusal leaves no store", str(left))
        if self._case.seed.is_sqlite and not bad_page:
            try:
                with api.open(self._source):
                    pass
            except InputError as again:
                self._words("an error", str(again))
            else:
                self._looked.wrong("refused on both ways", text)

    # -- reports

    def _answers(self, store: Path) -> None:
        with ExitStack() as stack:
            profiles = open_all(store, None, stack)
            found = [self._reports_of(one) for one in profiles[:_MOST_PROFILES]]
        if not self._case.content.startswith(SQLITE) or len(found) != 1:
            return
        try:
            with api.open(self._source) as opened:
                again = self._reports_of(opened)
        except InputError as error:
            if "the store has schema version" in error.what:
                return  # the mark of a store in its header
            self._looked.wrong(
                "imported, so readable in place", str(error), f"in place {shape_of(error.what)}"
            )
            return
        for one, other in zip(found[0], again, strict=True):
            if one is None or other is None or one.name in _ABOUT:
                continue
            same = _comparable(one) == _comparable(other)
            if not same:
                detail = f"{one.name}\nimported {_comparable(one)}\nin place {_comparable(other)}"
                self._looked.wrong("in place as imported", detail, f"in place {one.name}")
            # Where a report has no rows, it had no need to read every table.
            elif one.row_count and _left_out(one) != _left_out(other):
                detail = f"{one.name}\nimported {_left_out(one)}\nin place {_left_out(other)}"
                self._looked.wrong(
                    "the same notes in place", detail, f"notes in place {_difference(one, other)}"
                )

    def _reports_of(self, opened: OpenProfile) -> list[Report | None]:
        reports: list[Report | None] = []
        for name in self._reports:
            report: Report | None = None
            with self._nothing_raised(f"every report answers: {name}"):
                try:
                    report = opened.report(name)
                except NotRecorded as missing:
                    self._words("an answer", str(missing))
                except NsysconvError as error:
                    self._looked.wrong("every report answers", f"{name}: {error}", sign_of(error))
            reports.append(report)
        with self._nothing_raised("info answers"):
            reports += about(opened)
        for report in reports:
            if report is not None:
                self._rendered(report)
        self._adds_up({report.name: report for report in reports if report is not None})
        return reports

    def _rendered(self, report: Report) -> None:
        with self._nothing_raised(f"rendering raises nothing: {report.name}"):
            out = io.StringIO()
            render.renderer("json")([report], out, render.Options())
            json.loads(out.getvalue(), parse_constant=_refuse)
        with self._nothing_raised(f"rendering raises nothing: {report.name} as {self._format}"):
            out = io.StringIO()
            width = 80 if self._format == "text" else None
            render.renderer(self._format)([report], out, render.Options(width))
            if self._format == "text" and (found := _CONTROL.search(out.getvalue())):
                near = out.getvalue()[max(0, found.start() - 30) :][:60]
                self._looked.wrong(
                    "text without control characters", f"{report.name}: {near!r}", "control text"
                )

    def _adds_up(self, reports: dict[str, Report]) -> None:
        """Idle is the window without busy, and gaps are the sum of their parts."""
        for name in ("idle_summary", "idle_gaps"):
            table = reports[name].table if name in reports else None
            for row in table.to_pylist() if table is not None else ():
                ending = "_sum_ns" if name == "idle_summary" else "_ns"
                parts = [row[f"{part}{ending}"] for part in PARTS]
                total = row.get("gap_sum_ns", row.get("dur_ns"))
                if total is None or total < 0 or any(v is not None and v < 0 for v in parts):
                    self._looked.wrong(
                        "idle time is not negative", f"{name}: {row}", f"negative {name}"
                    )
                # Of the idle time of one stream nobody says whose it is.
                if None not in parts and sum(parts) != total:
                    self._looked.wrong("parts of gaps add up", f"{name}: {row}", f"parts {name}")
        for report in reports.values():
            if report.table is None:
                continue
            for column in report.columns:
                if column.name in ("window_ns", "busy_ns", "idle_ns", "kernel_graph_union_ns"):
                    values = [v for v in report.table[column.name].to_pylist() if v is not None]
                    if values and min(values) < 0:
                        where = f"{report.name}.{column.name}"
                        self._looked.wrong(
                            "idle time is not negative",
                            f"{where}: {min(values)}",
                            f"negative {where}",
                        )


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _comparable(report: Report) -> Any:
    return (
        report.row_count,
        report.table.to_pydict() if report.table is not None else report.not_recorded,
    )


def _left_out(report: Report) -> set[tuple[Any, ...]]:
    """Notes on rows that are missing in it; of single cells, in place, only what was read is told."""
    return {
        (note.slug, note.text, note.count)
        for note in report.notes
        # Directives are read only where no call and no operator says what a thread did, ranges of gaps
        # only where a call followed.
        if "left out" in note.text
        and not note.text.startswith(_DIRECTIVES)
        and not (report.name == "idle_gaps" and note.text.startswith("NVTX_EVENTS"))
    }


def _difference(one: Report, other: Report) -> str:
    return str(sorted({slug for slug, _, _ in _left_out(one) ^ _left_out(other)}))
