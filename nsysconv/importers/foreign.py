"""Files of other programs, which no importer reads: how to know them, and what to do instead.

Looked at only after every importer has refused the file. The kinds are in foreign.toml.
"""

from __future__ import annotations

import gzip
import re
import tomllib
import zlib
from collections.abc import Collection, Iterator
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from nsysconv.importers.probe import Probe

_HEAD_BYTES = 1 << 16
# Of a Perfetto trace: how many packets to look at, and the field with the number of a packet's sequence.
_PACKETS = 4
_SEQUENCE = (10, 0)


@cache
def _kinds() -> dict[str, list[dict[str, Any]]]:
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    kinds: dict[str, Any] = tomllib.loads(text)
    hints = kinds.pop("hints")
    for kind in [kind for own in kinds.values() for kind in own]:
        kind["hint"] = kind["hint"].format(**hints)
    return kinds


def kind_of(probe: Probe) -> tuple[str, str] | None:
    """Return what the file is, and what to do instead, or None if it is unknown. Never raises."""
    if probe.is_sqlite:
        return _database_kind(probe.tables)
    if probe.head.startswith(b"\x1f\x8b"):
        text = _inflated(probe)
        if text.startswith(b"SQLite format 3\0"):
            return "a SQLite database that gzip has compressed", "Unpack it first: gunzip FILE"
        return _content_kind(text)
    return _content_kind(probe.head)


def _content_kind(head: bytes) -> tuple[str, str] | None:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    of_text = "json" if text.startswith((b"{", b"[")) else "text"
    for kind in _kinds()["binary"]:
        if re.match(kind["sign"].encode(), head, re.DOTALL):
            return kind["title"], kind["hint"]
    for kind in _kinds()[of_text]:
        if re.search(kind["sign"].encode(), text, re.MULTILINE):
            return kind["title"], kind["hint"]
    if _is_perfetto(head):
        return (
            "a Perfetto trace",
            "Look at it at ui.perfetto.dev, and import the profile that it was made from.",
        )
    return None


def _database_kind(names: Collection[str]) -> tuple[str, str] | None:
    for kind in _kinds()["database"]:
        if all(_has_table(table, names) for table in kind["tables"]):
            return kind["title"], kind["hint"]
    return None


def _has_table(table: str, names: Collection[str]) -> bool:
    if table.endswith("*"):
        return any(name.startswith(table[:-1]) for name in names)
    return table in names


def _inflated(probe: Probe) -> bytes:
    # Of a damaged gzip file: nothing.
    with suppress(OSError, EOFError, zlib.error), gzip.open(probe.path) as file:
        return file.read(_HEAD_BYTES)
    return b""


def unpack(probe: Probe, target: Path, most: int) -> bool:
    """Write what gzip holds, at most so many bytes and up to damage; False if it is no gzip."""
    if not probe.head.startswith(b"\x1f\x8b"):
        return False
    with (
        suppress(OSError, EOFError, zlib.error),
        target.open("wb") as out,
        gzip.open(probe.path) as file,
    ):
        while out.tell() < most and (data := file.read1(_HEAD_BYTES)):
            out.write(data)
    return True


# -- Perfetto's traces have no signature: they are messages of protobuf, packet after packet.


def _is_perfetto(head: bytes) -> bool:
    sequences = 0
    with suppress(ValueError):
        for field, packet in islice(_fields(head), _PACKETS):
            if field != (1, 2):
                return False
            sequences += _SEQUENCE in {own for own, _ in _fields(packet)}
        return sequences > 0
    return False


def _fields(message: bytes) -> Iterator[tuple[tuple[int, int], bytes]]:
    # (number, wire type) and content of each. Raises ValueError for other data, as _varint does.
    place = 0
    while place < len(message):
        tag, start = _varint(message, place)
        number, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            _, end = _varint(message, start)
        elif wire_type == 2:
            length, start = _varint(message, start)
            end = start + length
        else:
            end = start + {1: 8, 5: 4}.get(wire_type, len(message))
        if not number or end > len(message):
            raise ValueError("no message of protobuf")
        yield (number, wire_type), message[start:end]
        place = end


def _varint(data: bytes, place: int) -> tuple[int, int]:
    # A number, and where it ends.
    value = 0
    for shift, byte in enumerate(data[place : place + 10]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value, place + shift + 1
    raise ValueError("no number of protobuf")
