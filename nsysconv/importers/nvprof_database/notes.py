"""Notes on what a database's rows turn out to be."""

from __future__ import annotations

from collections.abc import Iterator

from nsysconv.facts import Fact
from nsysconv.importers import directives
from nsysconv.importers.nvprof_database import names, tables
from nsysconv.importers.nvprof_database.survey import DatabaseSurvey, Identities
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import (
    TIME_LIMIT,
    count_rows,
    has_columns,
    has_rows,
    row_count,
)
from nsysconv.notes import Note, Severity

_KERNELS = frozenset({Fact.KERNELS})
_RANGES = frozenset({Fact.RANGES})
# What people record on purpose, and no table of ours can hold.
_UNREAD = {
    "metrics": ("CUPTI_ACTIVITY_KIND_METRIC", "CUPTI_ACTIVITY_KIND_METRIC_INSTANCE"),
    "hardware events": ("CUPTI_ACTIVITY_KIND_EVENT", "CUPTI_ACTIVITY_KIND_EVENT_INSTANCE"),
    "samples": ("CUPTI_ACTIVITY_KIND_PC_SAMPLING",),
}
_MEASUREMENTS = (*_UNREAD["metrics"], *_UNREAD["hardware events"])
# The codes that tables.py knows, by column; memory kinds are numbered from 1.
_KNOWN = {
    "copyKind": range(tables.PTOP + 1),
    "srcKind": range(tables.LAST_MEMORY_KIND + 1),
    "dstKind": range(tables.LAST_MEMORY_KIND + 1),
    "memoryKind": range(tables.LAST_MEMORY_KIND + 1),
    "overheadKind": names.OVERHEADS,
}


def row_notes(probe: Probe, survey: DatabaseSurvey, pid: int | None) -> Iterator[Note]:
    """Yield notes on the surveyed rows; `pid` is the process of GPU operations, if it is known."""
    ids = survey.ids
    if pid is None:
        yield from _process_notes(survey)
    yield from _call_notes(probe, ids)
    yield from _code_notes(probe, ids)
    if ids.constructs:
        yield from directives.construct_notes(
            probe, directives.SOURCES, ids.constructs, ids.overfull
        )
    yield from _impossible_name_notes(probe, ids)
    yield from _unread_notes(probe)
    if tables.SERIAL_KERNEL in survey.times:
        yield _serial_kernels_note(probe, survey)
    if tables.MARKER in survey.times:
        yield from _marker_notes(probe)


def _process_notes(survey: DatabaseSurvey) -> Iterator[Note]:
    gpu_rows = sum(survey.times[s].count for s in tables.GPU_SOURCES if s in survey.times)
    if gpu_rows:
        count = len(survey.ids.pids)
        text = "GPU operations name no process" + (
            f", and there are {count} in the file; their calls are not known"
            if count
            else "; their process is not known"
        )
        severity = Severity.APPROXIMATED
        yield Note("process-assumed", severity, text, gpu_rows, facts=_KERNELS)
    for source in sorted(survey.ids.process_zero & survey.times.keys()):
        text = f"{source} names the process 0; it is not known"
        facts, count = frozenset({tables.FACTS[source]}), survey.times[source].count
        yield Note("process-assumed", Severity.INFO, text, count, source, facts)


def _call_notes(probe: Probe, ids: Identities) -> Iterator[Note]:
    for source, layer in tables.LAYERS.items():
        unknown = sorted(
            number
            for its_layer, number in ids.calls
            if its_layer == layer and names.function_name(layer, number) is None
        )
        if unknown:
            numbers = ", ".join(map(str, unknown))
            count, first = count_rows(probe, source, f"cbid IN ({numbers})")
            text = f"{source}: functions {numbers} are not known; shown by their number"
            facts = frozenset({Fact.API_CALLS})
            yield Note("unknown-code", Severity.APPROXIMATED, text, count, first, facts)


def _code_notes(probe: Probe, ids: Identities) -> Iterator[Note]:
    unknown: dict[tuple[str, str], list[int]] = {}
    for table, column, code in sorted(ids.codes):
        if code not in _KNOWN[column]:
            unknown.setdefault((table, column), []).append(code)
    for (table, column), codes in unknown.items():
        numbers = ", ".join(map(str, codes))
        count, first = count_rows(probe, table, f"{column} IN ({numbers})")
        text = f"{column} {numbers} is not known; shown as Unknown"
        facts = frozenset({tables.FACTS[table]})
        yield Note("unknown-code", Severity.APPROXIMATED, text, count, first, facts)


def _impossible_name_notes(probe: Probe, ids: Identities) -> Iterator[Note]:
    for table, column in sorted(ids.impossible_names):
        highest = names.MAX_CALL if column == "cbid" else names.MAX_TEXT_ID
        wrong = f"typeof({column}) = 'integer' AND {column} NOT BETWEEN 0 AND {highest}"
        count, first = count_rows(probe, table, wrong)
        text = f"{column} of {table} is no number of a name; these rows have none"
        yield Note("nameless-id", Severity.APPROXIMATED, text, count, first)


def _unread_notes(probe: Probe) -> Iterator[Note]:
    for kind, sources in _UNREAD.items():
        counts = {t: row_count(probe, t) for t in sources if t in probe.tables}
        if rows := sum(counts.values()):
            first = next(table for table, count in counts.items() if count)
            yield Note("rows-not-read", Severity.INFO, f"{kind} are not read", rows, first)


def _serial_kernels_note(probe: Probe, survey: DatabaseSurvey) -> Note:
    measured = any(table in probe.tables and has_rows(probe, table) for table in _MEASUREMENTS)
    text = "kernels ran one after the other, because the profiler was told to"
    if measured or not survey.times.keys() & {*tables.LAYERS, tables.CONCURRENT_KERNEL}:
        text = (
            "kernels ran one after the other, perhaps several times each, while the profiler "
            "measured events or metrics: they took longer than they do alone"
        )
    source = tables.SERIAL_KERNEL
    count = survey.times[source].count
    return Note("kernels-serialised", Severity.APPROXIMATED, text, count, source, _KERNELS)


def _marker_notes(probe: Probe) -> Iterator[Note]:
    table = tables.MARKER
    text = "whether a range was pushed or started was told by the threads that began and ended it"
    yield Note("range-style-assumed", Severity.INFO, text, where=table, facts=_RANGES)
    # Flags that are no number are none of these either.
    neither = f"NOT coalesce({tables.EVENTS[table]}, 0)"
    count, first = count_rows(probe, table, neither)
    if count:
        text = "markers that are neither a range nor a mark were left out"
        yield Note("unknown-code", Severity.DROPPED, text, count, first, _RANGES)
    yield from _pair_notes(probe)


# Slug, severity, text; a condition on the beginnings and ends of one number, and how many rows those are.
_ODD_PAIRS = (
    ("range-unclosed", Severity.INFO, "ranges that were never closed", "NOT ended", "begun"),
    (
        "range-unopened",
        Severity.DROPPED,
        "ends of ranges whose beginning was not recorded",
        "NOT begun",
        "ended",
    ),
    (
        "range-number-shared",
        Severity.APPROXIMATED,
        "ranges share their number with others; they end with the first of them",
        "max(begun, ended) > 1",
        "max(begun, ended)",
    ),
    (
        "negative-duration",
        Severity.APPROXIMATED,
        "ranges that end before they begin: their end is not recorded",
        "end_ns < begin_ns",
        "begun",
    ),
    (
        "impossible-time",
        Severity.APPROXIMATED,
        "ranges that end more than 104 days after they begin: their end is not recorded",
        f"end_ns - begin_ns > {TIME_LIMIT} AND begin_ns <> 0",
        "begun",
    ),
)


def _pair_notes(probe: Probe) -> Iterator[Note]:
    # All odd pairs are counted in one pass over the table.
    table, begin, end = tables.MARKER, f"flags & {tables.BEGIN}", f"flags & {tables.END}"
    row_id = probe.tables[table].row_id
    selected = ", ".join(
        f"sum(CASE WHEN {odd} THEN {count} END), min(CASE WHEN {odd} THEN place END)"
        for *_, odd, count in _ODD_PAIRS
    )
    counts = probe.select(
        f"""SELECT {selected} FROM (
        SELECT min({row_id}) AS place, sum({begin} != 0) AS begun, sum({end} != 0) AS ended,
            min(CASE WHEN {begin} THEN timestamp END) AS begin_ns,
            min(CASE WHEN {end} THEN timestamp END) AS end_ns
        FROM {table} WHERE typeof(flags) = 'integer' AND flags & {tables.BEGIN | tables.END}
        GROUP BY id)"""
    )[0]
    for (slug, severity, text, *_), count, place in zip(
        _ODD_PAIRS, counts[::2], counts[1::2], strict=True
    ):
        if count:
            yield Note(slug, severity, text, count, f"{table} row {place}", _RANGES)


def name_notes(demangles: bool, symbols: int, nameless: int) -> Iterator[Note]:
    """Yield notes on kernels that are shown by their symbols, and on ids without a text."""
    if symbols and not demangles:
        text = (
            "kernels are shown by their symbols; install nsysconv[demangle] and import again with "
            "--replace to see their names"
        )
        yield Note("symbols-only", Severity.INFO, text, symbols, "StringTable", _KERNELS)
    if nameless:
        text = "names that the file refers to but does not hold"
        yield Note("nameless-id", Severity.INFO, text, nameless, "StringTable")


def repeated_peer_notes(probe: Probe) -> list[Note]:
    """Return a note on peer copies that are in the tables of all copies and of peer copies, if any."""
    shared = ("correlationId", "start", "end")
    if not (
        has_columns(probe, tables.MEMCPY, "copyKind", *shared)
        and has_columns(probe, tables.PEER_COPY, *shared)
    ):
        return []
    columns = ", ".join(shared)
    count, first = count_rows(
        probe,
        tables.MEMCPY,
        f"copyKind = {tables.PTOP} AND ({columns}) IN (SELECT {columns} FROM {tables.PEER_COPY})",
    )
    text = "peer copies stand in two tables and are counted once"
    facts = frozenset({Fact.MEMCPYS})
    note = Note("peer-copy-repeated", Severity.INFO, text, count, first, facts)
    return [note] if count else []
