"""The text of a trace file: chunks of whole events, and what the trace says of itself around them.

Chunks are cut where one event ends and the next begins, so that each can be decoded on its own. The file
is read once, a block at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

from isal import isal_zlib

from nsysconv.errors import InputError
from nsysconv.importers.kineto import ADVICE_WHERE_SET
from nsysconv.launch import dimensions_of_groups

GZIP = b"\x1f\x8b"

# This matches between two events. libkineto begins an event with "ph" or "name", other writers with any
# key.
EVENT_BORDER = re.compile(rb"\}\s*,\s*(?=\{\s*\"(?:ph|name|cat|args|pid|tid|ts|dur|id|s|bp)\"\s*:)")
# C++ prints these where JSON has no number.
NON_NUMBERS = re.compile(
    rb"(\"\s*:\s*)(?:-?inf(?:inity)?|-?nan(?:\(\w*\))?|N/A)(?=\s*[,}\]\n])", re.IGNORECASE
)
# JSON lets any character be spelled by its number.
_KEY = b"".join(b"(?:%c|(?i:\\\\u00%02x))" % (letter, letter) for letter in b"traceEvents")
EVENTS_KEY = re.compile(rb'"%b"\s*:\s*\[' % _KEY)
"""Pattern of the beginning of the array of events."""
_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
_ARRAY_END = re.compile(rb"\}\s*(?:,\s*)?\](?=\s*(?:,\s*\"|\}|$))")
_SPACE = b" \t\r\n"
# The first chunk is small: its rows are written while larger ones are decoded.
FIRST_BYTES = 1 << 20
BLOCK_BYTES = 1 << 23
# A chunk of a plain file is at most this part of what is left: workers are to finish at the same time.
_LAST_PARTS = 8
READ_BYTES = 1 << 20
# A file without events up to the first limit is no trace, and a text without a border up to the second no
# event: to see what is wrong with a text takes 20 times its size.
_LIMIT_BYTES, EVENT_BYTES = 1 << 27, 1 << 25
_WINDOW_BYTES = 1 << 13
# Damaged text before the events is searched up to here.
_HEAD_BYTES = 1 << 24
_HEADS_TRIED = 20
_MARGIN = 4


@dataclass(frozen=True)
class ChunkText:
    """Whole events by their place in the (inflated) content; `text` is None if the file has it."""

    offset: int
    length: int
    text: bytes | None = None

    def read(self, file: BinaryIO) -> bytes:
        """Return the text; `file` is the open trace file."""
        if self.text is not None:
            return self.text
        file.seek(self.offset)
        return file.read(self.length)


@dataclass
class Trace:
    """Cuts a trace file into chunks. Its attributes are complete once `chunks` is used up.

    `head` is the text before the array of events and `tail` the text after it. `lost_bytes`: the length
    of an unfinished event where the file ends early, else None. `gzip_damage`: what is wrong with the
    compressed data, empty if nothing is. `trailing_offset`: where in the file something else follows
    it. `further_arrays`: number of arrays of events after the first. `offset`: length of the content
    that was cut so far. `events_found`: whether there is an array of events; `is_list`: the content is
    only that.
    """

    path: Path
    head: bytes = b""
    tail: bytes = b""
    is_list: bool = False
    lost_bytes: int | None = None
    gzip_damage: str = ""
    trailing_offset: int | None = None
    events_found: bool = False
    further_arrays: int = 0
    offset: int = 0
    _buffer: bytes = b""  # content behind `offset`

    def chunks(self) -> Iterator[ChunkText]:
        """Yield texts of whole events, in order. Raises InputError where none ends for a long time."""
        with self.path.open("rb") as file:
            is_gzip = _is_gzip(file)
            self._blocks = self._inflate(file) if is_gzip else _read_blocks(file)
            if not self._read_head():
                return
            yield from self._cut_blocks() if is_gzip else self._cut_file(file)

    def _cut_blocks(self) -> Iterator[ChunkText]:
        at_end, size = False, FIRST_BYTES
        while not at_end:
            at_end = self._fill(size)
            border = None if at_end else _last_border(self._buffer)
            if border is not None:
                yield self._cut(*border)
                size = BLOCK_BYTES
            elif at_end:
                yield from self._cut_end()
            elif len(self._buffer) > EVENT_BYTES:
                yield from self._cut_end_or_fail()
                return
            else:
                size = len(self._buffer) + BLOCK_BYTES

    def _cut_file(self, file: BinaryIO) -> Iterator[ChunkText]:
        """Cut a plain file: only windows around the cuts are read, workers read the rest."""
        file_size = file.seek(0, os.SEEK_END)
        size, cut_end = FIRST_BYTES, self._cut_end
        while self.offset + size < file_size:
            border = self._border_before(file, self.offset + size)
            if border is None:
                if size == EVENT_BYTES:
                    cut_end = self._cut_end_or_fail
                    break
                size = min(size + BLOCK_BYTES, EVENT_BYTES)
                continue
            end, next_start = border
            chunk = ChunkText(self.offset, end - self.offset)
            self.offset = next_start
            last_size = (file_size - next_start) // _LAST_PARTS
            size = min(max(last_size, FIRST_BYTES), BLOCK_BYTES)
            yield chunk
        file.seek(self.offset)
        self._buffer = file.read(EVENT_BYTES)
        yield from cut_end()

    def _border_before(self, file: BinaryIO, limit: int) -> tuple[int, int] | None:
        window = _WINDOW_BYTES
        while True:
            low = max(limit - window, self.offset)
            file.seek(low)
            border = _last_border(file.read(limit - low))
            if border is not None:
                return border[0] + low, border[1] + low
            if low == self.offset:
                return None
            window *= 8

    def _cut_end_or_fail(self) -> Iterator[ChunkText]:
        before = self.offset
        yield from self._cut_end()
        if self.offset == before and not self.tail:
            raise InputError(
                "no event ends for a long time: this is not a trace, or it is damaged",
                where=f"{self.path}, byte {before:,}",
            )

    def _cut(self, end: int, next_start: int) -> ChunkText:
        chunk = ChunkText(self.offset, end, self._buffer[:end])
        self._buffer = self._buffer[next_start:]
        self.offset += next_start
        return chunk

    def _fill(self, size: int) -> bool:
        """Fill the buffer up to `size` bytes; return whether the file ends before."""
        parts, length = [self._buffer], len(self._buffer)
        while length < size and (block := next(self._blocks, None)) is not None:
            parts.append(block)
            length += len(block)
        self._buffer = b"".join(parts)
        return length < size

    def _read_head(self) -> bool:
        """Read up to the array of events; return whether there is one."""
        size = READ_BYTES
        while True:
            at_end = self._fill(size)
            as_list = _LIST.match(self._buffer)
            keys = list(EVENTS_KEY.finditer(self._buffer))[:_HEADS_TRIED]
            # A program's own metadata may hold an array of that name, too.
            outer = (match for match in keys if _is_object(self._buffer[: match.end()] + b"]}"))
            begin = as_list or next(outer, None)
            if begin or at_end or len(self._buffer) > (_HEAD_BYTES if keys else _LIMIT_BYTES):
                begin = begin or next(filter(_is_likely_outer, keys), None)
                break
            size = len(self._buffer) + BLOCK_BYTES
        if begin is None:
            self.head, self._buffer = self._buffer, b""
            self.lost_bytes = 0
            return False
        self.events_found = True
        self.is_list = as_list is not None
        self.head = b"" if self.is_list else self._buffer[: begin.end() - 1]
        self._buffer = self._buffer[begin.end() :]
        self.offset = begin.end()
        return True

    def _cut_end(self) -> Iterator[ChunkText]:
        """Cut the events up to the end of their array, and keep the text behind it as the tail."""
        buffer = self._buffer
        if buffer.lstrip(_SPACE + b",").startswith(b"]"):
            self._finish(buffer[buffer.index(b"]") + 1 :])
            return
        border = _last_border(buffer)
        array_end = _end_before(buffer, border[1]) if border else None
        if array_end is not None:
            # The border separates objects of another array, behind that of the events.
            yield self._cut(array_end.start() + 1, array_end.end())
            self._finish(self._buffer)
            return
        start = border[1] if border else 0
        length = _object_length(buffer[start:])
        if length is None:
            array_end = _ARRAY_END.search(buffer, start)
            length = array_end.start() + 1 - start if array_end else None
        if length is None:
            self.lost_bytes = len(buffer) - start
            if border:
                yield self._cut(*border)
            return
        end = start + length
        rest = buffer[end:].lstrip(_SPACE + b",")
        yield self._cut(end, end)
        if (further := _further_array(self._buffer)) is not None:
            self.further_arrays += 1
            self._buffer = self._buffer[further:]
            self.offset += further
            yield from self._cut_end()
        elif rest.startswith(b"]"):
            self._finish(rest[1:])
        else:
            self.lost_bytes = len(rest)

    def _finish(self, tail: bytes) -> None:
        self.tail = tail
        # Behind the array, an object ends with a brace at least.
        if not self.is_list and not tail.strip():
            self.lost_bytes = 0

    def _inflate(self, file: BinaryIO) -> Iterator[bytes]:
        """Yield the content of a gzip file of one or several members, as far as it can be inflated."""
        inflater = None
        while block := file.read(READ_BYTES):
            while block:
                if inflater is None:
                    block = block.lstrip(b"\0")
                    if not block:
                        break
                    if not block.startswith(GZIP[: len(block)]):
                        self.trailing_offset = file.tell() - len(block)
                        return
                    inflater = isal_zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
                try:
                    text = inflater.decompress(block, READ_BYTES)
                    if text:
                        yield text
                    while inflater.unconsumed_tail and not inflater.eof:
                        yield inflater.decompress(inflater.unconsumed_tail, READ_BYTES)
                except (isal_zlib.IsalError, zlib.error) as error:  # type: ignore[misc]
                    self.gzip_damage = str(error)
                    return
                block = b""
                if inflater.eof:
                    block, inflater = inflater.unused_data, None
        if inflater is not None:
            self.gzip_damage = "the file is cut off"


def read_beginning(path: Path, size: int) -> bytes:
    """Return the first `size` bytes of a file's content, inflated if it is gzip; damage ends it early."""
    trace = Trace(path)
    with path.open("rb") as file:
        trace._blocks = trace._inflate(file) if _is_gzip(file) else _read_blocks(file)
        trace._fill(size)
        return trace._buffer[:size]


def replace_non_numbers(text: bytes) -> tuple[bytes, int]:
    """Return the text with null in place of `inf`, `nan` and `N/A`, and the number of replacements."""
    return NON_NUMBERS.subn(rb"\1null", text)


def parse_object(text: str, parse_float: Any = float) -> dict[str, Any] | None:
    """Return the JSON object that a text spells, None if it spells none."""
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(text, strict=False, parse_float=parse_float)
        return value if isinstance(value, dict) else None
    return None


def join_arrays(text: bytes) -> tuple[bytes, int]:
    """Return a text with the arrays of events of one object joined to one, and the number of joints."""
    parts, done = [], 0
    for begin in EVENTS_KEY.finditer(text):
        ends = deque(_ARRAY_END.finditer(text, done, begin.start() + 1), _HEADS_TRIED)
        for end in ends:
            if _further_array(text[end.end() - 1 : begin.end()]) is not None:
                parts.append(text[done : end.start() + 1])
                done = begin.end()
                break
    return b",".join([*parts, text[done:]]), len(parts)


def _is_gzip(file: BinaryIO) -> bool:
    magic = file.read(len(GZIP))
    file.seek(0)
    return magic == GZIP


def _read_blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(READ_BYTES):
        yield block


def _last_border(text: bytes) -> tuple[int, int] | None:
    # The result is where the last event but one ends, and where the last one begins.
    window = _WINDOW_BYTES
    while True:
        low = max(len(text) - window, 0)
        last = None
        for last in EVENT_BORDER.finditer(text, low):  # noqa: B007
            pass
        if last is not None:
            return last.start() + 1, last.end()
        if low == 0:
            return None
        window *= 8


def _is_likely_outer(match: re.Match[bytes]) -> bool:
    # In damaged text, the result says whether a key is where profilers write their own: first on its
    # line, or behind another value. A key that begins an object inside a line was written by the
    # program.
    before = match.string[: match.start()]
    line = before[before.rfind(b"\n") + 1 :]
    return (len(line) <= _MARGIN and not line.strip()) or before.rstrip().endswith(b",")


def _is_object(text: bytes) -> bool:
    return parse_object(_decode(text)) is not None


def _decode(text: bytes) -> str:
    return replace_non_numbers(text)[0].decode("utf-8-sig", "replace")


def _end_before(text: bytes, limit: int) -> re.Match[bytes] | None:
    # The result is the end of the array of events before `limit`, behind which the text completes an
    # object.
    ends = deque(_ARRAY_END.finditer(text, 0, limit), _HEADS_TRIED)
    candidates = ((end, text[end.end() :].lstrip(_SPACE + b",")) for end in ends)
    # An end is no candidate if another trace follows, whose own first arrays end there.
    candidates = ((end, rest) for end, rest in candidates if not EVENTS_KEY.search(rest))
    return next((end for end, rest in candidates if _is_object(b"{" + rest)), None)


def _further_array(text: bytes) -> int | None:
    # The result is where another array of the same object begins behind the end of an array of events.
    if not text.lstrip(_SPACE + b",").startswith(b"]"):
        return None
    between = text[text.index(b"]") + 1 :].lstrip(_SPACE + b",")
    offset = len(text) - len(between)
    ends = (match.end() for match in islice(EVENTS_KEY.finditer(between), _HEADS_TRIED))
    return next((offset + end for end in ends if _is_object(b"{" + between[:end] + b"]}")), None)


def _object_length(text: bytes) -> int | None:
    # The length is in bytes and includes the white space before the object.
    characters = text.decode("latin-1")  # one for each byte
    skipped = len(characters) - len(characters.lstrip())
    with contextlib.suppress(ValueError, RecursionError):
        return json.JSONDecoder(strict=False).raw_decode(characters, skipped)[1]
    return None


_NUMBERS = (
    *("schemaVersion", "baseTimeNanoseconds", "cupti_version", "cuda_driver_version"),
    *ADVICE_WHERE_SET,
)
_OTHER_KEYS = ("roctracer_version", "host_name", "distributedInfo", "deviceProperties")
# Properties of a device map to our columns. AMD spells one of them differently.
_DEVICE_NUMBERS = {
    "totalGlobalMem": "memory_bytes",
    "computeMajor": "compute_major",
    "computeMinor": "compute_minor",
    "numSms": "sm_count",
    "regsPerMultiprocessor": "max_registers_per_sm",
    "sharedMemPerMultiprocessor": "max_shared_bytes_per_sm",
    "maxSharedMemoryPerMultiProcessor": "max_shared_bytes_per_sm",
    "maxThreadsPerMultiprocessor": "max_threads_per_sm",
    "maxThreadsPerMultiProcessor": "max_threads_per_sm",
    "warpSize": "threads_per_warp",
}


@dataclass
class Metadata:
    """The metadata of a trace outside its events: by allow-list, because environments are there, too.

    `devices`: rows of the table `device` by the trace's ids. `damaged`: number of texts that are not JSON
    as a whole. `further_events`: number of events outside the array that was read.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    roctracer: str | None = None
    host: str | None = None
    rank: int | None = None
    world_size: int | None = None
    dimensions: str | None = None
    devices: dict[int, dict[str, Any]] = field(default_factory=dict)
    damaged: int = 0
    further_events: int = 0

    def add(self, text: bytes) -> None:
        """Add what a JSON object says; of a damaged one, the values of known keys."""
        if not text.strip():
            return
        values = parse_object(_decode(text))
        if values is None:
            self.damaged += 1
            values = _parse_known_keys(_decode(text))
        self._add_values(values)

    def _add_values(self, values: Mapping[str, Any]) -> None:
        if isinstance(events := values.get("traceEvents"), list):
            self.further_events += len(events)
        self.numbers |= {name: int(values[name]) for name in _NUMBERS if _fits(values.get(name))}
        if isinstance(version := values.get("roctracer_version"), str):
            self.roctracer = _replace_surrogates(version)
        if isinstance(host := values.get("host_name"), str):
            self.host = _replace_surrogates(host)
        distributed = values.get("distributedInfo")
        if isinstance(distributed, str):
            distributed = parse_object(_decode(distributed.encode("utf-8", "replace")))
        if isinstance(distributed, dict):
            self.rank = _number(distributed.get("rank"), self.rank)
            self.world_size = _number(distributed.get("world_size"), self.world_size)
            self.dimensions = dimensions_of_groups(_groups(distributed), self.rank)
        devices = values.get("deviceProperties")
        for device in devices if isinstance(devices, list) else ():
            if isinstance(device, dict) and _fits(device.get("id")):
                self.devices[device["id"]] = _device_row(device)

    @property
    def tool_version(self) -> str | None:
        """Return the tracing library and its version."""
        if "cupti_version" in self.numbers:
            return f"CUPTI {self.numbers['cupti_version']}"
        return f"roctracer {self.roctracer}" if self.roctracer else None

    @property
    def driver_version(self) -> str | None:
        """Return the newest CUDA that the driver supports: 12040 is 12.4."""
        number = self.numbers.get("cuda_driver_version")
        return None if number is None else f"CUDA {number // 1000}.{number % 1000 // 10}"


def _groups(distributed: Mapping[str, Any]) -> dict[str, list[int]]:
    # The ranks of each process group, by what it is called.
    config = distributed.get("pg_config")
    rows = config.values() if isinstance(config, dict) else config
    found: dict[str, list[int]] = {}
    for row in rows if isinstance(rows, Iterable) else ():
        ranks = row.get("ranks") if isinstance(row, dict) else None
        if isinstance(ranks, list) and all(isinstance(rank, int) for rank in ranks):
            found.setdefault(str(row.get("pg_desc") or row.get("pg_name")), ranks)
    return found


def _parse_known_keys(text: str) -> dict[str, Any]:
    """Return the values of known keys that begin a line, as the profiler writes them."""
    values = {}
    for name in (*_NUMBERS, *_OTHER_KEYS):
        match = re.search(rf'^[ \t\r{{,]*"{name}"\s*:\s*', text, re.MULTILINE)
        if match:
            with contextlib.suppress(ValueError, RecursionError):
                values[name], _ = json.JSONDecoder(strict=False).raw_decode(text, match.end())
    return values


def _device_row(properties: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    if isinstance(properties.get("name"), str):
        row["name"] = _replace_surrogates(properties["name"])
    numbers = {name: value for name, value in properties.items() if _fits(value)}
    row |= {column: numbers[name] for name, column in _DEVICE_NUMBERS.items() if name in numbers}
    threads, warp = row.get("max_threads_per_sm"), row.get("threads_per_warp")
    if threads is not None and warp is not None and warp > 0:
        row["max_warps_per_sm"] = threads // warp
    return row


def _number(value: object, default: int | None) -> int | None:
    with contextlib.suppress(ValueError):
        number = int(value) if isinstance(value, int | str) else default
        return number if _fits(number) else default
    return default


def _fits(value: object) -> TypeGuard[int]:
    # Room is left for the sum of two.
    return isinstance(value, int) and abs(value) < 1 << 62


def _replace_surrogates(text: str) -> str:
    # JSON can spell halves of surrogate pairs, which no encoding has.
    return text.encode("utf-8", "replace").decode()
