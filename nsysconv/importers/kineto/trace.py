"""The parts of a trace file: what stands before the events, pieces of whole events, what stands after.

Pieces are cut where one event ends and the next begins, so that each is decoded on its own. The file is
read once, a block at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

from isal import isal_zlib

from nsysconv.errors import InputError

GZIP = b"\x1f\x8b"

# Between two events: libkineto begins one with "ph" or "name", other writers with what they like.
BORDER = re.compile(rb"\}\s*,\s*(?=\{\s*\"(?:ph|name|cat|args|pid|tid|ts|dur|id|s|bp)\"\s*:)")
# Words that C++ prints where JSON has no number.
_WORDS = re.compile(
    rb"(\"\s*:\s*)(?:-?inf(?:inity)?|-?nan(?:\(\w*\))?|N/A)(?=\s*[,}\]\n])", re.IGNORECASE
)
# JSON lets any character be spelled by its number.
_KEY = b"".join(b"(?:%c|(?i:\\\\u00%02x))" % (letter, letter) for letter in b"traceEvents")
EVENTS = re.compile(rb'"%b"\s*:\s*\[' % _KEY)
"""Where the array of events begins."""
_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
_ARRAY_END = re.compile(rb"\}\s*(?:,\s*)?\](?=\s*(?:,\s*\"|\}|$))")
_SPACE = b" \t\r\n"
# The first piece is small: its rows are written while larger ones are decoded.
_FIRST_BYTES = 1 << 20
_BLOCK_BYTES = 1 << 23
# Of what is left of a plain file, a piece is not more than this part: those that are decoded beside each
# other are to end together.
_LAST_PARTS = 8
_READ_BYTES = 1 << 20
# More than this without the beginning of the events is no trace, and what is longer is no event: to see
# what is wrong with a text takes 20 times its size.
_LIMIT_BYTES, _EVENT_BYTES = 1 << 27, 1 << 25
_WINDOW_BYTES = 1 << 13
# What stands before the events is looked at so far when it is no JSON.
_HEAD_BYTES = 1 << 24
_HEADS_TRIED = 20
_MARGIN = 4


def without_words(text: bytes) -> tuple[bytes, int]:
    """The text with `inf`, `nan` and `N/A` in place of a number as null, and how many there were."""
    return _WORDS.subn(rb"\1null", text)


@dataclass(frozen=True)
class Span:
    """A text of whole events: where it stands in the content of its file, and how long it is.

    `text` is None where it can be read from the file itself.
    """

    place: int
    length: int
    text: bytes | None = None

    def read(self, file: BinaryIO) -> bytes:
        """Return the text; `file` is the trace."""
        if self.text is not None:
            return self.text
        file.seek(self.place)
        return file.read(self.length)


class Trace:
    """A trace file, to be read once: first `open_`, then `pieces`, then `tail`.

    `head` is the text before the events and `tail` that after them. `lost_bytes` is how much text of an
    unfinished event stood where the file ends early, None where it does not; `gzip_damage` says what is
    wrong with the compression, `trailing_place` where in the file something else follows the compressed
    data. `further_arrays` counts arrays of events behind the first. `place` is how far the content was
    handed out, `events_found` whether the array of events begins.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.head = b""
        self.tail = b""
        self.is_list = False
        self.lost_bytes: int | None = None
        self.gzip_damage = ""
        self.trailing_place: int | None = None
        self.events_found = False
        self.further_arrays = 0
        self._buffer = b""
        self.place = 0

    def pieces(self) -> Iterator[Span]:
        """Texts of whole events, separated by commas."""
        with self.path.open("rb") as file:
            packed = _is_gzip(file)
            self._blocks = self._inflated(file) if packed else _plain(file)
            if not self._read_head():
                return
            if not packed:
                yield from self._ranges(file)
                return
            ended, size = False, _FIRST_BYTES
            while not ended:
                ended = self._fill(size)
                cut = None if ended else _last_border(self._buffer)
                if cut is not None:
                    end, start = cut
                    yield self._taken(end, start)
                    size = _BLOCK_BYTES
                elif ended:
                    yield from self._last()
                elif len(self._buffer) > _EVENT_BYTES:
                    yield from self._long_last()
                    return
                else:
                    size = len(self._buffer) + _BLOCK_BYTES

    def _ranges(self, file: BinaryIO) -> Iterator[Span]:
        """The same of a plain file, of which only the places of the cuts are read here."""
        file_size = file.seek(0, os.SEEK_END)
        size, last = _FIRST_BYTES, self._last
        while self.place + size < file_size:
            cut = self._border_before(file, self.place + size)
            if cut is None:
                if size == _EVENT_BYTES:
                    last = self._long_last
                    break
                size = min(size + _BLOCK_BYTES, _EVENT_BYTES)
                continue
            end, start = cut
            span = Span(self.place, end - self.place)
            self.place = start
            left = (file_size - start) // _LAST_PARTS
            size = min(max(left, _FIRST_BYTES), _BLOCK_BYTES)
            yield span
        file.seek(self.place)
        self._buffer = file.read(_EVENT_BYTES)
        yield from last()

    def _border_before(self, file: BinaryIO, end: int) -> tuple[int, int] | None:
        """Where, in the file, the last event but one before `end` ends and the last one begins."""
        window = _WINDOW_BYTES
        while True:
            low = max(end - window, self.place)
            file.seek(low)
            cut = _last_border(file.read(end - low))
            if cut is not None:
                return cut[0] + low, cut[1] + low
            if low == self.place:
                return None
            window *= 8

    def _long_last(self) -> Iterator[Span]:
        """The last events, where more text follows them than a trace has."""
        before = self.place
        yield from self._last()
        if self.place == before and not self.tail:
            raise InputError(
                "no event ends for a long time: this is no trace, or it is damaged",
                where=f"{self.path}, byte {before:,}",
            )

    def _taken(self, end: int, start: int) -> Span:
        span = Span(self.place, end, self._buffer[:end])
        self._buffer = self._buffer[start:]
        self.place += start
        return span

    def _fill(self, size: int) -> bool:
        """Reads until so many bytes wait, or the file ends; returns whether it did."""
        waiting = [self._buffer]
        length = len(self._buffer)
        while length < size:
            block = next(self._blocks, None)
            if block is None:
                break
            waiting.append(block)
            length += len(block)
        self._buffer = b"".join(waiting)
        return length < size

    def _read_head(self) -> bool:
        """Reads up to the array of events; returns whether there is one."""
        size = _READ_BYTES
        while True:
            ended = self._fill(size)
            as_list = _LIST.match(self._buffer)
            there = list(EVENTS.finditer(self._buffer))[:_HEADS_TRIED]
            # A program's own metadata may hold an array of that name, too.
            outer = (match for match in there if _is_object(self._buffer[: match.end()] + b"]}"))
            found = as_list or next(outer, None)
            if found or ended or len(self._buffer) > (_HEAD_BYTES if there else _LIMIT_BYTES):
                found = found or next(filter(_is_likely_outer, there), None)
                break
            size = len(self._buffer) + _BLOCK_BYTES
        if found is None:
            self.head, self._buffer = self._buffer, b""
            self.lost_bytes = 0
            return False
        self.events_found = True
        self.is_list = as_list is not None
        self.head = b"" if self.is_list else self._buffer[: found.end() - 1]
        self._buffer = self._buffer[found.end() :]
        self.place = found.end()
        return True

    def _last(self) -> Iterator[Span]:
        """The events up to the end of their array, and the text behind it."""
        buffer = self._buffer
        if buffer.lstrip(_SPACE + b",").startswith(b"]"):
            self._end(buffer[buffer.index(b"]") + 1 :])
            return
        cut = _last_border(buffer)
        found = _end_before(buffer, cut[1]) if cut else None
        if found is not None:
            # The border is one of the objects that stand behind the events.
            yield self._taken(found.start() + 1, found.end())
            self._end(self._buffer)
            return
        start = cut[1] if cut else 0
        length = _object_length(buffer[start:])
        if length is None:
            found = _ARRAY_END.search(buffer, start)
            length = found.start() + 1 - start if found else None
        if length is None:
            self.lost_bytes = len(buffer) - start
            if cut:
                yield self._taken(cut[0], start)
            return
        end = start + length
        rest = buffer[end:].lstrip(_SPACE + b",")
        yield self._taken(end, end)
        if (further := _further_array(self._buffer)) is not None:
            self.further_arrays += 1
            self._buffer = self._buffer[further:]
            self.place += further
            yield from self._last()
        elif rest.startswith(b"]"):
            self._end(rest[1:])
        else:
            self.lost_bytes = len(rest)

    def _end(self, tail: bytes) -> None:
        """The array of events has ended; of an object, at least its brace follows."""
        self.tail = tail
        if not self.is_list and not tail.strip():
            self.lost_bytes = 0

    def _inflated(self, file: BinaryIO) -> Iterator[bytes]:
        """The content of a gzip file, of one or several members; as much as can be inflated."""
        inflater = None
        while block := file.read(_READ_BYTES):
            while block:
                if inflater is None:
                    block = block.lstrip(b"\0")
                    if not block:
                        break
                    if not block.startswith(GZIP[: len(block)]):
                        self.trailing_place = file.tell() - len(block)
                        return
                    inflater = isal_zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
                try:
                    text = inflater.decompress(block, _READ_BYTES)
                    if text:
                        yield text
                    while inflater.unconsumed_tail and not inflater.eof:
                        yield inflater.decompress(inflater.unconsumed_tail, _READ_BYTES)
                except (isal_zlib.IsalError, zlib.error) as error:  # type: ignore[misc]
                    self.gzip_damage = str(error)
                    return
                block = b""
                if inflater.eof:
                    block, inflater = inflater.unused_data, None
        if inflater is not None:
            self.gzip_damage = "the file is cut off"


def beginning(path: Path, size: int) -> bytes:
    """The first bytes of a file's content, inflated where it is compressed. Never raises for damage."""
    trace = Trace(path)
    with path.open("rb") as file:
        blocks = trace._inflated(file) if _is_gzip(file) else _plain(file)
        found = b""
        for block in blocks:
            found += block
            if len(found) >= size:
                break
        return found[:size]


def _is_gzip(file: BinaryIO) -> bool:
    magic = file.read(len(GZIP))
    file.seek(0)
    return magic == GZIP


def _plain(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(_READ_BYTES):
        yield block


def _last_border(text: bytes) -> tuple[int, int] | None:
    """Where the last event but one ends and the last one begins."""
    window = _WINDOW_BYTES
    while True:
        low = max(len(text) - window, 0)
        last = None
        for last in BORDER.finditer(text, low):  # noqa: B007
            pass
        if last is not None:
            return last.start() + 1, last.end()
        if low == 0:
            return None
        window *= 8


def _is_likely_outer(match: re.Match[bytes]) -> bool:
    """Whether a key of damaged text stands where profilers write their own: first on its line, or
    behind another value. What begins an object inside of a line is a program's.
    """
    before = match.string[: match.start()]
    line = before[before.rfind(b"\n") + 1 :]
    return (len(line) <= _MARGIN and not line.strip()) or before.rstrip().endswith(b",")


def _is_object(text: bytes) -> bool:
    try:
        found = json.loads(without_words(text)[0].decode("utf-8-sig", "replace"), strict=False)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict)


def _end_before(text: bytes, limit: int) -> re.Match[bytes] | None:
    """The end of the array of events before `limit`: what follows it completes an object."""
    ends = deque(_ARRAY_END.finditer(text, 0, limit), _HEADS_TRIED)
    follows = ((end, text[end.end() :].lstrip(_SPACE + b",")) for end in ends)
    # Not where another trace follows, whose own first arrays end there.
    alone = ((end, rest) for end, rest in follows if not EVENTS.search(rest))
    return next((end for end, rest in alone if _is_object(b"{" + rest)), None)


def _further_array(text: bytes) -> int | None:
    """Where, behind the end of the array of events, another of the same object begins."""
    if not text.lstrip(_SPACE + b",").startswith(b"]"):
        return None
    between = text[text.index(b"]") + 1 :].lstrip(_SPACE + b",")
    left_out = len(text) - len(between)
    there = (match.end() for match in islice(EVENTS.finditer(between), _HEADS_TRIED))
    return next((left_out + e for e in there if _is_object(b"{" + between[:e] + b"]}")), None)


def joined(text: bytes) -> tuple[bytes, int]:
    """The text of events with each end of an array and beginning of the next of its object as a comma,
    and how many there were.
    """
    parts, done = [], 0
    for begins in EVENTS.finditer(text):
        ends = deque(_ARRAY_END.finditer(text, done, begins.start() + 1), _HEADS_TRIED)
        for end in ends:
            if _further_array(text[end.end() - 1 : begins.end()]) is not None:
                parts.append(text[done : end.start() + 1])
                done = begins.end()
                break
    return b",".join([*parts, text[done:]]), len(parts)


def _object_length(text: bytes) -> int | None:
    """The length of the JSON object that a text begins with, space before it included."""
    spelled = text.decode("latin-1")  # a character for each byte
    skipped = len(spelled) - len(spelled.lstrip())
    try:
        _, end = json.JSONDecoder(strict=False).raw_decode(spelled, skipped)
    except (ValueError, RecursionError):
        return None
    return end


_NUMBERS = (
    "schemaVersion",
    "baseTimeNanoseconds",
    "cupti_version",
    "cuda_driver_version",
)
# Property of a device -> our column. AMD spells one of them otherwise.
_DEVICE_NUMBERS = {
    "totalGlobalMem": "memory_bytes",
    "computeMajor": "compute_major",
    "computeMinor": "compute_minor",
    "numSms": "sm_count",
    "regsPerMultiprocessor": "max_registers_per_sm",
    "sharedMemPerMultiprocessor": "max_shared_bytes_per_sm",
    "maxSharedMemoryPerMultiProcessor": "max_shared_bytes_per_sm",
}
_THREADS_PER_SM = ("maxThreadsPerMultiprocessor", "maxThreadsPerMultiProcessor")


@dataclass
class Metadata:
    """What is allowed through. `devices`: columns of `device` by the id the trace gives them.

    `damaged` counts texts that could not be read as JSON as a whole, `further_events` the events that
    stand outside the array that was read.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    roctracer: str | None = None
    host: str | None = None
    rank: int | None = None
    world_size: int | None = None
    devices: dict[int, dict[str, Any]] = field(default_factory=dict)
    damaged: int = 0
    further_events: int = 0

    def add(self, text: bytes) -> None:
        """Adds what a JSON object spells; of a damaged one, the values that are known by name."""
        if not text.strip():
            return
        found = _loaded(text)
        if found is None:
            self.damaged += 1
            found = _singly(text)
        self._take(found)

    def _take(self, found: Mapping[str, Any]) -> None:
        events = found.get("traceEvents")
        self.further_events += len(events) if isinstance(events, list) else 0
        for name in _NUMBERS:
            value = found.get(name)
            if _fits(value):
                self.numbers[name] = int(value)
        if isinstance(found.get("roctracer_version"), str):
            self.roctracer = _clean(found["roctracer_version"])
        if isinstance(found.get("host_name"), str):
            self.host = _clean(found["host_name"])
        spread = found.get("distributedInfo")
        if isinstance(spread, str):
            spread = _loaded(spread.encode("utf-8", "replace"))
        if isinstance(spread, dict):
            self.rank = _number(spread.get("rank"), self.rank)
            self.world_size = _number(spread.get("world_size"), self.world_size)
        devices = found.get("deviceProperties")
        for device in devices if isinstance(devices, list) else ():
            if isinstance(device, dict) and _fits(device.get("id")):
                self.devices[device["id"]] = _device(device)

    @property
    def tool_version(self) -> str | None:
        """The tracing library and its version."""
        if "cupti_version" in self.numbers:
            return f"CUPTI {self.numbers['cupti_version']}"
        return f"roctracer {self.roctracer}" if self.roctracer else None

    @property
    def driver_version(self) -> str | None:
        """The newest CUDA that the driver supports: 12040 is 12.4."""
        number = self.numbers.get("cuda_driver_version")
        if number is None:
            return None
        return f"CUDA {number // 1000}.{number % 1000 // 10}"


def _loaded(text: bytes) -> dict[str, Any] | None:
    spelled = without_words(text)[0].decode("utf-8-sig", "replace")
    try:
        found = json.loads(spelled, strict=False)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _singly(text: bytes) -> dict[str, Any]:
    """The values of known keys that begin a line, as the profiler writes them."""
    spelled = without_words(text)[0].decode("utf-8-sig", "replace")
    found = {}
    for name in (
        *_NUMBERS,
        "roctracer_version",
        "host_name",
        "distributedInfo",
        "deviceProperties",
    ):
        match = re.search(rf'^[ \t\r{{,]*"{name}"\s*:\s*', spelled, re.MULTILINE)
        if match:
            with contextlib.suppress(ValueError, RecursionError):
                found[name], _ = json.JSONDecoder(strict=False).raw_decode(spelled, match.end())
    return found


def _device(told: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = (
        {"name": _clean(told["name"])} if isinstance(told.get("name"), str) else {}
    )
    for name, column in _DEVICE_NUMBERS.items():
        if _fits(told.get(name)):
            row[column] = told[name]
    warp = told.get("warpSize")
    threads = next((told[name] for name in _THREADS_PER_SM if _fits(told.get(name))), None)
    if threads is not None and isinstance(warp, int) and warp > 0:
        row["max_warps_per_sm"] = threads // warp
    return row


def _number(value: object, otherwise: int | None) -> int | None:
    with contextlib.suppress(ValueError):
        number = int(value) if isinstance(value, int | str) else otherwise
        return number if _fits(number) else otherwise
    return otherwise


def _fits(value: object) -> TypeGuard[int]:
    """Whether it is a number that a column holds, with room for the sum of two."""
    return isinstance(value, int) and abs(value) < 1 << 62


def _clean(text: str) -> str:
    """The text without halves of characters, which JSON may spell and no file can hold."""
    return text.encode("utf-8", "replace").decode()
