"""What tests of traces share: a file exported, what the format asks of it, and what it should hold."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import make_fixtures
import numpy as np
from conftest import FIXTURES

from nsysconv import codes, schema
from nsysconv.api.exporting import Exported, export_profiles
from nsysconv.api.open_profile import open_all
from nsysconv.errors import NsysconvError
from nsysconv.report import MISSING
from nsysconv.timeline.sliced import sliced
from nsysconv.timeline.slices import Slice
from nsysconv.timeline.timeline import Timeline

Event = dict[str, Any]

SOURCES = sorted(FIXTURES / fixture.name for fixture in make_fixtures.fixtures())
TABLE_OF = {
    "kernel": "kernel", "gpu_memcpy": "memcpy", "gpu_memset": "memset",
    "unified_memory": "unified_memory_event", "graph_launch": "graph_launch",
    "cuda_runtime": "api_call", "cuda_driver": "api_call", "cuda_sync": "sync",
    "user_annotation": "range", "mark": "mark", "cpu_op": "operator", "python_function": "operator",
    "directive": "operator", "library_call": "operator", "collective_comm": "collective",
    "osrt": "osrt_call", "mpi": "mpi_call", "page_fault": "page_fault", "overhead": "overhead",
    "cpu_instant_event": "memory_event", "graph_node": "graph_node",
}  # fmt: skip
"""Category of an event -> what it is counted as."""
MARK = codes.RANGE_KINDS.index("mark")


def exported(
    source: Path, folder: Path, suffix: str = ".json", part: Slice | None = None
) -> Exported | None:
    """A source exported into a folder; None where it is not a profile."""
    try:
        return export_profiles(source, path=folder / f"trace{suffix}", slice=part)
    except NsysconvError:
        with_error = folder / f"trace{suffix}"
        assert not with_error.exists()
        return None


def document(path: Path) -> dict[str, Any]:
    """A JSON trace, times as exact decimals."""
    content = path.read_bytes()
    if path.name.endswith(".gz"):
        content = gzip.decompress(content)
    found: dict[str, Any] = json.loads(content.decode("utf-8"), parse_float=Decimal)
    return found


def ns(microseconds: Decimal | int) -> int:
    """Microseconds as whole nanoseconds; they are nothing else."""
    exact = Decimal(microseconds) * 1000
    assert exact == exact.to_integral_value(), microseconds
    return int(exact)


@contextmanager
def timelines(source: Path, part: Slice | None = None) -> Iterator[list[Timeline]]:
    """The time lines that an export of a file draws."""
    with ExitStack() as stack:
        whole = [profile.timeline for profile in open_all(source, None, stack)]
        yield [line if part is None else sliced(line, part) for line in whole]


def stored(lines: Iterable[Timeline]) -> tuple[Counter[str], Counter[str]]:
    """How many rows with a time there are, and how long they last, by what they are counted as."""
    counts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for line in lines:
        for table in schema.EVENT_TABLES:
            if table in ("metric_sample", "cpu_switch", "cpu_sample"):
                continue
            has = [c for c in ("dur_ns", "kind") if c in schema.metadata.tables[table].c]
            column = line.columns(table, ("start_ns", *has))
            start = column["start_ns"]
            dur = column.get("dur_ns", np.zeros(len(start), np.int64))
            mark = column["kind"] == MARK if table == "range" else np.zeros(len(start), bool)
            if table == "range":
                last = line.profile.attributes["recording_ns"] or 0
                dur = np.where(dur == MISSING, np.maximum(last - start, 0), dur)
            drawn = (start != MISSING) & (dur != MISSING)
            for what, mine in ((table, drawn & ~mark), ("mark", drawn & mark)):
                if mine.any():
                    counts[what] += int(mine.sum())
                    sums[what] += 0 if what == "mark" else int(dur[mine].sum())
    return counts, sums


def drawn(events: Iterable[Event]) -> tuple[Counter[str], Counter[str]]:
    """The same of a trace's events."""
    counts: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    for event in events:
        if event["ph"] in "Xi":
            what = TABLE_OF[event["cat"]]
            counts[what] += 1
            sums[what] += ns(event.get("dur", 0))
    return counts, sums


def problems(events: list[Event]) -> list[str]:
    """What of a trace is against the Trace Event Format, or stands on lines where it does not fit."""
    found = [f"{fault}: {event}" for event in events for fault in _faults(event)]
    lines: dict[tuple[Any, Any], list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start = ns(event["ts"])
            lines[event["pid"], event["tid"]].append((start, start + ns(event["dur"])))
    found += [f"{line}: {crossing}" for line, slices in lines.items() for crossing in crossings(slices)]
    return found + _arrow_faults(events)


def crossings(slices: Iterable[tuple[int, int]]) -> list[str]:
    """Slices of one line that neither nest nor stand apart."""
    found, waiting = [], []
    for start, end in sorted(slices, key=lambda each: (each[0], -each[1])):
        while waiting and waiting[-1] <= start:
            waiting.pop()
        if waiting and end > waiting[-1]:
            found.append(f"{start}..{end} crosses what ends at {waiting[-1]}")
        waiting.append(end)
    return found


_FIELDS: Mapping[str, Mapping[str, type | tuple[type, ...]]] = {
    "X": {"name": str, "cat": str, "ts": (int, Decimal), "dur": (int, Decimal), "args": dict},
    "i": {"name": str, "cat": str, "ts": (int, Decimal), "s": str, "args": dict},
    "M": {"name": str, "args": dict},
    "C": {"name": str, "ts": (int, Decimal), "args": dict},
    "s": {"name": str, "cat": str, "id": int, "ts": (int, Decimal)},
    "f": {"name": str, "cat": str, "id": int, "ts": (int, Decimal), "bp": str},
}


def _faults(event: Event) -> Iterator[str]:
    wanted = _FIELDS.get(event.get("ph", ""))
    if wanted is None:
        yield "no such phase"
        return
    for name, kind in {**wanted, "pid": (int, str), "tid": (int, str)}.items():
        if not isinstance(event.get(name), kind):
            yield f"{name} is no {kind}"
    if event["ph"] == "X" and event["dur"] < 0:
        yield "negative duration"
    if event["ph"] == "C" and not all(isinstance(v, int | Decimal) for v in event["args"].values()):
        yield "a counter of no number"
    if event["ph"] == "M" and event["name"] not in (
        "process_name", "process_labels", "process_sort_index", "thread_name", "thread_sort_index",
    ):  # fmt: skip
        yield "no such metadata"


def _arrow_faults(events: list[Event]) -> list[str]:
    """Arrows have one begin and one end, each at the start of a slice on its line."""
    ends: dict[str, dict[int, Event]] = {"s": {}, "f": {}}
    starts = {(e["pid"], e["tid"], e["ts"]) for e in events if e["ph"] == "X"}
    found = []
    for event in events:
        if event["ph"] in ends:
            if event["id"] in ends[event["ph"]]:
                found.append(f"arrow {event['id']} twice")
            ends[event["ph"]][event["id"]] = event
            if (event["pid"], event["tid"], event["ts"]) not in starts:
                found.append(f"an arrow to nothing: {event}")
    if ends["s"].keys() != ends["f"].keys():
        found.append("arrows with one end")
    return found
