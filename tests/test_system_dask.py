"""Work on a Dask cluster: a scheduler and workers as people start them, on loopback."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pieces
import pytest
import repeat_ranks
from conftest import NSYS, dump

import nsysconv
from nsysconv.api import dask_workers
from nsysconv.api.workers import Workers, workers
from nsysconv.errors import InputError, NotRecorded, UsageError
from nsysconv.facts import Fact

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        importlib.util.find_spec("distributed") is None, reason="distributed is not installed"
    ),
    # Of Dask's own threads and sockets when a scheduler goes away.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

HERE = Path(__file__).parent


class Cluster:
    """A scheduler, and workers that are started one by one."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "scheduler.json"
        self._folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.scheduler = self._start(
            "scheduler", "--port", "0", "--dashboard-address", "127.0.0.1:0"
        )
        for _ in range(400):
            with suppress(OSError, ValueError):  # not there yet, or half written
                json.loads(self.file.read_text())
                return
            time.sleep(0.05)
        raise AssertionError("the scheduler did not start")

    def _start(
        self, what: str, *flags: str, python_path: Path | None = None
    ) -> subprocess.Popen[bytes]:
        path = os.pathsep.join(map(str, filter(None, [python_path, HERE])))
        # Two deaths are enough to see what becomes of a piece.
        more = {"PYTHONPATH": path, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1"}
        with (self._folder / f"{what}-{len(self.processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", what, "--host", "127.0.0.1", "--no-dashboard",
                 "--scheduler-file", str(self.file), *flags],
                cwd=self._folder, env={**os.environ, **more}, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self.processes.append(process)
        return process

    def add_worker(self, threads: int = 1, python_path: Path | None = None) -> None:
        """A worker with its nanny, which starts it again when it dies."""
        self._start("worker", "--nthreads", str(threads), "--local-directory", str(self._folder),
                    python_path=python_path)  # fmt: skip

    def stop(self) -> None:
        for process in reversed(self.processes):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def _cluster(folder: Path) -> Iterator[Cluster]:
    cluster = Cluster(folder)
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def of_two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of two workers of one thread each."""
    with _cluster(tmp_path_factory.mktemp("dask")) as cluster:
        cluster.add_worker()
        cluster.add_worker()
        with workers(dask=str(cluster.file)) as some:
            _until(some, 2)
        yield cluster


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Cluster]:
    """A scheduler without workers."""
    with _cluster(tmp_path) as cluster:
        yield cluster


def _until(some: Workers, count: int) -> None:
    """Waits until so many pieces can be worked on at a time."""
    for _ in range(60):
        if some.count == count:
            return
        time.sleep(0.5)
    raise AssertionError(f"there are {some.count} workers and not {count}")


def done(
    cluster: Cluster | Path | str, work: Callable[..., Any], items: Iterable[Any], **options: Any
) -> list[Any]:
    """What comes of a piece of work on each item on a cluster, which its file or address may name."""
    place = cluster.file if isinstance(cluster, Cluster) else cluster
    with workers(dask=str(place)) as some:
        return list(some.map(work, items, **options))


class TestResults:
    def test_they_come_in_the_order_of_items(self, of_two: Cluster) -> None:
        with workers(dask=str(of_two.file)) as some:
            assert some.count == 2
            assert list(some.map(pieces.slowest_first, range(6))) == list(range(6))
            assert list(some.map(pieces.double, [])) == []

    def test_the_scheduler_can_be_named_by_its_address(self, of_two: Cluster) -> None:
        address = json.loads(of_two.file.read_text())["address"]
        assert done(address, pieces.double, range(3)) == [0, 2, 4]

    def test_both_workers_work(self, of_two: Cluster) -> None:
        assert len(set(done(of_two, pieces.pid, range(20)))) == 2

    def test_few_are_made_ahead(self, of_two: Cluster) -> None:
        class Counted(Sequence[int]):
            taken = 0

            def __len__(self) -> int:
                return 10_000

            def __getitem__(self, at: int) -> int:  # type: ignore[override]
                self.taken = max(self.taken, at + 1)
                return at

        items = Counted()
        with workers(dask=str(of_two.file)) as some:
            results = some.map(pieces.double, items)
            assert [next(results) for _ in range(3)] == [0, 2, 4]
            time.sleep(0.5)
            # 3 results, 2 workers with 4 each at most, and the one that finds no room.
            assert items.taken <= 3 + 2 * 4 + 1

    def test_errors_keep_their_class_and_what_they_say(self, of_two: Cluster) -> None:
        with workers(dask=str(of_two.file)) as some:
            with pytest.raises(InputError) as caught:
                list(some.map(pieces.failing, [6, 1]))
            assert str(caught.value) == "a.sqlite: damaged\nRecord it again."
            with pytest.raises(NotRecorded) as missing:
                list(some.map(pieces.failing, [2]))
            assert missing.value.missing == (Fact.KERNELS,)
            with pytest.raises(ZeroDivisionError, match="of a piece") as defect:
                list(some.map(pieces.failing, [4]))
            assert "in failing" in "".join(defect.value.__notes__)

    def test_dask_is_quiet(self, of_two: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
        done(of_two, pieces.double, range(10))
        assert capfd.readouterr() == ("", "")


class TestKilledWorkers:
    def test_the_piece_is_done_again(self, of_two: Cluster, tmp_path: Path) -> None:
        found = done(of_two, partial(pieces.killed_once, tmp_path), range(12))
        assert (tmp_path / "tried").exists()
        assert found == [2 * number for number in range(12)]

    def test_a_piece_that_kills_every_worker_is_lost(self, of_two: Cluster) -> None:
        found = done(of_two, pieces.killed_by_sevens, range(1, 12), lost=lambda item: -item)
        assert found == [1, 2, 3, 4, 5, 6, -7, 8, 9, 10, 11]

    def test_without_a_stand_in_that_is_an_error(self, of_two: Cluster) -> None:
        with pytest.raises(InputError, match="was killed"):
            done(of_two, pieces.killed_by_sevens, [7])

    def test_its_neighbors_in_the_worker_are_not_lost(self, empty: Cluster, tmp_path: Path) -> None:
        work = partial(pieces.killed_with_neighbors, tmp_path)
        empty.add_worker(threads=3)
        assert done(empty, work, range(5), lost=lambda item: -1) == [-1, 1, 2, 3, 4]
        tried = [mark.name.split("-")[1] for mark in tmp_path.glob("[0-9]*-[0-9]")]
        assert tried.count("1") > 1  # it did die with the other


class TestTrouble:
    def test_nobody_answers(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dask_workers, "ANSWER_S", 1)
        with pytest.raises(UsageError, match="no Dask scheduler answers"):
            done("tcp://127.0.0.1:1", pieces.double, [])

    @pytest.mark.parametrize(
        "where",
        ["no/such/scheduler.json", "http://127.0.0.1:1", "a b", "", "tcp://h:port", "tls://h:1"],
    )
    def test_no_address(self, where: str) -> None:
        with pytest.raises(UsageError, match="no Dask scheduler:"):
            done(where, pieces.double, [])

    def test_a_file_that_is_none_of_a_scheduler(self, tmp_path: Path) -> None:
        file = tmp_path / "scheduler.json"
        for text in ("", "{}", "[]", "\x00", '{"address": 1}', '{"address": ""}'):
            file.write_text(text)
            with pytest.raises(UsageError, match="no Dask scheduler:"):
                done(file, pieces.double, [])

    def test_no_worker_comes(self, empty: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dask_workers, "WORKERLESS_S", 1)
        with pytest.raises(UsageError, match="has had no worker"):
            done(empty, pieces.double, [])

    @pytest.mark.parametrize(
        ("times", "victim", "number", "said"),
        [
            ({"WORKERLESS_S": 2, "_LOOK_S": 1}, "worker", signal.SIGKILL, "has had no worker"),
            ({}, "scheduler", signal.SIGKILL, "does not answer any more"),
            ({"ANSWER_S": 2, "_LOOK_S": 1}, "scheduler", signal.SIGSTOP, "does not answer any more"),
        ],
        ids=["workers go and none comes back", "the scheduler goes", "the scheduler hangs"],
    )
    def test_in_the_middle_of_work(
        self, empty: Cluster, monkeypatch: pytest.MonkeyPatch,
        times: dict[str, int], victim: str, number: signal.Signals, said: str,
    ) -> None:  # fmt: skip
        for name, seconds in times.items():
            monkeypatch.setattr(dask_workers, name, seconds)
        empty.add_worker()
        with pytest.raises(UsageError, match=said), workers(dask=str(empty.file)) as some:
            results = some.map(pieces.pid_then_long, [0, 1])
            next(results)
            process = empty.scheduler if victim == "scheduler" else empty.processes[-1]
            os.killpg(process.pid, number)
            next(results)

    def test_a_worker_without_nsysconv(self, empty: Cluster, tmp_path: Path) -> None:
        hidden = tmp_path / "hidden"
        hidden.mkdir()
        (hidden / "nsysconv.py").write_text("raise ModuleNotFoundError(\"No module 'nsysconv'\")")
        empty.add_worker(python_path=hidden)
        with pytest.raises(UsageError, match="No module 'nsysconv'") as caught:
            done(empty, pieces.double, [1])
        assert "the same nsysconv" in caught.value.hint

    def test_a_worker_with_another_nsysconv(
        self, of_two: Cluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(dask_workers, "__version__", "99.0")
        with pytest.raises(UsageError, match=r"has nsysconv .*, this is 99\.0"):
            done(of_two, pieces.double, [1])

    @pytest.mark.skipif(
        not Path("/proc/self").exists(), reason="no file that one process alone sees"
    )
    def test_a_file_that_a_worker_does_not_see(self, of_two: Cluster) -> None:
        file = Path(f"/proc/self/task/{os.getpid()}/status")
        assert file.exists()
        with pytest.raises(InputError, match="not there for the Dask worker on") as caught:
            done(of_two, pieces.read_text, [file], files=lambda path: [path])
        assert caught.value.where == str(file)

    def test_a_file_that_is_nowhere_is_for_the_work_to_tell(
        self, of_two: Cluster, tmp_path: Path
    ) -> None:
        with pytest.raises(FileNotFoundError):
            done(of_two, pieces.read_text, [tmp_path / "none"], files=lambda path: [path])


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exports of eight ranks of a job, and a file that is not a profile."""
    folder = tmp_path_factory.mktemp("ranks") / "job"
    repeat_ranks.generate(folder, NSYS / "nccl-3.25.0.sqlite", ranks=8, kernels=1000)
    (folder / "notes.txt").write_text("what a folder may hold")
    return folder


@pytest.fixture(scope="module")
def serial(ranks: Path) -> Path:
    """Their store, made by this process alone."""
    store = ranks.parent / "serial.db"
    nsysconv.import_files([ranks], store, workers=1)
    return store


REPORTS = ("overview", "kernels", "rank_summary", "stragglers", "gpu_time_util_map")


def _told(store: Path | str, **how: Any) -> list[tuple[object, ...]]:
    """All that reports on ranks say."""
    found = nsysconv.report_on(store, REPORTS, **how)
    assert len(found) == len(REPORTS)
    return [(each.name, each.table and each.table.to_pylist(), each.notes, each.profiles)
            for each in found]  # fmt: skip


def _held(store: Path) -> dict[str, list[tuple[object, ...]]]:
    """All that a store holds. Advice on how to record what is there is kept by the first import only."""
    tables = dict(dump(store))
    tables["profile_fact"] = [
        (*row[:3], None if row[2] else row[3]) for row in tables["profile_fact"]
    ]
    return tables


@pytest.fixture(params=["all live", "one is killed"])
def cluster(
    request: pytest.FixtureRequest, of_two: Cluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A cluster; the second time one of its workers is killed when the third piece has begun."""
    killed: list[int] = []
    begun: list[object] = []
    begin = dask_workers._Pieces.begin

    def killing(self: dask_workers._Pieces[object, object], item: object) -> object:
        future = begin(self, item)
        begun.append(item)
        if len(begun) == 3:
            pids = self._cluster.client.run(os.getpid)
            killed.append(next(iter(pids.values())))
            os.kill(killed[0], signal.SIGKILL)
        return future

    if request.param == "all live":
        yield str(of_two.file)
        return
    monkeypatch.setattr(dask_workers._Pieces, "begin", killing)
    yield str(of_two.file)
    assert len(begun) > 3  # it was in the middle
    assert len(killed) == 1


class TestOutcome:
    """Import and report by way of a cluster do what they do without."""

    def test_import(self, cluster: str, ranks: Path, serial: Path, tmp_path: Path) -> None:
        store = tmp_path / "store.db"
        result = nsysconv.import_files([ranks], store, dask=cluster)
        assert [file.path.name for file in result.files if file.error] == ["notes.txt"]
        assert _held(store) == _held(serial)
        assert list(tmp_path.iterdir()) == [store]

    def test_import_again_changes_nothing(
        self, of_two: Cluster, ranks: Path, serial: Path, tmp_path: Path
    ) -> None:
        store = tmp_path / "store.db"
        store.write_bytes(serial.read_bytes())
        result = nsysconv.import_files([ranks], store, dask=str(of_two.file))
        assert all(one.existing for file in result.files for one in file.imported)
        assert _held(store) == _held(serial)

    def test_report(self, cluster: str, serial: Path) -> None:
        assert _told(serial, dask=cluster) == _told(serial, workers=1)

    def test_report_on_a_folder(
        self, of_two: Cluster, ranks: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # Named from here: workers have folders of their own that they are started in.
        monkeypatch.chdir(ranks.parent)
        assert _told(ranks.name, dask=str(of_two.file)) == _told(ranks.name, workers=1)


SCRIPT = """
    import os, sys, time
    import pieces
    from nsysconv.api.workers import workers

    print("the script runs", flush=True)
    with workers(dask="local", count=2) as some:
        results = some.map(pieces.pid_then_long if sys.argv[1:] else pieces.pid, range(4))
        print(next(results), os.getpid(), flush=True)
        list(results)
"""


class TestLocal:
    @pytest.fixture
    def script(self, tmp_path: Path) -> Path:
        path = tmp_path / "script.py"
        path.write_text(textwrap.dedent(SCRIPT))
        return path

    def _started(self, script: Path, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, str(script), *arguments], cwd=script.parent, text=True,
            env={**os.environ, "PYTHONPATH": str(HERE), "TMPDIR": str(script.parent)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def test_the_callers_script_runs_once_and_nothing_stays(self, script: Path) -> None:
        process = self._started(script)
        out, err = process.communicate(timeout=60)
        first, second = out.splitlines()
        assert first == "the script runs"
        worker, caller = map(int, second.split())
        assert worker != caller
        assert not pieces.running({worker})
        assert err == ""
        assert list(script.parent.iterdir()) == [script]

    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
    def test_a_signal_leaves_nothing_running(self, script: Path, number: signal.Signals) -> None:
        process = self._started(script, "long")
        assert process.stdout is not None
        process.stdout.readline()
        worker = int(process.stdout.readline().split()[0])
        process.send_signal(number)
        process.communicate(timeout=30)
        assert not pieces.running({worker})

    def test_only_this_machine_can_reach_it_and_only_with_its_keys(self) -> None:
        from distributed import Client

        with workers(dask="local", count=1) as some:
            address = some.client.scheduler.address  # type: ignore[attr-defined]
            assert address.startswith("tls://127.0.0.1:")
            with pytest.raises(OSError, match=r"."):
                Client(address.replace("tls", "tcp"), timeout=2, set_as_default=False)
            with pytest.raises((OSError, TypeError), match=r"."):
                Client(address, timeout=2, set_as_default=False)
