"""Who appears in one recording: names, devices, streams, threads; numbered as rows refer to them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from nsysconv import schema
from nsysconv.names import plain_api_name

Row = dict[str, Any]

_INDEXED = re.compile(r"(.*?)\s*\((\d{1,6})\)$")
_API = re.compile(r"cu(?:da)?[A-Z]\w*$")
_DRIVER = re.compile(r"cu[A-Z]")
_MIGRATION = re.compile(r"\[CUDA (?:memcpy Unified|Unified Memory memcpy) (.+)\]$")
_COPY = re.compile(r"\[CUDA memcpy (.+)\]$")
_ENDS = {"Host": "H", "Device": "D", "Array": "A", "Peer": "P"}
SHORTENED = "\u2026"
"""What stands at the end of a name that was cut."""


class Gathered:
    """Numbers of one recording. `demangled` turns symbols into names, None where nothing can.

    `pids` are the processes that rows name; `shortened` counts names that were cut.
    """

    def __init__(self, demangled: Callable[[str], str] | None) -> None:
        self.rows: Counter[str] = Counter()
        self.symbols_only = 0
        self.unknown_directions = 0
        self.end_ns = 0
        self.pids: set[int] = set()
        self.shortened: set[str] = set()
        self._demangled = demangled
        self._names: dict[str, int] = {}
        self._api_names: set[int] = set()
        self._devices: dict[str, int] = {}
        self._device_rows: dict[int, Row] = {}
        self._streams: set[tuple[int, int]] = set()
        self._threads: dict[tuple[int, int], str | None] = {}

    @property
    def pid(self) -> int | None:
        """The only process that rows name, None for none or several."""
        return next(iter(self.pids)) if len(self.pids) == 1 else None

    def name(self, text: str) -> int:
        """The number of a name."""
        if text.endswith(SHORTENED):
            self.shortened.add(text)
        return self._names.setdefault(text, len(self._names) + 1)

    def api_name(self, text: str) -> int:
        """The number of an API function's name."""
        number = self.name(text)
        self._api_names.add(number)
        return number

    def kernel(self, text: str) -> tuple[int, int | None]:
        """The numbers of a kernel's name and of its symbol, where the table spells that."""
        if not text.startswith("_Z") or text.endswith(SHORTENED):
            return self.name(text), None
        if self._demangled is None:
            self.symbols_only += 1
            return self.name(text), self.name(text)
        return self.name(self._demangled(text)), self.name(text)

    def direction(self, words: str) -> int:
        """The code of schema.DIRECTIONS for `HtoD` or `Host-to-Device`; 0 for what is not known."""
        start, _, end = words.partition("-to-")
        word = f"{_ENDS.get(start, '')}to{_ENDS.get(end, '')}" if end else words
        if word not in schema.DIRECTIONS:
            self.unknown_directions += 1
            return 0
        return schema.DIRECTIONS.index(word)

    def device(self, text: str) -> int:
        """The number of a device, `Tesla T4 (0)`; one that has none gets the next free one."""
        if text not in self._devices:
            match = _INDEXED.match(text)
            name, ordinal = (match.group(1), int(match.group(2))) if match else (text, None)
            number = ordinal if ordinal is not None else 0
            while number in self._device_rows:
                number += 1
            self._devices[text] = number
            self._device_rows[number] = {
                "device_id": number,
                "ordinal": ordinal,
                "name": name or None,
            }
        return self._devices[text]

    def stream(self, context: int, stream: int) -> None:
        """A stream that something ran on."""
        self._streams.add((context, stream))

    def thread(self, pid: int, tid: int, name: str | None) -> None:
        """A thread that called something."""
        self.pids.add(pid)
        self._threads[pid, tid] = name or self._threads.get((pid, tid))

    # -- rows of the small tables

    def device_rows(self) -> list[Row]:
        """The devices."""
        return [self._device_rows[number] for number in sorted(self._device_rows)]

    def process_rows(self) -> list[Row]:
        """The processes."""
        return [{"pid": pid} for pid in sorted(self.pids)]

    def thread_rows(self) -> list[Row]:
        """The threads."""
        return [
            {"pid": pid, "tid": tid, "name": name}
            for (pid, tid), name in sorted(self._threads.items(), key=lambda item: item[0])
        ]

    def stream_rows(self) -> list[Row]:
        """The streams that something ran on."""
        return [
            {"pid": self.pid, "context_id": context, "stream_id": stream}
            for context, stream in sorted(self._streams)
            if self.pid is not None
        ]

    def name_rows(self) -> list[Row]:
        """The names."""
        return [
            {
                "id": number,
                "text": text,
                "plain": plain_api_name(text) if number in self._api_names else None,
            }
            for text, number in self._names.items()
        ]


def is_api(name: str) -> bool:
    """Whether a name is that of an API function."""
    return _API.match(name) is not None


def layer(name: str) -> int | None:
    """The code of schema.API_LAYERS for an API function: 0 runtime, 1 driver; None: neither."""
    return (1 if _DRIVER.match(name) else 0) if is_api(name) else None


def memory_operation(name: str) -> tuple[str, str] | None:
    """The kind of aggregate, and the direction's words, of `[CUDA memcpy HtoD]` and the like."""
    if match := _MIGRATION.match(name):
        return "unified_memory", match.group(1)
    if match := _COPY.match(name):
        return "memcpy", match.group(1)
    return ("memset", "") if name == "[CUDA memset]" else None
