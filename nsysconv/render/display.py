"""Texts of a report: columns in readable units, cells as other tools print them, sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_UP, Context, Decimal
from operator import add
from typing import Any

from nsysconv.document import Picture, Printed, Section
from nsysconv.names import escaped
from nsysconv.notes import ANSWERS, Note, Severity
from nsysconv.report import Column, Unit, Value, scale_for

# As many digits as the largest double has before the point, and then some.
_CONTEXT = Context(prec=400, rounding=ROUND_HALF_UP)
# By which names of a tree are set in, and at most so often.
_INDENT, _DEEPEST = "  ", 20
_OF_OWN_UNITS = (Unit.NS, Unit.BYTES, Unit.BYTES_PER_S, Unit.FLOP_PER_S, Unit.HZ)
_NEXT_SCALE = 1000
# The lower bounds of classes of sizes and times.
_BUCKET = "bucket_min"
# Moments of a recording, not durations.
_MOMENT = "start_ns"
# Read in hexadecimal, as everywhere.
_ADDRESS = "address"
# Every double keeps this many digits of a decimal number.
_DIGITS = 15
DEVICES = "device_count"
"""The column that counts the devices over which a row is."""


def column_headers(report: Section) -> list[str]:
    """Return the headers of a report: those of the other tool, if all columns have one."""
    other = report.is_printed
    return [report.printed[c.name].header if other else c.name for c in report.columns]


def printed_rows(report: Section) -> Iterator[tuple[str, ...]]:
    """Yield the rows of a printed report as text, null as an empty one."""
    spell = [cell_formatter(report.printed.get(column.name)) for column in report.columns]
    for row in report.tuples():
        yield tuple(each(value) for each, value in zip(spell, row, strict=True))


def cell_formatter(printed: Printed | None) -> Callable[[Value], str]:
    """Return the function that makes text of the values of a column, as another tool prints them."""
    if printed is None or printed.decimals is None:
        return lambda value: "" if value is None else str(value)
    return lambda value: round_half_up(value, printed) if isinstance(value, int | float) else ""


def round_half_up(value: int | float, printed: Printed) -> str:
    """Return a number with its decimals, rounded half away from zero by its shortest decimal spelling."""
    decimals = printed.decimals or 0
    if isinstance(value, int):
        # The common case, in whole numbers: listings have millions of them.
        steps = (2 * abs(value) * 10**decimals + printed.per) // (2 * printed.per)
        whole, part = divmod(steps, 10**decimals)
        sign = "-" if value < 0 and steps else ""
        return f"{sign}{whole}.{part:0{decimals}d}" if decimals else f"{sign}{whole}"
    spelled = repr(value)
    if printed.per == 1 and _has_no_tie(spelled, decimals):
        return f"{value:.{decimals}f}"  # ten times faster
    number = _CONTEXT.divide(Decimal(spelled), Decimal(printed.per))
    number = number.quantize(Decimal(1).scaleb(-decimals), context=_CONTEXT)
    return f"{number if number else abs(number):f}"


def _has_no_tie(spelled: str, decimals: int) -> bool:
    # Rounding what is spelled and what is stored comes to the same without a half-way digit, a sign that
    # a zero could keep, or a decimal that a double of this size does not have.
    before, _, after = spelled.partition(".")
    plain = before.isdigit() and after.isdigit() and len(before) + decimals <= _DIGITS
    return plain and after[decimals:] != "5"


def with_separators(number: str) -> str:
    """Put a comma between thousands: `-1234.5` becomes `-1,234.5`."""
    sign = "-" if number.startswith("-") else ""
    whole, point, part = number.removeprefix("-").partition(".")
    return f"{sign}{int(whole):,}{point}{part}" if whole.isdigit() else number


NULL = "-"

# A scaled value's decimals are whole steps of the next smaller unit: 1.234 ms is 1234 µs.
_SCALED_DECIMALS = 3
# From here on a float's digits are noise, and would only make the column wide.
_TOO_LONG = 1e15
_SUFFIXES = {
    Unit.NS: "_ns",
    Unit.BYTES: "_bytes",
    Unit.PCT: "_pct",
    Unit.BYTES_PER_S: "_bytes_per_s",
    Unit.FLOP_PER_S: "_flop_per_s",
    Unit.HZ: "_hz",
}


@dataclass(frozen=True)
class DisplayColumn:
    """A column as people see it: name, unit, and a text per row, none with a control character.

    `leads` is 1 for the column that rows are ordered by, 2 for the next. Texts of `words` are our own,
    and `prose` are sentences.
    """

    column: Column
    name: str
    unit: str
    cells: tuple[str, ...]
    leads: int = 0
    words: bool = False
    prose: bool = False

    @property
    def header(self) -> str:
        """Return name and unit in one line: `kernel_sum (ms)`."""
        return f"{self.name} ({self.unit})" if self.unit else self.name

    @property
    def right(self) -> bool:
        """Return whether the column holds numbers, which are aligned to the right."""
        return self.column.kind != "text"


@dataclass(frozen=True)
class DisplayTable:
    """The columns to show, and names of those left out because no row has a value of them.

    Keys are not among these: a rank that nobody has is no news. `parts`: the sums of those columns that
    are the parts of a whole, by their names in the report.
    """

    columns: tuple[DisplayColumn, ...]
    unrecorded: tuple[str, ...] = ()
    parts: Mapping[str, float] = field(default_factory=dict)


def all_columns(report: Section, *, own_units: bool = False) -> DisplayTable:
    """Return every declared column that people are to see; the rest as `informative_columns`."""
    columns = tuple(
        _spelled(report, column, values, own_units=own_units)
        for column, values in _visible_columns(report)
    )
    return _finished(DisplayTable(columns), report)


def _spelled(
    report: Section, column: Column, values: Sequence[Value], *, own_units: bool
) -> DisplayColumn:
    name, printed = column.name, report.printed.get(column.name)
    if printed:
        shown = _as_printed(column, printed, values)
    else:
        shown = own_unit_column(column, values) if own_units else display_column(column, values)
    leads = report.leads.index(name) + 1 if name in report.leads else 0
    return replace(shown, leads=leads, words=name in report.words, prose=name in report.prose)


def _visible_columns(report: Section) -> Iterator[tuple[Column, list[Value]]]:
    for column, values in zip(report.columns, report.by_column(), strict=True):
        hidden = column.optional and all(value is None for value in values)
        if column.name not in report.replaced and not hidden:
            yield column, values


def informative_columns(report: Section, *, own_units: bool = False) -> DisplayTable:
    """Return the columns that have a value, but for the only profile, which the heading names.

    `own_units`: each time and size has a unit of its own, where else a column has one for all.
    """
    shown, unrecorded = [], []
    for column, values in _visible_columns(report):
        if column.name == "profile" and len(report.profiles) == 1:
            continue
        if any(value is not None for value in values):
            shown.append(_spelled(report, column, values, own_units=own_units))
        elif not column.key:
            unrecorded.append(name_without_unit(column))
    return _finished(DisplayTable(tuple(shown), tuple(dict.fromkeys(unrecorded))), report)


def _finished(table: DisplayTable, report: Section) -> DisplayTable:
    # Names of columns apart, the sums of parts, and names of a tree by how deep they lie.
    times = Counter(shown.header for shown in table.columns)
    columns = [
        shown
        if report.is_printed or times[shown.header] == 1
        else replace(shown, name=shown.column.name)
        for shown in table.columns
    ]
    table = replace(table, columns=tuple(columns))
    picture = report.picture
    if picture is None:
        return table
    values = dict(zip((c.name for c in report.columns), report.by_column(), strict=True))
    if picture.kind in ("stacked", "histogram"):
        parts = {
            name: float(sum(value for value in values[name] if isinstance(value, int | float)))
            for name in picture.values
        }
        table = replace(table, parts=parts)
    return _set_in(table, picture, values) if picture.level else table


def _set_in(
    table: DisplayTable, picture: Picture, values: Mapping[str, list[Value]]
) -> DisplayTable:
    # If the report has not done so.
    (label,) = picture.x
    if any(str(name).startswith(_INDENT) for name in values[label]):
        return table
    indents = [_INDENT * min(int(level or 0), _DEEPEST) for level in values[picture.level]]
    columns = (
        replace(shown, cells=tuple(map(add, indents, shown.cells)))
        if shown.column.name == label
        else shown
        for shown in table.columns
    )
    return replace(table, columns=tuple(columns))


def display_column(column: Column, values: Sequence[Value]) -> DisplayColumn:
    """Scale a column to the unit in which its largest value reads well."""
    if column.kind == "text":
        spelled = {value: NULL if value is None else escaped(str(value)) for value in set(values)}
        return DisplayColumn(
            column, escaped(column.name), "", tuple(spelled[value] for value in values)
        )
    numbers = [value for value in values if isinstance(value, int | float)]
    divisor, unit = _scale(column, numbers)
    name = name_without_unit(column)
    cells = (_number(column, v, divisor) if isinstance(v, int | float) else NULL for v in values)
    return DisplayColumn(column, name, unit, tuple(cells))


def own_unit_column(column: Column, values: Sequence[Value]) -> DisplayColumn:
    """Spell each time and size in the unit in which it reads well, with three digits: `1.34 s`, `366 ms`.

    Keys and moments, which are not to be rounded into each other, and other quantities are as in
    `display_column`.
    """
    if column.key and column.name.startswith(_BUCKET) and column.unit in _OF_OWN_UNITS:
        bounds = (_bound(v, column.unit) if isinstance(v, int | float) else NULL for v in values)
        return DisplayColumn(
            column, name_without_unit(column).removesuffix("_min"), "", tuple(bounds)
        )
    is_moment = column.name.endswith(_MOMENT)
    if column.key or is_moment or column.unit not in _OF_OWN_UNITS:
        return display_column(column, values)
    spelled = [
        _three_digits(v, column.unit) if isinstance(v, int | float) else None for v in values
    ]
    widest = max((len(unit) for _, unit in filter(None, spelled)), default=0)
    cells = (NULL if each is None else f"{each[0]} {each[1]:<{widest}}" for each in spelled)
    return DisplayColumn(column, name_without_unit(column), "", tuple(cells))


def _bound(value: int | float, unit: Unit) -> str:
    divisor, name = scale_for(unit, value)
    return f"≥ {value / divisor:g} {name}"


def _three_digits(value: int | float, unit: Unit) -> tuple[str, str]:
    if not value:
        return "0", ""
    divisor, name = scale_for(unit, value)
    if abs(round(value / divisor)) >= _NEXT_SCALE:
        divisor, name = scale_for(unit, divisor * _NEXT_SCALE)
    scaled = value / divisor
    if abs(scaled) >= _TOO_LONG:
        return f"{scaled:.6g}", name
    if divisor == 1:
        # Means of a few nanoseconds; whole numbers of these are exact.
        return (f"{scaled:,.0f}" if isinstance(value, int) else f"{scaled:,.1f}"), name
    return f"{scaled:,.{2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0}f}", name


def name_without_unit(column: Column) -> str:
    """Return the name of a column whose values are shown with their unit: `start` for `start_ns`."""
    return escaped(column.name.removesuffix(_SUFFIXES.get(column.unit, "")) or column.name)


def _as_printed(column: Column, printed: Printed, values: Sequence[Value]) -> DisplayColumn:
    spell = cell_formatter(printed)
    name, bracket, unit = printed.header.partition(" (")
    cells = [NULL if value is None else spell(value) for value in values]
    if column.kind == "text":
        cells = [escaped(text) for text in cells]
    elif column.unit is not Unit.ID:
        cells = [with_separators(text) for text in cells]
    return DisplayColumn(column, name, unit.removesuffix(")") if bracket else "", tuple(cells))


def _scale(column: Column, numbers: Sequence[int | float]) -> tuple[float, str]:
    # Divisor and unit; a key (a bucket's bound, a start) is never rounded into another key.
    divisor, unit = scale_for(column.unit, max(map(abs, numbers), default=0))
    if column.key:
        different = len(set(numbers))
        while divisor > 1 and len({_number(column, n, divisor) for n in numbers}) < different:
            divisor, unit = scale_for(column.unit, divisor / 1000)
    return divisor, unit


def _number(column: Column, value: int | float, divisor: float) -> str:
    if column.unit is Unit.ID:
        return f"{value:#x}" if column.name == _ADDRESS and isinstance(value, int) else str(value)
    decimals = _decimals(column, divisor)
    if not decimals:
        return f"{value:,}"
    scaled = value / divisor + 0.0  # -0.0 becomes 0.0
    if abs(scaled) >= _TOO_LONG:
        return f"{scaled:.6g}"
    text = f"{scaled:,.{decimals}f}"
    if value and not text.strip("-0."):
        # Something must not look like nothing.
        return f"{'>-' if value < 0 else '<'}{10**-decimals:.{decimals}f}"
    return text


def _decimals(column: Column, divisor: float) -> int:
    if divisor > 1 or column.unit is Unit.REAL:
        return _SCALED_DECIMALS
    if column.unit is Unit.PCT:
        return 2
    return 1 if column.kind == "float" else 0


_WEIGHTS = {severity: weight for weight, severity in enumerate(reversed(Severity))}

# What a slice's keys are called where their own name would not read well.
_WORDS = {
    "devices": "device",
    "streams": "stream",
    "ranks": "rank",
    "processes": "process",
    "threads": "thread",
    "skip_first": "steps left out first",
    "projected": "on the GPU",
}


def heading(report: Section) -> str:
    """Return the title, the profile where there is one, the devices added up, and the slice."""
    parts = [report.title]
    if len(report.profiles) == 1:
        profile = report.profiles[0]
        parts.append(profile.label or profile.path)
    if (devices := _devices_added_up(report)) > 1:
        parts.append(f"sums over {devices} devices")
    if report.slice is not None:
        parts.append(slice_words(report.slice))
    return " - ".join(escaped(part) for part in parts if part)


def _devices_added_up(report: Section) -> int:
    # Findings have such a column, too, and are of the worst device.
    places = [i for i, c in enumerate(report.columns) if c.name == DEVICES and c.distinct]
    if report.table is None or not places:
        return 0
    counts = report.by_column()[places[0]]
    return max((count for count in counts if isinstance(count, int)), default=0)


def unrecorded_sentences(report: Section) -> list[str]:
    """Return what was not recorded and what helps, a sentence each; none where there is a table."""
    if report.table is not None:
        return []
    profiles = "this profile" if len(report.profiles) < 2 else "these profiles"
    missing = ", ".join(escaped(fact) for fact in report.not_recorded)
    first = f"Not recorded in {profiles}: {missing}." if missing else f"Not recorded in {profiles}."
    return [first, *(escaped(line) for text in report.advice for line in text.splitlines())]


def cut_sentence(report: Section) -> str:
    """Return that there are more rows than are shown, or nothing."""
    if report.table is None or report.row_count <= report.table.num_rows:
        return ""
    return f"… {report.table.num_rows:,} of {report.row_count:,} rows, --limit 0 shows all"


def empty_sentence(report: Section) -> str:
    """Return that the question could be answered, and the answer is an empty table; or nothing."""
    if report.table is None or report.table.num_rows:
        return ""
    return "No rows in this selection." if report.slice is not None else "No rows."


def sentences_below(report: Section, unrecorded: Sequence[str]) -> list[str]:
    """Return all sentences between a table, or its place, and the notes."""
    below = cut_sentence(report), empty_sentence(report), unrecorded_columns(unrecorded)
    return [*unrecorded_sentences(report), *filter(None, below)]


def unrecorded_columns(columns: Sequence[str]) -> str:
    """Return that these columns have no value in any row, or nothing."""
    return f"Not recorded in any row: {', '.join(columns)}" if columns else ""


def note_sentences(reports: Sequence[Section]) -> Iterator[tuple[Note, str]]:
    """Yield each note of the reports once, gravest first: `note unlinked-ops: … (3 of 16: 18.8 %)`."""
    notes = dict.fromkeys(note for report in reports for note in report.notes)
    shown = (note for note in notes if note.slug not in ANSWERS)
    for note in sorted(shown, key=lambda note: (_WEIGHTS[note.severity], -note.share)):
        word = "note" if note.severity is Severity.INFO else note.severity
        yield note, f"{word} {note.slug}: {escaped(note.text)}{_note_place(note)}"


def _note_place(note: Note) -> str:
    where = escaped(note.where)
    if note.count == 1 and not note.of:
        return f" (at {where})" if where else ""
    times = f"{note.count:,} of {note.of:,}: {_share(note)}" if note.of else f"{note.count:,} times"
    return f" ({times}, first at {where})" if where else f" ({times})"


def _share(note: Note) -> str:
    # Only nothing is 0 and only all is 100.
    text = f"{100 * note.share:.1f}"
    if note.count < note.of:
        text = {"0.0": "<0.1", "100.0": ">99.9"}.get(text, text)
    return f"{text} %"


def slice_words(limits: Mapping[str, Any]) -> str:
    """Return the slice in words: `slice 1 s to 2 s, device 0`."""
    words = []
    if {"start_ns", "end_ns"} <= limits.keys():
        times = (exact(limits[name], Unit.NS) for name in ("start_ns", "end_ns"))
        words.append(" to ".join(times))
    if count := limits.get("window_count"):
        words[-1] += f" ({count:,} windows, {exact(limits['window_ns'], Unit.NS)})"
    for key, value in limits.items():
        if key not in ("start_ns", "end_ns", "window_count", "window_ns"):
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            words.append(_WORDS.get(key, key) + ("" if value is True else f" {text}"))
    return "slice " + ", ".join(words)


def exact(value: int, unit: Unit) -> str:
    """Return a whole number with its unit and all its digits: 1500000001 ns is `1.500000001 s`."""
    divisor, name = scale_for(unit, value)
    number = f"{Decimal(value) / int(divisor):f}"
    if "." in number:
        number = number.rstrip("0").removesuffix(".")
    return f"{number} {name}".rstrip()
