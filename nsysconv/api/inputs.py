"""The files that arguments name, each recording once; those that give no profile, and missing ranks."""

from __future__ import annotations

import os
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from nsysconv import record
from nsysconv.api.targets import Joined, Say, Target
from nsysconv.errors import InputError, NoProfileError, NsysconvError, UsageError
from nsysconv.importers import detection
from nsysconv.importers.probe import Probe
from nsysconv.names import escaped
from nsysconv.notes import Note, Severity
from nsysconv.record import Record
from nsysconv.store.location import (
    Location,
    Url,
    globbed,
    is_store,
    parse_location,
    reading,
    split_target,
)
from nsysconv.store.runs import contiguous_ranges, ranges_as_text

_LOGS = frozenset({"", ".csv", ".err", ".log", ".out", ".txt"})
"""Suffixes of files that job scripts, too, leave beside a record under its name."""

_GZIP, _BYTES_AT_ONCE = ".gz", 1 << 20

UNREAD = "files-unread"
"""The slug of the note on files that could not be read, while others of their folder were."""


_Paths = tuple[Path, ...]


@dataclass(frozen=True)
class Input:
    """An input: its file, or its files if they are joined.

    `from_folder`: it was found in a folder. `store`: where it is, if it is a store. `together`: what the
    inputs of one folder, or of one list of files, have in common, and `label` what a run of them is
    called; None if it was named alone. `named`: the files as the user named them, if `paths` are not.
    `damage`: why a store is not to be read. `joined`: the user says that its files are one profile; for
    each of them, `urls` has the database that takes its place, `selectors` the profile of a store.
    """

    paths: tuple[Path, ...]
    from_folder: bool = False
    store: Location | None = None
    together: str | None = None
    label: str | None = None
    named: tuple[str, ...] = ()
    damage: InputError | None = None
    joined: bool = False
    urls: tuple[Url | None, ...] = ()
    selectors: tuple[str | None, ...] = ()

    @property
    def path(self) -> Path:
        """Return the first file, by which the input is called."""
        return self.paths[0]

    @property
    def own_label(self) -> str:
        """Return what its profile is called, by its files' names.

        Of files that a user joins, and whose names have nothing in common, the first names it.
        """
        return detection.profile_label(*self.paths, by_folder=not self.joined)

    def absolute(self) -> Input:
        """Return it for a process that was started in another folder."""
        paths = tuple(path.absolute() for path in self.paths)
        return replace(self, paths=paths, named=self.shown)

    @property
    def shown(self) -> tuple[str, ...]:
        """Return its files as people see them."""
        return self.named or tuple(map(str, self.paths))

    @property
    def is_store(self) -> bool:
        """Return whether it is a store."""
        return self.store is not None


@dataclass(frozen=True)
class SkippedFile:
    """Name a file that is not read, because its recording is there in another form: `reason`.

    `named`: the files of a recording of several, as a pattern.
    """

    path: Path
    reason: str
    named: str = ""


@dataclass(frozen=True)
class Inputs:
    """The inputs of an import, the skipped files, and the records of ranks that left no report."""

    read: tuple[Input, ...]
    passed: tuple[SkippedFile, ...] = ()
    lost: tuple[MissingRank, ...] = ()


def check_existing(places: Iterable[Location]) -> None:
    """Raise one InputError that names all files and folders that do not exist."""
    missing = [str(each) for each in places if isinstance(each, Path) and not _exists(each)]
    if missing:
        others = "\n".join(f"{path}: no such file" for path in missing[1:])
        raise InputError("no such file", where=missing[0], hint=others)


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # the error is raised again when the file is read
    return True


def joined(paths: Sequence[Target]) -> Inputs:
    """Return the files, and profiles of stores (STORE@LABEL), as one input.

    Raises UsageError for a folder, or one file alone.
    """
    places = [split_target(path) for path in paths]
    urls = tuple(place if isinstance(place, Url) else None for place, _ in places)
    files = tuple(Path(each.database) if isinstance(each, Url) else each for each, _ in places)
    folder = next(
        (file for file, url in zip(files, urls, strict=True) if url is None and file.is_dir()), None
    )
    if folder is not None or len(files) < 2:
        raise UsageError(
            "only files can be joined" if folder else "one file alone cannot be joined",
            where=str(folder or files[0]),
            hint="Name the logs of one run, or a timeline and metrics of the same program: "
            "nsysconv import --join GPU.csv API.csv",
        )
    check_existing(place for place, _ in places)
    named = tuple(
        str(path) if url is None else f"{url}@{word}" if word else str(url)
        for path, url, (_, word) in zip(paths, urls, places, strict=True)
    )
    selectors = tuple(word for _, word in places)
    return Inputs((Input(files, named=named, joined=True, urls=urls, selectors=selectors),))


def joined_input(target: Target) -> Input | None:
    """Return the files of a target that are joined; None for another target."""
    return joined(target.names).read[0] if isinstance(target, Joined) else None


def find_inputs(paths: Sequence[Target], target: Location | None = None) -> Inputs:
    """Return every file to read: a folder's in the order of their names, numbers in them by size.

    `target`, the store to import into, is left out, and so are hidden files and folders. Raises
    UsageError if the target was named as an input.
    """
    places = [parse_location(path) for path in paths]
    files = [each for each in places if isinstance(each, Path) and not each.is_dir()]
    own = target if isinstance(target, Path) and target.exists() else None
    inputs: list[Input] = []
    records: list[Path] = []
    for each in places:
        if isinstance(each, Url):
            inputs.append(Input((Path(str(each)),), store=each))
            continue
        for item in _inputs_of_folder(each) if each.is_dir() else (_named_file(each, files),):
            if own is not None and _is_same_file(item.path, own):
                if not item.from_folder:
                    raise UsageError("a store cannot be imported into itself", where=str(own))
            elif record.is_record(item.path) and (item.from_folder or len(places) > 1):
                records.append(item.path)
            else:
                inputs.append(replace(item, store=item.path if is_store(item.path) else None))
    read, skipped = _without_duplicates(inputs)
    read, replaced = _grouped(read)
    lost = tuple(_missing_ranks(records, inputs))
    return Inputs(tuple(read), (*skipped, *replaced), lost)


def expanded(paths: Iterable[Target]) -> Iterator[Target]:
    """Yield targets, of a pattern the files that match it. Raises UsageError where none does."""
    for path in paths:
        matches = globbed(path)
        if matches == []:
            raise UsageError("no file matches", where=str(path))
        yield from (path,) if matches is None else matches


def _inputs_of_folder(folder: Path) -> Iterator[Input]:
    whole = folder.resolve()
    for file in sorted(folder.rglob("*"), key=_by_numbers):
        is_hidden = any(part.startswith(".") for part in file.relative_to(folder).parts)
        if not is_hidden and file.is_file():
            yield Input((file,), from_folder=True, together=f"folder {whole}", label=whole.name)


def _named_file(path: Path, files: Sequence[Path]) -> Input:
    if len(files) == 1:
        return Input((path,))
    parents = {str(file.absolute().parent) for file in files}
    return Input((path,), together="files", label=Path(os.path.commonpath(parents)).name or None)


def _by_numbers(path: Path) -> list[list[str | int]]:
    # Rank 10 comes after rank 9.
    pieces = [re.split("([0-9]+)", part) for part in path.parts]
    return [[int(p) if i % 2 else p for i, p in enumerate(of_part)] for of_part in pieces]


def _is_same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


def _missing_ranks(records: Sequence[Path], inputs: Sequence[Input]) -> Iterator[MissingRank]:
    # A rank is there if a file lies beside its record, or one that the record names.
    files = (path for each in inputs for path in each.paths)
    accompanied = {record.record_path(path) for path in files if path.suffix not in _LOGS}
    for path in records:
        content = record.read(path)
        if content is None or path in accompanied:
            continue
        names = [name for name in (content.report, content.store) if name is not None]
        if not any(path.with_name(name).exists() for name in names):
            yield MissingRank(path, content)


def _without_duplicates(inputs: Sequence[Input]) -> tuple[list[Input], list[SkippedFile]]:
    # If several files hold one recording, a store is read before an export, and an export before a
    # report.
    groups: dict[Path, list[Input]] = {}
    for each in inputs:
        groups.setdefault(_without_endings(each.path), []).append(each)
    several = [group for group in groups.values() if len(group) > 1]
    reasons = {path: reason for group in several for path, reason in _duplicates(group)}
    read = [each for each in inputs if each.path not in reasons]
    return read, [SkippedFile(path, reason) for path, reason in reasons.items()]


def _without_endings(path: Path) -> Path:
    return (path.with_suffix("") if path.suffix == _GZIP else path).with_suffix("")


def _grouped(inputs: Sequence[Input]) -> tuple[list[Input], list[SkippedFile]]:
    # Files that are parts of one recording become one input in the place of the first of them, or none
    # where another file holds all of it.
    files = {each.path: each for each in inputs if not each.is_store}
    groups = detection.groups(list(files)) if len(files) > 1 else []
    skipped = {
        path: SkippedFile(path, f"its recording is in {group.instead.name}")
        for group in groups
        if group.instead is not None
        for path in group.paths
    }
    for copy, first in _copied_parts([group.paths for group in groups], files):
        skipped.setdefault(copy, SkippedFile(copy, f"the same bytes as {first}"))
    parts = [tuple(p for p in group.paths if p not in skipped) for group in groups]
    whole = {path: paths for paths in parts for path in paths}
    read = []
    for each in inputs:
        paths = (each.path,) if each.is_store else whole.get(each.path, (each.path,))
        if len(paths) > 1 and each.path == paths[0]:
            read.append(replace(each, paths=paths, named=(detection.group_pattern(paths),)))
        elif len(paths) == 1 and each.path not in skipped:
            read.append(each)
    return read, list(skipped.values())


def _copied_parts(parts: Sequence[_Paths], files: Iterable[Path]) -> Iterator[tuple[Path, Path]]:
    # Files that hold what a part of a recording holds, and that part: others of the same recording, and
    # files that belong to none. Of two recordings, parts may be equal, such as lists of one node's GPUs.
    number = {path: i for i, paths in enumerate(parts) for path in paths}
    others = [path for path in files if path not in number]
    for same in _same_bytes([(path,) for path in (*number, *others)] if number else []):
        first_of: dict[int | None, Path] = {}
        for (path,) in same:
            first = first_of.setdefault(number.get(path), path)
            if path not in number:
                first = same[0][0]
            if first != path and first in number:
                yield path, first


def only_recording(files: Sequence[Path]) -> Input | None:
    """Return the only recording that is in these files or folders; None where there are several.

    What is no profile does not count. Raises InputError where nothing is one.
    """
    found = find_inputs(files).read
    if len(found) == 1:
        return found[0]
    copies = {copy.path for copy in _copies([item.paths for item in found])}
    recordings = [
        each
        for each in found
        if each.is_store or (each.path not in copies and any(map(detection.is_profile, each.paths)))
    ]
    if not recordings:
        raise InputError("no profile in it", where=str(files[0]))
    return recordings[0] if len(recordings) == 1 else None


def _duplicates(group: Sequence[Input]) -> Iterator[tuple[Path, str]]:
    # All files of the group have one stem. The result has those that need not be read, and why.
    stores = [each.path for each in group if each.is_store]
    files = {each.path for each in group if not each.is_store}
    for path in sorted(files):
        store = next((store for store in stores if _holds(store, path)), None)
        if store is not None:
            files.discard(path)
            yield path, f"its recording is in {store.name}"
    for packed in sorted(files):
        plain = packed.with_suffix("")
        if packed.suffix == _GZIP and plain in files and _packs(packed, plain):
            files.discard(packed)
            yield packed, f"the same, compressed, as {plain.name}"
    for report in sorted(files):
        export = detection.export_path(report)
        if export is None or export not in files:
            continue
        if export.stat().st_mtime_ns < report.stat().st_mtime_ns:
            yield export, f"an export older than {report.name}, which is read instead"
        else:
            yield report, f"its export {export.name} is read"


def _holds(store: Path, path: Path) -> bool:
    # The path has the store's stem.
    content = record.read(record.record_path(path))
    try:
        with reading(store) as opened:
            profiles = [profile.attributes for profile in opened.profiles()]
    except NsysconvError:
        return False  # the error is raised again when the store is read
    if content is not None and (content.store, content.report) == (store.name, path.name):
        return bool(profiles)
    stem = _without_endings(path).name
    has_stem = any(_without_endings(Path(p["path"])).name == stem for p in profiles)
    if has_stem and store.stat().st_mtime_ns >= path.stat().st_mtime_ns:
        return True
    return _sha256(path) in {p["sha256"] for p in profiles}


def _packs(packed: Path, plain: Path) -> bool:
    # gzip ends with the checksum and the size of what it holds.
    try:
        with packed.open("rb") as file:
            file.seek(-8, os.SEEK_END)
            checksum, size = map(int, struct.unpack("<II", file.read()))
        if plain.stat().st_size % (1 << 32) != size:
            return False
        with plain.open("rb") as file:
            found = 0
            while data := file.read(_BYTES_AT_ONCE):
                found = zlib.crc32(data, found)
    except OSError:
        return False  # the error is raised again when the file is read
    return found == checksum


# -- files that are read in place


def inputs_to_read(
    paths: Sequence[Path], where: str, say: Say, say_skipped: Say | None = None
) -> Iterator[Input]:
    """Yield the inputs to read, each recording once; say which files and ranks are missing.

    `where` is what the user named; `say_skipped` gets the lines on copies. Raises InputError where there
    are none.
    """
    files = find_inputs(paths)
    copies = list(_copies([item.paths for item in files.read]))
    for line in passed_lines((*files.passed, *copies)):
        (say_skipped or say)(f"skipped: {line}")
    for line in missing_rank_lines(files.lost, alone=not files.read):
        say(line)
    if not files.read:
        raise InputError("no profile in it" if files.lost else "no files in it", where=where)
    left_out = {copy.path for copy in copies}
    yield from (item for item in files.read if item.path not in left_out)


def _copies(recordings: Sequence[_Paths]) -> Iterator[SkippedFile]:
    # An import finds that it has a file's bytes already.
    for first, *same in _same_bytes(recordings):
        for copy in same:
            named = _pattern(copy)
            yield SkippedFile(copy[0], f"the same bytes as {_pattern(first) or first[0]}", named)


def _pattern(paths: _Paths) -> str:
    return f"{detection.group_pattern(paths)} ({len(paths)} files)" if len(paths) > 1 else ""


def _same_bytes(recordings: Sequence[_Paths]) -> Iterator[Sequence[_Paths]]:
    # Only files of one length that begin alike are read to their end for that.
    for of_size in _groups(recordings, lambda path: path.stat().st_size):
        for alike in _groups(of_size, _head):
            yield from _groups(alike, _sha256)


def _groups(
    recordings: Sequence[_Paths], key: Callable[[Path], object]
) -> Iterator[Sequence[_Paths]]:
    # Each result has several recordings with one key of their files. Empty files and files that cannot
    # be read have no key.
    groups: dict[object, list[_Paths]] = {}
    for paths in recordings:
        with suppress(OSError, InputError):
            found = tuple(map(key, paths))
            if all(found):
                groups.setdefault(found, []).append(paths)
    return (group for group in groups.values() if len(group) > 1)


def _head(path: Path) -> bytes:
    with Probe(path) as probe:
        return probe.head


def _sha256(path: Path) -> str:
    with Probe(path) as probe:
        return probe.sha256()


def passed_lines(files: Sequence[SkippedFile]) -> Iterator[str]:
    """Yield a line per kind of reason: one file, or how many there are and the first."""
    kinds: dict[str, list[SkippedFile]] = {}
    for file in files:
        # A reason begins with its kind, and ends with a file's name.
        kinds.setdefault(" ".join(file.reason.split()[:2]), []).append(file)
    for first, *others in kinds.values():
        count = f"{len(others) + 1:,} files, such as " if others else ""
        yield escaped(f"{count}{first.named or first.path}: {first.reason}")


_MOST_REASONS = 5


def skipped_lines(errors: Sequence[NsysconvError]) -> Iterator[str]:
    """Yield a line on the files of a folder that are not profiles, and one on how to learn more."""
    if errors:
        count = len(errors)
        what = errors[0].brief if count == 1 else f"{count:,} files: {_reasons(errors)}"
        yield f"skipped: {what}"
    if any(error.hint for error in errors):
        yield "For details on a skipped file: nsysconv info FILE"


def _reasons(errors: Sequence[NsysconvError]) -> str:
    # Each reason has its number of files, or the name of its only file.
    files: dict[str, list[str]] = {}
    for error in errors:
        files.setdefault(error.what, []).append(error.where)
    groups = sorted(files.items(), key=lambda group: -len(group[1]))
    rest = sum(len(names) for _, names in groups[_MOST_REASONS:])
    shown = [
        f"{what} ({names[0] if len(names) == 1 else f'{len(names):,}'})"
        for what, names in groups[:_MOST_REASONS]
    ]
    return escaped(", ".join([*shown, *([f"other reasons ({rest:,})"] if rest else [])]))


@dataclass
class UnreadFiles:
    """The files of a folder that gave no profile: damaged ones are named, others counted by reason."""

    say: Say
    damaged: list[InputError] = field(default_factory=list)
    skipped: list[InputError] = field(default_factory=list)
    _copies: list[str] = field(default_factory=list)

    def say_at_end(self, line: str) -> None:
        """Keep a line on copies until something was read."""
        self._copies.append(line)

    def add(self, error: InputError) -> None:
        """Take in why a file was not read; say it if the file is damaged."""
        if isinstance(error, NoProfileError):
            self.skipped.append(error)
        else:
            self.say(f"nsysconv: {error.brief}")
            self.damaged.append(error)

    def end(self) -> None:
        """Say what was skipped, after something was read."""
        for line in (*self._copies, *skipped_lines(self.skipped)):
            self.say(line)

    def nothing(self, where: str) -> InputError:
        """Return the error for a folder in which nothing was read."""
        what = "no profile in it"
        if self.skipped:
            count = len(self.skipped)
            files = "1 file" if count == 1 else f"{count:,} files"
            what = f"{what}; {files} skipped: {_reasons(self.skipped)}"
        hints = {error.hint for error in self.skipped}
        return InputError(what, where=where, hint=hints.pop() if len(hints) == 1 else "")

    def notes(self) -> list[Note]:
        """Return a note on the damaged files, or none."""
        if not self.damaged:
            return []
        text, count = "unreadable files were left out", len(self.damaged)
        return [Note(UNREAD, Severity.DROPPED, text, count, self.damaged[0].where)]


# -- ranks that left no report

_MOST_RANKS = 20


@dataclass(frozen=True)
class MissingRank:
    """A record of `nsysconv profile` whose report is not there."""

    path: Path
    record: Record

    def __str__(self) -> str:
        """Return which rank is missing, and why."""
        rank = self.record.rank
        why = "; ".join(self.record.problems) or f"see {self.path}"
        return f"{'a process' if rank is None else f'rank {rank}'} left no report: {why}"


def missing_rank_lines(ranks: Sequence[MissingRank], *, alone: bool) -> Iterator[str]:
    """Yield a line on each missing rank, and, if none left a report, on those without a record."""
    yield from map(str, ranks[:_MOST_RANKS])
    if len(ranks) > _MOST_RANKS:
        yield f"and {len(ranks) - _MOST_RANKS:,} more lost ranks"
    # The records of a job say how many ranks it had, so further ranks may be missing.
    records = [each.record for each in ranks] if alone else []
    for job in dict.fromkeys(each.job for each in records):
        of_job = [each for each in records if each.job == job]
        size = max((each.world_size or 0 for each in of_job), default=0)
        left = {each.rank for each in of_job}
        if missing := [rank for rank in range(size) if rank not in left]:
            of = f"of the {size:,} ranks" + (f" of {job}" if job else "")
            ranges = ranges_as_text(contiguous_ranges(missing))
            yield f"{of} these left neither report nor record: {ranges}"
