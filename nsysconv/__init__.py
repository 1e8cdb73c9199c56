"""Import GPU profiles into one SQL schema; the same reports for every source.

import nsysconv
nsysconv.import_files(["report1.sqlite"], store="job.db")
with nsysconv.open("job.db") as profile:
    profile.report("kernels").to_pandas()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from nsysconv.api import (
        Percent,
        Slice,
        compare,
        export_profiles,
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
    "Percent",
    "Slice",
    "compare",
    "export_profiles",
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


def __getattr__(name: str) -> Any:
    # Loaded on first use: `nsysconv --help` needs none of pyarrow, numpy and SQLAlchemy.
    if name in __all__:
        from nsysconv import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
