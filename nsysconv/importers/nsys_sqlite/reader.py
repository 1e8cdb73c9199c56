"""Turns one export into one recording: attributes, facts, notes, and batches in a fitting order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from nsysconv import schema
from nsysconv.facts import Fact
from nsysconv.importers.nsys_sqlite import capture as capture_facts
from nsysconv.importers.nsys_sqlite import devices as device_facts
from nsysconv.importers.nsys_sqlite import small_tables, tables
from nsysconv.importers.nsys_sqlite.guards import guarded
from nsysconv.importers.nsys_sqlite.survey import Found, Survey
from nsysconv.importers.probe import Probe
from nsysconv.notes import Note, Severity
from nsysconv.store.recording import ArrowRows, Batch, Recording, SourceRows, rows_of

_GPU_SOURCES = (tables.KERNEL, tables.MEMCPY, tables.MEMSET, tables.GRAPH_TRACE)
# Calls that put work on a GPU: if there are such calls and no GPU rows, the work was not recorded.
_WORK = (
    "cudaLaunch",
    "cuLaunch",
    "cudaMemcpy",
    "cuMemcpy",
    "cudaMemset",
    "cuMemset",
    "cudaGraphLaunch",
    "cuGraphLaunch",
)
_NANOSECONDS = 1_000_000_000


class Reader:
    """Reads one export. The survey of its tables starts with the object and ends with the batches."""

    def __init__(self, probe: Probe, advice: Mapping[Fact, str]) -> None:
        self._probe = probe
        self._advice = advice
        self._sources = tuple(s for s in tables.EVENT_SOURCES if s in probe.tables)
        self._capture = capture_facts.read_capture(probe)
        self._notes: list[Note] = list(probe.notes)
        self._zero, self._zero_utc_ns = self._find_zero()
        self._survey = Survey(probe, self._sources)

    def recording(self) -> Recording:
        """The recording; its facts, notes and rows are complete once `batches` is used up."""
        self._notes += capture_facts.diagnostics(self._probe)
        self._note_views()
        attributes = replace(
            self._capture.attributes,
            zero_utc_ns=self._zero_utc_ns,
            recording_ns=self._recording_ns(),
        )
        return Recording(
            attributes=attributes,
            facts=self._facts,
            advice=self._advice,
            notes=self._notes,
            batches=self._batches(),
            sqlite_source=self._probe.readable,
        )

    # -- rows

    def _batches(self) -> Iterator[Batch]:
        """API calls, GPU operations and the rest; then the small tables, once all scans are done."""
        try:
            for mapping in tables.MAPPINGS:
                if mapping.source in self._sources:
                    rows = self._source_rows(mapping)
                    if rows is not None:
                        yield rows
            yield from self._small_batches()
        finally:
            self._survey.close()

    def _source_rows(self, mapping: tables.Mapping) -> SourceRows | None:
        source = self._probe.tables[mapping.source]
        columns = tables.Columns(mapping.source, source.columns)
        missing = mapping.needs - columns.names
        if missing or not source.has_rowid:
            what = f"has no column {', '.join(sorted(missing))}" if missing else "has no row ids"
            self._notes.append(
                Note(
                    "not-a-table",
                    Severity.DROPPED,
                    f"{mapping.source} {what}",
                    where=mapping.source,
                    facts=self._fact_of(mapping),
                )
            )
            return None
        # One subselect each: asked for both at once, SQLite reads the whole table.
        first, last = self._probe.select(
            f"SELECT (SELECT min(rowid) FROM {mapping.source}), "
            f"(SELECT max(rowid) FROM {mapping.source})"
        )[0]
        if first is None:
            return None
        context = self._context(mapping)

        def careful() -> tuple[SourceRows, list[Note]]:
            return guarded(self._probe, mapping, columns, context, rows)

        rows = SourceRows(
            mapping.ours,
            tables.select(mapping, columns, context),
            columns.row_id,
            first,
            last,
            careful,
        )
        return rows

    def _context(self, mapping: tables.Mapping) -> tables.Context:
        names_device = "deviceId" in mapping.needs
        found = self._survey.devices_of(self._survey.gpu_sources) if names_device else Found()
        devices = self._devices(found) if names_device else None
        return tables.Context(
            zero=self._zero,
            device=devices.expression() if devices else lambda pid, ordinal: ordinal,
            only_pid=self._only_pid(mapping) if names_device else None,
            driver_names=self._driver_names(mapping),
        )

    def _devices(self, found: Found) -> device_facts.Devices:
        return device_facts.find(self._probe, found.ordinals, found.op_ordinals)

    def _only_pid(self, mapping: tables.Mapping) -> int | None:
        if "globalPid" in self._probe.tables[mapping.source].columns:
            # A constant is cheaper to store than arithmetic on every row.
            own = self._survey.devices_of([mapping.source]).pids
            return next(iter(own)) if len(own) == 1 else None
        pids = self._survey.everything().pids
        only = next(iter(pids)) if len(pids) == 1 else None
        count = self._probe.select(f"SELECT count(*) FROM {mapping.source}")[0][0]
        text = f"{mapping.source} does not name processes; " + (
            f"process {only} was assumed" if only is not None else "their process is not known"
        )
        self._notes.append(
            Note(
                "process-assumed",
                Severity.APPROXIMATED,
                text,
                count,
                mapping.source,
                self._fact_of(mapping),
            )
        )
        return only

    def _driver_names(self, mapping: tables.Mapping) -> tuple[int, ...] | None:
        if mapping.source != tables.RUNTIME:
            return None
        if "eventClass" in self._probe.tables[tables.RUNTIME].columns:
            return None
        count = self._probe.select(f"SELECT count(*) FROM {tables.RUNTIME}")[0][0]
        self._notes.append(
            Note(
                "call-layer-assumed",
                Severity.APPROXIMATED,
                "runtime and driver calls were told apart by name",
                count,
                tables.RUNTIME,
                frozenset({Fact.API_CALLS}),
            )
        )
        ids = self._probe.select("SELECT id FROM StringIds WHERE value GLOB 'cu[A-Z]*'")
        return tuple(row[0] for row in ids)

    def _small_batches(self) -> Iterator[ArrowRows]:
        found = self._survey.everything()
        devices = self._devices(found)
        self._note_found(found, devices)
        ranks = self._ranks(found)
        yield rows_of(schema.device, devices.rows)
        yield rows_of(
            schema.process, small_tables.processes(self._probe, found, ranks, self._capture)
        )
        yield rows_of(schema.thread, small_tables.threads(self._probe, found))
        yield rows_of(schema.context, small_tables.contexts(self._probe, found, devices))
        yield rows_of(schema.stream, small_tables.streams(self._probe, found))
        yield rows_of(schema.domain, small_tables.domains(self._probe, found))
        yield rows_of(schema.category, small_tables.categories(self._probe, found))
        nameless = len(found.name_ids)
        api_names = []
        for rows in small_tables.names(self._probe, found):
            nameless -= len(rows)
            api_names += [row["plain"] for row in rows if row["plain"]]
            yield rows_of(schema.name, rows)
        if nameless:
            self._notes.append(
                Note(
                    "nameless-id",
                    Severity.INFO,
                    "names that the file refers to but does not hold",
                    nameless,
                    "StringIds",
                )
            )
        self._note_gpu_work(found, api_names)

    # -- facts and notes

    def _facts(self) -> frozenset[Fact]:
        """What this file holds; asked for once the rows are read."""
        counts = {
            s: self._probe.select(f"SELECT EXISTS (SELECT 1 FROM {s})")[0][0] for s in self._sources
        }
        held = {mapping.ours for mapping in tables.MAPPINGS if counts.get(mapping.source)}
        facts = {event.fact for name, event in schema.EVENT_TABLES.items() if name in held}
        found = self._survey.everything()
        gpu_rows = any(counts.get(source) for source in _GPU_SOURCES)
        if gpu_rows or (self._capture.cuda_traced and not self._lost_gpu_work):
            # One switch records them all, so that none of a kind is a fact, too.
            facts |= {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY}
        if self._capture.cuda_traced or counts.get(tables.RUNTIME):
            facts |= {Fact.API_CALLS, Fact.THREADS}
            if gpu_rows or not self._lost_gpu_work:
                facts.add(Fact.API_LINKS)
        if self._ranks(found):
            facts.add(Fact.RANKS)
        if self._zero_utc_ns is not None:
            facts.add(Fact.UTC)
        devices = self._devices(found)
        if devices.rows and not devices.unnamed:
            facts.add(Fact.DEVICES)
        return frozenset(facts)

    _lost_gpu_work = False

    def _note_gpu_work(self, found: Found, api_names: list[str]) -> None:
        if found.gpu_op_pids or any(
            self._probe.select(f"SELECT EXISTS (SELECT 1 FROM {s})")[0][0]
            for s in _GPU_SOURCES
            if s in self._sources
        ):
            return
        working = sorted(name for name in api_names if name.startswith(_WORK))
        self._lost_gpu_work = bool(working)
        if working:
            text = f"no GPU work was recorded, although {working[0]} was called"
            self._notes.append(Note("gpu-activity-missing", Severity.INFO, text))
        else:
            self._notes.append(
                Note("no-gpu-work", Severity.INFO, "the profile holds no GPU operation")
            )

    def _note_found(self, found: Found, devices: device_facts.Devices) -> None:
        if tables.BACKTRACE_CLASS in found.event_classes:
            count, where = self._probe.select(
                f"SELECT count(*), min(rowid) FROM {tables.RUNTIME} "
                f"WHERE eventClass = {tables.BACKTRACE_CLASS}"
            )[0]
            self._notes.append(
                Note(
                    "backtrace-rows",
                    Severity.INFO,
                    "backtrace records among the API calls were left out",
                    count,
                    f"{tables.RUNTIME} row {where}",
                    frozenset({Fact.API_CALLS}),
                )
            )
        known = {tables.RUNTIME_CLASS, tables.DRIVER_CLASS, tables.BACKTRACE_CLASS}
        for event_class in sorted(found.event_classes - known):
            self._notes.append(
                Note(
                    "unknown-code",
                    Severity.DROPPED,
                    f"rows of event class {event_class} among the API calls were left out",
                    where=tables.RUNTIME,
                    facts=frozenset({Fact.API_CALLS}),
                )
            )
        if devices.unnamed:
            self._notes.append(
                Note(
                    "device-unnamed",
                    Severity.INFO,
                    "the profile does not say which GPU a device number means",
                    devices.unnamed,
                    facts=frozenset({Fact.DEVICES}),
                )
            )
        if len(found.virtual_machines) > 1:
            self._notes.append(
                Note(
                    "stray-pid",
                    Severity.INFO,
                    "processes of more than one machine in one profile",
                    len(found.virtual_machines),
                )
            )

    def _note_views(self) -> None:
        for name in self._probe.not_tables:
            if name in tables.EVENT_SOURCES:
                self._notes.append(
                    Note(
                        "not-a-table",
                        Severity.DROPPED,
                        f"{name} is a view or virtual table and was ignored",
                        where=name,
                    )
                )

    def _fact_of(self, mapping: tables.Mapping) -> frozenset[Fact]:
        return frozenset({schema.EVENT_TABLES[mapping.ours].fact})

    # -- time and ranks

    def _find_zero(self) -> tuple[int, int | None]:
        """What is subtracted from every time, and the time of day of the result's zero.

        Event times count from the session's start, unless the export was made with --ts-normalize:
        then they are times of day, larger than any recording is long.
        """
        if not self._capture.times_are_utc and not self._has_huge_times():
            return 0, self._capture.attributes.zero_utc_ns
        starts = [
            self._probe.select(
                f"SELECT min(start) FROM {s} "
                f"WHERE typeof(start) = 'integer' AND start > {tables.TIME_LIMIT}"
            )[0][0]
            for s in self._sources
            if "start" in self._probe.tables[s].columns
        ]
        first = min((s for s in starts if s is not None), default=None)
        if first is None:
            return 0, self._capture.attributes.zero_utc_ns
        zero = first // _NANOSECONDS * _NANOSECONDS
        self._notes.append(
            Note(
                "time-shifted",
                Severity.INFO,
                "times of day; shown from the whole second before the first event",
            )
        )
        return zero, zero

    def _has_huge_times(self) -> bool:
        """Whether the first row of every event table is a time of day (one damaged cell is not)."""
        firsts = []
        for source in self._sources:
            if "start" in self._probe.tables[source].columns:
                firsts += self._probe.select(f"SELECT start FROM {source} LIMIT 1")
        numbers = [row[0] for row in firsts if isinstance(row[0], int)]
        return bool(numbers) and all(number > tables.TIME_LIMIT for number in numbers)

    def _recording_ns(self) -> int | None:
        if self._capture.attributes.recording_ns is not None:
            return self._capture.attributes.recording_ns
        ends = [
            self._probe.select(f"SELECT max(end) FROM {s} WHERE typeof(end) = 'integer'")[0][0]
            for s in self._sources
            if "end" in self._probe.tables[s].columns
        ]
        last = max((e for e in ends if e is not None), default=None)
        return None if last is None or last - self._zero > tables.TIME_LIMIT else last - self._zero

    def _ranks(self, found: Found) -> dict[int, dict[str, Any]]:
        """pid -> rank, local_rank, world_size; the launcher's environment speaks for a single process."""
        ranks = {
            pid: {"rank": rank}
            for pid, rank in capture_facts.mpi_ranks(self._probe).items()
            if pid in found.pids
        }
        own = dict(self._capture.ranks)
        working = found.gpu_op_pids or found.pids
        if len(working) == 1 and own:
            pid = next(iter(working))
            told = ranks.get(pid, {})
            if "rank" in told and own.get("rank", told["rank"]) != told["rank"]:
                self._notes.append(
                    Note(
                        "rank-clash",
                        Severity.INFO,
                        f"MPI says rank {told['rank']}, the environment "
                        f"{own['rank']}; MPI's was kept",
                    )
                )
            ranks[pid] = {**own, **told}
        return ranks
