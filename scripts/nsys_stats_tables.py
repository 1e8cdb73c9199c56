"""A workload's events as the rows of the reports of `nsys stats`, in the words of several ages."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from workload import Migration, Process, Range, Workload

SECRET = "SECRET-reports"


@dataclass(frozen=True)
class Age:
    """The headers of one age of nsys.

    `time` are the words of the figures of times from the share on; `size` those of sizes, in units of
    `size_bytes`; the others are the words for numbers of rows. `labels`: copies are called by both ends'
    names in full; `colon`: ranges of the domain without a name begin with one. `grids`: kernels by grid.
    """

    product: str
    time: tuple[str, ...]
    size: tuple[str, ...]
    size_bytes: int
    calls: str
    kernels: str
    copies: str
    operation: str
    short: bool = True
    labels: bool = False
    colon: bool = False
    grids: bool = False
    green: bool = False


_MODERN = (
    "Time (%)",
    "Total Time (ns)",
    "Avg (ns)",
    "Med (ns)",
    "Min (ns)",
    "Max (ns)",
    "StdDev (ns)",
)
_MODERN_SIZE = ("Total (MB)", "Avg (MB)", "Med (MB)", "Min (MB)", "Max (MB)", "StdDev (MB)")
AGES = {
    "2019": Age(
        "2019 to 2020.2 (built in)",
        ("Time(%)", "Total Time", "Average", "Minimum", "Maximum"),
        ("Total", "Average", "Minimum", "Maximum"), 1024,
        "Calls", "Instances", "Operations", "Name",
    ),
    "2020": Age(
        "2020.3 to 2021.1",
        ("Time(%)", "Total Time (ns)", "Average", "Minimum", "Maximum"),
        ("Total", "Average", "Minimum", "Maximum"), 1024,
        "Num Calls", "Instances", "Operations", "Operation",
    ),
    "2021": Age(
        "2021.3 and 2021.4",
        ("Time(%)", "Total Time (ns)", "Average (ns)", "Minimum (ns)", "Maximum (ns)", "StdDev (ns)"),
        ("Total (MB)", "Average (MB)", "Minimum (MB)", "Maximum (MB)", "StdDev (MB)"), 10**6,
        "Num Calls", "Instances", "Count", "Operation",
    ),
    "2022": Age(
        "2022.4", _MODERN, _MODERN_SIZE, 10**6, "Num Calls", "Instances", "Count", "Operation", grids=True
    ),
    "2025": Age(
        "2024.5 to 2026.1", _MODERN, _MODERN_SIZE, 10**6, "Num Calls", "Instances", "Count", "Operation",
        short=False, labels=True, colon=True, green=True,
    ),
}  # fmt: skip

NAMES = {
    "api": ("cuda_api_sum", "cudaapisum", "CUDA API Summary", "CUDA API Statistics"),
    "kernels": ("cuda_gpu_kern_sum", "gpukernsum", "CUDA GPU Kernel Summary", "CUDA Kernel Statistics"),
    "grids": ("cuda_gpu_kern_gb_sum", "gpukerngbsum", "CUDA GPU Kernel/Grid/Block Summary", ""),
    "copies": ("cuda_gpu_mem_time_sum", "gpumemtimesum", "CUDA GPU MemOps Summary (by Time)",
               "CUDA Memory Operation Statistics (by time)"),
    "sizes": ("cuda_gpu_mem_size_sum", "gpumemsizesum", "CUDA GPU MemOps Summary (by Size)",
              "CUDA Memory Operation Statistics (by size)"),
    "gpu": ("cuda_gpu_sum", "gpusum", "CUDA GPU Summary (Kernels/MemOps)", ""),
    "api_gpu": ("cuda_api_gpu_sum", "apigpusum", "CUDA Summary (API/Kernels/MemOps)", ""),
    "ranges": ("nvtx_sum", "nvtxsum", "NVTX Range Summary", "NVTX Range Statistics"),
    "push_pop": ("nvtx_pushpop_sum", "nvtxppsum", "NVTX Push/Pop Range Summary",
                 "NVTX Push-Pop Range Statistics"),
    "gpu_trace": ("cuda_gpu_trace", "gputrace", "CUDA GPU Trace",
                  "CUDA Kernel & Memory Operations Trace"),
    "api_trace": ("cuda_api_trace", "cudaapitrace", "CUDA API Trace", "CUDA API Trace"),
}  # fmt: skip
"""Reports: their name, that of old, their heading, and that of old."""

LABELS = {
    "HtoD": "Host-to-Device", "DtoH": "Device-to-Host", "DtoD": "Device-to-Device",
    "HtoH": "Host-to-Host", "PtoP": "Peer-to-Peer",
}  # fmt: skip
MEMORY = {"pageable": "Pageable", "pinned": "Pinned", "device": "Device", "managed": "Managed",
          "unknown": "Unknown"}  # fmt: skip


@dataclass(frozen=True)
class Rows:
    """A report: its key in NAMES, its header, and cells (None: empty) with the printed decimals."""

    report: str
    header: tuple[str, ...]
    cells: tuple[tuple[int | Decimal | str | None, ...], ...]


def rounded(value: float | Decimal, decimals: int) -> Decimal:
    """Round half away from zero, as SQLite does."""
    return Decimal(str(value)).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)


def function(symbol: str) -> str:
    """Return an API function as nsys prints it: without `_v` and four characters."""
    return symbol[:-6] if symbol[-6:-4] == "_v" else symbol


def operation(age: Age, direction: str, *, unified: bool = False) -> str:
    """Return a copy or migration as nsys calls it."""
    if age.labels:
        return f"[CUDA memcpy {'Unified ' if unified else ''}{LABELS[direction]}]"
    return f"[CUDA {'Unified Memory ' if unified else ''}memcpy {direction}]"


# -- figures

Groups = dict[tuple[str, ...], list[int]]


def _times(age: Age, groups: Groups) -> list[tuple[Any, ...]]:
    whole = sum(sum(found) for found in groups.values())
    rows: list[tuple[Any, ...]] = []
    for key, found in sorted(groups.items(), key=lambda item: -sum(item[1])):
        share = rounded(Decimal(100 * sum(found)) / whole if whole else Decimal(0), 1)
        rows.append(
            (share, sum(found), len(found), *_figures(age.time[2:], found, 1, 1, int), *key)
        )
    return rows


def _figures(
    words: Iterable[str], found: list[int], unit: int, decimals: int, whole: Callable[[int], Any]
) -> list[Any]:
    deviation = statistics.stdev(found) if len(found) > 1 else 0.0
    of = {
        "Av": rounded(Decimal(sum(found)) / len(found) / unit, decimals),
        "Me": rounded(Decimal(str(statistics.median(found))) / unit, decimals),
        "Mi": whole(min(found)), "Ma": whole(max(found)),
        "St": rounded(Decimal(str(deviation)) / unit, decimals),
    }  # fmt: skip
    return [of[word[:2]] for word in words]


def _header(age: Age, count: str, *texts: str) -> tuple[str, ...]:
    return (*age.time[:2], count, *age.time[2:], *texts)


# -- summaries


def _calls(workload: Workload) -> Groups:
    found: Groups = {}
    for call in workload.events.calls:
        found.setdefault((call.symbol,), []).append(call.end_ns - call.start_ns)
    return found


def _kernels(workload: Workload, *, grids: bool) -> Groups:
    found: Groups = {}
    for kernel in workload.events.kernels:
        shape = tuple("".join(f"{n:>5}" for n in size)[1:] for size in (kernel.grid, kernel.block))
        key = (*(shape if grids else ()), kernel.function.demangled)
        found.setdefault(key, []).append(kernel.end_ns - kernel.start_ns)
    return found


def _operations(age: Age, workload: Workload, *, sizes: bool) -> Groups:
    events = workload.events
    named: list[tuple[str, Any]] = [
        *((operation(age, copy.direction), copy) for copy in events.memcpys),
        *((operation(age, item.direction, unified=True), item) for item in events.migrations),
        *(("[CUDA memset]", item) for item in events.memsets),
    ]  # fmt: skip
    found: Groups = {}
    for name, item in named:
        found.setdefault((name,), []).append(item.bytes if sizes else item.end_ns - item.start_ns)
    return found


def api(age: Age, workload: Workload) -> Rows:
    """Return the rows of cuda_api_sum."""
    rows = [(*row[:-1], function(row[-1])) for row in _times(age, _calls(workload))]
    return Rows("api", _header(age, age.calls, "Name"), tuple(rows))


def kernels(age: Age, workload: Workload) -> Rows:
    """Return the rows of cuda_gpu_kern_sum; in some releases by grid and block."""
    return _by_kernel("kernels", age, workload, grids=age.grids)


def grids(age: Age, workload: Workload) -> Rows:
    """Return the rows of cuda_gpu_kern_gb_sum."""
    return _by_kernel("grids", age, workload, grids=True)


def _by_kernel(report: str, age: Age, workload: Workload, *, grids: bool) -> Rows:
    texts = ("GridXYZ", "BlockXYZ", "Name") if grids else ("Name",)
    rows = _times(age, _kernels(workload, grids=grids))
    return Rows(report, _header(age, age.kernels, *texts), tuple(rows))


def copies(age: Age, workload: Workload) -> Rows:
    """Return the rows of cuda_gpu_mem_time_sum."""
    rows = _times(age, _operations(age, workload, sizes=False))
    return Rows("copies", _header(age, age.copies, age.operation), tuple(rows))


def sizes(age: Age, workload: Workload) -> Rows:
    """Return the rows of cuda_gpu_mem_size_sum."""
    groups, unit = _operations(age, workload, sizes=True), age.size_bytes

    def spelled(value: int) -> Decimal:
        return rounded(Decimal(value) / unit, 3)

    rows = [
        (spelled(sum(found)), len(found), *_figures(age.size[1:], found, unit, 3, spelled), *key)
        for key, found in sorted(groups.items(), key=lambda item: -sum(item[1]))
    ]
    return Rows("sizes", (age.size[0], age.copies, *age.size[1:], age.operation), tuple(rows))


def gpu(age: Age, workload: Workload) -> Rows:
    """Return the rows of cuda_gpu_sum."""
    return _categories("gpu", age, workload, calls=False)


def api_gpu(age: Age, workload: Workload) -> Rows:
    """Return the rows of cuda_api_gpu_sum."""
    return _categories("api_gpu", age, workload, calls=True)


def _categories(report: str, age: Age, workload: Workload, *, calls: bool) -> Rows:
    groups = {("CUDA_KERNEL", *key): v for key, v in _kernels(workload, grids=False).items()}
    groups |= {("MEMORY_OPER", *k): v for k, v in _operations(age, workload, sizes=False).items()}
    if calls:
        groups |= {("CUDA_API", function(k)): v for (k,), v in _calls(workload).items()}
    return Rows(
        report, _header(age, age.kernels, "Category", "Operation"), tuple(_times(age, groups))
    )


def ranges(age: Age, workload: Workload) -> Rows:
    """Return the rows of nvtx_sum."""
    groups = _ranges(age, workload, {"push_pop": "PushPop", "start_end": "StartEnd"})
    return Rows("ranges", _header(age, "Instances", "Style", "Range"), tuple(_times(age, groups)))


def push_pop(age: Age, workload: Workload) -> Rows:
    """Return the rows of nvtx_pushpop_sum."""
    groups = {key[1:]: found for key, found in _ranges(age, workload, {"push_pop": ""}).items()}
    return Rows("push_pop", _header(age, "Instances", "Range"), tuple(_times(age, groups)))


def _ranges(age: Age, workload: Workload, styles: dict[str, str]) -> Groups:
    events = workload.events
    domains = {(d.process, d.domain_id): d.name for d in events.domains}
    last = max((item.end_ns or item.start_ns for item in events.ranges), default=0)
    found: Groups = {}

    def named(item: Range) -> str:
        domain = domains.get((item.thread.process, item.domain_id), "")
        return f"{domain}:{item.text}" if domain or age.colon else item.text

    for item in events.ranges:
        if item.style in styles:
            end = last if item.end_ns is None else item.end_ns
            found.setdefault((styles[item.style], named(item)), []).append(end - item.start_ns)
    return found


# -- traces


def gpu_trace(age: Age, workload: Workload) -> Rows:
    """Return the rows of cuda_gpu_trace."""
    events, rows = workload.events, []
    for kernel in events.kernels:
        place = _place(age, kernel.stream.process, kernel.stream.ordinal, kernel.stream.context_id,
                       kernel.stream.stream_id)  # fmt: skip
        shared = (kernel.static_shared_bytes, kernel.dynamic_shared_bytes)
        rows.append((kernel.start_ns, kernel.end_ns - kernel.start_ns, kernel.correlation_id or 0,
                     *kernel.grid, *kernel.block, kernel.registers, *map(_megabytes, shared),
                     None, None, None, None, *place, kernel.function.demangled))  # fmt: skip
    for copy in events.memcpys:
        kinds = (MEMORY[copy.src_kind], MEMORY[copy.dst_kind])
        rows.append(_moved(age, copy, kinds, operation(age, copy.direction)))
    rows += [_moved(age, m, (MEMORY[m.kind], None), "[CUDA memset]") for m in events.memsets]
    rows += [
        _moved(age, m, (None, None), operation(age, m.direction, unified=True))
        for m in events.migrations
    ]
    rate = "MB/s" if age.green else "MBps"
    header = (
        "Start (ns)", "Duration (ns)", "CorrId", "GrdX", "GrdY", "GrdZ", "BlkX", "BlkY", "BlkZ",
        "Reg/Trd", "StcSMem (MB)", "DymSMem (MB)", "Bytes (MB)", f"Throughput ({rate})", "SrcMemKd",
        "DstMemKd", "Device", "Ctx", *(["GreenCtx"] if age.green else []), "Strm", "Name",
    )  # fmt: skip
    return Rows("gpu_trace", header, tuple(sorted(rows, key=lambda row: row[:2])))


def _moved(age: Age, item: Any, kinds: tuple[str | None, str | None], name: str) -> tuple[Any, ...]:
    dur = item.end_ns - item.start_ns
    rate = rounded(Decimal(item.bytes * (10**9 // dur)) / 10**6, 3) if dur else None
    if isinstance(item, Migration):
        place = _place(age, item.process, item.ordinal, None, None)
    else:
        place = _place(age, item.stream.process, item.stream.ordinal, item.stream.context_id,
                       item.stream.stream_id)  # fmt: skip
    return (item.start_ns, dur, item.correlation_id or 0, *[None] * 9, _megabytes(item.bytes), rate,
            *kinds, *place, name)  # fmt: skip


def _megabytes(value: int) -> Decimal:
    return rounded(Decimal(value) / 10**6, 3)


def _place(
    age: Age, process: Process, ordinal: int, context: int | None, stream: int | None
) -> tuple[Any, ...]:
    device = f"{process.devices[ordinal].name} ({ordinal})"
    return (device, context, *([None] if age.green else []), stream)


def api_trace(age: Age, workload: Workload) -> Rows:
    """Return the rows of cuda_api_trace."""
    del age
    rows = [
        (call.start_ns, call.end_ns - call.start_ns, function(call.symbol), call.result,
         call.correlation_id, call.thread.process.pid, call.thread.tid, None, call.thread.name)
        for call in workload.events.calls
    ]  # fmt: skip
    header = (
        "Start (ns)",
        "Duration (ns)",
        "Name",
        "Result",
        "CorrID",
        "Pid",
        "Tid",
        "T-Pri",
        "Thread Name",
    )
    return Rows("api_trace", header, tuple(sorted(rows)))


SUMMARY = (api, kernels, copies, sizes)
"""The tables that nsys prints unasked."""
