"""All reports on all profiles: the declared columns, or the facts that are truly missing.

And on the real ones: sums that must agree with each other, and with plain SQL on the source.
"""

from __future__ import annotations

import re
import sqlite3
import statistics
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import (
    BETWEEN,
    FIXTURES,
    NSYS,
    NSYS_FILES,
    ODD_FILES,
    REAL,
    REAL_FILES,
    Shelf,
    few,
    name_of,
    real,
    with_slow,
)
from one_answer import EXAMPLES
from slow_versions import outermost
from small_store import Kernel, Memory, Operator, answers

from nsysconv import api, codes, queries, schema
from nsysconv.errors import NotRecorded, UsageError
from nsysconv.facts import Fact
from nsysconv.queries import REPORTS, execution, needed_facts, query
from nsysconv.report import Report
from nsysconv.timeline.idle import IDLE_KINDS

PARTS = ("host", "launch", "queue", "migration", "profiler", "unknown", "end")
TYPES = {"int": pa.int64(), "float": pa.float64(), "text": pa.dictionary(pa.int64(), pa.string())}
OF_OTHER_SOURCES = [path for path in EXAMPLES if path.parent != NSYS]
# In `make test` every report sees files of a quarter of the sources, and some others see a few reports.
EVERY = [*NSYS_FILES, *ODD_FILES, *OF_OTHER_SOURCES]
SOME = [(path, REPORTS[i % 4 :: 4] if path in EXAMPLES else REPORTS[i % 16 :: 16])
        for i, path in enumerate(EVERY)
        if path in EXAMPLES or (path not in BETWEEN and i % 3 == 0)]  # fmt: skip
# Events that begin at once on one thread, and gaps of two devices, have nothing that sets them apart.
ROWS_ALIKE = ("idle_gaps", "timeline_events")
every_real_file = pytest.mark.parametrize("path", few(REAL_FILES, 2), ids=name_of)
every_kind_of_idle_time = pytest.mark.parametrize(
    ("path", "kind"),
    with_slow(((path, kind), i % 6 == 0 and (i // 6 + j) % 3 == 0)
              for i, path in enumerate(REAL_FILES) for j, kind in enumerate(IDLE_KINDS)),
    ids=name_of,
)  # fmt: skip
CLOVERLEAF = REAL / "nsys_sqlite" / "hpcgroup+pipit__perlmutter-cloverleaf-cuda.sqlite"

def check(profile: api.OpenProfile, name: str) -> None:
    """A report has the declared columns and types, or lacks what the profile really lacks."""
    module = query(name)
    try:
        report = profile.report(name)
    except NotRecorded as error:
        if not set(error.missing) <= set(Fact):
            return  # rows lack a column that the report needs, such as kinds of memory
        needed, held = needed_facts(module), profile.profile.facts
        # Where one of several facts is there, the others are not missing.
        every = needed if needed - held and module.any_of & held else needed | module.any_of
        assert set(error.missing) == every - held != set()
        held = [table for table, fact in schema.EVENT_TABLES.items()
                if fact in error.missing and profile.profile.row_count(table)]  # fmt: skip
        # The table of operators has directives and calls of libraries, too.
        kinds = set(profile.profile.columns("operator", ("kind",))["kind"].tolist())
        others_only = codes.OPERATOR_KINDS.index("operator") not in kinds
        assert held == [] or (held == ["operator"] and others_only)
        return
    assert profile.profile.facts >= needed_facts(module) or profile.profile.facts & module.totals
    assert [(f.name, f.type) for f in report.table.schema] == [
        (column.name, TYPES[column.kind]) for column in module.columns]  # fmt: skip
    assert report.row_count == report.table.num_rows
    keys = [column.name for column in module.columns if column.key]
    if name not in ROWS_ALIKE and not report.is_printed:  # a printed table has no columns but its own
        ids = [tuple(row[key] for key in keys) for row in report.rows()]
        assert sorted(Counter(ids).values())[-1:] in ([1], [])
    leading = [c for lead in report.leads for c in module.columns if c.name == lead]
    if leading:
        # What no call and no operator launched comes last, whatever it took.
        rows = [row for row in report.rows() if not str(row.get("name")).startswith("[no ")]
        sizes = [[row[column.name] or 0 for column in leading] for row in rows]
        assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize(
    ("path", "names"), [*SOME, *few([(path, REPORTS) for path in EVERY], 0)], ids=name_of
)
def test_reports_on_a_fixture(path: Path, names: Sequence[str], shelf: Shelf) -> None:
    for name in names:
        check(shelf.opened(path), name)


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_abstains_for_each_fact_that_it_needs(name: str) -> None:
    """And where of several none is recorded."""
    needed, any_of = needed_facts(query(name)), query(name).any_of
    for fact in needed:
        with pytest.raises(NotRecorded) as error:
            answers(name, Kernel(0, 10), without=[fact])
        assert error.value.missing == (fact,)
    if any_of:
        with pytest.raises(NotRecorded) as error:
            answers(name, Kernel(0, 10), without=[*needed, *any_of])
        assert set(error.value.missing) == needed | any_of


@pytest.mark.parametrize("name", [name for name in REPORTS if name not in (
    "devices", "phases", "phase_steps",  # need what devices are, and annotations
    "um_total_sum",  # has a row of zeros
)])  # fmt: skip
def test_where_all_is_recorded_and_nothing_happened_there_are_no_rows(name: str) -> None:
    assert answers(name) == []


# Options that mean nothing, and what is said of them.
MEANINGLESS = {
    "operators:stack=2": "stack=", "operators:by=stack:stack=-1": "stack=",
    "operators:by=color": "operators have no rows by 'color'",
    "operators:peak_flop_per_s=1e12": "without rates", "operators:peak_bytes_per_s=1e12": "without rates",
    "operators:rates:peak_flop_per_s=-1": "peak_flop_per_s=-1", "operators:rates:by=path": "with by",
    "operators:rates:functions": "with functions", "steps:peak_flop_per_s=-1": "peak_flop_per_s=-1",
    "operator_kernels:by=x": "operator_kernels have no rows by 'x'", "kernels:by=x": "no rows by 'x'",
    "gpu_utilization:by=rank": "no rows by 'rank'", "graphs:by=node": "by=node",
    "cuda_gpu_kern_pace:by=name": "by=name", "memory:by=kernel": "no rows by 'kernel'",
    "cuda_gpu_kern_hist:name=(": "not a regular expression",
    "cuda_gpu_kern_sum:base:mangled": "two spellings",
    **{f"{report}:bins={bins}": "1 to 100000" for report in ("utilization_over_time", "gpu_time_util_map")
       for bins in (0, -1, 100_001)},
    "cuda_api_sync:rows=50": "no option 'rows'", "findings:ignore=nosuch": "no check 'nosuch'",
    **{f"timeline_events:parts={parts}": "parts=" for parts in
       ("5", "5:5", "9:3", "a:b", "1:2:3", "1:2,", "1:99999999999999999999")},
    # The option is named as it was written.
    **{spec: spec.split(":")[-1] for spec in (
        "memory:by=time:bins=0", "kernel_sequences:least=0", "queue_length:full=0",
        "metrics_over_time:bins=0", "metrics_over_time:bins=100001", "metrics_over_time:window=kernels",
        "timeline_tiles:bins=0", "timeline_tiles:bins=2000000", "timeline_tiles:levels=0",
        "gpu_gaps:gap=-1", "gpu_gaps:gap=nan", "gpu_gaps:gap=long", "gpu_time_util:threshold=-1",
        "gpu_time_util:threshold=nan", "gpu_time_util:chunks=0", "gpu_time_util:chunks=1001",
        "gpu_time_util:chunks=1.5", "cuda_memcpy_sync:min_bytes=64K", "findings:copy_bound=x",
        "findings:copy_bound=-1", "findings:copy_bound=1e999")},
}  # fmt: skip


@pytest.mark.parametrize("spec", MEANINGLESS)
def test_an_option_that_means_nothing_is_refused(spec: str) -> None:
    with pytest.raises(UsageError, match=re.escape(MEANINGLESS[spec])):
        answers(spec, Kernel(0, 10), Operator(0, 10, "aten::mm", shapes="[[2, 3], [3, 5]]"),
                Memory(10, 300, 1))  # fmt: skip


@real
@pytest.mark.parametrize("path", few(REAL_FILES, 1), ids=name_of)
def test_reports_on_a_real_file(path: Path, shelf: Shelf) -> None:
    for name in REPORTS:
        check(shelf.opened(path), name)


@pytest.mark.parametrize("path", [NSYS / "ranges-3.28.1.sqlite", FIXTURES / "kineto/training-2.13.json"],
                         ids=name_of)  # fmt: skip
def test_a_limit_leaves_the_first_rows_and_counts_all(path: Path, shelf: Shelf) -> None:
    for name in REPORTS:
        try:
            whole = shelf.opened(path).report(name)
        except NotRecorded:
            continue
        part = shelf.opened(path).report(name, limit=3)
        assert (part.rows(), part.row_count) == (whole.rows()[:3], whole.row_count), name


@pytest.mark.parametrize("path", few([*NSYS_FILES, *ODD_FILES], 1), ids=name_of)
def test_reports_computed_concurrently_equal_those_computed_alone(
    path: Path, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def alone(name: str) -> tuple[object, ...]:
        with api.open(shelf.store(path)) as profile:
            try:
                return said(profile.report(name))
            except NotRecorded as missing:
                return said(queries.not_recorded_report(missing, profile.timeline))

    def said(report: Report) -> tuple[object, ...]:
        return report.name, report.rows(), report.notes, report.not_recorded, report.advice

    threads = set()
    compute = execution._compute

    def noting(*asked: Any) -> Any:
        threads.add(threading.current_thread())
        return compute(*asked)

    monkeypatch.setattr(execution, "_compute", noting)
    monkeypatch.setattr(execution, "MIN_EVENTS_FOR_THREADS", 0)
    monkeypatch.setattr(execution, "cores", lambda: 2)
    with api.open(shelf.store(path)) as profile:
        together = [said(report) for report in profile.reports(REPORTS, limit=0)]
    assert threads and threading.current_thread() not in threads
    assert together[::3] == [alone(name) for name in REPORTS[::3]]


# -- sums that must agree


def recorded(profile: api.OpenProfile, *facts: Fact) -> None:
    if not set(facts) <= profile.profile.facts:
        pytest.skip("not recorded in this file")


@real
@every_kind_of_idle_time
def test_a_summary_of_gaps_adds_up_to_the_gaps(path: Path, kind: str, shelf: Shelf) -> None:
    profile = shelf.opened(path)
    recorded(profile, Fact.KERNELS)
    summary: Counter[Any] = Counter()
    listing: Counter[Any] = Counter()
    for row in profile.report("idle_summary", idle=(kind,), split="device").rows():
        key = (row["device_id"], row["stream"])
        summary.update({(*key, part): row[f"{part}_sum_ns"] for part in PARTS})
        summary.update({(*key, "dur"): row["gap_sum_ns"], (*key, "count"): row["gap_count"]})
    for row in profile.report("idle_gaps", idle=(kind,)).rows():
        key = (row["device_id"], row["stream"])
        listing.update({(*key, part): row[f"{part}_ns"] for part in (*PARTS, "dur")})
        each = [row[f"{part}_ns"] for part in PARTS]
        assert sum(each) == row["dur_ns"] > 0 and min(each) >= 0
        listing[(*key, "count")] += 1
    assert summary == listing


# -- plain SQL on the source


def plain(symbol: str, driver: bool) -> str:
    """The documented name of a function."""
    name = re.sub(r"_v\d+$", "", symbol) if not driver else symbol
    name = re.sub(r"_(ptsz|ptds)$", "", name)
    return re.sub(r"_v[23]$", "", name) if driver else name


def source(path: Path, *statements: str) -> list[tuple[Any, ...]]:
    """The rows of all statements on the source, read with Python's own SQLite."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        return [row for statement in statements for row in connection.execute(statement)]


def tables(path: Path) -> set[str]:
    return {name for (name,) in source(path, "SELECT name FROM sqlite_master")}


@real
@every_real_file
def test_kernels_against_sql(path: Path, shelf: Shelf) -> None:
    profile = shelf.opened(path)
    recorded(profile, Fact.KERNELS)
    by_name: dict[str, list[int]] = {}
    for name, dur in source(path, """
            SELECT value, "end" - start FROM CUPTI_ACTIVITY_KIND_KERNEL
            JOIN StringIds ON StringIds.id = demangledName"""):  # fmt: skip
        by_name.setdefault(name, []).append(dur)
    rows = profile.report("kernels").rows()
    found: Counter[Any] = Counter()
    for row in rows:
        found[row["name"], "count"] += row["kernel_count"]
        found[row["name"], "ns"] += row["kernel_sum_ns"]
    assert found == Counter({(name, what): number for name, dur in by_name.items()
                             for what, number in (("count", len(dur)), ("ns", sum(dur)))})  # fmt: skip
    on_one_device = [row for row in rows if row["kernel_count"] == len(by_name[row["name"]])]
    assert [(r["med_ns"], r["min_ns"], r["max_ns"]) for r in on_one_device] == [
        (statistics.median(dur), min(dur), max(dur))
        for dur in (by_name[r["name"]] for r in on_one_device)]  # fmt: skip


CALLS = """SELECT nameId, eventClass, "end" - start FROM CUPTI_ACTIVITY_KIND_RUNTIME
    WHERE eventClass IN (0, 1)"""
LINKED = """SELECT call.nameId, call.eventClass, op."end" - op.start
    FROM CUPTI_ACTIVITY_KIND_{} op JOIN CUPTI_ACTIVITY_KIND_RUNTIME call
    ON call.correlationId = op.correlationId
        AND call.globalTid / 16777216 = op.globalPid / 16777216
    WHERE op.correlationId <> 0 AND call.eventClass IN (0, 1)"""


@real
@every_real_file
@pytest.mark.parametrize(("statement", "count", "total"), [
    (CALLS, "call_count", "api_sum_ns"),
    (LINKED.format("KERNEL"), "kernel_count", "kernel_sum_ns"),
    (LINKED.format("MEMCPY"), None, "memcpy_sum_ns"),
    (LINKED.format("MEMSET"), None, "memset_sum_ns"),
], ids=["calls", "kernels", "copies", "sets"])  # fmt: skip
def test_calls_against_sql(
    path: Path, statement: str, count: str | None, total: str, shelf: Shelf
) -> None:
    """Joined within each process: ids of two processes collide."""
    profile = shelf.opened(path)
    recorded(profile, Fact.API_CALLS, Fact.KERNELS)
    if not set(re.findall(r"CUPTI_\w+", statement)) <= tables(path):
        pytest.skip("no such table in this file")
    names = dict(source(path, "SELECT id, value FROM StringIds"))
    wanted: Counter[Any] = Counter()
    for name_id, layer, dur in source(path, statement):
        key = (("runtime", "driver")[layer], plain(names[name_id], layer == 1))
        wanted.update({(*key, "ns"): dur})
        if count:
            wanted.update({(*key, "count"): 1})
    found: Counter[Any] = Counter()
    for row in profile.report("api_vs_kernel").rows():
        key = (row["layer"], row["name"])
        if row["layer"]:
            found.update({(*key, "ns"): row[total]})
            if count:
                found.update({(*key, "count"): row[count]})
    assert found == wanted


@real
@every_real_file
def test_outermost_calls_against_sql(path: Path, shelf: Shelf) -> None:
    profile = shelf.opened(path)
    recorded(profile, Fact.API_CALLS)
    threads: dict[int, list[tuple[int, int]]] = {}
    for thread, start, end in source(path, """SELECT globalTid, start, "end"
            FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE eventClass IN (0, 1)"""):  # fmt: skip
        threads.setdefault(thread, []).append((start, end))
    wanted: Counter[int] = Counter()
    for thread, calls in threads.items():
        for (start, end), outer in zip(calls, outermost(calls), strict=True):
            wanted[thread >> 24 & 0xFFFFFF] += end - start if outer else 0
    rows = profile.report("processes").rows()
    assert Counter({row["pid"]: row["api_sum_ns"] for row in rows}) == wanted


@real
@every_real_file
def test_busy_time_against_sql(path: Path, shelf: Shelf) -> None:
    profile = shelf.opened(path)
    recorded(profile, Fact.KERNELS)
    rows = profile.report("overview").rows()
    if len(rows) != 1:
        pytest.skip("several devices")
    kinds = [kind for kind in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE")
             if f"CUPTI_ACTIVITY_KIND_{kind}" in tables(path)]  # fmt: skip
    ops = source(path, *(
        f'SELECT start, "end", {"copyKind IN (11, 12, 13)" if kind == "MEMCPY" else 0} '
        f"FROM CUPTI_ACTIVITY_KIND_{kind}" for kind in kinds))  # fmt: skip
    first = min(start for start, _, migration in ops if not migration)
    last = max(end for _, end, migration in ops if not migration)
    busy, reach = 0, first
    for start, end, _ in sorted(ops):
        start, end = max(start, reach), min(end, last)
        busy, reach = busy + max(end - start, 0), max(reach, end)
    assert (rows[0]["window_ns"], rows[0]["busy_ns"]) == (last - first, busy)


@real
def test_cloverleaf_against_another_tool(shelf: Shelf) -> None:
    """The totals that pipit reads from the same file."""
    profile = shelf.opened(CLOVERLEAF)
    (device,) = profile.report("overview").rows()
    assert (device["kernel_count"], device["kernel_sum_ns"]) == (1_312, 294_404_540)
    moved = {row["direction"]: (0, 0) for row in profile.report("transfers").rows()}
    for row in profile.report("transfers").rows():
        count, size = moved[row["direction"]]
        moved[row["direction"]] = (count + row["memcpy_count"], size + row["bytes_sum"])
    assert moved == {"HtoD": (254, 225_065_752), "DtoH": (25, 51_200)}
    calls = [row for row in profile.report("api_vs_kernel").rows() if row["layer"]]
    assert sum(row["call_count"] for row in calls) == 3_048
    assert sum(row["api_sum_ns"] for row in calls) == 571_656_984
