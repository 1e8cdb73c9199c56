"""The page's first screen: where the time went, or what got better and what got worse."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from statistics import median
from typing import Any

from nsysconv.document import Section
from nsysconv.render.page.account import (
    Device,
    account_figures,
    account_sentences,
    devices_of,
    idle_totals,
    idle_words,
    totals_figure,
)
from nsysconv.render.page.addresses import Addresses
from nsysconv.render.page.findings import findings_list
from nsysconv.render.page.markup import (
    amount,
    anchor,
    code,
    column_words,
    compared_column,
    escape,
    places,
    prose,
    rows,
    share,
    shortened,
)
from nsysconv.render.page.waterfall import signed, waterfall
from nsysconv.report import Column, Unit

Reports = Mapping[str, Section]
"""The reports of the page by name, without options."""


def profile_screen(
    reports: Reports, anchors: Mapping[str, str], addresses: Addresses
) -> Iterator[str]:
    """Yield the first screen of a profile, or of several; `anchors` are those of reports by name."""
    summary, findings = reports.get("summary"), reports.get("findings")
    devices = [] if summary is None else devices_of(summary)
    if findings is not None and len(findings.texts) > 1:
        yield f'<p class="lead">{prose(" ".join(findings.texts[0].lines))}</p>'
    if summary is not None:
        yield from account_figures(summary)
        if not devices:
            yield from totals_figure(reports)
    if findings is not None:
        place = places(findings if summary is None else summary)
        shown_place = place if len(devices) > 1 else None
        yield from findings_list(findings, anchors, addresses, shown_place)
    sentences = [
        *(() if summary is None else account_sentences(summary)),
        *_idle(reports, devices, addresses),
        *_kernels(reports),
        *_calls(reports),
        *_transfers(reports),
        *_steps(reports),
    ]
    if sentences:
        yield "<h3>In figures</h3>"
        yield "<ul class='say'>" + "".join(f"<li>{line}" for line in sentences) + "</ul>"


def _idle(reports: Reports, devices: Sequence[Device], addresses: Addresses) -> Iterator[str]:
    totals = idle_totals(devices)
    idle = sum(totals.values())
    if not idle:
        return
    most = max(totals, key=lambda name: totals[name])
    line = f"Idle for {amount(idle, Unit.NS)} between operations"
    line += f"{' in total' if len(devices) > 1 else ''}; "
    line += f"<b>{share(totals[most], idle)}</b> of that: {escape(idle_words(most))}"
    doing = _most(reports.get("idle_host"), ("activity", "name"), "host_sum_ns")
    if most == "idle_host" and doing:
        (activity, what), time, _ = doing
        if activity == "outside":
            line += f", {amount(time, Unit.NS)} in unrecorded host code"
        else:
            kind = escape(str(activity).replace("_", " "))
            line += f", mostly in {kind.replace('api call', 'call')} {code(what)}"
            line += f" ({amount(time, Unit.NS)})"
    yield f"{line}.{_longest_gap(reports, addresses)}"


def _longest_gap(reports: Reports, addresses: Addresses) -> str:
    gap = next(rows(reports.get("idle_gaps")), None)
    address = None if gap is None else addresses.of("idle_gaps", gap)
    if gap is None or address is None:
        return ""
    length = amount(gap["dur_ns"], Unit.NS)
    return f' <a href="#{escape(address)}">The longest gap</a> took {length}.'


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
    report: Section | None, keys: Sequence[str], column: str
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


def base_name(report_name: str) -> str:
    """Return a report's name without its options, and without what a comparison puts before it."""
    return report_name.partition(":")[0].removeprefix("diff_")


_GLANCE = ("window_ns", "busy_ns", "idle_pct", "kernel_count", "kernel_sum_ns", "memcpy_sum_ns")
ANSWER = "answer"
"""The report that is all said in words, above all others."""

_MOST_CHANGES = 3
_MOST_PARTS = 4
_MINOR = "other"
"""The part that joins the minor ones."""

_MINUS = re.compile(r"(?<![\w.])-(?=\d)")
# Up to the first semicolon that is in no brackets.
_CLAUSE = re.compile(r"^(?:\([^()]*\)|[^();]|[();](?! ))+")


def is_change(report: Section) -> bool:
    """Return whether a report is one of changes."""
    return report.name.startswith("diff_")


def is_comparison(reports: Sequence[Section]) -> bool:
    """Return whether the reports are those of a comparison of two sides."""
    return any(is_change(report) or report.name == ANSWER for report in reports)


def comparison_screen(reports: Sequence[Section]) -> Iterator[str]:
    """Yield the answer, limits, the devices on both sides, and the greatest changes of each report."""
    for report in reports:
        if report.name == ANSWER:
            yield from _answer(report.title)
        if report.name == "account":
            yield from _parts(report)
        if report.name == "limits":
            yield from _limits(report)
        if report.name == "diff_overview":
            yield from _glance(report)
    groups = [line for report in reports if is_change(report) for line in _greatest(report)]
    if groups:
        yield "<h3>The greatest changes</h3>"
        yield '<div class="scroll changes" role="region" tabindex="0" aria-label="The greatest changes">'
        yield "<table><thead><tr><th class='t'>where<th>change<th>before<th>after"
        yield "<th class='t'>verdict<th class='t'>interval</tr></thead>"
        yield from groups
        yield "</table></div>"


def _answer(line: str) -> Iterator[str]:
    # What changed, and then what that rests on.
    words = _MINUS.sub("−", line)
    head = next(iter(_CLAUSE.findall(words)), words)
    rest = words[len(head) :].removeprefix("; ")
    rest = f" {escape(rest[:1].upper() + rest[1:])}." if rest else ""
    yield f'<p class="say"><b>{escape(head[:1].upper() + head[1:])}.</b>{rest}</p>'


def _parts(account: Section) -> Iterator[str]:
    # Breakdown of the change, on the device whose time changed most.
    by_device = [
        list(found)
        for _, found in groupby(rows(account), lambda row: (row["rank"], row["device_id"]))
    ]
    if not by_device:
        return
    device = max(by_device, key=lambda found: abs(found[0]["change_ns"]))
    whole, *parts = device
    most = [part for part in parts if part["change_ns"] and part["part"] != _MINOR][:_MOST_PARTS]
    if not most:
        return
    words = [
        f"<b>{signed(part['change_ns'])}</b> {escape(_in_brackets(part['part']))}" for part in most
    ]
    where = f"on {places(account)(whole)}" if len(by_device) > 1 else ""
    what = escape(f"{whole['part']} {where}".strip())
    yield (
        f'<p class="say"><b>{signed(whole["change_ns"])}</b> {what}, above all {"; ".join(words)}. '
        f'<a href="#{anchor(account.name)}">All parts</a></p>'
    )
    yield from waterfall(device, f" {where}" if where else "")


def _in_brackets(part: str) -> str:
    # What a part is, after its colon.
    name, colon, meaning = part.partition(": ")
    return f"{name} ({meaning})" if colon else name


def _limits(report: Section) -> Iterator[str]:
    states = [row["state"] for row in rows(report)]
    counts = ", ".join(f"{states.count(state)} {escape(state)}" for state in dict.fromkeys(states))
    yield f'<p class="say">Limits: <b>{counts}</b> (<a href="#{anchor(report.name)}">which</a>).</p>'


def _glance(report: Section) -> Iterator[str]:
    columns = {column.name: column for column in report.columns}
    measures = [name for name in _GLANCE if f"before_{name}" in columns]
    changed_rows = list(rows(report))
    if not changed_rows:
        yield '<p class="say"><b>No GPU changed.</b></p>'
        return
    for row in changed_rows:
        where = ", ".join(_labels(report, row)) or "all GPUs"
        yield f'<h3>{escape(where)}</h3><dl class="head">'
        for name in measures:
            base, other = row[f"before_{name}"], row[f"after_{name}"]
            if base is None or other is None or not (base or other):
                continue
            column = columns[f"before_{name}"]
            before = f"before {amount(base, column.unit)}, {_change(column, base, other)}"
            yield (
                f'<div class="{_judged(row, name)}"><dt>{escape(column_words(name))}</dt>'
                f"<dd>{amount(other, column.unit)}</dd>"
                f"<dd class='from'>{before}</dd>"
                "</div>"
            )
        yield "</dl>"


def _labels(report: Section, row: dict[str, Any]) -> list[str]:
    return [
        _label(column, row[column.name])
        for column in report.columns
        if column.key and row[column.name] is not None
    ]


def _label(key: Column, value: Any) -> str:
    if key.kind == "text":
        return str(value)
    name = column_words(key.name)
    if name == "bucket":
        return f"from {amount(value, key.unit)}"
    return f"{name} {value}" if key.unit is Unit.ID else amount(value, key.unit)


def _judged(row: dict[str, Any], name: str) -> str:
    verdict = row.get(f"verdict_{name}")
    return verdict if verdict in ("better", "worse") else "same"


def _change(column: Column, base: float, other: float) -> str:
    if column.unit is Unit.PCT:
        return f"{other - base:+.1f} points".replace("-", "−")
    if not base:
        return "new"
    return f"{100 * (other - base) / base:+.1f}\N{NO-BREAK SPACE}%".replace("-", "−")


def _greatest(report: Section) -> Iterator[str]:
    # The report is a row of its own: names have the width that numbers leave, and numbers all they need.
    main = compared_column(report)
    if main is None:
        return
    unit = next(c.unit for c in report.columns if c.name == f"diff_{main}")
    for i, row in enumerate(rows(report)):
        change = row[f"diff_{main}"]
        if i == _MOST_CHANGES or not change:
            break
        if i == 0:
            what = f"{report.title.removeprefix('What changed: ')}: {column_words(main)}"
            link = f'<a href="#{anchor(report.name)}">{escape(what)}</a>'
            yield f'<tbody><tr><th class="t" colspan="6" scope="rowgroup">{link}'
        labels = _labels(report, row)
        where = ", ".join(map(shortened, labels)) or "all"
        sign = "+" if change > 0 else "−"
        verdict = str(row["verdict"] or "–")
        yield (
            f'<tr class="{verdict if verdict in ("better", "worse") else ""}">'
            f'<td class="t" title="{escape(", ".join(labels))}">{escape(where)}'
            f"<td>{sign}{amount(abs(change), unit)}"
            f"<td>{amount(row[f'before_{main}'], unit)}<td>{amount(row[f'after_{main}'], unit)}"
            f'<td class="t">{escape(verdict)}<td class="t">{escape(row["interval"] or "–")}'
        )
