"""Who appears in one recording: beside names and devices the streams, threads and processes."""

from __future__ import annotations

import re
from collections.abc import Callable

from nsysconv import codes
from nsysconv.importers.printed.registry import IdRegistry, Row

_MIGRATION = re.compile(r"\[CUDA (?:memcpy Unified|Unified Memory memcpy) (.+)\]$")
_COPY = re.compile(r"\[CUDA memcpy (.+)\]$")
_ENDS = {"Host": "H", "Device": "D", "Array": "A", "Peer": "P"}
SHORTENED = "\u2026"
"""What stands at the end of a name that was cut."""


class NsysIds(IdRegistry):
    """Numbers of one recording.

    `pids` are the processes that rows name; `shortened` counts names that were cut.
    """

    def __init__(self, demangled: Callable[[str], str] | None) -> None:
        super().__init__(demangled)
        self.unknown_directions = 0
        self.pids: set[int] = set()
        self.shortened: set[str] = set()
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
        return super().name(text)

    def kernel(self, text: str) -> tuple[int, int | None]:
        """The numbers of a kernel's name and of its symbol, where the table spells that in full."""
        return (self.name(text), None) if text.endswith(SHORTENED) else super().kernel(text)

    def direction(self, words: str) -> int:
        """The code of codes.DIRECTIONS for `HtoD` or `Host-to-Device`; 0 for what is not known."""
        start, _, end = words.partition("-to-")
        word = f"{_ENDS.get(start, '')}to{_ENDS.get(end, '')}" if end else words
        if word not in codes.DIRECTIONS:
            self.unknown_directions += 1
            return 0
        return codes.DIRECTIONS.index(word)

    def stream(self, context: int, stream: int) -> None:
        """A stream that something ran on."""
        self._streams.add((context, stream))

    def thread(self, pid: int, tid: int, name: str | None) -> None:
        """A thread that called something."""
        self.pids.add(pid)
        self._threads[pid, tid] = name or self._threads.get((pid, tid))

    # -- rows of the small tables

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


def memory_operation(name: str) -> tuple[str, str] | None:
    """The kind of aggregate, and the direction's words, of `[CUDA memcpy HtoD]` and the like."""
    if match := _MIGRATION.match(name):
        return "unified_memory", match.group(1)
    if match := _COPY.match(name):
        return "memcpy", match.group(1)
    return ("memset", "") if name == "[CUDA memset]" else None
