"""CUDA and HIP graphs: their replays, the kernels in them, and what runs outside."""

from __future__ import annotations

from typing import Any

import numpy as np

from nsysconv.errors import UsageError
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.queries import columns
from nsysconv.queries.columns import count_column, duration_column, key_column, rows_at, sum_column
from nsysconv.queries.contract import Array, Option, Query, Request, Result, View
from nsysconv.queries.event_lanes import labels_of_ops, op_labels
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import (
    counts,
    factorize,
    grouped_percentiles,
    grouped_statistics,
    percent,
    sums,
)
from nsysconv.timeline.graphs import Graphs, captured_in, graphs
from nsysconv.timeline.timeline import Timeline

OUTSIDE = "[outside graphs]"
"""The row of GPU operations that no graph replayed."""

_BY_GRAPH = (
    *(columns.PROFILE, columns.PROCESS_RANK, columns.PID, columns.DEVICE),
    key_column(
        "graph",
        "The graph: `graph 7` by its instance number or, if that is not recorded, `69 nodes from "
        f"NAME` by the number and the first of its operations. {OUTSIDE}: all other operations.",
    ),
)
COLUMNS = (
    *_BY_GRAPH,
    count_column("replay_count", "Number of replays."),
    Column(
        "node_count",
        Unit.COUNT,
        "Number of operations in the longest replay by count; null: recorded as one interval per "
        "replay.",
        distinct=True,
    ),
    duration_column(
        "replay_med_ns",
        "Median time of a replay, from the start of its first operation to the end of its last.",
        real=True,
    ),
    duration_column("replay_p99_ns", "99th percentile of the replay time."),
    count_column("gpu_op_count", "Number of recorded operations or intervals.", brief=False),
    sum_column("gpu_op_sum_ns", "Sum of their durations.", "gpu_op_count"),
    duration_column("per_replay_ns", "Total duration per replay.", real=True, brief=False),
    Column(
        "gpu_op_pct", Unit.PCT, "Share of the total duration of all rows.", better="less", adds=True
    ),
    duration_column("launch_med_ns", "Median duration of the launching calls.", real=True),
    count_column(
        "incomplete_replay_count", "Number of replays with fewer operations than `node_count`."
    ),
    count_column("missing_op_count", "Number of operations missing in those replays.", brief=False),
    Column(
        "recorded",
        Unit.TEXT,
        "How replays were recorded: node (each operation) or graph (one interval per replay).",
        brief=False,
    ),
)
_KERNEL_COLUMNS = (
    *_BY_GRAPH,
    key_column("name", "Kernel, `[memcpy …]` or `[memset]`; `[graph launch]`: a whole replay."),
    Column(
        "captured_in",
        Unit.TEXT,
        "Name given by the program to that part of the capture, else the innermost operator or range "
        "open when the node was created; null: not recorded.",
        key=True,
        optional=True,
    ),
    count_column("gpu_op_count", "Number of executions.", brief=False),
    Column("per_replay_count", Unit.COUNT, "Executions per replay.", real=True, distinct=True),
    sum_column("gpu_op_sum_ns", "Sum of their durations.", "gpu_op_count"),
    duration_column("per_replay_ns", "Total duration per replay.", real=True),
    Column("graph_pct", Unit.PCT, "Share of the durations of all of the graph.", better="less"),
    count_column("missing_op_count", "Executions that replays lack beside the one with most."),
)
_VIEWS = {
    "graph": View("Graphs", COLUMNS),
    "kernel": View("Kernels in graphs", _KERNEL_COLUMNS),
}


def compute(timeline: Timeline, request: Request) -> Result:
    """Return one row per graph, most GPU time first, and one of all else; or per graph and kernel."""
    by = request.options["by"]
    if by not in _VIEWS:
        raise UsageError(f"graphs:by={by}: no such view", hint=f"There are: {', '.join(_VIEWS)}.")
    rows = _Rows(timeline, request, graphs(timeline))
    return Result(rows.by_graph() if by == "graph" else rows.by_kernel(), notes=rows.notes)


class _Rows:
    # The replays of the slice: those whose first operation is in it.

    def __init__(self, timeline: Timeline, request: Request, found: Graphs) -> None:
        self._timeline, self._found, self._count = timeline, found, len(found.pid)
        self._is_held = timeline.ops_in_slice[found.place[found.replays.first]]
        self._replays = found.replays.take(self._is_held)
        named = labels_of_ops(timeline.whole, request)
        self._texts, self._label = named.texts, op_labels(timeline.whole, request, named)(found.ops)
        self._number = counts(self._replays.graph, self._count)
        self._spent = sums(self._replays.graph, self._replays.op_sum, self._count)
        shown = np.flatnonzero(self._number)
        self._shown = shown[np.argsort(-self._spent[shown], kind="stable")]

    @property
    def notes(self) -> tuple[Note, ...]:
        """Return how to record the operations of graphs, where they were not."""
        advice = self._timeline.profile.advice.get(Fact.GRAPH_NODES)
        whole = int(np.count_nonzero(self._found.is_whole[self._shown]))
        text = f"graphs without nodes: {advice}"
        note = Note("graphs-without-nodes", Severity.INFO, text, whole)
        return (note,) if whole and advice else ()

    def by_graph(self) -> dict[str, Any]:
        """Return the values of `COLUMNS`."""
        found, of, graph, count = self._found, self._replays, self._replays.graph, self._count
        launched = of.take(of.call >= 0)
        calls = self._timeline.calls.take(launched.call)
        lacking = found.node_count[graph] - of.op_count
        of_nodes = {
            "node_count": found.node_count,
            "incomplete_replay_count": counts(graph[lacking > 0], count),
            "missing_op_count": sums(graph, lacking, count),
        }
        values = {
            "replay_count": self._number,
            "replay_med_ns": grouped_statistics(graph, of.dur, count).median,
            "replay_p99_ns": grouped_percentiles(graph, of.dur, count, 99)[0],
            "gpu_op_count": sums(graph, of.op_count, count),
            "gpu_op_sum_ns": self._spent,
            "per_replay_ns": self._spent / np.maximum(self._number, 1),
            "launch_med_ns": grouped_statistics(
                launched.graph, calls.end - calls.start, count
            ).median,
            "recorded": np.where(found.is_whole, "graph", "node"),
            **{name: np.where(found.is_whole, MISSING, each) for name, each in of_nodes.items()},
        }
        rows = {**self._keys(self._shown), **rows_at(values, self._shown)}
        last = self._outside() if len(self._shown) else {}
        total = int(rows["gpu_op_sum_ns"].sum()) + last.get("gpu_op_sum_ns", 0)
        rows["gpu_op_pct"] = percent(rows["gpu_op_sum_ns"], total or 1)
        if last:
            last["gpu_op_pct"] = float(percent(last["gpu_op_sum_ns"], total or 1))
            rows = {name: [*_plain(column), last.get(name)] for name, column in rows.items()}
        return rows

    def by_kernel(self) -> dict[str, Any]:
        """Return the values of `_KERNEL_COLUMNS`."""
        found = self._found
        captured, texts = captured_in(self._timeline, found)
        row, (graph, label, part) = factorize(
            found.replays.graph[found.replay], self._label, captured
        )
        count = len(graph)
        cell, (row_of_cell, _) = factorize(row, found.replay)
        most = np.zeros(count, np.int64)
        np.maximum.at(most, row_of_cell, counts(cell, len(row_of_cell)))
        mine = np.flatnonzero(self._is_held[found.replay])
        number, spent = counts(row[mine], count), sums(row[mine], found.ops.dur[mine], count)
        replays = self._number[graph]
        missing = np.where(found.is_whole[graph], MISSING, most * replays - number)
        values = {
            "name": [self._texts[i] for i in label.tolist()],
            "captured_in": [texts[i] if i >= 0 else None for i in part.tolist()],
            "gpu_op_count": number,
            "per_replay_count": number / np.maximum(replays, 1),
            "gpu_op_sum_ns": spent,
            "per_replay_ns": spent / np.maximum(replays, 1),
            "graph_pct": percent(spent, self._spent[graph]),
            "missing_op_count": missing,
        }
        place = np.full(self._count, self._count)
        place[self._shown] = np.arange(len(self._shown))
        order = np.lexsort((part, label, -spent, place[graph]))
        order = order[replays[order] > 0]
        return {**self._keys(graph[order]), **rows_at(values, order)}

    def _keys(self, shown: Array) -> dict[str, Any]:
        found, first = self._found, np.zeros(self._count, np.int64)
        graph, op = found.replays.graph[::-1], found.replays.first[::-1]
        first[graph] = op  # written backwards, the first one stays
        columns = (found.exec_id, found.node_count, self._label[first])
        names = [
            f"{count} nodes from {self._texts[label]}" if number == MISSING else f"graph {number}"
            for number, count, label in np.stack(columns)[:, shown].T.tolist()
        ]
        return {
            "rank": [self._timeline.ranks.get(pid) for pid in found.pid[shown].tolist()],
            "pid": found.pid[shown],
            "device_id": found.device[shown],
            "graph": names,
        }

    def _outside(self) -> dict[str, Any]:
        is_outside = np.ones(len(self._timeline.whole.ops), bool)
        is_outside[self._found.place] = False
        ops = self._timeline.ops.take(is_outside[self._timeline.ops_in_slice])
        return {
            "rank": self._timeline.rank_of(ops.pid),
            "graph": OUTSIDE,
            "gpu_op_count": len(ops),
            "gpu_op_sum_ns": int(ops.dur.sum()),
        }


def _plain(column: Any) -> list[Any]:
    # The values with None for what is not recorded.
    values = column.tolist() if isinstance(column, np.ndarray) else column
    return [None if each == MISSING or each != each else each for each in values]


GRAPHS = Query(
    options=(Option("by", "graph", "Rows per graph (graph), or per graph and kernel (kernel)."),),
    columns=COLUMNS,
    views=_VIEWS,
    compute=compute,
)
