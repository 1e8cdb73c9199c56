"""The tables that `nsys stats` prints: told by what announces them, and by their headers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from nsysconv.importers.printed import text


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
    (re.compile(r"CUDA (?:GPU )?Kernel (?:&|and) Memory Operations? (?:Statistics|Summary)"), NsysTable.GPU),
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
    return line.split("\t") if delimiter == "\t" else text.csv_cells(line, delimiter)


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
