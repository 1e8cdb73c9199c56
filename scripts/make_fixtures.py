"""Make the test fixtures that are made up, and the list of all of them.

    python scripts/make_fixtures.py            write tests/fixtures and its README.md
    python scripts/make_fixtures.py --check    exit 1 and say which file differs

`--check` compares contents: schema and rows of databases, what compressed files hold, and bytes of
everything else, so a newer SQLite that lays out pages differently does not matter. Files that a
program recorded are only listed; `scripts/record_pytorch.py` says how they came about.
"""

from __future__ import annotations

import argparse
import hashlib
import sqlite3
import sys
import tempfile
import zlib
from importlib import import_module
from pathlib import Path

from fixture import Fixture

from nsysconv.importers import IMPORTERS

FIXTURES = Path(__file__).parent.parent / "tests" / "fixtures"
README = "README.md"

INTRO = """# Fixtures

Small files that the tests read. Those of origin **made up** come from no program: none ran, no GPU
was there. They are written by `scripts/make_fixtures.py`; `python scripts/make_fixtures.py --check`
says whether they still are what it writes. Those of origin **recorded** come from a program of this
repository. Do not edit them or this page by hand.
"""
TABLE = """
| file | origin | holds | bytes | sha256 |
|---|---|---|---:|---|
"""


SOURCES = {name: import_module(f"fixtures_{name}") for name in IMPORTERS}
"""The module with the fixtures of each importer.

FILES lists them; ABOUT is a paragraph on them; EXAMPLE names the one that reports are tried on.
"""


def fixtures() -> list[Fixture]:
    """Return all fixtures, in the order of the README."""
    return [fixture for source in SOURCES.values() for fixture in source.FILES]


def content(path: Path) -> object:
    """Return what a file says: schema and rows of a sound database, else the bytes, unpacked."""
    if path.suffix == ".gz":
        # A file may be cut short: then what can be unpacked.
        return zlib.decompressobj(wbits=31).decompress(path.read_bytes())
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
    """Return the text of README.md for the files in the folder."""
    rows = []
    for fixture in made:
        data = (folder / fixture.name).read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        rows.append(
            f"| `{fixture.name}` | {fixture.origin} | {fixture.holds} "
            f"| {len(data)} | `{digest}` |\n"
        )
    abouts = [f"\n{source.ABOUT}" for source in SOURCES.values()]
    return "".join([INTRO, *abouts, TABLE, *rows])


def make_all() -> None:
    """Write every fixture that is made up, and the README."""
    for fixture in fixtures():
        if fixture.make is None:
            continue
        path = FIXTURES / fixture.name
        path.parent.mkdir(parents=True, exist_ok=True)
        fixture.make(path)
    (FIXTURES / README).write_text(readme(FIXTURES, fixtures()))


def problems() -> list[str]:
    """Return the problems of the folder, a line for each file."""
    found = []
    expected = fixtures()
    listed = (FIXTURES / README).read_text() if (FIXTURES / README).exists() else ""
    with tempfile.TemporaryDirectory() as folder:
        for fixture in expected:
            path, fresh = FIXTURES / fixture.name, Path(folder) / Path(fixture.name).name
            if not path.exists():
                found.append(f"{fixture.name}: is missing")
                continue
            if fixture.make is not None:
                fixture.make(fresh)
            if fixture.make is not None and content(path) != content(fresh):
                found.append(f"{fixture.name}: differs from what the script makes")
            elif f"`{hashlib.sha256(path.read_bytes()).hexdigest()}`" not in listed:
                found.append(f"{fixture.name}: {README} lacks it or has another checksum")
    names = {fixture.name for fixture in expected}
    for kind in sorted({name.partition("/")[0] for name in names}):
        files = (path for path in (FIXTURES / kind).rglob("*") if path.is_file())
        strangers = {path.relative_to(FIXTURES).as_posix() for path in files} - names
        found += [f"{name}: is not made by the script" for name in sorted(strangers)]
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
