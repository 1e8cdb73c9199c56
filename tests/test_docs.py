"""The documentation is complete, current and true: its commands are run, its links lead somewhere."""

from __future__ import annotations

import contextlib
import doctest
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import docs_cli
import generate_docs
import pytest
from conftest import ROOT
from golden_cases import BASIC, place, run

from nsysconv import errors, notes, schema
from nsysconv.cli import runtime
from nsysconv.cli.app import app
from nsysconv.diff import gate
from nsysconv.facts import Fact
from nsysconv.importers.detection import all_importers
from nsysconv.queries import REPORTS, query
from nsysconv.render import FORMATS
from nsysconv.store.user_sql import views

DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
TERMINAL = 110
INPUTS = {"report1.sqlite": BASIC, "run.pt.trace.json": "kineto/training-2.13.json"}

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$|^ {4}.*$|`[^`\n]*`", re.M | re.S)


def text_of(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def page_id(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return [body for kind, body in _FENCE.findall(text) if kind == language]


def runs(page: Path) -> Iterator[tuple[str, str]]:
    """Commands of a page's console blocks and the output shown for each."""
    for block in blocks(page, "console"):
        for piece in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, output = piece.partition("\n")
            yield command, output


def fits(shown: str, actual: str) -> bool:
    """Whether output is as shown; a line that is `…` stands for any lines."""
    lines = "".join(
        r"(?:.*\n)*" if line == "…" else re.escape(line) + r"\n" for line in shown.splitlines()
    )
    return re.fullmatch(lines, re.sub(r"[ \t]+$", "", actual, flags=re.M)) is not None


WITH_COMMANDS = [page for page in PAGES if blocks(page, "console")]
WITH_PYTHON = [page for page in PAGES if blocks(page, "pycon")]


def test_output_that_differs_from_the_page_is_noticed() -> None:
    assert fits("a\n…\nd\n", "a\nb\nc\nd\n")
    assert not fits("a\n…\nd\n", "a\nb\n")
    assert not fits("a\n", "a\nb\n")


def test_the_readme_shows_commands_and_python() -> None:
    assert ROOT / "README.md" in WITH_COMMANDS
    assert ROOT / "README.md" in WITH_PYTHON


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=page_id)
def test_commands_print_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    place(INPUTS, tmp_path)
    for command, shown in runs(page):
        words = shlex.split(command)
        assert words[0] == "nsysconv", f"{command}: only nsysconv can be run"
        outcome = run(*words[1:], cwd=tmp_path, width=TERMINAL)
        assert outcome.status == 0, outcome.err
        assert fits(shown, outcome.out), f"$ {command}\n{outcome.out}"


@pytest.mark.parametrize("page", WITH_PYTHON, ids=page_id)
def test_python_prints_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    place(INPUTS, tmp_path)
    text = "\n".join(blocks(page, "pycon"))
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    with contextlib.chdir(tmp_path):
        assert doctest.DocTestRunner().run(test).failed == 0


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
    index = text_of("README.md")
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).as_posix()
        assert name == "README.md" or f"({name})" in index, f"docs/README.md has no link to {name}"


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
    page, definitions = text_of("reports.md"), text_of("definitions.md")
    for name in REPORTS:
        assert f"\n## {name}\n" in page, "run: make docs"
        assert f"`{name}`" in definitions, f"definitions.md does not name {name}"
        for column in query(name).every_column:
            assert f"| `{column.name}` |" in page, "run: make docs"


def test_formats_are_documented() -> None:
    for name in FORMATS:
        assert re.search(rf"--format`, `-f` [^|]*\b{name}\b", text_of("cli.md"))


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
    """What the second column of tables names that is no report, option, column, command or flag."""
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
