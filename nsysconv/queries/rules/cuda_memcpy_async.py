"""Asynchronous copies from or to pageable memory, which are not asynchronous (docs/rules.md)."""

from __future__ import annotations

import numpy as np

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.queries.columns import DEVICE, PROFILE, RANK
from nsysconv.queries.contract import Query, Request, Result
from nsysconv.queries.rules import launched as rule
from nsysconv.report import Column
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
    Column("src_kind", Unit.TEXT, "Kind of memory read; null: not recorded."),
    Column("dst_kind", Unit.TEXT, "Kind of memory written; null: not recorded."),
    rule.CONTEXT,
    rule.GREEN_CONTEXT,
    rule.STREAM,
    rule.NAME,
    rule.CALL_ID,
    rule.CALL_DUR,
)

_PAGEABLE = codes.MEMORY_KINDS.index("Pageable")
_KINDS = ("src_kind", "dst_kind")


def compute(timeline: Timeline, request: Request) -> Result:
    """One row per copy, longest first."""
    copies = rule.launched(timeline, OpKind.MEMCPY, rule.copies_asynchronously)
    pageable = np.zeros(len(copies), bool)
    for kind in _KINDS:
        pageable |= copies.column(kind) == _PAGEABLE
    notes = rule.unjudged("cuda_memcpy_async", copies, _KINDS, pageable)
    found = copies.take(pageable)
    return Result(found.data(COLUMNS, request.limit), len(found), tuple(notes))


CUDA_MEMCPY_ASYNC = Query(
    title="Asynchronous copies of pageable memory, longest first",
    needs={Fact.MEMCPYS, Fact.API_CALLS, Fact.API_LINKS},
    uses={Fact.DEVICES},
    columns=COLUMNS,
    compute=compute,
)
