"""Damage to the trees that a SQLite file's pages are: loops, shared pages, cells of other sizes.

SQLite's file format: https://www.sqlite.org/fileformat2.html
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_INTERIOR_INDEX, _INTERIOR_TABLE, _LEAF_INDEX, _LEAF_TABLE = 2, 5, 10, 13
_FILE_HEADER_BYTES = 100
_LARGEST_PAGE = 65_536


@dataclass
class Page:
    """One page of a tree: its number (from 1), its kind, and where in the file its parts stand."""

    number: int
    kind: int
    cells: list[int]
    """The offset of each cell."""
    header: int
    right: int | None
    """The place of the number of the last child; None for a leaf."""


class Pages:
    """The pages of a file that can be changed in place."""

    def __init__(self, content: bytes) -> None:
        """Take the bytes of the file."""
        self.content = bytearray(content)
        size = int.from_bytes(content[16:18], "big")
        self.size = _LARGEST_PAGE if size == 1 else max(size, 512)
        self.usable = self.size - (content[20] if len(content) > 20 else 0)

    @property
    def count(self) -> int:
        """Return the number of pages."""
        return len(self.content) // self.size

    def of_trees(self) -> Iterator[Page]:
        """Yield the pages that look like b-tree pages."""
        for number in range(1, self.count + 1):
            base = (number - 1) * self.size
            header = base + (_FILE_HEADER_BYTES if number == 1 else 0)
            kind = self.content[header]
            if kind not in (_INTERIOR_INDEX, _INTERIOR_TABLE, _LEAF_INDEX, _LEAF_TABLE):
                continue
            inner = kind in (_INTERIOR_INDEX, _INTERIOR_TABLE)
            count = self.two(header + 3)
            first = header + (12 if inner else 8)
            places = [self.two(first + 2 * i) for i in range(count)]
            cells = [base + place for place in places if 8 <= place <= self.size - 4]
            yield Page(number, kind, cells, header, header + 8 if inner else None)

    def two(self, place: int) -> int:
        """Return the two-byte number at a place."""
        return int.from_bytes(self.content[place : place + 2], "big")

    def put(self, place: int, value: int) -> None:
        """Write a number of four bytes."""
        self.content[place : place + 4] = struct.pack(">I", value & 0xFFFFFFFF)

    def put_two(self, place: int, value: int) -> None:
        """Write a number of two bytes."""
        self.content[place : place + 2] = struct.pack(">H", value & 0xFFFF)

    def number(self, place: int) -> tuple[int, int]:
        """Return the number of one to nine bytes at a place, and where it ends."""
        value = 0
        for _ in range(8):
            byte = self.content[place] if place < len(self.content) else 0
            place += 1
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                return value, place
        return value << 8 | (self.content[place] if place < len(self.content) else 0), place + 1

    def overflow(self, page: Page, cell: int) -> int | None:
        """Return the place of the number of a cell's first overflow page; None if it has none."""
        place = cell + (4 if page.kind == _INTERIOR_INDEX else 0)
        if page.kind == _INTERIOR_TABLE:
            return None
        length, place = self.number(place)
        if page.kind == _LEAF_TABLE:
            _, place = self.number(place)
            most = self.usable - 35
        else:
            most = (self.usable - 12) * 64 // 255 - 23
        if length <= most:
            return None
        least = (self.usable - 12) * 32 // 255 - 23
        local = least + (length - least) % (self.usable - 4)
        place += local if local <= most else least
        return place if place + 4 <= page.number * self.size else None


def _inner(pages: Pages) -> list[Page]:
    return [page for page in pages.of_trees() if page.right is not None]


def _some_page(random_: random.Random, pages: Pages) -> Page | None:
    found = list(pages.of_trees())
    return random_.choice(found) if found else None


def _child(random_: random.Random, page: Page) -> int:
    assert page.right is not None
    return random_.choice([page.right, *page.cells])


def all_children(pages: Pages, page: Page, child: int) -> None:
    """Make all children of a page the same page."""
    assert page.right is not None
    for place in (page.right, *page.cells):
        pages.put(place, child)


def child_is_itself(random_: random.Random, pages: Pages) -> str:
    """Make a page its own child."""
    inner = _inner(pages)
    if not inner:
        return "no inner page"
    page = random_.choice(inner)
    pages.put(_child(random_, page), page.number)
    return f"page {page.number} is its own child"


def children_are_pages_above(random_: random.Random, pages: Pages) -> str:
    """Make all children of a page the page itself, or one of those above it."""
    inner = _inner(pages)
    if not inner:
        return "no inner page"
    page = random_.choice(inner)
    above = random_.choice(inner).number if random_.random() < 0.5 else page.number
    all_children(pages, page, above)
    return f"all children of page {page.number} are page {above}"


def one_child_for_all(random_: random.Random, pages: Pages) -> str:
    """Make all children of a page, or of all pages, the same page: its rows come again and again."""
    inner = _inner(pages)
    if not inner:
        return "no inner page"
    some = inner if random_.random() < 0.5 else [random_.choice(inner)]
    leaves = [page.number for page in pages.of_trees() if page.kind == _LEAF_TABLE]
    child = random_.choice(leaves or [1])
    for page in some:
        all_children(pages, page, child)
    return f"all children of {len(some)} pages are page {child}"


def overflow_loops(random_: random.Random, pages: Pages) -> str:
    """Chain the overflow pages of a cell in a circle."""
    cells = [
        place for page in pages.of_trees() for cell in page.cells
        if (place := pages.overflow(page, cell)) is not None
    ]  # fmt: skip
    if not cells:
        return "no overflow page"
    first = int.from_bytes(pages.content[(at := random_.choice(cells)) : at + 4], "big")
    if 1 <= first <= pages.count:
        pages.put((first - 1) * pages.size, first)
    return f"overflow page {first} follows itself"


def long_cells(random_: random.Random, pages: Pages) -> str:
    """Make a cell, or all cells of a page, claim to be very long."""
    full = [page for page in pages.of_trees() if page.kind == _LEAF_TABLE and page.cells]
    if not full:
        return "no full page"
    page = random_.choice(full)
    cells = page.cells if random_.random() < 0.5 else [random_.choice(page.cells)]
    value = random_.choice((b"\x83\xff\xff\x7f", b"\x87\xff\xff\xff\x7f", b"\xff" * 9, b"\0"))
    for cell in cells:
        if cell + len(value) <= page.number * pages.size:
            pages.content[cell : cell + len(value)] = value
    return f"{len(cells)} cells of page {page.number} are of {value.hex()} bytes"


def one_cell_for_all(random_: random.Random, pages: Pages) -> str:
    """Make every row of a page the same cell, as often as the page has room for cell pointers."""
    full = [page for page in pages.of_trees() if page.cells]
    if not full:
        return "no full page"
    page = random_.choice(full)
    base = (page.number - 1) * pages.size
    first = page.header + (8 if page.right is None else 12)
    cell = random_.choice(page.cells) - base
    count = len(page.cells)
    if random_.random() < 0.5:
        count = max((base + cell - first) // 2, count)
        pages.put_two(page.header + 3, count)
    for place in range(count):
        pages.put_two(first + 2 * place, cell)
    return f"page {page.number} is {count} times the cell at {cell}"


def of_another_kind(random_: random.Random, pages: Pages) -> str:
    """Make a page claim to be of another kind."""
    page = _some_page(random_, pages)
    if page is None:
        return "no page of a tree"
    kind = random_.choice((_INTERIOR_INDEX, _INTERIOR_TABLE, _LEAF_INDEX, _LEAF_TABLE, 0))
    pages.content[page.header] = kind
    return f"page {page.number} of kind {page.kind} is of kind {kind}"


def cell_numbers(random_: random.Random, pages: Pages) -> str:
    """Change a page's field: how many cells, where they begin, free bytes."""
    page = _some_page(random_, pages)
    if page is None:
        return "no page of a tree"
    offset = random_.choice((1, 3, 5))
    value = random_.choice((0, 1, len(page.cells) + 1, 0x7FFF, 0xFFFF))
    pages.put_two(page.header + offset, value)
    return f"page {page.number}: field {offset} is {value}"


def rows_without_end(random_: random.Random, pages: Pages) -> str:
    """Add pages, each all children of the one before: rows grow by powers of their number."""
    inner = [page for page in _inner(pages) if page.kind == _INTERIOR_TABLE]
    leaves = [page.number for page in pages.of_trees() if page.kind == _LEAF_TABLE]
    if not inner or not leaves:
        return "no inner page"
    top, levels = random_.choice(inner), random_.choice((2, 3, 8, 15))
    most = powers(pages, top.number, random_.choice(leaves), levels)
    return f"page {top.number} is {most} to the power of {levels + 1} pages"


def powers(pages: Pages, top: int, leaf: int, levels: int) -> int:
    """Add pages below one, each all children of the one before; return how many children each has."""
    most = (pages.size - _FILE_HEADER_BYTES - 12) // 7
    numbers = [top, *(pages.count + 1 + level for level in range(levels))]
    pages.content += bytes(levels * pages.size)
    for number, child in zip(numbers, [*numbers[1:], leaf], strict=True):
        base = (number - 1) * pages.size
        start = base + (_FILE_HEADER_BYTES if number == 1 else 0)
        pages.content[start] = _INTERIOR_TABLE
        pages.put_two(start + 3, most)
        pages.put(start + 8, child)
        for cell in range(most):
            place = pages.size - 5 * (cell + 1)
            pages.put_two(start + 12 + 2 * cell, place)
            pages.put(base + place, child)
            pages.content[base + place + 4] = min(cell + 1, 0x7F)
        pages.put_two(start + 5, pages.size - 5 * most)
    pages.put(28, pages.count)
    return most


KINDS: tuple[Callable[[random.Random, Pages], str], ...] = (
    child_is_itself, children_are_pages_above, one_child_for_all, overflow_loops, long_cells,
    one_cell_for_all, of_another_kind, cell_numbers, rows_without_end,
)  # fmt: skip


def damage(
    how: Callable[[random.Random, Pages], str], random_: random.Random, content: bytes
) -> bytes:
    """Return the file with one of these kinds of damage."""
    if len(content) < 512 or len(content) % 512:
        return content
    pages = Pages(content)
    how(random_, pages)
    return bytes(pages.content)
