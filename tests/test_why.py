"""`nsysconv why`: what launched one event, what it waited for, who waited for it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, ROOT, few, name_of
from golden_cases import run
from nasty import NAMES as NASTY_NAMES
from one_answer import EXAMPLES, includable
from small_store import (
    PID,
    Call,
    Graph,
    Kernel,
    Memcpy,
    Memset,
    Metric,
    Migration,
    Operator,
    Overhead,
    Range,
    Row,
    Total,
    opened,
    write,
)

import nsysconv
from nsysconv.errors import NotRecorded, UsageError
from nsysconv.facts import Fact
from nsysconv.timeline.events import EVENT_KINDS

BASIC = FIXTURES / "nsys" / "basic-3.25.0.sqlite"
MOST_LINES, MOST_COLUMNS = 25, 100
SYNC = "cudaStreamSynchronize"

# The example of docs/definitions.md.
EXAMPLE: tuple[Row, ...] = (
    Range(0, 1100, "ProfilerStep#4"),
    Range(420, 600, "forward"),
    Operator(450, 560, "aten::mm"),
    Overhead(430, 450),
    Call(80, 100, 1),
    Call(300, 420, name=SYNC),
    Call(490, 520, 2),
    Call(530, 540, 3, name="cudaMemcpyAsync"),
    Call(700, 1010, name=SYNC),
    Kernel(200, 400, 1, name="relu"),
    Kernel(600, 900, 2, name="gemm"),
    Memcpy(910, 1000, 3, direction="DtoH", bytes=90),
)


def ask(event: str, *rows: Row, **options: Any) -> dict[str, Any]:
    """The row of one event of these rows."""
    step_range = options.pop("step_range", None)
    with opened(*rows, **options) as profile:
        (row,) = profile.why(event, step_range=step_range).rows()
    return row


def lines(event: str, *rows: Row, **options: Any) -> list[str]:
    """What is said of one event of these rows."""
    with opened(*rows, **options) as profile:
        (said,) = profile.why(event).texts
    assert len(said.lines) < MOST_LINES
    assert max(map(len, said.lines)) <= MOST_COLUMNS
    return list(said.lines)


def some(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


# -- what it is


def test_the_example_of_the_definitions() -> None:
    page = (ROOT / "docs" / "definitions.md").read_text("utf-8")
    section = page.split("\n## One event\n")[1].split("\n## ")[0]
    shown = re.search(r"\n    kernel:2 gemm\n(?:    .*\n)+", section)
    assert shown is not None
    text = [line[4:] for line in shown[0].strip("\n").splitlines()]
    named: dict[str, Any] = {"threads": {(1, 11): {"name": "main"}}, "gpus": {0: {"name": "H100"}}}
    assert lines("kernel:2", *EXAMPLE, **named) == text


def test_an_event_is_compared_with_those_of_its_name() -> None:
    """Durations 10, 20, 60 and 100: the median is 40."""
    rows = [Kernel(t, t + d, name="k") for t, d in ((0, 10), (100, 20), (200, 60), (300, 100))]
    others = (Kernel(500, 501, name="other"), Kernel(None, None, name="k"))
    row = ask("kernel:3", *rows, *others)
    assert some(row, "name_count", "name_med_ns", "name_max_ns", "dur_ns") == (4, 40.0, 100, 60)


def test_copies_are_compared_with_those_of_their_direction() -> None:
    row = ask("memcpy:1", Memcpy(0, 10), Memcpy(10, 30), Memcpy(30, 90, direction="DtoH"))
    assert some(row, "name", "name_count", "name_max_ns", "bytes") == ("[memcpy HtoD]", 2, 20, 1000)


@pytest.mark.parametrize(("event", "name"), [
    ("memset:1", "[memset]"), ("migration:1", "[UM HtoD]"), ("graph_launch:1", "[graph launch]"),
    ("kernel:1", "k"), ("memcpy:1", "[memcpy HtoD]")])  # fmt: skip
def test_every_kind_of_operation_has_a_name(event: str, name: str) -> None:
    rows = (Memset(0, 1), Migration(2, 3), Graph(4, 5), Kernel(6, 7, name="k"), Memcpy(8, 9))
    assert ask(event, *rows)["name"] == name


def test_ids_count_the_rows_of_a_table_and_not_the_moments() -> None:
    rows = (Kernel(50, 60, name="late"), Kernel(0, 10, name="early"))
    assert [ask(f"kernel:{i}", *rows)["name"] for i in (1, 2)] == ["late", "early"]


def test_calls_out_of_order_and_without_a_time_have_the_ids_of_their_rows() -> None:
    rows = (Call(50, 60, name="late"), Call(None, None, name="never"), Call(0, 10, name="early"))
    found = [some(ask(f"api_call:{i}", *rows), "name", "start_ns") for i in (1, 2, 3)]
    assert found == [("late", 50), ("never", None), ("early", 0)]


# -- what it came from


def test_the_call_with_its_operator_ranges_and_step() -> None:
    row = ask("kernel:2", *EXAMPLE)
    assert some(row, "call", "call_name", "call_start_ns", "call_dur_ns") == (
        "api_call:3", "cudaLaunchKernel", 490, 30)  # fmt: skip
    assert some(row, "operator", "operator_name", "range", "path") == (
        "operator:1", "aten::mm", "range:2", "ProfilerStep#4/forward")  # fmt: skip
    assert row["step"] == "ProfilerStep#4"
    assert some(row, "latency_ns", "queue_time_ns") == (600 - 490, 600 - 520)


def test_steps_may_have_another_name() -> None:
    assert ask("kernel:2", *EXAMPLE, step_range="forw*")["step"] == "forward"
    # One call is before that step, the other after it.
    assert ask("kernel:1", *EXAMPLE, step_range="forw*")["step"] is None
    assert ask("api_call:5", *EXAMPLE, step_range="forw*")["step"] is None


def test_an_operation_that_begins_before_its_call_returns_has_no_queue_time() -> None:
    row = ask("memcpy:1", Call(0, 100, 1, name="cudaMemcpy"), Memcpy(20, 90, 1))
    assert some(row, "latency_ns", "queue_time_ns") == (20, None)


def test_without_a_linked_call_nothing_is_said_of_one() -> None:
    said = lines("kernel:1", Kernel(10, 20, 0), Call(0, 5, 7))
    assert "what launched it is not recorded" in said
    row = ask("kernel:1", Kernel(10, 20, 0), Call(0, 5, 7))
    assert some(row, "call", "tid", "latency_ns", "operator", "step") == (None,) * 5


def test_what_is_not_recorded_is_named() -> None:
    rows = (Kernel(0, 10, 1), Kernel(20, 30, 1))
    without = (Fact.API_CALLS, Fact.API_LINKS, Fact.THREADS, Fact.RANGES, Fact.OPERATORS)
    row = ask("kernel:2", *rows, without=without)
    assert row["not_recorded"] == (
        "API calls, links from API calls to GPU operations, ranges (NVTX, user annotations), "
        "threads of API calls")  # fmt: skip
    assert some(row, "cause", "unknown_ns", "gap_ns") == ("unknown", 10, 10)
    assert ask("kernel:2", *EXAMPLE)["not_recorded"] is None


def test_a_call_without_a_thread_lies_in_nothing() -> None:
    thread: Any = None
    rows = (Range(0, 100, "r", tid=thread), Call(5, 10, 1, tid=thread), Kernel(20, 30, 1))
    assert some(ask("kernel:1", *rows), "call", "tid", "range") == ("api_call:1", None, None)


# -- what ran before it


def test_the_gap_and_its_parts() -> None:
    """As in the definitions: 70 of the host, 20 of the profiler, 30 of the launch, 80 in the queue."""
    row = ask("kernel:2", *EXAMPLE)
    parts = some(row, "host_ns", "profiler_ns", "launch_ns", "queue_ns", "unknown_ns")
    assert parts == (70, 20, 30, 80, 0)
    assert some(row, "gap_ns", "cause", "gap_ended_by") == (200, "queue", "kernel:2")
    # The host part is [400, 490), less [430, 450): 20 in the call until 420, then 40 in the operator.
    assert some(row, "during", "during_ns") == ("aten::mm", 40)


def test_another_stream_keeps_the_device_busy() -> None:
    rows = (Kernel(0, 10, name="a"), Kernel(0, 95, stream=8, name="b"), Kernel(100, 120, name="c"))
    row = ask("kernel:3", *rows)
    assert some(row, "before_on_stream", "since_on_stream_ns") == ("kernel:1", 90)
    assert some(row, "before_on_device", "since_on_device_ns") == ("kernel:2", 5)
    assert row["gap_ns"] == 5


def test_kernels_that_overlap_on_a_stream_leave_no_gap() -> None:
    row = ask("kernel:2", Kernel(0, 50), Kernel(40, 90))
    assert some(row, "before_on_stream", "since_on_stream_ns", "gap_ns") == ("kernel:1", -10, None)
    assert "which ended 10 ns after it began" in "\n".join(
        lines("kernel:2", Kernel(0, 50), Kernel(40, 90))
    )


def test_of_two_that_begin_together_one_ended_the_gap() -> None:
    rows = (Kernel(0, 10), Kernel(30, 40, stream=9), Kernel(30, 40, stream=8))
    assert some(ask("kernel:2", *rows), "gap_ns", "gap_ended_by") == (20, "kernel:3")
    assert "   kernel:3 began at the same time; the parts are of its launch" in lines(
        "kernel:2", *rows
    )


def test_devices_do_not_wait_for_each_other() -> None:
    rows = (Kernel(0, 10), Kernel(0, 90, device=1), Kernel(50, 60))
    row = ask("kernel:3", *rows)
    assert some(row, "before_on_device", "gap_ns") == ("kernel:1", 40)


def test_the_first_one_has_nothing_before_it() -> None:
    row = ask("kernel:1", Call(0, 5, 1), Kernel(10, 20, 1))
    assert some(row, "before_on_stream", "before_on_device", "gap_ns") == (None, None, None)


def test_a_migration_after_the_last_operation_ends_no_gap() -> None:
    """It is outside of the window."""
    assert ask("migration:1", Kernel(0, 10), Migration(30, 40))["gap_ns"] is None


def test_streams_that_are_not_recorded_are_not_taken_for_one() -> None:
    sync = Call(0, 45, name=SYNC)
    rows = (sync, Kernel(0, 10, stream=None), Migration(12, 20), Kernel(30, 40, stream=None))
    row = ask("kernel:2", *rows)
    assert some(row, "before_on_stream", "before_on_device") == (None, "migration:1")
    assert not any("on its stream" in line for line in lines("kernel:2", *rows))
    assert row["waited_by"] == "api_call:1"  # nothing of the device ended after it
    assert some(ask("kernel:1", *rows), "next", "waited_by") == (None, None)


def test_an_operation_without_a_device_was_not_on_a_thread() -> None:
    rows = (Call(0, 5, 1), Kernel(10, 20, 1, device=None, stream=None))
    assert lines("kernel:1", *rows)[1].strip() == f"process {PID}"


def test_what_begins_together_lies_in_the_longer_one() -> None:
    rows = (Range(0, 50, "r"), Operator(0, 90, "op"), Range(0, 90, "whole"), Call(0, 90), Kernel(1, 2))
    assert some(ask("operator:1", *rows), "range", "path", "operator") == ("range:2", "whole", None)
    assert some(ask("range:1", *rows), "range", "operator") == ("range:2", "operator:1")
    assert some(ask("range:2", *rows), "range", "operator") == (None, None)
    assert some(ask("api_call:1", *rows), "range", "operator") == ("range:2", "operator:1")


# -- what came of it


def test_a_call_that_waits_and_the_operation_that_it_waits_for() -> None:
    copy = ask("memcpy:1", *EXAMPLE)
    assert some(copy, "waited_by", "waited_by_name", "waited_by_after_ns") == (
        "api_call:5",
        SYNC,
        10,
    )
    wait = ask("api_call:5", *EXAMPLE)
    assert some(wait, "waited_for", "waited_for_before_ns") == ("memcpy:1", 10)


def test_nobody_waits_for_what_is_not_the_last_of_its_stream() -> None:
    assert ask("kernel:2", *EXAMPLE)["waited_by"] is None


def test_the_call_that_returns_first_waited() -> None:
    rows = (
        Call(0, 200, name="cudaDeviceSynchronize", tid=12),
        Call(0, 120, name=SYNC),
        Kernel(5, 100),
    )
    assert some(ask("kernel:1", *rows), "waited_by", "waited_by_after_ns") == ("api_call:2", 20)


def test_what_was_queued_behind_it() -> None:
    row = ask("kernel:2", *EXAMPLE)
    assert some(row, "next", "next_name", "next_after_ns") == ("memcpy:1", "[memcpy DtoH]", 10)


def test_what_was_launched_later_was_not_queued_behind_it() -> None:
    row = ask("kernel:1", Call(0, 5, 1), Kernel(10, 20, 1), Call(20, 30, 2), Kernel(40, 50, 2))
    assert row["next"] is None


# -- calls, ranges and operators


def test_a_call_and_what_the_device_did_meanwhile() -> None:
    """[490, 520): nothing ran. [700, 1010): gemm until 900, the copy for 90."""
    launch = ask("api_call:3", *EXAMPLE)
    assert some(launch, "op_count", "op_sum_ns", "first_op", "busy_ns") == (1, 300, "kernel:2", 0)
    assert some(launch, "latency_ns", "queue_time_ns", "operator") == (110, 80, "operator:1")
    wait = ask("api_call:5", *EXAMPLE)
    assert some(wait, "op_count", "busy_ns", "busy_with") == (0, 200 + 90, "kernel:2")


def test_what_ran_longest_meanwhile_is_named() -> None:
    """In [0, 100) these ran for 10, 70 and 5."""
    rows = (Call(0, 100, name=SYNC), Kernel(0, 10), Kernel(20, 90), Kernel(95, 500))
    assert some(ask("api_call:1", *rows), "busy_ns", "busy_with") == (85, "kernel:2")


def test_nothing_lies_in_a_start_end_range() -> None:
    rows = (Range(0, 100, "any", "start_end"), Call(5, 10, 1))
    assert some(ask("api_call:1", *rows), "range", "path") == (None, None)


def test_a_call_inside_another_says_whose_the_operation_is() -> None:
    rows = (
        Call(0, 100, 1, name="cudaMemcpy"),
        Call(10, 90, 1, "driver", name="cuMemcpy"),
        Memcpy(50, 60, 1),
    )
    assert some(ask("api_call:2", *rows), "outer_call", "op_count") == ("api_call:1", 0)
    assert some(ask("api_call:1", *rows), "outer_call", "op_count") == (None, 1)


def test_an_operator_and_a_range_with_what_they_launched() -> None:
    operator = ask("operator:1", *EXAMPLE)
    assert some(operator, "sort", "op_count", "launch_count", "op_sum_ns") == (
        "operator",
        2,
        2,
        390,
    )
    assert some(operator, "first_op", "range", "operator") == ("kernel:2", "range:2", None)
    step = ask("range:1", *EXAMPLE)
    assert some(step, "op_count", "op_sum_ns", "path", "busy_ns") == (3, 590, None, 590)


def test_operators_and_ranges_lie_in_others() -> None:
    rows = (
        Operator(0, 100, "outer"),
        Operator(0, 50, "inner"),
        Range(0, 90, "r"),
        Range(0, 9, "s"),
    )
    assert ask("operator:2", *rows)["operator"] == "operator:1"
    assert ask("operator:1", *rows)["operator"] is None
    assert some(ask("range:2", *rows), "range", "path", "operator") == (
        "range:1",
        "r",
        "operator:2",
    )


def test_a_range_of_any_thread_lies_in_nothing_and_launches_on_all() -> None:
    rows = (
        Range(0, 100, "outer"),
        Range(10, 90, "any", "start_end"),
        Call(20, 25, 1, tid=99),
        Kernel(30, 40, 1),
    )
    row = ask("range:2", *rows)
    assert some(row, "sort", "range", "op_count") == ("start_end", None, 1)
    assert ask("range:1", *rows)["op_count"] == 0


def test_a_mark_has_a_moment_and_no_length() -> None:
    row = ask("range:2", Range(0, 10, "r"), Range(5, None, "here", "mark"))
    assert some(row, "name", "sort", "start_ns", "dur_ns", "range") == (
        "here",
        "mark",
        5,
        None,
        "range:1",
    )


# -- edge cases


def test_what_has_no_time_is_named_with_its_call() -> None:
    rows = (Call(0, 5, 1), Kernel(None, None, 1, name="k"), Kernel(10, 20))
    row = ask("kernel:1", *rows)
    assert some(row, "name", "start_ns", "dur_ns", "call", "gap_ns") == (
        "k",
        None,
        None,
        "api_call:1",
        None,
    )
    assert "   no time was recorded" in lines("kernel:1", *rows)
    assert "launched kernel:1 k, of which no time was recorded" in lines("api_call:1", *rows)


def test_clocks_that_disagree_have_no_latencies_and_no_causes() -> None:
    second = 10**9
    first = 60 * second
    rows = (Call(0, 10, 1), Call(20, 30, 2), Call(40, 90 * second, name=SYNC),
            Kernel(first, first + 5, 1), Kernel(first + 15, first + 20, 2))  # fmt: skip
    row = ask("kernel:2", *rows)
    assert some(row, "call", "latency_ns", "cause", "waited_by", "next") == (
        "api_call:2", None, "unknown", None, None)  # fmt: skip
    assert ask("kernel:1", *rows)["next"] is None
    said = "\n".join(lines("kernel:2", *rows))
    assert "CPU and GPU times are not on one clock" in said
    assert ask("api_call:2", *rows)["busy_ns"] is None


def test_a_graph_has_the_parts_of_its_launch() -> None:
    rows = (Kernel(0, 10), Call(12, 15, 1, name="cudaGraphLaunch"), Graph(20, 50, 1, graph=3))
    row = ask("graph_launch:1", *rows)
    assert some(row, "gap_ns", "host_ns", "launch_ns", "queue_ns") == (10, 2, 3, 5)


def test_a_migration_is_on_no_stream() -> None:
    row = ask("migration:1", Kernel(0, 10), Migration(15, 20), Kernel(30, 40))
    assert some(row, "before_on_stream", "before_on_device", "cause", "next") == (
        None, "kernel:1", "migration", None)  # fmt: skip


@pytest.mark.parametrize("name", few(NASTY_NAMES, 8))
def test_hostile_names_fit_and_steer_nothing(name: str) -> None:
    rows = (Range(0, 90, name), Operator(1, 80, name), Call(5, 10, 1, name=name),
            Kernel(20, 30, 1, name=name), Kernel(40, 50, name=name))  # fmt: skip
    for event in ("kernel:1", "kernel:2", "api_call:1", "range:1", "operator:1"):
        assert all(line.isprintable() for line in lines(event, *rows))


def test_each_rank_has_its_own_step() -> None:
    rows = (Call(0, 5, 1, pid=1), Kernel(10, 20, 1, pid=1), Call(0, 5, 1, pid=2, tid=22),
            Kernel(30, 40, 1, pid=2, device=1), Range(0, 9, "ProfilerStep#7", tid=22, pid=2))  # fmt: skip
    found = [some(ask(f"kernel:{i}", *rows, ranks={1: 0, 2: 1}), "rank", "step") for i in (1, 2)]
    assert found == [(0, None), (1, "ProfilerStep#7")]


# -- ids


@pytest.mark.parametrize("text", ["kernel", "kernel:", "kernel:x", "kernel:-1", "kernel5", ":5", "",
                                  "kernel:1:2", "kernel:٣"])  # fmt: skip
def test_what_is_no_id_is_refused_with_those_there_are(text: str) -> None:
    with opened(Kernel(0, 10), Kernel(20, 30)) as profile, pytest.raises(UsageError) as refused:
        profile.why(text)
    assert "is no event" in str(refused.value)
    assert "kernel:1 to kernel:2" in refused.value.hint


@pytest.mark.parametrize("text", ["kernel:0", "kernel:3", "kernel:999999999999999999", "memcpy:1"])
def test_an_id_out_of_range_is_refused_with_those_there_are(text: str) -> None:
    with opened(Kernel(0, 10), Kernel(20, 30)) as profile, pytest.raises(UsageError) as refused:
        profile.why(text)
    assert str(refused.value) == f"no event {text}\nThere are: kernel:1 to kernel:2"


def test_an_unknown_kind_is_refused_with_the_kinds() -> None:
    with (
        opened(Kernel(0, 10)) as profile,
        pytest.raises(UsageError, match="kind of event 'kernels'") as refused,
    ):
        profile.why("kernels:1")
    assert "kernel" in refused.value.hint


def test_a_profile_without_events_says_so() -> None:
    with opened() as profile, pytest.raises(UsageError) as refused:
        profile.why("kernel:1")
    assert refused.value.hint == "The profile holds no events."


@pytest.mark.parametrize(
    "rows", [(Total("kernel", 3, 60, name="add"),), (Metric("ipc", "add", 1.5),)]
)
def test_totals_and_metrics_have_no_events(rows: tuple[Row, ...]) -> None:
    without = (Fact.KERNELS,)
    with (
        opened(*rows, without=without) as profile,
        pytest.raises(NotRecorded, match="kernel events"),
    ):
        profile.why("kernel:1")


# -- on the command line, and of all sources


def test_the_command_prints_it(tmp_path: Path) -> None:
    write(tmp_path / "job.db", *EXAMPLE)
    outcome = run("why", "job.db", "kernel:2", cwd=tmp_path)
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.splitlines()[1] == "kernel:2 gemm"
    assert len(outcome.out.splitlines()) <= MOST_LINES


def test_json_has_a_key_and_the_columns(tmp_path: Path) -> None:
    write(tmp_path / "job.db", *EXAMPLE)
    document = json.loads(run("why", "job.db", "kernel:2", "-f", "json", cwd=tmp_path).out)
    (report,) = document["reports"]
    (row,) = report["rows"]
    assert (report["report"], row["key"], row["call"]) == ("why", "kind=kernel | name=gemm", "api_call:3")


def test_kernels_may_be_spelled_otherwise(tmp_path: Path) -> None:
    write(tmp_path / "job.db", Kernel(0, 10, name="void gemm<float>(int)", short="gemm"))
    assert (
        run("why", "job.db", "kernel:1", "--names", "short", cwd=tmp_path).out.splitlines()[1]
        == "kernel:1 gemm"
    )


def test_one_of_several_profiles_is_chosen(tmp_path: Path) -> None:
    """Each counts its own events from 1."""
    for label, name in (("a", "first"), ("b", "second")):
        write(tmp_path / "job.db", Kernel(0, 10, name=name), Call(0, 1), label=label)
    said = run("why", "job.db@b", "kernel:1", cwd=tmp_path).out.splitlines()
    assert said[1] == "kernel:1 second"
    refused = run("why", "job.db", "kernel:1", cwd=tmp_path)
    assert refused.status == 2 and "job.db@a" in refused.err


@pytest.mark.parametrize("path", [*EXAMPLES, BASIC], ids=name_of)
def test_a_file_and_a_store_of_several_say_the_same(path: Path, tmp_path: Path) -> None:
    """Of the first, a middle and the last event of each kind; the store holds another profile before."""
    include = includable(path)
    write(tmp_path / "job.db", *EXAMPLE)
    nsysconv.import_files([path], tmp_path / "job.db", include=include, label="it")
    with (
        nsysconv.open(path, include=include) as file,
        nsysconv.open(f"{tmp_path}/job.db@it") as stored,
    ):
        for kind, table in EVENT_KINDS.items():
            count = file.profile.row_count(table)
            assert stored.profile.row_count(table) == count
            for number in sorted({1, count // 2, count} - {0}) if count else ():
                answers = [
                    [{**row, "profile": None} for row in profile.why(f"{kind}:{number}").rows()]
                    for profile in (file, stored)
                ]
                assert answers[0] == answers[1]


def test_ids_of_other_reports_are_understood() -> None:
    """What ended a gap, and what a finding is about."""
    with nsysconv.open(BASIC) as profile:
        asked = [
            row["event"]
            for name in ("idle_gaps", "findings")
            for row in profile.report(name).rows()
        ]
        for event in filter(None, asked):
            assert profile.why(event).rows()[0]["event"] == event
    assert len(list(filter(None, asked))) > 10


def test_a_gap_names_the_event_that_ended_it() -> None:
    with opened(*EXAMPLE) as profile:
        assert [row["event"] for row in profile.report("idle_gaps").rows()] == [
            "kernel:2",
            "memcpy:1",
        ]
