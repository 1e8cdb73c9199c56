"""The time line: the events of a report as data for the page's script, which draws and zooms them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from nsysconv.names import escaped, shorten
from nsysconv.render.page.marks import WHOLE, escape, rows
from nsysconv.report import Report

_ON_GPU = ("kernel", "memcpy", "memset", "migration", "graph_launch")
_ON_CPU = ("range", "operator", "api_call")
_KINDS = (*_ON_GPU, *_ON_CPU)
_KEYS = (
    ("drag, ← →", "move"),
    ("pinch, wheel with Ctrl, + −", "zoom"),
    ("0", "all of it"),
    ("↑ ↓", "another lane"),
    ("n p", "next, previous event"),
)


def timeline_lanes(report: Report) -> Iterator[str]:
    """A canvas and its data; where there are too many events, how to look at a part."""
    if report.table is None or not report.table.num_rows:
        yield "<p>No events.</p>"
        return
    if report.row_count > report.table.num_rows:
        yield from _too_many(report)
        return
    buttons = (("−", "zoom out"), ("+", "zoom in"), ("←", "earlier"), ("→", "later"), ("0", "all"))
    yield '<div class="lanes" id="lanes" hidden><p class="tools">'
    yield "".join(
        f'<button type="button" data-key="{key}" aria-label="{words}">{key}</button>'
        for key, words in buttons
    )
    yield '<span id="lanes-span"></span></p>'
    yield '<div class="scroll"><canvas id="lanes-canvas" tabindex="0" role="application" '
    yield 'aria-label="time line of GPU operations by stream and of CPU events by thread" '
    yield 'aria-describedby="lanes-keys"></canvas></div>'
    yield '<p id="lanes-event" aria-live="polite">Point at an event, or press n.</p>'
    keys = "; ".join(f"<kbd>{escape(key)}</kbd> {escape(words)}" for key, words in _KEYS)
    yield f'<p class="quiet" id="lanes-keys">{keys}.</p></div>'
    yield "<noscript><p>The time line needs the page's script.</p></noscript>"
    yield f'<script type="application/json" id="lanes-data">{_json(_data(report))}</script>'


def _too_many(report: Report) -> Iterator[str]:
    shown = report.table.num_rows if report.table is not None else 0
    begin, end = (report.slice or {}).get("start_ns"), (report.slice or {}).get("end_ns")
    part = "--time 50%:51%"
    if begin is not None and end is not None:
        middle, half = (begin + end) // 2, max((end - begin) * shown // report.row_count // 4, 1)
        part = f"--time {middle - half}:{middle + half}"
    yield (
        f'<p class="say"><b>{report.row_count:,} events</b> are too many to draw here; '
        f"{shown:,} are the most. Look at a part of the time, or at a step: "
        f"<code>nsysconv report … -o part.html {part}</code>, <code>--step 3</code>.</p>"
    )


def _data(report: Report) -> dict[str, Any]:
    """Columns; starts are differences from the event before, which keeps them short."""
    lanes: dict[tuple[Any, ...], int] = {}
    labels: list[str] = []
    names: dict[str, int] = {}
    found: dict[str, list[int]] = {key: [] for key in ("lane", "start", "dur", "name", "kind")}
    first = before = None
    for row in rows(report):
        on_gpu = row["kind"] in _ON_GPU
        key = (not on_gpu, row["pid"], row["device_id"], row["stream_id"], row["tid"])
        if key not in lanes:
            lanes[key] = len(lanes)
            labels.append(_label(row, on_gpu))
        if first is None or before is None:
            first = before = row["start_ns"]
        found["lane"].append(lanes[key])
        found["start"].append(row["start_ns"] - before)
        found["dur"].append(row["dur_ns"])
        found["name"].append(names.setdefault(row["name"] or "-", len(names)))
        found["kind"].append(_KINDS.index(row["kind"]))
        before = row["start_ns"]
    order = sorted(lanes, key=lambda key: [(value is None, value or 0) for value in key])
    return {
        "first": first,
        "kinds": _KINDS,
        "lanes": labels,
        "order": [lanes[key] for key in order],
        "names": [shorten(escaped(name), WHOLE) for name in names],
        **found,
    }


def _label(row: dict[str, Any], on_gpu: bool) -> str:
    if on_gpu:
        stream = "no stream" if row["stream_id"] is None else f"stream {row['stream_id']}"
        device = "GPU" if row["device_id"] is None else f"GPU {row['device_id']}"
        return f"{device}, {stream}"
    thread = "no thread" if row["tid"] is None else f"thread {row['tid']}"
    return escaped(f"{thread} {row['thread'] or ''}".strip())


def _json(data: dict[str, Any]) -> str:
    """JSON that cannot end the element it stands in, whatever names are in it."""
    told = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return told.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
