"""What commands load, all of them in one process: started with groups of commands, it tells modules."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence

Group = Sequence[tuple[str, Sequence[str]]]
"""Commands by name. What the first of them loads, all others are taken to load."""


def loaded(groups: Sequence[Group], environment: Mapping[str, str]) -> dict[str, set[str]]:
    """The modules that each command loads."""
    done = subprocess.run(
        [sys.executable, __file__], input=json.dumps(groups), env=environment,
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return {name: {*found} for name, found in json.loads(done.stdout).items()}


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
