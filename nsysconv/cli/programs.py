"""The commands that programs and agents ask: sql, schema, and mcp, which answers them all."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nsysconv import api
from nsysconv.cli import flags
from nsysconv.cli.flags import FormatOption, OutputOption, shown_option
from nsysconv.cli.runtime import say

SQL_EXAMPLES = flags.examples(
    (
        "nsysconv sql job.db 'select name, sum(dur_ns) from v_gpu_op group by name'",
        "GPU time by name",
    ),
    ("nsysconv sql job.db 'select * from v_gpu_op' --limit 5", "the first rows of a view"),
    ("nsysconv sql report1.sqlite 'select * from device' -f csv", "a profile file, as CSV"),
)

SCHEMA_EXAMPLES = flags.examples(
    ("nsysconv schema kernels", "types, units and descriptions of the columns"),
    ("nsysconv schema operators:by=stack", "the same for a report with an option"),
)

MCP_EXAMPLES = flags.examples(
    ("nsysconv mcp", "for a client that starts it in the folder of the profiles"),
    ("nsysconv mcp results/", "the profiles in this folder, and nothing else"),
)


def sql(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="Store, or profile file, which is imported for this query only. For several queries, "
            "import it once.",
        ),
    ],
    query: Annotated[
        str,
        typer.Argument(
            metavar="QUERY", help="SELECT statement; docs/schema.md describes the tables and views."
        ),
    ],
    format: FormatOption = None,  # noqa: A002 - the flag's name
    output: OutputOption = None,
    limit: Annotated[
        int,
        shown_option(min=0, help="Rows to show. Default: 0, all.", metavar="N", show_default=False),
    ] = 0,
    brief: flags.BriefOption = False,
) -> int:
    """Run a read-only SQL query on a store or a profile file."""
    from nsysconv.cli import lookups

    def rows() -> api.ShownReport:
        return api.sql(target, query, say=say).limited(limit)

    return lookups.show(rows, format, output, target, brief=brief, limit=limit or None)


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
    from nsysconv.cli import lookups

    return lookups.schema(report)


def mcp(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="[FOLDER]",
            help="The folder whose files may be read. Default: the current one.",
            show_default=False,
        ),
    ] = Path(),
    seconds: Annotated[
        int,
        flags.run_option(
            "--timeout",
            min=1,
            help="Time limit for one answer. Default: 120.",
            metavar="SECONDS",
            show_default=False,
        ),
    ] = 120,
) -> int:
    """Answer agents (over MCP) on the profiles in one folder."""
    from nsysconv.cli import mcp_server

    return mcp_server.serve(folder, seconds)
