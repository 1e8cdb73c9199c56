"""Exports: whole profiles to another format, one module per format."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, cast

from nsysconv.errors import UsageError

if TYPE_CHECKING:
    from nsysconv.export.contract import Exporter

FORMATS: tuple[str, ...] = ("parquet", "arrow", "chrome", "perfetto")
"""Modules of this folder that are formats. A new one is one more word here."""

OF_REPORTS = "nsys-sqlite"
"""The tables of nsys itself, which only its reports can be written to."""
ALL_FORMATS = (*FORMATS, OF_REPORTS)
"""What a profile can be exported to."""
THERE_ARE = f"There are: {', '.join(ALL_FORMATS)}."
REPORTS_ARE_TABLES = "`nsysconv report TARGET -f csv` writes the table of a report."
"""What somebody may look for who wants another format."""


def exporter(name: str) -> Exporter:
    """Return the module of a format. Raises UsageError with the names of all formats."""
    if name not in FORMATS:
        raise UsageError(f"no export format {name!r}", hint=f"{THERE_ARE} {REPORTS_ARE_TABLES}")
    # The contract test holds that each has what Exporter asks for.
    return cast("Exporter", importlib.import_module(f"{__name__}.{name}"))


def format_for(path: Path) -> str | None:
    """Return the format that a file's suffix says, None if no format has it."""
    for name in FORMATS:
        if path.name.endswith(exporter(name).SUFFIXES):
            return name
    return None
