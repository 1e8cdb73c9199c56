"""Run the profiler and pass signals on, so that its report is finished when a job is ended.

The profiler runs in a session of its own (off a terminal), so that what comes to this process does not
reach it by itself. A first signal to end goes to the program; when the program ends, the profiler
finishes its report. If it does not end in time, or at a second signal, the profiler is interrupted, which
makes it end the program and finish; at last all is killed.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path, PurePath
from types import FrameType

from nsysconv.capture import check_system
from nsysconv.errors import CaptureError
from nsysconv.refusals import reason_of

check_system()

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals by which batch systems warn programs; what they do is the program's."""

FINISH_S = 300.0
"""Seconds that a profiler may take over its report, once signalled to end, before it is killed."""
_SAME_S = 1.0
"""Signals to end within this are one: batch systems send several at once."""
_LOOK_S = 0.1
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class ExitState:
    """The end of a profiler: status to pass on, own signal, and whether it was signalled to end."""

    status: int
    killed_by: int | None
    was_signalled: bool


class Step(Enum):
    """Stages of ending a profiler."""

    NOT_SIGNALLED = 0
    PROGRAM_SIGNALLED = 1
    PROFILER_SIGNALLED = 2
    KILLED = 3


class Escalation:
    """A state machine: signals and time in, steps to take out. Knows nothing of processes."""

    def __init__(self, grace_s: float, finish_s: float = FINISH_S) -> None:
        """Give the program `grace_s` seconds to end, and the profiler `finish_s`."""
        self._grace_s, self._finish_s = grace_s, finish_s
        self._last: float | None = None
        self.step = Step.NOT_SIGNALLED
        self.deadline: float | None = None

    def on_signal(self, now: float) -> Step | None:
        """Return the step that a signal to end causes, None for the same signal sent again."""
        if self._last is not None and now - self._last < _SAME_S:
            return None
        self._last = now
        return self._next(now)

    def on_deadline(self, now: float) -> Step | None:
        """Return the step that is due because time has run out, or None."""
        if self.deadline is None or now < self.deadline:
            return None
        return self._next(now)

    def _next(self, now: float) -> Step:
        self.step = Step(min(self.step.value + 1, Step.KILLED.value))
        waits = {Step.PROGRAM_SIGNALLED: self._grace_s, Step.PROFILER_SIGNALLED: self._finish_s}
        self.deadline = now + waits[self.step] if self.step in waits else None
        return self.step


def not_ignored(numbers: Sequence[signal.Signals]) -> list[signal.Signals]:
    """Return those of these signals that are not ignored now: the others are to stay so."""
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


@contextmanager
def handling(
    numbers: Sequence[signal.Signals], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    """Have a handler take these signals within the block."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


Wait = Callable[[float | None], list[signal.Signals]]
"""Waits so many seconds at most (None: until one comes) for signals and returns them."""


@contextmanager
def _receiving(numbers: Sequence[signal.Signals]) -> Iterator[Wait]:
    read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    numbers = not_ignored(numbers)

    def wait(seconds: float | None) -> list[signal.Signals]:
        if not select.select([read], [], [], seconds)[0]:
            return []
        try:
            received = os.read(read, 4096)
        except BlockingIOError:
            return []
        return [signal.Signals(n) for n in received if n in numbers]

    fd_before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        # A handler for SIGCHLD, even one that does nothing, wakes this process when a child ends, and
        # keeps the child's status.
        with handling([*numbers, signal.SIGCHLD], lambda number, frame: None):
            yield wait
    finally:
        signal.set_wakeup_fd(fd_before)
        os.close(read)
        os.close(write)


def run(
    command: Sequence[str],
    program: Sequence[str],
    environment: Mapping[str, str],
    grace_s: float,
    say: Callable[[str], None],
) -> ExitState:
    """Run a profiler's line, whose program is `program`, to its end, and pass signals on.

    `grace_s` is how long the program may take to end. Raises CaptureError where it cannot start.
    """
    on_terminal = sys.stdin is not None and sys.stdin.isatty()
    with _receiving([*ENDING, *PASSED_ON]) as wait:
        profiler = _started(command, environment, own_session=not on_terminal)
        running = _RunningProfiler(profiler, program, Escalation(grace_s), on_terminal, say)
        while profiler.poll() is None:
            for number in wait(running.patience()):
                running.take(number)
            running.on_time()
        running.end_leftovers(wait)
    code, was_signalled = profiler.returncode, running.escalation.step is not Step.NOT_SIGNALLED
    if code < 0:
        return ExitState(128 - code, -code, was_signalled)
    return ExitState(code, None, was_signalled)


def _started(
    command: Sequence[str], environment: Mapping[str, str], *, own_session: bool
) -> subprocess.Popen[bytes]:
    # If this process is killed, no other process ends the profiler in its own session, nor the program.
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None

    def end_with_parent() -> None:
        if libc is not None:
            libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGINT))

    try:
        return subprocess.Popen(
            command, env=environment, start_new_session=own_session, preexec_fn=end_with_parent
        )
    except OSError as error:
        raise CaptureError(f"it cannot be started: {reason_of(error)}", where=command[0]) from error


class _RunningProfiler:
    def __init__(
        self,
        profiler: subprocess.Popen[bytes],
        program: Sequence[str],
        escalation: Escalation,
        on_terminal: bool,
        say: Callable[[str], None],
    ) -> None:
        self._profiler, self._program = profiler, program
        self._on_terminal, self._say = on_terminal, say
        self._undelivered: list[signal.Signals] = []
        self.escalation = escalation

    def patience(self) -> float | None:
        if self._undelivered:
            return _LOOK_S
        deadline = self.escalation.deadline
        return None if deadline is None else max(0.0, deadline - time.monotonic())

    def take(self, number: signal.Signals) -> None:
        if number in PASSED_ON:
            self._undelivered.append(number)
            return
        step = self.escalation.on_signal(time.monotonic())
        if step is Step.PROGRAM_SIGNALLED:
            # A terminal sends to all of its processes: the program has it already.
            if not (self._on_terminal and number in (signal.SIGINT, signal.SIGQUIT)):
                self._undelivered.append(number)
            self._say(f"{number.name}: the program is told, and the report is waited for")
        elif step is not None:
            self._end(step)

    def on_time(self) -> None:
        if self._undelivered:
            pid = find_program(self._profiler.pid, self._program)
            if pid is not None:
                for number in self._undelivered:
                    _send(pid, number)
                self._undelivered.clear()
        step = self.escalation.on_deadline(time.monotonic())
        if step is not None:
            self._undelivered.clear()
            self._end(step)

    def _end(self, step: Step) -> None:
        if step is Step.PROFILER_SIGNALLED:
            # Without the program the profiler is busy with the report; an interrupt could cost it.
            if find_program(self._profiler.pid, self._program) is not None:
                self._say("the program has not ended: the profiler is interrupted")
                _send(self._profiler.pid, signal.SIGINT)
        elif self._profiler.poll() is None:
            self._say("the profiler has not ended: it is killed")
            for pid in {self._profiler.pid, *self._left()}:
                _send(pid, signal.SIGKILL)

    def end_leftovers(self, wait: Wait) -> None:
        if self._profiler.returncode >= 0:
            return
        for number, seconds in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 1.0)):
            for pid in self._left():
                _send(pid, number)
            until = time.monotonic() + seconds
            while self._left() and time.monotonic() < until:
                wait(_LOOK_S)

    def _left(self) -> list[int]:
        return [] if self._on_terminal else session_processes(self._profiler.pid)


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


PROC = Path("/proc")
_TOOLS = ("nsys", "nvprof", "Qdstrm", "nsight-sys")


def find_program(profiler: int, program: Sequence[str], proc: Path = PROC) -> int | None:
    """Return the id of the process that runs `program` below the process `profiler`, or None.

    The topmost one below it that has the program's arguments; where none has (programs may rename
    themselves), the topmost that is not a tool of the profiler's.
    """
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in sorted(_processes(proc).items()):
        children.setdefault(parent, []).append(pid)
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


def session_processes(session: int, proc: Path = PROC) -> list[int]:
    """Return the ids of the processes of a session, without zombies."""
    return [pid for pid, (_, own) in _processes(proc).items() if own == session]


def _processes(proc: Path) -> dict[int, tuple[int, int]]:
    # The result has each process's parent and session, without zombies.
    processes = {}
    try:
        names = [name for name in os.listdir(proc) if name.isdigit()]  # noqa: PTH208 - thousands
    except OSError:  # a system without /proc
        return {}
    for name in names:
        try:
            stat = (proc / name / "stat").read_bytes()
            # The command is in parentheses and may hold any bytes.
            state, parent, _, session, *_ = stat.rpartition(b")")[2].split()
            if state != b"Z":
                processes[int(name)] = int(parent), int(session)
        except (OSError, ValueError):  # it has ended
            continue
    return processes


def _runs(pid: int, program: Sequence[str], proc: Path) -> bool:
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
    try:
        program = PurePath(os.readlink(proc / str(pid) / "exe"))  # noqa: PTH115 - may dangle
    except OSError:
        return False
    if program.name.startswith(_TOOLS):
        return True
    return any(part.lower().startswith("nsight-systems") for part in program.parts)
