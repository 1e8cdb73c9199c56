"""Profiles as folders of Parquet and Arrow files: read back, they are what the store holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from conftest import (
    FIXTURES,
    NSYS,
    ODD,
    REAL,
    REAL_FILES,
    REAL_TRACES,
    ROOT,
    changed,
    dump,
    few,
    looking,
    name_of,
    provenance,
    real,
)
from small_store import (
    Call,
    Fault,
    Kernel,
    Memcpy,
    MpiCall,
    Operator,
    Range,
    Total,
    write,
)

import nsysconv
from nsysconv import codes, schema
from nsysconv.api.exporting import export_profiles
from nsysconv.export import tables
from nsysconv.store.connection import arrow_type
from nsysconv.timeline.slices import Slice

BASIC = NSYS / "basic-3.25.0.sqlite"
TWO_GPUS = NSYS / "two_processes_two_gpus-3.24.7.sqlite"
RANKS = [FIXTURES / "kineto" / f"two_processes_two_gpus-2.13-600{i}.json" for i in (1, 2)]
FILES = sorted(path for path in FIXTURES.rglob("*") if path.is_file() and path.suffix != ".md")
PER_SOURCE = [BASIC, FIXTURES / "kineto" / "training-2.13.json",
              FIXTURES / "nvprof_database" / "basic-12.nvvp",
              FIXTURES / "nvprof_log" / "basic-both-traces.csv"]  # fmt: skip
REAL_OTHERS = [REAL / row["file"] for folder in ("nvprof_sqlite", "nvprof_csv", "nvprof_text")
               for row in provenance(folder)]  # fmt: skip
ENDINGS = {"parquet": ".parquet", "arrow": ".arrow"}

Cells = dict[str, list[tuple[Any, ...]]]
Sums = dict[tuple[Any, ...], tuple[int, int]]
"""How many kernels there are of a key, and how long they took."""


def opened(folder: Path, table: str, to: str = "parquet") -> pa.Table:
    """A table of an export of one profile."""
    path = folder / f"{table}{ENDINGS[to]}"
    return pq.read_table(path) if to == "parquet" else pa.ipc.open_file(path).read_all()


def every_table(folder: Path, to: str = "parquet") -> dict[str, pa.Table]:
    """The tables of an export of one profile by name."""
    return {path.stem: opened(folder, path.stem, to) for path in sorted(folder.iterdir())}


def cells(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows of a table in an order of their own."""
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return sorted(rows, key=repr)


def stored(store: Path) -> Cells:
    """All rows of a store in that order, but for tables without rows and what only the store needs."""
    return {name: sorted(rows, key=repr) for name, rows in dump(store).items()
            if rows and name not in ("checksum", "extent", "implausible", "kept_report")}  # fmt: skip


def exported(folder: Path, to: str = "parquet") -> Cells:
    return {name: cells(table) for name, table in every_table(folder, to).items()}


def partitions(folder: Path) -> Cells:
    """All rows of an export of several profiles: every file by itself, whatever its folder says."""
    found: Cells = {}
    for path in folder.rglob("*.parquet"):
        table = path.relative_to(folder).parts[0]
        found.setdefault(table, []).extend(cells(pq.ParquetFile(path).read()))
    return {name: sorted(rows, key=repr) for name, rows in found.items()}


def imported(store: Path, *sources: Path) -> bool:
    """Imports files into a new store; whether there was anything to import."""
    found = nsysconv.import_files(sources, store)
    return any(file.imported for file in found.files)


# -- round trips


@pytest.mark.parametrize("path", few(FILES, 3), ids=name_of)
def test_an_export_holds_what_the_store_holds(path: Path, tmp_path: Path) -> None:
    store = tmp_path / "job.db"
    if not imported(store, path):
        pytest.skip("no profile: made to be refused")
    made = export_profiles(store, "parquet", tmp_path / "out", names=False)
    there = stored(store)
    ours = exported(made.path) if len(there["profile"]) == 1 else partitions(made.path)
    assert ours == there
    assert {k: n for k, n in made.written.counts.items() if n} == {
        name: len(rows) for name, rows in there.items() if name in made.written.counts}  # fmt: skip


@real
@pytest.mark.parametrize("path", few([*REAL_FILES, *REAL_TRACES, *REAL_OTHERS], 1), ids=name_of)
def test_real_files_keep_counts_sums_and_links(path: Path, tmp_path: Path) -> None:
    store, folder = tmp_path / "job.db", tmp_path / "out"
    if not imported(store, path):
        pytest.skip("no profile that this version reads")
    export_profiles(store, "parquet", folder)
    with looking(store) as connection:
        for event in schema.EVENT_TABLES:
            columns = [c for c in schema.metadata.tables[event].c if arrow_type(c) == pa.int64()]
            asked = ", ".join(f'count("{c.name}"), total("{c.name}" % 1000003)' for c in columns)
            expected = connection.execute(f'SELECT count(*), {asked} FROM "{event}"').fetchone()
            assert summed(folder, event, [c.name for c in columns]) == expected, event


def summed(folder: Path, table: str, names: list[str]) -> tuple[float, ...]:
    """Rows of a table; per column how many values it has and the sum of what is left of them modulo."""
    files = sorted(folder.glob(f"{table}.parquet")) or sorted((folder / table).rglob("*.parquet"))
    rows, known, left = 0, dict.fromkeys(names, 0), dict.fromkeys(names, 0.0)
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches(columns=names):
            rows += len(batch)
            for name in names:
                values = batch.column(name).drop_null().to_numpy(zero_copy_only=False)
                known[name] += len(values)
                left[name] += float(np.fmod(values, 1_000_003).sum())
    return (rows, *(each for name in names for each in (known[name], left[name])))


@pytest.mark.parametrize("path", few(PER_SOURCE, 1), ids=name_of)
def test_arrow_files_hold_what_the_store_holds(path: Path, tmp_path: Path) -> None:
    assert imported(tmp_path / "job.db", path)
    export_profiles(tmp_path / "job.db", "arrow", tmp_path / "out", names=False)
    assert exported(tmp_path / "out", "arrow") == stored(tmp_path / "job.db")


@pytest.mark.parametrize("path", few([*PER_SOURCE, *sorted(ODD.glob("*cells.sqlite")), TWO_GPUS,
                                      ODD / "zero-times.sqlite", ODD / "odd-durations.sqlite",
                                      NSYS / "cpu_side-3.28.1.sqlite"], 1), ids=name_of)  # fmt: skip
def test_a_file_in_place_gives_what_its_import_gives(path: Path, tmp_path: Path) -> None:
    assert imported(tmp_path / "job.db", path)
    there = export_profiles(tmp_path / "job.db", "parquet", tmp_path / "there")
    here = export_profiles(path, "parquet", tmp_path / "here")
    assert here.written.counts == there.written.counts
    assert {n.slug: n.count for n in here.written.notes} == {
        n.slug: n.count for n in there.written.notes}  # fmt: skip
    ours, theirs = every_table(here.path), every_table(there.path)
    assert ours.keys() == theirs.keys()
    for name, table in ours.items():
        # In place, rows that the source has and we have not leave holes in the numbering.
        of_profile = ["identity", "sha256", "examined"]
        own = {"profile": of_profile, "aggregate": [], "name": []}.get(name, ["id"])
        kept = [column for column in table.column_names if column not in own]
        ours_, theirs_ = table.select(kept), theirs[name].select(kept)
        same = (
            ours_.equals(theirs_) if name in schema.EVENT_TABLES else cells(ours_) == cells(theirs_)
        )
        assert same, name


@pytest.mark.parametrize("cell", few([
    "CUPTI_ACTIVITY_KIND_KERNEL SET registersPerThread = 'many' WHERE rowid = 8",
    "CUPTI_ACTIVITY_KIND_KERNEL SET end = start - 1 WHERE rowid = 3",
    "CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 'first' WHERE rowid = 3",
    "CUPTI_ACTIVITY_KIND_KERNEL SET shortName = 'saxpy' WHERE rowid = 3",
    "CUPTI_ACTIVITY_KIND_MEMCPY SET bytes = 1.5 WHERE rowid = 2",
], 1))  # fmt: skip
@pytest.mark.parametrize("part", few([None, Slice(processes=(4242,))], 1), ids=str)
def test_a_wrong_cell_in_place_is_left_out_as_in_an_import(
    cell: str, part: Slice | None, tmp_path: Path
) -> None:
    source = tmp_path / "job.sqlite"
    source.write_bytes(BASIC.read_bytes())
    changed(source, f"UPDATE {cell}")
    assert imported(tmp_path / "job.db", source)
    there = export_profiles(
        tmp_path / "job.db", "parquet", tmp_path / "there", slice=part
    )
    here = export_profiles(source, "parquet", tmp_path / "here", slice=part)
    assert here.written.notes == there.written.notes
    assert [note.slug for note in here.written.notes] != []
    for event in ("kernel", "memcpy", "api_call"):
        theirs = opened(there.path, event).drop(["id"])
        assert cells(opened(here.path, event).drop(["id"])) == cells(theirs)
    notes = opened(here.path, "note").select(["slug", "text", "count"])
    assert cells(notes) == cells(opened(there.path, "note").select(["slug", "text", "count"]))


def test_types_are_the_schema_s(tmp_path: Path) -> None:
    """Also where the first rows of a column are all null, of which a driver cannot know the type."""
    rows = [Range(i, i + 1, f"r{i}") for i in range(3)]
    totals = [Total("range", 1, 5, name="a"), Total("range", 1, 5, name="b", med=1.5, stddev=None)]
    write(tmp_path / "s.db", *rows, *totals)
    export_profiles(tmp_path / "s.db", "parquet", tmp_path / "out", names=False)
    for name, table in every_table(tmp_path / "out").items():
        declared = schema.metadata.tables[name].columns
        assert table.column_names == [column.name for column in declared]
        assert table.schema.types == [arrow_type(column) for column in declared], name
    aggregate = opened(tmp_path / "out", "aggregate")
    assert aggregate.column("med_ns").to_pylist() == [None, 1.5]
    assert aggregate.column("med_ns").type == pa.float64()
    assert opened(tmp_path / "out", "range").column("text").null_count == 0


def test_nulls_and_texts_of_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A type is taken from a batch: one row each is the hardest."""
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 1)
    rows = [Operator(1, 2, "a"), Kernel(None, None, None, occupancy=None), Kernel(3, 5, 1, occupancy=7),
            Total("kernel", 1), Total("kernel", 2, med=2.5)]  # fmt: skip
    write(tmp_path / "s.db", *rows, threads={(1, 11): {"name": None}, (1, 12): {"name": "worker"}})
    export_profiles(tmp_path / "s.db", "parquet", tmp_path / "out", names=False)
    assert exported(tmp_path / "out") == stored(tmp_path / "s.db")
    assert pq.ParquetFile(tmp_path / "out" / "kernel.parquet").num_row_groups == 2


def test_text_that_is_no_utf8_keeps_its_readable_part(tmp_path: Path) -> None:
    write(tmp_path / "s.db", Range(0, 1, "good"), Range(1, 2, "text"))
    changed(tmp_path / "s.db",
            "UPDATE range SET text = CAST(x'62ff64' AS TEXT) WHERE text = 'text'")  # fmt: skip
    export_profiles(tmp_path / "s.db", "parquet", tmp_path / "out")
    assert opened(tmp_path / "out", "range").column("text").to_pylist() == ["good", "b�d"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A profile as folders of Arrow and of Parquet files."""
    folders = {name: tmp_path_factory.mktemp(name) / "out" for name in ENDINGS}
    for name, folder in folders.items():
        export_profiles(BASIC, name, folder)
    return folders


# -- what columns say of themselves


def test_columns_and_tables_say_what_they_are(whole: Mapping[str, Path]) -> None:
    for to in ENDINGS:
        found = opened(whole[to], "memcpy", to).schema
        assert found.metadata[b"comment"].decode() == schema.memcpy.comment
        assert found.metadata[b"schema_version"] == str(schema.SCHEMA_VERSION).encode()
        about = found.field("bytes").metadata
        assert (about[b"comment"], about[b"unit"]) == (b"Bytes copied.", b"bytes")
        direction = found.field("direction").metadata
        assert json.loads(direction[b"codes"]) == list(codes.DIRECTIONS)
        assert b"unit" not in direction


# -- names


def test_texts_are_beside_their_numbers(tmp_path: Path) -> None:
    write(
        tmp_path / "s.db",
        Kernel(0, 1, 1, name="void f<int>(int)", short="f", mangled="_Z1fIiEvT_"),
        Kernel(1, 2, 2, name="g()"),
        Memcpy(2, 3, 3, direction="DtoH", src="Device", dst=None),
        Call(0, 1, 1, name="cudaLaunchKernel_v7000", layer="driver"),
        MpiCall(0, 1, "MPI_Send", kind="p2p"),
        Fault(0, 1, 7, instruction="main", file="a.c"),
        Range(0, 1, "step"),
    )
    for to in ENDINGS:
        export_profiles(tmp_path / "s.db", to, tmp_path / to)

        def column(table: str, name: str, to: str = to) -> list[Any]:
            values = opened(tmp_path / to, table, to).column(name)
            assert name == "text" or pa.types.is_dictionary(values.type) or table == "range"
            return list(values.to_pylist())

        assert column("kernel", "name") == ["void f<int>(int)", "g()"]
        assert column("kernel", "short_name") == ["f", None]
        assert column("kernel", "mangled_name") == ["_Z1fIiEvT_", None]
        assert column("memcpy", "direction_name") == ["DtoH"]
        assert column("memcpy", "src_kind_name") == ["Device"]
        assert column("memcpy", "dst_kind_name") == [None]
        assert column("api_call", "name") == ["cudaLaunchKernel"]
        assert column("api_call", "layer_name") == ["driver"]
        assert column("mpi_call", "kind_name") == ["p2p"]
        assert column("page_fault", "instruction") == ["main"]
        assert column("page_fault", "source_file") == ["a.c"]
        assert column("page_fault", "module") == [None]
        assert column("range", "name") == ["step"]


def test_a_range_has_its_registered_name_or_its_text(tmp_path: Path) -> None:
    write(
        tmp_path / "s.db", Range(0, 1, "own"), Range(1, 2, "other"), Kernel(0, 1, name="registered")
    )
    changed(tmp_path / "s.db", "UPDATE range SET text = NULL, name_id = 1 WHERE text = 'other'")
    export_profiles(tmp_path / "s.db", "parquet", tmp_path / "out")
    found = opened(tmp_path / "out", "range")
    assert found.column("name").to_pylist() == ["own", "registered"]
    assert found.column("text").to_pylist() == ["own", None]


def test_without_names_there_are_the_schema_s_columns_only(tmp_path: Path) -> None:
    export_profiles(BASIC, "parquet", tmp_path / "out", names=False)
    expected = [column.name for column in schema.kernel.columns]
    assert opened(tmp_path / "out", "kernel").column_names == expected


@pytest.mark.parametrize(
    "path", [NSYS / "cpu_side-3.28.1.sqlite", FIXTURES / "kineto" / "training-2.13.json"], ids=name_of
)
def test_every_column_has_a_comment_and_a_name_of_its_own(path: Path, tmp_path: Path) -> None:
    export_profiles(path, "parquet", tmp_path / "out")
    for name, table in every_table(tmp_path / "out").items():
        assert len(set(table.column_names)) == table.num_columns, name
        for field in table.schema:
            assert field.metadata[b"comment"], f"{name}.{field.name}"


def test_many_names_come_back(tmp_path: Path) -> None:
    """More names than a dictionary page of Parquet holds."""
    names = [f"kernel {i} " + "x" * 1000 for i in range(1_200)]
    write(tmp_path / "s.db", *(Kernel(i, i + 1, i, name=name) for i, name in enumerate(names)))
    export_profiles(tmp_path / "s.db", "parquet", tmp_path / "out")
    assert opened(tmp_path / "out", "kernel").column("name").to_pylist() == names


# -- slices


def test_a_slice_has_its_rows_only(tmp_path: Path) -> None:
    write(
        tmp_path / "s.db",
        Kernel(0, 10, 1, name="before"), Kernel(10, 20, 2, name="inside"),
        Kernel(15, 25, 3, name="across"), Kernel(20, 30, 4, name="after"), Memcpy(0, 5, 5),
        Call(0, 2, 1), Call(11, 12, 2),
    )  # fmt: skip
    part = Slice(time=(10, 20))
    made = export_profiles(tmp_path / "s.db", "parquet", tmp_path / "out", slice=part)
    assert opened(made.path, "kernel").column("name").to_pylist() == ["inside", "across"]
    assert opened(made.path, "api_call").column("correlation_id").to_pylist() == [2]
    assert not (made.path / "memcpy.parquet").exists()
    assert {k: n for k, n in made.written.counts.items() if n} == {"kernel": 2, "api_call": 1}
    assert opened(made.path, "process").num_rows == 1
    said = json.loads(opened(made.path, "kernel").schema.metadata[b"slice"])
    assert said == {"start_ns": 10, "end_ns": 20}
    assert b"slice" not in opened(made.path, "process").schema.metadata


def test_a_slice_over_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS_AT_ONCE", 3)
    write(tmp_path / "s.db", *(Kernel(i, i + 1, i, name="ab"[i % 2]) for i in range(10)))
    part = Slice(name="b")
    export_profiles(tmp_path / "s.db", "parquet", tmp_path / "out", slice=part)
    assert opened(tmp_path / "out", "kernel").column("start_ns").to_pylist() == [1, 3, 5, 7, 9]


def test_rows_without_place_in_a_slice_are_noted(tmp_path: Path) -> None:
    write(tmp_path / "s.db", Kernel(None, None, 1), Kernel(10, 20, 2))
    made = export_profiles(
        tmp_path / "s.db", "parquet", tmp_path / "out", slice=Slice(time=(0, 15))
    )
    assert [note.slug for note in made.written.notes] == ["slice-beyond-recording", "no-time"]
    made = export_profiles(
        tmp_path / "s.db", "parquet", tmp_path / "within", slice=Slice(time=(10, 20))
    )
    assert [(note.slug, note.count) for note in made.written.notes] == [("no-time", 1)]
    assert made.written.counts["kernel"] == 1


@pytest.mark.parametrize("part", few([
    Slice(time=(20_000, 90_000)), Slice(devices=(0,)), Slice(range="*", projected=True),
    Slice(name="saxpy"),
], 1), ids=repr)  # fmt: skip
def test_sums_of_slices_are_the_reports(part: Slice, tmp_path: Path) -> None:
    export_profiles(BASIC, "parquet", tmp_path / "out", slice=part)
    with nsysconv.open(BASIC) as profile:
        assert of_events(opened(tmp_path / "out", "kernel"), "name") == kernel_report(profile, part)


def kernel_report(profile: Any, part: Slice | None = None) -> Sums:
    rows = profile.report("kernels", slice=part).rows()
    return added_up(((row["name"],), row["kernel_count"], row["kernel_sum_ns"]) for row in rows)


def of_events(kernels: pa.Table, *keys: str) -> Sums:
    """Kernels and their time per key, added up slowly."""
    return added_up((tuple(row[key] for key in keys), 1, row["dur_ns"] or 0)
                    for row in kernels.to_pylist())  # fmt: skip


def added_up(rows: Iterable[tuple[tuple[Any, ...], int, int]]) -> Sums:
    found: Sums = {}
    for key, count, total in rows:
        before = found.get(key, (0, 0))
        found[key] = (before[0] + count, before[1] + total)
    return found


# -- several profiles


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two profiles with kernels, of rank 0 and 1."""
    store = tmp_path_factory.mktemp("ranks") / "job.db"
    assert imported(store, *RANKS)
    return changed(store, "UPDATE process SET rank = profile_id - 1")


@pytest.fixture(scope="module")
def partitioned(ranks: Path) -> Path:
    """That store as a folder of Parquet files."""
    return export_profiles(ranks, "parquet", ranks.with_name("out")).path


def files_of(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.parquet"))


def test_several_profiles_are_cut_by_run_and_rank(partitioned: Path) -> None:
    labels = [path.stem for path in RANKS]
    assert files_of(partitioned / "kernel") == [
        f"run={label}/rank={rank}/part-{rank + 1}.parquet" for rank, label in enumerate(labels)
    ]
    # Where ranks are in a column of that name, no folder must say other ones.
    assert files_of(partitioned / "process") == [
        f"run={label}/part-{number}.parquet" for number, label in enumerate(labels, 1)
    ]


def test_some_profiles_of_a_store(ranks: Path, tmp_path: Path) -> None:
    made = export_profiles(f"{ranks}@rank=1", "parquet", tmp_path / "out")
    assert set(opened(made.path, "kernel").column("profile_id").to_pylist()) == {2}


def test_profiles_without_ranks_are_cut_by_run_only(tmp_path: Path) -> None:
    """All ranks null would leave readers without a type for them."""
    for label in ("a", "b"):
        write(tmp_path / "job.db", Kernel(0, 5), label=label, run=label)
    export_profiles(tmp_path / "job.db", "parquet", tmp_path / "out")
    assert files_of(tmp_path / "out" / "kernel") == [
        "run=a/part-1.parquet", "run=b/part-2.parquet"]  # fmt: skip


ODD_RUNS = {"a/b=c%": 0, "größe 1": None, "..": None}


def test_a_profile_of_several_ranks_has_none(tmp_path: Path) -> None:
    write(tmp_path / "job.db", Kernel(0, 5), ranks={1: 7}, label="a", run="a")
    write(tmp_path / "job.db", Kernel(0, 5), Kernel(0, 5, pid=2), ranks={1: 0, 2: 1}, label="b", run="b")
    export_profiles(tmp_path / "job.db", "parquet", tmp_path / "out")
    assert files_of(tmp_path / "out" / "kernel") == [
        "run=a/rank=7/part-1.parquet",
        "run=b/rank=__HIVE_DEFAULT_PARTITION__/part-2.parquet",
    ]


@pytest.fixture(scope="module")
def odd_labels(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sums]:
    """Kernels of three runs of odd labels, the first with a rank; and their time by run and rank."""
    folder = tmp_path_factory.mktemp("odd")
    expected = {}
    for number, (label, rank) in enumerate(ODD_RUNS.items(), 1):
        ranks = {} if rank is None else {1: rank}
        write(folder / "job.db", Kernel(0, 5), Kernel(5, 5 + number), label=label, run=label, ranks=ranks)
        expected[label, rank] = (2, 5 + number)
    made = export_profiles(folder / "job.db", "parquet", folder / "out")
    return made.path / "kernel", expected


def test_odd_labels_come_back_in_pyarrow(odd_labels: tuple[Path, Sums]) -> None:
    kernels, expected = odd_labels
    table = ds.dataset(kernels, format="parquet", partitioning="hive").to_table()
    assert of_events(table, "run", "rank") == expected


def test_run_of_two_profiles_is_written_once(ranks: Path, tmp_path: Path) -> None:
    store = tmp_path / "job.db"
    store.write_bytes(ranks.read_bytes())
    changed(store, "UPDATE profile SET run_id = 1", "DELETE FROM run WHERE id = 2",
            "UPDATE run SET label = 'job'")  # fmt: skip
    export_profiles(store, "parquet", tmp_path / "out", names=False)
    assert partitions(tmp_path / "out") == stored(store)
    assert files_of(tmp_path / "out" / "kernel") == [
        "run=job/rank=0/part-1.parquet", "run=job/rank=1/part-2.parquet"]  # fmt: skip


# -- read by others


def summed_by_others(kernels: Path, *keys: str) -> list[Sums]:
    """Kernels and their time per key, of a file or a folder, as DuckDB and as Polars add them up."""
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    pl = pytest.importorskip("polars", reason="polars is not installed")
    hive = kernels.is_dir()
    files = f"{kernels}/**/*.parquet" if hive else kernels
    source = f"read_parquet('{files}', hive_partitioning = {hive})"
    rows = duckdb.sql(f"SELECT {', '.join(keys)}, count(*), sum(dur_ns) FROM {source} GROUP BY ALL")
    frame = pl.scan_parquet(kernels, hive_partitioning=hive).group_by(*keys)
    sums = frame.agg(pl.len(), pl.col("dur_ns").sum()).collect()
    return [{tuple(key): (count, total) for *key, count, total in each}
            for each in (rows.fetchall(), sums.rows())]  # fmt: skip


@pytest.mark.parametrize("path", few(PER_SOURCE, 1), ids=name_of)
def test_duckdb_and_polars_find_the_sums_of_the_report(path: Path, tmp_path: Path) -> None:
    export_profiles(path, "parquet", tmp_path / "out")
    with nsysconv.open(path) as profile:
        expected = kernel_report(profile)
    assert summed_by_others(tmp_path / "out" / "kernel.parquet", "name") == [expected] * 2


def test_duckdb_and_polars_read_partitions(ranks: Path, partitioned: Path) -> None:
    expected = {}
    for rank, path in enumerate(RANKS):
        with nsysconv.open(f"{ranks}@rank={rank}") as profile:
            for (name,), sums in kernel_report(profile).items():
                expected[path.stem, rank, name] = sums
    assert summed_by_others(partitioned / "kernel", "run", "rank", "name") == [expected] * 2


def test_duckdb_and_polars_read_odd_labels(odd_labels: tuple[Path, Sums]) -> None:
    kernels, expected = odd_labels
    assert summed_by_others(kernels, "run", "rank") == [expected] * 2


def test_polars_reads_arrow_files(whole: Mapping[str, Path]) -> None:
    pl = pytest.importorskip("polars", reason="polars is not installed")
    frame = pl.read_ipc(whole["arrow"] / "kernel.arrow")
    with nsysconv.open(BASIC) as profile:
        expected = kernel_report(profile)
    sums = frame.group_by("name").agg(pl.len(), pl.col("dur_ns").sum())
    assert {(name,): (count, total) for name, count, total in sums.rows()} == expected


PAGE = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
# Those that take a profile are files of examples/ and run by test_api_events.py.
SNIPPETS = [(kind, code) for kind, code in re.findall(r"^```(sql|python)\n(.*?)^```$", PAGE, re.M | re.S)
            if "sys.argv" not in code]  # fmt: skip


def test_the_page_has_examples() -> None:
    assert {kind for kind, _ in SNIPPETS} == {"sql", "python"}
    assert all(tool in PAGE for tool in ("duckdb", "polars", "pandas", "pyarrow"))


@pytest.mark.parametrize(("kind", "code"), SNIPPETS, ids=map(str, range(len(SNIPPETS))))
def test_examples_of_the_page_run(
    kind: str, code: str, partitioned: Path, whole: Mapping[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    folder = partitioned if "kernel/" in code else whole["arrow" if ".arrow" in code else "parquet"]
    monkeypatch.chdir(folder)
    if kind == "sql":
        duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
        assert duckdb.sql(code).fetchall() != []
        return
    for tool in re.findall(r"^import (\w+)", code, re.M):
        pytest.importorskip(tool, reason=f"{tool} is not installed")
    exec(code, {})
