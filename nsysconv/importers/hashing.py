"""What a file is known by in stores: the hash of its bytes. Nothing heavy is imported here."""

from __future__ import annotations

import hashlib
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from nsysconv.importers.begun import Begun

if TYPE_CHECKING:
    from nsysconv.processes import Aside

_begun: Begun[Aside[str]] = Begun()


def begin(path: Path) -> None:
    """Begins to hash a file in a process of its own, for who asks for that later. Raises OSError."""
    from nsysconv.processes import Aside

    _begun.begin(path, work=lambda: Aside(_hashed, path, copied=True))


def sha256(path: Path) -> str:
    """SHA-256 of the bytes of a file, in hexadecimal digits: as it was begun, or anew."""
    begun = _begun.take(path)
    if begun is not None:
        from nsysconv.processes import EndedEarly

        with closing(begun), suppress(EndedEarly):
            return begun.result()
    return _hashed(path)


def end() -> None:
    """Ends what was begun and nobody asked for."""
    _begun.end()


def _hashed(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
