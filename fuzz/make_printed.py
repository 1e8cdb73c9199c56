"""Tables as `nsys stats` prints them in locales of the world, with what nsys says between rows."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal

from made import Made, about
from nsys_stats_tables import Rows
from truth import Printed
from write_nsys_stats import ENGLISH, FOURS, FRENCH, GERMAN, INDIAN, PLAIN, Locale, column

Number = int | Decimal
Cells = tuple[Number | str, ...]


LOCALES = {
    "plain": PLAIN,
    "1,234.5": ENGLISH,
    "1.234,5": GERMAN,
    "1'234.5": Locale("'", "."),
    "1 234,5 no-break": Locale("\u00a0", ","),
    "1 234,5 narrow": FRENCH,
    "12,3456.7": FOURS,
    "12,34,567.8": INDIAN,
}
"""Spellings of numbers."""

_FOLDER = "/opt/nvidia/nsight-systems/reports"
_BETWEEN = (
    "Processing events...",
    "NOTICE: Existing SQLite export found: report1.sqlite",
    "WARNING: 3 events were dropped.",
    "[3/8] [====50%                     ] report1.nsys-rep",
    "Exporting data...",
)


@dataclass(frozen=True)
class _Table:
    """A report: its name, its title, words of its columns, rows of cells, and what must be read."""

    report: str
    title: str
    header: tuple[str, ...]
    rows: list[Cells]
    truth: Printed


def make(random_: random.Random) -> Made:
    """Make one of the files."""
    words = random_.choice(list(LOCALES))
    whole_shares = random_.random() < 0.25
    between = random_.random() < 0.4
    biggest = random_.choice((2_000, 50_000, 10**7, 10**12))
    found = [_calls, _kernels, _copies, _copies_alone]
    tables: list[_Table] = []
    for report in random_.sample(found, random_.randint(1, 3)):
        if report in (_copies, _copies_alone) and any(one.truth.kind == 1 for one in tables):
            continue
        tables += report(random_, biggest)
    text = ""
    for table in tables:
        text += f"Processing [report1.sqlite] with [{_FOLDER}/{table.report}.py]... \n\n"
        text += f" ** {table.title} ({table.report}):\n\n"
        text += _printed(random_, table, LOCALES[words], whole_shares, between) + "\n"
    done = [
        words,
        *["whole shares"] * whole_shares,
        *["messages between"] * between,
        f"up to {biggest}",
    ]
    done += [table.report for table in tables]
    truths = tuple(table.truth for table in tables)
    return Made("printed.txt", text.encode(), tuple(done), truths)


def _printed(
    random_: random.Random, table: _Table, locale: Locale, whole_shares: bool, between: bool
) -> str:
    rows: list[Cells] = table.rows
    if whole_shares and table.header[0] == "Time (%)":
        rows = [(_rounded(row[0], 0, ROUND_DOWN), *row[1:]) for row in rows]
    printed = column(Rows(table.report, table.header, tuple(rows)), locale).splitlines()
    if between and len(printed) > 3:
        for _ in range(random_.randint(1, 3)):
            printed.insert(random_.randint(3, len(printed) - 1), random_.choice(_BETWEEN))
    return "\n".join(printed) + "\n"


# -- what is printed


def _rounded(value: Number | str, decimals: int, how: str = ROUND_HALF_UP) -> Number:
    found = Decimal(value).quantize(Decimal(1).scaleb(-decimals), how)
    return int(found) if decimals == 0 else found


def _durations(random_: random.Random, count: int, biggest: int) -> list[list[int]]:
    found = [
        [about(random_, 1, biggest) for _ in range(random_.choice((1, 2, 7, 40)))]
        for _ in range(count)
    ]
    return sorted(found, key=sum, reverse=True)


def _figures(values: Sequence[int], unit: int, decimals: int, of_whole: int) -> tuple[Number, ...]:
    count, ordered = len(values), sorted(values)
    mean = Decimal(sum(values)) / count
    middle = Decimal(ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    deviation = Decimal(0)
    if count > 1:
        deviation = (
            sum(((value - mean) ** 2 for value in values), Decimal(0)) / (count - 1)
        ).sqrt()
    return (*(_rounded(value / unit, decimals) for value in (mean, middle)),
            *(_rounded(Decimal(value) / unit, of_whole) for value in (ordered[0], ordered[-1])),
            _rounded(deviation / unit, decimals))  # fmt: skip


def _times(
    report: str, title: str, count_word: str, name_word: str, names: Sequence[str],
    durations: Sequence[Sequence[int]], kind: int, key: str, keys: Sequence[object],
) -> _Table:  # fmt: skip
    whole = sum(map(sum, durations))
    header = ("Time (%)", "Total Time (ns)", count_word, "Avg (ns)", "Med (ns)", "Min (ns)",
              "Max (ns)", "StdDev (ns)", name_word)  # fmt: skip
    rows: list[Cells] = []
    known = {}
    for name, code, values in zip(names, keys, durations, strict=True):
        share = _rounded(Decimal(100 * sum(values)) / whole, 1)
        rows.append((share, sum(values), len(values), *_figures(values, 1, 1, 0), name))
        figures = {"count": len(values), "sum_ns": sum(values), "min_ns": min(values),
                   "max_ns": max(values)}  # fmt: skip
        known[code] = {figure: (value, value) for figure, value in figures.items()}
        # Where the sum cannot be read, it is known by its mean, of which one decimal is printed.
        most = len(values) // 20 + 1
        known[code]["sum_ns"] = (sum(values) - most, sum(values) + most)
    return _Table(report, title, header, rows, Printed(report, kind, key, known))


def _calls(random_: random.Random, biggest: int) -> list[_Table]:
    names = ["cudaMalloc", "cudaLaunchKernel", "cudaMemcpyAsync", "cudaStreamSynchronize", "cudaFree",
             "cudaEventRecord", "cudaMemsetAsync"]  # fmt: skip
    names = random_.sample(names, random_.randint(1, len(names)))
    return [_times("cuda_api_sum", "CUDA API Summary", "Num Calls", "Name", names,
                   _durations(random_, len(names), biggest), 3, "n.text", names)]  # fmt: skip


def _kernels(random_: random.Random, biggest: int) -> list[_Table]:
    names = ["gemm", "void reduce<float, 4>(T1 *, int)", "relu 2", "copy_12,345", "softmax(1.5)", "k_7"]
    names = random_.sample(names, random_.randint(1, len(names)))
    return [_times("cuda_gpu_kern_sum", "CUDA GPU Kernel Summary", "Instances", "Name", names,
                   _durations(random_, len(names), biggest), 0, "n.text", names)]  # fmt: skip


_DIRECTIONS = {"[CUDA memcpy Host-to-Device]": 1, "[CUDA memcpy Device-to-Host]": 2,
               "[CUDA memcpy Device-to-Device]": 8}  # fmt: skip


def _copies_alone(random_: random.Random, biggest: int) -> list[_Table]:
    names = list(_DIRECTIONS)[: random_.randint(1, 3)]
    keys = [_DIRECTIONS[name] for name in names]
    return [_times("cuda_gpu_mem_time_sum", "CUDA GPU MemOps Summary (by Time)", "Count", "Operation",
                   names, _durations(random_, len(names), biggest), 1, "a.direction", keys)]  # fmt: skip


def _copies(random_: random.Random, biggest: int) -> list[_Table]:
    (times,) = _copies_alone(random_, biggest)
    rows: list[Cells] = []
    known = {}
    for row in times.rows:
        count, name = int(row[2]), str(row[-1])
        sizes = [about(random_, 1, biggest) for _ in range(count)]
        mega = 10**6
        rows.append(
            (_rounded(Decimal(sum(sizes)) / mega, 3), count, *_figures(sizes, mega, 3, 3), name)
        )
        # A sum may be known by its mean only.
        figures = {"bytes_sum": (sum(sizes), 500 * count), "bytes_min": (min(sizes), 500),
                   "bytes_max": (max(sizes), 500)}  # fmt: skip
        known[_DIRECTIONS[name]] = {
            figure: (value - most, value + most) for figure, (value, most) in figures.items()
        }
    header = ("Total (MB)", "Count", "Avg (MB)", "Med (MB)", "Min (MB)", "Max (MB)", "StdDev (MB)",
              "Operation")  # fmt: skip
    truth = Printed("cuda_gpu_mem_size_sum", 1, "a.direction", known)
    return [
        times,
        _Table("cuda_gpu_mem_size_sum", "CUDA GPU MemOps Summary (by Size)", header, rows, truth),
    ]
