"""Rows of the tables without events: processes, threads, contexts, streams, domains, names.

Only what an imported event refers to is copied; everything else in these tables is nobody's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from nsysconv.importers.nsys_sqlite import tables
from nsysconv.importers.nsys_sqlite.capture import Capture
from nsysconv.importers.nsys_sqlite.devices import Devices
from nsysconv.importers.nsys_sqlite.survey import Found
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_source import has, integers
from nsysconv.names import plain_api_name

Row = dict[str, Any]

_NAMES_AT_ONCE = 50_000
_CATEGORY, _THREAD_NAME, _DOMAIN = 33, 39, 75


def processes(probe: Probe, found: Found, ranks: dict[int, Row], capture: Capture) -> list[Row]:
    """Processes with events, their program's file name, rank, host and job."""
    names = {}
    if has(probe, "PROCESSES", "globalPid", "name"):
        for global_pid, name in probe.select("SELECT globalPid, name FROM PROCESSES"):
            if isinstance(global_pid, int) and isinstance(name, str):
                # A path tells of users and folders; the file's name is what the program is called.
                names[global_pid >> 24 & 0xFFFFFF] = file_name(name)
    host = capture.attributes.host
    return [
        {
            "pid": pid,
            "name": names.get(pid),
            "host": host,
            "job": capture.launch.job,
            "rank": None,
            "local_rank": None,
            "world_size": None,
            **ranks.get(pid, {}),
        }
        for pid in sorted(found.pids)
    ]


def file_name(path: str) -> str:
    """A path without its folders: where on the machine a file lay is nobody's business."""
    return path.replace("\\", "/").rsplit("/", 1)[-1]


def threads(probe: Probe, found: Found) -> list[Row]:
    """Threads with events; a name given through NVTX wins over the system's."""
    names: dict[tuple[int, int], str] = {}
    priorities = {
        (row["global_tid"] >> 24 & 0xFFFFFF, row["global_tid"] & 0xFFFFFF): row["priority"]
        for row in integers(
            probe, "ThreadNames", {"global_tid": "globalTid", "priority": "priority"}
        )
        if row["global_tid"] is not None
    }
    if has(probe, "ThreadNames", "globalTid", "nameId"):
        sql = "SELECT t.globalTid, s.value FROM ThreadNames t JOIN StringIds s ON s.id = t.nameId"
        names.update(_by_thread(probe.select(sql)))
    names.update(_by_thread(_nvtx_texts(probe, found, "globalTid", _THREAD_NAME)))
    return [
        {
            "pid": pid,
            "tid": tid,
            "name": names.get((pid, tid)),
            "priority": priorities.get((pid, tid)),
        }
        for pid, tid in sorted(found.threads)
    ]


def _by_thread(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[tuple[int, int], str]]:
    for global_tid, name in rows:
        if isinstance(global_tid, int) and isinstance(name, str):
            yield (global_tid >> 24 & 0xFFFFFF, global_tid & 0xFFFFFF), name


def _nvtx_texts(probe: Probe, found: Found, columns: str, event_type: int) -> list[tuple[Any, ...]]:
    """Return these columns and the text of all NVTX rows of a type, registered or not."""
    # The survey has seen all types: no scan of millions of ranges for one that no row has.
    if event_type not in found.range_kinds or not has(probe, "NVTX_EVENTS", "globalTid", "text"):
        return []
    present = probe.tables["NVTX_EVENTS"].columns
    wanted = ", ".join(c if c in present else "NULL" for c in columns.split(", "))
    registered = (
        "(SELECT value FROM StringIds WHERE id = textId)" if "textId" in present else "NULL"
    )
    return probe.select(
        f"SELECT {wanted}, coalesce({registered}, text) FROM NVTX_EVENTS "
        f"WHERE eventType = {event_type}"
    )


def contexts(probe: Probe, found: Found, devices: Devices) -> list[Row]:
    """Contexts of processes with events, and the device each lives on."""
    wanted = {
        "pid": "processId",
        "context_id": "contextId",
        "ordinal": "deviceId",
        "null_stream_id": "nullStreamId",
        "parent_context_id": "parentContextId",
        "is_green": "isGreenContext",
    }
    rows = integers(probe, "TARGET_INFO_CUDA_CONTEXT_INFO", wanted) or integers(
        probe, "TARGET_INFO_CUDA_NULL_STREAM", {**wanted, "null_stream_id": "streamId"}
    )
    result: dict[tuple[int, int], Row] = {}
    for row in rows:
        if row.get("pid") in found.pids and row.get("context_id") is not None:
            ordinal = row.pop("ordinal", None)
            if ordinal is not None:
                row["device_id"] = devices.numbers.get(
                    (row["pid"], ordinal), devices.numbers.get((None, ordinal))
                )
            row["parent_context_id"] = row.get("parent_context_id") or None
            result.setdefault((row["pid"], row["context_id"]), row)
    return list(result.values())


def streams(probe: Probe, found: Found) -> list[Row]:
    """Streams of processes with events."""
    wanted = {
        "pid": "processId",
        "context_id": "contextId",
        "stream_id": "streamId",
        "priority": "priority",
    }
    names: dict[Any, str] = {}
    if has(probe, "TARGET_INFO_NVTX_CUDA_STREAM", "name"):
        names = _stream_names(probe)
    result: dict[tuple[int, int, int], Row] = {}
    for row in integers(probe, "TARGET_INFO_CUDA_STREAM", wanted):
        if row.get("pid") in found.pids and None not in (
            row.get("context_id"),
            row.get("stream_id"),
        ):
            if (row["priority"] or 0) >= 1 << 31:
                row["priority"] -= 1 << 32  # a negative number that was stored without its sign
            row["name"] = names.get((row["pid"], row["stream_id"]))
            result.setdefault((row["pid"], row["context_id"], row["stream_id"]), row)
    return list(result.values())


def _stream_names(probe: Probe) -> dict[Any, str]:
    rows = integers(
        probe, "TARGET_INFO_NVTX_CUDA_STREAM", {"pid": "processId", "stream_id": "streamId"}
    )
    texts = probe.select("SELECT name FROM TARGET_INFO_NVTX_CUDA_STREAM")
    return {
        (row.get("pid"), row.get("stream_id")): text
        for row, (text,) in zip(rows, texts, strict=True)
        if isinstance(text, str)
    }


def domains(probe: Probe, found: Found) -> list[Row]:
    """Named domains of ranges, per process."""
    result: dict[tuple[int, int], Row] = {}
    rows = _nvtx_texts(probe, found, "globalTid, domainId", _DOMAIN)
    for global_tid, domain_id, name in rows:
        if isinstance(global_tid, int) and isinstance(domain_id, int) and isinstance(name, str):
            pid = global_tid >> 24 & 0xFFFFFF
            if pid in found.pids:
                result.setdefault(
                    (pid, domain_id), {"pid": pid, "domain_id": domain_id, "name": name}
                )
    return list(result.values())


def categories(probe: Probe, found: Found) -> list[Row]:
    """Named categories of ranges, per process and domain."""
    result: dict[tuple[int, int, int], Row] = {}
    rows = _nvtx_texts(probe, found, "globalTid, domainId, category", _CATEGORY)
    for global_tid, domain_id, category_id, name in rows:
        if isinstance(global_tid, int) and isinstance(category_id, int) and isinstance(name, str):
            pid = global_tid >> 24 & 0xFFFFFF
            key = (pid, domain_id if isinstance(domain_id, int) else 0, category_id)
            if pid in found.pids:
                result.setdefault(
                    key, {"pid": pid, "domain_id": key[1], "category_id": category_id, "name": name}
                )
    return list(result.values())


def texts(probe: Probe, wanted: Iterable[int]) -> dict[int, str]:
    """A few texts of the string table."""
    found: dict[int, str] = {}
    ids = sorted(set(wanted))
    for low in range(0, len(ids), _NAMES_AT_ONCE):
        listed = ", ".join(map(str, ids[low : low + _NAMES_AT_ONCE]))
        rows = probe.select(f"SELECT id, value FROM StringIds WHERE id IN ({listed})")
        found.update({text_id: text for text_id, text in rows if isinstance(text, str)})
    return found


def textless(probe: Probe, wanted: Iterable[int]) -> set[int]:
    """Those of these ids under which the string table has no text."""
    missing = set(wanted)
    ids = sorted(missing)
    for low in range(0, len(ids), _NAMES_AT_ONCE):
        listed = ", ".join(map(str, ids[low : low + _NAMES_AT_ONCE]))
        rows = probe.select(
            f"SELECT id FROM StringIds WHERE id IN ({listed}) AND typeof(value) = 'text'"
        )
        missing.difference_update(row[0] for row in rows)
    return missing


def shown_without_text(probe: Probe) -> set[int]:
    """The full names of kernels none of whose names has a text."""
    present = probe.tables[tables.KERNEL].columns
    texts = "(SELECT id FROM StringIds WHERE typeof(value) = 'text')"
    lacking = " AND ".join(
        f"coalesce({name} NOT IN {texts}, 1)" for name in tables.NAMES_OF_KERNELS if name in present
    )
    full = "demangledName" if "demangledName" in present else "NULL"
    rows = probe.select(f"SELECT DISTINCT {full} FROM {tables.KERNEL} WHERE {lacking}")
    return {row[0] for row in rows}


def names(probe: Probe, found: Found, missing: set[int], doubled: list[int]) -> Iterator[list[Row]]:
    """The texts of the names that imported rows refer to, in pieces of bounded size.

    `missing` gets the ids without text. Ids that have two keep the first and are added to `doubled`.
    """
    rows: list[Row] = []
    missing.update(found.name_ids)
    for name_id, text in probe.iterate("SELECT id, value FROM StringIds"):
        if name_id not in found.name_ids or not isinstance(text, str):
            continue
        if name_id not in missing:
            doubled.append(name_id)
            continue
        missing.discard(name_id)
        if name_id in found.path_ids:
            text = file_name(text)
        plain = plain_api_name(text) if name_id in found.api_name_ids else None
        rows.append({"id": name_id, "text": text, "plain": plain})
        if len(rows) == _NAMES_AT_ONCE:
            yield rows
            rows = []
    if rows:
        yield rows
