"""Rates of operators: operations and bytes for each second of the GPU, and their share of a peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nsysconv.errors import UsageError
from nsysconv.notes import Note, Severity
from nsysconv.queries.columns import count_column, duration_column
from nsysconv.queries.contract import Array, Option
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import counts, percent, sums
from nsysconv.timeline.flop import operand_bytes_of_calls, uncounted
from nsysconv.timeline.operator_calls import OperatorCalls
from nsysconv.timeline.timeline import Timeline

PEAK_FLOP = Option(
    "peak_flop_per_s",
    0.0,
    "Operations per second that the GPU can do (989e12), for shares of it; 0: no shares.",
)
RATES = Option(
    "rates",
    False,
    "Calls whose operations are known, and no others, with bytes, rates and intensity; by default by "
    "name, shapes and types.",
)
OPTIONS = (
    RATES,
    PEAK_FLOP,
    Option(
        "peak_bytes_per_s",
        0.0,
        "Bytes per second that the GPU's memory can move (3.35e12), for shares of it; 0: no shares.",
    ),
)
"""The options of rates. No peak is known here: it depends on types, clocks and the model's form."""


def _asked(name: str, unit: Unit, doc: str) -> Column:
    return Column(name, unit, doc, better="more", brief=False, optional=True)


_ASKED = (
    replace(
        duration_column(
            "device_union_sum_ns",
            "Union of the GPU operations launched in it and in operators inside, by call, added up: the "
            "time of its rates.",
            leads=3,
            adds=True,
        ),
        optional=True,
    ),
    _asked("peak_flop_pct", Unit.PCT, "`flop_per_s` of the peak that was given."),
    Column(
        "flop_per_byte",
        Unit.REAL,
        "Arithmetic intensity: operations for each byte of the operands.",
        brief=False,
        optional=True,
    ),
    _asked(
        "operand_throughput_bytes_per_s",
        Unit.BYTES_PER_S,
        "Bytes of the operands for each second of that time.",
    ),
    _asked(
        "peak_bytes_pct",
        Unit.PCT,
        "`operand_throughput_bytes_per_s` of the peak that was given.",
    ),
    Column(
        "operand_bytes_sum",
        Unit.BYTES,
        "Inputs and outputs of the calls, each once; null: not known.",
        adds=True,
        brief=False,
        optional=True,
    ),
    _asked("flop_per_s_med", Unit.FLOP_PER_S, "Median of the calls' own rates."),
)
COLUMNS = (
    count_column(
        "flop_sum",
        "Floating-point operations of the calls, and of those inside, from the shapes of inputs; null: "
        "there is no formula, or shapes are not recorded.",
        brief=False,
    ),
    Column(
        "flop_per_s",
        Unit.FLOP_PER_S,
        "These, for each second in which GPU operations of the calls that do them ran.",
        better="more",
        brief=False,
    ),
    *_ASKED,
)
"""Columns of operators: two that are always there, and those that are only there with rates."""

BRIEF = frozenset(
    {
        *("rank", "name", "shapes", "types", "stack", "module", "call_count"),
        *(column.name for column in COLUMNS),
    }
) - {"flop_sum", "operand_bytes_sum", "flop_per_s_med"}
"""The columns that people see of rates where there is little room."""

MOST_SUM = 1 << 62
"""Sums above this are not given: they may be more than an integer holds."""


def check(options: Mapping[str, Any]) -> None:
    """Raise UsageError for peaks that mean nothing, or without the rates that they are for."""
    for name in (option.name for option in OPTIONS[1:]):
        if options[name] and not options["rates"]:
            raise UsageError(f"operators:{name} without rates", hint=f"operators:rates:{name}=…")
        check_peak("operators", name, options[name])


def check_peak(report: str, name: str, value: float) -> None:
    """Raise UsageError for a peak below zero."""
    if value < 0:
        raise UsageError(f"{report}:{name}={value:g}", hint="A peak is above zero, as in 989e12.")


def not_asked(count: int) -> dict[str, Any]:
    """Return the columns that only rates have, without values."""
    return {column.name: [None] * count for column in _ASKED}


def flop_sums(
    calls: OperatorCalls, flop: Array, shown: Array, group: Array, count: int
) -> list[int | None]:
    """Return the operations of groups of nodes, and of what is inside; None where none has a formula."""
    return _known_sums(
        calls.with_nested(np.where(flop == MISSING, 0, flop))[shown],
        calls.with_nested((flop != MISSING).astype(np.int64))[shown],
        group,
        count,
    )


def flop_rates(
    calls: OperatorCalls, flop: Array, spent: Array, shown: Array, group: Array, count: int
) -> list[float | None]:
    """Return the operations per second of groups of nodes, and of what is inside.

    `spent` is the time of each node that has operations, 0 for none; None where no time is known.
    """
    timed = (flop != MISSING) & (spent > 0)
    time = sums(group, calls.with_nested(np.where(timed, spent, 0))[shown], count)
    each = calls.with_nested(np.where(timed, flop, 0).astype(float))[shown]
    return _per_second(np.bincount(group, each, count), time)


def rates(
    timeline: Timeline,
    calls: OperatorCalls,
    flop: Array,
    spent: Array | None,
    grouping: tuple[Array, Array, int],
    options: Mapping[str, Any],
) -> tuple[dict[str, Any], tuple[Note, ...]]:
    """Return the columns that only rates have, and what has to be said of them.

    Of nodes that all have operations. `grouping` is these, the group of each, and how many groups there
    are; `spent` is as in `flop_rates`, None where nothing is known of the GPU.
    """
    shown, group, count = grouping
    mask = np.zeros(len(flop), bool)
    mask[shown] = True
    moved = operand_bytes_of_calls(timeline, calls, mask)[shown]
    known, done = moved != MISSING, flop[shown]
    in_bytes = np.where(known, moved, 0)
    values = not_asked(count) | {
        "operand_bytes_sum": _known_sums(in_bytes, known.astype(np.int64), group, count),
        "flop_per_byte": _ratio(_total(group, np.where(known, done, 0), count),
                                _total(group, in_bytes, count)),
    }  # fmt: skip
    notes = [uncounted_note(uncounted(timeline, calls, flop)[1])]
    if spent is not None:
        time = spent[shown]
        timed = time > 0
        both = known & timed
        values |= {
            "device_union_sum_ns": sums(group, time, count),
            "flop_per_s_med": _medians(group[timed], 1e9 * done[timed] / time[timed], count),
            "operand_throughput_bytes_per_s": _per_second(_total(group, np.where(both, moved, 0), count),
                                               sums(group, np.where(both, time, 0), count)),
        }  # fmt: skip
        reached = {
            "peak_flop_pct": (flop_rates(calls, flop, spent, *grouping), PEAK_FLOP.name),
            "peak_bytes_pct": (values["operand_throughput_bytes_per_s"], "peak_bytes_per_s"),
        }
        for name, (achieved, peak) in reached.items():
            if options[peak]:
                values[name] = _shares(achieved, options[peak])
                notes.append(_above(values[name], peak))
    return values, tuple(note for note in notes if note.count)


def _shares(achieved: Sequence[float | None], peak: float) -> list[float | None]:
    return [None if each is None else float(percent(each, peak)) for each in achieved]


def _above(shares: Sequence[float | None], peak: str) -> Note:
    text = f"rates are above {peak}: it is that of another type or clock, or less was done than counted"
    known = [each for each in shares if each is not None]
    above = sum(each > 100 for each in known)
    return Note("rate-above-peak", Severity.INFO, text, above, of=len(known))


def uncounted_note(which: Array) -> Note:
    """Return the note on kernels that no formula counts, of those that do such work; `which` are they."""
    text = (
        "kernels of matrix products, convolutions or attention are in no sum of operations: what launched"
        " them is not known, has no formula, or does not say shapes and values of its inputs"
    )
    count = int(np.count_nonzero(which))
    return Note("operations-unknown", Severity.INFO, text, count, of=len(which))


def _medians(group: Array, values: Array, count: int) -> Array:
    order = np.lexsort((values, group))
    ordered, size = values[order], counts(group, count)
    first = np.cumsum(size) - size
    some = size > 0
    result = np.full(count, np.nan)
    low, high = ((first + places)[some] for places in (np.maximum(size - 1, 0) // 2, size // 2))
    result[some] = (ordered[low] + ordered[high]) / 2
    return result


def _known_sums(values: Array, known: Array, group: Array, count: int) -> list[int | None]:
    # The sums by group, None where nothing is known. As doubles, too: made-up shapes may add up to more
    # than an integer holds.
    some, found = sums(group, known, count), sums(group, values, count)
    return [
        total if n and near < MOST_SUM else None
        for total, n, near in zip(
            found.tolist(), some.tolist(), _total(group, values, count).tolist(), strict=True
        )
    ]


def _total(group: Array, values: Array, count: int) -> Array:
    return np.bincount(group, values.astype(float), count)


def _per_second(done: Array, ns: Array) -> list[float | None]:
    return [None if each is None else 1e9 * each for each in _ratio(done, ns)]


def _ratio(part: Array, whole: Array) -> list[float | None]:
    pairs = zip(part.tolist(), whole.tolist(), strict=True)
    return [each / by if by else None for each, by in pairs]
