"""Seeds of fuzzing: every fixture, reports made of some, and real profiles, if any, with few rows."""

from __future__ import annotations

import gzip
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import make_fixtures
from nsys_rep_wire import COUNT_OF_EVENTS, Block, Report, field, read_fields
from nsys_tables import AGES
from write_nsys_rep import SECRETS, write_report

from nsysconv.importers import IMPORTERS

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests" / "fixtures"
REAL = ROOT.parent / "shared" / "real"

SQLITE = b"SQLite format 3\0"
GZIP = b"\x1f\x8b"
NVR = b"NVR\0"
"""How reports of Nsight Compute begin, which are tried whole."""
PICKLE = b"\x80"

# Folders of real files that are not called as the importer is that is tried with them.
_REAL_FOLDERS = {
    "ncu": ("ncu_rep", "ncu_csv"),
    "rocprof": ("rocprof_v1",),
    "pytorch_snapshot": ("pytorch_snapshots",),
    "nvprof_database": ("nvprof_sqlite",),
    "nvprof_log": ("nvprof_csv", "nvprof_text"),
    "nsys_stats": ("expected",),
}
EXPORTED = {"nsys_rep": "nsys_sqlite"}
"""Classes of files that are made into another importer's, and that importer."""
DAMAGED = (*IMPORTERS, *EXPORTED)
"""Classes of files that are damaged."""
# Fixtures that are written as reports; the age is behind the hyphen.
_REPORTS = (
    "basic-2020", "basic-2021", "basic-2.9.1", "basic-3.13.2", "basic-3.24.7", "basic-3.28.1",
    "cpu_side-3.28.1", "graphs-3.24.0", "nccl-3.28.1", "no_gpu-3.25.0", "ranges-3.28.1",
    "two_processes_two_gpus-3.17.2", "unified_memory-3.1.2", "unified_memory-3.25.0",
)  # fmt: skip
_REPORT = ".nsys-rep"

# So much of real files is kept.
_ROWS = 200
_BLOCK_EVENTS = 30
_BLOCKS = 3
_TEXT_BYTES = 40_000
_PICKLE_BYTES = 120_000
# A page of a list of events ends with one; where a longer trace is cut.
_EVENT_END = b"},"


@dataclass(frozen=True)
class Seed:
    """A whole file: its name, and its content, of a compressed one inflated (`packed`)."""

    name: str
    content: bytes
    packed: bool = False

    @property
    def is_sqlite(self) -> bool:
        """Return whether it is a SQLite database."""
        return self.content.startswith(SQLITE)


@cache
def seeds(importer: str, *, real: bool = True) -> tuple[Seed, ...]:
    """Return the files that an importer is tried with, in an order of their own."""
    reports = importer == "nsys_rep"
    source = make_fixtures.SOURCES[EXPORTED.get(importer, importer)]
    own = (FIXTURES / fixture.name for fixture in source.FILES)
    found = [_seed(path) for path in _files(own, reports)]
    if reports:
        found += [_report(name) for name in _REPORTS]
    if real and REAL.is_dir():
        for folder in _REAL_FOLDERS.get(importer, (importer,)):
            paths = _files((REAL / folder).rglob("*"), reports)
            found += [_cut_down(_seed(path)) for path in paths]
    return tuple(seed for seed in found if seed.content)


def is_printed(importer: str) -> bool:
    """Return whether an importer looks inside of longer texts, as all do but those of databases.

    One file can hold what several of them read. rocprof's files are databases, too.
    """
    own = seeds(importer, real=False)
    return 2 * sum(seed.is_sqlite for seed in own) < len(own)


def _files(paths: Iterable[Path], reports: bool) -> Iterator[Path]:
    for path in sorted(paths):
        if path.is_file() and (path.suffix == _REPORT) == reports:
            yield path


def _report(name: str) -> Seed:
    age = AGES[name.rpartition("-")[2]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}{_REPORT}"
        secrets = {place: f"SECRET-{place}" for place in SECRETS}
        export = FIXTURES / "nsys" / f"{name}.sqlite"
        write_report(export, path, build=age.product, block_events=_BLOCK_EVENTS, secrets=secrets)
        return _seed(path)


def _seed(path: Path) -> Seed:
    content = path.read_bytes()
    packed = content.startswith(GZIP)
    if packed:
        with suppress(EOFError, OSError):  # fixtures that are cut stay as they are
            return Seed(path.name, gzip.decompress(content), packed)
    return Seed(path.name, content)


def _cut_down(seed: Seed) -> Seed:
    if seed.content.startswith(PICKLE):  # a cut pickle is only refused
        return seed if len(seed.content) <= _PICKLE_BYTES else Seed(seed.name, b"")
    if seed.is_sqlite:
        return Seed(seed.name, _fewer_rows(seed.content))
    if seed.name.endswith(_REPORT):
        return Seed(seed.name, _fewer_events(seed.content))
    text = seed.content
    if len(text) > _TEXT_BYTES and not text.startswith(NVR):
        if seed.name.endswith((".json", ".json.gz")):
            place = text.rfind(_EVENT_END, 0, _TEXT_BYTES)
            text = text[: place + 1] + b"]}" if place > 0 else text
        else:
            text = text[: text.rfind(b"\n", 0, _TEXT_BYTES) + 1]
    return Seed(seed.name, text, seed.packed)


def _fewer_events(content: bytes) -> bytes:
    report = Report.read(content)
    samples = report.samples()
    blocks = [block.fields(1)[:_ROWS] for block in samples.events[-_BLOCKS:]]
    samples.events = [Block.of(b"".join(field(1, event) for event in events)) for events in blocks]
    rest = [field(number, value) for number, _, value in read_fields(samples.counts) if number > 1]
    samples.counts = field(COUNT_OF_EVENTS, sum(map(len, blocks))) + b"".join(rest)
    return report.with_samples(samples).written()


def _fewer_rows(content: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "seed.sqlite"
        path.write_bytes(content)
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.text_factory = bytes  # some texts are none
            found = database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'"
            )
            names = [name.decode() for (name,) in found]
            texts = {"StringIds": "id", "StringTable": "_id_"}
            for name in names:
                if name not in texts:
                    database.execute(
                        f'DELETE FROM "{name}" WHERE rowid NOT IN '
                        f'(SELECT rowid FROM "{name}" ORDER BY rowid LIMIT {_ROWS})'
                    )
            wanted = _integers(database, [name for name in names if name not in texts])
            for name, key in texts.items():
                if name in names:
                    database.execute("CREATE TEMP TABLE wanted (id INTEGER PRIMARY KEY)")
                    database.executemany(
                        "INSERT OR IGNORE INTO wanted VALUES (?)", ((n,) for n in wanted)
                    )
                    database.execute(
                        f'DELETE FROM "{name}" WHERE {key} NOT IN (SELECT id FROM wanted)'
                    )
                    database.execute("DROP TABLE wanted")
            database.execute("VACUUM")
        return path.read_bytes()


def _integers(database: sqlite3.Connection, tables: list[str]) -> set[int]:
    return {
        value
        for table in tables
        for row in database.execute(f'SELECT * FROM "{table}"')
        for value in row
        if isinstance(value, int) and 0 <= value < 1 << 31
    }
