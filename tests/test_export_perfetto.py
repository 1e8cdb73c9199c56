"""Perfetto's own traces, read by the package's definitions."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import NSYS, REAL_FILES, few, name_of, real
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos
from small_store import Call, Kernel, Memcpy, Range, write
from traces import SOURCES, TABLE_OF, crossings, exported, stored, timelines

from nsysconv.api.exporting import export_profiles
from nsysconv.errors import UsageError
from nsysconv.timeline.slices import Slice

BEGIN, END, INSTANT, COUNTER = (
    protos.TrackEvent.TYPE_SLICE_BEGIN, protos.TrackEvent.TYPE_SLICE_END,
    protos.TrackEvent.TYPE_INSTANT, protos.TrackEvent.TYPE_COUNTER,
)  # fmt: skip


class Trace:
    """A trace as its readers see it: events in the order of time, those of one time as they stand."""

    def __init__(self, path: Path) -> None:
        trace = protos.Trace()
        trace.ParseFromString(path.read_bytes())
        self.packets = list(trace.packet)
        self.names: dict[str, dict[int, str]] = defaultdict(dict)
        self.tracks: dict[int, Any] = {}
        for packet in self.packets:
            for kind in ("event_categories", "event_names", "debug_annotation_names"):
                for each in getattr(packet.interned_data, kind):
                    assert each.iid not in self.names[kind]
                    self.names[kind][each.iid] = each.name
            if packet.HasField("track_descriptor"):
                descriptor = packet.track_descriptor
                assert descriptor.uuid not in self.tracks
                assert descriptor.parent_uuid in self.tracks or not descriptor.parent_uuid
                self.tracks[descriptor.uuid] = descriptor
        events = [packet for packet in self.packets if packet.HasField("track_event")]
        assert all(packet.track_event.track_uuid in self.tracks for packet in events)
        self.events = sorted(events, key=lambda packet: packet.timestamp)

    def category(self, event: Any) -> str:
        return self.names["event_categories"][event.category_iids[0]]

    def slices(self) -> Iterator[tuple[Any, int, int]]:
        """Each slice, its start and its end, ends matched as readers do: the innermost first."""
        waiting: dict[int, list[Any]] = defaultdict(list)
        for packet in self.events:
            event = packet.track_event
            if event.type == BEGIN:
                waiting[event.track_uuid].append(packet)
            elif event.type == END:
                begin = waiting[event.track_uuid].pop()
                yield begin.track_event, begin.timestamp, packet.timestamp
        assert not any(waiting.values())

    def arguments(self, event: Any) -> dict[str, Any]:
        found = {}
        for note in event.debug_annotations:
            kind = note.WhichOneof("value")
            value = [v.int_value for v in note.array_values] if kind is None else getattr(note, kind)
            found[self.names["debug_annotation_names"][note.name_iid]] = value
        return found


def trace_of(source: Path, folder: Path, part: Slice | None = None) -> Trace | None:
    made = exported(source, folder, ".pftrace", part)
    return None if made is None else Trace(made.path)


def trace_of_rows(folder: Path, *rows: Any) -> Trace:
    write(folder / "store.db", *rows)
    trace = trace_of(folder / "store.db", folder)
    assert trace is not None
    return trace


def check(source: Path, folder: Path, part: Slice | None = None) -> None:
    trace = trace_of(source, folder, part)
    if trace is None:
        return
    counts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    lines: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for event, start, end in trace.slices():
        what = TABLE_OF[trace.category(event)]
        counts[what] += 1
        sums[what] += end - start
        lines[event.track_uuid].append((start, end))
    for packet in trace.events:
        if packet.track_event.type == INSTANT:
            what = TABLE_OF[trace.category(packet.track_event)]
            counts[what] += 1
            sums[what] += 0
    with timelines(source, part) as whole:
        assert (counts, sums) == stored(whole)
    assert all(crossings(slices) == [] for slices in lines.values())
    begins = [i for p in trace.events for i in p.track_event.flow_ids]
    ends = [i for p in trace.events for i in p.track_event.terminating_flow_ids]
    assert len(set(begins)) == len(begins)
    assert sorted(begins) == sorted(ends)


@pytest.mark.parametrize("source", few(SOURCES, 2), ids=name_of)
def test_every_file(source: Path, tmp_path: Path) -> None:
    """Counts and sums by kind are the store's, no slices cross, arrows have two ends."""
    check(source, tmp_path)


@pytest.mark.parametrize("source", few(sorted(NSYS.glob("*-3.2*"))[::3], 2), ids=name_of)
def test_slices(source: Path, tmp_path: Path) -> None:
    check(source, tmp_path, Slice(time=(20_000, 150_000)))


@real
@pytest.mark.parametrize("source", few(REAL_FILES, 1), ids=name_of)
def test_real_files(source: Path, tmp_path: Path) -> None:
    check(source, tmp_path)


def test_a_kernel_its_call_and_a_copy(tmp_path: Path) -> None:
    """All that is shown of them, with times in ns, and the arrow from the call to the kernel."""
    trace = trace_of_rows(
        tmp_path,
        Kernel(1_234_567, 1_236_568, 5, grid=(8, 2, 1), registers=32),
        Call(1_000_001, 1_000_501, 5),
        Memcpy(2_000_000, 2_000_100, bytes=250),
    )
    found = {trace.category(event): (event, start, end) for event, start, end in trace.slices()}
    kernel, start, end = found["kernel"]
    assert (start, end) == (1_234_567, 1_236_568)
    assert trace.names["event_names"][kernel.name_iid] == "kernel"
    assert trace.arguments(kernel) == {
        "correlation": 5, "device": 0, "stream": 7, "grid": [8, 2, 1], "registers per thread": 32,
    }  # fmt: skip
    assert trace.arguments(found["gpu_memcpy"][0])["memory bandwidth (GB/s)"] == 2.5
    assert list(found["cuda_runtime"][0].flow_ids) == list(kernel.terminating_flow_ids) == [1]
    stream = trace.tracks[kernel.track_uuid]
    assert (stream.name, trace.tracks[stream.parent_uuid].name) == ("stream 7", "GPU 0 GPU 0")
    call = trace.tracks[found["cuda_runtime"][0].track_uuid]
    thread = trace.tracks[call.parent_uuid]
    assert (call.name, thread.thread.tid, trace.tracks[thread.parent_uuid].process.pid) == (
        "CUDA runtime", 11, 1)  # fmt: skip


def test_one_kernel_begins_where_another_ends(tmp_path: Path) -> None:
    """The later stands first in the table: still the earlier ends before it begins, as readers see it."""
    trace = trace_of_rows(
        tmp_path, Kernel(200, 350, name="b"), Memcpy(100, 200), Kernel(50, 100, name="a"))  # fmt: skip
    names = trace.names["event_names"]
    assert [(names[event.name_iid][:6], start, end) for event, start, end in trace.slices()] == [
        ("a", 50, 100), ("Memcpy", 100, 200), ("b", 200, 350)]  # fmt: skip


def test_times_before_zero_are_moved(tmp_path: Path) -> None:
    """The earliest is 0: a trace has no negative times."""
    trace = trace_of_rows(tmp_path, Kernel(-1_500, 2_500), Range(500, 600, "r"))
    assert sorted((start, end) for _, start, end in trace.slices()) == [(0, 4_000), (2_000, 2_100)]


def test_counters(tmp_path: Path) -> None:
    """A launch is called and starts: 1, 0."""
    trace = trace_of_rows(tmp_path, Call(100, 110, 1), Kernel(300, 400, 1))
    points = [(p.timestamp, p.track_event.counter_value)
              for p in trace.events if p.track_event.type == COUNTER]  # fmt: skip
    assert points == [(100, 1), (300, 0)]


@pytest.mark.parametrize("name", ['a "quoted" name', "tab\tand\x01", "ünï ☃", ""])
def test_odd_names(name: str, tmp_path: Path) -> None:
    trace = trace_of_rows(tmp_path, Kernel(100, 200, name=name))
    ((event, _, _),) = trace.slices()
    assert trace.names["event_names"][event.name_iid] == name


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)
    write(tmp_path / "store.db", Kernel(100, 200))
    with pytest.raises(UsageError, match=r"nsysconv\[perfetto\]"):
        export_profiles(tmp_path / "store.db", "perfetto", tmp_path / "trace.pftrace")
    assert not (tmp_path / "trace.pftrace").exists()
