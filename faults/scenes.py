"""Commands to be disturbed: what lies in the folder before, and what may lie there afterwards."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

FIXTURES = ROOT / "tests" / "fixtures"
LARGE = FIXTURES / "nsys" / "two_processes_one_gpu-3.24.14.sqlite"
SMALL = FIXTURES / "nsys" / "graphs-3.24.0.sqlite"
ANOTHER = "another.sqlite"
"""The file that the second of two writers imports: nothing else has it."""

OLD_PAGE = "<p>the page that was there before</p>\n"

State = dict[str, str]
"""The contents of a folder: a digest of each file's meaning by its name."""


@dataclass(frozen=True)
class Scene:
    """A command in a folder of its own.

    `files` says what lies there, by name; `makes` what the command makes or changes. `steps`: what it
    makes may also be there in part, as whole profiles. `temporary`: it uses TMPDIR.
    """

    name: str
    words: tuple[str, ...]
    files: tuple[str, ...]
    makes: str | None
    steps: bool = False
    temporary: bool = False


SCENES = (
    Scene("import, new store", ("import", "large.sqlite", "-o", "store.db"), ("large.sqlite",),
          "store.db"),
    Scene("import, old store", ("import", "large.sqlite", "-o", "old.db"), ("large.sqlite", "old.db"),
          "old.db"),
    Scene("import, replacing", ("import", "small.sqlite", "-o", "old.db", "--replace"),
          ("small.sqlite", "old.db"), "old.db"),
    Scene("import, trace", ("import", "trace.json.gz", "-o", "store.db"), ("trace.json.gz",), "store.db"),
    Scene("import, many files", ("import", "many", "-o", "store.db", "--jobs", "2"), ("many",),
          "store.db"),
    Scene("import, many files, old store", ("import", "many", "-o", "old.db", "--jobs", "2"),
          ("many", "old.db"), "old.db", steps=True),
    Scene("import, a store", ("import", "full.db", "-o", "old.db"), ("full.db", "old.db"), "old.db",
          steps=True),
    Scene("report, in place", ("report", "large.sqlite", "core"), ("large.sqlite",), None),
    Scene("report, trace", ("report", "trace.json.gz", "core"), ("trace.json.gz",), None, temporary=True),
    Scene("report, store", ("report", "full.db@large", "core"), ("full.db",), None),
    Scene("page over a page", ("report", "full.db@large", "-o", "page.html"), ("full.db", "page.html"),
          "page.html"),
    Scene("export, chrome", ("export", "large.sqlite", "--to", "chrome", "-o", "out.json"),
          ("large.sqlite",), "out.json"),
    Scene("export, parquet", ("export", "large.sqlite", "--to", "parquet", "-o", "out"),
          ("large.sqlite",), "out"),
    Scene("diff", ("diff", "large.sqlite", "full.db@large"), ("large.sqlite", "full.db"), None),
)  # fmt: skip


def make_materials(folder: Path, nsysconv: Callable[..., None], size: int) -> None:
    """Make the files of the scenes. `nsysconv` runs a command in the folder, `size` is in kernels."""
    import repeat_export

    folder.mkdir(parents=True)
    repeat_export.generate(folder / "large.sqlite", LARGE, size)
    shutil.copyfile(SMALL, folder / "small.sqlite")
    shutil.copyfile(FIXTURES / "nsys" / "unified_memory-3.25.0.sqlite", folder / ANOTHER)
    _enlarge(FIXTURES / "kineto" / "training-2.13.json", folder / "trace.json.gz", size // 40)
    (folder / "many").mkdir()
    for path in sorted((FIXTURES / "nsys").glob("*.sqlite"))[:8]:
        shutil.copyfile(path, folder / "many" / path.name)
    (folder / "page.html").write_text(OLD_PAGE)
    nsysconv("import", "small.sqlite", "-o", "old.db")
    nsysconv("import", "large.sqlite", "-o", "full.db")
    nsysconv("import", "trace.json.gz", "-o", "full.db")


def _enlarge(source: Path, target: Path, times: int) -> None:
    trace = json.loads(source.read_bytes())
    events = trace["traceEvents"]
    trace["traceEvents"] = [
        {**event, "ts": event["ts"] + number * 1_000_000} if "dur" in event else event
        for number in range(max(times, 1))
        for event in events
    ]
    with gzip.open(target, "wt", compresslevel=1) as file:
        json.dump(trace, file)


def lay(scene: Scene, materials: Path, folder: Path) -> None:
    """Put a scene's files into an empty folder."""
    for name in scene.files:
        source = materials / name
        if source.is_dir():
            shutil.copytree(source, folder / name)
        else:
            shutil.copy2(source, folder / name)


def state(folder: Path) -> State:
    """Return what the folder holds. A store whose writer was killed is opened first, which rolls back."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".db" and not is_hidden(name):
            for identity, digest in profiles(path).items():
                found[f"{name}@{identity}"] = digest
        elif path.is_file() and not name.endswith(".db-journal"):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.is_dir() and not any(path.iterdir()):
            found[f"{name}/"] = "empty"
    return found


def is_hidden(name: str) -> bool:
    """Return whether the path is, or is in, something that is being built."""
    return any(part.startswith(".") for part in name.split("/"))


def profiles(store: Path) -> State:
    """Return a digest of each profile's rows in a store, by identity. Raise if the store is unsound."""
    from nsysconv import schema
    from nsysconv.store.location import reading

    with reading(store) as opened:
        assert opened.profiles(), "a store without profiles"
    connection = sqlite3.connect(f"{store.absolute().as_uri()}?mode=ro", uri=True)
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        found = {}
        for number, identity in connection.execute("SELECT id, identity FROM profile").fetchall():
            digest = hashlib.sha256()
            for table in schema.metadata.sorted_tables:
                # Checksums are kept when all is in; a killed import leaves that to the next one.
                if "profile_id" not in table.c or table.name in ("checksum", "extent"):
                    continue
                names = [c.name for c in table.c if c.name not in ("id", "profile_id")]
                columns = ", ".join(f'"{name}"' for name in names)
                query = (
                    f'SELECT {columns} FROM "{table.name}" WHERE profile_id = ? ORDER BY {columns}'
                )
                for row in connection.execute(query, (number,)):
                    digest.update(repr(row).encode())
            found[str(identity)] = digest.hexdigest()
        for event in schema.EVENT_TABLES:
            rows = connection.execute(f'SELECT count(*) FROM "{event}"').fetchone()
            expected = connection.execute(
                "SELECT coalesce(sum(row_count), 0) FROM extent WHERE table_name = ?", (event,)
            ).fetchone()
            assert rows == expected, f"{event} holds {rows[0]} rows, profiles have {expected[0]}"
    finally:
        connection.close()
    return found
