"""Odd logs of nvprof: damaged, mixed with a program's output, rewritten by users, of other kinds.

Most start from the `basic` workload and change its text, so the answers of `basic` hold for
everything the change does not touch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from nvprof_spelling import TIMES, concatenated, profiling, suffixed
from odd_nvprof_counters import EVENTS_CSV, EVENTS_TEXT, METRICS_CSV, METRICS_TEXT
from scenarios import WORKLOADS
from workload import Events, Workload
from write_nvprof_log import (
    api_trace_csv,
    gpu_trace_csv,
    summary_text,
    write_log,
)
from write_nvprof_summary import GPU, Total, groups, totals

Maker = Callable[[Path], None]
BASIC = WORKLOADS["basic"]
PROCESS = BASIC.processes[0]
PREFIX = f"=={PROCESS.pid}== "
OUTPUT = (
    "epoch 1 of 2, key SECRET-OUTPUT\n",
    "loss = 0.25, accuracy = 97.5%\n",
    "Time: 12.5ms 3 items, 1 warning\n",
)
OPENACC = """\
 OpenACC (excl):   71.43%  5.0000ms         2  2.5000ms  1.0000ms  4.0000ms  acc_wait@solve.c:85
                   21.43%  1.5000ms         3  500.00us  400.00us  700.00us  \
acc_enqueue_launch@solve.c:85 (kernel_85_gpu)
                    7.14%  500.00us         1  500.00us  500.00us  500.00us  \
acc_enqueue_upload@solve.c:80 (A[:n*n])
                    0.00%       0ns         1       0ns       0ns       0ns  acc_alloc@solve.c:80
"""
FOREIGN = """\
Generating SQLite file /tmp/report1.sqlite from /tmp/report1.nsys-rep
WARNING: nsys nvprof is now deprecated.

 Time (%)  Total Time (ns)  Num Calls  Avg (ns)  Med (ns)  Min (ns)  Max (ns)  StdDev (ns)  Name
 --------  ---------------  ---------  --------  --------  --------  --------  -----------  --------
    100.0             5000          2    2500.0    2500.0      1000      4000       2121.3  cudaFree
"""


def _log(text: str) -> Maker:
    return lambda path: write_log(path, text)


def _encoded(text: str, encoding: str) -> Maker:
    def make(path: Path) -> None:
        path.write_bytes(text.encode(encoding))

    return make


def _between(text: str, output: tuple[str, ...]) -> str:
    lines = text.splitlines(keepends=True)
    for number, line in zip((1, 6, -1), output, strict=True):
        lines.insert(number, line)
    return "".join(lines)


def _merged(text: str) -> str:
    return "[Cuda.exe] - Starting..." + text


def _reshaped() -> str:

    def row(total: Total) -> str:
        times = (total.time_ns, total.avg_ns, total.min_ns, total.max_ns)
        time_, avg, low, high = (_short(ns) for ns in times)
        name = f'"{total.name}"' if "," in total.name else total.name
        return f"{total.percent:.2f}%,{time_},{total.calls},{avg},{low},{high},{name}\n"

    rows = totals(groups(BASIC, PROCESS)[GPU])
    return "Time(%),Time,Calls,Avg,Min,Max,Name\n" + "".join(map(row, rows))


def _short(ns: int) -> str:
    return suffixed(ns, TIMES) if ns < 1000 else f"{ns / 1000:.2f}us"


def _with_symbols() -> Workload:
    kernels = tuple(
        replace(k, function=replace(k.function, demangled=k.function.mangled))
        for k in BASIC.events.kernels
    )
    return replace(BASIC, events=replace(BASIC.events, kernels=kernels))


def _warnings() -> str:
    text = summary_text(BASIC, PROCESS)
    head, rest = text.split(f"{PREFIX}Profiling result:\n")
    return (
        "======== Warning: nvprof is not supported on devices with compute capability 8.0 and "
        "higher.\n" + " " * 18 + "Use NVIDIA Nsight Systems for GPU tracing and CPU sampling and "
        "NVIDIA Nsight Compute for GPU profiling.\n" + " " * 18 + "Refer to the documentation.\n"
        + head
        + f"{PREFIX}Warning: 3 API trace records have same start and end timestamps.\n"
        "This can happen because of short execution duration of CUDA APIs and low timer resolution "
        "on the underlying operating system.\n"
        f"{PREFIX}Warning: 12 records have invalid timestamps due to insufficient device buffer "
        "space. You can configure the buffer space using the option --device-buffer-size.\n"
        f"{PREFIX}Something that no version of nvprof has said yet.\n"
        f"{PREFIX}Profiling result:\n" + rest
        + "======== Error: Application received signal 139\n"
    )  # fmt: skip


def _scientific() -> str:
    text = gpu_trace_csv(BASIC, PROCESS)
    return text.replace("\n140.000000,0.000000,", "\n1.400000e+02,0.000000e+00,").replace(
        "0.250000,0.000000,", "2.500000e-01,0.000000e+00,"
    )


def _cut() -> str:
    before, found, _ = gpu_trace_csv(BASIC, PROCESS).partition("133.000000,4.0000")
    if not found:
        raise ValueError("kernel 110 is not there")
    return before + found


def _two_tables() -> str:
    _, _, table = api_trace_csv(BASIC, PROCESS).partition("Profiling result:\n")
    return gpu_trace_csv(BASIC, PROCESS) + f"{PREFIX}API calls:\n{table}"


def _several_runs() -> str:
    runs = []
    for pid in (4242, 4310, 4377):
        process = replace(PROCESS, pid=pid)
        text = summary_text(BASIC, PROCESS).replace(PREFIX, f"=={pid}== ")
        text = text.replace(f"process {PROCESS.pid},", f"process {pid},")
        if pid == 4377:
            text = _nothing().replace(PREFIX, f"=={pid}== ")
            text = text.replace(profiling(BASIC, PROCESS), profiling(BASIC, process))
        runs.append(text)
    return concatenated(runs)


def _nothing() -> str:
    return summary_text(replace(BASIC, events=Events()), PROCESS)


def _without_process(text: str) -> str:
    kept = [line for line in text.splitlines(keepends=True) if "NVPROF is" not in line]
    return "".join(kept).replace(PREFIX, "======== ")


def _comma(text: str) -> str:
    return re.sub(r"(?<=\d)\.(?=\d)", ",", text)


_SUMMARY, _TRACE = summary_text(BASIC, PROCESS), gpu_trace_csv(BASIC, PROCESS)

# file: (maker, what it holds).
ODD_LOGS: dict[str, tuple[Maker, str]] = {
    "odd-program-output.txt": (
        _log(_merged(_between(_SUMMARY, OUTPUT))),
        "a summary with the program's output between its lines; the first banner follows an "
        "open line; answers as `basic`",
    ),
    "odd-program-output.csv": (
        _log(_merged(_between(_TRACE, OUTPUT))),
        "the same in a GPU trace in CSV; answers as `basic`",
    ),
    "odd-reshaped.csv": (
        _log(_reshaped()),
        "GPU part of a summary as users rewrite it: bare header, units in the cells, no banner",
    ),
    "odd-metrics.csv": (_log(METRICS_CSV), "metrics of two kernels, CSV"),
    "odd-metrics.txt": (_log(METRICS_TEXT), "metrics of two kernels on two GPUs, text"),
    "odd-events.csv": (_log(EVENTS_CSV), "events of two kernels, CSV"),
    "odd-events.txt": (_log(EVENTS_TEXT), "events of one kernel, text"),
    "odd-cut.csv": (_log(_cut()), "a GPU trace that ends within the row of kernel 110"),
    "odd-decimal-comma.txt": (
        _log(_comma(_SUMMARY)), "a summary with decimal commas; answers as `basic`",
    ),
    "odd-symbols.txt": (
        _log(summary_text(_with_symbols(), PROCESS)),
        "a summary with symbols in place of names (`--demangling off`)",
    ),
    "odd-openacc.txt": (
        _log(_SUMMARY.replace(f"\n{PREFIX}NVTX", f"{OPENACC}\n{PREFIX}NVTX")),
        "a summary with constructs of OpenACC",
    ),
    "odd-warnings.txt": (
        _log(_warnings()), "a summary with warnings before it and an error behind it",
    ),
    "odd-nothing.txt": (_log(_nothing()), "nothing was profiled"),
    "odd-nothing.csv": (
        _log(gpu_trace_csv(replace(BASIC, events=Events()), PROCESS)),
        "a GPU trace in CSV of nothing",
    ),
    "odd-utf16.csv": (
        _encoded("\ufeff" + _TRACE.replace("\n", "\r\n"), "utf-16-le"),
        "a GPU trace as PowerShell's `>` leaves it: UTF-16, CR LF; answers as `basic`",
    ),
    "odd-utf16.txt": (
        _encoded("\ufeff" + _SUMMARY.replace("\n", "\r\n"), "utf-16-le"),
        "a summary in UTF-16 with CR LF; answers as `basic`",
    ),
    "odd-crlf.csv": (
        _log(_TRACE.replace("\n", "\r\n")), "a GPU trace with CR LF; answers as `basic`",
    ),
    "odd-several-runs.txt": (
        _log(_several_runs()), "summaries of three runs, the last without any activity",
    ),
    "odd-no-process.txt": (
        _log(_without_process(_SUMMARY)), "a summary as `nvprof -i` prints it: of no process",
    ),
    "odd-scientific.csv": (
        _log(_scientific()), "a GPU trace some of whose cells have an exponent; answers as `basic`",
    ),
    "odd-two-tables.csv": (
        _log(_two_tables()), "GPU trace and API trace in one file, a table each",
    ),
    "odd-nsys.txt": (_log(FOREIGN), "what `nsys nvprof` prints; no log of nvprof"),
}  # fmt: skip
