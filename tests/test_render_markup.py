"""Markdown and HTML in notebooks: a name stays a name, whatever it holds."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pyarrow as pa
import pytest
from markdown_it import MarkdownIt
from nasty import NAMES, all_reports, empty_report, nasty_report, unrecorded_report
from test_render import kept, rendered
from test_render_text import kernels

from nsysconv.names import escaped
from nsysconv.notes import Note, Severity
from nsysconv.render.html import fragment
from nsysconv.report import Report

SHOWN_NAMES = ["-" if name is None else escaped(name) for name in NAMES]


def markdown_shown(text: str) -> tuple[list[list[str]], str]:
    """The cells of the rows as a reader sees them, and all that is shown that is not code."""
    rows: list[list[str]] = []
    words = []
    for token in MarkdownIt("gfm-like", {"linkify": False}).parse(text):
        if token.type == "tr_open":
            rows.append([])
        if token.type == "html_block":
            assert token.content.strip() in FOLDS, token
            continue
        if token.type != "inline":
            assert token.type.rpartition("_")[0] in BLOCKS, token
            continue
        parts = token.children or []
        assert {part.type for part in parts} <= {"text", "code_inline", "text_special"}
        words += [part.content for part in parts if part.type != "code_inline"]
        if token.level == 4:  # in a cell
            rows[-1].append("".join(part.content for part in parts))
    return rows, "\n".join(words)


# Around the names that tables cut.
FOLDS = ("<details><summary>Whole names</summary>", "</details>")
BLOCKS = {
    "heading",
    "paragraph",
    "bullet_list",
    "list_item",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
}


def test_markdown_names_come_back() -> None:
    text = rendered("markdown", nasty_report())
    (header, *rows), _ = markdown_shown(text)
    assert header[:3] == ["device_id", "name", "bucket_min (µs)"]
    assert "| ---: | --- | ---: |" in text
    assert {len(row) for row in rows} == {len(header)}
    # Spaces at the ends of a cell are not shown. What is cut in a cell is whole below the table.
    shown = [row[1].strip() for row in rows[: len(NAMES)]]
    for cell, name in zip(shown, map(str.strip, SHOWN_NAMES), strict=True):
        assert cell == name or (len(cell) <= 60 and name in text), name
    assert "Whole names" in text


def test_markdown_holds_no_markup_of_a_name() -> None:
    text = rendered("markdown", *all_reports())
    markdown_shown(text)
    assert r"```a\|b\|\|c \\| `code` ``two`` *em* " in text
    assert all(line.isprintable() for line in text.split("\n"))


CALLS = (
    "@torvalds", "@org/team", "(@torvalds)", "#1", "GH-12", "gh-12", "JIRA-7", "http://evil.example",
    "https://evil.example/a?b", "ftp://evil.example", "www.evil.example", "WWW.evil.example",
    "me@evil.example", "mailto:me@evil.example", "xmpp:me@evil.example", "deadbee", "DEADBEE",
    "0123456789abcdef0123456789abcdef01234567", "user/repo@deadbeef1", "owner/repo#12",
    "group/project!12", "!12", "~label", '~"two words"', "%milestone", "%1", "$snippet", "&epic",
    "^alert#1", ":emoji:", ":+1:", "[vulnerability:1]", "[[_TOC_]]", "/close", "&commat;torvalds",
    "&#64;torvalds", "a&#x40;b.example", "<me@evil.example>", "<http://evil.example>", "[x](evil)",
    "![x](evil)", "*x*", "__x__", "~~x~~", "`@x`", "``@x", "@x`", "$a$", "\\@x", "a|@x|b", "a\\|@x",
    "@me x `` y ``` z",
)  # fmt: skip
"""What GitHub or GitLab would make a mention, a reference, a link, an image or a picture of."""


@pytest.mark.parametrize("name", CALLS)
def test_markdown_calls_nobody(name: str) -> None:
    whole = replace(
        kernels(),
        title=f"Of {name} title",
        notes=(Note("unknown-code", Severity.INFO, f"it is {name} here", where=name),),
        not_recorded=(),
    )
    at = whole.to_arrow().column_names.index("name")
    names = pa.array([name] * len(whole.to_arrow()))
    whole = replace(whole, table=whole.to_arrow().set_column(at, "name", names))
    rows, words = markdown_shown(rendered("markdown", whole))
    # As both look for them in what is shown outside of code: nothing of it is left there.
    assert [row[1] for row in rows[1:]] == [name] * 3
    assert name.split(" ")[0] not in words
    shown = "".join(
        "".join(part.content for part in token.children or [])
        for token in MarkdownIt("gfm-like", {"linkify": False}).parse(rendered("markdown", whole))
    )
    assert f"Of {name} title" in shown
    assert f"it is {name} here (at {name})" in shown


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        ("f<int>(float*, a::b)", "`f<int>(float*, a::b)`"),
        ("f(int, char)", "f(int, char)"),
        ("a || b", r"`a \|\| b`"),
    ],
)
def test_markdown_is_readable_as_it_is(name: str, written: str) -> None:
    table = kernels().to_arrow()
    names = pa.array([name] * len(table))
    table = table.set_column(table.column_names.index("name"), "name", names)
    assert f"| 0 | {written} | " in rendered("markdown", replace(kernels(), table=table))


def test_markdown_of_a_small_report() -> None:
    text = rendered("markdown", kernels(notes=kernels().notes[:1]))
    assert text == kept("kernels.markdown")


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
    assert "<p>No rows in this selection.</p>" in fragment(empty_report())
    unrecorded = fragment(unrecorded_report())
    assert "<p>Not recorded in this profile: kernel &lt;events&gt;, API|calls.</p>" in unrecorded
    assert r"<p>Then\x1b[2J import again.</p>" in unrecorded
