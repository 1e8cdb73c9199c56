"""The generated nvprof trace is what its script promises, and what the importer reads."""

from __future__ import annotations

import csv
import sqlite3
import subprocess
import sys
from collections import Counter, defaultdict
from contextlib import closing
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import jobs_nvprof
import pytest
from generate_nvprof import (
    HEADER,
    HEADER_LINE,
    STEP,
    UNITS,
    UNITS_LINE,
    Totals,
    generate,
    kernel_names,
)
from measure import DATA, baseline

from nsysconv.api import import_files

# Not a multiple of a step: the last one is cut.
ROWS = 7 * STEP + 321
Row = dict[str, str]


def exact(text: str, factor: int) -> int:
    """A number that has to be whole in the smaller unit."""
    value = Decimal(text) * factor
    assert value == int(value), text
    return int(value)


def nearest(text: str, factor: int) -> int:
    """The whole number that a rounded one stands for."""
    return round(Decimal(text) * factor)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Totals]:
    path = tmp_path_factory.mktemp("nvprof") / "trace.csv"
    return path, generate(path, ROWS)


@pytest.fixture(scope="module")
def path(written: tuple[Path, Totals]) -> Path:
    return written[0]


@pytest.fixture(scope="module")
def totals(written: tuple[Path, Totals]) -> Totals:
    return written[1]


@pytest.fixture(scope="module")
def rows(path: Path) -> list[Row]:
    with path.open(encoding="ascii", newline="") as file:
        lines = file.readlines()
    return list(csv.DictReader([lines[HEADER_LINE], *lines[UNITS_LINE + 1 :]], strict=True))


def table_of(row: Row) -> str:
    """The table of a store that a row belongs to."""
    if row["Name"] == "[CUDA memset]":
        return "memset"
    return "memcpy" if row["Name"].startswith("[CUDA memcpy ") else "kernel"


def test_a_log_has_banner_header_and_units(path: Path) -> None:
    lines = path.read_text(encoding="ascii").split("\n")
    assert [line[:9] for line in lines[:HEADER_LINE]] == ["==4242== "] * HEADER_LINE
    assert (lines[HEADER_LINE], lines[UNITS_LINE]) == (HEADER, UNITS)
    assert len(lines) == UNITS_LINE + 1 + ROWS + 1
    assert HEADER.count(",") == UNITS.count(",")


def test_the_same_arguments_give_the_same_bytes(path: Path, tmp_path: Path) -> None:
    again, other = tmp_path / "again.csv", tmp_path / "other.csv"
    generate(again, ROWS)
    generate(other, ROWS, seed=2)
    assert again.read_bytes() == path.read_bytes()
    assert other.read_bytes() != path.read_bytes()


def test_rows_add_up_to_the_totals(rows: list[Row], totals: Totals) -> None:
    found: Totals = defaultdict(Counter)
    for row in rows:
        values = {
            "rows": 1,
            "dur_ns": exact(row["Duration"], 1000),
            "stream_id": int(row["Stream"]),
            "correlation_id": int(row["Correlation_ID"]),
        }
        if table_of(row) == "kernel":
            values |= {
                "registers_per_thread": int(row["Registers Per Thread"]),
                "static_shared_bytes": exact(row["Static SMem"], 1024),
                "dynamic_shared_bytes": int(row["Dynamic SMem"]),
                "grid_x": int(row["Grid X"]),
                "block_x": int(row["Block X"]),
            }
        else:
            values["bytes"] = nearest(row["Size"], 1024)
        found[table_of(row)].update(values)
    assert found == totals
    assert sum(counts["rows"] for counts in totals.values()) == ROWS
    assert totals["kernel"]["rows"] / ROWS == pytest.approx(0.85, abs=0.02)


def test_cells_are_formatted_as_nvprof_does(rows: list[Row]) -> None:
    names = set(kernel_names())
    assert len(names) == 60
    seen = set()
    for row in rows:
        filled = {name for name, cell in row.items() if cell}
        always = {"Start", "Duration", "Device", "Context", "Stream", "Name", "Correlation_ID"}
        if table_of(row) == "kernel":
            suffix = f" [{row['Correlation_ID']}]"
            assert row["Name"].endswith(suffix)
            seen.add(row["Name"].removesuffix(suffix))
            launch = {
                name for name in row if name.startswith(("Grid", "Block", "Reg", "Static", "Dyn"))
            }
            assert filled == always | launch
        else:
            kinds = {"SrcMemType"} | ({"DstMemType"} if table_of(row) == "memcpy" else set())
            assert filled == always | kinds | {"Size", "Throughput"}
            seconds = Decimal(row["Duration"]) / 10**6
            rate = nearest(row["Size"], 1024) / seconds / 2**30
            assert abs(rate - Decimal(row["Throughput"])) < Decimal("0.000001")
    assert seen == names


def test_rows_are_in_order_of_start_and_streams_do_not_overlap(rows: list[Row]) -> None:
    times = [(exact(row["Start"], 10**6), exact(row["Duration"], 1000)) for row in rows]
    starts = [start for start, _ in times]
    assert starts == sorted(starts)
    correlations = [int(row["Correlation_ID"]) for row in rows]
    assert len(set(correlations)) == ROWS
    assert correlations != sorted(correlations)
    streams = defaultdict(list)
    for row, (start, dur) in zip(rows, times, strict=True):
        assert dur > 0
        streams[row["Stream"]].append((start, start + dur))
    assert len(streams) == 4
    for work in streams.values():
        assert all(end <= start for (_, end), (start, _) in pairwise(work))


def test_the_importer_reads_what_was_written(
    path: Path, rows: list[Row], totals: Totals, tmp_path: Path
) -> None:
    store = tmp_path / "store.db"
    result = import_files([path], store)
    assert not result.errors
    for table, expected in totals.items():
        columns = [column for column in expected if column != "rows"]
        sums = ", ".join(f"sum({column}) AS {column}" for column in columns)
        (found,) = records(store, f"SELECT count(*) AS rows, {sums} FROM {table}")
        assert found == dict(expected)
    spans = " UNION ALL ".join(f"SELECT start_ns FROM {table}" for table in totals)
    (found,) = records(store, f"SELECT max(start_ns) - min(start_ns) AS span FROM ({spans})")
    first, last = (exact(row["Start"], 10**6) for row in (rows[0], rows[-1]))
    assert found == {"span": last - first}
    names = "SELECT DISTINCT text FROM kernel JOIN name ON name.id = kernel.name_id"
    assert {row["text"] for row in records(store, names)} == set(kernel_names())


def records(store: Path, query: str) -> list[dict[str, object]]:
    """The answer of a query on a store."""
    with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
        cursor = connection.execute(query)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]


@pytest.mark.parametrize("name", jobs_nvprof.PEERS.values())
def test_the_peers_keep_all_rows(name: str, path: Path, totals: Totals, tmp_path: Path) -> None:
    target = tmp_path / "pandas.db"
    subprocess.run(baseline(name, path, target), check=True)
    sums = 'count("Grid X") AS kernels, sum(Correlation_ID) AS ids'
    query = f"SELECT count(*) AS rows, {sums} FROM gpu_trace"
    assert records(target, query) == [
        {
            "rows": ROWS,
            "kernels": totals["kernel"]["rows"],
            "ids": sum(counts["correlation_id"] for counts in totals.values()),
        }
    ]


def test_the_command_line_works() -> None:
    script = DATA.parent / "generate_nvprof.py"
    done = subprocess.run([sys.executable, str(script), "--help"], capture_output=True, text=True,
                          check=True)  # fmt: skip
    assert "usage" in done.stdout
