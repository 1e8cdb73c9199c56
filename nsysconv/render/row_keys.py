"""The key of a row: a text by which it is found again in another recording of the same program.

`rank=3 | device_id=0 | name=saxpy(int, float*)`: the key columns that have a value, in their order, but
for those that every recording gives anew. No two rows of a report have the same key: the second of them
ends with ` #2`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from nsysconv.names import escaped
from nsysconv.render.display import exact, name_without_unit
from nsysconv.report import Column, Unit, Value

SEPARATOR = " | "

Row = tuple[Value, ...]

# Key columns whose values are new in each recording: which one it is, what the system and the store
# numbered in it, when something was, and where in memory.
_OF_A_RECORDING = frozenset(
    (
        *("profile", "pid", "tid"),
        *("memcpy_id", "memset_id", "call_id"),
        *("start_ns", "dur_ns", "api_start_ns"),
        *("address", "instruction"),
    )
)
# In a text, such as a Python function's: `<built-in method run of type object at 0x7f1f0f2c0ec0>`.
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{8,16}\b")
# A stream is called 7@4711 where several processes have one on its device.
_PROCESS = re.compile(r"@[0-9]+$")
# In a value one more of them, so that only the separator is a single one.
_LIKE_SEPARATOR = re.compile(r"(?<= )\|+(?= |$)")
_NUMBER = re.compile(r" #[0-9]+$")

# Listings of events have millions of rows of few keys: so many of these are spelled only once.
_KNOWN = 4096


def row_keys(columns: Sequence[Column]) -> Callable[[Row], str]:
    """Return the function that makes the key of a row. Call it once for each row of a report, in order.

    Without key columns the keys are `#1`, `#2` and so on. It keeps a hundred bytes for each different
    key, only the first few thousand keys themselves, and nothing for a row that has the key of another.
    """
    picked = [place for place, column in enumerate(columns) if is_of_key(column)]
    spell = _row_speller([columns[place] for place in picked])
    known: dict[Row, str] = {}
    counts: dict[int, int] = {}

    def key_of(row: Row) -> str:
        cells = tuple([row[place] for place in picked])
        key = known.get(cells)
        if key is None:
            key = spell(cells)
            if len(known) < _KNOWN:
                known[cells] = key
        # Two texts with one hash, which hardly ever happens, get different keys all the same.
        counted = hash(key)
        counts[counted] = number = counts.get(counted, 0) + 1
        if number == 1 and key and not _is_like_second(key):
            return key
        return f"{key} #{number}" if key else f"#{number}"

    return key_of


def is_of_key(column: Column) -> bool:
    """Return whether a column belongs to the keys of rows."""
    return column.key and column.name not in _OF_A_RECORDING


def _row_speller(columns: Sequence[Column]) -> Callable[[Row], str]:
    spellers = [(f"{name_without_unit(column)}=", _speller(column)) for column in columns]

    def spell(cells: Row) -> str:
        parts = [
            start + spelled(cell)
            for (start, spelled), cell in zip(spellers, cells, strict=True)
            if cell is not None
        ]
        return SEPARATOR.join(parts)

    return spell


def _is_like_second(key: str) -> bool:
    # A name that ends as the key of a second row does gets a number in the first, too.
    return " #" in key and _NUMBER.search(key) is not None


def _speller(column: Column) -> Callable[[Value], str]:
    if column.name == "stream":
        return lambda value: _text(_PROCESS.sub("", str(value)))
    if column.kind == "text":
        return _text
    if column.unit is Unit.ID:
        return str
    return lambda value: exact(value, column.unit) if isinstance(value, int) else str(value)


def _text(value: Value) -> str:
    text = str(value)
    # A million names are not searched for patterns that hardly any of them has.
    if not text.isprintable():
        text = escaped(text)
    if "0x" in text:
        text = _ADDRESS.sub("0x…", text)
    return _LIKE_SEPARATOR.sub(r"\g<0>|", text) if "|" in text else text
