"""What replaces a file: through which links, and who may read it meanwhile."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path
from typing import TextIO

import pytest
from conftest import NSYS
from golden_cases import run

from nsysconv.errors import UsageError
from nsysconv.store.filesystem import follow_links, write_atomically

BASIC = NSYS / "basic-3.25.0.sqlite"
STRANGER = 54321


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder as /tmp is."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def after(file: TextIO) -> None:
    file.write("after")


def belongs_to(path: Path, user: int) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a link of another user")
    os.chown(path, user, -1, follow_symlinks=False)


def test_ones_own_link_is_followed(shared: Path, tmp_path: Path) -> None:
    link, kept = shared / "report.html", tmp_path / "kept.html"
    kept.write_text("before")
    link.symlink_to("between")
    (shared / "between").symlink_to(kept)
    write_atomically(link, after)
    assert kept.read_text() == "after"
    assert link.is_symlink()


def test_a_link_of_another_user_is_not_followed(shared: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept.html"
    kept.write_text("before")
    (shared / "report.html").symlink_to(kept)
    belongs_to(shared / "report.html", STRANGER)
    (shared / "ours").symlink_to("report.html")
    for link in ("report.html", "ours"):
        with pytest.raises(UsageError, match="a link of another user"):
            write_atomically(shared / link, after)
    assert kept.read_text() == "before"


def test_a_link_of_the_folders_owner_is_followed(shared: Path, tmp_path: Path) -> None:
    (shared / "report.html").symlink_to(tmp_path / "kept.html")
    belongs_to(shared / "report.html", STRANGER)
    belongs_to(shared, STRANGER)
    write_atomically(shared / "report.html", after)
    assert (tmp_path / "kept.html").read_text() == "after"


@pytest.mark.parametrize("mode", [0o755, 0o777, 0o1775], ids=oct)
def test_elsewhere_any_link_is_followed(shared: Path, tmp_path: Path, mode: int) -> None:
    shared.chmod(mode)
    (shared / "report.html").symlink_to(tmp_path / "kept.html")
    belongs_to(shared / "report.html", STRANGER)
    assert follow_links(shared / "report.html") == tmp_path / "kept.html"


def test_links_that_lead_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="symbolic links"):
        write_atomically(tmp_path / "a", after)


@pytest.mark.parametrize(("words", "target"), [
    (("report", "kernels", "-o"), "kept.csv"), (("report", "kernels", "-o"), "kept/"),
    (("import", "-o"), "kept.db"),
], ids=lambda each: each if isinstance(each, str) else None)  # fmt: skip
def test_commands_refuse_a_link_of_another_user(
    shared: Path, tmp_path: Path, words: tuple[str, ...], target: str
) -> None:
    kept = tmp_path / target
    if target.endswith("/"):
        kept.mkdir()
    elif target.endswith(".db"):
        assert run("import", str(BASIC), "-o", str(kept), cwd=tmp_path).status == 0
    else:
        kept.write_text("before")
    before = kept.read_bytes() if kept.is_file() else None
    link = shared / kept.name
    link.symlink_to(kept)
    belongs_to(link, STRANGER)
    shutil.copyfile(NSYS / "graphs-3.24.0.sqlite", tmp_path / "source.sqlite")
    given = f"{link}/" if target.endswith("/") else str(link)
    outcome = run(words[0], "source.sqlite", *words[1:], given, cwd=tmp_path)
    assert outcome.status == 2
    assert f"{link}: a link of another user in a folder that everybody may write to" in outcome.err
    assert list(kept.iterdir()) == [] if before is None else kept.read_bytes() == before


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o666], ids=oct)
def test_a_replaced_file_has_its_mode_before_it_has_any_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    path, seen = tmp_path / "report.html", list[tuple[int, int]]()
    path.write_text("before")
    path.chmod(mode)
    fchmod = os.fchmod

    def look(descriptor: int) -> None:
        about = os.fstat(descriptor)
        seen.append((stat.S_IMODE(about.st_mode), about.st_size))

    def noted(descriptor: int, wanted: int) -> None:
        look(descriptor)
        fchmod(descriptor, wanted)
        look(descriptor)

    monkeypatch.setattr(os, "fchmod", noted)
    write_atomically(path, after)
    (first, last) = seen
    assert first[0] & ~mode == 0
    assert last == (mode, 0)
    assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("after", mode)


def test_a_new_file_has_the_users_mode(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "report.html", after)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == 0o640
