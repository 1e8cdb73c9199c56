"""Which call recorded the event that a wait is for, in databases of CUPTI's records.

A wait names its event, and an event may be recorded any number of times: a wait is for the last record
before it. The order is that of correlation ids, which CUPTI counts up with each call of a process. Newer
tables also number the records, and a wait has the number of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from nsysconv.importers.probe import Probe, SourceTable
from nsysconv.importers.sqlite_columns import Expression, SourceColumns, has_columns, whole_number

EVENTS = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
"""The table of records of events."""

_STREAM_BITS = 32
_NEEDED = ("correlationId", "streamId", "eventId")
_NO_RECORD = (0, 0xFFFFFFFF)
_PLACE, _RECORD = "place", "record"


@dataclass(frozen=True)
class EventRecords:
    """A table of records of events, and what waits call the number of an event and their process.

    `pid` is None for a file of one process.
    """

    table: SourceTable
    event: str
    pid: str | None = None

    def join(self, c: SourceColumns) -> sa.FromClause:
        """Return a table of waits joined with the record that each is for."""
        waits, records = SourceColumns(c.source, alias="every"), SourceColumns(self.table)
        events = sa.union_all(
            self._keyed(waits, self.event, waits.row_id, sa.null()),
            self._keyed(records, "eventId", sa.null(), _packed(records)),
        ).subquery("events")
        of_number = sa.func.max(events.c.record).over(partition_by=[events.c.pid, events.c.number])
        latest = sa.func.max(events.c.record).over(
            partition_by=[events.c.pid, events.c.event],
            order_by=events.c.correlation,
            rows=(None, 0),
        )
        numbered = sa.case((events.c.number.is_not(None), of_number))
        found = sa.select(
            events.c.place, sa.func.coalesce(numbered, latest).label(_RECORD)
        ).subquery("found")
        return sa.outerjoin(c.table, found, found.c.place == c.row_id)

    @property
    def columns(self) -> dict[str, Expression]:
        """Return the columns of `sync` that say which record a wait is for, of what `join` gives."""
        found = sa.literal_column(f"found.{_RECORD}", sa.BigInteger)
        return {
            "record_correlation_id": found.op(">>")(_STREAM_BITS),
            "record_stream_id": found.op("&")((1 << _STREAM_BITS) - 1),
        }

    def _keyed(
        self, c: SourceColumns, event: str, place: Expression, record: Expression
    ) -> sa.Select[tuple[object, ...]]:
        number = whole_number(c["eventSyncId"])
        return sa.select(
            place.label(_PLACE),
            record.label(_RECORD),
            (sa.literal_column("0") if self.pid is None else c[self.pid]).label("pid"),
            whole_number(c[event]).label("event"),
            sa.case((number.not_in(_NO_RECORD), number)).label("number"),
            whole_number(c["correlationId"]).label("correlation"),
        ).select_from(c.table)


def find_records(probe: Probe, event: str, pid: str | None = None) -> EventRecords | None:
    """Return the records of a file's events; None if it has none."""
    needed = (*_NEEDED, pid) if pid else _NEEDED
    found = has_columns(probe, EVENTS, *needed)
    return EventRecords(probe.tables[EVENTS], event, pid) if found else None


def _packed(c: SourceColumns) -> Expression:
    # The call and the stream of a record as one number, in the order of calls.
    call, stream = whole_number(c["correlationId"]), whole_number(c["streamId"])
    return call.op("<<")(_STREAM_BITS).op("|")(stream)
