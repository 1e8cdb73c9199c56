"""Results computed once and kept, also where several threads ask for the same one.

The look-up is written out in both decorators, not in a method that they share: values derive from
values ten deep, and each costs the stack two frames this way, the decorator's and the function's own.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from inspect import signature
from operator import attrgetter
from threading import Lock, RLock
from typing import Any, Generic, Self, TypeVar, cast, overload

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])


class ThreadSafeCache:
    """Results by key, and a lock per key: of threads that want the same result one computes it.

    Computing a result may ask for others, but not for itself.
    """

    def __init__(self) -> None:
        """Make an empty cache."""
        self.results: dict[Hashable, Any] = {}
        self._lock = Lock()
        self._locks: dict[Hashable, RLock] = {}

    def lock(self, key: Hashable) -> RLock:
        """Return the lock to hold while the result for `key` is computed."""
        with self._lock:
            return self._locks.setdefault(key, RLock())

    def clear(self) -> None:
        """Drop all results. No other thread may be asking for one."""
        self.results.clear()


def cached_in(attribute: str) -> Callable[[Function], Function]:
    """Return a decorator that keeps a function's results in a cache of its first argument.

    `attribute` says where the first argument has that ThreadSafeCache and may be dotted. Results are
    kept by function and remaining arguments, which have to be hashable.
    """
    cache_of = attrgetter(attribute)

    def decorate(function: Function) -> Function:
        parameters = signature(function)
        count = len(parameters.parameters)

        @wraps(function)
        def wrapper(*arguments: Any, **options: Any) -> Any:
            if options or len(arguments) < count:
                bound = parameters.bind(*arguments, **options)
                bound.apply_defaults()
                arguments = bound.args
            cache: ThreadSafeCache = cache_of(arguments[0])
            key = (function, *arguments[1:])
            if key not in cache.results:
                with cache.lock(key):
                    if key not in cache.results:
                        cache.results[key] = function(*arguments)
            return cache.results[key]

        return cast("Function", wrapper)

    return decorate


class cached_property(Generic[T]):  # noqa: N801 - used as property is
    """Like functools.cached_property, which no longer locks from Python 3.12 on."""

    def __init__(self, function: Callable[[Any], T]) -> None:
        """Take the function that computes the value."""
        self._function = function
        self.__doc__ = function.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> Self | T:
        """Return the value, which is kept by descriptor: a property may ask for one it overrides."""
        if instance is None:
            return self
        cache: ThreadSafeCache | None = instance.__dict__.get("_cached_properties")
        if cache is None:
            # One of several threads sets it; the others get what that one set.
            cache = instance.__dict__.setdefault("_cached_properties", ThreadSafeCache())
        if self not in cache.results:
            with cache.lock(self):
                if self not in cache.results:
                    cache.results[self] = self._function(instance)
        value: T = cache.results[self]
        return value
