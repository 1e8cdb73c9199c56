"""Nothing of the environments, paths and output in a profile may leave it, whichever way it is read."""

from __future__ import annotations

import gzip
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from conftest import (
    FIXTURES,
    NSYS,
    NSYS_FILES,
    ODD,
    ODD_FILES,
    UNREADABLE_FILES,
    Shelf,
    changed,
    dump,
    few,
    import_file,
    name_of,
    store_in_place,
    with_slow,
)

from nsysconv import api, schema
from nsysconv.errors import InputError, NsysconvError
from nsysconv.facts import Fact
from nsysconv.importers import nsys_sqlite
from nsysconv.importers.detection import detect
from nsysconv.importers.probe import Probe
from nsysconv.store.location import reading
from nsysconv.store.read import Store
from nsysconv.store.user_sql import views

FILES = [*NSYS_FILES, *ODD_FILES]
# Of all other sources their files, and how many of these hold no secret (none, but for tables cut out of
# what was printed, and small recordings).
OTHERS = {folder.name: sorted(path for path in folder.rglob("*") if path.is_file())
          for folder in FIXTURES.iterdir() if folder.is_dir() and folder not in (NSYS, ODD)}  # fmt: skip
WITHOUT_ONE = {"kineto": 8, "nsys_stats": 21, "nvidia_smi": 7, "nvprof_log": 2, "pytorch_snapshot": 1,
               "rocprof": 8, "rocprofv3_csv": 15}  # fmt: skip
# Words that stand for one, and an address of memory.
_SECRETS = re.compile("SECRET|hunter2|0x7f59c1260000")


def secrets_in(content: bytes | str) -> list[str]:
    """The secrets in a text, or in bytes of UTF-8 or UTF-16."""
    if isinstance(content, bytes):
        content = content.replace(b"\0", b"").decode("latin-1")
    return _SECRETS.findall(content)


def everything(store: Store, shown: Iterable[str] = views()) -> Iterator[str]:
    """All that a store shows to anybody: rows of tables and views, notes, advice, labels."""
    for name in (*schema.metadata.tables, *shown):
        (table,) = store.map(lambda sql, each: sql.table(f'SELECT * FROM "{each}"'), [name])
        yield str(table.to_pylist())
    for profile in store.profiles():
        yield str((profile.ref, profile.attributes, profile.notes, profile.advice))


@pytest.mark.parametrize("path", few(FILES, 8), ids=name_of)
def test_no_secret_in_a_store_or_in_anything_that_it_shows(shelf: Shelf, path: Path) -> None:
    assert len(secrets_in(path.read_bytes())) >= 3, "the test cannot fail"
    assert secrets_in(shelf.store(path).read_bytes()) == []
    with reading(shelf.store(path)) as store:
        assert [text for text in everything(store) if secrets_in(text)] == []


@pytest.mark.parametrize("source", OTHERS)
def test_files_of_other_sources_hold_secrets(source: str) -> None:
    """Perhaps packed; what is cut short cannot be unpacked."""
    without = 0
    for path in OTHERS[source]:
        content = path.read_bytes()
        with suppress(EOFError):
            content = gzip.decompress(content) if path.suffix == ".gz" else content
        without += not secrets_in(content)
    assert without == WITHOUT_ONE.get(source, 0)


@pytest.mark.parametrize("path", with_slow(
    (path, place == 0) for paths in OTHERS.values() for place, path in enumerate(paths)
), ids=name_of)  # fmt: skip
def test_no_secret_of_another_source_gets_into_a_store(path: Path, tmp_path: Path) -> None:
    """With all that is read on request, or into what is said of a file that is refused."""
    include: tuple[str, ...] = ()
    with Probe(path) as probe, suppress(InputError):
        include = tuple(detect(probe).INCLUDABLE)
    (file,) = api.import_files([path], tmp_path / "store.db", include=include).files
    if file.error is not None:
        assert not secrets_in(str(file.error))
        assert not (tmp_path / "store.db").exists()
        return
    assert secrets_in((tmp_path / "store.db").read_bytes()) == []
    with reading(tmp_path / "store.db") as store:
        assert [text for text in everything(store, ()) if secrets_in(text)] == []


@pytest.mark.parametrize("path", few(FILES, 3), ids=name_of)
def test_no_secret_in_anything_shown_in_place(shelf: Shelf, path: Path) -> None:
    assert [text for text in everything(shelf.in_place(path), ()) if secrets_in(text)] == []


@pytest.mark.parametrize(
    "path", few([path for path in NSYS_FILES if path.name.startswith("cpu_side")], 2), ids=name_of
)
def test_no_secret_in_what_is_included_on_request(path: Path, tmp_path: Path) -> None:
    """Folders of modules and sources, names of functions, arguments, metrics that were not sampled."""
    import_file(path, tmp_path / "store.db", include=nsys_sqlite.INCLUDABLE)
    assert secrets_in((tmp_path / "store.db").read_bytes()) == []
    with reading(tmp_path / "store.db") as store:
        (profile,) = store.profiles()
        assert {Fact.OSRT_CALLS, Fact.METRICS} <= profile.facts
    with store_in_place(path, nsys_sqlite.INCLUDABLE) as store:
        assert [text for text in everything(store, ()) if secrets_in(text)] == []


@pytest.mark.parametrize("path", UNREADABLE_FILES, ids=name_of)
def test_no_secret_in_a_refusal(path: Path, tmp_path: Path) -> None:
    with pytest.raises(NsysconvError) as caught:
        import_file(path, tmp_path / "store.db")
    assert not secrets_in(str(caught.value))


def test_no_secret_in_a_store_that_refused_rows(tmp_path: Path) -> None:
    """Pages of a batch that was rolled back are part of the file until something else uses them."""
    source = tmp_path / "export.sqlite"
    source.write_bytes((NSYS / "basic-3.25.0.sqlite").read_bytes())
    # Texts with secrets where numbers belong, in the last rows of the table.
    table = "CUPTI_ACTIVITY_KIND_RUNTIME"
    changed(source, f"UPDATE {table} SET returnValue = 'SECRET-cell' WHERE rowid = 19",
            f"UPDATE {table} SET end = 'SECRET-end' WHERE rowid = 20")  # fmt: skip
    import_file(source, tmp_path / "store.db")
    assert len(dump(tmp_path / "store.db")["api_call"]) == 19
    assert secrets_in((tmp_path / "store.db").read_bytes()) == []


MORE_PLACES = {
    "a rank that is text": "UPDATE META_DATA_CAPTURE SET value = 'RANK=SECRET-rank' "
                           "WHERE name LIKE '%ENVIRONMENT_VARIABLE'",
    "a version that is text": "UPDATE META_DATA_EXPORT SET value = 'SECRET-version 1.2' "
                              "WHERE name = 'EXPORT_PRODUCT_VERSION'",
    "a host with a user": "UPDATE TARGET_INFO_SYSTEM_ENV SET value = 'SECRET-user@host' "
                          "WHERE name = 'Hostname'",
    "a program's whole path": "UPDATE PROCESSES SET name = '/home/SECRET-home/bin/train' "
                              "WHERE name = 'train'",
    "a path of Windows": r"UPDATE PROCESSES SET name = 'C:\Users\SECRET-home\train.exe' "
                         "WHERE name = 'train'",
    "a known message, and more": "UPDATE DIAGNOSTIC_EVENT SET severity = 2, text = 'Not all CUDA "
                                 "events might have been collected. See /home/SECRET-more'",
    "a known message on two lines": "UPDATE DIAGNOSTIC_EVENT SET severity = 3, text = 'CUDA "
                                    "device 0: Unified Memory cannot be traced' || char(10) || "
                                    "'SECRET-line'",
    "an install folder": "UPDATE TARGET_INFO_SYSTEM_ENV SET value = "
                         "'/home/SECRET-home/nsight-systems/2025.1/target' "
                         "WHERE name = 'TargetInstallDir'",
}  # fmt: skip


@pytest.mark.parametrize("place", few(MORE_PLACES, 4))
def test_no_secret_is_in_errors_of_each_kind(place: str, tmp_path: Path) -> None:
    source = tmp_path / "export.sqlite"
    source.write_bytes((NSYS / "basic-3.25.0.sqlite").read_bytes())
    with closing(sqlite3.connect(source)) as connection, connection:
        assert connection.execute(MORE_PLACES[place]).rowcount > 0
    import_file(source, tmp_path / "store.db")
    assert secrets_in((tmp_path / "store.db").read_bytes()) == []
    with store_in_place(source) as store:
        assert [text for text in everything(store, ()) if secrets_in(text)] == []
