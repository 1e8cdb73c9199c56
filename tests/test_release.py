"""What a release needs agrees before there is one; `make release-check` does the rest."""

from __future__ import annotations

import subprocess
from pathlib import Path

import make_dist
import pytest
import release_check
from conftest import ROOT


def copied(folder: Path) -> Path:
    """A folder with the files that a release changes."""
    for name in ("README.md", "CHANGELOG.md", "CITATION.cff", "pyproject.toml"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
    return folder


def test_versions_agree() -> None:
    assert list(release_check.wrong_in_versions(None)) == []


def test_the_patch_makes_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, tag = copied(tmp_path), f"v{make_dist.version()}"
    assert [*release_check.wrong_in_versions(tag)] == ["dist/release.patch was not applied"]
    subprocess.run(["git", "apply"], input=release_check.patch(), cwd=folder, text=True, check=True)
    monkeypatch.setattr(release_check, "ROOT", folder)
    assert [*release_check.wrong_in_versions(tag)] == []
    assert [*release_check.wrong_in_versions("v99")] == [f"the tag is v99, the version {tag[1:]}"]
    readme = (folder / "README.md").read_text(encoding="utf-8")
    assert all(f"    {line}\n" in readme for line in release_check.INSTALL.values())
    assert "install '." not in readme


def test_notes_are_what_the_changelog_says() -> None:
    notes = release_check.notes()
    assert notes.startswith("The first version.")
    assert "\n## " not in notes


def test_a_recipe_has_each_dependency(tmp_path: Path) -> None:
    (tmp_path / "sdist").write_bytes(b"")
    recipe = release_check.recipe(tmp_path / "sdist")
    assert "sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n" in recipe
    assert "    - pyarrow-core >=" in recipe
    assert "nvtx" not in recipe
