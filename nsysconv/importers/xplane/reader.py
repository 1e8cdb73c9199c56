"""A profile of XLA's profiler as a recording: its planes by kind, and the profile as a whole."""

from __future__ import annotations

import gzip
import re
import shutil
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from nsysconv import schema
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers import rocm
from nsysconv.importers.contract import NO_GPU_WORK, Options, lost_gpu_work
from nsysconv.importers.probe import Probe
from nsysconv.importers.xplane import PYTHON_FUNCTIONS, details
from nsysconv.importers.xplane.events import EventDecoder
from nsysconv.importers.xplane.notes import Tally
from nsysconv.importers.xplane.planes import Line, Plane, Space, Value
from nsysconv.importers.xplane.rows import (
    GPU_NUMBERS,
    GPU_WORDS,
    HOST_NUMBERS,
    HOST_WORDS,
    RowMaker,
    Source,
    TableRows,
    Thread,
)
from nsysconv.names import called, plain_api_name
from nsysconv.notes import Note
from nsysconv.refusals import reason_of
from nsysconv.report import MISSING
from nsysconv.store.filesystem import private_folder
from nsysconv.store.recording import (
    ArrayRows,
    ArrowRows,
    Batches,
    ProfileAttributes,
    Summary,
    rows_of,
)

_GZIP = b"\x1f\x8b"
_GPU = re.compile(r"/device:GPU:(\d{1,4})")
_STREAM = re.compile(r"Stream #(\d{1,18})\b")
_HOST = ("/host:CPU", "/host:CUPTI", "/host:NVTX-CUPTI", "/host:ROCTRACER", "/host:python-tracer")
_NVTX, _METADATA, _ENVIRONMENT = "/host:NVTX-CUPTI", "/host:metadata", "Task Environment"
_SILENT = (_METADATA, "/host:__ScopeRangeCallStack__", _ENVIRONMENT)
_VERSION = re.compile(r"\w[\w.+-]{0,40}")
# A time of day; no session is as long.
_EPOCH_NS = 10**17
_GPU_FACTS = frozenset({Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS})


def batches(probe: Probe, options: Options, advice: Mapping[Fact, str]) -> Batches:
    """Yield the rows of a file. Raises InputError where it is damaged."""
    with ExitStack() as stack:
        path = probe.readable
        if probe.head.startswith(_GZIP):
            path = stack.enter_context(private_folder()) / "content"
            _unpack(probe, path)
        file = stack.enter_context(path.open("rb"))
        data = stack.enter_context(mmap(file.fileno(), 0, access=ACCESS_READ))
        space = Space(data, str(probe.origin))
        session = _Session(probe, space, PYTHON_FUNCTIONS in options.include)
        return (yield from session.batches(advice))


def _unpack(probe: Probe, target: Path) -> None:
    try:
        with gzip.open(probe.readable) as file, target.open("wb") as out:
            shutil.copyfileobj(file, out, 1 << 20)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(
            "the compressed data is damaged or cut off",
            where=str(probe.origin),
            hint="Copy it again; nothing was imported.",
        ) from None
    except OSError as error:
        raise InputError(
            f"it has to be unpacked into a temporary folder, and cannot be: {reason_of(error)}",
            where=str(probe.origin),
            hint="Name a folder with more room: TMPDIR=/path nsysconv …",
        ) from error


class _Session:
    # One session on its way to the store; all is complete when `batches` is used up.

    def __init__(self, probe: Probe, space: Space, python_functions: bool) -> None:
        self._probe, self._space = probe, space
        self._tally = Tally()
        self._rows = RowMaker(self._tally, python_functions)
        self._counts: Counter[str] = Counter()
        self._devices: dict[int, dict[str, Any]] = {}
        self._environment: Mapping[str, Value] = {}
        self._jax: Value = None
        self._refuse_others()
        sources = [self._source(plane) for plane in space.planes]
        self._sources = [source for source in sources if source is not None]
        utc = self._environment.get("profile_start_time")
        self._utc = utc if isinstance(utc, int) and utc > 0 else None
        starts = [line.start_ns for source in self._sources for line in source.lines]
        if max(starts, default=0) > _EPOCH_NS:
            # Hand-made files, and maybe very old ones, count from 1970.
            self._rows.zero_ns = self._utc or min(s for s in starts if s > _EPOCH_NS)
            self._utc = self._rows.zero_ns
        self._tally.add("messages", space.messages)

    # -- planes

    def _refuse_others(self) -> None:
        # An empty plane of an accelerator says nothing: those of GPUs are there for each visible one.
        names = [plane.name for plane in self._space.planes]
        if not any(_GPU.fullmatch(name) or name in _HOST for name in names):
            raise InputError(
                "an XLA profile without a plane of a GPU or of the host",
                where=self._space.where,
                hint="Record the work between jax.profiler.start_trace and stop_trace.",
            )
        others = [p.name for p in self._space.planes if p.lines and p.name.startswith("/device:")]
        if not any(map(_GPU.fullmatch, names)) and any("TPU" in name for name in others):
            raise InputError(
                "an XLA profile of TPUs, whose work nsysconv does not read",
                where=self._space.where,
                hint="Open it with XProf. nsysconv reads XLA profiles of GPUs and CPUs.",
            )

    def _source(self, plane: Plane) -> Source | None:
        space, gpu, is_host = self._space, _GPU.fullmatch(plane.name), plane.name in _HOST
        if not gpu and not is_host and plane.name not in _SILENT:
            if plane.lines:
                self._tally.add("planes", 1, f"byte {plane.lines[0][0]:,}")
            return None
        stat_names = space.stat_names(plane)
        stats = space.plane_stats(plane, stat_names)
        pid = stats.get("process_id")
        if isinstance(pid, int) and 0 < pid < 1 << 53:
            self._rows.pid = pid
        if plane.name == _ENVIRONMENT:
            self._environment = stats
        self._jax = stats.get("jax_version", self._jax)
        if not gpu and not is_host:
            return None
        names = space.names(plane, stat_names)
        lines = [space.line(span) for span in plane.lines]
        if gpu:
            decoder = EventDecoder(space, names, stat_names, GPU_NUMBERS, GPU_WORDS, ())
            device, vendor = int(gpu[1]), str(stats.get("device_vendor") or "")
            self._devices[device] = self._devices.get(device, {}) | _device_row(device, stats)
            return Source(names.texts, decoder, lines, device, vendor)
        decoder = EventDecoder(space, names, stat_names, HOST_NUMBERS, HOST_WORDS, details.MARKS)
        return Source(names.texts, decoder, lines, is_users=plane.name == _NVTX)

    # -- rows

    def batches(self, advice: Mapping[Fact, str]) -> Batches:
        for source in self._sources:
            for line in source.lines:
                for table, columns in self._line_rows(source, line):
                    self._counts[table] += len(columns["start_ns"])
                    yield ArrayRows(table, columns, f"{line.span[0] >> 20:,} MiB")
        yield from self._small_tables()
        return Summary(self._attributes(), self._facts(), advice, tuple(self._notes()))

    def _line_rows(self, source: Source, line: Line) -> TableRows:
        stream, windows = _STREAM.match(line.name), self._space.windows(line)
        if source.device != MISSING and stream is None:
            for window in windows:
                where = f"byte {window.at + int(window.events.start[0]):,}"
                self._tally.add("derived", len(window.events), where)
            return
        thread = Thread(is_users=line.name.startswith("python") or source.is_users)
        for window in windows:
            events = source.decoder.decode(window)
            if stream is not None and source.device != MISSING:
                yield from self._rows.of_stream(source, line, int(stream[1]), events)
            else:
                yield from self._rows.of_thread(source, line, events, thread)

    def _small_tables(self) -> Iterator[ArrowRows]:
        rows, pid = self._rows, {"pid": self._rows.pid}
        names = [{"id": i, "text": text} for text, i in rows.names.items()]
        for row in names:
            text = str(row["text"])
            row["plain"] = plain_api_name(text) if text in rows.api_names else None
        yield rows_of(schema.device, list(self._devices.values()))
        yield rows_of(schema.name, names)
        if rows.pid == MISSING:
            return  # these are of a process
        threads = [(i, name) for i, name in rows.threads.items() if i != MISSING]
        known = sorted(each for each in rows.streams if each[1] != MISSING)
        contexts = {context: device for device, context, _ in known}
        streams = sorted({(context, stream) for _, context, stream in known})
        for table, columns, found in (
            (schema.process, ("host",), [(self._host,)]),
            (schema.thread, ("tid", "name"), [(i, n.rpartition("/")[0] or n) for i, n in threads]),
            (schema.context, ("context_id", "device_id"), contexts.items()),
            (schema.stream, ("context_id", "stream_id"), streams),
        ):
            yield rows_of(table, [pid | dict(zip(columns, each, strict=True)) for each in found])

    # -- the profile as a whole

    @property
    def _host(self) -> str | None:
        return next(iter(self._space.hosts), "") or None

    def _attributes(self) -> ProfileAttributes:
        start, stop = (self._environment.get(f"profile_{each}_time") for each in ("start", "stop"))
        length = None
        if isinstance(start, int) and isinstance(stop, int):
            length = stop - start if 0 < stop - start <= schema.TIME_LIMIT_NS else None
        version = self._jax if isinstance(self._jax, str) else ""
        return ProfileAttributes(
            tool_version=f"jax {version}" if _VERSION.fullmatch(version) else None,
            zero_utc_ns=self._utc,
            recording_ns=length or self._rows.end_ns or None,
            host=self._host,
            step_range=self._rows.step_range,
        )

    @property
    def _has_gpu_rows(self) -> bool:
        return any(self._counts[table] for table in ("kernel", "memcpy", "memset"))

    def _facts(self) -> frozenset[Fact]:
        counts = self._counts
        facts = {fact for table, fact in schema.EVENT_TABLES.items() if counts[table]}
        if self._devices:
            facts |= _GPU_FACTS
            if any(source.vendor == "AMD" for source in self._sources) and not counts["memset"]:
                facts.remove(Fact.MEMSETS)
        if any(row.get("sm_count") or row.get("memory_bytes") for row in self._devices.values()):
            facts.add(Fact.DEVICES)
        if counts["api_call"] and self._has_gpu_rows:
            facts.add(Fact.API_LINKS)
        if any(source.device == MISSING and source.lines for source in self._sources):
            facts |= {Fact.THREADS, Fact.RANGES, Fact.OPERATORS}
        if self._rows.has_python:
            facts.add(Fact.PYTHON_FUNCTIONS)
        if self._utc is not None:
            facts.add(Fact.UTC)
        return frozenset(facts)

    def _notes(self) -> Iterator[Note]:
        yield from self._probe.notes
        yield from self._tally.notes()
        by_kernels = rocm.copies_by_kernels_note(self._rows.runtime_kernels, "")
        if by_kernels is not None:
            yield by_kernels
        if not self._has_gpu_rows:
            launches = called("kernel_launch", "graph_launch")
            launch = next(filter(launches, map(plain_api_name, self._rows.api_names)), None)
            yield NO_GPU_WORK if launch is None else lost_gpu_work(launch)


_DEVICE_COLUMNS = {"core_count": "sm_count", "memory_size": "memory_bytes",
                   "memory_bandwidth": "memory_bandwidth_bytes_per_s"}  # fmt: skip
_MOST_KHZ = 10_000_000
# Other vendors number these differently.
_CAPABILITY = {"compute_cap_major": "compute_major", "compute_cap_minor": "compute_minor"}


def _device_row(device: int, stats: Mapping[str, Value]) -> dict[str, Any]:
    columns, name = dict(_DEVICE_COLUMNS), stats.get("gpu_device_name")
    if stats.get("device_vendor") in (None, "Nvidia") and stats.get("compute_cap_major"):
        columns |= _CAPABILITY
    row: dict[str, Any] = {"device_id": device, "ordinal": device}
    for stat, column in columns.items():
        value = stats.get(stat)
        if isinstance(value, int) and value >= 0:
            row[column] = value or (0 if stat == "compute_cap_minor" else None)
    clock = stats.get("clock_rate")  # in kHz
    if isinstance(clock, int) and 0 < clock < _MOST_KHZ:
        row["sm_clock_hz"] = clock * 1000
    if not (isinstance(name, str) and name):
        name = rocm.UNNAMED_GPU if stats.get("device_vendor") == "AMD" else None
    return row | ({"name": name} if name else {})
