"""Makes rows of launches: a kernel without times for each, and a row for each of its metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from nsysconv import codes, schema
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers.contract import NO_GPU_WORK
from nsysconv.importers.ncu import ADVICE, MAGIC
from nsysconv.importers.ncu.launches import ATTRIBUTE, Launch
from nsysconv.importers.ncu.pages import Table
from nsysconv.importers.ncu.report import blocks_of, launches_of
from nsysconv.importers.printed.registry import IdRegistry, Row
from nsysconv.importers.printed.text import refuse_quotations, truncation_note, utf8_files
from nsysconv.importers.probe import Probe
from nsysconv.names import demangler
from nsysconv.notes import Note, Severity
from nsysconv.store.recording import Batch, Batches, ProfileAttributes, Summary, rows_of

_ROWS_AT_ONCE = 50_000
_DEVICE = "launch__device_id"
_OF_GPU = {"context_id": "launch__context_id", "stream_id": "launch__stream_id"}
# Columns of a kernel, and the metric that has each.
_SIZES = {
    f"{what}_{axis}": f"launch__{what}_dim_{axis}" for what in ("grid", "block") for axis in "xyz"
}
_OF_KERNEL = {
    **_SIZES,
    "registers_per_thread": "launch__registers_per_thread",
    "static_shared_bytes": "launch__shared_mem_per_block_static",
    "dynamic_shared_bytes": "launch__shared_mem_per_block_dynamic",
}
_ONLY_COLUMNS = frozenset({_DEVICE, *_OF_GPU.values(), *_SIZES.values()})
# Columns of a device, the attribute that has each, and how often it counts.
_OF_DEVICE = {
    "sm_count": ("multiprocessor_count", 1), "compute_major": ("compute_capability_major", 1),
    "compute_minor": ("compute_capability_minor", 1), "memory_bytes": ("total_memory", 1),
    "max_warps_per_sm": ("max_warps_per_multiprocessor", 1),
    "max_blocks_per_sm": ("max_blocks_per_multiprocessor", 1),
    "max_registers_per_sm": ("max_registers_per_multiprocessor", 1),
    "max_shared_bytes_per_sm": ("max_shared_memory_per_multiprocessor", 1),
    "max_threads_per_sm": ("max_threads_per_multiprocessor", 1), "threads_per_warp": ("warp_size", 1),
    "sm_clock_hz": ("clock_rate", 1000), "memory_clock_hz": ("memory_clock_rate", 1000),
}  # fmt: skip
_METRICS, _KERNELS = frozenset({Fact.METRICS}), frozenset({Fact.KERNELS})
# What is counted, and the note on it.
_NOTES = {
    "unread": ("launches-unread", Severity.DROPPED,
               "launches that NVIDIA's ncu_report could not read were left out"),
    "unreadable": ("cell-unreadable", Severity.DROPPED,
                   "values of metrics that are not numbers, or times without a unit"),
    "range": ("metrics-of-ranges", Severity.INFO,
              "ranges or graphs of several kernels were measured as one: their metrics name no kernel"),
    "text": ("texts-left-out", Severity.INFO,
             "texts, advice of rules, and metrics of single instructions alone were left out"),
}  # fmt: skip


class LaunchRows:
    """The rows of one file, and what its notes are about."""

    def __init__(self, probe: Probe) -> None:
        """Start without rows."""
        self._probe = probe
        self._ids = IdRegistry(demangler())
        self._kernels: list[Row] = []
        self._samples: list[Row] = []
        self._launches: list[Row] = []
        self._devices: dict[int, Row] = {}
        self._counts: Counter[str] = Counter()
        self._step_ns = 0.0
        self._notes = list(probe.notes)

    def batches(self) -> Batches:
        """Yield all rows; return the summary. Raises InputError for a file without readable launches."""
        is_report = self._probe.head.startswith(MAGIC)
        for launch in self._of_report() if is_report else self._of_table():
            self._add(launch)
            if len(self._samples) >= _ROWS_AT_ONCE:
                yield from self._flush()
        yield from self._flush()
        yield from self._ids.rows()
        yield rows_of(schema.device, [self._devices[i] for i in sorted(self._devices)])
        self._notes += self._closing_notes()
        facts = {Fact.METRICS} | ({Fact.KERNELS} if self._counts["kernel"] else set())
        facts |= {Fact.DEVICES for row in self._devices.values() if row.get("sm_count")}
        notes, pids = tuple(self._notes), frozenset(self._ids.pids)
        return Summary(ProfileAttributes(), frozenset(facts), ADVICE, notes, gpu_pids=pids)

    def _of_report(self) -> Iterator[Launch]:
        path, origin = self._probe.readable, self._probe.origin
        pids, cut_at = blocks_of(path, origin)
        for launch in launches_of(path, origin, pids, is_cut=cut_at is not None):
            if launch is not None:
                yield launch
            self._counts["unread"] += launch is None
        if cut_at is not None:
            if not self._counts["launch"]:
                what = f"the Nsight Compute report is cut off at byte {self._probe.size:,}"
                raise InputError(what, where=str(origin), hint="Copy the report again.")
            text, where = "the file ends within a block of the report", f"byte {cut_at:,}"
            self._notes.append(Note("trace-truncated", Severity.DROPPED, text, 1, where))

    def _of_table(self) -> Iterator[Launch]:
        with utf8_files([self._probe]) as (path,):
            table = Table(path)
            yield from table.launches()
        if not table.rows:
            what = "the Nsight Compute table has no row that can be read"
            hint = "Print the report again: ncu --import FILE --csv"
            raise InputError(what, where=str(self._probe.origin), hint=hint)
        refuse_quotations([self._probe], table.rows)
        if table.cut_line:
            self._notes.append(truncation_note(table.cut_line))
        self._notes += table.rejected.notes(None)
        if (count := table.decimals.ambiguous) and not table.decimals.point:
            text = "numbers such as 1,234 were read as English has them: no other shows the locale"
            note = Note("number-ambiguous", Severity.APPROXIMATED, text, count, facts=_METRICS)
            self._notes.append(note)

    # -- rows

    def _add(self, launch: Launch) -> None:
        self._counts.update(launch.counts, launch=1, range=not launch.is_kernel)
        name, symbol = self._ids.kernel(launch.kernel)
        where = {"pid": launch.pid, "device_id": self._device(launch)}
        where |= {column: launch.number(metric) for column, metric in _OF_GPU.items()}
        if launch.pid is not None:
            self._ids.pids.add(launch.pid)
            context, stream = where["context_id"], where["stream_id"]
            if context is not None and stream is not None:
                self._ids.stream(context, stream)
        number = self._counts["launch"] if launch.is_kernel else None
        if launch.is_kernel:
            names = {"name_id": name, "mangled_name_id": self._name(launch.symbol) or symbol}
            sizes = {column: launch.number(metric) for column, metric in _OF_KERNEL.items()}
            self._launches.append({
                "id": number, "pid": launch.pid, **names,
                **{column: sizes[column] for column in _SIZES}, "launch_count": launch.invocations,
            })  # fmt: skip
            if launch.invocations is None:
                self._counts["kernel"] += 1
                self._step_ns = max(self._step_ns, launch.step_ns)
                short = {"short_name_id": self._name(launch.short)}
                self._kernels.append({**where, **names, **short, **sizes})
        for metric, (unit, spelled, average, least, most) in launch.metrics.items():
            if metric.startswith(ATTRIBUTE) or metric in _ONLY_COLUMNS:
                continue
            self._samples.append({
                **where, "name_id": self._ids.name(metric), "kind": 0,
                "unit": codes.METRIC_UNITS.index(unit),
                "description_id": self._name(spelled) if unit == "number" else None,
                "kernel_name_id": name if launch.is_kernel else None, "launch_id": number,
                "execution_count": 1 if launch.invocations is None else launch.invocations,
                "value_min": least, "value_max": most, "value_avg": average,
            })  # fmt: skip

    def _name(self, text: str | None) -> int | None:
        return self._ids.name(text) if text else None

    def _device(self, launch: Launch) -> int:
        # Its id; what older tables print names no device.
        ordinal = launch.number(_DEVICE)
        found: dict[str, Any] = {"ordinal": ordinal, "name": launch.gpu}
        for column, (attribute, unit) in _OF_DEVICE.items():
            number = launch.number(f"{ATTRIBUTE}{attribute}")
            found[column] = None if number is None else number * unit
        row = self._devices.setdefault(ordinal or 0, {"device_id": ordinal or 0})
        row.update((column, value) for column, value in found.items() if value is not None)
        return ordinal or 0

    def _flush(self) -> Iterator[Batch]:
        made = {
            schema.kernel: self._kernels,
            schema.metric_sample: self._samples,
            schema.measured_launch: self._launches,
        }
        yield from (rows_of(table, rows) for table, rows in made.items() if rows)
        self._kernels, self._samples, self._launches = [], [], []

    def _closing_notes(self) -> Iterator[Note]:
        if not self._counts["launch"]:
            yield NO_GPU_WORK
        approximated, count = Severity.APPROXIMATED, self._counts["kernel"]
        if count:
            text = "kernels ran alone, and several times each: durations differ from the program's"
            yield Note("kernels-serialized", approximated, text, count, facts=_KERNELS | _METRICS)
        if self._step_ns > 1:
            text = f"durations of kernels are accurate to {self._step_ns:,.0f} ns or better"
            yield Note("rounded-times", approximated, text, self._counts["launch"], facts=_METRICS)
        for what, (slug, severity, text) in _NOTES.items():
            if self._counts[what]:
                yield Note(slug, severity, text, self._counts[what], facts=_METRICS)
