"""The jobs on two runs: `nsysconv diff` of two exports and of two stores, beside nsys-ai's `diff`.

nsys-ai turns each export into a cache of Parquet files beside it. From the files it starts without these
caches, and writes them; against our stores it starts with them. It takes a minute or more at the size
that the bars are set for, so it runs once per job. With `--gpu 0` nsys-ai compares one device; the
exports have two, and nsysconv compares both.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from jobs_nsys import Export, caches, large
from measure import DATA, NSYSCONV, Side, in_turn, remove
from peers import NSYS_AI, present, version
from results import Bar, Group, Job

# The same program before and after it was changed; each of 230 MB.
KERNELS = 350_000
RUNS = (
    Export("before", "GindaChen+nsys-ai__mfu_2gpu_before.sqlite", "nsys/basic-3.24.0.sqlite", KERNELS),
    Export("after", "GindaChen+nsys-ai__mfu_2gpu_after.sqlite", "nsys/basic-3.25.0.sqlite", KERNELS),
)


def jobs(sources: list[Path], runs: int, *, with_peer: bool) -> list[Job]:
    """Return the jobs: straight from the exports, then from stores that were imported before."""
    stores = [DATA / f"diff-{each.name}.db" for each in RUNS]
    for source, store in zip(sources, stores, strict=True):
        remove(store)
        command = [*NSYSCONV, "import", str(source), "-o", str(store)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    megabytes = round(sum(source.stat().st_size for source in sources) / 1e6)
    made = tuple(path for source in sources for path in caches(source))
    found = []
    for what, targets, limit, peer, outputs in (
        ("diff from the files", sources, Bar("s", 15, why="two-runs"),
         "nsys-ai diff, no caches yet", made),
        ("diff of stores", stores, Bar("s", 3.5, why="two-runs"),
         "nsys-ai diff, caches built before", ()),
    ):  # fmt: skip
        sides = [Side("nsysconv diff", [*NSYSCONV, "diff", *map(str, targets)])]
        if with_peer:
            # The run without caches leaves those that the next job's peer finds.
            command = [str(NSYS_AI.python), "-m", "nsys_ai", "diff", *map(str, sources)]
            command += ["--gpu", "0", "--no-ai"]
            sides.append(Side(peer, command, outputs, most_runs=1))
        bars = [limit, Bar("MB", 400, why="two-runs")]
        found.append(Job(what, megabytes, "MB of exports", in_turn(sides, runs), bars))
    for path in (*stores, *made):
        remove(path)
    return found


def run(real: Path, kernels: int, runs: int, setting: str) -> Group:
    """Run all jobs of the group."""
    group = Group("Two runs compared", setting)
    peers = present((NSYS_AI,), group.skipped)
    group.setting += "".join(f", {version(peer)}" for peer in peers)
    sources = [large(real, each, kernels, group.skipped) for each in RUNS]
    for job in jobs(sources, runs, with_peer=bool(peers)):
        group.say(job)
    return group
