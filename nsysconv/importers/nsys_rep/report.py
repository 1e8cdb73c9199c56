"""One report, from its beginning to its end, as rows of nsys' own tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa

from nsysconv.facts import Fact
from nsysconv.importers.nsys_rep import schema
from nsysconv.importers.nsys_rep.container import CLOCKS_SECTION, Container, Recorded
from nsysconv.importers.nsys_rep.events import Events, Rows, texts
from nsysconv.importers.nsys_rep.head import THREAD_NAMES, Head, Row, rows_of, target_rows
from nsysconv.importers.wire import Buffer, Spans, WireError
from nsysconv.notes import Note, Severity
from nsysconv.refusals import refusal_error
from nsysconv.report import array_of
from nsysconv.store.sqlite.table_file import new_table_file
from nsysconv.threads import ahead

TESTED = ("2020.3", "2026.2")
"""The oldest and the newest build of which reports were read."""
# The columns are those of this version of nsys' schema.
_EXPORTED = {
    "EXPORT_PRODUCT_NAME": "nsysconv",
    "EXPORT_SCHEMA_VERSION": "3.24.14",
    "EXPORT_PARAM_TIME_NORMALIZE": "false",
    "NSYSCONV_TABLES_NOT_HELD": "SAMPLING_CALLCHAINS, CUDA_CALLCHAINS, OSRT_CALLCHAINS, ProcessStreams, "
    "ANALYSIS_FILE, NVTX_PAYLOAD_*, CUDA_GRAPH_*, ENUM_*",
}
_DOUBTS = {
    "report-unknown": (Severity.DROPPED, "events of an unknown kind"),
    "report-not-read": (Severity.INFO, "events that are not read"),
    "report-inferred": (Severity.INFO, "values whose meaning is inferred"),
}
_SHOWN = 5
_TABLES_AHEAD = 4
# Every note names facts; with these, hardly a report shows it.
_SELDOM = frozenset({Fact.UTC, Fact.COLLECTIVES})
# Since then the profiler's own intervals have a type in the field of what older ones returned, and those
# that CUPTI names are exported.
_OVERHEAD_TYPES = (2025, 5, 2)
_HELD_OUT = "(not copied: it may hold paths)"


def write_tables(report: Path, target: Path) -> tuple[dict[str, int], tuple[Note, ...]]:
    """Write what a report holds into a new SQLite file of nsys' shape: rows by table, and notes.

    Raises InputError where the report is cut off or damaged, and what the file's writer raises.
    """
    counts, notes = Counter[str](), list[Note]()
    try:
        opened = report.open("rb")
    except OSError as error:
        raise refusal_error(error, str(report)) from error
    with (
        opened as file,
        new_table_file(target, schema.table_columns()) as tables,
        # Another thread decodes: what SQLite does takes as long, and leaves Python alone.
        closing(ahead(report_rows(Container(file, report), notes), _TABLES_AHEAD)) as decoded,
    ):
        for table, rows in decoded:
            tables.add(table, rows)
            counts[table] += rows.num_rows
    return dict(counts), tuple(notes)


def report_rows(container: Container, notes: list[Note]) -> Rows:
    """Yield rows by table, some at a time, columns named as nsys names them; add to the notes.

    Raises InputError where the file is damaged.
    """
    recorded, events = container.recording(), Events()
    with container.reading("its head"):
        head = Head(recorded.head, container.section(CLOCKS_SECTION))
        build = container.build or head.build
        yield from _small(head.rows())
    blocks = recorded.blocks("its events")
    while events.count < recorded.events:
        with container.reading("its events"):
            for name, table in events.rows(blocks, recorded.events):
                if name == "CUPTI_ACTIVITY_KIND_OVERHEAD" and _number(build) < _OVERHEAD_TYPES:
                    events.doubts["report-not-read"]["overhead of CUPTI"] += table.num_rows
                else:
                    yield name, _as_exported(name, table, build)
    recorded.require_strings_here()
    begin = recorded.at
    strings = sum(len(spans) for _, _, spans in _string_blocks(container, recorded))
    threads, targets = recorded.last_messages()
    with container.reading("names of threads and targets"):
        named = rows_of(THREAD_NAMES, threads)
        events.used.update(row["nameId"] for row in named if row["nameId"] is not None)
        yield from _small([(THREAD_NAMES, named), *target_rows(targets)])
    counted = {"events": (events.count, recorded.events), "strings": (strings, recorded.strings),
               "names of threads": (len(named), recorded.thread_names)}  # fmt: skip
    notes += _notes(build, events, counted, recorded.rest)
    recorded.at = begin
    used = np.array(sorted(events.used), np.int64)
    with container.reading("names that no string has"):
        if len(used) and not 0 <= used[0] <= used[-1] < strings:
            raise WireError
    # Only strings that a row names are read; others are output of the program, environments and paths.
    for first, buffer, spans in _string_blocks(container, recorded):
        ids = used[slice(*np.searchsorted(used, (first, first + len(spans))))]
        if len(ids):
            values = texts(buffer, spans.take(ids - first), np.ones(len(ids), bool))
            yield "StringIds", pa.table({"id": array_of(ids, "int"), "value": values})
    made = {**_EXPORTED, "EXPORT_PRODUCT_VERSION": build or None}
    yield from _small([("META_DATA_EXPORT", [{"name": n, "value": v} for n, v in made.items()])])


def _string_blocks(container: Container, recorded: Recorded) -> Iterator[tuple[int, Buffer, Spans]]:
    # Each block comes with the number of its first string.
    first, blocks = 0, recorded.blocks("its strings")
    while first < recorded.strings:
        buffer = Buffer(next(blocks))
        with container.reading("its strings"):
            spans = buffer.repeated(1)
            if not len(spans):
                raise WireError
        yield first, buffer, spans
        first += len(spans)


def _small(tables: Iterable[tuple[str, list[Row]]]) -> Rows:
    for name, rows in tables:
        cells = {
            each.name: array_of([_held(row.get(each.name)) for row in rows], each.kind)
            for each in schema.tables("targets")[name].columns
        }
        if rows:
            yield name, pa.table(cells)


def _held(cell: int | str | None) -> int | str | None:
    # A time less another may have more than 64 bits, which is damage, and not known.
    return None if isinstance(cell, int) and cell.bit_length() > 63 else cell


@cache
def _known_messages() -> frozenset[str]:
    text = Path(__file__).with_name("diagnostics.txt").read_text(encoding="utf-8")
    return frozenset(line.replace("\\n", "\n").replace("\\t", "\t") for line in text.splitlines())


def _as_exported(name: str, rows: pa.Table, build: str) -> pa.Table:
    names = rows.column_names
    if name == "PROFILER_OVERHEAD" and _number(build) >= _OVERHEAD_TYPES:
        return rows.rename_columns([n.replace("returnValue", "overheadType") for n in names])
    if name == "DIAGNOSTIC_EVENT" and "text" in names:
        # The profiler's own messages may hold paths and more: known ones are copied, with their numbers.
        known = [
            text if text is None or re.sub(r"\d+", "N", text) in _known_messages() else _HELD_OUT
            for text in rows.column("text").to_pylist()
        ]
        return rows.set_column(names.index("text"), "text", array_of(known, "text"))
    return rows


def _notes(
    build: str, events: Events, counted: Mapping[str, tuple[int, int]], rest: int
) -> Iterator[Note]:
    for slug, (severity, text) in _DOUBTS.items():
        if counts := events.doubts.get(slug):
            shown = [f"{name} ({count:,})" for name, count in counts.most_common(_SHOWN)]
            text += f": {', '.join(shown)}{', …' if len(counts) > _SHOWN else ''}"
            facts = _SELDOM if severity is Severity.INFO else frozenset()
            yield Note(slug, severity, text, sum(counts.values()), facts=facts, of=events.count)
    for what, (found, said) in counted.items():
        if found != said:
            text = f"the report claims {said:,} {what}; {found:,} were found"
            yield Note("report-counts", Severity.APPROXIMATED, text)
    if rest:
        text = f"{rest:,} bytes after the last part are not read"
        yield Note("report-rest", Severity.INFO, text, facts=_SELDOM)
    if _number(build)[:2] > _number(TESTED[1]):
        text = f"made by {build}, newer than the newest tested build, {TESTED[1]}"
        yield Note("report-newer", Severity.INFO, text, facts=_SELDOM)


def _number(build: str) -> tuple[int, ...]:
    # Builds are compared by their first three numbers; none is less than any.
    return tuple(map(int, build.split(".")[:3])) if build else ()
