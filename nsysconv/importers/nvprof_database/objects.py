"""Processes and threads as nvprof writes them: objects, whose numbers lie packed in a blob.

`objectKind` 1 is a process (a pid of 32 bits), 2 a thread (the pid, then a thread id of 64 bits whose
upper half may be garbage), 5 a stream (device, context and stream, 32 bits each). Bytes are in the order
of the machines that ran nvprof: lowest first.
"""

from __future__ import annotations

import sqlalchemy as sa

from nsysconv.importers.sqlite_columns import Expression

PROCESS, THREAD, STREAM = 1, 2, 5
_BYTES = 4
_ALL_BYTES: Expression = sa.literal_column(f"x'{bytes(range(256)).hex()}'")


def numbers_of(blob: bytes, count: int) -> tuple[int, ...] | None:
    """The first numbers of 32 bits in an object's blob; None where it is too short."""
    if len(blob) < count * _BYTES:
        return None
    return tuple(
        int.from_bytes(blob[at : at + _BYTES], "little") for at in range(0, count * _BYTES, _BYTES)
    )


def number_at(blob: Expression, offset: int, kind: Expression) -> Expression:
    """The same in SQL: a number of 32 bits at this byte; NULL where objects of the kind have none."""
    kinds = (PROCESS, THREAD) if offset == 0 else (THREAD,)
    value = _byte(blob, offset)
    for place in range(1, _BYTES):
        value = value + _byte(blob, offset + place) * _text(1 << 8 * place)
    enough = sa.func.length(blob) >= _text(offset + _BYTES)
    is_blob = sa.func.typeof(blob) == sa.literal_column("'blob'")
    return sa.case((kind.in_(kinds) & is_blob & enough, value))


def _byte(blob: Expression, place: int) -> Expression:
    """The value of one byte: SQLite has no such function, but finds a byte among all of them."""
    byte = sa.func.substr(blob, _text(place + 1), _text(1))
    return sa.func.instr(_ALL_BYTES, byte, type_=sa.BigInteger) - _text(1)


def _text(number: int) -> Expression:
    return sa.literal_column(str(number), sa.BigInteger)
