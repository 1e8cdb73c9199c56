"""Flags that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from nsysconv.cli.choices import Format
from nsysconv.cli.grouped import RUN, SHOWN

FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format",
        "-f",
        help="Output format; default: by -o's suffix, else text.",
        rich_help_panel=SHOWN,
    ),
]
OutputOption = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        help="Write to this file (or, ending in /, folder: one file per report) instead of stdout.",
        rich_help_panel=SHOWN,
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Rows per report; 0 for all. Default: 20 in text, 1000 idle "
        "gaps and all of the rest elsewhere.",
        rich_help_panel=SHOWN,
    ),
]
DaskOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS|FILE|local",
        help="Let the workers of a Dask cluster do it: its scheduler's address or scheduler file, or "
        "local for a cluster of this machine alone.",
        rich_help_panel=RUN,
    ),
]
