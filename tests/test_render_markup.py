"""Markdown and HTML in notebooks: a name stays a name, whatever it holds."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import pytest
from nasty import NAMES, all_reports, empty_report, nasty_report, unrecorded_report
from test_render import rendered
from test_render_text import kernels

from nsysconv.names import visible
from nsysconv.render.html import fragment
from nsysconv.report import Report

SHOWN_NAMES = ["-" if name is None else visible(name) for name in NAMES]


def markdown_rows(text: str) -> list[list[str]]:
    """The cells of the table's lines, cut at unescaped bars, their escapes undone."""
    lines = [line for line in text.split("\n") if line.startswith("| ")]
    split = [re.split(r"(?<!\\)(?:\\\\)*\|", line)[1:-1] for line in lines]
    return [[unescape(re.sub(r"\\([!-/:-@[-`{-~])", r"\1", c[1:-1])) for c in row] for row in split]


def test_markdown_names_come_back() -> None:
    header, rule, *rows = markdown_rows(rendered("markdown", nasty_report()))
    assert header[:3] == ["device_id", "name", "bucket_min (µs)"]
    assert rule[:3] == ["---:", "---", "---:"]
    assert {len(row) for row in rows} == {len(header)}
    assert [row[1] for row in rows] == SHOWN_NAMES


def test_markdown_holds_no_markup_of_a_name() -> None:
    text = rendered("markdown", *all_reports())
    assert not re.search(r"<[a-z/]", text)
    assert not re.search(r"(?<!\\)[`*](?!\*? (note|dropped|approximated) )", text)
    assert r"\*em\* \_\_global\_\_ \_x\_ \~\~no\~\~" in text
    assert r"\[t\](u)" in text
    assert all(line.isprintable() for line in text.split("\n"))


def test_markdown_of_a_small_report() -> None:
    text = rendered("markdown", kernels(notes=kernels().notes[:1]))
    assert text == (
        "## Kernels by time - base - slice 0 ns to 1.500000001 s\n"
        "\n"
        "| device_id | name | kernel_count | kernel_sum (ms) | kernel (%) | avg (µs) | min (µs) "
        "| stddev (ns) |\n"
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        "| 0 | ampere_sgemm_128x64_tn | 120,000 | 812.346 | 99.85 | 6.769 | 1.000 | 12.2 |\n"
        "| 0 | void at::native::fill_kernel&lt;4, at::native::FillFunctor&lt;float&gt;&gt;(int, "
        "float\\*, float) | 12 | 1.235 | 0.15 | 102.881 | 90.000 | 1.5 |\n"
        "| 1 | - | 1 | &lt;0.001 | &lt;0.01 | - | 0.000 | 0.0 |\n"
        "\n"
        "… 3 of 312 rows, --limit 0 shows all\n"
        "\n"
        "Not recorded in any row: queue_avg_ns\n"
        "\n"
        "* note graph-intervals: Graphs are intervals. (3 times, first at row 7)\n"
    )


class Page(HTMLParser):
    """Checks that every tag that opens closes, and gathers tags, attributes and cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.rows: list[list[str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


ALLOWED = {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "p", "strong", "ul", "li"}


@pytest.mark.parametrize("report", all_reports(), ids=lambda report: report.name)
def test_html_fragment_is_a_fragment(report: Report) -> None:
    page = Page(fragment(report))
    assert page.tags <= ALLOWED
    assert page.attributes <= {"class", "style", "scope", "title"}
    assert ("table" in page.tags) == (report.table is not None and report.table.num_rows > 0)


def test_html_names_come_back() -> None:
    header, *rows = Page(fragment(nasty_report())).rows
    assert header[:3] == ["device_id", "name", "bucket_min (µs)"]
    assert [row[1] for row in rows] == SHOWN_NAMES


def test_html_without_a_table() -> None:
    assert "<p>No rows in this slice.</p>" in fragment(empty_report())
    unrecorded = fragment(unrecorded_report())
    assert "<p>Not recorded in this profile: kernel &lt;events&gt;, API|calls.</p>" in unrecorded
    assert r"<p>Then\x1b[2J import again.</p>" in unrecorded
