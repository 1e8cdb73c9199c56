"""Metrics and events in nvprof's databases: names, values, units and launches, with rows made by hand."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import nvprof_counters as made
import pytest
from conftest import FIXTURES
from importing import changed_copy
from test_importer_nvprof_database import PREFIX
from workload_rows import demangle

import nsysconv
from nsysconv.importers.nvprof_database import counters, reader

COUNTERS = FIXTURES / "nvprof_database" / "counters-12.nvvp"
# Launches in the order of their starts, by the made-up file: 1 and 4, 2, 3, 5, 8. The kernels of 6 and 7
# are those of 2 and 3; 6 has no correlation id.
SAXPY = "void <unnamed>::saxpy<float, (int)4>(int, T1, const T1 *, T1 *)"
REDUCE = "void reduce_sum<double>(const T1 *, T1 *, unsigned long)"
Row = dict[str, Any]


@pytest.fixture(autouse=True)
def known_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "demangler", lambda: demangle)


@pytest.fixture
def changed(tmp_path: Path) -> Callable[[str], Path]:
    """Gives a copy of the fixture on which SQL was run; K_ is the prefix of its tables."""
    return lambda sql: changed_copy(COUNTERS, tmp_path, sql.replace("K_", PREFIX))


Changed = Callable[[str], Path]


def measured(path: Path, kernel: str | None) -> dict[str, Row]:
    (report,) = nsysconv.report_on(path, "metrics")
    return {row["metric"]: row for row in report.rows() if row["kernel"] == kernel}


def notes_on(path: Path, report: str = "metrics") -> dict[str, int]:
    (found,) = nsysconv.report_on(path, report)
    return {note.slug: note.count for note in found.notes}


def values(row: Row) -> tuple[Any, ...]:
    names = ("kind", "unit", "sample_count", "value_avg", "value_min", "value_max")
    return tuple(row[name] for name in names)


def test_metrics_of_a_kernel_by_hand() -> None:
    """Launches 1 and 4: occupancy 1/16 and 4/16, and so on."""
    found = measured(COUNTERS, SAXPY)
    assert {name: values(row) for name, row in found.items()} == {
        "achieved_occupancy": ("metric", "number", 2, 0.15625, 0.0625, 0.25),
        "issue_slot_utilization": ("metric", "%", 2, 25, 10, 40),
        "dram_utilization": ("metric", "level", 2, 2.5, 1, 4),
        "single_precision_fu_utilization": ("metric", "level", 2, 1, 1, 1),
        "gld_throughput": ("metric", "bytes/s", 2, 2.5 * 2**30, 2**30, 4 * 2**30),
        "gld_transactions": ("metric", "number", 2, 2500, 1000, 4000),
        "stall_memory_dependency": ("metric", "%", 2, 25.5, 25.5, 25.5),
        "[metric 999]": ("metric", None, 2, 0.5, 0.5, 0.5),
        "warps_launched": ("event", "number", 2, 250, 100, 400),
        # The counter overflowed in launch 1.
        "active_cycles": ("event", "number", 2, 7, 7, 7),
    }
    assert {row["device_id"] for row in found.values()} == {0}


def test_what_limits_kernels_by_hand() -> None:
    """Levels of 10 are 100 %: launch 8 uses DRAM at 80 % as it issues; launches 1 and 4 are at 25 %."""
    (report,) = nsysconv.report_on(COUNTERS, "kernel_limits")
    names = ("limit", "compute_pct", "memory_pct", "memory_metric", "achieved_occupancy_pct",
             "stall_reason", "stall_pct", "kernel_count")  # fmt: skip
    found = {row["name"]: tuple(row[name] for name in names) for row in report.rows()}
    dram, stall = "dram_utilization", ("memory dependency", 25.5)
    assert found[SAXPY] == ("latency", 25, 25, dram, 15.625, *stall, 2)
    assert found["stencil"] == ("latency", 50, 50, dram, 31.25, *stall, 2)
    assert found["triton_poi_fused_add_0"] == ("compute", 80, 80, dram, 50, *stall, 1)
    # Launch 6, which nothing links to its kernel, is not among these: 2 of 16 warps.
    assert found[REDUCE] == ("latency", 20, 20, dram, 12.5, *stall, 2)


def test_what_is_missing_is_said() -> None:
    """An overflow in launch 2, another of an event; no value in launch 3; launch 6 has no kernel."""
    assert notes_on(COUNTERS) == {
        "counter-overflow": 2, "cell-unreadable": 1, "unknown-code": 1, "counters-without-kernel": 10,
    }  # fmt: skip
    assert notes_on(COUNTERS, "kernels")["kernels-serialized"] == 8
    assert values(measured(COUNTERS, None)["warps_launched"]) == ("event", "number", 1, 600, 600, 600)
    assert values(measured(COUNTERS, REDUCE)["gld_transactions"])[2:] == (1, None, None, None)


def test_values_by_plain_sql() -> None:
    """The means of three kernels, computed from the file's rows alone."""
    with closing(sqlite3.connect(COUNTERS)) as connection:
        for name, mangled in (("stencil", "stencil"), (REDUCE, "_Z10reduce_sumIdEvPKT_PS0_m"),
                              ("triton_poi_fused_add_0", "triton_poi_fused_add_0")):  # fmt: skip
            cells = connection.execute(
                f"""SELECT m.value FROM {PREFIX}METRIC m JOIN {PREFIX}KERNEL k USING (correlationId)
                JOIN StringTable s ON s._id_ = k.name
                WHERE m.id = {made.OCCUPANCY} AND s.value = ? AND correlationId""", (mangled,)
            ).fetchall()  # fmt: skip
            wanted = [struct.unpack("<d", cell)[0] for (cell,) in cells]
            row = measured(COUNTERS, name)["achieved_occupancy"]
            assert (row["sample_count"], row["value_avg"]) == (
                len(wanted), pytest.approx(sum(wanted) / len(wanted)))  # fmt: skip


def test_parts_of_the_gpu_where_there_is_no_whole(changed: Changed) -> None:
    """Two SMs in each of two launches: 1, 3, 5 and 7; of what is recorded as a whole they say nothing."""
    insert = "INSERT INTO K_METRIC_INSTANCE (id, value, instance, correlationId, flags) VALUES"
    rows = ", ".join(
        f"({number}, x'{made.whole(value).hex()}', {value % 2}, {launch}, 0)"
        for number in (19_922_961, made.LOADS)
        for launch, value in ((105, 1), (105, 3), (109, 5), (109, 7))
    )
    path = changed(
        "CREATE TABLE K_METRIC_INSTANCE (_id_ INTEGER PRIMARY KEY, id INT, value BLOB, instance INT, "
        f"correlationId INT, flags INT); {insert} {rows}"
    )
    found = measured(path, SAXPY)
    assert values(found[counters.counter_name(0, 19_922_961)])[2:] == (2, 4, 1, 7)
    assert values(found["gld_transactions"])[2:] == (2, 2500, 1000, 4000)
    assert notes_on(path)["counters-by-part"] == 1


def test_a_kernel_that_was_replayed_counts_once(changed: Changed) -> None:
    path = changed(
        "CREATE TEMP TABLE again AS SELECT * FROM K_KERNEL WHERE correlationId = 105;"
        "UPDATE again SET _id_ = 100; INSERT INTO K_KERNEL SELECT * FROM again"
    )
    assert measured(path, SAXPY)["warps_launched"]["sample_count"] == 2


@pytest.mark.parametrize(("cell", "meaning", "value"), [
    (made.real(0.25), "real", 0.25), (made.real(57.5), "percent", 57.5),
    (made.whole(1 << 40), "rate", 1 << 40), (struct.pack("<q", -3), "signed", -3),
    (made.level(10), "level", 10), (made.level(11), "level", None),
    (made.real(float("nan")), "real", None),
    # Of an unknown metric, 7 is no tiny real number, and 0.5 no enormous count.
    (made.whole(7), None, 7), (made.real(0.5), None, 0.5),
])  # fmt: skip
def test_bytes_by_what_they_mean(cell: bytes, meaning: str | None, value: float | None) -> None:
    assert counters.metric_value(cell, meaning) == value


@pytest.mark.parametrize("sql", [
    "UPDATE K_METRIC SET value = x'00'", "UPDATE K_METRIC SET value = 'text'",
    "UPDATE K_METRIC SET id = 'text'", "UPDATE K_EVENT SET value = 'text'",
    "UPDATE K_METRIC SET correlationId = 'text', flags = 'text'",
    "UPDATE K_METRIC SET id = 1 << 62", "DROP TABLE K_KERNEL",
])  # fmt: skip
def test_damaged_counters_are_left_out(changed: Changed, sql: str) -> None:
    (report,) = nsysconv.report_on(changed(sql), "metrics")
    assert {note.slug for note in report.notes} & {"cell-unreadable", "counters-without-kernel",
                                                   "unknown-code"}  # fmt: skip
