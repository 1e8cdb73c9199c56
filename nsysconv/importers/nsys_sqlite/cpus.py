"""Tables of CPUs in an export: when threads ran, and samples of what they ran.

They may hold all processes of a machine. Only those are read that other tables name, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, auto

import sqlalchemy as sa

from nsysconv import codes
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import (
    Expression,
    SourceColumns,
    as_whole_number,
    has_columns,
    whole_number,
)
from nsysconv.store.recording import SOURCE

SCHEDULING, SAMPLES = "SCHED_EVENTS", "COMPOSITE_EVENTS"
TABLES = (SCHEDULING, SAMPLES)
CHAINS, _FRAME = "SAMPLING_CALLCHAINS", ("symbol", "module")
_LEAF = sa.table(CHAINS, *map(sa.column, ("id", *_FRAME, "stackDepth")), schema=SOURCE).alias(
    "leaf"
)


class Frames(Enum):
    """Where a file says which function a sample saw run, and the file that this is in."""

    NONE = auto()
    CHAINS = auto()
    """In a table of call chains, as nsys exports them; the first frame ran."""
    SAMPLES = auto()
    """With the sample, in a report that was decoded."""


def frames(probe: Probe) -> Frames:
    """Return where a file says what samples saw run."""
    if has_columns(probe, CHAINS, "id", "stackDepth", *_FRAME):
        return Frames.CHAINS
    return Frames.SAMPLES if has_columns(probe, SAMPLES, *_FRAME) else Frames.NONE


def frame_names(probe: Probe, pids: Iterable[int]) -> tuple[set[int], set[int]]:
    """Return the ids of the names of functions, and of their files, in samples of these processes."""
    where, found = frames(probe), (set[int](), set[int]())
    if where is Frames.NONE or not has_columns(probe, SAMPLES, "globalTid"):
        return found
    rows = f"{SAMPLES} AS sample"
    if where is Frames.CHAINS:
        rows += f" JOIN {CHAINS} AS frame ON frame.id = sample.id AND frame.stackDepth = 0"
    own = ", ".join(map(str, sorted(pids))) or "NULL"
    sql = f"SELECT DISTINCT {', '.join(_FRAME)} FROM {rows} WHERE globalTid >> 24 & 16777215 IN ({own})"
    for cells in probe.iterate(sql):
        for ids, cell in zip(found, map(as_whole_number, cells), strict=True):
            ids.update([] if cell is None else [cell])
    return found


def switch(
    c: SourceColumns, start_ns: Expression, thread: dict[str, Expression]
) -> dict[str, Expression]:
    """Return the columns of `cpu_switch`; `thread` are those that say which thread it is."""
    known = c["threadState"].between(0, len(codes.THREAD_STATES) - 1)
    state = sa.case((known, c["threadState"]))
    return {
        "start_ns": start_ns,
        **thread,
        "cpu": c["cpu"],
        "is_running": c["isSchedIn"],
        "state": state,
    }


def sample(
    c: SourceColumns, start_ns: Expression, thread: dict[str, Expression], where: Frames
) -> dict[str, Expression]:
    """Return the columns of `cpu_sample`."""
    of = _LEAF.c if where is Frames.CHAINS else c
    cells = [whole_number(of[name]) if where is Frames.CHAINS else of[name] for name in _FRAME]
    names = dict(zip(("name_id", "library_id"), cells, strict=True))
    return {"start_ns": start_ns, **thread, "cpu": c["cpu"], **names}


def with_frame(c: SourceColumns, where: Frames) -> sa.FromClause:
    """Return the samples, with the frame of each that ran."""
    if where is not Frames.CHAINS:
        return c.table
    return sa.outerjoin(c.table, _LEAF, (_LEAF.c.id == c["id"]) & (_LEAF.c.stackDepth == 0))
