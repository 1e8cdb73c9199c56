"""Results of rocprof: the program of scripts/fixtures_rocprof.py, what goes wrong, and real files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, NSYS, REAL, changed, claimed_by, event_rows, few, name_of, real
from fixtures_rocprof import FILL, GPU, PID, ZERO, totals
from importing import imported, notes, rows_since, told, written

from nsysconv import api
from nsysconv.api.inputs import find_inputs
from nsysconv.errors import InputError
from nsysconv.facts import Fact
from nsysconv.importers.detection import detect
from nsysconv.importers.probe import Probe
from nsysconv.importers.rocm import HSA_CALLS
from nsysconv.notes import Severity
from nsysconv.store.read import Profile

FOLDER = FIXTURES / "rocprof"
# The first call begins so long after a whole second; without calls, so do the kernels.
FIRST = 500
TIMED = ["kernels.db", "odd-old.db", "results.csv", "odd-utf16.csv", "v2.csv", "counters-times.csv"]

rows = rows_since(FIRST)

Row = dict[str, Any]


def added(profile: Profile) -> list[tuple[Any, ...]]:
    """Totals: kind, layer, direction, name, count and sum."""
    names = {row["id"]: row["text"] for row in profile.rows("name")}
    return [
        (*(row[word] for word in ("kind", "layer", "direction")), names.get(row["name_id"]),
         row["count"], row["sum_ns"])
        for row in profile.rows("aggregate")
    ]  # fmt: skip


# -- what the rows become


@pytest.mark.parametrize("name", TIMED)
def test_kernels_of_databases_and_tables_are_the_same(name: str) -> None:
    """Without quotes and `.kd`; work-items become blocks, rounded up; registers of both kinds add up."""
    with imported(FOLDER / name) as profile:
        found = rows(profile, "kernel", "start_ns", "dur_ns", "name", "grid_x", "block_x", "grid_y",
                     "device_id", "stream_id", "pid", "registers_per_thread", "shared_bytes",
                     "local_bytes_per_thread", "correlation_id")  # fmt: skip
        where = (None, GPU, 0, PID, 20, 512, 0, None)
        assert found[0] == (4000, 2000, "saxpy(float*, float)", 4, 256, *where)
        assert found[1][:2] == (6000, 1000)
        assert found[1][2] in ("reduce(float*)", "_Z6reducePf")
        assert found[1][3:] == (2, 64, *where)
        assert found[2] == (7800, 100, FILL.removesuffix(".kd"), 1, 64, *where)
        assert notes(profile)["copies-as-kernels"] == [(Severity.INFO, 1, "")]
        assert Fact.KERNELS in profile.facts
        assert profile.facts.isdisjoint({Fact.MEMCPYS, Fact.API_CALLS, Fact.API_LINKS, Fact.UTC})
        assert profile.attributes["zero_utc_ns"] is None
        assert profile.attributes["recording_ns"] == FIRST + 7900
        assert [row["device_id"] for row in profile.rows("device")] == [GPU]


def test_columns_of_other_versions_are_no_counters(tmp_path: Path) -> None:
    """Of rocprofv2 in ROCm 5, and of rocprof-compute."""
    path = written(
        tmp_path,
        "Dispatch_ID,GPU_ID,Queue_ID,Queue_Index,PID,TID,GRD,WGR,LDS,SCR,Arch_VGPR,ACCUM_VGPR,SGPR,"
        "wave_size,SIG,OBJ,Kernel_ID,Kernel_Name,Start_Timestamp,End_Timestamp,Correlation_ID,SQ_WAVES\n"
        '1,2,0,1,10,10,512,256,0,0,8,8,16,64,0,0,3,"f(int, int)",1000,1500,0,7\n',
    )
    with imported(path) as profile:
        (kernel,) = event_rows(profile, "kernel")
        assert (kernel["grid_x"], kernel["block_x"], kernel["registers_per_thread"]) == (2, 256, 16)
        names = {row["id"]: row["text"] for row in profile.rows("name")}
        assert [names[row["name_id"]] for row in profile.rows("metric_sample")] == ["SQ_WAVES"]


@pytest.mark.parametrize("name", ["counters.csv", "counters.db"])
def test_kernels_of_which_only_counters_were_recorded_have_no_time(name: str) -> None:
    with imported(FOLDER / name) as profile:
        found = rows(profile, "kernel", "start_ns", "dur_ns", "block_x")
        assert found == [(None, None, 256), (None, None, 64), (None, None, 64)]
        names = {row["id"]: row["text"] for row in profile.rows("name")}
        samples = [
            (names[row["kernel_name_id"]], names[row["name_id"]], row["value_sum"],
             row["execution_count"])
            for batch in profile.batches("metric_sample", 100) for row in batch.to_pylist()
        ]  # fmt: skip
        assert [s for s in samples if s[0] == "saxpy(float*, float)"] == [
            ("saxpy(float*, float)", "SQ_WAVES", 16.0, 1),
            ("saxpy(float*, float)", "TCC_HIT[0]", 0.5, 1)]  # fmt: skip
        assert len(samples) == 6
        assert profile.facts == {Fact.KERNELS, Fact.METRICS}
        assert notes(profile)["kernels-serialized"] == [(Severity.APPROXIMATED, 3, "")]


def test_counters_of_executions_are_added(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    text = (FOLDER / "counters.csv").read_text()
    path.write_text(text + text.splitlines()[1].replace(",16,0.5", ",4,x") + "\n")
    with imported(path) as profile:
        (waves,) = (row for batch in profile.batches("metric_sample", 100) for row in batch.to_pylist()
                    if row["execution_count"] == 2)  # fmt: skip
        assert [waves[f"value_{word}"] for word in ("min", "max", "avg", "sum")] == [4, 16, 10, 20]
        assert notes(profile)["cell-unreadable"] == [(Severity.DROPPED, 1, "")]


@pytest.fixture
def trace(tmp_path: Path) -> Iterator[Profile]:
    with imported(FOLDER / "trace.db") as profile:
        yield profile


def test_a_trace_has_kernels_with_their_calls(trace: Profile) -> None:
    calls = {row["correlation_id"]: row["name"] for row in event_rows(trace, "api_call")}
    found = rows(trace, "kernel", "start_ns", "dur_ns", "correlation_id", "device_id", "pid")
    assert found == [(4000, 2000, 2, GPU, PID), (6000, 1000, 3, GPU, PID)]
    assert [calls[row[2]] for row in found] == ["hipLaunchKernel"] * 2
    assert trace.facts == {
        Fact.KERNELS, Fact.MEMCPYS, Fact.MEMSETS, Fact.SYNCS, Fact.API_CALLS, Fact.API_LINKS,
        Fact.THREADS, Fact.RANGES}  # fmt: skip


def test_a_barrier_is_not_a_kernel(trace: Profile) -> None:
    assert rows(trace, "sync", "start_ns", "dur_ns", "device_id") == [(7000, 500, GPU)]


def test_the_size_of_a_copy_is_in_the_arguments_of_its_call(trace: Profile) -> None:
    """Of two copies of one call, neither has it."""
    assert rows(trace, "memcpy", "start_ns", "dur_ns", "bytes", "direction", "correlation_id") == [
        (1000, 1500, 4096, "HtoD", 1), (7500, 100, None, "DtoD", 4),
        (7600, 200, None, "DtoD", 4)]  # fmt: skip
    assert rows(trace, "memset", "start_ns", "dur_ns", "bytes", "correlation_id") == [
        (7800, 100, None, None)]  # fmt: skip
    assert notes(trace)["copies-of-one-call"] == [(Severity.INFO, 2, "")]


def test_ranges_and_marks(trace: Profile) -> None:
    assert rows(trace, "range", "start_ns", "dur_ns", "name", "kind", "tid") == [
        (2000, 6000, "step", "push_pop", PID), (2500, None, "epoch", "mark", PID)]  # fmt: skip


def test_calls_of_hsa_are_there_when_asked_for(trace: Profile, tmp_path: Path) -> None:
    """HIP's calls contain them, and their numbers are their own."""
    assert {layer for (layer,) in rows(trace, "api_call", "layer")} == {"runtime"}
    assert notes(trace)["hsa-calls-left-out"] == [(Severity.INFO, 3, "HSA")]
    (tmp_path / "all").mkdir()
    with imported(FOLDER / "trace.db", [HSA_CALLS]) as profile:
        found = rows(profile, "api_call", "start_ns", "dur_ns", "name", "layer", "correlation_id")
        assert [row for row in found if row[3] == "driver"] == [
            (start, 50, name, "driver", None)
            for start, name in ((100, "hsa_amd_memory_async_copy"), (3100, "hsa_queue_create"),
                                (4200, "hsa_signal_wait_scacquire"))
        ]  # fmt: skip
        assert "hsa-calls-left-out" not in notes(profile)


def test_kernels_in_two_tables_count_once() -> None:
    with imported(FOLDER / "odd-both.db") as profile:
        assert rows(profile, "kernel", "start_ns", "correlation_id") == [(4000, 2), (6000, 3)]
        assert notes(profile)["kernels-in-two-tables"] == [(Severity.INFO, 3, "KERN")]


# -- totals

TOTALS = {
    "results.stats.csv": (Fact.KERNEL_TOTALS, [
        (0, None, None, "saxpy(float*, float)", 1, 2000), (0, None, None, "reduce(float*)", 2, 1001),
        (0, None, None, "__amd_rocclr_fillBufferAligned", 1, 100)]),
    "results.hip_stats.csv": (Fact.API_TOTALS, [
        (3, 0, None, "hipDeviceSynchronize", 1, 4900), (3, 0, None, "hipMemcpy", 1, 3000),
        (3, 0, None, "__hipPushCallConfiguration", 2, 1001)]),
    "results.hsa_stats.csv": (Fact.API_TOTALS, [
        (3, 1, None, "hsa_signal_wait_scacquire", 3, 4000), (3, 1, None, "hsa_queue_create", 1, 1000)]),
    "results.copy_stats.csv": (Fact.MEMORY_TOTALS, [
        (1, None, 1, None, 1, 1500), (1, None, 8, None, 2, 300), (2, None, None, None, 1, 100)]),
}  # fmt: skip


@pytest.mark.parametrize("name", TOTALS)
def test_totals_are_exact_and_nothing_else(name: str, tmp_path: Path) -> None:
    """Sums come from their own column: means are cut to whole numbers."""
    fact, expected = TOTALS[name]
    (tmp_path / "unknown").write_bytes((FOLDER / name).read_bytes())
    with imported(tmp_path / "unknown") as profile:
        assert added(profile) == expected
        assert profile.facts == {fact}


def test_barriers_are_no_kernels_in_totals_either() -> None:
    with imported(FOLDER / "results.stats.csv") as profile:
        assert notes(profile)["barriers-left-out"] == [(Severity.INFO, 1, "line 2")]
        (text,) = (note.text for note in profile.notes if note.slug == "barriers-left-out")
        assert "500 ns" in text


def test_totals_with_odd_lines(tmp_path: Path) -> None:
    path = tmp_path / "stats.csv"
    path.write_text(totals(("hipFree", 2, 30), ("hipMalloc", 1, 70)).replace("2,30", "many,30")
                    + 'note\n\n"hipInit",1,')  # fmt: skip
    with imported(path) as profile:
        assert [row[3:] for row in added(profile)] == [("hipMalloc", 1, 70)]
        assert notes(profile)["line-unreadable"] == [(Severity.DROPPED, 2, "line 3")] or (
            notes(profile)["line-unreadable"] == [(Severity.DROPPED, 2, "line 2")])  # fmt: skip
        assert notes(profile)["trace-truncated"] == [(Severity.DROPPED, 1, "line 6")]


# -- what is left out


def test_damage_of_a_database_is_counted() -> None:
    with imported(FOLDER / "odd-damaged.db") as profile:
        assert event_rows(profile, "kernel") == []
        assert rows(profile, "memcpy", "start_ns", "dur_ns", "direction") == [(None, None, "Unknown")]
        assert next(name for (name,) in rows(profile, "api_call", "name")) is None
        dropped = {
            (note.slug, note.text.partition(" were")[0]): (note.count, note.where)
            for note in profile.notes
            if note.severity == Severity.DROPPED
        }
        assert dropped == {
            ("not-a-table", "rocTX has no column Name and was not read"): (1, "rocTX"),
            ("wrong-type", "HIP: cells of pid without a number"): (1, "HIP row 2"),
            ("negative-duration", "OPS: rows that end before they start"): (1, "OPS row 1"),
            ("impossible-time", "OPS: rows more than 104 days from the others"): (1, "OPS row 2"),
            ("wrong-type", "COPY: rows whose BeginNs is not a whole number"): (1, "COPY row 1"),
            ("wrong-type", "COPY: rows whose dev-id is not a whole number"): (1, "COPY row 2"),
        }
        assert Fact.RANGES not in profile.facts
        assert notes(profile)["nameless-id"] == [(Severity.INFO, 1, "")]


def test_damage_of_a_table_is_counted() -> None:
    with imported(FOLDER / "odd-damaged.csv") as profile:
        assert rows(profile, "kernel", "dur_ns") == [(1000,)]
        found = notes(profile)
        assert found["wrong-type"] == [(Severity.DROPPED, 1, "line 2")]
        assert found["negative-duration"] == [(Severity.DROPPED, 1, "line 4")]
        assert found["line-unreadable"] == [(Severity.DROPPED, 1, "line 5")]


def test_a_cut_last_line_is_left_out() -> None:
    with imported(FOLDER / "odd-cut.csv") as profile:
        assert len(event_rows(profile, "kernel")) == 2
        assert notes(profile)["trace-truncated"] == [(Severity.DROPPED, 1, "line 4")]


@pytest.mark.parametrize(("name", "count"), [("results.csv", 3), ("counters.csv", 2)])
def test_a_last_line_without_its_end_counts_where_its_last_cell_does_not(
    name: str, count: int, tmp_path: Path
) -> None:
    """A duration is read from its times; a counter could lack digits."""
    path = tmp_path / "results.csv"
    path.write_bytes((FOLDER / name).read_bytes().rstrip())
    with imported(path) as profile:
        assert len(event_rows(profile, "kernel")) == count


@pytest.mark.parametrize("name", ["odd-empty.db", "odd-header.csv"])
def test_nothing_recorded_is_no_zero(name: str) -> None:
    with imported(FOLDER / name) as profile:
        assert profile.facts == frozenset()
        assert set(notes(profile)) == {"no-gpu-work"}


def test_calls_without_kernels_say_so(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    path.write_bytes((FOLDER / "trace.db").read_bytes())
    changed(path, "DROP TABLE OPS", "DROP TABLE COPY")
    with imported(path) as profile:
        assert profile.facts.isdisjoint({Fact.KERNELS, Fact.MEMCPYS, Fact.API_LINKS})
        assert "gpu-activity-missing" in notes(profile)


def test_one_time_far_away_does_not_move_the_zero(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    path.write_text((FOLDER / "results.csv").read_text().replace(str(ZERO + 4000), str(1 << 60)))
    with imported(path) as profile:
        assert rows(profile, "kernel", "start_ns") == [(6000,), (7800,)]
        # It ends before it starts, and would be too far away.
        assert set(notes(profile)) & {"negative-duration", "impossible-time"}


# -- other tools' files


def test_a_table_of_kernels_without_columns_is_named() -> None:
    with Probe(FOLDER / "odd-no-columns.db") as probe, pytest.raises(InputError) as caught:
        detect(probe)
    assert caught.value.what.startswith("the rocprof table KERN")


OF_ROCPROFV3 = sorted(
    path for folder in ("rocprof", "rocprofv3_csv") for path in (REAL / folder).glob("*.csv")
) or [REAL / "missing"]


@real
@pytest.mark.parametrize("path", OF_ROCPROFV3, ids=name_of)
def test_tables_of_rocprofv3_are_not_ours(path: Path) -> None:
    assert "rocprof" not in claimed_by(path)


# -- real files


@real
@pytest.mark.parametrize(
    "said", few(told("rocprof_v1/PROVENANCE_rocprof_v1.tsv"), 4), ids=lambda said: said["file"]
)
def test_real_files_hold_what_their_origin_says(said: dict[str, str]) -> None:
    path = REAL / "rocprof_v1" / said["file"]
    text = said["what it holds"]
    assert claimed_by(path) == ["rocprof"]
    with imported(path) as profile:
        assert {note.severity for note in profile.notes} <= {Severity.INFO}
        if match := re.search(r"rows (\d+), Calls (\d+), TotalDurationNs (\d+)", text):
            found = [(count, total) for *_, count, total in added(profile)]
            # Barriers are in a note.
            found += [
                (note.count, int(re.findall(r"([\d,]+) ns", note.text)[0].replace(",", "")))
                for note in profile.notes
                if note.slug == "barriers-left-out"
            ]
            sums = (len(found), *map(sum, zip(*found, strict=True)))
            assert sums == tuple(map(int, match.groups()))
            return
        match = re.search(r"(?:KERN |^rows )(\d+)(?: rows)?, sum\D*(\d+) ns", text)
        assert match is not None
        kernels = event_rows(profile, "kernel")
        found_sums = (len(kernels), sum(row["dur_ns"] for row in kernels))
        assert found_sums == tuple(map(int, match.groups()))
        assert not [row["name"] for row in kernels if '"' in row["name"] or ".kd" in row["name"]]
        if times := re.search(r"first BeginNs (\d+), last EndNs (\d+)", text):
            first, last = map(int, times.groups())
            assert profile.attributes["recording_ns"] == last - (first - 1) // 10**9 * 10**9


_NAMES = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"'
# Files of AMD's profilers: with kernels, with calls of HIP, and without either.
OF_HIP = {
    **{name: (FOLDER / name).read_bytes() for name in ("kernels.db", "trace.db", "results.stats.csv")},
    "totals of rocprof": f'{_NAMES}\n"k.kd",3,90,30,90\n"m.kd",1,10,10,10\n'.encode(),
    "totals of rocprofv3": f'{_NAMES},"MinNs","MaxNs","StdDev"\n"k",3,90,30.0,90.0,9,31,1.0\n'
                           '"m",1,10,10.0,10.0,10,10,0.0\n'.encode(),
    "a trace of rocprofv3": b'"Kind","Agent_Id","Kernel_Name","Start_Timestamp","End_Timestamp"\n'
                            b'"KERNEL_DISPATCH","Agent 4","k",1000,9000\n',
}  # fmt: skip


@pytest.mark.parametrize("name", OF_HIP)
def test_advice_is_in_the_words_of_hip(name: str, tmp_path: Path) -> None:
    """Also where no call, no kernel of the runtime and no list of GPUs say whose it is."""
    with api.open(written(tmp_path, OF_HIP[name])) as profile:
        table = profile.report("findings").table
        assert table is not None
        advice = " ".join(filter(None, table.column("advice").to_pylist()))
        assert advice
        assert not re.search("Nsight|nsys|CUDA", advice)


def test_tables_beside_their_database_are_not_read_again(tmp_path: Path) -> None:
    for source, name in (("trace.db", "results.db"), ("results.csv", "results.csv"),
                         ("results.stats.csv", "results.stats.csv")):  # fmt: skip
        (tmp_path / name).write_bytes((FIXTURES / "rocprof" / source).read_bytes())
    assert [item.path.name for item in find_inputs([tmp_path]).read] == ["results.db"]
    (tmp_path / "results.db").unlink()
    assert [item.path.name for item in find_inputs([tmp_path]).read] == ["results.csv"]
    # Another program's database of that name holds no table of rocprof's.
    (tmp_path / "results.db").write_bytes((NSYS / "basic-2.7.0.sqlite").read_bytes())
    names = {item.path.name for item in find_inputs([tmp_path]).read}
    assert names == {"results.csv", "results.db"}
