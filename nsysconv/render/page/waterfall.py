"""The waterfall of a change: from the time before, part by part of its account, to the time after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nsysconv.render.page.markup import amount, escape
from nsysconv.report import Unit

Part = tuple[str, int, int]
"""What it is, from which time to which."""

_MOST_PARTS = 8
_MINOR = "minor"
_REST = "all other parts"
_CUT_ABOVE = 0.8
"""An axis begins at 0, or where all that is drawn lies above such a share, later: and says so."""


def falls(rows: Sequence[Mapping[str, Any]]) -> list[Part]:
    """Return the parts of a device's account with a change; the last ends at the time after.

    The first row is all of the time. Minor parts and those without room are one.
    """
    whole, *parts = rows
    named = [part for part in parts if part["change_ns"] and part["weight"] != _MINOR][:_MOST_PARTS]
    at, found = whole["before_ns"], []
    for part in named:
        found.append((part["part"], at, at + part["change_ns"]))
        at += part["change_ns"]
    if at != whole["after_ns"]:
        found.append((_REST, at, whole["after_ns"]))
    return found


def waterfall(rows: Sequence[Mapping[str, Any]], where: str) -> Iterator[str]:
    """Yield the waterfall of a device's account, whose columns are those of the report, as a figure."""
    before, after, found = rows[0]["before_ns"], rows[0]["after_ns"], falls(rows)
    edges = [before, after, *(time for _, *times in found for time in times)]
    top = max(edges)
    low = min(edges) - (top - min(edges)) if min(edges) > _CUT_ABOVE * top else 0
    low = max(low, 0)
    cut = f"; the axis begins at {amount(low, Unit.NS)}" if low else ""
    title = f"{rows[0]['part']}{where}: what the change consists of{cut}"
    yield f'<figure class="fall"><figcaption>{escape(title)}</figcaption><ol>'
    ends = (("before", before, "was"), ("after", after, "now"))
    lines = [(words, low, time, color, amount(time, Unit.NS)) for words, time, color in ends]
    lines[1:1] = [
        (part, start, end, "less" if end < start else "more", signed(end - start))
        for part, start, end in found
    ]
    for words, start, end, color, value in lines:
        left, wide = (
            100 * time / max(top - low, 1) for time in (min(start, end) - low, abs(end - start))
        )
        torn = " torn" if low and color in ("was", "now") else ""
        yield (
            f'<li><span class="lb" title="{escape(words)}">{escape(words)}</span>'
            f'<span class="tr" role="img" aria-label="{escape(f"{words}: {value}")}">'
            f'<i class="{color}{torn}" style="margin-left:{left:.2f}%;width:{wide:.2f}%"></i></span>'
            f'<span class="vl">{value}</span>'
        )
    yield "</ol></figure>"


def signed(ns: int) -> str:
    """Return a change of time with its sign."""
    return f"{'+' if ns > 0 else '−' if ns < 0 else ''}{amount(abs(ns), Unit.NS)}"
