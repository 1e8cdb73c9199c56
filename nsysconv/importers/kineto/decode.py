"""A piece of a trace's events into cells. Runs in worker processes: nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from nsysconv.importers.kineto import events as e
from nsysconv.importers.kineto.cells import times
from nsysconv.importers.kineto.columns import Builder
from nsysconv.importers.kineto.events import Event
from nsysconv.importers.kineto.known_events import decode_known_events
from nsysconv.importers.kineto.piece import Piece, Times
from nsysconv.importers.kineto.repair import BORDER, mended, without_words
from nsysconv.importers.kineto.shares import Each, Spelled
from nsysconv.importers.kineto.trace import PADDING
from nsysconv.importers.kineto.words import CATEGORIES, Words

# A text laid out as libkineto does is read at once. Where it is not, so much of it may be; but no less
# than the least, whose events would repeat too little.
_PART_BYTES, _LEAST_BYTES = 1 << 20, 1 << 18
# Objects made of so much text stay in the cache.
_SHARE_BYTES = 1 << 19
# Every event has this key.
_PHASE = b'"ph"'
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Decoder:
    """Decodes pieces of one trace. `at_once`: where they are laid out as usual, all events of one
    together, with numpy and Arrow, which takes a while to load.
    """

    def __init__(self, *, python_functions: bool, at_once: bool = False) -> None:
        self._words = Words()
        self._python_functions = python_functions
        self._at_once = at_once
        # So many pieces are not read all at once, because several before them could not be.
        self._pause, self._next_pause = 0, 1

    def decode(self, room: memoryview, place: int) -> Piece:
        """The rows of a text of whole events, which stands at byte `place` of the trace. In its room,
        PADDING follows it.
        """
        piece = Piece()
        builder = Builder(piece, self._words)
        text = room[:-PADDING]
        if not self._at_once or len(text) < _LEAST_BYTES:
            self._add_each(builder, piece, text, place)
        elif self._pause:
            self._pause -= 1
            self._add_each(builder, piece, text, place)
        elif self._add(builder, piece, room, place):
            self._next_pause = 1
        else:
            self._pause, self._next_pause = self._next_pause, 2 * self._next_pause
        builder.finish()
        return piece

    def _add(self, builder: Builder, piece: Piece, room: memoryview, place: int) -> bool:
        """Adds the rows of a text to a piece; returns whether some were read all at once."""
        from nsysconv.importers.kineto.alike import alike

        share = alike(room)
        if share is not None:
            builder.add(share, place, python_functions=self._python_functions)
            return True
        text = room[:-PADDING]
        if len(text) <= 2 * _PART_BYTES:
            self._add_each(builder, piece, text, place)
            return False
        # What is laid out in another way may be a single event.
        parts = [
            self._add(builder, piece, room[low : high + PADDING], place + low)
            for low, high in _shares(text, _PART_BYTES)
        ]
        return any(parts)

    def _add_each(self, builder: Builder, piece: Piece, text: memoryview, place: int) -> None:
        """Adds the rows of a text to a piece, event by event."""
        for low, high in _shares(text, _SHARE_BYTES):
            share = _each(text[low:high], place + low, piece)
            builder.add(share, place + low, python_functions=self._python_functions)
            # Its memory serves the next one while it is still in the cache.
            del share

    def starts(self, room: memoryview) -> Times:
        """The times of the rows in a text of whole events, which PADDING follows in its room."""
        events, spelled = _events_of_any_kind(bytes(room[:-PADDING]), 0, Piece())
        known = [event for event in events if str(event.cat).lower() in CATEGORIES]
        timed = known or [event for event in events if event.ph == "X"]
        return times([event.ts for event in timed], lambda: spelled(timed, "ts"))


def _shares(text: memoryview, size: int) -> Iterator[tuple[int, int]]:
    """Where to cut a text of events into shares of about one size."""
    low = 0
    while low < len(text):
        border = None
        if len(text) - low > 2 * size:
            border = BORDER.search(text, low + size, low + 2 * size)
        yield low, border.start() + 1 if border else len(text)
        low = border.end() if border else len(text)


def _each(share: memoryview, place: int, piece: Piece) -> Each:
    """The events of a text."""
    text = b"".join((b"[", share, b"]"))
    try:
        if not text.isascii():
            text.decode()  # of what is passed over, this would not be seen
        events = decode_known_events(text)
    except _UNREADABLE:
        return Each(*_events_of_any_kind(bytes(share), place, piece))
    return Each(events, _spelled_in(text, events))


def _events_of_any_kind(share: bytes, place: int, piece: Piece) -> tuple[list[Event], Spelled]:
    """As above, of events whose category may be unknown, and of text that may be no JSON."""
    text = b"[%b]" % share
    whole_text = text
    for attempt in range(2):
        try:
            events = e.decode_events(whole_text)
        except _UNREADABLE:
            if attempt == 0:
                whole_text, words = without_words(text)
                if words:
                    continue
            break
        if attempt:
            piece.note("no number", words, place)
        return events, _spelled_in(whole_text, events)
    events = []
    for start, length, event, damage in mended(share):
        if damage:
            # Where one event ends and the next begins may be what is damaged.
            lost = share.count(_PHASE, start, start + length) if event is None else 1
            piece.note(damage, max(lost, 1), place + start)
        if event is not None:
            events.append(event)
    # Half of a surrogate pair is nothing that could be encoded.
    return events, lambda wanted, name: [
        str(getattr(event, name)).encode("utf-8", "replace") for event in wanted
    ]


def _spelled_in(text: bytes, events: list[Event]) -> Spelled:
    known: dict[int, e.Times] = {}

    def spelled(wanted: Sequence[Event], name: str) -> Sequence[bytes]:
        if not known:
            times = e.decode_times(text)
            known.update((id(event), each) for event, each in zip(events, times, strict=True))
        return [bytes(getattr(known[id(event)], name)) for event in wanted]

    return spelled
