"""The fixtures are what their scripts make, and their README lists each of them."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
from pathlib import Path

import make_fixtures
import pytest
from conftest import FIXTURES

FOLDERS = tuple(sorted(path.name for path in FIXTURES.iterdir() if path.is_dir()))
ROW = re.compile(
    rf"\| `((?:{'|'.join(FOLDERS)})/[^`]+)` \| (.+) \| (.+) \| (\d+) \| `([0-9a-f]{{64}})` \|"
)


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
    wanted = make_fixtures.readme(FIXTURES, make_fixtures.fixtures())
    assert (FIXTURES / "README.md").read_text(encoding="utf-8") == wanted


def test_every_fixture_has_its_origin_in_the_readme() -> None:
    """Origin, contents, size and checksum; and no row without a file."""
    listed = {}
    for line in (FIXTURES / "README.md").read_text(encoding="utf-8").splitlines():
        if match := ROW.fullmatch(line):
            name, origin, holds, size, digest = match.groups()
            assert origin
            assert holds
            listed[name] = (int(size), digest)
    files = [path for folder in FOLDERS
             for path in (FIXTURES / folder).iterdir()]
    found = {}
    for path in files:
        content = path.read_bytes()
        name = f"{path.parent.name}/{path.name}"
        found[name] = (len(content), hashlib.sha256(content).hexdigest())
    assert listed == found


def test_fixtures_are_small() -> None:
    sizes = [path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file()]
    assert max(sizes) < 100_000
