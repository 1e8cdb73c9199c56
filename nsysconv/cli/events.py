"""The commands on events: why one started when it did, and find, which names them."""

from typing import Annotated, Any

from nsysconv.cli import flags
from nsysconv.cli.flags import FormatOption, OutputOption
from nsysconv.errors import UsageError


@flags.takes(flags.StepFlags)
def why(
    target: Annotated[str, flags.flag("why.target")],
    event: Annotated[str, flags.flag("why.event")],
    format: FormatOption = None,  # noqa: A002 - the flag's name
    output: OutputOption = None,
    kernel_names: flags.KernelNamesOption = flags.KernelNames.DEMANGLED,
    brief: flags.BriefOption = False,
    join: flags.JoinOption = False,
    more: Annotated[list[str] | None, flags.flag("why.more")] = None,
    **steps: Any,
) -> int:
    """Explain an event: what it is, what launched it, what it waited for, and what waited for it."""
    from nsysconv.cli import commands, lookups

    if join:
        words = [event, *(more or ())]
        target, event = commands.joined_alone(target, words[:-1]), words[-1]
    elif more:
        raise UsageError(f"one event is explained, and {more[0]} is another word")
    names = kernel_names.value
    return lookups.why(target, event, format, output, kernel_names=names, steps=steps, brief=brief)


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
