"""The metadata of an export on its capture, by allow-list, and the zero of its times.

Exports hold whole environments, command lines, captured output and user names: in META_DATA_CAPTURE,
in TARGET_INFO_SYSTEM_ENV, in ProcessStreams and, under ids that no event refers to, in StringIds.
Nothing is copied but the values named here, and of an environment what `nsysconv.launch` names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nsysconv.facts import Fact
from nsysconv.importers.nsys_sqlite import export_context, tables
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import TIME_LIMIT, has_columns, has_rows
from nsysconv.importers.sqlite_mapping import Clock
from nsysconv.launch import VALUE, VARIABLES, Launch, launch_of
from nsysconv.notes import Note, Severity
from nsysconv.store.recording import ProfileAttributes

# Dumps join variables by NUL, spaces, commas or line breaks, depending on their age.
_BORDER = r"[\0\s,;\"'\\]"
_VARIABLE = re.compile(
    rf"(?:^|{_BORDER})({'|'.join(sorted(VARIABLES))})=\"?({VALUE})(?=$|{_BORDER})"
)

# These options change which events there are, or what recording them costs. Each has a pattern for its
# values.
_SWITCH, _NUMBER = r"true|false", r"\d{1,12}"
OPTIONS = {
    "COLLECT_GPU_CTX_SW_TRACE": _SWITCH,
    "COLLECT_GPU_MEMORY_USAGE": _SWITCH,
    "COLLECT_UVM_CPU_PAGE_FAULTS": _SWITCH,
    "COLLECT_UVM_GPU_PAGE_FAULTS": _SWITCH,
    "CUDA_FLUSH_ON_CUDA_PROFILER_STOP": _SWITCH,
    "CUDA_FLUSH_PERIOD": _NUMBER,
    "CUDA_FLUSH_PERIODICALLY": _SWITCH,
    "CUDA_GRAPH_TRACE_OPTIONS:TRACE_DEVICE_GRAPH_LAUNCH": _SWITCH,
    "CUDA_SKIP_SOME_API_CALLS": _SWITCH,
    "CUDA_TRACE_SCOPE": r"ProcessTree|SystemWide",
    "LINUX_PERF_OPTIONS:COLLECT_CPU_CTXSW_TRACE": _SWITCH,
    "LINUX_PERF_OPTIONS:COLLECT_IP_BACKTRACE_SAMPLES": _SWITCH,
    "LINUX_PERF_OPTIONS:SAMPLING_PERIOD": _NUMBER,
    "OS_RUNTIME_OPTIONS:COLLECT_BACKTRACES": _SWITCH,
    "OS_RUNTIME_OPTIONS:DURATION_THRESHOLD_NS": _NUMBER,
}

# Messages about missing or doubtful data. Only these shapes are ever copied.
_CUDA_DIAGNOSTIC = re.compile(
    r"CUDA profiling might have not been started correctly\."
    r"|No CUDA events collected\. Does the process use CUDA\?"
    r"|Not all CUDA events might have been collected\."
    r"|Installed CUDA driver version \([\d.]+\) is not supported by this build of "
    r"Nsight Systems\. CUDA trace will be collected using libraries for driver version [\d.]+"
    r"|\d+ CUDA events? (?:was|were) (?:dropped|lost)\.?"
)
_MEMORY_DIAGNOSTIC = re.compile(
    r"(?:CUDA device \d+: )?Unified Memory cannot be traced"
    r"(?: on devices that don't support peer-to-peer transfers\."
    r"(?: ?Please verify that SLI/NVLink is functioning properly\.)?)?"
)
_DIAGNOSTICS = (
    (_CUDA_DIAGNOSTIC, frozenset({Fact.KERNELS, Fact.API_CALLS})),
    (re.compile(r"Not all NVTX events might have been collected\."), frozenset({Fact.RANGES})),
    (_MEMORY_DIAGNOSTIC, frozenset({Fact.UNIFIED_MEMORY})),
)


@dataclass(frozen=True)
class Capture:
    """The metadata of a capture: attributes of the profile and switches of the importer."""

    attributes: ProfileAttributes
    cuda_traced: bool
    times_are_utc: bool
    launch: Launch
    """Facts out of the environment of the launched program."""
    options: Mapping[str, str]
    """The capture's options, in nsys's own words."""


READ = frozenset({
    "ANALYSIS_DETAILS", "DIAGNOSTIC_EVENT", "EXPORT_META_DATA", "META_DATA_CAPTURE", "META_DATA_EXPORT",
    "MPI_RANKS", "PROCESSES", "TARGET_INFO_CUDA_CONTEXT_INFO", "TARGET_INFO_CUDA_DEVICE",
    "TARGET_INFO_CUDA_GPU", "TARGET_INFO_CUDA_NULL_STREAM", "TARGET_INFO_CUDA_STREAM", "TARGET_INFO_GPU",
    "TARGET_INFO_GPU_METRICS", "TARGET_INFO_NVTX_CUDA_STREAM", "TARGET_INFO_SESSION_START_TIME",
    "ThreadNames",
})  # fmt: skip
"""Tables without events that are read, here and in small_tables.py."""
PRIVATE = frozenset({
    "ANALYSIS_FILE", "OSRT_FILE_ACCESS_DESCRIPTORS", "ProcessStreams", "TARGET_INFO_SYSTEM_ENV",
})  # fmt: skip
"""Tables of contents and paths of files, of output and environment: what they hold is nobody's business.

Only values of the last one that are on a list are read.
"""
ENUMERATIONS = frozenset({"UnwindMethodType"})
"""Those whose names do not begin with ENUM_."""


def read_capture(probe: Probe) -> Capture:
    """Return the allow-listed values of a file."""
    export = _values(probe, ("META_DATA_EXPORT", "EXPORT_META_DATA"))
    capture = _values(probe, ("META_DATA_CAPTURE",))
    system = _values(probe, ("TARGET_INFO_SYSTEM_ENV",))
    graph_mode = _option(capture, "CUDA_GRAPH_TRACE_OPTIONS:MODE", r"\w{1,20}")
    recording_ns = _one_integer(probe, "ANALYSIS_DETAILS", "duration")
    attributes = ProfileAttributes(
        tool_version=_first(export, "EXPORT_PRODUCT_VERSION", r"[\d.]{1,40}")
        or _version_of_install(system),
        format_version=_first(export, "EXPORT_SCHEMA_VERSION", r"[\d.]{1,40}"),
        zero_utc_ns=_one_integer(probe, "TARGET_INFO_SESSION_START_TIME", "utcEpochNs"),
        # Times are counted from the session's start.
        recording_start_ns=None if recording_ns is None else 0,
        recording_ns=recording_ns,
        driver_version=_first(system, "NvDriverVersion", r"[\d.]{1,40}"),
        host=_first(system, "Hostname", r"[\w.-]{1,255}"),
        graph_mode=(graph_mode or "").lower() or None,
    )
    options = {name: _option(capture, name, shape) for name, shape in OPTIONS.items()}
    return Capture(
        attributes,
        cuda_traced="Cuda" in capture.get("CAPTURE_EVENT_TYPE", ()) and not _tracing_failed(probe),
        times_are_utc=_first(export, "EXPORT_PARAM_TIME_NORMALIZE", "true") == "true",
        launch=launch_of(_environment(capture, system)),
        options={name: value for name, value in options.items() if value is not None},
    )


def _values(probe: Probe, names: Iterable[str]) -> dict[str, list[str]]:
    # The result maps a name to its values (names repeat), from the first of these tables that exists.
    values: dict[str, list[str]] = {}
    table = next((name for name in names if has_columns(probe, name, "name", "value")), None)
    if table is not None:
        for name, value in probe.select(f"SELECT name, value FROM {table}"):
            values.setdefault(str(name), []).append(str(value))
    return values


def _first(values: Mapping[str, list[str]], name: str, shape: str) -> str | None:
    # Values of another shape are passed over: they are not what this importer knows by the name.
    return next((v for v in values.get(name, ()) if re.fullmatch(shape, v)), None)


def _option(capture: Mapping[str, list[str]], name: str, shape: str) -> str | None:
    # Some options are those of the capture, others of its process.
    return _first(capture, name, shape) or _first(capture, f"PROCESS_0:{name}", shape)


def _version_of_install(system: Mapping[str, list[str]]) -> str | None:
    for folder in system.get("TargetInstallDir", ()):
        match = re.search(r"(?i)nsight-?systems[a-z-]*[/-](\d{4}\.\d+(?:\.\d+)*)", folder)
        if match:
            return match.group(1)
    return None


def _one_integer(probe: Probe, table: str, column: str) -> int | None:
    if not has_columns(probe, table, column):
        return None
    rows = probe.select(f"SELECT {column} FROM {table} LIMIT 1")
    return rows[0][0] if rows and isinstance(rows[0][0], int) else None


def _environment(*sources: Mapping[str, list[str]]) -> dict[str, str]:
    # The result has the allow-listed variables of the dumps, each with the first of its values.
    variables: dict[str, str] = {}
    for values in sources:
        for name, texts in values.items():
            if name.endswith("ENVIRONMENT_VARIABLE") or name == "DeviceEnvironment":
                for variable, value in _VARIABLE.findall("\n".join(texts)):
                    variables.setdefault(variable, value)
    return variables


def _tracing_failed(probe: Probe) -> bool:
    # The profiler could not trace CUDA: then a file without CUDA rows does not mean that there was none.
    return has_columns(probe, "DIAGNOSTIC_EVENT", "text") and has_rows(
        probe, "DIAGNOSTIC_EVENT", "text LIKE 'CUDA profiling might have not been started%'"
    )


# -- notes


def option_notes(capture: Capture) -> Iterator[Note]:
    """Yield a note with the options of the capture, for comparing two captures."""
    if capture.options:
        text = ", ".join(f"{name}={value}" for name, value in capture.options.items())
        # Every note names facts; with this one, hardly a report shows it.
        facts = frozenset({Fact.UTC})
        yield Note("capture-options", Severity.INFO, text, where="META_DATA_CAPTURE", facts=facts)


def diagnostic_notes(probe: Probe) -> Iterator[Note]:
    """Yield the profiler's own messages, known shapes only."""
    if not has_columns(probe, "DIAGNOSTIC_EVENT", "text", "severity"):
        return
    counts: dict[str, tuple[int, frozenset[Fact]]] = {}
    for (text,) in probe.select("SELECT text FROM DIAGNOSTIC_EVENT WHERE severity IN (2, 3)"):
        for pattern, facts in _DIAGNOSTICS:
            match = pattern.match(text) if isinstance(text, str) else None
            if match:
                count = counts.get(match.group(0), (0, facts))[0]
                counts[match.group(0)] = (count + 1, facts)
    for message, (count, facts) in counts.items():
        text = f"the profiler says: {message}"
        where = "DIAGNOSTIC_EVENT"
        yield Note("profiler-diagnostic", Severity.INFO, text, count, where, facts)


# -- ranks


def ranks_by_process(
    probe: Probe, capture: Capture, pids: set[int], gpu_pids: set[int]
) -> tuple[dict[int, dict[str, int]], list[Note]]:
    """Return pid -> rank, local_rank, world_size, and notes if two statements disagree.

    The launcher's environment speaks for a process only if a single one is at work.
    """
    ranks = {pid: {"rank": rank} for pid, rank in _mpi_ranks(probe).items() if pid in pids}
    notes = []
    workers, launch = gpu_pids or pids, capture.launch
    if len(workers) == 1 and launch.rank is not None:
        pid = next(iter(workers))
        by_mpi = ranks.get(pid, {})
        if by_mpi.get("rank", launch.rank) != launch.rank:
            text = f"MPI says rank {by_mpi['rank']}, the environment {launch.rank}; MPI's was kept"
            notes.append(Note("rank-clash", Severity.INFO, text))
        by_launcher = {word: getattr(launch, word) for word in ("rank", "local_rank", "world_size")}
        stated = {word: number for word, number in by_launcher.items() if number is not None}
        ranks[pid] = {**stated, **by_mpi}
    return ranks, notes


def _mpi_ranks(probe: Probe) -> dict[int, int]:
    # The MPI trace records ranks in a table, and before 2022.4 as the name of a thread.
    rows: list[tuple[Any, ...]] = []
    if has_columns(probe, "MPI_RANKS", "globalTid", "rank"):
        rows = probe.select("SELECT globalTid, rank FROM MPI_RANKS")
    elif has_columns(probe, "ThreadNames", "globalTid", "nameId"):
        names = probe.select(
            "SELECT t.globalTid, s.value FROM ThreadNames t "
            "JOIN StringIds s ON s.id = t.nameId WHERE s.value GLOB 'MPI Rank [0-9]*'"
        )
        matches = ((tid, re.fullmatch(r"MPI Rank (\d{1,9})", name)) for tid, name in names)
        rows = [(tid, int(match.group(1))) for tid, match in matches if match]
    return {
        export_context.thread_of(global_tid)[0]: rank
        for global_tid, rank in rows
        if isinstance(global_tid, int) and isinstance(rank, int)
    }


# -- times

_NANOSECONDS = 1_000_000_000


def read_clock(probe: Probe, sources: Sequence[str], capture: Capture) -> Clock:
    """Return the clock of a file, by the times of its event tables `sources`.

    Times count from the session's start, unless the export was made with --ts-normalize: then they are
    times of day, larger than any recording is long. Tables of samples and of the operating system do not
    count if others have rows: a recording begins and ends whatever is included of it.
    """
    others = [source for source in sources if source not in tables.NOT_OF_CLOCK]
    if any(has_rows(probe, source) for source in others):
        sources = others
    first = None
    # The first row of every event table is one: a damaged cell or two are not.
    some = _times(probe, sources, "SELECT {time} FROM {source} LIMIT 1")
    if capture.times_are_utc or (some and all(time > TIME_LIMIT for time in some)):
        large = f"typeof({{time}}) = 'integer' AND {{time}} > {TIME_LIMIT} AND {{events}}"
        starts = _times(probe, sources, f"SELECT min({{time}}) FROM {{source}} WHERE {large}")
        first = min(starts, default=None)
    if first is None:
        recording = capture.attributes.recording_ns
        if recording is None:
            recording = _last_end(probe, sources, 0)
        return Clock(0, capture.attributes.zero_utc_ns, recording)
    zero = first // _NANOSECONDS * _NANOSECONDS
    note = Note(
        "time-shifted",
        Severity.INFO,
        "times of day; shown from the whole second before the first event",
    )
    return Clock(zero, zero, _last_end(probe, sources, zero), (note,))


def _last_end(probe: Probe, sources: Sequence[str], zero: int) -> int | None:
    select = "SELECT max({time}) FROM {source} WHERE typeof({time}) = 'integer' AND {events}"
    last = max(_times(probe, sources, select, of_ends=True), default=None)
    return last - zero if last is not None and last - zero <= TIME_LIMIT else None


def _times(
    probe: Probe, sources: Sequence[str], select: str, *, of_ends: bool = False
) -> list[int]:
    # The result has the times that a select gives for each of the tables.
    rows = []
    for source in sources:
        columns, time = probe.tables[source].columns, tables.TIMES[source]
        time = "end" if of_ends and time == "start" else time
        events = "1"
        if source == tables.NVTX and "eventType" in columns:
            kinds = ", ".join(map(str, tables.RANGE_KINDS))
            events = f"eventType IN ({kinds})"  # domains are created before time begins
        if time in columns:
            rows += probe.select(select.format(time=time, source=source, events=events))
    return [time for (time,) in rows if isinstance(time, int)]
