"""A source and its folder are never changed; a journal beside it is honoured without touching it."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import NSYS, ODD, Shelf, event_rows, import_file, profile_in_place

from nsysconv.importers.probe import Probe
from nsysconv.notes import Severity
from nsysconv.store.location import reading
from nsysconv.store.read import Profile

BASIC = NSYS / "basic-3.25.0.sqlite"
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
# Name in the folder: bytes and time of change.
State = dict[str, tuple[bytes, int]]


def state(folder: Path) -> State:
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def read_both_ways(
    source: Path, scratch: Path, question: Callable[[Profile], object]
) -> list[object]:
    """The answer of the import and of the profile in place."""
    scratch.mkdir()
    import_file(source, scratch / "store.db")
    with reading(scratch / "store.db") as store, profile_in_place(source) as in_place:
        (imported,) = store.profiles()
        return [question(imported), question(in_place)]


def notes(profile: Profile) -> list[tuple[str, Severity, int]]:
    return [(note.slug, note.severity, note.count) for note in profile.notes]


@pytest.mark.parametrize("path", [
    BASIC, NSYS / "basic-2020.sqlite", ODD / "views-and-triggers.sqlite", ODD / "bad-cells.sqlite",
], ids=lambda path: path.name)  # fmt: skip
def test_a_source_and_its_folder_stay_as_they_are(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    shutil.copyfile(path, folder / path.name)
    before = state(folder)
    read_both_ways(folder / path.name, tmp_path / "scratch", lambda p: event_rows(p, "kernel"))
    assert state(folder) == before


@pytest.mark.parametrize("path", [ODD / "truncated.sqlite", ODD / "foreign.sqlite"],
                         ids=lambda path: path.name)  # fmt: skip
def test_a_refused_file_stays_as_it_is(path: Path, tmp_path: Path) -> None:
    shutil.copyfile(path, tmp_path / path.name)
    before = state(tmp_path)
    with Probe(tmp_path / path.name) as probe:
        assert probe.damage or probe.tables
    assert state(tmp_path) == before


@pytest.fixture
def wal(tmp_path: Path) -> Path:
    """An export in WAL mode whose last change is in the -wal only: kernel 116 is gone."""
    live, folder = tmp_path / "live", tmp_path / "source"
    live.mkdir()
    folder.mkdir()
    shutil.copyfile(BASIC, live / "export.sqlite")
    connection = sqlite3.connect(live / "export.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA wal_autocheckpoint=0")
    connection.execute(f"DELETE FROM {KERNEL} WHERE correlationId = 116")
    for path in live.iterdir():
        shutil.copyfile(path, folder / path.name)
    connection.close()
    assert (folder / "export.sqlite-wal").stat().st_size > 0
    return folder / "export.sqlite"


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """An export whose writer died: half of its change is in the file, the old pages are beside it."""
    live, folder = tmp_path / "live", tmp_path / "source"
    live.mkdir()
    folder.mkdir()
    shutil.copyfile(BASIC, live / "export.sqlite")
    connection = sqlite3.connect(live / "export.sqlite", isolation_level=None)
    connection.execute("PRAGMA cache_size=2")
    connection.execute("BEGIN")
    connection.execute(f"UPDATE {KERNEL} SET gridX = 77777")
    connection.execute("UPDATE StringIds SET value = 'changed ' || value")
    # More pages than the cache may hold.
    connection.execute("""WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 999)
        INSERT INTO StringIds SELECT 10000 + i, hex(zeroblob(200)) FROM n""")
    for path in live.iterdir():
        shutil.copyfile(path, folder / path.name)
    connection.execute("ROLLBACK")
    connection.close()
    assert b"changed " in (folder / "export.sqlite").read_bytes()
    assert (folder / "export.sqlite-journal").read_bytes()[
        :8
    ] == b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
    return folder / "export.sqlite"


def _kernels(profile: Profile) -> list[object]:
    return list(event_rows(profile, "kernel"))


def test_a_write_ahead_log_is_read_too(wal: Path, tmp_path: Path, shelf: Shelf) -> None:
    before = state(wal.parent)
    whole = event_rows(shelf.profile(BASIC), "kernel")
    wanted = [row for row in whole if row["correlation_id"] != 116]
    assert read_both_ways(wal, tmp_path / "scratch", _kernels) == [wanted, wanted]
    assert state(wal.parent) == before


def test_a_killed_writers_change_is_undone(journal: Path, tmp_path: Path, shelf: Shelf) -> None:
    before = state(journal.parent)
    wanted = event_rows(shelf.profile(BASIC), "kernel")
    assert read_both_ways(journal, tmp_path / "scratch", _kernels) == [wanted, wanted]
    assert state(journal.parent) == before


@pytest.mark.parametrize("kind", ["wal", "journal"])
def test_a_copy_is_a_note(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    source = request.getfixturevalue(kind)
    assert read_both_ways(source, tmp_path / "scratch", notes) == [
        [("source-copied", Severity.INFO, 1)]] * 2  # fmt: skip


def test_a_file_in_wal_mode_without_a_log(tmp_path: Path, shelf: Shelf) -> None:
    """SQLite would make the log and its index anew, even for a reader."""
    folder = tmp_path / "source"
    folder.mkdir()
    source = folder / "export.sqlite"
    shutil.copyfile(BASIC, source)
    connection = sqlite3.connect(source, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()
    assert source.read_bytes()[18:20] == b"\2\2"
    before = state(folder)
    wanted = event_rows(shelf.profile(BASIC), "kernel")

    def during(profile: Profile) -> object:
        assert state(folder) == before
        return _kernels(profile)

    assert read_both_ways(source, tmp_path / "scratch", during) == [wanted, wanted]
    with Probe(source) as probe:
        assert next(probe.iterate("SELECT 1 FROM StringIds")) == (1,)
        rows = probe.iterate("SELECT id FROM StringIds")
        next(rows)
        assert state(folder) == before
        rows.close()
    assert state(folder) == before


def test_a_link_to_a_file_with_a_log(wal: Path, tmp_path: Path) -> None:
    """The log lies beside the file, not beside the link."""
    link = tmp_path / "link.sqlite"
    link.symlink_to(wal)
    counts = read_both_ways(link, tmp_path / "scratch", lambda p: len(_kernels(p)))
    assert counts == [7, 7]


def test_a_log_of_noise(tmp_path: Path, shelf: Shelf) -> None:
    """Checksums do not fit: as for SQLite itself, there is nothing in it."""
    folder = tmp_path / "source"
    folder.mkdir()
    shutil.copyfile(BASIC, folder / "export.sqlite")
    (folder / "export.sqlite-wal").write_bytes(bytes(range(256)) * 20)
    before = state(folder)
    wanted = event_rows(shelf.profile(BASIC), "kernel")
    source = folder / "export.sqlite"
    assert read_both_ways(source, tmp_path / "scratch", _kernels) == [wanted, wanted]
    assert state(folder) == before


@pytest.mark.parametrize("ending", ["-wal", "-shm", "-journal"])
def test_an_empty_file_beside_it_means_nothing(tmp_path: Path, ending: str) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    shutil.copyfile(BASIC, folder / "export.sqlite")
    (folder / f"export.sqlite{ending}").touch()
    before = state(folder)
    found = read_both_ways(folder / "export.sqlite", tmp_path / "scratch", notes)
    assert found == [[], []]
    assert state(folder) == before


def test_the_copy_goes_when_the_probe_is_done(wal: Path) -> None:
    with Probe(wal) as probe:
        copy = probe.readable
        assert copy != wal
        assert copy.exists()
        assert copy.stat().st_mode & 0o077 == 0 or copy.parent.stat().st_mode & 0o077 == 0
    assert not copy.parent.exists()


def test_the_hash_is_that_of_the_bytes() -> None:
    with Probe(BASIC) as probe:
        assert probe.sha256() == hashlib.sha256(BASIC.read_bytes()).hexdigest()


def test_two_states_of_one_file_have_two_hashes(wal: Path, tmp_path: Path) -> None:
    """The file's bytes are the same, but the log beside one of them says something else.

    Else the second import would find the first one's profile and change nothing.
    """
    bare = tmp_path / "bare.sqlite"
    shutil.copyfile(wal, bare)
    with Probe(wal) as with_log, Probe(bare) as without:
        assert with_log.readable != wal
        assert with_log.sha256() != without.sha256()
