"""A slice of what `make fuzz` does, the same damaged files in every run; and whether it would notice."""

from __future__ import annotations

import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import mutate_bytes
import oracle
import pytest
from cases import Case, case
from conftest import NSYS, few
from findings import Looked
from oracle import look
from seeds import IMPORTERS, Seed, seeds
from stored import Stored

from nsysconv import api, schema
from nsysconv.errors import InputError, NsysconvError
from nsysconv.importers import guards, kineto, nsys_sqlite, nvprof_log
from nsysconv.importers.contract import Yes
from nsysconv.notes import Note
from nsysconv.timeline import idle

# Files per importer: databases take longest.
FILES = {"nsys_sqlite": 200, "nvprof_database": 100, "kineto": 200, "nvprof_log": 300, "nsys_stats": 300,
         "nvidia_smi": 60}  # fmt: skip
SEED = 1
AT_ONCE = 10
BASIC = "basic-3.25.0.sqlite"

TURNS = [
    turn for importer, count in FILES.items()
    for turn in few([(importer, first) for first in range(0, count, AT_ONCE)], 2)
]  # fmt: skip


@pytest.mark.parametrize(("importer", "first"), TURNS)
def test_damaged_files_are_refused_in_words_or_accounted_for(importer: str, first: int) -> None:
    for number in range(first, first + AT_ONCE):
        damaged = case(importer, SEED, number, real=False)
        looked = look(damaged, all_reports=number == first)
        told = "\n".join(f"{one.promise}: {one.detail}" for one in looked.findings)
        assert not looked.findings, f"{damaged.key} {damaged.name} {damaged.done}\n{told}"


def test_every_importer_has_its_files() -> None:
    from nsysconv.importers import IMPORTERS as ALL

    assert set(FILES) == set(IMPORTERS) == set(ALL)


@pytest.mark.parametrize("importer", IMPORTERS)
def test_a_file_follows_from_its_number(importer: str) -> None:
    for number in range(10):
        one, other = (case(importer, 7, number, real=False) for _ in range(2))
        assert one.done == other.done
        if not one.beside:  # a log of SQLite's begins with a number that SQLite draws
            assert one.content == other.content


def test_no_file_follows_from_the_time_of_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """What gzip writes has a time in it."""
    packed = []
    for now in (1e9, 1.5e9):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        packed.append(
            [mutate_bytes.packed(random.Random(seed), b"text" * 9) for seed in range(60)]
        )
    assert packed[0] == packed[1]
    assert {"packed twice"} <= {what for _, what in packed[0]}


@pytest.mark.parametrize("importer", IMPORTERS)
def test_damage_damages(importer: str) -> None:
    found = [case(importer, 7, number, real=False) for number in range(20)]
    changed = [one for one in found if one.content != one.seed.content or one.beside]
    assert len(changed) >= 15
    assert len({one.content for one in changed}) >= 12


# -- the fuzzer notices


def _whole(importer: str, name: str) -> Case:
    (seed,) = (seed for seed in seeds(importer, real=False) if seed.name == name)
    return Case(f"{importer}:0:0", seed, seed.content, (), moved=False)


def _promises(damaged: Case) -> set[str]:
    return {one.promise for one in look(damaged).findings}


def test_nothing_is_found_in_a_whole_file() -> None:
    assert look(_whole("nsys_sqlite", BASIC), all_reports=True).findings == []


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
    before = guards.guarded

    def silent(*arguments: object) -> tuple[object, list[Note]]:
        return before(*arguments)[0], []  # type: ignore[arg-type]

    monkeypatch.setattr("nsysconv.importers.nsys_sqlite.reader.guarded", silent)
    assert "nothing is lost without a word" in _promises(ONE_BAD_START)


def test_an_exception_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> Iterator[None]:
        raise KeyError("x")

    monkeypatch.setattr(nsys_sqlite, "read", broken)
    assert _promises(_whole("nsys_sqlite", BASIC)) == {"importing raises nothing"}


def test_a_sniff_that_raises_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(probe: object) -> Yes:
        raise IndexError("x")

    monkeypatch.setattr(nvprof_log, "sniff", broken)
    assert "sniffing raises nothing" in _promises(_whole("nsys_sqlite", BASIC))


def test_two_claims_on_a_database_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvprof_log, "sniff", lambda probe: Yes())
    assert "one importer at most says yes" in _promises(_whole("nsys_sqlite", BASIC))


ERRORS: dict[str, tuple[NsysconvError, str]] = {
    "no file": (InputError("damaged", where="x"), "an error names the file"),
    "a secret": (InputError("SECRET-token", where="x"), "an error without secrets"),
    "another kind": (NsysconvError("a defect", where="x"), "importing raises nothing"),
}  # fmt: skip


@pytest.mark.parametrize("what", ERRORS)
def test_an_error_with_too_little_or_too_much_is_found(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    error, promise = ERRORS[what]

    def broken(*arguments: object) -> Iterator[None]:
        raise type(error)(error.what, where=error.where)

    monkeypatch.setattr(kineto, "read", broken)
    assert promise in _promises(_whole("kineto", "basic-2.13.json"))


def test_what_stays_in_the_temporary_folder_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    before = kineto.read

    def untidy(*arguments: object) -> Iterator[object]:
        tempfile.mkdtemp()
        return before(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(kineto, "read", untidy)
    found = _promises(_whole("kineto", "basic-2.13.json"))
    assert found == {"nothing stays in the temporary folder"}


def test_a_gap_whose_parts_do_not_add_up_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "PARTS", idle.PARTS[1:])
    assert _promises(_whole("nsys_sqlite", BASIC)) == {"parts of gaps add up"}


def test_a_difference_in_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = api.open
    monkeypatch.setattr(api, "open", lambda _: opened(NSYS / "ranges-3.28.1.sqlite"))
    assert "in place as imported" in _promises(_whole("nsys_sqlite", BASIC))


def test_what_takes_too_long_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(*arguments: object) -> Iterator[None]:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            pass
        raise InputError("at last")

    monkeypatch.setattr(kineto, "read", endless)
    looked = look(_whole("kineto", "basic-2.13.json"), seconds=1)
    assert [one.promise for one in looked.findings] == ["ends in time"]


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
