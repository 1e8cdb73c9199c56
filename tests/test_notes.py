"""Notes: of how many rows they speak, and which is said first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_store import Call, Kernel, Memcpy, Migration, opened

from nsysconv.document import Section
from nsysconv.notes import Note, Severity, merged
from nsysconv.render.display import note_sentences as said

LOOSE = Note("unlinked-ops", Severity.INFO, "loose", 3, of=12)


def words(*notes: Note) -> list[str]:
    return [text for _, text in said([Section("made", "Made", (), None, notes=notes)])]


@pytest.mark.parametrize(
    ("note", "text"),
    [
        (LOOSE, "loose (3 of 12: 25.0 %)"),
        (replace(LOOSE, count=1), "loose (1 of 12: 8.3 %)"),
        (replace(LOOSE, count=2276, of=4380), "loose (2,276 of 4,380: 52.0 %)"),
        (replace(LOOSE, count=12, where="x"), "loose (12 of 12: 100.0 %, first at x)"),
        (replace(LOOSE, count=9999, of=10000), "loose (9,999 of 10,000: >99.9 %)"),
        (replace(LOOSE, count=1, of=10000), "loose (1 of 10,000: <0.1 %)"),
        (replace(LOOSE, of=0), "loose (3 times)"),
        (replace(LOOSE, count=1, of=0), "loose"),
    ],
)
def test_a_note_says_its_share_where_it_is_known(note: Note, text: str) -> None:
    assert words(note) == [f"note unlinked-ops: {text}"]


def test_the_gravest_note_comes_first() -> None:
    small, large = replace(LOOSE, text="small", count=1), replace(LOOSE, text="large", count=11)
    unknown = replace(LOOSE, text="unknown", of=0)
    inexact = replace(small, text="inexact", severity=Severity.APPROXIMATED)
    missing = replace(unknown, text="missing", severity=Severity.DROPPED)
    found = words(unknown, small, large, inexact, missing)
    order = [text.partition(": ")[2].partition(" ")[0] for text in found]
    assert order == ["missing", "inexact", "large", "small", "unknown"]


def test_equal_notes_are_merged_and_their_rows_added() -> None:
    assert merged([LOOSE, LOOSE]) == [replace(LOOSE, count=6, of=24)]
    assert merged([LOOSE, replace(LOOSE, of=0)]) == [replace(LOOSE, count=6, of=0)]


def test_the_notes_of_a_time_line_know_their_rows() -> None:
    """Of operations that no call launches none can lack a call."""
    rows = (Call(0, 5, 1), Kernel(10, 20, 1), Kernel(30, 40), Memcpy(50, 60), Migration(70, 80))
    with opened(*rows) as profile:
        (note,) = (n for n in profile.timeline.notes if n.slug == "unlinked-ops")
    assert (note.count, note.of) == (2, 3)
