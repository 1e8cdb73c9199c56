"""Pickles of plain data, loaded by the standard library's unpickler after a look at each opcode.

A pickle is a program. What plain data does not need is refused before anything is loaded: classes,
functions, calls, persistent ids and extensions, by the opcode's name and place. The unpickler itself
refuses them once more. The look also bounds what the unpickler may allocate: lengths by what the file
still holds, the memo's numbers and the number of containers by the size of the file. Tuples hold whole
numbers only, because hashing nested ones recurses without a limit. docs/formats/pytorch-snapshot.md.
"""

from __future__ import annotations

import gc
import mmap
import pickle
import pickletools
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from nsysconv.errors import InputError
from nsysconv.importers.pickles import Unpickler
from nsysconv.names import escaped, shorten

# Whole numbers have 64 bits: dictionaries whose keys are larger ones can be made to collide.
_LONG = (
    rb"\x8a(?:"
    + b"|".join(b"\\x%02x.{%d}" % (n, n) for n in (8, 7, 6, 5, 4, 3, 2, 1, 0, 9))
    + rb")"
)
_NUMBER = rb"(?:K.|M..|J.{4}|" + _LONG + rb"|I-?\d{1,20}\n|L-?\d{1,20}L?\n)"
# Opcodes of a fixed form, as many as follow each other: references, numbers and the tuples of these,
# reals, containers and what fills them. All else stops the run and is looked at on its own.
_RUN = re.compile(
    rb"(?:(?:h.|j.{4}|g\d{1,9}\n)++"
    rb"|" + _NUMBER + rb"(?:\x85|" + _NUMBER + rb"(?:\x86|" + _NUMBER + rb"\x87?)?)?"
    rb"|\((?:" + _NUMBER + rb")*+t"
    rb"|[\x94}\](ueasN\x88\x89)0]++"
    rb"|q.|G.{8}|F[-+.\deE]{1,40}\n)*+",
    re.DOTALL,
)
_TAKEN = frozenset(b"hjgKMJ\x8aILqGF")
_LENGTH_BYTES = {ord("\x8c"): 1, ord("X"): 4, ord("\x8d"): 8, ord("C"): 1}
_PROTO, _FRAME, _STOP, _TEXT, _LONG_PUT, _PUT = 0x80, 0x95, ord("."), ord("V"), ord("r"), ord("p")
_TUPLES, _FROM_MARK, _CONTAINERS = frozenset(b"\x85\x86\x87t"), frozenset(b"dl"), b"]}"
_FRAME_HEAD, _NEWEST = 9, 5
# Each memoized object and each container takes at least so many bytes of a real snapshot.
_BYTES_PER_MEMO, _BYTES_PER_CONTAINER = 3, 8
_FEW = 1 << 16
_LINE = re.compile(rb"[^\n]{0,60}\n?[^\n]{0,60}")
_SCAN_BYTES = 1 << 24
_LONGEST_FIXED = 44

_HINT = "Open only what torch.cuda.memory._dump_snapshot() wrote. Nothing in the file was run."
_DAMAGED = "Copy the file again, or dump it again: torch.cuda.memory._dump_snapshot()."
_UNLOADABLE = (
    pickle.UnpicklingError, EOFError, ValueError, TypeError, LookupError, AttributeError,
    OverflowError, RecursionError,
)  # fmt: skip


def load(path: Path, where: str) -> Any:
    """Return what a pickle of plain data holds; text, numbers, lists, tuples and dictionaries only.

    Raises InputError for any other opcode, for damage, and where the memory does not suffice.
    """
    with path.open("rb") as file:
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
                _OpcodeScan(buffer, where).run()
            return Unpickler(file, allowed={}).load()
        except _UNLOADABLE as error:
            what = f"the pickle cannot be loaded: {shorten(escaped(str(error)), 100)}"
            raise InputError(what, where=where, hint=_DAMAGED) from None
        except MemoryError:
            what = "there is not enough memory for what the snapshot holds"
            hint = "Record fewer events: _record_memory_history(max_entries=…)."
            raise InputError(what, where=where, hint=hint) from None


@contextmanager
def paused_collector() -> Iterator[None]:
    """Pause the garbage collector, which would visit millions of new objects again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _OpcodeScan:
    """Goes over a pickle, opcode by opcode, and refuses it at the first that plain data does not need."""

    def __init__(self, buffer: mmap.mmap, where: str) -> None:
        self._buffer, self._where, self._size = buffer, where, len(buffer)
        self._containers = 0

    def run(self) -> None:
        """Raise InputError unless the pickle is whole and holds plain data only."""
        self._bound_containers()
        buffer, size, position, frame_end, released = self._buffer, self._size, 0, 0, 0
        while True:
            # No opcode may cross the end of a frame: the unpickler would see others than these.
            limit = frame_end or size
            run = _RUN.match(buffer, position, limit)
            position = run.end() if run else position
            if position == size:
                self._refuse_cut(position)
            if frame_end and position == frame_end:
                frame_end = 0
                continue
            code = buffer[position]
            if code == _STOP:
                return
            if position - released > _SCAN_BYTES and hasattr(buffer, "madvise"):
                buffer.madvise(mmap.MADV_DONTNEED)  # pages that were read take no memory
                released = position
            if code == _FRAME and not frame_end:
                length = int.from_bytes(buffer[position + 1 : position + _FRAME_HEAD], "little")
                position += _FRAME_HEAD
                frame_end = self._end(position - _FRAME_HEAD, position + length, size)
            else:
                position = self._after(code, position, limit)

    def _after(self, code: int, position: int, limit: int) -> int:
        buffer, begin = self._buffer, position + 1
        if width := _LENGTH_BYTES.get(code):
            end = begin + width + int.from_bytes(buffer[begin : begin + width], "little")
        elif code == _TEXT:
            end = buffer.find(b"\n", begin, limit) + 1 or self._size + 1
        elif code == _LONG_PUT:
            end = begin + 4
            self._check_memo(position, int.from_bytes(buffer[begin:end], "little"))
        elif code == _PUT:
            end = buffer.find(b"\n", begin, limit) + 1 or self._size + 1
            digits = buffer[begin : min(end - 1, begin + 10)]
            if end <= self._size and not digits.isdigit():
                self._refuse(position, "has no number")
            self._check_memo(position, int(digits) if digits.isdigit() else 0)
        elif code == _PROTO and position == 0 and buffer[1:2] <= bytes([_NEWEST]):
            end = 2
        elif code in _FROM_MARK:
            end = begin
            self._containers += 1
            self._check_containers()
        else:
            self._refuse_opcode(code, position, limit)
        return self._end(position, end, limit)

    def _end(self, position: int, end: int, limit: int) -> int:
        if end > self._size:
            self._refuse_cut(position)
        if end > limit:
            self._refuse(position, "crosses the end of a frame")
        return end

    # -- what the unpickler may allocate

    def _check_memo(self, position: int, number: int) -> None:
        if number > position // _BYTES_PER_MEMO + _FEW:
            self._refuse(position, f"has memo number {number:,}, more than the file can need")

    def _bound_containers(self) -> None:
        for low in range(0, self._size, _SCAN_BYTES):
            part = np.frombuffer(self._buffer[low : low + _SCAN_BYTES], np.uint8)
            self._containers += sum(int(np.count_nonzero(part == code)) for code in _CONTAINERS)
        self._check_containers()

    def _check_containers(self) -> None:
        if self._containers > self._size // _BYTES_PER_CONTAINER + _FEW:
            what = f"more than {self._size // _BYTES_PER_CONTAINER:,} lists and dictionaries"
            raise InputError(f"the pickle has {what}", where=self._where, hint=_HINT)

    # -- refusals

    def _refuse_opcode(self, code: int, position: int, limit: int) -> NoReturn:
        if code in _TUPLES:
            self._refuse(position, "makes a tuple of something else than whole numbers")
        if code in _TAKEN:
            if code == 0x8A and self._buffer[position + 1 : position + 2] > b"\x09":
                self._refuse(position, "has a number of more than 64 bits")
            if position + _LONGEST_FIXED > limit:
                self._end(position, limit + 1, limit)
            self._refuse(position, "has an argument that is no number")
        self._refuse(position, "is not needed by plain data, and could run code")

    def _refuse(self, position: int, why: str) -> NoReturn:
        code = chr(self._buffer[position])
        names = (opcode.name for opcode in pickletools.opcodes if opcode.code == code)
        name = next(names, f"opcode 0x{ord(code):02x}")
        if name in ("GLOBAL", "INST", "PERSID"):
            text = _LINE.match(self._buffer, position + 1)
            name += (
                f" '{escaped(' '.join(text.group().decode('latin-1').split()))}'" if text else ""
            )
        what = f"{name} {why}: the pickle was not loaded"
        raise InputError(what, where=f"{self._where}, byte {position:,}", hint=_HINT)

    def _refuse_cut(self, position: int) -> NoReturn:
        what = f"the pickle is cut off: what begins at byte {position:,} needs more than {self._size:,}"
        raise InputError(what, where=self._where, hint=_DAMAGED)
