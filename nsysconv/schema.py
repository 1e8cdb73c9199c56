"""The one schema: what a store holds, whatever the source was.

Every table says what one row is; every column has a comment and, where it is a quantity, a unit. The
Arrow types of ingested rows and docs/schema.md come from here. Times are integer nanoseconds since the
profile's zero (`profile.zero_utc_ns` says when that was, where the source knows).
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import sqlalchemy as sa

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.report import Unit

APPLICATION_ID = 0x4E535943
"""`PRAGMA application_id` of our SQLite files: "NSYC"."""

SCHEMA_VERSION = 9
"""Raised by every change that an older reader would misread."""

OLDEST_READ = 2
"""Stores from this version on are read as they are: columns that they lack are null."""

VERSIONS: dict[int, str] = {
    1: "First version.",
    2: "Jobs: `run.job`, `process.job`.",
    3: "Totals: of the OS runtime; of sizes `aggregate.bytes_med`, `aggregate.bytes_stddev`.",
    4: "Sessions: `profile.recording_start_ns`.",
    5: "Operators: threads of their forward, call stacks, values of inputs, those left open; stacks of "
    "memory events; peers of collectives. Stores of version 2 and later can be read.",
    6: "Collectives: sizes in bytes.",
    7: "Checksums: the table `checksum`.",
    8: "What is not believed: the table `implausible`, `profile.examined`, `note.of`.",
    9: "Threads: the tables `cpu_switch` and `cpu_sample`. Devices: clocks, threads of a warp and "
    "of an SM. Source lines: the table `cpu_line`. Memory: the table `memory_block`; segments and "
    "failed allocations in `memory_event`. Callers of API calls; which call recorded an event. "
    "Annotations of graph nodes. Which ranges are steps. Strides of what operators copy. Measured "
    "launches: the table `measured_launch`. Reports for histories: the table `kept_report`.",
}
"""One line per version: what changed."""

metadata = sa.MetaData()

EVENT_TABLES: dict[str, Fact] = {}
"""The tables with many rows, whose profiles are contiguous, each with the fact that a profile holds if
its rows were recorded. All other tables are small."""

GPU_OP_TABLES = ("kernel", "memcpy", "memset", "unified_memory_event", "graph_launch")
"""The event tables whose rows are GPU operations."""

SYSTEM_TABLES = ("osrt_call", "cpu_switch", "cpu_sample")
"""The event tables of what the operating system and samples saw of threads. They do not say when a
recording began and ended."""

# STRICT tables know INTEGER only; elsewhere 64 bits have to be asked for.
INTEGER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
# SQLite knows REAL; elsewhere that has 32 bits only.
_REAL: sa.types.TypeEngine[float] = sa.Double().with_variant(sa.REAL(), "sqlite")
_TYPES: dict[Unit, sa.types.TypeEngine[Any]] = {Unit.TEXT: sa.Text(), Unit.REAL: _REAL}


def _column(
    name: str,
    comment: str,
    unit: Unit = Unit.ID,
    *,
    required: bool = False,
    key: bool = False,
    codes: tuple[str, ...] = (),
    since: int = 1,
) -> sa.Column[Any]:
    return sa.Column(
        name,
        _TYPES.get(unit, INTEGER),
        nullable=not required and not key,
        primary_key=key,
        autoincrement=False,
        comment=comment,
        info={"unit": unit, "codes": codes, "since": since},
    )


_text = partial(_column, unit=Unit.TEXT)
_real = partial(_column, unit=Unit.REAL)
_key = partial(_column, key=True)


def _row_id(
    comment: str = "Row number, assigned by the database; a profile's rows are contiguous.",
) -> sa.Column[int]:
    # SQLite makes an INTEGER PRIMARY KEY the rowid itself: no index, and the engine assigns it.
    return sa.Column(
        "id", INTEGER, primary_key=True, comment=comment, info={"unit": Unit.ID, "since": 1}
    )


def _profile_id(*, key: bool = False) -> sa.Column[Any]:
    return _column("profile_id", "The profile, `profile.id`.", required=True, key=key)


def _profile_table(
    name: str, comment: str, *columns: sa.schema.SchemaItem, **options: Any
) -> sa.Table:
    return sa.Table(name, metadata, _profile_id(key=True), *columns, comment=comment, **options)


def _event_table(name: str, fact: Fact, comment: str, *columns: sa.schema.SchemaItem) -> sa.Table:
    EVENT_TABLES[name] = fact
    every = _row_id(), _profile_id(), *columns
    own = [column for column in columns if isinstance(column, sa.Column)]
    for column in every[:2]:  # a table is as old as its first columns
        column.info["since"] = min(each.info["since"] for each in own)
    return sa.Table(name, metadata, *every, comment=comment)


TIME_LIMIT_NS = 1 << 53
"""No time is further from a profile's zero: 104 days, and what a double holds exactly."""


# Numbers of checks are spelled out: a table's definition has no parameters.
_START, _DURATION, _PID = (sa.column(name, sa.BigInteger) for name in ("start_ns", "dur_ns", "pid"))
_LEAST, _ZERO, _MOST = (
    sa.literal_column(str(number), sa.BigInteger) for number in (-TIME_LIMIT_NS, 0, TIME_LIMIT_NS)
)
_IN_TIME = _START.between(_LEAST, _MOST)
_NOT_NEGATIVE = _DURATION.between(_ZERO, _MOST)
# Profilers write 0 and 0 where they have no time; here that is null.
_HAS_TIME = (_START != _ZERO) | (_DURATION != _ZERO)
# What arithmetic on a damaged process id gives.
_IS_PROCESS = _PID != _ZERO


def _interval(start: str, duration: str) -> tuple[sa.schema.SchemaItem, ...]:
    return (
        _column("start_ns", start, Unit.NS),
        _column("dur_ns", duration, Unit.NS),
        *map(sa.CheckConstraint, (_IN_TIME, _NOT_NEGATIVE, _HAS_TIME, _IS_PROCESS)),
    )


def _interval_of(what: str) -> tuple[sa.schema.SchemaItem, ...]:
    return _interval(
        f"When {what} began; null: not recorded.", f"How long {what} took; null: not recorded."
    )


def _where_on_gpu() -> tuple[sa.Column[int], ...]:
    return (
        _column("pid", "The process, `process.pid`."),
        _column("device_id", "The device it ran on, `device.device_id`."),
        _column("context_id", "The process's context, `context.context_id`."),
        _column("stream_id", "The process's stream, `stream.stream_id`."),
        _column(
            "correlation_id",
            "Shared with the API call that launched it; unique per process only; 0 or null: none.",
        ),
    )


def _green_context() -> sa.Column[int]:
    what = "The green context it ran in, `context.context_id`; 0 or null: none."
    return _column("green_context_id", what)


def _annotation() -> sa.Column[int]:
    what = "What the program called the part of a graph's capture that made its node, `name.id`."
    return _column("annotation_id", what, since=9)


def _thread(since: int = 1) -> tuple[sa.Column[int], sa.Column[int]]:
    return (
        _column("pid", "The process, `process.pid`.", since=since),
        _column("tid", "The thread of that process, `thread.tid`.", since=since),
    )


def _gpu_interval(what: str) -> tuple[sa.schema.SchemaItem, ...]:
    return (*_interval_of(what), *_where_on_gpu())


def _thread_interval(what: str) -> tuple[sa.schema.SchemaItem, ...]:
    return (*_interval_of(what), *_thread())


run = sa.Table(
    "run",
    metadata,
    _row_id("Row number."),
    _text("label", "Name of the run, unique in the store.", required=True),
    _text("job", "The batch job it was, `process.job`; null: none known."),
    comment="One execution of a program (a job): the profiles that were recorded of it.",
)

profile = sa.Table(
    "profile",
    metadata,
    _row_id("Number of the profile in this store."),
    _column("run_id", "The run it belongs to, `run.id`.", required=True),
    _text("label", "Name of the profile, unique in the store.", required=True),
    _text(
        "identity",
        "Hash of the source's bytes, the importer and its options; importing it twice "
        "changes nothing.",
        required=True,
    ),
    _text("source", "The importer that read it.", required=True),
    _text("path", "The file it was read from, as the user named it.", required=True),
    _text("sha256", "SHA-256 of that file.", required=True),
    _text("tool_version", "Version of the profiler or exporter, as far as the source says."),
    _text("format_version", "Version of the source's own format."),
    _column("zero_utc_ns", "Time of day (UTC, ns since 1970) of the profile's zero.", Unit.NS),
    _column(
        "recording_start_ns",
        "When the profiler's session began; null: the source does not say, and the recording begins "
        "with its first event.",
        Unit.NS,
        since=4,
    ),
    _column("recording_ns", "End of the recording, from the profile's zero.", Unit.NS),
    _text("driver_version", "Version of the GPU driver."),
    _text("host", "Name of the machine, where an allow-listed fact tells it."),
    _text("graph_mode", "How CUDA graphs were recorded: graph or node."),
    _column(
        "examined",
        "1: what cannot be believed was looked for at the import (`implausible`, `note`); null: it is "
        "looked for at each reading.",
        since=8,
    ),
    _text(
        "step_range",
        "Name of the ranges that the program annotated as its steps, in the profiler's own way, `*` "
        "standing for anything (`train *`); null: none.",
        since=9,
    ),
    sa.UniqueConstraint("identity"),
    sa.UniqueConstraint("label"),
    comment="One recording: what was read from one file, or from one part of it.",
)

profile_fact = _profile_table(
    "profile_fact",
    "Whether a profile holds one kind of information that its source may hold.",
    _text("fact", "A kind of information.", key=True),
    _column(
        "held",
        "1: this profile holds it (there may still be no rows); 0: not recorded.",
        required=True,
    ),
    _text("advice", "How to record it next time, where the importer knows."),
)

profile_tag = _profile_table(
    "profile_tag",
    "One tag of a profile: what the user of the import wanted kept with it.",
    _text("key", "What is told.", key=True),
    _text("value", "What the user said of it.", required=True),
)

extent = _profile_table(
    "extent",
    "Where one profile's rows stand in one event table: contiguous from first_id to last_id.",
    _text("table_name", "An event table.", key=True),
    _column("first_id", "First row id.", required=True),
    _column("last_id", "Last row id.", required=True),
    _column("row_count", "Rows in between.", Unit.COUNT, required=True),
    _column("pid", "The process of all of them; null: not known to be one."),
    _column("device_id", "The device of all of them; null: not known to be one."),
)

checksum = _profile_table(
    "checksum",
    "What one table held of one profile when it was imported; a table that held nothing has no row.",
    _text("table_name", "A table.", key=True, since=7),
    _column("row_count", "Rows of the profile.", Unit.COUNT, required=True, since=7),
    _column("checksum", "Of all of them; `info STORE --check` compares.", required=True, since=7),
)

implausible = _profile_table(
    "implausible",
    "One row of an event table that cannot be what it says, or that lacks what belongs to it.",
    _text("table_name", "An event table.", key=True, since=8),
    _column(
        "position", "Its place among the profile's rows of that table, from 1.", key=True, since=8
    ),
    _column(
        "reason",
        "time: its times are not believed, reports take it for a row without; work: what this call "
        "launched was not recorded, or is not believed; size: its bytes are not believed.",
        key=True,
        codes=codes.DOUBTS,
        since=8,
    ),
)

kept_report = _profile_table(
    "kept_report",
    "A short report on one profile as its import computed it, for `history`; large profiles have none.",
    _text("report", "Its name.", key=True, since=9),
    _text(
        "program",
        "What computed it; `history` takes nothing of another one.",
        required=True,
        since=9,
    ),
    _text("rows_json", "Its rows as JSON; of steps one by rank.", required=True, since=9),
)

note = sa.Table(
    "note",
    metadata,
    _row_id(),
    _profile_id(),
    _text("slug", "What kind of caveat; docs/messages.md explains each.", required=True),
    _text("severity", "info, approximated or dropped.", required=True),
    _column("count", "How many rows or times.", Unit.COUNT, required=True),
    _column("of", "Out of how many; null: not known.", Unit.COUNT, since=8),
    _text("place", "The first place in the source.", required=True),
    _text("text", "The caveat in a sentence.", required=True),
    _text("facts", "The facts it touches, separated by spaces; empty: all.", required=True),
    comment="One caveat about a profile's rows: something dropped, guessed or repaired.",
)

name = _profile_table(
    "name",
    "One name that an imported row refers to.",
    _key("id", "Number of the name, as the source numbers it."),
    _text("text", "The name as the source spells it.", required=True),
    _text(
        "plain", "An API function's name without version and stream-mode suffixes; null for others."
    ),
    sqlite_with_rowid=False,
)

device = _profile_table(
    "device",
    "One GPU as far as the profile can tell GPUs apart.",
    _key("device_id", "Number of the device, unique in the profile."),
    _column("ordinal", "The CUDA ordinal by which processes address it."),
    _column("pid", "The process that the ordinal belongs to; null: every process uses the same."),
    _text("uuid", "UUID of the GPU (a MIG instance has its own)."),
    _text("bus_id", "PCI bus id."),
    _text("name", "Product name; null: the profile does not tell it."),
    _column("sm_count", "Streaming multiprocessors.", Unit.COUNT),
    _column("compute_major", "Compute capability, major."),
    _column("compute_minor", "Compute capability, minor."),
    _column("memory_bytes", "Size of its memory.", Unit.BYTES),
    _column("memory_bandwidth_bytes_per_s", "Bandwidth of its memory.", Unit.BYTES_PER_S),
    _column("max_warps_per_sm", "Resident warps an SM can hold.", Unit.COUNT),
    _column("max_blocks_per_sm", "Resident blocks an SM can hold.", Unit.COUNT),
    _column("max_registers_per_sm", "Registers of an SM.", Unit.COUNT),
    _column("max_shared_bytes_per_sm", "Shared memory of an SM.", Unit.BYTES),
    _column("sm_clock_hz", "Highest clock of its SMs.", Unit.HZ, since=9),
    _column("memory_clock_hz", "Highest clock of its memory.", Unit.HZ, since=9),
    _column("threads_per_warp", "Threads of a warp.", Unit.COUNT, since=9),
    _column("max_threads_per_sm", "Resident threads an SM can hold.", Unit.COUNT, since=9),
)

process = _profile_table(
    "process",
    "One process with at least one imported event.",
    _key("pid", "Process number."),
    _text("name", "Name of the program."),
    _column("rank", "MPI or torchrun rank; null: none known."),
    _column("local_rank", "Rank on its host."),
    _column("world_size", "Number of ranks of the run.", Unit.COUNT),
    _text("host", "Host it ran on."),
    _text("job", "Batch system and number of the job, such as `slurm 1234.0`; null: none known."),
    _text(
        "dimensions",
        "Its place in the dimensions of a parallel program, and its role: `TP0 PP1`, `DP3 decode`; null: "
        "none known.",
        since=9,
    ),
)

thread = _profile_table(
    "thread",
    "One thread with at least one imported event.",
    _key("pid", "Process number."),
    _key("tid", "Thread number."),
    _text("name", "Name of the thread."),
    _column("priority", "Its priority, as the source gives it."),
)

context = _profile_table(
    "context",
    "One context of one process.",
    _key("pid", "Process number."),
    _key("context_id", "Number of the context in its process."),
    _column("device_id", "The device it lives on, `device.device_id`."),
    _column("null_stream_id", "Its default stream."),
    _column("parent_context_id", "The context a green context was made from."),
    _column("is_green", "1: a green context (a share of the device)."),
)

stream = _profile_table(
    "stream",
    "One stream of one process.",
    _key("pid", "Process number."),
    _key("context_id", "The context it belongs to."),
    _key("stream_id", "Number of the stream in its process."),
    _column("priority", "Priority; lower numbers are served first."),
    _text("name", "Name the program gave it."),
)

domain = _profile_table(
    "domain",
    "One named domain of ranges.",
    _key("pid", "Process number."),
    _key("domain_id", "Number of the domain in its process; 0 is the default domain."),
    _text("name", "Name of the domain.", required=True),
)

category = _profile_table(
    "category",
    "One named category of ranges.",
    _key("pid", "Process number."),
    _key("domain_id", "The domain it belongs to."),
    _key("category_id", "Number of the category in its domain."),
    _text("name", "Name of the category.", required=True),
)

api_call = _event_table(
    "api_call",
    Fact.API_CALLS,
    "One call of the GPU runtime's or driver's API.",
    *_thread_interval("the call"),
    _column(
        "correlation_id",
        "Shared with the GPU operations it launched; unique per process only; 0 or null: none.",
    ),
    _column("layer", "0 runtime, 1 driver.", codes=codes.API_LAYERS),
    _column("name_id", "The function's symbol, `name.id`; `name.plain` is its documented name."),
    _column("result", "What it returned; 0 is success."),
    _column("caller_name_id", "The function of the program that called it, `name.id`.", since=9),
)

kernel = _event_table(
    "kernel",
    Fact.KERNELS,
    "One execution of a kernel on a device.",
    *_gpu_interval("the kernel"),
    _green_context(),
    _column("name_id", "Demangled name, `name.id`."),
    _column("short_name_id", "Name without arguments and scopes, `name.id`."),
    _column("mangled_name_id", "Symbol, `name.id`."),
    *(_column(f"grid_{axis}", f"Blocks in {axis}.", Unit.COUNT) for axis in "xyz"),
    *(_column(f"block_{axis}", f"Threads of a block in {axis}.", Unit.COUNT) for axis in "xyz"),
    _column("registers_per_thread", "Registers of a thread.", Unit.COUNT),
    _column("static_shared_bytes", "Shared memory of a block fixed at compile time.", Unit.BYTES),
    _column("dynamic_shared_bytes", "Shared memory of a block asked for at launch.", Unit.BYTES),
    _column(
        "shared_bytes",
        "Shared memory of a block, where the source does not tell its two kinds apart.",
        Unit.BYTES,
    ),
    _column("local_bytes_per_thread", "Local memory of a thread.", Unit.BYTES),
    _column(
        "occupancy_pct",
        "Achieved occupancy as the source estimates it, rounded to whole percent.",
        Unit.PCT,
    ),
    _column(
        "graph_node_id",
        "The graph node it came from, `graph_node.graph_node_id`; 0 or null: no graph.",
    ),
    _annotation(),
)

memcpy = _event_table(
    "memcpy",
    Fact.MEMCPYS,
    "One explicit copy of memory (migrations of unified memory are in unified_memory_event).",
    *_gpu_interval("the copy"),
    _green_context(),
    _column("bytes", "Bytes copied.", Unit.BYTES),
    _column("direction", "From where to where.", codes=codes.DIRECTIONS),
    _column("src_kind", "Kind of memory read.", codes=codes.MEMORY_KINDS),
    _column("dst_kind", "Kind of memory written.", codes=codes.MEMORY_KINDS),
    _column("peer_device_id", "The other device of a peer copy, `device.device_id`."),
    _column("copy_count", "Copies that one batched call merged into this row.", Unit.COUNT),
    _column("graph_node_id", "The graph node it came from; 0 or null: no graph."),
    _annotation(),
)

memset = _event_table(
    "memset",
    Fact.MEMSETS,
    "One setting of memory to a value.",
    *_gpu_interval("the set"),
    _green_context(),
    _column("bytes", "Bytes set.", Unit.BYTES),
    _column("memory_kind", "Kind of memory.", codes=codes.MEMORY_KINDS),
    _column("value", "The value written."),
    _column("graph_node_id", "The graph node it came from; 0 or null: no graph."),
    _annotation(),
)

unified_memory_event = _event_table(
    "unified_memory_event",
    Fact.UNIFIED_MEMORY,
    "One migration of unified memory.",
    *_gpu_interval("the migration"),
    _column("bytes", "Bytes moved.", Unit.BYTES),
    _column("direction", "From where to where.", codes=codes.DIRECTIONS),
    _column(
        "cause",
        "Why, by the driver's number: 1 prefetch by the program, 2 page fault, "
        "3 speculative prefetch, 4 eviction, 5 access counters; 0 unknown.",
    ),
    _column("address", "Virtual address of the first page."),
)

graph_launch = _event_table(
    "graph_launch",
    Fact.GRAPH_LAUNCHES,
    "One launch of a graph that the source recorded as a single interval.",
    *_gpu_interval("the graph"),
    _column("graph_id", "The graph."),
    _column("graph_exec_id", "The instantiated graph."),
)

graph_node = _event_table(
    "graph_node",
    Fact.GRAPH_NODES,
    "The creation of one node of a graph.",
    _column("start_ns", "When it was created.", Unit.NS),
    *_thread(),
    _column("graph_node_id", "Number of the node in its process."),
    _column("original_graph_node_id", "The node it was cloned from; 0 or null: none."),
    _column("name_id", "What made it, `name.id`."),
)

sync = _event_table(
    "sync",
    Fact.SYNCS,
    "One synchronization as the device saw it. Not GPU work.",
    *_gpu_interval("the wait"),
    _column("event_id", "The event waited for; null: none."),
    _column(
        "record_correlation_id", "`correlation_id` of the call that recorded the event.", since=9
    ),
    _column("record_stream_id", "The stream on which that call recorded it.", since=9),
    _column(
        "sync_type",
        "The source's own number for the kind of wait. Its meaning changed between "
        "releases: tell the kind from the name of the call (v_sync).",
    ),
)

range_ = _event_table(
    "range",
    Fact.RANGES,
    "One range or mark that the program put around its own work (NVTX, user annotations).",
    *_interval("When it began.", "How long it was open; null: never closed, or a mark."),
    *_thread(),
    _column("end_tid", "The thread that closed it, if another."),
    _column("kind", "push_pop (nests on its thread), start_end, or mark.", codes=codes.RANGE_KINDS),
    _column("domain_id", "Its domain, `domain.domain_id`; 0 the default."),
    _column("category_id", "Its category, `category.category_id`."),
    _column("color", "ARGB color."),
    _column("name_id", "Its message where it was registered, `name.id`."),
    _text("text", "Its message where it was not registered."),
)

operator = _event_table(
    "operator",
    Fact.OPERATORS,
    "One operator of the framework, construct of a directive, or call of a library, on a "
    "thread; they nest.",
    *_thread_interval("the operator"),
    _column(
        "kind",
        "operator: of the framework (`aten::mm`); python_function: a call in the Python code, "
        "imported on request; directive: a construct of OpenACC or OpenMP "
        "(`acc_enqueue_launch@solve.c:85`); library_call: a call of cuBLAS or cuDNN.",
        codes=codes.OPERATOR_KINDS,
    ),
    _column("name_id", "Its name, `name.id`."),
    _column("sequence_number", "Shared by a forward operator and its backward operators."),
    _column("shapes_id", "Shapes of its inputs as the source spells them, `name.id`."),
    _column("types_id", "Types of its inputs as the source spells them, `name.id`."),
    _column(
        "arguments_id",
        "Values of its inputs, of operators whose work depends on them: numbers, `true` and `false`, and "
        "null for others, as JSON, `name.id`.",
        since=5,
    ),
    _column(
        "stack_id",
        "Call stack of Python functions, innermost first, without folders of the machine, `name.id`.",
        since=5,
    ),
    _column(
        "forward_thread",
        "Of a backward operator the number of its forward's thread, which PyTorch counts from 1; null: "
        "it is none.",
        since=5,
    ),
    _column(
        "is_open", "1: it was open when the recording ended, and its duration is cut.", since=5
    ),
    _column("op_id", "Number of the call, as the framework counts them; null: none.", since=5),
    _column(
        "strides_id",
        "Strides of its inputs as the source spells them, of operators that copy a tensor "
        "(`aten::copy_`: target and source), `name.id`.",
        since=9,
    ),
)

collective = _event_table(
    "collective",
    Fact.COLLECTIVES,
    "One collective communication of one process, as called or as run.",
    *_gpu_interval("it"),
    _column("tid", "The thread that called it, `thread.tid`; null for the kernel."),
    _column(
        "kind",
        "call: on the thread that asked for it; kernel: on the device (also a row of kernel).",
        codes=codes.COLLECTIVE_KINDS,
    ),
    _column("name_id", "What it does (`allreduce`), `name.id`."),
    _column("dtype_id", "Type of the elements, `name.id`."),
    _column("in_elements", "Elements that this rank gives.", Unit.COUNT),
    _column("out_elements", "Elements that this rank gets.", Unit.COUNT),
    _column(
        "in_bytes",
        "What this rank gives, where the source says so in bytes instead of elements.",
        Unit.BYTES,
        since=6,
    ),
    _column("out_bytes", "What this rank gets, likewise.", Unit.BYTES, since=6),
    _column("group_id", "Name of the process group, `name.id`."),
    _column("group_size", "Ranks in the group.", Unit.COUNT),
    _column("group_ranks_id", "The ranks as the source spells them, `name.id`."),
    _column("sequence_number", "Number of the collective in its group, the same on every rank."),
    _column("src_rank", "The rank that sends, where one does.", since=5),
    _column("dst_rank", "The rank that receives, where one does.", since=5),
    _column("is_async", "1: its caller goes on meanwhile.", since=5),
)

memory_event = _event_table(
    "memory_event",
    Fact.MEMORY_EVENTS,
    "One block of memory that the program or its framework took or gave back, or failed to get.",
    _column("start_ns", "When it happened; null: not recorded.", Unit.NS),
    sa.CheckConstraint(_IN_TIME),
    *_thread(),
    _column("device_id", "The device whose memory it is, `device.device_id`; null: the host's."),
    _column("context_id", "The process's context, `context.context_id`."),
    _column("memory_kind", "Kind of memory.", codes=codes.MEMORY_KINDS),
    _column(
        "kind",
        "block, also where null: the program took or gave back; segment: the framework's allocator did, "
        "from or to the device; oom: an allocation that failed.",
        codes=codes.MEMORY_EVENT_KINDS,
        since=9,
    ),
    _column("address", "Address of the block."),
    _column("bytes", "Size of the block; negative where it was freed.", Unit.BYTES),
    _column("allocated_bytes", "In use on that device afterwards.", Unit.BYTES),
    _column("reserved_bytes", "Held by the framework's allocator afterwards.", Unit.BYTES),
    _column("free_bytes", "Free on the device when an allocation failed.", Unit.BYTES, since=9),
    _column("stack_id", "Call stack, as of operators, `name.id`.", since=5),
)

osrt_call = _event_table(
    "osrt_call",
    Fact.OSRT_CALLS,
    "One call of the operating system's runtime libraries.",
    *_thread_interval("the call"),
    _column("name_id", "The function, `name.id`."),
    _column("result", "What it returned, as the source gives it."),
    _column("nesting_level", "Calls of this kind that it was made from; 0: none.", Unit.COUNT),
)

cpu_switch = _event_table(
    "cpu_switch",
    Fact.SCHEDULING,
    "One moment at which the operating system put a thread on a CPU, or took it off.",
    _column("start_ns", "When it did.", Unit.NS, since=9),
    *_thread(since=9),
    _column("cpu", "The CPU.", since=9),
    _column("is_running", "1: the thread runs from then on; 0: it does not.", since=9),
    _column(
        "state",
        "The state in which a thread left its CPU, as the source gives it.",
        codes=codes.THREAD_STATES,
        since=9,
    ),
    sa.CheckConstraint(_IN_TIME),
    sa.CheckConstraint(_IS_PROCESS),
)

cpu_sample = _event_table(
    "cpu_sample",
    Fact.CPU_SAMPLES,
    "One sample of what a thread ran.",
    _column("start_ns", "When it was taken.", Unit.NS, since=9),
    *_thread(since=9),
    _column("cpu", "The CPU.", since=9),
    _column("name_id", "The function that ran, or its address, `name.id`.", since=9),
    _column("library_id", "The program or library that the function is in, `name.id`.", since=9),
    sa.CheckConstraint(_IN_TIME),
    sa.CheckConstraint(_IS_PROCESS),
)

mpi_call = _event_table(
    "mpi_call",
    Fact.MPI_CALLS,
    "One call of MPI.",
    *_thread_interval("the call"),
    _column(
        "kind",
        "p2p: sends to or receives from one rank; collective: of all ranks of a communicator; "
        "wait: starts or waits for requests; other.",
        codes=codes.MPI_KINDS,
    ),
    _column("name_id", "The function, `name.id`."),
    _column("tag", "Tag of the message."),
    _column("remote_rank", "The rank sent to or received from, in the communicator."),
    _column("root_rank", "The root of the collective, in the communicator; null: it has none."),
    _column("bytes", "Bytes sent or received; of a collective, sent.", Unit.BYTES),
    _column("recv_bytes", "Bytes that a collective received.", Unit.BYTES),
    _column("communicator_id", "The communicator's handle in its process."),
)

page_fault = _event_table(
    "page_fault",
    Fact.PAGE_FAULTS,
    "One page fault on unified memory, or several that the source merged.",
    *_interval_of("the fault"),
    _column("pid", "The process, `process.pid`."),
    _column("device_id", "The device that faulted, `device.device_id`; null: a CPU."),
    _column("kind", "Whether a CPU or a GPU faulted.", codes=codes.PAGE_FAULT_KINDS),
    _column("address", "Virtual address of the page."),
    _column("count", "Faults merged into the row; 1 for a CPU's.", Unit.COUNT),
    _column("access", "What the access was that faulted.", codes=codes.ACCESS_KINDS),
    _column("instruction_id", "The instruction that faulted, `name.id`."),
    _column("module_id", "The program or library that it is in, `name.id`."),
    _column("source_file_id", "Its source file, `name.id`."),
    _column("source_line", "Its line there."),
)

overhead = _event_table(
    "overhead",
    Fact.OVERHEAD,
    "One interval that was not the program's own work.",
    *_thread_interval("the overhead"),
    _column(
        "kind",
        "profiler: the profiler's own work; driver: work of the driver that the profiler "
        "reports as overhead (compilation, module loading).",
        codes=codes.OVERHEAD_KINDS,
    ),
    _column("name_id", "What it was, `name.id`."),
)

metric_sample = _event_table(
    "metric_sample",
    Fact.METRICS,
    "One metric or event of hardware counters, over executions of a kernel or at one time; or "
    "what a monitor of the GPU read at one time.",
    _column("start_ns", "When it was sampled; null: measured over executions.", Unit.NS),
    sa.CheckConstraint(_IN_TIME),
    *_where_on_gpu(),
    _column("name_id", "Name of the metric or event, `name.id`."),
    _column("description_id", "What it is, `name.id`."),
    _column("kernel_name_id", "The kernel it was measured in, `name.id`; null: in no one kernel."),
    _column(
        "launch_id",
        "The launch it was measured in, `measured_launch.id`; null: not told, or sampled.",
        since=9,
    ),
    _column(
        "kind",
        "metric: computed by the profiler; event: a hardware counter itself.",
        codes=codes.METRIC_KINDS,
    ),
    _column(
        "unit",
        "What the values count; level: of use, from 0 (idle) to 10 (max).",
        codes=codes.METRIC_UNITS,
    ),
    _column("execution_count", "Executions of the kernel it was measured over.", Unit.COUNT),
    _real("value_min", "Least over those executions."),
    _real("value_max", "Greatest."),
    _real("value_avg", "Mean."),
    _real("value_sum", "Sum; null: the source does not tell it."),
)

measured_launch = _profile_table(
    "measured_launch",
    "One launch of a kernel in which metrics were measured, or several of which they are a summary.",
    _key("id", "Number of the launch in its profile, in the order of launches.", since=9),
    _column(
        "part", "Number of the joined file that tells of it, from 1; null: no joined one.", since=9
    ),
    _column("pid", "The process that launched it, in the run that was measured.", since=9),
    _column("name_id", "Demangled name of the kernel, `name.id`.", required=True, since=9),
    _column("mangled_name_id", "Symbol of the kernel, `name.id`.", since=9),
    *(_column(f"grid_{axis}", f"Blocks in {axis}.", Unit.COUNT, since=9) for axis in "xyz"),
    *(
        _column(f"block_{axis}", f"Threads of a block in {axis}.", Unit.COUNT, since=9)
        for axis in "xyz"
    ),
    _column(
        "launch_count", "Launches that a summary is of; null: a single one.", Unit.COUNT, since=9
    ),
)

memory_block = _profile_table(
    "memory_block",
    "One block of the memory that a framework's allocator held when the recording ended.",
    _key("id", "Number of the row in its profile.", since=9),
    _column("pid", "The process, `process.pid`.", since=9),
    _column("device_id", "The device whose memory it is, `device.device_id`.", since=9),
    _column("segment_address", "Address of the segment that it is a part of.", since=9),
    _column("address", "Address of the block.", since=9),
    _column("bytes", "Size of the block.", Unit.BYTES, since=9),
    _column(
        "requested_bytes", "What the program asked for; null: nobody has it.", Unit.BYTES, since=9
    ),
    _column(
        "state",
        "allocated: the program has it; awaiting_free: it gave it back, and another stream uses it; "
        "inactive: nobody has it.",
        codes=codes.MEMORY_BLOCK_STATES,
        since=9,
    ),
    _column("stack_id", "Call stack of its allocation, as of operators, `name.id`.", since=9),
)

aggregate = _profile_table(
    "aggregate",
    "Totals of one name, from a source that records totals only.",
    _key("id", "Number of the row in its profile."),
    _column(
        "kind",
        "What was added up. openacc_exclusive is without, openacc_inclusive and openmp_inclusive with "
        "the constructs inside.",
        codes=codes.AGGREGATE_KINDS,
        required=True,
    ),
    _column("pid", "The process, `process.pid`."),
    _column("device_id", "The device, `device.device_id`; null: all devices of the process."),
    _column("tid", "The thread of a range, `thread.tid`; null: all threads."),
    _column("layer", "Of API calls: 0 runtime, 1 driver.", codes=codes.API_LAYERS),
    _column("direction", "Of copies and migrations: from where to where.", codes=codes.DIRECTIONS),
    _column(
        "name_id",
        "The kernel, the API or OS runtime function, the range or the construct, `name.id`.",
    ),
    _column(
        "domain_id", "The domain of a range, `domain.domain_id`; null: the name says it, or none."
    ),
    _column(
        "range_kind", "Of ranges: push_pop or start_end; null: not told.", codes=codes.RANGE_KINDS
    ),
    _column(
        "range_name_id",
        "Only what belongs to ranges of this name, `name.id`, whose time is a part of the row with "
        "null here; null: all.",
    ),
    _column("count", "How many there were.", Unit.COUNT, required=True),
    _column("sum_ns", "Sum of their durations; null: not recorded.", Unit.NS),
    _column("min_ns", "Shortest.", Unit.NS),
    _column("max_ns", "Longest.", Unit.NS),
    _real("med_ns", "Median of their durations in ns, as far as the source spells it."),
    _real("stddev_ns", "Sample standard deviation of their durations in ns, likewise."),
    _column("bytes_sum", "Bytes they moved.", Unit.BYTES),
    _column("bytes_min", "Least bytes.", Unit.BYTES),
    _column("bytes_max", "Most bytes.", Unit.BYTES),
    _real("bytes_med", "Median of their bytes, as far as the source spells it.", since=3),
    _real("bytes_stddev", "Sample standard deviation of their bytes, likewise.", since=3),
    sa.CheckConstraint(_IS_PROCESS),
)

cpu_line = _profile_table(
    "cpu_line",
    "Host time of one source line, from a source that records it by line, without single calls.",
    _column("id", "Number of the row in its profile.", key=True, since=9),
    _column(
        "file_id",
        "The file, `name.id`; without its folders, where its path was absolute.",
        required=True,
        since=9,
    ),
    _column("line", "The line in it, from 1.", required=True, since=9),
    _column("function_id", "The function it is in, `name.id`; null: not recorded.", since=9),
    _column("function_line", "The first line of that function.", since=9),
    _column("hits", "How often it ran; null: not recorded.", Unit.COUNT, since=9),
    _column("sum_ns", "Time that it ran.", Unit.NS, since=9),
    _column(
        "includes_calls",
        "1: the time of the functions that it called is included, so that times of lines do not add "
        "up; 0: it is theirs alone.",
        required=True,
        since=9,
    ),
    _column("python_ns", "Of its time, that in Python's interpreter.", Unit.NS, since=9),
    _column("native_ns", "Of its time, that in native code.", Unit.NS, since=9),
    _column("system_ns", "Of its time, that in the system; waiting is included.", Unit.NS, since=9),
    _real("gpu_pct", "Its share of the GPU utilization seen while each line ran, in %.", since=9),
    _column("alloc_bytes", "Host memory that it allocated.", Unit.BYTES, since=9),
    _column("peak_bytes", "The most of that in use at one time.", Unit.BYTES, since=9),
    _column("gpu_peak_bytes", "The most GPU memory in use while it ran.", Unit.BYTES, since=9),
)

COUNTED_TABLES = (*EVENT_TABLES, aggregate.name, cpu_line.name, memory_block.name)
"""The tables whose rows were recorded by a profiler, and are counted for people."""


def event_columns(table: sa.Table) -> tuple[str, ...]:
    """Return the columns of an event table that a source fills in (all but the two the store assigns)."""
    return tuple(c.name for c in table.columns if c.name not in ("id", "profile_id"))


@cache
def columns_since(version: int) -> frozenset[sa.Column[Any]]:
    """Return the columns that came after this version, and that its stores lack."""
    return frozenset(
        column
        for table in metadata.tables.values()
        for column in table.columns
        if column.info["since"] > version
    )


def is_name_id(column: sa.Column[Any]) -> bool:
    """Return whether the numbers in a column are ids of names, as its comment says."""
    return "`name.id`" in (column.comment or "")
