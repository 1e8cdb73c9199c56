"""What makes the steps of a profile: a framework's names, words with numbers, kernels, graphs."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from conftest import REAL, real
from small_store import Call, Kernel, Memcpy, Operator, Range, Row, answers, cell, opened

from nsysconv import api
from nsysconv.api import Slice
from nsysconv.errors import UsageError
from nsysconv.facts import Fact
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.slices import ANY_STEPS, StepRule
from nsysconv.timeline.step_rules import resolved
from nsysconv.timeline.steps import (
    MIN_STEPS,
    annotated,
    kernel_sums,
    lost_in_steps,
    step_count,
    steps,
)

WORK = Kernel(0, 100)


def rule_of(*rows: Row, **options: Any) -> str | None:
    with opened(*rows, **options) as profile:
        return resolved(profile.timeline, ANY_STEPS).range


def numbered(word: str, *numbers: int, length: int = 20, first: int = 0, **more: Any) -> list[Row]:
    return [Range(first + 20 * i, first + 20 * i + length, f"{word}{number}", **more)
            for i, number in enumerate(numbers)]  # fmt: skip


@pytest.mark.parametrize("word", ["step ", "iter_", "iteration", "Step#", "train step=", "epoch-", "it:"])
def test_a_word_with_a_rising_number(word: str) -> None:
    assert rule_of(WORK, *numbered(word, 3, 4, 7)) == f"{word}*"


@pytest.mark.parametrize(("rows", "why"), [
    (numbered("step ", 1, 2), "there are only two"),
    (numbered("step ", 1, 3, 2), "the number falls"),
    (numbered("step ", 1, 2, 2), "the number stays"),
    (numbered("step ", 1, 2, 3, length=21), "one begins before the other ends"),
    (numbered("step ", 1, 2, 3, length=16), "they cover 48 of 100 ns"),
    ([Range(0, 90, "step 1 of 3"), Range(90, 95, "step 2 of 3"), Range(95, 99, "step 3 of 3")],
     "the words hold another number"),
    ([Operator(20 * i, 20 * i + 20, f"step {i}") for i in range(5)], "operators are no ranges"),
    (numbered("mm, seq = ", 1, 2, 3, 4, 5), "the number is an argument"),
    (numbered("decoder layer_", 0, 1, 2, 3, 4), "a layer is no step"),
    (numbered("Coarse Level ", 0, 1, 2, 3, 4), "nor a level of a solver"),
    (numbered("Rank ", 0, 1, 2, 3, 4), "nor is a rank"),
])  # fmt: skip
def test_what_is_no_step(rows: list[Row], why: str) -> None:
    assert rule_of(WORK, *rows) is None, why


def test_half_of_the_time_is_enough() -> None:
    """They cover 3 x 17 = 51 of 100 ns."""
    assert rule_of(WORK, *numbered("step ", 1, 2, 3, length=17)) == "step *"


def test_of_several_words_the_one_that_covers_most() -> None:
    inner = [Range(20 * i, 20 * i + 15, f"forward {i}") for i in range(5)]
    assert rule_of(WORK, *inner, *numbered("step ", 1, 2, 3, 4, 5)) == "step *"


def test_a_framework_comes_before_words() -> None:
    profiler = Range(0, 30, "ProfilerStep#7")
    assert rule_of(WORK, profiler, *numbered("step ", 1, 2, 3, 4)) == "ProfilerStep#*"
    lightning = [Range(0, 30, "[pl][profile]run_training_batch")]
    assert rule_of(WORK, *lightning) == "[pl][profile]run_training_batch"


def test_words_of_a_process_without_gpu_work_are_no_steps() -> None:
    """Process 2 loads data; the ranges of process 1 cover what its GPU does."""
    loads = numbered("batch ", 1, 2, 3, 4, 5, pid=2, tid=21)
    assert rule_of(WORK, *loads) is None
    assert rule_of(WORK, *loads, *numbered("step ", 1, 2, 3)) == "step *"


def test_without_ranges_nothing_is_looked_for() -> None:
    assert rule_of(WORK, without=(Fact.RANGES, Fact.OPERATORS)) is None


# -- steps that a kernel ends
#
#   calls      0-5 a   10-15 end   20-25 a   30-35 end    40-45 a  50-55 end
#   kernels         10-40 a  40-50 end   50-80 a  80-90 end  90-99 a  99-110 end
CALLS = [Call(10 * i, 10 * i + 5, i + 1) for i in range(6)]
KERNELS = [Kernel(10, 40, 1, name="a"), Kernel(40, 50, 2, name="end"), Kernel(50, 80, 3, name="a"),
           Kernel(80, 90, 4, name="end"), Kernel(90, 99, 5, name="a"),
           Kernel(99, 110, 6, name="end")]  # fmt: skip
BY_KERNEL = StepRule(kernel="^end$")


def reported(*rows: Row, **options: Any) -> list[dict[str, Any]]:
    return answers("steps", *rows, **options)


def test_a_step_ends_with_a_kernel() -> None:
    """What is before the first end is no step."""
    found = reported(*CALLS, *KERNELS, step_kernel="^end$")
    assert [(row["step"], row["start_ns"], row["dur_ns"]) for row in found] == [
        ("step 1", 50, 40), ("step 2", 90, 20)]  # fmt: skip


def test_on_the_host_a_step_is_from_launch_to_launch() -> None:
    with opened(*CALLS, *KERNELS) as profile:
        (mine,) = annotated(profile.timeline, BY_KERNEL)
        assert (mine.start.tolist(), mine.end.tolist()) == ([15, 35], [35, 55])


def test_what_was_launched_in_a_step_of_the_host() -> None:
    """From the end of the launch at 15 to that at 35 the kernels of 50 to 90 were launched."""
    part = Slice(step="1", step_kernel="^end$", projected=True)
    assert cell("overview kernel_count window_start_ns window_ns", *CALLS, *KERNELS, part=part) == (
        2, 50, 40)  # fmt: skip


def test_without_launches_steps_are_on_the_gpu_alone() -> None:
    rows = [kernel._replace(correlation=0) for kernel in KERNELS]
    with opened(*rows) as profile:
        (mine,) = annotated(profile.timeline, BY_KERNEL)
        assert (mine.start.tolist(), mine.end.tolist()) == ([50, 90], [90, 110])


def test_each_process_has_its_own_steps() -> None:
    others = (Kernel(k.start + 5, k.end + 5, name=k.name, pid=2, device=1) for k in KERNELS[:4])
    with opened(*KERNELS, *others) as profile:
        found = {mine.pid: mine.end.tolist() for mine in steps(profile.timeline, BY_KERNEL)}
        assert found == {1: [90, 110], 2: [95]}
        assert step_count(profile.timeline, BY_KERNEL) == 2


def test_on_two_devices_a_step_ends_with_the_last() -> None:
    late = [Kernel(k.start + 3, k.end + 3, name=k.name, device=1) for k in KERNELS]
    with opened(*KERNELS, *late) as profile:
        (mine,) = steps(profile.timeline, BY_KERNEL)
        assert (mine.start.tolist(), mine.end.tolist()) == ([53, 93], [93, 113])


@pytest.mark.parametrize(("kernel", "what"), [
    ("nothing", "fewer than two kernels match 'nothing'"),
    ("[", "is not a regular expression"),
])  # fmt: skip
@pytest.mark.parametrize("report", ["steps", "gpu_utilization:by=step"])
def test_kernels_that_make_no_steps(report: str, kernel: str, what: str) -> None:
    with opened(*KERNELS) as profile, pytest.raises(UsageError) as error:
        profile.report(report, step_kernel=kernel)
    assert what in error.value.what


def test_one_rule_at_a_time() -> None:
    with pytest.raises(UsageError, match="ranges, by a kernel or by graphs"):
        StepRule(range="a", kernel="b")


def test_kernels_by_step_are_those_that_the_host_launched_in_it() -> None:
    """The host launches all steps before the GPU begins: each has a kernel `a` of its own length."""
    rows: list[Row] = []
    for i in range(MIN_STEPS + 1):
        at = 1000 + 100 * i
        rows += [Call(2 * i, 2 * i + 1, 2 * i + 1), Kernel(at, at + 10 + i, 2 * i + 1, name="a"),
                 Call(2 * i + 1, 2 * i + 2, 2 * i + 2),
                 Kernel(at + 60, at + 70, 2 * i + 2, name="end")]  # fmt: skip
    with opened(*rows) as profile:
        found = kernel_sums(profile.timeline, BY_KERNEL)
        values = dict(zip((name for _, name in found.keys), found.values.tolist(), strict=True))
        assert values["a"] == [10 + i for i in range(1, MIN_STEPS + 1)]


# -- steps that a graph's replay ends


def test_a_step_ends_with_the_replay_of_a_graph() -> None:
    """Two operations a replay; a copy is launched by itself."""
    rows: list[Row] = []
    for i, at in enumerate((100, 200, 300)):
        rows += [Call(at - 50, at - 45, i + 1, name="cudaGraphLaunch"), Kernel(at, at + 10, i + 1),
                 Kernel(at + 20, at + 30 + i, i + 1),
                 Call(at - 40, at - 38, i + 10, name="cudaMemcpyAsync"),
                 Memcpy(at + 40, at + 45, i + 10)]  # fmt: skip
    found = reported(*rows, step_graph=True)
    assert [(row["step"], row["start_ns"], row["dur_ns"]) for row in found] == [
        ("step 1", 130, 101), ("step 2", 231, 101)]  # fmt: skip


# -- real recordings


@real
@pytest.mark.parametrize("side", ["before", "after"])
def test_iterations_of_a_real_recording(side: str) -> None:
    """The first product of an iteration of the model is launched 17 and 15 times on each GPU."""
    path = REAL / "nsys_sqlite" / f"GindaChen+nsys-ai__mfu_2gpu_{side}.sqlite"
    with api.open(path) as profile:
        rows = profile.report("steps", step_kernel="nvjet_tst_192x208.*bias_TNT", limit=0).rows()
        counted = {pid: sum(row["pid"] == pid for row in rows) for pid in {row["pid"] for row in rows}}
        assert set(counted.values()) == {16 if side == "before" else 14}
        assert 10e6 < rows[2]["dur_ns"] < 30e6


def test_random_ends_against_a_slow_version() -> None:
    rng = random.Random(3)
    for _ in range(12):
        at, rows, ends = 0, [], []
        for _ in range(rng.randint(2, 12)):
            at += rng.randint(1, 20)
            name = rng.choice(["a", "end"])
            rows.append(Kernel(at, at + rng.randint(1, 9), name=name))
            at = rows[-1].end
            if name == "end":
                ends.append(at)
        with opened(*rows) as profile:
            found = steps(profile.timeline, BY_KERNEL)
            got = [pair for mine in found for pair in
                   zip(mine.start.tolist(), mine.end.tolist(), strict=True)]  # fmt: skip
            assert got == list(pairwise(ends))


# -- losses at the edges of a recording


def edges(lost_at: int) -> list[Row]:
    """Three steps of 100 ns with a kernel each; the work of a launch at `lost_at` is not recorded."""
    rows: list[Row] = [Call(lost_at, lost_at + 5, 99)]
    for i in range(3):
        at = 100 + 100 * i
        rows += [Range(at, at + 100, f"ProfilerStep#{i}"), Call(at + 5, at + 10, i + 1),
                 Kernel(at + 20, at + 90, i + 1)]  # fmt: skip
    return rows


@pytest.mark.parametrize(("lost_at", "count"), [(50, 0), (150, 1), (420, 0)])
def test_launches_that_steps_have_lost(lost_at: int, count: int) -> None:
    with opened(*edges(lost_at), examined=True) as profile:
        assert len(profile.timeline.lost_launches) == 1
        assert lost_in_steps(profile.timeline) == count


def test_without_steps_it_is_not_known_what_they_lost() -> None:
    with opened(Kernel(0, 10)) as profile:
        assert lost_in_steps(profile.timeline) is None


@real
def test_the_change_per_iteration_of_a_real_pair_is_named() -> None:
    """Both recordings lose launches at their ends, in no iteration; with known noise it is a change."""
    sides = [REAL / "nsys_sqlite" / f"GindaChen+nsys-ai__mfu_2gpu_{side}.sqlite" for side in
             ("before", "after")]  # fmt: skip
    found = api.compare(*sides, step_kernel="nvjet_tst_192x208.*bias_TNT", run_noise="0.3%")
    assert found.answer.startswith("slower: step period 17.86 ms → 20.01 ms (+12.0 %)")
    assert "95 % interval +11.1 to +12.9 %" in found.answer


@real
def test_windows_up_to_the_first_long_gap_hold_unlike_work() -> None:
    """Another tool takes them as iterations and says -29 %; per attention kernel they are slower, too."""
    spent, launched = [], []
    for side in ("before", "after"):
        path = REAL / "nsys_sqlite" / f"GindaChen+nsys-ai__mfu_2gpu_{side}.sqlite"
        with api.open(path) as profile:
            ops = profile.timeline.ops
            kernels = ops.take(np.flatnonzero((ops.kind == OpKind.KERNEL) & (ops.device == 0)))
            busy_until = np.maximum.accumulate(kernels.end)[:-1]
            first = np.flatnonzero(kernels.start[1:] - busy_until > 2_000_000)[0]
            time = int(kernels.start[0]), int(busy_until[first])
            window = Slice(name="flash_fwd", devices=(0,), time=time)
            spent.append(time[1] - time[0])
            (row,) = profile.report("kernels", slice=window).rows()
            launched.append(row["kernel_count"])
    assert launched == [29, 19]
    assert spent[1] / spent[0] - 1 == pytest.approx(-0.32, abs=0.005)
    assert spent[1] / launched[1] > 1.04 * spent[0] / launched[0]
