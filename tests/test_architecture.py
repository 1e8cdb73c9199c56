"""Rules of the tree that no single part can break unnoticed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from conftest import CHILD_ENVIRONMENT, NSYS, ROOT
from golden_cases import BASIC, FIXTURES

PACKAGE = ROOT / "nsysconv"
MODULES = sorted(PACKAGE.rglob("*.py"))
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

# Where a source may be called by its name: its importer, the profiler's runner, an exporter to it.
HOMES = ("importers/", "capture/", "export/chrome.py")
SOURCE_WORDS = re.compile(r"nsys_sqlite|nvprof|kineto|cupti", re.I)

LARGE = {"pandas", "pyarrow", "numpy", "sqlalchemy", "rich", "adbc_driver_manager"}
MAX_LINES = 600
LONGER = {
    "schema.py": "every table of the one schema, a declaration each; there is nothing to follow",
}


def dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(name for extra in extras for name in extra)]
    return [re.split(r"[^\w-]", text)[0] for text in wanted]


def imported_by(*arguments: str | Path) -> set[str]:
    """The top-level modules that `python ARGUMENTS` imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *map(str, arguments)],
        env=CHILD_ENVIRONMENT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    names = re.findall(r"^import time:.*\|\s+([\w.]+)$", done.stderr, re.M)
    return {name.split(".")[0] for name in names}


def test_each_dependency_has_its_job() -> None:
    for name in dependencies():
        assert re.search(rf"^\| {re.escape(name)} \| \S.* \|$", ARCHITECTURE, re.M), name


def test_no_job_without_a_dependency() -> None:
    tables = ARCHITECTURE.split("## What each dependency does")[1]
    named = re.findall(r"^\| ([a-z][\w-]*) \|", tables, re.M)
    assert set(named) - {"package", "for"} == set(dependencies())


def test_each_part_is_in_the_picture() -> None:
    for path in PACKAGE.iterdir():
        if path.is_dir() and (path / "__init__.py").exists():
            assert re.search(rf"^      {path.name}/ +\S", ARCHITECTURE, re.M), path.name
        elif path.suffix == ".py" and not path.name.startswith("__"):
            assert re.search(rf"\b{path.name}  ", ARCHITECTURE), path.name


def test_the_picture_has_only_what_is_there() -> None:
    for name in re.findall(r"^      (\w+(?:/|\.py)) ", ARCHITECTURE, re.M):
        assert (PACKAGE / name).exists(), name


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_LINES or path.relative_to(PACKAGE).as_posix() in LONGER
    assert path.stem not in {"utils", "util", "helpers", "common", "misc", "base"}
    if not path.relative_to(PACKAGE).as_posix().startswith(HOMES):
        assert SOURCE_WORDS.search(text) is None, SOURCE_WORDS.search(text)


def test_help_loads_nothing_large() -> None:
    assert not imported_by("-m", "nsysconv", "--help") & LARGE


def test_the_probe_of_imports_sees_them() -> None:
    assert {"numpy", "pyarrow"} <= imported_by("-m", "nsysconv", "report", FIXTURES / BASIC)


def test_a_report_loads_no_pandas(tmp_path: Path) -> None:
    store = tmp_path / "job.db"
    source = NSYS / "basic-3.25.0.sqlite"
    assert "pandas" not in imported_by("-m", "nsysconv", "import", source, "-o", store)
    assert "pandas" not in imported_by("-m", "nsysconv", "report", store)
    assert "pandas" not in imported_by("-m", "nsysconv", "report", source, "-f", "json")
