"""A file of several profiles: ranks of one job are one run, all others are told apart by their names."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, REAL, real
from golden_cases import run

import nsysconv
from nsysconv import api
from nsysconv.errors import UsageError
from nsysconv.timeline.slices import Slice

SEVERAL_RUNS = FIXTURES / "nvprof_log" / "odd-several-runs.txt"
DEFECTS = REAL / "defects"


def kernel(pid: int, device: int, ts: int) -> list[dict[str, Any]]:
    """A call of a process, and the kernel that it launches on its device."""
    shared = {"ph": "X", "ts": ts, "dur": 5}
    return [
        {**shared, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": pid, "tid": pid,
         "args": {"correlation": ts}},
        {**shared, "cat": "kernel", "name": "k", "pid": device, "tid": 7,
         "args": {"device": device, "context": 1, "stream": 7, "correlation": ts}},
    ]  # fmt: skip


def thread_name(pid: int, **more: Any) -> dict[str, Any]:
    """What tells a thread's name; of traces that were fused, the rank as well."""
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": pid, "ts": 0,
            "args": {"name": f"thread {pid} (python)", **more}}  # fmt: skip


@pytest.fixture
def fused(tmp_path: Path) -> Path:
    """A trace of ranks 1 and 0 that were fused into one: rank 1 stands first, rank 0 has two kernels."""
    path = tmp_path / "fused.json"
    events = [
        thread_name(100001, rank=1, pid_raw=1), *kernel(100001, 11, 20),
        thread_name(2, rank=0, pid_raw=2), *kernel(2, 3, 30), *kernel(2, 3, 50),
    ]  # fmt: skip
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    return path


@pytest.fixture
def apart(tmp_path: Path) -> Path:
    """A trace of two processes of which no rank is known; the first has nothing of a GPU."""
    path = tmp_path / "apart.json"
    stray = {"ph": "X", "cat": "user_annotation", "name": "a", "pid": 9, "tid": 9, "ts": 1, "dur": 1}
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [stray, *kernel(5, 0, 10)]}))
    return path


def counts(target: Path | str) -> list[tuple[Any, Any]]:
    """Rank and count of each row of kernels."""
    (report,) = api.report_on(target, ["kernels"], by="rank")
    return [(row["rank"], row["kernel_count"]) for row in report.rows()]


def imported(path: Path, tmp_path: Path) -> Path:
    """The store of a file."""
    store = tmp_path / "job.db"
    api.import_files([path], store)
    return store


def test_ranks_in_one_file_are_answered_together(fused: Path, tmp_path: Path) -> None:
    assert counts(fused) == counts(imported(fused, tmp_path)) == [(0, 2), (1, 1)]


def test_ranks_in_one_file_are_one_run_of_its_name(fused: Path, tmp_path: Path) -> None:
    rows = nsysconv.runs(imported(fused, tmp_path)).rows()
    assert [(row["run"], row["label"]) for row in rows] == [
        ("fused", "fused-pid100001"),
        ("fused", "fused-pid2"),
    ]


def test_ranks_in_files_of_one_folder_are_one_run(fused: Path, tmp_path: Path) -> None:
    folder = tmp_path / "job"
    folder.mkdir()
    fused.rename(folder / "a.json")
    text = (folder / "a.json").read_text()
    more = text.replace('"rank": 0', '"rank": 2').replace('"rank": 1', '"rank": 3')
    (folder / "b.json").write_text(more)
    rows = nsysconv.runs(imported(folder, tmp_path)).rows()
    assert {row["run"] for row in rows} == {"job"}
    assert sorted(row["ranks"] for row in rows) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("stored", [False, True], ids=["in place", "stored"])
def test_other_profiles_of_one_file_are_named(apart: Path, tmp_path: Path, stored: bool) -> None:
    target = imported(apart, tmp_path) if stored else apart
    for ask in (lambda: counts(target), lambda: api.info(target)):
        with pytest.raises(UsageError, match=r"holds 2 (runs|profiles): name one") as refused:
            ask()
        assert refused.value.hint.splitlines() == [
            f"  {target}@apart-pid9",
            f"  {target}@apart-pid5  (1 kernel)",
        ]


@pytest.mark.parametrize("stored", [False, True], ids=["in place", "stored"])
def test_a_label_chooses_one_in_every_command(apart: Path, tmp_path: Path, stored: bool) -> None:
    target = f"{imported(apart, tmp_path) if stored else apart}@apart-pid5"
    assert counts(target) == [(None, 1)]
    assert api.info(target)[0].title == "Profile apart-pid5"
    with api.open(target) as profile:
        assert profile.report("kernels").row_count == 1
    written = api.export_profiles(target, "chrome", tmp_path / "one.json").path
    names = [event.get("name") for event in json.loads(written.read_text())["traceEvents"]]
    assert "k" in names and "a" not in names
    (compared,) = api.compare(target, target, ["kernels"]).reports
    assert {ref.label for ref in compared.profiles} == {"apart-pid5"}
    page = api.page(target, ["kernels"])
    assert [ref.label for ref in page[0].profiles] == ["apart-pid5"]


def test_processes_of_a_log_are_told_apart() -> None:
    with pytest.raises(UsageError, match="the file holds 3 runs: name one") as refused:
        counts(SEVERAL_RUNS)
    told = [line.rpartition("odd-several-runs-")[2] for line in refused.value.hint.splitlines()]
    assert told == ["pid4242  (8 kernels)", "pid4310  (8 kernels)", "pid4377"]


def test_ranks_and_others_are_compared_as_in_a_store(fused: Path, tmp_path: Path) -> None:
    """Ranks of a file are one run, no repeats of each other."""
    store = imported(fused, tmp_path)
    in_place, stored = (api.compare(one, one, ["kernels"]) for one in (fused, store))
    assert in_place.reports[0].rows() == stored.reports[0].rows()


@real
@pytest.mark.slow
def test_kernels_of_all_ranks_of_a_fused_trace() -> None:
    path = DEFECTS / "amd+HPCTrainingExamples__merged_all_events.json.gz"
    (report,) = api.report_on(path, ["overview"])
    assert [row["kernel_count"] for row in report.rows()] == [3114, 3089, 3089, 3089]


@real
def test_a_stray_annotation_of_another_process_hides_no_kernel() -> None:
    path = DEFECTS / "facebookresearch+HolisticTraceAnalysis__triton_example.json.gz"
    with gzip.open(path) as file:
        assert b"triton_poi_fused_add_cos_sin_0" in file.read()
    with pytest.raises(UsageError) as refused:
        counts(path)
    (line,) = (line for line in refused.value.hint.splitlines() if "kernel" in line)
    assert counts(line.split()[0]) == [(None, 1)]


# -- a slice that some profiles have


@pytest.mark.parametrize("workers", [None, 2])
def test_devices_that_only_some_ranks_have(fused: Path, tmp_path: Path, workers: int | None) -> None:
    """Rank 1 is on device 11, rank 0 on device 3, in a store and in a folder of traces."""
    nsysconv.import_files([fused], tmp_path / "job.db")
    for target in (fused, tmp_path / "job.db")[: 1 if workers else 2]:
        for device, rank in ((3, 0), (11, 1)):
            part = Slice(devices=(device,))
            (report,) = nsysconv.report_on(target, "overview", slice=part, workers=workers)
            assert [(row["rank"], row["device_id"]) for row in report.rows()] == [(rank, device)]
        with pytest.raises(UsageError, match="no device 5"):
            nsysconv.report_on(target, "overview", slice=Slice(devices=(5,)), workers=workers)


def test_the_answer_on_one_of_several_names_it(fused: Path, tmp_path: Path) -> None:
    store = tmp_path / "job.db"
    nsysconv.import_files([fused], store)
    answer = run("job.db", "--device", "3", cwd=tmp_path)
    (line,) = (line for line in answer.out.splitlines() if "why: " in line)
    target, event = line.partition(" why ")[2].partition(";")[0].split()
    assert target.startswith("job.db@")
    assert event in run("why", target, event, cwd=tmp_path).out
