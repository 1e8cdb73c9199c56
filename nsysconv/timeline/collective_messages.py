"""What a collective does and how much it exchanges, by what is recorded of it (docs/definitions)."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array, factorize
from nsysconv.timeline.timeline import Timeline

POINT_TO_POINT = "point_to_point"
"""The operation of kernels that only send and receive."""
ALL_TO_ALL_V = "alltoallv"
"""All-to-all in which a rank may send another amount to each."""
_OPERATIONS = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("reduce_scatter", "reduce_?scatter"),
        ("allreduce", "all_?reduce|cross_device_reduce"),
        ("allgather", "all_?gather"),
        ("alltoall", "all_?to_?all"),
        ("broadcast", "broadcast|bcast"),
        ("barrier", "barrier"),
        (POINT_TO_POINT, "send|recv"),
        ("reduce", "reduce"),
        ("gather", "gather"),
        ("scatter", "scatter"),
    )
)
# These return before anything has been exchanged.
_RETURNS_AT_ONCE = re.compile(r"^MPI_I[a-z]|_init$")
_UNEQUAL = re.compile("all_?to_?allv", re.IGNORECASE)

_TYPES_BY_BYTES = {
    1: ("byte", "char", "bool", "uint8", "int8", "unsignedchar", "signedchar"),
    2: ("half", "bfloat16", "short", "float16", "int16", "uint16"),
    4: ("float", "int", "float32", "int32", "uint32", "complexhalf"),
    8: ("double", "long", "float64", "int64", "uint64", "complexfloat"),
    16: ("complexdouble",),
}
# A damaged file may say anything; sizes of many collectives are added up.
_NO_SIZE = 1 << 53
_BYTES_BY_TYPE = {name: size for size, names in _TYPES_BY_BYTES.items() for name in names}


@dataclass(frozen=True, order=True)
class Message:
    """The data that collectives exchange: `size` is S of docs/definitions, in bytes, `group_size` the
    ranks in the group; MISSING: not recorded. Messages are ordered by size first.
    """

    size: int
    operation: str
    group: str = ""
    dtype: str = ""
    group_size: int = MISSING


MESSAGE_COLUMNS = (
    *("group_id", "group_ranks_id", "dtype_id", "in_elements", "out_elements"),
    *("in_bytes", "out_bytes", "group_size"),
)
"""What the table of collectives says of a message, beside the name."""


def operation(name: str) -> str:
    """Return what a collective does, by the name of its kernel or function, or that name."""
    if _RETURNS_AT_ONCE.search(name):
        return name
    return next((op for op, pattern in _OPERATIONS if pattern.search(name)), name)


def group_label(name: str = "", ranks: str = "") -> str:
    """Return how a group of ranks is called, by its name and its ranks as far as these are recorded."""
    return f"{name} {ranks}".strip()


def messages(
    timeline: Timeline, column: dict[str, Array], which: Array
) -> tuple[tuple[Message, ...], Array]:
    """Return the distinct messages of these rows, and of each row the place of its message among them.

    `column` has `name_id`, and those of MESSAGE_COLUMNS where they are recorded.
    """
    count = int(np.count_nonzero(which))
    if not count:
        return (), np.empty(0, np.int64)
    unknown = np.full(count, MISSING)
    described = [column[n][which] if n in column else unknown for n in MESSAGE_COLUMNS]
    places, values = factorize(column["name_id"][which], *described)
    texts = timeline.profile.names(np.unique(np.concatenate(values[:4])))
    texts[MISSING] = ""
    made = [
        _message(texts[name], group_label(texts[group], texts[ranks]), texts[dtype], sizes, members)
        for name, group, ranks, dtype, *sizes, members in zip(
            *(v.tolist() for v in values), strict=True
        )
    ]
    # Spellings of one operation (types, protocols in a kernel's name) are one message.
    known = {message: place for place, message in enumerate(dict.fromkeys(made))}
    return tuple(known), np.array([known[each] for each in made], np.int64)[places]


def _message(name: str, group: str, dtype: str, sizes: list[int], group_size: int) -> Message:
    # `sizes`: elements that a rank gives and gets, and bytes.
    in_elements, out_elements, in_bytes, out_bytes = sizes
    does = ALL_TO_ALL_V if _UNEQUAL.search(name) else operation(name)
    ranks = group_size if group_size > 0 else MISSING
    elements = _whole(does, in_elements, out_elements, ranks)
    width = element_bytes(dtype)
    in_all = _whole(does, in_bytes, out_bytes, ranks)
    if elements is not None and width is not None:
        in_all = elements * width
    size = MISSING if in_all is None or in_all >= _NO_SIZE else in_all
    return Message(size, does, group, dtype, ranks)


def _whole(does: str, given: int, gotten: int, ranks: int) -> int | None:
    # Elements or bytes of S, of which a rank gives and gets so many.
    if does in ("allgather", "gather", "reduce_scatter", "scatter"):
        # A rank has the whole on one side and its part on the other; in place, a part on both.
        whole, part = (gotten, given) if does in ("allgather", "gather") else (given, gotten)
        whole = part * ranks if part > 0 and ranks > 1 and whole <= part else whole
    elif does == ALL_TO_ALL_V:
        whole = given
    else:
        whole = max(given, gotten)
    return whole if whole >= 0 else None


def element_bytes(dtype: str) -> int | None:
    """Return the bytes of an element of a type as PyTorch spells it; None: the type is not known."""
    name = dtype.removeprefix("c10::").lower().replace(" ", "")
    return 1 if name.startswith("float8") else _BYTES_BY_TYPE.get(name)


def bus_factor(does: str, ranks: int) -> float | None:
    """Return what the algorithm bandwidth is multiplied by to give the bus bandwidth; None: not known."""
    if does == "allreduce":
        return 2 * (ranks - 1) / ranks
    if does in ("allgather", "reduce_scatter", "alltoall", "gather", "scatter"):
        return (ranks - 1) / ranks
    return 1.0 if does in ("broadcast", "reduce") else None
