"""Reads the tables of a process as one recording."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nsysconv import codes, schema
from nsysconv.facts import Fact
from nsysconv.importers import rocm
from nsysconv.importers.contract import Options
from nsysconv.importers.event_arrays import Array, PlacedRows, clock_of, coalesced, numbers, without
from nsysconv.importers.printed.csv_table import Cells, CsvTable, header_of
from nsysconv.importers.printed.text import utf8_files
from nsysconv.importers.probe import Probe
from nsysconv.importers.rocm_events import RocmReader
from nsysconv.importers.rocprofiler import HIP, HSA, OPERATIONS, becomes
from nsysconv.importers.rocprofv3_csv import ADVICE, AGENTS, PART, POSSIBLE, kind_of
from nsysconv.importers.sqlite_columns import only
from nsysconv.names import cut_off, escaped
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING
from nsysconv.store.recording import ArrayRows, ArrowRows, Batches, rows_of

Row = dict[str, Any]
# Tables by kind, each with the name of its file.
Tables = Mapping[str, Sequence[tuple[str, CsvTable]]]

_AGENT = re.compile(r"(?:(agent|gpu|cpu) )?(\d{1,6})")
_AGENT_SIZES = ("cu_count", "gfx_target_version", "max_waves_per_cu", "lds_size_in_kb",
                "max_engine_clk_fcompute", "wave_front_size")  # fmt: skip
_DEVICE_MEMORY = codes.MEMORY_KINDS.index("Device")
_DTOD, _PTOP = (codes.DIRECTIONS.index(word) for word in ("DtoD", "PtoP"))
_MOST_NAMED = 5
_RECORDED = {"kernels": Fact.KERNELS, "copies": Fact.MEMCPYS, "allocations": Fact.MEMORY_EVENTS}
_TOTALS = {
    "kernel": Fact.KERNEL_TOTALS,
    "api_call": Fact.API_TOTALS,
    "memcpy": Fact.MEMORY_TOTALS,
}
# What is added up in a file, by what it is called after; other calls are not read.
_TOTALS_OF = {
    **dict.fromkeys(("hip", "hip_api", "hsa", "hsa_api"), "api_call"),
    "kernel": "kernel",
    "memory_copy": "memcpy",
}


class TableReader(RocmReader):
    """Reads tables that belong together."""

    def __init__(self, probes: Sequence[Probe], options: Options) -> None:
        """Read nothing yet."""
        super().__init__(probes[0], POSSIBLE, ADVICE)
        self._probes = probes
        self._includes_hsa = rocm.HSA_CALLS in options.include
        # The numbers of agents on the node: by kind in their order, and by those in the process.
        self._agents: dict[str, list[int]] = {"cpu": [], "gpu": []}
        self._logical: dict[int, int] = {}
        self._gpus: dict[int, Row] = {}
        self._dispatches: set[str] = set()
        self._has_hip = False
        self._memory = rocm.LiveMemory()
        self._unknown: set[str] = set()
        self._pids: dict[str | None, int | None] = {}

    def _batches(self) -> Batches:
        for probe in self._probes[1:]:
            self._notes += probe.notes
        with utf8_files(self._probes) as paths:
            found = [
                (probe.origin.name, CsvTable(path, header_of(probe.head)))
                for probe, path in zip(self._probes, paths, strict=True)
            ]
            tables: dict[str, list[tuple[str, CsvTable]]] = {}
            for name, table in found:
                tables.setdefault(kind_of(table.names) or "", []).append((name, table))
            self._look_ahead([table for _, table in found])
            yield from self._tables(tables)
            yield from self._small_tables()
            if self._devices and all(map(self._described, self._devices)):
                self._facts.add(Fact.DEVICES)
            for name, table in found:
                self._notes += table.notes(name)
        if Fact.API_CALLS in self._facts and self._facts & {Fact.KERNELS, Fact.MEMCPYS}:
            is_known = bool(self._pids) and None not in self._pids.values()
            self._facts |= {Fact.API_LINKS} if is_known else set()
        return self._summary()

    def _tables(self, tables: Tables) -> Iterator[Any]:
        def rows(kind: str, read: Callable[[str, Cells], Iterator[Any]]) -> Iterator[Any]:
            for name, table in tables.get(kind, ()):
                for cells in table.batches():
                    yield from read(name, cells)

        yield from rows(AGENTS, self._read_agents)
        yield from rows("calls", self._calls)
        self._facts |= {fact for kind, fact in _RECORDED.items() if kind in tables}
        yield from self._counted(rows("kernels", self._kernels_of))
        counters = self._counters if "kernels" in tables else self._kernels_of_counters
        yield from self._counted(rows("counters", counters))
        yield from self._counted(rows("copies", self._copies))
        yield from rows("allocations", self._memory_events)
        yield from self._metrics(self._ids.name)
        for _, table in tables.get("scratch", ()):
            self._counts["scratch"] += sum(1 for _ in table.rows())
        yield from self._totals(tables.get("totals", ()))

    def _look_ahead(self, tables: Sequence[CsvTable]) -> None:
        # The zero of times, the process of kernels, and whether HIP's calls are there.
        times, domains = [], set()
        pids: dict[str | None, set[int]] = {}
        for cells in (cells for table in tables for cells in table.batches()):
            times += [numbers(cells[f"{end}_timestamp"]) for end in ("start", "end")]
            domains |= set(cells["domain"])
            own = without(numbers(cells["process_id"]), 0).tolist()
            for guid, pid in set(zip(cells["guid"], own, strict=True)):
                if pid != MISSING:
                    pids.setdefault(guid, set()).add(pid)
        self._start_at(clock_of(np.concatenate(times)) if times else self._clock)
        self._pids = {guid: only(found) for guid, found in pids.items()}
        self._has_hip = any(becomes(domain or "") == HIP for domain in domains)

    def _pids_of(self, cells: Cells) -> Array:
        # A table without processes is of the only one among the calls, or of those with its Guid.
        known = [self._pids.get(guid) for guid in cells["guid"]]
        return coalesced(numbers(cells["process_id"]), numbers(known))

    # -- agents

    def _read_agents(self, name: str, cells: Cells) -> Iterator[ArrayRows]:
        words = ("node_id", "logical_node_id", "agent_type", "name", "product_name", *_AGENT_SIZES)
        for number, logical, kind, gfx, product, *sizes in zip(
            *map(cells.__getitem__, words), strict=True
        ):
            node, own, *found = numbers([number, logical, *sizes]).tolist()
            of_kind = self._agents.get(str(kind).lower())
            if node == MISSING or of_kind is None or node in of_kind:
                continue
            known = {n: size for n, size in zip(_AGENT_SIZES, found, strict=True) if size > 0}
            if of_kind is self._agents["gpu"]:
                self._gpus[node] = {
                    "device_id": node,
                    "ordinal": len(of_kind),
                    "name": cut_off(product or gfx or "", 80) or None,
                    **rocm.device_columns(known.get),
                }
            of_kind.append(node)
            self._logical[own] = node
        yield from ()

    def _agent(self, text: object) -> int:
        match = _AGENT.fullmatch(str(text).lower())
        if match is None:
            return MISSING
        number, of_kind = int(match[2]), self._agents.get(match[1] or "", [])
        if match[1] == "agent":
            return self._logical.get(number, number)
        return of_kind[number] if number < len(of_kind) else number

    def _agent_ids(self, cells: Sequence[Any]) -> Array:
        known = {text: self._agent(text) for text in set(cells)}
        return np.array([known[text] for text in cells], np.int64)

    # -- events

    def _place(self, name: str, cells: Cells, **required: Array) -> PlacedRows:
        times = {word: cells[word] for word in ("start_timestamp", "end_timestamp")}
        return self._events.place(name, cells.line, {**times, **required})

    def _kernels_of(self, name: str, cells: Cells) -> Iterator[ArrayRows]:
        yield self._kernel_rows(name, cells, np.ones(len(cells.line), bool))

    def _counters(self, name: str, cells: Cells) -> Iterator[ArrayRows]:
        self._measure_all(cells)
        yield from ()

    def _kernels_of_counters(self, name: str, cells: Cells) -> Iterator[ArrayRows]:
        first = self._measure_all(cells)
        # Without times there is no kernel, only its counters.
        if "start_timestamp" in cells.columns:
            self._counts["serialized"] += int(first.sum())
            yield self._kernel_rows(name, cells, first)

    def _measure_all(self, cells: Cells) -> Array:
        # The result is which rows are the first of a dispatch, which is repeated for each counter.
        first = np.zeros(len(cells.line), bool)
        columns = ("dispatch_id", "process_id", "kernel_name", "counter_name", "counter_value")
        rows = zip(*map(cells.__getitem__, columns), strict=True)
        for place, (dispatch, pid, kernel, counter, value) in enumerate(rows):
            execution = f"{pid} {dispatch}"
            first[place] = execution not in self._dispatches
            self._dispatches.add(execution)
            measured = rocm.real(value)
            self._counts["unreadable"] += measured is None
            if kernel and counter and measured is not None:
                self._measure(rocm.kernel_name(kernel), counter, measured)
        return first

    def _kernel_rows(self, name: str, cells: Cells, which: Array) -> ArrayRows:
        agents = self._agent_ids(cells["agent_id"])
        placed = self._place(name, cells, agent_id=agents)
        stream = numbers(cells["stream_id"])
        by_stream = bool((stream > 0).any())
        self._counts["queues"] += 0 if by_stream else len(cells.line)
        columns = {
            **self._on_gpu(
                placed,
                self._pids_of(cells),
                agents,
                stream if by_stream else numbers(cells["queue_id"]),
            ),
            **self._kernel_names(cells["kernel_name"], which),
        }
        for axis in "xyz":
            block, items = (numbers(cells[f"{of}_size_{axis}"]) for of in ("workgroup", "grid"))
            columns |= {f"grid_{axis}": self._blocks(items, block), f"block_{axis}": block}
        vector, more, shared, group, local, private = (
            numbers(cells[word])
            for word in ("vgpr_count", "accum_vgpr_count", "lds_block_size", "group_segment_size",
                         "scratch_size", "private_segment_size")
        )  # fmt: skip
        registers = np.where(vector == MISSING, MISSING, vector + coalesced(more, 0))
        columns |= {
            "correlation_id": without(numbers(cells["correlation_id"]), 0),
            "registers_per_thread": registers,
            "shared_bytes": coalesced(shared, group),
            "local_bytes_per_thread": coalesced(local, private),
        }
        return self._events.rows("kernel", placed, which, columns)

    def _copies(self, name: str, cells: Cells) -> Iterator[ArrayRows]:
        placed = self._place(name, cells)
        source, target = (
            self._agent_ids(cells[f"{end}_agent_id"]) for end in ("source", "destination")
        )
        words = {word: rocm.direction(word or "") for word in set(cells["direction"])}
        direction = np.array([words[word] for word in cells["direction"]], np.int64)
        from_gpu, to_gpu = (
            np.isin(agent, self._agents["gpu"])
            | np.array([codes.DIRECTIONS[d][at] == "D" for d in direction])
            for agent, at in ((source, 0), (target, -1))
        )
        is_peer = (direction == _DTOD) & (source != target)
        only_gpu = coalesced(numbers([only(self._devices or self._gpus)]), MISSING)[0]
        device = np.where(to_gpu, target, np.where(from_gpu, source, only_gpu))
        columns = {
            **self._on_gpu(placed, self._pids_of(cells), device, cells["stream_id"]),
            "correlation_id": without(numbers(cells["correlation_id"]), 0),
            "direction": np.where(is_peer, _PTOP, direction),
            "src_kind": np.where(from_gpu, _DEVICE_MEMORY, MISSING),
            "dst_kind": np.where(to_gpu, _DEVICE_MEMORY, MISSING),
            "peer_device_id": np.where(is_peer, source, MISSING),
        }
        yield self._events.rows("memcpy", placed, np.ones(len(direction), bool), columns)

    def _calls(self, name: str, cells: Cells) -> Iterator[ArrayRows]:
        placed = self._place(name, cells)
        where = self._threads(placed, cells["process_id"], cells["thread_id"])
        calls = {**where, "correlation_id": without(numbers(cells["correlation_id"]), 0)}
        domains, functions = cells["domain"], cells["function"]
        kinds = [becomes(domain or "") for domain in domains]
        for kind in dict.fromkeys(kinds):
            own = np.array([each == kind for each in kinds])
            names = [each if mine else None for each, mine in zip(functions, own, strict=True)]
            if kind is None:
                self._counts["unknown"] += int(own.sum())
                self._unknown |= {d for d, mine in zip(domains, own, strict=True) if mine and d}
            elif kind == HSA and self._has_hip and not self._includes_hsa:
                self._counts["hsa"] += int(own.sum())
            elif isinstance(kind, int):
                columns = {**calls, "layer": np.full(len(own), kind)}
                columns["name_id"] = self._function_ids(names, self._ids.api_name)
                yield from self._counted([self._events.rows("api_call", placed, own, columns)])
                self._facts.add(Fact.THREADS)
            elif kind == "range":
                columns = {**where, **self._range_columns(placed)}
                columns["name_id"] = self._function_ids(names, self._ids.name)
                yield from self._counted([self._events.rows("range", placed, own, columns)])
            elif kind == "collective":
                words = [OPERATIONS.get(each or "") for each in names]
                moves = own & np.array([word is not None for word in words])
                columns = {**where, "name_id": self._function_ids(words, self._ids.name)}
                columns["kind"] = np.full(len(own), codes.COLLECTIVE_KINDS.index("call"))
                yield from self._counted([self._events.rows("collective", placed, moves, columns)])
                yield from self._operators(placed, own & ~moves, where, names)
            elif kind:
                yield from self._operators(placed, own, where, names, str(kind))

    def _operators(
        self,
        placed: PlacedRows,
        own: Array,
        where: Mapping[str, Array],
        names: Sequence[Any],
        kind: str = "library_call",
    ) -> Iterator[ArrayRows]:
        code = np.full(len(own), codes.OPERATOR_KINDS.index(kind))
        columns = {**where, "kind": code, "name_id": self._function_ids(names, self._ids.name)}
        rows = self._events.rows("operator", placed, own, columns)
        if rows.count:
            self._facts.add(Fact.LIBRARY_CALLS)
            yield rows

    @staticmethod
    def _function_ids(names: Sequence[Any], number: Callable[[str], int]) -> Array:
        ids = {name: number(name) for name in dict.fromkeys(names) if name}
        return np.array([ids.get(name, MISSING) for name in names], np.int64)

    def _memory_events(self, name: str, cells: Cells) -> Iterator[ArrayRows]:
        placed = self._place(name, cells)
        agents, sizes = self._agent_ids(cells["agent_id"]), numbers(cells["allocation_size"])
        pids, operations, addresses = self._pids_of(cells), cells["operation"], cells["address"]
        is_scratch = np.array([(each or "").startswith("SCRATCH") for each in operations], bool)
        self._counts["scratch"] += int(is_scratch.sum())
        for place in np.argsort(placed.start_ns, kind="stable").tolist():
            block = (int(pids[place]), addresses[place])
            if is_scratch[place]:
                continue
            if "FREE" in (operations[place] or ""):
                size, agent = self._memory.give_back(block)
                sizes[place] = MISSING if size is None else -size
                agents[place] = MISSING if agent is None else agent
            elif addresses[place] and sizes[place] >= 0:
                self._memory.take(block, int(sizes[place]), int(agents[place]))
        is_gpu = np.isin(agents, self._agents["gpu"]) & ~is_scratch
        self._devices.update(agents[is_gpu].tolist())
        columns = {
            "pid": pids,
            "device_id": np.where(is_gpu, agents, MISSING),
            "memory_kind": np.where(is_gpu, _DEVICE_MEMORY, MISSING),
            "bytes": sizes,
        }
        rows = self._events.rows("memory_event", placed, ~is_scratch, columns)
        yield ArrayRows(rows.table, {k: v for k, v in rows.columns.items() if k != "dur_ns"})

    # -- totals

    def _totals(self, tables: Sequence[tuple[str, CsvTable]]) -> Iterator[ArrowRows]:
        names = ("name", "calls", "totaldurationns", "minns", "maxns", "stddev")
        found: list[tuple[str, int, tuple[Any, ...]]] = []
        for file, table in tables:
            rows = [
                row
                for cells in table.batches()
                for row in zip(*map(cells.__getitem__, names), strict=True)
            ]
            kind = _kind_of_totals(file, [row[0] or "" for row in rows])
            # Totals of what is there as events say the same again, and of whole domains nothing more.
            self._counts["domains"] += len(rows) if kind is None else 0
            if kind is not None and not self._counts[kind]:
                found += [(kind, HSA * (row[0] or "").startswith("hsa_"), row) for row in rows]
        has_hip = any(kind == "api_call" and layer == HIP for kind, layer, _ in found)
        if has_hip and not self._includes_hsa:
            hsa = [row for _, layer, row in found if layer == HSA]
            self._counts["hsa"] += sum(max(0, n) for n in numbers([row[1] for row in hsa]).tolist())
            found = [each for each in found if each[1] != HSA]
        totals = [row for each in found if (row := self._total(*each)) is not None]
        if totals:
            yield rows_of(schema.aggregate, [{"id": i, **row} for i, row in enumerate(totals, 1)])

    def _total(self, kind: str, layer: int, row: tuple[Any, ...]) -> Row | None:
        name, stddev = row[0], rocm.real(row[5])
        count, total, least, most = numbers(row[1:5]).tolist()
        if not name or count < 0 or total < 0:
            self._counts["unreadable"] += 1
            return None
        self._counts["totals"] += 1
        self._facts.add(_TOTALS[kind])
        return {
            "kind": codes.AGGREGATE_KINDS.index(kind),
            "layer": layer if kind == "api_call" else None,
            "direction": rocm.direction(name) if kind == "memcpy" else None,
            "name_id": self._total_name(kind, name, count),
            "count": count,
            "sum_ns": total,
            "min_ns": None if least < 0 else least,
            "max_ns": None if most < 0 else most,
            "stddev_ns": stddev if count > 1 and stddev is not None and stddev >= 0 else None,
        }

    def _total_name(self, kind: str, name: str, count: int) -> int | None:
        if kind == "kernel":
            self._kernels[rocm.kernel_name(name)] += count
            return self._ids.kernel(rocm.kernel_name(name))[0]
        return self._ids.api_name(name) if kind == "api_call" else None

    # -- the end

    def _described(self, device: int) -> Row | None:
        known = self._gpus.get(device)
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


def _kind_of_totals(file: str, names: Sequence[str]) -> str | None:
    # The name of the file says what was added up; where it does not, the names of the rows do.
    if (match := PART.fullmatch(file)) and match["kind"]:
        return _TOTALS_OF.get(match["kind"].lower())
    if names and all(re.fullmatch(r"_*(?:hip|hsa)\w*", name) for name in names):
        return "api_call"
    if names and all(rocm.direction(name) for name in names):
        return "memcpy"
    return None if all(re.fullmatch(r"[A-Z_]+", name) for name in names) else "kernel"
