"""Rows of many ranks as one per key: sums of the whole job, and which ranks have most and least."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nsysconv.notes import merged
from nsysconv.ranks.over_ranks import NUMBERED, RankProfile, job_size, values_left_out
from nsysconv.report import Column, Report, Unit, merged_header, report_table
from nsysconv.timeline.arrays import percent

# The columns in which a table of ranks' rows has who a row is of.
_WHO, _OF_RANK = "_who", "_of_rank"
_MET = "_met"  # the number of a row among all, as they were added
_ALL = "_all"  # the key where a report has none: its rows are one


class JobAggregator:
    """Adds up the rows of one key over all ranks.

    Means are the sums divided by their counts, shares are of the table's rows. What rows of ranks do not
    give, such as a median, has no column.
    """

    def __init__(self, first: Report) -> None:
        """Begin with the declaration of the first report, which has a sum (`job_size`)."""
        size = job_size(first.columns)
        assert size is not None
        self._size = size
        own = [c for c in first.columns if c.name not in NUMBERED and not c.distinct]
        self._keys = [c for c in own if c.key]
        others = [c for c in own if not c.key]
        self._key_names = [c.name for c in self._keys] or [_ALL]
        self._agreed = [c for c in others if c.unit in (Unit.TEXT, Unit.ID)]
        self._shares = [c for c in others if c.adds and c.unit is Unit.PCT]
        self._how = {
            c.name: how
            for c in others
            if c not in self._agreed and c not in self._shares and (how := _how_to_combine(c))
        }
        totals = {c.unit: c for c in reversed(others) if c.counted_by in self._how}
        self._means = {c: totals[c.unit] for c in others if _is_mean(c) and c.unit in totals}
        first_ones = [c for c in others if self._how.get(c.name) == "sum" or c in self._shares]
        last = [c for c in others if c in self._agreed or c in self._means or c.name in self._how]
        columns = dict.fromkeys((*self._keys, *first_ones, *_columns_over_ranks(size), *last))
        self._columns = tuple(columns)
        self._who: dict[Any, int] = {}
        self._tables: list[pa.Table] = []
        self._headers: list[Report] = []
        self._by_size = True

    def add(self, report: Report, members: Mapping[str, RankProfile]) -> None:
        """Take in the rows of one profile, the only one of `members`."""
        self._headers.append(replace(report, table=None))
        if report.table is None:
            return
        table = report.to_arrow()
        (who,) = members.values()
        number = self._who.setdefault(who.key, len(self._who))
        ranks = table.column("rank").to_pylist() if "rank" in table.column_names else []
        ranks = [who.rank if rank is None else rank for rank in ranks or [None] * len(table)]
        names = [*(c.name for c in (*self._keys, *self._agreed)), *self._how]
        numbered = {
            _WHO: pa.array([number] * len(table), pa.int64()),
            _ALL: pa.array([0] * len(table), pa.int64()),
            _OF_RANK: pa.array(ranks, pa.int64()),
        }
        sizes = pc.drop_null(table[self._size.name]).to_numpy()
        self._by_size = self._by_size and bool((sizes[1:] <= sizes[:-1]).all())
        self._tables.append(pa.table({name: table[name] for name in names} | numbered))

    def report(self, limit: int) -> Report:
        """Return a row per key, of at most `limit` keys (0: all), the largest first."""
        header = merged_header(self._headers)
        header = replace(header, title=f"{header.title}, all ranks", columns=self._columns)
        if not self._tables:
            return replace(header, table=None)
        size, rows = self._size.name, pa.concat_tables(self._tables)
        rows = rows.append_column(_MET, pa.array(np.arange(len(rows))))
        values, left_out = self._combined(rows)
        values |= self._spread(rows)
        for mean, total in self._means.items():
            count = pc.cast(values[total.counted_by], pa.float64())
            count = pc.if_else(pc.equal(count, 0), None, count)
            values[mean.name] = pc.divide(values[total.name], count)
        spent = pc.fill_null(values[size], 0).to_numpy()
        for share in self._shares:
            values[share.name] = pa.array(percent(spent, int(spent.sum()) or 1))
        # By size where the reports are by size themselves, else as first met: trees are.
        order = np.argsort(-spent, kind="stable") if self._by_size else np.arange(len(spent))
        kept = order[:limit] if limit else order
        data = {c.name: values[c.name].take(kept).to_pylist() for c in self._columns}
        return replace(
            header,
            table=report_table(self._columns, data),
            notes=tuple(merged([*header.notes, *values_left_out(left_out, "sums")])),
            row_count=len(spent),
        )

    def _combined(self, rows: pa.Table) -> tuple[dict[str, pa.ChunkedArray], int]:
        # The values of each key, as first met, and how many are null in sums that others have values in.
        sums = [name for name, how in self._how.items() if how == "sum"]
        distinct, is_null = (pc.CountOptions(mode=mode) for mode in ("all", "only_null"))
        agreed = [c.name for c in self._agreed]
        wanted = [
            *self._how.items(),
            *((name, "count", is_null) for name in sums),
            *((name, "one") for name in agreed),
            *((name, "count_distinct", distinct) for name in agreed),
        ]
        found = self._by_key(rows, _MET, wanted)
        values = {name: found[name] for name in self._key_names}
        values |= {name: found[f"{name}_{how}"] for name, how in self._how.items()}
        for name in agreed:
            same = pc.equal(found[f"{name}_count_distinct"], 1)
            values[name] = pc.if_else(same, found[f"{name}_one"], None)
        nulls = (pc.if_else(values[n].is_valid(), found[f"{n}_count"], 0) for n in sums)
        return values, sum(pc.sum(each).as_py() or 0 for each in nulls)

    def _spread(self, rows: pa.Table) -> dict[str, pa.ChunkedArray]:
        # The values of `_columns_over_ranks` for each key, as first met.
        size, met = f"{self._size.name}_sum", f"{_MET}_min"
        of_rank = rows.group_by([*self._key_names, _WHO, _OF_RANK], use_threads=False)
        of_ranks = of_rank.aggregate([(self._size.name, "sum"), (_MET, "min")])
        of_ranks = of_ranks.sort_by([(size, "descending"), (_OF_RANK, "ascending")])
        nulls = pc.ScalarAggregateOptions(skip_nulls=False)
        ends = [(_OF_RANK, "first", nulls), (_OF_RANK, "last", nulls)]
        wanted = [([], "count_all"), (size, "max"), (size, "min"), *ends]
        found = self._by_key(of_ranks, met, wanted)
        names = (c.name for c in _columns_over_ranks(self._size))
        places = (
            "count_all",
            f"{size}_max",
            f"{size}_min",
            f"{_OF_RANK}_first",
            f"{_OF_RANK}_last",
        )
        return {name: found[place] for name, place in zip(names, places, strict=True)}

    def _by_key(self, rows: pa.Table, met: str, wanted: list[Any]) -> pa.Table:
        grouped = rows.group_by(self._key_names, use_threads=False)
        return grouped.aggregate([*wanted, (met, "min")]).sort_by(f"{met}_min")


def _how_to_combine(column: Column) -> str | None:
    # Arrow's word for how values of several ranks become one; None: they do not.
    if column.is_extreme and not column.optional:
        return "min" if "min" in column.name.split("_") else "max"
    return "sum" if column.adds_up else None


def _is_mean(column: Column) -> bool:
    return column.name == f"avg_{column.unit.value}"


def _columns_over_ranks(size: Column) -> tuple[Column, ...]:
    unit = size.unit
    of_one = f"`{size.name}` of a single rank."
    return (
        Column("rank_count", Unit.COUNT, "Ranks that have such a row.", distinct=True),
        Column(f"rank_max_sum_{unit.value}", unit, f"Greatest {of_one}", better="less"),
        Column(f"rank_min_sum_{unit.value}", unit, f"Least {of_one}"),
        Column("max_rank", Unit.ID, "Rank with the greatest sum; null: its number is unknown."),
        Column("min_rank", Unit.ID, "Rank with the least sum; null: its number is unknown."),
    )
