"""The commands and their flags."""

import os
import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from nsysconv import api
from nsysconv.cli import flags
from nsysconv.cli.captures import ProfileCommand, profile
from nsysconv.cli.events import find, why
from nsysconv.cli.flags import (
    ANSWER,
    AnswerCommand,
    CommandGroup,
    FormatOption,
    GroupedCommand,
    OutputOption,
    SliceFlags,
    examples,
    flag,
    takes,
)
from nsysconv.cli.programs import mcp, schema, sql
from nsysconv.cli.runtime import check_addresses, say
from nsysconv.cli.stores import forget, history, runs
from nsysconv.errors import UsageError
from nsysconv.export import ALL_FORMATS


class AnswersWithoutCommand(CommandGroup):
    """The commands; a first word that names none, but a target, is answered by the command ANSWER."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of the first word, and its arguments."""
        word = args[0]
        if word == "-":
            raise UsageError("standard input is not read", hint="Save it to a file first.")
        if (word not in self.commands or word == ANSWER) and _is_target(word):
            return ANSWER, self.commands[ANSWER], args
        if (meant := flags.words()["elsewhere"].get(word)) and word not in self.commands:
            target = next((each for each in args[1:] if _is_target(each)), "TARGET")
            hint = f"Try: nsysconv {meant.format(target=shlex.quote(target))}"
            raise UsageError(f"no command {word!r}", hint=hint)
        return super().resolve_command(ctx, args)


def _is_target(word: str) -> bool:
    # The word may name a profile: it exists, or has a sign that no command's name has.
    return any(sign in word for sign in ("@", ".", ":", os.sep)) or os.path.lexists(word)


app = typer.Typer(
    name="nsysconv",
    cls=AnswersWithoutCommand,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Import GPU profiles into one SQL schema; the same reports for every source.",
    epilog=examples("nsysconv"),
)


def _version(wanted: bool) -> None:
    if wanted:
        from nsysconv.cli.version import version_lines

        for line in version_lines():
            typer.echo(line)
        raise typer.Exit


@app.callback()
def _main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show versions.")
    ] = False,
) -> None:
    """Import GPU profiles into one SQL schema; the same reports for every source."""
    # The program that `profile` starts is to run in any case.
    if context.invoked_subcommand != "profile":
        check_addresses()


@app.command(
    ANSWER,
    cls=AnswerCommand,
    short_help="Show where the time went, the bottlenecks, and what to change.",
    epilog=examples("answer"),
)
@takes(SliceFlags)
def answer(
    target: Annotated[str, flag("answer.target")],
    more: Annotated[list[str] | None, flag("answer.more")] = None,
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
    brief: Annotated[bool, flag("answer.brief")] = False,
    open_: Annotated[bool, flag("answer.open")] = False,
    join: flags.JoinOption = False,
    ignore: flags.IgnoreOption = None,
    workers: flags.WorkersOption = None,
    dask: flags.DaskOption = None,
    **part: Any,
) -> int:
    """Show where the time went, the bottlenecks, and what to change."""
    from nsysconv.api.options import ReportOptions
    from nsysconv.cli import commands

    if join:
        target = commands.joined_alone(target, more)
    elif more:
        target = commands.answered_target(target, more)
    options = ReportOptions(
        ignore=ignore or (), workers=workers, dask=dask, **commands.part_keywords(**part)
    )
    if open_:
        return commands.open_page(target, options, format, output)
    return commands.answer(target, options, format, output, brief=brief)


@app.command(
    "import",
    cls=GroupedCommand,
    epilog=examples("import"),
)
def import_(
    inputs: Annotated[list[str], flag("import.inputs")],
    output: Annotated[str | None, flag("import.output")] = None,
    include: flags.IncludeOption = None,
    join: Annotated[bool, flag("import.join")] = False,
    label: Annotated[str | None, flag("import.label")] = None,
    tag: Annotated[list[str] | None, flag("import.tag")] = None,
    run: Annotated[str | None, flag("import.run")] = None,
    rank_from: Annotated[str | None, flag("import.rank_from")] = None,
    replace: Annotated[bool, flag("import.replace")] = False,
    strict: Annotated[bool, flag("import.strict")] = False,
    workers: Annotated[int | None, flag("import.workers")] = None,
    dask: flags.DaskOption = None,
) -> int:
    """Import profiles into a store; show what came in and what did not."""
    from nsysconv.api.profile_file import ImportOptions
    from nsysconv.cli import imports

    options = ImportOptions(
        include=frozenset(include or ()),
        join=join,
        label=label,
        tags=imports.parse_tags(tag or ()),
        run=run,
        rank_from=rank_from,
        replace=replace,
        strict=strict,
        workers=workers,
        dask=dask,
    )
    return imports.import_(inputs, output, options)


@app.command(
    cls=GroupedCommand,
    epilog=examples("report"),
)
@takes(SliceFlags)
def report(
    target: Annotated[str | None, flag("report.target")] = None,
    reports: Annotated[
        list[str] | None, flag("report.reports", autocompletion=flags.report_names)
    ] = None,
    format: FormatOption = None,  # noqa: A002 - the flag's name
    output: OutputOption = None,
    limit: flags.LimitOption = None,
    idle: Annotated[list[flags.Idle] | None, flag("report.idle")] = None,
    kernel_names: flags.KernelNamesOption = flags.KernelNames.DEMANGLED,
    range_names: flags.RangeNamesOption = flags.RangeNames.GROUPED,
    split: flags.SplitOption = None,
    by: flags.ByOption = None,
    include: flags.IncludeOption = None,
    ignore: flags.IgnoreOption = None,
    wide: flags.WideOption = False,
    strict: Annotated[bool, flag("report.strict")] = False,
    list_: Annotated[bool, flag("report.list")] = False,
    join: flags.JoinOption = False,
    workers: flags.WorkersOption = None,
    dask: flags.DaskOption = None,
    brief: flags.BriefOption = False,
    **part: Any,
) -> int:
    """Print reports on a profile, or on all ranks of a run."""
    from nsysconv.api.options import ReportOptions
    from nsysconv.cli import commands

    if join and target is not None:
        target, reports = commands.joined_target(target, reports)
    if list_:
        listed = partial(api.reports, target, reports or None, say=say)
        from nsysconv.cli import lookups

        return lookups.show(listed, format, output, target, narrow=True)
    options = ReportOptions(
        names=reports or None,
        by=by.value if by else None,
        limit=limit,
        idle=tuple(kind.value for kind in idle or (flags.Idle.NO_OP,)),
        kernel_names=kernel_names.value,
        range_names=range_names.value,
        split=split.value if split else None,
        include=include or (),
        ignore=ignore or (),
        workers=workers,
        dask=dask,
        **commands.part_keywords(**part),
    )
    return commands.report(target, options, format, output, wide=wide, strict=strict, brief=brief)


app.command(
    "why",
    cls=GroupedCommand,
    short_help="Show why an event started when it did, and what waited for it.",
    epilog=examples("why"),
)(why)


@app.command(
    cls=GroupedCommand,
    short_help="Show what a profile contains, and which reports it supports.",
    epilog=examples("info"),
)
def info(
    target: Annotated[str, flag("info.target")],
    limit: Annotated[int | None, flag("info.limit")] = None,
    check: flags.CheckOption = False,
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
    brief: flags.BriefOption = False,
) -> int:
    """Show what a profile or a run contains, what is missing, and how to record it."""
    from nsysconv.cli import lookups

    return lookups.info(target, format, output, limit, check=check, brief=brief)


# These commands stand in modules of their own, all but their names.
app.command(
    cls=GroupedCommand,
    short_help="Find events by name, the longest first.",
    epilog=examples("find"),
)(find)
app.command(
    cls=GroupedCommand,
    short_help="Print the columns of a report as JSON Schema.",
    epilog=examples("schema"),
)(schema)
app.command(cls=GroupedCommand, epilog=examples("runs"))(runs)
app.command(cls=GroupedCommand, epilog=examples("history"))(history)
app.command(cls=GroupedCommand, epilog=examples("forget"))(forget)
app.command(cls=GroupedCommand, epilog=examples("sql"))(sql)
app.command(cls=GroupedCommand, epilog=examples("mcp"))(mcp)


@app.command(
    cls=GroupedCommand,
    epilog=examples("export"),
)
@takes(SliceFlags)
def export(
    target: Annotated[str, flag("export.target")],
    to: Annotated[
        str | None,
        flag(
            "export.to",
            help=f"{', '.join(ALL_FORMATS)}. Default: by -o's suffix.",
            autocompletion=flags.formats,
        ),
    ] = None,
    output: Annotated[Path | None, flag("export.output")] = None,
    names: Annotated[bool, flag("export.names")] = True,
    **part: Any,
) -> int:
    """Export whole profiles, or parts of them, to another format."""
    from nsysconv.cli import commands

    return commands.export(target, to, output, names=names, part=part)


@app.command(
    cls=GroupedCommand,
    epilog=examples("diff"),
)
@takes(SliceFlags)
def diff(
    base: Annotated[str, flag("diff.base")],
    other: Annotated[str, flag("diff.other")],
    reports: Annotated[
        list[str] | None, flag("diff.reports", autocompletion=flags.report_names)
    ] = None,
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
    limit: flags.LimitOption = None,
    match: Annotated[flags.Match | None, flag("diff.match")] = None,
    fail_on: Annotated[list[str] | None, flag("diff.fail_on")] = None,
    limits: Annotated[str | None, flag("diff.limits")] = None,
    run_noise: Annotated[str | None, flag("diff.run_noise")] = None,
    inconclusive: Annotated[flags.Inconclusive | None, flag("diff.inconclusive")] = None,
    range_names: flags.RangeNamesOption = flags.RangeNames.GROUPED,
    brief: flags.CommentOption = False,
    wide: flags.WideOption = False,
    split: flags.SplitOption = None,
    **part: Any,
) -> int:
    """Compare two runs: what changed, and whether the change is real."""
    from nsysconv.api.options import DiffOptions
    from nsysconv.cli import commands

    options = DiffOptions(
        reports=reports or None,
        match=match,
        fail_on=fail_on or (),
        limits=limits,
        run_noise=run_noise,
        inconclusive=inconclusive,
        limit=limit,
        range_names=range_names.value,
        split=split.value if split else None,
        **commands.part_keywords(**part),
    )
    return commands.diff(base, other, options, format, output, brief=brief, wide=wide)


app.command(
    "profile",
    cls=ProfileCommand,
    short_help="Profile ranks of a job, and collect and import their reports.",
    epilog=examples("profile"),
    context_settings={"allow_interspersed_args": False},
)(profile)
