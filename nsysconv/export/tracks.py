"""Tracks of a trace: kinds of rows, and the processes and devices under which they are shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsysconv import codes, schema
from nsysconv.export import event_args
from nsysconv.export.event_args import MARK, ArgReader, NameLookup
from nsysconv.report import MISSING
from nsysconv.timeline.timeline import Timeline, cached_small

Array = np.ndarray

_START_END = codes.RANGE_KINDS.index("start_end")
_KERNEL = codes.COLLECTIVE_KINDS.index("kernel")

_PID_STEP = 10_000_000
"""Larger than any process number of Linux. A number that is taken is raised by this."""
_FIRST_DEVICE = 1_000_000_000
_UNKNOWN_PID = 0
_ORDERS_OF_PROFILE = 10_000

NO_THREAD = "no thread"


@dataclass(frozen=True)
class EventKind:
    """One kind of rows: `what` they are called in counts, and their table.

    Rows with equal `groups` share a track, whose title `title` makes of these. On a track slices nest
    if `nests`, else none overlap. `instant`: they have no duration. `mask` says which rows of the table
    are of this kind, and reads the columns `mask_columns`; None: all are.
    """

    what: str
    table: str
    groups: tuple[str, ...]
    title: Callable[[NameLookup, Mapping[str, int]], str]
    args: ArgReader
    nests: bool = True
    instant: bool = False
    mask: Callable[[Mapping[str, Array]], Array] | None = None
    mask_columns: tuple[str, ...] = ()

    @property
    def on_gpu(self) -> bool:
        """Return whether its tracks are a device's."""
        return "device_id" in self.groups

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns of its table that events are made of."""
        table = schema.metadata.tables[self.table]
        names = {"start_ns", "dur_ns", "pid", "correlation_id", *self.args.columns}
        return tuple(column.name for column in table.c if column.name in names)


def _range_title(names: NameLookup, key: Mapping[str, int]) -> str:
    name = names.domains.get((key["pid"], key["domain_id"]))
    # Domain 0 need not be named, and a domain may have no row.
    number = f" of domain {key['domain_id']}" if key["domain_id"] not in (0, MISSING) else ""
    word = {_START_END: "start/end ranges", MARK: "marks"}.get(key["kind"], "ranges")
    return f"{word} {name}" if name else f"{word}{number}"


def _fixed(title: str) -> Callable[[NameLookup, Mapping[str, int]], str]:
    return lambda names, key: title


def _by_code(column: str, titles: tuple[str, ...], default: str) -> Callable[..., str]:
    def title(names: NameLookup, key: Mapping[str, int]) -> str:
        code = key[column]
        return titles[code] if 0 <= code < len(titles) else default

    return title


_THREAD = ("pid", "tid")
_STREAM = ("device_id", "pid", "stream_id")
_RANGE = (*_THREAD, "domain_id", "kind")
_OPERATOR_TITLES = ("operators", "Python functions", "directives", "library calls")

OPS = tuple(
    EventKind(table, table, _STREAM, _fixed(""), args, nests=False)
    for table, args in (
        ("kernel", event_args.kernel),
        ("memcpy", event_args.memcpy),
        ("memset", event_args.memset),
        ("unified_memory_event", event_args.migration),
        ("graph_launch", event_args.graph_launch),
    )
)
"""GPU operations: all kinds share the tracks of their streams."""

ON_THREADS = (
    EventKind("range", "range", _RANGE, _range_title, event_args.range_,
              mask=lambda columns: (columns["kind"] != MARK) & (columns["kind"] != _START_END),
              mask_columns=("kind",)),
    EventKind("range", "range", _RANGE, _range_title, event_args.range_, nests=False,
              mask=lambda columns: columns["kind"] == _START_END, mask_columns=("kind",)),
    EventKind("mark", "range", _RANGE, _range_title, event_args.range_, instant=True,
              mask=lambda columns: columns["kind"] == MARK, mask_columns=("kind",)),
    EventKind("operator", "operator", (*_THREAD, "kind"),
              _by_code("kind", _OPERATOR_TITLES, "operators"), event_args.operator),
    EventKind("api_call", "api_call", (*_THREAD, "layer"),
              _by_code("layer", ("CUDA runtime", "CUDA driver"), "CUDA API"), event_args.api_call),
    EventKind("collective", "collective", _THREAD, _fixed("collectives"), event_args.collective,
              mask=lambda columns: columns["kind"] != _KERNEL, mask_columns=("kind",)),
    EventKind("mpi_call", "mpi_call", _THREAD, _fixed("MPI"), event_args.mpi_call),
    EventKind("osrt_call", "osrt_call", _THREAD, _fixed("OS runtime"), event_args.osrt_call),
    EventKind("overhead", "overhead", _THREAD, _fixed("overhead"), event_args.overhead),
    EventKind("memory_event", "memory_event", _THREAD, _fixed("memory"), event_args.memory_event,
              instant=True),
    EventKind("graph_node", "graph_node", _THREAD, _fixed("graph nodes"), event_args.graph_node,
              instant=True),
)  # fmt: skip
"""Kinds of rows of threads, in the order of their tracks from above."""

ON_DEVICES = (
    EventKind("sync", "sync", _STREAM, _fixed("waits"), event_args.sync, nests=False),
    EventKind("collective", "collective", _STREAM, _fixed("collectives"), event_args.collective,
              nests=False, mask=lambda columns: columns["kind"] == _KERNEL, mask_columns=("kind",)),
    EventKind("page_fault", "page_fault", ("device_id", "pid"), _fixed("page faults"),
              event_args.page_fault, nests=False),
)  # fmt: skip
"""Kinds of rows of devices beside operations."""


@dataclass(frozen=True)
class Track:
    """One line of a trace.

    `number` counts the tracks of a trace from 1; `key` is what its rows have in common (MISSING for
    null); `lane` counts, from 0, the lines that rows with this key need.
    """

    number: int
    kind: EventKind
    title: str
    key: dict[str, int]
    lane: int


def track_name(track: Track, timeline: Timeline) -> str:
    """Return what a track is called."""
    key = track.key
    lane = f" ({track.lane + 1})" if track.lane else ""
    if not track.kind.on_gpu:
        tid = key["tid"]
        thread = NO_THREAD if tid == MISSING else _named(timeline, "thread", key["pid"], tid)
        return f"{thread}: {track.title}{lane}"
    parts = [track.title] if track.title else []
    if "stream_id" in key:
        stream = key["stream_id"]
        parts.append(
            "no stream" if stream == MISSING else _named(timeline, "stream", key["pid"], stream)
        )
    # Any process of the profile may have used the device.
    if key["pid"] != MISSING and len(timeline.profile.rows("process")) > 1:
        parts.append(f"of process {key['pid']}")
    return " ".join(parts) + lane


def _named(timeline: Timeline, table: str, pid: int, number: int) -> str:
    name = _names(timeline).get((table, pid, number))
    return f"{table} {number} ({name})" if name else f"{table} {number}"


@cached_small
def _names(timeline: Timeline) -> dict[tuple[str, int, int], str]:
    return {
        (table, row["pid"], row[column]): row["name"]
        for table, column in (("thread", "tid"), ("stream", "stream_id"))
        for row in timeline.profile.rows(table)
        if row["name"]
    }


@dataclass(frozen=True)
class TraceProcess:
    """A process of the trace: a real one, or (not `is_process`) a device.

    `number` is its process number in the trace, `label` what else is known of it, and `order` its
    position from above.
    """

    number: int
    name: str
    label: str
    order: int
    is_process: bool


class TraceProcesses:
    """The processes and devices of all profiles of a trace, under numbers that no two of them share."""

    def __init__(self, timelines: Sequence[Timeline]) -> None:
        """Start without processes; of one profile, names do not say which it is."""
        self._several = len(timelines) > 1
        self._taken: set[int] = set()
        self._processes: dict[tuple[int, str, int], TraceProcess] = {}

    def __len__(self) -> int:
        """Return how many there are so far."""
        return len(self._processes)

    def process(self, profile: int, timeline: Timeline, pid: int) -> TraceProcess:
        """Return a process of the profile with this index among those of the trace."""
        key = (profile, "process", pid)
        if key not in self._processes:
            number = _UNKNOWN_PID if pid == MISSING else pid
            row = _row(timeline, "process", "pid", pid)
            name = row.get("name") or ("unknown process" if pid == MISSING else f"process {pid}")
            rank = row.get("rank")
            labels = ["CPU"] + [f"pid {pid}"] * (pid != MISSING)
            labels += [f"rank {rank}"] * (rank is not None)
            self._add(key, number, name, labels, timeline, rank)
        return self._processes[key]

    def device(self, profile: int, timeline: Timeline, device: int) -> TraceProcess:
        """Return a device of the profile with this index among those of the trace."""
        key = (profile, "device", device)
        if key not in self._processes:
            row = _row(timeline, "device", "device_id", device)
            name = "GPU" if device == MISSING else f"GPU {device}"
            name = f"{name} {row['name']}" if row.get("name") else name
            labels = [row[column] for column in ("uuid", "bus_id") if row.get(column)]
            number = _FIRST_DEVICE + (0 if device == MISSING else abs(device) + 1)
            ranks = set(timeline.ranks.values())
            rank = next(iter(ranks)) if len(ranks) == 1 else None
            self._add(key, number, name, labels, timeline, rank)
        return self._processes[key]

    def _add(
        self, key: tuple[int, str, int], number: int, name: str, labels: list[str],
        timeline: Timeline, rank: int | None,
    ) -> None:  # fmt: skip
        while number in self._taken:
            number += _PID_STEP
        self._taken.add(number)
        if self._several:
            label = timeline.profile.ref.label
            name = f"rank {rank}: {name}" if rank is not None else f"{label}: {name}"
            labels.append(label)
        profile, sort, _ = key
        is_device = sort == "device"
        # Devices come after all processes, those of each profile together.
        order = is_device * _PID_STEP + profile * _ORDERS_OF_PROFILE + len(self._processes)
        label = ", ".join(labels)
        self._processes[key] = TraceProcess(number, name, label, order, not is_device)


def _row(timeline: Timeline, table: str, column: str, value: int) -> dict[str, Any]:
    return next((row for row in timeline.profile.rows(table) if row[column] == value), {})
