"""The commands `nsysconv runs`, `nsysconv history` and `nsysconv forget`: the runs of a store."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from nsysconv import api
from nsysconv.cli import flags
from nsysconv.cli.flags import (
    BriefOption,
    FormatOption,
    OutputOption,
    StepFlags,
    examples,
    takes,
    what_option,
)
from nsysconv.cli.runtime import say

StoreArgument = Annotated[
    str,
    typer.Argument(metavar="STORE", help="Store: a file or a database (postgresql://HOST/NAME)."),
]

RUNS_EXAMPLES = examples(
    ("nsysconv runs runs.db", "the names for STORE@RUN, STORE@LABEL and STORE@ID"),
    ("nsysconv runs runs.db -f json", "the same as JSON"),
    ("nsysconv runs runs.db -o runs.csv", "the same as a CSV file"),
)

FORGET_EXAMPLES = examples(
    (
        "nsysconv forget runs.db --keep 200 --dry-run",
        "list all runs but the newest 200, and remove nothing",
    ),
    ("nsysconv forget runs.db --older-than 90d", "keep the runs of the last 90 days"),
    ("nsysconv forget runs.db branch=fix-7 nightly-3", "runs by tag, label or number"),
)

HISTORY_EXAMPLES = examples(
    ("nsysconv history runs.db", "steps, kernels and window: their level, and since when"),
    ("nsysconv history runs.db 'kernels[/gemm/].avg_ns' --last 100", "kernels, the newest runs"),
    ("nsysconv history runs.db@branch=main -f json", "runs with a tag, as JSON"),
)


def runs(
    store: StoreArgument,
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
    brief: BriefOption = False,
) -> int:
    """List the runs and profiles in a store."""
    from nsysconv.cli import lookups

    return lookups.show(partial(api.runs, store), format, output, None, brief=brief)


class ForgetFlags:
    """The flags of `forget`: the keywords of the function, but for what they are by default."""

    older_than: Annotated[
        str | None,
        what_option(
            help="Remove runs recorded longer ago: 12h, 90d, 4w.", metavar="AGE", show_default=False
        ),
    ] = None
    keep: Annotated[
        int | None,
        what_option(help="Keep the newest N of these runs.", metavar="N", min=0),
    ] = None
    never: Annotated[
        list[str] | None,
        what_option(
            help="Keep profiles with this label, besides those labeled baseline. May be repeated.",
            metavar="LABEL",
        ),
    ] = None
    dry_run: Annotated[
        bool, what_option("--dry-run", help="Show what would be removed, and remove nothing.")
    ] = False


@takes(ForgetFlags)
def forget(
    store: StoreArgument,
    which: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN|LABEL|ID|KEY=VALUE]...",
            help="Runs or profiles to remove, also last:N. Default: all runs, if --older-than or --keep "
            "is given.",
        ),
    ] = None,
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
    **chosen: Any,
) -> int:
    """Remove runs or profiles from a store, and give the space back."""
    from nsysconv.api.forgetting import KEPT
    from nsysconv.cli import lookups

    chosen["never"] = (*KEPT, *(chosen["never"] or ()))
    return lookups.show(partial(api.forget, store, which or (), **chosen), format, output, store)


class HistoryFlags(StepFlags):
    """The flags of `history`: which runs it takes, what a step is, and what is shown."""

    last: Annotated[
        int | None, what_option(help="Take the newest N runs only.", metavar="N", min=1)
    ] = None
    limit: flags.LimitOption = None
    wide: flags.WideOption = False
    brief: BriefOption = False


@takes(HistoryFlags)
def history(
    store: Annotated[
        str,
        typer.Argument(
            metavar="STORE",
            help="Store, or some of its runs: STORE@KEY=VALUE, STORE@last:N.",
        ),
    ],
    metrics: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[REPORT.COLUMN]...",
            help="Columns of reports, of all rows or of those whose name matches: "
            "'kernels[/gemm/].avg_ns'. Default: step period, kernels and window.",
        ),
    ] = None,
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
    **asked: Any,
) -> int:
    """Show metrics of all runs of a store, and when they changed."""
    from nsysconv.cli import lookups

    shown = {name: asked.pop(name) for name in ("limit", "wide", "brief")}
    make = partial(api.history, store, metrics or None, say=say, **asked)
    return lookups.history(make, store, format, output, **shown)
