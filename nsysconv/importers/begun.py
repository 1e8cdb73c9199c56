"""Work on files that is begun before anybody asks for it. Nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Generic, Protocol, TypeVar


class _Ends(Protocol):
    def close(self) -> None:
        """Ends the work, whatever it is at."""


Work = TypeVar("Work", bound=_Ends)


class Begun(Generic[Work]):
    """Works by the file that each is on, and by `how` it is done."""

    def __init__(self) -> None:
        self._works: dict[Hashable, Work] = {}

    def begin(self, path: Path, *how: Hashable, work: Callable[[], Work]) -> None:
        """Begins a work once. Raises OSError where there is no file."""
        key = _file(path), how
        if key not in self._works:
            self._works[key] = work()

    def take(self, path: Path, *how: Hashable) -> Work | None:
        """The work, if it was begun: it is the caller's to close."""
        return self._works.pop((_file(path), how), None)

    def end(self) -> None:
        """Ends what nobody took."""
        while self._works:
            self._works.popitem()[1].close()


def _file(path: Path) -> tuple[int, ...]:
    """Which file it is: another one where it was written meanwhile."""
    told = path.stat()
    return told.st_dev, told.st_ino, told.st_size, told.st_mtime_ns
