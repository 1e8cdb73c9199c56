"""The profiles that a report is over, as far as their rows need it: rank, host, physical GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

BY_UUID, BY_BUS, BY_ORDINAL = "UUID", "PCI bus id of its host", "ordinal of its process"
"""By what a physical device was told from the others, the surest first."""


@dataclass(frozen=True)
class Gpu:
    """A physical device: what it is called, and by what it was told from others."""

    label: str
    told_by: str


@dataclass(frozen=True)
class Member:
    """One profile. `ranks` are those of its processes, `hosts` by rank where its host is not one,
    `gpus` by `device_id`.
    """

    label: str
    ranks: tuple[int, ...] = ()
    world_size: int | None = None
    host: str | None = None
    hosts: Mapping[int, str] = field(default_factory=dict)
    gpus: Mapping[int, Gpu] = field(default_factory=dict)

    @property
    def rank(self) -> int | None:
        """The rank, where it is of one."""
        return self.ranks[0] if len(self.ranks) == 1 else None

    @property
    def order(self) -> tuple[bool, int, str]:
        """By rank; those without one come last."""
        return (not self.ranks, min(self.ranks, default=0), self.label)

    def host_of(self, rank: Any) -> str | None:
        """The host on which a rank's process ran."""
        return self.hosts.get(rank, self.host)


def member(
    label: str,
    host: str | None,
    processes: Sequence[Mapping[str, Any]],
    devices: Sequence[Mapping[str, Any]],
) -> Member:
    """A profile by its label and host and its rows of the tables process and device."""
    ranked = [row for row in processes if row["rank"] is not None]
    hosts = {row["rank"]: row["host"] for row in ranked if row["host"]}
    known = {row["host"] for row in processes if row["host"]}
    if host is None and len(known) == 1:
        (host,) = known
    sizes = {row["world_size"] for row in ranked if row["world_size"]}
    of_process = {row["pid"]: row["rank"] for row in ranked}
    return Member(
        label,
        tuple(sorted({int(row["rank"]) for row in ranked})),
        max(sizes, default=None),
        host,
        hosts,
        {int(row["device_id"]): _gpu(row, label, host, of_process) for row in devices},
    )


def _gpu(row: Mapping[str, Any], label: str, host: str | None, ranks: Mapping[Any, int]) -> Gpu:
    """A device by what identifies it: an ordinal means something in its own process only."""
    if row["uuid"]:
        return Gpu(str(row["uuid"]), BY_UUID)
    if host and row["bus_id"]:
        return Gpu(f"{host} {row['bus_id']}", BY_BUS)
    of_process = list(ranks.values())
    rank = ranks.get(row["pid"], of_process[0] if len(of_process) == 1 else None)
    who = f"rank {rank}" if rank is not None else label
    ordinal = row["ordinal"] if row["ordinal"] is not None else row["device_id"]
    return Gpu(f"{host} {who} GPU {ordinal}" if host else f"{who} GPU {ordinal}", BY_ORDINAL)
