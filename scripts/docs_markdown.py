"""Markdown, and words that the generated pages share."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence

from nsysconv.facts import Fact, in_order
from nsysconv.report import Unit

NO_UNIT = (Unit.TEXT, Unit.ID, Unit.REAL)


def cell(value: object) -> str:
    """Return a value as a cell of a table."""
    return str(value).replace("|", "\\|").replace("\n", " ")


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yield the lines of a table."""
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * len(header)
    for row in rows:
        yield "| " + " | ".join(cell(value) for value in row) + " |"


def sentence(text: str) -> str:
    """Return a docstring's first paragraph on one line."""
    return " ".join(inspect.cleandoc(text).split("\n\n")[0].split())


def lower(text: str) -> str:
    """Return the text with its first word in lower case, unless that is an abbreviation."""
    head, _, rest = text.partition(" ")
    return f"{head.lower() if head.istitle() else head} {rest}"


def labels(facts: Iterable[Fact]) -> str:
    """Return the facts in words, in their order."""
    return ", ".join(fact.label for fact in in_order(facts)) or "nothing"
