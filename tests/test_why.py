"""`nsysconv why`: what launched one event, what it waited for, who waited for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, NSYS, ROOT, few, name_of
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
    by_hand,
    opened,
    write,
)

import nsysconv
from nsysconv import api
from nsysconv.errors import NotRecorded, UsageError
from nsysconv.facts import Fact
from nsysconv.timeline.events import EVENT_KINDS

BASIC = FIXTURES / "nsys" / "basic-3.25.0.sqlite"
MOST_LINES, MOST_COLUMNS = 25, 100
SYNC = "cudaStreamSynchronize"

# The example of docs/definitions/events.md.
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


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Iterator[api.OpenProfile]:
    store = tmp_path_factory.mktemp("example") / "small.db"
    write(store, *EXAMPLE)
    with api.open(store) as profile:
        yield profile


def row_of(event: str, *rows: Row, **options: Any) -> dict[str, Any]:
    """The row of one event of these rows."""
    step_range = options.pop("step_range", None)
    with opened(*rows, **options) as profile:
        (row,) = profile.why(event, step_range=step_range).rows()
    return row


def said_of(event: str, *rows: Row, **options: Any) -> list[str]:
    """What is said of one event of these rows."""
    with opened(*rows, **options) as profile:
        (said,) = profile.why(event).texts
    assert len(said.lines) < MOST_LINES
    # A command is copied as it stands.
    assert all(len(line) <= MOST_COLUMNS for line in said.lines if not line.startswith("   ncu "))
    return list(said.lines)


def test_the_example_of_the_definitions() -> None:
    page = (ROOT / "docs" / "definitions" / "events.md").read_text("utf-8")
    section = page.split("\n## One event\n")[1].split("\n## ")[0]
    named: dict[str, Any] = {"threads": {(1, 11): {"name": "main"}}, "gpus": {0: {"name": "H100"}}}
    for event, name in (("kernel:2", "gemm"), ("gap:1", r"\[idle\]")):
        shown = re.search(rf"\n    {event} {name}\n(?:    .*\n)+", section)
        assert shown is not None
        text = [line[4:] for line in shown[0].strip("\n").splitlines()]
        assert said_of(event, *EXAMPLE, **named) == text


NO_THREAD: Any = None
# Durations 10, 20, 60 and 100: the median is 40.
OF_ONE_NAME = (*(Kernel(t, t + d, name="k") for t, d in ((0, 10), (100, 20), (200, 60), (300, 100))),
               Kernel(500, 501, name="other"), Kernel(None, None, name="k"))  # fmt: skip
OF_EACH_KIND = (Memset(0, 1), Migration(2, 3), Graph(4, 5), Kernel(6, 7, name="k"), Memcpy(8, 9))
LATE_FIRST = (Call(50, 60, name="late"), Call(None, None, name="never"), Call(0, 10, name="early"))
KERNELS_LATE_FIRST = (Kernel(50, 60, name="late"), Kernel(0, 10, name="early"))
UNLINKED = (Kernel(10, 20, 0), Call(0, 5, 7))
CROSSING = (Kernel(0, 50), Kernel(40, 90))
TOGETHER = (Kernel(0, 10), Kernel(30, 40, stream=9), Kernel(30, 40, stream=8))
NO_STREAMS = (Call(0, 45, name=SYNC), Kernel(0, 10, stream=None), Migration(12, 20),
              Kernel(30, 40, stream=None))  # fmt: skip
BEGINS_TOGETHER = (Range(0, 50, "r"), Operator(0, 90, "op"), Range(0, 90, "whole"), Call(0, 90),
                   Kernel(1, 2))  # fmt: skip
INSIDE = (Call(0, 100, 1, name="cudaMemcpy"), Call(10, 90, 1, "driver", name="cuMemcpy"),
          Memcpy(50, 60, 1))  # fmt: skip
NESTED = (Operator(0, 100, "outer"), Operator(0, 50, "inner"), Range(0, 90, "r"), Range(0, 9, "s"))
ANY_THREAD = (Range(0, 100, "outer"), Range(10, 90, "any", "start_end"), Call(20, 25, 1, tid=99),
              Kernel(30, 40, 1))  # fmt: skip
UNTIMED = (Call(0, 5, 1), Kernel(None, None, 1, name="k"), Kernel(10, 20))
SECOND = 10**9
OTHER_CLOCK = (
    Call(0, 10, 1), Call(20, 30, 2), Call(40, 90 * SECOND, name=SYNC),
    Kernel(60 * SECOND, 60 * SECOND + 5, 1), Kernel(60 * SECOND + 15, 60 * SECOND + 20, 2),
)  # fmt: skip
MIGRATION_BETWEEN = (Kernel(0, 10), Migration(15, 20), Kernel(30, 40))
FORWARD = {"step_range": "forw*"}
TWO_RANKS = (
    Call(0, 5, 1, pid=1), Kernel(10, 20, 1, pid=1), Call(0, 5, 1, pid=2, tid=22),
    Kernel(30, 40, 1, pid=2, device=1), Range(0, 9, "ProfilerStep#7", tid=22, pid=2),
)  # fmt: skip
RANKS = {"ranks": {1: 0, 2: 1}}


@by_hand(
    # -- what it is
    ("compared with those of its name", "kernel:3 name_count name_med_ns name_max_ns dur_ns",
     OF_ONE_NAME, (4, 40.0, 100, 60)),
    ("copies are compared with those of their direction", "memcpy:1 name name_count name_max_ns bytes",
     (Memcpy(0, 10), Memcpy(10, 30), Memcpy(30, 90, direction="DtoH")), ("[memcpy HtoD]", 2, 20, 1000)),
    *((f"a {name} has a name", f"{event} name", OF_EACH_KIND, (name,)) for event, name in (
        ("memset:1", "[memset]"), ("migration:1", "[UM HtoD]"), ("graph_launch:1", "[graph launch]"),
        ("kernel:1", "k"), ("memcpy:1", "[memcpy HtoD]"))),
    *((f"id {i} counts the rows of a table and not the moments", f"kernel:{i} name", KERNELS_LATE_FIRST,
       (name,)) for i, name in ((1, "late"), (2, "early"))),
    *((f"id {i} counts calls out of order and without a time", f"api_call:{i} name start_ns", LATE_FIRST,
       expected) for i, expected in ((1, ("late", 50)), (2, ("never", None)), (3, ("early", 0)))),
    # -- what it came from
    ("its call", "kernel:2 call call_name call_start_ns call_dur_ns", EXAMPLE,
     ("api_call:3", "cudaLaunchKernel", 490, 30)),
    ("its operator, ranges and step", "kernel:2 operator operator_name range path step", EXAMPLE,
     ("operator:1", "aten::mm", "range:2", "ProfilerStep#4/forward", "ProfilerStep#4")),
    ("its waits", "kernel:2 latency_ns queue_time_ns", EXAMPLE, (600 - 490, 600 - 520)),
    ("steps may have another name", "kernel:2 step", EXAMPLE, ("forward",), FORWARD),
    ("a call before that step", "kernel:1 step", EXAMPLE, (None,), FORWARD),
    ("a call after that step", "api_call:5 step", EXAMPLE, (None,), FORWARD),
    ("what begins before its call returns has no queue time", "memcpy:1 latency_ns queue_time_ns",
     (Call(0, 100, 1, name="cudaMemcpy"), Memcpy(20, 90, 1)), (20, None)),
    ("without a linked call nothing is said of one", "kernel:1 call tid latency_ns operator step",
     UNLINKED, (None,) * 5),
    ("all is recorded", "kernel:2 not_recorded", EXAMPLE, (None,)),
    ("a call without a thread lies in nothing", "kernel:1 call tid range",
     (Range(0, 100, "r", tid=NO_THREAD), Call(5, 10, 1, tid=NO_THREAD), Kernel(20, 30, 1)),
     ("api_call:1", None, None)),
    # -- what ran before it
    # As in the definitions: 70 of the host, 20 of the profiler, 30 of the launch, 80 in the queue.
    ("the parts of its gap", "kernel:2 host_ns profiler_ns launch_ns queue_ns unknown_ns", EXAMPLE,
     (70, 20, 30, 80, 0)),
    # The host part is [400, 490), less [430, 450): 20 in the call until 420, then 40 in the operator.
    ("its gap", "kernel:2 gap_ns cause gap_ended_by during during_ns", EXAMPLE,
     (200, "queue", "kernel:2", "aten::mm", 40)),
    ("another stream keeps the device busy",
     "kernel:3 before_on_stream since_on_stream_ns before_on_device since_on_device_ns gap_ns",
     (Kernel(0, 10, name="a"), Kernel(0, 95, stream=8, name="b"), Kernel(100, 120, name="c")),
     ("kernel:1", 90, "kernel:2", 5, 5)),
    ("kernels that overlap on a stream leave no gap",
     "kernel:2 before_on_stream since_on_stream_ns gap_ns", CROSSING, ("kernel:1", -10, None)),
    ("of two that begin together one ended the gap", "kernel:2 gap_ns gap_ended_by", TOGETHER,
     (20, "kernel:3")),
    ("devices do not wait for each other", "kernel:3 before_on_device gap_ns",
     (Kernel(0, 10), Kernel(0, 90, device=1), Kernel(50, 60)), ("kernel:1", 40)),
    ("the first one has nothing before it", "kernel:1 before_on_stream before_on_device gap_ns",
     (Call(0, 5, 1), Kernel(10, 20, 1)), (None, None, None)),
    # It is outside of the window.
    ("a migration after the last operation ends no gap", "migration:1 gap_ns",
     (Kernel(0, 10), Migration(30, 40)), (None,)),
    # Nothing of the device ended after it: the call waited for it.
    ("streams that are not recorded are not taken for one",
     "kernel:2 before_on_stream before_on_device waited_by", NO_STREAMS,
     (None, "migration:1", "api_call:1")),
    ("nor for the next one's", "kernel:1 next waited_by", NO_STREAMS, (None, None)),
    ("what begins together lies in the longer one", "operator:1 range path operator", BEGINS_TOGETHER,
     ("range:2", "whole", None)),
    ("a range that begins as others do", "range:1 range operator", BEGINS_TOGETHER,
     ("range:2", "operator:1")),
    ("the longest range that begins as others do", "range:2 range operator", BEGINS_TOGETHER,
     (None, None)),
    ("a call that begins as others do", "api_call:1 range operator", BEGINS_TOGETHER,
     ("range:2", "operator:1")),
    # -- what came of it
    ("the call that waits for it", "memcpy:1 waited_by waited_by_name waited_by_after_ns", EXAMPLE,
     ("api_call:5", SYNC, 10)),
    ("what a call waits for", "api_call:5 waited_for waited_for_before_ns", EXAMPLE, ("memcpy:1", 10)),
    ("nobody waits for what is not the last of its stream", "kernel:2 waited_by", EXAMPLE, (None,)),
    ("the call that returns first waited", "kernel:1 waited_by waited_by_after_ns",
     (Call(0, 200, name="cudaDeviceSynchronize", tid=12), Call(0, 120, name=SYNC), Kernel(5, 100)),
     ("api_call:2", 20)),
    ("what was queued behind it", "kernel:2 next next_name next_after_ns", EXAMPLE,
     ("memcpy:1", "[memcpy DtoH]", 10)),
    ("what was launched later was not queued behind it", "kernel:1 next",
     (Call(0, 5, 1), Kernel(10, 20, 1), Call(20, 30, 2), Kernel(40, 50, 2)), (None,)),
    # -- calls, ranges and operators
    # [490, 520): nothing ran. [700, 1010): gemm until 900, the copy for 90.
    ("a call and what it launched", "api_call:3 op_count op_sum_ns first_op busy_ns", EXAMPLE,
     (1, 300, "kernel:2", 0)),
    ("where a call is and how long its work waits", "api_call:3 latency_ns queue_time_ns operator",
     EXAMPLE, (110, 80, "operator:1")),
    ("what the device did meanwhile", "api_call:5 op_count busy_ns busy_with", EXAMPLE,
     (0, 200 + 90, "kernel:2")),
    # In [0, 100) these ran for 10, 70 and 5.
    ("what ran longest meanwhile is named", "api_call:1 busy_ns busy_with",
     (Call(0, 100, name=SYNC), Kernel(0, 10), Kernel(20, 90), Kernel(95, 500)), (85, "kernel:2")),
    ("nothing lies in a start/end range", "api_call:1 range path",
     (Range(0, 100, "any", "start_end"), Call(5, 10, 1)), (None, None)),
    ("a call inside another says whose the operation is", "api_call:2 outer_call op_count", INSIDE,
     ("api_call:1", 0)),
    ("the outer call has the operation", "api_call:1 outer_call op_count", INSIDE, (None, 1)),
    ("an operator with what it launched",
     "operator:1 sort op_count launch_count op_sum_ns first_op range operator", EXAMPLE,
     ("operator", 2, 2, 390, "kernel:2", "range:2", None)),
    ("a range with what it launched", "range:1 op_count op_sum_ns path busy_ns", EXAMPLE,
     (3, 590, None, 590)),
    ("operators lie in others", "operator:2 operator", NESTED, ("operator:1",)),
    ("the outer operator lies in none", "operator:1 operator", NESTED, (None,)),
    ("ranges lie in others", "range:2 range path operator", NESTED, ("range:1", "r", "operator:2")),
    ("a range of any thread lies in nothing and launches on all", "range:2 sort range op_count",
     ANY_THREAD, ("start_end", None, 1)),
    ("one of a thread launches on that", "range:1 op_count", ANY_THREAD, (0,)),
    ("a mark has a moment and no length", "range:2 name sort start_ns dur_ns range",
     (Range(0, 10, "r"), Range(5, None, "here", "mark")), ("here", "mark", 5, None, "range:1")),
    # -- edge cases
    ("what has no time is named with its call", "kernel:1 name start_ns dur_ns call gap_ns", UNTIMED,
     ("k", None, None, "api_call:1", None)),
    ("clocks that disagree have no latencies and no causes",
     "kernel:2 call latency_ns cause waited_by next", OTHER_CLOCK,
     ("api_call:2", None, "unknown", None, None)),
    ("nor a next one", "kernel:1 next", OTHER_CLOCK, (None,)),
    ("nor what the device did meanwhile", "api_call:2 busy_ns", OTHER_CLOCK, (None,)),
    ("a graph has the parts of its launch", "graph_launch:1 gap_ns host_ns launch_ns queue_ns",
     (Kernel(0, 10), Call(12, 15, 1, name="cudaGraphLaunch"), Graph(20, 50, 1, graph=3)), (10, 2, 3, 5)),
    ("a migration is on no stream", "migration:1 before_on_stream before_on_device cause next",
     MIGRATION_BETWEEN, (None, "kernel:1", "migration", None)),
    ("a rank without steps", "kernel:1 rank step", TWO_RANKS, (0, None), RANKS),
    ("each rank has its own step", "kernel:2 rank step", TWO_RANKS, (1, "ProfilerStep#7"), RANKS),
)  # fmt: skip
def test_columns(
    ask: str, rows: tuple[Row, ...], expected: tuple[Any, ...], options: Any, example: api.OpenProfile
) -> None:
    event, *names = ask.split()
    is_example = rows is EXAMPLE and not options  # which a third of the cases ask
    row = example.why(event).rows()[0] if is_example else row_of(event, *rows, **options)
    assert tuple(row[name] for name in names) == expected


@pytest.mark.parametrize(("event", "rows", "line"), [
    ("kernel:1", UNLINKED, "its launch was not recorded"),
    ("kernel:2", CROSSING, "which ended 10 ns after it began"),
    ("kernel:2", TOGETHER, "   kernel:3 began at the same time; the parts are of its launch\n"),
    # An operation without a device was not on a thread.
    ("kernel:1", (Call(0, 5, 1), Kernel(10, 20, 1, device=None, stream=None)), f"process {PID}\n"),
    ("kernel:1", UNTIMED, "   no timestamp was recorded\n"),
    ("api_call:1", UNTIMED, "launched kernel:1 k, of which no timestamp was recorded\n"),
    ("kernel:2", OTHER_CLOCK, "CPU and GPU timestamps use different clocks"),
])  # fmt: skip
def test_what_is_said(event: str, rows: tuple[Row, ...], line: str) -> None:
    assert line in "\n".join(["", *said_of(event, *rows), ""])


def test_of_streams_that_are_not_recorded_nothing_is_said() -> None:
    assert not any("on its stream" in line for line in said_of("kernel:2", *NO_STREAMS))


def test_what_is_not_recorded_is_named() -> None:
    without = (Fact.API_CALLS, Fact.API_LINKS, Fact.THREADS, Fact.RANGES, Fact.OPERATORS)
    row = row_of("kernel:2", Kernel(0, 10, 1), Kernel(20, 30, 1), without=without)
    assert row["not_recorded"] == (
        "API calls, links from API calls to GPU operations, ranges (NVTX, user annotations), "
        "threads of API calls")  # fmt: skip
    assert (row["cause"], row["unknown_ns"], row["gap_ns"]) == ("unknown", 10, 10)


@pytest.mark.parametrize("name", few(NASTY_NAMES, 2))
def test_hostile_names_fit_and_steer_nothing(name: str) -> None:
    rows = (Range(0, 90, name), Operator(1, 80, name), Call(5, 10, 1, name=name),
            Kernel(20, 30, 1, name=name), Kernel(40, 50, name=name))  # fmt: skip
    for event in ("kernel:1", "kernel:2", "api_call:1", "range:1", "operator:1"):
        assert all(line.isprintable() for line in said_of(event, *rows))


# -- ids


def refused(event: str, *rows: Row) -> UsageError:
    with opened(*rows) as profile, pytest.raises(UsageError) as caught:
        profile.why(event)
    return caught.value


@pytest.mark.parametrize("text", ["kernel", "kernel:", "kernel:x", "kernel:-1", "kernel5", ":5", "",
                                  "kernel:1:2", "kernel:٣"])  # fmt: skip
def test_what_is_no_id_is_refused_with_those_there_are(text: str) -> None:
    error = refused(text, Kernel(0, 10), Kernel(20, 30))
    assert "is no event" in str(error)
    assert "kernel:1 to kernel:2" in error.hint


@pytest.mark.parametrize("text", ["kernel:0", "kernel:3", "kernel:999999999999999999", "memcpy:1"])
def test_an_id_out_of_range_is_refused_with_those_there_are(text: str) -> None:
    error = refused(text, Kernel(0, 10), Kernel(20, 30))
    assert str(error) == f"no event {text}\nThere are: kernel:1 to kernel:2, gap:1"


def test_an_unknown_kind_is_refused_with_the_kinds() -> None:
    error = refused("kernels:1", Kernel(0, 10))
    assert "kind of event 'kernels'" in str(error)
    assert "kernel" in error.hint


def test_a_profile_without_events_says_so() -> None:
    assert refused("kernel:1").hint == "The profile holds no events."


@pytest.mark.parametrize("row", [Total("kernel", 3, 60, name="add"), Metric("ipc", "add", 1.5)])
def test_totals_and_metrics_have_no_events(row: Row) -> None:
    with pytest.raises(NotRecorded, match="kernel events"):
        row_of("kernel:1", row, without=(Fact.KERNELS,))


# -- on the command line, and of all sources


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


@pytest.mark.parametrize("path", few([*EXAMPLES, BASIC], 2), ids=name_of)
def test_a_file_and_a_store_of_several_say_the_same(path: Path, tmp_path: Path) -> None:
    """Of the first, a middle and the last event of each kind; the store holds another profile before."""
    include = includable(path)
    write(tmp_path / "job.db", *EXAMPLE)
    nsysconv.import_files([path], tmp_path / "job.db", include=include, label="it")
    with (nsysconv.open(path, include=include) as file, nsysconv.open(f"{tmp_path}/job.db@it") as stored):
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
        assert [row["event"] for row in profile.report("idle_gaps").rows()] == ["kernel:2", "memcpy:1"]


def test_the_command_of_nsight_compute_counts_launches_of_the_function() -> None:
    """In the order of calls, of one process: `gemm<float>` and `gemm<int>` are one function."""
    rows = (Call(0, 5, 1), Call(10, 15, 2), Call(20, 25, 3), Call(1, 2, 4, pid=2),
            Kernel(90, 95, 1, name="void ns::gemm<float>(int)"), Kernel(30, 40, 2, name="relu"),
            Kernel(50, 60, 3, name="gemm<int>"), Kernel(60, 70, 4, name="gemm<int>", pid=2))  # fmt: skip
    commands = [row_of(f"kernel:{number}", *rows)["profile_command"] for number in (1, 2, 3, 4)]
    skipped = [("gemm", 0), ("relu", 0), ("gemm", 1), ("gemm", 0)]
    assert commands == [
        f"ncu --kernel-name {name} --launch-skip {before} --launch-count 1 PROGRAM"
        for name, before in skipped
    ]
    on_amd = row_of("kernel:1", Kernel(0, 1, name="k"), gpus={0: {"name": "AMD Instinct MI300X"}})
    assert on_amd["profile_command"] is None


def test_own_texts_where_rows_of_a_file_in_place_were_left_out(tmp_path: Path) -> None:
    """Ids of rows that are read begin at 3 there; a mark's text is looked up by its id."""
    source = NSYS / "ranges-3.28.1.sqlite"
    api.import_files([source], tmp_path / "s.db")
    for path in (source, tmp_path / "s.db"):
        with nsysconv.open(path) as profile:
            names = [profile.why(f"range:{number}").rows()[0]["name"] for number in (4, 6, 8)]
        assert names == ["prefetch", "note", "shutdown"]
