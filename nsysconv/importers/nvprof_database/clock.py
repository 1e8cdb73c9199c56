"""Where a database's times begin.

nvprof writes nanoseconds, most often since 1970, else (Windows, analysis captures) since a moment of the
machine that the file does not tell. Either way they are shown from the whole second at or before
the first event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median_low

from nsysconv.importers.nvprof_database.survey import Times
from nsysconv.importers.sqlite_columns import TIME_LIMIT
from nsysconv.notes import Note, Severity

_NANOSECONDS = 1_000_000_000
# September 2001. No machine runs for 31 years.
_TIMES_OF_DAY = 10**18
NO_BASE = Note(
    "no-time-base", Severity.INFO, "times count from a moment that the file does not tell"
)


@dataclass(frozen=True)
class Clock:
    """`zero` is subtracted from every time; `zero_utc_ns` is the time of day of the result's zero."""

    zero: int
    zero_utc_ns: int | None
    recording_ns: int | None
    notes: tuple[Note, ...] = ()


def read_clock(times: Mapping[str, Times]) -> Clock:
    """The clock of a file, by the times of its tables.

    One damaged cell must not move the zero away from all others: what lies further from the middle of
    the rows than a recording can last is not looked at.
    """
    middles = [at.middle for at in times.values() if at.middle is not None]
    if not middles:
        return Clock(0, None, None)
    anchor = median_low(middles)
    near = range(anchor - TIME_LIMIT, anchor + TIME_LIMIT)
    firsts = [at.first for at in times.values() if at.first is not None and at.first in near]
    lasts = [at.last for at in times.values() if at.last is not None and at.last in near]
    zero = min([*firsts, anchor]) // _NANOSECONDS * _NANOSECONDS
    recording = max([*lasts, anchor]) - zero
    if zero > _TIMES_OF_DAY:
        return Clock(zero, zero, recording)
    return Clock(zero, None, recording, (NO_BASE,))
