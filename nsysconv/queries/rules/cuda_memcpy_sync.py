"""Copies by functions that make the host wait for them (docs/rules.md)."""

from __future__ import annotations

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.queries.columns import DEVICE, PROFILE, RANK
from nsysconv.queries.contract import Option, Query, Request, Result
from nsysconv.queries.rules import launched as rule
from nsysconv.report import MISSING, Column
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.timeline import Timeline
from nsysconv.units import Unit

COLUMNS = (
    PROFILE,
    RANK,
    rule.PID,
    DEVICE,
    Column("memcpy_id", Unit.ID, "The copy, `memcpy.id`.", key=True),
    Column("start_ns", Unit.NS, "When the copy began."),
    Column("dur_ns", Unit.NS, "How long it took; null: not recorded.", better="less"),
    Column("bytes", Unit.BYTES, "Bytes copied."),
    Column("direction", Unit.TEXT, "From where to where.", brief=False),
    Column("src_kind", Unit.TEXT, "Kind of memory read; null: not recorded."),
    Column("dst_kind", Unit.TEXT, "Kind of memory written; null: not recorded."),
    rule.CONTEXT,
    rule.GREEN_CONTEXT,
    rule.STREAM,
    rule.NAME,
    rule.CALL_ID,
    rule.CALL_DUR,
)

_TO_DEVICE = codes.DIRECTIONS.index("HtoD")


def compute(timeline: Timeline, request: Request) -> Result:
    """One row per copy, longest first."""
    copies = rule.launched(timeline, OpKind.MEMCPY, rule.copies_synchronously)
    size = copies.column("bytes")
    small = (size != MISSING) & (size < request.options["min_bytes"])
    found = copies.take(~(small & (copies.column("direction") == _TO_DEVICE)))
    return Result(found.data(COLUMNS, request.limit), len(found))


CUDA_MEMCPY_SYNC = Query(
    title="Synchronous copies, longest first",
    needs={Fact.MEMCPYS, Fact.API_CALLS, Fact.API_LINKS},
    uses={Fact.DEVICES},
    options=(
        Option(
            "min_bytes",
            65_537,
            "Copies from host to device of fewer bytes are not listed: for 64 KiB or less the host "
            "does not wait.",
        ),
    ),
    columns=COLUMNS,
    compute=compute,
)
