"""Sets of host or managed memory by functions that make the host wait for them (docs/rules.md)."""

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
    Column("memset_id", Unit.ID, "The set, `memset.id`.", key=True),
    Column("start_ns", Unit.NS, "When the set began."),
    Column("dur_ns", Unit.NS, "How long it took; null: not recorded.", better="less"),
    Column("bytes", Unit.BYTES, "Bytes set."),
    Column("memory_kind", Unit.TEXT, "Kind of memory."),
    rule.CONTEXT,
    rule.GREEN_CONTEXT,
    rule.STREAM,
    rule.NAME,
    rule.CALL_ID,
    rule.CALL_DUR,
)

_WAITED_FOR = [codes.MEMORY_KINDS.index(k) for k in ("Pinned", "Managed", "Managed Static")]


def compute(timeline: Timeline, request: Request) -> Result:
    """One row per set, longest first."""
    sets = rule.launched(timeline, OpKind.MEMSET, rule.sets_synchronously)
    waited_for = np.isin(sets.column("memory_kind"), _WAITED_FOR)
    notes = rule.unjudged("cuda_memset_sync", sets, ("memory_kind",), waited_for)
    found = sets.take(waited_for)
    return Result(found.data(COLUMNS, request.limit), len(found), tuple(notes))


CUDA_MEMSET_SYNC = Query(
    title="Synchronous sets of pinned or managed memory, longest first",
    needs={Fact.MEMSETS, Fact.API_CALLS, Fact.API_LINKS},
    uses={Fact.DEVICES},
    columns=COLUMNS,
    compute=compute,
)
