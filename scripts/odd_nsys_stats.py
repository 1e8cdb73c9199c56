"""Odd tables of nsys: damaged, mixed with a job's output, rewritten by users, in other encodings.

Most start from the `basic` workload and change its text, so the answers of `basic` hold for everything
the change does not touch.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import nsys_stats_tables as reports
from nsys_stats_tables import AGES, SUMMARY, Rows
from scenarios import WORKLOADS
from write_nsys_stats import FRENCH, column, csv_, json_, processing, skipped, stats, write_stats

NEW, BASIC = AGES["2025"], WORKLOADS["basic"]
Make = Callable[[], str]


def _tables(which: str = "basic") -> list[Rows]:
    return [report(NEW, WORKLOADS[which]) for report in SUMMARY]


_TEXT = stats(NEW, _tables())
_CSV = "".join(processing(NEW, rows) + csv_(rows) + "\n" for rows in _tables())
LONG = "void " + "very_" * 30 + "long_kernel<float>(float *, int)"
QUOTED = 'apply<"fast", {lambda()#1}]>(int)'


def _renamed(name: str) -> Rows:
    rows = reports.kernels(NEW, BASIC)
    return Rows(rows.report, rows.header, ((*rows.cells[0][:-1], name), *rows.cells[1:]))


def _between() -> str:
    parts = _TEXT.split("Processing ")
    return (
        "== job 77 ==\n"
        + "0 errors\n".join(f"Processing {part}" for part in parts[1:])
        + "done, 3 files\n"
    )


def _commented() -> str:
    return "".join(f"// {line}\n" for line in _TEXT.splitlines())


def _cut() -> str:
    rows = csv_(reports.kernels(NEW, BASIC))
    lines = rows.splitlines(keepends=True)
    return "".join(lines[:2]) + lines[2][:22]


def _cut_json() -> str:
    text = json_(reports.kernels(NEW, BASIC))
    return text[: text.index('"Instances"', 300)]


def _cut_trace() -> str:
    text = csv_(reports.gpu_trace(NEW, BASIC))
    return text[: text.index(",110,") + 3]


def _not_numbers() -> str:
    rows = reports.kernels(NEW, BASIC)
    first, second = list(rows.cells[0]), list(rows.cells[1])
    first[7], second[1] = "n/a", "###"
    return csv_(Rows(rows.report, rows.header, (tuple(first), tuple(second), *rows.cells[2:])))


def _microseconds() -> str:
    rows = reports.kernels(NEW, BASIC)
    header = tuple(word.replace("(ns)", "(us)") for word in rows.header)
    cells = tuple(
        (row[0], *(v if i == 1 else Decimal(str(v)) / 1000 for i, v in enumerate(row[1:8])), row[8])
        for row in rows.cells
    )
    return csv_(Rows(rows.report, header, cells))


def _seconds() -> str:
    rows, events = reports.gpu_trace(AGES["2020"], BASIC), BASIC.events
    header = ("Start(sec)", "Duration(nsec)", *rows.header[2:10], "StcSMem", "DymSMem", "Bytes",
              "Thru(MB/s)", *rows.header[14:])  # fmt: skip
    shared = {k.start_ns: (k.static_shared_bytes, k.dynamic_shared_bytes) for k in events.kernels}
    moved = {m.start_ns: m.bytes for m in events.memcpys}
    moved |= {m.start_ns: m.bytes for m in events.memsets}
    cells = []
    for row in rows.cells:
        start = int(row[0] or 0)
        sizes = (*shared.get(start, (None, None)), moved.get(start))
        cells.append((Decimal(start) / 10**9, *row[1:10], *sizes, *row[13:]))
    announced = f"Exporting [/opt/{reports.SECRET}/gputrace.py report1.sqlite] to console... \n\n"
    return announced + column(Rows(rows.report, header, tuple(cells)))


def _several_runs() -> str:
    return _TEXT + stats(NEW, _tables("unified_memory")).replace("report1", "report2")


def _again() -> str:
    rows = reports.kernels(NEW, BASIC)
    return _TEXT + processing(NEW, rows, arguments="base") + column(rows)


def _markdown() -> str:
    rows = reports.kernels(NEW, BASIC)
    order = (8, 0, 1, 2, 3)
    head = [rows.header[i] for i in order]
    body = [[f"{row[i]}%" if i == 0 else str(row[i]) for i in order] for row in rows.cells]
    lines = [head, [":--"] * len(head), *body]
    return "# Kernels\n\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _others() -> str:
    text = "[3/4] Executing 'syscall_sum' stats report\n\n"
    rows = reports.api(NEW, BASIC)
    renamed = tuple((*row[:-1], f"read{number}") for number, row in enumerate(rows.cells))
    return (
        text
        + column(Rows("api", rows.header, renamed))
        + (
            "\nVirtual Address,HtoD Migration Size (MB),DtoH Migration Size (MB),CPU Page Faults,"
            "GPU Page Faults,Migration Throughput (MB/s)\n0x7f00,0.074,0.016,1,16,7.3\n"
        )
    )


def _only_skipped() -> str:
    return "".join(skipped(rows) for rows in _tables())


def _incomplete() -> str:
    return "".join(column(reports.kernels(NEW, BASIC)).splitlines(keepends=True)[:5])


def _ambiguous() -> str:
    return ("Start (ms)  Duration (ms)  CorrId  Device  Ctx  Strm  Name\n"
            "----------  -------------  ------  ------  ---  ----  ----\n"
            "     1.234          2.500     101  GPU (0)   1     7  stencil\n")  # fmt: skip


def _line_end_in_a_name() -> str:
    rows = reports.ranges(NEW, BASIC)
    first = (*rows.cells[0][:-1], ":step\nwith three lines,\nand a comma")
    return csv_(Rows(rows.report, rows.header, (first, *rows.cells[1:])))


def _openacc() -> str:
    rows = (
        (Decimal("71.4"), 5_000_000, 2, Decimal("2500000.0"), Decimal("2500000.0"), 1_000_000, 4_000_000,
         Decimal("2121320.3"), "Wait@solve.c:85"),
        (Decimal("28.6"), 2_000_000, 4, Decimal("500000.0"), Decimal("500000.0"), 400_000, 600_000,
         Decimal("81649.7"), "Enqueue Launch@solve.c:85"),
    )  # fmt: skip
    return csv_(Rows("api", (*NEW.time[:2], "Count", *NEW.time[2:], "Name"), rows))


def _text(make: Make) -> Callable[[Path], None]:
    return lambda path: write_stats(path, make())


def _encoded(make: Make, encoding: str) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(make().encode(encoding))

    return write


# file: (maker, what it holds).
ODD_STATS: dict[str, tuple[Callable[[Path], None], str]] = {
    "odd-decorated.txt": (_text(_between), "tables between a job's output; answers as `basic`"),
    "odd-comments.txt": (_text(_commented), "tables in comments of a program; answers as `basic`"),
    "odd-utf16.txt": (
        _encoded(lambda: "\ufeff" + _TEXT.replace("\n", "\r\n"), "utf-16-le"),
        "tables as PowerShell's `>` leaves them: UTF-16, CR LF; answers as `basic`",
    ),
    "odd-bom.csv": (
        _encoded(lambda: "\ufeff" + _CSV.replace("\n", "\r\n"), "utf-8"),
        "tables in CSV with a mark of UTF-8 and CR LF; answers as `basic`",
    ),
    "odd-windows-1252.txt": (
        _encoded(
            lambda: re.sub("\u202f", "\u00a0", stats(NEW, _tables(), FRENCH)),
            "cp1252",
        ),
        "tables of a French Windows, not in UTF-8; answers as `basic`",
    ),
    "odd-semicolons.csv": (
        _text(lambda: "".join(csv_(rows, ";") + "\n" for rows in _tables())),
        "tables in CSV with semicolons and nothing around them; answers as `basic`",
    ),
    "odd-again.txt": (_text(_again), "a table a second time with other arguments; answers as `basic`"),
    "odd-several-runs.txt": (_text(_several_runs), "tables of two recordings: `basic`, `unified_memory`"),
    "odd-cut.csv": (_text(_cut), "totals of kernels that end within the row of the second"),
    "odd-cut.json": (_text(_cut_json), "the same in JSON"),
    "odd-cut-trace.csv": (_text(_cut_trace), "a trace that ends within the row of kernel 110"),
    "odd-incomplete.txt": (_text(_incomplete), "the first three rows of a table of kernels"),
    "odd-no-numbers.csv": (_text(_not_numbers), "totals of kernels with cells that are not numbers"),
    "odd-microseconds.csv": (_text(_microseconds), "totals of kernels in microseconds"),
    "odd-seconds.txt": (_text(_seconds), "a trace as of 2020.4: starts in seconds, whole bytes"),
    "odd-long-name.txt": (
        _text(lambda: column(_renamed(LONG))), "totals of kernels, one of which has too long a name"),
    "odd-quotes.json": (
        _text(lambda: json_(_renamed(QUOTED), escaped=False)),
        "totals of kernels in JSON, quotes in a name not escaped",
    ),
    "odd-markdown.md": (_text(_markdown), "totals of kernels in a table of Markdown, names first"),
    "odd-line-end.csv": (_text(_line_end_in_a_name), "totals of ranges, one with line ends in its name"),
    "odd-openacc.csv": (_text(_openacc), "totals of constructs of OpenACC, CSV"),
    "odd-ambiguous.txt": (_text(_ambiguous), "a trace with a number that may be one or a thousand"),
    "odd-others.txt": (_text(_others), "tables that nsysconv does not read"),
    "odd-skipped.txt": (_text(_only_skipped), "nsys says that there is nothing"),
}  # fmt: skip
