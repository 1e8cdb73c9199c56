"""Reads each process of a rocpd file as one recording: batches of rows, then the summary.

Kernels, copies and calls are copied inside SQLite (tables.py). Everything else is of few rows and is
worked out here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, cached_property, lru_cache, partial
from typing import Any

from nsysconv import codes, schema
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers import rocm, sqlite_mapping
from nsysconv.importers.contract import (
    MAX_RECORDINGS,
    NO_GPU_WORK,
    Options,
    lost_gpu_work,
    too_many_recordings_error,
)
from nsysconv.importers.probe import Probe
from nsysconv.importers.rocpd import ADVICE, POSSIBLE, suffixes, tables
from nsysconv.importers.rocpd.survey import ALLOCATION, COPY, KERNEL, RocpdSurvey
from nsysconv.importers.rocprofiler import HSA, OPERATIONS, becomes, range_kind
from nsysconv.importers.sqlite_columns import TIME_LIMIT, in_lists, only
from nsysconv.names import called, cut_off, escaped, plain_api_name
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

_FACTS = {"range": Fact.RANGES, "collective": Fact.COLLECTIVES, "directive": Fact.DIRECTIVES,
          "library_call": Fact.LIBRARY_CALLS, "python_function": Fact.PYTHON_FUNCTIONS}  # fmt: skip
_IDS = ("pid", "tid", "agent_id", "kernel_id", "name_id", "stream_id", "queue_id")
_MARK = codes.RANGE_KINDS.index("mark")
_MOST_NAMED = 5
_NAMES_AT_ONCE = 1 << 12


def readers(probe: Probe, options: Options) -> list[RocpdReader]:
    """Return a reader for each recording of a file. Raises InputError where no event is in it."""
    found = suffixes(probe)
    if len(found) > MAX_RECORDINGS:
        raise too_many_recordings_error(str(probe.path))
    hsa = rocm.HSA_CALLS in options.include
    made = [RocpdReader(probe, suffix, includes_hsa=hsa) for suffix in found]
    begun = [reader for reader in made if reader.has_begun]
    if not begun:
        raise InputError(
            "the profiler stopped while it wrote the file: no event is in it",
            where=str(probe.origin),
            hint="Record again. Old rocprofv3 fails on a semicolon in the command line.",
        )
    if lost := len(made) - len(begun):
        text = "the profiler stopped while it wrote recordings: no event is in them"
        begun[0].add_note(Note("part-unread", Severity.DROPPED, text, lost))
    # Containers number their processes alike, and so do nodes.
    for parts in zip(*(reader.names for reader in begun), strict=True) if begun[1:] else ():
        if len(set(parts)) == len(parts):
            for reader, part in zip(begun, parts, strict=True):
                reader.part = part
            break
    return begun


# Queues, streams and code objects say nothing that rows do not say themselves.
_READ = (
    "metadata", "info_node", "info_process", "info_thread", "info_agent", "info_kernel_symbol",
    "info_pmc", "info_queue", "info_stream", "info_code_object", "event", "track", "region", "sample",
    "pmc_event", KERNEL, COPY, ALLOCATION,
)  # fmt: skip


class RocpdReader(RocpdSurvey):
    """Reads the tables of one suffix, when its batches are asked for."""

    part = ""
    """What this recording is called among several of a file."""

    def __init__(self, probe: Probe, suffix: str, *, includes_hsa: bool) -> None:
        """Read nothing yet; `includes_hsa`: calls of HSA are wanted beside HIP's."""
        super().__init__(probe, suffix, includes_hsa=includes_hsa)
        self._notes: list[Note] = list(probe.notes)

    def add_note(self, note: Note) -> None:
        """Add a note to those of this recording."""
        self._notes.append(note)

    @property
    def has_begun(self) -> bool:
        """Return whether the profiler wrote more than what all files have."""
        return bool(self._processes or self._times)

    @property
    def names(self) -> tuple[str, str, str]:
        """Return what the recording may be called, from short names to one that no other has."""
        pids, suffix = [each.pid for each in self._processes.values()], self._suffix.strip("_")
        short = f"pid {pids[0]}" if len(pids) == 1 else suffix
        return short, f"{short} on {self._host}" if self._host else short, suffix

    def recording(self) -> Recording:
        """Return the recording; its rows are read while `batches` is used up."""
        source, is_part = self._probe.readable, bool(self.part)
        return Recording(self._batches(), source, POSSIBLE, one_of_several=is_part)

    def _batches(self) -> Batches:
        copied = []
        for mapping in tables.mappings(self._suffix):
            if (rows := self._event_rows(mapping)) is not None:
                copied.append(mapping.target)
                yield rows
        yield from self._other_regions()
        yield from self._memory_events()
        yield from self._metrics()
        pids = self._pids_of(KERNEL, COPY)
        at_work = frozenset(pid for pid in pids if pid)
        self._add_facts()
        yield from self._small_tables()
        self._notes += self._row_notes()
        only_pid = only(pids)
        constants = {} if only_pid is None else {"pid": only_pid}
        return Summary(
            ProfileAttributes(
                format_version=self._version, recording_ns=self._recording_ns, host=self._host
            ),
            frozenset(self._facts),
            ADVICE,
            list(map(self._shown, self._notes)),
            part=self.part,
            gpu_pids=at_work,
            one_run=bool(self.part),
            constants=shared_constants((t, constants) for t in copied if t in ("kernel", "memcpy")),
        )

    @property
    def _version(self) -> str | None:
        said = self._file.rows("metadata", "tag", "value")
        values = [str(value) for tag, value in said if tag == "schema_version"]
        return cut_off(escaped(min(values)), 20) if values else None

    def _pids_of(self, *of: str) -> set[int | None]:
        # None for a number that is no process.
        return {self._pid(number) for table in of for number in self._file.used(table, "pid")}

    def _event_rows(self, mapping: tables.RocpdMapping) -> SourceRows | None:
        if mapping.source not in self._probe.tables:
            return None
        if reason := sqlite_mapping.unreadable_reason(self._probe, mapping):
            self._notes.append(sqlite_mapping.unread_note(mapping.source, reason, [mapping.fact]))
            return None
        if mapping.target == "api_call" and not self._layers:
            return None
        # Arithmetic on texts would go unnoticed, and so would ids that are texts.
        table = mapping.source.removeprefix("rocpd_").removesuffix(self._suffix)
        for name in _IDS:
            self._file.used(table, name)
        is_suspect = table in self._file.suspects or self._times.get(table, (0, 0))[1] is None
        rows, left_out = sqlite_mapping.event_rows(
            self._probe, mapping, self._context, tables.CHECKS, is_suspect=is_suspect
        )
        self._notes += left_out
        if rows is None:
            return None
        self._facts.add(mapping.fact)
        return replace(rows, guarded=partial(self._guarded, rows))

    def _guarded(self, rows: SourceRows) -> tuple[SourceRows, list[Note]]:
        sound, notes = rows.guarded()
        return sound, list(map(self._shown, notes))

    def _shown(self, note: Note) -> Note:
        # People need not read a UUID in each name of a table.
        if not self._suffix:
            return note
        text, where = (words.replace(self._suffix, "") for words in (note.text, note.where))
        return replace(note, text=text, where=where)

    # -- ranges, collectives, operators

    def _other_regions(self) -> Iterator[ArrowRows]:
        kinds = {
            n: kind for n, text in self._categories.items() if (kind := becomes(text)) in _FACTS
        }
        listed = ", ".join(map(str, kinds)) or "NULL"
        # The name of a region of markers is the function; what the program called it is in the event.
        message = (
            "CASE WHEN typeof({0}) = 'text' AND json_valid({0}) "
            "THEN json_extract({0}, '$.message') END"
        )
        pid_of, tid_of, bad = cache(self._pid), cache(self._tid), 0

        @lru_cache(_NAMES_AT_ONCE)
        def made_of(category: int, name_id: Any, said: Any, takes_time: bool) -> tuple[str, Row]:
            kind, function, text = (
                kinds[category],
                self._functions.get(name_id, ""),
                str(said or ""),
            )
            self._facts.add(_FACTS[str(kind)])
            return self._region(str(kind), function, text, not takes_time and not function)

        for table, start, end in (("region", "start", "end"), ("sample", "timestamp", "timestamp")):
            needed = {start, end, "event_id"}
            if not kinds or not needed <= set(self._file.columns(table)):
                continue
            times = [self._file.cell(table, name) for name in (start, end)]
            cells = ", ".join(self._file.cell(table, name) for name in ("pid", "tid", "name_id"))
            of_event = self._file.joined_cell(table, "event", "category_id")
            said_in = message.format(self._file.joined_cell(table, "event", "extdata"))
            rows = self._probe.iterate(
                f"SELECT {self._interval_of(*times)}, {cells}, {of_event}, {said_in} "
                f"FROM {self._file.source(table)} WHERE {of_event} IN ({listed})"
            )
            for some in in_lists(rows):
                found: dict[str, list[Row]] = {}
                for begin, dur, pid, tid, name_id, category, said in some:
                    if begin is None:
                        bad += 1
                        continue
                    target, made = made_of(category, name_id, said, dur > 0)
                    row = {"start_ns": begin, "dur_ns": dur, "pid": pid_of(pid), "tid": tid_of(tid)}
                    found.setdefault(target, []).append(row | made)
                for target, listed_rows in found.items():
                    yield rows_of(schema.metadata.tables[target], listed_rows)
        self._note_times(bad, "region")

    def _interval_of(self, start: str, end: str) -> str:
        # When a row began, and how long it took, as SQL; NULL where its times cannot be.
        first, last = self._zero - TIME_LIMIT, self._zero + TIME_LIMIT
        return (
            f"CASE WHEN typeof({start}) = 'integer' AND typeof({end}) = 'integer' "
            f"AND {start} BETWEEN {first} AND {last} "
            f"AND {end} BETWEEN {start} AND {start} + {TIME_LIMIT} "
            f"THEN {start} - {self._zero} END, {end} - {start}"
        )

    def _region(self, kind: str, function: str, text: str, is_instant: bool) -> tuple[str, Row]:
        # The table of a region, and what the row has beside time and place.
        if kind == "range":
            name_id = self._name_id(text or function)
            kind_id = _MARK if is_instant else range_kind(function)
            row: Row = {"kind": kind_id, "domain_id": 0, "name_id": name_id}
            return "range", row | ({"dur_ns": None} if kind_id == _MARK else {})
        if operation := kind == "collective" and OPERATIONS.get(function):
            name_id = self._name_id(operation)
            return "collective", {"kind": codes.COLLECTIVE_KINDS.index("call"), "name_id": name_id}
        kind = "library_call" if kind == "collective" else kind
        return "operator", {
            "kind": codes.OPERATOR_KINDS.index(kind),
            "name_id": self._name_id(function),
        }

    def _note_times(self, count: int, table: str) -> None:
        if count:
            text = f"{self._file.name(table)}: rows with impossible times were left out"
            self._notes.append(
                Note("impossible-time", Severity.DROPPED, text, count, self._file.name(table))
            )

    # -- memory and counters

    def _memory_events(self) -> Iterator[ArrowRows]:
        names = ("pid", "tid", "agent_id", "type", "level", "address", "size")
        if not {"start", "type", "size"} <= set(self._file.columns(ALLOCATION)):
            return
        live = rocm.LiveMemory()
        rows: list[Row] = []
        bad = 0
        cells = ", ".join(self._file.cell(ALLOCATION, name) for name in names)
        start = self._file.cell(ALLOCATION, "start")
        for begin, _, pid, tid, agent, kind, level, address, size in self._probe.iterate(
            f"SELECT {self._interval_of(start, start)}, {cells} FROM {self._file.source(ALLOCATION)} "
            f"WHERE row.type IN ('ALLOC', 'FREE') ORDER BY {start}"
        ):
            bad += begin is None
            if begin is None or level == "SCRATCH":
                continue
            size = size if isinstance(size, int) and 0 <= size < 1 << 62 else None
            if kind == "FREE":
                known, agent = live.give_back((pid, address))
                size = None if known is None else -known
            elif size is not None:
                live.take((pid, address), size, agent)
            is_gpu = agent in self.gpus
            rows.append(
                {
                    "start_ns": begin,
                    "pid": self._pid(pid),
                    "tid": self._tid(tid),
                    "device_id": agent if is_gpu else None,
                    "memory_kind": codes.MEMORY_KINDS.index("Device") if is_gpu else None,
                    "address": address if isinstance(address, int) else None,
                    "bytes": size,
                }
            )
        self._note_times(bad, ALLOCATION)
        self._notes += live.notes(self._file.name(ALLOCATION))
        for some in in_lists(rows):
            self._facts.add(Fact.MEMORY_EVENTS)
            yield rows_of(schema.memory_event, some)

    @cached_property
    def _has_counters(self) -> bool:
        return bool(self._file.used("pmc_event", "pmc_id"))

    def _metrics(self) -> Iterator[ArrowRows]:
        # A counter has a row per instance of the hardware in each dispatch: these are added up.
        if not self._has_counters or not {"event_id", "kernel_id"} <= set(
            self._file.columns(KERNEL)
        ):
            return
        self._facts.add(Fact.METRICS)
        derived = "is_derived" if "is_derived" in self._file.columns("info_pmc") else "0"
        kernels, values, info = map(self._file.name, (KERNEL, "pmc_event", "info_pmc"))
        read = self._probe.iterate(
            f"""SELECT kernel_id, counter, max(derived), count(*), min(value), max(value), avg(value),
                sum(value) FROM (
            SELECT kernel_id, info.name AS counter, max({derived}) AS derived, sum(value) AS value
            FROM {values} AS pmc JOIN {info} AS info ON info.id = pmc_id
            LEFT JOIN {kernels} AS kernel ON kernel.event_id = pmc.event_id
            WHERE typeof(value) IN ('real', 'integer') AND typeof(info.name) = 'text'
            GROUP BY pmc.event_id, info.name)
            GROUP BY kernel_id, counter"""
        )
        columns = ("value_min", "value_max", "value_avg", "value_sum")
        rows = [
            {
                "name_id": self._name_id(counter),
                "kernel_name_id": self._kernel_name_id(kernel),
                "kind": codes.METRIC_KINDS.index("metric" if is_derived else "event"),
                "unit": codes.METRIC_UNITS.index("number"),
                "execution_count": count,
                **dict(zip(columns, measured, strict=True)),
            }
            for kernel, counter, is_derived, count, *measured in read
        ]
        yield rows_of(schema.metric_sample, rows)

    # -- small tables, facts and notes

    def _small_tables(self) -> Iterator[ArrowRows]:
        on_threads = ("region", "sample", ALLOCATION)
        threads: dict[tuple[int, int], Row] = {}
        pids = self._pids_of(*on_threads, KERNEL, COPY)
        for table in on_threads:
            if self._file.columns(table):
                cells = f"{self._file.cell(table, 'pid')}, {self._file.cell(table, 'tid')}"
                for process, thread in self._probe.select(
                    f"SELECT DISTINCT {cells} FROM {self._file.source(table)}"
                ):
                    pid, tid = self._pid(process), self._tid(thread)
                    if pid is not None and tid is not None:
                        name = self._tids[thread][1] if thread in self._tids else None
                        threads[pid, tid] = {"pid": pid, "tid": tid, "name": name}
        known = {process.pid: process.row for process in self._processes.values()}
        processes = [known.get(pid, {"pid": pid}) for pid in sorted(pid for pid in pids if pid)]
        if any(row.get("rank") is not None for row in processes):
            self._facts.add(Fact.RANKS)
        ends = [(COPY, "src_agent_id"), (COPY, "dst_agent_id"), (ALLOCATION, "agent_id")]
        agents = {n for end in ends for n in self._file.used(*end)} & self.gpus.keys()
        agents |= self._file.used(KERNEL, "agent_id")
        gpus = [self.gpus.get(number, {"device_id": number}) for number in sorted(agents)]
        if gpus and all(row.get("name") for row in gpus):
            self._facts.add(Fact.DEVICES)
        yield rows_of(schema.device, gpus)
        yield rows_of(schema.process, processes)
        yield rows_of(schema.thread, list(threads.values()))
        names = [(number, text) for text, number in self._made.items()]
        ids = self._symbol_ids
        for number, (name, symbol) in self._symbols.items():
            named = [(ids.names + number, name)] if number not in ids.same else []
            names += [(n, text) for n, text in (*named, (ids.mangled + number, symbol)) if text]
        plain = {text: plain_api_name(text) for text in self._functions.values()}
        calls = self._functions.items() if self._layers else ()
        rows: list[Row] = [
            *({"id": number, "text": text, "plain": plain[text]} for number, text in calls),
            *({"id": number, "text": text, "plain": None} for number, text in names),
        ]
        for some in in_lists(rows):
            yield rows_of(schema.name, some)

    def _add_facts(self) -> None:
        if self._layers:
            self._facts.add(Fact.API_CALLS)
        elif self._uncategorized:
            self._facts.discard(Fact.API_CALLS)
        if Fact.API_CALLS in self._facts:
            self._facts.add(Fact.THREADS)
            if self._facts & {Fact.KERNELS, Fact.MEMCPYS}:
                self._facts.add(Fact.API_LINKS)

    def _launching_function(self) -> str | None:
        launches = called("kernel_launch", "graph_launch")
        return next(filter(launches, map(plain_api_name, self._functions.values())), None)

    def _row_notes(self) -> Iterator[Note]:
        kernels, of_kernels = self._file.name(KERNEL), frozenset({Fact.KERNELS})
        if not self._times.keys() & {KERNEL, COPY}:
            launch = self._launching_function() if Fact.KERNELS in self._facts else None
            self._facts -= {Fact.KERNELS, Fact.MEMCPYS, Fact.API_LINKS} if launch else set()
            yield lost_gpu_work(launch) if launch else NO_GPU_WORK
        elif self._context.stream == "queue_id":
            yield rocm.queues_note(kernels)
        if KERNEL in self._times and "kernel_id" in self._file.columns(KERNEL):
            used = self._file.used(KERNEL, "kernel_id")
            names = {number: self._symbols.get(number, (None,))[0] for number in used}
            odd = {n for n, name in names.items() if name is None or rocm.is_runtime_kernel(name)}
            listed = ", ".join(map(str, odd)) or "NULL"
            rows = self._probe.select(
                f"SELECT kernel_id, count(*) FROM {kernels} WHERE kernel_id IN ({listed}) GROUP BY 1"
            )
            if nameless := sum(count for number, count in rows if names[number] is None):
                text = "names that the file refers to but lacks"
                yield Note("nameless-id", Severity.INFO, text, nameless, kernels, of_kernels)
            named = {name: count for number, count in rows if (name := names[number]) is not None}
            if note := rocm.copies_by_kernels_note(named, kernels):
                yield note
            if self._has_counters:
                text = "kernels were serialized while the profiler measured counters"
                count = self._probe.select(f"SELECT count(*) FROM {kernels}")[0][0]
                yield Note(
                    "kernels-serialized", Severity.APPROXIMATED, text, count, kernels, of_kernels
                )
        used = self._file.used("region", "name_id") | self._file.used("sample", "name_id")
        if lost := len(used - self._functions.keys()):
            text = "names that the file refers to but lacks"
            yield Note("nameless-id", Severity.INFO, text, lost, self._file.name("string"))
        if count := self._uncategorized:
            text, where = (
                "calls and ranges without a category were left out",
                self._file.name("region"),
            )
            facts = frozenset({Fact.API_CALLS, Fact.RANGES})
            yield Note("category-unknown", Severity.DROPPED, text, count, where, facts)
        others = set(filter(None, suffixes(self._probe))) - {self._suffix}
        yield from self._file.unread(_READ, others)
        left_out = [] if HSA in self._layers.values() else self._of_kind(HSA)
        if count := self._events_of(left_out):
            yield rocm.hsa_calls_note(count, self._file.name("event"))
        if count := self._events_of(unknown := self._of_kind(None)):
            shown = sorted(cut_off(escaped(self._categories[number]), 40) for number in unknown)
            text = f"events of other categories are not read: {', '.join(shown[:_MOST_NAMED])}"
            yield Note("rows-not-read", Severity.INFO, text, count, self._file.name("event"))

    def _events_of(self, categories: Sequence[int]) -> int:
        listed = ", ".join(map(str, categories)) or "NULL"
        sql = f"SELECT count(*) FROM {self._file.name('event')} WHERE category_id IN ({listed})"
        return int(self._probe.select(sql)[0][0]) if categories else 0

    @cached_property
    def _uncategorized(self) -> int:
        # Regions without a category may be calls, ranges or anything.
        if not self._file.columns("region"):
            return 0
        known = ", ".join(map(str, self._categories)) or "NULL"
        category = self._file.joined_cell("region", "event", "category_id")
        which = f"coalesce({category} NOT IN ({known}), 1)"
        sql = f"SELECT count(*) FROM {self._file.source('region')} WHERE {which}"
        return int(self._probe.select(sql)[0][0])
