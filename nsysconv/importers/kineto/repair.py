"""Events that are no valid JSON, mended one by one; what cannot be mended is left out and counted."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgspec

from nsysconv.importers.kineto.events import NO_ARGS, Args, Event, decode_event

# Between two events: libkineto begins one with "ph" or "name", other writers with what they like.
BORDER = re.compile(rb"\}\s*,\s*(?=\{\s*\"(?:ph|name|cat|args|pid|tid|ts|dur|id|s|bp)\"\s*:)")
# Words that C++ prints where JSON has no number.
_WORDS = re.compile(
    rb"(\"\s*:\s*)(?:-?inf(?:inity)?|-?nan(?:\(\w*\))?|N/A)(?=\s*[,}\]\n])", re.IGNORECASE
)
_LONE_BACKSLASH = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
# A key with the quote that begins its text, and a quote that may end it: on one line, as libkineto
# writes what a program may have named.
_OPENING = re.compile(r'"[^"\n]+":\s*"')
_CLOSING = re.compile(r'"\s*(?:,\s*(?="|$)|$|\})', re.MULTILINE)
_INNER_QUOTE = re.compile(r'(?<!\\)"')
_PIECES_AT_ONCE = 4


def without_words(text: bytes) -> tuple[bytes, int]:
    """The text with `inf`, `nan` and `N/A` in place of a number as null, and how many there were."""
    return _WORDS.subn(rb"\1null", text)


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
