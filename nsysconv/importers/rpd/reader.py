"""Reads an RPD file as one recording: API calls and ranges, then GPU operations, then the small tables.

Of `rocpd_string` only what an imported row refers to is copied: names, and the texts of markers. The
arguments of calls, which it holds as well, may say anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.importers import rocm
from nsysconv.importers.event_arrays import (
    Array,
    PlacedRows,
    above_zero,
    column_sql,
    numbers,
    read_clock,
    read_rows,
    without,
)
from nsysconv.importers.probe import Probe
from nsysconv.importers.rocm_events import RocmReader
from nsysconv.importers.sqlite_columns import has_columns, row_count
from nsysconv.importers.sqlite_mapping import unread_note
from nsysconv.importers.unread_tables import unread_tables_note
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING
from nsysconv.store.recording import (
    ArrayRows,
    Batches,
)

_API, _OP, _LINKS = "rocpd_api", "rocpd_op", "rocpd_api_ops"
_KERNEL_CALLS, _COPY_CALLS = "rocpd_kernelapi", "rocpd_copyapi"
_STRINGS, _UNIQUE_STRINGS = "rocpd_string", "rocpd_ustring"
_NEEDED = {
    _API: ("id", "pid", "tid", "start", "end", "apiName_id"),
    _OP: ("id", "gpuId", "start", "end", "opType_id"),
}
_CALL_KIND = ("apiName_id", "domain_id", "category_id")
_FACTS = {_API: (Fact.API_CALLS, Fact.RANGES), _OP: (Fact.KERNELS, Fact.MEMCPYS)}

# What an operation is, by its type: of roctracer (`Task`: kernels of a graph), of rocprofiler-sdk, and of
# CUPTI, for RPD runs on other GPUs, too.
_KERNEL_TYPES = frozenset({"KernelExecution", "Task", "Kernel", "ConcurrentKernel"})
_SET_TYPES = frozenset({"FillBuffer", "Memset"})
_WAIT_TYPES = frozenset({"Barrier", "Marker"})
_COPY_TYPE = re.compile(r"Copy\w*To\w+$|MEMORY_COPY_|Memcpy$")
# A set, which rocprofiler-sdk lists as a copy.
_FILL = "Fill"
# hipMemcpyKind 0 to 3; 4 leaves the direction to the runtime.
_DIRECTIONS = tuple(map(codes.DIRECTIONS.index, ("HtoH", "HtoD", "DtoH", "DtoD")))

_MARKER = "UserMarker"
# How C++ and Python name operators; a marker with another text is a range of the program.
_OPERATOR = re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)+$")
_OWN_WORK = re.compile(r"\w+::writeRows$|hcc_activity_callback$|rpdflush$")
_API_CALL = re.compile(r"_*(?:hip|cuda)[A-Z]|cu[A-Z]|hsa_")
_CUDA_CALL = re.compile(r"cu(?:da)?[A-Z]")
_API_DOMAINS = frozenset({"hip", "cuda"})
_MARKER_DOMAINS = frozenset({"roctx", "nvtx"})
_OWN_DOMAIN, _LIBRARY_DOMAIN = "rpd_tracer", "miopen"
# What the program itself named, among what PyTorch recorded.
_USERS_CATEGORY = "user_scope"
_LIBRARY_CALL = codes.OPERATOR_KINDS.index("library_call")

_UNREAD = {
    "rocpd_monitor": "clocks, power and temperatures of GPUs",
    "rocpd_counter": "hardware counters",
    "rocpd_stackframe": "call stacks",
}
_READ = {_API, _OP, _LINKS, _KERNEL_CALLS, _COPY_CALLS, "rocpd_metadata"}
_VERSION = re.compile(r"\d{1,3}(?:\.\d{1,3}){0,2}$")


class RpdReader(RocmReader):
    """Reads one file."""

    def __init__(self, probe: Probe, possible: frozenset[Fact], advice: Mapping[Fact, str]) -> None:
        """Look at the times; `possible` and `advice` are those of the importer."""
        super().__init__(probe, possible, advice)
        self._start_at(read_clock(probe, {_API: ("start", "end"), _OP: ("start", "end")}))

    def _batches(self) -> Batches:
        unread: set[Fact] = set()
        for table, read in ((_API, self._calls), (_OP, self._operations)):
            missing = [name for name in _NEEDED[table] if not has_columns(self._probe, table, name)]
            if missing:
                reason = f"has no column {', '.join(missing)} and was not read"
                self._notes.append(unread_note(table, reason, _FACTS[table]))
                unread.update(_FACTS[table])
                continue
            yield from self._counted(read())
        self._facts -= {Fact.OPERATORS}
        for kind, fact in (("operator", Fact.OPERATORS), ("library_call", Fact.LIBRARY_CALLS)):
            self._facts |= {fact} if self._counts[f"rows of {kind}"] else set()
        if self._has_work:
            # One switch records kernels and copies: of the kind without rows there were none.
            self._facts |= {Fact.KERNELS, Fact.MEMCPYS}
        if self._counts["api_call"]:
            self._facts |= {Fact.THREADS, *([Fact.API_LINKS] if self._counts["linked"] else [])}
        self._facts -= unread
        yield from self._small_tables()
        return self._summary(self._version())

    def _version(self) -> str | None:
        if not has_columns(self._probe, "rocpd_metadata", "tag", "value"):
            return None
        found = self._probe.select("SELECT value FROM rocpd_metadata WHERE tag = 'schema_version'")
        versions = [str(value) for (value,) in found if _VERSION.match(str(value))]
        return versions[0] if versions else None

    # -- texts

    def _texts(self, table: str, column: str, strings: str, where: str = "1") -> dict[int, str]:
        # The texts that a column of a table refers to, by their number.
        if not (
            has_columns(self._probe, table, column)
            and has_columns(self._probe, strings, "id", "string")
        ):
            return {}
        sql = f"""SELECT id, string FROM {strings}
            WHERE id IN (SELECT {column} FROM {table} WHERE {where})"""
        return {
            number: text
            for number, text in self._probe.iterate(sql)
            if type(number) is int and isinstance(text, str)
        }

    @cached_property
    def _call_names(self) -> dict[int, str]:
        return self._texts(_API, "apiName_id", _STRINGS)

    @cached_property
    def _domains(self) -> dict[int, str]:
        return self._texts(_API, "domain_id", _STRINGS)

    @cached_property
    def _categories(self) -> dict[int, str]:
        return self._texts(_API, "category_id", _STRINGS)

    def _kind_of_call(self, name_id: Any, domain_id: Any, category_id: Any) -> str:
        # Schema 2 has no domains: there names say what a row is. A marker's text is its argument.
        name, domain = self._call_names.get(name_id, ""), self._domains.get(domain_id, "")
        if domain == _OWN_DOMAIN or _OWN_WORK.match(name):
            return "overhead"
        if domain in _MARKER_DOMAINS or name == _MARKER:
            return "marker"
        if domain in _API_DOMAINS or not name or (not domain and _API_CALL.match(name)):
            return "api_call"
        if not domain or self._categories.get(category_id) == _USERS_CATEGORY:
            return "operator" if _OPERATOR.match(name) else "range"
        return "library_call" if domain == _LIBRARY_DOMAIN else "operator"

    # -- API calls, ranges and operators

    def _calls(self) -> Iterator[ArrayRows]:
        columns = ("pid", "tid", "start", "end", "id", "args_id", *_CALL_KIND)
        selected = {name: column_sql(self._probe, _API, name, "t") for name in columns}
        texts = self._marker_texts()
        for row, cells in read_rows(self._probe, _API, selected):
            pid, tid, start, end, own_id, text, *kinds = cells.values()
            placed = self._events.place(_API, row, {"start": start, "end": end})
            thread = self._threads(placed, pid, tid)
            names = list(zip(*kinds, strict=True))
            ids = without(self._events.cells(placed, "id", own_id), 0)
            yield from self._call_rows(placed, thread, ids, names, [texts.get(t, "") for t in text])

    def _marker_texts(self) -> dict[int, str]:
        names = [str(i) for i, name in self._call_names.items() if name == _MARKER]
        domains = [str(i) for i, name in self._domains.items() if name in _MARKER_DOMAINS]
        where = f"apiName_id IN ({', '.join(names)})"
        if domains:
            where += f" OR domain_id IN ({', '.join(domains)})"
        strings = _UNIQUE_STRINGS if _UNIQUE_STRINGS in self._probe.tables else _STRINGS
        return self._texts(_API, "args_id", strings, where)

    def _call_rows(
        self,
        placed: PlacedRows,
        thread: Mapping[str, Array],
        own_ids: Array,
        names: list[tuple[Any, ...]],
        texts: list[str],
    ) -> Iterator[ArrayRows]:
        kinds, name_ids = self._kinds_and_names(names, texts, placed.sound)
        self._counts["nameless"] += int((placed.sound & (name_ids == MISSING)).sum())
        row = {**thread, "name_id": name_ids}
        zeros = np.zeros_like(name_ids)
        call = {**row, "correlation_id": own_ids, "layer": zeros}
        yield self._events.rows("api_call", placed, kinds == "api_call", call)
        yield self._events.rows("overhead", placed, kinds == "overhead", {**row, "kind": zeros})
        for kind, code in (("operator", 0), ("library_call", _LIBRARY_CALL)):
            operators = {**row, "kind": zeros + code}
            batch = self._events.rows("operator", placed, kinds == kind, operators)
            self._counts[f"rows of {kind}"] += batch.count
            yield batch
        ranges = {**row, **self._range_columns(placed)}
        yield self._events.rows("range", placed, kinds == "range", ranges)

    def _kinds_and_names(
        self, names: list[tuple[Any, ...]], texts: list[str], sound: Array
    ) -> tuple[Array, Array]:
        kind_of = {each: self._kind_of_call(*each) for each in dict.fromkeys(names)}
        kinds, ids = [], []
        for each, text, is_sound in zip(names, texts, sound.tolist(), strict=True):
            kind = kind_of[each]
            if kind == "marker":
                kind = "operator" if _OPERATOR.match(text) else "range"
            else:
                text = self._call_names.get(each[0], "")
            number = self._ids.api_name if kind == "api_call" else self._ids.name
            kinds.append(kind)
            ids.append(number(text) if is_sound and text else MISSING)
        return np.array(kinds), np.array(ids, np.int64)

    def _described(self, device: int) -> Mapping[str, Any] | None:
        # A program that calls CUDA ran on no GPU of AMD.
        is_cuda = any(map(_CUDA_CALL.match, self._call_names.values()))
        return {"name": None} if is_cuda else None

    # -- GPU operations

    def _operations(self) -> Iterator[ArrayRows]:
        types = self._texts(_OP, "opType_id", _STRINGS)
        descriptions = self._texts(_OP, "description_id", _STRINGS)
        for row, cells in read_rows(self._probe, _OP, *self._operation_columns()):
            yield from self._operation_rows(
                row,
                cells,
                [types.get(number, "") for number in cells["type"]],
                [descriptions.get(number, "") for number in cells["description"]],
            )

    def _operation_columns(self) -> tuple[dict[str, str], str]:
        # What is selected by our word, and what operations are joined with.
        probe = self._probe
        joins, places = [], {"t": _OP}
        if has_columns(probe, _LINKS, "api_id", "op_id"):
            # An operation has one call. A size belongs to a call, which may have several operations.
            joins.append(
                f"LEFT JOIN (SELECT op_id, min(api_id) AS api_id FROM {_LINKS} GROUP BY op_id) l "
                "ON l.op_id = t.id "
                f"LEFT JOIN (SELECT api_id, count(*) AS operations FROM {_LINKS} GROUP BY api_id) n "
                "ON n.api_id = l.api_id"
            )
            for alias, table, key in (
                ("a", _API, "id"),
                ("k", _KERNEL_CALLS, "api_ptr_id"),
                ("c", _COPY_CALLS, "api_ptr_id"),
            ):
                if has_columns(probe, table, key):
                    places[alias] = table
                    joins.append(f"LEFT JOIN {table} {alias} ON {alias}.{key} = l.api_id")
        selected = {}
        for word, (alias, name) in _OP_CELLS.items():
            if alias in places:
                selected[word] = column_sql(probe, places[alias], name, alias)
            else:
                selected[word] = f"{alias}.{name}" if alias in "ln" and joins else "NULL"
        return selected, " ".join(joins)

    def _operation_rows(
        self,
        row: Array,
        cells: dict[str, list[Any]],
        types: list[str],
        descriptions: list[str],
    ) -> Iterator[ArrayRows]:
        kind = np.array([*map(_kind_of_operation, types, descriptions)])
        required = {"start": cells["start"], "end": cells["end"], "gpuId": cells["device"]}
        placed = self._events.place(_OP, row, required)
        calls = [*zip(*(cells[name] for name in _CALL_KIND), strict=True)]
        called = {call for call in set(calls) if self._kind_of_call(*call) == "api_call"}
        is_call = np.array([call in called for call in calls], bool)
        shared = self._on_gpu(placed, numbers(cells["pid"]), cells["device"], cells["queue"])
        call_ids = without(numbers(cells["api"]), 0)
        shared["correlation_id"] = np.where(is_call, call_ids, MISSING)
        self._counts["linked"] += int((shared["correlation_id"] != MISSING).sum())
        self._counts["unknown types"] += int((kind == "unknown").sum())
        yield self._kernel_rows(placed, kind == "kernel", shared, cells, descriptions)
        is_copy = kind == "memcpy"
        size = above_zero(numbers(cells["size"]))
        size = self._size_of_single_copies(is_copy, size, numbers(cells["operations"]))
        pairs = list(zip(types, cells["kind"], strict=True))
        directions = {pair: _direction(*pair) for pair in set(pairs)}
        copies = {
            **shared,
            "bytes": size,
            "direction": np.array([directions[pair] for pair in pairs], np.int64),
        }
        yield self._events.rows("memcpy", placed, is_copy, copies)
        yield self._events.rows("memset", placed, kind == "memset", shared)
        yield self._events.rows("sync", placed, kind == "sync", shared)

    def _kernel_rows(
        self,
        placed: PlacedRows,
        which: Array,
        shared: dict[str, Array],
        cells: dict[str, list[Any]],
        descriptions: list[str],
    ) -> ArrayRows:
        # The tracer writes 0 for what it does not know, too.
        launch = {
            **{f"grid_{axis}": above_zero(numbers(cells[f"grid_{axis}"])) for axis in "xyz"},
            **{f"block_{axis}": above_zero(numbers(cells[f"block_{axis}"])) for axis in "xyz"},
            "shared_bytes": above_zero(numbers(cells["group_bytes"])),
            "local_bytes_per_thread": above_zero(numbers(cells["private_bytes"])),
        }
        columns = {
            **shared,
            **self._kernel_names(descriptions, which & placed.sound),
            **launch,
        }
        return self._events.rows("kernel", placed, which, columns)

    def _closing_notes(self) -> Iterator[Note]:
        yield from super()._closing_notes()
        if count := self._counts["unknown types"]:
            text = "GPU operations of unknown types were left out"
            facts = frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS})
            yield Note("unknown-code", Severity.DROPPED, text, count, _OP, facts)
        for table, what in _UNREAD.items():
            if table in self._probe.tables and (count := row_count(self._probe, table)):
                yield Note("rows-not-read", Severity.INFO, f"{what} are not read", count, table)
        yield from unread_tables_note(self._probe, _READ | _UNREAD.keys())


# What is read of an operation: our word, then the alias and the column of the table that has it.
_OP_CELLS: Mapping[str, tuple[str, str]] = {
    "start": ("t", "start"),
    "end": ("t", "end"),
    "device": ("t", "gpuId"),
    "queue": ("t", "queueId"),
    "description": ("t", "description_id"),
    "type": ("t", "opType_id"),
    "api": ("l", "api_id"),
    "operations": ("n", "operations"),
    "pid": ("a", "pid"),
    **{name: ("a", name) for name in _CALL_KIND},
    **{f"grid_{axis}": ("k", f"grid{axis.upper()}") for axis in "xyz"},
    **{f"block_{axis}": ("k", f"workgroup{axis.upper()}") for axis in "xyz"},
    "group_bytes": ("k", "groupSegmentSize"),
    "private_bytes": ("k", "privateSegmentSize"),
    "size": ("c", "size"),
    "kind": ("c", "kind"),
}


def _kind_of_operation(type_: str, description: str) -> str:
    if type_ in _KERNEL_TYPES:
        return "kernel"
    if type_ in _SET_TYPES or (type_ == "Memcpy" and description == _FILL):
        return "memset"
    if _COPY_TYPE.match(type_):
        return "memcpy"
    return "sync" if type_ in _WAIT_TYPES else "unknown"


def _direction(type_: str, kind: Any) -> int:
    # What the device did, else what the call asked for.
    found = rocm.direction(type_)
    if found or not (type(kind) is int and kind in range(len(_DIRECTIONS))):
        return found
    return _DIRECTIONS[kind]
