"""A comparison as a report: what changed, by how much and whether that is noise, before all else."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nsysconv.diff.compared import BOTH, PER_STEP, RowPair, main_measure, measures_of
from nsysconv.notes import Note
from nsysconv.report import Column, Report, common_slice, report_table
from nsysconv.units import Unit

_OF_ONE_NAME = ("name", "path")
_UNIT = re.compile(r"(?:_bytes_per_s|_ns|_bytes)$")


def changes_report(
    base: Sequence[Report],
    other: Sequence[Report],
    main: Column,
    keys: Sequence[str] = (),
    rows: Sequence[RowPair] | None = None,
    notes: Sequence[Note] = (),
    not_recorded: tuple[str, ...] = (),
) -> Report:
    """The rows of two sides' reports as one report; `main` is the measure that they are judged by.

    `rows` None: the comparison could not be made.
    """
    columns = base[0].columns
    several = len(base) > 1 or len(other) > 1
    declared = _columns(columns, main, keys, rows or (), several=several)
    table = None
    if rows is not None:
        table = report_table(declared, _cells(columns, main, keys, rows))
    return Report(
        name=f"diff_{base[0].name}",
        title=f"What changed: {base[0].title}",
        columns=declared,
        table=table,
        profiles=tuple(ref for report in (*base, *other) for ref in report.profiles),
        slice=common_slice((*base, *other)),
        notes=tuple(notes),
        not_recorded=not_recorded,
        advice=tuple(dict.fromkeys(a for report in (*base, *other) for a in report.advice)),
        row_count=len(rows or ()),
        folded=True,
    )


def without_unit(column: Column) -> str:
    """The name of a measure without its unit, which ratios and shares of it do not have."""
    return _UNIT.sub("", column.name)


def _columns(
    columns: Sequence[Column],
    main: Column,
    keys: Sequence[str],
    rows: Sequence[RowPair],
    *,
    several: bool,
) -> tuple[Column, ...]:
    result = [replace(column, brief=True) for column in columns if column.name in keys]
    result += [
        Column(
            "where",
            Unit.TEXT,
            "both; or only in base, only in other: rows of one side.",
            brief=any(row.where != BOTH for row in rows),
        ),
        Column(
            "verdict",
            Unit.TEXT,
            f"better or worse by the declaration of {main.name} (more or less where neither is better); "
            "same: by less than 3 %; ~: noise alone may have made the change.",
            optional=True,
        ),
        *_of_main(main, _counted_by(main, columns), several=several),
    ]
    for column in measures_of(columns):
        if column is not main:
            result += _of_measure(column, several=several)
        if has_verdict(column):
            result += _verdict_of(column)
    result += [
        Column(
            "basis",
            Unit.TEXT,
            "What the verdict rests on: exact (counted), repeats (Student's t over runs), within run "
            "(how steps vary, and what runs are assumed to differ by), single run (that alone).",
            brief=False,
        ),
        Column(
            "ratio_low", Unit.REAL, f"Least ratio of {main.name} that noise allows.", brief=False
        ),
        Column("ratio_high", Unit.REAL, "Greatest.", brief=False),
    ]
    if "name" in keys:
        text = "How the other side spells the name, if otherwise."
        result.append(Column("other_name", Unit.TEXT, text, brief=False))
    return tuple(result)


def _of_main(main: Column, counted_by: str, *, several: bool) -> list[Column]:
    """The columns of the measure that rows are judged by: the change before the values."""
    real = main.real or several
    plain = replace(main, real=real, brief=True)
    result = [
        replace(plain, name=f"diff_{main.name}", doc=f"Other minus base: {main.doc}"),
        Column("diff_pct", Unit.PCT, "That as a share of base.", real=True),
        Column(
            "interval",
            Unit.TEXT,
            "How far noise may have moved that share, at 95 %, and what the interval rests on.",
            optional=True,
        ),
        replace(plain, name=f"base_{main.name}", doc=f"Base: {main.doc}"),
        replace(plain, name=f"other_{main.name}", doc=f"Other: {main.doc}"),
        Column(f"ratio_{without_unit(main)}", Unit.REAL, "Other divided by base.", brief=False),
    ]
    if counted_by:
        by_count = f"What of the difference comes from another {counted_by}, at base's mean."
        by_mean = "The rest: what comes from another mean."
        result += [
            Column(f"{name}_{main.name}", main.unit, doc, real=real)
            for name, doc in (("by_count", by_count), ("by_mean", by_mean))
        ]
    return result


def _of_measure(column: Column, *, several: bool) -> list[Column]:
    """The columns of another measure: both values, the difference and the ratio, and its verdict."""
    plain = replace(column, real=column.real or several, brief=False)
    says = {"base": "Base", "other": "Other", "diff": "Other minus base"}
    result = [
        replace(plain, name=f"{which}_{column.name}", doc=f"{words}: {column.doc}")
        for which, words in says.items()
    ]
    ratio = Column(f"ratio_{without_unit(column)}", Unit.REAL, "Other divided by base.")
    return [*result, replace(ratio, brief=False, optional=column.optional)]


def _verdict_of(column: Column) -> list[Column]:
    """The columns of a measure's own verdict."""
    columns = (
        Column(f"verdict_{column.name}", Unit.TEXT, "As verdict, of this column."),
        Column(f"ratio_low_{without_unit(column)}", Unit.REAL, "As ratio_low."),
        Column(f"ratio_high_{without_unit(column)}", Unit.REAL, "As ratio_high."),
    )
    return [replace(each, brief=False, optional=column.optional) for each in columns]


def has_verdict(column: Column) -> bool:
    """Whether a column has a verdict: less or more of it is better, or it is counted."""
    return column.better is not None or column.unit is Unit.COUNT


def _counted_by(main: Column, columns: Sequence[Column]) -> str:
    """What counts the operations that a sum is of, where its change is split by that; else nothing.

    Only of rows that are of one name each: where a row holds several kernels, the mean changes with how
    often each of them runs.
    """
    of_one_name = any(each.key and each.name in _OF_ONE_NAME for each in columns)
    whole = main_measure(columns) if main.name == PER_STEP else main
    is_main = whole is main_measure(columns)
    return whole.counted_by if of_one_name and is_main else ""


def _cells(
    columns: Sequence[Column], main: Column, keys: Sequence[str], rows: Sequence[RowPair]
) -> dict[str, list[Any]]:
    """The report's columns."""
    spelled = [row.base or row.other for row in rows]
    cells: dict[str, list[Any]] = {name: [row[name] for row in spelled] for name in keys}
    cells["where"] = [row.where for row in rows]
    cells["verdict"] = [row.verdict(main) for row in rows]
    for column in measures_of(columns):
        name = column.name
        base = [row.base_values[name] for row in rows]
        other = [row.other_values[name] for row in rows]
        cells[f"base_{name}"], cells[f"other_{name}"] = base, other
        cells[f"diff_{name}"] = [row.differences[name] for row in rows]
        cells[f"ratio_{without_unit(column)}"] = [
            after / before if before and after is not None else None
            for before, after in zip(base, other, strict=True)
        ]
        if has_verdict(column):
            cells[f"verdict_{name}"] = [row.verdict(column) for row in rows]
            low, high = f"ratio_low_{without_unit(column)}", f"ratio_high_{without_unit(column)}"
            cells[low], cells[high] = _ends(rows, name)
    difference = cells[f"diff_{main.name}"]
    cells["diff_pct"] = [
        100 * more / before if before and more is not None else None
        for before, more in zip(cells[f"base_{main.name}"], difference, strict=True)
    ]
    cells["interval"] = [_interval(row, main) for row in rows]
    cells["basis"] = [_basis(row, main.name) for row in rows]
    cells["ratio_low"], cells["ratio_high"] = _ends(rows, main.name)
    counted_by = _counted_by(main, columns)
    if counted_by:
        whole = main_measure(columns).name
        more = [_from_count(row, main.name, whole, counted_by) for row in rows]
        cells[f"by_count_{main.name}"] = more
        cells[f"by_mean_{main.name}"] = [
            None if part is None or all_of_it is None else all_of_it - part
            for part, all_of_it in zip(more, difference, strict=True)
        ]
    if "name" in keys:
        there = [row.other.get("name") if row.base else None for row in rows]
        cells["other_name"] = [
            name if name != row["name"] else None for name, row in zip(there, spelled, strict=True)
        ]
    return cells


def _interval(row: RowPair, main: Column) -> str | None:
    change = row.change(main.name) if main.name in row.judged else None
    if change is None:
        return None
    # Of what one side alone has there is no share.
    return change.described(main.unit) if row.where == BOTH else change.runs


def _basis(row: RowPair, name: str) -> str | None:
    change = row.change(name) if name in row.judged else None
    return None if change is None else change.basis


def _ends(rows: Sequence[RowPair], name: str) -> tuple[list[float | None], list[float | None]]:
    """Both ends of the intervals of a measure's ratio."""
    ratios = [
        change.ratio if name in row.judged and (change := row.change(name)) is not None else None
        for row in rows
    ]
    low, high = (
        [None if r is None else getattr(r, end) for r in ratios] for end in ("low", "high")
    )
    return low, high


def _from_count(row: RowPair, main: str, whole: str, counted_by: str) -> Any:
    """The part of a sum's difference that another count makes at base's mean.

    (n1 - n0) * sum0 / n0; where one side has none, all of the difference. Whole where the sums are. Of
    a sum per step the counts are those per step.
    """
    difference = row.differences[main]
    spent, spent_after = row.base_values[main], row.other_values[main]
    before, after = row.base_values.get(counted_by), row.other_values.get(counted_by)
    if difference is None or before is None or after is None:
        return None
    if not before or not after:
        return difference
    if main != whole:
        before = _per_step(row.base_values, before, spent, whole)
        after = _per_step(row.other_values, after, spent_after, whole)
        if before is None or after is None:
            return None
    if isinstance(spent, int) and isinstance(before, int) and isinstance(after, int):
        twice = 2 * (after - before) * spent + before
        return twice // (2 * before)
    return (after - before) * spent / before


def _per_step(values: Mapping[str, Any], count: float, per_step: float, whole: str) -> float | None:
    """A count divided by the number of steps, which is the sum divided by the sum per step."""
    return count * per_step / values[whole] if values[whole] else None
