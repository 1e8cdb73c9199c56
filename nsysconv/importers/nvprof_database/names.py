"""The texts of names: ranges and kernels from the file, API functions and overhead from our own lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from nsysconv.importers.nvprof_database import name_ids, tables
from nsysconv.importers.nvprof_database.cbid_names import function_name
from nsysconv.importers.nvprof_database.name_ids import NameIds
from nsysconv.importers.nvprof_database.survey import Found
from nsysconv.importers.probe import Probe
from nsysconv.names import plain_api_name

Row = dict[str, Any]

_AT_ONCE = 50_000


def numbering(probe: Probe, found: Found, *, demangles: bool) -> NameIds:
    """Numbers for what we name ourselves, above all that the file's rows can refer to."""
    highest = probe.select(
        f"SELECT max(_id_) FROM StringTable WHERE _id_ <= {name_ids.HIGHEST_TEXT}"
    )[0][0]
    return NameIds(max([highest or 0, 0, *found.symbol_ids, *found.text_ids]) + 1, demangles)


def call_name(layer: int, number: int) -> str:
    """What an API function is called: its symbol, or its number in brackets where it has no known one."""
    words = ("runtime", "driver")
    return function_name(layer, number) or f"[{words[layer]} call {number}]"


def made_up(found: Found, ids: NameIds) -> list[Row]:
    """Names of API functions and of kinds of overhead."""
    rows = []
    for layer, number in sorted(found.calls):
        symbol = call_name(layer, number)
        plain = symbol if symbol.startswith("[") else plain_api_name(symbol)
        rows.append({"id": ids.call_id(number, layer), "text": symbol, "plain": plain})
    kinds = {code for table, _, code in found.codes if table == tables.OVERHEAD}
    rows += [
        {"id": ids.overhead_id(kind), "text": text, "plain": None}
        for kind, text in name_ids.OVERHEADS.items()
        if kind in kinds
    ]
    return rows


def of_file(
    probe: Probe,
    found: Found,
    ids: NameIds,
    demangled: Callable[[str], str] | None,
    missing: set[int],
) -> Iterator[list[Row]]:
    """Names that stand in the file, in pieces of bounded size; `missing` gets the ids without text."""
    missing.update(found.symbol_ids | found.text_ids)
    rows: list[Row] = []
    for text_id, text in probe.iterate("SELECT _id_, value FROM StringTable"):
        if text_id not in missing or not isinstance(text, str):
            continue
        missing.discard(text_id)
        rows.append({"id": text_id, "text": text, "plain": None})
        if demangled is not None and text_id in found.symbol_ids:
            rows.append({"id": text_id + ids.base, "text": demangled(text), "plain": None})
        if len(rows) >= _AT_ONCE:
            yield rows
            rows = []
    if demangled is not None:
        # Shown by the number that the file has.
        lost = sorted(missing & found.symbol_ids)
        rows += [{"id": i + ids.base, "text": f"[name {i}]", "plain": None} for i in lost]
    if rows:
        yield rows
