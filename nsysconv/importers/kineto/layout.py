"""Events as libkineto lays them out, found in a text without reading one after the other.

Below are an event, an event without `args`, and an arrow from one event to another, which is no row, as
PyTorch wrote them from 2023 to 2026:

  {
    "ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 7, "tid": 7,
    "ts": 4311856494815.899, "dur": 3.482,
    "args": {
      "External id": 9,"Record function id": 0, "Input Dims": [[64]], "Ev Idx": 8
    }
  },
  {
    "ph": "X", "cat": "overhead", "name": "Activity Buffer Request", "pid": -1, "tid": 0,
    "ts": 4311856494819.020, "dur": 3.100
  },
  {
    "ph": "s", "id": 9, "pid": 7, "tid": 7, "ts": 4311856494817.668,
    "cat": "ac2g", "name": "ac2g"
  },

Since PyTorch 2.13 each member of an event is on a line of its own, those of `args` still are on one.

Lines repeat: the same operator on the same tensors, the same kernel. So of those with names and of those
of `args` only the distinct ones are decoded, by what decodes any event. What differs from event to event,
times and numbers of `args`, is read here, of all events at once.

Where anything in a text is laid out in another way it is not for this module, which says so and no more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nsysconv.importers.kineto.numerals import (
    WORD_BYTES,
    Words,
    decimals,
    digits,
    lengths,
    numbers,
    word,
)
from nsysconv.importers.kineto.trace import PADDING

Array = np.ndarray


@dataclass(frozen=True)
class _Layout:
    """What stands where. Lines are counted from the one that "ph" begins, to that of the next event.

    `lines`: how many, `lines_without` args. `begin`: how an event begins, up to the first key of its
    head, whose quote is character number `head`. `arrows`: how arrows begin. `times`, `args`: the lines
    of these. `duration`: what stands between the times; `then_args`, `then_end`: what stands behind
    them. `category`: the line of an arrow's.
    """

    lines: int
    lines_without: int
    begin: bytes
    head: int
    arrows: tuple[bytes, ...]
    times: int
    duration: bytes
    args: int
    then_args: bytes
    then_end: bytes
    category: int


# By the character behind the first member.
_LAYOUTS = {
    b" ": _Layout(
        lines=7,
        lines_without=4,
        begin=b'    "ph": "X", "',
        head=15,
        arrows=(b'    "ph": "s", "', b'    "ph": "f", "'),
        times=1,
        duration=b', "dur": ',
        args=2,
        then_args=b',\n    "args": {\n      ',
        then_end=b"\n  }",
        category=1,
    ),
    b"\n": _Layout(
        lines=13,
        lines_without=10,
        begin=b'    "ph": "X",\n    "cat',
        head=19,
        arrows=(b'    "ph": "s",\n    "id', b'    "ph": "f",\n    "id'),
        times=5,
        duration=b',\n    "dur": ',
        args=8,
        then_args=b'\n    ,\n    "args": {\n      ',
        then_end=b"\n    \n  }",
        category=5,
    ),
}
_KIND_AT = len('    "ph": ')
_BEHIND_FIRST = len('{\n    "ph": "X",')
_BEGIN, _END, _BORDER = b"{\n", b"\n  }", b"\n  },\n  {\n"
_ARGS = word(b'    "arg')
_TIME, _ARGS_END = b',\n    "ts": ', b"\n    }\n  }"
_PASSED_OVER = tuple(
    f'    "cat": "{category}'[:16].encode() for category in ("ac2g", "fwdbwd", "async")
)
_EV_IDX = b'"Ev Idx": '
# What stands behind a number up to the name of the next one.
_GAPS = (b',"', b', "', b',      "')
_COMMA, _NEWLINE, _SPACE, _ZERO, _OPEN = b",\n 0{"
_LINE_END = len(",\n")
_DECIMALS = 3
_MOST_US = 1 << 52
# What was found in so much text is still in the cache when it is looked through.
_SEARCHED_BYTES = 1 << 18

# Members that differ from event to event where they begin `args`, in the orders in which they do.
_FRONT = tuple(
    f'"{name}": '.encode()
    for name in (
        *("External id", "Ev Idx", "Python module id", "Python parent id", "Python id"),
        *("Python parent id", 'Record function id": 0, "Sequence number', "Sequence number"),
        *("Fwd thread id", "Sequence number", "queued", "device", "context", "stream"),
        *("cbid", "cid", "correlation"),
    )
)
NUMBERS = ("device", "context", "stream", "correlation", "Sequence number")
"""Which of these are read."""


@dataclass(frozen=True)
class Laid:
    """The events of a text, in its order; `passed` arrows among them are left out.

    `head` and `tail`: which of `heads` and `tails` an event has: members of the event and of its `args`,
    separated by commas, without their braces. `numbers`: members of `args` that no tail holds, by name;
    -1 where an event has none. `start` and `dur`: ns. `has_fractions`: not all are whole microseconds.
    """

    passed: int
    head: Array
    heads: list[bytes]
    tail: Array
    tails: list[bytes]
    numbers: dict[str, Array]
    start: Array
    dur: Array
    has_fractions: bool


def laid(room: memoryview) -> Laid | None:
    """The events of a text that begins and ends with one, and which PADDING follows in its room; None
    where it is laid out in another way.
    """
    layout = _LAYOUTS.get(bytes(room[_BEHIND_FIRST : _BEHIND_FIRST + 1]))
    if layout is None:
        return None
    try:
        events = _Events(room, layout)
    except _OtherLayout:
        return None
    if not len(events.start):
        return None
    buffer = pa.py_buffer(room)
    return Laid(
        events.passed,
        *_distinct(buffer, *events.head),
        *_distinct(buffer, *events.tail),
        events.numbers,
        events.start,
        events.dur,
        events.has_fractions,
    )


class _OtherLayout(Exception):  # noqa: N818 - says what the text has
    """A text is laid out in another way."""


def _require(found: Array | bool) -> None:
    if not np.all(found):
        raise _OtherLayout


@dataclass(frozen=True)
class _Text:
    """The characters of a text, and the words that begin at each of them."""

    characters: Array
    words: Words

    def stands(self, places: Array, *texts: bytes) -> Array:
        """At which places one of some texts of one length stands."""
        starts = range(0, len(texts[0]), WORD_BYTES)
        found = self.words.rows(places, len(starts))
        some = np.zeros(len(places), bool)
        for text in texts:
            same = np.ones(len(places), bool)
            for column, start in enumerate(starts):
                same &= _begins(found[:, column], text[start : start + WORD_BYTES])
            some |= same
        return some


class _Events:
    """The events of a text.

    `head` and `tail`: from where to where the members of events and those of their `args` stand. The
    others as in Laid. Raises _OtherLayout.
    """

    def __init__(self, room: memoryview, layout: _Layout) -> None:
        text = room[:-PADDING]
        _require(text[: len(_BEGIN)] == _BEGIN and text[-len(_END) :] == _END)
        self._at = at = _Text(np.frombuffer(room, np.uint8), Words(room))
        self._layout = layout
        self._lines = _lines(at.characters[:-PADDING])
        events, told, arrows = self._heads()
        self.passed = len(arrows)
        head, times = self._lines[events], self._lines[events + layout.times]
        _require(at.stands(head, layout.begin))
        end = times - _LINE_END
        _require(at.stands(end, _TIME))
        self.head = (head + layout.head, end)
        self.start, self.dur, behind = self._timed(end + len(_TIME))
        _require(at.stands(behind[~told], layout.then_end))
        # Those without `args` have an empty text.
        self.tail = (head.copy(), head.copy())
        self.numbers = {name: np.full(len(head), -1) for name in NUMBERS}
        rows = np.flatnonzero(told)
        self._read(rows, behind[rows], self._lines[events[rows] + layout.args + 2] - 1)

    def _heads(self) -> tuple[Array, Array, Array]:
        """Which lines begin events, which of these have `args`, and which lines begin arrows."""
        at, lines, layout = self._at, self._lines, self._layout
        opened = np.flatnonzero(at.characters[lines[:-1] + 2] == _OPEN)
        heads = np.concatenate(([0], opened + 1))
        lasting = at.characters[lines[heads] + _KIND_AT + 1] == ord("X")
        args = np.minimum(heads + layout.args, len(lines) - 1)
        told = lasting & (at.words[lines[args]] == _ARGS)
        following = heads + np.where(told, layout.lines, layout.lines_without)
        _require(following[-1] == len(lines) + 1)
        _require(following[:-1] == heads[1:])
        _require(at.stands(lines[following[:-1] - 2], _BORDER[1:]))
        arrows = heads[~lasting]
        self._check_arrows(arrows)
        return heads[lasting], told[lasting], arrows

    def _check_arrows(self, arrows: Array) -> None:
        layout = self._layout
        _require(self._at.stands(self._lines[arrows], *layout.arrows))
        _require(self._at.stands(self._lines[arrows + layout.category], *_PASSED_OVER))

    def _timed(self, places: Array) -> tuple[Array, Array, Array]:
        """Starts and durations (ns) that stand at places, and where they end."""
        start, behind, self.has_fractions = self._nanoseconds(places)
        between = self._layout.duration
        _require(self._at.stands(behind, between))
        dur, behind, _ = self._nanoseconds(behind + len(between))
        return start, dur, behind

    def _nanoseconds(self, places: Array) -> tuple[Array, Array, bool]:
        """Microseconds at places as ns, where they end, and whether they have decimals: all or none."""
        at = self._at
        length, values = numbers(at.words, places)
        _require((length > 0) & (values <= _MOST_US))
        behind = places + length
        found = at.words[behind]
        point = _begins(found, b".")
        if not point.any():
            return values * 1000, behind, False
        _require(point)
        found = found >> np.uint64(8)
        count = digits(found)
        _require((count > 0) & (count <= _DECIMALS))
        return values * 1000 + decimals(found, count), behind + 1 + count, True

    def _read(self, rows: Array, behind: Array, high: Array) -> None:
        """Takes numbers out of the `args` of rows, which follow behind their times and end at `high`."""
        at, then = self._at, self._layout.then_args
        _require(at.stands(behind, then) & at.stands(high, _ARGS_END))
        low = behind + len(then)
        found = at.words[low]
        for key in _FRONT:
            here = np.flatnonzero(_begins(found, key))
            if len(here) and key[WORD_BYTES:]:
                here = here[at.stands(low[here] + WORD_BYTES, key[WORD_BYTES:])]
            if not len(here):
                continue
            place = low[here] + len(key)
            own = self.numbers.get(key.split(b'"')[-2].decode())
            if own is None:
                count = lengths(at.words, place)
            else:
                count, values = numbers(at.words, place)
            following, good = self._next(place + count)
            good &= count > 0
            here, following = here[good], following[good]
            if own is not None:
                own[rows[here]] = values[good]
            low[here] = following
            found[here] = at.words[following]
        self.tail[0][rows], self.tail[1][rows] = low, self._without_number(low, high)

    def _next(self, behind: Array) -> tuple[Array, Array]:
        """Where the member that follows a number begins, or the line ends; and whether that is so."""
        found = self._at.words[behind]
        ahead = np.zeros(len(behind), np.int64)
        for gap in _GAPS:
            ahead[_begins(found, gap)] = len(gap) - 1
        return behind + ahead, (ahead > 0) | _begins(found, b"\n")

    def _without_number(self, low: Array, high: Array) -> Array:
        """Where `args` end without the number of the event, which is the last of them."""
        at = self._at
        count = digits(at.words[high - WORD_BYTES].byteswap())
        place = high - count - len(_EV_IDX)
        there = (count > 0) & (count < WORD_BYTES) & (place >= low)
        there &= at.stands(place, _EV_IDX)
        there &= (count == 1) | (at.characters[high - count] != _ZERO)
        behind_comma = (at.characters[place - 1] == _SPACE) & (at.characters[place - 2] == _COMMA)
        behind_comma &= place - 2 > low
        end = np.where(there & behind_comma, place - 2, high)
        return np.where(there & (place == low), low, end)


def _lines(text: Array) -> Array:
    """Where lines begin, but for the first."""
    ends = [
        low + np.flatnonzero(text[low : low + _SEARCHED_BYTES] == _NEWLINE)
        for low in range(0, len(text), _SEARCHED_BYTES)
    ]
    return np.concatenate(ends) + 1


def _begins(found: Array, key: bytes) -> Array:
    """Whether words begin as a key."""
    if len(key) < WORD_BYTES:
        found = found & word(b"\xff" * len(key))
    same: Array = found == word(key)
    return same


def _distinct(buffer: pa.Buffer, low: Array, high: Array) -> tuple[Array, list[bytes]]:
    """Which text each part of a buffer is, and the texts, in the order in which they come first."""
    borders = np.empty(2 * len(low), np.int32)
    borders[0::2], borders[1::2] = low, high
    # Texts and what stands between them, by turns.
    parts = pa.Array.from_buffers(
        pa.binary(), len(borders) - 1, [None, pa.py_buffer(borders), buffer]
    )
    places = np.arange(0, len(borders), 2, dtype=np.int32)
    wanted = pa.Array.from_buffers(pa.int32(), len(places), [None, pa.py_buffer(places)])
    encoded = pc.dictionary_encode(pc.take(parts, wanted))
    return np.frombuffer(
        encoded.indices.buffers()[1], np.int32, len(low)
    ), encoded.dictionary.to_pylist()
