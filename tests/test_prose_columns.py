"""A column's description can be read alone, and no docstring or comment begins without a verb."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT

from nsysconv import queries
from nsysconv.diff import account
from nsysconv.queries import find
from nsysconv.queries.why import columns as why
from nsysconv.report import Column

OTHERS = {
    "contributors": account.CONTRIBUTOR_COLUMNS,
    "account": account.ACCOUNT_COLUMNS,
    "find": find.COLUMNS,
    "why": why.COLUMNS,
}
# What a reader of one description cannot know the meaning of, and what an adjective says better.
UNCLEAR = re.compile(
    r"^(?:Its|Their|They|It|Those|Of|Which|Who|When|Where it|How (?:long|many|much|often|exact|fast))\b"
    r"|^That\.|^(?:What it|What they|The most|The least|The greatest)\b"
    r"|\badded up; |, added up\.|\bnone did\b|\bset against\b|\blies in no\b|\bthe source gives\b"
)  # fmt: skip


def _columns(report: str) -> list[Column]:
    declared = queries.query(report)
    views = (declared.views or {}).values()
    return [*declared.columns, *(column for view in views for column in view.columns)]


@pytest.mark.parametrize("report", [*queries.REPORTS, *OTHERS])
def test_a_description_can_be_read_alone(report: str) -> None:
    columns = OTHERS[report] if report in OTHERS else _columns(report)
    unclear = {column.name: column.doc for column in columns if UNCLEAR.search(column.doc)}
    assert unclear == {}


def test_unclear_descriptions_are_found() -> None:
    for text in ("Its length.", "How long it took.", "When it began.", "The time of all, added up."):
        assert UNCLEAR.search(text), text
    for text in ("Length of the gap.", "Total duration of the calls.", "Start of the event."):
        assert not UNCLEAR.search(text), text


@pytest.mark.parametrize("folder", ["nsysconv", "scripts", "benchmarks", "fuzz", "ci"])
def test_no_text_in_code_begins_with_of(folder: str) -> None:
    """It would be a heading, not a sentence: `Of more steps lines are drawn`."""
    # A comment's later lines may begin with any word.
    begins = re.compile(r'^(?![ ]*#).*\n[ ]*# Of \w|"""Of \w', re.M)
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*.py")}
    found = {str(path.relative_to(ROOT)): begins.findall(text) for path, text in texts.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}
