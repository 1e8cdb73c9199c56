"""Runs nsysconv in a process of its own, as a user does, and disturbs it from outside."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scenes import ROOT

_HANG_S = 300.0
_ENDS_WITHIN_S = 20.0
_LOOK_S = 0.002


@dataclass(frozen=True)
class Ended:
    """The end of a command: its status (minus the signal), its output, and the seconds it took."""

    status: int
    said: str
    seconds: float
    lasting: bool
    """True if a process of it outlived it."""
    second: Ended | None = None
    """The end of the command that ran beside it."""


def run(
    words: Sequence[str], place: Path, temporary: Path, *, after_s: float | None = None,
    number: signal.Signals = signal.SIGKILL, limits: Sequence[tuple[int, int]] = (),
    stdout: int | None = None, path: Sequence[Path] = (),
    environment: Mapping[str, str | None] | None = None, prefix: Sequence[str] = (),
) -> Ended:  # fmt: skip
    """Run `nsysconv WORDS…`, send it a signal after a while or limit its resources, and return its end.

    `path` comes before nsysconv on Python's path; variables of `environment` that are None are removed;
    `prefix` is a command that becomes the one behind it. SIGINT goes to the process group, as from a
    terminal, and only once the command handles signals: before, Python's own way counts.
    """

    def limit() -> None:
        for what, value in limits:
            resource.setrlimit(what, (value, value))

    known: dict[str, str | None] = {
        **os.environ, "PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT))), "TMPDIR": str(temporary),
        **(environment or {}),
    }  # fmt: skip
    began = time.monotonic()
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "nsysconv", *words], cwd=place,
            env={name: value for name, value in known.items() if value is not None},
            stdin=subprocess.DEVNULL, stdout=said if stdout is None else stdout, stderr=said,
            start_new_session=True, preexec_fn=limit if limits else None,
        )  # fmt: skip
        if after_s is not None:
            if number is signal.SIGINT:
                _until_heard(process)
            with suppress(subprocess.TimeoutExpired):
                process.wait(after_s)
            if number is signal.SIGINT and process.returncode is None:
                os.killpg(process.pid, number)
            else:
                process.send_signal(number)
        try:
            status = process.wait(_HANG_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
        seconds = time.monotonic() - began
        lasting = _outlived(process.pid)
        said.seek(0)
        return Ended(status, said.read().decode("utf-8", "replace"), seconds, lasting)


def _until_heard(process: subprocess.Popen[bytes]) -> None:
    bit = 1 << (signal.SIGTERM - 1)
    with suppress(OSError):
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            (caught,) = (line for line in status.splitlines() if line.startswith("SigCgt:"))
            if int(caught.split()[1], 16) & bit:
                return
            time.sleep(_LOOK_S)


def _outlived(group: int) -> bool:
    end = time.monotonic() + _ENDS_WITHIN_S
    while time.monotonic() < end:
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.02)
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    return True
