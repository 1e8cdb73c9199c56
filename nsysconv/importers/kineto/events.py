"""The events of a trace as msgspec reads them: only what becomes a column, everything else is skipped."""

from __future__ import annotations

from typing import Any

import msgspec

# Written by name in JSON, read here under names of ours. Values may be of any type: real files hold
# numbers as text and text as numbers, and one odd cell must not cost the events around it.
SPELLED = {
    "registers": "registers per thread",
    "shared": "shared memory",
    "occupancy": "est. achieved occupancy %",
    "blocks_per_sm": "blocks per SM",
    "graph_node": "graph node id",
    "grid_dim": "grid dim",
    "block_dim": "block dim",
    "shared_size": "shared size",
    "from_device": "fromDevice",
    "in_device": "inDevice",
    "to_device": "toDevice",
    "in_context": "inContext",
    "sequence": "Sequence number",
    "shapes": "Input Dims",
    "shapes_then": "Input dims",
    "types": "Input type",
    "event_id": "wait_on_cuda_event_id",
    "allocated": "Total Allocated",
    "reserved": "Total Reserved",
    "memory_bytes": "Bytes",
    "address": "Addr",
    "memory_device": "Device Id",
    "memory_type": "Device Type",
    "collective": "Collective name",
    "in_elements": "In msg nelems",
    "out_elements": "Out msg nelems",
    "in_elements_then": "In msg size",
    "out_elements_then": "Out msg size",
    "group": "Process Group Name",
    "group_size": "Group size",
    "group_ranks": "Process Group Ranks",
    "collective_number": "Seq",
}


class Args(msgspec.Struct, frozen=True, gc=False, rename=SPELLED):
    """What an event's `args` may tell."""

    correlation: Any = None
    device: Any = None
    context: Any = None
    stream: Any = None
    bytes: Any = None
    size: Any = None
    cbid: Any = None
    cid: Any = None
    grid: Any = None
    block: Any = None
    registers: Any = None
    shared: Any = None
    occupancy: Any = None
    blocks_per_sm: Any = None
    graph_node: Any = None
    grid_dim: Any = None
    block_dim: Any = None
    shared_size: Any = None
    from_device: Any = None
    in_device: Any = None
    to_device: Any = None
    in_context: Any = None
    sequence: Any = None
    # Nested lists that are stored as they are spelled: no need to build them.
    shapes: msgspec.Raw = None  # type: ignore[assignment]
    shapes_then: msgspec.Raw = None  # type: ignore[assignment]
    types: msgspec.Raw = None  # type: ignore[assignment]
    event_id: Any = None
    allocated: Any = None
    reserved: Any = None
    memory_bytes: Any = None
    address: Any = None
    memory_device: Any = None
    memory_type: Any = None
    collective: Any = None
    dtype: Any = None
    in_elements: Any = None
    out_elements: Any = None
    in_elements_then: Any = None
    out_elements_then: Any = None
    group: Any = None
    group_size: Any = None
    group_ranks: Any = None
    collective_number: Any = None
    name: Any = None
    # Of traces of several ranks that were merged: the rank, and the process's number in its own trace.
    rank: Any = None
    pid_raw: Any = None


NO_ARGS = Args()


class Event(msgspec.Struct, gc=False):
    """One event. `ts` and `dur` are microseconds, whole or with a fraction."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    args: Args = NO_ARGS


class Times(msgspec.Struct, gc=False):
    """The times of an event as they are spelled."""

    ts: msgspec.Raw = msgspec.Raw(b"null")
    dur: msgspec.Raw = msgspec.Raw(b"null")


decode_events = msgspec.json.Decoder(list[Event]).decode
decode_times = msgspec.json.Decoder(list[Times]).decode
decode_event = msgspec.json.Decoder(Event).decode
