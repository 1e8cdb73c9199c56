"""RPD recordings of rocmProfileData (`runTracer.sh`, `.rpd`), schemas 2 and 3.

What the tables mean, and where the traps are: docs/formats/rpd.md.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import TYPE_CHECKING

from nsysconv.facts import Fact
from nsysconv.importers import rocm
from nsysconv.importers.contract import No, Options, Yes

if TYPE_CHECKING:
    from nsysconv.importers.probe import Probe
    from nsysconv.store.recording import Recording

NAME = "rpd"
VERSION = 1
TITLE = "RPD recording (rocmProfileData)"

GUARANTEED: frozenset[Fact] = frozenset()
JOINS = False
INCLUDABLE: Mapping[str, str] = {}
_RECORD = "Record with `runTracer.sh -o trace.rpd …`, or `rocprofv3 --runtime-trace -- …`."
_CALLS = (Fact.API_CALLS, Fact.API_LINKS, Fact.THREADS)
ADVICE: Mapping[Fact, str] = {
    **rocm.ADVICE,
    **dict.fromkeys((Fact.KERNELS, Fact.MEMCPYS, *_CALLS), _RECORD),
    Fact.RANGES: "Put roctx ranges into the program; RPD records them by itself.",
    Fact.OPERATORS: "Record within `torch.autograd.profiler.emit_nvtx()`, or use torch.profiler.",
    Fact.DEVICES: "RPD does not describe GPUs: use `rocprofv3 --runtime-trace -- …`.",
}
POSSIBLE = frozenset(
    {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, *_CALLS, Fact.SYNCS, Fact.RANGES, Fact.OPERATORS}
) | {Fact.LIBRARY_CALLS, Fact.OVERHEAD}

TABLES = ("rocpd_api", "rocpd_op", "rocpd_api_ops", "rocpd_string")
"""The tables that every recording has."""


def sniff(probe: Probe) -> Yes | No:
    """Return Yes for a database with RPD's tables and none of those of rocpd, whose names begin alike."""
    if not probe.is_sqlite:
        return No("it is not a SQLite database")
    if probe.damage:
        return No(probe.damage)
    if any(name.startswith("rocpd_info_") for name in probe.tables):
        return No("it has tables rocpd_info_…, as databases of rocprofv3 have")
    missing = [name for name in TABLES if name not in probe.tables]
    if not missing:
        return Yes(alone=True)
    reason = f"it has no table {missing[0]}"
    if {"rocpd_api", "rocpd_op"} & probe.tables.keys():
        reason = f"an RPD recording without its table {missing[0]}"
        return No(reason, close=True, hint="It is incomplete: copy or record it again.")
    return No(reason)


def read(probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
    """Yield the one recording of a file."""
    # Loaded only for such files: SQLAlchemy comes with it.
    from nsysconv.importers.rpd.reader import RpdReader

    yield RpdReader(probes[0], POSSIBLE, ADVICE).recording()
