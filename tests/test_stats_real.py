"""The CUDA summaries of `nsys stats` on real files, to the last byte of the CSV, computed once more.

With nothing but SQL on the source and plain Python: no row passes through any code of ours.
"""

from __future__ import annotations

import csv
import io
import sqlite3
import statistics
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
from conftest import REAL_FILES, few, name_of, real
from test_render import rendered

from nsysconv import api
from nsysconv.errors import NotRecorded

TIMES = ("Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)")
SIZES = ("Avg (MB)", "Med (MB)", "Min (MB)", "Max (MB)", "StdDev (MB)")
COPIES = {1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device", 10: "Peer-to-Peer",
          11: "Unified Host-to-Device", 12: "Unified Device-to-Host"}  # fmt: skip
Groups = dict[Any, list[int]]


def printed(path: Path, report: str) -> str:
    """What we print of the file, read in place."""
    with api.open(path) as profile:
        try:
            return rendered("csv", profile.report(report))
        except NotRecorded:
            pytest.skip("not recorded in this file")


def select(path: Path, table: str, columns: str) -> list[tuple[Any, ...]]:
    """Columns of a table of the source; none where it has no such table."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as source:
        known = {name for (name,) in source.execute("SELECT name FROM sqlite_master")}
        if table not in known:
            return []
        return list(source.execute(f"SELECT {columns} FROM {table}"))


def strings(path: Path) -> dict[int, str]:
    return dict(select(path, "StringIds", "id, value"))


def grouped(rows: Iterable[tuple[Any, int]]) -> Groups:
    found: Groups = {}
    for key, value in rows:
        found.setdefault(key, []).append(value)
    return found


def decimal(value: float, places: int) -> str:
    return str(Decimal(repr(value)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))


def figures(values: Sequence[int]) -> tuple[float, float, int, int, float]:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    middle = float(statistics.median(values))
    return sum(values) / len(values), middle, min(values), max(values), spread


def time_cells(values: Sequence[int], whole: int) -> list[str]:
    mean, middle, least, most, spread = figures(values)
    return [decimal(100 * sum(values) / whole, 1), str(sum(values)), str(len(values)),
            decimal(mean, 1), decimal(middle, 1), str(least), str(most), decimal(spread, 1)]  # fmt: skip


def size_cells(values: Sequence[int]) -> list[str]:
    told = (decimal(value / 1e6, 3) for value in figures(values))
    return [decimal(sum(values) / 1e6, 3), str(len(values)), *told]


def text_of(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([header, *rows])
    return out.getvalue()


def kernels(path: Path) -> list[tuple[str, list[int]]]:
    names = strings(path)
    rows = select(path, "CUPTI_ACTIVITY_KIND_KERNEL", 'demangledName, "end" - start')
    return [(names[key], values) for key, values in grouped(rows).items()]


def memory(path: Path, value: str) -> list[tuple[str, list[int]]]:
    copies = select(path, "CUPTI_ACTIVITY_KIND_MEMCPY", f"copyKind, {value}")
    sets = select(path, "CUPTI_ACTIVITY_KIND_MEMSET", f"0, {value}")
    found = [(f"[CUDA memcpy {COPIES[kind]}]", values) for kind, values in grouped(copies).items()]
    return [*found, *(("[CUDA memset]", values) for values in grouped(sets).values())]


every_real_file = pytest.mark.parametrize("path", few(REAL_FILES, 1), ids=name_of)


def api_calls(path: Path) -> list[tuple[str, list[int]]]:
    """Calls in the order of their names' ids, without rows of class 67, which wrap calls and are none."""
    names = strings(path)
    rows = select(path, "CUPTI_ACTIVITY_KIND_RUNTIME", 'nameId, "end" - start, eventClass')
    found = sorted(grouped((key, dur) for key, dur, kind in rows if kind in (0, 1)).items())
    shown = {key: name[:-6] if name[-6:].startswith("_v") else name for key, name in names.items()}
    return [(shown[key], values) for key, values in found]


Named = tuple[str, list[int]]


def by_sum(item: Named) -> Any:
    return -sum(item[1]), item[0]


# What is summed up, in which order, and the header.
SUMS: dict[str, tuple[Callable[[Path], list[Named]], Callable[[Named], Any], Sequence[str]]] = {
    "cuda_api_sum": (api_calls, lambda item: -sum(item[1]),
                     ("Time (%)", "Total Time (ns)", "Num Calls", *TIMES, "Name")),
    "cuda_gpu_kern_sum": (kernels, lambda item: (-sum(item[1]), len(item[1]), item[0]),
                          ("Time (%)", "Total Time (ns)", "Instances", *TIMES, "Name")),
    "cuda_gpu_mem_time_sum": (lambda path: memory(path, '"end" - start'), by_sum,
                              ("Time (%)", "Total Time (ns)", "Count", *TIMES, "Operation")),
    "cuda_gpu_mem_size_sum": (lambda path: memory(path, "bytes"), by_sum,
                              ("Total (MB)", "Count", *SIZES, "Operation")),
}  # fmt: skip


@real
@every_real_file
@pytest.mark.parametrize("report", SUMS)
def test_sums(report: str, path: Path) -> None:
    text = printed(path, report)
    groups, order, header = SUMS[report]
    found = sorted(groups(path), key=order)
    whole = sum(sum(values) for _, values in found)
    assert text == text_of(header, [
        [*(size_cells(values) if SIZES[0] in header else time_cells(values, whole)), name]
        for name, values in found
    ])  # fmt: skip


@real
@every_real_file
def test_cuda_gpu_trace_has_every_operation(path: Path) -> None:
    """Starts, durations and throughputs of all copies, kernels and sets, by start."""
    text = printed(path, "cuda_gpu_trace")
    wanted = []
    for kind, size in (("KERNEL", "NULL"), ("MEMCPY", "bytes"), ("MEMSET", "bytes")):
        rows = select(path, f"CUPTI_ACTIVITY_KIND_{kind}", f'start, "end" - start, {size}')
        for start, dur, moved in rows:
            rate = "" if moved is None or not dur else decimal(moved * (10**9 // dur) / 1e6, 3)
            wanted.append((start, str(dur), "" if moved is None else decimal(moved / 1e6, 3), rate))
    rows = csv.DictReader(io.StringIO(text))
    found = [
        (int(row["Start (ns)"]), row["Duration (ns)"], row["Bytes (MB)"], row["Throughput (MB/s)"])
        for row in rows
    ]
    assert [row[0] for row in found] == sorted(row[0] for row in wanted)
    assert sorted(found) == sorted(wanted)
