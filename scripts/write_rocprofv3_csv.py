"""Writes workloads as rocprofv3 does with --output-format csv: a folder with a table per kind of event.

As in databases (write_rocpd.py) names are HIP's and memory is set by kernels; sizes of copies are in no
table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from workload import Process, Workload
from write_rocpd import BOOT_NS, CPUS, DIRECTIONS, FILL, hip_name

AGES = ("6", "7", "7-guid")
"""ROCm 6, ROCm 7, and what `rocpd convert -f csv` makes of a database."""
_GUID = "0000ddb5-8903-7903-b269-cd8d3745bb8a"

Table = tuple[list[str], list[list[Any]]]


def tables(workload: Workload, process: Process, age: str) -> Iterator[tuple[str, Table]]:
    """Yield the ends of the files' names, and what is in them."""
    yield "kernel_trace", _kernels(workload, process, age)
    yield (
        "hip_api_trace",
        _functions(
            (
                "HIP_RUNTIME_API_EXT",
                hip_name(call.symbol),
                call.thread.tid,
                call.correlation_id,
                call,
            )
            for call in workload.events.calls
            if call.thread.process == process
        ),
    )
    yield (
        "marker_api_trace",
        _functions(
            ("MARKER_CORE_RANGE_API", item.text, item.thread.tid, 0, item)
            for item in workload.events.ranges
            if item.thread.process == process and (item.end_ns is not None or item.style == "mark")
        ),
    )
    yield "memory_copy_trace", _copies(workload, process, age)
    header = [
        *("Node_Id", "Logical_Node_Id", "Agent_Type", "Cu_Count", "Gfx_Target_Version"),
        *("Max_Waves_Per_Cu", "Lds_Size_In_Kb", "Name", "Product_Name"),
    ]
    cpus = [[i, i, "CPU", 0, 0, 0, 0, "AMD EPYC", "AMD EPYC"] for i in range(CPUS)]
    gpus = [
        [CPUS + i, CPUS + i, "GPU", device.sm_count, 90_010, 32, 64, "gfx90a", "AMD Instinct MI210"]
        for i, device in enumerate(process.devices)
    ]
    yield "agent_info", (header, [*cpus, *gpus])


def _functions(rows: Iterable[tuple[str, str, int, int, Any]]) -> Table:
    names = ("Domain", "Function", "Process_Id", "Thread_Id", "Correlation_Id", "Start_Timestamp")
    return [*names, "End_Timestamp"], [
        [domain, name, event.thread.process.pid, tid, number, *_times(event)]
        for domain, name, tid, number, event in rows
    ]


def _times(event: Any) -> list[int]:
    end = event.start_ns if event.end_ns is None else event.end_ns
    return [BOOT_NS + event.start_ns, BOOT_NS + end]


def _kernels(workload: Workload, process: Process, age: str) -> Table:
    is_new = age.startswith("7")
    header = [
        *("Kind", "Agent_Id", "Queue_Id", *(["Stream_Id"] if is_new else []), "Thread_Id"),
        *("Dispatch_Id", "Kernel_Id", "Kernel_Name", "Correlation_Id", "Start_Timestamp"),
        "End_Timestamp",
        *(
            ("LDS_Block_Size", "Scratch_Size", "VGPR_Count", "Accum_VGPR_Count", "SGPR_Count")
            if is_new
            else ("Private_Segment_Size", "Group_Segment_Size")
        ),
        *(f"{what}_Size_{axis}" for what in ("Workgroup", "Grid") for axis in "XYZ"),
    ]
    events = workload.events
    found: list[tuple[Any, str, int, int]] = [
        (each, each.function.demangled, each.registers, each.static_shared_bytes)
        for each in events.kernels
        if each.stream.process == process
    ]
    fills: list[tuple[Any, str, int, int]] = [
        (each, FILL, 16, 0) for each in events.memsets if each.stream.process == process
    ]
    rows = []
    for number, (event, name, registers, shared) in enumerate([*found, *fills], 1):
        agent = CPUS + event.stream.ordinal
        block = getattr(event, "block", (1, 1, 1))
        grid = getattr(event, "grid", (1, 1, 1))
        more = [shared, 0, registers - 8, 8, 0] if is_new else [0, shared]
        rows.append(
            [
                *("KERNEL_DISPATCH", f"Agent {agent}" if is_new else agent, 1),
                *([event.stream.stream_id] if is_new else []),
                *(process.pid, number, 1, name, event.correlation_id or 0, *_times(event), *more),
                *(*block, *(blocks * size for blocks, size in zip(grid, block, strict=True))),
            ]
        )
    return header, rows


def _copies(workload: Workload, process: Process, age: str) -> Table:
    is_new = age.startswith("7")
    header = [
        *("Kind", "Direction", *(["Stream_Id"] if is_new else []), "Source_Agent_Id"),
        *("Destination_Agent_Id", "Correlation_Id", "Start_Timestamp", "End_Timestamp"),
    ]
    rows = []
    for copy in workload.events.memcpys:
        if copy.stream.process != process:
            continue
        own, prefix = copy.stream.ordinal, "MEMORY_COPY_" if is_new else ""
        agents = [
            0 if copy.direction[at] == "H" else CPUS + (own if ordinal is None else ordinal)
            for at, ordinal in ((0, copy.src_ordinal), (-1, copy.dst_ordinal))
        ]
        shown = [f"Agent {agent}" if is_new else agent for agent in agents]
        streams = [copy.stream.stream_id] if is_new else []
        word = prefix + DIRECTIONS[copy.direction]
        rows.append(
            ["MEMORY_COPY", word, *streams, *shown, copy.correlation_id or 0, *_times(copy)]
        )
    return header, rows


def csv_text(header: Sequence[str], rows: Iterable[Sequence[Any]], age: str) -> str:
    """Return a table as rocprofv3 writes it: texts in quotes, numbers without."""
    if age == "7-guid":
        header = ["Guid", *(name.title() for name in header)]
        rows = ([_GUID, *row] for row in rows)
    return "".join(",".join(map(_cell, row)) + "\n" for row in (header, *rows))


def _cell(value: object) -> str:
    return '"' + value.replace('"', '""') + '"' if isinstance(value, str) else str(value)


def write_table(path: Path, workload: Workload, process: Process, age: str, end: str) -> None:
    """Write one table, by the end of its file's name."""
    header, rows = dict(tables(workload, process, age))[end]
    path.write_text(csv_text(header, rows, age), encoding="utf-8")


def write_folder(folder: Path, workload: Workload, process: Process, age: str = "7") -> None:
    """Write all tables of a process into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for end, table in tables(workload, process, age):
        path = folder / f"{process.pid}_{end}.csv"
        path.write_text(csv_text(*table, age), encoding="utf-8")
