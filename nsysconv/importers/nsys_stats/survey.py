"""Survey of a log: where tables are, what announces them, and to which recording they belong.

A log is read twice. This is the first time: rows of small tables are kept, and of traces only the places
of their rows.
"""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nsysconv.importers.nsys_stats.tables import (
    BOX,
    JSON_START,
    TRACES,
    JsonRows,
    Layout,
    NsysHeader,
    NsysTable,
    boxed_cells,
    delimited_cells,
    header_of_words,
    parse_header,
    report_of,
    title_of,
)
from nsysconv.importers.printed.lines import LogLines, RowSpan, add_spans, read_span
from nsysconv.importers.printed.registry import is_api_name
from nsysconv.importers.printed.text import RejectedLines

# nsys announces a table in these ways. Each has a pattern, and a sign; the pattern is tried where the
# sign first occurs in a line. Patterns do not backtrack, because damaged lines may have a million
# characters.
_RUNNING = re.compile(r"\w+ \[(?:[^\]]*?[/\\])??(?P<report>\w+)\.py (?P<file>[^\]]*)(?P<args>)\]")
_ANNOUNCEMENTS = (
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
# Words alone are repeated to users: a damaged line may have a private path in this place.
_SKIPPED = re.compile(r"SKIPPED: .*?does not contain (?P<what>[\w ()-]{1,60}?)\.?\s*$")
# nsys prints these when it begins with another recording.
_RECORDING_START = re.compile(
    r"^\s*(?:Collecting data\.\.\.|Generating '.*\.qdstrm'|Generating SQLite file )"
)
# A line without any of these is not a message of nsys.
_MESSAGE_WORDS = re.compile(
    r"Processing|Running|Exporting|Executing|\*\*|SKIPPED|Collecting|Generating|Stat|Summ|Trac"
)
_SIZE_UNIT = re.compile(r"\((?:by size in )?([KMG]i?B)\)")
# A line between a header and its rows, and around a table in boxes.
_RULE = re.compile(
    r"^[\s+\-=|:│┃║┌┐└┘├┤┬┴┼─━═╔╗╚╝╠╣╦╩╬╒╕╘╛╞╡╤╧╪╭╮╰╯]*[\-=─━═][\s+\-=|:│┃║┌┐└┘├┤┬┴┼─━═╔╗╚╝╠╣╦╩╬╒╕╘╛╞╡╤╧╪╭╮╰╯]*$"
)
_DASHES = re.compile(r"-+")
_GAP = re.compile(r"\s{2,}")
# These precede lines that were copied into a comment or a quotation.
_COMMENT = re.compile(r"^\s*(?://+|#+|>+)(?=\s|$)")
_LIKE_A_ROW = re.compile(r'^[\s|│"*]*-?\d')
_OTHER_LINE = re.compile(rb'\n[^0-9"]')
# Every row of totals or of traces has these, as far as its table does.
_REQUIRED = ("total", "count", "start", "dur", "name")
_MOST_COUNTED_BYTES = 1 << 20
_MOST_LINES_OF_A_ROW = 64

# -- recognizing the output of nsys

# A table's header has one of these, in one line or as keys of an object. The others are text that nsys
# prints beside tables.
_SIGN = re.compile(
    rb"Time ?\(%\)|Total(?: \([KMG]i?B\))?[^\n]{1,40}(?:Count|Operations)|Start(?: Time)? ?\(|Proj Avg|"
    rb"QCount|Kern Inst|Migration Size|DurNonChild|API Dur|Total Message Volume|PeerRank"
)
_MESSAGE = re.compile(
    rb"^[ \t/#>]*(?:Processing \[[^\]\n]{1,400}\] with \[[^\]\n]{1,400}\]|"
    rb"\[\d{1,4}/\d{1,4}\] Executing '\w{1,40}[^'\n]{0,200}' stats report|"
    rb"SKIPPED: [^\n]{0,400}does not contain|"
    rb"(?:CUDA API|CUDA Kernel|CUDA Memory Operation) Statistics \((?:nanoseconds|KiB)\))",
    re.MULTILINE,
)
_KEYS = re.compile(rb'\{\s*"(?:Time \(%\)|Total \([KMG]i?B\)|Start \([num]?s\))"\s*:')
_LONGEST_HEADER = 1024


def is_nsys_output(text: bytes) -> bool:
    """Return whether a text holds what nsys prints and no other program, as far as is known."""
    return _MESSAGE.search(text) is not None or has_table(text)


def has_table(text: bytes) -> bool:
    """Return whether a text holds the header of a table of nsys, as a line or as keys of an object."""
    if _KEYS.search(text):
        return True
    last_start = -1
    for match in _SIGN.finditer(text):
        start = text.rfind(b"\n", 0, match.start()) + 1
        if start == last_start:
            continue
        last_start = start
        end = text.find(b"\n", match.end())
        line = text[start : end if end >= 0 else len(text)]
        if len(line) <= _LONGEST_HEADER and parse_header(
            _uncommented(line.decode("utf-8", "replace"))
        ):
            return True
    return False


def _uncommented(line: str) -> str:
    # Blanks take the place of what makes it a comment, so that columns stay aligned.
    return _COMMENT.sub(lambda mark: " " * len(mark.group()), line.rstrip("\r\n"), count=1)


def _match_from(sign: str, pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    place = text.find(sign)
    return pattern.match(text, place) if place >= 0 else None


# -- what a log holds


@dataclass
class PrintedTable:
    """A table: its kind (None if it cannot be known), header, and rows.

    `unit` is that of its sizes where a heading names it. `rows` are the cells of small tables, with their
    lines; `spans` the places of a trace's rows. `extents` are the columns of an aligned table. `unread`
    are lines that look like rows and are none, `foreign` other lines between rows.
    """

    kind: NsysTable | None
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
        """Return whether a row of it has been seen."""
        return bool(self.rows or self.spans)

    def cells(self, line: str) -> list[str] | None:
        """Return the cells of a line, or None if it does not have the header's columns."""
        layout, count = self.header.layout, len(self.header.columns)
        if layout is Layout.DELIMITED:
            cells = delimited_cells(line, self.header.delimiter)
        elif layout is Layout.BOXED:
            cells = boxed_cells(line.strip()) if BOX.search(line) else None
            if cells is not None and len(cells) > count:
                cells = [*cells[: count - 1], "|".join(cells[count - 1 :])]
        else:
            cells = self._aligned_cells(line) or _GAP.split(line.strip(), count - 1)
        return cells if cells is not None and len(cells) == count else None

    def is_aligned_row(self, line: str) -> bool:
        """Return whether a line has its cells under the dashes, and those that no row lacks."""
        cells = self._aligned_cells(line) if self.header.layout is Layout.ALIGNED else None
        places = (self.header.place(role) for role in _REQUIRED)
        return cells is not None and all(cells[place] for place in places if place is not None)

    def _aligned_cells(self, line: str) -> list[str] | None:
        if len(self.extents) != len(self.header.columns):
            return None
        starts = [start for start, _ in self.extents]
        gaps = zip([0, *(end for _, end in self.extents)], starts, strict=False)
        if any(line[low:high].strip() for low, high in gaps):
            return None
        return [line[i:j].strip() for i, j in zip(starts, [*starts[1:], None], strict=True)]


@dataclass(frozen=True)
class NoData:
    """A message that nsys found nothing of a kind."""

    what: str
    database: str


@dataclass(frozen=True)
class RecordingStart:
    """A message that nsys begins with a recording."""


LogItem = PrintedTable | NoData | RecordingStart | str
"""A string is the name of a table that has no place in a store."""


class LogSurvey:
    """The tables of a log, in order.

    `unfinished` is the number of the last line if no newline ends it. `truncated` is the last line if the
    file ends within a row of several lines or within an array.
    """

    def __init__(self, path: Path) -> None:
        """Read a file in UTF-8."""
        self.items: list[LogItem] = []
        self.truncated: int | None = None
        self._path = path
        self._table: PrintedTable | None = None
        self._announced: NsysTable | str | None = None
        self._database = self._arguments = self._unit = ""
        self._open_row: list[str] = []
        # These describe the open table: whether an empty line followed its rows, the lines after these
        # that are not rows, and the beginning of a row that a message interrupts.
        self._paused = False
        self._foreign = RejectedLines()
        self._torn_row = ""
        self._lines = LogLines(path)
        for raw in self._lines:
            self._read_line(raw)
        self.unfinished = self._lines.unfinished
        if self._open_row:
            self.truncated, self._open_row = self._lines.line, []
        self._close()

    def _read_line(self, raw: bytes) -> None:
        if self._lines.line == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        text = _uncommented(raw.decode("utf-8", "replace"))
        if self._open_row:
            self._continue_row(text)
        elif not text.strip():
            self._read_empty_line()
        elif (
            not (JSON_START.match(raw) and self._read_json(self._lines.end - len(raw)))
            and not self._read_message(text)
            and not self._read_header(text)
            and self._table is not None
        ):
            self._read_row(self._table, text)

    def _read_empty_line(self) -> None:
        # It ends a table; but messages, which have such, may come between aligned rows.
        self._mend("")
        if self._table is not None and self._table.has_rows:
            if self._table.extents and self._table.header.layout is Layout.ALIGNED:
                self._paused = True
            else:
                self._close()

    # -- messages

    def _read_message(self, text: str) -> bool:
        if _MESSAGE_WORDS.search(text) is None:
            return False
        table = self._table
        if table is not None and table.header.layout is not Layout.JSON and _LIKE_A_ROW.match(text):
            return self._tear(table, text)
        matches = (_match_from(sign, pattern, text) for sign, pattern in _ANNOUNCEMENTS)
        if match := next(filter(None, matches), None):
            groups = match.groupdict()
            self._close()
            self._announced = report_of(groups["report"])
            self._database = groups.get("file") or self._database
            self._arguments = groups.get("args") or groups["report"].partition(":")[2]
        elif match := _match_from("SKIPPED: ", _SKIPPED, text):
            self.items.append(NoData(match["what"], self._database))
            if table is None:
                self._announced = None
            else:  # stderr comes at any moment: the table goes on
                self._foreign.add(self._lines.line)
        elif _RECORDING_START.match(text) and not text.endswith("Statistics..."):
            self._close()
            self.items.append(RecordingStart())
            self._announced, self._database = None, ""
        elif (announced := title_of(text)) is not None and not BOX.search(text):
            self._close()
            self._announced, self._arguments = announced, ""
            unit = _SIZE_UNIT.search(text)
            self._unit = unit.group(1) if unit else ""
        else:
            return False
        return True

    def _tear(self, table: PrintedTable, text: str) -> bool:
        # A message may be written into the middle of a row, whose other half is in a line below.
        head, sign, message = text.partition("SKIPPED: ")
        match = _SKIPPED.match(sign + message)
        if match is None:
            return False
        self.items.append(NoData(match["what"], self._database))
        self._foreign.add(self._lines.line)
        if table.kind not in TRACES:
            self._torn_row = head
        return True

    def _mend(self, text: str) -> str:
        # Returns what is left of the line with the other half of a torn row.
        torn, self._torn_row = self._torn_row, ""
        if not torn or self._table is None:
            return text
        joined = torn + text
        if self._table.is_aligned_row(joined) or (
            self._table.header.layout is Layout.DELIMITED and self._table.cells(joined) is not None
        ):
            torn, text = joined, ""
        self._keep_row(self._table, torn)
        return text

    # -- tables

    def _read_header(self, text: str) -> bool:
        header = parse_header(text)
        if header is None:
            if isinstance(self._announced, str) and _RULE.match(text) and text.count("--") > 2:
                self._open(self._announced)
                return True
            return False
        self._open(header)
        return True

    def _open(self, header: NsysHeader | str) -> None:
        self._close()
        announced, self._announced = self._announced, None
        if isinstance(header, str) or isinstance(announced, str):
            self.items.append(announced if isinstance(announced, str) else str(header))
            return
        kind = announced if announced is not None and _fits(announced, header) else header.table
        self._table = PrintedTable(
            kind, header, self._lines.line, self._unit, self._database, self._arguments
        )
        self._unit, self._arguments = "", ""
        self.items.append(self._table)

    def _close(self) -> None:
        self._mend("")
        if self._open_row and self._table is not None:
            self._table.unread.append(self._lines.line)
        self._table, self._open_row = None, []
        self._paused, self._foreign, self._torn_row = False, RejectedLines(), ""

    def _read_row(self, table: PrintedTable, text: str) -> None:
        layout = table.header.layout
        text = self._mend(text)
        if not text:
            return
        # In boxes the name may come first.
        pattern = BOX if layout is Layout.BOXED else _LIKE_A_ROW
        is_row = pattern.search(text) is not None
        if layout is not Layout.DELIMITED and _RULE.match(text):
            if not table.extents:
                table.extents = [match.span() for match in _DASHES.finditer(text)]
        elif not is_row or (self._paused and not table.is_aligned_row(text)):
            if table.has_rows:
                self._foreign.add(self._lines.line)
        elif table.kind in TRACES:
            self._go_on(table)
            self._add_rows(table)
        elif layout is Layout.DELIMITED and table.header.delimiter != "\t" and text.count('"') % 2:
            self._open_row = [text]
        else:
            self._keep_row(table, text)

    def _continue_row(self, text: str) -> None:
        # Names of ranges may hold line ends: the quotes of the row are not closed yet.
        self._open_row.append(text)
        if text.count('"') % 2 and self._table is not None:
            row, self._open_row = "\n".join(self._open_row), []
            self._keep_row(self._table, row)
        elif len(self._open_row) > _MOST_LINES_OF_A_ROW:
            self._close()

    def _keep_row(self, table: PrintedTable, text: str) -> None:
        cells = table.cells(text)
        if cells is None:
            table.unread.append(self._lines.line)
        else:
            self._go_on(table)
            table.rows.append((self._lines.line, cells))

    def _go_on(self, table: PrintedTable) -> None:
        # A row came: the lines before it did not end the table.
        table.foreign.extend(self._foreign)
        self._foreign, self._paused = RejectedLines(), False

    def _add_rows(self, table: PrintedTable) -> None:
        # In CSV this adds the current row of a trace and all that follow, otherwise the current row
        # alone.
        rows = self._lines.rows(_OTHER_LINE) if table.header.layout is Layout.DELIMITED else ()
        if not add_spans(table.spans, rows):
            add_spans(table.spans, [self._lines.span])

    def _read_json(self, start: int) -> bool:
        rows = JsonRows(self._path, start)
        table: PrintedTable | None = None
        for number, row in enumerate(rows):
            if number == 0:
                header = header_of_words(list(row), Layout.JSON)
                if header is None:
                    return False
                self._open(header)
                table = self._table
            if table is not None and table.kind not in TRACES:
                table.rows.append((self._lines.line, list(row.values())))
        if rows.end == start:
            return False
        if table is not None:
            table.unread += [self._lines.line] * rows.unread
            if table.kind in TRACES:
                table.spans.append(RowSpan(start, rows.end, self._lines.line))
        if rows.end - start <= _MOST_COUNTED_BYTES:
            self._lines.line += read_span(self._path, RowSpan(start, rows.end, 0)).count(b"\n")
        self._lines.end = rows.end
        if not rows.closed:
            self.truncated = self._lines.line
        self._close()
        return True


def _fits(kind: NsysTable, header: NsysHeader) -> bool:
    if kind in TRACES or header.place("start") is not None:
        return kind in TRACES and header.place("start") is not None
    return (kind is NsysTable.MEMORY_SIZE) == (header.place("share") is None)


# -- which tables belong to one recording

# Functions of the C library that are not system calls; API calls have a table with the same header.
_LIBRARY = re.compile(
    r"(?:pthread|sem)_\w+$|f(?:open|read|write|close|gets|getc|puts|putc|flush|open64)$|"
    r"(?:mmap64|open64|getc|putc|getdelim|getline|waitpid|usleep|sleep|sigaction|signal|popen|pclose)$"
)
_FUNCTION = re.compile(r"[a-z_][a-z0-9_]*$")
# OpenACC's constructs have such names: the construct, the file and the line.
CONSTRUCT = re.compile(r"(?>.+?@).*:\d+$")


@dataclass
class Run:
    """The tables of one recording; `no_data` are the kinds of data that nsys did not find."""

    database: str = ""
    tables: dict[NsysTable, PrintedTable] = field(default_factory=dict)
    no_data: set[str] = field(default_factory=set)
    not_read: Counter[str] = field(default_factory=Counter)

    @property
    def is_empty(self) -> bool:
        """Return whether nothing was said of the recording yet."""
        return not (self.tables or self.no_data or self.not_read)


def split_runs(items: Sequence[LogItem]) -> Iterator[Run]:
    """Yield the recordings of a log: a table that comes again is of the next one."""
    run = Run()
    for item in items:
        if isinstance(item, PrintedTable):
            item.kind = _kind_by_rows(item) if item.kind is None else item.kind
        database = getattr(item, "database", "")
        is_other = bool(database and run.database and database != run.database)
        earlier = None
        if isinstance(item, PrintedTable) and item.kind is not None:
            earlier = run.tables.get(item.kind)
            if (
                earlier is not None
                and not is_other
                and database
                and earlier.database == database
                and earlier.arguments != item.arguments
            ):
                run.not_read[f"{item.kind.value} in another form"] += 1
                continue
        is_next = earlier is not None or is_other or isinstance(item, RecordingStart)
        if is_next and not run.is_empty:
            yield run
            run = Run()
        run.database = run.database or database
        if isinstance(item, PrintedTable):
            if item.kind is None:
                run.not_read["a table of calls that nothing names"] += 1
            else:
                run.tables[item.kind] = item
        elif isinstance(item, NoData):
            run.no_data.add(item.what)
        elif isinstance(item, str):
            run.not_read[item] += 1
    if not run.is_empty:
        yield run


def count_tables(path: Path) -> Counter[str]:
    """Return how often each table of nsys is in a file of another program, by nsys's names."""
    count: Counter[str] = Counter()
    for run in split_runs(LogSurvey(path).items):
        count.update(kind.value for kind in run.tables)
        count.update(run.not_read)
    return count


def _kind_by_rows(table: PrintedTable) -> NsysTable | None:
    place = table.header.place("name")
    names = [row[place].strip() for _, row in table.rows] if place is not None else []
    if table.header.place("category") is not None:
        return NsysTable.API_AND_GPU
    if sum(map(is_api_name, names)) * 2 > len(names):
        return NsysTable.API
    if any(map(_LIBRARY.match, names)) and all(map(_FUNCTION.match, names)):
        return NsysTable.OSRT
    return NsysTable.OPENACC if names and all(map(CONSTRUCT.match, names)) else None
