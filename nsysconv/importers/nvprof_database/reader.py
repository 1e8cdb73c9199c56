"""Reads one database as one recording: batches of rows in a fitting order, then its summary.

Of the tables without events, which come last, only what an imported event refers to is copied. In
particular the name of the process object is left alone: it holds the command line.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any
from uuid import UUID

from nsysconv import schema
from nsysconv.facts import Fact
from nsysconv.importers import directives, event_records, sqlite_mapping
from nsysconv.importers.contract import NO_GPU_WORK
from nsysconv.importers.nvprof_database import counters, names, tables
from nsysconv.importers.nvprof_database.names import texts
from nsysconv.importers.nvprof_database.survey import DatabaseSurvey, Identities, read_clock, survey
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import (
    TIME_LIMIT,
    count_rows,
    first_rows,
    has_columns,
    has_rows,
    in_lists,
    integer_rows,
    only,
)
from nsysconv.importers.unread_tables import unread_tables_note
from nsysconv.names import demangler
from nsysconv.notes import Note, Severity
from nsysconv.store.recording import (
    ArrowRows,
    Batches,
    ProfileAttributes,
    Recording,
    SourceRows,
    Summary,
    rows_of,
    shared_constants,
)

Row = dict[str, Any]


class DatabaseReader:
    """Reads one database. Its tables are surveyed when the object is made."""

    def __init__(self, probe: Probe, possible: frozenset[Fact], advice: Mapping[Fact, str]) -> None:
        """Survey the tables; `possible` and `advice` are those of the importer."""
        self._probe = probe
        self._possible = possible
        self._advice = advice
        self._notes: list[Note] = list(probe.notes)
        self._unread: set[Fact] = set()
        sources = {mapping.source: mapping for mapping in tables.MAPPINGS}
        self._survey = survey(probe, [s for s, m in sources.items() if self._is_readable(m)])
        self._ids = self._survey.ids
        self._clock = read_clock(self._survey.times)
        self._demangled = demangler()
        self._names = names.assign_ids(
            probe, self._ids.symbol_ids | self._ids.text_ids, demangles=self._demangled is not None
        )
        self._construct_ids = directives.assign_ids(self._ids.constructs, self._names.construct_id)

    def _is_readable(self, mapping: tables.DatabaseMapping) -> bool:
        if mapping.source not in self._probe.tables:
            return False
        if reason := sqlite_mapping.unreadable_reason(self._probe, mapping):
            self._leave_unread(mapping.source, reason)
        return not reason

    def _leave_unread(self, source: str, reason: str) -> None:
        fact = tables.FACTS[source]
        self._unread.add(fact)
        self._notes.append(sqlite_mapping.unread_note(source, reason, [fact]))

    def recording(self) -> Recording:
        """Return the recording; its rows are read while `batches` is used up."""
        self._notes += self._clock.notes
        for name in self._probe.view_names:
            if name in tables.EVENT_SOURCES:
                self._leave_unread(name, "is a view or virtual table and was ignored")
        return Recording(self._batches(), self._probe.readable, self._possible)

    def _batches(self) -> Batches:
        # API calls come first, then GPU operations and the rest, then the small tables.
        self._notes += _row_notes(self._probe, self._survey, self._pid)
        repeated = _repeated_peer_notes(self._probe)
        self._notes += repeated
        looks = ("id", "flags", "color", "category")
        context = tables.DatabaseContext(
            zero=self._clock.zero,
            pid=self._pid,
            names=self._names,
            repeated_peers=bool(repeated),
            has_looks=has_columns(self._probe, tables.MARKER_DATA, *looks),
            construct_ids=self._construct_ids,
            records=event_records.find_records(self._probe, "cudaEventId"),
        )
        copied: list[tables.DatabaseMapping] = []
        for mapping in tables.MAPPINGS:
            if mapping.source in self._survey.times:
                rows = self._event_rows(mapping, context)
                if rows is not None:
                    copied.append(mapping)
                    yield rows
        measured = yield from self._counter_batches()
        facts = yield from self._object_batches()
        work_is_missing = yield from self._name_batches()
        return Summary(
            attributes=ProfileAttributes(
                format_version=self._version(),
                zero_utc_ns=self._clock.zero_utc_ns,
                recording_ns=self._clock.recording_ns,
            ),
            facts=(measured | facts | self._facts(work_is_missing)) - self._unread,
            advice=self._advice,
            notes=tuple(self._notes),
            constants=shared_constants((m.target, self._constants(m)) for m in copied),
        )

    def _version(self) -> str | None:
        rows = self._probe.select("SELECT version FROM Version LIMIT 1")
        return str(rows[0][0]) if rows and isinstance(rows[0][0], int) else None

    @cached_property
    def _pid(self) -> int | None:
        # This is the process of GPU operations, whose rows do not name it. A database holds one
        # process.
        named = {pid for (pid,) in _named_objects(self._probe, tables.PROCESS_OBJECT, 1)}
        for pids in (self._ids.call_pids, self._ids.other_pids, named - {0}):
            if pids:
                return only(pids)
        return None

    # -- rows of events

    def _event_rows(
        self, mapping: tables.DatabaseMapping, context: tables.DatabaseContext
    ) -> SourceRows | None:
        is_suspect = mapping.source in self._ids.suspects
        rows, left_out = sqlite_mapping.event_rows(
            self._probe, mapping, context, tables.CHECKS, is_suspect=is_suspect
        )
        self._notes += left_out
        return rows

    def _constants(self, mapping: tables.DatabaseMapping) -> dict[str, int]:
        # The result has the process and the device of a table if all of its rows have the same.
        constants: dict[str, int] = {}
        suspects = self._ids.suspects
        if mapping.source in tables.GPU_SOURCES and mapping.source not in suspects:
            if self._pid is not None:
                constants["pid"] = self._pid
            device = only(self._ids.op_ordinals)
            if device is not None and not suspects:
                constants["device_id"] = device
        return constants

    def _counter_batches(self) -> Generator[ArrowRows, None, frozenset[Fact]]:
        # This yields what counters measured, and returns the fact that there is something.
        kernels = tuple(source for source in tables.KERNELS if source in self._survey.times)
        measured = counters.Counters(self._probe, kernels)
        ids = self._names
        yield from measured.rows(
            self._pid,
            ids.construct_id(len(self._construct_ids)),
            lambda symbol: symbol + ids.base if ids.demangles else symbol,
        )
        self._notes += measured.notes()
        return frozenset({Fact.METRICS} if measured.names else ())

    # -- small tables

    def _object_batches(self) -> Generator[ArrowRows, None, frozenset[Fact]]:
        # This yields the small tables except names, and returns the facts that they add.
        probe, ids = self._probe, self._ids
        pids = ids.pids
        if self._pid is not None and self._has_rows(tables.GPU_SOURCES):
            pids = pids | {self._pid}
        own_pid = self._pid if self._pid in pids else None
        devices = _device_rows(probe, ids)
        unnamed = sum(not device["name"] for device in devices)
        if unnamed:
            text = "the file does not describe a device that it refers to"
            facts = frozenset({Fact.DEVICES})
            self._notes.append(Note("device-unnamed", Severity.INFO, text, unnamed, facts=facts))
        ranks = _ranks(probe, pids)
        processes = [{"pid": pid, "name": None, "rank": ranks.get(pid)} for pid in sorted(pids)]
        yield rows_of(schema.device, devices)
        yield rows_of(schema.process, processes)
        yield rows_of(schema.thread, _thread_rows(probe, ids))
        yield rows_of(schema.context, _context_rows(probe, own_pid, ids.ordinals))
        yield rows_of(schema.stream, _stream_rows(probe, own_pid))
        yield rows_of(schema.domain, _domain_rows(probe, ids))
        described = {Fact.DEVICES} if devices and not unnamed else set()
        return frozenset(described | ({Fact.RANKS} if ranks else set()))

    def _name_batches(self) -> Generator[ArrowRows, None, bool]:
        # Returns whether calls show that there was GPU work, and none was recorded.
        ids, probe = self._ids, self._probe
        kinds = {code for table, _, code in ids.codes if table == tables.OVERHEAD}
        yield rows_of(schema.name, names.made_name_rows(ids.calls, kinds, self._names))
        text_ids = directives.text_ids(self._construct_ids)
        known = texts(probe, text_ids)
        yield rows_of(schema.name, directives.name_rows(self._construct_ids, known))
        missing = (text_ids - known.keys()) | ids.symbol_ids | ids.text_ids
        symbols = 0
        name_rows = names.file_name_rows(
            probe, ids.symbol_ids, self._names, self._demangled, missing
        )
        for rows in in_lists(name_rows):
            symbols += sum(
                row["id"] in ids.symbol_ids and row["text"].startswith("_Z") for row in rows
            )
            yield rows_of(schema.name, rows)
        self._notes += _name_notes(self._names.demangles, symbols, len(missing))
        if self._has_rows(tables.GPU_SOURCES):
            return False
        note = self._unrecorded_gpu_work()
        self._notes.append(note or NO_GPU_WORK)
        return note is not None

    def _unrecorded_gpu_work(self) -> Note | None:
        for source, layer in tables.LAYERS.items():
            calls = {n: names.call_name(layer, n) for at, n in self._ids.calls if at == layer}
            note = sqlite_mapping.unrecorded_gpu_work(self._probe, source, "cbid", calls)
            if note is not None:
                return note
        return None

    # -- facts

    def _facts(self, work_is_missing: bool) -> frozenset[Fact]:
        facts = {fact for source, fact in tables.FACTS.items() if self._has_rows([source])}
        calls = self._has_rows(tables.LAYERS)
        gpu_rows = self._has_rows(tables.GPU_SOURCES)
        # Runs that measure events or metrics record kernels alone.
        timeline = calls or self._has_rows(set(tables.GPU_SOURCES) - {tables.SERIAL_KERNEL})
        if timeline and not work_is_missing:
            # One switch records them all: if there are no rows of one kind, there were none.
            facts |= {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS}
        if calls:
            facts |= {Fact.API_CALLS, Fact.THREADS}
            if (gpu_rows and self._pid is not None) or not (gpu_rows or work_is_missing):
                facts.add(Fact.API_LINKS)
        if self._clock.zero_utc_ns is not None:
            facts.add(Fact.UTC)
        return frozenset(facts)

    def _has_rows(self, sources: Iterable[str]) -> bool:
        return any(source in self._survey.times for source in sources)


# -- rows of small tables

# Numbers of CUdevice_attribute (cuda.h) -> our column of `device`, and in what unit they are.
_ATTRIBUTES = {
    36: ("memory_clock_hz", 1000),
    39: ("max_threads_per_sm", 1),
    81: ("max_shared_bytes_per_sm", 1),
    82: ("max_registers_per_sm", 1),
}
_OF_CUDA = 1
_UUID_BYTES = 16
# Launchers' options put this in the place of the process name: `--process-name "MPI Rank %q{…}"`.
_RANK = re.compile(r"(?:MPI )?Rank (\d{1,9})", re.I)


def _device_rows(probe: Probe, ids: Identities) -> list[Row]:
    # The rows are the devices that ran GPU operations, by the process's own numbers.
    own = {"ordinal": "id", "name": "name", **sqlite_mapping.CUPTI_RATES}
    columns = {**sqlite_mapping.CUPTI_DEVICE_COLUMNS, **own}
    attributes = _attributes(probe)
    uuids = _uuids(probe)
    rows = first_rows(integer_rows(probe, tables.DEVICE, columns), "ordinal")
    described = {row["ordinal"]: row for row in rows}
    device_names = texts(probe, (row["name"] for row in described.values() if row["name"]))
    rows = []
    for ordinal in sorted(ids.ordinals):
        row = described.get(ordinal, {})
        known = {name: row.get(name) for name in sqlite_mapping.CUPTI_DEVICE_COLUMNS}
        more = attributes.get(ordinal, {}) | sqlite_mapping.in_base_units(row)
        rows.append(
            {
                **known,
                **{name: value for name, value in more.items() if known.get(name) is None},
                "device_id": ordinal,
                "ordinal": ordinal,
                "name": device_names.get(row.get("name", 0)),
                "uuid": uuids.get(ordinal),
            }
        )
    return rows


def _attributes(probe: Probe) -> dict[int, Row]:
    # What the program asked of its devices, by the device. Both numbers are little-endian.
    found: dict[int, Row] = {}
    table = tables.DEVICE_ATTRIBUTE
    if not has_columns(probe, table, "flags", "deviceId", "attribute", "value"):
        return found
    select = f"SELECT deviceId, attribute, value FROM {table} WHERE flags = {_OF_CUDA}"
    for device, attribute, value in probe.select(select):
        if not isinstance(attribute, bytes) or not isinstance(value, bytes):
            continue
        number = int.from_bytes(value[:4], "little")
        name, unit = _ATTRIBUTES.get(int.from_bytes(attribute, "little"), ("", 0))
        if name and 0 < number < 1 << 31:
            found.setdefault(device, {})[name] = number * unit
    return found


def _uuids(probe: Probe) -> dict[int, str]:
    if not has_columns(probe, tables.DEVICE, "id", "uuid"):
        return {}
    return {
        ordinal: str(UUID(bytes=uuid))
        for ordinal, uuid in probe.select(f"SELECT id, uuid FROM {tables.DEVICE}")
        if isinstance(ordinal, int)
        and isinstance(uuid, bytes)
        and len(uuid) == _UUID_BYTES
        and any(uuid)
    }


def _named_objects(probe: Probe, kind: int, count: int) -> dict[tuple[int, ...], int]:
    # The result maps the first `count` numbers of objects of a kind to the id of the name that each was
    # given.
    if not has_columns(probe, tables.OBJECT_NAME, "objectKind", "objectId", "name"):
        return {}
    sql = f"SELECT objectId, name FROM {tables.OBJECT_NAME} WHERE objectKind = {kind}"
    named = {}
    for blob, name_id in probe.select(sql):
        numbers = tables.object_numbers(blob, count) if isinstance(blob, bytes) else None
        if numbers is not None and isinstance(name_id, int) and name_id:
            named[numbers] = name_id
    return named


def _ranks(probe: Probe, pids: set[int]) -> dict[int, int]:
    # The result maps a pid to its rank, if the name of the process is its rank. Other names are not
    # interpreted.
    named = _named_objects(probe, tables.PROCESS_OBJECT, 1)
    process_names = texts(probe, named.values())
    return {
        pid: int(match.group(1))
        for (pid,), name_id in named.items()
        if pid in pids and (match := _RANK.fullmatch(process_names.get(name_id, "")))
    }


def _thread_rows(probe: Probe, ids: Identities) -> list[Row]:
    named = _named_objects(probe, tables.THREAD_OBJECT, 2)
    thread_names = texts(probe, (named[thread] for thread in ids.threads if thread in named))
    return [
        {"pid": pid, "tid": tid, "name": thread_names.get(named.get((pid, tid), 0))}
        for pid, tid in sorted(ids.threads)
    ]


def _context_rows(probe: Probe, pid: int | None, ordinals: set[int]) -> list[Row]:
    # The rows are the contexts of the file's only process, each with its device.
    columns = {"context_id": "contextId", "ordinal": "deviceId", "null_stream_id": "nullStreamId"}
    rows = []
    for row in integer_rows(probe, tables.CONTEXT, columns):
        ordinal = row.pop("ordinal")
        row["device_id"] = ordinal if ordinal in ordinals else None
        rows.append({"pid": pid, **row})
    return first_rows(rows, "pid", "context_id")


def _stream_rows(probe: Probe, pid: int | None) -> list[Row]:
    # Streams of the file's only process.
    columns = {"context_id": "contextId", "stream_id": "streamId", "priority": "priority"}
    objects = _named_objects(probe, tables.STREAM_OBJECT, 3)
    named = {numbers[1:]: name_id for numbers, name_id in objects.items()}
    stream_names = texts(probe, named.values())
    rows = []
    for row in integer_rows(probe, tables.STREAM, columns):
        name_id = named.get((row["context_id"], row["stream_id"]), 0)
        rows.append({"pid": pid, **row, "name": stream_names.get(name_id)})
    return first_rows(rows, "pid", "context_id", "stream_id")


def _domain_rows(probe: Probe, ids: Identities) -> list[Row]:
    # A domain's number is the id of its name.
    domain_names = texts(probe, (domain for _, domain in ids.domains))
    return [
        {"pid": pid, "domain_id": domain, "name": domain_names[domain]}
        for pid, domain in sorted(ids.domains)
        if domain in domain_names
    ]


# -- notes on what the rows turn out to be

_KERNELS = frozenset({Fact.KERNELS})
_RANGES = frozenset({Fact.RANGES})
_READ = {
    *(*tables.EVENT_SOURCES, tables.MARKER_DATA, *counters.SOURCES),
    *(
        event_records.EVENTS,
        tables.DEVICE,
        tables.DEVICE_ATTRIBUTE,
        tables.CONTEXT,
        tables.STREAM,
        tables.OBJECT_NAME,
    ),
    "Version",
}
# The codes that tables.py knows, by column; memory kinds are numbered from 1.
_KNOWN = {
    "copyKind": range(tables.PTOP + 1),
    "srcKind": range(tables.LAST_MEMORY_KIND + 1),
    "dstKind": range(tables.LAST_MEMORY_KIND + 1),
    "memoryKind": range(tables.LAST_MEMORY_KIND + 1),
    "overheadKind": names.OVERHEADS,
}


def _row_notes(probe: Probe, survey: DatabaseSurvey, pid: int | None) -> Iterator[Note]:
    ids = survey.ids
    if pid is None:
        yield from _process_notes(survey)
    yield from _call_notes(probe, ids)
    yield from _code_notes(probe, ids)
    yield from directives.construct_notes(probe, directives.SOURCES, ids.constructs, ids.overfull)
    yield from _impossible_name_notes(probe, ids)
    yield from unread_tables_note(probe, _READ)
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
        text = f"{source} has process number 0; the process is unknown"
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
            text = f"{source}: unknown functions {numbers}; shown by number"
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
        text = f"unknown {column} {numbers}; shown as Unknown"
        facts = frozenset({tables.FACTS[table]})
        yield Note("unknown-code", Severity.APPROXIMATED, text, count, first, facts)


def _impossible_name_notes(probe: Probe, ids: Identities) -> Iterator[Note]:
    for table, column in sorted(ids.impossible_names):
        highest = names.MAX_CALL if column == "cbid" else names.MAX_TEXT_ID
        wrong = f"typeof({column}) = 'integer' AND {column} NOT BETWEEN 0 AND {highest}"
        count, first = count_rows(probe, table, wrong)
        text = f"{column} of {table} is not a name id; these rows have no name"
        yield Note("nameless-id", Severity.APPROXIMATED, text, count, first)


def _serial_kernels_note(probe: Probe, survey: DatabaseSurvey) -> Note:
    measured = any(table in probe.tables and has_rows(probe, table) for table in counters.SOURCES)
    text = "kernels were serialized because the profiler was asked to"
    if measured or not survey.times.keys() & {*tables.LAYERS, tables.CONCURRENT_KERNEL}:
        text = (
            "kernels were serialized, perhaps run several times each, while the profiler "
            "measured events or metrics: they took longer than they do alone"
        )
    source = tables.SERIAL_KERNEL
    count = survey.times[source].count
    return Note("kernels-serialized", Severity.APPROXIMATED, text, count, source, _KERNELS)


def _marker_notes(probe: Probe) -> Iterator[Note]:
    table = tables.MARKER
    text = "whether a range was pushed or started was inferred from the threads that began and ended it"
    yield Note("range-style-assumed", Severity.INFO, text, where=table, facts=_RANGES)
    # Flags that are not numbers are none of these either.
    neither = f"NOT coalesce({tables.EVENTS[table]}, 0)"
    count, first = count_rows(probe, table, neither)
    if count:
        text = "markers that are neither a range nor a mark were left out"
        yield Note("unknown-code", Severity.DROPPED, text, count, first, _RANGES)
    yield from _pair_notes(probe)


# Each entry has a slug, a severity and a text, then a condition on the beginnings and ends of one
# number, and the number of rows that it counts.
_ODD_PAIRS = (
    ("range-unclosed", Severity.INFO, "ranges that were never closed", "NOT ended", "begun"),
    ("range-unopened", Severity.DROPPED, "range ends whose start was not recorded",
     "NOT begun", "ended"),
    ("range-number-shared", Severity.APPROXIMATED,
     "ranges that share a number; each ends with the first end of that number",
     "max(begun, ended) > 1", "max(begun, ended)"),
    ("negative-duration", Severity.APPROXIMATED,
     "ranges that end before they begin: their end is not recorded",
     "end_ns < begin_ns", "begun"),
    ("impossible-time", Severity.APPROXIMATED,
     "ranges that end more than 104 days after they begin: their end is not recorded",
     f"end_ns - begin_ns > {TIME_LIMIT} AND begin_ns <> 0", "begun"),
)  # fmt: skip


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


def _name_notes(demangles: bool, symbols: int, nameless: int) -> Iterator[Note]:
    if symbols and not demangles:
        text = (
            "kernels are shown by their symbols; install nsysconv[demangle] and import again with "
            "--replace to see their names"
        )
        yield Note("symbols-only", Severity.INFO, text, symbols, "StringTable", _KERNELS)
    if nameless:
        text = "names that the file refers to but lacks"
        yield Note("nameless-id", Severity.INFO, text, nameless, "StringTable")


def _repeated_peer_notes(probe: Probe) -> list[Note]:
    # Peer copies that are in the tables of all copies and of peer copies.
    shared = ("correlationId", "start", "end")
    copies, peers = tables.MEMCPY, tables.PEER_COPY
    if not (has_columns(probe, copies, "copyKind", *shared) and has_columns(probe, peers, *shared)):
        return []
    columns = ", ".join(shared)
    repeated = f"copyKind = {tables.PTOP} AND ({columns}) IN (SELECT {columns} FROM {peers})"
    count, first = count_rows(probe, copies, repeated)
    text = "peer copies are in two tables and are counted once"
    facts = frozenset({Fact.MEMCPYS})
    note = Note("peer-copy-repeated", Severity.INFO, text, count, first, facts)
    return [note] if count else []
