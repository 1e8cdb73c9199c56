"""Numbers of names: those of the database's string table, and of names that we make from its rows.

What we make must not take a number that a row of the file may refer to. Below `base` are the
file's own ids; one `base` higher stands a symbol's demangled form; above both the API functions, the
kinds of overhead, and constructs of OpenACC and OpenMP.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from nsysconv.importers.sqlite_columns import Expression

HIGHEST_TEXT = (1 << 31) - 1
"""No string table is that long: higher ids are damage."""
HIGHEST_CALL = (1 << 14) - 1
"""Nor has an API that many functions."""

OVERHEADS = {
    0: "Unknown overhead",
    1: "Driver compiler",
    1 << 16: "Buffer flush",
    2 << 16: "Instrumentation",
    3 << 16: "Resource",
}
"""Kinds of overhead."""
_LAYERS = 2


@dataclass(frozen=True)
class NameIds:
    """`base` is higher than every id of a text; `demangles`: kernels have a demangled name, too."""

    base: int
    demangles: bool

    def text(self, text_id: Expression, *, careful: bool) -> Expression:
        """A text of the file; its 0 stands for none. `careful`: and so do ids that cannot be."""
        if careful:
            return sa.case((text_id.between(1, self.base - 1), text_id))
        return sa.func.nullif(text_id, 0)

    def demangled(self, symbol: Expression) -> Expression:
        """The demangled form of a symbol with this id."""
        return symbol + self.base

    def call(self, number: Expression, layer: int, *, careful: bool) -> Expression:
        """The API function with this number in its layer."""
        value = number * _LAYERS + self.call_id(0, layer)
        return sa.case((number.between(0, HIGHEST_CALL), value)) if careful else value

    def call_id(self, number: int, layer: int) -> int:
        """The same for a known number."""
        return 2 * self.base + _LAYERS * number + layer

    def overhead(self, kind: Expression) -> Expression:
        """What kind of overhead it was; NULL for a kind that is not known."""
        return sa.case({known: self.overhead_id(known) for known in OVERHEADS}, value=kind)

    def overhead_id(self, kind: int) -> int:
        """The same for one kind."""
        return self.call_id(HIGHEST_CALL + 1, 0) + list(OVERHEADS).index(kind)

    def construct_id(self, place: int) -> int:
        """The construct of OpenACC or OpenMP at this place of the list of all."""
        return self.call_id(HIGHEST_CALL + 1, 0) + len(OVERHEADS) + place
