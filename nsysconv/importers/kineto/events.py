"""The events of a trace: how msgspec reads them, and of which kind each is.

Only what becomes a column is read; msgspec skips everything else.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, reduce
from operator import or_
from typing import Any, get_type_hints

import msgspec
from msgspec import Raw, field

from nsysconv.codes import DIRECTIONS, MEMORY_KINDS
from nsysconv.importers.kineto.packed import (
    ACCELERATOR,
    MISSING,
    Chunk,
    parse_id,
    parse_integers,
)


class Args(msgspec.Struct, frozen=True, gc=False):
    """The `args` of an event; `..._old` are keys of former releases.

    Values may be of any type: real files hold numbers as text and text as numbers, and one odd value must
    not cost the events around it.
    """

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
    registers: Any = field(default=None, name="registers per thread")
    shared: Any = field(default=None, name="shared memory")
    occupancy: Any = field(default=None, name="est. achieved occupancy %")
    blocks_per_sm: Any = field(default=None, name="blocks per SM")
    graph_node: Any = field(default=None, name="graph node id")
    # PyTorch merges the annotations of a graph's capture (`mark_kernels`) into the arguments: this and
    # `name`.
    module: Any = field(default=None, name="module_fqn")
    grid_old: Any = field(default=None, name="grid dim")
    block_old: Any = field(default=None, name="block dim")
    shared_old: Any = field(default=None, name="shared size")
    from_device: Any = field(default=None, name="fromDevice")
    in_device: Any = field(default=None, name="inDevice")
    to_device: Any = field(default=None, name="toDevice")
    in_context: Any = field(default=None, name="inContext")
    sequence: Any = field(default=None, name="Sequence number")
    # These nested lists are stored as they are spelled, so they need not be built.
    shapes: Raw = field(default=None, name="Input Dims")  # type: ignore[assignment]
    shapes_old: Raw = field(default=None, name="Input dims")  # type: ignore[assignment]
    types: Raw = field(default=None, name="Input type")  # type: ignore[assignment]
    strides: Raw = field(default=None, name="Input Strides")  # type: ignore[assignment]
    values: Raw = field(default=None, name="Concrete Inputs")  # type: ignore[assignment]
    stack: Raw = field(default=None, name="Call stack")  # type: ignore[assignment]
    forward_thread: Any = field(default=None, name="Fwd thread id")
    op_id: Any = field(default=None, name="Record function id")
    finished: Any = None
    event_id: Any = field(default=None, name="wait_on_cuda_event_id")
    record_correlation: Any = field(default=None, name="wait_on_cuda_event_record_corr_id")
    record_stream: Any = field(default=None, name="wait_on_stream")
    allocated: Any = field(default=None, name="Total Allocated")
    reserved: Any = field(default=None, name="Total Reserved")
    memory_bytes: Any = field(default=None, name="Bytes")
    address: Any = field(default=None, name="Addr")
    memory_device: Any = field(default=None, name="Device Id")
    memory_type: Any = field(default=None, name="Device Type")
    collective: Any = field(default=None, name="Collective name")
    dtype: Any = None
    in_elements: Any = field(default=None, name="In msg nelems")
    out_elements: Any = field(default=None, name="Out msg nelems")
    in_elements_old: Any = field(default=None, name="In msg size")
    out_elements_old: Any = field(default=None, name="Out msg size")
    group: Any = field(default=None, name="Process Group Name")
    group_size: Any = field(default=None, name="Group size")
    group_ranks: Any = field(default=None, name="Process Group Ranks")
    collective_number: Any = field(default=None, name="Seq")
    src_rank: Any = field(default=None, name="Src Rank")
    dst_rank: Any = field(default=None, name="Dst Rank")
    is_async: Any = field(default=None, name="Is asynchronized op")
    name: Any = None
    # Only a trace that was merged from several ranks has these: the rank, and the process's number in
    # its own trace.
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
    """The times of an event as JSON text."""

    ts: Raw = Raw(b"null")
    dur: Raw = Raw(b"null")


decode_events = msgspec.json.Decoder(list[Event]).decode
decode_times = msgspec.json.Decoder(list[SpelledTimes]).decode
decode_event = msgspec.json.Decoder(Event).decode

_RUNTIMES = ("cuda", "hip", "xpu", "mtia", "glow", "privateuse1")
# Each kind of event has its categories in lower case, old spellings beside the new ones.
_CATEGORIES_OF_KIND = {
    "kernel": ["kernel"],
    "memcpy": ["gpu_memcpy", "memcpy"],
    "memset": ["gpu_memset", "memset"],
    "runtime": ["runtime", *(f"{device}_runtime" for device in _RUNTIMES)],
    "driver": ["cuda_driver", "xpu_driver", "privateuse1_driver"],
    "operator": ["cpu_op", "operator", "hpu_op"],
    "annotation": ["user_annotation", "user"],
    "python": ["python_function", "python"],
    "sync": ["cuda_sync", "xpu_sync"],
    "overhead": ["overhead"],
    "instant": ["cpu_instant_event"],
}
CATEGORIES = {word: kind for kind, words in _CATEGORIES_OF_KIND.items() for word in words}
"""The kind of events of each category."""
# These repeat other events, and would count their work twice.
PASSED_OVER = frozenset(
    {
        *("ac2g", "async", "async_cpu_to_gpu", "async_gpu", "fwdbwd", "forward_backward"),
        *("gpu_user_annotation", "external_correlation", "collective_comm", "cuda_event", "trace"),
        *("mtia_counters", "hardware_counters", "cuda_profiler_range", "xpu_scope_profiler"),
    }
)
# Categories of accelerators' work, which is in no table of ours: those that libkineto and its forks name
# as a whole, and the prefixes of all others.
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
    f"Copy{source}To{target}": f"{source[0]}to{target[0]}"
    for source in ("Host", "Device")
    for target in ("Host", "Device")
}
OLD_SET = "FillBuffer"
COMMUNICATION_OPERATOR = "record_param_comms"
COPY_OPERATOR = "aten::copy_"

_COPY = re.compile(r"([HDAP]to[HDAP])\b(?:\s*\(([^()>]*)->([^()>]*)\))?")
_SET = re.compile(r"Memset\s*\(([^()]+?)\)")
_THREAD_NAME = re.compile(r"thread -?\d+ \((.*)\)$")
_DIRECTION_CODES = {word: code for code, word in enumerate(DIRECTIONS)}
_KIND_CODES = {word: code for code, word in enumerate(MEMORY_KINDS)}
PEER = _DIRECTION_CODES["PtoP"]
"""The code of a copy from one device to another."""
_SYNC_TYPES = ("Unknown Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")
_SCALARS = (str, int, float, type(None))
_CACHED_NAMES = 1024

# These are the arguments of the rows of a kind, in the order in which libkineto writes them, because
# msgspec finds the next expected key soonest.
_COLLECTIVE_ARGS = (
    *("collective", "in_elements", "out_elements", "in_elements_old", "out_elements_old"),
    *("group_size", "dtype", "group", "group_ranks", "collective_number"),
    *("src_rank", "dst_rank", "is_async"),
)
_GPU_ARGS = ("device", "context", "stream", "correlation", "in_device", "in_context")
_MEMSET_ARGS = (*_GPU_ARGS, "bytes", "graph_node", "module", "name")
_CALL_ARGS = ("correlation", "bytes", "size")
_OPERATOR_ARGS = (
    *("sequence", "op_id", "values", "types", "strides", "forward_thread", "stack", "shapes"),
    *("shapes_old", "finished", *_COLLECTIVE_ARGS),
)
_ARGS_OF_KIND = {
    "runtime": _CALL_ARGS,
    "driver": _CALL_ARGS,
    "operator": _OPERATOR_ARGS,
    "python": _OPERATOR_ARGS,
    # Kernels of the first releases may be copies.
    "kernel": (
        *("device", "context", "stream", "correlation", "registers", "shared", "blocks_per_sm"),
        *("grid", "block", "occupancy", "graph_node", "grid_old", "block_old", "shared_old"),
        *("in_device", "in_context", "bytes", "from_device", "to_device", *_COLLECTIVE_ARGS),
        *("module", "name"),
    ),
    "memcpy": (*_MEMSET_ARGS, "from_device", "to_device"),
    "memset": _MEMSET_ARGS,
    "sync": (*_GPU_ARGS, "record_stream", "record_correlation", "event_id"),
    "instant": (
        *("stack", "memory_device", "memory_type", "memory_bytes", "address", "allocated"),
        "reserved",
    ),
    "annotation": (),
    "overhead": (),
}


def decode_known_events(text: bytes) -> list[Event]:
    """Return the events of a JSON list, each with the attributes of Event that its kind needs.

    Attributes of no kind, `ph` among them, are missing. An object of all that any event may hold would
    take half as long again to make, and three times the memory. Raises what msgspec raises, also where
    an event has another category or none.
    """
    return _known_events_decoder().decode(text)  # type: ignore[no-any-return]


@cache
def _known_events_decoder() -> Any:
    # Made when first needed: it takes longer than to see that a file is not a trace.
    value_types = get_type_hints(Args)
    types = [_event_type(category, value_types) for category in (*CATEGORIES, *sorted(PASSED_OVER))]
    return msgspec.json.Decoder(list[reduce(or_, types)])  # type: ignore[misc]


def _event_type(category: str, value_types: dict[str, Any]) -> Any:
    """Return a type for events of one category; without fields where these are passed over."""
    fields: list[tuple[str, Any, Any]] = []
    if category in CATEGORIES:
        names = dict.fromkeys(_ARGS_OF_KIND[CATEGORIES[category]])
        if _accelerator(category):
            names |= {"device": None}  # distinguishes its own lanes from processes
        json_names = dict(zip(Args.__struct_fields__, Args.__struct_encode_fields__, strict=True))
        args = msgspec.defstruct(
            "KnownArgs",
            [(name, value_types[name], None) for name in names],
            frozen=True,
            gc=False,
            rename=json_names,
        )
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


def _accelerator(category: str) -> str | None:
    # The result is the name under which the category is reported, or None if it belongs to no
    # accelerator. Only a known prefix is reported, because what follows may be any text.
    if category in ACCELERATOR_WORK:
        return category
    return next((f"{name}*" for name in ACCELERATORS if category.startswith(name)), None)


def classify(
    events: Sequence[Event], chunk: Chunk, place: Callable[[Event], int]
) -> dict[str, list[Event]]:
    """Return the events by kind (the values of CATEGORIES), whatever release wrote them.

    What metadata events say goes into `chunk`. Events of unknown categories are assigned to a kind by
    their arguments or left out; both are noted in `chunk` with the place of the first.
    """
    categories: dict[Any, list[Event]] = defaultdict(list)
    try:
        for event in events:
            categories[event.cat].append(event)
    except TypeError:  # a category that is a list or an object
        categories.clear()
        for event in events:
            categories[str(event.cat)].append(event)
    kinds: dict[str, list[Event]] = defaultdict(list)
    for category, members in categories.items():
        word = str(category).lower()
        if category is None:
            _read_metadata(members, chunk)
            # The first releases write these events without a category.
            kinds["instant"] += [event for event in members if event.name == "[memory]"]
            intervals = [event for event in members if event.ph == "X"]
            _assign_by_args(intervals, kinds, chunk, "category unknown", place)
        elif word == "operator":
            for event in members:
                is_annotation = ANNOTATION.match(str(event.name))
                kinds["annotation" if is_annotation else "operator"].append(event)
        elif word == "kernel":
            _assign_kernels(members, kinds)
        elif word in CATEGORIES:
            if name := _accelerator(word):
                # An event in a lane of its device has the device's number for a process.
                work = [e for e in members if e.args.device is not None and e.args.device == e.pid]
                _note(chunk, f"{ACCELERATOR}{name}", work, place)
                members = [e for e in members if e.args.device is None or e.args.device != e.pid]
            kinds[CATEGORIES[word]] += members
        elif word not in PASSED_OVER:
            name = _accelerator(word)
            key = f"{ACCELERATOR}{name}" if name else "category unknown"
            _assign_by_args(members, kinds, chunk, key, place)
    return kinds


def _assign_kernels(events: list[Event], kinds: dict[str, list[Event]]) -> None:
    names = distinct([event.name for event in events])
    if names.isdisjoint(OLD_COPIES) and OLD_SET not in names:
        kinds["kernel"] += events
        return
    for event in events:
        name = hashable(event.name)
        kind = "memcpy" if name in OLD_COPIES else "memset" if name == OLD_SET else "kernel"
        kinds[kind].append(event)


def _assign_by_args(
    events: list[Event],
    kinds: dict[str, list[Event]],
    chunk: Chunk,
    key: str,
    place: Callable[[Event], int],
) -> None:
    """Assign events of an unknown category by their arguments; note those left out under `key`."""
    assumed, left_out = [], []
    for event in events:
        args = event.args
        on_gpu = isinstance(args.stream, int) and args.stream >= 0
        if event.ph == "X" and on_gpu and args.device is not None:
            kinds["kernel"].append(event)
        elif event.ph == "X" and not on_gpu and (args.cbid is not None or args.cid is not None):
            kinds["runtime"].append(event)
        else:
            left_out.append(event)
            continue
        assumed.append(event)
    _note(chunk, "category assumed", assumed, place)
    _note(chunk, key, left_out, place)


def _note(chunk: Chunk, key: str, events: Sequence[Event], place: Callable[[Event], int]) -> None:
    if events:
        chunk.note(key, len(events), place(events[0]))


def _read_metadata(events: list[Event], chunk: Chunk) -> None:
    for event in events:
        if event.ph != "M" or not isinstance(event.args.name, str):
            continue
        pid, tid = (parse_id(value, chunk.texts) for value in (event.pid, event.tid))
        (rank,) = parse_integers([event.args.rank])
        if event.args.pid_raw is not None and rank >= 0:
            chunk.ranks[pid] = rank
        if event.name == "thread_name" and tid != MISSING:
            match = _THREAD_NAME.match(event.args.name)
            chunk.thread_names[pid, tid] = match.group(1) if match else event.args.name
        elif event.name == "process_name":
            chunk.process_names[pid] = event.args.name


def hashable(value: Any) -> Any:
    """Return the value itself if it is a scalar, else its text."""
    return value if isinstance(value, _SCALARS) else str(value)


def distinct(values: Sequence[Any]) -> set[Any]:
    """Return the distinct values, lists and objects as their text."""
    try:
        return set(values)
    except TypeError:
        return set(map(hashable, values))


@lru_cache(_CACHED_NAMES)
def copy_codes(name: object) -> tuple[int, int, int]:
    """Return the codes of a copy's direction and of the memory it reads and writes, or MISSING."""
    match = _COPY.search(OLD_COPIES.get(str(name), str(name)))
    direction, source, target = match.groups() if match else ("Unknown", None, None)
    return (
        _DIRECTION_CODES.get(direction, 0),
        _KIND_CODES.get((source or "").strip(), MISSING),
        _KIND_CODES.get((target or "").strip(), MISSING),
    )


def memset_kind(name: object) -> int:
    """Return the code of the kind of memory that is set, MISSING where the name does not say."""
    match = _SET.search(str(name))
    return _KIND_CODES.get(match.group(1), MISSING) if match else MISSING


def sync_type(name: object) -> int:
    """Return the number of a kind of wait, in CUPTI's order; MISSING for others."""
    return _SYNC_TYPES.index(name) if name in _SYNC_TYPES else MISSING
