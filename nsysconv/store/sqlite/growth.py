"""Tables of a new SQLite file that grow by whole pages, between two transactions of SQLite's.

Pages with rows are put behind all others, where nobody reads. `graft` then makes them part of their
tables: interior pages above them, and roots that lead there
(https://www.sqlite.org/fileformat2.html, sections 1.3 and 1.6). SQLite sees from the file's change
counter that it has to read anew. Only for files that nobody else knows: no lock is taken, and what is
left halfway is no database any more.
"""

from __future__ import annotations

import errno
import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from nsysconv.errors import UsageError
from nsysconv.store.sqlite.connection import disk_full
from nsysconv.store.sqlite.leaves import Array, leaves, varint
from nsysconv.store.sqlite.records import NotPlainError

_INTERIOR = 5
_INTERIOR_HEADER = 12
# A pointer to the cell, the number of a page, the longest id.
_INTERIOR_CELL = 2 + 4 + 9
_COUNTER, _PAGES, _COUNTER_AGAIN = 24, 28, 92
_LEAST_LEAVES = 2  # below an interior page, which the root then is
# The page with this byte holds SQLite's locks, and nothing else.
_LOCKS = 1 << 30


@dataclass
class _Tree:
    """A table's pages: leaves with the last id on each, and what interior pages there are."""

    root: int
    leaves: array[int] = field(default_factory=lambda: array("I"))
    last_ids: array[int] = field(default_factory=lambda: array("q"))
    interior: list[int] = field(default_factory=list)
    grafted: int = 0  # so many of the leaves


@dataclass(frozen=True)
class Mark:
    """How far a file had grown: its next page, and each table's leaves."""

    next_page: int
    leaves: Mapping[str, int]


class Growth:
    """The growing tables of one file."""

    def __init__(self, path: Path, place: str, page_size: int, roots: Mapping[str, int]) -> None:
        """`roots`: empty tables and the pages of their roots. Errors name `place`."""
        self._place = place
        self._page_size = page_size
        self._trees = {table: _Tree(root) for table, root in roots.items()}
        self._left = set[str]()
        self._next_page = 0
        self._replaced: dict[int, bytes] = {}
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        """Ends the growth; what is grafted stays."""
        os.close(self._descriptor)

    def takes(self, table: str) -> bool:
        """Whether rows of this table can be added."""
        return table in self._trees and table not in self._left

    def leave(self, table: str) -> None:
        """The table grows no more: SQLite writes to it."""
        self._left.add(table)

    def rows(self, table: str) -> int:
        """How many rows a table has, which is also the id of the last one."""
        last_ids = self._trees[table].last_ids
        return last_ids[-1] if last_ids else 0

    def add(self, table: str, columns: Sequence[Array]) -> None:
        """Appends rows, one at least: their values in the table's columns, in order; null for the id.

        Raises NotPlainError as `leaves` does, and where a table's first rows fill but one page, and
        UsageError where the file cannot be written. Nothing is added then.
        """
        tree = self._trees[table]
        made = leaves(self.rows(table) + 1, columns, self._page_size)
        if len(tree.leaves) + len(made.last_ids) < _LEAST_LEAVES:
            raise NotPlainError
        numbers = self._taken(len(made.last_ids))
        for low, high in _runs(numbers):
            part = made.pages[low * self._page_size : high * self._page_size]
            begin = (numbers[low] - 1) * self._page_size
            self._write(part.data, begin)
            self._write_back(begin, part.nbytes)
        tree.leaves.extend(numbers)
        tree.last_ids.extend(made.last_ids.tolist())

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keeps what is added and grafted meanwhile, or nothing of it if the block raises. SQLite must be
        in no transaction when the block begins and ends.
        """
        self._next_page = int.from_bytes(self._read(4, _PAGES), "big") + 1
        self._replaced = {}
        mark = self.mark()
        before = {name: (len(t.interior), t.grafted) for name, t in self._trees.items()}
        try:
            yield
        except BaseException:
            self.cut(mark)
            for name, tree in self._trees.items():
                interior, tree.grafted = before[name]
                del tree.interior[interior:]
            for number, page in self._replaced.items():
                if number < mark.next_page:
                    self._write(page, (number - 1) * self._page_size)
            if self._replaced:
                self._count_pages()
            raise

    def mark(self) -> Mark:
        """Where `cut` would come back to."""
        return Mark(self._next_page, {name: len(tree.leaves) for name, tree in self._trees.items()})

    def cut(self, mark: Mark) -> None:
        """Forgets what was added since."""
        for name, tree in self._trees.items():
            del tree.leaves[mark.leaves[name] :], tree.last_ids[mark.leaves[name] :]
        self._next_page = mark.next_page
        os.ftruncate(self._descriptor, (mark.next_page - 1) * self._page_size)

    def graft(self) -> None:
        """Makes what was added part of its tables. SQLite must be in no transaction."""
        grown = [tree for tree in self._trees.values() if tree.grafted < len(tree.leaves)]
        for tree in grown:
            self._join(tree)
            tree.grafted = len(tree.leaves)
        if grown:
            self._count_pages()

    def _join(self, tree: _Tree) -> None:
        """Writes a tree's interior pages and its root."""
        pages, last_ids = np.array(tree.leaves), np.array(tree.last_ids)
        most = (self._page_size - _INTERIOR_HEADER) // _INTERIOR_CELL
        used = 0
        while len(pages) > most:
            # Of even sizes: an interior page has two below it at least.
            edges = np.linspace(0, len(pages), -(-len(pages) // most) + 1).astype(int).tolist()
            if used + len(edges) - 1 > len(tree.interior):
                tree.interior += self._taken(used + len(edges) - 1 - len(tree.interior))
            numbers = tree.interior[used : used + len(edges) - 1]
            used += len(numbers)
            for number, (low, high) in zip(numbers, pairwise(edges), strict=True):
                page = _interior(pages[low:high], last_ids[low:high], self._page_size)
                self._replace(number, page)
            pages, last_ids = np.array(numbers), last_ids[np.array(edges[1:]) - 1]
        self._replace(tree.root, _interior(pages, last_ids, self._page_size))

    def _replace(self, number: int, page: bytes) -> None:
        begin = (number - 1) * self._page_size
        if number not in self._replaced:
            self._replaced[number] = self._read(self._page_size, begin)
        self._write(page, begin)

    def _taken(self, count: int) -> list[int]:
        """The numbers of so many new pages."""
        locks = _LOCKS // self._page_size + 1
        numbers = list[int]()
        while len(numbers) < count:
            if self._next_page != locks:
                numbers.append(self._next_page)
            self._next_page += 1
        return numbers

    def _count_pages(self) -> None:
        """Has the file's header say how many pages there are now, and that they are others."""
        counter = int.from_bytes(self._read(4, _COUNTER), "big") + 1 & 0xFFFFFFFF
        changed = counter.to_bytes(4, "big")
        self._write(changed + (self._next_page - 1).to_bytes(4, "big"), _COUNTER)
        self._write(changed, _COUNTER_AGAIN)

    def _read(self, size: int, begin: int) -> bytes:
        return os.pread(self._descriptor, size, begin)

    def _write_back(self, begin: int, size: int) -> None:
        """Has the system begin to bring to the disk what was written, so that the store's flush, once it
        is complete, need not wait for all of it.
        """
        # These words have Linux forget it, too, but nothing that is still on its way.
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError):  # advice that a file system does not take
                os.posix_fadvise(self._descriptor, begin, size, os.POSIX_FADV_DONTNEED)

    def _write(self, data: bytes | memoryview, begin: int) -> None:
        left = memoryview(data)
        while left:
            try:
                done = os.pwrite(self._descriptor, left, begin)
            except OSError as error:
                raise _unwritable(error, self._place) from error
            left = left[done:]
            begin += done


def _interior(pages: Array, last_ids: Array, page_size: int) -> bytes:
    """A page above others: the number of each and the last id on it."""
    pointers, cells, place = [], [], page_size
    for number, last_id in zip(pages[:-1].tolist(), last_ids[:-1].tolist(), strict=True):
        cell = number.to_bytes(4, "big") + varint(last_id)
        place -= len(cell)
        cells.append(cell)
        pointers.append(place.to_bytes(2, "big"))
    header = bytes([_INTERIOR, 0, 0])
    header += len(cells).to_bytes(2, "big") + place.to_bytes(2, "big") + bytes(1)
    top = header + int(pages[-1]).to_bytes(4, "big") + b"".join(pointers)
    return top + bytes(place - len(top)) + b"".join(reversed(cells))


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where in ascending numbers those begin and end that follow one another."""
    edges = [place for place in range(1, len(numbers)) if numbers[place] != numbers[place - 1] + 1]
    yield from pairwise([0, *edges, len(numbers)])


def _unwritable(error: OSError, place: str) -> UsageError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return disk_full(place)
    return UsageError(f"the file cannot be written: {error.strerror}", where=place)
