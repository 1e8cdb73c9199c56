"""The commands that programs and agents ask: sql, schema, and mcp, which answers them all."""

from pathlib import Path
from typing import Annotated

from nsysconv import api
from nsysconv.cli import flags
from nsysconv.cli.flags import FormatOption, OutputOption, flag
from nsysconv.cli.runtime import say


def sql(
    target: Annotated[str, flag("sql.target")],
    query: Annotated[str, flag("sql.query")],
    format: FormatOption = None,  # noqa: A002 - the flag's name
    output: OutputOption = None,
    limit: Annotated[int, flag("sql.limit")] = 0,
    brief: flags.BriefOption = False,
) -> int:
    """Run a read-only SQL query on a store or a profile file."""
    from nsysconv.cli import lookups

    def rows() -> api.ShownReport:
        return api.sql(target, query, say=say).limited(limit)

    return lookups.show(rows, format, output, target, brief=brief, limit=limit or None)


def schema(
    report: Annotated[str, flag("schema.report", autocompletion=flags.report_names)],
) -> int:
    """Print the columns of a report as JSON Schema: types, units, and what each means."""
    from nsysconv.cli import lookups

    return lookups.schema(report)


def mcp(
    folder: Annotated[Path, flag("mcp.folder")] = Path(),
    seconds: Annotated[int, flag("mcp.seconds")] = 120,
) -> int:
    """Answer agents (over MCP) on the profiles in one folder."""
    from nsysconv.cli import mcp_server

    return mcp_server.serve(folder, seconds)
