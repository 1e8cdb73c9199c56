"""Files of other programs, which no importer reads: how to know them, and what to do instead.

Looked at only after every importer has refused the file. The kinds are in foreign.toml.
"""

from __future__ import annotations

import codecs
import gzip
import re
import tomllib
import zlib
from collections.abc import Collection
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from nsysconv.importers.probe import Probe
from nsysconv.importers.wire import WireError, fields, numbers

_HEAD_BYTES = 1 << 16
# At most so many packets of a Perfetto trace are examined. The trace holds packets in field 1, and a
# packet has the number of its sequence in field 10.
_PACKETS = 4
_PACKET, _SEQUENCE = 1, 10


@cache
def _kinds() -> dict[str, list[dict[str, Any]]]:
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    kinds: dict[str, Any] = tomllib.loads(text)
    hints = kinds.pop("hints")
    for kind in [kind for own in kinds.values() for kind in own]:
        kind["hint"] = kind["hint"].format(**hints)
    kinds["unknown"] = [{"hint": hints["ours"]}]
    return kinds


def unknown_kind(head: bytes) -> tuple[str, str]:
    """Return what a file is that nothing here knows, by its first bytes, and what to use instead."""
    if head.startswith(b"\x1f\x8b"):
        return "a gzip-compressed file, but not a profile", "Unpack it, then use the files in it."
    if b"\0" not in head and head.lstrip().startswith((b"{", b"[")):
        return (
            "a JSON file, but not a profile",
            "Readable JSON is of PyTorch, nsys stats, Proton or Scalene.",
        )
    with suppress(UnicodeDecodeError):
        # The last character may be cut off.
        text = codecs.getincrementaldecoder("utf-8")().decode(head)
        if "\0" not in text:
            return (
                "a text file, but not a profile",
                "Readable tables are of nsys, nvprof, nvidia-smi, ncu, rocprof or line_profiler.",
            )
    return "not a profile that nsysconv reads", _kinds()["unknown"][0]["hint"]


def kind_of(probe: Probe) -> tuple[str, str] | None:
    """Return what the file is, and what to do instead, or None if it is unknown. Never raises."""
    if probe.is_sqlite:
        return _database_kind(probe.tables)
    if probe.head.startswith(b"\x1f\x8b"):
        return _content_kind(_inflated(probe))
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
            "Use the profile it was made from; rocprofv3 writes one with -f rocpd.",
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
    # A damaged gzip file counts as empty.
    with suppress(OSError, EOFError, zlib.error), gzip.open(probe.path) as file:
        return file.read(_HEAD_BYTES)
    return b""


def unpack(probe: Probe, target: Path, most: int) -> bool:
    """Write what gzip holds, at most so many bytes and up to damage; False if it is not gzip."""
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
    with suppress(WireError):
        for number, packet in islice(fields(head), _PACKETS):
            if number != _PACKET or isinstance(packet, int):
                return False
            sequences += _SEQUENCE in numbers(packet)
        return sequences > 0
    return False
