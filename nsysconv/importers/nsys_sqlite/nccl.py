"""Collectives from the payloads of NCCL's ranges: operation, size, communicator, and the kernel of each.

NCCL describes each of its calls by a payload of the range around it. How that is laid out, and how far it
is known, is in docs/formats/nsys.md.

A call launches its kernel itself, or `ncclGroupEnd` does so for all calls since `ncclGroupStart`. Which
kernel belongs to which call is said only where there is no doubt: one kernel was launched, and all calls
behind it are of one operation and one communicator.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.importers.nsys_sqlite import export_context, tables
from nsysconv.importers.nsys_sqlite.small_tables import Row
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import TIME_LIMIT, has_columns, only, texts_by_id
from nsysconv.notes import Note, Severity

DOMAIN = "NCCL"

# Domain, schema, size of the payload, size of all; what lies between is reserved.
_HEADER = struct.Struct("<I4xI4xQQ")
# NVTX numbers the types of payload entries: a C int, 64 bits, a size.
_NUMBERS = {5: struct.Struct("<i"), 18: struct.Struct("<Q"), 22: struct.Struct("<Q")}
_COMMUNICATOR, _SIZE = "NCCL communicator ID", "Message size [bytes]"
_PEER, _ROOT, _RANKS = "Peer rank", "Root", "No. of ranks"
_ALLOWED = frozenset({_COMMUNICATOR, _SIZE, _PEER, _ROOT, _RANKS})
# A longer payload is not that of an NCCL call.
_MAX_BLOB = 4096
# No message is so large; sums of sizes fit into 64 bits.
_MAX_BYTES = 1 << 53

_GROUP_START, _GROUP_END = "ncclGroupStart", "ncclGroupEnd"


@dataclass(frozen=True)
class _Function:
    # This is what a function does. NCCL gives the size of one message, which is that of `in_bytes`,
    # `out_bytes` or both; all-to-all sends so much to each rank.
    operation: str
    sides: tuple[str, ...]
    peer: str = ""
    root: str = ""
    to_each: bool = False


_BOTH = ("in_bytes", "out_bytes")
_FUNCTIONS = {
    "ncclAllReduce": _Function("allreduce", _BOTH),
    "ncclAllGather": _Function("allgather", ("in_bytes",)),
    "ncclReduceScatter": _Function("reduce_scatter", ("out_bytes",)),
    "ncclBroadcast": _Function("broadcast", _BOTH, root="src_rank"),
    "ncclBcast": _Function("broadcast", _BOTH, root="src_rank"),
    "ncclReduce": _Function("reduce", ("in_bytes",), root="dst_rank"),
    "ncclAlltoAll": _Function("alltoall", _BOTH, to_each=True),
    "ncclGather": _Function("gather", ("in_bytes",), root="dst_rank"),
    "ncclScatter": _Function("scatter", ("out_bytes",), root="src_rank"),
    "ncclSend": _Function("send", ("in_bytes",), peer="dst_rank"),
    "ncclRecv": _Function("recv", ("out_bytes",), peer="src_rank"),
}
_SENDRECV = "sendrecv"
_POINT_TO_POINT = frozenset({"send", "recv"})
_CALL, _KERNEL = (codes.COLLECTIVE_KINDS.index(word) for word in ("call", "kernel"))
_FACTS = frozenset({Fact.COLLECTIVES})


@dataclass(frozen=True)
class Collectives:
    """Rows of `collective` whose names are still texts: `name` and `group` in place of ids.

    A kernel without a known call has its own name as `name_id`.
    """

    rows: list[Row]
    notes: list[Note]

    @property
    def texts(self) -> list[str]:
        """Return the distinct texts that the rows name, in the order of the alphabet."""
        return sorted({row[key] for row in self.rows for key in ("name", "group") if row.get(key)})


NOTHING = Collectives([], [])


def read_collectives(
    probe: Probe, domains: Iterable[Row], devices: Mapping[tuple[int | None, int], int], zero: int
) -> Collectives:
    """Return what NCCL's calls and kernels exchange; nothing where no payload of a message can be read.

    `domains`: named domains by process; `devices`: our number by process and ordinal; `zero` is
    subtracted from times.
    """
    own = {(row["pid"], row["domain_id"]) for row in domains if row["name"] == DOMAIN}
    if not own or not _has_payloads(probe):
        return NOTHING
    ranges, unread = _read_ranges(probe, own, _read_schemas(probe), zero)
    if not any(_SIZE in each.payload for each in ranges):
        return Collectives([], _payload_notes(unread))
    ranks = _ranks_by_communicator(ranges)
    rows = [_call_row(each, does, ranks, zero) for each in ranges if (does := each.function)]
    kernels, unlinked = _kernel_rows(probe, launch_units(ranges), ranks, devices, zero)
    notes = [*_payload_notes(unread), *_unlinked_notes(unlinked, len(kernels))]
    return Collectives(rows + kernels, notes)


# -- payloads


@dataclass(frozen=True)
class _Schema:
    size: int
    fields: Mapping[str, tuple[int, struct.Struct]]


def _has_payloads(probe: Probe) -> bool:
    ranges = ("start", "end", "eventType", "globalTid", "domainId", "text", "binaryData")
    return (
        has_columns(probe, tables.NVTX, *ranges)
        and has_columns(probe, tables.PAYLOAD_SCHEMAS, "domainId", "schemaId", "payloadSize")
        and has_columns(
            probe, tables.PAYLOAD_ENTRIES, "domainId", "schemaId", "name", "type", "offset"
        )
    )


def _read_schemas(probe: Probe) -> dict[tuple[int, int], _Schema]:
    # The tables do not say whose schemas they hold: where two processes mean different things by one
    # number, nothing can be read by it.
    sizes: dict[tuple[int, int], set[Any]] = {}
    for domain, number, size in probe.select(
        f"SELECT domainId, schemaId, payloadSize FROM {tables.PAYLOAD_SCHEMAS}"
    ):
        sizes.setdefault((domain, number), set()).add(size)
    entries: dict[tuple[int, int], dict[str, set[tuple[Any, Any]]]] = {}
    for domain, number, name, kind, offset in probe.select(
        f"SELECT domainId, schemaId, name, type, offset FROM {tables.PAYLOAD_ENTRIES}"
    ):
        if name in _ALLOWED:
            places = entries.setdefault((domain, number), {}).setdefault(name, set())
            places.add((0 if offset is None else offset, kind))
    schemas = {}
    for key, named in entries.items():
        size = only(sizes.get(key, ()))
        fields = {name: _field(places, size) for name, places in named.items()}
        known = {name: place for name, place in fields.items() if place is not None}
        if isinstance(size, int) and len(known) == len(fields):
            schemas[key] = _Schema(size, known)
    return schemas


def _field(places: set[tuple[Any, Any]], size: Any) -> tuple[int, struct.Struct] | None:
    offset, kind = only(places) or (None, None)
    number = _NUMBERS.get(kind) if isinstance(kind, int) else None
    if number is None or not isinstance(offset, int) or not isinstance(size, int):
        return None
    return (offset, number) if 0 <= offset <= size - number.size else None


def _decode(
    blob: bytes, domain: int, schemas: Mapping[tuple[int, int], _Schema]
) -> dict[str, int] | None:
    # The result has the fields of a payload; it is None if the payload does not match its description.
    if len(blob) < _HEADER.size:
        return None
    own_domain, number, size, whole = _HEADER.unpack_from(blob)
    schema = schemas.get((domain, number))
    if own_domain != domain or schema is None or size != schema.size:
        return None
    if whole != len(blob) or whole != _HEADER.size + size:
        return None
    values = {
        name: form.unpack_from(blob, _HEADER.size + offset)[0]
        for name, (offset, form) in schema.fields.items()
    }
    # No rank has a negative number.
    possible = values.get(_SIZE, 0) < _MAX_BYTES
    return values if possible and all(value >= 0 for value in values.values()) else None


# -- ranges


_NO_PAYLOAD: Mapping[str, int] = MappingProxyType({})


# There are hundreds of thousands of these in a recording: tuples are made in half the time.
class NcclRange(NamedTuple):
    """A range of NCCL's, with times of the file and what its payload says."""

    name: str
    global_tid: int
    start: int
    end: int
    payload: Mapping[str, int] = _NO_PAYLOAD

    @property
    def function(self) -> _Function | None:
        """Return which function of NCCL it is of, if one is known."""
        return _FUNCTIONS.get(self.name)

    @property
    def communicator(self) -> int:
        """Return the id of its communicator, 0 where none is recorded."""
        return self.payload.get(_COMMUNICATOR, 0)


def _read_ranges(
    probe: Probe,
    domains: set[tuple[int, int]],
    schemas: Mapping[tuple[int, int], _Schema],
    zero: int,
) -> tuple[list[NcclRange], list[int]]:
    # The result has the ranges of these domains by thread and time, and the rows whose payload cannot
    # be read.
    source = probe.tables[tables.NVTX]
    numbers = ", ".join(str(number) for number in sorted({number for _, number in domains}))
    kinds = ", ".join(str(kind) for kind in tables.RANGE_KINDS if kind != tables.MARK)
    text_id = "textId" if "textId" in source.columns else "NULL"
    whole = f"typeof(binaryData) = 'blob' AND length(binaryData) <= {_MAX_BLOB}"
    rows = probe.select(
        f"SELECT {source.row_id or 0}, start, end, globalTid, domainId, {text_id}, text, "
        f"typeof(binaryData) <> 'null', CASE WHEN {whole} THEN binaryData END FROM {tables.NVTX} "
        f"WHERE eventType IN ({kinds}) AND domainId IN ({numbers})"
    )
    ids = {row[5] for row in rows if isinstance(row[5], int)}
    texts = texts_by_id(probe, *tables.STRINGS, ids)
    ranges, unread = [], []
    decoded: dict[tuple[bytes, int], dict[str, int] | None] = {}
    for row, start, end, thread, domain, name_id, text, has_payload, blob in rows:
        if (
            not isinstance(thread, int)
            or (export_context.process_of(thread), domain) not in domains
        ):
            continue
        payload = None
        if isinstance(blob, bytes):
            # A program says the same again and again.
            if (blob, domain) not in decoded:
                decoded[blob, domain] = _decode(blob, domain, schemas)
            payload = decoded[blob, domain]
        if has_payload and payload is None:
            unread.append(row)
        name = texts.get(name_id, text)
        if isinstance(name, str) and _is_interval(start, end, zero):
            ranges.append(NcclRange(name, thread, start, end, payload or _NO_PAYLOAD))
    ranges.sort(key=attrgetter("global_tid", "start"))
    return ranges, unread


def _is_interval(start: object, end: object, zero: int) -> bool:
    if not isinstance(start, int) or not isinstance(end, int) or start == end == 0:
        return False
    return 0 <= end - start <= TIME_LIMIT and abs(start - zero) <= TIME_LIMIT


def _ranks_by_communicator(ranges: Iterable[NcclRange]) -> dict[int, int]:
    # Every process gives the number when it makes or ends a communicator. It counts if all agree.
    said: dict[int, set[int]] = {}
    for each in ranges:
        if each.communicator and each.payload.get(_RANKS):
            said.setdefault(each.communicator, set()).add(each.payload[_RANKS])
    return {key: ranks for key, values in said.items() if (ranks := only(values))}


# -- calls and the ranges that launch their kernels


class _Unit(NamedTuple):
    # A range that launches kernels, and the calls behind it; None: they are not all known.
    launching: NcclRange
    calls: tuple[NcclRange, ...] | None


def launch_units(ranges: Iterable[NcclRange]) -> dict[int, list[_Unit]]:
    """Return the ranges that launch kernels by thread, in the order of their starts."""
    units: dict[int, list[_Unit]] = {}
    depths: dict[int, int] = {}
    pending: dict[int, list[NcclRange]] = {}
    for each in ranges:
        thread, depth = each.global_tid, depths.get(each.global_tid, 0)
        calls = pending.setdefault(thread, [])
        if each.name == _GROUP_START:
            depths[thread] = depth + 1
        elif each.name == _GROUP_END:
            depths[thread] = max(depth - 1, 0)
            if depth <= 1:
                # Without a start the recording began within the group.
                found = tuple(calls) if depth else None
                units.setdefault(thread, []).append(_Unit(each, found))
                calls.clear()
        elif each.function is not None or _SIZE in each.payload:
            if depth:
                calls.append(each)
            else:
                units.setdefault(thread, []).append(_Unit(each, (each,)))
    return units


def _exchange(calls: Sequence[NcclRange] | None, ranks: Mapping[int, int]) -> Row | None:
    # The row describes what one kernel exchanges for these calls; it is None if that is not known.
    if not calls or any(_SIZE not in each.payload for each in calls):
        return None
    rows = [_described(each, does, ranks) for each in calls if (does := each.function)]
    if len(rows) < len(calls):
        return None
    if len(rows) == 1:
        return rows[0]
    names = {row["name"] for row in rows}
    communicator = only(each.communicator for each in calls)
    if not communicator or (len(names) > 1 and not names <= _POINT_TO_POINT):
        return None
    peers = {key: {row.get(key) for row in rows} - {None} for key in ("src_rank", "dst_rank")}
    return {
        **rows[0],
        "name": names.pop() if len(names) == 1 else _SENDRECV,
        **{side: _total(row.get(side) for row in rows) for side in _BOTH},
        **{key: only(values) for key, values in peers.items()},
    }


def _total(sizes: Iterable[int | None]) -> int | None:
    recorded = [size for size in sizes if size is not None]
    total = sum(recorded)
    return total if recorded and total < _MAX_BYTES else None


def _described(call: NcclRange, function: _Function, ranks: Mapping[int, int]) -> Row:
    size, group_size = call.payload.get(_SIZE), ranks.get(call.communicator)
    if function.to_each and size is not None:
        size = None if group_size is None else _total([size * group_size])
    row: Row = {
        "name": function.operation,
        "group": f"{call.communicator:#018x}" if call.communicator else None,
        "group_size": group_size,
        **dict.fromkeys(function.sides, size),
    }
    for field_name, column in ((_PEER, function.peer), (_ROOT, function.root)):
        if column:
            row[column] = call.payload.get(field_name)
    return row


def _call_row(call: NcclRange, function: _Function, ranks: Mapping[int, int], zero: int) -> Row:
    pid, tid = export_context.thread_of(call.global_tid)
    return {
        **_described(call, function, ranks),
        "kind": _CALL,
        "pid": pid,
        "tid": tid,
        "start_ns": call.start - zero,
        "dur_ns": call.end - call.start,
    }


# -- kernels


def _kernel_rows(
    probe: Probe,
    units: Mapping[int, Sequence[_Unit]],
    ranks: Mapping[int, int],
    devices: Mapping[tuple[int | None, int], int],
    zero: int,
) -> tuple[list[Row], int]:
    # The result has a row for each kernel of NCCL, and the number of kernels without a message.
    kernels = list(_read_kernels(probe, zero))
    launches = _read_launches(probe, {kernel["name_id"] for kernel in kernels})
    by_unit: dict[int, list[Row]] = {}
    known: dict[int, _Unit] = {}
    for kernel in kernels:
        unit = launching_unit(units, launches.get((kernel["pid"], kernel["correlation_id"])))
        if unit is not None:
            by_unit.setdefault(id(unit), []).append(kernel)
            known[id(unit)] = unit
    linked = 0
    for place, launched in by_unit.items():
        exchange = _exchange(known[place].calls, ranks) if len(launched) == 1 else None
        if exchange is not None:
            launched[0].update(exchange)
            del launched[0]["name_id"]
            linked += 1
    for kernel in kernels:
        kernel["device_id"] = devices.get((kernel["pid"], kernel.pop("ordinal")))
        kernel["start_ns"] -= zero
    return kernels, len(kernels) - linked


_KERNEL_COLUMNS = {
    "start_ns": "start",
    "end": "end",
    "global_pid": "globalPid",
    "ordinal": "deviceId",
    "context_id": "contextId",
    "stream_id": "streamId",
    "correlation_id": "correlationId",
    "name_id": "shortName",
}
_OWN_KERNELS = "SELECT id FROM StringIds WHERE value GLOB 'nccl*'"


def _read_kernels(probe: Probe, zero: int) -> Iterator[Row]:
    if not has_columns(probe, tables.KERNEL, *_KERNEL_COLUMNS.values()):
        return
    names = ", ".join(_KERNEL_COLUMNS.values())
    for values in probe.select(
        f"SELECT {names} FROM {tables.KERNEL} WHERE shortName IN ({_OWN_KERNELS})"
    ):
        row = dict(zip(_KERNEL_COLUMNS, values, strict=True))
        end, global_pid = row.pop("end"), row.pop("global_pid")
        whole = all(isinstance(value, int) or value is None for value in row.values())
        if whole and isinstance(global_pid, int) and _is_interval(row["start_ns"], end, zero):
            duration = end - row["start_ns"]
            yield row | {
                "kind": _KERNEL,
                "pid": export_context.process_of(global_pid),
                "dur_ns": duration,
            }


def _read_launches(probe: Probe, names: set[int]) -> dict[tuple[int, int], tuple[int, int]]:
    # The result maps a process and a correlation id to the thread and the start of the call that
    # launched kernels with these names.
    if not names or not has_columns(probe, tables.RUNTIME, "start", "globalTid", "correlationId"):
        return {}
    of_class = "1"
    if "eventClass" in probe.tables[tables.RUNTIME].columns:
        of_class = f"eventClass <> {tables.BACKTRACE_CLASS}"
    listed = ", ".join(map(str, sorted(names)))
    launches: dict[tuple[int, int], tuple[int, int]] = {}
    for thread, start, number in probe.iterate(
        f"SELECT globalTid, start, correlationId FROM {tables.RUNTIME} WHERE {of_class} AND "
        f"correlationId IN (SELECT correlationId FROM {tables.KERNEL} WHERE shortName IN ({listed}))"
    ):
        if number and isinstance(thread, int) and isinstance(start, int):
            # A call of the runtime may be recorded beside that of the driver within it.
            launches.setdefault((export_context.thread_of(thread)[0], number), (thread, start))
    return launches


def launching_unit(
    units: Mapping[int, Sequence[_Unit]], launch: tuple[int, int] | None
) -> _Unit | None:
    """Return the range in which a kernel was launched, given the thread and start of its call."""
    if launch is None:
        return None
    thread, start = launch
    own = units.get(thread, ())
    place = bisect_right(own, start, key=lambda unit: unit.launching.start) - 1
    return own[place] if place >= 0 and start <= own[place].launching.end else None


# -- notes


def _payload_notes(rows: Sequence[int]) -> list[Note]:
    if not rows:
        return []
    text = f"{tables.NVTX}: NCCL range payloads with an unexpected layout were not read"
    where = f"{tables.NVTX} row {min(rows)}"
    return [Note("payload-unread", Severity.DROPPED, text, len(rows), where, _FACTS)]


def _unlinked_notes(count: int, of: int) -> list[Note]:
    if not count:
        return []
    text = "NCCL kernels without a size or communicator: their call is unknown"
    return [Note("collectives-unlinked", Severity.INFO, text, count, tables.KERNEL, _FACTS, of)]
