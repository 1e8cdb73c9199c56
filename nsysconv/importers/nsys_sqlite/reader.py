"""Reads one export as one recording: batches of rows in a fitting order, then its summary."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from nsysconv import schema
from nsysconv.facts import Fact
from nsysconv.importers import directives, event_records, sqlite_mapping
from nsysconv.importers.contract import NO_GPU_WORK, Options
from nsysconv.importers.nsys_sqlite import (
    call_chains,
    capture,
    cpus,
    export_context,
    nccl,
    small_tables,
    tables,
)
from nsysconv.importers.nsys_sqlite.survey import ExportSurvey, Identities, is_balanced
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import (
    count_rows,
    has_columns,
    has_rows,
    in_lists,
    only,
    row_count,
    row_range,
    texts_by_id,
)
from nsysconv.importers.unread_tables import unread_tables_note
from nsysconv.notes import Note, Severity
from nsysconv.store.recording import (
    ArrowRows,
    Batches,
    Recording,
    SourceRows,
    Summary,
    rows_of,
    shared_constants,
)


class ExportReader:
    """Reads one export. The survey of its tables starts with the object and ends with the batches."""

    def __init__(
        self, probe: Probe, possible: frozenset[Fact], advice: Mapping[Fact, str], options: Options
    ) -> None:
        """Start the survey; `possible` and `advice` are those of the importer."""
        self._probe = probe
        self._possible = possible
        present = [source for source in tables.EVENT_SOURCES if source in probe.tables]
        left_out = {s: f for s, f in tables.ON_REQUEST.items() if f not in options.include}
        self._wanted = frozenset(tables.EVENT_SOURCES) - left_out.keys()
        self._sources = tuple(source for source in present if source in self._wanted)
        self._advice = dict(advice) | {
            fact: f"Import again with `--include {fact}`."
            for source, fact in left_out.items()
            if source in present and self._has_events(source)
        }
        self._capture = capture.read_capture(probe)
        self._clock = capture.read_clock(probe, present, self._capture)
        self._notes: list[Note] = list(probe.notes)
        self._unread: set[Fact] = set()
        self._checked: list[export_context.ExportMapping] = []  # their rows were guarded
        self._gpus = small_tables.read_gpus(probe)
        self._survey = ExportSurvey(probe, self._sources)
        self._unclosed = probe.submit(_unclosed_range_notes, probe)

    def recording(self) -> Recording:
        """Return the recording; its rows are read while `batches` is used up."""
        self._notes += unread_tables_note(self._probe, _READ)
        self._notes += capture.diagnostic_notes(self._probe)
        self._notes += capture.option_notes(self._capture)
        self._notes += self._clock.notes
        for name in self._probe.view_names:
            if name in self._wanted:
                self._leave_unread(name, "is a view or virtual table and was ignored")
        return Recording(self._batches(), self._probe.readable, self._possible)

    def _batches(self) -> Batches:
        # API calls come first, then GPU operations and the rest. The small tables come when all scans
        # are done.
        copied: list[export_context.ExportMapping] = []
        try:
            for mapping in tables.MAPPINGS:
                if mapping.source in self._sources:
                    rows = self._event_rows(mapping)
                    if rows is not None:
                        copied.append(mapping)
                        yield rows
            if self._collectives.rows:
                yield self._collective_rows()
            has_ranks = yield from self._object_batches()
            work_is_missing = yield from self._name_batches()
            return Summary(
                attributes=replace(
                    self._capture.attributes,
                    zero_utc_ns=self._clock.zero_utc_ns,
                    recording_ns=self._clock.recording_ns,
                ),
                facts=self._facts(has_ranks=has_ranks, work_is_missing=work_is_missing),
                advice=self._advice,
                notes=tuple(self._notes),
                gpu_pids=frozenset(self._ids.gpu_pids),
                constants=shared_constants((m.target, self._constants(m)) for m in copied),
                suspects=frozenset(
                    m.target
                    for m in copied
                    if m not in self._checked and self._survey.is_suspect(m.source)
                ),
            )
        finally:
            self._survey.close()
            self._unclosed.cancel()

    # -- rows of events

    def _event_rows(self, mapping: export_context.ExportMapping) -> SourceRows | None:
        if reason := sqlite_mapping.unreadable_reason(self._probe, mapping):
            self._leave_unread(mapping.source, reason)
            return None
        first, last = row_range(self._probe, self._probe.tables[mapping.source])
        if first is None or last is None:
            return None
        context = self._context(mapping)
        rows = sqlite_mapping.source_rows(
            self._probe,
            mapping,
            context,
            tables.CHECKS,
            (first, last),
            sparse=self._survey.is_sparse(mapping.source),
        )
        # Arithmetic on ids that are not numbers, or looking them up, would go unnoticed: such tables are
        # guarded before their rows are copied; those of OpenACC also if no row has a name to look up.
        looks_up = mapping.source in tables.OPENACC or mapping.is_joined(
            self._probe.tables[mapping.source], context
        )
        if ("deviceId" in mapping.needs or looks_up) and self._survey.is_suspect(mapping.source):
            rows, notes = rows.guarded()
            self._notes += notes
            self._checked.append(mapping)
        return rows

    def _collective_rows(self) -> ArrowRows:
        self._notes += self._collectives.notes
        ids = self._collective_name_ids
        rows = [
            {"name_id": ids.get(row.get("name", "")), "group_id": ids.get(row.get("group", ""))}
            | row
            for row in self._collectives.rows
        ]
        return rows_of(schema.collective, rows)

    def _leave_unread(self, source: str, reason: str) -> None:
        facts = tables.facts_of(source)
        self._unread |= facts
        note = sqlite_mapping.unread_note(source, reason, facts)
        if note not in self._notes:
            self._notes.append(note)

    def _context(self, mapping: export_context.ExportMapping) -> export_context.ExportContext:
        source, names_device = mapping.source, "deviceId" in mapping.needs
        devices = None
        if names_device:
            ids = self._survey.devices_of(tables.GPU_TABLES)
            devices = small_tables.find_devices(self._gpus, ids)
        return export_context.ExportContext(
            zero=self._clock.zero,
            device=devices.expression() if devices else lambda pid, ordinal: ordinal,
            only_pid=self._only_pid(mapping) if names_device else None,
            driver_names=self._driver_names() if source == tables.RUNTIME else None,
            construct_ids=self._construct_ids if source in tables.OPENACC else {},
            metrics=self._metrics[0] if source == tables.METRICS else (),
            nameless=source == tables.KERNEL and bool(self._nameless_kernels),
            own_pids=self._own_pids(source) if source in cpus.TABLES else None,
            frames=cpus.frames(self._probe) if source == cpus.SAMPLES else cpus.Frames.NONE,
            callers=self._callers if source == tables.RUNTIME else None,
            records=event_records.find_records(self._probe, "eventId", "globalPid")
            if source == tables.SYNCS and event_records.EVENTS in self._probe.tables
            else None,
            balanced=source == tables.MEMORY_USAGE and is_balanced(self._probe),
        )

    def _only_pid(self, mapping: export_context.ExportMapping) -> int | None:
        source = mapping.source
        if "globalPid" in self._probe.tables[source].columns:
            # A constant is cheaper to store than arithmetic on every row.
            ids = self._survey.devices_of([source])
            is_sound = source not in ids.suspects
            return only(ids.pids) if is_sound else None
        assumed = only(self._ids.pids)
        # Copies and migrations are two mappings of one table.
        if not any(n.slug == "process-assumed" and n.where == source for n in self._notes):
            text = f"{source} does not name processes; " + (
                "their process is not known"
                if assumed is None
                else f"process {assumed} was assumed"
            )
            self._note_assumption("process-assumed", text, source, mapping.fact)
        return assumed

    def _own_pids(self, source: str) -> frozenset[int] | None:
        # A table of CPUs is read for the processes that other tables name, because a whole machine may
        # have been recorded.
        others = self._survey.devices_of(set(self._sources) - set(cpus.TABLES)).pids
        here = self._survey.of_table(source)
        return None if here.pids <= others and not here.anonymous else frozenset(others)

    def _driver_names(self) -> tuple[int, ...] | None:
        if "eventClass" in self._probe.tables[tables.RUNTIME].columns:
            return None
        text = "runtime and driver calls were distinguished by name"
        self._note_assumption("call-layer-assumed", text, tables.RUNTIME, Fact.API_CALLS)
        ids = self._probe.select("SELECT id FROM StringIds WHERE value GLOB 'cu[A-Z]*'")
        return tuple(row[0] for row in ids)

    def _note_assumption(self, slug: str, text: str, source: str, fact: Fact) -> None:
        count = row_count(self._probe, source)
        facts = frozenset({fact})
        self._notes.append(Note(slug, Severity.APPROXIMATED, text, count, source, facts))

    def _constants(self, mapping: export_context.ExportMapping) -> dict[str, int]:
        # The result has the process and the device of a table if all of its rows have the same.
        ids = self._survey.of_table(mapping.source)
        if mapping.source in ids.suspects or ids.anonymous:
            return {}
        pid, pair = only(ids.pids), only(ids.op_ordinals)
        constants = {} if pid is None else {"pid": pid}
        if pair is not None and ids.op_ordinals == ids.ordinals:
            constants["device_id"] = self._devices.numbers[pair]
        return constants

    # -- what all scans together give

    @cached_property
    def _ids(self) -> Identities:
        ids, (functions, libraries) = self._survey.all_tables(), self._frame_names
        ids.name_ids |= functions | libraries | (self._callers.names if self._callers else set())
        ids.path_ids |= libraries
        return ids

    @cached_property
    def _frame_names(self) -> tuple[set[int], set[int]]:
        if cpus.SAMPLES not in self._sources:
            return set(), set()
        return cpus.frame_names(self._probe, self._survey.all_tables().pids)

    @cached_property
    def _callers(self) -> call_chains.Callers | None:
        if call_chains.CHAINS not in self._probe.tables or tables.RUNTIME not in self._sources:
            return None
        return call_chains.find_callers(self._probe, tables.RUNTIME, tables.STRINGS[0])

    @cached_property
    def _devices(self) -> small_tables.Devices:
        return small_tables.find_devices(self._gpus, self._ids)

    @cached_property
    def _first_made_id(self) -> int:
        return small_tables.first_made_id(self._probe)

    def _made_ids(self, kind: int) -> Callable[[int], int]:
        # Names that are made here get ids by their place. Those of constructs, metrics and collectives
        # alternate.
        first = self._first_made_id - kind
        return lambda place: first - 3 * place

    @cached_property
    def _collective_name_ids(self) -> dict[str, int]:
        made_id = self._made_ids(2)
        return {text: made_id(place) for place, text in enumerate(self._collectives.texts)}

    @cached_property
    def _construct_ids(self) -> directives.ConstructIds:
        return directives.assign_ids(self._ids.constructs, self._made_ids(0))

    @cached_property
    def _metric_names(self) -> dict[tuple[int, int], str]:
        return small_tables.metric_names(self._probe, self._ids.metrics)

    @cached_property
    def _metrics(self) -> tuple[tuple[export_context.Metric, ...], list[dict[str, Any]]]:
        return small_tables.describe_metrics(
            self._ids.metrics, self._metric_names, self._devices.sampled, self._made_ids(1)
        )

    @cached_property
    def _collectives(self) -> nccl.Collectives:
        if tables.NVTX not in self._sources or tables.PAYLOAD_SCHEMAS not in self._probe.tables:
            return nccl.NOTHING
        domains = small_tables.domain_rows(self._probe, self._ids)
        zero = self._clock.zero
        return nccl.read_collectives(self._probe, domains, self._devices.numbers, zero)

    @cached_property
    def _nameless_kernels(self) -> set[int | None]:
        # The result has the ids of kernels' names without a text, and None if a kernel has no full
        # name.
        ids = self._survey.of_table(tables.KERNEL)
        texts = texts_by_id(self._probe, *tables.STRINGS, ids.name_ids)
        return (ids.name_ids - texts.keys()) | ({None} & ids.full_name_ids)

    # -- small tables

    def _object_batches(self) -> Generator[ArrowRows, None, bool]:
        # The small tables but names; returns whether ranks of processes are known.
        probe, ids, devices = self._probe, self._ids, self._devices
        self._notes += _row_notes(probe, ids, devices.unnamed, self._unclosed.result())
        ranks, clashes = capture.ranks_by_process(probe, self._capture, ids.pids, ids.gpu_pids)
        self._notes += clashes
        processes = small_tables.process_rows(probe, ids, ranks, self._capture)
        yield rows_of(schema.device, devices.rows)
        yield rows_of(schema.process, processes)
        yield rows_of(schema.thread, small_tables.thread_rows(probe, ids))
        yield rows_of(schema.context, small_tables.context_rows(probe, ids, devices))
        yield rows_of(schema.stream, small_tables.stream_rows(probe, ids))
        yield rows_of(schema.domain, small_tables.domain_rows(probe, ids))
        yield rows_of(schema.category, small_tables.category_rows(probe, ids))
        return bool(ranks)

    def _name_batches(self) -> Generator[ArrowRows, None, bool]:
        # Returns whether calls show that there was GPU work, and none was recorded.
        yield from self._made_name_batches()
        missing, doubled = set[int](), list[int]()
        api_names: dict[int, str] = {}
        for rows in in_lists(small_tables.name_rows(self._probe, self._ids, missing, doubled)):
            api_names.update((row["id"], row["plain"]) for row in rows if row["plain"])
            yield rows_of(schema.name, rows)
        self._note_names(missing, doubled)
        if self._has_rows(tables.GPU_WORK):
            return False
        note = sqlite_mapping.unrecorded_gpu_work(self._probe, tables.RUNTIME, "nameId", api_names)
        self._notes.append(note or NO_GPU_WORK)
        return note is not None

    def _made_name_batches(self) -> Generator[ArrowRows]:
        # Names that the file does not hold as they are.
        if self._collectives.rows:
            names = self._collective_name_ids.items()
            rows = [{"id": name_id, "text": text, "plain": None} for text, name_id in names]
            yield rows_of(schema.name, rows)
        if self._ids.constructs:
            text_ids = directives.text_ids(self._construct_ids)
            texts = texts_by_id(self._probe, *tables.STRINGS, text_ids)
            yield rows_of(schema.name, directives.name_rows(self._construct_ids, texts))
            self._notes += _name_notes(len(text_ids - texts.keys()), ())
        if self._ids.metrics:
            yield rows_of(schema.name, self._metrics[1])
            if nameless := len(self._ids.metrics) - len(self._metric_names):
                text = "sampled metrics without a name in the file"
                facts, where = frozenset({Fact.METRICS}), small_tables.METRIC_NAMES
                note = Note("nameless-id", Severity.INFO, text, nameless, where, facts)
                self._notes.append(note)

    def _note_names(self, missing: set[int], doubled: Sequence[int]) -> None:
        # Names that only such rows refer to get notes of their own, so that the other notes do not depend
        # on whether these rows were read.
        ids = {source: self._survey.of_table(source).name_ids for source in self._sources}
        if cpus.SAMPLES in ids:
            ids[cpus.SAMPLES] = set[int]().union(*self._frame_names)
        if self._callers:
            ids[tables.RUNTIME] = ids[tables.RUNTIME] | self._callers.names
        lacking = self._survey.of_table(tables.KERNEL).full_name_ids & self._nameless_kernels
        if lacking:
            others = set[int]().union(
                *(own for source, own in ids.items() if source != tables.KERNEL)
            )
            replaced = lacking - small_tables.missing_full_names(self._probe)
            missing = missing - (replaced - others)
            if replaced:
                text = "full kernel names that the file lacks; shown by another name that it has"
                facts, where = frozenset({Fact.KERNELS}), tables.KERNEL
                self._notes.append(
                    Note("nameless-id", Severity.INFO, text, len(replaced), where, facts)
                )
        apart = ids.keys() & tables.NAMED_APART.keys()
        always = set[int]().union(*(ids[source] for source in ids.keys() - apart))
        if always and always <= missing:
            text = "no name has a text because the name table is missing or empty: export it again"
            self._notes.append(
                Note("nameless-id", Severity.DROPPED, text, len(always), "StringIds")
            )
            missing = missing - always
        self._notes += _name_notes(len(missing & always), [i for i in doubled if i in always])
        for source in apart:
            own = ids[source] - always
            facts = frozenset({tables.NAMED_APART[source]})
            doubled_own = [i for i in doubled if i in own]
            self._notes += _name_notes(len(missing & own), doubled_own, facts)

    # -- facts

    def _facts(self, *, has_ranks: bool, work_is_missing: bool) -> frozenset[Fact]:
        facts = {
            mapping.fact
            for mapping in tables.MAPPINGS
            if mapping.source in self._sources and self._has_events(mapping.source)
        }
        gpu_rows = self._has_rows(tables.GPU_WORK)
        if gpu_rows or (self._capture.cuda_traced and not work_is_missing):
            # One switch records them all: if there are no rows of one kind, there were none.
            facts |= {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY}
        if self._capture.cuda_traced or self._has_rows([tables.RUNTIME]):
            facts |= {Fact.API_CALLS, Fact.THREADS}
            if gpu_rows or not work_is_missing:
                facts.add(Fact.API_LINKS)
        if self._collectives.rows:
            facts.add(Fact.COLLECTIVES)
        if has_ranks:
            facts.add(Fact.RANKS)
        if self._clock.zero_utc_ns is not None:
            facts.add(Fact.UTC)
        if self._devices.rows and not self._devices.unnamed:
            facts.add(Fact.DEVICES)
        return frozenset(facts - self._unread)

    def _has_rows(self, sources: Iterable[str]) -> bool:
        return any(source in self._sources and has_rows(self._probe, source) for source in sources)

    def _has_events(self, source: str) -> bool:
        # Other rows frame the tracing.
        classes = tables.CLASSES.get(source)
        if classes and "eventClass" in self._probe.tables[source].columns:
            numbers = ", ".join(map(str, sorted(classes)))
            return has_rows(self._probe, source, f"eventClass IN ({numbers})")
        return has_rows(self._probe, source)


# -- notes on what the rows turn out to be

_READ = {
    *tables.EVENT_SOURCES,
    *(
        event_records.EVENTS,
        call_chains.CHAINS,
        cpus.CHAINS,
        tables.PAYLOAD_SCHEMAS,
        tables.PAYLOAD_ENTRIES,
    ),
    *(capture.READ | capture.PRIVATE | capture.ENUMERATIONS),
}

_MEMORY_KINDS = range(tables.LAST_MEMORY_KIND + 1)
_USAGE, _UNKNOWN = tables.MEMORY_USAGE, "shown as Unknown"
_ACCESSES = range(tables.LAST_ACCESS + 1)
# Each entry has a source table, a fact, a column, the codes that mappings know, and the code that
# replaces others.
_KNOWN_CODES = (
    (tables.MEMCPY, Fact.MEMCPYS, "copyKind", range(14), _UNKNOWN),
    (tables.MEMCPY, Fact.MEMCPYS, "srcKind", _MEMORY_KINDS, _UNKNOWN),
    (tables.MEMCPY, Fact.MEMCPYS, "dstKind", _MEMORY_KINDS, _UNKNOWN),
    (tables.MEMSET, Fact.MEMSETS, "memKind", _MEMORY_KINDS, _UNKNOWN),
    (_USAGE, Fact.MEMORY_EVENTS, "memKind", _MEMORY_KINDS, _UNKNOWN),
    (_USAGE, Fact.MEMORY_EVENTS, "memoryOperationType", tables.MEMORY_OPERATIONS, "without a size"),
    (tables.GPU_FAULTS, Fact.PAGE_FAULTS, "faultAccessType", _ACCESSES, _UNKNOWN),
)
_MAX_LISTED = 20


def _row_notes(
    probe: Probe, ids: Identities, unnamed_devices: int, unclosed: Sequence[Note]
) -> Iterator[Note]:
    yield from _class_notes(probe, ids)
    yield from _unclassified_notes(probe, ids)
    yield from _range_kind_notes(probe, ids)
    yield from _code_notes(probe, ids)
    if ids.constructs:
        yield from directives.construct_notes(probe, tables.OPENACC, ids.constructs, ids.overfull)
    yield from unclosed
    if unnamed_devices:
        text = "the profile does not say which GPU a device number means"
        facts = frozenset({Fact.DEVICES})
        yield Note("device-unnamed", Severity.INFO, text, unnamed_devices, facts=facts)
    if len(ids.virtual_machines) > 1:
        text = "processes of several machines in one profile"
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
    # The condition lists the known numbers, because there may be very many unknown ones.
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
            text = f"{source}: rows whose {column} is not a whole number were left out"
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


def _unclosed_range_notes(probe: Probe) -> list[Note]:
    # Reads all ranges.
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
            text = f"unknown {column} {_listed(unknown)}; {fate}"
            facts = frozenset({fact})
            yield Note("unknown-code", Severity.APPROXIMATED, text, count, first, facts)


def _name_notes(
    nameless: int, doubled: Sequence[int], facts: frozenset[Fact] = frozenset()
) -> Iterator[Note]:
    if nameless:
        text = "names that the file refers to but lacks"
        yield Note("nameless-id", Severity.INFO, text, nameless, "StringIds", facts)
    if doubled:
        text = "name ids with two texts; the first was kept"
        where = f"StringIds id {doubled[0]}"
        yield Note("duplicate-name", Severity.APPROXIMATED, text, len(set(doubled)), where, facts)
