"""The fast arithmetic against the slow one of slow_versions, on random small profiles."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from conftest import examples
from hypothesis import example, given
from hypothesis import strategies as st
from slow_versions import (
    PARTS,
    Gap,
    Slow,
    edges,
    figures,
    innermost,
    instants,
    numbered,
    outermost,
    runs,
)
from slow_versions import resident_blocks as slow_resident_blocks
from small_store import (
    Call,
    Graph,
    Kernel,
    Memcpy,
    Memset,
    Migration,
    Operator,
    Overhead,
    Range,
    Row,
    answers,
    only,
    opened,
)

from nsysconv import Slice
from nsysconv.report import MISSING
from nsysconv.timeline import arrays, events, intervals
from nsysconv.timeline.arrays import (
    DECADES,
    ROUND_ENDS,
    among,
    bucket_of,
    by_group,
    concatenate,
    counts,
    factorize,
    grouped_statistics,
    indices,
    percent,
    sort_by_group,
    sums,
    weighted_statistics,
)
from nsysconv.timeline.boxes import ONE, OTHER, Boxes, boxes, busy_alone
from nsysconv.timeline.clock_offsets import middle
from nsysconv.timeline.events import EVENT_KINDS
from nsysconv.timeline.idle import IDLE_KINDS
from nsysconv.timeline.intervals import (
    Union,
    difference,
    longest,
    measure,
    measure_of_all,
    measures,
    union,
    union_with,
)
from nsysconv.timeline.utilization import resident_blocks, sms

STEP_CLASSES = ("kernel", "memcpy", "memset", "communication", "runtime", "data_loader", "cpu",
                "other")  # fmt: skip
LAST = 40
times = st.integers(0, LAST)
interval = st.tuples(times, times).map(lambda pair: (min(pair), max(pair)))
some_intervals = st.lists(interval, max_size=12)
masked = st.lists(st.tuples(interval, st.booleans()), max_size=12)


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """Columns are looked at so few rows at a time that edges of blocks lie in them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "BLOCK", 3)
        yield


def columns_of(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(pairs, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def taken_apart(drawn: list[tuple[tuple[int, int], bool]]) -> tuple[list[Any], np.ndarray, list[Any]]:
    """The intervals, the mask of those that count, and these."""
    which = np.array([kept for _, kept in drawn], bool)
    return [pair for pair, _ in drawn], which, [pair for pair, kept in drawn if kept]


def pairs_of(found: Union | intervals.Segments) -> list[tuple[int, int]]:
    return list(zip(found.starts.tolist(), found.ends.tolist(), strict=True))


# -- unions


@given(masked)
def test_union(drawn: Any) -> None:
    """Of all, and of those of a mask."""
    pairs, which, kept = taken_apart(drawn)
    found = union(*columns_of(pairs))
    assert pairs_of(found) == runs(instants(pairs))
    assert found.measure == len(instants(pairs))
    assert edges(pairs_of(found))
    assert pairs_of(union(*columns_of(pairs), which)) == runs(instants(kept))


@given(some_intervals, masked)
@example([(0, 1), (2, 3), (4, 5), (20, 30), (32, 33)],
         [((6, 7), True), ((8, 9), True), ((25, 31), False)])  # fmt: skip
def test_united(one: list[tuple[int, int]], drawn: Any) -> None:
    other, which, kept = taken_apart(drawn)
    for mask, of_mask in ((None, other), (which, kept)):
        found = union_with(union(*columns_of(one)), *columns_of(other), mask)
        assert pairs_of(found) == runs(instants(one + of_mask))


@given(some_intervals, some_intervals)
@example([(0, 10), (20, 30)], [(0, 2), (5, 6), (8, 22), (30, 40)])
def test_difference(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    """And how long several unions are together."""
    unions = [union(*columns_of(one)), union(*columns_of(other))]
    found = difference(*unions)
    assert pairs_of(found) == runs(instants(one) - instants(other))
    assert measure_of_all([*unions, found]) == len(instants(one + other))


@given(masked, interval, some_intervals)
def test_measure_inside_spans(drawn: Any, span: tuple[int, int], asked: list[tuple[int, int]]) -> None:
    """What has no time is left out."""
    pairs, which, kept = taken_apart([*drawn, ((MISSING, MISSING), True)])
    columns = columns_of(pairs)
    inside = [len(instants(kept[:-1]) & instants([each])) for each in (span, *asked)]
    assert measure(*columns, *span) == len(instants(pairs[:-1]) & instants([span]))
    assert measure(*columns, *span, which) == inside[0]
    columns, which = columns_of(pairs[:-1]), which[:-1]
    assert measures(*columns, *columns_of(asked), which).tolist() == inside[1:]


@given(masked)
def test_the_first_of_the_longest_intervals(drawn: Any) -> None:
    pairs, which, _ = taken_apart(drawn)
    lengths = [end - start if kept else -1 for (start, end), kept in drawn]
    expected = lengths.index(max(lengths)) if max(lengths, default=-1) >= 0 else None
    assert longest(*columns_of(pairs), which) == expected


@given(some_intervals, some_intervals)
def test_covered(pairs: list[tuple[int, int]], asked: list[tuple[int, int]]) -> None:
    found = union(*columns_of(pairs)).covered(*columns_of(asked)).tolist()
    assert found == [len(instants(pairs) & instants([one])) for one in asked]


@given(some_intervals, some_intervals)
def test_which_intervals_meet_a_union(
    pairs: list[tuple[int, int]], asked: list[tuple[int, int]]
) -> None:
    found = union(*columns_of(pairs)).meets(*columns_of(asked)).tolist()
    # One without length has the ns that it is in.
    own = [instants([(start, max(end, start + 1))]) for start, end in asked]
    assert found == [bool(instants(pairs) & each) for each in own]


@given(some_intervals, interval)
def test_gaps_of_a_union(pairs: list[tuple[int, int]], span: tuple[int, int]) -> None:
    low, high = union(*columns_of(pairs)).gaps(*span)
    expected = runs(set(range(*span)) - instants(pairs))
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == expected


# -- nesting


@given(some_intervals)
def test_parents_are_the_same_found_by_levels_and_one_by_one(pairs: list[tuple[int, int]]) -> None:
    kept = sorted(
        {pair for pair in pairs if pair[1] > pair[0]}, key=lambda pair: (pair[0], -pair[1])
    )
    starts, ends = columns_of(kept)
    by_levels = intervals.parents(starts, ends)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(intervals, "MAX_LEVELS", 0)
        one_by_one = intervals.parents(starts, ends)
    for ours, other in zip(by_levels, one_by_one, strict=True):
        assert ours.tolist() == other.tolist()


def test_intervals_nested_deeper_than_any_program_does() -> None:
    count = 100_000
    starts = np.arange(count)
    found = intervals.innermost(starts, 2 * count - starts, starts)
    assert len(found) == 2 * count - 1
    assert found.labels[:count].tolist() == starts.tolist()


@given(some_intervals)
def test_innermost(pairs: list[tuple[int, int]]) -> None:
    """Crossing intervals included."""
    labels = np.arange(len(pairs))
    found = intervals.innermost(*columns_of(pairs), labels)
    assert all(start < end for start, end in pairs_of(found))
    assert all(a[1] <= b[0] for a, b in pairwise(pairs_of(found)))
    by_instant = {t: label for (start, end), label in
                  zip(pairs_of(found), found.labels.tolist(), strict=True)
                  for t in range(start, end)}  # fmt: skip
    expected = innermost([(start, end, i) for i, (start, end) in enumerate(pairs)])
    assert by_instant == expected


@given(some_intervals, some_intervals)
def test_split(pairs: list[tuple[int, int]], cutting: list[tuple[int, int]]) -> None:
    segments = intervals.innermost(*columns_of(cutting), np.arange(len(cutting)))
    inside, labels, rest = intervals.cut_at(intervals.whole_pieces(*columns_of(pairs)), segments)
    holder = innermost([(start, end, i) for i, (start, end) in enumerate(cutting)])
    cut = {(i, t, label)
           for i, label, start, end in zip(inside.interval.tolist(), labels.tolist(),
                                           inside.starts.tolist(), inside.ends.tolist(),
                                           strict=True)
           for t in range(start, end)}  # fmt: skip
    left = {(i, t) for i, start, end in zip(rest.interval.tolist(), rest.starts.tolist(),
                                            rest.ends.tolist(), strict=True)
            for t in range(start, end)}  # fmt: skip
    everything = [(i, t) for i, pair in enumerate(pairs) for t in range(*pair)]
    assert cut == {(i, t, holder[t]) for i, t in everything if t in holder}
    assert left == {(i, t) for i, t in everything if t not in holder}
    lengths = int((inside.ends - inside.starts).sum() + (rest.ends - rest.starts).sum())
    assert lengths == len(everything)  # no piece twice


# -- groups and statistics


def test_what_holds_nothing_does_not_make_numbers_wider() -> None:
    columns = [np.array([1, 2], np.int32), np.empty(0, np.int64)]
    assert (concatenate(columns).tolist(), concatenate(columns).dtype) == ([1, 2], np.int32)


@pytest.mark.parametrize("count", [1, 2, 5])
@given(data=st.data())
def test_by_group(count: int, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(st.integers(0, count - 1), max_size=20))
    members = [[i for i, group in enumerate(drawn) if group == n] for n in range(count)]
    group = np.array(drawn, np.int64)
    assert [part.tolist() for part in by_group(group, count)] == members
    values = by_group(group, count, 10 * np.arange(len(drawn)))
    assert [part.tolist() for part in values] == [[10 * i for i in part] for part in members]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 99)), max_size=20))
def test_arranged(rows: list[tuple[int, int]]) -> None:
    group, values = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    expected = [value for _, value in sorted(rows, key=lambda row: row[0])]
    assert sort_by_group(group, values, 5).tolist() == expected


@given(st.lists(st.booleans(), max_size=12))
def test_indices(mask: list[bool]) -> None:
    found = indices(np.array(mask, bool))
    assert (found.tolist(), found.dtype) == ([i for i, held in enumerate(mask) if held], np.int32)


def test_by_group_of_more_groups_than_sixteen_bits_hold() -> None:
    count = (1 << 16) + 3
    found = by_group(np.arange(count)[::-1], count)
    assert [part.tolist() for part in (found[0], found[-1])] == [[count - 1], [0]]


values = st.one_of(st.integers(-5, 5), st.integers(-(2**53), 2**53), st.just(MISSING))


@given(st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[values] * width), max_size=15)))
def test_number(rows: list[tuple[int, ...]]) -> None:
    columns = list(zip(*rows, strict=True)) if rows else [()]
    numbers, distinct = factorize(*(np.array(column, np.int64) for column in columns))
    expected, expected_rows = numbered(*columns)
    assert numbers.tolist() == expected
    assert list(zip(*(column.tolist() for column in distinct), strict=True)) == expected_rows


@given(st.integers(-5, 5), st.lists(st.integers(-5, 5), min_size=1, max_size=9))
def test_number_of_a_column_that_is_one_value_everywhere(value: int, other: list[int]) -> None:
    column = np.broadcast_to(np.int64(value), len(other))
    numbers, (same, distinct) = factorize(column, np.array(other))
    assert numbers.tolist() == [sorted(set(other)).index(one) for one in other]
    assert (set(same.tolist()), distinct.tolist()) == ({value}, sorted(set(other)))


def test_number_of_more_rows_than_are_looked_at_at_once() -> None:
    column = np.arange(30) % 7 * 3 - 9
    column[[5, 29]] = MISSING
    numbers, (distinct,) = factorize(column)
    assert distinct.tolist() == [MISSING, -9, -6, -3, 0, 3, 6, 9]
    assert np.array_equal(distinct[numbers], column)


def test_number_of_more_pairs_than_32_bits_tell_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "BLOCK", 1 << 17)
    rising = np.arange(47_000)  # their product is more than 2^31
    numbers, (first, second) = factorize(rising, rising[::-1])
    assert all(map(np.array_equal, (numbers, first, second), (rising, rising, rising[::-1])))


durations = st.one_of(st.integers(0, 50), st.integers(0, 2**45), st.just(MISSING))


@given(st.lists(st.tuples(st.integers(0, 3), durations), max_size=25))
def test_grouped_statistics(rows: list[tuple[int, int]]) -> None:
    numbers = np.array([group for group, _ in rows], np.int64)
    found = grouped_statistics(numbers, np.array([value for _, value in rows], np.int64), 4)
    for group in range(4):
        expected = figures([None if v == MISSING else v for g, v in rows if g == group])
        exact = (found.count, found.total, found.minimum, found.maximum)
        assert [int(column[group]) for column in exact] == [
            MISSING if value is None else value for value in
            (expected.count, expected.total, expected.minimum, expected.maximum)]  # fmt: skip
        for column, value in ((found.mean, expected.mean), (found.median, expected.median),
                              (found.deviation, expected.deviation)):  # fmt: skip
            wanted = np.nan if value is None else value
            assert float(column[group]) == pytest.approx(wanted, rel=1e-9, abs=1e-9, nan_ok=True)


def test_deviations_do_not_depend_on_the_order_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "BLOCK", 1 << 17)
    values = np.random.default_rng(1).integers(1, 10**9, 200_000)
    groups = np.arange(len(values)) % 2
    one = grouped_statistics(groups, values, 2)
    # The same values as other groups among more, and in another order.
    other = grouped_statistics(np.append(2 - groups[::-1], [0] * 7), np.append(values[::-1], [5] * 7), 3)
    assert one.deviation.tolist() == other.deviation[:0:-1].tolist()


def test_a_weight_is_how_often_a_value_counts() -> None:
    values, weights = np.array([7, 1, 5, 5]), np.array([1, 3, 2, 1])
    one = weighted_statistics(np.array([0, 0, 0, 1]), values, weights, 2)
    same = grouped_statistics(np.array([0] * 6 + [1]), np.array([7, 1, 1, 1, 5, 5, 5]), 2)
    assert one.count.tolist() == [3, 1]
    for name in ("total", "mean", "median", "minimum", "maximum"):
        assert getattr(one, name).tolist() == getattr(same, name).tolist()
    assert one.deviation == pytest.approx(same.deviation)


@pytest.mark.parametrize("whole", [3, 49, 10**15 + 7, 2**53 + 1])
def test_a_whole_is_100_percent_and_no_part_is_more(whole: int) -> None:
    parts = np.array([whole, whole - 1, 1])
    shares = percent(parts, whole)
    assert shares[0] == 100
    assert (shares <= 100).all()


def test_the_middle_of_two_clocks_rounds_a_half_up() -> None:
    assert (middle(np.array([250057, 250058])), middle(np.array([-3, -2]))) == (250058, -2)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-(2**55), 2**55)), max_size=9))
def test_sums_and_counts_are_exact(rows: list[tuple[int, int]]) -> None:
    numbers = np.array([group for group, _ in rows], np.int64)
    found = sums(numbers, np.array([value for _, value in rows], np.int64), 3)
    assert found.tolist() == [sum(v for g, v in rows if g == group) for group in range(3)]
    assert counts(numbers, 3).tolist() == [sum(g == i for g, _ in rows) for i in range(3)]


@given(st.lists(st.integers(0, 10**17), max_size=9))
def test_buckets(sizes: list[int]) -> None:
    expected = [0 if size < 1000 else 10 ** (len(str(size)) - 1) for size in sizes]
    assert DECADES[bucket_of(np.array(sizes, np.int64), DECADES)].tolist() == expected
    assert bucket_of(np.array([MISSING]), DECADES).tolist() == [-1]


@given(st.lists(st.one_of(st.integers(0, 2**62), st.integers(0, 120)), max_size=30))
def test_round_buckets(lengths: list[int]) -> None:
    ends = [0, *sorted(digit * 10**power for power in range(18) for digit in (1, 2, 5))]
    assert ROUND_ENDS.tolist() == ends
    found = bucket_of(np.array(lengths, np.int64), ROUND_ENDS).tolist()
    for length, place in zip(lengths, found, strict=True):
        assert ends[place] <= length
        assert place == len(ends) - 1 or length < ends[place + 1]


# -- whole profiles


class Choice:
    """A random small profile: some processes, threads, streams, devices and all kinds of rows."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.pids = [1, 2][: self._random.randint(1, 2)]
        self.devices = [0, 1][: self._random.randint(1, 2)]
        self._free = 100
        self.rows: list[Row] = []
        for pid in self.pids:
            for tid in (11, 12)[: self._random.randint(1, 2)]:
                self._calls(pid, tid)
                self._ranges(pid, tid)
                self._operators(pid, tid)
            if self._random.random() < 0.5:
                self.rows += [
                    Overhead(*self._interval(1), self._random.choice(("profiler", "driver")), pid)
                    for _ in range(self._random.randint(1, 3))]  # fmt: skip
        ops = [self._op() for _ in range(self._random.randint(1, 9))]
        # Beside a migration that begins at the same time, an op of no length is tested by hand.
        moved = {op.start for op in ops if isinstance(op, Migration)}
        self.rows += [op for op in ops if isinstance(op, Migration) or op.start is None
                      or op.start != op.end or op.start not in moved]  # fmt: skip
        self.time = self._interval(1) if self._random.random() < 0.4 else None
        self.slice = Slice(self.time) if self.time is not None else None

    def _interval(self, least: int = 0) -> tuple[int, int]:
        start = self._random.randint(1, LAST - least)
        return start, min(LAST, start + least + self._random.choice((0, 0, 2, 5, 9)))

    def _own(self) -> int:
        self._free += 1
        return self._free

    def _calls(self, pid: int, tid: int) -> None:
        """Calls side by side, some with one more inside; ids may collide on one thread.

        Only the outer call's own id is shared inside it: which of two that a third call holds owns
        the ops is tested by hand.
        """
        at = self._random.randint(1, 6)
        while at < LAST:
            end = min(LAST, at + self._random.randint(0, 8))
            layer = self._random.choice(("runtime", "driver"))
            shared = self._random.randint(*((1, 5) if tid == 11 else (6, 9)))
            outer = Call(at, end, shared, layer, tid, pid, f"outer{at % 3}")
            self.rows.append(outer)
            if end - at > 2 and self._random.random() < 0.5:
                inside = self._random.choice((outer.correlation, self._own(), 0))
                layer = self._random.choice(("runtime", "driver"))
                self.rows.append(Call(at + 1, end - 1, inside, layer, tid, pid, "inner"))
            at = end + self._random.choice((int(end == at), 1, 4))

    def _ranges(self, pid: int, tid: int) -> None:
        for i in range(self._random.randint(0, 4)):
            start, end = self._interval()
            kind = self._random.choice(("push_pop", "push_pop", "start_end"))
            unclosed = self._random.random() < 0.1
            self.rows.append(Range(start, None if unclosed else end, f"r{i}", kind, tid, pid))
        if self._random.random() < 0.5:
            at = self._random.randint(1, 10)
            for i in range(self._random.randint(1, 3)):
                end = min(LAST, at + self._random.randint(1, 12))
                self.rows.append(Range(at, end, f"ProfilerStep#{i}", tid=tid, pid=pid))
                at = end + self._random.choice((0, 0, 3))

    def _operators(self, pid: int, tid: int) -> None:
        for _ in range(self._random.randint(0, 3)):
            name = self._random.choice(
                ("aten::mm", "gloo:all_reduce", "enumerate(DataLoader)#Iter.__next__",
                 "ProfilerStep#9"))  # fmt: skip
            kind = self._random.choice(("operator", "operator", "python_function"))
            self.rows.append(Operator(*self._interval(), name, kind, tid, pid))

    def _op(self) -> Row:
        kind = self._random.choice((Kernel, Kernel, Kernel, Memcpy, Memset, Migration, Graph))
        untimed = self._random.random() < 0.05
        start, end = (None, None) if untimed else self._interval()
        pid, device = self._random.choice(self.pids), self._random.choice(self.devices)
        if kind is Migration:
            if start == end and start is not None and end is not None:
                end += 1
            return Migration(start, end, pid=pid, device=device)
        correlation = self._random.choice((None, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 99))
        stream = self._random.choice((7, 8))
        made: Row = kind(start, end, correlation, stream, pid, device)
        if isinstance(made, Kernel):
            name = self._random.choice(("kernel", "ncclDevKernel_AllReduce"))
            grid = (self._random.randint(1, 4), self._random.randint(1, 2), 1)
            return made._replace(name=name, grid=grid, occupancy=self._random.randint(0, 100))
        return made


def found_gap(row: dict[str, Any]) -> tuple[Any, ...]:
    return (row["device_id"], row["stream"], row["start_ns"], row["dur_ns"], row["cause"],
            *(row[f"{part}_ns"] for part in PARTS))  # fmt: skip


def slow_gap(gap: Gap) -> tuple[Any, ...]:
    return (gap.device, gap.stream, gap.start, gap.dur, gap.cause,
            *(gap.parts[part] for part in PARTS))  # fmt: skip


@examples(40)
@given(st.integers(0, 2**32))
def test_idle_time_of_random_profiles(seed: int) -> None:
    """Overview, gaps of every kind, their parts, and what the host did in them."""
    choice = Choice(seed)
    slow = Slow(choice.rows, recording_ns=LAST)
    with opened(*choice.rows, recording_ns=LAST) as profile:
        for row in profile.report("overview", slice=choice.slice).rows():
            busy = slow.busy(row["device_id"], choice.time)
            span = slow.window(row["device_id"], choice.time)
            if span is None:
                assert row["window_ns"] is row["busy_ns"] is row["idle_ns"] is None
                continue
            assert (row["window_start_ns"], row["window_ns"]) == (span[0], span[1] - span[0])
            assert (row["busy_ns"], row["idle_ns"]) == (len(busy), span[1] - span[0] - len(busy))
        for kind in IDLE_KINDS:
            rows = profile.report("idle_gaps", slice=choice.slice, idle=(kind,)).rows()
            expected = slow.gaps(kind, choice.time)
            assert sorted(map(found_gap, rows), key=repr) == sorted(
                map(slow_gap, expected), key=repr)  # fmt: skip
            for row in rows:
                assert sum(row[f"{part}_ns"] for part in PARTS) == row["dur_ns"]
        host = {
            (row["device_id"], row["activity"], row["name"]): row["host_sum_ns"]
            for row in profile.report(
                "idle_host", slice=choice.slice, range_names="exact", split="device"
            ).rows()
        }
    instants_of = Counter((gap.device, *did) for gap in slow.gaps("no_op", choice.time)
                          for did in gap.during)  # fmt: skip
    assert host == dict(instants_of)


@examples(40)
@given(st.integers(0, 2**32))
def test_what_ended_a_gap_has_that_gap(seed: int) -> None:
    """`why` looks for the gap before one event, `idle_gaps` for all of them."""
    choice = Choice(seed)
    of_ops = ("kernel", "memcpy", "memset", "migration", "graph_launch")
    with opened(*choice.rows, recording_ns=LAST) as profile:
        ended = {row["event"]: row for row in profile.report("idle_gaps").rows() if row["event"]}
        for kind in of_ops:
            for number in range(profile.profile.row_count(EVENT_KINDS[kind])):
                (row,) = profile.why(f"{kind}:{number + 1}").rows()
                if row["event"] in ended:
                    gap = ended[row["event"]]
                    assert (row["gap_ns"], row["gap_ended_by"]) == (gap["dur_ns"], row["event"])
                    for name in ("cause", "during", "during_ns", *(f"{p}_ns" for p in PARTS[:-1])):
                        assert row[name] == gap[name]
                else:
                    assert row["gap_ended_by"] is None or row["gap_ended_by"] in ended
                    assert row["gap_ended_by"] != row["event"]


@examples(40)
@given(st.integers(0, 2**32))
def test_neighbors_of_random_profiles(seed: int) -> None:
    """What ended last before an operation, on its stream and device, by looking at all."""
    choice = Choice(seed)
    slow = Slow(choice.rows)
    of_kind = {Kernel: "kernel", Memcpy: "memcpy", Memset: "memset", Graph: "graph_launch"}
    numbers: Counter[type] = Counter()
    ids = {}
    for place, op in enumerate(slow.ops):
        numbers[type(op)] += 1
        ids[place] = f"{of_kind.get(type(op), 'migration')}:{numbers[type(op)]}"

    def before(place: int, stream: bool) -> int | None:
        me = slow.ops[place]
        mine = [
            (op.end, op.start, op.stream is None, op.stream or 0, i)
            for i, op in enumerate(slow.ops)
            if op.start is not None and op.device == me.device
            and (not stream or ((op.pid, op.stream) == (me.pid, me.stream)
                                and not isinstance(op, Migration)))
        ]  # fmt: skip
        own = (me.start, me.stream is None, me.stream or 0, place)
        return max((key for key in mine if key[1:] < own), default=(None,))[-1]

    with opened(*choice.rows) as profile:
        for place, op in enumerate(slow.ops):
            if op.start is None or isinstance(op, Migration):
                continue
            (row,) = profile.why(ids[place]).rows()
            for where in ("stream", "device"):
                found = before(place, where == "stream")
                assert row[f"before_on_{where}"] == (None if found is None else ids[found])


@examples(20)
@given(st.integers(0, 2**32))
def test_owners_of_random_profiles(seed: int) -> None:
    """GPU time by the function that owns it, layer by layer."""
    choice = Choice(seed)
    slow = Slow(choice.rows)
    expected: Counter[tuple[str | None, str]] = Counter()
    for op in slow.ops:
        call = slow.owner(op)
        expected[(call.layer, call.name) if call else (None, "[no API call]")] += 1
    found = {(row["layer"], row["name"]): row["gpu_op_count"]
             for row in answers("api_vs_kernel", *choice.rows)}  # fmt: skip
    assert {key: count for key, count in found.items() if count} == dict(expected)


def test_of_many_operations_of_a_call_the_first_with_a_time_tells_the_wait() -> None:
    kernels = (Kernel(start, start + 5, 7) for start in range(30, 90, 10))
    row = only("api_vs_kernel", Call(10, 20, 7), Kernel(None, None, 7), *kernels)
    assert (row["launch_latency_avg_ns"], row["queue_avg_ns"]) == (30 - 10, 30 - 20)


def test_the_host_parts_of_more_gaps_than_are_looked_at_at_once_add_up() -> None:
    # Each gap is from 10 after a hundred to the next one; its host part ends 20 before that.
    rows = ((Call(100 * i - 20, 100 * i, i), Kernel(100 * i, 100 * i + 10, i)) for i in range(1, 6))
    row = only("idle_host", Kernel(0, 10), *(row for pair in rows for row in pair))
    assert (row["name"], row["gap_count"], row["host_sum_ns"]) == ("[nothing recorded]", 5, 5 * 70)


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([0, 127], np.int8),
        ([0, 128], np.int16),
        ([5, 1 << 15], np.int64),
        ([-1, 5], np.int64),
        ([MISSING, 5], np.int64),
    ],
)
def test_numbers_in_fewer_bytes_are_the_same(codes: list[int], expected: type) -> None:
    found = events.narrow(np.array(codes, np.int64))
    assert (found.tolist(), found.dtype) == (codes, expected)


few_times = st.integers(1, 4)


@examples(40)
@given(st.lists(st.tuples(few_times, few_times).map(sorted), min_size=1, max_size=5),
       st.lists(interval, max_size=9))  # fmt: skip
@example([[1, 1], [1, 2]], [])
@example([[1, 1], [1, 1], [1, 1], [1, 2]], [])  # the edge of a block is before the last
def test_outermost_calls_of_threads(rows: list[list[int]], crossing: list[tuple[int, int]]) -> None:
    """Many that start together, and those without length, included; on another thread some cross."""
    rows.sort(key=lambda row: row[0])
    other = [(start + 1, end + 1) for start, end in crossing]
    with opened(*(Call(*row) for row in rows), *(Call(*row, tid=12) for row in other)) as profile:
        found = profile.timeline.calls.outermost[profile.timeline.calls.thread == 0].tolist()
        (process,) = profile.report("processes").rows()
    assert found == outermost([(start, end) for start, end in rows])
    assert process["api_sum_ns"] == sum(
        end - start for mine in (rows, other)
        for (start, end), outer in zip(mine, outermost([*map(tuple, mine)]), strict=True) if outer
    )  # fmt: skip


@examples(40)
@given(st.integers(0, 2**32))
def test_steps_of_random_profiles(seed: int) -> None:
    """Steps, the class of each of their instants, and of each instant from the first to the last step in
    which there is none.
    """
    choice = Choice(seed)
    slow = Slow(choice.rows, recording_ns=LAST)
    steps = {pid: slow.steps(pid) for pid in choice.pids}
    if not any(steps.values()):
        return
    expected = []
    for pid, found in steps.items():
        parts = [(name, range(start, end), start) for name, start, end in found]
        inside = {t for _, moments, _ in parts for t in moments}
        between = [t for t in range(found[0][1], found[-1][2]) if t not in inside] if found else []
        if between:
            parts.append(("[between steps]", between, between[0]))
        for name, moments, start in parts:
            spent = Counter(slow.class_at(pid, t) for t in moments)
            expected.append((pid, name, start, len(moments), *(spent[one] for one in STEP_CLASSES)))
    rows = answers("steps", *choice.rows, recording_ns=LAST)
    assert sorted((row["pid"], row["step"], row["start_ns"], row["dur_ns"],
                   *(row[f"{one}_ns"] for one in STEP_CLASSES)) for row in rows) == sorted(
        expected)  # fmt: skip


@examples(40)
@given(st.integers(0, 2**32))
def test_utilisation_of_random_profiles(seed: int) -> None:
    """Unions, SM efficiency and occupancy, of devices and step by step."""
    choice = Choice(seed)
    rows = [row for row in choice.rows if not isinstance(row, Graph)]
    slow = Slow(rows, recording_ns=LAST)
    gpus = {device: {"sm_count": 5} for device in choice.devices}
    with opened(*rows, recording_ns=LAST, gpus=gpus) as profile:
        found = profile.report("gpu_utilization", slice=choice.slice).rows()
        if any(slow.steps(pid) for pid in choice.pids):
            found += profile.report("gpu_utilization", by="step").rows()
    for row in found:
        if not row["window_ns"]:
            assert row["gpu_utilization_pct"] is None
            continue
        span = (row["window_start_ns"], row["window_start_ns"] + row["window_ns"])
        held = instants((op.start, op.end) for op in slow.ops if isinstance(op, Kernel)
                        and op.device == row["device_id"] and op.start is not None)  # fmt: skip
        assert row["kernel_graph_union_ns"] == len(held & set(range(*span)))
        assert row["gpu_utilization_pct"] == pytest.approx(
            100 * len(held & set(range(*span))) / row["window_ns"])  # fmt: skip
        efficiency = slow.sm_efficiency(row["device_id"], span, 5)
        assert row["est_sm_efficiency_pct"] == pytest.approx(100 * float(efficiency))
        occupancy = slow.occupancy(row["device_id"], span)
        assert row["est_achieved_occupancy_pct"] == (
            None if occupancy is None else pytest.approx(float(occupancy)))  # fmt: skip


@given(
    st.sampled_from(sorted(sms())), st.integers(1, 1024), st.integers(0, 255),
    st.integers(0, 100 * 1024),
)  # fmt: skip
def test_resident_blocks(
    capability: str, threads: int, registers: int, shared: int
) -> None:
    sm = sms()[capability]
    (found,) = resident_blocks(sm, *(np.array([n]) for n in (threads, registers, shared))).tolist()
    expected = slow_resident_blocks(
        sm.warps, sm.blocks, sm.registers, sm.shared_bytes, sm.shared_unit, sm.reserved_bytes,
        sm.partitions, threads=threads, thread_registers=registers, block_shared=shared)  # fmt: skip
    assert found == (expected or MISSING)


@given(
    st.sampled_from([np.int32, np.int64]), st.integers(-3, 1 << 31), st.data(),
)  # fmt: skip
def test_numbers_among_others(kind: type, near: int, data: st.DataObject) -> None:
    """Near each other and far, also at the ends of what fits, where differences wrap around."""
    info = np.iinfo(kind)
    numbers = st.one_of(
        st.integers(near - 5, near + 70_000), st.integers(info.min, info.max),
        st.sampled_from([info.min, info.min + 1, -1, 0, info.max]),
    ).filter(lambda n: info.min <= n <= info.max)  # fmt: skip
    values = np.array(data.draw(st.lists(numbers, max_size=20)), kind)
    wanted = sorted(set(data.draw(st.lists(numbers, max_size=5))) | set(values[::3].tolist()))
    found = among(values, np.array(wanted, np.int64))
    assert found.tolist() == [value in wanted for value in values.tolist()]


def test_places_and_lengths_by_hand() -> None:
    ordered = np.array([3, 5, 8, 13])
    assert arrays.places_of(np.array([8, 3, 4, 8, 99]), ordered).tolist() == [0, 2]
    assert arrays.places_of(np.array([8]), ordered[:0]).tolist() == []
    low, high = np.array([0, 10, 20]), np.array([5, 14, 25])
    assert intervals.lasting(low, high, 5).tolist() == [True, False, True]
    assert intervals.longest(low, high) == 0
    assert intervals.longest(low, high, np.array([False, True, True])) == 2
    assert intervals.longest(low[:0], high[:0]) is None


# -- intervals as few boxes, and when one of two unions is busy alone


Pairs = list[tuple[int, int]]
def boxes_of(pairs: Pairs, most: int) -> Boxes:
    return boxes(*columns_of(sorted(pairs)), most)


def rows_of_boxes(found: Boxes) -> list[tuple[int, ...]]:
    columns = (found.start, found.end, found.busy, found.count, found.longest)
    return list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize(("pairs", "most", "expected"), [
    # Few intervals are a box each.
    ([(0, 5), (3, 4), (9, 9)], 3, [(0, 5, 5, 1, 0), (3, 4, 1, 1, 1), (9, 9, 0, 1, 2)]),
    # In grains of 8 ns the first two begin in one, the next two in another; the long one stays alone.
    ([(0, 1), (3, 5), (8, 9), (14, 15), (20, 60)], 3,
     [(0, 5, 3, 2, 1), (8, 15, 2, 2, 2), (20, 60, 40, 1, 4)]),
    # In grains of 4 ns all three begin in the first: the two short ones are a box.
    ([(0, 20), (1, 2), (3, 4), (40, 41)], 3, [(0, 20, 20, 1, 0), (1, 4, 2, 2, 1), (40, 41, 1, 1, 3)]),
    # Of overlapping ones busy is the union.
    ([(0, 4), (2, 6), (3, 4)], 1, [(0, 6, 6, 3, 0)]), ([], 1, []),
])  # fmt: skip
def test_boxes_by_hand(pairs: Pairs, most: int, expected: list[tuple[int, ...]]) -> None:
    assert rows_of_boxes(boxes_of(pairs, most)) == expected


@given(some_intervals, st.integers(1, 8))
def test_boxes_hold_all_intervals_in_order_and_are_few(pairs: Pairs, most: int) -> None:
    pairs = sorted(pairs)
    left = list(enumerate(pairs))
    found = rows_of_boxes(boxes_of(pairs, most))
    assert len(found) <= most
    for start, end, busy, count, place in found:
        mine, left = left[:count], left[count:]
        held = [pair for _, pair in mine]
        assert start == held[0][0]
        assert end == max(high for _, high in held)
        assert busy == len(instants(held))
        assert place in dict(mine)
        low, high = pairs[place]
        assert high - low == max(high - low for low, high in held)
    assert left == []


def alone(one: Union, other: Union) -> list[tuple[int, int, int]]:
    found = busy_alone(one, other)
    columns = (found.starts, found.ends, found.labels)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_times_in_which_one_of_two_is_busy_alone() -> None:
    one, other = union(*columns_of([(0, 10), (20, 30)])), union(*columns_of([(5, 22), (30, 40)]))
    assert alone(one, other) == [(0, 5, ONE), (10, 20, OTHER), (22, 30, ONE), (30, 40, OTHER)]


@given(some_intervals, some_intervals)
def test_busy_alone_is_the_difference_of_instants(first: Pairs, second: Pairs) -> None:
    found = alone(union(*columns_of(first)), union(*columns_of(second)))
    for label, mine, others in ((ONE, first, second), (OTHER, second, first)):
        of_label = [(start, end) for start, end, which in found if which == label]
        assert instants(of_label) == instants(mine) - instants(others)
    assert all(start < end for start, end, _ in found)
    # As few as can be: where one ends, the next of its kind does not begin.
    ends = {(end, label) for _, end, label in found}
    assert not ends & {(start, label) for start, _, label in found}
