"""Names and their ids: texts of the database's string table, and names that are made from its rows.

The ids of made names must not be ids that a row of the file may refer to. Below `base` are the file's
own ids; one `base` higher is a symbol's demangled form; above both are API functions, kinds of overhead,
and constructs of OpenACC and OpenMP.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import (
    Expression,
    as_whole_number,
    texts_by_id,
    whole_number_sql,
)
from nsysconv.names import plain_api_name

Row = dict[str, Any]

MAX_TEXT_ID = (1 << 31) - 1
"""No string table is that long: higher ids are damage."""
MAX_CALL = (1 << 14) - 1
"""The same for the numbers of API functions."""
LAYERS = ("runtime", "driver")

OVERHEADS = {
    0: "Unknown overhead",
    1: "Driver compiler",
    1 << 16: "Buffer flush",
    2 << 16: "Instrumentation",
    3 << 16: "Resource",
}
"""Names of kinds of overhead."""


@dataclass(frozen=True)
class NameIds:
    """The ids of names; `base` is higher than every id of a text.

    `demangles`: kernels have a demangled name, too.
    """

    base: int
    demangles: bool

    def text(self, text_id: Expression, *, careful: bool) -> Expression:
        """Return a text of the file; id 0 is no text and, if `careful`, neither are impossible ids."""
        if careful:
            return sa.case((text_id.between(1, self.base - 1), text_id))
        return sa.func.nullif(text_id, 0)

    def call(self, number: Expression, layer: int, *, careful: bool) -> Expression:
        """Return the API function with this number in its layer."""
        value = number * len(LAYERS) + self.call_id(0, layer)
        return sa.case((number.between(0, MAX_CALL), value)) if careful else value

    def call_id(self, number: int, layer: int) -> int:
        """Return the id of an API function."""
        return 2 * self.base + len(LAYERS) * number + layer

    def overhead(self, kind: Expression) -> Expression:
        """Return the kind of overhead; NULL for a kind that is not known."""
        return sa.case({known: self.overhead_id(known) for known in OVERHEADS}, value=kind)

    def overhead_id(self, kind: int) -> int:
        """Return the id of a known kind of overhead."""
        return self.call_id(MAX_CALL + 1, 0) + list(OVERHEADS).index(kind)

    def construct_id(self, place: int) -> int:
        """Return the id of the construct at this place of the list of all."""
        return self.call_id(MAX_CALL + 1, 0) + len(OVERHEADS) + place


def assign_ids(probe: Probe, used: Iterable[int], *, demangles: bool) -> NameIds:
    """Return ids for made names, above those of the string table and the `used` ones of rows."""
    number = whole_number_sql("_id_")
    found = f"SELECT max({number}) FROM StringTable WHERE {number} <= {MAX_TEXT_ID}"
    highest = probe.select(found)[0][0]
    return NameIds(max([highest or 0, 0, *used]) + 1, demangles)


# -- API functions


def call_name(layer: int, number: int) -> str:
    """Return the symbol of an API function, or its number in brackets if it is not known."""
    return function_name(layer, number) or f"[{LAYERS[layer]} call {number}]"


def function_name(layer: int, number: int) -> str | None:
    """Return the function that CUPTI's number means in a layer, or None if it is not known."""
    return _function_names().get((LAYERS[layer], number))


@cache
def _function_names() -> dict[tuple[str, int], str]:
    # Written by scripts/make_cbid_names.py.
    text = Path(__file__).with_name("cbid_names.tsv").read_text(encoding="utf-8")
    rows = (line.split("\t") for line in text.splitlines() if not line.startswith("#"))
    return {(layer, int(number)): name for layer, number, name in rows}


# -- rows of names


def made_name_rows(
    calls: Iterable[tuple[int, int]], overhead_kinds: Collection[int], ids: NameIds
) -> list[Row]:
    """Return the names of API functions, each given as layer and number, and of kinds of overhead."""
    rows = []
    for layer, number in sorted(calls):
        symbol = call_name(layer, number)
        plain = symbol if symbol.startswith("[") else plain_api_name(symbol)
        rows.append({"id": ids.call_id(number, layer), "text": symbol, "plain": plain})
    rows += [
        {"id": ids.overhead_id(kind), "text": text, "plain": None}
        for kind, text in OVERHEADS.items()
        if kind in overhead_kinds
    ]
    return rows


def texts(probe: Probe, ids: Iterable[int]) -> dict[int, str]:
    """Return the texts of a few ids of the string table."""
    return texts_by_id(probe, "StringTable", "_id_", ids)


def file_name_rows(
    probe: Probe,
    symbol_ids: set[int],
    ids: NameIds,
    demangled: Callable[[str], str] | None,
    missing: set[int],
) -> Iterator[Row]:
    """Yield the texts of the ids in `missing`; ids without a text stay there.

    Symbols get a second name, their demangled form.
    """
    for cell, text in probe.iterate("SELECT _id_, value FROM StringTable"):
        text_id = as_whole_number(cell)
        if text_id is None or text_id not in missing or not isinstance(text, str):
            continue
        missing.discard(text_id)
        yield {"id": text_id, "text": text, "plain": None}
        if demangled is not None and text_id in symbol_ids:
            yield {"id": text_id + ids.base, "text": demangled(text), "plain": None}
    if demangled is not None:
        # Shown by the number that the file has.
        for lost in sorted(missing & symbol_ids):
            yield {"id": lost + ids.base, "text": f"[name {lost}]", "plain": None}
