"""The tables of `nsys stats` of calls on the host: of MPI, of the operating system, of OpenACC."""

from __future__ import annotations

import re

import numpy as np

from nsysconv import codes
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.queries.contract import Array, ColumnValues, Query, Request, Result
from nsysconv.queries.stats.summaries import (
    largest_first,
    summary_rows,
    time_columns,
    time_rows,
    time_table,
)
from nsysconv.report import MISSING, Column, Printed
from nsysconv.timeline.annotations import DIRECTIVE, operators
from nsysconv.timeline.arrays import distinct, factorize
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import OPENACC, OPENACC_EXCLUSIVE, OSRT_CALL, totals
from nsysconv.units import Unit

_FUNCTION = Column("name", Unit.TEXT, "The function.", key=True, printed=Printed("Name"))

# -- the operating system's runtime libraries

_OSRT_COLUMNS = time_columns(
    "osrt",
    Column("call_count", Unit.COUNT, "Calls.", printed=Printed("Num Calls")),
    _FUNCTION,
)


def _osrt_summary(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per function, most time first."""
    if Fact.OSRT_CALLS in timeline.profile.facts:
        columns = timeline.columns("osrt_call", ("dur_ns", "name_id"))
        group, (ids,) = factorize(columns["name_id"])
        texts = timeline.profile.names(ids)
        rows = summary_rows(group, columns["dur_ns"], [(texts[i],) for i in ids.tolist()])
    else:
        rows = time_rows(totals(timeline, OSRT_CALL), lambda total: (total.name,))
    return time_table(_OSRT_COLUMNS, largest_first(rows))


OSRT_SUM = Query(
    title="OS Runtime Summary",
    needs={Fact.OSRT_CALLS},
    totals={Fact.OSRT_TOTALS},
    columns=_OSRT_COLUMNS,
    compute=_osrt_summary,
)

# -- MPI

_MPI_COLUMNS = time_columns(
    "mpi",
    Column("call_count", Unit.COUNT, "Calls.", printed=Printed("Instances")),
    Column(
        "source",
        Unit.TEXT,
        "Which kind of call: p2p, collectives, start-wait (starts or waits for requests), other.",
        key=True,
        printed=Printed("Source"),
    ),
    _FUNCTION,
)

_MPI_SOURCES = {
    "p2p": "p2p",
    "collective": "collectives",
    "wait": "start-wait",
    "other": "other",
}


def _mpi_summary(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per kind and function, most time first."""
    columns = timeline.columns("mpi_call", ("dur_ns", "kind", "name_id"))
    group, (kinds, ids) = factorize(columns["kind"], columns["name_id"])
    texts = timeline.profile.names(ids)
    labels = [
        (_MPI_SOURCES[codes.MPI_KINDS[kind]], texts[i])
        for kind, i in zip(kinds.tolist(), ids.tolist(), strict=True)
    ]
    rows = largest_first(summary_rows(group, columns["dur_ns"], labels))
    return time_table(_MPI_COLUMNS, rows)


MPI_EVENT_SUM = Query(
    title="MPI Event Summary",
    needs={Fact.MPI_CALLS},
    columns=_MPI_COLUMNS,
    compute=_mpi_summary,
)

_MPI_TRACE_COLUMNS = (
    Column("start_ns", Unit.NS, "When it began.", printed=Printed("Start (ns)")),
    Column("end_ns", Unit.NS, "When it ended.", printed=Printed("End (ns)")),
    Column("dur_ns", Unit.NS, "How long it took.", printed=Printed("Duration (ns)")),
    Column("name", Unit.TEXT, "The function.", key=True, printed=Printed("Event")),
    Column("pid", Unit.ID, "The process.", key=True, printed=Printed("Pid")),
    Column("tid", Unit.ID, "The thread.", key=True, printed=Printed("Tid")),
    Column("tag", Unit.ID, "Tag of the message.", printed=Printed("Tag")),
    Column("rank", Unit.ID, "Rank of the process.", printed=Printed("Rank")),
    Column(
        "remote_rank", Unit.ID, "The rank sent to or received from.", printed=Printed("PeerRank")
    ),
    Column("root_rank", Unit.ID, "The root of the collective.", printed=Printed("RootRank")),
    Column(
        "bytes", Unit.BYTES, "Bytes sent or received; not of collectives.", printed=Printed("Size")
    ),
    Column(
        "send_bytes", Unit.BYTES, "Bytes that a collective sent.", printed=Printed("CollSendSize")
    ),
    Column(
        "recv_bytes",
        Unit.BYTES,
        "Bytes that a collective received.",
        printed=Printed("CollRecvSize"),
    ),
)

_COLLECTIVE = codes.MPI_KINDS.index("collective")


def _mpi_trace(timeline: Timeline, request: Request) -> Result:
    """Return one row per call in the order of their starts."""
    same = ("start_ns", "dur_ns", "pid", "tid", "tag", "remote_rank", "root_rank")
    columns = timeline.columns("mpi_call", (*same, "kind", "name_id", "bytes", "recv_bytes"))
    order = np.argsort(columns["start_ns"], kind="stable")
    count = len(order)
    order = order[: request.limit or None]
    columns = {name: values[order].astype(np.int64) for name, values in columns.items()}
    start, dur, size = columns["start_ns"], columns["dur_ns"], columns["bytes"]
    collective = columns["kind"] == _COLLECTIVE
    texts = timeline.profile.names(distinct(columns["name_id"]))
    return Result(
        {
            **{name: columns[name] for name in same},
            "end_ns": np.where((start == MISSING) | (dur == MISSING), MISSING, start + dur),
            "name": [texts[i] for i in columns["name_id"].tolist()],
            "rank": _ranks(timeline, columns["pid"]),
            "bytes": np.where(collective, MISSING, size),
            "send_bytes": np.where(collective, size, MISSING),
            "recv_bytes": np.where(collective, columns["recv_bytes"], MISSING),
        },
        row_count=count,
    )


def _ranks(timeline: Timeline, pids: Array) -> Array:
    ranks = np.full(len(pids), MISSING)
    for pid, rank in timeline.ranks.items():
        ranks[pids == pid] = rank
    return ranks


MPI_EVENT_TRACE = Query(
    title="MPI Event Trace",
    needs={Fact.MPI_CALLS},
    uses={Fact.RANKS},
    columns=_MPI_TRACE_COLUMNS,
    compute=_mpi_trace,
)

# -- OpenACC

_OPENACC_COLUMNS = time_columns(
    "openacc",
    Column("call_count", Unit.COUNT, "Executions.", printed=Printed("Num Calls")),
    Column(
        "name",
        Unit.TEXT,
        "The construct, `@`, its file and line.",
        key=True,
        printed=Printed("Name"),
    ),
)

_CONSTRUCT = r"acc_\w+|\[OpenACC event -?\d+\]"
_CONSTRUCT_NAMES = (
    re.compile(rf"({_CONSTRUCT})(@.+?:\d+)(?: \(.*\))?", re.DOTALL),
    re.compile(rf"({_CONSTRUCT})((?:@.+?)?)(?: \(.*\))?", re.DOTALL),
)


def _openacc_summary(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per construct and place, most time first."""
    if Fact.DIRECTIVES not in timeline.profile.facts:
        return _openacc_summary_of_totals(timeline)
    spans = operators(timeline)
    spans = spans.take(timeline.holds(spans) & (spans.kind == DIRECTIVE))
    numbers: dict[str, int] = {}
    number_by_name = np.full(len(spans.names), -1)
    for i, name in enumerate(spans.names):
        construct = _construct(name)
        if construct is not None:
            number_by_name[i] = numbers.setdefault(construct, len(numbers))
    group = number_by_name[spans.name] if len(spans) else np.empty(0, np.int64)
    openacc = group >= 0
    labels = [(construct,) for construct in numbers]
    rows = summary_rows(group[openacc], (spans.end - spans.start)[openacc], labels)
    return time_table(_OPENACC_COLUMNS, largest_first(row for row in rows if row.count))


def _openacc_summary_of_totals(timeline: Timeline) -> ColumnValues:
    inclusive = totals(timeline, OPENACC)
    if not inclusive and totals(timeline, OPENACC_EXCLUSIVE):
        # Times less those of the constructs inside are another quantity.
        advice = timeline.profile.advice.get(Fact.DIRECTIVES)
        raise NotRecorded("openacc_sum", [Fact.DIRECTIVES], [advice] if advice else [])
    rows = time_rows(inclusive, lambda total: (_construct(total.name) or total.name,))
    return time_table(_OPENACC_COLUMNS, largest_first(rows))


def _construct(name: str) -> str | None:
    """Return a directive's name as nsys spells it; None: it is not OpenACC's.

    `acc_enter_data@a.c:7 (x)` is `Enter Data@a.c:7`.
    """
    for pattern in _CONSTRUCT_NAMES:
        match = pattern.fullmatch(name)
        if match:
            construct, place = match.groups()
            if construct.startswith("acc_"):
                construct = construct.removeprefix("acc_").replace("_", " ").title()
            return f"{construct}{place}"
    return None


OPENACC_SUM = Query(
    title="OpenACC Summary",
    needs={Fact.DIRECTIVES},
    totals={Fact.DIRECTIVE_TOTALS},
    columns=_OPENACC_COLUMNS,
    compute=_openacc_summary,
)
