"""Repeated traces, exports, reports, ranks and logs are what is promised, with as many times the rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import repeat_export
import repeat_log
import repeat_ranks
import repeat_report
import repeat_trace
from conftest import EVENTS, FIXTURES, NSYS, dump, few, import_file, looking
from nsys_rep_wire import Report, read_fields
from write_nsys_rep import write_report

import nsysconv


def asked(store: Path, query: str) -> list[tuple[Any, ...]]:
    with looking(store) as connection:
        return connection.execute(query).fetchall()


def counts(source: Path, tables: Iterable[str] = EVENTS) -> dict[str, int]:
    """How many rows the tables of a source's store have, those that have some; and how many links."""
    store = source.with_name(f"{source.name}.db")
    import_file(source, store)
    rows = dump(store)
    ((links,),) = asked(store, "SELECT count(*) FROM kernel JOIN api_call "
                        "USING (profile_id, correlation_id) WHERE correlation_id > 0")  # fmt: skip
    return {**{table: len(rows[table]) for table in tables if rows[table]}, "links": links}


@pytest.mark.parametrize("name", few([
    "training-1.9.json", "odd-compact.json", "training-2.5.json.gz", "training-2.13.json",
    "recorded-training.json.gz", "odd-reprinted.json.gz"], 3))  # fmt: skip
def test_a_trace_of_each_layout_is_repeated(name: str, tmp_path: Path) -> None:
    text = repeat_trace.read(FIXTURES / "kineto" / name)
    found = []
    for copies in (1, 2):
        repeated = "".join(repeat_trace.Trace.of(text, metadata=False).pieces(copies))
        assert copies > 1 or repeated == text
        path = tmp_path / f"{copies}.json"
        path.write_bytes(repeated.encode("latin-1"))
        found.append(counts(path))
    assert found[1] == {table: 2 * count for table, count in found[0].items()}


@pytest.mark.parametrize("name", few([
    "basic-3.25.0", "cpu_side-3.28.1", "ranges-2021", "graphs-3.13.2", "two_processes_two_gpus-3.24.7"],
    2))  # fmt: skip
def test_an_export_is_repeated(name: str, tmp_path: Path) -> None:
    """Three copies have three times the rows and links, one after the other."""
    source, once, target = NSYS / f"{name}.sqlite", tmp_path / "1.sqlite", tmp_path / "3.sqlite"
    once.write_bytes(source.read_bytes())
    ((kernels,),) = asked(source, f"SELECT count(*) FROM {repeat_export.KERNELS}")
    assert repeat_export.generate(target, source, 3 * kernels - 1) == 3
    assert counts(target) == {table: 3 * count for table, count in counts(once).items()}
    spans = "SELECT min(start_ns), max(start_ns + dur_ns) FROM kernel"
    (first, last), (begin, end) = (asked(Path(f"{path}.db"), spans)[0] for path in (target, once))
    assert first == begin
    assert (last - end) // 2 > end - begin


def _events(report: Path) -> Counter[bytes]:
    """Events of a report, and how often each, without processes and diagnostics."""
    found = Report.read(report.read_bytes()).samples()
    every = (event for block in found.events for event in block.fields(1))
    return Counter(event for event in every
                   if max(number for number, _, _ in read_fields(event)) not in (110, 113))  # fmt: skip


def test_a_repeated_report_is_the_report_of_a_repeated_export(tmp_path: Path) -> None:
    export = NSYS / "graphs-3.24.0.sqlite"
    once, twice = tmp_path / "once.nsys-rep", tmp_path / "twice.nsys-rep"
    write_report(export, once)
    ((kernels,),) = asked(export, f"SELECT count(*) FROM {repeat_export.KERNELS}")
    assert repeat_report.generate(twice, once, 3 * kernels - 1) == 3
    repeat_export.generate(tmp_path / "repeated.sqlite", export, 3 * kernels - 1)
    write_report(tmp_path / "repeated.sqlite", tmp_path / "repeated.nsys-rep")
    assert _events(twice) == _events(tmp_path / "repeated.nsys-rep")


def test_ranks_are_of_one_job_and_one_of_them_is_late(tmp_path: Path) -> None:
    """Of 10 kernels 9 are collectives, 8 of which have partners; four copies make 40 of 34."""
    repeat_ranks.generate(tmp_path / "job", NSYS / "nccl-3.28.1.sqlite", ranks=4, kernels=34)
    store = tmp_path / "job.db"
    (run,) = nsysconv.import_files([tmp_path / "job"], store, workers=1).runs
    assert (run.label, sorted(run.census.ranks)) == ("slurm-4711.0", [0, 1, 2, 3])
    summary, late = nsysconv.report_on(store, ["rank_summary", "stragglers"], by="rank", workers=1)
    ranks = [row for row in summary.table.to_pylist() if row["over_ranks"] is None]
    assert [row["kernel_count"] for row in ranks] == [40] * 4
    found = {row["rank"]: row["last_count"] for row in late.table.to_pylist()}
    assert found == {0: 0, repeat_ranks.straggler(4): 32, 2: 0, 3: 0}


def test_only_starts_and_ids_of_a_log_differ(tmp_path: Path) -> None:
    """From 1.000100 to 1.000350: copies are 0.000250 apart, ids 9 + 1."""
    text = """==1== NVPROF is profiling process 1, command: ./a
"Start","Duration","Size","Name","Correlation_ID"
s,ms,KB,,
1.000100,0.150000,,"f(int) [7]",7
1.000300,0.050000,4.0,"[CUDA memcpy HtoD]",9
"""
    again = """1.000350,0.150000,,"f(int) [17]",17
1.000550,0.050000,4.0,"[CUDA memcpy HtoD]",19
"""
    source, target = tmp_path / "once.csv", tmp_path / "twice.csv"
    source.write_text(text)
    assert repeat_log.generate(target, source, 3) == 2
    assert target.read_text() == text + again
