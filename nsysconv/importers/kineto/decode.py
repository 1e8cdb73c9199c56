"""Decoding the chunks of a trace, in worker processes where the trace is large.

Worker processes import this module: nothing that it imports loads numpy, Arrow or SQLAlchemy.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from functools import cache, partial
from io import BufferedReader
from pathlib import Path

import msgspec

from nsysconv.importers.kineto.allowed import UNREADABLE
from nsysconv.importers.kineto.builder import EventBatch, RowBuilder, SpelledBy
from nsysconv.importers.kineto.events import (
    NO_ARGS,
    Args,
    Event,
    SpelledTimes,
    decode_event,
    decode_events,
    decode_known_events,
    decode_times,
)
from nsysconv.importers.kineto.packed import FURTHER_ARRAY, Chunk
from nsysconv.importers.kineto.trace import (
    EVENT_BORDER,
    GZIP,
    NON_NUMBERS,
    ChunkText,
    Trace,
    join_arrays,
    parse_object,
    replace_non_numbers,
)
from nsysconv.launch import cores
from nsysconv.processes import Processes

# Below this, starting processes takes longer than decoding.
ALONE_BYTES = 24 << 20
_INFLATION = 10
_MOST_WORKERS = 8
# The objects made of this much text stay in the processor's cache.
_BATCH_BYTES = 1 << 19
# Every event has this key.
_PHASE = b'"ph"'

_LONE_BACKSLASH = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
# These find a key with the quote that begins its text, and a quote that may end it. Both are on one
# line, because libkineto writes texts of the program so.
_OPENING = re.compile(r'"[^"\n]+":\s*"')
_CLOSING = re.compile(r'"\s*(?:,\s*(?="|$)|$|\})', re.MULTILINE)
_INNER_QUOTE = re.compile(r'(?<!\\)"')
# An event whose own text looks like borders between events is put together from up to this many parts.
_MOST_PARTS = 4

Decode = Callable[[ChunkText], Chunk]


def worker_count(size: int, head: bytes, most: int | None = None) -> int:
    """Return how many worker processes decode a trace of `size` bytes that begins with `head`.

    0: it is decoded in this process. `most`: how many processes there may be; None: one per core.
    """
    most = most or min(cores(), _MOST_WORKERS)
    inflated = size * (_INFLATION if head.startswith(GZIP) else 1)
    return most if inflated >= ALONE_BYTES and most > 1 else 0


@contextmanager
def decode_chunks(
    trace: Trace, workers: int, *, python_functions: bool
) -> Iterator[Iterator[Chunk]]:
    """Yield the decoded chunks of a trace, in order; `workers` = 0 decodes in this process.

    Leaving the context ends the worker processes. Raises ProcessDiedError where one of them died.
    """
    if workers:
        with Processes[ChunkText, Chunk](
            workers, _start_worker, trace.path, python_functions
        ) as processes:
            yield processes.map(trace.chunks())
    else:
        with trace.path.open("rb") as file:
            yield map(_decoder_of(file, python_functions), trace.chunks())


def _start_worker(path: Path, python_functions: bool) -> Decode:
    # Events hold no cycles; looking for some in millions of objects would cost a tenth of the time.
    gc.disable()
    return _decoder_of(path.open("rb"), python_functions)


def _decoder_of(file: BufferedReader, python_functions: bool) -> Decode:
    return lambda chunk: decode_text(
        chunk.read(file), chunk.offset, python_functions=python_functions
    )


def decode_text(
    text: bytes, offset: int, *, python_functions: bool, batch_bytes: int = _BATCH_BYTES
) -> Chunk:
    """Return the rows of whole events, whose text begins at byte `offset` and is decoded in batches."""
    chunk = Chunk()
    builder = RowBuilder(chunk)
    for low, high in batch_bounds(text, batch_bytes):
        batch = _decode_batch(memoryview(text)[low:high], offset + low, chunk)
        builder.add(batch, python_functions=python_functions)
        # Its memory serves the next one while it is still in the cache.
        del batch
    builder.finish()
    return chunk


def batch_bounds(text: bytes, size: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of batches of whole events, each `size` bytes long or somewhat longer."""
    low = 0
    while low < len(text):
        border = None
        if len(text) - low > 2 * size:
            border = EVENT_BORDER.search(text, low + size, low + 2 * size)
        yield low, border.start() + 1 if border else len(text)
        low = border.end() if border else len(text)


def _decode_batch(part: memoryview, offset: int, chunk: Chunk) -> EventBatch:
    text = b"".join((b"[", part, b"]"))
    try:
        if not text.isascii():
            text.decode()  # msgspec does not look at bytes that it skips
        events = decode_known_events(text)
    except UNREADABLE:
        return _decode_any_batch(bytes(part), offset, chunk)
    return EventBatch(
        events, _spelled_in(text, events), offset, partial(_located, text, offset - 1, len(events))
    )


def _decode_any_batch(part: bytes, offset: int, chunk: Chunk) -> EventBatch:
    """Decode events whose category may be unknown, and text that may be no JSON; note repairs."""
    text = b"[%b]" % part
    with suppress(*UNREADABLE):
        events = decode_events(text)
        located = partial(_located, part, offset, len(events))
        return EventBatch(events, _spelled_in(text, events), offset, located)
    text, non_numbers = replace_non_numbers(text)
    text, arrays = join_arrays(text)
    with suppress(*UNREADABLE):
        events = decode_events(text)
        located = partial(_located, part, offset, len(events))
        chunk.note("no number", non_numbers, _place_of_non_number(part, offset))
        chunk.note(FURTHER_ARRAY, arrays, offset)
        return EventBatch(events, _spelled_in(text, events), offset, located)
    events, places = [], []
    for start, length, event, damage in _repair_events(part):
        if damage:
            # What is damaged may be the border between two events.
            lost = part.count(_PHASE, start, start + length) if event is None else 1
            chunk.note(damage, max(lost, 1), offset + start)
        if event is not None:
            events.append(event)
            places.append(offset + start)
    return EventBatch(events, _spelled_as_decoded, offset, lambda: places)


def _located(text: bytes, offset: int, count: int) -> list[int]:
    # The result has the places where events begin. It is empty if a text among them looks like a border
    # between events.
    places = [text.find(b"{"), *(match.end() for match in EVENT_BORDER.finditer(text))]
    return [offset + place for place in places] if len(places) == count else []


def _place_of_non_number(part: bytes, offset: int) -> int:
    # The result is where the first event with such a value begins.
    found = NON_NUMBERS.search(part)
    borders = EVENT_BORDER.finditer(part, 0, found.start() if found else 0)
    return offset + max((match.end() for match in borders), default=part.find(b"{"))


def _spelled_in(text: bytes, events: list[Event]) -> SpelledBy:
    @cache
    def times() -> dict[int, SpelledTimes]:
        return dict(zip(map(id, events), decode_times(text), strict=True))

    def spelled(some: Sequence[Event], name: str) -> Sequence[bytes]:
        return [bytes(getattr(times()[id(event)], name)) for event in some]

    return spelled


def _spelled_as_decoded(events: Sequence[Event], name: str) -> Sequence[bytes]:
    # Half of a surrogate pair cannot be encoded.
    return [str(getattr(event, name)).encode("utf-8", "replace") for event in events]


def _repair_events(text: bytes) -> Iterator[tuple[int, int, Event | None, str]]:
    # Each result has an offset, a length, an event, and what was wrong with it. The event is None if it
    # could not be repaired; the words are "" if nothing was wrong.
    starts = [0, *(match.end() for match in EVENT_BORDER.finditer(text))]
    ends = [*(match.start() + 1 for match in EVENT_BORDER.finditer(text)), len(text)]
    first = 0
    while first < len(starts):
        for last in range(first, min(first + _MOST_PARTS, len(starts))):
            event, damage = _repair_event(text[starts[first] : ends[last]].strip().rstrip(b","))
            if event is not None:
                break
        else:
            last, damage = first, "unreadable"
        yield starts[first], ends[last] - starts[first], event, damage
        first = last + 1


def _repair_event(text: bytes) -> tuple[Event | None, str]:
    with suppress(*UNREADABLE):
        return decode_event(text), ""
    text, non_numbers = replace_non_numbers(text)
    characters = text.decode("utf-8", "replace")
    replaced = characters.count("\N{REPLACEMENT CHARACTER}") - text.count(b"\xef\xbf\xbd")
    damage = "no number" if non_numbers else "no UTF-8" if replaced > 0 else ""
    # Decimal keeps times exact.
    fields = parse_object(characters, Decimal)
    if fields is None:
        characters, backslashes = _LONE_BACKSLASH.subn(r"\\\\", characters)
        damage = damage or ("lone backslash" if backslashes else "")
        fields = parse_object(characters, Decimal)
    if fields is None:
        damage = damage or "unescaped quote"
        fields = parse_object(_escape_quotes(characters), Decimal)
    if fields is None:
        return None, "unreadable"
    return _event_of(fields), damage or "control character"


def _escape_quotes(text: str) -> str:
    """Return the text with a backslash before each quote inside a value; in time linear in its length."""
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


def _event_of(fields: dict[str, object]) -> Event:
    args = fields.get("args")
    names = dict(zip(Args.__struct_encode_fields__, Args.__struct_fields__, strict=True))
    values = {names[k]: v for k, v in args.items() if k in names} if isinstance(args, dict) else {}
    for name in ("shapes", "shapes_old", "types", "values", "stack"):
        if name in values:
            values[name] = msgspec.Raw(json.dumps(values[name], default=str).encode())
    attributes = {name: fields.get(name) for name in Event.__struct_fields__ if name != "args"}
    return Event(**attributes, args=Args(**values) if values else NO_ARGS)
