"""Documents: tables as people see them, with pictures and sentences. Renderers write these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, Self

import pyarrow as pa

from nsysconv.report import Report


@dataclass(frozen=True)
class Printed:
    """The way another tool's table prints a column: its header, and rounding.

    Numbers are divided by `per` and rounded half away from zero to `decimals` digits; None leaves
    integers as they are.
    """

    header: str
    decimals: int | None = None
    per: int = 1


@dataclass(frozen=True)
class Picture:
    """A chart of a report; the names are those of its columns.

    | kind | drawn | x | values |
    |---|---|---|---|
    | bars | a bar per row and value, side by side | names the row, as one label | lengths, of one unit |
    | stacked | a bar per row, the values laid end to end | names the row | parts of one whole |
    | histogram | as stacked, over bins in order | lower edge of the row's bin | parts of the bin |
    | strip | a value over time | when the row's bin starts | the value in the bin |
    | flame | a box per row, below that of the row it lies in | names the row | widths, one at a time |
    | series | a point per row, its level and band | names the row | value, level, from, to |

    Of several `x` columns those with a value make the label, with `between` between them. A strip's
    bins last as long as `width` says. A flame's rows are a tree, each followed by those inside; the
    column `level` says how many rows a row lies in, and its values are times with those inside. Rows
    that differ in the `by` columns are in different pictures; so are those of different profiles. A
    strip's `parts` add up to its bin:
    the HTML page draws them in place of the value. `shared`: these have one x axis, so
    that equal places are equal times; `clock` is the column of the time of day that bins start at, by
    which the page lays strips on one axis. Bars whose `category` is communication have another color than
    all others, which are computation. `unit` is the column of the unit of a series, if not all have one.
    Null values are not recorded and not drawn.
    """

    kind: Literal["bars", "stacked", "histogram", "strip", "flame", "series"]
    x: tuple[str, ...]
    values: tuple[str, ...]
    by: tuple[str, ...] = ()
    width: str = ""
    shared: bool = False
    level: str = ""
    category: str = ""
    parts: tuple[str, ...] = ()
    clock: str = ""
    between: str = ", "
    unit: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of all columns that the picture is drawn from."""
        others = filter(None, (self.width, self.level, self.category, self.clock, self.unit))
        return (*self.by, *self.x, *self.values, *self.parts, *others)

    @property
    def needs_all_rows(self) -> bool:
        """Return whether the picture would be wrong without the rows that a limit cuts off."""
        return self.kind in ("histogram", "strip", "flame", "series")


@dataclass(frozen=True)
class Text:
    """Lines for people, and their heading; no heading means the section's title.

    Where they are `laid_out`, their spaces and breaks count; else each line is an item of a list.
    """

    head: str
    lines: tuple[str, ...]
    laid_out: bool = False


@dataclass(frozen=True)
class Section(Report):
    """A report as people see it.

    `texts` stand above the rows, and in place of the columns that are `replaced`. `picture` is None if
    nothing is drawn; `uncut` are the rows before a limit, where there was one. Rows are in the order of
    the columns that lead, the greatest first: these are the last numbers to go where there is little
    room. `prose` columns hold sentences, which a terminal shows below the table. Texts of `words` are
    our own: cut, they lose their end, and names their middle. `printed` says how another tool prints the
    columns, by their names, if the table is in that tool's form. `part` names the part of the page that
    shows it. A `folded` section is collapsed in Markdown. A `headline` is one row above all others; in
    JSON it is a field of the document.
    """

    texts: tuple[Text, ...] = ()
    replaced: frozenset[str] = frozenset()
    picture: Picture | None = None
    uncut: pa.Table | None = None
    leads: tuple[str, ...] = ()
    prose: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    printed: Mapping[str, Printed] = field(default_factory=dict)
    part: str = ""
    folded: bool = False
    headline: bool = False

    @property
    def in_rows(self) -> bool:
        """Return whether people see a table: it has rows, and not all columns are replaced by text."""
        rows = 0 if self.table is None else self.table.num_rows
        return rows > 0 and not all(column.name in self.replaced for column in self.columns)

    @property
    def drawn(self) -> pa.Table | None:
        """Return the rows that the picture is drawn from; None without a picture or rows."""
        table = self.table
        if self.picture is not None and self.picture.needs_all_rows and self.uncut is not None:
            table = self.uncut
        return table if self.picture is not None and table is not None and len(table) else None

    @property
    def is_printed(self) -> bool:
        """Return whether the table is in another tool's form."""
        return bool(self.printed)

    def limited(self, limit: int) -> Self:
        """Return it with at most `limit` rows (0 = all); `uncut` keeps all of them."""
        if self.table is None or not limit or self.table.num_rows <= limit:
            return self
        uncut = self.table if self.uncut is None else self.uncut
        return replace(self, table=self.table.slice(0, limit), uncut=uncut)

    def briefly(self) -> Self:
        """Return it with its brief columns only, and without a picture."""
        columns = tuple(column for column in self.columns if column.brief)
        table = self.table if self.table is None else self.table.select([c.name for c in columns])
        return replace(self, columns=columns, table=table, picture=None, uncut=None)
