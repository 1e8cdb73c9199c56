"""Work of a profiled program, in nobody's file format.

A `Workload` is a made-up recording: a machine, its processes, and every event with times in ns
since the recording began and sizes in bytes. Writers (`write_nsys.py`, later others) turn the same
workload into the files of different profilers, so that tests can ask each importer for the same
answers. The words are those of the store, not of a profiler; what a format cannot hold, its writer
leaves out.

All intervals are [start_ns, end_ns). A `correlation_id` links GPU work to the API call of the same
process with the same number; 0 and None both mean that no call was recorded, in the two spellings
that profilers use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Literal

Layer = Literal["runtime", "driver"]
Direction = Literal["HtoD", "DtoH", "DtoD", "HtoH", "PtoP"]
MemoryKind = Literal["pageable", "pinned", "device", "managed", "unknown"]
SyncKind = Literal["device", "stream", "event", "stream_wait_event"]
StreamKind = Literal["null", "blocking", "non_blocking"]
MigrationCause = Literal["prefetch", "page_fault", "speculative", "eviction"]
RangeStyle = Literal["push_pop", "start_end", "mark"]
OverheadKind = Literal["buffer_flush", "instrumentation", "resource", "lazy_loading"]
MpiKind = Literal["p2p", "collective", "wait", "other"]
Library = Literal["cublas", "cudnn"]
Access = Literal["unknown", "read", "write", "atomic", "prefetch"]
NcclSchema = Literal["init", "message", "peer", "reduction", "root"]
Severity = Literal["info", "warning", "error"]
Reporter = Literal["injection", "daemon", "analysis"]


@dataclass(frozen=True)
class Device:
    """One GPU of the machine. `gpu_id` is its number there, whatever a process calls it."""

    gpu_id: int
    name: str
    chip: str
    uuid: str
    bus_id: str
    sm_count: int
    compute: tuple[int, int]
    memory_bytes: int


@dataclass(frozen=True)
class Process:
    """One process. It calls `devices[n]` its device n, as CUDA_VISIBLE_DEVICES made it."""

    pid: int
    name: str
    devices: tuple[Device, ...]
    rank: int | None = None


@dataclass(frozen=True)
class Thread:
    """One CPU thread."""

    process: Process
    tid: int
    name: str
    priority: int = 20


@dataclass(frozen=True)
class Stream:
    """One stream of one context; `ordinal` is the device's number in the process."""

    process: Process
    ordinal: int
    context_id: int
    stream_id: int
    kind: StreamKind


@dataclass(frozen=True)
class GreenContext:
    """A context with a share of a device, made from another one."""

    process: Process
    ordinal: int
    context_id: int
    parent_id: int


@dataclass(frozen=True)
class Function:
    """A kernel function and its names.

    `demangled` is NVIDIA's spelling, `itanium` that of c++filt; `mangled` is the symbol. All four
    are equal for functions that have no C++ name.
    """

    demangled: str
    itanium: str
    short: str
    mangled: str


@dataclass(frozen=True)
class ApiCall:
    """One call of the CUDA API. `symbol` has the version suffix that profilers report."""

    thread: Thread
    correlation_id: int
    symbol: str
    start_ns: int
    end_ns: int
    layer: Layer = "runtime"
    result: int = 0


@dataclass(frozen=True)
class Kernel:
    """One execution of a kernel; `graph_node_id` only where a graph launched it."""

    stream: Stream
    correlation_id: int | None
    function: Function
    start_ns: int
    end_ns: int
    grid: tuple[int, int, int] = (64, 1, 1)
    block: tuple[int, int, int] = (128, 1, 1)
    registers: int = 32
    static_shared_bytes: int = 0
    dynamic_shared_bytes: int = 0
    graph_node_id: int | None = None
    green_context_id: int | None = None


@dataclass(frozen=True)
class Memcpy:
    """One explicit copy. A peer copy names both ends by the process's device numbers."""

    stream: Stream
    correlation_id: int | None
    direction: Direction
    src_kind: MemoryKind
    dst_kind: MemoryKind
    bytes: int
    start_ns: int
    end_ns: int
    src_ordinal: int | None = None
    dst_ordinal: int | None = None
    graph_node_id: int | None = None
    green_context_id: int | None = None


@dataclass(frozen=True)
class Memset:
    """One memset; `kind` is that of the memory."""

    stream: Stream
    correlation_id: int | None
    value: int
    bytes: int
    start_ns: int
    end_ns: int
    kind: MemoryKind = "device"
    graph_node_id: int | None = None
    green_context_id: int | None = None


@dataclass(frozen=True)
class Sync:
    """The wait that a synchronizing call caused; no GPU work."""

    stream: Stream
    correlation_id: int
    kind: SyncKind
    start_ns: int
    end_ns: int
    event_id: int | None = None


@dataclass(frozen=True)
class EventRecord:
    """An event as the device passed it; no GPU work."""

    stream: Stream
    correlation_id: int
    event_id: int
    time_ns: int


def records_before(events: Events, sync: Sync) -> list[EventRecord]:
    """Return the records of the event of a wait that were called before it; the last one counts."""
    return [
        record for record in events.event_records
        if record.event_id == sync.event_id and record.correlation_id < sync.correlation_id
        and record.stream.process == sync.stream.process
    ]  # fmt: skip


@dataclass(frozen=True)
class GraphLaunch:
    """One launch of a CUDA graph, recorded as a single interval (its nodes are not recorded)."""

    stream: Stream
    correlation_id: int
    graph_id: int
    graph_exec_id: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class GraphCreation:
    """A graph was made (`graph_exec_id` None), or an executable graph from it."""

    thread: Thread
    time_ns: int
    graph_id: int
    graph_exec_id: int | None = None


@dataclass(frozen=True)
class GraphNodeCreation:
    """A node was made; a clone (in an executable graph) names its original."""

    thread: Thread
    time_ns: int
    node_id: int
    original_node_id: int | None = None


@dataclass(frozen=True)
class Migration:
    """Managed memory moved by the driver."""

    process: Process
    ordinal: int
    direction: Direction
    bytes: int
    start_ns: int
    end_ns: int
    cause: MigrationCause
    address: int
    correlation_id: int | None = 0


@dataclass(frozen=True)
class PageFault:
    """A fault on managed memory. On the CPU (`ordinal` None) it has no end."""

    process: Process
    ordinal: int | None
    address: int
    start_ns: int
    end_ns: int
    count: int = 1
    access: Access = "read"
    instruction: str = "0x401000"
    module: str = "managed"
    source: tuple[str, int] | None = None


@dataclass(frozen=True)
class Block:
    """Memory taken or, later, given back."""

    process: Process
    ordinal: int
    context_id: int
    kind: MemoryKind
    address: int
    bytes: int
    time_ns: int
    is_release: bool = False


@dataclass(frozen=True)
class OsrtCall:
    """One call of the operating system's runtime libraries; `level`: the calls it was made from."""

    thread: Thread
    name: str
    start_ns: int
    end_ns: int
    result: int = 0
    level: int = 0


@dataclass(frozen=True)
class CpuSwitch:
    """A thread that is put on a CPU or taken off; `state`: in which it leaves, as nsys numbers them."""

    thread: Thread
    time_ns: int
    cpu: int
    runs: bool
    state: int = 0


@dataclass(frozen=True)
class CpuSample:
    """A sample of what a thread ran: functions with their files, the one that ran first."""

    thread: Thread
    time_ns: int
    frames: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class MpiCall:
    """One call of MPI. `peer` and `root` are ranks; `requests`: how many it waits for."""

    thread: Thread
    kind: MpiKind
    name: str
    start_ns: int
    end_ns: int
    communicator: int | None = None
    tag: int | None = None
    peer: int | None = None
    root: int | None = None
    bytes: int | None = None
    received_bytes: int | None = None
    requests: int = 1


@dataclass(frozen=True)
class LibraryCall:
    """One call of cuBLAS or cuDNN."""

    thread: Thread
    library: Library
    name: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Construct:
    """One event of OpenACC, `kind` as its specification numbers it, or of OpenMP, `kind` as its name.

    `source`: file and line of the directive; `subject`: the kernel or variable that it is about.
    """

    thread: Thread
    kind: int | str
    start_ns: int
    end_ns: int
    source: tuple[str, int] | None = None
    subject: str | None = None


@dataclass(frozen=True)
class Sample:
    """The value of a GPU metric at a time."""

    device: Device
    metric: str
    time_ns: int
    value: int


@dataclass(frozen=True)
class Domain:
    """A named group of ranges; its number is the process's own."""

    process: Process
    domain_id: int
    name: str


@dataclass(frozen=True)
class Category:
    """A name for a number that ranges of a domain carry; recorded on a thread."""

    thread: Thread
    domain_id: int
    category_id: int
    name: str


@dataclass(frozen=True)
class NcclPayload:
    """What NCCL says of a call in its range: `schema` names its fields, in whose order the values are."""

    schema: NcclSchema
    values: tuple[int, ...]


@dataclass(frozen=True)
class Range:
    """A user's annotation. `end_ns` None: never closed (or a mark). Domain 0 is the default."""

    thread: Thread
    text: str
    start_ns: int
    end_ns: int | None
    style: RangeStyle = "push_pop"
    domain_id: int = 0
    category_id: int | None = None
    color: int | None = None
    registered: bool = False
    end_thread: Thread | None = None
    range_id: int | None = None
    payload: NcclPayload | None = None


@dataclass(frozen=True)
class Overhead:
    """Time the profiler (or, for lazy loading, CUDA) took on a thread."""

    thread: Thread
    kind: OverheadKind
    start_ns: int
    end_ns: int
    correlation_id: int | None = None


@dataclass(frozen=True)
class Diagnostic:
    """A message of the profiler about the recording."""

    time_ns: int
    severity: Severity
    reporter: Reporter
    text: str
    process: Process | None = None


@dataclass(frozen=True)
class Events:
    """Everything that happened. Scenarios are `Events`; adding them up makes a workload."""

    calls: tuple[ApiCall, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    memcpys: tuple[Memcpy, ...] = ()
    memsets: tuple[Memset, ...] = ()
    syncs: tuple[Sync, ...] = ()
    event_records: tuple[EventRecord, ...] = ()
    graph_launches: tuple[GraphLaunch, ...] = ()
    graphs: tuple[GraphCreation, ...] = ()
    graph_nodes: tuple[GraphNodeCreation, ...] = ()
    migrations: tuple[Migration, ...] = ()
    page_faults: tuple[PageFault, ...] = ()
    domains: tuple[Domain, ...] = ()
    categories: tuple[Category, ...] = ()
    ranges: tuple[Range, ...] = ()
    overheads: tuple[Overhead, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    blocks: tuple[Block, ...] = ()
    osrt_calls: tuple[OsrtCall, ...] = ()
    cpu_switches: tuple[CpuSwitch, ...] = ()
    cpu_samples: tuple[CpuSample, ...] = ()
    mpi_calls: tuple[MpiCall, ...] = ()
    library_calls: tuple[LibraryCall, ...] = ()
    constructs: tuple[Construct, ...] = ()
    samples: tuple[Sample, ...] = ()


def combine(parts: Iterable[Events]) -> Events:
    """Return the events of all parts, each kind in the order of the parts."""
    several = list(parts)
    return Events(
        **{
            kind.name: tuple(event for part in several for event in getattr(part, kind.name))
            for kind in fields(Events)
        }
    )


@dataclass(frozen=True)
class Workload:
    """One complete recording.

    `mpi_traced`: the profiler saw the processes' ranks itself; otherwise a rank can be known from
    `environment` only. The environment holds harmless variables (ranks, visible devices): what an
    importer may keep. Writers plant secrets beside them.
    """

    name: str
    title: str
    duration_ns: int
    devices: tuple[Device, ...]
    processes: tuple[Process, ...]
    threads: tuple[Thread, ...]
    streams: tuple[Stream, ...]
    events: Events
    command: str = "./train"
    arguments: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    mpi_traced: bool = False
    green_contexts: tuple[GreenContext, ...] = ()
    zero_utc_ns: int = 1_767_225_600_000_000_000
    host: str = "node01"
    driver_version: str = "580.95.05"
    cuda_version: int = 13000
