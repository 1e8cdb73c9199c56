"""Who appears in one recording: names and devices, numbered as rows refer to them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from nsysconv.importers.printed.trace import Array, Columns, EncodedTexts, used_codes
from nsysconv.names import plain_api_name
from nsysconv.report import MISSING
from nsysconv.store.recording import ArrayRows

Row = dict[str, Any]

_INDEXED = re.compile(r"(.*?)\s*\((\d{1,6})\)$")
_API = re.compile(r"cu(?:da)?[A-Z]\w*$")
_DRIVER = re.compile(r"cu[A-Z]")


class IdRegistry:
    """Numbers of one recording. `demangled` turns symbols into names, None where nothing can.

    `rows` counts the rows of each event table, `end_ns` is the last end of one; `symbols_only` counts
    kernels that are known by their symbol alone.
    """

    def __init__(self, demangled: Callable[[str], str] | None) -> None:
        self.rows: Counter[str] = Counter()
        self.end_ns = 0
        self.symbols_only = 0
        self._demangled = demangled
        self._names: dict[str, int] = {}
        self._api_names: set[int] = set()
        self._devices: dict[str, int] = {}
        self._device_rows: dict[int, Row] = {}
        self._next_free: dict[int, int] = {}

    def name(self, text: str) -> int:
        """The number of a name."""
        return self._names.setdefault(text, len(self._names) + 1)

    def api_name(self, text: str) -> int:
        """The number of an API function's name."""
        number = self.name(text)
        self._api_names.add(number)
        return number

    def kernel(self, text: str) -> tuple[int, int | None]:
        """The numbers of a kernel's name and of its symbol, where the table spells that."""
        if not text.startswith("_Z"):
            return self.name(text), None
        if self._demangled is None:
            self.symbols_only += 1
            return self.name(text), self.name(text)
        return self.name(self._demangled(text)), self.name(text)

    def device(self, text: str) -> int:
        """The number of a device, `Tesla T4 (0)`; one without it gets the next free one."""
        if text not in self._devices:
            match = _INDEXED.match(text)
            name, ordinal = (match.group(1), int(match.group(2))) if match else (text, None)
            wanted = ordinal if ordinal is not None else 0
            number = self._next_free.get(wanted, wanted)
            while number in self._device_rows:
                number += 1
            self._next_free[wanted] = number + 1
            self._devices[text] = number
            self._device_rows[number] = {
                "device_id": number,
                "ordinal": ordinal,
                "name": name or None,
            }
        return self._devices[text]

    # -- columns and rows of tables

    def kernels(self, names: EncodedTexts, rows: Array) -> Columns:
        """The columns of names of these rows, which are kernels."""
        place = names.place[rows]
        name_of, symbol_of = np.full((2, len(names.known)), MISSING)
        for each in used_codes(place, len(names.known)):
            name, symbol = self.kernel(names.known[each])
            name_of[each], symbol_of[each] = name, MISSING if symbol is None else symbol
        columns = {"name_id": name_of[place]}
        if (symbol_of != MISSING).any():
            columns["mangled_name_id"] = symbol_of[place]
        return columns

    def batch(self, table: str, columns: Columns, done: str) -> ArrayRows:
        """Rows of an event table, which are counted here."""
        start, dur = columns["start_ns"], columns["dur_ns"]
        self.rows[table] += len(start)
        end = (start + np.where(dur == MISSING, 0, dur))[start != MISSING]
        self.end_ns = max(self.end_ns, int(end.max(initial=0)))
        return ArrayRows(table, columns, done)

    def device_rows(self) -> list[Row]:
        """The devices."""
        return [self._device_rows[number] for number in sorted(self._device_rows)]

    def name_rows(self) -> list[Row]:
        """The names."""
        return [
            {
                "id": number,
                "text": text,
                "plain": plain_api_name(text) if number in self._api_names else None,
            }
            for text, number in self._names.items()
        ]


def is_api_name(name: str) -> bool:
    """Whether a name is that of an API function."""
    return _API.match(name) is not None


def api_layer(name: str) -> int:
    """The code of codes.API_LAYERS for an API function: 0 the runtime's, 1 the driver's."""
    return 1 if _DRIVER.match(name) else 0
