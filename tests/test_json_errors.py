"""Errors with `-f json`: a line of JSON on stderr, the same exit status; brief JSON of all commands."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, ROOT
from golden_cases import run
from small_store import Kernel, Range, write

from nsysconv import errors
from nsysconv.api.open_profile import SeveralChoicesError
from nsysconv.cli import json_errors
from nsysconv.render import brief_rows

NAMES = [f"kernel_{i:03}_{'x' * 40}" for i in range(90)]
ROWS = (Range(0, 100, "ProfilerStep#1"), *(Kernel(i, i + 1, name=n) for i, n in enumerate(NAMES)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("errors")
    write(made / "run.db", *ROWS)
    for label in ("a", "b"):
        write(made / "two.db", *ROWS, label=label, run=label)
    (made / "notes.txt").write_text("hello")
    shutil.copy(FIXTURES / "nsys" / "no_gpu-3.25.0.sqlite", made / "cpu.sqlite")
    return made


@pytest.mark.parametrize(("command", "slug", "text", "following"), [
    ("report run.db kernel", "usage", "no report 'kernel'", ["nsysconv report --list"]),
    ("report run.db memory", "", "", []),
    ("why cpu.sqlite kernel:1", "not-recorded", "not recorded", None),
    ("why run.db kernel:91", "usage", "no event kernel:91", []),
    ("info nosuch.db", "input", "nosuch.db: no such file", []),
    ("info notes.txt", "no-profile", "notes.txt", None),
    ("info two.db", "several-choices", "two.db", []),
    ("report run.db kernels --device 7", "absent", "device 7", []),
    ("report run.db --limitt 3", "usage", "--limitt", ["nsysconv report --help"]),
    ("report run.db kernels --limit x", "usage", "'x' is not a valid int", ["nsysconv report --help"]),
    ("sql run.db 'drop table kernel'", "usage", "", None),
])  # fmt: skip
def test_errors_as_json(
    command: str, slug: str, text: str, following: list[str] | None, folder: Path
) -> None:
    words = shlex.split(command)
    plain, done = run(*words, cwd=folder), run(*words, "-f", "json", cwd=folder)
    assert done.status == plain.status
    if not slug:  # what is not recorded is in the document
        return
    error: dict[str, Any] = json.loads(done.err.splitlines()[-1])["error"]
    assert (error["slug"], error["exit_status"]) == (slug, done.status)
    assert text in error["text"]
    assert following is None or error["next"] == following
    assert done.out == ""


@pytest.mark.parametrize(("arguments", "asked"), [
    ("-f json", True), ("--format json", True), ("-fjson", True), ("--format=json", True),
    ("-f csv", False),
    ("json", False), ("-o x.json", False), ("profile -- nsys -f json", False),
])  # fmt: skip
def test_who_asks_for_json(arguments: str, asked: bool) -> None:
    assert json_errors.wanted(arguments.split()) is asked


def test_every_kind_of_error_is_documented() -> None:
    text = (ROOT / "docs" / "json.md").read_text("utf-8").partition("## Errors")[2].partition("\n## ")[0]
    kinds = [each for each in vars(errors).values()
             if isinstance(each, type) and issubclass(each, errors.NsysconvError)]  # fmt: skip
    kinds = [each for each in kinds if each is not errors.NsysconvError]
    made = [each.__new__(each) for each in (*kinds, SeveralChoicesError, OSError, ValueError)]
    for slug in map(json_errors.slug, made):
        assert f"`{slug}`" in text, slug


@pytest.mark.parametrize("command", [
    "run.db", "report run.db kernels", "why run.db kernel:1", "find run.db kernel", "info run.db",
    "runs run.db",
    "history two.db", "diff run.db run.db", "sql run.db 'select * from v_kernel'",
])  # fmt: skip
def test_brief_of_every_command(command: str, folder: Path) -> None:
    words = shlex.split(command)
    done = run(*words, "-f", "json", "--brief", cwd=folder)
    assert done.status == 0, done.err
    assert len(done.out.encode()) <= brief_rows.MOST_BYTES
    assert done.out.count("\n") == 1
    assert json.loads(done.out)["format"] == 2
    wrong = run(*words, "--brief", cwd=folder)
    assert (wrong.status, "--brief is a form of" in wrong.err) == (2, True)


@pytest.mark.parametrize("command", ["report run.db kernels", "find run.db kernel",
                                     "sql run.db 'select * from v_kernel'"])  # fmt: skip
def test_a_limit_asks_for_more(command: str, folder: Path) -> None:
    done = run(*shlex.split(command), "-f", "json", "--brief", "--limit", "90", cwd=folder)
    table = json.loads(done.out)["reports"][-1]
    assert (table["rows_total"], len(table["rows"])) == (90, 90)
    assert len(done.out) > brief_rows.MOST_BYTES
