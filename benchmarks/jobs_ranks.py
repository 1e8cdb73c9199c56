"""Measure jobs on many ranks: exports are imported into a store, and a report is made over all of them.

At an eighth, a quarter and half of the ranks, too: the memory must not grow with their number. Then one
process beside two, and the workers of a Dask cluster that runs already, one and two of them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import inputs
from measure import DATA, NSYSCONV, Side, baseline, in_turn, remove
from results import Bar, Group, Job, Measured

RANKS, KERNELS = 64, 25_000
# Two ranks, of which the first is repeated; it has collectives.
EXPORT = "GindaChen+nsys-ai__mfu_2gpu_after.sqlite"
FIXTURE = "nsys/nccl-3.25.0.sqlite"
COPY = "raw ATTACH + INSERT … SELECT of all files"
SUMS = "pandas read_sql + groupby, file by file"
ONE, TWO = "one process", "two processes"


def importing(name: str, inputs: Sequence[Path], store: Path, *flags: str) -> Side:
    """Return an import into a new store."""
    command = [*NSYSCONV, "import", *map(str, inputs), "-o", str(store), *flags]
    return Side(name, command, (store,))


def reporting(name: str, store: Path, *flags: str) -> Side:
    """Return the report over ranks."""
    answer = DATA / "ranks.json"
    command = [*NSYSCONV, "report", str(store), "rank_summary", "-o", str(answer), *flags]
    return Side(name, command, (answer,))


@contextmanager
def cluster(workers: int) -> Iterator[str]:
    """Run a Dask cluster of `workers` workers on loopback; yield the path of its scheduler file."""
    processes: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> None:
        command = [sys.executable, "-m", "dask", *words, "--host", "127.0.0.1", "--no-dashboard",
                   "--scheduler-file", str(file)]  # fmt: skip
        processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True))

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "scheduler.json"
        try:
            start("scheduler", "--port", "0", "--dashboard-address", "127.0.0.1:0")
            for _ in range(workers):
                start("worker", "--nthreads", "1", "--local-directory", folder)
            while not file.exists() or not file.stat().st_size:
                time.sleep(0.1)
            from distributed import Client

            with Client(scheduler_file=str(file), set_as_default=False) as client:
                client.wait_for_workers(workers)
            yield str(file)
        finally:
            for process in processes:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def of_size(ranks: int, kernels: int, sources: Sequence[Path], runs: int) -> list[Job]:
    """Return the jobs import and report beside what a script would do; they leave the store."""
    store, raw = DATA / f"ranks-{ranks}.db", DATA / "ranks-raw.db"
    unit = f"ranks of {kernels / 1e6:g} M kernels"
    copy = Side(COPY, baseline("raw_copy", *sources, raw), (raw,))
    sums = Side(SUMS, baseline("pandas_sums", *sources))
    found = [
        Job("import of ranks", ranks, unit,
            in_turn([importing("nsysconv import", sources, store), copy], runs),
            [Bar("times", 2, COPY, why="many-files"), Bar("MB", 110, why="many-files")]),
        Job("rank_summary", ranks, unit,
            in_turn([reporting("nsysconv report", store), sums], runs),
            [Bar("times", 0.35, SUMS, why="many-files")]),
    ]  # fmt: skip
    remove(raw)
    return found


def of_workers(store: Path, folder: Path, ranks: int, unit: str, runs: int) -> list[Job]:
    """Return one process and two; Dask with one worker and with two."""
    made = DATA / "ranks-made.db"

    def both(title: str, *flags: str) -> tuple[Measured, Measured]:
        first, second = in_turn([importing(title, [folder], made, *flags),
                                 reporting(title, store, *flags)], runs)  # fmt: skip
        return first, second

    sides = [both(title, "--jobs", str(count)) for count, title in ((1, ONE), (2, TWO))]
    for count in (1, 2):
        with cluster(count) as address:
            title = f"Dask with {count} worker{'s' if count > 1 else ''}"
            sides.append(both(title, "--dask", address))
    remove(made)
    imports, reports = zip(*sides, strict=True)
    return [
        Job("import of ranks by several", ranks, unit, imports),
        Job("rank_summary by several", ranks, unit, reports),
    ]


def large(real: Path, ranks: int, kernels: int, skipped: list[str]) -> Path:
    """Return the folder of a job; says in `skipped` where it is not of the real export."""
    return inputs.ranks(inputs.source(real, EXPORT, FIXTURE, skipped), ranks, kernels)


def run(real: Path, ranks: int, kernels: int, runs: int, setting: str) -> Group:
    """Return all of them."""
    group = Group("Many ranks", setting)
    folder = large(real, ranks, kernels, group.skipped)
    every = sorted(folder.iterdir())
    counts = [count for count in (ranks // 8, ranks // 4, ranks // 2, ranks) if count]
    for count in counts:
        for job in of_size(count, kernels, every[:count], runs):
            group.say(job)
    store, unit = DATA / f"ranks-{ranks}.db", group.jobs[-1].unit
    for job in of_workers(store, folder, ranks, unit, runs):
        group.say(job)
    for path in (*(DATA / f"ranks-{count}.db" for count in counts), DATA / "ranks.json"):
        remove(path)
    return group
