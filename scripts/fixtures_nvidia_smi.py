"""Logs of nvidia-smi: two GPUs watched for three seconds, as a query and as dmon print them.

The readings are few and round, so that their means can be worked out in the head:

                 10:00:00   10:00:01   10:00:02   mean
    GPU 0   %          0        100         50     50
            MiB      100        300        200    200
            W         60        120         90     90
    GPU 1   %         10         20         30     20
            MiB        1          1          1      1
            W        not recorded

Layout and spellings follow logs found in public repositories and nvidia-smi's manual.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fixture import Fixture

UUIDS = (
    "GPU-11111111-2222-3333-4444-555555555555",
    "GPU-66666666-7777-8888-9999-000000000000",
)
BUS_IDS = ("00000000:3B:00.0", "00000000:AF:00.0")
NAME, DRIVER = "NVIDIA A100-SXM4-40GB", "535.104.05"


@dataclass(frozen=True)
class Reading:
    """Readings of one GPU at one time: per cent, MiB, W (None: not supported) and MHz of its SMs."""

    second: int
    gpu: int
    percent: int
    used: int
    power: float | None
    clock: int


READINGS = tuple(
    Reading(second, gpu, *values)
    for second, both in enumerate((
        ((0, 100, 60.0, 210), (10, 1, None, 210)),
        ((100, 300, 120.0, 1410), (20, 1, None, 1410)),
        ((50, 200, 90.0, 810), (30, 1, None, 210)),
    ))
    for gpu, values in enumerate(both)
)  # fmt: skip

_QUERY: dict[str, Callable[[Reading], str]] = {
    "timestamp": lambda r: f"2024/05/17 10:00:0{r.second}.{100 + 2 * r.gpu}",
    "index": lambda r: str(r.gpu),
    "uuid": lambda r: UUIDS[r.gpu],
    "pci.bus_id": lambda r: BUS_IDS[r.gpu],
    "name": lambda r: NAME,
    "driver_version": lambda r: DRIVER,
    "serial": lambda r: f"SECRET-SERIAL-{r.gpu}",
    "compute_mode": lambda r: "Default",
    "pstate": lambda r: "P0" if r.clock > 1000 else "P8",
    "utilization.gpu [%]": lambda r: f"{r.percent} %",
    "memory.used [MiB]": lambda r: f"{r.used} MiB",
    "power.draw [W]": lambda r: "[N/A]" if r.power is None else f"{r.power:.2f} W",
    "clocks.current.sm [MHz]": lambda r: f"{r.clock} MHz",
    "temperature.gpu": lambda r: str(30 + r.second),
    "fan.speed [%]": lambda r: "[Not Supported]",
}  # fmt: skip
ALL = tuple(_QUERY)
FEW = ("timestamp", "index", "utilization.gpu [%]", "memory.used [MiB]")


def query(
    columns: Sequence[str] = ALL,
    readings: Sequence[Reading] = READINGS,
    *,
    units: bool = True,
    header: bool = True,
) -> str:
    """Return what `nvidia-smi --query-gpu=… --format=csv[,nounits][,noheader] -l 1` prints."""
    lines = [", ".join(columns)] if header else []
    for reading in readings:
        cells = [_QUERY[column](reading) for column in columns]
        if not units:
            bare = {column for column in columns if "[" in column}
            cells = [
                cell.split(" ")[0] if column in bare and cell[0] != "[" else cell
                for column, cell in zip(columns, cells, strict=True)
            ]
        lines.append(", ".join(cells))
    return "".join(f"{line}\n" for line in lines)


def dmon(
    readings: Sequence[Reading] = READINGS,
    *,
    times: str = "DT",
    start: int = 36_000,
    every: int = 4,
) -> str:
    """Return what `nvidia-smi dmon -s pum -o TIMES` prints.

    `start` is the first second of the day; the header comes again after so many rows.
    """
    heads = [(12, "Date", "YYYYMMDD")] if "D" in times else []
    heads += [(11, "Time", "HH:MM:SS")] if "T" in times else []
    columns = "gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk     fb   bar1"
    units = "Idx      W      C      C      %      %      %      %    MHz    MHz     MB     MB"
    clock = "".join(head.ljust(width) for width, head, _ in heads) or " "
    spelled = "".join(unit.ljust(width) for width, _, unit in heads) or " "
    header = f"#{clock}{columns}\n#{spelled}{units}\n"
    rows = []
    for place, reading in enumerate(readings):
        if place % every == 0:
            rows.append(header)
        second = (start + reading.second) % 86_400
        clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
        before = " 20240517   " if "D" in times else " "
        before += f"{clock}   " if "T" in times else ""
        power = "-" if reading.power is None else f"{reading.power:.0f}"
        cells = (reading.gpu, power, 30 + reading.second, "-", reading.percent, 5, 0, 0, 1215,
                 reading.clock, reading.used, 2)  # fmt: skip
        rows.append(
            before
            + "".join(str(cell).rjust(5 if not i else 7) for i, cell in enumerate(cells))
            + "\n"
        )
    return "".join(rows)


def _appended() -> str:
    warning = "Unable to determine the device handle for GPU 0000:3B:00.0: Unknown Error\n"
    more = (*FEW, "power.draw [W]")
    later = query(more, READINGS[2:])
    return query(FEW, READINGS[:2]) + warning + later[: later.rindex("MiB")]


def _words() -> str:
    text = query(("timestamp", "index", "compute_mode", "utilization.gpu [%]", "power.draw [W]"))
    return text.replace("120.00 W", "ERR!").replace("20 %", "[Unknown Error]")


LOGS: dict[str, tuple[Callable[[], str], str]] = {
    "query.csv": (query, "two GPUs, many columns, every second"),
    "query-nounits.csv": (lambda: query(units=False), "the same without units"),
    "dmon-date-time.txt": (dmon, "the same readings by dmon with date and time"),
    "dmon-time.txt": (lambda: dmon(times="T", start=86_399), "with the time alone, past midnight"),
    "dmon.txt": (lambda: dmon(times=""), "without times"),
    "odd-appended.csv": (_appended, "two runs with different columns, a message between them, cut off"),
    "odd-no-gpu.csv": (lambda: query(("timestamp", "utilization.gpu [%]")), "nothing identifies GPUs"),
    "odd-no-header.csv": (lambda: query(header=False), "without a header: refused"),
    "odd-no-time.csv": (lambda: query(FEW[1:]), "without times"),
    "odd-utf16.csv": (query, "`query.csv` as PowerShell redirects it: UTF-16, CRLF"),
    "odd-words.csv": (_words, "words and odd values in place of numbers"),
}  # fmt: skip


def _write(name: str, path: Path) -> None:
    text = LOGS[name][0]()
    if "utf16" in name:
        path.write_bytes(b"\xff\xfe" + text.replace("\n", "\r\n").encode("utf-16-le"))
    else:
        path.write_text(text, encoding="utf-8", newline="")


ABOUT = """\
`nvidia_smi/` holds logs of `nvidia-smi --query-gpu` and `nvidia-smi dmon` of two GPUs in the same three
seconds (`scripts/fixtures_nvidia_smi.py`), with a made-up secret where serial numbers stand. Columns,
units, alignment and the words for nothing follow logs found in public repositories and nvidia-smi's
manual. `odd-…` are cut, mixed and rewritten ones.
"""
EXAMPLE = "nvidia_smi/query.csv"
FILES = [
    # Without a header nobody can say what the columns are.
    Fixture(f"nvidia_smi/{name}", holds, partial(_write, name), refused=name == "odd-no-header.csv")
    for name, (_, holds) in LOGS.items()
]
