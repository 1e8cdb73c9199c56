"""The commands on events: why one started when it did, and find, which names them."""

import re
from typing import Annotated, Any

from nsysconv.cli import flags
from nsysconv.cli.flags import FormatOption, OutputOption
from nsysconv.errors import UsageError

_EVENT = re.compile(r"[a-z_]+:[0-9]+")


class WhyFlags(flags.StepFlags):
    """The flags of `why`: those of a step, what is shown, and the words after the event."""

    kernel_names: flags.KernelNamesOption = flags.KernelNames.DEMANGLED
    brief: flags.BriefOption = False
    join: flags.JoinOption = False
    more: Annotated[list[str] | None, flags.flag("why.more")] = None


@flags.takes(WhyFlags)
def why(
    target: Annotated[str, flags.flag("why.target")],
    event: Annotated[str, flags.flag("why.event")],
    format: FormatOption = None,  # noqa: A002 - the flag's name
    output: OutputOption = None,
    **asked: Any,
) -> int:
    """Explain an event: what it is, what launched it, what it waited for, and what waited for it."""
    from nsysconv.cli import commands, lookups

    names, brief, join, more = (
        asked.pop(name) for name in ("kernel_names", "brief", "join", "more")
    )
    if join:
        # The event may come last, as it does without files.
        words = [event, *(more or ())]
        event = next(filter(_EVENT.fullmatch, words), words[-1])
        words.remove(event)
        target = commands.joined_alone(target, words)
    elif more:
        raise UsageError(f"one event is explained, and {more[0]} is another word")
    return lookups.why(
        target, event, format, output, kernel_names=names.value, steps=asked, brief=brief
    )


class FindFlags(flags.SliceFlags):
    """The flags of `find`: those of a slice, and of what is shown."""

    limit: flags.LimitOption = None
    kernel_names: flags.KernelNamesOption = flags.KernelNames.DEMANGLED
    brief: flags.BriefOption = False


@flags.takes(FindFlags)
def find(
    target: Annotated[str, flags.flag("find.target")],
    pattern: Annotated[str, flags.flag("find.pattern")],
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
    **asked: Any,
) -> int:
    """Find events of any kind by name: how many there are, and the longest, with ids for `why`."""
    from nsysconv.cli import commands, lookups

    limit, brief, names = (asked.pop(name) for name in ("limit", "brief", "kernel_names"))
    options = {**commands.part_keywords(**asked), "kernel_names": names.value}
    return lookups.find(target, pattern, (format, output), limit, brief=brief, options=options)
