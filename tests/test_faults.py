"""A few rounds of faults/inject.py: commands disturbed at random, and what they leave.

Hundreds of them are run by hand: docs/security.md.
"""

from __future__ import annotations

from pathlib import Path

import inject
import pytest
from scenes import SCENES

from nsysconv.cli import signals

SEED = 20
ROUNDS = [
    ("import, new store", "kill"), ("import, old store", "kill"), ("import, many files", "kill"),
    ("page over a page", "kill"), ("export, parquet", "kill"), ("report, trace", "kill"),
    ("import, many files, old store", "Ctrl-C"), ("import, trace", "SIGTERM"),
    ("report, trace", "Ctrl-C"), ("page over a page", "disk full"), ("import, old store", "disk full"),
    ("export, chrome", "disk full"), ("import, a store", "open files"), ("diff", "memory"),
]  # fmt: skip


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> inject.Stage:
    return inject.Stage(tmp_path_factory.mktemp("faults") / "stage", 2_000)


@pytest.mark.parametrize(("name", "fault"), ROUNDS)
def test_a_disturbed_command_leaves_nothing_half_done(
    stage: inject.Stage, name: str, fault: str
) -> None:
    (scene,) = [scene for scene in SCENES if scene.name == name]
    number = ROUNDS.index((name, fault))
    for _, _, _, ended, found in inject.rounds(stage, [(SEED, number)], [fault], [scene]):
        assert found == [], ended.said


def test_every_scene_is_told_apart() -> None:
    assert len({scene.name for scene in SCENES}) == len(SCENES)


def test_the_signals_that_end_are_those_of_the_terminal_and_of_batch_systems() -> None:
    assert {number.name for number in signals._ENDING} == {"SIGINT", "SIGTERM", "SIGHUP"}


def test_what_a_round_finds(stage: inject.Stage, tmp_path: Path) -> None:
    """So that the rounds can fail: a page cut short, a file left, a traceback, no word."""
    (scene,) = [scene for scene in SCENES if scene.name == "page over a page"]
    with stage.laid(scene) as (place, temporary):
        (place / "page.html").write_text("<html")
        (place / ".page.html.host-1-00.partial").write_text("half")
        (temporary / "left").write_text("")
        said = "Traceback (most recent call last):\n"
        ended = inject.Ended(130, said, 1.0, True)
        found = inject.problems(stage, scene, "Ctrl-C", ended, place, temporary)
    assert len(found) == 7, found
    assert found[:3] == ["a traceback", "not told that it was interrupted", "a process was left"]
    assert "neither what was there nor what was to be made" in found
