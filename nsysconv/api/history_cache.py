"""Values of runs that a history has computed before, in the user's cache folder.

A report on a run takes 10 to 30 ms, and a store may have thousands of runs, of which all but the newest
are as they were. Values are kept by what the store says a profile holds, its identity and checksums, and
by the program that computed them. Delete the folder whenever you like.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import nsysconv
from nsysconv.diff.history import Values
from nsysconv.errors import NsysconvError
from nsysconv.store.filesystem import write_atomically
from nsysconv.store.selection import RunRecord


class HistoryCache:
    """Keep the values of a store's runs, for the same metrics and the same step rule (`asked`)."""

    def __init__(self, store: str, asked: Sequence[object]) -> None:
        """Read what is kept; nothing where that is not possible."""
        key = _digest(store, _program(), *map(str, asked))
        self._path = _folder() / f"history-{key[:32]}.json"
        self._kept: dict[str, list[tuple[str, str, float]]] = {}
        with suppress(OSError, ValueError, TypeError):
            self._kept = dict(json.loads(self._path.read_text(encoding="utf-8")))
        self._new = False

    @property
    def folder(self) -> Path:
        """Return the folder of what is kept."""
        return self._path.parent

    def get(self, run: RunRecord) -> Values | None:
        """Return the values of a run; None where they are not kept."""
        found = self._kept.get(_content(run) or "")
        return None if found is None else {(metric, row): value for metric, row, value in found}

    def put(self, run: RunRecord, values: Values) -> None:
        """Keep the values of a run, unless the store has no checksums of it."""
        content = _content(run)
        if content is not None:
            self._kept[content] = [(metric, row, value) for (metric, row), value in values.items()]
            self._new = True

    def save(self, runs: Collection[RunRecord]) -> None:
        """Write what is kept of these runs, those that the store holds now."""
        if not self._new:
            return
        contents = set(map(_content, runs))
        kept = {content: values for content, values in self._kept.items() if content in contents}
        # Where it cannot be written, values are computed again.
        with suppress(OSError, NsysconvError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._path, lambda file: json.dump(kept, file))


def _folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    with suppress(RuntimeError):
        return Path(home).expanduser() / "nsysconv"
    return Path(os.devnull) / "nsysconv"  # nobody's home is known


def _content(run: RunRecord) -> str | None:
    contents = [profile.content for profile in run.profiles]
    return None if None in contents else _digest(*map(str, contents))


def _program() -> str:
    # Its version, and when its files were last changed: a checkout has one version for many states.
    files = Path(nsysconv.__file__).parent.rglob("*.py")
    return f"{nsysconv.__version__} {max(path.stat().st_mtime_ns for path in files)}"


def _digest(*words: str) -> str:
    return sha256("\0".join(words).encode()).hexdigest()
