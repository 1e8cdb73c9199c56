"""Plays a composite action of GitHub: its steps with the runner's variables, files and cache."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from conftest import CHILD_ENVIRONMENT

_EXPRESSION = re.compile(r"\$\{\{ *(.*?) *\}\}")
_NAME = re.compile(r"'[^']*'|[A-Za-z_][\w.-]*")


class Action:
    """An action, and a runner's folders: `work` the checkout, `temp`, and `cache` with an entry a key."""

    def __init__(self, path: Path, folder: Path, event: str, **github: str) -> None:
        self._path, self._event = path, event
        self._action: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        self.work, self.temp, self.cache = (folder / name for name in ("work", "temp", "cache"))
        for each in (self.work, self.temp, self.cache):
            each.mkdir(parents=True, exist_ok=True)
        self.summary = folder / "summary.md"
        self._github = {"event_name": event, "run_id": "1", "run_attempt": "1", "sha": "1f3a9c", **github}

    def run(self, path: str, run_id: int, inputs: Mapping[str, str]) -> tuple[int, str]:
        """Runs all steps with `path` as PATH; the status of the one that failed, and what was printed."""
        known = self._action["inputs"]
        assert set(inputs) <= set(known)
        assert all(name in inputs for name, each in known.items() if each.get("required"))
        self._github["run_id"] = str(run_id)
        values: dict[str, Any] = {f"github.{name}": value for name, value in self._github.items()}
        values |= {"runner.name": "gpu1", "runner.temp": str(self.temp), "github.token": "secret-token"}
        for name, each in known.items():
            values[f"inputs.{name}"] = inputs.get(name, _filled(str(each.get("default", "")), values))
        status, printed = 0, ""
        for step in self._action["runs"]["steps"]:
            if status or ("if" in step and not _evaluated(step["if"], values)):
                continue
            if "uses" in step:
                self._cached(step["uses"], {k: _filled(v, values) for k, v in step["with"].items()})
                continue
            # Nothing is filled in here: what a shell reads is what the file says.
            assert "${{" not in step["run"]
            assert step["shell"] == "bash"
            output = self.temp / "output"
            output.write_text("")
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.work, capture_output=True, text=True, check=False,
                env=CHILD_ENVIRONMENT | {
                    "PATH": path, "GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(output),
                    "GITHUB_STEP_SUMMARY": str(self.summary), "RUNNER_TEMP": str(self.temp),
                    "GITHUB_ACTION_PATH": str(self._path.parent),
                    **{name: _filled(value, values) for name, value in step.get("env", {}).items()},
                },
            )  # fmt: skip
            status, printed = done.returncode, printed + done.stdout + done.stderr
            for line in output.read_text().splitlines():
                name, _, value = line.partition("=")
                values[f"steps.{step['id']}.outputs.{name}"] = value
        return status, printed

    def _cached(self, what: str, given: Mapping[str, str]) -> None:
        # An entry is never overwritten; of those that begin like a key the newest is fetched.
        name = what.partition("@")[0]
        path = self.work / given["path"]
        if name == "actions/cache/save":
            assert not (self.cache / given["key"]).exists()
            shutil.copy(path, self.cache / given["key"])
            return
        assert name == "actions/cache/restore"
        found = [p for p in self.cache.iterdir() if p.name.startswith(given["restore-keys"])]
        if found:
            shutil.copy(max(found, key=lambda p: p.stat().st_mtime_ns), path)


def _filled(text: str, values: Mapping[str, Any]) -> str:
    return _EXPRESSION.sub(lambda match: str(_evaluated(match[1], values)), text)


def _evaluated(expression: str, values: Mapping[str, Any]) -> Any:
    """The value of an expression with &&, ||, !, ==, !=, contains and startsWith."""
    def word(match: re.Match[str]) -> str:
        if match[0].startswith("'") or match[0] in ("contains", "startsWith"):
            return match[0]
        return repr(values.get(match[0], ""))

    text = _NAME.sub(word, expression).replace("&&", " and ").replace("||", " or ")
    text = re.sub(r"!(?!=)", " not ", text)
    return eval(text, {"startsWith": lambda text, begin: text.startswith(begin),
                       "contains": lambda text, part: part in text})
