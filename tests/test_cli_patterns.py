"""Patterns of files, quoted or as the shell lists what matches them, for every command."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from conftest import NSYS, few
from golden_cases import Outcome, run

ONE, TWO = NSYS / "basic-3.25.0.sqlite", NSYS / "graphs-3.28.1.sqlite"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sides, of two and one recordings; and one recording beside them."""
    for side, files in (("base", (ONE, TWO)), ("other", (TWO,))):
        (tmp_path / side).mkdir()
        for number, file in enumerate(files):
            shutil.copy(file, tmp_path / side / f"r{number}.sqlite")
    shutil.copy(ONE, tmp_path / "alone.sqlite")
    return tmp_path


def out(folder: Path, *words: str, status: int = 0) -> str:
    """What a command prints in the folder."""
    done = run(*words, cwd=folder)
    assert done.status == status, done
    return done.out


def listed(folder: Path, pattern: str) -> list[str]:
    """What a shell makes of a pattern."""
    return sorted(str(path.relative_to(folder)) for path in folder.glob(pattern))


def test_a_report_on_a_pattern_is_that_on_its_files(folder: Path) -> None:
    expected = out(folder, "report", "base", "overview", "-f", "csv")
    assert out(folder, "report", "base/*.sqlite", "overview", "-f", "csv") == expected
    files = listed(folder, "base/*.sqlite")
    assert out(folder, "report", *files, "overview", "-f", "csv") == expected


def test_the_answer_on_a_pattern_is_that_on_its_files(folder: Path) -> None:
    shutil.copy(NSYS / "basic-3.28.1.sqlite", folder / "base" / "r2.sqlite")
    files = listed(folder, "base/*.sqlite")
    first = out(folder, "base/*.sqlite").splitlines()[1:4]
    assert first == out(folder, *files).splitlines()[1:4] == out(folder, "base").splitlines()[1:4]


def test_a_comparison_of_patterns(folder: Path) -> None:
    expected = out(folder, "diff", "base", "other", "overview", "-f", "csv")
    quoted = "base/*.sqlite", "other/*.sqlite"
    assert out(folder, "diff", *quoted, "overview", "-f", "csv") == expected
    shell = [word for pattern in quoted for word in listed(folder, pattern)]
    assert len(shell) == 3
    assert out(folder, "diff", *shell, "overview", "-f", "csv") == expected


def test_sides_in_one_folder_are_known_by_their_names(folder: Path) -> None:
    names = ["before1.sqlite", "before2.sqlite", "later1.sqlite"]
    for name, file in zip(names, (ONE, TWO, TWO), strict=True):
        shutil.copy(file, folder / name)
    expected = out(folder, "diff", "base", "other", "overview", "-f", "csv")
    assert out(folder, "diff", *names, "overview", "-f", "csv") == expected


@pytest.mark.parametrize("files", [["base/r0.sqlite", "alone.sqlite", "other/r0.sqlite"],
                                   ["a1.sqlite", "b1.sqlite", "c1.sqlite"]])  # fmt: skip
def test_files_that_could_be_of_either_side(files: Sequence[str], folder: Path) -> None:
    for name in files:
        if not (folder / name).exists():
            shutil.copy(ONE, folder / name)
    done = run("diff", *files, cwd=folder)
    assert (done.status, done.out) == (2, "")
    assert "3 files: which are of which side?" in done.err
    assert "nsysconv diff 'base/*.sqlite' 'other/*.sqlite'" in done.err


@pytest.mark.parametrize(("words", "report"), [
    (("report", "alone.sqlite", "core"), "Kernels by name"),
    (("diff", "alone.sqlite", "other/r0.sqlite", "account"), "Breakdown of the change"),
])  # fmt: skip
def test_a_file_that_is_called_like_a_report_is_none_of_the_files(
    words: Sequence[str], report: str, folder: Path
) -> None:
    # A program that failed leaves a file called core.
    (folder / words[-1]).write_bytes(b"\x7fELF")
    assert report in out(folder, *words)


def test_an_import_of_a_pattern(folder: Path) -> None:
    for name, words in (("quoted.db", ["base/*.sqlite"]), ("shell.db", listed(folder, "base/*.sqlite"))):
        out(folder, "import", *words, "-o", name)
        assert "r0" in out(folder, "runs", name)
        assert "r1" in out(folder, "runs", name)


@pytest.mark.parametrize(("words",), few([(words,) for words in (
    ("info", "al*.sqlite"), ("sql", "al*.sqlite", "select count(*) as n from kernel"),
    ("export", "al*.sqlite", "--to", "parquet", "-o", "exported"), ("why", "al*.sqlite", "kernel:1"),
)], 1))  # fmt: skip
def test_a_pattern_of_one_file_is_that_file(words: Sequence[str], folder: Path) -> None:
    plain = [word.replace("al*", "alone") for word in words]
    found = out(folder, *words)
    shutil.rmtree(folder / "exported", ignore_errors=True)
    assert found == out(folder, *plain)


@pytest.mark.parametrize(
    "words", [("info", "base/*"), ("sql", "base/*", "select 1"), ("why", "base/*", "kernel:1")]
)
def test_one_profile_is_not_two_files(words: Sequence[str], folder: Path) -> None:
    done = run(*words, cwd=folder)
    assert done.status == 2, done
    assert "base/*: 2 files match" in done.err
    assert "nsysconv import 'base/*' -o STORE.db" in done.err


@pytest.mark.parametrize("words", [("import", "no*", "-o", "store.db"), ("diff", "no*", "alone.sqlite"),
                                   ("report", "no*", "kernels")])  # fmt: skip
def test_what_matches_nothing(words: Sequence[str], folder: Path) -> None:
    done: Outcome = run(*words, cwd=folder)
    assert done.status in (2, 3)
    assert done.out == ""
    assert "no*: no" in done.err


def test_a_file_with_such_a_name_is_that_file(folder: Path) -> None:
    shutil.copy(ONE, folder / "run[1].sqlite")
    shutil.copy(TWO, folder / "run1.sqlite")
    expected = out(folder, "report", "alone.sqlite", "kernels", "-f", "csv")
    found = out(folder, "report", "run[1].sqlite", "kernels", "-f", "csv")
    assert found == expected.replace("alone", "run[1]")
