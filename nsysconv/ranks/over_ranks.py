"""The profiles that a report is over, as far as their rows need it: rank, host, physical GPUs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from nsysconv.notes import Note, Severity, merged
from nsysconv.report import MISSING, Column, Report, Unit, merged_header, report_table
from nsysconv.timeline.arrays import OVER_RANKS

BY_UUID, BY_BUS, BY_ORDINAL = "UUID", "PCI bus id of its host", "ordinal of its process"
"""Identifiers of a physical device, the surest first."""


@dataclass(frozen=True)
class Gpu:
    """A physical device: its name, and by what it was identified."""

    label: str
    identified_by: str


@dataclass(frozen=True)
class RankProfile:
    """One profile. `ranks` are those of its processes, `hosts` by rank where its host is not one,
    `gpus` by `device_id`, `processes` as those of a Session; empty: they are not known.
    """

    label: str
    ranks: tuple[int, ...] = ()
    world_size: int | None = None
    host: str | None = None
    hosts: Mapping[int, str] = field(default_factory=dict)
    gpus: Mapping[int, Gpu] = field(default_factory=dict)
    processes: frozenset[Any] = frozenset()

    @property
    def rank(self) -> int | None:
        """Return the rank, None if there are several or none."""
        return self.ranks[0] if len(self.ranks) == 1 else None

    @property
    def order(self) -> tuple[bool, int, str]:
        """Return by rank; those without one come last."""
        return (not self.ranks, min(self.ranks, default=0), self.label)

    @property
    def key(self) -> Any:
        """Return the same value for several recordings of one process, which are of one rank."""
        return self.processes or self.label

    def host_of(self, rank: Any) -> str | None:
        """Return the host on which a rank's process ran."""
        return self.hosts.get(rank, self.host)


def rank_profile(
    label: str,
    host: str | None,
    processes: Sequence[Mapping[str, Any]],
    devices: Sequence[Mapping[str, Any]],
) -> RankProfile:
    """Return a profile by its label and host and its rows of the tables process and device."""
    ranked = [row for row in processes if row["rank"] is not None]
    hosts = {row["rank"]: row["host"] for row in ranked if row["host"]}
    known = {row["host"] for row in processes if row["host"]}
    if host is None and len(known) == 1:
        (host,) = known
    sizes = {row["world_size"] for row in ranked if row["world_size"]}
    of_process = {row["pid"]: row["rank"] for row in ranked}
    return RankProfile(
        label,
        tuple(sorted({int(row["rank"]) for row in ranked})),
        max(sizes, default=None),
        host,
        hosts,
        {int(row["device_id"]): _gpu(row, label, host, of_process) for row in devices},
    )


def _gpu(row: Mapping[str, Any], label: str, host: str | None, ranks: Mapping[Any, int]) -> Gpu:
    if row["uuid"]:
        return Gpu(str(row["uuid"]), BY_UUID)
    if host and row["bus_id"]:
        return Gpu(f"{host} {row['bus_id']}", BY_BUS)
    # An ordinal means something in its own process only.
    of_process = list(ranks.values())
    rank = ranks.get(row["pid"], of_process[0] if len(of_process) == 1 else None)
    who = f"rank {rank}" if rank is not None else label
    ordinal = row["ordinal"] if row["ordinal"] is not None else row["device_id"]
    return Gpu(f"{host} {who} GPU {ordinal}" if host else f"{who} GPU {ordinal}", BY_ORDINAL)


Array = np.ndarray
By = Literal["host", "device"]
Key = tuple[Any, ...]

_PLACE = ("rank", "pid", "tid", "ordinal", "device_id")
NUMBERED = frozenset({"profile", "rank", "pid", "tid", "ordinal", "device_id", "over_ranks"})
"""Keys that say where a row was measured and not of what it is."""


class RankAggregator:
    """Takes in a report's rows profile by profile. Of each value of each row 8 bytes are kept.

    `by`: three rows per host or physical device, else per run.
    """

    def __init__(self, first: Report, by: By | None) -> None:
        """Begin with the declaration of the first report."""
        self._by = by
        self._place = self._place_column()
        made = {"rank_count", *(c.name for c in self._place)}
        columns = [c for c in first.columns if c.name not in made | NUMBERED]
        self._keys = [c for c in columns if c.key]
        # Names and ids have no median, so they are kept if all ranks agree, else null.
        self._agreed = [c for c in columns if not c.key and c.unit in (Unit.TEXT, Unit.ID)]
        self._numeric = [c for c in columns if not c.key and c not in self._agreed]
        self._size = _size_column(first.columns)
        self._by_size = True
        self._numbers: dict[Key, int] = {}
        self._same: dict[str, dict[int, Any]] = {c.name: {} for c in self._agreed}
        self._groups: list[Array] = []
        self._placed_at: list[Array] = []
        self._places: dict[Key, int] = {}
        self._parts: dict[str, list[Array]] = {c.name: [] for c in self._numeric}
        self._identified_by: dict[str, int] = {}
        self._headers: list[Report] = []

    def add(self, report: Report, members: Mapping[str, RankProfile]) -> None:
        """Take in the report's rows; `members` by the label that their column `profile` has."""
        self._headers.append(replace(report, table=None))
        if report.table is None:
            return
        rows = [row for row in report.rows() if not row.get("over_ranks")]
        groups, places = np.empty((2, len(rows)), np.int64)
        only = next(iter(members.values())) if len(members) == 1 else None
        for i, row in enumerate(rows):
            member = members.get(row.get("profile", ""), only)
            place = (member and member.key, *map(row.get, _PLACE))
            places[i] = self._places.setdefault(place, len(self._places))
            key = (self._placed(row, member), *(row[c.name] for c in self._keys))
            groups[i] = number = self._numbers.setdefault(key, len(self._numbers))
            for column in self._agreed:
                known = self._same[column.name]
                same = known.setdefault(number, row[column.name]) == row[column.name]
                if not same:
                    known[number] = None
        self._groups.append(groups)
        self._placed_at.append(places)
        for column in self._numeric:
            self._parts[column.name].append(_array([row[column.name] for row in rows], column))
        self._by_size = self._by_size and self._is_by_size(rows)

    def _placed(self, row: dict[str, Any], member: RankProfile | None) -> str | None:
        if self._by is None or member is None:
            return None
        if self._by == "host":
            return member.host_of(row.get("rank"))
        gpu = member.gpus.get(row.get("device_id", -1))
        if gpu is None:
            return None
        self._identified_by[gpu.identified_by] = self._identified_by.get(gpu.identified_by, 0) + 1
        return gpu.label

    def _is_by_size(self, rows: Sequence[dict[str, Any]]) -> bool:
        """Return whether the rows of each place are ordered by size, the largest first."""
        if self._size is None:
            return False
        last: dict[Key, Any] = {}
        for row in rows:
            place = tuple(row.get(name) for name in ("profile", "rank", "pid", "device_id"))
            value = row[self._size.name]
            if value is None:
                continue
            if place in last and value > last[place]:
                return False
            last[place] = value
        return True

    def report(self, limit: int) -> Report:
        """Return three rows per key, of as many keys as fit in `limit` rows (0: all), at least one."""
        header = merged_header(self._headers)
        columns = self._columns()
        if not self._groups:
            return replace(header, columns=columns, table=None)
        groups = np.concatenate(self._groups)
        count = len(self._numbers)
        each = np.unique(np.stack((groups, np.concatenate(self._placed_at))), axis=1)
        sizes = np.bincount(each[0], minlength=count)
        spreads, left_out = {}, 0
        for column in self._numeric:
            values = np.concatenate(self._parts[column.name])
            spreads[column.name], missing = _spread(groups, values, count)
            left_out += missing
        order = self._order(spreads)
        kept = order[: max(limit // len(OVER_RANKS), 1)] if limit else order
        rows = [number for number in kept for _ in OVER_RANKS]
        keys = list(self._numbers)
        key_columns = enumerate([*self._place, *self._keys], 0 if self._place else 1)
        data: dict[str, Any] = {
            **{column.name: [keys[n][i] for n in rows] for i, column in key_columns},
            "over_ranks": list(OVER_RANKS) * len(kept),
            "rank_count": sizes[rows],
            **{name: [known[n] for n in rows] for name, known in self._same.items()},
            **{name: spread[kept].ravel() for name, spread in spreads.items()},
        }
        return replace(
            header,
            columns=columns,
            table=report_table(columns, data),
            notes=tuple(merged([*header.notes, *self._notes(left_out)])),
            row_count=count * len(OVER_RANKS),
        )

    def _order(self, spreads: dict[str, Array]) -> list[int]:
        # By host or device; then by the median of the size, where the reports are by size themselves,
        # else as first met.
        numbers = list(range(len(self._numbers)))
        if self._size is not None and self._by_size:
            median = spreads[self._size.name][:, 1].astype(np.float64)
            median[spreads[self._size.name][:, 1] == MISSING] = -np.inf
            numbers.sort(key=lambda n: -median[n])
        if self._by:
            places = [key[0] for key in self._numbers]
            numbers.sort(key=lambda n: (places[n] is None, _natural(places[n] or "")))
        return numbers

    def _place_column(self) -> list[Column]:
        if self._by == "host":
            doc = "Host on which the ranks ran; null: not recorded."
            return [Column("host", Unit.TEXT, doc, key=True)]
        if self._by == "device":
            doc = "Physical GPU; null: unknown."
            return [Column("gpu", Unit.TEXT, doc, key=True)]
        return []

    def _columns(self) -> tuple[Column, ...]:
        over_doc = "min, median or max: each value is that over the rows of all ranks by itself."
        over = Column("over_ranks", Unit.TEXT, over_doc, key=True)
        count_doc = (
            "Ranks that have such a row; of ranks with several devices or processes, rows of these."
        )
        count = Column("rank_count", Unit.COUNT, count_doc)
        return (*self._place, *self._keys, over, count, *self._agreed, *self._numeric)

    def _notes(self, left_out: int) -> list[Note]:
        notes = values_left_out(left_out, "min, median and max")
        for identified_by, count in self._identified_by.items():
            if identified_by != BY_UUID:
                reason = "rows of devices whose UUID is not recorded"
                text = f"{reason}; they are identified by the {identified_by}"
                notes.append(Note("devices-by-place", Severity.APPROXIMATED, text, count))
        return notes


def values_left_out(count: int, what: str) -> list[Note]:
    """Return the note on values that some ranks lack, which are not in `what`; none where none are."""
    text = f"values that a rank did not record are not in the {what}"
    return [Note("values-left-out", Severity.INFO, text, count)] if count else []


def are_ranks_of_one_job(profiles: Sequence[tuple[RankProfile, str]]) -> bool:
    """Return whether profiles, each with its source, are known to be of different ranks of one job.

    Recordings of one process are of one rank.
    """
    who_has: dict[int, Any] = {}
    for who, _ in profiles:
        if any(who_has.setdefault(rank, who.key) != who.key for rank in who.ranks):
            return False
    return all(who.ranks for who, _ in profiles) and len({source for _, source in profiles}) == 1


def job_size(columns: Sequence[Column]) -> Column | None:
    """Return the first sum over which ranks' rows can be added up; None: there is none."""
    return _size_column([column for column in columns if column.unit is not Unit.PCT])


def _size_column(columns: Sequence[Column]) -> Column | None:
    return next((c for c in columns if c.kind != "text" and (c.counted_by or c.adds)), None)


def _array(values: Sequence[Any], column: Column) -> Array:
    if column.kind == "int":
        return np.array([MISSING if v is None else v for v in values], np.int64)
    return np.array([np.nan if v is None else v for v in values], np.float64)


def _spread(groups: Array, values: Array, count: int) -> tuple[Array, int]:
    """Return per group least, median and greatest of its values that are there, a row each; and how many
    are not there while others of the group are.
    """
    whole = values.dtype == np.int64
    known = values != MISSING if whole else ~np.isnan(values)
    result = np.full((count, 3), MISSING if whole else np.nan)
    size = np.bincount(groups[known], minlength=count)
    some = size > 0
    order = np.lexsort((values[known], groups[known]))
    ordered = values[known][order]
    first = (np.cumsum(size) - size)[some]
    size = size[some]
    low, high = ordered[first + (size - 1) // 2], ordered[first + size // 2]
    # The median of integers is an integer, and a half is rounded up; low + high might overflow.
    middle = low + (high - low + 1) // 2 if whole else (low + high) / 2
    result[some] = np.stack((ordered[first], middle, ordered[first + size - 1]), axis=1)
    missing = int(np.count_nonzero(some[groups[~known]]))
    return result, missing


def _natural(text: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part[:1].isdigit() else (-1, part)
        for part in re.split(r"([0-9]+)", text)
    ]
