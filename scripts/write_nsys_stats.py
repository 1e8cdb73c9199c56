"""Write reports of `nsys stats` in its formats, for several ages and locales."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from nsys_stats_tables import NAMES, SECRET, Age, Rows

WIDEST = 100
DATABASE = f"/scratch/{SECRET}/report1.sqlite"
FOLDER = "/opt/nvidia/nsight-systems/target-linux-x64/reports"

Cell = int | Decimal | str | None


@dataclass(frozen=True)
class Locale:
    """The way a locale writes numbers: `last` digits in the last group, `others` in those before."""

    group: str
    sign: str
    last: int = 3
    others: int = 3


PLAIN, ENGLISH = Locale("", "."), Locale(",", ".")
GERMAN, FRENCH, SWISS = Locale(".", ","), Locale("\u202f", ","), Locale("\u2019", ".")
FOURS, INDIAN = Locale(",", ".", 4, 4), Locale(",", ".", 3, 2)


def number(value: int | Decimal, locale: Locale) -> str:
    """Return a number in that locale."""
    whole, _, behind = str(value).partition(".")
    groups = [whole[-locale.last :]]
    rest = whole[: -locale.last]
    while rest:
        groups.insert(0, rest[-locale.others :])
        rest = rest[: -locale.others]
    return locale.group.join(groups) + (locale.sign + behind if behind else "")


def _text(cell: Cell, locale: Locale) -> str:
    if cell is None:
        return ""
    if not isinstance(cell, str):
        return number(cell, locale)
    return cell if len(cell) <= WIDEST else cell[: WIDEST - 1] + "\u2026"


def _written(rows: Rows, locale: Locale) -> tuple[list[list[str]], list[int], list[bool]]:
    texts = [[_text(cell, locale) for cell in row] for row in rows.cells]
    widths = [max(len(word), *(len(row[i]) for row in texts)) for i, word in enumerate(rows.header)]
    numeric = [any(isinstance(row[i], int | Decimal) for row in rows.cells)
               for i in range(len(rows.header))]  # fmt: skip
    return texts, widths, numeric


def _padded(row: Iterable[str], widths: list[int], numeric: list[bool]) -> list[str]:
    return [f"{text:>{width}}" if right else f"{text:<{width}}"
            for text, width, right in zip(row, widths, numeric, strict=True)]  # fmt: skip


def column(rows: Rows, locale: Locale = ENGLISH) -> str:
    """Return the tables as of `-f column`, the console's."""
    texts, widths, numeric = _written(rows, locale)
    heads = [f"{word:^{width}}" for word, width in zip(rows.header, widths, strict=True)]
    lines = [
        heads,
        ["-" * width for width in widths],
        *(_padded(row, widths, numeric) for row in texts),
    ]
    return "".join(f" {'  '.join(line)}\n" for line in lines)


def table(rows: Rows, locale: Locale = ENGLISH) -> str:
    """Return the tables as of `-f table`: in boxes."""
    texts, widths, numeric = _written(rows, locale)
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+\n"
    heads = [f"{word:^{width}}" for word, width in zip(rows.header, widths, strict=True)]
    lines = [heads, *(_padded(row, widths, numeric) for row in texts)]
    head, *body = (f"| {' | '.join(line)} |\n" for line in lines)
    return rule + head + rule + "".join(body) + rule


def built_in(rows: Rows) -> str:
    """Return the text of 2019 and 2020: columns of a least width, headings of text to the left."""
    texts, widths, numeric = _written(rows, PLAIN)
    widths = [max(width, 14 if right else 80) for width, right in zip(widths, numeric, strict=True)]
    widths[0] = 7 if rows.header[0].startswith("Time") else 17
    lines = [_padded(rows.header, widths, numeric), ["-" * width for width in widths],
             *(_padded(row, widths, numeric) for row in texts)]  # fmt: skip
    return "".join(f"{'  '.join(line)}\n" for line in lines)


def csv_(rows: Rows, delimiter: str = ",") -> str:
    """Return the tables as of `-f csv`."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    writer.writerow(rows.header)
    writer.writerows([["" if cell is None else str(cell) for cell in row] for row in rows.cells])
    return out.getvalue()


def tsv(rows: Rows) -> str:
    """Return the tables as of `-f tsv`: without quotes."""
    lines = [
        rows.header,
        *(["" if cell is None else str(cell) for cell in row] for row in rows.cells),
    ]
    return "".join("\t".join(line) + "\n" for line in lines)


def json_(rows: Rows, *, escaped: bool = True) -> str:
    """Return the tables as of `-f json`; some releases do not escape quotes."""

    def spelled(cell: Cell) -> str:
        if cell is None:
            return '""'
        if not isinstance(cell, str):
            return str(cell)
        return json.dumps(cell, ensure_ascii=False) if escaped else f'"{cell}"'

    objects = [",".join(f'"{word}":{spelled(cell)}' for word, cell in zip(rows.header, row, strict=True))
               for row in rows.cells]  # fmt: skip
    return "[" + ",".join(f"{{{each}}}" for each in objects) + "]\n"


# -- what is around tables


def name(age: Age, rows: Rows) -> str:
    """Return what the age calls the report."""
    return NAMES[rows.report][age.short]


def processing(age: Age, rows: Rows, database: str = DATABASE, arguments: str = "") -> str:
    """Return the line before a table that `nsys stats` prints."""
    shown = f"({arguments})" if arguments else ""
    return f"Processing [{database}] with [{FOLDER}/{name(age, rows)}.py]{shown}... \n\n"


def heading(age: Age, rows: Rows) -> str:
    """Return the line above a table on a console."""
    if age.short:
        title = NAMES[rows.report][3]
        title = (
            f"{title[:-1]} in KiB)" if rows.report == "sizes" and age.size_bytes == 1024 else title
        )
        return f"{title}:\n\n"
    return f" ** {NAMES[rows.report][2]} ({name(age, rows)}):\n\n"


def stats(age: Age, reports: Iterable[Rows], locale: Locale = ENGLISH) -> str:
    """Return the output of `nsys stats FILE` on a console."""
    text = (
        f"NOTICE: Existing SQLite export found: {DATABASE}\n"
        f"        It is assumed file was previously exported from: {DATABASE[:-7]}.nsys-rep\n"
        "        Consider using --force-export=true if needed.\n\n"
    )
    for rows in reports:
        text += processing(age, rows)
        text += heading(age, rows) + column(rows, locale) + "\n" if rows.cells else skipped(rows)
    return text


def skipped(rows: Rows) -> str:
    """Return the words that replace a table without rows."""
    what = {"api": "CUDA trace data", "kernels": "CUDA kernel data", "copies": "GPU memory data",
            "sizes": "GPU memory data", "ranges": "NV Tools Extension (NVTX) data"}  # fmt: skip
    return f"SKIPPED: {DATABASE} does not contain {what[rows.report]}.\n\n"


def profile(age: Age, reports: list[Rows], output: str, locale: Locale = ENGLISH) -> str:
    """Return the output of `nsys profile --stats=true ./program`: the program's own, then the tables."""
    steps = len([rows for rows in reports if rows.cells]) + 2
    text = output
    text += f"Generating '/tmp/{SECRET}/nsys-report-1c93.qdstrm'\n"
    text += (
        f"[1/{steps}] [0%                          ]\r[1/{steps}] [========================100%] "
    )
    text += f"report1.nsys-rep\n[2/{steps}] [========================100%] report1.sqlite\n"
    text += "".join(skipped(rows) for rows in reports if not rows.cells)
    there = (rows for rows in reports if rows.cells)
    for step, rows in enumerate(there, 3):
        text += f"[{step}/{steps}] Executing '{name(age, rows)}' stats report\n\n"
        text += column(rows, locale) + "\n"
    return (
        text
        + f"Generated:\n    /home/{SECRET}/report1.nsys-rep\n    /home/{SECRET}/report1.sqlite\n"
    )


def oldest(age: Age, reports: Iterable[Rows], output: str) -> str:
    """Return the output of `nsys profile --stats=true` of 2019 and 2020."""
    text = (
        f"Collecting data...\n{output}Exported successfully to\n/home/{SECRET}/report1.sqlite\n\n"
    )
    for rows in reports:
        title = NAMES[rows.report][3].partition(" (by")[0]
        unit = "KiB" if rows.report == "sizes" else "nanoseconds"
        text += f"Generating {title}...\n{title} ({unit})\n\n{built_in(rows)}\n\n"
    return text


def write_stats(path: Path, text: str) -> None:
    """Write the file, its line ends as they are."""
    path.write_text(text, encoding="utf-8", newline="")
