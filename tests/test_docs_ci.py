"""The scripts of docs/ci.md do what the page says: they are run, with a stand-in for nsys alone."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from contextlib import closing, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import CHILD_ENVIRONMENT, ROOT, few, scratch
from diff_workloads import Copy, Launch, run_of
from docs_ci import LIMITS
from machine import APPLY, REDUCE, SAXPY
from workload import Workload
from write_examples import write_examples
from write_kineto import write_kineto
from write_nsys import write_nsys

from nsysconv.api import compare
from nsysconv.api.options import DiffOptions
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
# Leaves the next of the recordings as a trace.
PYTHON = """\
#!/usr/bin/env bash
set -eu
[ "$1 $2 $3 $4" = "train.py --steps 50 --trace" ]
[ ! -e "$5" ]
recordings=("$RECORDINGS"/*)
mv "${recordings[0]}" "$5"
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
    # Those of YAML with the gate are played by test_ci_gate.py, with what the jobs bring along.
    assert sorted(kind for kind, _ in BLOCKS) == [
        *["bash"] * 3, "markdown", *["python"] * 2, "toml", *["yaml"] * 3]  # fmt: skip


# -- a runner


def training(longer: int, batch: int = 1) -> Workload:
    """Ten steps of three kernels that take so many parts in a thousand longer."""
    kernels = (SAXPY, 200_000), (REDUCE, 100_000), (APPLY, 50_000)
    launches = (Launch(f, batch * length * (1000 + longer) // 1000) for f, length in kernels)
    step = [Copy(8_000 * batch, size=4_096 * batch), *launches]
    return run_of([step] * 10)


@cache
def recorded(longer: int, batch: int = 1) -> Path:
    """A recording of it, whose steps are not called as PyTorch does."""
    path = scratch() / "recording.sqlite"
    write_nsys(training(longer, batch), path, "3.25.0")
    with closing(sqlite3.connect(path)) as export, export:
        for table, column in (("StringIds", "value"), ("NVTX_EVENTS", "text")):
            export.execute(f"UPDATE {table} SET {column} = replace({column}, 'ProfilerStep#', 'step ')")
        export.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET gridX = gridX * {batch}")
    return path


class Runner:
    """A checkout with the page's limits, and what a job finds around it."""

    def __init__(self, folder: Path) -> None:
        self.work, self.programs = folder / "work", folder / "programs"
        self.recordings = folder / "recordings"
        for each in (self.work, self.programs, self.recordings):
            each.mkdir()
        for name, text in (("nsys", NSYS), ("nsysconv", NSYSCONV), ("python", PYTHON)):
            (self.programs / name).write_text(text)
            (self.programs / name).chmod(0o755)
        (self.work / "limits.toml").write_text(block("toml"))

    def record(self, per_mille: Iterable[int]) -> None:
        """What nsys will record next: kernels that are so much longer."""
        for number, longer in enumerate(per_mille):
            shutil.copyfile(recorded(longer), self.recordings / f"{number:02}.sqlite")

    def fill(self, side: str, per_mille: Iterable[int], batch: int = 1) -> None:
        """Leaves recordings in a checkout, as nsys would."""
        folder = self.work / side / "new"
        folder.mkdir(exist_ok=True)
        for number, longer in enumerate(per_mille):
            shutil.copyfile(recorded(longer, batch), folder / f"{number}.sqlite")

    def trace(self, per_mille: Iterable[int]) -> None:
        """The same, as `train.py` writes traces of PyTorch's profiler."""
        for number, longer in enumerate(per_mille):
            workload = training(longer)
            write_kineto(workload, workload.processes[0], self.recordings / f"{number:02}.json", "2.13")

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
    found = read_limits_file(runner.work / "limits.toml", DiffOptions.in_files())
    lines = block("toml").splitlines()
    assert [text for text, _ in found.limits] == tomllib.loads(LIMITS)["limits"], "the comment's"
    for text, place in found.limits:
        assert f'"{text}"' in lines[int(place.removeprefix("limits.toml:")) - 1]
    # What the comments say can be said.
    said = re.sub(r"^# (\w+ = )", r"\1", block("toml"), flags=re.M)
    (runner.work / "limits.toml").write_text(said)
    both = read_limits_file(runner.work / "limits.toml", DiffOptions.in_files())
    assert both.options == {"step_range": "epoch *", "run_noise": "0.3%", "inconclusive": "pass"}


def test_jobs_record_five_runs_and_hand_them_to_the_gate(runner: Runner) -> None:
    yaml = pytest.importorskip("yaml")
    page = yaml.safe_load(block("yaml", "# .github/workflows/gpu-speed.yml"))
    github = page["jobs"]["gpu-speed"]["steps"]
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
        pytest.param([100 + each for each in QUIET], 1, "**exceeded**: `steps.period_ns:3%`", 2,
                     marks=pytest.mark.slow),
        pytest.param(NOISY, 4, "**inconclusive**: `steps.period_ns:3%`", 0, marks=pytest.mark.slow),
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
    done = runner.run(block("bash", "# baseline.db"), "-e")
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


# -- both sides in one job


@pytest.fixture
def checkouts(runner: Runner) -> Runner:
    """A runner with two checkouts."""
    for side in ("base", "other"):
        (runner.work / side).mkdir()
    (runner.work / "limits.toml").rename(runner.work / "other" / "limits.toml")
    return runner


def in_turns(other: Sequence[int]) -> list[int]:
    """What is recorded in turns: a quiet base, and this other side."""
    return [each for pair in zip(QUIET, other, strict=True) for each in pair]


LONGER, SHORTER = [[change + each for each in (-3, 4, -1, 2, -4)] for change in (100, -100)]
# Quiet, but not equal, runs of one program.
SAME = (-3, 4, -1, 2, -4)


IN_TURNS = block("bash", "# base/ and other/: two checkouts\n")


def job(runner: Runner) -> str:
    """The steps of the job of GitHub that have a script."""
    yaml = pytest.importorskip("yaml")
    steps = yaml.safe_load(block("yaml", "# .github/workflows/gpu-speed-in-turns.yml"))["jobs"]
    (script,) = [step["run"] for step in steps["gpu-speed"]["steps"] if "run" in step]
    return f'GITHUB_STEP_SUMMARY="{runner.work}/summary.md"\n{script}'


# What is changed, with the exit status and the first word.
CHANGES = {"same": (SAME, 0, "PASS"), "longer": (LONGER, 1, "FAIL"), "shorter": (SHORTER, 0, "PASS")}


@pytest.mark.parametrize(("script", "change"), [
    ("torch", "same"),
    *few([("github", "longer"), ("nsys", "longer"), ("nsys", "same"), ("torch", "longer"),
          ("github", "same"), *((script, "shorter") for script in ("nsys", "torch", "github"))], 0),
])  # fmt: skip
def test_both_sides_in_turns(checkouts: Runner, script: str, change: str) -> None:
    other, status, word = CHANGES[change]
    if script == "torch":
        limits = checkouts.work / "other" / "limits.toml"
        # Steps of torch.profiler need no name.
        limits.write_text(re.sub(r"(?m)^step_range.*$", "", limits.read_text()))
        checkouts.trace(in_turns(other))
        text = block("bash", "# base/ and other/: two checkouts, PyTorch")
    else:
        checkouts.record(in_turns(other))
        text = job(checkouts) if script == "github" else IN_TURNS
    done = checkouts.run(text, "-e")
    assert (done.returncode, checkouts.left()) == (status, 0), done.stderr
    written = {"nsys": lambda: done.stdout, "torch": (checkouts.work / "comment.md").read_text,
               "github": (checkouts.work / "summary.md").read_text}[script]()  # fmt: skip
    assert re.match(f"(### )?{word}: ", written), written


@pytest.mark.slow
def test_what_gets_slower_all_the_time_does_so_on_both_sides(checkouts: Runner) -> None:
    checkouts.record([5 * each for each in range(10)])
    done = checkouts.run(IN_TURNS, "-e")
    assert done.returncode in (0, 4), done.stderr


@pytest.mark.parametrize(("batches", "status", "answer"), [
    # More bytes are more bytes.
    ((1, 4), 1, "inconclusive: different workloads (kernel blocks ×4"),
    *few([((4, 1), 4, "inconclusive: different workloads (kernel blocks ×0.25")], 0),
])  # fmt: skip
def test_another_batch_is_no_faster_program(
    checkouts: Runner, batches: Sequence[int], status: int, answer: str
) -> None:
    limits = checkouts.work / "other" / "limits.toml"
    for side, runs, batch in zip(("base", "other"), (QUIET, SAME), batches, strict=True):
        checkouts.fill(side, runs, batch)
    found = compare(checkouts.work / "base" / "new", checkouts.work / "other" / "new", limits=limits)
    assert found.exit_status == status
    assert found.answer.startswith(answer)


def test_a_damaged_recording_passes_nothing(checkouts: Runner) -> None:
    checkouts.record(in_turns(SAME))
    path = checkouts.recordings / "03.sqlite"
    path.write_bytes(path.read_bytes()[:20_000])
    done = checkouts.run(IN_TURNS, "-e")
    assert done.returncode == 3
    assert "2.sqlite" in done.stderr


def test_the_test_of_the_page_asks_the_gate(checkouts: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {}
    exec(block("python", "# test_speed.py"), names)
    monkeypatch.chdir(checkouts.work)
    same, slower = nullcontext(), pytest.raises(AssertionError, match="slower")
    checkouts.fill("base", QUIET)
    for others, outcome in ((SAME, same), (LONGER, slower)):
        checkouts.fill("other", others)
        with outcome:
            names["test_speed"]()


def test_the_python_of_the_page_is_python() -> None:
    for kind, text in BLOCKS:
        if kind == "python":
            compile(text, "ci.md", "exec")


def test_limits_pass_the_improvement_of_the_tutorial_and_fail_the_way_back(tmp_path: Path) -> None:
    """Pinned memory, a fused optimizer and a faster loader are new."""
    write_examples(tmp_path, "train.sqlite", "faster.sqlite")
    before, after = tmp_path / "train.sqlite", tmp_path / "faster.sqlite"
    for page in ("ci.md", "tutorials/ci.md"):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        (limits,) = re.findall(r"^```toml\n(.*?)^```$", text, re.M | re.S)
        (tmp_path / "limits.toml").write_text(limits)
        for base, other, gate in ((before, after, "PASS"), (after, before, "FAIL")):
            found = compare(base, other, ["overview"], limits=tmp_path / "limits.toml")
            assert found.headline.rows()[0]["gate"] == gate, page
