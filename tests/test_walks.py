"""The walks that docs/architecture.md shows are those of the code, and no command walks far."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import cache

import pytest
from conftest import CHILD_ENVIRONMENT, ROOT

ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

# Modules entered and stack frames, at most: as far as they go today, to be lowered only. An import enters
# three more since it keeps checksums, three since it looks for what cannot be believed, and one since it
# names tables that nothing reads; a diff three, for rows with other names, for work of another size and
# for whose GPUs they are. What the host did is a module of its own, and so are what steps know of rates
# and, for an import and a diff, whose rank a file is.
FARTHEST = {"import": (55, 20), "report": (43, 27), "diff": (85, 25)}
# How often what a command is asked comes back to a module that it had left, at most; to be lowered only.
MOST_CLIMBS = {"import_:inputs": 4, "diff:options": 3}
# The command in which a walk of the documentation happens, by the walk's heading.
WALKS = {
    "A kernel's row": "import",
    "A gap's cause": "report",
    "A flag": "report",
}
MOST_FUNCTIONS = 8


@cache
def walks() -> dict[str, dict[str, list[str]]]:
    """The walks of the three commands, made in a process that has cached nothing."""
    script = [sys.executable, str(ROOT / "scripts" / "measure_walks.py"), "--json"]
    done = subprocess.run(script, capture_output=True, text=True, env=CHILD_ENVIRONMENT, check=True)
    found: dict[str, dict[str, list[str]]] = json.loads(done.stdout)
    return found


def documented(heading: str) -> list[str]:
    """The functions of a walk: the first code span of each item of the list below its heading."""
    section = ARCHITECTURE.split(f"### {heading}")[1].split("\n#")[0]
    return re.findall(r"^\d\. `([\w/]+\.py:[\w.]+)`", section, re.M)


def missing_in_order(functions: list[str], calls: list[str]) -> str | None:
    """The first of the functions that is not called after those before it."""
    remaining = iter(calls)
    return next((name for name in functions if name not in remaining), None)


@pytest.mark.parametrize("command", FARTHEST)
def test_a_command_enters_few_modules(command: str) -> None:
    modules = {call.partition(":")[0] for call in walks()[command]["calls"]}
    documents = {module for module in modules if module.startswith(("present/", "document.py"))}
    assert len(documents) <= 2
    assert len(modules - documents) <= FARTHEST[command][0], sorted(modules)


@pytest.mark.parametrize("command", FARTHEST)
def test_a_command_has_a_flat_stack(command: str) -> None:
    stack = walks()[command]["stack"]
    assert len(stack) <= FARTHEST[command][1], stack


def test_what_is_asked_goes_down() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "measure_walks.py"), "--climbs"]
    done = subprocess.run(script, capture_output=True, text=True, env=CHILD_ENVIRONMENT, check=True)
    climbs = {name: int(count) for name, count in re.findall(r"^(\S+): (\d+) climbs$", done.stdout, re.M)}
    assert climbs.keys() == MOST_CLIMBS.keys()
    assert all(climbs[name] <= most for name, most in MOST_CLIMBS.items()), done.stdout


@pytest.mark.parametrize("heading", WALKS)
def test_the_functions_of_a_documented_walk_are_called_in_its_order(heading: str) -> None:
    functions = documented(heading)
    assert missing_in_order(functions, walks()[WALKS[heading]]["calls"]) is None


@pytest.mark.parametrize("heading", WALKS)
def test_a_documented_walk_is_short(heading: str) -> None:
    assert 3 <= len(documented(heading)) <= MOST_FUNCTIONS


def test_a_function_that_is_called_earlier_is_missed() -> None:
    assert missing_in_order(["a", "b"], ["b", "a"]) == "b"
    assert missing_in_order(["a", "b"], ["a", "c", "b"]) is None
