"""The jobs on two runs: `nsysconv diff` of two exports and of two stores, beside nsys-ai's `diff`.

nsys-ai turns each export into a cache of Parquet files beside it. From the files it starts without these
caches, and writes them; against our stores it starts with them. It takes a minute or more at the size
that the bars are set for, so it runs once per job. `--gpu 0` names the only device: without it nsys-ai
compares the same device twice, first among all and then alone.
"""

from __future__ import annotations

import subprocess

import inputs
from jobs_nsys import caches
from measure import DATA, NSYSCONV, Side, in_turn, remove
from peers import NSYS_AI, present, version
from results import Bar, Group, Job

# Two exports of 237 MB, made up: one export, repeated, would be compared with itself.
KERNELS = 1_520_000
SEEDS = (1, 2)


def jobs(kernels: int, runs: int, *, with_peer: bool) -> list[Job]:
    """Return the jobs: straight from the exports, then from stores that were imported before."""
    sources = [inputs.nsys(kernels, seed) for seed in SEEDS]
    stores = [DATA / f"diff-{seed}.db" for seed in SEEDS]
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


def run(kernels: int, runs: int, setting: str) -> Group:
    """Run all jobs of the group."""
    group = Group("Two runs compared", setting)
    peers = present((NSYS_AI,), group.skipped)
    group.setting += "".join(f", {version(peer)}" for peer in peers)
    for job in jobs(kernels, runs, with_peer=bool(peers)):
        group.say(job)
    return group
