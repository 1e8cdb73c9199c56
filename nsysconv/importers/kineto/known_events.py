"""Events of known categories as msgspec reads them: what their kind needs and no more.

An object of all that any event may hold takes half as long again to make, and three times the memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Any, get_type_hints

import msgspec

from nsysconv.importers.kineto.events import SPELLED, Args, Event
from nsysconv.importers.kineto.words import CATEGORIES, PASSED_OVER, accelerator

_COLLECTIVE = (
    *("collective", "in_elements", "out_elements", "in_elements_then", "out_elements_then"),
    *("group_size", "dtype", "group", "group_ranks", "collective_number"),
)
_PLACE = ("device", "context", "stream", "correlation", "in_device", "in_context")
_SET = (*_PLACE, "bytes", "graph_node")
_COPY = (*_SET, "from_device", "to_device")
_CALL = ("correlation", "bytes", "size")
_OPERATOR = ("sequence", "types", "shapes", "shapes_then", *_COLLECTIVE)
# What the columns of a kind are made of. In the order in which libkineto writes it, where it is found
# soonest. The first releases' kernels may be copies.
_ARGS = {
    "runtime": _CALL,
    "driver": _CALL,
    "operator": _OPERATOR,
    "python": _OPERATOR,
    "kernel": (
        *("device", "context", "stream", "correlation", "registers", "shared", "blocks_per_sm"),
        *("grid", "block", "occupancy", "graph_node", "grid_dim", "block_dim", "shared_size"),
        *("in_device", "in_context", "bytes", "from_device", "to_device", *_COLLECTIVE),
    ),
    "memcpy": _COPY,
    "memset": _SET,
    "sync": (*_PLACE, "event_id"),
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
