"""The profile command and its flags: everything of the line behind `--` is the user's own."""

import os
from pathlib import Path
from typing import Annotated, Any

from nsysconv.capture import PROFILERS
from nsysconv.cli.flags import GroupedCommand, flag, takes
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
    ranks: Annotated[str | None, flag("profile.ranks")] = None
    keep: Annotated[str | None, flag("profile.keep")] = None
    store: Annotated[list[str] | None, flag("profile.store")] = None
    run: Annotated[str | None, flag("profile.run")] = None
    scratch: Annotated[Path | None, flag("profile.scratch")] = None
    grace: Annotated[float, flag("profile.grace")] = 10.0
    timeout: Annotated[float, flag("profile.timeout")] = 1800.0
    program: Annotated[str | None, flag("profile.program")] = None


@takes(_CaptureFlags)
def profile(
    command: Annotated[
        list[str] | None,
        flag(
            "profile.command",
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
        environment=started_with(),
        say=lambda text: say(f"nsysconv: {text}"),
        **flags,
    )
    return captured.exit_status


def started_with() -> dict[str, str]:
    """Return the environment with which the process was started.

    Python and nsysconv add variables of their own to it later.
    """
    try:
        text = Path("/proc/self/environ").read_bytes()
    except OSError:  # a system without /proc
        return dict(os.environ)
    pairs = (entry.partition(b"=") for entry in text.split(b"\0") if b"=" in entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}
