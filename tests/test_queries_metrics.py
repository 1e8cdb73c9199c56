"""The report of metrics, by hand."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, NSYS
from golden_cases import run
from hypothesis import given
from hypothesis import strategies as st
from small_store import Kernel, Metric, Row, answers, opened, picked, write
from test_render import rendered

import nsysconv
from nsysconv import api
from nsysconv.api import html_report
from nsysconv.queries.metrics import COLUMNS

VALUES = ("sample_count", "value_avg", "value_min", "value_max")


def metrics(path: Path, part: api.Slice | None = None) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    with api.open(path) as profile:
        rows = profile.report("metrics", slice=part).rows()
    return {(row["device_id"], row["metric"], row["kernel"], row["unit"]):
            tuple(row[name] for name in VALUES) for row in rows}  # fmt: skip


QUERY = FIXTURES / "nvidia_smi" / "query.csv"


def test_samples_count_the_same() -> None:
    """0, 100 and 50 %; 60, 120 and 90 W; 100, 300 and 200 MiB."""
    found = metrics(QUERY)
    assert found[0, "utilization.gpu", None, "%"] == (3, 50, 0, 100)
    assert found[0, "power.draw", None, "W"] == (3, 90, 60, 120)
    assert found[0, "memory.used", None, "bytes"] == (3, 200 * 2**20, 100 * 2**20, 300 * 2**20)
    assert found[1, "utilization.gpu", None, "%"] == (3, 20, 10, 30)
    assert (1, "power.draw", None, "W") not in found


def test_a_slice_has_its_samples() -> None:
    """From 1 s to 2 s there is the second of three."""
    found = metrics(QUERY, api.Slice((10**9, 2 * 10**9)))
    assert found[0, "utilization.gpu", None, "%"] == (1, 100, 100, 100)


def test_metrics_of_kernels_count_by_their_executions(tmp_path: Path) -> None:
    """Of one kernel 3 executions of 0.5 and 1 of 0.1: (3 x 0.5 + 0.1) / 4 = 0.4."""
    log = tmp_path / "metrics.csv"
    header = (
        '"Device","Kernel","Invocations","Metric Name","Metric Description","Min","Max","Avg"\n'
    )
    row = '"Tesla T4 (0)","k(int)",{},"ipc","Executed IPC",{},{},{}\n'
    log.write_text(
        "==1== NVPROF is profiling process 1, command: ./a\n"
        "==1== Profiling result:\n==1== Metric result:\n"
        + header + row.format(3, 0.25, 0.75, 0.5) + row.format(1, 0.1, 0.1, 0.1)
    )  # fmt: skip
    assert metrics(log) == {(0, "ipc", "k(int)", "number"): (4, pytest.approx(0.4), 0.1, 0.75)}


def test_each_row_has_its_own_numbers() -> None:
    """Of the second run alone, power: 120 and 90 W; of both, 0, 100 and 50 %."""
    found = metrics(FIXTURES / "nvidia_smi" / "odd-appended.csv")
    assert found[0, "power.draw", None, "W"] == (2, 105, 90, 120)
    assert found[0, "utilization.gpu", None, "%"] == (3, 50, 0, 100)


def test_the_order_is_by_device_and_name() -> None:
    with api.open(QUERY) as profile:
        rows = profile.report("metrics").rows()
    keys = [(row["device_id"], row["metric"]) for row in rows]
    assert keys == sorted(keys)
    assert len(keys) == 6 + 5


def test_samples_of_no_device_come_first_and_are_not_those_of_device_0() -> None:
    ((key, values),) = metrics(FIXTURES / "nvidia_smi" / "odd-no-gpu.csv").items()
    assert key == (None, "utilization.gpu", None, "%")
    assert values == (6, 35, 0, 100)


def test_metrics_of_another_profiler() -> None:
    """Of device 0, 0 and 75 %; see scripts/scenario_cpu_side.py."""
    found = metrics(NSYS / "cpu_side-3.28.1.sqlite")
    assert found[0, "SMs Active [Throughput %]", None, "%"] == (2, 37.5, 0, 75)


# -- for people


def read(*rows: Metric, limit: int = 0) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows that text and the page show, and what is said above them."""
    with opened(*rows) as profile:
        (report,) = profile.reports(["metrics"], for_people=True, limit=limit)
    return report.rows(), [line for text in report.texts for line in text.lines]


def test_fewer_metrics_than_kernels_go_across() -> None:
    """`a` measured 0.5 and 0.3, 0.4 on average; nobody measured `ipc` of `c`."""
    rows, said = read(
        Metric("ipc", "a", 0.5), Metric("ipc", "a", 0.3), Metric("ipc", "b", 2.0),
        Metric("warps", "a", 1_234_567.5), Metric("warps", "c", 12),
    )  # fmt: skip
    assert rows == [
        {"kernel": "a", "ipc": "0.400", "warps": "1,234,568"},
        {"kernel": "b", "ipc": "    2", "warps": "        -"},
        {"kernel": "c", "ipc": "    -", "warps": "       12"},
    ]
    assert said == []


def test_more_metrics_than_kernels_go_down() -> None:
    rows, _ = read(Metric("ipc", "a", 1), Metric("warps", "a", 2))
    assert rows == [{"metric": "ipc", "a": "1"}, {"metric": "warps", "a": "2"}]


def test_metrics_that_are_0_in_every_kernel_are_left_out_and_counted() -> None:
    rows, said = read(Metric("ipc", "a", 1), Metric("ipc", "b", 0), *(Metric("none", k, 0) for k in "ab"))
    assert rows == [{"kernel": "a", "ipc": "1"}, {"kernel": "b", "ipc": "0"}]
    assert said == ["Left out: 1 metrics that are 0 in every kernel."]


def test_of_many_kernels_those_with_most_executions_go_across() -> None:
    """Kernel 9 was measured ten times, kernel 0 once; there are eleven metrics of ten kernels."""
    times = ((m, k) for k in range(10) for m in range(11) for _ in range(k + 1))
    measured = [Metric(f"m{m:02}", f"k{k}", 1) for m, k in times]
    rows, said = read(*measured)
    assert list(rows[0]) == ["metric", *(f"k{k}" for k in range(9, 1, -1))]
    assert said == ["The first 8 of 10 kernels with the most executions; --format csv has all."]


def test_devices_have_rows_of_their_own() -> None:
    rows, _ = read(Metric("ipc", "a", 1), Metric("ipc", "a", 2, device=1))
    assert rows == [{"device_id": 0, "kernel": "a", "ipc": "1"},
                    {"device_id": 1, "kernel": "a", "ipc": "2"}]  # fmt: skip


def test_kernels_whose_short_names_are_the_same_have_headers_of_their_own() -> None:
    names = [f"void kernel<{kind}>(int)" for kind in ("a" * 60, "b" * 60)]
    rows, _ = read(*(Metric(f"m{i}", name, 1) for name in names for i in range(3)))
    assert len(rows[0]) == 1 + 2


def test_a_limit_is_one_of_rows_of_the_pivot() -> None:
    with opened(*(Metric(f"m{m}", "a", 1) for m in range(30))) as profile:
        (report,) = profile.reports(["metrics"], for_people=True, limit=20)
    assert (report.table.num_rows, report.row_count) == (20, 30)


def test_samples_have_a_row_each_and_their_unit() -> None:
    (report,) = api.report_on(QUERY, ["metrics"], for_people=True)
    rows = {(row["device_id"], row["metric"]): row for row in report.rows()}
    assert [rows[0, "clocks.current.sm"][name].strip() for name in ("samples", "mean", "least")] == [
        "3", "810 MHz", "210 MHz"]  # fmt: skip
    assert rows[0, "memory.used"]["greatest"] == "314.57 MB"
    assert rows[0, "power.draw"]["mean"].strip() == "90 W"


def test_programs_get_rows(tmp_path: Path) -> None:
    (report,) = api.report_on(QUERY, ["metrics"])
    assert report.columns == COLUMNS


def test_a_profile_of_metrics_alone_answers_with_them(tmp_path: Path) -> None:
    path = FIXTURES / "nvprof_log" / "odd-metrics.csv"
    shutil.copyfile(path, tmp_path / path.name)
    lines = run(path.name, cwd=tmp_path).out.splitlines()
    assert lines[0] == f"{path.name} has hardware counter metrics, but no timeline of GPU work."
    all_of_it = f"→ all of it: nsysconv report {path.name} metrics; notes: kernels-serialized"
    assert lines[3].startswith(all_of_it)
    assert re.search(r"^achieved_occupancy +0\.500 +0\.500$", "\n".join(lines), re.MULTILINE)
    last = " ".join("\n".join(lines).rpartition("\n\n")[2].split())
    assert last.startswith("8 core reports need a time line: overview, api_vs_kernel, kernels, ")
    assert "`nvprof -o FILE …`" in last
    assert run("report", path.name, cwd=tmp_path).out.splitlines() == lines


def test_metrics_are_on_the_page(tmp_path: Path) -> None:
    text = rendered("html", *api.page(FIXTURES / "nvprof_log" / "odd-metrics.csv"))
    assert '<article id="r-metrics">' in text
    assert ">saxpy</th>" in text


# -- samples in equal parts of the time, by hand and by a slow version


SHOWN = ("metric", "bin", "start_ns", "dur_ns", "sample_count", "value_avg", "value_min", "value_max")


def over_time(bins: str, *row_count: Row, **options: Any) -> list[tuple[Any, ...]]:
    found = answers(f"metrics_over_time:{bins}", *row_count, **options)
    return [tuple(row[name] for name in SHOWN) for row in found]


def sampled(name: str, *samples: tuple[int, float]) -> list[Row]:
    return [Metric(name, None, value, start=at) for at, value in samples]


def test_samples_of_a_bin() -> None:
    """From 0 to 20: 10 ns each. In the second bin of `busy` nothing was sampled."""
    row_count = (*sampled("power", (0, 50), (9, 70), (10, 90)), *sampled("busy", (5, 1), (19, 0)))
    assert over_time("bins=2", *row_count) == [
        ("busy", 0, 0, 10, 1, 1, 1, 1),
        ("busy", 1, 10, 10, 1, 0, 0, 0),
        ("power", 0, 0, 10, 2, 60, 50, 70),
        ("power", 1, 10, 10, 1, 90, 90, 90),
    ]
    assert [row[:2] for row in over_time("bins=4", *row_count)] == [
        ("busy", 1), ("busy", 3), ("power", 0), ("power", 1), ("power", 2)]  # fmt: skip


def test_the_time_is_that_of_the_samples_of_the_events_or_the_slice() -> None:
    row_count = (Kernel(100, 200), *sampled("power", (0, 50), (100, 70), (199, 90), (300, 10)))
    assert over_time("bins=1", *row_count) == [("power", 0, 0, 301, 4, 55, 10, 90)]
    assert over_time("bins=1:window=events", *row_count) == [("power", 0, 100, 100, 2, 80, 70, 90)]
    assert over_time("bins=1", *row_count, time=(50, 150)) == [("power", 0, 50, 100, 1, 70, 70, 70)]


def test_metrics_of_kernels_have_no_time() -> None:
    row_count = (Kernel(0, 10, name="k"), Metric("ipc", "k", 2.0), *sampled("power", (3, 50)))
    assert [row[0] for row in over_time("bins=1", *row_count)] == ["power"]
    assert over_time("bins=1", Kernel(0, 10, name="k"), Metric("ipc", "k", 2.0)) == []


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 60), st.integers(-9, 99)),
        min_size=1, max_size=25,
    ),
    st.integers(1, 70),
)  # fmt: skip
def test_a_slow_version_agrees(samples: list[tuple[str, int, int]], bins: int) -> None:
    row_count = [Metric(name, None, float(value), start=at) for name, at, value in samples]
    found = over_time(f"bins={bins}", *row_count)
    assert sum(row[4] for row in found) == len(samples)
    for name, _, start, dur, count, mean, low, high in found:
        mine = [value for of, at, value in samples if of == name and start <= at < start + dur]
        assert (count, low, high) == (len(mine), min(mine), max(mine))
        assert mean == pytest.approx(sum(mine) / len(mine))


@pytest.mark.parametrize("file", ["nvidia_smi/query.csv", "nsys/cpu_side-3.28.1.sqlite"])
def test_of_real_samples_each_is_in_one_bin(file: str) -> None:
    names = ["metrics", "metrics_over_time:bins=7"]
    whole, parts = nsysconv.report_on(FIXTURES / file, names, include=["metrics"])
    for row in whole.rows():
        keys = ("device_id", "metric")
        mine = [part for part in parts.rows() if picked(part, *keys) == picked(row, *keys)]
        assert sum(part["sample_count"] for part in mine) == row["sample_count"]
        assert min(part["value_min"] for part in mine) == row["value_min"]
        assert max(part["value_max"] for part in mine) == row["value_max"]


def test_bins_are_few_where_metrics_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = range(0, 4000, 10)
    sampled = [Metric(f"m{i}", None, 1.0, start=start) for i in range(4) for start in starts]
    write(tmp_path / "m.db", Kernel(0, 4000), *sampled)

    def row_count() -> int:
        (report,) = (r for r in api.page(tmp_path / "m.db") if r.name.startswith("metrics_over_time"))
        return report.row_count

    assert row_count() == 4 * 400
    monkeypatch.setattr(html_report, "MOST_SAMPLED", 200)
    assert row_count() == 4 * 50
