"""Who appears in one recording: names, devices, streams; numbered as rows refer to them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from nsysconv.names import plain_api_name

Row = dict[str, Any]

_INDEXED = re.compile(r"(.*?)\s*\((\d{1,6})\)$")
_API = re.compile(r"cu(?:da)?[A-Z]\w*$")
_DRIVER = re.compile(r"cu[A-Z]")
_DEFAULT_DOMAIN = "<unnamed>"


class Gathered:
    """Numbers of one recording. `demangled` turns symbols into names, None where nothing can."""

    def __init__(self, pid: int | None, demangled: Callable[[str], str] | None) -> None:
        self.pid = pid
        self.rows: Counter[str] = Counter()
        self.symbols_only = 0
        self.end_ns = 0
        self.threads: set[int] = set()
        self._demangled = demangled
        self._names: dict[str, int] = {}
        self._api_names: set[int] = set()
        self._devices: dict[str, int] = {}
        self._device_rows: dict[int, Row] = {}
        self._streams: dict[tuple[int, int], str | None] = {}
        self._labels: dict[str, int] = {}
        self._domains: dict[str, int] = {_DEFAULT_DOMAIN: 0}

    def name(self, text: str) -> int:
        """The number of a name."""
        return self._names.setdefault(text, len(self._names) + 1)

    def api_name(self, text: str) -> int:
        """The number of an API function's name."""
        number = self.name(text)
        self._api_names.add(number)
        return number

    def kernel(self, text: str) -> tuple[int, int | None]:
        """The numbers of a kernel's name and of its symbol, where the log spells that."""
        if not text.startswith("_Z"):
            return self.name(text), None
        if self._demangled is None:
            self.symbols_only += 1
            return self.name(text), self.name(text)
        return self.name(self._demangled(text)), self.name(text)

    def device(self, text: str) -> int:
        """The number of a device, `Tesla T4 (0)`; one whose number was cut off gets the next free one."""
        if text not in self._devices:
            match = _INDEXED.match(text)
            name, ordinal = (match.group(1), int(match.group(2))) if match else (text, None)
            number = ordinal if ordinal is not None else 0
            while number in self._device_rows:
                number += 1
            self._devices[text] = number
            self._device_rows[number] = {"device_id": number, "ordinal": ordinal, "name": name}
        return self._devices[text]

    def label(self, text: str) -> int:
        """The number of a context or a stream; those that the program named count down from -1."""
        return (
            int(text) if text.isdecimal() else self._labels.setdefault(text, -1 - len(self._labels))
        )

    def stream(self, context: int, stream: int) -> None:
        """A stream that something ran on."""
        named = {number: text for text, number in self._labels.items()}
        self._streams.setdefault((context, stream), named.get(stream))

    def domain(self, text: str) -> int:
        """The number of a domain of ranges."""
        return self._domains.setdefault(text, len(self._domains))

    # -- rows of the small tables

    def device_rows(self) -> list[Row]:
        """The devices."""
        return [self._device_rows[number] for number in sorted(self._device_rows)]

    def process_rows(self) -> list[Row]:
        """The process. Its name is a command line, which is nobody's business."""
        return [] if self.pid is None else [{"pid": self.pid, "name": None}]

    def thread_rows(self) -> list[Row]:
        """The threads of ranges."""
        return [{"pid": self.pid, "tid": tid} for tid in sorted(self.threads) if self.pid]

    def stream_rows(self) -> list[Row]:
        """The streams that something ran on."""
        return [
            {"pid": self.pid, "context_id": context, "stream_id": stream, "name": name}
            for (context, stream), name in sorted(self._streams.items())
            if self.pid is not None
        ]

    def domain_rows(self) -> list[Row]:
        """The named domains of ranges."""
        return [
            {"pid": self.pid, "domain_id": number, "name": text}
            for text, number in self._domains.items()
            if number and self.pid is not None
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


def layer(name: str) -> int:
    """The code of schema.API_LAYERS for an API function: 0 the runtime's, 1 the driver's."""
    return 1 if _DRIVER.match(name) else 0
