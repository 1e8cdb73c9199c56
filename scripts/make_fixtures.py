"""Make the test fixtures that are made up, and the list of them.

    python scripts/make_fixtures.py            write tests/fixtures and its README.md
    python scripts/make_fixtures.py --check    exit 1 and say which file differs

`--check` compares contents: schema and rows of databases, bytes of everything else, so a newer
SQLite that lays out pages differently does not matter.
"""

from __future__ import annotations

import argparse
import hashlib
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nsys_tables import AGES
from odd_fixtures import ODD
from scenarios import WORKLOADS
from write_nsys import write_nsys

FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures"
README = "README.md"

# Which schema ages each workload is written in: those where its subject looks different.
NSYS_AGES: dict[str, tuple[str, ...]] = {
    "basic": tuple(AGES),
    "two_processes_one_gpu": ("2.7.0", "3.13.2", "3.24.14", "3.28.1"),
    "two_processes_two_gpus": ("2020", "3.7.2", "3.17.2", "3.24.7"),
    "graphs": ("3.4.0", "3.13.2", "3.24.0", "3.28.1"),
    "unified_memory": ("2021", "3.1.2", "3.17.2", "3.25.0"),
    "ranges": ("2021", "3.0.0", "3.16.1", "3.28.1"),
    "no_gpu": ("2.9.1", "3.16.1", "3.25.0"),
}

INTRO = """# Fixtures

Small files that the tests read. All of them are **made up**: no program ran, no GPU was there.
They are written by `scripts/make_fixtures.py`; `python scripts/make_fixtures.py --check` says
whether they still are what it writes. Do not edit them or this page by hand.

`nsys/` holds the workloads of `scripts/scenario_*.py` as SQLite exports of Nsight Systems, one file
per schema age (`scripts/nsys_tables.py`). Tables, columns and spellings follow exports found in
public repositories; schema 3.28.1, whole graphs and graph nodes follow NVIDIA's documentation. The
figures that each workload must give are in the same modules, worked out by hand. `basic-2.9.1` has
all tables, with and without rows; the other ages have tables with rows only. From 3.24.7 on the
rows are in no order. Every file has made-up secrets, texts with `SECRET-` in them, in the places
where real exports hold environments, names and output.

`odd/` holds damaged, trimmed and foreign files.

| file | origin | holds | bytes | sha256 |
|---|---|---|---:|---|
"""


@dataclass(frozen=True)
class Fixture:
    """One file under tests/fixtures: `make` writes it to a path."""

    name: str
    holds: str
    make: Callable[[Path], None]


def fixtures() -> list[Fixture]:
    """All fixtures, in the order of the README."""
    found = []
    for workload, ages in NSYS_AGES.items():
        for age in ages:
            writer = partial(_write_nsys, workload, age)
            holds = f"{WORKLOADS[workload].title}; as of nsys {AGES[age].product}"
            found.append(Fixture(f"nsys/{workload}-{age}.sqlite", holds, writer))
    found += [Fixture(f"odd/{name}", holds, make) for name, (make, holds) in ODD.items()]
    return found


def _write_nsys(workload: str, age: str, path: Path) -> None:
    write_nsys(WORKLOADS[workload], path, age)


def content(path: Path) -> object:
    """What a file says: schema and rows of a sound database, else the bytes."""
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    # Texts may hold NUL or be no UTF-8 at all.
    connection.text_factory = bytes
    try:
        schema = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master")
        entries = sorted(schema.fetchall(), key=repr)
        tables = [name.decode() for kind, name, _, _ in entries if kind == b"table"]
        rows = {}
        for table in tables:
            quoted = table.replace('"', '""')
            rows[table] = connection.execute(f'SELECT * FROM "{quoted}"').fetchall()
        return (entries, rows) if tables else path.read_bytes()
    except sqlite3.DatabaseError:
        return path.read_bytes()
    finally:
        connection.close()


def readme(folder: Path, made: list[Fixture]) -> str:
    """The text of README.md for the files as they lie in the folder."""
    rows = []
    for fixture in made:
        data = (folder / fixture.name).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        rows.append(
            f"| `{fixture.name}` | made up, `scripts/make_fixtures.py` | {fixture.holds} "
            f"| {len(data)} | `{digest}` |\n"
        )
    return INTRO + "".join(rows)


def make_all() -> None:
    """Write every fixture and the README."""
    for fixture in fixtures():
        path = FIXTURES / fixture.name
        path.parent.mkdir(parents=True, exist_ok=True)
        fixture.make(path)
    (FIXTURES / README).write_text(readme(FIXTURES, fixtures()))


def problems() -> list[str]:
    """What is wrong with the folder, a line for each file."""
    found = []
    expected = fixtures()
    listed = (FIXTURES / README).read_text() if (FIXTURES / README).exists() else ""
    with tempfile.TemporaryDirectory() as folder:
        for fixture in expected:
            path, fresh = FIXTURES / fixture.name, Path(folder) / Path(fixture.name).name
            if not path.exists():
                found.append(f"{fixture.name}: is missing")
                continue
            fixture.make(fresh)
            if content(path) != content(fresh):
                found.append(f"{fixture.name}: differs from what the script makes")
            elif f"`{hashlib.sha256(path.read_bytes()).hexdigest()}`" not in listed:
                found.append(f"{fixture.name}: {README} lacks it or has another checksum")
    for kind in ("nsys", "odd"):
        names = {Path(fixture.name).name for fixture in expected if fixture.name.startswith(kind)}
        strangers = {path.name for path in (FIXTURES / kind).glob("*")} - names
        found += [f"{kind}/{name}: is not made by the script" for name in sorted(strangers)]
    return found


def main() -> int:
    """Make or check; returns the exit status."""
    parser = argparse.ArgumentParser(description="make the made-up test fixtures")
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on a difference")
    if not parser.parse_args().check:
        make_all()
        return 0
    found = problems()
    print("\n".join(found) if found else "all fixtures are as the script makes them")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
