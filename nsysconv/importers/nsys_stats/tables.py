"""Tables of nsys stats: headers, rows in JSON, and numbers in the user's locale."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from nsysconv.importers.printed.quantities import ValueRange
from nsysconv.importers.printed.text import csv_cells

# -- headers


class NsysTable(Enum):
    """The kinds of tables that are read; the value is what nsys calls the report today."""

    API = "cuda_api_sum"
    KERNELS = "cuda_gpu_kern_sum"
    KERNELS_BY_GRID = "cuda_gpu_kern_gb_sum"
    MEMORY_TIME = "cuda_gpu_mem_time_sum"
    MEMORY_SIZE = "cuda_gpu_mem_size_sum"
    GPU = "cuda_gpu_sum"
    API_AND_GPU = "cuda_api_gpu_sum"
    RANGES = "nvtx_sum"
    PUSH_POP = "nvtx_pushpop_sum"
    START_END = "nvtx_startend_sum"
    OPENACC = "openacc_sum"
    OPENMP = "openmp_sum"
    OSRT = "osrt_sum"
    GPU_TRACE = "cuda_gpu_trace"
    API_TRACE = "cuda_api_trace"


TRACES = frozenset({NsysTable.GPU_TRACE, NsysTable.API_TRACE})
"""Tables with a row per event, which may be millions."""


class Layout(Enum):
    """The arrangement of cells in a line."""

    DELIMITED = "delimiters"
    BOXED = "boxes"
    ALIGNED = "columns"
    JSON = "JSON"


@dataclass(frozen=True)
class HeaderColumn:
    """A column: its role, and its unit as the header spells it (empty if it does not)."""

    role: str
    unit: str = ""


@dataclass(frozen=True)
class NsysHeader:
    """A table's columns and layout; `delimiter` is that of DELIMITED.

    `table` is the kind of table that only this header can be of, None if several kinds share it.
    """

    columns: tuple[HeaderColumn, ...]
    layout: Layout
    table: NsysTable | None = None
    delimiter: str = ""

    @property
    def has_points(self) -> bool:
        """Return whether nsys prints points in numbers, whatever the locale."""
        return self.layout in (Layout.DELIMITED, Layout.JSON)

    def place(self, role: str) -> int | None:
        """Return the index of the column with a role, or None."""
        return next((i for i, column in enumerate(self.columns) if column.role == role), None)


_WORDS: dict[str, dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("words.toml").read_text(encoding="utf-8")
)
_TABLES = {table.value: table for table in NsysTable}
_TABLES |= {old: _TABLES[name] for old, name in _WORDS["old_names"].items()}
_TITLES = [(re.compile(title), _TABLES[name]) for title, name in _WORDS["titles"].items()]
_OTHER_TITLE = re.compile(r"(KHR|Vulkan|DX)\b.{0,40} (?:Statistics|Summary)")
_FEWEST_COLUMNS = 6
_TOTALS_ROLES, _TRACE_ROLES = (
    {word: role for role, words in _WORDS[kind].items() for word in words}
    for kind in ("totals", "trace")
)
SIZES = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
"""Units of sizes -> bytes. Unlike nvprof, nsys means 10^6 bytes by MB."""
TIMES = {
    **dict.fromkeys(("ns", "nsec", "nanoseconds"), 1),
    **dict.fromkeys(("us", "µs", "usec", "microseconds"), 10**3),
    **dict.fromkeys(("ms", "msec", "milliseconds"), 10**6),
    **dict.fromkeys(("s", "sec", "seconds"), 10**9),
}
"""Units of times -> ns."""
_ON_GPU = {"grid_x", "device", "stream", "context", "bytes"}
_ON_CALLS = {"pid", "tid", "result"}
_CELL = re.compile(r"(.*?)\s*\(([^()]*)\)$")
_GAP = re.compile(r"\s{2,}")
BOX = re.compile(r"[|│┃║¦]")
_DELIMITERS = (",", ";", "\t")
# A line without any of these is not a header.
_HEADER_WORDS = re.compile(r"Total|Start|Migration Size|Projected|QCount|Kern Inst|PeerRank")


def report_of(name: str) -> NsysTable | str:
    """Return the table that a report makes, by its old or new name; the name if it is not read.

    Arguments come behind a colon, or in file names behind an underscore.
    """
    report = name.partition(":")[0]
    return _TABLES.get(report, report)


def title_of(line: str) -> NsysTable | str | None:
    """Return the table that an old heading announces, or its name; None for other lines."""
    for pattern, table in _TITLES:
        if pattern.search(line):
            return table
    other = _OTHER_TITLE.search(line)
    return str(_WORDS["other_titles"][other.group(1)]) if other else None


def parse_header(line: str) -> NsysHeader | str | None:
    """Return the header that a line is; the report's name if it is not read; None for other lines."""
    if _HEADER_WORDS.search(line) is None:
        return None
    line = line.strip(" \ufeff")
    for delimiter in _DELIMITERS:
        if delimiter in line:
            parts = [part.strip() for part in delimited_cells(line, delimiter) or []]
            if header := header_of_words(parts, Layout.DELIMITED, delimiter):
                return header
    if BOX.search(line):
        parts = [part.strip(" *`") for part in boxed_cells(line)]
        if header := header_of_words(parts, Layout.BOXED):
            return header
    return header_of_words(_GAP.split(line), Layout.ALIGNED)


def header_of_words(
    words: list[str], layout: Layout, delimiter: str = ""
) -> NsysHeader | str | None:
    """Return the header that these column headings make, the report's name if it is not read, or None."""
    if len(words) < 3:
        return None
    pairs = [_name_and_unit(word) for word in words]
    names = {name for name, _ in pairs}
    for column, report in _WORDS["other_columns"].items():
        if len(words) >= _FEWEST_COLUMNS and column in names:
            return str(report)
    for known, kind_of in ((_TOTALS_ROLES, _totals_kind), (_TRACE_ROLES, _trace_kind)):
        columns = tuple(
            HeaderColumn(known.get(f"{name} ({unit})", known.get(name, f"other {place}")), unit)
            for place, (name, unit) in enumerate(pairs)
        )
        roles = {column.role for column in columns}
        is_table, table = kind_of(columns, roles, names)
        if is_table and len(roles) == len(columns):
            return NsysHeader(columns, layout, table, delimiter)
    return None


def boxed_cells(line: str) -> list[str]:
    """Return the cells between the lines of a box; a kernel's name may have such a line in it."""
    parts = BOX.split(line)
    return [part.strip() for part in parts[1 : len(parts) - (not parts[-1].strip())]]


def delimited_cells(line: str, delimiter: str) -> list[str] | None:
    """Return the cells of a line, None if its quotes do not close. Between tabs there are no quotes."""
    return line.split("\t") if delimiter == "\t" else csv_cells(line, delimiter)


def _name_and_unit(word: str) -> tuple[str, str]:
    match = _CELL.match(word)
    return (match.group(1), match.group(2)) if match else (word, "")


# The first says whether columns with these roles and names are those of such a table. The second is
# that table, if only one has them.
_Kind = tuple[bool, NsysTable | None]


def _totals_kind(columns: Sequence[HeaderColumn], roles: set[str], names: set[str]) -> _Kind:
    if not roles >= {"total", "count", "name"}:
        return False, None
    if "share" not in roles:
        units = {column.unit for column in columns if column.role == "total"}
        are_sizes = "Total Time" not in names and units <= {"", *SIZES}
        return are_sizes and roles >= {"avg", "min", "max"}, NsysTable.MEMORY_SIZE
    table: NsysTable | None = None
    if "category" in roles:
        pass  # with API calls or without, which its rows show
    elif "grid" in roles:
        table = NsysTable.KERNELS_BY_GRID
    elif names & {"Operation", "Operations"}:
        table = NsysTable.MEMORY_TIME
    elif "Range" in names:
        table = NsysTable.RANGES
    elif "Instances" in names and "source" not in roles:
        table = NsysTable.KERNELS
    return "Total Time" in names, table


def _trace_kind(columns: Sequence[HeaderColumn], roles: set[str], names: set[str]) -> _Kind:
    # Its times have units, unlike those of other tables.
    with_unit = {column.role for column in columns if column.unit}
    of_calls = roles & _ON_CALLS and not roles & _ON_GPU
    is_trace = "End" not in names and with_unit >= {"start", "dur"} and "name" in roles
    return is_trace, NsysTable.API_TRACE if of_calls else NsysTable.GPU_TRACE


# -- JSON: arrays of objects whose keys are the header's words

JSON_START = re.compile(rb'\s*\[\s*(?:\{\s*"|$)')
"""A line with which an array of objects may begin."""

_FIRST_KEY = re.compile(r'\s*\[\s*\{\s*"((?:[^"\\]|\\.){1,200})"\s*:')
_SEPARATOR = re.compile(r"\s*(,|\])?")
# The last column of every table is a text.
_OBJECT_END = re.compile(r'"\s*\}\s*(?=,\s*(?:\{|$)|\]\s*(?:\n|$)|$)')
_KEY = re.compile(r'[{,]\s*"([^"]{1,40})"\s*:')
_CHUNK_BYTES = 1 << 20
# Names of kernels have some thousand characters; what is longer than this is not a row.
_LONGEST_ROW = 8 << 20
# Numbers stay as they are spelled: what they mean depends on their column.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str, strict=False)

JsonRow = dict[str, str]


class JsonRows:
    """The objects of the array that begins at this byte, as texts by key, in the order of the first.

    Some releases do not escape quotes in names. So an object begins where the first key of the first one
    comes again, and what the decoder refuses is cut at its keys. After the iteration `end` is the byte
    behind the array, `closed` whether the array ends there, and `unread` the number of objects that are
    not rows. There are no rows where no such array begins.
    """

    def __init__(self, path: Path, start: int) -> None:
        """Prepare to read the array at byte `start` of a file in UTF-8."""
        self._path, self._start = path, start
        self.end = start
        self.closed = False
        self.unread = 0

    def __iter__(self) -> Iterator[JsonRow]:
        """Yield the rows, reading the file in chunks."""
        with self._path.open("rb") as file:
            file.seek(self._start)
            raw = file.read(_CHUNK_BYTES)
            # Bytes as characters of one byte each, so that places in the text are places in the file.
            text, base = raw.decode("latin-1"), self._start
            first = _FIRST_KEY.match(text)
            if first is None:
                return
            anchor = re.compile(r'\{\s*"' + re.escape(first.group(1)) + r'"\s*:')
            place, keys = text.index("{"), None
            while True:
                following = anchor.search(text, place + 1)
                limit = following.start() if following else len(text)
                row, length = _first_object(text[place:limit], keys)
                separator = _SEPARATOR.match(text, place + length)
                sign = separator.group(1) if row is not None and separator is not None else None
                goes_on = following is None and sign != "]" and len(text) - place < _LONGEST_ROW
                if goes_on and (more := file.read(_CHUNK_BYTES)):
                    text, base, place = text[place:] + more.decode("latin-1"), base + place, 0
                    continue
                keys = keys or list(row or ())
                if row is not None and row.keys() == set(keys):
                    yield {key: row[key] for key in keys}
                elif row is not None or following is not None:
                    self.unread += 1  # the last one may be cut
                self.closed = sign == "]"
                self.end = base + (separator.end() if separator and self.closed else place + length)
                if following is None or (row is not None and sign != ","):
                    return
                place = limit


def _first_object(text: str, keys: list[str] | None) -> tuple[JsonRow | None, int]:
    """Return the object with which a text begins, None if it is not a row, and its length in bytes."""
    raw = text.encode("latin-1")
    decoded = raw.decode("utf-8", "replace")
    try:
        values, length = _DECODER.raw_decode(decoded)
    except (ValueError, RecursionError):
        end = _OBJECT_END.search(decoded)
        cut = decoded[: end.end()].rstrip() if end else ""
        row = _cut_at_keys(cut, keys or _KEY.findall(cut)) if cut else None
        return row, len(cut.encode()) if row else len(raw)
    texts = {key: "" if value is None else value for key, value in values.items()}
    is_row = all(isinstance(value, str) for value in texts.values())
    return texts if is_row else None, len(decoded[:length].encode())


def _cut_at_keys(text: str, keys: list[str]) -> JsonRow | None:
    # What is between two keys is a value, whatever quotes are in it.
    ends, starts = [], []
    place = 0
    for sign, key in zip(chain("{", repeat(",")), keys, strict=False):
        match = re.compile(rf'{re.escape(sign)}\s*"{re.escape(key)}"\s*:\s*').search(text, place)
        if match is None:
            return None
        ends.append(match.start())
        place = match.end()
        starts.append(place)
    ends = [*ends[1:], text.rindex("}")]
    spelled = (text[low:high].strip() for low, high in zip(starts, ends, strict=True))
    values = (value.removeprefix('"').removesuffix('"') for value in spelled)
    return {
        key: "" if value == "null" else value.replace('\\"', '"')
        for key, value in zip(keys, values, strict=True)
    }


# -- numbers in the user's locale
#
# Text groups digits and marks decimals as the locale has it: 1,234.5 or 1.234,5 or 1 234,5 or 1’234.5; in
# groups of four (1,2345.6) or as in India (1,23,456.7). What a lone `1.234` means is decided by the other
# cells of its table, or by what its column holds.

# These are spaces of all widths, the remainder of a space in another encoding, and apostrophes.
_BLANKS = " \u00a0\u2007\u2009\u202f\ufffd'\u2019"
_GROUP_SIGN = re.compile(rf"[.,{_BLANKS}]")
_NUMBER = re.compile(rf"-?[0-9][0-9.,{_BLANKS}]*$")
# Python converts no text with too many digits to a number; no table has so many.
_MOST_DIGITS = 1000
# These surround a number if the table was converted to another format.
_AROUND = " %*`\t"
LARGEST = 1 << 62
"""No number of ns, bytes or rows is larger."""


class CellKind(Enum):
    """The form of a column's cells: whole numbers, numbers with three decimals, or any."""

    WHOLE = 0
    THOUSANDTHS = 3
    ANY = -1


@dataclass(frozen=True)
class SpelledNumber:
    """A number and how many decimals it was spelled with."""

    value: Fraction
    decimals: int
    is_grouped: bool = field(default=False, compare=False)

    def rounded(self, scale: Fraction | int, decimals: int) -> ValueRange:
        """Return all numbers that round to this one at so many decimals, times the scale."""
        half = Fraction(1, 2 * 10**decimals)
        return ValueRange((self.value - half) * scale, (self.value + half) * scale)

    def cut(self, scale: Fraction | int) -> ValueRange:
        """Return all numbers that are this one if their decimals are cut, times the scale."""
        return ValueRange(self.value * scale, (self.value + 1) * scale)

    def fits(self, kind: CellKind) -> bool:
        """Return whether a column of this kind may hold it: in whole ones there are no decimals."""
        if kind is CellKind.WHOLE:
            return self.decimals == 0
        return kind is CellKind.ANY or not self.is_grouped or self.decimals > 0


# How locales spell numbers: sign, groups, decimals.
_LOCALES = {
    "point": rf"(-?(?:[1-9][0-9]{{0,2}}(?:[,{_BLANKS}][0-9]{{3}})+|[0-9]+))(?:\.([0-9]*))?",
    "comma": rf"(-?(?:[1-9][0-9]{{0,2}}(?:[.{_BLANKS}][0-9]{{3}})+|[0-9]+))(?:,([0-9]*))?",
    # All locales with other groups have these signs.
    "fours": r"(-?(?:[1-9][0-9]{0,3}(?:,[0-9]{4})+|[0-9]+))(?:\.([0-9]*))?",
    "Indian": r"(-?(?:[1-9][0-9]?(?:,[0-9]{2})*,[0-9]{3}|[0-9]+))(?:\.([0-9]*))?",
}
_PATTERNS = {locale: re.compile(pattern) for locale, pattern in _LOCALES.items()}


@dataclass(frozen=True)
class NumberFormat:
    """The locales that a table may have been printed in: those that most of its cells fit."""

    locales: tuple[str, ...]

    @property
    def has_commas(self) -> bool:
        """Return whether commas mark decimals for sure."""
        return self.locales == ("comma",)

    def number(self, text: str, kind: CellKind) -> SpelledNumber | None:
        """Return the number that a cell is; None if it is not a number, or could be several."""
        readings = self._readings(text, kind)
        return readings.pop() if len(readings) == 1 else None

    def is_ambiguous(self, text: str, kind: CellKind) -> bool:
        """Return whether a cell could be several numbers, and nothing decides which."""
        return len(self._readings(text, kind)) > 1

    def _readings(self, text: str, kind: CellKind) -> set[SpelledNumber]:
        digits = _digits(text)
        if not digits:
            return set()
        readings = {number for locale in self.locales if (number := _parse(digits, locale))}
        likely = {number for number in readings if number.fits(kind)}
        if kind is CellKind.WHOLE and not likely:
            return {number for number in readings if number.value.denominator == 1}
        return likely or readings


def number_format(
    cells: Iterable[tuple[str, CellKind]], *, has_points: bool = False
) -> NumberFormat:
    """Return how a table spells numbers, judged by all of its cells and what their columns hold.

    `has_points`: where these leave it open, points mark decimals, as CSV and JSON have them.
    """
    misfits = dict.fromkeys(_LOCALES, 0)
    for text, kind in cells:
        digits = _digits(text)
        if _GROUP_SIGN.search(digits):
            for locale in _LOCALES:
                number = _parse(digits, locale)
                misfits[locale] += number is None or not number.fits(kind)
    fewest = min(misfits.values())
    best = tuple(locale for locale in _LOCALES if misfits[locale] == fewest)
    return NumberFormat(("point",) if has_points and "point" in best else best)


def _digits(text: str) -> str:
    digits = text.strip(_AROUND)
    return digits if _NUMBER.match(digits) and len(digits) <= _MOST_DIGITS else ""


def _parse(digits: str, locale: str) -> SpelledNumber | None:
    match = _PATTERNS[locale].fullmatch(digits)
    if match is None:
        return None
    grouped, decimals = match.group(1), match.group(2) or ""
    whole = _GROUP_SIGN.sub("", grouped)
    value = Fraction(f"{whole}.{decimals}" if decimals else whole)
    if abs(value) > LARGEST:
        return None
    return SpelledNumber(value, len(decimals), whole != grouped)
