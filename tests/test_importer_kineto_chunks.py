"""A plain trace is cut into chunks of whole events, the last of which are small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nsysconv.importers.kineto import trace as traces
from nsysconv.importers.kineto.decode import worker_count
from nsysconv.importers.kineto.trace import Trace

COUNT = 4000


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trace of chunks of a thousandth of what they are otherwise."""
    monkeypatch.setattr(traces, "FIRST_BYTES", 1 << 10)
    monkeypatch.setattr(traces, "BLOCK_BYTES", 1 << 13)
    monkeypatch.setattr(traces, "EVENT_BYTES", 1 << 15)
    monkeypatch.setattr(traces, "READ_BYTES", 1 << 10)
    events = [{"ph": "X", "cat": "cpu_op", "name": f"op {n}", "ts": n} for n in range(COUNT)]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events, "after": 1}))
    return path


def test_every_event_is_in_one_chunk(source: Path) -> None:
    found: list[int] = []
    with source.open("rb") as file:
        for chunk in Trace(source).chunks():
            found += [event["ts"] for event in json.loads(b"[%b]" % chunk.read(file))]
    assert found == list(range(COUNT))


def test_last_chunks_are_small(source: Path) -> None:
    """An eighth of what is left, but for what is too small to be worth a chunk."""
    size = source.stat().st_size
    first, *others = [(chunk.offset, chunk.length) for chunk in Trace(source).chunks()]
    assert first[1] <= 1 << 10
    for offset, length in others[:-1]:
        assert length <= min(max((size - offset) // 8, 1 << 10), 1 << 13)
    # Within an event of what they may have.
    assert others[0][1] > (1 << 13) - 100
    assert (1 << 10) - 100 < others[-2][1] <= 1 << 10


@pytest.mark.parametrize(
    ("size", "head", "most", "count"),
    [(24 << 20, b"{", 2, 2), ((24 << 20) - 1, b"{", 2, 0), (3 << 20, b"\x1f\x8b", 2, 2),
     (2 << 20, b"\x1f\x8b", 2, 0), (1 << 30, b"{", 1, 0), (1 << 30, b"{", 64, 64)],
)  # fmt: skip
def test_a_large_trace_is_decoded_by_worker_processes(
    size: int, head: bytes, most: int, count: int
) -> None:
    """Packed text is taken to be ten times as long; one process more would only wait for the other."""
    assert worker_count(size, head, most) == count


def test_event_as_long_as_the_limit_is_read(tmp_path: Path) -> None:
    """Also the first, and one that is longer than a chunk by no whole number of them."""
    path = tmp_path / "trace.json"
    long = {"ph": "X", "cat": "cpu_op", "name": "x" * (30 << 20), "ts": 1}
    path.write_text(json.dumps({"traceEvents": [long, {**long, "name": "y"}, {**long, "name": "z"}]}))
    with path.open("rb") as file:
        found = [json.loads(b"[%b]" % chunk.read(file)) for chunk in Trace(path).chunks()]
    assert [len(event["name"]) for chunk in found for event in chunk] == [30 << 20, 1, 1]
