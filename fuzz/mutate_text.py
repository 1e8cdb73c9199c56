"""Damage to printed tables: lines, columns, cells, units, encodings, and what programs print between."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import mutate_bytes

_NUMBERS = (
    "nan", "inf", "-inf", "1e400", "-1", "0", "-0", "", "-", "N/A", "[N/A]", "1,5", "1.5", "1.234,5",
    "1'234", "1 234", "9" * 19, "9" * 400, "1e308", "1e-308", "0x10", "１２", "٣", "²", "1_000", "1.2.3",
    "+5", "5ms", "5 us", "100%", "9223372036854775807", "9223372036854775808", "-9223372036854775809",
    "18446744073709551615", "1" + "0" * 30, "0." + "0" * 50 + "1", "1/2", "true", "None", "=1+1",
)  # fmt: skip
_UNITS = (
    "ns",
    "us",
    "ms",
    "s",
    "%",
    "MB",
    "KB",
    "GB",
    "B",
    "GB/s",
    "MiB",
    "",
    "min",
    "h",
    "µs",
    "W",
    "MHz",
)
_OUTPUT = (
    "step 12 loss 0.3412", "==1234== Warning: 12 records have invalid timestamps", "Time(%)",
    "0.5,1.0,2.0", "Traceback (most recent call last):", "==== done ====", "", "\x1b[2Kprogress 50%\r",
    "Start,Duration,Name", "==99== Profiling result:", " ** CUDA API Summary (cuda_api_sum):",
    '{"name": 1}', "[", "#", "100.0  12  12  12", "0,1,2,3,4,5,6,7,8,9", "timestamp, index",
    "==PROF== Connected", "\ufeff", "\0\0\0", "# gpu   pwr gtemp", "1.0%  1.0us  1  1us 1us 1us x",
    "==1== Generated result file: /home/someone/x.nvvp", "-" * 80, "========", "\u2028", "a" * 300,
)  # fmt: skip
_NUMBER = re.compile(r"-?\d[\d.,]*(?:e[+-]?\d+)?")
_UNIT = re.compile(
    r"(?<=\d)\s?(?:ns|us|ms|s|MB|KB|GB|B|%|W|MHz|MiB)\b|\((?:ns|us|ms|s|MB|KB|B|%)\)|(?<=,)(?:us|ms|s|ns|MB|KB|%)(?=,)"
)

Lines = list[str]


def _line(random_: random.Random, lines: Lines) -> int:
    if not lines:
        lines.append("")
    return random_.randrange(len(lines))


def remove(random_: random.Random, lines: Lines) -> str:
    """Remove lines; return what was done."""
    low = _line(random_, lines)
    count = random_.choice((1, 1, 2, 5))
    del lines[low : low + count]
    return f"lines {low}+{count} removed"


def repeat(random_: random.Random, lines: Lines) -> str:
    """Repeat lines."""
    low = _line(random_, lines)
    count, to = random_.choice((1, 2, 8)), _line(random_, lines)
    lines[to:to] = lines[low : low + count]
    return f"lines {low}+{count} again at {to}"


def shuffle(random_: random.Random, lines: Lines) -> str:
    """Put lines into another order."""
    low = _line(random_, lines)
    part = lines[low : low + random_.choice((2, 5, 20, 10_000))]
    random_.shuffle(part)
    lines[low : low + len(part)] = part
    return f"{len(part)} lines from {low} shuffled"


def cut(random_: random.Random, lines: Lines) -> str:
    """Cut a line at its end or beginning."""
    which = _line(random_, lines)
    text = lines[which]
    where = random_.randrange(len(text) + 1)
    lines[which] = text[:where] if random_.random() < 0.7 else text[where:]
    return f"line {which} cut at {where}"


def join(random_: random.Random, lines: Lines) -> str:
    """Join two lines."""
    which = _line(random_, lines)
    lines[which : which + 2] = ["".join(lines[which : which + 2])]
    return f"lines {which} and the next are one"


def split(random_: random.Random, lines: Lines) -> str:
    """Split a line in two."""
    which = _line(random_, lines)
    text = lines[which]
    where = random_.randrange(len(text) + 1)
    lines[which : which + 1] = [text[:where], text[where:]]
    return f"line {which} broken at {where}"


def drop_cell(random_: random.Random, lines: Lines) -> str:
    """Remove, move or double a cell or a whole column."""
    which = _line(random_, lines)
    comma = (
        ","
        if "," in lines[which]
        else ";"
        if ";" in lines[which]
        else "\t"
        if "\t" in lines[which]
        else None
    )
    place, every = random_.randrange(12), random_.random() < 0.5
    kind = random_.choice(("dropped", "doubled", "emptied", "last"))
    for number in range(which, len(lines) if every else which + 1):
        found = (
            lines[number].split(comma) if comma else re.split(r"(?<=\S)\s{2,}(?=\S)", lines[number])
        )
        if place < len(found):
            cell = found.pop(place)
            if kind == "doubled":
                found[place:place] = [cell, cell]
            elif kind == "emptied":
                found.insert(place, "")
            elif kind == "last":
                found.append(cell)
            lines[number] = (comma or "  ").join(found)
    return f"cell {place} of line {which}{' on' if every else ''} {kind}"


def number(random_: random.Random, lines: Lines) -> str:
    """Replace a number, or remove it."""
    for _ in range(20):
        which = _line(random_, lines)
        found = list(_NUMBER.finditer(lines[which]))
        if found:
            match, new = random_.choice(found), random_.choice(_NUMBERS)
            lines[which] = lines[which][: match.start()] + new + lines[which][match.end() :]
            return f"line {which}: {match.group()} is {new[:30]!r}"
    return "no number"


def unit(random_: random.Random, lines: Lines) -> str:
    """Change a unit, in one line or in all."""
    new = random_.choice(_UNITS)
    if random_.random() < 0.3:
        for place, text in enumerate(lines):
            lines[place] = _UNIT.sub(
                lambda match: match.group().replace(match.group().strip(" ()"), new), text
            )
        return f"every unit is {new!r}"
    for _ in range(20):
        which = _line(random_, lines)
        found = list(_UNIT.finditer(lines[which]))
        if found:
            match = random_.choice(found)
            lines[which] = lines[which][: match.start()] + new + lines[which][match.end() :]
            return f"line {which}: {match.group()} is {new!r}"
    return "no unit"


def output(random_: random.Random, lines: Lines) -> str:
    """Put a program's output between the lines, or into one."""
    which, text = _line(random_, lines), random_.choice(_OUTPUT)
    kind = random_.random()
    if kind < 0.7:
        lines.insert(which, text)
    elif kind < 0.85:
        lines[which] = text + lines[which]
    else:
        lines[which] += text
    return f"{text[:40]!r} at line {which}"


def long(random_: random.Random, lines: Lines) -> str:
    """Add a very long line, or very many lines."""
    which = _line(random_, lines)
    kind = random_.choice(("x", "1", ",", '"', " ", "\t", "-", "(", "0,"))
    size = random_.choice((5000, 200_000, 3_000_000))
    if random_.random() < 0.3:
        lines[which:which] = [lines[which]] * min(size // (len(lines[which]) + 1) + 1, 20_000)
        return f"line {which} very often"
    lines[which] += kind * (size // len(kind))
    return f"{size} of {kind!r} in line {which}"


def quote(random_: random.Random, lines: Lines) -> str:
    """Add or remove a quote."""
    which = _line(random_, lines)
    if '"' in lines[which] and random_.random() < 0.5:
        lines[which] = lines[which].replace('"', "", 1)
        return f"line {which} with a quote less"
    where = random_.randrange(len(lines[which]) + 1)
    lines[which] = lines[which][:where] + '"' + lines[which][where:]
    return f"line {which} with a quote at {where}"


def header(random_: random.Random, lines: Lines) -> str:
    """Change a word of a header, or swap two."""
    words = [
        place for place, text in enumerate(lines) if len(re.findall(r"[A-Za-z]{3,}", text)) >= 3
    ]
    if not words:
        return "no header"
    which = random_.choice(words[:8])
    found = list(re.finditer(r"[A-Za-z][A-Za-z_.]+", lines[which]))
    if not found:
        return "no header"
    match, other = random_.choice(found), random_.choice(found)
    new = random_.choice(
        (other.group(), match.group().lower(), match.group()[:-1], "Start", "Name", "")
    )
    lines[which] = lines[which][: match.start()] + new + lines[which][match.end() :]
    return f"line {which}: {match.group()} is {new!r}"


STEPS: tuple[Callable[[random.Random, Lines], str], ...] = (
    remove, repeat, shuffle, cut, cut, join, split, drop_cell, drop_cell, number, number, number,
    number, unit, unit, output, output, output, long, quote, quote, header, header,
)  # fmt: skip
_ENDS = ("\r\n", "\r", "\n\n", "\n")
_ENCODINGS = ("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "latin-1", "cp1252", "utf-32")


def mutate(
    content: bytes, steps: list[random.Random], others: list[bytes]
) -> tuple[bytes, list[str]]:
    """Return a log with a step of damage for each of these generators, and what was done."""
    done = []
    for random_ in steps:
        kind = random_.random()
        if kind < 0.75:
            text = content.decode("utf-8", "surrogateescape")
            lines = text.split("\n")
            done.append(random_.choice(STEPS)(random_, lines))
            content = "\n".join(lines).encode("utf-8", "surrogateescape")
        elif kind < 0.88:
            content, what = random_.choice(mutate_bytes.GENERAL)(random_, content)
            done.append(what)
        elif kind < 0.92:
            content, what = mutate_bytes.splice(random_, content, random_.choice(others))
            done.append(what)
        elif kind < 0.96:
            end = random_.choice(_ENDS)
            content = content.replace(b"\r\n", b"\n").replace(b"\n", end.encode())
            done.append(f"lines end in {end!r}")
        else:
            encoding = random_.choice(_ENCODINGS)
            content = content.decode("utf-8", "replace").encode(encoding, "replace")
            done.append(f"in {encoding}")
    return content, done
