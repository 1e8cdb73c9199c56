"""Profiles into a store."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from nsysconv.api.words import Say, StrPath, silent
from nsysconv.errors import InputError, NsysconvError, StrictError, UsageError
from nsysconv.importers import detection
from nsysconv.importers.contract import Importer, Options
from nsysconv.importers.probe import Probe
from nsysconv.notes import Note, Severity
from nsysconv.phases import phase
from nsysconv.store.database import is_store
from nsysconv.store.profiles import Origin
from nsysconv.store.read import reading
from nsysconv.store.write import Imported, Writer, writing

Progress = Callable[[Path, str, int], None]
"""Called with the file, the table and the number of source rows just copied."""


@dataclass(frozen=True)
class FileResult:
    """What became of one input: `imported` recordings, or `error`; `skipped` where a folder held it."""

    path: Path
    imported: tuple[Imported, ...] = ()
    error: NsysconvError | None = None
    skipped: bool = False


@dataclass(frozen=True)
class _Input:
    """The files of one input, several where they are joined; `from_folder`: a folder held it."""

    paths: tuple[Path, ...]
    from_folder: bool = False


@dataclass(frozen=True)
class _Wishes:
    """What is asked for all inputs alike; `label` None: each is called after its file."""

    options: Options
    label: str | None
    tags: Mapping[str, str]
    replace: bool
    strict: bool
    progress: Progress
    say: Say


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
    include: Sequence[str] = (),
    join: bool = False,
    label: str | None = None,
    tags: Mapping[str, str] | None = None,
    replace: bool = False,
    strict: bool = False,
    progress: Progress = silent,
    say: Say = silent,
) -> ImportResult:
    """Imports profiles into a store, which is made if it does not exist.

    `paths` are files or folders (all files below; what is no profile is skipped with its reason).
    Without `store` it is STEM.db of the only path in the current folder, and must be new. Importing the
    same bytes again changes nothing; `replace` reads them again. `include` names rows that are left out
    unless asked for (importers' INCLUDABLE). `join` makes one recording of all files: what several
    logs tell of one run. `label` is what the profiles are called in the store (by default, after their
    files), with a number behind it where the name is taken; `tags` are kept with each of them. Neither
    makes a profile another one: of what is there already they change nothing but with `replace`, and
    then they are those given now. `strict` refuses files of which something had to be dropped or
    approximated. One bad file does not keep the others out: see ImportResult.errors. Raises
    UsageError where the store cannot be made or is something else, and for a label or a tag's key that
    is none.
    """
    options = Options(frozenset(include))
    detection.check(options)
    if label is not None:
        _check_label(label)
    _check_tags(tags or {})
    wishes = _Wishes(options, label, tags or {}, replace, strict, progress, say)
    inputs = [_joined(paths)] if join else list(_files(paths))
    target = Path(store) if store is not None else _default_store(paths, inputs)
    if not inputs:
        raise InputError("no files in it", where=", ".join(str(p) for p in paths))
    results: list[FileResult] = []
    with phase("import"):
        try:
            with writing(target) as writer:
                results.extend(
                    _import_one(each, writer, wishes, fresh=not target.exists()) for each in inputs
                )
                if not any(result.imported for result in results):
                    raise _NothingImportedError
        except _NothingImportedError:
            pass
    return ImportResult(target, tuple(results))


class _NothingImportedError(Exception):
    """Leaves the transaction so that no empty store appears."""


def _check_label(label: str) -> None:
    """Refuses labels by which STORE@LABEL would not find the profile again."""
    reasons = {
        "it is empty": not label.strip(),
        "STORE@NUMBER stands for a profile's number": label.isdigit(),
        "STORE@rank=N stands for a rank": label.startswith("rank="),
        "it has an @ in it": "@" in label,
        "it has characters that cannot be printed": not label.isprintable(),
    }
    for reason, holds in reasons.items():
        if holds:
            raise UsageError(
                f"{label!r} cannot be a label: {reason}",
                hint="Take a word, such as main: the profile is STORE@main then.",
            )


_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


def _check_tags(tags: Mapping[str, str]) -> None:
    """Refuses keys that are no names, and values that would steer a terminal."""
    for key, value in tags.items():
        if not _KEY.fullmatch(key):
            raise UsageError(
                f"{key!r} cannot be the key of a tag",
                hint="A key begins with a letter or _; letters, digits, _, . and - may follow.",
            )
        if not value.isprintable():
            raise UsageError(
                f"the value of tag {key} has characters that cannot be printed: {value!r}",
                hint="Take text on one line.",
            )


def _joined(paths: Sequence[StrPath]) -> _Input:
    """The files as one input."""
    files = tuple(Path(path) for path in paths)
    folder = next((path for path in files if path.is_dir()), None)
    if folder is not None or len(files) < 2:
        raise UsageError(
            "only files can be joined" if folder else "one file alone cannot be joined",
            where=str(folder or files[0]),
            hint="Name the logs of one run: nsysconv import --join GPU.csv API.csv",
        )
    return _Input(files)


def _files(paths: Sequence[StrPath]) -> Iterator[_Input]:
    """Every file to read. Stores in a folder are no input."""
    for given in paths:
        path = Path(given)
        if path.is_dir():
            for file in sorted(path.rglob("*")):
                if file.is_file() and not file.name.startswith(".") and not is_store(file):
                    yield _Input((file,), from_folder=True)
        else:
            yield _Input((path,))


def _default_store(paths: Sequence[StrPath], inputs: Sequence[_Input]) -> Path:
    if len(paths) != 1 and not (len(inputs) == 1 and inputs[0].paths[1:]):
        raise UsageError("several inputs need a store", hint="Name one: -o STORE.db")
    given = Path(paths[0])
    target = Path((given.resolve().name if given.is_dir() else detection.label(given)) + ".db")
    if target.exists() and not (is_store(target) and _holds(target, inputs)):
        raise UsageError(
            "the file exists and is not the store of this input",
            where=str(target),
            hint=f"Add to it with -o {target}, name another with -o OTHER.db, or move it away.",
        )
    return target


def _holds(store: Path, inputs: Sequence[_Input]) -> bool:
    """Whether a store already holds all of these inputs."""
    with reading(store) as opened:
        known = {profile.attributes["sha256"] for profile in opened.profiles()}
    return all(
        all(path.is_file() for path in each.paths)
        and _digest([Probe(path).sha256() for path in each.paths]) in known
        for each in inputs
    )


def _digest(digests: Sequence[str]) -> str:
    """The digest of an input: its file's, or of those of the files that were joined."""
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def _import_one(each: _Input, writer: Writer, wishes: _Wishes, *, fresh: bool) -> FileResult:
    """One input into the store; what is wrong with it is in the result. `fresh`: the store is new."""
    path = each.paths[0]
    try:
        with ExitStack() as stack:
            # One core copies rows; more threads than the other cores would only slow it down.
            spare = max(1, (os.cpu_count() or 1) - 1)
            probes = [
                stack.enter_context(detection.opened(one, wishes.say, threads=spare))
                for one in each.paths
            ]
            try:
                importer = _detect(probes)
            except InputError as error:
                return FileResult(path, error=error, skipped=each.from_folder)
            return FileResult(path, _write(each, probes, importer, writer, wishes, fresh=fresh))
    except (InputError, StrictError) as error:
        if not error.where:
            error.where = str(path)
        return FileResult(path, error=error)


def _write(
    each: _Input,
    probes: Sequence[Probe],
    importer: Importer,
    writer: Writer,
    wishes: _Wishes,
    *,
    fresh: bool,
) -> tuple[Imported, ...]:
    """The recordings of an input into the store, or those that are there already."""
    path = each.paths[0]
    hashing = [probe.beside(probe.sha256) for probe in probes]

    def digest() -> str:
        return _digest([one.result() for one in hashing])

    replacing: Sequence[int] = ()
    if not fresh:
        # Hashing first is cheaper than copying rows that are there already.
        existing = writer.find(_identity(digest(), importer, wishes.options))
        if existing and not wishes.replace:
            return existing
        replacing = [known.profile_id for known in existing]

    def origin() -> Origin:
        return Origin(
            wishes.label or detection.label(path),
            importer.NAME,
            " + ".join(map(str, each.paths)),
            digest(),
            _identity(digest(), importer, wishes.options),
            wishes.tags,
        )

    with closing(importer.read(probes, wishes.options)) as recordings:
        return writer.add(
            recordings,
            origin,
            lambda table, rows: wishes.progress(path, table, rows),
            _strictly if wishes.strict else silent,
            replacing,
        )


def _detect(probes: Sequence[Probe]) -> Importer:
    """The importer of all files. Raises InputError where there is none, or none that joins them."""
    importers = [detection.detect(probe) for probe in probes]
    first = importers[0]
    if len(probes) > 1 and not (first.JOINS and all(other is first for other in importers)):
        titles = ", ".join(dict.fromkeys(importer.TITLE for importer in importers))
        raise InputError(
            f"files of this kind cannot be joined: {titles}",
            where=str(probes[0].origin),
            hint="Only logs are parts of one recording. Import the files without --join.",
        )
    return first


def _identity(digest: str, importer: Importer, options: Options) -> str:
    asked = sorted(options.include & importer.INCLUDABLE.keys())
    return ":".join((digest, importer.NAME, str(importer.VERSION), *asked))


def _strictly(notes: Sequence[Note]) -> None:
    doubtful = [note for note in notes if note.severity is not Severity.INFO]
    if doubtful:
        texts = "\n".join(f"  {note.slug}: {note.text} ({note.count})" for note in doubtful)
        raise StrictError(
            "not imported, because --strict allows nothing dropped or approximated", hint=texts
        )
