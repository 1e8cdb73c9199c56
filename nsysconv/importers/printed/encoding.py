"""A log as UTF-8: what PowerShell redirects is UTF-16."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nsysconv.importers.probe import Probe
from nsysconv.store.filesystem import private_folder

_MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_CHARACTERS = 1 << 20
_CHUNK_BYTES = 1 << 20
_JSON = (b'{"', b"{\n", b"[{", b"[\n")


def encoding_of(head: bytes) -> str | None:
    """The encoding that a file's mark names; None for UTF-8, marked or not."""
    return _MARKS.get(head[:2])


@contextmanager
def in_utf8(probes: Sequence[Probe]) -> Iterator[list[Path]]:
    """Where the text of each file stands in UTF-8: in itself, or in a copy that is removed afterwards."""
    with private_folder() as folder:
        yield [as_utf8(probe, folder / str(place)) for place, probe in enumerate(probes)]


def as_utf8(probe: Probe, copy: Path) -> Path:
    """The file itself, or a copy in UTF-8."""
    encoding = encoding_of(probe.head)
    if encoding is None:
        return probe.readable
    with (
        probe.readable.open(encoding=encoding, errors="replace", newline="") as source,
        copy.open("w", encoding="utf-8", newline="") as target,
    ):
        source.read(1)  # the mark
        while text := source.read(_CHARACTERS):
            target.write(text)
    return copy


def pieces(probe: Probe, overlap: int) -> Iterator[bytes]:
    """The text in UTF-8, in pieces that overlap; of what is no log for sure, only its beginning."""
    encoding = encoding_of(probe.head)
    if encoding is not None:
        # Its first kilobytes hold a banner or header, unless a program wrote more than that before.
        yield probe.head[: len(probe.head) // 2 * 2].decode(encoding, "replace").encode()
        return
    yield probe.head
    if b"\0" in probe.head or probe.head.lstrip()[:2] in _JSON:
        return
    try:
        with probe.readable.open("rb") as file:
            rest = b""
            while chunk := file.read(_CHUNK_BYTES):
                yield rest + chunk
                rest = chunk[-overlap:]
    except OSError:
        return
