"""Text for people: a heading, a table scaled to readable units, and what has to be said below it.

No line is wider than the terminal, or than 120 characters where there is no terminal: names are shortened
and kept apart, columns left out and named; what all rows share is said above them. With `--wide`
everything is there in full. Names are plain text: nothing in them is markup or reaches a terminal
as a command.

Rejected for tables: rich's Table. It wraps or crops where there is no room, cannot leave columns out
by worth, pads the last one, and takes 80 µs per cell (2,000 rows x 10 columns: 1.5 s).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TextIO

from nsysconv.document import Section, Text
from nsysconv.names import cut_off, escaped, shorten, shorten_apart, shorten_name, text_width
from nsysconv.notes import Severity
from nsysconv.render import display
from nsysconv.render.contract import Options
from nsysconv.render.display import (
    NULL,
    DisplayColumn,
    DisplayTable,
    all_columns,
    informative_columns,
)
from nsysconv.render.pictures import (
    BAR_ROOM,
    LONGEST_BAR,
    Encode,
    histogram_bars,
    strip_lines,
)

GAP = 2

# A long name has at least this much room before columns are left out for it.
_COMFORT = 40
# It has at least this much once only the brief columns are left.
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
    not keys go, and at last keys. What rows are ordered by, or else the first number that is brief, is
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
    # Columns are left out from the right, except that the parts of a whole go by size, the least first.
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


SUFFIX = ".txt"

# A line and its style; a style holds for a whole line.
Line = tuple[str, str]

# No terminal is taken to be narrower: there is nothing to be shown in less.
_NARROWEST = 20
# Columns are lined up to this; one longer name must not push the others' numbers out of sight.
_LINED_UP = 100
# With fewer rows only columns of zeros are put in a line above the table.
_FEW_ROWS = 2
_NOTHING = frozenset({"0", NULL})
_INDENT, _HANGING = "    ", "   "
LAID_OUT = 98
"""The most columns of lines that are laid out."""
_NO_BREAK = "\u00a0"
_COMMAND = re.compile(r"""(?:^→ .*?)?(?:nsysconv|^ +ncu)(?: (?:'[^']*'|"[^"]*"|[^\s;('"])+)+""")
_PLAIN = {"…": "...", "µ": "u", "≥": ">=", "─": "-", "→": "->",
          "█": "#", "▓": "%", "▒": "=", "░": ".", "·": "-"}  # fmt: skip
_STYLES = {Severity.INFO: "dim", Severity.APPROXIMATED: "yellow", Severity.DROPPED: "yellow"}


def render(reports: Sequence[Section], out: TextIO, options: Options) -> None:
    """Write the reports, an empty line between two."""
    write = _painter(out) if options.color else lambda text, style: out.write(text + "\n")
    width = None if options.width is None else max(options.width, _NARROWEST)
    spell = _stream_encoder(out)
    several = len(reports) > 1
    # If there are several reports, one list names those that cannot be answered, and each note appears
    # once, below them all.
    shown = [each for each in reports if not several or each.table is not None]
    parts = [_report(each, width, spell, with_notes=not several) for each in shown]
    if several:
        parts.append(_unanswered([each for each in reports if each.table is None], width, spell))
        parts.append(_notes_of_all(reports, width, spell))
    is_first = True
    for part in parts:
        for place, (text, style) in enumerate(part):
            if place == 0 and not is_first:
                write("", "")
            is_first = False
            write(text.rstrip(), style)


def notes_text(report: Section, width: int | None = None) -> str:
    """Return what CSV and TSV cannot hold, for stderr: slice, missing facts, rows cut off, notes."""
    said = [*_missing(report), *_cut(report), *_notes([report])]
    part = [] if report.slice is None else [escaped(display.slice_words(report.slice))]
    lines = [f"{report.name}: {text}" for text in (*part, *(text for text, _ in said))]
    return "".join(f"{part}\n" for line in lines for part in _wrapped(line, width))


def _painter(out: TextIO) -> Callable[[str, str], object]:
    from rich.console import Console  # other formats do without
    from rich.text import Text

    console = Console(
        file=out, force_terminal=True, color_system="standard", no_color=False, legacy_windows=False
    )
    # A Text is printed as it is: rich looks for markup, emoji codes and numbers in strings only.
    return lambda text, style: console.print(Text(text, style), soft_wrap=True)


def _stream_encoder(out: TextIO) -> Encode:
    # What the stream cannot encode is spelled out, our own signs in plain ASCII.
    encoding = getattr(out, "encoding", None) or "utf-8"

    def spell(text: str) -> str:
        try:
            text.encode(encoding)
        except UnicodeEncodeError:
            return "".join(map(character, text))
        return text

    @functools.cache
    def character(sign: str) -> str:
        try:
            sign.encode(encoding)
        except UnicodeEncodeError:
            return _PLAIN.get(sign) or sign.encode(encoding, "backslashreplace").decode(encoding)
        return sign

    return spell


def _report(
    report: Section, width: int | None, spell: Encode, *, with_notes: bool
) -> Iterator[Line]:
    below = _missing(report)
    if report.in_rows or not report.texts:
        below += _cut(report)
    if (empty := display.empty_sentence(report)) and not report.texts:
        below.append((empty, ""))
    if report.title:
        heading = display.heading(report)
        if any(said.laid_out for said in report.texts):
            # The heading is a line of the report, which has to fit a screen.
            heading = cut_off(heading, LAID_OUT)
        yield from ((part, "bold") for part in _wrapped(spell(heading), width))
    for said in report.texts:
        yield from _said(said, width, spell)
    if report.in_rows:
        columns = all_columns if width is None else informative_columns
        table = columns(report, own_units=not report.is_printed)
        prose = [s for s in table.columns if s.prose] if width is not None else []
        table = replace(table, columns=tuple(s for s in table.columns if s not in prose))
        if not report.is_printed:
            table = _share_first(table)
        above: list[str] = []
        if width is not None and not report.is_printed:
            table, above = _without_the_same(table, report, width)
        with_bars = _with_bars(report, table, width, spell) if width is not None else None
        lines, left_out, legend = with_bars or (*_table(table, width, spell), "")
        above += [legend] if legend else []
        yield from ((part, "dim") for text in above for part in _wrapped(spell(text), width))
        if width is not None:
            for text in strip_lines(report, width, spell):
                yield from ((part, "") for part in _wrapped(text, width))
        yield from lines
        below += _sentences(table, prose)
        below += _left_out_lines(table, left_out, width)
    for text, style in (*below, *(_notes([report]) if with_notes else ())):
        yield from ((part, style) for part in _wrapped(spell(text), width))


def _said(said: Text, width: int | None, spell: Encode) -> Iterator[Line]:
    indent = ""
    if said.head:
        yield from ((part, "bold") for part in _wrapped(spell(escaped(said.head)), width))
        indent = _INDENT
    if said.laid_out:
        width = min(width or LAID_OUT, LAID_OUT)
    room = None if width is None else width - len(indent)
    for line in said.lines:
        text, hanging = spell(escaped(line)), _INDENT
        if said.laid_out:
            text, hanging = _kept_together(text), _HANGING
        for part in _wrapped(text, room, hanging):
            yield indent + part.replace(_NO_BREAK, " "), ""


def _kept_together(text: str) -> str:
    # What an arrow points to, and a command, are to be copied: no line ends in them.
    text = _COMMAND.sub(lambda command: command[0].replace(" ", _NO_BREAK), text, 1)
    before, arrow, name = text.partition(" → ")
    return f"{before} →{_NO_BREAK}{name.replace(' ', _NO_BREAK)}" if arrow else text


def _with_bars(
    report: Section, table: DisplayTable, width: int, spell: Encode
) -> tuple[list[Line], list[DisplayColumn], str] | None:
    # The table gets a bar behind each row, and a legend. The result is None if there is no room for
    # both.
    lines, left_out = _table(table, max(width - GAP - BAR_ROOM, _NARROWEST), spell)
    room = min(width - max(text_width(text) for text, _ in lines) - GAP, LONGEST_BAR)
    if room < BAR_ROOM or any(shown.column.brief for shown in left_out):
        return None
    bars = histogram_bars(report, room, spell)
    if bars is None:
        return None
    above = len(lines) - len(bars.bars)
    beside = [shorten(bars.header, room), *[""] * (above - 2), spell("─" * room), *bars.bars]
    gap = " " * GAP
    pairs = zip(lines, beside, strict=True)
    return [(text + gap + more, style) for (text, style), more in pairs], left_out, bars.legend


def _sentences(table: DisplayTable, prose: Sequence[DisplayColumn]) -> Iterator[Line]:
    for column in prose:
        for first, text in zip(table.columns[0].cells, column.cells, strict=True):
            if text != NULL:
                yield f"{first}: {text}", ""


def _missing(report: Section) -> list[Line]:
    return [(text, "yellow") for text in display.unrecorded_sentences(report)]


def _cut(report: Section) -> list[Line]:
    text = display.cut_sentence(report)
    return [(text, "dim")] if text else []


def _notes(reports: Sequence[Section]) -> list[Line]:
    numbered = enumerate(display.note_sentences(reports), 1)
    return [(f"[{number}] {text}", _STYLES[note.severity]) for number, (note, text) in numbered]


def _notes_of_all(reports: Sequence[Section], width: int | None, spell: Encode) -> Iterator[Line]:
    for text, style in _notes(reports):
        yield from ((part, style) for part in _wrapped(spell(text), width))


def _unanswered(reports: Sequence[Section], width: int | None, spell: Encode) -> Iterator[Line]:
    # The lines are grouped by what is missing: the reports that need it, and how to record it.
    groups: dict[tuple[str, ...], list[str]] = {}
    for report in reports:
        groups.setdefault(tuple(display.unrecorded_sentences(report)), []).append(report.name)
    for (first, *advice), names in groups.items():
        text = " ".join((f"{', '.join(names)}: {first}", *advice))
        yield from ((part, "yellow") for part in _wrapped(spell(text), width))


def _leading(table: DisplayTable) -> DisplayColumn | None:
    # The result is the column that orders the rows: the first that is not 0 in all rows.
    leads = sorted((s for s in table.columns if s.leads), key=lambda s: s.leads)
    known = (s for s in leads if any(cell.strip() not in _NOTHING for cell in s.cells))
    return next(known, leads[0] if leads else None)


def _share_first(table: DisplayTable) -> DisplayTable:
    # If a table is ordered by a number, or begins with a count, a sum or its share, it shows the share,
    # the sum and the count first.
    columns = [s for s in table.columns if not s.column.key]
    added = _leading(table) or next(
        (s for s in columns if s.column.brief and s.column.counted_by), None
    )
    if added is None:
        return table
    share = f"{added.column.name.removesuffix('_ns').removesuffix('_sum')}_pct"
    names = (share, added.column.name, added.column.counted_by)
    if not added.leads and columns[0].column.name not in names:
        return table
    first = [s for name in names for s in columns if s.column.name == name]
    keys = [s for s in table.columns if s.column.key]
    others = [s for s in columns if s not in first]
    return replace(table, columns=(*keys, *first, *others))


def _without_the_same(
    table: DisplayTable, report: Section, width: int | None
) -> tuple[DisplayTable, list[str]]:
    # Values that all rows share are put in a line above the table, except the column that names rows
    # and one number. For a single row only the zeros are.
    count = len(table.columns[0].cells) if table.columns else 0
    if not count:
        return table, []
    values = dict(zip((c.name for c in report.columns), report.by_column(), strict=True))
    different = {s.column.name: len(set(values[s.column.name])) for s in table.columns}
    keys = sorted((s for s in table.columns if s.column.key), key=lambda s: s.right)
    named = next((s for s in keys if different[s.column.name] > 1), (keys or table.columns)[0])
    counted = _leading(table) or next(
        (s for s in table.columns if s.right and not s.column.key), named
    )
    same = [
        s
        for s in table.columns
        if s not in (named, counted)
        and different[s.column.name] == 1
        and values[s.column.name][0] not in (None, "")
    ]
    nothing = [s for s in same if s.right and not s.column.key and not values[s.column.name][0]]
    if count < _FEW_ROWS:
        same = nothing
    said = [
        _value(s, width)
        for s in same
        if s not in nothing and s.column.name != display.DEVICES  # the heading has them
    ]
    which = "all rows shown" if display.cut_sentence(report) else "all rows"
    lines = [f"the same in {which}: {', '.join(said)}"] if said else []
    if nothing:
        zero = "all 0" if count < _FEW_ROWS else f"0 in {which}"
        lines.append(f"{zero}: {', '.join(s.header for s in nothing)}")
    return replace(table, columns=tuple(s for s in table.columns if s not in same)), lines


def _value(column: DisplayColumn, width: int | None) -> str:
    # The column's name and its first cell.
    return f"{column.name} {_short(column.cells[0].strip(), width)} {column.unit}".strip()


def _short(text: str, width: int | None) -> str:
    return text if width is None else shorten_name(text, max(_SHORTEST, 3 * width // 4))


def _left_out_lines(
    table: DisplayTable, left_out: Sequence[DisplayColumn], width: int | None
) -> Iterator[Line]:
    if left_out and len(left_out[0].cells) == 1:
        # A single row goes on below: its values take hardly more room than the names of their columns.
        yield f"also: {', '.join(_value(shown, width) for shown in left_out)}", "dim"
    elif left_out:
        names = ", ".join(shown.header for shown in left_out)
        yield f"not shown in {width} columns: {names}; --wide shows them", "dim"
    if nowhere := display.unrecorded_columns(table.unrecorded):
        yield nowhere, "dim"


def _table(
    table: DisplayTable, width: int | None, spell: Encode
) -> tuple[list[Line], list[DisplayColumn]]:
    shown = [
        replace(s, unit=spell(s.unit), cells=tuple(map(spell, s.cells))) for s in table.columns
    ]
    if width is None:
        # Where all is there in full, names without bounds come last: what follows them is out of line.
        shown = sorted(shown, key=lambda s: not s.right and _cells_needed(s) > _LINED_UP)
    needs = [_needs(column, table.parts) for column in shown]
    plan = fit_all_columns(needs, _LINED_UP) if width is None else fit_columns(needs, width)
    kept = [shown[i] for i in plan.kept]
    lines = [(line, "bold") for line in _header(kept, plan, spell)]
    lines.append((spell("  ".join("─" * cells for cells in plan.widths)), "dim"))
    columns = []
    for column, cells in zip(kept, plan.widths, strict=True):
        columns.append(_cells(column, None if width is None else cells, spell))
    lines += [(_joined(kept, row, plan), "") for row in zip(*columns, strict=True)]
    return lines, [column for i, column in enumerate(shown) if i not in plan.kept]


def _cells(column: DisplayColumn, width: int | None, spell: Encode) -> list[str]:
    # Texts that are too long, and would look alike when cut, are cut so that they show where they
    # differ.
    if width is None or column.right:
        return list(column.cells)
    if column.words:
        return [_fitted(text, width, cut_off, spell) for text in column.cells]
    fitted = {text: _fitted(text, width, shorten_name, spell) for text in column.cells}
    if len(set(fitted.values())) < len(fitted):
        for text, apart in shorten_apart(fitted, width).items():
            fitted[text] = _fitted(spell(apart), width, shorten, spell)
    return [fitted[text] for text in column.cells]


def _cells_needed(shown: DisplayColumn) -> int:
    return max(map(text_width, shown.cells), default=0)


def _needs(shown: DisplayColumn, parts: Mapping[str, float]) -> ColumnNeeds:
    return ColumnNeeds(
        cells=_cells_needed(shown),
        header=text_width(shown.header),
        folded=max(text_width(shown.name), text_width(shown.unit)),
        text=not shown.right,
        brief=shown.column.brief,
        key=shown.column.key,
        words=shown.words,
        leads=shown.leads,
        part=parts.get(shown.column.name),
    )


def _header(kept: Sequence[DisplayColumn], plan: Layout, spell: Encode) -> Iterator[str]:
    folded = [s.name for s in kept], [s.unit for s in kept]
    for row in folded if plan.fold else ([s.header for s in kept],):
        pairs = zip(row, plan.widths, strict=True)
        yield _joined(kept, [_fitted(text, cells, shorten, spell) for text, cells in pairs], plan)


def _fitted(text: str, width: int | None, cut: Callable[[str, int], str], spell: Encode) -> str:
    # `cut` counts characters; wide ones take two cells, a spelled `…` three: tried until it fits.
    if width is None:
        return text
    room, result = width, text
    while text_width(result) > width:
        result = spell(cut(text, room))
        room -= max(1, (text_width(result) - width) // 2)
    return result


def _joined(kept: Sequence[DisplayColumn], row: Iterable[str], plan: Layout) -> str:
    cells = []
    for shown, text, width in zip(kept, row, plan.widths, strict=True):
        padding = " " * (width - text_width(text))
        cells.append(padding + text if shown.right else text + padding)
    return (" " * GAP).join(cells)


def _wrapped(text: str, width: int | None, hanging: str = _INDENT) -> Iterator[str]:
    # Lines after the first begin with `hanging`, or as far in as the text itself.
    if width is None:
        yield text
        return
    words = text.lstrip(" ")
    line = text[: len(text) - len(words)]
    indent, is_empty = max(hanging, line), True
    for word in words.split(" "):
        candidate = line + word if is_empty else f"{line} {word}"
        if text_width(candidate) <= width:
            line, is_empty = candidate, False
            continue
        if line.strip():
            yield line
        # A terminal wraps what is kept together, so that it can be copied.
        if _NO_BREAK in word and is_empty:
            line, is_empty = line + word, False
            continue
        *full, rest = [word] if _NO_BREAK in word else _chopped(word, width - len(indent))
        begin = line if is_empty else indent
        for piece in full:
            yield begin + piece
            begin = indent
        line, is_empty = begin + rest, False
    yield line


def _chopped(word: str, width: int) -> list[str]:
    pieces = [""]
    for sign in word:
        if text_width(pieces[-1] + sign) > width:
            pieces.append("")
        pieces[-1] += sign
    return pieces
