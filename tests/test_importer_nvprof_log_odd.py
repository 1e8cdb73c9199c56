"""Logs of nvprof that are damaged, mixed with output, rewritten, of counters, or of nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conftest import FIXTURES, REAL, claimed_by, event_rows, few, in_any_order, real
from importing import profiles as imported
from importing import slugs, totals_of
from machine import APPLY, REDUCE, SAXPY
from odd_nvprof_counters import DEVICES, EVENTS, INVOCATIONS, KERNELS, METRICS, PID
from odd_nvprof_logs import ODD_LOGS
from scenarios import WORKLOADS
from workload import Workload
from workload_rows import GPU_TABLES
from write_nvprof_log import gpu_trace_csv, write_log

from nsysconv import api
from nsysconv.errors import InputError, NsysconvError
from nsysconv.facts import Fact
from nsysconv.notes import Severity
from nsysconv.store.read import Profile

FOLDER = FIXTURES / "nvprof_log"
FOREIGN = "odd-nsys.txt"
LOGS = [path for path in sorted(FOLDER.iterdir()) if path.name != FOREIGN]
AS_BASIC = [name for name, (_, holds) in ODD_LOGS.items() if holds.endswith("answers as `basic`")]


@contextmanager
def odd(name: str) -> Iterator[Profile]:
    """The only profile of a file."""
    with imported(FOLDER / name) as (profile,):
        yield profile


def _said(profile: Profile) -> dict[str, Any]:
    """All rows of a log, whatever it is."""
    tables = (*GPU_TABLES, "api_call", "metric_sample")
    return {
        **{table: event_rows(profile, table) for table in tables},
        "totals": in_any_order(totals_of(profile)),
        "facts": profile.facts,
    }


@pytest.mark.parametrize("name", few(AS_BASIC, 4))
def test_answers_as_basic(name: str) -> None:
    plain = "basic-gpu-trace.csv" if name.endswith(".csv") else "basic-summary.txt"
    with imported(FOLDER / plain) as (wanted,), imported(FOLDER / name) as profiles:
        (found,) = profiles
        assert _said(found) == _said(wanted)


def test_warnings_change_no_row() -> None:
    with odd("odd-warnings.txt") as found, odd("basic-summary.txt") as wanted:
        assert _said(found) == _said(wanted)
        # The two warnings about records that have no or impossible times touch what is known.
        assert found.notes != wanted.notes


def test_output_of_nsys_is_no_log_of_nvprof() -> None:
    assert claimed_by(FOLDER / FOREIGN) == ["nsys_stats"]


NSYS = FOLDER.parent / "nsys_stats"
TABLES = "cuda_api_sum, cuda_gpu_kern_sum, cuda_gpu_mem_time_sum, cuda_gpu_mem_size_sum"


@pytest.mark.parametrize(("nvprof", "nsys", "first"), few(product(
    ["basic-summary.txt", "basic-summary.csv", "basic-both-traces.csv"],
    ["basic-2020.txt", "basic-2025.txt", "basic-2025.csv", "basic-2025.json"],
    ["nvprof", "nsys"],
), 3))  # fmt: skip
def test_tables_of_nsys_in_the_same_file_are_left_out_and_named(
    nvprof: str, nsys: str, first: str, tmp_path: Path
) -> None:
    texts = [(FOLDER / nvprof).read_text("utf-8"), (NSYS / nsys).read_text("utf-8")]
    mixed = tmp_path / "mixed"
    mixed.write_text("\n".join(texts if first == "nvprof" else texts[::-1]), encoding="utf-8")
    assert claimed_by(mixed) == ["nvprof_log"]
    with imported(mixed) as (found,), imported(FOLDER / nvprof) as (wanted,):
        assert _said(found) == _said(wanted)
        (note,) = [note for note in found.notes if note.slug == "mixed-output"]
        assert note.severity is Severity.DROPPED
        assert note.text.endswith(TABLES)


@pytest.mark.parametrize("nvprof", ["basic-summary.csv", "basic-both-traces.csv"])
def test_rows_of_nsys_are_no_broken_rows_of_the_table_above_them(nvprof: str, tmp_path: Path) -> None:
    texts = [(FOLDER / nvprof).read_text("utf-8"), (NSYS / "basic-2025.csv").read_text("utf-8")]
    (tmp_path / "mixed").write_text("\n".join(texts), encoding="utf-8")
    with imported(tmp_path / "mixed") as (found,), imported(FOLDER / nvprof) as (wanted,):
        assert slugs(found) - slugs(wanted) == {"mixed-output"}


def test_a_banner_of_nvprof_over_tables_of_nsys_alone_is_refused(tmp_path: Path) -> None:
    banner = "==42== NVPROF is profiling process 42, command: ./a\n"
    (tmp_path / "mixed").write_text(banner + (NSYS / "basic-2025.txt").read_text("utf-8"))
    with pytest.raises(InputError, match="cuda_api_sum of nsys stats") as error:
        api.open(tmp_path / "mixed")
    assert "from a file of its own" in str(error.value.hint)


@pytest.mark.parametrize("name", ["odd-nothing.txt", "odd-nothing.csv"])
def test_nothing_was_profiled(name: str, tmp_path: Path) -> None:
    """Either there is a profile without rows, or the refusal says so; never a crash."""
    try:
        with api.open(FOLDER / name) as opened:
            assert not any(event_rows(opened.profile, table) for table in GPU_TABLES)
            assert totals_of(opened.profile) == []
    except NsysconvError as error:
        assert "profiled" in str(error) or "no " in str(error)


def test_a_trace_that_ends_within_a_row() -> None:
    with odd("odd-cut.csv") as found, odd("basic-gpu-trace.csv") as whole:
        assert event_rows(found, "kernel") == event_rows(whole, "kernel")[:4]
        assert event_rows(found, "memcpy") == event_rows(whole, "memcpy")[:2]
        dropped = [note for note in found.notes if note.severity is Severity.DROPPED]
        assert sum(note.count for note in dropped) == 1


@pytest.mark.parametrize("name", ["basic-gpu-trace.csv", "basic-gpu-trace.txt"])
@pytest.mark.parametrize(("old", "new"), [
    (b"stencil [107]", b"sten\xf8il [107]"),  # a name that is not UTF-8
    (b"stencil [107]", b"sten\rcil [107]"),  # a line end of old within a name
    (b"\n172.0", b"\nd\xe9j\xe0 vu, d\xe9j\xe0 lu, \xe9tape 2\n172.0"),  # a program's output
])  # fmt: skip
def test_bytes_that_are_no_text(name: str, old: bytes, new: bytes, tmp_path: Path) -> None:
    content = (FOLDER / name).read_bytes()
    assert old in content
    (tmp_path / "trace").write_bytes(content.replace(old, new))
    with imported(tmp_path / "trace") as (profile,):
        assert len(event_rows(profile, "memcpy")) == 7
        # A line that falls apart may be lost, but is counted.
        lost = sum(note.count for note in profile.notes if note.severity is Severity.DROPPED)
        assert len(event_rows(profile, "kernel")) in (8, 8 - lost)


def test_two_tables_are_one_recording() -> None:
    with odd("odd-two-tables.csv") as found, odd("basic-both-traces.csv") as wanted:
        assert _said(found) == _said(wanted)
        assert Fact.API_LINKS in found.facts


def test_several_runs_are_several_profiles() -> None:
    with imported(FOLDER / "odd-several-runs.txt") as profiles, odd("basic-summary.txt") as plain:
        ran = [profile for profile in profiles if totals_of(profile)]
        assert [{row["pid"] for row in totals_of(profile)} for profile in ran] == [{4242}, {4310}]
        first, second = ([{**row, "pid": 0} for row in totals_of(profile)] for profile in ran)
        assert first == second == [{**row, "pid": 0} for row in totals_of(plain)]
        # The last run did nothing.
        assert len(profiles) in (2, 3)


def test_no_process() -> None:
    with odd("odd-no-process.txt") as found, odd("basic-summary.txt") as plain:
        rows, wanted = totals_of(found), totals_of(plain)
        assert all("pid" not in row for row in rows)
        for row in (*rows, *wanted):
            # Domains belong to processes.
            row.pop("pid", None)
            row.pop("domain", None)
        assert rows == wanted


def test_a_reshaped_summary() -> None:
    """Two decimals in the unit of each cell; these times need no more."""
    with odd("odd-reshaped.csv") as found, odd("basic-summary.csv") as plain:
        wanted = [{k: v for k, v in row.items() if k != "pid"} for row in totals_of(plain)
                  if row["kind"] in ("kernel", "memcpy", "memset") and "within" not in row]  # fmt: skip
        assert in_any_order(totals_of(found)) == in_any_order(wanted)
        assert found.facts >= {Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS}
        assert Fact.API_TOTALS not in found.facts


def test_symbols() -> None:
    """As names where nothing can demangle them."""
    with odd("odd-symbols.txt") as found:
        names = {row["name"] for row in totals_of(found) if row["kind"] == "kernel"}
    for function in (SAXPY, REDUCE, APPLY):
        assert names & {function.mangled, function.itanium}
    assert len(names) == 5


def test_openacc() -> None:
    with odd("odd-openacc.txt") as found, odd("basic-summary.txt") as plain:
        rows = totals_of(found)
        # To 10 ns: five digits of a mean say less of its sum.
        assert {(row["name"], row["count"], round(row["sum_ns"], -1), row["min_ns"], row["max_ns"])
                for row in rows if row["kind"] == "openacc_exclusive"} == {
            ("acc_wait@solve.c:85", 2, 5_000_000, 1_000_000, 4_000_000),
            ("acc_enqueue_launch@solve.c:85 (kernel_85_gpu)", 3, 1_500_000, 400_000, 700_000),
            ("acc_enqueue_upload@solve.c:80 (A[:n*n])", 1, 500_000, 500_000, 500_000),
            ("acc_alloc@solve.c:80", 1, 0, 0, 0),
        }  # fmt: skip
        others = [row for row in rows if row["kind"] != "openacc_exclusive"]
        assert others == totals_of(plain)
        assert found.facts == plain.facts | {Fact.DIRECTIVE_TOTALS}


# -- columns

PEER = WORKLOADS["two_processes_two_gpus"]
MANAGED = WORKLOADS["unified_memory"]


@pytest.mark.parametrize(
    ("workload", "correlation", "kinds", "columns"),
    [
        (WORKLOADS["ranges"], False, False, 15),
        (WORKLOADS["basic"], False, False, 17),
        (replace(MANAGED, events=replace(MANAGED.events, memcpys=())), True, True, 18),
        (WORKLOADS["basic"], True, True, 20),
        (PEER, False, False, 21),
        (MANAGED, True, True, 22),
        (PEER, False, True, 23),
        (PEER, True, True, 24),
    ],
)
def test_columns_follow_the_content(
    workload: Workload, correlation: bool, kinds: bool, columns: int, tmp_path: Path
) -> None:
    """Every set of columns that has been seen, and that of peer copies after CUDA 9."""
    process = workload.processes[0]
    text = gpu_trace_csv(workload, process, correlation=correlation, kinds=kinds)
    header, units = text.splitlines()[3:5]
    assert (header.count(",") + 1, units.count(",") + 1) == (columns, columns)
    write_log(tmp_path / "trace.csv", text)
    with imported(tmp_path / "trace.csv") as (profile,):
        copies = [c for c in workload.events.memcpys if c.stream.process == process]
        found = event_rows(profile, "memcpy")
        assert [(row["start_ns"], row["bytes"], row["direction"]) for row in found] == [
            (c.start_ns, c.bytes, c.direction)
            for c in sorted(copies, key=lambda c: c.start_ns)]  # fmt: skip
        kernels = [k for k in workload.events.kernels if k.stream.process == process]
        assert len(event_rows(profile, "kernel")) == len(kernels)
        assert len(event_rows(profile, "unified_memory_event")) == len(workload.events.migrations)
        if workload is PEER:
            assert [row["peer_device_id"] for row in found] == [None, 1]


# -- counters

_KINDS = {"achieved_occupancy": ("number", (0.25, 0.75, 0.5)),
          "sm_efficiency": ("%", (14.93, 100.0, 74.11)),
          "gld_throughput": ("bytes/s", (512 * 2.0**20, 2.0**31, 1.25 * 2.0**30)),
          "gld_transactions": ("number", (3840.0, 117976320.0, 59000080.0)),
          "flop_count_sp": ("number", (2.5481e10, 2.5481e10, 2.5481e10)),
          "alu_fu_utilization": ("level", (0.0, 5.0, 2.0))}  # fmt: skip


@pytest.mark.parametrize(("name", "devices"), [("odd-metrics.csv", 1), ("odd-metrics.txt", 2)])
def test_metrics(name: str, devices: int) -> None:
    with odd(name) as profile:
        rows = event_rows(profile, "metric_sample")
        assert Fact.METRICS in profile.facts
        assert Fact.KERNELS not in profile.facts
        assert [(row["device_id"], row["name"]) for row in profile.rows("device")] == [
            (number, DEVICES[0].removesuffix(" (0)")) for number in range(devices)]  # fmt: skip
    found = [(row["device_id"], row["kernel_name"], row["name"], row["description"],
              row["unit"]) for row in rows]  # fmt: skip
    assert in_any_order(found) == in_any_order([
        (device, kernel, metric, description, _KINDS[metric][0])
        for device in range(devices) for kernel in KERNELS
        for metric, description, _ in METRICS])  # fmt: skip
    assert {(row["pid"], row["kind"], row["execution_count"], row["start_ns"]) for row in rows} == {
        (PID, "metric", INVOCATIONS, None)}  # fmt: skip


@pytest.mark.parametrize(("name", "kernels"), [("odd-events.csv", 2), ("odd-events.txt", 1)])
def test_events(name: str, kernels: int) -> None:
    with odd(name) as profile:
        rows = event_rows(profile, "metric_sample")
    assert {(row["pid"], row["kind"], row["unit"], row["device_id"]) for row in rows} == {
        (PID, "event", "number", 0)}  # fmt: skip
    assert in_any_order([(row["kernel_name"], row["name"]) for row in rows]) == in_any_order(
        [(kernel, event) for kernel in KERNELS[:kernels] for event, _ in EVENTS])  # fmt: skip


def test_values_of_counters(tmp_path: Path) -> None:
    values = "value_min, value_max, value_avg, value_sum"
    for name, wanted in (
        ("odd-metrics.csv", {(*figures, None) for _, figures in _KINDS.values()}),
        ("odd-events.csv", {tuple(map(float, figures)) for _, figures in EVENTS}),
    ):
        store = tmp_path / f"{name}.db"
        api.import_files([FOLDER / name], store)
        report = api.sql(store, f"SELECT DISTINCT {values} FROM metric_sample")
        assert {tuple(row.values()) for row in report.rows()} == wanted


# -- the writers beside real logs


def _lines(name: str) -> set[str]:
    return set((REAL / name).read_text().splitlines())


@real
def test_headers_are_those_of_real_logs() -> None:
    """Words, quotes, order and alignment."""
    basic = [(FOLDER / f"basic-{kind}").read_text().splitlines() for kind in
             ("gpu-trace-cuda8.csv", "summary.txt")]  # fmt: skip
    trace, summary = basic
    text = "nvprof_text/ynan1+aws_gpu__profile_softmax_1stream_sz-3e7_thd-1024_blckeq_v2.txt"
    assert trace[3] in _lines("nvprof_csv/leimingyu+magus__histogram_trace.csv")
    assert summary[3] in _lines(text)
    managed = (FOLDER / "unified_memory-summary.txt").read_text().splitlines()
    assert managed[managed.index('Device "NVIDIA A100-SXM4-40GB (0)"') + 1] in _lines(text)
    for name, original in (
        ("odd-metrics.csv", "nvprof_csv/leimingyu+magus__metrics_rodinia_hybridsort.csv"),
        ("odd-metrics.txt", "nvprof_text/xstupi00+N-Body-OpenACC__profile.out"),
    ):
        assert (FOLDER / name).read_text().splitlines()[7] in _lines(original)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_a_traces_rows_says_nothing(seed: int, tmp_path: Path) -> None:
    """Starts count from the recording's, whichever row comes first."""
    source = FOLDER / "basic-gpu-trace.csv"
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    places = [place for place, line in enumerate(lines) if line[:1].isdigit()]
    for place, row in zip(places, Random(seed).sample([lines[p] for p in places], len(places)),
                          strict=True):  # fmt: skip
        lines[place] = row
    shuffled = tmp_path / "shuffled.csv"
    shuffled.write_text("".join(lines), encoding="utf-8")
    with imported(source) as (one,), imported(shuffled) as (other,):
        starts = [[sorted(row["start_ns"] for row in event_rows(profile, table))
                   for table in ("kernel", "memcpy", "memset")] for profile in (one, other)]  # fmt: skip
        assert starts[0] == starts[1]
        assert one.attributes["recording_ns"] == other.attributes["recording_ns"]


# -- names whose commas are not quoted

# A cell in quotes that holds commas within the brackets of a function.
QUOTED_NAME = re.compile(r'"([^",\n]*[<(][^"\n]*,[^"\n]*)"')
WITH_COMMAS = [path.name for path in LOGS
               if path.suffix == ".csv" and "utf16" not in path.name
               and QUOTED_NAME.search(path.read_text("utf-8", "replace"))]


@pytest.mark.parametrize("name", few(WITH_COMMAS, 3))
def test_names_are_read_whole_without_quotes(name: str, tmp_path: Path) -> None:
    """Also where other columns follow the name."""
    text = (FOLDER / name).read_text("utf-8")
    (tmp_path / name).write_text(QUOTED_NAME.sub(r"\1", text), "utf-8")
    with imported(FOLDER / name) as quoted, imported(tmp_path / name) as bare:
        for one, other in zip(bare, quoted, strict=True):
            said, expected = _said(one), _said(other)
            assert said.pop("facts") == expected.pop("facts")
            assert {table: in_any_order(rows) for table, rows in said.items()} == {
                table: in_any_order(rows) for table, rows in expected.items()}  # fmt: skip
            assert "line-unreadable" not in slugs(one) - slugs(other)


@pytest.mark.parametrize(("name", "column", "facts"), [
    ("basic-gpu-trace.csv", 0, {Fact.KERNELS}), ("basic-summary.csv", 2, {Fact.KERNEL_TOTALS}),
])  # fmt: skip
def test_what_of_no_row_could_be_read_is_not_known_to_be_nothing(
    name: str, column: int, facts: set[Fact], tmp_path: Path
) -> None:
    """Numbers with decimal commas: a cell too many that is not part of a name."""
    lines = (FOLDER / name).read_text("utf-8").splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(('"Start"', '"Type"'))) + 2
    spoilt = [line if i < begin or "[CUDA" in line or "API" in line
              else ",".join([*(cells := line.split(","))[: column + 1], "5", *cells[column + 1:]])
              for i, line in enumerate(lines)]  # fmt: skip
    (tmp_path / name).write_text("\n".join(spoilt) + "\n", "utf-8")
    with imported(FOLDER / name) as (whole, *_), imported(tmp_path / name) as (profile, *_):
        assert facts <= whole.facts
        assert not facts & profile.facts
        assert "line-unreadable" in slugs(profile)
