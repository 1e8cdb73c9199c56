"""A PostgreSQL server of the tests' own: in a temporary folder, over a Unix socket, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from urllib.parse import quote

from nsysconv.store.location import Url
from nsysconv.store.postgresql import PostgresqlConnection

USER, PASSWORD = "tester", "Pa55-w0rd-of-nobody"
_PLACES = "/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin"


def programs() -> Path | None:
    """The folder of `initdb` and `pg_ctl`: of the PATH, else the newest where distributions put them."""
    found = shutil.which("pg_ctl")
    if found is not None:
        return Path(found).resolve().parent
    folders = [path for place in _PLACES for path in Path("/").glob(place[1:])]
    folders = [path for path in folders if (path / "pg_ctl").exists()]
    return max(folders, key=lambda path: [int(p) for p in path.parts if p.isdigit()], default=None)


class Server:
    """A running server. Its databases are made when they are asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1)

    def url(self, database: str = "postgres", user: str = USER, password: str = PASSWORD) -> Url:
        """The address of a database."""
        return Url(f"postgresql://{user}:{password}@/{database}?host={quote(str(self._folder))}")

    def database(self) -> Url:
        """A new database."""
        name = f"db{next(self._numbers)}"
        with PostgresqlConnection(self.url()) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)


@contextmanager
def server() -> Iterator[Server]:
    """Starts a server, and stops it. The server refuses to run as root: then somebody else runs it."""
    folder = Path(tempfile.mkdtemp(prefix="nsysconv-pg-"))
    found = programs()
    assert found is not None
    somebody: str | None = None
    if os.geteuid() == 0:
        somebody = next(name for name in ("postgres", "nobody") if _exists(name))
        shutil.chown(folder, somebody)

    def run(*words: str | Path) -> None:
        with (folder / "said").open("a") as said:
            subprocess.run(words, check=True, stdout=said, stderr=said, cwd=folder, user=somebody)

    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o644)
    try:
        run(found / "initdb", "--pgdata", folder / "data", "--username", USER, "--auth=scram-sha-256",
            "--pwfile", folder / "password", "--encoding=UTF8", "--no-sync")  # fmt: skip
        options = f"-k {folder} -c listen_addresses='' -c fsync=off -c max_connections=40"
        run(found / "pg_ctl", "--pgdata", folder / "data", "--options", options,
            "--log", folder / "log", "--wait", "start")  # fmt: skip
        yield Server(folder)
    finally:
        with suppress(subprocess.CalledProcessError):
            run(found / "pg_ctl", "--pgdata", folder / "data", "--mode=immediate", "--wait", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def _exists(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True
