"""What is told of tables in notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity

if TYPE_CHECKING:
    from nsysconv.importers.nsys_stats.gathered import Gathered
    from nsysconv.importers.nsys_stats.totals import Totals
    from nsysconv.importers.nsys_stats.trace import TraceRows

_EVENTS = frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY, Fact.API_CALLS})
_SIZES = frozenset({Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY})
_TOTALS = frozenset(
    {
        Fact.GPU_TOTALS,
        Fact.API_TOTALS,
        Fact.UNIFIED_MEMORY_TOTALS,
        Fact.RANGE_TOTALS,
        Fact.DIRECTIVE_TOTALS,
    }
)
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
    "unknown memory": (
        "unknown-code",
        Severity.INFO,
        "kinds of memory that are not known are shown as Unknown",
    ),
}


def on_traces(found: TraceRows) -> Iterator[Note]:
    """What the rows of traces tell."""
    for what, (slug, severity, text) in _COUNTED.items():
        if found.counts[what]:
            yield Note(slug, severity, text, found.counts[what], "", _EVENTS)
    if found.time_step > 1 and found.time_rows:
        text = f"times are spelled in steps of {found.time_step:,.0f} ns"
        yield Note("rounded-times", Severity.APPROXIMATED, text, found.time_rows, "", _EVENTS)
    if found.rounded:
        text = f"bytes of copies are known to {found.bytes_step:,.0f} bytes at the worst"
        yield Note("rounded-bytes", Severity.APPROXIMATED, text, found.rounded, "", _SIZES)
    if found.unowned:
        text = (
            "the trace of the GPU names no process; the only one of the trace of calls was assumed"
        )
        yield Note("process-assumed", Severity.APPROXIMATED, text, found.unowned, "", _EVENTS)


def on_totals(found: Totals) -> Iterator[Note]:
    """What the tables of totals tell."""
    for fact, rounding in found.times.items():
        if rounding.count:
            yield Note(
                "rounded-times",
                Severity.APPROXIMATED,
                f"{fact.label}: sums of time are known to {float(rounding.step):,.0f} ns at the worst",
                rounding.count,
                "",
                frozenset({fact}),
            )
    for fact, rounding in found.sizes.items():
        if rounding.count:
            yield Note(
                "rounded-bytes",
                Severity.APPROXIMATED,
                f"{fact.label}: sums of bytes are known to {float(rounding.step):,.0f} bytes at the "
                "worst",
                rounding.count,
                "",
                frozenset({fact}),
            )
    yield from _on_cells(found)
    if found.missing:
        yield Note(
            "totals-incomplete",
            Severity.DROPPED,
            "the shares of a table's rows do not add up to 100 %: rows of it are missing",
            len(found.missing),
            f"line {found.missing[0]}",
        )
    for table in found.repeated:
        yield not_read(f"{table.value}, which another table of this file tells in full,", 1)
    if found.rows:
        yield Note(
            "processes-merged",
            Severity.INFO,
            "the tables add up over all processes and devices of the recording",
            1,
            "",
            _TOTALS,
        )


def _on_cells(found: Totals) -> Iterator[Note]:
    """Cells and lines that are not what they should be."""
    for lines, slug, severity, text in (
        (found.no_numbers, "cell-unreadable", Severity.DROPPED, "cells that are no numbers"),
        (
            found.disagreeing,
            "tables-disagree",
            Severity.DROPPED,
            "sizes of operations of which another table tells another number were left out",
        ),
    ):
        if lines:
            yield Note(slug, severity, text, len(lines), f"line {lines[0]}", _TOTALS)
    if found.guessed:
        yield guessed(len(found.guessed), found.guessed[0], _TOTALS)
    if found.unread:
        yield unread(len(found.unread), found.unread[0])


def on_names(found: Gathered) -> Iterator[Note]:
    """What names and words tell."""
    if found.shortened:
        text = "names were cut in the text, those that begin alike become one; CSV has whole names"
        facts = frozenset({Fact.GPU_TOTALS, Fact.RANGE_TOTALS, Fact.DIRECTIVE_TOTALS, Fact.KERNELS})
        yield Note("names-shortened", Severity.INFO, text, len(found.shortened), "", facts)
    if found.symbols_only:
        text = "the tables spell symbols of kernels, and no demangler is installed"
        facts = frozenset({Fact.KERNELS, Fact.GPU_TOTALS})
        yield Note("symbols-only", Severity.INFO, text, found.symbols_only, "", facts)
    if found.unknown_directions:
        text = "directions of copies that are not known are shown as Unknown"
        facts = _SIZES | {Fact.GPU_TOTALS, Fact.UNIFIED_MEMORY_TOTALS}
        yield Note("unknown-code", Severity.INFO, text, found.unknown_directions, "", facts)


def partial(lacking: Iterable[str]) -> Note:
    """Of GPU work only a part is told."""
    text = f"the file holds no totals of {' and '.join(lacking)}: none of them are in any report"
    facts = frozenset({Fact.GPU_TOTALS, Fact.UNIFIED_MEMORY_TOTALS})
    return Note("totals-partial", Severity.INFO, text, 1, "", facts)


def unread(count: int, line: int, facts: frozenset[Fact] = frozenset()) -> Note:
    """Lines in a table that are no rows of it."""
    text = "lines inside a table that are no rows of it were left out"
    return Note("line-unreadable", Severity.DROPPED, text, count, f"line {line}", facts)


def guessed(count: int, line: int, facts: frozenset[Fact] = _EVENTS) -> Note:
    """Numbers with a sign that may mark decimals or thousands."""
    text = "numbers whose only sign was taken for a decimal point"
    return Note("number-ambiguous", Severity.APPROXIMATED, text, count, f"line {line}", facts)


def truncated(line: int) -> Note:
    """The file ends in the middle of a row."""
    text = f"the file ends in the middle of a row, in line {line:,}"
    return Note("trace-truncated", Severity.DROPPED, text, 1, f"line {line}")


def not_read(what: str, count: int) -> Note:
    """A table that has no place."""
    return Note("rows-not-read", Severity.INFO, f"the table {what} was not read", count)
