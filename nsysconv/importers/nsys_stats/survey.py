"""Where things stand in a log: tables, what announces them, and where one recording ends.

A log is read twice. This is the first time: rows of small tables are kept, and of traces only the places
where their rows stand.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from nsysconv.importers.nsys_stats import tables
from nsysconv.importers.nsys_stats.tables import (
    BEGINS,
    TRACES,
    JsonRows,
    Layout,
    NsysHeader,
    NsysTable,
)
from nsysconv.importers.printed.registry import is_api_name
from nsysconv.importers.printed.text import RejectedLines, RowSpan

# How nsys announces a table: a pattern, and the sign at whose first place in a line it is looked for.
# None looks back, for damaged lines may have a million characters.
_RUNNING = re.compile(r"\w+ \[(?:[^\]]*?[/\\])??(?P<report>\w+)\.py (?P<file>[^\]]*)(?P<args>)\]")
_ANNOUNCED = (
    (
        "Processing [",
        re.compile(
            r"\w+ \[(?>(?P<file>.+?)\] with \[)(?:[^\]]*[/\\])?+(?P<report>\w+)(?:\.py)?[^\]]*\]"
            r"(?:\((?P<args>.*?)\))?"
        ),
    ),
    ("Running [", _RUNNING),
    ("Exporting [", _RUNNING),
    ("Executing '", re.compile(r"\w+ '(?P<report>[^']+)' stats report")),
    ("", re.compile(r"(?=.*\):\s*$)\s*\*\* .+ \((?P<report>\w+)(?::(?P<args>.*))?\):\s*$")),
)
# Words alone are repeated to users: a path that a damaged line has there may be nobody's business.
_SKIPPED = re.compile(r"SKIPPED: .*?does not contain (?P<what>[\w ()-]{1,60}?)\.?\s*$")
# What nsys says when it begins with another recording.
_BEGINS = re.compile(
    r"^\s*(?:Collecting data\.\.\.|Generating '.*\.qdstrm'|Generating SQLite file )"
)
_SAID = re.compile(
    r"Processing|Running|Exporting|Executing|\*\*|SKIPPED|Collecting|Generating|Stat|Summ|Trac"
)
_SIZE_UNIT = re.compile(r"\((?:by size in )?([KMG]i?B)\)")
# A line between a header and its rows, and around a table in boxes.
_RULE = re.compile(
    r"^[\s+\-=|:│┃║┌┐└┘├┤┬┴┼─━═╔╗╚╝╠╣╦╩╬╒╕╘╛╞╡╤╧╪╭╮╰╯]*[\-=─━═][\s+\-=|:│┃║┌┐└┘├┤┬┴┼─━═╔╗╚╝╠╣╦╩╬╒╕╘╛╞╡╤╧╪╭╮╰╯]*$"
)
_DASHES = re.compile(r"-+")
_GAP = re.compile(r"\s{2,}")
# What stands before lines that somebody copied into a comment or a quotation.
_COMMENT = re.compile(r"^\s*(?://+|#+|>+)(?=\s|$)")
_LIKE_A_ROW = re.compile(r'^[\s|│"*]*-?\d')
_NEXT_OTHER = re.compile(rb'\n[^0-9"]')
# What no row lacks, of totals and of traces.
_TOLD = ("total", "count", "start", "dur", "name")
_LONGEST_LINE = 1 << 20
_CHUNK_BYTES = 1 << 20
_MOST_LINES_OF_A_ROW = 64

# What a table's header has, in one line or as the keys of an object; and what nsys says beside tables.
_SIGN = re.compile(
    rb"Time ?\(%\)|Total(?: \([KMG]i?B\))?[^\n]{1,40}(?:Count|Operations)|Start(?: Time)? ?\(|Proj Avg|"
    rb"QCount|Kern Inst|Migration Size|DurNonChild|API Dur|Total Message Volume|PeerRank"
)
_SAYING = re.compile(
    rb"^[ \t/#>]*(?:Processing \[[^\]\n]{1,400}\] with \[[^\]\n]{1,400}\]|"
    rb"\[\d{1,4}/\d{1,4}\] Executing '\w{1,40}[^'\n]{0,200}' stats report|"
    rb"SKIPPED: [^\n]{0,400}does not contain|"
    rb"(?:CUDA API|CUDA Kernel|CUDA Memory Operation) Statistics \((?:nanoseconds|KiB)\))",
    re.MULTILINE,
)
_KEYS = re.compile(rb'\{\s*"(?:Time \(%\)|Total \([KMG]i?B\)|Start \([num]?s\))"\s*:')
_LONGEST_HEADER = 1024


def is_nsys_output(text: bytes) -> bool:
    """Whether a text holds what nsys prints and no other program, as far as is known."""
    return _SAYING.search(text) is not None or has_table(text)


def has_table(text: bytes) -> bool:
    """Whether the header of a table of nsys stands in a text, as a line or as the keys of an object."""
    if _KEYS.search(text):
        return True
    seen = -1
    for match in _SIGN.finditer(text):
        start = text.rfind(b"\n", 0, match.start()) + 1
        if start == seen:
            continue
        seen = start
        end = text.find(b"\n", match.end())
        line = text[start : end if end >= 0 else len(text)]
        if len(line) <= _LONGEST_HEADER and tables.header_of(
            _plain(line.decode("utf-8", "replace"))
        ):
            return True
    return False


def _from(sign: str, pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """What a pattern finds that begins at the first place of a sign."""
    place = text.find(sign)
    return pattern.match(text, place) if place >= 0 else None


def _plain(line: str) -> str:
    """A line without its end and without what makes it a comment."""
    return _COMMENT.sub(lambda mark: " " * len(mark.group()), line.rstrip("\r\n"), count=1)


@dataclass
class PrintedTable:
    """A table: its kind (None: nothing tells it), header, and rows.

    `unit` is what a heading called its sizes in. `rows` are the cells of small tables, with their lines;
    `spans` are where the rows of traces are. `extents` are the columns of an aligned table. `unread` are
    lines that look like rows and are none, `foreign` others that stand between rows.
    """

    table: NsysTable | None
    header: NsysHeader
    line: int
    unit: str = ""
    database: str = ""
    arguments: str = ""
    rows: list[tuple[int, Sequence[str]]] = field(default_factory=list)
    spans: list[RowSpan] = field(default_factory=list)
    extents: list[tuple[int, int]] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)
    foreign: RejectedLines = field(default_factory=RejectedLines)

    @property
    def has_rows(self) -> bool:
        """Whether a row of it has been seen."""
        return bool(self.rows or self.spans)

    def cells(self, line: str) -> list[str] | None:
        """The cells of a line; None where it does not have the header's columns."""
        form, count = self.header.form, len(self.header.columns)
        if form is Layout.DELIMITED:
            found = tables.cells(line, self.header.delimiter)
        elif form is Layout.BOXED:
            found = tables.boxed(line.strip()) if tables.BOX.search(line) else None
            if found is not None and len(found) > count:
                found = [*found[: count - 1], "|".join(found[count - 1 :])]
        else:
            found = self._aligned(line) or _GAP.split(line.strip(), count - 1)
        return found if found is not None and len(found) == count else None

    def is_continued(self, line: str) -> bool:
        """Whether a line stands under the dashes of a table and tells what its rows must."""
        cells = self._aligned(line) if self.header.form is Layout.ALIGNED else None
        places = (self.header.place(role) for role in _TOLD)
        return cells is not None and all(cells[place] for place in places if place is not None)

    def _aligned(self, line: str) -> list[str] | None:
        """The cells under the dashes; None where the line is not aligned with them."""
        if len(self.extents) != len(self.header.columns):
            return None
        edges = [0, *(start for start, _ in self.extents[1:])]
        parts = [
            line[edge:following] for edge, following in zip(edges, [*edges[1:], None], strict=True)
        ]
        gaps = (
            line[end:start]
            for (_, end), (start, _) in zip(self.extents, self.extents[1:], strict=False)
        )
        if any(gap.strip() for gap in gaps) or line[: self.extents[0][0]].strip():
            return None
        return [
            line[self.extents[0][0] : self.extents[0][1]].strip(),
            *(part.strip() for part in parts[1:]),
        ]


@dataclass(frozen=True)
class NoData:
    """nsys says that it found nothing of a kind."""

    what: str
    database: str


@dataclass(frozen=True)
class RecordingStart:
    """nsys says that it begins with a recording."""


@dataclass(frozen=True)
class UnreadTable:
    """A table that has no place."""

    report: str


Item = PrintedTable | NoData | RecordingStart | UnreadTable


class LogSurvey:
    """What a log holds, in order. `unfinished` is the number of the last line where it does not end."""

    def __init__(self, path: Path) -> None:
        self.items: list[Item] = []
        self.unfinished: int | None = None
        self.truncated: int | None = None
        self._path = path
        self._block: PrintedTable | None = None
        self._announced: NsysTable | str | None = None
        self._database = self._arguments = self._unit = ""
        self._pending: list[str] = []
        # Of the open table: whether an empty line stood behind its rows, lines behind these that are
        # none, and the beginning of a row into which a message was written.
        self._paused = False
        self._foreign = RejectedLines()
        self._torn = ""
        self._line, self._last = 0, b""
        with path.open("rb") as file:
            while raw := file.readline(_LONGEST_LINE):
                self._one(file, raw)
        self._end()

    def _end(self) -> None:
        if self._line and not self._last.endswith(b"\n"):
            self.unfinished = self._line
        if self._pending:
            self.truncated = self._line
        self._mend("")
        self._close_block()

    def _one(self, file: BinaryIO, raw: bytes) -> None:
        self._line, self._last = self._line + 1, raw
        if self._line == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        start = file.tell() - len(raw)
        text = _plain(raw.decode("utf-8", "replace"))
        if self._pending:
            self._continue(text)
        elif not text.strip():
            self._empty()
        elif (
            (BEGINS.match(raw) and self._objects(file, start))
            or self._said(text)
            or self._header(text)
        ):
            pass
        elif self._block is not None:
            self._row(file, text, start)

    def _empty(self) -> None:
        """An empty line ends a table; but messages, which have such, may stand between aligned rows."""
        self._mend("")
        if self._block is not None and self._block.has_rows:
            if self._block.extents and self._block.header.form is Layout.ALIGNED:
                self._paused = True
            else:
                self._close()

    # -- what nsys says

    def _said(self, text: str) -> bool:
        """Whether a line announces a table, or says that there is none."""
        if _SAID.search(text) is None:
            return False
        if (
            self._block is not None
            and self._block.header.form is not Layout.JSON
            and _LIKE_A_ROW.match(text)
        ):
            return self._tears(text)
        matches = (_from(sign, pattern, text) for sign, pattern in _ANNOUNCED)
        if match := next(filter(None, matches), None):
            told = match.groupdict()
            self._close()
            self._announced = tables.report_of(told["report"])
            self._database = told.get("file") or self._database
            self._arguments = told.get("args") or told["report"].partition(":")[2]
        elif match := _from("SKIPPED: ", _SKIPPED, text):
            self.items.append(NoData(match["what"], self._database))
            if self._block is None:
                self._announced = None
            else:  # stderr comes when it likes: the table goes on
                self._foreign.add(self._line)
        elif _BEGINS.match(text) and not text.endswith("Statistics..."):
            self._close()
            self.items.append(RecordingStart())
            self._announced, self._database = None, ""
        elif (titled := tables.title_of(text)) is not None and not tables.BOX.search(text):
            self._close()
            self._announced, self._arguments = titled, ""
            unit = _SIZE_UNIT.search(text)
            self._unit = unit.group(1) if unit else ""
        else:
            return False
        return True

    def _tears(self, text: str) -> bool:
        """Whether a message was written into the middle of a row, whose other half is in a line below."""
        head, sign, said = text.partition("SKIPPED: ")
        match = _SKIPPED.match(sign + said)
        if self._block is None or match is None:
            return False
        self.items.append(NoData(match["what"], self._database))
        self._foreign.add(self._line)
        if self._block.table not in TRACES:
            self._torn = head
        return True

    def _mend(self, text: str) -> str:
        """What is left of a line once a torn row has got its other half."""
        torn, self._torn = self._torn, ""
        if not torn or self._block is None:
            return text
        both = torn + text
        if self._block.is_continued(both) or (
            self._block.header.form is Layout.DELIMITED and self._block.cells(both) is not None
        ):
            torn, text = both, ""
        self._keep(torn)
        return text

    def _header(self, text: str) -> bool:
        found = tables.header_of(text)
        if found is None:
            if isinstance(self._announced, str) and _RULE.match(text) and text.count("--") > 2:
                self._open(self._announced)
                return True
            return False
        self._open(found)
        return True

    def _open(self, found: NsysHeader | str) -> None:
        """A table begins."""
        self._close()
        announced, self._announced = self._announced, None
        if isinstance(found, str) or isinstance(announced, str):
            report = announced if isinstance(announced, str) else str(found)
            self.items.append(UnreadTable(report))
            return
        table = announced if announced is not None and _fits(announced, found) else found.sure
        self._block = PrintedTable(
            table, found, self._line, self._unit, self._database, self._arguments
        )
        self._unit, self._arguments = "", ""
        self.items.append(self._block)

    def _close(self) -> None:
        self._mend("")
        if self._pending and self._block is not None:
            self._block.unread.append(self._line)
        self._close_block()

    def _close_block(self) -> None:
        self._block, self._pending = None, []
        self._paused, self._foreign, self._torn = False, RejectedLines(), ""

    # -- rows

    def _row(self, file: BinaryIO, text: str, start: int) -> None:
        """A line below a header that is nothing else."""
        block = self._block
        if block is None:
            return
        form = block.header.form
        text = self._mend(text)
        if not text:
            return
        # In boxes the name may come first.
        pattern = tables.BOX if form is Layout.BOXED else _LIKE_A_ROW
        is_row = pattern.search(text) is not None
        if form is not Layout.DELIMITED and _RULE.match(text):
            if not block.extents:
                block.extents = [match.span() for match in _DASHES.finditer(text)]
        elif not is_row or (self._paused and not block.is_continued(text)):
            if block.has_rows:
                self._foreign.add(self._line)
        elif block.table in TRACES:
            self._goes_on(block)
            self._span(file, block, start)
        elif form is Layout.DELIMITED and block.header.delimiter != "\t" and text.count('"') % 2:
            self._pending = [text]
        else:
            self._keep(text)

    def _continue(self, text: str) -> None:
        """A further line of a row whose quotes did not close: names of ranges may hold line ends."""
        self._pending.append(text)
        if text.count('"') % 2:
            row, self._pending = "\n".join(self._pending), []
            self._keep(row)
        elif len(self._pending) > _MOST_LINES_OF_A_ROW:
            self._close()

    def _keep(self, text: str) -> None:
        block = self._block
        if block is None:
            return
        cells = block.cells(text)
        if cells is None:
            block.unread.append(self._line)
        else:
            self._goes_on(block)
            block.rows.append((self._line, cells))

    def _goes_on(self, block: PrintedTable) -> None:
        """A row: what stood in between did not end the table."""
        block.foreign.take(self._foreign)
        self._foreign, self._paused = RejectedLines(), False

    def _span(self, file: BinaryIO, block: PrintedTable, start: int) -> None:
        """A row of a trace, and of CSV all that follow it."""
        line, end = self._line, file.tell()
        if block.header.form is Layout.DELIMITED:
            end = self._behind_rows(file, end)
        spans = block.spans
        if spans and spans[-1].end == start:
            spans[-1].end = end
        else:
            spans.append(RowSpan(start, end, line))

    def _behind_rows(self, file: BinaryIO, start: int) -> int:
        """Where the rows that go on here end; the file is read up to there."""
        place, last = start, b"\n"
        while chunk := file.read(_CHUNK_BYTES):
            other = _NEXT_OTHER.search(last + chunk)
            if other:
                behind = other.start() + 1 - len(last)
                self._line += chunk.count(b"\n", 0, max(behind, 0))
                file.seek(place + behind)
                return place + behind
            self._line += chunk.count(b"\n")
            place, last = place + len(chunk), chunk[-1:]
            self._last = last
        if last != b"\n":
            self._line += 1
        return place

    def _objects(self, file: BinaryIO, start: int) -> bool:
        """Whether an array of objects that are rows begins here; the file is read up to its end."""
        found = JsonRows(self._path, start)
        block: PrintedTable | None = None
        for number, row in enumerate(found):
            if number == 0:
                header = tables.header_of_keys(list(row))
                if header is None:
                    return False
                self._open(header)
                block = self._block
            if block is not None and block.table not in TRACES:
                block.rows.append((self._line, list(row.values())))
        if found.end == start:
            return False
        if block is not None:
            block.unread += [self._line] * found.unread
            if block.table in TRACES:
                block.spans.append(RowSpan(start, found.end, self._line))
        file.seek(start)
        taken = file.read(found.end - start) if found.end - start <= _LONGEST_LINE else b""
        file.seek(found.end)
        self._line += taken.count(b"\n")
        if not found.closed:
            self.truncated = self._line
        self._close()
        return True


def _fits(table: NsysTable, header: NsysHeader) -> bool:
    """Whether a table of this kind may have this header."""
    if table in TRACES or header.place("start") is not None:
        return table in TRACES and header.place("start") is not None
    return (table is NsysTable.MEMORY_SIZE) == (header.place("share") is None)


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
