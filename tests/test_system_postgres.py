"""Stores in a real PostgreSQL server: the same profiles and answers as from SQLite, and nothing lost.

Skipped, with the reason, where there is no PostgreSQL; `make test-system` runs these.
"""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from conftest import (
    BETWEEN,
    CHILD_ENVIRONMENT,
    EVENTS,
    FIXTURES,
    NSYS,
    ODD,
    REAL,
    all_columns,
    contents,
    import_file,
    real,
)
from fixtures_nsys_sqlite import NSYS_AGES
from golden_cases import run as command
from nasty import NAMES as NASTY_NAMES
from one_answer import EXAMPLES, SEVERAL, includable, said
from postgres import PASSWORD, Server, programs, server
from small_store import Kernel, write
from test_joined_metrics import launches, metrics_file
from workload_rows import newest_export

from nsysconv import api, schema
from nsysconv.errors import InputError
from nsysconv.importers.contract import Options
from nsysconv.importers.detection import detect
from nsysconv.importers.probe import Probe
from nsysconv.queries import REPORTS
from nsysconv.render import Options as RenderOptions
from nsysconv.render import renderer
from nsysconv.store import postgresql as postgresql_writer
from nsysconv.store import read
from nsysconv.store.location import Location, Url, ask, reading, writing
from nsysconv.store.postgresql import PostgresqlConnection
from nsysconv.store.read import find_profile
from nsysconv.store.user_sql import views
from nsysconv.store.write import Origin

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(
        programs() is None, reason="no PostgreSQL server; .ci/install-system installs it"
    ),
]

FILES = sorted(
    path for folder in FIXTURES.iterdir() if folder.is_dir() for path in folder.iterdir()
    if path not in BETWEEN
)  # fmt: skip
PUBLIC = REAL / "bug_reports"
PUBLIC_FILES = sorted(path for path in PUBLIC.rglob("*") if path.suffix in {".json", ".sqlite"})
WORKLOADS = list(map(newest_export, NSYS_AGES))
"""The newest export of each workload: all kinds of events."""


def named(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with server() as started:
        yield started


@pytest.fixture(scope="module")
def shared(running: Server) -> Url:
    """A database that many profiles come into, one after the other."""
    return running.database()


def imported(source: Path, place: Location) -> list[str]:
    """Imports a file with all that it may hold; the labels of its profiles."""
    with Probe(source) as probe, writing(place) as writer:
        importer = detect(probe)
        identity = f"{probe.sha256()} {source}"
        origin = Origin(named(source), importer.NAME, str(source), probe.sha256(), identity)
        recordings = importer.read([probe], Options(frozenset(importer.INCLUDABLE)))
        return [one.label for one in writer.add(recordings, origin, lambda *_: None)]


@pytest.mark.parametrize("source", [*FILES, *PUBLIC_FILES], ids=named)
def test_a_profile_says_the_same_as_from_a_file(source: Path, shared: Url, tmp_path: Path) -> None:
    """All rows, names, facts and notes, of which reports are made. Of each workload and of public files
    also every report, to the letter; an example of each source is below.
    """
    file = tmp_path / "store.db"
    try:
        labels = imported(source, file)
    except InputError:
        pytest.skip("no profile")
    assert imported(source, shared) == labels
    for one in labels:
        with reading(file) as expected, reading(shared) as found:
            assert contents(find_profile(found, one)) == contents(find_profile(expected, one))
    # The rows of a file's later profiles are numbered on in a file, and from 1 here.
    if source in (*WORKLOADS, *PUBLIC_FILES):
        assert told(shared, labels[0]) == told(file, labels[0])


# Of several traces in one file the rows of later ones have other numbers here.
@pytest.mark.parametrize("source", [*EXAMPLES, SEVERAL[1]], ids=named)
def test_a_file_in_place_says_the_same(source: Path, url: Url, tmp_path: Path) -> None:
    include = includable(source)
    api.import_files([source], url, include=include)
    assert said(url) == said(source, include=include)


@pytest.mark.parametrize("pattern", ["b43_*", "b79/*"])
@real
def test_a_run_of_public_reports_says_the_same(pattern: str, url: Url, tmp_path: Path) -> None:
    paths, file = sorted(PUBLIC.glob(pattern)), tmp_path / "store.db"
    specs = ["stragglers", "collective_arrivals", "collectives", "rank_summary", "findings"]
    answers = []
    for place in (file, url):
        api.import_files(paths, place, run="job")
        reports = api.report_on(place, specs)
        answers.append([(report.rows(), report.notes) for report in reports])
    assert answers[0] == answers[1]


def told(place: Location, name: str) -> str:
    """All reports on a profile, as JSON, but for its number in the store."""
    out = io.StringIO()
    target = f"{place.secret if isinstance(place, Url) else place}@{name}"
    with api.open(target) as profile:
        renderer("json")(profile.reports(REPORTS, limit=0), out, RenderOptions())
    return re.sub(r'\{"id": \d+, "label"', '{"label"', out.getvalue())


@pytest.fixture
def url(running: Server) -> Url:
    """An empty database."""
    return running.database()


def refused(status: int, *words: str | Path, cwd: Path, said: str | tuple[str, ...]) -> None:
    """Runs a command that fails, says this, and shows no password."""
    outcome = command(*words, cwd=cwd)
    assert outcome.status == status, outcome
    for one in (said,) if isinstance(said, str) else said:
        assert one in outcome.err
    assert PASSWORD not in outcome.out + outcome.err


def until(holds: Callable[[], bool]) -> None:
    """Waits for what another process does."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


WAITS = "SELECT 1 AS one FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
OTHERS = ("SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() "
          "AND pid <> pg_backend_pid()")  # fmt: skip


def profile_ids(url: Url) -> dict[str, set[object]]:
    """The numbers of the profiles that each table has rows of."""
    return {
        table.name: {row["profile_id"] for row in
                     rows(url, f'SELECT DISTINCT profile_id FROM "{table.name}"')}
        for table in schema.metadata.tables.values() if "profile_id" in table.c
    }  # fmt: skip


BASIC, OTHER = NSYS / "basic-3.25.0.sqlite", NSYS / "basic-3.1.2.sqlite"


def labels(place: Location) -> list[str]:
    with reading(place) as store:
        return [profile.ref.label for profile in store.profiles()]


def rows(url: Url, sql: str) -> list[dict[str, object]]:
    with PostgresqlConnection(url) as connection:
        return connection.rows(sql)


# -- the same as a file, in other ways


def test_two_profiles_are_compared_as_from_a_file(url: Url, tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    for place in (url, file):
        api.import_files([BASIC], place, label="base")
        api.import_files([OTHER], place, label="other")

    def compared(place: str) -> list[list[dict[str, object]]]:
        return [report.rows() for report in api.compare(f"{place}@base", f"{place}@other").reports]

    assert compared(url.secret) == compared(str(file)) != []


def test_an_export_is_that_of_a_file(url: Url, tmp_path: Path) -> None:
    source, file = NSYS / "ranges-3.28.1.sqlite", tmp_path / "store.db"
    for place, made in ((url, "one"), (file, "two")):
        api.import_files([source], place)
        api.export_profiles(place, "parquet", tmp_path / made)
    names = sorted(path.name for path in (tmp_path / "two").iterdir())
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == names != []
    for name in names:
        one, two = (pq.read_table(tmp_path / made / name) for made in ("one", "two"))
        assert one.equals(two, check_metadata=True), name
    with api.open(url) as profile:
        kernels = pq.read_table(tmp_path / "two" / "kernel.parquet")
        assert profile.events("kernel").to_pylist() == kernels.to_pylist()
        counted = profile.sql("select count(*) as n from kernel")
        assert counted.rows() == [{"n": kernels.num_rows}]


def test_a_store_in_a_schema_of_its_own(url: Url) -> None:
    """And one in another schema beside it."""
    rows(url, "SELECT 1")
    for name, source in (("red", BASIC), ("blue", OTHER)):
        with PostgresqlConnection(url) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        there = Url(f"{url.secret}&options=-csearch_path%3D{name}")
        api.import_files([source], there, label=name)
        assert labels(there) == [name]
    with pytest.raises(InputError, match="not an nsysconv store"):
        labels(url)


@pytest.mark.parametrize("source", [BASIC, ODD / "bad-cells.sqlite", ODD / "odd-durations.sqlite"],
                         ids=named)  # fmt: skip
def test_reading_and_writing_in_pieces_gives_the_same(
    source: Path, url: Url, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a row is refused after others of its table came in."""
    monkeypatch.setattr(postgresql_writer, "ROWS_READ", 2)
    monkeypatch.setattr(postgresql_writer, "ROWS_AT_ONCE", 4)
    import_file(source, url)
    import_file(source, tmp_path / "store.db")
    monkeypatch.setattr(read, "ROWS_PER_THREAD", 3)
    monkeypatch.setattr(read, "cores", lambda: 4)
    with reading(url) as found, reading(tmp_path / "store.db") as expected:
        (ours,), (theirs,) = found.profiles(), expected.profiles()
        for table in EVENTS:
            assert {n: v.tolist() for n, v in all_columns(ours, table).items()} == {
                n: v.tolist() for n, v in all_columns(theirs, table).items()}, table  # fmt: skip
            assert ours.row_count(table) == theirs.row_count(table)


def test_names_that_a_database_could_trip_over(url: Url, tmp_path: Path) -> None:
    nasty = [name for name in NASTY_NAMES if name]
    kernels = [Kernel(i, i + 1, name=name) for i, name in enumerate(nasty)]
    file = tmp_path / "store.db"
    for place in (url, file):
        write(place, *kernels)

    def names(place: Location) -> list[str]:
        with reading(place) as store:
            (profile,) = store.profiles()
            ids = profile.columns("kernel", ("name_id",))["name_id"].tolist()
            known = profile.names(ids)
            return [known[i] for i in ids]

    assert len(set(names(file))) == len(nasty)
    assert names(url) == [name.replace("\0", "\ufffd") for name in names(file)]


def test_a_store_goes_into_a_database_and_back(url: Url, tmp_path: Path) -> None:
    """Merging: a store is an input like any other, and each of its profiles comes with its own rows."""
    first, last = tmp_path / "first.db", tmp_path / "last.db"
    api.import_files([BASIC, NSYS / "graphs-3.28.1.sqlite"], first, tags={"commit": "1f3a"})
    api.import_files([first], url)
    api.import_files([url], last)
    with reading(first) as expected, reading(url) as between, reading(last) as found:
        profiles = [store.profiles() for store in (expected, between, found)]
        assert [*map(len, profiles)] == [2, 2, 2]
        for one, *others in zip(*profiles, strict=True):
            for other in others:
                assert contents(other) == contents(one)
                assert other.attributes == one.attributes


# -- runs of imports


def test_importing_again_changes_nothing_and_replace_does(url: Url) -> None:
    (first,) = api.import_files([BASIC], url, label="first").files
    (again,) = api.import_files([BASIC], url, label="again").files
    assert [one.existing for one in again.imported] == [True]
    api.import_files([OTHER], url)
    (new,) = api.import_files([BASIC], url, label="new", replace=True, tags={"a": "b"}).files
    assert [one.existing for one in new.imported] == [False]
    old = first.imported[0].profile_id
    assert labels(url) == ["basic-3.1.2", "new"]
    assert [name for name, ids in profile_ids(url).items() if old in ids] == []


WRITE = """
import json, sys
job = json.loads(sys.argv[1])
sys.path.insert(0, job["tests"])
from pathlib import Path
from nsysconv.store.location import Url
from conftest import import_file
for number in range(job["count"]):
    name = f"{job['who']}-{number}"
    import_file(Path(job["source"]), Url(job["url"]), name, name)
"""


def writer(url: Url, who: str, count: int) -> subprocess.Popen[bytes]:
    """A process that imports a file so often."""
    job = {"who": who, "count": count, "url": url.secret, "source": str(BASIC),
           "tests": str(Path(__file__).parent)}  # fmt: skip
    command_line = [sys.executable, "-c", WRITE, json.dumps(job)]
    return subprocess.Popen(command_line, env=CHILD_ENVIRONMENT)


def test_four_writers_at_once(url: Url) -> None:
    """Into an empty database: its tables are made by one of them."""
    writers = [writer(url, who, 4) for who in "abcd"]
    assert [process.wait() for process in writers] == [0, 0, 0, 0]
    with reading(url) as store:
        profiles = store.profiles()
        assert {p.ref.label for p in profiles} == {f"{who}-{n}" for who in "abcd" for n in range(4)}
        first, *others = [contents(profile) for profile in profiles]
        assert all(other == first for other in others)
    counts = rows(url, "SELECT count(*) AS n, count(DISTINCT (profile_id, id)) AS m FROM kernel")
    assert counts == [{"n": 8 * 16, "m": 8 * 16}]


def test_writers_of_the_same_file_make_one_profile(url: Url) -> None:
    command_line = [sys.executable, "-m", "nsysconv", "import", str(BASIC), "-o", url.secret]
    writers = [subprocess.Popen(command_line, env=CHILD_ENVIRONMENT, stdout=subprocess.PIPE)
               for _ in range(4)]  # fmt: skip
    said = [process.communicate()[0].decode() for process in writers]
    assert sum("already imported" in text for text in said) == 3
    assert labels(url) == ["basic-3.25.0"]
    assert rows(url, "SELECT count(*) AS n FROM kernel") == [{"n": 8}]


@contextmanager
def waiting_writer(url: Url) -> Iterator[tuple[PostgresqlConnection, subprocess.Popen[bytes]]]:
    """A writer of a second profile: all of its rows are in, and it waits to make them a profile."""
    import_file(BASIC, url, "first", "first")
    with PostgresqlConnection(url) as held:
        held.execute("BEGIN")
        held.rows(postgresql_writer.LOCK)
        process = writer(url, "a", 1)
        until(lambda: rows(url, WAITS) != [])
        yield held, process


def test_rows_come_in_while_another_import_is_not_done(url: Url) -> None:
    """Only what makes rows a profile is written by one after the other."""
    with waiting_writer(url) as (held, process):
        waiting = "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        assert rows(url, waiting) == [{"n": 1}]
        assert labels(url) == ["first"]
        held.execute("COMMIT")
    assert process.wait() == 0
    assert labels(url) == ["first", "a-0"]


def test_a_killed_writer_leaves_nothing(url: Url) -> None:
    with waiting_writer(url) as (held, process):
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        held.execute("COMMIT")
    until(lambda: rows(url, OTHERS) == [{"n": 0}])
    assert labels(url) == ["first"]
    assert [name for name, ids in profile_ids(url).items() if ids - {1}] == []


def test_a_file_that_strict_refuses_leaves_nothing(url: Url) -> None:
    result = api.import_files([ODD / "bad-cells.sqlite"], url, strict=True)
    assert "not imported" in str(result.errors[0])
    assert labels(url) == []
    assert rows(url, "SELECT count(*) AS n FROM kernel") == [{"n": 0}]


# -- what is refused


def test_a_wrong_password_is_not_shown(running: Server, tmp_path: Path) -> None:
    wrong = running.url(password="Wr0ng-one")
    for words in (("runs", wrong.secret), ("import", BASIC, "-o", wrong.secret),
                  ("report", wrong.secret + "@main"), ("info", wrong.secret),
                  ("sql", wrong.secret, "select 1"), ("diff", wrong.secret, wrong.secret),
                  ("export", wrong.secret, "--to", "parquet")):  # fmt: skip
        outcome = command(*words, cwd=tmp_path)
        assert outcome.status == 2, words
        assert "the server refuses the password" in outcome.err
        assert "Wr0ng" not in outcome.out + outcome.err


def test_the_password_may_come_from_the_environment(
    url: Url, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = url.secret.replace(f":{PASSWORD}", "")
    assert PASSWORD not in bare
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"*:*:*:*:{PASSWORD}\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    assert command("import", BASIC, "-o", bare, cwd=tmp_path).status == 0
    monkeypatch.delenv("PGPASSFILE")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert "basic-3.25.0" in command("runs", bare, cwd=tmp_path).out


def test_why_says_what_it_says_of_the_file(shared: Url) -> None:
    """Ids count a profile's own rows, whatever else the database holds, and in which order it reads."""
    import_file(BASIC, shared, "before", "before why")
    import_file(BASIC, shared, "why", "why")
    with api.open(BASIC) as file, api.open(f"{shared.secret}@why") as stored:
        for event in ("kernel:1", "kernel:8", "memcpy:3", "memset:1", "api_call:20", "range:5"):
            answers = [{**p.why(event).rows()[0], "profile": None} for p in (file, stored)]
            assert answers[0] == answers[1]


def test_every_command_takes_an_address_and_shows_no_password(url: Url, tmp_path: Path) -> None:
    target = url.secret
    for words in (("import", BASIC, "-o", target), ("import", OTHER, "-o", target), ("runs", target),
                  ("info", f"{target}@basic-3.25.0"), ("report", f"{target}@1"),
                  ("report", "--list", f"{target}@1"), ("report", f"{target}@1", "-o", "page.html"),
                  ("sql", target, "select count(*) from v_gpu_op"),
                  ("export", f"{target}@1", "--to", "parquet"),
                  ("export", target, "--to", "chrome"),
                  ("diff", f"{target}@1", f"{target}@2")):  # fmt: skip
        outcome = command(*words, cwd=tmp_path)
        assert outcome.status == 0, outcome.err
        assert PASSWORD not in outcome.out + outcome.err
    texts = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert texts != []
    assert not any(PASSWORD.encode() in text for text in texts)
    assert (tmp_path / f"{url.database}-1_parquet").is_dir()


def test_several_profiles_and_none_named(url: Url, tmp_path: Path) -> None:
    api.import_files([BASIC, OTHER], url)
    outcome = command("report", url.secret, "overview", cwd=tmp_path)
    shown = f"{url}@basic-3.25.0"
    assert (outcome.status, shown in outcome.err + outcome.out) in {(2, True), (0, False)}


def test_there_is_no_such_database(running: Server, tmp_path: Path) -> None:
    said = ("there is no such database", "createdb")
    refused(2, "runs", running.url("nothing").secret, cwd=tmp_path, said=said)


def test_a_database_without_a_store(url: Url, tmp_path: Path) -> None:
    refused(3, "runs", url.secret, cwd=tmp_path, said=f"{url}: not an nsysconv store")
    assert rows(url, "SELECT relname FROM pg_class WHERE relname = 'kernel'") == []


@pytest.mark.parametrize(("words", "does"), [
    (("runs",), f"reads {schema.OLDEST_READ} to {schema.SCHEMA_VERSION}"),
    (("import", OTHER, "-o"), f"writes {schema.SCHEMA_VERSION}"),
])  # fmt: skip
def test_a_store_of_another_version(
    url: Url, words: tuple[str | Path, ...], does: str, tmp_path: Path
) -> None:
    api.import_files([BASIC], url)
    with PostgresqlConnection(url) as connection:
        connection.execute("UPDATE nsysconv_store SET schema_version = 99")
    said = (f"schema version 99, this nsysconv {does}", "pip install --upgrade")
    refused(3, *words, url.secret, cwd=tmp_path, said=said)


def test_a_store_of_an_older_version_is_read_and_not_added_to(url: Url, tmp_path: Path) -> None:
    api.import_files([BASIC], url)
    asked = ("report", url.secret, "kernels", "summary", "-f", "csv", "-o", ".")
    assert command(*asked, cwd=tmp_path).status == 0
    wanted = (tmp_path / "kernels.csv").read_bytes()
    with PostgresqlConnection(url) as connection:
        for view in views():
            connection.execute(f"DROP VIEW {view}")
        for column in schema.columns_since(schema.OLDEST_READ):
            connection.execute(f'ALTER TABLE "{column.table.name}" DROP COLUMN {column.name}')
        connection.execute(f"UPDATE nsysconv_store SET schema_version = {schema.OLDEST_READ}")
    assert command(*asked, cwd=tmp_path).status == 0
    assert (tmp_path / "kernels.csv").read_bytes() == wanted
    said = f"nsysconv import {url} -o ANOTHER-DATABASE"
    refused(3, "import", OTHER, "-o", url.secret, cwd=tmp_path, said=said)
    # A new store is made of what it holds.
    assert command("import", url.secret, "-o", "new.db", cwd=tmp_path).status == 0
    assert labels(tmp_path / "new.db") == labels(url)


def test_tables_of_others_are_left_alone(url: Url, tmp_path: Path) -> None:
    with PostgresqlConnection(url) as connection:
        connection.execute("CREATE TABLE customer (id int)")
    assert command("import", BASIC, "-o", url.secret, cwd=tmp_path).status == 0


def test_tables_of_others_with_names_of_ours_are_in_the_way(url: Url, tmp_path: Path) -> None:
    with PostgresqlConnection(url) as connection:
        connection.execute("CREATE TABLE device (id int)")
    said = ("names of ours: device", "createdb")
    refused(2, "import", BASIC, "-o", url.secret, cwd=tmp_path, said=said)
    assert rows(url, "SELECT relname FROM pg_class WHERE relname = 'kernel'") == []


def test_a_user_who_may_only_read(running: Server, url: Url, tmp_path: Path) -> None:
    api.import_files([BASIC], url)
    with PostgresqlConnection(url) as connection:
        connection.execute(f"CREATE ROLE reader_{url.database} LOGIN PASSWORD 'r3ads'")
        connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader_{url.database}")
    theirs = running.url(url.database, f"reader_{url.database}", "r3ads").secret
    assert command("report", theirs, cwd=tmp_path).status == 0
    said = ("the user may not do that: permission denied", "GRANT")
    refused(2, "import", OTHER, "-o", theirs, cwd=tmp_path, said=said)
    empty = running.url(running.database().database, f"reader_{url.database}", "r3ads").secret
    refused(2, "import", OTHER, "-o", empty, cwd=tmp_path, said="permission denied for schema public")


# -- queries of people


@pytest.fixture(scope="module")
def queried(shared: Url) -> Url:
    """The same database, with a profile in it."""
    imported(BASIC, shared)
    return shared


@pytest.mark.parametrize("query", [
    "delete from kernel", "update run set label = 'x'", "drop table kernel", "create table x (a int)",
    "delete from kernel returning id", "with gone as (delete from kernel returning 1) select * from gone",
    "truncate kernel", "copy kernel from '/etc/passwd'", "select nextval('profile_id_seq')",
    # What has no columns can do more than a transaction that only reads allows.
    "do $$ begin perform set_config('default_transaction_read_only', 'off', false); commit; "
    "delete from kernel; end $$",
    "copy (select 1) to '/tmp/nsysconv-made-by-a-query'", "set default_transaction_read_only = off",
    "begin read write", "commit", "notify a", "listen a", "vacuum", "create temp table mine (a int)",
    "/* nothing */",
])  # fmt: skip
def test_a_query_changes_nothing(queried: Url, query: str, tmp_path: Path) -> None:
    before = rows(queried, "SELECT count(*) AS n FROM kernel")
    said = "only selects on tables and views are run"
    refused(2, "sql", queried.secret, query, cwd=tmp_path, said=said)
    assert rows(queried, "SELECT count(*) AS n FROM kernel") == before
    assert not Path("/tmp/nsysconv-made-by-a-query").exists()


def test_what_a_function_makes_is_undone(queried: Url, tmp_path: Path) -> None:
    """Old servers let some functions write in a transaction that only reads."""
    command("sql", queried.secret, "select lo_create(0)", cwd=tmp_path)
    command("sql", queried.secret, "select lo_from_bytea(0, 'abc')", cwd=tmp_path)
    (objects,) = rows(queried, "SELECT count(*) AS n FROM pg_largeobject_metadata")
    assert objects == {"n": 0}


@pytest.mark.parametrize(("query", "said"), [
    ("select 1; delete from kernel", "several statements: only one select"),
    ("selec 1", 'PostgreSQL cannot run the query: syntax error at or near "selec"'),
    ("select * from kernl", "Did you mean kernel or v_kernel"),
    ("select strt_ns from kernel", "Did you mean start_ns"),
    ("select k.strt_ns from kernel k", "Did you mean start_ns"),
    ("select * from public.v_kernal", "Did you mean v_kernel"),
])  # fmt: skip
def test_a_wrong_query_is_answered_with_what_is_wrong(
    queried: Url, query: str, said: str, tmp_path: Path
) -> None:
    refused(2, "sql", queried.secret, query, cwd=tmp_path, said=said)


def test_a_query_is_answered_in_numbers_and_texts(url: Url, tmp_path: Path) -> None:
    import_file(BASIC, url)
    sql = ("select count(*) as n, sum(dur_ns) as total, avg(dur_ns) as mean, min(name) as name, 1 as one "
           "from v_kernel")  # fmt: skip
    outcome = command("sql", url.secret, sql, "-f", "json", cwd=tmp_path)
    (report,) = json.loads(outcome.out)["reports"]
    (row,) = report["rows"]
    assert (row["n"], row["total"], row["mean"], row["one"]) == (8, 38_000, 4_750.0, 1)
    assert row["name"] == "stencil"


@pytest.mark.parametrize(("number", "status", "query"), [
    (signal.SIGINT, 130, "select pg_sleep(600)"),
    (signal.SIGTERM, 143, "select count(*) from generate_series(1, 1000000000000)"),
    (signal.SIGHUP, 129, "select g from generate_series(1, 1000000000000) g"),
])  # fmt: skip
def test_a_signal_ends_a_query_and_what_the_server_does_for_it(
    number: signal.Signals, status: int, query: str, url: Url, tmp_path: Path
) -> None:
    active = f"{OTHERS} AND state = 'active'"
    import_file(BASIC, url)
    with subprocess.Popen(
        [sys.executable, "-m", "nsysconv", "sql", url.secret, query], cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=CHILD_ENVIRONMENT,
        preexec_fn=lambda: [signal.signal(n, signal.SIG_DFL) for n in (1, 2, 15)],
    ) as process:  # fmt: skip
        until(lambda: rows(url, active) == [{"n": 1}])
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err) == (status, "", "nsysconv: interrupted\n")
    until(lambda: rows(url, active) == [{"n": 0}])


def test_views_show_what_they_show_in_a_file(url: Url, tmp_path: Path) -> None:
    source = NSYS / "graphs-3.28.1.sqlite"
    file = tmp_path / "store.db"
    import_file(source, url)
    import_file(source, file)
    for view in ("v_gpu_op", "v_sync", "v_kernel", "v_api_call", "v_memcpy"):
        found = ask(url, f"SELECT * FROM {view}").to_pylist()
        expected = ask(file, f"SELECT * FROM {view}").to_pylist()
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), view


def test_views_have_the_steps_that_they_have_in_a_file(url: Url, tmp_path: Path) -> None:
    """Of all profiles; and a query that asks for them changes nothing either."""
    file = tmp_path / "store.db"
    sources = [BASIC, NSYS / "ranges-3.16.1.sqlite", FIXTURES / "kineto/ranges-2.13.json"]
    for place in (url, file):
        api.import_files(sources, place)
    for view in ("v_gpu_op", "v_kernel", "v_api_call", "v_range"):
        query = f"SELECT profile_id, start_ns, name, step, occurrence FROM {view}"
        found, expected = (api.sql(place, query).to_arrow().to_pylist() for place in (url, file))
        assert sorted(map(repr, found)) == sorted(map(repr, expected)), view
        assert any(row["step"] for row in found), view
    gone = "with gone as (delete from kernel returning 1) select step from v_kernel, gone"
    refused(2, "sql", url.secret, gone, cwd=tmp_path, said="only selects on tables and views are run")
    assert rows(url, "SELECT count(*) AS n FROM pg_class WHERE relname = 'step_of_event'") == [{"n": 0}]


def test_only_selects_are_asked_of_the_server(url: Url) -> None:
    """Sums and orders are ours: what a report asks for are columns of rows."""
    import_file(BASIC, url)
    with PostgresqlConnection(url) as connection:
        connection.execute(f"ALTER DATABASE {url.database} SET log_statement = 'all'")
    said = Path(url.secret.partition("host=")[2].replace("%2F", "/")) / "log"
    before = said.stat().st_size
    told(url, BASIC.name)
    text = said.read_bytes()[before:].decode()
    assert len(re.findall(r"FROM kernel\b", text)) > 1
    assert re.findall(r"GROUP BY|sum\(|avg\(|INSERT|UPDATE|DELETE", text) == []


def test_metrics_and_timelines_of_databases_are_joined(running: Server, tmp_path: Path) -> None:
    """Either side, or both, in a database: as from files; and what is imported is known again."""
    metrics = metrics_file(tmp_path, launches())
    timeline, other = running.database(), running.database()
    api.import_files([BASIC], timeline)
    api.import_files([metrics], other)
    with api.open(BASIC, join=str(metrics)) as profile:
        wanted = profile.report("kernels").rows()
    assert {row["memory_pct"] for row in wanted} == {52.5, 54, 55, 58}
    for one, joined in ((timeline, str(metrics)), (str(BASIC), other.secret), (timeline, other.secret)):
        with api.open(one, join=joined) as profile:
            for row, same in zip(profile.report("kernels").rows(), wanted, strict=True):
                assert {**row, "profile": ""} == {**same, "profile": ""}
    into = running.database()
    asked = ("import", "--join", f"{timeline.secret}@{BASIC.stem}", other.secret, "-o", into.secret)
    assert command(*asked, cwd=tmp_path).status == 0
    assert "already imported" in command(*asked, cwd=tmp_path).out
    shown = command("report", into.secret, "kernels", "-f", "json", cwd=tmp_path)
    assert '"memory_pct": 52.5' in shown.out
    assert PASSWORD not in shown.out + shown.err


def test_a_database_of_several_profiles_needs_a_label_to_be_joined(
    running: Server, tmp_path: Path
) -> None:
    several = running.database()
    api.import_files([BASIC], several)
    api.import_files([metrics_file(tmp_path, launches())], several)
    failed = command("report", several.secret, BASIC, "--join", "kernels", cwd=tmp_path)
    assert failed.status != 0
    assert "the store holds 2 profiles" in failed.err
    assert PASSWORD not in failed.err
    words = (f"{several.secret}@{BASIC.stem}", f"{several.secret}@ncu")
    assert command("report", *words, "--join", "kernels", cwd=tmp_path).status == 0
