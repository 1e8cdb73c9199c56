"""The commands on events: why one started when it did, and find, which names them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from nsysconv.cli import flags
from nsysconv.cli.flags import FormatOption, OutputOption

EXAMPLES = flags.examples(
    (
        "nsysconv why report1.sqlite kernel:5",
        "a kernel: its call, the gap before it, what waited for it",
    ),
    (
        "nsysconv why job.db@rank=3 gap:3",
        "a gap on the GPU of one rank: its parts, and which call came late",
    ),
    ("nsysconv find report1.sqlite gemm", "list the ids of events by name"),
)

FIND_EXAMPLES = flags.examples(
    ("nsysconv find report1.sqlite gemm", "kernels, calls, ranges, operators: ids for `why`"),
    ("nsysconv find job.db@rank=3 '^cudaMalloc' --step 5", "on one rank, in one step"),
    ("nsysconv find report1.sqlite 'memcpy HtoD' -f json --brief", "copies, for programs"),
)


@flags.takes(flags.StepFlags)
def why(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="Profile file, or store (of several profiles: STORE@LABEL, STORE@rank=N).",
        ),
    ],
    event: Annotated[
        str,
        typer.Argument(
            metavar="KIND:NUMBER",
            help="Event id: kernel:5, memcpy:2, memset:1, migration:1, graph_launch:3, api_call:77, "
            "range:4, operator:9 or gap:3, as printed by findings, idle_gaps and timeline_events.",
        ),
    ],
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
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="Profile file, or store (of several profiles: STORE@LABEL, STORE@rank=N).",
        ),
    ],
    pattern: Annotated[
        str,
        typer.Argument(
            metavar="REGEX",
            help="Regular expression for names: kernels, API calls, ranges, operators, [memcpy HtoD].",
        ),
    ],
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
    **asked: Any,
) -> int:
    """Find events of any kind by name: how many there are, and the longest, with ids for `why`."""
    from nsysconv.cli import commands, lookups

    limit, brief, names = (asked.pop(name) for name in ("limit", "brief", "kernel_names"))
    options = {**commands.part_keywords(**asked), "kernel_names": names.value}
    return lookups.find(target, pattern, (format, output), limit, brief=brief, options=options)
