"""Standard streams that are closed, full or gone, signals, and names that would steer a terminal."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import CHILD_ENVIRONMENT, NSYS, add, few
from golden_cases import BASIC, FIXTURES, run

from nsysconv.cli import runtime
from nsysconv.store.location import writing

NASTY = "esc\x1b[31m\u202e\n.sqlite"


def child(
    words: Sequence[str], folder: Path, redirect: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs nsysconv by a shell, with its streams redirected; buffered, as users run it."""
    line = f'exec "$0" -m nsysconv "$@" {redirect}'
    return subprocess.run(
        ["/bin/sh", "-c", line, sys.executable, *words], cwd=folder,
        capture_output=True, text=True, errors="replace", check=False,
        env={**CHILD_ENVIRONMENT, "PYTHONUNBUFFERED": "", **environment},
    )  # fmt: skip


REPORT = ("report", "report1.sqlite", "kernels")


def test_a_closed_stdout_is_the_null_device(tmp_path: Path) -> None:
    done = child(("--version",), tmp_path, ">&-")
    assert (done.returncode, done.stderr) == (0, "")


def test_with_all_streams_closed_an_import_is_done(folder: Path) -> None:
    done = child(("import", "report1.sqlite"), folder, "<&- >&- 2>&-")
    assert done.returncode == 0
    assert run("runs", "report1.db", cwd=folder).status == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(("words",), few([
    (("--help",),), (REPORT,), (("import", "report1.sqlite"),), (("--version",),),
    (("export", "report1.sqlite", "--to", "chrome"),), ((*REPORT, "-f", "csv"),),
], 1), ids=" ".join)  # fmt: skip
def test_a_full_stdout_is_told(folder: Path, words: tuple[str, ...]) -> None:
    done = child(words, folder, ">/dev/full")
    assert (done.returncode, done.stderr) == (2, "nsysconv: stdout: the disk is full\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize(("words", "status"), few([
    (("nonsense",), 2), (("report", "nowhere.sqlite"), 3)], 1))  # fmt: skip
def test_a_full_stderr_changes_no_exit_status(
    words: tuple[str, ...], status: int, tmp_path: Path
) -> None:
    assert child(words, tmp_path, "2>/dev/full").returncode == status


@pytest.mark.parametrize(("words",), few([
    (("report", "--help"),), (REPORT,), (("import", "report1.sqlite"),),
    (("export", "report1.sqlite", "--to", "chrome"),),
], 1), ids=" ".join)  # fmt: skip
def test_a_reader_that_has_gone_is_no_error(folder: Path, words: tuple[str, ...]) -> None:
    reading, writing_end = os.pipe()
    os.close(reading)
    with os.fdopen(writing_end, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "nsysconv", *words], cwd=folder, stdout=closed,
            env=CHILD_ENVIRONMENT, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stdout_that_does_not_wait_is_waited_for() -> None:
    """Programs that share a terminal or a pipe with others make it so."""
    reading, writing_end = os.pipe()
    os.set_blocking(writing_end, False)
    filled = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            filled += os.write(writing_end, b"x" * 4096)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(Path(f"/dev/fd/{reading}").read_bytes()))
    with runtime._Stdout(writing_end, "w") as out, io.BufferedWriter(out) as buffered:
        starter = threading.Timer(0.1, reader.start)
        starter.start()
        buffered.write(b"y" * 200_000)
    starter.join()
    reader.join()
    os.close(reading)
    assert read == [b"x" * filled + b"y" * 200_000]


@pytest.mark.parametrize("encoding", few(["ascii", "utf-8", "latin-1"], 1))
def test_what_stdout_cannot_encode_is_spelled_out(folder: Path, encoding: str) -> None:
    (folder / "report1.sqlite").rename(folder / "caf\u00e9\udcff.sqlite")
    done = child(("import", "caf\u00e9\udcff.sqlite"), folder, PYTHONIOENCODING=f"{encoding}:strict")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_current_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    line = 'rmdir ../gone && exec "$0" -m nsysconv import ../report1.sqlite'
    shutil.copyfile(FIXTURES / BASIC, tmp_path / "report1.sqlite")
    done = subprocess.run(["/bin/sh", "-c", line, sys.executable], cwd=gone, env=CHILD_ENVIRONMENT,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 2
    assert "The current folder has been removed" in done.stderr
    assert "Traceback" not in done.stderr


def test_too_little_memory_is_told(folder: Path) -> None:
    line = 'ulimit -v 200000; exec "$0" -m nsysconv report report1.sqlite'
    done = subprocess.run(["/bin/sh", "-c", line, sys.executable], cwd=folder, env=CHILD_ENVIRONMENT,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("nsysconv: not enough memory: the limit of addresses is 195 MB")


def test_a_program_is_profiled_whatever_the_limit_of_memory(folder: Path) -> None:
    line = 'ulimit -v 200000; exec "$0" -m nsysconv profile --ranks 1 -- nsys profile -o x echo done'
    done = subprocess.run(["/bin/sh", "-c", line, sys.executable], cwd=folder,
                          env={**CHILD_ENVIRONMENT, "RANK": "0"}, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "done\n")


# -- names


@pytest.mark.parametrize(("words",), few([
    (("import",),), (("export", "--to", "chrome"),), (("report", "kernels"),), (("info",),),
], 2))  # fmt: skip
def test_no_name_of_a_file_steers_a_terminal(folder: Path, words: tuple[str, ...]) -> None:
    (folder / "report1.sqlite").rename(folder / NASTY)
    (folder / "bad\x1b[2J.sqlite").write_text("no profile")
    for target in (NASTY, "bad\x1b[2J.sqlite", "nowhere\x1b.sqlite"):
        outcome = run(words[0], target, *words[1:], cwd=folder)
        for line in (outcome.out + outcome.err).split("\n"):
            assert line.isprintable(), line


# -- files that a report is written to


def test_a_report_replaces_no_profile_and_no_store(folder: Path) -> None:
    shutil.copyfile(FIXTURES / "kineto" / "basic-2.13.json", folder / "trace.json")
    run("import", "report1.sqlite", "-o", "job.db", cwd=folder)
    (folder / "link.json").symlink_to("trace.json")
    shutil.copyfile(FIXTURES / "nvprof_log" / "basic-both-traces.csv", folder / "log.csv")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for source, target in (("trace.json", "trace.json"), ("trace.json", "link.json"),
                           ("report1.sqlite", "report1.sqlite"), ("trace.json", "job.db"),
                           ("job.db", "report1.sqlite"), ("report1.sqlite", "trace.json"),
                           ("trace.json", "log.csv")):  # fmt: skip
        outcome = run("report", source, "kernels", "-f", "json", "-o", target, cwd=folder)
        assert outcome.status == 2
        assert "is not replaced by a report" in outcome.err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("name", few(["a.csv", "a.txt", "a.md", "a.json"], 2))
def test_a_report_replaces_a_report(folder: Path, name: str) -> None:
    """Also one under names of nsys, which looks like what `nsys stats` prints."""
    for _ in range(2):
        assert run("report", "report1.sqlite", "cuda_gpu_kern_sum", "-o", name, cwd=folder).status == 0


def test_a_report_keeps_a_link_and_the_mode_of_what_it_replaces(folder: Path) -> None:
    (folder / "real.csv").write_text("old")
    (folder / "real.csv").chmod(0o640)
    (folder / "link.csv").symlink_to("real.csv")
    assert run(*REPORT, "-o", "link.csv", cwd=folder).status == 0
    assert (folder / "link.csv").is_symlink()
    assert (folder / "real.csv").read_text().startswith("profile,")
    assert (folder / "real.csv").stat().st_mode & 0o777 == 0o640
    assert {path.name for path in folder.iterdir()} == {"report1.sqlite", "real.csv", "link.csv"}


def test_a_report_goes_into_a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe.csv")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((folder / "pipe.csv").read_text()))
    reader.start()
    assert run(*REPORT, "-o", "pipe.csv", cwd=folder).status == 0
    reader.join()
    assert read[0].startswith("profile,")


def test_a_name_of_the_greatest_length(folder: Path) -> None:
    name = "x" * 248 + ".sqlite"
    (folder / "report1.sqlite").rename(folder / name)
    assert run("report", name, "kernels", cwd=folder).status == 0
    assert run("import", name, cwd=folder).status == 0
    assert run("export", name, "--to", "chrome", cwd=folder).status == 0
    assert run("report", name, "kernels", "-o", "y" * 250 + ".html", cwd=folder).status == 0
    outcome = run("report", "z" * 300, cwd=folder)
    assert (outcome.status, outcome.err.rsplit(": ", 1)[1]) == (2, "File name too long\n")


# -- signals


@contextlib.contextmanager
def _handled(number: signal.Signals, how: signal.Handlers) -> Iterator[None]:
    """A signal handled so, however it was when the tests were started: `nohup` ignores SIGHUP."""
    before = signal.signal(number, how)
    try:
        yield
        assert signal.getsignal(number) == how, "it was not put back"
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signals_to_end_have_the_status_that_shells_give(
    number: signal.Signals, status: int
) -> None:
    with _handled(number, signal.SIG_DFL):
        with pytest.raises(runtime.Interrupted) as caught, runtime.signals_raise():
            os.kill(os.getpid(), number)
            threading.Event().wait(5)
        assert caught.value.exit_status == status


def test_signals_that_come_together_are_one() -> None:
    """`timeout` and batch systems send several: what is cleaned up is not broken off."""
    cleaned = []
    with pytest.raises(runtime.Interrupted), runtime.signals_raise():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            threading.Event().wait(5)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)
            cleaned.append(True)
    assert cleaned == [True]


def test_an_ignored_signal_stays_ignored() -> None:
    with _handled(signal.SIGHUP, signal.SIG_IGN), runtime.signals_raise():
        os.kill(os.getpid(), signal.SIGHUP)


class _Freed:
    """Is interrupted where nothing can be raised."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):
            pass


def test_a_signal_while_an_object_is_freed_is_not_lost() -> None:
    with pytest.raises(runtime.Interrupted), runtime.signals_raise():
        freed: Any = _Freed()
        del freed
        threading.Event().wait(5)


def test_sigterm_leaves_nothing(folder: Path) -> None:
    """In the middle of an import: the writer of a store is open."""
    script = (
        "import os, signal, sys\n"
        "from nsysconv.store import write\n"
        "def end(*_):\n    os.kill(os.getpid(), signal.SIGTERM)\n"
        "write.add_profile = end\n"
        "from nsysconv.cli import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "import", "report1.sqlite", "-o", "job.db"], cwd=folder,
        env=CHILD_ENVIRONMENT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (143, "nsysconv: interrupted\n")
    assert [path.name for path in folder.iterdir()] == ["report1.sqlite"]


def test_importing_others_leaves_the_streams_alone(folder: Path) -> None:
    """The library changes neither signals nor streams: only the command does."""
    before = sys.stdout, sys.stderr, signal.getsignal(signal.SIGTERM)
    with writing(folder / "job.db") as writer:
        add(writer, NSYS / "basic-3.25.0.sqlite")
    assert (sys.stdout, sys.stderr, signal.getsignal(signal.SIGTERM)) == before
