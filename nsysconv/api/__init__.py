"""What nsysconv does, as functions: import, open, report, compare, info, runs, sql; and Slice.

import nsysconv
nsysconv.import_files(["report1.sqlite"], store="job.db")
with nsysconv.open("job.db") as profile:
    profile.report("kernels").to_pandas()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nsysconv.api.diffing import DiffResult, compare
    from nsysconv.api.importing import FileResult, ImportResult, import_files
    from nsysconv.api.listing import info, reports, runs, sql
    from nsysconv.api.opening import OpenProfile, ShownReport, open  # noqa: A004 - as gzip.open
    from nsysconv.timeline.slices import Slice

__all__ = [
    "DiffResult",
    "FileResult",
    "ImportResult",
    "OpenProfile",
    "ShownReport",
    "Slice",
    "compare",
    "import_files",
    "info",
    "open",
    "reports",
    "runs",
    "sql",
]

_MODULES = {
    "diffing": ("DiffResult", "compare"),
    "importing": ("FileResult", "ImportResult", "import_files"),
    "listing": ("info", "reports", "runs", "sql"),
    "opening": ("OpenProfile", "ShownReport", "Slice", "open"),
}


def __getattr__(name: str) -> Any:
    # Loaded on first use: an import needs no queries, and `--help` nothing at all.
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
