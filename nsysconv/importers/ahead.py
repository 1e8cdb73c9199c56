"""What a command starts before it loads what it needs itself.

To load databases, Arrow and numpy takes half a second of one core; the processes that the reading of some
files will ask for start on the others in that time. Nothing heavy is imported here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_HEAD_BYTES = 64
# What texts of JSON begin with, and what is packed.
_SIGNS = (b"{", b"[", b"\x1f\x8b")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def start(paths: Iterable[str | os.PathLike[str]]) -> None:
    """Starts the processes that reading these files is likely to ask for. What is no file, or is another
    one than it looks, costs an idle process that ends with this one.
    """
    for path in paths:
        with suppress(OSError, ValueError):  # no such file; a NUL in its name
            size, head = _look(Path(path))
            if head.removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(_SIGNS):
                from nsysconv import processes
                from nsysconv.importers.kineto import beside

                processes.start_ahead(beside.count(size, head), f"{beside.__package__}.worker")


def _look(path: Path) -> tuple[int, bytes]:
    """The size of a regular file and its first bytes."""
    if not path.is_file():  # to open a pipe would wait for who writes into it
        return 0, b""
    with path.open("rb") as file:
        return os.fstat(file.fileno()).st_size, file.read(_HEAD_BYTES)
