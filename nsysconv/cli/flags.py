"""Flags that several commands share, the words that flags choose from, and help in groups of flags."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from inspect import Parameter, signature
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
import typer.core

from nsysconv.export import ALL_FORMATS

ANSWER = "TARGET"
"""The name of the command that is run where none is named."""


WHAT, NAMED, PART = "What", "What it is called", "Which part"
SHOWN, RUN = "How it is shown", "How it runs"
GROUPS = (WHAT, NAMED, PART, SHOWN, RUN)
"""Groups of options, in the order of a command's help; options of no group come last."""

# Each of these declares an option of a group.
what_option = partial(typer.Option, rich_help_panel=WHAT)
named_option = partial(typer.Option, rich_help_panel=NAMED)
part_option = partial(typer.Option, rich_help_panel=PART)
shown_option = partial(typer.Option, rich_help_panel=SHOWN)
run_option = partial(typer.Option, rich_help_panel=RUN)


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


class AnswerCommand(GroupedCommand):
    """The command ANSWER, whose name is not typed."""

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write how it is called."""
        formatter.write_usage("nsysconv", f"{ANSWER} [OPTIONS]")


def group_of(option: Any) -> str:
    """Return the group of an option."""
    return getattr(option, "rich_help_panel", None) or "Options"


def examples(*lines: tuple[str, str]) -> str:
    """Return the end of a help: commands, and what each is for."""
    shown = "\n".join(f"  {command}\n      {what}" for command, what in lines)
    # \b keeps typer from filling the lines.
    return f"\b\nExamples:\n{shown}"


# Flags choose from these words; `Idle.NO_OP` is spelled no_op.
Format = StrEnum("Format", ["TEXT", "CSV", "TSV", "JSON", "MARKDOWN", "HTML", "COLUMN"])
Idle = StrEnum("Idle", ["NO_OP", "NO_KERNEL", "STREAM"])
KernelNames = StrEnum("KernelNames", ["DEMANGLED", "SHORT", "MANGLED"])
RangeNames = StrEnum("RangeNames", ["GROUPED", "EXACT"])
Match = StrEnum("Match", ["EXACT", "SIGNATURE", "NAME"])
CannotTell = StrEnum("CannotTell", ["FAIL", "PASS"])
By = StrEnum("By", ["RANK", "HOST", "DEVICE", "STEP"])
Split = StrEnum("Split", ["DEVICE", "RANK"])


def report_names(incomplete: str) -> list[str]:
    """Return the reports whose names begin so, for a shell to complete."""
    from nsysconv.queries import REPORTS

    return [name for name in REPORTS if name.startswith(incomplete)]


def formats(incomplete: str) -> list[str]:
    """Return the formats of export whose names begin so, for a shell to complete."""
    return [name for name in ALL_FORMATS if name.startswith(incomplete)]


FormatOption = Annotated[
    Format | None,
    shown_option("--format", "-f", help="Output format; default: by -o's suffix, else text."),
]
OutputOption = Annotated[
    str | None,
    shown_option(
        "--output",
        "-o",
        help="Write to this file (or, ending in /, folder: one file per report) instead of stdout.",
    ),
]
WideOption = Annotated[
    bool,
    shown_option(
        "--wide",
        help="In text, whole names and all columns. Else no line is wider than the terminal, or than "
        "$COLUMNS or 120 where there is no terminal.",
    ),
]
CommentOption = Annotated[
    bool,
    shown_option(
        "--brief", help="With -f markdown: a comment of at most 12 lines, its tables folded."
    ),
]
LimitOption = Annotated[
    int | None,
    shown_option(
        help="Rows per report; 0 for all. Default: 20 in text, 1000 idle "
        "gaps and all of the rest elsewhere.",
        min=0,
    ),
]
KernelNamesOption = Annotated[KernelNames, shown_option("--names", help="Which kernel names.")]
RangeNamesOption = Annotated[
    RangeNames,
    shown_option(
        help="Ranges and operators whose names say which of many they are (ProfilerStep#7; aten::to, "
        "op_id = 12): grouped under one name, or each exact, as recorded."
    ),
]
SplitOption = Annotated[
    Split | None,
    shown_option(
        help="A row for each device, or for each rank of a profile of several, in reports that have "
        "their rows over devices otherwise, such as kernels."
    ),
]
IgnoreOption = Annotated[
    list[str] | None,
    what_option(help="Leave this rule of the findings out; may be repeated.", metavar="RULE"),
]
CheckOption = Annotated[
    bool,
    typer.Option(
        "--check", help="Compare a store with the checksums that its imports kept instead."
    ),
]
WorkersOption = Annotated[
    int | None,
    run_option(
        "--jobs",
        help="Look at so many profiles at a time. Default: as many as pay.",
        min=1,
        metavar="N",
    ),
]
DaskOption = Annotated[
    str | None,
    run_option(
        help="Let the workers of a Dask cluster do it: its scheduler's address or scheduler file, or "
        "local for a cluster of this machine alone.",
        metavar="ADDRESS|FILE|local",
    ),
]
StepRangeOption = Annotated[
    str | None,
    part_option(
        help="Ranges of this name are the steps; * stands for anything. Default: ProfilerStep#*.",
        metavar="NAME",
    ),
]


Command = TypeVar("Command", bound=Callable[..., int])


def takes(declared: type) -> Callable[[Command], Command]:
    """Give a command the flags that a class declares as its attributes.

    They are in place of its `**flags`, and of its own parameters of their names.
    """
    hints = get_type_hints(declared, include_extras=True)
    more = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=getattr(declared, name), annotation=hint)
        for name, hint in hints.items()
    ]

    def given(command: Command) -> Command:
        own = signature(command, eval_str=True)
        others = [
            each
            for name, each in own.parameters.items()
            if name not in hints and each.kind is not each.VAR_KEYWORD
        ]
        whole = own.replace(parameters=[*others, *more])
        command.__signature__ = whole  # type: ignore[attr-defined]
        return command

    return given


class SliceFlags:
    """The flags of a slice, and of what steps are called: the arguments of `parse_slice`."""

    time: Annotated[
        str | None,
        part_option(
            help="Look at this time only: ns, us, ms or s since the profile's zero, or % of the profile; "
            "1.5s:2s, 10%:90%, 3s: to the end. A/B is the same.",
            metavar="A:B",
        ),
    ] = None
    range: Annotated[
        str | None,
        part_option(
            "--range",
            help="Look at the time of the first range of this name, in each process; * stands for "
            "anything, #2 is the second one.",
            metavar="NAME[@DOMAIN][#N]",
        ),
    ] = None
    step: Annotated[
        str | None,
        part_option(
            help="Look at the time of this step, or of steps A to B.", metavar="N|A:B|NAME"
        ),
    ] = None
    skip_first: Annotated[
        int,
        part_option(
            help="Look from the end of the first N steps to the end of the last.",
            metavar="N",
            min=0,
        ),
    ] = 0
    projected: Annotated[
        bool,
        part_option(
            "--projected",
            help="With a range or steps: what was launched in it, and when that was on the GPU.",
        ),
    ] = False
    step_range: StepRangeOption = None
    devices: Annotated[
        list[int] | None,
        part_option(
            "--device", help="Only this device; may be repeated, as those below.", metavar="N"
        ),
    ] = None
    streams: Annotated[
        list[int] | None, part_option("--stream", help="Only this stream.", metavar="N")
    ] = None
    ranks: Annotated[
        list[int] | None, part_option("--rank", help="Only this rank.", metavar="N")
    ] = None
    processes: Annotated[
        list[int] | None, part_option("--process", help="Only this process.", metavar="PID")
    ] = None
    threads: Annotated[
        list[int] | None,
        part_option(
            "--thread", help="Only this thread: its calls, and what they launched.", metavar="TID"
        ),
    ] = None
    name: Annotated[
        str | None,
        part_option(
            help="Only what has a name in which this is found: kernels, API calls, ranges, "
            "[memcpy HtoD].",
            metavar="REGEX",
        ),
    ] = None
