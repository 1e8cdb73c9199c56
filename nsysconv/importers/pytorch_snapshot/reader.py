"""Rows of a memory snapshot: its events in order, the blocks at its end, and their call stacks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nsysconv import codes, schema
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers.pytorch_snapshot.plain_pickle import load, paused_collector
from nsysconv.names import package_path
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING
from nsysconv.store.recording import ArrayRows, ProfileAttributes, Summary, rows_of

if TYPE_CHECKING:
    from nsysconv.importers.probe import Probe
    from nsysconv.store.recording import Batches

Array = np.ndarray
_Row = Mapping[str, Any]
_Events = Mapping[str, Array]
"""The events of a trace by column, without those that are left out."""

_BLOCK, _SEGMENT, _OOM = range(len(codes.MEMORY_EVENT_KINDS))
_UNKNOWN, _NO_MEMORY = (-2, 0), (-1, 0)
# What an action is, and whether memory was taken (1) or given back (-1). Between the request to free a
# block and its completion another stream still uses it: it is in use until then.
_ACTIONS = {
    "alloc": (_BLOCK, 1),
    "free_completed": (_BLOCK, -1),
    "free": (_BLOCK, -1),
    "segment_alloc": (_SEGMENT, 1),
    "segment_map": (_SEGMENT, 1),
    "segment_free": (_SEGMENT, -1),
    "segment_unmap": (_SEGMENT, -1),
    "oom": (_OOM, 1),
    "free_requested": _NO_MEMORY,
    "snapshot": _NO_MEMORY,
}
_ALLOCATED, _AWAITING_FREE, _INACTIVE = range(len(codes.MEMORY_BLOCK_STATES))
_STATES = {
    "active_allocated": _ALLOCATED,
    "active_pending_free": _AWAITING_FREE,
    "active_awaiting_free": _AWAITING_FREE,
    "inactive": _INACTIVE,
}
_ROWS_AT_ONCE = 1 << 17
_NS_PER_US = 1000
_DROPPED, _APPROXIMATED = Severity.DROPPED, Severity.APPROXIMATED
_FACTS = frozenset({Fact.MEMORY_EVENTS, Fact.MEMORY_BLOCKS})
_MOST_DEVICES = 1 << 16
_LAST = (1 << 63) - 1
# All sizes of events and blocks together, which have to be added up in 64 bits.
_MOST_BYTES = 1 << 60


class SnapshotReader:
    """Reads one file."""

    def __init__(
        self, probe: Probe, guaranteed: frozenset[Fact], advice: Mapping[Fact, str]
    ) -> None:
        """Read nothing yet; `guaranteed` and `advice` are those of the importer."""
        self._probe, self._guaranteed, self._advice = probe, guaranteed, advice
        self._stacks = _Stacks()
        self._left_out: Counter[str] = Counter()
        self._first_place: dict[str, str] = {}
        self._rows = 0

    def batches(self) -> Batches:
        """Yield the rows of events and blocks, then of devices and names; return the summary."""
        with paused_collector():
            events, blocks = self._converted()
        zero, last = _clock(events)
        facts = set(self._guaranteed)
        notes = list(self._probe.notes)
        for device, own in events.items():
            if len(own["kind"]):
                facts.add(Fact.MEMORY_EVENTS)
                yield from self._event_rows(device, own, blocks, zero)
        ids = np.arange(1, len(blocks["state"]) + 1)
        yield from _in_parts("memory_block", {"id": ids, **blocks})
        devices = sorted({*np.unique(blocks["device_id"]).tolist(), *events})
        yield rows_of(schema.device, [{"device_id": i, "ordinal": i} for i in devices])
        names = [{"id": i, "text": text} for text, i in self._stacks.texts.items()]
        yield rows_of(schema.name, names)
        facts |= {Fact.STACKS} if names else set()
        facts |= {Fact.UTC} if zero is not None else set()
        attributes = ProfileAttributes(
            zero_utc_ns=None if zero is None else zero * _NS_PER_US,
            recording_ns=None if zero is None else (last - zero) * _NS_PER_US,
        )
        return Summary(attributes, frozenset(facts), self._advice, [*notes, *self._notes()])

    def _converted(self) -> tuple[dict[int, _Events], dict[str, Array]]:
        where = str(self._probe.origin)
        found = load(self._probe.readable, where, lambda: _Trace(self._stacks))
        if isinstance(found, list):  # what torch.cuda.memory_snapshot() returns
            found = {"segments": found}
        segments = found.get("segments") if isinstance(found, dict) else None
        if not isinstance(segments, list):
            raise self._damaged("the pickle has no list of segments: it is not a memory snapshot")
        blocks = self._blocks(segments)
        traces = found.get("device_traces", found.get("traces"))
        traces = traces if isinstance(traces, list) else []
        annotations = found.get("external_annotations")
        self._left_out["rows-not-read"] += len(annotations) if isinstance(annotations, list) else 0
        events = {}
        for device, trace in enumerate(traces[:_MOST_DEVICES]):
            if trace if type(trace) is list else isinstance(trace, _Trace):
                events[device] = self._events(device, trace)
        sizes = [blocks["bytes"], *(own["size"] for own in events.values())]
        if sum(float(each.sum(dtype=float)) for each in sizes) > _MOST_BYTES:
            raise self._damaged("the snapshot has more memory than there can be")
        return events, blocks

    def _count(self, rows: int) -> None:
        # A file of few bytes can list the same blocks or events again and again.
        self._rows += rows
        if self._rows > self._probe.size:
            raise self._damaged("the snapshot lists more blocks and events than it has bytes")

    def _damaged(self, what: str) -> InputError:
        hint = "Dump it again: torch.cuda.memory._dump_snapshot()."
        return InputError(what, where=str(self._probe.origin), hint=hint)

    # -- blocks

    def _blocks(self, segments: list[Any]) -> dict[str, Array]:
        cells: list[tuple[int, ...]] = []
        for number, segment in enumerate(segments):
            place = f"segment {number}"
            device, address = _integers(_rows([segment]), "device", "address").values()
            blocks = segment.get("blocks") if isinstance(segment, dict) else None
            if not isinstance(blocks, list) or not 0 <= device[0] < _MOST_DEVICES:
                self._leave_out("cell-unreadable", place)
                continue
            self._count(len(blocks))
            cells += self._blocks_of(int(device[0]), int(address[0]), blocks, place)
        names = ("device_id", "segment_address", "address", "bytes", "requested_bytes", "state",
                 "stack_id")  # fmt: skip
        columns = np.array(cells, np.int64).reshape(-1, len(names)).T
        return dict(zip(names, columns, strict=True))

    def _blocks_of(
        self, device: int, address: int, blocks: list[Any], place: str
    ) -> Iterator[tuple[int, ...]]:
        rows = _rows(blocks)
        found = _integers(rows, "address", "size", "requested_size")
        at, segment = address, address
        for row, own, size, requested in zip(
            rows, *(each.tolist() for each in found.values()), strict=True
        ):
            state = _STATES.get(_text(row.get("state")), MISSING)
            # In old layouts blocks have no address, and the last allocation is in their history.
            at = at if own == MISSING else own
            if state == MISSING or size < 0:
                self._leave_out("cell-unreadable", place)
                continue
            history = row.get("history")
            latest = _rows(history[:1])[0] if isinstance(history, list) and history else {}
            if requested < 0:
                requested = latest.get("real_size")
                requested = requested if type(requested) is int and 0 <= requested <= size else size
            stack = MISSING
            if state == _INACTIVE:
                requested = MISSING
            else:
                stack = self._stacks.number(row.get("frames") or latest.get("frames"))
            yield device, segment, at, size, requested, state, stack
            at = at + size if MISSING < at < _LAST - size else MISSING

    # -- events

    def _events(self, device: int, found: list[Any]) -> _Events:
        trace = found if isinstance(found, _Trace) else _Trace(self._stacks)
        if not trace.event_count:
            trace.take(found)
        self._count(trace.event_count)
        for slug, places in trace.left_out.items():
            if places:
                self._leave_out(slug, f"device {device}, event {places[0]}", len(places))
        return trace.columns()

    def _event_rows(
        self, device: int, events: _Events, blocks: Mapping[str, Array], zero: int | None
    ) -> Iterator[ArrayRows]:
        kind, sign, address, size = (events[name] for name in ("kind", "sign", "addr", "size"))
        mine = blocks["device_id"] == device
        in_use = mine & (blocks["state"] != _INACTIVE)
        change, before = _changes(
            events, *(blocks[n][in_use] for n in ("address", "requested_bytes"))
        )
        moved = np.where(kind == _SEGMENT, sign * size, 0)
        # What was reserved at the end is known, and before it by what came and went.
        reserved = int(blocks["bytes"][mine].sum()) - moved.sum() + moved.cumsum()
        columns = {
            "start_ns": self._starts(events["time_us"], zero),
            "kind": kind.astype(np.int64),
            "address": np.where(kind == _OOM, MISSING, address),
            "bytes": np.where((kind == _BLOCK) & (sign < 0), change, sign * size),
            "allocated_bytes": before + change.cumsum(),
            "reserved_bytes": np.maximum(reserved, 0),
            "free_bytes": events["free"],
            "stack_id": events["stack"],
        }
        for part in _in_parts("memory_event", columns):
            yield replace(part, columns={"device_id": np.full(part.count, device), **part.columns})

    def _starts(self, time_us: Array, zero: int | None) -> Array:
        # Events are in their order. Where a clock went back, or was not read, the time before counts.
        if zero is None or not len(time_us):
            return np.full(len(time_us), MISSING)
        ordered = np.maximum.accumulate(np.where(_is_time(time_us), time_us, zero))
        if count := int(np.count_nonzero(ordered != time_us)):
            self._left_out["memory-times-unordered"] += count
        starts: Array = np.minimum((ordered - zero) * _NS_PER_US, schema.TIME_LIMIT_NS)
        return starts

    # -- notes

    def _leave_out(self, what: str, place: str, count: int = 1) -> None:
        self._left_out[what] += count
        self._first_place.setdefault(what, place)

    def _notes(self) -> Iterator[Note]:
        count, place = self._left_out, self._first_place
        for slug, severity, text in (
            ("cell-unreadable", _DROPPED, "blocks and events without a number or state were left out"),
            ("unknown-code", _DROPPED, "events of unknown actions were left out"),
            ("memory-times-unordered", _APPROXIMATED, "times that go back or are missing were raised"),
            ("rows-not-read", Severity.INFO, "annotations of the program are not read"),
        ):  # fmt: skip
            if count[slug]:
                yield Note(slug, severity, text, count[slug], place.get(slug, ""), _FACTS)


class _Trace(list[Any]):
    # A list that begins with a dictionary. If these are events, they become columns as they are read.
    def __init__(self, stacks: _Stacks) -> None:
        super().__init__()
        self.event_count = 0
        self.left_out: dict[str, list[int]] = {"unknown-code": [], "cell-unreadable": []}
        self._stacks = stacks
        self._parts: dict[str, list[Array]] = {}

    def extend(self, rows: Iterable[Any]) -> None:
        entries = [*rows]
        if self.event_count or (entries and type(entries[0]) is dict and "action" in entries[0]):
            self.take(entries)
        else:
            super().extend(entries)

    def take(self, entries: Sequence[Any]) -> None:
        entries = _rows(entries)
        actions: list[Any] = [entry.get("action") for entry in entries]
        if set(map(type, actions)) != {str}:
            actions = [*map(_text, actions)]
        found = [_ACTIONS.get(action, _UNKNOWN) for action in actions]
        kind, sign = np.array(found, np.int8).reshape(-1, 2).T
        cells = _integers(entries, "addr", "size", "time_us")
        bad = (cells["size"] < 0) | ((cells["addr"] == MISSING) & (kind != _OOM))
        unknown, is_memory = kind == _UNKNOWN[0], kind >= 0
        for slug, which in (("unknown-code", unknown), ("cell-unreadable", bad & is_memory)):
            self.left_out[slug] += (self.event_count + np.flatnonzero(which)).tolist()
        self.event_count += len(entries)
        kept = np.flatnonzero(is_memory & ~bad)
        rows = [entries[place] for place in kept.tolist()]
        # A block's holder is who allocated it; who freed it is not asked for.
        number, ways = self._stacks.number, sign[kept].tolist()
        stacks = [
            number(row.get("frames")) if way > 0 else MISSING
            for row, way in zip(rows, ways, strict=True)
        ]
        free = np.full(len(rows), MISSING)
        failed = np.flatnonzero(kind[kept] == _OOM)
        free[failed] = _integers([rows[i] for i in failed.tolist()], "device_free")["device_free"]
        part = {"kind": kind, "sign": sign, **cells}
        part = {name: values[kept] for name, values in part.items()}
        for name, values in (part | {"stack": np.array(stacks, np.int64), "free": free}).items():
            self._parts.setdefault(name, []).append(values)

    def columns(self) -> _Events:
        # A list may be that of several devices.
        for name, parts in self._parts.items():
            self._parts[name] = [np.concatenate(parts)]
        return {name: parts[0] for name, parts in self._parts.items()}


def _changes(events: _Events, held: Array, held_bytes: Array) -> tuple[Array, int]:
    # The result has, by event, by how much what is in use grew, and what was in use before them all:
    # what was freed without having been allocated, and what is `held` at the end without having been.
    blocks = np.flatnonzero(events["kind"] == _BLOCK)
    blocks = blocks[np.argsort(events["addr"][blocks], kind="stable")]
    at, size, taken = (events[name][blocks] for name in ("addr", "size", "sign"))
    changes = np.zeros(len(events["kind"]), np.int64)
    if not len(at):
        return changes, int(held_bytes.sum())
    is_same = at[1:] == at[:-1]
    # Where the event before at the same address took what is there. If one is taken again, the free of
    # that one was not recorded.
    is_there = np.append(False, is_same & (taken[:-1] > 0))
    left = np.where(is_there, np.append(0, size[:-1]), 0)
    changes[blocks] = np.where(taken > 0, size - left, np.where(is_there, -left, -size))
    live = at[np.append(~is_same, True) & (taken > 0)]
    unseen = size[(taken < 0) & ~is_there].sum() + held_bytes[~np.isin(held, live)].sum()
    return changes, int(unseen)


def _clock(events: Mapping[int, _Events]) -> tuple[int | None, int]:
    # The first and the last time in us since 1970, None where no event has one.
    times = np.concatenate([np.empty(0, np.int64), *(own["time_us"] for own in events.values())])
    times = times[_is_time(times)]
    if not len(times):
        return None, 0
    first, last = int(times.min()), int(times.max())
    return first, min(last, first + schema.TIME_LIMIT_NS // _NS_PER_US)


def _is_time(time_us: Array) -> Array:
    found: Array = (time_us > 0) & (time_us < (1 << 63) // _NS_PER_US)
    return found


def _in_parts(table: str, columns: Mapping[str, Array]) -> Iterator[ArrayRows]:
    for low in range(0, len(next(iter(columns.values()))), _ROWS_AT_ONCE):
        part = {name: each[low : low + _ROWS_AT_ONCE] for name, each in columns.items()}
        yield ArrayRows(table, part)


# -- cells, which may be anything


def _rows(rows: Sequence[Any]) -> Sequence[_Row]:
    if set(map(type, rows)) <= {dict}:
        return rows
    return [row if type(row) is dict else {} for row in rows]


def _text(value: Any) -> str:
    return value if type(value) is str else ""


def _integers(rows: Sequence[_Row], *names: str) -> dict[str, Array]:
    # Cells that are no whole numbers of 64 bits are MISSING.
    found = {}
    for name in names:
        values = [row.get(name) for row in rows]
        if not set(map(type, values)) <= {int}:
            values = [value if type(value) is int else MISSING for value in values]
        try:
            found[name] = np.array(values, np.int64)
        except OverflowError:
            found[name] = np.array(
                [MISSING if v is None or abs(v) >= 1 << 63 else v for v in values], np.int64
            )
    return found


# -- call stacks

# The name of a file that belongs to no installed package is kept (docs/decisions/0007).
_FOLDERS = re.compile(r"^.*[/\\]")
_FILE = re.compile(
    r"[^\t\n\"<>|*?;()]{1,500}\.pyx?"
    # Code without a file, as Python, notebooks and torch.fx call it.
    r"|<(?:string|stdin|frozen [\w.]{1,80}|ipython-input-\d+-[0-9a-f]{1,40}|eval_with_key)>(?:\.\d{1,9})?"
)
_FUNCTION = re.compile(r"[\w.<>]{1,200}")
# Only the node of the backward pass is kept of C++: it says whose gradients these are.
_NODE = re.compile(r"torch::autograd::(?:generated::)?(\w{1,200})::apply\(")
_DEEPEST = 128
_LONGEST_STACK = 1024
MOST_STACKS, _MOST_FRAMES = 1 << 15, 1 << 17


class _Stacks:
    # The stacks of allocations by number, innermost first, as `file.py(12): function;…`. Snapshots share
    # the objects of frames, so that most stacks are known by which objects they hold.
    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self._by_frames: dict[tuple[int, ...], int] = {}
        # Beside each entry its frame, which keeps its number as long as it is here.
        self._entries: dict[int, tuple[str, Any]] = {}

    def number(self, frames: Any) -> int:
        if not isinstance(frames, list) or not frames:
            return MISSING
        if len(self._by_frames) > MOST_STACKS or len(self._entries) > _MOST_FRAMES:
            self._by_frames.clear()
            self._entries.clear()
        key = tuple(map(id, frames if len(frames) <= _LONGEST_STACK else frames[:_LONGEST_STACK]))
        number = self._by_frames.get(key)
        if number is None:
            number = self._by_frames[key] = self._new(frames[:_LONGEST_STACK])
        return number

    def _new(self, frames: list[Any]) -> int:
        entries = [entry for frame in frames if (entry := self._entry(frame))]
        text = "".join(f"{entry};" for entry in entries[:_DEEPEST])
        return self.texts.setdefault(text, len(self.texts) + 1) if text else MISSING

    def _entry(self, frame: Any) -> str:
        known = self._entries.get(id(frame))
        if known is None:
            known = self._entries[id(frame)] = (_entry(frame) if type(frame) is dict else ""), frame
        return known[0]


def _entry(frame: _Row) -> str:
    path, function, line = _text(frame.get("filename")), _text(frame.get("name")), frame.get("line")
    package = package_path(path)
    path = package if package != path else _FOLDERS.sub("", path)
    if _FILE.fullmatch(path) and _FUNCTION.fullmatch(function) and type(line) is int:
        return f"{path}({line}): {function}"
    node = _NODE.match(function)
    return node[1] if node else ""
