"""Operators of a framework: their time on the host, and that of what they launched on the GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from nsysconv.errors import UsageError
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.queries.columns import (
    PROFILE,
    RANK,
    count_column,
    duration_column,
    key_column,
    ranks_by_group,
    rows_at,
    sum_column,
)
from nsysconv.queries.contract import Array, Option, Query, Request, Result, View
from nsysconv.queries.operator_groups import TREE, grouped, not_recorded, tree_order
from nsysconv.queries.operator_rates import (
    RATES,
    RATES_OPTIONS,
    RATES_VIEW,
    check_options,
    known_sums,
    per_second,
    rates,
)
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import counts, factorize, percent, sums
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.flop import flop_of_calls, time_of_calls
from nsysconv.timeline.forward_links import backward_of
from nsysconv.timeline.intervals import grouped_measure
from nsysconv.timeline.kernel_categories import ANSWERS, YES, tensor_core_use
from nsysconv.timeline.nesting import deep_path_notes
from nsysconv.timeline.operator_calls import (
    OperatorCalls,
    eligible_calls,
    may_have_operators,
    node_of_ops,
    operator_calls,
)
from nsysconv.timeline.timeline import Timeline

NO_OPERATOR = "[no operator]"
"""The row of GPU operations that no operator launched."""

_LAUNCHED = "the GPU operations launched by the operator itself, not by operators inside"
COLUMNS = (
    PROFILE,
    RANK,
    key_column(
        "name",
        "Name of the operator, with its overload only on request; [no operator]: GPU operations "
        "launched outside operators.",
    ),
    Column(
        "shapes",
        Unit.TEXT,
        "Shapes of the inputs ([] for a list of tensors); null: not recorded, or not requested.",
        key=True,
        optional=True,
    ),
    Column(
        "stack",
        Unit.TEXT,
        "Python call stack, innermost function first; null: none, or not requested.",
        key=True,
        optional=True,
    ),
    Column(
        "module",
        Unit.TEXT,
        "Modules around the operator, outermost first; null: none, or not requested.",
        key=True,
        optional=True,
    ),
    *(replace(column, optional=True) for column in TREE),
    count_column(
        "call_count",
        "Number of calls. A call that is the only content of another call of the same name "
        "is not counted.",
    ),
    count_column(
        "nested_count", "Number of calls inside another call of the same row.", brief=False
    ),
    sum_column("host_sum_ns", "Sum of their durations.", "call_count"),
    duration_column(
        "host_self_sum_ns",
        "Total duration without the operators and API calls inside.",
        adds=True,
    ),
    Column(
        "host_self_pct",
        Unit.PCT,
        "Share of the host self time, API calls included, of all rows.",
        better="less",
    ),
    duration_column(
        "api_sum_ns",
        "Total duration of the API calls made directly by the operator, without operators inside "
        "those calls.",
        adds=True,
    ),
    duration_column(
        "device_sum_ns", "Total duration of the GPU operations launched in the operator.", adds=True
    ),
    duration_column("device_self_sum_ns", f"Total duration of {_LAUNCHED}.", adds=True),
    Column(
        "device_self_pct", Unit.PCT, "Share of the device self time of all rows.", better="less"
    ),
    duration_column(
        "device_self_union_ns",
        f"Time with any of {_LAUNCHED} running, over all calls and GPUs.",
        brief=False,
    ),
    duration_column(
        "device_self_union_sum_ns",
        f"Time with any of {_LAUNCHED} running, summed over calls.",
        brief=False,
        adds=True,
    ),
    count_column("gpu_op_count", f"Number of {_LAUNCHED}.", brief=False),
    count_column("kernel_count", "Number of kernels among these.", brief=False),
    duration_column(
        "backward_host_sum_ns",
        "Total host duration of the operator's calls in the backward pass.",
        adds=True,
        brief=False,
    ),
    duration_column(
        "backward_device_sum_ns",
        "Total duration of the GPU operations launched in the backward pass.",
        adds=True,
        brief=False,
    ),
    count_column(
        "flop_sum",
        "Floating-point operations of the calls and of the operators inside, computed from input "
        "shapes; null: no formula, or shapes are not recorded.",
        brief=False,
    ),
    Column(
        "flop_per_s",
        Unit.FLOP_PER_S,
        "Floating-point operations per second of GPU time of those calls.",
        better="more",
        brief=False,
    ),
    Column(
        "eligible",
        Unit.TEXT,
        "Whether the work could run on Tensor Cores (yes or no): yes if the operator, or one "
        "inside, is of a kind that can, or launched a kernel that does.",
        brief=False,
    ),
    Column(
        "tensor_core_self_pct",
        Unit.PCT,
        "Share of device self time in kernels on Tensor Cores.",
        better="more",
    ),
    Column(
        "tensor_core_pct",
        Unit.PCT,
        "Share of device time, operators inside included, in kernels on Tensor Cores.",
        better="more",
        brief=False,
    ),
)
_TITLES = {
    "shapes": "Operators by shapes of inputs",
    "stack": "Operators by call stack",
    "module": "Operators by module",
    "overload": "Operators by overload",
    "path": "Operators as a tree",
}
_ON_GPU = tuple(
    column.name
    for column in COLUMNS
    if column.name.startswith(("device_", "tensor_", "gpu_", "kernel_"))
    or column.name in ("eligible", "backward_device_sum_ns", "flop_per_s")
)


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per operator, those with most GPU time of their own first, then by host time.

    Of a tree, one per path, each followed by those inside.
    """
    options = request.options
    if not may_have_operators(timeline):
        raise not_recorded(timeline, "operators", Fact.OPERATORS)
    check_options(OPERATORS.options, options)
    if options["rates"]:
        return rates(timeline, request)
    if options["stack"] < 0 or (options["stack"] and options["by"] != "stack"):
        text = f"operators:stack={options['stack']}"
        raise UsageError(text, hint="So many innermost functions, with by=stack: by=stack:stack=3.")
    calls = operator_calls(timeline, options["annotations"], options["functions"])
    nodes = calls.rows
    held = nodes[timeline.holds(calls.spans)[nodes]]
    shown = held[calls.parent[held] < 0] if options["top-level"] else held
    groups = grouped(timeline, calls, shown, options["by"], options["stack"])
    group, count = groups.of, groups.count
    host_self = sums(group, calls.self_ns[shown], count)
    api = sums(group, calls.api_ns[shown], count)
    flop = flop_of_calls(timeline, calls)
    backward = backward_of(timeline, calls)
    values: dict[str, Any] = {
        **{column.name: [None] * count for column in (*COLUMNS[3:6], *TREE)},
        **groups.keys,
        "rank": ranks_by_group(timeline, calls.spans.pid[shown], group, count),
        "call_count": counts(group, count),
        "nested_count": sums(group, _nested(calls, shown, group).astype(np.int64), count),
        "host_sum_ns": sums(group, calls.dur[shown], count),
        "host_self_sum_ns": host_self,
        "host_self_pct": percent(host_self, host_self.sum() + api.sum()),
        "api_sum_ns": api if Fact.API_CALLS in timeline.profile.facts else [None] * count,
        "backward_host_sum_ns": _of_linked(calls.dur, backward, shown, group, count),
        "flop_sum": _flop_sums(calls, flop, shown, group, count),
    }
    spent = host_self * 0
    unlaunched: dict[str, Any] = {}
    notes: tuple[Note, ...] = ()
    if Fact.API_LINKS in timeline.profile.facts:
        work = _Work(timeline, calls, held)
        values |= work.by_group(shown, group, count)
        values |= work.of_backward(backward, shown, group, count)
        values["flop_per_s"] = work.flop_rates(flop, shown, group, count)
        spent = values["device_self_sum_ns"]
        unlaunched = work.of_no_node(int(spent.sum()))
        notes = work.notes()
    else:
        values |= {name: [None] * count for name in _ON_GPU}
    order: Sequence[int] | Array
    if groups.paths is not None:
        weight = values["device_sum_ns"] if spent.any() else values["host_sum_ns"]
        order = tree_order(groups.paths, weight, request.limit)
    else:
        # Names, and not their numbers, decide where times are equal: these depend on how it was stored.
        texts = [tuple(map(str, row)) for row in zip(*groups.keys.values(), strict=True)]
        order = sorted(range(count), key=lambda i: (-int(spent[i]), -int(host_self[i]), texts[i]))
    rows = rows_at(values, order)
    notes = (*notes, *deep_path_notes([text or "" for text in rows["path"]]))
    if unlaunched:
        # Among the others by its time, after a tree.
        place = int(np.count_nonzero(np.asarray(spent) >= unlaunched["device_self_sum_ns"]))
        if groups.paths is not None:
            place = len(order)
            unlaunched |= {"path": NO_OPERATOR, "level": 0}
        rows = {
            name: [*list(rows[name])[:place], unlaunched.get(name), *list(rows[name])[place:]]
            for name in values
        }
    shown_rows = {name: list(column)[: request.limit or None] for name, column in rows.items()}
    return Result(
        shown_rows,
        count + bool(unlaunched),
        title=_TITLES.get(options["by"], ""),
        notes=notes,
    )


def _of_linked(values: Array, linked: Array, shown: Array, group: Array, count: int) -> list[Any]:
    # The values of the calls that belong to these, added up by group; None where no call has one.
    has_one = linked[shown] >= 0
    found = sums(group[has_one], values[linked[shown[has_one]]], count)
    some = counts(group[has_one], count)
    return [total if n else None for total, n in zip(found.tolist(), some.tolist(), strict=True)]


def _flop_sums(
    calls: OperatorCalls, flop: Array, shown: Array, group: Array, count: int
) -> list[Any]:
    known = flop != MISSING
    return known_sums(
        group,
        calls.with_nested(np.where(known, flop, 0))[shown],
        calls.with_nested(known.astype(np.int64))[shown],
        count,
    )


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
        self._timeline = timeline
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
        could = eligible_calls(self._timeline, calls, self._node)
        group_of = np.full(len(calls.parent) + 1, -1)
        group_of[shown] = group
        mine = np.flatnonzero(group_of[self._node] >= 0)
        node = self._node[mine]
        unions = self._union(mine, node, len(calls.parent))
        return {
            "device_sum_ns": whole_ns,
            "device_self_sum_ns": self_ns,
            "device_self_pct": percent(self_ns, int(self_ns.sum()) + self.unlaunched_ns),
            "device_self_union_ns": self._union(mine, group_of[node], count),
            "device_self_union_sum_ns": sums(group, unions[shown], count),
            "gpu_op_count": counts(group_of[node], count),
            "kernel_count": sums(group_of[node], self._kernel[mine], count),
            "eligible": [
                ANSWERS[some] for some in (counts(group[could[shown]], count) > 0).tolist()
            ],
            "tensor_core_self_pct": percent(cores_ns, self_ns),
            "tensor_core_pct": percent(cores_inside_ns, whole_ns),
        }

    def of_backward(self, linked: Array, shown: Array, group: Array, count: int) -> dict[str, Any]:
        """Return the columns of the backward pass of groups of nodes; `linked` is that of each node."""
        whole = self._calls.with_nested(self._by_node(self._ops.dur))
        return {"backward_device_sum_ns": _of_linked(whole, linked, shown, group, count)}

    def flop_rates(self, flop: Array, shown: Array, group: Array, count: int) -> list[float | None]:
        """Return the floating-point operations per second of groups of nodes; None: no time is known."""
        calls = self._calls
        spent = time_of_calls(self._timeline, calls, flop)
        timed = (flop != MISSING) & (spent > 0)
        time = sums(group, calls.with_nested(np.where(timed, spent, 0))[shown], count)
        each = calls.with_nested(np.where(timed, flop, 0).astype(float))[shown]
        return per_second(np.bincount(group, each, count), time)

    @property
    def unlaunched_ns(self) -> int:
        """Return the time of the GPU operations that none of the nodes launched."""
        return int(self._ops.dur.sum(where=self._node < 0))

    def of_no_node(self, shown_ns: int) -> dict[str, Any]:
        """Return the row of the GPU operations that none of the nodes launched; it is empty without any.

        `shown_ns` is the time in the other rows.
        """
        mine = np.flatnonzero(self._node < 0)
        if not len(mine):
            return {}
        spent, on_cores = self.unlaunched_ns, int(self._on_cores[mine].sum())
        return {
            "name": NO_OPERATOR,
            "rank": ranks_by_group(self._timeline, self._ops.pid[mine], mine * 0, 1)[0],
            "device_sum_ns": spent,
            "device_self_sum_ns": spent,
            "device_self_pct": float(percent(spent, shown_ns + spent)),
            "device_self_union_ns": int(self._union(mine, mine * 0, 1)[0]),
            "gpu_op_count": len(mine),
            "kernel_count": int(self._kernel[mine].sum()),
            "tensor_core_self_pct": float(percent(on_cores, spent)),
            "tensor_core_pct": float(percent(on_cores, spent)),
        }

    def notes(self) -> tuple[Note, ...]:
        """Return what has to be said of work that operators outside of a slice launched."""
        launched = node_of_ops(self._timeline, self._calls, self._calls.rows) >= 0
        outside = int(np.count_nonzero(launched & (self._node < 0)))
        if not outside:
            return ()
        text = (
            f"GPU operations in the slice launched by operators outside it are in {NO_OPERATOR}; for "
            "steps and ranges, --projected selects what they launched"
        )
        total = len(self._node)
        return (Note("operators-outside", Severity.INFO, text, outside, of=total),)

    def _by_node(self, values: Array) -> Array:
        launched = np.flatnonzero(self._node >= 0)
        return sums(self._node[launched], values[launched], len(self._calls.parent))

    def _union(self, which: Array, group: Array, count: int) -> Array:
        timed = self._ops.timed[which]
        which, group = which[timed], group[timed]
        start, end = self._ops.start[which], self._ops.end[which]
        order = np.lexsort((start, group))
        return grouped_measure(start[order], end[order], group[order], count)


def _needs(options: Mapping[str, Any]) -> set[Fact]:
    if options["functions"] or options["by"] == "module":
        return {Fact.PYTHON_FUNCTIONS}
    return {Fact.STACKS} if options["by"] == "stack" else set()


OPERATORS = Query(
    needs=_needs,
    options=(
        Option(
            "by",
            "name",
            "Rows per name (name); per name and input shapes, stack or modules (shapes, stack, module); "
            "per name with its overload (overload); or per path, as a tree (path).",
        ),
        Option("stack", 0, "With by=stack: number of innermost functions per stack; 0: all."),
        Option("annotations", False, "Include other ranges around operators."),
        Option("functions", False, "Include Python functions, if imported."),
        Option("top-level", False, "Show only outermost calls."),
        *RATES_OPTIONS,
    ),
    columns=COLUMNS,
    views={"name": View("Operators by name", COLUMNS), RATES.name: RATES_VIEW},
    compute=compute,
)
