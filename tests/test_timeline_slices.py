"""Slices: what of a profile belongs to one, redone by hand; and against a slow version."""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from typing import Any

import pytest
from conftest import examples
from hypothesis import given
from hypothesis import strategies as st
from slow_versions import Slow
from small_store import (
    Call,
    Graph,
    Kernel,
    Memcpy,
    Memset,
    Migration,
    Op,
    Operator,
    Overhead,
    Range,
    Row,
    Sync,
    Total,
    asked,
    cell,
    cells,
    hand_computed,
    opened,
)

from nsysconv.api import Percent, Slice
from nsysconv.errors import NotRecorded, UsageError
from nsysconv.facts import Fact
from nsysconv.timeline.annotations import ranges
from nsysconv.timeline.sliced import sliced
from nsysconv.timeline.timeline import Timeline

# Three steps of one process; the program is ahead of the GPU:
#
#   annotations  [0, 100)           [100, 200)          [200, 300)
#   calls        10-20  70-80       110-115  190-195    220-230
#   launch       gemm   relu        copy     gemm       relu
#   run          30-60  120-150     160-180  210-260    270-320
#   steps        [0, 150)           [150, 260)          [260, 320)
GEMM_1 = Kernel(30, 60, 1, name="gemm")
RELU_1 = Kernel(120, 150, 2, name="relu")
COPY = Memcpy(160, 180, 3)
GEMM_2 = Kernel(210, 260, 4, name="gemm")
RELU_2 = Kernel(270, 320, 5, name="relu")
CALLS = (Call(10, 20, 1), Call(70, 80, 2), Call(110, 115, 3, tid=12, name="cudaMemcpyAsync"),
         Call(190, 195, 4), Call(220, 230, 5))  # fmt: skip
STEPS = (Range(0, 100, "ProfilerStep#1"), Range(100, 200, "ProfilerStep#2"),
         Range(200, 300, "ProfilerStep#3"))  # fmt: skip
EXAMPLE: tuple[Row, ...] = (GEMM_1, RELU_1, COPY, GEMM_2, RELU_2, *CALLS, *STEPS)

WINDOW = "window_start_ns window_ns busy_ns idle_ns"
SECOND = {"range": "ProfilerStep#2"}
PROJECTED: dict[str, Any] = {**SECOND, "projected": True}


def cut(timeline: Timeline, **part: Any) -> Timeline:
    return sliced(timeline, Slice(**part))


def held(timeline: Timeline, **part: Any) -> dict[str, list[Any]]:
    """What a slice holds: operations and calls by their starts, ranges by their texts."""
    found = cut(timeline, **part)
    ops, calls, spans = found.ops, found.calls, ranges(found)
    return {
        "ops": ops.start.tolist(),
        "calls": sorted(calls.start[found.calls_in_slice].tolist()),
        "ranges": [spans.names[i] for i in spans.name[found.holds(spans)].tolist()],
    }


def kept(*rows: Row, **part: Any) -> dict[str, list[Any]]:
    """What of these rows a slice holds."""
    with opened(*rows) as profile:
        return held(profile.timeline, **part)


def ops(*rows: Row, **part: Any) -> list[int]:
    return kept(*rows, **part)["ops"]


def device(columns: str, *rows: Row, options: dict[str, Any] | None = None, **part: Any) -> Any:
    """Columns of the only device of the report `overview`."""
    return cell(f"overview {columns}", *rows, part=Slice(**part), **options or {})


def window(*rows: Row, **part: Any) -> tuple[int, int, int, int]:
    return device(WINDOW, *rows, **part)


def described(*rows: Row, **part: Any) -> dict[str, Any]:
    """How a report states the slice."""
    stated = asked("overview", *rows, part=Slice(**part)).slice
    assert stated is not None
    return dict(stated)


def refused(*rows: Row, report: str = "overview", options: Any = None, **part: Any) -> UsageError:
    """The error that a slice is answered with."""
    with opened(*rows, **options or {}) as profile, pytest.raises(UsageError) as caught:
        profile.report(report, slice=Slice(**part))
    assert caught.value.hint, "what to do next"
    assert caught.value.where == "small", "which profile"
    return caught.value


# -- the example


def of_example(words: str, started: list[int], expected: tuple[int, ...], **part: Any) -> Any:
    """A case: the operations in a slice of the example by their starts, and the slice's window."""
    return pytest.param(part, started, expected, id=words)


@pytest.mark.parametrize(("part", "started", "expected"), [
    # relu (30), copy (20), gemm (50); 10 + 20 + 10 of it are inside.
    of_example("unions count what is inside", [120, 160, 210], (140, 80, 40, 40), time=(140, 220)),
    # Rows are cut at the other end alone; the window ends where operations, calls and ranges do.
    of_example("the end may be open", [210, 270], (200, 120, 100, 20), time=(200, None)),
    of_example("the start may be open", [30, 120], (0, 150, 60, 90), time=(None, 150)),
    # The profile lasts from 0 to 320: 50 % is 160, 75 % is 240.
    of_example("shares", [160, 210], (160, 80, 50, 30), time=(Percent(50), Percent(75))),
    of_example("a share and a time", [160], (160, 40, 20, 20), time=(Percent(50), 200)),
    # [100, 200): what ran then, whoever launched it.
    of_example("a range is its own time", [120, 160], (100, 100, 50, 50), **SECOND),
    # Calls 110 and 190 launched the copy (160-180) and the second gemm (210-260).
    of_example("a projected range is what it launched", [160, 210], (160, 100, 70, 30), **PROJECTED),
    # [150, 250) and [100, 200) meet in [150, 200).
    of_example("time and range have to hold together", [160], (150, 50, 20, 30),
               time=(150, 250), **SECOND),
    # The call at 190 is the only one of the range then, and its gemm runs to 260.
    of_example("time and projected range have to hold together", [210], (210, 50, 50, 0),
               time=(150, 250), **PROJECTED),
    # Not what was launched while that ran: the call at 220 is of step 3.
    of_example("a projected step is what it launched", [160, 210], (160, 100, 70, 30),
               step="2", projected=True),
    *[of_example(f"a step {step} lasts until what it launched has run", [160, 210], (150, 110, 70, 40),
                 step=step) for step in ("2", "ProfilerStep#2", "2:2")],
    of_example("steps from to", [160, 210, 270], (150, 170, 120, 50), step="2:3"),
    of_example("the first steps", [30, 120, 160, 210], (0, 260, 130, 130), step="1:2"),
    of_example("steps to more than there are", [270], (260, 60, 50, 10), step="3:9"),
    # [150, 320), to the end of the last; projected, what the second and third launched.
    of_example("what is before the end of a step is skipped", [160, 210, 270], (150, 170, 120, 50),
               skip_first=1),
    of_example("what a step launched is skipped", [160, 210, 270], (160, 160, 120, 40),
               skip_first=1, projected=True),
    of_example("without a time the window is that of the rows", [30, 210], (30, 230, 80, 150),
               name="gemm"),
])  # fmt: skip
def test_slices_of_the_example(
    part: dict[str, Any], started: list[int], expected: tuple[int, ...]
) -> None:
    with opened(*EXAMPLE) as profile:
        (row,) = profile.report("overview", slice=Slice(**part)).rows()
        assert tuple(row[column] for column in WINDOW.split()) == expected
        assert held(profile.timeline, **part)["ops"] == started


@pytest.mark.parametrize(("part", "stated"), [
    ({"time": (200, None)}, {"start_ns": 200, "end_ns": 320, "time": "200ns:"}),
    ({"time": (Percent(50), Percent(75))}, {"start_ns": 160, "end_ns": 240, "time": "50%:75%"}),
    # What was asked for where it is beyond the recording, which is from 0 to 320.
    ({"time": (200, 1000)}, {"start_ns": 200, "end_ns": 320, "time": "200ns:1000ns"}),
    ({"time": (-50, None)}, {"start_ns": 0, "end_ns": 320, "time": "-50ns:"}),
    (PROJECTED, {"start_ns": 160, "end_ns": 260, **PROJECTED}),
    ({"skip_first": 2}, {"start_ns": 260, "end_ns": 320, "skip_first": 2}),
    ({"name": "gemm"}, {"name": "gemm"}),
    ({"devices": (0,), "step_range": "it *"}, {"devices": [0]}),
])  # fmt: skip
def test_how_slices_are_stated(part: dict[str, Any], stated: dict[str, Any]) -> None:
    assert described(*EXAMPLE, **part) == stated


# -- time


def test_a_row_belongs_to_a_time_that_it_intersects() -> None:
    """[150, 260): relu ends where it begins, the second gemm where it ends, and the last is later."""
    found = kept(*EXAMPLE, time=(150, 260))
    assert found == {"ops": [160, 210], "calls": [190, 220],
                     "ranges": ["ProfilerStep#2", "ProfilerStep#3"]}  # fmt: skip


@pytest.mark.parametrize(("moment", "inside"), [(99, []), (100, [100]), (199, [199]), (200, [])])
def test_a_time_includes_its_start_and_not_its_end(moment: int, inside: list[int]) -> None:
    """Of a row without length, that is where it is."""
    rows: tuple[Row, ...] = (Kernel(moment, moment, 1), Call(moment, moment, 1), Range(0, 300, "r"))
    found = {**kept(*rows, time=(100, 200)), "ranges": []}
    assert found == {"ops": inside, "calls": inside, "ranges": []}


def test_counts_and_sums_take_whole_rows_and_unions_what_is_inside() -> None:
    """[140, 220): relu (30), copy (20), gemm (50); 10 + 20 + 10 of it are inside."""
    columns = "kernel_count kernel_sum_ns memcpy_sum_ns kernel_union_ns"
    assert device(columns, *EXAMPLE, time=(140, 220)) == (2, 80, 20, 20)


def test_an_open_end_leaves_nothing_out() -> None:
    """Neither what has no length and is the last, nor migrations, which extend no window."""
    rows: tuple[Row, ...] = (Kernel(10, 20), Kernel(50, 50), Migration(60, 70), Migration(0, 5))
    assert ops(*rows, time=(15, None)) == [10, 50, 60]
    assert ops(*rows, time=(None, 15)) == [0, 10]
    assert window(*rows, time=(15, None)) == (15, 35, 5, 30)


def test_a_share_is_cut_to_whole_ns() -> None:
    """A third of 320 is 106.67."""
    third = Percent(Fraction(100, 3))
    assert described(*EXAMPLE, time=(third, 200))["start_ns"] == 106


def test_all_of_the_time_is_all() -> None:
    rows: tuple[Row, ...] = (*EXAMPLE, Kernel(320, 320), Migration(400, 410))
    whole = (Percent(0), Percent(100))
    assert ops(*rows, time=whole) == ops(*rows)
    assert window(*rows, time=whole)[:2] == (0, 320)
    early = (Migration(1, 5), Kernel(10, 20), Kernel(30, 40))
    assert ops(*early, time=(Percent(0), Percent(50))) == [1, 10]


@pytest.mark.parametrize(("part", "words"), [
    ({"time": (5, 5)}, "ends before it starts"), ({"time": (6, 5)}, "ends before it starts"),
    ({"time": (Percent(60), Percent(40))}, "ends before it starts"),
    ({"time": (0, 1), "projected": True}, "projected"), ({"skip_first": -1}, "negative"),
])  # fmt: skip
def test_what_is_no_slice_of_any_profile(part: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Slice(**part)


@pytest.mark.parametrize("time", [
    (320, None), (None, 0), (300, Percent(50)), (10**30, 10**31), (400, 500), (-9, 0),
    (-9, Percent(0)), (400, None),
])  # fmt: skip
def test_a_time_that_holds_nothing_is_refused(time: Any) -> None:
    error = refused(*EXAMPLE, time=time)
    assert "empty" in error.what
    assert (error.exit_status, error.hint) == (2, "The profile is from 0 ns to 320 ns.")


def cut_notes(*rows: Row, report: str = "overview", **part: Any) -> list[str]:
    """What is said of a slice that goes beyond the recording."""
    notes = asked(report, *rows, part=Slice(**part)).notes
    return [note.text.partition(": ")[2] for note in notes if note.slug == "slice-beyond-recording"]


@pytest.mark.parametrize(("time", "expected", "note"), [
    ((200, 1000), (200, 120, 100, 20), ["0 ns to 320 ns"]),
    ((-50, 40), (0, 40, 10, 30), ["0 ns to 320 ns"]),
    ((-50, 1000), (0, 320, 180, 140), ["0 ns to 320 ns"]),
    ((-(10**30), 10**30), (0, 320, 180, 140), ["0 ns to 320 ns"]),
    ((200, 320), (200, 120, 100, 20), []),
    ((0, 320), (0, 320, 180, 140), []),
])  # fmt: skip
def test_a_time_beyond_the_recording_is_cut_to_it(time: Any, expected: Any, note: list[str]) -> None:
    """It is from 0, where the first step begins, to 320, where the last kernel ends."""
    assert window(*EXAMPLE, time=time) == expected
    for report in ("overview", "cuda_api_sum"):
        assert cut_notes(*EXAMPLE, report=report, time=time) == note
    assert ("time" in described(*EXAMPLE, time=time)) == bool(note)


def test_the_time_of_a_session_is_recorded_though_nothing_ran() -> None:
    session = {"recording_start_ns": 0, "recording_ns": 400}
    notes = asked("overview", *EXAMPLE, **session, part=Slice((330, 500))).notes
    assert [note.slug for note in notes] == ["slice-beyond-recording"]
    assert window(*EXAMPLE, options=session, time=(330, 500)) == (330, 70, 0, 70)


def test_migrations_and_samples_are_recorded_outside_of_the_recording() -> None:
    rows: tuple[Row, ...] = (Kernel(10, 20), Migration(60, 70))
    assert ops(*rows, time=(60, 90)) == [60]
    assert cut_notes(*rows, time=(60, 90)) == ["10 ns to 70 ns"]


def test_operations_without_a_time_are_in_no_time_and_counted() -> None:
    with opened(Kernel(None, None), Kernel(10, 20)) as profile:
        for part, kernels, left_out in ((Slice((0, 100)), 1, True), (Slice(devices=(0,)), 2, False)):
            report = profile.report("overview", slice=part)
            assert report.rows()[0]["kernel_count"] == kernels
            (note,) = [note for note in report.notes if note.slug == "no-time"]
            assert (note.count, "left out" in note.text) == (1, left_out)


def test_rows_of_no_recorded_process_have_a_time_as_well() -> None:
    rows: tuple[Row, ...] = (Kernel(10, 20, pid=None), Kernel(30, 40, pid=None))  # type: ignore[arg-type]
    assert ops(*rows, time=(25, 50)) == [30]


# -- ranges


@pytest.mark.parametrize(("part", "calls"), [
    (SECOND, [110, 190]), (PROJECTED, [110, 190]), ({"step": "2"}, [190, 220]),
    ({"step": "2", "projected": True}, [110, 190]),
])  # fmt: skip
def test_calls_of_ranges_and_steps(part: dict[str, Any], calls: list[int]) -> None:
    assert kept(*EXAMPLE, **part)["calls"] == calls


def test_what_a_projected_range_launched_counts_without_a_time_or_a_length() -> None:
    rows: tuple[Row, ...] = (
            Range(0, 100, "r"), Call(10, 11, 1), Call(20, 21, 2), Call(30, 31, 3), Kernel(50, 60, 1),
            Kernel(None, None, 2), Kernel(60, 60, 3), Kernel(55, 58))  # fmt: skip
    found = device(f"kernel_count {WINDOW}", *rows, range="r", projected=True)
    assert found == (3, 50, 10, 10, 0)


def test_a_projected_range_lasts_until_the_last_of_it_has_ended() -> None:
    """Which is not the one that started last."""
    rows = (Range(0, 9, "r"), Call(0, 1, 1), Call(2, 3, 2), Kernel(10, 90, 1), Memcpy(20, 30, 2))
    assert window(*rows, range="r", projected=True) == (10, 80, 80, 0)


def test_a_call_at_the_end_of_a_range_is_not_in_it() -> None:
    rows: tuple[Row, ...] = (Range(0, 100, "r"), Call(0, 1, 1), Call(100, 101, 2),
                             Kernel(200, 210, 1), Kernel(220, 230, 2))  # fmt: skip
    assert kept(*rows, range="r", projected=True) == {"ops": [200], "calls": [0], "ranges": ["r"]}


def test_each_process_has_its_own_range() -> None:
    """In process 1 it is [0, 50), in 2 [100, 200), and 3 has none: it is not in the slice."""
    rows: tuple[Row, ...] = (
            Range(0, 50, "r"), Range(100, 200, "r", tid=21, pid=2), Range(0, 300, "s", tid=31, pid=3),
            *(Kernel(start, start + 10, pid=pid, device=pid) for pid in (1, 2, 3)
              for start in (20, 120, 220)))  # fmt: skip
    part = Slice(range="r")
    assert cells(f"overview device_id kernel_count {WINDOW}", *rows, part=part) == [
        (1, 1, 0, 50, 10, 40), (2, 1, 100, 100, 10, 90), (3, 0, 0, 150, 0, 150)]  # fmt: skip
    assert kept(*rows, range="r")["ranges"] == ["r", "r"]
    assert cells("processes pid", *rows, part=part) == [1, 2]
    assert described(*rows, range="r") == {
        "start_ns": 0, "end_ns": 200, "window_count": 2, "window_ns": 150, "range": "r"}  # fmt: skip


def test_the_window_of_a_device_that_is_idle_in_the_slice_is_that_of_its_process() -> None:
    """Process 2 launches on device 2 before its range alone."""
    rows: tuple[Row, ...] = (
            Range(0, 50, "r"), Range(100, 200, "r", tid=21, pid=2), Kernel(20, 30, device=1),
            Kernel(20, 30, pid=2, device=2))  # fmt: skip
    ranks = {1: 0, 2: 1}
    assert cells(f"overview rank device_id {WINDOW}", *rows, part=Slice(range="r"), ranks=ranks) == [
        (0, 1, 0, 50, 10, 40), (1, 2, 100, 100, 0, 100)]  # fmt: skip
    part = Slice(range="r", devices=(2,))
    gap = cell("idle_gaps rank start_ns dur_ns cause", *rows, part=part, ranks=ranks)
    assert gap == (1, 100, 100, "end")


def test_the_window_of_a_device_of_several_processes_is_that_of_all_of_them() -> None:
    """[0, 50) and [100, 200)."""
    rows: tuple[Row, ...] = (Range(0, 50, "r"), Range(100, 200, "r", tid=21, pid=2), Kernel(20, 30),
            Kernel(120, 130), Kernel(140, 150, pid=2))  # fmt: skip
    assert device(f"kernel_count {WINDOW}", *rows, range="r") == (2, 0, 150, 20, 130)


THREE = (Range(50, 60, "r"), Range(0, 10, "r"), Range(20, 30, "r"), Kernel(0, 60))
DOMAINS = (Range(0, 10, "r"), Range(20, 30, "r", domain=1), Range(40, 50, "r", domain=2),
           Range(60, 70, "r", domain=2), Kernel(0, 70))  # fmt: skip
SIGNS = (Range(0, 10, "ProfilerStep#5"), Range(20, 30, "a@b"), Range(40, 50, "a@b#2"),
         Range(60, 70, "a@b"), Range(80, 90, "x#3", domain=1), Kernel(0, 90))  # fmt: skip
BOTH = (Operator(0, 10, "mm"), Operator(20, 30, "both"), Range(40, 50, "both"), Kernel(0, 50))
OF_DOMAINS: dict[str, Any] = {"domains": {(1, 1): "nccl", (1, 2): "my@do#1"}}


@pytest.mark.parametrize(("rows", "options", "starts"), [
    pytest.param(THREE, {}, {"r": 0, "r#1": 0, "r#2": 20, "r#3": 50}, id="the nth of a name"),
    pytest.param((Range(10, 20, "r"), Range(0, 100, "r"), Kernel(0, 100)), {}, {"r#2": 10}, id="nested"),
    pytest.param(DOMAINS, OF_DOMAINS, {"r": 0, "r@nccl": 20, "r@n*": 20, "*@nccl#1": 20, "r@": 0,
                                       "r#2": 20}, id="a domain"),
    pytest.param(SIGNS, {"domains": {(1, 1): "d#2"}},
                 {"ProfilerStep#5": 0, "a@b": 20, "a@b#2": 40, "a@b#1": 20, "Profiler*": 0, "x#3@d#2": 80,
                  "x#3@d#2#1": 80, "x*@d*": 80}, id="names that hold the signs themselves"),
    pytest.param(BOTH, {}, {"mm": 0, "both": 40},
                 id="an operator may be a range, and a range comes first"),
])  # fmt: skip
def test_which_range_a_text_names(
    rows: tuple[Row, ...], options: dict[str, Any], starts: dict[str, int]
) -> None:
    found = {text: window(*rows, range=text, options=options)[0] for text in starts}
    assert found == starts


def test_a_process_without_the_nth_is_out() -> None:
    rows: tuple[Row, ...] = (Range(0, 10, "r"), Range(20, 30, "r"), Range(0, 10, "r", pid=2, tid=21),
            Kernel(0, 30), Kernel(0, 30, pid=2))  # fmt: skip
    assert cells("processes pid", *rows, part=Slice(range="r#2")) == [1]


def test_a_range_is_named_without_the_arguments_of_pytorch_or_with_them() -> None:
    rows = (Range(0, 10, "aten::mm, op_id = 1"), Range(20, 35, "aten::mm, op_id = 2"), Kernel(0, 50))
    found = [cell("overview window_ns", *rows, part=Slice(range=text)) for text in
             ("aten::mm", "aten::mm#2", "aten::mm#*", "aten::mm, op_id = 2")]  # fmt: skip
    assert found == [10, 15, 25, 15]
    hint = refused(*rows, range="aten::m").hint
    assert "aten::mm" in hint and "op_id" not in hint


def test_of_many_ranges_the_nearest_are_named() -> None:
    rows = [Range(number, number + 1, f"batch {number}") for number in range(1000)]
    said = refused(*rows, Kernel(0, 1), range="batc").hint.splitlines()
    assert len(said) <= 5
    assert said[1].startswith("  batch ")
    assert "1,000" in said[-1]


def test_a_range_that_was_never_closed_ends_with_the_recording() -> None:
    rows: tuple[Row, ...] = (Range(10, None, "r"), Kernel(20, 30))
    assert window(*rows, range="r", options={"recording_ns": 100}) == (10, 90, 10, 80)


A_AND_NOTHING = (Range(0, 10, "a"), Range(20, 20, "nothing"), Kernel(0, 30))
# The only copy that its call waits for ends two seconds after it.
OTHER_CLOCK: tuple[Row, ...] = (Range(0, 100, "r"), Call(10, 20, 1), Call(30, 40, 2, name="cudaMemcpy"),
               Kernel(2_000_000_010, 2_000_000_030, 1),
               Memcpy(2_000_000_040, 2_000_000_050, 2, direction="DtoH"))  # fmt: skip


@pytest.mark.parametrize(("rows", "part", "what", "hint"), [
    (THREE, {"range": "r#4"}, "no range 'r#4'", ""),
    (THREE, {"range": "r#0"}, "no range 'r#0'", ""),
    (DOMAINS, {"range": "r@nccl#2", "options": OF_DOMAINS}, "", "There are: r"),
    ((Operator(0, 10, "mm"), Kernel(0, 1)), {"range": "x"}, "", "There are: mm"),
    (A_AND_NOTHING, {"range": "b"}, "", "a, nothing"),
    (A_AND_NOTHING, {"range": "nothing"}, "empty", ""),
    (A_AND_NOTHING, {"range": "a", "time": (10, 20)}, "empty", ""),
    (A_AND_NOTHING, {"range": "a", "projected": True}, "launched", ""),
    ((Kernel(0, 30),), {"range": "b"}, "", "none"),
    (EXAMPLE, {"step": "9"}, "no step '9'", ""),
    (EXAMPLE, {"step": "3:2"}, "no step '3:2'", ""),
    (EXAMPLE, {"step": "x"}, "no step 'x'", ""),
    (EXAMPLE, {"skip_first": 3}, "no process has more than 3", ""),
    ((GEMM_1,), {"step": "1"}, "", "--step-range"),
    (EXAMPLE, {"step": "1", "skip_first": 1}, "empty", ""),
    # More digits than a number has.
    ((Range(0, 10, "ProfilerStep#" + "7" * 5000), Kernel(0, 10)), {"step": "1"}, "no step", ""),
    # On two clocks only what was launched can be said.
    (OTHER_CLOCK, {"range": "r"}, "", "--projected"),
    (OTHER_CLOCK, {"time": (5, None)}, "not on one clock", ""),
    (OTHER_CLOCK, {"time": (5, Percent(50))}, "not on one clock", ""),
    (OTHER_CLOCK, {"time": (3_000_000_000, 4_000_000_000)}, "empty", ""),
])  # fmt: skip
def test_ranges_and_steps_that_make_no_slice(
    rows: tuple[Row, ...], part: dict[str, Any], what: str, hint: str
) -> None:
    error = refused(*rows, **part)
    assert what in error.what
    assert hint in error.hint
    assert not hint.startswith("There are") or error.hint == hint


# -- steps


def test_a_step_is_that_of_the_report_on_steps() -> None:
    found = cell("steps step start_ns dur_ns", *EXAMPLE, part=Slice(step="2"))
    assert found == ("ProfilerStep#2", 150, 110)


def test_numbers_are_those_in_the_names_and_else_count() -> None:
    numbered = (Range(0, 10, "ProfilerStep#7"), Range(10, 20, "ProfilerStep#8"), Kernel(0, 20))
    assert window(*numbered, step="8")[0] == 10
    assert "no step '2'" in refused(*numbered, step="2").what
    plain = (Range(0, 10, "train"), Range(10, 20, "train"), Range(20, 30, "train"), Kernel(0, 30))
    assert window(*plain, step="2", step_range="train")[0] == 10
    assert window(*plain, step="train", step_range="train")[:2] == (0, 30)
    # Of names with one number, as of those where one has none, it counts.
    same: tuple[Row, ...] = (Range(0, 10, "epoch 9 a"), Range(10, 20, "epoch 9 b"), Kernel(0, 20))
    assert window(*same, step="2", step_range="epoch*")[0] == 10


def test_each_process_has_its_own_steps() -> None:
    rows: tuple[Row, ...] = (
            *STEPS, Range(0, 1000, "ProfilerStep#3", tid=21, pid=2), Kernel(10, 20, device=1),
            Kernel(10, 20, pid=2, device=2))  # fmt: skip
    windows = cells("overview window_start_ns window_ns", *rows, part=Slice(step="3"))
    assert windows == [(200, 100), (0, 1000)]
    assert cells("overview kernel_count", *rows, part=Slice(step="2")) == [0, 0]
    assert cells("processes pid", *rows, part=Slice(step="2")) == [1]


def test_what_is_after_the_last_step_is_not_of_those_after_a_skipped_one() -> None:
    assert ops(*EXAMPLE, Kernel(400, 410), skip_first=1) == [160, 210, 270]


def test_what_steps_are_called_is_stated() -> None:
    rows: tuple[Row, ...] = (Range(0, 10, "it 1"), Range(10, 20, "it 2"), Kernel(0, 20))
    assert described(*rows, step="2", step_range="it *") == {
        "start_ns": 10, "end_ns": 20, "step": "2", "step_range": "it *"}  # fmt: skip


# -- clocks that disagree


def test_on_two_clocks_both_are_recorded() -> None:
    """Calls on the one until 100, GPU operations on the other, two seconds later."""
    assert device("kernel_count", *OTHER_CLOCK, time=(50, 2_000_000_035)) == 1
    assert cut_notes(*OTHER_CLOCK, time=(-5, 2_000_000_035)) == ["0 ns to 2.00 s"]


def test_on_two_clocks_what_was_launched_is_told() -> None:
    found = device(f"kernel_count {WINDOW}", *OTHER_CLOCK, range="r", projected=True)
    assert found == (1, 2_000_000_010, 40, 30, 10)
    assert kept(*OTHER_CLOCK, range="r", projected=True)["calls"] == [10, 30]
    assert device("kernel_count", *OTHER_CLOCK, time=(2_000_000_000, 2_000_000_035)) == 1


# -- rows

SEVERAL: tuple[Row, ...] = (
    Call(0, 5, 1), Call(6, 9, 2, tid=12), Call(0, 5, 1, pid=2, tid=21, layer="driver", name="cuLaunch"),
    Kernel(10, 20, 1, stream=7, name="void gemm<float>(int)"), Kernel(15, 30, 2, stream=8, name="relu"),
    Kernel(40, 50, 1, stream=7, pid=2, device=1, name="gemm2"), Memcpy(60, 70, stream=9, device=1, pid=2),
    Memset(80, 85), Migration(90, 95), Graph(100, 110),
    Range(0, 50, "gemms"), Range(0, 50, "rest", tid=12), Overhead(0, 1), Sync(20, 21, stream=8),
)  # fmt: skip
RANKS: dict[str, Any] = {"ranks": {1: 4, 2: 5}}


KEPT: list[tuple[dict[str, Any], list[int], int, list[str]]] = [
    ({"devices": (0,)}, [10, 15, 80, 90, 100], 3, ["gemms", "rest"]),
    ({"devices": (1,)}, [40, 60], 3, ["gemms", "rest"]),
    ({"devices": (0, 1)}, [10, 15, 40, 60, 80, 90, 100], 3, ["gemms", "rest"]),
    ({"streams": (7,)}, [10, 40, 80, 100], 3, ["gemms", "rest"]),
    ({"streams": (8, 9)}, [15, 60], 3, ["gemms", "rest"]),
    ({"processes": (2,)}, [40, 60], 1, []),
    ({"ranks": (4,)}, [10, 15, 80, 90, 100], 2, ["gemms", "rest"]),
    ({"ranks": (4, 5)}, [10, 15, 40, 60, 80, 90, 100], 3, ["gemms", "rest"]),
    ({"threads": (11,)}, [10], 1, ["gemms"]),
    ({"threads": (12, 21)}, [15, 40], 2, ["rest"]),
    ({"name": "gemm"}, [10, 40], 0, ["gemms"]),
    ({"name": "^gemm"}, [40], 0, ["gemms"]),
    ({"name": "Launch"}, [], 3, []),
    ({"name": r"\[memcpy HtoD\]"}, [60], 0, []),
    ({"name": "memset|HtoD"}, [60, 80, 90], 0, []),
    ({"name": r"\[UM "}, [90], 0, []),
    ({"name": "graph launch"}, [100], 0, []),
    ({"name": ""}, [10, 15, 40, 60, 80, 90, 100], 3, ["gemms", "rest"]),
    ({"devices": (0,), "streams": (7,), "name": "gemm"}, [10], 0, ["gemms"]),
    ({"processes": (1,), "time": (60, 90)}, [80], 0, []),
    ({"threads": (11,), "time": (0, 5)}, [], 1, ["gemms"]),
    ({"range": "rest", "streams": (8,)}, [15], 2, ["gemms", "rest"]),
    ({"range": "rest", "projected": True, "streams": (8,)}, [15], 2, ["gemms", "rest"]),
    ({"range": "rest", "threads": (12,)}, [15], 1, ["rest"]),
]  # fmt: skip


def test_rows_of_a_kind_are_left_out() -> None:
    with opened(*SEVERAL, **RANKS) as profile:
        for part, *expected in KEPT:
            found = held(profile.timeline, **part)
            assert [found["ops"], len(found["calls"]), found["ranges"]] == expected, part


LACKING: list[tuple[dict[str, Any], str]] = [
    ({"devices": (2,)}, "no device 2"), ({"devices": (0, 2, 3)}, "no device 2, 3"),
    ({"streams": (1,)}, "no stream 1"), ({"processes": (3,)}, "no process 3"),
    ({"ranks": (0,)}, "no rank 0"), ({"threads": (7,)}, "no thread 7"),
    ({"name": "("}, "not a regular expression"), ({"ranks": (4,), "processes": (2,)}, "empty"),
]  # fmt: skip


def test_what_the_profile_does_not_have() -> None:
    with opened(*SEVERAL, **RANKS) as profile:
        for part, message in LACKING:
            with pytest.raises(UsageError, match=message) as caught:
                profile.report("processes", slice=Slice(**part))
            assert caught.value.hint


def test_a_direction_that_is_not_recorded_is_unknown() -> None:
    rows = (Memcpy(10, 20, direction=None), Memcpy(30, 40), Migration(50, 60, direction=None))
    assert ops(*rows, name="HtoD") == [30]
    assert ops(*rows, name="Unknown") == [10, 50]


IDLE_TOO = (*SEVERAL, Memcpy(70, 75, peer=2), Range(0, 9, "idle", pid=3, tid=31))
RANKS_TOO = {"ranks": {1: 4, 2: 5, 3: 6}}


@pytest.mark.parametrize(("rows", "part", "there_are"), [
    (SEVERAL, {"devices": (2,)}, "0, 1"), (SEVERAL, {"streams": (1,)}, "7, 8, 9"),
    (SEVERAL, {"processes": (9,)}, "1, 2"), (SEVERAL, {"threads": (9,)}, "11, 12, 21"),
    (SEVERAL, {"ranks": (9,), "options": RANKS}, "4, 5"), (SEVERAL, {"ranks": (9,)}, "none"),
    (IDLE_TOO, {"devices": (9,)}, "0, 1; without GPU work: 2"),
    (IDLE_TOO, {"threads": (9,)}, "11, 12, 21; without API calls: 31"),
    (IDLE_TOO, {"processes": (9,)}, "1, 2; without GPU work and API calls: 3"),
    (IDLE_TOO, {"ranks": (9,), "options": RANKS_TOO}, "4, 5; without GPU work and API calls: 6"),
])  # fmt: skip
def test_what_there_is_is_said_and_what_has_no_work_apart(
    rows: tuple[Row, ...], part: dict[str, Any], there_are: str
) -> None:
    assert refused(*rows, **part).hint == f"There are: {there_are}"


def test_operations_without_a_call_are_of_no_thread_and_counted() -> None:
    """The copy, the set and the graph have no call; the migration never has one."""
    with opened(*SEVERAL) as profile:
        for part, count in (({"threads": (11,)}, 3), ({"threads": (11,), "devices": (0,)}, 2),
                            ({"threads": (11,), "time": (75, 90)}, 1),
                            ({"range": "gemms", "projected": True}, 2)):  # fmt: skip
            report = profile.report("kernels", slice=Slice(**part))
            (note,) = [note for note in report.notes if note.slug == "unlinked-ops"]
            assert (note.count, "left out" in note.text) == (count, True)


@pytest.mark.parametrize(("part", "counts"), [
    ({}, {"unlinked-ops": 4, "op-before-call": 1, "graph-intervals": 1}),
    ({"time": (10, 100)}, {"unlinked-ops": 1}),
    ({"time": (100, 150)}, {"unlinked-ops": 2, "op-before-call": 1}),
])  # fmt: skip
def test_notes_count_in_the_slice(part: dict[str, Any], counts: dict[str, int]) -> None:
    rows = (Kernel(10, 20), Kernel(110, 120), Kernel(115, 130), Graph(200, 210), Call(118, 119, 3),
            Kernel(117, 118, 3))  # fmt: skip
    notes = asked("api_vs_kernel", *rows, part=Slice(**part)).notes
    assert {note.slug: note.count for note in notes} == counts


def test_notes_name_the_graphs_of_the_slice() -> None:
    with opened(Graph(10, 20, graph=5), Graph(30, 40, graph=6)) as profile:
        (note,) = profile.report("overview", slice=Slice((25, 40))).notes
        assert (note.slug, note.count) == ("graph-intervals", 1)
        assert note.text.startswith("graph launches (6) recorded")


def test_devices_and_streams_that_are_idle_in_the_slice_have_rows() -> None:
    rows: tuple[Row, ...] = (Kernel(10, 20, stream=7), Kernel(10, 20, stream=8), Kernel(50, 60, stream=7),
            Kernel(10, 20, device=1), Call(0, 100))  # fmt: skip
    part = Slice((30, 100))
    assert cells("overview device_id kernel_count idle_pct", *rows, part=part) == [
        (0, 1, 100 * 60 / 70), (1, 0, 100)]  # fmt: skip
    assert cells("idle_gaps device_id stream start_ns dur_ns", *rows, part=part, idle=("stream",)) == [
        (0, "8", 30, 70), (1, "7", 30, 70), (0, "7", 60, 40), (0, "7", 30, 20)]  # fmt: skip
    assert cells("overview device_id", *rows, part=Slice((30, 100), devices=(1,))) == [1]


test_reports_on_a_slice = hand_computed(
    # The call at 70 launches what runs at 120; [60, 90) holds it and nothing that runs.
    ("a call has its latency though its operation is outside",
     "api_vs_kernel call_count gpu_op_count launch_latency_avg_ns", EXAMPLE, [(1, 0, 50)],
     {"part": Slice((60, 90))}),
    # [110, 155): relu, launched before it, and the call for the copy, which comes after it.
    ("an operation counts though its call is outside",
     "api_vs_kernel name call_count kernel_count launch_latency_avg_ns", EXAMPLE,
     [("cudaLaunchKernel", 0, 1, None)], {"part": Slice((115, 155))}),
    ("steps are cut to a time", "steps step start_ns dur_ns kernel_ns", EXAMPLE,
     [("ProfilerStep#1", 100, 50, 30), ("ProfilerStep#2", 150, 50, 0)], {"part": Slice((100, 200))}),
    ("steps have the work of a name", "steps dur_ns kernel_ns", EXAMPLE,
     [(150, 30), (110, 50), (60, 0)], {"part": Slice(name="gemm")}),
    ("steps of a process that is not in the slice are not", "steps pid step dur_ns",
     (*STEPS, Range(50, 150, "r"), Range(0, 100, "ProfilerStep#1", tid=21, pid=2)),
     [(1, "ProfilerStep#1", 50), (1, "ProfilerStep#2", 50)], {"part": Slice(range="r")}),
    ("utilization by step has a row for a device that is idle in the slice",
     "gpu_utilization step window_start_ns window_ns kernel_graph_union_ns", EXAMPLE,
     [("ProfilerStep#2", 180, 25, 0)], {"part": Slice((180, 205)), "by": "step"}),
)  # fmt: skip


@pytest.mark.parametrize(("part", "did"), [
    (Slice(name="gemm"), [("cudaMalloc", 20), ("outer", 30)]),
    # No operation ends the gap: nobody waited for a host.
    (Slice((40, 55)), []), (Slice((40, 75)), [("cudaMalloc", 10), ("outer", 10)]),
])  # fmt: skip
def test_what_a_thread_does_is_told_with_all_that_it_does(
    part: Slice, did: list[tuple[str, int]]
) -> None:
    """Rows outside of a slice are still what the host did: a gap of gemms is filled with anything."""
    rows: tuple[Row, ...] = (
            Range(0, 100, "outer"), Kernel(0, 10, 1, name="gemm"), Call(30, 50, 9, name="cudaMalloc"),
            Call(60, 65, 2), Kernel(70, 80, 2, name="gemm"))  # fmt: skip
    assert sorted(cells("idle_host name host_sum_ns", *rows, part=part)) == did


def test_totals_tell_no_part_of_themselves() -> None:
    row = Total("kernel", 3, 30, name="k", device=0)
    holds = {Fact.KERNEL_TOTALS}
    assert cell("kernels kernel_count", row, holds=holds) == 3
    with pytest.raises(NotRecorded):
        cells("kernels", row, part=Slice((0, 10)), holds=holds)
    assert cell("processes gpu_op_count", row, part=Slice((0, 10)), holds=holds) is None


# -- tables


ROWS_OF: list[tuple[str, dict[str, Any], list[bool]]] = [
    ("kernel", {"time": (0, 12)}, [True, False, False]),
    ("kernel", {"streams": (8,)}, [False, True, False]),
    ("memcpy", {"devices": (1,)}, [True]),
    ("unified_memory_event", {"name": "UM"}, [True]),
    ("graph_launch", {"time": (0, 100)}, [False]),
    ("api_call", {"threads": (11,)}, [True, False, False]),
    ("api_call", {"name": "^cuL"}, [False, False, True]),
    ("sync", {"streams": (8,)}, [True]),
    ("sync", {"streams": (7,)}, [False]),
    ("sync", {"time": (0, 20)}, [False]),
    ("overhead", {"devices": (1,)}, [True]),
    ("overhead", {"processes": (2,)}, [False]),
    ("range", {"name": "gemm"}, [True, False]),
    ("range", {"time": (50, 60)}, [False, False]),
]  # fmt: skip


def test_rows_of_tables() -> None:
    with opened(*SEVERAL) as profile:
        for table, part, expected in ROWS_OF:
            found = cut(profile.timeline, **part)
            assert found.rows(table).tolist() == expected, (table, part)
            kept = found.columns(table, ("start_ns",))["start_ns"].tolist()
            whole = profile.timeline.columns(table, ("start_ns",))["start_ns"].tolist()
            assert kept == [start for start, inside in zip(whole, expected, strict=True) if inside]


def test_an_open_range_is_in_the_time_until_the_recording_ends() -> None:
    with opened(Range(10, None, "r"), recording_ns=100) as profile:
        assert cut(profile.timeline, time=(50, 60)).rows("range").tolist() == [True]


def test_what_a_device_waits_for_belongs_to_its_time() -> None:
    """Of a projected range [160, 260), not of the time in which the calls were made."""
    with opened(*EXAMPLE, Sync(120, 130), Sync(240, 250)) as profile:
        found = cut(profile.timeline, range="ProfilerStep#2", projected=True)
        assert found.rows("sync").tolist() == [False, True]


# -- one slice


def test_a_slice_that_is_all_of_it_is_the_same_time_line() -> None:
    with opened(*EXAMPLE) as profile:
        timeline = profile.timeline
        assert sliced(timeline, Slice()) is timeline
        assert sliced(timeline, Slice(step_range="x")) is timeline
        assert cut(timeline, devices=(0,)) is cut(timeline, devices=(0,)) is not timeline
        assert timeline.is_whole
        assert not cut(timeline, devices=(0,)).is_whole
        assert profile.report("overview").slice is None


def test_it_forgets_and_makes_again() -> None:
    with opened(*EXAMPLE) as profile:
        found = cut(profile.timeline, step="2")
        before = found.ops.start.tolist(), found.calls_in_slice.tolist(), found.rows("kernel").tolist()
        found.forget()
        large = {"ops", "called", "at_any_time", "ops_in_slice", "_at_any_time", "_named_ops"}
        assert not large & vars(found).keys()
        assert not {"ops", "calls", "owner"} & vars(profile.timeline).keys()
        after = found.ops.start.tolist(), found.calls_in_slice.tolist(), found.rows("kernel").tolist()
        assert after == before


# -- against a slow version

NAMES = ("gemm", "relu", "gemm_2")


@st.composite
def profiles(draw: st.DrawFn) -> list[Row]:
    """A few rows of two processes on two devices."""
    rows: list[Row] = []
    for _ in range(draw(st.integers(1, 12))):
        start = draw(st.one_of(st.none(), st.integers(1, 30)))
        end = None if start is None else start + draw(st.integers(0, 10))
        pid, stream = draw(st.sampled_from([1, 2])), draw(st.sampled_from([7, 8]))
        number, gpu = draw(st.integers(0, 6)), draw(st.sampled_from([0, 1]))
        kind = draw(st.sampled_from([Kernel, Kernel, Memcpy, Memset]))
        op: Op = kind(start, end, number, stream, pid, gpu)
        rows.append(
            op._replace(name=draw(st.sampled_from(NAMES))) if isinstance(op, Kernel) else op
        )
    for number in range(1, 7):
        start = draw(st.integers(1, 20))
        pid = draw(st.sampled_from([1, 2]))
        tid, name = pid * 10 + draw(st.integers(1, 2)), draw(st.sampled_from(["cudaA", "cudaB"]))
        rows.append(
            Call(start, start + draw(st.integers(0, 10)), number, tid=tid, pid=pid, name=name)
        )
    return rows


@st.composite
def parts(draw: st.DrawFn) -> Slice:
    def some(*numbers: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.sampled_from(numbers), max_size=1)))

    low = draw(st.integers(-2, 30))
    return Slice(
        time=draw(st.sampled_from([None, (low, low + draw(st.integers(1, 15)))])),
        devices=some(0, 1), streams=some(7, 8), processes=some(1, 2), threads=some(11, 12, 21),
        name=draw(st.sampled_from([None, None, "gemm", "2$", "cuda", "memcpy", "A|m"])),
    )  # fmt: skip


def in_part(slow: Slow, row: Any, part: Slice) -> bool:
    """Whether a row belongs to a slice, by the definition."""
    call = row if isinstance(row, Call) else slow.owner(row)
    label = row.name if isinstance(row, Kernel | Call) else (
        "[memcpy HtoD]" if isinstance(row, Memcpy) else "[memset]")  # fmt: skip
    if part.time is not None:
        low, high = part.time
        if row.start is None or not row.start < high:
            return False
        if not (row.end > low or row.start == row.end >= low):
            return False
    on_gpu = not isinstance(row, Call)
    return not (
        (part.devices and on_gpu and row.device not in part.devices)
        or (part.streams and on_gpu and row.stream not in part.streams)
        or (part.processes and row.pid not in part.processes)
        or (part.threads and (call is None or call.tid not in part.threads))
        or (part.name is not None and not re.search(part.name, label))
    )  # fmt: skip


@examples(150)
@given(profiles(), parts())
def test_counts_sums_and_bytes_of_random_slices(rows: list[Row], part: Slice) -> None:
    """Row by row."""
    slow = Slow(rows)
    mine: list[Any] = [row for row in rows if in_part(slow, row, part)]
    kernels: Counter[Any] = Counter()
    copied: Counter[Any] = Counter()
    called: Counter[Any] = Counter()
    launched: Counter[Any] = Counter()
    for row in mine:
        spent = 0 if row.start is None else row.end - row.start
        if isinstance(row, Kernel):
            kernels.update(
                {(row.device, row.name, "count"): 1, (row.device, row.name, "ns"): spent}
            )
        elif isinstance(row, Memcpy):
            copied.update({(row.device, "count"): 1, (row.device, "bytes"): row.bytes or 0})
        elif isinstance(row, Call):
            called.update({(row.name, "count"): 1, (row.name, "ns"): spent})
        if not isinstance(row, Call):
            owner = slow.owner(row)
            launched[owner.name if owner else "[no API call]"] += 1
    with opened(*rows) as profile:

        def found(report: str, keys: tuple[str, ...], values: dict[str, str]) -> Counter[Any]:
            try:
                told = profile.report(report, slice=part, split="device").rows()
            except UsageError as error:
                # Not all random profiles have everything, in this order of the checks.
                nothing_then = error.what.startswith("the slice is empty") and not mine
                assert nothing_then or re.search(r"no (device|stream|process|thread) ", error.what)
                return Counter({None: -1})
            return Counter({(*(row[key] for key in keys), short): row[name] or 0
                            for row in told for name, short in values.items()})  # fmt: skip

        answer = found(
            "kernels", ("device_id", "name"), {"kernel_count": "count", "kernel_sum_ns": "ns"}
        )
        if None in answer:
            return
        assert answer == kernels
        answer = found("transfers", ("device_id",), {"memcpy_count": "count", "bytes_sum": "bytes"})
        assert answer == copied
        calls = profile.report("api_vs_kernel", slice=part).rows()
        assert Counter({row["name"]: row["gpu_op_count"] for row in calls}) == launched
        assert +Counter({(row["name"], short): row[name] or 0 for row in calls for name, short in
                         (("call_count", "count"), ("api_sum_ns", "ns"))}) == +called  # fmt: skip
        counted = [(row["kernel_count"], row["memcpy_count"], row["memset_count"])
                   for row in profile.report("overview", slice=part).rows()]  # fmt: skip
        assert [sum(column) for column in zip(*counted, strict=True)] == [
            sum(isinstance(row, kind) for row in mine) for kind in (Kernel, Memcpy, Memset)
        ] or not counted  # fmt: skip


EVERYTHING = [Slice(name=""), Slice(processes=(1, 2)), Slice(devices=(0, 1)), Slice(streams=(7, 8))]


@examples(20)
@given(profiles(), st.sampled_from(EVERYTHING))
def test_a_slice_that_holds_everything_is_the_whole(rows: list[Row], part: Slice) -> None:
    """Every report, to the last value."""
    present = (Kernel(0, 1, 0, 7), Kernel(0, 1, 0, 8, 2, 1), Range(0, 5, "r"))
    with opened(*rows, *present) as profile:
        for whole, part_of_it in zip(
            profile.reports(limit=0), profile.reports(limit=0, slice=part), strict=True
        ):
            assert part_of_it.rows() == whole.rows(), whole.name
            assert part_of_it.notes == whole.notes
