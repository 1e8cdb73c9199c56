"""`nsysconv history`: series of metrics over runs, and of which kind their changes are."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, NSYS
from run_command import run
from small_store import Kernel, Range, write

from nsysconv import api, queries
from nsysconv.api import kept_reports as keeping
from nsysconv.api.diffing import compared_columns
from nsysconv.diff.history import (
    Run,
    changes_of,
    changes_report,
    history_report,
    parse_metric,
    series_of,
    trend,
)
from nsysconv.diff.rows import measures_of
from nsysconv.errors import InputError, InUseError, UsageError
from nsysconv.store.checksums import check
from nsysconv.store.kept_reports import Lacking
from nsysconv.store.kept_reports import kept as kept_reports
from nsysconv.store.location import reading, writing

TRAINING = FIXTURES / "kineto" / "training-2.13.json"
HOUR_NS = 3_600 * 10**9


def write_runs(
    store: Path,
    lengths: Sequence[int | Sequence[int]],
    *,
    steps: int = 2,
    first: int = 0,
    **options: Any,
) -> None:
    """Runs of so many steps of 10 us, in each a kernel of each length: k0, k1 and so on."""
    for number, of_run in enumerate(lengths, first):
        each = [of_run] if isinstance(of_run, int) else of_run
        rows: list[Any] = []
        for s in range(1, steps + 1):
            start = 10_000 * s
            rows.append(Range(start, start + 10_000, f"ProfilerStep#{s}"))
            for i, length in enumerate(each):
                rows.append(Kernel(start, start + length, 0, name=f"k{i}"))
                start += length + 10
        write(store, *rows, label=f"run{number}", utc=number * HOUR_NS, **options)


def varied(count: int, length: int = 1_000) -> list[int]:
    """Lengths around one, by -1 to 1 %, that neither rise nor fall."""
    return [round(length * (1 + 0.01 * ((i * 7) % 11 - 5) / 5)) for i in range(count)]


KERNELS = "overview.kernel_sum_ns"


def both(store: Path | str, *metrics: str, **options: Any) -> tuple[list[Any], list[Any]]:
    series, changes, _ = api.history(store, metrics or None, **options)
    return series.rows(), changes.rows()


def of_values(values: Sequence[Mapping[str, float]], gpus: str = "a") -> tuple[list[Any], list[Any]]:
    """The same of runs with these values of rows of kernels, recorded on these GPUs in turns."""
    metric = parse_metric("kernels.avg_ns", compared_columns())
    runs = [Run(f"run{i}", i * HOUR_NS, (gpus[i % len(gpus)],)) for i in range(len(values))]
    found = series_of([metric], runs, [{(metric.text, k): v for k, v in each.items()} for each in values])
    return history_report(found, runs).rows(), changes_report(changes_of(found, runs), runs).rows()


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 8 runs of 1,000 ns in a step and 8 of 1,100; every second run takes 1 % more."""
    store = tmp_path_factory.mktemp("levels") / "runs.db"
    write_runs(store, [1_000, 1_010] * 4 + [1_100, 1_111] * 4)
    return store


def test_levels_spread_and_change_by_hand(levels: Path) -> None:
    found = api.history(levels, KERNELS)
    (series,), (change,), rows = (report.rows() for report in found)
    assert series["metric"] == "overview.kernel_sum_ns per step"
    assert (series["run_count"], series["since"]) == (16, "run8")
    assert (series["first_run"], series["last_run"]) == ("run0", "run15")
    # Of 1,100 and 1,111 the median is 1,105.5. All runs are 0.4975 % of their median from it.
    assert series["level_med"] == 1_105.5
    assert series["spread_pct"] == pytest.approx(100 * 1.4826 * 5 / 1_005, rel=1e-3)
    assert series["trend"][:8] < "▅" < series["trend"][8:]
    assert change == {
        "metric": "overview.kernel_sum_ns per step", "row": None, "run": "run8", "kind": "real",
        "verdict": "worse", "change": "1.00 µs → 1.11 µs (+10.0 %)", "runs": "8:8", "why": None,
        "recorded": "1970-01-01 08:00:00 UTC", "base_run": "run7", "change_pct": pytest.approx(10.0),
        "before_med": 1_005.0, "after_med": 1_105.5, "unit": "ns"}  # fmt: skip
    # Each run stands in its level.
    assert [row["run"] for row in rows] == [f"run{n}" for n in range(16)]
    assert [row["value"] for row in rows[6:10]] == [1_000, 1_010, 1_100, 1_111]
    assert [row["level_med"] for row in rows] == [1_005.0] * 8 + [1_105.5] * 8
    # The spread is 1.4826 times 5 of 1,005 (and 5.5 of 1,105.5, nearly the same share).
    far = rows[0]["usual_high"] - 1_005.0
    assert far == pytest.approx(1.4826 * 5, rel=1e-2)
    assert rows[0]["usual_low"] == pytest.approx(1_005.0 - far)
    assert rows[8]["recorded"] == "1970-01-01 08:00:00 UTC"
    (drawn,) = found[2].plot().axes
    assert drawn.get_lines()[-1].get_ydata().tolist() == [row["value"] for row in rows]


def test_the_page_draws_each_series_with_its_changes(levels: Path, tmp_path: Path) -> None:
    outcome = run("history", levels.name, KERNELS, "-o", str(tmp_path / "h.html"), cwd=levels.parent)
    assert outcome.status == 0, outcome.err
    page = (tmp_path / "h.html").read_text()
    (figure,) = re.findall(r'<figure class="series">.*?</figure>', page, re.DOTALL)
    assert "16 runs, 1 change, now 1.11 µs" in figure
    (points,) = re.findall(r'class="runs" d="(.*?)"', figure)
    assert points.count("M") == 16
    assert figure.count('class="usual"') == figure.count('class="level"') == 2
    assert "<title>run8: 1.00 µs → 1.11 µs</title>" in figure
    assert "nsysconv diff runs.db@run7 runs.db@run8 contributors" in page
    # Higher is more: the second level is drawn above the first.
    first, second = (float(each) for each in re.findall(r'class="level" d="M\S+ (\S+)H', figure))
    assert second < first


def test_the_default_is_steps_kernels_and_window(tmp_path: Path) -> None:
    write_runs(tmp_path / "runs.db", [1_000])
    series, changes = both(tmp_path / "runs.db")
    assert [row["metric"] for row in series] == [
        "steps.period_ns", "overview.kernel_sum_ns per step", "overview.window_ns per step"]  # fmt: skip
    # Steps of 10 us, one after the other.
    assert series[0]["level_med"] == 10_000
    assert changes == []


def test_values_are_those_of_the_report(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    write_runs(store, [[700, 300], [800, 200]])
    for number in range(2):
        with api.open(f"{store}@run{number}") as profile:
            expected = {row["name"]: row["avg_ns"] for row in profile.report("kernels").rows()}
        series, _ = both(f"{store}@run{number}", "kernels.avg_ns")
        assert {row["row"]: row["level_med"] for row in series} == expected


def test_runs_are_in_the_order_of_their_recording_and_per_step(tmp_path: Path) -> None:
    """A number of steps is no change."""
    store = tmp_path / "runs.db"
    write_runs(store, [1_100], first=1, steps=4)
    write_runs(store, [1_000], steps=2)
    *_, each_run = api.history(store, KERNELS)
    assert [(row["run"], row["value"]) for row in each_run.rows()] == [("run0", 1_000), ("run1", 1_100)]


def test_what_is_per_step_is_not_divided_again(tmp_path: Path) -> None:
    write_runs(tmp_path / "runs.db", [1_000], steps=4)
    series, _ = both(tmp_path / "runs.db", "kernels.per_step_ns", "kernels.kernel_count")
    assert [(row["metric"], row["level_med"]) for row in series] == [
        ("kernels.per_step_ns", 1_000), ("kernels.kernel_count per step", 1)]  # fmt: skip


def test_another_gpu_begins_another_series(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    write_runs(store, [1_000], gpus={0: {"name": "old"}})
    write_runs(store, [800], first=1, gpus={0: {"name": "new"}})
    series, (change,) = both(store, KERNELS)
    assert [(row["environment"].partition(";")[0], row["run_count"]) for row in series] == [
        ("old", 1), ("new", 1)]  # fmt: skip
    assert (change["run"], change["kind"], change["verdict"]) == ("run1", "environment", None)
    assert (change["why"], change["runs"]) == ("old to new", "1:1")
    assert change["change_pct"] == pytest.approx(-20)


def test_two_gpus_in_turns_are_two_series() -> None:
    lengths = [length * (1 + i % 2) * (1.1 if i >= 20 else 1) for i, length in enumerate(varied(40))]
    series, changes = of_values([{"k": length} for length in lengths], "ab")
    assert [row["run_count"] for row in series] == [20, 20]
    assert [(row["run"], row["kind"]) for row in changes] == [
        ("run20", "real"), ("run1", "environment"), ("run21", "real")]  # fmt: skip


def test_another_host_explains_a_change(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    write_runs(store, varied(7), host="node1")
    write_runs(store, varied(7, 1_100), first=7, host="node2")
    _, (change,) = both(store, KERNELS)
    assert (change["kind"], change["why"]) == ("environment", "host node1 to node2")


@pytest.mark.parametrize(("factors", "kinds"), [
    # All four kernels, three of four (75 %), four of five (80 %), one of five; three rows are too few.
    ((1.1, 1.1, 1.1, 1.1), {"machine"}),
    ((1.1, 1.1, 1.1, 1.0), {"real"}),
    ((1.1, 1.1, 1.1, 1.1, 1.0), {"machine"}),
    ((1.1, 1.0, 1.0, 1.0, 1.0), {"real"}),
    ((1.1, 1.1, 1.1), {"real"}),
    # 3 to 40 %: not alike.
    ((1.03, 1.05, 1.15, 1.4), {"real"}),
])  # fmt: skip
def test_all_rows_together_are_the_machine(factors: tuple[float, ...], kinds: set[str]) -> None:
    _, changes = of_values([
        {f"k{i}": (length + 50 * i) * (factor if after else 1) for i, factor in enumerate(factors)}
        for after in (False, True) for length in varied(10)
    ])  # fmt: skip
    assert {row["kind"] for row in changes} == kinds
    assert len(changes) == sum(factor > 1 for factor in factors)
    assert {row["run"] for row in changes} == {"run10"}
    machine = [row["why"] for row in changes if row["kind"] == "machine"]
    assert all(why == f"4 of {len(factors)} rows change alike" for why in machine)


@pytest.mark.parametrize(("with_k1", "found"), [
    ("-----+++++-----", [("run5", "appears", "none → 500 ns", "5:5", "run4", None, 500.0),
                         ("run10", "vanishes", "500 ns → none", "5:5", "run9", 500.0, None)]),
    ("-----+++++", [("run5", "appears", "none → 500 ns", "5:5", "run4", None, 500.0)]),
    # For fewer runs than five, or now and then.
    ("----+++++", []), ("+-+-+-+-+-+-", []), ("-----++++", []), ("-----+++-++++++", []),
    ("++++++-----", [("run6", "vanishes", "500 ns → none", "6:5", "run5", 500.0, None)]),
])  # fmt: skip
def test_a_row_appears_and_vanishes(with_k1: str, found: list[Any]) -> None:
    _, changes = of_values([{"k0": 1_000, **({"k1": 500} if sign == "+" else {})} for sign in with_k1])
    names = ("run", "kind", "change", "runs", "base_run", "before_med", "after_med")
    assert [tuple(row[name] for name in names) for row in changes] == found
    assert {row["row"] for row in changes} <= {"k1"}
    assert {row["verdict"] for row in changes} <= {None}


def test_a_run_alone_is_noise() -> None:
    lengths = varied(20)
    lengths[7] = 1_300
    (series,), (change,) = of_values([{"k": length} for length in lengths])
    assert (change["run"], change["kind"], change["verdict"]) == ("run7", "noise", None)
    assert change["base_run"] is None
    assert change["change_pct"] == pytest.approx(30, abs=0.5)
    assert series["since"] is None


def test_rows_of_devices_and_a_pattern(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    for number in range(3):
        rows = [Kernel(0, 100 + number, 0, device=d, name=n) for d in (4, 6) for n in ("gemm", "relu")]
        write(store, *rows, label=f"run{number}", utc=number)
    series, _ = both(store, "overview.kernel_sum_ns")
    assert [(row["row"], row["level_med"]) for row in series] == [("device 0", 202), ("device 1", 202)]
    series, _ = both(store, "kernels[/^g/].kernel_sum_ns")
    assert [(row["row"], row["level_med"]) for row in series] == [("gemm", 202)]


def test_ranks_of_a_run(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    for number in range(2):
        for rank in range(2):
            write(store, Kernel(0, 100 + 10 * rank + number, 0), label=f"run{number} rank{rank}",
                  utc=number, run=f"run{number}", ranks={1: rank})  # fmt: skip
    series, _ = both(store, KERNELS)
    assert [(row["row"], row["level_med"], row["last_run"]) for row in series] == [
        ("rank 0", 100.5, "run1"), ("rank 1", 110.5, "run1")]  # fmt: skip


def test_some_of_the_runs(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    write_runs(store, varied(6))
    for place, last, first, count in (
        (store, 1, "run5", 1), (store, 2, "run4", 2), (f"{store}@last:3", 2, "run4", 2),
        (f"{store}@run1", None, "run1", 1),
    ):  # fmt: skip
        (series,), _ = both(place, KERNELS, last=last)
        assert (series["first_run"], series["run_count"]) == (first, count)
    notes = api.history(store, KERNELS)[0].notes
    assert [(note.slug, note.count) for note in notes] == [("few-runs", 1)]


@pytest.mark.parametrize("metric", [
    "overview", "nothing.kernel_sum_ns", "overview.nothing", "overview.device", "kernels[/(/].avg_ns",
    "kernels[/a/b/].avg_ns",
])  # fmt: skip
def test_unknown_metrics(tmp_path: Path, metric: str) -> None:
    write_runs(tmp_path / "runs.db", [1_000])
    with pytest.raises(UsageError):
        api.history(tmp_path / "runs.db", metric)
    assert run("history", "runs.db", metric, cwd=tmp_path).status == 2


def test_a_metric_that_no_run_has_is_named(levels: Path, tmp_path: Path) -> None:
    asked = ("kernels[/nothing/].avg_ns", "memory.peak_bytes", KERNELS)
    notes = api.history(levels, asked)[0].notes
    assert [(note.slug, note.count) for note in notes] == [("metrics-without-values", 2)]
    assert "kernels[/nothing/].avg_ns, memory." in notes[0].text
    assert KERNELS not in notes[0].text
    assert "of kernels[/nothing/].avg_ns: " in run(
        "history", levels.name, asked[0], cwd=levels.parent).out  # fmt: skip
    # What nobody asked for may be missing, as steps are here.
    for label in "ab":
        write(tmp_path / "without.db", Kernel(0, 10), label=label)
    slugs = {note.slug for note in api.history(tmp_path / "without.db")[0].notes}
    assert slugs == {"few-runs", "in-order-of-import"}


def test_a_wrong_run_of_many_lists_a_few(tmp_path: Path) -> None:
    write_runs(tmp_path / "runs.db", varied(90))
    outcome = run("history", "runs.db@best", cwd=tmp_path)
    assert outcome.err.splitlines()[1].startswith("There are 90: run0, run1, ")
    assert outcome.err.endswith(". `nsysconv runs` lists them all.\n")


def test_no_store(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        api.history(tmp_path / "runs.db")
    write_runs(tmp_path / "runs.db", [1_000])
    with pytest.raises(UsageError, match="--last 0"):
        api.history(tmp_path / "runs.db", last=0)
    api.forget(tmp_path / "runs.db", "run0")
    with pytest.raises(InputError, match="no profile"):
        api.history(tmp_path / "runs.db")


def test_a_name_of_steps_that_some_runs_have(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    write_runs(store, [1_000])
    write(store, Range(0, 50, "own 1"), Range(50, 90, "own 2"), Kernel(0, 30, 0), label="b", utc=1)
    (series,), _ = both(store, "steps.avg_ns", step_range="own *")
    assert (series["run_count"], series["level_med"]) == (1, 45)
    with pytest.raises(UsageError, match="nothing"):
        both(store, "steps.avg_ns", step_range="nothing *")


def test_formats(levels: Path, tmp_path: Path) -> None:
    text = run("history", levels.name, KERNELS, cwd=levels.parent)
    assert text.status == 0
    assert "+10.0 %" in text.out
    hint = "→ what changed: nsysconv diff runs.db@run7 runs.db@run8 contributors"
    assert text.out.splitlines()[-1] == hint
    found = json.loads(run("history", levels.name, KERNELS, "-f", "json", cwd=levels.parent).out)
    assert [each["report"] for each in found["reports"]] == [
        "history", "change_points", "history_runs"]  # fmt: skip
    assert found["reports"][1]["rows"][0]["run"] == "run8"
    store = str(levels)
    assert run("history", store, KERNELS, "-f", "csv", "-o", "out/", cwd=tmp_path).status == 0
    assert (tmp_path / "out" / "change_points.csv").read_text().count("run8") == 1


@pytest.mark.parametrize(("values", "shown"), [
    # Fifths of a range of 10 %; 1 % is hardly a fifth of 5 %; one value is in the middle.
    ([100, 110], "▁█"), ([100, 105, 110], "▁▅█"), ([100, 101], "▄▅"), ([5], "▅"), ([], ""),
])  # fmt: skip
def test_trend(values: list[float], shown: str) -> None:
    assert trend(values) in (shown, shown.replace("▅", "▄"))
    assert len(trend([1.0] * 1_000)) == 32


# -- what imports keep


def no_report(wanted: Any, timeline: Any) -> Any:
    raise AssertionError(f"{timeline.profile.ref.label} is computed")


def every_column() -> list[str]:
    columns = compared_columns()
    return [f"{name}.{c.name}" for name in ("overview", "steps") for c in measures_of(columns[name])]


def altered(store: Path, sql: str) -> None:
    with closing(sqlite3.connect(store)) as connection, connection:
        connection.executescript(sql)


def test_what_an_import_keeps_is_what_reports_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "FEWEST_RUNS", 1)
    store = tmp_path / "runs.db"
    files = ("basic-3.25.0", "nccl-3.25.0", "graphs-3.4.0", "no_gpu-3.25.0")
    api.import_files([*(NSYS / f"{name}.sqlite" for name in files), TRAINING], store)
    with monkeypatch.context() as patch:
        patch.setattr(queries, "compute_reports", no_report)
        kept = both(store, *every_column())
        with pytest.raises(AssertionError, match="is computed"):
            both(store, "kernels.avg_ns")
        with pytest.raises(AssertionError, match="is computed"):
            both(store, step_range="*")
    altered(store, "DELETE FROM kept_report")
    assert both(store, *every_column()) == kept
    assert len(kept[0]) > 20


def test_what_another_program_kept_is_computed_and_kept_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "FEWEST_RUNS", 1)
    store = tmp_path / "runs.db"
    api.import_files(NSYS / "basic-3.25.0.sqlite", store)
    expected = both(store)
    another = "UPDATE kept_report SET program = 'another', rows_json = '[]'; DELETE FROM checksum"
    altered(store, another)
    assert both(store) == expected
    api.import_files(NSYS / "basic-3.4.0.sqlite", store)
    assert check(store) == []
    monkeypatch.setattr(queries, "compute_reports", no_report)
    assert [row["run_count"] for row in both(f"{store}@basic-3.25.0")[0]] == [
        row["run_count"] for row in expected[0]]  # fmt: skip


def test_a_store_of_few_runs_keeps_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "FEWEST_RUNS", 4)
    write_runs(tmp_path / "runs.db", [1_000] * 2)
    for name, count in (("basic-3.25.0", 0), ("basic-3.4.0", keeping.FEWEST_RUNS)):
        api.import_files(NSYS / f"{name}.sqlite", tmp_path / "runs.db")
        with closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
            asked = "SELECT count(DISTINCT profile_id) FROM kept_report"
            assert connection.execute(asked).fetchone() == (count,)


def test_a_profile_that_goes_meanwhile_has_nothing_kept(tmp_path: Path) -> None:
    write_runs(tmp_path / "runs.db", [1_000])
    with reading(tmp_path / "runs.db") as store, pytest.raises(InUseError):
        store.profile(2)


def test_of_large_profiles_nothing_is_kept(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    write_runs(store, [[1_000], [1_000, 500]])
    with writing(store) as writer:
        # Two steps with a kernel each are four rows, with two each six.
        lacking = Lacking(lambda: "this", 4)
        writer.keep_reports(lacking, lambda store, n: {"steps": store.profile(n).ref.label})
        writer.keep_reports(lacking, lambda store, n: {"steps": "again"})
        assert writer.keep_checksums() == ""
    with reading(store) as opened:
        assert [*kept_reports(opened, "this", ["steps"])] == [(1, "steps", "run0")]
        assert [*kept_reports(opened, "another", ["steps"])] == []
    assert check(store) == []
    api.forget(store, "run0")
    with reading(store) as opened:
        assert [*kept_reports(opened, "this", ["steps"])] == []
