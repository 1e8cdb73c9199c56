"""Files from local scratch to where they are kept: complete under their name, or not there at all."""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from nsysconv.errors import CaptureError
from nsysconv.record import SUFFIX as RECORD_SUFFIX
from nsysconv.store.publish import alive

EXPORT_SUFFIX = ".sqlite"
STORE_SUFFIX = ".db"
_OF_A_REPORT = (RECORD_SUFFIX, EXPORT_SUFFIX, STORE_SUFFIX)
ROOM_BYTES = 256 * 2**20
"""Less room than this on local scratch is none: the destination is used instead."""
_OLD_S = 3600.0
"""Containers of one host may not see each other's processes: what is younger may be in use."""


def scratch_root(
    wanted: Path | None, environment: Mapping[str, str], destination: Path
) -> tuple[Path, str]:
    """The folder to make scratch in, and a line about it, if one is due.

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
    """Why a folder cannot be used, or nothing."""
    if not folder.is_dir():
        return "no such folder"
    if not os.access(folder, os.W_OK | os.X_OK):
        return "it cannot be written to"
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return error.strerror or "it cannot be used"
    return f"only {free / 1e6:,.0f} MB are free" if free < room else ""


def make_scratch(root: Path) -> Path:
    """A private folder in `root`. Raises CaptureError where it cannot be made."""
    try:
        return Path(tempfile.mkdtemp(prefix=".nsysconv-", dir=root))
    except OSError as error:
        raise CaptureError(
            f"no folder can be made: {error.strerror}",
            where=str(root),
            hint="--scratch DIR names another.",
        ) from error


def sweep(folder: Path) -> None:
    """Removes what captures left in a folder that were killed on this host while they moved a file.

    What it was is still on their scratch.
    """
    left = re.compile(rf"\..*\.{re.escape(socket.gethostname())}-(\d{{1,9}})\.partial", re.DOTALL)
    with suppress(OSError):
        for path in folder.iterdir():
            match = left.fullmatch(path.name)
            if match is None or alive(int(match[1])):
                continue
            with suppress(OSError):
                # Its name is of now, what stands in it may be of before: the status was changed last.
                if time.time() - path.lstat().st_ctime > _OLD_S:
                    path.unlink()


def put_report(source: Path, folder: Path, *, overwrite: bool) -> Path:
    """Gives a report its place in `folder`, under its own name or, that being taken, NAME-2 and so on.

    With a name go those of its export, its store and its record: none of them may be there of another
    report. With `overwrite` the name is replaced. Raises OSError where it cannot be done.
    """
    partial = _partial(source, folder)
    try:
        if overwrite:
            target = folder / source.name
            partial.replace(target)
            return target
        for stem in _stems(source.stem):
            if any(os.path.lexists(folder / (stem + suffix)) for suffix in _OF_A_REPORT):
                continue
            target = folder / (stem + source.suffix)
            with suppress(FileExistsError):
                _give(partial, target)
                return target
        raise AssertionError("there is always another name")
    finally:
        with suppress(OSError):
            partial.unlink()


def put_other(source: Path, target: Path, *, overwrite: bool) -> Path:
    """Gives any other file its place: `target` or, that being taken, NAME-2 and so on. Raises OSError."""
    partial = _partial(source, target.parent)
    try:
        if overwrite:
            partial.replace(target)
            return target
        for stem in _stems(target.stem):
            name = target.with_name(stem + target.suffix)
            with suppress(FileExistsError):
                _give(partial, name)
                return name
        raise AssertionError("there is always another name")
    finally:
        with suppress(OSError):
            partial.unlink()


def free_stem(folder: Path, stem: str) -> str:
    """A stem, this one or with a number, under which nothing of another report is there."""
    suffixes = (*_OF_A_REPORT, ".nsys-rep", ".qdrep")
    return next(
        free
        for free in _stems(stem)
        if not any(os.path.lexists(folder / (free + suffix)) for suffix in suffixes)
    )


def put(source: Path, target: Path) -> None:
    """Gives a file its place, which the name of a report has claimed. Raises OSError."""
    partial = _partial(source, target.parent)
    try:
        partial.replace(target)
    finally:
        with suppress(OSError):
            partial.unlink()


def _stems(stem: str) -> Iterator[str]:
    yield stem
    number = 1
    while True:
        number += 1
        yield f"{stem}-{number}"


def _partial(source: Path, folder: Path) -> Path:
    """The file on the destination's file system, flushed, under a hidden name."""
    partial = folder / f".{source.name}.{socket.gethostname()}-{os.getpid()}.partial"
    with suppress(OSError):
        partial.unlink()
    try:
        try:
            os.link(source, partial)
        except OSError:  # another file system, or one without links
            shutil.copyfile(source, partial)
        descriptor = os.open(partial, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        with suppress(OSError):
            partial.unlink()
        raise
    return partial


def _give(partial: Path, target: Path) -> None:
    """Names a complete file. Raises FileExistsError where the name is taken."""
    try:
        os.link(partial, target)
    except FileExistsError:
        raise
    except OSError:
        # No links: the name is claimed by an empty file, which is then replaced.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        partial.replace(target)
