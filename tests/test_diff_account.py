"""The account of a change: by hand, on random sides, and on pairs of real files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL_FILES, REAL_TRACES, Shelf, examples, few, name_of, real
from hypothesis import given
from hypothesis import strategies as st
from small_store import Call, Kernel, Memcpy, Range, Row, Total, opened

from nsysconv.diff.account import (
    BY_COUNT,
    BY_MEAN,
    BY_NAME,
    MINOR,
    OVERLAP,
    PART_TITLES,
    PARTS,
    ChangeAccount,
    DeviceChange,
    RunAccounts,
    account_for_change,
    account_report,
    round_to_sum,
    with_minor_parts_joined,
)
from nsysconv.facts import Fact
from nsysconv.timeline.account import (
    CLASSES,
    Account,
    AccountEntry,
    Accounts,
    TimeSpan,
    account,
    accounts,
)
from nsysconv.timeline.timeline import Timeline

NCCL = "ncclDevKernel_AllReduce"


def of_rows(*rows: Row, **options: Any) -> Accounts:
    with opened(*rows, **options) as profile:
        return accounts(profile.timeline)


def made(
    times: Mapping[str, int],
    kernels: Mapping[str, tuple[int, int]] | None = None,
    device: int | None = 0,
    rank: int | None = None,
    steps: int | None = None,
    without: Sequence[str] = (),
) -> Account:
    """An account of these times; kernels by name are count and sum."""
    of_all = dict.fromkeys(CLASSES, 0) | dict(times)
    works = tuple(AccountEntry("computation", name, *both) for name, both in (kernels or {}).items())
    span = TimeSpan(0, sum(times.values()), steps)
    return Account(device, rank, span, of_all, works, frozenset(without))


def run(*found: Account) -> list[Accounts]:
    """A run of one profile, with steps where the accounts have."""
    return [Accounts(found, found if all(each.span.steps for each in found) else None)]


def only(change: ChangeAccount) -> DeviceChange:
    assert change.devices is not None
    (device,) = change.devices
    assert_adds_up(change)
    return device


def changes(device: DeviceChange) -> dict[str, int]:
    """The parts that changed."""
    return {part.name: part.change for part in device.parts if part.change}


def assert_adds_up(change: ChangeAccount) -> None:
    assert change.devices is not None
    for device in change.devices:
        assert tuple(part.name for part in device.parts) == PARTS
        assert sum(part.change for part in device.parts) == device.change
        for part in device.parts:
            assert type(part.change) is int
            if part.base is not None and part.other is not None:
                assert part.other - part.base == part.change


# -- the example of the documentation: microseconds in ns

US = 1000


def in_us(*rows: Row) -> list[Row]:
    return [row._replace(start=(row.start or 0) * US, end=(row.end or 0) * US)  # type: ignore[call-arg]
            for row in rows]  # fmt: skip


BASE = in_us(
    Kernel(0, 40, stream=1, name="K1"), Kernel(30, 60, stream=2, name="K2"),
    Kernel(50, 80, stream=3, name=NCCL), Call(95, 100, 4), Kernel(100, 140, 4, 1, name="K1"),
)  # fmt: skip
OTHER = in_us(
    Kernel(0, 50, stream=1, name="K1"), Kernel(50, 80, stream=2, name="K2"),
    Kernel(75, 95, stream=3, name=NCCL), Call(107, 110, 4), Kernel(110, 160, 4, 1, name="K1"),
)  # fmt: skip
IN_ALL = {
    BY_MEAN: 10 * US, OVERLAP: 10 * US, "communication": -5 * US, "idle_host": -3 * US,
    "idle_launch": -2 * US,
}  # fmt: skip


def step_of(rows: Sequence[Row], length: int) -> list[Accounts]:
    with opened(*rows) as profile:
        return run(account(profile.timeline, 0, TimeSpan(0, length, 1)))


def test_the_example_of_the_documentation() -> None:
    change = account_for_change([step_of(BASE, 100 * US)], [step_of(OTHER, 110 * US)])
    device = only(change)
    assert (device.base, device.other, device.change) == (100 * US, 110 * US, 10 * US)
    assert changes(device) == IN_ALL
    values = {part.name: (part.base, part.other) for part in device.parts}
    assert values[BY_COUNT] == values[BY_MEAN] == values[OVERLAP] == (None, None)
    assert values["communication"] == (20 * US, 15 * US)
    assert values["idle_host"] == (15 * US, 12 * US)
    assert values["idle_launch"] == (5 * US, 3 * US)


def test_the_example_as_a_report() -> None:
    change = account_for_change([step_of(BASE, 100 * US)], [step_of(OTHER, 110 * US)])
    report = account_report(with_minor_parts_joined(change))
    assert (report.name, report.title) == ("account", "Breakdown of the change")
    assert report.row_count == 6
    columns = ("part", "change_ns", "change_pct", "base_ns", "other_ns", "weight")
    assert [tuple(row[name] for name in columns) for row in report.rows()] == [
        ("step period", 10 * US, 10.0, 100 * US, 110 * US, None),
        (PART_TITLES[BY_MEAN], 10 * US, 10.0, None, None, None),
        (PART_TITLES[OVERLAP], 10 * US, 10.0, None, None, None),
        (PART_TITLES["communication"], -5 * US, -5.0, 20 * US, 15 * US, None),
        (PART_TITLES["idle_host"], -3 * US, -3.0, 15 * US, 12 * US, None),
        (PART_TITLES["idle_launch"], -2 * US, -2.0, 5 * US, 3 * US, None),
    ]


def test_every_part_has_words() -> None:
    assert set(PART_TITLES) == {*PARTS, BY_NAME}
    assert len(set(PART_TITLES.values())) == len(PARTS) + 1


# -- by count and by mean


Kernels = dict[str, tuple[int, int]]


@pytest.mark.parametrize(("base", "other", "expected"), [
    # 50 launches of 10 become 55 of 11: 50 by count, 55 by mean.
    ({"k": (50, 500)}, {"k": (55, 605)}, {BY_COUNT: 50, BY_MEAN: 55}),
    # Sums are over kernels, and never of the mixed mean: gemm 100 launches of 40 become 105 of 42, relu
    # stays, old goes, new comes.
    ({"gemm": (100, 4000), "relu": (200, 1000), "old": (50, 500)},
     {"gemm": (105, 4410), "relu": (200, 1000), "new": (10, 300)}, {BY_MEAN: 210}),
    # What one side alone launches is all by count.
    ({"gone": (3, 300)}, {"new": (1, 500)}, {BY_COUNT: 200}),
])  # fmt: skip
def test_by_count_and_by_mean(base: Kernels, other: Kernels, expected: dict[str, int]) -> None:
    sides = ([run(made({"computation": sum(ns for _, ns in each.values())}, each))]
             for each in (base, other))  # fmt: skip
    assert changes(only(account_for_change(*sides))) == expected


def test_spellings_of_one_name_are_one() -> None:
    sides = [run(made({"computation": 300}, {"k<1>": (2, 200), "k<2>": (1, 100)}))], [
        run(made({"computation": 360}, {"k": (3, 360)}))]  # fmt: skip
    assert changes(only(account_for_change(*sides))) == {BY_COUNT: 60}
    spelled = account_for_change(*sides, name_key=lambda name: name.partition("<")[0])
    assert changes(only(spelled)) == {BY_MEAN: 60}


def test_less_overlap_makes_the_time_longer() -> None:
    """Two streams side by side, then one after the other."""
    device = only(account_for_change(
        [[of_rows(Kernel(0, 10, stream=1), Kernel(0, 10, stream=2))]],
        [[of_rows(Kernel(0, 10, stream=1), Kernel(10, 20, stream=2))]],
    ))  # fmt: skip
    assert (device.base, device.other, changes(device)) == (10, 20, {OVERLAP: 10})


# -- steps and runs


def test_each_side_is_divided_by_its_own_steps() -> None:
    """Per step 50 launches of 10 on both sides, and 100 more of idle time."""
    base = made({"computation": 1000, "idle_host": 200}, {"k": (100, 1000)}, steps=2)
    other = made({"computation": 2000, "idle_host": 800}, {"k": (200, 2000)}, steps=4)
    change = account_for_change([run(base)], [run(other)])
    assert change.steps == (2, 4)
    device = only(change)
    assert (device.base, device.other, changes(device)) == (600, 700, {"idle_host": 100})


@pytest.mark.parametrize("stepless", [0, 1])
def test_windows_are_compared_where_a_side_has_no_steps(stepless: int) -> None:
    window, in_steps = made({"computation": 90}), made({"computation": 60}, steps=3)
    sides = [[[Accounts((window,), (in_steps,))]], [[Accounts((window,), (in_steps,))]]]
    sides[stepless] = [[Accounts((window,), None)]]
    change = account_for_change(*sides)
    assert change.steps is None
    assert only(change).base == only(change).other == 90
    assert account_report(change).rows()[0]["part"] == "window"


def test_steps_of_real_annotations() -> None:
    """Steps [0, 50) and [50, 110), in which a kernel runs to 110, against one of [0, 80): the rounding
    example of the documentation."""
    two = [Range(0, 50, "ProfilerStep#1"), Range(50, 90, "ProfilerStep#2"), Call(5, 6, 1),
           Call(60, 61, 2), Kernel(10, 30, 1), Kernel(70, 110, 2)]  # fmt: skip
    one = [Range(0, 80, "ProfilerStep#1"), Call(5, 6, 1), Kernel(10, 70, 1)]
    change = account_for_change([[of_rows(*two)]], [[of_rows(*one)]])
    assert change.steps == (2, 1)
    device = only(change)
    assert (device.base, device.other) == (55, 80)
    # Before: 10 / 2 and 10; idle [30, 70) / 2 with host to 60, launch to 61; after [70, 80).
    assert changes(device) == {
        "before": 5, BY_MEAN: 30, "idle_host": -15, "idle_launch": -1, "idle_queue": -4, "after": 10,
    }  # fmt: skip


def test_several_runs_are_their_mean() -> None:
    base = [run(made({"computation": 100, "idle_host": 10}, {"k": (10, 100)})),
            run(made({"computation": 120, "idle_host": 31}, {"k": (10, 120)}))]  # fmt: skip
    other = [run(made({"computation": 220, "idle_host": 20}, {"k": (20, 220)}))]
    device = only(account_for_change(base, other))
    # 110 + 20.5 is rounded to even.
    assert (device.base, device.other) == (130, 240)
    assert changes(device) == {BY_COUNT: 110}


def test_rounding_gives_the_whole_and_the_largest_remainders_go_up() -> None:
    third = Fraction(1, 3)
    assert round_to_sum([third, third, third], 1) == [1, 0, 0]
    assert round_to_sum([1 + third, 2 * third, Fraction(1)], 3) == [1, 1, 1]
    assert round_to_sum([-third, Fraction(5, 2)], 2) == [0, 2]
    assert round_to_sum([Fraction(1, 2)] * 3, 2) == [1, 1, 0]
    # Where values were rounded before, the whole may be further off than there are values.
    assert round_to_sum([Fraction(9, 10)] * 2, 3) == [2, 1]
    assert round_to_sum([Fraction(1)] * 2, 1) == [1, 0]


# -- devices


def test_devices_are_matched_by_their_order_and_ranks() -> None:
    base = run(made({"computation": 10}, device=3, rank=0), made({"computation": 20}, device=5, rank=1))
    other = run(made({"computation": 21}, device=1, rank=1), made({"computation": 11}, device=0, rank=0))
    change = account_for_change([base], [other])
    assert_adds_up(change)
    assert [(each.rank, each.device_id, each.base, each.other) for each in change.devices or ()] == [
        (0, 3, 10, 11), (1, 5, 20, 21)]  # fmt: skip


def test_of_other_numbers_of_devices_the_sums_are_compared() -> None:
    base = run(made({"computation": 10}), made({"computation": 20}, device=1))
    change = account_for_change([base], [run(made({"computation": 25}))])
    device = only(change)
    assert (device.device_id, device.base, device.other) == (None, 30, 25)
    assert change.summed_over == ("device_id",)
    assert [note.slug for note in account_report(change).notes] == ["rows-combined"]


def test_a_rank_that_only_one_side_has_took_no_time_on_the_other() -> None:
    base = run(made({"computation": 10}, rank=0))
    other = run(made({"computation": 10}, rank=0), made({"computation": 20}, {"k": (1, 20)}, rank=1))
    change = account_for_change([base], [other])
    assert_adds_up(change)
    assert [(each.rank, each.base, each.other, changes(each)) for each in change.devices or ()] == [
        (0, 10, 10, {}), (1, 0, 20, {BY_COUNT: 20})]  # fmt: skip
    assert account_report(change).rows()[-1]["change_pct"] is None


# -- what is not recorded, and what is minor


def test_totals_alone_have_no_account() -> None:
    totals = of_rows(Total("kernel", 5, 100, name="k"), holds={Fact.KERNEL_TOTALS})
    change = account_for_change([[of_rows(Kernel(0, 10))]], [[totals]])
    assert change.devices is None
    report = account_report(change)
    assert report.table is None
    assert report.not_recorded == ("kernel events (other)",)


def test_a_class_that_one_side_does_not_record_is_null_there() -> None:
    rows = (Kernel(0, 10), Memcpy(10, 15), Kernel(20, 30))
    change = account_for_change([[of_rows(*rows)]], [[of_rows(rows[0], rows[2], without={Fact.MEMCPYS})]])
    copies = {part.name: part for part in only(change).parts}["memcpy"]
    assert (copies.base, copies.other, copies.change) == (5, None, -5)


def test_less_than_half_a_per_cent_is_minor_and_joined() -> None:
    base = made({"computation": 970, "idle_host": 20, "idle_launch": 10})
    other = made({"computation": 970, "idle_host": 24, "idle_launch": 15})
    change = account_for_change([run(base)], [run(other)])
    assert {part.name for part in only(change).parts if not part.is_minor} == {"idle_launch"}
    assert account_report(change).row_count == 1 + len(PARTS)
    (device,) = with_minor_parts_joined(change).devices or ()
    assert [(part.name, part.change) for part in device.parts] == [("idle_launch", 5), (MINOR, 4)]


def test_an_account_of_equal_sides_is_all_zero() -> None:
    same = [[of_rows(*BASE)]]
    device = only(account_for_change(same, same))
    assert (device.change, changes(device)) == (0, {})


# -- random sides

names = st.sampled_from(("a", "b", "c"))
few_ns = st.integers(0, 50)


@st.composite
def accounts_of(draw: st.DrawFn, device: int, *, stepped: bool) -> Account:
    kernels = draw(st.dictionaries(names, st.tuples(st.integers(1, 9), few_ns), max_size=3))
    times = {name: draw(few_ns) for name in CLASSES}
    return made(times, kernels, device, steps=draw(st.integers(1, 7)) if stepped else None)


@st.composite
def sides(draw: st.DrawFn, *, stepped: bool, devices: int) -> list[RunAccounts]:
    return [
        run(*(draw(accounts_of(device, stepped=stepped)) for device in range(devices)))
        for _ in range(draw(st.integers(1, 3)))
    ]


def exactly(
    runs: Sequence[RunAccounts], device: int
) -> tuple[dict[str, Fraction], dict[str, list[Fraction]]]:
    """Means over the runs of the times, and of count and sum of each kernel, straight from the text."""
    every = [(runs[i][0].of_window[device]) for i in range(len(runs))]
    share = [Fraction(1, (each.span.steps or 1) * len(runs)) for each in every]
    times = {name: sum((e.times[name] * s for e, s in zip(every, share, strict=True)), Fraction(0))
             for name in CLASSES}  # fmt: skip
    kernels: dict[str, list[Fraction]] = {}
    for each, s in zip(every, share, strict=True):
        for work in each.entries:
            entry = kernels.setdefault(work.name, [Fraction(0), Fraction(0)])
            entry[0] += work.count * s
            entry[1] += work.sum_ns * s
    return times, kernels


@examples(200)
@given(st.data(), st.booleans(), st.booleans(), st.integers(1, 2))
def test_random_sides_add_up(
    data: st.DataObject, base_steps: bool, other_steps: bool, devices: int
) -> None:
    base = data.draw(sides(stepped=base_steps, devices=devices))
    other = data.draw(sides(stepped=other_steps, devices=devices))
    change = account_for_change(base, other)
    assert_adds_up(change)
    assert (change.steps is not None) == (base_steps and other_steps)
    if base_steps != other_steps:
        return
    for place, device in enumerate(change.devices or ()):
        (before, kernels), (after, kernels_after) = exactly(base, place), exactly(other, place)
        assert device.base == round(sum(before.values()))
        assert device.other == round(sum(after.values()))
        nothing = [Fraction(0), Fraction(0)]
        by_count = by_mean = Fraction(0)
        for name in {*kernels, *kernels_after}:
            (c0, s0), (c1, s1) = kernels.get(name, nothing), kernels_after.get(name, nothing)
            part = s1 - s0 if not c0 or not c1 else (c1 - c0) * s0 / c0
            by_count += part
            by_mean += s1 - s0 - part
        exact = {name: after[name] - before[name] for name in CLASSES} | {
            BY_COUNT: by_count, BY_MEAN: by_mean,
            OVERLAP: after["computation"] - before["computation"] - by_count - by_mean}  # fmt: skip
        for part in device.parts:
            assert abs(part.change - exact[part.name]) < 2


def test_a_thousand_kernels_with_a_thousand_counts_are_added_up_at_once() -> None:
    """Fractions of all counts have long denominators."""
    base = {f"k{i}": (1009 + 2 * i, 7 * i + 1) for i in range(1000)}
    other = {f"k{i}": (1009 + 2 * i + i % 5, 7 * i + 3) for i in range(1000)}
    device = only(account_for_change(
        [run(made({"computation": sum(s for _, s in base.values())}, base))],
        [run(made({"computation": sum(s for _, s in other.values())}, other))],
    ))  # fmt: skip
    assert device.change == 2000


# -- real files


@real
@pytest.mark.parametrize(
    ("before", "after"), few([*pairwise(REAL_FILES), *pairwise(REAL_TRACES)], 2), ids=name_of
)
def test_accounts_of_real_pairs_add_up(before: Path, after: Path, shelf: Shelf) -> None:
    base, other = (accounts(Timeline(shelf.profile(path))) for path in (before, after))
    change = account_for_change([[base]], [[other]])
    if base.missing or other.missing:
        assert change.devices is None and change.not_recorded
        return
    assert_adds_up(change)
    chosen = [each.of_steps if change.steps else each.of_window for each in (base, other)]
    for found, side in zip(chosen, ("base", "other"), strict=True):
        assert found is not None
        exact = sum((Fraction(each.span.length, each.span.steps or 1) for each in found), Fraction(0))
        whole = sum(getattr(device, side) for device in change.devices or ())
        assert abs(whole - exact) <= len(change.devices or ())
    assert account_report(change).row_count == len(change.devices or ()) * (1 + len(PARTS))


def test_kernels_of_one_side_only_are_no_launches_on_another_gpu() -> None:
    """K1 runs on both, for 40 and 50 ns; `volta` for 30 on base alone, `ampere` for 10 on other alone."""
    base, other = (
        [run(made({"computation": k1 + spent}, {"K1": (1, k1), name: (1, spent)}))]
        for k1, name, spent in ((40, "volta", 30), (50, "ampere", 10))
    )
    for differ, parts in ((False, {BY_COUNT: -20, BY_MEAN: 10}),
                          (True, {BY_COUNT: 0, BY_MEAN: 10, BY_NAME: -20})):  # fmt: skip
        (device,) = account_for_change(base, other, names_differ=differ).devices or ()
        changes = {part.name: part.change for part in device.parts}
        assert parts.items() <= changes.items()
        assert sum(changes.values()) == device.change == -10
        assert (BY_NAME in changes) == differ
