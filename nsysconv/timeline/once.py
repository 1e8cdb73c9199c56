"""What is made once and shared by several reports, also where threads ask for it at the same time."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock, RLock
from typing import Any, Generic, Self, TypeVar, overload

T = TypeVar("T")


class Made:
    """Results by key. Of threads that ask for the same at the same time one makes it, the others wait."""

    def __init__(self) -> None:
        self._results: dict[Hashable, Any] = {}
        self._lock = Lock()
        self._making: dict[Hashable, RLock] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gives, made once. What it asks for itself must not ask for this key again."""
        if key not in self._results:
            with self._lock:
                making = self._making.setdefault(key, RLock())
            with making:
                if key not in self._results:
                    self._results[key] = make()
        result: T = self._results[key]
        return result

    def clear(self) -> None:
        """Lets go of all of them; nobody else may be asking."""
        self._results.clear()


class once(Generic[T]):  # noqa: N801 - used as property is
    """As functools.cached_property, for threads too: that one locks no longer from Python 3.12 on."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        # With the class: what overrides it may ask for what it overrides.
        self._key = (owner, name)

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Self | T:
        if instance is None:
            return self
        made: Made = instance.__dict__.setdefault("_made_once", Made())
        return made.get(self._key, lambda: self._make(instance))
