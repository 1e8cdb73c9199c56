"""Runs the profiler and passes signals on, so that its report is finished when a job is ended.

The profiler runs in a session of its own (off a terminal), so that what comes to this process does not
reach it by itself. A first signal to end goes to the program; when the program ends, the profiler
finishes its report. If it does not end in time, or at a second signal, the profiler is interrupted, which
makes it end the program and finish; at last all is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePath
from types import FrameType, TracebackType

from nsysconv.errors import CaptureError
from nsysconv.refusals import reason_of

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals by which batch systems warn programs; what they do is the program's."""

FINISH_S = 300.0
"""How long a profiler that was told to end may take over its report before it is killed."""
_SAME_S = 1.0
"""Signals to end within this are one: batch systems send several at once."""
_LOOK_S = 0.1
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Ended:
    """How a profiler ended: the exit status to pass on, the signal that killed the profiler itself, and
    whether it was told to end.
    """

    status: int
    killed_by: int | None
    told_to_end: bool


class Step(Enum):
    """How far the end has come."""

    NOT_TOLD = 0
    PROGRAM_TOLD = 1
    PROFILER_TOLD = 2
    KILLED = 3


class Course:
    """What to do when: signals and time in, steps out. Knows nothing of processes."""

    def __init__(self, grace_s: float, finish_s: float = FINISH_S) -> None:
        self._grace_s, self._finish_s = grace_s, finish_s
        self._last: float | None = None
        self.step = Step.NOT_TOLD
        self.deadline: float | None = None

    def told(self, now: float) -> Step | None:
        """A signal to end has come; the step that is due now, None where it is the same signal again."""
        if self._last is not None and now - self._last < _SAME_S:
            return None
        self._last = now
        return self._next(now)

    def late(self, now: float) -> Step | None:
        """The step that is due because time has run out."""
        if self.deadline is None or now < self.deadline:
            return None
        return self._next(now)

    def _next(self, now: float) -> Step:
        self.step = Step(min(self.step.value + 1, Step.KILLED.value))
        waits = {Step.PROGRAM_TOLD: self._grace_s, Step.PROFILER_TOLD: self._finish_s}
        self.deadline = now + waits[self.step] if self.step in waits else None
        return self.step


class Signals:
    """Takes signals for as long as its block runs; those that were ignored before stay ignored."""

    def __init__(self, numbers: Sequence[signal.Signals]) -> None:
        self._numbers = [n for n in numbers if signal.getsignal(n) is not signal.SIG_IGN]

    def __enter__(self) -> Signals:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._fd_before = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        # With a handler, even one that does nothing, the status of children is kept for us, too.
        numbers = [*self._numbers, signal.SIGCHLD]
        self._before = {number: signal.signal(number, _nothing) for number in numbers}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._fd_before)
        os.close(self._read)
        os.close(self._write)

    def wait(self, seconds: float | None) -> list[signal.Signals]:
        """The signals that have come, after at most so long (None: until one comes)."""
        if not select.select([self._read], [], [], seconds)[0]:
            return []
        try:
            received = os.read(self._read, 4096)
        except BlockingIOError:
            return []
        return [signal.Signals(n) for n in received if n in self._numbers]


def _nothing(number: int, frame: FrameType | None) -> None:
    """Signals are read from the pipe."""


def run(
    command: Sequence[str],
    program: Sequence[str],
    environment: Mapping[str, str],
    grace_s: float,
    say: Callable[[str], None],
) -> Ended:
    """Runs a profiler's line, whose program is `program`. Raises CaptureError where it cannot start."""
    on_terminal = sys.stdin is not None and sys.stdin.isatty()
    with Signals([*ENDING, *PASSED_ON]) as signals:
        profiler = _started(command, environment, own_session=not on_terminal)
        told = _Run(profiler, program, Course(grace_s), on_terminal, say)
        while profiler.poll() is None:
            for number in signals.wait(told.patience()):
                told.take(number)
            told.on_time()
        told.bury(signals)
    code = profiler.returncode
    killed_by = -code if code < 0 else None
    return Ended(128 - code if code < 0 else code, killed_by, told.course.step is not Step.NOT_TOLD)


def _started(
    command: Sequence[str], environment: Mapping[str, str], *, own_session: bool
) -> subprocess.Popen[bytes]:
    # Where this process is killed nobody else would end the profiler in its session, and the program.
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def end_with_parent() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGINT))

    try:
        return subprocess.Popen(
            command,
            env=environment,
            start_new_session=own_session,
            preexec_fn=end_with_parent,
        )
    except OSError as error:
        raise CaptureError(f"it cannot be started: {reason_of(error)}", where=command[0]) from error


class _Run:
    """A running profiler, and what it was told."""

    def __init__(
        self,
        profiler: subprocess.Popen[bytes],
        program: Sequence[str],
        course: Course,
        on_terminal: bool,
        say: Callable[[str], None],
    ) -> None:
        self._profiler, self._program = profiler, program
        self._on_terminal, self._say = on_terminal, say
        self._undelivered: list[signal.Signals] = []
        self.course = course

    def patience(self) -> float | None:
        """How long nothing has to be done unless a signal comes."""
        if self._undelivered:
            return _LOOK_S
        deadline = self.course.deadline
        return None if deadline is None else max(0.0, deadline - time.monotonic())

    def take(self, number: signal.Signals) -> None:
        """A signal has come."""
        if number in PASSED_ON:
            self._undelivered.append(number)
            return
        step = self.course.told(time.monotonic())
        if step is Step.PROGRAM_TOLD:
            # A terminal sends to all of its processes: the program has it already.
            if not (self._on_terminal and number in (signal.SIGINT, signal.SIGQUIT)):
                self._undelivered.append(number)
            self._say(f"{number.name}: the program is told, and the report is waited for")
        elif step is not None:
            self._end(step)

    def on_time(self) -> None:
        """Does what is due: signals for a program that was not there yet, and steps by the clock."""
        if self._undelivered:
            pid = find(self._profiler.pid, self._program)
            if pid is not None:
                for number in self._undelivered:
                    _send(pid, number)
                self._undelivered.clear()
        step = self.course.late(time.monotonic())
        if step is not None:
            self._undelivered.clear()
            self._end(step)

    def _end(self, step: Step) -> None:
        if step is Step.PROFILER_TOLD:
            # Without the program the profiler is busy with the report; an interrupt could cost it.
            if find(self._profiler.pid, self._program) is not None:
                self._say("the program has not ended: the profiler is interrupted")
                _send(self._profiler.pid, signal.SIGINT)
        elif self._profiler.poll() is None:
            self._say("the profiler has not ended: it is killed")
            for pid in {self._profiler.pid, *self._left()}:
                _send(pid, signal.SIGKILL)

    def bury(self, signals: Signals) -> None:
        """Ends what a profiler left running that was killed; one that ended by itself meant it so."""
        if self._profiler.returncode >= 0:
            return
        for number, seconds in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 1.0)):
            for pid in self._left():
                _send(pid, number)
            until = time.monotonic() + seconds
            while self._left() and time.monotonic() < until:
                signals.wait(_LOOK_S)

    def _left(self) -> list[int]:
        """The processes of the profiler's own session."""
        return [] if self._on_terminal else in_session(self._profiler.pid)


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


PROC = Path("/proc")
_TOOLS = ("nsys", "nvprof", "Qdstrm", "nsight-sys")


def find(profiler: int, program: Sequence[str], proc: Path = PROC) -> int | None:
    """The number of the process that runs `program` below the process `profiler`; None: there is none.

    The highest below it that has the program's arguments; where none has (programs may rename
    themselves), the highest that is no tool of the profiler's.
    """
    children = _children(proc)
    level = children.get(profiler, [])
    highest = None
    while level:
        for pid in level:
            if _runs(pid, program, proc):
                return pid
            if highest is None and not _is_tool(pid, proc):
                highest = pid
        level = [child for pid in level for child in children.get(pid, [])]
    return highest


def in_session(session: int, proc: Path = PROC) -> list[int]:
    """The processes of a session, zombies left out."""
    return [
        pid for pid, (_, own, state) in _processes(proc).items() if own == session and state != "Z"
    ]


def _children(proc: Path) -> dict[int, list[int]]:
    children: dict[int, list[int]] = {}
    for pid, (parent, _, state) in sorted(_processes(proc).items()):
        if state != "Z":
            children.setdefault(parent, []).append(pid)
    return children


def _processes(proc: Path) -> dict[int, tuple[int, int, str]]:
    """Parent, session and state of every process."""
    found = {}
    try:
        names = [name for name in os.listdir(proc) if name.isdigit()]  # noqa: PTH208 - thousands
    except OSError:  # a system without /proc
        return {}
    for name in names:
        try:
            stat = (proc / name / "stat").read_bytes()
            # The command stands in parentheses and may hold any bytes.
            state, parent, _, session, *_ = stat.rpartition(b")")[2].split()
            found[int(name)] = int(parent), int(session), state.decode()
        except (OSError, ValueError):  # it has ended
            continue
    return found


def _runs(pid: int, program: Sequence[str], proc: Path) -> bool:
    """Whether the process has the program's arguments, an interpreter's before them or not."""
    try:
        line = (proc / str(pid) / "cmdline").read_bytes().removesuffix(b"\0").split(b"\0")
    except OSError:
        return False
    wanted = [os.fsencode(argument) for argument in program]
    if len(line) < len(wanted) or line[len(line) - len(wanted) + 1 :] != wanted[1:]:
        return False
    name = os.path.basename(line[-len(wanted)])  # noqa: PTH119 - bytes
    # A tool of the profiler's may have the whole line behind its own options.
    return name == os.path.basename(wanted[0]) and not _is_tool(pid, proc)  # noqa: PTH119


def _is_tool(pid: int, proc: Path) -> bool:
    """Whether a process is the profiler's own, by the file it runs."""
    try:
        program = PurePath(os.readlink(proc / str(pid) / "exe"))  # noqa: PTH115 - may dangle
    except OSError:
        return False
    if program.name.startswith(_TOOLS):
        return True
    return any(part.lower().startswith("nsight-systems") for part in program.parts)
