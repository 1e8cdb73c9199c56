"""What commands load: `python loading.py` reads groups of commands (JSON), and writes their modules.

The first command of a group is run in this process, with what it loads; the others in copies of it, for
they would load that as well.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import traceback


def modules_of(arguments: list[str]) -> list[str]:
    """The modules that are loaded when the command has been run."""
    from nsysconv.cli import main

    sys.argv = ["nsysconv", *arguments]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"{arguments}: {said.getvalue()}") from end
    # Without what a C extension makes for itself, and what Python was built with.
    return [name for name, module in sys.modules.items()
            if getattr(module, "__spec__", None) and not name.startswith("_sysconfigdata")]  # fmt: skip


def in_a_copy(arguments: list[str]) -> list[str]:
    """The same, and this process stays as it is."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            with os.fdopen(writer, "w") as answer:
                json.dump(modules_of(arguments), answer)
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        found: list[str] = json.load(answer)
    os.wait()
    return found


def main() -> None:
    """Reads, runs and writes."""
    # `profile` puts the program in place of this process.
    os.execvpe = lambda *_: sys.exit()
    found = {}
    for group in json.load(sys.stdin):
        look = modules_of
        for name, arguments in group:
            found[name] = look(arguments)
            look = in_a_copy
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
