"""Tables that `ncu --csv` prints of a made-up program that launches two kernels.

    launch   kernel              blocks × threads   duration   SM %   memory %   waves   occupancy %
    0        saxpy on stream 7       80 × 256         2000 ns    20       90       2         50
    1        saxpy on stream 7      120 × 256         4000 ns    30       50       3         70
    2        tiny on stream 13        1 × 64          1500 ns     3        7       0.01       6.25

    saxpy    on the average 25 % and 70 %: bandwidth; 32 registers, 1024 + 512 bytes of shared memory
    tiny     3 % and 7 %, less than one wave: small grid; 16 registers

Layout and spellings follow a public file (MIT) and NVIDIA's documentation; they are of a GPU of compute
capability 7.5 with 40 SMs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fixture import Fixture
from scenario_basic import WORKLOAD as BASIC
from workload import Function, Workload

PID, GPU = 6153, "Made-Up T4"
SECRET = "SECRET-TOKEN"
SAXPY, TINY = "saxpy(int, float, const float *, float *)", "tiny<(int)1>(int *)"


@dataclass(frozen=True)
class Measured:
    """One launch: its sizes, and what was measured in it."""

    kernel: str
    stream: int
    blocks: int | tuple[int, int, int]
    threads: int | tuple[int, int, int]
    duration_ns: int
    sm_pct: float
    memory_pct: float
    waves: float
    occupancy_pct: float
    registers: int
    shared: tuple[int, int]
    pid: int = PID


LAUNCHES = (
    Measured(SAXPY, 7, 80, 256, 2000, 20.0, 90.0, 2, 50.0, 32, (1024, 512)),
    Measured(SAXPY, 7, 120, 256, 4000, 30.0, 50.0, 3, 70.0, 32, (1024, 512)),
    Measured(TINY, 13, 1, 64, 1500, 3.0, 7.0, 0.01, 6.25, 16, (0, 0)),
)

_LAUNCH = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream",
           "Block Size", "Grid Size", "Device", "CC")  # fmt: skip
_METRIC = ("Section Name", "Metric Name", "Metric Unit", "Metric Value")
_RULE = (
    "Rule Name",
    "Rule Type",
    "Rule Description",
    "Estimated Speedup Type",
    "Estimated Speedup",
)
_SPEED, _WORKLOAD = "GPU Speed Of Light Throughput", "Memory Workload Analysis"

LOG = f"""\
==PROF== Connected to process {PID} (/home/{SECRET}/a.out)
==PROF== Profiling "saxpy" - 0: 0%....50%....100% - 9 passes
"ready", says the program
==PROF== Profiling "saxpy" - 1: 0%....50%....100% - 9 passes
==PROF== Profiling "tiny" - 2: 0%....50%....100% - 9 passes
==PROF== Disconnected from process {PID}
==WARNING== Profiling kernels is slow.
"""


def number(value: float) -> str:
    """Return a number as ncu spells it where the locale is English: 1,234.50 or 1,234."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _row(cells: Sequence[str]) -> str:
    return ",".join('"' + cell.replace('"', '""') + '"' for cell in cells)


def _of_launch(place: int, launch: Measured) -> list[str]:
    of_launch = (launch.threads, launch.blocks)
    sizes = (str(size if isinstance(size, tuple) else (size, 1, 1)) for size in of_launch)
    names = f"{SECRET}-program", f"{SECRET}-host", launch.kernel
    return [str(place), str(launch.pid), *names, "1", str(launch.stream), *sizes, "0", "7.5"]


def _base(launch: Measured) -> list[tuple[str, str, str, str]]:
    static, dynamic = launch.shared
    return [
        (_SPEED, "DRAM Frequency", "hz", "5,000,000,000"),
        (_SPEED, "Memory Throughput", "%", number(launch.memory_pct)),
        (_SPEED, "Compute (SM) Throughput", "%", number(launch.sm_pct)),
        (_SPEED, "Duration", "ns", number(launch.duration_ns)),
        (_WORKLOAD, "Memory Throughput", "byte/s", "1,500,000,000.50"),
        (_WORKLOAD, "Unheard Of", "sector", "12"),
        ("Launch Statistics", "Function Cache Configuration", "", "CachePreferNone"),
        ("Launch Statistics", "Registers Per Thread", "register/thread", str(launch.registers)),
        ("Launch Statistics", "Static Shared Memory Per Block", "byte/block", number(static)),
        ("Launch Statistics", "Dynamic Shared Memory Per Block", "byte/block", number(dynamic)),
        ("Launch Statistics", "Waves Per SM", "", number(launch.waves)),
        ("Occupancy", "Achieved Occupancy", "%", number(launch.occupancy_pct)),
    ]  # fmt: skip


def _scaled(launch: Measured) -> list[tuple[str, str, str, str]]:
    # Without `--print-units base`, units are those in which numbers are short.
    short = {
        "DRAM Frequency": ("Ghz", "5.00"),
        "Duration": ("us", f"{launch.duration_ns / 1000:.2f}"),
        "Static Shared Memory Per Block": ("Kbyte/block", f"{launch.shared[0] / 1000:.2f}"),
    }
    return [
        (section, name, *short.get(name, (unit, value)))
        if (section, name) != (_WORKLOAD, "Memory Throughput")
        else (section, name, "Gbyte/s", "1.50")
        for section, name, unit, value in _base(launch)
    ]


def details(
    metrics: Callable[[Measured], list[tuple[str, str, str, str]]] = _base,
    *,
    rules: bool = True,
    launches: Sequence[Measured] = LAUNCHES,
) -> str:
    """Return what `ncu --csv --page details` prints; `rules`: with rows of advice."""
    lines = [_row((*_LAUNCH, *_METRIC, *(_RULE if rules else ())))]
    for place, launch in enumerate(launches):
        before = _of_launch(place, launch)
        # Rows of metrics lack the cells of rules, but for a comma.
        lines += [_row((*before, *cells)) + "," * rules for cells in metrics(launch)]
        if rules:
            advice = f'Read "{SECRET}",\n"and" then:\n\n  - more, see 3'
            lines.append(
                _row((*before, "SpeedOfLight", "", "", "", "SOLBottleneck", "OPT", advice, "", ""))
            )
    return "".join(f"{line}\n" for line in lines)


_ATTRIBUTES = {
    "compute_capability_major": 7, "compute_capability_minor": 5, "multiprocessor_count": 40,
    "max_warps_per_multiprocessor": 32, "max_blocks_per_multiprocessor": 16, "clock_rate": 1_590_000,
    "total_memory": 16_000_000_000, "warp_size": 32,
}  # fmt: skip


def of_workload(workload: Workload, spell: Callable[[Function], str]) -> list[Measured]:
    """Return every kernel of a workload as it is measured in another run, in the order of launches.

    The first has 11 % of peak compute and 51 % of peak bandwidth, the second 12 % and 52 %, and so on.
    """
    calls = {call.correlation_id: call.start_ns for call in workload.events.calls}
    kernels = sorted(
        workload.events.kernels,
        key=lambda kernel: calls.get(kernel.correlation_id or 0, kernel.start_ns),
    )
    return [
        Measured(
            spell(kernel.function), kernel.stream.stream_id, kernel.grid, kernel.block, 1000 + place,
            10.0 + place, 50.0 + place, 2, 50.0, kernel.registers,
            (kernel.static_shared_bytes, kernel.dynamic_shared_bytes),
        )
        for place, kernel in enumerate(kernels, 1)
    ]  # fmt: skip


def raw() -> str:
    """Return what `ncu --csv --page raw` prints: a column for each metric, and units in a row."""

    def columns(launch: Measured) -> dict[str, tuple[str, str]]:
        static, dynamic = launch.shared
        return {
            "breakdown:sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", "one, two"),
            **{f"device__attribute_{name}": ("", number(n)) for name, n in _ATTRIBUTES.items()},
            "device__attribute_display_name": ("", GPU),
            "dram__bytes.sum.per_second": ("byte/s", "1,500,000,000.50"),
            "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed":
                ("%", number(launch.memory_pct)),
            "gpu__time_duration.sum": ("ns", number(launch.duration_ns)),
            "inst_executed": ("inst", "64 (32; 32)"),
            "launch__registers_per_thread": ("register/thread", str(launch.registers)),
            "launch__shared_mem_per_block_dynamic": ("byte/block", number(dynamic)),
            "launch__shared_mem_per_block_static": ("byte/block", number(static)),
            "launch__waves_per_multiprocessor": ("", number(launch.waves)),
            "lts__t_sectors.sum": ("sector", "n/a"),
            "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("%", number(launch.sm_pct)),
            "sm__warps_active.avg.pct_of_peak_sustained_active": ("%", number(launch.occupancy_pct)),
        }  # fmt: skip

    units = columns(LAUNCHES[0])
    lines = [_row((*_LAUNCH, *units)), _row(([""] * len(_LAUNCH)) + [u for u, _ in units.values()])]
    for place, launch in enumerate(LAUNCHES):
        lines.append(_row([*_of_launch(place, launch), *(v for _, v in columns(launch).values())]))
    return "".join(f"{line}\n" for line in lines)


def summary() -> str:
    """Return what `ncu --csv --print-summary per-kernel` prints: least, greatest and mean of each."""
    header = (*_LAUNCH[1:], "Invocations", *_METRIC[:3], "Minimum", "Maximum", "Average")
    lines = [_row(header)]
    for kernel in (SAXPY, TINY):
        launches = [launch for launch in LAUNCHES if launch.kernel == kernel]
        before = [*_of_launch(0, launches[0])[1:], str(len(launches))]
        for label, unit, values in (
            ("Memory Throughput", "%", [launch.memory_pct for launch in launches]),
            ("Compute (SM) Throughput", "%", [launch.sm_pct for launch in launches]),
            ("Duration", "ns", [float(launch.duration_ns) for launch in launches]),
        ):
            cells = map(number, (min(values), max(values), sum(values) / len(values)))
            lines.append(_row((*before, _SPEED, label, unit, *cells)))
    return "".join(f"{line}\n" for line in lines)


def _swapped(text: str) -> str:
    # Numbers as where the locale is German; names and lists have commas of their own.
    lines = text.splitlines(keepends=True)
    return lines[0] + "".join(
        f'{before},"{value.translate(str.maketrans(".,", ",."))}"\n'
        for before, _, value in (line.rstrip('"\n').rpartition(',"') for line in lines[1:])
    )


def _old() -> str:
    # Without device, capability and sizes, with a time of day; NVTX adds a column.
    drop = {"Block Size", "Grid Size", "Device", "CC"}
    header = [name for name in _LAUNCH if name not in drop]
    at = header.index("Kernel Name") + 1
    nvtx = "Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg"
    lines = [_row([*header[:at], "Kernel Time", *header[at:], nvtx, *_METRIC])]
    for place, launch in enumerate(LAUNCHES):
        own = dict(zip(_LAUNCH, _of_launch(place, launch), strict=True))
        cells = [own[name] for name in header]
        before = [*cells[:at], "2020-Aug-20 13:33:12", *cells[at:], f"1:{SECRET}:none"]
        for section, name, unit, value in (
            ("GPU Speed Of Light", "SOL Memory", "%", number(launch.memory_pct)),
            ("GPU Speed Of Light", "SOL SM", "%", number(launch.sm_pct)),
            ("GPU Speed Of Light", "Duration", "nsecond", number(launch.duration_ns)),
            ("GPU Speed Of Light", "Memory Frequency", "cycle/nsecond", "5.00"),
            ("Command line profiler metrics", "dram__bytes.sum", "Mbyte", "1.25"),
        ):
            lines.append(_row((*before, section, name, unit, value)))
    return "".join(f"{line}\n" for line in lines)


def _damaged() -> str:
    text = LOG + details()
    text = text.replace(
        '"Registers Per Thread","register/thread","32"', '"Registers Per Thread","regi', 1
    )
    text = text.replace('"Waves Per SM","","3"', '"Waves Per SM","","3#"')
    return text.replace('"0","6153"', '"0\0","6153', 1) + "the program ends\n"


def _basic() -> str:
    launches = of_workload(BASIC, lambda function: function.demangled)
    return details(rules=False, launches=launches[:6])


TABLES: dict[str, tuple[Callable[[], str], str]] = {
    "basic.csv": (_basic, "the first six launches of the workload `basic`, in another run"),
    "details.csv": (lambda: LOG + details(), "the details page after the log, with rules"),
    "details-scaled.csv": (lambda: details(_scaled, rules=False), "in larger units, without rules"),
    "raw.csv": (raw, "the raw page, with attributes of the GPU"),
    "summary.csv": (summary, "a summary by kernel"),
    "odd-cut.csv": (lambda: (LOG + details())[:-180], "cut off within a rule"),
    "odd-damaged.csv": (_damaged, "cells and lines of another kind, a quote too few"),
    "odd-german.csv": (lambda: _swapped(details(rules=False)), "decimal commas"),
    "odd-log.txt": (lambda: LOG, "a log without a table: refused"),
    "odd-old.csv": (_old, "columns and units of 2020, with NVTX ranges"),
    "odd-utf16.csv": (lambda: LOG + details(), "`details.csv` as PowerShell redirects it: UTF-16, CRLF"),
}  # fmt: skip


def _write(name: str, path: Path) -> None:
    text = TABLES[name][0]()
    if "utf16" in name:
        path.write_bytes(b"\xff\xfe" + text.replace("\n", "\r\n").encode("utf-16-le"))
    else:
        path.write_text(text, encoding="utf-8", newline="")


ABOUT = """\
`ncu/` holds tables that Nsight Compute prints of a made-up program (`scripts/fixtures_ncu.py`), with
secrets where names of programs and hosts, advice and NVTX messages are. Layout and spellings follow a
public file and NVIDIA's documentation. Reports (`.ncu-rep`) are not here: only Nsight Compute writes
them. `odd-…` are cut, damaged, old and translated ones.
"""
EXAMPLE = "ncu/raw.csv"
FILES = [
    Fixture(f"ncu/{name}", holds, partial(_write, name), refused=name == "odd-log.txt")
    for name, (_, holds) in TABLES.items()
]
