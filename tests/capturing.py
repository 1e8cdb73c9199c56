"""What tests of captures share: the stand-in profilers in PATH, and both wrappers to run them with."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import copies
from conftest import FIXTURES, NSYS, ROOT
from here import Here

from nsysconv.api import capturing, importing  # noqa: F401  # the copy has loaded it
from nsysconv.capture.command import parse
from nsysconv.cli import captures
from nsysconv.errors import CaptureError

STANDIN = ROOT / "tests" / "standin_nsys.py"
SCRIPT = ROOT / "scripts" / "nsysconv-rank.sh"
SHELL = shutil.which("dash") or "/bin/sh"
NSYS_PROFILE = NSYS / "basic-3.25.0.sqlite"
NVPROF_PROFILE = FIXTURES / "nvprof_database" / "basic-12.nvvp"

PYTHON_WRAPPER = (sys.executable, "-m", "nsysconv", "profile", "--keep", "report")
"""Without an import, which the shell's twin does not do either."""
SHELL_WRAPPER = (SHELL, str(SCRIPT))
WRAPPERS = {"python": PYTHON_WRAPPER, "shell": SHELL_WRAPPER}

SLURM_RANK_3 = {
    "SLURM_JOB_ID": "1234", "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_LOCALID": "1",
    "SLURM_NODEID": "1", "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "8",
}  # fmt: skip


def wrapped(wrapper: Sequence[str], options: Sequence[str], line: Sequence[str]) -> list[str]:
    """The command that puts a profiler's line through a wrapper.

    Lines are written as for `nsysconv profile`. Its shell twin is given -o itself, and finds the program
    by a -- before it. A line in which no program can be found goes to either as it stands.
    """
    try:
        parsed = parse(line)
    except CaptureError:
        return [*wrapper, *options, "--", *line]
    if tuple(wrapper) != SHELL_WRAPPER:
        return [*wrapper, *options, "--", *line]
    before = list(line[: parsed.program_at])
    for output in parsed.outputs:
        del before[output.index - (not output.head) : output.index + 1]
        options = ["-o", output.value, *options]
    return [*wrapper, *options, "--", *before, "--", *parsed.program]


def forked(
    arguments: Sequence[str], cwd: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes]:
    """Runs `nsysconv` in a copy of this process: a new one would load all of it again."""

    def before() -> None:
        os.environ.clear()
        os.environ.update(environment)
        captures.started_with = lambda: dict(environment)  # type: ignore[assignment]
        capturing.Processes = Here  # type: ignore[assignment, misc]
        tempfile.tempdir = None

    with (tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err,
          Path(os.devnull).open("rb") as nothing):  # fmt: skip
        streams = [file.fileno() for file in (nothing, out, err)]
        status = copies.ended(
            copies.start([*map(os.fsdecode, arguments)], cwd, streams, before=before)
        )
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess([*arguments], status, out.read(), err.read())


def standins(folder: Path) -> Path:
    """A folder with an nsys and an nvprof that stand in for the real ones."""
    folder.mkdir(parents=True, exist_ok=True)
    body = STANDIN.read_text(encoding="utf-8").partition("\n")[2]
    for name in ("nsys", "nvprof"):
        path = folder / name
        path.write_text(f"#!{sys.executable} -SE\n{body}", encoding="utf-8")
        path.chmod(0o755)
    return folder


@dataclass(frozen=True)
class Place:
    """A working folder `here`, with the stand-ins in PATH and local scratch of its own."""

    here: Path
    scratch: Path
    environment: Mapping[str, str]

    def run(
        self, wrapper: Sequence[str], options: Sequence[str], line: Sequence[str], **variables: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs a line through a wrapper; the one in Python, and its import, without a new process."""
        command = wrapped(wrapper, options, line)
        if command[:3] != [sys.executable, "-m", "nsysconv"] or not hasattr(os, "fork"):
            return self.process(command, **variables)
        return forked(command[3:], self.here, {**self.environment, **variables})

    def process(
        self, command: Sequence[str], **variables: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs a command in a process of its own."""
        return subprocess.run(
            command, cwd=self.here, env={**self.environment, **variables}, stdin=subprocess.DEVNULL,
            capture_output=True, check=False, timeout=120,
        )  # fmt: skip

    def start(
        self, wrapper: Sequence[str], options: Sequence[str], line: Sequence[str], **variables: str
    ) -> subprocess.Popen[bytes]:
        """Starts a line through a wrapper; its words go to the file `said`."""
        with (self.here.parent / "said").open("wb") as said:
            return subprocess.Popen(
                wrapped(wrapper, options, line),
                cwd=self.here,
                env={**self.environment, **variables},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )

    @property
    def files(self) -> list[str]:
        """The names of all files in the working folder, hidden ones too."""
        return sorted(
            p.relative_to(self.here).as_posix() for p in self.here.rglob("*") if p.is_file()
        )

    @property
    def left(self) -> list[str]:
        """What is left on scratch."""
        return sorted(path.name for path in self.scratch.iterdir())


def place(folder: Path, **variables: str) -> Place:
    """A working folder below `folder`; no launcher's variable of the surrounding job is in it."""
    here, scratch = folder / "work", folder / "scratch"
    here.mkdir()
    scratch.mkdir()
    environment = {
        "PATH": f"{standins(folder / 'bin')}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder),
        "PWD": str(here),  # a shell would set it
        "TMPDIR": str(scratch),
        "STANDIN_FIXTURE": str(NSYS_PROFILE),
        **variables,
    }
    return Place(here, scratch, environment)
