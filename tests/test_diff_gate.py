"""Limits for CI jobs: what is parsed, what is refused, and verdicts computed by hand."""

from __future__ import annotations

import csv
import io
import math
import re
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nsysconv import queries
from nsysconv.diff.change import Basis, Change
from nsysconv.diff.gate import (
    Limit,
    LimitRow,
    LimitVerdict,
    Number,
    State,
    exit_status,
    judge_limit,
    limits_report,
    parse_limit,
    undecided,
)
from nsysconv.document import Section
from nsysconv.errors import UsageError
from nsysconv.names import named_texts
from nsysconv.present.tables import section
from nsysconv.render import Options, renderer
from nsysconv.report import Column, Unit

NAME = Column("name", Unit.TEXT, "A key.", key=True)
NOTE = Column("note", Unit.TEXT, "A text.")
NS = Column("sum_ns", Unit.NS, "A time.", better="less", adds=True)
START = Column("start_ns", Unit.NS, "A time without a direction.")
BUCKET = Column("bucket_ns", Unit.NS, "A key that is a quantity.", key=True, better="less")
MEAN = Column("avg_ns", Unit.NS, "A mean.", better="less", real=True)
BYTES = Column("bytes_sum", Unit.BYTES, "Bytes.", better="less")
PCT = Column("idle_pct", Unit.PCT, "A percentage.", better="less")
USE = Column("use_pct", Unit.PCT, "A percentage that is better high.", better="more")
COUNT = Column("gap_count", Unit.COUNT, "A count.", better="less")
SPEED = Column("speed_bytes_per_s", Unit.BYTES_PER_S, "A throughput.", better="more")
SCORE = Column("score", Unit.REAL, "A number of no unit.", better="more")
COLUMNS = {
    "made": (NAME, NOTE, NS, START, BUCKET, MEAN, BYTES, PCT, USE, COUNT, SPEED, SCORE),
    "silent": (NAME, START),
}
METRICS = "sum_ns, avg_ns, bytes_sum, idle_pct, use_pct, gap_count, speed_bytes_per_s, score"
BY_NAME = {column.name: column for column in COLUMNS["made"]}
DECLARED = {name: queries.query(name).columns for name in queries.REPORTS}
SPELLED = {
    Unit.NS: ("2ms", 2_000_000, "absolute"),
    Unit.BYTES: ("1MiB", 2**20, "absolute"),
    Unit.COUNT: ("7", 7, "absolute"),
    Unit.PCT: ("5pp", 5, "points"),
}
INT64 = st.integers(-(2**63) + 1, 2**63 - 1)
AMOUNTS = st.one_of(
    st.integers(0, 2**63 - 1),
    st.decimals(0, 10**6, places=3, allow_nan=False, allow_infinity=False).map(float),
)
FLOATS = st.floats(allow_nan=True, allow_infinity=True)


def limit(text: str) -> Limit:
    return parse_limit(text, COLUMNS)


def row(base: Number | None, other: Number | None, keys: str = "k", *, noise: bool = False) -> LimitRow:
    """A row whose values are exact, or may be anything."""
    if base is None or other is None:
        return LimitRow(keys, base, other, None)
    exact = Change((base,), (other,), "exact")
    change = replace(exact, basis="single run", half_width=5.0) if noise else exact
    return LimitRow(keys, base, other, change)


def measured(base: Number, other: Number, half: float, basis: Basis = "within run") -> LimitRow:
    """A row whose ratio may be `half` more or less, in logarithms."""
    return LimitRow("k", base, other, Change((base,), (other,), basis, half, 0.01))


def repeated(base: tuple[Number, ...], other: tuple[Number, ...], *, points: bool = False) -> LimitRow:
    """A row of several runs."""
    change = Change(base, other, "repeats", points=points)
    return LimitRow("k", *change.means, change)


ROWS = st.lists(
    st.builds(
        row, st.none() | INT64, st.none() | INT64, st.sampled_from(["a", "b"]), noise=st.booleans()
    ),
    max_size=4,
)


def cases(name: str) -> list[list[str]]:
    """The rows of a table beside this file, without its header."""
    with Path(__file__).with_name(name).open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def verdict(text: str, *rows: LimitRow) -> LimitVerdict:
    found = limit(text)
    return judge_limit(found, BY_NAME[found.column], rows)


@pytest.mark.parametrize(
    ("text", "column", "amount", "kind"),
    [
        ("made.sum_ns:3%", "sum_ns", 3, "share"),
        ("made.sum_ns:0%", "sum_ns", 0, "share"),
        ("made.sum_ns:0.5%", "sum_ns", 0.5, "share"),
        ("made.sum_ns:.5 %", "sum_ns", 0.5, "share"),
        ("made.sum_ns:2ms", "sum_ns", 2_000_000, "absolute"),
        ("made.sum_ns:500us", "sum_ns", 500_000, "absolute"),
        ("made.sum_ns:500µs", "sum_ns", 500_000, "absolute"),
        ("made.sum_ns:500μs", "sum_ns", 500_000, "absolute"),
        ("made.sum_ns:10ns", "sum_ns", 10, "absolute"),
        ("made.sum_ns:1s", "sum_ns", 10**9, "absolute"),
        ("made.sum_ns:0.1ms", "sum_ns", 100_000, "absolute"),
        ("made.sum_ns: 0.1 ms ", "sum_ns", 100_000, "absolute"),
        ("made.avg_ns:1.5ns", "avg_ns", 1.5, "absolute"),
        ("made.sum_ns:9223372036854775807ns", "sum_ns", 2**63 - 1, "absolute"),
        ("made.bytes_sum:1MB", "bytes_sum", 10**6, "absolute"),
        ("made.bytes_sum:5kB", "bytes_sum", 5_000, "absolute"),
        ("made.bytes_sum:1GB", "bytes_sum", 10**9, "absolute"),
        ("made.bytes_sum:1KiB", "bytes_sum", 1024, "absolute"),
        ("made.bytes_sum:1MiB", "bytes_sum", 2**20, "absolute"),
        ("made.bytes_sum:1GiB", "bytes_sum", 2**30, "absolute"),
        ("made.bytes_sum:100B", "bytes_sum", 100, "absolute"),
        ("made.gap_count:10", "gap_count", 10, "absolute"),
        ("made.gap_count:10%", "gap_count", 10, "share"),
        ("made.idle_pct:5pp", "idle_pct", 5, "points"),
        ("made.idle_pct:2.5pp", "idle_pct", 2.5, "points"),
        ("made.idle_pct:3%", "idle_pct", 3, "share"),
        ("made.speed_bytes_per_s:3%", "speed_bytes_per_s", 3, "share"),
        ("made.score:3%", "score", 3, "share"),
    ],
)
def test_limits(text: str, column: str, amount: Number, kind: str) -> None:
    found = limit(text)
    assert found == Limit("made", None, column, amount, kind, text)  # type: ignore[arg-type]
    assert type(found.amount) is type(amount)


@pytest.mark.parametrize(
    ("written", "found", "not_found"),
    [
        ("gemm", "sgemm_64", "copy"),
        ("^gemm$", "gemm", "sgemm"),
        (r"a\/b", "xa/bx", "ab"),
        (r"[\/]", "a/b", "ab"),
        (r"at::native", "void at::native::f", "at native"),
        (r"a:3%", "a:3%", "a"),
        (r"x\.y", "x.y", "x_y"),
        (r"\]\.sum_ns:1", "].sum_ns:1", "sum"),
        (r"\\", "a\\b", "ab"),
        ("(?i)GEMM", "gemm", "copy"),
        ("a\nb", "a\nb", "ab"),
        ("stream 7$", "no_op stream 7", "no_op stream 17"),
    ],
)
def test_an_expression_chooses_rows_by_their_keys(written: str, found: str, not_found: str) -> None:
    text = f"made[/{written}/].sum_ns:3%"
    assert limit(text).pattern == re.compile(written)
    assert limit(text).text == text
    rows = [row(100, 110, found), row(100, 200, not_found)]
    assert verdict(text, *rows).worst == verdict("made.sum_ns:3%", rows[0]).worst
    assert verdict(text, rows[1]).state == "inconclusive"


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        *cases("limits_refused.csv"),
        ("made.zzz:3%", "made has no column 'zzz'", f"There are: {METRICS}"),
        ("made.name:3%", "made.name cannot have a limit: it identifies rows", METRICS),
        ("made.bucket_ns:3%", "it identifies rows", METRICS),
        ("made.note:3%", "made.note cannot have a limit: it is text", METRICS),
        ("made.start_ns:3%", "neither a higher nor a lower value is worse", METRICS),
        (f"made.sum_ns:{'9' * 5000}ns", "too many digits", "at most 15"),
    ],
)
def test_what_is_refused(text: str, what: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        limit(text)
    assert what in caught.value.what
    assert hint in caught.value.hint


@given(st.text(alphabet="made.[/]:\\(gap_count)sum_ns3%", max_size=40) | st.text(max_size=40))
def test_any_text_is_a_limit_or_a_usage_error(text: str) -> None:
    try:
        found = limit(text)
    except UsageError as error:
        assert error.what
        assert error.hint
    else:
        assert found.text == text


@pytest.mark.parametrize("expression", ["", r"[/a:b\/c/]"], ids=["all", "chosen"])
@pytest.mark.parametrize("report", queries.REPORTS)
def test_every_declared_metric_can_have_a_limit_and_nothing_else(
    report: str, expression: str
) -> None:
    for column in DECLARED[report]:
        metric = f"{report}{expression}.{column.name}"
        counted = column.unit is Unit.COUNT
        if (column.better is None and not counted) or column.key:
            with pytest.raises(UsageError, match="cannot have a limit"):
                parse_limit(f"{metric}:3%", DECLARED)
            continue
        spelled = [("0.1%", 0.1, "share")]
        if column.unit in SPELLED:
            spelled.append(SPELLED[column.unit])
        for written, amount, kind in spelled:
            found = parse_limit(f"{metric}:{written}", DECLARED)
            pattern = f"[/{found.pattern.pattern}/]" if found.pattern else ""
            assert f"{found.report}{pattern}.{found.column}:{written}" == found.text
            assert (found.amount, found.kind) == (amount, kind)
            assert parse_limit(found.text, DECLARED) == found


IN, OUT, DUNNO = "within", "exceeded", "inconclusive"


# Of values of both sides the worst that are within the limit, and the least bad that exceed it.
@pytest.mark.parametrize(
    ("text", "within", "exceeding"),
    [
        # A share of the base, less being better: 3 % of 1000 is 30.
        ("made.sum_ns:3%", (1000, 1030), (1000, 1031)),
        ("made.sum_ns:0%", (1000, 1000), (1000, 1001)),
        ("made.sum_ns:0.1%", (1000, 1001), (999, 1000)),
        # More being better: losing 3 % of 1000 is losing 30.
        ("made.speed_bytes_per_s:3%", (1000.0, 970.0), (1000.0, 969.0)),
        # Points, and shares of a percentage: 10 % to 10.3 % is 0.3 points and 3 % more.
        ("made.idle_pct:5pp", (10.0, 15.0), (10.0, 15.01)),
        ("made.idle_pct:3%", (10.0, 10.3), (10.0, 10.31)),
        ("made.use_pct:5pp", (90.0, 85.0), (90.0, 84.9)),
        # Absolute limits.
        ("made.sum_ns:2ms", (5, 2_000_005), (5, 2_000_006)),
        ("made.sum_ns:10ns", (0, 10), (0, 11)),
        ("made.avg_ns:1.5ns", (10.0, 11.5), (10.0, 11.6)),
        ("made.gap_count:2", (5, 7), (5, 8)),
    ],
)
def test_exact_values_exceed_by_the_smallest_step(
    text: str, within: tuple[Number, Number], exceeding: tuple[Number, Number]
) -> None:
    assert verdict(text, row(*within)).state == IN
    assert verdict(text, row(*exceeding)).state == OUT


@pytest.mark.parametrize(
    ("text", "rows", "state"),
    [
        # What became better, by however much.
        ("made.sum_ns:3%", [row(1000, 10)], IN),
        ("made.use_pct:0%", [row(0.0, 5.0)], IN),
        ("made.speed_bytes_per_s:3%", [row(1000.0, 5000.0)], IN),
        ("made.use_pct:5pp", [row(10.0, 90.0)], IN),
        # From nothing to something exceeds every share; nothing to nothing none.
        ("made.sum_ns:1000%", [row(0, 1)], OUT),
        ("made.sum_ns:0%", [row(0, 0)], IN),
        # From something to nothing is 100 %.
        ("made.speed_bytes_per_s:99%", [row(1000.0, 0.0)], OUT),
        ("made.speed_bytes_per_s:100%", [row(1000.0, 0.0)], IN),
        ("made.idle_pct:0.3pp", [row(10.0, 10.3)], IN),
        ("made.bytes_sum:1MiB", [row(0, 2**20)], IN),
        ("made.bytes_sum:1MB", [row(0, 2**20)], OUT),
        # Each row by itself: one that became better does not make up for another.
        ("made.sum_ns:3%", [row(1000, 1, "a"), row(1000, 1031, "b")], OUT),
        # Noise.
        ("made.sum_ns:3%", [row(1000, 2000, noise=True)], DUNNO),
        ("made.sum_ns:3%", [row(1000, 1000, noise=True)], DUNNO),
        ("made.sum_ns:3%", [row(1000, 2000, noise=True), row(1000, 1031)], OUT),
        ("made.sum_ns:3%", [row(0, 1, noise=True)], DUNNO),
        # An interval of 1.0 ± 2.8 %: beyond the limit only with the estimate, within only as a whole.
        ("made.sum_ns:3%", [measured(1000, 1000, 0.0277)], IN),
        ("made.sum_ns:3%", [measured(1000, 1010, 0.0277)], DUNNO),
        ("made.sum_ns:3%", [measured(1000, 1029, 0.0277)], DUNNO),
        ("made.sum_ns:3%", [measured(1000, 1031, 0.0277)], OUT),
        ("made.sum_ns:3%", [measured(1000, 1031, 0.0400)], DUNNO),
        ("made.sum_ns:3%", [measured(1000, 500, 0.4)], IN),
        ("made.sum_ns:30ns", [measured(1000, 1000, 0.0277)], IN),
        ("made.sum_ns:30ns", [measured(1000, 1031, 0.0277)], OUT),
        ("made.sum_ns:30ns", [measured(1000, 1010, 0.0277)], DUNNO),
        ("made.speed_bytes_per_s:3%", [measured(1000.0, 1000.0, 0.0277)], IN),
        ("made.speed_bytes_per_s:3%", [measured(1000.0, 960.0, 0.0277)], OUT),
        ("made.speed_bytes_per_s:3%", [measured(1000.0, 980.0, 0.0277)], DUNNO),
        # Repeats: 3.3 to 6.7 % more; -4.3 to 8.5 %; from nothing; 1.5 to 2.5 percentage points.
        ("made.sum_ns:3%", [repeated((100, 101, 99, 100, 102), (105, 106, 104, 105, 107))], OUT),
        ("made.sum_ns:8%", [repeated((100, 101, 99, 100, 102), (105, 106, 104, 105, 107))], IN),
        ("made.sum_ns:6%", [repeated((100, 101, 99, 100, 102), (105, 106, 104, 105, 107))], DUNNO),
        ("made.sum_ns:3%", [repeated((100, 101, 99, 100, 102), (100, 101, 99, 100, 112))], DUNNO),
        ("made.sum_ns:3%", [repeated((100, 100, 100), (103.5, 103.5, 103.5))], OUT),
        ("made.sum_ns:3%", [repeated((0, 0, 0), (3, 5, 4))], OUT),
        ("made.sum_ns:3%", [repeated((0, 0, 0), (3, -3, 0))], DUNNO),
        ("made.idle_pct:1pp", [repeated((8.0, 8.4, 8.2), (9.9, 10.3, 10.4), points=True)], OUT),
        ("made.idle_pct:3pp", [repeated((8.0, 8.4, 8.2), (9.9, 10.3, 10.4), points=True)], IN),
        ("made.idle_pct:2.2pp", [repeated((8.0, 8.4, 8.2), (9.9, 10.3, 10.4), points=True)], DUNNO),
        # An extreme of one run per side shows nothing of how it varies.
        ("made.sum_ns:3%", [measured(1000, 9000, 0.0, "none")], DUNNO),
        # Of several rows a small one may become worse by 0.2 % of all, which are 2,000 here.
        ("made.sum_ns:3%", [row(100_000, 100_000, "a"), row(1000, 1202, "b")], IN),
        ("made.sum_ns:3%", [row(100_000, 100_000, "a"), row(1000, 1203, "b")], OUT),
        ("made.sum_ns:3%", [row(100_000, 100_000, "a"), row(0, 200, "b")], IN),
        ("made.sum_ns:3%", [row(100_000, 100_000, "a"), row(0, 201, "b")], OUT),
        ("made[/b/].sum_ns:3%", [row(100_000, 100_000, "a"), row(1000, 1031, "b")], OUT),
        ("made.avg_ns:3%", [row(100_000, 100_000, "a"), row(1000, 1031, "b")], OUT),
        # Nothing to judge.
        ("made.sum_ns:3%", [], DUNNO),
        ("made[/x/].sum_ns:3%", [], DUNNO),
        ("made[/x/].sum_ns:3%", [row(1, 1)], DUNNO),
        ("made.sum_ns:3%", [row(None, 1)], DUNNO),
        ("made.sum_ns:3%", [row(1, None)], DUNNO),
        ("made.sum_ns:3%", [row(None, None)], DUNNO),
        ("made.avg_ns:3%", [row(math.nan, 1.0)], DUNNO),
        ("made.avg_ns:3%", [row(1.0, math.inf)], DUNNO),
        ("made.sum_ns:3%", [row(None, 1), row(1000, 1030)], DUNNO),
        ("made.sum_ns:3%", [row(None, 1, noise=True)], DUNNO),
        ("made.sum_ns:3%", [row(None, 1), row(1000, 2000, noise=True)], DUNNO),
        ("made.sum_ns:3%", [row(None, 1), row(1000, 1031)], OUT),
        ("made[/k/].sum_ns:3%", [row(None, 1, "x"), row(1000, 1000)], IN),
        # Without a ratio, for a run is 0: other less 11 times base is below 0 for certain.
        ("made.sum_ns:1000%", [repeated((0, 90, 100, 110, 100), (50,) * 5)], IN),
        # An empty expression is found everywhere.
        ("made[//].sum_ns:3%", [row(100, 110), row(1, 1, "")], OUT),
        # What has no value on either side is nothing to judge, if another row has one.
        ("made.sum_ns:3%", [row(None, None, "a"), row(100, 101, "b")], IN),
        ("made.sum_ns:3%", [row(None, None, "a"), row(100, 110, "b")], OUT),
        ("made.sum_ns:3%", [row(None, None, "a"), row(100, None, "b")], DUNNO),
    ],
)
def test_verdicts(text: str, rows: list[LimitRow], state: State) -> None:
    assert verdict(text, *rows).state == state


@pytest.mark.parametrize(
    ("text", "rows", "reason"),
    [
        ("made.sum_ns:3%", None, "made is not recorded on both sides"),
        ("made.sum_ns:3%", [row(1, 1)], "none of 1 row worse by more than the limit"),
        (
            "made.sum_ns:3%",
            [measured(1000, 1035, 0.0277)],
            "1 of 1 row worse by more than the limit; the limit is within the interval",
        ),
        (
            "made.sum_ns:3%",
            [measured(1000, 1020, 0.0277)],
            "1 run per side cannot show changes below 3.9 %: record 3 runs per side",
        ),
        (
            "made.sum_ns:3%",
            [measured(1000, 1020, 0.0, "none")],
            "1 run per side does not show how it varies: record 3 runs per side",
        ),
        ("made.sum_ns:3%", [row(1, 2)] * 2, "2 of 2 rows worse by more than the limit"),
        ("made.sum_ns:3%", [], "made has no rows on either side"),
        ("made[/x/].sum_ns:3%", [], "made has no rows on either side"),
        ("made[/x|y/].sum_ns:3%", [row(1, 1)], "no row of made matches /x|y/ (1 row in total)"),
        ("made.sum_ns:3%", [row(None, None, "a")], "1 row without a value on both sides, the first a"),
        (
            "made.sum_ns:3%",
            [row(None, 1, "a"), row(None, 1, "b"), row(1, 1)],
            "2 rows without a value on one side, the first a",
        ),
        (
            "made.sum_ns:3%",
            [row(1000, 2000), measured(1000, 1020, 0.0, "none")],
            "1 of 2 rows worse by more than the limit; 1 of 2 rows undecided: 1 run per side does not "
            "show how it varies: record 3 runs per side",
        ),
        (
            "made.sum_ns:3%",
            [row(1, 2), row(None, 1, "")],
            "1 of 2 rows worse by more than the limit; 1 row without a value on one side",
        ),
    ],
)
def test_reasons(text: str, rows: list[LimitRow] | None, reason: str) -> None:
    found = judge_limit(limit(text), NS, rows)
    assert found.reason == reason
    if not rows:
        assert (found.state, found.worst) == ("inconclusive", None)


@pytest.mark.parametrize(
    ("text", "rows", "keys"),
    [
        # By the limit's own measure: 50 of 100 is the larger share, 60 of 1000 more.
        ("made.sum_ns:3%", [row(1000, 1060, "a"), row(100, 150, "b")], "b"),
        ("made.sum_ns:10ns", [row(1000, 1060, "a"), row(100, 150, "b")], "a"),
        ("made.sum_ns:3%", [row(1, 1000, "a"), row(0, 1, "b"), row(0, 2, "c")], "c"),
        ("made.use_pct:3%", [row(50.0, 60.0, "a"), row(50.0, 49.0, "b")], "b"),
        # Nothing became worse: what became better the least.
        ("made.sum_ns:3%", [row(100, 10, "a"), row(100, 90, "b")], "b"),
        # The rows that exceed first, whatever noise made of others.
        ("made.sum_ns:3%", [row(100, 900, "a", noise=True), row(100, 110, "b")], "b"),
        ("made.sum_ns:3%", [row(100, 900, "a", noise=True), row(100, 101, "b")], "a"),
        # Then those that leave the question open.
        ("made.sum_ns:3%", [row(100, 100, "a", noise=True), row(100, 102, "b")], "a"),
        ("made.sum_ns:3%", [row(None, 900, "a"), row(100, 101, "b")], "b"),
        ("made.sum_ns:3%", [row(100, 110, "a"), row(100, 110, "b")], "a"),
    ],
)
def test_the_worst_row(text: str, rows: list[LimitRow], keys: str) -> None:
    found = verdict(text, *rows).worst
    assert found is not None
    assert found.keys == keys
    chosen = next(row for row in rows if row.keys == keys)
    assert (found.base, found.other) == (chosen.base, chosen.other)
    assert chosen.base is not None
    assert chosen.other is not None
    assert found.change == chosen.other - chosen.base


def test_a_limit_that_no_row_has_a_value_for_passes_no_gate() -> None:
    """As steps that nobody annotated have none: no more data would help."""
    nothing = verdict("made.sum_ns:3%", row(None, None, "a"))
    assert exit_status([nothing], passes_undecided=True) == 4
    half = verdict("made.sum_ns:3%", row(None, 1, "a"))
    assert (half.worst, exit_status([half], passes_undecided=True)) == (None, 0)


def test_counts_that_vary_between_runs_need_no_more_runs() -> None:
    change = Change((75, 100, 75), (100, 100, 100), "repeats")
    found = verdict("made.gap_count:0", LimitRow("k", *change.means, change))
    assert (found.state, found.needs_runs) == ("inconclusive", None)
    assert found.reason == (
        "runs of one side differ (75 to 100 vs. 100): let all runs do the same, or allow as much"
    )


NAMES = st.text(st.sampled_from('a"\\;: \n'), max_size=6)


@given(st.lists(NAMES, max_size=3))
@example(["load; augment: x", '"', "", "a;"])
def test_rows_that_exceed_are_listed_whatever_their_names(names: list[str]) -> None:
    found = verdict("made.sum_ns:3%", *(row(100, 200, name) for name in names))
    (listed,) = (each["exceeding"] for each in limits_report([found]).rows())
    assert named_texts(listed or "") == [(name, "+100 ns (+100.00 %)") for name in names]


def test_a_limit_of_another_column_is_a_mistake_of_the_program() -> None:
    with pytest.raises(AssertionError, match="is no limit of the column gap_count"):
        judge_limit(limit("made.sum_ns:3%"), COUNT, [row(1, 1)])
    with pytest.raises(AssertionError, match="is no limit of the column"):
        judge_limit(limit("made.sum_ns:3%"), Column("sum_ns", Unit.NS, "No direction."), [row(1, 1)])


def states(*found: State) -> list[LimitVerdict]:
    return [LimitVerdict(limit("made.sum_ns:3%"), state, "", None) for state in found]


VOID = undecided(limit("made.sum_ns:3%"), "no row", is_void=True)


# The status, and that where what is undecided passes.
@pytest.mark.parametrize(
    ("verdicts", "status", "passing"),
    [
        (states(), 0, 0),
        (states("within", "within"), 0, 0),
        (states("within", "exceeded"), 1, 1),
        (states("inconclusive", "within"), 4, 0),
        (states("inconclusive", "exceeded", "within"), 1, 1),
        ([*states("within"), VOID], 4, 4),
        ([*states("exceeded"), VOID], 1, 1),
    ],
)
def test_exit_status(verdicts: list[LimitVerdict], status: int, passing: int) -> None:
    assert exit_status(verdicts) == status
    assert exit_status(verdicts, passes_undecided=True) == passing


def limit_of(column: Column, kind: Literal["share", "points", "absolute"], amount: Number) -> Limit:
    return Limit("made", None, column.name, amount, kind, "")


@given(ROWS, AMOUNTS, AMOUNTS, st.sampled_from(["share", "absolute"]), st.booleans())
def test_a_larger_limit_never_refuses_more(
    rows: list[LimitRow],
    one: Number,
    another: Number,
    kind: Literal["share", "absolute"],
    more: bool,
) -> None:
    column = SCORE if more else NS
    small, large = (
        judge_limit(limit_of(column, kind, amount), column, rows) for amount in sorted([one, another])
    )
    order = ["within", "inconclusive", "exceeded"]
    assert order.index(large.state) <= order.index(small.state)


@given(INT64, INT64, st.integers(0, 2**64))
@example(2**62, 2**62 + 1, 0)
@example(2**62, 2**62 + 1, 1)
@example(-(2**63) + 1, 2**63 - 1, 2**64 - 2)
@example(-(2**63) + 1, 2**63 - 1, 2**64 - 3)
def test_whole_numbers_are_compared_exactly(base: int, other: int, amount: int) -> None:
    less = judge_limit(limit_of(NS, "absolute", amount), NS, [row(base, other)])
    assert (less.state == "exceeded") == (other - base > amount)
    more = judge_limit(limit_of(SCORE, "absolute", amount), SCORE, [row(base, other)])
    assert (more.state == "exceeded") == (base - other > amount)
    assert less.worst is not None
    assert less.worst.change == other - base


@given(INT64, INT64, st.integers(0, 10**9))
@example(10**18, 10**18 + 10**15, 1)
@example(10**18, 10**18 + 10**15 + 1, 1)
def test_shares_of_whole_numbers_are_compared_exactly(base: int, other: int, tenths: int) -> None:
    amount = tenths // 10 if tenths % 10 == 0 else tenths / 10
    found = judge_limit(limit_of(NS, "share", amount), NS, [row(base, other)])
    assert (found.state == "exceeded") == ((other - base) * 1000 > tenths * abs(base))


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9), st.integers(0, 10**6))
def test_floats_are_compared_as_they_are_written(base: int, other: int, amount: int) -> None:
    found = judge_limit(limit_of(PCT, "points", amount / 100), PCT, [row(base / 100, other / 100)])
    assert (found.state == "exceeded") == (other - base > amount)


@given(FLOATS, FLOATS, AMOUNTS, st.sampled_from(["share", "points"]))
@example(5e-324, 1.7e308, 0, "share")
@example(-1.7e308, 1.7e308, 0, "points")
@example(10.0, 10.000001, 0, "points")
def test_every_float_is_judged_and_shown(
    base: float, other: float, amount: Number, kind: Literal["share", "points"]
) -> None:
    found = judge_limit(limit_of(PCT, kind, amount), PCT, [row(base, other)])
    told = math.isfinite(base) and math.isfinite(other)
    assert (found.state == "inconclusive") == (not told)
    change = limits_report([found]).rows()[0]["change"]
    if found.state == "exceeded":
        assert Fraction(str(other)) > Fraction(str(base))
        assert change.startswith("+")
        assert re.search("[1-9]|inf", change)


def shown() -> Section:
    noisy = [row(None, 1, "a|b"), row(10.0, 10.5, "\x1b[31m <b>")]
    return section(limits_report(
        [
            verdict("made.sum_ns:3%", row(1_500_000, 1_800_000, "gemm 7"), row(1, 1, "x")),
            verdict("made.bytes_sum:1MB", row(2_000_000, 1_000_000, "copy")),
            verdict("made.idle_pct:1pp", *noisy),
            verdict("made.gap_count:1", row(0, 3)),
            verdict("made[/x/].sum_ns:3%"),
            verdict("made.score:0%", row(5.0, 5.0, "")),
        ]
    ))  # fmt: skip


def test_the_report_of_verdicts() -> None:
    report = shown()
    assert (report.name, report.row_count) == ("limits", 6)
    assert [column.name for column in report.columns] == [
        "limit", "where", "state", "row", "place", "base", "other", "change", "interval", "exceeding",
        "all_of", "renamed", "needs_runs", "no_row_in", "reason",
    ]  # fmt: skip
    cells = [
        tuple(found[name] for name in ("limit", "state", "row", "base", "other", "change"))
        for found in report.rows()
    ]
    assert cells == [
        ("made.sum_ns:3%", OUT, "gemm 7", "1.50 ms", "1.80 ms", "+300.00 µs (+20.00 %)"),
        ("made.bytes_sum:1MB", IN, "copy", "2.00 MB", "1.00 MB", "-1.00 MB (-50.00 %)"),
        ("made.idle_pct:1pp", DUNNO, "\x1b[31m <b>", "10.00 %", "10.50 %", "+0.50 pp (+5.00 %)"),
        ("made.gap_count:1", OUT, "k", "0", "3", "+3"),
        ("made[/x/].sum_ns:3%", DUNNO, None, None, None, None),
        ("made.score:0%", IN, "", "5", "5", "0"),
    ]
    assert all(found["reason"] for found in report.rows())


def test_no_limits_are_a_report_without_rows() -> None:
    assert limits_report([]).rows() == []


def test_rows_that_exceed_are_a_list_and_no_name_in_markdown() -> None:
    """The list is longer than a name may be; taken for one, it was cut to the unit of its last row."""
    kernels = [f"void at::native::kernel<{i}, c10::BFloat16>(int, T2, T3)" for i in range(3)]
    out = io.StringIO()
    limits = limits_report([verdict("made.sum_ns:3%", *(row(1_000, 9_000, name) for name in kernels))])
    renderer("markdown")([section(limits)], out, Options())
    (cells,) = (line for line in out.getvalue().splitlines() if "| exceeded |" in line)
    assert all(name in cells for name in kernels)
