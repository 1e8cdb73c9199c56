"""Output of `nsys stats`: its summaries and traces, as CSV, TSV, JSON or text of any age and locale.

What the tables mean, and where the traps are: docs/formats/nsys-stats.md.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING

from nsysconv.facts import Fact
from nsysconv.importers.contract import No, Options, Yes

if TYPE_CHECKING:
    from nsysconv.importers.probe import Probe
    from nsysconv.store.recording import Recording

NAME = "nsys_stats"
VERSION = 1
TITLE = "nsys stats output (CSV, TSV, JSON or text)"

_EXPORT = "import the report itself, REPORT.nsys-rep"


def _print(reports: str) -> str:
    return f"Print it with `nsys stats -r {reports} -f csv REPORT.nsys-rep`, or {_EXPORT}."


_MEMORY_SUMS = _print("cuda_gpu_mem_time_sum,cuda_gpu_mem_size_sum")
_OSRT = (
    "Record with `nsys profile --trace=cuda,osrt …`, and print "
    "`nsys stats -r osrt_sum -f csv REPORT.nsys-rep`."
)
_PRINTED: Mapping[Fact, str] = {
    **dict.fromkeys(
        (Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY), _print("cuda_gpu_trace")
    ),
    **dict.fromkeys((Fact.API_CALLS, Fact.THREADS), _print("cuda_api_trace")),
    Fact.API_LINKS: "Print both traces as CSV and import them together (`nsysconv import --join`), "
    f"or {_EXPORT}.",
    Fact.KERNEL_TOTALS: _print("cuda_gpu_kern_sum"),
    Fact.MEMORY_TOTALS: _MEMORY_SUMS,
    Fact.API_TOTALS: _print("cuda_api_sum"),
    Fact.UNIFIED_MEMORY_TOTALS: _MEMORY_SUMS,
    Fact.RANGE_TOTALS: "Put NVTX ranges into the program, record with `nsys profile --trace=cuda,"
    "nvtx …`, and print `nsys stats -r nvtx_sum -f csv REPORT.nsys-rep`.",
    Fact.DIRECTIVE_TOTALS: "Record a program with OpenACC or OpenMP with `nsys profile --trace=cuda,"
    "openacc,openmp …`, and print `nsys stats -r openacc_sum,openmp_sum -f csv REPORT.nsys-rep`.",
    Fact.OSRT_TOTALS: _OSRT,
}

GUARANTEED: frozenset[Fact] = frozenset()
POSSIBLE = frozenset(_PRINTED)
JOINS = True
INCLUDABLE: Mapping[str, str] = {}
ADVICE: Mapping[Fact, str] = {
    **_PRINTED,
    Fact.OSRT_CALLS: _OSRT,
    Fact.RANGES: f"`nsys stats` prints totals of ranges at most (report `nvtx_sum`): {_EXPORT}.",
    **dict.fromkeys(
        (Fact.DEVICES, Fact.RANKS, Fact.UTC),
        f"`nsys stats` does not print it: {_EXPORT}.",
    ),
}

_OURS_JSON = b'{"format":'
_OURS_CSV = b"profile,rank,"
_LONGEST_SIGN = 1024


def sniff(probe: Probe) -> Yes | No:
    """Accept text with the header of a table of nsys, or with its messages, and none of nvprof's."""
    if probe.is_sqlite:
        return No("it is a SQLite database")
    from nsysconv.importers.nsys_stats.survey import is_nsys_output
    from nsysconv.importers.nvprof_log.survey import SIGNATURE as NVPROF
    from nsysconv.importers.printed.text import text_chunks

    head = probe.head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if b"".join(head[:64].split()).startswith(_OURS_JSON) or head.startswith(_OURS_CSV):
        return No(
            "it is a report that nsysconv wrote, and no profile",
            close=True,
            hint="Import the file that the report is about.",
        )
    is_nsys = False
    for text in text_chunks(probe, _LONGEST_SIGN):
        if NVPROF.search(text):
            return No("it holds what nvprof prints")
        is_nsys = is_nsys or is_nsys_output(text)
    if is_nsys:
        return Yes()
    return No("it holds no header of a table that nsys stats prints")


def read(probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
    """Yield a recording for each run of nsys stats, or the one that several files make together."""
    from nsysconv.importers.nsys_stats.reader import NsysRecording

    yield from NsysRecording.recordings(probes)
