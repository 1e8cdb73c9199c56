"""Sums by name of kernels, memory operations and API calls, for the tables that hold several of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.queries.contract import Request
from nsysconv.queries.stats.api_calls import call_sums
from nsysconv.queries.stats.kernels import kernel_names
from nsysconv.queries.stats.memory_ops import KINDS, memory_ops, name_of
from nsysconv.queries.stats.summary import Sum, sums, times_of_totals
from nsysconv.report import Column, Printed
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import KERNEL, totals
from nsysconv.units import Unit

CATEGORY = Column(
    "category",
    Unit.TEXT,
    "CUDA_API, CUDA_KERNEL or MEMORY_OPER.",
    key=True,
    printed=Printed("Category"),
)
OPERATION = Column(
    "operation",
    Unit.TEXT,
    "The function, the kernel or what the memory operation does.",
    key=True,
    printed=Printed("Operation"),
)

# What beside calls stands in one table: events, and the totals that answer for them.
_RECORDED = (
    ("kernels", Fact.KERNELS, Fact.KERNEL_TOTALS),
    ("memory operations", Fact.MEMCPYS, Fact.MEMORY_TOTALS),
)


def partial(timeline: Timeline) -> tuple[Note, ...]:
    """The note that kernels or memory operations are missing, where they are not recorded."""
    facts = timeline.profile.facts
    missing = [
        what
        for what, events, summed in _RECORDED
        if events not in facts and not (summed in facts and timeline.is_whole)
    ]
    if not missing:
        return ()
    text = f"{' and '.join(missing)} are not recorded: no row is of them"
    return (Note("activities-partial", Severity.INFO, text),)


def of_kernels(timeline: Timeline, request: Request) -> list[Sum]:
    """One sum per kernel name; of totals where no events are recorded, which know no other names."""
    if Fact.KERNELS not in timeline.profile.facts:
        found = totals(timeline, KERNEL)
        return times_of_totals(found, lambda total: total.name, lambda name: (name,))
    names = kernel_names(timeline, request)
    dur = timeline.columns("kernel", ("dur_ns",))["dur_ns"]
    return sums(names.number, dur, [(text,) for text in names.texts])


def of_memory_ops(timeline: Timeline) -> list[Sum]:
    """One sum per kind of memory operation."""
    if Fact.MEMCPYS not in timeline.profile.facts:
        return times_of_totals(totals(timeline, *KINDS), name_of, lambda name: (name,))
    ops = memory_ops(timeline)
    return sums(ops.name, ops.dur, [(name,) for name in ops.names])


def api_sums(timeline: Timeline) -> list[Sum]:
    """Those of API calls, with their category."""
    return _as("CUDA_API", call_sums(timeline))


def kernel_sums(timeline: Timeline, request: Request) -> list[Sum]:
    """Those of kernels, with their category."""
    return _as("CUDA_KERNEL", of_kernels(timeline, request))


def memory_sums(timeline: Timeline) -> list[Sum]:
    """Those of memory operations, with their category."""
    return _as("MEMORY_OPER", of_memory_ops(timeline))


def _as(category: str, rows: Iterable[Sum]) -> list[Sum]:
    return [replace(row, labels=(category, *row.labels)) for row in rows]
