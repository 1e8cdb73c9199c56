"""The time account of each device, and the largest of everything beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nsysconv.codes import DIRECTIONS, TIME_CLASS_COLUMNS, TIME_CLASSES
from nsysconv.facts import Fact
from nsysconv.names import cut_off, shorten, shorten_kernel
from nsysconv.queries.columns import (
    BY_DEVICE,
    WINDOW,
    count_column,
    direction_names,
    duration_column,
    outer_call_time,
    sum_column,
    values_by_column,
)
from nsysconv.queries.contract import (
    CALL_FACTS,
    GPU_OP_FACTS,
    Array,
    Query,
    Request,
    Result,
)
from nsysconv.queries.cycles import added_up, cycles_of
from nsysconv.report import MISSING, Column, ProfileRef, Said, Unit, human
from nsysconv.timeline.account import (
    GRAPH_LAUNCH,
    OPERATION_CLASSES,
    Account,
    default_account,
)
from nsysconv.timeline.arrays import blocks, counts, distinct, factorize, percent, sums, take
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.idle import gaps, window
from nsysconv.timeline.intervals import longest
from nsysconv.timeline.kernel_categories import ANSWERS, UNKNOWN, YES, uses_tensor_cores
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.totals import (
    API_CALL,
    KERNEL,
    MEMCPY,
    MIGRATION,
    Total,
    combine,
    rank_of,
    totals,
)

_SPAN = (
    "The account is of the slice that says when, else of the recording; where the clocks disagree, of "
    "the window."
)
_DIRECTIONS = {"htod": "HtoD", "dtoh": "DtoH"}
_COLUMNS = (
    *BY_DEVICE,
    Column("device", Unit.TEXT, "Name of the GPU; null: the profile does not say which it is."),
    Column("span_start_ns", Unit.NS, f"When the account begins. {_SPAN}"),
    Column("span_ns", Unit.NS, "Length of the account: its classes add up to it."),
    Column("window_start_ns", Unit.NS, f"Where the window begins. {WINDOW}"),
    duration_column("window_ns", "Length of the window."),
    Column("busy_ns", Unit.NS, "Union of the GPU operations inside the window."),
    Column(
        "busy_pct", Unit.PCT, "That union as a share of the time of the account.", better="more"
    ),
    *(
        Column(column, Unit.NS, f"Class of the account: {TIME_CLASSES[name]}.")
        for name, column in TIME_CLASS_COLUMNS.items()
    ),
    Column(
        "launch_bound_pct",
        Unit.PCT,
        "Idle time before and during the call that launched what followed, as a share of the window; "
        "null: causes are not recorded.",
        better="less",
    ),
    sum_column(
        "api_sum_ns",
        "Sum of the outermost API calls of the device's processes; null: threads are not recorded.",
        "",
    ),
    count_column("kernel_count", "Kernels in the time of the account."),
    sum_column("kernel_sum_ns", "Sum of their durations in it.", "kernel_count"),
    Column(
        "tensor_core_pct",
        Unit.PCT,
        "Those on Tensor Cores, as their names say, as a share of that sum.",
        better="more",
    ),
    Column(
        "tensor_core_unknown_pct", Unit.PCT, "Those whose names do not say it, as a share of it."
    ),
    *(
        column
        for name, words in _DIRECTIONS.items()
        for column in (
            Column(f"{name}_bytes_sum", Unit.BYTES, f"Bytes of {words} copies.", better="less"),
            Column(
                f"{name}_bytes_per_s",
                Unit.BYTES_PER_S,
                "These divided by the sum of the copies' durations.",
                better="more",
            ),
            duration_column(f"{name}_sum_ns", "That sum."),
        )
    ),
    duration_column("um_sum_ns", "Sum of the durations of page migrations."),
    Column("top_kernel", Unit.TEXT, "Name of the kernel with most time in the account."),
    duration_column("top_kernel_sum_ns", "Sum of its durations in it."),
    Column("top_call", Unit.TEXT, "Name of the API call with most time."),
    duration_column("top_call_sum_ns", "Sum of its durations."),
    Column("top_copy", Unit.TEXT, "Direction of the copy of most bytes."),
    Column("top_copy_bytes", Unit.BYTES, "Its bytes."),
    duration_column("top_copy_ns", "Its duration."),
    Column("top_gap_start_ns", Unit.NS, "When the longest gap began."),
    duration_column("top_gap_ns", "Its length."),
)
COLUMNS = tuple(replace(column, said=True) for column in _COLUMNS)

Row = dict[str, Any]


def partial(timeline: Timeline, request: Request) -> list[Row]:
    """Return one row per device with GPU operations; of totals alone one row, without an account."""
    if Fact.KERNELS not in timeline.profile.facts:
        return _rows_of_totals(timeline)
    names = {row["device_id"]: row["name"] for row in timeline.profile.rows("device")}
    calls = _Calls(timeline)
    return [_row(timeline, device, names, calls) for device in timeline.devices]


class Rows:
    """Puts the rows of several profiles below each other."""

    def __init__(self, request: Request) -> None:
        """Start without rows."""
        self._rows: list[Row] = []
        self._profiles: list[ProfileRef] = []

    def add(self, ref: ProfileRef, partial: list[Row]) -> None:
        """Add the rows of one profile."""
        self._profiles.append(ref)
        self._rows += [{"profile": ref.label, **row} for row in partial]

    def result(self) -> Result:
        """Return all rows, in the order of their ranks."""
        by_process = cycles_of(self._profiles).by_process(self._rows, "rank", "device_id")
        rows = list(map(_over_cycles, by_process))
        rows.sort(key=lambda row: (row["rank"] is None, row["rank"] or 0))
        return Result(values_by_column(rows, COLUMNS))


# Shares and rates are of the sum of what they are measured by; of the largest one cycle's is shown.
_MEASURED_BY = {
    "busy_pct": "span_ns",
    "launch_bound_pct": "window_ns",
    "tensor_core_pct": "kernel_sum_ns",
    "tensor_core_unknown_pct": "kernel_sum_ns",
    **{f"{name}_bytes_per_s": f"{name}_sum_ns" for name in _DIRECTIONS},
}
_LARGEST = {
    "top_kernel_sum_ns": "top_kernel",
    "top_call_sum_ns": "top_call",
    "top_copy_bytes": "top_copy",
    "top_copy_ns": "top_copy",
    "top_gap_ns": "top_gap_start_ns",
}


def _over_cycles(rows: list[Row]) -> Row:
    whole = added_up(rows, COLUMNS)
    if len(rows) == 1:
        return whole
    for share, of in _MEASURED_BY.items():
        known = [row for row in rows if row.get(share) is not None and row.get(of)]
        if known:
            weight = sum(row[of] for row in known)
            whole[share] = sum(row[share] * row[of] for row in known) / weight
    for size, what in _LARGEST.items():
        largest = max(rows, key=lambda row: row.get(size) or 0)
        whole |= {size: largest.get(size), what: largest.get(what)}
    return whole | {name: rows[0].get(name) for name in ("span_start_ns", "window_start_ns")}


def _row(timeline: Timeline, device: int, names: Mapping[Any, Any], calls: _Calls) -> Row:
    pids = timeline.pids_on(device)
    row: Row = {
        "rank": timeline.rank_of(pids),
        "device_id": device,
        "device": names.get(device),
        **_transfers(timeline, device),
        **_migrations(timeline, device),
        **calls.figures(pids),
        **_longest_gap(timeline, device),
    }
    own, made = window(timeline, device, timeline.ops_on(device)), default_account(timeline, device)
    if made is None:
        return row
    span = made.span
    row |= {"span_start_ns": span.start, "span_ns": span.length, **_account_values(timeline, made)}
    if own is not None:
        row |= {"window_start_ns": own.start, "window_ns": own.length}
        if Fact.API_LINKS in timeline.profile.facts and not timeline.clocks_disagree:
            waited = made.times["idle_host"] + made.times["idle_launch"]
            row["launch_bound_pct"] = float(percent(waited, own.length or 1))
    return row


def _account_values(timeline: Timeline, made: Account) -> Row:
    busy = sum(made.times[name] for name in OPERATION_CLASSES)
    kernels = [
        entry for entry in made.entries if entry.part in ("computation", "communication")
        and entry.name != GRAPH_LAUNCH
    ]  # fmt: skip
    by_name: dict[str, int] = {}
    for entry in kernels:
        by_name[entry.name] = by_name.get(entry.name, 0) + entry.sum_ns
    top = max(by_name, key=lambda name: by_name[name], default=None)
    whole = sum(by_name.values())
    by_use = dict.fromkeys(ANSWERS, 0)
    uses = uses_tensor_cores(timeline, list(by_name))
    for use, spent in zip(uses, by_name.values(), strict=True):
        by_use[use] += spent
    return {
        **{
            column: None if name in made.not_recorded else made.times[name]
            for name, column in TIME_CLASS_COLUMNS.items()
        },
        "busy_ns": busy,
        "busy_pct": float(percent(busy, made.span.length or 1)),
        "kernel_count": sum(entry.count for entry in kernels),
        "kernel_sum_ns": whole,
        "tensor_core_pct": float(percent(by_use[ANSWERS[YES]], whole)),
        "tensor_core_unknown_pct": float(percent(by_use[ANSWERS[UNKNOWN]], whole)),
        "top_kernel": top,
        "top_kernel_sum_ns": None if top is None else by_name[top],
    }


def _transfers(timeline: Timeline, device: int) -> Row:
    if Fact.MEMCPYS not in timeline.profile.facts:
        return {}
    ops = timeline.ops_on(device)
    copies = ops.take(ops.kind == OpKind.MEMCPY)
    column = timeline.profile.columns("memcpy", ("direction", "bytes"))
    direction, size = (column[name][copies.row] for name in ("direction", "bytes"))
    size = np.where(size == MISSING, 0, size)
    row: Row = {}
    for name, words in _DIRECTIONS.items():
        mine = direction == DIRECTIONS.index(words)
        moved, took = int(size[mine].sum()), int(copies.dur[mine].sum())
        row[f"{name}_bytes_sum"] = moved
        row[f"{name}_bytes_per_s"] = moved * 1e9 / took if took else None
        row[f"{name}_sum_ns"] = took
    if len(size):
        top = int(size.argmax())
        row["top_copy"] = direction_names(direction[top : top + 1])[0]
        row["top_copy_bytes"], row["top_copy_ns"] = int(size[top]), int(copies.dur[top])
    return row


def _migrations(timeline: Timeline, device: int) -> Row:
    if Fact.UNIFIED_MEMORY not in timeline.profile.facts:
        return {}
    ops = timeline.ops_on(device)
    return {"um_sum_ns": int(ops.dur.sum(where=ops.kind == OpKind.MIGRATION))}


def _longest_gap(timeline: Timeline, device: int) -> Row:
    for found in gaps(timeline, "no_op"):
        top = longest(found.start, found.end) if found.device == device else None
        if top is not None:
            start, end = int(found.start[top]), int(found.end[top])
            return {"top_gap_start_ns": start, "top_gap_ns": end - start}
    return {}


class _Calls:
    # Sums of API calls of processes; the same for all devices of a process.
    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._known: dict[tuple[int, ...], Row] = {}

    def figures(self, pids: Array) -> Row:
        processes = tuple(map(int, distinct(pids)))
        if processes not in self._known:
            self._known[processes] = self._figures(processes)
        return self._known[processes]

    def _figures(self, pids: Sequence[int]) -> Row:
        timeline = self._timeline
        if Fact.API_CALLS not in timeline.profile.facts:
            return {}
        times = [outer_call_time(timeline, pid) for pid in pids]
        row: Row = {"api_sum_ns": None if None in times else sum(t for t in times if t is not None)}
        calls = timeline.calls
        mine = timeline.calls_in_slice & calls.of_processes(np.array(pids))
        if mine.any():
            group, (ids,) = factorize(calls.name_id)
            count, spent = np.zeros((2, len(ids)), np.int64)
            for block in blocks(len(calls)):
                members = take(group[block], mine[block])
                lasted = take(calls.end[block] - calls.start[block], mine[block])
                count += counts(members, len(ids))
                spent += sums(members, lasted, len(ids))
            by_name: dict[str, int] = {}
            for i in np.flatnonzero(count).tolist():
                name = timeline.call_names[int(ids[i])]
                by_name[name] = by_name.get(name, 0) + int(spent[i])
            row["top_call"] = max(by_name, key=lambda name: by_name[name])
            row["top_call_sum_ns"] = by_name[row["top_call"]]
        return row


def _rows_of_totals(timeline: Timeline) -> list[Row]:
    # Totals have no time in which they ran: no account, no gap.
    row: Row = {"rank": None}
    recorded = {kind: totals(timeline, kind) for kind in (KERNEL, API_CALL, MEMCPY, MIGRATION)}
    if any(recorded.values()):
        row["rank"] = rank_of(timeline, combine(t for each in recorded.values() for t in each))
    if kernels := recorded[KERNEL]:
        whole = combine(kernels)
        row |= {"kernel_count": whole.count, "kernel_sum_ns": whole.sum_ns}
        row |= _top("top_kernel", kernels)
    if recorded[API_CALL]:
        row |= _top("top_call", recorded[API_CALL])
    for name, words in _DIRECTIONS.items():
        mine = [t for t in recorded[MEMCPY] if t.direction == DIRECTIONS.index(words)]
        if mine:
            whole = combine(mine)
            row |= {f"{name}_bytes_sum": whole.bytes_sum, f"{name}_sum_ns": whole.sum_ns}
    if recorded[MIGRATION]:
        row["um_sum_ns"] = combine(recorded[MIGRATION]).sum_ns
    return [row] if len(row) > 1 else []


def _top(prefix: str, recorded: Sequence[Total]) -> Row:
    by_name: dict[str, int] = {}
    for each in recorded:
        if each.sum_ns is not None:
            by_name[each.name] = by_name.get(each.name, 0) + each.sum_ns
    if not by_name:
        return {}
    top = max(by_name, key=lambda name: by_name[name])
    return {prefix: top, f"{prefix}_sum_ns": by_name[top]}


# -- in words

_WIDTH = 98
_BAR, _SHORT_BAR = 60, 30
_SIGNS = {"computation": "█", "communication": "▓", "memcpy": "▒", "memset": "▒", "migration": "▒"}
_IDLE, _OUTSIDE = "░", "·"
_MOST_BARS, _MOST_CLASSES = 4, 4
_WITHOUT_TIMES = (
    "Only totals by name are recorded, and no times: idle time and its causes are not known."
)
_WITHOUT_LENGTH = "All that is recorded happened at one moment: there is no time to account for."
_NAME = 36


def say(rows: Sequence[Mapping[str, Any]]) -> tuple[Said, ...]:
    """Return where the time went, in at most 9 lines."""
    with_account = [row for row in rows if row["span_ns"]]
    if not with_account:
        both = (
            line for row in rows[:_MOST_BARS] for line in (_figures_line(row), _largest_line(row))
        )
        figures = [cut_off(line, _WIDTH) for line in both if line]
        has_times = any(row["span_ns"] is not None for row in rows)
        first = _WITHOUT_LENGTH if has_times else _WITHOUT_TIMES
        return (Said("", (first, *figures), laid_out=True),) if rows else ()
    if len(with_account) == 1:
        lines = [*_one_device(with_account[0])]
    else:
        lines = [*_several_devices(with_account)]
    return (Said("", tuple(cut_off(line, _WIDTH) for line in lines), laid_out=True),)


def _one_device(row: Mapping[str, Any]) -> Iterator[str]:
    busy = f": {_at_work(row)}{_in_window(row)}"
    place = _place(row)
    yield (place if len(place) + len(busy) <= _WIDTH else _place(row, short=True)) + busy
    yield _bar(row, _BAR)
    classes = _classes(row)
    # What is below half a per cent goes into one line, and so does what is too much for a screen.
    shown = sorted(classes, key=lambda each: -each.time)[:_MOST_CLASSES]
    shown = [each for each in classes if each in shown and 200 * each.time >= row["span_ns"]]
    for each in shown:
        yield f"{each.sign} {human(each.time, Unit.NS):>10} {each.share:>6.1f} %  {each.words}"
    rest = [each for each in classes if each not in shown]
    if rest:
        time = sum(each.time for each in rest)
        share = 100 * time / row["span_ns"]
        head = f"  {human(time, Unit.NS):>10} {share:>6.1f} %  "
        yield head + _while_it_fits((each.brief for each in rest), _WIDTH - len(head))
    yield _figures_line(row)
    largest = _largest_line(row)
    if largest:
        yield largest


def _several_devices(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    chosen = [("", row) for row in rows]
    if len(rows) > _MOST_BARS:
        ordered = sorted(rows, key=lambda row: row["busy_pct"])
        kinds = ("least busy: ", "median: ", "most busy: ")
        three = (ordered[0], ordered[(len(rows) - 1) // 2], ordered[-1])
        chosen = list(zip(kinds, three, strict=True))
        yield f"{len(rows)} devices: the least, the median and the most busy of them."
    for kind, row in chosen:
        yield f"{_bar(row, _SHORT_BAR)} {kind}{_place(row, short=True)}: {_at_work(row)}"
        top = sorted(_classes(row), key=lambda each: -each.time)[:3]
        words = (f"{each.sign} {each.share:.1f} % {each.brief}" for each in top)
        yield f"{' ' * _SHORT_BAR} {_while_it_fits(words, _WIDTH - _SHORT_BAR - 1)}"
    of_all = f"all {len(rows)} together: "
    yield of_all + _figures_line(_added_up(rows), _WIDTH - len(of_all))
    if len(rows) < _MOST_BARS:
        yield _largest_line(_largest_of(rows), "largest on one: ")


def _while_it_fits(parts: Iterable[str], room: int) -> str:
    line, *others = parts
    more = "; others"
    for place, part in enumerate(others):
        is_last = place == len(others) - 1
        if len(line) + len(part) + 2 + (0 if is_last else len(more)) > room:
            return line + more
        line = f"{line}; {part}"
    return line


@dataclass(frozen=True)
class _Class:
    name: str
    words: str
    sign: str
    time: int
    share: float

    @property
    def brief(self) -> str:
        return self.words.partition(":")[0].removesuffix(" GPU operation")


def _classes(row: Mapping[str, Any]) -> list[_Class]:
    # Those that take some time, in their order.
    found = []
    for name, column in TIME_CLASS_COLUMNS.items():
        time = row[column]
        if time:
            outside = name in ("before", "after")
            sign = _SIGNS.get(name, _OUTSIDE if outside else _IDLE)
            found.append(_Class(name, TIME_CLASSES[name], sign, time, 100 * time / row["span_ns"]))
    return found


def _bar(row: Mapping[str, Any], cells: int) -> str:
    # The classes end to end; a class ends where the sum so far does, to the nearest cell.
    bar, so_far = "", 0
    for each in _classes(row):
        so_far += each.time
        bar += each.sign * (round(cells * so_far / row["span_ns"]) - len(bar))
    return bar


def _place(row: Mapping[str, Any], *, short: bool = False) -> str:
    # Of a device the name is what is shortened.
    number = "GPU" if row["device_id"] is None else f"GPU {row['device_id']}"
    if row["rank"] is not None:
        number = f"rank {row['rank']}, {number}"
    if not short and row["device"]:
        number += f" ({shorten(row['device'], _NAME)})"
    return number


def _at_work(row: Mapping[str, Any]) -> str:
    return f"busy for {row['busy_pct']:.1f} % of {human(row['span_ns'], Unit.NS)}"


def _in_window(row: Mapping[str, Any]) -> str:
    # The same of the window, where that is another time.
    if not row["window_ns"] or row["window_ns"] == row["span_ns"]:
        return ""
    share, length = 100 * row["busy_ns"] / row["window_ns"], human(row["window_ns"], Unit.NS)
    return f"; {share:.1f} % of {length} from first to last operation"


def _figures_line(row: Mapping[str, Any], room: int = _WIDTH) -> str:
    whole = "; ".join(_figures(row, with_count=True))
    return whole if len(whole) <= room else "; ".join(_figures(row, with_count=False))


def _figures(row: Mapping[str, Any], *, with_count: bool) -> list[str]:
    parts = []
    if row["api_sum_ns"] is not None:
        parts.append(f"API calls {human(row['api_sum_ns'], Unit.NS)}")
    if row["kernel_sum_ns"] is not None:
        count = f" ({row['kernel_count']:,})" if with_count else ""
        parts.append(f"kernels {human(row['kernel_sum_ns'], Unit.NS)}{count}")
    for name, words in _DIRECTIONS.items():
        moved, rate = row[f"{name}_bytes_sum"], row[f"{name}_bytes_per_s"]
        if moved:
            speed = "" if rate is None else f" at {human(rate, Unit.BYTES_PER_S)}"
            parts.append(f"{words} {human(moved, Unit.BYTES)}{speed}")
        elif row[f"{name}_sum_ns"]:
            parts.append(f"{words} {human(row[f'{name}_sum_ns'], Unit.NS)}")
    if row["span_ns"] is None and row["um_sum_ns"]:  # else they are in the account
        parts.append(f"page migrations {human(row['um_sum_ns'], Unit.NS)}")
    return parts


def _largest_line(row: Mapping[str, Any], head: str = "largest: ") -> str:
    parts = []
    if row["top_call"] is not None:
        parts.append(f"call {row['top_call']} {human(row['top_call_sum_ns'], Unit.NS)}")
    if row["top_gap_ns"]:
        parts.append(f"gap {human(row['top_gap_ns'], Unit.NS)}")
    if row["top_kernel"] is not None:
        time = human(row["top_kernel_sum_ns"], Unit.NS)
        room = _WIDTH - len(f"{head}kernel  {time}, {', '.join(parts)}")
        parts.insert(0, f"kernel {shorten_kernel(row['top_kernel'], max(room, _NAME // 2))} {time}")
    # Half of a number is another number.
    while len(parts) > 1 and len(f"{head}{', '.join(parts)}") > _WIDTH:
        parts.pop()
    return f"{head}{', '.join(parts)}" if parts else ""


def _largest_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    # Of several devices the largest of each.
    found: dict[str, Any] = {}
    for time, name in (
        ("top_kernel_sum_ns", "top_kernel"),
        ("top_call_sum_ns", "top_call"),
        ("top_gap_ns", "top_gap_start_ns"),
    ):
        row = max(rows, key=lambda each: each[time] or 0)
        found |= {time: row[time], name: row[name]}
    return found


def _added_up(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    # API time is that of processes, which several devices may share.
    whole: dict[str, Any] = {"span_ns": rows[0]["span_ns"]}
    copies = (f"{name}_{what}" for name in _DIRECTIONS for what in ("bytes_sum", "sum_ns"))
    for name in ("kernel_count", "kernel_sum_ns", "um_sum_ns", *copies):
        values = [row[name] for row in rows]
        whole[name] = None if None in values else sum(values)
    for name in ("htod_bytes_per_s", "dtoh_bytes_per_s"):
        whole[name] = None
    by_process = {(row["profile"], row["rank"], row["api_sum_ns"]) for row in rows}
    times = [time for _, _, time in by_process]
    whole["api_sum_ns"] = None if None in times else sum(times)
    return whole


SUMMARY = Query(
    title="Where the time went",
    needs={Fact.KERNELS},
    uses={*GPU_OP_FACTS, *CALL_FACTS, Fact.OVERHEAD, Fact.THREADS, Fact.RANGES, Fact.OPERATORS},
    totals=frozenset(
        {Fact.KERNEL_TOTALS, Fact.API_TOTALS, Fact.MEMORY_TOTALS, Fact.UNIFIED_MEMORY_TOTALS}
    ),
    columns=COLUMNS,
    say=say,
    partial=partial,
    aggregator=Rows,
)
