"""The zero of a trace is the second of its first event in time, wherever that stands in the file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import EVENTS, event_rows

import nsysconv
from nsysconv import api
from nsysconv.importers.kineto import trace as traces
from nsysconv.store.location import reading

S = 1_000_000
"""A second, as traces count."""
BASE = 1_600_000_000 * S
ZERO_NS = BASE * 1000
DAY = 86_400 * S

Event = dict[str, Any]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of an event or two."""
    for name in ("FIRST_BYTES", "BLOCK_BYTES", "READ_BYTES"):
        monkeypatch.setattr(traces, name, 1 << 8)


def at(time_us: float, category: str = "cpu_op", dur: float = 5, pid: int = 42) -> Event:
    return {"ph": "X", "cat": category, "name": f"{category} of the trace", "pid": pid, "tid": 1,
            "ts": BASE + time_us, "dur": dur,
            "args": {"device": 0, "stream": 7, "context": 1, "correlation": 3}}  # fmt: skip


def imported(folder: Path, events: Sequence[Event], **options: Any) -> list[dict[str, Any]]:
    """The attributes of each profile of a trace, and when its rows begin and how long they last."""
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    store = folder / "store.db"
    store.unlink(missing_ok=True)
    api.import_files([path], store, **options)
    found = []
    with reading(store) as opened:
        for profile in opened.profiles():
            rows = {table: event_rows(profile, table) for table in EVENTS}
            times = {t: sorted((r["start_ns"], r.get("dur_ns")) for r in rows[t])
                     for t in EVENTS if rows[t]}  # fmt: skip
            attributes = {key: profile.attributes[key] for key in ("zero_utc_ns", "recording_ns")}
            found.append({**attributes, **times})
    return found


EARLIER = [at(3.2 * S + n) for n in range(20)] + [
    at(1.5 * S, "kernel"), at(1.4 * S, "gpu_memcpy"), at(1.3 * S, "cuda_runtime"),
    at(3.9 * S, "gpu_memset"), at(2.1 * S, "user_annotation"),
]  # fmt: skip


def test_an_earlier_second_far_behind(tmp_path: Path) -> None:
    (found,) = imported(tmp_path, EARLIER)
    assert found["zero_utc_ns"] == ZERO_NS + 1_000_000_000
    assert found["kernel"] == [(500_000_000, 5_000)]
    assert found["recording_ns"] == 2_900_005_000


def test_order_of_events_in_the_file_changes_no_row(tmp_path: Path) -> None:
    (found,) = imported(tmp_path, EARLIER)
    (wanted,) = imported(tmp_path, sorted(EARLIER, key=lambda event: event["ts"]))
    assert found == wanted


def test_in_place_as_in_a_store(tmp_path: Path) -> None:
    (wanted,) = imported(tmp_path, EARLIER)
    with nsysconv.open(tmp_path / "trace.json") as opened:
        assert opened.profile.attributes["zero_utc_ns"] == wanted["zero_utc_ns"]
        (kernel,) = event_rows(opened.profile, "kernel")
    assert [(kernel["start_ns"], kernel["dur_ns"])] == wanted["kernel"]


@pytest.mark.parametrize("include", [(), ("python_functions",)])
def test_rows_on_request_count_for_the_zero(
    tmp_path: Path, include: tuple[str, ...]
) -> None:
    """Times are the same whatever of a trace is imported."""
    events = [at(3.2 * S), at(3.3 * S), at(1.5 * S, "python_function")]
    (found,) = imported(tmp_path, events, include=include)
    assert found["zero_utc_ns"] == ZERO_NS + 1_000_000_000


def test_an_earlier_second_of_another_process(tmp_path: Path) -> None:
    """One zero for all profiles of a file: they were recorded together."""
    events = [at(3.2 * S), at(3.3 * S), at(1.5 * S, pid=43), at(1.6 * S, pid=43)]
    first, second = imported(tmp_path, events)
    assert first["zero_utc_ns"] == second["zero_utc_ns"] == ZERO_NS + 1_000_000_000
    assert [start for start, _ in first["operator"]] == [2_200_000_000, 2_300_000_000]
    assert second["recording_ns"] == 600_005_000


def test_row_at_zero_without_duration_has_no_time(tmp_path: Path) -> None:
    """Zero and zero are no time in a store, whenever the zero was known."""
    events = [at(3.2 * S), at(3.3 * S), at(1 * S, "kernel", dur=0)]
    (found,) = imported(tmp_path, events)
    assert found["kernel"] == [(None, None)]
    (wanted,) = imported(tmp_path, events[::-1])
    assert found == wanted


def test_times_further_apart_than_a_store_keeps(tmp_path: Path) -> None:
    """Each is near enough to the first that is met: all are kept, and none is moved out of reach."""
    events = [at(0), at(1), at(100 * DAY), at(-100 * DAY)]
    (found,) = imported(tmp_path, events)
    starts = [start for start, _ in found["operator"]]
    assert [starts[-1] - start for start in starts] == [
        200 * DAY * 1000, 100 * DAY * 1000, 100 * DAY * 1000 - 1000, 0]  # fmt: skip
