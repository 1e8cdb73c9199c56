"""Rows of the small tables: who appears in a recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nsysconv.importers.kineto.gathered import Gathered
from nsysconv.importers.kineto.metadata import Metadata
from nsysconv.names import plain_api_name

Row = dict[str, Any]


def devices(found: Gathered, told: Metadata, sm_counts: Mapping[int, int]) -> list[Row]:
    """The devices with GPU operations.

    A device is described under its own number. ROCm numbers devices otherwise than it describes them:
    where all that are described are alike, that is what they are.
    """
    alike = list(told.devices.values())
    shared = alike[0] if alike and all(each == alike[0] for each in alike) else {}
    rows = []
    for device in sorted(found.devices):
        row = {"device_id": device, "ordinal": device, **told.devices.get(device, shared)}
        if "sm_count" not in row and device in sm_counts:
            row["sm_count"] = sm_counts[device]
        rows.append(row)
    return rows


def processes(
    found: Gathered, names: Mapping[int, str], ranks: Mapping[int, int], told: Metadata
) -> list[Row]:
    """The processes with events. What the trace says of its rank is said of its only process; `ranks` are
    those of processes, of traces that were merged."""
    alone = len(found.pids) == 1
    return [
        {
            "pid": pid,
            "name": names.get(pid),
            "rank": told.rank if alone and told.rank is not None else ranks.get(pid),
            "world_size": told.world_size if alone else None,
            "host": told.host,
        }
        for pid in sorted(found.pids)
    ]


def threads(found: Gathered, names: Mapping[tuple[int, ...], str]) -> list[Row]:
    """The threads with events."""
    return [
        {"pid": pid, "tid": tid, "name": names.get((pid, tid))}
        for pid, tid in sorted(found.threads)
    ]


def streams(found: Gathered) -> list[Row]:
    """The streams with GPU operations."""
    return [
        {"pid": pid, "context_id": context, "stream_id": stream}
        for pid, context, stream in sorted(found.streams)
    ]


def names(found: Gathered) -> list[Row]:
    """The names that rows refer to."""
    return [
        {
            "id": number,
            "text": text,
            "plain": plain_api_name(text) if number in found.api_names else None,
        }
        for text, number in found.names.items()
    ]
