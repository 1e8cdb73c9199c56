"""What leads to places of a tree, spelled out in bounded room, however deep they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from nsysconv.notes import Note, Severity

Array = np.ndarray

LONGEST = 2000
"""So many characters a path has at most, but for what it says of those left out of its middle."""
DEEPEST = 100
"""So many levels names are set in at most."""

_HEAD, _TAIL = 1200, 700
_DIGEST_BYTES = 6


def path_texts(
    parent: Array, part: Callable[[int], str], shown: Array, separator: str = "/"
) -> list[str]:
    """Of the places `shown` the parts of all that they lie in, outermost first, and their own.

    `parent` is the place that each lies in, -1 for none, and comes before it. Of a text longer than
    LONGEST the middle is left out: how many characters those are, and a digest of the whole path, stand
    there, so that different paths remain different, and equal ones equal in all profiles.
    """
    above = parent.tolist()
    found: dict[int, _Text] = {-1: _Text("", 0)}
    digest = _Digests()
    for place in _with_all_around(above, shown):
        outer, text = found[above[place]], part(place)
        piece = separator + text if above[place] >= 0 else text
        length = outer.length + len(piece)
        if length <= LONGEST:
            found[place] = _Text(outer.head + piece, length)
            continue
        if outer.is_whole:
            head, tail, before = (outer.head + piece)[:_HEAD], outer.head, digest.of(outer.head)
        else:
            head, tail, before = outer.head, outer.tail, outer.digest
        found[place] = _Text(
            head, length, (tail + piece)[-_TAIL:], digest.joined(before, digest.of(text))
        )
    return [found[place].spelled() for place in shown.tolist()]


def set_in(indent: str, level: Array, names: Iterable[str]) -> list[str]:
    """The names, each set in by its level, DEEPEST at most. Equal ones are one text: they may be long."""
    known: dict[tuple[int, str], str] = {}
    found = []
    for depth, name in zip(np.minimum(level, DEEPEST).tolist(), names, strict=True):
        text = known.get((depth, name))
        if text is None:
            text = known[depth, name] = indent * depth + name
        found.append(text)
    return found


def notes_of_deep(paths: Sequence[str], level: Array | None = None) -> tuple[Note, ...]:
    """What has to be said of these paths, and of names that were set in by these levels."""
    cut = np.array([len(path) > LONGEST for path in paths], bool)
    if level is not None:
        cut |= level > DEEPEST
    count = int(np.count_nonzero(cut))
    if not count:
        return ()
    text = (
        f"ranges with a path of more than {LONGEST:,} characters, the middle of which is left out, or "
        f"in more than {DEEPEST} others, set in no deeper"
    )
    return (Note("path-shortened", Severity.INFO, text, count),)


@dataclass(frozen=True)
class _Text:
    """A path: all of it as `head`, or how it begins and ends, and a digest of all of it."""

    head: str
    length: int
    tail: str = ""
    digest: bytes = b""

    @property
    def is_whole(self) -> bool:
        return not self.digest

    def spelled(self) -> str:
        if self.is_whole:
            return self.head
        left_out = self.length - _HEAD - _TAIL
        return f"{self.head}…[{left_out:,} characters left out, {self.digest.hex()}]…{self.tail}"


class _Digests:
    """Digests of texts, that of each text made once."""

    def __init__(self) -> None:
        self._of: dict[str, bytes] = {}

    def of(self, text: str) -> bytes:
        known = self._of.get(text)
        if known is None:
            known = self.joined(text.encode("utf-8", "surrogatepass"))
            self._of[text] = known
        return known

    def joined(self, *parts: bytes) -> bytes:
        return blake2b(b"".join(parts), digest_size=_DIGEST_BYTES).digest()


def _with_all_around(parent: list[int], shown: Array) -> list[int]:
    """The places, and all that they lie in, a parent before its children."""
    needed: set[int] = set()
    for place in shown.tolist():
        while place >= 0 and place not in needed:
            needed.add(place)
            place = parent[place]
    return sorted(needed)
