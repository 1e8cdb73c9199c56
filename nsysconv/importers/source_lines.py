"""Rows of source lines, which profilers of Python programs write, and the names in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nsysconv import schema
from nsysconv.facts import Fact
from nsysconv.names import public_path
from nsysconv.notes import Note, Severity
from nsysconv.store.recording import ArrowRows, rows_of

MOST = 1 << 53
"""Counts and times are below it."""
CPU_LINES = frozenset({Fact.CPU_LINES})

_LONGEST_NAME = 1000


class LineRows:
    """The rows of one recording; `left_out` are the places of lines that cannot be what they say."""

    def __init__(self) -> None:
        """Start without rows."""
        self.rows: list[dict[str, Any]] = []
        self.left_out: list[str] = []
        self._names: dict[str, int] = {}

    def add(self, file: str, line: object, function: str | None, place: str, **values: Any) -> None:
        """Add a line: `values` are further columns. A line, count or time out of range leaves it out."""
        numbers = [line, *(value for name, value in values.items() if name != "gpu_pct")]
        if not is_count(line) or not line or not all(n is None or is_count(n) for n in numbers):
            self.left_out.append(place)
            return
        self.rows.append({
            "id": len(self.rows) + 1, "line": line, "file_id": self._name(public_path(file)),
            "function_id": None if function is None else self._name(function), **values,
        })  # fmt: skip

    def batches(self) -> Iterator[ArrowRows]:
        """Yield the rows of lines and of names."""
        yield rows_of(schema.cpu_line, self.rows)
        yield rows_of(schema.name, [{"id": i, "text": text} for text, i in self._names.items()])

    def notes(self) -> Iterator[Note]:
        """Yield a note on lines that were left out."""
        if self.left_out:
            text = "source lines whose numbers cannot be read were left out"
            yield Note(
                "cell-unreadable",
                Severity.DROPPED,
                text,
                len(self.left_out),
                self.left_out[0],
                CPU_LINES,
            )

    def _name(self, text: str) -> int:
        text = text.encode("utf-8", "replace").decode()  # JSON may hold half a character
        return self._names.setdefault(text[:_LONGEST_NAME], len(self._names) + 1)


def is_count(value: object) -> bool:
    """Return whether a value is a whole number that a count or a time can be."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MOST
