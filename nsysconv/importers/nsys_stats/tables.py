"""The tables that `nsys stats` prints: told by what announces them, and by their headers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from itertools import chain, repeat
from pathlib import Path

from nsysconv.importers.printed.quantities import ValueRange
from nsysconv.importers.printed.text import csv_cells


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
RANGES = frozenset({NsysTable.RANGES, NsysTable.PUSH_POP, NsysTable.START_END})
"""Tables of totals of ranges."""


class Layout(Enum):
    """How cells stand in a line."""

    DELIMITED = "delimiters"
    BOXED = "boxes"
    ALIGNED = "columns"
    JSON = "JSON"


@dataclass(frozen=True)
class HeaderColumn:
    """A column: what it holds, and its unit as the header spells it (empty: it does not tell)."""

    role: str
    unit: str = ""


@dataclass(frozen=True)
class NsysHeader:
    """A table's columns and form; `delimiter` is of the form DELIMITED.

    `sure` is what they alone say of the table's kind, None where several kinds have the same.
    """

    columns: tuple[HeaderColumn, ...]
    form: Layout
    sure: NsysTable | None = None
    delimiter: str = ""

    def place(self, role: str) -> int | None:
        """Which column holds it; None where none does."""
        return next((i for i, column in enumerate(self.columns) if column.role == role), None)


# What reports were called up to 2022.
_OLD_NAMES = {
    "cudaapisum": NsysTable.API,
    "gpukernsum": NsysTable.KERNELS,
    "gpukerngbsum": NsysTable.KERNELS_BY_GRID,
    "gpumemtimesum": NsysTable.MEMORY_TIME,
    "gpumemsizesum": NsysTable.MEMORY_SIZE,
    "gpusum": NsysTable.GPU,
    "apigpusum": NsysTable.API_AND_GPU,
    "nvtxsum": NsysTable.RANGES,
    "nvtxppsum": NsysTable.PUSH_POP,
    "pushpopsum": NsysTable.PUSH_POP,
    "nvtxsssum": NsysTable.START_END,
    "nvtxsesum": NsysTable.START_END,
    "startendsum": NsysTable.START_END,
    "openaccsum": NsysTable.OPENACC,
    "openmpevtsum": NsysTable.OPENMP,
    "openmpsum": NsysTable.OPENMP,
    "osrtsum": NsysTable.OSRT,
    "gputrace": NsysTable.GPU_TRACE,
    "cudaapitrace": NsysTable.API_TRACE,
}
_TABLES = {table.value: table for table in NsysTable} | _OLD_NAMES
# Headings of text up to 2022, in order: the first that fits.
_TITLES = (
    (re.compile(r"CUDA API (?:Statistics|Summary)"), NsysTable.API),
    (re.compile(r"CUDA API Trace"), NsysTable.API_TRACE),
    (re.compile(r"CUDA (?:GPU )?Kernel (?:Statistics|Summary)"), NsysTable.KERNELS),
    (re.compile(r"CUDA Memory Operation Statistics \((?:by size.*|KiB|MiB|KB|MB|bytes)\)"),
     NsysTable.MEMORY_SIZE),
    (re.compile(r"CUDA Memory Operation Statistics"), NsysTable.MEMORY_TIME),
    (re.compile(r"CUDA (?:GPU )?Kernel (?:&|and) Memory Operations? (?:Statistics|Summary)"),
     NsysTable.GPU),
    (re.compile(r"CUDA (?:GPU )?Kernel (?:&|and) Memory Operations? Trace"), NsysTable.GPU_TRACE),
    (re.compile(r"NVTX Push-?/?Pop Range (?:Statistics|Summary)"), NsysTable.PUSH_POP),
    (re.compile(r"NVTX Start-?/?End Range (?:Statistics|Summary)"), NsysTable.START_END),
    (re.compile(r"NVTX Range (?:Statistics|Summary)"), NsysTable.RANGES),
    (re.compile(r"OpenACC (?:Event )?(?:Statistics|Summary)"), NsysTable.OPENACC),
    (re.compile(r"OpenMP (?:Event )?(?:Statistics|Summary)"), NsysTable.OPENMP),
    (re.compile(r"(?:Operating System|OS) Runtime (?:API )?(?:Statistics|Summary)"), NsysTable.OSRT),
)  # fmt: skip
# Others by their old headings, with what nsys calls them.
_OTHER_TITLES = {
    "KHR": "opengl_khr_range_sum",
    "Vulkan": "vulkan_marker_sum",
    "DX": "dx12_gpu_marker_sum",
}
_OTHER_TITLE = re.compile(r"(KHR|Vulkan|DX)\b.{0,40} (?:Statistics|Summary)")
_FEWEST_COLUMNS = 6
# Columns by which tables that are not read are told where nothing announces them.
_OTHERS = (
    ("API Start", "cuda_kern_exec_trace"),
    ("QCount", "cuda_kern_exec_sum"),
    ("Projected Start", "nvtx_gpu_proj_trace"),
    ("Total Proj Time", "nvtx_gpu_proj_sum"),
    ("Kern Inst", "nvtx_kern_sum"),
    ("DurNonChild", "nvtx_pushpop_trace"),
    ("Total HtoD Migration Size", "um_total_sum"),
    ("HtoD Migration Size", "um_sum"),
    ("Total Message Volume", "mpi_msg_size_sum"),
    ("PeerRank", "mpi_event_trace"),
)
_WORDS = {
    "Total Time": "total",
    "Total": "total",
    "Num Calls": "count",
    "Calls": "count",
    "Instances": "count",
    "Count": "count",
    "Operations": "count",
    "Avg": "avg",
    "Average": "avg",
    "Med": "med",
    "Median": "med",
    "Min": "min",
    "Minimum": "min",
    "Max": "max",
    "Maximum": "max",
    "StdDev": "stddev",
    "Name": "name",
    "Operation": "name",
    "Range": "name",
    "Style": "style",
    "Category": "category",
    "Source": "source",
    "GridXYZ": "grid",
    "BlockXYZ": "block",
}
_TRACE_WORDS = {
    "Start": "start",
    "Start Time": "start",
    "Duration": "dur",
    "CorrId": "correlation",
    "CorrID": "correlation",
    "GrdX": "grid_x",
    "GrdY": "grid_y",
    "GrdZ": "grid_z",
    "BlkX": "block_x",
    "BlkY": "block_y",
    "BlkZ": "block_z",
    "Reg/Trd": "registers",
    "StcSMem": "static",
    "DymSMem": "dynamic",
    "Bytes": "bytes",
    "Throughput": "throughput",
    "Thru": "throughput",
    "SrcMemKd": "src_kind",
    "DstMemKd": "dst_kind",
    "Device": "device",
    "Ctx": "context",
    "GreenCtx": "green_context",
    "Strm": "stream",
    "Name": "name",
    "Result": "result",
    "Pid": "pid",
    "Tid": "tid",
    "T-Pri": "priority",
    "Thread Name": "thread",
}
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
_OF_CALLS = {"pid", "tid", "result"}
_CELL = re.compile(r"(.*?)\s*\(([^()]*)\)$")
_GAP = re.compile(r"\s{2,}")
BOX = re.compile(r"[|│┃║¦]")
_DELIMITERS = (",", ";", "\t")
# Lines without any of these are no headers.
_HEADER_WORDS = re.compile(r"Total|Start|Migration Size|Projected|QCount|Kern Inst|PeerRank")


def report_of(name: str) -> NsysTable | str:
    """The table that a report is called by, in old and new words; its own name where it is not read.

    Arguments stand behind a colon, or in file names behind an underscore.
    """
    plain = name.partition(":")[0]
    return _TABLES.get(plain, plain)


def title_of(line: str) -> NsysTable | str | None:
    """The same of a heading of old; None where the line is none."""
    for pattern, table in _TITLES:
        if pattern.search(line):
            return table
    other = _OTHER_TITLE.search(line)
    return _OTHER_TITLES[other.group(1)] if other else None


def header_of(line: str) -> NsysHeader | str | None:
    """The header that a line is; of a table that is not read, its report's name; None: no header."""
    if _HEADER_WORDS.search(line) is None:
        return None
    found: NsysHeader | str | None = None
    for delimiter in _DELIMITERS:
        if delimiter in line:
            parts = cells(line.strip(" \ufeff"), delimiter) or []
            found = found or _header([part.strip() for part in parts], Layout.DELIMITED, delimiter)
    plain = line.strip(" \ufeff")
    if BOX.search(plain):
        found = found or _header([part.strip(" *`") for part in boxed(plain)], Layout.BOXED)
    return found or _header(_GAP.split(plain), Layout.ALIGNED)


def header_of_keys(keys: list[str]) -> NsysHeader | str | None:
    """The same of the keys of an object."""
    return _header(keys, Layout.JSON)


def boxed(line: str) -> list[str]:
    """The cells between the lines of a box; a kernel's name may have such a line in it."""
    parts = BOX.split(line)
    return [part.strip() for part in parts[1 : len(parts) - (not parts[-1].strip())]]


def cells(line: str, delimiter: str) -> list[str] | None:
    """The cells of one line; None where its quotes do not close. Between tabs there are no quotes."""
    return line.split("\t") if delimiter == "\t" else csv_cells(line, delimiter)


def _header(words: list[str], form: Layout, delimiter: str = "") -> NsysHeader | str | None:
    if len(words) < 3:
        return None
    for column, report in _OTHERS:
        if len(words) >= _FEWEST_COLUMNS and any(_parted(word)[0] == column for word in words):
            return report
    for columns, sure in (_totals(words), _trace(words)):
        roles = [column.role for column in columns]
        if columns and len(set(roles)) == len(roles):
            return NsysHeader(columns, form, sure, delimiter)
    return None


def _parted(word: str) -> tuple[str, str]:
    """What a header's cell says, and its unit."""
    match = _CELL.match(word)
    return (match.group(1), match.group(2)) if match else (word, "")


def _totals(words: list[str]) -> tuple[tuple[HeaderColumn, ...], NsysTable | None]:
    """The columns of a table of totals, and its kind as far as they tell it; none where it is none."""
    columns = []
    for number, word in enumerate(words):
        name, unit = _parted(word)
        role = "share" if (name, unit) == ("Time", "%") else _WORDS.get(name, f"other {number}")
        columns.append(HeaderColumn(role, unit))
    roles = {column.role for column in columns}
    names = {_parted(word)[0] for word in words}
    if not roles >= {"total", "count", "name"}:
        return (), None
    if "share" not in roles:
        sized = _is_size(words) and roles >= {"avg", "min", "max"}
        return (tuple(columns), NsysTable.MEMORY_SIZE) if sized else ((), None)
    if "Total Time" not in names:
        return (), None
    sure: NsysTable | None = None
    if "category" in roles:
        pass  # with API calls or without, which its rows tell
    elif "grid" in roles:
        sure = NsysTable.KERNELS_BY_GRID
    elif names & {"Operation", "Operations"}:
        sure = NsysTable.MEMORY_TIME
    elif "Range" in names:
        sure = NsysTable.RANGES
    elif "Instances" in names and "source" not in roles:
        sure = NsysTable.KERNELS
    return tuple(columns), sure


def _is_size(words: list[str]) -> bool:
    """Whether a header without shares is that of sizes."""
    totals = [_parted(word) for word in words if _parted(word)[0] in ("Total", "Total Time")]
    return all(name == "Total" and unit in ("", *SIZES) for name, unit in totals)


def _trace(words: list[str]) -> tuple[tuple[HeaderColumn, ...], NsysTable | None]:
    """The same of a trace. Its times have units, which tells it from those of others."""
    columns = []
    for number, word in enumerate(words):
        name, unit = _parted(word)
        columns.append(HeaderColumn(_TRACE_WORDS.get(name, f"other {number}"), unit))
    timed = {column.role for column in columns if column.unit}
    roles = {column.role for column in columns}
    if (
        not timed >= {"start", "dur"}
        or "name" not in roles
        or "End" in {_parted(w)[0] for w in words}
    ):
        return (), None
    of_calls = roles & _OF_CALLS and not roles & _ON_GPU
    return tuple(columns), NsysTable.API_TRACE if of_calls else NsysTable.GPU_TRACE


BEGINS = re.compile(rb'\s*\[\s*(?:\{\s*"|$)')
"""A line with which an array of objects may begin."""

_FIRST = re.compile(r'\s*\[\s*\{\s*"((?:[^"\\]|\\.){1,200})"\s*:')
_BEHIND = re.compile(r"\s*(,|\])?")
# The last column of every table is a text.
_ENDS = re.compile(r'"\s*\}\s*(?=,\s*(?:\{|$)|\]\s*(?:\n|$)|$)')
_KEY = re.compile(r'[{,]\s*"([^"]{1,40})"\s*:')
_CHUNK_BYTES = 1 << 20
# What is longer is none: names of kernels have some thousand characters.
_LONGEST_ROW = 8 << 20
# As numbers are spelled: what they stand for their columns tell.
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str, strict=False)

Row = dict[str, str]


class JsonRows:
    """The objects of the array that begins at this byte, as texts by key.

    All have the keys of the first, in its order. Once all are asked for: `end` is the byte behind the
    array, `closed` whether it ends there, and `unread` how many objects are none of its rows. There are
    none where it is no such array.
    """

    def __init__(self, path: Path, start: int) -> None:
        self._path, self._start = path, start
        self.end = start
        self.closed = False
        self.unread = 0

    def __iter__(self) -> Iterator[Row]:
        with self._path.open("rb") as file:
            file.seek(self._start)
            raw = file.read(_CHUNK_BYTES)
            # Bytes as characters of one byte each, so that places are places in the file.
            text, base = raw.decode("latin-1"), self._start
            first = _FIRST.match(text)
            if first is None:
                return
            anchor = re.compile(r'\{\s*"' + re.escape(first.group(1)) + r'"\s*:')
            place, keys = text.index("{"), None
            while True:
                following = anchor.search(text, place + 1)
                behind = following.start() if following else len(text)
                found, length = _one(text[place:behind], keys)
                after = _BEHIND.match(text, place + length)
                sign = after.group(1) if found is not None and after is not None else None
                goes_on = following is None and sign != "]" and len(text) - place < _LONGEST_ROW
                if goes_on and (more := file.read(_CHUNK_BYTES)):
                    text, base, place = text[place:] + more.decode("latin-1"), base + place, 0
                    continue
                keys = keys or list(found or ())
                if found is not None and found.keys() == set(keys):
                    yield {key: found[key] for key in keys}
                elif found is not None or following is not None:
                    self.unread += 1  # the last one may be cut
                self.closed = sign == "]"
                self.end = base + (after.end() if after and self.closed else place + length)
                if following is None or (found is not None and sign != ","):
                    return
                place = behind


def _one(text: str, keys: list[str] | None) -> tuple[Row | None, int]:
    """The object with which a text begins, and its length; None for what is none."""
    whole = text.encode("latin-1")
    decoded = whole.decode("utf-8", "replace")
    try:
        found, length = _DECODER.raw_decode(decoded)
    except (ValueError, RecursionError):
        end = _ENDS.search(decoded)
        cut = decoded[: end.end()].rstrip() if end else ""
        row = _by_keys(cut, keys or _KEY.findall(cut)) if cut else None
        return row, len(cut.encode()) if row else len(whole)
    return _texts(found), len(decoded[:length].encode())


def _texts(found: dict[str, object]) -> Row | None:
    texts = {key: "" if value is None else value for key, value in found.items()}
    if not all(isinstance(value, str) for value in texts.values()):
        return None
    return {key: str(value) for key, value in texts.items()}


def _by_keys(text: str, keys: list[str]) -> Row | None:
    """The values between the keys, whatever quotes are in them."""
    ends, begins = [], []
    place = 0
    for sign, key in zip(chain("{", repeat(",")), keys, strict=False):
        found = re.compile(rf'{re.escape(sign)}\s*"{re.escape(key)}"\s*:\s*').search(text, place)
        if found is None:
            return None
        ends.append(found.start())
        place = found.end()
        begins.append(place)
    ends = [*ends[1:], text.rindex("}")]
    spelled = (text[low:high].strip() for low, high in zip(begins, ends, strict=True))
    values = (value.removeprefix('"').removesuffix('"') for value in spelled)
    return {
        key: "" if value == "null" else value.replace('\\"', '"')
        for key, value in zip(keys, values, strict=True)
    }


# Spaces of all widths, and what is left of one that was written in another encoding; apostrophes.
_BLANKS = " \u00a0\u2007\u2009\u202f\ufffd'\u2019"
_GROUP_SIGN = re.compile(rf"[.,{_BLANKS}]")
_NUMBER = re.compile(rf"-?[0-9][0-9.,{_BLANKS}]*$")
# Of more, Python makes no number, and no table has them.
_MOST_DIGITS = 1000
# What stands around a number where somebody made another table of it.
_AROUND = " %*`\t"
LARGEST = 1 << 62
"""No number of ns, bytes or rows is larger."""


class CellKind(Enum):
    """What the cells of a column look like: whole numbers, numbers with three decimals, or any."""

    WHOLE = 0
    THOUSANDTHS = 3
    ANY = -1


@dataclass(frozen=True)
class SpelledNumber:
    """A number and how many decimals it was spelled with."""

    value: Fraction
    decimals: int
    is_grouped: bool = field(default=False, compare=False)

    def quantity(self, scale: Fraction | int, decimals: int | None = None) -> ValueRange:
        """All that is spelled so with this many decimals (None: its own), times the scale."""
        half = Fraction(1, 2 * 10 ** (self.decimals if decimals is None else decimals))
        return ValueRange((self.value - half) * scale, (self.value + half) * scale)

    def cut(self, scale: Fraction | int) -> ValueRange:
        """All that is spelled so where decimals are cut, times the scale."""
        return ValueRange(self.value * scale, (self.value + 1) * scale)


class _Locale(Enum):
    """How locales spell numbers; the value is a pattern of one: sign, groups, decimals."""

    POINT = rf"(-?(?:[1-9][0-9]{{0,2}}(?:[,{_BLANKS}][0-9]{{3}})+|[0-9]+))(?:\.([0-9]*))?"
    COMMA = rf"(-?(?:[1-9][0-9]{{0,2}}(?:[.{_BLANKS}][0-9]{{3}})+|[0-9]+))(?:,([0-9]*))?"
    # Of locales with other groups all have these signs.
    FOURS = r"(-?(?:[1-9][0-9]{0,3}(?:,[0-9]{4})+|[0-9]+))(?:\.([0-9]*))?"
    INDIAN = r"(-?(?:[1-9][0-9]?(?:,[0-9]{2})*,[0-9]{3}|[0-9]+))(?:\.([0-9]*))?"


_PATTERNS = {locale: re.compile(locale.value) for locale in _Locale}


@dataclass(frozen=True)
class NumberFormat:
    """The locales that a table may have been printed in: those that most of its cells fit."""

    locales: tuple[_Locale, ...]

    @property
    def has_commas(self) -> bool:
        """Whether commas mark decimals for sure."""
        return self.locales == (_Locale.COMMA,)

    def number(self, text: str, holds: CellKind) -> SpelledNumber | None:
        """The number that a cell is; None where it is none, or could be several."""
        found = self._readings(text, holds)
        return found.pop() if len(found) == 1 else None

    def is_ambiguous(self, text: str, holds: CellKind) -> bool:
        """Whether a cell could be several numbers, and nothing tells which."""
        return len(self._readings(text, holds)) > 1

    def _readings(self, text: str, holds: CellKind) -> set[SpelledNumber]:
        digits = _digits(text)
        if not digits:
            return set()
        found = {number for locale in self.locales if (number := _number(digits, locale))}
        likely = {number for number in found if _fits(number, holds)}
        if holds is CellKind.WHOLE and not likely:
            return {number for number in found if number.value.denominator == 1}
        return likely or found


def number_format(
    found: Iterable[tuple[str, CellKind]], *, has_points: bool = False
) -> NumberFormat:
    """How a table spells numbers, told by all of its cells and what their columns hold.

    `has_points`: where they do not tell, points mark decimals, as CSV and JSON have them.
    """
    odd = dict.fromkeys(_Locale, 0)
    for text, holds in found:
        digits = _digits(text)
        if _GROUP_SIGN.search(digits):
            for locale in _Locale:
                number = _number(digits, locale)
                odd[locale] += number is None or not _fits(number, holds)
    fewest = min(odd.values())
    best = tuple(locale for locale in _Locale if odd[locale] == fewest)
    return NumberFormat((_Locale.POINT,) if has_points and _Locale.POINT in best else best)


def _digits(text: str) -> str:
    """A cell without what may stand around its number; empty where it holds none."""
    digits = text.strip(_AROUND)
    return digits if _NUMBER.match(digits) and len(digits) <= _MOST_DIGITS else ""


def _number(digits: str, locale: _Locale) -> SpelledNumber | None:
    """The number that is spelled so in a locale; None where nothing is."""
    match = _PATTERNS[locale].fullmatch(digits)
    if match is None:
        return None
    whole, behind = match.group(1), match.group(2) or ""
    plain = _GROUP_SIGN.sub("", whole)
    value = Fraction(f"{plain}.{behind}" if behind else plain)
    return SpelledNumber(value, len(behind), plain != whole) if abs(value) <= LARGEST else None


def _fits(number: SpelledNumber, holds: CellKind) -> bool:
    """Whether a column of this kind holds such a number: whole ones, or such with decimals."""
    if holds is CellKind.WHOLE:
        return number.decimals == 0
    return holds is CellKind.ANY or not number.is_grouped or number.decimals > 0
