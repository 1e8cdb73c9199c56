"""What fuzzing has found in importers, each with the least input that shows it."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from conftest import (
    EVENTS,
    FIXTURES,
    NSYS,
    Row,
    by_turns,
    event_rows,
    few,
    import_file,
    profile_in_place,
)
from damage_trees import Page, Pages, all_children, powers
from importing import changed_copy

from nsysconv import api
from nsysconv.errors import InputError
from nsysconv.importers import nsys_sqlite, probe
from nsysconv.importers.contract import MAX_RECORDINGS
from nsysconv.importers.detection import detect
from nsysconv.importers.kineto.arrays import nanoseconds
from nsysconv.importers.kineto.packed import MISSING, exact_times, integers
from nsysconv.importers.nsys_stats.tables import JsonRows
from nsysconv.importers.nvprof_log.survey import measured, spelled
from nsysconv.importers.printed.registry import IdRegistry
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import as_whole_number
from nsysconv.notes import Note, Severity
from nsysconv.store.columns import ColumnPart, TooManyRowsError
from nsysconv.store.location import reading
from nsysconv.store.read import Profile
from nsysconv.store.sqlite.connection import SqliteConnection

BASIC = NSYS / "basic-3.25.0.sqlite"
NVPROF = FIXTURES / "nvprof_database" / "basic-12.nvvp"
RANGES = NVPROF.with_name("ranges-12.nvvp")
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., Path]:
    """A copy of a database after some statements."""
    return lambda source, *statements: changed_copy(source, tmp_path, *statements)


def _untyped(table: str) -> tuple[str, ...]:
    """Statements after which cells of a table keep the type that is put into them."""
    return (
        f"CREATE TABLE untyped AS SELECT * FROM {table}", f"DROP TABLE {table}",
        # Tables made so have columns of types; those of an expression have none.
        f"ALTER TABLE untyped RENAME TO {table}", "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = replace(replace(sql, ' INT', ''), ' NUM', '') "
        f"WHERE name = '{table}'",
        "PRAGMA writable_schema = RESET",
    )  # fmt: skip


Read = Callable[[Profile], object]


def _both(source: Path, read: Read) -> list[object]:
    """What is read of a source imported, and in place."""
    store = source.with_name("store.db")
    import_file(source, store)
    with reading(store) as opened:
        (profile,) = opened.profiles()
        found = [read(profile)]
    with profile_in_place(source) as profile:
        return [*found, read(profile)]


def _rows(table: str) -> Callable[[Profile], list[Row]]:
    return lambda profile: event_rows(profile, table)


def _refused(source: Path) -> InputError:
    with Probe(source) as opened, pytest.raises(InputError) as caught:
        detect(opened)
    return caught.value


# -- databases


@pytest.mark.parametrize("odd", [b"\x1b[2J", b'"\xff'], ids=["a control sequence", "no text"])
def test_what_sqlite_says_of_a_schema_steers_no_terminal(tmp_path: Path, odd: bytes) -> None:
    """It repeats what it cannot read."""
    content = BASIC.read_bytes()
    place = content.index(b"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (") + len("CREATE TABLE ")
    source = tmp_path / "export.sqlite"
    source.write_bytes(content[:place] + odd + content[place + len(odd) :])
    said = str(_refused(source))
    assert "SQLite cannot read it" in said
    assert said.replace("\n", "").isprintable()


def test_names_of_foreign_tables_steer_no_terminal(tmp_path: Path) -> None:
    source = tmp_path / "export.sqlite"
    with closing(sqlite3.connect(source)) as database:
        database.execute('CREATE TABLE "\x1b[2J" (a)')
    said = str(_refused(source))
    assert "another program" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("encoding", [2, 3, 4])
def test_a_database_in_another_encoding_is_refused_by_its_name(
    tmp_path: Path, encoding: int
) -> None:
    """SQLite attaches none whose texts are not those of the store."""
    source = tmp_path / "export.sqlite"
    content = BASIC.read_bytes()
    source.write_bytes(content[:56] + encoding.to_bytes(4, "big") + content[60:])
    error = _refused(source)
    assert "UTF-8" in error.what or "SQLite cannot read it" in error.what
    assert error.where == str(source)


@pytest.mark.parametrize(("column", "kind"), by_turns(
    ["start", "end", "correlationId", "deviceId", "globalPid"], ["TEXT", "REAL"], 4))  # fmt: skip
def test_numbers_that_are_spelled_otherwise_are_the_same_numbers(
    changed: Callable[..., Path], column: str, kind: str
) -> None:
    """A store makes numbers of them as they come in; in place they have to be, too."""
    with profile_in_place(BASIC) as profile:
        wanted = sorted(map(repr, event_rows(profile, "kernel")))
    source = changed(
        BASIC, *_untyped(KERNEL), f"UPDATE {KERNEL} SET {column} = CAST({column} AS {kind})"
    )
    imported, in_place = _both(source, _rows("kernel"))
    assert isinstance(imported, list)
    assert isinstance(in_place, list)
    assert sorted(map(repr, imported)) == wanted
    assert sorted(map(repr, in_place)) == wanted


@pytest.mark.parametrize(
    ("cell", "number"),
    [(5, 5), (5.0, 5), (5.5, None), ("5", 5), (" 5 ", 5), ("5.0", 5), ("1e3", 1000), ("5x", None),
     ("", None), ("nan", None), ("inf", None), (b"5", None), (None, None), (2.0**63, None),
     (float("inf"), None), ("9" * 30, None), ("1e400", None)],
)  # fmt: skip
def test_what_is_a_whole_number_is_one_to_sqlite(cell: object, number: int | None) -> None:
    assert as_whole_number(cell) == number
    if isinstance(cell, float) and abs(cell) == float("inf"):
        return
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE t (a INTEGER) STRICT")
        try:
            database.execute("INSERT INTO t VALUES (?)", (cell,))
        except sqlite3.IntegrityError:
            assert number is None
        else:
            assert database.execute("SELECT a FROM t").fetchone() == (number,)


def _dropped(profile: Profile) -> list[tuple[str, int]]:
    return [(n.text, n.count) for n in profile.notes if n.severity is Severity.DROPPED]


@pytest.mark.parametrize(("table", "column", "ours", "cell"), [
    (RUNTIME, "eventClass", "api_call", "'text'"), ("NVTX_EVENTS", "eventType", "range", "x'00'"),
    (RUNTIME, "eventClass", "api_call", "NULL"),
])  # fmt: skip
def test_a_row_of_no_kind_is_counted(
    changed: Callable[..., Path], table: str, column: str, ours: str, cell: str
) -> None:
    """The condition that tells kinds apart leaves it out without an error."""
    source = changed(
        BASIC, *_untyped(table),
        f"UPDATE {table} SET {column} = {cell} WHERE rowid = "
        f"(SELECT min(rowid) FROM {table} WHERE {column} IN (0, 59))",
    )  # fmt: skip
    with profile_in_place(BASIC) as profile:
        before = len(event_rows(profile, ours))
    said = (f"{table}: rows whose {column} is not a whole number were left out", 1)

    def found(profile: Profile) -> object:
        return len(event_rows(profile, ours)), _dropped(profile)

    assert _both(source, found) == [(before - 1, [said])] * 2


def test_very_many_unknown_classes_are_one_note(changed: Callable[..., Path]) -> None:
    """Not a search of the table for each of them."""
    more = (
        f"INSERT INTO {RUNTIME} SELECT start, end, eventClass + 1000 + value, globalTid, correlationId, "
        f"nameId, returnValue, callchainId FROM {RUNTIME}, generate_series WHERE {RUNTIME}.rowid = 1"
    )
    source = changed(
        BASIC, "CREATE TABLE generate_series AS WITH RECURSIVE n(value) AS "
        "(SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 3000) SELECT value FROM n", more,
    )  # fmt: skip
    with profile_in_place(source) as profile:
        ((text, count),) = _dropped(profile)
    assert count == 3000
    assert text.startswith("rows of event class 1001, 1002, ")
    assert text.endswith(", … among the API calls were left out")


def _starts(profile: Profile) -> object:
    """How many kernels there are, how many of them without a start, and how many were left out."""
    starts = [row["start_ns"] for row in event_rows(profile, "kernel")]
    return len(starts), starts.count(None), [count for _, count in _dropped(profile)]


def _endless(profile: Profile) -> object:
    """Of the kernels without an end, whether they have a start."""
    rows = event_rows(profile, "kernel")
    return [row["start_ns"] is not None for row in rows if row["dur_ns"] is None]


def _timeless_ranges(profile: Profile) -> object:
    rows = event_rows(profile, "range")
    return [(row["start_ns"], row["dur_ns"]) for row in rows if row["start_ns"] is None]


def _unknown_codes(profile: Profile) -> object:
    return [note.count for note in profile.notes if note.slug == "unknown-code"]


def _priorities(profile: Profile) -> object:
    return {row["priority"] for row in profile.rows("stream")}


def _syncs(profile: Profile) -> object:
    return [(row["pid"], row["device_id"]) for row in event_rows(profile, "sync")]


_TOO_EARLY = f"UPDATE {KERNEL} SET start = -{1 << 60} WHERE rowid = 2"
_WIDE = (1 << 53) - 1
MARKERS = "CUPTI_ACTIVITY_KIND_MARKER"
# File, what is done to it, what is looked at, and what is found there, in a store and in place.
CELLS: dict[str, tuple[Path, tuple[str, ...], Read, object]] = {
    "process 0, which stands for none, in all rows": (
        BASIC, ("UPDATE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION SET globalPid = globalPid << 24",),
        _syncs, [(None, 0)] * 2),
    "a priority that is not a number": (
        BASIC, ("UPDATE TARGET_INFO_CUDA_STREAM SET priority = x'3132'",), _priorities, {None}),
    "ranges of an unknown kind are counted": (
        BASIC, ("UPDATE NVTX_EVENTS SET eventType = 99 WHERE eventType = 59",), _dropped,
        [("NVTX_EVENTS: rows of event type 99 were left out", 5)]),
    "a row without a start stays where others are left out": (
        BASIC, (*_untyped(KERNEL), f"UPDATE {KERNEL} SET start = NULL WHERE rowid = 1", _TOO_EARLY),
        _starts, (7, 1, [1])),
    "a row without an end keeps its start where others are left out": (
        BASIC, (*_untyped(KERNEL), f"UPDATE {KERNEL} SET end = NULL WHERE rowid = 1", _TOO_EARLY),
        _endless, [True]),
    "a row that lasts too long between two possible times": (
        BASIC, (f"UPDATE {KERNEL} SET start = -{_WIDE}, end = {_WIDE} WHERE rowid = 2",),
        _starts, (7, 0, [1])),
    "a range that begins at 0 among times of day": (
        RANGES, (f"UPDATE {MARKERS} SET timestamp = 0 WHERE flags & 2 AND id = "
                 f"(SELECT min(id) FROM {MARKERS} WHERE flags & 4)",), _timeless_ranges, [(None, None)]),
    "markers whose flags are no number are counted": (
        RANGES, (f"UPDATE {MARKERS} SET flags = 'x' WHERE _id_ < 3",), _unknown_codes, [2]),
}  # fmt: skip


@pytest.mark.parametrize("what", CELLS)
def test_odd_cells_in_a_store_and_in_place(what: str, changed: Callable[..., Path]) -> None:
    source, statements, read, wanted = CELLS[what]
    rows: list[object] = []

    def found(profile: Profile) -> object:
        rows.append({table: event_rows(profile, table) for table in EVENTS})
        return read(profile)

    assert _both(changed(source, *statements), found) == [wanted] * 2
    assert rows[0] == rows[1]


# -- traces


def test_one_long_text_among_numbers_does_not_fill_the_memory() -> None:
    """An array of texts would have room for the longest in every place: 80 GB here."""
    values = ["x" * 1_000_000, *["7"] * 20_000]
    numbers = np.frombuffer(integers(values), np.int64)
    assert numbers[0] == MISSING
    assert (numbers[1:] == 7).all()
    spelled = [value.encode() for value in values]
    found = nanoseconds(exact_times(values, lambda: spelled))
    assert found[0] == MISSING
    assert (found[1:] == 7000).all()


def test_numbers_of_both_kinds_and_texts_in_one_column() -> None:
    several = integers([1, 2.0, "3", 4.5, None, True])
    assert np.frombuffer(several, np.int64).tolist() == [1, 2, 3, MISSING, MISSING, 1]
    assert np.frombuffer(integers([1 << 63, -(1 << 63)]), np.int64).tolist() == [MISSING, MISSING]
    mixed: list[object] = [1, 2.5]
    assert nanoseconds(exact_times(mixed, lambda: [b"1", b"2.5"])).tolist() == [1000, 2500]


HEAD = b'{"schemaVersion": 1, "baseTimeNanoseconds": 1767225600000000000, "traceEvents": ['
CALL = b"""{"ph": "X", "cat": "cuda_runtime", "name": "cudaMalloc",
    "pid": %d, "tid": 1, "ts": 1.5, "dur": 1}"""


def _imported(source: Path) -> tuple[dict[str, int], dict[str, int]]:
    """Rows of all recordings by table, and notes by slug."""
    (file,) = api.import_files([source], source.with_name("store.db")).files
    assert file.error is None
    notes: list[Note] = [note for one in file.imported for note in one.notes]
    rows = {name: count for one in file.imported for name, count in one.row_counts.items() if count}
    return rows, {note.slug: note.count for note in notes}


def test_events_beside_what_is_no_event_are_counted(tmp_path: Path) -> None:
    source = tmp_path / "trace.json"
    events = [CALL % 5, CALL % 5, b'"text"', CALL % 5, CALL % 5]
    source.write_bytes(HEAD + b", ".join(events) + b"]}")
    rows, notes = _imported(source)
    assert rows["api_call"] + notes["event-unreadable"] == 4


def test_of_a_damaged_line_no_path_is_repeated(tmp_path: Path) -> None:
    source = tmp_path / "stats.txt"
    said = "SKIPPED: /scratch/SECRET/report1.sqlite does not contain "
    source.write_text(f"{said}CUDA kernel data: {said}GPU memory data.\n", encoding="utf-8")
    (file,) = api.import_files([source], tmp_path / "job.db").files
    assert isinstance(file.error, InputError)
    assert "there is no GPU memory data" in file.error.what
    assert "SECRET" not in file.error.what


def test_half_a_character_for_a_time_is_none(tmp_path: Path) -> None:
    source = tmp_path / "trace.json"
    content = (FIXTURES / "kineto" / "basic-2.13.json").read_text(encoding="utf-8")
    event = r'{"ph": "X", "cat": "kernel", "name": "odd", "pid": 0, "tid": 7, "ts": "\ud800", "dur": 1},'
    source.write_text(content.replace('"traceEvents": [', '"traceEvents": [' + event, 1))
    import_file(source, tmp_path / "job.db")
    with reading(tmp_path / "job.db") as store:
        (profile,) = store.profiles()
        names = [row["name"] for row in event_rows(profile, "kernel") if row["start_ns"] is not None]
        assert names
        assert "odd" not in names
        assert any(note.severity is Severity.DROPPED for note in profile.notes)


def test_a_trace_of_very_many_processes_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "trace.json"
    events = [CALL % pid for pid in range(1, MAX_RECORDINGS + 2)]
    source.write_bytes(HEAD + b", ".join(events) + b"]}")
    (file,) = api.import_files([source], tmp_path / "store.db").files
    assert isinstance(file.error, InputError)
    assert "more than 1,000 recordings" in file.error.what
    assert file.error.where == str(source)
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


# -- printed tables


def test_what_two_tools_printed_into_one_file_is_refused_with_both_names(tmp_path: Path) -> None:
    source = tmp_path / "job.log"
    source.write_bytes(
        (FIXTURES / "nvidia_smi" / "query.csv").read_bytes()
        + (FIXTURES / "nvprof_log" / "basic-summary.txt").read_bytes()
    )
    error = _refused(source)
    assert "nvprof log" in error.what
    assert "nvidia-smi log" in error.what
    assert "Split it" in error.hint


def test_a_log_of_very_many_runs_is_refused(tmp_path: Path) -> None:
    table = (FIXTURES / "nsys_stats" / "basic-2025-cuda_api_sum.json").read_bytes()
    rows = json.loads(table)
    source = tmp_path / "stats.json"
    source.write_text("\n".join(json.dumps(rows[:1]) for _ in range(MAX_RECORDINGS + 1)))
    (file,) = api.import_files([source], tmp_path / "store.db").files
    assert isinstance(file.error, InputError)
    assert "more than 1,000 recordings" in file.error.what


@pytest.mark.parametrize(
    "second", [{"a": "3"}, {"a": "3", "b": "4", "c": "5"}, {"a": "3", "c": "4"}]
)
def test_objects_of_other_keys_are_no_rows(tmp_path: Path, second: dict[str, str]) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps([{"a": "1", "b": "2"}, second, {"a": "6", "b": "7"}]))
    found = JsonRows(path, 0)
    assert list(found) == [{"a": "1", "b": "2"}, {"a": "6", "b": "7"}]
    assert found.unread == 1


def test_keys_in_another_order_are_the_same_row(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text('[{"a": "1", "b": "2"}, {"a": "3", "b": "4"}, {"b": "6", "a": "5"}]')
    rows = [list(row.values()) for row in JsonRows(path, 0)]
    assert rows[:2] == [["1", "2"], ["3", "4"]]
    assert rows[2:] in ([], [["5", "6"]])  # an object begins where the first key does


def test_quotes_in_texts_and_keys_again_and_again(tmp_path: Path) -> None:
    """Where the keys are looked for takes no longer for each that stands there again."""
    path = tmp_path / "table.json"
    first = ", ".join(f'"k{n}": "1"' for n in range(12))
    again = ", ".join(f'"k{n % 11}": "1"' for n in range(3000))
    path.write_text(f'[{{{first}}}, {{"k0": "a "b" c", {again}}}, {{{first}}}]')
    found = JsonRows(path, 0)
    assert len(list(found)) == 2
    assert found.unread == 1


@pytest.mark.parametrize("digits", ["18446744073709551615", "9" * 5000])
def test_ids_of_more_digits_than_a_number_has_are_names(tmp_path: Path, digits: str) -> None:
    content = (FIXTURES / "nvprof_log" / "basic-gpu-trace.csv").read_text(encoding="utf-8")
    lines = content.split("\n")
    which = next(i for i, line in enumerate(lines) if "memcpy HtoD" in line)
    cells = lines[which].split(",")
    header = next(line for line in lines if line.startswith('"Start"')).split(",")
    cells[header.index('"Context"')] = f'"{digits}"'
    lines[which] = ",".join(cells)
    source = tmp_path / "log.csv"
    source.write_text("\n".join(lines))
    whole_rows, _ = _imported(_whole(tmp_path, content))
    (tmp_path / "store.db").unlink()
    rows, _ = _imported(source)
    assert rows == whole_rows


def _whole(folder: Path, content: str) -> Path:
    path = folder / "whole.csv"
    path.write_text(content)
    return path


def test_a_log_of_process_0_is_of_none(tmp_path: Path) -> None:
    content = (FIXTURES / "nvprof_log" / "basic-summary.txt").read_text(encoding="utf-8")
    (pid,) = set(re.findall(r"==(\d+)==", content))
    content = content.replace(f"=={pid}==", "==0==").replace(f"process {pid}", "process 0")
    source = _whole(tmp_path, content)
    _, notes = _imported(source)
    assert notes["process-unnamed"] == 1


@pytest.mark.parametrize("devices", [["A (1)", "B (1)", "C (0)", "D", "E"]])
def test_devices_get_the_next_free_number(devices: list[str]) -> None:
    """Each in a step or two, however many there are."""
    registry = IdRegistry(None)
    assert [registry.device(text) for text in devices] == [1, 2, 0, 3, 4]


# -- pages that name each other


def _pages(source: Path, size: int = 512) -> Path:
    """The database in small pages, with enough rows that there are pages above pages."""
    with closing(sqlite3.connect(source, isolation_level=None)) as database:
        columns = ", ".join(row[1] for row in database.execute(f"PRAGMA table_info({KERNEL})"))
        for _ in range(5):
            database.execute(
                f"INSERT INTO {KERNEL} ({columns}) SELECT {columns} FROM {KERNEL}"
            )
        database.execute(f"PRAGMA page_size = {size}")
        database.execute("VACUUM")
    return source


def _kernels(source: Path) -> tuple[Pages, Page, int]:
    """The pages of a database, the first of the kernels, and one with rows of them."""
    with closing(sqlite3.connect(source)) as database:
        found = database.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (KERNEL,))
        (number,) = found.fetchone()
    pages = Pages(source.read_bytes())
    trees = {page.number: page for page in pages.of_trees()}
    leaf = root = trees[number]
    while leaf.right is not None:
        leaf = trees[int.from_bytes(pages.content[leaf.right : leaf.right + 4], "big")]
    return pages, root, leaf.number


def _refused_both_ways(source: Path) -> list[str]:
    (file,) = api.import_files([source], source.with_name("store.db")).files
    assert isinstance(file.error, InputError)
    with pytest.raises(InputError) as caught, api.open(source) as opened:
        opened.report("kernels")
    return [str(file.error), str(caught.value)]


@pytest.mark.parametrize("child", ["itself", "a page of rows"])
def test_all_children_of_a_page_are_one(changed: Callable[..., Path], child: str) -> None:
    """There are more rows then than there are numbers between the first and the last."""
    source = _pages(changed(BASIC))
    pages, root, leaf = _kernels(source)
    all_children(pages, root, root.number if child == "itself" else leaf)
    source.write_bytes(pages.content)
    for said in _refused_both_ways(source):
        assert str(source) in said
        assert child == "itself" or "the file is damaged" in said


@pytest.mark.parametrize("table", few([KERNEL, "sqlite_schema"], 1))
def test_rows_by_powers_of_a_page_end_in_time(
    changed: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """Each of twelve new pages is all children of the one before: 57^13 pages of rows in 6 KB."""
    monkeypatch.setattr(probe, "SELECT_SECONDS", 0.1)
    source = _pages(changed(BASIC))
    pages, root, leaf = _kernels(source)
    powers(pages, 1 if table == "sqlite_schema" else root.number, leaf, 12)
    source.write_bytes(pages.content)
    for said in _refused_both_ways(source):
        assert re.search(r"a look at the file did not come to an end in \d s: it is damaged", said)
        assert "its disk is very slow" in said
        assert "xport" in said.partition("slow\n")[2]  # what to do


def test_a_cell_that_claims_more_than_there_is_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite asks for as much as the cell says, and Python calls what it gets a lack of memory."""

    class Greedy(sqlite3.Connection):
        def execute(self, *_: object) -> sqlite3.Cursor:
            raise MemoryError

    with Probe(BASIC) as opened:
        monkeypatch.setattr(opened._connections, "_connect", lambda: Greedy(":memory:"))
        with pytest.raises(InputError) as caught:
            opened.select("SELECT 1")
    assert caught.value.where == str(BASIC)
    assert "one of its cells claims" in caught.value.what


def test_more_rows_than_there_is_room_for_are_no_rows() -> None:
    part = ColumnPart(np.empty(2, np.int64))
    part.add(np.array([1, 1]))
    with pytest.raises(TooManyRowsError):
        part.add(np.array([1]))


def test_a_computed_column_hides_the_row_number(changed: Callable[..., Path]) -> None:
    """SQLite's short list of columns leaves it out."""
    source = changed(NVPROF, f"ALTER TABLE {KERNEL} ADD COLUMN rowid AS (zeroblob(9)) VIRTUAL")
    with Probe(source) as found:
        assert found.tables[KERNEL].row_id == "_rowid_"


def test_what_is_damaged_in_a_copy_is_told_of_the_file_itself(
    changed: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows the private copy that is read where a journal lies beside the file."""
    source = changed(BASIC)
    Path(f"{source}-wal").write_bytes(b"hot")

    def damaged(probes: Sequence[Probe], _: object) -> Iterator[None]:
        raise InputError("the file is damaged", where=str(probes[0].readable))
        yield

    monkeypatch.setattr(nsys_sqlite, "read", damaged)
    (file,) = api.import_files([source], source.with_name("store.db")).files
    assert isinstance(file.error, InputError)
    assert file.error.where == str(source)


def test_a_name_with_a_zero_byte_ends_no_statement() -> None:
    statement = sa.select(sa.literal("a\0b"))
    assert SqliteConnection.compiled(statement) == r"SELECT 'a\x00b' AS anon_1"


# -- many of one name


def test_labels_behind_those_that_are_taken(tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    labels = []
    for number in range(9):
        source = tmp_path / str(number) / "log.txt"
        source.parent.mkdir()
        text = (FIXTURES / "nvprof_log" / "basic-summary.txt").read_text(encoding="utf-8")
        source.write_text(f"step {number}\n{text}")
        labels.append(import_file(source, store).label)
    assert labels == ["log.txt", *(f"log.txt-{number}" for number in range(2, 10))]


# -- values of nvprof


@pytest.mark.parametrize("cell", ["0e999", "0e999s", "1e999"])
def test_a_number_of_a_thousand_digits_is_none(cell: str) -> None:
    assert measured(cell) is None
    assert spelled(cell) is None


@pytest.mark.parametrize(
    ("cell", "unit", "found"),
    [("13.000000", "us", (13_000.0, 1e-3)), ("1.5ms", "", (1.5e6, 1e5)), ("-2", "s", (-2e9, 1e9)),
     ("1e3", "ns", (1000.0, 1000.0)), ("1,234.5", "KB", (1234.5 * 1024, 102.4)), ("x", "s", None),
     ("1 parsec", "", None)],
)  # fmt: skip
def test_values_measured(cell: str, unit: str, found: tuple[float, float] | None) -> None:
    assert measured(cell, unit) == found


def test_times_of_a_trace_without_its_row_of_units_are_doubted(tmp_path: Path) -> None:
    """A quote too many in the row of units, and all times are a thousandth of what they were."""
    content = (FIXTURES / "nvprof_log" / "basic-gpu-trace.csv").read_text(encoding="utf-8")
    rows, before = _imported(_whole(tmp_path, content))
    (tmp_path / "store.db").unlink()
    assert "number-ambiguous" not in before
    again, notes = _imported(_whole(tmp_path, content.replace("\nus,us,", '\n"us,us,')))
    assert again == rows
    assert notes["number-ambiguous"] == sum(rows[table] for table in ("kernel", "memcpy", "memset"))
