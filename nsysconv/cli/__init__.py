"""The command line: flags in, one call of the library, a rendered answer out.

What a command needs is imported when it runs: `--help` loads no pyarrow, numpy, SQLAlchemy or rich.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from nsysconv.cli.app import app
from nsysconv.errors import NsysconvError

# Arrow's own allocator keeps 4 MB in reserve for workloads that nsysconv does not have. Read when
# pyarrow is first imported, which is later.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

_INTERNAL = 70
_INTERRUPTED = 130


def main() -> NoReturn:
    """Runs the command line; the one place where errors become exit statuses."""
    try:
        status = app(prog_name="nsysconv", standalone_mode=False)
    except NsysconvError as error:
        _complain(str(error))
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        _complain("interrupted")
        sys.exit(_INTERRUPTED)
    except Exception as error:
        status = _usage_status(error)
        if status is None:
            _complain(
                f"internal error: {type(error).__name__}: {error}\n"
                "This is a defect of nsysconv; please report it with the command you ran and the "
                "lines above.",
                traceback=True,
            )
            sys.exit(_INTERNAL)
    sys.exit(status if isinstance(status, int) else 0)


def _usage_status(error: Exception) -> int | None:
    """The exit status of an error of the command line's own library, which shows itself; else None."""
    show, status = getattr(error, "show", None), getattr(error, "exit_code", None)
    if status is None:
        return None
    if callable(show):
        show()
    if type(error).__name__ == "Abort":
        return _INTERRUPTED
    return int(status)


def _complain(text: str, *, traceback: bool = False) -> None:
    if traceback:
        import traceback as tb

        tb.print_exc()
    print(f"nsysconv: {text}", file=sys.stderr)  # noqa: T201
