"""The library, as functions: import, open, report, compare, export, info, runs, sql; and Slice.

import nsysconv
nsysconv.import_files(["report1.sqlite"], store="job.db")
with nsysconv.open("job.db") as profile:
    profile.report("kernels").to_pandas()
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nsysconv.api.capturing import profile
    from nsysconv.api.diffing import DiffResult, compare
    from nsysconv.api.exporting import Exported, export_profiles
    from nsysconv.api.forgetting import forget
    from nsysconv.api.html_report import page
    from nsysconv.api.importing import ImportResult, import_files
    from nsysconv.api.open_profile import OpenProfile, open  # noqa: A004 - as gzip.open
    from nsysconv.api.profile_file import FileResult
    from nsysconv.api.profile_info import check, info, reports, runs, sql
    from nsysconv.api.reporting import report_on
    from nsysconv.api.run_history import history
    from nsysconv.api.shown_report import ShownReport
    from nsysconv.capture.stage_out import Captured
    from nsysconv.timeline.slices import Percent, Slice

__all__ = [
    "Captured",
    "DiffResult",
    "Exported",
    "FileResult",
    "ImportResult",
    "OpenProfile",
    "Percent",
    "ShownReport",
    "Slice",
    "check",
    "compare",
    "export_profiles",
    "forget",
    "history",
    "import_files",
    "info",
    "open",
    "page",
    "profile",
    "report_on",
    "reports",
    "runs",
    "sql",
]

_MODULES = {
    "nsysconv.api.profile_info": ("check", "info", "reports", "runs", "sql"),
    "nsysconv.api.capturing": ("profile",),
    "nsysconv.api.diffing": ("DiffResult", "compare"),
    "nsysconv.api.exporting": ("Exported", "export_profiles"),
    "nsysconv.api.importing": ("ImportResult", "import_files"),
    "nsysconv.api.forgetting": ("forget",),
    "nsysconv.api.profile_file": ("FileResult",),
    "nsysconv.api.open_profile": ("OpenProfile", "open"),
    "nsysconv.api.html_report": ("page",),
    "nsysconv.api.reporting": ("report_on",),
    "nsysconv.api.run_history": ("history",),
    "nsysconv.api.shown_report": ("ShownReport",),
    "nsysconv.capture.stage_out": ("Captured",),
    "nsysconv.timeline.slices": ("Percent", "Slice"),
}


if not TYPE_CHECKING:  # or else type checkers would accept any name

    def __getattr__(name: str) -> Any:
        # A module is loaded on first use, because an import needs no queries, and `--help` needs no
        # module.
        for module, names in _MODULES.items():
            if name in names:
                return getattr(importlib.import_module(module), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return all public names, those that are not loaded yet, too."""
    return sorted({*globals(), *__all__})
