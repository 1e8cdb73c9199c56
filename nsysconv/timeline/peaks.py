"""Peaks of GPUs: how many operations and bytes per second a device could do at most.

The numbers of known models are in peaks.toml, each with the publication that it is from. For other
NVIDIA devices they are computed from what the profile records of the device: SMs × operations per clock
of an SM of that compute capability × highest clock. Unknown models get no guess.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from nsysconv.report import MISSING
from nsysconv.timeline.arrays import Array, factorize
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.kernel_categories import NO, UNKNOWN, YES, tensor_core_use
from nsysconv.timeline.operator_calls import OperatorCalls, node_of_ops
from nsysconv.timeline.timeline import Timeline, cached_whole_small
from nsysconv.timeline.utilization import THREADS_PER_WARP
from nsysconv.timeline.vendors import AMD, vendors_of

KINDS = {
    "fp64": "fp64",
    "fp32": "fp32",
    "fp16": "16 bit",
    "fp64_tensor": "fp64 with Tensor Cores",
    "fp32_tensor": "fp32 with matrix cores",
    "tf32_tensor": "TF32 with Tensor Cores",
    "fp16_tensor": "16 bit with Tensor Cores",
    "fp8_tensor": "8 bit with Tensor Cores",
    "int8_tensor": "int8 with Tensor Cores",
}
"""Kinds of operations, as peaks.toml has them, and what they are called."""

_TERA = 1e12
_VENDOR = "NVIDIA "
_PART = " MIG "


@dataclass(frozen=True)
class Model:
    """A model of peaks.toml: its names, the SMs that its rates belong to, and their source.

    `sms` is None where it is not known. Rates are in FLOP/s, by kind, and in bytes/s.
    """

    names: tuple[str, ...]
    sms: int | None
    flop_per_s: Mapping[str, float]
    bytes_per_s: float
    source: str
    url: str
    share: str


@dataclass(frozen=True)
class Peaks:
    """The peaks of one device: operations per second by kind, bytes per second of its memory, and whence.

    `bytes_per_s` is None where it is not known. `is_computed`: they are of no publication.
    """

    flop_per_s: Mapping[str, float]
    bytes_per_s: float | None
    source: str
    is_computed: bool


@cache
def _content() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("peaks.toml").read_text(encoding="utf-8"))


@cache
def models() -> tuple[Model, ...]:
    """Return the known models, in the order of peaks.toml; rates in FLOP/s and bytes/s."""
    return tuple(
        Model(
            names=tuple(each["names"]),
            sms=each.get("sms"),
            flop_per_s={kind: _rate(each[kind]) for kind in KINDS if kind in each},
            bytes_per_s=_rate(each["memory"]),
            source=_content()["source"][each["source"]][0],
            url=_content()["source"][each["source"]][1],
            share=each.get("share", ""),
        )
        for each in _content()["gpu"]
    )


def _rate(tera: float) -> float:
    # Decimal numbers of so few digits are whole in base units.
    return float(round(_TERA * tera))


def model_of(name: str | None) -> Model | None:
    """Return the model with this product name, however upper and lower case are; None: not known."""
    plain = _plain(name)
    found = (each for each in models() if plain in (known.lower() for known in each.names))
    return next(found, None)


def _plain(name: str | None) -> str:
    return (name or "").strip().removeprefix(_VENDOR).lower()


def device_peaks(row: Mapping[str, Any]) -> Peaks | None:
    """Return the peaks of a device by its row of the table `device`; None: nothing is known of them.

    Those of its model, unless it has another number of SMs than that: then it is a part of the GPU (MIG,
    AMD's partitions), or another model of that name, and they are computed.
    """
    model, is_part = model_of(row["name"]), (row["uuid"] or "").startswith(_PART.strip())
    if model and not is_part and (model.sms is None or row["sm_count"] in (None, model.sms)):
        return Peaks(model.flop_per_s, model.bytes_per_s, model.source, is_computed=False)
    return _computed(row, is_part)


def _computed(row: Mapping[str, Any], is_part: bool) -> Peaks | None:
    count, clock = row["sm_count"], row["sm_clock_hz"]
    whole, _, part = (row["name"] or "").partition(_PART)
    of = model_of(whole)
    if (is_part or part) and of and of.sms and count:
        # A part has the rates of the whole for each of its SMs; its share of the memory is not recorded.
        rates = {kind: rate * count / of.sms for kind, rate in of.flop_per_s.items()}
        source = f"computed: {count} of {of.sms} SMs, {of.source}"
        return Peaks(rates, None, source, is_computed=True)
    rates = {}
    if count and clock:
        rates = {kind: float(count * each * clock) for kind, each in _per_clock(row).items()}
    # A part is recorded with the bandwidth of the whole; it may be one, too, if a model has other SMs.
    # Profilers compute the bandwidth of AMD's GPUs for another kind of memory.
    is_whole = not (is_part or part or of) and row["compute_major"] is not None and _has_warps(row)
    moved = row["memory_bandwidth_bytes_per_s"] if is_whole else None
    if rates:
        capability = f"{row['compute_major']}.{row['compute_minor']}"
        source = f"computed: {count} SMs at {clock / 1e9:.3f} GHz, compute capability {capability}"
    else:
        source = "recorded bandwidth"
    return Peaks(rates, moved, source, is_computed=True) if rates or moved else None


def _per_clock(row: Mapping[str, Any]) -> dict[str, int]:
    # Operations per clock of an SM, by kind.
    capability = f"{row['compute_major']}.{row['compute_minor']}"
    name, found = (row["name"] or "").removeprefix(_VENDOR), dict[str, int]()
    if not _has_warps(row):
        return found
    for each in _content()["sm"]:
        if capability in each["capabilities"] and re.match(each.get("name", ""), name):
            found |= {kind: each[kind] for kind in KINDS if kind in each}
    return found


def _has_warps(row: Mapping[str, Any]) -> bool:
    # Other vendors number their architectures as well, but not by compute capability.
    is_amd = AMD in vendors_of([row["name"]])
    return row["threads_per_warp"] in (None, THREADS_PER_WARP) and not is_amd


@cached_whole_small
def common_peaks(timeline: Timeline) -> Peaks | None:
    """Return the peaks that all devices of a profile have in common; None: unknown, or they differ."""
    at_work = set(timeline.devices)
    rows = [row for row in timeline.profile.rows("device") if row["device_id"] in at_work]
    if not rows or len(rows) < len(at_work):
        return None
    first, *others = map(device_peaks, rows)
    return first if all(other == first for other in others) else None


# -- which of them is a call's

# Types as PyTorch records them, and the kinds that products of such have: the first that a device has.
_SMALL = {
    **dict.fromkeys(("c10::Half", "c10::BFloat16"), ("fp16_tensor", "fp16")),
    **dict.fromkeys(("signed char", "unsigned char"), ("int8_tensor",)),
}
_FLOAT8 = "c10::Float8_"
# The kinds of larger types, by whether a kernel uses Tensor Cores; if that is unknown, so is the peak.
_LARGE = {
    "float": {NO: ("fp32",), YES: ("tf32_tensor",)},
    "double": {NO: ("fp64",), YES: ("fp64_tensor",)},
}
_ON_MATRIX_CORES = {"float": ("fp32_tensor",), "double": ("fp64_tensor",)}
# PyTorch adds and multiplies in fp32, whatever is smaller.
_ELEMENTWISE = {
    "aten::add": {"double": ("fp64",), **dict.fromkeys(("float", *list(_SMALL)[:2]), ("fp32",))}
}
_ELEMENTWISE["aten::mul"] = _ELEMENTWISE["aten::add"]


def kinds_of_calls(timeline: Timeline, calls: OperatorCalls, counted: Array, peaks: Peaks) -> Array:
    """Return per node the place in KINDS of the peak that its operations have.

    `counted` are the nodes with known operations, as a mask. The result is -1 where the type has no peak
    of this device, or is not recorded. The type is that of the first input that is a tensor. Tensor
    Cores do GEMMs of `float` and `double` if a kernel of the call uses them, by its name or by counters;
    on AMD's GPUs matrix cores do them all.
    """
    nodes = np.flatnonzero(counted)
    kernels = np.flatnonzero(timeline.ops.kind == OpKind.KERNEL)
    answer = tensor_core_use(timeline)[timeline.ops.row[kernels]]
    around = np.append(calls.innermost(counted), -1)[node_of_ops(timeline, calls, calls.rows)]
    cores = np.full(len(counted) + 1, NO)
    for each in (UNKNOWN, YES):
        cores[around[kernels[answer == each]]] = each
    types, names = calls.column(timeline, "types_id")[nodes], calls.spans.name[nodes]
    group, keys = factorize(types, names, cores[nodes])
    texts = timeline.profile.names(keys[0][keys[0] != MISSING])
    found = [
        _kind(texts.get(type_), calls.spans.names[name], use, peaks)
        for type_, name, use in zip(*(key.tolist() for key in keys), strict=True)
    ]
    order = tuple(KINDS)
    places = [-1 if kind is None else order.index(kind) for kind in found]
    result = np.full(len(counted), -1)
    result[nodes] = np.array(places, np.int64)[group]
    return result


def _kind(types: str | None, operator: str, use: int, peaks: Peaks) -> str | None:
    # Texts are as `["float", "c10::Half", "Scalar"]`: what is no tensor has a capital.
    listed = (each.strip().strip('"') for each in (types or "").strip("[]").split(","))
    first = next((each for each in listed if each[:1].islower()), "")
    wanted: tuple[str, ...] = ()
    if operator in _ELEMENTWISE:
        wanted = _ELEMENTWISE[operator].get(first, ())
    elif first.startswith(_FLOAT8):
        wanted = ("fp8_tensor",)
    elif first in _LARGE:
        has_matrix_cores = "fp32_tensor" in peaks.flop_per_s
        wanted = _ON_MATRIX_CORES[first] if has_matrix_cores else _LARGE[first].get(use, ())
    else:
        wanted = _SMALL.get(first, ())
    return next((kind for kind in wanted if kind in peaks.flop_per_s), None)
