"""Facts about the capture, by allow-list.

Exports hold whole environments, command lines, captured output and user names: in META_DATA_CAPTURE,
in TARGET_INFO_SYSTEM_ENV, in ProcessStreams and, under ids that no event refers to, in StringIds.
Nothing is copied but the values named here, and of an environment what `nsysconv.launch` names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nsysconv.facts import Fact
from nsysconv.importers.nsys_sqlite import tables
from nsysconv.importers.probe import Probe
from nsysconv.importers.sqlite_columns import TIME_LIMIT, has
from nsysconv.launch import VALUE, VARIABLES, Launch, launch_of
from nsysconv.notes import Note, Severity
from nsysconv.store.recording import ProfileAttributes

# Dumps join variables by NUL, spaces, commas or line breaks, depending on their age.
_BORDER = r"[\0\s,;\"'\\]"
_VARIABLE = re.compile(
    rf"(?:^|{_BORDER})({'|'.join(sorted(VARIABLES))})=\"?({VALUE})(?=$|{_BORDER})"
)

# What changes which events there are or what recording them costs, and the values each may have.
_SWITCH, _NUMBER = r"true|false", r"\d{1,12}"
_OPTIONS = {
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

# Messages that tell of missing or doubtful data. Only these shapes are ever copied.
_DIAGNOSTICS: tuple[tuple[re.Pattern[str], frozenset[Fact]], ...] = tuple(
    (re.compile(pattern), frozenset(facts))
    for pattern, facts in (
        (r"CUDA profiling might have not been started correctly\.", (Fact.KERNELS, Fact.API_CALLS)),
        (r"No CUDA events collected\. Does the process use CUDA\?", (Fact.KERNELS, Fact.API_CALLS)),
        (r"Not all CUDA events might have been collected\.", (Fact.KERNELS, Fact.API_CALLS)),
        (r"Not all NVTX events might have been collected\.", (Fact.RANGES,)),
        (
            r"Installed CUDA driver version \([\d.]+\) is not supported by this build of "
            r"Nsight Systems\. CUDA trace will be collected using libraries for driver version [\d.]+",
            (Fact.KERNELS, Fact.API_CALLS),
        ),
        (
            r"(?:CUDA device \d+: )?Unified Memory cannot be traced"
            r"(?: on devices that don't support peer-to-peer transfers\."
            r"(?: ?Please verify that SLI/NVLink is functioning properly\.)?)?",
            (Fact.UNIFIED_MEMORY,),
        ),
        (r"\d+ CUDA events? (?:was|were) (?:dropped|lost)\.?", (Fact.KERNELS, Fact.API_CALLS)),
    )
)


@dataclass(frozen=True)
class Capture:
    """What the export says of the capture: attributes of the profile and switches of the importer."""

    attributes: ProfileAttributes
    cuda_traced: bool
    times_are_utc: bool
    launch: Launch
    """What the launched program's environment told."""
    options: Mapping[str, str]
    """How it was recorded, by nsys's own words."""


def read_capture(probe: Probe) -> Capture:
    """The allow-listed facts of a file."""
    export = _values(probe, ("META_DATA_EXPORT", "EXPORT_META_DATA"))
    capture = _values(probe, ("META_DATA_CAPTURE",))
    system = _values(probe, ("TARGET_INFO_SYSTEM_ENV",))
    attributes = ProfileAttributes(
        tool_version=_first(export, "EXPORT_PRODUCT_VERSION", r"[\d.]{1,40}")
        or _version_of_install(system),
        format_version=_first(export, "EXPORT_SCHEMA_VERSION", r"[\d.]{1,40}"),
        zero_utc_ns=_one_integer(probe, "TARGET_INFO_SESSION_START_TIME", "utcEpochNs"),
        recording_ns=_one_integer(probe, "ANALYSIS_DETAILS", "duration"),
        driver_version=_first(system, "NvDriverVersion", r"[\d.]{1,40}"),
        host=_first(system, "Hostname", r"[\w.-]{1,255}"),
        graph_mode=(_option(capture, "CUDA_GRAPH_TRACE_OPTIONS:MODE", r"\w{1,20}") or "").lower()
        or None,
    )
    return Capture(
        attributes,
        cuda_traced="Cuda" in capture.get("CAPTURE_EVENT_TYPE", ()) and not _tracing_failed(probe),
        times_are_utc=_first(export, "EXPORT_PARAM_TIME_NORMALIZE", "true") == "true",
        launch=launch_of(_environment(capture, system)),
        options={name: value for name, value in _options(capture) if value is not None},
    )


def _options(capture: Mapping[str, list[str]]) -> Iterator[tuple[str, str | None]]:
    for name, shape in _OPTIONS.items():
        yield name, _option(capture, name, shape)


def _option(capture: Mapping[str, list[str]], name: str, shape: str) -> str | None:
    """An option of the capture; where only its process has it, that of the process."""
    return _first(capture, name, shape) or _first(capture, f"PROCESS_0:{name}", shape)


def option_notes(capture: Capture) -> Iterator[Note]:
    """What the options were, for who compares two captures."""
    if capture.options:
        text = ", ".join(f"{name}={value}" for name, value in capture.options.items())
        # No table is made of them: hardly one is to show the note.
        facts = frozenset({Fact.UTC})
        yield Note("capture-options", Severity.INFO, text, where="META_DATA_CAPTURE", facts=facts)


def _tracing_failed(probe: Probe) -> bool:
    """Whether the profiler says that it could not trace CUDA: then none is not zero."""
    if not has(probe, "DIAGNOSTIC_EVENT", "text"):
        return False
    sql = (
        "SELECT EXISTS (SELECT 1 FROM DIAGNOSTIC_EVENT "
        "WHERE text LIKE 'CUDA profiling might have not been started%')"
    )
    return bool(probe.select(sql)[0][0])


def mpi_ranks(probe: Probe) -> dict[int, int]:
    """pid -> rank as the MPI trace recorded it: a table, before 2022.4 the name of a thread."""
    if has(probe, "MPI_RANKS", "globalTid", "rank"):
        rows = probe.select("SELECT globalTid, rank FROM MPI_RANKS")
        return {
            global_tid >> 24 & 0xFFFFFF: rank
            for global_tid, rank in rows
            if isinstance(global_tid, int) and isinstance(rank, int)
        }
    if not has(probe, "ThreadNames", "globalTid", "nameId"):
        return {}
    rows = probe.select(
        "SELECT t.globalTid, s.value FROM ThreadNames t "
        "JOIN StringIds s ON s.id = t.nameId WHERE s.value GLOB 'MPI Rank [0-9]*'"
    )
    return {
        global_tid >> 24 & 0xFFFFFF: int(name.removeprefix("MPI Rank "))
        for global_tid, name in rows
        if isinstance(global_tid, int) and re.fullmatch(r"MPI Rank \d{1,9}", name)
    }


def ranks_by_process(
    probe: Probe, capture: Capture, pids: set[int], working: set[int]
) -> tuple[dict[int, dict[str, int]], list[Note]]:
    """pid -> rank, local_rank, world_size, and notes where two statements disagree.

    The launcher's environment speaks for a process only where a single one is at work.
    """
    ranks = {pid: {"rank": rank} for pid, rank in mpi_ranks(probe).items() if pid in pids}
    notes = []
    alone, launch = working or pids, capture.launch
    if len(alone) == 1 and launch.rank is not None:
        pid = next(iter(alone))
        told = ranks.get(pid, {})
        if told.get("rank", launch.rank) != launch.rank:
            text = f"MPI says rank {told['rank']}, the environment {launch.rank}; MPI's was kept"
            notes.append(Note("rank-clash", Severity.INFO, text))
        own = {
            "rank": launch.rank,
            "local_rank": launch.local_rank,
            "world_size": launch.world_size,
        }
        ranks[pid] = {
            **{word: number for word, number in own.items() if number is not None},
            **told,
        }
    return ranks, notes


def diagnostics(probe: Probe) -> Iterator[Note]:
    """Notes from the profiler's own messages, known shapes only."""
    if not has(probe, "DIAGNOSTIC_EVENT", "text", "severity"):
        return
    counts: dict[str, tuple[int, frozenset[Fact]]] = {}
    for (text,) in probe.select("SELECT text FROM DIAGNOSTIC_EVENT WHERE severity IN (2, 3)"):
        for pattern, facts in _DIAGNOSTICS:
            match = pattern.match(text) if isinstance(text, str) else None
            if match:
                known = match.group(0)
                counts[known] = (counts.get(known, (0, facts))[0] + 1, facts)
    for text, (count, facts) in counts.items():
        yield Note(
            "profiler-diagnostic",
            Severity.INFO,
            f"the profiler says: {text}",
            count,
            "DIAGNOSTIC_EVENT",
            facts,
        )


def _values(probe: Probe, names: Iterable[str]) -> dict[str, list[str]]:
    """name -> values (names repeat) of the first of these tables that exists."""
    result: dict[str, list[str]] = {}
    for table in names:
        if has(probe, table, "name", "value"):
            for name, value in probe.select(f"SELECT name, value FROM {table}"):
                result.setdefault(str(name), []).append(str(value))
            break
    return result


def _first(values: Mapping[str, list[str]], name: str, shape: str) -> str | None:
    """The first value of this name that has the expected shape; anything else is not what we look for."""
    return next((v for v in values.get(name, ()) if re.fullmatch(shape, v)), None)


def _version_of_install(system: Mapping[str, list[str]]) -> str | None:
    for folder in system.get("TargetInstallDir", ()):
        match = re.search(r"nsight-systems[a-z-]*/(\d{4}\.\d+(?:\.\d+)*)", folder)
        if match:
            return match.group(1)
    return None


def _one_integer(probe: Probe, table: str, column: str) -> int | None:
    if not has(probe, table, column):
        return None
    rows = probe.select(f"SELECT {column} FROM {table} LIMIT 1")
    return rows[0][0] if rows and isinstance(rows[0][0], int) else None


def _environment(*sources: Mapping[str, list[str]]) -> dict[str, str]:
    """The allow-listed variables of the dumps; of several values the first."""
    variables: dict[str, str] = {}
    for values in sources:
        for name, texts in values.items():
            if name.endswith("ENVIRONMENT_VARIABLE") or name == "DeviceEnvironment":
                for text in texts:
                    for variable, value in _VARIABLE.findall(text):
                        variables.setdefault(variable, value)
    return variables


_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True)
class Clock:
    """`zero` is subtracted from every time; `zero_utc_ns` is the time of day of the result's zero."""

    zero: int
    zero_utc_ns: int | None
    recording_ns: int | None
    notes: tuple[Note, ...] = ()


def read_clock(probe: Probe, sources: Sequence[str], capture: Capture) -> Clock:
    """The clock of a file.

    Event times count from the session's start, unless the export was made with --ts-normalize: then
    they are times of day, larger than any recording is long. What is read on request has no say where
    there is more: a recording begins and ends whatever of it is asked for.
    """
    others = [source for source in sources if source not in tables.ON_REQUEST]
    if any(probe.select(f"SELECT EXISTS (SELECT 1 FROM {source})")[0][0] for source in others):
        sources = others
    told = capture.attributes
    first = None
    if capture.times_are_utc or _has_huge_times(probe, sources):
        first = _extreme(probe, sources, _first_huge)
    if first is None:
        recording = told.recording_ns
        if recording is None:
            recording = _last_end(probe, sources, 0)
        return Clock(0, told.zero_utc_ns, recording)
    zero = first // _NANOSECONDS * _NANOSECONDS
    note = Note(
        "time-shifted",
        Severity.INFO,
        "times of day; shown from the whole second before the first event",
    )
    return Clock(zero, zero, _last_end(probe, sources, zero), (note,))


def _last_end(probe: Probe, sources: Sequence[str], zero: int) -> int | None:
    last = _extreme(probe, sources, _last)
    return last - zero if last is not None and last - zero <= TIME_LIMIT else None


def _first_huge(time: str) -> tuple[str, str, str]:
    return time, f"min({time})", f"typeof({time}) = 'integer' AND {time} > {TIME_LIMIT}"


def _last(time: str) -> tuple[str, str, str]:
    end = "end" if time == "start" else time
    return end, f"max({end})", f"typeof({end}) = 'integer'"


def _extreme(
    probe: Probe, sources: Sequence[str], what: Callable[[str], tuple[str, str, str]]
) -> int | None:
    """The smallest or largest value of all event rows.

    `what`: for the name of a table's times a column, what to take of it, and of which rows.
    """
    found = []
    for source in sources:
        columns = probe.tables[source].columns
        column, value, where = what(tables.TIMES[source])
        if column in columns:
            if source == tables.NVTX and "eventType" in columns:
                kinds = ", ".join(map(str, tables.RANGE_KINDS))
                where += f" AND eventType IN ({kinds})"  # domains are created before time begins
            found += probe.select(f"SELECT {value} FROM {source} WHERE {where}")
    known: list[int] = [row[0] for row in found if row[0] is not None]
    if not known:
        return None
    return min(known) if what is _first_huge else max(known)


def _has_huge_times(probe: Probe, sources: Sequence[str]) -> bool:
    """Whether the first row of every event table is a time of day (one damaged cell is not)."""
    firsts = []
    for source in sources:
        time = tables.TIMES[source]
        if time in probe.tables[source].columns:
            firsts += probe.select(f"SELECT {time} FROM {source} LIMIT 1")
    numbers = [row[0] for row in firsts if isinstance(row[0], int)]
    return bool(numbers) and all(number > TIME_LIMIT for number in numbers)
