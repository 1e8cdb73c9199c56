"""Modules of a network as a tree: their time on the host and the GPU, in the forward and the backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from nsysconv.facts import Fact
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
from nsysconv.queries.contract import Array, Query, Request, Result
from nsysconv.queries.operator_groups import TREE, tree_keys, tree_order
from nsysconv.timeline.arrays import counts, sums
from nsysconv.timeline.forward_links import backward_of
from nsysconv.timeline.modules import ModuleCalls, module_calls
from nsysconv.timeline.nesting import deep_path_notes
from nsysconv.timeline.operator_calls import API_CALL, OperatorCalls, operator_calls
from nsysconv.timeline.timeline import Timeline

NO_MODULE = "[no module]"
"""The row of GPU operations that were launched in no module."""

COLUMNS = (
    PROFILE,
    RANK,
    key_column(
        "name",
        "The module, by its class and number within the class; [in backward]: called in the "
        "backward pass; [no module]: GPU operations launched outside modules.",
    ),
    *TREE,
    count_column("call_count", "Number of calls."),
    count_column(
        "operator_count",
        "Number of operators directly in the module, not in modules or operators inside.",
    ),
    sum_column("host_sum_ns", "Total duration of the calls.", "call_count"),
    duration_column(
        "host_self_sum_ns", "Total duration without the operators and modules inside.", adds=True
    ),
    duration_column(
        "device_sum_ns", "Total duration of the GPU operations launched in the module.", adds=True
    ),
    duration_column(
        "device_self_sum_ns", "Total device duration without modules inside.", adds=True
    ),
    count_column("gpu_op_count", "Number of GPU operations launched in the module.", brief=False),
    duration_column(
        "backward_host_sum_ns",
        "Total host duration of backward calls of the module's operators; null: none.",
        adds=True,
    ),
    duration_column(
        "backward_device_sum_ns",
        "Total duration of the GPU operations launched in the backward pass.",
        adds=True,
    ),
)


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per path of modules, each followed by those inside, those with most time first."""
    calls = operator_calls(timeline)
    modules = module_calls(timeline, calls)
    paths = modules.tree.paths
    held = np.flatnonzero(timeline.holds(modules.tree.spans))
    group, count = paths.of[held], len(paths)
    own = modules.tree.spans.end - modules.tree.spans.start
    values: dict[str, Any] = {
        **tree_keys(paths, modules.tree.spans.names),
        "rank": ranks_by_group(timeline, modules.tree.spans.pid[held], group, count),
        "call_count": counts(group, count),
        "operator_count": sums(group, modules.operator_count[held], count),
        "host_sum_ns": sums(group, own[held], count),
        "host_self_sum_ns": sums(group, modules.self_ns[held], count),
    }
    work = _Work(timeline, calls, modules, held)
    values |= work.of_modules()
    weight = (
        values["device_sum_ns"] if work.is_known and work.spent.any() else values["host_sum_ns"]
    )
    # In a slice, the rows are the modules that have a call in it, and the modules around them.
    is_there = paths.with_nested(values["call_count"]) > 0
    order = tree_order(paths, weight, request.limit)
    rows = rows_at(values, order[is_there[order]])
    # Where no module was called all is outside, and no row says more.
    outside = work.of_no_module() if is_there.any() else {}
    if outside:
        rows = {name: [*rows[name], outside.get(name)] for name in values}
    shown = {name: list(column)[: request.limit or None] for name, column in rows.items()}
    notes = deep_path_notes([text or "" for text in shown["path"]])
    return Result(shown, int(np.count_nonzero(is_there)) + bool(outside), notes)


class _Work:
    # This holds the GPU operations and the backward pass by path of modules.

    def __init__(
        self, timeline: Timeline, calls: OperatorCalls, modules: ModuleCalls, held: Array
    ) -> None:
        self.is_known = Fact.API_LINKS in timeline.profile.facts
        self._modules, self._paths = modules, modules.tree.paths
        ops = timeline.ops
        # `_module` is, per GPU operation, the innermost module call in which it was launched.
        is_held = np.zeros(len(modules.tree) + 1, bool)
        is_held[held] = True
        launched_in = _of_calls(timeline, calls, modules)
        self._module = np.where(is_held[launched_in], launched_in, -1)
        self._timeline = timeline
        self._dur, self._pid = ops.dur, ops.pid
        self.spent = self._by_path(ops.dur)
        # The backward of an operator is that of the module which it is in.
        linked = backward_of(timeline, calls)
        self._forward = np.flatnonzero((linked >= 0) & is_held[modules.of_node])
        self._backward = linked[self._forward]
        self._calls = calls
        self._node_ns = self._of_nodes(timeline) if self.is_known else None

    def of_modules(self) -> dict[str, Any]:
        """Return the columns of all paths."""
        result: dict[str, Any] = dict.fromkeys(
            ("device_sum_ns", "device_self_sum_ns", "gpu_op_count", "backward_device_sum_ns"),
            [None] * len(self._paths),
        )
        if self.is_known:
            result |= {
                "device_sum_ns": self._paths.with_nested(self.spent),
                "device_self_sum_ns": self.spent,
                "gpu_op_count": self._paths.with_nested(
                    self._by_path(np.ones(len(self._module), np.int64))
                ),
            }
        if self._node_ns is not None:
            result["backward_device_sum_ns"] = self._of_backward(self._node_ns)
        result["backward_host_sum_ns"] = self._of_backward(self._calls.dur)
        return result

    def of_no_module(self) -> dict[str, Any]:
        """Return the row of the operations that no module launched; it is empty if there are none."""
        outside = np.flatnonzero(self._module < 0)
        if not self.is_known or not len(outside):
            return {}
        spent = int(self._dur[outside].sum())
        return {
            "name": NO_MODULE,
            "rank": ranks_by_group(self._timeline, self._pid[outside], outside * 0, 1)[0],
            "path": NO_MODULE,
            "level": 0,
            "device_sum_ns": spent,
            "device_self_sum_ns": spent,
            "gpu_op_count": len(outside),
        }

    def _by_path(self, values: Array) -> Array:
        some = np.flatnonzero(self._module >= 0)
        return sums(self._paths.of[self._module[some]], values[some], len(self._paths))

    def _of_backward(self, values: Array) -> list[int | None]:
        group = self._paths.of[self._modules.of_node[self._forward]]
        found = self._paths.with_nested(
            sums(group, values[self._backward], len(self._paths))
        ).tolist()
        some = self._paths.with_nested(counts(group, len(self._paths))).tolist()
        return [total if n else None for total, n in zip(found, some, strict=True)]

    def _of_nodes(self, timeline: Timeline) -> Array:
        # The result has, per node, the durations of the GPU operations that were launched in it or
        # inside it.
        node = np.append(self._calls.node_of_call, -1)[timeline.owner]
        some = np.flatnonzero(node >= 0)
        own = sums(node[some], self._dur[some], len(self._calls.parent))
        return self._calls.with_nested(own)


def _of_calls(timeline: Timeline, calls: OperatorCalls, modules: ModuleCalls) -> Array:
    # The result has, per GPU operation, the innermost module that its call is in, or -1.
    is_call = calls.spans.kind == API_CALL
    module_of_call = np.full(len(timeline.calls) + 1, -1)
    module_of_call[calls.spans.row[is_call]] = modules.of_node[is_call]
    found: Array = module_of_call[timeline.owner]
    return found


MODULES = Query(columns=COLUMNS, compute=compute)
