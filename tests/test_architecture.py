"""Rules of the tree that no single part can break unnoticed."""

from __future__ import annotations

import ast
import dataclasses
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from docs_api import KEYWORDS

from nsysconv.queries.contract import Query
from nsysconv.report import Column
from nsysconv.timeline.slices import Slice

PACKAGE = ROOT / "nsysconv"
MODULES = {path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
           for path in sorted(PACKAGE.rglob("*.py"))}  # fmt: skip
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

# Where a source may be called by its name: its importer, the profiler's runner, an exporter to it.
HOMES = ("importers/", "capture/", "export/chrome.py")
SOURCE_WORDS = re.compile(r"nsys_sqlite|nvprof|kineto|cupti", re.I)

MAX_LINES = 600
LONGER = {
    "schema.py": "every table of the one schema, a declaration each; there is nothing to follow",
}


MOST_FIELDS = {"Query": 10, "Column": 11}
MOST_PARAMETERS = 7
# There a function is a command, and each of its parameters declares a flag.
COMMANDS = "cli/app.py"


def dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(name for extra in extras for name in extra)]
    return [re.split(r"[^\w-]", text)[0] for text in wanted]


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


def test_modules_are_short() -> None:
    lengths = {name: len(text.splitlines()) for name, text in MODULES.items()}
    long = {name for name, length in lengths.items() if length > MAX_LINES}
    assert long <= LONGER.keys()


def test_modules_are_called_after_their_subject() -> None:
    empty = {"utils", "util", "helpers", "common", "misc", "base"}
    assert [name for name in MODULES if Path(name).stem in empty] == []


def test_sources_are_named_in_their_importers_alone() -> None:
    found = {name: word.group() for name, text in MODULES.items()
             if not name.startswith(HOMES) and (word := SOURCE_WORDS.search(text))}  # fmt: skip
    assert found == {}


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The names of a function's parameters but for that of its object."""
    given = function.args
    named = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return [*(name for name in named if name not in ("self", "cls")),
            *(each.arg for each in (given.vararg, given.kwarg) if each is not None)]


@pytest.mark.parametrize("declared", [Query, Column], ids=lambda declared: declared.__name__)
def test_what_reports_declare_does_not_grow(declared: Any) -> None:
    assert len(dataclasses.fields(declared)) <= MOST_FIELDS[declared.__name__]


def test_functions_have_few_parameters() -> None:
    # To parse all modules takes long; what has as few commas has as few parameters.
    many = [name for name, text in MODULES.items() if name != COMMANDS
            and any(given.count(",") >= MOST_PARAMETERS
                    for given in re.findall(r"\bdef \w+\((.*?)\) ->", text, re.DOTALL))]  # fmt: skip
    found = {f"{name}:{each.name}": parameters(each)
             for name in many for each in ast.walk(ast.parse(MODULES[name]))
             if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))}  # fmt: skip
    assert {name: given for name, given in found.items() if len(given) > MOST_PARAMETERS} == {}


@pytest.mark.parametrize("keywords, value", KEYWORDS.items(), ids=lambda each: each.__name__)
def test_a_set_of_keywords_is_of_the_fields_of_its_value(keywords: Any, value: Any) -> None:
    fields = {each.name: each.type for each in dataclasses.fields(value)}
    hidden = {"scratch"}  # a path of any type, which becomes one of pathlib
    # What makes a slice is taken as people write it.
    of_slice = {each.name for each in dataclasses.fields(Slice)} - fields.keys()
    natural = fields if value is Slice else of_slice
    for name, kind in keywords.__annotations__.items():
        assert name in hidden or name in natural or kind.__forward_arg__ == fields[name], name


def test_all_data_files_are_packaged() -> None:
    """A table that is not among them is missing in what people install, and in no checkout."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["nsysconv"]
    packaged = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    files = {path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert {path for path in files if path.suffix != ".py"} - packaged == set()
