"""The jobs on exports: a store to Parquet and Arrow, beside pandas' `read_sql` and `to_parquet`; to a
Chrome trace, beside a loop over rows and nsys-ai's trace.

The peers write kernels and API calls (nsys-ai: kernels and ranges), each table in one piece; nsysconv
writes every table, in bounded memory.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import inputs
from jobs_nsys import caches
from measure import DATA, NSYSCONV, Side, baseline, in_turn, remove
from peers import NSYS_AI, present, version
from results import Bar, Group, Job

KERNELS = 5_000_000
# nsys-ai's trace of a million takes more than six minutes.
TRACE_KERNELS = 200_000
PANDAS = "pandas read_sql + to_parquet"
LOOP = "a Python loop over rows, json.dump"
EVER_S = "1000000"


def imported(source: Path, store: Path) -> None:
    """Makes a store of an export."""
    remove(store)
    command = [*NSYSCONV, "import", str(source), "-o", str(store)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def export_jobs(kernels: int, runs: int) -> list[Job]:
    """All formats from one store, in turn with the peer."""
    store, theirs = DATA / "export.db", DATA / "export_pandas"
    folder = DATA / "export_ours"
    imported(inputs.nsys(kernels), store)
    peer = Side(PANDAS, baseline("pandas_to_parquet", store, theirs), (theirs,), most_runs=1)
    found = []
    for title, flags in (
        ("Parquet", ["--to", "parquet"]),
        ("Parquet with names", ["--to", "parquet", "--names"]),
        ("Arrow", ["--to", "arrow"]),
    ):
        command = [*NSYSCONV, "export", str(store), *flags, "-o", str(folder)]
        sides = [Side("nsysconv export", command, (folder,)), *([peer] if title == "Parquet" else [])]
        found.append(Job(f"export to {title}", kernels / 1e6, "M kernels", in_turn(sides, runs),
                         [Bar("MB", 300, why="exports")]))  # fmt: skip
    for path in (store, theirs, folder):
        remove(path)
    return found


def chrome_jobs(kernels: int, runs: int, *, with_peer: bool) -> list[Job]:
    """A Chrome trace of a file, and of its store, beside a loop over the file's rows.

    The loop writes each row as one event. nsysconv also writes arrows, more arguments, and waits.
    """
    source, store = inputs.nsys(kernels), DATA / "trace.db"
    ours, theirs, folder = DATA / "trace.json", DATA / "trace_loop.json", DATA / "trace_peer"
    imported(source, store)
    loop = Side(LOOP, baseline("chrome_loop", source, theirs), (theirs,), most_runs=2)
    command = [str(NSYS_AI.python), "-m", "nsys_ai", "export", str(source), "--gpu", "0"]
    command += ["--trim", "0", EVER_S, "-o", str(folder)]
    peer = Side("nsys-ai export", command, (folder, *caches(source)), most_runs=1)
    found = []
    for what, target in (("file", source), ("store", store)):
        command = [*NSYSCONV, "export", str(target), "--to", "chrome", "-o", str(ours)]
        others = [loop, peer] if with_peer and target == source else [loop]
        measured = in_turn([Side("nsysconv export", command, (ours,)), *others], runs)
        bars = [Bar("as fast", 5, LOOP, why="chrome-traces"), Bar("MB", 300, why="chrome-traces")]
        found.append(Job(f"Chrome trace of a {what}", kernels / 1e6, "M kernels", measured, bars))
    for path in (store, ours, theirs, folder, *caches(source)):
        remove(path)
    return found


def run(kernels: int, trace_kernels: int, runs: int, setting: str) -> Group:
    """All of them."""
    group = Group("Exports", setting)
    peers = present((NSYS_AI,), group.skipped)
    group.setting += "".join(f", {version(peer)}" for peer in peers)
    for job in export_jobs(kernels, runs):
        group.say(job)
    for job in chrome_jobs(trace_kernels, runs, with_peer=bool(peers)):
        group.say(job)
    return group
