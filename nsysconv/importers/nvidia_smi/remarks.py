"""What there is to say of a log, as notes."""

from __future__ import annotations

from collections.abc import Sequence

from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity

_METRICS = frozenset({Fact.METRICS})


def zone(name: str, *, told: bool) -> Note:
    """The log does not say in which zone its times are."""
    whose = "the zone that TZ names" if told else "this machine's zone"
    return Note(
        "time-zone-assumed",
        Severity.INFO if told else Severity.APPROXIMATED,
        f"the log's times of day were read as {name}, {whose}",
        facts=frozenset({Fact.UTC}),
    )


def no_date() -> Note:
    """Times of a day that nobody names."""
    return Note(
        "no-time-base",
        Severity.INFO,
        "times without a date (`nvidia-smi dmon -o DT` has both): distances hold, the day is not known",
        facts=frozenset({Fact.UTC}),
    )


def untimed(count: int) -> Note:
    """Rows that do not tell when."""
    return Note(
        "sample-without-time",
        Severity.INFO,
        "rows that do not tell when they were sampled: query `timestamp`, or use `nvidia-smi dmon -o DT`",
        count,
        facts=_METRICS,
    )


def of_some_gpu(count: int) -> Note:
    """Rows that do not tell of which GPU."""
    return Note(
        "sample-without-gpu",
        Severity.INFO,
        "rows that do not tell which GPU they are of: query `index` or `uuid`, too",
        count,
        facts=_METRICS,
    )


def not_numbers(columns: Sequence[str]) -> Note:
    """Columns that hold words."""
    return Note(
        "column-not-read",
        Severity.INFO,
        f"columns of words, of which no samples are made: {', '.join(columns)}",
        len(columns),
        facts=_METRICS,
    )


def odd_cells(count: int, where: str) -> Note:
    """Cells of a column of numbers that hold none."""
    return Note(
        "cell-unreadable",
        Severity.DROPPED,
        "cells that are neither a number nor what nvidia-smi writes for none",
        count,
        where,
        _METRICS,
    )


def no_rows(count: int, first: int) -> Note:
    """Lines that are no rows."""
    return Note(
        "line-unreadable",
        Severity.DROPPED,
        "lines that are no rows of the log",
        count,
        f"line {first}",
        _METRICS,
    )


def too_far(count: int, first: int) -> Note:
    """Rows so long after the first that no time line reaches there."""
    return Note(
        "impossible-time",
        Severity.DROPPED,
        "rows more than 104 days from the first one",
        count,
        f"line {first}",
        _METRICS,
    )


def cut_off(line: int) -> Note:
    """A last line that is not finished."""
    return Note(
        "trace-truncated",
        Severity.DROPPED,
        "the log ends within a line, which was left out",
        where=f"line {line}",
        facts=_METRICS,
    )
