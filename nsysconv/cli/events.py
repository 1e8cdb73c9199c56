"""The command on one event, and its flags."""

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
    ("nsysconv report report1.sqlite timeline_events", "list the ids of all events"),
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
    **steps: Any,
) -> int:
    """Explain an event: what it is, what launched it, what it waited for, and what waited for it."""
    from nsysconv.cli import commands

    return commands.why(target, event, format, output, kernel_names=kernel_names.value, steps=steps)
