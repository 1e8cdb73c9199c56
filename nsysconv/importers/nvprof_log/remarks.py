"""What is told of a log in notes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity

if TYPE_CHECKING:
    from nsysconv.importers.nvprof_log.counters import Counters
    from nsysconv.importers.nvprof_log.totals import Totals
    from nsysconv.importers.nvprof_log.trace import TraceRows

_EVENTS = frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY, Fact.API_CALLS})
_SIZES = frozenset({Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY})
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


def on_traces(found: TraceRows) -> Iterator[Note]:
    """What the rows of traces tell."""
    for what, (slug, severity, text) in _COUNTED.items():
        if found.counts[what]:
            yield Note(slug, severity, text, found.counts[what], "", _EVENTS)
    if found.time_step > 1 and found.time_rows:
        yield Note(
            "rounded-times",
            Severity.APPROXIMATED,
            f"times are spelled in steps of {found.time_step:,.0f} ns",
            found.time_rows,
            "",
            _EVENTS,
        )
    if found.rounded:
        yield Note(
            "rounded-bytes",
            Severity.APPROXIMATED,
            f"bytes of copies are known to {found.bytes_step:,.0f} bytes at the worst",
            found.rounded,
            "",
            _SIZES,
        )


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
    if found.sizes.count:
        yield Note(
            "rounded-bytes",
            Severity.APPROXIMATED,
            f"bytes of migrations are known to {float(found.sizes.step):,.0f} bytes at the worst",
            found.sizes.count,
            "",
            frozenset({Fact.UNIFIED_MEMORY_TOTALS}),
        )
    for kind, count in found.unknown_types.items():
        text = f"totals of the unknown type {kind!r} were left out"
        yield Note("category-unknown", Severity.DROPPED, text, count)
    if found.missing:
        yield Note(
            "totals-incomplete",
            Severity.DROPPED,
            "the shares of a table's rows do not add up to 100 %: rows of it are missing",
            len(found.missing),
            f"line {found.missing[0]}",
        )
    if found.unread:
        yield unread(len(found.unread), found.unread[0])


def on_counters(found: Counters) -> Iterator[Note]:
    """What the tables of metrics and events tell."""
    facts = frozenset({Fact.METRICS})
    if found.unread:
        yield unread(len(found.unread), found.unread[0], facts)
    if found.overflows:
        text = "values that the counters could not hold are not recorded"
        yield Note("counter-overflow", Severity.DROPPED, text, found.overflows, "", facts)


def unread(count: int, line: int, facts: frozenset[Fact] = frozenset()) -> Note:
    """Lines in a table that are no rows of it."""
    text = "lines inside a table that are no rows of it were left out"
    return Note("line-unreadable", Severity.DROPPED, text, count, f"line {line}", facts)


def truncated(line: int) -> Note:
    """The log ends in the middle of a row."""
    text = f"the log ends in the middle of a row, in line {line:,}"
    return Note("trace-truncated", Severity.DROPPED, text, 1, f"line {line}")


def not_read(what: str, count: int) -> Note:
    """A table that has no place yet."""
    text = f"{what} has no table in a store yet and was not read"
    return Note("rows-not-read", Severity.INFO, text, count)


def symbols_only(count: int) -> Note:
    """Kernels without demangled names."""
    text = "the log spells symbols of kernels, and no demangler is installed"
    return Note("symbols-only", Severity.INFO, text, count, "", frozenset({Fact.KERNELS}))


def joined_runs(pids: set[int]) -> Note:
    """Files of different runs were joined."""
    listed = ", ".join(map(str, sorted(pids)))
    text = (
        f"the joined files are of several runs (processes {listed}): links hold only as far as the "
        "runs made the same calls in the same order"
    )
    return Note("joined-runs", Severity.APPROXIMATED, text, 1, "", frozenset({Fact.API_LINKS}))


def no_process() -> Note:
    """A log without a banner."""
    return Note("process-unnamed", Severity.INFO, "the log does not say which process it is of")
