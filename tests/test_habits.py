"""Forms, workflows, hooks, the citation, the manual page: each says what is true of the code."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from typing import Any

import make_man_page
import pytest
from conftest import ROOT
from test_docs import commands

import nsysconv

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FORMS = sorted({*(ROOT / ".github" / "ISSUE_TEMPLATE").iterdir()}
               - {ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"})  # fmt: skip


def read(name: str) -> Any:
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def test_the_workflow_runs_what_anybody_can_run() -> None:
    (job,) = read(".github/workflows/ci.yml")["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    named = {name.rpartition(":: ")[2] for name in PROJECT["classifiers"] if ":: 3." in name}
    assert set(job["strategy"]["matrix"]["python"]) == named


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.name)
def test_forms_ask_for_info_and_warn_of_tokens(form: Any) -> None:
    found = read(form.relative_to(ROOT))
    assert {"name", "description", "body"} <= set(found)
    fields = [item for item in found["body"] if item["type"] != "markdown"]
    assert len({item["id"] for item in fields}) == len(fields)
    asked = [item for item in fields if "nsysconv info FILE" in item["attributes"]["label"]]
    assert len(asked) == 1
    assert "tokens" in str(found["body"])


def test_hooks_run_what_check_runs_with_its_versions() -> None:
    (repository,) = read(".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    check = re.search(r"^check:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M)
    assert check is not None
    hooks = [hook for hook in repository["hooks"] if hook["language"] == "system"]
    assert len(hooks) == 4
    for hook in hooks:
        program = hook["entry"].removeprefix(".venv/bin/").partition(" ")[0]
        assert hook["entry"].startswith(".venv/bin/")
        assert f"$(BIN)/{program}" in check[1]


def test_no_profile_is_committed_by_accident() -> None:
    (hook,) = [h for h in read(".pre-commit-config.yaml")["repos"][0]["hooks"] if h["language"] == "fail"]
    refused, allowed = re.compile(hook["files"]), re.compile(hook["exclude"])
    for name in ("run.nsys-rep", "a/b.sqlite", "x.pt.trace.json.gz", "old.nvprof"):
        assert refused.search(name), name
    tracked = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    assert [name for name in tracked if refused.search(name) and not allowed.search(name)] == []


def test_the_citation_is_of_this_version() -> None:
    citation = read("CITATION.cff")
    assert citation["version"] == nsysconv.__version__
    assert citation["license"] == PROJECT["license"]
    assert citation["title"] == PROJECT["name"]
    assert [author["name"] for author in citation["authors"]] == [a["name"] for a in PROJECT["authors"]]


def test_the_manual_page_is_current_and_has_every_command() -> None:
    page = make_man_page.PAGE.read_text(encoding="utf-8")
    assert page == make_man_page.man_page(), "run: make docs"
    for name in commands():
        assert f"\n.SS nsysconv {name}\n" in page
    assert "\n.SH EXIT STATUS\n" in page


@pytest.mark.skipif(shutil.which("groff") is None, reason="no groff")
def test_the_manual_page_is_plain_roff() -> None:
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", "-P-c", str(make_man_page.PAGE)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    shown = re.sub(r".\x08", "", done.stdout)
    assert "`" not in shown
    # Bars, backslashes and signs beyond ASCII come through.
    assert "text, csv, tsv" in shown
    assert r"train\.(\d+)\." in shown
