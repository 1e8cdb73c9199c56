"""Notes on what an export's rows turn out to be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nsysconv.facts import Fact
from nsysconv.importers import directives
from nsysconv.importers.nsys_sqlite import gpu_tables, tables
from nsysconv.importers.nsys_sqlite.small_tables import Devices
from nsysconv.importers.nsys_sqlite.survey import Identities
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import count_rows, has_columns
from nsysconv.notes import Note, Severity

_MEMORY_KINDS = range(gpu_tables.LAST_MEMORY_KIND + 1)
_ACCESSES = range(gpu_tables.LAST_ACCESS + 1)
# Source table, fact, column, the codes that mappings know, and what others become.
_KNOWN_CODES = (
    (gpu_tables.MEMCPY, Fact.MEMCPYS, "copyKind", range(14), "shown as Unknown"),
    (gpu_tables.MEMCPY, Fact.MEMCPYS, "srcKind", _MEMORY_KINDS, "shown as Unknown"),
    (gpu_tables.MEMCPY, Fact.MEMCPYS, "dstKind", _MEMORY_KINDS, "shown as Unknown"),
    (gpu_tables.MEMSET, Fact.MEMSETS, "memKind", _MEMORY_KINDS, "shown as Unknown"),
    (gpu_tables.MEMORY_USAGE, Fact.MEMORY_EVENTS, "memKind", _MEMORY_KINDS, "shown as Unknown"),
    (
        gpu_tables.MEMORY_USAGE,
        Fact.MEMORY_EVENTS,
        "memoryOperationType",
        gpu_tables.MEMORY_OPERATIONS,
        "without a size",
    ),
    (gpu_tables.GPU_FAULTS, Fact.PAGE_FAULTS, "faultAccessType", _ACCESSES, "shown as Unknown"),
)
_MAX_LISTED = 20


def row_notes(
    probe: Probe, ids: Identities, devices: Devices, unclosed: Sequence[Note]
) -> Iterator[Note]:
    """Yield notes on the surveyed rows; `unclosed` are those of `unclosed_range_notes`."""
    yield from _class_notes(probe, ids)
    yield from _unclassified_notes(probe, ids)
    yield from _range_kind_notes(probe, ids)
    yield from _code_notes(probe, ids)
    if ids.constructs:
        yield from directives.construct_notes(probe, tables.OPENACC, ids.constructs, ids.overfull)
    yield from unclosed
    if devices.unnamed:
        text = "the profile does not say which GPU a device number means"
        facts = frozenset({Fact.DEVICES})
        yield Note("device-unnamed", Severity.INFO, text, devices.unnamed, facts=facts)
    if len(ids.virtual_machines) > 1:
        text = "processes of more than one machine in one profile"
        yield Note("stray-pid", Severity.INFO, text, len(ids.virtual_machines))


def _class_notes(probe: Probe, ids: Identities) -> Iterator[Note]:
    classes: dict[str, set[int]] = {}
    for source, event_class in ids.event_classes:
        classes.setdefault(source, set()).add(event_class)
    for source in sorted(classes):
        known = tables.CLASSES.get(source, frozenset(classes[source])) | tables.MARKER_CLASSES
        facts = tables.facts_of(source)
        if source == tables.RUNTIME and tables.BACKTRACE_CLASS in classes[source]:
            known |= {tables.BACKTRACE_CLASS}
            count, first = count_rows(probe, source, f"eventClass = {tables.BACKTRACE_CLASS}")
            text = "backtrace records among the API calls were left out"
            yield Note("backtrace-rows", Severity.INFO, text, count, first, facts)
        if classes[source] <= known:
            continue
        count, first = count_rows(probe, source, _is_unknown("eventClass", known))
        unknown = f"rows of event class {_listed(classes[source] - known)}"
        if source == tables.RUNTIME:
            text = f"{unknown} among the API calls were left out"
        else:
            text = f"{source}: {unknown} were left out"
        yield Note("unknown-code", Severity.DROPPED, text, count, first, facts)


def _is_unknown(column: str, known: Iterable[int]) -> str:
    # By the known numbers: the unknown ones can be very many.
    numbers = ", ".join(map(str, sorted(known)))
    return f"typeof({column}) = 'integer' AND {column} NOT IN ({numbers})"


def _listed(numbers: Iterable[int]) -> str:
    # In damaged files there can be thousands.
    ordered = sorted(numbers)
    return ", ".join(map(str, ordered[:_MAX_LISTED])) + (", …" if ordered[_MAX_LISTED:] else "")


def _unclassified_notes(probe: Probe, ids: Identities) -> Iterator[Note]:
    for source in sorted(ids.unclassified):
        if source == tables.NVTX:
            column, known = "eventType", frozenset(tables.RANGE_KINDS)
        else:
            column, known = "eventClass", tables.CLASSES[source]
        numbers = ", ".join(map(str, sorted(known)))
        condition = f"typeof({column}) <> 'integer' AND NOT coalesce({column} IN ({numbers}), 0)"
        count, first = count_rows(probe, source, condition)
        if count:
            text = f"{source}: rows whose {column} is no whole number were left out"
            facts = tables.facts_of(source)
            yield Note("wrong-type", Severity.DROPPED, text, count, first, facts)


def _range_kind_notes(probe: Probe, ids: Identities) -> Iterator[Note]:
    known = tables.OTHER_KINDS | tables.RANGE_KINDS.keys()
    unknown = ids.range_kinds - known
    if unknown:
        count, first = count_rows(probe, tables.NVTX, _is_unknown("eventType", known))
        text = f"{tables.NVTX}: rows of event type {_listed(unknown)} were left out"
        facts = frozenset({Fact.RANGES})
        yield Note("unknown-code", Severity.DROPPED, text, count, first, facts)


def unclosed_range_notes(probe: Probe) -> list[Note]:
    """Return a note on ranges without an end, if there are some; for that it reads all ranges."""
    if not has_columns(probe, tables.NVTX, "eventType", "end"):
        return []
    kinds = ", ".join(str(kind) for kind in tables.RANGE_KINDS if kind != tables.MARK)
    count, first = count_rows(probe, tables.NVTX, f"eventType IN ({kinds}) AND end IS NULL")
    text = "ranges that were never closed"
    note = Note("range-unclosed", Severity.INFO, text, count, first, frozenset({Fact.RANGES}))
    return [note] if count else []


def _code_notes(probe: Probe, ids: Identities) -> Iterator[Note]:
    for source, fact, column, known, fate in _KNOWN_CODES:
        unknown = [
            code
            for table, name, code in ids.codes
            if (table, name) == (source, column) and code not in known
        ]
        if unknown:
            count, first = count_rows(probe, source, _is_unknown(column, known))
            text = f"{column} {_listed(unknown)} is not known; {fate}"
            facts = frozenset({fact})
            yield Note("unknown-code", Severity.APPROXIMATED, text, count, first, facts)


def name_notes(
    nameless: int, doubled: Sequence[int], facts: frozenset[Fact] = frozenset()
) -> Iterator[Note]:
    """Yield notes on `nameless` ids without a text and on `doubled` ids, which have two.

    `facts`: those of the rows that refer to them, if only some do.
    """
    if nameless:
        text = "names that the file refers to but does not hold"
        yield Note("nameless-id", Severity.INFO, text, nameless, "StringIds", facts)
    if doubled:
        text = "name ids with two texts; the first was kept"
        where = f"StringIds id {doubled[0]}"
        yield Note("duplicate-name", Severity.APPROXIMATED, text, len(set(doubled)), where, facts)


def replaced_name_notes(count: int) -> Iterator[Note]:
    """Yield a note on full names of kernels that the file lacks, if it has other names of these."""
    if count:
        text = (
            "full names of kernels that the file does not hold; shown by another name that it holds"
        )
        facts = frozenset({Fact.KERNELS})
        yield Note("nameless-id", Severity.INFO, text, count, gpu_tables.KERNEL, facts)


def metric_name_notes(nameless: int) -> Iterator[Note]:
    """Yield a note on metrics that were sampled and have no name."""
    if nameless:
        text = "sampled metrics that the file does not name"
        facts = frozenset({Fact.METRICS})
        yield Note("nameless-id", Severity.INFO, text, nameless, gpu_tables.METRIC_NAMES, facts)
