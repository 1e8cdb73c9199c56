"""What threads share is computed once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep

import pytest

from nsysconv.threads import ThreadSafeCache, cached_in, cached_property


class Owner:
    """Counts how often its values are computed, which takes long enough for others to ask meanwhile."""

    def __init__(self) -> None:
        self.cache = ThreadSafeCache()
        self.count = 0

    @cached_property
    def value(self) -> object:
        """The value."""
        self.count += 1
        sleep(0.2)
        return object()


class Heir(Owner):
    @cached_property
    def value(self) -> object:
        return ("more than", super().value)


@cached_in("cache")
def value_of(owner: Owner) -> object:
    owner.count += 1
    sleep(0.2)
    return object()


@cached_in("cache")
def power(owner: Owner, base: int, exponent: int = 2) -> int:
    owner.count += 1
    return int(base**exponent)


@pytest.mark.parametrize("ask", [lambda owner: owner.value, value_of])
def test_threads_that_ask_at_the_same_time_get_the_same(ask: Callable[[Owner], object]) -> None:
    owner, start = Owner(), Barrier(4)

    def wait_and_ask(_: int) -> object:
        start.wait()
        return ask(owner)

    with ThreadPoolExecutor(4) as pool:
        values = list(pool.map(wait_and_ask, range(4)))
    assert len(set(map(id, values))) == 1
    assert owner.count == 1


@pytest.mark.parametrize("ask", [lambda owner: owner.value, value_of])
def test_each_object_has_its_own(ask: Callable[[Owner], object]) -> None:
    first, second = Owner(), Owner()
    assert ask(first) is ask(first)
    assert ask(first) is not ask(second)


def test_property_may_ask_for_the_one_it_overrides() -> None:
    heir = Heir()
    assert heir.value == ("more than", super(Heir, heir).value)
    assert heir.count == 1


def test_arguments_are_the_key_however_they_are_passed() -> None:
    owner = Owner()
    assert [power(owner, 3), power(owner, 3, 2), power(owner, base=3, exponent=2)] == [9, 9, 9]
    assert owner.count == 1
    assert power(owner, 3, 3) == 27
    assert owner.count == 2


def test_what_failed_is_computed_again() -> None:
    owner, divisors = Owner(), [0, 1]

    @cached_in("cache")
    def half(_: Owner) -> int:
        return 2 // divisors.pop(0)

    with pytest.raises(ZeroDivisionError):
        half(owner)
    assert half(owner) == 2


def test_none_is_a_result() -> None:
    owner = Owner()

    @cached_in("cache")
    def nothing(owner: Owner) -> None:
        owner.count += 1

    nothing(owner)
    nothing(owner)
    assert owner.count == 1


def test_computing_a_result_may_ask_for_others() -> None:
    @cached_in("cache")
    def sum_of_powers(owner: Owner) -> int:
        return power(owner, 2) + power(owner, 3)

    assert sum_of_powers(Owner()) == 13


def test_cleared_results_are_computed_again() -> None:
    owner = Owner()
    first = value_of(owner)
    owner.cache.clear()
    assert value_of(owner) is not first
