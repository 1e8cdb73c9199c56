"""GPUs and processes of a rocpd file, and what of their descriptions may be read."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from nsysconv.importers import rocm
from nsysconv.importers.probe import Probe
from nsysconv.importers.rocpd.suffix_tables import SuffixTables
from nsysconv.launch import VARIABLES, launch_of

Row = dict[str, Any]

_PROGRAM = re.compile(r"[\w.+-]{1,64}", re.ASCII)
_UUID_BYTES = 8
# The kind of memory of a GPU that programs allocate from.
_LOCAL_HEAP = 1
_MHZ, _MOST_MHZ = 1_000_000, 10_000
_MOST_BYTES = 1 << 62


def gpus(agents: Iterable[tuple[Any, ...]]) -> dict[int, Row]:
    """Return our rows of the agents that are GPUs, by their number.

    `agents` have number, kind, ordinal among its kind, name, product's name and details.
    """
    found = {}
    for number, kind, index, name, product, details in agents:
        if isinstance(number, int) and kind == "GPU":
            found[number] = {
                "device_id": number,
                "ordinal": index if isinstance(index, int) else None,
                "name": next((n for n in (product, name) if isinstance(n, str) and n), None),
                **_details(details),
            }
    return found


def _details(text: object) -> Row:
    # The profiler's own record of an agent. Only these cells are looked at.
    try:
        details = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        details = {}
    details = details if isinstance(details, dict) else {}

    def number(name: str) -> int | None:
        value, most = details.get(name), _MOST_MHZ if name == rocm.CLOCK else 1 << 31
        return value if type(value) is int and 0 < value < most else None

    return {
        "uuid": _uuid(details),
        "bus_id": _bus_id(details),
        "memory_bytes": _memory(details.get("mem_banks")),
        "memory_clock_hz": _memory_clock(details.get("mem_banks")),
        **rocm.device_columns(number),
    }


def _uuid(details: dict[str, Any]) -> str | None:
    # Eight bytes, the lowest first: value0, value1, …
    uuid = details.get("uuid")
    held = uuid.get("bytes") if isinstance(uuid, dict) else None
    values: list[Any] = (
        [held.get(f"value{i}") for i in range(_UUID_BYTES)] if isinstance(held, dict) else []
    )
    try:
        return "GPU-" + bytes(reversed(values)).hex() if any(values) else None
    except (TypeError, ValueError):
        return None


def _bus_id(details: dict[str, Any]) -> str | None:
    domain, place = details.get("domain"), details.get("location_id")
    if type(domain) is not int or type(place) is not int or not 0 < place < 1 << 16:
        return None
    return f"{domain & 0xFFFF:04x}:{place >> 8:02x}:{place >> 3 & 31:02x}.{place & 7}"


def _memory_clock(banks: object) -> int | None:
    clocks = {clock for clock in _of_banks(banks, "mem_clk_max") if type(clock) is int}
    fits = len(clocks) == 1 and 0 < min(clocks) < _MOST_MHZ
    return min(clocks) * _MHZ if fits else None


def _of_banks(banks: object, name: str) -> list[object]:
    return [
        bank.get(name)
        for bank in (banks if isinstance(banks, list) else ())
        if isinstance(bank, dict) and bank.get("heap_type") == _LOCAL_HEAP
    ]


def _memory(banks: object) -> int | None:
    sizes = _of_banks(banks, "size_in_bytes")
    whole = sum(size for size in sizes if type(size) is int and size > 0)
    return whole if 0 < whole < _MOST_BYTES else None


# -- processes


@dataclass
class Process:
    """A process: its number, when it began and ended (0: not recorded), our row, settings that are on."""

    pid: int
    began: int
    ended: int
    row: Row
    settings: frozenset[str]


def processes(probe: Probe, tables: SuffixTables, settings: Collection[str]) -> dict[int, Process]:
    """Return the processes by the file's own ids.

    Of their environments only these settings and the variables of launchers are looked at.
    """
    table = "info_process"
    if not {"id", "pid"} <= set(tables.columns(table)):
        return {}
    is_json = "typeof(environment) = 'text' AND json_valid(environment)"
    keys = sorted({*settings, *VARIABLES}) if "environment" in tables.columns(table) else []
    cells = [tables.cell(table, name) for name in ("id", "pid", "init", "fini", "command")] + [
        f"CASE WHEN {is_json} THEN json_extract(environment, '$.{key}') END" for key in keys
    ]
    found = {}
    for number, pid, began, ended, command, *said in probe.select(
        f"SELECT {', '.join(cells)} FROM {tables.source(table)}"
    ):
        if not isinstance(number, int) or not isinstance(pid, int) or not pid:
            continue
        known = {key: str(cell) for key, cell in zip(keys, said, strict=True) if cell is not None}
        launch = launch_of(known)
        row = {"pid": pid, "name": _program(command), "job": launch.job}
        row |= {part: getattr(launch, part) for part in ("rank", "local_rank", "world_size")}
        on = frozenset(key for key in settings if known.get(key) == "1")
        first, last = (time if isinstance(time, int) else 0 for time in (began, ended))
        found[number] = Process(pid, first, last, row, on)
    return found


def _program(command: object) -> str | None:
    # The first word of the command line, if it is no more than a program's name.
    words = command.split(maxsplit=1) if isinstance(command, str) else []
    name = words[0].rsplit("/", 1)[-1] if words else ""
    return name if _PROGRAM.fullmatch(name) else None
