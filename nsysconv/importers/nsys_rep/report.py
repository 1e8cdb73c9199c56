"""One report, from its beginning to its end, as rows of nsys' own tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nsysconv.importers.nsys_rep.container import (
    CLOCKS_SECTION,
    Container,
    Recorded,
)
from nsysconv.importers.nsys_rep.events import Events, event_tables, texts
from nsysconv.importers.nsys_rep.head import (
    Head,
    columns_of,
    target_rows,
    targets,
    thread_name_rows,
)
from nsysconv.importers.nsys_rep.wire import Buffer, Spans, WireError
from nsysconv.notes import Note, Severity
from nsysconv.refusals import refusal_error
from nsysconv.store.sqlite.table_file import new_table_file

TESTED = ("2020.3", "2026.2")
"""The oldest and the newest build of which reports were read."""
SCHEMA_VERSION = "3.24.14"
"""The version of nsys' schema that the tables have the columns of."""
NOT_HELD = (
    "SAMPLING_CALLCHAINS",
    "CUDA_CALLCHAINS",
    "OSRT_CALLCHAINS",
    "ProcessStreams",
    "ANALYSIS_FILE",
    "NVTX_PAYLOAD_*",
    "CUDA_GRAPH_*",
    "ENUM_*",
)
"""Tables of nsys' export that are not made."""

# Since then the profiler's own intervals have a type in the field of what older ones returned.
_OVERHEAD_TYPES = (2025, 5, 2)
_HELD_OUT = "(not copied: it may hold paths)"
_INSTALLED = re.compile(r"nsight-systems[a-z-]*/(\d{4}\.\d+(?:\.\d+)*)", re.IGNORECASE)

_SMALL: Mapping[str, Sequence[str]] = {
    "ANALYSIS_DETAILS": ("globalVid", "duration", "startTime", "stopTime"),
    "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs",),
    "TARGET_INFO_SYSTEM_ENV": ("globalVid", "devStateName", "name*", "nameEnum", "value*"),
    "META_DATA_CAPTURE": ("name*", "value*"),
    "META_DATA_EXPORT": ("name*", "value*"),
    "ThreadNames": ("nameId", "priority", "globalTid"),
    "StringIds": ("id", "value*"),
}
_TEXTS = frozenset({"devStateName"})


def _columns() -> Iterator[tuple[str, dict[str, str]]]:
    for table in event_tables().values():
        names = [c for c in table.columns if c.name != "program"]
        yield table.name, {c.name: "TEXT" if c.is_text else "INTEGER" for c in names}
    for name in targets():
        held = columns_of(name)
        first = {"vmId": "INTEGER"} if targets()[name].get("vm") else {}
        yield (
            name,
            first | {c: "TEXT" if is_text else "INTEGER" for c, (_, is_text) in held.items()},
        )
    for name, columns in _SMALL.items():
        yield (
            name,
            {
                c.rstrip("*"): "TEXT" if c.endswith("*") or c in _TEXTS else "INTEGER"
                for c in columns
            },
        )


@cache
def table_columns() -> Mapping[str, Mapping[str, str]]:
    """Return the types of columns by table, in the order of nsys' own."""
    return dict(_columns())


class Report:
    """A report that is read once, from its beginning to its end."""

    def __init__(self, path: Path) -> None:
        """Take the file, which is opened when its rows are asked for."""
        self._path = path
        self._notes: list[Note] = []

    @property
    def notes(self) -> tuple[Note, ...]:
        """Return what of the report is not read, or not known for sure; complete behind the last row."""
        return tuple(self._notes)

    def rows(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield rows by table, some at a time, columns named as nsys names them.

        Raises InputError where the file is cut off or damaged.
        """
        try:
            file = self._path.open("rb")
        except OSError as error:
            raise refusal_error(error, str(self._path)) from error
        with closing(file):
            container = Container(file, self._path)
            recorded = container.recording()
            yield from self._rows(container, recorded)

    def _rows(self, container: Container, recorded: Recorded) -> Iterator[tuple[str, pa.Table]]:
        with container.reading("its head"):
            head = Head(recorded.head, container.section(CLOCKS_SECTION))
            build = container.build or _build_of(head)
            for name, rows in head.rows():
                yield from _small(name, rows)
        events = Events(recorded.counts.strings)
        for name, rows in self._events(container, recorded, events):
            if name == "PROFILER_OVERHEAD" and _number(build) >= _OVERHEAD_TYPES:
                columns = dict.fromkeys(rows.column_names) | {"returnValue": "overheadType"}
                rows = rows.rename_columns([new or old for old, new in columns.items()])
            yield name, rows
        recorded.require_strings_here()
        begin = recorded.at
        strings = sum(len(spans) for _, _, spans in self._string_blocks(container, recorded))
        threads, last = recorded.last_messages()
        with container.reading("names of threads and targets"):
            rows = thread_name_rows(threads)
            events.use(np.array([r["nameId"] for r in rows if r["nameId"] is not None], np.int64))
            yield from _small("ThreadNames", rows)
            for name, of_targets in target_rows(last):
                yield from _small(name, of_targets)
        rest = recorded.rest
        recorded.at = begin
        yield from self._strings(container, recorded, events)
        counted = {"events": (events.count, recorded.counts.events),
                   "strings": (strings, recorded.counts.strings),
                   "names of threads": (len(rows), recorded.counts.thread_names)}  # fmt: skip
        self._notes += _notes(build, events, counted, rest)
        yield from _small("META_DATA_EXPORT", _export_rows(build))

    def _events(
        self, container: Container, recorded: Recorded, events: Events
    ) -> Iterator[tuple[str, pa.Table]]:
        blocks = recorded.blocks("its events")
        while events.count < recorded.counts.events:
            block = next(blocks)
            with container.reading("its events"):
                for table, rows in events.rows(block):
                    yield table.name, _cleared(rows) if table.name == "DIAGNOSTIC_EVENT" else rows

    def _string_blocks(
        self, container: Container, recorded: Recorded
    ) -> Iterator[tuple[int, Buffer, Spans]]:
        # Each with the number of its first string.
        first, blocks = 0, recorded.blocks("its strings")
        while first < recorded.counts.strings:
            buffer = Buffer(next(blocks))
            with container.reading("its strings"):
                spans = buffer.repeated(1, 0)
                if not len(spans):
                    raise WireError
                yield first, buffer, spans
                first += len(spans)

    def _strings(
        self, container: Container, recorded: Recorded, events: Events
    ) -> Iterator[tuple[str, pa.Table]]:
        # Only those that a row names: others are what the program printed, environments, paths.
        for first, buffer, spans in self._string_blocks(container, recorded):
            which = np.flatnonzero(events.used[first : first + len(spans)])
            if len(which):
                values = texts(buffer, spans.take(which), np.ones(len(which), bool))
                yield "StringIds", pa.table({"id": pa.array(which + first), "value": values})


def _small(name: str, rows: list[dict[str, Any]]) -> Iterator[tuple[str, pa.Table]]:
    # Cells that no 64 bits hold are null: they are damage, and nobody's number.
    if rows:
        types = table_columns()[name]
        arrays = {
            column: pa.array(
                [row.get(column) for row in rows],
                pa.large_string() if types[column] == "TEXT" else pa.int64(),
            )
            for column in types
        }
        kept = {column: array for column, array in arrays.items() if array.null_count < len(array)}
        yield name, pa.table(kept)


@cache
def _known_messages() -> frozenset[str]:
    text = Path(__file__).with_name("diagnostics.txt").read_text(encoding="utf-8")
    return frozenset(line.replace("\\n", "\n").replace("\\t", "\t") for line in text.splitlines())


def _cleared(rows: pa.Table) -> pa.Table:
    # The profiler's own messages may hold paths and more: known ones are copied, with their numbers.
    if "text" not in rows.column_names:
        return rows
    known = _known_messages()
    cleared = [
        text if text is None or re.sub(r"\d+", "N", text) in known else _HELD_OUT
        for text in rows.column("text").to_pylist()
    ]
    place = rows.column_names.index("text")
    return rows.set_column(place, "text", pa.array(cleared, pa.large_string()))


def _build_of(head: Head) -> str:
    match = _INSTALLED.search(head.system.get(170, ""))
    return match.group(1) if match else ""


def _export_rows(build: str) -> list[dict[str, Any]]:
    said = {
        "EXPORT_PRODUCT_NAME": "nsysconv",
        "EXPORT_PRODUCT_VERSION": build or None,
        "EXPORT_SCHEMA_VERSION": SCHEMA_VERSION,
        "EXPORT_PARAM_TIME_NORMALIZE": "false",
        "NSYSCONV_TABLES_NOT_HELD": ", ".join(NOT_HELD),
    }
    return [{"name": name, "value": value} for name, value in said.items()]


def _notes(
    build: str, events: Events, counted: Mapping[str, tuple[int, int]], rest: int
) -> Iterator[Note]:
    total = events.count
    for slug, severity, text, counts in (
        ("report-unknown", Severity.DROPPED, "events of a kind that is not known", events.unknown),
        ("report-not-read", Severity.INFO, "events that are not read", events.unread),
        ("report-inferred", Severity.INFO, "values whose meaning is inferred", events.inferred),
        ("report-fields", Severity.INFO, "fields that are not known", events.unknown_fields),
    ):
        if counts:
            yield Note(slug, severity, f"{text}: {_listed(counts)}", sum(counts.values()), of=total)
    for what, (found, said) in counted.items():
        if found != said:
            text = f"the report says that it has {said:,} {what}, and there are {found:,}"
            yield Note("report-counts", Severity.APPROXIMATED, text)
    if rest:
        yield Note(
            "report-rest", Severity.INFO, f"{rest:,} bytes behind the last part are not read"
        )
    if _number(build)[:2] > _number(TESTED[1]):
        text = f"made by {build}, which is newer than what was tested: {TESTED[1]}"
        yield Note("report-newer", Severity.INFO, text)


def _number(build: str) -> tuple[int, ...]:
    # Builds are compared by their first three numbers; none is less than any.
    return tuple(map(int, build.split(".")[:3])) if build else ()


def _listed(counts: Counter[str]) -> str:
    shown = [f"{name} ({count:,})" for name, count in counts.most_common(5)]
    return ", ".join(shown) + (", …" if len(counts) > 5 else "")


def write_tables(report: Path, target: Path) -> tuple[dict[str, int], tuple[Note, ...]]:
    """Write what a report holds into a new SQLite file of nsys' shape: rows by table, and notes.

    Raises InputError where the report is cut off or damaged, and what the file's writer raises.
    """
    source, counts = Report(report), Counter[str]()
    with new_table_file(target, table_columns()) as file:
        for table, rows in source.rows():
            file.add(table, rows)
            counts[table] += rows.num_rows
    return dict(counts), source.notes
