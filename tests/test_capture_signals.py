"""Signals: the program gets them, the report is finished, and nothing is left running."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from capturing import PYTHON_WRAPPER, SLURM_RANK_3, WRAPPERS, Place, place
from conftest import few

from nsysconv.capture import child_process
from nsysconv.capture.child_process import Escalation, Step
from nsysconv.record import Record, read

both = pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=list(WRAPPERS))
# For what waits for seconds: the one or the other in `make test`.
CALLED = {wrapper: name for name, wrapper in WRAPPERS.items()}
python_first = pytest.mark.parametrize(
    ("wrapper",), few([(wrapper,) for wrapper in CALLED], 1), ids=CALLED.get
)
shell_first = pytest.mark.parametrize(
    ("wrapper",), few([(wrapper,) for wrapper in reversed(CALLED)], 1), ids=CALLED.get
)

NAME = "train.1234.0.rank3"
# Writes down every signal it gets; ends at SIGTERM only if `end` says so, as the word `over` does.
PROGRAM = """
import os, signal, sys, time
def take(number, frame):
    with open("signals", "a") as file:
        file.write(signal.Signals(number).name + " ")
    if number == signal.SIGTERM and sys.argv[1].isdigit():
        sys.exit(int(sys.argv[1]))
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP):
    signal.signal(number, take)
open("pid.partial", "w").write(str(os.getpid()))
os.rename("pid.partial", "pid")
while not os.path.exists("over"):
    time.sleep(0.05)
"""


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path, **SLURM_RANK_3)


def line(word: str, *options: str) -> list[str]:
    return ["nsys", "profile", *options, "-o", "train", sys.executable, "-c", PROGRAM, word]


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.02)


def program_of(here: Place) -> int:
    """The number of the program's process, once it takes signals."""
    file = here.here / "pid"
    until(file.exists)
    return int(file.read_text())


def signals(here: Place) -> list[str]:
    file = here.here / "signals"
    return file.read_text().split() if file.exists() else []


def record(here: Place) -> Record:
    found = read(here.here / f"{NAME}.nsysconv.json")
    assert found is not None
    return found


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@both
@pytest.mark.parametrize("fault", few(["", "3:slow"], 1))
def test_the_program_is_told_and_the_report_is_finished(
    here: Place, wrapper: Sequence[str], fault: str
) -> None:
    # Within the time of this test it is not the profiler that ends the program.
    with here.start(wrapper, ["--grace", "60"], line("5"), STANDIN_FAULTS=fault) as process:
        program_of(here)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 5
    assert signals(here) == ["SIGTERM"]
    assert record(here).report == f"{NAME}.nsys-rep"
    assert here.left == []


@both
def test_a_program_that_dies_of_the_signal_leaves_a_report(
    here: Place, wrapper: Sequence[str]
) -> None:
    run = ["nsys", "profile", "-o", "train", "sh", "-c", ": > pid; exec sleep 60"]
    with here.start(wrapper, [], run) as process:
        until((here.here / "pid").exists)
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
    assert record(here).signal == signal.SIGTERM
    assert record(here).report == f"{NAME}.nsys-rep"


@shell_first
def test_a_program_that_does_not_end_is_ended_by_the_profiler(
    here: Place, wrapper: Sequence[str]
) -> None:
    with here.start(wrapper, ["--grace", "1"], line("stay", "--kill", "sigkill")) as process:
        program = program_of(here)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 137
    assert signals(here) == ["SIGTERM"]
    assert gone(program)
    assert record(here).report == f"{NAME}.nsys-rep"
    assert "the profiler is interrupted" in (here.here.parent / "said").read_text()


@python_first
def test_a_second_signal_does_not_wait_for_the_grace(here: Place, wrapper: Sequence[str]) -> None:
    with here.start(wrapper, ["--grace", "60"], line("stay", "--kill", "sigkill")) as process:
        program_of(here)
        process.send_signal(signal.SIGTERM)
        time.sleep(2.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 137
    assert record(here).report == f"{NAME}.nsys-rep"


@both
def test_signals_that_warn_are_passed_on_and_end_nothing(
    here: Place, wrapper: Sequence[str]
) -> None:
    with here.start(wrapper, ["--grace", "1"], line("stay")) as process:
        program_of(here)
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
            count = len(signals(here))
            process.send_signal(number)
            until(lambda count=count: len(signals(here)) > count)  # type: ignore[misc]
        (here.here / "over").touch()
        assert process.wait(30) == 0
    assert signals(here) == ["SIGUSR1", "SIGUSR2", "SIGUSR1"]
    assert record(here).report == f"{NAME}.nsys-rep"


@shell_first
def test_a_profiler_that_does_not_end_is_killed_at_the_third_signal(
    here: Place, wrapper: Sequence[str]
) -> None:
    with here.start(wrapper, ["--grace", "60"], line("stay"), STANDIN_FAULTS="3:deaf") as process:
        program = program_of(here)
        for number in range(3):
            # Signals within two seconds are one.
            time.sleep(2.2 if number else 0)
            process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 137
    until(lambda: gone(program))
    assert record(here).report is None
    assert here.left == []


@both
def test_several_signals_at_once_are_one(here: Place, wrapper: Sequence[str]) -> None:
    with here.start(wrapper, ["--grace", "60"], line("stay")) as process:
        program_of(here)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
            process.send_signal(number)
        until(lambda: signals(here) != [])
        (here.here / "over").touch()
        assert process.wait(30) == 0
    assert len(signals(here)) == 1
    assert "interrupted" not in (here.here.parent / "said").read_text()


def test_nothing_is_left_running_by_a_profiler_that_was_killed(here: Place) -> None:
    with here.start(PYTHON_WRAPPER, [], line("stay")) as process:
        program = program_of(here)
        (profiler,) = [int(n) for n in Path(f"/proc/{process.pid}/task/{process.pid}/children")
                       .read_text().split()]  # fmt: skip
        os.kill(profiler, signal.SIGKILL)
        assert process.wait(30) == 137
    until(lambda: gone(program))
    assert record(here).problems == ("no report: nsys was killed (signal 9)",)


def test_nothing_is_left_running_where_the_wrapper_is_killed(here: Place) -> None:
    with here.start(PYTHON_WRAPPER, [], line("0")) as process:
        program = program_of(here)
        process.kill()
    until(lambda: gone(program))


@both
def test_a_rank_whose_wrapper_is_killed_leaves_its_record(
    here: Place, wrapper: Sequence[str]
) -> None:
    with here.start(wrapper, [], line("stay")) as process:
        program = program_of(here)
        process.kill()
    (here.here / "over").touch()
    until(lambda: gone(program))
    told = record(here)
    assert (told.rank, told.world_size, told.job) == (3, 8, "slurm 1234.0")
    assert (told.report, told.exit_status, told.end_utc_ns) == (None, None, None)
    assert told.start_utc_ns is not None
    (problem,) = told.problems
    assert "killed" in problem
    # Where it is killed its scratch is not removed.
    assert f"{here.scratch}/{here.left[0]} on {os.uname().nodename}" in problem


def test_an_export_is_broken_off_and_the_report_is_there(here: Place) -> None:
    wrapper = [*PYTHON_WRAPPER[:-2]]
    run = ["nsys", "profile", "-o", "train", "sh", "-c", "exit 6"]
    with here.start(wrapper, [], run, STANDIN_FAULTS="3:export-hangs") as process:
        told = here.here / f"{NAME}.nsysconv.json"
        until(lambda: told.exists() and b"not imported yet" in told.read_bytes())
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 6
    problem = "not imported to the end: the job was being ended"
    assert record(here).problems == (problem,)
    assert here.files == [f"{NAME}.nsys-rep", f"{NAME}.nsysconv.json"]
    assert here.left == []


def test_a_job_that_is_ended_takes_no_time_for_an_import(here: Place) -> None:
    with here.start([*PYTHON_WRAPPER[:-2]], [], line("5")) as process:
        program_of(here)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 5
    assert record(here).store is None
    assert "pid" in here.files
    assert f"{NAME}.nsys-rep" in here.files


# ---- What to do when.


def test_the_course_of_an_end() -> None:
    course = Escalation(grace_s=10, finish_s=300)
    assert course.on_deadline(1000.0) is None
    assert course.on_signal(1000.0) is Step.PROGRAM_SIGNALLED
    assert course.on_deadline(1009.9) is None
    assert course.on_deadline(1010.0) is Step.PROFILER_SIGNALLED
    assert course.on_deadline(1309.9) is None
    assert course.on_deadline(1310.0) is Step.KILLED
    assert course.deadline is None


def test_each_signal_is_a_step_but_signals_at_once_are_one() -> None:
    course = Escalation(grace_s=10)
    assert course.on_signal(1000.0) is Step.PROGRAM_SIGNALLED
    assert course.on_signal(1000.9) is None
    assert course.on_signal(1001.0) is Step.PROFILER_SIGNALLED
    assert course.on_signal(1003.0) is Step.KILLED
    assert course.on_signal(1005.0) is Step.KILLED


# ---- Which process is the program.


class Processes:
    """A made-up /proc."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "self").mkdir()

    def add(
        self,
        pid: int,
        parent: int,
        line: Sequence[str],
        exe: str,
        state: str = "S",
        session: int = 1,
    ) -> None:
        own = self.folder / str(pid)
        own.mkdir()
        (own / "stat").write_text(f"{pid} (a) ) b) {state} {parent} {pid} {session} 0 -1\n")
        (own / "cmdline").write_bytes(b"".join(os.fsencode(word) + b"\0" for word in line))
        (own / "exe").symlink_to(exe)


PYTHON, TOOL = "/usr/bin/python3.11", "/opt/nvidia/nsight-systems/2026.2.1/target-linux-x64/nsys"
TRAIN = ["python", "train.py", ""]


@pytest.fixture
def proc(tmp_path: Path) -> Processes:
    made = Processes(tmp_path)
    made.add(10, 1, ["nsys", "profile", *TRAIN], TOOL)
    made.add(99, 1, TRAIN, PYTHON)  # somebody else's
    return made


# Processes with their parent, line and executable; the program's line; which of them is it.
@pytest.mark.parametrize(("processes", "line", "program"), [
    ([(11, 10, ["nsys-launcher", "--", *TRAIN], TOOL),
      (12, 10, ["some", "helper"], "/usr/bin/helper"),
      (13, 11, ["/usr/bin/python", *TRAIN[1:]], PYTHON),
      (14, 13, TRAIN, PYTHON)],  # its own child
     TRAIN, 13),
    ([(11, 10, ["some", "helper"], "/usr/bin/helper"),
      (12, 10, ["/bin/sh", "./train.sh", "a"], "/usr/bin/dash")],
     ["./train.sh", "a"], 12),
    ([(11, 10, ["nsys-agent"], TOOL), (12, 11, ["trainer: epoch 3"], PYTHON),
      (13, 12, ["worker"], PYTHON)],
     TRAIN, 12),
    ([(11, 10, TRAIN, PYTHON, "Z"), (12, 10, ["QdstrmImporter"], "/opt/x/QdstrmImporter")],
     TRAIN, None),
], ids=["it has its arguments", "a script has them behind its interpreter",
        "renamed, it is the highest that is not a tool", "it has ended"])  # fmt: skip
def test_the_program_is_found(
    proc: Processes, processes: list[tuple[Any, ...]], line: list[str], program: int | None
) -> None:
    for process in processes:
        proc.add(*process)
    assert child_process.find_program(10, line, proc.folder) == program
    assert child_process.find_program(10, line, proc.folder / "missing") is None


def test_the_processes_of_a_session(proc: Processes) -> None:
    proc.add(11, 1, TRAIN, PYTHON, session=10)
    proc.add(12, 1, TRAIN, PYTHON, session=10, state="Z")
    assert child_process.session_processes(10, proc.folder) == [11]
