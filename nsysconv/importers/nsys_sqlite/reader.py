"""Turns one export into one recording: attributes, facts, notes, and batches in a fitting order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import sqlalchemy as sa

from nsysconv import schema
from nsysconv.facts import Fact
from nsysconv.importers import contract, directives
from nsysconv.importers.contract import Options
from nsysconv.importers.nsys_sqlite import capture, gpu_metrics, memory, notes, small_tables, tables
from nsysconv.importers.nsys_sqlite import capture as capture_facts
from nsysconv.importers.nsys_sqlite import small_tables as device_facts
from nsysconv.importers.nsys_sqlite.mapping import Context, Sampled, select
from nsysconv.importers.nsys_sqlite.mapping import Mapping as TableMapping
from nsysconv.importers.nsys_sqlite.survey import Found, Survey
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import Columns
from nsysconv.importers.sqlite_mapping import guarded
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

_GPU_SOURCES = (tables.KERNEL, tables.MEMCPY, tables.MEMSET, tables.GRAPH_TRACE)


class Reader:
    """Reads one export. The survey of its tables starts with the object and ends with the batches."""

    def __init__(
        self,
        probe: Probe,
        possible: frozenset[Fact],
        advice: Mapping[Fact, str],
        options: Options,
    ) -> None:
        self._probe = probe
        self._possible = possible
        present = [source for source in tables.EVENT_SOURCES if source in probe.tables]
        left_out = {s: f for s, f in tables.ON_REQUEST.items() if f not in options.include}
        self._wanted = frozenset(tables.EVENT_SOURCES) - left_out.keys()
        self._sources = tuple(source for source in present if source in self._wanted)
        self._advice = dict(advice) | {
            fact: f"Import again with `--include {fact}`."
            for source, fact in left_out.items()
            if source in present and self._has_rows_of_ours(source)
        }
        self._capture = capture_facts.read_capture(probe)
        self._notes: list[Note] = list(probe.notes)
        self._clock = capture.read_clock(probe, present, self._capture)
        self._unread: set[Fact] = set()
        self._lost_gpu_work = False
        self._ranked = False
        self._survey = Survey(probe, self._sources, from_pages=options.in_place)
        self._unclosed = probe.beside(notes.on_unclosed, probe)

    def recording(self) -> Recording:
        """The recording; its rows are read while `batches` is used up."""
        self._notes += capture_facts.diagnostics(self._probe)
        self._notes += capture_facts.option_notes(self._capture)
        self._notes += self._clock.notes
        for name in self._probe.not_tables:
            if name in self._wanted:
                self._leave_unread(name, "is a view or virtual table and was ignored")
        return Recording(self._batches(), self._probe.readable, self._possible)

    # -- rows

    def _batches(self) -> Batches:
        """API calls, GPU operations and the rest; then the small tables, once all scans are done."""
        copied: list[TableMapping] = []
        try:
            for mapping in tables.MAPPINGS:
                if mapping.source in self._sources:
                    rows = self._source_rows(mapping)
                    if rows is not None:
                        copied.append(mapping)
                        yield rows
            yield from self._small_batches()
            return self._summary(copied)
        finally:
            self._survey.close()
            self._unclosed.cancel()

    def _summary(self, copied: Sequence[TableMapping]) -> Summary:
        return Summary(
            attributes=replace(
                self._capture.attributes,
                zero_utc_ns=self._clock.zero_utc_ns,
                recording_ns=self._clock.recording_ns,
            ),
            facts=self._facts(),
            advice=self._advice,
            notes=tuple(self._notes),
            gpu_pids=frozenset(self._survey.everything().gpu_op_pids),
            constants=shared_constants((m.ours, self._constants(m)) for m in copied),
            suspects=frozenset(
                m.ours
                for m in copied
                if not self._is_looked_at(m) and self._survey.suspects(m.source)
            ),
        )

    def _source_rows(self, mapping: TableMapping) -> SourceRows | None:
        source = self._probe.tables[mapping.source]
        columns = Columns(source, alias=mapping.alias)
        missing = mapping.needs - columns.names
        if missing or source.row_id is None:
            what = (
                f"has no column {', '.join(sorted(missing))}" if missing else "has no row numbers"
            )
            self._leave_unread(mapping.source, f"{what} and was not read")
            return None
        first, last = self._survey.row_range(mapping.source)
        if first is None or last is None:
            return None
        context = self._context(mapping)

        def selected(whole: Columns) -> sa.Select[Any]:
            return select(mapping, whole, replace(context, careful=True))

        def careful() -> tuple[SourceRows, list[Note]]:
            watch = replace(
                tables.WATCH,
                start=mapping.time,
                zero=context.zero,
                reals=tables.REALS.get(mapping.source, frozenset()),
            )
            sound, notes = guarded(self._probe, rows, columns, watch, selected)
            return sound, [replace(note, facts=frozenset({mapping.fact})) for note in notes]

        rows = SourceRows(
            table=mapping.ours,
            select=select(mapping, columns, context),
            row_id=columns.row_id,
            first=first,
            last=last,
            guarded=careful,
            sparse=self._survey.is_sparse(mapping.source),
        )
        if self._is_looked_at(mapping) and self._survey.suspects(mapping.source):
            rows, notes = careful()
            self._notes += notes
        return rows

    def _is_looked_at(self, mapping: TableMapping) -> bool:
        """Whether ids are checked before the rows are copied: arithmetic on such that are no numbers, or
        looking them up, would go unnoticed.
        """
        return "deviceId" in mapping.needs or bool(mapping.alias)

    def _constants(self, mapping: TableMapping) -> dict[str, int]:
        """The process and device of all rows of a table, where they are one."""
        found = self._survey.of(mapping.source)
        if mapping.source in found.suspects or found.anonymous:
            return {}
        constants = {}
        if len(found.pids) == 1:
            constants["pid"] = next(iter(found.pids))
        if len(found.op_ordinals) == 1 and found.op_ordinals == found.ordinals:
            numbers = self._devices(self._survey.everything()).numbers
            constants["device_id"] = numbers[next(iter(found.op_ordinals))]
        return constants

    def _leave_unread(self, source: str, why: str) -> None:
        """Notes that a source table was not read: what it may hold is not recorded."""
        facts = {mapping.fact for mapping in tables.MAPPINGS if mapping.source == source}
        self._unread |= facts
        note = Note("not-a-table", Severity.DROPPED, f"{source} {why}", 1, source, frozenset(facts))
        if note not in self._notes:
            self._notes.append(note)

    def _context(self, mapping: TableMapping) -> Context:
        names_device = "deviceId" in mapping.needs
        found = self._survey.devices_of(self._survey.gpu_sources) if names_device else Found()
        devices = self._devices(found) if names_device else None
        return Context(
            zero=self._clock.zero,
            device=devices.expression() if devices else lambda pid, ordinal: ordinal,
            only_pid=self._only_pid(mapping) if names_device else None,
            driver_names=self._driver_names(mapping),
            constructs=self._constructs if mapping.source in directives.OPENACC_SOURCES else {},
            metrics=self._metrics if mapping.source == gpu_metrics.SAMPLES else (),
            nameless=mapping.source == tables.KERNEL and self._lacks_names,
            balanced=mapping.source == memory.USAGE and memory.is_balanced(self._probe),
        )

    def _devices(self, found: Found) -> device_facts.Devices:
        sampled = {gpu_metrics.gpu_of(type_id) for type_id, _ in found.metrics}
        return device_facts.find(self._probe, found.ordinals, found.op_ordinals, sampled)

    @cached_property
    def _lost_names(self) -> set[int | None]:
        """Full names that kernels refer to and the file does not hold; None where one has no other."""
        wanted = (
            self._survey.of(tables.KERNEL).full_name_ids
            if tables.KERNEL in self._sources
            else set()
        )
        known = {name_id for name_id in wanted if name_id is not None}
        return small_tables.textless(self._probe, known) | (wanted - known)

    @cached_property
    def _lacks_names(self) -> bool:
        """Whether the file lacks the text of any name of a kernel."""
        ids = self._survey.of(tables.KERNEL).name_ids
        return bool(self._lost_names) or bool(small_tables.textless(self._probe, ids))

    @cached_property
    def _name_base(self) -> int:
        return small_tables.base(self._probe)

    @cached_property
    def _constructs(self) -> directives.Numbers:
        found = self._survey.everything().constructs
        return directives.numbered(found, partial(small_tables.construct, self._name_base))

    @cached_property
    def _metric_names(self) -> dict[tuple[int, int], str]:
        return gpu_metrics.names(self._probe, self._survey.everything().metrics)

    @cached_property
    def _metrics(self) -> tuple[Sampled, ...]:
        found = self._survey.everything()
        devices = self._devices(found).sampled
        name_id = partial(small_tables.metric, self._name_base)
        return gpu_metrics.sampled(self._metric_names, found.metrics, devices, name_id)

    def _only_pid(self, mapping: TableMapping) -> int | None:
        if "globalPid" in self._probe.tables[mapping.source].columns:
            # A constant is cheaper to store than arithmetic on every row.
            found = self._survey.devices_of([mapping.source])
            is_sound = mapping.source not in found.suspects
            return next(iter(found.pids)) if len(found.pids) == 1 and is_sound else None
        pids = self._survey.everything().pids
        only = next(iter(pids)) if len(pids) == 1 else None
        if any(n.slug == "process-assumed" and n.where == mapping.source for n in self._notes):
            return only
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
                frozenset({mapping.fact}),
            )
        )
        return only

    def _driver_names(self, mapping: TableMapping) -> tuple[int, ...] | None:
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
        self._notes += notes.on_rows(self._probe, found, devices, self._unclosed.result())
        ranks, clashes = capture_facts.ranks_by_process(
            self._probe, self._capture, found.pids, found.gpu_op_pids
        )
        self._ranked = bool(ranks)
        self._notes += clashes
        yield rows_of(schema.device, devices.rows)
        yield rows_of(
            schema.process, small_tables.processes(self._probe, found, ranks, self._capture)
        )
        yield rows_of(schema.thread, small_tables.threads(self._probe, found))
        yield rows_of(schema.context, small_tables.contexts(self._probe, found, devices))
        yield rows_of(schema.stream, small_tables.streams(self._probe, found))
        yield rows_of(schema.domain, small_tables.domains(self._probe, found))
        yield rows_of(schema.category, small_tables.categories(self._probe, found))
        yield from self._made_up_names(found)
        missing, doubled, api_names = set[int](), list[int](), []
        for rows in small_tables.names(self._probe, found, missing, doubled):
            api_names += [(row["id"], row["plain"]) for row in rows if row["plain"]]
            yield rows_of(schema.name, rows)
        self._note_names(missing, doubled)
        if not self._has_rows(_GPU_SOURCES):
            lost = notes.lost_gpu_work(self._probe, api_names)
            self._lost_gpu_work = lost is not None
            self._notes.append(lost or contract.NO_GPU_WORK)

    def _note_names(self, missing: set[int], doubled: Sequence[int]) -> None:
        """Notes on ids without a text, and with two; apart what only rows on request refer to: other
        reports are to say the same whether or not these were read.
        """
        of = {source: self._survey.of(source).name_ids for source in self._sources}
        if self._lost_names:
            others = set[int]().union(
                *(ids for source, ids in of.items() if source != tables.KERNEL)
            )
            shown = small_tables.shown_without_text(self._probe)
            replaced = self._lost_names - shown
            missing = missing - (replaced - others)
            self._notes += notes.on_replaced_names(len(replaced))
        always = set[int]().union(*(of[source] for source in of.keys() - tables.ON_REQUEST.keys()))
        self._notes += notes.on_names(len(missing & always), [i for i in doubled if i in always])
        for source in of.keys() & tables.ON_REQUEST.keys():
            own = of[source] - always
            facts = frozenset({tables.ON_REQUEST[source]})
            self._notes += notes.on_names(
                len(missing & own), [i for i in doubled if i in own], facts
            )

    def _made_up_names(self, found: Found) -> Iterator[ArrowRows]:
        """Names that stand nowhere in the file as they are."""
        if found.constructs:
            asked = directives.text_ids(self._constructs)
            texts = small_tables.texts(self._probe, asked)
            yield rows_of(schema.name, directives.names(self._constructs, texts))
            self._notes += notes.on_names(len(asked - texts.keys()), ())
        if found.metrics:
            yield rows_of(schema.name, gpu_metrics.name_rows(self._metrics, self._metric_names))
            nameless = len(found.metrics) - len(self._metric_names)
            self._notes += notes.on_metric_names(nameless)

    # -- facts

    def _facts(self) -> frozenset[Fact]:
        """What this file holds; asked for once the rows are read."""
        facts = {
            mapping.fact
            for mapping in tables.MAPPINGS
            if mapping.source in self._sources and self._has_rows_of_ours(mapping.source)
        }
        gpu_rows = self._has_rows(_GPU_SOURCES)
        if gpu_rows or (self._capture.cuda_traced and not self._lost_gpu_work):
            # One switch records them all, so that none of a kind is a fact, too.
            facts |= {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY}
        if self._capture.cuda_traced or self._has_rows([tables.RUNTIME]):
            facts |= {Fact.API_CALLS, Fact.THREADS}
            if gpu_rows or not self._lost_gpu_work:
                facts.add(Fact.API_LINKS)
        if self._ranked:
            facts.add(Fact.RANKS)
        if self._clock.zero_utc_ns is not None:
            facts.add(Fact.UTC)
        devices = self._devices(self._survey.everything())
        if devices.rows and not devices.unnamed:
            facts.add(Fact.DEVICES)
        return frozenset(facts - self._unread)

    def _has_rows(self, sources: Iterable[str]) -> bool:
        return any(
            source in self._sources
            and self._probe.select(f"SELECT EXISTS (SELECT 1 FROM {source})")[0][0]
            for source in sources
        )

    def _has_rows_of_ours(self, source: str) -> bool:
        """Whether a table has rows other than those that frame the tracing."""
        classes = tables.CLASSES.get(source)
        where = "1"
        if classes and "eventClass" in self._probe.tables[source].columns:
            where = f"eventClass IN ({', '.join(map(str, sorted(classes)))})"
        rows = self._probe.select(f"SELECT EXISTS (SELECT 1 FROM {source} WHERE {where})")
        return bool(rows[0][0])
