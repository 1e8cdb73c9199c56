"""The command `nsysconv schema`: what programs have to know of a report."""

from __future__ import annotations

from typing import Annotated

import typer

from nsysconv.cli import flags

EXAMPLES = flags.examples(
    ("nsysconv schema kernels", "types, units and descriptions of the columns"),
    ("nsysconv schema operators:by=stack", "of a report with an option"),
)


def schema(
    report: Annotated[
        str,
        typer.Argument(
            metavar="REPORT",
            help="Report, with its options as REPORT:OPTION[=VALUE].",
            autocompletion=flags.report_names,
        ),
    ],
) -> int:
    """Print the columns of a report as JSON Schema: types, units, and what each means."""
    from nsysconv.cli import commands

    return commands.schema(report)
