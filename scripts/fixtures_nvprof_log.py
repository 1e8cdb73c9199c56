"""Fixtures that are logs of nvprof: workload, kind and units of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fixture import Fixture
from nvprof_spelling import SummaryUnits, Units, concatenated
from odd_nvprof_logs import ODD_LOGS
from scenarios import WORKLOADS
from workload import Process, Workload
from write_nvprof_log import (
    api_trace_csv,
    api_trace_text,
    gpu_trace_csv,
    gpu_trace_text,
    write_log,
)
from write_nvprof_summary import summary_csv, summary_text

Writer = Callable[[Workload, Process], str]

# In seconds and MB a trace is rounded: microseconds and bytes are lost.
COARSE = Units("s", "ms", "B", "KB", "MB", "MB/s")
# Short enough to leave room for the device's number in 15 characters.
PRODUCT = "Tesla T4"


@dataclass(frozen=True)
class Log:
    """One file: every process of a workload, or one of them, one after the other."""

    workload: str
    write: Writer
    holds: str
    pid: int | None = None

    @property
    def processes(self) -> list[Process]:
        """Return the processes whose logs are in the file."""
        all_ = WORKLOADS[self.workload].processes
        return [process for process in all_ if self.pid in (None, process.pid)]


_TEXT = partial(gpu_trace_text, product=PRODUCT)

LOGS: dict[str, Log] = {
    "basic-gpu-trace.csv": Log("basic", gpu_trace_csv, "GPU trace of `basic`, CSV"),
    "basic-gpu-trace-cuda8.csv": Log(
        "basic", partial(gpu_trace_csv, units=COARSE, correlation=False),
        "the same as of CUDA 8: no column of correlation ids; in seconds, ms and MB",
    ),
    "basic-gpu-trace.txt": Log("basic", _TEXT, "the same as text; GPUs named in short"),
    "basic-api-trace.csv": Log("basic", api_trace_csv, "API trace of `basic`, CSV"),
    "basic-api-trace.txt": Log("basic", api_trace_text, "the same as text"),
    "basic-both-traces.csv": Log(
        "basic", partial(gpu_trace_csv, calls=True), "both traces of `basic` in one table, CSV",
    ),
    "basic-both-traces.txt": Log("basic", partial(_TEXT, calls=True), "the same as text"),
    "basic-summary.csv": Log("basic", summary_csv, "summary of `basic`, CSV"),
    "basic-summary.txt": Log("basic", summary_text, "the same as text"),
    "basic-summary-cuda8.csv": Log(
        "basic", partial(summary_csv, types=False), "the same as of CUDA 8, CSV",
    ),
    "basic-summary-cuda8.txt": Log(
        "basic", partial(summary_text, types=False), "the same as of CUDA 8, text",
    ),
    "basic-summary-ns.csv": Log(
        "basic", partial(summary_csv, units=SummaryUnits("ns", "ns", "ns", "ns")),
        "the same as of CUDA 9 in nanoseconds (`-u ns`)",
    ),
    "unified_memory-gpu-trace.csv": Log(
        "unified_memory", gpu_trace_csv, "GPU trace with migrations and page faults, CSV",
    ),
    "unified_memory-gpu-trace.txt": Log("unified_memory", _TEXT, "the same as text"),
    "unified_memory-summary.csv": Log(
        "unified_memory", summary_csv, "summary with migrations and page faults, CSV",
    ),
    "unified_memory-summary.txt": Log("unified_memory", summary_text, "the same as text"),
    "ranges-summary.csv": Log("ranges", summary_csv, "summary with ranges on two threads, CSV"),
    "ranges-summary.txt": Log("ranges", summary_text, "the same as text"),
    "ranges-summary-cuda8.txt": Log(
        "ranges", partial(summary_text, types=False),
        "the same as of CUDA 8, without the ranges; a share of 100 % fills its column",
    ),
    "two_processes_one_gpu-gpu-trace.csv": Log(
        "two_processes_one_gpu", gpu_trace_csv, "GPU traces of two processes in one file, CSV",
    ),
    "two_processes_one_gpu-summary.txt": Log(
        "two_processes_one_gpu", summary_text, "summaries of two processes in one file, text",
    ),
    "two_processes_two_gpus-gpu-trace.csv": Log(
        "two_processes_two_gpus", gpu_trace_csv, "GPU trace with a peer copy, CSV", pid=6001,
    ),
    "two_processes_two_gpus-gpu-trace.txt": Log(
        "two_processes_two_gpus", gpu_trace_text,
        "the same as text; the devices' numbers are cut off", pid=6001,
    ),
    "graphs-gpu-trace.csv": Log(
        "graphs", gpu_trace_csv, "GPU trace of nodes of graphs, CSV", pid=7002,
    ),
    "no_gpu-summary.txt": Log("no_gpu", summary_text, "summary without GPU work, text"),
    "no_gpu-both-traces.csv": Log(
        "no_gpu", partial(gpu_trace_csv, calls=True), "both traces without GPU work, CSV",
    ),
    "no_gpu-both-traces.txt": Log("no_gpu", partial(_TEXT, calls=True), "the same as text"),
    "no_gpu-api-trace.csv": Log("no_gpu", api_trace_csv, "API trace without GPU work, CSV"),
}  # fmt: skip


def _write(log: Log, path: Path) -> None:
    workload = WORKLOADS[log.workload]
    write_log(path, concatenated(log.write(workload, process) for process in log.processes))


ABOUT = """\
`nvprof_log/` holds what nvprof prints of the same workloads, as text and CSV: traces and summaries of a
process or two (`scripts/fixtures_nvprof_log.py`). Banners, headers, units, alignment and values follow
logs found in public repositories; the order of cells in peer copies' rows and tables of managed memory
in CSV follow scripts that read them. Every log has a made-up secret in its command line. `odd-….txt` and
`odd-….csv` are damaged, mixed, rewritten and foreign files and those of counters.
"""
EXAMPLE = "nvprof_log/basic-both-traces.csv"
FILES = [
    *(Fixture(f"nvprof_log/{name}", log.holds, partial(_write, log)) for name, log in LOGS.items()),
    # nsys prints its own tables in the place of nvprof's.
    *(Fixture(f"nvprof_log/{name}", holds, make, refused=name == "odd-nsys.txt")
      for name, (make, holds) in ODD_LOGS.items()),
]  # fmt: skip
