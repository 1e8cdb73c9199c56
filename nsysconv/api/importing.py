"""Profiles into a store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
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
    replace: bool = False,
    strict: bool = False,
    progress: Progress = silent,
    say: Say = silent,
) -> ImportResult:
    """Imports profiles into a store, which is made if it does not exist.

    `paths` are files or folders (all files below; what is no profile is skipped with its reason).
    Without `store` it is STEM.db of the only path in the current folder, and must be new. Importing the
    same bytes again changes nothing; `replace` reads them again. `include` names rows that are left out
    unless asked for (importers' INCLUDABLE). `strict` refuses files of which
    something had to be dropped or approximated. One bad file does not keep the others out: see
    ImportResult.errors. Raises UsageError where the store cannot be made or is something else.
    """
    options = Options(frozenset(include))
    detection.check(options)
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
                            options,
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
    """Every file to read, and whether a folder held it. Stores in a folder are no input."""
    for given in paths:
        path = Path(given)
        if path.is_dir():
            for file in sorted(path.rglob("*")):
                if file.is_file() and not file.name.startswith(".") and not is_store(file):
                    yield file, True
        else:
            yield path, False


def _default_store(paths: Sequence[StrPath], files: Sequence[tuple[Path, bool]]) -> Path:
    if len(paths) != 1:
        raise UsageError("several inputs need a store", hint="Name one: -o STORE.db")
    given = Path(paths[0])
    target = Path((given.resolve().name if given.is_dir() else detection.label(given)) + ".db")
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
    options: Options,
    *,
    replace: bool,
    strict: bool,
    progress: Progress,
    say: Say,
    fresh: bool,
) -> FileResult:
    try:
        # One core copies rows; more threads than the other cores would only slow it down.
        spare = max(1, (os.cpu_count() or 1) - 1)
        with detection.opened(path, say, threads=spare) as probe:
            try:
                importer = detection.detect(probe)
            except InputError as error:
                return FileResult(path, error=error, skipped=from_folder)
            hashing = probe.beside(probe.sha256)
            replacing: Sequence[int] = ()
            if not fresh:
                # Hashing first is cheaper than copying rows that are there already.
                existing = writer.find(_identity(hashing.result(), importer, options))
                if existing and not replace:
                    return FileResult(path, existing)
                replacing = [each.profile_id for each in existing]

            def origin() -> Origin:
                digest = hashing.result()
                return Origin(
                    detection.label(path),
                    importer.NAME,
                    str(path),
                    digest,
                    _identity(digest, importer, options),
                )

            with closing(importer.read([probe], options)) as recordings:
                imported = writer.add(
                    recordings,
                    origin,
                    lambda table, rows: progress(path, table, rows),
                    _strictly if strict else silent,
                    replacing,
                )
            return FileResult(path, imported)
    except (InputError, StrictError) as error:
        if not error.where:
            error.where = str(path)
        return FileResult(path, error=error)


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
