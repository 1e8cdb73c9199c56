"""Events of a trace, kind by kind: the name, category and arguments of a row.

Labels, categories and names are those that PyTorch's profiler uses where it has such rows, so that
programs which know its traces know these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np

from nsysconv import codes
from nsysconv.export.columns import Coded, EventColumns, Json, Triple, firsts, from_codes, repeat
from nsysconv.report import MISSING
from nsysconv.store.read import Profile
from nsysconv.timeline.annotations import domain_names

Array = np.ndarray

MARK = codes.RANGE_KINDS.index("mark")
_UNKNOWN = codes.MEMORY_KINDS.index("Unknown")
_API_CATEGORIES = ("cuda_runtime", "cuda_driver")
_OPERATOR_CATEGORIES = ("cpu_op", "python_function", "directive", "library_call")
_GPU = "device_id context_id stream_id correlation_id"
_GRID = "grid_x grid_y grid_z block_x block_y block_z"


class NameLookup:
    """The texts of a profile's ids, each read once, and the end of its recording."""

    def __init__(self, profile: Profile) -> None:
        """Start without texts."""
        self.profile = profile
        self._texts: dict[tuple[bool, int], str] = {}

    def names(self, ids: Array, *, plain: bool = False) -> Coded:
        """Return the names of rows, none for null; `plain`: API functions by their documented name."""
        first, numbers = firsts(ids)
        values = ids[first]
        unread = [i for i in values.tolist() if i != MISSING and (plain, i) not in self._texts]
        if unread:
            texts = self.profile.names(unread, plain=plain)
            self._texts.update({(plain, i): text for i, text in texts.items()})
        texts_of_values = [self._texts.get((plain, i), "") for i in values.tolist()]
        return Coded(np.where(ids == MISSING, -1, numbers), texts_of_values)

    @cached_property
    def domains(self) -> Mapping[tuple[int, int], str]:
        """Return the names of domains by process and domain id."""
        return domain_names(self.profile)

    @cached_property
    def longest_name(self) -> int:
        """Return how many characters the longest name has."""
        return self.profile.longest_name()

    def close(self, start: Array, dur: Array) -> Array:
        """Return durations of ranges; those that were never closed last until the recording ends."""
        never = dur == MISSING
        if not never.any():
            return dur
        end: int | None = self.profile.attributes["recording_ns"]
        end_of = start if end is None else np.maximum(end, start)
        result: Array = np.where(never, end_of - start, dur)
        return result


@dataclass(frozen=True)
class EventArgs:
    """The names, categories and arguments of rows in a trace.

    `repeated` are arguments with few distinct values, `single` those that differ from row to row:
    arrays with MISSING (or NaN) for none, Coded texts, or a Triple. `dur` replaces the rows' durations.
    """

    category: Coded
    name: Coded
    repeated: Mapping[str, Any] = field(default_factory=dict)
    single: Mapping[str, Any] = field(default_factory=dict)
    dur: Array | None = None


@dataclass(frozen=True)
class ArgReader:
    """The columns that are read of a kind's rows, and the function that makes arguments of them."""

    columns: tuple[str, ...]
    make: Callable[[EventColumns, NameLookup], EventArgs]


def reads(columns: str) -> Callable[[Callable[[EventColumns, NameLookup], EventArgs]], ArgReader]:
    """Return a decorator that makes a function an ArgReader of these columns, separated by spaces."""
    return lambda make: ArgReader(tuple(columns.split()), make)


def _gpu_args(rows: EventColumns, stream: str = "stream") -> dict[str, Any]:
    args = {"device": rows["device_id"], "context": rows["context_id"], stream: rows["stream_id"]}
    if "green_context_id" in rows:
        args["green context"] = _not_zero(rows["green_context_id"])
    return args


def _size_args(rows: EventColumns) -> dict[str, Any]:
    # Bytes per ns are GB/s.
    size, dur = rows["bytes"], rows["dur_ns"]
    is_known = (size != MISSING) & (dur > 0)
    bandwidth = np.where(is_known, np.round(size / np.where(is_known, dur, 1), 6), np.nan)
    return {"bytes": size, "memory bandwidth (GB/s)": bandwidth}


def _link_args(rows: EventColumns, lookup: NameLookup) -> dict[str, Any]:
    return {
        "graph node id": _not_zero(rows["graph_node_id"]),
        "name": lookup.names(rows["annotation_id"]),
        "correlation": rows["correlation_id"],
    }


def _not_zero(values: Array) -> Array:
    result: Array = np.where(values == 0, MISSING, values)
    return result


@reads(
    f"{_GPU} green_context_id name_id {_GRID} registers_per_thread static_shared_bytes "
    "dynamic_shared_bytes shared_bytes local_bytes_per_thread occupancy_pct graph_node_id "
    "annotation_id"
)
def kernel(rows: EventColumns, lookup: NameLookup) -> EventArgs:
    """Return what is shown of kernels."""
    static, dynamic = rows["static_shared_bytes"], rows["dynamic_shared_bytes"]
    total = sum(np.where(size == MISSING, 0, size) for size in (static, dynamic))
    total = np.where((static == MISSING) & (dynamic == MISSING), MISSING, total)
    shared = rows["shared_bytes"]
    return EventArgs(
        repeat("kernel", len(static)),
        lookup.names(rows["name_id"]),
        {
            **_gpu_args(rows),
            "grid": Triple(*(rows[f"grid_{axis}"] for axis in "xyz")),
            "block": Triple(*(rows[f"block_{axis}"] for axis in "xyz")),
            "registers per thread": rows["registers_per_thread"],
            "shared memory": np.where(shared == MISSING, total, shared),
            "static shared memory": static,
            "dynamic shared memory": dynamic,
            "local memory per thread": rows["local_bytes_per_thread"],
            "est. achieved occupancy %": rows["occupancy_pct"],
        },
        _link_args(rows, lookup),
    )


@reads(
    f"{_GPU} green_context_id bytes dur_ns direction src_kind dst_kind peer_device_id "
    "copy_count graph_node_id annotation_id"
)
def memcpy(rows: EventColumns, lookup: NameLookup) -> EventArgs:
    """Return what is shown of copies."""
    count = len(rows["bytes"])
    kinds = len(codes.MEMORY_KINDS)
    direction = from_codes(rows["direction"], codes.DIRECTIONS).numbers
    source, target = (
        from_codes(rows[c], codes.MEMORY_KINDS).numbers for c in ("src_kind", "dst_kind")
    )
    number = ((direction + 1) * (kinds + 1) + source + 1) * (kinds + 1) + target + 1
    return EventArgs(
        repeat("gpu_memcpy", count),
        Coded(number, _copy_names()),
        {**_gpu_args(rows), "peer device": rows["peer_device_id"], "copies": rows["copy_count"]},
        {**_size_args(rows), **_link_args(rows, lookup)},
    )


@cache
def _copy_names() -> tuple[str, ...]:
    # The texts are in the order of the number that `memcpy` makes of direction and kinds, each from -1
    # (none) on.
    texts = []
    unknown = codes.MEMORY_KINDS[_UNKNOWN]
    for direction in (codes.DIRECTIONS[0], *codes.DIRECTIONS):
        for source in (None, *codes.MEMORY_KINDS):
            for target in (None, *codes.MEMORY_KINDS):
                kinds = f" ({source or unknown} -> {target or unknown})" if source or target else ""
                texts.append(f"Memcpy {direction}{kinds}")
    return tuple(texts)


@reads(f"{_GPU} green_context_id bytes dur_ns memory_kind value graph_node_id annotation_id")
def memset(rows: EventColumns, lookup: NameLookup) -> EventArgs:
    """Return what is shown of sets of memory."""
    kind = from_codes(rows["memory_kind"], codes.MEMORY_KINDS)
    texts = ["Memset", *(f"Memset ({word})" for word in codes.MEMORY_KINDS)]
    return EventArgs(
        repeat("gpu_memset", len(kind.numbers)),
        Coded(kind.numbers + 1, texts),
        {**_gpu_args(rows), "value": rows["value"]},
        {**_size_args(rows), **_link_args(rows, lookup)},
    )


@reads(f"{_GPU} bytes dur_ns direction cause address")
def migration(rows: EventColumns, lookup: NameLookup) -> EventArgs:
    """Return what is shown of migrations of unified memory."""
    direction = from_codes(rows["direction"], codes.DIRECTIONS).numbers
    texts = [f"UM {word}" for word in codes.DIRECTIONS]
    return EventArgs(
        repeat("unified_memory", len(direction)),
        Coded(np.maximum(direction, 0), texts),
        {**_gpu_args(rows, "on stream"), "cause": rows["cause"]},
        {**_size_args(rows), "address": rows["address"], "correlation": rows["correlation_id"]},
    )  # fmt: skip


@reads(f"{_GPU} graph_id graph_exec_id")
def graph_launch(rows: EventColumns, lookup: NameLookup) -> EventArgs:
    """Return what is shown of launches of graphs that were recorded as one interval."""
    count = len(rows["row"])
    return EventArgs(
        repeat("graph_launch", count),
        repeat("Graph launch", count),
        {**_gpu_args(rows, "on stream"), "graph id": rows["graph_id"],
         "graph exec id": rows["graph_exec_id"]},
        {"correlation": rows["correlation_id"]},
    )  # fmt: skip


@reads(f"{_GPU} sync_type event_id record_correlation_id record_stream_id")
def sync(rows: EventColumns, lookup: NameLookup) -> EventArgs:
    """Return what is shown of waits."""
    count = len(rows["row"])
    args = _gpu_args(rows)
    # The profiler writes -1 for a wait that is for no stream.
    args["stream"] = np.where(args["stream"] == MISSING, -1, args["stream"])
    return EventArgs(
        repeat("cuda_sync", count),
        repeat("Synchronization", count),
        {**args, "sync type": rows["sync_type"]},
        {
            "wait_on_stream": rows["record_stream_id"],
            "wait_on_cuda_event_record_corr_id": rows["record_correlation_id"],
            "wait_on_cuda_event_id": rows["event_id"],
            "correlation": rows["correlation_id"],
        },
    )


@reads("layer name_id result correlation_id")
def api_call(rows: EventColumns, lookup: NameLookup) -> EventArgs:
    """Return what is shown of API calls."""
    return EventArgs(
        Coded(np.where(rows["layer"] == 1, 1, 0), _API_CATEGORIES),
        lookup.names(rows["name_id"], plain=True),
        {"result": rows["result"]},
        {"correlation": rows["correlation_id"]},
    )


@reads("start_ns dur_ns pid end_tid kind domain_id category_id color name_id text")
def range_(rows: EventColumns, lookup: NameLookup) -> EventArgs:
    """Return what is shown of ranges and marks; ranges that never end last until the recording ends."""
    registered, own = lookup.names(rows["name_id"]), rows["text"]
    # The texts of both follow each other: a range's own text comes behind the registered names.
    own_numbers = np.where(own.numbers >= 0, own.numbers + len(registered.texts), -1)
    numbers = np.where(registered.numbers >= 0, registered.numbers, own_numbers)
    categories = {
        (row["pid"], row["domain_id"], row["category_id"]): row["name"]
        for row in lookup.profile.rows("category")
    }
    instant = rows["kind"] == MARK
    return EventArgs(
        Coded(instant.astype(np.int64), ("user_annotation", "mark")),
        Coded(numbers, [*registered.texts, *own.texts]),
        {
            "kind": from_codes(rows["kind"], codes.RANGE_KINDS),
            "domain": _texts_by(rows, ("pid", "domain_id"), lookup.domains),
            "category": _texts_by(rows, ("pid", "domain_id", "category_id"), categories),
            "color": rows["color"],
            "closed by thread": rows["end_tid"],
            "closed": Coded(np.where((rows["dur_ns"] == MISSING) & ~instant, 0, -1), ("no",)),
        },
        dur=lookup.close(rows["start_ns"], rows["dur_ns"]),
    )


def _texts_by(rows: EventColumns, columns: tuple[str, ...], texts_by: Mapping[Any, str]) -> Coded:
    keys = np.stack([rows[c] for c in columns], 1)
    values, numbers = np.unique(keys, axis=0, return_inverse=True)
    texts = [texts_by.get(tuple(value)) for value in values.tolist()]
    has_text = np.array([text is not None for text in texts], bool)
    numbers = numbers.reshape(-1)
    numbers = np.where(has_text[numbers] if len(texts) else False, numbers, -1)
    return Coded(numbers, [text or "" for text in texts])


def _spelled(ids: Array, lookup: NameLookup) -> Json:
    spelled = lookup.names(ids)
    return Json(spelled.numbers, [_as_json(text) for text in spelled.texts])


def _as_json(text: str) -> str:
    try:
        return json.dumps(json.loads(text), separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError):
        return json.dumps(text)


@reads("kind name_id shapes_id types_id sequence_number")
def operator(rows: EventColumns, lookup: NameLookup) -> EventArgs:
    """Return what is shown of operators, functions, directives and calls of libraries."""
    return EventArgs(
        from_codes(rows["kind"], _OPERATOR_CATEGORIES),
        lookup.names(rows["name_id"]),
        {
            "Input Dims": _spelled(rows["shapes_id"], lookup),
            "Input type": _spelled(rows["types_id"], lookup),
        },
        {"Sequence number": rows["sequence_number"]},
    )


@reads(
    "device_id name_id dtype_id in_elements out_elements in_bytes out_bytes group_id group_size "
    "group_ranks_id sequence_number correlation_id"
)
def collective(rows: EventColumns, lookup: NameLookup) -> EventArgs:
    """Return what is shown of collective communications."""
    name = lookup.names(rows["name_id"])
    return EventArgs(
        repeat("collective_comm", len(rows["row"])),
        name,
        {
            "device": rows["device_id"],
            "Collective name": name,
            "dtype": lookup.names(rows["dtype_id"]),
            "Group size": rows["group_size"],
            "Process Group Name": lookup.names(rows["group_id"]),
            "Process Group Ranks": lookup.names(rows["group_ranks_id"]),
        },
        {
            "In msg nelems": rows["in_elements"],
            "Out msg nelems": rows["out_elements"],
            "In bytes": rows["in_bytes"],
            "Out bytes": rows["out_bytes"],
            "Seq": rows["sequence_number"],
            "correlation": rows["correlation_id"],
        },
    )


@reads("device_id memory_kind bytes address allocated_bytes reserved_bytes")
def memory_event(rows: EventColumns, lookup: NameLookup) -> EventArgs:
    """Return what is shown of allocations: blocks of memory taken and given back."""
    count, device = len(rows["row"]), rows["device_id"]
    return EventArgs(
        repeat("cpu_instant_event", count),
        repeat("[memory]", count),
        {
            "Device Type": np.where(device == MISSING, 0, 1),
            "Device Id": np.where(device == MISSING, -1, device),
            "memory kind": from_codes(rows["memory_kind"], codes.MEMORY_KINDS),
        },
        {
            "Bytes": rows["bytes"],
            "Addr": rows["address"],
            "Total Allocated": rows["allocated_bytes"],
            "Total Reserved": rows["reserved_bytes"],
        },
    )


@reads("name_id result")
def osrt_call(rows: EventColumns, lookup: NameLookup) -> EventArgs:
    """Return what is shown of calls of the operating system's libraries."""
    return EventArgs(
        repeat("osrt", len(rows["row"])),
        lookup.names(rows["name_id"]),
        {"result": rows["result"]},
    )


@reads("kind name_id tag remote_rank root_rank communicator_id bytes recv_bytes")
def mpi_call(rows: EventColumns, lookup: NameLookup) -> EventArgs:
    """Return what is shown of MPI calls."""
    return EventArgs(
        repeat("mpi", len(rows["row"])),
        lookup.names(rows["name_id"]),
        {
            "kind": from_codes(rows["kind"], codes.MPI_KINDS),
            "tag": rows["tag"],
            "remote rank": rows["remote_rank"],
            "root rank": rows["root_rank"],
            "communicator": rows["communicator_id"],
        },
        {"bytes sent": rows["bytes"], "bytes received": rows["recv_bytes"]},
    )


@reads("kind access count address")
def page_fault(rows: EventColumns, lookup: NameLookup) -> EventArgs:
    """Return what is shown of page faults."""
    kind = from_codes(rows["kind"], codes.PAGE_FAULT_KINDS)
    return EventArgs(
        repeat("page_fault", len(kind.numbers)),
        Coded(kind.numbers, [f"{word.upper()} page fault" for word in kind.texts]),
        {"access": from_codes(rows["access"], codes.ACCESS_KINDS)},
        {"faults": rows["count"], "address": rows["address"]},
    )


@reads("kind name_id")
def overhead(rows: EventColumns, lookup: NameLookup) -> EventArgs:
    """Return what is shown of work that was not the program's own."""
    return EventArgs(
        repeat("overhead", len(rows["row"])),
        lookup.names(rows["name_id"]),
        {"kind": from_codes(rows["kind"], codes.OVERHEAD_KINDS)},
    )


@reads("name_id graph_node_id original_graph_node_id")
def graph_node(rows: EventColumns, lookup: NameLookup) -> EventArgs:
    """Return what is shown of creations of graph nodes."""
    return EventArgs(
        repeat("graph_node", len(rows["row"])),
        lookup.names(rows["name_id"]),
        {},
        {"graph node id": rows["graph_node_id"],
         "original graph node id": rows["original_graph_node_id"]},
    )  # fmt: skip
