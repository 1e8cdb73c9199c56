"""What a rule says above its rows: what these cost in total and what to do, or that it found nothing."""

from __future__ import annotations

from nsysconv.notes import Note, Severity
from nsysconv.report import Unit, human


def found(what: str, advice: str) -> Note:
    """Return what all findings are and cost, `4 copies: 3.42 µs in total`, and what to do about them."""
    return _answer(f"{what}. {advice}")


def nothing_found(why: str) -> Note:
    """Return that there is no finding, and the number that shows it: `no gap of 500 ms or more`."""
    return _answer(f"Nothing found: {why}.")


def none_of(count: int, kind: str, what: str) -> Note:
    """Return that none of so many things of a kind is what the rule looks for."""
    return nothing_found(
        f"none of {counted(count, kind)} {what}" if count else f"there is no {kind}"
    )


def counted(count: int, kind: str) -> str:
    """Return a number of things of a kind: `1 copy`, `4 copies of pageable memory`."""
    noun, of, rest = kind.partition(" of ")
    if count != 1:
        noun = (
            f"{noun[:-1]}ies"
            if noun.endswith("y")
            else f"{noun}{'es' if noun.endswith('h') else 's'}"
        )
    return f"{count:,} {noun}{of}{rest}"


def duration(ns: int) -> str:
    """Return a time in words."""
    return human(ns, Unit.NS)


def _answer(line: str) -> Note:
    return Note("rule-answer", Severity.INFO, line)
