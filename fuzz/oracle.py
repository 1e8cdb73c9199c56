"""What must hold for any file: an error in words and nothing left, or rows that are accounted for."""

from __future__ import annotations

import hashlib
import io
import json
import re
import signal
import sqlite3
import sys
import tempfile
import threading
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import accounts
from cases import Case
from seeds import GZIP, SQLITE

from nsysconv import api, queries, render, schema
from nsysconv.api.listing import about
from nsysconv.api.opening import OpenProfile, open_all
from nsysconv.errors import InputError, NotRecorded, NsysconvError
from nsysconv.importers.contract import Yes
from nsysconv.importers.detection import all_importers
from nsysconv.importers.probe import Probe
from nsysconv.notes import Severity
from nsysconv.report import Report
from nsysconv.timeline.idle import PARTS

SECONDS = 30
MEMORY_BYTES = 700 << 20
SECRET = "SECRET-"
# Line ends are the only control characters that people may be shown.
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_MOST_PROFILES = 3
_LOSSES = frozenset({
    "backtrace-rows", "category-unknown", "rows-not-read", "unknown-code", "python-functions-left-out",
    "json-repaired", "metadata-unreadable", "duplicate-peer-copies",
})  # fmt: skip
_GPU_TABLES = ("kernel", "memcpy", "memset", "graph_launch", "unified_memory_event")
_BAD_PAGE = "the file is damaged"
_PRINTED = frozenset({"nvprof_log", "nsys_stats", "nvidia_smi", "kineto"})
# In place they tell of tables as they stand; what is wrong with rows, the reports that read them tell.
_ABOUT = ("profile", "facts")
_FORMATS = ("text", "csv", "tsv", "markdown", "html", "column")


@dataclass(frozen=True)
class Finding:
    """Something that must not be: which promise, and what happened; `sign` is alike for one cause."""

    promise: str
    detail: str
    sign: str = ""


@dataclass
class Looked:
    """What became of one file."""

    findings: list[Finding] = field(default_factory=list)
    outcome: str = ""
    """`refused`, or what was imported."""

    def wrong(self, promise: str, detail: str, sign: str = "") -> None:
        """Adds a finding."""
        self.findings.append(
            Finding(promise, detail[:3000], sign or f"{promise}: {_shape(detail)}")
        )


class TooSlow(Exception):  # noqa: N818 - says what happened
    """The time was over."""


def look(case: Case, *, all_reports: bool = False, seconds: int = SECONDS) -> Looked:
    """Tries one file in every way; anything that must not be is in the result, and nothing is raised."""
    looked = Looked()
    unraised: list[str] = []
    hooks = sys.unraisablehook, threading.excepthook
    sys.unraisablehook = lambda found: unraised.append(f"{found.exc_value!r} in {found.object!r}")
    threading.excepthook = lambda found: unraised.append(f"{found.exc_value!r} in a thread")
    before = _peak_reset()
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
    grown = _peak() - before
    if grown > MEMORY_BYTES:
        looked.wrong("bounded memory", f"{grown >> 20} MiB", "memory")
    return looked


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Raises TooSlow where the block takes longer, as soon as Python gets to it."""

    def stop(number: int, frame: object) -> None:
        raise TooSlow

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Seconds of the processor: others may be using it.
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


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
            self._looked.wrong(promise, traceback.format_exc(), _sign(error))

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
            self._in_store(
                store, sum((Counter(one.row_counts) for one in file.imported), Counter())
            )
            self._answers(store)

    def _refused(self, error: NsysconvError, store: Path) -> None:
        self._looked.outcome = "refused"
        if not isinstance(error, InputError):
            self._looked.wrong("a refusal is an InputError", repr(error), f"refusal {type(error)}")
        text = str(error)
        self._words("an error", text)
        # Of a page that SQLite cannot read while rows are copied, only the store knows.
        bad_page = _BAD_PAGE in error.what and error.where == str(store)
        if str(self._source) not in text and not bad_page:
            self._looked.wrong("an error names the file", text)
        left = [path.name for path in self._stores.iterdir()]
        if left:
            self._looked.wrong("a refusal leaves no store", str(left))
        if self._case.seed.is_sqlite and not bad_page:
            # Reports in place do not read every page.
            try:
                with api.open(self._source):
                    pass
            except InputError as again:
                self._words("an error", str(again))
            else:
                self._looked.wrong("refused on both ways", text)

    def _in_store(self, store: Path, counts: Counter[str]) -> None:
        content = store.read_bytes()
        if not self._case.moved and SECRET.encode() in content:
            self._looked.wrong("a store without secrets", str(self._case.done), "secret store")
        with closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)) as sql:
            (whole,) = sql.execute("PRAGMA integrity_check").fetchone()
            if whole != "ok":
                self._looked.wrong("a whole store", whole)
            for name in schema.EVENT_TABLES:
                self._sound_rows(sql, name)
            notes = sql.execute("SELECT slug, severity, count, place, text FROM note").fetchall()
            for note in notes:
                if note[2] < 1:
                    self._looked.wrong("a note counts something", str(note))
            self._references(sql, notes)
        self._account(counts, notes)

    def _sound_rows(self, sql: sqlite3.Connection, name: str) -> None:
        table = schema.metadata.tables[name]
        wrong = []
        for column in table.columns:
            kind = {int: "'integer'", float: "'real', 'integer'", str: "'text'"}[
                column.type.python_type
            ]
            wrong.append(f"typeof({column.name}) NOT IN ({kind}, 'null')")
        wrong += [f"NOT ({one.sqltext})" for one in table.constraints if hasattr(one, "sqltext")]
        found = sql.execute(f"SELECT * FROM {name} WHERE {' OR '.join(wrong)} LIMIT 1").fetchone()
        if found is not None:
            self._looked.wrong("rows fulfil the schema", f"{name}: {found}", f"schema {name}")
        if "start_ns" in table.c and "dur_ns" in table.c:
            found = sql.execute(
                f"SELECT id FROM {name} WHERE start_ns IS NULL AND dur_ns IS NOT NULL LIMIT 1"
            ).fetchone()
            if found is not None:
                self._looked.wrong(
                    "a duration has a beginning", f"{name}: {found}", f"start {name}"
                )

    def _references(self, sql: sqlite3.Connection, notes: Sequence[tuple[Any, ...]]) -> None:
        """Rows refer to what is there."""
        told = {note[0] for note in notes}
        for name in schema.EVENT_TABLES:
            columns = schema.metadata.tables[name].columns
            for column, table, key in (
                ("device_id", "device", "device_id"), ("pid", "process", "pid"),
                ("name_id", "name", "id"),
            ):  # fmt: skip
                if column not in columns or (column == "name_id" and "nameless-id" in told):
                    continue
                if column == "device_id" and name not in _GPU_TABLES:
                    continue  # only devices at work are described
                found = sql.execute(
                    f"SELECT {column} FROM {name} e WHERE {column} IS NOT NULL AND NOT EXISTS (SELECT 1 "
                    f"FROM {table} t WHERE t.profile_id = e.profile_id AND t.{key} = e.{column}) LIMIT 1"
                ).fetchone()
                if found is not None:
                    self._looked.wrong("rows refer to what is there", f"{name}.{column} {found}",
                                       f"reference {name}.{column}")  # fmt: skip

    # -- nothing is lost without a word

    def _account(self, counts: Counter[str], notes: Sequence[tuple[Any, ...]]) -> None:
        importer = self._case.key.split(":")[0]
        content = self._case.content
        lossy = [note for note in notes if note[1] == Severity.DROPPED.value or note[0] in _LOSSES]
        if content.startswith(SQLITE):
            if any(self._case.beside.values()):
                return
            for account in accounts.of_database(importer, self._source) or ():
                lost = account.rows - sum(counts[name] for name in account.ours)
                told = sum(
                    note[2] if note[0] != "not-a-table" else account.rows
                    for note in lossy
                    if any(source in f"{note[3]} {note[4]}" for source in account.sources)
                    or note[0] == "backtrace-rows"
                )
                if lost > told:
                    self._looked.wrong(
                        "nothing is lost without a word",
                        f"{sorted(account.sources)}: {account.rows} rows, {lost} lost, {told} told "
                        f"in {[note for note in notes if note[1] != 'info']}",
                        f"lost {sorted(account.sources)}",
                    )
                if lost < 0:
                    self._looked.wrong(
                        "no row is made up", f"{account} {counts}", f"made up {account.ours}"
                    )
        elif importer == "kineto":
            rows = accounts.of_trace(_inflated(content))
            lost = 0 if rows is None else rows - sum(counts.values())
            told = sum(note[2] for note in lossy)
            if lost > told:
                detail = f"{rows} events, {lost} of them lost, {told} told: {notes}"
                self._looked.wrong("nothing is lost without a word", detail, "lost events")

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
                "imported, so readable in place", str(error), f"in place {_shape(error.what)}"
            )
            return
        for one, other in zip(found[0], again, strict=True):
            if one is None or other is None or one.name in _ABOUT:
                continue
            same = _comparable(one) == _comparable(other)
            if not same:
                detail = f"{one.name}\nimported {_comparable(one)}\nin place {_comparable(other)}"
                self._looked.wrong("in place as imported", detail, f"in place {one.name}")
            elif _left_out(one) != _left_out(other):
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
                    self._looked.wrong("every report answers", f"{name}: {error}", _sign(error))
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
            if name not in reports or reports[name].table is None:
                continue
            for row in reports[name].table.to_pylist():
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


def _inflated(content: bytes) -> bytes:
    """What is in a gzip file that is whole; nothing of one that is not."""
    if not content.startswith(GZIP):
        return content
    with suppress(zlib.error):
        one = zlib.decompressobj(zlib.MAX_WBITS | 16)
        text = one.decompress(content)
        return text if one.eof and not one.unused_data else b""
    return b""


def _comparable(report: Report) -> Any:
    return (
        report.row_count,
        report.table.to_pydict() if report.table is not None else report.not_recorded,
    )


def _left_out(report: Report) -> set[tuple[Any, ...]]:
    """Notes on rows that are missing in it; of single cells, in place, only what was read is told."""
    return {(note.slug, note.text, note.count) for note in report.notes if "left out" in note.text}


def _difference(one: Report, other: Report) -> str:
    return str(sorted({slug for slug, _, _ in _left_out(one) ^ _left_out(other)}))


def _sign(error: BaseException) -> str:
    """The same for the same defect: the kind of exception and where in the program it was raised."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "nsysconv" in f.filename]
    where = frames[-1] if frames else None
    place = f"{Path(where.filename).name}:{where.name}" if where else "?"
    return f"{type(error).__name__} in {place}"


def _shape(text: str) -> str:
    """A text without what differs from one file to the next."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|/\S+|\d[\d,.]*", "…", text.strip())[:120]


def _peak() -> int:
    """The most memory that this process has held since `_peak_reset`."""
    with suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
        return int(found[1]) << 10 if found else 0
    return 0


def _peak_reset() -> int:
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return _peak()
