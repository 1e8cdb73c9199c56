"""Places of stores: what an address names, and that its password is never shown."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from nsysconv.api import profile_info
from nsysconv.errors import UsageError
from nsysconv.store.address import Url
from nsysconv.store.location import is_new, parse_location, redacted_target, split_target

SECRET = "pa55"


@pytest.mark.parametrize(("target", "where", "word"), [
    ("postgresql://host/db@main", "postgresql://host/db", "main"),
    ("postgresql://me:pa55@host/db@rank=3", "postgresql://me:pa55@host/db", "rank=3"),
    ("postgresql://me:pa55@host/db", "postgresql://me:pa55@host/db", None),
    ("postgres://me@host", "postgres://me@host", None),
    ("postgresql:///db?host=/tmp/x&user=me@main", "postgresql:///db?host=/tmp/x&user=me", "main"),
    ("postgresql://a:1,[::1]:2/db@x@y", "postgresql://a:1,[::1]:2/db", "x@y"),
    ("postgresql://", "postgresql://", None),
])  # fmt: skip
def test_the_word_stands_behind_the_name_of_the_database(
    target: str, where: str, word: str | None
) -> None:
    assert split_target(target) == (Url(where), word)


def test_the_word_stands_behind_the_last_at_of_a_path(tmp_path: Path) -> None:
    (tmp_path / "a@b").touch()
    assert split_target(tmp_path / "a@b") == (tmp_path / "a@b", None)
    assert split_target(f"{tmp_path}/a@b@c") == (tmp_path / "a@b", "c")


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
    assert (str(url), f"{url}", redacted_target(f"{secret}@main")) == (seen, seen, f"{seen}@main")
    assert SECRET not in repr(url) + repr([url]) + repr(pickle.loads(pickle.dumps(url)))


@pytest.mark.parametrize("secret", [
    "postgresql://me:pa55/x@host/db", "postgresql://me:pa55@x@host/db", "postgresql://h:pa55/db",
])  # fmt: skip
def test_an_address_that_cannot_be_read_is_not_shown(secret: str) -> None:
    """A password with a character that ends it: what is the password cannot be told."""
    for read in (parse_location, split_target, redacted_target):
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
