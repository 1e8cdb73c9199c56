"""Notes on what an export's rows turn out to be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nsysconv.facts import Fact
from nsysconv.importers import gpu_work
from nsysconv.importers.nsys_sqlite import tables
from nsysconv.importers.nsys_sqlite.devices import Devices
from nsysconv.importers.nsys_sqlite.survey import Found
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_source import counted
from nsysconv.notes import Note, Severity

_API_CALLS = frozenset({Fact.API_CALLS})
# The codes of copies and sets that tables.py knows, by column.
_KNOWN_CODES = {
    "copyKind": range(14),
    "srcKind": range(8),
    "dstKind": range(8),
    "memKind": range(8),
}

_RANGE_COLUMNS = {"eventType", "end"}


def on_rows(probe: Probe, found: Found, devices: Devices) -> Iterator[Note]:
    """What the surveyed rows give cause to say."""
    yield from _on_classes(probe, found)
    yield from _on_codes(probe, found)
    yield from _on_unclosed(probe)
    if devices.unnamed:
        text = "the profile does not say which GPU a device number means"
        facts = frozenset({Fact.DEVICES})
        yield Note("device-unnamed", Severity.INFO, text, devices.unnamed, facts=facts)
    if len(found.virtual_machines) > 1:
        text = "processes of more than one machine in one profile"
        yield Note("stray-pid", Severity.INFO, text, len(found.virtual_machines))


def _on_classes(probe: Probe, found: Found) -> Iterator[Note]:
    calls = {tables.RUNTIME_CLASS, tables.DRIVER_CLASS}
    for event_class in sorted(found.event_classes - calls):
        count, first = counted(probe, tables.RUNTIME, f"eventClass = {event_class}")
        if event_class == tables.BACKTRACE_CLASS:
            text = "backtrace records among the API calls were left out"
            yield Note("backtrace-rows", Severity.INFO, text, count, first, _API_CALLS)
        else:
            text = f"rows of event class {event_class} among the API calls were left out"
            yield Note("unknown-code", Severity.DROPPED, text, count, first, _API_CALLS)


def _on_unclosed(probe: Probe) -> Iterator[Note]:
    if (
        tables.NVTX not in probe.tables
        or not set(probe.tables[tables.NVTX].columns) >= _RANGE_COLUMNS
    ):
        return
    kinds = ", ".join(str(kind) for kind in tables.RANGE_KINDS if kind != tables.MARK)
    count, first = counted(probe, tables.NVTX, f"eventType IN ({kinds}) AND end IS NULL")
    if count:
        text = "ranges that were never closed"
        yield Note("range-unclosed", Severity.INFO, text, count, first, frozenset({Fact.RANGES}))


def _on_codes(probe: Probe, found: Found) -> Iterator[Note]:
    for table, fact, columns in (
        (tables.MEMCPY, Fact.MEMCPYS, ("copyKind", "srcKind", "dstKind")),
        (tables.MEMSET, Fact.MEMSETS, ("memKind",)),
    ):
        for column in columns:
            codes = sorted(c for name, c in found.codes
                           if name == column and c not in _KNOWN_CODES[column])  # fmt: skip
            if codes and table in probe.tables and column in probe.tables[table].columns:
                listed = ", ".join(map(str, codes))
                count, first = counted(probe, table, f"{column} IN ({listed})")
                text = f"{column} {listed} is not known; shown as Unknown"
                yield Note("unknown-code", Severity.APPROXIMATED, text, count, first,
                           frozenset({fact}))  # fmt: skip


def on_names(nameless: int, doubled: Sequence[int]) -> Iterator[Note]:
    """Ids without a text, and ids with two."""
    if nameless:
        text = "names that the file refers to but does not hold"
        yield Note("nameless-id", Severity.INFO, text, nameless, "StringIds")
    if doubled:
        text = "name ids with two texts; the first was kept"
        where = f"StringIds id {doubled[0]}"
        yield Note("duplicate-name", Severity.APPROXIMATED, text, len(set(doubled)), where)


def lost_gpu_work(probe: Probe, api_names: Sequence[tuple[int, str]]) -> Note | None:
    """For a file without GPU rows: the note that there should be some, if a call succeeded."""
    working = {
        name_id: name for name_id, name in api_names if name.startswith(gpu_work.WORKING_CALLS)
    }
    if not working or tables.RUNTIME not in probe.tables:
        return None
    succeeded = "returnValue = 0" if "returnValue" in probe.tables[tables.RUNTIME].columns else "1"
    ids = ", ".join(map(str, working))
    rows = probe.select(
        f"SELECT nameId FROM {tables.RUNTIME} WHERE nameId IN ({ids}) AND {succeeded} LIMIT 1"
    )
    if not rows:
        return None
    return gpu_work.lost_gpu_work(working[rows[0][0]])
