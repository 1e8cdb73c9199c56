"""Events and SQL of an open profile: what the Parquet export and the command give, without a file."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import FIXTURES, NSYS, ODD, ROOT, Shelf, name_of, with_slow
from small_store import Call, Kernel, Memcpy, Range, opened, write

import nsysconv
from nsysconv import schema
from nsysconv.api.exporting import export_profiles
from nsysconv.errors import NotRecorded, UsageError
from nsysconv.facts import Fact
from nsysconv.notes import Severity
from nsysconv.timeline.slices import Slice

BASIC = NSYS / "basic-3.25.0.sqlite"
TRACE = FIXTURES / "kineto" / "training-2.13.json"
RANKS = [FIXTURES / "kineto" / f"two_processes_two_gpus-2.13-600{i}.json" for i in (1, 2)]
LOG = FIXTURES / "nvprof_log" / "basic-both-traces.csv"
FULL = NSYS / "cpu_side-3.28.1.sqlite"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


# -- events


def test_a_row_is_an_event_with_its_name() -> None:
    with opened(Kernel(5, 15, 1, name="void f<int>(int)", short="f"), Kernel(20, None, 2, name="g()")
                ) as profile:  # fmt: skip
        found = profile.events("kernel", ["dur_ns", "name", "short_name", "start_ns"])
    assert found.schema.names == ["dur_ns", "name", "short_name", "start_ns"], "as asked for"
    assert found.to_pylist() == [
        {"dur_ns": 10, "name": "void f<int>(int)", "short_name": "f", "start_ns": 5},
        {"dur_ns": None, "name": "g()", "short_name": None, "start_ns": 20},
    ]
    assert pa.types.is_dictionary(found.schema.field("name").type)
    assert found.schema.field("dur_ns").type == pa.int64()


PART = Slice(time=(20_000, 90_000))


@pytest.mark.parametrize(("path", "part", "is_stored"), with_slow(
    (case, case in ((BASIC, PART, True), (TRACE, None, False)))
    for case in product((BASIC, TRACE, LOG, FULL), (None, PART), (False, True))
))  # fmt: skip
def test_events_are_what_the_export_writes(
    path: Path, part: Slice | None, is_stored: bool, shelf: Shelf, tmp_path: Path
) -> None:
    """Of all kinds: the same columns, types, comments and rows, of a store as of a file in place."""
    place = shelf.store(path) if is_stored else path
    folder = export_profiles(place, "parquet", tmp_path / "out", slice=part).path
    with nsysconv.open(place) as profile:
        for kind, fact in schema.EVENT_TABLES.items():
            file = folder / f"{kind}.parquet"
            try:
                found = profile.events(kind, slice=part)
            except NotRecorded:
                assert not file.exists(), kind
                assert fact not in profile.profile.facts
                continue
            if file.exists():
                written = pq.read_table(file)
                assert found.schema.equals(written.schema, check_metadata=True), kind
                assert found.to_pylist() == written.to_pylist(), kind
            else:
                assert found.num_rows == 0, kind
                assert "start_ns" in found.schema.names


def test_columns_that_are_not_asked_for_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(Range(0, 1, "step"), Kernel(1, 2, 1)) as profile:
        asked: list[Any] = []
        ours = type(profile.profile).batches

        def batches(self: Any, table: str, rows: int, names: Any = None) -> Any:
            asked.append(names)
            return ours(self, table, rows, names)

        monkeypatch.setattr(type(profile.profile), "batches", batches)
        assert profile.events("range", "name").to_pylist() == [{"name": "step"}]
        assert profile.events("kernel", ["dur_ns"]).to_pylist() == [{"dur_ns": 1}]
    assert asked == [["id", "name_id", "text"], ["id", "dur_ns"]]


def test_an_unknown_kind_or_column_is_answered_with_those_there_are() -> None:
    with opened(Kernel(0, 1, 1)) as profile:
        with pytest.raises(UsageError, match="no events of kind 'kernels'") as error:
            profile.events("kernels")
        assert "Did you mean kernel?" in error.value.hint
        assert all(kind in error.value.hint for kind in schema.EVENT_TABLES)
        with pytest.raises(UsageError, match="no column 'duration' of kernel"):
            profile.events("kernel", ["name", "duration"])


def test_no_rows_and_not_recorded_differ() -> None:
    rows = Kernel(0, 1, 1), Memcpy(5, 6, 2)
    with opened(*rows) as profile:
        assert profile.events("memset").num_rows == 0, "recorded, and there were none"
        assert profile.events("memcpy", slice=Slice(time=(0, 1))).num_rows == 0
    with opened(*rows, without=[Fact.MEMSETS, Fact.MEMCPYS]) as profile:
        with pytest.raises(NotRecorded, match="memset: not recorded in this profile: memsets"):
            profile.events("memset")
        assert profile.events("memcpy").num_rows == 1, "what is there is there, whatever facts say"


def test_included_rows_are_among_the_events() -> None:
    """Python functions of a trace are left out unless somebody wants them."""
    for include, there in (((), False), ("python_functions", True)):
        with nsysconv.open(TRACE, include=include) as profile:
            names = profile.events("operator", "name").column("name").to_pylist()
            assert "aten::addmm" in names
            assert ("train.py(12): main" in names) is there


def test_rows_that_cannot_be_read_are_noted() -> None:
    with nsysconv.open(ODD / "bad-cells.sqlite") as profile:
        kernels = profile.events("kernel")
        left_out = sum(note.count for note in profile.notes if note.severity is Severity.DROPPED
                       and "KERNEL: rows" in note.text)  # fmt: skip
    with nsysconv.open(BASIC) as profile:
        assert len(kernels) + left_out == len(profile.events("kernel")) > len(kernels)
        assert [note.slug for note in profile.notes] == ["launches-failed"]


def test_notes_on_rows_have_one_order_whatever_is_read_first() -> None:
    found = []
    for tables in (("kernel", "api_call"), ("api_call", "kernel"), ("kernel", "api_call", "kernel")):
        with nsysconv.open(ODD / "bad-cells.sqlite") as profile:
            for table in tables:
                profile.events(table)
                # As two threads do that find the same rows.
                profile.profile.guard(table)
            found.append([(note.slug, note.text, note.count) for note in profile.notes])
    assert found[0] == found[1] == found[2]


def test_of_a_store_an_open_profile_gives_its_own_events(tmp_path: Path) -> None:
    nsysconv.import_files(RANKS, tmp_path / "job.db")
    for number in (1, 2):
        with nsysconv.open(f"{tmp_path / 'job.db'}@{number}") as profile:
            assert profile.id == number
            assert set(profile.events("kernel").column("profile_id").to_pylist()) == {number}


# -- SQL


def test_sql_of_a_file_is_that_of_its_store(tmp_path: Path) -> None:
    query = "select name, count(*) as n, sum(dur_ns) as ns from v_kernel group by 1 order by 1"
    nsysconv.import_files(BASIC, tmp_path / "job.db")
    with nsysconv.open(tmp_path / "job.db") as profile:
        expected = profile.sql(query)
    assert expected.rows() == nsysconv.sql(tmp_path / "job.db", query).rows() != []
    assert expected.notes == ()
    with nsysconv.open(BASIC) as profile:
        assert profile.sql(query).rows() == expected.rows()
        assert profile.sql("select max(profile_id) as id from kernel").rows() == [{"id": profile.id}]


@pytest.mark.parametrize("path", [BASIC, TRACE], ids=name_of)
def test_a_file_is_imported_once_for_its_queries(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from nsysconv.api import profile_file

    made: list[Path] = []
    ours = profile_file.writing

    def writing(place: Path) -> Any:
        made.append(place)
        return ours(place)

    monkeypatch.setattr(profile_file, "writing", writing)
    with nsysconv.open(path) as profile:
        for _ in range(2):
            assert profile.sql("select count(*) as n from kernel").rows()[0]["n"] > 0
        assert len(made) == 1
        assert made[0].exists()
    assert not made[0].exists(), "what was made for it is gone with it"


def test_included_rows_are_there_for_queries() -> None:
    count = "select count(*) as n from v_operator where name like 'train.py%'"
    with nsysconv.open(TRACE) as profile:
        assert profile.sql(count).rows() == [{"n": 0}]
    with nsysconv.open(TRACE, include="python_functions") as profile:
        assert profile.sql(count).rows() == [{"n": 1}]


def test_a_query_of_several_profiles_says_so(tmp_path: Path) -> None:
    nsysconv.import_files(RANKS, tmp_path / "job.db")
    with nsysconv.open(f"{tmp_path / 'job.db'}@2") as profile:
        every = profile.sql("select count(*) as n from kernel")
        own = profile.sql(f"select count(*) as n from kernel where profile_id = {profile.id}")
        assert own.rows() == [{"n": profile.events("kernel").num_rows}]
    assert every.rows()[0]["n"] > own.rows()[0]["n"]
    (note,) = every.notes
    with nsysconv.open(f"{FIXTURES / 'kineto' / 'odd-merged-ranks.json.gz'}@2") as profile:
        assert profile.sql("select 1 as n").notes == every.notes, "a file may hold several, too"
    assert (note.slug, own.notes) == ("query-of-all-profiles", ())
    assert "all 2 profiles; this one is profile_id 2" in note.text


# -- the examples


@pytest.fixture
def launched(tmp_path: Path) -> Path:
    """Kernels of 10 ns, and of 20 and 40, and one without a time; 100 bytes in 50 ns, 60 in 20 ns."""
    write(
        tmp_path / "small.db",
        Call(0, 4, 1, name="cudaLaunchKernel_v7000"),
        Call(1, 3, 1, name="cuLaunchKernel", layer="driver"),
        Call(10, 12, 2, name="cudaLaunchKernel_v7000"), Call(20, 22, 3, name="cuLaunchKernelEx"),
        Kernel(7, 17, 1, name="f()"), Kernel(7, None, 9, name="no time()"),
        Kernel(19, 39, 2, name="g()"), Kernel(40, 80, 3, name="g()"),
        Memcpy(100, 150, 4, bytes=100, direction="HtoD", src="Pageable", dst="Device"),
        Memcpy(150, 170, 5, bytes=60, direction="DtoH", src="Device", dst="Pinned"),
    )  # fmt: skip
    return tmp_path / "small.db"


ANSWERS: dict[str, Callable[[str], bool]] = {
    # g(): 2 kernels, 60 ns, median 30, longest 40: 60 of 70 ns.
    "kernels_pandas.py": lambda out: out.splitlines() == [
        "85.7% 2 x 30 ns, at most 40: g()", "14.3% 1 x 10 ns, at most 10: f()"],
    # The outer of two calls with one id began at 0: 7 ns, and 19 - 10 = 9; 40 - 20 = 20.
    "launches_duckdb.py": lambda out: out.splitlines() == [
        "cudaLaunchKernel 2 8 9", "cuLaunchKernelEx 1 20 20"],
    "copies_polars.py": lambda out: out.splitlines() == [
        "HtoD Pageable Device 1 100 50 2.0", "DtoH Device Pinned 1 60 20 3.0"],
}  # fmt: skip


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_print_their_answers(
    path: Path, launched: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip(path.stem.rpartition("_")[2])
    monkeypatch.setattr("sys.argv", [path.name, str(launched)])
    runpy.run_path(str(path))
    out = capsys.readouterr().out
    assert ANSWERS[path.name](out), out


def test_the_page_shows_the_examples() -> None:
    page = (ROOT / "docs" / "export.md").read_text(encoding="utf-8")
    for path in EXAMPLES:
        assert f"```python\n{path.read_text(encoding='utf-8')}```\n" in page, path.name
