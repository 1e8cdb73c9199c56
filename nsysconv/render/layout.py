"""Which columns of a table are shown in text, and in how many cells each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

GAP = 2

# The room that a long name is given before columns are left out for it, ...
_COMFORT = 40
# ... and once only the brief ones are left.
_SHORTEST = 24
# Words without their end say less than a name without its middle.
_MORE_FOR_WORDS = 8
# Below this a name says nothing; reached only where not even one number fits beside longer ones.
_LAST_RESORT = 8


@dataclass(frozen=True)
class ColumnNeeds:
    """The widths of a column's cells, of its header in one line, and in two (`folded`).

    Only text can be shortened, our own `words` less than names. `part`: the sum of the column, if it is
    one of the parts of a whole.
    """

    cells: int
    header: int
    folded: int
    text: bool
    brief: bool
    key: bool
    words: bool = False
    leads: int = 0
    part: float | None = None

    def least(self, fold: bool, room: int) -> int:
        """Return the width with at most `room` cells for what can be shortened."""
        room += _MORE_FOR_WORDS if self.words else 0
        cells = min(self.cells, room) if self.text else self.cells
        return max(self.folded if fold else self.header, cells)


@dataclass(frozen=True)
class Layout:
    """The positions of the columns to show, their widths, whether units stand below names."""

    kept: tuple[int, ...]
    widths: tuple[int, ...]
    fold: bool


def fit_all_columns(needs: Sequence[ColumnNeeds], longest: int) -> Layout:
    """Lay out all columns at the width of their cells; longer text than `longest` is not padded for."""
    widths = tuple(need.least(False, longest) for need in needs)
    return Layout(tuple(range(len(needs))), widths, fold=False)


def fit_columns(needs: Sequence[ColumnNeeds], width: int) -> Layout:
    """Return the layout that loses least, never wider than `width`.

    In this order, only as far as needed: units go below the column names, columns that are not
    brief go from the right, names are shortened below what is comfortable, other columns that are
    no keys go, and at last keys. What rows are ordered by, or else the first number that is brief, is
    the last to go, but for the first column. Of the parts of a whole the smallest go first.
    """
    kept, room = _leave_out(needs, width)
    fold = _total(needs, kept, fold=False, room=room) > width
    widths = {i: needs[i].least(fold, room) for i in kept}
    if len(kept) == 1:
        widths = {i: min(widest, width) for i, widest in widths.items()}
    _spread(needs, widths, width - sum(widths.values()) - GAP * (len(kept) - 1))
    return Layout(tuple(kept), tuple(widths[i] for i in kept), fold)


def _leave_out(needs: Sequence[ColumnNeeds], width: int) -> tuple[list[int], int]:
    kept = list(range(len(needs)))
    first = sorted((i for i in kept if needs[i].leads), key=lambda i: needs[i].leads)
    numbers = [i for i in kept if not needs[i].key and not needs[i].text]
    first = first or sorted(numbers, key=lambda i: not needs[i].brief)[:1]
    steps = (
        (_COMFORT, [i for i in kept if not needs[i].brief and i not in first]),
        (_SHORTEST, [i for i in kept if not needs[i].key and i not in first]),
        (_LAST_RESORT, sorted(kept[1:], key=(*first, *kept).index)),
    )
    for room, candidates in steps:
        for victim in (None, *_least_first(needs, candidates)):
            if victim in kept and len(kept) > 1:
                kept = [i for i in kept if i != victim]
            if _total(needs, kept, fold=True, room=room) <= width:
                return kept, room
    return kept, _LAST_RESORT


def _least_first(needs: Sequence[ColumnNeeds], candidates: Sequence[int]) -> Iterator[int]:
    # From the right, but the parts of a whole by their size.
    parts = {i: needs[i].part or 0 for i in candidates if needs[i].part is not None}
    by_size = iter(sorted(parts, key=lambda i: (parts[i], -i)))
    return (next(by_size) if i in parts else i for i in reversed(candidates))


def _total(needs: Sequence[ColumnNeeds], kept: Sequence[int], *, fold: bool, room: int) -> int:
    return sum(needs[i].least(fold, room) for i in kept) + GAP * (len(kept) - 1)


def _spread(needs: Sequence[ColumnNeeds], widths: dict[int, int], spare: int) -> None:
    hungry = sorted((i for i in widths if needs[i].cells > widths[i]), key=lambda i: needs[i].cells)
    for served, i in enumerate(hungry):
        more = min(spare // (len(hungry) - served), needs[i].cells - widths[i])
        if more > 0:
            widths[i] += more
            spare -= more
