"""Places of stores: what an address names, and that its password is never shown."""

from __future__ import annotations

import pickle
import string
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from capturing import place as capturing_place
from capturing import standins
from conftest import NSYS, by_turns, few, with_slow
from hypothesis import given
from hypothesis import strategies as st
from run_command import run

import nsysconv
from nsysconv import api, record
from nsysconv.api import capturing, diffing, profile_info
from nsysconv.errors import CaptureError, NsysconvError, UsageError
from nsysconv.store.location import (
    Url,
    is_address,
    is_new,
    local_path,
    parse_location,
    redacted_target,
    split_target,
)

SECRET = "pa55"


@pytest.mark.parametrize(("target", "where", "word"), [
    ("postgresql://host/db@main", "postgresql://host/db", "main"),
    ("postgresql://me:pa55@host/db@rank=3", "postgresql://me:pa55@host/db", "rank=3"),
    ("postgresql://me:pa55@host/db", "postgresql://me:pa55@host/db", None),
    ("postgres://me@host", "postgres://me@host", None),
    ("postgresql:///db?host=/tmp/x&user=me@main", "postgresql:///db?host=/tmp/x&user=me", "main"),
    ("postgresql://a:1,[::1]:2/db@x@y", "postgresql://a:1,[::1]:2/db", "x@y"),
    ("postgresql://", "postgresql://", None),
    (" PostgreSQL+asyncpg://me:pa55@host/db@main\n", "postgresql://me:pa55@host/db", "main"),
    ("postgresql://host/db@ci=https://host/1", "postgresql://host/db", "ci=https://host/1"),
    ("postgresql://me@host/db@feature/x", "postgresql://me@host/db", "feature/x"),
    ("postgresql://host/db?password=pa55@main", "postgresql://host/db?password=pa55", "main"),
])  # fmt: skip
def test_the_word_stands_behind_the_name_of_the_database(
    target: str, where: str, word: str | None
) -> None:
    assert split_target(target) == (Url(where), word)


def test_the_word_stands_behind_the_last_at_of_a_path(tmp_path: Path) -> None:
    (tmp_path / "a@b").touch()
    assert split_target(tmp_path / "a@b") == (tmp_path / "a@b", None)
    assert split_target(f"{tmp_path}/a@b@c") == (tmp_path / "a@b", "c")
    assert split_target("a.db@ci=https://host/1") == (Path("a.db"), "ci=https://host/1")


def test_slashes_of_an_address_are_kept_and_a_path_is_a_path() -> None:
    assert parse_location("postgresql://host/db") == Url("postgresql://host/db")
    assert parse_location("postgresql.db") == Path("postgresql.db")
    assert parse_location(Url("postgresql://host/db")) == Url("postgresql://host/db")


@pytest.mark.parametrize(("secret", "seen"), [
    ("postgresql://me:pa55@host:1/db", "postgresql://me:***@host:1/db"),
    ("postgresql://me:pa55@/db?host=/x", "postgresql://me:***@/db?host=/x"),
    ("postgresql://me:pa55?#&@host/db", "postgresql://me:***@host/db"),
    ("postgresql://h/db?password=pa55&user=me", "postgresql://h/db?password=***&user=me"),
    ("postgresql://h/db?user=me&pass%77ord=pa55", "postgresql://h/db?user=me&pass%77ord=***"),
    ("postgresql://h/db?sslpassword=pa55", "postgresql://h/db?sslpassword=***"),
    ("postgresql://me@host/db", "postgresql://me@host/db"),
])  # fmt: skip
def test_a_password_is_not_shown(secret: str, seen: str) -> None:
    url = Url(secret)
    # Behind a password that is an option the word may be the rest of it.
    word = "***" if seen.endswith("***") else "main"
    assert (str(url), f"{url}", redacted_target(f"{secret}@main")) == (seen, seen, f"{seen}@{word}")
    assert SECRET not in repr(url) + repr([url]) + repr(pickle.loads(pickle.dumps(url)))


@pytest.mark.parametrize("secret", [
    "postgresql://me:pa55/x@host/db", "postgresql://me:pa55@x@host/db", "postgresql://h:pa55/db",
])  # fmt: skip
def test_an_address_that_cannot_be_read_is_not_shown(secret: str) -> None:
    """A password with a character that ends it: what is the password cannot be told."""
    assert redacted_target(secret) == "postgresql://***"
    for read in (parse_location, split_target):
        with pytest.raises(UsageError) as caught:
            read(secret)
        assert SECRET not in str(caught.value)
        assert "%2F" in caught.value.hint


def test_a_password_is_hidden_in_the_words_of_others() -> None:
    url = Url("postgresql://me:p%61%2f55@host/db?sslpassword=other")
    said = f"cannot use {url.secret}: p%61%2f55, pa/55 and other"
    assert url.hide(said) == f"cannot use {url}: ***, *** and ***"


def test_the_database_is_what_files_are_called_after() -> None:
    assert Url("postgresql://host/my%20db?x=1").database == "my db"
    assert Url("postgresql://host").database == "postgresql"


def test_only_a_file_can_be_known_not_to_be_there(tmp_path: Path) -> None:
    assert is_new(tmp_path / "new.db")
    assert not is_new(tmp_path)
    assert not is_new(Url("postgresql://host/db"))


def test_a_server_that_is_not_there_is_an_error_with_a_hint() -> None:
    pytest.importorskip("adbc_driver_postgresql", reason="pip install 'nsysconv[postgres]'")
    with pytest.raises(UsageError, match="no PostgreSQL server answers there") as caught:
        profile_info.runs(f"postgresql://me:{SECRET}@127.0.0.1:1/db")
    assert SECRET not in str(caught.value)
    assert "pg_isready" in caught.value.hint


# -- spellings of addresses with a password in them, M of which is every piece

M = "Zq7"
FILE = NSYS / "basic-3.25.0.sqlite"
NOBODY = "127.0.0.1:9"
TAKEN = [
    f"postgresql://me:{M}@{NOBODY}/db", f"postgres://me:{M}@{NOBODY}/db",
    f"POSTGRESQL://me:{M}@{NOBODY}/db", f"PostGres://me:{M}@{NOBODY}/db",
    f" postgresql://me:{M}@{NOBODY}/db", f"\tpostgresql://me:{M}@{NOBODY}/db \n",
    f"postgresql+psycopg2://me:{M}@{NOBODY}/db", f"Postgresql+AsyncPG://me:{M}@{NOBODY}/db",
    f"postgres+pg8000://me:{M}@{NOBODY}/db", f"postgresql://me:{M}:{M}@{NOBODY}/db",
    f"postgresql://me:{M}%{M}@{NOBODY}/db", f"postgresql://me:{M}#{M}@{NOBODY}/db",
    f"postgresql://me:{M}?{M}@{NOBODY}/db", f"postgresql://me:{M}%40{M}%2F{M}@{NOBODY}/db",
    f"postgresql://me:{M}\n{M}\t{M}@{NOBODY}/db", f"postgresql://me:{M} {M}@{NOBODY}/db",
    f"postgresql://:{M}@{NOBODY}/db", f"postgresql://me:{M}@[::1]:9/db",
    f"postgresql://me:{M}@{NOBODY},127.0.0.2:9/db", f"postgresql://me:{M}@{NOBODY}/db@main",
    f"postgresql://me:{M}@{NOBODY}/db@rank=3", f"postgresql://{NOBODY}/db?password={M}",
    f"postgresql://{NOBODY}/db?PASSWORD={M}&user=me", f"postgresql://{NOBODY}/db?sslPassword={M}@main",
    f"postgresql://{NOBODY}/db?user=me&pass%77ord={M}", f"postgresql://{NOBODY}/db?password={M}@{M}",
    f"postgresql://{NOBODY}/db?passfile={M}", f"postgresql:///db?host=/nowhere&password={M}",
    f"postgresql://{NOBODY}/db?options=-cmy.password%3D{M}", f"postgresql://me%3A{M}@{NOBODY}/db",
]  # fmt: skip
REFUSED = [
    f"postgresql://me:{M}@{M}@{NOBODY}/db", f"postgresql://me:{M}/{M}@{NOBODY}/db",
    f"postgresql://me:{M}@{M}/{M}@{NOBODY}/db", f"postgresql://me:{M}@:/%#?{M}@{NOBODY}/db",
    f"postgresql://me:7/{M}@{NOBODY}/db", f"postgresql:///me:{M}@{NOBODY}/db",
    f"postgresql:////me:{M}@{NOBODY}/db", f"postgresql://{NOBODY}/db;pwd={M}",
    f"postgresql://{NOBODY};pwd={M}/db", f"postgresql://{NOBODY}/db@main?password={M}",
    f"postgres:/me:{M}@h/db", f"postgresql:me:{M}@h/db",
    f"postgresql//me:{M}@h/db", f"'postgresql://me:{M}@h/db'", f"jdbc:postgresql://me:{M}@h/db",
    f"jdbc:postgresql://h/db?user=me&password={M}", f"mysql://me:{M}@h/db", f"mysql:/me:{M}@h/db",
    f"  MySQL+PyMySQL://me:{M}@h/db", f"mysql://me:{M}@h/db@main", f"mssql://h/db;UID=me;PWD={M}",
    f"mongodb+srv://me:{M}\n{M}@h/db", f"sqlite:///x.db?password={M}", f"redis://:{M}@h/0",
    f"s3://KEY:{M}@bucket", f"https://me:{M}@h/x.json", f"https://{M}@h/x.json",
    f"https://h/x.json?token={M}", f"file:///x.db?key={M}", f"a.db@ci=https://me:{M}@h/1",
    f"host=h user=me password={M}",
]  # fmt: skip
ADDRESSES = TAKEN + REFUSED

COMMANDS = """
A | A -f json | A --open | A A | A kernels | F -o A | report A | report A kernels rank_summary
report --list A | report A -o page.html | report F kernels -o A | report F -o A/ | report F A
import A | import F -o A | import A -o new.db | import A F -o new.db | import --join A A
import F --output=A | import F --run A | import F --label A | import F --tag x=A | import F --tag A
import F -o new.db --dask A | runs A | info A | info F A | info F --limit A | info F --format A
diff A F | diff F A | diff F F -o A | diff F F A | diff F F --limits A | sql A S | sql F A -o A
export A --to chrome | export F -o A | export F --to parquet -o A | export A -o A
why A kernel:1 | why F A | A --outptu A | runs --store=A
profile --store A -- nsys profile true | profile --run A -- nsys profile true | profile A
profile --ranks A -- x | profile --scratch A -- nsys profile true | profile -- nsys profile -o A true
profile -- nsys profile -o A/x true""".strip().replace(" | ", "\n").splitlines()


def left_in(folder: Path) -> Iterator[str]:
    """Whatever shows a piece of a password in a folder: a name, or the bytes of a file."""
    for path in folder.rglob("*"):
        if M in str(path.relative_to(folder)) or (path.is_file() and M.encode() in path.read_bytes()):
            yield str(path)


@pytest.mark.parametrize(("command", "turn"), with_slow(
    ((command, turn), number % 3 == 0 and (number + turn) % 16 == 0)
    for number, command in enumerate(COMMANDS) for turn in range(16)
))  # fmt: skip
def test_no_command_shows_a_password(
    command: str, turn: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F is a profile, A an address."""
    monkeypatch.setenv("PATH", str(standins(tmp_path / "bin")), prepend=":")
    here = tmp_path / "here"
    here.mkdir()
    values = {"F": str(FILE), "S": "select 1"}
    found = []
    for address in ADDRESSES[turn::16]:
        words = [values.get(word) or word.replace("A", address) for word in command.split()]
        said = run(*words, cwd=here)
        assert said.status, (words, said)
        found += [(address, said)] if M in said.out + said.err else []
    assert found == []
    assert list(left_in(here)) == []


def raised(error: BaseException | None) -> Iterator[str]:
    """All that can be read of an error, of what led to it, and of copies."""
    while error is not None:
        yield from (str(error), repr(error), repr(error.args), repr(vars(error)))
        yield "".join(traceback.format_exception(error))
        yield str(pickle.dumps(error)) if isinstance(error, NsysconvError) else ""
        error = error.__cause__ or error.__context__


CALLS: dict[str, Any] = {
    "open": lambda target: nsysconv.open(target),
    "report": lambda target: api.report_on(target, "kernels"),
    "page": lambda target: nsysconv.page(target),
    "reports": lambda target: api.reports(target),
    "runs": lambda target: api.runs(target),
    "history": lambda target: api.history(target),
    "forget": lambda target: api.forget(target, keep=0),
    "info": lambda target: api.info(target),
    "sql": lambda target: api.sql(target, "select 1"),
    "diff": lambda target: diffing.compare(target, FILE),
    "diff with": lambda target: diffing.compare(FILE, target),
    "limits": lambda target: diffing.compare(FILE, FILE, limits=target),
    "export": lambda target: api.export_profiles(target, "chrome"),
    "export to": lambda target: api.export_profiles(FILE, "chrome", target),
    "import": lambda target: api.import_files(target, "new.db"),
    "import into": lambda target: api.import_files(FILE, target),
    "run": lambda target: api.import_files(FILE, "new.db", run=target),
    "tag": lambda target: api.import_files(FILE, "new.db", tags={"x": f"{target}?password={M}"}),
    # Of two slashes a Path makes one.
    "Path": lambda target: api.runs(Path(target.replace("postgresql//", "postgresql:"))),
    "scratch": lambda target: capturing.profile(["nsys", "profile", "true"], scratch=target),
    "stores": lambda target: capturing.profile(["nsys", "profile", "x"], stores=target, environment={}),
}


@pytest.mark.parametrize(("call", "turn"), by_turns(CALLS, range(4), 4))
def test_no_error_of_the_library_holds_a_password(
    call: str, turn: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = []
    for address in ADDRESSES[turn::4]:
        with pytest.raises(NsysconvError) as caught:
            CALLS[call](address)
        found += [(address, text) for text in raised(caught.value) if M in text]
    assert found == []
    assert list(left_in(tmp_path)) == []


@pytest.mark.parametrize("address", few(ADDRESSES, 10))
def test_the_traceback_of_a_defect_shows_no_password(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(target: str) -> None:
        raise RuntimeError(f"{target} and {target!r}") from ValueError(target)

    monkeypatch.setattr(api, "runs", fails)
    said = run("runs", address, cwd=tmp_path)
    assert said.status == 70
    assert "Traceback" in said.err
    assert M not in said.err


@pytest.mark.parametrize("address", TAKEN)
def test_what_can_only_be_postgresql_is_taken(address: str) -> None:
    location, _ = split_target(address)
    assert isinstance(location, Url)
    assert location.secret.startswith("postgresql://")


@pytest.mark.parametrize("address", REFUSED)
def test_other_addresses_are_refused_with_what_is_known(address: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_location(address)
    assert "postgresql://USER@HOST" in caught.value.hint
    assert "by its path" in caught.value.hint


@pytest.mark.parametrize("path", [
    "a.db", "a.db@main", "/x/12:30.db", "C:/x.db", "./mysql:/x", "tokens=3.sqlite", "run=3/pwd=4/x",
    "x?y.db", "a.db@mail=me@host",
])  # fmt: skip
def test_a_path_is_no_address(path: str) -> None:
    assert not is_address(path)
    assert local_path(path) == Path(path)


def test_an_address_names_no_file_to_write(tmp_path: Path) -> None:
    said = run(FILE, "-o", "postgresql://me:pa55@host/x.html", cwd=tmp_path)
    assert said.status == 2
    assert said.err == "nsysconv: postgresql://me:***@host/x.html: an address, where a path is needed\n"


@given(st.text(string.printable, min_size=1).filter(lambda text: not {*"@/"} & {*text}))
def test_any_password_that_can_be_read_is_hidden(password: str) -> None:
    url = Url(f"postgresql://me:<{password}>@h/db")
    assert f"{url}" == "postgresql://me:***@h/db"
    assert f"<{password}>" not in url.hide(f"cannot use {url.secret!r}, <{password}>: {url.secret}")


@given(st.sampled_from(["mysql://", "postgres:/", "jdbc:postgresql://", "https://"]),
       st.text(string.printable))  # fmt: skip
def test_of_an_address_that_is_refused_its_scheme_is_shown(scheme: str, rest: str) -> None:
    shown = "jdbc:***" if scheme.startswith("jdbc") else f"{scheme}***"
    assert redacted_target(f"{scheme}u:<{rest}>@h/db") == shown


def test_a_capture_whose_store_does_not_answer_keeps_no_password(tmp_path: Path) -> None:
    place = capturing_place(tmp_path)
    wrapper = (sys.executable, "-m", "nsysconv", "profile")
    line = ["nsys", "profile", "-o", "x", "true"]
    done = place.run(wrapper, ["--store", TAKEN[0]], line)
    assert done.returncode == 0, done.stderr
    assert b"postgresql://me:***@127.0.0.1:9/db" in done.stderr
    assert M.encode() not in done.stdout + done.stderr
    assert list(left_in(tmp_path)) == []
    (path,) = place.here.glob("*.nsysconv.json")
    content = record.read(path)
    assert content is not None
    assert content.problems == ("it could not be imported",)


def test_a_capture_is_not_started_for_a_store_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="cannot be read as the address"):
        capturing.profile(["nsys", "profile", "true"], stores="mysql://me@h/db", environment={})
