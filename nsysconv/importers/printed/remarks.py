"""What is told of printed tables in notes, whoever printed them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nsysconv.facts import Fact
from nsysconv.importers.printed.quantities import RoundedSums
from nsysconv.importers.printed.text import RejectedLines
from nsysconv.importers.printed.trace import TraceTally
from nsysconv.notes import Note, Severity

EVENTS = frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY, Fact.API_CALLS})
"""Rows of traces."""
SIZES = frozenset({Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY})
"""Those with bytes."""
# What the rows of traces count -> slug, severity, text.
_COUNTED = {
    "no time": ("wrong-type", Severity.DROPPED, "rows whose time is no number were left out"),
    "impossible time": (
        "impossible-time",
        Severity.DROPPED,
        "rows with impossible times were left out",
    ),
    "negative duration": (
        "negative-duration",
        Severity.DROPPED,
        "rows that end before they start were left out",
    ),
    "unknown operation": (
        "category-unknown",
        Severity.DROPPED,
        "rows of GPU work of an unknown kind were left out",
    ),
    "unknown direction": (
        "unknown-code",
        Severity.INFO,
        "directions of copies that are not known are shown as Unknown",
    ),
    "unknown memory": (
        "unknown-code",
        Severity.INFO,
        "kinds of memory that are not known are shown as Unknown",
    ),
    "fault": (
        "rows-not-read",
        Severity.INFO,
        "page faults and the like on unified memory are no GPU work and were not read",
    ),
}


def on_traces(found: TraceTally) -> Iterator[Note]:
    """What the rows of traces tell."""
    for what, (slug, severity, text) in _COUNTED.items():
        if found.counts[what]:
            yield Note(slug, severity, text, found.counts[what], "", EVENTS)
    if found.time_step > 1 and found.time_rows:
        text = f"times are spelled in steps of {found.time_step:,.0f} ns"
        yield Note("rounded-times", Severity.APPROXIMATED, text, found.time_rows, "", EVENTS)
    if found.rounded:
        text = f"bytes of copies are known to {found.bytes_step:,.0f} bytes at the worst"
        yield Note("rounded-bytes", Severity.APPROXIMATED, text, found.rounded, "", SIZES)


def rounded_times(times: Mapping[Fact, RoundedSums]) -> Iterator[Note]:
    """How exactly totals of time are known."""
    for fact, rounding in times.items():
        if rounding.count:
            yield Note(
                "rounded-times",
                Severity.APPROXIMATED,
                f"{fact.label}: sums of time are known to {float(rounding.step):,.0f} ns at the worst",
                rounding.count,
                "",
                frozenset({fact}),
            )


def incomplete(lines: Sequence[int]) -> Iterator[Note]:
    """Tables whose rows are not all there, by the lines of their headers."""
    if lines:
        yield Note(
            "totals-incomplete",
            Severity.DROPPED,
            "the shares of a table's rows do not add up to 100 %: rows of it are missing",
            len(lines),
            f"line {lines[0]}",
        )


def unread(count: int, line: int, facts: frozenset[Fact] = frozenset()) -> Note:
    """Lines in a table that are no rows of it."""
    text = "lines inside a table that are no rows of it were left out"
    return Note("line-unreadable", Severity.DROPPED, text, count, f"line {line}", facts)


def truncated(line: int) -> Note:
    """The file ends in the middle of a row."""
    text = f"the file ends in the middle of a row, in line {line:,}"
    return Note("trace-truncated", Severity.DROPPED, text, 1, f"line {line}")


def on_refused(found: RejectedLines, unfinished: int | None) -> Iterator[Note]:
    """What lines of a trace that are no rows tell: of the file's end, or of what stands in between.

    `unfinished`: the number of the file's last line, where that has no end.
    """
    count = found.count
    if count and found.last == unfinished:
        yield truncated(found.last)
        count -= 1
    if count:
        yield unread(count, found.first)
