"""Rows of the tables without events: devices, processes, threads, contexts, streams, domains, names.

Only what an imported event refers to is copied; everything else in these tables is nobody's business.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from nsysconv import codes
from nsysconv.importers.nsys_sqlite import export_context, tables
from nsysconv.importers.nsys_sqlite.capture import Capture
from nsysconv.importers.nsys_sqlite.survey import Identities
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import (
    Expression,
    as_whole_number,
    first_rows,
    has_columns,
    integer_rows,
    only,
)
from nsysconv.importers.sqlite_mapping import CUPTI_DEVICE_COLUMNS, CUPTI_RATES, in_base_units
from nsysconv.names import plain_api_name

Row = dict[str, Any]


# -- processes and threads


def process_rows(
    probe: Probe, ids: Identities, ranks: Mapping[int, Row], capture: Capture
) -> list[Row]:
    """Return processes with events: file name of their program, rank, host and job."""
    names = {}
    if has_columns(probe, "PROCESSES", "globalPid", "name"):
        named = _by_thread(probe.select("SELECT globalPid, name FROM PROCESSES"))
        names = {pid: _file_name(name) for (pid, _), _, name in named}
    return [
        {
            "pid": pid,
            "name": names.get(pid),
            "host": capture.attributes.host,
            "job": capture.launch.job,
            **dict.fromkeys(("rank", "local_rank", "world_size")),
            **ranks.get(pid, {}),
        }
        for pid in sorted(ids.pids)
    ]


def _file_name(path: str) -> str:
    # The folders of a path say who the user is; where on the machine a file lay is nobody's business.
    return path.replace("\\", "/").rsplit("/", 1)[-1]


def thread_rows(probe: Probe, ids: Identities) -> list[Row]:
    """Return threads with events; a name given through NVTX wins over the system's."""
    columns = {"global_tid": "globalTid", "priority": "priority"}
    priorities = {
        export_context.thread_of(row["global_tid"]): row["priority"]
        for row in integer_rows(probe, "ThreadNames", columns)
        if row["global_tid"] is not None
    }
    names: dict[tuple[int, int], str] = {}
    if has_columns(probe, "ThreadNames", "globalTid", "nameId"):
        sql = "SELECT t.globalTid, s.value FROM ThreadNames t JOIN StringIds s ON s.id = t.nameId"
        names.update((thread, name) for thread, (), name in _by_thread(probe.select(sql)))
    given = _nvtx_names(probe, ids, tables.THREAD_NAME, ())
    names.update((thread, name) for thread, (), name in given)
    return [
        {
            "pid": pid,
            "tid": tid,
            "name": names.get((pid, tid)),
            "priority": priorities.get((pid, tid)),
        }
        for pid, tid in sorted(ids.threads)
    ]


_NamedThread = tuple[tuple[int, int], list[int | None], str]


def _by_thread(rows: Iterable[tuple[Any, ...]]) -> Iterator[_NamedThread]:
    # A row holds a global thread id, numbers and a name. Rows without a valid thread id or name are
    # left out.
    for global_tid, *numbers, name in rows:
        if isinstance(global_tid, int) and isinstance(name, str):
            whole = [number if isinstance(number, int) else None for number in numbers]
            yield export_context.thread_of(global_tid), whole, name


def _nvtx_names(
    probe: Probe, ids: Identities, event_type: int, columns: Iterable[str]
) -> Iterator[_NamedThread]:
    # The survey has seen all types: no scan of millions of ranges for one that no row has.
    if event_type not in ids.range_kinds or not has_columns(
        probe, tables.NVTX, "globalTid", "text"
    ):
        return
    present = probe.tables[tables.NVTX].columns
    selected = ", ".join(["globalTid", *(c if c in present else "NULL" for c in columns)])
    registered = (
        "(SELECT value FROM StringIds WHERE id = textId)" if "textId" in present else "NULL"
    )
    yield from _by_thread(
        probe.select(
            f"SELECT {selected}, coalesce({registered}, text) FROM {tables.NVTX} "
            f"WHERE eventType = {event_type}"
        )
    )


# -- domains and categories of ranges


def domain_rows(probe: Probe, ids: Identities) -> list[Row]:
    """Return named domains, per process."""
    return _rows_named_by_nvtx(probe, ids, tables.DOMAIN, {"domain_id": "domainId"})


def category_rows(probe: Probe, ids: Identities) -> list[Row]:
    """Return named categories, per process and domain."""
    columns = {"domain_id": "domainId", "category_id": "category"}
    return _rows_named_by_nvtx(probe, ids, tables.CATEGORY, columns)


def _rows_named_by_nvtx(
    probe: Probe, ids: Identities, event_type: int, columns: Mapping[str, str]
) -> list[Row]:
    rows: dict[tuple[int, ...], Row] = {}
    for (pid, _), numbers, name in _nvtx_names(probe, ids, event_type, columns.values()):
        # What is named has a number; a category without a domain is of domain 0.
        if pid in ids.pids and numbers[-1] is not None:
            key = [number or 0 for number in numbers]
            row = {"pid": pid, **dict(zip(columns, key, strict=True)), "name": name}
            rows.setdefault((pid, *key), row)
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
    rows = integer_rows(probe, "TARGET_INFO_CUDA_CONTEXT_INFO", columns)
    rows = rows or integer_rows(probe, "TARGET_INFO_CUDA_NULL_STREAM", older)
    rows = [row for row in rows if row["pid"] in ids.pids]
    for row in rows:
        pid, ordinal = row["pid"], row.pop("ordinal")
        if ordinal is not None:
            any_process = devices.numbers.get((None, ordinal))
            row["device_id"] = devices.numbers.get((pid, ordinal), any_process)
        row["parent_context_id"] = row["parent_context_id"] or None
    return first_rows(rows, "pid", "context_id")


def stream_rows(probe: Probe, ids: Identities) -> list[Row]:
    """Return streams of processes with events."""
    ids_of_streams = {"pid": "processId", "context_id": "contextId", "stream_id": "streamId"}
    columns = {**ids_of_streams, "priority": "priority"}
    names = _stream_names(probe)
    rows = [
        {**row, "name": names.get((row["pid"], row["stream_id"]))}
        for row in integer_rows(probe, "TARGET_INFO_CUDA_STREAM", columns)
        if row["pid"] in ids.pids
    ]
    for row in rows:
        if (row["priority"] or 0) >= 1 << 31:
            row["priority"] -= 1 << 32  # a negative number that was stored without its sign
    return first_rows(rows, *ids_of_streams)


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
    "sm_clock_hz": "clockRate",
    "threads_per_warp": "threadsPerWarp",
}
_CUDA_GPU_COLUMNS = {
    "name": "name",
    "bus_id": "pciBusId",
    **CUPTI_DEVICE_COLUMNS,
    **CUPTI_RATES,
}
# Exports before 2020.4 have memory in MiB, and no bandwidth that could be meant.
_MIB = 1 << 20
_TEXT_COLUMNS = ("name", "bus_id", "uuid")
# These identify a GPU and are not columns of the store.
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
        if all(number == ordinal for (_, ordinal), number in self.numbers.items()):
            return lambda pid, ordinal: ordinal
        return self._by_process

    def _by_process(self, pid: Expression, ordinal: Expression) -> Expression:
        # One flat CASE: hundreds of processes stay below SQLite's limit on nesting.
        ordered = sorted(self.numbers.items(), key=lambda item: (item[0][0] is None, item[1]))
        whens: list[tuple[Any, Any]] = []
        for (own_pid, own_ordinal), number in ordered:
            same = ordinal == own_ordinal
            same = same if own_pid is None else (pid == own_pid) & same
            whens.append((same, sa.literal_column(str(number))))
        return sa.case(*whens)


@dataclass(frozen=True)
class Gpus:
    """The GPUs of the machine, and which of them a (pid, ordinal) means, as far as the export says."""

    rows: list[Row]
    tied: dict[tuple[int, int], Row]


def read_gpus(probe: Probe) -> Gpus:
    """Return the GPUs that a file describes."""
    rows = _gpu_rows(probe)
    return Gpus(rows, _tied_gpus(probe, rows))


def find_devices(gpus: Gpus, ids: Identities) -> Devices:
    """Give numbers to the devices behind the (pid, ordinal) pairs of a file's events, those at work
    first.

    Pairs that the file ties to one GPU (same UUID, or same bus id if there is none) share a number; so
    do all of one process or, on a machine with one GPU, of all processes. Other pairs of several
    processes stay apart. GPUs whose metrics were sampled and that no pair is known to mean come last.
    """
    identities, described = _identified(gpus, ids)
    at_work = {identities[pair] for pair in ids.op_ordinals}
    users: dict[_Identity, list[_Pair]] = {}
    for pair, identity in identities.items():
        users.setdefault(identity, []).append(pair)

    def rank(identity: _Identity) -> tuple[Any, ...]:
        lowest = min((ordinal, pid or 0) for pid, ordinal in users[identity])
        return (identity not in at_work, str(described[identity].get("bus_id") or ""), *lowest)

    ordered = sorted(users, key=rank)
    ordinals = {i: only(ordinal for _, ordinal in users[i]) for i in ordered}
    # If ordinals are unambiguous they are the numbers: people know them from nvidia-smi and nsys.
    single = [ordinal for ordinal in ordinals.values() if ordinal is not None]
    places = single if len(set(single)) == len(ordered) else range(len(ordered))
    numbers = dict(zip(ordered, places, strict=True))
    has_processes = len({pid for pid, _ in ids.ordinals} - {None}) > 1
    rows = [
        {
            "device_id": numbers[i],
            "ordinal": ordinals[i],
            "pid": only(pid for pid, _ in users[i]) if has_processes else None,
            **_our_columns(described[i]),
        }
        for i in sorted(ordered, key=lambda i: numbers[i])
    ]
    sampled = {}
    for sampled_as in sorted({type_id & _GPU_BITS for type_id, _ in ids.metrics}):
        # Before the profiler's library numbered GPUs for itself, the export's own number was used.
        own = (g for g in gpus.rows if g.get("sampled_as", g.get("gpu_id")) == sampled_as)
        gpu = next(own, None)
        identity = ("sampled", sampled_as) if gpu is None else _identity(gpu)
        if identity not in numbers:
            numbers[identity] = max((row["device_id"] for row in rows), default=-1) + 1
            rows.append({"device_id": numbers[identity], **_our_columns(gpu or {})})
        sampled[sampled_as] = numbers[identity]
    unnamed = sum(not described[identity].get("name") for identity in at_work)
    by_pair = {pair: numbers[identity] for pair, identity in identities.items()}
    return Devices(tuple(rows), by_pair, unnamed, sampled)


def _identified(gpus: Gpus, ids: Identities) -> tuple[dict[_Pair, _Identity], dict[_Identity, Row]]:
    # The results are the GPU that each pair means, and what is known of that GPU.
    pids = {pid for pid, _ in ids.ordinals if pid is not None}
    identities: dict[_Pair, _Identity] = {}
    described: dict[_Identity, Row] = {}
    common = _common_properties(gpus.rows)
    for pid, ordinal in ids.ordinals:
        # Rows that do not name their process belong to the only one, if there is only one.
        owner = only(pids) if pid is None else pid
        gpu = gpus.tied.get((owner, ordinal)) if owner is not None else None
        if gpu is None and not gpus.tied and len(gpus.rows) == 1 and ordinal == 0:
            gpu = gpus.rows[0]
        identity: _Identity = ("ordinal", None if len(pids) <= 1 else owner, ordinal)
        identities[pid, ordinal] = identity if gpu is None else _identity(gpu)
        described.setdefault(identities[pid, ordinal], gpu or common)
    return identities, described


def _identity(gpu: Row) -> _Identity:
    return ("gpu", gpu.get("uuid") or gpu.get("bus_id") or gpu["key"])


def _common_properties(gpus: list[Row]) -> Row:
    # Whichever GPU an ordinal means, it has what all of them have: often the product's name.
    return {
        name: value
        for name, value in (gpus[0] if gpus else {}).items()
        if name not in ("uuid", "bus_id", *_KEY_COLUMNS)
        and all(gpu.get(name) == value for gpu in gpus)
    }


def _our_columns(gpu: Row) -> Row:
    return {name: value for name, value in gpu.items() if name not in _KEY_COLUMNS}


def _gpu_rows(probe: Probe) -> list[Row]:
    # The rows are the GPUs of the machine with our columns; `gpu_id` is the export's number of a GPU.
    if "TARGET_INFO_GPU" in probe.tables:
        id_column = "id" if "id" in probe.tables["TARGET_INFO_GPU"].columns else "deviceId"
        rows = _typed_rows(probe, "TARGET_INFO_GPU", {**_GPU_COLUMNS, "gpu_id": id_column})
        if not any("sm_count" in row for row in rows):
            # Until 2021 it has names, and the older table beside it the properties of such GPUs.
            older = _cuda_gpus(probe)
            rows = [
                _common_properties([gpu for gpu in older if gpu.get("name") == row.get("name")])
                | row
                for row in rows
            ]
    else:
        rows = _cuda_gpus(probe)
    gpus: dict[Any, Row] = {}
    for number, row in enumerate(rows):
        identity = row.get("uuid") or row.get("bus_id") or number
        gpus.setdefault(identity, {**row, "key": number})
    return list(gpus.values())


def _cuda_gpus(probe: Probe) -> list[Row]:
    columns = {**_CUDA_GPU_COLUMNS, "gpu_id": "deviceId"}
    return list(map(_cuda_gpu, _typed_rows(probe, "TARGET_INFO_CUDA_GPU", columns)))


def _cuda_gpu(row: Row) -> Row:
    rates = in_base_units(row)
    row = {name: value for name, value in row.items() if name not in CUPTI_RATES}
    if 0 < row.get("memory_bytes", 0) < _MIB:
        row["memory_bytes"] *= _MIB
        rates.pop("memory_bandwidth_bytes_per_s", None)
    return row | rates


def _tied_gpus(probe: Probe, gpus: list[Row]) -> dict[tuple[int, int], Row]:
    # The result maps (pid, ordinal) to a GPU, as far as the export says so.
    tied: dict[tuple[int, int], Row] = {}
    by_id = {gpu.get("gpu_id"): gpu for gpu in gpus}
    columns = {"pid": "pid", "ordinal": "cudaId", "gpu_id": "gpuId", "uuid": "uuid"}
    columns["sm_count"] = "numMultiprocessors"
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
    # The rows of a small table get our column names. Cells that are absent or of a wrong type are left
    # out.
    present = {o: theirs for o, theirs in columns.items() if has_columns(probe, table, theirs)}
    rows: list[Row] = []
    if not present:
        return rows
    for values in probe.select(f"SELECT {', '.join(present.values())} FROM {table}"):
        row = dict(zip(present, values, strict=True))
        if isinstance(row.get("bus_id"), int):
            row["bus_id"] = str(row["bus_id"])  # before 2021 the bus was a plain number
        if not str(row.get("uuid", "")).strip("0-"):
            row.pop("uuid", None)  # zeros: not known
        types = {name: str if name in _TEXT_COLUMNS else int for name in row}
        rows.append({n: v for n, v in row.items() if isinstance(v, types[n]) and v != ""})
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


def missing_full_names(probe: Probe) -> set[int]:
    """Return the full names of kernels none of whose names has a text."""
    present = probe.tables[tables.KERNEL].columns
    with_text = "(SELECT id FROM StringIds WHERE typeof(value) = 'text')"
    lacking = " AND ".join(
        f"coalesce({name} NOT IN {with_text}, 1)"
        for name in tables.NAMES_OF_KERNELS
        if name in present
    )
    full = "demangledName" if "demangledName" in present else "NULL"
    rows = probe.select(f"SELECT DISTINCT {full} FROM {tables.KERNEL} WHERE {lacking}")
    return {row[0] for row in rows}


def name_rows(
    probe: Probe, ids: Identities, missing: set[int], doubled: list[int]
) -> Iterator[Row]:
    """Yield the names that imported rows refer to.

    `missing` receives the ids without a text; `doubled` those with two, of which the first is kept.
    """
    missing.update(ids.name_ids)
    for cell, text in probe.iterate("SELECT id, value FROM StringIds"):
        name_id = as_whole_number(cell)
        if name_id is None or name_id not in ids.name_ids or not isinstance(text, str):
            continue
        if name_id not in missing:
            doubled.append(name_id)
            continue
        missing.discard(name_id)
        if name_id in ids.path_ids:
            text = _file_name(text)
        plain = plain_api_name(text) if name_id in ids.api_name_ids else None
        yield {"id": name_id, "text": text, "plain": plain}


# -- names of metrics
#
# A sample names its GPU in the lowest eight bits of `typeId`, by the number that the profiler's own
# library gives the GPU, and its metric by a number of that type; METRIC_NAMES has the metrics' names.

METRIC_NAMES = "TARGET_INFO_GPU_METRICS"
_GPU_BITS = 0xFF
PERCENT = re.compile(r"\[[^\[\]%]*%[^\[\]]*\]\s*$")
_CLOCK = re.compile(r"\[MHz\]\s*$")

_MetricIds = Collection[tuple[int, int]]


def metric_names(probe: Probe, ids: _MetricIds) -> dict[tuple[int, int], str]:
    """Return the name of each of these metrics, given as typeId and metricId, that has one."""
    if not has_columns(probe, METRIC_NAMES, "typeId", "metricId", "metricName"):
        return {}
    rows = probe.select(f"SELECT typeId, metricId, metricName FROM {METRIC_NAMES}")
    return {
        (type_id, metric_id): name
        for type_id, metric_id, name in rows
        if (type_id, metric_id) in ids and isinstance(name, str)
    }


def describe_metrics(
    ids: _MetricIds,
    names: Mapping[tuple[int, int], str],
    devices: Mapping[int, int],
    name_id: Callable[[int], int],
) -> tuple[tuple[export_context.Metric, ...], list[Row]]:
    """Return the metrics, and rows of `name` for them; a metric has one name on all GPUs.

    `devices`: our number of each sampled GPU; `name_id`: the id for the name at a place among all.
    """
    shown = {pair: names.get(pair) or f"[metric {pair[1]}]" for pair in sorted(ids)}
    name_ids = {text: name_id(place) for place, text in enumerate(sorted(set(shown.values())))}
    metrics = tuple(
        export_context.Metric(
            *pair,
            name_id=name_ids[text],
            device_id=devices.get(pair[0] & _GPU_BITS),
            unit=codes.METRIC_UNITS.index("%" if PERCENT.search(text) else "number"),
            is_clock=int(_CLOCK.search(text) is not None),
        )
        for pair, text in shown.items()
    )
    # In the order of the metrics, not of their names.
    ordered = dict.fromkeys(shown.values())
    return metrics, [{"id": name_ids[text], "text": text, "plain": None} for text in ordered]
