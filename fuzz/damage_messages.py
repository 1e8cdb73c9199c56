"""Damage to messages: fields that lie, are missing, come too often, have other types or numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from nsys_rep_wire import BYTES, EIGHT, FOUR, MASK, VARINT, as_read, read_fields, varint

Fields = list[tuple[int, int, Any]]
"""Number, wire type and value of each field of a message."""

NUMBERS = (
    0, 1, 2, 127, 128, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 53) + 1, (1 << 63) - 1,
    1 << 63, MASK - 1, MASK,
)  # fmt: skip
ENDLESS = (b"\xff" * 10, b"\xff" * 11, b"\xff" * 20, b"\x80" * 11, b"\xff" * 5000)
_LENGTHS = (1 << 14, 1 << 31, 1 << 40, 1 << 63, MASK)
_TEXTS = (b"", b"\xff\xfe", b"\0", b"a\0b", "\u202e".encode(), b"\xed\xa0\x80", b"x" * 70_000)

_ACTIVITY, _CALL, _RANGE, _SAMPLE, _SCHEDULED, _PROCESS, _DIAGNOSTIC = 107, 108, 102, 104, 106, 113, 110
# Fields that are ids of strings, times, ids of processes, codes, by payload or by what is in an activity.
_STRINGS = {101: (1, 2, 3, 8), _CALL: (7,), _RANGE: (12,)}
_TIMES = {_ACTIVITY: (1, 2), _CALL: (1, 2), _RANGE: (2, 10), _SAMPLE: (1,), _SCHEDULED: (1,),
          _PROCESS: (1,)}  # fmt: skip
_IDS = {_ACTIVITY: (3, 4, 5, 6, 8, 9), _CALL: (3, 13), _RANGE: (9, 11, 13), _PROCESS: (2,),
        _SCHEDULED: (3, 6), 101: (20, 27, 29), 102: (6, 7, 8, 9, 11)}  # fmt: skip
_CODES = {_CALL: (6, 8), _RANGE: (1,), 101: (23, 24), 102: (2, 4, 5, 10), 103: (4,), 105: (2, 4),
          _DIAGNOSTIC: (2, 3), _SCHEDULED: (4, 5), 123: (9, 10), 129: (2, 3)}  # fmt: skip


def parsed(message: bytes) -> Fields:
    """Return the fields of a message. Raises ValueError or IndexError where it is damaged."""
    return list(read_fields(message))


def built(fields: Fields) -> bytes:
    """Return the message of these fields."""
    return b"".join(as_read(*one) for one in fields)


def flipped(random_: random.Random, data: bytes, counts: Sequence[int] = (1, 1, 1, 2, 5)) -> bytes:
    """Return the bytes with bits flipped."""
    found = bytearray(data)
    for _ in range(random_.choice(counts) if found else 0):
        found[random_.randrange(len(found))] ^= 1 << random_.randrange(8)
    return bytes(found)


# -- any message


def _drop(random_: random.Random, fields: Fields) -> str:
    number, *_ = fields.pop(random_.randrange(len(fields)))
    return f"without field {number}"


def _again(random_: random.Random, fields: Fields) -> str:
    one = random_.choice(fields)
    count = random_.choice((1, 1, 2, 1000))
    where = random_.randint(0, len(fields))
    fields[where:where] = [one] * count
    return f"field {one[0]} {count} times more"


def _shuffle(random_: random.Random, fields: Fields) -> str:
    random_.shuffle(fields)
    return "fields in another order"


def _number(random_: random.Random, fields: Fields) -> str:
    place = random_.randrange(len(fields))
    number, kind, value = fields[place]
    new = random_.choice((number + 1, number + 50, 0, 1, 15, 16, 5000, (1 << 29) - 1, 1 << 42))
    fields[place] = (new, kind, value)
    return f"field {number} is {new}"


def _retype(random_: random.Random, fields: Fields) -> str:
    place = random_.randrange(len(fields))
    number, kind, _ = fields[place]
    values: dict[int, Any] = {VARINT: random_.choice(NUMBERS), EIGHT: random_.randbytes(8),
                              FOUR: random_.randbytes(4), BYTES: random_.choice(_TEXTS)}  # fmt: skip
    new = random_.choice([one for one in values if one != kind])
    fields[place] = (number, new, values[new])
    return f"field {number} of type {new}"


def _value(random_: random.Random, fields: Fields) -> str:
    place = random_.randrange(len(fields))
    number, kind, value = fields[place]
    if kind == VARINT:
        value = random_.choice((*NUMBERS, value ^ 1 << random_.randrange(64), value + 1 & MASK))
    elif kind == BYTES:
        value = random_.choice((*_TEXTS, flipped(random_, value), value[len(value) // 2 :], value * 2))
    else:
        value = random_.randbytes(len(value))
    fields[place] = (number, kind, value)
    return f"field {number} of another value"


_ANY: tuple[Callable[[random.Random, Fields], str], ...] = (
    _drop, _drop, _again, _shuffle, _number, _retype, _retype, _value, _value, _value,
)  # fmt: skip


def change(random_: random.Random, message: bytes, deeper: float = 0.7) -> tuple[bytes, str]:
    """Change a message, or one inside of it, in the way of messages; return it and what was done."""
    try:
        fields = parsed(message)
    except (ValueError, IndexError):
        return flipped(random_, message), "bits flipped"
    inner = [place for place, (_, kind, value) in enumerate(fields) if kind == BYTES and value]
    if inner and random_.random() < deeper:
        place = random_.choice(inner)
        number, kind, value = fields[place]
        value, what = change(random_, value, deeper)
        fields[place] = (number, kind, value)
        return built(fields), f"{number}.{what}"
    if not fields:
        return random_.randbytes(3), "noise"
    what = _changed(random_, fields)
    return built(fields), what


def _changed(random_: random.Random, fields: Fields) -> str:
    return random_.choice(_ANY)(random_, fields)


def raw(random_: random.Random, message: bytes) -> tuple[bytes, str]:
    """Damage the bytes of a message: bits, endless numbers, lengths beyond it, its end."""
    kind = random_.randrange(5)
    where = random_.randint(0, len(message))
    if kind == 0:
        return flipped(random_, message, (1, 1, 2, 8, 40)), "bits flipped"
    if kind == 1:
        endless = random_.choice(ENDLESS)
        return message[:where] + endless + message[where:], f"{len(endless)} bytes without end at {where}"
    if kind == 2:
        number, length = random_.choice((1, 2, 7, 101, 108)), random_.choice(_LENGTHS)
        field = varint(number << 3 | BYTES) + varint(length)
        return message[:where] + field + message[where:], f"a length of {length} at {where}"
    if kind == 3:
        return message[:where], f"cut at {where}"
    key = random_.choice((b"\x0b", b"\x0c", b"\x0f", b"\0", b"\x80", b"\x0a"))
    return message + key, f"the key {key.hex()} behind it"


# -- events


def event(random_: random.Random, message: bytes, strings: int) -> tuple[bytes, str]:
    """Change an event in a way of its own; `strings` is how many strings there are."""
    try:
        fields = parsed(message)
        place = next(at for at, (number, *_) in enumerate(fields) if number > 100)
        payload = parsed(fields[place][2])
    except (ValueError, IndexError, StopIteration, TypeError):
        return change(random_, message)
    kind = fields[place][0]
    if random_.random() < 0.1:
        new = random_.choice((99, 100, 101, 103, 105, 111, 150, 4000))
        fields[place] = (new, BYTES, built(payload))
        return built(fields), f"payload {kind} is {new}"
    inner = [at for at, (number, wire, _) in enumerate(payload) if number > 100 and wire == BYTES]
    if kind == _ACTIVITY and inner and random_.random() < 0.6:
        number, wire, value = payload[inner[0]]
        if random_.random() < 0.2:
            new = random_.choice((100, 101, 102, 103, 104, 105, 107, 108, 109, 200))
            payload[inner[0]] = (new, wire, value)
            what = f"inner field {number} is {new}"
        else:
            activity = parsed(value)
            what = f"{number}.{_meaning(random_, number, activity, strings)}"
            payload[inner[0]] = (number, wire, built(activity))
    else:
        what = _meaning(random_, kind, payload, strings)
    fields[place] = (kind, BYTES, built(payload))
    return built(fields), f"{kind}.{what}"


def _meaning(random_: random.Random, kind: int, fields: Fields, strings: int) -> str:
    beyond = (strings, strings + 1, strings - 1, (1 << 31) - 1, (1 << 32) - 1, 1 << 63, MASK)
    codes = (*range(12), 31, 42, 67, 77, 78, 94, 95, 99, 102, 103, 200, (1 << 32) - 1, MASK)
    tables: tuple[tuple[dict[int, tuple[int, ...]], Sequence[int]], ...] = (
        (_STRINGS, beyond), (_TIMES, NUMBERS), (_IDS, NUMBERS), (_CODES, codes),
    )  # fmt: skip
    known = [(number, values) for table, values in tables for number in table.get(kind, ())]
    chosen = [(at, values) for at, (number, wire, _) in enumerate(fields) for of, values in known
              if number == of and wire == VARINT]  # fmt: skip
    if not chosen or not fields:
        return _changed(random_, fields) if fields else "nothing to change"
    at, values = random_.choice(chosen)
    number, wire, _ = fields[at]
    fields[at] = (number, wire, random_.choice(values) & MASK)
    return f"{number} = {fields[at][2]}"
