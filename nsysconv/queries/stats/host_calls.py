"""The tables of `nsys stats` of calls on the host: of MPI, of the operating system, of OpenACC."""

from __future__ import annotations

import re

import numpy as np

from nsysconv import codes
from nsysconv.errors import NotRecorded
from nsysconv.facts import Fact
from nsysconv.queries.columns import PID, TID, count_column, key_column
from nsysconv.queries.contract import Query, Request, Result
from nsysconv.queries.stats import summaries
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.annotations import DIRECTIVE, mpi_ranges, operators
from nsysconv.timeline.arrays import distinct, factorize
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import OPENACC, OPENACC_EXCLUSIVE, OSRT_CALL, totals

_CALL_COUNT = count_column("call_count", "Number of calls.")
_FUNCTION = key_column("name", "The function.")

# -- the operating system's runtime libraries


def _osrt_rows(timeline: Timeline, request: Request) -> list[summaries.Row]:
    if Fact.OSRT_CALLS not in timeline.profile.facts:
        return summaries.total_rows(totals(timeline, OSRT_CALL), lambda total: (total.name,))
    columns = timeline.columns("osrt_call", ("dur_ns", "name_id"))
    group, (ids,) = factorize(columns["name_id"])
    texts = timeline.profile.names(ids)
    return summaries.event_rows(group, columns["dur_ns"], [(texts[i],) for i in ids.tolist()])


OSRT_SUM = summaries.table(summaries.time_columns("osrt", _CALL_COUNT, _FUNCTION), _osrt_rows)

# -- MPI

_MPI_SOURCES = {"p2p": "p2p", "collective": "collectives", "wait": "start-wait", "other": "other"}


# Names of functions, after MPI_ and an I for those that return at once.
_MPI_NAMES = {
    "p2p": re.compile(r"[BRS]?send|recv|sendrecv|m?probe|mrecv"),
    "collective": re.compile(r"\w*(?:barrier|bcast|gather|scatter|alltoall|reduce|scan)"),
    "wait": re.compile(r"wait|test|start"),
}


def _mpi_rows(timeline: Timeline, request: Request) -> list[summaries.Row]:
    if Fact.MPI_CALLS not in timeline.profile.facts:
        return _mpi_rows_of_ranges(timeline)
    columns = timeline.columns("mpi_call", ("dur_ns", "kind", "name_id"))
    group, (kinds, ids) = factorize(columns["kind"], columns["name_id"])
    texts = timeline.profile.names(ids)
    labels = [
        (_MPI_SOURCES[codes.MPI_KINDS[kind]], texts[i])
        for kind, i in zip(kinds.tolist(), ids.tolist(), strict=True)
    ]
    return summaries.event_rows(group, columns["dur_ns"], labels)


def _mpi_rows_of_ranges(timeline: Timeline) -> list[summaries.Row]:
    found = mpi_ranges(timeline)
    if not len(found):
        raise NotRecorded("mpi_event_sum", [Fact.MPI_CALLS])
    group, (ids,) = factorize(found.name)
    texts = [found.names[i] for i in ids.tolist()]
    return summaries.event_rows(
        group, found.end - found.start, [(_mpi_source(t), t) for t in texts]
    )


def _mpi_source(name: str) -> str:
    function = name.casefold().removeprefix("mpi_").removeprefix("i")
    kinds = (kind for kind, names in _MPI_NAMES.items() if names.match(function))
    return _MPI_SOURCES[next(kinds, "other")]


_SOURCE = key_column(
    "source",
    "Kind of call: p2p, collectives, start-wait (starts or waits for requests) or other.",
)
MPI_EVENT_SUM = summaries.table(
    summaries.time_columns("mpi", _CALL_COUNT, _SOURCE, _FUNCTION), _mpi_rows
)

_MPI_TRACE_COLUMNS = (
    Column("start_ns", Unit.NS, "Start of the event."),
    Column("end_ns", Unit.NS, "End of the call."),
    Column("dur_ns", Unit.NS, "Duration of the event."),
    key_column("name", "The function."),
    PID,
    TID,
    Column("tag", Unit.ID, "Message tag."),
    Column("rank", Unit.ID, "Rank of the process."),
    Column("remote_rank", Unit.ID, "Remote rank of a send or receive."),
    Column("root_rank", Unit.ID, "Root rank of the collective."),
    Column("bytes", Unit.BYTES, "Bytes sent or received; null for collectives."),
    Column("send_bytes", Unit.BYTES, "Bytes sent by a collective."),
    Column("recv_bytes", Unit.BYTES, "Bytes received by a collective."),
)

_COLLECTIVE = codes.MPI_KINDS.index("collective")


def _mpi_trace(timeline: Timeline, request: Request) -> Result:
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
            "rank": [timeline.ranks.get(pid) for pid in columns["pid"].tolist()],
            "bytes": np.where(collective, MISSING, size),
            "send_bytes": np.where(collective, size, MISSING),
            "recv_bytes": np.where(collective, columns["recv_bytes"], MISSING),
        },
        row_count=count,
    )


MPI_EVENT_TRACE = Query(columns=_MPI_TRACE_COLUMNS, compute=_mpi_trace)

# -- OpenACC

_CONSTRUCT = r"acc_\w+|\[OpenACC event -?\d+\]"
_CONSTRUCT_NAMES = (
    re.compile(rf"({_CONSTRUCT})(@.+?:\d+)(?: \(.*\))?", re.DOTALL),
    re.compile(rf"({_CONSTRUCT})((?:@.+?)?)(?: \(.*\))?", re.DOTALL),
)


def _openacc_rows(timeline: Timeline, request: Request) -> list[summaries.Row]:
    if Fact.DIRECTIVES not in timeline.profile.facts:
        return _openacc_rows_of_totals(timeline)
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
    rows = summaries.event_rows(group[openacc], (spans.end - spans.start)[openacc], labels)
    return [row for row in rows if row.count]


def _openacc_rows_of_totals(timeline: Timeline) -> list[summaries.Row]:
    inclusive = totals(timeline, OPENACC)
    if not inclusive and totals(timeline, OPENACC_EXCLUSIVE):
        # Times less those of the constructs inside are another quantity.
        advice = timeline.profile.advice.get(Fact.DIRECTIVES)
        raise NotRecorded("openacc_sum", [Fact.DIRECTIVES], [advice] if advice else [])
    return summaries.total_rows(inclusive, lambda total: (_construct(total.name) or total.name,))


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


OPENACC_SUM = summaries.table(
    summaries.time_columns(
        "openacc",
        count_column("call_count", "Number of executions."),
        key_column("name", "Construct, followed by `@`, its file and line."),
    ),
    _openacc_rows,
)
