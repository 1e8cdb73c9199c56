"""rocpd databases: what rocprofv3 (ROCm 7 and later) and rocprof-sys write, `PID_results.db`.

What the columns mean, and where the traps are: docs/formats/rocpd.md.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence

from nsysconv.facts import Fact
from nsysconv.importers import rocm
from nsysconv.importers.contract import No, Options, Yes
from nsysconv.importers.probe import Probe
from nsysconv.store.recording import Recording

NAME = "rocpd"
VERSION = 1
TITLE = "rocpd database (rocprofv3)"

GUARANTEED: frozenset[Fact] = frozenset()
JOINS = False
INCLUDABLE = rocm.INCLUDABLE
ADVICE: Mapping[Fact, str] = {
    **rocm.ADVICE,
    **dict.fromkeys((Fact.MEMORY_EVENTS, Fact.THREADS, Fact.DEVICES), rocm.TIMELINE),
    Fact.RANGES: "Record with `rocprofv3 --marker-trace -- …`; the program links rocprofiler-sdk-roctx.",
    Fact.COLLECTIVES: "Record with `rocprofv3 --rccl-trace -- …`.",
    Fact.LIBRARY_CALLS: "Record with `rocprofv3 --sys-trace -- …`.",
    Fact.DIRECTIVES: "Record with `rocprofv3 --sys-trace -- …`.",
    Fact.METRICS: "Record with `rocprofv3 --pmc COUNTER … -- …`.",
    Fact.RANKS: "Record below the launcher: `srun rocprofv3 … -- …` or `mpirun -n N rocprofv3 … -- …`.",
}
NEVER = frozenset({Fact.MEMSETS, Fact.UTC})
"""Facts that have advice here and are in no such file."""
POSSIBLE = (frozenset(ADVICE) - NEVER) | {Fact.PYTHON_FUNCTIONS}

_DISPATCHES = frozenset({"rocpd_kernel_dispatch", "rocpd_info_agent"})
SUFFIX = re.compile(r"rocpd_metadata(_[0-9a-f_]+)?")


def sniff(probe: Probe) -> Yes | No:
    """Return Yes for a database with rocpd's tables of metadata and of agents or dispatches."""
    if not probe.is_sqlite:
        return No("it is not a SQLite database")
    if probe.damage:
        return No(probe.damage)
    for suffix in suffixes(probe):
        if probe.tables.keys() & {f"rocpd_info_agent{suffix}", f"rocpd_kernel_dispatch{suffix}"}:
            return Yes(alone=True)
    if _DISPATCHES.intersection(re.sub(r"_[0-9a-f_]+$", "", name) for name in probe.tables):
        what = "a rocpd database without its table rocpd_metadata"
        return No(what, close=True, hint="It is damaged or a part of one: copy or record it again.")
    return No("it has no tables of rocpd")


def suffixes(probe: Probe) -> list[str]:
    """Return what the names of each recording's tables end with, in order; "" for plain names."""
    found = filter(None, map(SUFFIX.fullmatch, sorted(probe.tables)))
    return [match[1] or "" for match in found]


def read(probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
    """Yield a recording per process: files that were merged hold several."""
    # Loaded only for such files: SQLAlchemy comes with it.
    from nsysconv.importers.rocpd.reader import readers

    for reader in readers(probes[0], options):
        yield reader.recording()
