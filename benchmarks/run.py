"""Measures nsysconv beside raw baselines, whole processes in turn, and writes docs/performance.md.

    python benchmarks/run.py [--kernels 1000000 5000000] [--runs 5] [--doc docs/performance.md]

Each job runs both sides alternately (ABAB) after one warm-up of each and compares medians of wall time;
CPU seconds and peak resident memory are the operating system's own accounting of the processes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
DATA = HERE / "data"
RESULTS = HERE / "results"
NSYSCONV = [sys.executable, "-m", "nsysconv"]
SMALL = HERE.parent / "tests" / "fixtures" / "nsys" / "basic-3.25.0.sqlite"


@dataclass(frozen=True)
class Run:
    """One finished process."""

    wall_s: float
    cpu_s: float
    peak_mb: float


@dataclass(frozen=True)
class Side:
    """A command, and what has to be gone before each run of it."""

    name: str
    command: list[str]
    outputs: tuple[Path, ...] = ()


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


def run_once(side: Side) -> Run:
    """Runs a command to its end. Raises where it fails: a failed run measures nothing."""
    for path in side.outputs:
        path.unlink(missing_ok=True)
    began = time.perf_counter()
    process = subprocess.Popen(side.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - began
    errors = process.stderr.read() if process.stderr else b""
    if process.stderr:
        process.stderr.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{side.command} failed: {errors.decode(errors='replace')}")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def measure(job: str, ours: Side, theirs: Side | None, bar: str, runs: int) -> Result:
    """Both sides in turn, after a warm-up of each."""
    sides = [ours] if theirs is None else [ours, theirs]
    for side in sides:
        run_once(side)
    found: dict[str, list[Run]] = {side.name: [] for side in sides}
    for _ in range(runs):
        for side in sides:
            found[side.name].append(run_once(side))
    result = Result(job, found[ours.name], theirs.name if theirs else "",
                    found[theirs.name] if theirs else [], bar)
    ratio = f", {result.ratio:.2f} x {result.baseline}" if result.ratio else ""
    print(f"{job}: {result.wall_s:.2f} s{ratio}  (bar: {bar})", flush=True)
    return result


def generated(kernels: int) -> Path:
    """The generated export of this size, made when it is missing."""
    path = DATA / f"nsys-{kernels}.sqlite"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        subprocess.run([sys.executable, str(HERE / "generate_nsys.py"), str(path), "--kernels",
                        str(kernels)], check=True)
    return path


def baseline(name: str, *arguments: Path) -> list[str]:
    """The command of a baseline."""
    return [sys.executable, str(HERE / "baselines.py"), name, *map(str, arguments)]


def large_jobs(kernels: int, runs: int) -> list[Result]:
    """Import, reports from the store, and reports straight from the file."""
    source, store, raw = generated(kernels), DATA / "store.db", DATA / "raw.db"
    answers = DATA / "answers.json"
    size = f"{kernels / 1e6:g} M kernels"
    pandas = Side("pandas read_sql + groupby", baseline("pandas_sums", source))
    results = [measure(
        f"import, {size}",
        Side("nsysconv import", [*NSYSCONV, "import", str(source), "-o", str(store)], (store,)),
        Side("raw ATTACH + INSERT … SELECT", baseline("raw_copy", source, raw), (raw,)),
        "≤ 1.5 ×, ≤ 100 MB", runs)]
    for where, target, bar in (("store", store, "≤ 0.35 ×"), ("file", source, "≤ 0.4 ×")):
        command = [*NSYSCONV, "report", str(target), "-o", str(answers)]
        results.append(measure(f"core reports from the {where}, {size}",
                               Side("nsysconv report", command, (answers,)), pandas, bar, runs))
    for path in (store, raw, answers):
        path.unlink(missing_ok=True)
    return results


def cold_jobs(runs: int) -> list[Result]:
    """What a person waits for with a small file."""
    store = DATA / "small.db"
    DATA.mkdir(exist_ok=True)
    return [
        measure("--help, cold process", Side("help", [*NSYSCONV, "--help"]), None, "≤ 0.2 s", runs),
        measure("import of a small file, cold process",
                Side("import", [*NSYSCONV, "import", str(SMALL), "-o", str(store)], (store,)), None,
                "≤ 1.5 s", runs),
        measure("core reports of a small store, cold process",
                Side("report", [*NSYSCONV, "report", str(store)]), None, "≤ 1 s", runs),
    ]


def per_event(results: Sequence[Result], sizes: Sequence[int]) -> list[tuple[str, float]]:
    """Per job the cost of an event at the largest size over that at the smallest."""
    if len(sizes) < 2:
        return []
    small, large = min(sizes), max(sizes)
    found = []
    for prefix in ("import", "core reports from the store", "core reports from the file"):
        cost: Callable[[int], float] = lambda n, p=prefix: next(  # noqa: E731
            r.wall_s for r in results if r.job == f"{p}, {n / 1e6:g} M kernels") / n
        found.append((prefix, cost(large) / cost(small)))
    return found


def document(results: Sequence[Result], scaling: Sequence[tuple[str, float]], notes: str) -> str:
    """docs/performance.md."""
    packages = ("nsysconv", "adbc-driver-sqlite", "numpy", "pandas", "pyarrow", "sqlalchemy")
    lines = [
        "# Performance", "",
        "Generated by `make bench` (`benchmarks/run.py`): whole processes, both sides in turn after a "
        "warm-up, medians of wall time. Ratios are what counts; seconds are this machine's.", "",
        f"Measured {date.today()}: {os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}; "
        + ", ".join(f"{name} {version(name)}" for name in packages) + ".", "",
        "| job | nsysconv | CPU | peak memory | baseline | its time | ratio | bar |",
        "|---|---:|---:|---:|---|---:|---:|---|",
    ]
    for r in results:
        cpu = statistics.median(run.cpu_s for run in r.ours)
        peak = max(run.peak_mb for run in r.ours)
        theirs = f"{r.baseline_s:.2f} s" if r.baseline_s else ""
        ratio = f"{r.ratio:.2f}" if r.ratio else ""
        lines.append(f"| {r.job} | {r.wall_s:.2f} s | {cpu:.2f} s | {peak:.0f} MB | {r.baseline} | "
                     f"{theirs} | {ratio} | {r.bar} |")
    if scaling:
        lines += ["", "Cost per event at the largest size over that at the smallest (bar: ≤ 1.15):", ""]
        lines += [f"* {job}: {ratio:.2f}" for job, ratio in scaling]
    return "\n".join([*lines, "", notes.strip(), ""]).rstrip() + "\n"


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, nargs="+", default=[1_000_000, 5_000_000])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--doc", type=Path, help="write the page here")
    options = parser.parse_args()
    results = cold_jobs(options.runs)
    for kernels in options.kernels:
        results += large_jobs(kernels, options.runs)
    scaling = per_event(results, options.kernels)
    for job, ratio in scaling:
        print(f"{job}: cost per event {ratio:.2f} x that of the smallest")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "results.json").write_text(json.dumps([asdict(r) for r in results], indent=1))
    notes = (HERE / "notes.md").read_text(encoding="utf-8")
    if options.doc:
        options.doc.write_text(document(results, scaling, notes), encoding="utf-8")


if __name__ == "__main__":
    main()
