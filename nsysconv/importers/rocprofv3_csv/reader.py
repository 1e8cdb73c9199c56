"""Reads the tables of a process as one recording."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from nsysconv import codes, schema
from nsysconv.facts import Fact
from nsysconv.importers import rocm
from nsysconv.importers.contract import Options
from nsysconv.importers.event_arrays import Array, PlacedRows, clock_of, numbers, without
from nsysconv.importers.printed.lines import LogLines
from nsysconv.importers.printed.text import RejectedLines, csv_cells, utf8_files
from nsysconv.importers.probe import Probe
from nsysconv.importers.rocm_events import RocmReader
from nsysconv.importers.rocprofiler import HIP, HSA, OPERATIONS, becomes
from nsysconv.importers.rocprofv3_csv import (
    ADVICE,
    AGENTS,
    POSSIBLE,
    columns_of,
    kind_of,
)
from nsysconv.importers.sqlite_columns import in_lists
from nsysconv.names import cut_off, escaped
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING
from nsysconv.store.recording import ArrayRows, ArrowRows, Batches, rows_of

Row = dict[str, Any]

# "Agent 4" and 4 are its number on the node, "GPU 0" that among its kind.
_AGENT = re.compile(r"(?:(Agent|GPU|CPU) )?(\d{1,6})", re.IGNORECASE)
_DEVICE_MEMORY = codes.MEMORY_KINDS.index("Device")
_DTOD, _PTOP = (codes.DIRECTIONS.index(word) for word in ("DtoD", "PtoP"))
_MOST_NAMED = 5
_TOTALS = {
    "kernel": Fact.KERNEL_TOTALS,
    "api_call": Fact.API_TOTALS,
    "memcpy": Fact.MEMORY_TOTALS,
}


@dataclass
class Table:
    """One file: its kind, its columns, and the lines of it that are not rows."""

    probe: Probe
    path: Path
    kind: str
    columns: list[str]
    rejected: RejectedLines = field(default_factory=RejectedLines)
    unfinished: int | None = None

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield line and cells of each row."""
        self.rejected, lines = RejectedLines(), LogLines(self.path)
        has_header = False
        for raw in lines:
            text = raw.decode("utf-8", "replace").strip("\ufeff\r\n")
            if not text.strip():
                continue
            cells = csv_cells(text, ",")
            if not has_header:
                has_header = True
            elif cells is None or len(cells) != len(self.columns):
                self.rejected.add(lines.line)
            else:
                yield lines.line, cells
        self.unfinished = lines.unfinished

    def batches(self) -> Iterator[Cells]:
        """Yield its rows by column, in batches of bounded size."""
        for rows in in_lists(self.rows()):
            columns = zip(*(cells for _, cells in rows), strict=True)
            found = dict(zip(self.columns, columns, strict=True))
            yield Cells(np.array([line for line, _ in rows], np.int64), found)


@dataclass(frozen=True)
class Cells:
    """Rows of a table by column; those of an absent column are None."""

    line: Array
    columns: Mapping[str, Sequence[str]]

    def __getitem__(self, name: str) -> Sequence[Any]:
        """Return the cells of a column, None for empty ones."""
        cells = self.columns.get(name)
        return [cell or None for cell in cells] if cells else [None] * len(self.line)


class TableReader(RocmReader):
    """Reads tables that belong together."""

    def __init__(self, probes: Sequence[Probe], options: Options) -> None:
        """Read nothing yet."""
        super().__init__(probes[0], POSSIBLE, ADVICE)
        self._probes = probes
        self._includes_hsa = rocm.HSA_CALLS in options.include
        self._agents: dict[str, dict[int, Row]] = {"CPU": {}, "GPU": {}}
        self._dispatches: set[str] = set()
        self._has_hip = False
        self._memory = rocm.LiveMemory()
        self._unknown: set[str] = set()
        self._pid: int | None = None

    def _batches(self) -> Batches:
        for probe in self._probes[1:]:
            self._notes += probe.notes
        with utf8_files(self._probes) as paths:
            tables = []
            for probe, path in zip(self._probes, paths, strict=True):
                columns = columns_of(probe)
                tables.append(Table(probe, path, kind_of(columns) or "", columns))
            yield from self._tables(tables)
            yield from self._small_tables()
            if self._devices and all(map(self._described, self._devices)):
                self._facts.add(Fact.DEVICES)
            for table in tables:
                self._notes += _named(table)
        if Fact.API_CALLS in self._facts and self._facts & {Fact.KERNELS, Fact.MEMCPYS}:
            self._facts |= {Fact.API_LINKS} if self._pid is not None else set()
        return self._summary()

    def _tables(self, tables: Sequence[Table]) -> Iterator[Any]:
        of_kind = {kind: [t for t in tables if t.kind == kind] for kind in {t.kind for t in tables}}
        self._look_ahead(tables)
        for table in of_kind.get(AGENTS, ()):
            self._read_agents(table)
        for table in of_kind.get("calls", ()):
            yield from self._calls(table)
        recorded = {
            "kernels": Fact.KERNELS,
            "copies": Fact.MEMCPYS,
            "allocations": Fact.MEMORY_EVENTS,
        }
        self._facts |= {fact for kind, fact in recorded.items() if kind in of_kind}
        for table in of_kind.get("kernels", ()):
            yield from self._counted(self._kernels_of(table))
        for table in of_kind.get("counters", ()):
            yield from self._counted(self._counter_rows(table, has_trace="kernels" in of_kind))
        for table in of_kind.get("copies", ()):
            yield from self._counted(self._copies(table))
        for table in of_kind.get("allocations", ()):
            yield from self._memory_events(table)
        yield from self._metrics(self._ids.name)
        for table in of_kind.get("scratch", ()):
            self._counts["scratch"] += sum(1 for _ in table.rows())
        yield from self._totals(of_kind.get("totals", ()))

    def _look_ahead(self, tables: Sequence[Table]) -> None:
        # The zero of times, the process of kernels, and whether HIP's calls are there.
        times, pids, domains = [], set(), set()
        for table in tables:
            for cells in table.batches():
                times += [numbers(cells[f"{end}_timestamp"]) for end in ("start", "end")]
                pids |= set(np.unique(numbers(cells["process_id"])).tolist())
                domains |= set(cells["domain"])
        self._start_at(clock_of(np.concatenate(times)) if times else self._clock)
        pids -= {MISSING, 0}
        self._pid = next(iter(pids)) if len(pids) == 1 else None
        self._has_hip = any(becomes(domain or "") == HIP for domain in domains)

    # -- agents

    def _read_agents(self, table: Table) -> None:
        names = ("node_id", "agent_type", "name", "product_name", "cu_count", "gfx_target_version",
                 "max_waves_per_cu", "lds_size_in_kb", "max_engine_clk_fcompute",
                 "wave_front_size")  # fmt: skip
        for cells in table.batches():
            for node, kind, name, product, *sizes in zip(
                *map(cells.__getitem__, names), strict=True
            ):
                number = numbers([node])[0]
                of_kind = self._agents.get(str(kind).upper())
                if number == MISSING or of_kind is None:
                    continue
                known = {
                    n: int(size)
                    for n, size in zip(names[4:], numbers(sizes), strict=True)
                    if size > 0
                }
                of_kind[int(number)] = {
                    "device_id": int(number),
                    "ordinal": len(of_kind),
                    "name": cut_off(product or name or "", 80) or None,
                    **rocm.device_columns(known.get),
                }

    def _agent(self, text: object) -> int:
        match = _AGENT.fullmatch(str(text))
        if match is None:
            return MISSING
        kind, number = (match[1] or "").upper(), int(match[2])
        of_kind = self._agents.get(kind)
        if not of_kind:
            return number
        return next((n for n, row in of_kind.items() if row["ordinal"] == number), number)

    def _agent_ids(self, cells: Sequence[Any]) -> Array:
        known = {text: self._agent(text) for text in set(cells)}
        return np.array([known[text] for text in cells], np.int64)

    # -- events

    def _kernels_of(self, table: Table) -> Iterator[ArrayRows]:
        for cells in table.batches():
            yield self._kernel_rows(table, cells, np.ones(len(cells.line), bool))

    def _counter_rows(self, table: Table, *, has_trace: bool) -> Iterator[ArrayRows]:
        # A dispatch is repeated for each counter. Without times there is no kernel, only its counters.
        for cells in table.batches():
            first = np.zeros(len(cells.line), bool)
            columns = ("dispatch_id", "process_id", "kernel_name", "counter_name", "counter_value")
            rows = zip(*map(cells.__getitem__, columns), strict=True)
            for place, (dispatch, pid, name, counter, value) in enumerate(rows):
                execution = f"{pid} {dispatch}"
                first[place] = execution not in self._dispatches
                self._dispatches.add(execution)
                try:
                    measured = float(value)
                except (TypeError, ValueError):
                    self._counts["unreadable"] += 1
                    continue
                if name and counter and np.isfinite(measured):
                    self._measure(rocm.kernel_name(name), counter, measured)
            if "start_timestamp" in table.columns and not has_trace:
                self._counts["serialized"] += int(first.sum())
                yield self._kernel_rows(table, cells, first)

    def _kernel_rows(self, table: Table, cells: Cells, which: Array) -> ArrayRows:
        source = table.probe.origin.name
        times = {name: cells[name] for name in ("start_timestamp", "end_timestamp")}
        agents = self._agent_ids(cells["agent_id"])
        required = {**times, "agent_id": _or_none(agents)}
        placed = self._events.place(source, cells.line, required)
        pids = numbers(cells["process_id"])
        pids = np.where(pids == MISSING, self._pid or MISSING, pids)
        stream = numbers(cells["stream_id"])
        queue = numbers(cells["queue_id"])
        by_stream = "stream_id" in table.columns and bool((stream > 0).any())
        self._counts["queues"] += 0 if by_stream else len(cells.line)
        columns = self._on_gpu(
            placed, pids, _or_none(agents), _or_none(stream if by_stream else queue)
        )
        sizes = {}
        for axis in "xyz":
            block, items = (
                numbers(cells[f"workgroup_size_{axis}"]),
                numbers(cells[f"grid_size_{axis}"]),
            )
            known = (block > 0) & (items != MISSING)
            # The grid is in work-items.
            grid = (np.where(known, items, 0) + np.where(known, block, 1) - 1) // np.where(
                known, block, 1
            )
            sizes[f"grid_{axis}"] = np.where(known, grid, MISSING)
            sizes[f"block_{axis}"] = block
        vector, more = numbers(cells["vgpr_count"]), numbers(cells["accum_vgpr_count"])
        shared = numbers(cells["lds_block_size"])
        shared = np.where(shared == MISSING, numbers(cells["group_segment_size"]), shared)
        local = numbers(cells["scratch_size"])
        return self._events.rows(
            "kernel",
            placed,
            which,
            {
                **columns,
                **self._kernel_names(cells["kernel_name"], which),
                **sizes,
                "correlation_id": without(numbers(cells["correlation_id"]), 0),
                "registers_per_thread": np.where(
                    vector == MISSING, MISSING, vector + np.where(more == MISSING, 0, more)
                ),
                "shared_bytes": shared,
                "local_bytes_per_thread": np.where(
                    local == MISSING, numbers(cells["private_segment_size"]), local
                ),
            },
        )

    def _copies(self, table: Table) -> Iterator[ArrayRows]:
        gpus = np.array(sorted(self._agents["GPU"]), np.int64)
        for cells in table.batches():
            times = {name: cells[name] for name in ("start_timestamp", "end_timestamp")}
            placed = self._events.place(table.probe.origin.name, cells.line, times)
            source, target = (
                self._agent_ids(cells[f"{end}_agent_id"]) for end in ("source", "destination")
            )
            words = {word: rocm.direction(word or "") for word in set(cells["direction"])}
            direction = np.array([words[word] for word in cells["direction"]], np.int64)
            ends = [np.array([codes.DIRECTIONS[d][at] == "D" for d in direction]) for at in (0, -1)]
            from_gpu, to_gpu = (
                is_gpu | np.isin(agent, gpus)
                for is_gpu, agent in zip(ends, (source, target), strict=True)
            )
            is_peer = (direction == _DTOD) & (source != target)
            gpus_in_use = self._devices or self._agents["GPU"].keys()
            only_gpu = next(iter(gpus_in_use)) if len(gpus_in_use) == 1 else MISSING
            device = np.where(to_gpu, target, np.where(from_gpu, source, only_gpu))
            pids = np.full(len(cells.line), self._pid or MISSING)
            stream = cells["stream_id"]
            yield self._events.rows(
                "memcpy",
                placed,
                np.ones(len(cells.line), bool),
                {
                    **self._on_gpu(placed, pids, _or_none(device), stream),
                    "correlation_id": without(numbers(cells["correlation_id"]), 0),
                    "direction": np.where(is_peer, _PTOP, direction),
                    "src_kind": np.where(from_gpu, _DEVICE_MEMORY, MISSING),
                    "dst_kind": np.where(to_gpu, _DEVICE_MEMORY, MISSING),
                    "peer_device_id": np.where(is_peer, source, MISSING),
                },
            )

    def _calls(self, table: Table) -> Iterator[ArrayRows]:
        for cells in table.batches():
            times = {name: cells[name] for name in ("start_timestamp", "end_timestamp")}
            placed = self._events.place(table.probe.origin.name, cells.line, times)
            where = self._threads(placed, cells["process_id"], cells["thread_id"])
            kinds = [becomes(domain or "") for domain in cells["domain"]]
            left_out = self._has_hip and not self._includes_hsa
            number = without(numbers(cells["correlation_id"]), 0)
            for kind in dict.fromkeys(kinds):
                own = np.array([each == kind for each in kinds])
                names = [
                    name if mine else None
                    for name, mine in zip(cells["function"], own, strict=True)
                ]
                if kind is None:
                    self._counts["unknown"] += int(own.sum())
                    self._unknown |= {
                        d for d, mine in zip(cells["domain"], own, strict=True) if mine and d
                    }
                elif kind == HSA and left_out:
                    self._counts["hsa"] += int(own.sum())
                elif isinstance(kind, int):
                    layer = np.full(len(own), kind)
                    ids = self._function_ids(names, api=True)
                    columns = {**where, "layer": layer, "name_id": ids, "correlation_id": number}
                    yield from self._counted([self._events.rows("api_call", placed, own, columns)])
                    self._facts.add(Fact.THREADS)
                elif kind == "range":
                    columns = {
                        **where,
                        **self._range_columns(placed),
                        "name_id": self._function_ids(names),
                    }
                    yield from self._counted([self._events.rows("range", placed, own, columns)])
                elif kind:
                    yield from self._others(str(kind), placed, own, where, names)

    def _others(
        self,
        kind: str,
        placed: PlacedRows,
        own: Array,
        where: dict[str, Array],
        names: Sequence[Any],
    ) -> Iterator[ArrayRows]:
        # Collectives, and calls of libraries; calls of RCCL that move nothing are such, too.
        if kind == "collective":
            words = [OPERATIONS.get(name) for name in names]
            found = np.array([word is not None for word in words])
            call = codes.COLLECTIVE_KINDS.index("call")
            columns = {
                **where,
                "kind": np.full(len(own), call),
                "name_id": self._function_ids(words),
            }
            yield from self._counted(
                [self._events.rows("collective", placed, own & found, columns)]
            )
            own, kind = own & ~found, "library_call"
        code = codes.OPERATOR_KINDS.index(kind)
        columns = {**where, "kind": np.full(len(own), code), "name_id": self._function_ids(names)}
        rows = self._events.rows("operator", placed, own, columns)
        if rows.count:
            self._facts.add(Fact.LIBRARY_CALLS)
            yield rows

    def _function_ids(self, names: Sequence[Any], *, api: bool = False) -> Array:
        number = self._ids.api_name if api else self._ids.name
        ids = {name: number(name) for name in dict.fromkeys(names) if name}
        return np.array([ids.get(name, MISSING) for name in names], np.int64)

    def _memory_events(self, table: Table) -> Iterator[ArrayRows]:
        for cells in table.batches():
            times = {name: cells[name] for name in ("start_timestamp", "end_timestamp")}
            placed = self._events.place(table.probe.origin.name, cells.line, times)
            agents, sizes = self._agent_ids(cells["agent_id"]), numbers(cells["allocation_size"])
            for place, (operation, address) in enumerate(
                zip(cells["operation"], cells["address"], strict=True)
            ):
                if "FREE" in (operation or ""):
                    size, agent = self._memory.give_back(address)
                    sizes[place] = MISSING if size is None else -size
                    agents[place] = MISSING if agent is None else agent
                elif address and sizes[place] >= 0:
                    self._memory.take(address, int(sizes[place]), int(agents[place]))
            is_gpu = np.isin(agents, np.array(list(self._agents["GPU"]), np.int64))
            rows = self._events.rows(
                "memory_event",
                placed,
                np.ones(len(cells.line), bool),
                {
                    "pid": np.full(len(cells.line), self._pid or MISSING),
                    "device_id": np.where(is_gpu, agents, MISSING),
                    "memory_kind": np.where(is_gpu, _DEVICE_MEMORY, MISSING),
                    "bytes": sizes,
                },
            )
            self._devices.update(agents[is_gpu].tolist())
            columns = {name: values for name, values in rows.columns.items() if name != "dur_ns"}
            yield ArrayRows(rows.table, columns)

    # -- totals

    def _totals(self, tables: Sequence[Table]) -> Iterator[ArrowRows]:
        found: list[Row] = []
        names = ("name", "calls", "totaldurationns", "minns", "maxns", "stddev")
        for table in tables:
            rows = [
                row
                for cells in table.batches()
                for row in zip(*map(cells.__getitem__, names), strict=True)
            ]
            kind = _kind_of_totals([row[0] or "" for row in rows])
            # Totals of what is there as events say the same again, and of whole domains nothing more.
            self._counts["domains"] += len(rows) if kind is None else 0
            if kind is None or self._counts[kind]:
                continue
            for name, *cells_of in rows:
                count, total, least, most = numbers(cells_of[:4]).tolist()
                if not name or count < 0 or total < 0:
                    self._counts["unreadable"] += 1
                    continue
                found.append(
                    {
                        "id": len(found) + 1,
                        "kind": codes.AGGREGATE_KINDS.index(kind),
                        "layer": HIP if kind == "api_call" else None,
                        "direction": rocm.direction(name) if kind == "memcpy" else None,
                        "name_id": self._total_name(kind, name, count),
                        "count": count,
                        "sum_ns": total,
                        "min_ns": None if least < 0 else least,
                        "max_ns": None if most < 0 else most,
                        "stddev_ns": _real(cells_of[4]) if count > 1 else None,
                    }
                )
                self._counts["totals"] += 1
                self._facts.add(_TOTALS[kind])
        if found:
            yield rows_of(schema.aggregate, found)

    def _total_name(self, kind: str, name: str, count: int) -> int | None:
        if kind == "kernel":
            self._kernels[rocm.kernel_name(name)] += count
            return self._ids.kernel(rocm.kernel_name(name))[0]
        return self._ids.api_name(name) if kind == "api_call" else None

    # -- the end

    def _described(self, device: int) -> Row | None:
        known = self._agents["GPU"].get(device)
        return known if known and known["name"] else None

    def _closing_notes(self) -> Iterator[Note]:
        # A table of calls alone says nothing of the work that they gave.
        is_blind = not self._facts & {Fact.KERNELS, Fact.MEMCPYS}
        for note in super()._closing_notes():
            if not (is_blind and note.slug in ("gpu-activity-missing", "no-gpu-work")):
                yield note
        if self._counts["queues"]:
            yield rocm.queues_note("")
        if count := self._counts["hsa"]:
            yield rocm.hsa_calls_note(count, "")
        yield from self._memory.notes("")
        unknown = sorted(cut_off(escaped(name), 40) for name in self._unknown)[:_MOST_NAMED]
        for slug, severity, text, count in (
            ("rows-not-read", Severity.INFO,
             f"rows of other domains are not read: {', '.join(unknown)}", self._counts["unknown"]),
            ("rows-not-read", Severity.INFO, "scratch memory is not read", self._counts["scratch"]),
            ("rows-not-read", Severity.INFO, "totals of whole domains are not read",
             self._counts["domains"]),
            ("kernels-serialized", Severity.APPROXIMATED,
             "kernels were serialized while the profiler measured counters", self._counts["serialized"]),
            ("cell-unreadable", Severity.DROPPED, "counters and totals without a number were left out",
             self._counts["unreadable"]),
        ):  # fmt: skip
            if count:
                yield Note(slug, severity, text, count)


def _named(table: Table) -> Iterator[Note]:
    # With several tables a line alone says little.
    for note in table.rejected.notes(table.unfinished):
        yield replace(note, where=f"{table.probe.origin.name} {note.where}")


def _kind_of_totals(names: Sequence[str]) -> str | None:
    # Only the name of the file says what was added up; the names of the rows do, too.
    if names and all(re.fullmatch(r"_*(?:hip|hsa)\w*", name) for name in names):
        return "api_call"
    if names and all(rocm.direction(name) for name in names):
        return "memcpy"
    return None if all(re.fullmatch(r"[A-Z_]+", name) for name in names) else "kernel"


def _or_none(values: Array) -> list[int | None]:
    return [None if value == MISSING else value for value in values.tolist()]


def _real(text: object) -> float | None:
    try:
        value = float(str(text))
    except ValueError:
        return None
    return value if np.isfinite(value) and value >= 0 else None
