"""Ids of one recording: the names, devices, processes, streams and so on that its rows refer to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from nsysconv import schema
from nsysconv.importers.printed.text import parse_digits
from nsysconv.names import WORK, called, plain_api_name
from nsysconv.store.recording import ArrowRows, rows_of

Row = dict[str, Any]

_MIGRATION = re.compile(
    r"\[(?:CUDA memcpy Unified|CUDA Unified Memory memcpy|Unified Memory Memcpy) (.+)\]$"
)
_COPY = re.compile(r"\[CUDA memcpy (.+)\]$")

_INDEXED = re.compile(r"(.*?)\s*\((\d{1,6})\)$")
_API = re.compile(r"cu(?:da)?[A-Z]\w*$")
_DRIVER = re.compile(r"cu[A-Z]")
_DEFAULT_DOMAIN = "<unnamed>"


class IdRegistry:
    """Assign the ids of one recording, in the order in which they are asked for.

    `demangle` turns a symbol into a name, None without a demangler. `pids` are the processes of the
    recording: the one that the log is of, or all that its rows name. `symbols_only` counts kernels that
    are known by their symbol alone.
    """

    def __init__(self, demangle: Callable[[str], str] | None, pid: int | None = None) -> None:
        """Start without ids; `pid` is the process that the log is of, None if it does not say."""
        self.pids = set() if pid is None else {pid}
        self.symbols_only = 0
        self._demangle = demangle
        self._names: dict[str, int] = {}
        self._api_names: set[int] = set()
        self._devices: dict[str, int] = {}
        self._device_rows: dict[int, Row] = {}
        self._next_free: dict[int, int] = {}
        self._threads: dict[tuple[int, int], str | None] = {}
        self._streams: dict[tuple[int, int], str | None] = {}
        self._labels: dict[str, int] = {}
        self._domains: dict[str, int] = {_DEFAULT_DOMAIN: 0}

    @property
    def pid(self) -> int | None:
        """Return the only process, or None if there are none or several."""
        return next(iter(self.pids)) if len(self.pids) == 1 else None

    def name(self, text: str) -> int:
        """Return the id of a name."""
        return self._names.setdefault(text, len(self._names) + 1)

    def api_name(self, text: str) -> int:
        """Return the id of an API function's name, whose row also has the plain name."""
        number = self.name(text)
        self._api_names.add(number)
        return number

    def working_call(self) -> str | None:
        """Return the first function that puts work on a GPU; None where none was called."""
        gives_work = called(*WORK)
        names = (text for text, number in self._names.items() if number in self._api_names)
        return next((text for text in names if gives_work(text)), None)

    def kernel(self, text: str) -> tuple[int, int | None]:
        """Return the ids of a kernel's name and, where the table spells that, of its symbol."""
        if not text.startswith("_Z"):
            return self.name(text), None
        if self._demangle is None:
            self.symbols_only += 1
            return self.name(text), self.name(text)
        return self.name(self._demangle(text)), self.name(text)

    def device(self, text: str) -> int:
        """Return the id of a device: 0 for `Tesla T4 (0)`; without an ordinal, the next free id."""
        if text not in self._devices:
            match = _INDEXED.match(text)
            name, ordinal = (match[1], int(match[2])) if match else (text, None)
            number = self._next_free.get(ordinal or 0, ordinal or 0)
            while number in self._device_rows:
                number += 1
            self._next_free[ordinal or 0] = number + 1
            self._devices[text] = number
            row = {"device_id": number, "ordinal": ordinal, "name": name or None}
            self._device_rows[number] = row
        return self._devices[text]

    def label(self, text: str) -> int:
        """Return the id of a context or stream: its number, or -1 and down for one with a name."""
        number = parse_digits(text)
        return self._labels.setdefault(text, -1 - len(self._labels)) if number is None else number

    def stream(self, context: int, stream: int) -> None:
        """Register a stream that something ran on."""
        names = {number: text for text, number in self._labels.items()}
        self._streams.setdefault((context, stream), names.get(stream))

    def thread(self, pid: int, tid: int, name: str | None = None) -> None:
        """Register a thread and its process; a later name replaces an earlier one."""
        self.pids.add(pid)
        self._threads[pid, tid] = name or self._threads.get((pid, tid))

    def domain(self, text: str) -> int:
        """Return the id of a domain of ranges; the unnamed one is 0."""
        return self._domains.setdefault(text, len(self._domains))

    def rows(self) -> Iterator[ArrowRows]:
        """Yield the rows of the small tables. A process gets no name: that is a command line."""
        yield rows_of(schema.device, [self._device_rows[i] for i in sorted(self._device_rows)])
        yield rows_of(schema.process, [{"pid": pid} for pid in sorted(self.pids)])
        threads = [
            {"pid": pid, "tid": tid, "name": self._threads[pid, tid]}
            for pid, tid in sorted(self._threads)
        ]
        yield rows_of(schema.thread, threads)
        pid = self.pid
        streams = [
            {"pid": pid, "context_id": context, "stream_id": stream, "name": name}
            for (context, stream), name in sorted(self._streams.items())
        ]
        yield rows_of(schema.stream, [] if pid is None else streams)
        domains = [
            {"pid": pid, "domain_id": number, "name": text}
            for text, number in self._domains.items()
            if number
        ]
        yield rows_of(schema.domain, [] if pid is None else domains)
        names = [
            {"id": i, "text": text, "plain": plain_api_name(text) if i in self._api_names else None}
            for text, i in self._names.items()
        ]
        yield rows_of(schema.name, names)


def memory_operation(name: str) -> tuple[str, str] | None:
    """Return kind of aggregate and direction of `[CUDA memcpy HtoD]` and the like; None for others."""
    if match := _MIGRATION.match(name):
        return "unified_memory", match.group(1)
    if match := _COPY.match(name):
        return "memcpy", match.group(1)
    return ("memset", "") if name == "[CUDA memset]" else None


def is_api_name(name: str) -> bool:
    """Return whether a name is that of a CUDA API function."""
    return _API.match(name) is not None


def api_layer(name: str) -> int:
    """Return the code of codes.API_LAYERS for an API function: 0 the runtime's, 1 the driver's."""
    return 1 if _DRIVER.match(name) else 0
