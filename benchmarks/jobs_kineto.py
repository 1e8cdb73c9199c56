"""The jobs on Kineto traces: imports of plain and compressed files beside `json.load` and HTA's parser.

The baselines hold a whole trace as Python objects, about 5 times the size of the file: 2.4 GB for 500 MB
with `json.load`, 2.7 GB with HTA. With 2 GB they would take 10 to 11 GB and minutes, so they stop at
500 MB, for which the bars are set; and none runs where it needs more than half of the free memory, so
nothing swaps. What is not run is said on the page.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from measure import (
    DATA,
    HERE,
    NSYSCONV,
    Group,
    Result,
    Side,
    available_mb,
    baseline,
    compare,
    in_turn,
)

SIZES_MB = (50, 500, 2000)
BAR_MB = 500
# Larger traces make baselines slow: fewer runs.
SLOW_MB = 100
# Where `peers.txt` says that HTA's environment is, unless the variable or the option names another.
HTA_PYTHON = os.environ.get("HTA_PYTHON", "/tmp/hta-env/bin/python")
MEMORY = "≤ 500 MB"


@dataclass(frozen=True)
class Baseline:
    """One of `baselines.py`: the largest trace it is given, and our bar against it at `BAR_MB`."""

    name: str
    title: str
    largest_mb: int
    bar: str = ""
    memory_per_mb: float = 5.5

    @property
    def is_hta(self) -> bool:
        """Whether it needs HTA's environment."""
        return self.name.startswith("hta_")


BASELINES = (
    Baseline("json_load", "json.load", 500, "≤ 0.125 × (8 × as fast)"),
    Baseline("json_load_nogc", "json.load, gc off", 500, "≤ 0.67 × (1.5 × as fast)"),
    Baseline("hta_parse", "HTA parse", 500, "≤ 0.067 × (15 × as fast)"),
    Baseline("hta_breakdown", "HTA parse + kernel breakdown", 50),
)


def generated(megabytes: int, suffix: str = "") -> Path:
    """The generated trace of this size, made when it is missing."""
    path = DATA / f"kineto-{megabytes}.json{suffix}"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        unfinished = path.with_name(f"unfinished-{path.name}")
        subprocess.run([sys.executable, str(HERE / "generate_kineto.py"), str(unfinished), "--mb",
                        str(megabytes)], check=True, stdout=subprocess.DEVNULL)
        unfinished.rename(path)
    return path


def hta_version(python: str) -> str | None:
    """The version of HTA that an environment has; nothing where it or HTA is missing."""
    code = "import hta.common.trace, importlib.metadata as m; print(m.version('HolisticTraceAnalysis'))"
    try:
        asked = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None


def rivals(source: Path, megabytes: int, hta_python: str | None,
           skipped: list[str]) -> list[tuple[Side, str]]:  # fmt: skip
    """The baselines that can run at this size, with bars; says in `skipped` why others cannot."""
    found = []
    for item in BASELINES:
        need = item.memory_per_mb * megabytes
        if item.is_hta and hta_python is None:
            continue
        if megabytes > item.largest_mb:
            skipped.append(f"{item.title}, {megabytes} MB: too slow here, and it would take about "
                           f"{need / 1000:.0f} GB of memory")  # fmt: skip
        elif need > available_mb() / 2:
            skipped.append(f"{item.title}, {megabytes} MB: it would take about {need / 1000:.1f} GB, "
                           "more than half of the free memory")  # fmt: skip
        else:
            python = hta_python if item.is_hta and hta_python else sys.executable
            command = baseline(item.name, source, python=python)
            bars = [item.bar, MEMORY] if megabytes >= BAR_MB and item.bar else [MEMORY]
            found.append((Side(item.title, command, slow=megabytes > SLOW_MB), ", ".join(bars)))
    return found


def import_jobs(megabytes: int, runs: int, hta_python: str | None, skipped: list[str]) -> list[Result]:
    """A plain and a compressed trace into a store, beside the baselines."""
    plain, packed = generated(megabytes), generated(megabytes, ".gz")
    store = DATA / "kineto.db"
    ours, zipped = (
        Side(name, [*NSYSCONV, "import", str(source), "-o", str(store)], (store,))
        for name, source in (("import of the plain file", plain), ("import of the gz file", packed))
    )
    others = rivals(plain, megabytes, hta_python, skipped)
    found = in_turn([ours, zipped, *(side for side, _ in others)], runs)
    store.unlink(missing_ok=True)
    job = import_name(megabytes)
    results = [compare(job, found[ours.name], side.name, found[side.name], bar) for side, bar in others]
    if not results:
        results = [compare(job, found[ours.name], "", [], MEMORY)]
    return [*results, compare(f"import, gz of {megabytes} MB", found[zipped.name], ours.name,
                              found[ours.name], f"≤ 1.8 ×, {MEMORY}")]


def import_name(megabytes: int) -> str:
    """What the import of a plain file is called in the table."""
    return f"import, {megabytes} MB"


def per_byte(results: Sequence[Result], sizes: Sequence[int]) -> list[tuple[str, float]]:
    """The cost of a byte at the largest size over that at the smallest."""
    if len(sizes) < 2:
        return []
    cost = {size: next(r.wall_s for r in results if r.job == import_name(size)) / size for size in sizes}
    return [("import", cost[max(sizes)] / cost[min(sizes)])]


def run(sizes: Sequence[int], runs: int, hta_python: str, setting: str) -> Group:
    """All of them."""
    hta = hta_version(hta_python)
    group = Group("Kineto traces", setting + (f", HolisticTraceAnalysis {hta}" if hta else ""))
    if hta is None:
        group.skipped.append(f"HTA: none at {hta_python} (benchmarks/peers.txt says how to get it)")
    for size in sizes:
        group.results += import_jobs(size, runs, hta_python if hta else None, group.skipped)
    group.scaling = per_byte(group.results, sizes)
    return group
