"""Measure in simulated runs how often `history` finds a change, and a gate on the last 20 runs decides.

python benchmarks/history_power.py             all tables (minutes)
python benchmarks/history_power.py --critical  the critical values of diff/change_points.py, anew
python benchmarks/history_power.py --otava     points that Apache Otava (apache-otava 0.8) finds

A series has 200 runs. Its noise is white; depends on the run before (correlation 0.5); or one run in 20
takes 20 % more. A gate compares the last 20 runs with one or several new ones, of white noise.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from statistics import NormalDist, fmean

import numpy as np

from nsysconv.diff import gate
from nsysconv.diff.change import change_of
from nsysconv.diff.change_points import LEAST_SEGMENT, change_points, split_statistics
from nsysconv.report import Column, Unit

Array = np.ndarray
Random = np.random.Generator

RUNS, SERIES = 200, 400
SEED = 5
STEPS = (0.02, 0.05, 0.10)
COMPARISONS = 4_000
BASE_RUNS = 20
_CORRELATION = 0.5
# So many orders of so many ranks are drawn.
_ORDERS = {14: 60_000, 20: 60_000, 30: 60_000, 40: 40_000, 60: 40_000, 100: 20_000, 200: 10_000}


def _white(random: Random) -> Array:
    return random.standard_normal(RUNS)


def _correlated(random: Random) -> Array:
    pushes, values = random.standard_normal(RUNS + 50), np.zeros(RUNS + 50)
    for i in range(1, len(values)):
        values[i] = _CORRELATION * values[i - 1] + (1 - _CORRELATION**2) ** 0.5 * pushes[i]
    return values[50:]


NOISES: dict[str, Callable[[Random], Array]] = {
    "white": _white,
    "correlated": _correlated,
    "bursts": _white,
}


def series(random: Random, noise: str, spread: float) -> Array:
    """Return the values of unchanged runs around 1."""
    values = np.exp(spread * NOISES[noise](random))
    return values * np.where(random.random(RUNS) < 0.05, 1.2, 1) if noise == "bursts" else values


def otava(values: Array) -> list[int]:
    """Return the points of a published E-divisive, which tests splits of windows by Student's t."""
    from otava.analysis import compute_change_points  # type: ignore[import-not-found]

    return [point.index for point in compute_change_points(values.tolist(), 50, 0.001)[0]]


def found_changes(count: int, find: Callable[[Array], list[int]] = change_points) -> Iterator[str]:
    """Yield rows of a table: shares of series with a false point, and of steps found."""
    yield "| noise | false | " + " | ".join(f"+{s:.0%}: within 1, 5 runs" for s in STEPS) + " |"
    for spread in (0.01, 0.02):
        for noise in NOISES:
            random = np.random.default_rng(SEED)
            false = np.mean([bool(find(series(random, noise, spread))) for _ in range(count)])
            cells = [f"{spread:.0%} {noise}", f"{false:.3f}"]
            for step in STEPS:
                near = np.zeros(2)
                for _ in range(count):
                    values, place = series(random, noise, spread), int(random.integers(20, RUNS - 20))
                    values[place:] *= 1 + step
                    points = find(values)
                    near += [any(abs(p - place) <= far for p in points) for far in (1, 5)]
                cells.append(", ".join(f"{share:.2f}" for share in near / count))
            yield f"| {' | '.join(cells)} |"


def other_histories(count: int) -> Iterator[str]:
    """Yield what becomes of a slow drift, of a stretch of slow runs, and of a step just recorded."""
    random, drift = np.random.default_rng(SEED), np.linspace(1, 1.05, RUNS)
    counts = [len(change_points(series(random, "white", 0.01) * drift)) for _ in range(count)]
    yield f"drift of 5 % over {RUNS} runs: {np.mean(counts):.1f} points, {min(counts)} at least"
    for length in (6, 10, 20):
        both = 0
        for _ in range(count):
            values, place = series(random, "white", 0.01), int(random.integers(20, RUNS - 50))
            values[place : place + length] *= 1.05
            points = change_points(values)
            both += all(any(abs(p - e) <= 1 for p in points) for e in (place, place + length))
        yield f"{length} runs that take 5 % more: both ends within one run {both / count:.2f}"
    for behind in (5, 6, 8, 10):
        seen = 0
        for _ in range(count):
            values = series(random, "white", 0.01)
            values[-behind:] *= 1.05
            seen += any(abs(p - (RUNS - behind)) <= 1 for p in change_points(values))
        yield f"a step of 5 % with {behind} runs behind it: found {seen / count:.2f}"


def gate_on_last_runs(count: int) -> Iterator[str]:
    """Yield rows of a table: how a limit of 3 % judges the same program, and a program 5 % slower.

    Beside it is the best that any rule can reach that is wrong as often, knowing how runs vary.
    """
    yield "| spread | new runs | unchanged: within | exceeded | +5 %: exceeded | at best: within, +5 % |"
    column = Column("sum_ns", Unit.NS, "A time.", better="less", real=True)
    limit = gate.Limit("report", None, column.name, 3, "share", "3%")
    normal = NormalDist()
    for spread in (0.01, 0.02):
        random = np.random.default_rng(SEED)
        for new in (1, 2, 3, 5):
            states: dict[float, Counter[str]] = {}
            for step in (0.0, 0.05):
                states[step] = Counter()
                for _ in range(count):
                    values = np.exp(spread * random.standard_normal(BASE_RUNS + new))
                    base, other = values[:BASE_RUNS].tolist(), ((1 + step) * values[BASE_RUNS:]).tolist()
                    change = change_of(column, base, other, noise=None)
                    row = gate.LimitRow("", fmean(base), fmean(other), change)
                    states[step][gate.judge_limit(limit, column, [row]).state] += 1
            counts = states[0.0]["within"], states[0.0]["exceeded"], states[0.05]["exceeded"]
            error = spread * math.sqrt(1 / BASE_RUNS + 1 / new)
            best = (normal.cdf(math.log(1 + s) / error - normal.inv_cdf(0.975)) for s in (0.03, 0.05))
            cells = [f"{spread:.0%}", str(new), *(f"{n / count:.3f}" for n in counts)]
            yield f"| {' | '.join(cells)} | {', '.join(f'{share:.2f}' for share in best)} |"


def critical_values() -> Iterator[str]:
    """Yield by the number of ranks the statistic that 0.1 % of their orders exceed."""
    random = np.random.default_rng(SEED)
    for count, orders in _ORDERS.items():
        inner = slice(LEAST_SEGMENT - 1, count - LEAST_SEGMENT)
        greatest = [
            split_statistics(random.permutation(count).astype(float))[inner].max()
            for _ in range(orders)
        ]
        yield f"{count:>4} {np.quantile(greatest, 0.999):.2f}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--critical", action="store_true", help="the critical values alone")
    parser.add_argument("--otava", action="store_true", help="changes that Apache Otava finds, alone")
    parser.add_argument("--series", type=int, default=SERIES, help="series per row")
    parser.add_argument("--comparisons", type=int, default=COMPARISONS, help="comparisons per row")
    asked = parser.parse_args()
    if asked.critical or asked.otava:
        lines = critical_values() if asked.critical else found_changes(asked.series, otava)
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return
    for lines in (
        found_changes(asked.series),
        other_histories(asked.series),
        gate_on_last_runs(asked.comparisons),
    ):
        for line in lines:
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()
        sys.stdout.write("\n")


if __name__ == "__main__":
    main()
