"""When processes came to their collectives, and which of these are the same one (docs/definitions)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from nsysconv import codes
from nsysconv.codes import COMMUNICATION
from nsysconv.facts import Fact
from nsysconv.report import MISSING
from nsysconv.timeline.account import recorded_by_process
from nsysconv.timeline.arrays import Array, Columns, by_group, counts, factorize, sums
from nsysconv.timeline.collective_messages import (
    MESSAGE_COLUMNS,
    POINT_TO_POINT,
    Message,
    group_label,
    messages,
    operation,
)
from nsysconv.timeline.events import has_time
from nsysconv.timeline.kernel_categories import categories
from nsysconv.timeline.timeline import Timeline

NUMBERED, BY_ORDER, MPI = "numbered", "by order", "mpi"
"""Ways of matching collectives across ranks: by group and number as recorded, or by order."""

SYNCHRONIZING = frozenset({"allreduce", "allgather", "reduce_scatter", "barrier"})
"""Collectives that end at the same time everywhere, but for what the network takes."""

NUMBERS = 1 << 40
"""A collective is its series and its number, which is less than this: both in one integer."""


@dataclass(frozen=True)
class Series:
    """Collectives that are numbered together on all ranks; `repeat` numbers those of equal numbers.

    `cycle`: which of a run's cycles they are of.
    """

    how: str
    operation: str
    group: str = ""
    repeat: int = 0
    cycle: int = 0

    @property
    def synchronizes(self) -> bool:
        """Return whether it ends for all at the same time."""
        return self.operation in SYNCHRONIZING


@dataclass(frozen=True)
class CollectiveCalls:
    """The collectives in which one process took part with one device (or, of MPI, none).

    `series` are places in `names`, `message` in `messages`; times are ns since the profile's zero;
    `shown`: those of the slice; `recorded`: from when to when the process was recorded.
    """

    rank: int | None
    pid: int | None
    device: int | None
    names: tuple[Series, ...]
    series: Array
    number: Array
    start: Array
    end: Array
    shown: Array
    messages: tuple[Message, ...]
    message: Array
    recorded: tuple[int, int]


@dataclass(frozen=True)
class UnmatchedKernels:
    """Communication kernels with one message that nothing matches across ranks: how many, and how long
    they ran in all (ns).
    """

    message: Message
    count: int
    sum_ns: int


def collective_calls(timeline: Timeline, rules: str | None = None) -> list[CollectiveCalls]:
    """Return the collectives of each process and device of a profile.

    Those of the GPU, with group and number where the profile records them, else its communication kernels
    in order; where there are none, those of MPI. `rules`: a file of rules for kinds of kernels.
    """
    for found in (_recorded(timeline), _kernels(timeline, rules), _mpi(timeline)):
        if found is not None:
            return list(_by_participant(timeline, found))
    return []


def collective_kernels(
    timeline: Timeline, rules: str | None = None
) -> tuple[list[CollectiveCalls], list[UnmatchedKernels]]:
    """Return the collectives of the GPU by process and device, and all other communication kernels.

    These send and receive, or belong to no recorded collective of a profile that records some. `rules`: a
    file of rules for kinds of kernels.
    """
    if Fact.KERNELS not in timeline.profile.facts:
        return [], []
    recorded = _recorded(timeline)
    found = recorded or _kernels(timeline, rules)
    calls = [] if found is None else list(_by_participant(timeline, found))
    return calls, _unmatched(timeline, rules, found)


def foreign_communicators(timeline: Timeline) -> int:
    """Return how many of the MPI collectives are of another communicator than the process's first."""
    rows = _mpi_rows(timeline)
    return int(np.count_nonzero(~rows[1])) if rows is not None else 0


def sends_and_receives(timeline: Timeline, rules: str | None = None) -> int:
    """Return how many communication kernels only send and receive, where no group and number is recorded.

    NCCL makes all-to-all of these, too: nothing says which of them are.
    """
    if Fact.KERNELS not in timeline.profile.facts or _recorded(timeline) is not None:
        return 0
    which = _communication_kernels(timeline, rules)
    if not which.any():
        return 0
    name_id = timeline.profile.columns("kernel", ("name_id",))["name_id"]
    ids, count = np.unique(name_id[which & timeline.rows("kernel")], return_counts=True)
    texts = timeline.profile.names(ids)
    counted = zip(ids.tolist(), count.tolist(), strict=True)
    return sum(n for i, n in counted if operation(texts[i]) == POINT_TO_POINT)


def _communication_kernels(timeline: Timeline, rules: str | None) -> Array:
    category, known = categories(timeline, rules)
    if COMMUNICATION not in known:
        return np.zeros(len(category), bool)
    mask: Array = category == known.index(COMMUNICATION)
    return mask


@dataclass(frozen=True)
class _Rows(Columns):
    table: str
    row: Array
    pid: Array
    device: Array
    names: tuple[Series, ...]
    series: Array
    number: Array  # MISSING where the order says it
    start: Array
    end: Array
    shown: Array
    messages: tuple[Message, ...]
    message: Array


_RECORDED = ("start_ns", "dur_ns", "kind", "pid", "device_id", "name_id", *MESSAGE_COLUMNS)
_GROUP = ("group_id", "group_ranks_id")
_OF_KERNELS = ("start_ns", "dur_ns", "pid", "device_id", "name_id")


def _recorded(timeline: Timeline) -> _Rows | None:
    if Fact.COLLECTIVES not in timeline.profile.facts:
        return None
    column = timeline.profile.columns("collective", (*_RECORDED, "sequence_number"))
    numbered = column["sequence_number"]
    which = run_on_the_gpu(column)
    named = which & (column["name_id"] != MISSING)
    which &= (numbered >= 0) & (numbered < NUMBERS)
    if not which.any():
        # What a kernel does is recorded all the same, where its own name may not say it.
        return _in_order(timeline, "collective", column, named, BY_ORDER) if named.any() else None
    series, ids = factorize(*(column[c][which] for c in ("name_id", *_GROUP)))
    texts = timeline.profile.names(np.concatenate(ids))
    texts[MISSING] = ""
    spelled = [
        Series(NUMBERED, operation(texts[name]), group_label(texts[group], texts[ranks]))
        for name, group, ranks in zip(*(i.tolist() for i in ids), strict=True)
    ]
    names = tuple(dict.fromkeys(spelled))
    series = np.array([names.index(each) for each in spelled], np.int64)[series]
    collective = np.array([one.operation != POINT_TO_POINT for one in names], bool)[series]
    if not collective.any():
        return None
    which, series = _narrowed(which, collective), series[collective]
    return _rows(timeline, "collective", column, which, names, series, numbered[which])


def run_on_the_gpu(column: Mapping[str, Array]) -> Array:
    """Return which rows of the table of collectives are kernels with a time, as a mask."""
    kernel = column["kind"] == codes.COLLECTIVE_KINDS.index("kernel")
    mask: Array = kernel & has_time(column)
    return mask


def _kernels(timeline: Timeline, rules: str | None) -> _Rows | None:
    if Fact.KERNELS not in timeline.profile.facts:
        return None
    which = _communication_kernels(timeline, rules)
    if not which.any():
        return None
    column = timeline.profile.columns("kernel", _OF_KERNELS)
    return _in_order(timeline, "kernel", column, which & has_time(column), BY_ORDER)


def _mpi(timeline: Timeline) -> _Rows | None:
    found = _mpi_rows(timeline)
    if found is None:
        return None
    which, first, column = found
    column["device_id"] = np.full(len(which), MISSING)
    return _in_order(timeline, "mpi_call", column, _narrowed(which, first), MPI)


def _narrowed(mask: Array, kept: Array) -> Array:
    # `kept` has a value per place where the mask is true, not per row.
    result = mask.copy()
    result[mask] = kept
    return result


def _mpi_rows(timeline: Timeline) -> tuple[Array, Array, dict[str, Array]] | None:
    # The result is which calls are collectives, which of these are of their process's first
    # communicator, and columns. Handles of communicators are numbers within each process, so they do
    # not match those of other ranks. The first communicator of a process usually has all ranks of the
    # run.
    if Fact.MPI_CALLS not in timeline.profile.facts:
        return None
    names = ("start_ns", "dur_ns", "kind", "pid", "name_id", "communicator_id")
    column = timeline.profile.columns("mpi_call", names)
    which = (column["kind"] == codes.MPI_KINDS.index("collective")) & has_time(column)
    pid, handle = column["pid"][which], column["communicator_id"][which]
    start = column["start_ns"][which]
    first = np.zeros(len(pid), bool)
    for process in np.unique(pid).tolist():
        mine = np.flatnonzero(pid == process)
        first[mine] = handle[mine] == handle[mine[np.argmin(start[mine])]]
    return which, first, column


def _in_order(
    timeline: Timeline, table: str, column: dict[str, Array], which: Array, how: str
) -> _Rows | None:
    # The rows have no numbers. The n-th of an operation, and of a group if groups are recorded, is the
    # n-th on all ranks. Several kernels of one operation (types, protocols) count as one.
    keys = [column[name][which] for name in ("name_id", *_GROUP) if name in column]
    ids, values = factorize(*keys)
    texts = timeline.profile.names(np.unique(np.concatenate(values)))
    texts[MISSING] = ""
    spelled = [
        Series(how, operation(texts[name]), group_label(*(texts[i] for i in group)))
        for name, *group in zip(*(v.tolist() for v in values), strict=True)
    ]
    known = {one: place for place, one in enumerate(dict.fromkeys(spelled))}
    series = np.array([known[one] for one in spelled], np.int64)[ids]
    collective = np.array([one.operation != POINT_TO_POINT for one in known], bool)[series]
    which, series = _narrowed(which, collective), series[collective]
    if not which.any():
        return None
    unnumbered = np.full(len(series), MISSING)
    return _rows(timeline, table, column, which, tuple(known), series, unnumbered)


def _rows(
    timeline: Timeline,
    table: str,
    column: dict[str, Array],
    which: Array,
    names: tuple[Series, ...],
    series: Array,
    numbers: Array,
) -> _Rows:
    pid, device, start, dur = (
        column[name][which] for name in ("pid", "device_id", "start_ns", "dur_ns")
    )
    series, numbers = series.astype(np.int64), numbers.astype(np.int64)
    shown = timeline.rows(table)[which]
    exchanged, message = messages(timeline, column, which)
    return _Rows(
        *(table, np.flatnonzero(which), pid, device, names, series, numbers, start, start + dur),
        *(shown, exchanged, message),
    )


def _unmatched(
    timeline: Timeline, rules: str | None, matched: _Rows | None
) -> list[UnmatchedKernels]:
    found: dict[Message, UnmatchedKernels] = {}
    kernel = _communication_kernels(timeline, rules)
    if Fact.COLLECTIVES in timeline.profile.facts and (
        matched is None or matched.table == "collective"
    ):
        column = timeline.profile.columns("collective", (*_RECORDED, "stream_id"))
        which = run_on_the_gpu(column)
        if kernel.any() and which.any():
            kernel &= ~_are_collectives(timeline, column, which)
        if matched is not None:
            which[matched.row] = False
        _count(timeline, "collective", column, which, found)
    if matched is not None and matched.table == "kernel":
        kernel[matched.row] = False
    if kernel.any():
        column = timeline.profile.columns("kernel", _OF_KERNELS)
        _count(timeline, "kernel", column, kernel & has_time(column), found)
    return list(found.values())


def _are_collectives(timeline: Timeline, column: dict[str, Array], which: Array) -> Array:
    # The mask is true for kernels that are among these collectives, by device, stream and start.
    names = ("device_id", "stream_id", "start_ns")
    kernel = timeline.profile.columns("kernel", names)
    together = [np.concatenate((column[name][which], kernel[name])) for name in names]
    places, (first, *_) = factorize(*together)
    count = int(np.count_nonzero(which))
    among = np.zeros(len(first), bool)
    among[places[:count]] = True
    mask: Array = among[places[count:]]
    return mask


def _count(
    timeline: Timeline,
    table: str,
    column: dict[str, Array],
    which: Array,
    found: dict[Message, UnmatchedKernels],
) -> None:
    which = which & timeline.rows(table)
    exchanged, place = messages(timeline, column, which)
    count = counts(place, len(exchanged))
    total = sums(place, column["dur_ns"][which], len(exchanged))
    for message, n, ns in zip(exchanged, count.tolist(), total.tolist(), strict=True):
        before = found.get(message, UnmatchedKernels(message, 0, 0))
        found[message] = UnmatchedKernels(message, before.count + n, before.sum_ns + ns)


def _by_participant(timeline: Timeline, rows: _Rows) -> Iterator[CollectiveCalls]:
    groups, (pids, devices) = factorize(rows.pid, rows.device)
    members = by_group(groups, len(pids))
    recorded = recorded_by_process(timeline)
    for which, pid, device in zip(members, pids.tolist(), devices.tolist(), strict=True):
        mine = rows.take(which)
        mine = mine.take(np.argsort(mine.start, kind="stable"))
        span = recorded.get(pid)
        yield CollectiveCalls(
            timeline.ranks.get(pid),
            None if pid == MISSING else pid,
            None if device == MISSING else device,
            *_numbered(mine.names, mine.series, mine.number),
            mine.start,
            mine.end,
            mine.shown,
            mine.messages,
            mine.message,
            (span.start, span.end) if span else (int(mine.start[0]), int(mine.end.max())),
        )


def _numbered(
    names: tuple[Series, ...], series: Array, numbers: Array
) -> tuple[tuple[Series, ...], Array, Array]:
    # Each row gets a number, and a row that repeats a number gets a series of its own. Rows are ordered
    # by start.
    if (numbers == MISSING).all():
        return names, series, _occurrence(series)
    keys, _ = factorize(series, numbers)
    repeat = _occurrence(keys)
    both, (of, times) = factorize(series, repeat)
    more = tuple(
        Series(names[i].how, names[i].operation, names[i].group, k)
        for i, k in zip(of.tolist(), times.tolist(), strict=True)
    )
    return more, both.astype(np.int64), numbers


def _occurrence(groups: Array) -> Array:
    # The result is how many earlier rows each row's group has.
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    begins = np.concatenate(([True], ordered[1:] != ordered[:-1])) if len(ordered) else ordered == 0
    first = np.maximum.accumulate(np.where(begins, np.arange(len(ordered)), 0))
    result = np.empty(len(ordered), np.int64)
    result[order] = np.arange(len(ordered)) - first
    return result
