"""Columns of event tables as numpy arrays, filled in parts by several threads.

Most ids, and durations below two seconds, fit in 32 bits; many columns hold one value throughout. Memory
that a process touches for the first time is expensive (on virtual machines often more so than computing
with it), so a column takes more only when a value needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

Array = np.ndarray


class TooManyRowsError(Exception):
    """More rows came than there are numbers for them."""


class ColumnPart:
    """Take consecutive rows of a column in their order, from one thread."""

    def __init__(self, room: Array) -> None:
        """Fill the preallocated array `room`."""
        self._given = self._room = room
        self._count = 0
        self._only: int | None = None  # the one value of all rows so far

    def add(self, values: Array) -> None:
        """Append int32 or int64 values, at least one. Raises TooManyRowsError where there is no room."""
        begin, self._count = self._count, self._count + len(values)
        if self._count > len(self._given):
            raise TooManyRowsError
        if begin == 0:
            self._only = int(values[0])
        if self._only is not None:
            if (values == self._only).all():
                return
            self._spell_out(begin)
        self._put(begin, values)

    def values(self) -> Array:
        """Return the values; where all are equal, a broadcast array."""
        if self._count and self._only is not None:
            return np.broadcast_to(np.int64(self._only), self._count)
        return self._room[: self._count]

    def fills_slice(self) -> bool:
        """Return whether the materialized values fill the preallocated slice exactly."""
        self._spell_out(self._count)
        return self._room is self._given and self._count == len(self._given)

    def _spell_out(self, count: int) -> None:
        if self._only is not None:
            self._put(0, np.full(count, self._only))
            self._only = None

    def _put(self, begin: int, values: Array) -> None:
        place = slice(begin, begin + len(values))
        self._room[place] = values
        narrowed = self._room.itemsize < values.itemsize
        if narrowed and not (self._room[place] == values).all():
            self._room = self._room.astype(np.int64)
            self._room[place] = values


class ColumnBuilder:
    """Build a column of as many rows as the sizes of its parts add up to, or fewer."""

    def __init__(self, sizes: Sequence[int], dtype: type[np.signedinteger]) -> None:
        """Allocate parts of these sizes; memory that is never written costs nothing."""
        self._whole = np.empty(sum(sizes), dtype)
        edges = np.cumsum([0, *sizes]).tolist()
        self.parts = [ColumnPart(self._whole[low:high]) for low, high in pairwise(edges)]

    def finished(self) -> Array:
        """Return the column: of the given type where all values fit, else int64."""
        pieces = [piece for part in self.parts if len(piece := part.values())]
        if not pieces:
            return self._whole[:0]
        if all(piece.strides == (0,) and piece[0] == pieces[0][0] for piece in pieces):
            return np.broadcast_to(pieces[0][0], sum(map(len, pieces)))
        # Every part is asked: one that holds a constant spells it out when it is.
        filled = [part.fills_slice() for part in self.parts]
        return self._whole if all(filled) else np.concatenate([p.values() for p in self.parts])
