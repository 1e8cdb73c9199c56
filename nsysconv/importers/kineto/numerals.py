"""Whole numbers in a text, read at many places at once.

Eight characters are loaded as one word, little-endian: the first is its lowest byte. How digits are added
up in a few operations of words: Daniel Lemire, "Quickly parsing eight digits", 2018.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

Array = np.ndarray

WORD_BYTES = 8

_ZEROS = np.uint64(0x3030303030303030)
# What makes the highest bit of a byte of 10 or more, and of no digit's.
_TO_HIGH = np.uint64(0x7676767676767676)
_HIGH = np.uint64(0x8080808080808080)
_PAIRS, _FOURS = np.uint64(0x00FF00FF00FF00FF), np.uint64(0x0000FFFF0000FFFF)
_ONE, _LOW, _ZERO = np.uint64(1), np.uint64(0xFF), np.uint64(0x30)
_POWERS = 10 ** np.arange(WORD_BYTES + 1, dtype=np.int64)
_MOST_DIGITS = 18
_TEXTS = 1 << 8


@lru_cache(_TEXTS)
def word(text: bytes) -> np.uint64:
    """The first eight characters of a text, or all with zeros behind them, as Words has them."""
    found: np.uint64 = np.frombuffer(text[:WORD_BYTES].ljust(WORD_BYTES, b"\0"), "<u8")[0]
    return found


class Words:
    """The words that begin at each character of a text, but for its last ones."""

    def __init__(self, room: memoryview) -> None:
        self._room = room
        self._at = self._of(1)

    def __getitem__(self, places: Array) -> Array:
        found: Array = self._at[places].view("<u8")
        return found

    def rows(self, places: Array, count: int) -> Array:
        """So many words from each place on, a row each. To take several takes no longer than one."""
        found: Array = self._of(count)[places].view("<u8").reshape(-1, count)
        return found

    def _of(self, count: int) -> Array:
        # Not as numbers: numpy takes those that are not aligned one by one.
        size = count * WORD_BYTES
        return np.ndarray((len(self._room) - size + 1,), f"V{size}", self._room, 0, (1,))


def digits(found: Array) -> Array:
    """How many digits words begin with."""
    return _leading(_no_digits(found ^ _ZEROS))


def lengths(text: Words, places: Array) -> Array:
    """How many digits stand at places of a text, as `numbers` has them."""
    found = text[places]
    count = digits(found)
    if (count == WORD_BYTES).any():
        return numbers(text, places)[0]
    count[(count > 1) & (found & _LOW == _ZERO)] = 0
    return count


def numbers(text: Words, places: Array) -> tuple[Array, Array]:
    """How many digits stand at places of a text, and the numbers they spell, as int64.

    No digits, where it is not spelled as JSON does, or is longer than 18.
    """
    first = text[places]
    count, values = _eight(first)
    more = np.flatnonzero(count == WORD_BYTES)
    while len(more):
        further, low = _eight(text[places[more] + count[more]])
        count[more] += further
        short = count[more] <= _MOST_DIGITS
        more, further, low = more[short], further[short], low[short]
        values[more] = values[more] * _POWERS[further] + low
        more = more[further == WORD_BYTES]
    # JSON has no zeros in front.
    count[(count > _MOST_DIGITS) | ((count > 1) & (first & _LOW == _ZERO))] = 0
    return count, values


def decimals(found: Array, count: Array) -> Array:
    """Thousandths out of the one to three digits behind a point, which words begin with."""
    # What is no digit of it becomes zero.
    cells = (found ^ _ZEROS) & ((_ONE << (count << 3).astype(np.uint64)) - _ONE)
    found = (cells & _LOW) * np.uint64(100) + ((cells >> np.uint64(8)) & _LOW) * np.uint64(10)
    thousandths: Array = (found + (cells >> np.uint64(16))).astype(np.int64)
    return thousandths


def _eight(found: Array) -> tuple[Array, Array]:
    """As `numbers`, of no more digits than words hold."""
    cells = found ^ _ZEROS
    count = _leading(_no_digits(cells))
    # Zeros in front of it, up to eight digits.
    cells = cells << ((WORD_BYTES - count) << 3).astype(np.uint64)
    cells = (cells * np.uint64(10) + (cells >> np.uint64(8))) & _PAIRS
    cells = (cells * np.uint64(100) + (cells >> np.uint64(16))) & _FOURS
    cells = (cells * np.uint64(10_000) + (cells >> np.uint64(32))) & np.uint64(0xFFFFFFFF)
    return count, cells.astype(np.int64)


def _no_digits(cells: Array) -> Array:
    """Bits in the bytes that are no digits; those behind the first one may be wrong."""
    found: Array = ((cells + _TO_HIGH) | cells) & _HIGH
    return found


def _leading(found: Array) -> Array:
    """How many bytes of words are zero before the first that is not."""
    lowest = found & (~found + _ONE)
    count: Array = (np.bitwise_count(lowest - _ONE) >> 3).astype(np.int64)
    return count
