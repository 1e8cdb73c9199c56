"""The commands `nsysconv forget` and `nsysconv history`: many runs of one store."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from nsysconv import api
from nsysconv.cli.flags import FormatOption, OutputOption, examples, what_option

FORGET_EXAMPLES = examples(
    ("nsysconv forget runs.db --keep 200 --dry-run", "what all but the newest 200 runs are"),
    ("nsysconv forget runs.db --older-than 90d", "runs of the last 90 days stay"),
    ("nsysconv forget runs.db branch=fix-7 nightly-3", "runs by tag, label or number"),
)


def forget(
    store: Annotated[
        str,
        typer.Argument(
            metavar="STORE", help="Store: a file or a database (postgresql://HOST/NAME)."
        ),
    ],
    which: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN|LABEL|ID|KEY=VALUE]...",
            help="Runs or profiles to remove, also last:N. Default: all that --older-than and --keep "
            "leave.",
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        what_option(
            help="Remove runs recorded longer ago: 12h, 90d, 4w.", metavar="AGE", show_default=False
        ),
    ] = None,
    keep: Annotated[
        int | None,
        what_option(help="Keep the newest N of these runs.", metavar="N", min=0),
    ] = None,
    never: Annotated[
        list[str] | None,
        what_option(
            help="Keep what has this label, as what has the label baseline. May be repeated.",
            metavar="LABEL",
        ),
    ] = None,
    dry_run: Annotated[
        bool, what_option("--dry-run", help="Show what would be removed, and remove nothing.")
    ] = False,
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
) -> int:
    """Remove runs or profiles from a store, and give the space back."""
    from nsysconv.api.forgetting import KEPT
    from nsysconv.cli import commands

    asked = partial(
        api.forget,
        store,
        which or (),
        older_than=older_than,
        keep=keep,
        never=(*KEPT, *(never or ())),
        dry_run=dry_run,
    )
    return commands.show(asked, format, output, store)
