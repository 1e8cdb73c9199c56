"""Rows of a memory snapshot: its events in order, the blocks at its end, and their call stacks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
"""The entries of a trace by column; `kind` is MISSING for those that are left out."""

_BLOCK, _SEGMENT, _OOM = range(len(codes.MEMORY_EVENT_KINDS))
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
}
_NO_MEMORY = ("free_requested", "snapshot")
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
            if (own["kind"] != MISSING).any():
                facts.add(Fact.MEMORY_EVENTS)
                yield from _in_parts("memory_event", self._event_rows(device, own, blocks, zero))
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
        found = load(self._probe.readable, str(self._probe.origin))
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
            if isinstance(trace, list) and trace:
                self._count(len(trace))
                events[device] = self._events(device, trace)
        sizes = [blocks["bytes"], *(own["size"][own["kind"] != MISSING] for own in events.values())]
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

    def _events(self, device: int, trace: list[Any]) -> _Events:
        entries = _rows(trace)
        actions = [_text(entry.get("action")) for entry in entries]
        places = [place for place, action in enumerate(actions) if action not in _NO_MEMORY]
        rows = [entries[place] for place in places]
        pairs = [_ACTIONS.get(actions[place], (MISSING, 0)) for place in places]
        kind, sign = np.array(pairs, np.int64).reshape(-1, 2).T
        cells = _integers(rows, "addr", "size", "time_us")
        free = np.full(len(rows), MISSING)
        failed = np.flatnonzero(kind == _OOM)
        free[failed] = _integers([rows[i] for i in failed.tolist()], "device_free")["device_free"]
        unknown = kind == MISSING
        bad = (cells["size"] < 0) | ((cells["addr"] == MISSING) & (kind != _OOM))
        for slug, which in (("unknown-code", unknown), ("cell-unreadable", bad & ~unknown)):
            for i in np.flatnonzero(which).tolist():
                self._leave_out(slug, f"device {device}, event {places[i]}")
        kind = np.where(bad, MISSING, kind)
        # A block's holder is who allocated it; who freed it is not asked for.
        number, ways = self._stacks.number, sign.tolist()
        stacks = [
            number(row.get("frames")) if way > 0 else MISSING
            for row, way in zip(rows, ways, strict=True)
        ]
        return {
            "kind": kind,
            "sign": sign,
            "stack": np.array(stacks, np.int64),
            "free": free,
            **cells,
        }

    def _event_rows(
        self, device: int, events: _Events, blocks: Mapping[str, Array], zero: int | None
    ) -> dict[str, Array]:
        kept = np.flatnonzero(events["kind"] != MISSING)
        names = ("kind", "sign", "addr", "size", "stack", "free")
        kind, sign, address, size, stack, free = (events[name][kept] for name in names)
        mine = blocks["device_id"] == device
        in_use = mine & (blocks["state"] != _INACTIVE)
        used = (blocks[name][in_use].tolist() for name in ("address", "requested_bytes"))
        held = dict(zip(*used, strict=True))
        is_block = kind == _BLOCK
        changes, before = _changes(sign[is_block], address[is_block], size[is_block], held)
        change = np.zeros(len(kept), np.int64)
        change[is_block] = changes
        moved = np.where(kind == _SEGMENT, sign * size, 0)
        # What was reserved at the end is known, and before it by what came and went.
        reserved = int(blocks["bytes"][mine].sum()) - moved[::-1].cumsum()[::-1] + moved
        bytes_ = np.where(is_block & (sign < 0), change, sign * size)
        return {
            "start_ns": self._starts(events["time_us"], zero)[kept],
            "device_id": np.full(len(kept), device),
            "kind": kind,
            "address": np.where(kind == _OOM, MISSING, address),
            "bytes": bytes_,
            "allocated_bytes": before + change.cumsum(),
            "reserved_bytes": np.maximum(reserved, 0),
            "free_bytes": free,
            "stack_id": stack,
        }

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

    def _leave_out(self, what: str, place: str) -> None:
        self._left_out[what] += 1
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


def _changes(
    sign: Array, address: Array, size: Array, held: Mapping[int, int]
) -> tuple[Array, int]:
    # The result has, by event, by how much what is in use grew, and what was in use before them all:
    # what was freed without having been allocated, and what is `held` at the end without having been.
    live: dict[int, int] = {}
    changes, before = [], 0
    for way, at, bytes_ in zip(sign.tolist(), address.tolist(), size.tolist(), strict=True):
        if way > 0:
            # A block that is still there was freed, and its free was not recorded.
            changes.append(bytes_ - live.get(at, 0))
            live[at] = bytes_
        elif at in live:
            changes.append(-live.pop(at))
        else:
            changes.append(-bytes_)
            before += bytes_
    before += sum(bytes_ for at, bytes_ in held.items() if at not in live)
    return np.array(changes, np.int64), before


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
    if all(type(row) is dict for row in rows):
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
_PYTHON_FILE = re.compile(r"[^\t\n\"<>|*?;()]{1,500}\.py")
_FUNCTION = re.compile(r"<?[\w.]{1,200}>?")
# Only the node of the backward pass is kept of C++: it says whose gradients these are.
_NODE = re.compile(r"torch::autograd::(?:generated::)?(\w{1,200})::apply\(")
_DEEPEST = 128
_LONGEST_STACK = 1024


class _Stacks:
    # The stacks of allocations by number, innermost first, as `file.py(12): function;…`. Snapshots share
    # the objects of frames, so that most stacks are known by which objects they hold.
    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self._by_frames: dict[tuple[int, ...], int] = {}
        self._entries: dict[int, str] = {}

    def number(self, frames: Any) -> int:
        if type(frames) is not list or not frames:
            return MISSING
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
        entry = self._entries.get(id(frame))
        if entry is None:
            entry = self._entries[id(frame)] = _entry(frame) if type(frame) is dict else ""
        return entry


def _entry(frame: _Row) -> str:
    path, function, line = _text(frame.get("filename")), _text(frame.get("name")), frame.get("line")
    if _PYTHON_FILE.fullmatch(path) and _FUNCTION.fullmatch(function) and type(line) is int:
        package = package_path(path)
        path = package if package != path else _FOLDERS.sub("", path)
        return f"{path}({line}): {function}"
    node = _NODE.match(function)
    return node[1] if node else ""
