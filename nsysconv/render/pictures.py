"""What a report's picture is drawn of, whoever draws it: its rows, sorted into panels, and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from nsysconv.names import escaped
from nsysconv.report import Column, Report, Value
from nsysconv.units import Unit, scale_for

Number = int | float | None


@dataclass(frozen=True)
class Panel:
    """The rows of one picture, in the report's order.

    `title` is what they share (`rank 3, device 0`; empty where nothing tells panels apart), `labels`
    name each row, `values` are the picture's by column. Of a strip and a histogram `start` is where
    each bin starts, and `width` how long a strip's bins are. Texts hold no control character.
    """

    title: str
    labels: tuple[str, ...]
    values: Mapping[str, tuple[Number, ...]]
    start: tuple[Number, ...] = ()
    width: tuple[Number, ...] = ()


def panels(report: Report) -> list[Panel]:
    """The panels of a report's picture, in the order of their first rows; none where none is drawn.

    Rows of which nothing is recorded that could be drawn are left out.
    """
    picture, drawn = report.picture, report.drawn
    if picture is None or drawn is None:
        return []
    columns = {column.name: column for column in report.columns}
    values = dict(zip(columns, replace(report, table=drawn).by_column(), strict=True))
    apart = ("profile", *picture.by) if len(report.profiles) > 1 else picture.by
    members: dict[tuple[Value, ...], list[int]] = {}
    for i in range(len(drawn)):
        if any(values[name][i] is not None for name in picture.values):
            members.setdefault(tuple(values[name][i] for name in apart), []).append(i)
    binned = picture.kind in ("histogram", "strip")
    found = []
    for key, rows in members.items():
        shared = (_named(columns[name], v) for name, v in zip(apart, key, strict=True))
        found.append(
            Panel(
                ", ".join(word for word in shared if word),
                _labels([columns[name] for name in picture.x], values, rows),
                {name: _numbers(values[name], rows) for name in picture.values},
                _numbers(values[picture.x[0]], rows) if binned else (),
                _numbers(values[picture.width], rows) if picture.width else (),
            )
        )
    return found


def largest_value(shown: Sequence[Panel], name: str) -> float:
    """The largest value of a column in these panels, 0 at least."""
    return max((v for panel in shown for v in panel.values[name] if v is not None), default=0)


def with_unit(value: float, unit: Unit) -> str:
    """A bound of a bin with its unit: `10 µs`, `0 ns`."""
    divisor, name = scale_for(unit, value)
    return f"{value / divisor:g} {name}".rstrip()


def _numbers(values: Sequence[Value], rows: Sequence[int]) -> tuple[Number, ...]:
    chosen = (values[i] for i in rows)
    return tuple(value if isinstance(value, int | float) else None for value in chosen)


def _labels(
    columns: Sequence[Column], values: Mapping[str, Sequence[Value]], rows: Sequence[int]
) -> tuple[str, ...]:
    """A label per row: its first column, and of the others those that tell the rows apart."""
    first, *others = columns
    kept = [first, *(c for c in others if len({values[c.name][i] for i in rows}) > 1)]
    if all(values[first.name][i] is None for i in rows):
        kept = [c for c in columns if c in kept[1:] or values[c.name][rows[0]] is not None]
    return tuple(
        ", ".join(word for c in kept if (word := _label(c, values[c.name][i]))) or "-" for i in rows
    )


def _label(column: Column, value: Value) -> str:
    if value is None or column.unit is Unit.TEXT:
        return escaped(str(value)) if value is not None else ""
    if column.unit is Unit.ID:
        return _named(column, value)
    return f"≥ {with_unit(float(value), column.unit)}"


def _named(column: Column, value: Value) -> str:
    """`device 0`, `kind no_op`; nothing where there is no value."""
    return "" if value is None else f"{column.name.removesuffix('_id')} {escaped(str(value))}"
