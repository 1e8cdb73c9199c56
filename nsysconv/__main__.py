"""The command: `nsysconv`, and `python -m nsysconv`.

What it needs takes a tenth of a second to load. So that signals are heard in that time, too, nothing but
these two modules is loaded before they are.
"""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Runs the command line and ends the process."""
    heard = [
        number
        for name in ("SIGINT", "SIGTERM", "SIGHUP")
        if (number := getattr(signal, name, None)) is not None
        and signal.getsignal(number) is not signal.SIG_IGN
    ]
    for number in heard:
        signal.signal(number, _end)
    try:
        from nsysconv.cli import main as run

        run()
    finally:
        # The command is done, and what ends it now did not interrupt it. Ctrl-C would show where it came;
        # it is ignored a moment later.
        for number in heard:
            if number != signal.SIGINT:
                signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: object) -> None:
    """The end where nothing has begun, and nothing is to be cleaned up."""
    try:
        os.write(2, b"nsysconv: interrupted\n")
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    main()
