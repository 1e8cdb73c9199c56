"""rocpd databases: what a file of rocprofv3 holds, a real file, and traps.

Rows beside those of nsys' exports are in test_workloads_beside_nsys.py.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, REAL, Row, event_rows, few, with_slow
from fixtures_rocpd import DATABASES
from golden_cases import run
from importing import counts as notes
from importing import imported
from scenarios import WORKLOADS
from write_rocpd import BOOT_NS, RocpdWriter, write_rocpd

from nsysconv import api
from nsysconv.errors import InputError, NotRecorded, UsageError
from nsysconv.facts import Fact
from nsysconv.importers import rocpd
from nsysconv.importers.probe import Probe
from nsysconv.store.location import reading
from nsysconv.store.read import Profile

FOLDER = FIXTURES / "rocpd"
BASIC = FOLDER / "basic-3.db"


def changed(path: Path, *statements: str) -> Path:
    """Runs statements in which $ stands for the end of the tables' names."""
    with closing(sqlite3.connect(path)) as connection, connection:
        (found,) = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_info_node%'")
        for statement in statements:
            connection.execute(statement.replace("$", found[0].removeprefix("rocpd_info_node")))
    return path


@pytest.fixture
def basic(tmp_path: Path) -> Path:
    path = tmp_path / "basic.db"
    write_rocpd(WORKLOADS["basic"], path)
    return path


def test_the_answer_tells_gpus_of_one_process_apart_and_how_to_ask_why(tmp_path: Path) -> None:
    """Of several profiles in one file with names too long for a line."""
    path = tmp_path / "recorded_by_rocprofv3_on_two_gpus.db"
    path.write_bytes((FOLDER / "two_processes_two_gpus-3.db").read_bytes())
    said = run(path.name, cwd=tmp_path).out
    assert re.findall(r", (GPU \d): busy", said) == ["GPU 2", "GPU 3"]
    (command,) = re.findall(r"nsysconv why (.*@\S+) (\S+)", said)
    target, event = (word.replace("TARGET", path.name) for word in command)
    assert "GPU 2" in run("why", target, event, cwd=tmp_path).out


@pytest.mark.parametrize("name", few(DATABASES, 4))
def test_in_place_as_imported(name: str, tmp_path: Path) -> None:
    assert not api.import_files(FOLDER / name, tmp_path / "a.db").errors
    with reading(tmp_path / "a.db") as store:
        stored = store.profiles()
        with Probe(FOLDER / name) as probe:
            assert len(rocpd.suffixes(probe)) == len(stored)
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
            Fact.KERNELS, Fact.MEMCPYS, Fact.API_CALLS, Fact.API_LINKS, Fact.THREADS, Fact.RANGES,
            Fact.DEVICES, Fact.RANKS}  # fmt: skip
        (device,) = profile.rows("device")
        gpu = WORKLOADS["basic"].processes[0].devices[0]
        wanted = {
            "device_id": 2, "ordinal": 0, "name": "AMD Instinct MI210", "sm_count": gpu.sm_count,
            "memory_bytes": gpu.memory_bytes, "uuid": "GPU-" + gpu.uuid.replace("-", "")[:16].lower(),
        }  # fmt: skip
        assert wanted.items() <= device.items()
        assert profile.attributes["zero_utc_ns"] is None
        assert profile.attributes["recording_ns"] == WORKLOADS["basic"].duration_ns
        assert profile.rows("process")[0]["name"] == "train"
        # Names of AMD's kernels say that matrix cores were used where they do, and nothing else.
        assert {row["tensor_cores"] for row in opened.report("kernels").rows()} == {"unknown"}


def test_a_real_file() -> None:
    """rocprofv3 of ROCm 7 with --kernel-trace: 5 kernels of 48,884 ns in all, and nothing else."""
    path = REAL / "rocpd" / "ROCm+FlyDSL__146104_results.db"
    if not path.exists():
        pytest.skip("the folder of real files is not there")
    with api.open(path) as opened:
        rows = opened.report("kernels").rows()
        sums = {row["name"]: (row["kernel_count"], row["kernel_sum_ns"]) for row in rows}
        assert {name.split("<")[0].split("::")[-1]: of for name, of in sums.items()} == {
            "__amd_rocclr_copyBuffer": (1, 26_450), "kernel_mxscale_gemm_0": (2, 15_694),
            "vectorized_elementwise_kernel": (2, 6_740)}  # fmt: skip
        assert opened.profile.facts == {Fact.KERNELS, Fact.DEVICES}
        assert notes(opened.profile) == {"queues-as-streams": 1, "copies-as-kernels": 1}
        for report, missing in (("api_vs_kernel", "API calls"), ("transfers", "memory copies")):
            with pytest.raises(NotRecorded, match=missing):
                opened.report(report)


# -- traps

KERNELS, CALLS = 9, 20
_ALLOCATION = ("INSERT INTO rocpd_memory_allocate$ (pid, tid, agent_id, type, level, address, size, "
               "start, end) VALUES (4242, 4242, {}, '{}', 'REAL', {}, {}, {}, 0)")  # fmt: skip
_LATER = 1_700_000_000_000_000_000
_DISPATCHED = "(SELECT event_id FROM rocpd_kernel_dispatch$ WHERE kernel_id = 1 LIMIT 1 OFFSET {})"


def _columns(table: str, *names: str) -> Callable[[Profile], object]:
    return lambda profile: [tuple(row[name] for name in names) for row in event_rows(profile, table)]


def _peers(profile: Profile) -> object:
    rows: list[Row] = event_rows(profile, "memcpy")
    return [(r["device_id"], r["peer_device_id"]) for r in rows if r["direction"] == "PtoP"]


def _counted(profile: Profile) -> object:
    return profile.row_count("kernel"), profile.row_count("api_call"), profile.row_count("memcpy")


@dataclass(frozen=True)
class Trap:
    """Statements, notes that follow, and what is found: of rows all or, where it is a set, these."""

    statements: tuple[str, ...]
    notes: dict[str, int]
    look: Callable[[Profile], Any] = _counted
    found: object = (KERNELS, CALLS, 7)


TRAPS = {
    "queues where streams are all 0": Trap(
        ("UPDATE rocpd_kernel_dispatch$ SET stream_id = 0, queue_id = 6",),
        {"queues-as-streams": 1}, _columns("kernel", "stream_id"), {(6,)}),
    "a free has the size of what was taken": Trap(
        (_ALLOCATION.format(2, "ALLOC", 77, 4096, BOOT_NS + 5),
         _ALLOCATION.format("NULL", "FREE", 77, 0, BOOT_NS + 9),
         _ALLOCATION.format("NULL", "FREE", 88, 0, BOOT_NS + 9)),
        {"free-unmatched": 1}, _columns("memory_event", "start_ns", "device_id", "bytes"),
        [(5, 2, 4096), (9, 2, -4096), (9, None, None)]),
    "unknown categories": Trap(
        ("INSERT INTO rocpd_string$ (id, string) VALUES (9001, 'KFD_PAGE_FAULT')",
         "INSERT INTO rocpd_event$ (category_id) VALUES (9001), (9001)"), {"rows-not-read": 2},
        lambda profile: {"KFD_PAGE_FAULT" in n.text for n in profile.notes if n.slug == "rows-not-read"},
        {True}),
    "a function without a name": Trap(
        ("DELETE FROM rocpd_string$ WHERE string = 'hipLaunchKernel'",), {"nameless-id": 1}),
    "a text for a link": Trap(("UPDATE rocpd_event$ SET stack_id = 'x' WHERE id = 1",), {}),
    "a copy between two GPUs": Trap(
        ("INSERT INTO rocpd_info_agent$ (id, type, type_index, name, extdata) "
         "VALUES (3, 'GPU', 1, 'gfx90a', '{}')",
         "UPDATE rocpd_memory_copy$ SET src_agent_id = 2, dst_agent_id = 3, name_id = "
         "(SELECT id FROM rocpd_string$ WHERE string LIKE '%DEVICE_TO_DEVICE') WHERE id = 1"),
        {}, _peers, [(3, 2)]),
    "times of day beside a time since the machine started": Trap(
        tuple(f"UPDATE rocpd_{table}$ SET start = start + {_LATER}, end = end + {_LATER}"
              for table in ("region", "kernel_dispatch", "memory_copy")), {},
        lambda profile: (profile.row_count("kernel"), max(
            row["start_ns"] for row in event_rows(profile, "kernel")) < WORKLOADS["basic"].duration_ns),
        (KERNELS, True)),
    **{f"a size of {size}": Trap(
        (f"UPDATE rocpd_memory_copy$ SET size = {size} WHERE id = 1",), {"sizes-impossible": 1},
        lambda profile: [row["bytes"] for row in event_rows(profile, "memcpy")].count(None), 1)
       for size in (-5, 1 << 62)},
    # What cannot be is left out.
    "a kernel that ends before it starts": Trap(
        ("UPDATE rocpd_kernel_dispatch$ SET end = start - 1 WHERE id = 1",),
        {"negative-duration": 1}, found=(KERNELS - 1, CALLS, 7)),
    "a kernel at a time of day": Trap(
        (f"UPDATE rocpd_kernel_dispatch$ SET start = start + {_LATER}, end = end + {_LATER} "
         "WHERE id = 2",), {"impossible-time": 1}, found=(KERNELS - 1, CALLS, 7)),
    "a text for a time": Trap(
        ("UPDATE rocpd_kernel_dispatch$ SET start = 'soon' WHERE id = 1",), {"wrong-type": 1},
        found=(KERNELS - 1, CALLS, 7)),
    "a blob for a process": Trap(
        ("UPDATE rocpd_region$ SET pid = x'00' WHERE id = 1",), {"wrong-type": 1},
        found=(KERNELS, CALLS - 1, 7)),
    "a kernel of no symbol": Trap(
        ("UPDATE rocpd_kernel_dispatch$ SET kernel_id = 999 WHERE id = 1",), {"nameless-id": 1}),
    "a range that ends before it starts": Trap(
        ("UPDATE rocpd_region$ SET end = start - 5 "
         "WHERE id = (SELECT max(id) FROM rocpd_region$)",), {"impossible-time": 1}),
    **{f"a range whose {cell} is {words}": Trap(
        (f"UPDATE rocpd_region$ SET {cell} = {value} WHERE id = (SELECT max(id) FROM rocpd_region$)",),
        {"impossible-time": 1})
       for cell in ("start", "end")
       for words, value in (("a fraction", f"{cell} + 0.5"), ("a text", "'soon'"),
                            ("of another year", _LATER), ("the last number", (1 << 63) - 1))},
    # A missing table costs what it holds.
    **{f"no table {table}": Trap((f"DROP TABLE rocpd_{table}$",), {},
                                 lambda profile: profile.row_count("memcpy"), 7)
       for table in ("event", "info_agent", "info_kernel_symbol", "string", "info_thread", "track",
                     "region", "kernel_dispatch")},
    # So does a missing column of a table that is joined.
    **{f"no {table}.{column}": Trap(
        (f"ALTER TABLE rocpd_{table}$ RENAME COLUMN {column} TO other",), {},
        lambda profile: profile.row_count("memcpy"), 7)
       for table, column in (("event", "stack_id"), ("event", "category_id"), ("event", "id"),
                             ("track", "pid"), ("track", "id"), ("info_kernel_symbol", "id"))},
}  # fmt: skip


# Times of ranges are looked at in one place: a trap of each end is tried in `make test`.
@pytest.mark.parametrize(
    ("case",), with_slow(((case,), "a range whose" not in case or "fraction" in case) for case in TRAPS)
)
def test_traps(basic: Path, case: str) -> None:
    trap = TRAPS[case]
    changed(basic, *trap.statements)
    with api.open(basic) as opened:
        profile = opened.profile
        found = trap.look(profile)
        assert trap.notes.items() <= notes(profile).items()
        # The end of the tables' names is a UUID of the machine.
        assert not any("88a3" in note.text + note.where for note in profile.notes)
        assert (set(found) if isinstance(trap.found, set) else found) == trap.found


def test_a_missing_node_costs_its_name(basic: Path) -> None:
    changed(basic, "DROP TABLE rocpd_info_node$")
    with imported(basic) as profile:
        assert profile.row_count("memcpy") == 7


def test_an_empty_table_says_nothing_unless_it_was_to_be_recorded(basic: Path) -> None:
    changed(basic, "DELETE FROM rocpd_memory_copy$")
    with api.open(basic) as opened:
        assert Fact.MEMCPYS in opened.profile.facts
    changed(basic, 'UPDATE rocpd_info_process$ SET environment = \'{"ROCPROF_KERNEL_TRACE": "1"}\'')
    with api.open(basic) as opened:
        assert Fact.MEMCPYS not in opened.profile.facts
        assert {Fact.KERNELS, Fact.API_CALLS} <= opened.profile.facts


def test_hsa_calls_are_read_on_request_or_if_they_are_all(basic: Path) -> None:
    changed(
        basic,
        "INSERT INTO rocpd_string$ (id, string) VALUES (9001, 'HSA_CORE_API'), (9002, 'hsa_init')",
        "INSERT INTO rocpd_event$ (id, category_id, stack_id) VALUES (9003, 9001, 5000)",
        "INSERT INTO rocpd_region$ (id, pid, tid, name_id, start, end, event_id) "
        f"VALUES (9004, 4242, 4242, 9002, {BOOT_NS}, {BOOT_NS + 10}, 9003)",
    )
    with api.open(basic) as opened:
        assert opened.profile.row_count("api_call") == CALLS
        assert notes(opened.profile)["hsa-calls-left-out"] == 1
    with api.open(basic, include="hsa_calls") as opened:
        rows = event_rows(opened.profile, "api_call")
        assert len(rows) == CALLS + 1
        assert [row["name"] for row in rows if row["layer"] == "driver"] == ["hsa_init"]
        assert "hsa-calls-left-out" not in notes(opened.profile)
    changed(basic, "DELETE FROM rocpd_region$ WHERE id < 9000", "DELETE FROM rocpd_sample$",
            "DELETE FROM rocpd_event$ WHERE id < 9000")  # fmt: skip
    with api.open(basic) as opened:
        assert [row["name"] for row in event_rows(opened.profile, "api_call")] == ["hsa_init"]


def test_counters_are_added_up_over_instances(basic: Path) -> None:
    """Two instances of a counter in one kernel: 3 + 4; two executions, so 7 and 5."""
    changed(
        basic, "INSERT INTO rocpd_info_pmc$ (id, name, is_derived) VALUES (1, 'SQ_WAVES', 0)",
        *(f"INSERT INTO rocpd_pmc_event$ (event_id, pmc_id, value) "
          f"VALUES ({_DISPATCHED.format(kernel)}, 1, {value})"
          for kernel, value in ((0, 3.0), (0, 4.0), (1, 5.0))),
    )  # fmt: skip
    with api.open(basic) as opened:
        (row,) = opened.report("metrics").rows()
        assert (row["value_min"], row["value_max"], row["value_avg"]) == (5, 7, 6)
        assert "kernels-serialized" in notes(opened.profile)


def test_collectives_and_calls_of_libraries(basic: Path) -> None:
    changed(
        basic,
        "INSERT INTO rocpd_string$ (id, string) VALUES (9001, 'RCCL_API'), "
        "(9002, 'ncclAllReduce'), (9005, 'ncclGroupStart'), (9006, 'ROCDECODE_API_EXT'), "
        "(9007, 'rocDecDecodeFrame')",
        "INSERT INTO rocpd_event$ (id, category_id) VALUES (9010, 9001), (9011, 9001), (9012, 9006)",
        *(f"INSERT INTO rocpd_region$ (pid, tid, name_id, start, end, event_id) "
          f"VALUES (4242, 4242, {name}, {BOOT_NS}, {BOOT_NS + 10}, {event})"
          for name, event in ((9002, 9010), (9005, 9011), (9007, 9012))),
    )  # fmt: skip
    with api.open(basic) as opened:
        look = _columns("collective", "name", "kind", "dur_ns")
        assert look(opened.profile) == [("allreduce", "call", 10)]
        assert set(_columns("operator", "name", "kind")(opened.profile)) == {  # type: ignore[call-overload]
            ("ncclGroupStart", "library_call"), ("rocDecDecodeFrame", "library_call")}  # fmt: skip
        assert opened.profile.facts >= {Fact.COLLECTIVES, Fact.LIBRARY_CALLS}


def test_ids_that_are_no_numbers_of_processes_and_threads(basic: Path) -> None:
    """rocprof-sys numbers them itself."""
    changed(
        basic, "UPDATE rocpd_info_process$ SET id = 1", "UPDATE rocpd_info_thread$ SET id = 7",
        "UPDATE rocpd_region$ SET pid = 1, tid = 7", "UPDATE rocpd_kernel_dispatch$ SET pid = 1",
    )  # fmt: skip
    with api.open(basic) as opened, api.open(BASIC) as wanted:
        for table in ("api_call", "range", "kernel"):
            found, expected = (
                Counter(repr(sorted((name, cell) for name, cell in row.items() if name != "id"))
                        for row in event_rows(profile, table) if row["pid"] is not None)
                for profile in (opened.profile, wanted.profile))  # fmt: skip
            assert found == expected, table
        assert [row["tid"] for row in opened.profile.rows("thread")].count(4242) == 1


def test_a_profiler_that_stopped_while_it_wrote(tmp_path: Path) -> None:
    path = tmp_path / "stopped.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        RocpdWriter(connection, "_00aa", "3").string("hipMalloc")
    with pytest.raises(InputError, match="the profiler stopped while it wrote the file"):
        api.open(path)
    changed(path, "DROP TABLE rocpd_string$")
    with pytest.raises(InputError, match="the profiler stopped"):
        api.open(path)


def doubled(path: Path, *tables: str) -> Path:
    """Adds a second recording, with the rows of these tables, or of all."""
    with closing(sqlite3.connect(path)) as connection, connection:
        found = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name LIKE 'rocpd%'"
        ).fetchall()
        (end,) = (name.removeprefix("rocpd_info_node") for name, _ in found if "info_node" in name)
        for name, sql in found:
            other = name.replace(end, "_0000aaaa")
            connection.execute(sql.replace(end, "_0000aaaa"))
            if not tables or any(word in name for word in tables):
                connection.execute(f"INSERT INTO {other} SELECT * FROM {name}")
    return path


@pytest.mark.parametrize("host", ["other", None])
def test_processes_of_two_containers_may_have_one_number(basic: Path, host: str | None) -> None:
    doubled(basic)
    if host is not None:
        with closing(sqlite3.connect(basic)) as connection, connection:
            connection.execute(f"UPDATE rocpd_info_node_0000aaaa SET hostname = '{host}'")
    result = api.import_files(basic, basic.with_name("store.db"))
    labels = {each.label for each in result.files[0].imported}
    assert len(labels) == 2
    assert not any("None" in label for label in labels)
    assert (host is None) or f"basic-pid 4242 on {host}" in labels


def test_a_process_whose_host_is_not_known_is_on_none(basic: Path) -> None:
    doubled(basic)
    with closing(sqlite3.connect(basic)) as connection, connection:
        connection.execute("UPDATE rocpd_info_node_0000aaaa SET hostname = NULL")
    result = api.import_files(basic, basic.with_name("store.db"))
    first, second = (each.label for each in result.files[0].imported)
    assert " on " in first
    assert second == "basic-pid 4242"


def test_a_recording_that_stopped_costs_no_other_one(basic: Path) -> None:
    doubled(basic, "metadata", "string", "info_node")
    with api.open(basic) as opened:
        assert opened.profile.row_count("kernel") == 9
        assert notes(opened.profile)["part-unread"] == 1


def test_a_database_without_its_metadata_says_what_is_missing(basic: Path) -> None:
    changed(basic, "DROP TABLE rocpd_metadata$")
    with pytest.raises(InputError, match="a rocpd database without its table rocpd_metadata"):
        api.open(basic)


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"a": ', "null"])
def test_damaged_json_is_not_recorded(basic: Path, text: str) -> None:
    places = (("info_process", "environment"), ("info_agent", "extdata"), ("event", "extdata"))
    changed(basic, *(f"UPDATE rocpd_{table}$ SET {column} = '{text}'" for table, column in places))
    with api.open(basic) as opened:
        assert opened.profile.row_count("kernel") == KERNELS
        (device,) = opened.profile.rows("device")
        assert device["uuid"] is None
        assert {row["name"] for row in event_rows(opened.profile, "range")} <= {
            "roctxThreadRangeA", "roctxProcessRangeA", "roctxMarkA"}  # fmt: skip


def test_json_of_a_real_agent_is_read(basic: Path) -> None:
    """The bytes of a UUID as rocprofv3 writes them, and what rocminfo says: GPU-acc76b6ee1d14186."""
    values = (0x86, 0x41, 0xD1, 0xE1, 0x6E, 0x6B, 0xC7, 0xAC)
    details = {
        "uuid": {"bytes": {f"value{i}": value for i, value in enumerate(values)}},
        "domain": 0, "location_id": 3072, "gfx_target_version": 90402,
    }  # fmt: skip
    changed(basic, f"UPDATE rocpd_info_agent$ SET extdata = '{json.dumps(details)}'")
    with api.open(basic) as opened:
        (device,) = opened.profile.rows("device")
        assert (device["uuid"], device["bus_id"]) == ("GPU-acc76b6ee1d14186", "0000:0c:00.0")
        assert (device["compute_major"], device["compute_minor"]) == (9, 4)


@pytest.mark.parametrize("table", ["event", "string"])
def test_calls_without_a_category_are_no_zero(basic: Path, table: str) -> None:
    changed(basic, f"DELETE FROM rocpd_{table}$")
    with api.open(basic) as opened:
        assert notes(opened.profile)["category-unknown"] >= CALLS
        assert Fact.API_CALLS not in opened.profile.facts


def test_a_mark_has_no_duration(basic: Path) -> None:
    with api.open(basic) as opened:
        marks = [row for row in event_rows(opened.profile, "range") if row["kind"] == "mark"]
    assert [(row["name"], row.get("dur_ns")) for row in marks] == [("checkpoint", None)]


def test_a_range_whose_function_has_no_name_keeps_its_message(basic: Path) -> None:
    """What takes no time is a mark then."""
    look = _columns("range", "name", "dur_ns", "kind")
    with api.open(basic) as opened:
        before = look(opened.profile)
    changed(basic, "DELETE FROM rocpd_string$ WHERE string LIKE 'roctx%'")
    with api.open(basic) as opened:
        assert look(opened.profile) == before
        assert "nameless-id" in notes(opened.profile)
