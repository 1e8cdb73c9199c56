"""Devices in sentences: what each is, what an SM holds, and the peaks with their source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

from nsysconv.document import Text
from nsysconv.report import Report, Unit, human
from nsysconv.timeline.peaks import KINDS

Row = Mapping[str, Any]

_INDENT, _WIDTH, _TERA = "   ", 79, 1e12
_OF_SM = {
    "max_warps_per_sm": "warps",
    "max_threads_per_sm": "threads",
    "max_blocks_per_sm": "blocks",
    "max_registers_per_sm": "registers",
}
_CORES = (" with Tensor Cores", " with matrix cores")


def sentences(devices: Report) -> tuple[Text, ...]:
    """Return what the rows of `devices` say, equal devices once, in about five lines each."""
    alike: dict[tuple[Any, ...], list[Row]] = {}
    for row in devices.rows():
        what = tuple(value for name, value in row.items() if name not in _NUMBERS)
        alike.setdefault(what, []).append(row)
    lines = [
        part
        for rows in alike.values()
        for line in _device(rows)
        for part in wrap(line, _WIDTH, initial_indent="", subsequent_indent=2 * _INDENT)
    ]
    return (Text("", tuple(lines), laid_out=True),) if lines else ()


_NUMBERS = ("profile", "rank", "device_id")


def _device(rows: list[Row]) -> Iterator[str]:
    row = rows[0]
    number = f"{len(rows)} ×" if len(rows) > 1 else f"GPU {row['device_id']}:"
    is_amd = (row["device"] or "").startswith("AMD")
    parts = [row["device"] or "name not recorded"]
    if row["sm_count"]:
        clock = f" at {human(row['sm_clock_hz'], Unit.HZ)}" if row["sm_clock_hz"] else ""
        parts.append(f"{row['sm_count']:,} {'compute units' if is_amd else 'SMs'}{clock}")
    if row["compute_capability"] and not is_amd:
        parts.append(f"compute capability {row['compute_capability']}")
    yield f"{number} {', '.join(parts)}"
    memory = [human(row["memory_bytes"], Unit.BYTES)] if row["memory_bytes"] else []
    if row["memory_clock_hz"]:
        memory.append(f"at {human(row['memory_clock_hz'], Unit.HZ)}")
    if row["memory_bandwidth_bytes_per_s"]:
        memory.append(human(row["memory_bandwidth_bytes_per_s"], Unit.BYTES_PER_S))
    if memory:
        yield f"{_INDENT}memory: {', '.join(memory)}"
    held = [f"{row[name]:,} {what}" for name, what in _OF_SM.items() if row[name]]
    if row["max_shared_bytes_per_sm"]:
        held.append(f"{human(row['max_shared_bytes_per_sm'], Unit.BYTES)} shared memory")
    if held:
        yield f"{_INDENT}{'compute unit' if is_amd else 'SM'}: {', '.join(held)}"
    yield from _peaks(row)


def _peaks(row: Row) -> Iterator[str]:
    if row["peak_source"] is None:
        yield f"{_INDENT}peaks: not known for this device"
        return
    cores: dict[str, list[str]] = {}
    for kind, words in KINDS.items():
        if (rate := row[f"peak_{kind}_flop_per_s"]) is not None:
            what = next((each for each in _CORES if words.endswith(each)), "")
            short = f"{words.removesuffix(what)} {rate / _TERA:,.4g}"
            cores.setdefault(what and _CORES[0], []).append(short)
    for what, each in cores.items():
        yield f"{_INDENT}peak TFLOP/s{what}: {', '.join(each)}"
    if row["peak_memory_bytes_per_s"] is not None:
        yield f"{_INDENT}peak memory: {human(row['peak_memory_bytes_per_s'], Unit.BYTES_PER_S)}"
    yield f"{_INDENT}peaks from: {row['peak_source']}"
