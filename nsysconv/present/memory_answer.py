"""The answer on a profile of memory alone: the peak, who held it, what failed, and fragmentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from nsysconv.document import Section
from nsysconv.names import cut_off, shorten
from nsysconv.present.answer import caveats, noted, words
from nsysconv.present.next_steps import WIDTH
from nsysconv.queries.memory_holders import BEFORE
from nsysconv.report import Unit, human
from nsysconv.timeline.memory import NO_FRAME

REPORTS = ("memory", "memory_holders", "memory:by=oom")
"""The reports that the answer is made of, in this order; of the last two there may be none."""

_MOST_DEVICES, _MOST_ROWS, _LABEL = 3, 6, 30
_UNKNOWN = (BEFORE, NO_FRAME)
_RECORD = "call torch.cuda.memory._record_memory_history() when the program starts"
_EXPANDABLE = "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
Row = Mapping[str, Any]


def on_memory(made: Sequence[Section], reports: Sequence[Section], command: str) -> list[Section]:
    """Return the answer of at most 25 lines; `made` are the reports of GPU work, for their notes."""
    by_name = {report.name: report.rows() for report in reports if report.row_count}
    devices, held, failed = (by_name.get(name, []) for name in REPORTS)
    devices = sorted(devices, key=lambda row: -(row["peak_bytes"] or row["end_bytes"]))
    several = len({row["profile"] for row in devices}) > 1
    lines = [*caveats(noted(made)), f"{command} records memory only, not GPU work or times."]
    for row in devices[:_MOST_DEVICES]:
        lines += map(_cut, _device_lines(row, several))
    if len(devices) > _MOST_DEVICES:
        lines.append(
            f"{len(devices) - _MOST_DEVICES} more devices: nsysconv report {command} memory"
        )
    largest = devices[0] if devices else {}
    of_largest = _of(largest, failed) or failed
    if of_largest:
        largest = next((row for row in devices if _of(row, of_largest[-1:])), largest)
        lines += map(_cut, _failed_lines(of_largest[-1], len(failed)))
    column, when = _moment(of_largest, largest)
    own = [row for row in _of(largest, held) if row[column]]
    if own:
        where = f" on {_where(largest, several)}" if len(devices) > 1 else ""
        lines += ["", f"held {when}{where}:", *_holders(own, column)]
    elif devices:
        lines += ["", "Who allocated it is not recorded."]
    first = max(own, key=lambda row: row[column])["name"] if own else ""
    if advice := [*map(_cut, _advice(largest, of_largest, first))]:
        lines += ["", *advice]
    more = [f"→ all of it: nsysconv report {command} memory memory_holders memory:by=block"]
    return [words("memory", lines), words("next", more)]


def _cut(line: str) -> str:
    return cut_off(line, WIDTH)


def _size(value: int | None) -> str:
    return "an unknown size" if value is None else human(value, Unit.BYTES)


def _of(device: Row, rows: Sequence[Row]) -> list[Row]:
    keys = ("profile", "pid", "device_id")
    return [row for row in rows if all(row[key] == device.get(key) for key in keys)]


def _where(row: Row, several: bool = False) -> str:
    where = "host" if row["device_id"] is None else f"GPU {row['device_id']}"
    return f"{shorten(row['profile'], _LABEL)}, {where}" if several else where


def _device_lines(row: Row, several: bool) -> Iterator[str]:
    where = _where(row, several)
    if row["peak_bytes"] is None:
        yield f"{where}: {_size(row['end_bytes'])} in use; the peak is not recorded"
    else:
        start = row["peak_start_ns"]
        when = "" if start is None else f" at {human(start, Unit.NS)}"
        line = f"{where}: peak {_size(row['peak_bytes'])}{when}"
        if row["reserved_at_peak_bytes"] is not None:
            line += f" of {_size(row['reserved_at_peak_bytes'])} reserved"
        yield f"{line}; {_size(row['end_bytes'])} at the end"
    if row["end_reserved_bytes"]:
        share = 100 * row["inactive_bytes"] / row["end_reserved_bytes"]
        line = f"   at the end {_size(row['end_reserved_bytes'])} reserved, {share:.1f} % inactive"
        largest = row["largest_inactive_bytes"]
        yield f"{line}; largest inactive block {_size(largest)}" if largest else line


def _failed_lines(row: Row, count: int) -> Iterator[str]:
    number = "1 allocation" if count == 1 else f"{count:,} allocations"
    yield f"out of memory: {number} failed; the last asked for {_size(row['bytes'])} in {row['name']}"
    line = f"   then {_size(row['in_use_bytes'])} was in use on {_where(row)}"
    if row["unused_bytes"] is not None:
        line += f", {_size(row['unused_bytes'])} reserved and unused"
    yield line + (f", {_size(row['free_bytes'])} free" if row["free_bytes"] is not None else "")


def _moment(failed: Sequence[Row], largest: Row) -> tuple[str, str]:
    if failed:
        return "live_at_oom_bytes", "when it failed"
    if largest.get("peak_bytes") is None:
        return "end_bytes", "at the end"
    return "live_at_peak_bytes", "at the peak"


def _holders(rows: Sequence[Row], column: str) -> Iterator[str]:
    whole = sum(row[column] for row in rows) or 1
    rows = sorted(rows, key=lambda row: -row[column])
    for row in rows[:_MOST_ROWS]:
        head = f"  {_size(row[column]):>10} {100 * row[column] / whole:>6.1f} %  "
        yield f"{head}{shorten(row['name'], WIDTH - len(head))}"
    if rest := rows[_MOST_ROWS:]:
        left = sum(row[column] for row in rest)
        yield f"  {_size(left):>10} {100 * left / whole:>6.1f} %  {len(rest):,} more"


def _advice(largest: Row, failed: Sequence[Row], first: str) -> Iterator[str]:
    if failed and (failed[-1]["unused_bytes"] or 0) >= failed[-1]["bytes"]:
        yield "The allocator held enough, but in no single block: memory is fragmented."
        yield f"Set {_EXPANDABLE}, or allocate the largest tensors first."
    elif failed:
        yield "Reduce what the first lines hold: use a smaller batch, activation checkpointing or a lower"
        yield "precision, or free it before the allocation that failed."
    elif largest.get("peak_bytes") is None:
        yield f"To see the peak, {_RECORD}."
    elif 2 * (largest["inactive_bytes"] or 0) > (largest["end_reserved_bytes"] or 0) > 0:
        yield "Most reserved memory is inactive: the allocator keeps it for later allocations."
        yield "torch.cuda.empty_cache() gives it back to the device."
    elif first not in _UNKNOWN:
        yield "To lower the peak, start with the first line: use a smaller batch or checkpointing,"
        yield "or free it earlier."
    if first in _UNKNOWN and largest.get("peak_bytes") is not None:
        yield "The first line was allocated before its call stack could be recorded: to see it,"
        yield f"{_RECORD}."
