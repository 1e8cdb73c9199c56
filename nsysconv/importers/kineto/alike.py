"""Events laid out as libkineto does, by what they hold: one that stands for all that are alike.

Alike are those that hold the same but for their times, and for the numbers of the call, of the operator's
sequence and of the event itself. numpy and Arrow's functions are loaded with this module.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nsysconv.importers.kineto.cells import constant
from nsysconv.importers.kineto.events import Event
from nsysconv.importers.kineto.known_events import decode_known_events
from nsysconv.importers.kineto.layout import Laid, laid
from nsysconv.importers.kineto.piece import MISSING, Times, TimeUnit
from nsysconv.importers.kineto.shares import Columns, process_number
from nsysconv.importers.kineto.sorting import distinct

Array = np.ndarray

# Where work ran: few places, all below this number.
_PLACE = ("device", "context", "stream")
_PLACES = 1 << 10
_MOST_TEXTS = 1 << 15
# Numbers that differ from row to row: what events call them, and the columns that hold them.
_CORRELATED = ("api_call", "kernel", "memcpy", "memset", "sync", "collective")
_OWN = (
    ("Sequence number", "sequence", {("operator", "sequence_number")}),
    ("correlation", "correlation", {(table, "correlation_id") for table in _CORRELATED}),
)


class _Head(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """The first line of an event, and nothing that stands on another line."""

    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None


class _Tail(msgspec.Struct, gc=False):
    """The `args` of an event, of which nothing is read."""


_decode_heads = msgspec.json.Decoder(list[_Head]).decode
_decode_tails = msgspec.json.Decoder(list[_Tail]).decode


class Alike:
    """Events that stand for all that are alike, as Share has them."""

    def __init__(self, found: Laid, events: list[Event], which: Array) -> None:
        self.events = events
        self.count = len(which) + found.passed
        self.found = found
        self.which = which
        self.owner: Array | int = MISSING
        self._number = {id(event): number for number, event in enumerate(events)}

    def follow(self, on_threads: list[list[Event]], process: int) -> tuple[list[int], int]:
        """As Share's."""
        told = distinct([event.pid for events in on_threads for event in events])
        self.owner = process
        if {process_number(pid) for pid in told} <= {process, None}:
            return [], process
        named = np.zeros(len(self.events), np.int64)
        for events in on_threads:
            for event in events:
                named[self._number[id(event)]] = process_number(event.pid) or 0
        seen = [pid for pid in dict.fromkeys(named.tolist()) if pid]
        pids = named[self.which]
        last = np.maximum.accumulate(np.where(pids != 0, np.arange(len(pids)), -1))
        self.owner = np.where(last < 0, process, pids[last])
        return seen, int(self.owner[-1])

    def rows(self, events: list[Event]) -> AlikeRows:
        """As Share's."""
        place = np.full(len(self.events), -1)
        place[[self._number[id(event)] for event in events]] = np.arange(len(events))
        return AlikeRows(self, place[self.which], events)


class AlikeRows:
    """The rows of some events that stand for many; `which` of them, of each row of the share, or -1."""

    def __init__(self, share: Alike, which: Array, events: list[Event]) -> None:
        self._share = share
        self._events = events
        self._rows = np.flatnonzero(which >= 0)
        self._which = which[self._rows]
        self.count = len(self._rows)
        self.has_fractions = share.found.has_fractions

    def start(self) -> Times:
        """As those of RowsOf."""
        return [(TimeUnit.NS, self._share.found.start[self._rows].tobytes())]

    def dur(self) -> Times:
        """As those of RowsOf."""
        return [(TimeUnit.NS, self._share.found.dur[self._rows].tobytes())]

    def spread(self, table: str, columns: Columns) -> Columns:
        """As those of RowsOf."""
        found = {}
        for name, packed in columns.items():
            cells = np.frombuffer(packed, np.int64)
            alike = len(cells) > 0 and bool((cells == cells[0]).all())
            own = self._own(table, name)
            if own is not None:
                found[name] = np.where(own < 0, cells[self._which], own).tobytes()
            elif alike:
                found[name] = constant(int(cells[0]), self.count)
            else:
                found[name] = cells[self._which].tobytes()
        return found

    def _own(self, table: str, column: str) -> Array | None:
        """The numbers that rows have of their own in a column."""
        for name, attribute, of in _OWN:
            if (table, column) in of and hasattr(self._events[0].args, attribute):
                own: Array = self._share.found.numbers[name][self._rows]
                return own
        return None

    def owners(self) -> bytes:
        """As those of RowsOf."""
        owner = self._share.owner
        if isinstance(owner, int):
            return constant(owner, self.count)
        return owner[self._rows].tobytes()

    def firsts(self) -> Iterable[int]:
        """As those of RowsOf."""
        first = np.empty(len(self._events), np.int64)
        first[self._which[::-1]] = np.arange(self.count)[::-1]
        firsts: list[int] = first.tolist()
        return firsts


def alike(room: memoryview) -> Alike | None:
    """The events of a text, which PADDING follows in its room; None where it is laid out in another way,
    or holds anything unknown.
    """
    found = laid(room)
    if found is None or max(len(found.heads), len(found.tails)) > _MOST_TEXTS:
        return None
    key = found.head * np.int64(len(found.tails)) + found.tail
    for name in _PLACE:
        values = found.numbers[name]
        if (values >= _PLACES - 1).any():
            return None
        key = key * _PLACES + values + 1
    which, first = _numbered(key)
    events = _events(found, first)
    if events is None or _told_twice(found, events, which):
        return None
    return Alike(found, events, which)


def _numbered(key: Array) -> tuple[Array, Array]:
    """Which of the distinct keys each is, and where these are met first, in that order."""
    values = pa.Array.from_buffers(pa.int64(), len(key), [None, pa.py_buffer(key)])
    encoded = pc.dictionary_encode(values)
    which = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(key))
    first = np.empty(len(encoded.dictionary), np.int64)
    first[which[::-1]] = np.arange(len(key))[::-1]
    return which, first


def _events(found: Laid, rows: Array) -> list[Event] | None:
    """The events of some rows, with no time."""
    heads, tails = found.heads, found.tails
    numbers = (found.numbers[name][rows].tolist() for name in _PLACE)
    texts = [
        b'{%b,"ts":0,"dur":0,"args":{%b}}'
        % (heads[head], b",".join([*_members(*place), *filter(None, (tails[tail],))]))
        for head, tail, *place in zip(
            found.head[rows].tolist(), found.tail[rows].tolist(), *numbers, strict=True
        )
    ]
    try:
        # A text that closes what it did not open would be more than one object.
        if len(_decode_heads(b"[{%b}]" % b"},{".join(heads))) != len(heads):
            return None
        if len(_decode_tails(b"[{%b}]" % b"},{".join(tails))) != len(tails):
            return None
        return decode_known_events(b"[%b]" % b",".join(texts))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


@lru_cache(_PLACES)
def _members(*place: int) -> list[bytes]:
    """Where work ran, as members of `args`; nothing of what is not told."""
    return [
        b'"%b":%d' % (name.encode(), value)
        for name, value in zip(_PLACE, place, strict=True)
        if value >= 0
    ]


def _told_twice(found: Laid, events: list[Event], which: Array) -> bool:
    """Whether an event holds what its rows have of their own."""
    told = b"\n".join(found.tails)
    for name, attribute, _ in _OWN:
        # A name may be spelled in other ways, with a backslash.
        if name.encode() not in told and b"\\u" not in told:
            continue
        twice = [
            number
            for number, event in enumerate(events)
            if getattr(getattr(event, "args", None), attribute, None) is not None
        ]
        if twice and (found.numbers[name][np.isin(which, twice)] >= 0).any():
            return True
    return False
