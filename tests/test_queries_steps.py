"""Steps, and what each instant of them went to, by hand."""

from __future__ import annotations

from typing import Any

import pytest
from small_store import (
    Call,
    Graph,
    Kernel,
    Memcpy,
    Memset,
    Migration,
    Operator,
    Range,
    Row,
    answers,
    asked,
    hand_computed,
    opened,
    step,
)

from nsysconv.api import Slice
from nsysconv.errors import NotRecorded, UsageError
from nsysconv.facts import Fact
from nsysconv.timeline.steps import waits_for_input

CLASSES = ("kernel", "memcpy", "memset", "communication", "runtime", "data_loader", "cpu", "other")
WHOLE = "[whole profile]"
BETWEEN = "[between steps]"


def spans(*rows: Row, **options: Any) -> list[tuple[str, int, int]]:
    """Name, start and end of each step."""
    return [(row["step"], row["start_ns"], row["start_ns"] + row["dur_ns"])
            for row in answers("steps", *rows, **options)]  # fmt: skip


def classes(*rows: Row, end: int = 130, **options: Any) -> dict[str, int]:
    """The classes, other than those of 0 ns, of the step [0, end)."""
    (row,) = answers("steps", step(1, 0, end), *rows, **options)
    assert sum(row[f"{name}_ns"] or 0 for name in CLASSES) == row["dur_ns"]
    return {name: row[f"{name}_ns"] for name in CLASSES if row[f"{name}_ns"]}


# -- steps


TWO = (step(1, 0, 100), step(2, 100, 180))


def test_the_last_of_many_operations_of_a_call_counts() -> None:
    rows = (Call(50, 60, 1), Kernel(110, 150, 1), Kernel(70, 80, 1))
    assert spans(*TWO, *rows)[0] == ("ProfilerStep#1", 0, 150)


def test_steps_may_lie_apart() -> None:
    assert spans(step(1, 0, 50), step(2, 80, 90))[1] == ("ProfilerStep#2", 80, 90)


# Process 1: steps [0, 40) [50, 90) [120, 160). Between them [40, 50) and [90, 120), of which a kernel has
# [95, 110) and an operator [40, 45). Process 2: steps [0, 30) [30, 60), and nothing between.
APART = (step(1, 0, 40), step(2, 50, 90), step(3, 120, 160),
         step(1, 0, 30, pid=2), step(2, 30, 60, pid=2),
         Operator(35, 45, "load"), Kernel(95, 110), Kernel(60, 70), Kernel(40, 50, pid=2))  # fmt: skip


def of_process(pid: int, **options: Any) -> list[tuple[str, int | None, int, int, int, int]]:
    """Step, occurrence, start, duration, time of kernels and of the CPU."""
    names = ("step", "occurrence", "start_ns", "dur_ns", "kernel_ns", "cpu_ns")
    return [tuple(row[name] for name in names) for row in answers("steps", *APART, **options)
            if row["pid"] == pid]  # fmt: skip


def test_time_between_steps_is_a_row_of_the_process() -> None:
    assert of_process(1) == [
        ("ProfilerStep#1", 1, 0, 40, 0, 5), ("ProfilerStep#2", 1, 50, 40, 10, 0),
        ("ProfilerStep#3", 1, 120, 40, 0, 0), (BETWEEN, None, 40, 10 + 30, 15, 5)]  # fmt: skip
    assert [row[0] for row in of_process(2)] == ["ProfilerStep#1", "ProfilerStep#2"]


def test_rows_of_a_process_add_up_to_the_extent_of_its_steps() -> None:
    assert sum(row[3] for row in of_process(1)) == 160 - 0
    (between,) = [row for row in answers("steps", *APART) if row["step"] == BETWEEN]
    assert sum(between[f"{name}_ns"] for name in CLASSES) == between["dur_ns"]


def test_the_time_between_the_steps_of_a_slice() -> None:
    """[20, 100) cuts the first step, and lies between the second and the third."""
    assert of_process(1, time=(20, 100)) == [
        ("ProfilerStep#1", 1, 20, 20, 0, 5), ("ProfilerStep#2", 1, 50, 40, 10, 0),
        (BETWEEN, None, 40, 10, 0, 5)]  # fmt: skip
    assert BETWEEN not in [row[0] for row in of_process(1, part=Slice(step="2"))]


def test_time_between_steps_cannot_be_chosen_as_a_step() -> None:
    with pytest.raises(UsageError, match="between"):
        answers("steps", *APART, part=Slice(step=BETWEEN))


def test_by_step_the_time_between_them_has_no_utilization() -> None:
    rows = answers("gpu_utilization", *APART, by="step")
    assert BETWEEN not in {row["step"] for row in rows}


NAMED = (Range(0, 40, "epoch 1"), Range(0, 10, "batch"), Range(20, 30, "batch"),
         Range(50, 90, "epoch 2", "start_end"))  # fmt: skip


def test_any_range_may_be_a_step() -> None:
    assert spans(*NAMED, step_range="batch") == [("batch", 0, 10), ("batch", 20, 30), (BETWEEN, 10, 20)]
    assert spans(*NAMED, step_range="epoch *")[:2] == [("epoch 1", 0, 40), ("epoch 2", 50, 90)]
    occurrences = [row["occurrence"] for row in answers("steps", *NAMED, step_range="batch")]
    assert occurrences == [1, 2, None]


def test_unknown_range_name_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UsageError, match=r"'batches'\nDid you mean batch\? There are: batch, epoch 1,"):
        spans(*NAMED, step_range="batches")


def test_a_name_where_no_names_were_recorded() -> None:
    with pytest.raises(NotRecorded):
        spans(Kernel(0, 10), step_range="x", without=(Fact.RANGES, Fact.OPERATORS))


test_steps_by_hand = hand_computed(
    # Work launched in step 1 runs until 130: there step 2 begins.
    ("the example of the documentation", spans,
     (*TWO, Call(20, 25, 1), Kernel(30, 130, 1), Call(170, 175, 2), Kernel(180, 200, 2)),
     [("ProfilerStep#1", 0, 130), ("ProfilerStep#2", 130, 200)]),
    ("operations of any thread of the process count and those of others do not", spans,
     (*TWO, Call(50, 60, 1, tid=12), Kernel(70, 120, 1), Call(50, 60, 1, pid=2),
      Kernel(70, 170, 1, pid=2)), [("ProfilerStep#1", 0, 120), ("ProfilerStep#2", 120, 180)]),
    ("a call at the border belongs to the step that begins there", spans,
     (*TWO, Call(100, 110, 1), Kernel(110, 190, 1)),
     [("ProfilerStep#1", 0, 100), ("ProfilerStep#2", 100, 190)]),
    ("an operation without a call or without a time moves nothing", spans,
     (*TWO, Kernel(90, 150), Call(50, 60, 1), Kernel(None, None, 1)),
     [("ProfilerStep#1", 0, 100), ("ProfilerStep#2", 100, 180)]),
    ("a step may be swallowed by the one before", spans,
     (*TWO, Call(50, 60, 1), Kernel(70, 300, 1), step(3, 180, 400)),
     [("ProfilerStep#1", 0, 300), ("ProfilerStep#2", 300, 300), ("ProfilerStep#3", 300, 400)]),
    ("processes have steps of their own", "steps pid rank step start_ns dur_ns",
     (*TWO, step(1, 50, 70, pid=2)),
     [(1, 4, "ProfilerStep#1", 0, 100), (1, 4, "ProfilerStep#2", 100, 80),
      (2, None, "ProfilerStep#1", 50, 20)], {"ranks": {1: 4}}),
    # Old traces have all annotations among the operators.
    ("steps may be operators and marks are none", spans,
     (Operator(10, 30, "ProfilerStep#1"), Range(30, None, "ProfilerStep#2", "mark"),
      Operator(40, 50, "ProfilerStep#3", "python_function")), [("ProfilerStep#1", 10, 30)]),
    ("nothing but the star is special in a name", spans,
     (Range(0, 40, "a.c [1]"), Range(50, 60, "abc [1]"), Range(70, 80, "a.c 1")), [("a.c [1]", 0, 40)],
     {"step_range": "a.c [1]"}),
    # From the copy to the range; the migration is left out.
    ("whole process is one step without annotated steps", "steps pid step start_ns dur_ns",
     (Migration(0, 5), Memcpy(10, 20), Call(30, 40), Range(50, 70, "r"), Operator(45, 60, "o"),
      Operator(1, None, "without an end"), Kernel(15, 90, pid=2)),
     [(1, WHOLE, 10, 60), (2, WHOLE, 15, 75)]),
    ("empty profile has no steps", "steps", (), []),
    ("a slice cuts steps", "steps step start_ns dur_ns kernel_ns",
     (*TWO, step(3, 300, 400), Kernel(20, 60)),
     [("ProfilerStep#1", 50, 50, 10), ("ProfilerStep#2", 100, 50, 0)], {"time": (50, 150)}),
)


# -- classes


@pytest.mark.parametrize("name", [
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "ncclKernel_Broadcast", "rcclGenericKernel",
    "nvshmemi_barrier", "void mscclpp::allreduce<int>()",
])  # fmt: skip
def test_kernels_that_communicate(name: str) -> None:
    assert classes(Kernel(0, 40, name=name), Kernel(30, 50)) == {
        "kernel": 20, "communication": 30, "other": 80}  # fmt: skip


@pytest.mark.parametrize(("name", "found"), [
    ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "data_loader"),
    ("enumerate(DataPipe)#Mapper", "data_loader"), ("enumerate(DataLoader)#x", "cpu"),
    ("my enumerate(DataPipe)#Mapper", "cpu"),
])  # fmt: skip
def test_data_loader_is_recognised_by_its_name(name: str, found: str) -> None:
    assert classes(Range(0, 30, name)) == {found: 30, "other": 100}
    assert classes(Operator(0, 30, name)) == {found: 30, "other": 100}


def test_all_threads_and_devices_of_the_process_count_and_no_others() -> None:
    rows = (Kernel(0, 10), Kernel(20, 30, device=1), Call(40, 50, tid=12), Operator(60, 70, "o", tid=13),
            Kernel(80, 90, pid=2), Call(80, 90, pid=2), Range(80, 90, "r", pid=2))  # fmt: skip
    found = [row for row in answers("steps", step(1, 0, 130), *rows) if row["pid"] == 1]
    assert [{name: row[f"{name}_ns"] for name in CLASSES if row[f"{name}_ns"]} for row in found] == [
        {"kernel": 20, "runtime": 10, "cpu": 10, "other": 90}]  # fmt: skip


@pytest.mark.parametrize(("without", "null"), [
    ((Fact.KERNELS,), ["kernel"]), ((Fact.MEMCPYS,), ["memcpy"]), ((Fact.MEMSETS,), ["memset"]),
    ((Fact.API_CALLS,), ["runtime"]), ((Fact.OPERATORS,), []),
])  # fmt: skip
def test_a_class_that_was_not_recorded_is_null_and_no_zero(
    without: tuple[Fact, ...], null: list[str]
) -> None:
    (row,) = answers("steps", step(1, 0, 130), without=without)
    assert [name for name in CLASSES if row[f"{name}_ns"] is None] == null


def test_without_ranges_and_operators_work_of_the_cpu_is_not_recorded() -> None:
    (row,) = answers("steps", Call(0, 10), without=(Fact.RANGES, Fact.OPERATORS))
    assert [row[f"{name}_ns"] for name in ("runtime", "data_loader", "cpu")] == [10, None, None]


def test_clocks_that_disagree_leave_steps_as_annotated_and_no_classes() -> None:
    rows = (step(1, 0, 100), Call(10, 20, 1), Kernel(9 * 10**9, 10**10, 1))
    report = asked("steps", *rows)
    (row,) = report.rows()
    assert (row["start_ns"], row["dur_ns"]) == (0, 100)
    assert {row[f"{name}_ns"] for name in CLASSES} == {None}
    assert "clocks-disagree" in {note.slug for note in report.notes}


test_classes_by_hand = hand_computed(
    # Kernels 70, copies 30 of which 10 under a kernel, calls 60 of which 40 under those.
    ("the classes of the documentation", classes, (Kernel(10, 80), Memcpy(70, 100), Call(60, 120)),
     {"kernel": 70, "memcpy": 30 - 10, "runtime": 60 - 40, "other": 130 - 110}),
    # All begin at 0 and the class that goes first ends first: each keeps 10 ns.
    ("every class goes before those after it", classes,
     (Kernel(0, 10), Memcpy(0, 20), Memset(0, 30), Kernel(0, 40, name="ncclDevKernel_Sum"), Call(0, 50),
      Operator(0, 60, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
      Operator(0, 70, "aten::mm")), dict.fromkeys(CLASSES, 10), {"end": 80}),
    ("gloo communicates on the cpu and the call of nccl does not", classes,
     (Operator(0, 10, "gloo:all_reduce"), Range(20, 40, "nccl:all_reduce")),
     {"communication": 10, "cpu": 20, "other": 100}),
    ("a graph recorded as one interval is kernels", classes, (Graph(0, 30),),
     {"kernel": 30, "other": 100}),
    ("migrations and python functions are in no class", classes,
     (Migration(0, 30), Operator(40, 60, "f", "python_function")), {"other": 130}),
    ("driver calls are runtime too", classes, (Call(0, 30, layer="driver"), Call(10, 40)),
     {"runtime": 40, "other": 90}),
    ("steps are no activity even if other steps are asked for", "steps cpu_ns other_ns",
     (Range(0, 100, "epoch"), step(1, 0, 50), Operator(50, 90, "ProfilerStep#2"), Range(10, 20, "load")),
     [(10, 90)], {"step_range": "epoch"}),
    ("a range that was never closed is work until the recording ends", classes,
     (Range(100, None, "open"),), {"cpu": 20, "other": 110}, {"recording_ns": 120}),
    ("clocks that disagree leave gpu time out of the whole", spans,
     (Call(10, 20, 1), Kernel(9 * 10**9, 10**10, 1)), [(WHOLE, 10, 20)]),
)


@pytest.mark.parametrize("name", [
    "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
    "enumerate(DataPipe)#Mapper",
    "torch/utils/data/dataloader.py(628): __next__",
    "[pl][profile][_TrainingEpochLoop].train_dataloader_next",
    "[pl][profile][_EvaluationLoop].val_next",
    "[pl][profile][_PredictionLoop].predict_next",
    "IteratorGetNext", "IteratorGetNextSync", "Iterator::Root::Prefetch", "IteratorV2::Model",
    "DataIter.next", "DataIterImpl.next",
][:11])  # fmt: skip
def test_names_of_waits_for_input(name: str) -> None:
    assert waits_for_input(name)


@pytest.mark.parametrize("name", [
    "next", "step_next", "interval_next", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__init__",
    "MyIterator", "DataIter.reset", "my/dataloader.py(12): __next__", "val_nexts",
])  # fmt: skip
def test_names_that_are_no_waits_for_input(name: str) -> None:
    assert not waits_for_input(name)


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"step_range": "typo"}, "nothing is per step: no range is called typo"),
        ({"step_kernel": "typo"}, "nothing is per step: fewer than two kernels match 'typo'"),
        ({"step_range": "epoch *"}, None),
        ({"step_range": "epoch *", "time": "20ns:30ns"}, None),
        ({}, None),
    ],
)
def test_what_is_asked_for_as_steps_and_is_not_there_is_a_note(
    how: dict[str, Any], text: str | None
) -> None:
    rows = Range(0, 10, "epoch 1"), Range(10, 20, "epoch 2"), Kernel(0, 40)
    with opened(*rows) as profile:
        notes = profile.report("kernels", **how).notes
    assert [note.text for note in notes if note.slug == "steps-not-found"] == [text] * bool(text)
