"""The fixtures are what their scripts make, and their README lists each of them."""

from __future__ import annotations

import sys

import make_fixtures
import pytest
from conftest import FIXTURES


@pytest.mark.slow  # `make check` asks the same
def test_fixtures_are_what_the_script_makes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["make_fixtures.py", "--check"])
    status = make_fixtures.main()
    assert (status, capsys.readouterr().out) == (
        0, "all fixtures are as the script makes them\n")  # fmt: skip


def test_the_readme_is_what_the_script_writes() -> None:
    """Every file has a row, with its origin and contents."""
    made = make_fixtures.fixtures()
    assert (FIXTURES / "README.md").read_text(encoding="utf-8") == make_fixtures.readme(FIXTURES, made)
    found = {path.relative_to(FIXTURES).as_posix() for path in FIXTURES.glob("*/**/*") if path.is_file()}
    assert found == {fixture.name for fixture in made if fixture.origin and fixture.holds}


def test_fixtures_are_small() -> None:
    sizes = [path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file()]
    assert max(sizes) < 100_000
