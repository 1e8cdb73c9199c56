"""The jobs on many ranks: exports of one job into one store, and a report over all of them.

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

from measure import DATA, HERE, NSYSCONV, Group, Result, Side, baseline, compare, in_turn, remove

RANKS, KERNELS = 64, 100_000
MOST_RUNS = 3
COPY = "raw ATTACH + INSERT … SELECT of all files"
SUMS = "pandas read_sql + groupby, file by file"


def generated(ranks: int, kernels: int) -> Path:
    """The folder of generated exports, made when it is missing."""
    folder = DATA / f"ranks-{ranks}x{kernels}"
    if not folder.exists():
        growing = folder.with_suffix(".partial")
        remove(growing)
        DATA.mkdir(exist_ok=True)
        subprocess.run([sys.executable, str(HERE / "generate_ranks.py"), str(growing), "--ranks",
                        str(ranks), "--kernels", str(kernels)], check=True)  # fmt: skip
        growing.rename(folder)
    return folder


def importing(name: str, inputs: Sequence[Path], store: Path, *flags: str) -> Side:
    """An import into a new store."""
    command = [*NSYSCONV, "import", *map(str, inputs), "-o", str(store), *flags]
    return Side(name, command, (store,), slow=True, most_runs=MOST_RUNS)


def reporting(name: str, store: Path, *flags: str) -> Side:
    """The report over ranks."""
    answer = DATA / "ranks.json"
    command = [*NSYSCONV, "report", str(store), "rank_summary", "-o", str(answer), *flags]
    return Side(name, command, (answer,), slow=True, most_runs=MOST_RUNS)


@contextmanager
def cluster(workers: int) -> Iterator[str]:
    """A Dask cluster of so many workers of one thread, on loopback; the path of its scheduler file."""
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


def of_size(ranks: int, size: str, inputs: Sequence[Path], runs: int) -> list[Result]:
    """Import and report beside what a script would do."""
    store, raw = DATA / f"ranks-{ranks}.db", DATA / "ranks-raw.db"
    ours = importing("import", inputs, store)
    command = baseline("raw_copy", *files(inputs), raw)
    copy = Side(COPY, command, (raw,), slow=True, most_runs=MOST_RUNS)
    found = in_turn([ours, copy], runs)
    results = [compare(f"import, {size}", found["import"], COPY, found[COPY], "≤ 1.5 ×")]
    sums = Side(SUMS, baseline("pandas_sums", *files(inputs)), slow=True, most_runs=MOST_RUNS)
    found = in_turn([reporting("report", store), sums], runs)
    results.append(compare(f"rank_summary, {size}", found["report"], SUMS, found[SUMS], "≤ 0.35 ×"))
    remove(raw)
    return results


def files(inputs: Sequence[Path]) -> list[Path]:
    """The exports that inputs stand for."""
    return [file for path in inputs for file in (sorted(path.iterdir()) if path.is_dir() else [path])]


def of_workers(store: Path, folder: Path, size: str, runs: int) -> list[Result]:
    """One process and two; Dask with one worker and with two."""
    made = DATA / "ranks-made.db"
    beside = in_turn([importing("import", [folder], made, "--jobs", "2"),
                      reporting("report", store, "--jobs", "2"),
                      importing("import1", [folder], made, "--jobs", "1"),
                      reporting("report1", store, "--jobs", "1")], runs)  # fmt: skip
    by_dask = []
    for count in (1, 2):
        with cluster(count) as address:
            by_dask.append(in_turn([importing("import", [folder], made, "--dask", address),
                                    reporting("report", store, "--dask", address)], runs))  # fmt: skip
    remove(made)
    one, two = by_dask
    results = []
    for what, name in (("import", "import"), ("report", "rank_summary")):
        results += [
            compare(f"{name}, two processes, {size}", beside[what], "one process",
                    beside[f"{what}1"], ""),
            compare(f"{name}, Dask with 2 workers¹, {size}", two[what], "Dask with 1 worker¹",
                    one[what], ""),
        ]  # fmt: skip
    return results


def run(ranks: int, kernels: int, runs: int, setting: str) -> Group:
    """All of them."""
    group = Group("Many ranks", setting)
    folder = generated(ranks, kernels)
    every = sorted(folder.iterdir())
    sizes = [count for count in (ranks // 8, ranks // 4, ranks // 2) if count]
    cost = {}
    for count in (*sizes, ranks):
        inputs = [folder] if count == ranks else every[:count]
        results = of_size(count, f"{count} × {kernels / 1e6:g} M kernels", inputs, runs)
        cost[count] = [result.wall_s / count for result in results]
        group.results += results
    store = DATA / f"ranks-{ranks}.db"
    group.results += of_workers(store, folder, f"{ranks} × {kernels / 1e6:g} M kernels", runs)
    group.scaling = [
        (what, large / small)
        for what, large, small in zip(
            ("import", "rank_summary"), cost[ranks], cost[min(cost)], strict=True
        )
    ]
    for path in (*(DATA / f"ranks-{count}.db" for count in cost), DATA / "ranks.json"):
        remove(path)
    return group
