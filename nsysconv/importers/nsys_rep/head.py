"""What a report says of the recording, by allow-list: clocks, versions, options, devices, streams.

The head and the sections beside the events hold whole environments, command lines and folders. Nothing is
decoded but the fields that are named here; all others are passed over by their length.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from nsysconv.importers.nsys_rep.wire import Field, fields, messages, numbers, text

Row = dict[str, Any]

# Texts of the system by the number of their name, and the names.
_SYSTEM = {
    170: "TargetInstallDir",
    205: "NvDriverVersion",
    611: "CudaDriverVersion",
    619: "Hostname",
}
_TRACED = {12: "NvtxEvents", 123: "Cuda", 124: "Graphics", 127: "OSRuntime"}
_GRAPH_MODES = {0: "Graph", 1: "Node"}
_SCOPES = {1: "SystemWide", 2: "ProcessTree"}
_SWITCHES = {
    # Of the launched process, and since 2025.6 of the recording.
    40: "CUDA_FLUSH_PERIODICALLY",
    42: "CUDA_SKIP_SOME_API_CALLS",
    43: "COLLECT_GPU_MEMORY_USAGE",
    44: "COLLECT_UVM_CPU_PAGE_FAULTS",
    48: "COLLECT_UVM_GPU_PAGE_FAULTS",
    90: "CUDA_FLUSH_ON_CUDA_PROFILER_STOP",
}
_NEWER_SWITCHES = {1: 40, 3: 42, 4: 43, 5: 44, 7: 48, 12: 90}
# Clocks: of the session, raw of the machine, monotonic, UTC; and as newer builds number them.
_SESSION, _RAW, _MONOTONIC, _UTC = 7, 1, 3, 9
_KIND_RAW, _KIND_UTC = 7, 11


@cache
def targets() -> Mapping[str, Mapping[str, Any]]:
    """Return by table of the targets message where its rows are, and its columns."""
    content = Path(__file__).with_name("targets.toml").read_text(encoding="utf-8")
    return tomllib.loads(content)


def columns_of(table: str) -> dict[str, tuple[int, bool]]:
    """Return by column of a table of the targets its field, and whether that is a text."""
    listed = (each.partition("=") for each in targets()[table]["columns"].split())
    return {name: (int(field.rstrip("t")), field.endswith("t")) for name, _, field in listed}


def target_rows(message: bytes) -> Iterator[tuple[str, list[Row]]]:
    """Yield the rows of the targets message by table: GPUs, contexts, streams."""
    for table, where in targets().items():
        wanted = columns_of(table)
        rows = []
        for outer in messages(message, *where["path"][:1]):
            machine: Row = {"vmId": numbers(outer).get(1)} if where.get("vm") else {}
            for found in messages(outer, *where["path"][1:]):
                held = numbers(found)
                row: Row = {name: held.get(field) for name, (field, _) in wanted.items()}
                for name in [name for name, (_, is_text) in wanted.items() if is_text]:
                    row[name] = text(found, wanted[name][0])
                rows.append(machine | row)
        if rows:
            yield table, rows


def thread_name_rows(message: bytes) -> list[Row]:
    """Return the names of threads, as numbers of strings."""
    found = map(numbers, messages(message, 1))
    return [{"nameId": n.get(2), "priority": n.get(3), "globalTid": n.get(4)} for n in found]


class Head:
    """The head of a report."""

    def __init__(self, message: bytes, clocks: bytes) -> None:
        """Take the message, and the section with the clocks where there is one."""
        self._message, self._clocks = message, clocks
        self._numbers = numbers(message)
        self.vid = next(iter(numbers(m).get(3) for m in messages(message, 1)), None)
        """The machine."""
        self.system = dict(self._system())
        """Texts on the system, by the number of their name."""

    def _system(self) -> Iterator[tuple[int, str]]:
        for entry in messages(self._message, 1, 2, 1):
            key = numbers(entry).get(1)
            if key in _SYSTEM and (value := text(entry, 2)) is not None:
                yield key, value

    def rows(self) -> Iterator[tuple[str, list[Row]]]:
        """Yield the rows of the tables on the recording as a whole."""
        begin, end = self._numbers.get(17), self._numbers.get(18)
        if begin is not None and end is not None:
            details = {"globalVid": self.vid or 0, "duration": end - begin}
            yield "ANALYSIS_DETAILS", [{**details, "startTime": begin, "stopTime": end}]
        if (utc := self._utc_of_start()) is not None:
            yield "TARGET_INFO_SESSION_START_TIME", [{"utcEpochNs": utc}]
        system = [
            {"globalVid": self.vid, "devStateName": "", "name": _SYSTEM[key], "nameEnum": key,
             "value": value}
            for key, value in self.system.items()
        ]  # fmt: skip
        yield "TARGET_INFO_SYSTEM_ENV", system
        options = [{"name": name, "value": value} for name, value in self._options()]
        yield "META_DATA_CAPTURE", options

    def _utc_of_start(self) -> int | None:
        offsets: dict[tuple[int, int], int] = {}
        for entry in messages(self._message, 16, 1):
            number, offset = numbers(entry), text(entry, 5)
            if offset is not None and offset.lstrip("-").isdigit() and len(offset) <= 20:
                of = int(offset)
                of -= (1 << 64) if of >= 1 << 63 else 0
                offsets[number.get(1, 0), number.get(2, 0)] = of
        chain = [(_SESSION, _RAW), (_RAW, _MONOTONIC), (_MONOTONIC, _UTC)]
        if all(step in offsets for step in chain):
            return -sum(offsets[step] for step in chain)
        start = self._numbers.get(17)
        kinds = {bytes(*messages(clock, 1)[:1]): numbers(clock).get(2, 0)
                 for clock in messages(self._clocks, 1, 1)}  # fmt: skip
        for conversion in messages(self._clocks, 2, 1):
            both = [kinds.get(bytes(*messages(conversion, n)[:1])) for n in (1, 2)]
            if both == [_KIND_UTC, _KIND_RAW] and start is not None:
                for point in messages(conversion, 3, 1):
                    at = numbers(point)
                    return at.get(1, 0) + start - at.get(2, 0)
        return None

    def _options(self) -> Iterator[tuple[str, str]]:
        for entry in messages(self._message, 2, 2):
            traced = [f for f in fields(entry) if f.number == 1 and isinstance(f.value, int)]
            yield from _traced(traced)
        for options in messages(self._message, 2, 12):
            found = numbers(options)
            yield "OS_RUNTIME_OPTIONS:DURATION_THRESHOLD_NS", str(found.get(1, 0))
            yield "OS_RUNTIME_OPTIONS:COLLECT_BACKTRACES", _switch(found.get(2))
            yield "OS_RUNTIME_OPTIONS:BACKTRACES_THRESHOLD_NS", str(found.get(3, 0))
        newer = messages(self._message, 2, 92)
        for options in newer:
            found = numbers(options)
            renamed = {_NEWER_SWITCHES[n]: v for n, v in found.items() if n in _NEWER_SWITCHES}
            renamed[41] = found.get(2, 0)
            yield from _cuda_options(renamed, messages(options, 9), "")
            if (scope := _first(messages(options, 10))) in _SCOPES:
                yield "CUDA_TRACE_SCOPE", _SCOPES[scope]
        for process in messages(self._message, 2, 26) if not newer else ():
            yield from _cuda_options(numbers(process), messages(process, 49), "PROCESS_0:")
        for options in messages(self._message, 2, 69):
            found = numbers(options)
            yield "LINUX_PERF_OPTIONS:COLLECT_CPU_CTXSW_TRACE", _switch(found.get(1))
            yield "LINUX_PERF_OPTIONS:SAMPLING_PERIOD", str(found.get(2, 0))


def _traced(found: list[Field]) -> Iterator[tuple[str, str]]:
    for field in found:
        if field.value in _TRACED:
            yield "CAPTURE_EVENT_TYPE", _TRACED[int(field.signed)]


def _first(found: list[memoryview]) -> int:
    return numbers(found[0]).get(1, 0) if found else -1


def _switch(value: int | None) -> str:
    return "true" if value else "false"


def _cuda_options(
    found: Mapping[int, int], graphs: list[memoryview], prefix: str
) -> Iterator[tuple[str, str]]:
    for number, name in _SWITCHES.items():
        if number in found:
            yield prefix + name, _switch(found[number])
    if 41 in found:
        yield f"{prefix}CUDA_FLUSH_PERIOD", str(found[41])
    for options in graphs:
        graph = numbers(options)
        if (mode := _GRAPH_MODES.get(graph.get(1, 0))) is not None:
            yield f"{prefix}CUDA_GRAPH_TRACE_OPTIONS:MODE", mode
        if 2 in graph and not prefix:
            yield "CUDA_GRAPH_TRACE_OPTIONS:TRACE_DEVICE_GRAPH_LAUNCH", _switch(graph[2])
