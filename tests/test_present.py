"""What is declared about reports as data names only what there is; which findings the answer numbers."""

from __future__ import annotations

from typing import Any

import pytest

from nsysconv import queries
from nsysconv.api import html_report
from nsysconv.document import Section
from nsysconv.present.answer import shown_findings
from nsysconv.present.tables import look_of, section
from nsysconv.queries.registry import parse_spec, query, view
from nsysconv.render import page
from nsysconv.report import Report

TRAITS = {"core", "over-ranks", "in-time", "split", "by-step", "by-job", "tree", "events", "by-name",
          "if-any", "slow", "results"}  # fmt: skip
every_report = pytest.mark.parametrize("name", queries.REPORTS)


def specs(name: str) -> list[str]:
    """A report, and each of its views as it is asked for."""
    options = {option.name for option in query(name).options}
    return [name, *(f"{name}:{v if v in options else f'by={v}'}" for v in query(name).views)]


@every_report
def test_the_place_of_a_report_is_one_that_there_is(name: str) -> None:
    entry = queries.ENTRIES[name]
    assert entry.traits <= TRAITS
    assert entry.section in ("", *page.PARTS, *page.LAST_PARTS)
    assert entry.page_needs in ("", *html_report.NEEDED)
    assert {parse_spec(spec).name for spec in (*entry.page, *entry.beside)} <= {name}
    assert ("over-ranks" in entry.traits) == (query(name).over_ranks is not None)


@every_report
def test_what_people_see_of_a_report_is_about_its_columns(name: str) -> None:
    for spec in specs(name):
        columns, look = {c.name: c for c in view(parse_spec(spec)).columns}, look_of(spec)
        texts = {*look.get("words", ()), *look.get("prose", ())}
        drawn = look["picture"].columns if "picture" in look else ()
        assert {*look.get("leads", ()), *texts, *drawn} <= columns.keys()
        assert look.get("printed", columns).keys() == columns.keys()
        assert all(columns[each].kind == "text" for each in texts)


def test_a_section_has_the_look_of_its_report() -> None:
    columns = query("kernels").columns
    seen = section(Report("kernels", "Kernels", columns, None))
    assert isinstance(seen, Section)
    assert (seen.part, seen.leads) == ("Kernels", ("kernel_sum_ns",))
    assert not seen.texts and not seen.replaced


def finding(rule: str, share: float | None, kind: str) -> dict[str, Any]:
    """A row of `findings` as the answer reads it."""
    return {"rule": rule, "share_pct": share, "kind": kind, "where": None, "device_count": 1,
            "device_id": 0, "report": "kernels", "slice": None, "finding": "It is so.",
            "advice": "Do it.", "same_as": None}  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "numbered"),
    [
        ([("a", 30.0), ("b", 20.0), ("c", 10.0), ("d", 5.0)], ["a", "b", "c"]),
        # A cost behind the savings is larger than they are: it has a number, they keep their order.
        ([("a", 4.0), ("b", 3.0), ("c", 2.0), ("one_kernel", 50.5)], ["a", "b", "one_kernel"]),
        # The first of the list has a number whatever its size.
        ([("failed_calls", None), ("a", 30.0), ("b", 20.0), ("c", 10.0)], ["failed_calls", "a", "b"]),
        ([("a", 0.9), ("b", 0.5)], []),
        # One of a twentieth is named, not numbered.
        ([("a", 60.0), ("b", 3.0), ("c", 2.9)], ["a", "b"]),
    ],
)  # fmt: skip
def test_the_largest_findings_have_a_number(
    rows: list[tuple[str, float | None]], numbered: list[str]
) -> None:
    found = [finding(rule, share, "risk" if share is None else "saving") for rule, share in rows]
    assert [row["rule"] for row in shown_findings(found)] == numbered
    same = {**finding("z", 90.0, "saving"), "same_as": "a"}
    assert [row["rule"] for row in shown_findings([*found, same])] == numbered
