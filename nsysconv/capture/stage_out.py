"""What a profiler left on local scratch: reports first to where they are kept, then export and import."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType, TracebackType

from nsysconv import record as records
from nsysconv.capture import atomic_move
from nsysconv.capture.child_process import ENDING, Ended
from nsysconv.capture.command import Line
from nsysconv.partials import sweep_folder
from nsysconv.record import Record
from nsysconv.refusals import reason_of

KEEPS = ("report", "export", "store")
"""What can be kept of a rank."""
_PENDING = ("not exported and imported yet",)
"""What a record says until that is done: whoever is killed before, or has no room, leaves it so."""
_UNFINISHED = ".qdstrm"
"""What nsys leaves where it could not make a report of what it recorded."""

Importing = Callable[[Path, str | None, Path | None], int | None]
"""Puts a file into a store: the file, the store that is asked for by name, else the new file to make.
Gives the number of kernels, None where they were not recorded. Raises ImportFailed."""


class ImportFailed(Exception):  # noqa: N818 - says what became of an import
    """An import failed, and the text says how."""


@dataclass(frozen=True)
class Wishes:
    """What is asked of a capture.

    `ranks` which are profiled (None: all), `keep` what is kept (of KEEPS), `stores` places to import
    into as well, `scratch` the folder for local files (None: TMPDIR or /tmp), `grace_s` how long the
    program may take to end, `timeout_s` how long an export or an import may take, `program` the argument
    that begins the program.
    """

    ranks: str | None = None
    keep: frozenset[str] = frozenset({"report", "store"})
    stores: tuple[str, ...] = ()
    scratch: Path | None = None
    grace_s: float = 10.0
    timeout_s: float = 1800.0
    program: str | None = None


@dataclass(frozen=True)
class Plan:
    """Where things go: each output's folder on scratch with the one it is kept in, and its value.

    `expected` is the stem that a report would have, `first` the record that was written at the start
    (None: it could not be).
    """

    scratch: Path
    temporary: Path
    outputs: tuple[tuple[Path, Path], ...]
    values: tuple[str, ...]
    expected: str
    first: Path | None = None

    @property
    def destination(self) -> Path:
        """Where reports are kept."""
        return self.outputs[0][1]


@dataclass
class _Report:
    """A report on its way: on scratch, where it is kept now, and what is known of it.

    What is kept of it, and its record, have `stem`.
    """

    source: Path
    size_bytes: int
    stem: str
    kept: Path | None = None
    kernels: int | None = None
    store: Path | None = None
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Home:
    """What was brought home: the records, and all that went wrong."""

    records: tuple[Path, ...]
    problems: tuple[str, ...]


@dataclass(frozen=True)
class _Errand:
    """What all steps need."""

    plan: Plan
    line: Line
    profiler: str
    environment: Mapping[str, str]
    record: Record
    wishes: Wishes
    importing: Importing
    say: Callable[[str], None]


def bring(
    plan: Plan,
    line: Line,
    profiler: str,
    environment: Mapping[str, str],
    record: Record,
    ended: Ended,
    wishes: Wishes,
    importing: Importing,
    say: Callable[[str], None],
) -> Home:
    """Brings home what the profiler left, and says in a line per report what became of it.

    `profiler` is the file that ran, `record` what is known before. Signals to end are held back but while
    nsys exports and while files are imported.
    """
    errand = _Errand(plan, line, profiler, environment, record, wishes, importing, say)
    with Interruptions(came=ended.told_to_end) as interruptions:
        for folder in {folder for _, folder in plan.outputs}:
            sweep_folder(folder)
        reports = _reports(errand)
        safe = True
        for report in reports:
            if "report" in wishes.keep or report.size_bytes == 0:
                safe = _keep(errand, report) and safe
            elif not line.overwrites:
                report.stem = atomic_move.free_stem(plan.destination, report.stem, plan.first)
        safe = _keep_others(errand, reports) and safe
        if not reports:
            return _without(errand, ended, safe)
        for report in reports:
            _write(errand, report, _PENDING if _is_refined(errand, report) else ())
            _refine(errand, report, interruptions)
            if report.problems and report.kept is None:
                # What was wanted in its place could not be made.
                safe = _keep_after_all(errand, report) and safe
        written = [_write(errand, report) for report in reports]
        if plan.first is not None and plan.first not in written and None not in written:
            # The profiler called its reports otherwise, or there are several.
            with suppress(OSError):
                plan.first.unlink()
        for report in reports:
            _summarize(errand, report)
        if safe:
            shutil.rmtree(plan.scratch, ignore_errors=True)
    found = tuple(path for path in written if path is not None)
    return Home(found, tuple(p for report in reports for p in report.problems))


def _reports(errand: _Errand) -> list[_Report]:
    """The reports on scratch. nsys leaves other files beside its reports, nvprof does not."""
    folder = errand.plan.outputs[0][0]
    suffixes = errand.line.profiler.suffixes if errand.line.profiler.adds_suffix else None
    files = [p for p in sorted(folder.iterdir()) if p.is_file()]
    if suffixes is not None:
        files = [p for p in files if p.suffix in suffixes]
        # One that could not get its name is still among the temporary files.
        left = sorted(errand.plan.temporary.rglob("*")) if not files else []
        files += [p for p in left if p.suffix in suffixes and p.is_file()]
    return [_Report(path, path.stat().st_size, path.stem) for path in files]


def _keep(errand: _Errand, report: _Report) -> bool:
    """Gives a report its place. False: it had to stay on scratch."""
    if report.size_bytes == 0:
        report.problems.append("the report is empty")
    folder = errand.plan.destination
    try:
        report.kept = atomic_move.put_report(
            report.source, folder, overwrite=errand.line.overwrites, own=errand.plan.first
        )
    except OSError as error:
        report.problems.append(
            f"the report could not be kept ({reason_of(error)}): it is {report.source} on "
            f"{errand.record.host}"
        )
        return False
    report.stem = report.kept.stem
    return True


def _keep_after_all(errand: _Errand, report: _Report) -> bool:
    """Gives a report that was not to be kept the place beside its record. False: it stays on scratch."""
    target = errand.plan.destination / (report.stem + report.source.suffix)
    try:
        report.kept = atomic_move.put_other(report.source, target, overwrite=errand.line.overwrites)
    except OSError as error:
        errand.say(f"{report.source}: the report could not be kept: {reason_of(error)}")
        return False
    return True


def _keep_others(errand: _Errand, reports: list[_Report]) -> bool:
    """Gives everything else that the profiler wrote its place. False: something stayed on scratch."""
    sources = {report.source for report in reports}
    stems = {report.source.stem: report.stem for report in reports}
    found = [
        (path, place)
        for folder, place in errand.plan.outputs
        for path in sorted(folder.iterdir())
        if path.is_file() and path not in sources
    ]
    found += [(p, errand.plan.destination) for p in sorted(errand.plan.temporary.rglob("*"))
              if p.suffix == _UNFINISHED and p.is_file()]  # fmt: skip
    safe = True
    for path, place in found:
        name = stems.get(path.stem, path.stem) + path.suffix
        try:
            put = atomic_move.put_other(path, place / name, overwrite=errand.line.overwrites)
        except OSError as error:
            errand.say(f"{path.name} could not be kept ({reason_of(error)}): it is {path}")
            safe = False
            continue
        if put.suffix == _UNFINISHED:
            errand.say(f"{put}: nsys could not make a report of it; try: nsys import {put}")
    return safe


def _without(errand: _Errand, ended: Ended, safe: bool) -> Home:
    """The record of a rank that left no report."""
    name = errand.line.profiler.name
    if ended.killed_by is not None:
        why = f"{name} was killed (signal {ended.killed_by})"
    elif ended.status:
        why = f"{name} ended with status {ended.status}"
    else:
        why = f"{name} wrote none"
    problems = (f"no report: {why}",)
    path = errand.plan.first
    if path is None:
        stem = atomic_move.free_stem(errand.plan.destination, errand.plan.expected)
        path = errand.plan.destination / (stem + records.SUFFIX)
    written = _written(errand, replace(errand.record, problems=problems), path)
    errand.say(f"{_who(errand.record)}: {problems[0]}")
    if safe:
        shutil.rmtree(errand.plan.scratch, ignore_errors=True)
    return Home((path,) if written else (), problems)


def _write(errand: _Errand, report: _Report, pending: Sequence[str] = ()) -> Path | None:
    """Writes the record of a report; called again when more is known. `pending` is still to be done."""
    path = errand.plan.destination / (report.stem + records.SUFFIX)
    told = replace(
        errand.record,
        report=report.kept.name if report.kept is not None else None,
        store=report.store.name if report.store is not None else None,
        problems=(*report.problems, *pending),
    )
    return path if _written(errand, told, path) else None


def _written(errand: _Errand, told: Record, path: Path) -> bool:
    try:
        told.write(path)
    except OSError as error:
        errand.say(f"{path}: the record could not be written: {reason_of(error)}")
        return False
    return True


def _is_refined(errand: _Errand, report: _Report) -> bool:
    """Whether a report is to be exported and imported."""
    wishes = errand.wishes
    asked = "export" in wishes.keep or "store" in wishes.keep or bool(wishes.stores)
    return asked and report.size_bytes > 0


def _refine(errand: _Errand, report: _Report, interruptions: Interruptions) -> None:
    """Exports and imports a report, as far as that is asked for."""
    if not _is_refined(errand, report):
        return
    wishes = errand.wishes
    try:
        with interruptions.breaking():
            source = _exported(errand, report)
        if source is None:
            return
        # The importer finds rank and job where it finds the report's own record.
        with suppress(OSError):
            errand.record.write(records.record_path(source))
        stores: list[str | None] = [*wishes.stores, *([None] if "store" in wishes.keep else [])]
        for store in stores:
            with interruptions.breaking():
                made = _imported(errand, report, source, store)
            if made is not None:
                report.store = _put(report, made, "store", errand)
    except BrokenOff:
        report.problems.append("not exported and imported to the end: the job was being ended")


def _exported(errand: _Errand, report: _Report) -> Path | None:
    """The file to import: nsys exports its reports, nvprof's are read as they are."""
    if not errand.line.profiler.adds_suffix:
        return report.source
    target = report.source.with_suffix(atomic_move.EXPORT_SUFFIX)
    if not target.is_file():  # nsys profile --export=sqlite has just made it
        try:
            export(
                errand.profiler, report.source, target, errand.environment, errand.wishes.timeout_s
            )
        except ExportError as error:
            report.problems.append(str(error))
            if error.words:
                errand.say(f"{report.source.name}: nsys says: {error.words}")
            return None
        if "export" in errand.wishes.keep:
            _put(report, target, "export", errand)
    return target


def _imported(errand: _Errand, report: _Report, source: Path, store: str | None) -> Path | None:
    """Imports into a store by its name, or into a new one on scratch, which is returned."""
    made = source.with_suffix(atomic_move.STORE_SUFFIX) if store is None else None
    try:
        report.kernels = errand.importing(source, store, made)
    except ImportFailed as error:
        report.problems.append("it could not be imported")
        errand.say(f"{report.source.name}: {error}")
        return None
    return made


def _put(report: _Report, path: Path, what: str, errand: _Errand) -> Path | None:
    """Gives an export or a store its place beside the report."""
    target = errand.plan.destination / (report.stem + path.suffix)
    try:
        atomic_move.put(path, target)
    except OSError as error:
        report.problems.append(f"the {what} could not be kept ({reason_of(error)})")
        return None
    return target


def _summarize(errand: _Errand, report: _Report) -> None:
    """The line on a report."""
    record = errand.record
    kept = report.kept or report.store
    parts = [str(kept) if kept is not None else report.source.name]
    parts.append(f"{report.size_bytes / 1e6:,.1f} MB")
    if report.kernels is not None:
        parts.append(f"{report.kernels:,} kernels")
    if record.start_utc_ns is not None and record.end_utc_ns is not None:
        parts.append(f"{(record.end_utc_ns - record.start_utc_ns) / 1e9:.1f} s")
    if record.exit_status:
        parts.append(f"exit status {record.exit_status}")
    errand.say(f"{_who(record)}: {', '.join(parts)}{''.join('; ' + p for p in report.problems)}")


def _who(record: Record) -> str:
    rank = "no rank" if record.rank is None else f"rank {record.rank}"
    return f"{rank} on {record.host}"


class ExportError(Exception):
    """The export failed; the text says how, `words` what nsys said last."""

    def __init__(self, text: str, words: str = "") -> None:
        super().__init__(text)
        self.words = words


def export(
    nsys: str, report: Path, target: Path, environment: Mapping[str, str], timeout_s: float
) -> None:
    """Makes `target`, which must not be there, of a report. Raises ExportError; then it is not there."""
    command = [nsys, "export", "--type", "sqlite", "--output", str(target), str(report)]
    # A file takes what it says, not a pipe: a helper that outlives nsys would hold the pipe open.
    with tempfile.TemporaryFile(dir=target.parent) as said:
        try:
            status = _status(command, environment, timeout_s, said.fileno())
        except subprocess.TimeoutExpired:
            target.unlink(missing_ok=True)
            raise ExportError(f"nsys did not export the report within {timeout_s:g} s") from None
        except OSError as error:
            raise ExportError(f"nsys could not be started to export: {reason_of(error)}") from error
        if status != 0 or not target.is_file():
            target.unlink(missing_ok=True)
            how = f"exit status {status}" if status >= 0 else f"killed by signal {-status}"
            raise ExportError(
                f"nsys could not export the report ({how})", _last_line(said.fileno())
            )


def _status(
    command: list[str], environment: Mapping[str, str], timeout_s: float, output: int
) -> int:
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    try:
        return process.wait(timeout_s)
    except BaseException:  # the time is up, or this process was told to end
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def _last_line(output: int) -> str:
    size = os.lseek(output, 0, os.SEEK_END)
    os.lseek(output, max(0, size - 4096), os.SEEK_SET)
    lines = os.read(output, 4096).decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


class BrokenOff(BaseException):
    """A signal to end has come. No Exception: nothing but what asked for it may take it."""


class Interruptions:
    """Holds signals to end for as long as its block runs. `came` says whether there was one."""

    def __init__(self, came: bool = False) -> None:
        self.came = came
        self._breaking = False

    def __enter__(self) -> Interruptions:
        numbers = [n for n in ENDING if signal.getsignal(n) is not signal.SIG_IGN]
        self._before = {number: signal.signal(number, self._take) for number in numbers}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def breaking(self) -> Iterator[None]:
        """What runs in this block is broken off by a signal: BrokenOff is raised, once."""
        if self.came:
            raise BrokenOff
        self._breaking = True
        try:
            yield
        finally:
            self._breaking = False

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        if self._breaking:
            self._breaking = False
            raise BrokenOff
