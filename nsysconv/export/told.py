"""How rows are told: names, categories and arguments, kind by kind.

Labels, categories and names are those that PyTorch's profiler uses where it has such rows, so that
programs which know its traces know these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from nsysconv import codes
from nsysconv.export.about import About
from nsysconv.export.ordered import Coded, Rows
from nsysconv.export.telling import Json, Told, Triple, always, reads, words
from nsysconv.report import MISSING

Array = np.ndarray

MARK = codes.RANGE_KINDS.index("mark")
_UNKNOWN = codes.MEMORY_KINDS.index("Unknown")
_API_CATEGORIES = ("cuda_runtime", "cuda_driver")
_OPERATOR_CATEGORIES = ("cpu_op", "python_function", "directive", "library_call")


_WHERE = ("device_id", "context_id", "stream_id", "correlation_id")
_GRID = tuple(f"{of}_{axis}" for of in ("grid", "block") for axis in "xyz")


def _where(rows: Rows, stream: str = "stream") -> dict[str, Any]:
    where = {"device": rows["device_id"], "context": rows["context_id"], stream: rows["stream_id"]}
    if "green_context_id" in rows:
        where["green context"] = _not_zero(rows["green_context_id"])
    return where


def _not_zero(values: Array) -> Array:
    result: Array = np.where(values == 0, MISSING, values)
    return result


@reads(
    *_WHERE,
    "green_context_id",
    "name_id",
    *_GRID,
    "registers_per_thread",
    "static_shared_bytes",
    "dynamic_shared_bytes",
    "shared_bytes",
    "local_bytes_per_thread",
    "occupancy_pct",
    "graph_node_id",
)
def kernel(rows: Rows, about: About) -> Told:
    """Kernels."""
    static, dynamic = rows["static_shared_bytes"], rows["dynamic_shared_bytes"]
    each = [np.where(size == MISSING, 0, size) for size in (static, dynamic)]
    both = np.where((static == MISSING) & (dynamic == MISSING), MISSING, each[0] + each[1])
    shared = rows["shared_bytes"]
    return Told(
        always("kernel", len(static)),
        about.names.of(rows["name_id"]),
        {
            **_where(rows),
            "grid": Triple(*(rows[f"grid_{axis}"] for axis in "xyz")),
            "block": Triple(*(rows[f"block_{axis}"] for axis in "xyz")),
            "registers per thread": rows["registers_per_thread"],
            "shared memory": np.where(shared == MISSING, both, shared),
            "static shared memory": static,
            "dynamic shared memory": dynamic,
            "local memory per thread": rows["local_bytes_per_thread"],
            "est. achieved occupancy %": rows["occupancy_pct"],
        },
        {
            "graph node id": _not_zero(rows["graph_node_id"]),
            "correlation": rows["correlation_id"],
        },
    )


@reads(
    *_WHERE,
    "green_context_id",
    "bytes",
    "dur_ns",
    "direction",
    "src_kind",
    "dst_kind",
    "peer_device_id",
    "copy_count",
    "graph_node_id",
)
def memcpy(rows: Rows, about: About) -> Told:
    """Copies."""
    count = len(rows["bytes"])
    kinds = len(codes.MEMORY_KINDS)
    direction = words(rows["direction"], codes.DIRECTIONS).numbers
    source, target = (words(rows[c], codes.MEMORY_KINDS).numbers for c in ("src_kind", "dst_kind"))
    number = ((direction + 1) * (kinds + 1) + source + 1) * (kinds + 1) + target + 1
    return Told(
        always("gpu_memcpy", count),
        Coded(number, _copy_names()),
        {**_where(rows), "peer device": rows["peer_device_id"], "copies": rows["copy_count"]},
        {
            "bytes": rows["bytes"],
            "memory bandwidth (GB/s)": _bandwidth(rows),
            "graph node id": _not_zero(rows["graph_node_id"]),
            "correlation": rows["correlation_id"],
        },
    )


@cache
def _copy_names() -> tuple[str, ...]:
    """Names of copies by direction and kinds of memory read and written, none of each first."""
    texts = []
    for way in (codes.DIRECTIONS[0], *codes.DIRECTIONS):
        for source in (None, *codes.MEMORY_KINDS):
            for target in (None, *codes.MEMORY_KINDS):
                unknown = codes.MEMORY_KINDS[_UNKNOWN]
                known = f" ({source or unknown} -> {target or unknown})" if source or target else ""
                texts.append(f"Memcpy {way}{known}")
    return tuple(texts)


def _bandwidth(rows: Rows) -> Array:
    """Bytes per ns, which is GB/s; NaN where it cannot be told."""
    size, dur = rows["bytes"], rows["dur_ns"]
    known = (size != MISSING) & (dur > 0)
    return np.where(known, np.round(size / np.where(known, dur, 1), 6), np.nan)


@reads(*_WHERE, "green_context_id", "bytes", "dur_ns", "memory_kind", "value", "graph_node_id")
def memset(rows: Rows, about: About) -> Told:
    """Sets."""
    kind = words(rows["memory_kind"], codes.MEMORY_KINDS)
    texts = ["Memset", *(f"Memset ({word})" for word in codes.MEMORY_KINDS)]
    return Told(
        always("gpu_memset", len(kind.numbers)),
        Coded(kind.numbers + 1, texts),
        {**_where(rows), "value": rows["value"]},
        {
            "bytes": rows["bytes"],
            "memory bandwidth (GB/s)": _bandwidth(rows),
            "graph node id": _not_zero(rows["graph_node_id"]),
            "correlation": rows["correlation_id"],
        },
    )


@reads(*_WHERE, "bytes", "dur_ns", "direction", "cause", "address")
def migration(rows: Rows, about: About) -> Told:
    """Migrations of unified memory."""
    direction = words(rows["direction"], codes.DIRECTIONS).numbers
    texts = [f"UM {word}" for word in codes.DIRECTIONS]
    return Told(
        always("unified_memory", len(direction)),
        Coded(np.maximum(direction, 0), texts),
        {**_where(rows, "on stream"), "cause": rows["cause"]},
        {"bytes": rows["bytes"], "memory bandwidth (GB/s)": _bandwidth(rows),
         "address": rows["address"], "correlation": rows["correlation_id"]},
    )  # fmt: skip


@reads(*_WHERE, "graph_id", "graph_exec_id")
def graph_launch(rows: Rows, about: About) -> Told:
    """Launches of graphs that are one interval."""
    count = len(rows["row"])
    return Told(
        always("graph_launch", count),
        always("Graph launch", count),
        {**_where(rows, "on stream"), "graph id": rows["graph_id"],
         "graph exec id": rows["graph_exec_id"]},
        {"correlation": rows["correlation_id"]},
    )  # fmt: skip


@reads(*_WHERE, "sync_type", "event_id")
def sync(rows: Rows, about: About) -> Told:
    """Waits."""
    count = len(rows["row"])
    where = _where(rows)
    # As the profiler writes a wait that is for no stream.
    where["stream"] = np.where(where["stream"] == MISSING, -1, where["stream"])
    return Told(
        always("cuda_sync", count),
        always("Synchronization", count),
        {**where, "sync type": rows["sync_type"]},
        {"wait_on_cuda_event_id": rows["event_id"], "correlation": rows["correlation_id"]},
    )


@reads("layer", "name_id", "result", "correlation_id")
def api_call(rows: Rows, about: About) -> Told:
    """API calls."""
    return Told(
        Coded(np.where(rows["layer"] == 1, 1, 0), _API_CATEGORIES),
        about.names.of(rows["name_id"], plain=True),
        {"result": rows["result"]},
        {"correlation": rows["correlation_id"]},
    )


@reads(
    "start_ns",
    "dur_ns",
    "pid",
    "end_tid",
    "kind",
    "domain_id",
    "category_id",
    "color",
    "name_id",
    "text",
)
def range_(rows: Rows, about: About) -> Told:
    """Ranges and marks; ranges that were never closed last until the recording ends."""
    registered, own = about.names.of(rows["name_id"]), rows["text"]
    numbers = np.where(registered.numbers >= 0, registered.numbers,
                       np.where(own.numbers >= 0, own.numbers + len(registered.texts), -1))  # fmt: skip
    instant = rows["kind"] == MARK
    return Told(
        Coded(instant.astype(np.int64), ("user_annotation", "mark")),
        Coded(numbers, [*registered.texts, *own.texts]),
        {
            "kind": words(rows["kind"], codes.RANGE_KINDS),
            "domain": _domain(rows, about),
            "category": _category(rows, about),
            "color": rows["color"],
            "closed by thread": rows["end_tid"],
            "closed": Coded(np.where((rows["dur_ns"] == MISSING) & ~instant, 0, -1), ("no",)),
        },
        dur=about.closed(rows["start_ns"], rows["dur_ns"]),
    )


def _pairs(rows: Rows, columns: tuple[str, ...], known: Mapping[Any, str]) -> Coded:
    keys = np.stack([rows[c] for c in columns], 1)
    values, numbers = np.unique(keys, axis=0, return_inverse=True)
    texts = [known.get(tuple(value)) for value in values.tolist()]
    has = np.array([text is not None for text in texts], bool)
    numbers = numbers.reshape(-1)
    return Coded(np.where(has[numbers] if len(texts) else False, numbers, -1),
                 [text or "" for text in texts])  # fmt: skip


def _domain(rows: Rows, about: About) -> Coded:
    return _pairs(rows, ("pid", "domain_id"), about.domains)


def _category(rows: Rows, about: About) -> Coded:
    known = {
        (row["pid"], row["domain_id"], row["category_id"]): row["name"]
        for row in about.profile.rows("category")
    }
    return _pairs(rows, ("pid", "domain_id", "category_id"), known)


def _spelled(ids: Array, about: About) -> Json:
    """Shapes and types as the source spells them: JSON where it is, else texts."""
    found = about.names.of(ids)
    return Json(found.numbers, [_as_json(text) for text in found.texts])


def _as_json(text: str) -> str:
    try:
        return json.dumps(json.loads(text), separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError):
        return json.dumps(text)


@reads("kind", "name_id", "shapes_id", "types_id", "sequence_number")
def operator(rows: Rows, about: About) -> Told:
    """Operators, functions, directives and calls of libraries."""
    return Told(
        words(rows["kind"], _OPERATOR_CATEGORIES),
        about.names.of(rows["name_id"]),
        {
            "Input Dims": _spelled(rows["shapes_id"], about),
            "Input type": _spelled(rows["types_id"], about),
        },
        {"Sequence number": rows["sequence_number"]},
    )


@reads(
    "device_id", "name_id", "dtype_id", "in_elements", "out_elements", "group_id", "group_size",
    "group_ranks_id", "sequence_number", "correlation_id",
)  # fmt: skip
def collective(rows: Rows, about: About) -> Told:
    """Collective communications."""
    name = about.names.of(rows["name_id"])
    return Told(
        always("collective_comm", len(rows["row"])),
        name,
        {
            "device": rows["device_id"],
            "Collective name": name,
            "dtype": about.names.of(rows["dtype_id"]),
            "Group size": rows["group_size"],
            "Process Group Name": about.names.of(rows["group_id"]),
            "Process Group Ranks": about.names.of(rows["group_ranks_id"]),
        },
        {
            "In msg nelems": rows["in_elements"],
            "Out msg nelems": rows["out_elements"],
            "Seq": rows["sequence_number"],
            "correlation": rows["correlation_id"],
        },
    )


@reads("device_id", "memory_kind", "bytes", "address", "allocated_bytes", "reserved_bytes")
def memory_event(rows: Rows, about: About) -> Told:
    """Blocks of memory taken and given back."""
    count, device = len(rows["row"]), rows["device_id"]
    return Told(
        always("cpu_instant_event", count),
        always("[memory]", count),
        {
            "Device Type": np.where(device == MISSING, 0, 1),
            "Device Id": np.where(device == MISSING, -1, device),
            "memory kind": words(rows["memory_kind"], codes.MEMORY_KINDS),
        },
        {
            "Bytes": rows["bytes"],
            "Addr": rows["address"],
            "Total Allocated": rows["allocated_bytes"],
            "Total Reserved": rows["reserved_bytes"],
        },
    )


@reads("name_id", "result")
def osrt_call(rows: Rows, about: About) -> Told:
    """Calls of the operating system's libraries."""
    return Told(
        always("osrt", len(rows["row"])),
        about.names.of(rows["name_id"]),
        {"result": rows["result"]},
    )


@reads(
    "kind", "name_id", "tag", "remote_rank", "root_rank", "communicator_id", "bytes", "recv_bytes"
)
def mpi_call(rows: Rows, about: About) -> Told:
    """Calls of MPI."""
    return Told(
        always("mpi", len(rows["row"])),
        about.names.of(rows["name_id"]),
        {
            "kind": words(rows["kind"], codes.MPI_KINDS),
            "tag": rows["tag"],
            "remote rank": rows["remote_rank"],
            "root rank": rows["root_rank"],
            "communicator": rows["communicator_id"],
        },
        {"bytes sent": rows["bytes"], "bytes received": rows["recv_bytes"]},
    )


@reads("kind", "access", "count", "address")
def page_fault(rows: Rows, about: About) -> Told:
    """Page faults."""
    kind = words(rows["kind"], codes.PAGE_FAULT_KINDS)
    return Told(
        always("page_fault", len(kind.numbers)),
        Coded(kind.numbers, [f"{word.upper()} page fault" for word in kind.texts]),
        {"access": words(rows["access"], codes.ACCESS_KINDS)},
        {"faults": rows["count"], "address": rows["address"]},
    )


@reads("kind", "name_id")
def overhead(rows: Rows, about: About) -> Told:
    """What was not the program's own work."""
    return Told(
        always("overhead", len(rows["row"])),
        about.names.of(rows["name_id"]),
        {"kind": words(rows["kind"], codes.OVERHEAD_KINDS)},
    )


@reads("name_id", "graph_node_id", "original_graph_node_id")
def graph_node(rows: Rows, about: About) -> Told:
    """Creations of graph nodes."""
    return Told(
        always("graph_node", len(rows["row"])),
        about.names.of(rows["name_id"]),
        {},
        {"graph node id": rows["graph_node_id"],
         "original graph node id": rows["original_graph_node_id"]},
    )  # fmt: skip
