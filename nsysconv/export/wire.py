"""Fields of protobuf messages for many rows at once, as arrays of bytes.

Varints are padded to one width, which the encoding allows, so that rows have equal lengths.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

Array = np.ndarray

VARINT, FIXED64, LENGTH = 0, 1, 2
"""Wire types."""
TIME, NUMBER, COUNT = 9, 10, 5
"""Bytes of varints: of a time that is not negative, of any number of 64 bits, and of a small one."""


def tag(number: int, kind: int) -> bytes:
    """What begins a field."""
    return varint(number << 3 | kind)


def varint(number: int) -> bytes:
    """One number that is not negative, in as few bytes as it takes."""
    spelled = bytearray()
    while number > 0x7F:
        spelled.append(number & 0x7F | 0x80)
        number >>= 7
    spelled.append(number)
    return bytes(spelled)


def constant(text: bytes, count: int) -> Array:
    """The same bytes for each row."""
    return np.broadcast_to(np.frombuffer(text, np.uint8), (count, len(text)))


def varints(values: Array, width: int) -> Array:
    """Whole numbers in so many bytes each, which must be enough."""
    left = values.astype(np.int64).view(np.uint64)
    shifts = np.arange(width, dtype=np.uint64) * np.uint64(7)
    result = (left[:, None] >> shifts) & np.uint64(0x7F)
    result[:, :-1] |= np.uint64(0x80)
    return result.astype(np.uint8)


def fixed(values: Array) -> Array:
    """Numbers of 64 bits, whole or not, as they are in memory."""
    kind = "<f8" if values.dtype.kind == "f" else "<i8"
    return np.ascontiguousarray(values.astype(kind)).view(np.uint8).reshape(-1, 8)


def rows(*parts: Array) -> Array:
    """Fields of each row one behind the other."""
    return np.concatenate(parts, axis=1)


def cells(matrix: Array, count: Array | None = None) -> pa.Array:
    """Bytes as Arrow's, a cell per row; with `count`, each cell takes so many rows of the matrix."""
    length, width = matrix.shape
    ends = np.arange(length + 1) if count is None else np.append(0, np.cumsum(count))
    offsets = np.ascontiguousarray(ends * width, np.int64)
    data = np.ascontiguousarray(matrix)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def spelled(messages: list[bytes]) -> pa.Array:
    """Messages as Arrow's bytes."""
    offsets = np.zeros(len(messages) + 1, np.int64)
    np.cumsum([len(message) for message in messages], out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(messages))]
    return pa.Array.from_buffers(pa.large_binary(), len(messages), buffers)
