"""Damaged, trimmed, foreign and hostile files: an answer in words, or rows and a note."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from conftest import (
    EVENTS,
    NSYS,
    ODD,
    Row,
    Shelf,
    event_rows,
    import_file,
    profile_in_place,
)
from odd_fixtures import ODD as DESCRIPTIONS

from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity
from nsysconv.store.location import reading
from nsysconv.store.read import Profile

# File: words that the message has to hold. What is wrong, and what to do.
MESSAGES = {
    "lfs-pointer.sqlite": ("Git LFS pointer", "git lfs pull"),
    "empty.sqlite": ("empty", "again"),
    "truncated.sqlite": ("cut off", "59,392", "29,696", "again"),
    "foreign.sqlite": ("another program", "bookmark", "nsys export"),
    "report.nsys-rep": ("not a profile", "nsys report or SQLite export"),
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
    with pytest.raises(InputError), profile_in_place(ODD / name):
        pass


def test_every_odd_file_has_its_answer_here() -> None:
    answers = {*MESSAGES, *SAME_AS, *CHANGED}
    assert set(DESCRIPTIONS) == answers


# -- files whose answers are those of `basic`, but for what a note tells

# File: the export it was made from, tables that are missing, and the notes.
SAME_AS: dict[str, tuple[str, set[str], list[tuple[str, Severity, int]]]] = {
    "backtrace-rows.sqlite": ("basic-2.9.1", set(), [("backtrace-rows", Severity.INFO, 7)]),
    "extra-columns.sqlite": ("basic-3.17.2", set(), [("tables-not-read", Severity.INFO, 1)]),
    "future-schema.sqlite": ("basic-3.28.1", set(), []),
    "views-and-triggers.sqlite": (
        "basic-3.17.2", {"kernel"},
        [("tables-not-read", Severity.INFO, 1), ("not-a-table", Severity.DROPPED, 1)]),
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


def test_an_id_of_zeros_makes_two_gpus_no_one(tmp_path: Path) -> None:
    export = tmp_path / "a.sqlite"
    export.write_bytes((NSYS / "two_processes_two_gpus-3.17.2.sqlite").read_bytes())
    with closing(sqlite3.connect(export)) as connection, connection:
        zeros = "00000000-0000-0000-0000-000000000000"
        connection.execute("UPDATE TARGET_INFO_GPU SET uuid = ?", (zeros,))
    import_file(export, tmp_path / "a.db")
    with reading(tmp_path / "a.db") as store:
        (profile,) = store.profiles()
        devices = profile.rows("device")
    assert [row["uuid"] for row in devices] == [None, None]
    assert len({row["bus_id"] for row in devices}) == 2


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
    columns = ("copy_count", "graph_node_id", "green_context_id")
    lost = {"memcpy": dict.fromkeys(columns)}
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
    # Its other names are at hand.
    assert kernels[110] == original[110] | {"name": original[110]["short_name"]}
    (call,) = (r for r in event_rows(profile, "api_call") if r["correlation_id"] == 120)
    assert call["name"] == "[name 900005]"
    assert "[name 900006]" in {row["name"] for row in event_rows(profile, "range")}
    assert [note.count for note in _notes(profile, "nameless-id")] == [1, 5]


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
