"""The jobs on Nsight Systems exports, and the cold starts.

What is imported are real exports, repeated; fixtures where they are missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import inputs
from measure import DATA, NSYSCONV, Side, baseline, in_turn, remove
from peers import NSYS_AI, present, version
from results import Bar, Group, Job, Measured

SMALL = inputs.FIXTURES / "nsys" / "basic-3.25.0.sqlite"
COPY = "raw ATTACH + INSERT … SELECT"
ANSWER, CORE_REPORTS = "nsysconv STORE", "nsysconv report core"
PANDAS = "pandas read_sql + groupby"
WITH_RANGES = f"{PANDAS}, ranges too"
RANGES = "ranges"
WARM, SUMMARY = "nsys-ai warm", "nsys-ai summary"
# Below these, a command is what it takes to start, which has bars of its own; those of reports are set
# for the largest size.
LEAST_IMPORTED, LEAST_REPORTED = 1_000_000, 5_000_000
# nsys-ai takes minutes beyond that.
MOST_KERNELS_OF_PEER = 1_000_000


@dataclass(frozen=True)
class Export:
    """A kind of export, the real file that is repeated, a fixture, and up to how many kernels.

    `host`: with rows of the host that pandas does not read.
    """

    name: str
    file: str
    fixture: str
    most_kernels: int
    ranges: bool = False
    host: bool = False


# With 5 ranges a kernel, 5 M kernels would take pandas 12 GB.
EXPORTS = (
    Export("no ranges", "tomarriott+GTLS__report1.sqlite", "nsys/graphs-3.24.0.sqlite", 5_000_000),
    Export("5 ranges a kernel", "GindaChen+nsys-ai__h100_2gpu_1s.sqlite", "nsys/basic-3.25.0.sqlite",
           1_000_000, ranges=True),
    Export("4 OS calls, switches and samples a kernel",
           "hpcgroup+pipit__perlmutter-cloverleaf-cuda.sqlite", "nsys/cpu_side-3.28.1.sqlite", 1_000_000,
           host=True),
)  # fmt: skip


def large(real: Path, kind: Export, kernels: int, skipped: list[str]) -> Path:
    """Return an export of this kind and size; says in `skipped` where it is not of the real one."""
    return inputs.export(inputs.source(real, kind.file, kind.fixture, skipped), kernels)


def sources(real: Path, kernels: list[int], skipped: list[str]) -> Iterator[tuple[Export, Path, int]]:
    """Yield the exports of each size, of each kind; says in `skipped` which are missing."""
    there = {kind: inputs.source(real, kind.file, kind.fixture, skipped) for kind in EXPORTS}
    for size in sorted(kernels):
        for kind, path in there.items():
            if size <= kind.most_kernels:
                yield kind, inputs.export(path, size), size


def caches(source: Path) -> tuple[Path, ...]:
    """Return what nsys-ai leaves beside an export."""
    return source.with_suffix(".nsys-cache"), source.with_suffix(".nsys-cache.build.lock")


def peer_sides(source: Path) -> tuple[Side, Side]:
    """Return nsys-ai's import and its sums of kernels; the second finds what the first has left."""
    command = [str(NSYS_AI.python), "-m", "nsys_ai"]
    return (
        Side(WARM, [*command, "warm", str(source)], caches(source), most_runs=1),
        Side(SUMMARY, [*command, "summary", str(source), "--gpu", "0"], most_runs=1),
    )


def of_source(kind: Export, source: Path, kernels: int, runs: int, *, with_peer: bool) -> list[Job]:
    """Return the jobs: import, reports from the store, and reports straight from the file."""
    store, raw, answers = DATA / "store.db", DATA / "raw.db", DATA / "answers.json"
    warm, summary = peer_sides(source)

    def job(name: str, sides: list[Measured], *bars: Bar) -> Job:
        return Job(f"{name}, {kind.name}", kernels / 1e6, "M kernels", sides, bars)

    def report(target: Path, *names: str) -> Side:
        command = [*NSYSCONV, "report", str(target), *names, "-o", str(answers)]
        return Side(f"nsysconv report {' '.join(names)}".rstrip(), command, (answers,))

    peer = WITH_RANGES if kind.ranges else PANDAS

    def at_most(limit: float, with_ranges: float, why: str) -> list[Bar]:
        if kind.host:
            return []
        if kind.ranges:
            return [Bar("times", with_ranges, peer, "ranges")] if kernels >= LEAST_IMPORTED else []
        return [Bar("times", limit, peer, why)] if kernels >= LEAST_REPORTED else []

    imports = in_turn([
        Side("nsysconv import", [*NSYSCONV, "import", str(source), "-o", str(store)], (store,)),
        Side(COPY, baseline("raw_copy", source, raw), (raw,)), *([warm] if with_peer else []),
    ], runs)  # fmt: skip
    # All reports take turns with the same baseline.
    stored, in_place, answer, *rest = in_turn([
        report(store, "core"), report(source, "core"),
        Side(ANSWER, [*NSYSCONV, str(store), "-f", "json", "-o", str(answers)], (answers,)),
        Side(peer, baseline("pandas_range_sums" if kind.ranges else "pandas_sums", source)),
        *([summary] if with_peer else []), *([report(store, RANGES)] if kind.ranges else []),
    ], runs)  # fmt: skip
    sums, ranges = (rest[:-1], rest[-1:]) if kind.ranges else (rest, [])
    why = "import-of-exports"
    memory = [Bar("MB", 600, why="ranges")] if kind.ranges and kernels >= LEAST_IMPORTED else []
    jobs = [
        job("import of an export", imports, Bar("MB", 110, why=why),
            *([Bar("times", 2, COPY, why)] if kernels >= LEAST_IMPORTED else [])),
        job("core reports from the store", [stored, *sums], *at_most(0.35, 0.2, "reports"),
            *memory),
        job("core reports from the file", [in_place, *sums], *at_most(0.4, 0.3, "reports")),
        job("summary and findings from the store", [answer, stored],
            *([Bar("times", 0.8, CORE_REPORTS, "reports")] if kernels >= LEAST_REPORTED else [])),
        *(job("ranges as a tree from the store", [each, sums[0]], *at_most(0.35, 0.35, "ranges"))
          for each in ranges),
    ]  # fmt: skip
    for path in (store, raw, answers, *(caches(source) if with_peer else ())):
        remove(path)
    return jobs


def cold_jobs(runs: int) -> list[Job]:
    """Return what a person waits for with a small file."""
    store = DATA / "small.db"
    DATA.mkdir(exist_ok=True)
    jobs = [
        Job(f"{name}, cold process", None, "",
            in_turn([Side(f"nsysconv {called}", [*NSYSCONV, *words], made)], runs),
            [Bar("s", limit, why="cold-starts")])
        for name, called, words, made, limit in (
            ("help", "--help", ["--help"], (), 0.2),
            ("import of a small file", "import", ["import", str(SMALL), "-o", str(store)], (store,), 1.5),
            ("core reports of a small store", "report", ["report", str(store), "core"], (), 1.0),
            ("answer on a small file", "FILE", [str(SMALL)], (), 0.9),
        )
    ]  # fmt: skip
    remove(store)
    return jobs


def run(real: Path, kernels: list[int], runs: int, setting: str) -> Group:
    """Return all of them."""
    group = Group("Nsight Systems exports", setting)
    peers = present((NSYS_AI,), group.skipped)
    group.setting += "".join(f", {version(peer)}" for peer in peers)
    for job in cold_jobs(runs):
        group.say(job)
    for kind, source, size in sources(real, kernels, group.skipped):
        with_peer = bool(peers) and size <= MOST_KERNELS_OF_PEER
        if peers and not with_peer:
            group.skipped.append(f"{NSYS_AI.name}, {size / 1e6:g} M kernels: it would take minutes")
        for job in of_source(kind, source, size, runs, with_peer=with_peer):
            group.say(job)
    return group
