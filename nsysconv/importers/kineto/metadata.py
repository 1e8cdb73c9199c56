"""What a trace says of itself outside its events: by allow-list, for environments stand there, too."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from nsysconv.importers.kineto.repair import without_words

_NUMBERS = (
    "schemaVersion",
    "baseTimeNanoseconds",
    "cupti_version",
    "cuda_driver_version",
)
# Property of a device -> our column. AMD spells one of them otherwise.
_DEVICE_NUMBERS = {
    "totalGlobalMem": "memory_bytes",
    "computeMajor": "compute_major",
    "computeMinor": "compute_minor",
    "numSms": "sm_count",
    "regsPerMultiprocessor": "max_registers_per_sm",
    "sharedMemPerMultiprocessor": "max_shared_bytes_per_sm",
    "maxSharedMemoryPerMultiProcessor": "max_shared_bytes_per_sm",
}
_THREADS_PER_SM = ("maxThreadsPerMultiprocessor", "maxThreadsPerMultiProcessor")


@dataclass
class Metadata:
    """What is allowed through. `devices`: columns of `device` by the id the trace gives them.

    `damaged` counts texts that could not be read as JSON as a whole, `further_events` the events that
    stand outside the array that was read.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    roctracer: str | None = None
    host: str | None = None
    rank: int | None = None
    world_size: int | None = None
    devices: dict[int, dict[str, Any]] = field(default_factory=dict)
    damaged: int = 0
    further_events: int = 0

    def add(self, text: bytes) -> None:
        """Adds what a JSON object spells; of a damaged one, the values that are known by name."""
        if not text.strip():
            return
        found = _loaded(text)
        if found is None:
            self.damaged += 1
            found = _singly(text)
        self._take(found)

    def _take(self, found: Mapping[str, Any]) -> None:
        events = found.get("traceEvents")
        self.further_events += len(events) if isinstance(events, list) else 0
        for name in _NUMBERS:
            value = found.get(name)
            if _fits(value):
                self.numbers[name] = int(value)
        if isinstance(found.get("roctracer_version"), str):
            self.roctracer = _clean(found["roctracer_version"])
        if isinstance(found.get("host_name"), str):
            self.host = _clean(found["host_name"])
        spread = found.get("distributedInfo")
        if isinstance(spread, str):
            spread = _loaded(spread.encode("utf-8", "replace"))
        if isinstance(spread, dict):
            self.rank = _number(spread.get("rank"), self.rank)
            self.world_size = _number(spread.get("world_size"), self.world_size)
        devices = found.get("deviceProperties")
        for device in devices if isinstance(devices, list) else ():
            if isinstance(device, dict) and _fits(device.get("id")):
                self.devices[device["id"]] = _device(device)

    @property
    def tool_version(self) -> str | None:
        """The tracing library and its version."""
        if "cupti_version" in self.numbers:
            return f"CUPTI {self.numbers['cupti_version']}"
        return f"roctracer {self.roctracer}" if self.roctracer else None

    @property
    def driver_version(self) -> str | None:
        """The newest CUDA that the driver supports: 12040 is 12.4."""
        number = self.numbers.get("cuda_driver_version")
        if number is None:
            return None
        return f"CUDA {number // 1000}.{number % 1000 // 10}"


def _loaded(text: bytes) -> dict[str, Any] | None:
    spelled = without_words(text)[0].decode("utf-8-sig", "replace")
    try:
        found = json.loads(spelled, strict=False)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _singly(text: bytes) -> dict[str, Any]:
    """The values of known keys that begin a line, as the profiler writes them."""
    spelled = without_words(text)[0].decode("utf-8-sig", "replace")
    found = {}
    for name in (
        *_NUMBERS,
        "roctracer_version",
        "host_name",
        "distributedInfo",
        "deviceProperties",
    ):
        match = re.search(rf'^[ \t\r{{,]*"{name}"\s*:\s*', spelled, re.MULTILINE)
        if match:
            with contextlib.suppress(ValueError, RecursionError):
                found[name], _ = json.JSONDecoder(strict=False).raw_decode(spelled, match.end())
    return found


def _device(told: Mapping[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = (
        {"name": _clean(told["name"])} if isinstance(told.get("name"), str) else {}
    )
    for name, column in _DEVICE_NUMBERS.items():
        if _fits(told.get(name)):
            row[column] = told[name]
    warp = told.get("warpSize")
    threads = next((told[name] for name in _THREADS_PER_SM if _fits(told.get(name))), None)
    if threads is not None and isinstance(warp, int) and warp > 0:
        row["max_warps_per_sm"] = threads // warp
    return row


def _number(value: object, otherwise: int | None) -> int | None:
    with contextlib.suppress(ValueError):
        number = int(value) if isinstance(value, int | str) else otherwise
        return number if _fits(number) else otherwise
    return otherwise


def _fits(value: object) -> TypeGuard[int]:
    """Whether it is a number that a column holds, with room for the sum of two."""
    return isinstance(value, int) and abs(value) < 1 << 62


def _clean(text: str) -> str:
    """The text without halves of characters, which JSON may spell and no file can hold."""
    return text.encode("utf-8", "replace").decode()
