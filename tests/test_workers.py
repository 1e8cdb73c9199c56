"""Workers: results in order, errors with their class, killed processes, and nothing left running."""

from __future__ import annotations

import itertools
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pieces
import pytest

from nsysconv import processes as processes_module
from nsysconv.api import workers as workers_module
from nsysconv.api.workers import workers
from nsysconv.errors import InputError, NotRecorded, UsageError
from nsysconv.facts import Fact
from nsysconv.launch import cores
from nsysconv.processes import Processes

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _found_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes find the module of pieces, too."""
    monkeypatch.setenv("PYTHONPATH", str(HERE))


class TestProcesses:
    @pytest.mark.parametrize("size", [10, 10_000_000])
    def test_process_whose_parent_was_killed_says_nothing(self, size: int) -> None:
        worker = subprocess.Popen(
            [sys.executable, "-m", "nsysconv.processes"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert worker.stdin and worker.stdout and worker.stderr
        worker.stdout.close()
        for message in (pickle.dumps((partial, (bytes,))), pickle.dumps(size)):
            worker.stdin.write(len(message).to_bytes(8, "little") + message)
        worker.stdin.close()
        with worker.stderr:
            assert worker.stderr.read() == b""
        assert worker.wait(30) == 0

    def test_only_a_few_items_are_taken_ahead(self) -> None:
        taken: list[int] = []

        def items() -> Iterator[int]:
            for number in itertools.count():
                taken.append(number)
                yield number

        with Processes[int, int](2, partial, pieces.double) as processes:
            assert list(itertools.islice(processes.map(items()), 3)) == [0, 2, 4]
        assert taken == [0, 1, 2, 3, 4]  # 3 results, one more per process

    def test_at_the_end_work_is_not_waited_for_nor_begun_anew(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        started: list[subprocess.Popen[bytes]] = []
        start = processes_module._start

        def counted(*arguments: Any, **options: Any) -> Any:
            started.append(start(*arguments, **options))
            return started[-1]

        monkeypatch.setattr(processes_module, "_start", counted)
        with Processes[int, int](2, partial, pieces.pid_then_long) as processes:
            found = processes.map([0, 1, 1, 1])
            next(found)
        assert len(started) == 2
        assert not pieces.running({process.pid for process in started})

    def test_the_end_comes_however_slowly_processes_are_killed(self) -> None:
        """What waits for a process is not taken up when another ends. In a program that can be ended."""
        code = """
import time; from functools import partial; import pieces; from nsysconv import processes
kill = processes._Process.kill
processes._Process.kill = lambda process: (kill(process), time.sleep(0.2))
with processes.Processes(2, partial, pieces.pid_then_long) as some:
    print(next(some.map([0] + [1] * 6)))
"""
        subprocess.run([sys.executable, "-c", code], check=True, timeout=60, stdout=subprocess.PIPE)

    def test_what_processes_have_started_ends_with_them(self, tmp_path: Path) -> None:
        with Processes[int, int](2, partial, pieces.starting) as processes:
            started = set(processes.map(range(4)))
            for one in started:
                os.kill(one, 0)  # it runs
        assert not pieces.running(started)
        mark = tmp_path / "started"
        with Processes[Path, None](1, partial, pieces.starting_then_killed) as processes:
            list(processes.map([mark], lost=lambda item: None))
            assert not pieces.running({int(mark.read_text())})

    def test_a_result_that_cannot_be_sent_is_an_error_and_the_process_goes_on(self) -> None:
        with Processes[int, int](1, partial, pieces.failing) as processes:
            with pytest.raises(Exception, match="pickle"):
                list(processes.map([5]))
            assert list(processes.map([6])) == [6]

    def test_what_work_prints_does_not_stand_between_results(self) -> None:
        with Processes[int, int](1, partial, pieces.noisy) as processes:
            assert list(processes.map([1, 2])) == [1, 2]

    def test_processes_of_a_program_whose_streams_are_closed(self) -> None:
        code = """
import os, sys; from functools import partial; import pieces; from nsysconv.processes import Processes
with Processes(2, partial, pieces.noisy) as some:
    sys.exit(sum(some.map([1, 2, 3])))
"""
        closed = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", code]
        assert subprocess.run(closed, check=False, timeout=60).returncode == 6


@pytest.mark.parametrize("count", [1, 2])
class TestOnThisMachine:
    def test_results_come_in_the_order_of_items(self, count: int) -> None:
        with workers(count=count) as some:
            assert list(some.map(pieces.slowest_first, range(4))) == [0, 1, 2, 3]

    def test_no_items_no_results(self, count: int) -> None:
        with workers(count=count) as some:
            assert list(some.map(pieces.double, [])) == []

    def test_errors_keep_their_class_and_what_they_say(self, count: int) -> None:
        with workers(count=count) as some:
            with pytest.raises(InputError) as caught:
                list(some.map(pieces.failing, [1]))
            assert str(caught.value) == "a.sqlite: damaged\nRecord it again."
            with pytest.raises(NotRecorded) as missing:
                list(some.map(pieces.failing, [2]))
            assert missing.value.missing == (Fact.KERNELS,)
            assert missing.value.hint == "Record kernels."
            with pytest.raises(UsageError, match="no such slice"):
                list(some.map(pieces.failing, [3]))
            with pytest.raises(ZeroDivisionError, match="of a piece"):
                list(some.map(pieces.failing, [4]))

    def test_results_before_an_error_are_given(self, count: int) -> None:
        with workers(count=count) as some:
            results = some.map(pieces.failing, [6, 7, 1])
            assert [next(results), next(results)] == [6, 7]
            with pytest.raises(InputError):
                next(results)


def test_alone_is_this_process() -> None:
    with workers(count=1) as some:
        assert list(some.map(pieces.pid, [0])) == [os.getpid()]


def test_beside_are_other_processes() -> None:
    with workers(count=2) as some:
        assert os.getpid() not in set(some.map(pieces.pid, range(4)))


def test_there_are_as_many_as_the_cores_that_may_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "cores", lambda: 3)
    with workers() as some:
        assert some.count == 3


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_a_job_that_may_use_one_core_has_one() -> None:
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)


def test_a_killed_process_is_an_input_error_where_nothing_stands_in() -> None:
    with pytest.raises(InputError, match="was killed"), workers(count=2) as some:
        list(some.map(pieces.killed_by_sevens, [1, 7]))


def test_a_stand_in_for_what_was_killed() -> None:
    with workers(count=2) as some:
        found = list(some.map(pieces.killed_by_sevens, range(12), lost=lambda item: -item - 100))
    assert found == [-i - 100 if i % 7 == 0 else i for i in range(12)]


def test_an_interrupt_ends_the_processes_at_once() -> None:
    pids = set()
    with pytest.raises(KeyboardInterrupt), workers(count=2) as some:
        results = some.map(pieces.pid_then_long, [0, 1, 2])
        pids.add(next(results))
        raise KeyboardInterrupt
    assert pids
    assert not pieces.running(pids)


def test_without_dask_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UsageError, match="Dask is not installed") as caught, workers(dask="local"):
        pass
    assert caught.value.hint == "pip install 'nsysconv[dask]'"


def test_dask_is_loaded_only_where_it_is_asked_for() -> None:
    code = (
        "import sys; from nsysconv.api.workers import workers\n"
        "with workers(count=1) as some: list(some.map(abs, [1]))\n"
        "print([name for name in ('dask', 'distributed', 'cryptography') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_workers_import_nothing_from_the_current_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A folder of profiles may hold modules of the names that a worker imports: they are not run."""
    for name in ("nsysconv", "pickle", "socket"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)\n")
    monkeypatch.chdir(tmp_path)
    with Processes(1, partial, pieces.double) as process:
        assert list(process.map([1, 2])) == [2, 4]
