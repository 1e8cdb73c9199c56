"""The commands and their flags."""

from __future__ import annotations

import os
import shlex
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from nsysconv import api
from nsysconv.cli import flags
from nsysconv.cli.captures import ProfileCommand, profile
from nsysconv.cli.events import EXAMPLES, FIND_EXAMPLES, find, why
from nsysconv.cli.flags import (
    ANSWER,
    AnswerCommand,
    CommandGroup,
    FormatOption,
    GroupedCommand,
    OutputOption,
    SliceFlags,
    examples,
    named_option,
    run_option,
    shown_option,
    takes,
    what_option,
)
from nsysconv.cli.programs import MCP_EXAMPLES, SCHEMA_EXAMPLES, SQL_EXAMPLES, mcp, schema, sql
from nsysconv.cli.runtime import check_addresses, say
from nsysconv.cli.stores import (
    FORGET_EXAMPLES,
    HISTORY_EXAMPLES,
    RUNS_EXAMPLES,
    forget,
    history,
    runs,
)
from nsysconv.errors import UsageError
from nsysconv.export import ALL_FORMATS

# What other tools call their commands, or people expect, and the command that does that here.
_ELSEWHERE = {
    "stats": "report {target} cuda_gpu_kern_sum",
    "analyze": "report {target} findings",
    "recipe": "report --list",
    "summary": "{target}",
    "top": "report {target} kernels",
    "open": "{target} --open",
    "html": "report {target} -o page.html",
    "compare": "diff BASE OTHER",
    "convert": "export {target} --to parquet",
    "list": "report --list",
    "help": "--help",
    "version": "--version",
}


class AnswersWithoutCommand(CommandGroup):
    """The commands; a first word that names none, but a target, is answered by the command ANSWER."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of the first word, and its arguments."""
        word = args[0]
        if word == "-":
            raise UsageError("standard input is not read", hint="Save it to a file first.")
        if (word not in self.commands or word == ANSWER) and _is_target(word):
            return ANSWER, self.commands[ANSWER], args
        if word in _ELSEWHERE:
            target = next((each for each in args[1:] if _is_target(each)), "TARGET")
            meant = f"nsysconv {_ELSEWHERE[word]}".format(target=shlex.quote(target))
            raise UsageError(f"no command {word!r}", hint=f"Try: {meant}")
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
    epilog=examples(
        ("nsysconv report1.nsys-rep", "where the time went, and what to change"),
        ("nsysconv diff before.sqlite after.sqlite", "what changed between two runs"),
        ("nsysconv import ranks/ -o job.db", "all ranks of a job into one store"),
    ),
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
    epilog=examples(
        ("nsysconv report1.nsys-rep", "the answer in at most 25 lines"),
        ("nsysconv job.db --step 5 --device 0", "one step on one device"),
        ("nsysconv report1.sqlite --open", "one HTML page with everything, in the browser"),
    ),
)
@takes(SliceFlags)
def answer(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="Profile file, store (of several runs: STORE@RUN, STORE@LABEL), or folder (taken as one "
            "run).",
        ),
    ],
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
    brief: Annotated[
        bool,
        shown_option("--brief", help="With -f json: a summary in at most 2 kB."),
    ] = False,
    open_: Annotated[
        bool,
        shown_option(
            "--open",
            help="Write one HTML page and open it; without a display, show how to fetch it.",
        ),
    ] = False,
    ignore: flags.IgnoreOption = None,
    workers: flags.WorkersOption = None,
    dask: flags.DaskOption = None,
    **part: Any,
) -> int:
    """Show where the time went, the bottlenecks, and what to change."""
    from nsysconv.api.options import ReportOptions
    from nsysconv.cli import commands

    if more:
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
    epilog=examples(
        ("nsysconv import ranks/ -o job.db", "all profiles below a folder, as one run"),
        ("nsysconv import new.sqlite -o runs.db --tag commit=1f3a9c", "add one to a store"),
        ("nsysconv import --join gpu.csv api.csv -o run.db", "two logs of one run as one profile"),
    ),
)
def import_(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="FILE|DIR...", help="Profile files, stores, or folders of them."),
    ],
    output: Annotated[
        str | None,
        what_option(
            "--output",
            "-o",
            help="Store to create or add to: a file or a database (postgresql://HOST/NAME). Default: a "
            "new STEM.db in the current folder.",
            metavar="STORE",
        ),
    ] = None,
    include: flags.IncludeOption = None,
    join: Annotated[
        bool,
        what_option(
            "--join",
            help="Join all files into one profile: logs of one run, such as its GPU and its API trace.",
        ),
    ] = False,
    label: Annotated[
        str | None,
        named_option(
            help="Name of the profiles in the store, as in STORE@NAME; several are NAME, NAME-2 and so "
            "on. Default: the name of the file.",
            metavar="NAME",
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        named_option(
            help="Store this with the profiles; runs and info show it. May be repeated.",
            metavar="KEY=VALUE",
        ),
    ] = None,
    run: Annotated[
        str | None,
        named_option(
            help="The run to add all profiles to. Default: ranks of one job, one folder or one list of "
            "files are one run.",
            metavar="NAME",
        ),
    ] = None,
    rank_from: Annotated[
        str | None,
        named_option(
            help=r"Read ranks from file paths: the first group, as in 'train\.(\d+)\.'.",
            metavar="REGEX",
        ),
    ] = None,
    replace: Annotated[
        bool,
        what_option(
            help="Replace profiles that the store already holds, with the label and tags given now."
        ),
    ] = False,
    strict: Annotated[
        bool,
        run_option(help="Refuse files in which anything must be dropped or approximated."),
    ] = False,
    workers: Annotated[
        int | None,
        run_option("--jobs", help="Files to read in parallel. Default: automatic.", metavar="N"),
    ] = None,
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
    epilog=examples(
        ("nsysconv report report1.sqlite kernels idle_gaps --limit 5", "five rows of each"),
        ("nsysconv report job.db --range 'forward*' --device 0", "a part of a profile"),
        ("nsysconv report job.db -o job.html", "one HTML page with everything"),
    ),
)
@takes(SliceFlags)
def report(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGET",
            help="Profile file, store, or folder of these (taken as one run). Of a store or file with "
            "several runs: STORE@RUN, STORE@LABEL, STORE@ID, STORE@rank=N, STORE@KEY=VALUE.",
        ),
    ] = None,
    reports: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[REPORT]...",
            help="Reports to print, with their options as REPORT:OPTION[=VALUE]; core and all are "
            "groups, --list lists all. Default: the answer; if not in text, also the core reports.",
            autocompletion=flags.report_names,
        ),
    ] = None,
    format: FormatOption = None,  # noqa: A002 - the flag's name
    output: OutputOption = None,
    limit: flags.LimitOption = None,
    idle: Annotated[
        list[flags.Idle] | None,
        what_option(help="Kind of idle time. May be repeated.", metavar="no_op|no_kernel|stream"),
    ] = None,
    kernel_names: flags.KernelNamesOption = flags.KernelNames.DEMANGLED,
    range_names: flags.RangeNamesOption = flags.RangeNames.GROUPED,
    split: flags.SplitOption = None,
    by: flags.ByOption = None,
    include: flags.IncludeOption = None,
    ignore: flags.IgnoreOption = None,
    wide: flags.WideOption = False,
    strict: Annotated[
        bool,
        run_option(help="Exit with 3 if anything was dropped or approximated."),
    ] = False,
    list_: Annotated[
        bool,
        what_option(
            "--list", help="List all reports, by question, and what each lacks in this profile."
        ),
    ] = False,
    workers: flags.WorkersOption = None,
    dask: flags.DaskOption = None,
    brief: flags.BriefOption = False,
    **part: Any,
) -> int:
    """Print reports on a profile, or on all ranks of a run."""
    from nsysconv.api.options import ReportOptions
    from nsysconv.cli import commands

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
    epilog=EXAMPLES,
)(why)


@app.command(
    cls=GroupedCommand,
    short_help="Show what a profile contains, and which reports it supports.",
    epilog=examples(
        ("nsysconv info report1.sqlite", "what is recorded, what is missing, and how to record it"),
        ("nsysconv info job.db -f json", "the same as JSON, for each profile of a run"),
        ("nsysconv info job.db --check", "whether a store still holds what was imported"),
    ),
)
def info(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Profile file or store.")],
    limit: Annotated[
        int | None,
        shown_option(
            min=0,
            help="Profiles of a run to show; 0 for all. Default: 20 in text, else all.",
            metavar="N",
        ),
    ] = None,
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
    epilog=FIND_EXAMPLES,
)(find)
app.command(
    cls=GroupedCommand,
    short_help="Print the columns of a report as JSON Schema.",
    epilog=SCHEMA_EXAMPLES,
)(schema)
app.command(cls=GroupedCommand, epilog=RUNS_EXAMPLES)(runs)
app.command(cls=GroupedCommand, epilog=HISTORY_EXAMPLES)(history)
app.command(cls=GroupedCommand, epilog=FORGET_EXAMPLES)(forget)
app.command(cls=GroupedCommand, epilog=SQL_EXAMPLES)(sql)
app.command(cls=GroupedCommand, epilog=MCP_EXAMPLES)(mcp)


@app.command(
    cls=GroupedCommand,
    epilog=examples(
        ("nsysconv export report1.sqlite --to perfetto", "a trace for ui.perfetto.dev"),
        ("nsysconv export job.db --step 3 -o step3.json.gz", "a step for chrome://tracing"),
        ("nsysconv export job.db --to parquet -o job-parquet/", "tables for pandas or DuckDB"),
    ),
)
@takes(SliceFlags)
def export(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="Profile file, or store: all its profiles, or some (STORE@LABEL, STORE@ID, "
            "STORE@rank=N, STORE@KEY=VALUE).",
        ),
    ],
    to: Annotated[
        str | None,
        shown_option(
            help=f"{', '.join(ALL_FORMATS)}. Default: by -o's suffix.",
            metavar="FORMAT",
            autocompletion=flags.formats,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        shown_option(
            "--output",
            "-o",
            help="New file or folder to write. Default: named after TARGET, in the current folder.",
            metavar="PATH",
        ),
    ] = None,
    names: Annotated[
        bool,
        shown_option(
            "--names/--no-names",
            help="In tables, names next to their ids (the default), or ids alone.",
            show_default=False,
        ),
    ] = True,
    **part: Any,
) -> int:
    """Export whole profiles, or parts of them, to another format."""
    from nsysconv.cli import commands

    return commands.export(target, to, output, names=names, part=part)


@app.command(
    cls=GroupedCommand,
    epilog=examples(
        ("nsysconv diff before.sqlite after.sqlite", "two recordings"),
        ("nsysconv diff 'base-*.sqlite' 'new-*.sqlite'", "repeated runs, with their noise"),
        ("nsysconv diff a.db@last:20 b.db --fail-on steps.avg_ns:3%", "for CI: exit 1 if worse"),
    ),
)
@takes(SliceFlags)
def diff(
    base: Annotated[
        str,
        typer.Argument(
            metavar="BASE",
            help="Profile file, store (STORE, STORE@LABEL, STORE@KEY=VALUE, STORE@last:N: its newest N "
            "runs, STORE@best:METRIC), folder or glob. Profiles of one run are its ranks; all others are "
            "repeats.",
        ),
    ],
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The same, to compare with BASE.")],
    reports: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[REPORT]...",
            help="Reports to compare. Default: the most useful ones.",
            autocompletion=flags.report_names,
        ),
    ] = None,
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
    limit: flags.LimitOption = None,
    match: Annotated[
        flags.Match | None,
        what_option(
            help="How to match kernel names. Default: exact between profiles of one source, else "
            "signature.",
            metavar="exact|signature|name",
        ),
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        what_option(
            help="Exit with 1 if this metric is worse by more than the limit: overview.kernel_sum_ns:3%, "
            "'kernels[/gemm/].kernel_sum_ns:2ms'. May be repeated.",
            metavar="METRIC:LIMIT",
        ),
    ] = None,
    limits: Annotated[
        str | None,
        what_option(
            help="A TOML file of limits, kept with the code: limits = "
            "['overview.kernel_sum_ns:3%']; and of options such as step_range = 'step *'.",
            metavar="FILE",
        ),
    ] = None,
    run_noise: Annotated[
        str | None,
        what_option(
            help="Run-to-run standard deviation, such as 0.3%, if you know it. Default: 1 % (same GPU, "
            "with steps) or 3 %, and 10 % for host times.",
            metavar="SHARE",
        ),
    ] = None,
    inconclusive: Annotated[
        flags.Inconclusive | None,
        what_option(
            help="How to treat a limit that cannot be decided: fail (the default) exits with 4, pass "
            "with 0.",
            metavar="fail|pass",
        ),
    ] = None,
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
    epilog=examples(
        ("srun nsysconv profile -- nsys profile -t cuda,nvtx -o out/train ./train", "every rank"),
        (
            "mpirun nsysconv profile --ranks 0,8 -- nsys profile -o train -- ./train",
            "two ranks; the others run without the profiler",
        ),
        (
            "srun nsysconv profile --store postgresql://HOST/NAME -- nsys profile ./train",
            "every rank, also imported into one database",
        ),
    ),
    context_settings={"allow_interspersed_args": False},
)(profile)
