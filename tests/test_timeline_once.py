"""What threads share is made once."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep

import pytest

from nsysconv.timeline.once import Made, once


class Maker:
    """Counts how often its value is made, which takes long enough for others to ask meanwhile."""

    def __init__(self) -> None:
        self.count = 0

    @once
    def value(self) -> object:
        """The value."""
        self.count += 1
        sleep(0.2)
        return object()


class Heir(Maker):
    @once
    def value(self) -> object:
        return ("more than", super().value)


def test_threads_that_ask_at_the_same_time_get_the_same() -> None:
    maker, start = Maker(), Barrier(4)

    def ask(_: int) -> object:
        start.wait()
        return maker.value

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ask, range(4)))
    assert len(set(map(id, found))) == 1
    assert maker.count == 1


def test_each_object_has_its_own() -> None:
    one, other = Maker(), Maker()
    assert one.value is one.value
    assert one.value is not other.value


def test_what_overrides_a_value_may_ask_for_it() -> None:
    heir = Heir()
    assert heir.value == ("more than", super(Heir, heir).value)
    assert heir.count == 1


def test_a_class_has_its_words() -> None:
    assert Maker.value.__doc__ == "The value."


def test_what_failed_is_made_again() -> None:
    made = Made()
    with pytest.raises(ZeroDivisionError):
        made.get("half", lambda: 1 // 0)
    assert made.get("half", lambda: 2) == 2


def test_one_that_is_made_may_ask_for_others() -> None:
    made = Made()
    assert made.get("sum", lambda: made.get("part", lambda: 2) + 1) == 3
    assert made.get("part", lambda: sys.maxsize) == 2


def test_what_was_let_go_of_is_made_again() -> None:
    made = Made()
    assert made.get("number", lambda: 1) == 1
    made.clear()
    assert made.get("number", lambda: 2) == 2
