"""The generated Kineto trace is what its script promises."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import measure
import pytest
from generate_kineto import generate
from kineto_step import STREAMS
from measure import DATA, Side, run_once

SIZE = 4_000_000
Event = dict[str, Any]


def exact(text: str) -> int:
    """Nanoseconds of a time in microseconds; other numbers lose their point too."""
    return int(text.replace(".", ""))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kineto") / "trace.json"
    generate(path, SIZE)
    return path


@pytest.fixture(scope="module")
def trace(path: Path) -> Event:
    return json.loads(path.read_text(encoding="ascii"), parse_float=exact)


@pytest.fixture(scope="module")
def spans(trace: Event) -> dict[str, list[Event]]:
    found = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            found[event["cat"]].append(event)
    return found


def work(spans: dict[str, list[Event]]) -> Iterator[Event]:
    for category in ("kernel", "gpu_memcpy", "gpu_memset"):
        yield from spans[category]


def test_size_and_frame(path: Path, trace: Event) -> None:
    assert abs(path.stat().st_size - SIZE) < 1_000_000
    keys = list(trace)
    assert keys.index("baseTimeNanoseconds") < keys.index("traceEvents")
    assert keys[-1] == "traceName"
    assert trace["traceEvents"][-1]["name"] == "Record Window End"
    assert [gpu["id"] for gpu in trace["deviceProperties"]] == [0]


def test_counts_and_compressed_text(path: Path, trace: Event, tmp_path: Path) -> None:
    packed = tmp_path / "trace.json.gz"
    counts = generate(packed, SIZE)
    assert gzip.decompress(packed.read_bytes()) == path.read_bytes()
    listed = [event for event in trace["traceEvents"] if event.get("cat", "Trace") != "Trace"]
    assert sum(counts.values()) == len(listed)
    assert counts["kernel"] == sum(event["cat"] == "kernel" for event in listed)


def test_spans_of_a_thread_nest(spans: dict[str, list[Event]]) -> None:
    threads = defaultdict(list)
    for category in ("cpu_op", "user_annotation", "cuda_runtime"):
        for event in spans[category]:
            threads[event["tid"]].append((event["ts"], -event["ts"] - event["dur"], event))
    assert len(threads) == 2
    for events in threads.values():
        open_: list[tuple[int, Event]] = []
        for start, negative_end, event in sorted(events, key=lambda found: found[:2]):
            while open_ and open_[-1][0] <= start:
                open_.pop()
            assert not open_ or -negative_end <= open_[-1][0]
            if event["cat"] == "cuda_runtime":
                assert event["args"]["External id"] == open_[-1][1]["args"]["External id"]
            open_.append((-negative_end, event))


def test_ids(spans: dict[str, list[Event]]) -> None:
    ops = sorted(spans["cpu_op"] + spans["user_annotation"], key=lambda op: op["args"]["Ev Idx"])
    assert [op["args"]["Ev Idx"] for op in ops] == list(range(len(ops)))
    assert len({op["args"]["External id"] for op in ops}) == len(ops)
    calls = {call["args"]["correlation"]: call for call in spans["cuda_runtime"]}
    assert len(calls) == len(spans["cuda_runtime"])
    for done in work(spans):
        call = calls[done["args"]["correlation"]]
        assert done["ts"] > call["ts"]
        assert done["args"]["External id"] == call["args"]["External id"]


def test_work_of_a_stream_does_not_overlap(spans: dict[str, list[Event]]) -> None:
    streams = defaultdict(list)
    for event in work(spans):
        streams[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    assert sorted(streams) == sorted(STREAMS)
    for times in streams.values():
        times.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(times))


def test_arrows_have_two_ends(trace: Event) -> None:
    ends = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] in "sf" and event["cat"] == "fwdbwd":
            ends[event["id"]].append((event["ph"], event["ts"]))
    assert ends
    for pair in ends.values():
        (last, end), (first, start) = sorted(pair)
        assert (first, last) == ("s", "f")
        assert start < end


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_memory_is_that_of_the_whole_tree() -> None:
    child = "import time; held = bytearray(60_000_000); time.sleep(0.6)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    alone = run_once(Side("child", [sys.executable, "-c", child]))
    both = run_once(Side("parent", [sys.executable, "-c", parent]))
    assert 57 < alone.peak_mb < 100
    assert both.peak_mb > alone.peak_mb + 3


def test_a_failed_run_measures_nothing() -> None:
    with pytest.raises(RuntimeError, match="no such luck"):
        run_once(Side("failing", [sys.executable, "-c", "raise SystemExit('no such luck')"]))


def test_the_command_lines_of_the_benchmarks_work() -> None:
    assert DATA.parent.name == "benchmarks"
    for script in ("run.py", "generate_kineto.py"):
        done = subprocess.run([sys.executable, str(DATA.parent / script), "--help"],
                              capture_output=True, text=True, check=True)  # fmt: skip
        assert "usage" in done.stdout


def test_sources_are_the_files_that_a_command_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the program, nor what it makes, which is removed before each run, nor a folder."""
    monkeypatch.setattr(measure, "DATA", tmp_path)
    (tmp_path / "a.json").touch()
    (tmp_path / "store.db").touch()
    (tmp_path / "folder").mkdir()
    words = [sys.executable, "-c", "print()", "-o", *(str(tmp_path / n) for n in
             ("a.json", "store.db", "folder", "missing"))]  # fmt: skip
    side = Side("side", words, (tmp_path / "store.db",))
    run_once(side)
    assert measure.sources(side) == [tmp_path / "a.json"]
