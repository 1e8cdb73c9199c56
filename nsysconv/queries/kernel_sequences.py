"""Sequences of kernels that recur and that memory bounds: candidates for fusion."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from nsysconv.errors import UsageError
from nsysconv.names import plain_kernel
from nsysconv.notes import Note, Severity
from nsysconv.queries.columns import (
    BY_DEVICE,
    count_column,
    duration_column,
    ranks_by_group,
    rows_at,
    sum_column,
)
from nsysconv.queries.contract import Array, Option, Query, Request, Result
from nsysconv.queries.operators import NO_OPERATOR
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import by_group, counts, factorize, percent, sums
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.kernel_categories import categories
from nsysconv.timeline.operator_calls import node_of_ops, operator_calls
from nsysconv.timeline.timeline import Timeline

COLUMNS = (
    *BY_DEVICE,
    Column(
        "operators",
        Unit.TEXT,
        "Operators that launched the kernels, in order (`name ×3`: three kernels in a row); "
        "null: unknown.",
        key=True,
    ),
    Column("kernels", Unit.TEXT, "Kernel names, in order, written in the same way.", key=True),
    Column("length", Unit.ID, "Number of kernels in one sequence."),
    count_column("sequence_count", "Number of times the sequence ran."),
    sum_column("kernel_sum_ns", "Total duration of its kernels.", "sequence_count"),
    Column("kernel_pct", Unit.PCT, "Share of the time of all kernels.", better="less", adds=True),
    duration_column(
        "gap_sum_ns",
        "Total time from the end of each kernel to the start of the next in the sequence.",
        adds=True,
    ),
)

# Memory bounds these kernels. If one reads what another just wrote, one kernel might do the work of
# both.
_BY_MEMORY = frozenset(("elementwise", "reduction", "normalization", "softmax", "copy"))
_LONGEST_GAP_NS = 1_000_000
_MOST_KERNELS = 100


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per device and sequence that recurs, those with most kernel time first."""
    least = request.options["least"]
    if least < 1:
        raise UsageError(f"kernel_sequences:least={least}", hint="How often it runs: 1 or more.")
    found = _Launched(timeline)
    runs = _runs(timeline)
    runs = runs.take(_have_several_calls(runs, found.node))
    short = runs.take(runs.size <= _MOST_KERNELS)
    token, keys = factorize(
        timeline.ops.device[short.op], found.operator[short.op], found.kernel[short.op]
    )
    group, examples = _equal(token, short)
    count = len(examples)
    spent = short.added_up(timeline.ops.dur[short.op])
    values: dict[str, Any] = {
        "rank": ranks_by_group(timeline, timeline.ops.pid[short.op][short.first], group, count),
        "device_id": timeline.ops.device[short.op][short.first[examples]],
        **_texts(found, keys, [token[short.kernels(i)] for i in examples.tolist()]),
        "length": short.size[examples],
        "sequence_count": counts(group, count),
        "kernel_sum_ns": sums(group, spent, count),
        "gap_sum_ns": sums(group, short.added_up(short.gap), count),
    }
    whole = int(timeline.ops.dur[timeline.ops.kind == OpKind.KERNEL].sum())
    values["kernel_pct"] = percent(values["kernel_sum_ns"], whole or 1)
    order = sorted(
        np.flatnonzero(values["sequence_count"] >= least).tolist(),
        key=lambda i: (
            -int(values["kernel_sum_ns"][i]),
            int(values["device_id"][i]),
            values["operators"][i] or "",
            values["kernels"][i],
        ),
    )
    return Result(rows_at(values, order), notes=_notes(len(runs.size) - len(short.size)))


@dataclass(frozen=True)
class _Runs:
    # A run is several kernels in sequence. It begins in `op`, which holds GPU operations, at `first`,
    # and has `size` kernels. `gap` is the time from the end of the kernel before in the run, and 0 for
    # the first.
    op: Array
    gap: Array
    first: Array
    size: Array

    def take(self, which: Array) -> _Runs:
        """Return the runs of a mask, with the kernels of all."""
        return _Runs(self.op, self.gap, self.first[which], self.size[which])

    def added_up(self, values: Array) -> Array:
        """Return the sum of a value per kernel, by run."""
        upto = np.concatenate(([0], np.cumsum(values)))
        result: Array = upto[self.first + self.size] - upto[self.first]
        return result

    def kernels(self, run: int) -> slice:
        """Return the places of the kernels of a run."""
        return slice(int(self.first[run]), int(self.first[run] + self.size[run]))


def _runs(timeline: Timeline) -> _Runs:
    # Memory bounds the kernels of a run, and neither another operation of the stream nor a long gap
    # lies between them.
    ops = timeline.ops
    category, names = categories(timeline)
    bound = [number for number, name in enumerate(names) if name in _BY_MEMORY]
    timed = np.flatnonzero(ops.timed & (ops.kind != OpKind.MIGRATION))
    streams = (ops.stream[timed], ops.pid[timed], ops.device[timed])
    order = timed[np.lexsort((ops.end[timed], ops.start[timed], *streams))]
    is_kernel = ops.kind[order] == OpKind.KERNEL
    fits = np.zeros(len(order), bool)
    fits[is_kernel] = np.isin(category[ops.row[order[is_kernel]]], bound)
    stream, _ = factorize(ops.stream[order], ops.pid[order], ops.device[order])
    gap = np.maximum(ops.start[order[1:]] - ops.end[order[:-1]], 0)
    follows = np.zeros(len(order), bool)
    follows[1:] = fits[:-1] & (stream[1:] == stream[:-1]) & (gap <= _LONGEST_GAP_NS)
    gap = np.where(follows, np.concatenate(([0], gap))[: len(order)], 0)
    first = np.flatnonzero(~follows[fits])
    size = np.diff(first, append=int(np.count_nonzero(fits)))
    return _Runs(order[fits], gap[fits], first, size)


def _have_several_calls(runs: _Runs, node: Array) -> Array:
    # One call's kernels are that operator's own matter. What no operator launched is a call by itself.
    mine = node[runs.op]
    another = np.ones(len(mine), np.int64)
    another[1:] = (mine[1:] != mine[:-1]) | (mine[1:] < 0)
    another[runs.first] = 0
    result: Array = runs.added_up(another) > 0
    return result


def _equal(token: Array, runs: _Runs) -> tuple[Array, Array]:
    # Runs whose kernels have the same tokens form a group. The result has the group of each run, and an
    # example run per group.
    group = np.zeros(len(runs.size), np.int64)
    examples: list[int] = []
    sizes, (length,) = factorize(runs.size)
    for kernels, which in zip(length.tolist(), by_group(sizes, len(length)), strict=True):
        rows = token[runs.first[which][:, None] + np.arange(kernels)]
        _, example, equal = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        group[which] = len(examples) + equal.reshape(-1)
        examples += which[example].tolist()
    return group, np.array(examples, np.int64)


class _Launched:
    # This holds, by GPU operation, the call of the operator that launched it (-1: none), and the
    # numbers of the shown names of that operator and of the kernel.

    def __init__(self, timeline: Timeline) -> None:
        ops = timeline.ops
        calls = operator_calls(timeline)
        self.node = node_of_ops(timeline, calls, calls.rows)
        self.operators = (*calls.spans.names, NO_OPERATOR)
        self.operator = np.append(calls.spans.name, len(calls.spans.names))[self.node]
        kernels = np.flatnonzero(ops.kind == OpKind.KERNEL)
        place, (ids,) = factorize(timeline.profile.columns("kernel", ("name_id",))["name_id"])
        texts = timeline.profile.names(ids[ids != MISSING])
        numbers: dict[str, int] = {}
        shown = [plain_kernel(texts[i]) if i in texts else "[no name]" for i in ids.tolist()]
        number = np.array([numbers.setdefault(text, len(numbers)) for text in shown], np.int64)
        self.kernels = tuple(numbers)
        self.kernel = np.full(len(ops), -1)
        self.kernel[kernels] = number[place[ops.row[kernels]]]


def _texts(
    found: _Launched, keys: Sequence[Array], sequences: Iterable[Array]
) -> dict[str, list[str | None]]:
    _, operator, kernel = keys
    result: dict[str, list[str | None]] = {"operators": [], "kernels": []}
    for token in sequences:
        operators = [found.operators[i] for i in operator[token].tolist()]
        known = set(operators) != {NO_OPERATOR}
        result["operators"].append(_joined(operators) if known else None)
        result["kernels"].append(_joined([found.kernels[i] for i in kernel[token].tolist()]))
    return result


def _joined(names: Sequence[str]) -> str:
    runs = [(name, len(list(equal))) for name, equal in groupby(names)]
    return ", ".join(name if times == 1 else f"{name} ×{times}" for name, times in runs)


def _notes(too_long: int) -> tuple[Note, ...]:
    if not too_long:
        return ()
    text = f"sequences of more than {_MOST_KERNELS} kernels are not shown"
    return (Note("sequences-too-long", Severity.INFO, text, too_long),)


KERNEL_SEQUENCES = Query(
    options=(Option("least", 2, "Minimum number of times that a sequence runs."),),
    columns=COLUMNS,
    compute=compute,
)
