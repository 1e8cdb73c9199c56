"""What readers of AMD's event tables have in common: kernels' names, threads, devices, closing notes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nsysconv import codes, schema
from nsysconv.facts import Fact
from nsysconv.importers import rocm
from nsysconv.importers.contract import NO_GPU_WORK, lost_gpu_work
from nsysconv.importers.event_arrays import (
    Array,
    ArrayClock,
    EventRows,
    PlacedRows,
    Row,
    numbers,
    without,
)
from nsysconv.importers.printed.registry import IdRegistry
from nsysconv.importers.probe import Probe
from nsysconv.names import demangler
from nsysconv.notes import Note, Severity
from nsysconv.report import MISSING
from nsysconv.store.recording import (
    ArrayRows,
    ArrowRows,
    Batches,
    ProfileAttributes,
    Recording,
    Summary,
    rows_of,
)

_MARK = codes.RANGE_KINDS.index("mark")
_WORK = ("kernel", "memcpy", "memset")


class RocmReader(ABC):
    """Reads one file as one recording; an importer's own class adds `_batches`.

    `_counts` are rows by our table, and by words what the notes at the end count.
    """

    def __init__(self, probe: Probe, possible: frozenset[Fact], advice: Mapping[Fact, str]) -> None:
        """Start without rows; `possible` and `advice` are those of the importer."""
        self._probe = probe
        self._possible = possible
        self._advice = advice
        self._notes = list(probe.notes)
        self._ids = IdRegistry(demangler())
        self._counts: Counter[str] = Counter()
        self._devices: set[int] = set()
        self._gpu_pids: set[int] = set()
        self._kernels: Counter[str] = Counter()
        self._kernel_ids: dict[str, tuple[int, int | None]] = {}
        self._measured: dict[tuple[str, str], list[float]] = {}
        self._facts: set[Fact] = set()
        self._start_at(ArrayClock())

    def _start_at(self, clock: ArrayClock) -> None:
        self._clock = clock
        self._events = EventRows(clock.zero, _where_is)

    def recording(self) -> Recording:
        """Return the recording; its rows are read while `batches` is used up."""
        return Recording(self._batches(), possible=self._possible)

    @abstractmethod
    def _batches(self) -> Batches:
        """Yield the rows of the recording and return its summary."""

    def _counted(self, batches: Iterable[ArrayRows]) -> Iterator[ArrayRows]:
        # The fact of a table is held if it has rows.
        for batch in batches:
            self._counts[batch.table] += batch.count
            if batch.count:
                self._facts.add(schema.EVENT_TABLES[batch.table])
                yield batch

    @property
    def _has_work(self) -> bool:
        return any(self._counts[table] for table in _WORK)

    # -- columns

    def _threads(
        self, placed: PlacedRows, pids: Sequence[Any], tids: Sequence[Any]
    ) -> dict[str, Array]:
        pid = without(self._events.cells(placed, "pid", pids), 0)
        tid = self._events.cells(placed, "tid", tids)
        for process, thread in np.unique(np.stack([pid, tid]), axis=1).T.tolist():
            if process != MISSING and thread != MISSING:
                self._ids.thread(process, thread)
            elif process != MISSING:
                self._ids.pids.add(process)
        return {"pid": pid, "tid": tid}

    def _on_gpu(
        self, placed: PlacedRows, pids: Array, devices: Row, queues: Row
    ) -> dict[str, Array]:
        pid = without(pids, 0)
        device = numbers(devices)
        self._devices.update(np.unique(device[device != MISSING]).tolist())
        found = np.unique(pid[pid != MISSING]).tolist()
        self._gpu_pids.update(found)
        self._ids.pids.update(found)
        queue = self._events.cells(placed, "queue", queues)
        return {"pid": pid, "device_id": device, "stream_id": queue}

    def _kernel_names(self, texts: Sequence[Any], which: Array) -> dict[str, Array]:
        counts = Counter(text for text, own in zip(texts, which.tolist(), strict=True) if own)
        for text, count in counts.items():
            if not isinstance(text, str) or not text.strip():
                self._counts["nameless"] += count
                continue
            name = rocm.kernel_name(text.strip())
            self._kernels[name] += count
            if text not in self._kernel_ids:
                self._kernel_ids[text] = self._ids.kernel(name)
        ids = [self._kernel_ids.get(text, (MISSING, None)) for text in texts]
        return {
            "name_id": np.array([name for name, _ in ids], np.int64),
            "mangled_name_id": np.array([MISSING if s is None else s for _, s in ids], np.int64),
        }

    def _name_ids(
        self, placed: PlacedRows, texts: Sequence[Any], number: Callable[[str], int]
    ) -> Array:
        texts = [text if s else "" for text, s in zip(texts, placed.sound.tolist(), strict=True)]
        ids = {
            text: number(text) for text in dict.fromkeys(texts) if isinstance(text, str) and text
        }
        found = np.array([ids.get(text, MISSING) for text in texts], np.int64)
        self._counts["nameless"] += int((placed.sound & (found == MISSING)).sum())
        return found

    @staticmethod
    def _blocks(items: Array, block: Array) -> Array:
        # A grid is in work-items; its last block need not be full.
        is_known = (items >= 0) & (block > 0)
        blocks = -(-np.where(is_known, items, 0) // np.where(is_known, block, 1))
        return np.where(is_known, blocks, MISSING)

    @staticmethod
    def _range_columns(placed: PlacedRows) -> dict[str, Array]:
        # A range that takes no time is a mark.
        is_mark = placed.dur_ns == 0
        return {
            "dur_ns": np.where(is_mark, MISSING, placed.dur_ns),
            "kind": np.where(is_mark, _MARK, 0),
        }

    def _size_of_single_copies(self, which: Array, size: Array, copies: Array) -> Array:
        # A size is that of a call, which may have made several copies.
        alone = copies == 1
        self._counts["shared size"] += int((which & ~alone & (size != MISSING)).sum())
        return np.where(alone, size, MISSING)

    # -- counters

    def _measure(self, kernel: str, counter: str, value: float) -> None:
        # Adds the value of a counter in one execution of a kernel.
        sums = self._measured.setdefault((kernel, counter), [0, value, value, 0.0])
        sums[:] = (sums[0] + 1, min(sums[1], value), max(sums[2], value), sums[3] + value)

    def _metrics(self, kernel_id: Callable[[str], int | None]) -> Iterator[ArrowRows]:
        samples = [
            {
                "name_id": self._ids.name(counter),
                "kernel_name_id": kernel_id(kernel),
                "kind": codes.METRIC_KINDS.index("event"),
                "unit": codes.METRIC_UNITS.index("number"),
                "execution_count": int(count),
                "value_min": least,
                "value_max": most,
                "value_avg": total / count,
                "value_sum": total,
            }
            for (kernel, counter), (count, least, most, total) in self._measured.items()
            if math.isfinite(total)
        ]
        if samples:
            self._facts.add(Fact.METRICS)
            yield rows_of(schema.metric_sample, samples)

    # -- the end

    def _small_tables(self) -> Iterator[ArrowRows]:
        yield from self._ids.rows()
        # Totals name no device, and are of one at least.
        devices = sorted(self._devices) or [0] * bool(self._counts["totals"])
        unnamed = {"name": rocm.UNNAMED_GPU}
        rows = [{"device_id": i, **(self._described(i) or unnamed)} for i in devices]
        yield rows_of(schema.device, rows)

    def _described(self, device: int) -> Mapping[str, Any] | None:
        """Return what the file says of a GPU; None without a name."""
        return None

    def _summary(self, version: str | None = None) -> Summary:
        self._notes += [*self._events.notes(), *self._closing_notes()]
        return Summary(
            attributes=ProfileAttributes(
                format_version=version, recording_ns=self._clock.recording_ns
            ),
            facts=frozenset(self._facts),
            advice=self._advice,
            notes=tuple(self._notes),
            gpu_pids=frozenset(self._gpu_pids),
        )

    def _closing_notes(self) -> Iterator[Note]:
        if self._clock.recording_ns is not None:
            text = "times count from the start of the machine, not from a time of day"
            yield Note("no-time-base", Severity.INFO, text, facts=frozenset({Fact.UTC}))
        if not self._has_work and not self._counts["totals"]:
            call = self._ids.working_call()
            yield NO_GPU_WORK if call is None else lost_gpu_work(call)
        if note := rocm.copies_by_kernels_note(self._kernels, ""):
            yield note
        counts = (self._counts["shared size"], self._counts["nameless"], self._ids.symbols_only,
                  int(self._counts["range"] > 0))  # fmt: skip
        for (slug, text, facts), count in zip(_NOTES, counts, strict=True):
            if count:
                yield Note(slug, Severity.INFO, text, count, facts=frozenset(facts))


# What is counted, in the order of the counts.
_NOTES: tuple[tuple[str, str, set[Fact]], ...] = (
    ("copies-of-one-call", "copies of a call that made several: the size of each is not recorded",
     {Fact.MEMCPYS}),
    ("nameless-id", "kernels, calls and ranges without a name in the file", set()),
    ("symbols-only", "some kernels are shown by their symbols; install nsysconv[demangle] and import "
     "again with --replace to see their names", {Fact.KERNELS}),
    ("range-style-assumed", "roctx ranges are taken for pushed and popped: the file does not say which "
     "were", {Fact.RANGES}),
)  # fmt: skip


def _where_is(source: str, row: int) -> str:
    # A printed table has no name, and lines in place of rows.
    if row == MISSING:
        return source
    return f"{source} row {row}" if source else f"line {row}"
