"""Flags that several commands share, the words that flags choose from, and help in groups of flags."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer
import typer.core

from nsysconv.export import FORMATS

WHAT, NAMED, PART = "What", "What it is called", "Which part"
SHOWN, RUN = "How it is shown", "How it runs"
GROUPS = (WHAT, NAMED, PART, SHOWN, RUN)
"""What options are about, in the order of a command's help; options of no group come last."""


class GroupedCommand(typer.core.TyperCommand):
    """A command of many options: an option's `rich_help_panel` is its group in the help."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options group by group."""
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        groups |= {group: [] for group in (*GROUPS, "Options")}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                is_option = param.param_type_name == "option"
                groups[group_of(param) if is_option else "Arguments"].append(record)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def group_of(option: Any) -> str:
    """Return the group of an option."""
    return getattr(option, "rich_help_panel", None) or "Options"


def examples(*lines: tuple[str, str]) -> str:
    """Return the end of a help: commands, and what each is for."""
    shown = "\n".join(f"  {command}\n      {what}" for command, what in lines)
    # \b keeps typer from filling the lines.
    return f"\b\nExamples:\n{shown}"


class Format(StrEnum):
    """Output formats."""

    TEXT = "text"
    CSV = "csv"
    TSV = "tsv"
    JSON = "json"
    MARKDOWN = "markdown"
    HTML = "html"
    COLUMN = "column"


class Idle(StrEnum):
    """Kinds of idle time."""

    NO_OP = "no_op"
    NO_KERNEL = "no_kernel"
    STREAM = "stream"


class Names(StrEnum):
    """Spellings of kernel names."""

    DEMANGLED = "demangled"
    SHORT = "short"
    MANGLED = "mangled"


class Match(StrEnum):
    """Ways to match kernels' names."""

    EXACT = "exact"
    SIGNATURE = "signature"
    NAME = "name"


class CannotTell(StrEnum):
    """What a limit that cannot be decided makes of the exit status."""

    FAIL = "fail"
    PASS = "pass"


class By(StrEnum):
    """What rows may be grouped by."""

    RANK = "rank"
    HOST = "host"
    DEVICE = "device"
    STEP = "step"


def report_names(incomplete: str) -> list[str]:
    """Return the reports whose names begin so, for a shell to complete."""
    from nsysconv.queries import REPORTS

    return [name for name in REPORTS if name.startswith(incomplete)]


def formats(incomplete: str) -> list[str]:
    """Return the formats of export whose names begin so, for a shell to complete."""
    return [name for name in FORMATS if name.startswith(incomplete)]


FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format",
        "-f",
        help="Output format; default: by -o's suffix, else text.",
        rich_help_panel=SHOWN,
    ),
]
OutputOption = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        help="Write to this file (or, ending in /, folder: one file per report) instead of stdout.",
        rich_help_panel=SHOWN,
    ),
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Rows per report; 0 for all. Default: 20 in text, 1000 idle "
        "gaps and all of the rest elsewhere.",
        rich_help_panel=SHOWN,
    ),
]
DaskOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS|FILE|local",
        help="Let the workers of a Dask cluster do it: its scheduler's address or scheduler file, or "
        "local for a cluster of this machine alone.",
        rich_help_panel=RUN,
    ),
]


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
