"""Tables of rocprofv3 in CSV: a file per kind of event and process, `PID_kernel_trace.csv` and so on.

What the columns mean, and where the traps are: docs/formats/rocprofv3-csv.md.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers import rocm
from nsysconv.importers.contract import Group, No, Options, Yes
from nsysconv.importers.printed.csv_table import header_of
from nsysconv.importers.probe import Probe
from nsysconv.store.recording import Recording

NAME = "rocprofv3_csv"
VERSION = 1
TITLE = "rocprofv3 CSV"

GUARANTEED: frozenset[Fact] = frozenset()
JOINS = True
INCLUDABLE = rocm.INCLUDABLE
_TRACE = "Record with `rocprofv3 --runtime-trace --output-format csv -- …` and name the folder."
ADVICE: Mapping[Fact, str] = {
    **rocm.ADVICE,
    **dict.fromkeys((Fact.KERNELS, Fact.MEMCPYS, Fact.API_CALLS, Fact.MEMORY_EVENTS), _TRACE),
    **dict.fromkeys((Fact.API_LINKS, Fact.THREADS), _TRACE),
    Fact.DEVICES: "Name the folder, in which PID_agent_info.csv is.",
    Fact.RANGES: "Record with `rocprofv3 --marker-trace -- …`; the program links rocprofiler-sdk-roctx.",
    Fact.COLLECTIVES: "Record with `rocprofv3 --rccl-trace -- …`.",
    Fact.LIBRARY_CALLS: "Record with `rocprofv3 --sys-trace -- …`.",
    Fact.METRICS: "Record with `rocprofv3 --pmc COUNTER … -- …`.",
    **dict.fromkeys(
        (Fact.KERNEL_TOTALS, Fact.API_TOTALS, Fact.MEMORY_TOTALS),
        "Record with `rocprofv3 --stats --output-format csv -- …`.",
    ),
    Fact.RANKS: "Tables have no ranks; name files by them, or record a database: rocprofv3 writes "
    "rocpd by default.",
}
NEVER = frozenset({Fact.MEMSETS, Fact.UTC})
"""Facts that have advice here and are in no such file."""
POSSIBLE = frozenset(ADVICE) - NEVER

PART = re.compile(
    r"(?P<prefix>.*?)_?(?:(?P<kind>kernel|(?:hip|hsa|marker|rccl|rocdecode|rocjpeg|hipfile)(?:_api)?|"
    r"regions|memory_copy|memory_allocation|scratch_memory|counter_collection)_(?:trace|stats)|"
    r"counter_collection|agent_info|domain_stats)\.csv",
    re.IGNORECASE,
)
"""How the tables of a process are called: a prefix of its own, and what they are of."""
AGENTS = "agents"
COLUMNS: Mapping[str, tuple[str, ...]] = {
    "counters": ("counter_name", "counter_value", "dispatch_id", "kernel_name"),
    "kernels": ("kernel_name", "agent_id", "start_timestamp", "end_timestamp"),
    "calls": ("domain", "function", "process_id", "start_timestamp", "end_timestamp"),
    "copies": ("direction", "start_timestamp", "end_timestamp"),
    "allocations": ("operation", "allocation_size", "address", "start_timestamp"),
    "scratch": ("kind", "operation", "alloc_flags", "start_timestamp"),
    "totals": ("name", "calls", "totaldurationns", "averagens", "percentage", "minns", "maxns"),
    AGENTS: ("node_id", "agent_type", "product_name"),
}
"""By kind of table the columns by which it is recognized; case does not matter."""
# Samples: of the program counter, and of streamed counters, which may be added up already.
_PC, _SPM = {"sample_timestamp", "exec_mask"}, {"counter_value", "timestamp"}
_SPM_SUMS = ["dispatch_id", "counter_name", "counter_value"]
# Other tables of rocprofv3 begin with one of these, and have one of those.
_FIRST = frozenset({"kind", "domain", "correlation_id"})
_OTHERS = frozenset({"agent_id", "queue_id", "start_timestamp", "counter_value"})


def kind_of(columns: Sequence[str]) -> str | None:
    """Return the kind of table that has these columns, one of COLUMNS; None for other tables."""
    there = {name.lower() for name in columns}
    if there.issuperset(_SPM):
        return None
    return next((kind for kind, wanted in COLUMNS.items() if there.issuperset(wanted)), None)


def sniff(probe: Probe) -> Yes | No:
    """Return Yes for a table that begins with a header of rocprofv3."""
    if probe.is_sqlite:
        return No("it is a SQLite database")
    columns = [name.lower() for name in header_of(probe.head)]
    if any(wanted <= set(columns) for wanted in (_PC, _SPM)) or columns == _SPM_SUMS:
        what = "samples of rocprofv3, which are no time line"
        return No(what, close=True, hint=rocm.TIMELINE)
    kind = kind_of(columns)
    if kind == AGENTS:
        what = "rocprofv3's list of agents, without any event"
        return No(what, close=True, hint="Name the folder that it is in: nsysconv FOLDER")
    if kind:
        return Yes()
    if columns and _FIRST & set(columns[:2]) and set(columns) & _OTHERS:
        what = "a table of rocprofv3 of no known kind"
        return No(what, close=True, hint=rocm.TIMELINE)
    return No("it has no header of rocprofv3")


def is_part(probe: Probe) -> bool:
    """Return whether a file is the list of agents, which belongs to the tables of each process."""
    return kind_of(header_of(probe.head)) == AGENTS


def group(paths: Sequence[Path]) -> list[Group]:
    """Return the tables of each process, by their names; a database beside them holds all of it."""
    found: dict[str, list[Path]] = {}
    for path in paths:
        if match := PART.fullmatch(path.name):
            found.setdefault(str(path.with_name(match["prefix"] or "_")), []).append(path)
    there = set(paths)
    groups = []
    for prefix, files in found.items():
        whole = Path(f"{prefix}_results.db")
        if whole in there and _is_sound(whole):
            groups.append(Group(tuple(files), whole))
        elif len(files) > 1:
            groups.append(Group(tuple(files)))
    return groups


def _is_sound(database: Path) -> bool:
    # A database that cannot be read must not hide the tables.
    try:
        with Probe(database) as probe:
            return probe.is_sqlite and not probe.damage
    except InputError:
        return False


def read(probes: Sequence[Probe], options: Options) -> Generator[Recording, None, None]:
    """Yield the one recording of the tables of a process."""
    from nsysconv.importers.rocprofv3_csv.reader import TableReader

    yield TableReader(probes, options).recording()
