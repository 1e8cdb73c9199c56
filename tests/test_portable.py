"""Whole commands in a process that lacks what only POSIX has, and paths as Windows has them."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path, PureWindowsPath

import pytest
from conftest import CHILD_ENVIRONMENT, FIXTURES, ROOT, with_slow
from one_answer import EXAMPLES
from run_command import Outcome, run

from nsysconv import capture, partials, processes
from nsysconv.cli import runtime
from nsysconv.errors import CaptureError, InUseError
from nsysconv.store import filesystem
from nsysconv.store.location import parse_location, split_target
from nsysconv.store.sqlite import page_reader
from nsysconv.store.sqlite.connection import file_uri

WITHOUT = ROOT / "tests" / "without_posix.py"
FEW = {"schema-2.rpd"}


def outcomes(commands: Sequence[Sequence[object]], folder: Path) -> list[Outcome]:
    """Run commands in one process without POSIX."""
    lines = "".join(json.dumps([*map(str, words)]) + "\n" for words in commands)
    done = subprocess.run([sys.executable, WITHOUT], input=lines, cwd=folder, stdout=subprocess.PIPE,
                          text=True, check=True, env=CHILD_ENVIRONMENT)  # fmt: skip
    return [Outcome(*json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("example", "is_all"), with_slow(
    ((path, is_all), path.name in FEW and not is_all) for path in EXAMPLES for is_all in (False, True)
), ids=str)  # fmt: skip
def test_whole_commands_without_posix(example: Path, is_all: bool, tmp_path: Path) -> None:
    commands: list[tuple[object, ...]] = [
        ("import", example, "-o", "runs.db"),
        ("report", "runs.db", "summary", "-f", "json", "-o", "summary.json"),
        ("export", "runs.db", "--to", "arrow"),
        ("sql", "runs.db", "select count(*) as n from profile"),
    ]
    if is_all:
        commands += [
            (example,),
            ("import", example, "-o", "runs.db", "--label", "again"),
            ("report", example, "-o", "page.html"),
            ("diff", example, "runs.db"),
            ("info", example),
            ("info", "runs.db", "--check"),
            ("runs", "runs.db"),
            ("why", example, "kernel:1"),
        ]
    with_posix, without = tmp_path / "with", tmp_path / "without"
    for folder in (with_posix, without):
        folder.mkdir()
    expected = [run(*words, cwd=with_posix) for words in commands]
    assert outcomes(commands, without) == expected
    assert {0} <= {each.status for each in expected} <= {0, 3, 4}
    names = [sorted(path.name for path in folder.iterdir()) for folder in (with_posix, without)]
    assert names[0] == names[1]


# -- each need by itself


def test_bytes_at_any_place_without_reads_at_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"0123\r\n\x1a6789")
    descriptor, buffer = page_reader.open_bytes(tmp_path / "file"), bytearray(4)
    for name in ("pread", "preadv"):
        monkeypatch.delattr(os, name)
    try:
        assert page_reader.read_at(descriptor, memoryview(buffer), 4) == 4
        assert bytes(buffer) == b"\r\n\x1a6"
        assert page_reader.read_at(descriptor, memoryview(buffer), 9) == 2
        assert bytes(buffer[:2]) == b"89"
    finally:
        os.close(descriptor)


def test_a_name_is_given_without_links_and_never_in_anothers_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "link")
    for number in (1, 2):
        (tmp_path / f"partial{number}").write_text(f"{number}")
    filesystem.publish(tmp_path / "partial1", tmp_path / "store")
    with pytest.raises(InUseError):
        filesystem.publish(tmp_path / "partial2", tmp_path / "store")
    assert (tmp_path / "store").read_text() == "1"


def test_a_process_that_cannot_be_asked_for_may_be_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with partials.building(tmp_path / "store") as mine:
        other = mine.with_name(mine.name.replace(f"-{os.getpid()}-", f"-{_free_number()}-"))
    for age_s, is_kept in ((0, True), (7200, False)):
        other.write_text("")
        monkeypatch.setattr(partials, "alive", lambda pid: None)
        later = other.lstat().st_ctime + age_s
        monkeypatch.setattr(time, "time", lambda: later)  # noqa: B023
        partials.sweep(tmp_path / "store")
        assert other.exists() is is_kept


def _free_number() -> int:
    return next(number for number in range(2**22, 2**21, -1) if partials.alive(number) is False)


def test_a_process_without_a_group_is_killed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "killpg")
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    processes.kill_group(process)
    assert process.wait() == -signal.SIGKILL
    assert process.stdin is not None
    process.stdin.close()


def test_a_console_that_takes_characters_keeps_its_stream() -> None:
    class Console(io.BytesIO):
        pass

    stream = io.TextIOWrapper(io.BufferedWriter(Console()), encoding="ascii")
    secured = runtime.secured(stream)
    assert secured is stream
    stream.write("\u2588")
    stream.flush()
    assert stream.buffer.raw.getvalue() == b"\\u2588"


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_programs_run_under_a_profiler_on_linux_only(
    system: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    with pytest.raises(CaptureError, match=f"on Linux only, and this is {system}"):
        capture.check_system()


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        (r"C:\Users\me\run 1.db", "file:///C%3A/Users/me/run%201.db"),
        (r"\\host\share\runs.db", "file:////host/share/runs.db"),
        ("C:/a?b#c.db", "file:///C%3A/a%3Fb%23c.db"),
    ],
)
def test_sqlite_opens_paths_of_windows(path: str, uri: str) -> None:
    assert file_uri(PureWindowsPath(path)) == uri


@pytest.mark.parametrize("path", [r"C:\runs\job.db", "C:/runs/job.db", r"\\host\share\job.db"])
def test_a_drive_or_a_share_is_no_address(path: str) -> None:
    assert split_target(path) == (Path(path), None)
    assert split_target(f"{path}@main") == (Path(path), "main")
    assert parse_location(path) == Path(path)


def test_files_of_reports_and_exports_have_names_of_every_system(tmp_path: Path) -> None:
    example = FIXTURES / "nsys" / "basic-3.25.0.sqlite"
    options = r'cuda_gpu_kern_hist:name=a<b>c:"d/\||e*'
    assert run("report", example, options, "-f", "csv", "-o", "tables/", cwd=tmp_path).status == 0
    (table,) = (tmp_path / "tables").iterdir()
    assert table.name == "cuda_gpu_kern_hist_name=a_b_c__d____e_.csv"
    run("import", example, "-o", "runs.db", "--label", r'a<b>:"c/\|?*', cwd=tmp_path)
    assert run("export", r'runs.db@a<b>:"c/\|?*', "--to", "arrow", cwd=tmp_path).status == 0
    assert (tmp_path / "runs-a_b___c______arrow").exists()
