"""What tests share: where the files are, how one is imported, and all that a profile says."""

from __future__ import annotations

import csv
import functools
import gc
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import fixtures_nsys_sqlite
import machine
import make_fixtures
import numpy as np
import pytest
import typer.main
from hypothesis import settings
from workload import Function

from nsysconv import api, schema
from nsysconv.importers.contract import Options, Yes
from nsysconv.importers.detection import all_importers, detect
from nsysconv.importers.nvprof_database import reader
from nsysconv.importers.probe import Probe
from nsysconv.report import MISSING
from nsysconv.store.connection import Connection, Sql
from nsysconv.store.location import reading, writing
from nsysconv.store.read import Profile, Store
from nsysconv.store.sqlite import writer as sqlite_writer
from nsysconv.store.sqlite.connection import SqliteConnection
from nsysconv.store.sqlite.virtual_store import open_virtual_store
from nsysconv.store.write import Imported, Origin, Writer
from nsysconv.timeline import arrays

# It makes tests, whose comparisons are shown as those of modules of tests.
pytest.register_assert_rewrite("small_store")

ROOT = Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests" / "fixtures"
NSYS = FIXTURES / "nsys"
ODD = FIXTURES / "odd"
REAL = ROOT.parent / "shared" / "real"
NO_REAL = "the real profiles (../shared/real beside the repository) are not here"

# What subprocesses need to import nsysconv and the scripts where neither is installed.
CHILD_ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(
        [str(ROOT), str(ROOT / "scripts"), *filter(None, [os.environ.get("PYTHONPATH")])]
    ),
}

# Shells start what runs in the background with Ctrl-C ignored, which programs under test would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples in every run: what fails here fails everywhere. `make test` tries a few of each
# property; `make test-slow` (--hypothesis-profile many) as many as the property asks for.
settings.register_profile("many", derandomize=True, deadline=None, database=None)
settings.register_profile("few", settings.get_profile("many"), max_examples=6)
settings.load_profile("few")

Row = dict[str, Any]

_compile = Connection.compiled.__func__
_compiled: dict[Any, str] = {}
_MOST_COMPILED = 4096


def _compile_once(cls: type[Connection], statement: Sql) -> str:
    """The text of a statement, which tests ask for again and again: 12 % of the time of all of them."""
    if isinstance(statement, str) or (cache_key := statement._generate_cache_key()) is None:
        return _compile(cls, statement)
    key = cls, cache_key.key, repr([bound.value for bound in cache_key.bindparams])
    text = _compiled.get(key)
    if text is None:
        if len(_compiled) >= _MOST_COMPILED:
            _compiled.clear()
        text = _compiled[key] = _compile(cls, statement)
    return text


Connection.compiled = classmethod(_compile_once)

_create_schema = sqlite_writer.create_schema
_empty_store: list[bytes] = []


def _create_schema_once(connection: SqliteConnection) -> None:
    """An empty store, whose sixty statements take as long as all else that a small one needs."""
    (file,) = [Path(row["file"]) for row in connection.rows("PRAGMA database_list")]
    if not file.exists():  # its name is no UTF-8
        _create_schema(connection)
    elif _empty_store:
        file.write_bytes(_empty_store[0])
    else:
        _create_schema(connection)
        _empty_store.append(file.read_bytes())


sqlite_writer.create_schema = _create_schema_once

# The parser of the command line, which each run in this process would make anew: a fifth of its time.
typer.main.get_command = functools.cache(typer.main.get_command)

# What a power cut would leave, no test sees: files are written without waiting for the disk.
os.fsync = lambda descriptor: None

NSYS_FILES = sorted(NSYS.iterdir())
UNREADABLE_FILES = sorted(FIXTURES / each.name for each in fixtures_nsys_sqlite.FILES if each.refused)
ODD_FILES = sorted(path for path in ODD.iterdir() if path not in UNREADABLE_FILES)

# Files in a version between the oldest and the newest of their workload.
BETWEEN = frozenset(FIXTURES / each.name for each in make_fixtures.fixtures() if each.between)

EVENTS = tuple(schema.EVENT_TABLES)
SMALL_TABLES = tuple(
    table.name
    for table in schema.metadata.sorted_tables
    if "profile_id" in table.c
    and table.name not in (*EVENTS, "checksum", "profile_fact", "extent", "note")
)


def real(test: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a test that reads the real files, and skips it where they are not."""
    return pytest.mark.real(pytest.mark.skipif(not REAL.is_dir(), reason=NO_REAL)(test))


def provenance(folder: str) -> list[dict[str, str]]:
    """The rows of PROVENANCE.tsv about one folder of real files; none where the files are not."""
    table = REAL / "PROVENANCE.tsv"
    if not table.exists():
        return []
    with table.open(encoding="utf-8", newline="") as file:
        lines = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [row for row in lines if row["file"].startswith(f"{folder}/")]


REAL_FILES = [REAL / row["file"] for row in provenance("nsys_sqlite")] or [REAL / "missing"]
REAL_TRACES = [REAL / row["file"] for row in provenance("kineto")] or [REAL / "missing"]


def examples(count: int, **more: Any) -> settings:
    """A property's settings: so many examples in `make test-slow`, in `make test` a twenty-fifth."""
    many = settings.get_current_profile_name() == "many"
    return settings(max_examples=count if many else max(3, count // 25), **more)


def few(cases: Iterable[Any], count: int) -> list[Any]:
    """Cases of a parametrized test: so many, spread over all of them, are tried in `make test`."""
    cases = list(cases)
    chosen = {place * len(cases) // count for place in range(count)}
    return with_slow((case, place in chosen) for place, case in enumerate(cases))


def oldest_and_newest(cases: Iterable[Any]) -> list[Any]:
    """Cases of a parametrized test, files or what has a `path`: those in a version between the oldest
    and the newest of their workload are left to `make test-slow`.
    """
    return with_slow((case, getattr(case, "path", case) not in BETWEEN) for case in cases)


def by_turns(
    cases: Iterable[Any], others: Iterable[Any], count: int, whole: Collection[Any] = ()
) -> list[Any]:
    """Pairs for a parametrized test: in `make test` each case is tried with every `count`-th of the
    others, beginning with another one each time, and those in `whole` with all.
    """
    return with_slow(((case, other), (i + j) % count == 0 or case in whole)
                      for i, case in enumerate(cases) for j, other in enumerate(others))  # fmt: skip


_scratch: list[TemporaryDirectory[str]] = []


def scratch() -> Path:
    """A folder that is there until the tests have ended."""
    _scratch.append(TemporaryDirectory())
    return Path(_scratch[-1].name)


def pytest_unconfigure() -> None:
    """Removes what `scratch` made."""
    for folder in _scratch:
        folder.cleanup()


# What `make test` leaves out it does not collect either: half of the cases.
_leaves_out_slow = False


# Modules about what only POSIX has: signals, groups of processes, modes of files, shells, /proc.
POSIX_ONLY = frozenset({
    "test_capture", "test_capture_signals", "test_ci_gate", "test_cli", "test_cli_streams",
    "test_docs_ci", "test_export", "test_faults_found", "test_faults_surroundings", "test_forget",
    "test_hostile", "test_import_parallel", "test_importer_connections", "test_importer_kineto_damage",
    "test_importer_nsys_paths", "test_importer_nsys_rep_secrets", "test_importer_nsys_untouched",
    "test_mcp", "test_page_reader_descriptors", "test_partials", "test_portable", "test_script_ends",
    "test_sql", "test_store_atomic", "test_store_foreign", "test_store_interrupted", "test_store_network",
    "test_store_publish", "test_store_refused", "test_threads", "test_workers",
})  # fmt: skip
collect_ignore = [f"{name}.py" for name in POSIX_ONLY] if os.name == "nt" else []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks as portable what should pass on every system."""
    for item in items:
        others = item.get_closest_marker("slow") or item.get_closest_marker("system")
        if others is None and item.path.stem not in POSIX_ONLY:
            item.add_marker(pytest.mark.portable)


def pytest_configure(config: pytest.Config) -> None:
    """Sees whether slow cases are asked for, before the tests are collected."""
    global _leaves_out_slow
    wanted = config.option.markexpr
    _leaves_out_slow = "not slow" in wanted and " or " not in wanted


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps the collector of garbage from looking through all cases again and again, and from looking
    often: a tenth of the time.
    """
    gc.disable()
    found = yield
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 50)
    return found


def with_slow(cases: Iterable[tuple[Any, bool]]) -> list[Any]:
    """Cases that are tried in `make test`, and others."""
    return [
        case if chosen
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case, chosen in cases if chosen or not _leaves_out_slow
    ]  # fmt: skip


def name_of(value: object) -> str | None:
    """Ids of parametrized tests: a path by its name."""
    return value.name if isinstance(value, Path) else None


def add(
    writer: Writer, source: Path, label: str = "", identity: str = "",
    replacing: int | None = None, include: Iterable[str] = (),
) -> Imported:  # fmt: skip
    """Imports a source's only recording through an open writer."""
    with Probe(source) as probe:
        importer = detect(probe)
        (recording,) = importer.read([probe], Options(frozenset(include)))
        (imported,) = writer.add(
            [recording],
            Origin(label or source.name, importer.NAME, str(source), probe.sha256(),
                   identity or f"{probe.sha256()}-{importer.NAME}-{importer.VERSION}"),
            lambda table, rows: None,
            replacing=() if replacing is None else (replacing,),
        )  # fmt: skip
        return imported


def import_file(
    source: Path, store: Path, label: str = "", identity: str = "", include: Iterable[str] = ()
) -> Imported:
    """Imports a file into a store, which is made if it is not there."""
    with writing(store) as writer:
        return add(writer, source, label, identity, include=include)


@contextmanager
def store_in_place(source: Path, include: Iterable[str] = ()) -> Iterator[Store]:
    """A store over the source itself."""
    with Probe(source) as probe:
        importer = detect(probe)
        (recording,) = importer.read([probe], Options(frozenset(include)))
        origin = Origin(source.name, importer.NAME, str(source), probe.sha256(), "in place")
        with open_virtual_store(recording, origin) as store:
            if store is not None:
                yield store
                return
        # As nsysconv.open does: rows that are not numbered in a row are copied.
        with TemporaryDirectory() as folder:
            import_file(source, Path(folder) / "store.db", include=include)
            with reading(Path(folder) / "store.db") as copy:
                yield copy


@contextmanager
def profile_in_place(source: Path, include: Iterable[str] = ()) -> Iterator[Profile]:
    """The only profile of a store over the source itself."""
    with store_in_place(source, include) as store:
        (profile,) = store.profiles()
        yield profile


class Shelf:
    """Imports each source once in a session, opens it in place once, and keeps all of them open."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._stores: dict[Path, Path] = {}
        self._profiles: dict[Path, Profile] = {}
        self._in_place: dict[Path, Store] = {}
        self._opened: dict[Path, api.OpenProfile] = {}

    def store(self, source: Path) -> Path:
        """The store with nothing but this source. Not to be written to."""
        if source not in self._stores:
            path = self._folder / f"{len(self._stores)}.db"
            import_file(source, path)
            self._stores[source] = path
        return self._stores[source]

    def profile(self, source: Path) -> Profile:
        """The source's profile in its store."""
        if source not in self._profiles:
            store = self._stack.enter_context(reading(self.store(source)))
            (self._profiles[source],) = store.profiles()
        return self._profiles[source]

    def opened(self, source: Path) -> api.OpenProfile:
        """The same, opened as users do."""
        if source not in self._opened:
            self._opened[source] = self._stack.enter_context(api.open(self.store(source)))
        return self._opened[source]

    def unread(self, source: Path) -> Profile:
        """The same of which nobody has read or examined anything."""
        store = self._stack.enter_context(reading(self.store(source)))
        (profile,) = store.profiles()
        return profile

    def in_place(self, source: Path) -> Store:
        """A store over the source itself, all of whose event tables have been read."""
        if source not in self._in_place:
            store = self._stack.enter_context(store_in_place(source))
            (profile,) = store.profiles()
            for table in EVENTS:
                all_columns(profile, table)
            self._in_place[source] = store
        return self._in_place[source]


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    """Imported sources, each imported once."""
    with ExitStack() as stack:
        yield Shelf(tmp_path_factory.mktemp("stores"), stack)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with report1.sqlite in it."""
    shutil.copyfile(NSYS / "basic-3.25.0.sqlite", tmp_path / "report1.sqlite")
    return tmp_path


@pytest.fixture
def demangled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demangler of other machines' C++ library, whether there is one here or not."""
    functions = [value for value in vars(machine).values() if isinstance(value, Function)]
    symbols = {function.mangled: function.itanium for function in functions}
    monkeypatch.setattr(reader, "demangler", lambda: lambda s: symbols.get(s, s))


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns are looked at so few rows at a time that edges of blocks lie in them."""
    monkeypatch.setattr(arrays, "BLOCK", 3)


@pytest.fixture
def dead_pid() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def integer_columns(table: str) -> tuple[str, ...]:
    """The integer columns of an event table that a source fills in."""
    source = schema.metadata.tables[table]
    return tuple(
        name for name in schema.event_columns(source) if source.c[name].type.python_type is int
    )


def all_columns(profile: Profile, table: str) -> dict[str, np.ndarray]:
    """All integer columns of an event table, read in one go."""
    return profile.columns(table, integer_columns(table))


def texts_in_order(profile: Profile, table: str, column: str) -> list[str | None]:
    """A text column of an event table in the order of its rows."""
    found = profile.texts(table, column)
    texts = {int(i): found.texts[n] for i, n in zip(found.ids, found.numbers, strict=True)}
    return [texts.get(int(i)) for i in profile.columns(table, ("id",))["id"]]


def known(values: np.ndarray) -> list[int | None]:
    """A column as Python integers, None where nothing was recorded."""
    return [None if value == MISSING else value for value in values.tolist()]


def event_rows(profile: Profile, table: str) -> list[Row]:
    """The rows of an event table: names and words in place of ids and codes, None for null."""
    data: dict[str, list[Any]] = {}
    columns = schema.metadata.tables[table].columns
    for name, values in all_columns(profile, table).items():
        cells: list[Any] = known(values)
        if schema.is_name_id(columns[name]):
            names = profile.names({cell for cell in cells if cell is not None})
            data[name.removesuffix("_id")] = [names.get(cell) for cell in cells]
        elif codes := columns[name].info.get("codes"):
            data[name] = [None if cell is None else codes[cell] for cell in cells]
        else:
            data[name] = cells
    if table == "range":
        texts = texts_in_order(profile, table, "text")
        data["name"] = [a if a is not None else b
                        for a, b in zip(data["name"], texts, strict=True)]  # fmt: skip
    return [dict(zip(data, cells, strict=True)) for cells in zip(*data.values(), strict=True)]


def in_any_order(rows: Sequence[Any]) -> list[Any]:
    """Rows in an order of their own: exports since 2025.6 promise none."""
    return sorted(rows, key=repr)


def all_name_ids(profile: Profile) -> set[int]:
    """Every name id that an event of the profile refers to."""
    return {
        int(value)
        for table in EVENTS
        for name, values in all_columns(profile, table).items()
        if schema.is_name_id(schema.metadata.tables[table].c[name])
        for value in np.unique(values)
        if value != MISSING
    }


def small_rows(profile: Profile, table: str) -> list[Row]:
    """The rows of a small table without the number of the profile, in an order of their own."""
    rows = [{k: v for k, v in row.items() if k != "profile_id"} for row in profile.rows(table)]
    return in_any_order(rows)


def contents(profile: Profile) -> dict[str, Any]:
    """All that the import of a profile says, but for its numbers in the store."""
    return {
        **{table: event_rows(profile, table) for table in EVENTS},
        **{table: small_rows(profile, table) for table in SMALL_TABLES},
        "names": profile.names(all_name_ids(profile)),
        "facts": profile.facts, "advice": profile.advice,
        "notes": in_any_order([{**row, "id": 0} for row in small_rows(profile, "note")]),
    }  # fmt: skip


def dump(store: Path) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables of a store, read with Python's own SQLite. Nobody may have it open."""
    with looking(store) as connection:
        names = [name for (name,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]  # fmt: skip
        return {
            name: connection.execute(f'SELECT * FROM "{name}" ORDER BY 1, 2').fetchall()
            for name in names
        }


def claimed_by(path: Path) -> list[str]:
    """The importers that say that a file is theirs."""
    with Probe(path) as probe:
        return [i.NAME for i in all_importers() if isinstance(i.sniff(probe), Yes)]


def changed(path: Path, *statements: str) -> Path:
    """Runs statements on an SQLite file, as another program would, and gives its path back."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)
    return path


@contextmanager
def looking(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection of Python's own SQLite to a file, which it cannot change."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        yield connection
