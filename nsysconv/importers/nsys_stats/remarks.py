"""What is told of tables in notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nsysconv.facts import Fact
from nsysconv.importers.nsys_stats.totals import TOTALS, Totals
from nsysconv.importers.printed import remarks as printed
from nsysconv.importers.printed.text import RejectedLines
from nsysconv.notes import Note, Severity

if TYPE_CHECKING:
    from nsysconv.importers.nsys_stats.gathered import NsysIds
    from nsysconv.importers.nsys_stats.trace import NsysTraceRows

_NAMED = frozenset({Fact.KERNELS, Fact.KERNEL_TOTALS, Fact.RANGE_TOTALS, Fact.DIRECTIVE_TOTALS})


def on_traces(found: NsysTraceRows) -> Iterator[Note]:
    """What the rows of traces tell."""
    yield from printed.on_traces(found.tally)
    if found.unowned:
        text = (
            "the trace of the GPU names no process; the only one of the trace of calls was assumed"
        )
        yield Note(
            "process-assumed", Severity.APPROXIMATED, text, found.unowned, "", printed.EVENTS
        )


def on_totals(found: Totals) -> Iterator[Note]:
    """What the tables of totals tell."""
    yield from printed.rounded_times(found.times)
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
    yield from printed.incomplete(found.missing)
    for table in found.repeated:
        yield not_read(f"{table.value}, which another table of this file tells in full,", 1)
    if found.rows:
        yield Note(
            "processes-merged",
            Severity.INFO,
            "the tables add up over all processes and devices of the recording",
            1,
            "",
            TOTALS,
        )


def starts_cut(rows: int) -> Note:
    """Rows of traces whose starts are whole seconds."""
    text = (
        "starts in a trace were cut to whole seconds: of its rows only totals were made; "
        "nsys stats -f csv prints them in full"
    )
    return Note("decimals-cut", Severity.DROPPED, text, rows, "", printed.EVENTS | TOTALS)


def _on_cells(found: Totals) -> Iterator[Note]:
    """Cells and lines that are not what they should be."""
    if found.cut:
        text = (
            "decimals were cut: numbers may be up to one of their unit more than is printed; "
            "nsys stats -f csv prints them in full"
        )
        yield Note(
            "decimals-cut",
            Severity.APPROXIMATED,
            text,
            len(found.cut),
            f"line {found.cut[0]}",
            frozenset(found.cut_facts),
        )
    if found.no_numbers:
        yield no_numbers(len(found.no_numbers), found.no_numbers[0], TOTALS)
    if found.disagreeing:
        yield Note(
            "tables-disagree",
            Severity.DROPPED,
            "sizes of operations of which another table tells another number were left out",
            len(found.disagreeing),
            f"line {found.disagreeing[0]}",
            TOTALS,
        )
    if found.ambiguous:
        yield ambiguous(len(found.ambiguous), found.ambiguous[0], TOTALS)
    if found.unread:
        yield printed.unread(len(found.unread), found.unread[0])


def on_names(found: NsysIds) -> Iterator[Note]:
    """What names and words tell."""
    if found.shortened:
        text = "names were cut in the text, those that begin alike become one; CSV has whole names"
        facts = _NAMED
        yield Note("names-shortened", Severity.INFO, text, len(found.shortened), "", facts)
    if found.symbols_only:
        text = "the tables spell symbols of kernels, and no demangler is installed"
        facts = frozenset({Fact.KERNELS, Fact.KERNEL_TOTALS})
        yield Note("symbols-only", Severity.INFO, text, found.symbols_only, "", facts)
    if found.unknown_directions:
        text = "directions of copies that are not known are shown as Unknown"
        facts = printed.SIZES | {Fact.MEMORY_TOTALS, Fact.UNIFIED_MEMORY_TOTALS}
        yield Note("unknown-code", Severity.INFO, text, found.unknown_directions, "", facts)


def ambiguous(count: int, line: int, facts: frozenset[Fact] = printed.EVENTS) -> Note:
    """Numbers with a sign that may mark decimals or thousands."""
    text = (
        "cells were left out of which nothing tells whether their sign marks decimals or thousands"
    )
    return Note("number-ambiguous", Severity.DROPPED, text, count, f"line {line}", facts)


def no_numbers(count: int, line: int, facts: frozenset[Fact] = printed.EVENTS) -> Note:
    """Cells where numbers should stand."""
    return Note(
        "cell-unreadable",
        Severity.DROPPED,
        "cells that are no numbers",
        count,
        f"line {line}",
        facts,
    )


def foreign(lines: RejectedLines) -> Note:
    """Lines between the rows of tables."""
    text = "lines between the rows of tables that are none of theirs were passed over"
    return Note("foreign-lines", Severity.INFO, text, lines.count, f"line {lines.first}")


def not_read(what: str, count: int) -> Note:
    """A table that has no place."""
    return Note("rows-not-read", Severity.INFO, f"the table {what} was not read", count)
