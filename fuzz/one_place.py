"""Damage of one place: a file cut off, one byte changed, one bit flipped near what must stay a secret.

What that may do without a word is known: change a value. It may not take a row out of the profile, nor
its duration, without a note that counts it. `whole.py` compares the file with what it was before.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable

import mutate_bytes
from nsys_rep_wire import Report
from seeds import Seed, seeds
from write_nsys_rep import SECRETS

_NEAR = 8
"""So many bytes before a token its length and its place are said."""
_CUT_TEXT = ("truncated", "cut-short", "odd-cut", "odd-autograd", "odd-browser", "odd-nothing")

HEADERS = ("new", "old", "put right")
"""The number of pages in a database's header: as it was; not written yet, so that nothing says that the
file was longer; and that of the pages which are left, as a repair tool writes it."""

Damage = tuple[Seed, bytes, str]


def _drawn(random_: random.Random, importer: str, real: bool) -> Seed:
    """Draw a seed that is whole and of this importer."""
    whole = [seed for seed in seeds(importer, real=real) if not any(w in seed.name for w in _CUT_TEXT)]
    return random_.choice(whole)


def _maybe_packed(random_: random.Random, seed: Seed, at_least: float) -> bytes:
    """Return the content, of a compressed file mostly compressed."""
    if seed.packed and random_.random() < at_least:
        return gzip.compress(seed.content, 6, mtime=0)
    return seed.content


def cut(random_: random.Random, importer: str, real: bool) -> Damage:
    """Cut off a file anywhere; a database also without the number of its pages in the header."""
    seed = _drawn(random_, importer, real)
    content = _maybe_packed(random_, seed, 0.8)
    if seed.is_sqlite:
        header = random_.choice(HEADERS)
        size = len(mutate_bytes.cut(random_, content)[0])
        return seed, database_cut(content, size, header), f"cut at {size}, header {header}"
    content, what = mutate_bytes.cut(random_, content)
    return seed, content, what


def database_cut(content: bytes, size: int, header: str) -> bytes:
    """Return a database cut off at a size."""
    if header == "old":
        content = content[:28] + bytes(4) + content[32:92] + bytes(4) + content[96:]
    if header != "put right":
        return content[:size]
    page = int.from_bytes(content[16:18], "big")
    content = content[: size // page * page]
    return content[:28] + (size // page).to_bytes(4, "big") + content[32:]


def byte(random_: random.Random, importer: str, real: bool) -> Damage:
    """Change one byte."""
    seed = _drawn(random_, importer, real)
    content, what = mutate_bytes.change(random_, _maybe_packed(random_, seed, 0.5), counts=(1,))
    return seed, content, what


def bit(random_: random.Random, importer: str, real: bool) -> Damage:
    """Flip a bit of a report in, or shortly before, a token, also where that is packed."""
    written = [seed for seed in seeds(importer, real=False) if b"SECRET-" in seed.content]
    seed, place = random_.choice(written), random_.choice(SECRETS)
    before, mask = random_.randrange(_NEAR + 1), 1 << random_.randrange(8)
    return seed, flipped(seed.content, f"SECRET-{place}".encode(), before, mask), (
        f"bit {mask} flipped {before} bytes before {place}")  # fmt: skip


def flipped(content: bytes, token: bytes, before: int, mask: int) -> bytes:
    """Return a report with a bit flipped so many bytes before a token."""
    if token in content:
        return _with_flip(content, content.index(token) - before, mask)
    report = Report.read(content)
    samples = report.samples()
    for block in (*samples.events, *samples.strings):
        if token in block.raw:
            block.raw = _with_flip(block.raw, block.raw.index(token) - before, mask)
    return report.with_samples(samples).written()


def _with_flip(content: bytes, at: int, mask: int) -> bytes:
    return content[:at] + bytes([content[at] ^ mask]) + content[at + 1 :]


HOW: dict[str, tuple[str, Callable[[random.Random, str, bool], Damage]]] = {
    "kineto-cut": ("kineto", cut),
    "kineto-byte": ("kineto", byte),
    "nvprof_log-cut": ("nvprof_log", cut),
    "nsys_stats-cut": ("nsys_stats", cut),
    "nsys_sqlite-cut": ("nsys_sqlite", cut),
    "nsys_rep-bit": ("nsys_rep", bit),
}
"""Classes of files with damage of one place: of which importer's files, and what is done."""
