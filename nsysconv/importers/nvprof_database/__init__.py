"""nvprof's databases (`nvprof -o FILE`: .nvvp, .nvprof, .prof), versions 9 to 22.

What the columns mean, and where the traps are: docs/formats/nvprof.md.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence

from nsysconv.facts import Fact
from nsysconv.importers.contract import No, Options, Yes
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import has_columns
from nsysconv.store.recording import Recording

NAME = "nvprof_database"
VERSION = 2
TITLE = "nvprof database"

GUARANTEED: frozenset[Fact] = frozenset()
JOINS = False
INCLUDABLE: Mapping[str, str] = {}
_TIMELINE = (
    "Record a timeline with `nvprof -o FILE …`, without `--metrics`, `--events` and "
    "`--analysis-metrics`; from compute capability 7.0 on rather with `nsys profile --trace=cuda,nvtx …`."
)
_CALLS = (
    "Record with `nvprof --profile-api-trace all -o FILE …` or `nsys profile --trace=cuda,nvtx …`."
)
ADVICE: Mapping[Fact, str] = {
    **dict.fromkeys((Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS), _TIMELINE),
    **dict.fromkeys((Fact.API_CALLS, Fact.API_LINKS, Fact.THREADS), _CALLS),
    Fact.UNIFIED_MEMORY: "Record with `nvprof --unified-memory-profiling per-process-device -o FILE …`.",
    Fact.SYNCS: "Record with `nvprof --dependency-analysis -o FILE …` or `nsys profile --trace=cuda …`.",
    Fact.RANGES: "Put NVTX ranges into the program; nvprof records them by itself.",
    Fact.DIRECTIVES: (
        "Record with `nvprof --openacc-profiling on -o FILE …` (the default), OpenMP with "
        "`nvprof --openmp-profiling on -o FILE …`."
    ),
    Fact.METRICS: (
        "Record with `nvprof --metrics all -o FILE …` (kernels run several times), or with ncu."
    ),
    Fact.DEVICES: _TIMELINE,
    Fact.RANKS: 'Name processes by rank: `nvprof --process-name "MPI Rank %q{OMPI_COMM_WORLD_RANK}" …`.',
    Fact.UTC: _TIMELINE,
}

POSSIBLE = frozenset(ADVICE) | {Fact.OVERHEAD}

# Tables of these profilers, and those of them that hold what was sampled on the CPU.
_OF_NVPROF = re.compile("(?i)StringTable$|CUPTI_|(?:nv|pg)prof|CPU")
_SAMPLES = re.compile("(?i)sampl|call_?(?:stack|chain|graph|tree)")
# The Visual Profiler saves its windows under the same ending, .nvvp.
_SESSION = re.compile(rb"\s*(?:<\?xml[^>]*>\s*)?<session\s+version=")


def sniff(probe: Probe) -> Yes | No:
    """Return Yes for a database with nvprof's tables Version and StringTable."""
    if _SESSION.match(probe.head):
        return No(
            "a session of the Visual Profiler, which holds no profile itself",
            close=True,
            hint="It names the database that it shows: import that file.",
        )
    if not probe.is_sqlite:
        return No("it is not a SQLite database")
    if probe.damage:
        return No(probe.damage)
    if _holds_cpu_samples_only(probe):
        return No(
            "a database with samples of the CPU only, as pgprof and nvprof --cpu-profiling write it",
            close=True,
            hint=f"Nothing of a GPU was recorded. {_TIMELINE}",
        )
    if not has_columns(probe, "StringTable", "_id_", "value"):
        return No("it has no table StringTable with columns _id_ and value")
    if not has_columns(probe, "Version", "version"):
        return No("it has no table Version with a column version")
    if "StringIds" in probe.tables:
        return No("it has StringIds, as exports of Nsight Systems have")
    return Yes(alone=True)


def _holds_cpu_samples_only(probe: Probe) -> bool:
    names = probe.tables.keys()
    activity = [name for name in names if re.fullmatch(r"CUPTI_\w+", name)]
    return (
        "StringIds" not in names
        and any(map(_OF_NVPROF.match, names))
        and any(map(_SAMPLES.search, names - set(activity)))
        and not any(probe.select(f'SELECT 1 FROM "{name}" LIMIT 1') for name in activity)
    )


def read(probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
    """Yield the one recording of a file."""
    # Loaded only for such files: SQLAlchemy comes with it.
    from nsysconv.importers.nvprof_database.reader import DatabaseReader

    yield DatabaseReader(probes[0], POSSIBLE, ADVICE).recording()
