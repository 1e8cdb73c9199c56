"""`diff STORE@last:N OTHER`: which runs are the base, and that nothing else about the answer differs."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import NSYS, few
from run_command import run
from small_store import Kernel, write

from nsysconv import api
from nsysconv.api.diffing import open_sides
from nsysconv.api.targets import silent
from nsysconv.errors import UsageError

BASIC, OTHER = NSYS / "basic-3.25.0.sqlite", NSYS / "basic-3.4.0.sqlite"


def write_run(
    store: Path, label: str, utc: int | None, kernel_ns: int = 1_000, **options: object
) -> None:
    kernels = [Kernel(10_000 * i, 10_000 * i + kernel_ns, i) for i in range(1, 5)]
    write(store, *kernels, label=label, utc=utc, **options)  # type: ignore[arg-type]


def base_of(base: Path | str, other: Path | str) -> list[list[str]]:
    """The labels of the base's runs, each of its ranks."""
    with ExitStack() as stack:
        side, _ = open_sides(str(base), str(other), stack, silent)
        return [[profile.profile.ref.label for profile in of_run] for of_run in side.runs]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stores")
    for label, utc, ns in (("d", 400, 1_020), ("a", 100, 1_000), ("b", 200, 1_010)):
        write_run(folder / "runs.db", label, utc, ns)
    for rank in (1, 0):
        write_run(folder / "runs.db", f"c{rank}", 300 + rank, run="c", ranks={1: rank})
    write_run(folder / "new.db", "e", 50, 1_500)
    return folder


@pytest.fixture
def store(stores: Path, tmp_path: Path) -> Path:
    """Runs a, b, c and d, recorded in that order and imported in another; c has two ranks."""
    shutil.copytree(stores, tmp_path, dirs_exist_ok=True)
    return tmp_path / "runs.db"


@pytest.mark.parametrize(("word", "other", "runs"), [
    ("last:2", "new.db", [["c0", "c1"], ["d"]]),
    ("last:3", "new.db", [["b"], ["c0", "c1"], ["d"]]),
    ("last:99", "new.db", [["a"], ["b"], ["c0", "c1"], ["d"]]),
    # The other side is no part of its own base.
    ("last:2", "runs.db@d", [["b"], ["c0", "c1"]]),
    ("last:2", "runs.db@c1", [["b"], ["d"]]),
    ("last:2", "runs.db@last:2", [["a"], ["b"]]),
])  # fmt: skip
def test_the_newest_runs_without_the_other_side(
    store: Path, word: str, other: str, runs: list[list[str]]
) -> None:
    assert base_of(f"{store}@{word}", store.parent / other) == runs


def test_one_run_without_a_time_and_all_are_in_order_of_import(store: Path) -> None:
    write_run(store, "f", None)
    assert base_of(f"{store}@last:2", store.parent / "new.db") == [["c0", "c1"], ["f"]]


def test_a_file_that_is_in_the_store_already(tmp_path: Path) -> None:
    store, copy = tmp_path / "job.db", tmp_path / "copy.sqlite"
    api.import_files([OTHER], store)
    api.import_files([BASIC], store)
    shutil.copyfile(BASIC, copy)
    assert base_of(f"{store}@last:5", copy) == [["basic-3.4.0"]]
    api.import_files([copy], tmp_path / "other.db")
    assert base_of(f"{store}@last:5", tmp_path / "other.db") == [["basic-3.4.0"]]


def test_a_label_wins(store: Path) -> None:
    write_run(store, "last:2", 1)
    assert base_of(f"{store}@last:2", store.parent / "new.db") == [["last:2"]]


@pytest.mark.parametrize(("command", "word"), [
    ("info {}", "last:0"), ("info {}", "last:"), ("info {}", "last:-3"), ("history {}", "last:x"),
    ("diff {} new.db overview", "last:1.5"), ("report {} overview", "last:3 runs"),
    ("forget runs.db {word}", "last:0"),
])  # fmt: skip
def test_what_n_is_and_that_a_label_may_be_spelled_so(store: Path, command: str, word: str) -> None:
    words = [part.format(f"{store.name}@{word}", word=word) for part in command.split()]
    refused = run(*words, cwd=store.parent)
    assert (refused.status, refused.out) == (2, "")
    assert refused.err.splitlines() == [
        f"nsysconv: {word} selects no run",
        "N of last:N is a number of runs: job.db@last:20 is the newest 20.",
    ]
    write_run(store, word, 1)
    assert run(*words, cwd=store.parent).status == 0


def test_nothing_to_compare_with(store: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.db"
    write_run(alone, "a", 1)
    for base, what in ((f"{alone}@last:3", "no run beside"), (f"{store}@last:0", "selects no run"),
                       (f"{tmp_path / 'nowhere.db'}@last:3", "no such file")):  # fmt: skip
        with pytest.raises(UsageError if "nowhere" not in base else Exception, match=what):
            base_of(base, f"{alone}@a")


def test_the_answer_is_that_of_the_same_runs_named_otherwise(store: Path, tmp_path: Path) -> None:
    write_run(tmp_path / "three.db", "b", 200, 1_010)
    for rank in (0, 1):
        write_run(tmp_path / "three.db", f"c{rank}", 300 + rank, run="c", ranks={1: rank})
    write_run(tmp_path / "three.db", "d", 400, 1_020)
    limit = "overview.kernel_sum_ns:3%"
    found = api.compare(f"{store}@last:3", tmp_path / "new.db", ["overview"], fail_on=limit)
    expected = api.compare(tmp_path / "three.db", tmp_path / "new.db", ["overview"], fail_on=limit)
    assert (found.answer, found.exit_status) == (expected.answer, expected.exit_status)
    assert [each.rows() for each in found.reports] == [each.rows() for each in expected.reports]


def test_other_commands_take_the_newest_run(store: Path) -> None:
    assert run("info", f"{store}@last:1", cwd=store.parent).out.startswith("Profile d\n")
    several = run("report", f"{store}@last:3", "overview", cwd=store.parent)
    assert several.status == 2
    assert "holds 3 runs: name one" in several.err


def test_the_comment_has_the_runs_as_heights(store: Path) -> None:
    # 31.00 to 31.02 us and 31.5 us, on 8 levels of 5 % about the middle.
    limits = ("overview", "--fail-on", "overview.window_ns:3%", "-f", "markdown", "--brief")
    out = run("diff", "runs.db@last:9", "new.db", *limits, cwd=store.parent).out
    assert "\n* GPU active window, 4 runs and 1 new: " in out
    assert "1 new: ▃▃▃▃▆\n" in out
    out = run("diff", "runs.db@a", "new.db", *limits, cwd=store.parent).out
    assert "new: " not in out


# -- the best runs


def write_levels(store: Path, *levels: int, **options: object) -> None:
    """Ten runs of each length, by -5 to 4 ns, called by their numbers."""
    lengths = [level + (3 * i) % 10 - 5 for level in levels for i in range(10)]
    for number, length in enumerate(lengths):
        write_run(store, f"r{number}", 1_000 + number, length, **options)


def numbers(*runs: int) -> list[list[str]]:
    return [[f"r{number}"] for number in range(*runs)]


UTILIZATION = "best:gpu_utilization.gpu_utilization_pct"
SUM, LARGEST = "best:overview.kernel_sum_ns", "best:kernels[/^kernel$/].max_ns"


@pytest.mark.parametrize(("levels", "found"), few([
    # The newest 20 of a level.
    ((900, 900, 900), {SUM: numbers(10, 30)}),
    ((1_000, 900, 1_100), {SUM: numbers(10, 20)}),
    # More is better.
    ((900, 1_000, 900), {LARGEST: numbers(10), UTILIZATION: numbers(10, 20)}),
], 1))  # fmt: skip
def test_the_runs_of_the_best_level(
    tmp_path: Path, levels: tuple[int, ...], found: dict[str, list[list[str]]]
) -> None:
    write_levels(tmp_path / "runs.db", *levels)
    write_run(tmp_path / "new.db", "e", 50)
    for word, runs in found.items():
        assert base_of(f"{tmp_path / 'runs.db'}@{word}", tmp_path / "new.db") == runs


def test_the_best_of_another_gpu_is_no_base(tmp_path: Path) -> None:
    write_run(tmp_path / "runs.db", "old", 1, 500, gpus={0: {"name": "fast"}})
    write_levels(tmp_path / "runs.db", 900)
    write_run(tmp_path / "new.db", "e", 50)
    assert base_of(f"{tmp_path / 'runs.db'}@{SUM}", tmp_path / "new.db") == numbers(10)


def test_the_newest_runs_on_a_gpu_of_the_other_side(tmp_path: Path) -> None:
    """Runs 1 and 4 of A, as two drivers call it, 2 and 3 of B, 5 of both; where there are none, all."""
    names = {1: ("A",), 2: ("B",), 3: ("B",), 4: ("NVIDIA A",), 5: ("A", "B")}
    for number, gpus in names.items():
        kernels = (Kernel(10, 20, i, device=i) for i in range(len(gpus)))
        named = {i: {"name": name} for i, name in enumerate(gpus)}
        write(tmp_path / "runs.db", *kernels, gpus=named, label=f"{number}", utc=number)
    for gpu, runs in (("A", "14"), ("B", "23"), ("C", "12345")):
        write_run(tmp_path / f"{gpu}.db", "new", 50, gpus={0: {"name": gpu}})
        for word, newest in (("last:9", runs), ("last:2", runs[-2:])):
            found = base_of(f"{tmp_path / 'runs.db'}@{word}", tmp_path / f"{gpu}.db")
            assert found == [[label] for label in newest]
    best = base_of(f"{tmp_path / 'runs.db'}@{SUM}", tmp_path / "B.db")
    assert "1" not in {label for run in best for label in run}


def test_what_creeps_exceeds_a_limit_to_the_best(tmp_path: Path) -> None:
    # 1.5 % more every ten runs: 4.6 % more than the first ten, and 1.5 % more than the last.
    write_levels(tmp_path / "runs.db", 1_000, 1_015, 1_030)
    write_run(tmp_path / "new.db", "e", 50, 1_046)
    limit = ("overview.kernel_sum_ns:3%",)
    for word, runs, status in (("last:10", numbers(20, 30), 0), (SUM, numbers(10), 1)):
        base = f"{tmp_path / 'runs.db'}@{word}"
        assert base_of(base, tmp_path / "new.db") == runs
        result = api.compare(base, tmp_path / "new.db", ["overview"], fail_on=limit)
        assert result.exit_status == status


@pytest.mark.parametrize("word", ["best:", "best:overview.kernel", "best:steps.period_ns"])
def test_no_best(store: Path, word: str) -> None:
    with pytest.raises(UsageError):
        base_of(f"{store}@{word}", store.parent / "new.db")


def test_a_recording_on_both_sides_is_said(store: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        shutil.copyfile(BASIC if name == "one" else OTHER, tmp_path / f"{name}.sqlite")
    files = [tmp_path / "one.sqlite", tmp_path / "two.sqlite"]
    imported = tmp_path / "imported.db"
    api.import_files(files, imported)
    for base, other, count in (
        (store, f"{store}@b", 1), (f"{store}@b", store, 1), (f"{store}@last:2", f"{store}@b", 0),
        (f"{store}@b", f"{store}@d", 0), (store, tmp_path / "new.db", 0), (store, store, 0),
        # What is read in place is known by its path, and in a store by its bytes.
        (tmp_path / "*.sqlite", files[0], 1), (imported, files[0], 1),
    ):  # fmt: skip
        found = api.compare(base, other, "overview").reports[0].notes
        counts = [note.count for note in found if note.slug == "on-both-sides"]
        assert counts == ([count] if count else []), (base, other)
