"""Which tables of a log belong to one recording: a table that comes again is of the next one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nsysconv.importers.nsys_stats.survey import (
    Item,
    LogSurvey,
    NoData,
    PrintedTable,
    RecordingStart,
    UnreadTable,
)
from nsysconv.importers.nsys_stats.tables import NsysTable
from nsysconv.importers.printed.registry import is_api_name

# Functions of the C library that are no system calls, which have a table with the same header.
_LIBRARY = re.compile(
    r"(?:pthread|sem)_\w+$|f(?:open|read|write|close|gets|getc|puts|putc|flush|open64)$|"
    r"(?:mmap64|open64|getc|putc|getdelim|getline|waitpid|usleep|sleep|sigaction|signal|popen|pclose)$"
)
_FUNCTION = re.compile(r"[a-z_][a-z0-9_]*$")
# As OpenACC's constructs are named: what, file and line.
_CONSTRUCT = re.compile(r"(?>.+?@).*:\d+$")


@dataclass
class Run:
    """The tables of one recording. `nothing`: what nsys says it found none of."""

    database: str = ""
    blocks: dict[NsysTable, PrintedTable] = field(default_factory=dict)
    nothing: set[str] = field(default_factory=set)
    not_read: Counter[str] = field(default_factory=Counter)


def runs(items: Sequence[Item]) -> Iterator[Run]:
    """What belongs to one recording: a table that comes again is of the next one."""
    run = Run()
    for item in items:
        if isinstance(item, PrintedTable):
            item.table = _told_by_rows(item)
        database = getattr(item, "database", "")
        other = bool(database and run.database and database != run.database)
        again = isinstance(item, PrintedTable) and item.table in run.blocks
        if again and isinstance(item, PrintedTable) and item.table is not None and not other:
            known = run.blocks[item.table]
            if database and known.database == database and known.arguments != item.arguments:
                run.not_read[f"{item.table.value} in another form"] += 1
                continue
        begun = bool(run.blocks or run.nothing or run.not_read)
        if begun and (again or other or isinstance(item, RecordingStart)):
            yield run
            run = Run()
        run.database = run.database or database
        if isinstance(item, PrintedTable):
            if item.table is None:
                run.not_read["a table of calls that nothing names"] += 1
            else:
                run.blocks[item.table] = item
        elif isinstance(item, NoData):
            run.nothing.add(item.what)
        elif isinstance(item, UnreadTable):
            run.not_read[item.report] += 1
    if run.blocks or run.nothing or run.not_read:
        yield run


def tables_in(path: Path) -> Counter[str]:
    """The tables of nsys in a text of somebody else, by what nsys calls them."""
    found: Counter[str] = Counter()
    for run in runs(LogSurvey(path).items):
        found.update(table.value for table in run.blocks)
        found.update(run.not_read)
    return found


def _told_by_rows(block: PrintedTable) -> NsysTable | None:
    """A table's kind; where neither its announcement nor its header tells it, by its rows' names."""
    if block.table is not None:
        return block.table
    place = block.header.place("name")
    names = [row[place].strip() for _, row in block.rows] if place is not None else []
    if block.header.place("category") is not None:
        return NsysTable.API_AND_GPU
    if sum(map(is_api_name, names)) * 2 > len(names):
        return NsysTable.API
    if any(map(_LIBRARY.match, names)) and all(map(_FUNCTION.match, names)):
        return NsysTable.OSRT
    return NsysTable.OPENACC if names and all(map(_CONSTRUCT.match, names)) else None
