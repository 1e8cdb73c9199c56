"""Memory: by hand, as PyTorch and TensorBoard's plugin have it of recorded traces, and by a slow walk."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import REAL, REAL_TRACES, few, name_of, real
from hypothesis import given
from hypothesis import strategies as st
from small_store import Call, Kernel, Memory, Operator, Range, answers, asked, hand_computed, opened

import nsysconv
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.queries.memory import BEFORE, NO_OPERATOR
from nsysconv.timeline.slices import ANY_STEPS, Slice
from nsysconv.timeline.steps import step_names_at

GOLD = REAL / "pytorch_gold"
# Traces with what the allocator counted, and two of PyTorch 1.8, which has no such counts, nor addresses.
WITH_MEMORY = [path for path in REAL_TRACES if any(
    part in path.name for part in ("Falconsai", "bert-small", "particle_transformer", "sidnb13"))]
V100 = REAL / "kineto" / "IBM+kineto-spyre__worker0.1623212756351.pt.trace.json.gz"
Row = dict[str, Any]


def rows_of(*events: Any, spec: str = "memory", part: Slice | None = None, **how: Any) -> list[Row]:
    return answers(spec, *events, **how, part=part)


def figures(rows: list[Row], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


# -- by hand

FORWARD, BACKWARD = 1, 2
A, B, C, OLD = 0x100, 0x200, 0x300, 0x400
EXAMPLE = (
    Range(0, 1000, "ProfilerStep#1", tid=FORWARD),
    Operator(100, 400, "aten::linear", tid=FORWARD),
    Operator(150, 350, "aten::addmm", tid=FORWARD),
    Operator(420, 520, "aten::to", tid=FORWARD),
    Call(900, 980, name="cudaDeviceSynchronize", tid=FORWARD),
    Operator(560, 780, "AddmmBackward0", tid=BACKWARD),
    Operator(600, 700, "aten::mm", tid=BACKWARD),
    Operator(710, 770, "aten::mm", tid=BACKWARD),
    Memory(160, 256, A, 1256, 4096, tid=FORWARD),
    Memory(440, -64, OLD, 1192, 4096, tid=FORWARD),
    Memory(610, 128, B, 1320, 4096, tid=BACKWARD),
    Memory(715, 512, C, 1832, 4096, tid=BACKWARD),
    Memory(790, -512, C, 1320, 4096, tid=BACKWARD),
    Memory(990, -256, A, 1064, 4096, tid=FORWARD),
)


def test_the_peak_and_what_was_held_then() -> None:
    """1000 + 256 - 64 + 128 + 512 = 1832 of 4096 held: (4096 - 1832) / 4096 = 55.27 %."""
    (row,) = rows_of(*EXAMPLE, gpus={0: {"memory_bytes": 8192}})
    assert figures([row], "device_id", "memory", "before_bytes", "peak_bytes", "peak_start_ns",
                   "end_bytes") == [(0, "Device", 1000, 1832, 715, 1064)]  # fmt: skip
    assert figures([row], "reserved_at_peak_bytes", "peak_reserved_bytes", "device_pct") == [
        (4096, 4096, 50.0)]  # fmt: skip
    assert row["fragmented_pct"] == pytest.approx(100 * (4096 - 1832) / 4096)
    assert figures([row], "allocation_count", "allocation_bytes", "open_count", "open_bytes") == [
        (3, 896, 1, 128)]  # fmt: skip


def test_who_held_the_peak() -> None:
    """At 715 A, B and C were held: 896 of 1832, and 936 were there before."""
    rows = rows_of(*EXAMPLE, spec="memory:by=operator")
    assert figures(rows, "name", "live_at_peak_bytes", "self_allocation_count", "self_allocation_bytes",
                   "self_increase_bytes") == [
        (BEFORE, 936, None, None, None),
        ("aten::mm", 640, 2, 640, 640),
        ("aten::addmm", 256, 1, 256, 256),
        ("AddmmBackward0", 0, 0, 0, 0),
        (NO_OPERATOR, 0, 0, 0, -768),
        ("aten::linear", 0, 0, 0, 0),
        ("aten::to", 0, 0, 0, -64),
    ]  # fmt: skip
    by_name = {row["name"]: row for row in rows}
    with_nested = ("call_count", "allocation_count", "allocation_bytes", "increase_bytes")
    assert figures([by_name["AddmmBackward0"], by_name["aten::linear"]], *with_nested) == [
        (1, 2, 640, 640), (1, 1, 256, 256)]  # fmt: skip


def test_what_an_operator_in_an_api_call_took_is_its_own_once() -> None:
    """Of 12 in all `b` took 8; of the other 4 half came in the API call, which is not a row."""
    events = (Operator(0, 100, "a"), Call(10, 90), Operator(20, 50, "b"),
              *(Memory(at, size, at, tid=11) for at, size in ((5, 2), (15, 2), (30, 8))))  # fmt: skip
    found = figures(rows_of(*events, spec="memory:by=operator"), "name", "any_thread_bytes",
                    "any_thread_self_bytes", "allocation_bytes", "self_allocation_bytes")  # fmt: skip
    assert found == [("b", 8, 8, 8, 8), ("a", 12, 2, 12, 4)]


def test_what_any_thread_took_while_a_call_ran() -> None:
    """The step has all of 256 - 64 + 128 + 512 - 512 - 256 = 64; operators of its thread 256 - 64."""
    rows = rows_of(*EXAMPLE, spec="memory:by=operator:annotations")
    found = {row["name"]: (row["any_thread_bytes"], row["any_thread_self_bytes"]) for row in rows}
    assert found["ProfilerStep*"] == (64, 64 - (256 - 64))
    assert found["AddmmBackward0"] == (640, 0)
    assert found["aten::mm"] == (640, 640)


def test_what_is_taken_as_a_call_begins_and_ends_is_in_its_time() -> None:
    """As in PyTorch's table; an event belongs to the operator that is open after it began."""
    events = (Operator(10, 20, "aten::mm"), Memory(10, 5, A), Memory(20, 7, B), Memory(21, 9, C))
    (mine,) = (row for row in rows_of(*events, spec="memory:by=operator") if row["name"] == "aten::mm")
    assert figures([mine], "any_thread_bytes", "self_allocation_bytes") == [(12, 5)]


def test_a_block_is_of_the_step_that_the_host_is_in() -> None:
    """The GPU works on step 1 until 190. The host has begun step 2 at 100, and allocates at 120."""
    events = (Range(0, 100, "ProfilerStep#1"), Range(100, 200, "ProfilerStep#2"), Call(50, 60, 1),
              Kernel(80, 190, 1), Operator(110, 140, "aten::empty"),
              Memory(120, 64, A), Memory(210, 32, B))  # fmt: skip
    with opened(*events) as profile:
        rows = profile.report("memory:by=block").rows()
        why = profile.why("operator:1")
    assert figures(rows, "bytes", "step") == [(64, "ProfilerStep#2"), (32, None)]
    assert why.rows()[0]["step"] == "ProfilerStep#2"


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20)), min_size=1, max_size=6))
def test_the_step_of_a_moment_is_the_last_that_began_and_is_open(found: list[tuple[int, int]]) -> None:
    """Also where steps lie in each other, or cross."""
    found = sorted((start, start + dur) for start, dur in found)
    ranges = [Range(start, end, f"ProfilerStep#{n}") for n, (start, end) in enumerate(found)]
    with opened(*ranges) as profile:
        names = step_names_at(profile.timeline, ANY_STEPS, ranges[0].pid, np.arange(45))
    for moment, name in enumerate(names):
        inside = [each.text for each in ranges if each.start <= moment < (each.end or 0)]
        assert name == (inside[-1] if inside else None)


def test_what_is_held_before_the_first_event_of_a_pool_is_not_known() -> None:
    """[0, 40) in four bins; the second pool's first event is at 20."""
    events = (Memory(0, 100, A, 100, 512), Memory(39, -50, A, 50, 512),
              Memory(20, 300, A, 300, 1024, device=1), Memory(25, 1, B, 301, 2048, device=1))  # fmt: skip
    rows = rows_of(*events, spec="memory:by=time:bins=4")
    held = [row["max_reserved_bytes"] for row in rows if row["device_id"] == 1]
    assert held == [None, None, 2048, 2048]


def test_a_slice_begins_with_what_was_in_use() -> None:
    """From 600 to 780: 1192 before, 1832 at 715, and still so at the end."""
    part = Slice(time=(600, 780))
    (row,) = rows_of(*EXAMPLE, part=part)
    assert figures([row], "before_bytes", "peak_bytes", "end_bytes", "allocation_count",
                   "open_bytes") == [(1192, 1832, 1832, 2, 128)]  # fmt: skip
    live = {row["name"]: row["live_at_peak_bytes"]
            for row in rows_of(*EXAMPLE, spec="memory:by=operator", part=part)}  # fmt: skip
    # A was taken before the slice, by an operator that is not in it.
    assert (live["aten::mm"], live["aten::addmm"], live[BEFORE]) == (640, 256, 936)
    blocks = rows_of(*EXAMPLE, spec="memory:by=block", part=part)
    assert [row["address"] for row in blocks] == [C, B]


test_pools_and_blocks = hand_computed(
    ("blocks from take to give", "memory:by=block name address start_ns bytes dur_ns step state",
     EXAMPLE,
     [("aten::mm", C, 715, 512, 75, "ProfilerStep#1", "freed"),
      ("aten::addmm", A, 160, 256, 830, "ProfilerStep#1", "freed"),
      ("aten::mm", B, 610, 128, None, "ProfilerStep#1", "open"),
      (BEFORE, OLD, None, 64, None, None, "before")]),
    # [160, 991) in three bins of 277; the second holds the peak, and begins and ends with less.
    ("over time", "memory:by=time:bins=3 bin start_ns dur_ns max_bytes end_bytes", EXAMPLE,
     [(0, 160, 277, 1256, 1256), (1, 437, 277, 1320, 1320), (2, 714, 277, 1832, 1064)]),
    ("the bins of all pools are the same",
     "memory:by=time:bins=2 device_id start_ns max_bytes end_bytes",
     (Memory(0, 100, A, 100, 512), Memory(30, 300, A, 300, 512, device=1)),
     [(1, 0, 0, 0), (1, 15, 300, 300), (0, 0, 100, 100), (0, 15, 100, 100)]),
    ("devices processes and the host have pools of their own",
     "memory pid device_id memory peak_bytes peak_reserved_bytes",
     (Memory(10, 100, A, 100, 512), Memory(20, 300, A, 300, 512, device=1),
      Memory(30, 50, A, 50, 0, device=None), Memory(40, 7, A, 7, 512, pid=2),
      Memory(50, 9, A, pid=3, device=None, memory="Pinned")),
     [(1, 1, "Device", 300, 512), (1, 0, "Device", 100, 512), (1, None, "Host", 50, None),
      (3, None, "Pinned", 9, None), (2, 0, "Device", 7, 512)]),
)  # fmt: skip


def test_without_an_allocators_own_count_what_was_recorded_is_added_up() -> None:
    """What is freed and was not taken had been there before: 100. So 300 + 100 at most."""
    (row,) = rows_of(Memory(10, 300, A), Memory(20, -100, B), Memory(30, -300, A), Memory(40, 50, C))
    names = ("before_bytes", "peak_bytes", "peak_start_ns", "end_bytes", "peak_reserved_bytes",
             "fragmented_pct")  # fmt: skip
    assert figures([row], *names) == [(100, 400, 10, 50, None, None)]


def test_a_peak_before_all_events() -> None:
    (row,) = rows_of(Memory(10, -300, A, 700, 900), Memory(20, 100, B, 800, 900))
    assert figures([row], "peak_bytes", "peak_start_ns", "reserved_at_peak_bytes", "fragmented_pct") == [
        (1000, None, None, None)]  # fmt: skip


def test_without_addresses_there_are_no_blocks() -> None:
    events = (Operator(0, 100, "aten::add"), Memory(10, 300, None, 300, 512))
    (row,) = rows_of(*events)
    assert figures([row], "open_count", "open_bytes") == [(None, None)]
    (row,) = rows_of(*events, spec="memory:by=operator")
    assert figures([row], "name", "live_at_peak_bytes", "self_allocation_bytes") == [
        ("aten::add", None, 300)]  # fmt: skip
    assert rows_of(*events, spec="memory:by=block") == []


def test_what_is_not_recorded_is_said() -> None:
    events = (
        Memory(10, 300, A, 300, 512), Memory(20, 100, A, 400, 512),
        Memory(30, 100, B, 999, 1024), Memory(None, 5, C, 5, 5), Memory(40, None, C, 5, 5),
    )  # fmt: skip
    notes = {note.slug: (note.count, note.of) for note in asked("memory", *events).notes}
    assert notes["memory-events-incomplete"] == (2, 0)
    assert notes["memory-events-unseen"] == (1, 3)
    assert notes["memory-blocks-lost"] == (1, 0)


def test_operators_that_were_not_recorded() -> None:
    with opened(Memory(10, 300, A), without=[Fact.OPERATORS]) as profile:
        with pytest.raises(NotRecorded, match="operators"):
            profile.report("memory:by=operator")
        assert profile.report("memory:by=block").rows()[0]["name"] is None


# -- by a slow, obvious walk


def walked(events: list[Memory]) -> tuple[int, list[int], Counter[tuple[int | None, int, str]]]:
    """What was in use before, after each event, and the blocks: (taken, size, state)."""
    in_use, levels = 0, []
    open_: dict[int, tuple[int, int]] = {}
    blocks: Counter[tuple[int | None, int, str]] = Counter()
    for event in sorted(events, key=lambda each: each.start or 0):
        assert event.bytes is not None and event.address is not None and event.start is not None
        in_use += event.bytes
        levels.append(in_use)
        held = open_.pop(event.address, None)
        if event.bytes > 0:
            if held:
                blocks[(*held, "lost")] += 1
            open_[event.address] = event.start, event.bytes
        elif held:
            blocks[(*held, "freed")] += 1
        else:
            blocks[None, -event.bytes, "before"] += 1
    blocks.update((*held, "open") for held in open_.values())
    before = -min(0, *levels)
    return before, [level + before for level in levels], blocks


sizes = st.integers(1, 9).flatmap(lambda size: st.sampled_from((size, -size)))


@given(st.lists(st.tuples(st.integers(0, 30), sizes, st.integers(1, 4)), min_size=1, max_size=25))
def test_peaks_and_blocks_are_those_of_a_walk(made: list[tuple[int, int, int]]) -> None:
    events = [Memory(start, size, address) for start, size, address in made]
    before, levels, blocks = walked(events)
    with opened(*events) as profile:
        (row,) = profile.report("memory").rows()
        found = profile.report("memory:by=block").rows()
        bins = profile.report("memory:by=time:bins=7").rows()
    assert figures([row], "before_bytes", "peak_bytes", "end_bytes") == [
        (before, max(before, *levels), levels[-1])]  # fmt: skip
    assert Counter(figures(found, "start_ns", "bytes", "state")) == blocks
    starts = sorted(start for start, _, _ in made)
    for each in bins:
        first, end = each["start_ns"], each["start_ns"] + each["dur_ns"]
        at_begin = sum(start < first for start in starts)
        inside = [before, *levels][at_begin : sum(start < end for start in starts) + 1]
        assert (each["max_bytes"], each["end_bytes"]) == (max(inside), inside[-1])


@real
@pytest.mark.parametrize("path", few(WITH_MEMORY, 1), ids=name_of)
def test_peaks_of_real_traces_are_those_of_a_walk(path: Path) -> None:
    """Straight from the JSON: the most that the allocator says after an event, or before the first."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        trace = json.load(file)
    walks: dict[tuple[Any, Any], tuple[int, int]] = {}
    events = [event for event in trace["traceEvents"] if event.get("name") == "[memory]"]
    for event in sorted(events, key=lambda event: event["ts"]):
        args = event["args"]
        key = event["pid"], args["Device Id"] if args["Device Type"] else None
        after = args["Total Allocated"]
        peak, _ = walks.get(key, (after - args["Bytes"], 0))
        walks[key] = max(peak, after), after
    with nsysconv.open(path) as profile:
        rows = profile.report("memory").rows()
    assert walks
    assert {(row["pid"], row["device_id"]): (row["peak_bytes"], row["end_bytes"]) for row in rows} == {
        (pid, device): values for (pid, device), values in walks.items()}  # fmt: skip


@real
def test_a_trace_without_counts_is_added_up() -> None:
    with gzip.open(V100, "rt", encoding="utf-8") as file:
        events = [e for e in json.load(file)["traceEvents"] if e.get("name") == "[memory]"]
    levels: dict[int | None, list[int]] = {}
    for event in sorted(events, key=lambda event: event["ts"]):
        device = event["args"]["Device Id"] if event["args"]["Device Type"] else None
        level = levels.setdefault(device, [0])
        level.append(level[-1] + event["args"]["Bytes"])
    with nsysconv.open(V100) as profile:
        rows = profile.report("memory").rows()
    assert {row["device_id"]: row["peak_bytes"] for row in rows} == {
        device: max(each) - min(each) for device, each in levels.items()}  # fmt: skip


# -- as others have it


def of(folder: str, name: str) -> Any:
    with gzip.open(GOLD / folder / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)


def recording(name: str, spec: str, tmp_path: Path, *include: str) -> list[Row]:
    path = GOLD / "recorded" / f"{name}.pt.trace.json.gz"
    if not path.exists():
        pytest.skip("the gold answers are not here")
    nsysconv.import_files([path], store=tmp_path / "a.db", include=include)
    with nsysconv.open(tmp_path / "a.db") as profile:
        return profile.report(spec).rows()


RECORDINGS = pytest.mark.parametrize("name", ["mlp_train", "conv_infer"])


@real
@RECORDINGS
def test_operators_have_the_memory_of_the_plugin(name: str, tmp_path: Path) -> None:
    """In every cell: calls, and counts, sizes and increases with and without nested operators."""
    rows = recording(name, "memory:by=operator", tmp_path)
    ours = {row["name"]: row for row in rows}
    theirs = of("tensorboard_plugin", f"{name}.views")["memory_stats"]["rows"]["CPU"]
    names = ("call_count", "increase_bytes", "self_increase_bytes", "allocation_count",
             "self_allocation_count", "allocation_bytes", "self_allocation_bytes")  # fmt: skip
    assert len(theirs) > 20
    for operator, *cells in theirs:
        assert figures([ours[operator]], *names) == [tuple(map(int, cells))]


@real
@RECORDINGS
def test_blocks_are_those_of_the_plugin(name: str, tmp_path: Path) -> None:
    """There a block of `aten::empty` has the operator around it, too: `aten::zeros (aten::empty)`."""
    rows = recording(name, "memory:by=block", tmp_path)
    views = of("tensorboard_plugin", f"{name}.views")
    ours: Counter[tuple[str, int, bool]] = Counter()
    ours.update((row["name"], row["bytes"], row["dur_ns"] is None) for row in rows)
    theirs: Counter[tuple[str, int, bool]] = Counter()
    for operator, size, taken, released, _ in views["memory_events"]["rows"]["CPU"]:
        inner = re.fullmatch(r".* \((.+)\)", operator)
        theirs[inner[1] if inner else operator, int(size), taken is None or released is None] += 1
    assert ours == theirs
    (row,) = recording(name, "memory", tmp_path)
    assert [row["peak_bytes"]] == list(views["memory_peak"].values())


@real
@pytest.mark.parametrize("name", ["mlp_train", "conv_infer", "conv_overloads"])
def test_memory_columns_of_key_averages(name: str, tmp_path: Path) -> None:
    """Every row, and both columns; objects' addresses are no names."""
    spec = "memory:by=operator:annotations:functions"
    rows = recording(name, spec, tmp_path, "python_functions")
    ours = {row["name"]: figures([row], "any_thread_bytes", "any_thread_self_bytes")[0] for row in rows}
    theirs: dict[str, tuple[int, int]] = {}
    for row in of("recorded", f"{name}.key_averages")["by_name"]:
        key = re.sub("0x[0-9a-f]+", "0x…", row["key"])
        whole, own = theirs.get(key, (0, 0))
        theirs[key] = whole + row["cpu_memory_usage_bytes"], own + row["self_cpu_memory_usage_bytes"]
    assert {key: ours.get(key, (0, 0)) for key in theirs} == theirs


@pytest.mark.parametrize(("address", "first"), [(5, "largest at the peak"), (None, "most allocated")])
def test_a_table_by_operator_says_what_sorts_it(address: int | None, first: str) -> None:
    """Without addresses nothing says what was held."""
    events = (Operator(0, 100, "a"), Memory(15, 2, address, tid=11))
    report = asked("memory:by=operator", *events)
    assert first in report.title
