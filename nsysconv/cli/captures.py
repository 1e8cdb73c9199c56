"""The profile command and its flags: everything of the line behind `--` is the user's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from nsysconv.capture import PROFILERS
from nsysconv.cli.flags import GroupedCommand, takes
from nsysconv.cli.runtime import say
from nsysconv.errors import CaptureError


class ProfileCommand(GroupedCommand):
    """A command whose wrong use has the status of a program that could not be started."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the flags; give errors in them that status."""
        try:
            return super().make_context(*args, **kwargs)
        except Exception as error:
            if getattr(error, "exit_code", 0):
                error.exit_code = CaptureError.exit_status  # type: ignore[attr-defined]
            raise


class _CaptureFlags:
    ranks: Annotated[
        str | None,
        typer.Option(
            metavar="CHOICE",
            help="Ranks to profile; the others run without the profiler. 0,8,16-31 or %8 (every eighth), "
            "local0 (the first on each node), node%4:local0 (the first on every fourth node). "
            "Default: all.",
        ),
    ] = None
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS",
            help="Files to keep (comma-separated): report, export, store. Default: "
            "report,store; with --store report.",
        ),
    ] = None
    store: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STORE",
            help="Also import into this store: a database that many ranks share, or a file. May be "
            "repeated.",
        ),
    ] = None
    run: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The run's name in stores. Default: the ranks of a batch job are one run.",
        ),
    ] = None
    scratch: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Local disk for files in progress, and the program's TMPDIR. Default: TMPDIR, "
            "else /tmp.",
        ),
    ] = None
    grace: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Time for the program to end after SIGTERM, before the profiler is interrupted. "
            "Default: 10.",
            show_default=False,
        ),
    ] = 10.0
    timeout: Annotated[
        float,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="Time limit for an export, and for an import. Default: 1800.",
            show_default=False,
        ),
    ] = 1800.0
    program: Annotated[
        str | None,
        typer.Option(
            metavar="WORD",
            help="Where your program's command starts, if a profiler option is not recognized.",
        ),
    ] = None


@takes(_CaptureFlags)
def profile(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- nsys profile ... PROGRAM [ARGS]...",
            help=f"Your {' or '.join(PROFILERS)} command. Only its output option is changed.",
        ),
    ] = None,
    *,
    keep: str | None,
    store: list[str] | None,
    grace: float,
    timeout: float,
    **flags: Any,
) -> int:
    """Profile a rank of a job: run your profiler command, collect its report and import it."""
    from nsysconv.api import capturing

    captured = capturing.profile(
        command or [],
        keep=None if keep is None else [word.strip() for word in keep.split(",")],
        stores=store or [],
        grace_s=grace,
        timeout_s=timeout,
        environment=_environment(),
        say=lambda text: say(f"nsysconv: {text}"),
        **flags,
    )
    return captured.exit_status


def _environment() -> dict[str, str]:
    # This is the environment with which the process was started, because Python and nsysconv add
    # variables of their own.
    try:
        text = Path("/proc/self/environ").read_bytes()
    except OSError:  # a system without /proc
        return dict(os.environ)
    pairs = (entry.partition(b"=") for entry in text.split(b"\0") if b"=" in entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
