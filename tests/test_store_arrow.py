"""Sources that are not SQLite hand over Arrow: the same rows, the same refusals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from conftest import EVENTS, event_rows, integer_columns, known, texts_in_order
from small_store import batches_of

from nsysconv import schema
from nsysconv.errors import NsysconvError
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING
from nsysconv.store.location import reading, writing
from nsysconv.store.recording import (
    ArrayRows,
    ArrowRows,
    Batch,
    ProfileAttributes,
    Recording,
    Summary,
    rows_of,
)
from nsysconv.store.sqlite.connection import open_for_reading
from nsysconv.store.sqlite.page_reader.pages import repeated
from nsysconv.store.sqlite.virtual_store import open_virtual_store
from nsysconv.store.write import Imported, Origin

DEVICES = rows_of(schema.device, [{"device_id": 0, "name": "Some GPU"}, {"device_id": 1}])
PROCESSES = rows_of(schema.process, [{"pid": 7, "rank": 0}, {"pid": 8}])
NAMES = rows_of(schema.name, [
    {"id": 1, "text": "_Z1fv"}, {"id": 2, "text": "cudaLaunchKernel_v7000",
                                 "plain": "cudaLaunchKernel"},
])  # fmt: skip
KERNELS = [
    {"start_ns": 10, "dur_ns": 5, "pid": 7, "device_id": 0, "stream_id": 1, "correlation_id": 1,
     "name_id": 1, "grid_x": 1 << 31},
    {"start_ns": 20, "dur_ns": 0, "pid": 8, "device_id": 1, "name_id": 1},
    {"start_ns": None, "dur_ns": None, "pid": None, "device_id": None, "name_id": None},
]  # fmt: skip
RANGES = [
    {"start_ns": 0, "dur_ns": 9, "pid": 7, "tid": 7, "kind": 0, "domain_id": 0,
     "text": "a 'quoted' \N{LATIN SMALL LETTER U WITH DIAERESIS}"},
    {"start_ns": 1, "dur_ns": None, "pid": 7, "tid": 7, "kind": 2, "domain_id": 0, "text": None,
     "name_id": 1},
]  # fmt: skip
# Many are worth pages of their own.
FEW_OR_MANY = pytest.mark.parametrize("count", [1, 5000], ids=["few rows", "many rows"])
ORIGIN = Origin("label", "made_up", "trace.json", "sha", "identity")


def rows(table: str, cells: Sequence[Mapping[str, Any]]) -> ArrowRows:
    return rows_of(schema.metadata.tables[table], cells)


def recording(batches: Iterable[Batch], notes: Sequence[Note] = ()) -> Recording:
    summary = Summary(
        ProfileAttributes(tool_version="1", recording_ns=100),
        frozenset({Fact.KERNELS, Fact.RANGES}), {Fact.API_CALLS: "Record them."}, notes,
    )  # fmt: skip
    return Recording(batches_of(batches, summary))


def import_rows(store: Path, *batches: Batch, identity: str = "identity") -> Imported:
    origin = replace(ORIGIN, identity=identity)
    with writing(store) as writer:
        (imported,) = writer.add([recording(batches)], origin, lambda table, count: None)
        return imported


def test_rows_come_out_as_they_went_in(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    batches = (rows("kernel", KERNELS), rows("range", RANGES), DEVICES, PROCESSES, NAMES)
    imported = import_rows(store, *batches)
    assert imported.row_counts == dict.fromkeys(EVENTS, 0) | {"kernel": 3, "range": 2}
    with reading(store) as opened:
        (profile,) = opened.profiles()
        for table, cells in (("kernel", KERNELS), ("range", RANGES)):
            for name in integer_columns(table):
                wanted = [row.get(name) for row in cells]
                assert known(profile.columns(table, (name,))[name]) == wanted, name
        assert texts_in_order(profile, "range", "text") == [row["text"] for row in RANGES]
        assert profile.names([1, 2, 3]) == {
            1: "_Z1fv", 2: "cudaLaunchKernel_v7000", 3: "[name 3]"}  # fmt: skip
        assert profile.names([1, 2], plain=True) == {1: "_Z1fv", 2: "cudaLaunchKernel"}
        assert profile.facts == {Fact.KERNELS, Fact.RANGES}
        assert profile.advice == {Fact.API_CALLS: "Record them."}
        assert [row["name"] for row in profile.rows("device")] == ["Some GPU", None]


def test_a_null_is_missing_though_all_others_agree(tmp_path: Path) -> None:
    """One process and one device, and a row that names neither."""
    one = [{"start_ns": 1, "dur_ns": 1, "pid": 7, "device_id": 0},
           {"start_ns": 2, "dur_ns": 1, "pid": None, "device_id": None}]  # fmt: skip
    store = tmp_path / "store.db"
    import_rows(store, rows("kernel", one), rows_of(schema.device, [{"device_id": 0}]),
                rows_of(schema.process, [{"pid": 7}]))  # fmt: skip
    with reading(store) as opened:
        (profile,) = opened.profiles()
        found = profile.columns("kernel", ("start_ns", "pid", "device_id"))
    assert found["pid"].tolist() == [7, MISSING]
    assert found["device_id"].tolist() == [0, MISSING]


def test_few_rows_come_with_the_columns_that_they_have(tmp_path: Path) -> None:
    """Batches that follow each other are taken together where their columns are the same."""
    one = {"start_ns": 1, "dur_ns": 1, "pid": 7, "device_id": 0}
    batches = [[one], [one, one], [one | {"grid_x": 3}], [one | {"grid_x": 4}], [{"pid": 7}]]
    store = tmp_path / "store.db"
    import_rows(store, *(_narrow(cells) for cells in batches))
    with reading(store) as opened:
        (profile,) = opened.profiles()
        found = profile.columns("kernel", ("start_ns", "grid_x"))
    assert known(found["start_ns"]) == [1, 1, 1, 1, 1, None]
    assert known(found["grid_x"]) == [None, None, None, 3, 4, None]


def _narrow(cells: Sequence[Mapping[str, int]]) -> ArrowRows:
    """Rows of kernels with no columns but theirs."""
    return ArrowRows("kernel", pa.table({n: pa.array([c[n] for c in cells]) for n in cells[0]}))


def test_batches_of_a_table_are_contiguous(tmp_path: Path) -> None:
    """Even when other tables' batches come between them, and other profiles before and after."""
    store = tmp_path / "store.db"
    for number in range(3):
        first = [{"start_ns": 100 * number + n, "dur_ns": 1, "pid": 7} for n in range(5)]
        second = [{"start_ns": 100 * number + 50 + n, "dur_ns": 2, "pid": 7} for n in range(4)]
        import_rows(store, rows("kernel", first), rows("range", RANGES), rows("kernel", []),
                    rows("kernel", second), identity=str(number))  # fmt: skip
    with reading(store) as opened:
        for number, profile in enumerate(opened.profiles()):
            found = profile.columns("kernel", ("start_ns", "dur_ns"))
            assert found["start_ns"].tolist() == [
                100 * number + n for n in (*range(5), *range(50, 54))]  # fmt: skip
            assert found["dur_ns"].tolist() == [1] * 5 + [2] * 4
            assert len(event_rows(profile, "range")) == 2


@pytest.mark.parametrize("varied", [True, False], ids=["rows that differ", "rows that do not"])
def test_what_all_rows_have_in_common(tmp_path: Path, varied: bool) -> None:
    """Numbers, nulls, text and fractions, the same in all rows or not."""
    cells: list[dict[str, Any]] = [
        {"pid": 7, "device_id": None, "start_ns": 5 + n * varied, "dur_ns": 1, "bytes": -(1 << 62)}
        for n in range(4)
    ]
    samples: list[dict[str, Any]] = [
        {"device_id": 0, "kernel_name_id": None, "value_min": 0.5 + n * varied} for n in range(3)
    ]
    ranges: list[dict[str, Any]] = [{"pid": 7, "text": "m" * (1 + n * varied)} for n in range(3)]
    store, tables = tmp_path / "store.db", {"memcpy": cells, "metric_sample": samples, "range": ranges}
    import_rows(store, *(rows(table, each) for table, each in tables.items()))
    with open_for_reading(store) as opened:
        for table, wanted in tables.items():
            names = ", ".join(wanted[0])
            assert opened.rows(f'SELECT {names} FROM "{table}" ORDER BY id') == wanted


def test_columns_may_come_in_any_order_and_be_left_out(tmp_path: Path) -> None:
    table = pa.table({"dur_ns": pa.array([3], pa.int64()), "start_ns": pa.array([4], pa.int64())})
    import_rows(tmp_path / "store.db", ArrowRows("memset", table))
    with reading(tmp_path / "store.db") as opened:
        (profile,) = opened.profiles()
        (row,) = event_rows(profile, "memset")
    assert {name: cell for name, cell in row.items() if cell is not None} == {
        "start_ns": 4, "dur_ns": 3}  # fmt: skip


def test_a_failed_import_leaves_nothing_of_rows_that_were_on_the_disk(tmp_path: Path) -> None:
    """They are more than SQLite's cache holds."""
    store = tmp_path / "store.db"
    many = [{"start_ns": n, "dur_ns": 1} for n in range(1, 50_001)]
    names = [{"id": n, "text": str(n)} for n in range(1, 102)]

    def failing() -> Iterator[Batch]:
        yield rows("kernel", many)
        yield rows("name", names)
        yield rows("kernel", many)
        raise ZeroDivisionError

    with writing(store) as writer:
        for batches in ([rows("kernel", many)], failing(), [rows("kernel", many[:10])]):
            origin = replace(ORIGIN, identity=str(len(writer.identities())))
            with suppress(ZeroDivisionError):
                writer.add([recording(batches)], origin, lambda *_: None)
    with open_for_reading(store) as opened:
        assert opened.value("PRAGMA integrity_check") == "ok"
        starts = opened.rows("SELECT start_ns FROM kernel ORDER BY id")
    assert [row["start_ns"] for row in starts] == [*range(1, 50_001), *range(1, 11)]


@FEW_OR_MANY
def test_fractions_of_which_some_are_null(tmp_path: Path, count: int) -> None:
    names = ("value_min", "value_max", "value_avg")
    cells = [dict(zip(names, (n / 8, n / 4 if n % 3 else None, None), strict=True))
             for n in range(count)]  # fmt: skip
    import_rows(tmp_path / "store.db", rows("metric_sample", cells))
    with open_for_reading(tmp_path / "store.db") as opened:
        assert opened.rows(f"SELECT {', '.join(names)} FROM metric_sample ORDER BY id") == cells


def test_large_numbers_stay_exact(tmp_path: Path) -> None:
    numbers = [(1 << 63) - 1, -(1 << 63) + 1, (1 << 53) + 1]
    cells = [{"start_ns": 1, "dur_ns": 1, "bytes": number} for number in numbers]
    import_rows(tmp_path / "store.db", rows("memcpy", cells))
    with reading(tmp_path / "store.db") as opened:
        (profile,) = opened.profiles()
        assert profile.columns("memcpy", ("bytes",))["bytes"].tolist() == numbers


REFUSED = {
    "a kernel ends before it starts": {"start_ns": 5, "dur_ns": -1},
    "a time further away than any recording is long": {"start_ns": (1 << 53) + 1, "dur_ns": 1},
    "no time, written as zeros": {"start_ns": 0, "dur_ns": 0},
}


@pytest.mark.parametrize("what", REFUSED)
@pytest.mark.parametrize("old", [False, True], ids=["new store", "old store"])
def test_rows_that_the_schema_does_not_admit(tmp_path: Path, what: str, old: bool) -> None:
    """An importer's mistake: nothing of the recording stays."""
    store = tmp_path / "store.db"
    if old:
        import_rows(store, rows("kernel", KERNELS), identity="old")
    with pytest.raises(NsysconvError):
        import_rows(store, rows("kernel", [*KERNELS, REFUSED[what]]), identity="new")
    assert [path.name for path in tmp_path.iterdir()] == (["store.db"] if old else [])
    if old:
        with reading(store) as opened:
            assert [p.attributes["identity"] for p in opened.profiles()] == ["old"]
            assert opened.profiles()[0].row_count("kernel") == 3


def with_grid(values: pa.Array) -> Callable[[int], Batch]:
    """Kernels whose `grid_x` is of another type."""
    return lambda count: ArrowRows("kernel", pa.table(
        {"start_ns": range(1, count + 1), "grid_x": values.take([0] * count)}))  # fmt: skip


WRONG_COLUMNS: dict[str, Callable[[int], Batch]] = {
    "text for numbers": with_grid(pa.array(["wide"])),
    "fractions for numbers": with_grid(pa.array([1.5])),
    "bytes for numbers": with_grid(pa.array([b"\x00"])),
    "no column of the schema": lambda count: ArrowRows("kernel", pa.table(
        {"start_ns": range(1, count + 1), "mood": range(count)})),
    "no column of the schema, of arrays": lambda count: ArrayRows(
        "kernel", {"start_ns": 1 + np.arange(count), "mood": np.arange(count)}),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG_COLUMNS)
@FEW_OR_MANY
def test_wrong_columns_are_refused(tmp_path: Path, what: str, count: int) -> None:
    with pytest.raises(NsysconvError):
        import_rows(tmp_path / "store.db", WRONG_COLUMNS[what](count))
    assert list(tmp_path.iterdir()) == []


@FEW_OR_MANY
def test_arrays_make_the_store_that_arrow_makes(tmp_path: Path, count: int) -> None:
    """Of any size of numbers, with nulls or without, and alike in all rows."""
    places = np.arange(count)
    batch = ArrayRows("kernel", {
        "start_ns": 1 + places, "dur_ns": repeated(5, count), "pid": np.where(places % 2, MISSING, 7),
        "grid_x": repeated(MISSING, count), "device_id": places.astype(np.int32) % 3,
    })  # fmt: skip
    import_rows(tmp_path / "arrays.db", batch, batch, DEVICES)
    import_rows(tmp_path / "arrow.db", *[ArrowRows("kernel", batch.rows)] * 2, DEVICES)
    assert (tmp_path / "arrays.db").read_bytes() == (tmp_path / "arrow.db").read_bytes()
    with reading(tmp_path / "arrays.db") as opened:
        (profile,) = opened.profiles()
        found = profile.columns("kernel", ("start_ns", "dur_ns", "pid", "device_id"))
    assert found["start_ns"].tolist() == [*range(1, count + 1)] * 2
    assert found["dur_ns"].tolist() == [5] * count * 2
    assert known(found["pid"]) == [None if n % 2 else 7 for n in range(count)] * 2
    assert found["device_id"].tolist() == [n % 3 for n in range(count)] * 2


@FEW_OR_MANY
def test_batches_of_a_table_may_differ_in_columns_and_kind(tmp_path: Path, count: int) -> None:
    places = np.arange(count)
    starts = ArrayRows("kernel", {"start_ns": places})
    devices = ArrayRows("kernel", {"start_ns": places, "device_id": places % 3})
    batches = (starts, starts, devices, ArrowRows("kernel", devices.rows), starts)
    import_rows(tmp_path / "store.db", *batches, DEVICES)
    with reading(tmp_path / "store.db") as opened:
        (profile,) = opened.profiles()
        found = profile.columns("kernel", ("start_ns", "device_id"))
    assert found["start_ns"].tolist() == [*range(count)] * 5
    none, known_ones = [None] * count, (places % 3).tolist()
    assert known(found["device_id"]) == [*none, *none, *known_ones, *known_ones, *none]


def test_the_same_identity_again_changes_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    first = import_rows(store, rows("kernel", KERNELS))
    again = import_rows(store, rows("kernel", KERNELS[:1]))
    assert (first.existing, again.existing) == (False, True)
    with reading(store) as opened:
        assert [p.row_count("kernel") for p in opened.profiles()] == [3]


def test_notes_are_kept_and_equal_ones_added_up(tmp_path: Path) -> None:
    kernels, all_facts = frozenset({Fact.KERNELS, Fact.MEMCPYS}), frozenset[Fact]()
    notes = [
        Note("wrong-type", Severity.DROPPED, "a row", 2, "row 5", kernels),
        Note("source-copied", Severity.INFO, "it's copied", 1, "trace.json-wal", all_facts),
        Note("wrong-type", Severity.DROPPED, "a row", 3, "row 9", kernels),
        Note("wrong-type", Severity.DROPPED, "another row", 1, "row 7", kernels),
    ]
    with writing(tmp_path / "store.db") as writer:
        writer.add([recording([], notes)], ORIGIN, lambda table, count: None)
    with reading(tmp_path / "store.db") as opened:
        (profile,) = opened.profiles()
        assert profile.notes == (
            Note("wrong-type", Severity.DROPPED, "a row", 5, "row 5", kernels),
            Note("source-copied", Severity.INFO, "it's copied", 1, "trace.json-wal", all_facts),
            Note("wrong-type", Severity.DROPPED, "another row", 1, "row 7", kernels),
        )


def test_only_sqlite_sources_are_read_in_place() -> None:
    with open_virtual_store(recording([]), ORIGIN) as store:
        assert store is None
