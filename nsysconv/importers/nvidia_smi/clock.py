"""Times in logs: local time of a machine that the log does not name, in whole numbers of ns."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime

_STAMP = re.compile(r"(\d{4})/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?$")
_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)$")
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d)$")
_SECOND = 1_000_000_000
_DAY = 86_400 * _SECOND
_EPOCH = datetime(1970, 1, 1)
# Clocks beyond are not set, and no zone is known there.
_YEARS = range(1971, 2200)


class Clock:
    """Reads the times of one log. `zone` is what the first time of day was read in, as UTC+02:00."""

    def __init__(self) -> None:
        self.zone = ""
        self._offsets: dict[tuple[int, int, int, int], int] = {}
        self._days = 0
        self._last = 0

    def stamp(self, text: str) -> int | None:
        """A query's `2024/05/17 10:00:00.123` as ns since 1970 (UTC); None where it is none."""
        match = _STAMP.match(text.strip())
        if match is None:
            return None
        *parts, fraction = match.groups()
        ns = int((fraction or "").ljust(9, "0"))
        moment = self._utc([int(part) for part in parts])
        return None if moment is None else moment + ns

    def date_time(self, date: str, time: str) -> int | None:
        """dmon's `20240517` and `10:00:00`, likewise."""
        day, hour = _DATE.match(date), _TIME.match(time)
        if day is None or hour is None:
            return None
        return self._utc([int(part) for part in (*day.groups(), *hour.groups())])

    def time(self, text: str) -> int | None:
        """dmon's `10:00:00` without a date, as ns since midnight of the first day."""
        match = _TIME.match(text)
        if match is None:
            return None
        hours, minutes, seconds = map(int, match.groups())
        moment = (hours * 3600 + minutes * 60 + seconds) * _SECOND
        # Past midnight it begins again.
        self._days += moment + self._days * _DAY < self._last - _DAY // 2
        self._last = moment + self._days * _DAY
        return self._last

    def _utc(self, parts: Sequence[int]) -> int | None:
        year, month, day, hour, minute, second = parts
        try:
            naive = datetime(year, month, day, hour, minute, second)
        except ValueError:
            return None
        if year not in _YEARS:
            return None
        key = (year, month, day, hour)
        if key not in self._offsets:
            # Zones change by whole or half hours, and at whole ones.
            offset = naive.astimezone().utcoffset()
            offset_s = 0 if offset is None else int(offset.total_seconds())
            self._offsets[key] = offset_s
            if not self.zone:
                sign, minutes = "-" if offset_s < 0 else "+", abs(offset_s) // 60
                self.zone = f"UTC{sign}{minutes // 60:02}:{minutes % 60:02}"
        since = naive - _EPOCH
        return (since.days * 86_400 + since.seconds - self._offsets[key]) * _SECOND


def zone_is_told() -> bool:
    """Whether the user said which zone times are in, by TZ."""
    return bool(os.environ.get("TZ"))
