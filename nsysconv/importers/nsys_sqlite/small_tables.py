"""Rows of the tables without events: devices, processes, threads, contexts, streams, domains, names.

Only what an imported event refers to is copied; everything else in these tables is nobody's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from nsysconv.importers.nsys_sqlite import gpu_tables, tables
from nsysconv.importers.nsys_sqlite.capture import Capture
from nsysconv.importers.nsys_sqlite.columns import thread_of
from nsysconv.importers.nsys_sqlite.survey import Identities
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import (
    Expression,
    has_columns,
    integer_rows,
    texts_by_id,
)
from nsysconv.importers.sqlite_mapping import CUPTI_DEVICE_COLUMNS
from nsysconv.names import plain_api_name

Row = dict[str, Any]

_NAMES_AT_ONCE = 50_000


# -- processes and threads


def process_rows(
    probe: Probe, ids: Identities, ranks: Mapping[int, Row], capture: Capture
) -> list[Row]:
    """Return processes with events: file name of their program, rank, host and job."""
    names = {}
    if has_columns(probe, "PROCESSES", "globalPid", "name"):
        for global_pid, name in probe.select("SELECT globalPid, name FROM PROCESSES"):
            if isinstance(global_pid, int) and isinstance(name, str):
                names[thread_of(global_pid)[0]] = _file_name(name)
    return [
        {
            "pid": pid,
            "name": names.get(pid),
            "host": capture.attributes.host,
            "job": capture.launch.job,
            "rank": None,
            "local_rank": None,
            "world_size": None,
            **ranks.get(pid, {}),
        }
        for pid in sorted(ids.pids)
    ]


def _file_name(path: str) -> str:
    # The folders of a path say who the user is; where on the machine a file lay is nobody's business.
    return path.replace("\\", "/").rsplit("/", 1)[-1]


def thread_rows(probe: Probe, ids: Identities) -> list[Row]:
    """Return threads with events; a name given through NVTX wins over the system's."""
    names: dict[tuple[int, int], str] = {}
    columns = {"global_tid": "globalTid", "priority": "priority"}
    priorities = {
        thread_of(row["global_tid"]): row["priority"]
        for row in integer_rows(probe, "ThreadNames", columns)
        if row["global_tid"] is not None
    }
    if has_columns(probe, "ThreadNames", "globalTid", "nameId"):
        sql = "SELECT t.globalTid, s.value FROM ThreadNames t JOIN StringIds s ON s.id = t.nameId"
        names.update(_by_thread(probe.select(sql)))
    names.update(_by_thread(_nvtx_texts(probe, ids, "globalTid", tables.THREAD_NAME)))
    return [
        {
            "pid": pid,
            "tid": tid,
            "name": names.get((pid, tid)),
            "priority": priorities.get((pid, tid)),
        }
        for pid, tid in sorted(ids.threads)
    ]


def _by_thread(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[tuple[int, int], str]]:
    for global_tid, name in rows:
        if isinstance(global_tid, int) and isinstance(name, str):
            yield thread_of(global_tid), name


def _nvtx_texts(
    probe: Probe, ids: Identities, columns: str, event_type: int
) -> list[tuple[Any, ...]]:
    """Return these columns and the text of all NVTX rows of a type, registered or not."""
    # The survey has seen all types: no scan of millions of ranges for one that no row has.
    if event_type not in ids.range_kinds or not has_columns(
        probe, tables.NVTX, "globalTid", "text"
    ):
        return []
    present = probe.tables[tables.NVTX].columns
    selected = ", ".join(c if c in present else "NULL" for c in columns.split(", "))
    registered = (
        "(SELECT value FROM StringIds WHERE id = textId)" if "textId" in present else "NULL"
    )
    return probe.select(
        f"SELECT {selected}, coalesce({registered}, text) FROM {tables.NVTX} "
        f"WHERE eventType = {event_type}"
    )


# -- domains and categories of ranges


def domain_rows(probe: Probe, ids: Identities) -> list[Row]:
    """Return named domains, per process."""
    rows: dict[tuple[int, int], Row] = {}
    for global_tid, domain_id, name in _nvtx_texts(
        probe, ids, "globalTid, domainId", tables.DOMAIN
    ):
        if isinstance(global_tid, int) and isinstance(domain_id, int) and isinstance(name, str):
            pid = thread_of(global_tid)[0]
            if pid in ids.pids:
                row = {"pid": pid, "domain_id": domain_id, "name": name}
                rows.setdefault((pid, domain_id), row)
    return list(rows.values())


def category_rows(probe: Probe, ids: Identities) -> list[Row]:
    """Return named categories, per process and domain."""
    rows: dict[tuple[int, int, int], Row] = {}
    for global_tid, domain, category_id, name in _nvtx_texts(
        probe, ids, "globalTid, domainId, category", tables.CATEGORY
    ):
        if isinstance(global_tid, int) and isinstance(category_id, int) and isinstance(name, str):
            pid = thread_of(global_tid)[0]
            domain_id = domain if isinstance(domain, int) else 0
            if pid in ids.pids:
                row = {
                    "pid": pid,
                    "domain_id": domain_id,
                    "category_id": category_id,
                    "name": name,
                }
                rows.setdefault((pid, domain_id, category_id), row)
    return list(rows.values())


# -- contexts and streams


def context_rows(probe: Probe, ids: Identities, devices: Devices) -> list[Row]:
    """Return contexts of processes with events, and the device of each."""
    columns = {
        "pid": "processId",
        "context_id": "contextId",
        "ordinal": "deviceId",
        "null_stream_id": "nullStreamId",
        "parent_context_id": "parentContextId",
        "is_green": "isGreenContext",
    }
    older = {**columns, "null_stream_id": "streamId"}
    rows: dict[tuple[int, int], Row] = {}
    for row in integer_rows(probe, "TARGET_INFO_CUDA_CONTEXT_INFO", columns) or integer_rows(
        probe, "TARGET_INFO_CUDA_NULL_STREAM", older
    ):
        if row["pid"] in ids.pids and row["context_id"] is not None:
            ordinal = row.pop("ordinal")
            if ordinal is not None:
                row["device_id"] = devices.numbers.get(
                    (row["pid"], ordinal), devices.numbers.get((None, ordinal))
                )
            row["parent_context_id"] = row["parent_context_id"] or None
            rows.setdefault((row["pid"], row["context_id"]), row)
    return list(rows.values())


def stream_rows(probe: Probe, ids: Identities) -> list[Row]:
    """Return streams of processes with events."""
    columns = {
        "pid": "processId",
        "context_id": "contextId",
        "stream_id": "streamId",
        "priority": "priority",
    }
    names = _stream_names(probe)
    rows: dict[tuple[int, int, int], Row] = {}
    for row in integer_rows(probe, "TARGET_INFO_CUDA_STREAM", columns):
        key = (row["pid"], row["context_id"], row["stream_id"])
        if row["pid"] in ids.pids and None not in key:
            if (row["priority"] or 0) >= 1 << 31:
                row["priority"] -= 1 << 32  # a negative number that was stored without its sign
            row["name"] = names.get((row["pid"], row["stream_id"]))
            rows.setdefault(key, row)
    return list(rows.values())


def _stream_names(probe: Probe) -> dict[Any, str]:
    table = "TARGET_INFO_NVTX_CUDA_STREAM"
    if not has_columns(probe, table, "name"):
        return {}
    rows = integer_rows(probe, table, {"pid": "processId", "stream_id": "streamId"})
    texts = probe.select(f"SELECT name FROM {table}")
    return {
        (row["pid"], row["stream_id"]): text
        for row, (text,) in zip(rows, texts, strict=True)
        if isinstance(text, str)
    }


# -- devices
#
# An event's `deviceId` is the CUDA ordinal inside its process. Two processes' ordinal 0 can be two GPUs
# (CUDA_VISIBLE_DEVICES), so an ordinal is tied to a GPU only if the export says so.

_Identity = tuple[Any, ...]
_Pair = tuple[int | None, int]
"""(pid, CUDA ordinal)."""

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
_CUDA_GPU_COLUMNS = {"name": "name", "bus_id": "pciBusId", **CUPTI_DEVICE_COLUMNS}
_TEXT_COLUMNS = ("name", "bus_id", "uuid")
# What identifies a GPU and is no column of ours.
_KEY_COLUMNS = ("key", "gpu_id", "sampled_as")


@dataclass(frozen=True)
class Devices:
    """The devices of a profile: rows for `device`, and the number of each (pid, ordinal).

    `unnamed`: how many devices at work have no name. `sampled`: the number of each GPU whose metrics were
    sampled, by the number it has there.
    """

    rows: tuple[Row, ...]
    numbers: dict[_Pair, int]
    unnamed: int
    sampled: dict[int, int]

    def expression(self) -> Callable[[Expression, Expression], Expression]:
        """Return a function from (pid, ordinal) as SQL expressions to device_id."""
        by_ordinal: dict[int, set[int]] = {}
        for (_, ordinal), number in self.numbers.items():
            by_ordinal.setdefault(ordinal, set()).add(number)
        if all(numbers == {ordinal} for ordinal, numbers in by_ordinal.items()):
            return lambda pid, ordinal: ordinal
        return self._by_process

    def _by_process(self, pid: Expression, ordinal: Expression) -> Expression:
        # One flat CASE: hundreds of processes stay below SQLite's limit on nesting.
        ordered = sorted(self.numbers.items(), key=lambda item: (item[0][0] is None, item[1]))
        whens: list[tuple[Any, Any]] = [
            (
                (ordinal == o) if p is None else (pid == p) & (ordinal == o),
                sa.literal_column(str(number)),
            )
            for (p, o), number in ordered
        ]
        return sa.case(*whens)


def find_devices(probe: Probe, ids: Identities) -> Devices:
    """Give numbers to the devices behind the (pid, ordinal) pairs of a file's events, those at work
    first.

    Pairs that the file ties to one GPU (same UUID, or same bus id if there is none) share a number; so
    do all of one process or, on a machine with one GPU, of all processes. Other pairs of several
    processes stay apart. GPUs whose metrics were sampled and that no pair is known to mean come last.
    """
    gpus = _gpus(probe)
    tied = _tied_gpus(probe, gpus)
    pids = {pid for pid, _ in ids.ordinals if pid is not None}
    # Rows that do not name their process belong to the only one, if there is only one.
    only = next(iter(pids)) if len(pids) == 1 else None
    identities: dict[_Pair, _Identity] = {}
    described: dict[_Identity, Row] = {}
    common = _common_properties(gpus)
    for pid, ordinal in ids.ordinals:
        owner = only if pid is None else pid
        gpu = tied.get((owner, ordinal)) if owner is not None else None
        if gpu is None and not tied and len(gpus) == 1 and ordinal == 0:
            gpu = gpus[0]
        if gpu is not None:
            identity = _identity(gpu)
        else:
            identity = ("ordinal", None if len(pids) <= 1 else owner, ordinal)
        identities[pid, ordinal] = identity
        described.setdefault(identity, gpu or common)
    at_work = {identities[pair] for pair in ids.op_ordinals}
    devices = _numbered(identities, described, len(pids), at_work)
    known = {identities[pair]: number for pair, number in devices.numbers.items()}
    sampled = sorted({gpu_tables.sampled_gpu(type_id) for type_id, _ in ids.metrics})
    return _with_sampled(devices, known, gpus, sampled)


def _identity(gpu: Row) -> _Identity:
    return ("gpu", gpu.get("uuid") or gpu.get("bus_id") or gpu["key"])


def _common_properties(gpus: list[Row]) -> Row:
    # Whichever GPU an ordinal means, it has what all of them have: often the product's name.
    if not gpus:
        return {}
    return {
        name: value
        for name, value in gpus[0].items()
        if name not in ("uuid", "bus_id", *_KEY_COLUMNS)
        and all(gpu.get(name) == value for gpu in gpus)
    }


def _numbered(
    identities: dict[_Pair, _Identity],
    described: dict[_Identity, Row],
    process_count: int,
    at_work: set[_Identity],
) -> Devices:
    users: dict[_Identity, list[_Pair]] = {}
    for pair, identity in identities.items():
        users.setdefault(identity, []).append(pair)

    def rank(identity: _Identity) -> tuple[Any, ...]:
        lowest = min((ordinal, pid or 0) for pid, ordinal in users[identity])
        return (identity not in at_work, str(described[identity].get("bus_id") or ""), *lowest)

    ordered = sorted(users, key=rank)
    # If ordinals are unambiguous they are the numbers: people know them from nvidia-smi and nsys.
    ordinals = {i: {ordinal for _, ordinal in users[i]} for i in ordered}
    unambiguous = all(len(own) == 1 for own in ordinals.values()) and len(
        {next(iter(own)) for own in ordinals.values()}
    ) == len(ordered)
    numbers = {i: next(iter(ordinals[i])) if unambiguous else n for n, i in enumerate(ordered)}
    rows = []
    for identity in sorted(ordered, key=lambda i: numbers[i]):
        pids = {pid for pid, _ in users[identity]}
        own = ordinals[identity]
        rows.append(
            {
                "device_id": numbers[identity],
                "ordinal": next(iter(own)) if len(own) == 1 else None,
                "pid": next(iter(pids)) if process_count > 1 and len(pids) == 1 else None,
                **_our_columns(described[identity]),
            }
        )
    unnamed = sum(not described[identity].get("name") for identity in at_work)
    return Devices(tuple(rows), {pair: numbers[i] for pair, i in identities.items()}, unnamed, {})


def _with_sampled(
    devices: Devices, known: dict[_Identity, int], gpus: list[Row], sampled: list[int]
) -> Devices:
    rows, numbers = list(devices.rows), {}
    for sampled_as in sampled:
        # Before the profiler's library numbered GPUs for itself, the export's own number was used.
        gpu = next((g for g in gpus if g.get("sampled_as", g.get("gpu_id")) == sampled_as), None)
        identity = ("sampled", sampled_as) if gpu is None else _identity(gpu)
        if identity not in known:
            known[identity] = max((row["device_id"] for row in rows), default=-1) + 1
            rows.append({"device_id": known[identity], **_our_columns(gpu or {})})
        numbers[sampled_as] = known[identity]
    return replace(devices, rows=tuple(rows), sampled=numbers)


def _our_columns(gpu: Row) -> Row:
    return {name: value for name, value in gpu.items() if name not in _KEY_COLUMNS}


def _gpus(probe: Probe) -> list[Row]:
    # The GPUs of the machine with our columns; `gpu_id` is the export's number of each.
    if "TARGET_INFO_GPU" in probe.tables:
        id_column = "id" if "id" in probe.tables["TARGET_INFO_GPU"].columns else "deviceId"
        rows = _typed_rows(probe, "TARGET_INFO_GPU", {**_GPU_COLUMNS, "gpu_id": id_column})
    else:
        columns = {**_CUDA_GPU_COLUMNS, "gpu_id": "deviceId"}
        rows = _typed_rows(probe, "TARGET_INFO_CUDA_GPU", columns)
    gpus: dict[Any, Row] = {}
    for number, row in enumerate(rows):
        identity = row.get("uuid") or row.get("bus_id") or number
        gpus.setdefault(identity, {**row, "key": number})
    return list(gpus.values())


def _tied_gpus(probe: Probe, gpus: list[Row]) -> dict[tuple[int, int], Row]:
    # (pid, ordinal) -> GPU, as far as the export says so.
    tied: dict[tuple[int, int], Row] = {}
    by_id = {gpu.get("gpu_id"): gpu for gpu in gpus}
    columns = {
        "pid": "pid",
        "ordinal": "cudaId",
        "gpu_id": "gpuId",
        "uuid": "uuid",
        "sm_count": "numMultiprocessors",
    }
    for row in _typed_rows(probe, "TARGET_INFO_CUDA_DEVICE", columns):
        gpu = by_id.get(row.get("gpu_id"), {"key": ("cuda", row.get("gpu_id"))})
        own = {name: row[name] for name in ("uuid", "sm_count") if row.get(name)}
        if "pid" in row and "ordinal" in row:
            tied[row["pid"], row["ordinal"]] = {**gpu, **own}
    columns = {"pid": "pid", "ordinal": "deviceId", "bus_id": "pciBusId"}
    for row in _typed_rows(probe, "TARGET_INFO_CUDA_GPU", columns):
        same = [gpu for gpu in gpus if gpu.get("bus_id") == row.get("bus_id")]
        if same and "pid" in row and "ordinal" in row:
            tied[row["pid"], row["ordinal"]] = same[0]
    return tied


def _typed_rows(probe: Probe, table: str, columns: Mapping[str, str]) -> list[Row]:
    """Return a small table's rows under our names, without absent cells and those of a wrong type."""
    if table not in probe.tables:
        return []
    present = {
        ours: theirs for ours, theirs in columns.items() if theirs in probe.tables[table].columns
    }
    if not present:
        return []
    rows = []
    for values in probe.select(f"SELECT {', '.join(present.values())} FROM {table}"):
        row = dict(zip(present, values, strict=True))
        if isinstance(row.get("bus_id"), int):
            row["bus_id"] = str(row["bus_id"])  # before 2021 the bus was a plain number
        rows.append(
            {
                name: value
                for name, value in row.items()
                if (
                    isinstance(value, str) and value
                    if name in _TEXT_COLUMNS
                    else isinstance(value, int)
                )
            }
        )
    return rows


# -- names
#
# Names that are made here need ids that no row of the file refers to. The file's ids count up from 0;
# ours count down from far below, so that the -1 which some columns have for "none" is not among them.

_HIGHEST_MADE_ID = -(1 << 30)


def first_made_id(probe: Probe) -> int:
    """Return the id from which ours count down: below every id of the file's strings."""
    rows = probe.select("SELECT min(id) FROM StringIds")
    lowest = rows[0][0] if rows and isinstance(rows[0][0], int) else 0
    return min(_HIGHEST_MADE_ID, lowest - 1)


def construct_name_id(first: int, place: int) -> int:
    """Return the id of the OpenACC construct at this place of the list of all."""
    return first - 2 * place


def metric_name_id(first: int, place: int) -> int:
    """Return the id of the metric name at this place of the list of all."""
    return first - 2 * place - 1


def texts(probe: Probe, ids: Iterable[int]) -> dict[int, str]:
    """Return the texts of a few ids of the string table."""
    return texts_by_id(probe, "StringIds", "id", ids)


def ids_without_text(probe: Probe, ids: Iterable[int]) -> set[int]:
    """Return those of these ids under which the string table has no text."""
    missing = set(ids)
    ordered = sorted(missing)
    for low in range(0, len(ordered), _NAMES_AT_ONCE):
        some = ", ".join(map(str, ordered[low : low + _NAMES_AT_ONCE]))
        rows = probe.select(
            f"SELECT id FROM StringIds WHERE id IN ({some}) AND typeof(value) = 'text'"
        )
        missing.difference_update(row[0] for row in rows)
    return missing


def missing_full_names(probe: Probe) -> set[int]:
    """Return the full names of kernels none of whose names has a text."""
    present = probe.tables[gpu_tables.KERNEL].columns
    with_text = "(SELECT id FROM StringIds WHERE typeof(value) = 'text')"
    lacking = " AND ".join(
        f"coalesce({name} NOT IN {with_text}, 1)"
        for name in gpu_tables.NAMES_OF_KERNELS
        if name in present
    )
    full = "demangledName" if "demangledName" in present else "NULL"
    rows = probe.select(f"SELECT DISTINCT {full} FROM {gpu_tables.KERNEL} WHERE {lacking}")
    return {row[0] for row in rows}


def name_rows(
    probe: Probe, ids: Identities, missing: set[int], doubled: list[int]
) -> Iterator[list[Row]]:
    """Yield the names that imported rows refer to, in lists of bounded size.

    `missing` receives the ids without a text; `doubled` those with two, of which the first is kept.
    """
    rows: list[Row] = []
    missing.update(ids.name_ids)
    for name_id, text in probe.iterate("SELECT id, value FROM StringIds"):
        if name_id not in ids.name_ids or not isinstance(text, str):
            continue
        if name_id not in missing:
            doubled.append(name_id)
            continue
        missing.discard(name_id)
        if name_id in ids.path_ids:
            text = _file_name(text)
        plain = plain_api_name(text) if name_id in ids.api_name_ids else None
        rows.append({"id": name_id, "text": text, "plain": plain})
        if len(rows) == _NAMES_AT_ONCE:
            yield rows
            rows = []
    if rows:
        yield rows
