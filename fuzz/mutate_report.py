"""Reports of nsys with damage to what they are made of: sections, blocks, counts, messages, clocks."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate

import damage_messages as messages
import mutate_bytes
from nsys_rep_wire import (
    BYTES,
    COUNT_OF_EVENTS,
    COUNT_OF_LAYOUTS,
    COUNT_OF_STRINGS,
    COUNT_OF_THREADS,
    END,
    MASK,
    SAMPLES,
    VARINT,
    Block,
    Report,
    Samples,
    numbers,
    packed,
    sized,
    varint,
)

_COUNTS = (COUNT_OF_EVENTS, COUNT_OF_STRINGS, COUNT_OF_THREADS, COUNT_OF_LAYOUTS)
_SIZES = (0, 1, 1 << 14, (1 << 31) - 1, 1 << 32, 1 << 40, 1 << 63, MASK)
_BOMB_MIB = (8, 64, 200)
_LARGE = 4 << 20
_DAMAGED = (ValueError, IndexError, KeyError, OverflowError, UnicodeDecodeError)


@dataclass
class Parts:
    """A report in parts. `late`: what is done to its bytes in the end, with the places where parts begin.

    `moved`: names may mean another text than in the seed.
    """

    report: Report
    samples: Samples
    late: list[Callable[[bytes, list[int]], bytes]] = field(default_factory=list)
    contents: list[Callable[[messages.Fields], None]] = field(default_factory=list)
    moved: bool = False

    @property
    def strings(self) -> int:
        """Return how many strings there are."""
        return numbers(self.samples.counts).get(COUNT_OF_STRINGS, 0)

    def written(self) -> bytes:
        """Return the file."""
        report = self.report
        if SAMPLES in report.sections:
            report = report.with_samples(self.samples)
        content = report.written()
        at = int.from_bytes(content[-16:-8], "little")
        if self.contents:
            entries = messages.parsed(content[at:-16])
            for change in self.contents:
                change(entries)
            content = content[:at] + messages.built(entries) + content[-16:]
        places = [0, *accumulate(map(len, (report.title, *report.sections.values()))), len(content) - 16]
        before = content.find(b"QDTEXT00")
        if before >= 0:
            places += accumulate(map(len, self.samples.pieces()), initial=before)
        for change_bytes in self.late:
            content = change_bytes(content, sorted(places))
        return content


def mutate(content: bytes, steps: list[random.Random]) -> tuple[bytes, list[str], bool]:
    """Return a report with a step of damage for each generator, what was done, and `Parts.moved`."""
    try:
        report = Report.read(content)
        parts = Parts(report, report.samples())
    except _DAMAGED:
        return _general(content, steps)
    done = []
    for random_ in steps:
        step = random_.choice(STEPS)
        try:
            done.append(step(random_, parts))
        except _DAMAGED:  # by a step before
            done.append(f"{step.__name__} failed")
    return parts.written(), done, parts.moved


def _general(content: bytes, steps: list[random.Random]) -> tuple[bytes, list[str], bool]:
    done = []
    for random_ in steps:
        content, what = random_.choice(mutate_bytes.GENERAL)(random_, content)
        done.append(what)
    return content, done, True


# -- the file


def cut(random_: random.Random, parts: Parts) -> str:
    """End the file where a part begins or ends, or a byte beside; sometimes with the footer behind it."""
    share, beside, footed = random_.random(), random_.choice((-1, 0, 0, 1)), random_.random() < 0.3

    def late(content: bytes, places: list[int]) -> bytes:
        place = max(places[int(share * len(places))] + beside, 0)
        return content[:place] + (content[-16:] if footed else b"")

    parts.late.append(late)
    return f"cut at the border {share:.3f} {beside:+}{', footer behind it' if footed else ''}"


def footer(random_: random.Random, parts: Parts) -> str:
    """Take the footer off, change it, add something behind it, or have it point elsewhere."""
    kind = random_.randrange(6)
    value = random_.choice((0, 1, 57, (1 << 31) - 1, 1 << 40, (1 << 63) - 1, 1 << 63, MASK))
    share, noise = random_.random(), random_.randbytes(3)
    changes: tuple[Callable[[bytes], bytes], ...] = (
        lambda content: content[:-16],
        lambda content: content[:-1],
        lambda content: content[:-16] + messages.flipped(random.Random(value), content[-16:]),
        lambda content: content + (noise, b"\n", content[-16:], content, END)[value % 5],
        lambda content: content[:-16] + value.to_bytes(8, "little") + END,
        lambda content: content[:-16] + int(share * len(content)).to_bytes(8, "little") + END,
    )
    parts.late.append(lambda content, _: changes[kind](content))
    return f"footer changed in way {kind}, {value}"


def nothing(random_: random.Random, parts: Parts) -> str:
    """Leave next to nothing."""
    keep = random_.choice((0, 1, 28, 29, 57, 64))
    tail = random_.random() < 0.5
    parts.late.append(lambda content, _: content[:keep] + (content[-16:] if tail else b""))
    return f"{keep} bytes{' and the footer' if tail else ''}"


def general(random_: random.Random, parts: Parts) -> str:
    """Damage bytes, whatever they are."""
    seed = random_.random()
    step = random_.choice(mutate_bytes.GENERAL)
    parts.late.append(lambda content, _: step(random.Random(seed), content)[0])
    parts.moved = True
    return f"bytes: {step.__name__}"


def title(random_: random.Random, parts: Parts) -> str:
    """Change the first line."""
    old = parts.report.title
    parts.report.title = random_.choice((
        messages.flipped(random_, old), old[:28], old + b"\n", b"", old[:29] + b"1.", old[:29] + b"1@2",
        old[:29] + b"2099@1@1@1-0v0.", old[:29] + b"9" * 40 + b"@1@1@1-1v0.", old.replace(b"@", b"."),
        old[:29] + b"\xff" * 30,
    ))  # fmt: skip
    return f"title {parts.report.title[:50]!r}"


# -- sections and their table of contents


def sections(random_: random.Random, parts: Parts) -> str:
    """Drop, empty, swap, rename, add or fill sections."""
    found = parts.report.sections
    name = random_.choice([*found])
    kind = random_.randrange(6)
    if kind == 0:
        del found[name]
        return f"without {name}"
    if kind == 1:
        found[name] = b""
        parts.late += [] if name != SAMPLES else [lambda content, _: content.replace(b"QDTEXT00", b"", 1)]
        return f"{name} empty"
    if kind == 2:
        order = random_.sample([*found], len(found))
        parts.report.sections = {each: found[each] for each in order}
        return f"order {order}"
    if kind == 3:
        new = random_.choice((name.lower(), name + "\0", "", f"{SAMPLES} 2", "\u202e", "x" * 5000))
        parts.report.sections = {new if each == name else each: found[each] for each in found}
        return f"{name} is {new[:20]!r}"
    if kind == 4:
        found[f"{name} of {random_.randrange(100)}"] = random_.randbytes(random_.choice((0, 1, 1000)))
        return "one more section"
    if name != SAMPLES:
        found[name], what = _message(random_, found[name])
        return f"{name}: {what}"
    return "nothing"


def contents(random_: random.Random, parts: Parts) -> str:
    """Have the table of contents lie."""
    kind = random_.randrange(6)
    value = random_.choice((0, 1, 57, 1 << 20, (1 << 63) - 1, 1 << 63, MASK - 8, MASK))
    seed = random_.random()

    def late(entries: messages.Fields) -> None:
        chance = random.Random(seed)
        place = chance.randrange(len(entries)) if entries else 0
        if not entries or entries[place][1] != BYTES:
            return
        entry, other = entries[place][2], messages.parsed(chance.choice(entries)[2])
        name, *where = messages.parsed(entry)
        if kind == 0:  # named twice
            entries.insert(chance.randrange(len(entries)), entries[place])
            return
        if kind <= 2:  # anywhere
            number = chance.choice((2, 3))
            where = [(n, wire, value if n == number else v) for n, wire, v in where]
        elif kind == 3:  # as large as another one
            where = [*where[:1], *other[2:]]
        elif kind == 4:  # where another one is
            where = other[1:]
        changed = messages.built([name, *where])
        entries[place] = (1, BYTES, messages.change(chance, entry)[0] if kind == 5 else changed)

    parts.contents.append(late)
    return f"table of contents in way {kind}, {value}"


# -- blocks


class _Verbatim(Block):
    """A block that is written as it is."""

    def written(self) -> bytes:
        """Return its bytes."""
        return self.raw


def _any_block(random_: random.Random, parts: Parts) -> tuple[list[Block], int]:
    blocks = random_.choice((parts.samples.events, parts.samples.events, parts.samples.strings))
    blocks = blocks or parts.samples.strings or parts.samples.events
    if not blocks:
        blocks.append(Block.of(b""))
    return blocks, random_.randrange(len(blocks))


def sizes(random_: random.Random, parts: Parts) -> str:
    """Have a block lie about its size, packed or not; or unpack it no more."""
    blocks, place = _any_block(random_, parts)
    block = blocks[place]
    kind = random_.randrange(5)
    size = random_.choice((*_SIZES, len(block.raw) - 1, len(block.raw) + 1, len(block.raw) // 2)) & MASK
    if kind <= 1:
        block.size = size
        return f"block {place} of {size} bytes, it says"
    inside = packed(block.raw)
    parts.moved = True
    if kind == 2:
        block.packed = messages.flipped(random_, inside)
        return f"block {place} packed with flipped bits"
    if kind == 3:
        half = inside[: len(inside) // 2]
        block.packed = random_.choice((b"", inside[:-1], inside + b"\0", half, block.raw))
        return f"block {place} packed otherwise"
    length = random_.choice((*_SIZES, len(inside) - 1, len(inside) + 1)) & MASK
    prefix = random_.choice((varint(length), random_.choice(messages.ENDLESS)))
    blocks[place] = _Verbatim(prefix + varint(len(block.raw)) + inside)
    return f"block {place} packed in {length} bytes, it says"


def bomb(random_: random.Random, parts: Parts) -> str:
    """Add a block, or replace one, that is very large unpacked, and next to nothing packed."""
    blocks, place = _any_block(random_, parts)
    size = random_.choice(_BOMB_MIB) << 20
    kind = random_.randrange(4)
    if kind == 0:
        raw = bytes(size)
    elif kind == 1:
        raw = sized(varint(1 << 3 | BYTES) + sized(bytes(size)))  # one event, one string
    elif kind == 2:
        raw = sized(b"\x0a\0" * (size >> 1))  # empty events or strings
    else:  # nothing is wrong with this one
        size = _LARGE
        one = messages.built(messages.parsed(blocks[place].content)[:50])
        raw = sized(one * (size // len(one) if one else 0))
        known = numbers(parts.samples.counts)
        number = COUNT_OF_EVENTS if blocks is parts.samples.events else COUNT_OF_STRINGS
        more = len(messages.parsed(one)) * (size // len(one) if one else 0)
        _count(parts, number, known.get(number, 0) + more)
    parts.moved = True
    blocks.insert(place, _Verbatim(Block(raw).written()))
    return f"a block of {size >> 20} MiB in way {kind} at {place}"


def shuffle(random_: random.Random, parts: Parts) -> str:
    """Repeat, drop, swap or empty blocks."""
    blocks, place = _any_block(random_, parts)
    kind = random_.randrange(5)
    if kind == 0:
        blocks.insert(random_.randint(0, len(blocks)), blocks[place])
    elif kind == 1:
        del blocks[place]
    elif kind == 2:
        samples = parts.samples
        samples.events, samples.strings = samples.strings, samples.events
    elif kind == 3:
        blocks.insert(place, Block.of(b""))
    else:
        raw = blocks[place].raw
        blocks[place] = Block(random_.choice((b"", b"\0", b"\x80", raw + b"\0", raw[:-1])))
    parts.moved = True
    return f"blocks in way {kind}, {place}"


# -- messages


def _message(random_: random.Random, message: bytes) -> tuple[bytes, str]:
    return random_.choice((messages.change, messages.change, messages.raw))(random_, message)


def counts(random_: random.Random, parts: Parts) -> str:
    """Have the counts lie, or damage them."""
    known = numbers(parts.samples.counts)
    number = random_.choice(_COUNTS)
    value = known.get(number, 0)
    if random_.random() < 0.2:
        parts.samples.counts, what = _message(random_, parts.samples.counts)
        return f"counts: {what}"
    new = random_.choice((0, 1, value - 1, value + 1, 2 * value, 7001, 1 << 31, 1 << 40, 1 << 63, MASK))
    _count(parts, number, new)
    # What events are is read as strings, or the other way round.
    parts.moved |= number in (COUNT_OF_EVENTS, COUNT_OF_STRINGS)
    return f"count {number} is {new}, not {value}"


def _count(parts: Parts, number: int, value: int) -> None:
    fields = [one for one in messages.parsed(parts.samples.counts) if one[0] != number]
    fields.append((number, VARINT, value & MASK))
    parts.samples.counts = messages.built(sorted(fields, key=lambda one: one[0]))


def head(random_: random.Random, parts: Parts) -> str:
    """Damage the head, the targets or the names of threads."""
    name = random_.choice(("head", "head", "head", "targets", "targets", "threads"))
    message = getattr(parts.samples, name)
    changed, what = _message(random_, message)
    setattr(parts.samples, name, changed)
    parts.moved = True
    return f"{name}: {what}"


def rest(random_: random.Random, parts: Parts) -> str:
    """Change what is behind the targets."""
    old = parts.samples.rest
    try:
        layouts = Block.read(old, 0)[0].content
        old = Block.of(_message(random_, layouts)[0]).written()
    except (ValueError, IndexError):
        block = Block.of(b"\x08\x01").written()
        old = random_.choice((b"\0", b"\xff" * 12, random_.randbytes(100), block, bytes(4096)))
    parts.samples.rest = old
    return f"{len(old)} bytes behind the targets"


def clocks(random_: random.Random, parts: Parts) -> str:
    """Change clocks, and what leads from one to the other."""
    name = "Time Conversion Data"
    if name in parts.report.sections and random_.random() < 0.7:
        parts.report.sections[name], what = messages.change(random_, parts.report.sections[name], 0.9)
        return f"conversions: {what}"
    fields = messages.parsed(parts.samples.head)
    for place, (number, kind, value) in enumerate(fields):
        if number == 16 and kind == BYTES:
            value, what = messages.change(random_, value, 0.9)
            fields[place] = (number, kind, value)
            parts.samples.head = messages.built(fields)
            return f"clocks: {what}"
    return "no clocks"


def strings(random_: random.Random, parts: Parts) -> str:
    """Damage the strings."""
    parts.moved = True
    if not parts.samples.strings:
        return "no strings"
    place = random_.randrange(len(parts.samples.strings))
    block = parts.samples.strings[place]
    changed, what = _message(random_, block.content)
    parts.samples.strings[place] = Block.of(changed)
    return f"strings: {what}"


def events(random_: random.Random, parts: Parts) -> str:
    """Damage events: a few of one block or all of them, each in the same or in a way of its own."""
    parts.moved = True
    if not parts.samples.events:
        return "no events"
    place = random_.randrange(len(parts.samples.events))
    content = parts.samples.events[place].content
    if random_.random() < 0.15:
        changed, what = messages.raw(random_, content)
    else:
        fields = messages.parsed(content)
        same = random_.random() if random_.random() < 0.5 else None
        count = min(len(fields), random_.choice((1, 1, 1, 3, 20, 7000)))
        chosen, what = sorted(random_.sample(range(len(fields)), count)), ""
        for at in chosen:
            number, kind, value = fields[at]
            if kind == BYTES:
                chance = random_ if same is None else random.Random(same)
                way = messages.event if chance.random() < 0.7 else _as_any
                value, what = way(chance, value, parts.strings)
                fields[at] = (number, kind, value)
        changed = messages.built(fields)
        what = f"{len(chosen)} events, such as {what}"
    parts.samples.events[place] = Block.of(changed)
    return f"block {place}: {what}"


def _as_any(random_: random.Random, message: bytes, strings: int) -> tuple[bytes, str]:
    return messages.change(random_, message)


STEPS: tuple[Callable[[random.Random, Parts], str], ...] = (
    cut, cut, cut, footer, footer, nothing, general, general, title, sections, sections, contents,
    contents, contents, sizes, sizes, sizes, bomb, shuffle, shuffle, counts, counts, counts, head,
    head, head, rest, clocks, clocks, strings, strings, events, events, events, events, events, events,
    events, events,
)  # fmt: skip
