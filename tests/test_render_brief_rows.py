"""Tables as small JSON: what is kept, how much is cut, at most 4 kB; columns as JSON Schema."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import golden_cases
import pytest
from small_store import Kernel, Range, opened, write

from nsysconv.cli.app import app
from nsysconv.cli.flags import ANSWER
from nsysconv.notes import Note, Severity
from nsysconv.queries import REPORTS
from nsysconv.render import brief_rows
from nsysconv.render.contract import Options

STEPS = [Range(100 * i, 100 * i + 100, f"ProfilerStep#{i}") for i in range(3)]
MANY = [Kernel(10 * i, 10 * i + 5, name=f"kernel_{i:03}_with_a_name_that_is_long") for i in range(90)]


def brief(*reports: Any) -> dict[str, Any]:
    out = StringIO()
    brief_rows.render(reports, out, Options())
    assert len(out.getvalue().encode()) <= brief_rows.MOST_BYTES
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


def test_leading_columns_with_values_and_the_number_of_all_rows() -> None:
    with opened(*STEPS, *MANY[:2]) as profile:
        (table,) = brief(profile.report("kernels"))["reports"]
    name = MANY[0].name
    assert table["rows"][0] == {"profile": "small", "name": name, "kernel_count": 1, "kernel_sum_ns": 5,
                                "kernel_pct": 50.0, "avg_ns": 5.0}  # fmt: skip
    assert (table["name"], table["rows_total"], len(table["rows"])) == ("kernels", 2, 2)
    assert table["columns_omitted"] == 21 - 6


def test_what_does_not_fit_is_cut_from_the_longest() -> None:
    with opened(*STEPS, *MANY) as profile:
        kernels, steps = brief(profile.report("kernels"), profile.report("steps"))["reports"]
    assert kernels["rows_total"] == 90
    assert 3 < len(kernels["rows"]) < 90
    assert len(steps["rows"]) == steps["rows_total"] == 3


def test_all_reports_at_once_fit() -> None:
    with opened(*STEPS, *MANY) as profile:
        found = brief(*profile.reports(REPORTS))
    assert len(found["reports"]) + found["omitted"]["reports"] == len(REPORTS)
    assert [table["name"] for table in found["reports"]][:2] == list(REPORTS)[:2]
    assert all("rows" in table for table in found["reports"])


def test_a_report_without_rows_says_what_was_not_recorded() -> None:
    with opened(*MANY[:2]) as profile:
        found = brief(profile.report("kernels"), *profile.reports(["phases"]))
    assert found["reports"][1]["not_recorded"]
    assert found["omitted"]["reports"] == 0


def test_the_command_line(tmp_path: Path) -> None:
    write(tmp_path / "run.db", *STEPS, *MANY)
    done = golden_cases.run("report", "run.db", "kernels", "-f", "json", "--brief", cwd=tmp_path)
    assert json.loads(done.out)["reports"][0]["rows_total"] == 90
    wrong = golden_cases.run("report", "run.db", "kernels", "--brief", cwd=tmp_path)
    assert (wrong.status, "--brief is a form of JSON" in wrong.err) == (2, True)
    write(tmp_path / "other.db", *STEPS, *(k._replace(end=k.end + 1) for k in MANY))
    compared = golden_cases.run("diff", "run.db", "other.db", "-f", "json", "--brief", cwd=tmp_path)
    document = json.loads(compared.out)
    assert document["reports"][0]["name"] == "answer"
    assert len(compared.out.encode()) <= brief_rows.MOST_BYTES


@pytest.mark.parametrize("name", ["kernels", "operators:by=stack", "phases"])
def test_columns_as_json_schema(name: str, tmp_path: Path) -> None:
    done = golden_cases.run("schema", name, cwd=tmp_path)
    found = json.loads(done.out)
    assert (found["title"], found["type"]) == (name, "object")
    assert all(each["description"] and each["type"][1] == "null" for each in found["properties"].values())
    assert "profile" in found["properties"]


def test_what_was_lost_is_said_before_what_was_guessed() -> None:
    slugs = ("category-assumed", "launch-assumed", "clock-unchecked")
    guessed = [Note(slug, Severity.APPROXIMATED, "guessed") for slug in slugs]
    lost = Note("no-time", Severity.DROPPED, "lost")
    with opened(*STEPS, *MANY[:2]) as profile:
        report = replace(profile.report("kernels"), notes=(*guessed, lost))
    found = brief(report)
    assert [note["slug"] for note in found["notes"]] == ["no-time", "category-assumed"]
    assert found["omitted"]["notes"] == 2


def test_tables_of_commands_as_json_schema(tmp_path: Path) -> None:
    """Each table that is in an answer has one, with the answer's columns."""
    for number, label in enumerate("ab"):
        rows = (row._replace(end=row.end + number) for row in MANY)
        write(tmp_path / "run.db", *STEPS, *rows, label=label)
    asked = (
        ("diff", "run.db@a", "run.db@b", "--fail-on", "kernels.kernel_count:0"),
        ("find", "run.db@a", "."),
        ("why", "run.db@a", "kernel:1"),
        ("history", "run.db"),
    )
    listed = {}
    for command in asked:
        document = json.loads(golden_cases.run(*command, "-f", "json", cwd=tmp_path).out)
        listed |= {each["report"]: each["columns"] for each in document["reports"]}
        if "answer" in document:
            answer = set(document["answer"]) - {"line", "notes"}
            listed["diff"] = [{"name": name} for name in answer]
    compared = [name for name in listed if name.startswith("diff_")]
    assert len(listed) - len(compared) == 10
    for name, columns in listed.items():
        done = golden_cases.run("schema", name, cwd=tmp_path)
        if name in compared:
            assert (done.status, "is a comparison" in done.err) == (2, True)
        else:
            found = json.loads(done.out)["properties"]
            assert {each["name"] for each in columns} <= set(found), name
    commands = {each.name or each.callback.__name__.rstrip("_") for each in app.registered_commands}
    assert "runs" in commands
    for command in commands - {*listed, ANSWER}:
        done = golden_cases.run("schema", command, cwd=tmp_path)
        assert (done.status, "is a command" in done.err) == (2, True), command


def test_each_report_has_one(tmp_path: Path) -> None:
    wrong = golden_cases.run("schema", "kernel", cwd=tmp_path)
    assert (wrong.status, "Close to it: kernels" in wrong.err) == (2, True)
    assert golden_cases.run("schema", sorted(REPORTS)[0], cwd=tmp_path).status == 0
