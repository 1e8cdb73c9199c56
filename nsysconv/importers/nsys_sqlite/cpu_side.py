"""What threads did beside the CUDA API: OS runtime, MPI, cuBLAS and cuDNN, OpenACC and OpenMP."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.importers import directives
from nsysconv.importers.nsys_sqlite.mapping import (
    Context,
    Mapping,
    code,
    interval,
    on_thread,
)
from nsysconv.importers.sqlite_columns import Columns, Expression

OSRT = "OSRT_API"
LIBRARIES = ("CUBLAS_EVENTS", "CUDNN_EVENTS")
MPI_P2P = "MPI_P2P_EVENTS"
MPI_COLLECTIVES = "MPI_COLLECTIVES_EVENTS"
MPI_WAITS = "MPI_START_WAIT_EVENTS"
MPI_OTHER = "MPI_OTHER_EVENTS"
MPI = (MPI_P2P, MPI_COLLECTIVES, MPI_WAITS, MPI_OTHER)
OPENACC = directives.OPENACC_SOURCES
OPENMP = tuple(
    f"OPENMP_EVENT_KIND_{kind}"
    for kind in (
        "CANCEL",
        "CRITICAL_SECTION",
        "DISPATCH",
        "FLUSH",
        "LOCK_DESTROY",
        "LOCK_INIT",
        "MASTER",
        "MUTEX_RELEASED",
        "MUTEX_WAIT",
        "PARALLEL",
        "REDUCTION",
        "SYNC_REGION",
        "SYNC_REGION_WAIT",
        "TASK",
        "TASK_CREATE",
        "TASK_SCHEDULE",
        "THREAD",
        "WORKSHARE",
    )
)

_OSRT_CLASS = 27
_LIBRARY_CLASSES = frozenset({28, 29})
_OPENMP_CLASS = 78
MARKER_CLASSES = frozenset({31, 32, 33, 34, 35, 36, 79, 80})
"""Rows that say when the tracing of these kinds began and ended. They are no events of the program."""

_ON_THREAD = frozenset({"start", "end", "globalTid"})


def _osrt_call(c: Columns, context: Context) -> dict[str, Expression]:
    return {
        **interval(c, context),
        **on_thread(c, context),
        "name_id": c["nameId"],
        "result": c["returnValue"],
        "nesting_level": c["nestingLevel"],
    }


def _mpi_call(kind: str) -> Callable[[Columns, Context], dict[str, Expression]]:
    def columns(c: Columns, context: Context) -> dict[str, Expression]:
        return {
            **interval(c, context),
            **on_thread(c, context),
            "kind": code(codes.MPI_KINDS, kind),
            "name_id": c["textId"],
            "tag": c["tag"],
            "remote_rank": c["remoteRank"],
            "root_rank": c["rootRank"],
            "bytes": c["size"],
            "recv_bytes": c["recvSize"],
            "communicator_id": c["commHandle"],
        }

    return columns


def _first_of_wait(c: Columns, context: Context) -> Expression:
    """A call that waits for several requests is a row for each of them, alike but for the request."""
    same = [c[name] for name in ("start", "end", "globalTid", "textId") if name in c]
    first = sa.select(sa.func.min(c.row_id)).select_from(c.table).group_by(*same)
    return c.row_id.in_(first.correlate(None))


def _operator(kind: str) -> Callable[[Columns, Context], dict[str, Expression]]:
    def columns(c: Columns, context: Context) -> dict[str, Expression]:
        return {
            **interval(c, context),
            **on_thread(c, context),
            "kind": code(codes.OPERATOR_KINDS, kind),
            "name_id": c["nameId"],
        }

    return columns


def _openacc(c: Columns, context: Context) -> dict[str, Expression]:
    values = _operator("directive")(c, context)
    return {**values, "name_id": directives.name_id(c, context.constructs)}


def _with_names(c: Columns, context: Context) -> sa.FromClause:
    return directives.joined(c, context.constructs)


MAPPINGS = (
    Mapping("osrt_call", OSRT, _osrt_call, needs=_ON_THREAD, classes=frozenset({_OSRT_CLASS})),
    Mapping("mpi_call", MPI_P2P, _mpi_call("p2p"), needs=_ON_THREAD),
    Mapping("mpi_call", MPI_COLLECTIVES, _mpi_call("collective"), needs=_ON_THREAD),
    Mapping("mpi_call", MPI_WAITS, _mpi_call("wait"), _first_of_wait, _ON_THREAD),
    Mapping("mpi_call", MPI_OTHER, _mpi_call("other"), needs=_ON_THREAD),
    *(
        Mapping(
            "operator",
            source,
            _operator("library_call"),
            needs=_ON_THREAD,
            classes=_LIBRARY_CLASSES,
            told=Fact.LIBRARY_CALLS,
        )
        for source in LIBRARIES
    ),
    *(
        Mapping(
            "operator",
            source,
            _operator("directive"),
            needs=_ON_THREAD,
            classes=frozenset({_OPENMP_CLASS}),
            told=Fact.DIRECTIVES,
        )
        for source in OPENMP
    ),
    *(
        Mapping(
            "operator",
            source,
            _openacc,
            needs=_ON_THREAD | {"eventKind"},
            rows=_with_names,
            alias=directives.ALIAS,
            told=Fact.DIRECTIVES,
        )
        for source in OPENACC
    ),
)
