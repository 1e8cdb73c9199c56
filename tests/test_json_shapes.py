"""JSON of every command has the fields and types that it had: fields are only added (docs/json.md).

    python tests/test_json_shapes.py        write what is kept anew, after fields were added
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parent.parent / "scripts"))

from golden_cases import FIXTURES, run

from nsysconv.cli.app import app

KEPT = Path(__file__).with_name("json_shapes.json")
FILES = {
    "base.sqlite": "nsys/two_processes_two_gpus-3.24.7.sqlite",
    "other.json": "kineto/training-2.13.json",
    "cpu.sqlite": "nsys/no_gpu-3.25.0.sqlite",
    "again.sqlite": "nsys/basic-3.25.0.sqlite",
}
COMMANDS = (
    "other.json -f json",
    "other.json -f json --brief",
    "cpu.sqlite -f json --brief",
    "report other.json all -f json",
    "report base.sqlite kernels idle_gaps steps -f json --brief",
    "report base.sqlite kernels --device 0 --time 10%:90% -f json",
    "info other.json -f json",
    "info runs.db@again -f json --brief",
    "info runs.db --check -f json",
    "runs runs.db -f json",
    "history runs.db -f json",
    "forget runs.db --keep 1 --dry-run -f json",
    "why other.json kernel:1 -f json",
    "why other.json gap:1 -f json --brief",
    "find other.json . -f json",
    "find other.json . -f json --brief",
    "schema kernels",
    "sql other.json 'select name, dur_ns from v_kernel limit 2' -f json",
    "diff again.sqlite base.sqlite kernels steps -f json",
    "diff again.sqlite base.sqlite --fail-on overview.kernel_sum_ns:3% -f json",
    "diff again.sqlite base.sqlite -f json --brief",
    "report other.json kernel -f json",
    "info nosuch.db -f json",
)


def prepare(folder: Path) -> None:
    for name, source in FILES.items():
        shutil.copy(FIXTURES / source, folder / name)
    for name in ("base", "again"):
        run("import", f"{name}.sqlite", "-o", "runs.db", "--run", name, cwd=folder)


def shape_of(document: Any) -> dict[str, list[str]]:
    """Return the types beside null at each path; columns of reports are the reports' own matter."""
    found: dict[str, set[str]] = defaultdict(set)

    def walk(value: Any, path: str) -> None:
        found[path] |= {type(value).__name__} if value is not None else set()
        if isinstance(value, dict):
            for key, inner in value.items():
                if not path.endswith(".rows[]") or key == "key":
                    walk(inner, f"{path}.{key}")
        elif isinstance(value, list):
            for inner in value:
                walk(inner, f"{path}[]")

    walk(document, "")
    return {path: sorted(types) for path, types in sorted(found.items())}


def shape(command: str, folder: Path) -> dict[str, list[str]]:
    outcome = run(*shlex.split(command), cwd=folder)
    return shape_of(json.loads(outcome.out or outcome.err.splitlines()[-1]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("shapes")
    prepare(made)
    return made


@pytest.mark.parametrize("command", COMMANDS)
def test_fields_are_only_added(command: str, folder: Path) -> None:
    kept, now = json.loads(KEPT.read_text())[command], shape(command, folder)
    gone = [path for path in kept if path not in now or (kept[path] and now[path] != kept[path])]
    assert not gone, "a field went, or has another type: whoever reads it fails"
    assert kept.keys() == now.keys(), f"new fields: write them down (python tests/{Path(__file__).name})"


def test_each_command_with_json_is_among_them() -> None:
    named = {
        command.name or command.callback.__name__: command.callback.__annotations__
        for command in app.registered_commands if command.callback
    }  # fmt: skip
    has_format = {name for name, options in named.items() if "format" in options} - {"TARGET"}
    assert len(has_format) > 5
    assert has_format <= {command.partition(" ")[0] for command in COMMANDS}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        prepare(Path(made))
        shapes = {command: shape(command, Path(made)) for command in COMMANDS}
    KEPT.write_text(re.sub(r"\[\s+|\s+\]", lambda at: at[0].strip(), json.dumps(shapes, indent=1)) + "\n")
