"""The time line: what ran on each stream and thread, as data that the page's scripts draw.

Several reports are drawn as one: tiles of all of the time at several widths, single events of some parts
of it, how long events of each name took, and the account of each GPU.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from nsysconv.codes import TIME_CLASSES
from nsysconv.document import Section
from nsysconv.names import WHOLE, escaped, shorten
from nsysconv.render.page import account_lanes, counters
from nsysconv.render.page.markup import LONGEST, data_element, escape, rows, shortened_apart

REPORTS = (
    "timeline_tiles",
    "timeline_events",
    "event_durations",
    *account_lanes.REPORTS,
    counters.REPORT,
)
"""The reports that the time line is drawn from, by the names that they have without options."""

_ON_GPU = ("kernel", "memcpy", "memset", "migration", "graph_launch")
_ON_CPU = ("range", "operator", "api_call")
_KINDS = (*_ON_GPU, *_ON_CPU)
_KIND_WORDS = {
    "memcpy": "copy",
    "memset": "set",
    "graph_launch": "graph launch",
    "api_call": "API call",
}
_PLAIN_SORTS = ("push_pop", "operator")
"""The kind of ranges and operators: these lie in each other, and need no word."""
_SORT_WORDS = {"start_end": "start/end range", "python_function": "Python function"}
_LEGEND = (
    *((name, TIME_CLASSES[name]) for name in ("computation", "communication", "memcpy", "memset")),
    ("migration", TIME_CLASSES["migration"]),
    ("on-cpu", "on the CPU: calls, operators and ranges"),
)
_BUTTONS = (("−", "zoom out"), ("+", "zoom in"), ("←", "earlier"), ("→", "later"), ("0", "all"))
_KEYS = (
    ("W S, + −, wheel with Ctrl", "zoom"),
    ("A D, ← →, drag with Shift", "move"),
    ("↑ ↓", "another lane"),
    ("T, click on its name", "pin a lane on top"),
    ("N P", "next, previous event"),
    ("F", "all of the chosen or selected"),
    ("drag, M", "select a time: what was busy and what ran in it"),
    ("0", "all"),
    ("Esc", "nothing chosen"),
    ("/", "find; there ↵ next, Esc close"),
)

Key = tuple[bool, int | None, int | None, int | None, int | None]
"""A lane: whether it is a thread's, process, device, stream, thread."""


def has_time_line(reports: Mapping[str, Section]) -> bool:
    """Return whether among reports by name there is what a time line is drawn from, with rows."""
    drawn = (reports.get(name) for name in (*REPORTS[:2], counters.REPORT))
    return any(report is not None and report.row_count for report in drawn)


def time_line(
    reports: Mapping[str, Section], steps: Section | None = None, memory: Section | None = None
) -> Iterator[str]:
    """Yield a canvas and its data, of reports by name; with lines of `steps`, and lanes of `memory`."""
    yield '<div class="lanes" id="lanes" hidden><p class="tools">'
    yield "".join(
        f'<button type="button" data-key="{key}" aria-label="{words}">{key}</button>'
        for key, words in _BUTTONS
    )
    yield '<label>Find <input type="search" id="lanes-search" autocomplete="off"></label>'
    yield '<label>Colors <select id="lanes-colors"><option value="class">by class</option>'
    yield '<option value="name">by name</option><option value="range">by range</option>'
    yield '<option value="own">NVTX colors</option></select></label>'
    yield '<span id="lanes-span"></span></p>'
    yield '<div class="over"><ul class="found" id="lanes-found"></ul></div>'
    yield '<div class="scroll" id="lanes-scroll"><div id="lanes-height">'
    yield '<div id="lanes-names"></div><div><canvas id="lanes-canvas" tabindex="0" role="application" '
    yield 'aria-label="time line of GPU operations by stream and of CPU events by thread" '
    yield 'aria-describedby="lanes-keys"></canvas></div></div></div>'
    data = _Data(reports, steps, memory)
    legend = (*_LEGEND[:-1], *data.idle_legend(), _LEGEND[-1])
    keys = "".join(f'<li><i class="k {name}"></i>{escape(words)}' for name, words in legend)
    yield '<div id="lanes-tip" aria-hidden="true" hidden></div>'
    yield '<div id="lanes-event" aria-live="polite"><p>Point at an event, or press N. '
    yield "Drag to see what ran in a part of the time.</p></div>"
    yield f'<ul class="legend">{keys}</ul><p class="quiet" id="lanes-limit"></p>'
    keys = "; ".join(f"<kbd>{escape(key)}</kbd> {escape(words)}" for key, words in _KEYS)
    yield f'<p class="quiet" id="lanes-keys">{keys}.</p></div>'
    yield "<noscript><p>The time line needs the page's script.</p></noscript>"
    yield data_element(data.as_dict(), "lanes-data")


class _Numbers(dict[Any, int]):
    """What occurs, each once: its number is its place."""

    def __missing__(self, value: Any) -> int:
        number = self[value] = len(self)
        return number


class _Data:
    """The reports as numbers: names, labels (kind and name of an event's group) and lanes have places."""

    def __init__(
        self, reports: Mapping[str, Section], steps: Section | None, memory: Section | None
    ) -> None:
        self._reports = {name: reports[name] for name in REPORTS if name in reports}
        self._tiles = _columns(self._reports.get("timeline_tiles"))
        self._shown = _columns(self._reports.get("timeline_events"))
        pieces, tiles = (_columns(self._reports.get(name)) for name in account_lanes.REPORTS)
        self._account = pieces, tiles
        self._texts, self._labels, self._sorts = _Numbers(), _Numbers(), _Numbers()
        self._colors = _Numbers()
        lanes: dict[Key, str] = {}
        for columns in (self._tiles, self._shown):
            for row in _rows(columns, *_LANE, "thread"):
                lanes.setdefault(_key(*row[:-1]), _lane_words(*row[1:]))
        order = sorted(lanes, key=lambda key: [(value is None, value or 0) for value in key])
        self._lanes = {key: number for number, key in enumerate(order)}
        self._lane_names = _apart([lanes[key] for key in order], [key[1] for key in order])
        self._groups = _Numbers()
        self._of_group = [self._groups[_group_words(key)] for key in order]
        self._steps = _step_starts(steps)
        self._counters = list(self._counted(memory))

    def as_dict(self) -> dict[str, Any]:
        """Return all that the script needs."""
        levels, events, durations = self._levels(), self._events(), self._durations()
        first, last = self._time()
        paths = (ref.path for report in self._reports.values() for ref in report.profiles)
        return {
            "first": first,
            "last": last,
            "target": shlex.quote(next(filter(None, paths), "TARGET")),
            "kinds": [_KIND_WORDS.get(kind, kind) for kind in _KINDS],
            "ids": _KINDS,
            "gpu": len(_ON_GPU),
            "lanes": self._lane_names,
            "tags": [
                name.removeprefix(f"{_group_words(key)}, ")
                for key, name in zip(self._lanes, self._lane_names, strict=True)
            ],
            "groups": list(self._groups),
            "of_group": self._of_group,
            "steps": self._steps,
            "counters": self._counters,
            "devices": [key[2] for key in self._lanes],
            "streams": sum(not key[0] for key in self._lanes),
            "account": account_lanes.account_data(*self._account, self._texts),
            "labels": {
                "kind": [_KINDS.index(kind) for kind, _ in self._labels],
                "text": [self._texts[name] for _, name in self._labels],
            },
            "durations": durations,
            "levels": levels,
            "parts": self._parts(first, last),
            "events": events,
            "sorts": [_SORT_WORDS.get(sort, sort.replace("_", " ")) for sort in self._sorts],
            "colors": list(self._colors),
            "on_one_clock": not self._has_note("clocks-disagree"),
            "short": self._short_names(),
            "texts": [shorten(escaped(text or "-"), WHOLE) for text in self._texts],
        }

    def _counted(self, memory: Section | None) -> Iterator[dict[str, Any]]:
        def group_words(pid: int | None, device: int | None) -> str:
            return _group_words((device is None and pid is not None, pid, device, None, None))

        metrics = self._reports.get(counters.REPORT)
        for lane in counters.counter_lanes(memory, metrics, group_words):
            yield {**lane, "group": self._groups[lane["group"]]}

    def idle_legend(self) -> list[tuple[str, str]]:
        """Return the classes of idle time that are drawn, in words."""
        classes = account_lanes.idle_classes(*self._account)
        return [(name, f"idle, {account_lanes.short_words(name)}") for name in classes]

    def _time(self) -> tuple[int, int]:
        # What is drawn: a slice's own time, for events that it cuts may be far longer; else all.
        for report in self._reports.values():
            if report.slice is not None and "start_ns" in report.slice:
                return report.slice["start_ns"], report.slice["end_ns"]
        # Tiles end after their events: where all events are there, these say when the time ends.
        drawn = (self._shown,) if self._has_all_events else (self._tiles, self._shown)
        if not any(drawn):
            drawn = (_columns(self._reports.get(counters.REPORT)),)
        edges = [_edges(columns) for columns in drawn if columns]
        return min(low for low, _ in edges), max(high for _, high in edges)

    def _levels(self) -> list[dict[str, Any]]:
        # Tiles are numbered from where the first of the widest begins.
        if not self._tiles:
            return []
        begin = min(self._tiles["start_ns"])
        numbers = ("start_ns", "busy_ns", "event_count", "name_ns", "kind", "name")
        rows = _rows(self._tiles, "dur_ns", *_LANE, "row", *numbers)
        levels = []
        for width, of_level in groupby(rows, lambda row: row[0]):
            tracks = []
            for (lane, number), tiles in groupby(of_level, lambda row: (_key(*row[1:6]), row[6])):
                start, busy, count, most, kind, name = zip(*(row[7:] for row in tiles), strict=True)
                tracks.append({
                    "lane": self._lanes[lane],
                    "row": number,
                    "tile": _differences([(at - begin) // width for at in start]),
                    "busy": busy,
                    "count": count,
                    "most": most,
                    "label": [self._labels[each] for each in zip(kind, name, strict=True)],
                })  # fmt: skip
            levels.append({"begin": begin, "width": width, "tracks": tracks})
        return levels

    def _events(self) -> dict[str, list[Any]]:
        names = ("lane", "start", "dur", "label", "text", "sort", "color", "id", "call")
        events: dict[str, list[Any]] = {name: [] for name in names}
        wanted = ("kind", "start_ns", "dur_ns", "name", "group", "sort", "color", "id", "call_id")
        for row in _rows(self._shown, *_LANE, *wanted):
            kind, start, dur, name, group, sort, color, number, call = row[len(_LANE) :]
            values = (
                self._lanes[_key(*row[: len(_LANE)])],
                start,
                dur,
                self._labels[kind, group],
                -1 if name == group else self._texts[name],
                -1 if sort is None or sort in _PLAIN_SORTS else self._sorts[sort],
                -1 if color is None else self._colors[color],
                number,
                call or 0,
            )
            for column, value in zip(events.values(), values, strict=True):
                column.append(value)
        return {**events, "start": _differences(events["start"])}

    def _durations(self) -> dict[str, Any]:
        # By label: how many events, how long together, the longest, and their number by length.
        found: dict[str, list[Any]] = {
            name: []
            for name in (
                "label",
                "class",
                "color",
                "count",
                "sum",
                "id",
                "start",
                "dur",
                "lane",
                "lengths",
            )
        }
        columns = _columns(self._reports.get("event_durations"))
        wanted = ("time_class", "bucket_min_ns", "event_count", "event_sum_ns", "max_id", "max_ns",
                  "max_start_ns", "color", *_PLACE)  # fmt: skip
        for label, found_rows in groupby(
            _rows(columns, "kind", "name", *wanted), lambda row: row[:2]
        ):
            buckets = [row[2:] for row in found_rows]
            longest = max(buckets, key=lambda bucket: bucket[5])
            lane = self._lanes.get(_key(*(*longest[8:], label[0])))
            if lane is None:
                continue  # on a lane that is not drawn
            values = (
                self._labels[label],
                longest[0],
                -1 if longest[7] is None else self._colors[longest[7]],
                sum(bucket[2] for bucket in buckets),
                sum(bucket[3] for bucket in buckets),
                longest[4],
                longest[6],
                longest[5],
                lane,
                [number for bucket in buckets for number in (bucket[1], bucket[2])],
            )
            for column, value in zip(found.values(), values, strict=True):
                column.append(value)
        return found

    def _short_names(self) -> list[str]:
        # Where labels are equal, so that no two kernels look alike in a list.
        kernels = [name for kind, name in self._labels if kind == "kernel"]
        short = shortened_apart([name or "-" for name in kernels], LONGEST)
        names = (
            (short.get(name or "-", name) if kind == "kernel" else name)
            for kind, name in self._labels
        )
        return [shorten(escaped(name or "-"), LONGEST) for name in names]

    def _parts(self, first: int, last: int) -> list[tuple[int, int]]:
        # The times of which every event is there: of those asked for, until the last event where some
        # had no room.
        if not self._shown:
            return [] if self._tiles else [(first, last)]
        report = self._reports["timeline_events"]
        asked = report.name.partition(":parts=")[2]
        parts = [(first, last)]
        if asked:
            edges = (part.split(":") for part in asked.split(","))
            parts = [(int(low), int(high)) for low, high in edges]
        starts = self._shown["start_ns"]
        if report.row_count == len(starts):
            return parts
        return [(low, min(high, starts[-1])) for low, high in parts if low < starts[-1]]

    @property
    def _has_all_events(self) -> bool:
        report = self._reports.get("timeline_events")
        if report is None or not self._shown or ":parts=" in report.name:
            return False
        return report.row_count == len(self._shown["start_ns"])

    def _has_note(self, slug: str) -> bool:
        notes = (note for report in self._reports.values() for note in report.notes)
        return any(note.slug == slug for note in notes)


_PLACE = ("pid", "device_id", "stream_id", "tid")
_LANE = (*_PLACE, "kind")

Columns = Mapping[str, Sequence[Any]]


def _columns(report: Section | None) -> Columns:
    if report is None or report.table is None or not report.table.num_rows:
        return {}
    names = (column.name for column in report.columns)
    return dict(zip(names, report.by_column(), strict=True))


def _rows(columns: Columns, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(columns[name] for name in names), strict=True) if columns else iter(())


def _edges(columns: Columns) -> tuple[int, int]:
    # From the first start to the last end; of tiles, which end after their events, of the finest.
    least = min(columns["dur_ns"]) if "busy_ns" in columns else None
    ends = (
        start + dur for start, dur in _rows(columns, "start_ns", "dur_ns") if least in (None, dur)
    )
    return min(columns["start_ns"]), max(ends)


def _differences(values: Sequence[int]) -> list[int]:
    # Which are shorter to write.
    return [value - before for value, before in zip(values, (0, *values), strict=False)]


def _key(pid: int, device: int | None, stream: int | None, tid: int | None, kind: str) -> Key:
    return kind not in _ON_GPU, pid, device, stream, tid


def _group_words(key: Key) -> str:
    is_thread, pid, device, *_ = key
    if is_thread:
        return "process" if pid is None else f"process {pid}"
    return "GPU" if device is None else f"GPU {device}"


def _step_starts(steps: Section | None) -> dict[str, list[Any]]:
    # When each begins, in the order of time; not of a whole profile that counts as one.
    found = sorted(
        {
            (row["start_ns"], row["step"])
            for row in rows(steps)
            if row["start_ns"] is not None and not row["step"].startswith("[")
        }
    )
    return {
        "start": [at for at, _ in found],
        "name": [shorten(escaped(name), LONGEST) for _, name in found],
    }


def _lane_words(
    device: int | None, stream: int | None, tid: int | None, kind: str, thread: str | None
) -> str:
    if kind in _ON_GPU:
        of_stream = "no stream" if stream is None else f"stream {stream}"
        return f"{'GPU' if device is None else f'GPU {device}'}, {of_stream}"
    of_thread = "no thread" if tid is None else f"thread {tid}"
    return escaped(f"{of_thread} {thread or ''}".strip())


def _apart(words: Sequence[str], pids: Sequence[int | None]) -> list[str]:
    # Lanes of several processes may be called alike.
    return [
        f"{each} of process {pid}" if words.count(each) > 1 else each
        for each, pid in zip(words, pids, strict=True)
    ]
