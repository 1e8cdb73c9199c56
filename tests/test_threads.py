"""Work in threads ends soon when a signal ends the block that waits for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path

import pytest
from conftest import CHILD_ENVIRONMENT, by_turns
from make_names import Work
from make_names import nsys as nsys_export

from nsysconv.cli.runtime import Interrupted, signals_raise
from nsysconv.threads import Stopped, Threads, ahead

_SECONDS = 2.0


def _endless() -> None:
    while True:
        time.sleep(0.001)


def _deaf_once() -> None:
    with suppress(Stopped):
        _endless()
    _endless()


def _in_a_pool_of_its_own() -> None:
    with Threads(2) as pool:
        list(pool.map(lambda _: _endless(), range(2)))




@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("work", [_endless, _deaf_once, _in_a_pool_of_its_own])
def test_signal_ends_work_that_has_no_end(
    work: Callable[[], None], number: signal.Signals
) -> None:
    def send() -> None:
        time.sleep(0.1)
        os.kill(os.getpid(), number)

    threading.Thread(target=send).start()
    began = time.monotonic()
    with signals_raise(), pytest.raises(Interrupted), Threads(2) as pool:
        list(pool.map(lambda _: work(), range(4)))
    assert time.monotonic() - began < _SECONDS


def test_what_has_not_begun_is_dropped() -> None:
    begun: list[int] = []
    with pytest.raises(KeyboardInterrupt), Threads(1) as pool:
        futures = [pool.submit(_endless), pool.submit(begun.append, 1)]
        raise KeyboardInterrupt
    assert begun == []
    assert all(future.done() for future in futures)


def test_error_in_the_block_waits_for_work_that_has_begun() -> None:
    ended = []

    def work() -> None:
        started.set()
        time.sleep(0.2)
        ended.append(True)

    started = threading.Event()
    with pytest.raises(ValueError, match="meant"), Threads(1) as pool:
        pool.submit(work)
        started.wait()
        raise ValueError("meant")
    assert ended == [True]


def test_error_of_work_is_raised_where_its_result_is_asked_for() -> None:
    with Threads(2) as pool, pytest.raises(ZeroDivisionError):
        pool.submit(lambda: 1 // 0).result()


def test_items_come_in_order_and_so_does_an_error() -> None:
    def items() -> Iterator[int]:
        yield from range(20)
        raise ValueError("after all of them")

    found = ahead(items(), 3)
    assert list(islice(found, 20)) == list(range(20))
    with pytest.raises(ValueError, match="after all of them"):
        next(found)
    assert list(ahead(iter(()), 3)) == []


def test_no_more_items_are_asked_for_than_in_advance() -> None:
    asked: list[int] = []

    def items() -> Iterator[int]:
        for number in range(100):
            asked.append(number)
            yield number

    before = threading.active_count()
    with closing(ahead(items(), 3)) as found:
        assert [next(found), next(found)] == [0, 1]
    assert len(asked) <= 5
    assert threading.active_count() == before


def test_work_is_done_after_the_main_thread_has_ended() -> None:
    """Python's own pools refuse it, and a program's last thread may still have a report to make."""
    script = (
        "import threading, time\n"
        "from nsysconv.threads import Threads\n"
        "def work():\n"
        "    time.sleep(0.3)\n"
        "    with Threads(2) as pool:\n"
        "        print(*pool.map(abs, [-1, 2]), flush=True)\n"
        "        try: pool.submit(int, 'x').result()\n"
        "        except ValueError: print('error', flush=True)\n"
        "threading.Thread(target=work).start()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=CHILD_ENVIRONMENT, capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("1 2\nerror\n", "")


@pytest.fixture(scope="module")
def many_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export of 60,000 kernels, each with a name of its own: seconds of work in threads."""
    path = tmp_path_factory.mktemp("names") / "many.sqlite"
    path.write_bytes(nsys_export([Work(f"kernel_{n}<float>") for n in range(60_000)], "").content)
    return path


@pytest.mark.parametrize(
    ("words", "moment"), by_turns([(), ("report", "all", "-f", "json")], [0.4, 1.2], 2)
)
def test_signal_ends_command_on_many_names(
    words: tuple[str, ...], moment: float, many_names: Path
) -> None:
    command = [*words[:1], str(many_names), *words[1:]]
    with subprocess.Popen(
        [sys.executable, "-m", "nsysconv", *command],
        env=CHILD_ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        time.sleep(moment)
        process.terminate()
        sent = time.monotonic()
        _, said = process.communicate(timeout=60)
    assert time.monotonic() - sent < _SECONDS
    assert (process.returncode, said) == (128 + signal.SIGTERM, "nsysconv: interrupted\n")
