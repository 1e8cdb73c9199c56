"""What one recording of a rocpd file holds, beside its events: when, who, on what, and names."""

from __future__ import annotations

import re
from functools import cached_property
from statistics import median_low
from typing import Any

from nsysconv.facts import Fact
from nsysconv.importers import rocm
from nsysconv.importers.probe import Probe
from nsysconv.importers.rocpd import machine, tables
from nsysconv.importers.rocpd.suffix_tables import SuffixTables
from nsysconv.importers.rocprofiler import HIP, HSA, becomes
from nsysconv.importers.sqlite_columns import TIME_LIMIT, only
from nsysconv.launch import VALUE

Row = dict[str, Any]

KERNEL, COPY, ALLOCATION = "kernel_dispatch", "memory_copy", "memory_allocate"
# What rocprofv3 was asked for, of the settings that it hands to the program: they say whether an empty
# table means that nothing happened. Whatever else an environment holds is not looked at.
_SETTINGS = {
    "ROCPROF_KERNEL_TRACE": Fact.KERNELS,
    "ROCPROF_MEMORY_COPY_TRACE": Fact.MEMCPYS,
    "ROCPROF_MEMORY_ALLOCATION_TRACE": Fact.MEMORY_EVENTS,
    "ROCPROF_HIP_RUNTIME_API_TRACE": Fact.API_CALLS,
    "ROCPROF_MARKER_API_TRACE": Fact.RANGES,
    "ROCPROF_RCCL_API_TRACE": Fact.COLLECTIVES,
}


class RocpdSurvey:
    """Looks at the tables of one suffix; what is asked for once is kept."""

    def __init__(self, probe: Probe, suffix: str, *, includes_hsa: bool) -> None:
        """Read nothing yet; `includes_hsa`: calls of HSA are wanted beside HIP's."""
        self._probe = probe
        self._suffix = suffix
        self._file = SuffixTables(probe, suffix)
        self._includes_hsa = includes_hsa
        self._facts: set[Fact] = set()
        self._made: dict[str, int] = {}

    # -- when

    @cached_property
    def _times(self) -> dict[str, tuple[int, int | None]]:
        # For each table of events with rows: the start of one in its middle, and the earliest start; None
        # where a time is not a number, or they are further apart than a recording can last.
        found: dict[str, tuple[int, int | None]] = {}
        for table in ("region", KERNEL, COPY, ALLOCATION):
            name = self._file.name(table)
            if not {"start", "end"} <= set(self._file.columns(table)):
                continue
            count, *times = self._probe.select(
                f'SELECT count(*), min(start), max(start), min("end"), max("end") FROM {name}'
            )[0]
            if count:
                rows = self._probe.select(f"SELECT start FROM {name} LIMIT 1 OFFSET {count // 2}")
                middle = rows[0][0] if isinstance(rows[0][0], int) else 0
                sound = all(isinstance(time, int) and time > 0 for time in times)
                sound = sound and max(times) - min(times) <= TIME_LIMIT
                found[table] = (middle, times[0] if sound else None)
        return found

    @cached_property
    def _zero(self) -> int:
        # Times count from when the process began, else from the first event. A damaged cell must not move
        # the zero: what is further from the middle of the rows than a recording can last does not count.
        begins = [process.began for process in self._processes.values() if process.began > 0]
        middles = [middle for middle, _ in self._times.values() if middle > 0]
        anchor = median_low(middles or begins or [0])
        near = f"start BETWEEN {anchor - TIME_LIMIT} AND {anchor + TIME_LIMIT} AND start > 0"
        for table, (_, first) in self._times.items():
            if first is None:
                name = self._file.name(table)
                first = self._probe.select(f"SELECT min(start) FROM {name} WHERE {near}")[0][0]
            begins += [first] if isinstance(first, int) else []
        return min([anchor, *(time for time in begins if abs(time - anchor) <= TIME_LIMIT)])

    @property
    def _recording_ns(self) -> int | None:
        ends = [each.ended - self._zero for each in self._processes.values() if each.ended > 0]
        return max((end for end in ends if 0 < end <= TIME_LIMIT), default=None)

    # -- who

    @cached_property
    def _processes(self) -> dict[int, machine.Process]:
        found = machine.processes(self._probe, self._file, _SETTINGS)
        for process in found.values():
            self._facts |= {_SETTINGS[setting] for setting in process.settings}
            process.row["host"] = self._host
        return found

    @cached_property
    def _host(self) -> str | None:
        host = only(row[0] for row in self._file.rows("info_node", "hostname"))
        return host if isinstance(host, str) and re.fullmatch(VALUE, host, re.ASCII) else None

    @cached_property
    def _tids(self) -> dict[int, tuple[int, str | None]]:
        return {
            number: (tid, name if isinstance(name, str) else None)
            for number, tid, name in self._file.rows("info_thread", "id", "tid", "name")
            if isinstance(number, int) and isinstance(tid, int)
        }

    def _pid(self, number: object) -> int | None:
        # A process that the file does not describe has the number that refers to it.
        pid = self._processes[number].pid if number in self._processes else number
        return pid if isinstance(pid, int) and pid else None

    def _tid(self, number: object) -> int | None:
        tid = self._tids[number][0] if number in self._tids else number
        return tid if isinstance(tid, int) else None

    @cached_property
    def gpus(self) -> dict[int, Row]:
        """Return the agents that are GPUs, by their number."""
        names = ("id", "type", "type_index", "name", "product_name", "extdata")
        return machine.gpus(self._file.rows("info_agent", *names))

    # -- kernels, copies and calls

    @cached_property
    def _categories(self) -> dict[int, str]:
        return self._file.texts(self._file.used("event", "category_id"))

    def _of_kind(self, *kinds: int | str | None) -> list[int]:
        return [number for number, text in self._categories.items() if becomes(text) in kinds]

    @cached_property
    def _layers(self) -> dict[int, int]:
        # HIP calls HSA: both are read only if somebody asks for it.
        hsa = self._of_kind(HSA) if self._includes_hsa or not self._of_kind(HIP) else []
        return dict.fromkeys(self._of_kind(HIP), HIP) | dict.fromkeys(hsa, HSA)

    @cached_property
    def _functions(self) -> dict[int, str]:
        return self._file.texts(
            self._file.used("region", "name_id") | self._file.used("sample", "name_id")
        )

    @cached_property
    def _symbols(self) -> dict[int, tuple[str | None, str | None]]:
        # Name and mangled name of the symbols that kernels refer to.
        wanted = self._file.used(KERNEL, "kernel_id")
        names = ("id", "display_name", "kernel_name")
        found = {}
        for number, *texts in self._file.rows("info_kernel_symbol", *names):
            if number in wanted and 0 <= number < tables.MAX_SYMBOL:
                shown, symbol = (
                    rocm.kernel_name(t) if isinstance(t, str) and t else None for t in texts
                )
                found[number] = (shown or symbol, symbol)
        return found

    @cached_property
    def _symbol_ids(self) -> tables.SymbolIds:
        # They follow the ids of the rows of rocpd_string.
        first: dict[str | None, int] = {}
        for number, (name, _) in self._symbols.items():
            first.setdefault(name, number)
        same = {n: first[name] for n, (name, _) in self._symbols.items() if first[name] != n}
        there = "id" in self._file.columns("string")
        highest = (
            self._probe.select(f"SELECT max(id) FROM {self._file.name('string')}") if there else []
        )
        names = max((row[0] for row in highest if isinstance(row[0], int)), default=0) + 1
        return tables.SymbolIds(names, names + max(self._symbols, default=-1) + 1, same)

    def _name_id(self, text: str) -> int | None:
        # Ids of names that are made here follow those of symbols; None without a text.
        if not text:
            return None
        base = self._symbol_ids.mangled + max(self._symbols, default=-1) + 1
        return self._made.setdefault(text, base + len(self._made))

    def _kernel_name_id(self, symbol: object) -> int | None:
        if symbol not in self._symbols:
            return None
        ids = self._symbol_ids
        return ids.names + ids.same.get(symbol, symbol)

    @cached_property
    def _context(self) -> tables.RocpdContext:
        pids = {number: process.pid for number, process in self._processes.items()}
        tids = {number: tid for number, (tid, _) in self._tids.items()}
        directions = self._file.texts(self._file.used(COPY, "name_id"))
        by_stream = any(number > 0 for number in self._file.used(KERNEL, "stream_id"))
        joined = {"event": "event", "track": "track"}
        if self._symbols:
            joined["symbol"] = "info_kernel_symbol"
        return tables.RocpdContext(
            zero=self._zero,
            suffix=self._suffix,
            layers=self._layers,
            pids=None if all(number == pid for number, pid in pids.items()) else pids,
            tids=None if all(number == tid for number, tid in tids.items()) else tids,
            gpus=frozenset(self.gpus),
            only_gpu=only(self._file.used(KERNEL, "agent_id") or self.gpus),
            symbols=self._symbol_ids,
            directions={number: rocm.direction(text) for number, text in directions.items()},
            stream="stream_id" if by_stream else "queue_id",
            joins={
                alias: columns
                for alias, table in joined.items()
                if "id" in (columns := frozenset(self._file.columns(table)))
            },
        )
