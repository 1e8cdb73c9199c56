"""Notes: the caveats that travel with numbers.

Whatever an importer drops, guesses or repairs, and whatever a report cannot take at its word, is a
note: kept in the store, printed under every table it touches, fatal with `--strict` unless it is `info`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from pathlib import Path

from nsysconv.facts import Fact


class Severity(StrEnum):
    """The weight of a note: a remark, numbers that are not exact, or rows that are missing."""

    INFO = "info"
    APPROXIMATED = "approximated"
    DROPPED = "dropped"


@dataclass(frozen=True)
class Note:
    """One caveat: `count` rows (or times), the first at `where`, out of `of` (0 if unknown).

    `facts` are the kinds of information that it touches; empty means all of them.
    """

    slug: str
    severity: Severity
    text: str
    count: int = 1
    where: str = ""
    facts: frozenset[Fact] = field(default_factory=frozenset)
    of: int = 0

    def __post_init__(self) -> None:
        """Raise ValueError for a slug that has no paragraph."""
        if self.slug not in meanings():
            raise ValueError(f"note {self.slug!r} has no paragraph in notes.toml")

    @property
    def share(self) -> float:
        """Return the part of its rows that it counts, 0 to 1; 0 where their number is not known."""
        return self.count / self.of if self.of else 0.0

    def touches(self, facts: Iterable[Fact]) -> bool:
        """Return whether a table that is made of these facts has to carry the note."""
        if self.slug in OF_FILES:
            return False
        return not self.facts or not self.facts.isdisjoint(facts)


@cache
def meanings() -> Mapping[str, str]:
    """Return every slug with its paragraph: what happened, what it does to numbers, what one can do."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return {slug: " ".join(words.split()) for slug, words in tomllib.loads(text).items()}


OF_FILES = frozenset({"tables-not-read"})
"""Slugs of notes on what a file holds besides its rows of ours: no report carries them, `info` does."""

ANSWERS = frozenset({"rule-answer", "work-of-other-threads"})
"""Slugs of notes that are what a report says above its rows."""


def merged(notes: Iterable[Note]) -> list[Note]:
    """Return the notes with equal slug, text and facts added up; the first `where` is kept."""
    found: dict[tuple[str, str, frozenset[Fact]], Note] = {}
    for note in notes:
        key = (note.slug, note.text, note.facts)
        if key in found:
            old = found[key]
            of = old.of + note.of if old.of and note.of else 0
            note = replace(old, count=old.count + note.count, of=of)
        found[key] = note
    return list(found.values())
