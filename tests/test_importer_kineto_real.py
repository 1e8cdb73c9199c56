"""Real traces of PyTorch, against what is known of them from elsewhere."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import Counter
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from conftest import EVENTS, REAL, REAL_TRACES, Shelf, event_rows, few, name_of, provenance, real

import nsysconv

EXPECTED = {
    path.name: REAL / "expected" / folder
    for folder, start in (
        ("tracelens__h100_Falconsai_nsfw_image_detection__1016002", "AMD-AGI+TraceLens__0702619a"),
        ("tracelens__h100_gaunernst_bert-small-uncased__1016001", "AMD-AGI+TraceLens__737b43a1"),
        ("tracelens__mi300_Falconsai_nsfw_image_detection__1016002",
         "AMD-AGI+TraceLens__Falconsai"),
        ("tracelens__torch_compile_triton", "AMD-AGI+TraceLens__trace.json"),
    )
    for path in REAL_TRACES
    if path.name.startswith(start)
}  # fmt: skip
TRACELENS = [path for path in REAL_TRACES if path.name in EXPECTED] or [REAL / "missing"]

# What PROVENANCE calls a row, and the table where it comes in.
TABLES = {
    "kernel": "kernel", "Kernel": "kernel",
    "gpu_memcpy": "memcpy", "Memcpy": "memcpy",
    "gpu_memset": "memset", "Memset": "memset",
}  # fmt: skip


@cache
def events(path: Path) -> list[dict[str, Any]]:
    """The events as the standard library reads them, times as decimals."""
    raw = path.read_bytes()
    text = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
    found = json.loads(text, strict=False, parse_float=Decimal)
    return found["traceEvents"] if isinstance(found, dict) else found


def nanoseconds(value: Any) -> int:
    return int(Decimal(value) * 1000)


@real
@pytest.mark.parametrize("path", few(REAL_TRACES, 2), ids=name_of)
def test_counts_and_sums_are_those_of_provenance(shelf: Shelf, path: Path) -> None:
    (row,) = (r for r in provenance("kineto") if r["file"] == f"kineto/{path.name}")
    documented = Counter[str]()
    for word, count in re.findall(r"\b(\w+) (\d+)(?=[,;])", row["holds"].split(" MB; ")[-1] + ";"):
        if word in TABLES:
            documented[TABLES[word]] += int(count)
    profile = shelf.profile(path)
    found = {table: profile.row_count(table) for table in set(TABLES.values())}
    # A list of categories that is cut short has only its first.
    assert {table: found[table] for table in documented} == documented
    total = re.search(r"kernel dur sum ([\d.]+) us", row["holds"])
    if total:
        kernels = event_rows(profile, "kernel")
        assert sum(k["dur_ns"] or 0 for k in kernels) == nanoseconds(total.group(1))


@real
def test_zero_is_the_second_of_the_first_event_in_time(shelf: Shelf) -> None:
    """Another event stands first in the file, and in a later second."""
    (path,) = (p for p in REAL_TRACES if p.name.startswith("facebookresearch+param__linear_kineto"))
    profile = shelf.profile(path)
    first = min(row["start_ns"] for table in EVENTS for row in event_rows(profile, table))
    assert 0 <= first < 1_000_000_000


@real
@pytest.mark.parametrize("path", few(REAL_TRACES, 2), ids=name_of)
def test_rows_are_the_events_of_the_file(shelf: Shelf, path: Path) -> None:
    """Every kernel, copy and call with its times, bytes and names, exact to the nanosecond."""
    profile = shelf.profile(path)
    zero = profile.attributes["zero_utc_ns"] or 0
    raw = path.read_bytes()
    text = gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
    base = re.search(rb'"baseTimeNanoseconds"\s*:\s*(\d+)', text)
    shift = int(base.group(1)) if base else 0
    for table, categories in {
        "kernel": ("kernel",), "memcpy": ("gpu_memcpy", "memcpy"),
        "api_call": ("cuda_runtime", "cuda_driver", "runtime"),
    }.items():  # fmt: skip
        expected = Counter(
            (nanoseconds(e["ts"]) + shift, nanoseconds(e["dur"]), str(e["name"]),
             e.get("args", {}).get("correlation"))
            for e in events(path)
            if str(e.get("cat")).lower() in categories
        )  # fmt: skip
        found = Counter(
            (r["start_ns"] + zero, r["dur_ns"],
             r["name"] if table != "memcpy" else "", r["correlation_id"])
            for r in event_rows(profile, table)
        )  # fmt: skip
        if table == "memcpy":
            expected = Counter((a, b, "", c) for a, b, _, c in expected.elements())
        assert found == expected


@real
@pytest.mark.parametrize("path", few(REAL_TRACES, 2), ids=name_of)
def test_operations_are_linked_by_correlation(shelf: Shelf, path: Path) -> None:
    """The calls' rows say how many operations they launched; a plain join says the same."""
    calls = {e["args"]["correlation"] for e in events(path)
             if str(e.get("cat")).lower() in ("cuda_runtime", "cuda_driver", "runtime")
             and e.get("args", {}).get("correlation")}  # fmt: skip
    linked = sum(
        e.get("args", {}).get("correlation") in calls
        for e in events(path)
        if str(e.get("cat")).lower() in ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
    )
    if not shelf.profile(path).row_count("api_call"):
        pytest.skip("the trace holds no API calls")
    with nsysconv.open(path) as profile:
        report = profile.report("api_vs_kernel")
        found = sum(r["gpu_op_count"] or 0 for r in report.rows() if r["layer"] is not None)
    assert found == linked


@real
@pytest.mark.parametrize("path", TRACELENS, ids=name_of)
def test_busy_and_idle_are_those_of_tracelens(path: Path) -> None:
    """Its times are doubles in milliseconds: 5 ns is what they can be off."""
    published = {}
    with (EXPECTED[path.name] / "gpu_timeline.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            published[row["type"]] = round(float(row["time ms"]) * 1e6)
    with nsysconv.open(path) as profile:
        (overview,) = profile.report("overview").rows()
        steps = profile.report("steps").rows()
    assert overview["busy_ns"] == pytest.approx(published["busy_time"], abs=5)
    assert overview["idle_ns"] == pytest.approx(published["idle_time"], abs=5)
    assert overview["window_ns"] == pytest.approx(published["total_time"], abs=5)
    # All work of these traces was launched in their only step.
    exposed_ns = published["exposed_memcpy_time"]
    assert sum(row["memcpy_ns"] for row in steps) == pytest.approx(exposed_ns, abs=5)


@real
@pytest.mark.parametrize("path", TRACELENS, ids=name_of)
def test_kernel_sums_are_those_of_tracelens(path: Path) -> None:
    published: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    with (EXPECTED[path.name] / "kernel_summary.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            published[row["Kernel name"]] += float(row["Kernel duration (µs)_sum"]) * 1000
            counts[row["Kernel name"]] += int(row["Kernel duration (µs)_count"])
    with nsysconv.open(path) as profile:
        rows = {row["name"]: row for row in profile.report("kernels").rows()}
    for name, total in published.items():
        if name in rows:
            assert rows[name]["kernel_sum_ns"] == pytest.approx(total, abs=5), name
            assert rows[name]["kernel_count"] == counts[name], name
    # It lists copies and memsets as kernels, too.
    assert {name for name in published if name not in rows} <= {
        name for name in published if name.startswith(("Memcpy", "Memset"))
    }
    assert rows.keys() <= published.keys()
