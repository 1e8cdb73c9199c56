"""Whole comparisons of simulated programs: stores are written, compared as `diff` does, and counted.

A program has 20 annotated steps. In each the host loads a batch, allocates, copies to the device from
pinned and from pageable memory, launches 40 kernels of different lengths, copies back, and waits. The
lengths of all that vary by chance; `Planted` is what the other side does otherwise.
"""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nsysconv import api, codes, schema
from nsysconv.api import diffing
from nsysconv.api.open_profile import open_all
from nsysconv.api.options import DiffOptions
from nsysconv.diff import comparison
from nsysconv.facts import Fact
from nsysconv.store.location import writing
from nsysconv.store.recording import (
    ArrayRows,
    Batches,
    ProfileAttributes,
    Recording,
    Summary,
    rows_of,
)
from nsysconv.store.write import Origin

Array = np.ndarray
Random = np.random.Generator

SEED = 2
STEPS, KERNELS, RUNS = 20, 40, 5
UNCHANGED_COMPARISONS, PLANTED_COMPARISONS = 100, 20
SPREADS = (0.01, 0.02)
CHANGES = (0.05, 0.10, 0.30)

_FACTS = frozenset(
    {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.API_CALLS, Fact.API_LINKS, Fact.RANGES,
     Fact.THREADS, Fact.DEVICES}
)  # fmt: skip
_PID, _TID, _STREAM = 1, 11, 7
# The first kernel takes 300 us, each next one 8 % less.
_LENGTHS = 300_000 * 0.92 ** np.arange(KERNELS)
_NAMES = tuple(f"kernel_{i:02}" for i in range(KERNELS))
# The noise of a launch, beside that of its kernel in this run.
_OF_A_LAUNCH = 0.02
_LOAD_NS, _MALLOC_NS, _MALLOCS, _LAUNCH_NS, _LATENCY_NS = 600_000, 60_000, 6, 4_000, 2_000
_OF_THE_HOST = 0.05
_COPY_NS = 200_000
_BETWEEN_NS = 20_000

KERNEL, COPIES, ALLOCATIONS, GAP, TWICE = (
    "one kernel", "the copies", "allocations", "a gap", "every 10th kernel twice",
)  # fmt: skip
# The kernel that becomes slower has 5 % of a step.
_SLOWER = 2


@dataclass(frozen=True)
class Planted:
    """Hold what a slower program does: one thing takes longer, or kernels are launched twice.

    `slower` is the factor of one kernel, of all copies, of all allocations, or of the loading of a batch.
    """

    what: str = ""
    slower: float = 1.0

    def of(self, what: str) -> float:
        """Return how many times as long a thing of this name takes."""
        return self.slower if what == self.what else 1.0

    @property
    def launches(self) -> list[int]:
        """Return the kernels of a step in their order."""
        twice = self.what == TWICE
        return [i for i in range(KERNELS) for _ in range(2 if twice and i % 10 == 0 else 1)]


# -- a run, as rows of a store


@dataclass
class _Rows:
    # The columns of a table, in pieces of one value per step.
    columns: dict[str, list[Array]] = field(default_factory=dict)

    def add(self, start: Array, dur: Array, **others: int | Array) -> None:
        for name, values in {"start_ns": start, "dur_ns": dur, **others}.items():
            cells = np.broadcast_to(np.asarray(values), (STEPS,))
            self.columns.setdefault(name, []).append(np.rint(cells).astype(np.int64))

    def batch(self, table: str) -> ArrayRows:
        columns = {name: np.concatenate(pieces) for name, pieces in self.columns.items()}
        order = np.argsort(columns["start_ns"], kind="stable")
        return ArrayRows(table, {name: values[order] for name, values in columns.items()})


class _Names:
    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def __getitem__(self, text: str) -> int:
        return self.ids.setdefault(text, len(self.ids) + 1)


def batches(random: Random, spread: float, planted: Planted) -> Batches:
    """Return the rows of a run whose times are, as a whole, by this spread those of another one."""
    run = float(np.exp(spread * random.standard_normal()))
    # Kernels are unlike: the quietest varies by 0.5 % from run to run, the others by up to 2 %.
    of_kernels = np.exp(np.linspace(0.005, 0.02, KERNELS) * random.standard_normal(KERNELS))

    def lasting(length: float, deviation: float) -> Array:
        return run * length * np.exp(deviation * random.standard_normal(STEPS))

    kernels, copies, calls, ranges, names = _Rows(), _Rows(), _Rows(), _Rows(), _Names()
    correlation = itertools.count(1)
    host = np.zeros(STEPS)
    device = host.copy()
    ids = {"pid": _PID, "device_id": 0, "stream_id": _STREAM}

    def call(name: str, dur: Array, number: int) -> None:
        nonlocal host
        calls.add(host, dur, pid=_PID, tid=_TID, layer=0, name_id=names[name],
                  correlation_id=number * STEPS + np.arange(STEPS))  # fmt: skip
        host = host + dur

    def copy(direction: str, source: str, target: str) -> None:
        nonlocal host, device
        number, dur = next(correlation), planted.of(COPIES) * lasting(_COPY_NS, _OF_A_LAUNCH)
        start = np.maximum(device, host + _LATENCY_NS)
        device = start + dur
        # A copy of pageable memory lasts as long as its call.
        is_blocking = "Pageable" in (source, target)
        spent = device - host if is_blocking else lasting(_LAUNCH_NS, _OF_THE_HOST)
        call("cudaMemcpyAsync", spent, number)
        copies.add(start, dur, **ids, correlation_id=number * STEPS + np.arange(STEPS), bytes=1_000_000,
                   direction=codes.DIRECTIONS.index(direction),
                   src_kind=codes.MEMORY_KINDS.index(source),
                   dst_kind=codes.MEMORY_KINDS.index(target))  # fmt: skip

    loading = planted.of(GAP) * lasting(_LOAD_NS, _OF_THE_HOST)
    ranges.add(host, loading, pid=_PID, tid=_TID, kind=0, domain_id=0, name_id=names["load batch"])
    host = host + loading
    for _ in range(_MALLOCS):
        spent = planted.of(ALLOCATIONS) * lasting(_MALLOC_NS, _OF_THE_HOST)
        call("cudaMalloc", spent, next(correlation))
    copy("HtoD", "Pinned", "Device")
    copy("HtoD", "Pageable", "Device")
    for i in planted.launches:
        number = next(correlation)
        call("cudaLaunchKernel", lasting(_LAUNCH_NS, _OF_THE_HOST), number)
        factor = planted.of(KERNEL) if i == _SLOWER else 1.0
        start = np.maximum(device, host + _LATENCY_NS)
        dur = factor * of_kernels[i] * lasting(_LENGTHS[i], _OF_A_LAUNCH)
        kernels.add(start, dur, **ids, name_id=names[_NAMES[i]], grid_x=64 + i, grid_y=1, grid_z=1,
                    correlation_id=number * STEPS + np.arange(STEPS))  # fmt: skip
        device = start + dur
    copy("DtoH", "Device", "Pinned")
    call("cudaDeviceSynchronize", device - host, next(correlation))
    return _in_order((kernels, copies, calls, ranges), host, names)


def _in_order(tables: Sequence[_Rows], lengths: Array, names: _Names) -> Batches:
    # Steps, which so far all begin at 0, one after the other.
    begins = np.concatenate([[0.0], np.cumsum(lengths + _BETWEEN_NS)[:-1]])
    for table in tables:
        starts = table.columns["start_ns"]
        table.columns["start_ns"] = [np.rint(each + begins).astype(np.int64) for each in starts]
    *_, ranges = tables
    for step in range(STEPS):
        piece = {"pid": _PID, "tid": _TID, "kind": 0, "domain_id": 0}
        piece |= {"start_ns": begins[step], "dur_ns": lengths[step]}
        piece["name_id"] = names[f"ProfilerStep#{step}"]
        for name, value in piece.items():
            ranges.columns[name].append(np.array([round(value)], np.int64))
    small: Mapping[str, list[Mapping[str, Any]]] = {
        "device": [{"device_id": 0, "ordinal": 0, "name": "GPU", "uuid": "GPU-1"}],
        "process": [{"pid": _PID, "name": "program"}],
        "thread": [{"pid": _PID, "tid": _TID}],
        "name": [{"id": i, "text": text, "plain": text} for text, i in names.ids.items()],
    }
    for name, rows in small.items():
        yield rows_of(schema.metadata.tables[name], rows)
    for name, table in zip(("kernel", "memcpy", "api_call", "range"), tables, strict=True):
        yield table.batch(name)
    return Summary(ProfileAttributes(), _FACTS)


# -- comparisons

STATES = ("within", "exceeded", "inconclusive")
SAME = ("steps.period_ns:3%", "overview.window_ns:3%", "overview.kernel_sum_ns:3%")
"""Limits that nothing but noise is set against."""

SEEN: Mapping[str, tuple[str, frozenset[tuple[str, str]]]] = {
    KERNEL: ("kernels.per_step_ns:3%", frozenset({("kernel", _NAMES[_SLOWER])})),
    # The call of a copy of pageable memory lasts as long as this.
    COPIES: (
        "transfers.per_step_ns:3%",
        frozenset({("copy", "HtoD"), ("copy", "DtoH"), ("call", "cudaMemcpyAsync")}),
    ),
    # The GPU is idle meanwhile.
    ALLOCATIONS: (
        "api_vs_kernel.per_step_ns:3%", frozenset({("call", "cudaMalloc"), ("idle", "cudaMalloc")})
    ),
    GAP: ("overview.idle_ns:3%", frozenset({("idle", "load batch")})),
    TWICE: ("kernels.kernel_count:0", frozenset(("kernel", _NAMES[i]) for i in range(0, KERNELS, 10))),
}  # fmt: skip
"""By what is planted the limit that it exceeds, and kind and name of the contributors that it is."""

_LIMITS = (*SAME, *(limit for limit, _ in SEEN.values()))
_OPTIONS = DiffOptions(reports=["contributors"], fail_on=_LIMITS)
_REPORTS = ("kernels", "transfers", "api_vs_kernel", "idle_host", "steps", "overview")


class Outcome(NamedTuple):
    """Hold what one comparison says: the states of limits, and the first contributor that is certain."""

    states: Mapping[str, str]
    first: tuple[str, str] | None


class Pool:
    """Hold recorded runs of a program, from which comparisons draw."""

    def __init__(
        self, stack: ExitStack, random: Random, spread: float, planted: Planted, runs: int
    ) -> None:
        """Write so many runs into a store, open it for as long as the stack is open, and ask each run."""
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        path, name = folder / "runs.db", f"{planted} {spread}"
        with writing(path) as writer:
            for run in range(runs):
                # Different texts in place of hashes: no run is a copy of another one.
                origin = Origin(f"run {run}", "simulated", "", f"{name} {run}", f"{name} {run}")
                recording = Recording(batches(random, spread, planted))
                writer.add([recording], origin, lambda table, count: None)
        self.profiles = open_all(path, None, stack)
        self.answers = {
            # As `api.compare` asks them, but once.
            profile: diffing._answers(profile, _REPORTS, _OPTIONS, with_samples=False)
            for profile in self.profiles
        }

    def draw(self, random: Random, count: int) -> list[api.OpenProfile]:
        """Return so many different runs."""
        return [self.profiles[i] for i in random.permutation(len(self.profiles))[:count]]


def compared(
    base: Sequence[api.OpenProfile],
    other: Sequence[api.OpenProfile],
    answers: Mapping[api.OpenProfile, comparison.ProfileAnswers],
) -> Outcome:
    """Return what is said of these runs."""
    sides = (diffing.Side(tuple((profile,) for profile in runs)) for runs in (base, other))
    judged = comparison.judge(diffing._asked((next(sides), next(sides)), answers, _OPTIONS, None))
    limits = diffing._limits(_OPTIONS, None)
    result = diffing._result(judged, ["contributors"], _OPTIONS, limits)
    contributors, verdicts = result.reports
    certain = [row for row in contributors.rows() if row["certain"] == "yes"]
    first = (certain[0]["kind"], certain[0]["name"]) if certain else None
    return Outcome({row["limit"]: row["state"] for row in verdicts.rows()}, first)


# -- rates


@dataclass(frozen=True)
class Unchanged:
    """Hold how often a limit is within, exceeded and undecided where nothing changed."""

    spread: float
    limit: str
    shares: Mapping[str, float]


@dataclass(frozen=True)
class Found:
    """Hold how often a planted change exceeded its limit, and was the first cause named, or none was."""

    spread: float
    planted: Planted
    exceeded: float
    named: float
    none: float

    @property
    def words(self) -> str:
        """Return what was planted, in words."""
        slower = self.planted.slower - 1
        return self.planted.what + (f", +{_percent(slower)}" if slower > 0 else "")


PLANTED = (
    *(Planted(what, 1 + more) for what in (KERNEL, COPIES, ALLOCATIONS, GAP) for more in CHANGES),
    Planted(TWICE),
)


@dataclass(frozen=True)
class Simulated:
    """All rates, and how many comparisons they are of.

    `certain` is by spread how often a contributor was certain though nothing changed.
    """

    unchanged: Sequence[Unchanged]
    certain: Mapping[float, float]
    found: Sequence[Found]
    comparisons: tuple[int, int]


def simulated(
    unchanged: int = UNCHANGED_COMPARISONS, planted: int = PLANTED_COMPARISONS
) -> Simulated:
    """Compare so often without a change, and so often with each of those planted, at each spread."""
    same: list[Unchanged] = []
    certain: dict[float, float] = {}
    found: list[Found] = []
    for number, spread in enumerate(SPREADS):
        with ExitStack() as stack:
            random = np.random.default_rng([SEED, number])
            base = Pool(stack, random, spread, Planted(), max(unchanged, 2 * RUNS))
            drawn = [base.draw(random, 2 * RUNS) for _ in range(unchanged)]
            said = [compared(runs[:RUNS], runs[RUNS:], base.answers) for runs in drawn]
            same += _unchanged(spread, said)
            certain[spread] = sum(outcome.first is not None for outcome in said) / len(said)
            for change in PLANTED:
                with ExitStack() as inner:
                    found.append(_found(inner, random, base, spread, change, planted))
    return Simulated(same, certain, found, (unchanged, planted))


def _unchanged(spread: float, said: Sequence[Outcome]) -> Iterator[Unchanged]:
    for limit in SAME:
        counts = Counter(outcome.states[limit] for outcome in said)
        yield Unchanged(spread, limit, {state: counts[state] / len(said) for state in STATES})


def _found(
    stack: ExitStack, random: Random, base: Pool, spread: float, planted: Planted, count: int
) -> Found:
    other = Pool(stack, random, spread, planted, max(count, RUNS))
    answers = {**base.answers, **other.answers}
    said = [compared(base.draw(random, RUNS), other.draw(random, RUNS), answers) for _ in range(count)]
    limit, names = SEEN[planted.what]
    return Found(
        spread,
        planted,
        sum(outcome.states[limit] == "exceeded" for outcome in said) / count,
        sum(outcome.first in names for outcome in said) / count,
        sum(outcome.first is None for outcome in said) / count,
    )


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


# -- bars

MOST_EXCEEDED, MOST_CERTAIN, LEAST_FOUND, LARGE = 0.01, 0.05, 0.95, 1.1
# The rate of so few comparisons is this far from the interval's own at most.
_FAR = 0.15

MISSED: Mapping[str, str] = {
    f"{GAP}, +10 %, ±2 %": "what is certain is so among some 50 contributors: a limit alone sees more",
}
"""Bars that are known to be missed, by what they are of, and why."""


def missed(result: Simulated, within: Mapping[float, float]) -> Iterator[tuple[str, str]]:
    """Yield the bars that are missed: of what, and how; `within` is the interval's own rate by spread."""
    for each in result.unchanged:
        what = f"{each.limit}, ±{_percent(each.spread)}"
        if each.shares["exceeded"] > MOST_EXCEEDED:
            yield what, f"exceeded {each.shares['exceeded']:.2f}"
        if each.shares["within"] < within[each.spread] - _FAR:
            yield what, f"within {each.shares['within']:.2f}, the interval {within[each.spread]:.2f}"
    for spread, rate in result.certain.items():
        if rate > MOST_CERTAIN:
            yield f"nothing changed, ±{_percent(spread)}", f"certain {rate:.2f}"
    for found in result.found:
        if found.planted.what != TWICE and found.planted.slower < LARGE - 1e-9:
            continue
        for word, rate in (("exceeded", found.exceeded), ("named", found.named)):
            if rate < LEAST_FOUND:
                yield f"{found.words}, ±{_percent(found.spread)}", f"{word} {rate:.2f}"


def unexpected(result: Simulated, within: Mapping[float, float]) -> list[str]:
    """Return the bars that are missed and not known to be, in words."""
    return [f"{what}: {how}" for what, how in missed(result, within) if what not in MISSED]


# -- the section of the page

TEXT = f"""\
## Whole comparisons

Made-up programs, stored and compared as `diff` does (`benchmarks/simulated_gate.py`). In each of
{STEPS} annotated steps the host loads a batch, allocates {_MALLOCS} times, copies from pinned and from
pageable memory, launches {KERNELS} kernels of 12 to 300 µs, copies back, and waits. *±1 %* and *±2 %*:
all times of a run vary together by that. Beside it each kernel varies from run to run by 0.5 to 2 %,
each event on the GPU by 2 %, on the host by 5 %. Each side has {RUNS} runs, drawn for each comparison
from as many runs as there are comparisons.

Nothing changed. *Exceeded* has to be 0.01 at most, and *within* at least the rate of the interval (that
of *white, 5:5* above) less 0.15; in 0.05 of comparisons at most a contributor is certain.
"""
FOUND_TEXT = """\
One thing changed: the time of one kernel, of all copies, of all allocations, or of the loading of a batch
(*a gap*); or every 10th kernel is launched twice. *Exceeded*: its limit is. *Named*: it is the first
contributor that is certain; *none*: none is certain. From +10 % on both have to be 0.95 at least.
"""


def section(result: Simulated, within: Mapping[float, float]) -> Iterator[str]:
    """Yield the lines of the section of the page."""
    unchanged, planted = result.comparisons
    yield from (*TEXT.splitlines(), "")
    yield "| limit | runs | comparisons | within | exceeded | inconclusive | within, interval |"
    yield "|---|---|---:|---:|---:|---:|---:|"
    for each in result.unchanged:
        shares = " | ".join(f"{each.shares[state]:.2f}" for state in STATES)
        runs = f"±{_percent(each.spread)}"
        yield f"| `{each.limit}` | {runs} | {unchanged} | {shares} | {within[each.spread]:.2f} |"
    certain = (f"{rate:.2f} at ±{_percent(spread)}" for spread, rate in result.certain.items())
    yield from ("", f"A contributor was certain in {', '.join(certain)}.")
    yield from ("", *FOUND_TEXT.splitlines(), "")
    yield "| planted | limit | runs | comparisons | exceeded | named | none |"
    yield "|---|---|---|---:|---:|---:|---:|"
    for found in result.found:
        rates = " | ".join(f"{rate:.2f}" for rate in (found.exceeded, found.named, found.none))
        runs = f"±{_percent(found.spread)}"
        yield f"| {found.words} | `{SEEN[found.planted.what][0]}` | {runs} | {planted} | {rates} |"
    rows = [f"| {what} | {how} | {MISSED.get(what, '')} |" for what, how in missed(result, within)]
    yield from ("", "Missed:", "", "| of | is | why |", "|---|---|---|", *rows) if rows else ()
