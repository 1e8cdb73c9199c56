"""Tables that people know from elsewhere, to the last byte; and the columns of a console."""

from __future__ import annotations

import json
from decimal import ROUND_HALF_UP, Context, Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_render import encoded, kept, rendered

from nsysconv.document import Printed, Section
from nsysconv.notes import Note, Severity
from nsysconv.render import FORMATS, lacks_notes
from nsysconv.render.display import round_half_up, with_separators
from nsysconv.report import Column, Unit, build_table

MB = Printed("Total (MB)", 3, 1_000_000)
TENTHS = Printed("Avg (ns)", 1)
COLUMNS = (
    Column("api_pct", Unit.PCT, "A share."),
    Column("bytes_sum", Unit.BYTES, "An amount."),
    Column("call_count", Unit.COUNT, "A count."),
    Column("avg_ns", Unit.NS, "A mean.", real=True),
    Column("name", Unit.TEXT, "A name."),
)
PRINTED = {
    "api_pct": Printed("Time (%)", 1), "bytes_sum": MB, "call_count": Printed("Num Calls"),
    "avg_ns": TENTHS, "name": Printed("Name"),
}  # fmt: skip
NOTES = (Note("no-time", Severity.APPROXIMATED, "GPU operations without a time", 2),)


def printed_report(name: str = "cuda_sum") -> Section:
    data = {
        "api_pct": [99.96, 0.04, None], "bytes_sum": [4_194_304, 0, None],
        "call_count": [1_234_567, 1, 0], "avg_ns": [1234.25, 0.5, None],
        "name": ['f(int, "x")', "tab\there", None],
    }  # fmt: skip
    return Section(
        name, "CUDA Summary", COLUMNS, build_table(COLUMNS, data), notes=NOTES, row_count=3,
        printed=PRINTED,
    )


# -- rounding


@pytest.mark.parametrize(("value", "printed", "text"), [
    (0, MB, "0.000"), (499, MB, "0.000"), (500, MB, "0.001"), (1_500, MB, "0.002"),
    (2_500, MB, "0.003"), (4_500, MB, "0.005"), (4_194_304, MB, "4.194"), (-500, MB, "-0.001"),
    (-499, MB, "0.000"), (10**18, MB, "1000000000000.000"), (4500.0, MB, "0.005"),
    (0.25, TENTHS, "0.3"), (0.75, TENTHS, "0.8"), (-0.25, TENTHS, "-0.3"), (0.35, TENTHS, "0.4"),
    (1521.35, TENTHS, "1521.4"), (12.0, TENTHS, "12.0"), (7, TENTHS, "7.0"), (-0.04, TENTHS, "0.0"),
    (1e22, TENTHS, "10000000000000000000000.0"), (5e-324, TENTHS, "0.0"),
    (1.5, Printed("x", 0), "2"), (3, Printed("x", 0, 2), "2"), (-3, Printed("x", 0, 2), "-2"),
])  # fmt: skip
def test_halves_go_away_from_zero(value: float, printed: Printed, text: str) -> None:
    """Of the decimal spelling: 0.35 is a little less than that as a double."""
    assert round_half_up(value, printed) == text


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 4), st.sampled_from([1, 1000, 1_000_000]))
def test_whole_numbers_are_rounded_as_decimals_are(value: int, decimals: int, per: int) -> None:
    step = Decimal(1).scaleb(-decimals)
    exact = (Decimal(value) / per).quantize(step, ROUND_HALF_UP)
    assert round_half_up(value, Printed("x", decimals, per)) == f"{exact if exact else abs(exact):f}"


@pytest.mark.parametrize(("number", "text"), [
    ("0", "0"), ("999", "999"), ("1000", "1,000"), ("-1234567.50", "-1,234,567.50"), ("", ""),
    ("1e+308", "1e+308"), ("0.000", "0.000"), ("-12", "-12"),
])  # fmt: skip
def test_commas_between_thousands(number: str, text: str) -> None:
    assert with_separators(number) == text


# -- the formats


@pytest.mark.parametrize("name", ["csv", "tsv", "json", "column"])
def test_a_format_to_the_last_byte(name: str) -> None:
    assert rendered(name, printed_report()) == kept(f"cuda_sum.{name}")


def test_json_of_one_is_an_array() -> None:
    assert [row["Num Calls"] for row in json.loads(kept("cuda_sum.json"))] == [1234567, 1, 0]


def test_json_of_an_empty_one_is_an_empty_array() -> None:
    nothing = build_table(COLUMNS, {column.name: [] for column in COLUMNS})
    assert rendered("json", Section("r", "R", COLUMNS, nothing, printed=PRINTED)) == "[]\n"


def test_json_of_several_is_the_document_unrounded() -> None:
    found = json.loads(rendered("json", printed_report("a"), printed_report("b")))
    assert [report["report"] for report in found["reports"]] == ["a", "b"]
    assert found["reports"][0]["rows"][0]["bytes_sum"] == 4_194_304


def test_json_of_one_that_is_not_recorded_is_the_document() -> None:
    missing = Section("r", "R", COLUMNS, None, not_recorded=("API calls",))
    assert json.loads(rendered("json", missing))["reports"][0]["rows"] is None


def test_column_of_a_report_of_our_own() -> None:
    columns = (Column("kernel_sum_ns", Unit.NS, "A time."), Column("kernel_pct", Unit.PCT, "A share."),
               Column("name", Unit.TEXT, "A name."))  # fmt: skip
    data = {"kernel_sum_ns": [1500, None], "kernel_pct": [62.5, 1.0], "name": ["k", None]}
    own = Section("kernels", "Kernels by name", columns, build_table(columns, data), row_count=2)
    assert rendered("column", own) == kept("own.column")


def names_only(*names: str) -> list[str]:
    """The lines of a table of names, without title and header."""
    columns = (Column("name", Unit.TEXT, "A name."),)
    report = Section("r", "R", columns, build_table(columns, {"name": names}), row_count=len(names),
                     printed={"name": Printed("Name")})  # fmt: skip
    return rendered("column", report).splitlines()[3:]


def test_cells_are_cut_at_100_characters() -> None:
    dashes, exact, cut = names_only("x" * 100, "y" * 101)
    assert dashes == " " + "-" * 100
    assert exact == " " + "x" * 100
    assert cut == " " + "y" * 99 + "…"


def test_where_the_sign_cannot_be_written_three_points_stand_for_it() -> None:
    columns = (Column("name", Unit.TEXT, "A name."),)
    table = build_table(columns, {"name": ["y" * 101]})
    report = Section("r", "R", columns, table, row_count=1, printed={"name": Printed("Name")})
    assert encoded("column", "ascii", report).splitlines()[-1] == " " + "y" * 97 + "..."


def test_the_first_100_rows_say_how_wide_a_column_is() -> None:
    dashes, *rows = names_only(*["ab"] * 99, "abcdef", "abcdefg")
    assert dashes == " ------"
    assert rows[98:] == [" ab    ", " abcdef", " abcde…"]


def test_an_empty_line_stands_between_two_tables() -> None:
    text = rendered("column", printed_report("a"), printed_report("b"))
    assert text.count("\n\n ** CUDA Summary (b):\n\n Time") == 1


@pytest.mark.parametrize("name", FORMATS)
def test_notes_stand_beside_where_the_format_has_no_place_for_them(name: str) -> None:
    reports = [printed_report()]
    assert ("without a time" in rendered(name, *reports)) is not lacks_notes(name, reports)


@pytest.mark.parametrize(("name", "told"), [("text", "1,234.3"), ("markdown", "| 1,234.3 |")])
def test_people_see_the_same_headers_and_figures(name: str, told: str) -> None:
    text = rendered(name, printed_report())
    assert told in text
    assert "Time (%)" in text
    assert "Total (MB)" in text


def test_a_page_sets_the_units_of_the_headers_apart() -> None:
    text = rendered("html", printed_report())
    assert "<td>1,234.3<" in text
    assert "Time <small>%</small>" in text
    assert "Total <small>MB</small>" in text


def test_only_some_printed_columns_do_not_make_a_printed_table() -> None:
    columns = (*COLUMNS[:1], Column("other_ns", Unit.NS, "A time."))
    table = build_table(columns, {"api_pct": [33.333], "other_ns": [5]})
    report = Section("r", "R", columns, table, row_count=1)
    assert rendered("csv", report) == "api_pct,other_ns\n33.333,5\n"
    assert "Time" not in rendered("text", report)


@given(
    st.one_of(
        st.floats(allow_nan=False, allow_infinity=False),
        st.tuples(st.integers(-(10**9), 10**9), st.integers(0, 4)).map(lambda p: p[0] / 10 ** p[1]),
        st.tuples(st.integers(10**11, 10**16), st.integers(0, 5)).map(lambda p: p[0] / 10 ** p[1]),
    ),
    st.integers(0, 4),
)
@example(0.25, 1)
@example(2.675, 2)
@example(-0.04, 1)
@example(1e15 + 0.25, 3)
@example(5e-7, 3)
def test_real_numbers_are_rounded_as_they_are_spelled(value: float, decimals: int) -> None:
    context = Context(prec=400, rounding=ROUND_HALF_UP)
    expected = Decimal(repr(value)).quantize(Decimal(1).scaleb(-decimals), context=context)
    assert round_half_up(value, Printed("", decimals)) == f"{expected if expected else abs(expected):f}"
