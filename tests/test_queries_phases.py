"""Phases and their steps: by hand, against the account of `summary`, slowly, and of several sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import REAL, real
from diff_workloads import SOURCES
from hypothesis import given
from hypothesis import strategies as st
from serving_workload import SERVING
from small_store import (
    Call,
    Kernel,
    Memcpy,
    Operator,
    Range,
    Row,
    answers,
    asked,
    cell,
    cells,
    only,
    opened,
    write,
)
from test_timeline_account import profiles

from nsysconv import api
from nsysconv.api import Slice
from nsysconv.codes import TIME_CLASS_COLUMNS
from nsysconv.errors import NotRecorded, UsageError
from nsysconv.facts import Fact
from nsysconv.timeline.phase_steps import OUTSIDE, phase_names, phase_steps

Rows = list[dict[str, Any]]


def classes(row: dict[str, Any]) -> dict[str, int]:
    """The classes of a row that have some time; they add up to it."""
    found = {name: row[column] for name, column in TIME_CLASS_COLUMNS.items() if row[column]}
    assert sum(found.values()) == row["span_ns"]
    return found


def by_phase(*rows: Row, **options: Any) -> dict[str, dict[str, Any]]:
    return {row["phase"]: row for row in answers("phases", *rows, **options)}


def steps(*rows: Row, **options: Any) -> list[tuple[str, int, int]]:
    """Phase, start and end of each step."""
    return [(row["phase"], row["start_ns"], row["start_ns"] + row["dur_ns"])
            for row in answers("phase_steps", *rows, **options)]  # fmt: skip


def assert_is_the_account_of_summary(phases: Rows, summary: Rows) -> None:
    """All phases of a device and what is outside add up to its account, class by class."""
    assert {row["device_id"] for row in phases} == {row["device_id"] for row in summary}
    for whole in summary:
        mine = [row for row in phases if row["device_id"] == whole["device_id"]]
        assert [row["phase"] for row in mine].count(OUTSIDE) == 1
        assert mine[-1]["phase"] == OUTSIDE
        for column in ("span_ns", "busy_ns", *TIME_CLASS_COLUMNS.values()):
            values = [row[column] for row in mine]
            assert None in values or all(type(value) is int for value in values)
            added = None if None in values else sum(values)
            assert added == whole[column], (column, values)


# -- by hand: the example of the documentation

EXAMPLE = (
    Range(0, 40, "step[EXTEND bs=2 toks=100]"), Call(5, 10, 1), Kernel(20, 60, 1, name="gemm"),
    Range(50, 80, "step[DECODE bs=4]"), Call(55, 58, 2), Kernel(70, 90, 2, name="fmha_attention"),
    Range(100, 120, "step[DECODE bs=4]"), Call(102, 104, 3), Kernel(106, 130, 3, name="gemm"),
    Call(105, 108, 4), Kernel(130, 140, 4, name="gemm"),
    Call(150, 152, 5, name="cudaMemcpyAsync"), Memcpy(155, 160, 5),
)  # fmt: skip


def test_steps_last_to_the_end_of_what_they_launched() -> None:
    assert steps(*EXAMPLE) == [("prefill", 0, 60), ("decode", 60, 90), ("decode", 100, 140)]
    rows = answers("phase_steps", *EXAMPLE)
    assert [(row["step"], row["occurrence"]) for row in rows] == [
        ("step[EXTEND bs=2 toks=100]", 1), ("step[DECODE bs=4]", 1),
        ("step[DECODE bs=4]", 2)]  # fmt: skip
    assert [(row["request_count"], row["token_count"]) for row in rows] == [(2, 100), (4, 4), (4, 4)]
    # Kernels [20, 60), [70, 90), [106, 140).
    assert [row["busy_ns"] for row in rows] == [60 - 20, 90 - 70, 140 - 106]
    assert [row["busy_pct"] for row in rows] == pytest.approx([100 * 40 / 60, 100 * 20 / 30, 85])
    assert [row["launch_count"] for row in rows] == [1, 1, 2]


def test_the_account_of_each_phase() -> None:
    """The recording is [0, 160); steps [0, 60), [60, 90), [100, 140)."""
    found = by_phase(*EXAMPLE)
    assert list(found) == ["decode", "prefill", OUTSIDE]
    assert classes(found["prefill"]) == {"before": 20, "computation": 40}
    # [60, 70) is queued, as the call ended at 58; [100, 106): call from 102 to 104.
    assert classes(found["decode"]) == {
        "computation": 20 + 34, "idle_host": 2, "idle_launch": 2, "idle_queue": 10 + 2}  # fmt: skip
    # [90, 100), and [140, 160): call from 150 to 152, copy from 155.
    assert classes(found[OUTSIDE]) == {
        "memcpy": 5, "idle_host": 10 + 10, "idle_launch": 2, "idle_queue": 3}  # fmt: skip
    assert [row["span_ns"] for row in found.values()] == [30 + 40, 60, 10 + 20]
    assert [row["busy_ns"] for row in found.values()] == [54, 40, 5]
    assert [row["busy_pct"] for row in found.values()] == pytest.approx(
        [100 * 54 / 70, 100 * 40 / 60, 100 * 5 / 30])  # fmt: skip
    assert_is_the_account_of_summary([*found.values()], answers("summary", *EXAMPLE))


def test_figures_of_the_steps() -> None:
    found = by_phase(*EXAMPLE)
    decode, prefill, outside = found["decode"], found["prefill"], found[OUTSIDE]
    assert (decode["step_count"], prefill["step_count"], outside["step_count"]) == (2, 1, None)
    assert (decode["request_count"], decode["token_count"]) == (4 + 4, 4 + 4)
    assert (decode["requests_per_step"], decode["tokens_per_step"]) == (4.0, 4.0)
    # Steps of 30 and 40 ns.
    assert decode["step_p50_ns"] == (30 + 40) / 2
    assert decode["step_p99_ns"] == pytest.approx(30 + 0.99 * (40 - 30))
    assert decode["tokens_per_s"] == pytest.approx(8 / 70e-9)
    assert prefill["tokens_per_s"] == pytest.approx(100 / 60e-9)
    assert (decode["launch_count"], decode["launches_per_step"]) == (1 + 2, 1.5)
    assert (outside["launch_count"], outside["launches_per_step"]) == (1, None)


def test_kinds_of_kernels() -> None:
    """Of 54 ns in decode, 24 + 10 are gemm and 20 attention."""
    found = by_phase(*EXAMPLE)
    assert found["decode"]["kernel_kinds"] == "gemm 63 %, attention 37 %"
    assert found["prefill"]["kernel_kinds"] == "gemm 100 %"
    assert found[OUTSIDE]["kernel_kinds"] is None


def test_mixed_steps() -> None:
    found = by_phase(
        Range(0, 10, "execute_3_context_1(sq7sk7sqsq49sqsk49)_generation_2(sq2sk9sqsq2sqsk9)"),
        Call(1, 2, 1), Kernel(3, 20, 1),
    )  # fmt: skip
    row = found["mixed"]
    assert (row["step_count"], row["request_count"], row["token_count"]) == (1, 1 + 2, 7 + 2)


# -- which annotations are steps


def test_of_annotations_inside_others_the_outermost_is_the_step() -> None:
    inner = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk9sqsq32sqsk9)"
    rows = (Operator(0, 50, "step[DECODE bs=4]"), Operator(10, 40, inner, tid=12),
            Operator(60, 90, inner), Kernel(5, 6))  # fmt: skip
    assert cells("phase_steps step occurrence token_count", *rows) == [("step[DECODE bs=4]", 1, 4),
                                                                       (inner, 1, 32)]  # fmt: skip
    # Another process counts for itself.
    other = (*rows, Operator(10, 40, inner, pid=2))
    assert len(answers("phase_steps", *other)) == 3


def test_steps_go_before_phases_of_steps_and_these_before_steps_of_a_training() -> None:
    kernel, inference = Kernel(5, 6), Range(0, 10, "step[DECODE bs=4]")
    phase, training = Range(20, 30, "forward"), Range(15, 45, "train 3")
    assert steps(kernel, training, phase, inference) == [("decode", 0, 10)]
    assert steps(kernel, training, phase) == [("forward", 20, 30)]
    assert steps(kernel, training) == [("train", 15, 45)]


def test_phases_inside_others() -> None:
    """As PyTorch Lightning has it: the optimizer's step computes forward and backward, then works."""
    pl = "[pl][profile][Strategy]DDP."
    rows = (Range(0, 100, f"{pl}optimizer_step"), Range(5, 95, "Optimizer.step#Adam.step"),
            Range(10, 40, f"{pl}training_step"), Range(40, 80, f"{pl}backward"),
            Call(12, 13, 1), Kernel(20, 50, 1), Call(85, 86, 2), Kernel(90, 97, 2),
            Range(50, 60, "enumerate(DataLoader)#x.__next__", tid=12))  # fmt: skip
    # Forward's kernel ends at 50; what another thread loads is not of the optimizer's step, but in time.
    assert steps(*rows) == [
        ("forward", 10, 50), ("backward", 50, 80), ("data", 80, 80), ("optimizer", 80, 100)]  # fmt: skip
    assert [row["launch_count"] for row in answers("phase_steps", *rows)] == [1, 0, 0, 1]


def test_phases_that_cross_are_both_there() -> None:
    rows = (Range(0, 50, "forward", "start_end"), Range(30, 80, "forward", "start_end"), Kernel(5, 6))
    assert steps(*rows) == [("forward", 0, 50), ("forward", 50, 80)]


def test_rates_are_of_the_steps_whose_tokens_are_known() -> None:
    """Of 10 and 40 ns, the first has 2 + 3 tokens and the second does not say."""
    said = "step[MIXED bs=4 c=1 g=3 c_sq=2 c_sk=2 c_sqsq=4 c_sqsk=4 g_sq=3 g_sk=9 g_sqsq=3 g_sqsk=9]"
    row = by_phase(Range(0, 10, said), Range(10, 50, "step[MIXED bs=6]"), Kernel(5, 6))["mixed"]
    assert (row["step_count"], row["request_count"], row["token_count"]) == (2, 4 + 6, 2 + 3)
    assert (row["requests_per_step"], row["tokens_per_step"]) == (5.0, 5.0)
    assert row["tokens_per_s"] == pytest.approx(5 / 10e-9)


def test_where_no_annotation_is_known_the_answer_says_which_are() -> None:
    with pytest.raises(NotRecorded) as caught:
        answers("phases", Range(0, 10, "epoch"), Kernel(0, 10))
    assert caught.value.brief == (
        "phases: not recorded in this profile: annotations that name steps or phases")  # fmt: skip
    assert "vLLM, SGLang, TensorRT-LLM" in caught.value.hint
    assert "--grammar FILE" in caught.value.hint
    with pytest.raises(NotRecorded, match="phase_steps: not recorded"):
        answers("phase_steps", Range(0, 10, "epoch"), Kernel(0, 10))


def test_rules_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[[rule]]\nframework = 'm'\nis = 'step'\nphase = 'all'\npattern = '^epoch$'\n")
    with opened(Range(0, 10, "epoch"), Kernel(0, 10)) as profile:
        rows = profile.report("phases", grammar=str(path)).rows()
        assert [row["phase"] for row in rows] == ["all", OUTSIDE]
        with pytest.raises(UsageError, match="cannot be read"):
            profile.report("phases", grammar="/nowhere/mine.toml")


def test_a_phase_with_the_name_of_the_rest_is_of_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    rule = "[[rule]]\nframework = 'm'\nis = 'step'\nphase = '{}'\npattern = '^{}$'\n"
    path.write_text(rule.format(OUTSIDE, "epoch") + rule.format("all", "batch"))
    with opened(Range(0, 10, "epoch"), Range(20, 30, "batch"), Kernel(0, 30)) as profile:
        rows = profile.report("phases", grammar=str(path)).rows()
        summary = profile.report("summary").rows()
    assert [row["phase"] for row in rows] == ["all", OUTSIDE]
    assert_is_the_account_of_summary(rows, summary)


def test_rules_of_a_file_decide_inside_and_around_what_we_know(tmp_path: Path) -> None:
    """Ours at [0, 40) holds and [50, 60) lies in one of the file's; [70, 80) has none of these."""
    path = tmp_path / "mine.toml"
    path.write_text("[[rule]]\nframework = 'm'\nis = 'step'\nphase = 'mine'\npattern = '^batch'\n")
    ours = [Range(*each, "step[DECODE bs=2]") for each in ((0, 40), (50, 60), (70, 80))]
    users = Range(10, 30, "batch 1"), Range(15, 20, "batch 1.1"), Range(45, 65, "batch 2")
    assert cells("phase_steps step phase start_ns", *ours, *users, Kernel(0, 10),
                 grammar=str(path)) == [("batch 1", "mine", 10), ("batch 2", "mine", 45),
                                        ("step[DECODE bs=2]", "decode", 70)]  # fmt: skip


# -- what is not recorded


def test_without_links_launches_are_not_recorded() -> None:
    found = by_phase(Range(0, 10, "forward"), Kernel(2, 6), without={Fact.API_LINKS})
    assert (found["forward"]["launch_count"], found["forward"]["launches_per_step"]) == (None, None)
    assert found["forward"]["kernel_kinds"] == "other 100 %"  # as it ran then
    assert found[OUTSIDE]["kernel_kinds"] is None
    (row,) = answers("phase_steps", Range(0, 10, "forward"), Kernel(2, 6), without={Fact.API_LINKS})
    assert row["launch_count"] is None


def test_classes_that_are_not_recorded_are_null_as_in_summary() -> None:
    rows, without = (Range(0, 10, "forward"), Kernel(2, 6)), {Fact.UNIFIED_MEMORY}
    assert by_phase(*rows, without=without)["forward"]["exposed_um_ns"] is None
    found = answers("phases", *rows, without=without)
    assert_is_the_account_of_summary(found, answers("summary", *rows, without=without))


def test_where_clocks_disagree_there_is_no_account() -> None:
    far = 10**12
    rows = (Range(0, 10, "forward"), Call(1, 2, 1), Kernel(far, far + 5, 1))
    with pytest.raises(NotRecorded, match="one clock"):
        answers("phases", *rows)
    assert cell("phase_steps dur_ns busy_ns launch_count", *rows) == (10, None, 1)


# -- slices, devices, processes


def test_a_slice_cuts_the_account_and_counts_whole_steps() -> None:
    """[70, 150): of the first decode 20 ns, which is no whole step; the second whole."""
    found = by_phase(*EXAMPLE, time=(70, 150))
    assert (found["decode"]["span_ns"], found["decode"]["step_count"]) == (20 + 40, 1)
    assert (found["decode"]["token_count"], found["decode"]["step_p50_ns"]) == (4, 40)
    assert found[OUTSIDE]["span_ns"] == 10 + 10
    assert "prefill" not in found
    assert_is_the_account_of_summary(
        [*found.values()], answers("summary", *EXAMPLE, time=(70, 150)))  # fmt: skip
    assert steps(*EXAMPLE, time=(70, 150)) == [("decode", 70, 90), ("decode", 100, 140)]


def test_processes_and_devices() -> None:
    """A device is shared by two processes: time of both is that of the step that began first."""
    rows = (Range(0, 50, "prefill"), Range(30, 80, "decode", pid=2), Kernel(10, 20),
            Kernel(40, 60, pid=2), Kernel(0, 100, device=1))  # fmt: skip
    found = {(row["device_id"], row["phase"]): row for row in answers("phases", *rows)}
    assert found[0, "prefill"]["span_ns"] == 50
    assert found[0, "decode"]["span_ns"] == 80 - 50
    assert found[1, "prefill"]["span_ns"] == 50
    assert (1, "decode") not in found
    assert_is_the_account_of_summary([*found.values()], answers("summary", *rows))
    (alone,) = answers("phase_steps", *rows, part=Slice(processes=(2,)))
    assert (alone["pid"], alone["phase"], alone["busy_ns"]) == (2, "decode", 60 - 40)


def test_launches_are_of_their_process_and_device() -> None:
    rows = (Range(0, 50, "prefill"), Call(5, 6, 1), Kernel(10, 20, 1), Call(7, 8, 2),
            Kernel(20, 30, 2, device=1), Range(0, 50, "decode", pid=2), Call(5, 6, 1, pid=2),
            Kernel(10, 25, 1, pid=2, device=1, name="gemm"))  # fmt: skip
    found = {(row["device_id"], row["phase"]): row for row in answers("phases", *rows)}
    assert found.keys() == {(0, "prefill"), (0, OUTSIDE), (1, "prefill"), (1, "decode"), (1, OUTSIDE)}
    assert [row["launch_count"] for row in found.values()] == [1, 0, 1, 1, 0]
    assert found[1, "decode"]["kernel_kinds"] == "gemm 100 %"
    assert found[1, "prefill"]["kernel_kinds"] == "other 100 %"
    # [10, 30) of process 1, [10, 25) of process 2.
    assert [row["busy_ns"] for row in answers("phase_steps", *rows)] == [20, 15]


def test_names_of_phases_are_in_the_order_in_which_they_begin() -> None:
    with opened(*EXAMPLE, Range(0, 5, "step[DECODE bs=1]", pid=2)) as profile:
        assert phase_names(profile.timeline) == ["decode", "prefill"]


# -- a phase as a slice


def sliced(asked: str, *rows: Row, **part: Any) -> Any:
    report, *names = asked.split()
    row = only(report, *rows, part=Slice(**part))
    return tuple(row[name] for name in names)


def test_a_phase_is_the_time_of_its_steps() -> None:
    """Decode is [60, 90) and [100, 140): of one phase the reports are as its row of `phases`."""
    (row,) = [row for row in answers("phases", *EXAMPLE) if row["phase"] == "decode"]
    asked = "overview window_start_ns window_ns busy_ns"
    assert sliced(asked, *EXAMPLE, phase="decode") == (60, 30 + 40, row["busy_ns"])
    assert row["span_ns"] == 30 + 40


def test_of_a_phase_there_is_no_other() -> None:
    assert [row["phase"] for row in answers("phases", *EXAMPLE, part=Slice(phase="decode"))] == [
        "decode", OUTSIDE]  # fmt: skip
    rows = answers("phases", *EXAMPLE, part=Slice(phase="decode"))
    assert (rows[1]["span_ns"], rows[0]["step_count"]) == (0, 2)


def test_a_phase_that_is_not_there() -> None:
    with opened(*EXAMPLE) as profile, pytest.raises(UsageError) as error:
        profile.report("kernels", slice=Slice(phase="decod"))
    assert error.value.what == "no phase 'decod'"
    assert "decode" in error.value.hint


def decodes(*lengths: int, text: str = "step[DECODE bs=3]") -> list[Row]:
    """Steps of these lengths, one after the other."""
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    return [Range(start, start + length, text) for start, length in zip(starts, lengths, strict=True)]


def test_steady_steps_are_those_after_the_warm_up() -> None:
    """The median is 10: the first two are longer than 15, the last one does not count as warm-up."""
    rows = [*decodes(40, 16, 10, 10, 10, 10, 30), Kernel(0, 126)]
    assert sliced("overview window_start_ns window_ns", *rows, steady=True) == (56, 70)


def test_the_longest_run_of_one_phase_is_steady() -> None:
    """Two decodes, a prefill, three decodes, a prefill: the three, from 60 on."""
    texts = ["step[DECODE bs=3]"] * 2 + ["step[EXTEND bs=1 toks=2]"] + ["step[DECODE bs=3]"] * 3
    texts.append("step[EXTEND bs=1 toks=2]")
    rows = [Range(20 * i, 20 * i + 20, text) for i, text in enumerate(texts)]
    rows.append(Kernel(0, 140))
    assert sliced("overview window_start_ns window_ns", *rows, steady=True) == (60, 60)
    of_prefill = sliced("overview window_start_ns window_ns", *rows, steady=True, phase="prefill")
    assert of_prefill == (40, 20)
    report = asked("kernels", *rows, part=Slice(steady=True))
    assert dict(report.slice or {})["steady"] is True
    assert "time" not in dict(report.slice or {})
    (note,) = [note for note in report.notes if note.slug == "steady-steps"]
    assert note.text.endswith("3 of 7 steps, the longest run of one phase; left out: 0 of warm-up, "
                              "4 others")  # fmt: skip


def test_steady_steps_without_phases() -> None:
    rows = [*(Range(10 * i, 10 * i + 10, f"step {i}") for i in range(1, 5)), Range(0, 10, "x"),
            Range(50, 90, "step 5"), Kernel(10, 90)]  # fmt: skip
    assert sliced("overview window_start_ns window_ns", *rows, steady=True) == (10, 80)
    long = [Range(0, 30, "step 0"), *(Range(20 + 10 * i, 30 + 10 * i, f"step {i}") for i in range(1, 5)),
            Kernel(0, 70)]  # fmt: skip
    assert sliced("overview window_start_ns window_ns", *long, steady=True) == (30, 40)


# -- slowly

TEXTS = ("step[EXTEND bs=1 toks=2]", "step[DECODE bs=3]", "execute_context_1(2)_generation_1(1)")
PARTS = ("forward", "backward", "optimizer", "Optimizer.step#a", "forward-compute")
moment = st.integers(1, 50)  # 0 and 0 are no time


annotation = st.builds(
    lambda text, start, size, pid: Range(start, start + size, text, pid=pid),
    st.sampled_from(TEXTS), moment, st.integers(0, 20), st.sampled_from((1, 2)),
)  # fmt: skip


@given(profiles(), st.lists(annotation, min_size=1, max_size=6))
def test_phases_add_up_to_the_account(rows: list[Row], more: list[Row]) -> None:
    with opened(*rows, *more) as profile:
        if profile.timeline.clocks_disagree:
            return
        found = profile.report("phases").rows()
        assert_is_the_account_of_summary(found, profile.report("summary").rows())


@given(st.lists(annotation, min_size=1, max_size=7))
def test_the_outermost_of_each_process_slowly(rows: list[Range]) -> None:
    """One counts if none that begins before it, or with it and is longer, reaches its end."""
    expected: dict[int, list[tuple[int, int]]] = {}
    for row in sorted(rows, key=lambda one: (one.start, -(one.end or 0))):
        mine = expected.setdefault(row.pid, [])
        if all((row.end or 0) > end for _, end in mine):
            mine.append((row.start, row.end or 0))
    with opened(*rows) as profile:
        found = phase_steps(profile.timeline)
        assert {mine.pid: [*zip(mine.start.tolist(), mine.end.tolist(), strict=True)]
                for mine in found.annotated} == expected  # fmt: skip


@st.composite
def nested(draw: st.DrawFn) -> list[Range]:
    """Ranges of a thread that nest: each inside the last that is open at its start."""
    found: list[Range] = []

    def inside(low: int, high: int, depth: int) -> None:
        while low < high and draw(st.booleans()):
            start = draw(st.integers(low, high))
            end = draw(st.integers(start, high))
            found.append(Range(start, end, draw(st.sampled_from(PARTS))))
            if depth:
                inside(start, end, depth - 1)
            low = end + 1

    inside(1, 60, 2)
    return found


@given(nested())
def test_phases_inside_others_slowly(rows: list[Range]) -> None:
    phase = {"forward-compute": "forward", "Optimizer.step#a": "optimizer"}

    def name(row: Range) -> str:
        return phase.get(row.text, row.text)

    def holds(outer: Range, inner: Range) -> bool:
        assert outer.end is not None and inner.end is not None
        longer = (outer.start, -outer.end) < (inner.start, -inner.end)
        return longer and outer.end >= inner.end and inner.start < outer.end

    if len({(row.start, row.end) for row in rows}) < len(rows):
        return  # of the same time it is not said which is inside
    kept = [row for row in rows if not any(holds(o, row) and name(o) == name(row) for o in rows)]
    expected = sorted(
        (max([row.start, *(inner.end or 0 for inner in kept if holds(row, inner))]), row.end, name(row))
        for row in kept)  # fmt: skip
    with opened(*rows) as profile:
        found = phase_steps(profile.timeline)
        spans = [(start, end, found.phase(text)) for mine in found.annotated for start, end, text
                 in zip(mine.start.tolist(), mine.end.tolist(), mine.name, strict=True)]  # fmt: skip
        assert sorted(spans) == expected


# -- one workload of several sources


def tables(path: Path) -> tuple[Rows, Rows, Rows]:
    with api.open(path) as profile:
        zero = profile.report("phase_steps").rows()[0]["start_ns"]
        found = [profile.report(name).rows() for name in ("phases", "phase_steps", "summary")]
    for row in (row for rows in found[:2] for row in rows):
        # A source has its own zero, label, number of a device, and rank.
        for column in ("profile", "rank", "device_id"):
            row.pop(column, None)
        if "start_ns" in row:
            row["start_ns"] -= zero
    phases, of_steps, summary = found
    return phases, of_steps, summary


def test_a_server_as_two_sources_have_it(tmp_path: Path) -> None:
    paths = [SOURCES[source](SERVING, tmp_path) for source in ("nsys", "kineto")]
    (phases, of_steps, summary), (other_phases, other_steps, _) = map(tables, paths)
    assert of_steps == other_steps
    # Annotated [10, 40), [50, 80), [100, 120), [130, 140) us; kernels end at 70, 90, 120, 150.
    assert [(row["phase"], row["start_ns"], row["dur_ns"]) for row in of_steps] == [
        ("prefill", 0, 60_000), ("mixed", 60_000, 20_000), ("decode", 90_000, 20_000),
        ("decode", 120_000, 20_000)]  # fmt: skip
    assert [row["token_count"] for row in of_steps] == [96, 30 + 2, 3, 3]
    # Sources differ in when a recording begins and ends, and Kineto records no migrations.
    other = {"exposed_um_ns"}
    for row, same in zip(phases, other_phases, strict=True):
        unlike = {name for name in row if row[name] != same[name]}
        ends = {"before_ns", "after_ns", "span_ns", "busy_pct"} if row["phase"] == OUTSIDE else set()
        assert unlike <= other | ends, (row, same)
    assert sum(row["span_ns"] for row in phases) == summary[0]["span_ns"]


# -- real files

DECODE = REAL / "kineto" / "AMD-AGI+TraceLens__sglang_Qwen3-8B_decode.json.gz"
PREFILL = REAL / "kineto" / "AMD-AGI+TraceLens__eager_trace.json.gz"


@real
@pytest.mark.parametrize(("path", "phase", "requests", "tokens"), [
    (DECODE, "decode", 32, 32),  # step[DECODE bs=32] in execute_32_context_0(…)_generation_32(sq32…)
    (PREFILL, "prefill", 1, 888),  # execute_context_1(888_788544)_generation_0(0)
])  # fmt: skip
def test_real_servers(path: Path, phase: str, requests: int, tokens: int) -> None:
    with api.open(path) as profile:
        rows, summary = profile.report("phases").rows(), profile.report("summary").rows()
        (step,) = profile.report("phase_steps").rows()
    assert [row["phase"] for row in rows] == [phase, OUTSIDE]
    assert (rows[0]["step_count"], rows[0]["request_count"], rows[0]["token_count"]) == (
        1, requests, tokens)  # fmt: skip
    assert (step["phase"], step["request_count"], step["token_count"]) == (phase, requests, tokens)
    assert rows[0]["kernel_kinds"].startswith("gemm ")
    assert_is_the_account_of_summary(rows, summary)


def test_a_phase_of_two_runs_is_compared(tmp_path: Path) -> None:
    """Decode steps take 10 and then 20 ns, prefill as long as before: only the phase has changed."""
    for name, length in (("base", 10), ("other", 20)):
        rows: list[Row] = []
        for i in range(3):
            at = 100 * i
            rows += [Range(at, at + 30, "step[EXTEND bs=1 toks=2]"), Kernel(at, at + 30),
                     Range(at + 50, at + 50 + length, "step[DECODE bs=3]"),
                     Kernel(at + 50, at + 50 + length)]  # fmt: skip
        write(tmp_path / f"{name}.db", *rows)
    sides = tmp_path / "base.db", tmp_path / "other.db"
    assert api.compare(*sides, ["overview"], slice=Slice(phase="prefill")).answer.startswith("same")
    result = api.compare(*sides, ["overview"], slice=Slice(phase="decode"))
    assert result.answer.startswith("slower: step period 10 ns → 20 ns")
    (row,) = result.reports[0].rows()
    assert (row["base_busy_ns"], row["other_busy_ns"]) == (30, 60)
    assert (row["base_window_ns"], row["other_window_ns"]) == (30, 60)


def test_a_page_and_an_export_of_a_phase(tmp_path: Path) -> None:
    write(tmp_path / "run.db", *EXAMPLE)
    exported = api.export_profiles(tmp_path / "run.db", "chrome", tmp_path / "out.json",
                                   slice=Slice(phase="decode"))  # fmt: skip
    assert exported.written.counts["kernel"] == len(
        answers("cuda_gpu_trace", *EXAMPLE, part=Slice(phase="decode")))  # fmt: skip
    page = api.page(tmp_path / "run.db", slice=Slice(phase="decode"))
    assert "decode" in {dict(report.slice or {}).get("phase") for report in page}
