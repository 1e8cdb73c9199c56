"""The walks that docs/architecture.md shows are those of the code, and no command walks far."""

from __future__ import annotations

import json
import re
import subprocess
import sys

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
WALKS = {"A kernel's row": "import", "A gap's cause": "report", "A flag": "report"}
MOST_FUNCTIONS = 8


def measured() -> dict[str, dict[str, list[str]]]:
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


def test_a_command_enters_few_modules_has_a_flat_stack_and_walks_as_documented() -> None:
    walks = measured()
    for command, (most_modules, deepest) in FARTHEST.items():
        modules = {call.partition(":")[0] for call in walks[command]["calls"]}
        documents = {module for module in modules if module.startswith(("present/", "document.py"))}
        assert len(documents) <= 2
        assert len(modules - documents) <= most_modules, sorted(modules)
        assert len(walks[command]["stack"]) <= deepest, walks[command]["stack"]
    for heading, command in WALKS.items():
        functions = documented(heading)
        assert 3 <= len(functions) <= MOST_FUNCTIONS
        assert missing_in_order(functions, walks[command]["calls"]) is None


def test_what_is_asked_goes_down() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "measure_walks.py"), "--climbs"]
    done = subprocess.run(script, capture_output=True, text=True, env=CHILD_ENVIRONMENT, check=True)
    climbs = {name: int(count) for name, count in re.findall(r"^(\S+): (\d+) climbs$", done.stdout, re.M)}
    assert climbs.keys() == MOST_CLIMBS.keys()
    assert all(climbs[name] <= most for name, most in MOST_CLIMBS.items()), done.stdout
