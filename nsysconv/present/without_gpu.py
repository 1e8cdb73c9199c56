"""The answer on what has no GPU work: hardware counters, source lines, the host alone, or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from nsysconv.document import Section, Text
from nsysconv.names import shorten, shorten_kernel
from nsysconv.present.answer import caveats, noted, recorded, words
from nsysconv.present.next_steps import WIDTH, one_line
from nsysconv.report import Unit, human


def without_work(
    made: Sequence[Section], command: str, answered: Sequence[str] | None
) -> list[Section]:
    """Return the answer where no GPU work has a time, by what else is answered; None: in this part."""
    lines = _without_work_in_part(command) if answered is None else _without_work(command, answered)
    return [words("nothing", [*caveats(noted(made)), *_diagnosed(made), *lines])]


DIAGNOSTIC = "profiler-diagnostic"
"""The slug of notes on what the profiler itself says of its recording."""
_MOST_DIAGNOSED = 3


def _diagnosed(made: Sequence[Section]) -> list[str]:
    # Why there is no GPU work may be among what the profiler said, in the end.
    said = dict.fromkeys(note.text for note in made[0].notes if note.slug == DIAGNOSTIC)
    return [f"{text[:1].upper()}{text[1:]}" for text in [*said][-_MOST_DIAGNOSED:]]


HOST = {
    "operators": ("operators, own time", "name", "host_self_sum_ns"),
    "modules": ("modules, own time", "name", "host_self_sum_ns"),
    "ranges": ("ranges, own time", "path", "self_sum_ns"),
    "api_vs_kernel": ("API calls", "name", "api_sum_ns"),
}
"""The reports on what the host did: their rows in words, the columns of a name and of its own time."""
COPIES = "transfers"
_COLUMNS = {**HOST, COPIES: ("copies", "direction", "memcpy_sum_ns")}
_MOST_ROWS, _MOST_REPORTS = 6, 2


def without_kernels(
    made: Sequence[Section],
    host: Sequence[Section],
    copies: Section | None,
    command: str,
    answered: Sequence[str],
) -> list[Section]:
    """Return the answer where no kernels are recorded: copies, and what took most of the host's time."""
    lines = [*caveats(noted(made)), *_diagnosed(made)]
    if copies is None:
        lines.append(f"{command} has no timed GPU work. Where the host's time went:")
    else:
        lines.append(
            f"{command} has memory copies, and no kernels are recorded: idle time is unknown."
        )
        lines += ["", "copies:", *_most(copies)]
    by_time = sorted(host, key=lambda report: -sum(_times(report).values()))
    for report in by_time[: _MOST_REPORTS - (copies is not None)]:
        lines += ["", f"{_words_of(report)[0]}:", *_most(report)]
    names = [name for name in answered if name in _COLUMNS]
    names += [name for name in answered if name not in names]
    more = [
        _names_that_fit(f"→ all of it: nsysconv report {command}", names),
        f"→ what is recorded, what is missing, and how to record it: nsysconv info {command}",
    ]
    return [words("host", lines), words("next", more)]


def _words_of(report: Section) -> tuple[str, str, str]:
    return _COLUMNS[report.name.partition(":")[0]]


def _times(report: Section) -> dict[str, int]:
    _, name, time = _words_of(report)
    by_name: dict[str, int] = {}
    for row in report.rows():
        by_name[row[name]] = by_name.get(row[name], 0) + (row[time] or 0)
    return by_name


def _most(report: Section) -> Iterator[str]:
    by_name = _times(report)
    whole = sum(by_name.values()) or 1
    top = sorted(by_name.items(), key=lambda item: -item[1])[:_MOST_ROWS]
    for name, time in top:
        head = f"  {human(time, Unit.NS):>10} {100 * time / whole:>6.1f} %  "
        yield f"{head}{shorten(name, WIDTH - len(head))}"
    if len(by_name) > _MOST_ROWS:
        rest = whole - sum(time for _, time in top)
        more = f"{len(by_name) - _MOST_ROWS:,} more"
        yield f"  {human(rest, Unit.NS):>10} {100 * rest / whole:>6.1f} %  {more}"


_LIMIT_ADVICE = {
    "bandwidth": "Move fewer bytes: fuse kernels, use smaller types, reuse data in shared memory.",
    "compute": "Compute less or faster: Tensor Cores, lower precision, a better algorithm.",
    "latency": "Keep more warps ready: raise the occupancy, or give threads independent work.",
    "small grid": "Launch more blocks: larger batches, or several kernels at a time in streams.",
}


def of_kernels(made: Sequence[Section], limits: Section, command: str) -> list[Section]:
    """Return the answer where metrics say what limits kernels, and there is no time line."""
    rows = [row for row in limits.rows() if row["limit"]]
    by_limit = Counter(row["limit"] for row in rows)
    counted = ", ".join(f"{count:,} by {limit}" for limit, count in by_limit.most_common())
    lines = [*caveats(noted([*made, limits]))]
    if made[0].table is not None:
        lines += recorded(made[0].rows())
    kernels = "1 kernel" if len(rows) == 1 else f"{len(rows):,} kernels"
    lines.append(f"What limits {kernels} by their metrics: {counted}.")
    has_times = any(row["kernel_sum_ns"] for row in rows)
    for row in rows[:_MOST_ROWS]:
        time = f"{human(row['kernel_sum_ns'] or 0, Unit.NS):>10}  " if has_times else ""
        shares = ", ".join(
            f"{what} {row[f'{what}_pct']:.0f} %"
            for what in ("compute", "memory")
            if row[f"{what}_pct"] is not None
        )
        head = f"  {time}{row['limit']:<10}  {shares:<26}  "
        lines.append(f"{head}{shorten_kernel(row['name'], WIDTH - len(head))}")
    if len(rows) > _MOST_ROWS:
        lines.append(f"  {len(rows) - _MOST_ROWS:,} more")
    lines.append("compute, memory: the busiest unit of each, in per cent of its peak.")
    first = dict.fromkeys(row["limit"] for row in rows[:_MOST_ROWS])
    lines += [f"{limit}: {_LIMIT_ADVICE[limit]}" for limit in first]
    more = [
        f"→ occupancy, stalls, all kernels: nsysconv report {command} kernel_limits",
        f"→ all metrics: nsysconv report {command} metrics",
    ]
    return [words("limits", lines), words("next", more)]


def on_lines(made: Sequence[Section], lines: Section, command: str) -> list[Section]:
    """Return the answer where the host's time is recorded by source line, and nothing else."""
    rows = lines.rows()
    said = [*caveats(noted([*made, lines]))]
    said.append(f"{command} has the host's time by source line, and no GPU timeline.")
    adds_up = any(row["program_pct"] is not None for row in rows)
    kind, of = ("program", "the program's") if adds_up else ("function", "its function's")
    for row in rows[:_MOST_ROWS]:
        share = row[f"{kind}_pct"]
        percent = "" if share is None else f"{share:.1f} %"
        gpu = f"  GPU {row['gpu_pct']:.0f} %" if row["gpu_pct"] else ""
        ran = f"  × {row['hit_count']:,}" if row["hit_count"] else ""
        function = f" in {row['function']}" if row["function"] else ""
        head = f"  {human(row['host_sum_ns'] or 0, Unit.NS):>10} {percent:>8}  "
        where = f"{row['file']}:{row['line']}{function}"
        said.append(f"{head}{shorten(where, WIDTH - len(head) - len(ran) - len(gpu))}{ran}{gpu}")
    if len(rows) > _MOST_ROWS:
        said.append(f"  {len(rows) - _MOST_ROWS:,} more lines")
    said.append(f"Shares are of {of} time.")
    if not adds_up:
        said.append("A line's time includes the functions that it calls: lines do not add up.")
    if any(row["gpu_pct"] for row in rows):
        said.append("GPU: the line's share of the GPU utilization that was seen.")
    more = [
        f"→ all lines: nsysconv report {command} cpu_lines",
        "→ to see what the GPU did meanwhile: nsys profile -o run PROGRAM, then nsysconv run.nsys-rep",
        f"→ beside a torch.profiler trace with stacks: nsysconv report TRACE {command} --join cpu_lines",
        f"→ what is recorded, and what is missing: nsysconv info {command}",
    ]
    return [words("lines", said), words("next", more)]


def on_metrics(
    metrics: Section, command: str, lacking: Sequence[str], advice: str
) -> list[Section]:
    """Return the answer on hardware counters alone: their rows, and which reports need more."""
    what = f"{command} has hardware counter metrics, but no timeline of GPU work."
    need = f"{len(lacking)} core reports need a time line: {', '.join(lacking)}. {advice}".rstrip()
    return [
        words("nothing", [what]),
        _brief_table(metrics, command),
        words("next", [need]),
    ]


def _without_work_in_part(command: str) -> Iterator[str]:
    yield f"No GPU work is in the part of {command} that you selected."
    yield f"Without the selection: nsysconv {command}"


def _brief_table(report: Section, command: str) -> Section:
    # The table is as wide as a line even if there is no terminal, and names its notes.
    columns, room = [], WIDTH
    for column, values in zip(report.columns, report.by_column(), strict=True):
        room -= max(len(column.name), *(len(str(value)) for value in values)) + len("  ")
        if column.key or room > 0:
            columns.append(column)
    left_out, lines = (
        len(report.columns) - len(columns),
        [*report.texts[0].lines] if report.texts else [],
    )
    more = [f"{left_out} columns more"] if left_out else []
    more += [f"notes: {', '.join(note.slug for note in report.notes)}"] if report.notes else []
    lines.append(one_line(f"→ all of it: nsysconv report {command} metrics", *more))
    lines += [each for each in more if each not in lines[-1]]
    table = None if report.table is None else report.table.select([c.name for c in columns])
    texts = (Text("", tuple(lines), laid_out=True),)
    return replace(report, columns=tuple(columns), table=table, texts=texts, notes=())


def _without_work(command: str, answered: Sequence[str]) -> Iterator[str]:
    yield f"{command} has no timed GPU work, and no totals."
    if answered:
        yield _names_that_fit(f"Available: nsysconv report {command}", answered)
    yield f"What is recorded, what is missing, and how to record it: nsysconv info {command}"


def _names_that_fit(line: str, names: Sequence[str]) -> str:
    # The line names as many as fit, and one at least, so that a user can type the command; `--list` names
    # the others.
    for number, name in enumerate(names):
        if number and len(line) + len(name) + 1 > WIDTH:
            break
        line += f" {name}"
    return line
