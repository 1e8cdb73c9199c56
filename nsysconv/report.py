"""Reports: typed tables with declared columns. Headers, docs, JSON and diff come from the declaration."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pyarrow as pa

from nsysconv.notes import ANSWERS, Note, Severity, merged

if TYPE_CHECKING:
    import pandas as pd

Better = Literal["less", "more"]
Kind = Literal["int", "float", "text"]
Value = int | float | str | None

# Means "not recorded" in int64 arrays inside the program; it is null in every table that leaves it.
MISSING = int(np.iinfo(np.int64).min)

_ROWS_AT_ONCE = 4096
_MOST_ANSWERS = 8
_EXTREME = re.compile(r"(?:^|_)(?:min|max)(?:_|$)")
_ORDER_STATISTIC = re.compile(r"(?:^|_)(?:min|max|med|p\d+|stddev)(?:_|$)")
_ARROW = {"int": pa.int64(), "float": pa.float64(), "text": pa.string()}


class Unit(StrEnum):
    """The unit of a column. `TEXT` and `ID` are no quantities; `REAL` has any unit."""

    TEXT = "text"
    ID = "id"
    COUNT = "count"
    REAL = "real"
    NS = "ns"
    BYTES = "bytes"
    PCT = "%"
    BYTES_PER_S = "bytes/s"
    FLOP_PER_S = "FLOP/s"
    HZ = "Hz"


_FRACTIONS = (Unit.PCT, Unit.BYTES_PER_S, Unit.FLOP_PER_S, Unit.REAL)


@dataclass(frozen=True)
class Column:
    """A column of a report.

    `key` columns identify a row (diff aligns by them); `better` is the direction of an improvement;
    `brief` columns are shown even if there is little room; `real` marks means and other fractions of an
    integer quantity. Values of `adds` columns may be added up over rows, as all counts may; `counted_by`
    names the column that counts the addends of such a sum. People see `optional` columns only if a row
    has a value. `distinct` columns count what several rows may share: they are not added up.
    """

    name: str
    unit: Unit
    doc: str
    key: bool = False
    better: Better | None = None
    brief: bool = True
    real: bool = False
    adds: bool = False
    counted_by: str = ""
    optional: bool = False
    distinct: bool = False

    @property
    def kind(self) -> Kind:
        """Return the type of the column's values."""
        if self.unit is Unit.TEXT:
            return "text"
        is_real = self.real or self.unit in _FRACTIONS
        return "float" if is_real else "int"

    @property
    def is_extreme(self) -> bool:
        """Return whether it is the least or greatest of several values."""
        return _EXTREME.search(self.name) is not None

    @property
    def is_order_statistic(self) -> bool:
        """Return whether it is an order statistic or a spread: neither a sum nor a mean."""
        return _ORDER_STATISTIC.search(self.name) is not None

    @property
    def is_counted(self) -> bool:
        """Return whether it counts, operations or bytes, so that noise does not change it."""
        return self.unit in (Unit.COUNT, Unit.BYTES)

    @property
    def adds_up(self) -> bool:
        """Return whether its values may be added up over rows."""
        sums = self.unit is Unit.COUNT or self.adds or bool(self.counted_by)
        return sums and not self.is_extreme and not self.distinct


@dataclass(frozen=True)
class ProfileRef:
    """The profile that a report speaks of."""

    id: int
    label: str
    source: str
    path: str


@dataclass(frozen=True)
class Report:
    """A typed table with its profiles, slice and notes.

    `table` is None if the report could not be answered; then `not_recorded` names what is missing.
    Its texts are dictionary-encoded (`report_table`): thousands of rows may have one long name.
    `row_count` counts all rows, also those that `limited` cut off.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    table: pa.Table | None
    profiles: tuple[ProfileRef, ...] = ()
    slice: Mapping[str, Any] | None = None
    notes: tuple[Note, ...] = ()
    not_recorded: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    row_count: int = 0

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table of the declared columns; none if nothing was recorded."""
        if self.table is None:
            return build_table(self.columns, {column.name: [] for column in self.columns})
        plain = [(column.name, _ARROW[column.kind]) for column in self.columns]
        return self.table.cast(pa.schema(plain))

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a DataFrame of Arrow-backed columns: integers with nulls stay integers."""
        import pandas as pd

        frame: pd.DataFrame = self.to_arrow().to_pandas(types_mapper=pd.ArrowDtype)
        return frame

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries, null as None."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.tuples()]

    def tuples(self) -> Iterator[tuple[Value, ...]]:
        """Iterate over the rows in the order of the declared columns; null and NaN are None.

        Rows are converted a few thousand at a time, so that a long listing is never in memory as objects.
        """
        if self.table is None:
            return iter(())
        columns = [_python_values(self.table.column(column.name)) for column in self.columns]
        return zip(*columns, strict=True)

    def by_column(self) -> list[list[Value]]:
        """Return the values as one list per declared column; null and NaN are None."""
        if self.table is None:
            return [[] for _ in self.columns]
        return [list(_python_values(self.table.column(column.name))) for column in self.columns]

    def limited(self, limit: int) -> Self:
        """Return the report with at most `limit` rows (0 = all); `row_count` keeps the full number."""
        if self.table is None or not limit or self.table.num_rows <= limit:
            return self
        return replace(self, table=self.table.slice(0, limit))


def concatenated(reports: Sequence[Report]) -> Report:
    """Return the same report on several profiles as one, the rows of each below those before.

    Profiles that did not record it have no rows, and a note counts them; the result is not recorded
    only if no profile recorded it.
    """
    first = reports[0]
    if len(reports) == 1:
        return first
    recorded = [report for report in reports if report.table is not None]
    header = merged_header(reports)
    return replace(
        header,
        table=pa.concat_tables([report.table for report in recorded]) if recorded else None,
        not_recorded=() if recorded else header.not_recorded,
        row_count=sum(report.row_count for report in reports),
    )


def merged_header(reports: Sequence[Report]) -> Report:
    """Return the report without rows for several profiles: their slice, notes and advice merged."""
    first = reports[0]
    if len(reports) == 1:
        return first
    silent = [report for report in reports if report.not_recorded]
    missing = tuple(dict.fromkeys(name for report in silent for name in report.not_recorded))
    notes = [*_answers_of_each(reports), *_notes_of_all(reports)]
    if 0 < len(silent) < len(reports):
        text = f"profiles that did not record {', '.join(missing)}; they are not in this table"
        where = silent[0].profiles[0].label if silent[0].profiles else ""
        notes.append(Note("not-recorded-by-some", Severity.INFO, text, len(silent), where))
    return replace(
        first,
        table=None,
        profiles=tuple(ref for report in reports for ref in report.profiles),
        slice=common_slice(reports),
        notes=tuple(merged(notes)),
        not_recorded=missing,
        advice=tuple(dict.fromkeys(line for report in reports for line in report.advice)),
        row_count=0,
    )


def _notes_of_all(reports: Sequence[Report]) -> list[Note]:
    return [note for report in reports for note in report.notes if note.slug not in ANSWERS]


def _answers_of_each(reports: Sequence[Report]) -> Iterator[Note]:
    # The first ones of many profiles.
    answers = [
        replace(note, text=f"{report.profiles[0].label}: {note.text}")
        for report in reports
        for note in report.notes
        if note.slug in ANSWERS
    ]
    yield from answers[:_MOST_ANSWERS]
    if len(answers) > _MOST_ANSWERS:
        more = f"and {len(answers) - _MOST_ANSWERS:,} more profiles"
        yield replace(answers[-1], text=more)


def common_slice(reports: Sequence[Report]) -> Mapping[str, Any] | None:
    """Return the slice of all reports; without its times if these differ."""
    slices = [dict(report.slice) for report in reports if report.slice is not None]
    if not slices:
        return None
    if any(part != slices[0] for part in slices):
        for moment in ("start_ns", "end_ns"):
            slices[0].pop(moment, None)
    return slices[0]


def build_table(
    columns: Sequence[Column], data: Mapping[str, Sequence[Any] | np.ndarray]
) -> pa.Table:
    """Return an Arrow table of the declared columns; MISSING, NaN and None become null.

    It is built from buffers: `pa.array` would import pandas, which takes 0.3 s.
    """
    arrays = [array_of(data[column.name], column.kind) for column in columns]
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def report_table(
    columns: Sequence[Column], data: Mapping[str, Sequence[Any] | np.ndarray]
) -> pa.Table:
    """Return a `Report.table`: as `build_table`, with each text of a column held once."""
    arrays = [
        _dictionary_encoded(data[column.name])
        if column.kind == "text"
        else array_of(data[column.name], column.kind)
        for column in columns
    ]
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def _dictionary_encoded(texts: Sequence[Any] | np.ndarray) -> pa.DictionaryArray:
    places: dict[str, int] = {}
    indices = [None if t is None else places.setdefault(str(t), len(places)) for t in texts]
    return pa.DictionaryArray.from_arrays(array_of(indices, "int"), _text(list(places)))


def _python_values(column: pa.ChunkedArray) -> Iterator[Value]:
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            spell: Callable[[Any], Value] | None = _used_texts(chunk).get
            chunk = chunk.indices
        else:
            spell = _finite if pa.types.is_floating(chunk.type) else None
        # Whole numbers without nulls are ten times as fast by way of numpy.
        is_plain = spell is None and pa.types.is_integer(chunk.type) and not chunk.null_count
        for first in range(0, len(chunk), _ROWS_AT_ONCE):
            some = chunk.slice(first, _ROWS_AT_ONCE)
            values = values_of(some).tolist() if is_plain else some.to_pylist()
            yield from values if spell is None else map(spell, values)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _used_texts(chunk: pa.DictionaryArray) -> dict[int, str]:
    used = np.flatnonzero(np.bincount(values_of(chunk.indices, -1) + 1)[1:])
    return {place: chunk.dictionary[place].as_py() for place in used.tolist()}


_NUMPY_NAMES = {"double": "float64", "float": "float32"}


def values_of(column: pa.Array, null: float = MISSING) -> np.ndarray:
    """Return an Arrow column of numbers as a numpy array, `null` where nothing was recorded.

    It is built from buffers: `to_numpy`, and `to_pandas_dtype` of some releases, would import pandas.
    """
    length, offset = len(column), column.offset
    name = str(column.type)
    kind = np.dtype(_NUMPY_NAMES.get(name, name))
    validity, data = column.buffers()
    if not length:
        return np.empty(0, kind)
    values: np.ndarray = np.frombuffer(data, kind, length + offset)[offset:]
    if column.null_count:
        bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
        values = np.where(bits[offset : offset + length].astype(bool), values, null)
    return values


def edges_and_data(column: pa.Array) -> tuple[np.ndarray, pa.Buffer]:
    """Return where in the data each text begins, with the end of the last, and the data.

    `column` has texts or bytes, with offsets of 32 bits, and no nulls.
    """
    _, edges, data = column.buffers()
    starts = np.frombuffer(edges, np.int32, len(column) + 1, 4 * column.offset)
    return starts, pa.py_buffer(b"") if data is None else data


def text_parts(column: pa.Array, begin: np.ndarray, end: np.ndarray) -> pa.Array:
    """Return what of each text lies between these places in the column's data, every other one.

    No byte is copied: the parts, and as nulls what lies between them, alternate.
    """
    _, data = edges_and_data(column)
    alternating = np.append(np.stack([begin, end], axis=1).ravel(), end[-1:]).astype(np.int32)
    every_other = np.full(len(end) // 4 + 1, 0b01010101, np.uint8)
    return pa.Array.from_buffers(
        column.type, 2 * len(end), [pa.py_buffer(every_other), pa.py_buffer(alternating), data]
    )


def number_parts(
    column: pa.Array, begin: np.ndarray, end: np.ndarray
) -> tuple[np.ndarray, pa.Array]:
    """Return the number of each text's part between these places in the data, and all that differ."""
    encoded = text_parts(column, begin, end).dictionary_encode()
    numbers: np.ndarray = values_of(encoded.indices, -1)[::2]
    return numbers, encoded.dictionary


def array_of(values: Sequence[Any] | np.ndarray, kind: Kind) -> pa.Array:
    """Return the values as an Arrow array; MISSING, NaN and None become null."""
    if kind == "text":
        return _text(values)
    null, numpy_type = (MISSING, np.int64) if kind == "int" else (np.nan, np.float64)
    if isinstance(values, list | tuple):
        values = [null if v is None else v for v in values]
    array = np.ascontiguousarray(values, numpy_type)
    return numbers(array, array != MISSING if kind == "int" else ~np.isnan(array), kind)


def numbers(values: np.ndarray, valid: np.ndarray, kind: Kind) -> pa.Array:
    """Return int64 or float64 values as an Arrow array, null where `valid` is false."""
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(_ARROW[kind], len(values), [bitmap, pa.py_buffer(values)])


def _text(values: Sequence[str | None] | np.ndarray) -> pa.Array:
    # Arrow text is UTF-8, which has no lone surrogates: they are spelled out.
    encoded = [b"" if v is None else str(v).encode("utf-8", "backslashreplace") for v in values]
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    valid = np.array([v is not None for v in values], bool)
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(_ARROW["text"], len(encoded), buffers)


# -- how a value looks to a person; values themselves stay in base units

# (smallest value shown in this unit, its divisor, its name): decimal steps, as the definitions say:
# MB = 10^6 bytes.
_SCALES: dict[Unit, tuple[tuple[float, float, str], ...]] = {
    Unit.NS: ((1e9, 1e9, "s"), (1e6, 1e6, "ms"), (1e3, 1e3, "µs"), (0, 1, "ns")),
    Unit.BYTES: ((1e9, 1e9, "GB"), (1e6, 1e6, "MB"), (1e3, 1e3, "kB"), (0, 1, "B")),
    Unit.BYTES_PER_S: ((1e9, 1e9, "GB/s"), (1e6, 1e6, "MB/s"), (1e3, 1e3, "kB/s"), (0, 1, "B/s")),
    Unit.FLOP_PER_S: (
        (1e15, 1e15, "PFLOP/s"),
        (1e12, 1e12, "TFLOP/s"),
        (1e9, 1e9, "GFLOP/s"),
        (1e6, 1e6, "MFLOP/s"),
        (0, 1, "FLOP/s"),
    ),
    Unit.HZ: ((1e9, 1e9, "GHz"), (1e6, 1e6, "MHz"), (1e3, 1e3, "kHz"), (0, 1, "Hz")),
}


def scale_for(unit: Unit, largest: float) -> tuple[float, str]:
    """Return the divisor and the unit's name in which a column with this largest value reads well."""
    for smallest, divisor, name in _SCALES.get(unit, ()):
        if abs(largest) >= smallest:
            return divisor, name
    return 1, "%" if unit is Unit.PCT else ""


def utc(ns: int) -> str:
    """Return a time of day for people, from ns since 1970: `2026-01-01 00:00:00 UTC`."""
    return f"{datetime.fromtimestamp(ns // 10**9, UTC):%Y-%m-%d %H:%M:%S} UTC"


def human(value: float, unit: Unit) -> str:
    """Return one value with its unit, for sentences: `1.23 ms`, `512 B`, `97.0 %`."""
    divisor, name = scale_for(unit, value)
    number = value / divisor
    text = f"{number:,.0f}" if divisor == 1 and unit is not Unit.PCT else f"{number:,.2f}"
    return f"{text} {name}".rstrip()
