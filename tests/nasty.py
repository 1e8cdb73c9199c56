"""One report that holds whatever a renderer could trip over, and its two silent siblings.

Made up. `ROWS` are the values that a reader of JSON or CSV has to get back: `None` where the report
was given null, NaN or infinity.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from nsysconv.document import Section
from nsysconv.notes import Note, Severity
from nsysconv.report import Column, ProfileRef, Unit, build_table

LARGEST = 2**63 - 1
SMALLEST = -(2**63) + 1  # the one below stands for "not recorded"

LONG_KERNEL = (
    "void at::native::elementwise<"
    + ", ".join(f"std::array<char*, {i}ul>" for i in range(160))
    + ">(int, at::native::Functor<float>, char const*)"
)
LONG_WORD = "x" * 4000

NAMES: tuple[str | None, ...] = (
    "ampere_sgemm_128x64_tn",
    LONG_KERNEL,
    LONG_WORD,
    "",
    None,
    "-",
    " leading and trailing ",
    "tab\there, line\nbreak, carriage\rreturn, both\r\n, backslash-n \\n, nul \x00",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b31m bell\a delete\x7f",
    "\u202eright to left\u202c zero\u200bwidth line\u2028separator \ufeffmark",
    "[bold]markup[/bold] [/] [link=file:///etc/passwd]x[/link] :smile: [red",
    "a|b||c \\| `code` ``two`` *em* __global__ _x_ ~~no~~ $x$ # [t](u) ![i](u)",
    "<script>alert('x')</script> <b>&amp; &lt; </td></table> \" ' -->",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-1",
    "@SUM(A1)",
    "say \"hi\", he said; then 'left'",
    "核函数_矩阵乘法<浮点>，中文名字很长很长很长很长很长很长很长很长很长很长很长很长很长很长",
    "カーネル ｶｰﾈﾙ 커널",
    "🚀 rocket 👩🏽‍🚀 family 🇩🇪 flag ❤️ e\u0301 combining",
    "lone surrogates \ud800 and \udfff here",
    "non\u00a0breaking ideographic\u3000space",
    "null",
    "NaN",
)

_INTS: tuple[int | None, ...] = (LARGEST, SMALLEST, 0, None, 1, -1, 2**53 + 1, 999, 1000, 10**9)
_FLOATS: tuple[float | None, ...] = (
    1e308,
    -1e308,
    5e-324,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    None,
    0.1,
    1 / 3,
    1e15,
    12345.678,
)

COLUMNS: tuple[Column, ...] = (
    Column("profile", Unit.TEXT, "The profile.", key=True),
    Column("rank", Unit.ID, "Null in every row.", key=True),
    Column("device_id", Unit.ID, "An id.", key=True),
    Column("name", Unit.TEXT, 'A "name" with <b>markup</b> in its doc.', key=True),
    Column("bucket_min_ns", Unit.NS, "A key that is a quantity.", key=True),
    Column("next_op", Unit.TEXT, "A second text.", brief=False),
    Column("call_count", Unit.COUNT, "A count."),
    Column("mean_count", Unit.COUNT, "A mean of counts.", real=True, brief=False),
    Column("sum_ns", Unit.NS, "A time.", better="less"),
    Column("avg_ns", Unit.NS, "A mean of times.", real=True, brief=False),
    Column("bytes", Unit.BYTES, "An amount.", brief=False),
    Column("share_pct", Unit.PCT, "A share of the sum."),
    Column("throughput_bytes_per_s", Unit.BYTES_PER_S, "A rate.", better="more", brief=False),
    Column("never_ns", Unit.NS, "Null in every row."),
    Column("remark", Unit.TEXT, "Empty in every row.", brief=False),
)

_GIVEN: list[dict[str, Any]] = [
    {
        "profile": "run \x1b[1m<1>",
        "rank": None,
        "device_id": (0, LARGEST, SMALLEST, None)[i % 4],
        "name": name,
        "bucket_min_ns": i * 1000,
        "next_op": NAMES[-1 - i],
        "call_count": _INTS[i % len(_INTS)],
        "mean_count": _FLOATS[i % len(_FLOATS)],
        "sum_ns": _INTS[(i + 1) % len(_INTS)],
        "avg_ns": _FLOATS[(i + 1) % len(_FLOATS)],
        "bytes": _INTS[(i + 2) % len(_INTS)],
        "share_pct": _FLOATS[(i + 2) % len(_FLOATS)],
        "throughput_bytes_per_s": _FLOATS[(i + 3) % len(_FLOATS)],
        "never_ns": None,
        "remark": "",
    }
    for i, name in enumerate(NAMES)
]


def _read_back(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


ROWS: list[dict[str, Any]] = [
    {key: _read_back(value) for key, value in row.items()} for row in _GIVEN
]

NOTES = (
    Note("graph-intervals", Severity.INFO, "Three [bold]graphs[/bold].", 3, "graph\t|id <7>"),
    Note("negative-duration", Severity.DROPPED, "Left out:\n\x1b[2J* all", 12345),
    Note("duplicate-name", Severity.APPROXIMATED, "ids `1` & `2`", 1, LONG_WORD),
    Note("stray-pid", Severity.INFO, "\ud800 核 _x_"),
)


def nasty_report(name: str = "nasty") -> Section:
    """A report with rows."""
    return Section(
        name,
        "Nasty <i>things</i> \x1b[5m& [bold]more[/bold] 核",
        COLUMNS,
        build_table(COLUMNS, {c.name: [row[c.name] for row in _GIVEN] for c in COLUMNS}),
        profiles=(ProfileRef(1, "run \x1b[1m<1>", "made up", "/tmp/a \ud800\n|b"),),
        slice={"start_ns": -1, "end_ns": 2**53},
        notes=NOTES,
        row_count=10**6,
    )


def empty_report() -> Section:
    """The question could be answered: there is nothing of the kind."""
    nothing = build_table(COLUMNS, {column.name: [] for column in COLUMNS})
    return replace(nasty_report("empty"), table=nothing, row_count=0)


def unrecorded_report() -> Section:
    """The question could not be answered."""
    return replace(
        nasty_report("unrecorded"),
        table=None,
        row_count=0,
        not_recorded=("kernel <events>", "API|calls"),
        advice=("Record with `--trace=cuda`.\nThen\x1b[2J import again.",),
    )


def two_profiles() -> Section:
    """The same rows of two profiles, so that the profile's column tells something."""
    report = nasty_report("two")
    return replace(report, profiles=(*report.profiles, ProfileRef(2, "", "made up", "/tmp/b")))


def all_reports() -> list[Section]:
    """Every variant."""
    return [nasty_report(), empty_report(), unrecorded_report(), two_profiles()]
