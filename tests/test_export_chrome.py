"""Chrome traces: what every file's export holds, how it is spelled, and that we read it back."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import ExitStack, closing
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from conftest import NSYS, REAL_FILES, REAL_TRACES, few, name_of, real
from small_store import PID, Call, Kernel, Memcpy, Range, write
from traces import SOURCES, document, drawn, exported, ns, problems, stored, timelines

from nsysconv import api
from nsysconv.api.exporting import Exported, export_profiles
from nsysconv.export import chrome
from nsysconv.export.contract import Options, Written
from nsysconv.report import MISSING
from nsysconv.store.location import reading
from nsysconv.timeline.slices import Slice
from nsysconv.timeline.timeline import Timeline

BASIC = NSYS / "basic-3.28.1.sqlite"
TWO_GPUS = NSYS / "two_processes_two_gpus-3.24.7.sqlite"


def made_of(source: Path, folder: Path, suffix: str = ".json") -> Exported:
    """The export of a file that holds a profile."""
    return export_profiles(source, path=folder / f"trace{suffix}")


def check(source: Path, folder: Path, part: Slice | None = None) -> None:
    made = exported(source, folder, part=part)
    if made is None:
        return
    found = document(made.path)
    events = found["traceEvents"]
    assert problems(events) == []
    with timelines(source, part) as lines:
        counts, sums = stored(lines)
    assert drawn(events) == (counts, sums)
    written = {kind: n for kind, n in made.written.counts.items() if n and kind != "counter"}
    assert written == dict(counts)


@pytest.mark.parametrize("source", few(SOURCES, 1), ids=name_of)
def test_every_file(source: Path, tmp_path: Path) -> None:
    """Counts and sums by kind are the store's, no slices cross, arrows have two ends."""
    check(source, tmp_path)


@pytest.mark.parametrize("source", [*few(SOURCES, 0), TWO_GPUS], ids=name_of)
def test_slices_of_files(source: Path, tmp_path: Path) -> None:
    """The same of a part of the time, whose arrows have both ends in it."""
    check(source, tmp_path, Slice(time=(20_000, 150_000)))


@real
@pytest.mark.parametrize("source", few([*REAL_FILES, *REAL_TRACES], 1), ids=name_of)
def test_every_real_file(source: Path, tmp_path: Path) -> None:
    check(source, tmp_path)


# -- read back

Row = tuple[Any, ...]


def facts_of(lines: list[Timeline]) -> dict[str, Counter[Row]]:
    """Of kernels, copies, sets, calls and ranges what a Chrome trace keeps, each row once.

    Not kept: which of two API functions of one documented name was called, kinds of ranges, domains, and
    rows of kinds that PyTorch's profiler does not have.
    """
    found: dict[str, Counter[Row]] = {}
    on_gpu = ("device_id", "context_id", "stream_id", "correlation_id")
    for table, columns in (
        ("kernel", (*on_gpu, "grid_x", "grid_y", "grid_z", "block_x", "registers_per_thread",
                    "occupancy_pct")),
        ("memcpy", (*on_gpu, "bytes", "direction")),
        ("memset", (*on_gpu, "bytes", "memory_kind")),
        ("api_call", ("pid", "tid", "correlation_id", "layer")),
        ("range", ("pid", "tid")),
    ):  # fmt: skip
        rows: Counter[Row] = Counter()
        for line in lines:
            rows.update(_rows(line, table, columns))
        if rows:
            found[table] = rows
    return found


def _rows(line: Timeline, table: str, columns: tuple[str, ...]) -> list[Row]:
    named = ("name_id",) if table in ("kernel", "api_call") else ()
    kinds = ("kind",) if table == "range" else ()
    column = line.columns(table, ("start_ns", "dur_ns", *columns, *named, *kinds))
    start, dur = column["start_ns"], column["dur_ns"]
    if table == "range":
        last = line.profile.attributes["recording_ns"] or 0
        dur = np.where((dur == MISSING) & (column["kind"] != 2), np.maximum(last - start, 0), dur)
    kept = (start != MISSING) & (dur != MISSING)
    cells = [dur[kept].tolist()]
    cells += [known(column[c][kept]) for c in columns]
    if named:
        texts = line.profile.names(np.unique(column["name_id"]), plain=table == "api_call")
        cells.append([texts[i] for i in column["name_id"][kept].tolist()])
    return list(zip(*cells, strict=True))


def known(values: np.ndarray) -> list[int | None]:
    """A column's values; none of 0 and null, which say the same of ids."""
    return [None if value in (MISSING, 0) else value for value in values.tolist()]


def read_back(source: Path, folder: Path) -> tuple[dict[str, Counter[Row]], dict[str, Counter[Row]]]:
    """What a file holds, and what our importer finds in its export."""
    made = made_of(source, folder)
    with timelines(source) as lines:
        before = facts_of(lines)
    with timelines(made.path) as lines:
        return before, facts_of(lines)


ONE_PROCESS = [
    path
    for path in SOURCES
    if path.name.startswith(("basic-", "graphs-", "unified_memory-", "ranges-", "training-", "cpu_side-",
                             "recorded-"))
    and path.suffix not in (".txt", ".csv", ".tsv")
    and not path.parent.name.startswith("nsys_stats")
]  # fmt: skip


@pytest.mark.parametrize("source", few(ONE_PROCESS, 1), ids=name_of)
def test_our_importer_reads_it_back(source: Path, tmp_path: Path) -> None:
    """Each row with its times, places, bytes, shapes and correlation id."""
    before, after = read_back(source, tmp_path)
    for table in ("kernel", "memcpy", "memset", "api_call", "range"):
        assert after.get(table) == before.get(table), table


def links(line: Timeline) -> Counter[Row]:
    """Per API function and kind of operation how many operations it launched, and how long they took."""
    found: Counter[Row] = Counter()
    for op, call in enumerate(line.owner.tolist()):
        if line.ops.kind[op] <= 2 and line.ops.timed[op]:
            name = None if call < 0 else line.call_names[int(line.calls.name_id[call])]
            tid = None if call < 0 else line.calls.threads[line.calls.thread[call]]
            found[name, tid, int(line.ops.kind[op]), int(line.ops.dur[op])] += 1
    return found


LINKED = [path for path in ONE_PROCESS if path.suffix in (".sqlite", ".nvvp")
          and not path.name.startswith("ranges")]  # fmt: skip


@pytest.mark.parametrize("source", few(LINKED[::3], 1), ids=name_of)
def test_links_are_read_back(source: Path, tmp_path: Path) -> None:
    """Each operation belongs to the call it belonged to, on its thread."""
    made = made_of(source, tmp_path)
    with timelines(source) as before, timelines(made.path) as after:
        wanted, found = (sum(map(links, lines), Counter()) for lines in (before, after))
    assert wanted == found
    assert wanted


def test_two_processes_with_two_gpus_are_read_back(tmp_path: Path) -> None:
    """Each process's rows come back as a profile of their own: all of them, with all links."""
    made = made_of(TWO_GPUS, tmp_path)
    api.import_files([made.path], tmp_path / "back.db")
    with reading(tmp_path / "back.db") as store, timelines(TWO_GPUS) as before:
        after = [Timeline(profile) for profile in store.profiles()]
        assert len(after) == 2
        assert facts_of(after) == facts_of(before)
        assert sum(map(links, after), Counter()) == links(before[0])


def test_tables_that_are_not_read_back(tmp_path: Path) -> None:
    """What PyTorch's profiler has no rows of, and that ranges are of several domains and kinds."""
    source = NSYS / "cpu_side-3.28.1.sqlite"
    made = made_of(source, tmp_path)
    lost = {"osrt_call", "mpi_call", "page_fault", "memory_event", "graph_node", "mark"}
    assert lost & made.written.counts.keys() == {
        kind for kind in lost if made.written.counts.get(kind, 0) > 0
    }
    with timelines(made.path) as after:
        counts = {table: n for line in after for table, n in stored([line])[0].items()}
        ranges = [line.profile.columns("range", ("kind", "domain_id")) for line in after]
    assert not counts.keys() & (lost - {"memory_event"})
    assert all((column == 0).all() for columns in ranges for column in columns.values())


# -- how it is spelled


def events_of(*rows: Any, part: Slice | None = None) -> list[dict[str, Any]]:
    with TemporaryDirectory() as folder:
        write(Path(folder) / "store.db", *rows)
        made = exported(Path(folder) / "store.db", Path(folder), part=part)
        assert made is not None
        return list(document(made.path)["traceEvents"])


def slices_of(events: list[dict[str, Any]], category: str) -> list[dict[str, Any]]:
    return [event for event in events if event.get("cat") == category and event["ph"] in "Xi"]


def names_of_tracks(events: list[dict[str, Any]]) -> dict[tuple[Any, Any], str]:
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}


def test_a_kernel_and_its_call() -> None:
    """1,234,567 ns are 1234.567 us, to the digit, and the arrow goes from the call to the kernel."""
    events = events_of(
        Kernel(1_234_567, 1_236_568, 5, grid=(8, 2, 1), block=(64, 1, 1), registers=32,
               static=100, dynamic=24),
        Call(1_000_001, 1_000_501, 5),
    )  # fmt: skip
    (kernel,) = slices_of(events, "kernel")
    assert (kernel["ts"], kernel["dur"]) == (Decimal("1234.567"), Decimal("2.001"))
    assert kernel["args"] == {
        "device": 0, "stream": 7, "grid": [8, 2, 1], "block": [64, 1, 1],
        "registers per thread": 32, "shared memory": 124, "static shared memory": 100,
        "dynamic shared memory": 24, "correlation": 5,
    }  # fmt: skip
    (call,) = slices_of(events, "cuda_runtime")
    (begin,), (end,) = ([e for e in events if e["ph"] == phase] for phase in "sf")
    assert begin["id"] == end["id"]
    for arrow, at in ((begin, call), (end, kernel)):
        assert [arrow[k] for k in ("pid", "tid", "ts")] == [at[k] for k in ("pid", "tid", "ts")]


def test_a_copy() -> None:
    """3,000 bytes in 1,000 ns are 3 GB/s."""
    events = events_of(Memcpy(2_000, 3_000, bytes=3_000))
    (copy,) = slices_of(events, "gpu_memcpy")
    assert copy["name"] == "Memcpy HtoD (Pageable -> Device)"
    assert (copy["args"]["bytes"], copy["args"]["memory bandwidth (GB/s)"]) == (3_000, 3)


def test_times_before_zero() -> None:
    (kernel,) = slices_of(events_of(Kernel(-1_500, 2_500)), "kernel")
    assert (kernel["ts"], kernel["dur"]) == (Decimal("-1.500"), 4)


def test_overlapping_kernels_have_lanes_of_their_own() -> None:
    """The second runs while the first does, and is no part of it; the third when both are over."""
    events = events_of(Kernel(100, 400), Kernel(200, 300), Kernel(400, 500))
    names = names_of_tracks(events)
    found = [names[e["pid"], e["tid"]] for e in slices_of(events, "kernel")]
    assert found == ["stream 7", "stream 7 (2)", "stream 7"]


def test_layers_and_domains_have_lines_of_their_own() -> None:
    events = events_of(
        Call(100, 300), Call(150, 250, layer="driver", name="cuLaunchKernel"),
        Range(0, 1_000, "a"), Range(10, 900, "b", domain=3), Range(20, 800, "c", "start_end"),
        Range(30, None, "d", "mark"),
    )  # fmt: skip
    lines = {e["name"]: e["tid"] for e in events if e["ph"] in "Xi"}
    assert lines == {
        "cudaLaunchKernel": "11 CUDA runtime", "cuLaunchKernel": "11 CUDA driver",
        "a": "11 ranges", "b": "11 ranges of domain 3", "c": "11 start/end ranges", "d": "11 marks",
    }  # fmt: skip


def test_calls_that_cross() -> None:
    """The second begins in the first and ends after it: it does not fit on its line."""
    events = events_of(Call(100, 300), Call(200, 400), Call(210, 220))
    assert [e["tid"] for e in slices_of(events, "cuda_runtime")] == [
        "11 CUDA runtime", "11 CUDA runtime (2)", "11 CUDA runtime"]  # fmt: skip


def test_calls_without_thread_have_a_track_of_their_own() -> None:
    """Two that are inside each other may be of two threads; no digit of a line is a thread's number."""
    events = events_of(Call(100, 300, tid=None), Call(150, 200, tid=None))
    assert [e["tid"] for e in slices_of(events, "cuda_runtime")] == [
        "no thread CUDA runtime", "no thread CUDA runtime (c)"]  # fmt: skip


def test_odd_names(tmp_path: Path) -> None:
    """They are what they are in the JSON, and when we read it."""
    names = ['a "quoted" name', "back\\slash", "tab\tand\nline\x01", "ünï ☃", '}, {"ph": "X"', "", "a"]
    rows = (Kernel(100 * i, 100 * i + 9, name=name) for i, name in enumerate(names))
    write(tmp_path / "store.db", *rows)
    made = made_of(tmp_path / "store.db", tmp_path)
    assert [e["name"] for e in slices_of(document(made.path)["traceEvents"], "kernel")] == names
    with timelines(made.path) as (line,):
        ids = line.profile.columns("kernel", ("name_id",))["name_id"]
        texts = line.profile.names(ids)
        assert [texts[i] for i in ids.tolist()] == names


def test_rows_without_time_are_noted(tmp_path: Path) -> None:
    write(tmp_path / "store.db", Kernel(None, None), Kernel(100, 200))
    made = made_of(tmp_path / "store.db", tmp_path)
    assert [(note.slug, note.count) for note in made.written.notes] == [("not-drawn", 1)]
    assert made.written.counts["kernel"] == 1


def test_gzip_by_the_suffix(tmp_path: Path) -> None:
    packed, plain = made_of(BASIC, tmp_path, ".json.gz"), made_of(BASIC, tmp_path)
    assert packed.path.read_bytes()[:2] == b"\x1f\x8b"
    assert document(packed.path) == document(plain.path)


# -- counters


def test_the_queue_of_a_stream() -> None:
    """Two launches are called before the first kernel starts: 1, 2, 1, 0."""
    events = events_of(Call(100, 110, 1), Call(200, 210, 2), Kernel(300, 400, 1), Kernel(400, 500, 2))
    points = [(ns(e["ts"]), e["args"]["launches"]) for e in events if e["ph"] == "C"]
    assert points == [(100, 1), (200, 2), (300, 1), (400, 0)]


def test_a_slice_draws_arrows_with_two_ends_only() -> None:
    """Of three kernels in the slice the second's call is over before it begins."""
    rows = (
        Call(245, 255, 1), Call(100, 110, 2), Call(260, 270, 3),
        Kernel(300, 310, 1), Kernel(320, 330, 2), Kernel(340, 350, 3),
    )  # fmt: skip
    assert len([e for e in events_of(*rows) if e["ph"] in "sf"]) == 6
    part = events_of(*rows, part=Slice(time=(250, 500)))
    assert len(slices_of(part, "kernel")) == 3
    assert sorted((e["ph"], ns(e["ts"])) for e in part if e["ph"] in "sf") == [
        ("f", 300), ("f", 340), ("s", 245), ("s", 260)]  # fmt: skip


# -- several profiles


def test_ranks_have_processes_of_their_own(tmp_path: Path) -> None:
    """Two containers' processes have one number: the second gets another, and says its own."""
    for place in (1, 2):
        write(tmp_path / f"{place}.db", Kernel(100 * place, 100 * place + 50, 1), Call(50, 60, 1))
    made = exported_stores([tmp_path / "1.db", tmp_path / "2.db"], tmp_path / "trace.json")
    events = document(tmp_path / "trace.json")["traceEvents"]
    assert problems(events) == []
    calls = slices_of(events, "cuda_runtime")
    assert sorted(e["pid"] for e in calls) == [PID, PID + 10_000_000]
    assert len({e["pid"] for e in slices_of(events, "kernel")}) == 2
    labels = {e["pid"]: e["args"]["labels"] for e in events if e["name"] == "process_labels"}
    assert all(f"pid {PID}" in labels[e["pid"]] for e in calls)
    assert made.counts["kernel"] == 2


def exported_stores(stores: list[Path], path: Path) -> Written:
    with ExitStack() as stack:
        lines = [stack.enter_context(api.open(store)).timeline for store in stores]
        return chrome.export(lines, path, Options())


@pytest.mark.parametrize(("zeros", "starts", "slugs"), [
    ((5_000, 7_000), [Decimal("0.1"), Decimal("2.1")], []),
    ((5_000, None), [Decimal("0.1"), Decimal("0.1")], ["not-aligned"]),
])  # fmt: skip
def test_profiles_are_aligned_where_all_know_the_time(
    zeros: tuple[int, int | None], starts: list[Decimal], slugs: list[str], tmp_path: Path
) -> None:
    stores = [tmp_path / "1.db", tmp_path / "2.db"]
    for store, zero in zip(stores, zeros, strict=True):
        write(store, Kernel(100, 150))
        with closing(sqlite3.connect(store)) as connection, connection:
            connection.execute("UPDATE profile SET zero_utc_ns = ?", (zero,))
    made = exported_stores(stores, tmp_path / "trace.json")
    found = slices_of(document(tmp_path / "trace.json")["traceEvents"], "kernel")
    assert [e["ts"] for e in found] == starts
    assert [note.slug for note in made.notes] == slugs
