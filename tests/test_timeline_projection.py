"""Projection of spans onto the GPU and their nesting, against slow obvious versions."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st

from nsysconv.report import MISSING
from nsysconv.timeline import arrays
from nsysconv.timeline import projection as module
from nsysconv.timeline.events import ApiCalls, GpuOps, OpKind, Spans, number_threads
from nsysconv.timeline.intervals import grouped_measure
from nsysconv.timeline.nesting import Paths, Tree, build_tree, path_texts
from nsysconv.timeline.projection import projection

PID, OTHER = 1, 2

# A call: start, thread; an operation: start (None: no time), length, its call, kernel or not.
calls = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2)), min_size=1, max_size=12)
ops = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 40)),
        st.integers(0, 15),
        st.integers(-1, 11),
        st.booleans(),
    ),
    max_size=25,
)
intervals = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 30), st.integers(0, 2)), max_size=12
)


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Columns are looked at so few rows at a time that edges of blocks lie in them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "BLOCK", 2)
        yield


def timeline_of(made: list[tuple[int, int]], ran: list[tuple[Any, int, int, bool]]) -> Any:
    """What projection asks of a time line of these; thread 2 is another process's."""
    made = sorted(made)
    start = np.array([s for s, _ in made], np.int64)
    tid = np.array([t for _, t in made], np.int64)
    pid = np.where(tid == 2, OTHER, PID)
    thread, threads = number_threads(pid, tid)
    zeros = np.zeros(len(made), np.int64)
    row = np.arange(len(made), dtype=np.int32)
    found = ApiCalls(start, start + 1, pid, thread, zeros, zeros, zeros, zeros == 0, row, 0, threads)
    # Sorted by start, those without a time first.
    ordered = sorted(ran, key=lambda op: -1 if op[0] is None else op[0])
    begun = np.array([MISSING if s is None else s for s, *_ in ordered], np.int64)
    over = np.array([MISSING if s is None else s + length for s, length, *_ in ordered], np.int64)
    owner = np.array([c if c < len(made) else -1 for _, _, c, _ in ordered], np.int32)
    kind = np.array([OpKind.KERNEL if k else OpKind.MEMCPY for *_, k in ordered], np.int8)
    nothing = np.zeros(len(ordered), np.int64)
    of = np.where(owner >= 0, pid[owner], PID)
    gpu = GpuOps(kind, nothing, begun, over, nothing, nothing, of, nothing)
    return SimpleNamespace(calls=found, ops=gpu, owner=owner)


def spans_of(found: list[tuple[int, int, int]]) -> Spans:
    start = np.array([s for s, _, _ in found], np.int64)
    tid = np.array([t for _, _, t in found], np.int64)
    zeros = np.zeros(len(found), np.int64)
    end = start + np.array([d for _, d, _ in found], np.int64)
    return Spans(start, end, np.where(tid == 2, OTHER, PID), tid, zeros, zeros, zeros, zeros, ("r",))


def slowly(timeline: Any, spans: Spans, any_thread: bool) -> list[tuple[int, ...]]:
    """Span by span, operation by operation, and moment by moment."""
    result = []
    for start, end, pid, tid in zip(spans.start, spans.end, spans.pid, spans.tid, strict=True):
        inside = []
        for op in range(len(timeline.ops)):
            call = int(timeline.owner[op])
            if call < 0 or not start <= timeline.calls.start[call] < end:
                continue
            its_pid, its_tid = timeline.calls.threads[int(timeline.calls.thread[call])]
            if its_pid == pid and (any_thread or its_tid == tid):
                inside.append((op, call))
        timed = [op for op, _ in inside if timeline.ops.start[op] != MISSING]
        begun = [int(timeline.ops.start[op]) for op in timed]
        over = [int(timeline.ops.end[op]) for op in timed]
        covered = {t for s, e in zip(begun, over, strict=True) for t in range(s, e)}
        kernels = [op for op, _ in inside if timeline.ops.kind[op] == OpKind.KERNEL]
        spent = sum(
            int(timeline.ops.end[op] - timeline.ops.start[op]) for op in kernels if op in timed
        )
        result.append(
            (
                min(begun, default=MISSING), max(over, default=MISSING), len(covered), len(inside),
                len({call for _, call in inside}), len(kernels), spent,
            )
        )  # fmt: skip
    return result


def rows(found: module.Projection) -> list[tuple[int, ...]]:
    names = (
        "start", "end", "union_ns", "op_count", "launch_count", "kernel_count", "kernel_sum_ns",
    )  # fmt: skip
    return list(zip(*(getattr(found, name).tolist() for name in names), strict=True))


@pytest.mark.parametrize("passes", [64, 0], ids=["gathered", "swept"])
@given(calls, ops, intervals, st.booleans())
@examples(400)
def test_projection_is_what_the_definition_says(
    passes: int, made: Any, ran: Any, found: Any, any_thread: bool
) -> None:
    timeline, spans = timeline_of(made, ran), spans_of(found)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_PASSES", passes)
        patch.setattr(module, "SPANS_AT_ONCE", 7)
        assert rows(projection(timeline, spans, any_thread)) == slowly(timeline, spans, any_thread)


def test_groups_that_do_not_fit_in_63_bits_together() -> None:
    # Three groups of a span of 2^61 each, laid out behind each other, would need more than 63 bits.
    long = 1 << 61
    start = np.array([0, 5, 0, 0, long - 1], np.int64)
    end = np.array([10, 15, long, 4, long], np.int64)
    group = np.array([0, 0, 1, 2, 2])
    assert grouped_measure(start, end, group, 3).tolist() == [15, long, 5]


def test_a_mask_says_which_are_of_any_thread() -> None:
    # Two calls at 5, on threads 0 and 1, with an operation each; one range on thread 0, twice.
    timeline = timeline_of([(5, 0), (5, 1)], [(10, 2, 0, True), (20, 3, 1, True)])
    spans = spans_of([(0, 10, 0), (0, 10, 0)])
    found = projection(timeline, spans, np.array([False, True]))
    assert (found.op_count.tolist(), found.end.tolist()) == ([1, 2], [12, 23])


@given(intervals)
@examples(300)
def test_nesting_is_what_the_definition_says(found: Any) -> None:
    tree = build_tree(spans_of(found))
    spans = tree.spans
    own = [set(range(int(spans.start[i]), int(spans.end[i]))) for i in range(len(tree))]
    for i in range(len(tree)):
        # The innermost: the last before it, of its thread, that has begun and is not yet over.
        held = [
            j for j in range(i)
            if spans.tid[j] == spans.tid[i] and spans.start[j] <= spans.start[i] < spans.end[j]
        ]  # fmt: skip
        parent = held[-1] if held else -1
        assert tree.parent[i] == parent
        assert tree.level[i] == (tree.level[parent] + 1 if held else 0)
    for i in range(len(tree)):
        mine = [j for j in range(len(tree)) if tree.parent[j] == i]
        assert tree.child_count[i] == len(mine)
        assert tree.child_ns[i] == sum(int(spans.end[j] - spans.start[j]) for j in mine)
        below = {j for j in range(len(tree)) if i in _around(tree, j)}
        assert tree.self_ns[i] == len(own[i].difference(*(own[j] for j in below)))
    for tid in set(spans.tid.tolist()):
        mine = np.flatnonzero(spans.tid == tid).tolist()
        assert sum(tree.self_ns[mine]) == len(set().union(*(own[i] for i in mine)))


def _around(tree: Tree, place: int) -> list[int]:
    found = []
    while (place := int(tree.parent[place])) >= 0:
        found.append(place)
    return found


def test_paths_are_names_from_outside_to_inside() -> None:
    # step [0, 40): load [0, 10), load [10, 20) with copy [12, 14) inside; copy [50, 51) outside.
    spans = spans_of([(0, 40, 0), (0, 10, 0), (10, 10, 0), (12, 2, 0), (50, 1, 0)])
    named = Spans(
        **{**vars(spans), "name": np.array([0, 1, 1, 2, 2]), "names": ("step", "load", "copy")}
    )
    paths = build_tree(named).paths
    every = np.arange(len(paths))
    texts = path_texts(paths.parent, lambda path: named.names[paths.name[path]], every)
    assert [texts[path] for path in paths.of.tolist()] == [
        "step", "step/load", "step/load", "step/load/copy", "copy"
    ]  # fmt: skip
    assert (len(paths), paths.level.tolist()) == (4, [0, 0, 1, 2])


@given(st.lists(st.tuples(st.integers(-1, 30), st.integers(0, 5)), min_size=1, max_size=30))
@examples(300)
def test_depth_first_is_what_it_says(drawn: list[tuple[int, int]]) -> None:
    # Paths are numbered level by level; a random forest in that order.
    parents = [min(parent, place - 1) for place, (parent, _) in enumerate(drawn)]
    levels: list[int] = []
    for parent in parents:
        levels.append(levels[parent] + 1 if parent >= 0 else 0)
    at = sorted(range(len(drawn)), key=lambda place: levels[place])
    number_of = {place: number for number, place in enumerate(at)}
    parent = np.array([number_of.get(parents[place], -1) for place in at], np.int64)
    total = np.array([drawn[place][1] for place in at], np.int64)
    zeros = np.zeros(len(at), np.int64)

    def below(which: int) -> list[int]:
        inside = sorted(np.flatnonzero(parent == which).tolist(), key=lambda p: (-total[p], p))
        return [each for child in inside for each in (child, *below(child))]

    assert Paths(zeros, parent, zeros).depth_first(total).tolist() == below(-1)
