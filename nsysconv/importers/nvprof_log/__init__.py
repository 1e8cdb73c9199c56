"""Output of nvprof: summaries, traces, metrics and events, as CSV or as text, as users keep it.

What the tables mean, and where the traps are: docs/formats/nvprof-log.md.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING

from nsysconv.facts import Fact
from nsysconv.importers.contract import No, Options, Yes

if TYPE_CHECKING:
    from nsysconv.importers.probe import Probe
    from nsysconv.store.recording import Recording

NAME = "nvprof_log"
VERSION = 1
TITLE = "nvprof log (text or CSV)"

_SUMMARY = "Record with `nvprof --csv --log-file FILE …`, without other `--print` options."
_PRINTED: Mapping[Fact, str] = {
    **dict.fromkeys(
        (Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS),
        "Record with `nvprof --print-gpu-trace --csv --log-file FILE …`, or everything at once with "
        "`nvprof -o FILE …` or `nsys profile --trace=cuda,nvtx …`.",
    ),
    Fact.UNIFIED_MEMORY: "Record with `nvprof --print-gpu-trace --unified-memory-profiling "
    "per-process-device --csv --log-file FILE …`.",
    Fact.API_CALLS: "Record with `nvprof --print-api-trace --csv --log-file FILE …`, or with "
    "`nvprof -o FILE …`.",
    Fact.API_LINKS: "Record with `nvprof -o FILE …` or `nsys profile …`; or print the GPU trace and "
    "the API trace of one run and import both: `nsysconv import --join GPU.csv API.csv`.",
    **dict.fromkeys((Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS, Fact.API_TOTALS), _SUMMARY),
    Fact.UNIFIED_MEMORY_TOTALS: "Record with `nvprof --unified-memory-profiling per-process-device "
    "--csv --log-file FILE …`.",
    Fact.RANGE_TOTALS: "Put NVTX ranges into the program; nvprof's summary shows them by itself.",
    Fact.DIRECTIVE_TOTALS: "Record a program with OpenACC or OpenMP; nvprof's summary shows "
    "them by itself.",
    Fact.METRICS: "Record with `nvprof --metrics all --csv --log-file FILE …` (kernels run several "
    "times), or with ncu.",
}

GUARANTEED: frozenset[Fact] = frozenset()
POSSIBLE = frozenset(_PRINTED)
JOINS = True
INCLUDABLE: Mapping[str, str] = {}
ADVICE: Mapping[Fact, str] = {
    **_PRINTED,
    Fact.RANGES: "nvprof's logs hold totals of ranges at most (report `nvtx_sum`): record with "
    "`nvprof -o FILE …` or `nsys profile …`.",
    **dict.fromkeys(
        (Fact.THREADS, Fact.DEVICES, Fact.UTC),
        "nvprof's logs do not hold it: record with `nvprof -o FILE …` or `nsys profile …`.",
    ),
}

_LONGEST_SIGN = 256


def sniff(probe: Probe) -> Yes | No:
    """Accept text with a line that nvprof marks, or with the header of one of its tables."""
    if probe.is_sqlite:
        return No("it is a SQLite database")
    from nsysconv.importers.nvprof_log.survey import SIGNATURE
    from nsysconv.importers.printed.text import text_chunks

    for text in text_chunks(probe, _LONGEST_SIGN):
        if SIGNATURE.search(text):
            return Yes()
    return No("it holds no line and no header of a table that nvprof prints")


def read(probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
    """Yield a recording for each run of each process, or the one that several files make together."""
    from nsysconv.importers.nvprof_log.reader import NvprofRecording

    yield from NvprofRecording.recordings(probes)
