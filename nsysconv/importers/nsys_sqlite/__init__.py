"""Nsight Systems' SQLite export (`nsys export -t sqlite`), every age of it.

What the columns mean, version by version, and where the traps are: docs/formats/nsys.md.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence

from nsysconv.facts import Fact
from nsysconv.importers.contract import No, Options, Yes
from nsysconv.importers.probe import Probe
from nsysconv.store.recording import Recording

NAME = "nsys_sqlite"
VERSION = 2
TITLE = "Nsight Systems SQLite export"

GUARANTEED: frozenset[Fact] = frozenset()
JOINS = False
INCLUDABLE: Mapping[str, str] = {
    "metrics": "samples of GPU metrics",
}
_CUDA = "Record with `nsys profile --trace=cuda,nvtx …`."
ADVICE: Mapping[Fact, str] = {
    **dict.fromkeys((Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.API_CALLS), _CUDA),
    **dict.fromkeys((Fact.API_LINKS, Fact.SYNCS, Fact.THREADS), _CUDA),
    Fact.UNIFIED_MEMORY: "Migrations are recorded with `--trace=cuda` on GPUs that can trace them.",
    Fact.PAGE_FAULTS: "Record with `nsys profile --cuda-um-cpu-page-faults=true "
    "--cuda-um-gpu-page-faults=true …`.",
    Fact.GRAPH_LAUNCHES: "Record with `nsys profile --cuda-graph-trace=graph …`.",
    Fact.GRAPH_NODES: "Record with `nsys profile --cuda-graph-trace=node …`.",
    Fact.RANGES: "Put NVTX ranges into the program and record with `nsys profile --trace=cuda,nvtx …`.",
    Fact.OPERATORS: "Of PyTorch: record with `nsys profile --pytorch=autograd-nvtx`, or call "
    "`torch.autograd.profiler.emit_nvtx()` in the program.",
    Fact.COLLECTIVES: "Record ranges of a current NCCL (`--trace=cuda,nvtx`), and export them with a "
    "current nsys.",
    Fact.MEMORY_EVENTS: "Record with `nsys profile --cuda-memory-usage=true …`.",
    Fact.DIRECTIVES: "Record with `nsys profile --trace=cuda,openacc,openmp …`.",
    Fact.LIBRARY_CALLS: "Record with `nsys profile --trace=cuda,cublas,cudnn …`.",
    Fact.MPI_CALLS: "Record with `nsys profile --trace=cuda,nvtx,mpi …`.",
    Fact.OSRT_CALLS: "Record with `nsys profile --trace=cuda,nvtx,osrt …`.",
    Fact.SCHEDULING: "Record with `nsys profile --cpuctxsw=process-tree …`.",
    Fact.CPU_SAMPLES: "Record with `nsys profile --sample=process-tree …`.",
    Fact.METRICS: "Record with `nsys profile --gpu-metrics-devices=all …`, and import with "
    "`--include metrics`.",
    Fact.RANKS: "Record with `nsys profile --trace=cuda,nvtx,mpi …` under the MPI launcher.",
    Fact.UTC: "Export again with nsys 2021.5 or later, or read the report itself.",
    Fact.DEVICES: "Read the report itself, or export it again with a current nsys; in containers the "
    "GPU's description can be missing.",
}

POSSIBLE = frozenset(ADVICE) | {Fact.OVERHEAD}

# Only an export of nsys has these tables beside StringIds.
_OWN_TABLES = {
    "META_DATA_EXPORT", "EXPORT_META_DATA", "META_DATA_CAPTURE", "TARGET_INFO_SYSTEM_ENV",
    "TARGET_INFO_SESSION_START_TIME", "ProcessStreams", "ThreadNames",
}  # fmt: skip


def sniff(probe: Probe) -> Yes | No:
    """Return Yes for a database with StringIds and at least one other table of an nsys export."""
    if not probe.is_sqlite:
        return No("it is not a SQLite database")
    if probe.damage:
        return No(probe.damage)
    names = set(probe.tables)
    if "StringIds" not in names:
        if not _lost_names(probe):
            if any(name.startswith("CUPTI_ACTIVITY_") for name in names) and not _of_nvprof(probe):
                what = "an nsys export without its table StringIds"
                return No(what, close=True, hint="The export is incomplete; make it again.")
            return No("it has no table StringIds")
    elif not {"id", "value"} <= set(probe.tables["StringIds"].columns):
        return No("its table StringIds has no columns id and value")
    # The module is loaded only for such files, because it loads SQLAlchemy.
    from nsysconv.importers.nsys_sqlite.tables import EVENT_SOURCES

    if not names & _OWN_TABLES.union(EVENT_SOURCES):
        return No("it has no table of events or of the export")
    return Yes(alone=True)


def _lost_names(probe: Probe) -> bool:
    # The result says whether the file is an export without its table of names: no other program has
    # such ids of threads and processes. A damaged database of nvprof may have such a column, and has
    # its own tables of names.
    of_another = "StringIds" in probe.view_names or _of_nvprof(probe)
    return not of_another and any(
        {"globalTid", "globalPid"} & set(table.columns) for table in probe.tables.values()
    )


def _of_nvprof(probe: Probe) -> bool:
    return "StringTable" in probe.tables


def read(probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
    """Yield the one recording of a file; its processes may be many."""
    from nsysconv.importers.nsys_sqlite.reader import ExportReader

    probe = probes[0]
    if "StringIds" not in probe.tables:
        probe = probe.copied_with("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
    yield ExportReader(probe, POSSIBLE, ADVICE, options).recording()
