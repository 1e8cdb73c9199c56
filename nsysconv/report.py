"""Reports: typed tables with declared columns. Headers, docs, JSON and diff come from the declaration."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from nsysconv.notes import Note, Severity, merged
from nsysconv.units import Unit

if TYPE_CHECKING:
    import pandas as pd

Better = Literal["less", "more"]
Kind = Literal["int", "float", "text"]
Value = int | float | str | None

# Stands for "not recorded" in int64 arrays inside the program; it is null in every table that leaves it.
MISSING = int(np.iinfo(np.int64).min)

_ROWS_AT_ONCE = 4096
_EXTREME = re.compile(r"(?:^|_)(?:min|max)(?:_|$)")
_ORDER_STATISTIC = re.compile(r"(?:^|_)(?:min|max|med|p\d+|stddev)(?:_|$)")
_ARROW = {"int": pa.int64(), "float": pa.float64(), "text": pa.string()}


@dataclass(frozen=True)
class Printed:
    """How a table that people know from elsewhere prints a column: its header, and what numbers are
    divided by and then rounded to (half away from zero; None: integers stay as they are).
    """

    header: str
    decimals: int | None = None
    per: int = 1


@dataclass(frozen=True)
class Column:
    """A column of a report.

    `key` columns identify a row (diff aligns by them); `better` says which direction is an improvement;
    `brief` columns are shown where there is little room; `real` marks means and the like of an integer
    quantity; `prose` columns hold sentences, which a terminal shows below the table. Values of `adds`
    columns may be added up over rows, as all counts may; `counted_by` names the column that counts what
    such a sum is of. `printed` columns belong to a table that is printed as people know it; `said` ones
    people are told in words, in place of a column; `optional` ones they see where a row has a value, and
    are not told of where none has.
    """

    name: str
    unit: Unit
    doc: str
    key: bool = False
    better: Better | None = None
    brief: bool = True
    real: bool = False
    prose: bool = False
    adds: bool = False
    counted_by: str = ""
    printed: Printed | None = None
    said: bool = False
    optional: bool = False

    @property
    def kind(self) -> Kind:
        """The type of the column's values."""
        if self.unit is Unit.TEXT:
            return "text"
        return (
            "float" if self.real or self.unit in (Unit.PCT, Unit.BYTES_PER_S, Unit.REAL) else "int"
        )

    @property
    def is_extreme(self) -> bool:
        """Whether it is the least or greatest of several values."""
        return _EXTREME.search(self.name) is not None

    @property
    def is_order_statistic(self) -> bool:
        """Whether it is one of several values in order, or their spread: neither a sum nor a mean."""
        return _ORDER_STATISTIC.search(self.name) is not None

    @property
    def adds_up(self) -> bool:
        """Whether its values may be added up over rows."""
        sums = self.unit is Unit.COUNT or self.adds or bool(self.counted_by)
        return sums and not self.is_extreme


@dataclass(frozen=True)
class Picture:
    """What a report is best drawn as; the names are those of its columns.

    | kind | drawn | x | values |
    |---|---|---|---|
    | bars | a bar per row and value, side by side | names the row, as one label | lengths, of one unit |
    | stacked | a bar per row, the values laid end to end | names the row | parts of one whole |
    | histogram | as stacked, over bins in order | lower edge of the row's bin | parts of the bin |
    | strip | a value over time | when the row's bin starts | what there was in the bin |

    Of several `x` columns those with a value make the label. A strip's bins last as long as `width`
    says. Rows that differ in the `by` columns are in different pictures; so are those of different
    profiles. `shared`: these have one x axis, so that what stands below each other was at the same time.
    What is null is not recorded and not drawn.
    """

    kind: Literal["bars", "stacked", "histogram", "strip"]
    x: tuple[str, ...]
    values: tuple[str, ...]
    by: tuple[str, ...] = ()
    width: str = ""
    shared: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that it is drawn of."""
        return (*self.by, *self.x, *self.values, *((self.width,) if self.width else ()))

    @property
    def needs_all_rows(self) -> bool:
        """Whether it means something else where rows are cut off."""
        return self.kind in ("histogram", "strip")


@dataclass(frozen=True)
class ProfileRef:
    """The profile that a report speaks of."""

    id: int
    label: str
    source: str
    path: str


@dataclass(frozen=True)
class Said:
    """Lines of words for people, and what they stand under; no head where it is the title."""

    head: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """A typed table and what has to be said with it.

    `table` is None where the report could not be answered; then `not_recorded` names what is missing.
    Its texts are dictionary-encoded (`report_table`): thousands of rows may have one long name.
    `row_count` counts all rows, also those that `limited` cut off; `uncut` are the rows as they were
    before. `picture` is None where nothing is drawn. `said` is what people are told in place of `said`
    columns, which programs get as any other. `folded`: in a comment people open it to see it.
    `headline`: a row that stands above all other reports, in JSON as a field of the document.
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
    picture: Picture | None = None
    uncut: pa.Table | None = None
    said: tuple[Said, ...] = ()
    folded: bool = False
    headline: bool = False

    @property
    def in_rows(self) -> bool:
        """Whether people see a table: there is a row, and not all of it is said in words."""
        rows = 0 if self.table is None else self.table.num_rows
        return rows > 0 and not all(column.said for column in self.columns)

    @property
    def drawn(self) -> pa.Table | None:
        """The rows that the picture is made of; None where there is none, or no row."""
        table = self.table
        if self.picture is not None and self.picture.needs_all_rows and self.uncut is not None:
            table = self.uncut
        return table if self.picture is not None and table is not None and len(table) else None

    @property
    def is_printed(self) -> bool:
        """Whether the table has a form that people know from elsewhere: all its columns are `printed`."""
        return bool(self.columns) and all(column.printed for column in self.columns)

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table with the declared columns (no rows where nothing was recorded)."""
        if self.table is None:
            return build_table(self.columns, {column.name: [] for column in self.columns})
        plain = [_ARROW[column.kind] for column in self.columns]
        names = [column.name for column in self.columns]
        return self.table.cast(pa.schema(list(zip(names, plain, strict=True))))

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a DataFrame of Arrow-backed columns, so that integers with nulls stay integers."""
        import pandas as pd

        frame: pd.DataFrame = self.to_arrow().to_pandas(types_mapper=pd.ArrowDtype)
        return frame

    def rows(self) -> list[dict[str, Any]]:
        """The rows as dictionaries, null as None."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.tuples()]

    def tuples(self) -> Iterator[tuple[Value, ...]]:
        """The rows in the order of the declared columns, null (and what is no number) as None.

        Made a few thousand at a time, so that a long listing is never in memory as objects.
        """
        if self.table is None:
            return iter(())
        columns = [_python(self.table.column(column.name)) for column in self.columns]
        return zip(*columns, strict=True)

    def by_column(self) -> list[list[Value]]:
        """The same values, one list per declared column."""
        if self.table is None:
            return [[] for _ in self.columns]
        return [list(_python(self.table.column(column.name))) for column in self.columns]

    def briefly(self) -> Report:
        """The report with its brief columns only, and without a picture."""
        columns = tuple(column for column in self.columns if column.brief)
        table = self.table if self.table is None else self.table.select([c.name for c in columns])
        return replace(self, columns=columns, table=table, picture=None, uncut=None)

    def limited(self, limit: int) -> Report:
        """The report with at most `limit` rows (0 = all); `row_count` keeps the full number."""
        if self.table is None or not limit or self.table.num_rows <= limit:
            return self
        uncut = self.table if self.uncut is None else self.uncut
        return replace(self, table=self.table.slice(0, limit), uncut=uncut)


def concatenated(reports: Sequence[Report]) -> Report:
    """The same report on several profiles as one: the rows of each below those of the one before.

    Profiles that did not record it have no rows, which a note counts; it is not recorded where none did.
    """
    first = reports[0]
    if len(reports) == 1:
        return first
    told = [report for report in reports if report.table is not None]
    missing = dict.fromkeys(what for report in reports for what in report.not_recorded)
    return replace(
        merged_header(reports),
        table=pa.concat_tables([report.table for report in told]) if told else None,
        uncut=_uncut(told),
        not_recorded=() if told else tuple(missing),
        row_count=sum(report.row_count for report in reports),
    )


def merged_header(reports: Sequence[Report]) -> Report:
    """What is said with the same report on several profiles, without rows: profiles, slice, notes."""
    first = reports[0]
    if len(reports) == 1:
        return first
    silent = [report for report in reports if report.not_recorded]
    notes = [note for report in reports for note in report.notes]
    if 0 < len(silent) < len(reports):
        names = ", ".join(dict.fromkeys(what for report in silent for what in report.not_recorded))
        text = f"profiles that did not record {names}; they are not in this table"
        where = silent[0].profiles[0].label if silent[0].profiles else ""
        notes.append(Note("not-recorded-by-some", Severity.INFO, text, len(silent), where))
    return replace(
        first,
        table=None,
        uncut=None,
        profiles=tuple(ref for report in reports for ref in report.profiles),
        slice=common_slice(reports),
        notes=tuple(merged(notes)),
        not_recorded=tuple(
            dict.fromkeys(what for report in silent for what in report.not_recorded)
        ),
        advice=tuple(dict.fromkeys(line for report in reports for line in report.advice)),
        row_count=0,
    )


def common_slice(reports: Sequence[Report]) -> Mapping[str, Any] | None:
    """The slice that all reports are of; without its times where these are not the same in all."""
    slices = [dict(report.slice) for report in reports if report.slice is not None]
    if not slices:
        return None
    if any(each != slices[0] for each in slices):
        for moment in ("start_ns", "end_ns"):
            slices[0].pop(moment, None)
    return slices[0]


def _uncut(told: Sequence[Report]) -> pa.Table | None:
    if all(report.uncut is None for report in told):
        return None
    return pa.concat_tables([r.uncut if r.uncut is not None else r.table for r in told])


def build_table(
    columns: Sequence[Column], data: Mapping[str, Sequence[Any] | np.ndarray]
) -> pa.Table:
    """An Arrow table of the declared columns; MISSING, NaN and None become null.

    Built from buffers: `pa.array` would import pandas, 0.3 s that a report does not have.
    """
    arrays = [array_of(data[column.name], column.kind) for column in columns]
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def report_table(
    columns: Sequence[Column], data: Mapping[str, Sequence[Any] | np.ndarray]
) -> pa.Table:
    """As `build_table`, for `Report.table`: a text is held once per column, however many rows have it."""
    arrays = [
        _coded(data[column.name])
        if column.kind == "text"
        else array_of(data[column.name], column.kind)
        for column in columns
    ]
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def _coded(texts: Sequence[Any] | np.ndarray) -> pa.DictionaryArray:
    places: dict[str, int] = {}
    indices = [
        MISSING if text is None else places.setdefault(str(text), len(places)) for text in texts
    ]
    return pa.DictionaryArray.from_arrays(array_of(indices, "int"), _text(list(places)))


def _python(column: pa.ChunkedArray) -> Iterator[Value]:
    """The values of a report's column as Python has them, equal texts of a chunk as one object."""
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            spell: Callable[[Any], Value] | None = _texts(chunk).get
            chunk = chunk.indices
        else:
            spell = _finite if pa.types.is_floating(chunk.type) else None
        for first in range(0, len(chunk), _ROWS_AT_ONCE):
            values = chunk.slice(first, _ROWS_AT_ONCE).to_pylist()
            yield from values if spell is None else map(spell, values)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _texts(chunk: pa.DictionaryArray) -> dict[int, str]:
    """The texts that rows have, by their place in the dictionary: `limited` leaves more in it."""
    used = np.flatnonzero(np.bincount(values_of(chunk.indices, -1) + 1)[1:])
    return {place: chunk.dictionary[place].as_py() for place in used.tolist()}


_OTHERWISE_IN_NUMPY = {"double": "float64", "float": "float32"}


def values_of(column: pa.Array, null: float = MISSING) -> np.ndarray:
    """An Arrow column of numbers as numpy has them, `null` where nothing was recorded.

    From its buffers: `to_numpy`, and some releases' `to_pandas_dtype`, would import pandas.
    """
    length, offset = len(column), column.offset
    name = str(column.type)
    kind = np.dtype(_OTHERWISE_IN_NUMPY.get(name, name))
    validity, data = column.buffers()
    if not length:
        return np.empty(0, kind)
    values: np.ndarray = np.frombuffer(data, kind, length + offset)[offset:]
    if column.null_count:
        bits = np.unpackbits(np.frombuffer(validity, np.uint8), bitorder="little")
        values = np.where(bits[offset : offset + length].astype(bool), values, null)
    return values


def array_of(values: Sequence[Any] | np.ndarray, kind: Kind) -> pa.Array:
    """Values as a column of an Arrow table; MISSING, NaN and None become null."""
    if kind == "text":
        return _text(values)
    if kind == "int":
        ints = (
            np.array([MISSING if v is None else v for v in values], np.int64)
            if isinstance(values, list | tuple)
            else np.ascontiguousarray(values, np.int64)
        )
        return numbers(ints, ints != MISSING, "int")
    floats = (
        np.array([np.nan if v is None else v for v in values], np.float64)
        if isinstance(values, list | tuple)
        else np.ascontiguousarray(values, np.float64)
    )
    return numbers(floats, ~np.isnan(floats), "float")


def numbers(values: np.ndarray, valid: np.ndarray, kind: Kind) -> pa.Array:
    """int64 or float64 as a column of an Arrow table, null where they are not valid."""
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(_ARROW[kind], len(values), [bitmap, pa.py_buffer(values)])


def _text(values: Sequence[str | None] | np.ndarray) -> pa.Array:
    # Arrow text is UTF-8, which has no lone surrogates: they are spelled out.
    encoded = [b"" if v is None else str(v).encode("utf-8", "backslashreplace") for v in values]
    offsets = np.zeros(len(encoded) + 1, np.int32)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    valid = np.array([v is not None for v in values], bool)
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffers = [bitmap, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(_ARROW["text"], len(encoded), buffers)
