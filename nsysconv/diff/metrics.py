"""Metrics as people name them: a column of a report, `kernels[/gemm/].avg_ns` of some of its rows."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence

from nsysconv.errors import UsageError, available_hint
from nsysconv.regex import regular_expression
from nsysconv.report import Column

METRIC = r"(?P<report>[^.:\[]+)(?:\[/(?P<pattern>(?:[^/\\]|\\.)*)/\])?\.(?P<column>[^:]+)"
"""What a metric looks like, with its parts."""
ESCAPES = r"a / inside the expression is written \/."


def metric_parts(
    match: re.Match[str], columns: Mapping[str, Sequence[Column]]
) -> tuple[str, str, re.Pattern[str] | None]:
    """Return the report, the column's name and the rows' pattern of a text that METRIC matches.

    Raises UsageError if `columns` lacks the report, or the expression has a mistake.
    """
    report, name, pattern = match["report"].strip(), match["column"].strip(), match["pattern"]
    if report not in columns:
        raise UsageError(f"no report {report!r}", hint=available_hint(report, list(columns)))
    if pattern is None:
        return report, name, None
    if "\b" in pattern:
        # Between double quotes of TOML it is a backspace, which no name has.
        hint = r"Write \\b for \b between double quotes of TOML, or use single quotes."
        raise UsageError(f"the expression /{pattern}/ holds a backspace", hint=hint)
    with warnings.catch_warnings():
        # Python warns of `[[` and the like, whose meaning is to change: better refused.
        warnings.simplefilter("error", FutureWarning)
        return report, name, regular_expression(pattern, f"/{pattern}/")
