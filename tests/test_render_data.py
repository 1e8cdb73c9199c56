"""JSON, CSV and TSV: what is parsed back is what the report holds."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from typing import Any

import pytest
from nasty import (
    COLUMNS,
    LARGEST,
    NOTES,
    ROWS,
    all_reports,
    empty_report,
    nasty_report,
    unrecorded_report,
)
from test_render import encoded, kept, rendered

from nsysconv.document import Section
from nsysconv.notes import Note, Severity
from nsysconv.report import Column, ProfileRef, Unit, build_table

NAMES = [column.name for column in COLUMNS]


def spelled(text: str) -> str:
    """Lone surrogates cannot be written in UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def no_constants(token: str) -> None:
    raise AssertionError(f"{token} is no JSON")


def parsed(*reports: Section) -> Any:
    return json.loads(rendered("json", *reports), parse_constant=no_constants)


def test_json_gives_the_rows_back() -> None:
    (report,) = parsed(nasty_report())["reports"]
    # A table holds no lone surrogates: they are spelled out on the way in.
    spelled = [
        {k: v.encode("utf-8", "backslashreplace").decode() if isinstance(v, str) else v
         for k, v in row.items()}
        for row in ROWS
    ]  # fmt: skip
    rows = [{k: v for k, v in row.items() if k != "key"} for row in report["rows"]]
    assert rows == spelled
    assert rows[0]["call_count"] == LARGEST
    # 1 == 1.0 in Python: the types have to be equal, too.
    types = [{k: type(v) for k, v in row.items()} for row in rows]
    assert types == [{k: type(v) for k, v in row.items()} for row in ROWS]


def test_json_form() -> None:
    document = parsed(nasty_report())
    assert list(document) == ["format", "reports"]
    assert document["format"] == 2
    (report,) = document["reports"]
    assert list(report) == [
        "report",
        "profiles",
        "slice",
        "columns",
        "row_count",
        "rows_shown",
        "rows_cut",
        "rows",
        "notes",
        "not_recorded",
    ]
    assert report["report"] == "nasty"
    assert report["profiles"] == [
        {"id": 1, "label": "run \x1b[1m<1>", "source": "made up", "path": "/tmp/a \ud800\n|b"}
    ]
    assert report["slice"] == {"start_ns": -1, "end_ns": 2**53}
    assert [column["name"] for column in report["columns"]] == NAMES
    assert report["columns"][4] == {
        "name": "bucket_min_ns",
        "unit": "ns",
        "doc": "A key that is a quantity.",
        "key": True,
        "better": None,
        "adds": False,
    }
    assert (report["row_count"], report["rows_shown"]) == (10**6, len(ROWS))
    assert report["rows_cut"] == 10**6 - len(ROWS)
    assert [list(row) for row in report["rows"]] == [["key", *NAMES]] * len(ROWS)
    # The rank is null everywhere, the device in the fourth row, the name in the fifth.
    first = "device_id=0 | name=ampere_sgemm_128x64_tn | bucket_min=0 ns"
    assert report["rows"][0]["key"] == first
    assert report["rows"][3]["key"] == "name= | bucket_min=3 µs"
    assert report["rows"][4]["key"] == "device_id=0 | bucket_min=4 µs"
    assert report["notes"][0] == {
        "slug": "graph-intervals",
        "severity": "info",
        "count": 3,
        "of": None,
        "where": "graph\t|id <7>",
        "text": "Three [bold]graphs[/bold].",
    }
    assert [note["slug"] for note in report["notes"]] == [note.slug for note in NOTES]
    assert report["not_recorded"] == []


def test_json_notes_say_of_how_many_rows() -> None:
    note = Note("wrong-type", Severity.DROPPED, "rows with text for a time", 3, of=10)
    (report,) = parsed(replace(empty_report(), notes=(note,)))["reports"]
    assert (report["notes"][0]["count"], report["notes"][0]["of"]) == (3, 10)


def test_json_empty_and_unrecorded() -> None:
    empty, unrecorded = parsed(empty_report(), unrecorded_report())["reports"]
    counts = ("row_count", "rows_shown", "rows_cut")
    assert (empty["rows"], empty["not_recorded"]) == ([], [])
    assert [empty[count] for count in counts] == [0, 0, 0]
    assert [unrecorded[name] for name in ("rows", *counts)] == [None, None, None, None]
    assert unrecorded["not_recorded"] == ["kernel <events>", "API|calls"]
    assert parsed(replace(empty_report(), slice=None))["reports"][0]["slice"] is None
    assert parsed() == {"format": 2, "reports": []}


def test_json_says_how_many_rows_were_cut() -> None:
    """Of five rows a limit leaves two."""
    columns = (Column("name", Unit.TEXT, "A name.", key=True),)
    table = build_table(columns, {"name": list("abcab")})
    whole = Section("calls", "Calls", columns, table, row_count=5)
    (report,) = parsed(whole.limited(2))["reports"]
    assert (report["row_count"], report["rows_shown"], report["rows_cut"]) == (5, 2, 3)
    assert report["rows"] == [{"key": "name=a", "name": "a"}, {"key": "name=b", "name": "b"}]
    (report,) = parsed(whole)["reports"]
    assert (report["row_count"], report["rows_shown"], report["rows_cut"]) == (5, 5, 0)
    # A limit changes no key: the rows that it leaves are the first.
    keys = [row["key"] for row in report["rows"]]
    assert keys == ["name=a", "name=b", "name=c", "name=a #2", "name=b #2"]


def test_json_text_of_a_small_report() -> None:
    columns = (
        Column("name", Unit.TEXT, "A name.", key=True),
        Column("avg_ns", Unit.NS, "A mean.", real=True),
    )
    table = build_table(columns, {"name": ["é", None], "avg_ns": [47.5, None]})
    profiles = (ProfileRef(3, "base", "made up", "a.db"),)
    report = Section("calls", "Calls", columns, table, profiles, row_count=2)
    assert rendered("json", report) == kept("small.json")


def test_json_steers_no_terminal() -> None:
    text = rendered("json", *all_reports())
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u2028\u202e\ufeff]", text)


def test_json_in_ascii_is_the_same_json() -> None:
    assert json.loads(encoded("json", "ascii", nasty_report())) == parsed(nasty_report())


def as_cells(row: dict[str, Any]) -> list[str]:
    return ["" if value is None else spelled(str(value)) for value in row.values()]


def test_csv_gives_the_rows_back() -> None:
    text = rendered("csv", nasty_report())
    header, *found = csv.reader(io.StringIO(text, newline=""))
    assert header == NAMES
    assert found == [as_cells(row) for row in ROWS]
    for cells, row in zip(found, ROWS, strict=True):
        for text, (name, value) in zip(cells, row.items(), strict=True):
            if value is not None and name not in ("profile", "name", "next_op", "remark"):
                assert type(value)(text) == value  # not a digit is lost


def test_csv_text_of_a_small_report() -> None:
    columns = (
        Column("name", Unit.TEXT, "A name.", key=True),
        Column("call_count", Unit.COUNT, "Calls."),
        Column("avg_ns", Unit.NS, "A mean.", real=True),
    )
    names = ["=cmd()", 'a "b", c', "one\rtwo", None]
    table = build_table(
        columns, {"name": names, "call_count": [1, None, -3, 0], "avg_ns": [0.1, 1e22, None, 5]}
    )
    report = Section("calls", "Calls", columns, table, row_count=4)
    assert rendered("csv", report) == (
        'name,call_count,avg_ns\n=cmd(),1,0.1\n"a ""b"", c",,1e+22\n"one\rtwo",-3,\n,0,5.0\n'
    )
    assert rendered("tsv", report) == (
        'name\tcall_count\tavg_ns\n=cmd()\t1\t0.1\na "b", c\t\t1e+22\none\\rtwo\t-3\t\n\t0\t5.0\n'
    )


_BACK = {"\\\\": "\\", "\\t": "\t", "\\n": "\n", "\\r": "\r"}


def test_tsv_gives_the_rows_back() -> None:
    header, *lines = rendered("tsv", nasty_report()).removesuffix("\n").split("\n")
    assert header.split("\t") == NAMES
    assert len(lines) == len(ROWS)
    for line, row in zip(lines, ROWS, strict=True):
        expected = ["" if value is None else str(value) for value in row.values()]
        # A surrogate is spelled out last, after the backslashes of the name were doubled.
        expected = [
            re.sub(r"[\ud800-\udfff]", lambda found: spelled(found[0]), t) for t in expected
        ]
        cells = [
            re.sub(r"\\[\\tnr]", lambda found: _BACK[found[0]], cell) for cell in line.split("\t")
        ]
        assert cells == expected


@pytest.mark.parametrize("name", ["csv", "tsv"])
@pytest.mark.parametrize("report", [empty_report(), unrecorded_report()], ids=lambda r: r.name)
def test_only_a_header_without_rows(name: str, report: Section) -> None:
    separator = "," if name == "csv" else "\t"
    assert rendered(name, report) == separator.join(NAMES) + "\n"
