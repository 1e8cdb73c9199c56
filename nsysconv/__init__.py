"""Import GPU profiles into one SQL schema; the same reports for every source.

import nsysconv
nsysconv.import_files(["report1.sqlite"], store="job.db")
with nsysconv.open("job.db") as profile:
    profile.report("kernels").to_pandas()
"""

from __future__ import annotations

# Type checkers know the name by itself; typing is not loaded before __main__ handles signals.
TYPE_CHECKING = False

__version__ = "0.1.0"

if TYPE_CHECKING:
    from typing import Any

    from nsysconv import errors
    from nsysconv.api import (
        Captured,
        DiffResult,
        Exported,
        FileResult,
        ImportResult,
        OpenProfile,
        Percent,
        ShownReport,
        Slice,
        check,
        compare,
        export_profiles,
        forget,
        history,
        import_files,
        info,
        open,  # noqa: A004 - as gzip.open
        page,
        profile,
        report_on,
        reports,
        runs,
        sql,
    )

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
    "errors",
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


if not TYPE_CHECKING:  # or else type checkers would accept any name

    def __getattr__(name: str) -> Any:
        # A module is loaded on first use, because `nsysconv --help` needs neither pyarrow, numpy nor
        # SQLAlchemy.
        if name == "errors":
            import importlib

            return importlib.import_module("nsysconv.errors")
        if name in __all__:
            from nsysconv import api

            return getattr(api, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, those that are not loaded yet, too, and what every module has."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
