"""Turns one database into one recording: attributes, facts, notes, and batches in a fitting order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import sqlalchemy as sa

from nsysconv import schema
from nsysconv.facts import Fact
from nsysconv.importers import contract, directives
from nsysconv.importers.nvprof_database import (
    clock,
    markers,
    names,
    notes,
    objects,
    small_tables,
    tables,
)
from nsysconv.importers.nvprof_database.survey import survey, times_of
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import Columns, has, row_numbers
from nsysconv.importers.sqlite_mapping import Watch, guarded
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

# Row numbers with more holes than this are no measure of the work.
_SPARSE = 8


class Reader:
    """Reads one database. Its tables are surveyed when the object is made."""

    def __init__(self, probe: Probe, possible: frozenset[Fact], advice: Mapping[Fact, str]) -> None:
        self._probe = probe
        self._possible = possible
        self._advice = advice
        self._notes: list[Note] = list(probe.notes)
        self._unread: set[Fact] = set()
        self._lost_gpu_work = False
        self._unnamed = 0
        self._ranked = False
        needing = {mapping.source: mapping for mapping in tables.MAPPINGS}
        self._survey = survey(probe, [s for s, m in needing.items() if self._is_readable(m)])
        self._found = self._survey.found
        self._clock = clock.read_clock(self._survey.times)
        self._demangled = demangler()
        self._names = names.numbering(probe, self._found, demangles=self._demangled is not None)
        self._constructs = directives.numbered(self._found.constructs, self._names.construct_id)

    def recording(self) -> Recording:
        """The recording; its rows are read while `batches` is used up."""
        self._notes += self._clock.notes
        for name in self._probe.not_tables:
            if name in tables.EVENT_SOURCES:
                self._leave_unread(name, "is a view or virtual table and was ignored")
        return Recording(self._batches(), self._probe.readable, self._possible)

    def _version(self) -> str | None:
        rows = self._probe.select("SELECT version FROM Version LIMIT 1")
        return str(rows[0][0]) if rows and isinstance(rows[0][0], int) else None

    # -- rows

    def _batches(self) -> Batches:
        """API calls, GPU operations and the rest; then the small tables."""
        self._notes += notes.on_rows(self._probe, self._survey, self._pid)
        repeated = notes.on_repeated_peers(self._probe)
        self._notes += [repeated] if repeated else []
        context = tables.Context(
            zero=self._clock.zero,
            pid=self._pid,
            names=self._names,
            repeated_peers=repeated is not None,
            looks=has(self._probe, markers.DATA, "id", "flags", "color", "category"),
            constructs=self._constructs,
        )
        copied: list[tables.Mapping] = []
        for mapping in tables.MAPPINGS:
            if mapping.source in self._survey.times:
                rows = self._source_rows(mapping, context)
                if rows is not None:
                    copied.append(mapping)
                    yield rows
        yield from self._small_batches()
        return Summary(
            attributes=ProfileAttributes(
                format_version=self._version(),
                zero_utc_ns=self._clock.zero_utc_ns,
                recording_ns=self._clock.recording_ns,
            ),
            facts=self._facts(),
            advice=self._advice,
            notes=tuple(self._notes),
            constants=shared_constants((m.ours, self._constants(m)) for m in copied),
        )

    def _is_readable(self, mapping: tables.Mapping) -> bool:
        """Whether the file has the table with what is needed of it; a note where it lacks that."""
        source = self._probe.tables.get(mapping.source)
        if source is None:
            return False
        missing = mapping.needs - set(source.columns)
        if missing or source.row_id is None:
            what = (
                f"has no column {', '.join(sorted(missing))}" if missing else "has no row numbers"
            )
            self._leave_unread(mapping.source, f"{what} and was not read")
            return False
        return True

    def _leave_unread(self, source: str, why: str) -> None:
        """Notes that a source table was not read: what it may hold is not recorded."""
        facts = frozenset({tables.FACTS[source]})
        self._unread |= facts
        self._notes.append(
            Note("not-a-table", Severity.DROPPED, f"{source} {why}", 1, source, facts)
        )

    def _source_rows(self, mapping: tables.Mapping, context: tables.Context) -> SourceRows | None:
        source = self._probe.tables[mapping.source]
        columns = Columns(source, alias=mapping.alias)
        first, last, count = row_numbers(self._probe, source)
        if first is None or last is None:
            return None
        start, end = times_of(mapping.source)
        watch = Watch(
            placing=tables.PLACING,
            no_numbers=frozenset({"objectId"}),
            start=start,
            end=start if mapping.momentary else end,
            zero=context.zero,
            events=mapping.events or tables.EVENTS.get(mapping.source, "1"),
        )

        def select(whole: Columns) -> sa.Select[tuple[object, ...]]:
            return tables.columns_of(mapping, whole, replace(context, careful=True))

        def careful() -> tuple[SourceRows, list[Note]]:
            sound, notes = guarded(self._probe, rows, columns, watch, select)
            return sound, [replace(note, facts=frozenset({mapping.fact})) for note in notes]

        rows = SourceRows(
            table=mapping.ours,
            select=tables.columns_of(mapping, columns, context),
            row_id=columns.row_id,
            first=first,
            last=last,
            guarded=careful,
            sparse=last - first > _SPARSE * count,
        )
        if mapping.source in self._found.suspects:
            # Arithmetic on such cells would go unnoticed.
            sound, notes = careful()
            self._notes += notes
            return replace(sound, guarded=lambda: (sound, []))
        return rows

    def _constants(self, mapping: tables.Mapping) -> dict[str, int]:
        """The process and device of all rows of a table, where they are one."""
        constants: dict[str, int] = {}
        if mapping.source in self._found.suspects:
            return constants
        if mapping.source in tables.GPU_SOURCES:
            if self._pid is not None:
                constants["pid"] = self._pid
            if len(self._found.op_ordinals) == 1 and not self._found.suspects:
                constants["device_id"] = next(iter(self._found.op_ordinals))
        return constants

    @cached_property
    def _pid(self) -> int | None:
        """The process of GPU operations, which do not name it: a database holds one process."""
        named = {pid for (pid,) in small_tables.named_objects(self._probe, objects.PROCESS, 1)}
        for pids in (self._found.call_pids, self._found.other_pids, named - {0}):
            if pids:
                return next(iter(pids)) if len(pids) == 1 else None
        return None

    def _small_batches(self) -> Iterator[ArrowRows]:
        probe, found = self._probe, self._found
        pids = found.pids
        if self._pid is not None and self._has_rows(tables.GPU_SOURCES):
            pids = pids | {self._pid}
        own = self._pid if self._pid in pids else None
        devices = small_tables.devices(probe, found)
        self._unnamed = sum(not device["name"] for device in devices)
        if self._unnamed:
            text = "the file does not describe a device that it refers to"
            facts = frozenset({Fact.DEVICES})
            self._notes.append(
                Note("device-unnamed", Severity.INFO, text, self._unnamed, facts=facts)
            )
        ranks = small_tables.ranks(probe, pids)
        self._ranked = bool(ranks)
        yield rows_of(schema.device, devices)
        yield rows_of(schema.process, small_tables.processes(pids, ranks))
        yield rows_of(schema.thread, small_tables.threads(probe, found))
        yield rows_of(schema.context, small_tables.contexts(probe, own, found.ordinals))
        yield rows_of(schema.stream, small_tables.streams(probe, own))
        yield rows_of(schema.domain, small_tables.domains(probe, found))
        yield rows_of(schema.name, names.made_up(found, self._names))
        asked = directives.text_ids(self._constructs)
        texts = small_tables.texts(probe, asked)
        yield rows_of(schema.name, directives.names(self._constructs, texts))
        missing = asked - texts.keys()
        symbols = 0
        for rows in names.of_file(probe, found, self._names, self._demangled, missing):
            symbols += sum(
                row["id"] in found.symbol_ids and row["text"].startswith("_Z") for row in rows
            )
            yield rows_of(schema.name, rows)
        self._notes += notes.on_symbols(self._names.demangles, symbols, len(missing))
        if not self._has_rows(tables.GPU_SOURCES):
            lost = notes.lost_gpu_work(probe, found)
            self._lost_gpu_work = lost is not None
            self._notes.append(lost or contract.NO_GPU_WORK)

    # -- facts

    def _facts(self) -> frozenset[Fact]:
        """What this file holds; asked for once the rows are read."""
        facts = {fact for source, fact in tables.FACTS.items() if self._has_rows([source])}
        calls = self._has_rows(tables.LAYERS)
        at_work = self._has_rows(tables.GPU_SOURCES)
        # Runs that measure events or metrics record kernels alone.
        timeline = calls or any(
            self._has_rows([s]) for s in tables.GPU_SOURCES if s != tables.SERIAL_KERNEL
        )
        if timeline and not self._lost_gpu_work:
            # One switch records them all, so that none of a kind is a fact, too.
            facts |= {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS}
        if calls:
            facts |= {Fact.API_CALLS, Fact.THREADS}
            if (at_work and self._pid is not None) or not (at_work or self._lost_gpu_work):
                facts.add(Fact.API_LINKS)
        if self._ranked:
            facts.add(Fact.RANKS)
        if self._clock.zero_utc_ns is not None:
            facts.add(Fact.UTC)
        if self._found.ordinals and not self._unnamed:
            facts.add(Fact.DEVICES)
        return frozenset(facts - self._unread)

    def _has_rows(self, sources: Iterable[str]) -> bool:
        return any(source in self._survey.times for source in sources)
