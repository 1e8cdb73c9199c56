"""The documentation is complete, current and true: its commands are run, its links lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import docs_cli
import docs_console
import docs_pictures
import generate_docs
import pytest
from conftest import ROOT
from pages import page_of
from small_store import Kernel

from nsysconv import errors, notes, schema
from nsysconv.cli import runtime
from nsysconv.cli.app import app
from nsysconv.diff import gate
from nsysconv.facts import Fact
from nsysconv.importers.detection import all_importers
from nsysconv.queries import CORE, REPORTS, query
from nsysconv.render import FORMATS
from nsysconv.store.user_sql import views

DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])

_IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)|(?:src|srcset)=\"([^\"]+)\"")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$|^ {4}[^\n]*$|`[^`\n]*`", re.M | re.S)


def text_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def definitions_text() -> str:
    """All chapters of docs/definitions/, one after the other."""
    chapters = sorted((DOCS / "definitions").glob("*.md"))
    return "\n".join(chapter.read_text(encoding="utf-8") for chapter in chapters)


def page_id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_the_readme_shows_an_answer_and_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert ROOT / "README.md" in docs_console.pages()
    assert len(text.splitlines()) <= 120


def test_every_core_report_and_picture_is_in_the_gallery() -> None:
    text = text_of("gallery.md")
    for name in CORE:
        assert f"\n## {name}\n" in text
    for name in docs_pictures.DRAWN:
        assert f"(images/gallery-{name}.svg)" in text


def test_the_picture_of_the_time_line_shows_its_canvas(tmp_path: Path) -> None:
    how = docs_pictures.PHOTOGRAPHS["page-timeline"]
    assert how.section == "#lanes"
    text = page_of(tmp_path, Kernel(0, 10), Kernel(20, 30))
    inside = text.partition('<div class="lanes" id="lanes"')[2].partition("</article>")[0]
    assert "<canvas" in inside
    # What is followed leads to a gap, so that one is seen.
    gaps = text.partition('<table id="t-idle-gaps"')[2].partition("</table>")[0]
    assert how.follow == "#t-idle-gaps tr[data-to]"
    assert re.search(r'<tr[^>]* data-to="time=[^"]*event=gap:1"', gaps)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_pictures_are_there(page: Path) -> None:
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    for names in _IMAGE.findall(text):
        (name,) = filter(None, names)
        assert (page.parent / name).is_file(), name


def test_links_out_of_the_site_become_text() -> None:
    pytest.importorskip("mkdocs")
    import site_hooks

    text = "[a](../README.md), [b](json.md#x), [it](../LICENSE), ![p](x.png), `[c](y)`"
    assert site_hooks.led_within_site(text, "json.md") == (
        "[a](README.md), [b](json.md#x), it (`LICENSE` in the repository), ![p](x.png), `[c](y)`"
    )
    assert site_hooks.led_within_site("[a](../../README.md)", "formats/nsys.md") == "[a](../README.md)"


@pytest.mark.parametrize("page", generate_docs.PAGES)
def test_generated_pages_are_current(page: str) -> None:
    assert text_of(page) == generate_docs.text_of(page), "run: make docs"


def headings(path: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    text = re.sub(r"^```.*?^```$", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, re.M)
    words = (re.sub(r"[^\w\s-]", "", title.lower()).strip() for title in titles)
    return {re.sub(r"\s", "-", title) for title in words}


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_point_to_existing_pages_and_headings(page: Path) -> None:
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    for link in _LINK.findall(text):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        assert not anchor or anchor in headings(target), link


# Made by measuring: `make bench` names the functions of the tree that it measured.
WITH_MODULES = [page for page in PAGES if page.name != "performance.md"]
_MODULE = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.py)\b")


@pytest.mark.parametrize("page", WITH_MODULES, ids=page_id)
def test_modules_that_a_page_names_exist(page: Path) -> None:
    for name in _MODULE.findall(page.read_text(encoding="utf-8")):
        assert (ROOT / name).exists() or (ROOT / "nsysconv" / name).exists(), name


def test_every_page_is_in_the_index() -> None:
    for page in DOCS.rglob("*.md"):
        # The contents of a folder, or else the front page.
        own = page.parent / "README.md"
        index = own if own.is_file() and own != page else DOCS / "README.md"
        name = page.relative_to(index.parent).as_posix()
        assert page == index or f"({name}" in index.read_text("utf-8"), f"no link to {name}: make docs"


def commands() -> list[str]:
    return [
        command.name or command.callback.__name__
        for command in app.registered_commands
        if command.callback is not None
    ]


def test_commands_are_documented() -> None:
    page, readme = text_of("cli.md"), (ROOT / "README.md").read_text(encoding="utf-8")
    for command in commands():
        assert f"## nsysconv {command}\n" in page
        assert f"`{command}`" in readme or f"nsysconv {command} " in readme, command


def test_exit_statuses_are_documented() -> None:
    ours = {error.exit_status for error in errors.NsysconvError.__subclasses__()}
    ended = {128 + number for number in runtime.ENDING_SIGNALS}
    assert ours | {0, gate.EXCEEDED, errors.NsysconvError.exit_status} | ended == set(
        docs_cli.EXIT_STATUSES
    )
    for error in errors.NsysconvError.__subclasses__():
        assert f"`{error.__name__}`" in text_of("messages.md")


def test_reports_are_documented() -> None:
    page, definitions = text_of("reports.md"), definitions_text()
    for name in REPORTS:
        assert f"\n## {name}\n" in page, "run: make docs"
        assert f"`{name}`" in definitions, f"docs/definitions/ does not name {name}"
        for column in query(name).every_column:
            assert f"| `{column.name}` |" in page, "run: make docs"


def test_formats_are_documented() -> None:
    for name in FORMATS:
        assert re.search(rf"--format`, `-f` [^\n]*\b{name}\b", text_of("cli.md"))


def test_tables_and_views_are_documented() -> None:
    page = text_of("schema.md")
    for table in schema.metadata.sorted_tables:
        assert table.comment, table.name
        assert f"\n## {table.name}\n" in page
        for column in table.columns:
            assert column.comment, f"{table.name}.{column.name}"
            assert "unit" in column.info, f"{table.name}.{column.name}"
    for view in views():
        assert f"\n### {view}\n" in page
    assert max(schema.VERSIONS) == schema.SCHEMA_VERSION


def test_sources_and_facts_are_documented() -> None:
    page = text_of("sources.md")
    for importer in all_importers():
        assert f"## {importer.TITLE}\n" in page
    for fact in Fact:
        assert f"`{fact}`" in page


def test_messages_are_documented() -> None:
    for slug, meaning in notes.meanings().items():
        assert f"### {slug}\n\n{meaning}\n" in text_of("messages.md")


def test_the_makefile_explains_its_targets() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    (phony,) = re.findall(r"^\.PHONY: (.+)$", text, re.M)
    explained = re.findall(r"^([a-z-]+):.*## .+$", text, re.M)
    assert sorted(explained) == sorted(phony.split())


_TABLE_ROW = re.compile(r"^\| [^|]* \| ([^|]*) \|$", re.M)


def unknown_names(page: str) -> Iterator[str]:
    """What the second column of tables names that is not a report, option, column, command or flag."""
    known = {column.name for name in REPORTS for column in query(name).every_column}
    known |= {*REPORTS, ""}
    known |= {f"{name}:{option.name}" for name in REPORTS for option in query(name).options}
    known |= {f"nsysconv {command}" for command in commands()}
    flags = set(re.findall(r"`(--[a-z-]+)`", text_of("cli.md")))
    for cell in _TABLE_ROW.findall(page):
        for code in re.findall(r"`([^`]+)`", cell):
            name = re.sub(r"=.*| ?--.*", "", code)
            if name not in known or not set(re.findall(r"--[a-z-]+", code)) <= flags:
                yield code


def test_names_beside_those_of_other_tools_are_ours() -> None:
    assert list(unknown_names(text_of("other-tools.md"))) == []
    wrong = "| a | `kernels`, `no_such_ns`, `operators:by=x` |\n| b | `operators:x`, `steps --x` |\n"
    assert list(unknown_names(wrong)) == ["no_such_ns", "operators:x", "steps --x"]
