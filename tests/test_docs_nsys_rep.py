"""docs/formats/nsys-rep.md takes a report apart: its bytes are those that the script writes."""

from __future__ import annotations

import re
import shlex
import shutil
import sqlite3
import subprocess
import tomllib
from contextlib import closing
from pathlib import Path

import docs_nsys_rep
import generate_docs
import pytest
from conftest import ROOT
from two_calls import write_export
from write_examples import write_examples

import nsysconv

PAGE = (ROOT / "docs" / docs_nsys_rep.PAGE).read_text(encoding="utf-8")
PARTS = {
    name: text.split("\n\n")
    for name, text in re.findall(
        r"<!-- Written by `make docs`: ([a-z ]+)\. -->\n```text\n(.*?)\n```\n<!-- End", PAGE, re.S)
}  # fmt: skip
DUMPS = re.findall(r"^\$ (xxd .+)\n((?:[0-9a-f]{8}: .+\n)+)", PAGE, re.M)
DECODER = ROOT / "nsysconv" / "importers" / "nsys_rep"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report, and its blocks in the files that the page writes them to."""
    path = tmp_path_factory.mktemp("page")
    write_examples(path, docs_nsys_rep.REPORT)
    for name, (_, block, _) in zip(("events.bin", "strings.bin"), docs_nsys_rep.blocks(), strict=True):
        (path / name).write_bytes(block.raw)
    return path


@pytest.mark.parametrize("name", docs_nsys_rep.PARTS)
def test_the_page_shows_what_the_script_writes(name: str) -> None:
    page = docs_nsys_rep.PAGE
    assert generate_docs.with_part(page, name) == PAGE, "run: make docs"


def test_every_part_is_on_the_page() -> None:
    assert PARTS.keys() == docs_nsys_rep.PARTS.keys()
    assert len(DUMPS) == 10


@pytest.mark.parametrize(("command", "shown"), DUMPS, ids=[command for command, _ in DUMPS])
@pytest.mark.skipif(shutil.which("xxd") is None, reason="no xxd")
def test_dumps_are_those_of_xxd(command: str, shown: str, folder: Path) -> None:
    done = subprocess.run(shlex.split(command), cwd=folder, capture_output=True, text=True, check=True)
    assert [line.rstrip() for line in done.stdout.splitlines()] == shown.splitlines()


@pytest.mark.parametrize("part", ["events", "strings"])
def test_no_byte_of_a_block_is_left_out(part: str, folder: Path) -> None:
    """Of texts the page shows what is before them, and their number of bytes."""
    left = (folder / f"{part}.bin").read_bytes()
    for line in (line for paragraph in PARTS[part][1:] for line in paragraph.splitlines()):
        found = re.match(r"((?:[0-9a-f]{2} )+) +(?:\d+: (\d+) bytes, id)?", line)
        assert found is not None
        key = bytes.fromhex(found[1])
        assert left.startswith(key), line
        left = left[len(key) + int(found[2] or 0) :]
    assert left == b""


def test_sections_are_where_the_page_says() -> None:
    content, listed = docs_nsys_rep.report(), "\n".join(PARTS["contents"])
    rows = re.findall(r"^([A-Z].*?) +(0x\w+) +(0x\w+)$", listed, re.M)
    places = {name: slice(int(at, 16), int(at, 16) + int(size, 16)) for name, at, size in rows}
    assert len(places) == 8
    assert content[places["Raw Sampling Data"]].startswith(b"QDTEXT00")
    assert b"API_TOKEN" in content[places["Analysis Options Data"]]
    ends = [place.stop for place in places.values()]
    assert f"begins at {max(ends):#x}" in PARTS["footer"][1]


def test_numbers_on_the_page_are_what_nsysconv_reads(folder: Path, tmp_path: Path) -> None:
    made = nsysconv.export_profiles(folder / docs_nsys_rep.REPORT, "nsys-sqlite", tmp_path / "a.sqlite")
    write_export(tmp_path / "b.sqlite")
    events = "\n".join(PARTS["events"])
    for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL", "StringIds"):
        ours, wanted = rows_of(made.path, table), rows_of(tmp_path / "b.sqlite", table)
        assert [[(name, row[name]) for name in each] for row, each in zip(ours, wanted, strict=True)] == [
            [*each.items()] for each in wanted
        ]
        for name, value in (cell for row in wanted for cell in row.items() if table != "StringIds"):
            assert re.search(rf" = {value}  {name}\b", events), (table, name)


def rows_of(path: Path, table: str) -> list[dict[str, object]]:
    """The rows of a table by column, in their order."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(f"SELECT * FROM {table}")]


def test_the_environment_is_on_the_page_as_skipped(folder: Path, tmp_path: Path) -> None:
    secret = b"0123-secret"
    assert secret in (folder / docs_nsys_rep.REPORT).read_bytes()
    made = nsysconv.export_profiles(folder / docs_nsys_rep.REPORT, "nsys-sqlite", tmp_path / "a.sqlite")
    assert secret not in made.path.read_bytes()
    assert re.search(r"30: 24 bytes, .* environment, skipped$", "\n".join(PARTS["head"]), re.M)


# -- the reference below it


def listed_events() -> dict[tuple[int, int], str]:
    """Tables of events by payload, and inner message or class."""
    rows = re.findall(r"^\| (\d{3}) \|([^|]*)\| `([A-Z_]+)` \|$", PAGE, re.M)
    return {
        (int(payload), int(number or 0)): table
        for payload, which, table in rows
        for number in re.findall(r"\d+", which) or [0]
    }


def test_tables_of_events_are_those_that_are_read() -> None:
    given = tomllib.loads((DECODER / "tables.toml").read_text(encoding="utf-8"))
    assert listed_events() == {
        (of["payload"], number): table
        for table, of in given.items() if "columns" in of
        for number in of.get("classes", [of.get("inner", 0)])
    }  # fmt: skip


def test_tables_of_targets_are_those_that_are_read() -> None:
    given = tomllib.loads((DECODER / "targets.toml").read_text(encoding="utf-8"))
    rows = re.findall(r"^\| `([\d.]+)` \| `(TARGET_INFO_[A-Z_]+)`", PAGE, re.M)
    assert {table: path for path, table in rows} == {
        table: ".".join(map(str, of["path"]))
        for table, of in given.items()
        if "path" in of and table != "ThreadNames"  # which are a message of their own
    }


def test_inferred_columns_are_those_that_are_noted() -> None:
    given = tomllib.loads((DECODER / "tables.toml").read_text(encoding="utf-8"))
    (text,) = re.findall(r"^## What is inferred\n(.*?)^## ", PAGE, re.M | re.S)
    rows = re.findall(r"^\| `([A-Z_]+)` \| (.*) \|$", text, re.M)
    # A table of which no export was seen has a note by the column that all its rows have.
    assert {name: " ".join(re.findall(r"`(\w+)`", columns)) or "start" for name, columns in rows} == {
        name: of["inferred"] for name, of in given.items() if "inferred" in of
    }
