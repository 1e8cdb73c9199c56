"""What a store holds: profiles apart from each other, of the right types, readable by anybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import (
    EVENTS,
    NSYS,
    NSYS_FILES,
    ODD,
    ODD_FILES,
    REAL_FILES,
    Shelf,
    add,
    all_columns,
    changed,
    contents,
    event_rows,
    few,
    import_file,
    integer_columns,
    known,
    looking,
    name_of,
    profile_in_place,
    real,
)
from small_store import Kernel, write

from nsysconv import api, schema
from nsysconv.errors import InUseError, UsageError
from nsysconv.importers.contract import Options
from nsysconv.importers.detection import detect
from nsysconv.importers.probe import Probe
from nsysconv.store import read
from nsysconv.store.location import reading, writing
from nsysconv.store.read import Store, find_profile
from nsysconv.store.sqlite import writer as sqlite_rows
from nsysconv.store.user_sql import views
from nsysconv.store.write import Origin

BASIC = NSYS / "basic-3.25.0.sqlite"
SEVERAL = [BASIC, NSYS / "graphs-3.28.1.sqlite", NSYS / "unified_memory-2021.sqlite",
           NSYS / "no_gpu-3.16.1.sqlite", ODD / "bad-cells.sqlite",
           NSYS / "two_processes_one_gpu-3.13.2.sqlite"]  # fmt: skip


# -- several profiles in one store


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of several profiles; not to be written to."""
    store = tmp_path_factory.mktemp("several") / "store.db"
    with writing(store) as writer:
        for source in SEVERAL[:3]:
            add(writer, source)
    for source in SEVERAL[3:]:
        import_file(source, store)
    return store


def test_profiles_do_not_mix(several: Path, shelf: Shelf) -> None:
    with reading(several) as store:
        profiles = store.profiles()
        assert [profile.ref.label for profile in profiles] == [path.name for path in SEVERAL]
        for profile, source in zip(profiles, SEVERAL, strict=True):
            assert contents(profile) == contents(shelf.profile(source))


def test_rows_of_a_profile_are_contiguous(several: Path) -> None:
    """Extents lie one after the other, without holes, and hold the rows of their profile only."""
    with looking(several) as connection:
        for table in EVENTS:
            extents = connection.execute(
                "SELECT profile_id, first_id, last_id, row_count FROM extent "
                "WHERE table_name = ? ORDER BY first_id", (table,)).fetchall()  # fmt: skip
            runs = connection.execute(
                f'SELECT profile_id, min(id), max(id), count(*) FROM "{table}" '
                "GROUP BY profile_id ORDER BY min(id)").fetchall()  # fmt: skip
            assert extents == runs
            following = 1
            for _, first, last, count in extents:
                assert (first, last - first + 1) == (following, count)
                following = last + 1


def test_labels_are_made_unique(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    labels = [import_file(source, store, label="run").label for source in SEVERAL[:3]]
    assert labels == ["run", "run-2", "run-3"]
    with reading(store) as opened:
        assert [profile.ref.label for profile in opened.profiles()] == labels
        assert [row["label"] for row in opened.runs()] == labels


@pytest.mark.parametrize("number", few([2, 1, 3], 1))
def test_a_profile_is_replaced_without_a_trace(tmp_path: Path, shelf: Shelf, number: int) -> None:
    """The first, one between others, and the last, whose row ids are given again."""
    store, new = tmp_path / "store.db", SEVERAL[5]
    for source in SEVERAL[:3]:
        import_file(source, store)
    with writing(store) as writer:
        imported = add(writer, new, label="new", replacing=number)
    assert not imported.existing
    left = [source for n, source in enumerate(SEVERAL[:3], 1) if n != number]
    with reading(store) as opened:
        *others, last = opened.profiles()
        assert [contents(p) for p in others] == [contents(shelf.profile(path)) for path in left]
        assert contents(last) == contents(shelf.profile(new))
        assert [row["label"] for row in opened.runs()] == [*(path.name for path in left), "new"]
    numbers = {profile.id for profile in (*others, last)}
    with looking(store) as connection:
        for table in schema.metadata.tables.values():
            if "profile_id" in table.c:
                sql = f'SELECT DISTINCT profile_id FROM "{table.name}"'
                assert {n for (n,) in connection.execute(sql)} <= numbers, table.name
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_devices_and_processes_are_queried_once(several: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with reading(several) as store:
        profile = store.profiles()[0]
        asked = [profile.rows(table) for table in ("device", "process")]
        monkeypatch.setattr(store, "rows", lambda statement: 1 // 0)
        assert [profile.rows(table) for table in ("device", "process")] == asked
        with pytest.raises(ZeroDivisionError):
            profile.rows("extent")  # another process may have changed these


def test_a_profile_in_place_is_changed_by_nobody(several: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No query is spent on it. In a store, another process may replace a profile."""
    with profile_in_place(NSYS_FILES[0]) as profile:
        monkeypatch.setattr(profile, "current_extents", dict)
        with profile.unchanged():
            pass
    with reading(several) as store:
        stored = store.profiles()[0]
        monkeypatch.setattr(stored, "current_extents", dict)
        with pytest.raises(InUseError), stored.unchanged():
            pass


def test_a_profile_is_found_by_label_and_by_number(several: Path) -> None:
    with reading(several) as store:
        assert find_profile(store, "2").ref.label == SEVERAL[1].name
        assert find_profile(store, SEVERAL[1].name).id == 2
        with pytest.raises(UsageError) as caught:
            find_profile(store, "nothing")
    assert all(source.name in caught.value.hint for source in SEVERAL)


def test_what_is_read_for_all_is_what_each_says(several: Path) -> None:
    with reading(several) as store:
        for profile in store.profiles():
            alone = store.profile(profile.id)
            for name in ("ref", "facts", "missing", "advice", "extents", "attributes"):
                assert getattr(profile, name) == getattr(alone, name)
            assert profile.notes == alone.notes


def test_queries_do_not_grow_with_the_number_of_profiles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    rows = Store.rows
    monkeypatch.setattr(Store, "rows", lambda *each: asked.append(each) or rows(*each))

    def queries(selector: str) -> list[int]:
        found = []
        for do in (
            lambda: api.open(f"{store}@{selector}").close(),
            lambda: api.open(f"{store}@rank=1").close(),
            lambda: api.report_on(f"{store}@{selector}", "kernels"),
        ):
            asked.clear()
            do()
            found.append(len(asked))
        return found

    store = tmp_path / "runs.db"
    for number in range(3):
        write(store, Kernel(1, 2), label=f"r{number}", ranks={1: 1} if number == 1 else None)
    few_profiles = queries("r1")
    for number in range(3, 12):
        write(store, Kernel(1, 2), label=f"r{number}")
    assert queries("r1") == few_profiles


# -- types


@pytest.mark.parametrize("path", few([*NSYS_FILES, *ODD_FILES], 8), ids=name_of)
def test_cells_are_of_the_declared_types_and_views_have_all_rows(shelf: Shelf, path: Path) -> None:
    _assert_types(shelf.store(path))
    profile = shelf.profile(path)
    with looking(shelf.store(path)) as connection:
        for table in EVENTS:
            rows = connection.execute(f"SELECT count(*) FROM v_{table}").fetchall()
            assert rows == [(profile.row_count(table),)], table
        rows = connection.execute("SELECT count(*) FROM v_gpu_op").fetchall()
        assert rows == [(sum(profile.row_count(table) for table in schema.GPU_OP_TABLES),)]


@real
@pytest.mark.parametrize("path", few(REAL_FILES, 2), ids=name_of)
def test_cells_of_real_files_are_of_the_declared_types(shelf: Shelf, path: Path) -> None:
    _assert_types(shelf.store(path))


def _assert_types(store: Path) -> None:
    limit = schema.TIME_LIMIT_NS
    with looking(store) as connection:
        for table in schema.metadata.tables.values():
            for column in table.columns:
                wanted = ["integer" if column.type.python_type is int else "text"]
                if column.nullable:
                    wanted.append("null")
                found = [kind for (kind,) in connection.execute(
                    f'SELECT DISTINCT typeof("{column.name}") FROM "{table.name}"')]  # fmt: skip
                assert set(found) <= set(wanted), f"{table.name}.{column.name}"
            if {"start_ns", "dur_ns"} <= set(table.c.keys()):
                wrong = connection.execute(
                    f'SELECT count(*) FROM "{table.name}" WHERE dur_ns < 0 '
                    f"OR abs(start_ns) > {limit} OR dur_ns > {limit}").fetchone()  # fmt: skip
                assert wrong == (0,), table.name


@pytest.mark.parametrize("path", few([*NSYS_FILES[::4], *ODD_FILES], 3), ids=name_of)
def test_columns_are_what_sql_says(shelf: Shelf, path: Path) -> None:
    """The fast way to read against the plain one."""
    profile = shelf.profile(path)
    with looking(shelf.store(path)) as connection:
        for table in EVENTS:
            names = integer_columns(table)
            sql = f'SELECT {", ".join(names)} FROM "{table}" ORDER BY id'
            rows = connection.execute(sql).fetchall()
            ours = zip(*(known(profile.columns(table, names)[n]) for n in names), strict=True)
            assert list(ours) == rows, table


UNTOLD = {
    "a call's thread": ("CUPTI_ACTIVITY_KIND_RUNTIME", "globalTid", "api_call"),
    "a kernel's process": ("CUPTI_ACTIVITY_KIND_KERNEL", "globalPid", "kernel"),
    "an overhead's thread": ("PROFILER_OVERHEAD", "globalTid", "overhead"),
    "a range's thread": ("NVTX_EVENTS", "globalTid", "range"),
}


@pytest.mark.parametrize("what", few(UNTOLD, 2))
def test_what_one_row_does_not_tell_is_null_or_assumed_everywhere(tmp_path: Path, what: str) -> None:
    """With one process it may be assumed; but then in the store as well as in what is read."""
    theirs, column, ours = UNTOLD[what]
    source = tmp_path / "export.sqlite"
    source.write_bytes(BASIC.read_bytes())
    changed(source, f"UPDATE {theirs} SET {column} = NULL WHERE rowid = 2")
    import_file(source, tmp_path / "store.db")
    with (reading(tmp_path / "store.db") as store, profile_in_place(source) as in_place,
          looking(tmp_path / "store.db") as connection):  # fmt: skip
        (profile,) = store.profiles()
        plain = connection.execute(f'SELECT pid FROM "{ours}" ORDER BY id')
        assert known(profile.columns(ours, ("pid",))["pid"]) == [pid for (pid,) in plain]
        assert event_rows(in_place, ours) == event_rows(profile, ours)


# -- in pieces


@pytest.mark.parametrize("path", few([
    ODD / "odd-durations.sqlite", BASIC, NSYS / "unified_memory-3.25.0.sqlite", ODD / "bad-cells.sqlite",
], 1), ids=name_of)  # fmt: skip
def test_reading_in_pieces_gives_the_same(
    shelf: Shelf, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large tables are read by several connections; here, large is three rows."""
    whole = {table: all_columns(shelf.profile(path), table) for table in EVENTS}
    monkeypatch.setattr(read, "ROWS_PER_THREAD", 3)
    monkeypatch.setattr(read, "cores", lambda: 4)
    with reading(shelf.store(path)) as store, profile_in_place(path) as in_place:
        (imported,) = store.profiles()
        for table, columns in whole.items():
            for profile in (imported, in_place):
                found = all_columns(profile, table)
                assert {n: v.tolist() for n, v in found.items()} == {
                    n: v.tolist() for n, v in columns.items()}, table  # fmt: skip


@pytest.mark.parametrize("path", few([
    BASIC, ODD / "odd-durations.sqlite", NSYS / "unified_memory-3.25.0.sqlite",
], 1), ids=name_of)  # fmt: skip
def test_writing_in_pieces_gives_the_same(
    shelf: Shelf, path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sqlite_rows, "ROWS_AT_ONCE", 3)
    import_file(path, tmp_path / "store.db")
    with reading(tmp_path / "store.db") as store:
        (profile,) = store.profiles()
        assert contents(profile) == contents(shelf.profile(path))


def test_progress_adds_up_to_the_rows_of_the_source(tmp_path: Path) -> None:
    done: dict[str, int] = {}

    def progress(table: str, rows: int) -> None:
        done[table] = done.get(table, 0) + rows

    origin = Origin("label", "source", "path", "sha", "identity")
    with Probe(BASIC) as probe, writing(tmp_path / "store.db") as writer:
        (recording,) = detect(probe).read([probe], Options())
        writer.add([recording], origin, progress)
    assert (done["kernel"], done["api_call"]) == (8, 20)


# -- for everybody else


def test_the_schema_is_readable_by_old_libraries(shelf: Shelf) -> None:
    """STRICT is known to SQLite 3.37 and later; it stands there only while rows come in."""
    with looking(shelf.store(BASIC)) as connection:
        texts = [sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master") if sql]
    assert len(texts) >= len(schema.metadata.tables) + len(views())
    words = ("STRICT", "GENERATED", "RETURNING")
    assert [sql for sql in texts if any(word in sql.upper() for word in words)] == []


def test_a_store_is_whole_for_python_sqlite(shelf: Shelf) -> None:
    for path in (BASIC, ODD / "bad-cells.sqlite"):
        with looking(shelf.store(path)) as connection:
            said = {what: connection.execute(f"PRAGMA {what}").fetchall() for what in (
                "integrity_check", "application_id", "user_version", "journal_mode")}  # fmt: skip
        assert said == {"integrity_check": [("ok",)], "application_id": [(schema.APPLICATION_ID,)],
                        "user_version": [(schema.SCHEMA_VERSION,)],
                        "journal_mode": [("delete",)]}  # fmt: skip


UM, GRAPHS = NSYS / "unified_memory-3.25.0.sqlite", NSYS / "graphs-3.28.1.sqlite"


@pytest.mark.parametrize(("source", "rows", "shown"), [
    (BASIC, "memcpy WHERE correlation_id = 112",
     {"direction": "DtoH", "src_kind": "Device", "dst_kind": "Pageable"}),
    (BASIC, "kernel WHERE correlation_id = 116",
     {"name": "triton_poi_fused_add_0", "dur_ns": 3_000}),
    (BASIC, "api_call WHERE correlation_id = 106", {"name": "cudaLaunchKernel", "layer": "runtime"}),
    (BASIC, "range WHERE start_ns = 9500", {"name": "load", "kind": "push_pop"}),
    (BASIC, "range WHERE start_ns = 9000", {"name": "iteration 1"}),
    (BASIC, "sync WHERE correlation_id = 120", {"api_call": "cudaDeviceSynchronize"}),
    (BASIC, "gpu_op WHERE correlation_id = 112",
     {"kind": "memcpy", "name": "memcpy DtoH", "bytes": 6_000}),
    (UM, "gpu_op WHERE start_ns = 20000", {"name": "UM DtoH", "bytes": 8_192}),
    (GRAPHS, "gpu_op WHERE start_ns = 22000", {"kind": "graph_launch", "dur_ns": 5_000}),
])  # fmt: skip
def test_views_show_words_and_names(shelf: Shelf, source: Path, rows: str, shown: dict[str, Any]) -> None:
    with looking(shelf.store(source)) as connection:
        found = connection.execute(f"SELECT {', '.join(shown)} FROM v_{rows}").fetchone()
    assert found == tuple(shown.values())


def test_a_wait_whose_call_shares_its_id_is_one_row(tmp_path: Path) -> None:
    """A driver call inside a runtime call with the same id, as old drivers record it."""
    source = tmp_path / "export.sqlite"
    source.write_bytes(BASIC.read_bytes())
    changed(source, """INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME
        SELECT start + 1, end - 1, 1, globalTid, correlationId, nameId, 0, NULL
        FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE correlationId = 120""")
    import_file(source, tmp_path / "store.db")
    with looking(tmp_path / "store.db") as connection:
        assert sorted(connection.execute("SELECT id FROM v_sync")) == [(1,), (2,)]
