"""What each rule says: of the examples of the docs, of what nearly has it, of what cannot be seen."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import findings_cases
import pytest
import small_store
from conftest import (
    NSYS_FILES,
    REAL,
    REAL_FILES,
    REAL_TRACES,
    ROOT,
    Shelf,
    few,
    name_of,
    real,
)
from findings_cases import Case, parse, stored
from one_answer import EXAMPLES as SOURCES
from small_store import (
    Call,
    Collective,
    Graph,
    Kernel,
    Memcpy,
    Memset,
    Migration,
    Overhead,
    Range,
    Total,
    answers,
    asked,
    cells,
    opened,
    write,
)
from test_findings_cases import CASES, DEFINITIONS, EXAMPLES, LABELS, RECORDED

import nsysconv
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.queries.findings import report as findings
from nsysconv.queries.findings.contract import COST, RISK, SAVING, words
from nsysconv.render.display import heading
from nsysconv.report import Report
from nsysconv.timeline.slices import Slice

sys.path.insert(0, str(ROOT / "scripts"))
import score_findings


def ask(case: Case) -> Report:
    """The findings of a case, with its rule on."""
    spec = f"findings:{case.rule}={words()[case.rule].threshold}"
    with stored(case) as store:
        if len(case.parts) > 1:
            return nsysconv.report_on(store, spec)[0]
        with nsysconv.open(store) as profile:
            return profile.report(spec)


def row_of(report: Report, rule: str) -> dict[str, Any] | None:
    return next((row for row in report.rows() if row["rule"] == rule), None)


def cannot_look(report: Report, rule: str) -> bool:
    if report.table is None:
        return True
    notes = [note.text for note in report.notes if note.slug == "rules-cannot-look"]
    return any(re.search(rf"\b{rule}\b", text) for text in notes)


@pytest.mark.parametrize("lines", EXAMPLES, ids=lambda lines: parse(lines).rule)
def test_an_example_of_the_documentation(lines: str) -> None:
    case = parse(lines)
    row = row_of(ask(case), case.rule)
    times = {"saves": (case.time * 1000, None), "costs": (None, case.time * 1000)}
    assert (row["saving_ns"], row["cost_ns"]) == times.get(case.verb, (None, None))
    assert row["kind"] == {"saves": SAVING, "costs": COST, "warns": RISK}[case.verb]
    if case.verb == "warns":
        assert (round(row["value"]), row["share_pct"]) == (case.time, None)
    assert row["value"] > row["threshold"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_what_nearly_has_it_or_cannot_be_seen(case: dict[str, str]) -> None:
    parsed = parse(case["lines"])
    report = ask(parsed)
    assert row_of(report, parsed.rule) is None
    assert cannot_look(report, parsed.rule) == (parsed.verb == "cannot")


def test_thresholds_of_the_documentation() -> None:
    paragraphs = r"^((?:\*\*`\w+`\*\*(?:, )?)+) \(([\d.]+)"
    section = DEFINITIONS[DEFINITIONS.index("\n## Checks\n") :]
    found = dict(re.findall(paragraphs, section, re.MULTILINE))
    documented = {
        rule: float(value) for rules, value in found.items() for rule in re.findall(r"\w+", rules)
    }
    assert documented == {rule: each.threshold for rule, each in words().items()}


def test_prose_name_reports_and_details() -> None:
    from nsysconv.queries import parse_spec

    for rule, each in words().items():
        parse_spec(each.report)
        assert each.kind in (SAVING, COST, RISK), rule
        assert "cuda" in each.advice, rule
        cases = {"exchange", "range", "capture", "waits", "blocked", "faults", "occupancy", "input",
                 "lock", "sleep", "core", "channels", "transposed", "permuted", "once", "host", "pool",
                 "mapped", "prefetched", "device", "mpi", "call", "copy", "program",
                 "delayed", "recapture"}  # fmt: skip
        assert set(each.advice) <= {"cuda", "hip", "pytorch", *cases}, rule
        assert len(max(each.advice.values(), key=len)) <= 100, rule


def test_every_rule_has_a_measure() -> None:
    over_several = {findings.DEVICE_IMBALANCE, findings.RANK_IMBALANCE, findings.STRAGGLERS,
                    findings.COLLECTIVE_WAIT}  # fmt: skip
    assert set(words()) == {*findings.RULES, *over_several}


# -- the order, options, words

# Copies alone 500 of 1000, one kernel of 300, the others 200.
_, GEMM, RELU = BOUND = (
    Memcpy(0, 500_000, src="Pinned"),
    Kernel(500_000, 800_000, name="gemm"),
    Kernel(800_000, 1_000_000, name="relu"),
)
# 30 of 530.
SMALL = Memcpy(470_000, 500_000, src="Pageable")
NCCL = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"


def found(*rows: Any, part: Slice | None = None, **options: Any) -> dict[str, dict[str, Any]]:
    """The findings on these rows by rule, in their order."""
    return {row["rule"]: row for row in answers("findings", *rows, **options, part=part)}


@pytest.mark.parametrize(("rows", "spec", "rules"), [
    pytest.param(BOUND, "findings", ["copy_bound", "one_kernel"],
                 id="savings come first where one is a tenth of the window"),
    pytest.param((SMALL, GEMM, RELU), "findings", ["one_kernel", "pageable_copies"],
                 id="and else last"),
    # device_imbalance would save 200, but is off.
    pytest.param((SMALL, GEMM, RELU, Kernel(500_000, 600_000, name="gemm", device=1)), "findings",
                 ["one_kernel", "pageable_copies"], id="a rule that is off does not count"),
    pytest.param(BOUND, "findings:copy_bound=51", ["one_kernel"], id="a threshold"),
    pytest.param(BOUND, "findings:ignore=one_kernel", ["copy_bound"], id="what is ignored"),
])  # fmt: skip
def test_rules_in_their_order(rows: tuple[Any, ...], spec: str, rules: list[str]) -> None:
    assert cells(f"{spec} rule", *rows) == rules


def started(at: int) -> tuple[Any, ...]:
    """A context and a launch until `at`, and the work from there to 1 ms: two kernels."""
    middle = (at + 2_000_000) // 3
    return (
        Call(0, at - 5_000, name="cudaMalloc"), Call(at - 5_000, at, 1),
        Kernel(at, middle, 1, name="gemm"), Call(at, at + 1_000, 2),
        Kernel(middle, 1_000_000, 2, name="relu"),
    )  # fmt: skip


def test_what_is_around_the_work_comes_last_unless_the_work_is_next_to_nothing() -> None:
    # The work is 600 of 1000, then 15: a context of 400, then of 985.
    assert [*found(*started(400_000))] == ["gpu_bound", "one_kernel", "start_up"]
    # Copies of 100 save less than the context's 400.
    copies = Memcpy(1_000_000, 1_100_000, src="Pinned")
    rules = [*found(*started(400_000), copies)]
    assert (rules[0], rules[-1]) == ("copy_bound", "start_up")
    assert next(iter(found(*started(985_000)))) == "start_up"


def test_calls_that_failed_come_before_all() -> None:
    # What the runtime called inside of a call is that call's own affair.
    inside, outside = (Call(at, at + 1_000, 3, result=701) for at in (1_000, 600_000))
    assert "failed_calls" not in found(*started(400_000), inside)
    assert next(iter(found(*started(400_000), outside))) == "failed_calls"


def test_of_kernels_that_were_replayed_no_time_is_judged() -> None:
    with opened(*BOUND) as profile:
        profile.profile.late_notes.append(Note("kernels-serialized", Severity.APPROXIMATED, ""))
        report = profile.report("findings")
        assert report.rows() == []
        (blind,) = (note.text for note in report.notes if note.slug == "rules-cannot-look")
        assert "copy_bound" in blind and "gpu_bound" in blind and "memory_limit" not in blind


@pytest.mark.parametrize(("rows", "clause"), [
    # 345 are 150 in cudaMalloc, 5 in the launch, and the rest.
    pytest.param((Call(0, 200_000, name="cudaMalloc"),),
                 "190.00 µs of it outside API calls, 150.00 µs of it in cudaMalloc; ",
                 id="calls, without the profiler's part of them"),
    pytest.param((Range(0, 390_000, "main"), Range(60_000, 380_000, "MPI_Init")),
                 "315.00 µs of it in range MPI_Init; ", id="the innermost range of half of it"),
    pytest.param((Range(0, 1_000_000, "ProfilerStep#1"),),
                 "340.00 µs of it outside API calls; ", id="no range of the work itself"),
])  # fmt: skip
def test_what_start_up_was_spent_on(rows: tuple[Any, ...], clause: str) -> None:
    """Of the 400 until the launch returns 55 are the profiler's, 50 of them in the first 200."""
    launch = (Overhead(0, 50_000), Overhead(300_000, 305_000), Call(395_000, 400_000, 1),
              Kernel(400_000, 1_000_000, 1))  # fmt: skip
    assert found(*rows, *launch)["start_up"]["finding"] == (
        f"345.00 µs passed before the first launch returned, {clause}"
        "profiler overhead adds 55.00 µs."
    )


def test_what_is_ignored_is_said() -> None:
    report = asked("findings:ignore=one_kernel,warm_up", *BOUND)
    assert "left out: one_kernel, warm_up" in [note.text for note in report.notes]


def test_a_finding_below_one_per_cent_is_said_last_and_by_name() -> None:
    # One kernel of all kernel time; 9 of 1000 are kernels.
    rows = (Memcpy(0, 991_000, src="Pinned"), Kernel(991_000, 1_000_000))
    report = asked("findings", *rows)
    assert [row["rule"] for row in report.rows()] == ["copy_bound", "one_kernel"]
    sentence, said = report.texts
    assert sentence.lines == (
        "Up to 99.1 % (991.00 µs) could be saved: copies and memsets do not overlap kernels.",
    )
    assert said.lines[0].startswith("1. copy_bound, saves up to 99.1 %: ")
    assert said.lines[-1] == "below 1 %: one_kernel"


def test_one_row_for_all_devices() -> None:
    rows = [
        event for device, end in ((0, 500_000), (1, 600_000))
        for event in (Memcpy(0, end, device=device, src="Pinned"), Kernel(end, 1_000_000, device=device))
    ]  # fmt: skip
    assert cells("findings rule device_id device_count saving_ns", *rows)[0] == (
        "copy_bound", 1, 2, 600_000)  # fmt: skip


def test_a_slice_is_the_time_of_the_account() -> None:
    """Of [400, 600) the copy has 100."""
    part = Slice((400_000, 600_000))
    assert cells("findings rule saving_ns share_pct", *BOUND, part=part)[0] == (
        "copy_bound", 100_000, 50.0)  # fmt: skip


def test_clocks_that_disagree_leave_savings_unsaid() -> None:
    rows = (Call(10**10, 10**10 + 5, 1), Kernel(0, 300_000, 1), Memcpy(300_000, 900_000))
    report = asked("findings", *rows)
    assert [row["rule"] for row in report.rows()] == ["one_kernel"]
    assert cannot_look(report, "copy_bound")


def test_where_the_longest_gap_is() -> None:
    """Gaps [100, 300) and [400, 420) µs; the host launches what ends them 10 before."""
    rows = (
        Call(0, 1000, 1), Kernel(0, 100_000, 1, name="first"),
        Call(290_000, 291_000, 2), Kernel(300_000, 400_000, 2, stream=9, name="second"),
        Call(410_000, 411_000, 3), Kernel(420_000, 1_000_000, 3, name="third"),
    )  # fmt: skip
    row = found(*rows)["host_bound"]
    # Host parts: 190 and 10.
    assert row["saving_ns"] == 200_000
    assert (row["before"], row["after"], row["stream_id"]) == ("first", "second", 9)


def test_the_gap_that_costs_most_need_not_be_the_longest() -> None:
    """Gap [100, 600) is queued but for its first 10; of [700, 900) the host has 190."""
    rows = (
        Call(0, 1000, 1), Kernel(0, 100_000, 1, name="first"),
        Call(110_000, 111_000, 2), Kernel(600_000, 700_000, 2, name="queued"),
        Call(890_000, 891_000, 3), Kernel(900_000, 1_000_000, 3, name="late"),
    )  # fmt: skip
    beside = {rule: (row["before"], row["after"]) for rule, row in found(*rows).items()}
    assert beside["host_bound"] == ("queued", "late")
    assert beside["queue_wait"] == ("first", "queued")


@pytest.mark.parametrize(("part", "whole"), [
    ({"streams": (7,)}, False), ({"name": "gemm"}, False), ({"threads": (1,)}, False),
    ({"devices": (0,)}, True), ({"time": (0, 1_000_000)}, True), ({"processes": (1,)}, True),
])  # fmt: skip
def test_a_slice_of_some_operations_says_nothing_of_idle_time(
    part: dict[str, Any], whole: bool
) -> None:
    """Stream 8 and thread 2 are at work while stream 7, which is all gemm, and thread 1 are not."""
    rows = (
        Call(0, 1000, 1, tid=1), Kernel(0, 400_000, 1, stream=7, name="gemm"),
        Call(500_000, 501_000, 2, tid=2), Memcpy(510_000, 900_000, 2, stream=8, src="Pageable"),
    )  # fmt: skip
    report = asked("findings", *rows, part=Slice(**part))
    said = {"copy_bound", "host_bound"} & {row["rule"] for row in report.rows()}
    assert said == ({"copy_bound", "host_bound"} if whole else set())
    assert cannot_look(report, "copy_bound") == (not whole)
    assert row_of(report, "one_kernel") is not None
    if not whole:
        assert "the operations that the slice leaves out" in report.notes[-1].text


@pytest.mark.parametrize(("calls", "clause"), [
    ([Call(0, 700_000, name="cudaMalloc")],
     ", 700.00 µs of it in cudaMalloc, 300.00 µs of it outside API calls."),
    ([Call(0, 950_000, name="cudaMalloc")], ", 950.00 µs of it in cudaMalloc."),
    ([Call(0, 490_000, name="cudaMalloc")],
     ", 510.00 µs of it outside API calls, 490.00 µs of it in cudaMalloc."),
    ([], ", all of it outside API calls."),
])  # fmt: skip
def test_start_up_outside_of_calls(calls: list[Call], clause: str) -> None:
    rows = (*calls, Call(1_000_000, 1_001_000, 1), Kernel(1_000_000, 2_000_000))
    row = found(*rows, recording_ns=2_000_000, recording_start_ns=0)["start_up"]
    assert row["finding"].endswith(clause)
    # What the program itself does is not loaded code: half of the time, 500 µs, decides.
    loads = sum(call.end - call.start for call in calls) > 500_000
    assert row["advice"].startswith("Warm up" if loads else "See what the program does before")


LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"


def test_what_the_loader_takes_is_not_said_twice() -> None:
    """Of the gap of 400 µs before the second kernel the loader has 300, and the host 90 more."""
    rows = (Call(0, 1000, 1), Kernel(0, 100_000, 1), Range(110_000, 410_000, LOADER),
            Call(490_000, 491_000, 2), Kernel(500_000, 1_000_000, 2))  # fmt: skip
    assert dict(cells("findings rule saving_ns", *rows)) == {
        "data_loader": 300_000, "host_bound": 90_000, "one_kernel": None}  # fmt: skip


@pytest.mark.parametrize(("part", "times"), [(None, 4), (Slice(time=(0, 200_000)), 2)])
def test_the_loader_is_counted_in_the_slice(part: Slice | None, times: int) -> None:
    waits = [Range(at, at + 50_000, LOADER) for at in range(10_000, 400_000, 100_000)]
    work = [Kernel(at, at + 30_000) for at in range(70_000, 500_000, 100_000)]
    row = found(Kernel(0, 5000), *waits, *work, part=part)["data_loader"]
    assert row["finding"].endswith(f"its data loader ({times} times).")


def of_ranks(*ranks: Iterable[Any], spec: str) -> dict[str, dict[str, Any]]:
    """The findings on a run, by rule."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "job.db"
        for rank, rows in enumerate(ranks):
            known = {"ranks": {1: rank}} if len(ranks) > 1 else {}
            write(store, *rows, **known, utc=0, label=f"rank{rank}", run="run")
        (report,) = nsysconv.report_on(store, spec)
    return {row["rule"]: row for row in report.rows()}


@pytest.mark.parametrize(("devices", "ranks", "where"), [
    (1, 1, None), (2, 1, "GPU 1"), (1, 2, "rank 1, GPU 0"), (2, 2, "rank 1, GPU 1"),
])  # fmt: skip
def test_where_a_finding_is_of_several(devices: int, ranks: int, where: str | None) -> None:
    """The last device of the last rank copies for longest."""
    row = of_ranks(
        *([each for device in range(devices) for each in (
            Memcpy(0, 100_000 * (1 + rank + device), device=device),
            Kernel(900_000, 1_000_000, device=device))] for rank in range(ranks)),
        spec="findings:copy_bound=0",
    )["copy_bound"]  # fmt: skip
    assert row["where"] == where
    assert (row["slice"] is None) or ranks == 1


COMMUNICATION = "findings:stragglers=0:collective_wait=0:exposed_communication=0"


def reduce(start: int, end: int) -> Kernel:
    return Kernel(start, end, name="ncclDevKernel_AllReduce")


def test_communication_before_all_ranks_are_recorded_is_no_finding() -> None:
    """Rank 1 is recorded from 1 ms on: of rank 0's 1100 µs, 100 and 50 are in that time."""
    early = (Kernel(0, 100_000), reduce(100_000, 1_100_000), Kernel(1_100_000, 1_900_000),
             reduce(1_900_000, 1_950_000))  # fmt: skip
    late = (Kernel(1_000_000, 1_090_000), reduce(1_090_000, 1_100_000), Kernel(1_100_000, 1_900_000),
            reduce(1_900_000, 1_950_000))  # fmt: skip
    alone, together = of_ranks(early, spec=COMMUNICATION), of_ranks(early, late, spec=COMMUNICATION)
    assert alone["exposed_communication"]["saving_ns"] == 1_050_000
    assert alone["exposed_communication"]["event"] == "kernel:2"
    assert "One kernel accounts for 95 % of it." in alone["exposed_communication"]["finding"]
    exposed = together["exposed_communication"]
    assert (exposed["rank"], exposed["saving_ns"]) == (0, 150_000)
    assert exposed["finding"] == (
        "150.00 µs of 150.00 µs of communication did not overlap computation. "
        "One kernel accounts for 67 % of it."
    )
    assert together["stragglers"]["saving_ns"] == 90_000
    assert exposed["value"] == 100 * 150_000 / 1_950_000
    spec = "findings:exposed_communication=0:ignore=stragglers,collective_wait"
    assert of_ranks(early, late, spec=spec)["exposed_communication"]["saving_ns"] == 150_000


def test_what_most_events_share_is_not_said_to_be_of_one() -> None:
    rows = tuple(
        kernel for start in (0, 200, 400)
        for kernel in (Kernel(start, start + 50), reduce(start + 50, start + 150))
    )  # fmt: skip
    finding = of_ranks(rows, spec=COMMUNICATION)["exposed_communication"]["finding"]
    assert finding.startswith("300 ns of ")


@pytest.mark.parametrize(("came", "saving", "words"), [
    ((10, 995, 995, 1000), 990, "1 of the 3 other ranks %: 990 ns."),
    ((10, 900, 995, 1000), 545, "2 of the 3 other ranks %: 545 ns each on average."),
    ((100, 400, 700, 1000), 600, "The other ranks %: 600 ns each on average."),
    ((100, 1000), 900, "The other rank %: 900 ns."),
    # 9 is 1 % of 900 and less is nothing.
    ((100, 991, 1000), 454, "The other ranks %: 454 ns each on average."),
    ((100, 992, 1000), 900, "1 of the 2 other ranks %: 900 ns."),
])  # fmt: skip
def test_the_average_is_of_the_ranks_that_waited(
    came: tuple[int, ...], saving: int, words: str
) -> None:
    """The last rank is the late one. All come at once into a second."""
    ranks = [(Kernel(0, 5), reduce(at, 1100), reduce(1200, 1300)) for at in came]
    row = of_ranks(*ranks, spec=COMMUNICATION)["stragglers"]
    assert (row["rank"], row["saving_ns"]) == (len(came) - 1, saving)
    said = words.replace("%", "waited for it in collectives")
    assert row["finding"] == f"{said} One collective accounts for all of it."


def test_the_event_of_allocations_is_the_longest_of_the_calls_that_are_named() -> None:
    """The device is idle for 300 under two cudaMalloc; cudaFree takes 500, but for 450 a kernel runs."""
    rows = (
        Call(0, 5, 1, name="cudaLaunchKernel"), Kernel(5, 20, 1),
        Call(100, 200, name="cudaMalloc"), Call(300, 500, name="cudaMalloc"),
        Call(550, 1050, name="cudaFree"), Kernel(600, 1050),
    )  # fmt: skip
    row = found(*rows)["allocation"]
    assert "300 ns of it in cudaMalloc" in row["finding"]
    with opened(*rows) as profile:
        (about,) = profile.why(row["event"]).rows()
    assert (about["start_ns"], about["dur_ns"]) == (300, 200)


def test_findings_of_several_devices_are_no_sums() -> None:
    kernels = [Kernel(0, 1000, device=device, name="add") for device in range(2)]
    report = asked("findings", *kernels)
    row = row_of(report, "one_kernel")
    assert row is not None and row["device_count"] == 2
    assert heading(report) == "Bottlenecks - small"


TOTALS = {"holds": [Fact.KERNEL_TOTALS]}
BY_TOTALS = pytest.mark.parametrize("by_totals", [False, True], ids=["events", "totals"])


@BY_TOTALS
def test_one_kernel_is_a_share_of_all_kernel_time(by_totals: bool) -> None:
    """1.40 ms of 2.00 ms, of which 0.60 ms is communication."""
    rows = (Kernel(0, 1_400_000, name="gemm"), Kernel(1_400_000, 2_000_000, name=NCCL))
    totals = (Total("kernel", 2, 1_400_000, name="gemm"), Total("kernel", 1, 600_000, name=NCCL))
    row = (found(*totals, **TOTALS) if by_totals else found(*rows))["one_kernel"]
    assert row["value"] == 70
    assert row["finding"].startswith("One kernel takes 70 % of all kernel time: gemm, 1.40 ms in ")


@BY_TOTALS
def test_where_all_kernels_communicate_none_takes_most(by_totals: bool) -> None:
    names = (NCCL, "ncclDevKernel_AllGather_RING_LL")
    rows = (Kernel(0, 1_400_000, name=name) for name in names)
    totals = (Total("kernel", 2, 1_400_000, name=name) for name in names)
    assert "one_kernel" not in (found(*totals, **TOTALS) if by_totals else found(*rows))


# -- real files


@real
@pytest.mark.parametrize("label", few(LABELS, 2), ids=lambda label: str(label["path"])[:60])
def test_labeled_files(label: dict[str, Any]) -> None:
    rules = score_findings.found_in(label, REAL)
    assert not set(label["forbidden"]) & set(rules)
    assert set(label["expected"]) <= set(rules)
    if "first" in label:
        assert rules[0] in label["first"]


def test_rules_that_are_on_are_labeled() -> None:
    labeled = {rule for label in (*LABELS, *RECORDED) for rule in label["expected"]}
    assert {rule for rule, each in words().items() if each.on} <= labeled
    assert findings_cases.__doc__ and Path(score_findings.LABELS).exists()


# -- savings are upper bounds

_IDLE = tuple(f"idle_{part}_ns" for part in
              ("host", "launch", "queue", "migration", "profiler", "unknown", "end"))  # fmt: skip
_COPIES = ("exposed_memcpy_ns", "exposed_memset_ns")
CLASSES_OF = {
    "start_up": ("before_ns",),
    "tear_down": ("after_ns",),
    "module_loading": _IDLE,
    "warm_up": ("computation_union_ns", *_IDLE),
    "tf32_matmul": ("computation_union_ns",),
    "launch_bound": ("idle_host_ns", "idle_launch_ns"),
    "host_bound": ("idle_host_ns",),
    "sync_each_kernel": _IDLE,
    "sync_small_copies": _IDLE,
    "host_sync": _IDLE,
    "optimizer_single_tensor": ("computation_union_ns", *_COPIES, *_IDLE),
    "zero_grad": ("computation_union_ns", *_COPIES, *_IDLE),
    "queue_wait": ("idle_queue_ns",),
    "idle_unknown": ("idle_unknown_ns",),
    "data_loader": _IDLE,
    "host_wait": ("idle_host_ns",),
    "profiler_overhead": _IDLE,
    "copy_bound": _COPIES,
    "pageable_copies": ("exposed_communication_ns", "exposed_memcpy_ns"),
    "synchronous_copies": (*_COPIES, *_IDLE),
    "small_copies": (*_COPIES, *_IDLE),
    "allocation": ("before_ns", "after_ns", *_IDLE),
    # Beside a kernel, which waits for them, too.
    "page_migration": ("before_ns", "after_ns", "exposed_um_ns", "computation_union_ns"),
    "exposed_communication": ("exposed_communication_ns",),
    "host_collectives": _IDLE,
    "bucket_size": ("exposed_communication_ns",),
    "device_imbalance": ("computation_union_ns",),
}
EVERY_RULE = "findings:" + ":".join(f"{rule}=0" for rule in CLASSES_OF)


def check_savings(profile: nsysconv.OpenProfile) -> None:
    """A saving is at most what its classes have in the account of its device."""
    try:
        rows = profile.report(EVERY_RULE).rows()
        accounts = {row["device_id"]: row for row in profile.report("summary").rows()}
    except NotRecorded:
        return
    for row in rows:
        if row["saving_ns"] is not None:
            account = accounts[row["device_id"]]
            most = sum(account[column] or 0 for column in CLASSES_OF[row["rule"]])
            assert 0 < row["saving_ns"] <= most, row["rule"]
            assert row["share_pct"] == pytest.approx(100 * row["saving_ns"] / account["span_ns"])


def test_memory_grows_with_the_steps_of_the_host() -> None:
    """Steps of the GPU are 90 behind: as they end the next block is taken, and after the last none."""
    steps = "\n".join(
        f"""
        range ProfilerStep#{n} [{100 * n}, {100 * n + 100})
        call cudaLaunchKernel [{100 * n + 1}, {100 * n + 5}) #{n + 1}
        kernel gemm [{100 * n + 91}, {100 * n + 190}) #{n + 1}
        memory 100 [{100 * n + 10}, {100 * n + 10}) used={1100 + 100 * n} held=4096 at={n + 1}
        """ for n in range(4)
    )  # fmt: skip
    row = row_of(ask(parse(steps + "→ memory_growth warns 21")), "memory_growth")
    assert row is not None and row["value"] == pytest.approx(100 * 300 / 1400)


def test_the_classes_of_every_rule_are_known() -> None:
    savings = {rule for rule, each in words().items() if each.kind == SAVING}
    assert CLASSES_OF.keys() == savings - {"rank_imbalance", "stragglers", "collective_wait"}


@pytest.mark.parametrize("path", [*few(NSYS_FILES, 3), *few(SOURCES, 7)], ids=name_of)
def test_savings_of_a_fixture_are_bounded(path: Path, shelf: Shelf) -> None:
    with nsysconv.open(shelf.store(path)) as profile:
        check_savings(profile)


@real
@pytest.mark.parametrize("path", [*few(REAL_FILES, 1), *few(REAL_TRACES, 1)], ids=name_of)
def test_savings_of_a_real_file_are_bounded(path: Path) -> None:
    with nsysconv.open(path) as profile:
        check_savings(profile)


def test_checks_that_found_nothing_have_their_values() -> None:
    """A copy of 5 of 100 ns in the window, of which 10 % would be a finding."""
    rows = (Call(0, 1, 1), Kernel(0, 95, 1), Memcpy(95, 100, direction="HtoD", bytes=10))
    with opened(*rows) as profile:
        notes = {each.slug: each for each in profile.report("findings").notes}
        kept = profile.report("findings:copy_bound=4")
    said = notes["rules-found-nothing"].text.removeprefix("checks that found nothing: ").split("; ")
    assert "copy_bound 5 of 10 % of the window" in said
    assert "small_copies" in said, "it had nothing to measure"
    assert [each for each in said if each.startswith("gpu_bound")] == []
    assert "copy_bound" in [row["rule"] for row in kept]
    assert not any("copy_bound" in each.text for each in kept.notes)


def slow(name: str = "cudaGraphInstantiate", memory: str = "", **options: Any) -> list[Any]:
    """Three times a call of 700 µs, which may copy, fills the gap behind a kernel, 100 µs aside."""
    rows: list[Any] = []
    for number, low in enumerate((0, 1_000_000, 2_000_000), 1):
        rows += [Call(low, low + 5_000, number), Kernel(low + 5_000, low + 200_000, number),
                 Call(low + 250_000, low + 950_000, 10 * number if memory else 0, name=name, **options),
                 *[Memcpy(low + 950_000, low + 951_000, 10 * number, src=memory)] * bool(memory)]
    return rows


@pytest.mark.parametrize(("name", "memory", "advice"), [
    ("cudaGraphInstantiate", "", "Make streams, events and graphs once"),
    ("cudaGetDeviceProperties", "", "Make streams, events and graphs once"),
    ("hipStreamCreate", "", "Make streams, events and graphs once"),
    ("cudaMemcpyAsync", "", "See what delays these calls"),
    # The host copies only what is pageable.
    ("cudaMemcpyAsync", "Pageable", "Copy from pinned memory"),
    ("cudaMemcpyAsync", "Pinned", "See what delays these calls"),
])  # fmt: skip
def test_slow_calls_without_a_rule_of_their_own_are_the_host(
    name: str, memory: str, advice: str
) -> None:
    """The GPU waits for two of them."""
    row = found(*slow(name, memory))["host_bound"]
    assert row["cause"] == f"the GPU waits for host code in {name}"
    assert row["advice"].startswith(advice)
    if not memory:
        assert row["saving_ns"] == 1_600_000
        assert f" or in slow ones (100 µs or more), 1.40 ms of it in {name}." in row["finding"]


# A first call of 1.2 ms, which is as long as 100 others of its name, loads code. Outside of it the GPU
# waits for 100 and 800 µs.
LOADING = (
    *(row for number, low in enumerate((0, 1_500_000, 2_500_000), 1)
      for row in (Call(low, low + 5_000, number), Kernel(low + 5_000, low + 200_000, number))),
    Call(250_000, 1_450_000, 0, name="cudaGraphInstantiate"),
    *(Call(low, low + 5, 0, name="cudaGraphInstantiate") for low in range(2_600_000, 2_600_030, 10)),
)  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "saving", "is_said"),
    [
        (slow(), 1_600_000, True),
        # Nothing is launched by this thread, so none of its calls is what the GPU waits for.
        (slow(tid=99), 1_600_000, False),
        # The same time is that of a call which has a rule of its own.
        ([*slow(), Call(250_000, 1_950_000, 0, name="cudaMalloc", tid=99)], 200_000, False),
        (LOADING, 900_000, False),
    ],
    ids=["slow", "another thread", "another rule", "loading"],
)
def test_time_in_slow_calls_is_counted_once(rows: Any, saving: int, is_said: bool) -> None:
    row = found(*rows)["host_bound"]
    assert row["saving_ns"] == saving
    assert ("in slow ones" in row["finding"]) is is_said


HIP = Call(0, 10, name="hipMemcpyAsync")
PREFETCH = (Call(0, 5_000, 0, name="cudaMemPrefetchAsync"), Migration(10_000, 600_000),
            Call(6_000, 11_000, 1), Kernel(600_000, 1_000_000, 1))  # fmt: skip


@pytest.mark.parametrize(("rule", "rows", "advice"), [
    # The words are those of the framework, and of the API where these are its only ones.
    ("copy_bound", BOUND, words()["copy_bound"].advice["cuda"]),
    ("copy_bound", (*BOUND, Kernel(1_000_000, 1_000_010, name="void at::native::fill(int)")),
     words()["copy_bound"].advice["pytorch"]),
    ("copy_bound", (*BOUND, HIP), words()["copy_bound"].advice["cuda"]),
    ("pageable_copies", (Memcpy(0, 500_000, src="Pageable"), GEMM, RELU, HIP),
     words()["pageable_copies"].advice["hip"]),
    *(("one_kernel", (Call(0, 5, 1, name=f"{api}LaunchKernel"), Kernel(5, 1000, 1, name=kernel)), tool)
      for kernel in ("at::native::add", "add")
      for api, tool in (("cuda", "Nsight Compute"), ("hip", "rocprof-compute"))),
    # PyTorch's words on buckets go with all-reduces, and not with an all-to-all.
    *(("exposed_communication", (small_store.Operator(0, 5, "aten::mm"), Kernel(0, 100, name="gemm"),
                                 Kernel(100, 200, name=f"ncclKernel_{name}")), advice)
      for name, advice in (("AllReduce", "Use larger DDP buckets"), ("SendRecv", "Start sends"))),
    *(("allocation", (Call(0, 5_000, 1), Kernel(5_000, 200_000, 1), Call(200_000, 900_000, 0, name=name),
                      Call(900_000, 905_000, 2), Kernel(905_000, 1_000_000, 2)), advice)
      for name, advice in (
        ("cudaMalloc", "Allocate once and reuse"), ("cudaHostAlloc", "Pin memory once"),
        ("hipHostMalloc", "Pin memory once"), ("cudaMallocAsync", "Keep freed memory in the pool"),
        ("cuMemSetAccess", "Map memory once"), ("hipMemMap", "Map memory once"))),
    *(("copy_bound", (Kernel(0, 200_000), Memcpy(200_000, 900_000, direction=direction),
                      Kernel(900_000, 1_000_000)), advice)
      for direction, advice in (("DtoD", "Copy less within"), ("HtoD", "Copy less; "))),
    # What is prefetched need not be told to be.
    ("page_migration", PREFETCH, "Prefetch earlier"),
    ("page_migration", PREFETCH[1:], "Use cudaMemPrefetchAsync"),
])  # fmt: skip
def test_advice_fits_what_was_done(rule: str, rows: tuple[Any, ...], advice: str) -> None:
    said = found(*rows)[rule]["advice"]
    assert advice in said if rule == "one_kernel" else said.startswith(advice)


def test_one_gap_that_is_most_of_a_finding_is_said() -> None:
    """Of two gaps of 800 and 100 µs the first one is 89 %."""
    rows = [
        row for start, number in ((0, 1), (900_000, 2), (1_100_000, 3))
        for row in (Call(start, start + 5_000, number), Kernel(start + 5_000, start + 100_000, number))
    ]  # fmt: skip
    row = found(*rows)["host_bound"]
    assert row["finding"].endswith("One gap accounts for 89 % of it.")
    assert row["advice"].startswith("See what the program does in that gap")


def test_start_up_of_an_idle_device_does_not_precede_the_work_of_another() -> None:
    """GPU 0 works from 0.1 to 1 ms, GPU 1 sets memory for 1 µs in the end, for another process."""
    rows = (
        Call(0, 5_000, 1), Kernel(5_000, 300_000, 1),
        Call(700_000, 705_000, 2), Kernel(705_000, 1_000_000, 2),
    )  # fmt: skip
    for pid in (2, 1):
        other = (Call(990_000, 995_000, 3, pid=pid, name="cudaMemsetAsync"),
                 Memset(998_000, 999_000, 3, pid=pid, device=1))  # fmt: skip
        order = list(found(*rows, *other))
        assert "start_up" not in order or order.index("host_bound") < order.index("start_up")
        assert ("start_up" in order) == (pid == 2)  # a process that works starts up no more
    # But it readies its next device: 300 in cudaMalloc, and 5 until its first launch returned.
    row = found(*rows, Call(310_000, 610_000, name="cudaMalloc"), *other)["start_up"]
    assert (row["device_id"], row["saving_ns"]) == (1, 305_000)


@pytest.mark.parametrize(("captures", "advice"), [
    (4, "Capture each graph once"), (1, "Profile the replays"),
])  # fmt: skip
def test_a_graph_that_is_captured_each_time_is_to_be_captured_once(captures: int, advice: str) -> None:
    """The host captures for 700 µs before each of the last launches, and is late for 50 µs at others."""
    rows: list[Any] = []
    for i in range(4):
        low = i * 1_000_000
        rows += [Call(low, low + 5_000, i + 1, name="cudaGraphLaunch")]
        busy = 200_000 if 4 - i <= captures + 1 else 950_000
        rows += [Graph(low + 5_000, low + busy, i + 1)]
        if busy == 200_000:
            rows += [
                Call(low + 210_000, low + 215_000, 0, name="cudaStreamBeginCapture"),
                Call(low + 910_000, low + 915_000, 0, name="cudaStreamEndCapture"),
            ]
    row = found(*rows)["host_bound"]
    assert row["cause"] == "the GPU waits for host code that captures CUDA graphs"
    assert row["advice"].startswith(advice)


def test_what_ranks_wait_for_each_other_is_not_the_size_of_their_messages() -> None:
    """Each rank is last in one of two all-reduces of 4 kB, which take 10 µs more than the other waits.

    Nothing says why the GPU is idle for 390 µs between them.
    """
    spec = "findings:bucket_size=0:collective_wait=0:exposed_communication=0"
    ranks = []
    for late in (0, 1):
        rows: list[Any] = []
        for low, who in ((0, 0), (1_000_000, 1)):
            start = low + (600_000 if who == late else 100_000)
            rows += [
                Kernel(low, start), reduce(start, low + 610_000),
                Collective(start, low + 610_000, "allreduce", "0", dtype="Byte", in_elements=4096,
                           out_elements=4096),
            ]  # fmt: skip
        ranks.append(rows)
    rows_of = of_ranks(*ranks, spec=spec)
    assert "stragglers" not in rows_of
    assert rows_of["collective_wait"]["saving_ns"] == 500_000
    assert rows_of["exposed_communication"]["saving_ns"] == 520_000
    assert rows_of["exposed_communication"]["same_as"] == "collective_wait"
    assert rows_of["bucket_size"]["saving_ns"] == 20_000
    assert {row["all_savings_pct"] for row in rows_of.values() if row["kind"] == SAVING} == {
        100 * (520_000 + 390_000) / 1_610_000
    }
