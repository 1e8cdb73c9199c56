"""Results of the benchmarks: jobs, their sides, the bars they are held against; kept as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["times", "as fast", "as fast, median", "as fast, least", "s", "MB", "MB written"]
_TEXTS: dict[Kind, str] = {
    "times": "≤ {0:g} × the time of {1}",
    "as fast": "≥ {0:g} × as fast as {1}",
    "as fast, median": "median ≥ {0:g} × as fast as {1}",
    "as fast, least": "least ≥ {0:g} × as fast as {1}",
    "s": "≤ {0:g} s",
    "MB": "≤ {0:g} MB",
    "MB written": "≤ {0:g} MB written",
}


@dataclass(frozen=True)
class Run:
    """One finished process, with its descendants. `written_mb`: what it left, in 10^6 bytes."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    written_mb: float = 0.0


@dataclass(frozen=True)
class Measured:
    """A side of a job: its runs."""

    name: str
    runs: Sequence[Run]

    @property
    def wall_s(self) -> float:
        """Return the median of the wall times."""
        return statistics.median(run.wall_s for run in self.runs)

    @property
    def cpu_s(self) -> float:
        """Return the median of the CPU times."""
        return statistics.median(run.cpu_s for run in self.runs)

    @property
    def peak_mb(self) -> float:
        """Return the most memory that any run held."""
        return max(run.peak_mb for run in self.runs)

    @property
    def written_mb(self) -> float:
        """Return the most that any run wrote."""
        return max(run.written_mb for run in self.runs)

    @property
    def walls(self) -> str:
        """Return the least and the greatest wall time, where there are several."""
        walls = [run.wall_s for run in self.runs]
        return f"{min(walls):.2f}-{max(walls):.2f}" if len(walls) > 1 else "one run"


@dataclass(frozen=True)
class Bar:
    """A bar that a job must not exceed.

    `times`: its wall time over that of the side `than`, at most. `as fast`: the reverse, at least; with
    `median` or `least` over all jobs of a group that have this side. `s`: its wall time, `MB`: its
    memory, `MB written`: the size of its outputs. `why` is the section of the notes on where time or
    memory goes.
    """

    kind: Kind
    limit: float
    than: str = ""
    why: str = ""

    def __str__(self) -> str:
        """Return the value as users write it."""
        return _TEXTS[self.kind].format(self.limit, self.than)

    def measured(self, job: Job) -> float | None:
        """Return the value that is compared with the limit; None if the other side was not run."""
        if self.kind == "s":
            return job.ours.wall_s
        if self.kind == "MB":
            return job.ours.peak_mb
        if self.kind == "MB written":
            return job.ours.written_mb
        ratio = job.ratio(self.than)
        return ratio if ratio is None or self.kind == "times" else 1 / ratio

    def holds(self, value: float) -> bool:
        """Return whether a measured value keeps to the limit."""
        return value >= self.limit if self.kind.startswith("as fast") else value <= self.limit

    def value_text(self, value: float) -> str:
        """Return a measured value with its unit."""
        if self.kind.startswith("as fast"):
            return f"{value:.1f} ×"
        return {
            "times": f"{value:.2f} ×",
            "s": f"{value:.2f} s",
            "MB": f"{value:.0f} MB",
            "MB written": f"{value:.1f} MB",
        }[self.kind]


@dataclass(frozen=True)
class Job:
    """A job: the work, its size, and the sides that do it. The first side is nsysconv's."""

    name: str
    size: float | None
    unit: str
    sides: Sequence[Measured]
    bars: Sequence[Bar] = ()

    @property
    def title(self) -> str:
        """Return the job with its size."""
        return self.name if self.size is None else f"{self.name}, {self.size:g} {self.unit}"

    @property
    def ours(self) -> Measured:
        """Return nsysconv's runs."""
        return self.sides[0]

    def ratio(self, than: str) -> float | None:
        """Return our wall time over that of another side; None if that was not run."""
        found = [side for side in self.sides if side.name == than]
        return self.ours.wall_s / found[0].wall_s if found else None

    def verdicts(self) -> list[tuple[Bar, float]]:
        """Return the bars that could be measured, each with its subject and its value."""
        return [(bar, value) for bar in self.bars if (value := bar.measured(self)) is not None]


@dataclass
class Group:
    """The jobs that belong together, as they are kept between runs of the benchmark.

    `across`: bars over all jobs that have a side; these jobs are compared in one table.
    """

    title: str
    setting: str
    jobs: list[Job] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    across: Sequence[Bar] = ()

    def say(self, job: Job) -> None:
        """Add a job, and prints how it went."""
        self.jobs.append(job)
        for side in job.sides:
            print(f"{job.title}: {side.name}: {side.wall_s:.2f} s ({side.walls}), "
                  f"CPU {side.cpu_s:.2f} s, {side.peak_mb:.0f} MB", flush=True)  # fmt: skip
        for bar, value in job.verdicts():
            print(f"  {'holds ' if bar.holds(value) else 'MISSED'} {bar}: {bar.value_text(value)}")

    def factors(self, than: str) -> list[float]:
        """Return how many times as fast as a side ours is, in each job that has it."""
        return [1 / ratio for job in self.jobs if (ratio := job.ratio(than)) is not None]

    def verdicts(self) -> list[tuple[str, Bar, float]]:
        """Return the bars that could be measured, each with its subject and its value."""
        over_all = [(bar, factors) for bar in self.across if (factors := self.factors(bar.than))]
        return [
            *((job.title, bar, value) for job in self.jobs for bar, value in job.verdicts()),
            *((f"{self.title}, {len(factors)} layouts", bar,
               min(factors) if bar.kind == "as fast, least" else statistics.median(factors))
              for bar, factors in over_all),
        ]  # fmt: skip

    def scaling(self) -> list[tuple[str, float]]:
        """Return per job with several sizes the cost of a unit at the largest over the next size."""
        return [
            (name, _cost(jobs[-1]) / _cost(jobs[-2]))
            for name, jobs in self.by_size().items()
            if len(jobs) > 1
        ]

    def by_size(self) -> dict[str, list[Job]]:
        """Return the jobs that have a size, by name, the smallest first."""
        found: dict[str, list[Job]] = {}
        for job in self.jobs:
            if job.size is not None:
                found.setdefault(job.name, []).append(job)
        return {name: sorted(jobs, key=_size) for name, jobs in found.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the results as plain lists and dictionaries."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Group:
        """Return the reverse of `to_json`."""
        jobs = [
            Job(**{
                **job,
                "sides": [
                    Measured(side["name"], [Run(**run) for run in side["runs"]])
                    for side in job["sides"]
                ],
                "bars": [Bar(**bar) for bar in job["bars"]],
            })
            for job in data["jobs"]
        ]  # fmt: skip
        across = [Bar(**bar) for bar in data.get("across", ())]
        return cls(data["title"], data["setting"], jobs, list(data["skipped"]), across)


_size: Callable[[Job], float] = lambda job: job.size or 0.0  # noqa: E731


def _cost(job: Job) -> float:
    assert job.size
    return job.ours.wall_s / job.size
