"""Operators of a framework: their time on the host, and that of what they launched on the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from nsysconv.errors import NotRecorded, UsageError
from nsysconv.facts import Fact
from nsysconv.queries.columns import (
    PROFILE,
    count_column,
    duration_column,
    key_column,
    ranks_by_group,
    rows_at,
    sum_column,
)
from nsysconv.queries.contract import CALL_FACTS, Array, Option, Query, Request, Result
from nsysconv.report import MISSING, Column, Picture, Unit
from nsysconv.timeline.arrays import counts, factorize, percent, sums
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.intervals import grouped_measure
from nsysconv.timeline.kernel_categories import YES, eligible, tensor_core_use
from nsysconv.timeline.operator_calls import (
    OperatorCalls,
    may_have_operators,
    node_of_ops,
    operator_calls,
)
from nsysconv.timeline.timeline import Timeline

NO_OPERATOR = "[no operator]"
"""The row of GPU operations that no operator launched."""

_GROUPS = ("name", "shapes")
_LAUNCHED = "the GPU operations launched in it, and in no operator inside"
COLUMNS = (
    PROFILE,
    Column("rank", Unit.ID, "Rank of the only ranked process with such calls.", key=True),
    key_column(
        "name",
        "The operator, without its overload; [no operator]: GPU operations that none launched.",
    ),
    Column(
        "shapes",
        Unit.TEXT,
        "Shapes of its inputs, a list of tensors as []; null: not recorded, or not asked for.",
        key=True,
    ),
    count_column(
        "call_count", "Calls, but for those that are all that a call of the same name holds."
    ),
    count_column("nested_count", "Calls that lie in a call of the same row.", brief=False),
    sum_column("host_sum_ns", "Sum of their durations.", "call_count"),
    duration_column(
        "host_self_sum_ns", "The same without the operators and API calls inside.", adds=True
    ),
    Column(
        "host_self_pct",
        Unit.PCT,
        "Its share of that time, and of that of the API calls inside, of all rows.",
        better="less",
    ),
    duration_column("api_sum_ns", "Of API calls in it, and in no operator inside.", adds=True),
    duration_column(
        "device_sum_ns", "Durations of the GPU operations launched in it, added up.", adds=True
    ),
    duration_column("device_self_sum_ns", f"Durations of {_LAUNCHED}, added up.", adds=True),
    Column("device_self_pct", Unit.PCT, "Its share of that time of all rows.", better="less"),
    duration_column("device_self_union_ns", f"Union of {_LAUNCHED}, of all calls.", brief=False),
    duration_column(
        "device_self_union_sum_ns",
        f"Union of {_LAUNCHED}, by call, added up.",
        brief=False,
        adds=True,
    ),
    count_column("gpu_op_count", f"Count of {_LAUNCHED}.", brief=False),
    count_column("kernel_count", "Kernels among those.", brief=False),
    Column(
        "eligible",
        Unit.TEXT,
        "Whether its work could run on Tensor Cores: yes, if it or an operator inside is of those that "
        "could, or launched a kernel that does; no.",
        brief=False,
    ),
    Column(
        "tensor_core_self_pct",
        Unit.PCT,
        "Kernels on Tensor Cores among its GPU operations, and not of operators inside, by time.",
        better="more",
    ),
    Column(
        "tensor_core_pct",
        Unit.PCT,
        "The same with those of operators inside.",
        better="more",
        brief=False,
    ),
)
_ON_GPU = tuple(column.name for column in COLUMNS[10:])


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per operator, those with most GPU time of their own first, then by host time."""
    options = request.options
    if options["by"] not in _GROUPS:
        hint = f"There are: {', '.join(_GROUPS)}"
        raise UsageError(f"operators:by={options['by']}", hint=hint)
    if not may_have_operators(timeline):
        advice = timeline.profile.advice.get(Fact.OPERATORS)
        raise NotRecorded("operators", [Fact.OPERATORS], [advice] if advice else [])
    calls = operator_calls(timeline, options["annotations"])
    nodes = calls.rows
    by_shapes = options["by"] == "shapes"
    if by_shapes and not len(calls.shape_texts):
        how = "Record with `record_shapes=True`, or with `autograd-shapes-nvtx`."
        raise NotRecorded("operators:by=shapes", ["shapes of operators' inputs"], [how])
    held = nodes[timeline.holds(calls.spans)[nodes]]
    shown = held[calls.parent[held] < 0] if options["top-level"] else held
    shapes = calls.shapes[shown] if by_shapes else np.full(len(shown), MISSING)
    group, (names, sizes) = factorize(calls.spans.name[shown], shapes)
    count = len(names)
    host_self = sums(group, calls.self_ns[shown], count)
    api = sums(group, calls.api_ns[shown], count)
    values: dict[str, Any] = {
        "name": [calls.spans.names[i] for i in names.tolist()],
        "shapes": [None if i == MISSING else calls.shape_texts[i] for i in sizes.tolist()],
        "rank": ranks_by_group(timeline, calls.spans.pid[shown], group, count),
        "call_count": counts(group, count),
        "nested_count": sums(group, _nested(calls, shown, group).astype(np.int64), count),
        "host_sum_ns": sums(group, calls.dur[shown], count),
        "host_self_sum_ns": host_self,
        "host_self_pct": percent(host_self, host_self.sum() + api.sum()),
        "api_sum_ns": api,
    }
    spent = host_self * 0
    unlaunched: dict[str, Any] = {}
    if Fact.API_LINKS in timeline.profile.facts:
        work = _Work(timeline, calls, held)
        values |= work.by_group(shown, group, count)
        spent = values["device_self_sum_ns"]
        unlaunched = work.of_no_node()
    else:
        values |= {name: [None] * count for name in _ON_GPU}
    # Names, and not their numbers, decide where times are equal: these depend on how it was stored.
    texts = [
        (name, shapes or "") for name, shapes in zip(values["name"], values["shapes"], strict=True)
    ]
    order = sorted(range(count), key=lambda i: (-int(spent[i]), -int(host_self[i]), texts[i]))
    rows = rows_at(values, order)
    if unlaunched:
        rows = {name: [*rows[name], unlaunched.get(name)] for name in values}
    shown_rows = {name: list(column)[: request.limit or None] for name, column in rows.items()}
    return Result(shown_rows, count + bool(unlaunched))


def _nested(calls: OperatorCalls, shown: Array, group: Array) -> Array:
    # Which of these nodes lie in another of their group: one that began before ends after they begin.
    if not len(shown):
        return np.zeros(0, bool)
    spans = calls.spans
    thread, _ = factorize(spans.pid[shown], spans.tid[shown])
    start, end = spans.start[shown], spans.end[shown]
    order = np.lexsort((-end, start, group, thread))
    segment, _ = factorize(thread, group)
    ends = np.sort(end)
    # Ends as numbers, so that those of each segment may lie beyond those of the one before.
    rank = np.searchsorted(ends, end[order], side="left")
    base = np.cumsum(np.diff(segment[order], prepend=segment[order][:1]) != 0) * (len(ends) + 1)
    reach = np.maximum.accumulate(rank + base)
    before = np.searchsorted(ends, start[order], side="right")
    result = np.zeros(len(shown), bool)
    result[order[1:]] = reach[:-1] >= (before + base)[1:]
    return result


class _Work:
    # The GPU operations of a time line by the node that launched them: of the nodes of the slice, `held`,
    # -1 for none.

    def __init__(self, timeline: Timeline, calls: OperatorCalls, held: Array) -> None:
        self._calls = calls
        self._ops = ops = timeline.ops
        self._node = node_of_ops(timeline, calls, held)
        self._kernel = (ops.kind == OpKind.KERNEL).astype(np.int64)
        self._on_cores = np.zeros(len(ops), np.int64)
        kernels = np.flatnonzero(self._kernel)
        uses = tensor_core_use(timeline)[ops.row[kernels]] == YES
        self._on_cores[kernels] = np.where(uses, ops.dur[kernels], 0)

    def by_group(self, shown: Array, group: Array, count: int) -> dict[str, Any]:
        """Return the columns of groups of nodes."""
        calls, dur = self._calls, self._ops.dur
        self_of_node = self._by_node(dur)
        cores_of_node = self._by_node(self._on_cores)
        self_ns, cores_ns = (
            sums(group, each[shown], count) for each in (self_of_node, cores_of_node)
        )
        whole_ns, cores_inside_ns = (
            sums(group, calls.with_nested(each)[shown], count)
            for each in (self_of_node, cores_of_node)
        )
        could = (calls.named(eligible()) | (cores_of_node > 0)).astype(np.int64)
        group_of = np.full(len(calls.parent) + 1, -1)
        group_of[shown] = group
        mine = np.flatnonzero(group_of[self._node] >= 0)
        node = self._node[mine]
        unions = self._union(mine, node, len(calls.parent))
        return {
            "device_sum_ns": whole_ns,
            "device_self_sum_ns": self_ns,
            "device_self_pct": percent(self_ns, int(dur.sum())),
            "device_self_union_ns": self._union(mine, group_of[node], count),
            "device_self_union_sum_ns": sums(group, unions[shown], count),
            "gpu_op_count": counts(group_of[node], count),
            "kernel_count": sums(group_of[node], self._kernel[mine], count),
            "eligible": _yes_or_no(sums(group, calls.with_nested(could)[shown], count)),
            "tensor_core_self_pct": percent(cores_ns, self_ns),
            "tensor_core_pct": percent(cores_inside_ns, whole_ns),
        }

    def of_no_node(self) -> dict[str, Any]:
        """Return the row of what none of the nodes launched; empty if they launched all."""
        mine = np.flatnonzero(self._node < 0)
        if not len(mine):
            return {}
        spent, on_cores = int(self._ops.dur[mine].sum()), int(self._on_cores[mine].sum())
        return {
            "name": NO_OPERATOR,
            "device_sum_ns": spent,
            "device_self_sum_ns": spent,
            "device_self_pct": float(percent(spent, int(self._ops.dur.sum()))),
            "device_self_union_ns": int(self._union(mine, mine * 0, 1)[0]),
            "gpu_op_count": len(mine),
            "kernel_count": int(self._kernel[mine].sum()),
            "tensor_core_self_pct": float(percent(on_cores, spent)),
            "tensor_core_pct": float(percent(on_cores, spent)),
        }

    def _by_node(self, values: Array) -> Array:
        launched = np.flatnonzero(self._node >= 0)
        return sums(self._node[launched], values[launched], len(self._calls.parent))

    def _union(self, which: Array, group: Array, count: int) -> Array:
        timed = self._ops.timed[which]
        which, group = which[timed], group[timed]
        start, end = self._ops.start[which], self._ops.end[which]
        order = np.lexsort((start, group))
        return grouped_measure(start[order], end[order], group[order], count)


def _yes_or_no(numbers: Array) -> list[str]:
    return ["yes" if number else "no" for number in numbers.tolist()]


OPERATORS = Query(
    title="Operators by name",
    any_of={Fact.OPERATORS, Fact.RANGES},
    needs=set(),
    uses={Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.THREADS, Fact.RANKS, *CALL_FACTS},
    options=(
        Option("by", "name", "A row per name, or per name and shapes of inputs: name, shapes."),
        Option("annotations", False, "With other ranges, which operators then lie in, too."),
        Option("top-level", False, "Only calls that lie in no other."),
    ),
    columns=COLUMNS,
    picture=Picture(
        "bars", x=("name",), values=("device_self_sum_ns", "host_self_sum_ns"), by=("rank",)
    ),
    compute=compute,
)
