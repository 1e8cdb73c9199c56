"""Odd names, and paths behind which there is no file to read."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import (
    CHILD_ENVIRONMENT,
    NSYS,
    Shelf,
    event_rows,
    import_file,
    in_any_order,
    profile_in_place,
)

from nsysconv.errors import InputError
from nsysconv.store.location import reading
from nsysconv.store.read import Profile


def _kernels(profile: Profile) -> list[Any]:
    return event_rows(profile, "kernel")


@pytest.mark.parametrize("name", [
    "what?mode=rwc&x=1.sqlite", "#1 run 100%41.sqlite", "it's; DROP TABLE.sqlite",
    "file:änderung 日本.sqlite", "-o new\nline.sqlite",
])  # fmt: skip
def test_names_with_odd_characters(tmp_path: Path, shelf: Shelf, name: str) -> None:
    _import_under_name(tmp_path, shelf, name)


@pytest.mark.skipif(sys.platform == "darwin", reason="file names are UTF-8 there")
def test_names_that_are_no_utf_8(tmp_path: Path, shelf: Shelf) -> None:
    _import_under_name(tmp_path, shelf, os.fsdecode(b"\xff\xfe.sqlite"))


def _import_under_name(tmp_path: Path, shelf: Shelf, name: str) -> None:
    source, store = tmp_path / name, tmp_path / f"store of {name}.db"
    source.write_bytes((NSYS / "basic-3.25.0.sqlite").read_bytes())
    wanted = _kernels(shelf.profile(NSYS / "basic-3.25.0.sqlite"))
    import_file(source, store)
    with reading(store) as opened:
        (profile,) = opened.profiles()
        assert _kernels(profile) == wanted
        assert profile.ref.label
    with profile_in_place(source) as profile:
        assert _kernels(profile) == wanted
    assert in_any_order(p.name for p in tmp_path.iterdir()) == in_any_order([name, store.name])


@pytest.mark.parametrize("where", ["missing.sqlite", ".", "missing/folder.sqlite"])
def test_nothing_to_read(tmp_path: Path, where: str) -> None:
    with pytest.raises(InputError) as caught:
        import_file(tmp_path / where, tmp_path / "store.db")
    assert caught.value.where == str(tmp_path / where)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero"])
def test_devices_that_are_no_file(tmp_path: Path, device: str) -> None:
    with pytest.raises(InputError):
        import_file(Path(device), tmp_path / "store.db")


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    """Opening it would wait for a writer, for ever."""
    os.mkfifo(tmp_path / "pipe")
    code = f"""
from pathlib import Path
from nsysconv.errors import InputError
from nsysconv.importers.probe import Probe
try:
    Probe(Path({str(tmp_path / "pipe")!r}))
except InputError as error:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", code], env=CHILD_ENVIRONMENT, timeout=5,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.stdout == "refused\n", done.stderr[-2000:]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    source = tmp_path / "secret.sqlite"
    source.write_bytes(b"SQLite format 3\0")
    source.chmod(0)
    with pytest.raises(InputError, match=r"[Pp]ermission"):
        import_file(source, tmp_path / "store.db")
