"""Damaged, trimmed, foreign and hostile files: an answer in words, or rows and a note."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import (
    CHILD_ENVIRONMENT,
    EVENTS,
    NSYS,
    ODD,
    Row,
    Shelf,
    all_columns,
    event_rows,
    import_file,
    in_any_order,
    known,
    profile_in_place,
)
from odd_fixtures import ODD as DESCRIPTIONS

from nsysconv.errors import InputError, NsysconvError
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.store.read import Profile, reading

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"

# File: words that the message has to hold. What is wrong, and what to do.
MESSAGES = {
    "lfs-pointer.sqlite": ("Git LFS pointer", "git lfs pull"),
    "empty.sqlite": ("empty", "again"),
    "truncated.sqlite": ("cut off", "59,392", "29,696", "again"),
    "foreign.sqlite": ("another program", "bookmark", "Nsight Systems"),
    "nvprof-like.sqlite": ("nvprof",),
    "report.nsys-rep": ("not a SQLite database", "Nsight Systems"),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_files_that_are_no_export_say_so(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        import_file(ODD / name, tmp_path / "store.db")
    said = f"{caught.value.what}\n{caught.value.hint}"
    assert [word for word in MESSAGES[name] if word not in said] == []
    assert caught.value.where == str(ODD / name)
    assert caught.value.exit_status == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", MESSAGES)
def test_files_that_are_no_export_say_so_in_place(name: str) -> None:
    with pytest.raises(InputError), profile_in_place(ODD / name):
        pass


def test_every_odd_file_has_its_answer_here() -> None:
    answers = {*MESSAGES, *SAME_AS, *CHANGED}
    assert set(DESCRIPTIONS) == answers


# -- files whose answers are those of `basic`, but for what a note tells

# File: the export it was made from, tables that are missing, and the notes.
SAME_AS: dict[str, tuple[str, set[str], list[tuple[str, Severity, int]]]] = {
    "backtrace-rows.sqlite": ("basic-2.9.1", set(), [("backtrace-rows", Severity.INFO, 7)]),
    "extra-columns.sqlite": ("basic-3.17.2", set(), []),
    "future-schema.sqlite": ("basic-3.28.1", set(), []),
    "views-and-triggers.sqlite": (
        "basic-3.17.2", {"kernel"}, [("not-a-table", Severity.DROPPED, 1)]),
    "endless-view.sqlite": (
        "basic-3.17.2", {"memset"}, [("not-a-table", Severity.DROPPED, 1)]),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME_AS)
def test_rows_as_in_the_original(shelf: Shelf, name: str) -> None:
    original, missing, notes = SAME_AS[name]
    profile = shelf.profile(ODD / name)
    basic = shelf.profile(NSYS / f"{original}.sqlite")
    for table in EVENTS:
        wanted = [] if table in missing else event_rows(basic, table)
        assert event_rows(profile, table) == wanted, table
    assert [(note.slug, note.severity, note.count) for note in profile.notes] == notes


@pytest.mark.parametrize(("name", "fact"), [
    ("views-and-triggers.sqlite", Fact.KERNELS), ("endless-view.sqlite", Fact.MEMSETS),
])  # fmt: skip
def test_a_table_that_was_not_read_is_not_recorded(shelf: Shelf, name: str, fact: Fact) -> None:
    """No kernels and kernels that nobody could read must not look alike."""
    assert fact not in shelf.profile(ODD / name).facts


def test_a_later_schema_is_read_under_its_own_number(shelf: Shelf) -> None:
    profile = shelf.profile(ODD / "future-schema.sqlite")
    assert profile.attributes["format_version"] == "4.0.0"


def test_names_of_backtrace_rows_stay_behind(shelf: Shelf) -> None:
    rows = shelf.profile(ODD / "backtrace-rows.sqlite").rows("name")
    assert [row for row in rows if row["id"] >= 800_000] == []


# -- files with answers of their own


def _ids(profile: Profile, table: str) -> set[int | None]:
    return {row["correlation_id"] for row in event_rows(profile, table)}


def _notes(profile: Profile, slug: str) -> list[Note]:
    return [note for note in profile.notes if note.slug == slug]


def _trimmed(profile: Profile, basic: Profile) -> None:
    """Processes and layers are assumed; both are notes with the number of rows."""
    lost = {"memcpy": {"copy_count": None, "graph_node_id": None}}
    for table in EVENTS:
        wanted = [row | lost.get(table, {}) for row in event_rows(basic, table)]
        assert event_rows(profile, table) == wanted, table
    (layer,) = _notes(profile, "call-layer-assumed")
    assert (layer.count, layer.severity) == (20, Severity.APPROXIMATED)
    process = _notes(profile, "process-assumed")
    assert {note.severity for note in process} == {Severity.APPROXIMATED}
    assert "4242" in process[0].text
    assert Fact.MEMCPYS in process[0].facts
    assert sum(note.count for note in process) == 7


def _bad_cells(profile: Profile, basic: Profile) -> None:
    """A cell that places its row costs the row; any other is not recorded."""
    not_recorded: dict[int, Row] = {
        116: {"grid_x": None}, 103: {"bytes": None}, 104: {"bytes": None},
    }  # fmt: skip
    # The name of the only stencil that is left is no text.
    (stencil,) = (row for row in event_rows(profile, "kernel") if row["correlation_id"] == 999)
    assert stencil["name"].startswith("[name ")
    not_recorded[999] = dict.fromkeys(("name", "short_name", "mangled_name"), stencil["name"])
    for table, dropped in (("kernel", {105, 107}), ("memcpy", set())):
        wanted = [row | not_recorded.get(row["correlation_id"], {})
                  for row in event_rows(basic, table)
                  if row["correlation_id"] not in dropped]  # fmt: skip
        assert event_rows(profile, table) == wanted, table
    assert _ids(basic, "api_call") - _ids(profile, "api_call") == {119}
    texts = [{row["name"] for row in event_rows(p, "range")} for p in (basic, profile)]
    assert texts[0] - texts[1] == {"saxpy step"}
    notes = _notes(profile, "wrong-type")
    assert {note.severity for note in notes} == {Severity.DROPPED}
    by_fact = {fact: sum(note.count for note in notes if fact in note.facts) for fact in Fact}
    assert {fact: count for fact, count in by_fact.items() if count} == {
        Fact.KERNELS: 3, Fact.MEMCPYS: 2, Fact.API_CALLS: 1, Fact.RANGES: 1,
    }  # fmt: skip
    assert all(note.where.split()[0] in note.text for note in notes)
    assert [note.count for note in _notes(profile, "nameless-id")] == [1]


def _no_strings(profile: Profile, basic: Profile) -> None:
    kernels = {row["correlation_id"]: row for row in event_rows(profile, "kernel")}
    original = {row["correlation_id"]: row for row in event_rows(basic, "kernel")}
    for number in (105, 109):
        assert kernels[number] == original[number] | {
            "name": "[name 900001]", "short_name": "[name 900002]",
            "mangled_name": "[name 900003]"}  # fmt: skip
    assert kernels[110] == original[110] | {"name": "[name 900004]"}
    (call,) = (r for r in event_rows(profile, "api_call") if r["correlation_id"] == 120)
    assert call["name"] == "[name 900005]"
    assert "[name 900006]" in {row["name"] for row in event_rows(profile, "range")}
    assert [note.count for note in _notes(profile, "nameless-id")] == [6]


def _odd_durations(profile: Profile, basic: Profile) -> None:
    assert _ids(basic, "kernel") - _ids(profile, "kernel") == {105, 116}
    assert _ids(basic, "memcpy") - _ids(profile, "memcpy") == {103}
    assert _ids(basic, "api_call") - _ids(profile, "api_call") == {119}
    texts = [{row["name"] for row in event_rows(p, "range")} for p in (basic, profile)]
    assert texts[0] - texts[1] == {"iteration 1"}
    assert sum(note.count for note in _notes(profile, "negative-duration")) == 2
    assert sum(note.count for note in _notes(profile, "impossible-time")) == 3
    assert {note.severity for note in profile.notes} == {Severity.DROPPED}


def _zero_times(profile: Profile, basic: Profile) -> None:
    no_time = {"start_ns": None, "dur_ns": None}
    wanted = [row | no_time if row["correlation_id"] in (105, 110) else row
              for row in event_rows(basic, "kernel")]  # fmt: skip
    assert event_rows(profile, "kernel") == wanted


def _clocks(profile: Profile, basic: Profile) -> None:
    """No shift is applied: what is stored is what was recorded."""
    later = 300_000_000_000
    for table in ("kernel", "memcpy", "memset"):
        wanted = [row | {"start_ns": row["start_ns"] + later} for row in event_rows(basic, table)]
        assert event_rows(profile, table) == wanted, table


def _crossing(profile: Profile, basic: Profile) -> None:
    """Stored as recorded; who sums without nesting has to cut."""
    wanted = [row | {"dur_ns": 131_000 - 72_000} if row["correlation_id"] == 109 else row
              for row in event_rows(basic, "api_call")]  # fmt: skip
    assert event_rows(profile, "api_call") == wanted


def _shared(profile: Profile, basic: Profile) -> None:
    calls = [(row["correlation_id"], row["layer"], row["start_ns"], row["name"])
             for row in event_rows(profile, "api_call")
             if row["correlation_id"] in (107, 112)]  # fmt: skip
    assert sorted(calls) == [
        (107, "driver", 49_000, "cuLibraryLoadData"),
        (107, "runtime", 48_000, "cudaLaunchKernel_v7000"),
        (112, "driver", 169_500, "cuMemcpyDtoH_v2"),
        (112, "runtime", 170_000, "cudaMemcpy_v3020"),
    ]


CHANGED: dict[str, Callable[[Profile, Profile], None]] = {
    "trimmed.sqlite": _trimmed,
    "bad-cells.sqlite": _bad_cells,
    "ids-without-strings.sqlite": _no_strings,
    "odd-durations.sqlite": _odd_durations,
    "zero-times.sqlite": _zero_times,
    "clocks-disagree.sqlite": _clocks,
    "crossing-calls.sqlite": _crossing,
    "shared-ids.sqlite": _shared,
}


@pytest.mark.parametrize("name", CHANGED)
def test_odd_files_have_their_answer(shelf: Shelf, name: str) -> None:
    CHANGED[name](shelf.profile(ODD / name), shelf.profile(NSYS / "basic-3.17.2.sqlite"))


# -- more of what a file can hold, one change at a time

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


def _both_ways(source: Path, question: Callable[[Profile], Any]) -> Any:
    """The answer of an imported profile, which has to be that of the profile in place."""
    store = source.with_name("both-ways.db")
    import_file(source, store)
    with reading(store) as opened:
        (profile,) = opened.profiles()
        imported = question(profile)
    with profile_in_place(source) as profile:
        assert question(profile) == imported
    return imported


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


def test_a_column_called_rowid(change: Change) -> None:
    """It hides SQLite's own row number under that name."""
    source = change(f"""
        ALTER TABLE {KERNEL} ADD COLUMN rowid TEXT;
        UPDATE {KERNEL} SET rowid = 'kernel ' || correlationId;""")
    assert len(_both_ways(source, _kernels)) == 8


def test_an_event_table_without_row_ids(change: Change) -> None:
    """Not read, and said so: never something without a word."""
    source = change(f"""
        ALTER TABLE {KERNEL} RENAME TO old;
        CREATE TABLE {KERNEL} (start INTEGER, end INTEGER, deviceId INTEGER, globalPid INTEGER,
            correlationId INTEGER, PRIMARY KEY (start, deviceId)) WITHOUT ROWID;
        INSERT INTO {KERNEL} SELECT start, end, deviceId, globalPid, correlationId FROM old;
        DROP TABLE old;""")
    assert _both_ways(source, _kernels) == []
    assert ("not-a-table", 1) in _both_ways(source, _slugs)
    assert Fact.KERNELS not in _both_ways(source, lambda p: p.facts)


def test_a_virtual_table_in_place_of_events(change: Change) -> None:
    source = change(f"""
        DROP TABLE {KERNEL};
        CREATE VIRTUAL TABLE {KERNEL} USING fts5(start, end, deviceId, globalPid);""")
    assert _both_ways(source, _kernels) == []
    assert ("not-a-table", 1) in _both_ways(source, _slugs)


def test_an_event_table_without_a_needed_column(change: Change) -> None:
    source = change(f"ALTER TABLE {KERNEL} DROP COLUMN deviceId")
    assert _both_ways(source, _kernels) == []
    (note,) = _both_ways(source, lambda p: [n for n in p.notes if n.slug == "not-a-table"])
    assert "deviceId" in note.text
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


@pytest.mark.parametrize("rowid", [(1 << 63) - 1, -(1 << 63), 1 << 52])
def test_row_numbers_far_apart(change: Change, rowid: int) -> None:
    """They must not be walked through number by number. Imported; in place only if that is cheap."""
    source = change(f"UPDATE {KERNEL} SET rowid = {rowid} WHERE correlationId = 116")
    code = f"""
import sys
sys.path[:0] = [{str(Path(__file__).parent)!r}]
from pathlib import Path
from conftest import event_rows, import_file, profile_in_place
from nsysconv.store.attached import NotInPlace
source = Path({str(source)!r})
counts = [import_file(source, Path(f'{{source}}.db')).row_counts['kernel']]
try:
    with profile_in_place(source) as profile:
        counts.append(len(event_rows(profile, 'kernel')))
except NotInPlace:
    counts.append(8)
print(counts)
"""
    # In a process of its own: what never ends can be ended.
    done = subprocess.run([sys.executable, "-c", code], env=CHILD_ENVIRONMENT, timeout=8,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.stdout == "[8, 8]\n", done.stderr[-2000:]


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


def test_tracing_that_began_and_found_nothing(change: Change) -> None:
    """The capture was to trace CUDA and tells of no trouble: then it is known that nothing ran."""
    source = change("DELETE FROM DIAGNOSTIC_EVENT", "no_gpu-3.16.1")
    facts = _both_ways(source, lambda p: p.facts)
    assert facts >= {Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.UNIFIED_MEMORY}
    assert _both_ways(source, _slugs) == [("no-gpu-work", 1)]


def test_tables_of_metadata_without_their_columns(change: Change) -> None:
    """The events count more than what is told about them."""
    source = change("""
        DROP TABLE META_DATA_EXPORT; CREATE TABLE META_DATA_EXPORT (key TEXT);
        DROP TABLE META_DATA_CAPTURE; CREATE TABLE META_DATA_CAPTURE (name TEXT);
        DROP TABLE ThreadNames; CREATE TABLE ThreadNames (who INTEGER);
        DROP TABLE PROCESSES; CREATE TABLE PROCESSES (who INTEGER);
        DROP TABLE DIAGNOSTIC_EVENT; CREATE TABLE DIAGNOSTIC_EVENT (what TEXT);""")
    assert len(_both_ways(source, _kernels)) == 8


def test_no_string_table_at_all_is_no_export(change: Change, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="StringIds"):
        import_file(change("DROP TABLE StringIds"), tmp_path / "store.db")


def test_a_string_table_of_another_shape(change: Change, tmp_path: Path) -> None:
    source = change("DROP TABLE StringIds; CREATE TABLE StringIds (number INTEGER, text TEXT)")
    try:
        import_file(source, tmp_path / "store.db")
    except NsysconvError:
        assert [path.name for path in tmp_path.iterdir()] == ["changed.sqlite"]


def test_a_wrong_cell_far_down(tmp_path: Path) -> None:
    """Beyond what is fetched at once: the driver takes a column's type from the first rows."""
    import generate_nsys

    source = tmp_path / "far.sqlite"
    generate_nsys.generate(source, 6_000, 1, 1, 1)
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


# -- paths


@pytest.mark.parametrize("name", [
    "what?mode=rwc.sqlite", "#1 run.sqlite", "100%41.sqlite", "it's; DROP TABLE.sqlite",
    "änderung 日本.sqlite", "new\nline.sqlite", "-o.sqlite", "file:x.sqlite",
])  # fmt: skip
def test_names_with_odd_characters(tmp_path: Path, shelf: Shelf, name: str) -> None:
    _import_under_name(tmp_path, shelf, name)


@pytest.mark.skipif(sys.platform == "darwin", reason="file names are UTF-8 there")
def test_names_that_are_no_utf_8(tmp_path: Path, shelf: Shelf) -> None:
    _import_under_name(tmp_path, shelf, os.fsdecode(b"\xff\xfe.sqlite"))


def _import_under_name(tmp_path: Path, shelf: Shelf, name: str) -> None:
    source, store = tmp_path / name, tmp_path / f"store of {name}.db"
    source.write_bytes((NSYS / "basic-3.25.0.sqlite").read_bytes())
    wanted = _kernels(shelf.profile(NSYS / "basic-3.25.0.sqlite"))
    import_file(source, store)
    with reading(store) as opened:
        (profile,) = opened.profiles()
        assert _kernels(profile) == wanted
        assert profile.ref.label
    with profile_in_place(source) as profile:
        assert _kernels(profile) == wanted
    assert in_any_order(p.name for p in tmp_path.iterdir()) == in_any_order([name, store.name])


@pytest.mark.parametrize("where", ["missing.sqlite", ".", "missing/folder.sqlite"])
def test_nothing_to_read(tmp_path: Path, where: str) -> None:
    with pytest.raises(InputError) as caught:
        import_file(tmp_path / where, tmp_path / "store.db")
    assert caught.value.where == str(tmp_path / where)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero"])
def test_devices_that_are_no_file(tmp_path: Path, device: str) -> None:
    with pytest.raises(InputError):
        import_file(Path(device), tmp_path / "store.db")


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    """Opening it would wait for a writer, for ever."""
    os.mkfifo(tmp_path / "pipe")
    code = f"""
from pathlib import Path
from nsysconv.errors import InputError
from nsysconv.importers.probe import Probe
try:
    Probe(Path({str(tmp_path / "pipe")!r}))
except InputError as error:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", code], env=CHILD_ENVIRONMENT, timeout=5,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.stdout == "refused\n", done.stderr[-2000:]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    source = tmp_path / "secret.sqlite"
    source.write_bytes(b"SQLite format 3\0")
    source.chmod(0)
    with pytest.raises(InputError, match=r"[Pp]ermission"):
        import_file(source, tmp_path / "store.db")
