"""Reads a database or a printed table of rocprof as one recording.

Of the arguments of calls only the number of bytes that a copy moves is read. They may say anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nsysconv import codes, schema
from nsysconv.facts import Fact
from nsysconv.importers import rocm
from nsysconv.importers.event_arrays import (
    Array,
    PlacedRows,
    above_zero,
    clock_of,
    column_sql,
    numbers,
    read_clock,
    read_rows,
    without,
)
from nsysconv.importers.printed.csv_table import CsvTable, header_of
from nsysconv.importers.printed.text import parse_digits, utf8_files
from nsysconv.importers.probe import Probe
from nsysconv.importers.rocm_events import RocmReader
from nsysconv.importers.rocprof.tables import (
    COPY,
    HIP,
    HSA,
    KERNEL_COLUMNS,
    MAIN,
    NEEDLESS,
    OPS,
    ROCTX,
    Layout,
    counters,
    layout_of,
    main_table,
)
from nsysconv.importers.sqlite_columns import has_columns, row_count
from nsysconv.importers.sqlite_mapping import unread_note
from nsysconv.importers.unread_tables import unread_tables_note
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING
from nsysconv.store.recording import (
    ArrayRows,
    ArrowRows,
    Batches,
    Recording,
    rows_of,
)

_TIMES = ("BeginNs", "EndNs")
_SIZE = re.compile(r"\bsizeBytes\((\d{1,18})\)")
_BARRIER, _FILL = "<barrier packet>", "FillBuffer"
_API_NAME, _HSA_NAME = re.compile(r"_*hip[A-Z]"), re.compile(r"hsa_")
_FACTS = {
    HIP: Fact.API_CALLS, HSA: Fact.API_CALLS, OPS: Fact.KERNELS, COPY: Fact.MEMCPYS, ROCTX: Fact.RANGES,
}  # fmt: skip
Cells = Mapping[str, Sequence[Any]]


class _Reader(RocmReader):
    # What is common to databases and printed tables: rows of kernels, and counters.

    def _kernel_rows(self, source: str, row: Array, cells: Cells) -> ArrayRows:
        required = {"start": cells["start"], "end": cells["end"], "GPU": cells["device"]}
        placed = self._events.place(source, row, required)
        number = {
            name: self._events.cells(placed, name, cells[name])
            for name in ("grid", "block", "shared", "local", "vgpr", "accum")
        }
        grid, block = number["grid"], number["block"]
        # Grids are, like blocks, the product of all dimensions.
        has_registers = (number["vgpr"] >= 0) & (number["vgpr"] < 1 << 20)
        accumulators = np.where(number["accum"] > 0, number["accum"], 0)
        registers = np.where(has_registers, number["vgpr"], 0) + accumulators
        everything = np.ones(len(row), bool)
        pids = self._events.cells(placed, "pid", cells["pid"])
        columns = {
            **self._on_gpu(placed, pids, cells["device"], cells["queue"]),
            **self._kernel_names(cells["name"], placed.sound),
            "grid_x": above_zero(self._blocks(grid, block)),
            "block_x": above_zero(block),
            "registers_per_thread": np.where(has_registers, registers, MISSING),
            "shared_bytes": np.where(number["shared"] >= 0, number["shared"], MISSING),
            "local_bytes_per_thread": np.where(number["local"] >= 0, number["local"], MISSING),
        }
        return self._events.rows("kernel", placed, everything, columns)

    def _measure_all(self, names: Sequence[Any], counter: str, cells: Sequence[Any]) -> None:
        for name, cell in zip(names, cells, strict=True):
            value = rocm.real(cell)
            if value is None:
                self._counts["odd counters"] += cell not in (None, "")
            elif isinstance(name, str) and name:
                self._measure(name, counter, value)

    def _small_tables(self) -> Iterator[ArrowRows]:
        for key in [key for key in self._measured if key[0] not in self._kernel_ids]:
            del self._measured[key]
        yield from self._metrics(lambda name: self._kernel_ids[name][0])
        yield from super()._small_tables()

    def _closing_notes(self) -> Iterator[Note]:
        yield from super()._closing_notes()
        if self._measured:
            text = "kernels ran one after the other while counters were measured"
            count, facts = self._counts["kernel"], frozenset({Fact.KERNELS})
            yield Note("kernels-serialized", Severity.APPROXIMATED, text, count, facts=facts)
        if count := self._counts["odd counters"]:
            text = "cells of counters that are not numbers"
            facts = frozenset({Fact.METRICS})
            yield Note("cell-unreadable", Severity.DROPPED, text, count, facts=facts)


# -- databases


class DatabaseReader(_Reader):
    """Reads a database; `hsa`: with calls of HSA."""

    def __init__(
        self, probe: Probe, possible: frozenset[Fact], advice: Mapping[Fact, str], *, hsa: bool
    ) -> None:
        """Look at the times; `possible` and `advice` are those of the importer."""
        super().__init__(probe, possible, advice)
        self._hsa = hsa
        self._main = main_table(probe) or ""
        self._start_at(
            read_clock(probe, dict.fromkeys((self._main, OPS, COPY, HIP, ROCTX, HSA), _TIMES))
        )

    def _batches(self) -> Batches:
        yield from self._counted(self._calls(HIP, 0))
        if self._hsa:
            yield from self._counted(self._calls(HSA, 1))
        elif HSA in self._probe.tables and (count := row_count(self._probe, HSA)):
            self._notes.append(rocm.hsa_calls_note(count, HSA))
        yield from self._counted(self._ranges())
        yield from self._counted(self._operations())
        # Both tables list the same kernels, and only one of them their calls.
        if self._counts["kernel"] and self._main and (count := row_count(self._probe, self._main)):
            text = "kernels are in two tables; those of OPS were read, which have calls"
            facts = frozenset({Fact.KERNELS})
            where = self._main
            self._notes.append(
                Note("kernels-in-two-tables", Severity.INFO, text, count, where, facts)
            )
        else:
            yield from self._counted(self._kernels_of_main())
        yield from self._counted(self._copies())
        if self._counts["api_call"]:
            self._facts.add(Fact.THREADS)
            if self._counts["linked"]:
                self._facts.add(Fact.API_LINKS)
        yield from self._small_tables()
        self._notes += unread_tables_note(self._probe, {*MAIN, HIP, HSA, OPS, COPY, ROCTX})
        return self._summary()

    def _read(
        self, table: str, names: Sequence[str], join: str = "", more: Sequence[str] = ()
    ) -> Iterator[tuple[Array, dict[str, list[Any]]]]:
        # The numbers and cells of rows of a table of events, and of what it is joined with.
        probe = self._probe
        if table not in probe.tables:
            return
        missing = [name for name in (*_TIMES, "Name") if not has_columns(probe, table, name)]
        if missing:
            if row_count(probe, table):
                reason = f"has no column {', '.join(missing)} and was not read"
                self._notes.append(unread_note(table, reason, [_FACTS[table]]))
            return
        cells = {name: column_sql(probe, table, name, "t") for name in names}
        yield from read_rows(probe, table, cells | {cell: cell for cell in more}, join)

    def _calls(self, table: str, layer: int) -> Iterator[ArrayRows]:
        for row, cells in self._read(table, ("BeginNs", "EndNs", "Name", "pid", "tid", "Index")):
            placed = self._place(table, row, cells)
            # HSA counts its calls by itself.
            index = self._events.cells(placed, "Index", cells["Index"])
            yield self._events.rows("api_call", placed, np.ones(len(row), bool), {
                **self._threads(placed, cells["pid"], cells["tid"]),
                "correlation_id": without(index, 0) if layer == 0 else np.full(len(row), MISSING),
                "layer": np.full(len(row), layer, np.int64),
                "name_id": self._name_ids(placed, cells["Name"], self._ids.api_name),
            })  # fmt: skip

    def _place(self, table: str, row: Array, cells: Cells, *required: str) -> PlacedRows:
        columns = {name: cells[name] for name in (*_TIMES, *required)}
        return self._events.place(table, row, columns)

    def _ranges(self) -> Iterator[ArrayRows]:
        for row, cells in self._read(ROCTX, ("BeginNs", "EndNs", "Name", "pid", "tid")):
            placed = self._place(ROCTX, row, cells)
            yield self._events.rows("range", placed, np.ones(len(row), bool), {
                **self._threads(placed, cells["pid"], cells["tid"]),
                **self._range_columns(placed),
                "name_id": self._name_ids(placed, cells["Name"], self._ids.name),
            })  # fmt: skip

    # -- GPU work

    def _kernels_of_main(self) -> Iterator[ArrayRows]:
        probe, table = self._probe, self._main
        columns = probe.tables[table].columns
        measured = counters(columns)
        words = {
            word: next((name for name in names if name in columns), names[0])
            for word, names in KERNEL_COLUMNS.items()
        } | {counter: counter for counter in measured}
        selected = {word: column_sql(probe, table, name, "t") for word, name in words.items()}
        for row, cells in read_rows(probe, table, selected):
            yield self._kernel_rows(table, row, cells)
            for counter in measured:
                self._measure_all(cells["name"], counter, cells[counter])

    _OP_COLUMNS = ("BeginNs", "EndNs", "Name", "dev-id", "queue-id", "pid", "Index")

    def _gpu_columns(self, placed: PlacedRows, cells: Cells) -> dict[str, Array]:
        pids = self._events.cells(placed, "pid", cells["pid"])
        shared = self._on_gpu(placed, pids, cells["dev-id"], cells["queue-id"])
        index = without(self._events.cells(placed, "Index", cells["Index"]), 0)
        self._counts["linked"] += int((index != MISSING).sum())
        return {**shared, "correlation_id": index}

    def _operations(self) -> Iterator[ArrayRows]:
        for row, cells in self._read(OPS, self._OP_COLUMNS):
            placed = self._place(OPS, row, cells, "dev-id")
            shared = self._gpu_columns(placed, cells)
            is_wait = np.array([text == _BARRIER for text in cells["Name"]], bool)
            names = self._kernel_names(cells["Name"], ~is_wait & placed.sound)
            yield self._events.rows("kernel", placed, ~is_wait, {**shared, **names})
            yield self._events.rows("sync", placed, is_wait, shared)

    def _copies(self) -> Iterator[ArrayRows]:
        # A size is in the arguments of the call, which may have made several copies.
        join, more = "", []
        if has_columns(self._probe, HIP, "Index", "pid", "args") and has_columns(
            self._probe, COPY, "Index", "pid"
        ):
            join = (
                'LEFT JOIN (SELECT "Index" AS i, pid AS p, min(args) AS args FROM HIP '
                """WHERE args LIKE '%sizeBytes(%' GROUP BY 1, 2) h ON h.i = t."Index" AND h.p = t.pid """
                'LEFT JOIN (SELECT "Index" AS i, pid AS p, count(*) AS copies FROM COPY GROUP BY 1, 2) n '
                'ON n.i = t."Index" AND n.p = t.pid'
            )
            more = ["h.args", "n.copies"]
        for row, cells in self._read(COPY, self._OP_COLUMNS, join, more):
            placed = self._place(COPY, row, cells, "dev-id")
            shared = self._gpu_columns(placed, cells)
            sizes = [
                _SIZE.search(a) if isinstance(a, str) else None for a in cells.get("h.args", [])
            ]
            size = numbers([m and int(m[1]) for m in sizes] or [None] * len(row))
            copies = numbers(cells.get("n.copies", [1] * len(row)))
            size = self._size_of_single_copies(np.ones(len(row), bool), size, copies)
            words = [text if isinstance(text, str) else "" for text in cells["Name"]]
            is_set = np.array([word == _FILL for word in words], bool)
            directions = np.array([rocm.direction(word) for word in words], np.int64)
            copy = {**shared, "bytes": size, "direction": directions}
            yield self._events.rows("memcpy", placed, ~is_set, copy)
            yield self._events.rows("memset", placed, is_set, {**shared, "bytes": size})


# -- CSV


class CsvReader(_Reader):
    """Reads a printed table: kernels, or totals of kernels, calls or copies."""

    def recordings(self) -> Iterator[Recording]:
        """Yield the recording; its rows are read while `batches` is used up."""
        with utf8_files([self._probe]) as (path,):
            self._table = CsvTable(path, header_of(self._probe.head), NEEDLESS)
            is_totals = layout_of(self._probe) is Layout.TOTALS
            batches = self._totals() if is_totals else self._batches()
            yield Recording(batches, possible=self._possible)

    def _batches(self) -> Batches:
        times = [
            numbers(cells[name.lower()])
            for cells in self._table.batches()
            for word in ("start", "end")
            for name in KERNEL_COLUMNS[word]
        ]
        self._start_at(clock_of(np.concatenate(times)) if times else self._clock)
        yield from self._counted(self._kernels_of_lines())
        yield from self._small_tables()
        self._notes += self._table.notes(facts=frozenset({Fact.KERNELS}))
        return self._summary()

    def _kernels_of_lines(self) -> Iterator[ArrayRows]:
        measured = counters(self._table.names)
        columns = {
            word: next((name for name in map(str.lower, names) if name in self._table.columns), "")
            for word, names in KERNEL_COLUMNS.items()
        }
        for cells in self._table.batches():
            of_kernels = {word: cells[name] for word, name in columns.items()}
            yield self._kernel_rows("", cells.line, of_kernels)
            for counter in measured:
                self._measure_all(of_kernels["name"], counter, cells[counter.lower()])

    def _totals(self) -> Batches:
        rows = []
        for line, (name, *cells) in self._table.rows():
            count, total = (parse_digits(cell.strip()) for cell in cells[:2])
            if count is None or total is None or not name.strip():
                self._table.rejected.add(line)
            else:
                rows.append((line, rocm.kernel_name(name.strip()), count, total))
        kind = _kind_of_totals([name for _, name, _, _ in rows])
        barriers = [row for row in rows if kind == "kernel" and row[1] == _BARRIER]
        yield rows_of(schema.aggregate, [
            {"id": number, **self._total_of(kind, name), "count": count, "sum_ns": total}
            for number, (_, name, count, total) in enumerate(
                (row for row in rows if row not in barriers), 1)
        ])  # fmt: skip
        facts = {"api_call": Fact.API_TOTALS, "memory": Fact.MEMORY_TOTALS}
        fact = facts.get(kind, Fact.KERNEL_TOTALS)
        if rows:
            self._facts.add(fact)
            self._counts["totals"] = len(rows)
        for line, _, count, total in barriers:
            text = f"barrier packets wait and are not kernels: {total:,} ns in total were left out"
            where = f"line {line}"
            self._notes.append(
                Note("barriers-left-out", Severity.INFO, text, count, where, frozenset({fact}))
            )
        yield from self._small_tables()
        self._notes += self._table.notes(facts=frozenset({fact}))
        return self._summary()

    def _total_of(self, kind: str, name: str) -> dict[str, Any]:
        code = codes.AGGREGATE_KINDS.index
        if kind == "api_call":
            layer = 1 if _HSA_NAME.match(name) else 0
            return {"kind": code(kind), "layer": layer, "name_id": self._ids.api_name(name)}
        if kind == "memory":
            direction = rocm.direction(name)
            return (
                {"kind": code("memset")}
                if name == _FILL
                else {"kind": code("memcpy"), "direction": direction}
            )
        self._kernels[name] += 1
        name_id, _ = self._ids.kernel(name)
        return {"kind": code("kernel"), "name_id": name_id}


def _kind_of_totals(names: Sequence[str]) -> str:
    # The file's name would say it, but files are renamed.
    if names and all(rocm.direction(name) or name == _FILL for name in names):
        return "memory"
    if names and all(_API_NAME.match(name) or _HSA_NAME.match(name) for name in names):
        return "api_call"
    return "kernel"
