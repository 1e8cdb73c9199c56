"""The scripts of docs/ci.md do what the page says: they are run, with a stand-in for nsys alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from conftest import CHILD_ENVIRONMENT, ROOT
from diff_workloads import Copy, Launch, run_of
from docs_ci import LIMITS
from machine import REDUCE, SAXPY
from write_nsys import write_nsys

from nsysconv.diff.limits_file import read_limits_file

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


def test_every_script_of_the_page_is_run() -> None:
    # Those of YAML are played by test_ci_gate.py, with what the jobs bring along.
    assert sorted(kind for kind, _ in BLOCKS) == ["bash", "bash", "markdown", "toml", "yaml", "yaml"]


# -- a runner


class Runner:
    """A checkout with the page's limits, and what a job finds around it."""

    def __init__(self, folder: Path) -> None:
        self.work, self.programs = folder / "work", folder / "programs"
        self.recordings = folder / "recordings"
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
                "RECORDINGS": str(self.recordings),
            },
        )  # fmt: skip


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_the_limits_of_the_page_are_read(runner: Runner) -> None:
    found = read_limits_file(runner.work / "limits.toml")
    lines = block("toml").splitlines()
    assert [text for text, _ in found.limits] == tomllib.loads(LIMITS)["limits"], "the comment's"
    for text, place in found.limits:
        assert f'"{text}"' in lines[int(place.removeprefix("limits.toml:")) - 1]
    # What the comments say can be said.
    said = re.sub(r"^# (\w+ = )", r"\1", block("toml"), flags=re.M)
    (runner.work / "limits.toml").write_text(said)
    both = read_limits_file(runner.work / "limits.toml")
    assert (both.run_noise, both.inconclusive) == ("0.3%", "pass")


def test_jobs_record_five_runs_and_hand_them_to_the_gate(runner: Runner) -> None:
    yaml = pytest.importorskip("yaml")
    github = yaml.safe_load(block("yaml", "# .github"))["jobs"]["gpu-speed"]["steps"]
    (record,) = [step["run"] for step in github if "run" in step]
    (gate,) = [step for step in github if step.get("uses", "").startswith("./")]
    gitlab = yaml.safe_load(block("yaml", "# .gitlab"))["gpu-speed"]
    for script in (record, "\n".join(gitlab["before_script"])):
        runner.record(QUIET)
        done = runner.run(script, "-e")
        assert (done.returncode, runner.left()) == (0, 0), done.stderr
    action = yaml.safe_load((ROOT / gate["uses"] / "action.yml").read_text())
    assert set(gate["with"]) <= set(action["inputs"])
    assert gate["with"]["profiles"] == gitlab["variables"]["GATE_PROFILES"] == "new/*.sqlite"
    (included,) = yaml.safe_load(block("yaml", "# .gitlab"))["include"]
    assert gitlab["extends"] in yaml.safe_load((ROOT / included["local"]).read_text())


@pytest.mark.parametrize(
    ("per_mille", "status", "shown", "unused"),
    [
        (QUIET, 0, "within: 4 of 4 limits", 2),
        # 10 % longer: three runs are enough to see it.
        pytest.param([100 + each for each in QUIET], 1, "**exceeded**: `steps.avg_ns:3%`", 2,
                     marks=pytest.mark.slow),
        pytest.param(NOISY, 4, "**inconclusive**: `steps.avg_ns:3%`", 0, marks=pytest.mark.slow),
    ],
    ids=["quiet", "slower", "noisy"],
)  # fmt: skip
def test_looking_again_ends_with_the_first_answer(
    runner: Runner, per_mille: Sequence[int], status: int, shown: str, unused: int
) -> None:
    runner.record(QUIET)
    done = runner.run('nsysconv import "$RECORDINGS"/*.sqlite -o baseline.db')
    assert (done.returncode, runner.left()) == (0, len(QUIET)), done.stderr
    runner.record(per_mille)
    done = runner.run(block("bash", "# baseline.db").replace("step *", "ProfilerStep#*"), "-e")
    assert done.returncode == status, done.stderr
    assert runner.left() == unused
    assert shown in (runner.work / "changes.md").read_text()


def test_a_mistake_in_the_limits_ends_it(runner: Runner) -> None:
    runner.record(QUIET)
    (runner.recordings / "00.sqlite").rename(runner.work / "baseline.db")
    (runner.work / "limits.toml").write_text('limits = ["steps.avg:3%"]')
    done = runner.run(block("bash", "# baseline.db"), "-e")
    assert done.returncode == 2
    assert "limits.toml:1" in done.stderr


@pytest.mark.slow
def test_limits_and_a_baseline_work_in_one_job(runner: Runner) -> None:
    script = block("bash", "# base/ and other/").replace("step *", "ProfilerStep#*")
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
