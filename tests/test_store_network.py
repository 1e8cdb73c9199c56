"""Stores on network file systems: which these are, and that two hosts never add at once."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import CHILD_ENVIRONMENT, NSYS, import_file, looking

from nsysconv.api import import_files
from nsysconv.errors import UsageError
from nsysconv.partials import pid_namespace
from nsysconv.store import filesystem
from nsysconv.store.filesystem import lock_file, lock_for_adding, network_file_system
from nsysconv.store.location import reading

BASIC = NSYS / "basic-3.25.0.sqlite"

MOUNTS = r"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:30 / /home rw,relatime shared:2 - nfs4 server:/export/home rw,vers=4.2
31 30 8:2 / /home/local rw - xfs /dev/sdb1 rw
40 22 0:40 / /scratch rw master:1 - lustre 10.0.0.1@o2ib:/scratch rw,flock
41 22 0:41 / /my\040data rw - fuse.sshfs me@host:/ rw
42 22 0:42 / /old rw - cifs //server/share rw
43 22 0:43 / /old rw - tmpfs tmpfs rw
not a line of it
"""


@pytest.mark.parametrize(("path", "kind"), [
    ("/home/me/job.db", "nfs4"), ("/home/local/job.db", None), ("/homes/job.db", None),
    ("/scratch", "lustre"), ("/my data/job.db", "fuse.sshfs"), ("/old/job.db", None),
    ("/elsewhere/job.db", None),
])  # fmt: skip
def test_the_longest_mount_point_tells_the_file_system(path: str, kind: str | None) -> None:
    assert network_file_system(Path(path), MOUNTS) == kind


@pytest.mark.parametrize(("kind", "is_network"), [
    ("nfs", True), ("gpfs", True), ("beegfs", True), ("ceph", True), ("wekafs", True), ("9p", True),
    ("fuse.ceph-fuse", True), ("smb3", True), ("ext4", False), ("overlay", False),
    ("fuse.portal", False), ("nfsd", False),
])  # fmt: skip
def test_types_of_network_file_systems(kind: str, is_network: bool) -> None:
    mounts = f"1 1 0:1 / / rw - {kind} x rw"
    assert network_file_system(Path("/a"), mounts) == (kind if is_network else None)


@pytest.fixture
def on_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the system says is on a network file system."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 1 0:1 / {tmp_path} rw - nfs4 server:/ rw")
    monkeypatch.setattr(filesystem, "MOUNTS", mounts)
    return tmp_path


def held_by(store: Path, pid: int, host: str = "") -> None:
    """Leaves the lock of a process, of this host where none is named."""
    lock_file(store).write_text(f"{host or socket.gethostname()} {pid} {pid_namespace()}")


def a_dead_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_a_store_is_one_writers_and_then_the_nexts(on_network: Path) -> None:
    store = on_network / "job.db"
    with lock_for_adding(store):
        assert lock_file(store).read_text().split(" ")[1] == str(os.getpid())
        with (
            pytest.raises(UsageError, match=f"in use by process {os.getpid()} on"),
            lock_for_adding(store, wait_s=0.0),
        ):
            pytest.fail("two at once")
    with lock_for_adding(store, wait_s=0.0):
        pass
    assert not lock_file(store).exists()


def test_the_error_names_who_adds_and_what_to_remove(on_network: Path) -> None:
    store = on_network / "job.db"
    held_by(store, 4242, "node17")
    with pytest.raises(UsageError) as caught, lock_for_adding(store, wait_s=0.0):
        pytest.fail("two at once")
    assert "process 4242 on node17" in caught.value.what
    assert f"rm {lock_file(store)}*" in caught.value.hint
    assert lock_file(store).exists()


def test_what_a_killed_process_of_this_host_left_is_taken_over(on_network: Path) -> None:
    store = on_network / "job.db"
    held_by(store, a_dead_process())
    with lock_for_adding(store, wait_s=0.0):
        assert lock_file(store).read_text().split(" ")[1] == str(os.getpid())
    assert sorted(path.name for path in on_network.iterdir()) == ["mountinfo"]


def test_of_two_that_take_over_one_does(on_network: Path) -> None:
    """The other has seen the dead one, too, and must not remove the first one's file."""
    lock = lock_file(on_network / "job.db")
    held_by(on_network / "job.db", a_dead_process())
    dead = filesystem._read(lock)
    assert filesystem._removed(lock, dead)
    assert filesystem._made(lock)
    assert filesystem._removed(lock, dead)
    assert filesystem._read(lock) == filesystem._ourselves()


def test_a_file_that_is_empty_yet_is_somebodys(on_network: Path) -> None:
    store = on_network / "job.db"
    lock_file(store).touch()
    with pytest.raises(UsageError, match="process unknown on another host"), lock_for_adding(store, 0.0):
        pytest.fail("two at once")


def test_a_link_to_a_store_is_the_same_store(on_network: Path) -> None:
    (on_network / "link.db").symlink_to(on_network / "job.db")
    with lock_for_adding(on_network / "link.db"):
        assert lock_file(on_network / "job.db").exists()


def test_nothing_is_made_beside_a_store_elsewhere(tmp_path: Path) -> None:
    with lock_for_adding(tmp_path / "job.db"):
        assert list(tmp_path.iterdir()) == []


def test_adding_waits_for_who_adds(on_network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = on_network / "job.db"
    import_file(BASIC, store, "first")
    held_by(store, 4242, "node17")
    monkeypatch.setattr(filesystem, "WAIT_S", 0.0)
    with pytest.raises(UsageError, match="node17"):
        import_file(BASIC, store, "second", "other")
    with reading(store) as opened:
        assert [p.ref.label for p in opened.profiles()] == ["first"]


ADD = """
import json, sys
from pathlib import Path
from nsysconv.store import filesystem
from nsysconv.store.sqlite import writer
job = json.loads(sys.argv[1])
filesystem.MOUNTS = Path(job["mounts"])
filesystem.WAIT_S = 60.0
# The locks of this file system hold on one host only.
ours = writer.sqlite_uri
writer.sqlite_uri = lambda path, mode: ours(path, mode + "&nolock=1")
sys.path.insert(0, job["tests"])
from conftest import import_file
for number in range(job["count"]):
    name = f"{job['who']}-{number}"
    import_file(Path(job["source"]), Path(job["store"]), name, name)
"""


@pytest.mark.slow
def test_writers_whose_locks_do_not_hold_do_no_harm(on_network: Path) -> None:
    """Four processes that SQLite's locks do not keep apart."""
    store, count = on_network / "job.db", 5
    import_file(BASIC, store, "first")
    jobs = [{"who": who, "count": count, "store": str(store), "source": str(BASIC),
             "mounts": str(on_network / "mountinfo"), "tests": str(Path(__file__).parent)}
            for who in "abcd"]  # fmt: skip
    writers = [subprocess.Popen([sys.executable, "-c", ADD, json.dumps(job)], env=CHILD_ENVIRONMENT)
               for job in jobs]  # fmt: skip
    assert [writer.wait() for writer in writers] == [0, 0, 0, 0]
    expected = {"first", *(f"{who}-{n}" for who in "abcd" for n in range(count))}
    with reading(store) as opened:
        profiles = opened.profiles()
        assert {p.ref.label for p in profiles} == expected
        assert {p.row_count("kernel") for p in profiles} == {8}
    with looking(store) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert connection.execute("SELECT count(*) FROM kernel").fetchone() == (8 * len(expected),)


def test_who_adds_to_a_store_there_is_told_of_it(on_network: Path) -> None:
    said: list[str] = []
    store = on_network / "job.db"
    import_files([BASIC], store, say=said.append)
    assert said == [], "a new store is nobody else's"
    import_files([NSYS / "basic-3.1.2.sqlite"], store, say=said.append)
    (line,) = said
    assert line.startswith(f"{store} is on a network file system (nfs4): one import adds to it")
