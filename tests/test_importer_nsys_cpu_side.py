"""What exports of Nsight Systems tell beside kernels, copies and API calls.

The events are those of `scripts/scenario_cpu_side.py`. The expected rows are written out by hand from
the scenario's description, for every age of the export.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import (
    EVENTS,
    NSYS,
    REAL_FILES,
    Row,
    by_turns,
    contents,
    event_rows,
    few,
    import_file,
    in_any_order,
    name_of,
    profile_in_place,
    real,
    small_rows,
    store_in_place,
    with_slow,
)
from importing import changed_copy
from scenario_cpu_side import BASE, WORLD

from nsysconv import codes, schema
from nsysconv.facts import Fact
from nsysconv.importers import directives, nsys_sqlite
from nsysconv.notes import Note, Severity
from nsysconv.store.location import reading
from nsysconv.store.read import Profile

AGES = ("2.9.1", "3.4.0", "3.17.2", "3.28.1")
EVERYTHING = frozenset(nsys_sqlite.INCLUDABLE)
OpenIt = Callable[..., Profile]
Changed = Callable[..., Path]
every_age = pytest.mark.parametrize("age", with_slow((age, age in (AGES[0], AGES[-1])) for age in AGES))


def _file(age: str) -> Path:
    return NSYS / f"cpu_side-{age}.sqlite"


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenIt]:
    """Imports a file with what is included, each pair once."""
    known: dict[tuple[Path, frozenset[str]], Profile] = {}
    with ExitStack() as stack:

        def profile_of(path: Path, include: Iterable[str] = EVERYTHING) -> Profile:
            key = (path, frozenset(include))
            if key not in known:
                store = tmp_path_factory.mktemp("store") / "store.db"
                import_file(path, store, include=include)
                (known[key],) = stack.enter_context(reading(store)).profiles()
            return known[key]

        yield profile_of


@pytest.fixture
def changed(tmp_path: Path) -> Changed:
    """A copy of an export with some SQL done to it."""
    return lambda sql, age="3.28.1": changed_copy(_file(age), tmp_path, sql)


@pytest.fixture
def altered(imported: OpenIt, changed: Changed) -> OpenIt:
    """The profile of a copy with some SQL done to it."""
    return lambda sql, age="3.28.1": imported(changed(sql, age))


def _rows(profile: Profile, table: str) -> list[Row]:
    """The rows of an event table in an order of their own, without what is null."""
    return in_any_order([
        {name: cell for name, cell in row.items() if cell is not None}
        for row in event_rows(profile, table)
    ])  # fmt: skip


def _same(found: list[Row], wanted: list[Row]) -> None:
    def sort(rows: list[Row]) -> list[list[tuple[str, Any]]]:
        return in_any_order([sorted(row.items()) for row in rows])

    assert sort(found) == sort(wanted)


def _metrics(profile: Profile) -> list[Row]:
    """The rows of metrics, whose values are no integers, with words for names and units."""
    rows = [row for batch in profile.batches("metric_sample", 1000) for row in batch.to_pylist()]
    names = profile.names({row["name_id"] for row in rows} - {None})
    units = dict(enumerate(codes.METRIC_UNITS))
    return [row | {"name": names.get(row["name_id"]), "unit": units.get(row["unit"])}
            for row in rows]  # fmt: skip


def _samples(profile: Profile) -> list[tuple[Any, ...]]:
    """(device, time, metric, unit, value) of all samples."""
    columns = ("device_id", "start_ns", "name", "unit", "value_avg")
    return in_any_order([tuple(row[each] for each in columns) for row in _metrics(profile)])


def _notes(profile: Profile, slug: str) -> list[Note]:
    return [note for note in profile.notes if note.slug == slug]


def _call(start: int, end: int, tid: int, **others: Any) -> Row:
    pid = 9001 if tid == 9011 else tid
    return {"start_ns": start, "dur_ns": end - start, "pid": pid, "tid": tid, **others}


# -- rows, age by age


OSRT = [
    _call(10_000, 14_000, 9001, name="poll", result=0, nesting_level=0),
    _call(11_000, 12_000, 9001, name="read", result=16, nesting_level=1),
    _call(10_500, 13_500, 9011, name="sem_wait", result=0, nesting_level=0),
    _call(10_000, 10_400, 9002, name="write", result=-1, nesting_level=0),
]
def _switch(time: int, tid: int, cpu: int, state: str | None = None) -> Row:
    runs = {"is_running": int(state is None), "state": state or "Unknown"}
    return {"start_ns": time, "pid": 9001, "tid": tid, "cpu": cpu, **runs}


# Nothing of a process of which only CPUs know.
SWITCHES = [
    _switch(200, 9001, 2), _switch(10_100, 9001, 2, "Interruptible"),
    _switch(10_200, 9011, 2), _switch(12_900, 9011, 2, "Running"),
    _switch(13_000, 9001, 3), _switch(44_000, 9001, 3, "Terminated"),
    _switch(13_100, 9011, 2), _switch(13_600, 9011, 2, "Terminated"),
]  # fmt: skip
SAMPLES = [
    {"start_ns": start, "pid": 9001, "tid": tid, "cpu": 2, "name": name, "library": library}
    for start, tid, name, library in (
        (9_000, 9001, "solve_step", "solve"), (11_000, 9011, "prepare", "solve"),
        (39_000, 9001, "0x7f00deadbeef", "libm.so.6"))
]  # fmt: skip
_P2P: Row = {"kind": "p2p", "communicator_id": WORLD, "tag": 7, "bytes": 4_096}
_ALL: Row = {"kind": "collective", "communicator_id": WORLD}
MPI = [
    _call(500, 900, 9001, kind="other", name="MPI_Init"),
    _call(20_000, 20_800, 9001, name="MPI_Send", remote_rank=1, **_P2P),
    _call(20_100, 21_000, 9002, name="MPI_Recv", remote_rank=0, **_P2P),
    _call(22_000, 22_900, 9001, name="MPI_Allreduce", bytes=800, recv_bytes=800, **_ALL),
    _call(22_100, 22_900, 9002, name="MPI_Allreduce", bytes=800, recv_bytes=800, **_ALL),
    _call(23_000, 23_500, 9001, name="MPI_Reduce", root_rank=0, bytes=80, recv_bytes=80, **_ALL),
    _call(23_000, 23_100, 9002, name="MPI_Reduce", root_rank=0, bytes=80, **_ALL),
    # One call, though it waited for three requests.
    _call(24_000, 24_500, 9001, kind="wait", name="MPI_Waitall"),
    _call(24_100, 24_400, 9002, kind="wait", name="MPI_Wait"),
]
LIBRARIES = [
    _call(30_000, 31_000, 9001, kind="library_call", name="cublasSgemm_v2"),
    _call(31_500, 32_500, 9001, kind="library_call", name="cudnnConvolutionForward"),
]
LAUNCH = "acc_enqueue_launch@solve.c:85 (solve_85_gpu)"
OPENACC = [
    _call(32_600, 32_700, 9001, kind="directive", name=LAUNCH),
    _call(33_000, 33_200, 9001, kind="directive", name="acc_enqueue_upload@solve.c:80 (u)"),
    _call(33_300, 33_300, 9001, kind="directive", name="acc_create@solve.c:80 (u)"),
    _call(33_400, 33_900, 9001, kind="directive", name="acc_wait"),
]
OPENMP = [
    _call(34_000, 36_000, 9001, kind="directive", name="Parallel region"),
    _call(35_000, 35_800, 9001, kind="directive", name="Implicit barrier"),
]
_FIRST: Row = {"pid": 9001, "device_id": 0, "context_id": 1, "memory_kind": "Device"}
_SECOND: Row = {"pid": 9002, "device_id": 1, "context_id": 1}
MEMORY = [
    {"start_ns": 200, **_FIRST, "address": 0x1000, "bytes": 1_000_000,
     "allocated_bytes": 1_000_000},
    {"start_ns": 300, **_FIRST, "address": 0x2000, "bytes": 500, "allocated_bytes": 1_000_500},
    {"start_ns": 38_000, **_FIRST, "address": 0x2000, "bytes": -500,
     "allocated_bytes": 1_000_000},
    # Of the host, and of both: in use on no device.
    {"start_ns": 250, "pid": 9001, "context_id": 1, "memory_kind": "Pinned", "address": 0x9000,
     "bytes": 4_096},
    {"start_ns": 410, **_SECOND, "memory_kind": "Managed", "address": BASE, "bytes": 8_192},
    # At the address of a block of the other process, on the other device.
    {"start_ns": 400, **_SECOND, "memory_kind": "Device", "address": 0x1000, "bytes": 2_000,
     "allocated_bytes": 2_000},
]  # fmt: skip
GPU_FAULTS = [
    {"start_ns": 36_500, "dur_ns": 400, "pid": 9001, "device_id": 0, "kind": "gpu",
     "address": BASE + 0x2000, "count": 16, "access": "Write"},
    {"start_ns": 4_000, "dur_ns": 100, "pid": 9002, "device_id": 1, "kind": "gpu",
     "address": BASE, "count": 2, "access": "Atomic"},
]  # fmt: skip
CPU_FAULT: Row = {
    "start_ns": 600, "pid": 9001, "kind": "cpu", "address": BASE, "count": 1,
    "instruction": "initialize", "module": "solve",
}  # fmt: skip
CLOCK, ACTIVE = "GPC Clock Frequency [MHz]", "SMs Active [Throughput %]"
REQUESTS = "PCIe Read Requests to BAR1 [Requests]"


def _expected_samples(first: int, second: int) -> list[tuple[Any, ...]]:
    return in_any_order([
        (first, 1_000, CLOCK, "number", 1_410.0), (first, 1_000, ACTIVE, "%", 75.0),
        (second, 1_000, ACTIVE, "%", 50.0), (second, 1_000, CLOCK, "number", 1_095.0),
        (second, 1_000, REQUESTS, "number", 1_200_000.0), (first, 2_000, CLOCK, "number", 0.0),
        (first, 2_000, ACTIVE, "%", 0.0), (second, 2_000, ACTIVE, "%", 100.0),
    ])  # fmt: skip


ROWS = {
    "osrt_call": OSRT,  # without the row that says when their tracing began
    "cpu_switch": SWITCHES,
    "cpu_sample": SAMPLES,
    "mpi_call": MPI,
    "operator": [*LIBRARIES, *OPENACC, *OPENMP],
    "memory_event": MEMORY,
    "page_fault": [*GPU_FAULTS, CPU_FAULT],
}
ROWS_OF_AGES: dict[tuple[str, str], list[Row]] = {
    # Up to 3.13 a row says in which state a thread leaves.
    **{("cpu_switch", age): [{k: v for k, v in row.items() if k != "state"} for row in SWITCHES]
       for age in ("3.17.2", "3.28.1")},
    ("mpi_call", "2.9.1"): [],  # exports before 3.0 have no tables for them
    # Since 3.28 a fault of the CPU names its place in the source.
    ("page_fault", "3.28.1"): [
        *GPU_FAULTS, CPU_FAULT | {"source_file": "init.c", "source_line": 12}],
}  # fmt: skip


@every_age
@pytest.mark.parametrize("table", ROWS)
def test_rows_are_those_of_the_scenario(imported: OpenIt, age: str, table: str) -> None:
    _same(_rows(imported(_file(age)), table), ROWS_OF_AGES.get((table, age), ROWS[table]))


@every_age
def test_gpu_metrics(imported: OpenIt, age: str) -> None:
    """A metric's number is its GPU's own, and clocks are stored as Hz; GPU 0 is sampled as the first.

    Without a map from processes' ordinals to GPUs nobody knows which devices were sampled: they are
    devices of their own.
    """
    mapped = age in ("3.17.2", "3.28.1")
    profile = imported(_file(age))
    assert _samples(profile) == (_expected_samples(0, 1) if mapped else _expected_samples(2, 3))
    uuids = {row["device_id"]: row["uuid"] for row in profile.rows("device")}
    sampled = ["a100a100-0000-4000-8000-000000000000", "a100a100-0000-4000-8000-000000000001"]
    assert uuids == dict(enumerate(sampled if mapped else [None, None, *sampled]))


@every_age
def test_a_metric_has_one_name_on_all_gpus(imported: OpenIt, age: str) -> None:
    profile = imported(_file(age))
    ids = set(profile.columns("metric_sample", ("name_id",))["name_id"].tolist())
    assert sorted(profile.names(ids).values()) == [CLOCK, REQUESTS, ACTIVE]


@every_age
def test_made_up_names_are_numbers_that_no_name_of_the_file_has(imported: OpenIt, age: str) -> None:
    profile = imported(_file(age))
    connection = sqlite3.connect(_file(age))
    own = dict(connection.execute("SELECT id, value FROM StringIds"))
    connection.close()
    texts = {row["id"]: row["text"] for row in profile.rows("name")}
    made_up = {text for number, text in texts.items() if number not in own}
    assert made_up == {CLOCK, REQUESTS, ACTIVE, *(row["name"] for row in OPENACC)}
    assert all(own[number].endswith(text) for number, text in texts.items() if number in own)


@every_age
def test_green_contexts_and_priorities(imported: OpenIt, age: str) -> None:
    """Both as the source gives them; the column for green contexts came with 3.7."""
    profile = imported(_file(age))
    for table in ("kernel", "memcpy", "memset"):
        found = {row["green_context_id"] for row in event_rows(profile, table)
                 if row["pid"] == 9001}  # fmt: skip
        assert found == {3 if age in ("3.17.2", "3.28.1") else None}, table
    if age in ("3.17.2", "3.28.1"):
        assert [row["parent_context_id"] for row in profile.rows("context") if row["is_green"]] == [
            1
        ]
    threads = {(row["pid"], row["tid"]): row["priority"] for row in profile.rows("thread")}
    # Before 3.0 MPI's row about a main thread has no priority.
    main = 0 if age == "2.9.1" else 20
    assert threads == {(9001, 9001): main, (9001, 9011): 10, (9002, 9002): main}


@pytest.mark.parametrize(
    ("age", "include"),
    by_turns(AGES, [(), tuple(EVERYTHING)], 4),
    ids=lambda each: each if isinstance(each, str) else str(len(each)),
)
def test_in_place_it_is_the_same(imported: OpenIt, age: str, include: tuple[str, ...]) -> None:
    with profile_in_place(_file(age), include) as profile:
        assert contents(profile) == contents(imported(_file(age), include))
        assert _samples(profile) == _samples(imported(_file(age), include))


def test_an_id_that_stands_for_no_name_is_nobody_elses(altered: OpenIt) -> None:
    profile = altered("UPDATE MPI_OTHER_EVENTS SET textId = -1")
    names = {row["start_ns"]: row["name"] for row in _rows(profile, "mpi_call")}
    assert names[500] == "[name -1]"


def test_strings_with_the_numbers_that_names_get_keep_theirs(altered: OpenIt) -> None:
    lowest = -(1 << 30)
    profile = altered(f"UPDATE StringIds SET id = {lowest} WHERE value = 'MPI_Wait';"
                   f"UPDATE MPI_START_WAIT_EVENTS SET textId = {lowest} WHERE start = 24100")  # fmt: skip
    _same(_rows(profile, "mpi_call"), MPI)
    _same(_rows(profile, "operator"), LIBRARIES + OPENACC + OPENMP)


# -- what is included, and facts


ALWAYS = {Fact.DIRECTIVES, Fact.LIBRARY_CALLS, Fact.MEMORY_EVENTS, Fact.MPI_CALLS, Fact.PAGE_FAULTS,
          Fact.OSRT_CALLS, Fact.SCHEDULING, Fact.CPU_SAMPLES}  # fmt: skip
ON_REQUEST = {Fact.METRICS: "metric_sample"}


def test_the_words_are_the_facts() -> None:
    """So that a report that needs a fact can ask for its rows."""
    assert set(nsys_sqlite.INCLUDABLE) == {fact.value for fact in ON_REQUEST}


@every_age
@pytest.mark.parametrize("word", sorted(EVERYTHING))
def test_rows_on_request(imported: OpenIt, age: str, word: str) -> None:
    """One word brings its own rows and fact, and nothing of the other's."""
    profile = imported(_file(age), (word,))
    assert set(ON_REQUEST) & profile.facts == {Fact(word)}
    for fact, table in ON_REQUEST.items():
        assert bool(_rows(profile, table)) == (fact == word)


@every_age
def test_without_the_words_nothing_of_them_comes_in(imported: OpenIt, age: str) -> None:
    """No thread, name or device that only they mention; how to get them is said."""
    profile = imported(_file(age), ())
    wanted = ALWAYS - {Fact.MPI_CALLS} if age == "2.9.1" else ALWAYS
    assert (ALWAYS | set(ON_REQUEST)) & profile.facts == wanted
    assert {row["tid"] for row in profile.rows("thread")} == {9001, 9002, 9011}
    assert len(profile.rows("device")) == 2
    texts = {row["text"] for row in profile.rows("name")}
    assert not texts & {CLOCK, ACTIVE, REQUESTS}
    for fact in ON_REQUEST:
        assert profile.advice[fact] == f"Import again with `--include {fact}`."


def test_a_file_without_such_rows_says_how_to_record_them(
    imported: OpenIt, changed: Changed
) -> None:
    """Rows that only frame the tracing are no rows."""
    path = changed("DELETE FROM OSRT_API WHERE eventClass = 27; DROP TABLE GPU_METRICS")
    for include in ((), EVERYTHING):
        profile = imported(path, include)
        assert "--trace=cuda,nvtx,osrt" in profile.advice[Fact.OSRT_CALLS]
        assert "--gpu-metrics-devices=all" in profile.advice[Fact.METRICS]
        assert not {Fact.OSRT_CALLS, *ON_REQUEST} & profile.facts


def test_what_is_included_moves_no_time(imported: OpenIt, changed: Changed) -> None:
    """Where a file does not say how long it recorded, the last of the other events says it."""
    path = changed("DELETE FROM ANALYSIS_DETAILS; UPDATE OSRT_API SET end = 99000 WHERE end = 14000;"
                   "UPDATE GPU_METRICS SET timestamp = 88000 WHERE timestamp = 2000")  # fmt: skip
    for include in ((), EVERYTHING):
        assert imported(path, include).attributes["recording_ns"] == 38_000 - 500


@every_age
def test_rows_that_frame_the_tracing_need_no_note(imported: OpenIt, age: str) -> None:
    assert [note.slug for note in imported(_file(age)).notes] == []


# -- odd exports


def test_times_of_day(imported: OpenIt, altered: OpenIt) -> None:
    """`nsys export --ts-normalize`: times count from the whole second before the first event."""
    zero = 1_767_225_600 * 10**9
    connection = sqlite3.connect(_file("3.28.1"))
    statements = []
    for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
        columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        statements += [f"UPDATE {table} SET {time} = {time} + {zero};" for time in
                       {"start", "end", "timestamp"} & columns]  # fmt: skip
    connection.close()
    statements += [
        "UPDATE META_DATA_EXPORT SET value = 'true' WHERE name = 'EXPORT_PARAM_TIME_NORMALIZE';"
    ]
    profile, plain = altered("".join(statements)), imported(_file("3.28.1"))
    assert profile.attributes["zero_utc_ns"] == zero
    for table in ("osrt_call", "mpi_call", "operator", "memory_event", "page_fault"):
        _same(_rows(profile, table), _rows(plain, table))
    assert _samples(profile) == _samples(plain)


def test_times_of_day_in_samples_alone(altered: OpenIt) -> None:
    """Of an export that does not say so, too."""
    zero = 1_767_225_600 * 10**9
    connection = sqlite3.connect(_file("3.28.1"))
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")
              if name in nsys_sqlite.tables.EVENT_SOURCES and name != "GPU_METRICS"]  # fmt: skip
    connection.close()
    profile = altered("".join(f"DELETE FROM {name};" for name in tables)
                   + f"UPDATE GPU_METRICS SET timestamp = timestamp + {zero}")  # fmt: skip
    assert profile.attributes["zero_utc_ns"] == zero
    assert _samples(profile) == _expected_samples(0, 1)


def test_a_gpu_is_sampled_under_a_number_of_its_own(
    imported: OpenIt, changed: Changed
) -> None:
    """Of TARGET_INFO_GPU it is pwGpuId, which here is the other one's; the first is process 9001's."""
    path = changed("UPDATE TARGET_INFO_GPU SET pwGpuId = 1 - id")
    assert _samples(imported(path)) == _expected_samples(1, 0)


def test_a_gpu_that_is_sampled_and_not_described(altered: OpenIt) -> None:
    profile = altered("DELETE FROM TARGET_INFO_GPU WHERE id = 1;"
                      "DELETE FROM TARGET_INFO_CUDA_DEVICE WHERE gpuId = 1")  # fmt: skip
    devices = [(row["pid"], row["uuid"] is None) for row in profile.rows("device")]
    # What process 9002 runs on, GPU 0, and what was sampled: the first and the last may be the same.
    assert devices == [(9002, True), (9001, False), (None, True)]
    assert _samples(profile) == _expected_samples(1, 2)


def test_memory_and_page_faults_are_no_work_on_a_gpu(
    imported: OpenIt, changed: Changed
) -> None:
    """The launcher's environment speaks for the only process at work, not for one that had a fault."""
    path = changed(
        "DELETE FROM MPI_RANKS; DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE end = 6000;"
        "INSERT INTO META_DATA_CAPTURE VALUES ('PROCESS_0:ENVIRONMENT_VARIABLE', 'RANK=3')"
    )
    ranks = {row["pid"]: row["rank"] for row in imported(path).rows("process")}
    assert ranks == {9001: 3, 9002: None}


def test_metrics_without_a_name(altered: OpenIt) -> None:
    """The clock of GPU 0 has one no more: it goes by its number, and is no clock that is known."""
    profile = altered(f"DELETE FROM TARGET_INFO_GPU_METRICS WHERE metricName = '{CLOCK}' "
                      "AND typeId & 255 = 0")  # fmt: skip
    assert (0, 1_000, "[metric 0]", "number", 1_410_000_000.0) in _samples(profile)
    (note,) = _notes(profile, "nameless-id")
    assert (note.count, note.facts) == (1, {Fact.METRICS})


def test_clocks_in_mhz_stay_so(imported: OpenIt, changed: Changed) -> None:
    path = changed("UPDATE GPU_METRICS SET value = 1410 WHERE value = 1410000000")
    assert _samples(imported(path)) == _expected_samples(0, 1)


UNBALANCED = {
    "a block was never taken": "DELETE FROM T WHERE address = 8192 AND memoryOperationType = 0",
    "another size came back": "UPDATE T SET bytes = 400 WHERE memoryOperationType = 1",
    "a block was taken twice": "UPDATE T SET address = 4096 WHERE address = 8192",
    "nobody knows which it was": "UPDATE T SET memoryOperationType = 7 WHERE address = 8192",
    "a size is no number": "UPDATE T SET bytes = 'much' WHERE start = 200",
    "a row is left out": "UPDATE T SET start = 'x' WHERE start = 200",
}


@pytest.mark.parametrize("what", few(UNBALANCED, 3))
def test_memory_in_use_is_not_told_where_it_does_not_add_up(
    imported: OpenIt, changed: Changed, what: str
) -> None:
    path = changed(UNBALANCED[what].replace(" T ", " CUDA_GPU_MEMORY_USAGE_EVENTS "))
    rows = _rows(imported(path), "memory_event")
    assert len(rows) >= 5
    assert not any("allocated_bytes" in row for row in rows)


def test_memory_events_without_a_time(altered: OpenIt) -> None:
    """Some releases write 0 for all of them; their order tells what was in use."""
    profile = altered("UPDATE CUDA_GPU_MEMORY_USAGE_EVENTS SET start = 0", "3.4.0")
    found = [(row["bytes"], row["allocated_bytes"]) for row in event_rows(profile, "memory_event")
             if (row["device_id"], row["memory_kind"]) == (0, "Device")]  # fmt: skip
    assert found == [(1_000_000, 1_000_000), (500, 1_000_500), (-500, 1_000_000)]
    assert not any("start_ns" in row for row in _rows(profile, "memory_event"))


def test_events_of_a_class_that_is_not_known(altered: OpenIt) -> None:
    profile = altered("UPDATE OSRT_API SET eventClass = 555 WHERE start = 11000;"
                      "UPDATE CUDNN_EVENTS SET eventClass = 556 WHERE eventClass = 28")  # fmt: skip
    _same(_rows(profile, "osrt_call"), [row for row in OSRT if row["name"] != "read"])
    assert {
        (note.count, note.severity, note.facts) for note in _notes(profile, "unknown-code")
    } == {
        (1, Severity.DROPPED, frozenset({Fact.OSRT_CALLS})),
        (1, Severity.DROPPED, frozenset({Fact.LIBRARY_CALLS})),
    }


CODES = {
    "a kind of memory": (
        "UPDATE CUDA_GPU_MEMORY_USAGE_EVENTS SET memKind = 99 WHERE memKind = 1",
        "memory_event", {"memory_kind": "Unknown"}, Fact.MEMORY_EVENTS),
    "an operation on memory": (
        "UPDATE CUDA_GPU_MEMORY_USAGE_EVENTS SET memoryOperationType = 9 WHERE memKind = 1",
        "memory_event", {"memory_kind": "Pinned", "address": 0x9000}, Fact.MEMORY_EVENTS),
    "an access that faulted": (
        "UPDATE CUDA_UM_GPU_PAGE_FAULT_EVENTS SET faultAccessType = 9 WHERE numberOfPageFaults = 2",
        "page_fault", {"access": "Unknown", "count": 2}, Fact.PAGE_FAULTS),
    "a kind of construct": (
        "UPDATE CUPTI_ACTIVITY_KIND_OPENACC_OTHER SET eventKind = 99",
        "operator", {"name": "[OpenACC event 99]"}, Fact.DIRECTIVES),
}  # fmt: skip


@pytest.mark.parametrize("what", CODES)
def test_codes_that_are_not_known(altered: OpenIt, what: str) -> None:
    sql, table, cells, fact = CODES[what]
    profile = altered(sql)
    assert sum(cells.items() <= row.items() for row in _rows(profile, table)) == 1
    (note,) = _notes(profile, "unknown-code")
    assert (note.count, note.facts) == (1, {fact})


def test_more_constructs_than_can_be(altered: OpenIt, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows keep their time and lose their name."""
    monkeypatch.setattr(directives, "MAX_CONSTRUCTS", 1)
    profile = altered("SELECT 1")
    rows = [row for row in _rows(profile, "operator") if 32_600 <= row["start_ns"] < 33_400]
    assert sorted("name" in row for row in rows) == [False, True, True]
    (note,) = _notes(profile, "nameless-id")
    assert (note.where, note.facts) == ("CUPTI_ACTIVITY_KIND_OPENACC_DATA", {Fact.DIRECTIVES})


def test_a_name_that_a_construct_refers_to_and_the_file_lacks(altered: OpenIt) -> None:
    profile = altered("UPDATE CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH SET kernelName = 4000")
    names = {row["name"] for row in _rows(profile, "operator")}
    assert "acc_enqueue_launch@solve.c:85 ([name 4000])" in names
    assert [note.count for note in _notes(profile, "nameless-id")] == [1]


def test_tables_that_lack_what_is_needed(imported: OpenIt, changed: Changed) -> None:
    """What they may hold is not recorded; a table that nobody asked for is not looked at."""
    path = changed(
        "ALTER TABLE CUDA_UM_CPU_PAGE_FAULT_EVENTS DROP COLUMN globalPid;"
        "ALTER TABLE CUBLAS_EVENTS DROP COLUMN globalTid;"
        "ALTER TABLE CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH DROP COLUMN eventKind;"
        "ALTER TABLE OSRT_API DROP COLUMN end; DROP TABLE GPU_METRICS;"
        "CREATE VIEW GPU_METRICS AS SELECT 1 AS timestamp"
    )  # fmt: skip
    profile = imported(path)
    told = {note.where: note.facts for note in _notes(profile, "not-a-table")}
    assert told == {
        "CUDA_UM_CPU_PAGE_FAULT_EVENTS": {Fact.PAGE_FAULTS},
        "CUBLAS_EVENTS": {Fact.LIBRARY_CALLS},
        "CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH": {Fact.DIRECTIVES},
        "OSRT_API": {Fact.OSRT_CALLS},
        "GPU_METRICS": {Fact.METRICS},
    }
    lost = {Fact.PAGE_FAULTS, Fact.LIBRARY_CALLS, Fact.DIRECTIVES, Fact.OSRT_CALLS, *ON_REQUEST}
    assert not lost & profile.facts
    assert {Fact.MPI_CALLS, Fact.MEMORY_EVENTS} <= profile.facts
    unasked = _notes(imported(path, ()), "not-a-table")
    assert "GPU_METRICS" not in {note.where for note in unasked}


@every_age
def test_tables_without_rows(altered: OpenIt, age: str) -> None:
    """They are recorded as little as tables that are not there."""
    begin = ("OSRT_API", "SCHED_EVENTS", "COMPOSITE_EVENTS", "MPI_", "OPENMP", "CUBLAS", "CUDNN",
             "GPU_METRICS", "CUDA_UM_", "CUDA_GPU_MEMORY", "CUPTI_ACTIVITY_KIND_OPENACC")  # fmt: skip
    connection = sqlite3.connect(_file(age))
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
    connection.close()
    tables = [name for name in names if name.startswith(begin)]
    profile = altered("".join(f"DELETE FROM {table};" for table in tables), age)
    for table in ("osrt_call", "mpi_call", "operator", "memory_event", "page_fault",
                  "metric_sample"):  # fmt: skip
        assert profile.row_count(table) == 0
    assert not (ALWAYS | set(ON_REQUEST)) & profile.facts


# -- damaged cells: the statement, our table, the rows that are lost, and the cell that is not recorded

_USAGE, _CPU = "CUDA_GPU_MEMORY_USAGE_EVENTS", "CUDA_UM_CPU_PAGE_FAULT_EVENTS"
_GPU, _LAUNCHES = "CUDA_UM_GPU_PAGE_FAULT_EVENTS", "CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH"
DAMAGE: dict[str, tuple[str, int, str | None]] = {
    "UPDATE OSRT_API SET returnValue = 'fine' WHERE start = 11000": ("osrt_call", 0, "result"),
    "UPDATE OSRT_API SET globalTid = 'x' WHERE start = 11000": ("osrt_call", 1, None),
    "UPDATE OSRT_API SET end = start - 1 WHERE start = 11000": ("osrt_call", 1, None),
    "UPDATE OSRT_API SET nameId = x'00' WHERE start = 11000": ("osrt_call", 0, "name"),
    "UPDATE SCHED_EVENTS SET cpu = 'x' WHERE start = 13600": ("cpu_switch", 0, "cpu"),
    "UPDATE SCHED_EVENTS SET isSchedIn = 'x' WHERE start = 13600": ("cpu_switch", 0, "is_running"),
    "UPDATE SCHED_EVENTS SET start = 1 << 60 WHERE start = 13600": ("cpu_switch", 1, None),
    "UPDATE COMPOSITE_EVENTS SET start = 'x' WHERE start = 9000": ("cpu_sample", 1, None),
    "UPDATE MPI_P2P_EVENTS SET size = 'big' WHERE start = 20000": ("mpi_call", 0, "bytes"),
    "UPDATE MPI_START_WAIT_EVENTS SET start = 'x' WHERE start = 24000": ("mpi_call", 1, None),
    "UPDATE MPI_OTHER_EVENTS SET textId = 'x'": ("mpi_call", 0, "name"),
    "UPDATE CUBLAS_EVENTS SET start = 1 << 60, end = (1 << 60) + 1": ("operator", 1, None),
    "UPDATE OPENMP_EVENT_KIND_PARALLEL SET globalTid = 'x'": ("operator", 1, None),
    f"UPDATE {_LAUNCHES} SET eventKind = 'launch'": ("operator", 0, "name"),
    f"UPDATE {_LAUNCHES} SET end = 'x'": ("operator", 1, None),
    f"UPDATE {_USAGE} SET memKind = 'x' WHERE start = 250": ("memory_event", 0, "memory_kind"),
    f"UPDATE {_USAGE} SET address = 'x' WHERE start = 250": ("memory_event", 0, "address"),
    f"UPDATE {_USAGE} SET deviceId = 'x' WHERE start = 250": ("memory_event", 1, None),
    f"UPDATE {_USAGE} SET globalPid = 'x' WHERE start = 250": ("memory_event", 1, None),
    f"UPDATE {_CPU} SET sourceLine = 'x'": ("page_fault", 0, "source_line"),
    f"UPDATE {_CPU} SET globalPid = 'x'": ("page_fault", 1, None),
    f"UPDATE {_CPU} SET start = 1 << 60": ("page_fault", 1, None),
    f"UPDATE {_GPU} SET deviceId = 'x' WHERE start = 4000": ("page_fault", 1, None),
    f"UPDATE {_GPU} SET faultAccessType = 'x' WHERE start = 4000": ("page_fault", 0, "access"),
    "UPDATE GPU_METRICS SET value = 'x' WHERE value = 75": ("metric_sample", 0, "value_avg"),
    "UPDATE GPU_METRICS SET typeId = 'x' WHERE value = 75": ("metric_sample", 1, None),
    "UPDATE GPU_METRICS SET metricId = 'x' WHERE value = 75": ("metric_sample", 0, "name"),
    "UPDATE GPU_METRICS SET timestamp = 'x' WHERE value = 75": ("metric_sample", 1, None),
    "UPDATE GPU_METRICS SET timestamp = 1 << 60 WHERE value = 75": ("metric_sample", 1, None),
}


def _with_values(profile: Profile) -> dict[str, list[Row]]:
    found = {table: _rows(profile, table) for table in EVENTS}
    found["metric_sample"] = [{k: v for k, v in row.items() if v is not None}
                              for row in _metrics(profile)]  # fmt: skip
    return found


@pytest.mark.parametrize(("sql", "table", "lost", "column"), [
    # Threads of other users.
    ("UPDATE SCHED_EVENTS SET globalTid = NULL WHERE start = 13600", "cpu_switch", 1, "pid"),
    ("UPDATE SAMPLING_CALLCHAINS SET symbol = 'x' WHERE id = 2", "cpu_sample", 0, "name"),
    ("DELETE FROM SAMPLING_CALLCHAINS WHERE id = 2", "cpu_sample", 0, "library"),
    ("DROP TABLE SAMPLING_CALLCHAINS", "cpu_sample", 0, "name"),
])  # fmt: skip
def test_what_a_table_of_cpus_may_lack(
    imported: OpenIt, changed: Changed, sql: str, table: str, lost: int, column: str
) -> None:
    profile, plain = imported(changed(sql)), imported(_file("3.28.1"))
    rows, all_rows = _rows(profile, table), _rows(plain, table)
    assert len(rows) == len(all_rows) - lost
    having = [sum(column in row for row in some) for some in (rows, all_rows)]
    assert having[0] == (0 if "DROP" in sql else having[1] - 1)


@pytest.mark.parametrize("sql", few(DAMAGE, 2))
def test_damaged_cells(imported: OpenIt, changed: Changed, sql: str) -> None:
    """A row that cannot be placed is left out, another cell is null; each with a note of its fact."""
    table, lost, column = DAMAGE[sql]
    path = changed(sql)
    profile, plain = imported(path), _with_values(imported(_file("3.28.1")))
    rows = _with_values(profile)
    assert len(rows[table]) == len(plain[table]) - lost
    if column is not None:
        having = [sum(column in row for row in some[table]) for some in (rows, plain)]
        assert having[0] == having[1] - 1
    for other in set(EVENTS) - {table}:
        assert len(rows[other]) == len(plain[other])
    (note,) = profile.notes
    assert (note.severity, note.count >= 1) == (Severity.DROPPED, True)
    source = sql.split()[1]
    assert note.where.split()[0] == source
    assert note.facts == {m.fact for m in nsys_sqlite.tables.MAPPINGS if m.source == source}
    with profile_in_place(path, EVERYTHING) as in_place:
        again = _with_values(in_place)
        assert {name: len(some) for name, some in again.items()} == {
            name: len(some) for name, some in rows.items()}  # fmt: skip


def test_values_that_are_fractions(imported: OpenIt, changed: Changed) -> None:
    path = changed("UPDATE GPU_METRICS SET value = 75.5 WHERE value = 75")
    profile = imported(path)
    assert (0, 1_000, ACTIVE, "%", 75.5) in _samples(profile)
    assert profile.notes == ()
    with profile_in_place(path, EVERYTHING) as in_place:
        assert _samples(in_place) == _samples(profile)


def test_whole_numbers_are_of_the_type_of_fractions() -> None:
    """Read in place, too: readers settle on the type of the first rows."""
    with store_in_place(_file("3.28.1"), EVERYTHING) as store:
        percent = codes.METRIC_UNITS.index("%")
        query = f"SELECT value_avg FROM metric_sample WHERE unit = {percent}"
        (types,) = store.map(lambda sql, each: sql.table(each).schema.types, [query])
    assert types == [pa.float64()]


def test_a_damaged_value_beside_fractions(altered: OpenIt) -> None:
    """One cell that is not a number leaves the fractions as they are."""
    profile = altered("UPDATE GPU_METRICS SET value = 75.5 WHERE value = 75;"
                      "UPDATE GPU_METRICS SET value = 'x' WHERE value = 50")  # fmt: skip
    assert (0, 1_000, ACTIVE, "%", 75.5) in _samples(profile)
    assert (1, 1_000, ACTIVE, "%", None) in _samples(profile)


# -- real files


@real
@pytest.mark.parametrize("path", few(REAL_FILES, 2), ids=name_of)
def test_os_runtime_calls_of_real_files(imported: OpenIt, path: Path) -> None:
    """As many as a plain count of the source, whether or not somebody asks for them."""
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    present = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    count = time = 0
    if "OSRT_API" in present:
        count, time = connection.execute(
            "SELECT count(*), coalesce(sum(end - start), 0) FROM OSRT_API WHERE eventClass = 27"
        ).fetchone()
    connection.close()
    profile, asked = imported(path, ()), imported(path, ("osrt_calls",))
    dur = profile.columns("osrt_call", ("dur_ns",))["dur_ns"]
    assert (profile.row_count("osrt_call"), int(dur.sum())) == (count, time)
    assert (Fact.OSRT_CALLS in profile.facts) == (count > 0)
    for table in EVENTS:
        assert asked.row_count(table) == profile.row_count(table), table


@real
@pytest.mark.parametrize("path", few(REAL_FILES, 2), ids=name_of)
def test_threads_of_real_files_have_the_priorities_of_the_source(
    imported: OpenIt, path: Path
) -> None:
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    try:
        rows = connection.execute("SELECT globalTid, priority FROM ThreadNames").fetchall()
    except sqlite3.OperationalError:
        rows = []
    connection.close()
    known = {(number >> 24 & 0xFFFFFF, number & 0xFFFFFF): priority for number, priority in rows}
    found = {(row["pid"], row["tid"]): row["priority"] for row in small_rows(
        imported(path, ()), "thread")}  # fmt: skip
    assert found == {key: known.get(key) for key in found}


def test_every_new_table_and_fact_is_looked_at() -> None:
    """So that the scenario grows with the schema."""
    tables = {name for name, fact in schema.EVENT_TABLES.items()
              if fact in {*ALWAYS, *ON_REQUEST}}  # fmt: skip
    assert tables == {"osrt_call", "mpi_call", "memory_event", "page_fault", "metric_sample",
                      "cpu_switch", "cpu_sample"}  # fmt: skip
