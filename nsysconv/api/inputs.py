"""What an import reads: the files that its arguments stand for, each recording once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nsysconv import record
from nsysconv.api.targets import Target
from nsysconv.errors import InputError, NsysconvError, UsageError
from nsysconv.importers.nsys_report import export_path
from nsysconv.importers.probe import Probe
from nsysconv.record import Record
from nsysconv.store.address import Url
from nsysconv.store.location import Location, is_store, parse_location, reading
from nsysconv.store.runs import in_rows, spans

_LOGS = frozenset({"", ".csv", ".err", ".log", ".out", ".txt"})
"""What job scripts, too, leave beside a record under its name."""


@dataclass(frozen=True)
class Input:
    """The files of one input, several where they are joined.

    `from_folder`: a folder held it. `store`: it is one, and where. `together`: what the inputs of one
    folder, or of one list of files, have in common, and `label` what a run of them is called; None: it
    was named alone. `named`: the files as the user named them, where `paths` are other words for them.
    """

    paths: tuple[Path, ...]
    from_folder: bool = False
    store: Location | None = None
    together: str | None = None
    label: str | None = None
    named: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """The first file, by which the input is called."""
        return self.paths[0]

    @property
    def is_store(self) -> bool:
        """Whether it is a store."""
        return self.store is not None


@dataclass(frozen=True)
class SkippedFile:
    """A file that is not read because its recording is there in another form: `reason`."""

    path: Path
    reason: str


@dataclass(frozen=True)
class Inputs:
    """What is read, and what is not."""

    read: tuple[Input, ...]
    passed: tuple[SkippedFile, ...] = ()
    lost: tuple[MissingRank, ...] = ()


def check_there(places: Iterable[Location]) -> None:
    """Raises InputError for files and folders that there are not: all of them, before work begins."""
    missing = [str(each) for each in places if isinstance(each, Path) and not _is_there(each)]
    if missing:
        others = "\n".join(f"{each}: no such file" for each in missing[1:])
        raise InputError("no such file", where=missing[0], hint=others)


def _is_there(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # it will be told when the file is read
    return True


def joined(paths: Sequence[Target]) -> Inputs:
    """The files as one input."""
    files = tuple(Path(str(path)) for path in paths)
    folder = next((path for path in files if path.is_dir()), None)
    if folder is not None or len(files) < 2:
        raise UsageError(
            "only files can be joined" if folder else "one file alone cannot be joined",
            where=str(folder or files[0]),
            hint="Name the logs of one run: nsysconv import --join GPU.csv API.csv",
        )
    return Inputs((Input(files),))


def found(paths: Sequence[Target], target: Location | None = None) -> Inputs:
    """Every file to read, folders' in the order of their names, numbers in them by size.

    The target of the import is none of them. Hidden files and folders are not looked at.
    """
    named = [parse_location(path) for path in paths]
    files = [each for each in named if isinstance(each, Path) and not each.is_dir()]
    own = target if isinstance(target, Path) and target.exists() else None
    every: list[Input] = []
    records: list[Path] = []
    for given in named:
        if isinstance(given, Url):
            every.append(Input((Path(str(given)),), store=given))
            continue
        for each in _in_folder(given) if given.is_dir() else (_file(given, files),):
            if own is not None and _same(each.path, own):
                if not each.from_folder:
                    raise UsageError("a store cannot be imported into itself", where=str(own))
            elif record.is_record(each.path) and (each.from_folder or len(named) > 1):
                records.append(each.path)
            else:
                every.append(replace(each, store=each.path if is_store(each.path) else None))
    read, passed = _once(every)
    return Inputs(tuple(read), tuple(passed), tuple(_lost(records, every)))


def _in_folder(folder: Path) -> Iterator[Input]:
    """The files below a folder."""
    whole = folder.resolve()
    files = (
        file
        for file in folder.rglob("*")
        if not any(part.startswith(".") for part in file.relative_to(folder).parts)
    )
    for file in sorted(files, key=_by_numbers):
        if file.is_file():
            yield Input((file,), from_folder=True, together=f"folder {whole}", label=whole.name)


def _file(path: Path, files: Sequence[Path]) -> Input:
    """A file that was named, with others or alone."""
    if len(files) == 1:
        return Input((path,))
    parents = {str(file.absolute().parent) for file in files}
    return Input((path,), together="files", label=Path(os.path.commonpath(parents)).name or None)


def _by_numbers(path: Path) -> list[list[str | int]]:
    """Orders names so that rank 10 comes after rank 9."""
    return [
        [
            int(piece) if number % 2 else piece
            for number, piece in enumerate(re.split("([0-9]+)", p))
        ]
        for p in path.parts
    ]


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _lost(records: Sequence[Path], every: Sequence[Input]) -> Iterator[MissingRank]:
    """The records whose rank has nothing here: neither what they name nor a file that they are beside."""
    accompanied = {
        record.record_path(path)
        for each in every
        for path in each.paths
        if path.suffix not in _LOGS
    }
    for path in records:
        told = record.read(path)
        if told is None or path in accompanied:
            continue
        names = [name for name in (told.report, told.store) if name is not None]
        if not any(path.with_name(name).exists() for name in names):
            yield MissingRank(path, told)


def _once(every: Sequence[Input]) -> tuple[list[Input], list[SkippedFile]]:
    """The inputs without those whose recording another one holds: store before export before report."""
    groups: dict[Path, list[Input]] = {}
    for each in every:
        groups.setdefault(each.path.with_suffix(""), []).append(each)
    passed: dict[Path, str] = {}
    for group in groups.values():
        if len(group) > 1:
            passed.update(_doubled(group))
    read = [each for each in every if each.path not in passed]
    return read, [SkippedFile(path, reason) for path, reason in passed.items()]


def _doubled(group: Sequence[Input]) -> Iterator[tuple[Path, str]]:
    """Of files with one stem those that need not be read, and why."""
    stores = [each.path for each in group if each.is_store]
    files = {each.path for each in group if not each.is_store}
    for path in sorted(files):
        store = next((store for store in stores if _holds(store, path)), None)
        if store is not None:
            files.discard(path)
            yield path, f"its recording is in {store.name}"
    for report in sorted(files):
        export = export_path(report)
        if export is None or export not in files:
            continue
        if export.stat().st_mtime_ns < report.stat().st_mtime_ns:
            yield export, f"an export older than {report.name}, which is read instead"
        else:
            yield report, f"its export {export.name} is read"


def _holds(store: Path, path: Path) -> bool:
    """Whether a store holds the recording of a file of its stem."""
    told = record.read(record.record_path(path))
    try:
        with reading(store) as opened:
            profiles = [profile.attributes for profile in opened.profiles()]
    except NsysconvError:
        return False  # it will be told when the store is read
    if told is not None and (told.store, told.report) == (store.name, path.name):
        return bool(profiles)
    if any(Path(p["path"]).stem == path.stem for p in profiles) and (
        store.stat().st_mtime_ns >= path.stat().st_mtime_ns
    ):
        return True
    known = {p["sha256"] for p in profiles}
    with Probe(path) as probe:
        return probe.sha256() in known


_SHOWN = 20


@dataclass(frozen=True)
class MissingRank:
    """A record of `nsysconv profile` whose report is not there."""

    path: Path
    record: Record

    def __str__(self) -> str:
        rank = self.record.rank
        why = "; ".join(self.record.problems) or f"see {self.path}"
        return f"{'a process' if rank is None else f'rank {rank}'} left no report: {why}"


def missing_rank_lines(lost: Sequence[MissingRank], *, alone: bool) -> Iterator[str]:
    """A line on each, of many the first. `alone`: nobody else is there; who is missing is said, too."""
    yield from map(str, lost[:_SHOWN])
    if len(lost) > _SHOWN:
        yield f"and {len(lost) - _SHOWN:,} more lost ranks"
    if alone:
        yield from _ranks_without_record([each.record for each in lost])


def _ranks_without_record(records: Sequence[Record]) -> Iterator[str]:
    """Per job the ranks that left nothing at all, as far as the records tell how many there were."""
    for job in dict.fromkeys(each.job for each in records):
        told = [each for each in records if each.job == job]
        size = max((each.world_size or 0 for each in told), default=0)
        left = {each.rank for each in told}
        if missing := [rank for rank in range(size) if rank not in left]:
            of = f"of the {size:,} ranks" + (f" of {job}" if job else "")
            yield f"{of} these left neither report nor record: {spans(in_rows(missing))}"
