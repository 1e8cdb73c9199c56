"""Random workloads in random units: nothing is further off than nvprof's spelling makes it.

A figure may be off by half of one unit in the last place of its cell, and by half of one for being whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from conftest import event_rows, examples
from hypothesis import Phase, given
from hypothesis import strategies as st
from importing import read, slugs, totals_of
from machine import a100
from nvprof_spelling import (
    MEMORY,
    RATES,
    SIZES,
    TIMES,
    TOTAL,
    SummaryUnits,
    Units,
    decimal,
    size,
    suffixed,
    time,
)
from workload import (
    Direction,
    Events,
    Function,
    Kernel,
    Memcpy,
    MemoryKind,
    Migration,
    Process,
    Stream,
    Workload,
)
from write_nvprof_log import gpu_trace_csv, gpu_trace_text, summary_csv, summary_text, write_log

from nsysconv import api
from nsysconv.store.read import Examination


@pytest.fixture(autouse=True, scope="module")
def believed() -> Iterator[None]:
    """Operations of one stream overlap here, which those of a program do not."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nsysconv.api.profile_file.examine", lambda profile: Examination())
        patch.setattr(
            "nsysconv.timeline.timeline.examine_at_hand", lambda profile, along=False: Examination()
        )
        yield


GPU = a100(0)
PROCESS = Process(77, "random", (GPU,))
STREAMS = (Stream(PROCESS, 0, 1, 7, "null"), Stream(PROCESS, 0, 1, 13, "blocking"))
# Shrinking imports thousands of files.
FAST = (Phase.explicit, Phase.generate)
# Names with what CSV quotes, with what separates columns of text, and with what looks like a number.
NAMES = ("saxpy", 'void <unnamed>::k<int=1, bool=0>(float*, "x")', "f(a,  b)", "12.5ms", "a [b] c")
_UNIT = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000} | SIZES
WAYS: tuple[Direction, ...] = ("HtoD", "DtoH", "DtoD")
PLACES: tuple[MemoryKind, ...] = ("pageable", "pinned", "device", "managed")

starts = st.integers(0, 20_000_000_000)
durations = st.one_of(st.integers(0, 2_000), st.integers(0, 3_000_000_000))
sizes = st.one_of(st.integers(0, 5_000), st.integers(0, 1 << 36))
shared = st.integers(0, 164 * 1024)
numbers = st.sampled_from((0, 1, 105, 4_000_000_000))
kernels = st.builds(
    lambda start, dur, name, static, dynamic, stream, number: Kernel(
        stream, number, Function(name, name, name, name), start, start + dur, (3, 2, 1), (32, 4, 1),
        17, static, dynamic),
    starts, durations, st.sampled_from(NAMES), shared, shared, st.sampled_from(STREAMS), numbers,
)  # fmt: skip
# No GPU that nvprof knows moves more than 1000 bytes in a ns; where no time passed, it prints no rate.
copies = st.builds(
    lambda start, dur, count, way, places, stream: Memcpy(
        stream, 9, way, places[0], places[1], min(count, 1_000 * dur or 5_000), start, start + dur),
    starts, durations, sizes, st.sampled_from(WAYS),
    st.tuples(st.sampled_from(PLACES), st.sampled_from(PLACES)), st.sampled_from(STREAMS),
)  # fmt: skip
units = st.builds(
    Units, st.sampled_from(list(TIMES)), st.sampled_from(list(TIMES)),
    st.sampled_from(("B", "KB")), st.sampled_from(("B", "KB")), st.sampled_from(list(SIZES)),
    st.sampled_from(list(RATES)),
)  # fmt: skip


@dataclass(frozen=True)
class Form:
    """How a trace is written: `units` of CSV, or None for text."""

    units: Units | None
    correlation: bool

    def text(self, workload: Workload) -> str:
        if self.units is None:
            return gpu_trace_text(workload, PROCESS, kinds=self.correlation, product="Tesla T4")
        return gpu_trace_csv(workload, PROCESS, self.units, correlation=self.correlation)

    def slack(self, column: str, value: int) -> Fraction:
        """How far a figure may be from the value that was written."""
        if self.units is None:
            spell: Callable[[int], str] = time if column.endswith("_ns") else size
            return _half(spell(value))
        words = {"start_ns": self.units.start, "dur_ns": self.units.duration,
                 "static_shared_bytes": self.units.static_shared,
                 "dynamic_shared_bytes": self.units.dynamic_shared}  # fmt: skip
        word = words.get(column, self.units.size)
        return _half(decimal(value, _UNIT[word]) + word)


def _half(cell: str) -> Fraction:
    """Half of one unit in the last place, in ns or bytes; none where every integer has its own cell."""
    digits = cell.rstrip("BGKMmnsu")
    exponent = Decimal(digits).as_tuple().exponent
    assert isinstance(exponent, int)
    half = Fraction(10) ** exponent * _UNIT[cell[len(digits) :]] / 2
    return half if half > Fraction(1, 2) else Fraction(0)


forms = st.builds(Form, st.one_of(st.none(), units), st.booleans())


def _workload(events: Events) -> Workload:
    return Workload("random", "random", 30_000_000_000, (GPU,), (PROCESS,), (), STREAMS, events)


def _near(found: int, wanted: int, slack: Fraction) -> bool:
    return abs(found - wanted) <= (slack + Fraction(1, 2) if slack else 0)


def _times(form: Form, row: dict[str, Any], op: Kernel | Memcpy) -> None:
    dur = op.end_ns - op.start_ns
    slack = {"start_ns": form.slack("start_ns", op.start_ns), "dur_ns": form.slack("dur_ns", dur)}
    if row["start_ns"] is None:
        # Both are 0 as they are spelled, which stands for no time.
        assert op.start_ns <= slack["start_ns"]
        assert dur <= slack["dur_ns"]
        return
    assert _near(row["start_ns"], op.start_ns, slack["start_ns"])
    assert _near(row["dur_ns"], dur, slack["dur_ns"])


@examples(150, phases=FAST)
@given(st.lists(kernels, max_size=4), st.lists(copies, max_size=4), forms)
def test_no_row_is_further_off_than_its_spelling(
    some: list[Kernel], moved: list[Memcpy], form: Form
) -> None:
    if not some and not moved:
        return
    workload = _workload(Events(kernels=tuple(some), memcpys=tuple(moved)))
    with read(form.text(workload)) as profile:
        found = event_rows(profile, "kernel")
        for row, kernel in zip(found, _in_order(some), strict=True):
            _times(form, row, kernel)
            assert (row["name"], row["stream_id"], row["device_id"], row["pid"]) == (
                kernel.function.demangled, kernel.stream.stream_id, 0, 77)  # fmt: skip
            assert row["correlation_id"] == (kernel.correlation_id or None)
            assert (row["grid_x"], row["block_y"], row["registers_per_thread"]) == (3, 4, 17)
            for column in ("static_shared_bytes", "dynamic_shared_bytes"):
                wanted = getattr(kernel, column)
                assert _near(row[column], wanted, form.slack(column, wanted))
        exact = "rounded-bytes" not in slugs(profile)
        for row, copy in zip(event_rows(profile, "memcpy"), _in_order(moved), strict=True):
            _times(form, row, copy)
            slack = Fraction(0) if exact else form.slack("bytes", copy.bytes)
            assert _near(row["bytes"], copy.bytes, slack)
            assert row["direction"] == copy.direction
            if form.correlation:
                assert (row["src_kind"], row["dst_kind"]) == (
                    MEMORY[copy.src_kind], MEMORY[copy.dst_kind])  # fmt: skip
        ops: list[Kernel | Memcpy] = [*some, *moved]
        rounded = any(
            form.slack(column, value) > 0
            for op in ops
            for column, value in (("start_ns", op.start_ns), ("dur_ns", op.end_ns - op.start_ns))
        )
        assert ("rounded-times" in slugs(profile)) == rounded


def _in_order(ops: list[Any]) -> list[Any]:
    return sorted(ops, key=lambda op: op.start_ns)


def _union(ops: list[Kernel]) -> int:
    total = reached = 0
    for op in _in_order(ops):
        total += max(0, op.end_ns - max(reached, op.start_ns))
        reached = max(reached, op.end_ns)
    return total


@examples(60, phases=FAST)
@given(st.lists(kernels, min_size=1, max_size=8), forms)
def test_sums_are_no_further_off_than_their_parts(some: list[Kernel], form: Form) -> None:
    """Each end of an operation moves by no more than its start and its duration together."""
    # Operations without a time are in no report.
    some = [op for op in some if op.start_ns > 1_000]
    if not some:
        return
    with TemporaryDirectory() as folder:
        path = Path(folder) / "trace.log"
        write_log(path, form.text(_workload(Events(kernels=tuple(some)))))
        with api.open(path) as opened:
            (row,) = opened.report("overview").rows()
    by_start = sum((form.slack("start_ns", op.start_ns) for op in some), Fraction(0))
    by_dur = sum((form.slack("dur_ns", op.end_ns - op.start_ns) for op in some), Fraction(0))
    each = Fraction(len(some))
    assert row["kernel_count"] == len(some)
    whole = sum(op.end_ns - op.start_ns for op in some)
    assert abs(row["kernel_sum_ns"] - whole) <= by_dur + each / 2
    # Half a ns of each figure where it is rounded to a whole one.
    slack = 2 * by_start + by_dur + (each * 3 / 2 if by_start or by_dur else 0)
    assert abs(row["busy_ns"] - _union(some)) <= slack
    assert abs(row["kernel_union_ns"] - _union(some)) <= slack


# -- totals

summary_units = st.one_of(
    st.none(),
    st.builds(SummaryUnits, *(st.sampled_from(list(TIMES)) for _ in range(4))),
)


@examples(80, phases=FAST)
@given(st.lists(kernels, min_size=1, max_size=6), summary_units, st.booleans(), st.booleans())
def test_no_total_is_further_off_than_its_spelling(
    some: list[Kernel], asked: SummaryUnits | None, text: bool, types: bool
) -> None:
    """Sums of text have five digits, of CSV six decimals; counts are exact."""
    workload = _workload(Events(kernels=tuple(some)))
    written = summary_text(workload, PROCESS, types=types)
    if not text:
        written = summary_csv(workload, PROCESS, asked, types=types)
    with read(written) as profile:
        rows = {row["name"]: row for row in totals_of(profile)}
    names = {kernel.function.demangled for kernel in some}
    assert rows.keys() == names
    units = asked or SummaryUnits(*("s" for _ in range(4)))
    for name in names:
        durs = [op.end_ns - op.start_ns for op in some if op.function.demangled == name]
        row = rows[name]
        assert row["count"] == len(durs)
        for column, value, unit in (("sum_ns", sum(durs), units.time),
                                    ("min_ns", min(durs), units.min),
                                    ("max_ns", max(durs), units.max)):  # fmt: skip
            cell = time(value) if text else decimal(value, TIMES[unit]) + unit
            assert _near(row[column], value, _half(cell)), column


migrations = st.builds(
    lambda count, dur, way: Migration(PROCESS, 0, way, count, 5, 5 + dur, "prefetch", 0x7F00_0000),
    st.integers(1, 1 << 22).map(lambda pages: pages * 4096), durations, st.sampled_from(WAYS),
)  # fmt: skip


@examples(100, phases=FAST)
@given(st.lists(migrations, min_size=1, max_size=5), st.booleans())
def test_no_total_of_migrations_is_further_off(some: list[Migration], text: bool) -> None:
    """Their sums have eight digits in text, six decimals in CSV."""
    workload = _workload(Events(migrations=tuple(some)))
    with read((summary_text if text else summary_csv)(workload, PROCESS)) as profile:
        rows = {row["direction"]: row for row in totals_of(profile)}
    assert rows.keys() == {item.direction for item in some}
    for way, row in rows.items():
        own = [item for item in some if item.direction == way]
        moved = [item.bytes for item in own]
        assert row["count"] == len(own)
        for column, value, width in (("bytes_sum", sum(moved), TOTAL), ("bytes_min", min(moved), 8),
                                     ("bytes_max", max(moved), 8)):  # fmt: skip
            cell = size(value, width) if text else suffixed(value, SIZES)
            assert _near(row[column], value, _half(cell)), column
        whole = sum(item.end_ns - item.start_ns for item in own)
        cell = time(whole, TOTAL) if text else suffixed(whole, TIMES)
        assert _near(row["sum_ns"], whole, _half(cell))
