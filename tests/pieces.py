"""Work for tests of workers: functions that a process elsewhere finds by name."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from nsysconv.errors import InputError, NotRecorded, UsageError
from nsysconv.facts import Fact


def double(number: int) -> int:
    return 2 * number


def slowest_first(number: int) -> int:
    """The earlier, the longer it takes."""
    time.sleep(max(0.0, 0.3 - 0.1 * number))
    return number


def pid(_: int) -> int:
    return os.getpid()


def pid_then_long(number: int) -> int:
    """The first is done at once, the others take very long."""
    if number:
        time.sleep(600)
    return os.getpid()


def starting(_: int) -> int:
    """A process that takes very long is started, and its number given."""
    return subprocess.Popen(["sleep", "600"]).pid


def starting_then_killed(mark: Path) -> None:
    mark.write_text(str(starting(0)))
    die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed_by_sevens(number: int) -> int:
    if number % 7 == 0:
        die()
    return number


def killed_once(marks: Path, number: int) -> int:
    """Number 3 kills its process when it is tried first."""
    if number == 3:
        mark = marks / "tried"
        if not mark.exists():
            mark.touch()
            die()
    return 2 * number


def killed_with_neighbors(marks: Path, number: int) -> int:
    """Number 0 kills its process whenever three others are at work in it, or none is left to come."""
    mark = marks / f"{os.getpid()}-{number}"
    mark.touch()
    if number == 0:
        time.sleep(0.3)
        die()
    time.sleep(0.5)
    return number


def noisy(number: int) -> int:
    print("printed by a piece of work")
    return number


def failing(number: int) -> int:
    """1: cannot be read, 2: not recorded, 3: bad call, 4: a defect, 5: no result that can be sent."""
    if number == 1:
        raise InputError("damaged", where="a.sqlite", hint="Record it again.")
    if number == 2:
        raise NotRecorded("kernels", [Fact.KERNELS], ["Record kernels."])
    if number == 3:
        raise UsageError("no such slice")
    if number == 4:
        raise ZeroDivisionError("of a piece")
    if number == 5:
        return lambda: None  # type: ignore[return-value]
    return number


def read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def running(pids: set[int]) -> set[int]:
    """Those of the processes that still run, once they have had some time to end."""
    left = set(pids)
    for _ in range(100):
        left = {one for one in left if _runs(one)}
        if not left:
            break
        time.sleep(0.1)
    return left


def _runs(one: int) -> bool:
    try:
        state = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"
