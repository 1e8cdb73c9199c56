"""Profiles of line_profiler: two functions, one of which calls the other, in round numbers.

train.py:10 train     hits       ns        train.py:3 step     hits       ns
         11              1    2,000                 4           100  300,000
         12            101   98,000                 5           100  400,000
         13            100  900,000
                          1,000,000                              700,000
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from fixture import Fixture

SECRET = "SECRET-line-profiler"
"""Lies in a folder, and in the program's text."""
FILE = f"/home/{SECRET}/train.py"
TIMINGS: dict[Any, Any] = {
    (FILE, 3, "step"): [(4, 100, 300_000), (5, 100, 400_000)],
    (FILE, 10, "train"): [(11, 1, 2_000), (12, 101, 98_000), (13, 100, 900_000)],
}
SOURCE = {
    3: "def step(batch):", 4: "    loss = model(batch)", 5: "    loss.backward()",
    10: "def train():", 11: f"    token = '{SECRET}'", 12: "    for batch in loader:",
    13: "        step(batch)", 14: "        2 3 4.0 5.0 6.0  # digits in the program's text",
}  # fmt: skip


def pickled(
    state: Any,
    protocol: int = 5,
    module: str = "line_profiler.line_profiler",
    name: str = "LineStats",
) -> bytes:
    """Return a pickle of an object of this class, which does not have to exist, with this state."""
    content = pickle.dumps(state, protocol)
    # Behind the number of the protocol, and the frame where there is one.
    body = content[11:-1] if content[2:3] == pickle.FRAME else content[2:-1]
    found = f"c{module}\n{name}\n".encode()
    if protocol > 2:
        texts = (
            pickle.SHORT_BINUNICODE + bytes([len(text)]) + text
            for text in (module.encode(), name.encode())
        )
        found = b"".join(texts) + pickle.STACK_GLOBAL
    return b"\x80" + bytes([protocol]) + found + b")\x81" + body + b"b."


def profile(protocol: int, module: str) -> bytes:
    """Return an `.lprof`: ticks of 1 ns, or of 1 µs before version 4."""
    if protocol > 2:
        return pickled({"timings": TIMINGS, "unit": 1e-09}, protocol, module)
    ticks = {f: [(i, hits, ns // 1000) for i, hits, ns in lines] for f, lines in TIMINGS.items()}
    return pickled({"timings": ticks, "unit": 1e-06}, protocol, module)


def printed(unit: str = "1e-06", ns_of_tick: int = 1000) -> str:
    """Return what `python -m line_profiler` prints."""
    text = f"Timer unit: {unit} s\n\n"
    for (file, first, name), lines in TIMINGS.items():
        total = sum(ns for *_, ns in lines)
        text += f"Total time: {total / 1e9:g} s\nFile: {file}\nFunction: {name} at line {first}\n\n"
        text += "Line #      Hits         Time  Per Hit   % Time  Line Contents\n" + "=" * 62 + "\n"
        timed = {line: (hits, ns) for line, hits, ns in lines}
        last = max(timed) + (name == "train")
        for line in range(first, last + 1):
            cells = ("", "", "", "")
            if line in timed:
                hits, ns = timed[line]
                time = ns / ns_of_tick
                cells = (f"{hits}", f"{time:.1f}", f"{time / hits:.1f}", f"{100 * ns / total:.1f}")
            numbers = "{:>9} {:>12} {:>8} {:>8}".format(*cells)
            text += f"{line:>6} {numbers}  {SOURCE[line]}".rstrip() + "\n"
        text += "\n"
    return text


def odd() -> str:
    """Return a log: output of the program, two profiles with other units, colors, a damaged line."""
    first = printed().replace("Total time", "\x1b[1mTotal time\x1b[0m")
    second = printed("0.001", 1_000_000).replace("    13 ", "  noise 13 ", 1)
    return f"Wrote profile results to {SECRET}.lprof\n{first}{second}"


def _write(make: Callable[[], bytes | str], path: Path) -> None:
    content = make()
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


ABOUT = """\
`line_profiler/` holds profiles as line_profiler writes and prints them
(`scripts/fixtures_line_profiler.py`), with a made-up secret in a folder and in the program's text.
"""
EXAMPLE = "line_profiler/training.lprof"
FILES = [
    Fixture(f"line_profiler/{name}", holds, partial(_write, make))
    for name, holds, make in (
        (
            "training.lprof",
            "five lines of two functions; as of version 5",
            partial(profile, 5, "line_profiler.line_profiler"),
        ),
        (
            "training-2.lprof",
            "the same, as of version 2 and Python 2",
            partial(profile, 2, "_line_profiler"),
        ),
        ("training.txt", "the same, printed", printed),
        ("odd.txt", "the same twice in a log, with a line that is left out", odd),
    )
]
