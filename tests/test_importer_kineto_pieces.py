"""A plain trace is cut into pieces of whole events, the last of which are small."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nsysconv.importers.kineto import trace as traces
from nsysconv.importers.kineto.trace import Trace

COUNT = 4000


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A trace of pieces of a thousandth of what they are otherwise."""
    monkeypatch.setattr(traces, "_FIRST_BYTES", 1 << 10)
    monkeypatch.setattr(traces, "_BLOCK_BYTES", 1 << 13)
    monkeypatch.setattr(traces, "_EVENT_BYTES", 1 << 15)
    monkeypatch.setattr(traces, "_READ_BYTES", 1 << 10)
    events = [{"ph": "X", "cat": "cpu_op", "name": f"op {n}", "ts": n} for n in range(COUNT)]
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events, "after": 1}))
    return path


def test_every_event_is_in_one_piece(source: Path) -> None:
    found: list[int] = []
    with source.open("rb") as file:
        for span in Trace(source).pieces():
            found += [event["ts"] for event in json.loads(b"[%b]" % span.read(file))]
    assert found == list(range(COUNT))


def test_pieces_that_end_together_are_small(source: Path) -> None:
    """An eighth of what is left, but for what is too small to be worth a piece."""
    size = source.stat().st_size
    first, *others = [(span.place, span.length) for span in Trace(source).pieces()]
    assert first[1] <= 1 << 10
    for place, length in others[:-1]:
        assert length <= min(max((size - place) // 8, 1 << 10), 1 << 13)
    # Within an event of what they may have.
    assert others[0][1] > (1 << 13) - 100
    assert (1 << 10) - 100 < others[-2][1] <= 1 << 10
