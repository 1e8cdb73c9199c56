"""Pickles of plain data, which the standard library's unpickler gets after a look at each opcode.

A pickle is a program. What plain data does not need is refused: classes, functions, calls, persistent ids
and extensions, by the opcode's name and place. No opcode reaches the unpickler before that look, and the
unpickler refuses all of these once more. The look also bounds what the unpickler may allocate: lengths by
what the file still holds, the memo's numbers and the number of containers by the size of the file. Tuples
hold whole numbers only, because hashing nested ones recurses without a limit.

The unpickler would keep whatever a pickle memoizes. So the opcodes that memoize what is never fetched are
left out on the way to it, and the caller may provide the lists that begin with a dictionary, and take
their items as they come. docs/formats/pytorch-snapshot.md.
"""

from __future__ import annotations

import gc
import io
import mmap
import pickle
import pickletools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from nsysconv.errors import InputError
from nsysconv.importers.pickles import Unpickler
from nsysconv.names import escaped, shorten

Array = np.ndarray


def _arguments(byte: bytes) -> tuple[bytes, bytes, bytes]:
    # References, whole numbers and reals whose arguments have such bytes. Whole numbers have 64 bits:
    # dictionaries whose keys are larger ones can be made to collide.
    lengths = b"|".join(b"\\x%02x%b{%d}" % (n, byte, n) for n in (8, 7, 6, 5, 4, 3, 2, 1, 0, 9))
    references = rb"(?:h%b|j%b|g\d{1,9}\n){1,4096}+" % (byte, 4 * byte)
    number = rb"(?:K%b|M%b{2}|J%b{4}|\x8a(?:%b)|I-?\d{1,20}\n|L-?\d{1,20}L?\n)"
    return references, number % (byte, byte, byte, lengths), rb"G%b{8}|F[-+.\deE]{1,40}\n" % byte


# Opcodes of a fixed form, as many as follow each other: references, numbers and the tuples of these,
# reals, short texts, containers and what fills them. No argument in such a run has the byte of MEMOIZE,
# and a list that begins with a dictionary ends it.
_SAFE = rb"[^\x94]"
_REFERENCES, _NUMBER, _REAL = _arguments(_SAFE)
_RUN = re.compile(
    rb"(?:%(references)b"
    rb"|%(number)b(?:(?=[^KMJ\x8aIL\x85-\x87])|\x85|%(number)b(?:\x86|%(number)b\x87))"
    rb"|[\x94}ueasN\x88\x89)0]{1,4096}+|\](?!\x94\(\})|\((?:%(number)b)*+t|\((?=[^KMJ\x8aIL])"
    rb"|%(real)b|\x8c(?:%(text)b)){1,65536}+" % {
        b"references": _REFERENCES, b"number": _NUMBER, b"real": _REAL,
        b"text": b"|".join(b"\\x%02x%b{%d}" % (n, _SAFE, n) for n in range(16)),
    },
    re.DOTALL,
)  # fmt: skip
# One of these whose argument may have any byte; the byte of MEMOIZE is in the argument only.
_REFERENCES, _NUMBER, _REAL = _arguments(b".")
_ARGUMENT = re.compile(
    rb"%(references)b|(%(number)b)(?:(\x85)|(%(number)b)(?:(\x86)|(%(number)b)(\x87)?)?)?"
    rb"|\((?:%(number)b)*+t|\(|q.|%(real)b"
    % {b"references": _REFERENCES, b"number": _NUMBER, b"real": _REAL},
    re.DOTALL,
)
# The rest of a tuple whose first numbers were looked at before.
_REST = re.compile(rb"(%b)?(%b)?([\x85-\x87])" % (_NUMBER, _NUMBER), re.DOTALL)
_TAKEN = frozenset(b"hjgKMJ\x8aILqGF")
_LENGTH_BYTES = {ord("\x8c"): 1, ord("X"): 4, ord("\x8d"): 8, ord("C"): 1}
_PROTO, _FRAME, _STOP, _TEXT, _LONG_PUT, _PUT = 0x80, 0x95, ord("."), ord("V"), ord("r"), ord("p")
_TUPLES, _FROM_MARK, _CONTAINERS = frozenset(b"\x85\x86\x87t"), frozenset(b"dl"), b"]}"
_MEMOIZE, _LIST, _SHORT_PUT = 0x94, ord("]"), ord("q")
_TUPLE_SIZES = {b"\x85": 1, b"\x86": 2, b"\x87": 3}
# What takes the place of MEMOIZE, before the number, and of a list that the caller makes.
_LONG_BINPUT, _PERSISTENT = b"r", b"NQ"
_FRAME_HEAD, _NEWEST = 9, 5
# Each memoized object and each container takes at least so many bytes of a real snapshot.
_BYTES_PER_MEMO, _BYTES_PER_CONTAINER = 3, 8
_FEW = 1 << 16
_LINE = re.compile(rb"[^\n]{0,60}\n?[^\n]{0,60}")
_SCAN_BYTES, _PART_BYTES = 1 << 24, 1 << 21
_LONGEST_FIXED = 44

_HINT = "Open only what torch.cuda.memory._dump_snapshot() wrote. Nothing in the file was run."
_DAMAGED = "Copy the file again, or dump it again: torch.cuda.memory._dump_snapshot()."
_UNLOADABLE = (
    pickle.UnpicklingError, EOFError, ValueError, TypeError, LookupError, AttributeError,
    OverflowError, RecursionError,
)  # fmt: skip


def load(path: Path, where: str, make_list: Callable[[], list[Any]] = list) -> Any:
    """Return what a pickle of plain data holds; text, numbers, lists, tuples and dictionaries only.

    `make_list` makes the lists that begin with a dictionary, which then get their items by `extend`, as
    many at a time as the pickle has them (a thousand). Raises InputError for any other opcode, damage,
    and where the memory does not suffice.
    """
    with path.open("rb") as file:
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer:
                parts = _Parts(OpcodeScan(buffer, where).parts())
                return _PlainUnpickler(io.BufferedReader(parts, _PART_BYTES), make_list).load()
        except _UNLOADABLE as error:
            what = f"the pickle cannot be loaded: {shorten(escaped(str(error)), 100)}"
            raise InputError(what, where=where, hint=_DAMAGED) from None
        except MemoryError:
            what = "there is not enough memory for what the snapshot holds"
            hint = "Record fewer events: _record_memory_history(max_entries=…)."
            raise InputError(what, where=where, hint=hint) from None


class _PlainUnpickler(Unpickler):
    # Its only persistent ids are those that the scan writes in place of lists.
    def __init__(self, file: BinaryIO, make_list: Callable[[], list[Any]]) -> None:
        super().__init__(file, allowed={})
        self._make_list = make_list

    def persistent_load(self, pid: Any) -> list[Any]:
        return self._make_list()


class _Parts(io.RawIOBase):
    # A file whose content is made as it is read.
    def __init__(self, parts: Iterator[bytes]) -> None:
        self._parts, self._left = parts, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> int:
        while not self._left:
            part = next(self._parts, None)
            if part is None:
                return 0
            self._left = memoryview(part)
        count = min(len(room), len(self._left))
        room[:count], self._left = self._left[:count], self._left[count:]
        return count


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


class OpcodeScan:
    """Goes over a pickle, opcode by opcode, and refuses it at the first that plain data does not need."""

    def __init__(self, buffer: mmap.mmap, where: str) -> None:
        """Look at nothing yet; `where` names the file in errors."""
        self._buffer, self._where, self._size = buffer, where, len(buffer)
        self._containers = self._memoized = 0
        self._put_at = 0
        # The place after numbers, in the next frame if need be, and how many they are.
        self._numbers_before = (0, 0)
        self._fetched = np.zeros(self._size // _BYTES_PER_MEMO + _FEW, bool)
        # In the part that is looked at: what begins where, and arguments with the byte of MEMOIZE.
        self._heads: list[int] = []
        self._lists: list[int] = []
        self._arguments: list[tuple[int, int]] = []

    def parts(self) -> Iterator[bytes]:
        """Yield the pickle without frames and needless memo, in parts that were looked at.

        Raises InputError where it is cut off or holds anything but plain data.
        """
        self._count_all()
        buffer, size, position, frame_end, begin = self._buffer, self._size, 0, 0, 0
        while True:
            # No opcode may cross the end of a frame: the unpickler would see others than these.
            limit = frame_end or size
            run = _RUN.match(buffer, position, limit)
            position = run.end() if run else position
            if position - begin > _PART_BYTES:
                yield self._rewritten(begin, position)
                begin = position
            if position == size:
                self._refuse_cut(position)
            if frame_end and position == frame_end:
                frame_end = 0
                continue
            code = buffer[position]
            if code == _STOP:
                yield self._rewritten(begin, position + 1)
                return
            if code == _FRAME and not frame_end:
                length = int.from_bytes(buffer[position + 1 : position + _FRAME_HEAD], "little")
                self._heads.append(position)
                position += _FRAME_HEAD
                frame_end = self._end(position - _FRAME_HEAD, position + length, size)
            else:
                position = self._after(code, position, limit)

    def _after(self, code: int, position: int, limit: int) -> int:
        buffer, begin = self._buffer, position + 1
        if rest := self._rest_of_tuple(position, limit):
            end = rest
        elif found := _ARGUMENT.match(buffer, position, limit):
            if code == _SHORT_PUT:
                self._put_at = position
            end = found.end()
            if found.lastindex in (1, 3, 5):
                is_at_end = end == limit
                self._numbers_before = (end + is_at_end * _FRAME_HEAD, (found.lastindex + 1) // 2)
        elif width := _LENGTH_BYTES.get(code):
            end = begin + width + int.from_bytes(buffer[begin : begin + width], "little")
        elif code == _LIST:
            self._lists.append(position)
            end = begin
        elif code == _TEXT:
            end = buffer.find(b"\n", begin, limit) + 1 or self._size + 1
        elif code == _LONG_PUT:
            end, self._put_at = begin + 4, position
            self._check_memo(position, int.from_bytes(buffer[begin:end], "little"))
        elif code == _PUT:
            end = buffer.find(b"\n", begin, limit) + 1 or self._size + 1
            self._put_at = position
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
        end = self._end(position, end, limit)
        if buffer.find(b"\x94", begin, end) >= 0:
            self._arguments.append((begin, end))
        return end

    def _end(self, position: int, end: int, limit: int) -> int:
        if end > self._size:
            self._refuse_cut(position)
        if end > limit:
            self._refuse(position, "crosses the end of a frame")
        return end

    def _rest_of_tuple(self, position: int, limit: int) -> int | None:
        # A frame may end between numbers and what makes a tuple of them, and other numbers precede them.
        where, count = self._numbers_before
        rest = _REST.match(self._buffer, position, limit) if position == where and count else None
        if rest is None:
            return None
        count += sum(number is not None for number in rest.groups()[:2])
        return rest.end() if _TUPLE_SIZES[rest[3]] <= count else None

    def _rewritten(self, begin: int, end: int) -> bytes:
        content = self._buffer[begin:end]
        codes = np.frombuffer(content, np.uint8)
        is_memo, is_kept = codes == _MEMOIZE, np.ones(len(codes), bool)
        for low, high in self._arguments:
            is_memo[low - begin : high - begin] = False
        for head in self._heads:
            low = head - begin
            is_memo[low : low + _FRAME_HEAD] = is_kept[low : low + _FRAME_HEAD] = False
        places = np.flatnonzero(is_memo)
        numbers = np.arange(self._memoized, self._memoized + len(places))
        self._memoized += len(places)
        if self._memoized and self._put_at:
            self._refuse(self._put_at, "is used beside MEMOIZE, as no program does")
        is_fetched = self._fetched.take(numbers, mode="clip")
        is_kept[places[~is_fetched]] = False
        pairs = zip(places[is_fetched].tolist(), numbers[is_fetched].tolist(), strict=True)
        others = {place: _LONG_BINPUT + number.to_bytes(4, "little") for place, number in pairs}
        others |= {place - begin: _PERSISTENT for place in self._lists}
        parts, low = [], 0
        for place in sorted(others):
            parts += [codes[low:place][is_kept[low:place]].tobytes(), others[place]]
            low = place + 1
        for noted in (self._arguments, self._heads, self._lists):
            noted.clear()
        self._release()
        return b"".join((*parts, codes[low:][is_kept[low:]].tobytes()))

    # -- what the unpickler may allocate

    def _check_memo(self, position: int, number: int) -> None:
        if number > position // _BYTES_PER_MEMO + _FEW:
            self._refuse(position, f"has memo number {number:,}, more than the file can need")

    def _count_all(self) -> None:
        # Bytes of arguments count as well, which does no harm.
        for low in range(0, self._size, _SCAN_BYTES):
            part = self._buffer[low : low + _SCAN_BYTES + 4] + bytes(4)
            codes = np.frombuffer(part, np.uint8)[: min(_SCAN_BYTES, self._size - low)]
            self._containers += sum(int(np.count_nonzero(codes == code)) for code in _CONTAINERS)
            words: Array = np.ndarray((len(codes),), "<u4", part, 1, (1,))
            numbers = words[codes == ord("j")]
            self._fetched[numbers[numbers < len(self._fetched)]] = True
            self._release()
        # The last one counts for all that follow. Those of one byte are few.
        self._fetched[-1] = self._fetched[:256] = True
        self._check_containers()

    def _release(self) -> None:
        # Pages that were read take no memory.
        if hasattr(self._buffer, "madvise"):
            self._buffer.madvise(mmap.MADV_DONTNEED)

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
