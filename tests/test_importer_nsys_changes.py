"""An export in which one thing is unusual: imported and read in place alike, and said so."""

from __future__ import annotations

import re
import sqlite3
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import repeat_export
from conftest import (
    EVENTS,
    NSYS,
    Shelf,
    all_columns,
    event_rows,
    import_file,
    known,
    profile_in_place,
)
from importing import changed_copy

from nsysconv import api
from nsysconv.errors import InputError, NsysconvError
from nsysconv.facts import Fact
from nsysconv.importers import nsys_sqlite
from nsysconv.importers.contract import No
from nsysconv.importers.probe import Probe
from nsysconv.notes import Severity
from nsysconv.store.location import reading
from nsysconv.store.read import Profile

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"

WORK = ("kernel", "memcpy", "memset", "api_call", "range", "sync")

Change = Callable[..., Path]


@pytest.fixture
def change(tmp_path: Path) -> Change:
    """Writes a fixture's copy, changed by a script, and returns its path."""

    def make(sql: str, original: str = "basic-3.17.2") -> Path:
        path = tmp_path / "changed.sqlite"
        path.write_bytes((NSYS / f"{original}.sqlite").read_bytes())
        connection = sqlite3.connect(path, isolation_level=None)
        connection.executescript(sql)
        connection.close()
        return path

    return make


_OPENED: dict[Path, tuple[Profile, Profile]] = {}
_STACK: list[ExitStack] = []


@pytest.fixture(autouse=True)
def _opened() -> Iterator[None]:
    """Closes what `_both_ways` opened in a test."""
    with ExitStack() as stack:
        _OPENED.clear()
        _STACK.append(stack)
        yield
        _STACK.pop()


def _both_ways(source: Path, question: Callable[[Profile], Any]) -> Any:
    """The answer of an imported profile, which has to be that of the profile in place."""
    if source not in _OPENED:
        store = source.with_name("both-ways.db")
        import_file(source, store)
        (imported,) = _STACK[-1].enter_context(reading(store)).profiles()
        _OPENED[source] = (imported, _STACK[-1].enter_context(profile_in_place(source)))
    imported, in_place = _OPENED[source]
    answer = question(imported)
    assert question(in_place) == answer
    return answer


def _kernels(profile: Profile) -> list[Any]:
    return event_rows(profile, "kernel")


def _slugs(profile: Profile) -> list[tuple[str, int]]:
    for table in EVENTS:
        all_columns(profile, table)
    return sorted((note.slug, note.count) for note in profile.notes)


def test_text_that_is_no_utf_8(change: Change) -> None:
    """In a range's own text and in the string table: shown with a replacement, never an error."""
    source = change("""
        UPDATE NVTX_EVENTS SET text = CAST(x'6c6f6164ff66' AS TEXT) WHERE text = 'iteration 1';
        UPDATE StringIds SET value = CAST(x'c3286b' AS TEXT) WHERE value = 'stencil';""")
    texts = _both_ways(source, lambda p: {row["name"] for row in event_rows(p, "range")})
    assert "load\N{REPLACEMENT CHARACTER}f" in texts
    names = _both_ways(source, lambda p: {row["name"] for row in event_rows(p, "kernel")})
    assert "\N{REPLACEMENT CHARACTER}(k" in names


def test_text_with_a_nul_and_other_kinds_of_cells(change: Change) -> None:
    source = change("""
        UPDATE NVTX_EVENTS SET text = CAST(x'610062' AS TEXT) WHERE text = 'iteration 1';
        UPDATE NVTX_EVENTS SET text = x'626c6f62' WHERE text = 'saxpy step';
        UPDATE NVTX_EVENTS SET text = 12.5 WHERE text = 'checkpoint';""")
    texts = _both_ways(source, lambda p: {str(row["name"]) for row in event_rows(p, "range")})
    assert {"blob", "12.5"} <= texts
    assert any(text.startswith("a") for text in texts)


HARMLESS = {
    "a column called rowid": f"""
        ALTER TABLE {KERNEL} ADD COLUMN rowid TEXT;
        UPDATE {KERNEL} SET rowid = 'kernel ' || correlationId;""",
    # The events count more than what is said about them.
    "tables of metadata without their columns": """
        DROP TABLE META_DATA_EXPORT; CREATE TABLE META_DATA_EXPORT (key TEXT);
        DROP TABLE META_DATA_CAPTURE; CREATE TABLE META_DATA_CAPTURE (name TEXT);
        DROP TABLE ThreadNames; CREATE TABLE ThreadNames (who INTEGER);
        DROP TABLE PROCESSES; CREATE TABLE PROCESSES (who INTEGER);
        DROP TABLE DIAGNOSTIC_EVENT; CREATE TABLE DIAGNOSTIC_EVENT (what TEXT);""",
}


@pytest.mark.parametrize("sql", HARMLESS.values(), ids=HARMLESS)
def test_all_kernels_are_there_with(change: Change, sql: str) -> None:
    assert len(_both_ways(change(sql), _kernels)) == 8


NO_TABLES = {
    "no row ids": (f"""
        ALTER TABLE {KERNEL} RENAME TO old;
        CREATE TABLE {KERNEL} (start INTEGER, end INTEGER, deviceId INTEGER, globalPid INTEGER,
            correlationId INTEGER, PRIMARY KEY (start, deviceId)) WITHOUT ROWID;
        INSERT INTO {KERNEL} SELECT start, end, deviceId, globalPid, correlationId FROM old;
        DROP TABLE old;""", ""),
    "a virtual table": (f"""
        DROP TABLE {KERNEL};
        CREATE VIRTUAL TABLE {KERNEL} USING fts5(start, end, deviceId, globalPid);""", ""),
    "no device": (f"ALTER TABLE {KERNEL} DROP COLUMN deviceId", "deviceId"),
}  # fmt: skip


@pytest.mark.parametrize(("sql", "named"), NO_TABLES.values(), ids=NO_TABLES)
def test_an_event_table_that_cannot_be_read_is_noted(change: Change, sql: str, named: str) -> None:
    """Never something without a word."""
    source = change(sql)
    assert _both_ways(source, _kernels) == []
    (note,) = _both_ways(source, lambda p: [n for n in p.notes if n.slug == "not-a-table"])
    assert note.count == 1
    assert named in note.text
    assert Fact.KERNELS not in _both_ways(source, lambda p: p.facts)


def test_row_numbers_with_holes_and_below_zero(change: Change, shelf: Shelf) -> None:
    source = change(f"""
        UPDATE {KERNEL} SET rowid = -rowid * 2 - 5;
        UPDATE {KERNEL} SET rowid = -rowid - 50;
        DELETE FROM {RUNTIME} WHERE correlationId = 120;
        UPDATE {RUNTIME} SET rowid = rowid - 100;""")
    basic = shelf.profile(NSYS / "basic-3.17.2.sqlite")
    assert _both_ways(source, _kernels) == _kernels(basic)
    assert len(_both_ways(source, lambda p: event_rows(p, "api_call"))) == 19


@pytest.mark.timeout(30)
def test_row_numbers_far_apart(tmp_path: Path) -> None:
    """They must not be walked through number by number. Imported; in place only if that is cheap."""
    for rowid in ((1 << 63) - 1, -(1 << 63), 1_000_000):
        far = f"UPDATE {KERNEL} SET rowid = {rowid} WHERE correlationId = 116"
        source = changed_copy(NSYS / "basic-3.17.2.sqlite", tmp_path, far)
        assert import_file(source, tmp_path / f"{rowid}.db").row_counts["kernel"] == 8
        with profile_in_place(source) as profile:
            assert len(event_rows(profile, "kernel")) == 8


@pytest.mark.parametrize("bits", [24, 40])
def test_numbers_of_names_far_apart(change: Change, bits: int) -> None:
    """No table has a place for each of them."""
    source = change(f"""
        UPDATE StringIds SET id = id << {bits} WHERE id IN (SELECT nameId FROM {RUNTIME});
        UPDATE {RUNTIME} SET nameId = nameId << {bits};""")
    plain = NSYS / "basic-3.17.2.sqlite"
    asked = ("summary", "findings")
    tracemalloc.start()
    found = [_without_profile(report) for report in api.report_on(source, asked)]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 1 << 28
    assert found == [_without_profile(report) for report in api.report_on(plain, asked)]


def _without_profile(report: api.ShownReport) -> list[dict[str, Any]]:
    return [{**row, "profile": None} for row in report.rows()]


@pytest.mark.parametrize("statement", [
    "DROP TABLE StringIds",
    "DELETE FROM StringIds",
    "CREATE TABLE new AS SELECT id, NULL AS value FROM StringIds; DROP TABLE StringIds;"
    "ALTER TABLE new RENAME TO StringIds",
])  # fmt: skip
def test_without_any_text_ids_answer(change: Change, statement: str) -> None:
    """The table is missing or empty, or its ids have no text: one note, and as many rows."""
    source = change(statement)
    counts = _both_ways(source, lambda p: {table: len(event_rows(p, table)) for table in WORK})
    with profile_in_place(NSYS / "basic-3.17.2.sqlite") as plain:
        assert counts == {table: len(event_rows(plain, table)) for table in WORK}
    names = _both_ways(source, lambda p: {row["name"] for row in event_rows(p, "kernel")})
    assert names
    assert all(re.fullmatch(r"\[name \d+\]", name) for name in names)
    ((count, severity),) = _both_ways(source, lambda p: [
        (note.count, note.severity) for note in p.notes if note.slug == "nameless-id"])  # fmt: skip
    assert severity is Severity.DROPPED
    assert count >= len(names)


def test_a_view_in_place_of_the_texts_is_refused(change: Change) -> None:
    source = change("ALTER TABLE StringIds RENAME TO old; CREATE VIEW StringIds AS SELECT * FROM old")
    with Probe(source) as probe:
        assert isinstance(nsys_sqlite.sniff(probe), No)


def test_two_texts_for_one_name(change: Change) -> None:
    """The first is kept, and said so."""
    source = change("""
        ALTER TABLE StringIds RENAME TO old;
        CREATE TABLE StringIds (id INTEGER, value TEXT);
        INSERT INTO StringIds SELECT id, value FROM old;
        INSERT INTO StringIds SELECT id, 'another' FROM old WHERE value = 'stencil';
        DROP TABLE old;""")
    names = _both_ways(source, lambda p: {row["name"] for row in event_rows(p, "kernel")})
    assert "stencil" in names
    assert "another" not in names
    assert ("duplicate-name", 1) in _both_ways(source, _slugs)


def test_kinds_that_nobody_knows(change: Change) -> None:
    """Kept as Unknown, and said so."""
    source = change(f"""
        UPDATE {MEMCPY} SET copyKind = 42 WHERE correlationId = 112;
        UPDATE {MEMCPY} SET srcKind = 99 WHERE correlationId = 113;""")
    rows = _both_ways(source, lambda p: event_rows(p, "memcpy"))
    by_id = {row["correlation_id"]: row for row in rows}
    assert by_id[112]["direction"] == "Unknown"
    assert by_id[113]["src_kind"] == "Unknown"
    assert [slug for slug, _ in _both_ways(source, _slugs)].count("unknown-code") >= 1


def test_calls_of_an_unknown_class_are_counted(change: Change) -> None:
    source = change(f"UPDATE {RUNTIME} SET eventClass = 5 WHERE correlationId IN (117, 118)")
    assert len(_both_ways(source, lambda p: event_rows(p, "api_call"))) == 18
    assert _both_ways(source, _slugs) == [("unknown-code", 2)]


@pytest.mark.parametrize("told", [True, False], ids=["the export says so", "the times say so"])
def test_times_of_day(change: Change, shelf: Shelf, told: bool) -> None:
    """`nsys export --ts-normalize`: zero is the whole second before the first event."""
    utc = 1_767_225_612_750_000_000
    tables = [KERNEL, MEMCPY, RUNTIME, "CUPTI_ACTIVITY_KIND_MEMSET", "NVTX_EVENTS",
              "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", "PROFILER_OVERHEAD"]  # fmt: skip
    source = change(
        "".join(f"UPDATE {t} SET start = start + {utc}, end = end + {utc};" for t in tables)
        + f"UPDATE META_DATA_EXPORT SET value = '{str(told).lower()}' "
        "WHERE name = 'EXPORT_PARAM_TIME_NORMALIZE'"
    )
    basic = shelf.profile(NSYS / "basic-3.17.2.sqlite")
    later = 750_000_000
    wanted = [row | {"start_ns": row["start_ns"] + later} for row in event_rows(basic, "kernel")]
    assert _both_ways(source, _kernels) == wanted
    assert _both_ways(source, lambda p: p.attributes["zero_utc_ns"]) == utc - later
    assert _both_ways(source, _slugs) == [("time-shifted", 1)]


def test_ranks_that_disagree(change: Change) -> None:
    """MPI's word counts more than the launcher's environment."""
    source = change("""
        CREATE TABLE MPI_RANKS (globalTid INTEGER, rank INTEGER);
        INSERT INTO MPI_RANKS SELECT globalTid, 7 FROM CUPTI_ACTIVITY_KIND_RUNTIME LIMIT 1;""")
    assert _both_ways(source, lambda p: [row["rank"] for row in p.rows("process")]) == [7]
    slugs = _both_ways(source, _slugs)
    assert slugs == [("rank-clash", 1)]


def test_one_process_number_on_two_machines(change: Change) -> None:
    source = change(f"""
        UPDATE {KERNEL} SET globalPid = globalPid + (1 << 48) WHERE correlationId = 116;
        UPDATE {RUNTIME} SET globalTid = globalTid + (1 << 48) WHERE correlationId = 116;""")
    assert len(_both_ways(source, _kernels)) == 8
    assert ("stray-pid", 2) in _both_ways(source, _slugs)


def test_work_that_was_called_for_and_not_recorded(change: Change) -> None:
    """Launches and copies, and no row of GPU work: nothing is known of kernels."""
    source = change(f"""
        DROP TABLE {KERNEL}; DROP TABLE {MEMCPY}; DROP TABLE CUPTI_ACTIVITY_KIND_MEMSET;
        DROP TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;""")
    facts = _both_ways(source, lambda p: p.facts)
    assert facts.isdisjoint({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.API_LINKS})
    assert Fact.API_CALLS in facts
    assert _both_ways(source, _slugs) == [("gpu-activity-missing", 1)]


def _names_of_kernels(profile: Profile) -> list[str]:
    return sorted({row["name"] for row in event_rows(profile, "kernel")})


@pytest.mark.parametrize("change_of", [
    f"UPDATE {KERNEL} SET demangledName = 987654",
    f"""DELETE FROM StringIds WHERE id IN (
        SELECT demangledName FROM {KERNEL} WHERE demangledName <> shortName)""",
    f"ALTER TABLE {KERNEL} DROP COLUMN demangledName",
])  # fmt: skip
def test_a_kernel_without_its_full_name_has_its_short_one(change: Change, change_of: str) -> None:
    source = change(change_of)
    connection = sqlite3.connect(source)
    sql = f"SELECT DISTINCT value FROM {KERNEL} JOIN StringIds ON id = shortName ORDER BY value"
    short = [text for (text,) in connection.execute(sql)]
    connection.close()
    assert len(short) > 1
    assert _both_ways(source, _names_of_kernels) == short
    notes = _both_ways(source, lambda p: {(n.slug, n.text) for n in p.notes})
    assert [text.partition(";")[2] for slug, text in notes if slug == "nameless-id"] == [
        " shown by another name that it has"]  # fmt: skip


@pytest.mark.parametrize("column", ["shortName", "mangledName"])
def test_kernels_that_lack_one_spelling_stay_apart_in_it(change: Change, column: str) -> None:
    """Reports by this spelling show the full name, where all would be one kernel of no name."""
    source = change(f"UPDATE {KERNEL} SET {column} = 987654")
    ours = {"shortName": "short_name", "mangledName": "mangled_name"}[column]

    def spelled(profile: Profile) -> set[Any]:
        return {row[ours] for row in event_rows(profile, "kernel")}

    assert _both_ways(source, spelled) == {None}
    full = _both_ways(change("SELECT 1"), _names_of_kernels)
    assert len(full) > 1
    assert _both_ways(source, _names_of_kernels) == full
    assert _both_ways(source, _slugs) == [("nameless-id", 1)]


def test_a_kernel_with_no_name_but_its_symbol(change: Change) -> None:
    source = change(f"""
        UPDATE {KERNEL} SET demangledName = 987654, shortName = 987655;
        DELETE FROM StringIds WHERE id <> (SELECT mangledName FROM {KERNEL} LIMIT 1);""")
    names = _both_ways(source, _names_of_kernels)
    (symbol,) = (name for name in names if name != "[name 987654]")
    assert symbol.startswith("_Z")


@pytest.mark.parametrize("what", ["DELETE FROM StringIds", """
    CREATE TABLE Doubled AS SELECT * FROM StringIds; DROP TABLE StringIds;
    ALTER TABLE Doubled RENAME TO StringIds; INSERT INTO StringIds SELECT id, 'x' FROM StringIds;
"""], ids=["no text", "two texts"])  # fmt: skip
def test_notes_on_names_are_the_same_whatever_is_included(change: Change, what: str) -> None:
    """What only calls on request are called is told of with them alone."""
    source = change(what, "cpu_side-3.17.2")
    told = []
    for include in ((), ("osrt_calls", "metrics")):
        with profile_in_place(source, include) as profile:
            told.append({(n.slug, n.text, n.count, n.where) for n in profile.notes if not n.facts})
        store = source.with_name(f"{len(told)}.db")
        import_file(source, store, include=include)
        with reading(store) as opened:
            (profile,) = opened.profiles()
            told.append({(n.slug, n.text, n.count, n.where) for n in profile.notes if not n.facts})
            beside = [n for n in profile.notes if n.facts == {Fact.OSRT_CALLS}]
    assert told[0] and told == [told[0]] * 4
    assert beside


def test_capture_options_are_told_by_allow_list(change: Change) -> None:
    """The process's own where the capture has none; no other names and no other values."""
    source = change("""
        INSERT INTO META_DATA_CAPTURE (name, value) VALUES
            ('CUDA_FLUSH_PERIODICALLY', 'true'), ('PROCESS_0:CUDA_FLUSH_PERIODICALLY', 'false'),
            ('PROCESS_0:CUDA_FLUSH_PERIOD', '10'), ('CUDA_SKIP_SOME_API_CALLS', 'SECRET'),
            ('SOMETHING', 'true'), ('PROCESS_0:CUDA_GRAPH_TRACE_OPTIONS:MODE', 'Node');""")
    texts = _both_ways(source, lambda p: [n.text for n in p.notes if n.slug == "capture-options"])
    assert texts == ["CUDA_FLUSH_PERIOD=10, CUDA_FLUSH_PERIODICALLY=true"]
    assert _both_ways(source, lambda p: p.attributes["graph_mode"]) == "node"


@pytest.mark.parametrize("said", [
    "CUDA device 0: Unified Memory cannot be traced on devices that don't support peer-to-peer "
    "transfers.Please verify that SLI/NVLink is functioning properly.",
    "CUDA device 12: Unified Memory cannot be traced on devices that don't support peer-to-peer "
    "transfers.",
    "Unified Memory cannot be traced on devices that don't support peer-to-peer transfers.",
    "CUDA device 0: Unified Memory cannot be traced",
])  # fmt: skip
def test_a_diagnostic_is_told_to_its_end(change: Change, said: str) -> None:
    quoted = said.replace("'", "''")
    source = change(f"UPDATE DIAGNOSTIC_EVENT SET severity = 3, text = '{quoted}'", "no_gpu-3.16.1")
    texts = _both_ways(source, lambda p: {note.text for note in p.notes})
    assert f"the profiler says: {said}" in texts


def test_tracing_that_began_and_found_nothing(change: Change) -> None:
    """The capture was to trace CUDA and tells of no trouble: then it is known that nothing ran."""
    source = change("DELETE FROM DIAGNOSTIC_EVENT", "no_gpu-3.16.1")
    facts = _both_ways(source, lambda p: p.facts)
    assert facts >= {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY}
    assert _both_ways(source, _slugs) == [("no-gpu-work", 1)]


def test_no_string_table_and_no_ids_of_threads_is_no_export(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as connection:
        connection.execute(f"CREATE TABLE {KERNEL} (start INTEGER, end INTEGER, deviceId INTEGER)")
    with pytest.raises(InputError, match="StringIds"):
        import_file(tmp_path / "other.sqlite", tmp_path / "store.db")


def test_a_string_table_of_another_shape(change: Change, tmp_path: Path) -> None:
    source = change("DROP TABLE StringIds; CREATE TABLE StringIds (number INTEGER, text TEXT)")
    try:
        import_file(source, tmp_path / "store.db")
    except NsysconvError:
        assert [path.name for path in tmp_path.iterdir()] == ["changed.sqlite"]


def test_a_wrong_cell_far_down(tmp_path: Path) -> None:
    """Beyond what is fetched at once: the driver takes a column's type from the first rows."""
    source = tmp_path / "far.sqlite"
    repeat_export.generate(source, NSYS / "two_processes_two_gpus-3.24.7.sqlite", 6_000)
    connection = sqlite3.connect(source)
    connection.execute(f"UPDATE {KERNEL} SET gridX = 'wide' WHERE rowid = 5000")
    connection.execute(f"UPDATE {RUNTIME} SET correlationId = 0.5 WHERE rowid = 4999")
    connection.commit()
    connection.close()

    def damaged(profile: Profile) -> list[Any]:
        grid = known(profile.columns("kernel", ("grid_x",))["grid_x"])
        ids = known(profile.columns("api_call", ("correlation_id",))["correlation_id"])
        return [len(grid), grid.count(None), grid[4_999], ids.count(None), ids[4_998]]

    assert _both_ways(source, damaged) == [6_000, 1, None, 1, None]
    assert _both_ways(source, _slugs) == [("wrong-type", 1), ("wrong-type", 1)]
