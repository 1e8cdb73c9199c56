"""Ranges and marks out of markers: a row where a range begins, another where it ends.

The two share `id`. Whether a range was pushed or started cannot be told: one that another thread ended
was started, all others are taken for pushed.
"""

from __future__ import annotations

import sqlalchemy as sa

from nsysconv.importers.nvprof_database.name_ids import NameIds
from nsysconv.importers.nvprof_database.objects import number_at
from nsysconv.importers.sqlite_columns import TIME_LIMIT, Columns, Expression
from nsysconv.store.recording import SOURCE

ALIAS = "beginning"
MARK, BEGIN, END = 1, 2, 4
DATA = "CUPTI_ACTIVITY_KIND_MARKER_DATA"
_HAS_COLOR = 2
_PUSH_POP, _START_END, _MARK = 0, 1, 2

# One row for each id, so that a number that is used twice does not double a range.
_ENDS = (
    sa.text(
        f"""SELECT id, min(timestamp) AS ended_at, objectId AS object, objectKind AS kind
        FROM {SOURCE}.CUPTI_ACTIVITY_KIND_MARKER
        WHERE flags & {END} AND typeof(timestamp) = 'integer' GROUP BY id"""
    )
    .columns(
        sa.column("id", sa.BigInteger),
        sa.column("ended_at", sa.BigInteger),
        sa.column("object", sa.LargeBinary),
        sa.column("kind", sa.BigInteger),
    )
    .subquery("ending")
)
_LOOKS = (
    sa.text(
        f"""SELECT id, max(CASE WHEN flags & {_HAS_COLOR} AND typeof(color) = 'integer'
            THEN color & 4294967295 END) AS color,
        max(CASE WHEN typeof(category) = 'integer' THEN category END) AS category
        FROM {SOURCE}.{DATA} GROUP BY id"""
    )
    .columns(
        sa.column("id", sa.BigInteger),
        sa.column("color", sa.BigInteger),
        sa.column("category", sa.BigInteger),
    )
    .subquery("looks")
)


def columns(
    c: Columns, zero: int, names: NameIds, *, careful: bool, looks: bool
) -> dict[str, Expression]:
    """Our columns of a range or mark, by the row where it begins; `looks`: colours are recorded."""
    time, kind, ending = c["timestamp"], c["objectKind"], _ENDS.c
    start = time - zero if zero else time
    ended = c["flags"].op("&")(BEGIN) != 0
    tid, end_tid = number_at(c["objectId"], 4, kind), number_at(ending.object, 4, ending.kind)
    elsewhere = ended & (_thread(ending.object) != _thread(c["objectId"]))
    closed = ended & (ending.ended_at >= time)
    if careful:
        closed &= (time != 0) & (ending.ended_at - time <= TIME_LIMIT)
    return {
        "start_ns": sa.case((time != 0, start)) if careful else start,
        "dur_ns": sa.case((closed, ending.ended_at - time)),
        "pid": sa.func.nullif(number_at(c["objectId"], 0, kind), 0),
        "tid": tid,
        "end_tid": sa.case((elsewhere, end_tid)),
        "kind": sa.case((~ended, _MARK), (elsewhere, _START_END), else_=_PUSH_POP),
        "domain_id": sa.func.coalesce(c["domain"], 0),
        "category_id": sa.func.nullif(_LOOKS.c.category, 0) if looks else sa.null(),
        "color": _LOOKS.c.color if looks else sa.null(),
        "name_id": names.text(c["name"], careful=careful),
    }


def _thread(blob: Expression) -> Expression:
    """Process and thread without the upper half of the thread's number, which may be garbage."""
    return sa.func.substr(blob, sa.literal_column("1"), sa.literal_column("8"))


def beginnings(c: Columns) -> Expression:
    """The rows that become one of ours."""
    return c["flags"].op("&")(MARK | BEGIN) != 0


def joined(c: Columns, *, looks: bool) -> sa.FromClause:
    """Beginnings with their ends and looks."""
    both = sa.outerjoin(c.table, _ENDS, _ENDS.c.id == c["id"])
    return both.outerjoin(_LOOKS, _LOOKS.c.id == c["id"]) if looks else both
