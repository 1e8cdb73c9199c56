"""Copies and sets with the API calls that launched them, for the rules that look at both."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nsysconv import codes
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.queries.columns import direction_names, memory_kind_names
from nsysconv.queries.contract import Array
from nsysconv.report import MISSING, Column
from nsysconv.timeline.events import OpKind, call_ids
from nsysconv.timeline.timeline import Timeline, cached_whole
from nsysconv.units import Unit

PID = Column("pid", Unit.ID, "The process.")
CALL_ID = Column("call_id", Unit.ID, "The call, `api_call.id`.", brief=False)
CONTEXT = Column("context_id", Unit.ID, "The process's context.", brief=False)
GREEN_CONTEXT = Column(
    "green_context_id", Unit.ID, "The green context; 0 or null: none.", brief=False
)
STREAM = Column("stream_id", Unit.ID, "The stream.", brief=False)
NAME = Column("name", Unit.TEXT, "Documented name of the function.")
CALL_DUR = Column("call_dur_ns", Unit.NS, "How long the call took.", better="less", brief=False)

_TABLES = {OpKind.MEMCPY: "memcpy", OpKind.MEMSET: "memset"}
_COPY = re.compile(r"(?:cuda|cu|hip)Memcpy")
_SET = re.compile(r"(?:cuda|cu|hip)Memset")
_UNKNOWN = codes.MEMORY_KINDS.index("Unknown")


def copies_asynchronously(function: str) -> bool:
    """Whether it is a function of the API that starts a copy and returns (`cudaMemcpy2DAsync`)."""
    return _COPY.match(function) is not None and "Async" in function


def copies_synchronously(function: str) -> bool:
    """Whether it is a function of the API that copies and has no stream to do it in (`cudaMemcpy`)."""
    return _COPY.match(function) is not None and "Async" not in function


def sets_synchronously(function: str) -> bool:
    """Whether it is a function of the API that sets memory, and no asynchronous one (`cudaMemset`)."""
    return _SET.match(function) is not None and "Async" not in function


@dataclass(frozen=True)
class Launched:
    """Operations of one table: the place of each among the table's rows, and its call's in the calls."""

    timeline: Timeline
    table: str
    row: Array
    call: Array

    def __len__(self) -> int:
        return len(self.row)

    def take(self, which: Array) -> Launched:
        """Those of a mask or of indices."""
        return Launched(self.timeline, self.table, self.row[which], self.call[which])

    def column(self, name: str) -> Array:
        """A column of the table."""
        result: Array = self.timeline.profile.columns(self.table, (name,))[name][self.row]
        return result

    def data(self, columns: Sequence[Column], limit: int) -> dict[str, Sequence[Any] | Array]:
        """Values of a report's columns but the first; longest first, then in time order; `limit` rows
        at most (0: all).
        """
        # What has no time comes last.
        dur, start = np.maximum(self.column("dur_ns"), -1), self.column("start_ns")
        order = np.lexsort((self.row, start, -dur))
        shown = self.take(order[:limit] if limit else order)
        return {column.name: shown._values(column.name) for column in columns[1:]}

    def _values(self, name: str) -> Sequence[Any] | Array:
        timeline, calls = self.timeline, self.timeline.calls
        if name == "rank":
            return [timeline.ranks.get(pid) for pid in self.column("pid").tolist()]
        if name == f"{self.table}_id":
            return self.row.astype(np.int64) + timeline.profile.first_id(self.table)
        if name == "call_id":
            ids: Array = ids_of_calls(timeline)[self.call]
            return ids
        if name == "call_dur_ns":
            took: Array = calls.end[self.call] - calls.start[self.call]
            return took
        if name == "name":
            return [timeline.call_names[i] for i in calls.name_id[self.call].tolist()]
        if name == "direction":
            return direction_names(self.column("direction"))
        if name.endswith("_kind"):
            return memory_kind_names(self.column(name))
        return self.column(name)


@cached_whole
def ids_of_calls(timeline: Timeline) -> Array:
    """Per call its id in the table api_call; made once for all rules, for it reads a long table."""
    whole = timeline.whole
    return call_ids(whole.profile, whole.calls)


def launched(timeline: Timeline, kind: OpKind, by: Callable[[str], bool]) -> Launched:
    """The operations of a kind that were launched by functions of which `by` is true."""
    ops, calls, owner = timeline.ops, timeline.calls, timeline.owner
    functions = [i for i, name in timeline.call_names.items() if by(name)]
    mine = np.flatnonzero((ops.kind == kind) & (owner >= 0))
    mine = mine[np.isin(calls.name_id[owner[mine]], functions)]
    return Launched(timeline, _TABLES[kind], ops.row[mine], owner[mine])


def unjudged(report: str, found: Launched, columns: Sequence[str], guilty: Array) -> list[Note]:
    """What a rule about kinds of memory has to say of the operations whose kind is not known.

    `columns` hold the kinds, `guilty` is a mask of those that it finds fault with whatever else they
    are. Raises NotRecorded where there are operations, and of none of them can anything be said.
    """
    unknown = np.zeros(len(found), bool)
    for name in columns:
        kinds = found.column(name)
        unknown |= (kinds == MISSING) | (kinds == _UNKNOWN)
    count = int(np.count_nonzero(unknown & ~guilty))
    if not count:
        return []
    what = {"memcpy": "copies", "memset": "sets"}[found.table]
    if count == len(found):
        raise NotRecorded(report, [f"kinds of memory of {what}"])
    text = f"{what} of which the kind of memory is not known; they may belong to the findings"
    fact = Fact.MEMCPYS if found.table == "memcpy" else Fact.MEMSETS
    return [
        Note("memory-kind-unknown", Severity.APPROXIMATED, text, count, facts=frozenset({fact}))
    ]
