"""Limits on how much worse a run may be: what `--fail-on METRIC:LIMIT` says, and whether it holds.

A job that builds software has to get a yes or a no, so nothing is rounded on the way to one: numbers
are compared as whole numbers and fractions, floats as the decimals that they are written as.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Literal

from nsysconv.diff.change import Change, Number, undecided_words
from nsysconv.diff.metrics import ESCAPES, METRIC, metric_parts
from nsysconv.errors import UsageError, available_hint
from nsysconv.names import quoted_apart
from nsysconv.report import Column, Report, Unit, human, report_table, scale_for

LimitKind = Literal["share", "points", "absolute"]
State = Literal["within", "exceeded", "inconclusive"]

# This says how much worse a row is, in the unit of the limit. The first element is True if the row
# became worse from 0, which exceeds every share.
_Worsening = tuple[bool, Fraction]

EXCEEDED, INCONCLUSIVE = 1, 4
"""Exit statuses of a comparison with limits that do not all hold."""

# Whatever its limit, a row may become worse by this share of the sum of all rows.
_SLACK = Fraction(2, 1000)
_SHARE, _POINTS = "%", "pp"

# A column's unit determines the units in which a limit may be given. The numbers convert these to the
# column's unit.
_UNITS: Mapping[Unit, Mapping[str, int]] = {
    Unit.NS: {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9},
    Unit.BYTES: {
        "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
    },
    Unit.COUNT: {"": 1},
    Unit.PCT: {_POINTS: 1},
}  # fmt: skip
# Each unit has words for what its columns measure, and examples of limits.
_MEASURES = {
    Unit.NS: ("a time", "a time (2ms, 500us, 10ns, 1s)"),
    Unit.BYTES: ("a number of bytes", "a number of bytes (1MB, 5kB, 1GB, 1MiB, 100B)"),
    Unit.COUNT: ("a count", "a bare number (10)"),
    Unit.PCT: ("a percentage", "percentage points (5pp)"),
    Unit.BYTES_PER_S: ("a throughput", ""),
    Unit.FLOP_PER_S: ("a rate of operations", ""),
    Unit.HZ: ("a clock", ""),
}

# A `:` may stand in the expression, so the expression is taken whole before the limit is looked for.
_METRIC_AND_LIMIT = re.compile(f"{METRIC}:(?P<limit>.*)", re.DOTALL)
_GRAMMAR = (
    "Write METRIC:LIMIT, for example overview.kernel_sum_ns:3% or "
    f"kernels[/gemm/].kernel_sum_ns:2ms; {ESCAPES}"
)
_AMOUNT = re.compile(r"\s*(?P<sign>-?)(?P<number>[0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(?P<unit>\S*)\s*")
# Far more than any quantity has; Python itself refuses some thousands.
_LONGEST = 40


@dataclass(frozen=True)
class Limit:
    """A limit: how much worse a column may be.

    `amount` is in percent of the base (`share`), in percentage points (`points`) or in the column's own
    unit (`absolute`). `pattern` chooses the rows, None all of them. `text` is how the user spelled it,
    `where` the line of the file that it was read from.
    """

    report: str
    pattern: re.Pattern[str] | None
    column: str
    amount: Number
    kind: LimitKind
    text: str
    where: str = ""

    def chooses(self, keys: str) -> bool:
        """Return whether a row of these text keys, joined by a space, is one of its rows."""
        return self.pattern is None or self.pattern.search(keys) is not None


@dataclass(frozen=True)
class LimitRow:
    """A row: its text keys joined by a space, its values, and their change if it has both.

    `parts`: the rows on one side only that it is the sum of; they are judged in its place where it
    exceeds the limit. `place`: its rank and device, where rows differ in these.
    """

    keys: str
    base: Number | None
    other: Number | None
    change: Change | None
    parts: tuple[LimitRow, ...] = ()
    place: str = ""

    @property
    def name(self) -> str:
        """Return what people call it: `gemm`, `gemm, rank 2` or `rank 2`."""
        return ", ".join(filter(None, (self.keys, self.place)))


@dataclass(frozen=True)
class JudgedRow:
    """A row that has both values: how much worse it became, and whether that is within the limit."""

    row: LimitRow
    base: Number
    other: Number
    moved: Change
    unit: Unit
    worsening: _Worsening
    state: State

    @property
    def keys(self) -> str:
        """Return the row's text keys, joined by a space."""
        return self.row.keys

    @property
    def name(self) -> str:
        """Return what people call the row."""
        return self.row.name

    @property
    def change(self) -> Number:
        """Return other minus base."""
        return self.other - self.base


@dataclass(frozen=True)
class LimitVerdict:
    """The state of a limit, why, and the worst of its rows.

    `worst` became worse the most (or better the least) of the rows that exceed, else of those that leave
    the question open; None where no row has both values. `is_void`: nothing was there to be looked at, by
    a slip or a failure, and no more data would help; `has_no_value`: nor has any row a value. `renamed`:
    the names of rows that were set against each other. `exceeding` are all rows that exceed, the worst
    first; `all_of` says what all kernels of the worst one's category came to; `needs_runs` are the runs
    per side that would decide, None where more runs would not. `no_row_in` is the side in which the
    limit's pattern matches no row: "both", or "other", also where all that matches there is 0.
    """

    limit: Limit
    state: State
    reason: str
    worst: JudgedRow | None
    is_void: bool = False
    has_no_value: bool = False
    renamed: tuple[str, ...] = ()
    exceeding: tuple[JudgedRow, ...] = ()
    all_of: str | None = None
    needs_runs: int | None = None
    no_row_in: Literal["both", "other"] | None = None


def parse_limit(text: str, columns: Mapping[str, Sequence[Column]], where: str = "") -> Limit:
    """Parse `METRIC:LIMIT` on one of these reports, of a line `where`; raise UsageError for the rest."""
    match = _METRIC_AND_LIMIT.fullmatch(text)
    try:
        if match is None:
            raise UsageError(f"{text!r} is not a metric and its limit", hint=_GRAMMAR)
        report, name, pattern = metric_parts(match, columns)
        column = _column(report, name, columns[report])
        amount, kind = _amount(match["limit"], report, column)
    except UsageError as error:
        error.where = where
        raise
    return Limit(report, pattern, name, amount, kind, text, where)


def undecided(limit: Limit, reason: str, *, is_void: bool = False) -> LimitVerdict:
    """Return the verdict that nothing can be said of a limit, and why."""
    return LimitVerdict(limit, "inconclusive", reason, None, is_void)


def judge_limit(limit: Limit, column: Column, rows: Sequence[LimitRow] | None) -> LimitVerdict:
    """Judge whether the limit holds in these rows; `rows` None: a side lacks the report.

    A row exceeds the limit if its change is significant, for the worse, and its values differ by more
    than the limit. It is within if all of its interval is. Else it is undecided, as where a value is
    missing; NaN and infinity are no values. The limit is exceeded if a row exceeds it, and holds if all
    rows are within. A row with `parts` that exceeds the limit, or has no values, is judged by these.
    """
    if rows is None:
        return undecided(limit, f"{limit.report} is not recorded on both sides")
    whole = [row for row in rows if row.parts or limit.chooses(row.keys)]
    if not whole:
        void = undecided(limit, _no_row(limit, len(rows)), is_void=True)
        void = replace(void, no_row_in="both" if limit.pattern else None)
        if column.is_counted:
            return replace(void, state="within", reason=f"{void.reason}: 0 on both", is_void=False)
        return void
    least = _least(limit, column, whole)
    chosen = [each for row in whole for each in _fitting(limit, column, row, least)]
    # What has no value on either side is nothing that could become worse, if other rows have one.
    valued = [row for row in chosen if not row.base is row.other is None]
    chosen = valued or chosen
    judged = [m for row in chosen if (m := _judged_row(limit, column, row, least)) is not None]
    without = [row for row in chosen if not (_is_finite(row.base) and _is_finite(row.other))]
    exceeding = [row for row in judged if row.state == "exceeded"]
    unclear = [row for row in judged if row.state == "inconclusive"]
    state: State = "exceeded" if exceeding else "inconclusive" if without or unclear else "within"
    reason = _reason(limit, column, len(chosen), exceeding, unclear, without)
    is_gone = bool(limit.pattern and column.adds_up and judged) and not any(r.other for r in judged)
    if is_gone:
        reason += "; what matches is 0 in other"
    worst = _worst_of(exceeding or unclear or judged)
    return LimitVerdict(
        limit,
        state,
        reason,
        worst,
        has_no_value=not valued,
        renamed=tuple(row.keys for row in chosen if row.parts),
        exceeding=tuple(sorted(exceeding, key=lambda row: row.worsening, reverse=True)),
        needs_runs=_needed_runs(limit, unclear)
        if state == "inconclusive" and not without
        else None,
        no_row_in="other" if is_gone else None,
    )


def _fitting(limit: Limit, column: Column, row: LimitRow, least: Fraction) -> Iterator[LimitRow]:
    # The row, or what of its parts is to be judged in its place.
    together = _judged_row(limit, column, row, least) if row.parts else None
    if not row.parts or (together is not None and together.state != "exceeded"):
        yield row
        return
    for part in row.parts:
        yield from _fitting(limit, column, part, least)


def beside(verdict: LimitVerdict, column: Column, whole: LimitRow) -> LimitVerdict:
    """Return the verdict with what becomes of a row that sums up all of the kind of the worst one."""
    judged = _judged_row(verdict.limit, column, whole, Fraction(0))
    if judged is None:
        return verdict
    text = f"all of {whole.keys}: {_change(judged)}, {judged.state}"
    return replace(verdict, reason=f"{verdict.reason}; {text}", all_of=text)


def _least(limit: Limit, column: Column, chosen: Sequence[LimitRow]) -> Fraction:
    # A row passes if it became worse by no more than this, in the column's unit, whatever share that
    # is. If there are many rows, some vary beyond a limit by chance: with 54 kernels that did not
    # change, in five runs per side with noise of 2 %, one exceeds 3 % in every third comparison.
    if limit.kind != "share" or len(chosen) == 1 or not column.adds_up:
        return Fraction(0)
    return _SLACK * sum(abs(_exact(r.base)) for r in chosen if r.base and _is_finite(r.base))


def exit_status(verdicts: Sequence[LimitVerdict], *, passes_undecided: bool = False) -> int:
    """Return 0 if all limits hold, 1 if any is exceeded, 4 if any is undecided and none exceeded.

    `passes_undecided`: undecided ones hold, but for those that are void or have no value.
    """
    if any(verdict.state == "exceeded" for verdict in verdicts):
        return EXCEEDED
    undecided = [verdict for verdict in verdicts if verdict.state == "inconclusive"]
    void = any(v.is_void or v.has_no_value for v in undecided)
    return INCONCLUSIVE if undecided and (void or not passes_undecided) else 0


LIMIT_COLUMNS = (
    Column("limit", Unit.TEXT, "The limit as given.", key=True),
    Column("where", Unit.TEXT, "Line of the limits file.", optional=True),
    Column(
        "state",
        Unit.TEXT,
        "within, exceeded, or inconclusive: the interval holds both, or a value, a row or the whole "
        "report is missing.",
    ),
    Column(
        "row",
        Unit.TEXT,
        "The row with the largest change for the worse, by its text keys; null: no row has both "
        "values.",
        optional=True,
    ),
    Column(
        "place",
        Unit.TEXT,
        "Rank and device of that row, where rows differ in these.",
        optional=True,
    ),
    # The change says what these two do, where there is little room.
    Column("base", Unit.TEXT, "Value of that row in base.", brief=False, optional=True),
    Column("other", Unit.TEXT, "Value of that row in other.", brief=False, optional=True),
    Column(
        "change",
        Unit.TEXT,
        "Other minus base, also as a share of base.",
        optional=True,
    ),
    Column(
        "interval",
        Unit.TEXT,
        "95 % interval of the change, and its basis.",
        optional=True,
    ),
    Column(
        "exceeding",
        Unit.TEXT,
        "All rows that exceed the limit, the worst first, as `name: change; name: change`, with names "
        "that hold such signs as in JSON; null: none does.",
        brief=False,
        optional=True,
    ),
    Column(
        "all_of",
        Unit.TEXT,
        "For an exceeded limit on kernels: what all kernels of that row's category came to.",
        brief=False,
        optional=True,
    ),
    Column(
        "renamed",
        Unit.TEXT,
        "Rows of which some replace others, by another name, kind or count, and that were set against "
        "each other.",
        optional=True,
    ),
    Column(
        "needs_runs",
        Unit.COUNT,
        "Runs per side that would decide, or runs of other beside ten or more of base; null: it is "
        "decided, or more runs would not.",
        brief=False,
        optional=True,
    ),
    Column(
        "no_row_in",
        Unit.TEXT,
        "Where the limit's pattern matches no row, so that it may be misspelled: `both`, which is within "
        "for what is counted, or `other`, also where all that matches is 0; null: rows match.",
        brief=False,
        optional=True,
    ),
    Column("reason", Unit.TEXT, "Reason for the state."),
)


def limits_report(verdicts: Sequence[LimitVerdict]) -> Report:
    """Return the verdicts as a report of texts for people, a row per limit in the order given."""
    worst = [verdict.worst for verdict in verdicts]
    data: dict[str, list[Any]] = {
        "where": [verdict.limit.where or None for verdict in verdicts],
        "limit": [verdict.limit.text for verdict in verdicts],
        "state": [verdict.state for verdict in verdicts],
        "row": [row.keys if row else None for row in worst],
        "place": [row.row.place or None if row else None for row in worst],
        "base": [human(row.base, row.unit) if row else None for row in worst],
        "other": [human(row.other, row.unit) if row else None for row in worst],
        "change": [_change(row) if row else None for row in worst],
        "interval": [_interval(each.limit, each.worst) for each in verdicts],
        "exceeding": ["; ".join(map(_row_and_change, each.exceeding)) or None for each in verdicts],
        "all_of": [verdict.all_of for verdict in verdicts],
        "renamed": ["; ".join(verdict.renamed) or None for verdict in verdicts],
        "needs_runs": [verdict.needs_runs for verdict in verdicts],
        "no_row_in": [verdict.no_row_in for verdict in verdicts],
        "reason": [verdict.reason for verdict in verdicts],
    }
    table = report_table(LIMIT_COLUMNS, data)
    return Report("limits", "Limits", LIMIT_COLUMNS, table, row_count=table.num_rows)


def _row_and_change(row: JudgedRow) -> str:
    return f"{quoted_apart(row.name)}: {_change(row)}" if row.name else _change(row)


def gate_word(exit_status: int) -> str:
    """Return what an exit status says of the limits: PASS, FAIL or INCONCLUSIVE."""
    return {0: "PASS", EXCEEDED: "FAIL"}.get(exit_status, "INCONCLUSIVE")


def _interval(limit: Limit, row: JudgedRow | None) -> str | None:
    in_units = limit.kind == "absolute"
    return None if row is None else row.moved.interval_words(row.unit, in_units=in_units)


def _can_be_limited(column: Column) -> bool:
    direction = column.better is not None or column.unit is Unit.COUNT
    return not column.key and column.kind != "text" and direction


def _column(report: str, name: str, columns: Sequence[Column]) -> Column:
    metrics = [column.name for column in columns if _can_be_limited(column)]
    column = next((column for column in columns if column.name == name), None)
    if column is None:
        raise UsageError(f"{report} has no column {name!r}", hint=available_hint(name, metrics))
    if _can_be_limited(column):
        return column
    why = "it is text" if column.kind == "text" else "neither a higher nor a lower value is worse"
    if column.key:
        why = "it identifies rows"
    hint = available_hint(name, metrics)
    raise UsageError(f"{report}.{name} cannot have a limit: {why}", hint=hint)


def _amount(text: str, report: str, column: Column) -> tuple[Number, LimitKind]:
    units = _UNITS.get(column.unit, {})
    what, example = _MEASURES.get(column.unit, ("a number", ""))
    hint = f"Write {example} or a share of the base (3%)." if example else "Write a share (3%)."
    match = _AMOUNT.fullmatch(text)
    if match is None:
        raise UsageError(f"{text!r} is not a number with a unit", hint=hint)
    if match["sign"]:
        raise UsageError(f"the limit {text!r} is negative", hint=f"{hint} 0% allows no increase.")
    unit = match["unit"]
    if unit != _SHARE and unit not in units:
        raise UsageError(f"{text!r} does not fit {report}.{column.name}: it is {what}", hint=hint)
    amount = _number(match["number"], units.get(unit, 1))
    if amount is None:
        raise UsageError(f"{text!r} has too many digits", hint="Write at most 15 digits.")
    if unit == _SHARE:
        return amount, "share"
    return amount, "points" if unit == _POINTS else "absolute"


def _number(digits: str, factor: int) -> Number | None:
    # The result is an int if the number is whole, and None if it would have to be rounded.
    if len(digits) > _LONGEST:
        return None
    exact = Fraction(digits) * factor
    if exact.denominator == 1:
        return exact.numerator
    return float(exact) if _exact(float(exact)) == exact else None


def _exact(value: Number) -> Fraction:
    # A float counts as the decimal that it is written as, so that 10.3 - 10 is 0.3.
    return Fraction(str(value)) if isinstance(value, float) else Fraction(int(value))


def _is_finite(value: Number | None) -> bool:
    return value is not None and not (isinstance(value, float) and not math.isfinite(value))


def _judged_row(limit: Limit, column: Column, row: LimitRow, least: Fraction) -> JudgedRow | None:
    if column.name != limit.column or not _can_be_limited(column):
        raise AssertionError(f"{limit.text!r} is no limit of the column {column.name}")
    base, other, change = row.base, row.other, row.change
    if base is None or other is None or not (_is_finite(base) and _is_finite(other)):
        return None
    change = change or Change((base,), (other,), "none")
    before, after = _exact(base), _exact(other)
    # A column without a direction is a count; more of it is more work, and so worse.
    sign = _sign_of_worse(column)
    worse = sign * (after - before)
    worsening: _Worsening = (False, worse)
    allowed = _exact(limit.amount)
    if limit.kind == "share":
        worsening = (False, 100 * worse / abs(before)) if before else (worse > 0, worse)
        allowed = max(allowed, 100 * least / abs(before)) if before else least
    is_beyond = worsening > (False, allowed) if before or not least else worse > least
    state: State = "inconclusive"
    if change.basis == "exact":
        state = "exceeded" if is_beyond else "within"
    elif is_beyond and change.is_significant:
        state = "exceeded"
    elif not is_beyond and _is_inside(change, limit.kind, sign, allowed, bool(before)):
        state = "within"
    return JudgedRow(row, base, other, change, column.unit, worsening, state)


def _sign_of_worse(column: Column) -> int:
    return -1 if column.better == "more" else 1


def _is_inside(
    change: Change, kind: LimitKind, sign: int, allowed: Fraction, of_base: bool
) -> bool:
    # The limit is a share of the base, in percent, or an amount: always where the base is 0.
    limit = float(allowed)
    if kind == "share" and of_base:
        ratio = change.ratio
        if ratio is not None:
            high = ratio.high - 1 if sign > 0 else 1 - ratio.low
            return 100 * high <= limit
        # If there is no ratio, the row is inside the limit if other minus the largest allowed value of
        # base is below 0 in the whole interval.
        beyond, limit = change.difference(1 + sign * limit / 100), 0.0
    else:
        beyond = change.difference()
    if beyond is None:
        return False
    return (beyond.high if sign > 0 else -beyond.low) <= limit


def _worst_of(judged: Sequence[JudgedRow]) -> JudgedRow | None:
    return max(judged, key=lambda row: row.worsening, default=None)


def _no_row(limit: Limit, count: int) -> str:
    if limit.pattern is None or not count:
        return f"{limit.report} has no rows on either side"
    pattern = limit.pattern.pattern
    return f"no row of {limit.report} matches /{pattern}/ ({_row_count(count)} in total)"


def _reason(
    limit: Limit,
    column: Column,
    chosen: int,
    exceeding: Sequence[JudgedRow],
    unclear: Sequence[JudgedRow],
    without: Sequence[LimitRow],
) -> str:
    parts = []
    if exceeding or not (unclear or without):
        count = len(exceeding) or "none"
        parts.append(f"{count} of {_row_count(chosen)} worse by more than the limit")
    worst = _worst_of(exceeding)
    if worst is not None and _reaches(limit, worst.moved, _sign_of_worse(column)):
        parts.append("the limit is within the interval")
    worst = _worst_of(unclear)
    if worst is not None:
        of_rows = f"{len(unclear)} of {_row_count(chosen)} undecided: " if chosen > 1 else ""
        vary = column.is_counted and worst.moved.basis == "repeats"
        if vary and _needed_runs(limit, unclear) is None:
            parts.append(of_rows + _varying_words(worst))
        else:
            parts.append(of_rows + undecided_words(worst.moved, _share_of(limit, worst)))
    if without:
        first = f", the first {without[0].name}" if without[0].name else ""
        sides = "both sides" if without[0].base is without[0].other is None else "one side"
        parts.append(f"{_row_count(len(without))} without a value on {sides}{first}")
        if len(without) == chosen and (limit.report == "steps" or "per_step" in column.name):
            parts.append("if no steps are annotated, --step-range names the ranges that are steps")
    return "; ".join(parts)


def _varying_words(row: JudgedRow) -> str:
    # More runs do not decide what is counted, and is not the same in all runs of a side.
    values = (row.moved.base, row.moved.other)
    ends = (dict.fromkeys(human(end, row.unit) for end in (min(v), max(v))) for v in values)
    varies = " vs. ".join(" to ".join(each) for each in ends)
    return f"runs of one side differ ({varies}): let all runs do the same, or allow as much"


def _reaches(limit: Limit, change: Change, sign: int) -> bool:
    is_share = limit.kind == "share"
    interval = change.ratio if is_share else change.difference()
    if interval is None or change.basis == "exact":
        return False
    if is_share:
        nearest = 100 * (interval.low - 1 if sign > 0 else 1 - interval.high)
    else:
        nearest = interval.low if sign > 0 else -interval.high
    return nearest <= float(limit.amount)


def _share_of(limit: Limit, row: JudgedRow) -> float:
    # The limit as a share of the row's base; 0 for what has none.
    if limit.kind == "share":
        return float(limit.amount) / 100
    return float(limit.amount / row.base) if row.base and limit.kind == "absolute" else 0.0


def _needed_runs(limit: Limit, unclear: Sequence[JudgedRow]) -> int | None:
    needed = [row.moved.runs_for(_share_of(limit, row)) for row in unclear]
    return None if None in needed else max(n for n in needed if n is not None)


def _row_count(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"


def _change(worst: JudgedRow) -> str:
    text = _signed(worst.change, worst.unit)
    if worst.unit is Unit.PCT:
        # "+5 %" of a percentage could be read as a share of it.
        text = text.replace(_SHARE, _POINTS)
    if not worst.base or not worst.change:
        return text
    return f"{text} ({_signed(100 * (worst.change / abs(worst.base)), Unit.PCT)})"


def _signed(value: Number, unit: Unit) -> str:
    text = human(value, unit)
    if value and not re.search("[1-9]", text):
        # What exceeded a limit must not look like nothing.
        text = f"{value:.1g} {scale_for(unit, value)[1]}".rstrip()
    return f"+{text}" if value > 0 else text
