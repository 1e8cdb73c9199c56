"""The colors of the page: a class of time has the same in every picture, and nothing else has it.

The colors themselves are the style sheet's. Those of classes can be distinguished in light, dark and
print, also by people who do not see red, green or blue (tests/test_page_colors.py); idle time is
hatched besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

from nsysconv.codes import TIME_CLASS_COLUMNS, TIME_CLASSES

OUTSIDE = "outside"
"""The class of the style sheet for time in which nothing is said to have happened: an empty box."""

COLOURS = {name: OUTSIDE if name in ("before", "after") else name for name in TIME_CLASSES}
"""The class of the style sheet that colors each class of time: its name, also that of the color."""

_SERIES = tuple(f"s{number}" for number in range(9))
_GREY = "s7"

_SIDES = {"before": "was", "after": "now"}
"""The classes of the style sheet that color the sides of a comparison."""

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
    "bytes_sum": COLOURS["memcpy"],
    "api_sum_ns": _GREY,
    "runtime_ns": _GREY,
    "idle_ns": OUTSIDE,
}


def class_words(column: str) -> str | None:
    """Return the word of the class of time that a column is of; None for other columns."""
    name = _CLASS_OF_COLUMN.get(column)
    return None if name is None else TIME_CLASSES[name].partition(":")[0]


def colors_of(columns: Sequence[str]) -> list[str]:
    """Return a color for each column: of its side or class of time, else a muted one."""
    fixed = [_SIDES.get(column.partition("_")[0]) or _BY_COLUMN.get(column) for column in columns]
    free = cycle([each for each in _SERIES if each not in (*fixed, _GREY)])
    return [next(free) if color is None else color for color in fixed]
