"""Which rows the schema admits, where SQLite is not asked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import sqlalchemy as sa

from nsysconv.report import MISSING
from nsysconv.store.sqlite.expressions import Test, names_in, truth


def admits(table: sa.Table, columns: Mapping[str, np.ndarray]) -> bool:
    """Whether a table's checks admit all rows: their whole numbers by column, null is MISSING.

    Raises NotPlainError where that is not known here.
    """
    for holds, names in _checks(table):
        refused = np.logical_not(holds(columns))
        if np.any(refused):
            # Of what is null a check says nothing, and then SQL admits the row.
            nulls = [columns[name] == MISSING for name in names]
            if np.any(refused & ~np.logical_or.reduce(nulls)):
                return False
    return True


@cache
def _checks(table: sa.Table) -> list[tuple[Test, list[str]]]:
    """A table's checks, and the columns that each of them reads."""
    texts = [c.sqltext for c in table.constraints if isinstance(c, sa.CheckConstraint)]
    return [(truth(text), names_in([text])) for text in texts]
