"""Rates of operators: operations and bytes for each second of the GPU, and their share of a peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsysconv.errors import UsageError
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.queries.columns import (
    PROFILE,
    RANK,
    count_column,
    duration_column,
    key_column,
    ranks_by_group,
    rows_at,
    sum_column,
)
from nsysconv.queries.contract import Array, Option, Request, Result, View
from nsysconv.queries.operator_groups import not_recorded
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import counts, factorize, percent, sums
from nsysconv.timeline.flop import (
    flop_of_calls,
    operand_bytes_of_calls,
    time_of_calls,
    uncounted,
)
from nsysconv.timeline.operator_calls import OperatorCalls, input_shapes, operator_calls
from nsysconv.timeline.peaks import KINDS, Peaks, common_peaks, kinds_of_calls
from nsysconv.timeline.timeline import Timeline

RATES = Option(
    "rates",
    False,
    "Only calls with a known number of operations, by name, shapes and types: bytes, rates and "
    "intensity.",
)
PEAK_FLOP = Option(
    "peak_flop_per_s",
    0.0,
    "Peak operations per second (989e12), for shares of peak; 0: the device's peak for the data types "
    "of each row.",
)
_PEAK_BYTES = Option(
    "peak_bytes_per_s",
    0.0,
    "Peak memory bandwidth in bytes per second (3.35e12), for shares of peak; 0: the device's own.",
)
RATES_OPTIONS = (RATES, PEAK_FLOP, _PEAK_BYTES)
"""The options of rates."""


RATES_VIEW = View(
    title="Rates of operators",
    columns=(
        PROFILE,
        RANK,
        key_column("name", "The operator, without its overload."),
        key_column("shapes", "Shapes of its inputs, a list of tensors as []."),
        key_column("types", "Types of its tensors, of one type once; null: not recorded."),
        count_column(
            "call_count", "Calls, of which none has another with known operations inside."
        ),
        duration_column(
            "device_union_sum_ns",
            "Time with any GPU operation launched in the operator or in operators inside running, "
            "summed over calls: the time behind its rates.",
            adds=True,
        ),
        Column(
            "flop_per_s",
            Unit.FLOP_PER_S,
            "Floating-point operations for each second of that time.",
            better="more",
        ),
        Column(
            "peak_flop_pct",
            Unit.PCT,
            "`flop_per_s` of the peak: the one that was given, else `peak_flop_per_s`.",
            optional=True,
            better="more",
        ),
        Column(
            "peak_kind",
            Unit.TEXT,
            "Kind of that peak: type, and whether with Tensor Cores; given; null: not known.",
            optional=True,
        ),
        Column(
            "peak_flop_per_s",
            Unit.FLOP_PER_S,
            "That peak, dense; null: not known for this device or type.",
            brief=False,
            optional=True,
        ),
        Column("flop_per_byte", Unit.REAL, "Arithmetic intensity: operations for each byte."),
        Column(
            "operand_throughput_bytes_per_s",
            Unit.BYTES_PER_S,
            "Bytes of the operands for each second of that time.",
            better="more",
        ),
        Column(
            "peak_bytes_pct",
            Unit.PCT,
            "`operand_throughput_bytes_per_s` of the peak that was given, else of the device's memory.",
            optional=True,
            better="more",
        ),
        count_column("flop_sum", "Floating-point operations of the calls.", brief=False),
        sum_column(
            "operand_bytes_sum",
            "Inputs and outputs of the calls, each once; null: not known.",
            "call_count",
            unit=Unit.BYTES,
            brief=False,
        ),
        Column(
            "flop_per_s_med",
            Unit.FLOP_PER_S,
            "Median of the calls' own rates.",
            better="more",
            brief=False,
        ),
    ),
)
_GIVEN = "given"
MOST_SUM = 1 << 62
"""Sums above this are not given: they may be more than an integer holds."""


def check_options(declared: Sequence[Option], options: Mapping[str, Any]) -> None:
    """Raise UsageError for options of `operators` that mean nothing together with rates, or without."""
    for peak in (PEAK_FLOP, _PEAK_BYTES):
        if options[peak.name] and not options["rates"]:
            hint = f"operators:rates:{peak.name}=…"
            raise UsageError(f"operators:{peak.name} without rates", hint=hint)
        check_peak("operators", peak.name, options[peak.name])
    others = (option for option in declared if option not in RATES_OPTIONS)
    for option in others:
        if options["rates"] and options[option.name] != option.default:
            hint = "Rates are by name, shapes and types, of all calls."
            raise UsageError(f"operators:rates with {option.name}", hint=hint)


def check_peak(report: str, name: str, value: float) -> None:
    """Raise UsageError for a peak below zero."""
    if value < 0:
        raise UsageError(f"{report}:{name}={value:g}", hint="A peak is above zero, as in 989e12.")


def rates(timeline: Timeline, request: Request) -> Result:
    """Return one row per operator, shapes and types, those with most time on the GPU first.

    Of calls whose operations are known. Raises NotRecorded where no shapes are.
    """
    calls = operator_calls(timeline)
    shapes_of_calls, shape_texts = input_shapes(timeline, calls.asked)
    if not shape_texts:
        raise not_recorded(timeline, "operators:rates", Fact.INPUT_SHAPES)
    flop = flop_of_calls(timeline, calls)
    shown = np.flatnonzero((flop != MISSING) & timeline.holds(calls.spans))
    name, shapes = calls.spans.name[shown], shapes_of_calls[shown]
    types, type_texts = _types(timeline, calls)
    group, (names, shape_numbers, type_numbers) = factorize(name, shapes, types[shown])
    count = len(names)
    known = Fact.API_LINKS in timeline.profile.facts
    time = time_of_calls(timeline, calls, flop)[shown] if known else np.zeros(len(shown), np.int64)
    work = _Work(flop[shown], operand_bytes_of_calls(timeline, calls, flop != MISSING)[shown], time)
    values: dict[str, Any] = {
        "rank": ranks_by_group(timeline, calls.spans.pid[shown], group, count),
        "name": [calls.spans.names[i] for i in names.tolist()],
        "shapes": [shape_texts[i] for i in shape_numbers.tolist()],
        "types": [None if i == MISSING else type_texts[i] for i in type_numbers.tolist()],
        "call_count": counts(group, count),
        **work.by_group(group, count),
        "device_union_sum_ns": sums(group, time, count) if known else [None] * count,
    }
    known_peaks = common_peaks(timeline)
    values |= _peaks(request, known_peaks, count)
    if known_peaks is not None and not request.options[PEAK_FLOP.name]:
        kind = kinds_of_calls(timeline, calls, flop != MISSING, known_peaks)[shown]
        values |= _own_peaks(kind, group, known_peaks, count)
    notes = [uncounted_note(uncounted(timeline, calls, flop)[1])]
    for share, rate, peak in (
        ("peak_flop_pct", "flop_per_s", PEAK_FLOP.name),
        ("peak_bytes_pct", "operand_throughput_bytes_per_s", _PEAK_BYTES.name),
    ):
        pairs = zip(values[rate], values[peak], strict=True)
        values[share] = [float(percent(a, b)) if a is not None and b else None for a, b in pairs]
        notes.append(above_note(values[share], peak))
    if not all(request.options[peak.name] for peak in (PEAK_FLOP, _PEAK_BYTES)):
        notes.append(peaks_note(timeline))
    del values[_PEAK_BYTES.name]
    spent, texts = sums(group, time, count).tolist(), (values["name"], values["shapes"])
    order = sorted(
        range(count),
        key=lambda i: (-spent[i], *(text[i] for text in texts), values["types"][i] or ""),
    )
    return Result(rows_at(values, order), notes=tuple(note for note in notes if note.count))


@dataclass(frozen=True)
class _Work:
    # The calls have floating-point operations. Each has their number, the bytes of its operands
    # (MISSING: not known), and its time on the GPU (0: not known).
    flop: Array
    moved: Array
    time: Array

    def by_group(self, group: Array, count: int) -> dict[str, Any]:
        """Return what groups of calls did, and how fast."""
        has_bytes, timed = self.moved != MISSING, self.time > 0
        both = has_bytes & timed
        moved = np.where(has_bytes, self.moved, 0)

        def total(values: Array, which: Array) -> Array:
            return np.bincount(group, np.where(which, values, 0).astype(float), count)

        own = np.full(len(self.time), np.nan)
        own[timed] = 1e9 * self.flop[timed] / self.time[timed]
        return {
            "flop_sum": known_sums(group, self.flop, np.ones(len(group), np.int64), count),
            "flop_per_s": per_second(total(self.flop, timed), total(self.time, timed)),
            "flop_per_s_med": _medians(group[timed], own[timed], count),
            "flop_per_byte": _ratio(total(self.flop, has_bytes), total(moved, has_bytes)),
            "operand_bytes_sum": known_sums(group, moved, has_bytes.astype(np.int64), count),
            "operand_throughput_bytes_per_s": per_second(
                total(moved, both), total(self.time, both)
            ),
        }


def _types(timeline: Timeline, calls: OperatorCalls) -> tuple[Array, tuple[str, ...]]:
    # Per node a number, MISSING for none, and the texts by number.
    place, (ids,) = factorize(calls.column(timeline, "types_id"))
    names = timeline.profile.names(ids[ids != MISSING])
    numbers: dict[str, int] = {}
    texts = [_shown_types(names[i]) if i in names else None for i in ids.tolist()]
    number = [MISSING if text is None else numbers.setdefault(text, len(numbers)) for text in texts]
    return np.array(number, np.int64)[place], tuple(numbers)


def _shown_types(text: str) -> str:
    # `["float", "c10::Half", "Scalar"]` as `float, Half`: what is no tensor has a capital.
    types = [each.strip().strip('"') for each in text.strip("[]").split(",")]
    tensors = [each.removeprefix("c10::") for each in types if each[:1].islower()]
    return ", ".join(tensors[: 1 if len(set(tensors)) == 1 else None])


def _peaks(request: Request, peaks: Peaks | None, count: int) -> dict[str, list[Any]]:
    # The peaks that were given, else the device's of its memory.
    flop, moved = request.options[PEAK_FLOP.name], request.options[_PEAK_BYTES.name]
    own = None if peaks is None else peaks.bytes_per_s
    return {
        "peak_kind": [_GIVEN if flop else None] * count,
        PEAK_FLOP.name: [flop or None] * count,
        _PEAK_BYTES.name: [moved or own] * count,
    }


def _own_peaks(kind: Array, group: Array, peaks: Peaks, count: int) -> dict[str, list[Any]]:
    # A row of calls of several kinds has the highest peak, which none exceeds.
    order = tuple(KINDS)
    best: list[str | None] = [None] * count
    for row, place in sorted(set(zip(group.tolist(), kind.tolist(), strict=True))):
        if place >= 0:
            both = [each for each in (best[row], order[place]) if each is not None]
            best[row] = max(both, key=lambda each: peaks.flop_per_s[each])
    return {
        "peak_kind": [None if each is None else KINDS[each] for each in best],
        PEAK_FLOP.name: [None if each is None else peaks.flop_per_s[each] for each in best],
    }


def peaks_note(timeline: Timeline) -> Note:
    """Return the note on which device's peaks shares are of, and where these are from; or on none."""
    peaks = common_peaks(timeline)
    names = {row["name"] or "a device without a name" for row in timeline.profile.rows("device")}
    devices = ", ".join(sorted(names)) or "the device"
    if peaks is None:
        text = f"no peak is known for {devices}, so there are no shares of it"
        return Note("peak-unknown", Severity.INFO, text)
    return Note("peak-used", Severity.INFO, f"shares are of the peaks of {devices}: {peaks.source}")


def above_note(shares: Sequence[float | None], peak: str) -> Note:
    """Return the note on shares above 100 % of a peak; `peak` is its name."""
    text = f"rates are above {peak}: it is for another type or clock, or less was done than counted"
    known = [each for each in shares if each is not None]
    above = sum(each > 100 for each in known)
    return Note("rate-above-peak", Severity.INFO, text, above, of=len(known))


def uncounted_note(which: Array) -> Note:
    """Return the note on kernels that no formula counts, of those that do such work; `which` are they."""
    text = (
        "matmul, convolution or attention kernels in no operation count: their operator is unknown, has"
        " no formula, or has no recorded input shapes and values"
    )
    count = int(np.count_nonzero(which))
    return Note("operations-unknown", Severity.INFO, text, count, of=len(which))


def known_sums(group: Array, values: Array, known: Array, count: int) -> list[int | None]:
    """Return the sums by group, None where `known`, a count, is 0, and above MOST_SUM."""
    some, found = sums(group, known, count), sums(group, values, count)
    # As doubles, too: made-up shapes may add up to more than an integer holds.
    about = np.bincount(group, values.astype(float), count)
    return [
        total if n and near < MOST_SUM else None
        for total, n, near in zip(found.tolist(), some.tolist(), about.tolist(), strict=True)
    ]


def per_second(done: Array, ns: Array) -> list[float | None]:
    """Return what was done in each second, None where no time was spent."""
    return [None if each is None else 1e9 * each for each in _ratio(done, ns)]


def _ratio(part: Array, whole: Array) -> list[float | None]:
    pairs = zip(part.tolist(), whole.tolist(), strict=True)
    return [each / by if by else None for each, by in pairs]


def _medians(group: Array, values: Array, count: int) -> Array:
    order = np.lexsort((values, group))
    ordered, size = values[order], counts(group, count)
    first = np.cumsum(size) - size
    some = size > 0
    result = np.full(count, np.nan)
    low, high = ((first + places)[some] for places in (np.maximum(size - 1, 0) // 2, size // 2))
    result[some] = (ordered[low] + ordered[high]) / 2
    return result
