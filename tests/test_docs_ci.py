"""The jobs of docs/ci.md do what the page says: their lines are run, with a stand-in for nsys alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

import pytest
from conftest import CHILD_ENVIRONMENT, ROOT
from diff_workloads import Copy, Launch, run_of
from machine import REDUCE, SAXPY
from write_nsys import write_nsys

from nsysconv.diff.gate import read_limits_file

PAGE = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.M | re.S)

# Leaves the next of the recordings under the name that it is given, as nsys does beside its report.
NSYS = """\
#!/usr/bin/env bash
set -eu
[ "$1 $2 $3 $4 $5 $6" = "profile -t cuda,nvtx --export sqlite -o" ]
[ "${*:8}" = "python train.py --steps 50" ]
[ -d "$(dirname "$7")" ]
[ ! -e "$7.sqlite" ]
touch "$7.nsys-rep"
recordings=("$RECORDINGS"/*)
mv "${recordings[0]}" "$7.sqlite"
"""
NSYSCONV = f"""\
#!/usr/bin/env bash
exec {sys.executable} -m nsysconv "$@"
"""
# Parts in a thousand by which the kernels of runs are longer; a store takes no file twice.
QUIET = (4, -5, 2, -3, 3)
NOISY = (-80, 90, -10, 70, -85, 15, 80, -75, -5)


def block(kind: str, first: str = "") -> str:
    """The page's block of this kind that begins so."""
    (found,) = [text for each, text in BLOCKS if each == kind and text.startswith(first)]
    return found


# -- the lines of YAML that a shell gets


def scripts(text: str) -> dict[str, str]:
    """Shell scripts by the name of their step or job, of the little YAML that the page keeps to."""
    lines, found, name = text.splitlines(), dict[str, str](), ""
    place = 0
    while place < len(lines):
        line = lines[place]
        place += 1
        if match := re.fullmatch(r" *- name: (.+)|([\w.-]+):", line):
            name = match[1] or match[2]
        elif match := re.fullmatch(r"( *)run: \|", line):
            found[name], place = indented(lines, place, len(match[1]))
        elif line == "  script:":
            parts = []
            while place < len(lines) and lines[place].startswith("    - "):
                part = lines[place].removeprefix("    - ")
                place += 1
                if part == "|":
                    part, place = indented(lines, place, 4)
                elif re.search(r"""^[^\w]|: | #|:$""", part):
                    raise ValueError(f"not a plain text of YAML: {part}")
                parts.append(part.rstrip("\n"))
            found[name] = "\n".join(parts) + "\n"
        elif re.match(r"\s*(- )?(run|script|before_script|after_script)\b", line):
            raise ValueError(f"not how this page writes scripts: {line}")
    return found


def indented(lines: list[str], place: int, indent: int) -> tuple[str, int]:
    """The lines from there on that are indented more, and the number of the first that is not."""
    end = place
    while end < len(lines) and (not lines[end].strip() or lines[end].startswith(" " * (indent + 1))):
        end += 1
    return textwrap.dedent("\n".join(lines[place:end])) + "\n", end


def test_scripts_are_extracted_from_yaml_as_written() -> None:
    yaml = pytest.importorskip("yaml")
    github = yaml.safe_load(block("yaml", "# .github"))
    (job,) = github["jobs"].values()
    expected = {step["name"]: step["run"] for step in job["steps"] if "run" in step}
    assert scripts(block("yaml", "# .github")) == expected
    gitlab = yaml.safe_load(block("yaml", "# .gitlab"))
    expected = {name: "\n".join(line.rstrip("\n") for line in job["script"]) + "\n"
                for name, job in gitlab.items() if "script" in job}  # fmt: skip
    assert scripts(block("yaml", "# .gitlab")) == expected
    assert gitlab["gpu-speed"]["allow_failure"] == {"exit_codes": [4]}
    assert gitlab["gpu-speed"]["artifacts"]["when"] == "always"


@pytest.mark.parametrize(
    "text",
    ["a:\n  script: make\n", "- name: a\n  run: make\n", "a:\n  script:\n    - echo a: b\n",
     "a:\n  script:\n    - 'make'\n", "a:\n  before_script:\n    - make\n"],
)  # fmt: skip
def test_scripts_in_another_yaml_style_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"YAML|page"):
        scripts(text)


def test_every_script_of_the_page_is_run() -> None:
    assert sorted(kind for kind, _ in BLOCKS) == ["bash", "toml", "yaml", "yaml"]


# -- a runner


class Runner:
    """A checkout with the page's limits, and what a job finds around it."""

    def __init__(self, folder: Path) -> None:
        self.work, self.programs = folder / "work", folder / "programs"
        self.recordings, self.summary = folder / "recordings", folder / "summary.md"
        for each in (self.work, self.programs, self.recordings):
            each.mkdir()
        for name, text in (("nsys", NSYS), ("nsysconv", NSYSCONV)):
            (self.programs / name).write_text(text)
            (self.programs / name).chmod(0o755)
        (self.work / "limits.toml").write_text(block("toml"))

    def record(self, per_mille: Iterable[int], copies: int = 1) -> None:
        """What nsys will record next: runs whose kernels are so much longer."""
        for number, longer in enumerate(per_mille):
            step = [*[Copy(8_000)] * copies,
                    *(Launch(function, length * (1000 + longer) // 1000)
                      for function, length in ((SAXPY, 200_000), (REDUCE, 100_000)))]  # fmt: skip
            write_nsys(run_of([step] * 10), self.recordings / f"{number:02}.sqlite", "3.25.0")

    def left(self) -> int:
        """How many runs were not asked for. They are dropped, and so is what was recorded."""
        left = [*self.recordings.iterdir()]
        for path in left:
            path.unlink()
        # As a checkout leaves it.
        shutil.rmtree(self.work / "new", ignore_errors=True)
        return len(left)

    def run(self, script: str, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", *options, "-c", script],
            cwd=self.work, capture_output=True, text=True, check=False,
            env=CHILD_ENVIRONMENT | {
                "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
                "RECORDINGS": str(self.recordings), "GITHUB_STEP_SUMMARY": str(self.summary),
                "GITHUB_SHA": "1f3a9c", "CI_COMMIT_SHA": "1f3a9c",
            },
        )  # fmt: skip

    @property
    def shown(self) -> str:
        """What the summary of the jobs so far shows, which is then empty."""
        text = self.summary.read_text()
        self.summary.unlink()
        return text


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_the_limits_of_the_page_are_read(runner: Runner) -> None:
    found = read_limits_file(runner.work / "limits.toml")
    lines = block("toml").splitlines()
    assert len(found.limits) == 4
    for text, place in found.limits:
        assert f'"{text}"' in lines[int(place.removeprefix("limits.toml:")) - 1]
    # What the comments say can be said.
    said = re.sub(r"^# (\w+ = )", r"\1", block("toml"), flags=re.M)
    (runner.work / "limits.toml").write_text(said)
    both = read_limits_file(runner.work / "limits.toml")
    assert (both.run_noise, both.cannot_tell) == ("0.3%", "pass")


def test_github_job_passes_and_fails_as_the_page_says(runner: Runner) -> None:
    found = scripts(block("yaml", "# .github"))
    compare, record = found.pop("Record and compare"), found.pop("Record a baseline")
    assert not found

    done = runner.run(compare, "-e")
    assert (done.returncode, runner.shown) == (
        0, "There is no baseline yet: the main branch records it.\n")  # fmt: skip

    runner.record(QUIET)
    done = runner.run(record, "-e")
    assert (done.returncode, runner.left()) == (0, 0), done.stderr
    assert "commit=1f3a9c" in runner.run("nsysconv runs baseline.db").stdout

    for per_mille, status, state, unused in (
        (QUIET, 0, "within", 2),
        # 10 % longer: three runs are enough to see it.
        ([100 + each for each in QUIET], 1, "exceeded", 2),
        (NOISY, 4, "cannot tell", 0),
    ):
        runner.record(per_mille)
        done = runner.run(compare, "-e")
        assert done.returncode == status, done.stderr
        assert runner.left() == unused
        shown = runner.shown
        assert f"| {state} |" in shown
        assert "limits.toml:3" in shown
        assert ("| exceeded |" in shown) == (status == 1)

    (runner.work / "limits.toml").write_text(f'cannot_tell = "pass"\n{block("toml")}')
    runner.record(NOISY)
    assert runner.run(compare, "-e").returncode == 0
    assert runner.left() == 6
    assert "| cannot tell |" in runner.shown


def test_a_mistake_in_the_limits_fails_the_job(runner: Runner) -> None:
    found = scripts(block("yaml", "# .github"))
    runner.record(QUIET)
    runner.run(found["Record a baseline"], "-e")
    runner.left()
    (runner.work / "limits.toml").write_text('limits = ["steps.avg:3%"]')
    runner.record(QUIET)
    done = runner.run(found["Record and compare"], "-e")
    assert done.returncode == 2
    assert "limits.toml:1" in done.stderr


def test_gitlab_job_passes_and_fails_as_the_page_says(runner: Runner) -> None:
    found = scripts(block("yaml", "# .gitlab"))
    assert [*found] == ["baseline", "gpu-speed"]
    options = ("-e", "-o", "pipefail")

    done = runner.run(found["gpu-speed"], *options)
    assert (done.returncode, "no baseline yet" in done.stdout) == (0, True)

    runner.record(QUIET)
    done = runner.run(found["baseline"], *options)
    assert (done.returncode, runner.left()) == (0, 0), done.stderr

    for per_mille, copies, status, state in (
        (QUIET, 1, 0, "within"), ([100 + each for each in QUIET], 1, 1, "exceeded"),
        (QUIET, 2, 1, "exceeded"), (NOISY[:5], 1, 4, "cannot tell"),
    ):  # fmt: skip
        runner.record(per_mille, copies)
        done = runner.run(found["gpu-speed"], *options)
        assert (done.returncode, runner.left()) == (status, 0), done.stderr
        assert f"| {state} |" in (runner.work / "changes.md").read_text()


def test_limits_and_a_baseline_work_in_one_job(runner: Runner) -> None:
    script = block("bash")
    for side in ("base", "other"):
        (runner.work / side).mkdir()
    (runner.work / "limits.toml").rename(runner.work / "other" / "limits.toml")
    # In turns: what gets slower all the time gets so on both sides.
    runner.record([5 * each for each in range(10)])
    done = runner.run(script, "-e")
    assert runner.left() == 0
    assert done.returncode in (0, 4), done.stderr
    shutil.rmtree(runner.work / "base" / "new")
    shutil.rmtree(runner.work / "other" / "new")
    runner.record([each for noise in QUIET for each in (noise, 100 + noise)])
    assert runner.run(script, "-e").returncode == 1
