"""What nsysconv does, as functions: import, open, report, info, runs, sql.

import nsysconv
nsysconv.import_files(["report1.sqlite"], store="job.db")
with nsysconv.open("job.db") as profile:
    profile.report("kernels").to_pandas()
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from nsysconv import importers, queries
from nsysconv.errors import InputError, NotRecorded, NsysconvError, StrictError, UsageError
from nsysconv.facts import Fact
from nsysconv.importers.contract import Importer
from nsysconv.importers.probe import Probe
from nsysconv.notes import Note, Severity
from nsysconv.phases import phase
from nsysconv.queries.contract import Request
from nsysconv.report import Column, Report, build_table
from nsysconv.store.attached import in_place
from nsysconv.store.database import is_store
from nsysconv.store.read import Profile, Store, find_profile, reading
from nsysconv.store.recording import Recording
from nsysconv.store.write import Imported, Origin, Writer, writing
from nsysconv.timeline.idle import IDLE_KINDS
from nsysconv.timeline.slices import Slice
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

StrPath = str | os.PathLike[str]
Say = Callable[[str], None]
Progress = Callable[[Path, str, int], None]
"""Called with the file, the table and the number of source rows just copied."""

KERNEL_NAMES = ("demangled", "short", "mangled")


def _silent(*_: object) -> None:
    return None


# -- import


@dataclass(frozen=True)
class FileResult:
    """What became of one input: `imported` recordings, or `error`; `skipped` where a folder held it."""

    path: Path
    imported: tuple[Imported, ...] = ()
    error: NsysconvError | None = None
    skipped: bool = False


@dataclass(frozen=True)
class ImportResult:
    """What became of an import: the store and one entry per file, in the order of reading."""

    store: Path
    files: tuple[FileResult, ...]

    @property
    def errors(self) -> tuple[NsysconvError, ...]:
        """What went wrong with files that were named (files of a folder may be anything)."""
        return tuple(file.error for file in self.files if file.error and not file.skipped)


def import_files(
    paths: Sequence[StrPath],
    store: StrPath | None = None,
    *,
    replace: bool = False,
    strict: bool = False,
    progress: Progress = _silent,
    say: Say = _silent,
) -> ImportResult:
    """Imports profiles into a store, which is made if it does not exist.

    `paths` are files or folders (all files below; what is no profile is skipped with its reason).
    Without `store` it is STEM.db of the only path in the current folder, and must be new. Importing the
    same bytes again changes nothing; `replace` reads them again. `strict` refuses files of which
    something had to be dropped or approximated. One bad file does not keep the others out: see
    ImportResult.errors. Raises UsageError where the store cannot be made or is something else.
    """
    files = list(_files(paths))
    target = Path(store) if store is not None else _default_store(paths, files)
    if not files:
        raise InputError("no files in it", where=", ".join(str(p) for p in paths))
    results: list[FileResult] = []
    with phase("import"):
        try:
            with writing(target) as writer:
                for path, from_folder in files:
                    results.append(
                        _import_one(
                            path,
                            from_folder,
                            writer,
                            replace=replace,
                            strict=strict,
                            progress=progress,
                            say=say,
                            fresh=not target.exists(),
                        )
                    )
                if not any(result.imported for result in results):
                    raise _NothingImportedError
        except _NothingImportedError:
            pass
    return ImportResult(target, tuple(results))


class _NothingImportedError(Exception):
    """Leaves the transaction so that no empty store appears."""


def _files(paths: Sequence[StrPath]) -> Iterator[tuple[Path, bool]]:
    """Every file to read, and whether a folder held it."""
    for given in paths:
        path = Path(given)
        if path.is_dir():
            for file in sorted(path.rglob("*")):
                if file.is_file() and not file.name.startswith("."):
                    yield file, True
        else:
            yield path, False


def _default_store(paths: Sequence[StrPath], files: Sequence[tuple[Path, bool]]) -> Path:
    if len(paths) != 1:
        raise UsageError("several inputs need a store", hint="Name one: -o STORE.db")
    given = Path(paths[0])
    target = Path((given.resolve().name if given.is_dir() else given.stem) + ".db")
    if target.exists() and not (is_store(target) and _holds(target, [path for path, _ in files])):
        raise UsageError(
            "the file exists and is not the store of this input",
            where=str(target),
            hint=f"Add to it with -o {target}, name another with -o OTHER.db, or move it away.",
        )
    return target


def _holds(store: Path, paths: Sequence[Path]) -> bool:
    """Whether a store already holds all of these files."""
    with reading(store) as opened:
        known = {profile.attributes["sha256"] for profile in opened.profiles()}
    return all(path.is_file() and Probe(path).sha256() in known for path in paths)


def _import_one(
    path: Path,
    from_folder: bool,
    writer: Writer,
    *,
    replace: bool,
    strict: bool,
    progress: Progress,
    say: Say,
    fresh: bool,
) -> FileResult:
    try:
        with importers.opened(path, say) as probe, ThreadPoolExecutor(1) as pool:
            try:
                importer = importers.detect(probe)
            except InputError as error:
                return FileResult(path, error=error, skipped=from_folder)
            hashing = pool.submit(probe.sha256)
            if not fresh:
                # Hashing first is cheaper than copying rows that are there already.
                identity = _identity(hashing.result(), importer)
                existing = writer.find(identity)
                if existing is not None and not replace:
                    return FileResult(path, (existing,))
                if existing is not None:
                    writer.remove(existing.profile_id)

            def origin() -> Origin:
                digest = hashing.result()
                return Origin(
                    path.stem, importer.NAME, str(path), digest, _identity(digest, importer)
                )

            imported = [
                writer.add(
                    recording,
                    origin,
                    lambda table, rows: progress(path, table, rows),
                    _strictly if strict else _silent,
                )
                for recording in importer.read(probe)
            ]
            return FileResult(path, tuple(imported))
    except (InputError, StrictError) as error:
        if not error.where:
            error.where = str(path)
        return FileResult(path, error=error)


def _identity(digest: str, importer: Importer) -> str:
    return f"{digest}:{importer.NAME}:{importer.VERSION}"


def _strictly(notes: Sequence[Note]) -> None:
    doubtful = [note for note in notes if note.severity is not Severity.INFO]
    if doubtful:
        texts = "\n".join(f"  {note.slug}: {note.text} ({note.count})" for note in doubtful)
        raise StrictError(
            "not imported, because --strict allows nothing dropped or approximated", hint=texts
        )


# -- open and report


@dataclass(frozen=True)
class ShownReport(Report):
    """A report that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        from nsysconv.render import html

        return html.fragment(self)


class OpenProfile:
    """One opened profile, in a store or in its own file. Use as a context manager."""

    def __init__(self, profile: Profile, resources: ExitStack) -> None:
        self._timeline = Timeline(profile)
        self._resources = resources
        self.profile = profile

    def __enter__(self) -> OpenProfile:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        self._resources.close()

    def report(
        self,
        name: str,
        *,
        time: tuple[int, int] | None = None,
        limit: int = 0,
        idle: Sequence[str] = ("no_op",),
        names: str = "demangled",
    ) -> ShownReport:
        """One report.

        `time` looks at [start, end) in ns; `limit` cuts the rows (0: all); `idle` are kinds of idle
        time (no_op, no_kernel, stream); `names` are the kernels' (demangled, short, mangled). Raises
        NotRecorded where the profile lacks what the report needs, UsageError for unknown words.
        """
        request = _request(time, limit, idle, names)
        return _shown(queries.answer(name, self._timeline, request))

    def reports(
        self,
        names: Sequence[str] | None = None,
        *,
        for_people: bool = False,
        limit: int | None = None,
        time: tuple[int, int] | None = None,
        idle: Sequence[str] = ("no_op",),
        kernel_names: str = "demangled",
    ) -> list[ShownReport]:
        """Several reports, all by default; one that is not recorded says so in place of rows.

        `limit` None: 20 rows for people; else 1000 gaps and all of the rest.
        """
        found = []
        for name in names if names is not None else queries.REPORTS:
            queries.query(name)
            rows = queries.default_limit(name, for_people=for_people) if limit is None else limit
            try:
                report = queries.answer(
                    name, self._timeline, _request(time, rows, idle, kernel_names)
                )
            except NotRecorded as missing:
                report = queries.unanswered(missing, self._timeline)
            found.append(_shown(report))
        return found


def _request(time: tuple[int, int] | None, limit: int, idle: Sequence[str], names: str) -> Request:
    for kind in idle:
        if kind not in IDLE_KINDS:
            raise UsageError(
                f"no kind of idle time {kind!r}", hint=f"There are: {', '.join(IDLE_KINDS)}"
            )
    if names not in KERNEL_NAMES:
        raise UsageError(f"no kernel names {names!r}", hint=f"There are: {', '.join(KERNEL_NAMES)}")
    if time is not None and time[1] <= time[0]:
        raise UsageError("the slice ends before it starts", hint="START/END, START before END.")
    return Request(Slice(*time) if time is not None else None, limit, tuple(idle), names)


def _shown(report: Report) -> ShownReport:
    return ShownReport(**{field.name: getattr(report, field.name) for field in fields(report)})


def open(target: StrPath, *, say: Say = _silent) -> OpenProfile:  # noqa: A001 - as gzip.open
    """Opens a profile: a store's (`job.db`, `job.db@LABEL`, `@ID`, `@rank=N`) or a profile file.

    A file is read in place and nothing is left behind. Raises UsageError where a store holds several
    profiles and none was chosen, InputError where the file cannot be read.
    """
    path, selector = _split_target(target)
    with ExitStack() as stack:
        if is_store(path):
            store = stack.enter_context(reading(path))
            profile = _choose(store, path, selector)
        else:
            if not path.exists():
                raise UsageError("no such file", where=str(path))
            if path.is_dir():
                raise UsageError(
                    "a folder",
                    where=str(path),
                    hint=f"Import it first: nsysconv import {path} -o STORE.db",
                )
            store = stack.enter_context(_in_place(path, stack, say))
            profile = _choose(store, path, selector)
        return OpenProfile(profile, stack.pop_all())
    raise AssertionError("unreachable")


def _split_target(target: StrPath) -> tuple[Path, str | None]:
    """PATH[@WORD]; an existing path wins over `@`."""
    text = os.fspath(target)
    if Path(text).exists() or "@" not in text:
        return Path(text), None
    path, _, selector = text.rpartition("@")
    return Path(path), selector


def _choose(store: Store, path: Path, selector: str | None) -> Profile:
    profiles = store.profiles()
    if selector is not None and selector.startswith("rank="):
        ranked = [
            p
            for p in profiles
            if any(str(row["rank"]) == selector[5:] for row in p.rows("process"))
        ]
        if len(ranked) == 1:
            return ranked[0]
        raise UsageError(
            f"{len(ranked)} profiles with {selector}",
            where=str(path),
            hint="`nsysconv runs STORE` lists the profiles.",
        )
    if selector is not None:
        return find_profile(store, selector)
    if len(profiles) == 1:
        return profiles[0]
    if not profiles:
        raise UsageError(
            "the store holds no profile",
            where=str(path),
            hint=f"Import one: nsysconv import FILE -o {path}",
        )
    known = "\n".join(f"  {path}@{profile.ref.label}" for profile in profiles)
    raise UsageError(
        f"the store holds {len(profiles)} profiles: name one", where=str(path), hint=known
    )


def _in_place(path: Path, stack: ExitStack, say: Say) -> Any:
    probe = stack.enter_context(importers.opened(path, say))
    importer = importers.detect(probe)
    recording: Recording = next(iter(importer.read(probe)))
    origin = Origin(path.stem, importer.NAME, str(path), "", "")
    return in_place(recording, origin)


# -- what is there


def runs(store: StrPath) -> Report:
    """The profiles of a store, one row each."""
    path = Path(store)
    with reading(path) as opened:
        labels = {row["id"]: row["label"] for row in opened.runs()}
        rows = [
            {
                "run": labels.get(p.attributes["run_id"]),
                "id": p.id,
                "label": p.ref.label,
                "source": p.ref.source,
                "path": p.ref.path,
                "host": p.attributes["host"],
                "recording_ns": p.attributes["recording_ns"],
                "kernel_count": p.row_count("kernel"),
                "api_call_count": p.row_count("api_call"),
            }
            for p in opened.profiles()
        ]
    columns = (
        Column("run", Unit.TEXT, "The run."),
        Column("id", Unit.ID, "Number in the store."),
        Column("label", Unit.TEXT, "Name in the store; select it with STORE@LABEL."),
        Column("source", Unit.TEXT, "The importer that read it.", brief=False),
        Column("path", Unit.TEXT, "The file it came from.", brief=False),
        Column("host", Unit.TEXT, "The machine.", brief=False),
        Column("recording_ns", Unit.NS, "Length of the recording."),
        Column("kernel_count", Unit.COUNT, "Kernels."),
        Column("api_call_count", Unit.COUNT, "API calls."),
    )
    return _report("runs", "Profiles in the store", columns, rows)


def info(target: StrPath, *, say: Say = _silent) -> list[Report]:
    """What a profile is, and what it can answer: its attributes, and its facts with advice."""
    with open(target, say=say) as opened:
        profile = opened.profile
        shown = [
            ("source", profile.ref.source),
            ("path", profile.ref.path),
            *(
                (key, profile.attributes[key])
                for key in (
                    "tool_version",
                    "format_version",
                    "host",
                    "driver_version",
                    "graph_mode",
                    "recording_ns",
                    "zero_utc_ns",
                )
            ),
        ]
        attributes = [
            {"attribute": key, "value": str(value)} for key, value in shown if value is not None
        ]
        attributes += [
            {"attribute": f"{table} rows", "value": f"{profile.row_count(table):,}"}
            for table in _EVENTS
            if profile.row_count(table)
        ]
        facts = [
            {
                "fact": fact.label,
                "recorded": "yes" if fact in profile.facts else "no",
                "advice": None if fact in profile.facts else profile.advice.get(fact),
            }
            for fact in Fact
        ]
        what = _report(
            "profile",
            f"Profile {profile.ref.label}",
            (Column("attribute", Unit.TEXT, "What."), Column("value", Unit.TEXT, "Its value.")),
            attributes,
            profile.notes,
        )
        can = _report(
            "facts",
            "What it can answer",
            (
                Column("fact", Unit.TEXT, "A kind of information."),
                Column("recorded", Unit.TEXT, "Whether the profile holds it."),
                Column("advice", Unit.TEXT, "How to record it next time."),
            ),
            facts,
        )
        return [what, can]


_EVENTS = (
    "kernel",
    "memcpy",
    "memset",
    "unified_memory_event",
    "graph_launch",
    "api_call",
    "range",
    "sync",
    "overhead",
)


def sql(store: StrPath, text: str) -> Report:
    """The rows of a select on a store. Raises InputError with SQLite's own words where it is wrong."""
    path = Path(store)
    with reading(path) as opened:
        table, _ = opened.sql(text)
    kinds = {"int64": Unit.COUNT, "double": Unit.COUNT}
    columns = tuple(
        Column(
            field.name, kinds.get(str(field.type), Unit.TEXT), "", real=str(field.type) == "double"
        )
        for field in table.schema
    )
    return Report("sql", "", columns, table, row_count=table.num_rows)


def _report(
    name: str,
    title: str,
    columns: tuple[Column, ...],
    rows: Sequence[dict[str, Any]],
    notes: Sequence[Note] = (),
) -> Report:
    table: pa.Table = build_table(columns, {c.name: [row[c.name] for row in rows] for c in columns})
    return Report(name, title, columns, table, notes=tuple(notes), row_count=len(rows))
