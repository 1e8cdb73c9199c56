"""Reports as callers of the library see them: in a notebook, printed, drawn; rows of a query as one."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from nsysconv import queries
from nsysconv.document import Section
from nsysconv.errors import UsageError
from nsysconv.notes import Note
from nsysconv.report import Column, Unit
from nsysconv.store.location import Location, ask, reading

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ShownReport(Section):
    """A report that a notebook shows as a table, `print` as text, and that can be drawn.

    `to_pandas`, `to_arrow` and `rows` give its rows; `table` is None, and these have none, if it was
    not recorded. It holds nothing open.
    """

    def plot(self, ax: Axes | None = None) -> Figure:
        """Draw the report; a notebook shows the figure and `savefig` writes it.

        With `ax`, axes of matplotlib, it is drawn there, and their figure is returned. Needs matplotlib
        (`pip install 'nsysconv[plot]'`). Raises UsageError without it, or if the report has no picture,
        was not answered, or has more than one panel and one place.
        """
        from nsysconv.render import pictures

        return pictures.draw(self, ax)

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a DataFrame of Polars, which has to be installed; else UsageError."""
        try:
            import polars as pl
        except ImportError as error:
            raise UsageError("Polars is not installed", hint="pip install polars") from error
        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def __len__(self) -> int:
        """Return the number of rows that it holds."""
        return 0 if self.table is None else self.table.num_rows

    def __bool__(self) -> bool:
        """Return True: a report without rows is an answer, too."""
        return True

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterate over the rows as dictionaries, null as None."""
        names = [column.name for column in self.columns]
        return (dict(zip(names, row, strict=True)) for row in self.tuples())

    def _repr_html_(self) -> str:
        from nsysconv.render import html

        return html.fragment(self)

    def __str__(self) -> str:
        """Return the report as `nsysconv report` prints it: 20 rows, no line wider than the terminal.

        Where there is no terminal lines have $COLUMNS characters, else 120. All rows are in `to_pandas`.
        """
        from nsysconv.render import text, width_of
        from nsysconv.render.contract import Options

        out = io.StringIO()
        options = Options(width_of(sys.stdout))
        text.render([self.limited(queries.ROWS_FOR_PEOPLE)], out, options)
        return out.getvalue().rstrip("\n")

    def __repr__(self) -> str:
        """Return the name and size of the report, on one line."""
        if self.table is None:
            return f"<{type(self).__name__} {self.name}: not recorded>"
        rows = f"{self.table.num_rows} of {self.row_count}"
        return f"<{type(self).__name__} {self.name}, rows: {rows}, columns: {len(self.columns)}>"


def _steps(place: Location, tables: Sequence[str]) -> list[tuple[Any, ...]]:
    # From which row of a table on, of a profile and process, events are in which step.
    from nsysconv.timeline.steps import steps_of_rows
    from nsysconv.timeline.timeline import Timeline

    found: list[tuple[Any, ...]] = []
    with reading(place) as store:
        for profile in store.profiles():
            timeline = Timeline(profile)
            for table in tables:
                first = profile.first_id(table)
                found += (
                    (table, profile.id, pid, first + row, *step)
                    for pid, row, *step in steps_of_rows(timeline, table)
                )
    return found


def query_report(place: Location, text: str, notes: Sequence[Note] = ()) -> ShownReport:
    """Return the rows of a query on a store. Raises as `ask`."""
    table = ask(place, text, partial(_steps, place))
    kinds = [(field.name, str(field.type)) for field in table.schema]
    columns = tuple(
        Column(
            name, Unit.ID if kind in ("int64", "double") else Unit.TEXT, "", real=kind == "double"
        )
        for name, kind in kinds
    )
    return ShownReport("sql", "", columns, table, notes=tuple(notes), row_count=table.num_rows)
