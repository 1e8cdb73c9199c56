"""Conditions on texts that a database can judge before they are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sqlalchemy as sa

TextTest = Callable[[sa.ColumnElement[str]], sa.ColumnElement[bool]]
"""Makes the condition on a column of texts."""

_LONGEST_STEP = 60


def begins(prefix: str) -> TextTest:
    """Return the condition of a beginning; upper and lower case may count as equal."""
    return lambda text: text.startswith(prefix, autoescape=True)


def may_be_step(prefixes: Sequence[str]) -> TextTest:
    """Return the condition that names of steps fit: one of the beginnings, or a digit at the end.

    The latter are short ones without a comma, which none of a million names with arguments are.
    """

    def fits(text: sa.ColumnElement[str]) -> sa.ColumnElement[bool]:
        ends = sa.or_(*(text.like(f"%{digit}") for digit in range(10)))
        short = sa.func.length(text) <= _LONGEST_STEP
        known = (text.startswith(prefix, autoescape=True) for prefix in prefixes)
        return sa.or_(*known, short & text.not_like("%,%") & ends)

    return fits
