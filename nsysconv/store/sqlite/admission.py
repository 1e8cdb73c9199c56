"""Which rows the schema admits, where SQLite is not asked."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import sqlalchemy as sa

from nsysconv.report import MISSING
from nsysconv.store.sqlite.expressions import names_in, truth


def admits(table: sa.Table, columns: Mapping[str, np.ndarray]) -> bool:
    """Whether a table's checks admit all rows: their whole numbers by column, null is MISSING.

    Raises NotPlainError where that is not known here.
    """
    for constraint in table.constraints:
        if not isinstance(constraint, sa.CheckConstraint):
            continue
        refused = np.logical_not(truth(constraint.sqltext, columns))
        if np.any(refused):
            # Of what is null a check says nothing, and then SQL admits the row.
            nulls = [columns[name] == MISSING for name in names_in([constraint.sqltext])]
            if np.any(refused & ~np.logical_or.reduce(nulls)):
                return False
    return True
