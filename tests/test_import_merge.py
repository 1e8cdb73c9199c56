"""Stores as inputs: what a store holds comes into another one whole, in any order, once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from conftest import FIXTURES, NSYS, ODD, changed, dump, examples
from golden_cases import run
from hypothesis import Phase, given
from hypothesis import strategies as st
from ranked_files import of_rank, recorded
from test_import_ranks import runs_of

import nsysconv
from nsysconv import schema
from nsysconv.errors import InputError, UsageError
from nsysconv.store.location import reading
from nsysconv.store.read import Profile

SOURCES = [
    NSYS / "basic-3.25.0.sqlite",
    NSYS / "cpu_side-3.28.1.sqlite",
    NSYS / "graphs-3.28.1.sqlite",
    NSYS / "unified_memory-3.25.0.sqlite",
    ODD / "bad-cells.sqlite",
    FIXTURES / "kineto" / "odd-merged-ranks.json.gz",
]


Told = dict[str, dict[str, list[tuple[Any, ...]]]]


def told(store: Path) -> Told:
    """By identity all that a store holds of a profile, but for the store's own numbers."""
    tables = dump(store)
    identities = {row[0]: row[3] for row in tables["profile"]}
    found: Told = {}
    for number, identity in identities.items():
        own: dict[str, list[tuple[Any, ...]]] = {}
        for name, table in schema.metadata.tables.items():
            if "profile_id" in table.c:
                at = list(table.c.keys()).index("profile_id")
                left_out = {at, 0} if name in (*schema.EVENT_TABLES, "note") else {at}
                rows = [row for row in tables[name] if row[at] == number]
                own[name] = [
                    tuple(v for i, v in enumerate(row) if i not in left_out) for row in rows
                ]
        # Checksums are of the rows where they are. So is an extent, but for how many rows there are, and
        # what is common to them.
        del own["checksum"]
        own["extent"] = [(row[0], *row[3:]) for row in own["extent"]]
        (profile,) = (row for row in tables["profile"] if row[0] == number)
        own["profile"] = [profile[3:]]
        found[identity] = own
    return found


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Stores of one and of several profiles, and one that holds a profile of another."""
    folder = tmp_path_factory.mktemp("parts")
    groups = [SOURCES[:1], SOURCES[1:3], SOURCES[3:5], SOURCES[4:]]
    stores = [folder / f"part{number}.db" for number in range(len(groups))]
    for store, sources in zip(stores, groups, strict=True):
        nsysconv.import_files(sources, store, tags={"group": store.stem})
    return stores


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What a store of all sources holds, imported from their files."""
    store = tmp_path_factory.mktemp("straight") / "job.db"
    nsysconv.import_files(SOURCES, store)
    return without_what_differs(told(store))


def without_what_differs(profiles: Told) -> Told:
    """But for tags: of the profile that is in two stores those of the first; and for a repeated rank."""
    for own in profiles.values():
        own["profile_tag"] = []
        own["note"] = [note for note in own["note"] if note[0] != "rank-repeated"]
    return profiles


@examples(12, phases=(Phase.explicit, Phase.generate))
@given(order=st.permutations(range(4)), one_by_one=st.booleans())
def test_any_order_gives_what_the_files_give(
    parts: list[Path], straight: Told, order: list[int], one_by_one: bool
) -> None:
    with TemporaryDirectory() as folder:
        store = Path(folder) / "job.db"
        chosen = [parts[number] for number in order]
        for paths in [[one] for one in chosen] if one_by_one else [chosen]:
            assert not nsysconv.import_files(paths, store).errors
        assert without_what_differs(told(store)) == straight


def test_tags_and_labels_come_along(parts: list[Path], tmp_path: Path) -> None:
    nsysconv.import_files([parts[0]], tmp_path / "a.db", tags={"more": "1"})
    (row,) = nsysconv.runs(tmp_path / "a.db").rows()
    assert (row["label"], row["tags"]) == ("basic-3.25.0", "group=part0 more=1")
    nsysconv.import_files([parts[0]], tmp_path / "b.db", label="mine")
    assert [row["label"] for row in nsysconv.runs(tmp_path / "b.db").rows()] == ["mine"]


def test_again_changes_nothing(parts: list[Path], tmp_path: Path) -> None:
    store = tmp_path / "job.db"
    nsysconv.import_files(parts, store)
    before = dump(store)
    result = nsysconv.import_files([*reversed(parts), *SOURCES], store)
    assert all(each.existing for file in result.files for each in file.imported)
    assert dump(store) == before


def test_a_file_finds_what_came_by_a_store(parts: list[Path], tmp_path: Path) -> None:
    store = tmp_path / "job.db"
    nsysconv.import_files([parts[0]], store)
    ((imported,),) = [f.imported for f in nsysconv.import_files(SOURCES[:1], store).files]
    assert imported.existing


def test_replaced_by_what_another_store_holds(parts: list[Path], tmp_path: Path) -> None:
    store = tmp_path / "job.db"
    nsysconv.import_files([parts[0]], store)
    nsysconv.import_files([parts[0]], store, label="new", replace=True)
    assert runs_of(store) == {"new": ["new"]}
    assert list(told(store)) == list(told(parts[0]))


def test_a_store_is_not_its_own_input(parts: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "prof"
    folder.mkdir()
    shutil.copyfile(parts[0], folder / "a.db")
    nsysconv.import_files([folder], folder / "all.db")
    before = dump(folder / "all.db")
    result = nsysconv.import_files([folder], folder / "all.db")
    assert [file.path.name for file in result.files] == ["a.db"]
    assert dump(folder / "all.db") == before
    with pytest.raises(UsageError, match="into itself"):
        nsysconv.import_files([folder / "all.db"], folder / "all.db")


@pytest.mark.parametrize("version", [1, 99])
def test_a_store_of_another_version(parts: list[Path], tmp_path: Path, version: int) -> None:
    """Also in a folder: it is known what it is, and something would be missing without a word."""
    folder = tmp_path / "prof"
    folder.mkdir()
    for name in ("a.db", "b.db"):
        shutil.copyfile(parts[0], folder / name)
    changed(folder / "a.db", f"PRAGMA user_version={version}")
    outcome = run("import", "prof", cwd=tmp_path)
    assert outcome.status == 3
    assert f"prof/a.db: the store has schema version {version}, this nsysconv reads" in outcome.err
    assert "1 profile of 2 files, 1 not imported" in outcome.out


def test_a_store_that_changes_while_it_is_read(
    parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copyfile(parts[0], tmp_path / "a.db")
    # Asked behind its rows, these are gone.
    monkeypatch.setattr(Profile, "current_extents", dict)
    (error,) = nsysconv.import_files([tmp_path / "a.db"], tmp_path / "job.db").errors
    assert isinstance(error, InputError)
    assert "changed while it was read" in str(error)
    assert not (tmp_path / "job.db").exists()


COMMIT_TO = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("UPDATE run SET label = label")
    connection.execute("COMMIT")
    print("committed")
except sqlite3.OperationalError as error:
    print(error)
"""


def test_a_store_cannot_change_between_its_rows_and_the_check(
    parts: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where rows come into a new store, in which SQLite begins late."""
    source = tmp_path / "a.db"
    shutil.copyfile(parts[0], source)
    told = [another_process_commits(source)]
    true = Profile.current_extents

    def and_another_process(profile: Profile) -> dict[str, Any]:
        told.append(another_process_commits(source))
        return true(profile)

    monkeypatch.setattr(Profile, "current_extents", and_another_process)
    assert not nsysconv.import_files([source], tmp_path / "job.db").errors
    locked = "database is locked"
    # What it holds is asked again behind its rows.
    assert told == ["committed", locked]


def another_process_commits(store: Path) -> str:
    """What another process is told that changes a store."""
    command = [sys.executable, "-c", COMMIT_TO, str(store)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_strict_refuses_a_profile_with_doubts(parts: list[Path], tmp_path: Path) -> None:
    result = nsysconv.import_files([parts[2]], tmp_path / "job.db", strict=True)
    (error,) = result.errors
    assert "--strict" in str(error)


# -- runs


def ranks_in(folder: Path, ranks: range, size: int, job: int | None = None) -> list[Path]:
    return [of_rank(folder / f"t{rank}.sqlite", rank, size, job) for rank in ranks]


def test_stores_of_ranks_are_one_run(tmp_path: Path) -> None:
    """As wrappers leave them, a store each."""
    for rank in range(2):
        path = of_rank(tmp_path / f"t{rank}.sqlite", rank, 2)
        (tmp_path / "prof").mkdir(exist_ok=True)
        nsysconv.import_files([path], tmp_path / "prof" / f"t{rank}.db")
    nsysconv.import_files([tmp_path / "prof"], tmp_path / "job.db")
    assert runs_of(tmp_path / "job.db") == {"prof": ["t0", "t1"]}


def test_halves_of_a_job_find_each_other(tmp_path: Path) -> None:
    for half in (range(2), range(2, 4)):
        nsysconv.import_files(ranks_in(tmp_path, half, 4, 77), tmp_path / f"half{half.start}.db")
    for name in ("half2.db", "half0.db"):
        nsysconv.import_files([tmp_path / name], tmp_path / "job.db")
    assert runs_of(tmp_path / "job.db") == {"slurm-77.0": ["t2", "t3", "t0", "t1"]}
    with reading(tmp_path / "job.db") as store:
        assert [row["job"] for row in store.runs()] == ["slurm 77.0"]


def test_profiles_of_one_run_stay_one_run(tmp_path: Path) -> None:
    """Repeats that the user calls one run, without ranks."""
    paths = [recorded(tmp_path / f"{name}.sqlite") for name in "abcd"]
    nsysconv.import_files(paths[:2], tmp_path / "one.db", run="base")
    nsysconv.import_files(paths[2:], tmp_path / "two.db", run="base")
    nsysconv.import_files([tmp_path / "one.db", tmp_path / "two.db"], tmp_path / "job.db")
    # Nothing says that they are of one execution: they have no ranks.
    assert runs_of(tmp_path / "job.db") == {"base": ["a", "b"], "base-2": ["c", "d"]}
    nsysconv.import_files([tmp_path / "one.db", tmp_path / "two.db"], tmp_path / "x.db", run="all")
    assert runs_of(tmp_path / "x.db") == {"all": ["a", "b", "c", "d"]}


def test_a_run_of_one_profile_keeps_the_name_it_was_given(tmp_path: Path) -> None:
    nsysconv.import_files([recorded(tmp_path / "a.sqlite")], tmp_path / "one.db", run="base")
    nsysconv.import_files([tmp_path / "one.db"], tmp_path / "job.db")
    assert runs_of(tmp_path / "job.db") == {"base": ["a"]}
