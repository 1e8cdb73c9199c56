"""Words of XLA's profiler: of kernels and copies their details, and what the names of host events say."""

from __future__ import annotations

import re
from typing import NamedTuple

from nsysconv import codes
from nsysconv.importers import rocm
from nsysconv.report import MISSING

_PAIR = re.compile(r"(\w+):(\S+)")
_SIZE = re.compile(r"(\d{1,9}),(\d{1,9}),(\d{1,9})")
_MOST = 1 << 53
# No GPU gives a thread more: a recorder for AMD GPUs of 2025 wrote uninitialized memory.
_MOST_REGISTERS = 1024

KERNEL_COLUMNS = (
    *("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers_per_thread"),
    *("static_shared_bytes", "dynamic_shared_bytes", "shared_bytes", "local_bytes_per_thread"),
    "occupancy_pct",
)
"""Columns of a kernel that its details give."""
COPY_COLUMNS = ("bytes", "direction", "src_kind", "dst_kind", "peer_device_id")
"""Columns of a copy that its details give."""

_KINDS = {word.lower().replace(" ", "_"): code for code, word in enumerate(codes.MEMORY_KINDS)}
# The end of a copy that a kind of memory is at; managed memory may be at either.
_ENDS = {"pageable": "H", "pinned": "H", "device": "D", "device_static": "D", "array": "A"}
_COPY = re.compile(r"Memcpy|Copy(?:Host|Device)")
_SHORT_COPY = re.compile(r"Memcpy([HDAP])2([HDAP])\b")
_PEER = codes.DIRECTIONS.index("PtoP")


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() and int(text) < _MOST else MISSING


def kernel_details(text: str) -> tuple[int, ...]:
    """Return the values of KERNEL_COLUMNS, then 1 if some cannot be (registers of garbage), else 0."""
    found = dict(_PAIR.findall(text))
    sizes = []
    for key in ("grid", "block"):
        match = _SIZE.fullmatch(found.get(key, ""))
        sizes += [MISSING] * 3 if match is None else [int(size) for size in match.groups()]
    registers, *shared = (
        _number(found.get(key)) for key in ("regs", "static_shared", "dynamic_shared", "shm")
    )
    is_garbage = registers > _MOST_REGISTERS
    if is_garbage:
        registers, shared = MISSING, [MISSING] * 3
    if shared[-1] == MISSING:
        shared[-1] = _number(found.get("group_mem"))
    local, occupancy = _number(found.get("private_mem")), _number(found.get("occ_pct"))
    return (*sizes, registers, *shared, local, occupancy or MISSING, int(is_garbage))


def copy_details(text: str, name: str, line: str, vendor: str) -> tuple[int, ...]:
    """Return the values of COPY_COLUMNS; the direction by the kinds of memory, else by names."""
    found = dict(_PAIR.findall(text))
    kinds = [found.get(key, "") for key in ("kind_src", "kind_dst")]
    ends = [_ENDS.get(kind) for kind in kinds]
    words = [f"{ends[0]}to{ends[1]}", _direction_in(name), found.get("kind", "")]
    if words[1] == codes.DIRECTIONS[_PEER]:
        words.insert(0, words[1])  # that both ends are a device's does not say that these are two
    in_line = re.findall(r"Memcpy\w+", line)
    words += map(_direction_in, in_line if len(in_line) == 1 else [])
    direction = next(filter(None, map(_code, words)), 0)
    # Elsewhere the destination is no ordinal: a driver's number of a node, or the size once more.
    peer = found.get("dest") if direction == _PEER and vendor == "Nvidia" else None
    source, target = (_KINDS.get(kind, MISSING) for kind in kinds)
    return _number(found.get("size")), direction, source, target, _number(peer)


def _direction_in(name: str) -> str:
    match = _SHORT_COPY.search(name)
    return f"{match[1]}to{match[2]}" if match else name


def _code(word: str) -> int:
    return codes.DIRECTIONS.index(word) if word in codes.DIRECTIONS else rocm.direction(word)


def memset_details(text: str) -> tuple[int, int]:
    """Return the bytes of a memset, and the code of the kind of memory."""
    found = dict(_PAIR.findall(text))
    size = found.get("num_bytes", found.get("size"))
    return _number(size), _KINDS.get(found.get("kind", "").lower(), MISSING)


def kind_by_name(name: str) -> str:
    """Return the table of an event of a stream without details: by its name."""
    return "memcpy" if _COPY.match(name) else "memset" if name.startswith("Memset") else "kernel"


# -- events of the host

API, PYTHON, TAKEN, GIVEN_BACK, MARKER, EXECUTION, RUNTIME, ANY = range(8)
"""What the name of a host event says: an API function, a Python call, memory taken or given back, a mark
of a thread pool, work of XLA with other work inside, other work of XLA or TensorFlow; or nothing."""

_API = re.compile(r"(?:cu|hip)[A-Z]|cuda[A-Z]")
_DRIVER = re.compile(r"cu[A-Z]|hip(?:Module|Drv)")
# An operator of TensorFlow and its type.
_OPERATOR = re.compile(r"\S+:[A-Z_]\w*")
_EXECUTION = re.compile(r"\w+::|PjitFunction\(|.*:XLA GPU module$")
# Annotations of JAX, XLA and TensorFlow that look like those of a program.
_RUNTIME = re.compile(
    r"(?:ParseArguments|Handle inputs?|AllocateOutputBuffers\w*|MakeOutputBuffers|Wait for \w+"
    r"|Wait: |ComputeSemaphoreAcquire|BufferFromHostBuffer|RecordUsage|ThenExecuteCallback"
    r"|Executor[A-Z]\w+|FunctionRun|MemCpyAsync|Prefetch\w+|RemoteCall\w*|Iterator\w*"
    r"|cpp_pjit_\w+|shard_args?|batched_device_put|DevicePut|device_put|CopyToDevice\w*"
    r"|Resolve constant globals|Build buffer allocations|DelayCallback|D2H Dispatch|H2D Dispatch"
    r"|backend_compile\w*|XlaCompile\w*|end: .*|PJRT_.*|PjRt.*)(?:$|[ (])"
)
_ARGUMENTS = re.compile(r"#(?:.*,)?step_num=(\d+)")


class HostName(NamedTuple):
    """What a host event's name says (`kind`), what to keep of it, and the step that it holds."""

    kind: int
    name: str
    step: int


def host_name(text: str) -> HostName:
    """Return what the name of a host event says.

    What raw recordings append to names, `name#key=value#`, are arguments and not kept.
    """
    # As XLA decides it: another `#` is the program's, as in `ProfilerStep#3`.
    name = text.partition("#")[0] if text.endswith("#") else text
    step = _ARGUMENTS.search(text) if name != text else None
    step_num = int(step[1]) if step and len(step[1]) < 18 else MISSING
    if not name.startswith("$"):
        return HostName(_kind(name), name, step_num)
    # No folder of a function's file is kept.
    place, space, function = name[1:].partition(" ")
    file = re.split(r"[/\\]", place)[-1]
    return HostName(PYTHON, f"{file}{space}{function}", step_num)


def _kind(name: str) -> int:
    if _API.match(name):
        return API
    if name in ("MemoryAllocation", "MemoryDeallocation"):
        return GIVEN_BACK if "Dea" in name else TAKEN
    if name.startswith("ThreadpoolListener::"):
        return MARKER
    if _EXECUTION.match(name):
        return EXECUTION
    return RUNTIME if _RUNTIME.match(name) or _OPERATOR.fullmatch(name) else ANY


def api_layer(name: str) -> int:
    """Return the code of the layer of an API function."""
    return codes.API_LAYERS.index("driver" if _DRIVER.match(name) else "runtime")


_ALLOCATOR = re.compile(r"GPU_(\d{1,4})_bfc")


def device_of(allocator: str) -> int:
    """Return the device whose memory an allocator of this name gives out; MISSING for the host's."""
    match = _ALLOCATOR.fullmatch(allocator)
    return MISSING if match is None else int(match[1])


MARKS = (
    *("_src", "_p", "_pt", "_c", "_ct", "is_eager", "kernel_name", "hlo_op", "hlo_module"),
    *("program_id", "run_id", "device_ordinal", "module_name", "allocator_name"),
)
"""Stats that only events of XLA and TensorFlow themselves have."""
