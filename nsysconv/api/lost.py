"""Ranks that left no report: what their records say of them, and who left no record either."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nsysconv.record import Record
from nsysconv.store.runs import in_rows, spans

_SHOWN = 20


@dataclass(frozen=True)
class Lost:
    """A record of `nsysconv profile` whose report is not there."""

    path: Path
    record: Record

    def __str__(self) -> str:
        rank = self.record.rank
        why = "; ".join(self.record.problems) or f"see {self.path}"
        return f"{'a process' if rank is None else f'rank {rank}'} left no report: {why}"


def lines(lost: Sequence[Lost], *, alone: bool) -> Iterator[str]:
    """A line on each, of many the first. `alone`: nobody else is there; who is missing is said, too."""
    yield from map(str, lost[:_SHOWN])
    if len(lost) > _SHOWN:
        yield f"and {len(lost) - _SHOWN:,} more lost ranks"
    if alone:
        yield from _missing([each.record for each in lost])


def _missing(records: Sequence[Record]) -> Iterator[str]:
    """Per job the ranks that left nothing at all, as far as the records tell how many there were."""
    for job in dict.fromkeys(record.job for record in records):
        told = [record for record in records if record.job == job]
        size = max((record.world_size or 0 for record in told), default=0)
        left = {record.rank for record in told}
        if missing := [rank for rank in range(size) if rank not in left]:
            of = f"of the {size:,} ranks" + (f" of {job}" if job else "")
            yield f"{of} these left neither report nor record: {spans(in_rows(missing))}"
