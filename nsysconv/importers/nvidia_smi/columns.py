"""Columns of nvidia-smi's tables: headers, what their cells hold in which unit, and times of day."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

from nsysconv import codes
from nsysconv.importers.contract import No

# A column of a query: its name, and the unit that its cells are in unless they say another.
_FIELD = re.compile(r"([a-z][\w.-]*)(?: \[([^\[\]]+)\])?$")
# No other program uses these names for what it measures.
_MEASURED = re.compile(
    r"(?:utilization|temperature|clocks(?:_\w+_reasons)?|power|pcie\.link|ecc\.errors|encoder\.stats)\.\w"
    r"|memory\.(?:used|free|total|reserved)$|fan\.speed$|pstate$|enforced\.power\.limit$"
)
_TIME, _INDEX = ("timestamp",), ("index",)
_UUID, _BUS_ID, _NAME = ("uuid", "gpu_uuid"), ("pci.bus_id", "gpu_bus_id"), ("name", "gpu_name")
_DRIVER = ("driver_version",)
# Columns about machines and boards, and not about a moment.
_NO_METRICS = re.compile(
    r"count$|(?:gpu_)?serial$|vbios_version$|inforom\.|pci\.|module_id$|driver"
)

_DMON_GPU = "gpu"
_DMON_TIMES = ("Date", "Time")
_PRINTED: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("words.toml").read_text(encoding="utf-8")
)
_DMON_NAMES, _UNITS = _PRINTED["dmon"], _PRINTED["units"]
_DMON_WORDS = frozenset(
    {*_DMON_NAMES, "pviol", "tviol", "bar1", "sbecc", "dbecc", "pci", "rxpci", "txpci"}
)

_COUNTS = frozenset({"", "bool", "errs", "number"})
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)(?:\s*([^\d\s.,][^\d\s]*))?$")
_HEX = re.compile(r"0x[0-9a-fA-F]{1,16}$")
_STATE = re.compile(r"P(\d{1,2})$")
_WORDS = {"Not Active": 0.0, "Active": 1.0, "Disabled": 0.0, "Enabled": 1.0}
_NOTHING = re.compile(r"\[.*\]$|N/A$|-$|$")

_QUERY = (
    "nvidia-smi --query-gpu=timestamp,index,uuid,name,utilization.gpu,memory.used,power.draw "
    "--format=csv -l 1"
)

_ROW = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d+)?,")


@dataclass(frozen=True)
class MetricColumn:
    """A column of samples: its place, its name, and the unit of cells without one."""

    place: int
    name: str
    unit: str

    @property
    def is_counted(self) -> bool:
        """Return whether its unit has a word of ours, or needs none."""
        return self.unit in _UNITS or self.unit in _COUNTS

    @property
    def full_name(self) -> str:
        """Return the name, with the unit if that has no word of ours."""
        return self.name if self.is_counted else f"{self.name} [{self.unit}]"

    def value(self, text: str) -> tuple[int, float] | None:
        """Return the code of the unit and the number in it; None for a cell without a value.

        Raises ValueError for other texts.
        """
        text = text.strip()
        if _NOTHING.match(text):
            return None
        if text in _WORDS:
            return _code("number"), _WORDS[text]
        if _HEX.match(text):
            return _code("number"), float(int(text, 16))
        if match := _STATE.match(text):
            return _code("number"), float(match.group(1))
        match = _NUMBER.match(text)
        if match is None:
            raise ValueError(text)
        unit, factor = _UNITS.get(match.group(2) or self.unit, ("number", 1.0))
        value = float(match.group(1)) * factor
        if not isfinite(value):
            raise ValueError(text)
        return _code(unit), value


@dataclass(frozen=True)
class SmiHeader:
    """The columns of a table. `cells` are their headings; `is_dmon`: cells are aligned in columns."""

    cells: tuple[str, ...]
    metrics: tuple[MetricColumn, ...]
    is_dmon: bool

    def place(self, *names: str) -> int | None:
        """Return the index of the first column of one of these names, or None."""
        return next((self._places[name] for name in names if name in self._places), None)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {
            cell.partition(" [")[0]: place for place, cell in reversed([*enumerate(self.cells)])
        }

    @property
    def times(self) -> tuple[int, ...]:
        """Return the indices of the columns of times: one of a query, of dmon date, time, or both."""
        if self.is_dmon:
            return tuple(p for name in _DMON_TIMES if (p := self.place(name)) is not None)
        place = self.place(*_TIME)
        return () if place is None else (place,)

    @property
    def has_date(self) -> bool:
        """Return whether times have a date."""
        return bool(self.times) and (not self.is_dmon or self.place("Date") is not None)

    @property
    def gpu(self) -> tuple[int | None, int | None, int | None]:
        """Return the indices of the columns that identify GPUs: index, UUID, bus id."""
        if self.is_dmon:
            return self.place(_DMON_GPU), None, None
        return self.place(*_INDEX), self.place(*_UUID), self.place(*_BUS_ID)

    @property
    def gpu_name(self) -> int | None:
        """Return the index of the column of product names."""
        return None if self.is_dmon else self.place(*_NAME)

    @property
    def driver(self) -> int | None:
        """Return the index of the column of driver versions."""
        return None if self.is_dmon else self.place(*_DRIVER)

    def split(self, line: str) -> list[str]:
        """Return the cells of a line."""
        if self.is_dmon and "," not in line:
            return line.split()
        return line.split(",")


def parse_header(line: str) -> SmiHeader | None:
    """Return the header that a line is, None for other lines; dmon's is without units."""
    if line.startswith("#"):
        words = line[1:].replace(",", " ").split()
        # With processes in it, it is pmon's.
        is_dmon = _DMON_GPU in words[:3] and "pid" not in words
        return dmon_header(words, ()) if is_dmon and not _DMON_WORDS.isdisjoint(words) else None
    cells = tuple(cell.strip() for cell in line.split(","))
    pairs = [(m.group(1), m.group(2) or "") for m in map(_FIELD.match, cells) if m is not None]
    if len(pairs) < len(cells) or not any(_MEASURED.match(name) for name, _ in pairs):
        return None
    identity = {*_TIME, *_INDEX, *_UUID, *_BUS_ID, *_NAME}
    metrics = [
        MetricColumn(place, name, unit or ("C" if name.startswith("temperature.") else ""))
        for place, (name, unit) in enumerate(pairs)
        if name not in identity and not _NO_METRICS.match(name)
    ]
    return SmiHeader(cells, tuple(metrics), is_dmon=False)


def dmon_units(line: str) -> Sequence[str] | None:
    """Return the units that a line below dmon's header names; None for other lines."""
    words = line[1:].replace(",", " ").split() if line.startswith("#") else []
    return words if "Idx" in words[:3] else None


def dmon_header(words: Sequence[str], units: Sequence[str]) -> SmiHeader:
    """Return the header of dmon with these columns, in these units if there is one for each."""
    units = units if len(units) == len(words) else [""] * len(words)
    metrics = tuple(
        MetricColumn(place, _DMON_NAMES.get(word, word), unit)
        for place, (word, unit) in enumerate(zip(words, units, strict=True))
        if word not in (_DMON_GPU, *_DMON_TIMES)
    )
    return SmiHeader(tuple(words), metrics, is_dmon=True)


def refusal_of(line: str) -> No | None:
    """Return why a log of nvidia-smi with this line cannot be read; None for other lines."""
    if _ROW.match(line):
        return No(
            "a log of nvidia-smi without its header: nobody can tell which columns these are",
            close=True,
            hint="Record without `noheader`, or write the header that belongs to it into the first line, "
            "such as: timestamp, index, utilization.gpu [%]",
        )
    if re.match(r"\| NVIDIA-SMI \d|=+NVSMI LOG=+|<nvidia_smi_log>", line):
        reason = "a view of one moment by nvidia-smi, and no log"
        return No(reason, close=True, hint=f"Record: {_QUERY}")
    if re.match(r"#.*\bgpu\s+pid\s+type\b", line):
        return No(
            "a log of nvidia-smi pmon, which tells of processes",
            close=True,
            hint=f"Record: nvidia-smi dmon -o DT, or {_QUERY}",
        )
    return None


def _code(unit: str) -> int:
    return codes.METRIC_UNITS.index(unit)


_STAMP = re.compile(r"(\d{4})/(\d\d)/(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?$")
_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)$")
_TIME_OF_DAY = re.compile(r"(\d\d):(\d\d):(\d\d)$")
_SECOND = 1_000_000_000
_DAY = 86_400 * _SECOND
_EPOCH = datetime(1970, 1, 1)
# Clocks beyond are not set, and no zone is known there.
_YEARS = range(1971, 2200)


class LogClock:
    """Parse the times of one log, which are local times of a machine that the log does not name.

    `zone` is the offset in which the first time was read, as UTC+02:00.
    """

    def __init__(self) -> None:
        """Start before the first time."""
        self.zone = ""
        self._offsets: dict[tuple[int, int, int, int], int] = {}
        self._days = 0
        self._last = 0

    def stamp(self, text: str) -> int | None:
        """Return a query's `2024/05/17 10:00:00.123` as ns since 1970 (UTC), or None."""
        match = _STAMP.match(text.strip())
        if match is None:
            return None
        *parts, fraction = match.groups()
        ns = int((fraction or "").ljust(9, "0"))
        moment = self._utc_ns([int(part) for part in parts])
        return None if moment is None else moment + ns

    def date_time(self, date: str, time: str) -> int | None:
        """Return dmon's `20240517` and `10:00:00` as ns since 1970 (UTC), or None."""
        day, hour = _DATE.match(date), _TIME_OF_DAY.match(time)
        if day is None or hour is None:
            return None
        return self._utc_ns([int(part) for part in (*day.groups(), *hour.groups())])

    def time_of_day(self, text: str) -> int | None:
        """Return dmon's `10:00:00` without a date as ns since midnight of the first day, or None."""
        match = _TIME_OF_DAY.match(text)
        if match is None:
            return None
        hours, minutes, seconds = map(int, match.groups())
        moment = (hours * 3600 + minutes * 60 + seconds) * _SECOND
        # The time of day begins again at midnight.
        self._days += moment + self._days * _DAY < self._last - _DAY // 2
        self._last = moment + self._days * _DAY
        return self._last

    def _utc_ns(self, parts: Sequence[int]) -> int | None:
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


def zone_is_set() -> bool:
    """Return whether the user has set the zone of times, by TZ."""
    return bool(os.environ.get("TZ"))
