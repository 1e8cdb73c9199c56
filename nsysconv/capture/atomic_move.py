"""Files from local scratch to where they are kept: complete under their name, or not there at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count, filterfalse
from pathlib import Path

from nsysconv.errors import CaptureError
from nsysconv.partials import building
from nsysconv.record import SUFFIX as RECORD_SUFFIX
from nsysconv.record import Record
from nsysconv.refusals import reason_of
from nsysconv.store.filesystem import flush

EXPORT_SUFFIX = ".sqlite"
STORE_SUFFIX = ".db"
_OF_A_REPORT = (RECORD_SUFFIX, EXPORT_SUFFIX, STORE_SUFFIX)
ROOM_BYTES = 256 * 2**20
"""With less room than this on local scratch, the destination is used instead."""


def scratch_root(
    wanted: Path | None, environment: Mapping[str, str], destination: Path
) -> tuple[Path, str]:
    """Return the folder to make scratch in, and a line to print about it, or "".

    `wanted`, else TMPDIR, else /tmp; the destination where that has no room or cannot be written to.
    Raises CaptureError where `wanted` or, in the end, the destination cannot be written to.
    """
    if wanted is not None and not wanted.is_dir():
        raise CaptureError("no such folder", where=str(wanted), hint="--scratch names a folder.")
    local = wanted or Path(environment.get("TMPDIR") or "/tmp")
    reason = _unfit(local, ROOM_BYTES)
    if not reason:
        return local, ""
    if unfit := _unfit(destination, room=0):
        raise CaptureError(f"reports cannot be kept there: {unfit}", where=str(destination))
    return destination, f"{local}: {reason}; {destination} is used as scratch"


def _unfit(folder: Path, room: int) -> str:
    if not folder.is_dir():
        return "no such folder"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "it cannot be written to"
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return reason_of(error)
    return f"only {free / 1e6:,.0f} MB are free" if free < room else ""


def make_scratch(root: Path) -> Path:
    """Make a private folder in `root`. Raises CaptureError where it cannot be made."""
    try:
        return Path(tempfile.mkdtemp(prefix=".nsysconv-", dir=root))
    except OSError as error:
        raise CaptureError(
            f"no folder can be made: {reason_of(error)}",
            where=str(root),
            hint="--scratch DIR names another.",
        ) from error


def put_first_record(record: Record, folder: Path, stem: str) -> Path:
    """Write a rank's first record where no report has the name; return its path. Raises OSError."""
    while True:
        path = folder / (free_stem(folder, stem) + RECORD_SUFFIX)
        with suppress(FileExistsError):
            # Only one of several ranks can make that file.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
            break
    try:
        record.write(path)
    except OSError:
        with suppress(OSError):
            path.unlink()
        raise
    return path


def put_report(source: Path, folder: Path, *, overwrite: bool, own: Path | None = None) -> Path:
    """Move a report into `folder`, under its own name or, where that is taken, NAME-2 and so on.

    A name is taken where a report, an export, a store or a record of another rank has it; `own` is this
    rank's record. With `overwrite` the name is replaced. Returns the new path. Raises OSError.
    """
    return put_other(
        source,
        folder / source.name,
        overwrite=overwrite,
        is_taken=lambda stem: _is_taken(folder, stem, _OF_A_REPORT, own),
    )


def put_other(
    source: Path,
    target: Path,
    *,
    overwrite: bool,
    is_taken: Callable[[str], bool] = lambda stem: False,
) -> Path:
    """Move any other file to `target`, or NAME-2 and so on; return the new path. Raises OSError.

    No name is made of a stem that `is_taken`.
    """
    with _copied(source, target.parent) as partial:
        if overwrite:
            partial.replace(target)
            return target
        for stem in filterfalse(is_taken, _stems(target.stem)):
            name = target.with_name(stem + target.suffix)
            with suppress(FileExistsError):
                _give(partial, name)
                return name
    raise AssertionError("there is always another name")


def free_stem(folder: Path, stem: str, own: Path | None = None) -> str:
    """Return this stem or one with a number that no other report has; `own` is our record."""
    suffixes = (*_OF_A_REPORT, ".nsys-rep", ".qdrep")
    return next(free for free in _stems(stem) if not _is_taken(folder, free, suffixes, own))


def _is_taken(folder: Path, stem: str, suffixes: Sequence[str], own: Path | None) -> bool:
    names = (folder / (stem + suffix) for suffix in suffixes)
    return any(name != own and os.path.lexists(name) for name in names)


def _stems(stem: str) -> Iterator[str]:
    yield stem
    yield from (f"{stem}-{number}" for number in count(2))


@contextmanager
def _copied(source: Path, folder: Path) -> Iterator[Path]:
    with building(folder / source.name) as partial:
        try:
            os.link(source, partial)
        except OSError:  # another file system, or one without links
            shutil.copyfile(source, partial)
        flush(partial)
        yield partial


def _give(partial: Path, target: Path) -> None:
    try:
        os.link(partial, target)
    except FileExistsError:
        raise
    except OSError:
        # The file system has no links, so an empty file claims the name and is then replaced.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        partial.replace(target)
