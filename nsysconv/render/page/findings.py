"""Bottlenecks: the findings in their order, each with what to do and where to look."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from nsysconv.document import Section
from nsysconv.render.page.addresses import Addresses
from nsysconv.render.page.markup import amount, escape, prose, rows
from nsysconv.report import Unit

_SMALL_PCT = 1.0
_HEADED = {"saving": "Avoidable time, upper bounds", "cost": "Largest costs"}
# Not within brackets: `ranges (NVTX, user annotations)`.
_BETWEEN_FACTS = re.compile(r", (?![^(]*\))")


def findings_list(
    findings: Section,
    anchors: Mapping[str, str],
    addresses: Addresses,
    place: Callable[[Mapping[str, Any]], str] | None,
) -> Iterator[str]:
    """Yield the findings as an ordered list.

    `anchors` are those of the page's reports by name; `place` says what a row is about, None where all
    are about one device.
    """
    every = list(rows(findings))
    found = [row for row in every if not row["same_as"]]
    small = [row["rule"] for row in found if _is_small(row)]
    large = [row for row in found if not _is_small(row)]
    yield "<h3>Bottlenecks</h3>"
    if findings.table is None:
        missing = escape(", ".join(findings.not_recorded))
        yield f'<p class="quiet">No check could run; not recorded: {missing}.</p>'
        return
    start = 1
    for kind, mine in groupby(large, key=lambda row: row["kind"]):
        of_kind = list(mine)
        if kind in _HEADED and len({row["kind"] for row in large}) + len(of_kind) > 2:
            yield f"<h4>{_HEADED[kind]}{_together(of_kind)}</h4>"
        yield f'<ol class="find" start="{start}">' if start > 1 else '<ol class="find">'
        start += len(of_kind)
        for row in of_kind:
            same = [other["rule"] for other in every if other["same_as"] == row["rule"]]
            yield from _item(row, same, anchors, addresses, place)
        yield "</ol>"
    if not found:
        yield "<p>None of the checks that could run reported anything.</p>"
    if small:
        yield f'<p class="quiet">Below 1 %: {escape(", ".join(small))}.</p>'
    for note in findings.notes:
        if note.slug == "rules-ignored":
            yield f'<p class="quiet">{escape(note.text[:1].upper() + note.text[1:])}.</p>'
        elif note.slug == "rules-cannot-look":
            yield from _could_not_run(note.text)


def _could_not_run(text: str) -> Iterator[str]:
    # The note says which checks lack what; here each fact has a line with the checks that lack it.
    by_fact: dict[str, list[str]] = {}
    checks: set[str] = set()
    for part in text.partition(": ")[2].split("; "):
        names, _, lacking = part.partition(": ")
        for fact in _BETWEEN_FACTS.split(lacking):
            by_fact.setdefault(fact, []).extend(names.split(", "))
        checks |= set(names.split(", "))
    plural = "s" if len(checks) > 1 else ""
    yield f'<details class="quiet"><summary>{len(checks)} check{plural} could not run</summary><ul>'
    for fact, names_of in sorted(by_fact.items(), key=lambda item: -len(item[1])):
        yield f"<li>without {escape(fact)}: {escape(', '.join(names_of))}"
    yield "</ul></details>"


def _together(found: Sequence[Mapping[str, Any]]) -> str:
    # What all savings save together, where there are several.
    whole = found[0]["all_savings_pct"]
    if whole is None or len(found) < 2:
        return ""
    return f"; all of them together save up to {amount(whole, Unit.PCT)}"


def _is_small(row: Mapping[str, Any]) -> bool:
    return row["share_pct"] is not None and row["share_pct"] < _SMALL_PCT


def _item(
    row: dict[str, Any],
    same: Sequence[str],
    anchors: Mapping[str, str],
    addresses: Addresses,
    place: Callable[[Mapping[str, Any]], str] | None,
) -> Iterator[str]:
    yield f"<li><b>{escape(row['rule'])}</b>"
    for column, verb in (("saving_ns", "saves up to"), ("cost_ns", "takes")):
        if row[column] is not None:
            share = row["share_pct"]
            part = "" if share is None else f" ({amount(share, Unit.PCT)})"
            yield f' <span class="up">{verb} <b>{amount(row[column], Unit.NS)}{part}</b></span>'
    if place is not None:
        where = place(row)
        count = f"; on {row['device_count']:,} GPUs" if row["device_count"] > 1 else ""
        yield f' <span class="quiet">{escape(where)}{count}</span>'
    if same:
        yield f' <span class="quiet">· also seen as {escape(", ".join(same))}</span>'
    if row["part_of"]:
        yield f' <span class="quiet">· part of {escape(row["part_of"])}</span>'
    yield f'<p>{prose(row["finding"])}</p><p class="quiet">{prose(row["advice"])} '
    address = addresses.of("findings", row)
    shown = f' · <a href="#{escape(address)}">show it in the time line</a>' if address else ""
    yield f"{_where_to_look(row, anchors)}{shown}</p>"


def _where_to_look(row: Mapping[str, Any], anchors: Mapping[str, str]) -> str:
    # The report on this page, else what to ask for.
    name, part = row["report"], row["slice"]
    if not name:
        return ""
    label = escape(name)
    place = anchors.get(name) or anchors.get(name.partition(":")[0])
    link = f'<a href="#{place}">{label}</a>' if place else f"<code>{label}</code>"
    return f"→ {link}" + (f" <code>{escape(part)}</code>" if part else "")
