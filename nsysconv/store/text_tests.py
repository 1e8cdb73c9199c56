"""Conditions on texts that a database can judge before they are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sqlalchemy as sa

TextTest = Callable[[sa.ColumnElement[str]], sa.ColumnElement[bool]]
"""Makes the condition on a column of texts."""

_LONGEST_STEP = 32


def begins(prefix: str) -> TextTest:
    """Return the condition of a beginning; upper and lower case may count as equal."""
    return lambda text: text.startswith(prefix, autoescape=True)


def may_be_step(prefixes: Sequence[str]) -> TextTest:
    """Return the condition that names of steps fit: one of the beginnings, or a digit at the end.

    The latter are short and have no comma, as names with arguments have.
    """

    def fits(text: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
        # What is cheap to judge comes first: there may be millions of texts.
        length = sa.func.length(text)
        numbered = sa.func.substr(text, length).between("0", "9") & text.not_like("%,%")
        letters = sorted({prefix[0] for prefix in prefixes})
        known = sa.or_(*(text.startswith(prefix, autoescape=True) for prefix in prefixes))
        return sa.or_(
            (length <= _LONGEST_STEP) & numbered, sa.func.substr(text, 1, 1).in_(letters) & known
        )

    return fits
