"""The first screen of a comparison: what got better and what got worse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nsysconv.render.page.marks import amount, anchor, column_words, escape, rows, shortened
from nsysconv.report import Column, Report
from nsysconv.units import Unit

_GLANCE = ("window_ns", "busy_ns", "idle_pct", "kernel_count", "kernel_sum_ns", "memcpy_sum_ns")
ANSWER = "answer"
"""The report that is all said in words, above all others."""

_MOST_CHANGES = 3


def is_change(report: Report) -> bool:
    """Whether a report is one of changes."""
    return report.name.startswith("diff_")


def comparison_screen(reports: Sequence[Report]) -> Iterator[str]:
    """The answer, limits, the devices on both sides, and the greatest changes of each report."""
    for report in reports:
        if report.name == ANSWER:
            yield f'<p class="say"><b>{escape(report.title)}</b></p>'
        if report.name == "limits":
            yield from _limits(report)
        if report.name == "diff_overview":
            yield from _glance(report)
    told = [line for report in reports if is_change(report) for line in _greatest(report)]
    if told:
        yield "<h3>The greatest changes</h3>"
        yield '<div class="scroll" role="region" tabindex="0" aria-label="The greatest changes">'
        yield "<table><thead><tr><th class='t'>what<th class='t'>where<th>change<th>base<th>other"
        yield "<th class='t'>verdict<th class='t'>interval</tr></thead><tbody>"
        yield from told
        yield "</table></div>"


def _limits(report: Report) -> Iterator[str]:
    states = [row["state"] for row in rows(report)]
    told = ", ".join(f"{states.count(state)} {escape(state)}" for state in dict.fromkeys(states))
    yield f'<p class="say">Limits: <b>{told}</b> (<a href="#{anchor(report.name)}">which</a>).</p>'


def _glance(report: Report) -> Iterator[str]:
    columns = {column.name: column for column in report.columns}
    measures = [name for name in _GLANCE if f"base_{name}" in columns]
    found = list(rows(report))
    if not found:
        yield '<p class="say"><b>No device changed.</b></p>'
        return
    for row in found:
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
    """better or worse where a measure's own verdict says so, else `same`."""
    verdict = row.get(f"verdict_{name}")
    return verdict if verdict in ("better", "worse") else "same"


def _main(report: Report) -> str | None:
    """The measure that a report of changes is judged by: its change comes first."""
    return next((c.name[5:] for c in report.columns if c.name.startswith("diff_")), None)


def _change(column: Column, base: float, other: float) -> str:
    if column.unit is Unit.PCT:
        return f"{other - base:+.1f} points".replace("-", "−")
    return (
        f"{100 * (other - base) / base:+.1f}\N{NO-BREAK SPACE}%".replace("-", "−")
        if base
        else "new"
    )


def _greatest(report: Report) -> Iterator[str]:
    main = _main(report)
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
