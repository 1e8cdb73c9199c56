"""The command: `nsysconv`, and `python -m nsysconv`.

What it needs takes a tenth of a second to load. Signals are handled in that time, too: nothing but this
module and the package is loaded before.
"""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Run the command line and end the process."""
    handled = [
        number
        for name in ("SIGINT", "SIGTERM", "SIGHUP")
        if (number := getattr(signal, name, None)) is not None
        and signal.getsignal(number) is not signal.SIG_IGN
    ]
    for number in handled:
        signal.signal(number, _end)
    try:
        from nsysconv.cli import main as run

        run()
    finally:
        # The command is done, and what ends it now did not interrupt it. Ctrl-C would show where it came;
        # it is ignored a moment later.
        for number in handled:
            if number != signal.SIGINT:
                signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: object) -> None:
    # Nothing has started yet, and nothing has to be cleaned up.
    try:
        os.write(2, b"nsysconv: interrupted\n")
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    main()
