"""The fixtures are what their scripts make, and their README lists each of them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import make_fixtures
import pytest
from conftest import FIXTURES


def test_fixtures_are_what_the_script_makes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["make_fixtures.py", "--check"])
    status = make_fixtures.main()
    assert (status, capsys.readouterr().out) == (
        0, "all fixtures are as the script makes them\n")  # fmt: skip


def test_a_changed_fixture_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One file says something else, one is missing, one is a stranger."""
    shutil.copytree(FIXTURES / "odd", tmp_path / "odd")
    shutil.copy(FIXTURES / "README.md", tmp_path)
    (tmp_path / "odd" / "lfs-pointer.sqlite").write_bytes(b"something else")
    (tmp_path / "odd" / "empty.sqlite").rename(tmp_path / "odd" / "stranger.sqlite")
    monkeypatch.setattr(make_fixtures, "FIXTURES", tmp_path)
    few = [f for f in make_fixtures.fixtures() if f.name.startswith("odd/")]
    monkeypatch.setattr(make_fixtures, "fixtures", lambda: few)
    assert make_fixtures.problems() == [
        "odd/lfs-pointer.sqlite: differs from what the script makes",
        "odd/empty.sqlite: is missing",
        "odd/stranger.sqlite: is not made by the script",
    ]


def test_the_readme_is_what_the_script_writes() -> None:
    """Every file has a row, with its origin and contents."""
    made = make_fixtures.fixtures()
    assert (FIXTURES / "README.md").read_text(encoding="utf-8") == make_fixtures.readme(FIXTURES, made)
    found = {path.relative_to(FIXTURES).as_posix() for path in FIXTURES.glob("*/**/*") if path.is_file()}
    assert found == {fixture.name for fixture in made if fixture.origin and fixture.holds}


def test_fixtures_are_small() -> None:
    sizes = [path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file()]
    assert max(sizes) < 100_000
