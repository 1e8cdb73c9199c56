"""The flags that say what of a profile to look at: the same wherever reports are made."""

from __future__ import annotations

from typing import Annotated

import typer

from nsysconv.cli.grouped import PART

TimeOption = Annotated[
    str | None,
    typer.Option(
        metavar="A:B",
        help="Look at this time only: ns, us, ms or s since the profile's zero, or % of the profile; "
        "1.5s:2s, 10%:90%, 3s: to the end. A/B is the same.",
        rich_help_panel=PART,
    ),
]
RangeOption = Annotated[
    str | None,
    typer.Option(
        "--range",
        metavar="NAME[@DOMAIN][#N]",
        help="Look at the time of the first range of this name, in each process; * stands for "
        "anything, #2 is the second one.",
        rich_help_panel=PART,
    ),
]
StepOption = Annotated[
    str | None,
    typer.Option(
        "--step",
        metavar="N|A:B|NAME",
        help="Look at the time of this step, or of steps A to B.",
        rich_help_panel=PART,
    ),
]
SkipFirstOption = Annotated[
    int,
    typer.Option(
        "--skip-first",
        metavar="N",
        min=0,
        help="Look from the end of the first N steps to the end of the last.",
        rich_help_panel=PART,
    ),
]
ProjectedOption = Annotated[
    bool,
    typer.Option(
        "--projected",
        help="With a range or steps: what was launched in it, and when that was on the GPU.",
        rich_help_panel=PART,
    ),
]
DeviceOption = Annotated[
    list[int] | None,
    typer.Option(
        metavar="N", help="Only this device; may be repeated, as those below.", rich_help_panel=PART
    ),
]
StreamOption = Annotated[
    list[int] | None, typer.Option(metavar="N", help="Only this stream.", rich_help_panel=PART)
]
RankOption = Annotated[
    list[int] | None, typer.Option(metavar="N", help="Only this rank.", rich_help_panel=PART)
]
ProcessOption = Annotated[
    list[int] | None, typer.Option(metavar="PID", help="Only this process.", rich_help_panel=PART)
]
ThreadOption = Annotated[
    list[int] | None,
    typer.Option(
        metavar="TID",
        help="Only this thread: its calls, and what they launched.",
        rich_help_panel=PART,
    ),
]
NameOption = Annotated[
    str | None,
    typer.Option(
        metavar="REGEX",
        help="Only what has a name in which this is found: kernels, API calls, ranges, [memcpy HtoD].",
        rich_help_panel=PART,
    ),
]
StepRangeOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Ranges of this name are the steps; * stands for anything. Default: ProfilerStep#*.",
        rich_help_panel=PART,
    ),
]
