"""Kineto's rows as text, line by line as libkineto of each age prints them.

Readers depend on the layout where a file is damaged: older files have one line for the name and one
for the times, the newest one line for each key.
"""

from __future__ import annotations

import json

from kineto_ages import Age, base_ns
from kineto_rows import (
    REGISTERS_PER_SM,
    SHARED_OPT_IN,
    SHARED_PER_SM,
    THREADS_PER_SM,
    Line,
    Row,
)
from workload import Device, Process, Workload

_OLD_CATEGORIES = {
    "cpu_op": "Operator", "user_annotation": "Operator", "cuda_runtime": "Runtime",
    "kernel": "Kernel", "gpu_memcpy": "Memcpy", "gpu_memset": "Memset", "ac2g": "async",
}  # fmt: skip
_HEX = "5EC0DE00000000000000000000000000"


def document(workload: Workload, process: Process, age: Age, rows: list[Row]) -> str:
    """Return the whole file."""
    layout = {(1, 9): _Layout1_9, (2, 5): _Layout2_5, (2, 13): _Layout2_13}[age.version]
    return layout(workload, process).document(rows)


def _pairs(line: Line) -> str:
    return ", ".join(f'"{key}": {value}' for key, value in line)


class _Layout2_5:  # noqa: N801
    """Since 2.4: decimals; the base and the file's name stand behind the events."""

    relative = True

    def __init__(self, workload: Workload, process: Process) -> None:
        self.workload, self.process = workload, process
        self.zero_ns = workload.zero_utc_ns
        if self.relative:
            self.zero_ns -= base_ns(workload.zero_utc_ns)

    def document(self, rows: list[Row]) -> str:
        events = [self.event(row) for row in rows] + self.span()
        return (f"\n{{\n{self.head()}" + '  "traceEvents": [\n' + ",\n".join(events)
                + f"\n{self.tail()}")  # fmt: skip

    def time(self, ns: int) -> str:
        ns += self.zero_ns
        return f"{ns // 1000}.{ns % 1000:03}"

    def duration(self, ns: int) -> str:
        return f"{ns // 1000}.{ns % 1000:03}"

    # -- top level

    def head(self) -> str:
        devices = ",".join(f"\n{self.device(n, device)}"
                           for n, device in enumerate(self.process.devices))  # fmt: skip
        return (f'  "schemaVersion": 1,\n  "deviceProperties": [{devices}\n  ],\n'
                + "".join(f'  "{key}": {text},\n' for key, text in self.metadata()))  # fmt: skip

    def device(self, number: int, device: Device) -> str:
        return (
            f"""    {{
      "id": {number}, "name": "{device.name}", "totalGlobalMem": {device.memory_bytes},
      "computeMajor": {device.compute[0]}, "computeMinor": {device.compute[1]},
      "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": {THREADS_PER_SM},
      "regsPerBlock": 65536, "warpSize": 32,
      "sharedMemPerBlock": 49152, "numSms": {device.sm_count}
    , "regsPerMultiprocessor": {REGISTERS_PER_SM}, "sharedMemPerBlockOptin": {SHARED_OPT_IN}"""
            f""", "sharedMemPerMultiprocessor": {SHARED_PER_SM}
    }}"""
        )

    def metadata(self) -> list[tuple[str, str]]:
        """Return what PyTorch knows, then what the user added: both hold what nobody should see."""
        keys = [("record_shapes", "1"), ("with_stack", "1"), ("profile_memory", "1")]
        if self.process.rank is not None:
            keys.append(("distributedInfo", json.dumps(self.distributed())))
        return [*keys, *self.users()]

    def users(self) -> list[tuple[str, str]]:
        return [("wandb_run", '"SECRET-run"'),
                ("job_config", '{"token": "SECRET-token", "user": "SECRET-user"}')]  # fmt: skip

    def distributed(self) -> dict[str, object]:
        processes = [p for p in self.workload.processes if p.rank is not None]
        size = max(max(p.rank or 0 for p in processes) + 1, len(processes))
        group = {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl",
                 "pg_size": size, "ranks": list(range(size))}  # fmt: skip
        return {"backend": "nccl", "rank": self.process.rank, "world_size": size, "pg_count": 1,
                "pg_config": [group], "nccl_version": "2.21.5"}  # fmt: skip

    def file_name(self) -> str:
        """Return where PyTorch wrote it: a path that says whose machine that was."""
        end = self.workload.zero_utc_ns + self.workload.duration_ns
        name = f"{self.workload.host}_{self.process.pid}.{end}.pt.trace.json"
        return f"/home/SECRET-user/log/{name}"

    def tail(self) -> str:
        return (f'  ],\n  "traceName": "{self.file_name()}",\n  "displayTimeUnit": "ms",\n'
                f'  "baseTimeNanoseconds": {base_ns(self.workload.zero_utc_ns)}\n}}')  # fmt: skip

    # -- events

    def event(self, row: Row) -> str:
        if row.ph == "M":
            return self.name_row(row)
        if row.flow is not None:
            return self.arrow(row)
        return self.instant(row) if row.ph == "i" else self.complete(row)

    def args(self, row: Row) -> str:
        """Return one line: libkineto takes the line breaks out. The id of the operator comes first."""
        lines = [_pairs(line) for line in row.args if line]
        cuda = row.cat not in ("cpu_op", "user_annotation", "python_function", "cpu_instant_event")
        text = ",".join(("      " if cuda else "") + line for line in lines)
        if row.external is not None:
            text = f'"External id": {row.external}' + ("," + text if text else "")
        return text

    def complete(self, row: Row) -> str:
        assert row.dur_ns is not None
        args = self.args(row)
        return (
            f'  {{\n    "ph": "X", "cat": "{row.cat}", "name": "{row.name}", "pid": {row.pid}, '
            f'"tid": {row.tid},\n    "ts": {self.time(row.start_ns)}, '
            f'"dur": {self.duration(row.dur_ns)}'
            + (f',\n    "args": {{\n      {args}\n    }}' if args else "") + "\n  }"
        )  # fmt: skip

    def instant(self, row: Row) -> str:
        return (f'  {{\n    "ph": "i", "cat": "{row.cat}", "s": "t", "name": "{row.name}",\n'
                f'    "pid": {row.pid}, "tid": {row.tid},\n    "ts": {self.time(row.start_ns)},\n'
                f'    "args": {{\n      {self.args(row)}\n    }}\n  }}')  # fmt: skip

    def arrow(self, row: Row) -> str:
        end = ', "bp": "e"' if row.ph == "f" else ""
        return (f'  {{\n    "ph": "{row.ph}", "id": {row.flow}, "pid": {row.pid}, '
                f'"tid": {row.tid}, "ts": {self.time(row.start_ns)},\n'
                f'    "cat": "ac2g", "name": "ac2g"{end}\n  }}')  # fmt: skip

    def name_row(self, row: Row) -> str:
        return (f'  {{\n    "name": "{row.name}", "ph": "M", "ts": {self.time(row.start_ns)}, '
                f'"pid": {row.pid}, "tid": {row.tid},\n'
                f'    "args": {{\n      {_pairs(row.args[0])}\n    }}\n  }}')  # fmt: skip

    def span(self) -> list[str]:
        """Return the lines of the recording as a whole; none of it is an event of the program."""
        start, end = self.time(0), self.time(self.workload.duration_ns)
        return [
            f"""  {{
    "ph": "X", "cat": "Trace", "ts": {start}, "dur": {self.duration(self.workload.duration_ns)},
    "pid": "Spans", "tid": "PyTorch Profiler",
    "name": "PyTorch Profiler (0)",
    "args": {{
      "Op count": 0
    }}
  }}""",
            f"""  {{
    "name": "process_sort_index", "ph": "M", "ts": {start},
    "pid": "Spans", "tid": 0,
    "args": {{
      "sort_index": 536870912
    }}
  }}""",
            f"""  {{
    "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g",
    "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {start}
  }}""",
            f"""  {{
    "name": "Record Window End", "ph": "i", "s": "g",
    "pid": "", "tid": "", "ts": {end}
  }}""",
        ]


class _Layout1_9(_Layout2_5):  # noqa: N801
    """Whole microseconds since 1970, capitals, threads as texts, no name of the file."""

    relative = False

    def time(self, ns: int) -> str:
        return str((ns + self.zero_ns) // 1000)

    def duration(self, ns: int) -> str:
        return str(ns // 1000)

    def device(self, number: int, device: Device) -> str:
        return f"""    {{
      "id": {number}, "name": "{device.name}", "totalGlobalMem": {device.memory_bytes},
      "computeMajor": {device.compute[0]}, "computeMinor": {device.compute[1]},
      "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": {THREADS_PER_SM},
      "regsPerBlock": 65536, "regsPerMultiprocessor": {REGISTERS_PER_SM}, "warpSize": 32,
      "sharedMemPerBlock": 49152, "sharedMemPerMultiprocessor": {SHARED_PER_SM},
      "numSms": {device.sm_count}, "sharedMemPerBlockOptin": {SHARED_OPT_IN}
    }}"""

    def metadata(self) -> list[tuple[str, str]]:
        return self.users()

    def tail(self) -> str:
        return "]}"

    def args(self, row: Row) -> str:
        lines = [_pairs(line) for line in row.args if line]
        if row.cat in ("cpu_op", "user_annotation"):
            lines.insert(0, f'"Device": {row.pid}, "External id": {row.external}')
            lines.insert(1, '"Trace name": "PyTorch Profiler", "Trace iteration": 0 ')
        elif row.external is not None:
            lines = [line + (f', "external id": {row.external}' if '"correlation"' in line else "")
                     for line in lines]  # fmt: skip
        return ",\n      ".join(lines)

    def complete(self, row: Row) -> str:
        assert row.dur_ns is not None
        gpu = row.cat in ("kernel", "gpu_memcpy", "gpu_memset")
        tid = f"stream {row.tid}" if gpu else row.tid
        return (
            f'  {{\n    "ph": "X", "cat": "{_OLD_CATEGORIES[row.cat]}", \n'
            f'    "name": "{row.name}", "pid": {row.pid}, "tid": "{tid}",\n'
            f'    "ts": {self.time(row.start_ns)}, "dur": {self.duration(row.dur_ns)},\n'
            f'    "args": {{\n      {self.args(row)}\n    }}\n  }}'
        )

    def instant(self, row: Row) -> str:
        return (f'  {{\n    "ph": "i", "s": "t", "name": "{row.name}",\n'
                f'    "pid": {row.pid}, "tid": {row.tid},\n    "ts": {self.time(row.start_ns)},\n'
                f'    "args": {{\n      {self.args(row)}\n    }}\n  }}')  # fmt: skip

    def arrow(self, row: Row) -> str:
        tid = f'"stream {row.tid}"' if row.ph == "f" else row.tid
        end = ', "bp": "e"' if row.ph == "f" else ""
        return (f'  {{\n    "ph": "{row.ph}", "id": {row.flow}, "pid": {row.pid}, '
                f'"tid": {tid}, "ts": {self.time(row.start_ns)},\n'
                f'    "cat": "async", "name": "launch"{end}\n  }}')  # fmt: skip

    def name_row(self, row: Row) -> str:
        tid = f'"{row.tid}"' if row.name == "thread_name" else row.tid
        return (f'  {{\n    "name": "{row.name}", "ph": "M", "ts": {self.time(row.start_ns)}, '
                f'"pid": {row.pid}, "tid": {tid},\n'
                f'    "args": {{\n      {_pairs(row.args[0])}\n    }}\n  }}')  # fmt: skip

    def span(self) -> list[str]:
        span, _, start, end = super().span()
        return [span.replace('"Spans"', '"Traces"'), start, end]


class _Layout2_13(_Layout2_5):  # noqa: N801
    """A line for each key; all metadata but the file's name before the events."""

    def document(self, rows: list[Row]) -> str:
        devices = ",".join(f"\n{self.device(n, device)}"
                           for n, device in enumerate(self.process.devices))  # fmt: skip
        keys = "".join(f'      "{key}": {text},\n' for key, text in self.metadata())
        events = [self.event(row) for row in rows] + self.span()
        return (
            f' {{\n    "schemaVersion": 1,\n    "deviceProperties": [{devices}],\n    \n{keys}'
            f'    "displayTimeUnit": "ms",\n'
            f'    "baseTimeNanoseconds": {base_ns(self.workload.zero_utc_ns)},\n'
            f'    "traceEvents": [\n    \n' + ",\n".join(events)
            + f'\n  ],"traceName": "{self.file_name()}" }}'
        )  # fmt: skip

    def metadata(self) -> list[tuple[str, str]]:
        version = self.workload.cuda_version
        return [
            ("trace_id", f'"{_HEX}"'), ("cupti_version", str(version * 10 + 1)),
            ("cuda_runtime_version", str(version)), ("cuda_driver_version", str(version)),
            *super().metadata(), ("host_name", f'"{self.workload.host}"'),
        ]  # fmt: skip

    def _keys(self, *pairs: tuple[str, object]) -> str:
        return ",\n".join(f'    "{key}": {value}' for key, value in pairs)

    def complete(self, row: Row) -> str:
        assert row.dur_ns is not None
        keys = self._keys(("ph", '"X"'), ("cat", f'"{row.cat}"'), ("name", f'"{row.name}"'),
                          ("pid", row.pid), ("tid", row.tid), ("ts", self.time(row.start_ns)),
                          ("dur", self.duration(row.dur_ns)))  # fmt: skip
        return f"  {{\n{keys}\n    {self.arguments(row)}\n  }}"

    def arguments(self, row: Row) -> str:
        args = self.args(row)
        return f',\n    "args": {{\n      {args}\n    }}' if args else ""

    def args(self, row: Row) -> str:
        text = ", ".join(_pairs(line) for line in row.args if line)
        if row.external is not None:
            text = f'"External id": {row.external}' + ("," + text if text else "")
        return text

    def instant(self, row: Row) -> str:
        keys = self._keys(("ph", '"i"'), ("cat", f'"{row.cat}"'), ("s", '"t"'),
                          ("name", f'"{row.name}"'), ("pid", row.pid), ("tid", row.tid),
                          ("ts", self.time(row.start_ns)))  # fmt: skip
        return f"  {{\n{keys}\n    {self.arguments(row)}\n  }}"

    def arrow(self, row: Row) -> str:
        keys = self._keys(("ph", f'"{row.ph}"'), ("id", row.flow), ("pid", row.pid),
                          ("tid", row.tid), ("ts", self.time(row.start_ns)), ("cat", '"ac2g"'),
                          ("name", '"ac2g"'))  # fmt: skip
        end = ', "bp": "e"' if row.ph == "f" else ""
        return f"  {{\n{keys}\n    {end}\n  }}"

    def name_row(self, row: Row) -> str:
        return self._named(row.name, row.pid, row.tid, self.time(row.start_ns),
                           _pairs(row.args[0]))  # fmt: skip

    def _named(self, name: str, pid: object, tid: object, time: str, args: str) -> str:
        keys = self._keys(("ph", '"M"'), ("name", f'"{name}"'), ("ts", time), ("pid", pid),
                          ("tid", tid))  # fmt: skip
        return f'  {{\n{keys},\n    "args": {{\n      {args}\n    }}\n  }}'

    def span(self) -> list[str]:
        start, end = self.time(0), self.time(self.workload.duration_ns)
        keys = self._keys(
            ("ph", '"X"'), ("cat", '"Trace"'), ("name", '"PyTorch Profiler (0)"'),
            ("pid", '"Spans"'), ("tid", '"PyTorch Profiler"'), ("ts", start),
            ("dur", self.duration(self.workload.duration_ns)))  # fmt: skip
        return [
            f'  {{\n{keys}\n    ,\n    "args": {{\n      "Op count": 0\n    }}\n  }}',
            self._named("process_sort_index", '"Spans"', 0, start, '"sort_index": 536870912'),
            self._marker("Iteration Start: PyTorch Profiler", "Traces", "Trace PyTorch Profiler",
                         start),
            self._marker("Record Window End", "", "", end),
        ]  # fmt: skip

    def _marker(self, name: str, pid: str, tid: str, time: str) -> str:
        keys = self._keys(("s", '"g"'), ("name", f'"{name}"'), ("pid", f'"{pid}"'),
                          ("tid", f'"{tid}"'), ("ts", time))  # fmt: skip
        return f'  {{\n    "ph": "i",\n    \n{keys}\n    \n  }}'
