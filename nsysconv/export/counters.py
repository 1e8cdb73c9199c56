"""What goes up and down in a profile: memory in use, metrics, and what waits for a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nsysconv.export.about import Names
from nsysconv.export.drawing import Drawing
from nsysconv.export.ordered import Reader, chunks
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING
from nsysconv.timeline.arrays import factorize
from nsysconv.timeline.timeline import queues

Array = np.ndarray

MOST_QUEUED = 500_000
"""Of more operations queues are not drawn: two points for each launch would be most of the trace."""

_SAMPLED = ("start_ns", "name_id", "pid", "device_id", "value_avg", "value_sum", "value_max")


@dataclass(frozen=True)
class Counter:
    """A number that changes in time, of a process or, where `device` is not None, of a device."""

    what: str
    name: str
    unit: str
    pid: int
    device: int | None = None


@dataclass(frozen=True)
class Points:
    """Values of counters, in the order of time: places in `counters`, times in ns since the profile's
    zero, and the values from then on.
    """

    counters: list[Counter]
    which: Array
    time: Array
    value: Array


def points(drawing: Drawing) -> Iterator[Points]:
    """All counters of a profile, or of its slice, some points at a time."""
    yield from _memory(drawing)
    yield from _metrics(drawing)
    if Fact.API_LINKS in drawing.profile.facts and not _too_many(drawing):
        yield from _queues(drawing)


def notes(drawing: Drawing) -> Iterator[Note]:
    """What counters there could be, and are not."""
    if Fact.API_LINKS in drawing.profile.facts and _too_many(drawing):
        text = f"lengths of queues are drawn of profiles with at most {MOST_QUEUED:,} kernels"
        yield Note("queues-not-drawn", Severity.INFO, text)


def _too_many(drawing: Drawing) -> bool:
    return drawing.profile.row_count("kernel") > MOST_QUEUED


def _memory(drawing: Drawing) -> Iterator[Points]:
    names = ("start_ns", "pid", "device_id", "bytes", "allocated_bytes", "reserved_bytes")
    column = drawing.timeline.columns("memory_event", names)
    rows = np.flatnonzero(column["start_ns"] != MISSING)
    if not len(rows):
        return
    rows = rows[np.argsort(column["start_ns"][rows], kind="stable")]
    start, pid, device, size, allocated, reserved = (column[name][rows] for name in names)
    group, (pids, devices) = factorize(pid, device)
    for which, (p, d) in enumerate(zip(pids.tolist(), devices.tolist(), strict=True)):
        mine = np.flatnonzero(group == which)
        whose = "host memory" if d == MISSING else f"memory of GPU {d}"
        if (allocated[mine] == MISSING).all():
            level = np.cumsum(np.where(size[mine] == MISSING, 0, size[mine]))
            found = [("since the recording began", start[mine], level)]
        else:
            told = (("allocated", allocated[mine]), ("reserved", reserved[mine]))
            known = [(word, values, values != MISSING) for word, values in told]
            found = [(w, start[mine][k], values[k]) for w, values, k in known if k.any()]
        for word, time, value in found:
            counter = Counter("memory", f"{whose}, {word}", "bytes", p)
            yield Points([counter], np.zeros(len(time), np.int64), time, value)


def _metrics(drawing: Drawing) -> Iterator[Points]:
    profile = drawing.profile
    if not profile.row_count("metric_sample"):
        return
    start = profile.columns("metric_sample", ("start_ns",))["start_ns"]
    kept = start != MISSING
    mask = drawing.mask("metric_sample")
    inside = np.ones(len(start), bool) if mask is None else mask
    drawing.untimed["metric_sample"] += int(np.count_nonzero(inside & ~kept))
    rows = np.flatnonzero(kept & inside)
    rows = rows[np.argsort(start[rows], kind="stable")].astype(np.int32)
    reader, names = Reader(profile, "metric_sample", rows, _SAMPLED), Names(profile)
    for chunk in chunks(len(rows)):
        found = reader.next(chunk.stop - chunk.start)
        which, (ids, pids, devices) = factorize(found["name_id"], found["pid"], found["device_id"])
        texts = names.of(ids)
        counters = [
            Counter("metric", texts.texts[n] if n >= 0 else "[no name]", "", pid, device)
            for n, pid, device in zip(
                texts.numbers.tolist(), pids.tolist(), devices.tolist(), strict=True
            )
        ]
        value = found["value_avg"]
        for other in ("value_sum", "value_max"):
            value = np.where(np.isfinite(value), value, found[other])
        told = np.isfinite(value)
        yield Points(counters, which[told], found["start_ns"][told], value[told])


def _queues(drawing: Drawing) -> Iterator[Points]:
    found = queues(drawing.timeline)
    streams = zip(found.device.tolist(), found.pid.tolist(), found.stream.tolist(), strict=True)
    several = len(set(found.pid.tolist())) > 1
    counters = []
    for device, pid, stream in streams:
        name = "queue of no stream" if stream == MISSING else f"queue of stream {stream}"
        whose = f", process {pid}" if several else ""
        counters.append(Counter("queue", name + whose, "launches", pid, device))
    # Of what changes at one moment only the last is drawn.
    last = np.append(
        (np.diff(found.time) != 0) | (np.diff(found.group) != 0),
        np.ones(min(1, len(found.time)), bool),
    )
    rows = np.flatnonzero(last)
    rows = rows[np.argsort(found.time[rows], kind="stable")]
    for chunk in chunks(len(rows)):
        mine = rows[chunk]
        yield Points(counters, found.group[mine], found.time[mine], found.length[mine])
