"""Text for people: a heading, a table scaled to readable units, and what has to be said below it.

In a terminal no line is wider than it: names are shortened, columns left out and named. Elsewhere
everything is there in full. Names are plain text: nothing in them is markup or reaches a terminal
as a command.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TextIO

from nsysconv.names import escaped, shorten, shorten_kernel
from nsysconv.notes import Severity
from nsysconv.render import blocks, layout, sentences
from nsysconv.render.columns import (
    NULL,
    DisplayColumn,
    DisplayTable,
    all_columns,
    informative_columns,
)
from nsysconv.render.contract import Options
from nsysconv.report import Report, Said

SUFFIX = ".txt"

# A line and its style; a style holds for a whole line.
Line = tuple[str, str]

# No terminal is taken to be narrower: there is nothing to be shown in less.
_NARROWEST = 20
# Columns are lined up to this; one longer name must not push the others' numbers out of sight.
_LINED_UP = 100
_INDENT = "    "
_KERNEL_COLUMNS = frozenset({"name", "next_op"})
_PLAIN = {"…": "...", "µ": "u", "─": "-"}
_STYLES = {Severity.INFO: "dim", Severity.APPROXIMATED: "yellow", Severity.DROPPED: "yellow"}


def render(reports: Sequence[Report], out: TextIO, options: Options) -> None:
    """Write the reports, an empty line between two."""
    write = _painter(out) if options.color else _writer(out)
    width = None if options.width is None else max(options.width, _NARROWEST)
    spell = _stream_encoder(out)
    for i, report in enumerate(reports):
        if i:
            write("", "")
        for text, style in _report(report, width, spell):
            write(text.rstrip(), style)


def notes_text(report: Report, width: int | None = None) -> str:
    """What CSV and TSV cannot hold, for stderr: the slice, what is not recorded, rows cut off, notes."""
    said = [*_missing(report), *_cut(report), *_notes(report)]
    part = [] if report.slice is None else [escaped(sentences.slice_words(report.slice))]
    lines = [f"{report.name}: {text}" for text in (*part, *(text for text, _ in said))]
    return "".join(f"{part}\n" for line in lines for part in _wrapped(line, width))


def _writer(out: TextIO) -> Callable[[str, str], object]:
    return lambda text, style: out.write(text + "\n")


def _painter(out: TextIO) -> Callable[[str, str], object]:
    from rich.console import Console  # other formats do without
    from rich.text import Text

    console = Console(
        file=out, force_terminal=True, color_system="standard", no_color=False, legacy_windows=False
    )
    # A Text is printed as it is: rich looks for markup, emoji codes and numbers in strings only.
    return lambda text, style: console.print(Text(text, style), soft_wrap=True)


def _stream_encoder(out: TextIO) -> Callable[[str], str]:
    """Spells out what the stream cannot encode, our own signs in ASCII that reads well."""
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


def _report(report: Report, width: int | None, spell: Callable[[str], str]) -> Iterator[Line]:
    below = [*_missing(report), *_cut(report)]
    if empty := sentences.empty_sentence(report):
        below.append((empty, ""))
    if report.title:
        for text in _wrapped(spell(sentences.heading(report)), width):
            yield text, "bold"
    for said in report.said:
        yield from _said(said, width, spell)
    if report.in_rows:
        table = all_columns(report) if width is None else informative_columns(report)
        prose = [s for s in table.columns if s.column.prose] if width is not None else []
        table = replace(table, columns=tuple(s for s in table.columns if s not in prose))
        if width is not None:
            yield from _strips(report, width, spell)
        with_bars = _with_bars(report, table, width, spell) if width is not None else None
        lines, left_out = with_bars or _table(table, width, spell)
        yield from lines
        below += _sentences(table, prose)
        below += _left_out_lines(table, left_out, width)
    for text, style in (*below, *_notes(report)):
        for part in _wrapped(spell(text), width):
            yield part, style


def _said(said: Said, width: int | None, spell: Callable[[str], str]) -> Iterator[Line]:
    indent = ""
    if said.head:
        yield from ((part, "bold") for part in _wrapped(spell(escaped(said.head)), width))
        indent = _INDENT
    room = None if width is None else width - len(indent)
    for line in said.lines:
        yield from ((indent + part, "") for part in _wrapped(spell(escaped(line)), room))


def _strips(report: Report, width: int, spell: Callable[[str], str]) -> Iterator[Line]:
    for text in blocks.strip_lines(report, width, spell):
        yield from ((part, "") for part in _wrapped(text, width))


def _with_bars(
    report: Report, table: DisplayTable, width: int, spell: Callable[[str], str]
) -> tuple[list[Line], list[DisplayColumn]] | None:
    """As `_table`, with a bar behind each row; None where there is no room for both."""
    lines, left_out = _table(table, max(width - layout.GAP - blocks.ROOM, _NARROWEST), spell)
    room = min(width - max(text_width(text) for text, _ in lines) - layout.GAP, blocks.MOST)
    if room < blocks.ROOM or any(shown.column.brief for shown in left_out):
        return None
    header, bars = blocks.bar_cells(report, room, spell)
    if not bars:
        return None
    above = len(lines) - len(bars)
    beside = [header, *[""] * (above - 2), spell("─" * room), *bars]
    gap = " " * layout.GAP
    pairs = zip(lines, beside, strict=True)
    return [(text + gap + more, style) for (text, style), more in pairs], left_out


def _sentences(table: DisplayTable, prose: Sequence[DisplayColumn]) -> Iterator[Line]:
    """The cells of prose columns, one a line, each after its row's first cell."""
    for column in prose:
        for first, text in zip(table.columns[0].cells, column.cells, strict=True):
            if text != NULL:
                yield f"{first}: {text}", ""


def _missing(report: Report) -> list[Line]:
    return [(text, "yellow") for text in sentences.unrecorded_sentences(report)]


def _cut(report: Report) -> list[Line]:
    text = sentences.cut_sentence(report)
    return [(text, "dim")] if text else []


def _notes(report: Report) -> list[Line]:
    numbered = enumerate(sentences.note_sentences(report), 1)
    return [(f"[{number}] {text}", _STYLES[note.severity]) for number, (note, text) in numbered]


def _left_out_lines(
    table: DisplayTable, left_out: Sequence[DisplayColumn], width: int | None
) -> Iterator[Line]:
    if left_out:
        names = ", ".join(shown.column.name for shown in left_out)
        yield f"not shown in {width} columns: {names}; --format json has them", "dim"
    if nowhere := sentences.unrecorded_columns([column.name for column in table.unrecorded]):
        yield nowhere, "dim"


def _table(
    table: DisplayTable, width: int | None, spell: Callable[[str], str]
) -> tuple[list[Line], list[DisplayColumn]]:
    """The lines of the table, and the columns that found no room."""
    shown = [
        DisplayColumn(s.column, s.name, spell(s.unit), tuple(map(spell, s.cells)))
        for s in table.columns
    ]
    needs = [_needs(column) for column in shown]
    plan = (
        layout.fit_all_columns(needs, _LINED_UP)
        if width is None
        else layout.fit_columns(needs, width)
    )
    kept = [shown[i] for i in plan.kept]
    lines = [(line, "bold") for line in _header(kept, plan, spell)]
    lines.append((spell("  ".join("─" * cells for cells in plan.widths)), "dim"))
    columns = []
    for column, cells in zip(kept, plan.widths, strict=True):
        room = None if width is None else cells
        cut = shorten_kernel if column.column.name in _KERNEL_COLUMNS else shorten
        columns.append([_fitted(text, room, cut, spell) for text in column.cells])
    lines += [(_joined(kept, row, plan), "") for row in zip(*columns, strict=True)]
    return lines, [column for i, column in enumerate(shown) if i not in plan.kept]


def _needs(shown: DisplayColumn) -> layout.ColumnNeeds:
    return layout.ColumnNeeds(
        cells=max(map(text_width, shown.cells), default=0),
        header=text_width(shown.header),
        folded=max(text_width(shown.name), text_width(shown.unit)),
        text=not shown.right,
        brief=shown.column.brief,
        key=shown.column.key,
    )


def _header(
    kept: Sequence[DisplayColumn], plan: layout.Layout, spell: Callable[[str], str]
) -> Iterator[str]:
    rows = [[s.header for s in kept]]
    if plan.fold:
        rows = [[s.name for s in kept], [s.unit for s in kept]]
    for row in rows:
        pairs = zip(row, plan.widths, strict=True)
        yield _joined(kept, [_fitted(text, cells, shorten, spell) for text, cells in pairs], plan)


def _fitted(
    text: str, width: int | None, cut: Callable[[str, int], str], spell: Callable[[str], str]
) -> str:
    """The text in at most `width` cells (None: in full).

    `cut` counts characters, while wide ones take two cells and a spelled `…` three: tried until it
    fits.
    """
    if width is None:
        return text
    room, result = width, text
    while text_width(result) > width:
        result = spell(cut(text, room))
        room -= max(1, (text_width(result) - width) // 2)
    return result


def _joined(kept: Sequence[DisplayColumn], row: Iterable[str], plan: layout.Layout) -> str:
    cells = []
    for shown, text, width in zip(kept, row, plan.widths, strict=True):
        padding = " " * (width - text_width(text))
        cells.append(padding + text if shown.right else text + padding)
    return (" " * layout.GAP).join(cells)


def _wrapped(text: str, width: int | None) -> Iterator[str]:
    """The sentence in lines of at most `width` cells, all but the first set in."""
    if width is None:
        yield text
        return
    line, indent = "", _INDENT
    for word in text.split(" "):
        candidate = f"{line} {word}" if line.strip() else line + word
        if text_width(candidate) <= width:
            line = candidate
            continue
        if line.strip():
            yield line
        *full, rest = _chopped(word, width - len(indent))
        for piece in full:
            yield indent + piece
        line = indent + rest
    yield line


def _chopped(word: str, width: int) -> list[str]:
    """The word in pieces of at most `width` cells; at least one piece."""
    pieces = [""]
    for sign in word:
        if text_width(pieces[-1] + sign) > width:
            pieces.append("")
        pieces[-1] += sign
    return pieces


def text_width(text: str) -> int:
    """How many cells of a terminal the text takes; East-Asian characters and emoji take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # other formats do without

    return cell_len(text)
