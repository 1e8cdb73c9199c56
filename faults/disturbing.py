"""The faults: what is done to a command while it runs, or what it is given too little of."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from filelock import FileLock
from running import Ended, run
from scenes import Scene

SIGNALS = {"kill": signal.SIGKILL, "Ctrl-C": signal.SIGINT, "SIGTERM": signal.SIGTERM}
LIMITS = (
    "disk full",
    "temporary folder full",
    "memory",
    "open files",
    "stdout full",
    "reader gone",
    "two writers",
    "read-only folder",
    "clock jump",
    "no HOME",
)
FAULTS = (*SIGNALS, *LIMITS)

CLOCK = Path(__file__).parent / "clock"
"""Folder of a module by which Python gets a clock that jumps."""

IN_USE = "nsysconv-private-in-use"
"""A folder for temporary files that another process has: whatever the clock shows, it stays."""

_STRANGER = ("unshare", "--user", "--map-user=54321", "--map-group=54321")
"""Makes a process one of a user whom the system has no name for, as in containers. It owns what it owned;
root is root no more, and modes of files count.
"""

_NO_HOMES = ("unset", "missing", "a file", "no user")


def disturbed(
    scene: Scene, fault: str, chance: random.Random, place: Path, temporary: Path,
    *, start_s: float, seconds: float, mount: bool, second: Sequence[str],
) -> Ended:  # fmt: skip
    """Run the command once with one fault, and return how it ended.

    Undisturbed it takes `seconds`, of which `start_s` are for its start. `second` is the other command
    of two concurrent writers.
    """
    if fault in SIGNALS:
        early = 0 if fault == "Ctrl-C" else start_s
        when = chance.uniform(early, seconds * 1.05 - (start_s if early == 0 else 0))
        return run(scene.words, place, temporary, after_s=max(when, 0), number=SIGNALS[fault])
    if fault == "two writers":
        return _beside_another(scene, place, temporary, second, chance.uniform(0, seconds))
    if fault == "clock jump":
        with _in_use(temporary):
            return run(
                scene.words, place, temporary, path=[CLOCK],
                environment={"FAULTS_CLOCK": str(chance.random())},
            )  # fmt: skip
    if fault == "read-only folder":
        which = chance.choice([[place], [place, temporary], [temporary]])
        by_mount = chance.choice([mount, False])
        with ExitStack() as stack:
            for folder in which:
                stack.enter_context(_mounted(folder) if by_mount else _closed(folder))
            prefix = _STRANGER if os.geteuid() == 0 and not by_mount and may_be_stranger() else ()
            return run(scene.words, place, temporary, prefix=prefix)
    if fault == "no HOME":
        return _homeless(scene, chance.choice(_NO_HOMES), place, temporary)
    if fault == "stdout full":
        with Path("/dev/full").open("wb") as full:
            return run(scene.words, place, temporary, stdout=full.fileno())
    if fault == "reader gone":
        reading, writing = os.pipe()
        os.close(reading)
        try:
            return run(scene.words, place, temporary, stdout=writing)
        finally:
            os.close(writing)
    room = int(2 ** chance.uniform(12, 21))
    limit = (resource.RLIMIT_FSIZE, room)
    if fault == "memory":
        limit = (resource.RLIMIT_AS, chance.randrange(150 << 20, 700 << 20))
    elif fault == "open files":
        limit = (resource.RLIMIT_NOFILE, chance.randrange(6, 40))
    elif mount:
        small = place if fault == "disk full" else temporary
        with _small_disk(small, _content_bytes(small) + room):
            return run(scene.words, place, temporary)
    return run(scene.words, place, temporary, limits=[limit])


def _beside_another(
    scene: Scene, place: Path, temporary: Path, second: Sequence[str], after_s: float
) -> Ended:

    def later() -> Ended:
        time.sleep(after_s)
        return run(second, place, temporary)

    with ThreadPoolExecutor(1) as beside:
        other = beside.submit(later)
        ended = run(scene.words, place, temporary)
        return replace(ended, second=other.result())


@contextmanager
def _in_use(temporary: Path) -> Iterator[None]:
    folder = temporary / IN_USE
    folder.mkdir()
    with FileLock(folder / ".lock"):
        yield
        (folder / ".lock").unlink()  # raises where the command has removed it
        folder.rmdir()


@contextmanager
def _mounted(folder: Path) -> Iterator[None]:
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@contextmanager
def _closed(folder: Path) -> Iterator[None]:
    before = {path: path.stat().st_mode for path in (folder, *folder.rglob("*"))}
    for path, mode in before.items():
        path.chmod(mode & ~0o222)
    try:
        yield
    finally:
        for path, mode in before.items():
            path.chmod(mode)


def _homeless(scene: Scene, kind: str, place: Path, temporary: Path) -> Ended:
    names = {name for name in os.environ if name.startswith("XDG_")} | {"HOME", "USER", "LOGNAME"}
    environment: dict[str, str | None] = dict.fromkeys(names)
    if kind == "missing":
        environment["HOME"] = str(place / "no such folder")
    elif kind == "a file":
        environment["HOME"] = os.devnull
    prefix = _STRANGER if kind == "no user" and may_be_stranger() else ()
    return run(scene.words, place, temporary, environment=environment, prefix=prefix)


@contextmanager
def _small_disk(folder: Path, size: int) -> Iterator[None]:
    kept = folder.with_name(folder.name + "-kept")
    folder.rename(kept)
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        yield
        shutil.rmtree(kept)
        shutil.copytree(folder, kept)
    finally:
        subprocess.run(["umount", folder], check=True)
        folder.rmdir()
        kept.rename(folder)


def may_mount() -> bool:
    """Return whether this process can lay a small disk over a folder, and make one read-only."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "disk"
        folder.mkdir()
        try:
            with _small_disk(folder, 1 << 20), _mounted(folder):
                return True
        except (subprocess.CalledProcessError, OSError):
            return False


@cache
def may_be_stranger() -> bool:
    """Return whether this process can start one of an unknown user."""
    try:
        return subprocess.run([*_STRANGER, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _content_bytes(folder: Path) -> int:
    return sum(1 << 12 | path.stat().st_size + 4095 for path in folder.rglob("*"))
