"""Runs whole processes in turn and compares them: wall time, CPU time, memory of the process tree.

CPU seconds are the operating system's own accounting. Peak memory is what the process and its descendants
hold resident together, sampled from /proc every 20 ms; pages that they share count once for each of them,
so this is an upper bound. Where there is no /proc it is the largest process alone.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
DATA = HERE / "data"
NSYSCONV = [sys.executable, "-m", "nsysconv"]
SAMPLE_S = 0.02
SLOW_RUNS = 2


@dataclass(frozen=True)
class Run:
    """One finished process."""

    wall_s: float
    cpu_s: float
    peak_mb: float


@dataclass(frozen=True)
class Side:
    """A command, and what has to be gone before each run of it.

    A slow one is run `most_runs` times at most, without a warm-up.
    """

    name: str
    command: list[str]
    outputs: tuple[Path, ...] = ()
    slow: bool = False
    most_runs: int = SLOW_RUNS


@dataclass(frozen=True)
class Result:
    """A job: our runs, the baseline's (none for cold starts), and the bar it is held against."""

    job: str
    ours: list[Run]
    baseline: str
    theirs: list[Run]
    bar: str

    @property
    def wall_s(self) -> float:
        """Median of our wall times."""
        return statistics.median(run.wall_s for run in self.ours)

    @property
    def baseline_s(self) -> float | None:
        """Median of the baseline's wall times."""
        return statistics.median(run.wall_s for run in self.theirs) if self.theirs else None

    @property
    def ratio(self) -> float | None:
        """Ours over theirs."""
        return self.wall_s / self.baseline_s if self.baseline_s else None

    def row(self) -> str:
        """The job's row of the table in docs/performance.md."""
        cpu = statistics.median(run.cpu_s for run in self.ours)
        peak = max(run.peak_mb for run in self.ours)
        theirs = f"{self.baseline_s:.2f} s" if self.baseline_s else ""
        digits = 2 if self.ratio and self.ratio >= 0.1 else 3
        ratio = f"{self.ratio:.{digits}f}" if self.ratio else ""
        return (f"| {self.job} | {self.wall_s:.2f} s | {cpu:.2f} s | {peak:.0f} MB | {self.baseline} | "
                f"{theirs} | {ratio} | {self.bar} |")


@dataclass
class Group:
    """The results of jobs that belong together, as they are kept between runs of the benchmark."""

    title: str
    setting: str
    results: list[Result] = field(default_factory=list)
    # (job, cost of an event or a byte at the largest size over that at the smallest)
    scaling: list[tuple[str, float]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """As plain lists and dictionaries."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Group:
        """The reverse of `to_json`."""
        results = [Result(**{**result, "ours": [Run(**run) for run in result["ours"]],
                             "theirs": [Run(**run) for run in result["theirs"]]})
                   for result in data["results"]]
        scaling = [(job, ratio) for job, ratio in data["scaling"]]
        return cls(data["title"], data["setting"], results, scaling, list(data["skipped"]))


def children(pid: int) -> list[int]:
    """The processes that any thread of a process has started and that still run."""
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def tree_bytes(pid: int) -> int:
    """The resident memory of a process and its descendants; those that have just ended count as 0."""
    total, waiting = 0, [pid]
    while waiting:
        process = waiting.pop()
        with suppress(OSError, IndexError):
            total += int(Path(f"/proc/{process}/statm").read_text().split()[1])
        waiting += children(process)
    return total * os.sysconf("SC_PAGE_SIZE")


class Sampler(threading.Thread):
    """Watches the memory of a process tree until it is stopped."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.peak = 0
        self._stopped = threading.Event()

    def run(self) -> None:
        """Samples; the work of one sample is some reads of /proc."""
        while not self._stopped.wait(SAMPLE_S):
            self.peak = max(self.peak, tree_bytes(self.pid))

    def stop(self) -> None:
        """Ends the thread."""
        self._stopped.set()
        self.join()


def largest(usage: resource.struct_rusage) -> int:
    """The size in KiB of the largest process that was waited for, 0 where that says nothing.

    The system counts what the process was before it became the command: a copy of this one.
    """
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sampled = Path("/proc/self/statm").exists()
    return 0 if sampled and usage.ru_maxrss <= ours else usage.ru_maxrss


def remove(path: Path) -> None:
    """Removes a file or a folder with all that is in it, where there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def run_once(side: Side) -> Run:
    """Runs a command to its end. Raises where it fails: a failed run measures nothing."""
    for path in side.outputs:
        remove(path)
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
    return Run(wall, usage.ru_utime + usage.ru_stime, max(sampler.peak / 1024, largest(usage)) / 1024)


def in_turn(sides: Sequence[Side], runs: int) -> dict[str, list[Run]]:
    """All sides in turn, after a warm-up of each."""
    for side in sides:
        if not side.slow:
            run_once(side)
    found: dict[str, list[Run]] = {side.name: [] for side in sides}
    for number in range(runs):
        for side in sides:
            if not side.slow or number < side.most_runs:
                found[side.name].append(run_once(side))
    return found


def compare(job: str, ours: list[Run], baseline: str, theirs: list[Run], bar: str) -> Result:
    """Makes a result and says it."""
    result = Result(job, ours, baseline, theirs, bar)
    ratio = f", {result.ratio:.3f} x {result.baseline}" if result.ratio else ""
    peak = max(run.peak_mb for run in ours)
    print(f"{job}: {result.wall_s:.2f} s, {peak:.0f} MB{ratio}  (bar: {bar})", flush=True)
    return result


def measure(job: str, ours: Side, theirs: Side | None, bar: str, runs: int) -> Result:
    """Both sides in turn, after a warm-up of each."""
    found = in_turn([ours] if theirs is None else [ours, theirs], runs)
    name = theirs.name if theirs else ""
    return compare(job, found[ours.name], name, found.get(name, []), bar)


def baseline(name: str, *arguments: Path, python: str = sys.executable) -> list[str]:
    """The command of a baseline."""
    return [python, str(HERE / "baselines.py"), name, *map(str, arguments)]


def available_mb() -> float:
    """The memory that new processes can have without swapping; infinite where nobody says."""
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) / 1024
    return float("inf")
