"""The events of a trace as msgspec reads them: only what becomes a column, everything else is skipped."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import Any, get_type_hints

import msgspec

from nsysconv.codes import DIRECTIONS, MEMORY_KINDS
from nsysconv.importers.kineto.packed import ACCELERATOR, MISSING, Piece, numbers

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


class SpelledTimes(msgspec.Struct, gc=False):
    """The times of an event as they are spelled."""

    ts: msgspec.Raw = msgspec.Raw(b"null")
    dur: msgspec.Raw = msgspec.Raw(b"null")


decode_events = msgspec.json.Decoder(list[Event]).decode
decode_times = msgspec.json.Decoder(list[SpelledTimes]).decode
decode_event = msgspec.json.Decoder(Event).decode


# Category, in small letters -> what its rows are. Old spellings beside the new ones.
CATEGORIES = {
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "cuda_runtime": "runtime",
    "hip_runtime": "runtime",
    "runtime": "runtime",
    "xpu_runtime": "runtime",
    "mtia_runtime": "runtime",
    "glow_runtime": "runtime",
    "privateuse1_runtime": "runtime",
    "cuda_driver": "driver",
    "xpu_driver": "driver",
    "privateuse1_driver": "driver",
    "cpu_op": "operator",
    "operator": "operator",
    "hpu_op": "operator",
    "user_annotation": "annotation",
    "user": "annotation",
    "python_function": "python",
    "python": "python",
    "cuda_sync": "sync",
    "xpu_sync": "sync",
    "overhead": "overhead",
    "cpu_instant_event": "instant",
}
# Drawn beside what they repeat: counting them as work would count it twice.
PASSED_OVER = frozenset(
    {
        "gpu_user_annotation",
        "ac2g",
        "async",
        "async_cpu_to_gpu",
        "async_gpu",
        "fwdbwd",
        "forward_backward",
        "trace",
        "cuda_event",
        "external_correlation",
        "cuda_profiler_range",
        "collective_comm",
        "mtia_counters",
        "hardware_counters",
        "xpu_scope_profiler",
    }
)
# Work of accelerators that is in no table of ours: what libkineto and its forks call it, and how
# everything begins that they write of these.
ACCELERATOR_WORK = ("mtia_ccp_events", "mtia_insight", "mtia_workloadd", "mlu_notifier")
ACCELERATORS = ("gcu_", "glow_", "hpu_", "mlu_", "mtia_", "musa_", "npu_", "privateuse1_", "xpu_")
# In the first releases annotations were operators.
ANNOTATION = re.compile(r"ProfilerStep#|Optimizer\.|enumerate\(Data(?:Loader|Pipe)\)#")
DRIVER_OVERHEAD = frozenset(
    {
        "Driver Compiler",
        "Runtime Triggered Module Loading",
        "Lazy Function Loading",
        "Command Buffer Full",
    }
)
# ROCm wrote copies as kernels until March 2024.
OLD_COPIES = {
    "CopyHostToDevice": "HtoD",
    "CopyDeviceToHost": "DtoH",
    "CopyDeviceToDevice": "DtoD",
    "CopyHostToHost": "HtoH",
}
OLD_SET = "FillBuffer"
COMMUNICATION_OPERATOR = "record_param_comms"

_COPY = re.compile(r"([HDAP]to[HDAP])\b(?:\s*\(([^()>]*)->([^()>]*)\))?")
_SET = re.compile(r"Memset\s*\(([^()]+?)\)")
_DIRECTIONS = {word: code for code, word in enumerate(DIRECTIONS)}
_KINDS = {word: code for code, word in enumerate(MEMORY_KINDS)}
PEER = _DIRECTIONS["PtoP"]
"""The code of a copy from one device to another."""
_SYNC_TYPES = ("Unknown Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")


def accelerator(category: str) -> str | None:
    """What to call a category of an accelerator, in small letters; None for one of anything else.

    Those that are not known by name are called by how they begin: what follows may be anything.
    """
    if category in ACCELERATOR_WORK:
        return category
    return next((f"{name}*" for name in ACCELERATORS if category.startswith(name)), None)


class Words:
    """The meaning of names, in codes; looked up once per name."""

    def __init__(self) -> None:
        self._copies: dict[object, tuple[int, int, int]] = {}

    def copy(self, name: object) -> tuple[int, int, int]:
        """Direction and kinds of memory read and written; MISSING for kinds that are not told."""
        if name not in self._copies:
            text = OLD_COPIES.get(str(name), str(name))
            found = _COPY.search(text)
            direction, source, target = found.groups() if found else ("Unknown", None, None)
            self._copies[name] = (
                _DIRECTIONS.get(direction, 0),
                _KINDS.get((source or "").strip(), MISSING),
                _KINDS.get((target or "").strip(), MISSING),
            )
        return self._copies[name]

    def memory_kind(self, name: object) -> int:
        """Kind of memory that a set writes; MISSING where it is not told."""
        found = _SET.search(str(name))
        return _KINDS.get(found.group(1), MISSING) if found else MISSING

    @staticmethod
    def sync_type(name: object) -> int:
        """A number for the kind of wait, in CUPTI's order; MISSING for others."""
        return _SYNC_TYPES.index(name) if name in _SYNC_TYPES else MISSING


_COLLECTIVE_ARGS = (
    *("collective", "in_elements", "out_elements", "in_elements_then", "out_elements_then"),
    *("group_size", "dtype", "group", "group_ranks", "collective_number"),
)
_PLACE_ARGS = ("device", "context", "stream", "correlation", "in_device", "in_context")
_SET_ARGS = (*_PLACE_ARGS, "bytes", "graph_node")
_COPY_ARGS = (*_SET_ARGS, "from_device", "to_device")
_CALL_ARGS = ("correlation", "bytes", "size")
_OPERATOR_ARGS = ("sequence", "types", "shapes", "shapes_then", *_COLLECTIVE_ARGS)
# What the columns of a kind are made of. In the order in which libkineto writes it, where it is found
# soonest. The first releases' kernels may be copies.
_ARGS = {
    "runtime": _CALL_ARGS,
    "driver": _CALL_ARGS,
    "operator": _OPERATOR_ARGS,
    "python": _OPERATOR_ARGS,
    "kernel": (
        *("device", "context", "stream", "correlation", "registers", "shared", "blocks_per_sm"),
        *("grid", "block", "occupancy", "graph_node", "grid_dim", "block_dim", "shared_size"),
        *("in_device", "in_context", "bytes", "from_device", "to_device", *_COLLECTIVE_ARGS),
    ),
    "memcpy": _COPY_ARGS,
    "memset": _SET_ARGS,
    "sync": (*_PLACE_ARGS, "event_id"),
    "instant": (
        *("memory_device", "memory_type", "memory_bytes", "address", "allocated", "reserved"),
    ),
    "annotation": (),
    "overhead": (),
}
_TYPES = get_type_hints(Args)


def _class(category: str) -> type[msgspec.Struct]:
    """Events of a category; with nothing in them where it is passed over."""
    fields: list[tuple[str, Any, Any]] = []
    if category in CATEGORIES:
        names = dict.fromkeys(_ARGS[CATEGORIES[category]])
        if accelerator(category):
            names |= {"device": None}  # tells its own lanes from processes
        told = [(name, _TYPES[name], None) for name in names]
        args = msgspec.defstruct("KnownArgs", told, frozen=True, gc=False, rename=SPELLED)
        fields += [(name, Any, None) for name in ("name", "pid", "tid", "ts", "dur")]
        fields.append(("args", args, args()))
    return msgspec.defstruct(
        "KnownEvent",
        fields,
        gc=False,
        tag_field="cat",
        tag=category,
        namespace={"cat": category},
    )


_Known: Any = reduce(or_, map(_class, (*CATEGORIES, *sorted(PASSED_OVER))))

decode_known_events: Callable[[bytes], list[Event]] = msgspec.json.Decoder(list[_Known]).decode
"""The events of a list, with those attributes of Event that their kind needs; `ph` is none of them.

Raises as msgspec does, also where an event is of another category or of none.
"""


_CELLS = (str, int, float, type(None))
_THREAD_NAME = re.compile(r"thread -?\d+ \((.*)\)$")


def by_kind(events: Sequence[Event], piece: Piece, place: int) -> dict[str, list[Event]]:
    """The events by what they are (the values of CATEGORIES); names of threads go into the piece."""
    categories: dict[Any, list[Event]] = defaultdict(list)
    try:
        for event in events:
            categories[event.cat].append(event)
    except TypeError:  # a category that is a list or an object
        categories.clear()
        for event in events:
            categories[str(event.cat)].append(event)
    kinds: dict[str, list[Event]] = defaultdict(list)
    for category, rows in categories.items():
        word = str(category).lower()
        if category is None:
            _metadata(rows, piece)
            # Without a category in the first releases.
            kinds["instant"] += [event for event in rows if event.name == "[memory]"]
            intervals = [event for event in rows if event.ph == "X"]
            _unknown(intervals, "category unknown", kinds, piece, place)
        elif word == "operator":
            # In the first releases annotations were operators.
            for event in rows:
                told = ANNOTATION.match(str(event.name))
                kinds["annotation" if told else "operator"].append(event)
        elif word == "kernel":
            _kernels_and_old_copies(rows, kinds)
        elif word in CATEGORIES:
            of_accelerator = accelerator(word)
            if of_accelerator:
                calls = [event for event in rows if not _is_on_device(event)]
                piece.note(f"{ACCELERATOR}{of_accelerator}", len(rows) - len(calls), place)
                rows = calls
            kinds[CATEGORIES[word]] += rows
        elif word not in PASSED_OVER:
            of_accelerator = accelerator(word)
            what = f"{ACCELERATOR}{of_accelerator}" if of_accelerator else "category unknown"
            _unknown(rows, what, kinds, piece, place)
    return kinds


def _is_on_device(event: Event) -> bool:
    """Whether a row stands in a lane of its device, which has the device's number for a process."""
    return event.args.device is not None and event.args.device == event.pid


def _kernels_and_old_copies(rows: list[Event], kinds: dict[str, list[Event]]) -> None:
    names = distinct([event.name for event in rows])
    if names.isdisjoint(OLD_COPIES) and OLD_SET not in names:
        kinds["kernel"] += rows
        return
    for event in rows:
        name = hashable(event.name)
        kind = "memcpy" if name in OLD_COPIES else "memset" if name == OLD_SET else "kernel"
        kinds[kind].append(event)


def _unknown(
    rows: list[Event], what: str, kinds: dict[str, list[Event]], piece: Piece, place: int
) -> None:
    """Rows of a category that is not known: told by what they carry; others are noted as `what`."""
    assumed = 0
    for event in rows:
        args = event.args
        if event.ph == "X" and isinstance(args.stream, int) and args.stream >= 0:
            if args.device is not None:
                kinds["kernel"].append(event)
                assumed += 1
        elif event.ph == "X" and (args.cbid is not None or args.cid is not None):
            kinds["runtime"].append(event)
            assumed += 1
    piece.note("category assumed", assumed, place)
    piece.note(what, len(rows) - assumed, place)


def _metadata(rows: list[Event], piece: Piece) -> None:
    for event in rows:
        if event.ph != "M" or not isinstance(event.args.name, str):
            continue
        pid, tid, rank = numbers([event.pid, event.tid, event.args.rank])
        if event.args.pid_raw is not None and rank >= 0:
            piece.ranks[pid] = rank
        if event.name == "thread_name" and tid != MISSING:
            told = _THREAD_NAME.match(event.args.name)
            piece.threads[pid, tid] = told.group(1) if told else event.args.name
        elif event.name == "process_name":
            piece.process_names[pid] = event.args.name


def hashable(value: Any) -> Any:
    """The value as a key: itself where it is one cell, else its text."""
    return value if isinstance(value, _CELLS) else str(value)


def distinct(values: Sequence[Any]) -> set[Any]:
    """The distinct values as keys."""
    try:
        return set(values)
    except TypeError:  # a list or an object among them
        return set(map(hashable, values))
