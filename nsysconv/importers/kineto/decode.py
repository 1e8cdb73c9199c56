"""A piece of a trace's events into cells. Runs in worker processes: nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from nsysconv.importers.kineto import events as e
from nsysconv.importers.kineto.batch import Batch, Spelled
from nsysconv.importers.kineto.columns import Builder
from nsysconv.importers.kineto.events import Event
from nsysconv.importers.kineto.known_events import decode_known_events
from nsysconv.importers.kineto.piece import FURTHER_ARRAY, Piece
from nsysconv.importers.kineto.repair import BORDER, mended, without_words
from nsysconv.importers.kineto.trace import joined
from nsysconv.importers.kineto.words import Words

# Objects made of so much text stay in the cache.
_BATCH_BYTES = 1 << 19
# Every event has this key.
_PHASE = b'"ph"'
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class Decoder:
    """Decodes pieces of one trace; Python functions only if asked for.

    Objects are made for some `batch_bytes` of text at a time.
    """

    def __init__(self, *, python_functions: bool, batch_bytes: int = _BATCH_BYTES) -> None:
        self._words = Words()
        self._python_functions = python_functions
        self._batch_bytes = batch_bytes

    def decode(self, text: bytes, place: int) -> Piece:
        """Return the rows of a text of whole events, which begins at byte `place` of the trace."""
        piece = Piece()
        builder = Builder(piece, self._words)
        for low, high in batches(text, self._batch_bytes):
            batch = _batch(memoryview(text)[low:high], place + low, piece)
            builder.add(batch, python_functions=self._python_functions)
            # Its memory serves the next one while it is still in the cache.
            del batch
        builder.finish()
        return piece


def batches(text: bytes, size: int) -> Iterator[tuple[int, int]]:
    """Yield where batches of a text of events begin and end, which are of about one size."""
    low = 0
    while low < len(text):
        border = None
        if len(text) - low > 2 * size:
            border = BORDER.search(text, low + size, low + 2 * size)
        yield low, border.start() + 1 if border else len(text)
        low = border.end() if border else len(text)


def _batch(part: memoryview, place: int, piece: Piece) -> Batch:
    """Decode the events of a part of a piece, which begins at byte `place`; damage is noted."""
    text = b"".join((b"[", part, b"]"))
    try:
        if not text.isascii():
            text.decode()  # of what is passed over, this would not be seen
        events = decode_known_events(text)
    except _UNREADABLE:
        return Batch(*_events_of_any_kind(bytes(part), place, piece), place)
    return Batch(events, _spelled_in(text, events), place)


def _events_of_any_kind(part: bytes, place: int, piece: Piece) -> tuple[list[Event], Spelled]:
    """As above, of events whose category may be unknown, and of text that may be no JSON."""
    whole_text, words, arrays = b"[%b]" % part, 0, 0
    for attempt in range(2):
        try:
            events = e.decode_events(whole_text)
        except _UNREADABLE:
            if attempt == 0:
                whole_text, words = without_words(whole_text)
                whole_text, arrays = joined(whole_text)
                if words or arrays:
                    continue
            break
        piece.note("no number", words, place)
        piece.note(FURTHER_ARRAY, arrays, place)
        return events, _spelled_in(whole_text, events)
    events = []
    for start, length, event, damage in mended(part):
        if damage:
            # Where one event ends and the next begins may be what is damaged.
            lost = part.count(_PHASE, start, start + length) if event is None else 1
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
