"""Runs whole processes in turn and compares them: wall time, CPU time, memory of the process tree.

CPU seconds are the operating system's own accounting. Peak memory is what the process and its descendants
hold resident together, sampled from /proc every 20 ms (new processes are looked for every 100 ms: to
sample takes time of a core that the command may want); pages that they share count once for each of them,
so this is an upper bound. Where there is no /proc it is the largest process alone.
"""

from __future__ import annotations

import itertools
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from results import Measured, Run

HERE = Path(__file__).parent
DATA = HERE / "data"
NSYSCONV = [sys.executable, "-m", "nsysconv"]
SAMPLE_S = 0.02
SAMPLES_OF_A_TREE = 5
BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Side:
    """A command, and what has to be gone before each run of it.

    With `most_runs` it is run that often at most, without a warm-up: for what takes long.
    """

    name: str
    command: list[str]
    outputs: tuple[Path, ...] = ()
    most_runs: int | None = None


def children(pid: int) -> list[int]:
    """Return the processes that any thread of a process has started and that still run."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def tree(pid: int) -> list[int]:
    """Return a process and its descendants."""
    found = [pid]
    for process in found:
        found += children(process)
    return found


def resident_bytes(processes: Sequence[int]) -> int:
    """Return the resident memory of processes; those that have ended count as 0."""
    pages = 0
    for process in processes:
        with suppress(OSError, IndexError):
            pages += int(Path(f"/proc/{process}/statm").read_bytes().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Sampler(threading.Thread):
    """Watches the memory of a process tree until it is stopped."""

    def __init__(self, pid: int) -> None:
        """Take the process to be sampled."""
        super().__init__(daemon=True)
        self.pid = pid
        self.peak = 0
        self._stopped = threading.Event()

    def run(self) -> None:
        """Sample until stopped; a sample is a few reads of /proc."""
        processes: list[int] = []
        for number in itertools.count():
            if self._stopped.wait(SAMPLE_S):
                return
            if number % SAMPLES_OF_A_TREE == 0:
                processes = tree(self.pid)
            self.peak = max(self.peak, resident_bytes(processes))

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self.join()


def largest(usage: resource.struct_rusage) -> int:
    """Return the size in KiB of the largest process that was waited for, 0 where that says nothing.

    The system counts what the process was before it became the command: a copy of this one.
    """
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sampled = Path("/proc/self/statm").exists()
    return 0 if sampled and usage.ru_maxrss <= ours else usage.ru_maxrss


def remove(path: Path) -> None:
    """Remove a file or a folder with all that is in it, where there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder; 0 without either."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def sources(side: Side) -> list[Path]:
    """Return the files that a command names and does not make itself."""
    named = [Path(word) for word in side.command if Path(word).is_absolute()]
    return [path for path in named if path.is_relative_to(DATA) and path.is_file()]


def run_once(side: Side) -> Run:
    """Return runs a command to its end. Raises where it fails: a failed run measures nothing.

    Its sources are read before, so that the system has them in memory whatever ran last: a baseline that
    fills the memory would otherwise have the next side wait for the disk.
    """
    for path in side.outputs:
        remove(path)
    for path in sources(side):
        with path.open("rb") as file:
            while file.read(BLOCK_BYTES):
                pass
    with tempfile.TemporaryFile() as errors:
        began = time.perf_counter()
        process = subprocess.Popen(side.command, stdout=subprocess.DEVNULL, stderr=errors)
        sampler = Sampler(process.pid)
        sampler.start()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        sampler.stop()
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            raise RuntimeError(f"{side.command} failed: {errors.read().decode(errors='replace')}")
    peak_kib = max(sampler.peak / 1024, largest(usage))
    written = sum(map(size_of, side.outputs))
    return Run(wall, usage.ru_utime + usage.ru_stime, peak_kib / 1024, written / 1e6)


def in_turn(sides: Sequence[Side], runs: int) -> list[Measured]:
    """Return all sides in turn (ABAB), after a warm-up of each.

    Beside those that take long the others are warmed up before each of their runs: what they load would
    not be in memory any more, as it is the first time.
    """
    beside_long = any(side.most_runs is not None for side in sides)
    found: list[list[Run]] = [[] for _ in sides]
    for number in range(runs):
        for side, done in zip(sides, found, strict=True):
            if side.most_runs is None and (number == 0 or beside_long):
                run_once(side)
            if side.most_runs is None or number < side.most_runs:
                done.append(run_once(side))
    return [Measured(side.name, done) for side, done in zip(sides, found, strict=True)]


def baseline(name: str, *arguments: Path, python: str = sys.executable) -> list[str]:
    """Return the command of a baseline."""
    return [python, str(HERE / "baselines.py"), name, *map(str, arguments)]


def available_mb() -> float:
    """Return the memory that new processes can have without swapping; infinite if unknown."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) / 1024
    return float("inf")
