"""Short reports that imports keep of profiles, by the program that computed them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from nsysconv import schema
from nsysconv.store.connection import Connection
from nsysconv.store.read import Store

_KEPT = schema.kept_report


def kept(store: Store, program: str, names: Collection[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the reports of these names that a program has kept: profile, name, rows as JSON."""
    if store.has_table(_KEPT.name):
        of_program = (_KEPT.c.program == program) & _KEPT.c.report.in_(names)
        for row in store.rows(sa.select(_KEPT).where(of_program)):
            yield row["profile_id"], row["report"], row["rows_json"]


@dataclass(frozen=True)
class Lacking:
    """What lacks reports: profiles of at most so many events of which a program has kept none.

    None lack any where the store has fewer runs than `fewest_runs`; then `program` is not called.
    """

    program: Callable[[], str]
    most_events: int
    fewest_runs: int = 0

    def profiles(self, connection: Connection) -> list[int]:
        """Return the ids of these profiles."""
        runs = sa.select(sa.func.count()).select_from(schema.run)
        if connection.number(runs) < self.fewest_runs:
            return []
        own, extent = schema.profile.c.id, schema.extent.c
        has_any = sa.select(_KEPT.c.profile_id).where(_KEPT.c.program == self.program())
        large = sa.select(extent.profile_id).group_by(extent.profile_id)
        large = large.having(sa.func.sum(extent.row_count) > self.most_events)
        asked = sa.select(own).where(own.not_in(has_any), own.not_in(large)).order_by(own)
        return [row["id"] for row in connection.rows(asked)]

    def add(self, connection: Connection, profile_id: int, reports: Mapping[str, str]) -> None:
        """Write the reports of a profile in place of those that there are."""
        own = {"profile_id": profile_id, "program": self.program()}
        connection.execute(sa.delete(_KEPT).where(_KEPT.c.profile_id == profile_id))
        for name, text in reports.items():
            connection.insert(_KEPT, report=name, rows_json=text, **own)
