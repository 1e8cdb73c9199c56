"""How one table of an export becomes rows of one of ours: a mapping, and what mappings share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa

from nsysconv import schema
from nsysconv.facts import Fact
from nsysconv.importers import directives
from nsysconv.importers.sqlite_columns import Columns, Expression


@dataclass(frozen=True)
class Sampled:
    """One metric of one GPU as `GPU_METRICS` numbers it, and what its samples become."""

    type_id: int
    metric_id: int
    name_id: int
    device_id: int | None
    unit: int
    is_clock: bool


@dataclass(frozen=True)
class Context:
    """What the survey of a file decides for all its mappings.

    `zero`: subtracted from every time. `device`: (pid, ordinal) expressions -> our device_id.
    `only_pid`: the process of all rows of this table, where there is one. `driver_names`: ids of driver
    functions, for API tables that do not tell the layers apart; None where they do. `constructs`: numbers
    of names of OpenACC. `metrics`: those that were sampled. `balanced`: every release of device memory
    has its allocation. `nameless`: names of kernels are missing. `careful`: rows without a time are
    looked for.
    """

    zero: int
    device: Callable[[Expression, Expression], Expression]
    only_pid: int | None
    driver_names: tuple[int, ...] | None
    constructs: directives.Numbers = field(default_factory=dict)
    metrics: tuple[Sampled, ...] = ()
    balanced: bool = False
    nameless: bool = False
    careful: bool = False


@dataclass(frozen=True)
class Mapping:
    """One of our event tables made from one source table: expressions by our column, and a filter.

    `classes`: of a table with event classes, those that are rows of ours. `rows` gives the table itself
    or what it is joined with; then `alias` names it. `time`: the column that says when a row began.
    `told`: the fact that the rows are, where it is not that of our table.
    """

    ours: str
    source: str
    columns: Callable[[Columns, Context], dict[str, Expression]]
    where: Callable[[Columns, Context], Expression | None] = lambda c, context: None
    needs: frozenset[str] = frozenset({"start"})
    classes: frozenset[int] = frozenset()
    rows: Callable[[Columns, Context], sa.FromClause] = lambda c, context: c.table
    alias: str = ""
    time: str = "start"
    told: Fact | None = None

    @property
    def fact(self) -> Fact:
        """What a profile holds if these rows were recorded."""
        return self.told or schema.EVENT_TABLES[self.ours].fact


def select(mapping: Mapping, columns: Columns, context: Context) -> sa.Select[Any]:
    """The rows of one mapping as a select over the attached source, columns named as ours."""
    expressions = mapping.columns(columns, context)
    labelled = [expression.label(name) for name, expression in expressions.items()]
    rows = sa.select(*labelled).select_from(mapping.rows(columns, context))
    if mapping.classes and "eventClass" in columns:
        rows = rows.where(columns["eventClass"].in_(sorted(mapping.classes)))
    where = mapping.where(columns, context)
    return rows if where is None else rows.where(where)


def interval(c: Columns, context: Context) -> dict[str, Expression]:
    """When a row began and how long it took."""
    start, end = c["start"], c["end"]
    values = {"start_ns": moment(start, context), "dur_ns": end - start}
    if not context.careful:
        return values
    # A row that starts and ends at 0 has no time. The test makes copying a sixth slower, and the
    # schema's checks refuse such rows, so it is made only where they did.
    timeless = (start == 0) & (end == 0)
    return {name: sa.case((timeless, sa.null()), else_=value) for name, value in values.items()}


def moment(time: Expression, context: Context) -> Expression:
    """A time of the source as ours."""
    if not context.zero:
        return time
    # Among times of day, 0 is no time.
    return (sa.func.nullif(time, 0) if context.careful else time) - context.zero


def _pid_of(global_id: Expression) -> Expression:
    return global_id.op(">>")(24).op("&")(0xFFFFFF)


def tid_of(global_id: Expression) -> Expression:
    """The thread of a global id."""
    return global_id.op("&")(0xFFFFFF)


def pid(c: Columns, column: str, context: Context) -> Expression:
    """The process of a global id; 0 names none, which is looked for only where it was refused."""
    number = _pid_of(c[column])
    return sa.func.nullif(number, 0) if context.careful else number


def process(c: Columns, context: Context) -> Expression:
    """The process of a row of GPU work."""
    if context.only_pid is not None:
        return sa.literal_column(str(context.only_pid))
    return pid(c, "globalPid", context) if "globalPid" in c else sa.null()


def on_gpu(c: Columns, context: Context) -> dict[str, Expression]:
    """Where a row of GPU work ran, and the id of its call."""
    own = process(c, context)
    return {
        "pid": own,
        "device_id": context.device(own, c["deviceId"]),
        "context_id": c["contextId"],
        "stream_id": c["streamId"],
        "correlation_id": c["correlationId"],
    }


def on_thread(c: Columns, context: Context) -> dict[str, Expression]:
    """The process and thread of a row."""
    return {"pid": pid(c, "globalTid", context), "tid": tid_of(c["globalTid"])}


def code(words: tuple[str, ...], word: str) -> Expression:
    """The code of a word, as SQL."""
    return sa.literal_column(str(words.index(word)))
