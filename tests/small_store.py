"""A store of a few rows, written down where the test is.

`answers("kernels", Kernel(100, 200, 1), Call(90, 95, 1))` makes a store of these rows, asks it and
gives the report's rows. Times are ns; (start, end) None, None: no timestamp was recorded.
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nsysconv import api, codes, schema
from nsysconv.facts import Fact
from nsysconv.render import Options as RenderOptions
from nsysconv.render import renderer
from nsysconv.report import Report
from nsysconv.store.location import Location, writing
from nsysconv.store.recording import (
    Batch,
    Batches,
    ProfileAttributes,
    Recording,
    Summary,
    rows_of,
)
from nsysconv.store.runs import RunMembership
from nsysconv.store.write import Origin
from nsysconv.timeline.plausibility import examine

PID, TID, STREAM = 1, 11, 7


class Kernel(NamedTuple):
    """An execution of a kernel; `grid` and `block` are x, y, z, and shared memory is in bytes."""

    start: int | None
    end: int | None
    correlation: int | None = 0
    stream: int | None = STREAM
    pid: int = PID
    device: int | None = 0
    name: str = "kernel"
    grid: tuple[int, int, int] | None = None
    block: tuple[int, int, int] | None = None
    registers: int | None = None
    static: int | None = None
    dynamic: int | None = None
    shared: int | None = None
    occupancy: int | None = None
    short: str | None = None
    mangled: str | None = None
    context: int | None = None
    green: int | None = None
    node: int | None = None
    annotation: str | None = None


class Memcpy(NamedTuple):
    """An explicit copy."""

    start: int | None
    end: int | None
    correlation: int | None = 0
    stream: int | None = STREAM
    pid: int = PID
    device: int | None = 0
    direction: str | None = "HtoD"
    bytes: int | None = 1000
    src: str | None = "Pageable"
    dst: str | None = "Device"
    peer: int | None = None
    node: int | None = None


class Memset(NamedTuple):
    """A setting of memory."""

    start: int | None
    end: int | None
    correlation: int | None = 0
    stream: int | None = STREAM
    pid: int = PID
    device: int | None = 0
    bytes: int | None = 1000
    memory: str | None = "Device"


class Migration(NamedTuple):
    """A migration of unified memory."""

    start: int | None
    end: int | None
    correlation: int | None = None
    stream: int | None = None
    pid: int = PID
    device: int | None = 0
    direction: str | None = "HtoD"
    bytes: int | None = 1000
    address: int | None = None


class Graph(NamedTuple):
    """A launch of a graph recorded as one interval."""

    start: int | None
    end: int | None
    correlation: int | None = 0
    stream: int | None = STREAM
    pid: int = PID
    device: int | None = 0
    graph: int | None = None


class GraphNode(NamedTuple):
    """The creation of a node of a graph; `original`: the node it was cloned from."""

    start: int
    node: int
    original: int | None = None
    tid: int = TID
    pid: int = PID
    end: None = None


class Call(NamedTuple):
    """A call of the API; `name` may end in `_v` and a number, as symbols do."""

    start: int | None
    end: int | None
    correlation: int | None = 0
    layer: str = "runtime"
    tid: int | None = TID
    pid: int = PID
    name: str = "cudaLaunchKernel"
    result: int | None = None
    caller: str | None = None


class Range(NamedTuple):
    """A range; `end` None: never closed."""

    start: int
    end: int | None
    text: str
    kind: str = "push_pop"
    tid: int = TID
    pid: int = PID
    domain: int = 0
    end_tid: int | None = None
    color: int | None = None


class Operator(NamedTuple):
    """An operator of the framework, or with kind `python_function` a function of the program."""

    start: int | None
    end: int | None
    name: str
    kind: str = "operator"
    tid: int = TID
    pid: int = PID
    shapes: str | None = None
    sequence: int | None = None
    forward_thread: int | None = None
    stack: str | None = None
    arguments: str | None = None
    types: str | None = None
    strides: str | None = None


class OsrtCall(NamedTuple):
    """A call of the operating system's runtime libraries."""

    start: int
    end: int
    name: str
    tid: int = TID
    pid: int = PID


class Switch(NamedTuple):
    """A thread that is put on a CPU or taken off."""

    start: int
    runs: int
    cpu: int | None = 0
    state: str | None = None
    tid: int = TID
    pid: int = PID
    end: None = None


class CpuSample(NamedTuple):
    """A sample of what a thread ran."""

    start: int
    name: str | None
    library: str | None = None
    tid: int = TID
    pid: int = PID
    end: None = None


class MpiCall(NamedTuple):
    """A call of MPI."""

    start: int
    end: int
    name: str
    kind: str = "p2p"
    tag: int | None = None
    remote: int | None = None
    root: int | None = None
    bytes: int | None = None
    received: int | None = None
    communicator: int | None = None
    tid: int = TID
    pid: int = PID


class Collective(NamedTuple):
    """A collective of which the profile tells group and number; with kind `call` as it was asked for."""

    start: int
    end: int
    name: str | None
    group: str | None = None
    sequence: int | None = None
    members: str | None = None
    kind: str = "kernel"
    pid: int = PID
    device: int | None = 0
    dtype: str | None = None
    in_elements: int | None = None
    out_elements: int | None = None
    in_bytes: int | None = None
    out_bytes: int | None = None
    group_size: int | None = None
    stream: int | None = STREAM


class Fault(NamedTuple):
    """A page fault, or several; `instruction` and `file` are texts."""

    start: int
    end: int | None
    address: int | None
    kind: str = "cpu"
    number: int | None = 1
    instruction: str | None = None
    file: str | None = None
    line: int | None = None
    pid: int = PID


class Overhead(NamedTuple):
    """Work of the profiler, or of the driver."""

    start: int
    end: int
    kind: str = "profiler"
    pid: int = PID
    tid: int = TID


class Sync(NamedTuple):
    """A wait as the device saw it; `record` and `record_stream`: what recorded the event, and where."""

    start: int
    end: int
    correlation: int | None = 0
    stream: int | None = STREAM
    pid: int = PID
    device: int | None = 0
    record: int | None = None
    record_stream: int | None = None


class Total(NamedTuple):
    """Totals of one name; `range_name`: only what belongs to ranges of that name."""

    kind: str
    count: int
    sum: int | None = None
    min: int | None = None
    max: int | None = None
    name: str | None = None
    pid: int | None = PID
    device: int | None = None
    layer: str | None = None
    direction: str | None = None
    bytes: int | None = None
    bytes_min: int | None = None
    bytes_max: int | None = None
    range_name: str | None = None
    domain: int | None = None
    style: str | None = None
    med: float | None = None
    stddev: float | None = None


class Memory(NamedTuple):
    """A block of memory that was taken, or with a negative size freed; `device` None: the host's."""

    start: int | None
    bytes: int | None
    address: int | None = None
    allocated: int | None = None
    reserved: int | None = None
    tid: int | None = TID
    pid: int = PID
    device: int | None = 0
    memory: str | None = None
    end: None = None


class Metric(NamedTuple):
    """A hardware counter, measured over executions of a kernel, or with a start sampled then."""

    name: str
    kernel: str | None
    value: float
    start: int | None = None
    end: None = None
    pid: int = PID
    device: int | None = 0


Op = Kernel | Memcpy | Memset | Migration | Graph
Event = (Op | GraphNode | Call | Range | Operator | OsrtCall | Switch | CpuSample | MpiCall | Collective
         | Fault | Overhead | Sync | Memory | Metric)  # fmt: skip
Row = Event | Total
TOTALS = frozenset(fact for fact in Fact if fact.value.endswith("_totals"))
EVENTS = frozenset(Fact) - TOTALS
_TABLES: dict[type, str] = {
    Kernel: "kernel", Memcpy: "memcpy", Memset: "memset", Migration: "unified_memory_event",
    Graph: "graph_launch", GraphNode: "graph_node", Call: "api_call", Range: "range",
    Operator: "operator", Overhead: "overhead", Sync: "sync", OsrtCall: "osrt_call", MpiCall: "mpi_call",
    Switch: "cpu_switch", CpuSample: "cpu_sample",
    Collective: "collective", Fault: "page_fault", Memory: "memory_event", Metric: "metric_sample",
}  # fmt: skip
_SAME_NAME = {"forward_thread": "forward_thread", "correlation": "correlation_id",
              "record": "record_correlation_id", "record_stream": "record_stream_id",
              "stream": "stream_id", "runs": "is_running", "cpu": "cpu", "device": "device_id",
              "peer": "peer_device_id", "pid": "pid", "tid": "tid", "bytes": "bytes",
              "registers": "registers_per_thread", "static": "static_shared_bytes",
              "dynamic": "dynamic_shared_bytes", "shared": "shared_bytes",
              "allocated": "allocated_bytes", "reserved": "reserved_bytes",
              "occupancy": "occupancy_pct", "address": "address", "domain": "domain_id",
              "graph": "graph_exec_id", "node": "graph_node_id", "original": "original_graph_node_id",
              "end_tid": "end_tid", "color": "color", "tag": "tag",
              "remote": "remote_rank", "root": "root_rank",
              "received": "recv_bytes", "number": "count", "line": "source_line",
              "communicator": "communicator_id", "sequence": "sequence_number",
              "in_elements": "in_elements", "out_elements": "out_elements", "group_size": "group_size",
              "in_bytes": "in_bytes", "out_bytes": "out_bytes",
              "context": "context_id", "green": "green_context_id", "result": "result"}  # fmt: skip
_CODED = {"direction": ("direction", codes.DIRECTIONS), "src": ("src_kind", codes.MEMORY_KINDS),
          "dst": ("dst_kind", codes.MEMORY_KINDS), "memory": ("memory_kind", codes.MEMORY_KINDS),
          "layer": ("layer", codes.API_LAYERS), "state": ("state", codes.THREAD_STATES)}  # fmt: skip
_NAMED = {"caller": "caller_name_id", "instruction": "instruction_id", "file": "source_file_id",
          "short": "short_name_id", "mangled": "mangled_name_id",
          "group": "group_id", "dtype": "dtype_id", "members": "group_ranks_id", "shapes": "shapes_id",
          "stack": "stack_id", "library": "library_id", "arguments": "arguments_id",
          "types": "types_id", "strides": "strides_id",
          "annotation": "annotation_id", "kernel": "kernel_name_id"}  # fmt: skip
_KINDS = {Range: codes.RANGE_KINDS, Operator: codes.OPERATOR_KINDS,
          Overhead: codes.OVERHEAD_KINDS, MpiCall: codes.MPI_KINDS,
          Collective: codes.COLLECTIVE_KINDS,
          Fault: codes.PAGE_FAULT_KINDS}  # fmt: skip


def _stored_total(row: Total, number: int, names: dict[str, int]) -> dict[str, Any]:
    """Totals as the store has them."""

    def name_id(text: str | None) -> int | None:
        return None if text is None else names.setdefault(text, len(names) + 1)

    return {
        "id": number, "kind": codes.AGGREGATE_KINDS.index(row.kind), "pid": row.pid,
        "device_id": row.device, "count": row.count, "sum_ns": row.sum, "min_ns": row.min,
        "max_ns": row.max, "med_ns": row.med, "stddev_ns": row.stddev,
        "bytes_sum": row.bytes, "bytes_min": row.bytes_min,
        "bytes_max": row.bytes_max, "domain_id": row.domain, "name_id": name_id(row.name),
        "range_name_id": name_id(row.range_name),
        "range_kind": None if row.style is None else codes.RANGE_KINDS.index(row.style),
        "layer": None if row.layer is None else codes.API_LAYERS.index(row.layer),
        "direction": None if row.direction is None else codes.DIRECTIONS.index(row.direction),
    }  # fmt: skip


def _stored(row: Event, names: dict[str, int]) -> dict[str, Any]:
    """An event as the store has it."""
    start, end = row.start, row.end
    stored: dict[str, Any] = {
        "start_ns": start, "dur_ns": None if start is None or end is None else end - start}  # fmt: skip
    if isinstance(row, Memory | Metric | Switch | CpuSample | GraphNode):
        del stored["dur_ns"]
    if isinstance(row, Metric):
        stored["value_avg"] = stored["value_max"] = row.value
    for field, value in row._asdict().items():
        if field in _SAME_NAME:
            stored[_SAME_NAME[field]] = value
        elif field in _CODED:
            name, words = _CODED[field]
            stored[name] = None if value is None else words.index(value)
        elif field in ("grid", "block"):
            for axis, size in zip("xyz", value or (None, None, None), strict=True):
                stored[f"{field}_{axis}"] = size
        elif field in _NAMED:
            stored[_NAMED[field]] = None if value is None else names.setdefault(value, len(names) + 1)
        elif field == "name":
            stored["name_id"] = None if value is None else names.setdefault(value, len(names) + 1)
        elif field == "text":
            stored["text"] = value
        elif field == "kind":
            stored["kind"] = _KINDS[type(row)].index(value)
    return stored


def write(
    path: Location,
    *rows: Row,
    ranks: Mapping[int, int] | None = None,
    without: Collection[Fact] = (),
    holds: Collection[Fact] = EVENTS,
    recording_ns: int | None = None,
    recording_start_ns: int | None = None,
    gpus: Mapping[int, Mapping[str, Any]] | None = None,
    domains: Mapping[tuple[int, int], str] | None = None,
    threads: Mapping[tuple[int, int], Mapping[str, Any]] | None = None,
    label: str = "small",
    utc: int | None = None,
    host: str | None = None,
    processes: Mapping[int, Mapping[str, Any]] | None = None,
    run: str | None = None,
    examined: bool = False,
) -> None:
    """Makes a store of these rows, or adds a profile of another label.

    `holds`: the facts that were recorded, but for those in `without`; `gpus`: what is known of a device
    beside its name; `domains`: (pid, domain) -> its name; `threads`: what is known of (pid, tid);
    `processes`: what is known of a pid beside name and rank; `utc`: the time of day of the zero; `run`:
    the run that it is of, else one of its own; `examined`: what cannot be believed is looked for, as by
    an import, and not by who reads it.
    """
    names: dict[str, int] = {}
    tables: dict[str, list[dict[str, Any]]] = {
        table: [] for table in (*_TABLES.values(), "aggregate")}  # fmt: skip
    for i, row in enumerate(rows):
        if isinstance(row, Total):
            tables["aggregate"].append(_stored_total(row, i, names))
        else:
            tables[_TABLES[type(row)]].append(_stored(row, names))
    stored = [row for table in tables.values() for row in table]
    devices = {row[key] for row in stored for key in ("device_id", "peer_device_id")
               if row.get(key) is not None}  # fmt: skip
    pids = {row["pid"] for row in stored if row["pid"] is not None}
    small = {
        "device": [{"device_id": i, "ordinal": i, "name": f"GPU {i}", **(gpus or {}).get(i, {})}
                   for i in sorted(devices)],
        "process": [{"pid": pid, "name": f"program {pid}", "rank": (ranks or {}).get(pid),
                     **(processes or {}).get(pid, {})} for pid in sorted(pids)],
        "thread": [{"pid": pid, "tid": tid, "name": None, **(threads or {}).get((pid, tid), {})}
                   for pid, tid in
                   sorted({(row["pid"], row["tid"]) for row in stored
                           if row.get("tid") is not None})],
        "domain": [{"pid": pid, "domain_id": i, "name": name}
                   for (pid, i), name in (domains or {}).items()],
        "name": [{"id": i, "text": text, "plain": text.partition("_v")[0]}
                 for text, i in names.items()],
    }  # fmt: skip
    batches = [rows_of(schema.metadata.tables[table], content)
               for table, content in {**small, **tables}.items() if content]  # fmt: skip
    summary = Summary(
        ProfileAttributes(
            recording_start_ns=recording_start_ns,
            recording_ns=recording_ns,
            zero_utc_ns=utc,
            host=host,
        ),
        frozenset(holds) - frozenset(without),
    )
    recording = Recording(batches_of(batches, summary))
    with writing(path) as writer:
        added = writer.add([recording], Origin(label, "test", "", "", f"{path} {label}",
                                       run=RunMembership(name=run) if run else None),
                   lambda table, count: None)  # fmt: skip
        if examined:
            writer.examine(examine, [each.profile_id for each in added])


def batches_of(batches: Iterable[Batch], summary: Summary) -> Batches:
    """Yield the batches of a made-up recording and return its summary."""
    yield from batches
    return summary


_MOST_KEPT = 64
_kept: dict[str, tempfile.TemporaryDirectory[str]] = {}


def step(number: int, start: int, end: int, **more: Any) -> Range:
    """A step, as PyTorch's profiler names it."""
    return Range(start, end, f"ProfilerStep#{number}", **more)


@contextmanager
def opened(*rows: Row, **options: Any) -> Iterator[api.OpenProfile]:
    """The opened profile of these rows, not to be written to; options as for `write`.

    Tests ask the same rows again and again: the last stores are kept.
    """
    key = repr((rows, options))  # rows of two tables may be equal
    if key not in _kept:
        folder = tempfile.TemporaryDirectory()
        # Whoever reads them looks for what cannot be believed: a fifth of the time of most tests.
        write(Path(folder.name) / "small.db", *rows, **{"examined": False, **options})
        if len(_kept) == _MOST_KEPT:
            _kept.pop(next(iter(_kept))).cleanup()
        _kept[key] = folder
    with api.open(Path(_kept[key].name) / "small.db") as profile:
        yield profile


_STORED = frozenset(inspect.signature(write).parameters)


def asked(
    report: str, *rows: Row, time: tuple[int, int] | None = None, **options: Any
) -> Report:  # fmt: skip
    """A report on these rows, with options of `write` and of reports; `part` is a slice, and all of the
    slice `time` was recorded.
    """
    if time is not None:
        options["part"] = api.Slice(time)
        rows = (*rows, Overhead(*time, "driver"))  # work that no report counts
    stored = {name: options.pop(name) for name in [*options] if name in _STORED}
    if "part" in options:
        options["slice"] = options.pop("part")
    with opened(*rows, **stored) as profile:
        return profile.report(report, **options)


def answers(report: str, *rows: Row, **options: Any) -> list[dict[str, Any]]:
    """The rows of a report, as `asked`."""
    return asked(report, *rows, **options).rows()


def only(report: str, *rows: Row, **options: Any) -> dict[str, Any]:
    """The only row of a report on these rows."""
    (row,) = answers(report, *rows, **options)
    return row


def picked(row: Mapping[str, Any], *names: str) -> tuple[Any, ...]:
    """Cells of a row."""
    return tuple(row[name] for name in names)


def cells(ask: str | Callable[..., Any], *rows: Row, **options: Any) -> Any:
    """The cells of some columns of a report's rows, of one column without a tuple: `ask` is the report
    and the columns, "kernels name kernel_count". Without columns they are the whole rows. Or `ask` is
    what says something of the rows.
    """
    if not isinstance(ask, str):
        return ask(*rows, **options)
    report, *columns = ask.split()
    found = answers(report, *rows, **options)
    if not columns:
        return found
    return [row[columns[0]] if len(columns) == 1 else tuple(row[name] for name in columns)
            for row in found]  # fmt: skip


def cell(ask: str, *rows: Row, **options: Any) -> Any:
    """The same of the only row."""
    (found,) = cells(ask, *rows, **options)
    return found


def by_hand(*cases: tuple[Any, ...]) -> pytest.MarkDecorator:
    """Parametrizes a test with cases: a name of the behavior, what is asked (as for `cells`), the rows
    that are stored, what comes back, and perhaps the options.
    """
    return pytest.mark.parametrize(
        ("ask", "rows", "expected", "options"),
        [pytest.param(*case, *[{}][len(case) - 3 :], id=name) for name, *case in cases],
    )


def hand_computed(*cases: tuple[Any, ...], by: Callable[..., Any] = cells) -> Callable[..., None]:
    """Return a test of cases, as `by_hand` takes them: `by` gives of each what should come back."""

    @by_hand(*cases)
    def test(ask: Any, rows: Any, expected: Any, options: dict[str, Any]) -> None:
        assert by(ask, *rows, **options) == expected

    return test


def printed(report: str, *rows: Row, **options: Any) -> list[str]:
    """The lines of a report on these rows as CSV, the header first."""
    text = StringIO()
    renderer("csv")([asked(report, *rows, **options)], text, RenderOptions())
    return text.getvalue().splitlines()


def counted(report: Report) -> dict[str, int]:
    """The count of each note of a report by its slug."""
    return {note.slug: note.count for note in report.notes}
