"""A few rounds of faults/inject.py: commands disturbed at random, and what they leave.

Hundreds of them are run by hand: docs/security.md.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import disturbing
import inject
import pytest
from conftest import few
from scenes import SCENES

from nsysconv.cli import runtime

SEED = 20
ROUNDS = [
    ("import, new store", "kill"), ("import, old store", "kill"), ("import, many files", "kill"),
    ("page over a page", "kill"), ("export, parquet", "kill"), ("report, trace", "kill"),
    ("import, many files, old store", "Ctrl-C"), ("import, trace", "SIGTERM"),
    ("report, trace", "Ctrl-C"), ("page over a page", "disk full"), ("import, old store", "disk full"),
    ("export, chrome", "disk full"), ("import, a store", "open files"), ("diff", "memory"),
    ("import, new store", "two writers"), ("import, old store", "two writers"),
    ("import, replacing", "read-only folder"), ("page over a page", "read-only folder"),
    ("report, trace", "clock jump"), ("import, trace", "no HOME"),
]  # fmt: skip


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> inject.Stage:
    return inject.Stage(tmp_path_factory.mktemp("faults") / "stage", 2_000)


@pytest.mark.parametrize(("name", "fault"), few(ROUNDS, 1))
def test_a_disturbed_command_leaves_nothing_half_done(
    stage: inject.Stage, name: str, fault: str
) -> None:
    (scene,) = [scene for scene in SCENES if scene.name == name]
    number = ROUNDS.index((name, fault))
    for _, _, _, ended, found in inject.rounds(stage, [(SEED, number)], [fault], [scene]):
        assert found == [], ended.said


def test_every_scene_has_its_own_name() -> None:
    assert len({scene.name for scene in SCENES}) == len(SCENES)


def test_the_signals_that_end_are_those_of_the_terminal_and_of_batch_systems() -> None:
    assert {number.name for number in runtime.ENDING_SIGNALS} == {"SIGINT", "SIGTERM", "SIGHUP"}


def test_the_clock_of_a_command_jumps() -> None:
    looks = "import time; print(*(time.time() for _ in range(20)))"
    done = subprocess.run([sys.executable, "-c", looks], env={"PYTHONPATH": str(disturbing.CLOCK)},
                          capture_output=True, text=True, check=True)  # fmt: skip
    shown = [float(word) for word in done.stdout.split()]
    steps = [later - earlier for earlier, later in pairwise(shown)]
    assert min(steps) < -3600 < 3600 < max(steps)


@pytest.mark.slow
def test_both_of_two_writers_are_checked(stage: inject.Stage) -> None:
    """One that was refused has added nothing; one that says it has, and has not, is found."""
    (scene,) = [scene for scene in SCENES if scene.name == "import, new store"]
    stage.undisturbed(scene)
    words, added = stage.another(scene)
    assert words[0] == "import"
    assert [name.partition("@")[0] for name in added] == ["store.db"]
    refused = inject.Ended(2, "nsysconv: in use\n", 1.0, False)
    for ended, wanted in (
        (replace(refused, second=refused), ["both were refused"]),
        (replace(refused, second=replace(refused, status=0)),
         ["neither what was there nor what was to be made", "the next run is not complete, or leaves "
          "something"]),
    ):  # fmt: skip
        with stage.laid(scene) as (place, temporary):
            assert inject.problems(stage, scene, "two writers", ended, place, temporary) == wanted


@pytest.mark.slow
def test_a_round_reports_each_kind_of_problem(stage: inject.Stage, tmp_path: Path) -> None:
    """So that the rounds can fail: a page cut short, a file left, a traceback, no word."""
    (scene,) = [scene for scene in SCENES if scene.name == "page over a page"]
    stage.undisturbed(scene)
    with stage.laid(scene) as (place, temporary):
        (place / "page.html").write_text("<html")
        (place / ".page.html.host-1-00.partial").write_text("half")
        (temporary / "left").write_text("")
        said = "Traceback (most recent call last):\n"
        ended = inject.Ended(130, said, 1.0, True)
        found = inject.problems(stage, scene, "Ctrl-C", ended, place, temporary)
    assert len(found) == 7, found
    assert found[:3] == ["a traceback", "not reported that it was interrupted", "a process was left"]
    assert "neither what was there nor what was to be made" in found
