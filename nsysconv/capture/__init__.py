"""Run a profiler for a job script: the user's own line, on the ranks that are asked for.

command.py parses the line, patterns.py completes names, child_process.py runs it and passes signals on,
stage_out.py and atomic_move.py move what it left to where it is kept; session.py is all of it.
"""

import sys

from nsysconv.errors import CaptureError

PROFILERS = ("nsys", "nvprof")
"""The commands of profilers that can be run; command.py has what their options take."""


def check_system() -> None:
    """Raise CaptureError off Linux, whose signals and groups of processes running a profiler needs."""
    if sys.platform != "linux":
        raise CaptureError(
            f"programs are run under a profiler on Linux only, and this is {sys.platform}",
            hint="Record there, and open the report here: nsysconv REPORT",
        )
