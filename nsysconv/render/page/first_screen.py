"""The page's first screen: where the time went, or what got better and what got worse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from nsysconv.render.page.markup import (
    amount,
    anchor,
    code,
    column_words,
    compared_column,
    escape,
    row_place,
    rows,
    share,
    shortened,
)
from nsysconv.report import Column, Report, Unit

Reports = Mapping[str, Report]
"""The reports of the page by name, without options."""

_MOST_DEVICES = 16
_ADVICE = {
    "cuda_memcpy_async": "Use pinned host memory: cudaMallocHost, or pin_memory=True in PyTorch.",
    "cuda_memcpy_sync": "Use the function with Async on a stream of its own, with pinned memory.",
    "cuda_memset_sync": "Use cudaMemsetAsync, or set host memory on the host.",
    "cuda_api_sync": "Leave out what the order in the stream guarantees; wait for an event instead.",
    "gpu_gaps": "Look at what the host did meanwhile, under idle time.",
    "gpu_time_util": "Look at these times alone, with --time.",
}
"""The reports whose rows are findings, and what to do about them."""

_PARTS = {
    "host": "the host had not asked for the next operation",
    "launch": "the launch was under way",
    "queue": "the operation waited in the queue",
    "migration": "unified memory was on its way",
    "profiler": "the profiler itself was at work",
    "unknown": "no cause is recorded",
    "end": "nothing came after",
}
_SERIES = {"kernels": "kernels", "others": "copies and sets alone"}


@dataclass
class _Device:
    place: str
    window: int
    busy: int
    pieces: dict[str, int] = field(default_factory=dict)  # ns; they make up the window


def profile_screen(reports: Reports) -> Iterator[str]:
    """Yield the first screen of a profile, or of several."""
    devices = _devices(reports)
    several = len(reports["overview"].profiles) > 1
    sentences = [*_busy(devices, several), *_idle(reports, devices), *_kernels(reports),
                 *_calls(reports), *_transfers(reports), *_steps(reports)]  # fmt: skip
    if devices:
        yield from _headline(devices)
        yield from _where(devices)
    elif reports["overview"].row_count:
        sentence = "<b>Busy and idle time are not recorded</b>: nothing says when kernels ran."
        sentences.insert(0, sentence)
    else:
        sentences.insert(0, "<b>Nothing ran on a GPU.</b>")
    if sentences:
        yield "<ul class='say'>" + "".join(f"<li>{line}" for line in sentences) + "</ul>"
    yield from _findings(reports)


def _devices(reports: Reports) -> list[_Device]:
    overview = reports["overview"]
    parts: dict[tuple[Any, ...], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in rows(reports.get("idle_summary")):
        if row["kind"] == "no_op":
            idle_parts = parts[row["profile"], row["device_id"]]
            for part in _PARTS:
                idle_parts[part] += row[f"{part}_sum_ns"] or 0
    devices = []
    for row in rows(overview):
        if not row["window_ns"]:
            continue
        device = _Device(row_place(row, overview.profiles), row["window_ns"], row["busy_ns"])
        device.pieces["kernels"] = row["kernel_union_ns"] or 0
        device.pieces["others"] = device.busy - device.pieces["kernels"]
        idle = parts.get((row["profile"], row["device_id"]), {})
        for part in _PARTS:
            device.pieces[part] = idle.get(part, 0)
        # Idle time that no part covers: there are no rows on gaps, or they are of another kind.
        device.pieces["unknown"] += device.window - sum(device.pieces.values())
        devices.append(device)
    return devices


def _headline(devices: Sequence[_Device]) -> Iterator[str]:
    window, busy = sum(d.window for d in devices), sum(d.busy for d in devices)
    kernels = sum(d.pieces["kernels"] for d in devices)
    time = max(d.window for d in devices)
    count = f"{len(devices)} GPUs" if len(devices) > 1 else "GPU"
    figures = {
        f"{count} busy": share(busy, window),
        "idle": share(window - busy, window),
        "in kernels": share(kernels, window),
        "from the first to the last GPU operation": amount(time, Unit.NS),
    }
    pairs = (f"<div><dt>{escape(k)}</dt><dd>{escape(n)}</dd></div>" for k, n in figures.items())
    yield f'<dl class="head">{"".join(pairs)}</dl>'


def _where(devices: Sequence[_Device]) -> Iterator[str]:
    shown = list(devices)
    if len(shown) > _MOST_DEVICES:
        shown = sorted(shown, key=lambda d: d.busy / d.window)[:_MOST_DEVICES]
    total: dict[str, int] = defaultdict(int)
    for device in devices:
        for piece, time in device.pieces.items():
            total[piece] += time
    window = sum(d.window for d in devices)
    yield '<figure class="where"><figcaption>Where the time went</figcaption><ol>'
    for device in shown:
        bars = "".join(
            f'<i class="w-{piece}" style="width:{100 * time / device.window:.3f}%"></i>'
            for piece, time in device.pieces.items()
            if time > 0
        )
        yield f'<li><span class="lb">{escape(device.place)}</span><span class="tr">{bars}</span>'
        yield f'<span class="vl">{share(device.busy, device.window)} busy</span>'
    yield '</ol><ul class="legend">'
    for piece, words in {**_SERIES, **_PARTS}.items():
        if total[piece] > 0:
            idle = "" if piece in _SERIES else "idle: "
            yield (
                f'<li><i class="k w-{piece}"></i>{idle}{escape(words)} '
                f"<b>{share(total[piece], window)}</b> {amount(total[piece], Unit.NS)}"
            )
    yield "</ul>"
    if len(shown) < len(devices):
        yield f'<p class="quiet">The {len(shown)} least busy of {len(devices):,} devices.</p>'
    yield "</figure>"


def _busy(devices: Sequence[_Device], several: bool) -> Iterator[str]:
    if len(devices) < 2:
        return
    by_share = sorted(devices, key=lambda d: d.busy / d.window)
    middle = median(100.0 * d.busy / d.window for d in devices)
    least, most = by_share[0], by_share[-1]
    yield (
        f"The devices were busy from <b>{share(least.busy, least.window)}</b> ({escape(least.place)}) to "
        f"<b>{share(most.busy, most.window)}</b> ({escape(most.place)}) of their time, "
        f"{middle:.1f} % at the median."
    )
    if several:
        longest = max(devices, key=lambda d: d.window)
        shortest = min(devices, key=lambda d: d.window)
        yield (
            f"The longest took <b>{amount(longest.window, Unit.NS)}</b> ({escape(longest.place)}), the "
            f"shortest {amount(shortest.window, Unit.NS)} ({escape(shortest.place)})."
        )


def _idle(reports: Reports, devices: Sequence[_Device]) -> Iterator[str]:
    idle = sum(d.window - d.busy for d in devices)
    if not idle:
        return
    totals = {part: sum(d.pieces[part] for d in devices) for part in _PARTS}
    part = max(totals, key=lambda key: totals[key])
    line = f"Idle for {amount(idle, Unit.NS)}{' in all' if len(devices) > 1 else ''}; in "
    line += f"<b>{share(totals[part], idle)}</b> of that {escape(_PARTS[part])}"
    doing = _most(reports.get("idle_host"), ("activity", "name"), "host_sum_ns")
    if part == "host" and doing:
        (activity, what), time, _ = doing
        if activity == "outside":
            line += f", {amount(time, Unit.NS)} outside of all that is recorded"
        else:
            kind = escape(str(activity).replace("_", " "))
            line += f", above all in the {kind.replace('api call', 'call')} {code(what)}"
            line += f" ({amount(time, Unit.NS)})"
    yield line + "."


def _kernels(reports: Reports) -> Iterator[str]:
    longest = _most(reports.get("kernels"), ("name",), "kernel_sum_ns")
    if not longest:
        return
    (what,), time, total = longest
    count = sum(row["kernel_count"] or 0 for row in rows(reports["kernels"]) if row["name"] == what)
    names = len({row["name"] for row in rows(reports["kernels"])})
    yield (
        f"The kernel with most time is {code(what)}: <b>{share(time, total)}</b> of all kernel time, "
        f"{amount(time, Unit.NS)} in {count:,} launch{'es' if count != 1 else ''}. "
        f"{names:,} different kernel{'s' if names != 1 else ''} ran."
    )


def _calls(reports: Reports) -> Iterator[str]:
    longest = _most(reports.get("api_vs_kernel"), ("name",), "api_sum_ns")
    if longest:
        (what,), time, _ = longest
        calls = [row for row in rows(reports["api_vs_kernel"]) if row["name"] == what]
        count = sum(row["call_count"] or 0 for row in calls)
        yield (
            f"The API call with most time is {code(what)}: <b>{amount(time, Unit.NS)}</b> in "
            f"{count:,} call{'s' if count != 1 else ''}."
        )


def _transfers(reports: Reports) -> Iterator[str]:
    transfers = list(rows(reports.get("transfers")))
    moved: dict[str, int] = defaultdict(int)
    spent: dict[str, int] = defaultdict(int)
    for row in transfers:
        moved[row["direction"]] += row["bytes_sum"] or 0
        spent[row["direction"]] += row["memcpy_sum_ns"] or 0
    top = sorted((d for d in moved if moved[d]), key=lambda d: -moved[d])[:3]
    if top:
        amounts = ", ".join(
            f"<b>{amount(moved[d], Unit.BYTES)}</b> {escape(d)} in {amount(spent[d], Unit.NS)}"
            for d in top
        )
        yield f"Copied: {amounts}."


def _steps(reports: Reports) -> Iterator[str]:
    steps = [row for row in rows(reports.get("steps")) if not row["step"].startswith("[")]
    times = [row["dur_ns"] for row in steps if row["dur_ns"] is not None]
    if len(times) > 1:
        longest = max(steps, key=lambda row: row["dur_ns"] or 0)
        yield (
            f"{len(times):,} steps of <b>{amount(median(times), Unit.NS)}</b> at the median; the "
            f"longest, {code(longest['step'], kernel=False)}, took {amount(longest['dur_ns'], Unit.NS)}."
        )


def _most(
    report: Report | None, keys: Sequence[str], column: str
) -> tuple[tuple[Any, ...], int, int] | None:
    # The keys with the largest sum of a column, that sum, and the sum over all; None where all is 0.
    totals: dict[tuple[Any, ...], int] = defaultdict(int)
    for row in rows(report):
        if row[column] is not None and row[keys[-1]] is not None:
            totals[tuple(row[key] for key in keys)] += row[column]
    if not totals or not max(totals.values()):
        return None
    best = max(totals, key=lambda key: totals[key])
    return best, totals[best], sum(totals.values())


def _findings(reports: Reports) -> Iterator[str]:
    asked = [reports[each] for each in _ADVICE if each in reports]
    with_rows = [report for report in asked if report.row_count]
    if not asked:
        return
    yield "<h3>What to look at</h3>"
    if with_rows:
        yield '<ul class="find">'
        for report in sorted(with_rows, key=lambda report: -report.row_count):
            longest = max((row["dur_ns"] or 0 for row in rows(report)), default=0)
            extent = f", up to {amount(longest, Unit.NS)} each" if report.row_count > 1 else (
                f" of {amount(longest, Unit.NS)}")  # fmt: skip
            yield (
                f'<li><a href="#{anchor(report.name)}"><b>{report.row_count:,}</b> × '
                f"{escape(finding_title(report))}</a>{extent}. "
                f'<span class="quiet">{escape(_ADVICE[base_name(report.name)])}</span>'
            )
        yield "</ul>"
    for words, kept in (
        ("Looked for and not found", [r for r in asked if r.table is not None and not r.row_count]),
        ("Cannot be told from this recording", [r for r in asked if r.table is None]),
    ):
        if kept:
            yield f'<p class="quiet">{words}: {escape("; ".join(map(finding_title, kept)).lower())}.</p>'


def is_finding(report: Report) -> bool:
    """Return whether a report's rows are findings of a rule."""
    return base_name(report.name) in _ADVICE


def finding_title(report: Report) -> str:
    """Return what a rule looks for, in words."""
    return report.title.partition(", ")[0]


def base_name(report_name: str) -> str:
    """Return a report's name without its options, and without what a comparison puts before it."""
    return report_name.partition(":")[0].removeprefix("diff_")


_GLANCE = ("window_ns", "busy_ns", "idle_pct", "kernel_count", "kernel_sum_ns", "memcpy_sum_ns")
ANSWER = "answer"
"""The report that is all said in words, above all others."""

_MOST_CHANGES = 3


def is_change(report: Report) -> bool:
    """Return whether a report is one of changes."""
    return report.name.startswith("diff_")


def comparison_screen(reports: Sequence[Report]) -> Iterator[str]:
    """Yield the answer, limits, the devices on both sides, and the greatest changes of each report."""
    for report in reports:
        if report.name == ANSWER:
            yield f'<p class="say"><b>{escape(report.title)}</b></p>'
        if report.name == "limits":
            yield from _limits(report)
        if report.name == "diff_overview":
            yield from _glance(report)
    table_rows = [line for report in reports if is_change(report) for line in _greatest(report)]
    if table_rows:
        yield "<h3>The greatest changes</h3>"
        yield '<div class="scroll" role="region" tabindex="0" aria-label="The greatest changes">'
        yield "<table><thead><tr><th class='t'>what<th class='t'>where<th>change<th>base<th>other"
        yield "<th class='t'>verdict<th class='t'>interval</tr></thead><tbody>"
        yield from table_rows
        yield "</table></div>"


def _limits(report: Report) -> Iterator[str]:
    states = [row["state"] for row in rows(report)]
    counts = ", ".join(f"{states.count(state)} {escape(state)}" for state in dict.fromkeys(states))
    yield f'<p class="say">Limits: <b>{counts}</b> (<a href="#{anchor(report.name)}">which</a>).</p>'


def _glance(report: Report) -> Iterator[str]:
    columns = {column.name: column for column in report.columns}
    measures = [name for name in _GLANCE if f"base_{name}" in columns]
    changed_rows = list(rows(report))
    if not changed_rows:
        yield '<p class="say"><b>No device changed.</b></p>'
        return
    for row in changed_rows:
        where = ", ".join(_labels(report, row)) or "all devices"
        yield f'<h3>{escape(where)}</h3><dl class="head">'
        for name in measures:
            base, other = row[f"base_{name}"], row[f"other_{name}"]
            if base is None or other is None or not (base or other):
                continue
            column = columns[f"base_{name}"]
            yield (
                f'<div class="{_judged(row, name)}"><dt>{escape(column_words(name))}</dt>'
                f"<dd>{amount(other, column.unit)}</dd>"
                f"<dd class='from'>from {amount(base, column.unit)}, {_change(column, base, other)}</dd>"
                "</div>"
            )
        yield "</dl>"


def _labels(report: Report, row: dict[str, Any]) -> list[str]:
    keys = (column for column in report.columns if column.key)
    return [
        f"{column_words(key.name.removesuffix('_id'))} {row[key.name]}" if key.unit is Unit.ID
        else amount(row[key.name], key.unit) if key.kind != "text" else str(row[key.name])
        for key in keys if row[key.name] is not None
    ]  # fmt: skip


def _judged(row: dict[str, Any], name: str) -> str:
    verdict = row.get(f"verdict_{name}")
    return verdict if verdict in ("better", "worse") else "same"


def _change(column: Column, base: float, other: float) -> str:
    if column.unit is Unit.PCT:
        return f"{other - base:+.1f} points".replace("-", "−")
    if not base:
        return "new"
    return f"{100 * (other - base) / base:+.1f}\N{NO-BREAK SPACE}%".replace("-", "−")


def _greatest(report: Report) -> Iterator[str]:
    main = compared_column(report)
    if main is None:
        return
    unit = next(c.unit for c in report.columns if c.name == f"diff_{main}")
    for i, row in enumerate(rows(report)):
        change = row[f"diff_{main}"]
        if i == _MOST_CHANGES or not change:
            break
        what = f"{report.title.removeprefix('What changed: ')}: {column_words(main)}"
        link = f'<a href="#{anchor(report.name)}">{escape(what)}</a>' if i == 0 else ""
        labels = _labels(report, row)
        where = ", ".join(map(shortened, labels)) or "all"
        sign = "+" if change > 0 else "−"
        verdict = str(row["verdict"] or "–")
        yield (
            f'<tr class="{verdict if verdict in ("better", "worse") else ""}"><td class="t">{link}'
            f'<td class="t" title="{escape(", ".join(labels))}">{escape(where)}'
            f"<td>{sign}{amount(abs(change), unit)}"
            f"<td>{amount(row[f'base_{main}'], unit)}<td>{amount(row[f'other_{main}'], unit)}"
            f'<td class="t">{escape(verdict)}<td class="t">{escape(row["interval"] or "–")}'
        )
