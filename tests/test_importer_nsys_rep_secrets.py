"""What a report of Nsight Systems holds of a machine leaves it by no way: a token is in every place.

Damaged reports, bits flipped beside a token among them, are tried in test_fuzz.py.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import FrameType

import pyarrow as pa
import pytest
from conftest import CHILD_ENVIRONMENT, NSYS, by_turns, few
from nsys_rep_wire import Block, Report, Samples
from pyarrow import parquet
from run_command import run
from test_secrets import everything
from write_nsys_rep import SECRETS, write_report

import nsysconv
from nsysconv.export import ALL_FORMATS
from nsysconv.store.location import reading

TOKENS = {place: f"CANARY-{place}-END" for place in SECRETS}
FOUND = {token.encode(coding): place
         for place, token in TOKENS.items() for coding in ("utf-8", "utf-16-le")}  # fmt: skip
EXPORT = NSYS / "basic-3.16.1.sqlite"
# The head and the clocks are others in each.
BUILDS = ["2026.1.1.204", "2024.5.1.113", "2020.3.2.6"]


def tokens_in(content: bytes | str) -> set[str]:
    """The places whose tokens stand in it."""
    content = content.encode() if isinstance(content, str) else content
    return {place for token, place in FOUND.items() if token in content}


def tokens_below(folder: Path, but: Path | None = None) -> set[str]:
    """Those of all files in a folder, one excepted."""
    files = (path for path in folder.rglob("*") if path.is_file() and path != but)
    return {place for path in files for place in tokens_in(content_of(path) + path.name.encode())}


def content_of(path: Path) -> bytes:
    """A file's bytes; of tables that are packed also what they hold."""
    content = path.read_bytes()
    if path.suffix == ".parquet":
        table = parquet.read_table(path)
        content += f"{table.schema.metadata} {table.to_pylist()}".encode()
    elif path.suffix == ".arrow":
        with pa.ipc.open_file(path) as file:
            content += f"{file.schema.metadata} {file.read_all().to_pylist()}".encode()
    return content


@pytest.fixture(scope="module", params=few(BUILDS, 2))
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report with a token in every place."""
    path = tmp_path_factory.mktemp("planted") / "run.nsys-rep"
    write_report(EXPORT, path, build=request.param, secrets=TOKENS)
    return path


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files; what a command is given and makes lies beside it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


# -- so that the tests below can fail


def test_the_report_holds_every_token(report: Path) -> None:
    blocks = (block.raw for block in blocks_of(Report.read(report.read_bytes()).samples()))
    assert tokens_in(report.read_bytes() + b"".join(blocks)) == set(SECRETS)


def blocks_of(samples: Samples) -> list[Block]:
    """The packed blocks of events and of strings."""
    return [*samples.events, *samples.strings]


# -- what is read, shown and written

COMMANDS: dict[str, list[str]] = {
    "the answer": [],
    "info": ["info"],
    "all reports": ["report", "all", "-f", "json"],
    "the page": ["report", "-o", "page.html"],
    "import": ["import", "-o", "job.db"],
    "diff": ["diff", "again"],
    "list": ["report", "--list"],
    **{f"export to {name}": ["export", "--to", name, "-o", f"made.{name}"] for name in ALL_FORMATS},
}


@pytest.mark.parametrize(("command", "report"), by_turns(COMMANDS, BUILDS, 3), indirect=["report"])
def test_no_token_in_what_a_command_writes(
    command: str, report: Path, temporary: Path, tmp_path: Path
) -> None:
    words = COMMANDS[command]
    rest = [str(report) if word == "again" else word for word in words[1:]]
    outcome = run(*words[:1], report, *rest, cwd=tmp_path)
    assert outcome.status == 0, outcome.err
    assert tokens_in(outcome.out + outcome.err) | tokens_below(tmp_path) == set()
    assert [*temporary.iterdir()] == []


@pytest.mark.parametrize(("name", "report"), by_turns(ALL_FORMATS, BUILDS, 6), indirect=["report"])
def test_names_are_found_in_what_an_export_writes(name: str, report: Path, tmp_path: Path) -> None:
    """So that the test above can fail."""
    made = tmp_path / "made"
    nsysconv.export_profiles(report, name, made)
    files = [made] if made.is_file() else [*made.iterdir()]
    assert b"cudaLaunchKernel" in b"".join(content_of(path) for path in files)


def test_no_token_in_anything_a_store_shows(report: Path, tmp_path: Path) -> None:
    nsysconv.import_files([report], store=tmp_path / "job.db")
    with reading(tmp_path / "job.db") as store:
        assert {place for text in everything(store) for place in tokens_in(text)} == set()


# -- what is left of a process that crashes, or is killed, in the middle

# How it ends: the exit statuses.
ENDS = {"crash": {3, 70}, "kill": {-9}}

DISTURBED = """
import os, signal, sys, threading
how, left = sys.argv[1], int(sys.argv[2])
del sys.argv[1:3]
made = 0
def count(frame, event, argument):
    global made
    if event == "call" and "/nsysconv/importers/" in frame.f_code.co_filename:
        made += 1
        if made == left:
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise RuntimeError("planted")
from nsysconv.cli import main
sys.setprofile(count)
threading.setprofile(count)
try:
    main()
finally:
    sys.setprofile(None)
"""


@dataclass(frozen=True)
class Ended:
    """How an import ended, and what it printed."""

    status: int
    said: str


def disturbed(how: str, call: int, report: Path, cwd: Path) -> Ended:
    """An import in a process of its own, in which the nth call within the importers does not return."""
    done = subprocess.run(
        [sys.executable, "-c", DISTURBED, how, str(call), "import", str(report), "-o", "job.db"],
        cwd=cwd, env=CHILD_ENVIRONMENT | {"TMPDIR": str(cwd / "temporary")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout + done.stderr)


@pytest.fixture(scope="module")
def calls(report: Path, tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many calls within the importers an import makes: of a report, and of its tables."""
    made = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal made
        made += event == "call" and "/nsysconv/importers/" in frame.f_code.co_filename

    sys.setprofile(count)
    try:
        nsysconv.import_files([report], store=tmp_path_factory.mktemp("undisturbed") / "job.db")
    finally:
        sys.setprofile(None)
    return made


@pytest.mark.parametrize(("part", "how", "report"), few(
    [(part, how, BUILDS[part % 3]) for part, how in product(range(1, 16), ENDS)], 1
), indirect=["report"])  # fmt: skip
def test_no_token_is_left_by_an_import_that_ends_in_the_middle(
    part: int, how: str, calls: int, report: Path, temporary: Path, tmp_path: Path
) -> None:
    ended = disturbed(how, max(1, calls * part // 16), report, tmp_path)
    assert ended.status in ENDS[how], ended.said
    assert tokens_in(ended.said) | tokens_below(tmp_path) == set()
