"""Samples of the stacks of nsysconv's large jobs, by py-spy.

    python benchmarks/samples.py [--real FOLDER] [--only import ...]

A sample counts for the function of nsysconv that is innermost on the stack, whatever it calls: libraries'
time is that of the line that waits for it. Threads that sleep or wait are left out, so two busy threads
count twice. While Python loads a module, that is all it does. The result is kept in benchmarks/results.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jobs_diff
import jobs_nvprof
import jobs_ranks
from jobs_nsys import EXPORTS, Export, large
from measure import DATA, HERE, NSYSCONV, remove

RESULT = HERE / "results" / "samples.json"
RATE = 100
# py-spy may wait for ever for a process that starts others.
LIMIT_S = 90
MOST_SHARES, LEAST_SHARE = 12, 0.01
LOADING = "loading modules"
ELSEWHERE = "outside of nsysconv"
_FRAME = re.compile(r"(?P<function>.+) \((?P<file>[^()]*?)(?::\d+)?\)$")


@dataclass(frozen=True)
class Sampled:
    """The busy seconds of a job's threads, and the largest shares of them by function, the most first."""

    job: str
    seconds: float
    shares: Sequence[tuple[str, float]]

    def lines(self) -> list[str]:
        """Return the shares as Markdown."""
        shares = ", ".join(f"{name} {share:.0%}" for name, share in self.shares)
        return [f"* **{self.job}**, {self.seconds:.1f} s of busy threads: {shares}"]


def place(stack: str) -> str:
    """Return the function that a stack counts for; a stack is frames divided by `;`, innermost last."""
    frames = [found for frame in stack.split(";") if (found := _FRAME.match(frame))]
    if any(frame["function"] == "_find_and_load" for frame in frames):
        return LOADING
    for frame in reversed(frames):
        if frame["file"].startswith("nsysconv/"):
            return f"`{frame['file'].removeprefix('nsysconv/')}` {frame['function']}"
    return ELSEWHERE


def sampled(job: str, words: Sequence[str]) -> Sampled | None:
    """Return runs nsysconv once under py-spy; None where that does not end in time."""
    spy = shutil.which("py-spy", path=str(Path(sys.executable).parent)) or "py-spy"
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder) / "samples.txt"
        command = [spy, "record", "--rate", str(RATE), "--format", "raw", "--nolineno", "--subprocesses",
                   "--output", str(raw), "--", *NSYSCONV, *words]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)  # fmt: skip
        try:
            process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.returncode != 0:
            return None
        counts: Counter[str] = Counter()
        for line in raw.read_text(encoding="utf-8").splitlines():
            stack, _, count = line.rpartition(" ")
            counts[place(stack)] += int(count)
    return Sampled(job, counts.total() / RATE, largest(counts))


def largest(counts: Counter[str]) -> list[tuple[str, float]]:
    """Return the shares that are worth naming, the largest first."""
    shares = [(name, count / counts.total()) for name, count in counts.most_common(MOST_SHARES)]
    return [(name, share) for name, share in shares if share >= LEAST_SHARE]


def jobs(real: Path) -> dict[str, Callable[[], list[str]]]:
    """Return the large jobs and their words."""
    store, second, made = DATA / "sampled.db", DATA / "sampled2.db", str(DATA / "sampled.out.db")
    page, trace = str(DATA / "sampled.json"), str(DATA / "sampled.trace.json")

    def imported(path: Path, target: Path) -> str:
        remove(target)
        subprocess.run([*NSYSCONV, "import", str(path), "-o", str(target)], check=True,
                       capture_output=True)  # fmt: skip
        return str(target)

    def export(kernels: int, kind: Export = EXPORTS[0]) -> Path:
        return large(real, kind, kernels, [])

    before, after = jobs_diff.RUNS
    return {
        "import of an export, 5 M kernels": lambda: ["import", str(export(5_000_000)), "-o", made],
        "core reports from the file, 5 M kernels":
            lambda: ["report", str(export(5_000_000)), "core", "-o", page],
        "core reports from the store, 5 M kernels":
            lambda: ["report", imported(export(5_000_000), store), "core", "-o", page],
        "ranges on the GPU from the store, 1 M kernels":
            lambda: ["report", imported(export(1_000_000, EXPORTS[1]), store), "nvtx_gpu_proj_sum",
                     "-o", page],
        "import of a GPU trace, 1 M rows":
            lambda: ["import", str(jobs_nvprof.large(real, 1_000_000, [])), "-o", made],
        "diff of stores": lambda: ["diff", imported(export(jobs_diff.KERNELS, before), store),
                                   imported(export(jobs_diff.KERNELS, after), second)],
        "Chrome trace of a store, 1 M kernels":
            lambda: ["export", imported(export(1_000_000), store), "--to", "chrome", "-o", trace],
        "import of 8 ranks of 0.025 M kernels":
            lambda: ["import", *map(str, sorted(
                jobs_ranks.large(real, jobs_ranks.RANKS, jobs_ranks.KERNELS, []).iterdir())[:8]),
                "-o", made],
    }  # fmt: skip


def read() -> list[Sampled]:
    """Return what was found when this was last run."""
    if not RESULT.exists():
        return []
    found: list[dict[str, Any]] = json.loads(RESULT.read_text(encoding="utf-8"))
    return [Sampled(each["job"], each["seconds"], [(name, share) for name, share in each["shares"]])
            for each in found]  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Sample the command that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=[""], help="jobs whose names begin so")
    parser.add_argument("--real", type=Path, default=DATA / "real", help="what is repeated")
    asked = parser.parse_args(arguments)
    only, every = tuple(asked.only), jobs(asked.real)
    kept = {each.job: each for each in read()}
    for job, words in every.items():
        if job.startswith(only):
            found = sampled(job, words())
            if found is None:
                print(f"{job}: py-spy did not end", flush=True)
            else:
                kept[job] = found
                print(*found.lines(), sep="\n", flush=True)
            for path in DATA.glob("sampled*"):
                remove(path)
    ordered = [asdict(kept[job]) for job in every if job in kept]
    RESULT.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
