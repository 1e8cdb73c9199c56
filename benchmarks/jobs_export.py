"""The jobs on exports: a store to Parquet and Arrow, beside pandas' `read_sql` and `to_parquet`; to a
Chrome trace, beside a loop over rows and nsys-ai's trace; and to a page.

The peers write kernels and API calls (nsys-ai: kernels and ranges), each table in one piece; nsysconv
writes every table, in bounded memory.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from jobs_nsys import EXPORTS, caches, large
from measure import DATA, NSYSCONV, Side, baseline, in_turn, remove
from peers import NSYS_AI, present, version
from results import Bar, Group, Job

KERNELS = 5_000_000
TRACE_KERNELS = 1_000_000
# nsys-ai's trace of a million takes more than six minutes.
MOST_KERNELS_OF_PEER = 200_000
PANDAS = "pandas read_sql + to_parquet"
LOOP = "a Python loop over rows, json.dump"
EVER_S = "1000000"


def imported(source: Path, store: Path) -> None:
    """Make a store of an export."""
    remove(store)
    command = [*NSYSCONV, "import", str(source), "-o", str(store)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def trace(target: Path, made: Path, most_runs: int | None = None) -> Side:
    """Return the Chrome trace of a file or of a store."""
    command = [*NSYSCONV, "export", str(target), "--to", "chrome", "-o", str(made)]
    return Side("nsysconv export", command, (made,), most_runs)


def store_jobs(source: Path, kernels: int, runs: int) -> list[Job]:
    """Return the jobs on a store: all table formats, in turn with the peer, a page, and a trace."""
    store, theirs = DATA / "export.db", DATA / "export_pandas"
    folder, page, traced = DATA / "export_ours", DATA / "export.html", DATA / "export.json"
    imported(source, store)
    peer = Side(PANDAS, baseline("pandas_to_parquet", store, theirs), (theirs,), most_runs=1)
    found = []

    def add(name: str, sides: list[Side], *bars: Bar) -> None:
        found.append(Job(name, kernels / 1e6, "M kernels", in_turn(sides, runs), bars))

    for title, flags in (
        ("Parquet", ["--to", "parquet", "--no-names"]),
        ("Parquet with names", ["--to", "parquet"]),
        ("Arrow", ["--to", "arrow"]),
    ):
        command = [*NSYSCONV, "export", str(store), *flags, "-o", str(folder)]
        sides = [Side("nsysconv export", command, (folder,)), *([peer] if title == "Parquet" else [])]
        add(f"export to {title}", sides, Bar("MB", 300, why="exports"))
    command = [*NSYSCONV, "report", str(store), "-o", str(page)]
    add("page of a store", [Side("nsysconv report", command, (page,))],
        Bar("s", 12, why="reports"), Bar("MB written", 10, why="reports"),
        Bar("MB", 1000, why="reports"))  # fmt: skip
    add("Chrome trace of a large store", [trace(store, traced, most_runs=1)],
        Bar("MB", 300, why="chrome-traces"))  # fmt: skip
    for path in (store, theirs, folder, page, traced):
        remove(path)
    return found


def chrome_jobs(source: Path, kernels: int, runs: int) -> list[Job]:
    """Return a Chrome trace of a file, and of its store, beside a loop over the file's rows.

    The loop writes each row as one event. nsysconv also writes arrows, more arguments, and waits.
    """
    store, ours, theirs = DATA / "trace.db", DATA / "trace.json", DATA / "trace_loop.json"
    imported(source, store)
    loop = Side(LOOP, baseline("chrome_loop", source, theirs), (theirs,), most_runs=2)
    bars = [Bar("as fast", 5, LOOP, why="chrome-traces"), Bar("MB", 300, why="chrome-traces")]
    file, stored, looped = in_turn([trace(source, ours), trace(store, ours), loop], runs)
    for path in (store, ours, theirs):
        remove(path)
    return [
        Job(f"Chrome trace of a {what}", kernels / 1e6, "M kernels", [side, looped], bars)
        for what, side in (("file", file), ("store", stored))
    ]


def peer_job(source: Path, kernels: int, runs: int) -> Job:
    """Return the job that writes a trace beside nsys-ai's; it is not comparable and has no bar."""
    ours, folder = DATA / "trace.json", DATA / "trace_peer"
    command = [str(NSYS_AI.python), "-m", "nsys_ai", "export", str(source), "--gpu", "0"]
    command += ["--trim", "0", EVER_S, "-o", str(folder)]
    peer = Side("nsys-ai export", command, (folder, *caches(source)), most_runs=1)
    job = Job("Chrome trace beside nsys-ai", kernels / 1e6, "M kernels",
              in_turn([trace(source, ours), peer], runs))  # fmt: skip
    for path in (ours, *peer.outputs):
        remove(path)
    return job


def run(real: Path, kernels: int, trace_kernels: int, runs: int, setting: str) -> Group:
    """Return all of them."""
    group = Group("Exports", setting)
    peers = present((NSYS_AI,), group.skipped)
    group.setting += "".join(f", {version(peer)}" for peer in peers)
    kind = EXPORTS[0]
    stored = large(real, kind, kernels, group.skipped)
    traced, least = large(real, kind, trace_kernels, []), min(trace_kernels, MOST_KERNELS_OF_PEER)
    for job in (*store_jobs(stored, kernels, runs), *chrome_jobs(traced, trace_kernels, runs)):
        group.say(job)
    if peers:
        group.say(peer_job(large(real, kind, least, []), least, runs))
    return group
