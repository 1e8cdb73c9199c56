"""Time that several findings explain counts once: which stands for it, what is a part, what all save."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL_FILES, REAL_TRACES, few, name_of, real
from one_answer import EXAMPLES
from small_store import Call, Kernel, Memcpy, Migration, Range, answers, asked, cells

import nsysconv
from nsysconv.errors import NsysconvError
from nsysconv.present.answer import shown_findings
from nsysconv.queries.findings import overlap
from nsysconv.queries.findings import report as findings
from nsysconv.queries.findings.contract import Found, words
from nsysconv.queries.findings.overlap import Overlap


def placed(*rows: Any) -> list[tuple[str, str | None, str | None]]:
    return [tuple(row) for row in cells("findings rule same_as part_of", *rows)]


def test_the_finding_that_names_a_range_represents_those_of_the_same_gaps() -> None:
    """Four times the host reads 8 bytes back, in 400 µs, then loads for 390 in a range, and launches."""
    rows: list[Any] = []
    for low in range(0, 4_000_000, 1_000_000):
        number = low // 500_000
        rows += [
            Call(low, low + 5_000, number + 1), Kernel(low + 5_000, low + 590_000, number + 1),
            Call(low + 10_000, low + 605_000, number + 2, name="cudaMemcpy"),
            Memcpy(low + 595_000, low + 600_000, number + 2, direction="DtoH", bytes=8),
            Range(low + 606_000, low + 996_000, "load"),
        ]  # fmt: skip
    report = asked("findings", *rows)
    row = report.rows()[0]
    assert (row["rule"], row["cause"]) == (
        "host_bound", "the GPU waits for host code in range load")  # fmt: skip
    same = {each["rule"] for each in report.rows() if each["same_as"] == "host_bound"}
    assert same >= {"sync_small_copies", "sync_each_kernel"} & {r["rule"] for r in report.rows()}
    assert "sync_small_copies" in same
    assert report.texts[0].lines[0].endswith("could be saved: the GPU waits for host code in range load.")


def found(time: int, names: int = 0) -> Found:
    return Found(1.0, time, names=names)


@pytest.mark.parametrize(("times", "shared", "wanted"), [
    # 81 of 100 are more than 80 %: one finding, represented by the one that names a range.
    ({"launch_bound": (100, 0), "host_bound": (90, 2)}, {("host_bound", "launch_bound"): 81},
     {"launch_bound": ("host_bound", None), "host_bound": (None, None)}),
    ({"launch_bound": (100, 0), "host_bound": (90, 2)}, {("host_bound", "launch_bound"): 80},
     {"launch_bound": (None, None), "host_bound": (None, "launch_bound")}),
    # 72 of 90 are just 80 %: each is its own.
    ({"launch_bound": (100, 0), "host_bound": (90, 2)}, {("host_bound", "launch_bound"): 72},
     {"launch_bound": (None, None), "host_bound": (None, None)}),
    # Of two that name as much, the larger one.
    ({"allocation": (90, 1), "synchronous_copies": (100, 1)}, {("allocation", "synchronous_copies"): 90},
     {"allocation": ("synchronous_copies", None), "synchronous_copies": (None, None)}),
    # Waiting for a late rank is exposed communication: 10 of 12 are 83 %, 9 are 75 %.
    ({"stragglers": (10, 1), "exposed_communication": (12, 0)},
     {("exposed_communication", "stragglers"): 10},
     {"stragglers": (None, None), "exposed_communication": ("stragglers", None)}),
    ({"stragglers": (9, 1), "exposed_communication": (12, 0)},
     {("exposed_communication", "stragglers"): 9},
     {"stragglers": (None, "exposed_communication"), "exposed_communication": (None, None)}),
    # A small one is a part of what represents the large ones.
    ({"launch_bound": (100, 0), "host_bound": (95, 2), "allocation": (10, 1)},
     {("host_bound", "launch_bound"): 95, ("allocation", "host_bound"): 9,
      ("allocation", "launch_bound"): 9},
     {"launch_bound": ("host_bound", None), "host_bound": (None, None),
      "allocation": (None, "host_bound")}),
])  # fmt: skip
def test_places(
    times: Mapping[str, tuple[int, int]],
    shared: Mapping[tuple[str, str], int],
    wanted: Mapping[str, tuple[str | None, str | None]],
) -> None:
    def shared_ns(one: str, other: str) -> int:
        return shared.get((min(one, other), max(one, other)), 0)

    made = overlap.places({name: found(*each) for name, each in times.items()}, shared_ns)
    assert {name: (each.same_as, each.part_of) for name, each in made.items()} == wanted


def test_copies_that_are_pageable_are_one_finding_and_a_part_of_it_is_said() -> None:
    """500 of 1000 µs are copies of pageable memory; what is exposed is the same time."""
    rows = (Memcpy(0, 500_000), Kernel(500_000, 1_000_000))
    assert placed(*rows)[:2] == [("pageable_copies", None, None), ("copy_bound", "pageable_copies", None)]


def test_all_savings_are_their_union() -> None:
    """Copies of [0, 500) and of [600, 800), the second one from pinned memory, of 1000: 70 %."""
    rows = (
        Memcpy(0, 500_000), Kernel(500_000, 600_000), Memcpy(600_000, 800_000, src="Pinned"),
        Kernel(800_000, 1_000_000),
    )  # fmt: skip
    found = cells("findings rule share_pct all_savings_pct", *rows)
    assert [tuple(each) for each in found if each[1] is not None and each[2] is not None] == [
        ("copy_bound", 70.0, 70.0), ("pageable_copies", 50.0, 70.0)]  # fmt: skip


def test_a_saving_per_step() -> None:
    steps = [Range(i * 1000, i * 1000 + 1000, f"ProfilerStep#{i}") for i in range(4)]
    kernels = [Kernel(i * 1000 + 400, i * 1000 + 1000) for i in range(4)]
    copies = [Memcpy(i * 1000, i * 1000 + 400, src="Pinned") for i in range(4)]
    ((rule, per_step),) = [
        each for each in cells("findings rule per_step_ns", *steps, *kernels, *copies)
        if each[0] == "copy_bound"
    ]  # fmt: skip
    assert (rule, per_step) == ("copy_bound", 400)


def test_while_graphs_are_captured_there_is_no_advice_to_capture_graphs() -> None:
    """The host captures for 700 of the 800 µs between two kernels."""
    rows = (
        Call(0, 5_000, 1), Kernel(5_000, 105_000, 1),
        Call(110_000, 111_000, 0, name="cudaStreamBeginCapture"),
        Call(810_000, 811_000, 0, name="cudaStreamEndCapture"),
        Call(905_000, 910_000, 2), Kernel(910_000, 1_010_000, 2),
    )  # fmt: skip
    row = next(r for r in answers("findings", *rows) if r["rule"] == "host_bound")
    assert row["cause"] == "the GPU waits for host code that captures CUDA graphs"
    assert "699.00 µs of it while it captured CUDA graphs" in row["finding"]
    assert row["advice"].startswith("Profile the replays")


def test_the_stream_whose_work_was_blocked_is_named() -> None:
    """Launched at 10 and run at 500 on stream 9: 490 less the call's 5."""
    rows = (
        Call(0, 5_000, 1), Kernel(5_000, 10_000, 1), Call(10_000, 15_000, 2),
        Kernel(500_000, 1_000_000, 2, stream=9),
    )  # fmt: skip
    row = next(r for r in answers("findings", *rows) if r["rule"] == "queue_wait")
    assert row["finding"].endswith("; 485.00 µs of it before operations of stream 9.")


# -- properties



@pytest.mark.parametrize("path", few(EXAMPLES, 7), ids=name_of)
def test_the_time_of_each_finding_is_where_it_says(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_times(path, monkeypatch)


@real
@pytest.mark.parametrize("path", [*few(REAL_FILES, 1), *few(REAL_TRACES, 1)], ids=name_of)
def test_the_time_of_each_finding_of_a_real_file_is_where_it_says(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_times(path, monkeypatch)


def check_times(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[tuple[str, int, int]] = []
    together: list[tuple[set[str], float]] = []

    def look(made: Mapping[str, Found]) -> Overlap:
        measured.extend((n, f.when().measure, f.time_ns) for n, f in made.items() if f.when)
        found = overlap.overlap(made)
        together.extend(
            ({*pair}, time / max(made[name].time_ns for name in pair))
            for pair, time in found.shared_ns.items()
        )
        return found

    monkeypatch.setattr(findings, "overlap", look)
    try:
        (report,) = nsysconv.report_on(path, "findings")
    except NsysconvError:
        pytest.skip("the file has several runs")
    assert [(name, when) for name, when, _ in measured] == [(name, own) for name, _, own in measured]
    rows = report.rows()
    assert all(row["all_savings_pct"] <= 100 for row in rows if row["all_savings_pct"] is not None)
    savings = [row for row in rows if row["kind"] == "saving"]
    if savings and len({(row["profile"], row["device_id"]) for row in savings}) == 1:
        largest = max(row["share_pct"] for row in savings)
        assert all(row["all_savings_pct"] >= largest - 1e-9 for row in savings)
    rules = {row["rule"] for row in rows}
    assert {r[key] for r in rows for key in ("same_as", "part_of")} <= rules | {None}
    shown = {row["rule"] for row in shown_findings(rows)}
    if len(measured) == len({name for name, _, _ in measured}):  # one device
        assert all(share <= 0.8 for pair, share in together if pair <= shown)


def test_each_rule_has_words_for_the_sentence_on_top() -> None:
    assert all(each.cause and not each.cause.endswith(".") for each in words().values())


# -- pages and first calls


def test_pages_that_a_kernel_faults_count_unless_some_are_prefetched() -> None:
    """Of 1000 µs pages come for 100 beside a kernel, and for 50 beside nothing."""
    rows = (
        Call(0, 5_000, 1), Kernel(5_000, 500_000, 1), Migration(200_000, 300_000),
        Migration(400_000, 450_000, direction="DtoH"), Migration(600_000, 650_000),
        Call(690_000, 695_000, 2), Kernel(700_000, 1_000_000, 2),
    )  # fmt: skip
    ((saving, sentence),) = [
        each[1:] for each in cells("findings rule saving_ns finding", *rows)
        if each[0] == "page_migration"
    ]  # fmt: skip
    assert saving == 150_000
    assert sentence.startswith(
        "Unified memory pages migrated for 150.00 µs, 50.00 µs while the GPU ran nothing else, "
        "100.00 µs beside kernels, which wait for their pages "
    )
    prefetch = Call(100_000, 101_000, 0, name="cudaMemPrefetchAsync")
    found = dict(cells("findings rule saving_ns", *rows, prefetch))
    assert found["page_migration"] == 50_000


def test_an_idle_device_before_a_migration_waits_for_the_host() -> None:
    """[500, 900) ends with pages; the host is in no call from 520 on."""
    rows = (
        Call(0, 5_000, 1), Kernel(5_000, 500_000, 1),
        Call(10_000, 520_000, 0, name="cudaStreamSynchronize"),
        Migration(900_000, 950_000, direction="DtoH"),
        Call(960_000, 965_000, 2), Kernel(965_000, 1_000_000, 2),
    )  # fmt: skip
    gaps = cells("idle_gaps dur_ns cause host_ns migration_ns", *rows)
    assert tuple(gaps[0]) == (400_000, "host", 400_000, 0)
    done = cells("idle_host activity name host_sum_ns", *rows)
    assert ("api_call", "cudaStreamSynchronize", 20_000) in map(tuple, done)
    without = (row for row in rows if not isinstance(row, Call))
    assert tuple(cells("idle_gaps dur_ns cause host_ns migration_ns", *without)[0]) == (
        400_000, "migration", 0, 400_000)  # fmt: skip


def test_a_first_call_of_a_hundred_times_the_median_is_loading() -> None:
    """cudaEventCreate takes 60 ms at first, and 10 µs then."""
    rows: list[Any] = [Call(0, 5_000, 1), Kernel(5_000, 10_000, 1)]
    rows += [Call(20_000_000, 80_000_000, 0, name="cudaEventCreate")]
    rows += [Call(80_000_000 + i * 20_000, 80_010_000 + i * 20_000, 0, name="cudaEventCreate")
             for i in range(5)]  # fmt: skip
    rows += [Call(90_000_000, 90_005_000, 2), Kernel(90_005_000, 190_000_000, 2)]
    found = {rule: rest for rule, *rest in cells("findings rule saving_ns finding", *rows)}
    assert found["module_loading"][0] == 60_000_000
    assert "cudaEventCreate" in found["module_loading"][1]
