"""Write a large report of Nsight Systems (`.nsys-rep`): a given one, repeated.

What it promises:

* the fewest whole copies that hold so many kernels; strings, targets and options are those of the report;
* events with times are there once a copy, later by the extent of the report from copy to copy, and the
  session lasts as much longer; processes, modules, diagnostics and what names domains are there once;
* correlations and other ids that link events are others in each copy; 0 and "not applicable", which mean
  no id, names, threads, streams, graph nodes and handles of events are kept;
* the first copy is as it was packed; memory is that of the report, unpacked, and of a block.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

sys.path.append(str(Path(__file__).resolve().parent.parent / "scripts"))

from nsys_rep_wire import (
    BYTES,
    COUNT_OF_EVENTS,
    MAGIC,
    MASK,
    OFFSETS,
    SAMPLES,
    VARINT,
    Block,
    Report,
    Samples,
    as_read,
    field,
    footed,
    numbers,
    read_fields,
    sized,
    varint,
)

BLOCK_EVENTS = 7000
TIME, CORRELATION, RANGE, SYNC = "time", "correlation", "range", "sync"
NO_IDS = (0, 0xFFFFFFFF)
Paths = Mapping[int, "str | Paths"]
# What grows from copy to copy, by the numbers of fields.
GROWING: Paths = {
    102: {2: TIME, 4: RANGE, 10: TIME},
    104: {1: TIME},
    106: {1: TIME},
    107: {1: TIME, 2: TIME, 3: CORRELATION, 105: {3: SYNC}},
    108: {1: TIME, 2: TIME, 3: CORRELATION},
    123: {1: TIME, 2: TIME, 12: CORRELATION},
    129: {1: TIME, 4: CORRELATION},
}
# CUDA events have no times.
CUDA_EVENT: Paths = {107: {3: CORRELATION, 106: {2: SYNC}}}
# NVTX: names of categories, threads and domains, and the ends of domains.
NAMING = (33, 39, 75, 76)
_RANGE_EVENT, _ACTIVITY, _KERNEL, _RECORDED = 102, 107, 101, 106
# Fields of the head: the end of the session.
_STOPS = (18, 19)


@dataclass(frozen=True)
class Number:
    """A number that grows: its family, its value in the first copy."""

    family: str
    value: int


@dataclass(frozen=True)
class Inside:
    """A message inside of another: its key, its parts."""

    key: bytes
    parts: Parts


Parts = list[bytes | Number | Inside]
"""A message in parts; bytes never change."""


def parts_of(message: bytes, paths: Paths) -> Parts:
    """Take a message apart."""
    found: Parts = []
    kept = b""
    for number, kind, value in read_fields(message):
        grows = paths.get(number)
        key = varint(number << 3 | kind)
        if kind == BYTES and isinstance(grows, Mapping):
            found += [kept, Inside(key, parts_of(value, grows))]
            kept = b""
        elif kind == VARINT and isinstance(grows, str) and (grows == TIME or value not in NO_IDS):
            found += [kept + key, Number(grows, value - (1 << 64) if value >> 63 else value)]
            kept = b""
        else:
            kept += as_read(number, kind, value)
    return [part for part in (*found, kept) if part != b""]


def copied(parts: Parts, more: Mapping[str, int]) -> bytes:
    """Return the message with its numbers greater by so much for each family."""
    out = []
    for part in parts:
        if isinstance(part, bytes):
            out.append(part)
        elif isinstance(part, Number):
            out.append(varint(part.value + more[part.family]))
        else:
            out.append(part.key + sized(copied(part.parts, more)))
    return b"".join(out)


def growing(parts: Parts) -> Iterator[Number]:
    """Yield the numbers that grow."""
    for part in parts:
        if isinstance(part, Number):
            yield part
        elif isinstance(part, Inside):
            yield from growing(part.parts)


@dataclass(frozen=True)
class Repeated:
    """Events that are repeated, in parts, how many are kernels, and what numbers grow by in a copy."""

    events: list[Parts]
    kernels: int
    steps: Mapping[str, int]

    @classmethod
    def of(cls, samples: Samples) -> Repeated:
        """Take the events apart. Raises ValueError where none of them is a kernel."""
        events, kernels = [], 0
        for event in (event for block in samples.events for event in block.fields(1)):
            number, payload = next((n, value) for n, kind, value in read_fields(event) if kind == BYTES)
            naming = number == _RANGE_EVENT and numbers(payload).get(1) in NAMING
            if number in GROWING and not naming:
                inside = {n for n, _, _ in read_fields(payload)} if number == _ACTIVITY else set()
                kernels += _KERNEL in inside
                events.append(parts_of(event, CUDA_EVENT if _RECORDED in inside else GROWING))
        if not kernels:
            raise ValueError("the report has no kernels")
        found = defaultdict(list)
        for one in (number for parts in events for number in growing(parts)):
            found[one.family].append(one.value)
        steps = {family: max(values) + 1 for family, values in found.items()}
        steps[TIME] -= min(found[TIME])
        return cls(events, kernels, steps)

    def blocks(self, number: int) -> Iterator[bytes]:
        """Yield the blocks of a copy; the first copy's number is 0."""
        more = {family: number * step for family, step in self.steps.items()}
        for at in range(0, len(self.events), BLOCK_EVENTS):
            chunk = self.events[at : at + BLOCK_EVENTS]
            yield Block.of(b"".join(field(1, copied(parts, more)) for parts in chunk)).written()


def greater(message: bytes, more: Mapping[int, int]) -> bytes:
    """Return the message with some of its fields greater by so much."""
    fields = read_fields(message)
    return b"".join(as_read(n, kind, value + more[n] & MASK if n in more else value)
                    for n, kind, value in fields)  # fmt: skip


def write_samples(out: BinaryIO, report: Report, repeated: Repeated, copies: int) -> int:
    """Write the section of events; return where its strings begin, counted from behind the magic."""
    samples, section = report.samples(), report.sections[SAMPLES]
    later = (copies - 1) * repeated.steps[TIME]
    head = greater(samples.head, dict.fromkeys(_STOPS, later))
    counts = greater(samples.counts, {COUNT_OF_EVENTS: (copies - 1) * len(repeated.events)})
    blocks = len(MAGIC) + len(sized(samples.head)) + len(sized(samples.counts))
    strings = len(MAGIC) + numbers(report.sections[OFFSETS])[2]
    out.write(MAGIC)
    begin = out.tell()
    out.write(sized(head) + sized(counts) + section[blocks:strings])
    for number in range(1, copies):
        for block in repeated.blocks(number):
            out.write(block)
    strings_at = out.tell() - begin
    out.write(section[strings:])
    return strings_at


def generate(target: Path, source: Path, kernels: int) -> int:
    """Write the report; returns how many copies it has."""
    report = Report.read(source.read_bytes())
    repeated = Repeated.of(report.samples())
    copies = -(-kernels // repeated.kernels)
    entries, strings_at = [], 0
    with target.open("wb") as out:
        out.write(report.title)
        for name, content in report.sections.items():
            at = out.tell()
            if name == SAMPLES:
                strings_at = write_samples(out, report, repeated, copies)
            elif name == OFFSETS:
                out.write(field(1, "lz4") + field(2, strings_at))
            else:
                out.write(content)
            entries.append(field(1, name) + field(2, at) + field(3, out.tell() - at))
        out.write(footed(entries, out.tell()))
    return copies
