"""The tables of `nsys stats` of unified memory: migrations and page faults by address, and in total."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.queries.columns import count_column, key_column, rows_at, values_by_column
from nsysconv.queries.contract import Array, ColumnValues, Option, Query, Request
from nsysconv.report import MISSING, Column, Unit
from nsysconv.timeline.arrays import counts, distinct, factorize, sums
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import MIGRATION, combine, totals

_HTOD, _DTOH = (codes.DIRECTIONS.index(name) for name in ("HtoD", "DtoH"))
_CPU, _GPU = (codes.PAGE_FAULT_KINDS.index(name) for name in ("cpu", "gpu"))
_QUANTITIES = {
    "htod_bytes_sum": "Bytes migrated to a device",
    "dtoh_bytes_sum": "Bytes migrated to the host",
    "cpu_fault_count": "Number of CPU page faults",
    "gpu_fault_count": "Number of GPU page faults",
}
_SECOND_NS = 1_000_000_000
_ADDRESS_FORM = "in hexadecimal, as in the source"


@dataclass(frozen=True)
class _Events:
    """Events of one kind: address, quantity (bytes, or a number of faults) and duration of each."""

    address: Array
    quantity: Array
    dur: Array


def _events(timeline: Timeline) -> list[_Events]:
    """Return the events behind each of _QUANTITIES, without faults where these are not recorded."""
    columns = timeline.columns("unified_memory_event", ("direction", "address", "bytes", "dur_ns"))
    direction, *values = columns.values()
    events = [_Events(*(v[direction == code] for v in values)) for code in (_HTOD, _DTOH)]
    if Fact.PAGE_FAULTS in timeline.profile.facts:
        columns = timeline.columns("page_fault", ("kind", "address", "count"))
        kind, address = columns["kind"], columns["address"]
        values = [address, _fault_counts(columns["count"]), np.zeros(len(kind), np.int64)]
        events += [_Events(*(v[kind == code] for v in values)) for code in (_CPU, _GPU)]
    return events


def _fault_counts(count: Array) -> Array:
    """Return how many faults each row counts; one whose number is not recorded is one."""
    return np.where(count == MISSING, 1, count)


def _hexadecimal(address: int) -> str:
    return f"0x{address % (1 << 64):X}"


def _quantity(name: str, null: str = "") -> Column:
    unit = Unit.BYTES if "bytes" in name else Unit.COUNT
    return Column(name, unit, f"{_QUANTITIES[name]}{null}.", better="less")


# -- by address

_NONE = "; null: none"
_NO_FAULTS = f"{_NONE}, or not recorded"
_SUM_COLUMNS = (
    key_column("address", f"Address, {_ADDRESS_FORM}."),
    _quantity("htod_bytes_sum", _NONE),
    _quantity("dtoh_bytes_sum", _NONE),
    _quantity("cpu_fault_count", _NO_FAULTS),
    _quantity("gpu_fault_count", _NO_FAULTS),
    Column(
        "throughput_bytes_per_s",
        Unit.BYTES_PER_S,
        "Migrated bytes times the whole number of total durations per second, as nsys computes it.",
        better="more",
    ),
)


def _summary(timeline: Timeline, request: Request) -> ColumnValues:
    """Return one row per address, highest throughput first, at most as many as option `rows` says."""
    events = _events(timeline)
    group, (addresses,) = factorize(np.concatenate([each.address for each in events]))
    count = len(addresses)
    quantities = {name: np.full(count, MISSING) for name in _QUANTITIES}
    moved, spent = np.zeros((2, count), np.int64)
    first = 0
    for name, each in zip(_QUANTITIES, events, strict=False):
        own = group[first : first + len(each.address)]
        first += len(own)
        total = sums(own, np.where(each.quantity == MISSING, 0, each.quantity), count)
        spent += sums(own, np.where(each.dur == MISSING, 0, each.dur), count)
        if name.endswith("_bytes_sum"):
            moved += total
        quantities[name] = np.where(counts(own, count) > 0, total, MISSING)
    times = _SECOND_NS // np.where(spent == 0, 1, spent)
    throughput = np.where(spent == 0, np.nan, moved * times.astype(np.float64))
    unsigned = addresses.view(np.uint64)
    order = np.lexsort((unsigned, -np.where(spent == 0, -1, throughput)))
    values = {
        "address": [_hexadecimal(address) for address in unsigned.tolist()],
        **quantities,
        "throughput_bytes_per_s": throughput,
    }
    return rows_at(values, order[: max(request.options["rows"], 0) or None])


UM_SUM = Query(
    options=(Option("rows", 10, "Maximum number of rows; 0 or less: all."),),
    columns=_SUM_COLUMNS,
    compute=_summary,
)

# -- in all

_TOTAL_COLUMNS = (
    _quantity("htod_bytes_sum"),
    _quantity("dtoh_bytes_sum"),
    _quantity("cpu_fault_count"),
    _quantity("gpu_fault_count"),
    Column("first_address", Unit.TEXT, f"Lowest address of them all, {_ADDRESS_FORM}."),
    Column("last_address", Unit.TEXT, f"Highest address of them all, {_ADDRESS_FORM}."),
)


def _total(timeline: Timeline, request: Request) -> ColumnValues:
    if Fact.UNIFIED_MEMORY not in timeline.profile.facts:
        migrations = totals(timeline, MIGRATION)
        htod, dtoh = (
            combine(total for total in migrations if total.direction == code).bytes_sum
            for code in (_HTOD, _DTOH)
        )
        return values_by_column([{"htod_bytes_sum": htod, "dtoh_bytes_sum": dtoh}], _TOTAL_COLUMNS)
    events = _events(timeline)
    address = np.concatenate([each.address for each in events])
    quantities = [int(each.quantity[each.quantity != MISSING].sum()) for each in events]
    row = {
        **dict(zip(_QUANTITIES, quantities, strict=False)),
        "first_address": _extreme(address, np.min),
        "last_address": _extreme(address, np.max),
    }
    return values_by_column([row], _TOTAL_COLUMNS)


def _extreme(address: Array, extreme: Callable[[Array], int]) -> str | None:
    known = address[address != MISSING].astype(np.int64).view(np.uint64)
    return _hexadecimal(int(extreme(known))) if len(known) else None


UM_TOTAL_SUM = Query(columns=_TOTAL_COLUMNS, compute=_total)

# -- page faults by instruction

_FAULT_COLUMNS = (
    count_column("fault_count", "Number of page faults.", better="less"),
    key_column("instruction", "Instruction that faulted."),
    key_column("source_file", "Source file of the instruction."),
    Column("source_line", Unit.ID, "Source line of the instruction.", key=True),
)


def _cpu_faults(timeline: Timeline, request: Request) -> ColumnValues:
    names = ("kind", "count", "instruction_id", "source_file_id", "source_line")
    columns = timeline.columns("page_fault", names)
    by_cpu = columns["kind"] == _CPU
    count, *keys = (columns[name][by_cpu] for name in names[1:])
    group, (instruction, file, line) = factorize(*keys)
    faults = sums(group, _fault_counts(count), len(line)).tolist()
    texts: dict[int, str | None] = {
        **timeline.profile.names(distinct(np.concatenate((instruction, file)))),
        MISSING: None,
    }
    rows = [
        (total, texts[i], texts[f], place)
        for total, i, f, place in zip(
            faults, instruction.tolist(), file.tolist(), line.tolist(), strict=True
        )
    ]
    rows.sort(key=lambda row: (-row[0], row[1] or "", row[2] or "", row[3]))
    return {column.name: [row[i] for row in rows] for i, column in enumerate(_FAULT_COLUMNS)}


UM_CPU_PAGE_FAULTS_SUM = Query(columns=_FAULT_COLUMNS, compute=_cpu_faults)
