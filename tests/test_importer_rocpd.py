"""rocpd databases: the workloads as rocprofv3 writes them beside nsys' exports, real files, traps."""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, REAL, event_rows
from fixtures_rocpd import DATABASES
from golden_cases import run
from importing import counts as notes
from scenarios import WORKLOADS
from workload_rows import newest_export
from write_rocpd import BOOT_NS, FILL, RocpdWriter, hip_name, write_rocpd

import nsysconv
from nsysconv import api
from nsysconv.errors import InputError, NotRecorded, UsageError
from nsysconv.facts import Fact
from nsysconv.importers import detection, rocpd
from nsysconv.importers.probe import Probe
from nsysconv.store.location import reading
from nsysconv.store.read import Profile

FOLDER = FIXTURES / "rocpd"
BASIC = FOLDER / "basic-3.db"
every_file = pytest.mark.parametrize("name", DATABASES)

# What both record of a row. CUDA's driver has calls of its own, HIP one API for both.
_KERNEL = (
    "start_ns",
    "dur_ns",
    "pid",
    "stream_id",
    "correlation_id",
    "name",
    "mangled_name",
    *(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"),
    "registers_per_thread",
    "static_shared_bytes",
    "dynamic_shared_bytes",
)
_COPY = ("start_ns", "dur_ns", "pid", "stream_id", "correlation_id", "bytes", "direction")
_CALL = ("start_ns", "dur_ns", "pid", "tid", "correlation_id", "name")
_RANGE = ("start_ns", "dur_ns", "pid", "tid", "kind", "name")


def cells(
    profiles: list[Profile], table: str, columns: tuple[str, ...]
) -> Counter[tuple[Any, ...]]:
    found = [row for profile in profiles for row in event_rows(profile, table)]
    return Counter(tuple(row[column] or None for column in columns) for row in found)


@contextmanager
def imported(path: Path, store: Path, **options: Any) -> Iterator[list[Profile]]:
    result = api.import_files(path, store, **options)
    assert not result.errors, result.errors
    with reading(store) as opened:
        yield opened.profiles()


def changed(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection, connection:
        (suffix,) = [
            name.removeprefix("rocpd_event")
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_event%'"
            )
        ]
        for statement in statements:
            connection.execute(statement.replace("$", suffix))
    return path


@pytest.fixture
def basic(tmp_path: Path) -> Path:
    path = tmp_path / "basic.db"
    write_rocpd(WORKLOADS["basic"], path)
    return path


# -- beside nsys


@every_file
def test_rows_are_those_of_the_export_of_nsys(name: str, tmp_path: Path) -> None:
    workload, _ = DATABASES[name]
    with (
        imported(FOLDER / name, tmp_path / "a.db") as found,
        imported(newest_export(workload), tmp_path / "b.db") as wanted,
    ):
        kernels = cells(found, "kernel", _KERNEL)
        fills = Counter({row: n for row, n in kernels.items() if FILL in row})
        assert kernels - fills == cells(wanted, "kernel", _KERNEL)
        assert fills.total() == cells(wanted, "memset", ("start_ns",)).total()
        assert cells(found, "memcpy", _COPY) == cells(wanted, "memcpy", _COPY)
        calls = cells(wanted, "api_call", _CALL)
        assert cells(found, "api_call", _CALL) == Counter(
            {(*row[:-1], hip_name(row[-1])): n for row, n in calls.items()}
        )
        closed = [
            row for row in cells(wanted, "range", _RANGE).elements() if row[1] or row[4] == "mark"
        ]
        assert cells(found, "range", _RANGE) == Counter(closed)


@pytest.mark.parametrize("name", ["basic-3.db", "basic-4.1.0.db", "two_processes_two_gpus-3.db"])
def test_core_reports_answer_as_with_nsys(name: str, tmp_path: Path) -> None:
    """In all that both record: kernels and copies, by name and direction, and their idle time."""
    workload, _ = DATABASES[name]
    for path, store in ((FOLDER / name, "a.db"), (newest_export(workload), "b.db")):
        api.import_files(path, tmp_path / store)

    def sums(store: str, report: str, key: str, *columns: str) -> dict[tuple[str, str], int]:
        (found,) = nsysconv.report_on(tmp_path / store, [report])
        added: Counter[tuple[str, str]] = Counter()
        for row in found.rows():
            # Here memory is set by kernels, there it is not; copies have no kinds of host memory here.
            if row[key] not in (FILL, "memset"):
                added += Counter({(row[key], column): row[column] or 0 for column in columns})
        return dict(added)

    for report, *columns in (
        ("kernels", "name", "kernel_count", "kernel_sum_ns"),
        ("transfers", "direction", "memcpy_count", "memcpy_sum_ns", "bytes_sum"),
    ):
        assert sums("a.db", report, *columns) == sums("b.db", report, *columns), report


def test_the_answer_tells_gpus_of_one_process_apart_and_how_to_ask_why(tmp_path: Path) -> None:
    """Of several profiles in one file with names too long for a line."""
    path = tmp_path / "recorded_by_rocprofv3_on_two_gpus.db"
    path.write_bytes((FOLDER / "two_processes_two_gpus-3.db").read_bytes())
    said = run(path.name, cwd=tmp_path).out
    assert re.findall(r", (GPU \d): busy", said) == ["GPU 2", "GPU 3"]
    (command,) = re.findall(r"nsysconv why (.*@\S+) (\S+)", said)
    target, event = (word.replace("TARGET", path.name) for word in command)
    assert "GPU 2" in run("why", target, event, cwd=tmp_path).out


@every_file
def test_in_place_as_imported(name: str, tmp_path: Path) -> None:
    with imported(FOLDER / name, tmp_path / "a.db") as stored:
        if len(stored) > 1:
            with pytest.raises(UsageError, match="profiles: name one"):
                api.open(FOLDER / name)
            return
        with api.open(FOLDER / name) as opened:
            for table in ("kernel", "memcpy", "api_call", "range", "device", "process"):
                assert opened.profile.row_count(table) == stored[0].row_count(table)
            assert opened.profile.facts == stored[0].facts
            assert notes(opened.profile) == notes(stored[0])


def test_what_a_file_holds() -> None:
    with api.open(BASIC) as opened:
        profile = opened.profile
        assert profile.facts == {
            Fact.KERNELS,
            Fact.MEMCPYS,
            Fact.API_CALLS,
            Fact.API_LINKS,
            Fact.THREADS,
            Fact.RANGES,
            Fact.DEVICES,
            Fact.RANKS,
        }
        (device,) = profile.rows("device")
        gpu = WORKLOADS["basic"].processes[0].devices[0]
        columns = ("device_id", "ordinal", "name", "sm_count", "memory_bytes")
        assert {key: device[key] for key in columns} == {
            "device_id": 2,
            "ordinal": 0,
            "name": "AMD Instinct MI210",
            "sm_count": gpu.sm_count,
            "memory_bytes": gpu.memory_bytes,
        }
        assert device["uuid"] == "GPU-" + gpu.uuid.replace("-", "")[:16].lower()
        assert profile.attributes["zero_utc_ns"] is None
        assert profile.attributes["recording_ns"] == WORKLOADS["basic"].duration_ns
        assert profile.rows("process")[0]["name"] == "train"


def test_no_secret_comes_in(tmp_path: Path) -> None:
    for name in DATABASES:
        api.import_files(FOLDER / name, tmp_path / f"{name}.store")
        assert b"SECRET" in (FOLDER / name).read_bytes()
        assert b"SECRET" not in (tmp_path / f"{name}.store").read_bytes()


# -- a real file


def test_a_real_file() -> None:
    """rocprofv3 of ROCm 7 with --kernel-trace: 5 kernels of 48,884 ns in all, and nothing else."""
    path = REAL / "rocpd" / "ROCm+FlyDSL__146104_results.db"
    if not path.exists():
        pytest.skip("the folder of real files is not there")
    with api.open(path) as opened:
        rows = opened.report("kernels").rows()
        sums = {row["name"]: (row["kernel_count"], row["kernel_sum_ns"]) for row in rows}
        assert {name.split("<")[0].split("::")[-1]: of for name, of in sums.items()} == {
            "__amd_rocclr_copyBuffer": (1, 26_450),
            "kernel_mxscale_gemm_0": (2, 15_694),
            "vectorized_elementwise_kernel": (2, 6_740),
        }
        assert opened.profile.facts == {Fact.KERNELS, Fact.DEVICES}
        assert notes(opened.profile) == {"queues-as-streams": 1, "copies-as-kernels": 1}
        with pytest.raises(NotRecorded, match="API calls"):
            opened.report("api_vs_kernel")
        with pytest.raises(NotRecorded, match="memory copies"):
            opened.report("transfers")


# -- traps


def test_an_empty_table_says_nothing_unless_it_was_to_be_recorded(basic: Path) -> None:
    changed(basic, "DELETE FROM rocpd_memory_copy$")
    with api.open(basic) as opened:
        assert Fact.MEMCPYS in opened.profile.facts
    changed(basic, 'UPDATE rocpd_info_process$ SET environment = \'{"ROCPROF_KERNEL_TRACE": "1"}\'')
    with api.open(basic) as opened:
        assert Fact.MEMCPYS not in opened.profile.facts
        assert {Fact.KERNELS, Fact.API_CALLS} <= opened.profile.facts


def test_hsa_calls_are_read_on_request_or_if_they_are_all(basic: Path) -> None:
    hsa = (
        "INSERT INTO rocpd_string$ (id, string) VALUES (9001, 'HSA_CORE_API'), (9002, 'hsa_init')",
        "INSERT INTO rocpd_event$ (id, category_id, stack_id) VALUES (9003, 9001, 5000)",
        "INSERT INTO rocpd_region$ (id, pid, tid, name_id, start, end, event_id) "
        f"VALUES (9004, 4242, 4242, 9002, {BOOT_NS}, {BOOT_NS + 10}, 9003)",
    )
    changed(basic, *hsa)
    with api.open(basic) as opened:
        hip = len(event_rows(opened.profile, "api_call"))
        assert notes(opened.profile)["hsa-calls-left-out"] == 1
    with api.open(basic, include="hsa_calls") as opened:
        rows = event_rows(opened.profile, "api_call")
        assert len(rows) == hip + 1
        assert [row["name"] for row in rows if row["layer"] == "driver"] == ["hsa_init"]
        assert "hsa-calls-left-out" not in notes(opened.profile)
    changed(
        basic,
        "DELETE FROM rocpd_region$ WHERE id < 9000",
        "DELETE FROM rocpd_sample$",
        "DELETE FROM rocpd_event$ WHERE id < 9000",
    )
    with api.open(basic) as opened:
        assert [row["name"] for row in event_rows(opened.profile, "api_call")] == ["hsa_init"]


def test_queues_where_streams_are_all_0(basic: Path) -> None:
    changed(basic, "UPDATE rocpd_kernel_dispatch$ SET stream_id = 0, queue_id = 6")
    with api.open(basic) as opened:
        assert {row["stream_id"] for row in event_rows(opened.profile, "kernel")} == {6}
        assert "queues-as-streams" in notes(opened.profile)


def test_counters_are_added_up_over_instances(basic: Path) -> None:
    """Two instances of a counter in one kernel: 3 + 4; two executions, so 7 and 5."""
    with closing(sqlite3.connect(basic)) as connection:
        (suffix,) = (
            name.removeprefix("rocpd_event")
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_event%'"
            )
        )
        first, second = (
            row[0]
            for row in connection.execute(
                f"SELECT event_id FROM rocpd_kernel_dispatch{suffix} WHERE kernel_id = 1 LIMIT 2"
            )
        )
    changed(
        basic,
        "INSERT INTO rocpd_info_pmc$ (id, name, is_derived) VALUES (1, 'SQ_WAVES', 0)",
        *(
            f"INSERT INTO rocpd_pmc_event$ (event_id, pmc_id, value) VALUES ({event}, 1, {value})"
            for event, value in ((first, 3.0), (first, 4.0), (second, 5.0))
        ),
    )
    with api.open(basic) as opened:
        (row,) = opened.report("metrics").rows()
        assert (row["value_min"], row["value_max"], row["value_avg"]) == (5, 7, 6)
        assert "kernels-serialized" in notes(opened.profile)


def test_a_free_has_the_size_of_what_was_taken(basic: Path) -> None:
    allocation = (
        "INSERT INTO rocpd_memory_allocate$ (pid, tid, agent_id, type, level, address, size, "
        "start, end) VALUES (4242, 4242, {}, '{}', 'REAL', {}, {}, {}, 0)"
    )
    changed(
        basic,
        allocation.format(2, "ALLOC", 77, 4096, BOOT_NS + 5),
        allocation.format("NULL", "FREE", 77, 0, BOOT_NS + 9),
        allocation.format("NULL", "FREE", 88, 0, BOOT_NS + 9),
    )
    with api.open(basic) as opened:
        rows = event_rows(opened.profile, "memory_event")
        assert [(row["start_ns"], row["device_id"], row["bytes"]) for row in rows] == [
            (5, 2, 4096),
            (9, 2, -4096),
            (9, None, None),
        ]
        assert notes(opened.profile)["free-unmatched"] == 1


def test_collectives_and_calls_of_libraries(basic: Path) -> None:
    changed(
        basic,
        "INSERT INTO rocpd_string$ (id, string) VALUES (9001, 'RCCL_API'), "
        "(9002, 'ncclAllReduce'), (9005, 'ncclGroupStart'), (9006, 'ROCDECODE_API_EXT'), "
        "(9007, 'rocDecDecodeFrame')",
        *(
            f"INSERT INTO rocpd_event$ (id, category_id) VALUES ({n}, {category})"
            for n, category in ((9010, 9001), (9011, 9001), (9012, 9006))
        ),
        *(
            f"INSERT INTO rocpd_region$ (pid, tid, name_id, start, end, event_id) "
            f"VALUES (4242, 4242, {name}, {BOOT_NS}, {BOOT_NS + 10}, {event})"
            for name, event in ((9002, 9010), (9005, 9011), (9007, 9012))
        ),
    )
    with api.open(basic) as opened:
        (row,) = event_rows(opened.profile, "collective")
        assert (row["name"], row["kind"], row["dur_ns"]) == ("allreduce", "call", 10)
        rows = event_rows(opened.profile, "operator")
        assert {(row["name"], row["kind"]) for row in rows} == {
            ("ncclGroupStart", "library_call"),
            ("rocDecDecodeFrame", "library_call"),
        }
        assert opened.profile.facts >= {Fact.COLLECTIVES, Fact.LIBRARY_CALLS}


def test_unknown_categories_are_counted(basic: Path) -> None:
    changed(
        basic,
        "INSERT INTO rocpd_string$ (id, string) VALUES (9001, 'KFD_PAGE_FAULT')",
        "INSERT INTO rocpd_event$ (category_id) VALUES (9001), (9001)",
    )
    with api.open(basic) as opened:
        (note,) = (note for note in opened.profile.notes if note.slug == "rows-not-read")
        assert note.count == 2
        assert "KFD_PAGE_FAULT" in note.text


def test_ids_that_are_no_numbers_of_processes_and_threads(tmp_path: Path) -> None:
    """rocprof-sys numbers them itself."""
    path = tmp_path / "sys.db"
    write_rocpd(WORKLOADS["basic"], path)
    changed(
        path,
        "UPDATE rocpd_info_process$ SET id = 1",
        "UPDATE rocpd_info_thread$ SET id = 7",
        "UPDATE rocpd_region$ SET pid = 1, tid = 7",
        "UPDATE rocpd_kernel_dispatch$ SET pid = 1",
    )
    with api.open(path) as opened, api.open(BASIC) as wanted:
        for table in ("api_call", "range", "kernel"):
            columns = {"kernel": _KERNEL, "api_call": _CALL, "range": _RANGE}[table]
            found = cells([opened.profile], table, columns)
            expected = cells([wanted.profile], table, columns)
            assert {row for row in found if None not in row} <= set(expected), table
            assert found.total() == expected.total()
        assert [row["tid"] for row in opened.profile.rows("thread")].count(4242) == 1


def test_a_profiler_that_stopped_while_it_wrote(tmp_path: Path) -> None:
    path = tmp_path / "stopped.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        writer = RocpdWriter(connection, "_00aa", "3")
        writer.string("hipMalloc")
    with pytest.raises(InputError, match="the profiler stopped while it wrote the file"):
        api.open(path)
    changed(path, "DROP TABLE rocpd_string$")
    with pytest.raises(InputError, match="the profiler stopped"):
        api.open(path)


def test_a_database_without_its_metadata_says_what_is_missing(basic: Path) -> None:
    changed(basic, "DROP TABLE rocpd_metadata$")
    with pytest.raises(InputError, match="a rocpd database without its table rocpd_metadata"):
        api.open(basic)


IMPOSSIBLE: dict[str, tuple[str, str, int]] = {
    "ends before it starts": (
        "UPDATE rocpd_kernel_dispatch$ SET end = start - 1 WHERE id = 1",
        "negative-duration",
        1,
    ),
    "a time of day": (
        "UPDATE rocpd_kernel_dispatch$ SET start = start + 1700000000000000000, "
        "end = end + 1700000000000000000 WHERE id = 2",
        "impossible-time",
        1,
    ),
    "a text for a time": (
        "UPDATE rocpd_kernel_dispatch$ SET start = 'soon' WHERE id = 1",
        "wrong-type",
        1,
    ),
    "a blob for a process": ("UPDATE rocpd_region$ SET pid = x'00' WHERE id = 1", "wrong-type", 1),
    "a kernel of no symbol": (
        "UPDATE rocpd_kernel_dispatch$ SET kernel_id = 999 WHERE id = 1",
        "nameless-id",
        1,
    ),
    "a range that ends before it starts": (
        "UPDATE rocpd_region$ SET end = start - 5 WHERE id = (SELECT max(id) FROM rocpd_region$)",
        "impossible-time",
        1,
    ),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_cannot_be_is_counted(basic: Path, case: str, tmp_path: Path) -> None:
    statement, slug, count = IMPOSSIBLE[case]
    changed(basic, statement)
    with imported(basic, tmp_path / "a.db") as (profile,):
        assert notes(profile).get(slug) == count
        whole = {"kernel": 9, "api_call": 20}
        lost = sum(whole[table] - profile.row_count(table) for table in whole)
        assert not any("88a3" in note.text + note.where for note in profile.notes)
        assert lost == (0 if slug == "nameless-id" or "range" in case else 1)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"a": ', "null"])
def test_damaged_json_is_not_recorded(basic: Path, text: str) -> None:
    changed(
        basic,
        *(
            f"UPDATE rocpd_{table}$ SET {column} = '{text}'"
            for table, column in (
                ("info_process", "environment"),
                ("info_agent", "extdata"),
                ("event", "extdata"),
            )
        ),
    )
    with api.open(basic) as opened:
        assert opened.profile.row_count("kernel") == 9
        (device,) = opened.profile.rows("device")
        assert device["uuid"] is None
        assert {row["name"] for row in event_rows(opened.profile, "range")} <= {
            "roctxThreadRangeA",
            "roctxProcessRangeA",
            "roctxMarkA",
        }


@pytest.mark.parametrize(
    "table",
    [
        "event",
        "info_agent",
        "info_kernel_symbol",
        "string",
        "info_thread",
        "track",
        "region",
        "kernel_dispatch",
        "info_node",
    ],
)
def test_a_missing_table_costs_what_it_holds(basic: Path, table: str, tmp_path: Path) -> None:
    changed(basic, f"DROP TABLE rocpd_{table}$") if table != "event" else None
    if table == "event":
        with closing(sqlite3.connect(basic)) as connection, connection:
            (name,) = connection.execute(
                "SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_event%'"
            ).fetchone()
            connection.execute(f"DROP TABLE {name}")
    with imported(basic, tmp_path / "a.db") as (profile,):
        assert profile.row_count("memcpy") == 7


def test_it_alone_claims_its_files() -> None:
    for name in DATABASES:
        with Probe(FOLDER / name) as probe:
            assert detection.detect(probe).NAME == "rocpd"
            assert len(rocpd.suffixes(probe)) == len(WORKLOADS[DATABASES[name][0]].processes)


def test_json_of_a_real_agent_is_read(tmp_path: Path) -> None:
    """The bytes of a UUID as rocprofv3 writes them, and what rocminfo says: GPU-acc76b6ee1d14186."""
    write_rocpd(WORKLOADS["basic"], tmp_path / "a.db")
    values = (0x86, 0x41, 0xD1, 0xE1, 0x6E, 0x6B, 0xC7, 0xAC)
    details = {
        "uuid": {"bytes": {f"value{i}": value for i, value in enumerate(values)}},
        "domain": 0,
        "location_id": 3072,
        "gfx_target_version": 90402,
    }
    changed(tmp_path / "a.db", f"UPDATE rocpd_info_agent$ SET extdata = '{json.dumps(details)}'")
    with api.open(tmp_path / "a.db") as opened:
        (device,) = opened.profile.rows("device")
        assert (device["uuid"], device["bus_id"]) == ("GPU-acc76b6ee1d14186", "0000:0c:00.0")
        assert (device["compute_major"], device["compute_minor"]) == (9, 4)


def test_whether_matrix_cores_were_used_is_unknown() -> None:
    """Names of AMD's kernels say it where they do, and are no sign that they were not."""
    with api.open(BASIC) as opened:
        assert {row["tensor_cores"] for row in opened.report("kernels").rows()} == {"unknown"}


def test_functions_without_a_name_are_counted(basic: Path, tmp_path: Path) -> None:
    changed(basic, "DELETE FROM rocpd_string$ WHERE string = 'hipLaunchKernel'")
    with imported(basic, tmp_path / "a.db") as (profile,):
        assert notes(profile)["nameless-id"] == 1
        assert profile.row_count("api_call") == 20


@pytest.mark.parametrize("table", ["event", "string"])
def test_calls_without_a_category_are_no_zero(basic: Path, table: str) -> None:
    changed(basic, f"DELETE FROM rocpd_{table}$")
    with api.open(basic) as opened:
        assert notes(opened.profile)["category-unknown"] >= 20
        assert Fact.API_CALLS not in opened.profile.facts


@pytest.mark.parametrize("size", [-5, 1 << 62])
def test_sizes_that_cannot_be_are_not_recorded(basic: Path, size: int) -> None:
    changed(basic, f"UPDATE rocpd_memory_copy$ SET size = {size} WHERE id = 1")
    with api.open(basic) as opened:
        sizes = [row["bytes"] for row in event_rows(opened.profile, "memcpy")]
        assert sizes.count(None) == 1
        assert notes(opened.profile)["sizes-impossible"] == 1


def test_texts_for_links_are_no_links(basic: Path, tmp_path: Path) -> None:
    changed(basic, "UPDATE rocpd_event$ SET stack_id = 'x' WHERE id = 1")
    with imported(basic, tmp_path / "a.db") as (profile,):
        assert profile.row_count("api_call") == 20


def test_a_range_whose_function_has_no_name_keeps_its_message(basic: Path) -> None:
    wanted = {"name", "dur_ns"}
    with api.open(basic) as opened:
        before = [{k: row[k] for k in wanted} for row in event_rows(opened.profile, "range")]
    changed(basic, "DELETE FROM rocpd_string$ WHERE string LIKE 'roctx%'")
    with api.open(basic) as opened:
        after = [{k: row[k] for k in wanted} for row in event_rows(opened.profile, "range")]
        assert "nameless-id" in notes(opened.profile)
    assert sorted(map(repr, after)) == sorted(map(repr, before))


def test_a_copy_between_two_gpus_names_both(basic: Path) -> None:
    changed(
        basic,
        "INSERT INTO rocpd_info_agent$ (id, type, type_index, name, extdata) "
        "VALUES (3, 'GPU', 1, 'gfx90a', '{}')",
        "UPDATE rocpd_memory_copy$ SET src_agent_id = 2, dst_agent_id = 3, name_id = "
        "(SELECT id FROM rocpd_string$ WHERE string LIKE '%DEVICE_TO_DEVICE') WHERE id = 1",
    )
    with api.open(basic) as opened:
        (row,) = [row for row in event_rows(opened.profile, "memcpy") if row["direction"] == "PtoP"]
        assert (row["device_id"], row["peer_device_id"]) == (3, 2)


def test_a_process_that_began_on_another_clock_moves_no_zero(basic: Path) -> None:
    """Times of day beside a time since the machine started."""
    later = 1_700_000_000_000_000_000
    tables = ("region", "kernel_dispatch", "memory_copy")
    moved = (f"UPDATE rocpd_{t}$ SET start = start + {later}, end = end + {later}" for t in tables)
    changed(basic, *moved)
    with api.open(basic) as opened:
        starts = [row["start_ns"] for row in event_rows(opened.profile, "kernel")]
        assert len(starts) == 9
        assert max(starts) < WORKLOADS["basic"].duration_ns
