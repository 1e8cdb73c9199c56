"""Move what a profiler left on local scratch to where it is kept, then import it.

Signals to end are deferred meanwhile, but where work may be interrupted.
"""

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
from types import FrameType

from nsysconv import record as records
from nsysconv.capture import atomic_move
from nsysconv.capture.child_process import ENDING, ExitState, handling, not_ignored
from nsysconv.capture.command import Line
from nsysconv.partials import sweep_folder
from nsysconv.record import Record
from nsysconv.refusals import reason_of
from nsysconv.store.location import Location

KEEPS = ("report", "export", "store")
"""Kinds of files that can be kept of a rank."""
_PENDING = ("not imported yet",)
"""The outcome in a record until all is done: whoever is killed before, or has no room, leaves it so."""
_UNFINISHED = ".qdstrm"
"""Suffix of the file that nsys leaves where it could not make a report of what it recorded."""

ImportFile = Callable[[Path, Location | None, Path | None], int | None]
"""Puts a file into a store: the file, the store that is asked for, else the new file to make.
Gives the number of kernels, None where they were not recorded. Raises ImportFailed."""


class ImportFailed(Exception):  # noqa: N818 - says what became of an import
    """An import failed, and the text says how."""


@dataclass(frozen=True)
class CaptureOptions:
    """The options of a capture.

    `ranks` which are profiled (None: all), `keep` what is kept (of KEEPS), `stores` places to import
    into as well, `scratch` the folder for local files (None: TMPDIR or /tmp), `grace_s` how long the
    program may take to end, `timeout_s` how long an export or an import may take, `program` the argument
    that begins the program.
    """

    ranks: str | None = None
    keep: frozenset[str] = frozenset({"report", "store"})
    stores: tuple[Location, ...] = ()
    scratch: str | os.PathLike[str] | None = None
    grace_s: float = 10.0
    timeout_s: float = 1800.0
    program: str | None = None


@dataclass(frozen=True)
class Plan:
    """The places of outputs: each one's folder on scratch, the one it is kept in, and its value.

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
        """Return the folder in which reports are kept."""
        return self.outputs[0][1]


@dataclass
class _Report:
    source: Path
    size_bytes: int
    stem: str
    kept: Path | None = None
    kernels: int | None = None
    store: Path | None = None
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Captured:
    """The result of a capture: the program's exit status and, per report, its record as a file."""

    exit_status: int
    records: tuple[Path, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class StageOutContext:
    """The state that all steps share: `profiler` is the file that ran, `record` what is known before."""

    plan: Plan
    line: Line
    profiler: str
    environment: Mapping[str, str]
    record: Record
    options: CaptureOptions
    importing: ImportFile
    say: Callable[[str], None]


def stage_reports(context: StageOutContext, ended: ExitState) -> Captured:
    """Move what the profiler left from scratch to where it is kept, then import it.

    Prints a line per report. Signals to end are deferred but while nsys exports and while files are
    imported.
    """
    plan, line, options = context.plan, context.line, context.options
    interruptions = _Interruptions(came=ended.was_signalled)
    with handling(not_ignored(ENDING), interruptions.take):
        for folder in {folder for _, folder in plan.outputs}:
            sweep_folder(folder)
        reports = _reports(context)
        safe = True
        for report in reports:
            if "report" in options.keep or report.size_bytes == 0:
                safe = _keep(context, report) and safe
            elif not line.overwrites:
                report.stem = atomic_move.free_stem(plan.destination, report.stem, plan.first)
        safe = _keep_others(context, reports) and safe
        if not reports:
            return _without(context, ended, safe)
        for report in reports:
            _write(context, report, _PENDING if _is_refined(context, report) else ())
            _refine(context, report, interruptions)
            if report.problems and report.kept is None:
                # The refined form of the report could not be made, so the report itself is kept.
                safe = _keep_after_all(context, report) and safe
        written = [_write(context, report) for report in reports]
        if plan.first is not None and plan.first not in written and None not in written:
            # The profiler called its reports otherwise, or there are several.
            with suppress(OSError):
                plan.first.unlink()
        for report in reports:
            _summarize(context, report)
        if safe:
            shutil.rmtree(plan.scratch, ignore_errors=True)
    kept_records = tuple(path for path in written if path is not None)
    problems = tuple(problem for report in reports for problem in report.problems)
    return Captured(ended.status, kept_records, problems)


def _reports(context: StageOutContext) -> list[_Report]:
    folder = context.plan.outputs[0][0]
    suffixes = context.line.profiler.suffixes if context.line.profiler.adds_suffix else None
    files = [p for p in sorted(folder.iterdir()) if p.is_file()]
    if suffixes is not None:
        files = [p for p in files if p.suffix in suffixes]
        # A report that could not be renamed is still among the temporary files.
        left = sorted(context.plan.temporary.rglob("*")) if not files else []
        files += [p for p in left if p.suffix in suffixes and p.is_file()]
    return [_Report(path, path.stat().st_size, path.stem) for path in files]


def _keep(context: StageOutContext, report: _Report) -> bool:
    if report.size_bytes == 0:
        report.problems.append("the report is empty")
    folder = context.plan.destination
    try:
        report.kept = atomic_move.put_report(
            report.source, folder, overwrite=context.line.overwrites, own=context.plan.first
        )
    except OSError as error:
        report.problems.append(
            f"the report could not be kept ({reason_of(error)}): it is {report.source} on "
            f"{context.record.host}"
        )
        return False
    report.stem = report.kept.stem
    return True


def _keep_after_all(context: StageOutContext, report: _Report) -> bool:
    target = context.plan.destination / (report.stem + report.source.suffix)
    try:
        report.kept = atomic_move.put_other(
            report.source, target, overwrite=context.line.overwrites
        )
    except OSError as error:
        context.say(f"{report.source}: the report could not be kept: {reason_of(error)}")
        return False
    return True


def _keep_others(context: StageOutContext, reports: list[_Report]) -> bool:
    sources = {report.source for report in reports}
    stems = {report.source.stem: report.stem for report in reports}
    files = [
        (path, folder)
        for scratch, folder in context.plan.outputs
        for path in sorted(scratch.iterdir())
        if path.is_file() and path not in sources
    ]
    files += [(p, context.plan.destination) for p in sorted(context.plan.temporary.rglob("*"))
              if p.suffix == _UNFINISHED and p.is_file()]  # fmt: skip
    safe = True
    for path, folder in files:
        name = stems.get(path.stem, path.stem) + path.suffix
        try:
            put = atomic_move.put_other(path, folder / name, overwrite=context.line.overwrites)
        except OSError as error:
            context.say(f"{path.name} could not be kept ({reason_of(error)}): it is {path}")
            safe = False
            continue
        if put.suffix == _UNFINISHED:
            context.say(f"{put}: nsys could not make a report of it; try: nsys import {put}")
    return safe


def _without(context: StageOutContext, ended: ExitState, safe: bool) -> Captured:
    name = context.line.profiler.name
    if ended.killed_by is not None:
        why = f"{name} was killed (signal {ended.killed_by})"
    elif ended.status:
        why = f"{name} ended with status {ended.status}"
    else:
        why = f"{name} wrote none"
    problems = (f"no report: {why}",)
    path = context.plan.first
    if path is None:
        stem = atomic_move.free_stem(context.plan.destination, context.plan.expected)
        path = context.plan.destination / (stem + records.SUFFIX)
    written = _written(context, replace(context.record, problems=problems), path)
    context.say(f"{_who(context.record)}: {problems[0]}")
    if safe:
        shutil.rmtree(context.plan.scratch, ignore_errors=True)
    return Captured(ended.status, (path,) if written else (), problems)


def _write(context: StageOutContext, report: _Report, pending: Sequence[str] = ()) -> Path | None:
    path = context.plan.destination / (report.stem + records.SUFFIX)
    full = replace(
        context.record,
        report=report.kept.name if report.kept is not None else None,
        store=report.store.name if report.store is not None else None,
        problems=(*report.problems, *pending),
    )
    return path if _written(context, full, path) else None


def _written(context: StageOutContext, record: Record, path: Path) -> bool:
    try:
        record.write(path)
    except OSError as error:
        context.say(f"{path}: the record could not be written: {reason_of(error)}")
        return False
    return True


def _is_refined(context: StageOutContext, report: _Report) -> bool:
    options = context.options
    asked = "export" in options.keep or "store" in options.keep or bool(options.stores)
    return asked and report.size_bytes > 0


def _refine(context: StageOutContext, report: _Report, interruptions: _Interruptions) -> None:
    if not _is_refined(context, report):
        return
    options = context.options
    try:
        with interruptions.allowed():
            source = _exported(context, report)
        # The importer finds rank and job where it finds the report's own record.
        with suppress(OSError):
            context.record.write(records.record_path(source))
        own = [None] if "store" in options.keep else []
        for store in (*options.stores, *own):
            with interruptions.allowed():
                made = _imported(context, report, source, store)
            if made is not None:
                report.store = _put(report, made, "store", context)
    except Interrupted:
        report.problems.append("not imported to the end: the job was being ended")


def _exported(context: StageOutContext, report: _Report) -> Path:
    if not context.line.profiler.adds_suffix:
        return report.source
    target = report.source.with_suffix(atomic_move.EXPORT_SUFFIX)
    if not target.is_file():  # nsys profile --export=sqlite has just made it
        if "export" not in context.options.keep:
            return report.source  # which is read without an export
        try:
            timeout_s = context.options.timeout_s
            export(context.profiler, report.source, target, context.environment, timeout_s)
        except ExportError as error:
            report.problems.append(str(error))
            if error.words:
                context.say(f"{report.source.name}: nsys says: {error.words}")
            return report.source
        _put(report, target, "export", context)
    return target


def _imported(
    context: StageOutContext, report: _Report, source: Path, store: Location | None
) -> Path | None:
    made = source.with_suffix(atomic_move.STORE_SUFFIX) if store is None else None
    try:
        report.kernels = context.importing(source, store, made)
    except ImportFailed as error:
        report.problems.append("it could not be imported")
        context.say(f"{report.source.name}: {error}")
        return None
    return made


def _put(report: _Report, path: Path, kind: str, context: StageOutContext) -> Path | None:
    target = context.plan.destination / (report.stem + path.suffix)
    try:
        atomic_move.put_other(path, target, overwrite=True)  # the report has claimed the name
    except OSError as error:
        report.problems.append(f"the {kind} could not be kept ({reason_of(error)})")
        return None
    return target


def _summarize(context: StageOutContext, report: _Report) -> None:
    record = context.record
    kept = report.kept or report.store
    parts = [str(kept) if kept is not None else report.source.name]
    parts.append(f"{report.size_bytes / 1e6:,.1f} MB")
    if report.kernels is not None:
        parts.append(f"{report.kernels:,} kernels")
    if record.start_utc_ns is not None and record.end_utc_ns is not None:
        parts.append(f"{(record.end_utc_ns - record.start_utc_ns) / 1e9:.1f} s")
    if record.exit_status:
        parts.append(f"exit status {record.exit_status}")
    context.say(f"{_who(record)}: {', '.join(parts)}{''.join('; ' + p for p in report.problems)}")


def _who(record: Record) -> str:
    rank = "no rank" if record.rank is None else f"rank {record.rank}"
    return f"{rank} on {record.host}"


class ExportError(Exception):
    """The export failed; the text says how, `words` what nsys said last."""

    def __init__(self, text: str, words: str = "") -> None:
        """Say how the export failed; `words` is what nsys printed last."""
        super().__init__(text)
        self.words = words


def export(
    nsys: str, report: Path, target: Path, environment: Mapping[str, str], timeout_s: float
) -> None:
    """Have nsys export a report to `target`, a new path, or raise ExportError and leave none."""
    command = [nsys, "export", "--type", "sqlite", "--output", str(target), str(report)]
    # Output goes to a file and not to a pipe, which a helper that outlives nsys would hold open.
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
    except BaseException:  # the time is up, or this process was signalled to end
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def _last_line(output: int) -> str:
    size = os.lseek(output, 0, os.SEEK_END)
    os.lseek(output, max(0, size - 4096), os.SEEK_SET)
    lines = os.read(output, 4096).decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


class Interrupted(BaseException):
    """A signal to end has come. No Exception: nothing but what asked for it may take it."""


class _Interruptions:
    def __init__(self, came: bool) -> None:
        self._came = came
        self._breaking = False

    @contextmanager
    def allowed(self) -> Iterator[None]:
        if self._came:
            raise Interrupted
        self._breaking = True
        try:
            yield
        finally:
            self._breaking = False

    def take(self, number: int, frame: FrameType | None) -> None:
        self._came = True
        if self._breaking:
            self._breaking = False
            raise Interrupted
