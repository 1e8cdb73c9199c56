"""What is told of a log in notes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from nsysconv.facts import Fact
from nsysconv.importers.printed import remarks as printed
from nsysconv.notes import Note, Severity

if TYPE_CHECKING:
    from nsysconv.importers.nvprof_log.counters import Counters
    from nsysconv.importers.nvprof_log.totals import Totals


def on_totals(found: Totals) -> Iterator[Note]:
    """What the tables of totals tell."""
    yield from printed.rounded_times(found.times)
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
    yield from printed.incomplete(found.missing)
    if found.unread:
        yield printed.unread(len(found.unread), found.unread[0])


def on_counters(found: Counters) -> Iterator[Note]:
    """What the tables of metrics and events tell."""
    facts = frozenset({Fact.METRICS})
    if found.unread:
        yield printed.unread(len(found.unread), found.unread[0], facts)
    if found.overflows:
        text = "values that the counters could not hold are not recorded"
        yield Note("counter-overflow", Severity.DROPPED, text, found.overflows, "", facts)


def not_read(what: str, count: int) -> Note:
    """A table that has no place yet."""
    text = f"{what} has no table in a store yet and was not read"
    return Note("rows-not-read", Severity.INFO, text, count)


def nsys_tables(tables: Mapping[str, int]) -> Note:
    """Tables of another profiler in the same file."""
    text = f"tables of nsys stats in the same file were left out: {', '.join(tables)}"
    return Note("mixed-output", Severity.DROPPED, text, sum(tables.values()))


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


def no_units(count: int, line: int) -> Note:
    """A trace whose row of units is missing or damaged."""
    text = "a table's row of units is missing: its times were taken as nanoseconds"
    return Note(
        "number-ambiguous", Severity.APPROXIMATED, text, count, f"line {line}", printed.EVENTS
    )


def no_process() -> Note:
    """A log without a banner."""
    return Note("process-unnamed", Severity.INFO, "the log does not say which process it is of")
