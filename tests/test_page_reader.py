"""Whole numbers out of a file's pages: they are what SQLite says, or SQLite is to be asked."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import EVENTS, NSYS, by_turns, examples, import_file, integer_columns
from hypothesis import given
from hypothesis import strategies as st
from pytest import MonkeyPatch
from test_store_locks import TRY_TO_WRITE, another_process_writes

from nsysconv import schema
from nsysconv.errors import NsysconvError
from nsysconv.report import MISSING
from nsysconv.store.location import reading
from nsysconv.store.sqlite import connection, page_reader
from nsysconv.store.sqlite import connection as connecting
from nsysconv.store.sqlite.connection import (
    PAGE_SIZE,
    DamagedError,
    SqliteConnection,
    open_for_reading,
)
from nsysconv.store.sqlite.page_reader import ID
from nsysconv.store.sqlite.page_reader.pages import Pages, UnreadableError

BATCH_BYTES = "nsysconv.store.sqlite.page_reader.pages.BATCH_BYTES"
LOWEST, HIGHEST = -(2**63), 2**63 - 1
WHOLE = (LOWEST, HIGHEST)
PAGE_SIZES = [2**n for n in range(9, 17)]
# The least and the greatest of every length in bytes, and what is beside them.
EDGES = sorted({0, 1, 2, -1, LOWEST, LOWEST + 1, HIGHEST, *(
    sign * 2 ** (8 * size - 1) + beside
    for size in (1, 2, 3, 4, 6, 7) for sign in (-1, 1) for beside in (-1, 0, 1))})  # fmt: skip
# Ids at the edges of every length of a varint: 7 bits a byte; the negative ones take nine.
AT_VARINTS = sorted({*range(-5, 6), LOWEST + 1, LOWEST + 2, HIGHEST - 1, HIGHEST, *(
    2 ** (7 * size) + beside for size in range(1, 9) for beside in range(-3, 3))})  # fmt: skip
Rows = dict[int, tuple[Any, ...]]


Table = tuple[bytes, int, Rows]
"""What SQLite has written: the file, the root of a table's tree, and its rows by their ids."""


def taken(connection: sqlite3.Connection) -> Table:
    run = connection.execute
    assert run("PRAGMA integrity_check").fetchone() == ("ok",)
    ((root,),) = run("SELECT rootpage FROM sqlite_schema WHERE name = 't'")
    found = {row[0]: row[1:] for row in run("SELECT rowid, * FROM t ORDER BY rowid")}
    return connection.serialize(), root, found


def new_database(size: int, reserved: int = 0, auto_vacuum: int = 0) -> sqlite3.Connection:
    """An empty database in memory; so many bytes at the end of each page are not SQLite's."""
    with closing(sqlite3.connect(":memory:")) as blank:
        for setting in (f"page_size={size}", f"auto_vacuum={auto_vacuum}", "user_version=1"):
            blank.execute(f"PRAGMA {setting}")
        content = bytearray(blank.serialize())
    content[20] = reserved
    content[105:107] = ((size - reserved) % 65_536).to_bytes(2, "big")  # where cells begin
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(bytes(content))
    return connection


def table(size: int, declared: str, rows: Sequence[Sequence[Any]]) -> Table:
    with closing(new_database(size)) as connection:
        connection.execute(f"CREATE TABLE t ({declared})")
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(rows[0]))})", rows)
        return taken(connection)


@contextmanager
def opened(content: bytes) -> Iterator[Pages]:
    with tempfile.TemporaryFile() as file:
        file.write(content)
        file.flush()
        yield Pages(file.fileno())


def read(
    content: bytes, root: int, places: Sequence[int], first: int = LOWEST, last: int = HIGHEST
) -> tuple[list[list[int]], bool]:
    """The columns, and whether all of the rows came."""
    columns: list[list[int]] = [[] for _ in places]
    before = first - 1
    with opened(content) as file:
        try:
            for following, (*values, ids) in file.rows(root, [*places, ID], first, last):
                assert before < ids[0] <= ids[-1] == following - 1 <= last
                assert len(ids) < following - before  # no more than there are ids
                before = following - 1
                for column, part in zip(columns, values, strict=True):
                    assert len(part) == len(ids)
                    column += part.tolist()
        except UnreadableError:
            return columns, False
    return columns, True


def expected(
    rows: Rows, places: Sequence[int], first: int = LOWEST, last: int = HIGHEST
) -> list[list[Any]]:
    within = [(id_, row) for id_, row in rows.items() if first <= id_ <= last]
    return [[id_ if place == ID else MISSING if row[place] is None else row[place]
             for id_, row in within] for place in places]  # fmt: skip


# -- any table


def serial(value: Any) -> tuple[int, int]:
    """A value's serial type and its length in bytes, as the file's format has them."""
    if isinstance(value, str | bytes):
        size = len(value.encode() if isinstance(value, str) else value)
        return 12 + 2 * size + isinstance(value, str), size
    if value is None or isinstance(value, float):
        return (0, 0) if value is None else (7, 8)
    lengths = (1, 2, 3, 4, 6, 8)
    kind = next(n for n, size in enumerate(lengths) if abs(2 * value + 1) < 2 ** (8 * size))
    return (8 + value, 0) if value in (0, 1) else (kind + 1, lengths[kind])


def sizes(values: Sequence[Any]) -> tuple[int, int]:
    """The bytes of a record's header and of all of it."""
    kinds = [serial(value) for value in values]
    header = sum(max(1, (kind.bit_length() + 6) // 7) for kind, _ in kinds) + 1
    header += header >= 128
    return header, header + sum(size for _, size in kinds)


def is_plain(stored: Sequence[Any], places: Sequence[int], usable: int) -> bool:
    """Whether a record is one that numpy takes apart."""
    header, size = sizes(stored)
    wanted = [place for place in places if place != ID]
    up_to = max(wanted, default=-1) + 1
    return (
        size <= min(usable - 35, 2**14 - 1) and header < 128 and up_to <= len(stored)
        and all(serial(value)[0] < 2**14 for value in stored[:up_to])
        and all(isinstance(stored[n], int | None) and stored[n] != MISSING for n in wanted)
    )  # fmt: skip


RECIPES = st.builds(
    SimpleNamespace,
    size=st.sampled_from([512, 512, 512, *PAGE_SIZES]),  # small ones make high trees
    reserved=st.sampled_from([0, 0, 1, 8, 32]),
    auto_vacuum=st.sampled_from([0, 0, 1, 2]),
    columns=st.lists(st.sampled_from(["small", "edges", "wide", "null", "one", "other"]),
                     min_size=1, max_size=19),
    count=st.sampled_from([1200, 1800, 300, 40, 1, 0]),
    begin=st.sampled_from([1, *AT_VARINTS]),
    gap=st.sampled_from([1, 1, 3, 5000]),
    in_order=st.booleans(),
    odd=st.sampled_from([[], [], [2.5], ["word"], ["x" * 58, bytes(58), bytes(300)],
                         [bytes(600), bytes(16_400), bytes(70_000)]]),
    changes=st.lists(st.sampled_from(["delete", "update", "add", "vacuum"]), unique=True),
    beside=st.booleans(),  # another table grows between
    batch=st.sampled_from([8192, 1, 1 << 19]),
    draw=st.integers(0, 2**32).map(random.Random),
)  # fmt: skip


def value_of(style: str, draw: random.Random) -> Any:
    size = draw.choice([0, 1, 20, 56, 57, 58, 90])
    return draw.choice({
        "small": [5, 7, 99, draw.randrange(-100, 400)], "edges": EDGES, "one": [1],
        "wide": [draw.randrange(LOWEST, HIGHEST)], "null": [None, None, None, 0, 1, 9],
        "other": [None, 1.5, -7, "é" * (size // 2), "x" * size, bytes(size)],
    }[style])  # fmt: skip


def cooked(recipe: Any) -> tuple[Table, set[int]]:
    """The table, and the rows that lack the column that was added."""
    draw, width = recipe.draw, len(recipe.columns)
    plain = [[value_of(style, draw) for style in recipe.columns] for _ in range(40)]
    reach = recipe.count * recipe.gap
    begin = min(max(recipe.begin - draw.randrange(reach + 1), LOWEST + 1), HIGHEST + 1 - reach)
    ids, short = sorted(draw.sample(range(begin, begin + reach), recipe.count)), set[int]()
    with closing(new_database(recipe.size, recipe.reserved, recipe.auto_vacuum)) as connection:
        run, names = connection.execute, [f"c{n}" for n in range(width)]

        def put(ids: Sequence[int]) -> None:
            for id_ in ids:
                row = [*draw.choice(plain)]
                if recipe.odd and draw.random() < 2 / recipe.count:
                    row[draw.randrange(width)] = draw.choice(recipe.odd)
                run(f"INSERT OR REPLACE INTO t (rowid, {', '.join(names)}) "
                    f"VALUES (?{', ?' * width})", (id_, *row))  # fmt: skip
                if recipe.beside and draw.random() < 0.01:
                    run("INSERT INTO beside VALUES (zeroblob(?))", (draw.randrange(3000),))

        whole = (f"{n} INTEGER" if style != "other" else n
                 for n, style in zip(names, recipe.columns, strict=True))  # fmt: skip
        run(f"CREATE TABLE t ({', '.join(whole)})")
        run("CREATE TABLE beside (a)")
        put(ids if recipe.in_order else draw.sample(ids, len(ids)))
        for change in recipe.changes:
            some = draw.sample(ids, len(ids) // 3)
            if change == "vacuum":
                order = [id_ for (id_,) in run("SELECT rowid FROM t ORDER BY rowid")]
                run("VACUUM")  # which may number rows anew
                anew = run("SELECT rowid FROM t ORDER BY rowid").fetchall()
                short = {id_ for old, (id_,) in zip(order, anew, strict=True) if old in short}
            elif change == "delete":
                connection.executemany("DELETE FROM t WHERE rowid = ?", ((id_,) for id_ in some))
            elif change == "update":
                put(some)
                short -= {*some}
            else:
                short = {id_ for (id_,) in run("SELECT rowid FROM t")}
                run("ALTER TABLE t ADD COLUMN added INTEGER DEFAULT 5")
        return taken(connection), short


@examples(220)
@given(RECIPES)
def test_rows_are_sqlites_or_sqlite_is_asked(recipe: Any) -> None:
    """Asked where, and only where, a row is not plain: what came until then is right."""
    (content, root, rows), short = cooked(recipe)
    draw, width = recipe.draw, len(recipe.columns)
    whole = [n for n, style in enumerate(recipe.columns) if style != "other"]
    if "add" in recipe.changes and draw.random() < 0.3:
        whole.append(width)
    places = [*draw.sample(whole, draw.randrange(len(whole) + 1)), ID]
    odd = [id_ for id_, row in rows.items() if not is_plain(
        row[:width] if id_ in short else row, places, recipe.size - recipe.reserved)]  # fmt: skip
    near = [id_ + d for id_ in draw.sample([*rows], min(4, len(rows))) for d in (-1, 0, 1)]
    ends = [end for end in (*near, 0, 1, HIGHEST) if LOWEST < end <= HIGHEST]
    with MonkeyPatch.context() as patch:
        patch.setattr(BATCH_BYTES, recipe.batch)
        for first, last in (WHOLE, *(sorted(draw.choices(ends, k=2)) for _ in range(4))):
            found, came = read(content, root, places, first, last)
            wanted = expected(rows, places, first, last)
            reached = [id_ for id_ in odd if first <= id_ <= last]
            if came:
                assert (found, reached) == (wanted, [])
            else:
                # Beside what is wanted, on the same pages, there may be an odd row, too.
                assert odd
                assert found == [column[: len(found[0])] for column in wanted]
                assert not reached or len(found[0]) <= wanted[-1].index(reached[0])


# -- what is plain, and what is not


def events(size: int, *, beside: bool = False) -> Table:
    """A table of events, as an import writes it."""
    with closing(new_database(size)) as connection:
        run = connection.execute
        run("CREATE TABLE t (id INTEGER PRIMARY KEY, start INTEGER, dur INTEGER, name TEXT, "
            "stream INTEGER, device INTEGER)")  # fmt: skip
        run("CREATE TABLE beside (a)")
        for i in range(1, 3001):
            stream = None if i % 9 == 0 else i % 3
            row = (i, 10**9 + 997 * i, i * i % 70_000, "n" * (i % 58), stream, 0)
            run("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", row)
            if beside and i % 50 == 0:
                run("INSERT INTO beside VALUES (zeroblob(2000))")
        return taken(connection)


@pytest.mark.parametrize(("size", "beside"), by_turns(PAGE_SIZES, [False, True], 2))
def test_events_are_read_without_sqlite(size: int, beside: bool) -> None:
    content, root, rows = events(size, beside=beside)
    for places in ([ID, 1, 2, 4, 5], [5, 1], [4], []):
        assert read(content, root, places) == (expected(rows, places), True)
    with opened(content) as file:  # null needs eight bytes
        types = {tuple(c.itemsize for c in batch) for _, batch in file.rows(root, [1, 2, 4], *WHOLE)}
    assert types == {(4, 4, 8)}


def test_ranges_begin_and_end_anywhere_on_a_page(monkeypatch: MonkeyPatch) -> None:
    monkeypatch.setattr(BATCH_BYTES, 1)
    content, root, rows = events(512)
    with opened(content) as file:
        ends = [following - 1 for following, _ in file.rows(root, [1], *WHOLE)]
    assert len(ends) > 200  # on pages below several others
    before, reads = os.preadv, []
    monkeypatch.setattr(os, "preadv", lambda *about: reads.append(1) or before(*about))
    for end in ends[::19]:
        for first, last in ((end, end), (end, end + 1), (end + 1, end + 1), (end - 40, end + 40)):
            reads.clear()
            found = expected(rows, [ID, 1], first, last)
            assert read(content, root, [ID, 1], first, last) == (found, True)
            assert len(reads) == 1 + bisect_left(ends, last) - bisect_left(ends, first)


def read_as_told(size: int, rows: Sequence[Sequence[Any]], places: Sequence[int]) -> bool:
    declared = ", ".join(f"c{n}" for n in range(len(rows[0])))
    content, root, written = table(size, declared, rows)
    whole = all(is_plain(row, places, size) for row in rows)
    found = expected(written, places) if whole else [[] for _ in places]
    assert read(content, root, places) == (found, whole)
    return whole


def test_ids_of_any_length_stand_behind_sizes_of_any_length() -> None:
    for begin in (1, *(2**bits for bits in range(7, 63, 7)), -9):
        for size in (10, 200, 20_000):
            with closing(new_database(65_536)) as connection:
                connection.execute("CREATE TABLE t (a INTEGER, b BLOB)")
                connection.executemany(
                    "INSERT INTO t (rowid, a, b) VALUES (?, ?, ?)",
                    [(begin + n, 7 + n, bytes(size)) for n in range(3)],
                )
                content, root, rows = taken(connection)
            whole = size < 2**14
            found = expected(rows, [0, ID]) if whole else [[], []]
            assert read(content, root, [0, ID]) == (found, whole)


def test_rows_are_read_that_stand_on_one_page() -> None:
    """Until their length takes three bytes, or their header 128."""
    for size, most in ((512, 477), (4096, 4061), (32_768, 2**14), (65_536, 2**14)):
        lengths = (*range(120, 130), *range(most - 12, most + 2))
        assert {read_as_told(size, [(7, bytes(length))], [0]) for length in lengths} == {True, False}
    for count in (125, 126, 127, 140):
        values = [EDGES[1 + n % len(EDGES[1:])] for n in range(count)]
        for places in (range(count), [0], [5]):
            assert read_as_told(2048, [values], places) is (count < 127)
    # The number stands on another page, and where it would be here, another row.
    assert not read_as_told(512, [("x" * 48,) * 9 + (5,), (*("x" * 52,) * 8, "x" * 50, 7)], [9])


@pytest.mark.parametrize("beside", [None, 0, 300, 2**40])
def test_every_length_beside_another(beside: int | None) -> None:
    """But for the one number that stands for null."""
    for value in EDGES:
        assert read_as_told(512, [(value, 5), (beside, 6)], [0, 1]) is (value != MISSING)


def test_what_is_no_table_of_rows_is_left_to_sqlite() -> None:
    with closing(new_database(512)) as connection:
        run = connection.execute
        run("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER) WITHOUT ROWID")
        run("CREATE TABLE other (a INTEGER)")
        run("CREATE INDEX by_a ON other (a)")
        for name in ("t (a)", "other"):
            connection.executemany(f"INSERT INTO {name} VALUES (?)", [(n,) for n in range(500)])
        run("DELETE FROM other")  # whose pages are free now
        roots = run("SELECT rootpage FROM sqlite_schema WHERE name <> 'other'").fetchall()
        content = connection.serialize()
    count = len(content) // 512
    for wrong in (*sum(roots, ()), *range(count - 5, count + 2), -1, 0, 1, 2**31, 2**40):
        assert read(content, wrong, [0]) == ([[]], False)


@pytest.mark.parametrize(
    ("at", "new"),
    [(0, b"s"), (16, b"\0\0"), (16, b"\1\0"), (16, b"\2\1"), (16, b"\xff\xff"), (19, b"\2"),
     (19, b"\0"), (20, b"\x21")],  # magic, size of pages, write-ahead log, 479 bytes a page
)  # fmt: skip
def test_files_of_other_kinds_are_left_to_sqlite(at: int, new: bytes) -> None:
    content = events(512)[0]
    with pytest.raises(UnreadableError), opened(content[:at] + new + content[at + len(new) :]):
        pass


# -- damage


def test_a_page_of_another_kind_is_left_to_sqlite() -> None:
    content, root, _ = events(512)
    for leaf in tree(content, 512, root)[-1:2:-99]:
        at = (leaf - 1) * 512
        for kind in (0, 2, 5, 10):
            assert not read(content[:at] + bytes([kind]) + content[at + 1 :], root, [1])[1]


def tree(content: bytes, size: int, root: int) -> list[int]:
    """The pages of a table."""
    page = content[(root - 1) * size : root * size]
    if page[0] == 13:
        return [root]
    cells = np.frombuffer(page, ">u2", int.from_bytes(page[3:5], "big"), 12).tolist()
    children = [int.from_bytes(page[at : at + 4], "big") for at in (*cells, 8)]
    return [root, *(number for child in children for number in tree(content, size, child))]


def hurt(content: bytearray, size: int, own: Sequence[int], draw: random.Random) -> None:
    """Changes something about a table's pages."""
    inner = [number for number in own if content[(number - 1) * size] == 5]
    numbers = draw.choice(draw.choice([own, inner])), draw.choice(own)
    one, other = (slice((n - 1) * size, n * size) for n in numbers)
    kind = draw.choice(["bytes", "header", "swap", "copy", "cut", "child"])
    if kind == "bytes":
        for at in draw.choices(range(one.start, one.stop), k=draw.choice([1, 5, 200])):
            content[at] = draw.choice([0, 1, 127, 128, 255])
    elif kind == "header":
        content[one.start + draw.randrange(12)] = draw.randrange(256)
    elif kind == "swap":
        content[one], content[other] = content[other], content[one]
    elif kind == "copy":
        content[one] = content[other]
    elif kind == "cut":
        del content[draw.randrange(size, len(content)) :]
    else:
        page = (draw.choice(inner) - 1) * size
        at = page + draw.choice([8, int.from_bytes(content[page + 12 : page + 14], "big")])
        content[at : at + 4] = draw.choice([0, 1, *inner, *own]).to_bytes(4, "big")


WHOLE_FILES = {size: events(size, beside=True) for size in (512, 4096)}


@examples(500)
@given(st.integers(0, 2**32), st.sampled_from([512, 4096]), st.sampled_from([8192, 1 << 19]))
def test_damage_ends_in_an_end(seed: int, size: int, batch: int) -> None:
    """`read` asserts that there are no more rows than ids."""
    content, root, _ = WHOLE_FILES[size]
    draw, damaged, reads = random.Random(seed), bytearray(content), []
    hurt(damaged, size, tree(content, size, root), draw)
    with MonkeyPatch.context() as patch:
        patch.setattr(BATCH_BYTES, batch)
        for name in ("pread", "preadv"):
            before = getattr(os, name)
            patch.setattr(os, name, lambda *about, before=before: reads.append(1) or before(*about))
        for first, last in ((-50, 4000), (700, 2000)):
            reads.clear()
            read(damaged, root, draw.choice([[1], [], [5, ID, 2]]), first, last)
            assert len(reads) <= 2 * len(content) // size


def interior(children: Sequence[int], last: int) -> bytes:
    """A page of 512 bytes with these below it."""
    head = bytes([5, 0, 0, 0, len(children), 0, 0, 0]) + last.to_bytes(4, "big")
    pointers = b"".join((300 + 5 * n).to_bytes(2, "big") for n in range(len(children)))
    cells = b"".join(child.to_bytes(4, "big") + bytes([n]) for n, child in enumerate(children))
    return (head + pointers).ljust(300, b"\0") + cells.ljust(212, b"\0")


@pytest.mark.parametrize("children", [[2] * 12, [3] * 12, [2], [3], range(3, 30)])
def test_pages_that_stand_twice_in_a_tree_are_not_followed(
    children: Sequence[int], monkeypatch: MonkeyPatch
) -> None:
    """Not one after the other, or few pages would make many numbers."""
    content, before, reads = WHOLE_FILES[512][0], os.pread, []
    made = interior(children, 30) + interior([7, 5], 5) * 30
    monkeypatch.setattr(os, "pread", lambda *about: reads.append(1) or before(*about))
    assert read(content[:512] + made + content[512 * 32 :], 2, [1]) == ([[]], False)
    assert len(reads) < 10


# 125 texts of 57 bytes and then a number of eight; a record that ends on the next page; a type of none.
@pytest.mark.parametrize(("cell", "place"), [
    (bytes([127, 1, 127, *[127] * 125, 6]), 125), (bytes([20, 1, 2, 1, 5]), 0),
    (bytes([130, 3, 1, 3, 10, 1, *[0] * 255, 5]), 1),
])  # fmt: skip
def test_a_record_that_cannot_be_is_left_to_sqlite(
    cell: bytes, place: int, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(BATCH_BYTES, 1)  # so that little room is left behind the page
    content, root, _ = table(1024, "a", [(1,)])
    page = bytes([13, 0, 0, 0, 1, 0, 0, 0]) + (1024 - len(cell)).to_bytes(2, "big")
    content = content[: (root - 1) * 1024] + page.ljust(1024 - len(cell), b"\0") + cell
    assert read(content, root, [place]) == ([[]], False)


@pytest.mark.parametrize("name", ["pread", "preadv"])
def test_what_cannot_be_read_is_left_to_sqlite(name: str, monkeypatch: MonkeyPatch) -> None:
    content, root, _ = events(65_536)
    before = getattr(os, name)
    with opened(content) as file:
        # A shorter answer, and none.
        shorter = {"pread": lambda found: found[:-1], "preadv": lambda found: found - 1}[name]
        for answer in (shorter, lambda _: Path("-").stat()):
            monkeypatch.setattr(os, name, lambda *about, answer=answer: answer(before(*about)))
            with pytest.raises(UnreadableError):
                list(file.rows(root, [1], *WHOLE))


# -- in a store

KERNELS = 3000


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of two profiles, the second of which SQLite makes larger; not to be written to."""
    store = tmp_path_factory.mktemp("grown") / "store.db"
    for source in ("basic-3.25.0.sqlite", "graphs-3.28.1.sqlite"):
        import_file(NSYS / source, store)
    with closing(sqlite3.connect(store, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints=ON")
        number = "CASE (i + {0}) % 7 WHEN 0 THEN NULL ELSE (i << 31) >> ((i * 7 + {0}) % 60) END"
        kinds = {int: number, float: "i / 8.0", str: "substr('not long', i % 9)"}
        for name in EVENTS:
            count = KERNELS if name == "kernel" else 700
            values = [kinds[column.type.python_type].format(n)
                      for n, column in enumerate(schema.metadata.tables[name].columns)][2:]  # fmt: skip
            connection.execute(
                f'WITH RECURSIVE n(i) AS (SELECT coalesce(max(id), 0) + 1 FROM "{name}" UNION ALL '
                f'SELECT i + 1 FROM n WHERE i < {count}) '
                f'INSERT INTO "{name}" SELECT i, 2, {", ".join(values)} FROM n')  # fmt: skip
            connection.execute("UPDATE extent SET last_id = ?, row_count = ? - first_id + 1 WHERE "
                               "(profile_id, table_name) = (2, ?)", (count, count, name))  # fmt: skip
    return store


@pytest.fixture
def store(grown: Path, tmp_path: Path) -> Path:
    return Path(shutil.copyfile(grown, tmp_path / "store.db"))


@pytest.fixture
def from_pages(monkeypatch: MonkeyPatch) -> list[int]:
    """The ids that follow batches from pages: any number of rows, and one page a batch."""
    monkeypatch.setattr(connection, "MOST_SHARED_FILES", 10_000)  # other tests may hold many files open
    seen: list[int] = []
    before = page_reader.read
    monkeypatch.setattr(page_reader, "read", lambda *about: (
        seen.append(batch[0]) or batch for batch in before(*about)))  # fmt: skip
    monkeypatch.setattr(BATCH_BYTES, 1)
    monkeypatch.setattr(page_reader, "WORTH_ROWS", 0)
    commit = TRY_TO_WRITE.replace("IMMEDIATE", "EXCLUSIVE")  # which is what a commit needs
    monkeypatch.setattr("test_store_locks.TRY_TO_WRITE", commit)
    return seen


def taking(store: SqliteConnection, name: str, first: int, last: int, pages: bool = True) -> Any:
    """Batches of all columns of whole numbers, as they are read, or as SQLite gives them."""
    columns = [c for c in schema.metadata.tables[name].columns if c.type.python_type is int]
    way = store.columns if pages else super(SqliteConnection, store).columns
    return way(columns, 0, first, last)


def joined(batches: Iterator[list[np.ndarray]]) -> list[list[int]]:
    return [np.concatenate(parts).tolist() for parts in zip(*batches, strict=True)]


@pytest.mark.parametrize("name", EVENTS)
def test_columns_are_those_of_a_select(grown: Path, from_pages: list[int], name: str) -> None:
    with open_for_reading(grown) as connection:
        last = KERNELS if name == "kernel" else 700
        for first, to in ((1, last), (3, last), (50, 51), (199, 600), (last, last), (last + 1, last + 9)):
            found = joined(taking(connection, name, first, to))
            assert found == joined(taking(connection, name, first, to, pages=False))
            assert to > last or from_pages[-1] == to + 1
    assert len({*from_pages}) > 3


def test_few_rows_are_asked_of_sqlite(grown: Path, monkeypatch: MonkeyPatch) -> None:
    asked: list[int] = []
    before = page_reader.read
    monkeypatch.setattr(connection, "MOST_SHARED_FILES", 10_000)  # other tests may hold many files open
    monkeypatch.setattr(page_reader, "read", lambda *about: asked.append(about[-1]) or before(*about))
    with open_for_reading(grown) as store:
        for last in (9_000, 11_000):
            assert len(joined(taking(store, "kernel", 1, last))[0]) == KERNELS
    assert asked == [11_000]


@pytest.mark.parametrize("batches", [0, 1, 3])
def test_where_pages_stop_sqlite_goes_on(
    grown: Path, from_pages: list[int], batches: int, monkeypatch: MonkeyPatch
) -> None:
    before = page_reader.read
    monkeypatch.setattr(page_reader, "read", lambda *about: islice(before(*about), batches))
    with open_for_reading(grown) as connection:
        found = joined(taking(connection, "kernel", 3, 2500))
        assert found == joined(taking(connection, "kernel", 3, 2500, pages=False))
    assert len(from_pages) == batches


@pytest.mark.parametrize("last", [KERNELS - 1, KERNELS, KERNELS + 9])
def test_reading_ends_behind_the_last_id_where_all_is_read(grown: Path, last: int) -> None:
    """Also where no row has that id; where pages stop early, it does not."""
    with open_for_reading(grown) as connection:
        root = connection.number("SELECT rootpage FROM sqlite_schema WHERE name = 'kernel'")
    with grown.open("rb") as file:
        batches = list(page_reader.read(file.fileno(), root, [ID], 1, last))
        ids = np.concatenate([columns[0] for _, columns in batches])
        assert ids.tolist() == [*range(1, min(last, KERNELS) + 1)]
        assert batches[-1][0] == last + 1
        # A text is not read here.
        assert not list(page_reader.read(file.fileno(), root, [10_000], 1, last))


def test_a_write_ahead_log_is_left_to_sqlite(store: Path, from_pages: list[int]) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("UPDATE kernel SET dur_ns = 7")  # into the log, where it stays while this is open
        with open_for_reading(store) as connection:
            found = joined(connection.columns([schema.kernel.c.dur_ns], 0, 1, 100))
    assert (found, from_pages) == ([[7] * 100], [])


DECLARED = "{} INTEGER PRIMARY KEY, {} INTEGER".format(
    schema.kernel.columns.keys()[0], " INTEGER, ".join(schema.kernel.columns.keys()[1:]))  # fmt: skip


@pytest.mark.parametrize("changes", [
    ["PRAGMA legacy_alter_table=ON", f"CREATE TABLE made (twice AS (2 * dur_ns), {DECLARED})",
     f"INSERT INTO made ({', '.join(schema.kernel.columns.keys())}) SELECT * FROM kernel",
     "DROP TABLE kernel", "ALTER TABLE made RENAME TO kernel"],
    ["ALTER TABLE kernel ADD COLUMN later INTEGER", "UPDATE kernel SET later = 7"],
    ["PRAGMA legacy_alter_table=ON", "CREATE TABLE made AS SELECT * FROM kernel ORDER BY -id",
     "DROP TABLE kernel", "ALTER TABLE made RENAME TO kernel"],
    ["PRAGMA legacy_alter_table=ON", "CREATE VIEW made AS SELECT * FROM kernel AS k",
     "ALTER TABLE kernel RENAME TO hidden", "PRAGMA writable_schema=ON",
     "UPDATE sqlite_schema SET name = 'kernel', tbl_name = 'kernel', sql = 'CREATE VIEW kernel AS "
     "SELECT * FROM hidden' WHERE name = 'made'"],
], ids=["computed column", "added column", "ids are not the rows' numbers", "view"])  # fmt: skip
def test_a_table_that_was_changed_is_read_as_sqlite_does(
    store: Path, from_pages: list[int], changes: list[str]
) -> None:
    with closing(sqlite3.connect(store, isolation_level=None)) as writer:
        for change in changes:
            writer.execute(change)
    with open_for_reading(store) as connection:
        columns = [schema.kernel.c.start_ns, schema.kernel.c.dur_ns]
        found = joined(connection.columns(columns, 0, 7, 1500))
        assert found == joined(super(SqliteConnection, connection).columns(columns, 0, 7, 1500))


@pytest.mark.parametrize("change", ["DROP TABLE kernel", "ALTER TABLE kernel RENAME id TO other"])
def test_what_is_not_there_is_an_error(store: Path, from_pages: list[int], change: str) -> None:
    with closing(sqlite3.connect(store)) as writer:
        writer.execute(change)
    with open_for_reading(store) as connection, pytest.raises(NsysconvError):
        joined(connection.columns([schema.kernel.c.id], 0, 1, KERNELS))


@pytest.mark.parametrize("moment", ["before it is opened", "once it is opened", "before it is read"])
def test_a_replaced_store_gives_the_old_rows_or_the_new(
    store: Path, from_pages: list[int], moment: str, monkeypatch: MonkeyPatch
) -> None:
    other, columns = Path(shutil.copyfile(store, store.with_name("other.db"))), [schema.kernel.c.dur_ns]
    with closing(sqlite3.connect(other, isolation_level=None)) as writer:
        for change in ("UPDATE kernel SET dur_ns = id", "PRAGMA page_size=4096", "VACUUM"):
            writer.execute(change)
    with open_for_reading(store) as connection:
        old = joined(connection.columns(columns, 0, 1, KERNELS))
    connect = connecting._opened

    def take_the_name(now: str) -> None:
        if now == moment:
            from_pages.clear()
            other.replace(store)

    monkeypatch.setattr(connecting, "_opened", lambda *about: [
        take_the_name("before it is opened"), connect(*about), take_the_name("once it is opened")][1]
    )  # fmt: skip
    with open_for_reading(store) as connection:
        take_the_name("before it is read")
        found = joined(connection.columns(columns, 0, 1, KERNELS))
    assert found == ([[*range(1, KERNELS + 1)]] if moment == "before it is opened" else old)
    assert bool(from_pages) is (moment == "before it is read")


@pytest.mark.parametrize("way", ["pages", "SQLite"])
@pytest.mark.parametrize("leave", ["at the end", "before"])
def test_nobody_commits_while_batches_are_taken(
    store: Path, from_pages: list[int], way: str, leave: str, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr("nsysconv.store.connection.EVENT_BATCH_ROWS", 100)
    with open_for_reading(store) as connection:
        batches = taking(connection, "kernel", 1, KERNELS, pages=way == "pages")
        next(batches)
        assert another_process_writes(store) == "database is locked"
        joined(batches) if leave == "at the end" else batches.close()
        assert another_process_writes(store) == "wrote"
    assert bool(from_pages) is (way == "pages")


@pytest.mark.parametrize("worth_pages", [0, 10_000])
def test_an_error_while_rows_are_taken_is_the_only_one(
    store: Path, from_pages: list[int], worth_pages: int, monkeypatch: MonkeyPatch
) -> None:
    """Its traceback holds what reads until after the store is closed."""
    monkeypatch.setattr(page_reader, "WORTH_ROWS", worth_pages)
    monkeypatch.setattr("nsysconv.store.columns.ColumnPart.add", lambda self, values: 1 // 0)
    with pytest.raises(ZeroDivisionError), reading(store) as opened:
        opened.profiles()[1].columns("kernel", integer_columns("kernel"))
    assert another_process_writes(store) == "wrote"
    assert bool(from_pages) is (worth_pages == 0)


@pytest.mark.parametrize("worth_pages", [0, 10_000])
def test_a_damaged_store_gives_rows_or_an_error(
    grown: Path, tmp_path: Path, from_pages: list[int], worth_pages: int, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(page_reader, "WORTH_ROWS", worth_pages)
    content, path = grown.read_bytes(), tmp_path / "store.db"
    with open_for_reading(grown) as connection:
        root = connection.number("SELECT rootpage FROM sqlite_schema WHERE name = 'kernel'")
    outcomes: set[object] = set()
    for seed in range(16):
        damaged = bytearray(content)
        hurt(damaged, PAGE_SIZE, tree(content, PAGE_SIZE, root), random.Random(seed))
        path.write_bytes(damaged)
        try:
            with reading(path) as opened:
                found = opened.profiles()[1].columns("kernel", integer_columns("kernel"))
            outcomes.add(len(found["start_ns"]) > KERNELS - 20)
        except NsysconvError as error:
            outcomes.add(type(error))
    assert {True, DamagedError} <= outcomes
