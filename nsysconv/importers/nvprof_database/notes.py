"""Notes on what a database's rows turn out to be."""

from __future__ import annotations

from collections.abc import Iterator

from nsysconv.facts import Fact
from nsysconv.importers import contract, directives
from nsysconv.importers.nvprof_database import markers, name_ids, names, tables
from nsysconv.importers.nvprof_database.survey import Found, Survey
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import TIME_LIMIT, counted, has
from nsysconv.notes import Note, Severity

_API_CALLS = frozenset({Fact.API_CALLS})
_KERNELS = frozenset({Fact.KERNELS})
_RANGES = frozenset({Fact.RANGES})
# What people record on purpose, and no table of ours can hold.
_UNREAD = {
    "metrics": ("METRIC", "METRIC_INSTANCE"),
    "hardware events": ("EVENT", "EVENT_INSTANCE"),
    "samples": ("PC_SAMPLING",),
}
_MEASUREMENTS = tuple(
    f"CUPTI_ACTIVITY_KIND_{kind}"
    for kind in ("METRIC", "METRIC_INSTANCE", "EVENT", "EVENT_INSTANCE")
)
# The codes that tables.py knows, by column; memory kinds are numbered from 1.
_KNOWN = {
    "copyKind": range(tables.PTOP + 1),
    "srcKind": range(tables.LAST_MEMORY_KIND + 1),
    "dstKind": range(tables.LAST_MEMORY_KIND + 1),
    "memoryKind": range(tables.LAST_MEMORY_KIND + 1),
    "overheadKind": name_ids.OVERHEADS,
}
_FACTS = {
    tables.MEMCPY: Fact.MEMCPYS,
    tables.PEER_COPY: Fact.MEMCPYS,
    tables.MEMSET: Fact.MEMSETS,
    tables.OVERHEAD: Fact.OVERHEAD,
}


def on_rows(probe: Probe, survey: Survey, pid: int | None) -> Iterator[Note]:
    """What the surveyed rows give cause to say."""
    found = survey.found
    yield from _on_processes(survey, pid)
    yield from _on_calls(probe, found)
    yield from _on_codes(probe, found)
    yield from _on_constructs(probe, found)
    yield from _on_impossible_names(probe, found)
    yield from _on_unread(probe)
    if tables.SERIAL_KERNEL in survey.times:
        yield _on_serial_kernels(probe, survey)
    if tables.MARKER in survey.times:
        yield from _on_markers(probe)


def _on_processes(survey: Survey, pid: int | None) -> Iterator[Note]:
    if pid is not None:
        return
    gpu_rows = sum(survey.times[s].count for s in tables.GPU_SOURCES if s in survey.times)
    if gpu_rows:
        count = len(survey.found.pids)
        text = "GPU operations name no process" + (
            f", and there are {count} in the file; their calls are not known"
            if count
            else "; their process is not known"
        )
        severity = Severity.APPROXIMATED
        yield Note("process-assumed", severity, text, gpu_rows, facts=_KERNELS)
    for source in sorted(survey.found.placeless & survey.times.keys()):
        text = f"{source} names the process 0; it is not known"
        facts = frozenset({tables.FACTS[source]})
        yield Note(
            "process-assumed", Severity.INFO, text, survey.times[source].count, source, facts
        )


def _on_calls(probe: Probe, found: Found) -> Iterator[Note]:
    for source, layer in tables.LAYERS.items():
        unknown = sorted(
            number
            for of_layer, number in found.calls
            if of_layer == layer and names.call_name(layer, number).startswith("[")
        )
        if unknown:
            listed = ", ".join(map(str, unknown))
            count, first = counted(probe, source, f"cbid IN ({listed})")
            text = f"{source}: functions {listed} are not known; shown by their number"
            yield Note("unknown-code", Severity.APPROXIMATED, text, count, first, _API_CALLS)


def _on_codes(probe: Probe, found: Found) -> Iterator[Note]:
    unknown: dict[tuple[str, str], list[int]] = {}
    for table, column, code in sorted(found.codes):
        if code not in _KNOWN[column]:
            unknown.setdefault((table, column), []).append(code)
    for (table, column), codes in unknown.items():
        listed = ", ".join(map(str, codes))
        count, first = counted(probe, table, f"{column} IN ({listed})")
        text = f"{column} {listed} is not known; shown as Unknown"
        facts = frozenset({_FACTS[table]})
        yield Note("unknown-code", Severity.APPROXIMATED, text, count, first, facts)


def _on_constructs(probe: Probe, found: Found) -> Iterator[Note]:
    facts = frozenset({Fact.DIRECTIVES})
    for source in directives.SOURCES:
        kinds = {each.kind for each in found.constructs if each.source == source}
        unknown = sorted(kind for kind in kinds if directives.word(source, kind) is None)
        if unknown:
            listed = ", ".join(map(str, unknown))
            count, first = counted(probe, source, f"eventKind IN ({listed})")
            text = f"{source}: kinds {listed} are not known; shown by their number"
            yield Note("unknown-code", Severity.APPROXIMATED, text, count, first, facts)
        if source in found.crowded:
            text = f"{source} has more names than can be; some of its rows have none"
            yield Note("nameless-id", Severity.APPROXIMATED, text, where=source, facts=facts)


def _on_unread(probe: Probe) -> Iterator[Note]:
    for what, kinds in _UNREAD.items():
        names_of = [f"CUPTI_ACTIVITY_KIND_{kind}" for kind in kinds]
        counts = {
            table: probe.select(f"SELECT count(*) FROM {table}")[0][0]
            for table in names_of
            if table in probe.tables
        }
        if rows := sum(counts.values()):
            first = next(table for table, count in counts.items() if count)
            yield Note("rows-not-read", Severity.INFO, f"{what} are not read", rows, first)


def _on_impossible_names(probe: Probe, found: Found) -> Iterator[Note]:
    for table, column in sorted(found.impossible_names):
        highest = name_ids.HIGHEST_CALL if column == "cbid" else name_ids.HIGHEST_TEXT
        wrong = f"typeof({column}) = 'integer' AND {column} NOT BETWEEN 0 AND {highest}"
        count, first = counted(probe, table, wrong)
        text = f"{column} of {table} is no number of a name; these rows have none"
        yield Note("nameless-id", Severity.APPROXIMATED, text, count, first)


def _on_serial_kernels(probe: Probe, survey: Survey) -> Note:
    measured = any(
        has(probe, table) and probe.select(f"SELECT EXISTS (SELECT 1 FROM {table})")[0][0]
        for table in _MEASUREMENTS
    )
    text = "kernels ran one after the other, because the profiler was told to"
    if measured or not survey.times.keys() & {*tables.LAYERS, tables.CONCURRENT_KERNEL}:
        text = (
            "kernels ran one after the other, perhaps several times each, while the profiler "
            "measured events or metrics: they took longer than they do alone"
        )
    source = tables.SERIAL_KERNEL
    count = survey.times[source].count
    return Note("kernels-serialised", Severity.APPROXIMATED, text, count, source, _KERNELS)


def _on_markers(probe: Probe) -> Iterator[Note]:
    table = tables.MARKER
    text = "whether a range was pushed or started was told by the threads that began and ended it"
    yield Note("range-style-assumed", Severity.INFO, text, where=table, facts=_RANGES)
    kinds = markers.MARK | markers.BEGIN | markers.END
    # Flags that are no number are none of these either.
    neither = f"NOT coalesce(flags & {kinds}, 0)"
    count, first = counted(probe, table, neither)
    if count:
        text = "markers that are neither a range nor a mark were left out"
        yield Note("unknown-code", Severity.DROPPED, text, count, first, _RANGES)
    yield from _on_pairs(probe)


# Slug, severity, words, and of a number's beginnings and ends what is told and how many that is.
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


def _on_pairs(probe: Probe) -> Iterator[Note]:
    """Beginnings and ends that are not one of each."""
    table, begin, end = tables.MARKER, f"flags & {markers.BEGIN}", f"flags & {markers.END}"
    row_id = probe.tables[table].row_id
    asked = ", ".join(
        f"sum(CASE WHEN {odd} THEN {count} END), min(CASE WHEN {odd} THEN place END)"
        for *_, odd, count in _ODD_PAIRS
    )
    answers = probe.select(
        f"""SELECT {asked} FROM (
        SELECT min({row_id}) AS place, sum({begin} != 0) AS begun, sum({end} != 0) AS ended,
            min(CASE WHEN {begin} THEN timestamp END) AS begin_ns,
            min(CASE WHEN {end} THEN timestamp END) AS end_ns
        FROM {table} WHERE typeof(flags) = 'integer' AND flags & {markers.BEGIN | markers.END}
        GROUP BY id)"""
    )[0]
    for (slug, severity, text, *_), count, place in zip(
        _ODD_PAIRS, answers[::2], answers[1::2], strict=True
    ):
        if count:
            yield Note(slug, severity, text, count, f"{table} row {place}", _RANGES)


def on_symbols(demangles: bool, symbols: int, nameless: int) -> Iterator[Note]:
    """Kernels shown by their symbols, and ids without a text."""
    if symbols and not demangles:
        text = (
            "kernels are shown by their symbols; install nsysconv[demangle] and import again with "
            "--replace to see their names"
        )
        yield Note("symbols-only", Severity.INFO, text, symbols, "StringTable", _KERNELS)
    if nameless:
        text = "names that the file refers to but does not hold"
        yield Note("nameless-id", Severity.INFO, text, nameless, "StringTable")


def on_repeated_peers(probe: Probe) -> Note | None:
    """Peer copies that stand in the tables of all copies and of peer copies."""
    shared = ("correlationId", "start", "end")
    if not (
        has(probe, tables.MEMCPY, "copyKind", *shared) and has(probe, tables.PEER_COPY, *shared)
    ):
        return None
    columns = ", ".join(shared)
    count, first = counted(
        probe,
        tables.MEMCPY,
        f"copyKind = {tables.PTOP} AND ({columns}) IN (SELECT {columns} FROM {tables.PEER_COPY})",
    )
    if not count:
        return None
    text = "peer copies stand in two tables and are counted once"
    return Note("peer-copy-repeated", Severity.INFO, text, count, first, frozenset({Fact.MEMCPYS}))


def lost_gpu_work(probe: Probe, found: Found) -> Note | None:
    """For a file without GPU rows: the note that there should be some, if a call succeeded."""
    for source, layer in tables.LAYERS.items():
        working = {
            number: name
            for of_layer, number in found.calls
            if of_layer == layer
            and (name := names.call_name(layer, number)).startswith(contract.WORKING_CALLS)
        }
        if not working:
            continue
        succeeded = "returnValue = 0" if has(probe, source, "returnValue") else "1"
        listed = ", ".join(map(str, working))
        rows = probe.select(
            f"SELECT cbid FROM {source} WHERE cbid IN ({listed}) AND {succeeded} LIMIT 1"
        )
        if rows:
            return contract.lost_gpu_work(working[rows[0][0]])
    return None
