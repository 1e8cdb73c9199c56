"""Selects over whole numbers, worked out by numpy as SQLite would.

A source's rows are stated as selects (`recording.SourceRows`). Where values come from pages rather than
from SQLite, the same select says what becomes of them; there is no second wording of it. What is not
known here SQLite has to work out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Any, TypeVar

import numpy as np
import sqlalchemy as sa
from sqlalchemy.sql import elements, operators, visitors

from nsysconv.report import MISSING
from nsysconv.store.sqlite.page_reader.pages import repeated

Array = np.ndarray
Columns = Mapping[str, Array]
Value = Array | int
"""Numbers of all rows, or one for each; null is MISSING."""
Truth = Array | bool
"""Whether something holds, for all rows."""
Work = Callable[[Columns], Value]
Test = Callable[[Columns], Truth]
Evaluate = Callable[[Array, Columns], list[Array] | None]
"""Columns out of rows' ids and the columns that they are made of; None: SQLite has to."""
_Result = TypeVar("_Result")

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


class UnsupportedError(Exception):
    """An expression, or a value, that is not worked out here."""


def evaluator(columns: Sequence[Any], where: Any) -> Evaluate | None:
    """Return a function that computes a select's columns in the rows where `where` holds, or None.

    None where SQLite has to compute them. None among `columns` means the row's id.
    """
    try:
        work = [None if column is None else value(column) for column in columns]
        condition = None if where is None else truth(where)
    except UnsupportedError:
        return None

    def evaluate(ids: Array, columns_by_name: Columns) -> list[Array] | None:
        try:
            results = [
                ids if compute is None else _of_length(compute(columns_by_name), len(ids))
                for compute in work
            ]
            rows = True if condition is None else condition(columns_by_name)
        except UnsupportedError:
            return None
        if not np.all(rows):
            results = [values[np.broadcast_to(rows, ids.shape)] for values in results]
        return results

    return evaluate


def columns_read(expressions: Iterable[sa.ClauseElement]) -> list[str]:
    """Return the names of the columns that expressions read, each once."""
    parts = (part for expression in expressions for part in visitors.iterate(expression))
    names = (p.name for p in parts if isinstance(p, elements.ColumnClause) and not p.is_literal)
    return list(dict.fromkeys(names))


def value(expression: Any) -> Work:
    """Return a function that computes an expression; both may raise UnsupportedError."""
    match expression:
        case elements.Label() | elements.Grouping():
            return value(expression.element)
        case elements.Null():
            return _always(MISSING)
        case elements.BindParameter(value=int(number)):
            return _always(number)
        case elements.ColumnClause(is_literal=True):
            return _always(_spelled(expression.name))
        case elements.ColumnClause():
            name = expression.name
            return lambda columns: _single(columns[name])
        case elements.Case():
            return _case(expression)
        case sa.Function(name="coalesce"):
            return _reduced(lambda a, b: _chosen(_is_null(a), b, a), map(value, expression.clauses))
        case sa.Function(name="nullif"):
            equal = partial(_compared, operator.eq)
            return _reduced(
                lambda a, b: _chosen(equal(a, b), MISSING, a), map(value, expression.clauses)
            )
        case elements.BinaryExpression():
            work = partial(_calculated, _calculation(expression.operator))
            return _reduced(work, map(value, (expression.left, expression.right)))
        case elements.ExpressionClauseList():
            work = partial(_calculated, _calculation(expression.operator))
            return _reduced(work, map(value, expression.clauses))
    raise UnsupportedError


def truth(expression: Any) -> Test:
    """Return a function that computes where a condition holds, with null nowhere, as `value`."""
    match expression:
        case elements.Grouping():
            return truth(expression.element)
        case elements.ExpressionClauseList() if expression.operator in _ALL_OR_ANY:
            return _reduced(_ALL_OR_ANY[expression.operator], map(truth, expression.clauses))
        case elements.BinaryExpression():
            return _condition(expression)
    raise UnsupportedError


def _condition(expression: elements.BinaryExpression[Any]) -> Test:
    tested, sign = value(expression.left), expression.operator
    if sign in _COMPARISONS:
        return _reduced(partial(_compared, _COMPARISONS[sign]), (tested, value(expression.right)))
    match expression.right:
        case elements.ExpressionClauseList(clauses=[low, high]) if sign is operators.between_op:
            above = _reduced(partial(_compared, operator.ge), (tested, value(low)))
            below = _reduced(partial(_compared, operator.le), (tested, value(high)))
            return _reduced(np.logical_and, (above, below))
        case elements.BindParameter(value=[*listed]) if sign is operators.in_op:
            return lambda columns: _is_one_of(tested(columns), listed)
        case elements.BindParameter(value=[*listed]) if sign is operators.not_in_op:
            return lambda columns: _is_none_of(tested(columns), listed)
        case elements.Null() if sign is operators.is_:
            return lambda columns: _is_null(tested(columns))
        case elements.Null() if sign is operators.is_not:
            return lambda columns: np.logical_not(_is_null(tested(columns)))
    raise UnsupportedError


def _case(expression: elements.Case[Any]) -> Work:
    otherwise = _always(MISSING) if expression.else_ is None else value(expression.else_)
    equal = partial(_compared, operator.eq)
    whens: list[tuple[Test, Work]] = []
    for condition, then in reversed(expression.whens):
        if expression.value is None:
            holds = truth(condition)
        else:
            holds = _reduced(equal, (value(expression.value), value(condition)))
        whens.append((holds, value(then)))

    def work(columns: Columns) -> Value:
        result = otherwise(columns)
        for holds, then in whens:
            result = _chosen(holds(columns), then(columns), result)
        return result

    return work


def _always(number: int) -> Work:
    return lambda columns: number


def _reduced(
    work: Callable[[Any, Any], _Result], parts: Iterable[Callable[[Columns], Any]]
) -> Callable[[Columns], _Result]:
    first, *others = parts
    if len(others) == 1:
        (second,) = others
        return lambda columns: work(first(columns), second(columns))
    return lambda columns: reduce(work, (part(columns) for part in others), first(columns))


def _calculation(sign: Any) -> Callable[[Any, Any], Any]:
    calculation = (
        _BITS.get(sign.opstring) if isinstance(sign, operators.custom_op) else _ARITHMETIC.get(sign)
    )
    if calculation is None:
        raise UnsupportedError
    return calculation


def _calculated(work: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    if work in _ARITHMETIC.values() and not (_is_safe(left) and _is_safe(right)):
        raise UnsupportedError
    # The operands are widened to int64, because the result may not fit a narrower column's type.
    result: Array = work(np.asarray(left, np.int64), np.asarray(right, np.int64))
    null = np.logical_or(_is_null(left), _is_null(right))
    return _chosen(null, MISSING, result) if np.any(null) else result


def _chosen(holds: Truth, then: Value, otherwise: Value) -> Value:
    if not isinstance(holds, np.ndarray):
        return then if holds else otherwise
    # numpy would take a narrower column's type for both, and cut null to it.
    return np.where(holds, np.asarray(then, np.int64), np.asarray(otherwise, np.int64))


def _of_length(result: Value, count: int) -> Array:
    return result if isinstance(result, np.ndarray) else repeated(int(result), count)


def _single(values: Array) -> Value:
    return int(values[0]) if len(values) and values.strides == (0,) else values


def _spelled(number: str) -> int:
    try:
        return int(number)
    except ValueError as error:
        raise UnsupportedError from error


def _is_null(tested: Value) -> Truth:
    # What is narrower has no room for it.
    if isinstance(tested, np.ndarray) and tested.dtype != np.int64:
        return False
    return tested == MISSING


def _is_safe(tested: Value) -> bool:
    values = np.asarray(tested)
    if values.size and int(values.min()) == MISSING:
        values = values[values != MISSING]
    return values.size == 0 or (int(values.min()) >= -_SAFE and int(values.max()) <= _SAFE)


def _compared(work: Callable[[Any, Any], Any], left: Value, right: Value) -> Truth:
    null = np.logical_or(_is_null(left), _is_null(right))
    result: Truth = np.logical_and(work(left, right), np.logical_not(null))
    return result


def _is_none_of(tested: Value, listed: Sequence[Any]) -> Truth:
    return np.logical_not(np.logical_or(_is_one_of(tested, listed), _is_null(tested)))


def _is_one_of(tested: Value, listed: Sequence[Any]) -> Truth:
    if not listed or not all(type(number) is int for number in listed):
        raise UnsupportedError
    result: Truth = False
    for number in listed:
        result = np.logical_or(result, _compared(operator.eq, tested, number))
    return result
