"""Chrome's Trace Event Format: JSON for ui.perfetto.dev, chrome://tracing and all that reads Kineto's.

Categories and arguments are those of PyTorch's profiler (docs/formats/kineto.md), so that what reads its
traces reads these, our own importer included. The text is made by Arrow, a column of texts at a time: no
row passes through Python.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from isal import igzip

from nsysconv.export.columns import (
    Coded,
    Json,
    Triple,
    content,
    distinct_rows,
    has_any,
    int64_array,
    lengths,
    scalar,
    select,
    strings,
)
from nsysconv.export.contract import Options, Written
from nsysconv.export.layout import NO_FLOW, EventBlock
from nsysconv.export.tracing import CounterValues, common_zero, write_trace
from nsysconv.export.tracks import NO_THREAD, TraceProcess, Track
from nsysconv.names import WHOLE, shorten
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING, numbers
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
    """Write one trace of all these profiles, or their slices; gzip where the options say so."""
    zero, shifts, notes = common_zero(timelines)
    with ExitStack() as stack:
        file: BinaryIO = stack.enter_context(path.open("wb"))
        if options.compressed:
            # The header has no file name and no time, so that the same trace gives the same bytes.
            packed = igzip.IGzipFile("", "wb", _LEVEL, file, mtime=0)  # type: ignore[no-untyped-call]
            file = cast(BinaryIO, stack.enter_context(packed))
        writer = _ChromeWriter(file)
        file.write(_head(timelines, zero))
        written = write_trace(timelines, shifts, writer)
        notes = [*notes, *written.notes, *writer.finish()]
    return Written(written.counts, tuple(notes))


def _head(timelines: Sequence[Timeline], zero: int | None) -> bytes:
    head: dict[str, Any] = {"schemaVersion": 1, "displayTimeUnit": "ns", "deviceProperties": []}
    if zero is not None:
        head["baseTimeNanoseconds"] = zero
    if len(timelines) == 1:
        profile = timelines[0].profile
        head["deviceProperties"] = [_device(row) for row in profile.rows("device")]
        ranked = [row for row in profile.rows("process") if row["rank"] is not None]
        if len(ranked) == 1:
            head["distributedInfo"] = {k: ranked[0][k] for k in ("rank", "world_size")}
        if profile.attributes["host"]:
            head["host_name"] = profile.attributes["host"]
    return f'{_json(head)[:-1]},"traceEvents":['.encode("utf-8", "replace")


def _device(row: dict[str, Any]) -> dict[str, Any]:
    device = {"id": row["device_id"], "name": row["name"]}
    device.update({key: row[column] for column, key in _DEVICE_KEYS.items()})
    if row["max_warps_per_sm"] is not None:
        warp = row["threads_per_warp"] or _WARP
        device["warpSize"] = warp
        device["maxThreadsPerMultiprocessor"] = row["max_warps_per_sm"] * warp
    return {key: value for key, value in device.items() if value is not None}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class _ChromeWriter:
    """A TraceWriter. Each event begins with what separates it from the one before."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._has_events = False
        self._thread_names: dict[tuple[int, int], str] = {}
        self._ids: list[str] = []  # JSON of process and thread, by track
        self._id_texts = strings([])
        self._cut: dict[str, str] = {}  # long texts, and what is written in each event

    def add_process(self, process: TraceProcess) -> None:
        for name, args in (
            ("process_name", {"name": process.name}),
            ("process_labels", {"labels": process.label}),
            ("process_sort_index", {"sort_index": process.order}),
        ):
            self._write_metadata(name, process.number, 0, args)

    def add_track(self, track: Track, process: TraceProcess, name: str) -> None:
        tid = self._shown(_tid(track, name))
        if not track.kind.on_gpu and track.key["tid"] != MISSING:
            self._thread_names[process.number, track.key["tid"]] = name.partition(": ")[0]
        # Tracks come in the order of their numbers, which begin at 1.
        self._ids.append(f'"pid":{process.number},"tid":{_json(tid)}')
        self._write_metadata("thread_name", process.number, tid, {"name": name})
        self._write_metadata("thread_sort_index", process.number, tid, {"sort_index": track.number})

    def finish(self) -> Iterator[Note]:
        """Write what follows the events, and yield a note if texts were cut in them."""
        for (pid, tid), name in self._thread_names.items():
            self._write_metadata("thread_name", pid, tid, {"name": name})
        end = "\n]"
        if self._cut:
            end += f',"wholeNames":{_json({cut: text for text, cut in self._cut.items()})}'
            text = f"texts longer than {WHOLE:,} characters are cut; wholeNames has the whole texts"
            yield Note("texts-cut", Severity.INFO, text, len(self._cut))
        self._file.write(f"{end}}}\n".encode("utf-8", "replace"))

    def _shown(self, text: str) -> str:
        # A text that every event repeats would make a trace of gigabytes; each keeps its own number.
        if len(text) <= WHOLE:
            return text
        mark = f" [{len(self._cut) + 1}]"
        return self._cut.setdefault(text, shorten(text, WHOLE - len(mark)) + mark)

    def encode_events(self, block: EventBlock) -> tuple[pa.Array, pa.Array | None]:
        args = block.args
        # What many rows have in common becomes text once.
        first, inverse = distinct_rows(
            (block.track, args.category, args.name, *args.repeated.values())
        )
        first_of = int64_array(inverse)
        before = self._text_before_args(block, first)
        single = self._arguments(args.single)
        time = _microseconds(block.start)
        end: list[pa.Array | str] = ['},"ts":', *time]
        if not block.kind.instant:
            end += [',"dur":', *_microseconds(block.dur)]
        end.append("}")
        columns = {label: select(values, first) for label, values in args.repeated.items()}
        repeated = _join_non_null(self._arguments(columns), len(first))
        if (lengths(repeated) > 0).all():
            # Each of the others brings its comma, and is empty where it is null.
            commas = [_or_empty(_join(",", column)) for column in single]
            events = _join(_join(before, repeated).take(first_of), *commas, *end)
        else:
            parts = [_or_null(repeated).take(first_of), *single]
            events = _join(before.take(first_of), _join_non_null(parts, len(inverse)), *end)
        return events, self._encode_flows(block, time)

    def _text_before_args(self, block: EventBlock, rows: Array) -> pa.Array:
        phase = '"ph":"i","s":"t"' if block.kind.instant else '"ph":"X"'
        names = self._quoted_texts(block.args.name.take(rows), "[no name]")
        categories = self._quoted_texts(block.args.category.take(rows), block.kind.what)
        return _join(
            f",\n{{{phase},\"cat\":", categories, ',"name":', names, ",",
            self._ids_of(block.track[rows]), ',"args":{',
        )  # fmt: skip

    def _encode_flows(self, block: EventBlock, time: Sequence[pa.Array]) -> pa.Array | None:
        if block.flow_in is not None:
            phase, rows = '"ph":"f","bp":"e"', np.flatnonzero(block.flow_in != NO_FLOW)
            flow = block.flow_in[rows]
        elif block.flows_out is not None:
            first, count = block.flows_out
            phase, rows = '"ph":"s"', np.repeat(np.arange(len(count)), count)
            flow = first[rows] + np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
        else:
            return None
        if not len(rows):
            return None
        row_indices = int64_array(rows)
        return _join(
            f',\n{{{phase},"cat":"ac2g","name":"ac2g","id":', _numbers(flow), ",",
            self._ids_of(block.track[rows]), ',"ts":', *(part.take(row_indices) for part in time), "}",
        )  # fmt: skip

    def encode_counters(self, values: CounterValues, processes: Sequence[TraceProcess]) -> pa.Array:
        fronts = [
            f',\n{{"ph":"C","name":{_json(counter.name)},"pid":{process.number},"tid":0,'
            f'"args":{{{_json(counter.unit or "value")}:'
            for counter, process in zip(values.counters, processes, strict=True)
        ]
        return _join(
            strings(fronts).take(int64_array(values.index)),
            _numbers(values.value), '},"ts":', *_microseconds(values.time), "}",
        )  # fmt: skip

    def write(self, encoded: pa.Array) -> None:
        self._file.write(content(encoded))

    def _arguments(self, columns: Mapping[str, Any]) -> list[pa.Array]:
        return [
            _join(f"{_quote(label)}:", self._json_values(values))
            for label, values in columns.items()
            if has_any(values)
        ]

    def _json_values(self, values: Any) -> pa.Array:
        if isinstance(values, Coded):
            is_json = isinstance(values, Json)
            texts = values.texts if is_json else [_quote(self._shown(t)) for t in values.texts]
            return strings(texts).take(int64_array(values.numbers, values.numbers < 0))
        if isinstance(values, Triple):
            x, y, z = (_numbers(axis) for axis in (values.x, values.y, values.z))
            return _join("[", x, ",", y, ",", z, "]")
        return _numbers(values)

    def _quoted_texts(self, texts: Coded, default: str) -> pa.Array:
        quoted = strings([_quote(self._shown(text)) for text in (*texts.texts, default)])
        return quoted.take(
            int64_array(np.where(texts.numbers < 0, len(texts.texts), texts.numbers))
        )

    def _ids_of(self, tracks: Array) -> pa.Array:
        if len(self._id_texts) < len(self._ids):
            self._id_texts = strings(self._ids)
        return self._id_texts.take(int64_array(tracks.astype(np.int64) - 1))

    def _write_metadata(self, name: str, pid: int, tid: int | str, args: dict[str, Any]) -> None:
        event = {"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": args}
        separator = ",\n" if self._has_events else "\n"
        self._has_events = True
        self._file.write(f"{separator}{_json(event)}".encode("utf-8", "replace"))


def _tid(track: Track, name: str) -> str:
    """Return an id of a track that is unique in its process, and begins with its thread's number."""
    lane = f" ({track.lane + 1})" if track.lane else ""
    if track.kind.on_gpu:
        return name
    tid = track.key["tid"]
    if tid != MISSING:
        return f"{tid} {track.title}{lane}"
    # The first digits in it are taken for the number of a thread, so here there are none.
    letters = str.maketrans("0123456789", "abcdefghij")
    return f"{NO_THREAD} {track.title}{lane}".translate(letters)


# -- columns of JSON text


@lru_cache(maxsize=1 << 14)
def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _numbers(values: Array) -> pa.Array:
    """Return whole numbers as text, null for MISSING; of other numbers those that are finite."""
    if values.dtype.kind == "f":
        finite = np.isfinite(values)
        return _text(numbers(np.where(finite, values, 0.0), finite, "float"))
    return _text(int64_array(values, values == MISSING))


def _microseconds(ns: Array) -> tuple[pa.Array, pa.Array]:
    """Return times as text, exactly: whole microseconds, and the point with three digits."""
    if len(ns) and int(ns.min()) < 0:
        whole = np.abs(ns) // 1000
        sign = strings(["", "-"]).take(int64_array(ns < 0))
        fraction = int64_array(np.abs(ns) % 1000)
        return _join(sign, _text(int64_array(whole))), _fractions().take(fraction)
    whole = ns // 1000
    return _text(int64_array(whole)), _fractions().take(int64_array(ns - whole * 1000))


@cache
def _fractions() -> pa.Array:
    return strings([f".{thousandth:03}" for thousandth in range(1000)])


def _text(values: pa.Array) -> pa.Array:
    return values.cast(pa.large_string())


def _join(*parts: pa.Array | str) -> pa.Array:
    columns = (scalar(part) if isinstance(part, str) else part for part in parts)
    return pc.binary_join_element_wise(*columns, scalar(""))


def _join_non_null(parts: Sequence[pa.Array], count: int) -> pa.Array:
    if not parts:
        return strings([""] * count)
    # Arrow's own way to leave nulls out leaves rows out that have nothing else.
    joined = _join(*(_or_empty(_join(",", part)) for part in parts))
    return pc.binary_replace_slice(joined, start=0, stop=1, replacement="")


def _or_empty(texts: pa.Array) -> pa.Array:
    return pc.coalesce(texts, scalar("")) if texts.null_count else texts


def _or_null(texts: pa.Array) -> pa.Array:
    empty = lengths(texts) == 0
    return texts.take(int64_array(np.arange(len(texts)), empty)) if empty.any() else texts
