"""The commands `nsysconv runs`, `nsysconv history` and `nsysconv forget`: the runs of a store."""

from functools import partial
from typing import Annotated, Any

from nsysconv import api
from nsysconv.cli import flags
from nsysconv.cli.flags import BriefOption, FormatOption, OutputOption, StepFlags, flag, takes
from nsysconv.cli.runtime import say

StoreArgument = Annotated[str, flag("shared.store")]


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

    older_than: Annotated[str | None, flag("forget.older_than")] = None
    keep: Annotated[int | None, flag("forget.keep")] = None
    never: Annotated[list[str] | None, flag("forget.never")] = None
    dry_run: Annotated[bool, flag("forget.dry_run")] = False


@takes(ForgetFlags)
def forget(
    store: StoreArgument,
    which: Annotated[list[str] | None, flag("forget.which")] = None,
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

    last: Annotated[int | None, flag("history.last")] = None
    limit: flags.LimitOption = None
    wide: flags.WideOption = False
    brief: BriefOption = False


@takes(HistoryFlags)
def history(
    store: Annotated[str, flag("history.store")],
    metrics: Annotated[list[str] | None, flag("history.metrics")] = None,
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
    **asked: Any,
) -> int:
    """Show metrics of all runs of a store, and when they changed."""
    from nsysconv.cli import lookups

    shown = {name: asked.pop(name) for name in ("limit", "wide", "brief")}
    make = partial(api.history, store, metrics or None, say=say, **asked)
    return lookups.history(make, store, format, output, **shown)
