"""Write a large Kineto trace: a given one, repeated.

It works on the text, so white space, order of keys and line breaks stay as they are. What it promises:

* the size to within one copy and a few per cent (shifted numbers get longer), before compression;
* head and tail, which hold names of processes and what the profiler marks, are there once; with
  `metadata` the names are in each copy, among its events, as in traces that were put together;
* times are later by the extent of the trace from copy to copy, and ids are others in each copy, so links
  stay in their copy; 0 where it means no id, names, devices, threads and streams are kept;
* one copy is the trace itself; memory is that of a few copies.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

GZIP_LEVEL = 6
TIMES = ("ts", "external ts")
LINKS = ("External id", "external id", "correlation", "id", "wait_on_cuda_event_record_corr_id")
RECORD = ("Record function id",)
# Ids of one family name the same things; each family is shifted by its own greatest number and 1.
FAMILIES = (TIMES, LINKS, RECORD, ("Ev Idx",), ("Python id", "Python parent id"), ("Python module id",),
            ("Sequence number",))  # fmt: skip
FAMILY = {key: number for number, keys in enumerate(FAMILIES) for key in keys}
NONE_IS_0 = (FAMILIES.index(LINKS), FAMILIES.index(RECORD))
_SLOT = re.compile(rf'"({"|".join(FAMILY)})"\s*:\s*(\d+)')
_EVENTS = re.compile(r'"traceEvents"\s*:\s*\[\s*')
_BETWEEN = re.compile(r"\s*,\s*")


def read(path: Path) -> str:
    """Return the text of a trace, a character per byte."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("latin-1")


def events(text: str) -> Iterator[tuple[dict[str, Any], int, int]]:
    """Yield each event of a trace, and where its text begins and ends."""
    decoder = json.JSONDecoder(strict=False)
    found = _EVENTS.search(text)
    while found:
        event, end = decoder.raw_decode(text, found.end())
        yield event, found.end(), end
        found = _BETWEEN.match(text, end)


@dataclass(frozen=True)
class Trace:
    """A trace as text around what is repeated: `fixed[0] number[0] fixed[1] …`, and what copies add."""

    head: str
    fixed: list[str]
    numbers: np.ndarray
    steps: np.ndarray
    between: str
    tail: str

    @classmethod
    def of(cls, text: str, *, metadata: bool = False) -> Trace:
        """Take a text apart. Marks of the profiler itself, which are on no process, are not repeated."""
        found = [(event, begin, end) for event, begin, end in events(text)]
        kept = [n for n, (event, *_) in enumerate(found)
                if isinstance(event.get("pid"), int) and (metadata or event.get("ph") != "M")]
        first, last = kept[0], kept[-1]
        begin, end = found[first][1], found[last][2]
        timed = [found[n][0] for n in kept if found[n][0]["ph"] != "M"]
        extent = math.ceil(max(event["ts"] + event.get("dur", 0) for event in timed)
                           - min(event["ts"] for event in timed)) + 1  # fmt: skip
        between = text[found[first][2] : found[first + 1][1]] if first < last else ", "
        body = text[begin:end]
        slots = list(_SLOT.finditer(body))
        edges = [0, *(edge for slot in slots for edge in slot.span(2)), len(body)]
        fixed = [body[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
        numbers = np.array([int(slot[2]) for slot in slots])
        family = np.array([FAMILY[slot[1]] for slot in slots])
        step = [numbers[family == number].max(initial=0) + 1 for number in range(len(FAMILIES))]
        step[0] = extent
        steps = np.where(np.isin(family, NONE_IS_0) & (numbers == 0), 0, np.array(step)[family])
        return cls(text[:begin], fixed, numbers, steps, between, text[end:])

    def copy(self, number: int) -> str:
        """Return one copy of what is repeated; copy 0 is the original."""
        parts = [""] * (2 * len(self.numbers) + 1)
        parts[::2] = self.fixed
        parts[1::2] = map(str, (self.numbers + number * self.steps).tolist())
        return "".join(parts)

    def pieces(self, copies: int) -> Iterator[str]:
        """Yield the text of a trace with so many copies."""
        yield self.head + self.copy(0)
        for number in range(1, copies):
            yield self.between + self.copy(number)
        yield self.tail

    def copies_in(self, size: int) -> int:
        """Return how many copies come next to so many bytes; at least one."""
        frame, copy = len(self.head) + len(self.tail), len(self.copy(0)) + len(self.between)
        return max(1, round((size - frame) / copy))


def generate(target: Path, source: Path, size: int, *, metadata: bool = False) -> int:
    """Write the trace; returns how many copies it has."""
    trace = Trace.of(read(source), metadata=metadata)
    copies = trace.copies_in(size)
    packed = target.suffix == ".gz"
    with gzip.open(target, "wb", GZIP_LEVEL) if packed else target.open("wb") as file:
        for piece in trace.pieces(copies):
            file.write(piece.encode("latin-1"))
    return copies
