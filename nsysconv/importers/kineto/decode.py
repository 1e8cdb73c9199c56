"""A piece of a trace's events into cells. Runs in worker processes: nothing heavy is imported here."""

from __future__ import annotations

import gc
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from io import BufferedReader
from pathlib import Path
from typing import Any

import msgspec

from nsysconv.cores import cores
from nsysconv.importers.kineto import events as e
from nsysconv.importers.kineto.builder import Batch, Builder, Spelled
from nsysconv.importers.kineto.events import (
    NO_ARGS,
    Args,
    Event,
    Words,
    decode_event,
    decode_known_events,
)
from nsysconv.importers.kineto.packed import FURTHER_ARRAY, Piece
from nsysconv.importers.kineto.trace import BORDER, GZIP, Span, Trace, joined, without_words
from nsysconv.processes import Processes

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
    known: dict[int, e.SpelledTimes] = {}

    def spelled(wanted: Sequence[Event], name: str) -> Sequence[bytes]:
        if not known:
            times = e.decode_times(text)
            known.update((id(event), each) for event, each in zip(events, times, strict=True))
        return [bytes(getattr(known[id(event)], name)) for event in wanted]

    return spelled


_LONE_BACKSLASH = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
# A key with the quote that begins its text, and a quote that may end it: on one line, as libkineto
# writes what a program may have named.
_OPENING = re.compile(r'"[^"\n]+":\s*"')
_CLOSING = re.compile(r'"\s*(?:,\s*(?="|$)|$|\})', re.MULTILINE)
_INNER_QUOTE = re.compile(r'(?<!\\)"')
_PIECES_AT_ONCE = 4


def mended(text: bytes) -> Iterator[tuple[int, int, Event | None, str]]:
    """The events of a text of events one by one: place, length, event, and what was wrong with it.

    The event is None where nothing helped; the text is empty where nothing was wrong.
    """
    starts = [0, *(match.end() for match in BORDER.finditer(text))]
    ends = [*(match.start() + 1 for match in BORDER.finditer(text)), len(text)]
    place = 0
    while place < len(starts):
        for taken in range(1, _PIECES_AT_ONCE + 1):
            last = place + taken - 1
            if last >= len(starts):
                break
            piece = text[starts[place] : ends[last]].strip().rstrip(b",")
            event, damage = _event(piece)
            if event is not None:
                break
        else:
            last = place
        if event is None:
            last, damage = place, "unreadable"
        yield starts[place], ends[last] - starts[place], event, damage
        place = last + 1


def _event(piece: bytes) -> tuple[Event | None, str]:
    try:
        return decode_event(piece), ""
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    damage: Counter[str] = Counter()
    piece, words = without_words(piece)
    damage["no number"] += words
    text = piece.decode("utf-8", "replace")
    damage["no UTF-8"] += text.count("\N{REPLACEMENT CHARACTER}") - piece.count(b"\xef\xbf\xbd")
    found = _loaded(text)
    if found is None:
        text, lone = _LONE_BACKSLASH.subn(r"\\\\", text)
        damage["lone backslash"] += lone
        found = _loaded(text)
    if found is None:
        text = _with_quotes_escaped(text)
        damage["unescaped quote"] += 1
        found = _loaded(text)
    if found is None:
        return None, "unreadable"
    told = [what for what, count in damage.items() if count > 0]
    return _from_dictionary(found), told[0] if told else "control character"


def _with_quotes_escaped(text: str) -> str:
    """The text with a backslash before each quote inside a value; in time linear in its length."""
    parts = []
    done = place = 0
    closing = _CLOSING.search(text)
    while closing is not None and (opening := _OPENING.search(text, place)) is not None:
        if closing.start() < opening.end():
            closing = _CLOSING.search(text, opening.end())
        elif (line_end := text.find("\n", opening.end(), closing.start())) >= 0:
            place = line_end
        else:
            inner = text[opening.end() : closing.start()]
            parts += [text[done : opening.end()], _INNER_QUOTE.sub(r"\"", inner)]
            done, place = closing.start(), closing.end()
    return "".join(parts) + text[done:]


def _loaded(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text, strict=False, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _from_dictionary(found: dict[str, Any]) -> Event:
    args = found.get("args")
    names = dict(zip(Args.__struct_encode_fields__, Args.__struct_fields__, strict=True))
    told = {names[k]: v for k, v in args.items() if k in names} if isinstance(args, dict) else {}
    for field in ("shapes", "shapes_then", "types"):
        if field in told:
            told[field] = msgspec.Raw(json.dumps(told[field], default=str).encode())
    event = {field: found.get(field) for field in Event.__struct_fields__ if field != "args"}
    return Event(**event, args=Args(**told) if told else NO_ARGS)


# Below this, starting processes takes longer than decoding.
_ALONE_BYTES = 24 << 20
_INFLATION = 10
_MOST_WORKERS = 8

Decode = Callable[[Span], Piece]


def worker_count(size: int, head: bytes, most: int | None = None) -> int:
    """Return how many worker processes decode a trace of `size` bytes that begins with `head`.

    0: it is decoded in this process. `most`: how many processes there may be; None: one per core.
    """
    most = most or min(cores(), _MOST_WORKERS)
    inflated = size * (_INFLATION if head.startswith(GZIP) else 1)
    return most if inflated >= _ALONE_BYTES and most > 1 else 0


@contextmanager
def decoded(trace: Trace, workers: int, *, python_functions: bool) -> Iterator[Iterator[Piece]]:
    """Yield the pieces of a trace, decoded by so many worker processes or, for 0, by this one.

    Leaving the context ends the processes. Raises EndedEarly where one of them did.
    """
    if workers:
        with Processes[Span, Piece](workers, _worker, trace.path, python_functions) as processes:
            yield processes.map(trace.pieces())
    else:
        with trace.path.open("rb") as file:
            yield map(_decode(file, python_functions=python_functions), trace.pieces())


def _decode(file: BufferedReader, *, python_functions: bool) -> Decode:
    decoder = Decoder(python_functions=python_functions)
    return lambda span: decoder.decode(span.read(file), span.place)


def _worker(path: Path, python_functions: bool) -> Decode:
    """Return what decodes the trace at `path` for as long as a worker process runs."""
    # Events hold no cycles; looking for some in millions of objects would cost a tenth of the time.
    gc.disable()
    return _decode(path.open("rb"), python_functions=python_functions)
