"""The command line: flags in, one call of the library, a rendered answer out.

What a command needs is imported when it runs: `--help` loads no pyarrow, numpy, SQLAlchemy or rich.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
import traceback
from pathlib import Path
from typing import NoReturn

from nsysconv.cli import runtime
from nsysconv.cli.runtime import Ended, ending, say
from nsysconv.errors import NsysconvError, UsageError
from nsysconv.refusals import reason_of, refusal_error

# Arrow's own allocator keeps 4 MB in reserve for workloads that nsysconv does not have. Read when
# pyarrow is first imported, which is later.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
# Nothing here multiplies matrices; the threads that numpy's library for it starts all the same keep a
# core busy for a tenth of a second while they wait. Read when numpy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_OBJECTS = 30_000
# A thread that comes back from numpy waits so long for one that does not leave Python.
_TURN_S = 0.0002
_INTERNAL = 70
_INTERRUPTED = 130
# What threads and libraries say where the system has no memory for them.
_NO_MEMORY = ("can't start new thread", "failed to map segment", "annot allocate memory")


def main() -> NoReturn:
    """Runs the command line; the one place where errors become exit statuses."""
    # What is loaded stays: looking through it for garbage takes a tenth of a short command. `begin_work`
    # has it done for what comes after, and not at every 700th new object, which is Python's habit.
    gc.disable()
    gc.set_threshold(_OBJECTS)
    # Reports are made by two threads that are in and out of numpy all the time: with Python's habit of
    # 5 ms they take a twentieth longer.
    sys.setswitchinterval(_TURN_S)
    runtime.prepare()
    try:
        with ending():
            status = _run()
    except (Ended, KeyboardInterrupt) as end:
        say("nsysconv: interrupted")
        status = end.exit_status if isinstance(end, Ended) else _INTERRUPTED
    # Nor is it looked through at the end, which takes a fifth of a short command.
    gc.freeze()
    sys.exit(status)


def _run() -> int:
    try:
        # Here, because it takes a while in which a signal can come, too.
        from nsysconv.cli.app import app

        status = 0
        with runtime.reader_may_go():
            status = app(prog_name="nsysconv", standalone_mode=False)
            sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except NsysconvError as error:
        say(f"nsysconv: {error}")
        return error.exit_status
    except runtime.OutputLost as error:
        say(f"nsysconv: {error}")
        return UsageError.exit_status
    except OSError as error:
        return _refused(error)
    except Exception as error:
        usage = _usage_status(error)
        if usage is not None:
            return usage
        if isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY):
            say(
                f"nsysconv: not enough memory{f': {error}' if str(error) else ''}\n"
                "Raise the limit (ulimit -v, the job's memory), or look at less of the profile."
            )
            return UsageError.exit_status
        say(
            f"{traceback.format_exc()}"
            f"nsysconv: internal error: {type(error).__name__}: {error}\n"
            "This is a defect of nsysconv; please report it with the command you ran and the "
            "lines above."
        )
        return _INTERNAL


def _refused(error: OSError) -> int:
    """Says what the system refused, such as room on a disk; returns the exit status."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        # Whichever file was the next, such as a module of Python's.
        say(f"nsysconv: {refusal_error(error, '')}")
        return UsageError.exit_status
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
    say(f"nsysconv: {where}{reason_of(error)}")
    if isinstance(error, FileNotFoundError) and not _folder_exists():
        say("The current folder has been removed; go to another.")
    return UsageError.exit_status


def _folder_exists() -> bool:
    try:
        Path.cwd()
    except OSError:
        return False
    return True


def _usage_status(error: Exception) -> int | None:
    """The exit status of an error of the command line's own library, which shows itself; else None."""
    show, status = getattr(error, "show", None), getattr(error, "exit_code", None)
    if status is None:
        return None
    if type(error).__name__ == "Abort":
        raise KeyboardInterrupt from error
    if callable(show):
        show()
    return int(status)
