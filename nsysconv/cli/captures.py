"""The profile command and its flags: everything of the line behind `--` is the user's own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from nsysconv.capture import PROFILERS
from nsysconv.cli.flags import takes
from nsysconv.cli.runtime import say
from nsysconv.errors import CaptureError


class ProfileCommand(typer.core.TyperCommand):
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
            help="Which ranks are profiled; the others run the bare program. 0,8,16-31 or %8 (every "
            "eighth), local0 (the first of each node), node%4:local0 (that of every fourth node). "
            "Default: all.",
        ),
    ] = None
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS",
            help="What is left beside each other: report, export, store, joined by commas. Default: "
            "report,store; with --store report.",
        ),
    ] = None
    store: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STORE",
            help="Import into this store, too: a database that many ranks share, or a file. May be "
            "repeated.",
        ),
    ] = None
    run: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The run's name in stores. Ranks of one job of a batch system are one run without it.",
        ),
    ] = None
    scratch: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Local disk for what is being made, and TMPDIR of the program. Default: TMPDIR, "
            "else /tmp.",
        ),
    ] = None
    grace: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="How long the program may take to end after SIGTERM before the profiler is interrupted.",
        ),
    ] = 10.0
    timeout: Annotated[
        float,
        typer.Option(
            min=1, metavar="SECONDS", help="How long an export, and an import, may take at most."
        ),
    ] = 1800.0
    program: Annotated[
        str | None,
        typer.Option(
            metavar="WORD",
            help="The argument that begins the program, where an option of the profiler is not known.",
        ),
    ] = None


@takes(_CaptureFlags)
def profile(
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- nsys profile ... PROGRAM [ARGS]...",
            help=f"Your own line, of {' or '.join(PROFILERS)}. Nothing of it is changed but its output.",
        ),
    ] = None,
    *,
    keep: str | None,
    store: list[str] | None,
    grace: float,
    timeout: float,
    **flags: Any,
) -> int:
    """Profile a rank of a job: run your profiler's line, bring its report home, import it."""
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
