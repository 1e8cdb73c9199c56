"""The answers of many profiles to one report, taken in one by one, as one report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from nsysconv import queries
from nsysconv.notes import Note, merged
from nsysconv.queries import CombinedReport, PartialReport
from nsysconv.queries.columns import PROFILE, RANK
from nsysconv.queries.contract import Request
from nsysconv.ranks.over_ranks import By, RankAggregator, RankProfile
from nsysconv.report import Column, Printed, Report, concatenated, report_table

MOST_BESIDE = 8
"""Of more profiles than this, rows become three: of the least, the median and the greatest value."""

# So many rows of each profile people see at least, where those of a few stand below each other.
_FEWEST_FOR_PEOPLE = 5


@dataclass(frozen=True)
class Rows:
    """How many rows of a report are shown (0: all), and whether that is so by default, for people."""

    limit: int
    by_default: bool = False

    def of_each(self, profiles: int) -> int:
        """How many of each profile, where rows of several stand below each other."""
        if profiles == 1 or not self.limit:
            return self.limit
        fewest = _FEWEST_FOR_PEOPLE if self.by_default and profiles <= MOST_BESIDE else 1
        return max(self.limit // profiles, fewest)


def rows(spec: str, limit: int | None, *, for_people: bool) -> Rows:
    """How many rows of a report are shown if `limit` was asked for; None: nothing was."""
    if limit is not None:
        return Rows(limit)
    return Rows(queries.default_limit(spec, for_people=for_people), by_default=for_people)


class Combined:
    """One report over the profiles of a run.

    `by`: "rank" keeps the rows of all below each other, "host" and "device" make three of all rows of
    each of these, None does so of all of the run if it has more than MOST_BESIDE profiles.
    """

    def __init__(self, spec: str, by: str | None, shown: Rows, request: Request) -> None:
        self.spec = spec
        self._shown = shown
        name = queries.parse_spec(spec).name
        columns = {column.name for column in queries.query(name).columns}
        self._may_reduce = name not in queries.IN_TIME and by not in ("rank", "step")
        self._by: By | None = None
        if self._may_reduce and (by == "host" or (by == "device" and "device_id" in columns)):
            self._by = "host" if by == "host" else "device"
        self._over_ranks: CombinedReport | None = None
        if name in queries.OVER_RANKS:
            limit = 0 if self._by else shown.limit
            self._over_ranks = CombinedReport(spec, replace(request, limit=limit))
        self._beside: list[tuple[RankProfile, Report]] = []
        self._extremes: RankAggregator | None = None

    def limit_of_each(self, profiles: int | None) -> int:
        """How many rows a profile has to give at most, of so many (None: not known); 0: all."""
        many = profiles is None or profiles > MOST_BESIDE
        reduced = self._may_reduce and (self._by is not None or many)
        return 0 if reduced else self._shown.limit

    def add(self, given: Report | PartialReport, member: RankProfile) -> None:
        """Takes in what a profile says."""
        if isinstance(given, PartialReport):
            assert self._over_ranks is not None
            self._over_ranks.add(given)
            return
        if self._extremes is not None:
            self._extremes.add(given, {member.label: member})
            return
        self._beside.append((member, given))
        if self._by or (self._may_reduce and len(self._beside) > MOST_BESIDE):
            self._reduce()

    def _reduce(self) -> None:
        self._extremes = RankAggregator(self._beside[0][1], self._by)
        for member, report in self._beside:
            self._extremes.add(report, {member.label: member})
        self._beside.clear()

    def report(self, members: Mapping[str, RankProfile], census: list[Note]) -> Report:
        """The report; `members` are all profiles by label, `census` what is to be said of them."""
        found = self._report(members)
        if len(members) == 1:
            return found
        return replace(found, notes=tuple(merged([*found.notes, *census])))

    def _report(self, members: Mapping[str, RankProfile]) -> Report:
        if self._over_ranks is not None:
            whole = self._over_ranks.report()
            if self._by is None or whole.table is None:
                return whole
            self._extremes = RankAggregator(whole, self._by)
            self._extremes.add(whole, members)
        if self._extremes is not None:
            return self._extremes.report(self._shown.limit)
        self._beside.sort(key=lambda each: each[0].order)
        count = len(self._beside)
        each = self._shown.of_each(count)
        reports = [
            (_named(report, member) if count > 1 else report).limited(each)
            for member, report in self._beside
        ]
        return concatenated(reports)


def _named(report: Report, member: RankProfile) -> Report:
    """The report with columns that say whose rows these are, where it has none."""
    own = {column.name for column in report.columns}
    if "profile" in own:
        return report
    values: dict[str, Any] = {"profile": member.label, "rank": member.rank}
    more = [column for column in _WHOSE if column.name not in own]
    if not report.is_printed:
        more = [replace(column, printed=None) for column in more]

    def wider(table: pa.Table) -> pa.Table:
        for place, column in enumerate(more):
            same = report_table([column], {column.name: [values[column.name]] * table.num_rows})
            table = table.add_column(place, column.name, same.column(0))
        return table

    return replace(
        report,
        columns=(*more, *report.columns),
        table=None if report.table is None else wider(report.table),
        uncut=None if report.uncut is None else wider(report.uncut),
    )


_WHOSE: tuple[Column, ...] = (
    replace(PROFILE, printed=Printed("Profile")),
    replace(RANK, printed=Printed("Rank")),
)
