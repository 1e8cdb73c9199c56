"""The made-up workloads as nsys prints them: totals, rows of traces, and reports beside those of exports.

What the import must give is made from the workload itself.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from conftest import FIXTURES, Row, Shelf, event_rows, few, in_any_order
from fixtures_nsys_stats import STATS
from hypothesis import given
from hypothesis import strategies as st
from importing import slugs, totals_of
from nsys_stats_tables import MEMORY, function
from scenarios import EXPECTED, WORKLOADS
from workload import Workload
from workload_rows import newest_export
from write_nsys_stats import ENGLISH, FOURS, FRENCH, GERMAN, INDIAN, PLAIN, SWISS, Locale, number

from nsysconv import api
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers.nsys_stats.tables import CellKind, SpelledNumber, number_format
from nsysconv.names import plain_api_name

FOLDER = FIXTURES / "nsys_stats"
TRACES = [name for name, log in STATS.items() if "_trace" in log.tables[0]]
SUMMARIES = [name for name in STATS if name not in TRACES]

Key = tuple[str, str | None, str]


# -- totals


def durations(workload: Workload, tables: tuple[str, ...]) -> dict[Key, list[int]]:
    """What the reports of these tables add up."""
    events, found = workload.events, dict[Key, list[int]]()

    def add(kind: str, layer: str | None, word: str, event: Any) -> None:
        found.setdefault((kind, layer, word), []).append(event.end_ns - event.start_ns)

    if {"api", "api_gpu"} & set(tables):
        for call in events.calls:
            add("api_call", call.layer, function(call.symbol), call)
    if {"kernels", "grids", "gpu", "api_gpu"} & set(tables):
        for kernel in events.kernels:
            add("kernel", None, kernel.function.demangled, kernel)
    if {"copies", "gpu", "api_gpu"} & set(tables):
        for copy in events.memcpys:
            add("memcpy", None, copy.direction, copy)
        for item in events.migrations:
            add("unified_memory", None, item.direction, item)
        for memset in events.memsets:
            add("memset", None, "", memset)
    return found


def key_of(row: Row) -> Key:
    return row["kind"], row.get("layer"), row.get("direction") or row.get("name") or ""


def summed(rows: list[Row]) -> dict[Key, tuple[int, int, int, int]]:
    """Count, sum, least and greatest: kernels stand in a row for each grid."""
    groups: dict[Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(key_of(row), []).append(row)
    return {
        key: (sum(row["count"] for row in mine), sum(row["sum_ns"] for row in mine),
              min(row["min_ns"] for row in mine), max(row["max_ns"] for row in mine))
        for key, mine in groups.items()
    }  # fmt: skip


def _totals_are_those_of_the_workload(shelf: Shelf, name: str) -> None:
    log = STATS[name]
    rows = [row for row in totals_of(shelf.profile(FOLDER / name)) if row["kind"] != "range"]
    wanted = durations(WORKLOADS[log.workload], log.tables)
    assert summed(rows) == {
        key: (len(found), sum(found), min(found), max(found)) for key, found in wanted.items()
    }


def test_the_sums_are_those_worked_out_by_hand(shelf: Shelf) -> None:
    found = summed(totals_of(shelf.profile(FOLDER / "basic-2025.txt")))
    for (_, kernel), answer in EXPECTED["basic"]["kernels"].items():
        assert found["kernel", None, kernel][:2] == (answer.kernel_count, answer.sum_ns)
    (launches, by_mode) = (found["api_call", "runtime", name] for name in
                           ("cudaLaunchKernel", "cudaLaunchKernel_ptsz"))  # fmt: skip
    of_both = EXPECTED["basic"]["api"]["runtime", "cudaLaunchKernel"]
    assert (launches[0] + by_mode[0], launches[1] + by_mode[1]) == (
        of_both.call_count,
        of_both.api_sum_ns,
    )


def _medians_and_deviations(shelf: Shelf, name: str) -> None:
    """To the decimal that is printed; none before 2021.5, and none of several rows."""
    log = STATS[name]
    wanted = durations(WORKLOADS[log.workload], log.tables)
    rows = [row for row in totals_of(shelf.profile(FOLDER / name)) if row["kind"] != "range"]
    alone = [row for row in rows if [key_of(r) for r in rows].count(key_of(row)) == 1]
    for row in alone:
        found = wanted[key_of(row)]
        if log.age in ("2022", "2025"):
            assert row["med_ns"] == statistics.median(found)
        else:
            assert "med_ns" not in row
        if log.age != "2019" and log.age != "2020":
            deviation = statistics.stdev(found) if len(found) > 1 else 0
            assert row["stddev_ns"] == pytest.approx(deviation, abs=0.051)
        else:
            assert "stddev_ns" not in row


def _bytes_are_as_exact_as_they_are_printed(shelf: Shelf, name: str) -> None:
    log, events = STATS[name], WORKLOADS[STATS[name].workload].events
    sizes: dict[tuple[str, str], list[int]] = {}
    for kind, items in (("memcpy", events.memcpys), ("unified_memory", events.migrations),
                        ("memset", events.memsets)):  # fmt: skip
        for item in items:
            sizes.setdefault((kind, getattr(item, "direction", "")), []).append(item.bytes)
    profile, kinds = shelf.profile(FOLDER / name), ("memcpy", "memset", "unified_memory")
    rows = [row for row in totals_of(profile) if row["kind"] in kinds]
    rounded = "rounded-bytes" in slugs(profile)
    for row in rows:
        if "sizes" not in log.tables:
            assert "bytes_sum" not in row
            continue
        # Thousandths of MB are thousands of bytes, those of KiB less than two.
        off = 500 if log.age in ("2021", "2022", "2025") else 1
        found = sizes[row["kind"], row.get("direction") or ""]
        assert (row["bytes_sum"], row["bytes_min"], row["bytes_max"]) == pytest.approx(
            (sum(found), min(found), max(found)), abs=off)  # fmt: skip
    assert rounded == ("sizes" in log.tables and log.age in ("2021", "2022", "2025") and bool(rows))


def _facts_of_totals(shelf: Shelf, name: str) -> None:
    log = STATS[name]
    kinds = {kind for kind, _, _ in durations(WORKLOADS[log.workload], log.tables)}
    wanted = {Fact.API_TOTALS} if "api_call" in kinds else set()
    if "kernel" in kinds:
        wanted.add(Fact.KERNEL_TOTALS)
    # Of the workload without copies nsys says that there are none.
    if "memcpy" in kinds or ("kernel" in kinds and "copies" in log.tables):
        wanted.add(Fact.MEMORY_TOTALS)
    if "unified_memory" in kinds:
        wanted.add(Fact.UNIFIED_MEMORY_TOTALS)
    if {"ranges", "push_pop"} & set(log.tables) and WORKLOADS[log.workload].events.ranges:
        wanted.add(Fact.RANGE_TOTALS)
    profile = shelf.profile(FOLDER / name)
    assert profile.facts == wanted
    assert ("no-gpu-work" in slugs(profile)) == (log.workload == "no_gpu")


def _ranges(shelf: Shelf, name: str) -> None:
    """Of each style and name; those of the domain without a name are called by their text."""
    if "ranges" not in STATS[name].tables:
        return
    events = WORKLOADS[STATS[name].workload].events
    domains = {domain.domain_id: domain.name for domain in events.domains}
    last = max(item.end_ns or item.start_ns for item in events.ranges)
    wanted: dict[tuple[str, str], list[int]] = {}
    for item in events.ranges:
        if item.style != "mark":
            text = f"{domains[item.domain_id]}:{item.text}" if item.domain_id else item.text
            end = last if item.end_ns is None else item.end_ns
            wanted.setdefault((item.style, text), []).append(end - item.start_ns)
    found = [row for row in totals_of(shelf.profile(FOLDER / name)) if row["kind"] == "range"]
    assert in_any_order(
        [(row["name"], row["count"], row["sum_ns"]) for row in found]
    ) == in_any_order([(text, len(durations), sum(durations)) for (_, text), durations in wanted.items()])


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_summary_says_what_the_workload_adds_up_to(shelf: Shelf, name: str) -> None:
    for check in (_totals_are_those_of_the_workload, _medians_and_deviations,
                  _bytes_are_as_exact_as_they_are_printed, _facts_of_totals, _ranges):  # fmt: skip
        check(shelf, name)


# -- traces


def moment(event: Any) -> Row:
    return {"start_ns": event.start_ns, "dur_ns": event.end_ns - event.start_ns}


def trace_rows(workload: Workload, pid: int | None) -> dict[str, list[Row]]:
    """The rows that the trace of the GPU must give."""
    events = workload.events

    def on(event: Any) -> Row:
        stream = event.stream
        return moment(event) | {"pid": pid, "device_id": stream.ordinal, "context_id": stream.context_id,
                                "stream_id": stream.stream_id,
                                "correlation_id": event.correlation_id or None}  # fmt: skip

    return {
        "kernel": [on(k) | {
            "name": k.function.demangled, "grid_x": k.grid[0], "grid_y": k.grid[1], "grid_z": k.grid[2],
            "block_x": k.block[0], "block_y": k.block[1], "block_z": k.block[2],
            "registers_per_thread": k.registers, "static_shared_bytes": None,
            "dynamic_shared_bytes": None} for k in events.kernels],
        "memcpy": [on(c) | {"bytes": c.bytes, "direction": c.direction, "src_kind": MEMORY[c.src_kind],
                            "dst_kind": MEMORY[c.dst_kind]} for c in events.memcpys],
        # Without a duration there is no throughput: 0.000 MB is all that is told.
        "memset": [on(m) | {"bytes": 0, "memory_kind": MEMORY[m.kind]} for m in events.memsets],
        "unified_memory_event": [
            moment(m) | {"pid": pid, "device_id": m.ordinal, "bytes": m.bytes, "direction": m.direction}
            for m in events.migrations],
    }  # fmt: skip


def like(found: list[Row], wanted: list[Row]) -> list[Row]:
    """The wanted rows with null for what they do not speak of."""
    return [dict.fromkeys(found[0] if found else (), None) | row for row in wanted]


@pytest.mark.parametrize("name", TRACES)
def test_rows_are_those_of_the_workload(shelf: Shelf, name: str) -> None:
    log = STATS[name]
    workload = WORKLOADS[log.workload]
    calls = "api_trace" in log.tables
    pid = workload.processes[0].pid if calls else None
    profile = shelf.profile(FOLDER / name)
    for table, rows in trace_rows(workload, pid).items():
        wanted = rows if "gpu_trace" in log.tables else []
        found = event_rows(profile, table)
        assert in_any_order(found) == in_any_order(like(found, wanted)), table
    wanted = [
        moment(call) | {"pid": call.thread.process.pid, "tid": call.thread.tid, "layer": call.layer,
                        "name": function(call.symbol), "correlation_id": call.correlation_id,
                        "result": call.result}
        for call in workload.events.calls] if calls else []  # fmt: skip
    found = event_rows(profile, "api_call")
    assert in_any_order(found) == in_any_order(like(found, wanted))
    assert (Fact.API_LINKS in profile.facts) == (len(log.tables) == 2)
    assert (Fact.THREADS in profile.facts) == calls
    if "gpu_trace" in log.tables:
        (device,) = profile.rows("device")
        assert (device["device_id"], device["ordinal"]) == (0, 0)
        assert device["name"] == workload.devices[0].name
    if calls:
        assert [(row["pid"], row["tid"], row["name"]) for row in profile.rows("thread")] == [
            (pid, workload.threads[0].tid, workload.threads[0].name)]  # fmt: skip


# -- beside exports


def by(rows: list[Row], keys: tuple[str, ...], sums: tuple[str, ...]) -> dict[tuple[Any, ...], list[int]]:
    """The rows added up over what totals do not tell apart."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for row in rows:
        if row.get("name") == "[no API call]":
            continue
        into = found.setdefault(tuple(row[key] for key in keys), [0] * len(sums))
        for place, column in enumerate(sums):
            into[place] += row[column]
    return found


COMPARED = [name for name in SUMMARIES
            if set(STATS[name].tables) >= {"api", "kernels", "copies", "sizes"}]  # fmt: skip


@pytest.mark.parametrize("name", few(COMPARED, 3))
def test_reports_are_those_of_the_export(name: str) -> None:
    log = STATS[name]
    of_kernels = (("name",), ("kernel_count", "kernel_sum_ns"))
    of_copies = (("direction",), ("memcpy_count", "memcpy_sum_ns"))
    of_calls = (("layer", "name"), ("call_count", "api_sum_ns"))
    compared = {"kernels": of_kernels, "transfers": of_copies, "api_vs_kernel": of_calls}
    if log.workload == "no_gpu":
        compared = {"api_vs_kernel": of_calls}
    with api.open(FOLDER / name) as ours, api.open(newest_export(log.workload)) as theirs:
        for report, (keys, sums) in compared.items():
            found, wanted = (by(p.report(report).rows(), keys, sums) for p in (ours, theirs))
            assert found == wanted, report
        if "kernels" not in compared:
            return
        (total,) = ours.report("overview").rows()
        devices = theirs.report("overview").rows()
        for column in ("kernel_count", "kernel_sum_ns", "memcpy_count", "memcpy_sum_ns", "memset_count"):
            assert total.get(column, 0) == sum(row[column] for row in devices)


def test_kernels_with_their_medians_as_the_export_has_them() -> None:
    """One device: all figures but the order of columns; deviations to a decimal."""
    columns = ("name", "kernel_pct", "avg_ns", "med_ns", "min_ns", "max_ns")
    with api.open(FOLDER / "basic-2025.csv") as ours, api.open(newest_export("basic")) as theirs:
        found, wanted = (p.report("kernels").rows() for p in (ours, theirs))
    assert [[row[c] for c in columns] for row in found] == [[row[c] for c in columns] for row in wanted]
    assert [row["stddev_ns"] for row in found] == pytest.approx(
        [row["stddev_ns"] for row in wanted], abs=0.051)  # fmt: skip


def test_kernels_by_grid_have_no_median_of_several_rows() -> None:
    """saxpy ran with two grids: 10 and 5 us."""
    with api.open(FOLDER / "basic-2022.txt") as profile:
        rows = {row["name"]: row for row in profile.report("kernels").rows()}
    saxpy, stencil = (
        next(row for name, row in rows.items() if word in name) for word in ("saxpy", "stencil")
    )
    figures = ("kernel_count", "kernel_sum_ns", "min_ns", "max_ns", "med_ns", "stddev_ns")
    assert [saxpy[figure] for figure in figures] == [2, 15_000, 5_000, 10_000, None, None]
    assert (stencil["med_ns"], stencil["stddev_ns"]) == (2500.0, 2121.3)


def test_joined_traces_answer_as_the_export() -> None:
    files = [FOLDER / f"basic-2025-cuda_{which}_trace.csv" for which in ("gpu", "api")]
    with imported_together(files) as profile:
        assert Fact.API_LINKS in profile.profile.facts
        with api.open(newest_export("basic")) as theirs:
            for report in ("api_vs_kernel", "kernels"):
                found, wanted = (p.report(report).rows() for p in (profile, theirs))
                for rows in (found, wanted):
                    rows[:] = [{k: v for k, v in r.items() if k not in ("profile", "rank")} for r in rows]
                assert found == wanted, report


@contextmanager
def imported_together(files: list[Path]) -> Iterator[api.OpenProfile]:
    """The one profile of several files."""
    with TemporaryDirectory() as folder:
        store = Path(folder) / "store.db"
        result = api.import_files(files, store, join=True)
        assert not result.errors, result.errors
        with api.open(store) as profile:
            yield profile


def test_tables_of_one_recording_in_several_files_are_joined() -> None:
    files = [FOLDER / "basic-2021-gpukernsum.csv", FOLDER / "basic-2025-cuda_api_sum.json"]
    with imported_together(files) as profile:
        assert profile.profile.facts == {Fact.KERNEL_TOTALS, Fact.API_TOTALS}


def test_files_with_the_same_table_are_of_two_recordings(tmp_path: Path) -> None:
    files = [FOLDER / "basic-2021-gpukernsum.csv", FOLDER / "basic-2025.csv"]
    result = api.import_files(files, tmp_path / "store.db", join=True)
    assert "cuda_gpu_kern_sum is in another" in str(result.errors)


# -- numbers

LOCALES = {
    "none": PLAIN, "English": ENGLISH, "German": GERMAN, "French": FRENCH, "Swiss": SWISS,
    "no-break": Locale("\u00a0", ","), "apostrophe": Locale("'", "."), "spaces": Locale(" ", ","),
    "fours": FOURS, "Indian": INDIAN,
}  # fmt: skip
every_locale = pytest.mark.parametrize("locale", LOCALES.values(), ids=LOCALES)


@every_locale
@given(values=st.lists(st.integers(0, 1 << 62), min_size=1, max_size=4))
def test_whole_numbers_read_back_in_every_locale(locale: Locale, values: list[int]) -> None:
    """Alone or among others: the column says that they are whole."""
    texts = [number(value, locale) for value in values]
    spelled = number_format((text, CellKind.WHOLE) for text in texts)
    read = [spelled.number(text, CellKind.WHOLE) for text in texts]
    assert read == [SpelledNumber(Fraction(value), 0) for value in values]


@every_locale
@given(values=st.lists(st.integers(0, 1 << 60), min_size=1, max_size=4), places=st.sampled_from([1, 3]))
def test_decimals_read_back_in_every_locale(locale: Locale, values: list[int], places: int) -> None:
    """Means have one decimal, sizes three."""
    holds = CellKind.THOUSANDTHS if places == 3 else CellKind.ANY
    texts = [number(Decimal(value).scaleb(-places), locale) for value in values]
    spelled = number_format((text, holds) for text in texts)
    read = [spelled.number(text, holds) for text in texts]
    assert read == [SpelledNumber(Fraction(value, 10**places), places) for value in values]


@pytest.mark.parametrize(
    ("others", "value"),
    [(["100.0"], (1.234, 3)), (["100,0"], (1234, 0)), (["1.234.567"], (1234, 0)),
     (["1,234,567"], (1.234, 3)), (["1.234,5"], (1234, 0)), (["1,2345,6789"], (1.234, 3))],
)  # fmt: skip
def test_an_ambiguous_number_is_read_as_the_other_cells_are(
    others: list[str], value: tuple[float, int]
) -> None:
    spelled = number_format((text, CellKind.ANY) for text in [*others, "1.234"])
    found = spelled.number("1.234", CellKind.ANY)
    assert found is not None
    assert (float(found.value), found.decimals) == value


@pytest.mark.parametrize(("text", "likely"), [("1.234", 1.234), ("1,2345", 1.2345)])
def test_an_ambiguous_number_alone_is_left_out(text: str, likely: float) -> None:
    """But in CSV and JSON, which have points."""
    cells = [(each, CellKind.ANY) for each in (text, "7", "12")]
    assert number_format(cells).number(text, CellKind.ANY) is None
    assert number_format(cells).is_ambiguous(text, CellKind.ANY)
    assert not number_format(cells).is_ambiguous("7", CellKind.ANY)
    pointed = number_format([(text.replace(",", "."), CellKind.ANY)], has_points=True)
    found = pointed.number(text.replace(",", "."), CellKind.ANY)
    assert found is not None and float(found.value) == likely


@pytest.mark.parametrize(
    "text",
    ["", "n/a", "-", "1.2.3,4", "1,23,4", "1,2345,678", "12 34", "1 2345", "1e5", "…", "1.234x"],
)
def test_other_cells_are_no_numbers(text: str) -> None:
    assert number_format([]).number(text, CellKind.ANY) is None


def test_names_keep_their_symbols_and_are_shown_as_documented() -> None:
    assert plain_api_name("cudaLaunchKernelExC_v11060") == "cudaLaunchKernelExC"


def test_a_report_of_ours_is_no_profile(tmp_path: Path) -> None:
    documents = (f'{{"format": {form}, "reports": []}}' for form in (1, 2))
    for content in (*documents, "profile,rank,device_id,name,kernel_count\n"):
        (tmp_path / "report").write_text(content)
        with (
            pytest.raises(InputError, match="a report that nsysconv wrote") as caught,
            api.open(tmp_path / "report"),
        ):
            pass
        assert "Import the file" in str(caught.value)
