"""The jobs on exports: a store to Parquet and Arrow, beside pandas' `read_sql` and `to_parquet`; to a
Chrome trace, beside a loop over rows.

The peer writes kernels and API calls only, each table in one piece; nsysconv writes every table, in
bounded memory.
"""

from __future__ import annotations

import subprocess

from jobs_nsys import generated
from measure import DATA, NSYSCONV, Group, Result, Side, baseline, compare, in_turn, remove

KERNELS = 5_000_000
MEMORY = "≤ 300 MB"
PEER = "pandas read_sql + to_parquet"
LOOP = "a Python loop over rows, json.dump"


def export_jobs(kernels: int, runs: int) -> list[Result]:
    """All formats from one store, in turn."""
    store, theirs = DATA / "export.db", DATA / "export_pandas"
    folders = {
        "Parquet": (DATA / "export_parquet", ["--to", "parquet"]),
        "Parquet with names": (DATA / "export_names", ["--to", "parquet", "--names"]),
        "Arrow": (DATA / "export_arrow", ["--to", "arrow"]),
    }
    remove(store)
    subprocess.run([*NSYSCONV, "import", str(generated(kernels)), "-o", str(store)], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    sides = [
        Side(title, [*NSYSCONV, "export", str(store), *flags, "-o", str(folder)], (folder,))
        for title, (folder, flags) in folders.items()
    ]
    peer = Side(PEER, baseline("pandas_to_parquet", store, theirs), (theirs,), slow=True)
    found = in_turn([*sides, peer], runs)
    for path in (store, theirs, *(folder for folder, _ in folders.values())):
        remove(path)
    size = f"{kernels / 1e6:g} M kernels"
    return [
        compare(f"export to {title}, {size}", found[title], PEER, found[PEER], MEMORY)
        for title in folders
    ]


def chrome_jobs(kernels: int, runs: int) -> list[Result]:
    """A Chrome trace of a file, and of its store, beside a loop over the file's rows.

    The loop writes each row as one event. nsysconv also writes arrows, more arguments, and waits.
    """
    source, store = generated(kernels), DATA / "trace.db"
    traces = {"file": DATA / "trace_file.json", "store": DATA / "trace_store.json"}
    theirs = DATA / "trace_loop.json"
    remove(store)
    subprocess.run([*NSYSCONV, "import", str(source), "-o", str(store)], check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    sides = [
        Side(what, [*NSYSCONV, "export", str(target), "--to", "chrome", "-o", str(traces[what])],
             (traces[what],))
        for what, target in (("file", source), ("store", store))
    ]  # fmt: skip
    peer = Side(LOOP, baseline("chrome_loop", source, theirs), (theirs,), slow=True)
    found = in_turn([*sides, peer], runs)
    for path in (store, theirs, *traces.values()):
        remove(path)
    size = f"{kernels / 1e6:g} M kernels"
    return [
        compare(f"Chrome trace of a {what}, {size}", found[what], LOOP, found[LOOP], f"≥ 5 ×, {MEMORY}")
        for what in traces
    ]


def run(kernels: int, runs: int, setting: str) -> Group:
    """All of them; traces of a fifth of the kernels: loops over more take minutes."""
    results = [*export_jobs(kernels, runs), *chrome_jobs(kernels // 5, runs)]
    return Group("Exports", setting, results)
