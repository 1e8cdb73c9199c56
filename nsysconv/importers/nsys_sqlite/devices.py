"""Which GPU a process means by its device number.

An event's `deviceId` is the CUDA ordinal inside its process. Two processes' ordinal 0 can be two GPUs
(CUDA_VISIBLE_DEVICES), so an ordinal is tied to a GPU only where the export says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from nsysconv.importers.probe import Probe

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
