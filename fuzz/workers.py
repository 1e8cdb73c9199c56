"""Processes that look at files: one that hangs, dies or fills the memory is a finding."""

from __future__ import annotations

import json
import os
import resource
import select
import subprocess
import sys
from dataclasses import astuple
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from cases import LARGE, Case, case

# Above the limits inside of the process, which can say where it was.
_HANG_SECONDS = 1800
_ADDRESS_BYTES = 12 << 30
# One of so many files is looked at by commands, too: these take twenty times as long.
_COMMANDS_EVERY = 30
_COMMANDS_EVERY_LARGE = 3


def turn(found: Case) -> int | None:
    """Return the number of the file among those of its class that commands look at; None: they do not."""
    round_, place = divmod(
        found.number, _COMMANDS_EVERY_LARGE if found.kind in LARGE else _COMMANDS_EVERY
    )
    return round_ if place == 1 else None


def looked_at(found: Case, *, always: bool = False) -> dict[str, Any]:
    """Look at a file and return the outcome as JSON has it; `always`: by all commands, too."""
    import oracle  # these import all of the program; the parent does without
    import session

    looked = oracle.look(found, everything=True)
    place = turn(found)
    commands = always or place is not None
    if commands:
        session.look(found, looked, None if always else place)
    return {
        "key": found.key, "file": found.name, "done": found.done, "outcome": looked.outcome,
        "by_commands": commands, "steps": [astuple(step) for step in looked.steps],
        "findings": [{"promise": f.promise, "detail": f.detail, "sign": f.sign} for f in looked.findings],
    }  # fmt: skip


def work() -> int:
    """Look at the files whose keys come in, a line each."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_BYTES, _ADDRESS_BYTES))
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        kind, seed, number = line.strip().split(":")
        found = case(kind, int(seed), int(number))
        print(json.dumps(looked_at(found)), file=out, flush=True)
    return 0


class Worker:
    """A process that looks at files."""

    def __init__(self) -> None:
        """Start the process."""
        self._start()

    def _start(self) -> None:
        # A file, because a pipe that nobody reads would fill.
        self._log = TemporaryFile()  # noqa: SIM115 - open as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", Path(__file__).with_name("fuzz.py"), "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def look(self, key: str) -> dict[str, Any]:
        """Return what became of a file; a finding where the process hangs or dies over it."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(f"{key}\n".encode())
        stdin.flush()
        ready, _, _ = select.select([stdout], [], [], _HANG_SECONDS)
        line = stdout.readline() if ready else b""
        if line:
            return dict(json.loads(line))
        promise = "ends in time" if not ready else "no crash"
        self._process.kill()
        status = self._process.wait()
        self._log.seek(0)
        said = self._log.read().decode("utf-8", "replace")[-2500:]
        detail = f"{promise}: exit status {status}\n{said}"
        self._log.close()
        self._start()
        return {
            "key": key,
            "outcome": "",
            "findings": [{"promise": promise, "detail": detail, "sign": promise}],
        }

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._log.close()
