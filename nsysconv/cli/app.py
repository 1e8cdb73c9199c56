"""The commands and their flags."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from nsysconv import api
from nsysconv.cli import flags
from nsysconv.cli.captures import ProfileCommand, profile
from nsysconv.cli.events import EXAMPLES, why
from nsysconv.cli.flags import (
    ANSWER,
    AnswerCommand,
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
from nsysconv.cli.runtime import check_addresses, say
from nsysconv.errors import UsageError
from nsysconv.export import ALL_FORMATS


class AnswersWithoutCommand(typer.core.TyperGroup):
    """The commands; a first word that names none, but a target, is answered by the command ANSWER."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command of the first word, and its arguments."""
        word = args[0]
        if word == "-":
            raise UsageError("standard input is not read", hint="Save it to a file first.")
        if (word not in self.commands or word == ANSWER) and _is_target(word):
            return ANSWER, self.commands[ANSWER], args
        return super().resolve_command(ctx, args)


def _is_target(word: str) -> bool:
    """Return whether a word may name a profile: it exists, or has a sign that no command's name has."""
    return any(sign in word for sign in ("@", ".", ":", os.sep)) or os.path.lexists(word)


app = typer.Typer(
    name="nsysconv",
    cls=AnswersWithoutCommand,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    help="Import GPU profiles into one SQL schema; the same reports for every source.",
)


def _version(wanted: bool) -> None:
    if wanted:
        from nsysconv import __version__

        typer.echo(f"nsysconv {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Import GPU profiles into one SQL schema; the same reports for every source."""
    # The program that `profile` starts is to run in any case.
    if context.invoked_subcommand != "profile":
        check_addresses()


@app.command(
    ANSWER,
    cls=AnswerCommand,
    short_help="Say where the time went, what holds it back, and what to do.",
    epilog=examples(
        ("nsysconv report1.nsys-rep", "the answer in at most 25 lines"),
        ("nsysconv job.db --step 5 --device 0", "of a part of it"),
        ("nsysconv report1.sqlite --ignore start_up", "without one kind of finding"),
        ("nsysconv report1.sqlite -f json --brief", "for programs, in at most 2 kB"),
        ("nsysconv report1.sqlite --open", "a page of everything, in the browser"),
    ),
)
@takes(SliceFlags)
def answer(
    target: Annotated[
        str,
        typer.Argument(
            help="A profile file, a store (of several runs: STORE@RUN, STORE@LABEL), or a folder, taken "
            "as one run."
        ),
    ],
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
    brief: Annotated[
        bool,
        shown_option("--brief", help="With -f json: the most important, in at most 2 kB."),
    ] = False,
    open_: Annotated[
        bool,
        shown_option(
            "--open",
            help="Write a page of everything and open it; without a display, say how to fetch it.",
        ),
    ] = False,
    ignore: flags.IgnoreOption = None,
    workers: flags.WorkersOption = None,
    dask: flags.DaskOption = None,
    **part: Any,
) -> int:
    """Say where the time went, what holds it back, what that could win at most, and what to do next."""
    from nsysconv.api.options import ReportOptions
    from nsysconv.cli import commands

    if more:
        words, is_file = " ".join(more), Path(more[0].partition("@")[0]).exists()
        hint = f"Try: nsysconv {'diff' if is_file else 'report'} {target} {words}"
        raise UsageError(f"{words}: only one target is answered", hint=hint)
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
        ("nsysconv import report1.sqlite", "one profile into report1.db"),
        ("nsysconv import ranks/ -o job.db", "all profiles below a folder, as one run"),
        ("nsysconv import new.sqlite -o runs.db --tag commit=1f3a9c", "one more into a store"),
        ("nsysconv import --join gpu.csv api.csv -o run.db", "two logs of one run as one profile"),
    ),
)
def import_(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="FILE|DIR...", help="Profiles, stores, or folders of them."),
    ],
    output: Annotated[
        str | None,
        what_option(
            "--output",
            "-o",
            help="The store to make or add to: a file or a database (postgresql://HOST/NAME). "
            "Default: STEM.db in the current folder, which must be new.",
            metavar="STORE",
        ),
    ] = None,
    include: Annotated[
        list[str] | None,
        what_option(
            help="Import rows, too, that are left out unless asked for, such as "
            "python_functions. May be repeated.",
            metavar="WORD",
        ),
    ] = None,
    join: Annotated[
        bool,
        what_option(
            "--join",
            help="Make one profile of all files: logs of one run, such as its GPU and its API trace.",
        ),
    ] = False,
    label: Annotated[
        str | None,
        named_option(
            help="What to call the profiles in the store, as in STORE@NAME; several are NAME, NAME-2 "
            "and so on. Default: after the file.",
            metavar="NAME",
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        named_option(
            help="Keep this with the profiles, for runs and info to show. May be repeated.",
            metavar="KEY=VALUE",
        ),
    ] = None,
    run: Annotated[
        str | None,
        named_option(
            help="The run that all profiles are of, made or continued. Default: ranks of one job, of "
            "one folder or of one list of files are one run.",
            metavar="NAME",
        ),
    ] = None,
    rank_from: Annotated[
        str | None,
        named_option(
            help=r"Take ranks from the paths of the files: the first group, as in 'train\.(\d+)\.'.",
            metavar="REGEX",
        ),
    ] = None,
    replace: Annotated[
        bool,
        what_option(
            help="Read again what the store holds already; label and tags become those given now."
        ),
    ] = False,
    strict: Annotated[
        bool,
        run_option(help="Refuse files of which something must be dropped or approximated."),
    ] = False,
    workers: Annotated[
        int | None,
        run_option(
            "--jobs", help="Read so many files at a time. Default: as many as pay.", metavar="N"
        ),
    ] = None,
    dask: flags.DaskOption = None,
) -> int:
    """Import profiles into a store; say what came in and what did not."""
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
        ("nsysconv report report1.sqlite core", "the core reports"),
        ("nsysconv report report1.sqlite kernels idle_gaps --limit 5", "two, of five rows each"),
        ("nsysconv report job.db --range 'forward*' --device 0", "a part of a profile"),
        ("nsysconv report job.db -o job.html", "everything on a page"),
    ),
)
@takes(SliceFlags)
def report(
    target: Annotated[
        str | None,
        typer.Argument(
            help="A store of one run (of several: STORE@RUN, STORE@LABEL, STORE@ID, STORE@rank=N, "
            "STORE@KEY=VALUE), a profile file, which is read in place and stands for a store of its "
            "profiles, or a folder of these, taken as one run."
        ),
    ] = None,
    reports: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[REPORT[:OPTION[=VALUE]]...]...",
            help="Reports to print; core and all are groups of them, --list names them. Default: the "
            "answer in text, else the core reports with the answer before them.",
            autocompletion=flags.report_names,
        ),
    ] = None,
    format: FormatOption = None,  # noqa: A002 - the flag's name
    output: OutputOption = None,
    limit: flags.LimitOption = None,
    idle: Annotated[
        list[flags.Idle] | None,
        what_option(help="Kind of idle time; may be repeated."),
    ] = None,
    kernel_names: flags.KernelNamesOption = flags.KernelNames.DEMANGLED,
    range_names: flags.RangeNamesOption = flags.RangeNames.GROUPED,
    split: flags.SplitOption = None,
    by: Annotated[
        flags.By | None,
        shown_option(
            help="Rows of a run: all of each rank below each other, or the least, the median and the "
            "greatest of each host or physical device. Default: by rank of up to 8 profiles, of more the "
            "three over all ranks. step: gpu_utilization:by=step, a row per step and device."
        ),
    ] = None,
    include: Annotated[
        list[str] | None,
        what_option(
            help="Read rows of a profile file, too, that imports leave out unless asked for, such as "
            "python_functions. May be repeated.",
            metavar="WORD",
        ),
    ] = None,
    ignore: flags.IgnoreOption = None,
    wide: flags.WideOption = False,
    strict: Annotated[
        bool,
        run_option(help="Exit with 3 if anything was dropped or approximated."),
    ] = False,
    list_: Annotated[
        bool,
        what_option("--list", help="Name every report, what it needs, and whether it is answered."),
    ] = False,
    workers: flags.WorkersOption = None,
    dask: flags.DaskOption = None,
    **part: Any,
) -> int:
    """Print reports on a profile, or on all ranks of a run."""
    from nsysconv.api.options import ReportOptions
    from nsysconv.cli import commands

    if list_:
        listed = partial(api.reports, target, reports or None, say=say)
        return commands.show(listed, format, output, target)
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
    return commands.report(target, options, format, output, wide=wide, strict=strict)


# events.py is all of it, as captures.py of `profile`, which has flags of its own, too.
app.command(
    "why",
    short_help="Say why an event began when it did, and who waited for it.",
    epilog=EXAMPLES,
)(why)


@app.command(
    short_help="Say what a profile is, and what it can answer.",
    epilog=examples(
        ("nsysconv info report1.sqlite", "what is recorded, what is not and how to record it"),
        ("nsysconv info job.db -f json", "the same for programs, of each profile of a run"),
        ("nsysconv info job.db --check", "whether a store still holds what was imported"),
    ),
)
def info(
    target: Annotated[str, typer.Argument(help="A store or a profile file.")],
    limit: Annotated[
        int | None,
        typer.Option(
            min=0, help="Profiles of a run to show; 0 for all. Default: 20 in text, else all."
        ),
    ] = None,
    check: flags.CheckOption = False,
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
) -> int:
    """Say what a profile or a run is, what it can answer, what is missing and how to record it."""
    from nsysconv.cli import commands

    return commands.info(target, format, output, limit, check=check)


@app.command(
    epilog=examples(
        ("nsysconv runs runs.db", "what STORE@RUN, STORE@LABEL and STORE@ID can name"),
    ),
)
def runs(
    store: Annotated[str, typer.Argument(help="A store.")],
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
) -> int:
    """List the runs and profiles in a store."""
    from nsysconv.cli import commands

    return commands.show(partial(api.runs, store), format, output, None)


@app.command(
    epilog=examples(
        (
            "nsysconv sql job.db 'select name, count(*), sum(dur_ns) from v_gpu_op group by name'",
            "the work of the GPUs by name",
        ),
        ("nsysconv sql report1.sqlite 'select * from device' -f csv", "of a file in place, as CSV"),
    ),
)
def sql(
    target: Annotated[
        str,
        typer.Argument(
            help="A store, or a profile file, which is imported for this query alone: for several, "
            "import it once."
        ),
    ],
    query: Annotated[
        str, typer.Argument(help="A select; docs/schema.md describes tables and views.")
    ],
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
    limit: Annotated[int, typer.Option(min=0, help="Rows to show; 0 for all.")] = 0,
) -> int:
    """Run a query on a store or a profile file; nothing is changed."""
    from nsysconv.cli import commands

    return commands.show(
        lambda: api.sql(target, query, say=say).limited(limit), format, output, target
    )


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
            help="A store, all profiles of it (STORE@LABEL, STORE@ID, STORE@rank=N, "
            "STORE@KEY=VALUE: some), or a profile file, which is read in place."
        ),
    ],
    to: Annotated[
        str | None,
        shown_option(
            help=f"The format: {', '.join(ALL_FORMATS)}. Default: by -o's suffix.",
            metavar="FORMAT",
            autocompletion=flags.formats,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        shown_option(
            "--output",
            "-o",
            help="The file or folder to make, which must be new. Default: after the target, in the "
            "current folder.",
            metavar="PATH",
        ),
    ] = None,
    names: Annotated[
        bool,
        shown_option(
            "--names/--no-names",
            help="In tables, names and words beside the numbers for them, or the numbers alone.",
        ),
    ] = True,
    **part: Any,
) -> int:
    """Write whole profiles, or slices of them, to another format."""
    from nsysconv.cli import commands

    step_range = part.pop("step_range")
    return commands.export(
        target,
        to,
        output,
        names=names,
        part=commands.parse_slice(**part),
        step_range=step_range,
    )


@app.command(
    cls=GroupedCommand,
    epilog=examples(
        ("nsysconv diff before.sqlite after.sqlite", "two recordings"),
        ("nsysconv diff job.db@main job.db@branch kernels", "two profiles of a store, by kernels"),
        (
            "nsysconv diff 'base-*.sqlite' 'new-*.sqlite'",
            "repeats of two programs, with their noise",
        ),
        (
            "nsysconv diff a.db b.db --fail-on overview.kernel_sum_ns:3%",
            "for CI: exit with 1 if worse",
        ),
        (
            "nsysconv diff 'main-*.sqlite' 'new-*.sqlite' --limits limits.toml -f markdown --brief",
            "a comment of 12 lines: limits that are kept with the code",
        ),
    ),
)
@takes(SliceFlags)
def diff(
    base: Annotated[
        str,
        typer.Argument(
            help="A store (STORE, STORE@LABEL, STORE@KEY=VALUE), a profile file, a folder or a quoted "
            "glob. Profiles of one run are its ranks, all others repeats."
        ),
    ],
    other: Annotated[str, typer.Argument(help="The same, to be compared with it.")],
    reports: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[REPORT]...",
            help="Reports to compare; the most useful by default.",
            autocompletion=flags.report_names,
        ),
    ] = None,
    format: FormatOption = None,  # noqa: A002
    output: OutputOption = None,
    limit: flags.LimitOption = None,
    match: Annotated[
        flags.Match | None,
        what_option(
            help="How kernels' names are matched. Default: exact between profiles of one source, "
            "else signature."
        ),
    ] = None,
    fail_on: Annotated[
        list[str] | None,
        what_option(
            help="Exit with 1 if this got worse by more than the limit: overview.kernel_sum_ns:3%, "
            "'kernels[/gemm/].kernel_sum_ns:2ms'. May be repeated.",
            metavar="METRIC:LIMIT",
        ),
    ] = None,
    limits: Annotated[
        str | None,
        what_option(
            help="A TOML file of such limits, to be kept with the code: limits = "
            "['overview.kernel_sum_ns:3%'].",
            metavar="FILE",
        ),
    ] = None,
    run_noise: Annotated[
        str | None,
        what_option(
            help="The standard deviation of a run, such as 0.3%, where you know it. Without it runs are "
            "assumed to differ by 1 % (same GPU, with steps) or 3 %, and 10 % in the host's times.",
            metavar="SHARE",
        ),
    ] = None,
    cannot_tell: Annotated[
        flags.CannotTell | None,
        what_option(
            help="What a limit of which nothing can be said does: fail (the default) exits with 4, pass "
            "with 0."
        ),
    ] = None,
    range_names: flags.RangeNamesOption = flags.RangeNames.GROUPED,
    brief: flags.CommentOption = False,
    wide: flags.WideOption = False,
    split: flags.SplitOption = None,
    **part: Any,
) -> int:
    """Compare two runs: what changed, and whether it can be trusted."""
    from nsysconv.api.options import DiffOptions
    from nsysconv.cli import commands

    options = DiffOptions(
        reports=reports or None,
        match=match,
        fail_on=fail_on or (),
        limits=limits,
        run_noise=run_noise,
        cannot_tell=cannot_tell,
        limit=limit,
        range_names=range_names.value,
        split=split.value if split else None,
        **commands.part_keywords(**part),
    )
    return commands.diff(base, other, options, format, output, brief=brief, wide=wide)


app.command(
    "profile",
    cls=ProfileCommand,
    short_help="Profile a rank of a job, and bring its report home.",
    epilog=examples(
        ("srun nsysconv profile -- nsys profile -t cuda,nvtx -o out/train ./train", "each rank"),
        (
            "mpirun nsysconv profile --ranks 0,8 -- nsys profile -o train -- ./train",
            "two ranks; the others run without the profiler",
        ),
    ),
    context_settings={"allow_interspersed_args": False},
)(profile)
