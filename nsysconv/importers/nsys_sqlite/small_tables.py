"""Rows of the tables without events: processes, threads, contexts, streams, domains, names.

Only what an imported event refers to is copied; everything else in these tables is nobody's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from nsysconv.importers.nsys_sqlite import tables
from nsysconv.importers.nsys_sqlite.capture import Capture
from nsysconv.importers.nsys_sqlite.survey import Found
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import has, integers
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


Expression = sa.ColumnElement[Any]
Identity = tuple[Any, ...]

# Our column -> the export's, in TARGET_INFO_GPU (2021.5 and later) and in TARGET_INFO_CUDA_GPU (before).
_GPU_COLUMNS = {
    "name": "name",
    "bus_id": "busLocation",
    "uuid": "uuid",
    "sampled_as": "pwGpuId",
    "sm_count": "smCount",
    "compute_major": "computeMajor",
    "compute_minor": "computeMinor",
    "memory_bytes": "totalMemory",
    "memory_bandwidth_bytes_per_s": "memoryBandwidth",
    "max_warps_per_sm": "maxWarpsPerSm",
    "max_blocks_per_sm": "maxBlocksPerSm",
    "max_registers_per_sm": "maxRegistersPerSm",
    "max_shared_bytes_per_sm": "maxShmemPerSm",
}
_CUDA_GPU_COLUMNS = {
    "name": "name",
    "bus_id": "pciBusId",
    "sm_count": "numMultiprocessors",
    "compute_major": "computeCapabilityMajor",
    "compute_minor": "computeCapabilityMinor",
    "memory_bytes": "globalMemorySize",
    "max_warps_per_sm": "maxWarpsPerMultiprocessor",
    "max_blocks_per_sm": "maxBlocksPerMultiprocessor",
    "max_registers_per_sm": "maxRegistersPerMultiprocessor",
    "max_shared_bytes_per_sm": "maxSharedMemoryPerMultiprocessor",
}
_TEXT = ("name", "bus_id", "uuid")
# What is known of a GPU for telling which it is, and is no column of ours.
_OWN = ("key", "gpu_id", "sampled_as")


@dataclass(frozen=True)
class Devices:
    """The devices of a profile: rows for `device`, and the number of each (pid, ordinal).

    `sampled`: the number of each GPU whose metrics were sampled, by the number it has there.
    """

    rows: tuple[dict[str, Any], ...]
    numbers: dict[tuple[int | None, int], int]
    unnamed: int
    sampled: dict[int, int]

    def expression(self) -> Callable[[Expression, Expression], Expression]:
        """(pid, ordinal) as SQL expressions -> device_id."""
        by_ordinal: dict[int, set[int]] = {}
        for (_, ordinal), number in self.numbers.items():
            by_ordinal.setdefault(ordinal, set()).add(number)
        if all(numbers == {ordinal} for ordinal, numbers in by_ordinal.items()):
            return lambda pid, ordinal: ordinal
        return self._by_process

    def _by_process(self, pid: Expression, ordinal: Expression) -> Expression:
        # One flat CASE: hundreds of processes stay below SQLite's limit on nesting.
        whens: list[tuple[Any, Any]] = [
            (
                (ordinal == o) if p is None else (pid == p) & (ordinal == o),
                sa.literal_column(str(number)),
            )
            for (p, o), number in sorted(
                self.numbers.items(), key=lambda i: (i[0][0] is None, i[1])
            )
        ]
        return sa.case(*whens)


def find(
    probe: Probe,
    ordinals: set[tuple[int | None, int]],
    op_ordinals: set[tuple[int | None, int]],
    sampled: Iterable[int] = (),
) -> Devices:
    """Numbers the devices behind the (pid, ordinal) pairs of a file's events, those at work first.

    Pairs that the file ties to one GPU (same UUID, or same bus id where there is none) share a number;
    so do all of one process's or, on a machine with one GPU, everybody's. Other pairs of several
    processes stay apart. GPUs that were `sampled` and that no pair is known to mean come last.
    """
    gpus = _gpus(probe)
    tied = _tied(probe, gpus)
    whole_machine = gpus[0] if len(gpus) == 1 else None
    # Whichever GPU an ordinal means, it has what all of them have: often the product's name.
    shared = (
        {
            k: v
            for k, v in gpus[0].items()
            if k not in ("uuid", "bus_id", *_OWN) and all(gpu.get(k) == v for gpu in gpus)
        }
        if gpus
        else {}
    )
    pids = {pid for pid, _ in ordinals if pid is not None}
    # Rows that do not name their process belong to the only one, where there is only one.
    only = next(iter(pids)) if len(pids) == 1 else None
    identities: dict[tuple[int | None, int], Identity] = {}
    facts: dict[Identity, dict[str, Any]] = {}
    for pid, ordinal in ordinals:
        owner = only if pid is None else pid
        gpu = tied.get((owner, ordinal)) if owner is not None else None
        if gpu is None and not tied and whole_machine is not None and ordinal == 0:
            gpu = whole_machine
        if gpu is not None:
            identity: Identity = _identity(gpu)
        else:
            identity = ("ordinal", None if len(pids) <= 1 else owner, ordinal)
        identities[pid, ordinal] = identity
        facts.setdefault(identity, gpu or shared)
    at_work = {identities[pair] for pair in op_ordinals}
    devices = _numbered(identities, facts, len(pids), at_work)
    known = {identities[pair]: number for pair, number in devices.numbers.items()}
    return _with_sampled(devices, known, gpus, sorted(sampled))


def _identity(gpu: dict[str, Any]) -> Identity:
    return ("gpu", gpu.get("uuid") or gpu.get("bus_id") or gpu["key"])


def _with_sampled(
    devices: Devices, known: dict[Identity, int], gpus: list[dict[str, Any]], sampled: list[int]
) -> Devices:
    """The devices and those of them, or beside them, that were sampled."""
    rows, numbers = list(devices.rows), {}
    for sampled_as in sampled:
        # Before the profiler's library numbered GPUs for itself, the export's own number was used.
        gpu = next((g for g in gpus if g.get("sampled_as", g.get("gpu_id")) == sampled_as), None)
        identity = ("sampled", sampled_as) if gpu is None else _identity(gpu)
        if identity not in known:
            known[identity] = max((row["device_id"] for row in rows), default=-1) + 1
            rows.append({"device_id": known[identity], **_described(gpu or {})})
        numbers[sampled_as] = known[identity]
    return replace(devices, rows=tuple(rows), sampled=numbers)


def _described(gpu: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in gpu.items() if k not in _OWN}


def _numbered(
    identities: dict[tuple[int | None, int], Identity],
    facts: dict[Identity, dict[str, Any]],
    process_count: int,
    at_work: set[Identity],
) -> Devices:
    users: dict[Identity, list[tuple[int | None, int]]] = {}
    for pair, identity in identities.items():
        users.setdefault(identity, []).append(pair)

    def place(identity: Identity) -> tuple[Any, ...]:
        lowest = min((ordinal, pid or 0) for pid, ordinal in users[identity])
        return (identity not in at_work, str(facts[identity].get("bus_id") or ""), *lowest)

    ordered = sorted(users, key=place)
    # Where ordinals are unambiguous they are the numbers: what people know from nvidia-smi and nsys.
    plain = {i: {ordinal for _, ordinal in users[i]} for i in ordered}
    unambiguous = all(len(o) == 1 for o in plain.values()) and len(
        {next(iter(o)) for o in plain.values()}
    ) == len(ordered)
    numbers = {i: next(iter(plain[i])) if unambiguous else n for n, i in enumerate(ordered)}
    rows = []
    for identity in sorted(ordered, key=lambda i: numbers[i]):
        pairs = users[identity]
        own = {pid for pid, _ in pairs}
        rows.append(
            {
                "device_id": numbers[identity],
                "ordinal": next(iter(plain[identity])) if len(plain[identity]) == 1 else None,
                "pid": next(iter(own)) if process_count > 1 and len(own) == 1 else None,
                **_described(facts[identity]),
            }
        )
    unnamed = sum(not facts[identity].get("name") for identity in at_work)
    return Devices(tuple(rows), {pair: numbers[i] for pair, i in identities.items()}, unnamed, {})


def _gpus(probe: Probe) -> list[dict[str, Any]]:
    """The GPUs of the machine with our columns, `gpu_id` the export's number of each."""
    if "TARGET_INFO_GPU" in probe.tables:
        id_column = "id" if "id" in probe.tables["TARGET_INFO_GPU"].columns else "deviceId"
        rows = _rows(probe, "TARGET_INFO_GPU", {**_GPU_COLUMNS, "gpu_id": id_column})
    else:
        rows = _rows(probe, "TARGET_INFO_CUDA_GPU", {**_CUDA_GPU_COLUMNS, "gpu_id": "deviceId"})
    gpus: dict[Any, dict[str, Any]] = {}
    for number, row in enumerate(rows):
        identity = row.get("uuid") or row.get("bus_id") or number
        gpus.setdefault(identity, {**row, "key": number})
    return list(gpus.values())


def _tied(probe: Probe, gpus: list[dict[str, Any]]) -> dict[tuple[int, int], dict[str, Any]]:
    """(pid, ordinal) -> GPU, where the export says so."""
    result: dict[tuple[int, int], dict[str, Any]] = {}
    by_id = {gpu.get("gpu_id"): gpu for gpu in gpus}
    wanted = {
        "pid": "pid",
        "ordinal": "cudaId",
        "gpu_id": "gpuId",
        "uuid": "uuid",
        "sm_count": "numMultiprocessors",
    }
    for row in _rows(probe, "TARGET_INFO_CUDA_DEVICE", wanted):
        gpu = by_id.get(row.get("gpu_id"), {"key": ("cuda", row.get("gpu_id"))})
        own = {k: row[k] for k in ("uuid", "sm_count") if row.get(k)}
        if isinstance(row.get("pid"), int) and isinstance(row.get("ordinal"), int):
            result[row["pid"], row["ordinal"]] = {**gpu, **own}
    wanted = {"pid": "pid", "ordinal": "deviceId", "bus_id": "pciBusId"}
    for row in _rows(probe, "TARGET_INFO_CUDA_GPU", wanted):
        same = [g for g in gpus if g.get("bus_id") == row.get("bus_id")]
        if same and isinstance(row.get("pid"), int) and isinstance(row.get("ordinal"), int):
            result[row["pid"], row["ordinal"]] = same[0]
    return result


def _rows(probe: Probe, table: str, wanted: dict[str, str]) -> list[dict[str, Any]]:
    """A small table's rows with our column names; absent and wrongly typed values are left out."""
    if table not in probe.tables:
        return []
    present = {
        ours: theirs for ours, theirs in wanted.items() if theirs in probe.tables[table].columns
    }
    if not present:
        return []
    result = []
    for values in probe.select(f"SELECT {', '.join(present.values())} FROM {table}"):
        row = dict(zip(present, values, strict=True))
        if isinstance(row.get("bus_id"), int):
            row["bus_id"] = str(row["bus_id"])  # before 2021 the bus was a plain number
        result.append(
            {
                k: v
                for k, v in row.items()
                if (k in _TEXT and isinstance(v, str) and v)
                or (k not in _TEXT and isinstance(v, int))
            }
        )
    return result


_HIGHEST = -(1 << 30)


def base(probe: Probe) -> int:
    """The number from which to count down: below every id of the file's strings."""
    rows = probe.select("SELECT min(id) FROM StringIds")
    lowest = rows[0][0] if rows and isinstance(rows[0][0], int) else 0
    return min(_HIGHEST, lowest - 1)


def construct(base: int, place: int) -> int:
    """The construct of OpenACC at this place of the list of all."""
    return base - 2 * place


def metric(base: int, place: int) -> int:
    """The metric at this place of the list of all."""
    return base - 2 * place - 1
