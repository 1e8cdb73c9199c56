"""Results of AMD's rocprof (v1: `results.db`, `results.csv`, `*stats.csv`) and rocprofv2 (CSV).

What the tables mean, and where the traps are: docs/formats/rocprof.md.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers import rocm
from nsysconv.importers.contract import Group, No, Options, Yes
from nsysconv.importers.rocprof.tables import MAIN, layout_of, main_table

if TYPE_CHECKING:
    from nsysconv.importers.probe import Probe
    from nsysconv.store.recording import Recording

NAME = "rocprof"
VERSION = 1
TITLE = "rocprof results (v1, v2)"

GUARANTEED: frozenset[Fact] = frozenset()
JOINS = False
INCLUDABLE = rocm.INCLUDABLE
_TIMELINE = (
    "Record with `rocprof --hip-trace …`, or from ROCm 6.2 on `rocprofv3 --runtime-trace -- …`."
)
_TOTALS = "Record with `rocprof --stats --hip-trace …`, which also writes the events: results.db."
ADVICE: Mapping[Fact, str] = {
    **rocm.ADVICE,
    **dict.fromkeys(
        (Fact.KERNELS, Fact.MEMCPYS, Fact.API_CALLS, Fact.API_LINKS, Fact.THREADS), _TIMELINE
    ),
    **dict.fromkeys((Fact.KERNEL_TOTALS, Fact.API_TOTALS, Fact.MEMORY_TOTALS), _TOTALS),
    Fact.RANGES: "Put roctx ranges into the program and record with `rocprof --roctx-trace …`.",
    Fact.METRICS: "Record counters with `rocprof -i counters.txt …` or `rocprofv3 --pmc … -- …`.",
    Fact.DEVICES: "rocprof does not describe GPUs: use `rocprofv3 --runtime-trace -- …`.",
}
POSSIBLE = frozenset(ADVICE) - {Fact.MEMSETS, Fact.UTC, Fact.DEVICES} | {Fact.SYNCS}


def sniff(probe: Probe) -> Yes | No:
    """Return Yes for a database with rocprof's table of kernels, and for CSV with a header of it."""
    if not probe.is_sqlite:
        layout = layout_of(probe)
        return Yes() if layout else No("its first line is not a header of rocprof")
    if probe.damage:
        return No(probe.damage)
    if main_table(probe):
        return Yes(alone=True)
    if MAIN[0] not in probe.tables:
        return No("it has no table KERN")
    reason = "the rocprof table KERN lacks column Index or KernelName"
    return No(reason, close=True, hint="It is damaged: copy or record it again.")


def read(probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
    """Yield the one recording of a file."""
    # Loaded only for such files: SQLAlchemy comes with it.
    from nsysconv.importers.rocprof.reader import CsvReader, DatabaseReader

    (probe,) = probes
    if probe.is_sqlite:
        hsa = rocm.HSA_CALLS in options.include
        yield DatabaseReader(probe, POSSIBLE, ADVICE, hsa=hsa).recording()
    else:
        yield from CsvReader(probe, POSSIBLE, ADVICE).recordings()


_TABLE = re.compile(r"(.*?)(?:\.(?:\w+_)?stats)?\.csv")


def group(paths: Sequence[Path]) -> list[Group]:
    """Return the tables that a database, or the table of kernels, beside them holds, by their names."""
    there = set(paths)
    found = []
    for path in paths:
        if match := _TABLE.fullmatch(path.name):
            whole = path.with_name(f"{match[1]}.db")
            kernels = path.with_name(f"{match[1]}.csv")
            is_kernels = path.name == f"{match[1]}.stats.csv"
            others = [whole, *([kernels] if is_kernels else [])]
            for other in others:
                if other in there and _is_read(other) and _is_read(path):
                    found.append(Group((path,), other))
                    break
    return found


def _is_read(path: Path) -> bool:
    from nsysconv.importers.probe import Probe

    try:
        with Probe(path) as probe:
            return isinstance(sniff(probe), Yes)
    except InputError:
        return False
