"""Which columns a terminal of some width shows, and how wide. Arithmetic on cells, no text.

Rejected: leaving it to rich's Table. It wraps or crops where there is no room, cannot leave columns
out by worth, pads the last one, and takes 80 µs per cell (2,000 rows x 10 columns: 1.5 s).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GAP = 2

# The room that a long name is given before columns are left out for it, ...
_COMFORT = 40
# ... and once only the brief ones are left.
_SHORTEST = 24
# Below this a name says nothing; reached only where not even one number fits beside longer ones.
_LAST_RESORT = 8


@dataclass(frozen=True)
class ColumnNeeds:
    """What a column would like: widths of its cells, of its header in one line, of the name alone.

    `folded` is the header's width with the unit on a line of its own. Only text can be shortened.
    """

    cells: int
    header: int
    folded: int
    text: bool
    brief: bool
    key: bool

    def least(self, fold: bool, room: int) -> int:
        """The width with at most `room` cells for text."""
        cells = min(self.cells, room) if self.text else self.cells
        return max(self.folded if fold else self.header, cells)


@dataclass(frozen=True)
class Layout:
    """The positions of the columns to show, their widths, whether units stand below names."""

    kept: tuple[int, ...]
    widths: tuple[int, ...]
    fold: bool


def fit_all_columns(needs: Sequence[ColumnNeeds], longest: int) -> Layout:
    """All columns at the width of their cells; text runs over `longest` and is not padded for."""
    widths = tuple(need.least(False, longest) for need in needs)
    return Layout(tuple(range(len(needs))), widths, fold=False)


def fit_columns(needs: Sequence[ColumnNeeds], width: int) -> Layout:
    """The layout that loses least, never wider than `width`.

    In this order, only as far as needed: units go below the column names, columns that are not
    brief go from the right, names are shortened below what is comfortable, other columns that are
    no keys go, and at last keys. The first number (what the rows are ordered by, as a rule) is the
    last to go, but for the first column.
    """
    kept = list(range(len(needs)))
    kept, room = _leave_out(needs, kept, width)
    fold = _total(needs, kept, fold=False, room=room) > width
    widths = {i: needs[i].least(fold, room) for i in kept}
    if len(kept) == 1:
        widths = {i: min(widest, width) for i, widest in widths.items()}
    _spread(needs, widths, width - sum(widths.values()) - GAP * (len(kept) - 1))
    return Layout(tuple(kept), tuple(widths[i] for i in kept), fold)


def _leave_out(needs: Sequence[ColumnNeeds], kept: list[int], width: int) -> tuple[list[int], int]:
    """The columns that stay, and the room for text with which they fit."""
    number = next((i for i in kept if not needs[i].key and not needs[i].text), None)
    steps = (
        (_COMFORT, [i for i in kept if not needs[i].brief]),
        (_SHORTEST, [i for i in kept if not needs[i].key and i != number]),
        (_LAST_RESORT, sorted(kept[1:], key=lambda i: i != number)),
    )
    for room, candidates in steps:
        for victim in (None, *reversed(candidates)):
            if victim in kept and len(kept) > 1:
                kept = [i for i in kept if i != victim]
            if _total(needs, kept, fold=True, room=room) <= width:
                return kept, room
    return kept, _LAST_RESORT


def _total(needs: Sequence[ColumnNeeds], kept: Sequence[int], *, fold: bool, room: int) -> int:
    return sum(needs[i].least(fold, room) for i in kept) + GAP * (len(kept) - 1)


def _spread(needs: Sequence[ColumnNeeds], widths: dict[int, int], spare: int) -> None:
    """Give what is left to the texts that were cut, evenly, the modest ones first."""
    hungry = sorted((i for i in widths if needs[i].cells > widths[i]), key=lambda i: needs[i].cells)
    for served, i in enumerate(hungry):
        more = min(spare // (len(hungry) - served), needs[i].cells - widths[i])
        if more > 0:
            widths[i] += more
            spare -= more
