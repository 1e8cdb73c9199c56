"""A few rounds of faults/inject.py: commands disturbed at random, and what they leave.

Hundreds of them are run by hand: docs/security.md.
"""

from __future__ import annotations

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
    return inject.Stage(tmp_path_factory.mktemp("faults") / "stage", 50)


@pytest.mark.parametrize(("name", "fault"), few(ROUNDS, 1))
def test_a_disturbed_command_leaves_nothing_half_done(
    stage: inject.Stage, name: str, fault: str
) -> None:
    (scene,) = [scene for scene in SCENES if scene.name == name]
    number = ROUNDS.index((name, fault))
    for _, _, _, ended, found in inject.rounds(stage, [(SEED, number)], [fault], [scene]):
        assert found == [], ended.said


def test_the_signals_that_end_are_those_of_the_terminal_and_of_batch_systems() -> None:
    assert {number.name for number in runtime.ENDING_SIGNALS} == {"SIGINT", "SIGTERM", "SIGHUP"}
