"""The jobs on two runs: `nsysconv diff` of two exports and of two stores, beside nsys-ai's `diff`.

nsys-ai turns each export into a cache of Parquet files beside it. From the files it starts without these
caches, and writes them; against our stores it starts with them. It takes a minute or more at the size
that the bars are set for, so it runs once per job. `--gpu 0` names the only device: without it nsys-ai
compares the same device twice, first among all and then alone.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from measure import DATA, HERE, NSYSCONV, Group, Result, Side, compare, in_turn, remove

# Two exports of 237 MB.
KERNELS = 1_520_000
SEEDS = (1, 2)
# Where `peers.txt` says that nsys-ai's environment is, unless the variable or the option names another.
NSYS_AI_PYTHON = os.environ.get("NSYS_AI_PYTHON", "/tmp/nsys-ai-env/bin/python")
MEMORY = "≤ 400 MB"
FILES, STORES = f"≤ 15 s (stretch 6 s), {MEMORY}", f"≤ 3 s (stretch 1 s), {MEMORY}"
# Without the extension nsys-ai falls back to Python's sqlite3, which is not what its users have.
PEER_CODE = """
import duckdb, importlib.metadata as m
duckdb.execute("SET autoinstall_known_extensions = false; LOAD sqlite_scanner")
print(f"nsys-ai {m.version('nsys-ai')} on DuckDB {duckdb.__version__}")
"""


def generated(kernels: int, seed: int) -> Path:
    """The generated export of this size and seed, made when it is missing."""
    path = DATA / f"nsys-{kernels}-seed{seed}.sqlite"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        unfinished = path.with_name(f"unfinished-{path.name}")
        command = [str(HERE / "generate_nsys.py"), str(unfinished), "--kernels", str(kernels)]
        subprocess.run([sys.executable, *command, "--seed", str(seed)], check=True)
        unfinished.rename(path)
    return path


def peer_version(python: str) -> str | None:
    """The versions of nsys-ai and DuckDB there; nothing where it cannot run as meant."""
    try:
        asked = subprocess.run(
            [python, "-c", PEER_CODE], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None


def caches(sources: Sequence[Path]) -> tuple[Path, ...]:
    """What nsys-ai leaves beside exports."""
    return tuple(
        source.with_suffix(suffix)
        for source in sources
        for suffix in (".nsys-cache", ".nsys-cache.build.lock")
    )


def jobs(kernels: int, runs: int, nsys_ai_python: str | None) -> list[Result]:
    """Straight from the exports, then from stores that were imported before."""
    sources = [generated(kernels, seed) for seed in SEEDS]
    stores = [DATA / f"diff-{seed}.db" for seed in SEEDS]
    for source, store in zip(sources, stores, strict=True):
        remove(store)
        command = [*NSYSCONV, "import", str(source), "-o", str(store)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    size = f"2 × {sources[0].stat().st_size / 1e6:.0f} MB"
    made = caches(sources)
    results = []
    for what, targets, bar, peer, outputs in (
        (f"diff from the files, {size}", sources, FILES, "nsys-ai diff, no caches yet", made),
        (f"diff of stores, {size}", stores, STORES, "nsys-ai diff, caches built before", ()),
    ):
        sides = [Side("nsysconv diff", [*NSYSCONV, "diff", *map(str, targets)])]
        if nsys_ai_python:
            # The run without caches leaves those that the next job's peer finds.
            command = [nsys_ai_python, "-m", "nsys_ai", "diff", *map(str, sources)]
            command += ["--gpu", "0", "--no-ai"]
            sides.append(Side(peer, command, outputs, slow=True, most_runs=1))
        found = in_turn(sides, runs)
        theirs = found.get(peer, [])
        results.append(compare(what, found[sides[0].name], peer if theirs else "", theirs, bar))
    for path in (*stores, *made):
        remove(path)
    return results


def run(kernels: int, runs: int, nsys_ai_python: str, setting: str) -> Group:
    """All of them."""
    peer = peer_version(nsys_ai_python) if shutil.which(nsys_ai_python) else None
    group = Group("Two runs compared", setting + (f", {peer}" if peer else ""))
    if peer is None:
        group.skipped.append(f"nsys-ai: none at {nsys_ai_python} that can read exports with DuckDB "
                             "(benchmarks/peers.txt says how to get it)")  # fmt: skip
    group.results = jobs(kernels, runs, nsys_ai_python if peer else None)
    return group
