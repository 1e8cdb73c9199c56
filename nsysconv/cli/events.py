"""The commands on events: why one started when it did, and find, which names them."""

from typing import Annotated, Any

from nsysconv.cli import flags
from nsysconv.cli.flags import FormatOption, OutputOption


@flags.takes(flags.StepFlags)
def why(
    target: Annotated[str, flags.flag("why.target")],
    event: Annotated[str, flags.flag("why.event")],
    format: FormatOption = None,  # noqa: A002 - the flag's name
    output: OutputOption = None,
    kernel_names: flags.KernelNamesOption = flags.KernelNames.DEMANGLED,
    brief: flags.BriefOption = False,
    **steps: Any,
) -> int:
    """Explain an event: what it is, what launched it, what it waited for, and what waited for it."""
    from nsysconv.cli import lookups

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
