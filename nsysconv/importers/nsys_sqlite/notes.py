"""Notes on what an export's rows turn out to be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nsysconv.facts import Fact
from nsysconv.importers import contract, directives
from nsysconv.importers.nsys_sqlite import cpu_side, memory, tables
from nsysconv.importers.nsys_sqlite.small_tables import Devices
from nsysconv.importers.nsys_sqlite.survey import Found
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import counted
from nsysconv.notes import Note, Severity

_API_CALLS = frozenset({Fact.API_CALLS})
_DIRECTIVES = frozenset({Fact.DIRECTIVES})
_MEMORY_KINDS = range(memory.LAST_KIND + 1)
# The codes that mappings know, and what others become.
_KNOWN_CODES = (
    (tables.MEMCPY, Fact.MEMCPYS, "copyKind", range(14), "shown as Unknown"),
    (tables.MEMCPY, Fact.MEMCPYS, "srcKind", _MEMORY_KINDS, "shown as Unknown"),
    (tables.MEMCPY, Fact.MEMCPYS, "dstKind", _MEMORY_KINDS, "shown as Unknown"),
    (tables.MEMSET, Fact.MEMSETS, "memKind", _MEMORY_KINDS, "shown as Unknown"),
    (memory.USAGE, Fact.MEMORY_EVENTS, "memKind", _MEMORY_KINDS, "shown as Unknown"),
    (memory.USAGE, Fact.MEMORY_EVENTS, "memoryOperationType", memory.OPERATIONS, "without a size"),
    (
        memory.GPU_FAULTS,
        Fact.PAGE_FAULTS,
        "faultAccessType",
        range(memory.LAST_ACCESS + 1),
        "shown as Unknown",
    ),
)

_MOST_LISTED = 20
_RANGE_COLUMNS = {"eventType", "end"}


def on_rows(
    probe: Probe, found: Found, devices: Devices, unclosed: Sequence[Note]
) -> Iterator[Note]:
    """Yield the notes that the surveyed rows ask for; `unclosed` are those of `on_unclosed`."""
    yield from _on_classes(probe, found)
    yield from _on_unsorted(probe, found)
    yield from _on_range_kinds(probe, found)
    yield from _on_codes(probe, found)
    yield from _on_constructs(probe, found)
    yield from unclosed
    if devices.unnamed:
        text = "the profile does not say which GPU a device number means"
        facts = frozenset({Fact.DEVICES})
        yield Note("device-unnamed", Severity.INFO, text, devices.unnamed, facts=facts)
    if len(found.virtual_machines) > 1:
        text = "processes of more than one machine in one profile"
        yield Note("stray-pid", Severity.INFO, text, len(found.virtual_machines))


def _on_classes(probe: Probe, found: Found) -> Iterator[Note]:
    classes: dict[str, set[int]] = {}
    for source, event_class in found.event_classes:
        classes.setdefault(source, set()).add(event_class)
    for source in sorted(classes):
        known = tables.CLASSES.get(source, frozenset(classes[source])) | cpu_side.MARKER_CLASSES
        if source == tables.RUNTIME and tables.BACKTRACE_CLASS in classes[source]:
            known |= {tables.BACKTRACE_CLASS}
            count, first = counted(probe, source, f"eventClass = {tables.BACKTRACE_CLASS}")
            text = "backtrace records among the API calls were left out"
            yield Note("backtrace-rows", Severity.INFO, text, count, first, _API_CALLS)
        if classes[source] <= known:
            continue
        facts = frozenset(m.fact for m in tables.MAPPINGS if m.source == source)
        count, first = counted(probe, source, _another("eventClass", known))
        which = f"rows of event class {_listed(classes[source] - known)}"
        if source == tables.RUNTIME:
            text = f"{which} among the API calls were left out"
        else:
            text = f"{source}: {which} were left out"
        yield Note("unknown-code", Severity.DROPPED, text, count, first, facts)


def _another(column: str, known: Iterable[int]) -> str:
    """As SQL: the column holds a number that is none of these. (Others may be very many.)"""
    return (
        f"typeof({column}) = 'integer' AND {column} NOT IN ({', '.join(map(str, sorted(known)))})"
    )


def _listed(numbers: Iterable[int]) -> str:
    """Numbers for people: of damage, there may be thousands."""
    known = sorted(numbers)
    return ", ".join(map(str, known[:_MOST_LISTED])) + (", …" if known[_MOST_LISTED:] else "")


def _on_unsorted(probe: Probe, found: Found) -> Iterator[Note]:
    for source in sorted(found.unsorted):
        column, known = ("eventType", frozenset(tables.RANGE_KINDS)) if source == tables.NVTX else (
            "eventClass", tables.CLASSES[source])  # fmt: skip
        listed = ", ".join(map(str, sorted(known)))
        where = f"typeof({column}) <> 'integer' AND NOT coalesce({column} IN ({listed}), 0)"
        count, first = counted(probe, source, where)
        if count:
            facts = frozenset(m.fact for m in tables.MAPPINGS if m.source == source)
            text = f"{source}: rows whose {column} is no whole number were left out"
            yield Note("wrong-type", Severity.DROPPED, text, count, first, facts)


def _on_range_kinds(probe: Probe, found: Found) -> Iterator[Note]:
    known = tables.OTHER_KINDS | tables.RANGE_KINDS.keys()
    unknown = found.range_kinds - known
    if unknown:
        count, first = counted(probe, tables.NVTX, _another("eventType", known))
        text = f"{tables.NVTX}: rows of event type {_listed(unknown)} were left out"
        facts = frozenset({Fact.RANGES})
        yield Note("unknown-code", Severity.DROPPED, text, count, first, facts)


def on_unclosed(probe: Probe) -> list[Note]:
    """Return a note on ranges without an end, if there are some; for that it reads all ranges."""
    if (
        tables.NVTX not in probe.tables
        or not set(probe.tables[tables.NVTX].columns) >= _RANGE_COLUMNS
    ):
        return []
    kinds = ", ".join(str(kind) for kind in tables.RANGE_KINDS if kind != tables.MARK)
    count, first = counted(probe, tables.NVTX, f"eventType IN ({kinds}) AND end IS NULL")
    text = "ranges that were never closed"
    note = Note("range-unclosed", Severity.INFO, text, count, first, frozenset({Fact.RANGES}))
    return [note] if count else []


def _on_codes(probe: Probe, found: Found) -> Iterator[Note]:
    for source, fact, column, known, fate in _KNOWN_CODES:
        codes = sorted(code for table, name, code in found.codes
                       if (table, name) == (source, column) and code not in known)  # fmt: skip
        if codes:
            count, first = counted(probe, source, _another(column, known))
            text = f"{column} {_listed(codes)} is not known; {fate}"
            facts = frozenset({fact})
            yield Note("unknown-code", Severity.APPROXIMATED, text, count, first, facts)


def _on_constructs(probe: Probe, found: Found) -> Iterator[Note]:
    for source in cpu_side.OPENACC:
        kinds = {each.kind for each in found.constructs if each.source == source}
        unknown = sorted(kind for kind in kinds if directives.word(source, kind) is None)
        if unknown:
            listed = ", ".join(map(str, unknown))
            count, first = counted(probe, source, f"eventKind IN ({listed})")
            text = f"{source}: kinds {listed} are not known; shown by their number"
            yield Note("unknown-code", Severity.APPROXIMATED, text, count, first, _DIRECTIVES)
        if source in found.crowded:
            text = f"{source} has more names than can be; some of its rows have none"
            yield Note("nameless-id", Severity.APPROXIMATED, text, where=source, facts=_DIRECTIVES)


def on_names(
    nameless: int, doubled: Sequence[int], facts: frozenset[Fact] = frozenset()
) -> Iterator[Note]:
    """Ids without a text, and ids with two; `facts` where only such rows refer to them."""
    if nameless:
        text = "names that the file refers to but does not hold"
        yield Note("nameless-id", Severity.INFO, text, nameless, "StringIds", facts)
    if doubled:
        text = "name ids with two texts; the first was kept"
        where = f"StringIds id {doubled[0]}"
        yield Note("duplicate-name", Severity.APPROXIMATED, text, len(set(doubled)), where, facts)


def on_replaced_names(count: int) -> Iterator[Note]:
    """Full names of kernels that the file does not hold, where it holds another."""
    if count:
        text = (
            "full names of kernels that the file does not hold; shown by another name that it holds"
        )
        facts = frozenset({Fact.KERNELS})
        yield Note("nameless-id", Severity.INFO, text, count, tables.KERNEL, facts)


def on_metric_names(nameless: int) -> Iterator[Note]:
    """Metrics that were sampled and are called nothing."""
    if nameless:
        text = "sampled metrics that the file does not name"
        facts = frozenset({Fact.METRICS})
        yield Note("nameless-id", Severity.INFO, text, nameless, "TARGET_INFO_GPU_METRICS", facts)


def lost_gpu_work(probe: Probe, api_names: Sequence[tuple[int, str]]) -> Note | None:
    """For a file without GPU rows: the note that there should be some, if a call succeeded."""
    working = {
        name_id: name for name_id, name in api_names if name.startswith(contract.WORKING_CALLS)
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
    return contract.lost_gpu_work(working[rows[0][0]])
