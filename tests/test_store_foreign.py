"""What is no store of ours is refused and never changed; reading a store changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import NSYS, ODD, Shelf, contents, import_file

from nsysconv import schema
from nsysconv.errors import InputError, NsysconvError, UsageError
from nsysconv.store.location import reading
from nsysconv.store.sqlite.connection import open_for_reading

BASIC = NSYS / "basic-3.25.0.sqlite"


def _version(number: int) -> Callable[[bytes], bytes]:
    return lambda content: content[:60] + number.to_bytes(4, "big") + content[64:]


@pytest.mark.parametrize("version", [0, schema.SCHEMA_VERSION + 1, 999])
def test_a_store_of_another_version_is_refused(tmp_path: Path, version: int, shelf: Shelf) -> None:
    store = tmp_path / "store.db"
    content = _version(version)(shelf.store(BASIC).read_bytes())
    store.write_bytes(content)
    for use in (lambda: import_file(BASIC, store), lambda: reading(store).__enter__()):
        with pytest.raises(InputError) as caught:
            use()
        assert f"version {version}," in str(caught.value)
        assert str(schema.SCHEMA_VERSION) in caught.value.what
        assert ("pip install --upgrade" in caught.value.hint) == (version > schema.SCHEMA_VERSION)
        assert ("nsysconv import" in caught.value.hint) == (version < schema.SCHEMA_VERSION)
    assert store.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["store.db"]


FOREIGN: dict[str, Callable[[], bytes]] = {
    "an empty file": lambda: b"",
    "a text": lambda: b"my notes\n",
    "an export": BASIC.read_bytes,
    "another program's database": (ODD / "foreign.sqlite").read_bytes,
    "the beginning of a store's header": lambda: b"SQLite format 3\0",
}


@pytest.mark.parametrize("what", FOREIGN)
def test_what_is_not_ours_is_never_written_to(tmp_path: Path, what: str) -> None:
    store = tmp_path / "store.db"
    store.write_bytes(FOREIGN[what]())
    before = store.stat()
    for use in (lambda: import_file(BASIC, store), lambda: reading(store).__enter__()):
        with pytest.raises(InputError, match="not an nsysconv store") as caught:
            use()
        assert caught.value.where == str(store)
        assert caught.value.hint
    assert store.read_bytes() == FOREIGN[what]()
    assert store.stat().st_mtime_ns == before.st_mtime_ns
    assert [path.name for path in tmp_path.iterdir()] == ["store.db"]


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(NsysconvError):
        import_file(BASIC, tmp_path)
    with pytest.raises(NsysconvError), reading(tmp_path):
        pass


def test_a_store_in_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="folder does not exist") as caught:
        import_file(BASIC, tmp_path / "missing" / "store.db")
    assert "mkdir -p" in caught.value.hint


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no folder that refuses even root")
def test_a_folder_in_which_nothing_can_be_made() -> None:
    store = Path("/proc/nsysconv-store.db")
    with pytest.raises(UsageError) as caught:
        import_file(BASIC, store)
    assert caught.value.where == str(store)
    assert "cannot be opened" in caught.value.what
    assert caught.value.hint


def test_no_store_to_read(tmp_path: Path) -> None:
    with pytest.raises(NsysconvError, match="no such file"), reading(tmp_path / "store.db"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_store_says_so(tmp_path: Path, shelf: Shelf) -> None:
    content = shelf.store(BASIC).read_bytes()
    store = tmp_path / "store.db"
    for cut in (100, 16_384, len(content) // 2):
        store.write_bytes(content[:cut])
        with pytest.raises(NsysconvError), reading(store) as opened:
            for profile in opened.profiles():
                contents(profile)


def test_reading_changes_nothing(tmp_path: Path, shelf: Shelf) -> None:
    store = tmp_path / "store.db"
    store.write_bytes(shelf.store(BASIC).read_bytes())
    before = store.stat()
    with reading(store) as opened:
        for profile in opened.profiles():
            contents(profile)
    with open_for_reading(store) as connection, pytest.raises(NsysconvError):
        connection.execute("DELETE FROM kernel")
    assert store.read_bytes() == shelf.store(BASIC).read_bytes()
    assert store.stat().st_mtime_ns == before.st_mtime_ns
    assert [path.name for path in tmp_path.iterdir()] == ["store.db"]
