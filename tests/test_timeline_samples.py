"""Values per step: by hand, and against a slow version."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st
from slow_versions import Slow
from small_store import Call, Graph, Kernel, Memcpy, Operator, Range, Row, opened, step

from nsysconv.timeline.slices import StepRule
from nsysconv.timeline.steps import MIN_STEPS, Samples, call_sums, kernel_sums, step_durations
from nsysconv.timeline.timeline import Timeline

Key = tuple[Any, ...]
Asked = Callable[[Timeline, str], Samples | None]
STEPS = StepRule("ProfilerStep#*")


def many(count: int = MIN_STEPS, **more: Any) -> list[Range]:
    """Steps [0, 100), [100, 200), ..."""
    return [step(i, 100 * i, 100 * i + 100, **more) for i in range(count)]


def table(asked: Asked, *rows: Row, rule: StepRule = STEPS, **options: Any) -> dict[Key, list[int]]:
    """Per key the values of each step."""
    with opened(*rows, **options) as profile:
        return by_key(asked(profile.timeline, rule))


def by_key(found: Samples | None) -> dict[Key, list[int]]:
    assert found.values.dtype == "int64"
    assert len(set(found.keys)) == len(found.keys) == len(found.values)
    return dict(zip(found.keys, found.values.tolist(), strict=True))


def filled(values: list[int], count: int = MIN_STEPS) -> dict[int, int]:
    """The steps that are not 0."""
    assert len(values) == count
    return {i: value for i, value in enumerate(values) if value}


# -- how many steps


@pytest.mark.parametrize("asked", [kernel_sums, call_sums, step_durations])
def test_nothing_of_too_few_steps(asked: Asked) -> None:
    rows = (Call(10, 20, 1), Kernel(30, 40, 1))
    for steps in ([], many(MIN_STEPS - 1)):
        with opened(*steps, *rows) as profile:
            assert asked(profile.timeline, STEPS) is None
    with opened(*many(), *rows) as profile:
        assert asked(profile.timeline, STEPS) is not None
        assert asked(profile.timeline, StepRule("epoch *")) is None


@pytest.mark.parametrize("asked", [kernel_sums, call_sums])
def test_steps_without_anything_in_them(asked: Asked) -> None:
    with opened(*many()) as profile:
        found = asked(profile.timeline, STEPS)
        assert found.keys == [] and found.values.shape == (0, MIN_STEPS)


# -- steps


def test_durations() -> None:
    """Step 2 lasts until what it launched has ended; step 3 begins then."""
    rows = (Call(210, 220, 1), Kernel(230, 330, 1))
    (found,) = table(step_durations, *many(), *rows).values()
    assert found == [100, 100, 130, 70, *[100] * 16]


def test_steps_of_another_name() -> None:
    steps = [Operator(10 * i, 10 * i + 7, f"epoch {i}") for i in range(21)]
    found = table(step_durations, *steps, *many(3), rule=StepRule("epoch *"))
    assert found == {(): [7] * 21}


def test_steps_of_several_processes_are_added_up() -> None:
    """Process 2 has one step more, and of process 1 there is nothing in it."""
    more = many(21, pid=2)
    assert table(step_durations, *many(), *more) == {(): [200] * 20 + [100]}


# -- kernels


def test_a_kernel_belongs_to_the_step_that_launches_it() -> None:
    rows = (
        Call(190, 195, 1), Kernel(196, 216, 1),  # in step 1, which lasts until it ends
        Call(200, 210, 2), Kernel(216, 230, 2),  # in step 2, whatever is going on on the GPU
        Call(216, 220, 3), Kernel(401, 402, 3),
        Call(402, 403, 4), Kernel(404, 405, 4),
    )  # fmt: skip
    (found,) = table(kernel_sums, *many(), *rows).values()
    assert filled(found) == {1: 20, 2: 14 + 1, 4: 1}


def test_the_host_may_be_many_steps_ahead() -> None:
    """Steps of 10 ns on the host, each with a call of 3 ns and a kernel of 100 + its number."""
    steps = [step(i, 10 * i, 10 * i + 10) for i in range(MIN_STEPS)]
    calls = [Call(10 * i + 2, 10 * i + 5, i + 1) for i in range(MIN_STEPS)]
    kernels = [Kernel(200 * i + 5, 200 * i + 105 + i, i + 1) for i in range(MIN_STEPS)]
    (found,) = table(kernel_sums, *steps, *calls, *kernels).values()
    assert found == [100 + i for i in range(MIN_STEPS)]
    (found,) = table(call_sums, *steps, *calls, *kernels).values()
    assert found == [3] * MIN_STEPS


def test_keys_are_device_and_name() -> None:
    rows = (
        Call(10, 11, 1), Kernel(20, 25, 1, name="a"), Kernel(25, 27, 1, name="b"),
        Call(110, 111, 2), Kernel(120, 121, 2, name="a"), Kernel(120, 123, 2, name="a", device=1),
        Call(310, 311, 3), Kernel(320, 330, 3, name="a", device=None),
    )  # fmt: skip
    found = table(kernel_sums, *many(), *rows)
    assert {key: filled(values) for key, values in found.items()} == {
        (0, "a"): {0: 5, 1: 1},
        (0, "b"): {0: 2},
        (1, "a"): {1: 3},
        (None, "a"): {3: 10},
    }


def test_a_kernel_without_a_call_belongs_to_the_step_in_which_it_starts() -> None:
    rows = (Kernel(199, 240), Kernel(200, 207), Call(10, 20, 1), Kernel(30, 31, 1))
    (found,) = table(kernel_sums, *many(), *rows).values()
    assert filled(found) == {0: 1, 1: 41, 2: 7}


def test_where_clocks_disagree_a_kernel_without_a_call_belongs_nowhere() -> None:
    late = 5_000_000_000
    rows = (Call(110, 120, 1), Kernel(late, late + 9, 1), Kernel(250, 260))
    (found,) = table(kernel_sums, *many(), *rows).values()
    assert filled(found) == {1: 9}


def test_what_is_in_no_step() -> None:
    """Before the first, behind the last, in a gap, of another process, or without a time."""
    steps = [step(i, 100 * i + 100, 100 * i + 190) for i in range(20)]
    rows = (Kernel(0, 50), Kernel(190, 199), Kernel(2090, 2099), Kernel(110, 120, pid=2),
            Call(150, 155, 1), Kernel(None, None, 1, name="b"), Kernel(300, 301))  # fmt: skip
    (found,) = table(kernel_sums, *steps, *rows).values()
    assert filled(found) == {2: 1}


def test_only_kernels_count() -> None:
    rows = (Call(10, 11, 1), Kernel(20, 25, 1), Memcpy(20, 30, 1), Graph(20, 40, 1))
    (found,) = table(kernel_sums, *many(), *rows).values()
    assert filled(found) == {0: 5}


def test_a_step_inside_another_has_nothing() -> None:
    """The second begins where the first has ended, and ends there, too."""
    steps = [step(0, 0, 100), step(0, 20, 50), *many(21)[1:]]
    rows = (Kernel(30, 35), Kernel(100, 107))
    (found,) = table(kernel_sums, *steps, *rows).values()
    assert filled(found, 22) == {0: 5, 2: 7}


def test_kernels_of_several_processes() -> None:
    """Each in the steps of its own, which need not be at the same time."""
    later = [step(i, 100 * i + 1000, 100 * i + 1100, pid=2) for i in range(22)]
    rows = (Kernel(110, 115), Kernel(1110, 1117, pid=2), Kernel(1110, 1111, pid=2, device=1),
            Kernel(3150, 3153, pid=2), Kernel(3150, 3151, pid=1))  # fmt: skip
    found = table(kernel_sums, *many(), *later, *rows)
    assert {key: filled(values, 22) for key, values in found.items()} == {
        (0, "kernel"): {1: 12, 21: 3},
        (1, "kernel"): {1: 1},
    }


# -- calls


def test_calls() -> None:
    """Calls inside others count, and a call belongs to the step in which it starts."""
    rows = (
        Call(10, 60, 1, name="cudaMalloc"), Call(20, 30, 2, "driver", name="cuMemAlloc_v2"),
        Call(40, 45, 3, "driver", name="cuMemAlloc"), Call(199, 260, 4, name="cudaMalloc"),
        Call(200, 201, 5, name="cudaMalloc", tid=12), Call(None, None, 6, name="cudaMalloc"),
        Call(5000, 5001, 7, name="cudaFree"),
    )  # fmt: skip
    found = table(call_sums, *many(), *rows)
    assert {key: filled(values) for key, values in found.items()} == {
        ("runtime", "cudaMalloc"): {0: 50, 1: 61, 2: 1},
        ("driver", "cuMemAlloc"): {0: 15},
    }


# -- the keys are those of the reports


def test_keys_and_sums_are_those_of_the_reports() -> None:
    """Where everything is in a step."""
    rows = [
        row
        for i in range(20)
        for row in (
            Call(100 * i + 10, 100 * i + 12, i + 1),
            Kernel(100 * i + 20, 100 * i + 30 + i, i + 1, name=f"k{i % 3}", device=i % 2),
            Call(100 * i + 70, 100 * i + 75, 0, "driver", name="cuCtxSynchronize_v2"),
        )
    ]
    with opened(*many(), *rows) as profile:
        kernels, calls = kernel_sums(profile.timeline), call_sums(profile.timeline)
        assert kernels is not None and calls is not None
        told = profile.report("kernels", split="device").rows()
        sums = {(row["device_id"], row["name"]): row["kernel_sum_ns"] for row in told}
        assert dict(zip(kernels.keys, kernels.values.sum(1).tolist(), strict=True)) == sums
        told = profile.report("api_vs_kernel").rows()
        sums = {(row["layer"], row["name"]): row["api_sum_ns"] for row in told}
        assert dict(zip(calls.keys, calls.values.sum(1).tolist(), strict=True)) == sums


# -- against a slow version

LAST = 60
times = st.integers(1, LAST)
pairs = st.tuples(times, times).map(lambda pair: (min(pair), max(pair)))
pids = st.integers(1, 2)
events = st.one_of(
    st.builds(lambda at, corr, pid, device, name: Kernel(*at, corr, pid=pid, device=device, name=name),
              pairs, st.integers(0, 4), pids, st.sampled_from([None, 0, 1]), st.sampled_from("ab")),
    st.builds(lambda at, corr, pid, layer, name: Call(*at, corr, layer, pid=pid, name=name),
              pairs, st.integers(0, 4), pids, st.sampled_from(["runtime", "driver"]),
              st.sampled_from(["cudaA", "cuB", "cuB_v2"])),
)  # fmt: skip


@st.composite
def profiles(draw: st.DrawFn) -> list[Row]:
    """Steps of two processes, some inside others, and some more rows."""
    steps = [
        step(i, start, min(LAST, start + length), pid=pid)
        for pid, count in ((1, 20), (2, draw(st.integers(0, 22))))
        for i, (start, length) in enumerate(
            draw(st.lists(st.tuples(times, st.integers(0, 6)), min_size=count, max_size=count))
        )
    ]
    return [*steps, *draw(st.lists(events, max_size=12))]


def slow_tables(
    rows: list[Row],
) -> tuple[dict[Key, list[int]], dict[Key, list[int]], dict[Key, list[int]]]:
    """Kernels, calls and durations, step by step."""
    slow = Slow(rows)
    length = max(len(slow.steps(pid)) for pid in (1, 2))
    kernels: dict[Key, list[int]] = defaultdict(lambda: [0] * length)
    calls: dict[Key, list[int]] = defaultdict(lambda: [0] * length)
    durations = [0] * length
    for pid in (1, 2):
        for i, (_, start, end) in enumerate(slow.steps(pid)):
            durations[i] += end - start
            for op in slow.ops:
                call = slow.owner(op)
                mine = slow.step_at(pid, call.start) == i if call else start <= op.start < end
                if isinstance(op, Kernel) and op.pid == pid and mine:
                    kernels[op.device, op.name][i] += op.end - op.start
            for call in slow.calls:
                if call.pid == pid and slow.step_at(pid, call.start) == i:
                    calls[call.layer, call.name.removesuffix("_v2")][i] += call.end - call.start
    return dict(kernels), dict(calls), {(): durations}


@examples(60)
@given(profiles())
def test_the_quick_sums_are_the_slow_ones(rows: list[Row]) -> None:
    with opened(*rows) as profile:
        found = [
            asked(profile.timeline, STEPS) for asked in (kernel_sums, call_sums, step_durations)
        ]
    assert tuple(by_key(one) for one in found) == slow_tables(rows)
