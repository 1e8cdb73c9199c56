"""Where the host's time goes, as samples of its threads show: by function and library."""

from __future__ import annotations

from collections import Counter

import numpy as np

from nsysconv.queries.columns import count_column, key_column, rows_at
from nsysconv.queries.contract import ColumnValues, Query, Request
from nsysconv.report import Column, Unit
from nsysconv.timeline.arrays import Array, counts, factorize
from nsysconv.timeline.host_activity import host_activity
from nsysconv.timeline.host_threads import UNRESOLVED, frame_names
from nsysconv.timeline.idle import drop_threadless_host_parts, gaps
from nsysconv.timeline.timeline import Timeline

COLUMNS = (
    key_column("function", "Name of the function; `[unresolved]`: only its address is known."),
    key_column("library", "Program or library that contains the function."),
    count_column(
        "sample_count", "Number of CPU samples in which a thread was running the function."
    ),
    Column("sample_pct", Unit.PCT, "Share of all CPU samples in the slice."),
    count_column(
        "thread_count", "Number of threads in which the function was sampled.", brief=False
    ),
    count_column("start_up_sample_count", "Number of samples before the first GPU operation."),
    count_column(
        "waited_sample_count",
        "Number of samples in a launching thread, outside API calls, while a device waited for it.",
    ),
)


def compute(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per function and library, most samples first."""
    read = timeline.columns("cpu_sample", ("start_ns", "pid", "tid", "name_id", "library_id"))
    names = frame_names(timeline)
    pair, (functions, libraries) = factorize(read["name_id"], read["library_id"])
    keys = [
        (names.get(function, UNRESOLVED), names.get(library))
        for function, library in zip(functions.tolist(), libraries.tolist(), strict=True)
    ]
    # Two addresses of one library are one row.
    rows = {key: row for row, key in enumerate(dict.fromkeys(keys))}
    group = np.array([rows[key] for key in keys], np.int64)[pair]
    count = len(rows)
    _, (of_row, _, _) = factorize(group, read["pid"], read["tid"])
    every = counts(group, count)
    waited = _while_waited_for(timeline, request)
    values = {
        "function": [function for function, _ in rows],
        "library": [library for _, library in rows],
        "sample_count": every,
        "sample_pct": 100 * every / max(len(group), 1),
        "thread_count": counts(of_row, count),
        "start_up_sample_count": counts(group[_before_work(timeline, read["start_ns"])], count),
        "waited_sample_count": [waited[key] for key in rows],
    }
    return rows_at(values, np.argsort(-every, kind="stable"))


def _before_work(timeline: Timeline, moments: Array) -> Array:
    ops = timeline.ops
    result: Array = moments < (ops.start.min(where=ops.timed, initial=moments.max(initial=0) + 1))
    return result


def _while_waited_for(timeline: Timeline, request: Request) -> Counter[tuple[str, str | None]]:
    # Devices of one thread may wait at the same time, and a sample counts once.
    activity = host_activity(timeline, request.range_names)
    spans: dict[int, list[tuple[Array, Array]]] = {}
    for device_gaps in gaps(timeline, "no_op"):
        for pieces in activity.system(drop_threadless_host_parts(timeline, device_gaps)):
            spans.setdefault(pieces.thread, []).append((pieces.start, pieces.end))
    found: Counter[tuple[str, str | None]] = Counter()
    for thread, parts in spans.items():
        found.update(
            activity.sampled(thread, *(np.concatenate(each) for each in zip(*parts, strict=True)))
        )
    return found


HOST_FUNCTIONS = Query(columns=COLUMNS, compute=compute)
