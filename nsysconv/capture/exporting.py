"""nsys exports its own report, on local disk."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from nsysconv.refusals import reason_of


class ExportError(Exception):
    """The export failed; the text says how, `words` what nsys said last."""

    def __init__(self, text: str, words: str = "") -> None:
        super().__init__(text)
        self.words = words


def export(
    nsys: str, report: Path, target: Path, environment: Mapping[str, str], timeout_s: float
) -> None:
    """Makes `target`, which must not be there, of a report. Raises ExportError; then it is not there."""
    command = [nsys, "export", "--type", "sqlite", "--output", str(target), str(report)]
    # A file takes what it says, not a pipe: a helper that outlives nsys would hold the pipe open.
    with tempfile.TemporaryFile(dir=target.parent) as said:
        try:
            status = _status(command, environment, timeout_s, said.fileno())
        except subprocess.TimeoutExpired:
            target.unlink(missing_ok=True)
            raise ExportError(f"nsys did not export the report within {timeout_s:g} s") from None
        except OSError as error:
            raise ExportError(f"nsys could not be started to export: {reason_of(error)}") from error
        if status != 0 or not target.is_file():
            target.unlink(missing_ok=True)
            how = f"exit status {status}" if status >= 0 else f"killed by signal {-status}"
            raise ExportError(
                f"nsys could not export the report ({how})", _last_line(said.fileno())
            )


def _status(
    command: list[str], environment: Mapping[str, str], timeout_s: float, output: int
) -> int:
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    try:
        return process.wait(timeout_s)
    except BaseException:  # the time is up, or this process was told to end
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise


def _last_line(output: int) -> str:
    size = os.lseek(output, 0, os.SEEK_END)
    os.lseek(output, max(0, size - 4096), os.SEEK_SET)
    lines = os.read(output, 4096).decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""
