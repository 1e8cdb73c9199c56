"""The answer in sentences: where the time went, and what holds the run back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from nsysconv.codes import TIME_CLASS_COLUMNS, TIME_CLASSES
from nsysconv.document import Section, Text
from nsysconv.names import cut_off, drop_clauses, shorten, shorten_kernel
from nsysconv.notes import Note, Severity
from nsysconv.present.next_steps import INDENT, WIDTH, lines_of, next_steps, tables_line
from nsysconv.queries.cycles import are_ranks
from nsysconv.queries.findings.contract import COST, RISK, SAVING, is_minor
from nsysconv.report import Report, Unit, human

Row = Mapping[str, Any]

_DIRECTIONS = {"htod": "HtoD", "dtoh": "DtoH"}
_BAR, _SHORT_BAR, _TINY_BAR = 60, 30, 12
_MOST_PROFILES = 8
_SIGNS = {"computation": "█", "communication": "▓", "memcpy": "▒", "memset": "▒", "migration": "▒"}
_IDLE, _OUTSIDE = "░", "·"
_MOST_BARS, _MOST_CLASSES = 4, 4
_WITHOUT_TIMES = (
    "Only totals per name are recorded, not timestamps: idle time and its causes are unknown."
)
_WITHOUT_LENGTH = "All recorded events have the same timestamp: there is no time to break down."
_NAME = 36


def where_time_went(summary: Report) -> tuple[Text, ...]:
    """Return what the rows of `summary` say, in at most 11 lines."""
    rows = summary.rows()
    about = recorded(rows)
    with_account = [row for row in rows if row["span_ns"]]
    if not with_account:
        both = (
            line for row in rows[:_MOST_BARS] for line in (_figures_line(row), _largest_line(row))
        )
        figures = [cut_off(line, WIDTH) for line in both if line]
        has_times = any(row["span_ns"] is not None for row in rows)
        first = _WITHOUT_LENGTH if has_times else _WITHOUT_TIMES
        return (Text("", (*about, first, *figures), laid_out=True),) if rows else ()
    if len(with_account) == 1:
        lines = [*_one_device(with_account[0])]
    elif _are_one_run(summary, rows):
        lines = [*_several_devices(with_account)]
    else:
        lines, about = [*_several_programs(with_account)], []
    lines = [*about, *lines]
    return (Text("", tuple(cut_off(line, WIDTH) for line in lines), laid_out=True),)


def recorded(rows: Sequence[Row]) -> list[str]:
    """Return a line with the GPUs' names, the profiler, and the length of the longest profile."""
    names = [row["device"] for row in rows if row["device"]]
    parts = [
        f"{f'{count} × ' if count > 1 else ''}{shorten(name, _NAME)}"
        for name, count in Counter(names).items()
    ]
    parts += dict.fromkeys(row["tool"] for row in rows if row["tool"])
    length = max((row["span_ns"] or 0 for row in rows), default=0)
    parts += [human(length, Unit.NS)] if length else []
    steps = max((row["step_count"] or 0 for row in rows), default=0)
    if steps:
        what = next(row["steps"] for row in rows if row["step_count"])
        parts.append(f"{steps:,} {'step' if steps == 1 else 'steps'} ({shorten(what, _NAME)})")
    lines = [_while_it_fits(parts, WIDTH, ", ")] if parts else []
    phases = next((row["phases"] for row in rows if row["phases"]), None)
    return [*lines, f"steps by phase: {phases}"] if phases else lines


def _are_one_run(summary: Report, rows: Sequence[Row]) -> bool:
    # Profiles without ranks of their own, of several profilers, or of GPUs that differ, are not known to
    # be one run.
    if len({row["profile"] for row in rows}) == 1:
        return True
    gpus = {row["device"] for row in rows if row["device"]}
    tools = {(row["tool"] or "").partition(" ")[0] for row in rows}
    found = ((row["profile"], row["rank"]) for row in rows)
    return len(gpus) <= 1 and len(tools) == 1 and are_ranks(summary.profiles, found)


def _several_programs(rows: Sequence[Row]) -> Iterator[str]:
    devices = Counter(row["profile"] for row in rows)
    yield f"{len(devices)} profiles that are not known to be ranks of one run:"
    for row in rows[:_MOST_PROFILES]:
        label = shorten(row["profile"], _NAME)
        device = f", {shorten(row['device'], _NAME)}" if row["device"] else ""
        label += f", {_place(row)}" if devices[row["profile"]] > 1 else ""
        yield f"{_bar(row, _TINY_BAR)} {label}: {_at_work(row)}{device}"
    if len(rows) > _MOST_PROFILES:
        yield f"and {len(rows) - _MOST_PROFILES} more: one row each in the report summary"


def _one_device(row: Row) -> Iterator[str]:
    yield f"{_place(row)}: {_at_work(row)}{_in_window(row)}"
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
        yield head + _while_it_fits((each.brief for each in rest), WIDTH - len(head))
    yield _figures_line(row)
    largest = _largest_line(row)
    if largest:
        yield largest


def _several_devices(rows: Sequence[Row]) -> Iterator[str]:
    chosen = [("", row) for row in rows]
    if len(rows) > _MOST_BARS:
        ordered = sorted(rows, key=lambda row: row["busy_pct"])
        kinds = ("least busy: ", "median: ", "most busy: ")
        three = (ordered[0], ordered[(len(rows) - 1) // 2], ordered[-1])
        chosen = list(zip(kinds, three, strict=True))
        yield f"{len(rows)} devices: the least, median and most busy."
    for kind, row in chosen:
        yield f"{_bar(row, _SHORT_BAR)} {kind}{_place(row)}: {_at_work(row)}"
        top = sorted(_classes(row), key=lambda each: -each.time)[:3]
        words = (f"{each.sign} {each.share:.1f} % {each.brief}" for each in top)
        yield f"{' ' * _SHORT_BAR} {_while_it_fits(words, WIDTH - _SHORT_BAR - 1)}"
    of_all = f"all {len(rows)} together: "
    yield of_all + _figures_line(_added_up(rows), WIDTH - len(of_all))
    if len(rows) < _MOST_BARS:
        yield _largest_line(_largest_of(rows), "largest on one: ")


def _while_it_fits(parts: Iterable[str], room: int, between: str = "; ") -> str:
    line, *others = parts
    more = f"{between}others"
    for place, part in enumerate(others):
        is_last = place == len(others) - 1
        if len(line) + len(part) + 2 + (0 if is_last else len(more)) > room:
            return line + more
        line = f"{line}{between}{part}"
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


def _classes(row: Row) -> list[_Class]:
    # Classes without time are left out.
    found = []
    for name, column in TIME_CLASS_COLUMNS.items():
        time = row[column]
        if time:
            outside = name in ("before", "after")
            sign = _SIGNS.get(name, _OUTSIDE if outside else _IDLE)
            found.append(_Class(name, TIME_CLASSES[name], sign, time, 100 * time / row["span_ns"]))
    return found


def _bar(row: Row, cells: int) -> str:
    # The classes end to end; a class ends where the sum so far does, to the nearest cell.
    bar, so_far = "", 0
    for each in _classes(row):
        so_far += each.time
        bar += each.sign * (round(cells * so_far / row["span_ns"]) - len(bar))
    return bar


def _place(row: Row) -> str:
    number = "GPU" if row["device_id"] is None else f"GPU {row['device_id']}"
    return number if row["rank"] is None else f"rank {row['rank']}, {number}"


def _at_work(row: Row) -> str:
    return f"busy for {row['busy_pct']:.1f} % of {human(row['span_ns'], Unit.NS)}"


def _in_window(row: Row) -> str:
    # The window's share is added if its length differs from that of the span.
    if not row["window_ns"] or row["window_ns"] == row["span_ns"]:
        return ""
    share, length = 100 * row["busy_ns"] / row["window_ns"], human(row["window_ns"], Unit.NS)
    return f"; {share:.1f} % of {length} from first to last operation"


def _figures_line(row: Row, room: int = WIDTH) -> str:
    whole = "; ".join(_figures(row, with_count=True))
    return whole if len(whole) <= room else "; ".join(_figures(row, with_count=False))


def _figures(row: Row, *, with_count: bool) -> list[str]:
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


def _largest_line(row: Row, head: str = "largest: ") -> str:
    parts = []
    if row["top_call"] is not None:
        parts.append(f"call {row['top_call']} {human(row['top_call_sum_ns'], Unit.NS)}")
    if row["top_gap_ns"]:
        parts.append(f"gap {human(row['top_gap_ns'], Unit.NS)}")
    if row["top_kernel"] is not None:
        time = human(row["top_kernel_sum_ns"], Unit.NS)
        room = WIDTH - len(f"{head}kernel  {time}, {', '.join(parts)}")
        parts.insert(0, f"kernel {shorten_kernel(row['top_kernel'], max(room, _NAME // 2))} {time}")
    # Half of a number is another number.
    while len(parts) > 1 and len(f"{head}{', '.join(parts)}") > WIDTH:
        parts.pop()
    return f"{head}{', '.join(parts)}" if parts else ""


def _largest_of(rows: Sequence[Row]) -> dict[str, Any]:
    # Each figure comes from the device where it is largest.
    found: dict[str, Any] = {}
    for time, name in (
        ("top_kernel_sum_ns", "top_kernel"),
        ("top_call_sum_ns", "top_call"),
        ("top_gap_ns", "top_gap_start_ns"),
    ):
        row = max(rows, key=lambda each: each[time] or 0)
        found |= {time: row[time], name: row[name]}
    return found


def _added_up(rows: Sequence[Row]) -> dict[str, Any]:
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


# -- bottlenecks

_MOST_FINDING_LINES, _MOST_SHOWN, _NOISE = 10, 3, 20
_HEADED = {SAVING: "avoidable time, upper bounds{together}:", COST: "largest costs:"}


def what_holds_it_back(
    findings: Report, most_lines: int = _MOST_FINDING_LINES, *, headed: bool = True
) -> tuple[Text, ...]:
    """Return the findings in one sentence, and as numbered lists of about so many lines.

    These have the largest, each in a line if there is no room for its sentence and advice, then names
    of the rest. `headed`: savings and costs have headings.
    """
    rows = findings.rows()
    shown = shown_findings(rows)
    kinds = {row["kind"] for row in shown}
    numbers = {row["rule"]: number for number, row in enumerate(shown, 1)}
    relations = [_relations(row, rows, numbers) for row in shown]
    items = [_brief_item(*each) for each in zip(numbers.values(), shown, relations, strict=True)]
    for place, row in enumerate(shown):
        whole = _item(place + 1, row, relations[place])
        height = sum(
            lines_of(line) for item in (*items[:place], whole, *items[place + 1 :]) for line in item
        )
        if place == 0 or height <= most_lines:
            items[place] = whole
    lines: list[str] = []
    for number, row in enumerate(shown, 1):
        before = shown[number - 2]["kind"] if number > 1 else None
        is_headed = row["kind"] == SAVING or kinds >= _HEADED.keys()
        if headed and is_headed and len(shown) > 1 and row["kind"] in _HEADED.keys() - {before}:
            lines.append(_HEADED[row["kind"]].format(together=_together(rows)))
        lines += items[number - 1]
    rest = [row for row in rows if row not in shown and not row["same_as"]]
    also = [_short(row) for row in rest if not is_minor(row)]
    below = [row["rule"] for row in rest if is_minor(row)]
    named = _listed("also", also, WIDTH)
    if below:
        room = WIDTH - len(named) - len("; ") if named else WIDTH
        named = "; ".join(filter(None, (named, _listed("below 1 %", below, room))))
    lines += [named] if named else []
    if not lines:
        return ()
    first = [Text("", (headline(shown),), laid_out=True)] if shown else []
    return (*first, Text("", tuple(lines), laid_out=True))


# How much larger start-up has to be than what the sentence names, and how it is said.
_LARGER = 2.0
# What is called most of the time.
_MOST_PCT = 50.0
_AROUND_WORDS = {
    "start_up": "Start-up takes more:",
    "tear_down": "API calls after the last GPU operation take more:",
}


def headline(shown: Sequence[Row]) -> str:
    """Return the first finding as the sentence that the answer begins with; a risk and the next one.

    Start-up and tear-down are behind what is in the window: if one of them is larger, that is said.
    """
    said = [_sentence(row) for row in shown[: 2 if shown[0]["kind"] == RISK else 1]]
    first = shown[len(said) - 1]["share_pct"] or 0.0
    around = [
        f"{_AROUND_WORDS[row['rule']]} up to {row['share_pct']:.1f} %."
        for row in shown[len(said) :]
        if row["rule"] in _AROUND_WORDS and (row["share_pct"] or 0.0) > _LARGER * first
    ]
    return " ".join([*said, *around])


def _sentence(row: Row) -> str:
    cause = f"{row['cause']} ({row['where']})" if row["where"] else row["cause"]
    time = row["saving_ns"] if row["kind"] == SAVING else row["cost_ns"]
    if time is None:
        return f"{cause[:1].upper()}{cause[1:]}."
    share = human(time, Unit.NS)
    if row["per_step_ns"] is not None:
        share = f"{human(row['per_step_ns'], Unit.NS)} per step"
    if row["share_pct"] is not None:
        share = f"{row['share_pct']:.1f} % ({share})"
    if row["kind"] == SAVING:
        return f"Up to {share} could be saved: {cause}."
    is_most = (row["share_pct"] or 0.0) > _MOST_PCT
    return f"{'Most time goes to' if is_most else 'The largest cost is'} {cause}: {share}."


def _together(rows: Sequence[Row]) -> str:
    # All savings together, where there are several.
    savings = [row for row in rows if row["kind"] == SAVING and not row["same_as"]]
    if len(savings) < 2:
        return ""
    return f"; all of them together save up to {savings[0]['all_savings_pct']:.1f} %"


def _relations(row: Row, rows: Sequence[Row], numbers: Mapping[str, int]) -> list[str]:
    # The words say which other findings are the same time, and of which this is a part.
    same = [_short(other) for other in rows if other["same_as"] == row["rule"]]
    words = [f"also seen as {', '.join(same)}"] if same else []
    if row["part_of"]:
        number = numbers.get(row["part_of"])
        words.append(f"part of {row['part_of'] if number is None else number}")
    return words


def event_of(row: Row) -> str | None:
    """Return the id of what a finding is explained by: its gap, else its event; None: neither."""
    event: str | None = row["gap"] or row["event"]
    return event


def shown_findings(rows: Sequence[Row]) -> list[Row]:
    """Return the findings that have a number in the answer, in their order.

    None left out is larger, but for one whose time another one explains: the cause has the number.
    """
    large = [row for row in rows if not is_minor(row) and not row["same_as"]]
    # The first is of the work, if there is such.
    by_size = sorted(large, key=lambda row: (row is not large[0], -(row["share_pct"] or 0.0)))
    # Beside one of 20 times its size a finding is noise.
    most = max((row["share_pct"] or 0.0 for row in large), default=0.0)
    chosen = [
        row for row in by_size[:_MOST_SHOWN] if not 0 < _NOISE * (row["share_pct"] or 0) < most
    ]
    return [row for row in large if row in chosen or row is large[0]]


def _listed(head: str, names: Sequence[str], room: int) -> str:
    # The names that there is room for, and how many others there are.
    line, shown = f"{head}: {', '.join(names)}", len(names)
    while len(line) > room and shown:
        shown -= 1
        more = len(names) - shown
        line = f"{head}: {', '.join(names[:shown])} and {more} more" if shown else f"{head}: {more}"
    return line if names else ""


def _short(row: Row) -> str:
    share = "" if row["share_pct"] is None else f" {row['share_pct']:.1f} %"
    return f"{row['rule']}{share}"


def _item(number: int, row: Row, relations: Sequence[str]) -> list[str]:
    places = [row["where"]] if row["where"] else []
    if row["device_count"] > 1:
        what = "profiles" if row["device_id"] is None else "GPUs"
        places.append(f"on {row['device_count']:,} {what}")
    places += relations
    where_to_look = " ".join(filter(None, (row["report"], row["slice"])))
    return [
        f"{number}. {row['rule']}{_amount(row)}{_in_brackets(places)}: {row['finding']}",
        f"{INDENT}{row['advice']} → {where_to_look}",
    ]


def _brief_item(number: int, row: Row, relations: Sequence[str]) -> list[str]:
    places = [*([row["where"]] if row["where"] else []), *relations]
    line = f"{number}. {row['rule']}{_amount(row)}{_in_brackets(places)}: {row['cause']}"
    return [f"{line} → {row['report']}" if len(f"{line} → {row['report']}") <= WIDTH else line]


def _in_brackets(parts: Sequence[str]) -> str:
    return f" ({'; '.join(parts)})" if parts else ""


def _amount(row: Row) -> str:
    verb = "saves up to" if row["kind"] == SAVING else "takes"
    return "" if row["share_pct"] is None else f", {verb} {row['share_pct']:.1f} %"


# -- the whole of it

_TOTALS = {
    "kernel_sum_ns": "kernels",
    "htod_sum_ns": "HtoD copies",
    "dtoh_sum_ns": "DtoH copies",
    "um_sum_ns": "page migrations",
}
_MOST_LINES, _FEWEST_NEXT = 25, 2
_MOST_CHOICES = 18
_LOST = "gpu-activity-missing"


def document(made: Sequence[Section], command: str, why: str | None) -> list[Section]:
    """Return the answer, of the reports `summary` and `findings`: at most 25 lines.

    `command` is the target as it is typed, `why` how to ask about the first event of a finding.
    """
    notes = noted(made)
    shown = [replace(each, notes=(), advice=()) for each in made if each.texts]
    findings = made[-1]
    room = _MOST_LINES
    # Names are not shortened in a command: long ones take more lines.
    fewest = _FEWEST_NEXT + lines_of(tables_line(command)) + lines_of(f"→ why: {why}") - 2
    if shown:
        # The sentence that sums the findings up comes before all but what it rests on.
        has_sentence = len(findings.texts) > 1
        top = findings.texts[0].lines if has_sentence else _largest_part(made[0].rows())
        first = shown[0].texts[0]
        lines = (*caveats(notes), *top, *first.lines)
        shown[0] = replace(shown[0], texts=(replace(first, lines=lines),))
        # Where there is little room, sentences of further findings go first, then the headings.
        sizes = [
            (most, headed) for headed in (True, False) for most in range(_MOST_FINDING_LINES, 0, -1)
        ]
        for most_lines, headed in sizes:
            if has_sentence:
                texts = what_holds_it_back(findings, most_lines, headed=headed)
                shown[-1] = replace(shown[-1], texts=texts[1:])
            room = _MOST_LINES - sum(map(_height, shown))
            if room >= fewest or not has_sentence:
                break
    notes.pop(_LOST, None)
    further = _further_events(findings)
    return [*shown, words("next", next_steps(notes, command, why, further, room))]


def _largest_part(rows: Sequence[Row]) -> list[str]:
    # The sentence on one device without a finding to sum up: its largest class, or its largest total.
    if len(rows) != 1:
        return []
    (row,) = rows
    if row["span_ns"]:
        largest = max(_classes(row), key=lambda each: each.time)
        verb = "passed" if largest.name in ("before", "after") else "goes to"
        most = "Most time" if largest.share > _MOST_PCT else "The largest part of the time"
        share = f"{largest.share:.1f} % ({human(largest.time, Unit.NS)})"
        return [f"{most} {verb} {largest.words}: {share}."]
    totals = {words: row[column] for column, words in _TOTALS.items() if row[column]}
    if len(totals) < 2:
        return []
    what = max(totals, key=totals.__getitem__)
    share = 100 * totals[what] / sum(totals.values())
    most = "Most GPU time" if share > _MOST_PCT else "The largest part of GPU time"
    return [f"{most} goes to {what}: {share:.1f} % ({human(totals[what], Unit.NS)})."]


def has_work(row: Row) -> bool:
    """Return whether a row of `summary` has GPU work."""
    return bool(row["busy_ns"] or row["kernel_count"])


def choices(names: Sequence[str], command: str) -> list[Section]:
    """Return the answer on a target that holds several runs: their names."""
    return [words("several", _choices(names, command))]


def noted(made: Sequence[Section]) -> dict[str, Note]:
    """Return the notes of reports by their slugs."""
    return {note.slug: note for each in made for note in each.notes}


def caveats(notes: Mapping[str, Note]) -> list[str]:
    """Return what is missing or not exact, which comes before anything that rests on it."""
    lost = notes.get(_LOST)
    doubts = [
        note for slug, note in notes.items() if slug != _LOST and note.severity is not Severity.INFO
    ]
    caveat = [_doubt(doubts)] if doubts else list(_partly(notes))
    return [*(_lost_work(lost) if lost else ()), *caveat]


def _choices(names: Sequence[str], command: str) -> Iterator[str]:
    yield f"It holds several profiles; choose one: nsysconv {command}@NAME"
    yield from (cut_off(f"   {choice}", WIDTH) for choice in names[:_MOST_CHOICES])
    if len(names) > _MOST_CHOICES:
        yield f"   and more: nsysconv runs {command}"


def _partly(notes: Mapping[str, Note]) -> Iterator[str]:
    # These sentences say that a figure is exact but covers less than it seems to.
    from nsysconv.queries.findings.report import LEFT_OUT

    if "rules-cannot-look" in notes and LEFT_OUT in notes["rules-cannot-look"].text:
        yield "! Other operations ran during this selection; that time counts as idle here."
    elif "ranks-missing" in notes:
        yield drop_clauses(f"! {notes['ranks-missing'].text}", WIDTH)


def _doubt(doubts: Sequence[Note]) -> str:
    # The first note on missing data is shown, else the first on data that is not exact.
    worst = min(doubts, key=lambda note: note.severity is not Severity.DROPPED)
    more = f" (and {len(doubts) - 1} more)" if len(doubts) > 1 else ""
    return drop_clauses(f"! {worst.severity.value}: {worst.text}", WIDTH - len(more)) + more


def _lost_work(note: Note) -> Iterator[str]:
    yield f"! {note.text}: the profiler lost it."
    yield "  Possible causes: missing permissions, WSL, a killed process, an unsupported driver."


def _height(shown: Section) -> int:
    # The height includes the title and the empty line before the next report.
    lines = [line for text in shown.texts for line in text.lines]
    return 2 + sum(map(lines_of, lines))


def _further_events(findings: Section) -> list[str]:
    # The events are those of the findings after the first that has one, by their numbers. There are
    # none for several profiles.
    if len(findings.profiles) > 1:
        return []
    shown = shown_findings(findings.rows())
    events: dict[str, int] = {}
    for number, row in enumerate(shown, 1):
        if (event := event_of(row)) is not None:
            events.setdefault(event, number)
    return [f"{number}: {event}" for event, number in events.items()][1:]


def words(name: str, lines: Iterable[str]) -> Section:
    """Return lines as a section without rows."""
    texts = (Text("", tuple(lines), laid_out=True),)
    return Section(name, "", (), pa.table({}), texts=texts)
