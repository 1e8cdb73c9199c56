"""Rows of the tables without events: devices, processes, threads, contexts, streams, domains.

Only what an imported event refers to is copied. In particular the name of the process object is left
alone: it holds the command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from nsysconv.importers.nvprof_database import objects, tables
from nsysconv.importers.nvprof_database.survey import Found
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import has, integers

Row = dict[str, Any]

_DEVICE_COLUMNS = {
    "sm_count": "numMultiprocessors",
    "compute_major": "computeCapabilityMajor",
    "compute_minor": "computeCapabilityMinor",
    "memory_bytes": "globalMemorySize",
    "max_warps_per_sm": "maxWarpsPerMultiprocessor",
    "max_blocks_per_sm": "maxBlocksPerMultiprocessor",
    "max_registers_per_sm": "maxRegistersPerMultiprocessor",
    "max_shared_bytes_per_sm": "maxSharedMemoryPerMultiprocessor",
}
_KILO = 1000
_BANDWIDTHS = range(1 << 40)
_AT_ONCE = 1000
_UUID_BYTES = 16
# What launchers' options put in place of the command line: `--process-name "MPI Rank %q{…}"`.
_RANK = re.compile(r"(?:MPI )?Rank (\d{1,9})", re.I)


def texts(probe: Probe, wanted: Iterable[int]) -> dict[int, str]:
    """A few texts of the string table."""
    found: dict[int, str] = {}
    ids = sorted(set(wanted))
    for low in range(0, len(ids), _AT_ONCE):
        listed = ", ".join(map(str, ids[low : low + _AT_ONCE]))
        rows = probe.select(f"SELECT _id_, value FROM StringTable WHERE _id_ IN ({listed})")
        found.update({text_id: text for text_id, text in rows if isinstance(text, str)})
    return found


def devices(probe: Probe, found: Found) -> list[Row]:
    """Devices that ran GPU operations, by the process's own numbers, and what they are."""
    wanted = {
        **_DEVICE_COLUMNS,
        "ordinal": "id",
        "name": "name",
        "bandwidth": "globalMemoryBandwidth",
    }
    uuids = _uuids(probe)
    known: dict[int, Row] = {}
    for row in integers(probe, tables.DEVICE, wanted):
        if row["ordinal"] is not None:
            known.setdefault(row["ordinal"], row)
    names = texts(probe, (row["name"] for row in known.values() if row["name"]))
    rows = []
    for ordinal in sorted(found.ordinals):
        row = known.get(ordinal, {})
        # Stored in kB/s.
        bandwidth = row.get("bandwidth")
        rows.append(
            {
                **{name: row.get(name) for name in _DEVICE_COLUMNS},
                "device_id": ordinal,
                "ordinal": ordinal,
                "name": names.get(row.get("name", 0)),
                "uuid": uuids.get(ordinal),
                "memory_bandwidth_bytes_per_s": bandwidth * _KILO
                if bandwidth and bandwidth in _BANDWIDTHS
                else None,
            }
        )
    return rows


def _uuids(probe: Probe) -> dict[int, str]:
    if not has(probe, tables.DEVICE, "id", "uuid"):
        return {}
    return {
        ordinal: str(UUID(bytes=uuid))
        for ordinal, uuid in probe.select(f"SELECT id, uuid FROM {tables.DEVICE}")
        if isinstance(ordinal, int)
        and isinstance(uuid, bytes)
        and len(uuid) == _UUID_BYTES
        and any(uuid)
    }


def named_objects(probe: Probe, kind: int, count: int) -> dict[tuple[int, ...], int]:
    """The first numbers of objects of a kind -> the id of the name that each was given."""
    if not has(probe, tables.OBJECT_NAME, "objectKind", "objectId", "name"):
        return {}
    sql = f"SELECT objectId, name FROM {tables.OBJECT_NAME} WHERE objectKind = {kind}"
    result = {}
    for blob, name_id in probe.select(sql):
        numbers = objects.numbers_of(blob, count) if isinstance(blob, bytes) else None
        if numbers is not None and isinstance(name_id, int) and name_id:
            result[numbers] = name_id
    return result


def ranks(probe: Probe, pids: set[int]) -> dict[int, int]:
    """pid -> rank, where the process was given its rank for a name. Of no other name is anything read."""
    named = named_objects(probe, objects.PROCESS, 1)
    found = texts(probe, named.values())
    return {
        pid: int(match.group(1))
        for (pid,), name_id in named.items()
        if pid in pids and (match := _RANK.fullmatch(found.get(name_id, "")))
    }


def processes(pids: set[int], rank_of: dict[int, int]) -> list[Row]:
    """Processes with events."""
    return [{"pid": pid, "name": None, "rank": rank_of.get(pid)} for pid in sorted(pids)]


def threads(probe: Probe, found: Found) -> list[Row]:
    """Threads with events, and the names that the program gave them."""
    named = named_objects(probe, objects.THREAD, 2)
    names = texts(probe, (named[thread] for thread in found.threads if thread in named))
    return [
        {"pid": pid, "tid": tid, "name": names.get(named.get((pid, tid), 0))}
        for pid, tid in sorted(found.threads)
    ]


def contexts(probe: Probe, pid: int | None, ordinals: set[int]) -> list[Row]:
    """Contexts of the file's only process, and the device each lives on."""
    wanted = {"context_id": "contextId", "ordinal": "deviceId", "null_stream_id": "nullStreamId"}
    result: dict[int, Row] = {}
    for row in integers(probe, tables.CONTEXT, wanted):
        if pid is not None and row["context_id"] is not None:
            ordinal = row.pop("ordinal")
            row["device_id"] = ordinal if ordinal in ordinals else None
            result.setdefault(row["context_id"], {"pid": pid, **row})
    return list(result.values())


def streams(probe: Probe, pid: int | None) -> list[Row]:
    """Streams of the file's only process."""
    wanted = {"context_id": "contextId", "stream_id": "streamId", "priority": "priority"}
    named = {numbers[1:]: n for numbers, n in named_objects(probe, objects.STREAM, 3).items()}
    names = texts(probe, named.values())
    result: dict[tuple[int, int], Row] = {}
    for row in integers(probe, tables.STREAM, wanted):
        key = (row["context_id"], row["stream_id"])
        if pid is not None and None not in key:
            row["name"] = names.get(named.get(key, 0))
            result.setdefault(key, {"pid": pid, **row})
    return list(result.values())


def domains(probe: Probe, found: Found) -> list[Row]:
    """Named domains of ranges: their number is the id of their name."""
    names = texts(probe, (domain for _, domain in found.domains))
    return [
        {"pid": pid, "domain_id": domain, "name": names[domain]}
        for pid, domain in sorted(found.domains)
        if domain in names
    ]
