"""Where an export's times begin, and how long its recording is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nsysconv.importers.nsys_sqlite import tables
from nsysconv.importers.nsys_sqlite.capture import Capture
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_source import TIME_LIMIT
from nsysconv.notes import Note, Severity

_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True)
class Clock:
    """`zero` is subtracted from every time; `zero_utc_ns` is the time of day of the result's zero."""

    zero: int
    zero_utc_ns: int | None
    recording_ns: int | None
    notes: tuple[Note, ...] = ()


def read_clock(probe: Probe, sources: Sequence[str], capture: Capture) -> Clock:
    """The clock of a file.

    Event times count from the session's start, unless the export was made with --ts-normalize: then
    they are times of day, larger than any recording is long. What is read on request has no say where
    there is more: a recording begins and ends whatever of it is asked for.
    """
    others = [source for source in sources if source not in tables.ON_REQUEST]
    if any(probe.select(f"SELECT EXISTS (SELECT 1 FROM {source})")[0][0] for source in others):
        sources = others
    told = capture.attributes
    first = None
    if capture.times_are_utc or _has_huge_times(probe, sources):
        first = _extreme(probe, sources, _first_huge)
    if first is None:
        recording = told.recording_ns
        if recording is None:
            recording = _last_end(probe, sources, 0)
        return Clock(0, told.zero_utc_ns, recording)
    zero = first // _NANOSECONDS * _NANOSECONDS
    note = Note(
        "time-shifted",
        Severity.INFO,
        "times of day; shown from the whole second before the first event",
    )
    return Clock(zero, zero, _last_end(probe, sources, zero), (note,))


def _last_end(probe: Probe, sources: Sequence[str], zero: int) -> int | None:
    last = _extreme(probe, sources, _last)
    return last - zero if last is not None and last - zero <= TIME_LIMIT else None


def _first_huge(time: str) -> tuple[str, str, str]:
    return time, f"min({time})", f"typeof({time}) = 'integer' AND {time} > {TIME_LIMIT}"


def _last(time: str) -> tuple[str, str, str]:
    end = "end" if time == "start" else time
    return end, f"max({end})", f"typeof({end}) = 'integer'"


def _extreme(
    probe: Probe, sources: Sequence[str], what: Callable[[str], tuple[str, str, str]]
) -> int | None:
    """The smallest or largest value of all event rows.

    `what`: for the name of a table's times a column, what to take of it, and of which rows.
    """
    found = []
    for source in sources:
        columns = probe.tables[source].columns
        column, value, where = what(tables.TIMES[source])
        if column in columns:
            if source == tables.NVTX and "eventType" in columns:
                kinds = ", ".join(map(str, tables.RANGE_KINDS))
                where += f" AND eventType IN ({kinds})"  # domains are created before time begins
            found += probe.select(f"SELECT {value} FROM {source} WHERE {where}")
    known: list[int] = [row[0] for row in found if row[0] is not None]
    if not known:
        return None
    return min(known) if what is _first_huge else max(known)


def _has_huge_times(probe: Probe, sources: Sequence[str]) -> bool:
    """Whether the first row of every event table is a time of day (one damaged cell is not)."""
    firsts = []
    for source in sources:
        time = tables.TIMES[source]
        if time in probe.tables[source].columns:
            firsts += probe.select(f"SELECT {time} FROM {source} LIMIT 1")
    numbers = [row[0] for row in firsts if isinstance(row[0], int)]
    return bool(numbers) and all(number > TIME_LIMIT for number in numbers)
