"""Migrations of unified memory and page faults, as the tables of `nsys stats` join them: by address."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.report import MISSING
from nsysconv.timeline.timeline import Timeline

Array = np.ndarray

HTOD, DTOH = (codes.DIRECTIONS.index(word) for word in ("HtoD", "DtoH"))
CPU, GPU = (codes.PAGE_FAULT_KINDS.index(word) for word in ("cpu", "gpu"))

MEGA = 1_000_000
ADDRESS = "as the source gives it, in hexadecimal"


@dataclass(frozen=True)
class Events:
    """Columns of equal length: addresses, codes (directions, or kinds of faults), and quantities."""

    address: Array
    code: Array
    quantity: Array
    dur: Array

    def of(self, code: int) -> Events:
        """Those with this code."""
        mine = self.code == code
        return Events(*(each[mine] for each in vars(self).values()))


def migrations(timeline: Timeline) -> Events:
    """The slice's migrations, with bytes."""
    names = ("address", "direction", "bytes", "dur_ns")
    return Events(*timeline.columns("unified_memory_event", names).values())


def faults(timeline: Timeline) -> Events | None:
    """The slice's page faults, with their number; None: not recorded."""
    if Fact.PAGE_FAULTS not in timeline.profile.facts:
        return None
    column = timeline.columns("page_fault", ("address", "kind", "count"))
    # A fault whose number is not told is one.
    count = np.where(column["count"] == MISSING, 1, column["count"])
    return Events(column["address"], column["kind"], count, np.zeros(len(count), np.int64))


def unsigned(address: int) -> int:
    """An address as what it is; the store keeps 64 bits with a sign."""
    return address % (1 << 64)


def spelled(address: int) -> str | None:
    """An address in hexadecimal; None for MISSING."""
    return None if address == MISSING else f"0x{unsigned(address):X}"
