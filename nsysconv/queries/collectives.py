"""Collectives of a run by operation and size: how long they moved data, and how fast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from nsysconv.notes import Note, Severity
from nsysconv.queries.columns import (
    count_column,
    duration_column,
    key_column,
    sum_column,
    values_by_column,
)
from nsysconv.queries.contract import OverRanks, Query, Request, Result
from nsysconv.queries.cycles import cycles_of
from nsysconv.queries.kernel_categories import RULES
from nsysconv.queries.stragglers import order_notes
from nsysconv.report import MISSING, Column, ProfileRef, Unit
from nsysconv.timeline.arrays import percent
from nsysconv.timeline.clock_offsets import time_of_day
from nsysconv.timeline.collective_groups import CollectiveGrouper
from nsysconv.timeline.collective_messages import Message, bus_factor
from nsysconv.timeline.collective_transfers import Transfers, transfers
from nsysconv.timeline.collectives import CollectiveCalls, UnmatchedKernels, collective_kernels
from nsysconv.timeline.timeline import Timeline

_OVER_RANKS = "null: no other rank recorded them"
COLUMNS = (
    key_column("operation", "Operation of the collective; point_to_point: send, receive, or both."),
    key_column("group", "Group of ranks; null: not recorded."),
    Column("group_size", Unit.COUNT, "Number of ranks in the group; null: not recorded.", key=True),
    key_column("dtype", "Data type of the elements; null: not recorded."),
    Column(
        "bytes",
        Unit.BYTES,
        "Size of one collective: the bytes contributed per rank, or the whole buffer if ranks "
        "hold parts of it; null: not recorded.",
        key=True,
    ),
    count_column(
        "collective_count",
        "Number of collectives, each counted once over all ranks; null: the kernels are unknown.",
    ),
    count_column("kernel_count", "Number of kernels over all ranks."),
    Column(
        "rank_count",
        Unit.COUNT,
        "Largest number of ranks, or devices of ranks, that recorded one of them.",
        distinct=True,
        brief=False,
    ),
    sum_column("kernel_sum_ns", "Sum of the kernels' durations.", "kernel_count"),
    duration_column(
        "transfer_sum_ns",
        f"Part of the kernel time after all ranks had arrived, or the minimum duration; {_OVER_RANKS}.",
        adds=True,
    ),
    duration_column(
        "wait_sum_ns",
        f"Rest of the kernel time: how long ranks waited for the last one; {_OVER_RANKS}.",
        adds=True,
    ),
    Column(
        "wait_pct", Unit.PCT, "Waiting time as a share of transfer and waiting time.", better="less"
    ),
    Column(
        "algorithm_bytes_per_s",
        Unit.BYTES_PER_S,
        "Algorithm bandwidth: bytes of the kernels of collectives that several ranks recorded, "
        "divided by `transfer_sum_ns`.",
        better="more",
    ),
    Column(
        "bus_bytes_per_s",
        Unit.BYTES_PER_S,
        "Bus bandwidth: algorithm bandwidth times the factor of the operation and group size; "
        "null: unknown group size or factor.",
        better="more",
    ),
    Column(
        "kernel_bytes_per_s",
        Unit.BYTES_PER_S,
        "Bandwidth seen by one rank, waiting included: bytes of the kernels divided by "
        "`kernel_sum_ns`.",
        better="more",
    ),
    Column(
        "parted_by",
        Unit.TEXT,
        "How transfer and waiting were separated: last arrival, least duration, or both; null: "
        "not separated.",
        brief=False,
    ),
    count_column(
        "alone_count", "Number of kernels without a known counterpart on another rank.", brief=False
    ),
)

Partial = tuple[int | None, list[CollectiveCalls], list[UnmatchedKernels]]


def partial(timeline: Timeline, request: Request) -> Partial:
    """Return the time of day of the profile's zero, its collectives, and its other kernels."""
    return time_of_day(timeline), *collective_kernels(timeline, request.options["rules"])


class _CollectiveRows:
    def __init__(self, request: Request) -> None:
        self._run = CollectiveGrouper()
        self._profiles: list[ProfileRef] = []
        self._unmatched: dict[Message, tuple[int, int]] = {}

    def add(self, ref: ProfileRef, partial: Partial) -> None:
        """Add one profile's collectives."""
        utc, calls, unmatched = partial
        self._profiles.append(ref)
        self._run.add(utc, calls)
        for each in unmatched:
            count, sum_ns = self._unmatched.get(each.message, (0, 0))
            self._unmatched[each.message] = count + each.count, sum_ns + each.sum_ns

    def result(self) -> Result:
        """Return one row per operation, group, type and size; those that took longest first."""
        cycles = cycles_of(self._profiles)
        self._run.part([*cycles.numbers.values()])
        self._run.sort([ref.label for ref in self._profiles])
        clocks = self._run.clocks()
        found = {each.message: each for each in transfers(self._run, clocks)}
        rows = [
            _row(message, found.get(message), *self._unmatched.get(message, (0, 0)))
            for message in sorted({*found, *self._unmatched})
        ]
        rows.sort(key=lambda row: -row["kernel_sum_ns"])
        unsure = {
            one.profile
            for one in self._run.participants
            if (clock := clocks[one.profile]) is None or clock.uncertainty is None
        }
        notes = (*order_notes(self._run), *_notes(list(found.values()), len(unsure)))
        return Result(values_by_column(rows, COLUMNS), notes=notes)


def _notes(found: list[Transfers], unsure: int) -> Iterator[Note]:
    partial = sum(each.partial for each in found if each.matched)
    if partial:
        text = (
            "collectives that fewer ranks recorded than their group has: their waits and transfer rates "
            "are at least those shown"
        )
        yield Note("collectives-partial", Severity.APPROXIMATED, text, partial)
    if unsure and any(each.matched for each in found):
        text = (
            "profiles whose clock is aligned by fewer than four collectives: kernel time beyond the "
            "shortest duration counts as waiting"
        )
        yield Note("clock-unchecked", Severity.APPROXIMATED, text, unsure)


def _row(
    message: Message, matched: Transfers | None, more_kernels: int, more_ns: int
) -> dict[str, Any]:
    size = None if message.size == MISSING else message.size
    ranks = None if message.group_size == MISSING else message.group_size
    kernels = more_kernels + (matched.kernels if matched else 0)
    sum_ns = more_ns + (matched.sum_ns if matched else 0)
    row: dict[str, Any] = {
        "operation": message.operation,
        "group": message.group or None,
        "group_size": ranks,
        "dtype": message.dtype or None,
        "bytes": size,
        "kernel_count": kernels,
        "kernel_sum_ns": sum_ns,
        "kernel_bytes_per_s": _rate(size, kernels, sum_ns),
        "alone_count": kernels - (matched.matched if matched else 0),
    }
    if matched is None:
        return row
    row |= {"collective_count": matched.collectives, "rank_count": matched.ranks}
    if not matched.matched:
        return row
    transfer, wait = matched.transfer_ns, matched.wait_ns
    rate = _rate(size, matched.matched, transfer)
    factor = None if ranks is None else bus_factor(message.operation, ranks)
    return row | {
        "transfer_sum_ns": transfer,
        "wait_sum_ns": wait,
        "wait_pct": float(percent(wait, transfer + wait or 1)),
        "algorithm_bytes_per_s": rate,
        "bus_bytes_per_s": None if rate is None or factor is None else rate * factor,
        "parted_by": _parted_by(matched),
    }


def _rate(size: int | None, count: int, time_ns: int) -> float | None:
    return size * count * 1e9 / time_ns if size and time_ns else None


def _parted_by(matched: Transfers) -> str:
    if not matched.by_arrival:
        return "least duration"
    return "last arrival" if matched.by_arrival == matched.matched else "both"


COLLECTIVES = Query(
    options=(RULES,), columns=COLUMNS, over_ranks=OverRanks(partial, _CollectiveRows)
)
