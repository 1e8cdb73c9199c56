"""The raw baselines, each run as a process of its own: `python benchmarks/baselines.py NAME FILE [OUT]`.

raw_copy     what SQLite itself needs to copy the columns that nsysconv keeps, those that the file has:
             ATTACH and INSERT … SELECT, same library, page size, journal, a transaction a file, no key,
             no checks, no names.
             Of several files into one.
pandas_sums  what most scripts do: pandas.read_sql of kernels and API calls, group by name, sum; one file
             after the other.
pandas_range_sums  the same of one file, and of its NVTX ranges.
json_load    what most scripts do with a Kineto trace: json.load, sum of the kernels' durations.
json_load_nogc  the same with Python's cyclic garbage collection off, which new objects keep busy.
hta_parse    HolisticTraceAnalysis's parser of one trace; needs an environment of its own (peers.py).
pandas_to_sql  what most scripts do with a CSV of nvprof: pandas.read_csv of all columns, types as pandas
             finds them, DataFrame.to_sql with its defaults into a new SQLite file.
pandas_to_parquet  what most scripts do to get a database into Parquet: pandas.read_sql of a table
             (kernels and API calls of a store), DataFrame.to_parquet with zstd.
pandas_to_sql_multi  the same with method="multi", 1000 rows an INSERT: a tenth faster.
pandas_text_to_sql  the same of text in columns, which two blanks separate; cells stay as printed.
msgspec_operators  the operators of a Kineto trace by name: msgspec, which decodes names, categories and
             durations alone, pandas.DataFrame, group by name, sum.
pandas_operators  the same of a store: pandas.read_sql of operators, API calls and kernels, group by name,
             sum.
pandas_steps  steps from one kernel of a name to the next, of each process of a store: pandas.read_sql of
             kernels, copies, sets, API calls and ranges, what each took by step.
pandas_quantiles  pandas.read_sql of kernels, group by name, count, sum, median, p90, p99; and by name
             and bucket (0, 1, 2, 5, 10, …), count, sum.
rocpd_copy   as raw_copy, of what rocprofv3 writes: events, and the links and names that they refer to.
xplane_python  what scripts do with a profile of XLA: its messages by protobuf's decoder in pure Python,
             sum of the kernels' durations by name.
xplane_upb   the same with protobuf's decoder in C.
chrome_loop  what converters of exports do (nsys2json, nsightful): sqlite3 rows of kernels, copies, sets,
             API calls and ranges, a dictionary each, json.dump of the list; no arrows, no lanes.
"""

from __future__ import annotations

import gc
import json
import os
import sqlite3
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

COLUMNS = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "start, end, globalPid, deviceId, contextId, streamId, correlationId, "
    "demangledName, shortName, mangledName, gridX, gridY, gridZ, blockX, blockY, blockZ, "
    "registersPerThread, staticSharedMemory, dynamicSharedMemory, localMemoryPerThread, graphNodeId",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start, end, globalTid, correlationId, eventClass, nameId, "
    "returnValue",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start, end, globalPid, deviceId, contextId, streamId, correlationId, "
    "bytes, copyKind, srcKind, dstKind, srcDeviceId, dstDeviceId, copyCount, graphNodeId",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start, end, globalPid, deviceId, contextId, streamId, correlationId, "
    "bytes, memKind, value, graphNodeId",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "start, end, globalPid, deviceId, contextId, streamId, "
    "correlationId, eventId, syncType",
    "NVTX_EVENTS": "start, end, globalTid, endGlobalTid, eventType, domainId, category, color, textId, "
    "text",
    "PROFILER_OVERHEAD": "start, end, globalTid, nameId",
    "CUPTI_ACTIVITY_KIND_OVERHEAD": "start, end, globalTid, correlationId, nameId, overheadType",
    "OSRT_API": "start, end, globalTid, nameId, nestingLevel",
    "SCHED_EVENTS": "start, cpu, isSchedIn, globalTid, threadState",
    "COMPOSITE_EVENTS": "start, cpu, globalTid",  # without the functions that nsysconv takes from stacks
}


def raw_copy(*paths: Path) -> None:
    """Copy the columns with the SQLite library that nsysconv uses; the last path is the target."""
    from nsysconv.store.sqlite.connection import PAGE_SIZE, SqliteConnection, sqlite_uri

    *sources, target = paths
    with SqliteConnection(sqlite_uri(target, "rwc"), str(target)) as connection:
        connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
        connection.execute("PRAGMA journal_mode=MEMORY")
        connection.execute("PRAGMA synchronous=OFF")
        for source in sources:
            connection.attach_source(source, "source")
            connection.execute("BEGIN")
            for table, columns in COLUMNS.items():
                there = {row["name"] for row in connection.rows(f"PRAGMA source.table_info({table})")}
                connection.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
                kept = ", ".join(name for name in columns.split(", ") if name in there)
                if kept:
                    connection.execute(f"INSERT INTO {table} ({kept}) SELECT {kept} FROM source.{table}")
            connection.execute("COMMIT")
            connection.execute("DETACH source")


_ROCPD = {
    "kernel_dispatch": "start, end, pid, tid, agent_id, kernel_id, queue_id, stream_id, event_id, "
    "private_segment_size, group_segment_size, workgroup_size_x, workgroup_size_y, workgroup_size_z, "
    "grid_size_x, grid_size_y, grid_size_z",
    "memory_copy": "start, end, pid, tid, name_id, dst_agent_id, src_agent_id, size, queue_id, "
    "stream_id, event_id",
    "region": "start, end, pid, tid, name_id, event_id",
    "event": "id, category_id, stack_id",
    "string": "id, string",
    "info_kernel_symbol": "id, display_name, kernel_name",
}


def rocpd_copy(source: Path, target: Path) -> None:
    """Copy the columns with the SQLite library that nsysconv uses."""
    from nsysconv.store.sqlite.connection import PAGE_SIZE, SqliteConnection, sqlite_uri

    with SqliteConnection(sqlite_uri(target, "rwc"), str(target)) as connection:
        connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
        connection.execute("PRAGMA journal_mode=MEMORY")
        connection.execute("PRAGMA synchronous=OFF")
        connection.attach_source(source, "source")
        tables = "SELECT name FROM source.sqlite_master WHERE type = 'table'"
        found = connection.rows(f"{tables} AND name LIKE 'rocpd_event%' ORDER BY name")
        suffix = str(found[0]["name"]).removeprefix("rocpd_event")
        connection.execute("BEGIN")
        for table, columns in _ROCPD.items():
            names = ", ".join(f'"{name}"' for name in columns.split(", "))
            connection.execute(f"CREATE TABLE {table} ({names})")
            name = f"source.rocpd_{table}{suffix}"
            connection.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM {name}")
        connection.execute("COMMIT")


# Message -> its fields: number, name, type, whether it is repeated.
_XPLANE = {
    "XStat": "1 metadata_id int64|2 double_value double|3 uint64_value uint64|4 int64_value int64|"
    "5 str_value string|6 bytes_value bytes|7 ref_value uint64",
    "XEvent": "1 metadata_id int64|2 offset_ps int64|5 num_occurrences int64|3 duration_ps int64|"
    "4 stats XStat*",
    "XLine": "1 id int64|2 name string|3 timestamp_ns int64|4 events XEvent*",
    "XEventMetadata": "1 id int64|2 name string|5 stats XStat*",
    "XStatMetadata": "1 id int64|2 name string",
    "EventEntry": "1 key int64|2 value XEventMetadata",
    "StatEntry": "1 key int64|2 value XStatMetadata",
    "XPlane": "1 id int64|2 name string|3 lines XLine*|4 event_metadata EventEntry*|"
    "5 stat_metadata StatEntry*|6 stats XStat*",
    "XSpace": "1 planes XPlane*|4 hostnames string*",
}


def xplane_python(source: Path) -> None:
    """Decode a profile of XLA in Python alone."""
    os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"
    xplane_upb(source, kind="python")


def xplane_upb(source: Path, kind: str = "upb") -> None:
    """Decode a profile of XLA, and add up its kernels."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.internal import api_implementation

    assert api_implementation.Type() == kind
    file = descriptor_pb2.FileDescriptorProto(name="xplane.proto", package="x", syntax="proto3")
    types = descriptor_pb2.FieldDescriptorProto
    for message, fields in _XPLANE.items():
        added = file.message_type.add(name=message)
        for number, name, of in (field.split() for field in fields.split("|")):
            own = of.rstrip("*")
            field = added.field.add(name=name, number=int(number))
            field.label = types.LABEL_REPEATED if of != own else types.LABEL_OPTIONAL
            if own in _XPLANE:
                field.type, field.type_name = types.TYPE_MESSAGE, f".x.{own}"
            else:
                field.type = types.Type.Value(f"TYPE_{own.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file) if hasattr(pool, "Add") else pool.AddSerializedFile(file.SerializeToString())
    space = message_factory.GetMessageClass(pool.FindMessageTypeByName("x.XSpace"))()
    space.ParseFromString(source.read_bytes())
    sums: Counter[str] = Counter()
    for plane in space.planes:
        names = {entry.key: entry.value.name for entry in plane.event_metadata}
        for line in plane.lines:
            if plane.name.startswith("/device:GPU") and line.name.startswith("Stream #"):
                for event in line.events:
                    sums[names.get(event.metadata_id, "")] += event.duration_ps
    print(len(sums), sums.total())


def chrome_loop(source: Path, target: Path) -> None:
    """Write the rows of an export as a Chrome trace, one after the other."""
    with closing(sqlite3.connect(f"file:{source}?mode=ro&immutable=1", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        names = dict(connection.execute("SELECT id, value FROM StringIds").fetchall())
        there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master").fetchall()}
        events = []
        for row in connection.execute("SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL"):
            args = {
                "grid": [row["gridX"], row["gridY"], row["gridZ"]],
                "block": [row["blockX"], row["blockY"], row["blockZ"]],
                "registers per thread": row["registersPerThread"],
                "static shared memory": row["staticSharedMemory"],
                "dynamic shared memory": row["dynamicSharedMemory"],
                "correlation": row["correlationId"],
            }
            events.append(_event(row, "cuda", names[row["demangledName"]], args))
        for table, name in (
            ("CUPTI_ACTIVITY_KIND_MEMCPY", "Memcpy"),
            ("CUPTI_ACTIVITY_KIND_MEMSET", "Memset"),
        ):
            for row in connection.execute(f"SELECT * FROM {table}") if table in there else ():
                args = {"bytes": row["bytes"], "correlation": row["correlationId"]}
                events.append(_event(row, "cuda", name, args))
        for row in connection.execute("SELECT * FROM CUPTI_ACTIVITY_KIND_RUNTIME"):
            args = {"correlation": row["correlationId"]}
            events.append(_event(row, "api", names[row["nameId"]], args))
        ranges = "SELECT * FROM NVTX_EVENTS WHERE end IS NOT NULL"
        for row in connection.execute(ranges) if "NVTX_EVENTS" in there else ():
            name = row["text"] if row["textId"] is None else names[row["textId"]]
            events.append(_event(row, "nvtx", name, {}))
    with target.open("w", encoding="utf-8") as file:
        json.dump(events, file)


def _event(row: sqlite3.Row, category: str, name: str, args: dict[str, object]) -> dict[str, object]:
    on_gpu = category == "cuda"
    return {
        "name": name,
        "ph": "X",
        "cat": category,
        "ts": row["start"] / 1000,
        "dur": (row["end"] - row["start"]) / 1000,
        "pid": f"Device {row['deviceId']}" if on_gpu else "Host",
        "tid": f"Stream {row['streamId']}" if on_gpu else f"{category} {row['globalTid'] & 0xFFFFFF}",
        "args": args,
    }


def pandas_range_sums(source: Path) -> None:
    """Sum kernel, API and range time by name; texts of ranges as they were recorded."""
    import pandas as pd

    pandas_sums(source)
    connection = sqlite3.connect(f"file:{source}?mode=ro&immutable=1", uri=True)
    select = ("SELECT start, end, coalesce(text, value) AS name FROM NVTX_EVENTS "
              "LEFT JOIN StringIds ON StringIds.id = textId WHERE end IS NOT NULL")  # fmt: skip
    rows = pd.read_sql(select, connection)
    sums = (rows["end"] - rows["start"]).groupby(rows["name"]).agg(["count", "sum"])
    print(sums.sort_values("sum", ascending=False).head(3).to_string())


def pandas_sums(*sources: Path) -> None:
    """Sum kernel and API time by name, of each file."""
    import pandas as pd

    for source in sources:
        connection = sqlite3.connect(f"file:{source}?mode=ro&immutable=1", uri=True)
        names = pd.read_sql("SELECT id, value FROM StringIds", connection).set_index("id").value
        for table, name in (
            ("CUPTI_ACTIVITY_KIND_KERNEL", "demangledName"),
            ("CUPTI_ACTIVITY_KIND_RUNTIME", "nameId"),
        ):
            rows = pd.read_sql(f"SELECT start, end, {name} AS name FROM {table}", connection)
            sums = (rows["end"] - rows["start"]).groupby(rows["name"]).agg(["count", "sum"])
            print(sums.rename(names.to_dict()).sort_values("sum", ascending=False).head(3).to_string())


def json_load(source: Path) -> None:
    """Add up the kernel time of a Kineto trace with `json.load`."""
    with source.open(encoding="utf-8") as file:
        trace = json.load(file)
    kernels = [event["dur"] for event in trace["traceEvents"] if event.get("cat") == "kernel"]
    print(len(kernels), sum(kernels))


def json_load_nogc(source: Path) -> None:
    """Add up the kernel time of a Kineto trace without garbage collection."""
    gc.disable()
    json_load(source)


def msgspec_operators(source: Path) -> None:
    """Add up the time of operators of a Kineto trace by name, without objects for what is not needed."""
    import msgspec
    import pandas as pd

    event = msgspec.defstruct("Event", [("name", str, ""), ("cat", str, ""), ("dur", float, 0.0)])
    trace: Any = msgspec.defstruct("Trace", [("traceEvents", list[event])])  # type: ignore[valid-type]
    events = msgspec.json.decode(source.read_bytes(), type=trace).traceEvents
    rows = [(each.name, each.dur) for each in events if each.cat == "cpu_op"]
    sums = pd.DataFrame(rows, columns=["name", "dur"]).groupby("name")["dur"].agg(["count", "sum"])
    print(sums.sort_values("sum", ascending=False).head(3).to_string())


def pandas_operators(store: Path) -> None:
    """Add up the time of operators, API calls and kernels of a store by name."""
    import pandas as pd

    with closing(sqlite3.connect(f"file:{store}?mode=ro&immutable=1", uri=True)) as connection:
        names = pd.read_sql("SELECT id, text FROM name", connection).set_index("id").text
        for table in ("operator", "api_call", "kernel"):
            rows = pd.read_sql(f"SELECT dur_ns, name_id FROM {table}", connection)
            sums = rows.groupby("name_id")["dur_ns"].agg(["count", "sum"])
            print(sums.rename(names.to_dict()).sort_values("sum", ascending=False).head(3).to_string())


def pandas_steps(store: Path) -> None:
    """Add up what ran in the steps of a store that one kernel ends, by process."""
    import numpy as np
    import pandas as pd
    from jobs_steps import ENDS

    with closing(sqlite3.connect(f"file:{store}?mode=ro&immutable=1", uri=True)) as connection:
        names = pd.read_sql("SELECT id, text FROM name", connection).set_index("id").text
        read = {table: pd.read_sql(f"SELECT pid, start_ns, dur_ns FROM {table}", connection)
                for table in ("memcpy", "memset", "api_call", "range")}  # fmt: skip
        kernels = pd.read_sql("SELECT pid, start_ns, dur_ns, name_id FROM kernel", connection)
    matching = names.index[names.str.contains(ENDS)]
    for pid, mine in kernels.groupby("pid"):
        ends = mine[mine.name_id.isin(matching)]
        edges = np.sort((ends.start_ns + ends.dur_ns).to_numpy())
        for table, rows in {"kernel": mine, **read}.items():
            own = rows[rows.pid == pid]
            step = np.searchsorted(edges, own.start_ns.to_numpy(), side="right")
            print(table, own.groupby(step)["dur_ns"].agg(["count", "sum"]).head(3).to_string())


def pandas_quantiles(store: Path) -> None:
    """Print how long the kernels of each name take: count, sum, median, p90, p99, and a histogram."""
    import numpy as np
    import pandas as pd

    with closing(sqlite3.connect(f"file:{store}?mode=ro&immutable=1", uri=True)) as connection:
        names = pd.read_sql("SELECT id, text FROM name", connection).set_index("id").text
        rows = pd.read_sql("SELECT dur_ns, name_id FROM kernel", connection)
    groups = rows.groupby("name_id")["dur_ns"]
    sums = groups.agg(["count", "sum"]).join(groups.quantile(np.array([0.5, 0.9, 0.99])).unstack())
    print(sums.rename(names.to_dict()).sort_values("sum", ascending=False).head(3).to_string())
    ends = np.array([0, *(digit * 10**power for power in range(12) for digit in (1, 2, 5))])
    bucket = np.searchsorted(ends, rows.dur_ns.to_numpy(), side="right")
    print(rows.groupby(["name_id", bucket])["dur_ns"].agg(["count", "sum"]).head(3).to_string())


def hta_parse(source: Path) -> None:
    """Parse a trace into HTA's data frame."""
    from hta.common.trace import parse_trace_file

    _, events, _ = parse_trace_file(str(source))
    print(events.shape)


def pandas_to_sql(source: Path, target: Path, rows_an_insert: int | None = None) -> None:
    """Write all columns of a GPU trace through sqlite3, with which pandas is fastest."""
    import pandas as pd

    with source.open(encoding="utf-8") as file:
        header = next(number for number, line in enumerate(file) if line.startswith('"Start"'))
    # The units come behind the header.
    frame = pd.read_csv(source, skiprows=[*range(header), header + 1])
    with closing(sqlite3.connect(target)) as connection:
        if rows_an_insert is None:
            frame.to_sql("gpu_trace", connection, index=False)
        else:
            frame.to_sql("gpu_trace", connection, index=False, method="multi", chunksize=rows_an_insert)


def pandas_to_sql_multi(source: Path, target: Path) -> None:
    """Write all columns with many rows an INSERT; SQLite takes at most 32766 values."""
    pandas_to_sql(source, target, rows_an_insert=1000)


def pandas_text_to_sql(source: Path, target: Path) -> None:
    """Write all columns of a GPU trace of text, cells as they are printed, many rows an INSERT."""
    import pandas as pd

    with source.open(encoding="utf-8") as file:
        header = next(number for number, line in enumerate(file) if line.startswith("   Start"))
    frame = pd.read_csv(source, skiprows=header, sep=r"\s{2,}", engine="python", skipinitialspace=True)
    with closing(sqlite3.connect(target)) as connection:
        frame.to_sql("gpu_trace", connection, index=False, method="multi", chunksize=1000)


def pandas_to_parquet(source: Path, target: Path) -> None:
    """Write kernels and API calls, a file each."""
    import pandas as pd

    target.mkdir()
    with closing(sqlite3.connect(source)) as connection:
        for table in ("kernel", "api_call"):
            frame = pd.read_sql(f"SELECT * FROM {table}", connection)
            frame.to_parquet(target / f"{table}.parquet", compression="zstd", index=False)


BASELINES = {
    function.__name__: function
    for function in (raw_copy, pandas_sums, pandas_range_sums, json_load, json_load_nogc,
                     msgspec_operators, pandas_operators, hta_parse, pandas_to_sql, pandas_to_sql_multi,
                     pandas_text_to_sql, pandas_to_parquet, chrome_loop, rocpd_copy, xplane_python,
                     xplane_upb, pandas_steps, pandas_quantiles)
}

if __name__ == "__main__":
    BASELINES[sys.argv[1]](*map(Path, sys.argv[2:]))
