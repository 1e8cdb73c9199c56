"""Fixtures that are printed tables of nsys: workload, reports, age, format and locale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import nsys_stats_tables as reports
from fixture import Fixture
from nsys_stats_tables import AGES, SUMMARY, Age, Rows
from odd_nsys_stats import ODD_STATS
from scenarios import WORKLOADS
from workload import Workload
from write_nsys_stats import (
    FRENCH,
    GERMAN,
    SWISS,
    Locale,
    column,
    csv_,
    heading,
    json_,
    oldest,
    processing,
    profile,
    stats,
    table,
    tsv,
    write_stats,
)

Make = Callable[[], str]
WITH_RANGES = (reports.ranges, *SUMMARY)
OUTPUT = "epoch 1 of 2, key SECRET-OUTPUT\n 12.5  3  items  4  left\nTime: 12.5ms\n"


@dataclass(frozen=True)
class Log:
    """One file; `tables` are the keys of the reports in it."""

    workload: str
    age: str
    tables: tuple[str, ...]
    make: Make
    holds: str


def _rows(
    workload: Workload, age: Age, which: tuple[Callable[[Age, Workload], Rows], ...]
) -> list[Rows]:
    return [report(age, workload) for report in which]


def _log(
    name: str, age: str, which: tuple[Callable[[Age, Workload], Rows], ...],
    write: Callable[[Age, list[Rows]], str], holds: str,
) -> Log:  # fmt: skip
    workload, words = WORKLOADS[name], AGES[age]
    return Log(name, age, tuple(report.__name__ for report in which),
               lambda: write(words, _rows(workload, words, which)), holds)  # fmt: skip


def _stats(locale: Locale) -> Callable[[Age, list[Rows]], str]:
    return lambda age, rows: stats(age, rows, locale)


def _all(form: Callable[[Rows], str]) -> Callable[[Age, list[Rows]], str]:
    return lambda age, rows: "".join(processing(age, each) + form(each) + "\n" for each in rows)


def _bare(form: Callable[[Rows], str]) -> Callable[[Age, list[Rows]], str]:
    return lambda age, rows: form(rows[0])


def _profile(age: Age, rows: list[Rows]) -> str:
    return profile(age, rows, OUTPUT)


def _boxes(age: Age, rows: list[Rows]) -> str:
    return "".join(processing(age, each) + heading(age, each) + table(each) + "\n" for each in rows)


def _old_console(age: Age, rows: list[Rows]) -> str:
    return OUTPUT + "".join(heading(age, each) + column(each) + "\n\n\n" for each in rows)


ENGLISH_STATS = _stats(Locale(",", "."))
STATS: dict[str, Log] = {
    "basic-2019.txt": _log("basic", "2019", SUMMARY, lambda age, rows: oldest(age, rows, OUTPUT),
                           "totals of `basic` as of nsys 2019, with the program's output"),
    "basic-2020.txt": _log("basic", "2020", WITH_RANGES, _old_console,
                           "the same as of 2020.3, sizes in KiB"),
    "basic-2021.txt": _log("basic", "2021", WITH_RANGES, _stats(GERMAN),
                           "the same as of 2021.4, German locale"),
    "basic-2022.txt": _log("basic", "2022", WITH_RANGES, _profile,
                           "as `nsys profile --stats=true` of 2022.4 prints it, kernels by grid"),
    "basic-2025.txt": _log("basic", "2025", WITH_RANGES, ENGLISH_STATS,
                           "totals of `basic` as of 2025 on a console"),
    "basic-2025-french.txt": _log("basic", "2025", WITH_RANGES, _stats(FRENCH),
                                  "the same, French locale"),
    "basic-2025-swiss.txt": _log("basic", "2025", SUMMARY, _stats(SWISS), "the same, Swiss locale"),
    "basic-2025-table.txt": _log("basic", "2025", SUMMARY, _boxes, "the same in boxes"),
    "basic-2025.csv": _log("basic", "2025", SUMMARY, _all(csv_), "the same as CSV"),
    "basic-2025.tsv": _log("basic", "2025", SUMMARY, _all(tsv), "the same as TSV"),
    "basic-2025.json": _log("basic", "2025", SUMMARY, _all(json_), "the same as JSON"),
    "basic-2021-gpukernsum.csv": _log("basic", "2021", (reports.kernels,), _bare(csv_),
                                      "totals of kernels alone, CSV"),
    "basic-2025-cuda_api_sum.json": _log("basic", "2025", (reports.api,), _bare(json_),
                                         "totals of API calls alone, JSON"),
    "basic-2025-cuda_gpu_kern_gb_sum.csv": _log("basic", "2025", (reports.grids,), _bare(csv_),
                                                "totals of kernels by grid and block, CSV"),
    "basic-2025-cuda_gpu_sum.csv": _log("basic", "2025", (reports.gpu, reports.sizes), _all(csv_),
                                        "totals of kernels and copies in one table, CSV"),
    "basic-2025-cuda_api_gpu_sum.txt": _log("basic", "2025", (reports.api_gpu,), ENGLISH_STATS,
                                            "totals of calls, kernels and copies in one table"),
    "basic-2025-cuda_gpu_trace.csv": _log("basic", "2025", (reports.gpu_trace,), _bare(csv_),
                                          "trace of the GPU, CSV"),
    "basic-2025-cuda_api_trace.csv": _log("basic", "2025", (reports.api_trace,), _bare(csv_),
                                          "trace of API calls, CSV"),
    "basic-2022-traces.txt": _log("basic", "2022", (reports.gpu_trace, reports.api_trace), ENGLISH_STATS,
                                  "both traces on a console"),
    "basic-2025-traces.json": _log("basic", "2025", (reports.gpu_trace, reports.api_trace), _all(json_),
                                   "both traces, JSON"),
    "ranges-2025.txt": _log("ranges", "2025", WITH_RANGES, ENGLISH_STATS, "totals with ranges"),
    "ranges-2022-nvtxppsum.csv": _log("ranges", "2022", (reports.push_pop,), _bare(csv_),
                                      "totals of pushed ranges alone, CSV"),
    "unified_memory-2020.txt": _log("unified_memory", "2020", SUMMARY, _old_console,
                                    "totals with migrations, as of 2020.3"),
    "unified_memory-2025.csv": _log("unified_memory", "2025", SUMMARY, _all(csv_),
                                    "the same as of 2025, CSV"),
    "unified_memory-2025-cuda_gpu_trace.csv": _log(
        "unified_memory", "2025", (reports.gpu_trace,), _bare(csv_), "trace with migrations, CSV"),
    "no_gpu-2025.txt": _log("no_gpu", "2025", SUMMARY, ENGLISH_STATS, "totals without GPU work"),
    "two_processes_two_gpus-2025.txt": _log("two_processes_two_gpus", "2025", SUMMARY, ENGLISH_STATS,
                                            "totals of two processes on two GPUs"),
}  # fmt: skip


def _write(log: Log, path: Path) -> None:
    write_stats(path, log.make())


ABOUT = """\
`nsys_stats/` holds what `nsys stats` prints of the same workloads: summaries and traces of several ages,
as CSV, TSV, JSON and text in several locales (`scripts/fixtures_nsys_stats.py`). Headers, headings,
alignment and what is around the tables follow output found in public repositories; figures follow from
NVIDIA's definitions (`scripts/nsys_stats_tables.py`). Those with something around the tables have
made-up secrets in paths and output. `odd-…` are damaged, mixed, rewritten and foreign files.
"""
EXAMPLE = "nsys_stats/basic-2025.txt"
FILES = [
    *(Fixture(f"nsys_stats/{name}", log.holds, partial(_write, log)) for name, log in STATS.items()),
    *(Fixture(f"nsys_stats/{name}", holds, make) for name, (make, holds) in ODD_STATS.items()),
]
