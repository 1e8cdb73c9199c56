"""Selects over whole numbers, worked out by numpy as SQLite would.

A source's rows are told as selects (`recording.SourceRows`). Where values come from pages rather than
from SQLite, the same select says what becomes of them; there is no second wording of it. What is not
known here SQLite has to work out: NotPlainError.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.sql import elements, operators, visitors

from nsysconv.report import MISSING
from nsysconv.store.sqlite.pages import NotPlainError

Array = np.ndarray
Columns = Mapping[str, Array]
Value = Array | int
"""Numbers of all rows, or one for each; null is MISSING."""
Truth = Array | bool
"""Of all rows whether something holds."""

# Sums and differences of smaller numbers are whole numbers; of larger ones SQLite may make reals.
_SAFE = 1 << 62

_ARITHMETIC: Mapping[Any, Callable[[Any, Any], Any]] = {
    operators.add: operator.add,
    operators.sub: operator.sub,
}
_BITS: Mapping[Any, Callable[[Any, Any], Any]] = {">>": operator.rshift, "&": operator.and_}
_COMPARISONS: Mapping[Any, Callable[[Any, Any], Any]] = {
    operators.eq: operator.eq,
    operators.ne: operator.ne,
}
_ALL_OR_ANY: Mapping[Any, Callable[[Any, Any], Any]] = {
    operators.and_: np.logical_and,
    operators.or_: np.logical_or,
}


def names_in(expressions: Iterable[sa.ClauseElement]) -> list[str]:
    """The columns that these read, each once."""
    parts = (part for expression in expressions for part in visitors.iterate(expression))
    names = (p.name for p in parts if isinstance(p, elements.ColumnClause) and not p.is_literal)
    return list(dict.fromkeys(names))


def value(expression: Any, columns: Columns) -> Value:
    """What an expression comes to in each row. Raises NotPlainError where that is not known here."""
    match expression:
        case elements.Label() | elements.Grouping():
            return value(expression.element, columns)
        case elements.Null():
            return MISSING
        case elements.BindParameter(value=int(number)):
            return number
        case elements.ColumnClause(is_literal=True):
            return _spelled(expression.name)
        case elements.ColumnClause():
            return columns[expression.name]
        case elements.Case():
            return _case(expression, columns)
        case sa.Function(name="coalesce"):
            first, *others = (value(part, columns) for part in expression.clauses)
            return reduce(lambda a, b: _chosen(_is_null(a), b, a), others, first)
        case sa.Function(name="nullif"):
            kept, other = (value(part, columns) for part in expression.clauses)
            return _chosen(_compared(operator.eq, kept, other), MISSING, kept)
        case elements.BinaryExpression():
            left, right = value(expression.left, columns), value(expression.right, columns)
            return _calculated(expression.operator, left, right)
        case elements.ExpressionClauseList():
            parts = [value(part, columns) for part in expression.clauses]
            return reduce(partial(_calculated, expression.operator), parts)
    raise NotPlainError


def truth(expression: Any, columns: Columns) -> Truth:
    """Where a condition holds; a comparison with null holds nowhere. Raises as `value` does."""
    match expression:
        case elements.Grouping():
            return truth(expression.element, columns)
        case elements.ExpressionClauseList() if expression.operator in _ALL_OR_ANY:
            parts = [truth(part, columns) for part in expression.clauses]
            return reduce(_ALL_OR_ANY[expression.operator], parts)
        case elements.BinaryExpression():
            return _condition(expression, columns)
    raise NotPlainError


def _condition(expression: elements.BinaryExpression[Any], columns: Columns) -> Truth:
    tested, sign = value(expression.left, columns), expression.operator
    if sign in _COMPARISONS:
        return _compared(_COMPARISONS[sign], tested, value(expression.right, columns))
    match expression.right:
        case elements.ExpressionClauseList(clauses=[low, high]) if sign is operators.between_op:
            least, most = value(low, columns), value(high, columns)
            above = _compared(operator.ge, tested, least)
            return np.logical_and(above, _compared(operator.le, tested, most))
        case elements.BindParameter(value=[*listed]) if sign is operators.in_op:
            return _is_one_of(tested, listed)
        case elements.BindParameter(value=[*listed]) if sign is operators.not_in_op:
            others = np.logical_not(_is_one_of(tested, listed))
            return np.logical_and(others, np.logical_not(_is_null(tested)))
        case elements.Null() if sign is operators.is_:
            return _is_null(tested)
        case elements.Null() if sign is operators.is_not:
            return np.logical_not(_is_null(tested))
    raise NotPlainError


def _case(expression: elements.Case[Any], columns: Columns) -> Value:
    otherwise = expression.else_
    result = MISSING if otherwise is None else value(otherwise, columns)
    for condition, then in reversed(expression.whens):
        if expression.value is None:
            holds = truth(condition, columns)
        else:
            sides = value(expression.value, columns), value(condition, columns)
            holds = _compared(operator.eq, *sides)
        result = _chosen(holds, value(then, columns), result)
    return result


def _calculated(sign: Any, left: Value, right: Value) -> Value:
    if isinstance(sign, operators.custom_op):
        work = _BITS.get(sign.opstring)
    else:
        work = _ARITHMETIC.get(sign)
        if not (_is_safe(left) and _is_safe(right)):
            raise NotPlainError
    if work is None:
        raise NotPlainError
    # Of narrower columns, because what comes out may need more.
    result: Array = work(np.asarray(left, np.int64), np.asarray(right, np.int64))
    null = np.logical_or(_is_null(left), _is_null(right))
    return _chosen(null, MISSING, result) if np.any(null) else result


def _chosen(holds: Truth, then: Value, otherwise: Value) -> Array:
    # numpy would take a narrower column's type for both, and cut null to it.
    return np.where(holds, np.asarray(then, np.int64), np.asarray(otherwise, np.int64))


def _spelled(number: str) -> int:
    try:
        return int(number)
    except ValueError as error:
        raise NotPlainError from error


def _is_null(tested: Value) -> Truth:
    # What is narrower has no room for it.
    if isinstance(tested, np.ndarray) and tested.dtype != np.int64:
        return False
    return tested == MISSING


def _is_safe(tested: Value) -> bool:
    known = np.asarray(tested)
    if known.size and int(known.min()) == MISSING:
        known = known[known != MISSING]
    return known.size == 0 or (int(known.min()) >= -_SAFE and int(known.max()) <= _SAFE)


def _compared(work: Callable[[Any, Any], Any], left: Value, right: Value) -> Truth:
    null = np.logical_or(_is_null(left), _is_null(right))
    result: Truth = np.logical_and(work(left, right), np.logical_not(null))
    return result


def _is_one_of(tested: Value, listed: Sequence[Any]) -> Truth:
    if not listed or not all(type(number) is int for number in listed):
        raise NotPlainError
    found: Truth = False
    for number in listed:
        found = np.logical_or(found, _compared(operator.eq, tested, number))
    return found
