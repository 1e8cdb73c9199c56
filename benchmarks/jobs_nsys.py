"""The jobs on Nsight Systems exports, and the cold starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from measure import DATA, HERE, NSYSCONV, Group, Result, Side, baseline, measure

SMALL = HERE.parent / "tests" / "fixtures" / "nsys" / "basic-3.25.0.sqlite"


def generated(kernels: int) -> Path:
    """The generated export of this size, made when it is missing."""
    path = DATA / f"nsys-{kernels}.sqlite"
    if not path.exists():
        DATA.mkdir(exist_ok=True)
        subprocess.run([sys.executable, str(HERE / "generate_nsys.py"), str(path), "--kernels",
                        str(kernels)], check=True)
    return path


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
    for report, bar in (("nvtx_gpu_proj_sum", "≤ 0.35 ×"), ("ranges", "")):
        command = [*NSYSCONV, "report", str(store), report, "-o", str(answers)]
        results.append(measure(f"ranges on the GPU ({report}) from the store, {size}",
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


def run(kernels: Sequence[int], runs: int, setting: str) -> Group:
    """All of them."""
    group = Group("Nsight Systems exports", setting)
    group.results = cold_jobs(runs)
    for size in kernels:
        group.results += large_jobs(size, runs)
    group.scaling = per_event(group.results, kernels)
    return group
