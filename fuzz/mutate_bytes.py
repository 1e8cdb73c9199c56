"""Damage to bytes, whatever they stand for: changed, cut, moved, repeated, spliced, wrapped in gzip."""

from __future__ import annotations

import gzip
import random
import zlib
from collections.abc import Sequence

# What readers of text and of binary formats stumble over.
TOKENS = (
    b"\0", b"\xff", b"\xfe\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80",
    b"\x1b[31m", b"\r", b"\n", b"\r\n", b"\t", b"\x0b", b"\x0c", b"\x1a", b"\x85", b"\xe2\x80\xa8",
    b'"', b"'", b"\\", b"{", b"}", b"[", b"]", b",", b":", b";", b"NaN", b"Infinity", b"-Infinity",
    b"1e999", b"-1", b"9223372036854775808", b"18446744073709551616", b"0x1", b"null", b"\\u0000",
    b"\\ud800", b"%s", b"%", b"=cmd()", b"<script>", b"--", b"/*", b" " * 3000,
)  # fmt: skip


def place(random_: random.Random, size: int) -> int:
    """Return a random place in something of this size; ends and beginnings more often than others."""
    if size <= 1:
        return 0
    kind = random_.random()
    if kind < 0.1:
        return random_.randrange(min(size, 200))
    if kind < 0.2:
        return size - 1 - random_.randrange(min(size, 200))
    return random_.randrange(size)


def change(
    random_: random.Random, content: bytes, counts: Sequence[int] = (1, 1, 1, 2, 4, 16)
) -> tuple[bytes, str]:
    """Change some bytes, as many as one of `counts`; return the result and what was done."""
    found = bytearray(content)
    count = random_.choice(counts)
    places = []
    for _ in range(count if found else 0):
        where = place(random_, len(found))
        places.append(where)
        kind = random_.randrange(3)
        if kind == 0:
            found[where] ^= 1 << random_.randrange(8)
        elif kind == 1:
            found[where] = random_.randrange(256)
        else:
            found[where] = random_.choice(b'\0\xff\x7f\x80"{}[],:\\ 0e-.x\n')
    return bytes(found), f"bytes {places} changed"


def cut(random_: random.Random, content: bytes) -> tuple[bytes, str]:
    """Cut off the end."""
    where = place(random_, len(content))
    return content[:where], f"cut at {where}"


def remove(random_: random.Random, content: bytes) -> tuple[bytes, str]:
    """Remove a part from the middle."""
    low = place(random_, len(content))
    length = random_.choice((1, 2, 10, 100, 1000, 4096))
    return content[:low] + content[low + length :], f"{length} bytes removed at {low}"


def repeat(random_: random.Random, content: bytes) -> tuple[bytes, str]:
    """Repeat a part."""
    low = place(random_, len(content))
    length = random_.choice((1, 10, 100, 1000, 4096))
    part = content[low : low + length]
    to = place(random_, len(content))
    return content[:to] + part + content[to:], f"bytes {low}+{length} again at {to}"


def splice(random_: random.Random, content: bytes, other: bytes) -> tuple[bytes, str]:
    """Put a part of another file into the middle, or behind the beginning."""
    here, there = place(random_, len(content)), place(random_, len(other))
    if random_.random() < 0.5:
        return content[:here] + other[there:], f"from {here} on another file from {there}"
    length = random_.choice((10, 200, 2000))
    return (
        content[:here] + other[there : there + length] + content[here:],
        f"{length} bytes of another file from {there} at {here}",
    )


def insert(random_: random.Random, content: bytes) -> tuple[bytes, str]:
    """Insert a token that parsers stumble over."""
    token = random_.choice(TOKENS)
    where = place(random_, len(content))
    return content[:where] + token + content[where:], f"{token[:20]!r} inserted at {where}"


def noise(random_: random.Random, content: bytes) -> tuple[bytes, str]:
    """Overwrite a stretch with noise or zeros."""
    low = place(random_, len(content))
    length = random_.choice((4, 16, 100, 512, 4096))
    length = min(length, len(content) - low)
    filling = random_.randbytes(length) if random_.random() < 0.5 else bytes(length)
    return content[:low] + filling + content[low + length :], f"noise {low}+{length}"


GENERAL = (change, change, change, cut, remove, repeat, insert, noise)
"""Damage that needs no second file."""


def packed(random_: random.Random, content: bytes) -> tuple[bytes, str]:
    """Compress the content with gzip, whole or damaged in a way of gzip's own."""
    level = random_.choice((0, 1, 6, 9))
    kind = random_.randrange(10)
    whole = gzip.compress(content, level, mtime=0)
    half = place(random_, len(content))
    if kind <= 2:
        return whole, f"packed, level {level}"
    if kind == 3:
        two = gzip.compress(content[:half], level, mtime=0)
        two += gzip.compress(content[half:], 1, mtime=0)
        return two, f"packed in two members, cut at {half}"
    if kind == 4:
        changed, what = change(random_, whole)
        return changed, f"packed, {what}"
    if kind == 5:
        shorter, what = cut(random_, whole)
        return shorter, f"packed, {what}"
    if kind == 6:
        tail = random_.choice((b"\0" * 100, b"rubbish", whole, whole[:10], b"\x1f\x8b"))
        return whole + tail, f"packed, {tail[:8]!r} behind it"
    if kind == 7:
        return gzip.compress(whole, mtime=0), "packed twice"
    if kind == 8:
        wrong = bytearray(whole)
        wrong[-8 + random_.randrange(8)] ^= 0xFF  # checksum or length
        return bytes(wrong), "packed with a wrong checksum or length"
    # Only DEFLATE, and the header's flags promise fields that are not there.
    raw = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = raw.compress(content) + raw.flush()
    flags = random_.choice((2, 4, 8, 16, 31, 0xE0))
    return whole[:3] + bytes([flags]) + whole[4:10] + body + whole[-8:], f"gzip flags {flags}"


def inflating(random_: random.Random, content: bytes, size: int) -> tuple[bytes, str]:
    """Compress the content with a long run of the same byte somewhere in it."""
    where = place(random_, len(content))
    byte = random_.choice((b" ", b"a", b"0", b"[", b"{", b"\n", b"\\", b'"', b"\0"))
    blown = content[:where] + byte * size + content[where:]
    return gzip.compress(blown, 1, mtime=0), f"{size >> 20} MiB of {byte!r} at {where}, packed"
