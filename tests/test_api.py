"""nsysconv as a library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import NSYS, ODD

import nsysconv
from nsysconv import errors
from nsysconv.errors import InputError, NotRecorded, UsageError
from nsysconv.importers.probe import Probe
from nsysconv.report import Report

BASIC = NSYS / "basic-3.25.0.sqlite"
NO_GPU = NSYS / "no_gpu-3.25.0.sqlite"


def test_only_what_is_promised() -> None:
    public = {name: getattr(nsysconv, name) for name in nsysconv.__all__}
    assert public.pop("errors") is errors
    assert all(callable(each) for each in public.values())
    with pytest.raises(AttributeError, match="nonsense"):
        _ = nsysconv.nonsense


def test_of_a_source_that_the_store_holds_no_row_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    submit = Probe.submit

    def noting(self: Probe, work: Any, *arguments: object) -> Any:
        asked.append(work.__name__)
        return submit(self, work, *arguments)

    monkeypatch.setattr(Probe, "submit", noting)
    nsysconv.import_files([BASIC], tmp_path / "job.db")
    assert "numbers" in asked
    asked.clear()
    nsysconv.import_files([BASIC], tmp_path / "job.db")
    assert asked == []


def test_a_report_of_a_file() -> None:
    with nsysconv.open(BASIC) as profile:
        report = profile.report("kernels")
    assert isinstance(report, Report)
    assert report.name == "kernels"
    assert report.profiles[0].path == str(BASIC)
    assert sum(row["kernel_count"] for row in report.rows()) == report.to_arrow().num_rows + 3
    assert report.row_count == 5


def test_integers_with_nulls_stay_integers() -> None:
    with nsysconv.open(BASIC) as profile:
        frame = profile.report("api_vs_kernel").to_pandas()
    calls = frame.set_index("name")["api_sum_ns"]
    assert isinstance(calls.dtype, pd.ArrowDtype)
    assert calls.dtype.pyarrow_dtype == pa.int64()
    assert calls["cudaLaunchKernel"] == 31_000
    assert calls["[no API call]"] is pd.NA


def test_not_recorded_raises_or_says_so() -> None:
    with nsysconv.open(NO_GPU) as profile:
        with pytest.raises(NotRecorded, match="kernel events") as caught:
            profile.report("kernels")
        assert caught.value.advice
        (report,) = profile.reports(["kernels"])
    assert report.table is None
    assert report.to_arrow().num_rows == 0
    assert report.not_recorded == ("kernel events",)
    assert "kernel events" in report._repr_html_()


def test_choices_of_a_report() -> None:
    with nsysconv.open(BASIC) as profile:
        assert profile.report("kernels", limit=2).to_arrow().num_rows == 2
        assert profile.report("kernels", limit=2).row_count == 5
        # Kernels that intersect [30, 45) µs: saxpy [33, 43) and reduce_sum [40, 50).
        assert profile.report("kernels", slice=nsysconv.Slice((30_000, 45_000))).row_count == 2
        assert profile.report("kernels", kernel_names="short").rows()[0]["name"] == "saxpy"
        kinds = {row["kind"] for row in profile.report("idle_summary", idle=["stream"]).rows()}
        assert kinds == {"stream"}
        for wrong in ({"idle": ["sleep"]}, {"kernel_names": "nick"}, {"limit": 0, "by": "day"}):
            with pytest.raises(UsageError, match=r"sleep|nick|day"):
                profile.report("idle_gaps", **wrong)
        with pytest.raises(UsageError, match="Close to it: kernels"):
            profile.report("kernel")


@pytest.mark.parametrize("call", [
    lambda: nsysconv.report_on(BASIC, naems="kernels"),
    lambda: nsysconv.page(BASIC, for_poeple=True),
    lambda: nsysconv.compare(BASIC, BASIC, jobs=2),
    lambda: nsysconv.import_files(BASIC, jobs=2),
    lambda: nsysconv.open(BASIC).report("kernels", names="short"),
    lambda: nsysconv.open(BASIC).reports(include="python_functions"),
])  # fmt: skip
def test_a_keyword_that_does_not_exist(call: Callable[[], object]) -> None:
    with pytest.raises((TypeError, UsageError), match=r"unexpected keyword argument|no keyword"):
        call()


def test_a_page_is_made_by_one_process() -> None:
    with pytest.raises(UsageError, match="by this process alone"):
        nsysconv.page(BASIC, workers=2)


def test_prose_may_come_from_an_iterator() -> None:
    (report,) = nsysconv.report_on(BASIC, (name for name in ["idle_summary"]), idle=iter(["stream"]))
    assert {row["kind"] for row in report.rows()} == {"stream"}


def test_the_result_of_an_import(tmp_path: Path) -> None:
    result = nsysconv.import_files([BASIC, ODD / "foreign.sqlite"], tmp_path / "job.db")
    assert result.store == tmp_path / "job.db"
    assert [file.path for file in result.files] == [BASIC, ODD / "foreign.sqlite"]
    assert result.files[0].imported[0].row_counts["kernel"] == 8
    (error,) = result.errors
    assert isinstance(error, InputError)


def test_progress_counts_the_source_s_rows(tmp_path: Path) -> None:
    seen: dict[str, int] = {}

    def progress(path: Path, table: str, rows: int) -> None:
        assert path == BASIC
        seen[table] = seen.get(table, 0) + rows

    nsysconv.import_files([BASIC], tmp_path / "job.db", progress=progress)
    assert seen["kernel"] == 8
    assert np.all(np.array(list(seen.values())) > 0)
