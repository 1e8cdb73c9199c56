"""What is known of one event, in sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nsysconv.document import Text
from nsysconv.names import cut_off, escaped, shorten, shorten_kernel, text_width
from nsysconv.report import Report, Unit, human

Row = Mapping[str, Any]

WIDTH, _NAME, _LONG_NAME, _MOST_LINES = 98, 36, 72, 24
_INDENT = "   "
_COMMAND = f"{_INDENT}ncu "
_PARTS = {
    "host": "CPU-bound",
    "launch": "launch latency",
    "queue": "queued",
    "migration": "page migration",
    "profiler": "profiler overhead",
    "unknown": "cause not recorded",
}
_LIMITS = {
    "bandwidth": "memory-bound",
    "compute": "compute-bound",
    "latency": "latency-bound",
    "small grid": "small grid",
}
_SORTS = {
    "push_pop": "a range",
    "start_end": "a start/end range",
    "mark": "a mark",
    "operator": "an operator",
    "python_function": "a Python function",
    "directive": "an OpenACC or OpenMP construct",
    "library_call": "a library call",
}


def sentences(report: Report) -> tuple[Text, ...]:
    """Return what the row of one event says, in at most 24 lines of 98 characters; notes by name."""
    (row,) = report.rows()
    of_gap = (_what, _parts_of_gap, _ended_by, _whence, _unknown)
    of_others = (_what, _whence, _before, _after, _launched, _profiled, _unknown)
    parts = of_gap if row["kind"] == "gap" else of_others
    lines = [line for part in parts for line in part(row)]
    slugs = list(dict.fromkeys(note.slug for note in report.notes))
    if "clocks-disagree" in slugs:
        lines.append("CPU and GPU timestamps use different clocks: waits and causes are unknown")
    if slugs:
        lines = [*lines[: _MOST_LINES - 1], f"notes: {', '.join(slugs)}"]
    return (Text("", tuple(map(_line, lines[:_MOST_LINES])), laid_out=True),)


def moment(ns: int) -> str:
    """Return a moment since the profile's zero to the ns: `1.234567 ms`, as `--time` takes it."""
    size = abs(ns)
    if size < 1000:
        return f"{ns} ns"
    places, unit = (9, "s") if size >= 10**9 else (6, "ms") if size >= 10**6 else (3, "µs")
    whole, rest = divmod(size, 10**places)
    decimals = f"{rest:0{places}d}".rstrip("0")
    return f"{'-' if ns < 0 else ''}{whole}{'.' if decimals else ''}{decimals} {unit}"


def _line(text: str) -> str:
    if text.startswith(_COMMAND):
        return text
    return cut_off(text, WIDTH) if text_width(text) <= WIDTH else _narrow(text)


def _narrow(text: str) -> str:
    # A character may take two cells, so the text is cut until it fits.
    while text_width(text) > WIDTH:
        text = cut_off(text, len(text) - 1)
    return text


def _time(ns: float) -> str:
    return human(ns, Unit.NS)


def _named(before: str, row: Row, prefix: str, after: str = "") -> str:
    # The line has an event's id and name, as `launched by api_call:7 cudaLaunchKernel`; the name is cut
    # to the room that is left.
    event, name = row[prefix], escaped(row[f"{prefix}_name"] or "")
    return f"{before}{event} {_short(event, name, WIDTH - len(f'{before}{event} {after}'))}{after}"


def _short(event: str, name: str, width: int) -> str:
    cut = shorten_kernel if event.startswith("kernel:") else shorten
    while text_width(cut(name, width)) > width and width > 1:
        width -= 1
    return cut(name, width)


# -- what it is, and where it was


def _what(row: Row) -> Iterator[str]:
    name = _short(row["event"], escaped(row["name"]), _LONG_NAME)
    sort = _SORTS.get(row["sort"] or "")
    plain = "" if row["sort"] in (None, "push_pop", "operator") else f", {sort}"
    yield f"{row['event']} {name}{plain}"
    yield f"{_INDENT}{', '.join(_where(row))}"
    if row["start_ns"] is None:
        yield f"{_INDENT}no timestamp was recorded"
        return
    lasted = "" if row["dur_ns"] is None else f" for {_time(row['dur_ns'])}"
    moved = "" if row["bytes"] is None else f", {human(row['bytes'], Unit.BYTES)}"
    if row["bytes"] and row["dur_ns"]:
        moved += f" at {human(row['bytes'] * 1e9 / row['dur_ns'], Unit.BYTES_PER_S)}"
    yield f"{_INDENT}at {moment(row['start_ns'])}{lasted}{moved}"
    if row["dur_ns"] is not None and row["name_count"]:
        yield f"{_INDENT}{_compared(row)}"
    if row["compute_pct"] is not None or row["memory_pct"] is not None:
        yield from _wrapped(_at_peak(row), 2)


def _where(row: Row) -> Iterator[str]:
    if row["device_id"] is not None:
        model = f" ({shorten(escaped(row['device']), _NAME)})" if row["device"] else ""
        yield f"GPU {row['device_id']}{model}"
    if row["stream_id"] is not None:
        yield f"stream {row['stream_id']}"
    if row["kind"] in ("api_call", "range", "operator") and row["tid"] is not None:
        yield _thread(row)
    if row["rank"] is not None:
        yield f"rank {row['rank']}"
    yield f"process {row['pid']}"


def _thread(row: Row) -> str:
    name = f" {shorten(escaped(row['thread']), _NAME // 2)}" if row["thread"] else ""
    return f"thread {row['tid']}{name}"


def _compared(row: Row) -> str:
    is_gap = row["kind"] == "gap"
    if row["name_count"] == 1:
        return "the only gap of this GPU" if is_gap else "the only one with this name"
    median, longest = row["name_med_ns"], row["name_max_ns"]
    ratio = f" (this one {row['dur_ns'] / median:,.2f}×)" if median else ""
    own = "; this is the longest" if row["dur_ns"] == longest else f", the longest {_time(longest)}"
    of = "gaps of this GPU" if is_gap else "with this name"
    return f"1 of {row['name_count']:,} {of}; median {_time(median)}{ratio}{own}"


def _at_peak(row: Row) -> str:
    shares = [
        f"{row[f'{column}_pct']:.0f} % of peak {what}"
        for column, what in (("memory", "bandwidth"), ("compute", "compute"))
        if row[f"{column}_pct"] is not None
    ]
    limit = f" ({_LIMITS[row['limit']]})" if row["limit"] else ""
    count = row["measured_count"]
    of_name = "another launch" if count == 1 else f"{count or 0:,} launches"
    measured = "in this launch" if count is None else f"in {of_name} of this name"
    return f"at {' and '.join(shares)}{limit}, measured {measured}"


# -- what it came from


def _whence(row: Row) -> Iterator[str]:
    is_gap = row["kind"] == "gap"
    if row["call"] is not None:
        on = f" on {_thread(row)}" if row["tid"] is not None else ""
        began = f"at {moment(row['call_start_ns'])} for {_time(row['call_dur_ns'])}"
        yield _named("which was launched by " if is_gap else "launched by ", row, "call", on)
        yield from _wrapped(f"{began}{_latency(row)}", 2)
    elif row["kind"] in ("kernel", "memcpy", "memset", "graph_launch", "gap"):
        yield "the launch of that was not recorded" if is_gap else "its launch was not recorded"
    if row["caller"] is not None:
        yield f"{_INDENT}called by {_short('kernel:', escaped(row['caller']), _LONG_NAME)}"
    if row["outer_call"] is not None:
        yield f"{_INDENT}inside {row['outer_call']}, which owns what is launched in it"
    if row["operator"] is not None:
        yield _named(f"{_INDENT}in ", row, "operator")
    if row["range"] is not None:
        path = escaped(row["path"])
        yield f"{_INDENT}in {row['range']} {_short(row['range'], path, _LONG_NAME)}"
    if row["step"] not in (None, row["name"]):
        yield f"{_INDENT}in the step {_short('', escaped(row['step']), _LONG_NAME)}"
    if row["kind"] == "api_call" and row["latency_ns"] is not None:
        yield f"{_INDENT}what it launched{_latency(row, '')}"


def _latency(row: Row, begin: str = "; it") -> str:
    if row["latency_ns"] is None:
        return ""
    since = f"{begin} started {_time(row['latency_ns'])}"
    if row["queue_time_ns"] is None:
        return f"{since} into the call"
    return f"{since} after the call began, {_time(row['queue_time_ns'])} after it returned"


# -- what ran before


def _before(row: Row) -> Iterator[str]:
    if row["device_id"] is None or row["dur_ns"] is None:
        return
    on_stream, on_device = row["before_on_stream"], row["before_on_device"]
    if on_device is None:
        yield "nothing ran on the device before it"
        return
    if on_stream is None and row["stream_id"] is not None:
        yield "nothing ran on its stream before it"
    elif on_stream is not None and on_stream != on_device:
        since = _since(row["since_on_stream_ns"])
        yield _named("before it on its stream: ", row, "before_on_stream", since)
    where = "stream and device" if on_stream == on_device else "the device"
    since = _since(row["since_on_device_ns"])
    yield _named(f"before it on {where}: ", row, "before_on_device", since)
    if row["depends_on"] is not None:
        since = _since(row["since_depends_on_ns"])
        yield _named("its stream waited for an event after ", row, "depends_on", since)
    yield from _gap(row)


def _since(ns: int) -> str:
    if ns < 0:
        return f", which ended {_time(-ns)} after it began"
    return f", which ended {_time(ns)} before" if ns else ", which ended as it began"


def _parts(row: Row) -> list[str]:
    # What a gap consists of, in words, the largest first.
    spent = {words: row[f"{part}_ns"] for part, words in _PARTS.items() if row[f"{part}_ns"]}
    listed = sorted(spent.items(), key=lambda item: -item[1])
    return [f"{words} {_time(ns)}" for words, ns in listed]


def _gap(row: Row) -> Iterator[str]:
    if row["gap_ns"] is None:
        return
    head = f"{_INDENT}the device was idle for {_time(row['gap_ns'])} before it ({row['gap']}): "
    parts = _parts(row)
    # If the parts do not fit in one line, there are two.
    if len(head + ", ".join(parts)) <= WIDTH:
        yield head + ", ".join(parts)
    else:
        fitting = 2 if len(head + ", ".join(parts[:2])) <= WIDTH and len(parts) > 2 else 1
        yield head + ", ".join(parts[:fitting])
        yield f"{_INDENT * 2}{', '.join(parts[fitting:])}"
    if row["gap_ended_by"] != row["event"]:
        yield f"{_INDENT}{row['gap_ended_by']} began at the same time; the parts are of its launch"
    if row["during"] is not None:
        name = shorten(escaped(row["during"]), _LONG_NAME - len(_INDENT))
        yield f"{_INDENT}the host was in {name} for {_time(row['during_ns'])} of that"


def _parts_of_gap(row: Row) -> Iterator[str]:
    yield f"{_INDENT}{', '.join(_parts(row))}"
    if row["host_did"] is not None:
        yield from _wrapped(f"the host meanwhile: {row['host_did']}", 2)


def _ended_by(row: Row) -> Iterator[str]:
    if row["before_on_device"] is not None:
        yield _named("it began as ", row, "before_on_device", " ended")
    yield _named("it ended as ", row, "gap_ended_by", " began")


# -- what came of it


def _after(row: Row) -> Iterator[str]:
    if row["waited_by"] is not None:
        after = row["waited_by_after_ns"]
        when = f"{_time(after)} after it ended" if after else "as it ended"
        yield _named("waited for by ", row, "waited_by", f", which returned {when}")
    if row["next"] is not None:
        after = row["next_after_ns"]
        when = f"{_time(after)} after it ended" if after else "as it ended"
        yield _named("queued behind it: ", row, "next", f", which began {when}")
    if row["waited_for"] is not None:
        before = f", which ended {_time(row['waited_for_before_ns'])} before it returned"
        yield _named("it waited until the end of ", row, "waited_for", before)


def _launched(row: Row) -> Iterator[str]:
    count = row["op_count"]
    if count is not None:
        if not count:
            yield "no recorded operation was launched by it"
        elif count == 1:
            yield _named("launched ", row, "first_op", _sum(row))
        else:
            by = f" by {row['launch_count']:,} calls" if row["launch_count"] > 1 else ""
            yield f"launched {count:,} operations{by}{_sum(row, ' together')}"
            yield _named(f"{_INDENT}the first is ", row, "first_op")
    if row["busy_with"] is not None:
        share = f"{_time(row['busy_ns'])} of {_time(row['dur_ns'])}"
        yield _named(
            f"its process kept a GPU busy meanwhile for {share}, longest with ", row, "busy_with"
        )
    elif row["busy_ns"] is not None and row["dur_ns"]:
        yield "its process kept no GPU busy meanwhile"


def _sum(row: Row, together: str = "") -> str:
    if row["op_sum_ns"] is None:
        return ", of which no timestamp was recorded"
    return f", of {_time(row['op_sum_ns'])}{together}"


def _profiled(row: Row) -> Iterator[str]:
    if row["profile_command"] is not None:
        yield "to profile this launch, counted from the start of the recording:"
        yield f"{_INDENT}{escaped(row['profile_command'])}"


def _unknown(row: Row) -> Iterator[str]:
    if row["not_recorded"] is not None:
        yield f"not recorded: {row['not_recorded']}"
    if row["advice"] is not None:
        yield from _wrapped(row["advice"], 2)


def _wrapped(text: str, most: int) -> Iterator[str]:
    words, line, lines = escaped(text).split(), "", []
    for word in words:
        if line and len(f"{_INDENT}{line} {word}") > WIDTH:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    lines.append(line)
    if len(lines) > most:
        lines[most - 1] += " …"
    yield from (f"{_INDENT}{each}" for each in lines[:most])
