"""Tables in JSON: arrays of objects whose keys are the header's words.

Some releases do not escape quotes in names. An object begins where the first key of the first one comes
again; what the decoder refuses is cut at its keys.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

BEGINS = re.compile(rb'\s*\[\s*(?:\{\s*"|$)')
"""A line with which an array of objects may begin."""

_FIRST = re.compile(r'\s*\[\s*\{\s*"((?:[^"\\]|\\.){1,200})"\s*:')
_BEHIND = re.compile(r"\s*(,|\])?")
# The last column of every table is a text.
_ENDS = re.compile(r'"\s*\}\s*(?=,\s*(?:\{|$)|\]\s*(?:\n|$)|$)')
_KEY = re.compile(r'[{,]\s*"([^"]{1,40})"\s*:')
_CHUNK_BYTES = 1 << 20
# What is longer is none: names of kernels have some thousand characters.
_LONGEST_ROW = 8 << 20
# As numbers are spelled: what they stand for their columns tell.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str, strict=False)

Row = dict[str, str]


class JsonRows:
    """The objects of the array that begins at this byte, as texts by key.

    All have the keys of the first, in its order. Once all are asked for: `end` is the byte behind the
    array, `closed` whether it ends there, and `unread` how many objects are none of its rows. There are
    none where it is no such array.
    """

    def __init__(self, path: Path, start: int) -> None:
        self._path, self._start = path, start
        self.end = start
        self.closed = False
        self.unread = 0

    def __iter__(self) -> Iterator[Row]:
        with self._path.open("rb") as file:
            file.seek(self._start)
            raw = file.read(_CHUNK_BYTES)
            # Bytes as characters of one byte each, so that places are places in the file.
            text, base = raw.decode("latin-1"), self._start
            first = _FIRST.match(text)
            if first is None:
                return
            anchor = re.compile(r'\{\s*"' + re.escape(first.group(1)) + r'"\s*:')
            place, keys = text.index("{"), None
            while True:
                following = anchor.search(text, place + 1)
                behind = following.start() if following else len(text)
                found, length = _one(text[place:behind], keys)
                after = _BEHIND.match(text, place + length)
                sign = after.group(1) if found is not None and after is not None else None
                goes_on = following is None and sign != "]" and len(text) - place < _LONGEST_ROW
                if goes_on and (more := file.read(_CHUNK_BYTES)):
                    text, base, place = text[place:] + more.decode("latin-1"), base + place, 0
                    continue
                keys = keys or list(found or ())
                if found is not None and found.keys() == set(keys):
                    yield {key: found[key] for key in keys}
                elif found is not None or following is not None:
                    self.unread += 1  # the last one may be cut
                self.closed = sign == "]"
                self.end = base + (after.end() if after and self.closed else place + length)
                if following is None or (found is not None and sign != ","):
                    return
                place = behind


def _one(text: str, keys: list[str] | None) -> tuple[Row | None, int]:
    """The object with which a text begins, and its length; None for what is none."""
    whole = text.encode("latin-1")
    decoded = whole.decode("utf-8", "replace")
    try:
        found, length = _DECODER.raw_decode(decoded)
    except (ValueError, RecursionError):
        end = _ENDS.search(decoded)
        cut = decoded[: end.end()].rstrip() if end else ""
        row = _by_keys(cut, keys or _KEY.findall(cut)) if cut else None
        return row, len(cut.encode()) if row else len(whole)
    return _texts(found), len(decoded[:length].encode())


def _texts(found: dict[str, object]) -> Row | None:
    texts = {key: "" if value is None else value for key, value in found.items()}
    if not all(isinstance(value, str) for value in texts.values()):
        return None
    return {key: str(value) for key, value in texts.items()}


def _by_keys(text: str, keys: list[str]) -> Row | None:
    """The values between the keys, whatever quotes are in them."""
    ends, begins = [], []
    place = 0
    for sign, key in zip(chain("{", repeat(",")), keys, strict=False):
        found = re.compile(rf'{re.escape(sign)}\s*"{re.escape(key)}"\s*:\s*').search(text, place)
        if found is None:
            return None
        ends.append(found.start())
        place = found.end()
        begins.append(place)
    ends = [*ends[1:], text.rindex("}")]
    spelled = (text[low:high].strip() for low, high in zip(begins, ends, strict=True))
    values = (value.removeprefix('"').removesuffix('"') for value in spelled)
    return {
        key: "" if value == "null" else value.replace('\\"', '"')
        for key, value in zip(keys, values, strict=True)
    }
