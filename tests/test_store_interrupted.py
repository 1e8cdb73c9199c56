"""A signal that comes while the driver is at work is what is told, not what the driver makes of it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import Any

import adbc_driver_manager as adbc
import pytest

from nsysconv.cli.runtime import Interrupted
from nsysconv.store.sqlite.connection import SqliteConnection


@pytest.fixture
def interrupted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A signal comes when one of these is made, which then counts as open."""
    make, made = getattr(adbc, request.param), []

    def making(*arguments: Any, **options: Any) -> None:
        made.append(make(*arguments, **options))
        raise Interrupted(signal.SIGTERM)

    monkeypatch.setattr(adbc, request.param, making)
    yield
    monkeypatch.undo()
    for one in made:
        one.close()


@pytest.mark.usefixtures("interrupted")
@pytest.mark.parametrize("interrupted", ["AdbcConnection", "AdbcStatement"], indirect=True)
def test_while_it_makes_something() -> None:
    with pytest.raises(Interrupted), SqliteConnection(":memory:", "a.db") as connection:
        connection.execute("SELECT 1")


def test_what_is_left_open_without_a_signal_is_a_defect() -> None:
    connection = SqliteConnection(":memory:", "a.db")
    statement = adbc.AdbcStatement(connection._connection)
    with pytest.raises(RuntimeError, match="open AdbcStatement"):
        connection.close()
    statement.close()
    connection.close()
