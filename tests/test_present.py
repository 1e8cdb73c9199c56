"""What is declared about reports as data: reports.toml and looks.toml name only what there is."""

from __future__ import annotations

import pytest

from nsysconv import queries
from nsysconv.api import html_report
from nsysconv.document import Section
from nsysconv.present.tables import look_of, section
from nsysconv.queries.registry import parse_spec, query, view
from nsysconv.render import page
from nsysconv.report import Report

TRAITS = {"core", "over-ranks", "in-time", "split", "by-step", "tree", "events", "by-name", "slow"}
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
    assert entry.needs in ("", *html_report.NEEDED)
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
