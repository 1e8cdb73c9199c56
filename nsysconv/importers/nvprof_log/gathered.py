"""Who appears in one recording: beside names and devices the streams, threads and domains."""

from __future__ import annotations

from collections.abc import Callable

from nsysconv.importers.printed.quantities import parse_digits
from nsysconv.importers.printed.registry import IdRegistry, Row

_DEFAULT_DOMAIN = "<unnamed>"


class Gathered(IdRegistry):
    """Numbers of one recording, of the process `pid`; None: the log does not say which it is."""

    def __init__(self, pid: int | None, demangled: Callable[[str], str] | None) -> None:
        super().__init__(demangled)
        self.pid = pid
        self.threads: set[int] = set()
        self._streams: dict[tuple[int, int], str | None] = {}
        self._labels: dict[str, int] = {}
        self._domains: dict[str, int] = {_DEFAULT_DOMAIN: 0}

    def label(self, text: str) -> int:
        """The number of a context or a stream; those that the program named count down from -1."""
        number = parse_digits(text)
        return self._labels.setdefault(text, -1 - len(self._labels)) if number is None else number

    def stream(self, context: int, stream: int) -> None:
        """A stream that something ran on."""
        named = {number: text for text, number in self._labels.items()}
        self._streams.setdefault((context, stream), named.get(stream))

    def domain(self, text: str) -> int:
        """The number of a domain of ranges."""
        return self._domains.setdefault(text, len(self._domains))

    # -- rows of the small tables

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
