"""A slice of what `make fuzz` does, the same files in every run; and whether it would notice."""

from __future__ import annotations

import dataclasses
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import one_place
import oracle
import pytest
import replies
from bounds import SECONDS
from cases import KINDS, MAKERS, Case, case
from conftest import NSYS, few, real
from findings import Looked
from oracle import look
from seeds import DAMAGED, EXPORTED, Seed, seeds
from stored import Stored

from nsysconv import api, queries, schema
from nsysconv.errors import InputError, NsysconvError
from nsysconv.importers import IMPORTERS, kineto, nsys_sqlite, nvprof_log, sqlite_mapping
from nsysconv.importers.contract import Yes
from nsysconv.notes import Note
from nsysconv.timeline import idle

# Files per importer: databases take longest.
FILES = dict.fromkeys(DAMAGED, 60) | {
    "nsys_sqlite": 200, "nvprof_database": 100, "kineto": 200, "nvprof_log": 300, "nsys_stats": 300,
    "nsys_rep": 300,
}  # fmt: skip
SEED = 1
AT_ONCE = 1
BASIC = "basic-3.25.0.sqlite"

TURNS = [
    turn for importer, count in FILES.items()
    for turn in few([(importer, first) for first in range(0, count, AT_ONCE)], 1)
]  # fmt: skip


@pytest.mark.parametrize(("importer", "first"), TURNS)
def test_damaged_files_are_refused_in_words_or_accounted_for(importer: str, first: int) -> None:
    for number in range(first, first + AT_ONCE):
        damaged = case(importer, SEED, number, real=False)
        # Of the files of `make test` one is asked for everything, which takes four times as long.
        everything = number == first and (first > 0 or importer == "rocprof")
        looked = look(damaged, everything=everything)
        told = "\n".join(f"{one.promise}: {one.detail}" for one in looked.findings)
        assert not looked.findings, f"{damaged.key} {damaged.name} {damaged.done}\n{told}"


# The least of the first dozen of each class, and one of each locale.
MADE = {"nesting": (5, 9), "names": (3, 9), "printed": (1, 2, 3, 6, 17), "pages": (3,)}


@pytest.mark.parametrize(("kind", "number"), few([(kind, n) for kind in MADE for n in MADE[kind]], 5))
def test_files_that_are_whole_are_read_as_they_were_made(kind: str, number: int) -> None:
    made = case(kind, SEED, number)
    looked = look(made)
    told = "\n".join(f"{one.promise}: {one.detail}" for one in looked.findings)
    assert looked.outcome == "imported"
    assert not looked.findings, f"{made.key} {made.done}\n{told}"


# Files by class of which one place is damaged; as many real ones where they are here.
ONE_PLACE = {"kineto-cut": 300, "kineto-byte": 480, "nvprof_log-cut": 150, "nsys_stats-cut": 150,
             "nsys_sqlite-cut": 150, "nsys_rep-bit": 900}  # fmt: skip
OF_REAL = ("kineto-cut", "kineto-byte")
PLACES_AT_ONCE = 3


def _places(first: int) -> range:
    """Several that follow each other, in `make test` one."""
    return range(first, first + (PLACES_AT_ONCE if first else 1))


def _no_finding(damaged: Case) -> None:
    told = "\n".join(f"{one.promise}: {one.detail}" for one in look(damaged).findings)
    assert not told, f"{damaged.key} {damaged.name} {damaged.done}\n{told}"


@pytest.mark.parametrize(("kind", "first"), [
    turn for kind, count in ONE_PLACE.items()
    for turn in few([(kind, first) for first in range(0, count, PLACES_AT_ONCE)], 1)
])  # fmt: skip
def test_damage_of_one_place_takes_no_row_without_a_word(kind: str, first: int) -> None:
    for number in _places(first):
        _no_finding(case(kind, SEED, number, real=False))


@real
@pytest.mark.parametrize("first", few(range(0, 900, PLACES_AT_ONCE), 1))
@pytest.mark.parametrize("kind", OF_REAL)
def test_damage_of_one_place_takes_no_row_of_a_real_trace(kind: str, first: int) -> None:
    for number in _places(first):
        _no_finding(case(kind, SEED + 1, number))


PAGE = 1024


@pytest.mark.parametrize("header", one_place.HEADERS)
@pytest.mark.parametrize("size", [0, 16, PAGE, 20 * PAGE, -1], ids="cut at {}".format)
def test_a_cut_database_is_refused_or_whole(size: int, header: str) -> None:
    whole_one = _whole("nsys_sqlite-cut", BASIC)
    cut = one_place.database_cut(whole_one.content, size % len(whole_one.content), header)
    _no_finding(dataclasses.replace(whole_one, content=cut))


def test_an_old_header_is_no_damage() -> None:
    whole_one = _whole("nsys_sqlite-cut", BASIC)
    content = one_place.database_cut(whole_one.content, len(whole_one.content), "old")
    looked = look(dataclasses.replace(whole_one, content=content))
    assert (looked.outcome, looked.findings) == ("imported", [])


def test_every_class_has_its_files() -> None:
    assert {*FILES, *ONE_PLACE, *MADE} == set(KINDS)
    assert set(MADE) == set(MAKERS)


def test_every_importer_has_its_files() -> None:
    assert {*FILES} == {*IMPORTERS, *EXPORTED}
    assert all(seeds(importer, real=False) for importer in FILES)


# -- the fuzzer notices


def _whole(kind: str, name: str) -> Case:
    importer = kind.partition("-")[0]
    (seed,) = (seed for seed in seeds(importer, real=False) if seed.name == name)
    return Case(f"{kind}:0:0", seed, seed.content, (), moved=False)


def _promises(damaged: Case) -> set[str]:
    return {one.promise for one in look(damaged).findings}


def _with(content: bytes, *statements: str) -> Case:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / BASIC
        path.write_bytes(content)
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            for statement in statements:
                database.execute(statement)
        return Case("nsys_sqlite:0:0", Seed(BASIC, content), path.read_bytes(), statements)


ONE_BAD_START = _with(
    (NSYS / BASIC).read_bytes(),
    "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 'text' WHERE rowid = 3",
)


def test_a_row_that_is_left_out_with_a_note_is_no_finding() -> None:
    assert look(ONE_BAD_START).findings == []


def test_a_row_that_is_left_out_without_a_note_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sqlite_mapping.guarded_rows

    def silent(*arguments: object) -> tuple[object, list[Note]]:
        return before(*arguments)[0], []  # type: ignore[arg-type]

    monkeypatch.setattr("nsysconv.importers.sqlite_mapping.guarded_rows", silent)
    assert "nothing is lost without a word" in _promises(ONE_BAD_START)


def _raising(error: Exception) -> Callable[..., Any]:
    def broken(*_: object) -> Any:
        raise type(error)(*error.args) if not isinstance(error, NsysconvError) else type(error)(
            error.what, where=error.where)  # fmt: skip

    return broken


def _untidy(before: Callable[..., Any]) -> Callable[..., Any]:
    def untidy(*arguments: object) -> Any:
        tempfile.mkdtemp()
        return before(*arguments)

    return untidy


def _endless(*_: object) -> Any:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        pass
    raise InputError("at last")


TRACE = "basic-2.13.json"
OTHER = NSYS / "ranges-3.28.1.sqlite"
_RAISES = "importing raises nothing"
# Whose part is broken, which, what is there instead; the whole file, and what must be found.
BROKEN: dict[str, tuple[Any, str, Any, str, set[str]]] = {
    "an exception": (nsys_sqlite, "read", _raising(KeyError("x")), BASIC, {_RAISES}),
    "a sniff that raises": (
        nvprof_log, "sniff", _raising(IndexError("x")), BASIC, {"sniffing raises nothing"}),
    "two claims on a database": (
        nvprof_log, "sniff", lambda probe: Yes(), BASIC, {"one importer at most says yes"}),
    "an error without a file": (
        kineto, "read", _raising(InputError("damaged", where="x")), TRACE, {"an error names the file"}),
    "an error with a secret": (
        kineto, "read", _raising(InputError("SECRET-token", where="x")), TRACE,
        {"an error without secrets", "an error names the file"}),
    "an error of another kind": (
        kineto, "read", _raising(NsysconvError("a defect", where="x")), TRACE, {_RAISES}),
    "what stays in the temporary folder": (
        kineto, "read", _untidy(kineto.read), TRACE, {"nothing stays in the temporary folder"}),
    "what takes too long": (kineto, "read", _endless, TRACE, {"ends in time"}),
    "a gap whose parts do not add up": (
        replies, "PARTS", idle.PARTS[1:], BASIC, {"parts of gaps add up"}),
    "a difference in place": (
        api, "open", lambda _, *, include, before=api.open: before(OTHER, include=include), BASIC,
        {"in place as imported"}),
}  # fmt: skip


@pytest.mark.parametrize("what", few(BROKEN, 3))
def test_what_is_broken_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, part, instead, name, promises = BROKEN[what]
    monkeypatch.setattr(module, part, instead)
    seconds = 0.5 if instead is _endless else SECONDS
    looked = look(_whole("kineto" if name == TRACE else "nsys_sqlite", name), seconds=seconds)
    assert {one.promise for one in looked.findings} == promises


def test_other_rows_of_a_cut_file_are_found() -> None:
    """So that the cuts can fail: rows of another file, and a trace that ends early with its brackets."""
    database = _whole("nsys_sqlite-cut", BASIC)
    other = (NSYS / "ranges-3.28.1.sqlite").read_bytes()
    assert _promises(dataclasses.replace(database, content=other)) == {
        "a cut database is refused or whole"}
    log = _whole("nvprof_log-cut", "basic-gpu-trace.csv")
    changed = log.content.replace(b"saxpy", b"saxpx")
    assert _promises(dataclasses.replace(log, content=changed)) == {"rows before a cut are as they were"}


MISREAD = "numbers are read as printed"


def _printed_otherwise(old: str, new: str) -> Case:
    """A table whose text is not what the fuzzer knows of it."""
    made = case("printed", SEED, 3)
    text = made.content.decode()
    assert text.count(old) == 1
    return dataclasses.replace(made, content=text.replace(old, new).encode())


def test_a_number_that_is_misread_is_found() -> None:
    assert MISREAD in _promises(_printed_otherwise("122\u00a0052", "122\u00a0952"))


def test_kernels_that_are_lost_are_found() -> None:
    made = case("names", SEED, 3)
    fewer = _with(made.content, "DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE rowid = 3").content
    found = _promises(dataclasses.replace(made, content=fewer))
    assert found == {"what was written is read"}


def test_an_export_without_some_kernels_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    exported = api.export_profiles

    def less(*arguments: Any) -> Any:
        made = exported(*arguments)
        counts = {**made.written.counts, "kernel": 1}
        return dataclasses.replace(made, written=dataclasses.replace(made.written, counts=counts))

    monkeypatch.setattr(api, "export_profiles", less)
    monkeypatch.setattr(queries, "REPORTS", ("kernels",))
    turn = 4 * (1 + oracle.WAYS[1:].index("parquet"))
    damaged = dataclasses.replace(_whole("nsys_sqlite", BASIC), key=f"nsys_sqlite:0:{turn}")
    found = {one.promise for one in look(damaged, everything=True).findings}
    assert found == {"nothing is lost without a word"}


def test_rows_that_the_schema_does_not_admit_are_found(tmp_path: Path) -> None:
    """As they would stand in a store whose checks are not those of the schema."""
    damaged = _whole("nsys_sqlite", BASIC)
    looked = Looked()
    stored = Stored(damaged, tmp_path / BASIC, looked)
    with closing(sqlite3.connect(":memory:")) as sql:
        columns = ", ".join(schema.metadata.tables["memset"].columns.keys())
        sql.execute(f"CREATE TABLE memset ({columns})")
        sql.execute("INSERT INTO memset (id, profile_id, start_ns, dur_ns) VALUES (1, 1, 5, -1)")
        stored.sound_rows(sql, "memset")
    assert [one.promise for one in looked.findings] == ["rows fulfil the schema"]
