"""docs/reports.md: what each report shows and needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from docs_markdown import NO_UNIT, labels, markdown_table

from nsysconv import queries
from nsysconv.present.tables import look_of
from nsysconv.queries.contract import Option, Query, View
from nsysconv.report import Column


def reports_page() -> Iterator[str]:
    """Yield the lines of docs/reports.md."""
    yield "# Reports"
    yield ""
    yield "`nsysconv report TARGET` prints the core reports ("
    yield ", ".join(f"`{name}`" for name in queries.CORE) + "),"
    yield "`nsysconv report TARGET NAME…` those you name."
    yield "What the numbers mean is in the [definitions](definitions/README.md)."
    yield ""
    yield "A report *needs* some facts: without them it is *not recorded*. It *uses* others: without them"
    yield "some of its columns are null. Units are those of JSON, CSV and TSV; text scales them. Columns"
    yield "marked *key* identify a row; *better* says which direction is an improvement."
    yield ""
    yield "`nsysconv report --list` prints these lists, `nsysconv report TARGET --list` what it answers."
    yield "Options of a report follow its name: `cuda_gpu_kern_sum:base`, `gpu_gaps:gap=10`."
    every = {name: queries.query(name) for name in queries.REPORTS}
    for title, names in (
        ("Reports", queries.OWN),
        ("Rules ([rules.md](rules.md))", queries.RULES),
        ("Tables of `nsys stats` ([nsys-stats.md](nsys-stats.md))", queries.NSYS_TABLES),
    ):
        yield from ("", f"**{title}**", "")
        yield from markdown_table(
            ("report", "shows", "needs"),
            ((f"[{n}](#{n})", every[n].title, _needs(every[n])) for n in names),
        )
    for name, query in every.items():
        yield from _report(name, query)


def _needs(query: Query) -> str:
    enough = query.any_of
    return f"one of {labels(enough)}" if enough else labels(queries.needed_facts(query))


def _report(name: str, query: Query) -> Iterator[str]:
    yield ""
    yield f"## {name}"
    yield ""
    yield f"{query.title}."
    yield ""
    yield f"Needs: {_needs(query)}. Uses: {labels(query.uses)}."
    if query.totals:
        yield ""
        yield (
            f"Where those are not recorded: {labels(query.totals)}, as far as totals go; what they "
            "do not hold is null. About a slice they say nothing."
        )
    if query.options:
        yield ""
        rows = ((f"`{name}:{_spelled(o)}`", _default(o), o.doc) for o in query.options)
        yield from markdown_table(("option", "default", "what it does"), rows)
    if not query.views:
        yield from _view(View(query.title, query.columns), look_of(name))
    names = {option.name for option in query.options}
    for by, view in query.views.items():
        option = by if by in names else f"by={by}"
        yield from ("", f"`{option}`: {view.title}.")
        yield from _view(view, look_of(f"{name}:{option}"))


def _view(view: View, look: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield from markdown_table(
        ("column", "unit", "key", "better", "what it is"), (_report_row(c) for c in view.columns)
    )
    if picture := look.get("picture"):
        yield ""
        kind, what = _PICTURES[picture.kind], _named(picture.values)
        yield f"`.plot()` draws {kind}: {what} by {_named(picture.x)}."


_PICTURES = {
    "bars": "bars",
    "stacked": "bars of parts",
    "histogram": "a histogram",
    "strip": "a strip over time",
    "flame": "a flame graph",
}


def _named(columns: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in columns)


def _spelled(option: Option) -> str:
    return option.name if isinstance(option.default, bool) else f"{option.name}=…"


def _default(option: Option) -> str:
    return "" if option.default in (None, False) else str(option.default)


def _report_row(column: Column) -> tuple[str, str, str, str, str]:
    unit = "" if column.unit in NO_UNIT else column.unit.value
    return f"`{column.name}`", unit, "key" if column.key else "", column.better or "", column.doc
