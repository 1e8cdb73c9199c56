"""The colours of the page: a class of time has the same in every picture."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from nsysconv.codes import TIME_CLASS_COLUMNS, TIME_CLASSES

COLOURS = {
    "before": "outside",
    "computation": "s0",
    "communication": "s2",
    "memcpy": "s1",
    "memset": "s5",
    "migration": "s3",
    "idle_host": "s4",
    "idle_launch": "s8",
    "idle_queue": "s6",
    "idle_migration": "s9",
    "idle_profiler": "s10",
    "idle_unknown": "s7",
    "idle_end": "s11",
    "after": "outside",
}
"""The class of the style sheet that colours each class of time."""

_SERIES = tuple(f"s{number}" for number in range(9))
_GREY = "s7"

_CLASS_OF_COLUMN = {
    **{column: name for name, column in TIME_CLASS_COLUMNS.items()},
    # Parts of gaps, whose columns do not say that they are idle time.
    **{
        f"{name.removeprefix('idle_')}{suffix}": name
        for name in TIME_CLASSES
        if name.startswith("idle_")
        for suffix in ("_ns", "_sum_ns")
    },
}

_BY_COLUMN = {
    **{column: COLOURS[name] for column, name in _CLASS_OF_COLUMN.items()},
    # Classes of steps, and sums.
    **{f"{name}_ns": COLOURS[name] for name in ("communication", "memcpy", "memset")},
    "kernel_ns": COLOURS["computation"],
    "kernel_sum_ns": COLOURS["computation"],
    "api_sum_ns": _GREY,
    "runtime_ns": _GREY,
    "idle_ns": "outside",
}


def class_words(column: str) -> str | None:
    """Return the word of the class of time that a column is of; None for other columns."""
    name = _CLASS_OF_COLUMN.get(column)
    return None if name is None else TIME_CLASSES[name].partition(":")[0]


def colours_of(columns: Sequence[str]) -> list[str]:
    """Return a colour for each column: that of its class of time, else one that no other has."""
    fixed = [_BY_COLUMN.get(column) for column in columns]
    free = cycle([each for each in _SERIES if each not in fixed] or _SERIES)
    return [next(free) if colour is None else colour for colour in fixed]
