"""The jobs on Kineto traces: imports of plain and compressed files beside `json.load` and other parsers.

The baselines hold a whole trace as Python objects, about 5 times the size of the file: 2.4 GB for 500 MB
with `json.load`, 2.7 GB with HTA. With 2 GB they would take 10 to 11 GB and minutes, so they stop at
500 MB, for which the bars are set; and none runs where it needs more than half of the free memory, so
nothing swaps. What is not run is said on the page.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import inputs
from measure import DATA, NSYSCONV, Side, available_mb, baseline, in_turn
from peers import HTA, TB_PLUGIN, Peer, present, version
from results import Bar, Group, Job

SIZES_MB = (50, 500, 2000)
BAR_MB = 500
# Larger traces make baselines slow: three runs at most, no warm-up.
SLOW_MB = 100
SLOW_RUNS = 3
MEMORY = Bar("MB", 500)
PLAIN = "nsysconv import of the plain file"
WHY = "kineto-traces"


@dataclass(frozen=True)
class Baseline:
    """One of `baselines.py`: the largest trace it is given, and our bar against it at `BAR_MB`."""

    name: str
    title: str
    largest_mb: int
    at_least: tuple[float, float | None] | None = None
    peer: Peer | None = None
    memory_per_mb: float = 5.5

    def bars(self, megabytes: int) -> list[Bar]:
        """The bar against it, where the size is one that it is set for."""
        if self.at_least is None or megabytes < BAR_MB:
            return []
        return [Bar("as fast", self.at_least[0], self.title, self.at_least[1], WHY)]


BASELINES = (
    Baseline("json_load", "json.load", 500, (8, 12)),
    Baseline("json_load_nogc", "json.load, gc off", 500, (1.5, None)),
    Baseline("hta_parse", "HTA parse", 500, (15, 25), HTA),
    Baseline("hta_breakdown", "HTA parse + kernel breakdown", 50, peer=HTA),
    Baseline("tb_plugin", "TensorBoard plugin's parse + sums", 50, peer=TB_PLUGIN),
)


def rivals(megabytes: int, skipped: list[str]) -> list[Baseline]:
    """The baselines that can run at this size; says in `skipped` why others cannot."""
    found = []
    for item in BASELINES:
        need = item.memory_per_mb * megabytes
        if item.peer and version(item.peer) is None:
            continue
        if megabytes > item.largest_mb:
            skipped.append(f"{item.title}, {megabytes} MB: too slow here, and it would take about "
                           f"{max(need / 1000, 0.1):.1f} GB of memory")  # fmt: skip
        elif need > available_mb() / 2:
            skipped.append(f"{item.title}, {megabytes} MB: it would take about {need / 1000:.1f} GB, "
                           "more than half of the free memory")  # fmt: skip
        else:
            found.append(item)
    return found


def import_jobs(megabytes: int, runs: int, skipped: list[str]) -> list[Job]:
    """A plain and a compressed trace into a store, beside the baselines."""
    plain, packed = inputs.kineto(megabytes), inputs.kineto(megabytes, ".gz")
    store = DATA / "kineto.db"
    ours, zipped = (
        Side(name, [*NSYSCONV, "import", str(source), "-o", str(store)], (store,))
        for name, source in ((PLAIN, plain), ("nsysconv import of the gz file", packed))
    )
    others = rivals(megabytes, skipped)
    slow = SLOW_RUNS if megabytes > SLOW_MB else None
    sides = [
        Side(item.title, baseline(item.name, plain, python=str(item.peer.python if item.peer
                                                               else sys.executable)), most_runs=slow)
        for item in others
    ]  # fmt: skip
    by_plain, by_packed, *theirs = in_turn([ours, zipped, *sides], runs)
    store.unlink(missing_ok=True)
    bars = [bar for item in others for bar in item.bars(megabytes)]
    return [
        Job("import of a trace", megabytes, "MB", [by_plain, *theirs], [*bars, MEMORY]),
        Job("import of a trace, gz", megabytes, "MB", [by_packed, by_plain],
            [Bar("times", 1.8, PLAIN), MEMORY]),
    ]  # fmt: skip


def run(sizes: Sequence[int], runs: int, setting: str) -> Group:
    """All of them."""
    group = Group("Kineto traces", setting)
    group.setting += "".join(f", {version(peer)}" for peer in present((HTA, TB_PLUGIN), group.skipped))
    for size in sorted(sizes):
        for job in import_jobs(size, runs, group.skipped):
            group.say(job)
    return group
