"""The command line: flags in, one call of the library, a rendered answer out.

**What is loaded when.** `--help` loads no pyarrow, numpy, SQLAlchemy or rich, and a command only what it
needs. There is one way for that, in the whole package: a module imports at its top what all of its
functions need; a function imports at its own top what is large and what only this function needs. So
each function of `app` imports the module that does its work, and each function of `commands` what of the
library is not in `nsysconv.api`. Names of `nsysconv` and `nsysconv.api` are loaded on first use, too: by
`__getattr__` there, with one table of the modules they are in.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
import traceback
from contextlib import redirect_stderr
from pathlib import Path
from typing import NoReturn

from nsysconv.cli import json_errors, runtime
from nsysconv.cli.runtime import Interrupted, OutputLost, reader_may_go, say
from nsysconv.errors import NsysconvError, UsageError
from nsysconv.refusals import is_out_of_memory, reason_of, refusal_error
from nsysconv.store.location import hide, is_address, redacted_target

# What other tools call their options, or people expect, and what does that here.
_OPTIONS_ELSEWHERE = {
    **dict.fromkeys(("-r", "--report"), "Name reports after the target, without an option."),
    **dict.fromkeys(("-i", "--input"), "Name the file without an option."),
    **dict.fromkeys(
        ("--csv", "--json", "--html"), "Name the format: -f csv, or a file: -o table.csv"
    ),
    **dict.fromkeys(("-t", "--type"), "Name the format of an export: --to FORMAT"),
    **dict.fromkeys(("--top", "-n", "--rows"), "Limit the number of rows: --limit N"),
    **dict.fromkeys(("--gpu", "--gpus"), "Select devices: --device N"),
    "--join": "Make one profile of the files first: nsysconv import --join FILE FILE -o BOTH.db",
    "--sort": "Rows come largest first; `nsysconv sql` sorts them otherwise.",
}
_INTERNAL = 70
_INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command line and exit; the one place where errors become exit statuses."""
    runtime.configure()
    runtime.secure_streams()
    status: object = 0
    try:
        with runtime.signals_raise():
            try:
                # The import is inside the block, because it takes long enough for a signal to arrive.
                from nsysconv.cli.app import app

                with reader_may_go():
                    status = app(prog_name="nsysconv", standalone_mode=False)
                    sys.stdout.flush()
            except Exception as error:
                status = say_error(error, as_json=json_errors.wanted(sys.argv[1:]))
    except Interrupted as interruption:
        say("nsysconv: interrupted")
        status = interruption.exit_status
    except KeyboardInterrupt:
        say("nsysconv: interrupted")
        status = _INTERRUPTED
    # The last collection of garbage takes a fifth of a short command; what is frozen it leaves alone.
    gc.freeze()
    sys.exit(status if isinstance(status, int) else 0)


def say_error(error: Exception, *, as_json: bool) -> int:
    """Write an error to stderr, in words or as one line of JSON; return the exit status."""
    if not as_json:
        return _print_error(error)
    written = io.StringIO()
    with redirect_stderr(written):
        status = _print_error(error)
    say(json_errors.line(error, written.getvalue(), status))
    return status


def _print_error(error: Exception) -> int:
    if isinstance(error, NsysconvError | OutputLost):
        say(f"nsysconv: {_hidden(str(error))}")
        return error.exit_status
    if isinstance(error, OSError):
        return _print_refusal(error)
    if (usage_status := _print_usage_error(error)) is not None:
        return usage_status
    if is_out_of_memory(error):
        say(
            f"nsysconv: not enough memory{f': {error}' if str(error) else ''}\n"
            "Raise the limit (ulimit -v, the job's memory), or look at less of the profile."
        )
        return UsageError.exit_status
    words = f"nsysconv: internal error: {type(error).__name__}: {error}\n"
    say(
        f"{_hidden(traceback.format_exc() + words)}"
        "This is a defect of nsysconv; please report it with the command you ran and the "
        "lines above."
    )
    return _INTERNAL


def _print_refusal(error: OSError) -> int:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        # The file that could not be opened may be any, such as a module of Python's: it is not named.
        say(f"nsysconv: {refusal_error(error, '')}")
        return UsageError.exit_status
    where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
    say(_hidden(f"nsysconv: {where}{reason_of(error)}"))
    if isinstance(error, FileNotFoundError):
        try:
            Path.cwd()
        except OSError:
            say("The current folder has been removed; go to another.")
    return UsageError.exit_status


def _print_usage_error(error: Exception) -> int | None:
    # Errors of the library that parses flags print themselves; they are known by what they can do, so
    # that nothing of that library is loaded for others.
    show, status = getattr(error, "show", None), getattr(error, "exit_code", None)
    if status is None:
        return None
    if type(error).__name__ == "Abort":
        raise KeyboardInterrupt from error
    if callable(show):
        error.message = _hidden(error.message)  # type: ignore[attr-defined]
        show()
    if hint := _OPTIONS_ELSEWHERE.get(getattr(error, "option_name", "")):
        say(hint)
    return int(status)


def _hidden(text: str) -> str:
    # Errors quote words of the command, and those of Python and of libraries quote anything.
    for word in sys.argv[1:]:
        if is_address(word) or "://" in word:
            text = hide(text, word, redacted_target(word))
    return text
