"""Flags that several commands share, the words that flags choose from, and help in groups of flags."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import cache
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer
import typer.core

from nsysconv.export import ALL_FORMATS

ANSWER = "TARGET"
"""The name of the command that is run where none is named."""


GROUPS = ("Content", "Names", "Selection", "Output", "Execution")
"""Groups of options, in the order of a command's help; options of no group come last."""


@cache
def words() -> Mapping[str, Mapping[str, Any]]:
    """Return what commands.toml has for each command, and `elsewhere`."""
    return tomllib.loads(Path(__file__).with_name("commands.toml").read_text(encoding="utf-8"))


def flag(name: str, **code: Any) -> Any:
    """Declare the flag or argument COMMAND.NAME of commands.toml; `code` is what only code can say."""
    command, _, own = name.partition(".")
    declared = {**words()[command][own], **code}
    if declared.pop("argument", False):
        return typer.Argument(**declared)
    names, group = declared.pop("flags", ()), declared.pop("group", None)
    return typer.Option(*names, rich_help_panel=group, **declared)


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


def examples(command: str) -> str:
    """Return the examples of a command's help: what to type, and what each is for."""
    lines = words()[command]["examples"]
    shown = "\n".join(f"  {typed}\n      {what}" for typed, what in lines)
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
By = StrEnum("By", ["RANK", "HOST", "DEVICE", "JOB", "STEP"])
Split = StrEnum("Split", ["DEVICE", "RANK"])


def report_names(incomplete: str) -> list[str]:
    """Return the reports whose names begin so, for a shell to complete."""
    from nsysconv.queries import REPORTS

    return [name for name in REPORTS if name.startswith(incomplete)]


def formats(incomplete: str) -> list[str]:
    """Return the formats of export whose names begin so, for a shell to complete."""
    return [name for name in ALL_FORMATS if name.startswith(incomplete)]


FormatOption = Annotated[Format | None, flag("shared.format")]
OutputOption = Annotated[str | None, flag("shared.output")]
WideOption = Annotated[bool, flag("shared.wide")]
BriefOption = Annotated[bool, flag("shared.brief")]
CommentOption = Annotated[bool, flag("shared.comment")]
LimitOption = Annotated[int | None, flag("shared.limit")]
KernelNamesOption = Annotated[KernelNames, flag("shared.kernel_names")]
RangeNamesOption = Annotated[RangeNames, flag("shared.range_names")]
SplitOption = Annotated[Split | None, flag("shared.split")]
ByOption = Annotated[By | None, flag("shared.by")]
IncludeOption = Annotated[list[str] | None, flag("shared.include")]
IgnoreOption = Annotated[list[str] | None, flag("shared.ignore")]
JoinOption = Annotated[bool, flag("shared.join")]
CheckOption = Annotated[bool, flag("shared.check")]
WorkersOption = Annotated[int | None, flag("shared.workers")]
DaskOption = Annotated[str | None, flag("shared.dask")]
StepRangeOption = Annotated[str | None, flag("shared.step_range")]
StepKernelOption = Annotated[str | None, flag("shared.step_kernel")]
StepGraphOption = Annotated[bool, flag("shared.step_graph")]


GrammarOption = Annotated[str | None, flag("shared.grammar")]


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

    time: Annotated[str | None, flag("slice.time")] = None
    range: Annotated[str | None, flag("slice.range")] = None
    step: Annotated[str | None, flag("slice.step")] = None
    skip_first: Annotated[int, flag("slice.skip_first")] = 0
    phase: Annotated[str | None, flag("slice.phase")] = None
    steady: Annotated[bool, flag("slice.steady")] = False
    projected: Annotated[bool, flag("slice.projected")] = False
    step_range: StepRangeOption = None
    step_kernel: StepKernelOption = None
    step_graph: StepGraphOption = False
    grammar: GrammarOption = None
    devices: Annotated[list[int] | None, flag("slice.devices")] = None
    streams: Annotated[list[int] | None, flag("slice.streams")] = None
    ranks: Annotated[list[int] | None, flag("slice.ranks")] = None
    processes: Annotated[list[int] | None, flag("slice.processes")] = None
    threads: Annotated[list[int] | None, flag("slice.threads")] = None
    name: Annotated[str | None, flag("slice.name")] = None
