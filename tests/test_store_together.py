"""Several imports into one store at the same time, all of which come in; readers beside them."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import CHILD_ENVIRONMENT, NSYS

import nsysconv
from nsysconv.api import check, import_files, profile_file
from nsysconv.api.open_profile import OpenProfile
from nsysconv.errors import InputError, InUseError, UsageError
from nsysconv.store.location import reading
from nsysconv.store.sqlite import writer
from nsysconv.store.write import tags_of

BASIC = NSYS / "basic-3.25.0.sqlite"
OTHER = NSYS / "graphs-3.24.0.sqlite"
THIRD = NSYS / "ranges-3.0.0.sqlite"


def labels(store: Path) -> list[str]:
    with reading(store) as opened:
        return [profile.ref.label for profile in opened.profiles()]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], None]:
    """Has something done when the next store is complete and has no name yet."""

    def set_up(work: Callable[[], Any]) -> None:
        publish = writer.publish

        def after(partial: Path, path: Path) -> None:
            monkeypatch.setattr(writer, "publish", publish)
            work()
            publish(partial, path)

        monkeypatch.setattr(writer, "publish", after)

    return set_up


Meanwhile = Callable[[Callable[[], Any]], None]


def test_who_is_second_adds_to_the_store_of_the_first(tmp_path: Path, meanwhile: Meanwhile) -> None:
    store = tmp_path / "job.db"
    meanwhile(lambda: import_files([BASIC], store))
    result = import_files([OTHER], store, tags={"commit": "1f3a"})
    assert labels(store) == ["basic-3.25.0", "graphs-3.24.0"]
    (imported,) = result.files[0].imported
    assert (imported.profile_id, imported.label, imported.existing) == (2, "graphs-3.24.0", False)
    assert [run.label for run in result.runs] == ["graphs-3.24.0"]
    with reading(store) as opened:
        assert tags_of(opened.profiles()[1]) == {"commit": "1f3a"}
    assert [path.name for path in tmp_path.iterdir()] == ["job.db"]


def test_what_comes_in_is_what_comes_in_alone(tmp_path: Path, meanwhile: Meanwhile) -> None:
    store, alone = tmp_path / "job.db", tmp_path / "alone.db"
    meanwhile(lambda: import_files([BASIC], store))
    raced = import_files([OTHER], store).files[0].imported[0]
    by_itself = import_files([OTHER], alone).files[0].imported[0]
    counts = {name: count for name, count in raced.row_counts.items() if count}
    assert counts == {name: count for name, count in by_itself.row_counts.items() if count}
    assert (raced.facts, raced.missing) == (by_itself.facts, by_itself.missing)
    assert raced.notes == by_itself.notes


def test_the_same_file_is_there_already(tmp_path: Path, meanwhile: Meanwhile) -> None:
    store = tmp_path / "job.db"
    meanwhile(lambda: import_files([OTHER], store))
    result = import_files([BASIC, OTHER], store)
    assert labels(store) == ["graphs-3.24.0", "basic-3.25.0"]
    assert [file.imported[0].existing for file in result.files] == [False, True]
    assert [file.imported[0].profile_id for file in result.files] == [2, 1]


def test_the_rank_is_told_by_the_file_and_not_by_the_store(
    tmp_path: Path, meanwhile: Meanwhile
) -> None:
    """Names of stores that are being built have numbers in them, too."""
    store, source = tmp_path / "rank7.db", tmp_path / "run.sqlite"
    source.write_bytes((NSYS / "basic-2021.sqlite").read_bytes())
    meanwhile(lambda: import_files([OTHER], store))
    import_files([source], store)
    with reading(store) as opened:
        assert opened.rows("SELECT rank FROM process WHERE profile_id = 2 AND rank IS NOT NULL") == []


def test_a_file_that_is_no_store_stays(tmp_path: Path, meanwhile: Meanwhile) -> None:
    store = tmp_path / "job.db"
    meanwhile(lambda: store.write_text("somebody's"))
    with pytest.raises(UsageError, match="appeared while it was being made"):
        import_files([OTHER], store)
    assert store.read_text() == "somebody's"
    assert [path.name for path in tmp_path.iterdir()] == ["job.db"]


def test_a_store_of_another_version_stays(tmp_path: Path, meanwhile: Meanwhile) -> None:
    store = tmp_path / "job.db"

    def older() -> None:
        import_files([BASIC], store)
        content = bytearray(store.read_bytes())
        content[60:64] = (1_000).to_bytes(4, "big")  # PRAGMA user_version
        store.write_bytes(content)

    meanwhile(older)
    with pytest.raises(InputError, match="the store has schema version 1000"):
        import_files([OTHER], store)


def test_a_store_that_nobody_named_is_added_to_by_nobody(
    tmp_path: Path, meanwhile: Meanwhile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    meanwhile(lambda: import_files([BASIC], "graphs-3.24.0.db"))
    with pytest.raises(UsageError, match="is not the store of this input"):
        import_files([OTHER])
    assert labels(tmp_path / "graphs-3.24.0.db") == ["basic-3.25.0"]


def test_what_is_complete_waits_for_the_others(
    tmp_path: Path, meanwhile: Meanwhile, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, add, refused = tmp_path / "job.db", profile_file.add_store, list[int]()

    def in_use_twice(*arguments: Any) -> None:
        if len(refused) < 2:
            refused.append(1)
            raise InUseError("the database is in use by another process")
        add(*arguments)

    monkeypatch.setattr(profile_file, "add_store", in_use_twice)
    meanwhile(lambda: import_files([BASIC], store))
    import_files([OTHER], store)
    assert labels(store) == ["basic-3.25.0", "graphs-3.24.0"]


@pytest.mark.slow
def test_eight_at_once(tmp_path: Path) -> None:
    sources = sorted(NSYS.glob("basic-*.sqlite"))[:8]
    processes = [
        subprocess.Popen([sys.executable, "-m", "nsysconv", "import", source, "-o", "job.db"],
                         cwd=tmp_path, env=CHILD_ENVIRONMENT, stdout=subprocess.DEVNULL)
        for source in sources
    ]  # fmt: skip
    assert [process.wait() for process in processes] == [0] * 8
    assert sorted(labels(tmp_path / "job.db")) == sorted(source.stem for source in sources)
    assert check(tmp_path / "job.db").row_count == 0
    assert [path.name for path in tmp_path.iterdir()] == ["job.db"]


# -- readers beside writers


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("imported") / "job.db"
    import_files([BASIC, OTHER], path)
    return path


@pytest.fixture
def store(imported: Path, tmp_path: Path) -> Path:
    return shutil.copyfile(imported, tmp_path / "job.db")


def test_what_is_read_at_once_is_of_one_moment(store: Path) -> None:
    importing = threading.Thread(target=import_files, args=([THIRD], store))
    with reading(store) as opened:
        with opened.snapshot():
            runs = opened.runs()
            importing.start()
            time.sleep(0.5)  # by now it waits
            profiles = opened.profiles()
        importing.join()
        assert {each.attributes["run_id"] for each in profiles} == {run["id"] for run in runs}
        assert len(opened.profiles()) == 3


READS: list[Callable[[OpenProfile], object]] = [
    lambda profile: profile.reports(["kernels", "overview"]),
    lambda profile: profile.report("kernels"),
    lambda profile: profile.events("kernel"),
    lambda profile: profile.why("kernel:1"),
]


def test_profile_that_was_replaced_while_it_was_open_is_an_error(store: Path) -> None:
    with nsysconv.open(f"{store}@basic-3.25.0") as profile:
        for read in READS:
            read(profile)
        profile.forget()
        import_files([BASIC], store, replace=True)
        for read in READS:
            with pytest.raises(InUseError, match="another process has replaced the profile"):
                read(profile)
    with nsysconv.open(f"{store}@basic-3.25.0") as profile:
        for read in READS:
            read(profile)


def test_profile_beside_which_others_are_imported_is_read(store: Path) -> None:
    with nsysconv.open(f"{store}@basic-3.25.0") as profile:
        before = profile.report("kernels").rows()
        profile.forget()
        import_files([THIRD], store)
        assert profile.report("kernels").rows() == before


def test_fewer_rows_than_the_store_says_are_damage(store: Path) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as database:
        database.execute("DELETE FROM kernel WHERE id = 2")
    with (
        nsysconv.open(f"{store}@basic-3.25.0") as profile,
        pytest.raises(InputError, match="more or fewer rows than it says"),
    ):
        profile.report("kernels")
