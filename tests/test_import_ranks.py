"""Which rank a profile is of, and which profiles are one run."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES
from golden_cases import run
from ranked_files import PAIR, of_rank, recorded, written_record

import nsysconv
from nsysconv.api.file_ranks import rank_in_name, suggest_rank_from
from nsysconv.api.importing import ImportResult
from nsysconv.errors import UsageError
from nsysconv.store.location import reading
from nsysconv.store.runs import contiguous_ranges, ranges_as_text, rank_coverage

MERGED = FIXTURES / "kineto" / "odd-merged-ranks.json.gz"


def only(result: ImportResult) -> tuple[dict[str, Any], list[str]]:
    """The only process of an import's only profile, and the slugs of its notes."""
    ((imported,),) = [file.imported for file in result.files]
    with reading(Path(str(result.store))) as store:
        (profile,) = (p for p in store.profiles() if p.id == imported.profile_id)
        (process,) = profile.rows("process")
        return process, [note.slug for note in profile.notes if note.slug.startswith("rank")]


def runs_of(store: Path) -> dict[str, list[str]]:
    """Labels of profiles by the label of their run."""
    found: dict[str, list[str]] = {}
    for row in nsysconv.runs(store).rows():
        found.setdefault(str(row["run"]), []).append(str(row["label"]))
    return found


# -- which rank


NAMES = {
    "rank0.sqlite": 0,
    "rank_12.sqlite": 12,
    "train-Rank-7-of-8.sqlite": 7,
    "RANK3_rank3.sqlite": 3,
    "a.rank5.json.gz": 5,
    "train.3.sqlite": None,
    "nranks8.sqlite": None,
    "frank3.sqlite": None,
    "local_rank3.sqlite": None,
    "local-rank3.sqlite": None,
    "localrank3.sqlite": None,
    "rank0_to_rank7.sqlite": None,
    "rank1234567890.sqlite": None,
    "rank.sqlite": None,
}


@pytest.mark.parametrize("name", NAMES)
def test_a_rank_in_a_name(name: str) -> None:
    assert rank_in_name(Path("rank99") / name) == NAMES[name]


OF_OPEN_MPI = {"OMPI_COMM_WORLD_RANK": 5, "OMPI_COMM_WORLD_LOCAL_RANK": 1, "OMPI_COMM_WORLD_SIZE": 8,
               "PBS_JOBID": "77.head", "TOKEN": "SECRET-1"}  # fmt: skip


@pytest.mark.parametrize(("name", "environment", "record", "rank_from", "told", "notes"), [
    ("train.sqlite", OF_OPEN_MPI, None, None,
     {"rank": 5, "local_rank": 1, "world_size": 8, "host": "node01", "job": "pbs 77.head"}, []),
    ("train_rank3.sqlite", {}, None, None, {"rank": 3}, ["rank-from-name"]),
    # What the recording itself says of its host stays.
    ("train.3.sqlite", {},
     {"rank": 3, "local_rank": 1, "world_size": 8, "host": "node2", "job": "slurm 9.0",
      "report": "train.3.nsys-rep", "token": "SECRET-2"}, None,
     {"rank": 3, "local_rank": 1, "world_size": 8, "host": "node01", "job": "slurm 9.0"}, []),
    ("train.sqlite", {}, {"rank": 3, "report": "other.nsys-rep"}, None, {"rank": None}, []),
    # Of another rank the record's local rank says nothing.
    ("rank1.sqlite", {"PMI_RANK": 3, "PMI_SIZE": 4}, {"rank": 2, "local_rank": 7, "world_size": 9}, None,
     {"rank": 3, "local_rank": None, "world_size": 4}, ["rank-clash", "rank-clash"]),
    # Alone it was rank 0 of 1: that is not the size of the run that the user speaks of.
    ("node7/train.sqlite", {"PMI_RANK": 0, "PMI_SIZE": 1}, None, r"node(\d+)",
     {"rank": 7, "world_size": None}, ["rank-clash"]),
    ("train.sqlite", {"A": "\n".join(["PMI_SIZE=x" + "1" * 20] * 10**5), "PMI_RANK": 5}, None, None,
     {"rank": 5, "world_size": None}, []),
], ids=["of the environment", "of the name, a guess", "of a record beside it",
        "not of another report's record", "of the recording before the record before the name",
        "of the user before everything", "in very many lines of an environment"])  # fmt: skip
def test_which_rank_it_is(
    tmp_path: Path, name: str, environment: dict[str, Any], record: dict[str, Any] | None,
    rank_from: str | None, told: dict[str, Any], notes: list[str],
) -> None:  # fmt: skip
    path = recorded(tmp_path / name, **environment)
    if record is not None:
        written_record(path, **record)
    store = tmp_path / "job.db"
    process, slugs = only(nsysconv.import_files([path], store, rank_from=rank_from))
    assert ({column: process[column] for column in told}, slugs) == (told, notes)
    assert b"SECRET" not in store.read_bytes()


def test_strict_refuses_a_rank_that_is_guessed(tmp_path: Path) -> None:
    path = recorded(tmp_path / "train_rank3.sqlite")
    (error,) = nsysconv.import_files([path], tmp_path / "strict.db", strict=True).errors
    assert "rank-from-name" in str(error)


def test_one_rank_and_two_processes_at_work(tmp_path: Path) -> None:
    path = recorded(tmp_path / "rank3.sqlite", source=PAIR)
    result = nsysconv.import_files([path], tmp_path / "job.db")
    with reading(tmp_path / "job.db") as store:
        (profile,) = store.profiles()
        assert [row["rank"] for row in profile.rows("process")] == [None, None]
    assert "rank-unused" in [note.slug for note in result.files[0].imported[0].notes]


def test_one_name_for_two_recordings(tmp_path: Path) -> None:
    shutil.copyfile(MERGED, tmp_path / "rank9.json.gz")
    nsysconv.import_files([tmp_path / "rank9.json.gz"], tmp_path / "job.db")
    with reading(tmp_path / "job.db") as store:
        ranks = [row["rank"] for p in store.profiles() for row in p.rows("process")]
    assert ranks == [None, None]


@pytest.mark.parametrize(("wanted", "words"), [
    *((no_expression, "--rank-from")
      for no_expression in ("(", "train", "[", "(?P<", "x{99999999999}(a)", "")),
    *((finds_none, "finds no rank")
      for finds_none in (r"train(\d+)", r"(x)?train", r"(train)", r"train\.(\d{10})")),
])  # fmt: skip
def test_an_expression_that_gives_no_rank(tmp_path: Path, wanted: str, words: str) -> None:
    path = recorded(tmp_path / "train.1234567890")
    with pytest.raises(UsageError, match=words):
        nsysconv.import_files([path], tmp_path / "job.db", rank_from=wanted)
    assert not (tmp_path / "job.db").exists()


def test_numbers_in_names_may_be_ranks() -> None:
    paths = [Path(f"job7.train.{rank}.sqlite") for rank in range(3)]
    wanted = suggest_rank_from(paths)
    assert wanted == r"job\d+\.train\.(\d+)\.sqlite$"
    assert suggest_rank_from([Path("report1.sqlite"), Path("report2.sqlite")]) is None, "repeats"
    assert suggest_rank_from([Path("a0.b0.sqlite"), Path("a1.b1.sqlite")]) is None, "two numbers differ"
    assert suggest_rank_from([Path("a0.sqlite"), Path("b1.sqlite")]) is None


def test_what_is_suggested_does_it(tmp_path: Path) -> None:
    for rank in range(3):
        recorded(tmp_path / "prof" / f"train.{rank}.sqlite")
    first = run("import", "prof", cwd=tmp_path)
    wanted = nsysconv.import_files([tmp_path / "prof"], tmp_path / "x.db").rank_from
    assert wanted is not None
    assert wanted in first.err
    again = run("import", "prof", "--replace", "--rank-from", wanted, cwd=tmp_path)
    assert "run prof: 3 ranks on 1 host" in again.out
    assert "--rank-from" not in again.err
    assert runs_of(tmp_path / "prof.db") == {"prof": ["train.0", "train.1", "train.2"]}


# -- which run


def test_ranks_of_a_job_that_come_one_by_one(tmp_path: Path) -> None:
    """As wrappers of 3 ranks import them into one store, in the order in which they end."""
    store = tmp_path / "job.db"
    labels = []
    for rank in (2, 0, 1):
        nsysconv.import_files([of_rank(tmp_path / f"t{rank}.sqlite", rank, 3, 77)], store)
        labels.append(runs_of(store))
    assert labels[0] == {"t2": ["t2"]}, "alone it is called after its profile"
    assert labels[-1] == {"slurm-77.0": ["t2", "t0", "t1"]}
    with reading(store) as opened:
        assert [row["job"] for row in opened.runs()] == ["slurm 77.0"]


def test_a_rank_that_is_there_already(tmp_path: Path) -> None:
    """The second start in one job is another run, whichever rank of it comes first."""
    store = tmp_path / "job.db"
    for start in ("a", "b"):
        for rank in (0, 1):
            of_rank(tmp_path / "prof" / f"{start}{rank}.sqlite", rank, 2, 77)
    result = nsysconv.import_files([tmp_path / "prof"], store)
    assert runs_of(store) == {"slurm-77.0": ["a0", "a1"], "slurm-77.0-2": ["b0", "b1"]}
    notes = [[n.slug for n in file.imported[0].notes if n.slug == "rank-repeated"]
             for file in result.files]  # fmt: skip
    assert notes == [[], [], ["rank-repeated"], []]


def test_a_folder_is_a_run_where_no_job_is_known(tmp_path: Path) -> None:
    for rank in (0, 1, 10, 9):
        of_rank(tmp_path / "prof" / f"train.{rank}.sqlite", rank, 12)
    recorded(tmp_path / "prof" / "other.sqlite")
    result = nsysconv.import_files([tmp_path / "prof"], tmp_path / "job.db")
    # By the size of their numbers, not by their digits.
    assert runs_of(tmp_path / "job.db") == {
        "other": ["other"],
        "prof": ["train.0", "train.1", "train.9", "train.10"],
    }
    (run,) = (run for run in result.runs if run.label == "prof")
    (note,) = run.census.notes()
    assert note.text == "4 of 12 ranks are there; missing: 2-8, 11"
    assert (note.slug, note.count) == ("ranks-missing", 8)


# Ranks and sizes of runs; what is imported, one import after the other; and the runs it becomes.
@pytest.mark.parametrize(("sizes", "imports", "runs"), [
    ((2, 4), ["prof"], {"t0": ["t0"], "t1": ["t1"]}),
    ((2, 2), ["prof/t0.sqlite prof/t1.sqlite"], {"prof": ["t0", "t1"]}),
    ((2, 2), ["prof/t0.sqlite", "prof/t1.sqlite"], {"t0": ["t0"], "t1": ["t1"]}),
], ids=["two sizes in one folder are two runs", "a list of files is called after their folder",
        "files one by one without a job are a run each"])  # fmt: skip
def test_ranks_without_a_job(
    tmp_path: Path, sizes: tuple[int, ...], imports: list[str], runs: dict[str, list[str]]
) -> None:
    for rank, size in enumerate(sizes):
        of_rank(tmp_path / "prof" / f"t{rank}.sqlite", rank, size)
    for paths in imports:
        nsysconv.import_files([tmp_path / path for path in paths.split()], tmp_path / "job.db")
    assert runs_of(tmp_path / "job.db") == runs


def test_a_folder_that_has_grown_continues_its_run(tmp_path: Path) -> None:
    for rank in (0, 1, 2):
        of_rank(tmp_path / "prof" / f"t{rank}.sqlite", rank, 3)
        if rank:
            nsysconv.import_files([tmp_path / "prof"], tmp_path / "job.db")
    assert runs_of(tmp_path / "job.db") == {"prof": ["t0", "t1", "t2"]}


def test_a_run_by_name(tmp_path: Path) -> None:
    """What the user says holds, even of ranks that are there already; the census tells."""
    store = tmp_path / "job.db"
    for mark in ("a", "b"):
        path = of_rank(tmp_path / f"{mark}.sqlite", 0, 2, 77)
        result = nsysconv.import_files([path], store, run="baseline")
    assert runs_of(store) == {"baseline": ["a", "b"]}
    slugs = [note.slug for run in result.runs for note in run.census.notes()]
    assert slugs == ["ranks-missing", "rank-repeated"]
    with pytest.raises(UsageError, match="cannot be a label"):
        nsysconv.import_files([path], store, run="rank=3")


def test_a_replaced_profile_stays_in_its_run(tmp_path: Path) -> None:
    paths = [of_rank(tmp_path / f"t{rank}.sqlite", rank, 2) for rank in (0, 1)]
    nsysconv.import_files(paths, tmp_path / "job.db", run="mine")
    nsysconv.import_files(paths[:1], tmp_path / "job.db", replace=True)
    assert runs_of(tmp_path / "job.db") == {"mine": ["t1", "t0"]}


def test_what_is_replaced_alone_leaves_no_empty_run(tmp_path: Path) -> None:
    path = recorded(tmp_path / "t.sqlite")
    for _ in range(2):
        nsysconv.import_files([path], tmp_path / "job.db", replace=True)
    with reading(tmp_path / "job.db") as store:
        assert [row["label"] for row in store.runs()] == ["t"]


def test_a_file_of_several_profiles_is_replaced_with_its_run(tmp_path: Path) -> None:
    # The run lasts until the last of its profiles is removed; what comes in its place needs one.
    nsysconv.import_files([MERGED], tmp_path / "job.db", run="mine")
    assert {name: len(of) for name, of in runs_of(tmp_path / "job.db").items()} == {"mine": 2}
    nsysconv.import_files([MERGED], tmp_path / "job.db", replace=True)
    assert sum(len(profiles) for profiles in runs_of(tmp_path / "job.db").values()) == 2


# -- what is read


def touched(path: Path, seconds: int) -> None:
    os.utime(path, (seconds, seconds))


def binary(path: Path) -> Path:
    """What looks like a report of nsys."""
    path.write_bytes(b"report\0" + path.name.encode())
    return path


def passed(result: ImportResult) -> dict[str, str]:
    return {each.path.name: each.reason for each in result.passed}


def test_an_export_is_read_and_its_report_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "prof"
    export = recorded(folder / "t.sqlite")
    touched(binary(folder / "t.nsys-rep"), 100)
    touched(export, 100)
    result = nsysconv.import_files([folder], tmp_path / "job.db")
    assert [file.path.name for file in result.files] == ["t.sqlite"]
    assert passed(result) == {"t.nsys-rep": "its export t.sqlite is read"}


def test_a_stale_export_is_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    folder = tmp_path / "prof"
    touched(recorded(folder / "t.sqlite"), 100)
    touched(binary(folder / "t.nsys-rep"), 101)
    result = nsysconv.import_files([folder], tmp_path / "job.db")
    assert list(passed(result)) == ["t.sqlite"]
    (error,) = result.errors
    assert "the report is cut off" in str(error)


def test_a_store_before_the_export_it_was_made_of(tmp_path: Path) -> None:
    folder = tmp_path / "prof"
    export = recorded(folder / "t.sqlite")
    nsysconv.import_files([export], folder / "t.db", label="kept")
    touched(export, 2**31), touched(folder / "t.db", 100)  # as a plain copy may leave them
    result = nsysconv.import_files([folder], tmp_path / "job.db")
    assert passed(result) == {"t.sqlite": "its recording is in t.db"}
    assert runs_of(tmp_path / "job.db") == {"kept": ["kept"]}


def test_a_store_of_another_recording_of_that_name(tmp_path: Path) -> None:
    folder = tmp_path / "prof"
    export = recorded(folder / "t.sqlite", mark="first")
    nsysconv.import_files([export], folder / "t.db")
    touched(folder / "t.db", 100)
    recorded(export, mark="second")
    result = nsysconv.import_files([folder], tmp_path / "job.db")
    assert passed(result) == {}
    assert len(nsysconv.runs(tmp_path / "job.db").rows()) == 2


def test_a_file_beside_itself_compressed(tmp_path: Path) -> None:
    folder, whole = tmp_path / "prof", (FIXTURES / "kineto" / "training-2.13.json").read_bytes()
    folder.mkdir()
    (folder / "t.json").write_bytes(whole)
    (folder / "t.json.gz").write_bytes(gzip.compress(whole))
    result = nsysconv.import_files([folder], tmp_path / "job.db")
    assert passed(result) == {"t.json.gz": "the same, compressed, as t.json"}
    assert runs_of(tmp_path / "job.db") == {"t": ["t"]}
    # Another recording of that name, even one of the same size, is read.
    (folder / "t.json.gz").write_bytes(gzip.compress(whole.replace(b"saxpy", b"other")))
    result = nsysconv.import_files([folder], tmp_path / "both.db")
    assert passed(result) == {}
    assert len(nsysconv.runs(tmp_path / "both.db").rows()) == 2
    # A store of the compressed file holds it whatever the ending.
    (folder / "t.json").unlink()
    nsysconv.import_files([folder / "t.json.gz"], folder / "t.db")
    result = nsysconv.import_files([folder], tmp_path / "store.db")
    assert passed(result) == {"t.json.gz": "its recording is in t.db"}


def test_what_a_record_says_of_store_and_report(tmp_path: Path) -> None:
    folder = tmp_path / "prof"
    nsysconv.import_files([recorded(tmp_path / "local.sqlite")], tmp_path / "t.db")
    folder.mkdir()
    shutil.move(tmp_path / "t.db", folder / "t.db")
    report = binary(folder / "t.nsys-rep")
    touched(report, 2**31)
    written_record(report, report="t.nsys-rep", store="t.db", rank=4)
    result = nsysconv.import_files([folder], tmp_path / "job.db")
    assert passed(result) == {"t.nsys-rep": "its recording is in t.db"}
    assert only(result)[0]["rank"] == 4


def test_a_rank_without_a_report_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "prof"
    of_rank(folder / "t0.sqlite", 0, 2)
    written_record(folder / "t1.nsys-rep", rank=1, report=None,
                   problems=["no report: the profiler was killed (signal 9)"])  # fmt: skip
    outcome = run("import", "prof", cwd=tmp_path)
    assert outcome.status == 0
    assert outcome.err == ("rank 1 left no report: no report: the profiler was killed (signal 9)\n")


def started(folder: Path, *ranks: int, size: int) -> None:
    """Leaves the first records of ranks that were killed outright."""
    folder.mkdir(exist_ok=True)
    for rank in ranks:
        written_record(folder / f"t{rank}.nsys-rep", rank=rank, world_size=size, job="slurm 9.0",
                       problems=["no end is recorded"])  # fmt: skip


RECORDS_ALONE = """\
rank 0 left no report: no end is recorded
rank 2 left no report: no end is recorded
of the 8 ranks of slurm 9.0 these left neither report nor record: 1, 3-7
"""


def test_a_folder_that_holds_records_alone(tmp_path: Path) -> None:
    started(tmp_path / "prof", 0, 2, size=8)
    outcome = run("import", "prof", cwd=tmp_path)
    assert (outcome.status, outcome.out, outcome.err) == (3, "", RECORDS_ALONE)
    assert not (tmp_path / "prof.db").exists()
    outcome = run("report", "prof", cwd=tmp_path)
    assert (outcome.status, outcome.out) == (3, "")
    assert outcome.err == RECORDS_ALONE + "nsysconv: prof: no profile in it\n"


def test_the_only_rank_that_is_left_is_told_with_those_that_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "prof"
    started(folder, 1, size=4)
    of_rank(folder / "t0.sqlite", 0, 4, job=9)
    outcome = run("import", "prof", cwd=tmp_path)
    assert outcome.err == "rank 1 left no report: no end is recorded\n"
    assert "1 of 4 ranks are there; missing: 1-3" in outcome.out


def test_lost_ranks_are_not_told_one_by_one(tmp_path: Path) -> None:
    started(tmp_path / "prof", *range(25), size=25)
    outcome = run("report", "prof", cwd=tmp_path)
    assert outcome.err.count("left no report") == 20
    assert "and 5 more lost ranks\n" in outcome.err


def test_an_export_beside_its_record_is_no_lost_rank(tmp_path: Path) -> None:
    """Of `--keep export`, or of a rank that was killed before its record was completed."""
    folder = tmp_path / "prof"
    written_record(of_rank(folder / "t1.sqlite", 1, 2), rank=1, report=None)
    written_record(folder / "t0.nsys-rep", rank=0, problems=["no end is recorded"])
    (folder / "t0.out").write_text("what the program printed")
    outcome = run("import", "prof", cwd=tmp_path)
    lost = [line for line in outcome.err.splitlines() if "left no report" in line]
    assert lost == ["rank 0 left no report: no end is recorded"]


def test_many_files_are_not_told_one_by_one(tmp_path: Path) -> None:
    for number in range(22):
        recorded(tmp_path / "prof" / f"t_rank{number}.sqlite")
        (tmp_path / "prof" / f"log{number}.txt").write_text("epoch 1\n")
        (tmp_path / "prof" / f"empty{number}").write_bytes(b"")
    outcome = run("import", "prof", cwd=tmp_path)
    assert outcome.status == 0
    assert sum(line.startswith("prof.db@t_rank") for line in outcome.out.splitlines()) == 20
    assert "not recorded: " in outcome.out.splitlines()[-2]
    assert outcome.out.splitlines()[-1] == "now: nsysconv prof.db"
    assert "and 2 more profiles: " in outcome.out
    assert "  with the note rank-from-name (2)\n" in outcome.out
    assert "prof.db: 22 profiles of 22 files, 1 run\n" in outcome.out
    assert "run prof: 22 ranks on 1 host\n" in outcome.out
    assert outcome.err.splitlines()[0] == (
        "skipped: 44 files: the file is empty (22), a text file, but not a profile (22)"
    )


# -- who is there


def process(rank: int | None, **told: Any) -> dict[str, Any]:
    return {"rank": rank, "world_size": None, "host": None, "job": None, **told}


def test_a_census_by_hand() -> None:
    found = rank_coverage([
        ("a", [process(0, world_size=6, host="n1"), process(None, host="n1")]),
        ("b", [process(3, world_size=6, host="n2"), process(4, world_size=8)]),
        ("c", [process(3, job="slurm 1")]),
        ("d", [process(None, job="slurm 2")]),
    ])  # fmt: skip
    assert (found.world_size, found.missing_count) == (8, 5)
    assert found.missing() == [(1, 2), (5, 7)]
    assert (found.clashing, found.unranked, found.hosts) == ((3,), ("d",), ("n1", "n2"))
    assert [(note.slug, note.count, note.text) for note in found.notes()] == [
        ("ranks-missing", 5, "3 of 8 ranks are there; missing: 1-2, 5-7"),
        ("rank-repeated", 1, "several profiles have the same rank: 3"),
        ("rank-unknown", 1, "profiles without a rank in a multi-rank run, the first d"),
        ("world-sizes-differ", 1, "the ranks record different numbers of ranks: 6, 8"),
        ("jobs-differ", 1, "the ranks come from several jobs: slurm 1, slurm 2"),
    ]


def test_a_census_without_ranks_says_nothing() -> None:
    found = rank_coverage([("a", [process(None, host="n1")]), ("b", [])])
    assert (found.notes(), found.world_size, found.unranked) == ([], 0, ("a", "b"))


def test_rows_of_numbers_in_words() -> None:
    assert contiguous_ranges([5, 0, 1, 2, 7, 7]) == [(0, 2), (5, 5), (7, 7)]
    assert ranges_as_text([(0, 2), (5, 5)]) == "0-2, 5"
    text = ranges_as_text((n, n) for n in range(0, 40, 2))
    assert text == "0, 2, 4, 6, 8, 10, 12, 14, 16, 18 and 10 more"
