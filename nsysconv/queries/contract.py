"""The contract of reports: what one declares, is asked for, and returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from nsysconv.facts import Fact
from nsysconv.notes import Note
from nsysconv.report import Column, ProfileRef
from nsysconv.timeline.slices import ANY_STEPS, StepRule
from nsysconv.timeline.steps import STEP_FACTS
from nsysconv.timeline.timeline import Timeline

Array = np.ndarray
ColumnValues = Mapping[str, Sequence[Any] | Array]
"""Values by the name of their column, all of one length, in the order of rows."""

GPU_OP_FACTS = frozenset(
    {Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY, Fact.GRAPH_LAUNCHES, Fact.DEVICES}
)
"""Facts that reports on all GPU operations use besides kernels."""
CALL_FACTS = frozenset({Fact.API_CALLS, Fact.API_LINKS})
"""API calls, and which GPU operations they launched."""
FACT_GROUPS = {
    "gpu_ops": GPU_OP_FACTS,
    "calls": CALL_FACTS,
    "steps": STEP_FACTS,
    "host": STEP_FACTS
    | {Fact.DIRECTIVES, Fact.PYTHON_FUNCTIONS, Fact.OSRT_CALLS, Fact.SCHEDULING}
    | {Fact.DEVICES, Fact.OVERHEAD},
}
"""Words that reports.toml has for several facts; `host` says what the host did besides its calls."""


@dataclass(frozen=True)
class Request:
    """The request to a query besides the time line, which is cut to a slice already.

    `limit` (0: none) lets a query skip the work for rows that will not be shown; others may ignore it.
    `steps` is what makes a step, if somebody said that. `range_names` says whether ranges and operators
    of one group are one. `split` asks the reports that have rows over devices for a row for each
    "device" or "rank" (None: for neither). `options` has a value for each of the query's options.
    """

    limit: int = 0
    idle_kinds: tuple[str, ...] = ("no_op",)
    kernel_names: str = "demangled"
    steps: StepRule = ANY_STEPS
    range_names: str = "grouped"
    split: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Option:
    """A choice that one report has: `REPORT:NAME=VALUE`, or `REPORT:NAME` where the default is False.

    The default's type is the value's; a default of None is a text that nobody gave.
    """

    name: str
    default: bool | int | float | str | None
    doc: str


@dataclass(frozen=True)
class Result:
    """The result of a query.

    `row_count` is the number of all rows if `values` has only the first ones (None: it has all).
    `notes` are caveats that computing revealed. `unused` are facts of the query's `uses` on which no
    value here depends, so that notes on them are not shown. `title` is in place of the query's, where an
    option asked for other rows.
    """

    values: ColumnValues
    row_count: int | None = None
    notes: tuple[Note, ...] = ()
    unused: AbstractSet[Fact] = frozenset()
    title: str = ""


class Aggregator(Protocol):
    """Makes one result of what each profile of a run contributes."""

    def add(self, ref: ProfileRef, partial: Any) -> None:
        """Add one profile's contribution."""

    def result(self) -> Result:
        """Return the values of all columns, `profile` included. Called once, after the last `add`."""


@dataclass(frozen=True)
class View:
    """What a report shows with one value of its option `by`, or with another option that is on."""

    title: str
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class OverRanks:
    """How a report on all profiles of a run is made.

    `partial` returns one profile's contribution (small, to be pickled), and `aggregator` takes these in.
    """

    partial: Callable[[Timeline, Request], Any]
    aggregator: Callable[[Request], Aggregator]


Needs = AbstractSet[Fact] | Callable[[Mapping[str, Any]], AbstractSet[Fact]]


@dataclass(frozen=True, kw_only=True)
class Query:
    """A report: what it shows, which facts it needs, its columns, and how they are computed.

    `compute` returns the values of all columns but `profile`; of a large profile, another report may be
    computed on another thread from the same time line. `options` are choices that only this report has. A
    report with `views` has another title and other columns by the value of its option `by`, or where an
    option of the view's name is on; the first are its own. A report on all profiles of a run has
    `over_ranks` in place of `compute`.

    reports.toml has the title and the facts. Without all facts of `needs`, or those that it returns for
    the report's options, and one of `any_of` (where it has some) there is no report; `uses` are further
    facts, whose columns are null, or whose notes apply, where they are missing. `totals` answer for a
    whole profile in place of `needs`, as far as they go.
    """

    columns: tuple[Column, ...]
    compute: Callable[[Timeline, Request], ColumnValues | Result] | None = None
    options: tuple[Option, ...] = ()
    views: Mapping[str, View] = field(default_factory=dict)
    over_ranks: OverRanks | None = None
    title: str = ""
    needs: Needs = frozenset()
    any_of: AbstractSet[Fact] = frozenset()
    uses: AbstractSet[Fact] = frozenset()
    totals: AbstractSet[Fact] = frozenset()

    @property
    def every_column(self) -> tuple[Column, ...]:
        """Return the columns of all views, each name once."""
        shown = [self.columns, *(view.columns for view in self.views.values())]
        return tuple({column.name: column for columns in shown for column in columns}.values())
