"""How columns are declared, and those that several reports have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nsysconv.queries.contract import Query
from nsysconv.report import Better, Column, Printed
from nsysconv.units import Unit


def key_column(name: str, doc: str) -> Column:
    """Return a column of texts that belong to what identifies a row."""
    return Column(name, Unit.TEXT, doc, key=True)


def count_column(
    name: str, doc: str, *, better: Better | None = None, brief: bool = True
) -> Column:
    """Return the column of a number of things."""
    return Column(name, Unit.COUNT, doc, better=better, brief=brief)


def sum_column(
    name: str, doc: str, counted_by: str, *, unit: Unit = Unit.NS, brief: bool = True
) -> Column:
    """Return the column of a sum, of which less is better; column `counted_by` counts its summands."""
    return Column(name, unit, doc, better="less", brief=brief, counted_by=counted_by)


def duration_column(
    name: str, doc: str, *, real: bool = False, brief: bool = True, adds: bool = False
) -> Column:
    """Return the column of a time in ns, of which less is better."""
    return Column(name, Unit.NS, doc, better="less", real=real, brief=brief, adds=adds)


PROFILE = key_column("profile", "Label of the profile.")
RANK = Column(
    "rank",
    Unit.ID,
    "Rank of the only ranked process behind the row; null: none or several.",
    key=True,
)
PROCESS_RANK = Column("rank", Unit.ID, "Rank of the process; null: none known.", key=True)
PID = Column("pid", Unit.ID, "The process.", key=True)
TID = Column("tid", Unit.ID, "The thread.", key=True)
DEVICE = Column("device_id", Unit.ID, "The device, as the profile numbers it.", key=True)
BY_DEVICE = (PROFILE, RANK, DEVICE)
"""The first columns of reports that have their rows by device."""

WINDOW = (
    "The window is the slice, or the time from the device's first to its last GPU operation "
    "(migrations do not extend it)."
)

# -- tables of nsys stats, and statistics


def printed(columns: Mapping[str, Column]) -> tuple[Column, ...]:
    """Return the columns of a table by the headers under which `nsys stats` prints them: sizes in MB with
    three decimals, other fractions with one.
    """
    return tuple(replace(each, printed=_printed(header, each)) for header, each in columns.items())


def _printed(header: str, column: Column) -> Printed:
    if header.endswith(("(MB)", "(MB/s)")):
        return Printed(header, 3, 1_000_000)
    return Printed(header, 1 if column.kind == "float" else None)


_HEADERS = {"avg": "Avg", "med": "Med", "min": "Min", "max": "Max", "stddev": "StdDev"}


def statistics_docs(what: str = "", *, of: str = "", one: str = "one") -> dict[str, str]:
    """Return what the columns of statistics of a quantity are described as."""
    return {
        "avg": f"Mean{what}{of}.",
        "med": f"Median{what}{of} (mean of the middle two).",
        "min": f"Shortest{of}.",
        "max": f"Longest{of}.",
        "stddev": f"Sample standard deviation{of}; 0 for {one}.",
    }


DURATION_DOCS = statistics_docs(" duration", one="one row")


def statistics_columns(
    docs: Mapping[str, str], *, prefix: str = "", brief: Iterable[str] = ("avg",)
) -> tuple[Column, ...]:
    """Return columns of durations, PREFIXavg_ns and so on, for those statistics that `docs` describes."""
    return tuple(
        duration_column(
            f"{prefix}{name}_ns", doc, real=name not in ("min", "max"), brief=name in brief
        )
        for name, doc in docs.items()
    )


def statistics_by_header(
    header: str, docs: Mapping[str, str], *, prefix: str = "", brief: Iterable[str] = ("avg",)
) -> dict[str, Column]:
    """Return the same by what each is printed under: `header`, which has a `{}` for its name."""
    columns = statistics_columns(docs, prefix=prefix, brief=brief)
    return {header.format(_HEADERS[name]): each for name, each in zip(docs, columns, strict=True)}


# -- per step

_PER_STEP_UNITS = {"per_step_ns": Unit.NS, "bytes_per_step": Unit.BYTES}


def per_step(name: str, total: str) -> Column:
    """Return the column of that name (`per_step_ns`, `bytes_per_step`): column `total` per step."""
    return Column(
        name,
        _PER_STEP_UNITS[name],
        f"`{total}` divided by the number of steps: the most that one process has in the slice "
        "(`--step-range` says what steps are called); null where no step is annotated.",
        better="less",
        real=True,
        brief=False,
        adds=True,
        optional=True,
    )


def has_per_step(query: Query) -> bool:
    """Return whether a report has columns per step, and looks at steps for nothing else."""
    return any(column.name in _PER_STEP_UNITS for column in query.columns)
