"""Reports: a time line in, a typed table out. A module holds one, or a few of one subject."""

from nsysconv.queries.execution import (
    CombinedReport,
    PartialReport,
    compute_report,
    compute_reports,
    missing_facts,
    not_recorded_report,
    partial_report,
    prefetch,
)
from nsysconv.queries.registry import (
    BY_STEP,
    CORE,
    GROUPS,
    IN_TIME,
    OVER_RANKS,
    OWN,
    REPORTS,
    ROWS_FOR_PEOPLE,
    default_limit,
    expanded,
    parse_spec,
    query,
)

__all__ = [
    "BY_STEP",
    "CORE",
    "GROUPS",
    "IN_TIME",
    "OVER_RANKS",
    "OWN",
    "REPORTS",
    "ROWS_FOR_PEOPLE",
    "CombinedReport",
    "PartialReport",
    "compute_report",
    "compute_reports",
    "default_limit",
    "expanded",
    "missing_facts",
    "not_recorded_report",
    "parse_spec",
    "partial_report",
    "prefetch",
    "query",
]
