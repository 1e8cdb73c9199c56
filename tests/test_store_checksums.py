"""A store that is no longer what was imported is noticed by `info --check` and by imports."""

from __future__ import annotations

import random
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import repeat_export
from conftest import FIXTURES, NSYS, examples, few, import_file
from golden_cases import run
from hypothesis import given
from hypothesis import strategies as st
from ranked_files import of_rank
from test_page_reader import Table, table
from test_store_older import older

from nsysconv import api
from nsysconv.errors import InputError, NsysconvError, UsageError
from nsysconv.store import checksums
from nsysconv.store.location import writing
from nsysconv.store.sqlite import connection as connecting
from nsysconv.store.sqlite import page_reader
from nsysconv.store.sqlite.connection import PAGE_SIZE
from nsysconv.timeline.plausibility import examine

BASIC, OTHER = NSYS / "basic-3.25.0.sqlite", NSYS / "graphs-3.24.0.sqlite"
TRACE = FIXTURES / "kineto" / "training-2.13.json"
REPORTS = ["overview", "kernels", "api_vs_kernel", "ranges", "operators", "idle_summary"]
FLIPPED = [(bits, seed) for seed in range(100) for bits in (1, 5, 30)]

Check = list[tuple[str | None, str | None, str]]


def checked(store: Path) -> Check:
    """What the check finds: profile, table, result."""
    return [(row["profile"], row["table"], row["result"]) for row in api.check(store).rows()]


def differing(store: Path) -> set[tuple[str | None, str | None]]:
    """The profiles and tables that are not what was imported."""
    return {found[:2] for found in checked(store) if found[2] == "differs"}


@contextmanager
def changing(store: Path) -> Iterator[sqlite3.Connection]:
    """Another program's connection to a store."""
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        yield connection


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A store of three small profiles, and one of two with tables of many pages."""
    folder = tmp_path_factory.mktemp("stores")
    small, large = folder / "small.db", folder / "large.db"
    api.import_files([BASIC, OTHER, TRACE], small)
    for number in (1, 2):
        source = folder / f"rank{number}.sqlite"
        repeat_export.generate(source, BASIC, 3_000 + 8 * number)
        api.import_files([source], large)
    return [small, large]


@pytest.fixture
def store(stores: list[Path], tmp_path: Path) -> Path:
    """A copy of the store of small profiles."""
    return Path(shutil.copy(stores[0], tmp_path / "store.db"))


@pytest.fixture
def large(stores: list[Path], tmp_path: Path) -> Path:
    """A copy of the store of large profiles."""
    return Path(shutil.copy(stores[1], tmp_path / "large.db"))


def answers(store: Path) -> list[Any]:
    """What reports say of all profiles, or that they refuse to."""
    found: list[Any] = []
    for profile in api.runs(store).rows():
        with api.open(f"{store}@{profile['id']}") as opened:
            found += [report.rows() for report in opened.reports(REPORTS, limit=0) if report.table]
    return found


# -- what is found


@pytest.mark.parametrize(("bits", "seed"), few(FLIPPED, 3))
def test_flipped_bits_are_found_or_change_no_answer(
    stores: list[Path], tmp_path: Path, bits: int, seed: int
) -> None:
    chosen, whole = random.Random(f"{bits} {seed}"), stores[seed % 2]
    content = bytearray(whole.read_bytes())
    for _ in range(bits):
        content[chosen.randrange(len(content))] ^= 1 << chosen.randrange(8)
    damaged = tmp_path / "damaged.db"
    damaged.write_bytes(content)
    try:
        if not checked(damaged):
            assert answers(damaged) == answers(whole)
    except NsysconvError as error:
        assert error.exit_status in (2, 3)


CHANGES = {
    "UPDATE kernel SET dur_ns = dur_ns + 1 WHERE id = 3": ("basic-3.25.0", "kernel"),
    "DELETE FROM api_call WHERE id = 5": ("basic-3.25.0", "api_call"),
    "UPDATE name SET text = text || 'x' WHERE profile_id = 2 AND id = (SELECT min(id) FROM name WHERE "
    "profile_id = 2)": ("graphs-3.24.0", "name"),
    "UPDATE profile SET path = '' WHERE id = 2": ("graphs-3.24.0", "profile"),
    "UPDATE run SET label = 'x' WHERE id = 3": ("training-2.13", "run"),
    "UPDATE operator SET name_id = null WHERE id = 7": ("training-2.13", "operator"),
    "UPDATE note SET count = 0 WHERE profile_id = 3": ("training-2.13", "note"),
    "UPDATE extent SET last_id = last_id - 1 WHERE profile_id = 1 AND table_name = 'kernel'": (
        "basic-3.25.0", "extent"),
    "DELETE FROM checksum WHERE profile_id = 1 AND table_name = 'kernel'": ("basic-3.25.0", "kernel"),
    "INSERT INTO profile_tag VALUES (2, 'a', 'b')": ("graphs-3.24.0", "profile_tag"),
    "UPDATE device SET name = 1 WHERE profile_id = 2": ("graphs-3.24.0", "device"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_by_another_program_is_found_where_it_is(store: Path, change: str) -> None:
    with changing(store) as connection:
        assert connection.execute(change).rowcount >= 1
    also = {("basic-3.25.0", "kernel")} if change.startswith("UPDATE extent") else set()
    assert differing(store) == {CHANGES[change], *also}


def test_a_profile_that_was_deleted_is_missed(store: Path) -> None:
    with changing(store) as connection:
        connection.execute("DELETE FROM profile WHERE id = 2")
    assert ("profile 2", "profile") in differing(store)


def pages_of(store: Path, table: str) -> list[int]:
    """The numbers of a table's leaf pages, as SQLite says them."""
    size = PAGE_SIZE
    content = store.read_bytes()
    with changing(store) as connection:
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,))
    level = [root]
    while content[(level[0] - 1) * size] == 5:
        below: list[int] = []
        for number in level:
            page = content[(number - 1) * size : number * size]
            count = int.from_bytes(page[3:5], "big")
            places = [int.from_bytes(page[12 + 2 * n : 14 + 2 * n], "big") for n in range(count)]
            below += [int.from_bytes(page[place : place + 4], "big") for place in places]
            below.append(int.from_bytes(page[8:12], "big"))
        level = below
    return level


def with_page(store: Path, number: int, content: bytes) -> None:
    with store.open("r+b") as file:
        file.seek((number - 1) * PAGE_SIZE)
        file.write(content)


@pytest.mark.parametrize("content", [bytes(PAGE_SIZE), b"\xff" * PAGE_SIZE], ids=["zeros", "ones"])
def test_a_page_overwritten_costs_the_profile_on_it_alone(large: Path, content: bytes) -> None:
    with_page(large, pages_of(large, "kernel")[1], content)
    with pytest.raises(InputError, match=r"damaged: kernel of rank1: not") as error:
        checksums.require_sound(large)
    assert "Import the original files again" in error.value.hint
    assert run("info", large, "--check", cwd=large.parent).status == 3


def test_a_page_of_another_store_is_found(large: Path, tmp_path: Path) -> None:
    source, other = tmp_path / "other.sqlite", tmp_path / "other.db"
    repeat_export.generate(source, BASIC, 3_024)
    api.import_files([source], other)
    page = pages_of(large, "api_call")[-1]
    theirs = pages_of(other, "api_call")[-1]
    with other.open("rb") as file:
        file.seek((theirs - 1) * PAGE_SIZE)
        with_page(large, page, file.read(PAGE_SIZE))
    with pytest.raises(InputError, match="damaged: api_call of rank2"):
        checksums.require_sound(large)


@pytest.mark.parametrize("part", [0.3, 0.6, 0.95])
def test_a_store_that_was_cut_is_found(large: Path, part: float) -> None:
    with large.open("r+b") as file:
        file.truncate(int(large.stat().st_size * part))
    outcome = run("info", large, "--check", cwd=large.parent)
    assert outcome.status == 3
    assert "cut off" in outcome.err


def test_a_tree_in_a_circle_ends(large: Path) -> None:
    """The root of a table refers to itself, and to a page outside of the file."""
    with changing(large) as connection:
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'kernel'")
    content = large.read_bytes()[(root - 1) * PAGE_SIZE : root * PAGE_SIZE]
    for number in (root, 1 << 31):
        with_page(large, root, content[:8] + number.to_bytes(4, "big") + content[12:])
        with pytest.raises(InputError, match="kernel of rank2"):
            checksums.require_sound(large)
    with_page(large, root, content)
    checksums.require_sound(large)


def test_a_label_that_is_no_text_any_more_is_shown(store: Path) -> None:
    with changing(store) as connection:
        connection.execute("UPDATE profile SET label = CAST(x'ff61' AS TEXT) WHERE id = 2")
    assert differing(store) == {("\ufffda", "profile")}
    assert run("runs", store, cwd=store.parent).status == 0


@pytest.mark.parametrize("version", few(range(2, 8), 3))
def test_a_wrong_version_makes_no_older_store(store: Path, version: int) -> None:
    content = bytearray(store.read_bytes())
    content[63] = version
    store.write_bytes(content)
    with pytest.raises(InputError, match="the store is damaged: it has a table that version"):
        api.runs(store)


# -- what is not found, because nothing is wrong


def test_what_is_well_is_said_to_be(stores: list[Path], tmp_path: Path) -> None:
    for store in stores:
        outcome = run("info", store, "--check", cwd=tmp_path)
        assert (outcome.status, outcome.err) == (0, "")
        assert "All tables hold what was imported" in outcome.out
        assert checked(store) == []


@pytest.mark.parametrize("size", [512, 4_096, PAGE_SIZE, 65_536])
def test_a_store_is_laid_out_anew(large: Path, size: int) -> None:
    with changing(large) as connection:
        connection.execute(f"PRAGMA page_size={size}")
        connection.execute("VACUUM")
    assert checked(large) == []


@pytest.mark.parametrize("number", [1, 2, 3])
def test_what_is_left_when_a_profile_was_replaced(store: Path, number: int, tmp_path: Path) -> None:
    source = [BASIC, OTHER, TRACE][number - 1]
    api.import_files([source], store, replace=True, tags={"again": "yes"})
    assert checked(store) == []
    with changing(store) as connection:
        connection.execute("VACUUM")
    assert checked(store) == []


def test_a_run_that_gets_another_name_with_its_second_profile(tmp_path: Path) -> None:
    store = tmp_path / "job.db"
    for rank in range(3):
        api.import_files([of_rank(tmp_path / f"rank{rank}.sqlite", rank, 3, 77)], store)
        assert checked(store) == []
    assert {row["run"] for row in api.runs(store).rows()} == {"slurm-77.0"}


# -- without checksums


def test_an_older_store_and_a_killed_import_have_none(store: Path, tmp_path: Path) -> None:
    outcome = run("info", older(store, tmp_path / "old.db", 6), "--check", cwd=tmp_path)
    assert outcome.status == 4
    assert "not recorded" in outcome.out
    import_file(NSYS / "basic-2021.sqlite", store)  # what a killed import leaves
    assert checked(store) == [("basic-2021.sqlite", None, "not recorded")]
    assert run("info", store, "--check", cwd=tmp_path).status == 4
    assert len(api.runs(store).rows()) == 4
    before = store.read_bytes()
    api.import_files([NSYS / "basic-3.1.2.sqlite"], store)
    assert checked(store) == []
    assert store.read_bytes() != before


def test_what_is_no_store_is_refused(store: Path, tmp_path: Path) -> None:
    for target in (BASIC, f"{store}@1", tmp_path):
        outcome = run("info", target, "--check", cwd=tmp_path)
        assert outcome.status == 2
        assert "store" in outcome.err.lower()
    assert run("info", "gone.db", "--check", cwd=tmp_path).status == 3


def test_a_store_with_a_write_ahead_log_is_not_checked_and_added_to(store: Path) -> None:
    with changing(store) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    with pytest.raises(UsageError, match="write-ahead log"):
        api.check(store)
    said: list[str] = []
    assert not api.import_files([NSYS / "basic-2021.sqlite"], store, say=said.append).errors
    assert "no checksums were kept (its pages cannot be read: it has a write-ahead log" in said[-1]
    with changing(store) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    assert checked(store) == [("basic-2021", None, "not recorded")]


# -- imports into a damaged store, and of one


@pytest.fixture
def damaged(store: Path) -> Path:
    with changing(store) as connection:
        connection.execute("UPDATE api_call SET dur_ns = 7 WHERE id = 2")
    return store


def test_nothing_is_added_to_a_damaged_store(damaged: Path) -> None:
    before = damaged.read_bytes()
    outcome = run("import", NSYS / "basic-2021.sqlite", "-o", damaged, cwd=damaged.parent)
    assert outcome.status == 3
    assert "the store is damaged: api_call of basic-3.25.0: not what was imported" in outcome.err
    assert damaged.read_bytes() == before


def test_a_damaged_store_is_not_copied_and_others_are(
    damaged: Path, stores: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where fewer files of stores may be open than are named."""
    monkeypatch.setattr(connecting, "MOST_SHARED_FILES", 1)
    new, large = tmp_path / "new.db", stores[1]
    result = api.import_files([large, damaged], new)
    (error,) = result.errors
    assert str(damaged) in error.where
    assert "api_call of basic-3.25.0" in error.what
    assert len(api.runs(new).rows()) == 2


def test_who_only_looks_keeps_no_writer_waiting(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what another import has changed meanwhile is no damage."""
    kept = checksums._kept

    def replaced_meanwhile(connection: Any) -> Any:
        monkeypatch.setattr(checksums, "_kept", kept)
        before = kept(connection)
        assert not api.import_files([BASIC], store, replace=True).errors
        return before

    monkeypatch.setattr(checksums, "_kept", replaced_meanwhile)
    assert checked(store) == []


def test_checksums_are_kept_where_many_stores_have_been_open(tmp_path: Path) -> None:
    """Files of stores stay open as long as one of them is; reports read 64 of them at most."""
    connecting.hold_descriptors()
    try:
        for number in range(65):
            other = tmp_path / str(number)
            other.touch()
            last = connecting.shared_descriptor(other)
        assert last is None
        store = tmp_path / "job.db"
        assert not api.import_files([BASIC], store).errors
        assert checked(store) == []
        assert not api.import_files([NSYS / "graphs-3.24.0.sqlite"], store).errors
        assert checked(store) == []
        with changing(store) as connection:
            connection.execute("UPDATE kernel SET dur_ns = 7 WHERE id = 1")
        assert checked(store) == [("basic-3.25.0", "kernel", "differs")]
    finally:
        connecting.release_descriptors()


# -- the checksum of rows on pages

cells = st.one_of(st.none(), st.integers(-(2**40), 2**40), st.text("abc", max_size=40),
                  st.integers(0, 3).map(lambda n: "x" * (n * 700)))  # fmt: skip
rows_of_table = st.lists(st.tuples(cells, cells), min_size=1, max_size=120)


def sum_of(made: Table, first: int, last: int) -> tuple[int, int]:
    content, root, _ = made
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        return page_reader.checksums(file.fileno(), root, [(first, last)])[0]


@examples(100)
@given(
    rows=rows_of_table, sizes=st.tuples(*[st.sampled_from([512, 1024, 4096, 65_536])] * 2),
    cut=st.integers(1, 120), change=st.integers(0, 119), deleted=st.sets(st.integers(200, 260)),
)  # fmt: skip
def test_a_checksum_is_one_of_rows_and_not_of_pages(
    rows: list[tuple[Any, Any]], sizes: tuple[int, int], cut: int, change: int, deleted: set[int]
) -> None:
    numbered = [(n, *row) for n, row in enumerate(rows, 1)]
    made = table(sizes[0], "id INTEGER PRIMARY KEY, a, b", numbered)
    last = min(cut, len(rows))
    # Among others, in another order, some of which are deleted.
    others = [(n, n, "y" * 50) for n in range(200, 261)]
    with tempfile.TemporaryDirectory() as folder, changing(Path(folder) / "t.db") as connection:
        connection.execute(f"PRAGMA page_size={sizes[1]}")
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, a, b)")
        mixed = [*numbered, *others]
        random.Random(0).shuffle(mixed)
        connection.executemany("INSERT INTO t VALUES (?, 'first', ?)", [row[::2] for row in mixed])
        connection.executemany("DELETE FROM t WHERE id = ?", [(n,) for n in deleted])
        connection.executemany("UPDATE t SET a = ? WHERE id = ?", [row[1::-1] for row in mixed])
        ((root,),) = connection.execute("SELECT rootpage FROM sqlite_schema").fetchall()
        again = connection.serialize(), root, {}
        assert sum_of(again, 1, last) == sum_of(made, 1, last)
        assert sum_of(again, last + 1, 150)[0] == len(rows) - last
        changed = change % last + 1
        connection.execute("UPDATE t SET b = coalesce(b, 0) || '!' WHERE id = ?", (changed,))
        assert sum_of((connection.serialize(), root, {}), 1, last) != sum_of(made, 1, last)


@pytest.mark.parametrize("seed", few(range(300), 8))
def test_every_flipped_bit_of_a_leaf_in_use_changes_it(seed: int) -> None:
    """Or the pages are refused: never an endless search, and never another error."""
    chosen = random.Random(seed)
    rows = [(n, n * 7, "z" * chosen.randrange(900)) for n in range(1, 80)]
    content, root, _ = made = table(512, "id INTEGER PRIMARY KEY, a, b", rows)
    before, damaged = sum_of(made, 1, 79), bytearray(content)
    place = chosen.randrange(512, len(content))
    damaged[place] ^= 1 << chosen.randrange(8)
    try:
        after = sum_of((bytes(damaged), root, {}), 1, 79)
    except page_reader.UnreadableError:
        return
    if after != before:
        return
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(bytes(damaged))
        found = connection.execute("SELECT * FROM t ORDER BY id").fetchall()
    assert found == rows


def test_an_examination_that_comes_after_another_import_s_checksums_is_no_damage(tmp_path: Path) -> None:
    """Between a profile's rows and its examination another import may keep the checksums of all."""
    path = tmp_path / "job.db"
    profile = import_file(NSYS / "basic-3.25.0.sqlite", path)
    with writing(path) as another:
        assert another.keep_checksums() == ""
    with writing(path) as writer:
        writer.examine(examine, [profile.profile_id])
        assert writer.keep_checksums() == ""
    assert api.check(path).rows() == []
