"""nvprof's databases: times, names, directives; damage; real files. For rows see test_workloads.py."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from conftest import (
    FIXTURES,
    REAL,
    Row,
    event_rows,
    few,
    import_file,
    profile_in_place,
    provenance,
    real,
    small_rows,
)
from importing import changed_copy, slugs
from scenario_basic import MAIN, PROCESS
from scenarios import WORKLOADS
from test_importer_nsys_in_place import assert_equal_profiles
from workload_rows import DATABASES, FUNCTIONS, File, NvprofDatabase, demangle, same
from write_nvprof_database import Directive, thread_number, write_nvprof_database

from nsysconv import api, schema
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers import directives
from nsysconv.importers.detection import detect
from nsysconv.importers.nvprof_database import names, reader
from nsysconv.importers.probe import Probe
from nsysconv.names import demangler
from nsysconv.notes import Note, Severity
from nsysconv.store.location import reading
from nsysconv.store.read import Profile

FOLDER = FIXTURES / "nvprof_database"
PREFIX = "CUPTI_ACTIVITY_KIND_"
NAMES = {function.demangled for function in FUNCTIONS}
BASIC = FOLDER / "basic-12.nvvp"


@pytest.fixture(autouse=True)
def known_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A demangler that spells as NVIDIA does, so that names are those of nsys."""
    monkeypatch.setattr(reader, "demangler", lambda: demangle)


@pytest.fixture(scope="module")
def profile_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], Profile]]:
    """Imports a file and gives its profile; a fixture is imported once."""
    known: dict[Path, Profile] = {}
    with ExitStack() as stores:

        def profile(source: Path) -> Profile:
            if source not in known or not source.is_relative_to(FIXTURES):
                target = tmp_path_factory.mktemp("store") / "store.db"
                import_file(source, target)
                (known[source],) = stores.enter_context(reading(target)).profiles()
            return known[source]

        yield profile


ProfileOf = Callable[[Path], Profile]


# -- rows of the workloads


def test_a_session_of_the_visual_profiler_is_explained(tmp_path: Path) -> None:
    """It is called .nvvp, too."""
    path = tmp_path / "session.nvvp"
    path.write_text('<?xml version="1.0"?>\n<session version="2"><file>run.db</file></session>')
    with Probe(path) as probe, pytest.raises(InputError, match="session") as caught:
        detect(probe)
    assert "import that file" in caught.value.hint


@pytest.mark.parametrize("database", few(DATABASES, 3), ids=str)
def test_in_place_gives_what_the_import_gives(profile_of: ProfileOf, database: File) -> None:
    imported = profile_of(database.path)
    with profile_in_place(database.path) as profile:
        assert_equal_profiles(profile, imported)


@pytest.mark.parametrize("database", few(DATABASES, 6), ids=str)
def test_times_and_what_is_known_of_them(profile_of: ProfileOf, database: File) -> None:
    profile, (expected,) = profile_of(database.path), database.expected
    assert isinstance(expected, NvprofDatabase)
    zero = expected.workload.zero_utc_ns if expected.age.boot_ns is None else None
    assert profile.attributes["zero_utc_ns"] == zero
    assert profile.attributes["format_version"] == expected.age_name
    assert 0 < profile.attributes["recording_ns"] <= expected.workload.duration_ns


def test_missing_facts(profile_of: ProfileOf) -> None:
    missing = profile_of(FOLDER / "no_gpu-12.nvvp").missing
    assert missing == {Fact.UNIFIED_MEMORY, Fact.SYNCS, Fact.OVERHEAD, Fact.DEVICES, Fact.RANKS,
                       Fact.DIRECTIVES, Fact.METRICS}  # fmt: skip


# -- names


def test_functions_by_their_numbers() -> None:
    """As nvprof's own output names them, in public logs and databases."""
    known = {
        (0, 3): "cudaGetDeviceCount", (0, 13): "cudaLaunch", (0, 20): "cudaMalloc",
        (0, 31): "cudaMemcpy", (0, 41): "cudaMemcpyAsync", (0, 165): "cudaDeviceSynchronize",
        (0, 211): "cudaLaunchKernel", (0, 311): "cudaGraphLaunch", (1, 1): "cuInit",
        (1, 243): "cuMemAlloc_v2", (1, 277): "cuMemcpyHtoDAsync_v2", (1, 307): "cuLaunchKernel",
    }  # fmt: skip
    assert {key: names.function_name(*key) for key in known} == known
    assert [names.function_name(0, n) for n in (-1, 0, 16_000)] == [None] * 3


def test_without_a_demangler(
    profile_of: ProfileOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "demangler", lambda: None)
    profile = profile_of(shutil.copyfile(BASIC, tmp_path / BASIC.name))
    kernels = event_rows(profile, "kernel")
    assert {row["name"] for row in kernels} == {
        kernel.function.mangled for kernel in WORKLOADS["basic"].events.kernels}  # fmt: skip
    assert all(row["name"] == row["mangled_name"] for row in kernels)
    (note,) = (note for note in profile.notes if note.slug == "symbols-only")
    assert (note.severity, note.count) == (Severity.INFO, 3)


def test_the_demangler_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cxxfilt")
    monkeypatch.undo()
    demangled = demangler()
    if demangled is None:
        pytest.skip("there is no C++ library here")
    assert {demangled(f.mangled) for f in FUNCTIONS if "unnamed" not in f.demangled} == {
        f.itanium for f in FUNCTIONS if "unnamed" not in f.demangled}  # fmt: skip
    assert demangled("_Z") == "_Z"
    assert demangled("i") == "i"


# -- damage


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., Path]:
    """A copy of a fixture, changed by SQL."""
    return lambda sql, source=BASIC: changed_copy(source, tmp_path, sql.replace("K_", PREFIX))


Changed = Callable[..., Path]


def _note(profile: Profile, slug: str) -> Note:
    (note,) = (note for note in profile.notes if note.slug == slug)
    return note


def _as_in_place(profile_of: ProfileOf, path: Path) -> Profile:
    """The profile of an import, which is the same in place."""
    profile = profile_of(path)
    with profile_in_place(path) as other:
        assert_equal_profiles(other, profile)
    return profile


@pytest.fixture
def damaged(profile_of: ProfileOf, changed: Changed) -> Callable[..., Profile]:
    """The profile of a changed copy."""
    return lambda sql, source=BASIC: _as_in_place(profile_of, changed(sql, source))


Damaged = Callable[..., Profile]


def test_text_in_place_of_a_time(damaged: Damaged) -> None:
    profile = damaged("UPDATE K_CONCURRENT_KERNEL SET start = 'soon' WHERE _id_ = 3")
    assert len(event_rows(profile, "kernel")) == 7
    note = _note(profile, "wrong-type")
    assert (note.count, note.where) == (1, f"{PREFIX}CONCURRENT_KERNEL row 3")


def test_text_in_place_of_a_function(damaged: Damaged) -> None:
    profile = damaged("UPDATE K_RUNTIME SET cbid = 'x' WHERE _id_ = 1")
    assert _note(profile, "wrong-type").count == 1
    assert len(event_rows(profile, "api_call")) == 20
    assert [row["name"] for row in event_rows(profile, "api_call")].count(None) == 1


@pytest.mark.parametrize("source", ["basic-12.nvvp", "basic-9.nvprof"])
def test_operations_without_a_time(damaged: Damaged, source: str) -> None:
    """Whatever moment the times count from, 0 and 0 is none."""
    profile = damaged("UPDATE K_MEMCPY SET start = 0, end = 0 WHERE _id_ < 3", FOLDER / source)
    times = [(row["start_ns"], row["dur_ns"]) for row in event_rows(profile, "memcpy")]
    assert times.count((None, None)) == 2
    assert len(times) == 7
    assert "impossible-time" not in slugs(profile)


def test_a_time_far_away_moves_nothing(profile_of: ProfileOf, damaged: Damaged) -> None:
    sound = event_rows(profile_of(BASIC), "kernel")
    profile = damaged("UPDATE K_RUNTIME SET start = 5, end = 6 WHERE _id_ = 2")
    assert event_rows(profile, "kernel") == sound
    assert _note(profile, "impossible-time").count == 1


def test_ends_before_starts(damaged: Damaged) -> None:
    profile = damaged("UPDATE K_MEMSET SET end = start - 1")
    assert event_rows(profile, "memset") == []
    assert _note(profile, "negative-duration").count == 1


def test_unknown_functions_are_shown_by_number(damaged: Damaged) -> None:
    profile = damaged("UPDATE K_RUNTIME SET cbid = 9000 WHERE _id_ = 1;"
                      "UPDATE K_DRIVER SET cbid = 9001 WHERE _id_ = 1;"
                      "UPDATE K_RUNTIME SET cbid = 99999999 WHERE _id_ = 2")  # fmt: skip
    names = {row["name"] for row in event_rows(profile, "api_call")}
    assert {"[runtime call 9000]", "[driver call 9001]", None} <= names
    assert sum(note.slug == "unknown-code" for note in profile.notes) == 2
    assert _note(profile, "nameless-id").count == 1


def test_ids_without_texts_get_nobody_elses(damaged: Damaged) -> None:
    """Ids that demangled names (one base higher) and calls (from two on) would take otherwise."""
    base = "(SELECT max(_id_) + 1 FROM StringTable)"
    update = "UPDATE K_CONCURRENT_KERNEL SET name ="
    profile = damaged(f"{update} name + {base} WHERE _id_ < 3;"
                      f"{update} 2 * {base} + 2 * 211 WHERE _id_ = 3")  # fmt: skip
    found = [row for row in event_rows(profile, "kernel") if row["name"] not in NAMES]
    assert len(found) == 3
    assert all(re.fullmatch(r"\[name \d+\]", row["name"]) for row in found)
    assert all(row["name"] == row["mangled_name"] for row in found)
    assert _note(profile, "nameless-id").count == 3


def test_codes_that_are_not_known(damaged: Damaged) -> None:
    profile = damaged("UPDATE K_MEMCPY SET copyKind = 77, srcKind = 99 WHERE _id_ = 1;"
                      "UPDATE K_OVERHEAD SET overheadKind = 5 WHERE _id_ = 1")  # fmt: skip
    first = event_rows(profile, "memcpy")[0]
    assert (first["direction"], first["src_kind"]) == ("Unknown", "Unknown")
    assert sum(note.slug == "unknown-code" for note in profile.notes) == 3


def test_missing_tables_and_columns(damaged: Damaged) -> None:
    profile = damaged("DROP TABLE K_MARKER_DATA; DROP TABLE K_DEVICE; DROP TABLE K_NAME;"
                      "DROP TABLE K_CONTEXT; DROP TABLE K_STREAM; DROP TABLE K_SYNCHRONIZATION;"
                      "ALTER TABLE K_MEMSET DROP COLUMN deviceId;"
                      "ALTER TABLE K_CONCURRENT_KERNEL DROP COLUMN dynamicSharedMemory")  # fmt: skip
    assert {row["dynamic_shared_bytes"] for row in event_rows(profile, "kernel")} == {None}
    assert {row["color"] for row in event_rows(profile, "range")} == {None}
    assert "deviceId" in _note(profile, "not-a-table").text
    assert Fact.MEMSETS not in profile.facts
    assert "device-unnamed" in slugs(profile)


def test_a_view_in_place_of_a_table(damaged: Damaged) -> None:
    profile = damaged("ALTER TABLE K_RUNTIME RENAME TO other; CREATE VIEW K_RUNTIME AS "
                      "SELECT * FROM other")  # fmt: skip
    assert {row["layer"] for row in event_rows(profile, "api_call")} == {"driver"}
    assert Fact.API_CALLS not in profile.facts
    assert "RUNTIME" in _note(profile, "not-a-table").text


def test_peer_copies_in_two_tables_count_once(damaged: Damaged) -> None:
    profile = damaged("INSERT INTO K_MEMCPY (copyKind, srcKind, dstKind, flags, bytes, start, end, "
                      "deviceId, contextId, streamId, correlationId, runtimeCorrelationId) "
                      "SELECT copyKind, srcKind, dstKind, flags, bytes, start, end, deviceId, "
                      "contextId, streamId, correlationId, 0 FROM K_MEMCPY2",
                      FOLDER / "two_processes_two_gpus-12-6001.nvvp")  # fmt: skip
    copies = event_rows(profile, "memcpy")
    assert [row["direction"] for row in copies].count("PtoP") == 1
    assert [row["peer_device_id"] for row in copies if row["direction"] == "PtoP"] == [1]
    assert _note(profile, "peer-copy-repeated").count == 1


def test_runs_that_measure_counters(damaged: Damaged) -> None:
    """Kernels alone, one after the other: that nothing else was recorded is not zero."""
    profile = damaged("INSERT INTO K_KERNEL SELECT * FROM K_CONCURRENT_KERNEL;"
                      + "".join(f"DELETE FROM K_{table};" for table in (
                          "CONCURRENT_KERNEL", "RUNTIME", "DRIVER", "MEMCPY", "MEMSET", "OVERHEAD",
                          "SYNCHRONIZATION", "MARKER", "MARKER_DATA")))  # fmt: skip
    assert profile.facts == {Fact.KERNELS, Fact.DEVICES, Fact.UTC}
    assert "longer" in _note(profile, "kernels-serialized").text
    assert {row["pid"] for row in event_rows(profile, "kernel")} == {4242}


def test_kernels_of_every_table_count(damaged: Damaged) -> None:
    """One more that ran alone, and one that a kernel launched: 10 + 4 us beside 38."""
    shared = "start, end, deviceId, contextId, streamId, correlationId, name"
    blank = ("cacheConfig, sharedMemoryConfig, registersPerThread, partitionedGlobalCacheRequested, "
             "partitionedGlobalCacheExecuted, completed, gridX, gridY, gridZ, blockX, blockY, blockZ, "
             "staticSharedMemory, dynamicSharedMemory, localMemoryPerThread, localMemoryTotal, "
             "gridId")  # fmt: skip
    more = ", parentGridId, queued, submitted, parentBlockX, parentBlockY, parentBlockZ"
    zeros = ", 0" * (blank.count(",") + 1)
    profile = damaged(
        "INSERT INTO K_KERNEL SELECT * FROM K_CONCURRENT_KERNEL WHERE _id_ = 1;"
        f"INSERT INTO K_CDP_KERNEL ({shared}, {blank}{more}) "
        f"SELECT {shared}{zeros}{', 0' * 6} FROM K_CONCURRENT_KERNEL WHERE _id_ = 5")  # fmt: skip
    kernels = event_rows(profile, "kernel")
    assert len(kernels) == 10
    assert sum(row["dur_ns"] for row in kernels) == 38_000 + 10_000 + 4_000
    assert "asked to" in _note(profile, "kernels-serialized").text


def test_clocks_that_disagree(changed: Changed) -> None:
    """GPU times 132 s later than those of the calls, as in most databases of one machine."""
    later = "SET start = start + 132000000000, end = end + 132000000000"
    tables = ("CONCURRENT_KERNEL", "MEMCPY", "MEMSET")
    path = changed("".join(f"UPDATE K_{table} {later};" for table in tables))
    with api.open(path) as shifted, api.open(BASIC) as plain:
        report = shifted.report("api_vs_kernel")
        assert "clocks-disagree" in {note.slug for note in report.notes}
        assert {row["launch_latency_avg_ns"] for row in report.rows()} == {None}
        for column in ("gpu_op_count", "kernel_sum_ns", "memcpy_sum_ns"):
            assert sum(row[column] or 0 for row in report.rows()) == sum(
                row[column] or 0 for row in plain.report("api_vs_kernel").rows())  # fmt: skip
        assert shifted.report("overview").rows()[0]["busy_ns"] == 51_000


def test_what_is_not_read_is_said(damaged: Damaged) -> None:
    profile = damaged("INSERT INTO K_METRIC (id, value, correlationId, flags) VALUES (1, x'00', 1, 0);"
                      "CREATE TABLE K_PC_SAMPLING (samples INT);"
                      "INSERT INTO K_PC_SAMPLING VALUES (1), (2)")  # fmt: skip
    assert _note(profile, "tables-not-read").text == (
        f"tables that are not read: {PREFIX}PC_SAMPLING (2 rows)")  # fmt: skip


def test_two_processes_in_one_database(damaged: Damaged) -> None:
    """Concatenated by other tools: whose GPU work it is, nobody can tell."""
    profile = damaged("UPDATE K_RUNTIME SET processId = 9 WHERE _id_ < 5")
    assert {row["pid"] for row in event_rows(profile, "kernel")} == {None}
    assert Fact.API_LINKS not in profile.facts
    assert "process-assumed" in slugs(profile)


def test_ranges_whose_other_half_is_missing(damaged: Damaged) -> None:
    profile = damaged("DELETE FROM K_MARKER WHERE flags = 2 AND id = (SELECT min(id) FROM K_MARKER);"
                      "UPDATE K_MARKER SET timestamp = timestamp - 10000000 WHERE flags = 4 "
                      "AND id = (SELECT max(id) FROM K_MARKER)")  # fmt: skip
    assert _note(profile, "range-unopened").count == 1
    assert _note(profile, "negative-duration").count == 1


def test_lost_gpu_work(damaged: Damaged) -> None:
    profile = damaged("DELETE FROM K_CONCURRENT_KERNEL; DELETE FROM K_MEMCPY; DELETE FROM K_MEMSET")
    assert "cudaMemcpyAsync" in _note(profile, "gpu-activity-missing").text or (
        "cudaLaunchKernel" in _note(profile, "gpu-activity-missing").text)  # fmt: skip
    assert Fact.KERNELS not in profile.facts


# -- directives


SOLVE = "/home/SECRET-user/solve.c"
WINDOWS = "C:\\SECRET-user\\walk.c"
DIRECTIVES = (
    Directive("OPENACC_OTHER", 1, 6_000, 9_000, MAIN),
    Directive("OPENACC_OTHER", 11, 22_000, 28_000, MAIN, SOLVE, 84),
    Directive("OPENACC_DATA", 13, 23_000, 23_000, MAIN, SOLVE, 84),
    Directive("OPENACC_DATA", 15, 24_000, 24_000, MAIN, SOLVE, 84),
    Directive("OPENACC_DATA", 5, 24_500, 25_000, MAIN, SOLVE, 84, "x[:n]"),
    Directive("OPENACC_DATA", 5, 25_500, 26_500, MAIN, SOLVE, 84, "y"),
    Directive("OPENACC_LAUNCH", 4, 29_000, 33_000, MAIN, SOLVE, 85, "solve_85_gpu"),
    Directive("OPENACC_LAUNCH", 4, 34_000, 37_000, MAIN, SOLVE, 85, "solve_85_gpu"),
    Directive("OPENACC_OTHER", 7, 47_000, 70_000, MAIN, WINDOWS, 12),
    Directive("OPENACC_OTHER", 8, 71_000, 71_500, MAIN, WINDOWS),
    Directive("OPENMP", 1, 100_000, 129_000, MAIN),
    Directive("OPENMP", 5, 110_000, 128_000, MAIN),
)
DIRECTIVE_NAMES = (
    "acc_device_init", "acc_enter_data@solve.c:84", "acc_create@solve.c:84", "acc_alloc@solve.c:84",
    "acc_enqueue_upload@solve.c:84 (x[:n])", "acc_enqueue_upload@solve.c:84 (y)",
    *("acc_enqueue_launch@solve.c:85 (solve_85_gpu)",) * 2, "acc_wait@walk.c:12",
    "acc_implicit_wait@walk.c", "OMP_PARALLEL", "OMP_WAIT_BARRIER",
)  # fmt: skip


@pytest.fixture
def constructs(tmp_path: Path) -> Path:
    """`basic` as a program with directives."""
    path = tmp_path / "openacc.nvvp"
    write_nvprof_database(WORKLOADS["basic"], PROCESS, path, "12", DIRECTIVES)
    return path


def _expected_directives() -> list[Row]:
    return [
        {"start_ns": item.start_ns, "dur_ns": item.end_ns - item.start_ns, "pid": PROCESS.pid,
         "tid": thread_number(MAIN), "kind": "directive", "name": name}
        for item, name in zip(DIRECTIVES, DIRECTIVE_NAMES, strict=True)
    ]  # fmt: skip


def _directive_names(profile: Profile) -> list[Any]:
    return sorted((row["name"] for row in event_rows(profile, "operator")), key=str)


def test_directives_are_rows_of_their_threads(profile_of: ProfileOf, constructs: Path) -> None:
    profile = _as_in_place(profile_of, constructs)
    same(event_rows(profile, "operator"), _expected_directives())
    plain = profile_of(BASIC)
    assert profile.facts == plain.facts | {Fact.DIRECTIVES}
    assert slugs(profile) == slugs(plain)
    assert small_rows(profile, "thread") == small_rows(plain, "thread")
    for table in schema.EVENT_TABLES.keys() - {"operator"}:
        assert event_rows(profile, table) == event_rows(plain, table)


def test_what_the_host_did_in_directives(constructs: Path) -> None:
    """In the host parts 20-30 us (an API call till 21) and 100-130 us (the profiler 105-118).

    What lasts no time is not an activity.
    """
    with api.open(constructs) as profile:
        rows = profile.report("idle_host").rows()
    found = {row["name"]: row["host_sum_ns"] for row in rows if row["activity"] == "directive"}
    assert found == {
        "acc_enter_data@solve.c:84": 6_000 - 500 - 1_000, "acc_enqueue_upload@solve.c:84 (x[:n])": 500,
        "acc_enqueue_upload@solve.c:84 (y)": 1_000, "acc_enqueue_launch@solve.c:85 (solve_85_gpu)": 1_000,
        "OMP_PARALLEL": 5_000 + 1_000, "OMP_WAIT_BARRIER": 10_000}  # fmt: skip


@pytest.mark.parametrize("end", ["start", "0", "start - 7"])
def test_moments_have_no_length_whatever_their_end(
    profile_of: ProfileOf, constructs: Path, damaged: Damaged, end: str
) -> None:
    profile = damaged(f"UPDATE K_OPENACC_DATA SET end = {end} WHERE eventKind IN (13, 15)", constructs)
    same(event_rows(profile, "operator"), _expected_directives())
    assert slugs(profile) == slugs(profile_of(BASIC))


def test_directives_with_damaged_cells(constructs: Path, damaged: Damaged) -> None:
    """A time costs the row, the kind its name, and file, line and variable their part of it."""
    profile = damaged("UPDATE K_OPENACC_DATA SET start = 'soon' WHERE _id_ = 1;"
                      "UPDATE K_OPENACC_DATA SET eventKind = 'x' WHERE _id_ = 3;"
                      "UPDATE K_OPENACC_DATA SET eventKind = 14.5 WHERE _id_ = 2;"
                      "UPDATE K_OPENACC_DATA SET varName = 'x' WHERE _id_ = 4;"
                      "UPDATE K_OPENACC_LAUNCH SET end = start - 1 WHERE _id_ = 1;"
                      "UPDATE K_OPENACC_LAUNCH SET lineNo = 'x' WHERE _id_ = 2;"
                      "UPDATE K_OPENACC_OTHER SET srcFile = x'00', start = 0, end = 0 WHERE _id_ = 3",
                      constructs)  # fmt: skip
    gone = {"acc_create@solve.c:84", "acc_alloc@solve.c:84", "acc_enqueue_upload@solve.c:84 (x[:n])",
            "acc_enqueue_upload@solve.c:84 (y)", "acc_enqueue_launch@solve.c:85 (solve_85_gpu)",
            "acc_wait@walk.c:12"}  # fmt: skip
    left = [name for name in DIRECTIVE_NAMES if name not in gone]
    left += [
        "acc_enqueue_upload@solve.c:84",
        "acc_enqueue_launch@solve.c (solve_85_gpu)",
        "acc_wait",
    ]
    assert _directive_names(profile) == sorted([None, None, *left], key=str)
    (untimed,) = (row for row in event_rows(profile, "operator") if row["name"] == "acc_wait")
    assert (untimed["start_ns"], untimed["dur_ns"]) == (None, None)
    noted = [note for note in profile.notes if Fact.DIRECTIVES in note.facts]
    assert sorted(note.slug for note in noted) == ["negative-duration"] + 5 * ["wrong-type"]
    assert sorted(note.count for note in noted) == [1] * 5 + [2]
    assert not any(Fact.OPERATORS in note.facts for note in profile.notes)


def test_directives_that_are_not_known(constructs: Path, damaged: Damaged) -> None:
    profile = damaged("UPDATE K_OPENACC_OTHER SET eventKind = 99, cuProcessId = 0 WHERE eventKind = 11;"
                      "UPDATE K_OPENACC_OTHER SET srcFile = 4000, cuThreadId = 0 WHERE eventKind = 7;"
                      "UPDATE K_OPENMP SET eventKind = 0 WHERE eventKind = 5", constructs)  # fmt: skip
    rows = {row["name"]: row for row in event_rows(profile, "operator")}
    assert rows["[OpenACC event 99]@solve.c:84"]["pid"] is None
    assert rows["acc_wait@[name 4000]:12"]["tid"] is None
    assert "[OpenMP event 0]" in rows
    assert sum(note.slug == "unknown-code" for note in profile.notes) == 2
    assert _note(profile, "nameless-id").count == 1


def test_more_constructs_than_can_be(
    profile_of: ProfileOf, constructs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows keep their time and lose their name."""
    monkeypatch.setattr(directives, "MAX_CONSTRUCTS", 3)
    profile = _as_in_place(profile_of, constructs)
    names = _directive_names(profile)
    assert len(names) == len(DIRECTIVES)
    assert names.count(None) == 2
    where = {note.where for note in profile.notes if note.slug == "nameless-id"}
    assert where == {f"{PREFIX}OPENACC_DATA", f"{PREFIX}OPENACC_OTHER"}


def test_directives_without_their_columns(constructs: Path, damaged: Damaged) -> None:
    profile = damaged("ALTER TABLE K_OPENACC_DATA DROP COLUMN eventKind; DROP TABLE K_OPENMP;"
                      "ALTER TABLE K_OPENACC_LAUNCH DROP COLUMN srcFile;"
                      "ALTER TABLE K_OPENACC_OTHER DROP COLUMN lineNo", constructs)  # fmt: skip
    note = _note(profile, "not-a-table")
    assert "eventKind" in note.text
    assert note.facts == {Fact.DIRECTIVES}
    assert Fact.DIRECTIVES not in profile.facts
    assert _directive_names(profile) == [
        "acc_device_init", *("acc_enqueue_launch (solve_85_gpu)",) * 2, "acc_enter_data@solve.c",
        "acc_implicit_wait@walk.c", "acc_wait@walk.c"]  # fmt: skip


# -- secrets


def test_no_path_and_no_function_of_a_directive_leaves_a_database(
    constructs: Path, tmp_path: Path
) -> None:
    assert constructs.read_bytes().count(b"SECRET") >= 5
    import_file(constructs, tmp_path / "store.db")
    assert b"SECR" not in (tmp_path / "store.db").read_bytes()
    with profile_in_place(constructs) as profile:
        assert "SECR" not in str(profile.rows("name"))


# -- real files

HOLDS = re.compile(r"kernels (\d+)(?: \(\S+\))?, memcpy (\d+) \((\d+) B\)")


@real
@pytest.mark.parametrize(
    "row", provenance("nvprof_sqlite"), ids=lambda row: str(row["file"])[14:40]
)
def test_counts_of_real_files_are_those_of_the_list(
    profile_of: ProfileOf, row: dict[str, str]
) -> None:
    path = REAL / row["file"]
    profile = profile_of(path)
    kernels, copies = event_rows(profile, "kernel"), event_rows(profile, "memcpy")
    match = HOLDS.search(row["holds"])
    assert match
    found = (len(kernels), len(copies), sum(copy["bytes"] for copy in copies))
    assert found == tuple(int(number) for number in match.groups())
    version = re.search(r"Version (\d+)", row["version"])
    assert version
    assert profile.attributes["format_version"] == version.group(1)
    with profile_in_place(path) as in_place:
        assert_equal_profiles(in_place, profile)
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    for ours, theirs, where in (
        ("api_call", ("RUNTIME", "DRIVER"), "1"), ("memset", ("MEMSET",), "1"),
        ("sync", ("SYNCHRONIZATION",), "1"), ("overhead", ("OVERHEAD",), "1"),
        ("range", ("MARKER",), "flags & 3"),
    ):  # fmt: skip
        count = sum(connection.execute(f"SELECT count(*) FROM {PREFIX}{t} WHERE {where}").fetchone()[0]
                    for t in theirs)  # fmt: skip
        assert (ours, profile.row_count(ours)) == (ours, count)
    connection.close()


@real
def test_what_a_real_timeline_says(profile_of: ProfileOf) -> None:
    """One process on four of eight V100, with NCCL: from the file by plain SQL."""
    (path,) = (REAL / "nvprof_sqlite").glob("*.nvvp")
    profile = profile_of(path)
    names = {row["name"] for row in event_rows(profile, "api_call")}
    assert {"cudaMalloc", "cudaLaunchKernelExC", "cuInit", "cuDeviceGetAttribute"} & names
    assert [name for name in names if name.startswith("[")] == []
    assert {row["pid"] for row in event_rows(profile, "kernel")} == {52977}
    assert {row["tid"] for row in event_rows(profile, "api_call")} >= {0xBC7A9000}
    assert [row["name"] for row in profile.rows("device")] == ["Tesla V100-SXM2-32GB"] * 4
    assert {row["memory_bandwidth_bytes_per_s"] for row in profile.rows("device")} == {
        898_048_000_000}  # fmt: skip
    assert profile.attributes["zero_utc_ns"] == 1_650_739_306_000_000_000


@real
def test_what_real_ranges_say(profile_of: ProfileOf) -> None:
    """Thirty ranges that a tool put together out of several ranks' databases."""
    (path,) = (REAL / "nvprof_sqlite").glob("*.nvprof")
    profile = profile_of(path)
    ranges = event_rows(profile, "range")
    assert len(ranges) == 30
    assert ranges[0]["dur_ns"] == 73_798_033_743_974 - 73_797_031_377_977
    assert all(row["dur_ns"] is not None for row in ranges)
    assert {"no-gpu-work", "no-time-base", "process-assumed"} <= slugs(profile)
