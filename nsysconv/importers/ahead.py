"""What a command begins before it loads what it needs itself.

To load databases, Arrow and numpy takes half a second of one core; processes decode a large trace on the
others in that time. Nothing heavy is imported here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

_HEAD_BYTES = 64
# What texts of JSON begin with, and what is packed.
_SIGNS = (b"{", b"[", b"\x1f\x8b")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# What begins something, and ends it.
_HASHING, _DECODING = "nsysconv.importers.hashing", "nsysconv.importers.kineto.decoding"


def start(
    paths: Iterable[str | os.PathLike[str]], include: Collection[str] = (), *, hashed: bool = False
) -> None:
    """Begins to read the first of these files that is likely to be a large trace; `include` is what is
    asked for of its rows, and `hashed` says that its hash will be, too. What looks like a trace and is
    read in another way, or not at all, costs processes that `end` ends.
    """
    for path in map(Path, paths):
        with suppress(OSError, ValueError):  # no such file; a NUL in its name
            size, head = _look(path)
            if head.removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(_SIGNS):
                from nsysconv.importers.kineto import beside

                count = beside.count(size, head)
                if count:
                    if hashed:
                        from nsysconv.importers import hashing

                        # First: what decodes is loaded on one core, and this keeps another one busy.
                        hashing.begin(path)
                    from nsysconv.importers.kineto import decoding

                    asked = beside.PYTHON_FUNCTIONS in include
                    decoding.begin(path, count, python_functions=asked)
                    return


def end() -> None:
    """Ends what was begun and nobody asked for."""
    for name in (_HASHING, _DECODING):
        module = sys.modules.get(name)
        if module is not None:
            module.end()


def _look(path: Path) -> tuple[int, bytes]:
    """The size of a regular file and its first bytes."""
    if not path.is_file():  # to open a pipe would wait for who writes into it
        return 0, b""
    with path.open("rb") as file:
        return os.fstat(file.fileno()).st_size, file.read(_HEAD_BYTES)
