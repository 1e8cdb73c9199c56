"""Flags that several commands share, the words that flags choose from, and help in groups of flags."""

from __future__ import annotations

import re
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


WHAT, NAMED, PART = "Content", "Names", "Selection"
SHOWN, RUN = "Output", "Execution"
GROUPS = (WHAT, NAMED, PART, SHOWN, RUN)
"""Groups of options, in the order of a command's help; options of no group come last."""

# Each of these declares an option of a group.
what_option = partial(typer.Option, rich_help_panel=WHAT)
named_option = partial(typer.Option, rich_help_panel=NAMED)
part_option = partial(typer.Option, rich_help_panel=PART)
shown_option = partial(typer.Option, rich_help_panel=SHOWN)
run_option = partial(typer.Option, rich_help_panel=RUN)


class GroupedCommand(typer.core.TyperCommand):
    """A command whose help has arguments and examples first, then its options in groups.

    An option's `rich_help_panel` is its group; the epilog holds the examples. Placeholders are
    in capitals, words to type as they are in small letters.
    """

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write how it is called, without typer's braces around arguments."""
        pieces = " ".join(self.collect_usage_pieces(ctx))
        formatter.write_usage(ctx.command_path, pieces.replace("{", "").replace("}", ""))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the examples, then the options group by group."""
        arguments: list[tuple[str, str]] = []
        groups: dict[str, list[tuple[str, str]]] = {group: [] for group in (*GROUPS, "Options")}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            flags, text = record
            if not param.default:
                flags = flags.partition(" / ")[0]
            is_option = param.param_type_name == "option"
            group = groups[group_of(param)] if is_option else arguments
            group.append((flags, _REMARK.sub("", text)))
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        write_examples(self, formatter)
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write nothing: the examples are above the options."""


# What typer adds to a help text, and what the text itself says or is plain.
_REMARK = re.compile(r"  \[(?:required|x>=\d+|default: no-\w+)\]$")


class AnswerCommand(GroupedCommand):
    """The command ANSWER, whose name is not typed."""

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write how it is called."""
        formatter.write_usage("nsysconv", f"{ANSWER} [OPTIONS]")


class CommandGroup(typer.core.TyperGroup):
    """The commands, whose help has examples before its options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, the examples, then the options."""
        self.format_commands(ctx, formatter)
        write_examples(self, formatter)
        records = [record for p in self.get_params(ctx) if (record := p.get_help_record(ctx))]
        with formatter.section("Options"):
            formatter.write_dl(records)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write nothing: the examples are above the options."""


def group_of(option: Any) -> str:
    """Return the group of an option."""
    return getattr(option, "rich_help_panel", None) or "Options"


def examples(*lines: tuple[str, str]) -> str:
    """Return the examples of a help: commands, and what each is for."""
    shown = "\n".join(f"  {command}\n      {what}" for command, what in lines)
    return f"{_EXAMPLES}{shown}"


def write_examples(command: Any, formatter: Any) -> None:
    """Write the examples that the command has as its epilog."""
    if command.epilog:
        with formatter.section("Examples"):
            formatter.write(command.epilog.removeprefix(_EXAMPLES) + "\n")


# \b keeps typer from filling the lines.
_EXAMPLES = "\b\nExamples:\n"


# Flags choose from these words; `Idle.NO_OP` is written no_op.
Format = StrEnum("Format", ["TEXT", "CSV", "TSV", "JSON", "MARKDOWN", "HTML", "COLUMN"])
Idle = StrEnum("Idle", ["NO_OP", "NO_KERNEL", "STREAM"])
KernelNames = StrEnum("KernelNames", ["DEMANGLED", "SHORT", "MANGLED"])
RangeNames = StrEnum("RangeNames", ["GROUPED", "EXACT"])
Match = StrEnum("Match", ["EXACT", "SIGNATURE", "NAME"])
Inconclusive = StrEnum("Inconclusive", ["FAIL", "PASS"])
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
    shown_option(
        "--format",
        "-f",
        help="text, csv, tsv, json, markdown, html or column. Default: by -o's suffix, else text.",
        metavar="FORMAT",
    ),
]
OutputOption = Annotated[
    str | None,
    shown_option(
        "--output",
        "-o",
        help="Write to this file, or to this folder (ending in /) with one file per report.",
        metavar="PATH",
    ),
]
WideOption = Annotated[
    bool,
    shown_option(
        "--wide",
        help="In text, full names and all columns. Default: no line is wider than the terminal, or "
        "than $COLUMNS or 120 without a terminal.",
    ),
]
BriefOption = Annotated[
    bool,
    shown_option(
        "--brief", help="With -f json: leading columns, first rows, at most 4 kB without --limit."
    ),
]
CommentOption = Annotated[
    bool,
    shown_option(
        "--brief",
        help="With -f markdown: a comment of at most 12 lines with collapsed tables; with -f json: at "
        "most 4 kB without --limit.",
    ),
]
LimitOption = Annotated[
    int | None,
    shown_option(
        help="Rows per report; 0 for all. Default: 20 in text; elsewhere all, but 1000 idle gaps.",
        min=0,
        metavar="N",
    ),
]
KernelNamesOption = Annotated[
    KernelNames,
    shown_option(
        "--names",
        help="Form of kernel names. Default: demangled.",
        metavar="demangled|short|mangled",
        show_default=False,
    ),
]
RangeNamesOption = Annotated[
    RangeNames,
    shown_option(
        help="Group ranges and operators with numbered names (ProfilerStep#7; aten::to, op_id = 12) "
        "under one name, or show exact names, as recorded. Default: grouped.",
        metavar="grouped|exact",
        show_default=False,
    ),
]
SplitOption = Annotated[
    Split | None,
    shown_option(
        help="One row per device, or per rank if a profile has several, in reports that combine "
        "devices by default, such as kernels.",
        metavar="device|rank",
    ),
]
ByOption = Annotated[
    By | None,
    shown_option(
        help="Multi-rank layout: one block per rank, or min/median/max per host or device. Default: "
        "per rank for up to 8 profiles, else min/median/max over all ranks. step: "
        "gpu_utilization:by=step, one row per step and device.",
        metavar="rank|host|device|step",
    ),
]
IncludeOption = Annotated[
    list[str] | None,
    what_option(
        help="Also read rows that are skipped by default, such as python_functions. May be repeated.",
        metavar="WORD",
    ),
]
IgnoreOption = Annotated[
    list[str] | None,
    what_option(help="Skip this check, such as start_up. May be repeated.", metavar="CHECK"),
]
CheckOption = Annotated[
    bool,
    shown_option("--check", help="Verify a store against the checksums of its imports."),
]
WorkersOption = Annotated[
    int | None,
    run_option(
        "--jobs",
        help="Profiles to process in parallel. Default: automatic.",
        min=1,
        metavar="N",
    ),
]
DaskOption = Annotated[
    str | None,
    run_option(
        help="Run on a Dask cluster: its scheduler's address or scheduler file, or local for a "
        "cluster on this machine.",
        metavar="ADDRESS|FILE|local",
    ),
]
StepRangeOption = Annotated[
    str | None,
    part_option(
        help="Ranges to treat as steps; * is a wildcard. Default: those of a framework "
        "(ProfilerStep#7), or named by a word and a rising number (step 7).",
        metavar="NAME",
    ),
]
StepKernelOption = Annotated[
    str | None,
    part_option(
        help="A step ends where a kernel ends whose name matches this regular expression.",
        metavar="REGEX",
    ),
]
StepGraphOption = Annotated[
    bool, part_option("--step-graph", help="A step ends where the replay of a graph ends.")
]


GrammarOption = Annotated[
    str | None,
    part_option(
        "--grammar",
        help="File of rules (TOML) on annotations that say which phase a step is.",
        metavar="FILE",
    ),
]


class StepFlags:
    """The flags that say what a step is."""

    step_range: StepRangeOption = None
    step_kernel: StepKernelOption = None
    step_graph: StepGraphOption = False


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
            help="Select a time: ns, us, ms or s since the start of the profile, or % of it; 1.5s:2s, "
            "10%:90%, 3s: to the end. A/B means the same.",
            metavar="A:B",
        ),
    ] = None
    range: Annotated[
        str | None,
        part_option(
            "--range",
            help="Select the time of the first range with this name in each process; #2 is the second "
            "one, #* all of them; * in a name is a wildcard.",
            metavar="NAME[@DOMAIN][#N|#*]",
        ),
    ] = None
    step: Annotated[
        str | None,
        part_option(
            help="Select the time of this step, of steps A to B, or of those with this name; '*': all.",
            metavar="N|A:B|NAME",
        ),
    ] = None
    skip_first: Annotated[
        int,
        part_option(
            help="Skip the first N steps (warm-up) and the time after the last step.",
            metavar="N",
            min=0,
            show_default=False,
        ),
    ] = 0
    phase: Annotated[
        str | None,
        part_option(
            help="Select the steps of a phase, such as prefill or decode; the report phases lists them.",
            metavar="NAME",
        ),
    ] = None
    steady: Annotated[
        bool,
        part_option(
            "--steady", help="Select the longest run of steps of one phase, without warm-up."
        ),
    ] = False
    projected: Annotated[
        bool,
        part_option(
            "--projected",
            help="Select the GPU work launched inside the range or step, whenever it ran.",
        ),
    ] = False
    step_range: StepRangeOption = None
    step_kernel: StepKernelOption = None
    step_graph: StepGraphOption = False
    grammar: GrammarOption = None
    devices: Annotated[
        list[int] | None,
        part_option(
            "--device", help="Only this device. May be repeated, like the next four.", metavar="N"
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
            "--thread",
            help="Only this thread: its calls and the work they launched.",
            metavar="TID",
        ),
    ] = None
    name: Annotated[
        str | None,
        part_option(
            help="Only events whose name matches this regular expression: kernels, API calls, "
            "ranges, [memcpy HtoD].",
            metavar="REGEX",
        ),
    ] = None
