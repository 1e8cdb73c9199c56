"""Repeated traces, exports, reports, ranks and logs are what is promised, with as many times the rows."""

from __future__ import annotations

import gzip
import json
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import inputs
import jobs_kineto
import jobs_nvprof
import pytest
import repeat_export
import repeat_log
import repeat_ranks
import repeat_report
import repeat_trace
from conftest import EVENTS, FIXTURES, NSYS, REAL, dump, few, import_file, real
from measure import baseline
from nsys_rep_wire import OFFSETS, Report, numbers, read_fields
from write_nsys_rep import write_report

import nsysconv

# One step of a program: an operator, its call, the arrow to its kernel, a memset, a Python function.
# Names, spaces and line breaks are odd on purpose. It lasts from 1000.250 to 1009.500 us, 9.25 us: copies
# are 10 us and 1 us apart. Ids grow by the greatest of their family and 1: links by 41 + 1, sequences by
# 4 + 1.
HEAD = """{
  "schemaVersion": 1, "baseTimeNanoseconds": 1767225600000000000,
  "deviceProperties": [ {"id": 0, "name": "NVIDIA H100"} ],
  "traceEvents": [
  {"name": "thread_name", "ph": "M", "ts": 1000.250, "pid": 0, "tid": 7, "args": {"name": "stream 7 "}},
  """
BODY = r"""{
    "ph": "X", "cat": "cpu_op", "name": "say \"ts\": 5", "pid": 77, "tid": 77,
    "ts": %d.250, "dur": 9.250,
    "args": {
      "External id": %d,"Record function id": 0, "Sequence number": %d, "Fwd thread id": 0, "Ev Idx": %d
    }
  },
  {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":77,"tid":77,"ts":%d.5,"dur":2,"args":{
    "External id": %d,  "cbid": 211,
    "correlation" : %d
  }},
  {"ph": "s", "id": %d, "pid": 77, "tid": 77, "ts": %d.5, "cat": "ac2g", "name": "ac2g"},
  {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": %d, "dur": 3.000, "args": {
    "External id": %d, "device": 0, "context": 1, "stream": 7, "correlation": %d, "grid": [1, 1, 1]}},
  {"ph": "f", "id": %d, "pid": 0, "tid": 7, "ts": %d, "cat": "ac2g", "name": "ac2g", "bp": "e"},
  {"ph": "X", "cat": "gpu_memset", "name": "Memset (Device)", "pid": 0, "tid": 7, "ts": %d, "dur": 1,
   "args": {"device": 0, "context": 1, "stream": 7, "correlation": 0, "bytes": 8}},
  {"ph": "X", "cat": "python_function", "name": "f.py(1): f", "pid": 77, "tid": 77, "ts": %d, "dur": 1,
   "args": {"Python parent id": null, "Python id": %d, "Ev Idx": %d}}"""
TAIL = """,
  {"name": "process_name", "ph": "M", "ts": 1000.250, "pid": 77, "tid": 0, "args": {"name": "python"}},
  {"ph": "X", "cat": "Trace", "ts": 1000, "dur": 11, "pid": "Spans", "tid": "P", "name": "P (0)"},
  {"name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": 1011}
  ],
  "traceName": "t.json"
}
"""
FIRST = (1000, 12, 4, 0, 1001, 12, 41, 41, 1001, 1004, 12, 41, 41, 1004, 1008, 1002, 5, 1)
SECOND = (1011, 54, 9, 2, 1012, 54, 83, 83, 1012, 1015, 54, 83, 83, 1015, 1019, 1013, 11, 3)
THIRD = (1022, 96, 14, 4, 1023, 96, 125, 125, 1023, 1026, 96, 125, 125, 1026, 1030, 1024, 17, 5)
TEXT = HEAD + BODY % FIRST + TAIL
FIXTURE_TRACES = sorted((FIXTURES / "kineto" / name) for name in (
    "training-1.9.json", "training-2.5.json.gz", "training-2.13.json", "recorded-training.json.gz",
    "odd-reprinted.json.gz", "odd-compact.json"))  # fmt: skip


def repeated(text: str, copies: int, *, metadata: bool = False) -> str:
    return "".join(repeat_trace.Trace.of(text, metadata=metadata).pieces(copies))


def stored(text: str, folder: Path) -> Path:
    """A store of a trace of this text."""
    folder.mkdir()
    (folder / "trace.json").write_bytes(text.encode("latin-1"))
    import_file(folder / "trace.json", folder / "store.db")
    return folder / "store.db"


def asked(store: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(f"{store.as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


def counts(store: Path, tables: Iterable[str] = EVENTS) -> dict[str, int]:
    """How many rows tables have, those that have some."""
    rows = dump(store)
    return {table: len(rows[table]) for table in tables if rows[table]}


def test_only_times_and_ids_differ_from_copy_to_copy() -> None:
    assert repeated(TEXT, 1) == TEXT
    between = ",\n  "
    assert repeated(TEXT, 3) == (
        HEAD + BODY % FIRST + between + BODY % SECOND + between + BODY % THIRD + TAIL
    )


def test_names_of_processes_can_be_in_each_copy() -> None:
    events = json.loads(repeated(TEXT, 3, metadata=True))["traceEvents"]
    names = [event["name"] for event in events if event["ph"] == "M"]
    assert names == ["thread_name", "process_name"] * 3
    assert [event["name"] for event in events].count("P (0)") == 1
    assert events[-3]["name"] == "process_name"


@pytest.mark.parametrize("path", FIXTURE_TRACES, ids=lambda path: path.name)
def test_a_trace_of_each_layout_is_repeated(path: Path, tmp_path: Path) -> None:
    text = repeat_trace.read(path)
    assert repeated(text, 1) == text
    assert_rows(text, tmp_path)


@real
@pytest.mark.parametrize(
    "layout",
    few([layout for layout in reversed(jobs_kineto.LAYOUTS) if layout.trace], 2),
    ids=lambda layout: layout.name,
)
def test_the_real_traces_are_repeated(layout: jobs_kineto.Layout, tmp_path: Path) -> None:
    path = inputs.real(REAL, layout.trace)
    assert path is not None
    text = repeat_trace.read(path)
    assert repeated(text, 1, metadata=layout.metadata) == text
    assert_rows(text, tmp_path)


def assert_rows(text: str, folder: Path) -> None:
    """Two copies have twice the rows, links of kernels, and correlations of calls."""
    once, twice = (stored(repeated(text, n), folder / str(n)) for n in (1, 2))
    assert counts(once)
    assert counts(twice) == {table: 2 * count for table, count in counts(once).items()}
    for query in (
        "SELECT count(*) FROM kernel JOIN api_call USING (correlation_id) WHERE correlation_id > 0",
        "SELECT count(DISTINCT correlation_id) FROM api_call WHERE correlation_id > 0",
    ):
        ((found,),), ((expected,),) = asked(twice, query), asked(once, query)
        assert found == 2 * expected


def test_the_size_is_that_asked_for_and_compressed_text_is_the_same(tmp_path: Path) -> None:
    source = tmp_path / "source.json"
    source.write_text(TEXT, encoding="ascii")
    plain, packed = tmp_path / "plain.json", tmp_path / "packed.json.gz"
    copies = repeat_trace.generate(plain, source, 200_000)
    assert plain.stat().st_size == pytest.approx(200_000, rel=0.05)
    assert copies == repeat_trace.generate(packed, source, 200_000)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert repeat_trace.generate(plain, source, 1) == 1


@pytest.mark.parametrize("name", ["basic-3.25.0", "basic-3.28.1", "cpu_side-3.28.1", "ranges-2021",
                                  "graphs-3.13.2", "two_processes_two_gpus-3.24.7"])  # fmt: skip
def test_an_export_is_repeated(name: str, tmp_path: Path) -> None:
    assert_export_rows(NSYS / f"{name}.sqlite", tmp_path)


@real
def test_a_real_export_is_repeated(tmp_path: Path) -> None:
    """One with samples, whose parts are in a table without times."""
    path = inputs.real(REAL, "hpcgroup+pipit__perlmutter-cloverleaf-cuda.sqlite")
    assert path is not None
    found = assert_export_rows(path, tmp_path)
    parts = "SELECT count(*) FROM SAMPLING_CALLCHAINS JOIN COMPOSITE_EVENTS USING (id)"
    assert asked(found, parts) == [(3 * asked(path, parts)[0][0],)]


def assert_export_rows(source: Path, folder: Path) -> Path:
    """Three copies have three times the rows and links, in the same tables; returns the copies."""
    target = folder / "repeated.sqlite"
    ((kernels,),) = asked(source, f"SELECT count(*) FROM {repeat_export.KERNELS}")
    assert repeat_export.generate(target, source, 3 * kernels - 1) == 3
    tables = "SELECT name, sql FROM sqlite_master ORDER BY name"
    assert asked(target, tables) == asked(source, tables)
    texts = "SELECT * FROM StringIds ORDER BY id"
    assert asked(target, texts) == asked(source, texts)
    import_file(source, folder / "once.db")
    import_file(target, folder / "thrice.db")
    once, thrice = counts(folder / "once.db"), counts(folder / "thrice.db")
    assert thrice == {table: 3 * count for table, count in once.items()}
    links = ("SELECT count(*), count(DISTINCT correlation_id) FROM kernel "
             "JOIN api_call USING (profile_id, correlation_id)")  # fmt: skip
    assert asked(folder / "thrice.db", links) == [
        tuple(3 * count for count in asked(folder / "once.db", links)[0])
    ]
    spans = "SELECT min(start_ns), max(start_ns + dur_ns) FROM kernel"
    (first, last), (begin, end) = (asked(folder / name, spans)[0] for name in ("thrice.db", "once.db"))
    assert first == begin
    extent = (last - end) // 2
    assert extent > end - begin
    return target


# -- reports


def _events(report: Path, *, once: bool) -> Counter[bytes]:
    """Events of a report, and how often each; `once`: only processes and diagnostics."""
    found = Report.read(report.read_bytes()).samples()
    every = (event for block in found.events for event in block.fields(1))
    kinds = ((max(number for number, _, _ in read_fields(event)), event) for event in every)
    return Counter(event for kind, event in kinds if (kind in (110, 113)) == once)


REPORTS = ("basic-3.25.0", "basic-2021", "graphs-3.24.0", "nccl-3.25.0", "ranges-3.16.1",
           "two_processes_one_gpu-3.13.2")  # fmt: skip


@pytest.mark.parametrize("name", few(REPORTS, 2))
def test_a_repeated_report_is_the_report_of_a_repeated_export(name: str, tmp_path: Path) -> None:
    export = NSYS / f"{name}.sqlite"
    once, twice = tmp_path / "once.nsys-rep", tmp_path / "twice.nsys-rep"
    write_report(export, once)
    ((kernels,),) = asked(export, f"SELECT count(*) FROM {repeat_export.KERNELS}")
    assert repeat_report.generate(twice, once, 3 * kernels - 1) == 3
    repeat_export.generate(tmp_path / "repeated.sqlite", export, 3 * kernels - 1)
    write_report(tmp_path / "repeated.sqlite", tmp_path / "repeated.nsys-rep")
    assert _events(twice, once=False) == _events(tmp_path / "repeated.nsys-rep", once=False)
    assert _events(twice, once=True) == _events(once, once=True)


def test_a_report_has_the_strings_counts_and_times_of_its_copies(tmp_path: Path) -> None:
    once, thrice = tmp_path / "once.nsys-rep", tmp_path / "thrice.nsys-rep"
    write_report(NSYS / "basic-3.16.1.sqlite", once, block_events=20)
    assert repeat_report.generate(once.with_name("same.nsys-rep"), once, 1) == 1
    assert once.with_name("same.nsys-rep").read_bytes() == once.read_bytes()
    copies = repeat_report.generate(thrice, once, 24)
    one, other = (Report.read(path.read_bytes()) for path in (once, thrice))
    before, after = one.samples(), other.samples()
    assert after.events[: len(before.events)] == before.events
    for name in ("strings", "targets", "threads", "rest"):
        assert getattr(after, name) == getattr(before, name)
    assert numbers(other.sections[OFFSETS])[2] == after.strings_at()
    repeated = repeat_report.Repeated.of(before)
    assert (repeated.kernels, copies) == (8, 3)
    counts = [numbers(found.counts)[1] for found in (before, after)]
    assert counts[1] == counts[0] + 2 * len(repeated.events)
    assert counts[1] == sum(len(block.fields(1)) for block in after.events)
    stops = [numbers(found.head) for found in (before, after)]
    assert stops[1][18] - stops[0][18] == 2 * repeated.steps[repeat_report.TIME]
    assert stops[1][17] == stops[0][17]


# -- ranks and logs


@pytest.mark.parametrize("age", ["3.25.0", "3.28.1"])
def test_ranks_are_of_one_job_and_one_of_them_is_late(age: str, tmp_path: Path) -> None:
    """Of 10 kernels 9 are collectives, 8 of which have partners; four copies make 40 of 34."""
    repeat_ranks.generate(tmp_path / "job", NSYS / f"nccl-{age}.sqlite", ranks=4, kernels=34)
    store = tmp_path / "job.db"
    (run,) = nsysconv.import_files([tmp_path / "job"], store, workers=1).runs
    assert (run.label, sorted(run.census.ranks)) == ("slurm-4711.0", [0, 1, 2, 3])
    summary, late = nsysconv.report_on(store, ["rank_summary", "stragglers"], by="rank", workers=1)
    ranks = [row for row in summary.table.to_pylist() if row["over_ranks"] is None]
    assert [row["kernel_count"] for row in ranks] == [40] * 4
    found = {row["rank"]: row["last_count"] for row in late.table.to_pylist()}
    assert found == {0: 0, repeat_ranks.straggler(4): 32, 2: 0, 3: 0}


LOG = """==1== NVPROF is profiling process 1, command: ./a
"Start","Duration","Size","Name"{0}
s,ms,KB,{1}
1.000100,0.150000,,"f(int) [7]"{2}
1.000300,0.050000,4.0,"[CUDA memcpy HtoD]"{3}
"""
# From 1.000100 to 1.000350: copies are 0.000250 apart, ids 9 + 1 or, without a column, 7 + 1.
AGAIN = """1.000350,0.150000,,"f(int) [{0}]"{1}
1.000550,0.050000,4.0,"[CUDA memcpy HtoD]"{2}
"""


@pytest.mark.parametrize(("cells", "again"), [
    ((',"Correlation_ID"', ",", ",7", ",9"), ("17", ",17", ",19")),
    (("", "", "", ""), ("15", "", "")),
], ids=["with a column of ids", "as of CUDA 8"])  # fmt: skip
@pytest.mark.parametrize("cut", ["", "1.000400,0.1"], ids=["whole", "cut in a row"])
def test_only_starts_and_ids_of_a_log_differ(
    cells: tuple[str, ...], again: tuple[str, ...], cut: str, tmp_path: Path
) -> None:
    source, target = tmp_path / "once.csv", tmp_path / "twice.csv"
    source.write_text(LOG.format(*cells) + cut)
    assert repeat_log.generate(target, source, 2) == 1
    assert target.read_bytes() == source.read_bytes()
    assert repeat_log.generate(target, source, 3) == 2
    assert target.read_text() == LOG.format(*cells) + AGAIN.format(*again) + cut


@pytest.mark.parametrize("name", jobs_nvprof.PEERS.values())
def test_the_peers_of_a_log_keep_all_rows(name: str, tmp_path: Path) -> None:
    source, target = tmp_path / "log.csv", tmp_path / "pandas.db"
    rows = 3 * 17
    assert repeat_log.generate(source, FIXTURES / jobs_nvprof.FIXTURE, rows) == 4
    subprocess.run(baseline(name, source, target), check=True)
    import_file(source, tmp_path / "store.db")
    ours = counts(tmp_path / "store.db")
    theirs = asked(target, 'SELECT count("Grid X"), count(*) FROM gpu_trace')
    assert theirs == [(ours["kernel"], sum(ours.values()))]
