"""Work in threads, and results that threads share.

Work ends soon when a signal, or Ctrl-C, ends the block that waits for it. The look-up of results is
written out in both decorators, not in a method that they share: values derive from values ten deep, and
each costs the stack two frames this way, the decorator's and the function's own.
"""

from __future__ import annotations

import ctypes
import sys
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import wraps
from inspect import signature
from operator import attrgetter
from threading import Lock, RLock, get_ident, local
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast, overload
from weakref import WeakSet

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])

_AGAIN_S = 0.7
_current = local()


class Stopped(BaseException):
    """The work is no longer wanted. Not an Exception: nothing but the end of a thread may catch it."""


class Threads(ThreadPoolExecutor):
    """A pool of threads. Use it as a context manager.

    The end of the block waits for work that has begun, and drops the rest. Where a BaseException that is
    no Exception ends the block, as a signal does, Stopped is raised in this work, and in what that has
    begun in pools of its own: it ends at its next step in Python.
    """

    def __init__(self, count: int) -> None:
        """Start no thread yet; at most `count` work at a time."""
        super().__init__(count)
        self._lock = Lock()
        self._at_work: set[int] = set()
        self._futures: WeakSet[Future[Any]] = WeakSet()
        self._pools: WeakSet[Threads] = WeakSet()
        outer = getattr(_current, "pool", None)
        if outer is not None:
            outer._pools.add(self)

    def submit(self, work: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run a function in a thread; in this one if the interpreter is ending and starts no more."""
        try:
            future = super().submit(self._run, work, *args, **kwargs)
        except RuntimeError as error:
            if "interpreter shutdown" not in str(error):
                raise
            future = Future()
            try:
                future.set_result(work(*args, **kwargs))
            except Exception as failure:
                future.set_exception(failure)
        self._futures.add(future)
        return future

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Drop what has not begun; wait for the rest, or stop it."""
        self.shutdown(wait=False, cancel_futures=True)
        if kind is not None and not issubclass(kind, (Exception, GeneratorExit)):
            self._stop_all()
        self.shutdown(wait=True)

    def _stop_all(self) -> None:
        hook = sys.unraisablehook
        sys.unraisablehook = lambda args: None if args.exc_type is Stopped else hook(args)
        try:
            # The threads are stopped again unless they clean up, because an exception that is raised
            # while an object is being freed is lost.
            while pending := [each for each in self._futures if not each.done()]:
                self._stop()
                wait(pending, _AGAIN_S)
        finally:
            sys.unraisablehook = hook

    def _stop(self) -> None:
        for pool in list(self._pools):
            pool._stop()
        with self._lock:  # so that none of these threads takes up other work meanwhile
            for thread in self._at_work:
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread), ctypes.py_object(Stopped)
                )

    def _run(self, work: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        thread = get_ident()
        with self._lock:
            self._at_work.add(thread)
        _current.pool = self
        try:
            return work(*args, **kwargs)
        finally:
            _current.pool = None
            with self._lock:
                self._at_work.discard(thread)


def ahead(items: Iterator[T], most: int) -> Generator[T]:
    """Yield what an iterator does; a thread of its own asks it for up to `most` items in advance.

    To be closed where not all are taken.
    """
    end = cast(T, object())
    with Threads(1) as thread:
        coming = deque(thread.submit(next, items, end) for _ in range(most))
        while (item := coming.popleft().result()) is not end:
            coming.append(thread.submit(next, items, end))
            yield item


# -- results


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
