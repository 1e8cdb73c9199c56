"""Where tracks stand in a trace: processes and devices under numbers that no two profiles share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nsysconv.export.drawing import Track
from nsysconv.report import MISSING
from nsysconv.timeline.timeline import Timeline, cached_small

_APART = 10_000_000
"""Further than any process number of Linux. A number that is taken is raised by this."""
_FIRST_DEVICE = 1_000_000_000
_UNKNOWN_PID = 0

ON_NO_THREAD = "no thread"


@dataclass(frozen=True)
class Place:
    """A process of the trace: a real one, or (not `is_process`) a device. `number` stands for it in the
    trace, `name` is what it is called, `label` what else is known, and `order` its place from above.
    """

    number: int
    name: str
    label: str
    order: int
    is_process: bool


class Places:
    """Hands out numbers of processes and devices for all profiles of a trace."""

    def __init__(self, timelines: Sequence[Timeline]) -> None:
        self._several = len(timelines) > 1
        self._taken: set[int] = set()
        self._known: dict[tuple[int, str, int], Place] = {}

    def process(self, which: int, timeline: Timeline, pid: int) -> Place:
        """The place of a process of the profile at `which`."""
        key = (which, "process", pid)
        if key not in self._known:
            number = _UNKNOWN_PID if pid == MISSING else pid
            row = _row(timeline, "process", "pid", pid)
            name = row.get("name") or ("unknown process" if pid == MISSING else f"process {pid}")
            rank = row.get("rank")
            told = ["CPU"] + [f"pid {pid}"] * (pid != MISSING)
            told += [f"rank {rank}"] * (rank is not None)
            self._keep(key, number, name, told, timeline, rank)
        return self._known[key]

    def device(self, which: int, timeline: Timeline, device: int) -> Place:
        """The place of a device of the profile at `which`."""
        key = (which, "device", device)
        if key not in self._known:
            row = _row(timeline, "device", "device_id", device)
            known = "GPU" if device == MISSING else f"GPU {device}"
            name = f"{known} {row['name']}" if row.get("name") else known
            told = [row[c] for c in ("uuid", "bus_id") if row.get(c)]
            number = _FIRST_DEVICE + (0 if device == MISSING else abs(device) + 1)
            ranks = set(timeline.ranks.values())
            rank = next(iter(ranks)) if len(ranks) == 1 else None
            self._keep(key, number, name, told, timeline, rank)
        return self._known[key]

    def _keep(
        self, key: tuple[int, str, int], number: int, name: str, told: list[str],
        timeline: Timeline, rank: int | None,
    ) -> None:  # fmt: skip
        while number in self._taken:
            number += _APART
        self._taken.add(number)
        if self._several:
            whose = f"rank {rank}" if rank is not None else timeline.profile.ref.label
            name = f"{whose}: {name}"
            told.append(timeline.profile.ref.label)
        which, sort, _ = key
        # Devices after processes, each profile's beside each other.
        order = (sort == "device") * _APART + which * 10_000 + len(self._known)
        self._known[key] = Place(number, name, ", ".join(told), order, sort == "process")


def words_of(track: Track, timeline: Timeline) -> str:
    """What a track is called."""
    key = track.key
    lane = f" ({track.lane + 1})" if track.lane else ""
    if not track.kind.on_gpu:
        return f"{thread_words(timeline, key)}: {track.title}{lane}"
    parts = [track.title] if track.title else []
    if "stream_id" in key:
        stream = key["stream_id"]
        parts.append("no stream" if stream == MISSING else _stream(timeline, key))
    if key["pid"] != MISSING and _shared(timeline, key["device_id"]):
        parts.append(f"of process {key['pid']}")
    return " ".join(parts) + lane


def thread_words(timeline: Timeline, key: dict[str, int]) -> str:
    """What a thread is called."""
    if key["tid"] == MISSING:
        return ON_NO_THREAD
    name = _thread_names(timeline).get((key["pid"], key["tid"]))
    return f"thread {key['tid']} ({name})" if name else f"thread {key['tid']}"


@cached_small
def _thread_names(timeline: Timeline) -> dict[tuple[int, int], str]:
    rows = timeline.profile.rows("thread")
    return {(row["pid"], row["tid"]): row["name"] for row in rows if row["name"]}


def _stream(timeline: Timeline, key: dict[str, int]) -> str:
    name = _stream_names(timeline).get((key["pid"], key["stream_id"]))
    return f"stream {key['stream_id']} ({name})" if name else f"stream {key['stream_id']}"


@cached_small
def _stream_names(timeline: Timeline) -> dict[tuple[int, int], str]:
    rows = timeline.profile.rows("stream")
    return {(row["pid"], row["stream_id"]): row["name"] for row in rows if row["name"]}


def _shared(timeline: Timeline, device: int) -> bool:
    """Whether more than one process may have used a device."""
    return len(timeline.profile.rows("process")) > 1


def _row(timeline: Timeline, table: str, column: str, value: int) -> dict[str, Any]:
    return next((row for row in timeline.profile.rows(table) if row[column] == value), {})
