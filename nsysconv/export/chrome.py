"""Chrome's Trace Event Format: JSON for ui.perfetto.dev, chrome://tracing and all that reads Kineto's.

Categories and arguments are those of PyTorch's profiler (docs/formats/kineto.md), so that what reads its
traces reads these, our own importer included.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
from isal import igzip

from nsysconv.export import cells
from nsysconv.export.contract import Options, Written
from nsysconv.export.counters import Points
from nsysconv.export.drawing import Drawn, Track
from nsysconv.export.flows import NONE
from nsysconv.export.places import ON_NO_THREAD, Place
from nsysconv.export.tracing import common_zero, draw
from nsysconv.report import MISSING
from nsysconv.timeline.timeline import Timeline

Array = np.ndarray

TITLE = "Chrome trace: JSON for ui.perfetto.dev and chrome://tracing"
SUFFIXES: tuple[str, ...] = (".json", ".json.gz")

_LEVEL = 1
_WARP = 32
_DEVICE_KEYS = {
    "memory_bytes": "totalGlobalMem",
    "compute_major": "computeMajor",
    "compute_minor": "computeMinor",
    "sm_count": "numSms",
    "max_registers_per_sm": "regsPerMultiprocessor",
    "max_shared_bytes_per_sm": "sharedMemPerMultiprocessor",
}


def export(timelines: Sequence[Timeline], path: Path, options: Options) -> Written:
    """Writes one trace of all these profiles, or their slices; gzip where the options say so."""
    zero, shifts, notes = common_zero(timelines)
    with _opened(path, compressed=options.compressed) as file:
        pen = _Pen(file)
        file.write(_head(timelines, zero))
        written = draw(timelines, shifts, pen)
        pen.finish()
        file.write(b"\n]}\n")
    return Written(written.counts, (*notes, *written.notes))


@contextmanager
def _opened(path: Path, *, compressed: bool) -> Iterator[BinaryIO]:
    if not compressed:
        with path.open("wb") as file:
            yield file
        return
    with igzip.open(path, "wb", compresslevel=_LEVEL) as packed:  # type: ignore[no-untyped-call]
        yield packed


def _head(timelines: Sequence[Timeline], zero: int | None) -> bytes:
    """What stands before the events. Devices and ranks are a profile's own: told where there is one."""
    told: dict[str, Any] = {"schemaVersion": 1, "displayTimeUnit": "ns", "deviceProperties": []}
    if zero is not None:
        told["baseTimeNanoseconds"] = zero
    if len(timelines) == 1:
        profile = timelines[0].profile
        told["deviceProperties"] = [_device(row) for row in profile.rows("device")]
        ranked = [row for row in profile.rows("process") if row["rank"] is not None]
        if len(ranked) == 1:
            told["distributedInfo"] = {k: ranked[0][k] for k in ("rank", "world_size")}
        if profile.attributes["host"]:
            told["host_name"] = profile.attributes["host"]
    return f'{_json(told)[:-1]},"traceEvents":['.encode("utf-8", "replace")


def _device(row: dict[str, Any]) -> dict[str, Any]:
    found = {"id": row["device_id"], "name": row["name"]}
    found.update({key: row[column] for column, key in _DEVICE_KEYS.items()})
    if row["max_warps_per_sm"] is not None:
        found["warpSize"] = _WARP
        found["maxThreadsPerMultiprocessor"] = row["max_warps_per_sm"] * _WARP
    return {key: value for key, value in found.items() if value is not None}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class _Pen:
    """Writes events. Each begins with what separates it from the one before."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._begun = False
        self._places: set[int] = set()
        self._threads: dict[tuple[int, int], str] = {}
        self._where: list[str] = []
        self._wheres = cells.strings([])

    def place(self, place: Place) -> None:
        if place.number in self._places:
            return
        self._places.add(place.number)
        for name, args in (
            ("process_name", {"name": place.name}),
            ("process_labels", {"labels": place.label}),
            ("process_sort_index", {"sort_index": place.order}),
        ):
            self._tell(name, place.number, 0, args)

    def track(self, track: Track, place: Place, name: str) -> None:
        tid = _tid(track, name)
        if not track.kind.on_gpu and track.key["tid"] != MISSING:
            self._threads[place.number, track.key["tid"]] = name.partition(": ")[0]
        # Tracks come in the order of their places, which begin at 1.
        self._where.append(f'"pid":{place.number},"tid":{_json(tid)}')
        self._tell("thread_name", place.number, tid, {"name": name})
        self._tell("thread_sort_index", place.number, tid, {"sort_index": track.place})

    def finish(self) -> None:
        """What can only be told at the end: what threads are called, whatever their tracks are."""
        for (pid, tid), name in self._threads.items():
            self._tell("thread_name", pid, tid, {"name": name})

    def cells(self, drawn: Drawn) -> tuple[pa.Array, pa.Array | None]:
        told = drawn.told
        first, place = cells.repeating(told, drawn.track)
        which = cells.indices(place)
        front = self._fronts(drawn, first)
        single = [cells.arguments(k, v) for k, v in told.single.items() if cells.has_any(v)]
        time = cells.microseconds(drawn.start)
        end: list[pa.Array | str] = ['},"ts":', *time]
        if not drawn.kind.instant:
            end += [',"dur":', *cells.microseconds(drawn.dur)]
        end.append("}")
        columns = {k: cells.taken(v, first) for k, v in told.repeated.items()}
        repeated = cells.join_known(
            [cells.arguments(k, v) for k, v in columns.items() if cells.has_any(v)], len(first)
        )
        if cells.all_filled(repeated):
            # Each of the others brings its comma, and is nothing where it is null.
            commas = [cells.or_nothing(cells.join(",", each)) for each in single]
            events = cells.join(cells.join(front, repeated).take(which), *commas, *end)
        else:
            found = [cells.or_null(repeated).take(which), *single]
            events = cells.join(front.take(which), cells.join_known(found, len(place)), *end)
        return events, self._arrows(drawn, time)

    def _fronts(self, drawn: Drawn, rows: Array) -> pa.Array:
        """What of rows comes before their arguments."""
        told = drawn.told
        phase = '"ph":"i","s":"t"' if drawn.kind.instant else '"ph":"X"'
        names = cells.text_of(told.name.take(rows), "[no name]")
        categories = cells.text_of(told.category.take(rows), drawn.kind.what)
        return cells.join(
            f",\n{{{phase},\"cat\":", categories, ',"name":', names, ",",
            self._places_of(drawn.track[rows]), ',"args":{',
        )  # fmt: skip

    def _arrows(self, drawn: Drawn, time: Sequence[pa.Array]) -> pa.Array | None:
        """The ends of arrows at rows, which stand at these times."""
        if drawn.arriving is not None:
            phase, rows = '"ph":"f","bp":"e"', np.flatnonzero(drawn.arriving != NONE)
            number = drawn.arriving[rows]
        elif drawn.leaving is not None:
            first, count = drawn.leaving
            phase, rows = '"ph":"s"', np.repeat(np.arange(len(count)), count)
            number = first[rows] + np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        else:
            return None
        if not len(rows):
            return None
        which = cells.indices(rows)
        return cells.join(
            f',\n{{{phase},"cat":"ac2g","name":"ac2g","id":', cells.numbers(number), ",",
            self._places_of(drawn.track[rows]), ',"ts":', *(part.take(which) for part in time), "}",
        )  # fmt: skip

    def points(self, points: Points, places: Sequence[Place]) -> pa.Array:
        fronts = [
            f',\n{{"ph":"C","name":{_json(counter.name)},"pid":{place.number},"tid":0,'
            f'"args":{{{_json(counter.unit or "value")}:'
            for counter, place in zip(points.counters, places, strict=True)
        ]
        return cells.join(
            cells.strings(fronts).take(cells.indices(points.which)),
            cells.numbers(points.value), '},"ts":', *cells.microseconds(points.time), "}",
        )  # fmt: skip

    def write(self, written: pa.Array) -> None:
        self._file.write(cells.content(written))

    def _places_of(self, tracks: Array) -> pa.Array:
        """Process and thread of rows, by their tracks."""
        if len(self._wheres) < len(self._where):
            self._wheres = cells.strings(self._where)
        return self._wheres.take(cells.indices(tracks.astype(np.int64) - 1))

    def _tell(self, name: str, pid: int, tid: int | str, args: dict[str, Any]) -> None:
        event = {"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": args}
        separator = ",\n" if self._begun else "\n"
        self._begun = True
        self._file.write(f"{separator}{_json(event)}".encode("utf-8", "replace"))


def _tid(track: Track, name: str) -> str:
    """What tells a track apart in its process. Where there is a thread, it begins with its number."""
    lane = f" ({track.lane + 1})" if track.lane else ""
    if track.kind.on_gpu:
        return name
    tid = track.key["tid"]
    if tid != MISSING:
        return f"{tid} {track.title}{lane}"
    # The first digits in it are taken for the number of a thread, so here there are none.
    letters = str.maketrans("0123456789", "abcdefghij")
    return f"{ON_NO_THREAD} {track.title}{lane}".translate(letters)
