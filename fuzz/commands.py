"""One command of nsysconv in processes of its own: how it ended, how long it took, what it held."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from bounds import MEMORY_BYTES, SECONDS, peak
from findings import Looked, Step, shape_of
from seeds import ROOT

_TRACEBACK = "Traceback (most recent call last)"
_STATUSES = (0, 2, 3, 4)
# How much slower the clock says a machine is that others use, too.
_HANGS_SECONDS = 10 * SECONDS
_LOOK_SECONDS = 0.02
_PAGE = os.sysconf("SC_PAGE_SIZE")
PROGRAM = (sys.executable, "-m", "nsysconv")


def run(
    kind: str, words: Sequence[str], folder: Path, looked: Looked, *,
    seconds: float = SECONDS, memory: int = MEMORY_BYTES, program: Sequence[str] = PROGRAM,
) -> int:  # fmt: skip
    """Run `nsysconv WORDS…` and return its status; add what must not happen as a finding to `looked`.

    A command is too slow if both the clock and its CPU time say so: of two processors it may use both,
    and of a processor that others use it gets a part.
    """
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    known = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
    log = folder / "said.txt"
    began = time.monotonic()
    with log.open("wb") as said:
        # A session of its own: all of its processes are known by it.
        process = subprocess.Popen(
            [*program, *words], cwd=folder, env=known, stdin=subprocess.DEVNULL, stdout=said,
            stderr=said, start_new_session=True,
        )  # fmt: skip
        held = 0
        while True:
            ended, code, used = os.wait4(process.pid, os.WNOHANG)
            clock = time.monotonic() - began
            if ended:
                process.returncode = os.waitstatus_to_exitcode(code)
                break
            held = max(held, _held(process.pid))
            if clock > _HANGS_SECONDS:
                os.killpg(process.pid, signal.SIGKILL)
            time.sleep(_LOOK_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    spent = min(clock, used.ru_utime + used.ru_stime)
    looked.steps.append(Step(kind, True, spent, held))
    status = process.returncode
    output = log.read_text("utf-8", "replace")[-2500:]
    what = f"nsysconv {' '.join(words)[:300]}: status {status}, {spent:.1f} s, {held >> 20} MiB\n{output}"
    if clock > _HANGS_SECONDS:
        looked.wrong("ends in time", what, f"{kind} hangs")
    elif status not in _STATUSES or _TRACEBACK in output:
        last = output.strip().splitlines()[-3:]
        looked.wrong(
            "no command ends with a traceback", what, f"{kind}: {shape_of(' '.join(last))}"
        )
    if clock <= _HANGS_SECONDS and spent > seconds:
        looked.wrong("ends in time", what, f"{kind} is slow")
    if held > memory:
        looked.wrong("bounded memory", what, f"{kind} holds much")
    return status


def _held(leader: int) -> int:
    total = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != leader:
            with suppress(OSError, ValueError, IndexError):
                if int(_of(entry.path, "stat").rpartition(")")[2].split()[3]) == leader:
                    resident, shared = map(int, _of(entry.path, "statm").split()[1:3])
                    total += (resident - shared) * _PAGE
    # What the system says of it at its end would be its parent's, of which it was a copy.
    return total + peak(leader)


def _of(process: str, name: str) -> str:
    return Path(process, name).read_text()
