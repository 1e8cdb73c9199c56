"""A rule on attention that is not one kernel: softmax between two batched GEMMs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nsysconv.queries.findings.contract import Found, Scene, counted
from nsysconv.queries.findings.operators import (
    launchers,
    of_kernels,
    operator_calls_of,
    records_operators,
)
from nsysconv.timeline.arrays import Array, factorize, take
from nsysconv.timeline.kernel_categories import categories

_BATCHED = frozenset(("aten::bmm", "aten::baddbmm"))
_OF_LOSSES = frozenset(("aten::_log_softmax", "aten::_log_softmax_backward_data"))
# Masks, scaling, dropout and changes of type may lie between the three.
_BETWEEN = ("elementwise", "copy", "random", "indexing", "reduction")
_NOT_SEEN, _GEMM, _SOFTMAX, _OTHER = range(4)
_LONGEST = 64


def unfused_attention(scene: Scene) -> Found | None:
    """Measure kernels from a batched GEMM over a softmax to the next batched GEMM of one stream."""
    kernels = np.flatnonzero(scene.is_kernel)
    rows = take(scene.ops.row, kernels)
    role, batch = _roles(scene, kernels, rows)
    if not (role == _SOFTMAX).any():
        return None
    ops = scene.ops.take(kernels)
    stream, _ = factorize(ops.pid, ops.stream)
    order = np.lexsort((ops.start, stream))
    first, last = _attention(role[order], batch[order], stream[order])
    inside = np.zeros(len(order) + 1, np.int64)
    np.add.at(inside, first, 1)
    np.add.at(inside, last + 1, -1)
    mine = np.zeros(len(scene.ops), bool)
    mine[kernels[order[np.cumsum(inside)[:-1] > 0]]] = True
    measured = of_kernels(scene, mine)
    if measured is None:
        return None
    details = {**measured.details, "times": counted(len(first), "time", "times")}
    return replace(measured, details=details)


def _roles(scene: Scene, kernels: Array, rows: Array) -> tuple[Array, Array]:
    # What each kernel is here, and the number of GEMMs in it, 0 where an operator says that there are
    # several. By name, a GEMM is batched if its grid has a third dimension; kernels without such a grid
    # are batched if an operator says so.
    category, words = categories(scene.timeline)
    of_word = [
        _GEMM if word == "gemm" else _SOFTMAX if word == "softmax"
        else _NOT_SEEN if word in _BETWEEN else _OTHER
        for word in words
    ]  # fmt: skip
    role = np.array(of_word, np.int8)[take(category, rows)]
    if not (role == _SOFTMAX).any():
        return role, role
    batch = take(scene.timeline.profile.columns("kernel", ("grid_z",))["grid_z"], rows)
    node = np.full(len(rows), -1)
    if records_operators(scene):
        calls, node = operator_calls_of(scene), launchers(scene)[kernels]
        batched, of_losses = (
            np.append(calls.named(names), False)[node] for names in (_BATCHED, _OF_LOSSES)
        )
        role[(role == _GEMM) & (node >= 0) & ~batched] = _OTHER
        role[of_losses] = _OTHER
        role[batched] = _GEMM
        batch = np.where(batched, 0, batch)
    role[(role == _GEMM) & (node < 0) & (batch <= 1)] = _OTHER
    return role, batch


def _attention(role: Array, batch: Array, stream: Array) -> tuple[Array, Array]:
    # The first and the last kernel of each attention, of kernels in the order of their streams: GEMMs,
    # a softmax, and GEMMs of as large a batch.
    seen = np.flatnonzero(role != _NOT_SEEN)
    kind, stream = role[seen], stream[seen]
    begins = np.ones(len(seen), bool)
    begins[1:] = (kind[1:] != kind[:-1]) | (stream[1:] != stream[:-1])
    start = np.flatnonzero(begins)
    end = np.append(start[1:], len(seen)) - 1
    middle = np.flatnonzero(kind[start] == _SOFTMAX)
    middle = middle[(middle > 0) & (middle < len(start) - 1)]
    before, after = middle - 1, middle + 1
    fits = (kind[start[before]] == _GEMM) & (kind[start[after]] == _GEMM)
    fits &= (stream[start[before]] == stream[start[middle]]) & (
        stream[start[after]] == stream[start[middle]]
    )
    fits &= batch[seen[end[before]]] == batch[seen[start[after]]]
    first, last = seen[start[before]], seen[end[after]]
    fits &= last - first < _LONGEST
    return first[fits], last[fits]
