"""What queued operations wait for: the operation before them on their stream, or an event's."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import workload
from machine import REDUCE, SAXPY, TRITON, a100, stream
from small_store import Call, Kernel, Memcpy, Row, Sync, answers, cells, opened
from workload import ApiCall, EventRecord, Events, Process, Thread, Workload
from write_kineto import write_kineto
from write_nsys import write_nsys
from write_nsys_rep import write_report
from write_nvprof_database import write_nvprof_database

from nsysconv import api

WAIT, RECORD = "cudaStreamWaitEvent", "cudaEventRecord"
# Stream 7 computes until 500; stream 8 waits for that, and begins at 520 what was launched at 60.
RECORDED = (
    Call(0, 5, 1), Kernel(10, 500, 1, name="compute"),
    Call(20, 25, 2, name=RECORD),
    Call(30, 35, 3, name=WAIT), Sync(31, 32, 3, stream=8, record=2, record_stream=7),
    Call(40, 45, 4), Kernel(50, 100, 4, stream=9, name="other"),
    Call(60, 70, 5), Kernel(520, 600, 5, stream=8, name="reduce"),
    Call(61, 62, 6, name=RECORD),
)  # fmt: skip
BLOCKED = "stream dur_ns queue_ns blocked_by blocked_by_event blocked_ns"


def gaps(*rows: Row, kind: str = "stream", **given: Any) -> list[Any]:
    return cells(f"idle_gaps {BLOCKED}", *rows, idle=(kind,), **given)


def test_an_event_says_whose_work_a_stream_waited_for() -> None:
    """Stream 8's first gap, [10, 520), is queued from 70 on; the computation ended at 500."""
    found = gaps(*RECORDED)
    assert found[0] == ("8", 510, 450, "compute", "kernel:1", 430)
    assert {row[3:] for row in found[1:]} == {(None, None, None)}


def test_sums_have_what_is_known_of_the_queued_part() -> None:
    rows = answers("idle_summary", *RECORDED, idle=("stream",))
    mine = [(row["queue_sum_ns"], row["blocked_sum_ns"]) for row in rows if row["stream"] == "8"]
    assert mine == [(450, 430)]


@pytest.mark.parametrize("rows", [
    # The wait is not recorded, or the source does not say which record it is.
    [row for row in RECORDED if row != Call(30, 35, 3, name=WAIT)],
    [row._replace(record=None) if isinstance(row, Sync) else row for row in RECORDED],
    # A call of another kind waits on the host, not on a stream.
    [row._replace(name="cudaEventSynchronize") if row == Call(30, 35, 3, name=WAIT) else row
     for row in RECORDED],
    # What ends after it began cannot have blocked it.
    [row._replace(end=521) if isinstance(row, Kernel) and row.name == "compute" else row
     for row in RECORDED],
    # Nothing was launched on the stream before the record.
    [row._replace(record_stream=10) if isinstance(row, Sync) else row for row in RECORDED],
    # The wait came after the launch.
    [row._replace(correlation=7) if getattr(row, "correlation", 0) == 3 else row for row in RECORDED],
])  # fmt: skip
def test_without_that_it_is_not_known(rows: list[Row]) -> None:
    assert {row[3:] for row in gaps(*rows)} == {(None, None, None)}


def test_the_call_that_recorded_the_event_need_not_be_recorded() -> None:
    rows = [row for row in RECORDED if row != Call(20, 25, 2, name=RECORD)]
    assert gaps(*rows)[0][3] == "compute"


def test_a_record_stands_for_what_was_launched_before_it() -> None:
    """A kernel launched later on the recording stream, that ends later, is not waited for."""
    later = (Call(26, 28, 9), Kernel(500, 510, 9, name="later"))
    assert gaps(*RECORDED, *later)[0][3:] == ("compute", "kernel:1", 430)


def test_of_several_events_the_last_to_happen_counts() -> None:
    more = (
        Call(46, 47, 10, name=RECORD), Call(48, 49, 11, name=WAIT),
        Sync(48, 49, 11, stream=8, record=10, record_stream=9),
    )  # fmt: skip
    assert gaps(*RECORDED, *more)[0][3:] == ("compute", "kernel:1", 430)


def test_a_copy_before_a_kernel_on_its_stream_blocks_it() -> None:
    rows = (
        Call(0, 5, 1), Kernel(10, 20, 1), Call(22, 24, 2), Memcpy(30, 400, 2), Call(26, 28, 3),
        Kernel(405, 500, 3),
    )  # fmt: skip
    found = gaps(*rows, kind="no_kernel")
    assert found == [(None, 385, 377, "[memcpy HtoD]", "memcpy:1", 372)]


def test_a_slice_names_work_outside_of_it() -> None:
    found = gaps(*RECORDED, part=api.Slice(streams=(8,)), kind="stream")
    assert found == []  # its only operation begins its window
    found = gaps(*RECORDED, part=api.Slice((200, 600), streams=(8,)), kind="stream")
    assert found[0] == ("8", 320, 320, "compute", "kernel:1", 300)


def test_a_device_that_waits_for_another_says_so() -> None:
    rows = [
        Call(0, 5, 1), Kernel(10, 100_000, 1, device=1, name="send"),
        Call(20, 25, 2, name=RECORD), Call(26, 28, 6), Kernel(30, 40, 6, stream=8),
        Call(30, 35, 3, name=WAIT), Sync(31, 32, 3, stream=8, record=2, record_stream=7),
        Call(60, 70, 5), Kernel(100_010, 110_000, 5, stream=8, name="receive"),
    ]  # fmt: skip
    rows = [row._replace(start=1000 * row.start, end=1000 * row.end) for row in rows]
    with opened(*rows) as profile:
        found = {row["rule"]: row["finding"] for row in profile.report("findings").rows()}
        why = profile.why("kernel:3").rows()[0]
    assert found["queue_wait"] == (
        "The GPU was idle for 99.94 ms with work already queued: it was blocked by a dependency, or by "
        "unrecorded work; 99.94 ms of it before operations of stream 8; 99.93 ms of it waiting for send "
        "of GPU 1."
    )
    assert (why["depends_on"], why["depends_on_name"], why["since_depends_on_ns"]) == (
        "kernel:1", "send", 10_000
    )  # fmt: skip


@pytest.mark.parametrize(("name", "until", "said"), [
    ("cudaMemcpy", 60, "; 35.00 µs of it during cudaMemcpy"),
    ("cudaMemcpy", 50, ""),  # less than half of 60 µs
    ("cudaFree", 95, "; 60.00 µs of it during cudaFree"),
    ("cudaDeviceSynchronize", 95, ""),  # waits for the work, and is not what it waits for
    ("cudaMemcpyAsync", 95, ""),
])  # fmt: skip
def test_the_call_during_which_work_was_queued(name: str, until: int, said: str) -> None:
    """Queued from 25 to 85 µs."""
    rows = [Call(0, 2, 1), Kernel(5, 20, 1), Call(20, 25, 2), Call(25, until, 3, name=name),
            Kernel(85, 100, 2)]  # fmt: skip
    rows = [row._replace(start=1000 * row.start, end=1000 * row.end) for row in rows]
    found = {row["rule"]: row["finding"] for row in answers("findings", *rows)}
    assert found["queue_wait"].endswith(f" before operations of stream 7{said}.")


def test_on_two_processes_equal_numbers_are_two_calls() -> None:
    """The same correlation ids and streams in another process name other work."""
    other = [row._replace(pid=2) for row in RECORDED]
    other = [row._replace(end=30, name="theirs") if row[:2] == (10, 500) else row for row in other]
    found = {(row[0], row[3]) for row in gaps(*RECORDED, *other) if row[3]}
    assert found == {("8@1", "compute")}


def slow(rows: list[Row], gap: tuple[int, int], stream: int) -> int:
    """How much of the queued part of a stream's gap had passed when what it waited for had ended."""
    calls = {row.correlation: row for row in rows if isinstance(row, Call)}
    kernels = [row for row in rows if isinstance(row, Kernel)]
    ender = next(row for row in kernels if row.stream == stream and row.start == gap[1])
    own = [k.correlation for k in kernels if k.stream == stream]
    previous = max((number for number in own if number < ender.correlation), default=-1)
    since, best = max(calls[ender.correlation].end, gap[0]), 0
    for wait in (row for row in rows if isinstance(row, Sync) and row.stream == stream):
        if previous < wait.correlation < ender.correlation:
            before = [k for k in kernels
                      if k.stream == wait.record_stream and k.correlation < wait.record]  # fmt: skip
            if before:
                on = max(before, key=lambda k: k.correlation)
                best = max(best, on.end - since if on.end <= ender.start and on != ender else 0)
    return best


def schedule(dice: random.Random) -> list[Row]:
    """Streams that keep to most of the events that they wait for, and not to some."""
    rows, now = list[Row](), 0
    free, pending = dict.fromkeys((7, 8, 9), 0), dict.fromkeys((7, 8, 9), 0)
    records = list[tuple[int, int, int]]()
    for number in range(1, 80):
        now += dice.randrange(2, 10)
        stream, what = dice.choice((7, 8, 9)), dice.random()
        if what < 0.5:
            rows.append(Call(now, now + 1, number))
            start = max(now + 2, free[stream], pending[stream] * (dice.random() < 0.8)) + 1
            free[stream], pending[stream] = start + dice.randrange(1, 60), 0
            rows.append(Kernel(start, free[stream], number, stream=stream))
        elif what < 0.75:
            rows.append(Call(now, now + 1, number, name=RECORD))
            records.append((number, stream, free[stream]))
        elif records:
            record, of, until = dice.choice(records[-3:])
            rows.append(Call(now, now + 1, number, name=WAIT))
            rows.append(Sync(now, now, number, stream=stream, record=record, record_stream=of))
            pending[stream] = max(pending[stream], until)
    return rows


def test_against_a_slow_version() -> None:
    known = 0
    for seed in range(8):
        rows = schedule(random.Random(seed))
        for row in answers("idle_gaps", *rows, idle=("stream",)):
            if row["event"]:
                gap = row["start_ns"], row["start_ns"] + row["dur_ns"]
                assert (row["blocked_ns"] or 0) == slow(rows, gap, int(row["stream"])), (seed, row)
                known += row["blocked_ns"] is not None
    assert known > 8


# -- as sources write it


def written(folder: Path) -> list[Path]:
    """One workload of all sources that have the events of waits."""
    process = Process(3100, "app", (a100(0),))
    main = Thread(process, 3100, "main")
    first, second = stream(process, 7, "null"), stream(process, 20, "blocking")
    calls = (
        (1, "cudaLaunchKernel", 1), (2, "cudaEventRecord", 9), (3, "cudaLaunchKernel", 11),
        (4, "cudaStreamWaitEvent", 14), (5, "cudaLaunchKernel", 17), (6, "cudaEventRecord", 20),
        (7, "cudaLaunchKernel", 22),
    )  # fmt: skip
    kernels = ((first, 1, SAXPY, 2, 100), (first, 3, TRITON, 100, 110), (second, 5, REDUCE, 103, 120),
               (second, 7, SAXPY, 121, 130))  # fmt: skip
    events = Events(
        calls=tuple(
            ApiCall(main, number, f"{name}_v7000", us * 1000, us * 1000 + 900)
            for number, name, us in calls
        ),
        kernels=tuple(
            workload.Kernel(on, call, function, start * 1000, end * 1000, (1, 1, 1), (32, 1, 1), 24)
            for on, call, function, start, end in kernels
        ),
        # Event 5 was recorded twice before the wait and is once more after it; event 6 is another's.
        event_records=(
            EventRecord(second, 2, 6, 0), EventRecord(first, 2, 5, 0), EventRecord(second, 6, 5, 0),
        ),
        syncs=(
            workload.Sync(second, 4, "stream_wait_event", 14_100, 14_200, event_id=5),
            workload.Sync(first, 4, "stream", 14_100, 14_300),
        ),
    )  # fmt: skip
    waits = Workload("waits", "Streams that wait", 200_000, process.devices, (process,), (main,),
                        (first, second), events)  # fmt: skip
    paths = [folder / f"{age}.sqlite" for age in ("3.0.0", "3.17.2", "3.28.1")]
    for path in paths:
        write_nsys(waits, path, path.stem)
    write_nvprof_database(waits, process, folder / "waits.nvvp", "12")
    write_report(paths[1], folder / "waits.nsys-rep", build="2025.1.3.140")
    write_kineto(waits, process, folder / "waits.json", "2.5")
    return [*paths, *(folder / name for name in ("waits.nvvp", "waits.nsys-rep", "waits.json"))]


def test_all_sources_say_the_same(tmp_path: Path) -> None:
    for path in written(tmp_path):
        with api.open(path) as profile:
            rows = profile.report("idle_gaps", idle=("stream",)).rows()
        ((found, waited),) = ((row, row["blocked_ns"]) for row in rows if row["blocked_by"])
        assert (found["stream"], waited) == ("20", 82_100), path  # from 17.9 µs to 100 µs
        assert "saxpy" in found["blocked_by"], path
