"""diff as its users meet it: sides, repeats, ranks, limits and exit statuses."""

from __future__ import annotations

import gzip
import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path

import golden_cases
import pytest
from conftest import FIXTURES, NSYS, few, scratch
from diff_workloads import CHANGES, KERNELS, STEPS, training
from machine import SAXPY
from small_store import Kernel, write
from workload import Events
from write_nsys import write_nsys

import nsysconv
from nsysconv import api
from nsysconv.errors import InputError, UsageError

SUM = "overview.kernel_sum_ns"


def unchanged(events: Events) -> Events:
    return events


@cache
def recorded(change: Callable[[Events], Events]) -> Path:
    path = scratch() / "recorded.sqlite"
    write_nsys(training(change), path, "3.25.0")
    return path


def written(path: Path, change: Callable[[Events], Events] = unchanged) -> Path:
    return Path(shutil.copyfile(recorded(change), path))


def scaled(factor: float, spread: float, seed: int) -> Callable[[Events], Events]:
    """Every kernel `factor` times as long, give or take; the whole run a little otherwise, too."""
    chance = random.Random(seed)
    run = chance.uniform(1 - spread, 1 + spread)

    def change(events: Events) -> Events:
        return replace(
            events,
            kernels=tuple(
                replace(k, end_ns=k.start_ns + round((k.end_ns - k.start_ns) * factor * run))
                for k in events.kernels
            ),
        )

    return change


def steps_of(spread: float, seed: int) -> Callable[[Events], Events]:
    """Each step's kernels a little longer or shorter."""
    chance = random.Random(seed)
    factors = [chance.uniform(1 - spread, 1 + spread) for _ in range(STEPS)]

    def change(events: Events) -> Events:
        return replace(
            events,
            kernels=tuple(
                replace(k, end_ns=k.start_ns + round((k.end_ns - k.start_ns)
                                                     * factors[((k.correlation_id or 0) - 1000) // 100]))
                for k in events.kernels
            ),
        )  # fmt: skip

    return change


def run(*arguments: object) -> tuple[int, str]:
    """Runs `nsysconv diff`: exit status and stdout."""
    outcome = golden_cases.run("diff", *map(str, arguments), cwd=Path.cwd())
    return outcome.status, outcome.out


# -- sides


def test_a_store_and_its_labels(tmp_path: Path) -> None:
    store = tmp_path / "job.db"
    nsysconv.import_files([written(tmp_path / "a.sqlite")], store, label="main")
    nsysconv.import_files([written(tmp_path / "b.sqlite", CHANGES["slower"])], store, label="mine")
    (found,) = api.compare(f"{store}@main", f"{store}@mine", ["kernels"]).reports
    (row,) = found.rows()
    assert "saxpy" in row["name"]
    assert [profile.label for profile in found.profiles] == ["main", "mine"]
    (same,) = api.compare(f"{store}@main", tmp_path / "a.sqlite", ["kernels"]).reports
    assert same.rows() == []


def test_a_folder_and_a_glob_are_repeats(tmp_path: Path) -> None:
    for side, factor in (("base", 1.0), ("other", 1.2)):
        (tmp_path / side).mkdir()
        for number in range(3):
            written(tmp_path / side / f"{number}.sqlite", scaled(factor, 0.02, number))
        (tmp_path / side / "notes.txt").write_text("what I did")
    (found,) = api.compare(tmp_path / "base", f"{tmp_path}/other/*.sqlite", ["overview"]).reports
    (row,) = found.rows()
    assert len(found.profiles) == 6
    assert (row["basis"], row["verdict"]) == ("repeats", "worse")
    assert row["ratio_low"] > 1.1
    assert row["ratio_kernel_sum"] == pytest.approx(1.2, abs=0.03)


def test_repeats_that_differ_by_noise_alone_are_uncertain(tmp_path: Path) -> None:
    for side, first in (("one", 0), ("two", 10)):
        (tmp_path / side).mkdir()
        for number in range(4):
            written(tmp_path / side / f"{number}.sqlite", scaled(1.0, 0.05, first + number))
    # One of the two directions is worse.
    for base, other in (("one", "two"), ("two", "one")):
        result = api.compare(tmp_path / base, tmp_path / other, ["overview"], fail_on=[f"{SUM}:0%"])
        (row,) = result.reports[0].rows()
        assert row["diff_kernel_sum_ns"] != 0
        assert row["verdict"] == "~"
        assert result.exit_status == 4
        assert result.answer.startswith("same: step period 399.20 µs → 399.20 µs")


def test_few_repeats_are_said_so(tmp_path: Path) -> None:
    for side in ("base", "other"):
        (tmp_path / side).mkdir()
        for number in range(2):
            written(tmp_path / side / f"{number}.sqlite", scaled(1.0, 0.05, number))
    (found,) = api.compare(tmp_path / "base", tmp_path / "other", ["overview"]).reports
    assert "few-repeats" in {note.slug for note in found.notes}


def test_within_one_run_the_steps_tell_noise(tmp_path: Path) -> None:
    base = written(tmp_path / "a.sqlite", steps_of(0.1, 1))
    noise = written(tmp_path / "b.sqlite", steps_of(0.1, 2))
    changed = written(tmp_path / "c.sqlite", lambda e: scaled(1.3, 0, 3)(steps_of(0.1, 3)(e)))
    for other, verdict in ((noise, "~"), (changed, "worse")):
        (found,) = api.compare(base, other, ["kernels"]).reports
        rows = found.rows()
        assert {row["basis"] for row in rows} == {"within run"}
        assert {row["verdict"] for row in rows} == {verdict}
        assert len(rows) == len(KERNELS)


def test_files_of_different_ranks_are_one_run(tmp_path: Path) -> None:
    for name, ranks in (("base", (0, 1)), ("other", (0, 1, 0, 1))):
        (tmp_path / name).mkdir()
        for number, rank in enumerate(ranks):
            kernel = Kernel(0, 100 + number, name="k", pid=7)
            write(tmp_path / name / f"{number}.db", kernel, ranks={7: rank}, label=f"{number}")
    said = api.compare(tmp_path / "base", tmp_path / "other", ["kernels"])
    (row,) = said.headline.rows()
    assert (row["base_runs"], row["other_runs"]) == (1, 2)
    sums = {row["rank"]: row["other_kernel_sum_ns"] for row in said.reports[0].rows()}
    # The first file of each rank is one run, the second of each another.
    assert sums == {0: (100 + 102) / 2, 1: (101 + 103) / 2}


# -- limits


def test_without_annotated_steps_a_step_is_no_figure_for_a_limit(tmp_path: Path) -> None:
    """All of a process is no step: half of it is not a faster step."""
    base, other = (
        written(tmp_path / f"{name}.sqlite", lambda e, n=n: replace(e, ranges=(), kernels=e.kernels[:n]))
        for name, n in (("a", None), ("b", 40))
    )
    result = api.compare(base, other, ["steps"], fail_on=["steps.avg_ns:15%"])
    assert result.exit_status == 4
    assert {row["verdict"] for row in result.reports[0].rows()} <= {None}


def test_an_empty_capture_is_no_improvement(tmp_path: Path) -> None:
    base = written(tmp_path / "a.sqlite")
    empty = written(tmp_path / "b.sqlite", lambda e: replace(e, kernels=(), memcpys=()))
    result = api.compare(base, empty, fail_on=[f"{SUM}:3%"])
    assert result.exit_status == 4
    assert result.reports[-1].rows()[0]["reason"] == "one side, or a rank of it, has no GPU work"
    kernels = next(report for report in result.reports if report.name == "diff_kernels")
    assert {row["verdict"] for row in kernels.rows()} <= {None}
    assert any("side-empty" in {note.slug for note in report.notes} for report in result.reports)


def test_a_rank_that_is_cut_off_is_no_improvement(tmp_path: Path) -> None:
    """Of two ranks one lost the end of its trace, and kernels: sums, means and steps alike."""
    base, other = (tmp_path / name for name in ("base", "other"))
    for folder, kept in ((base, 1.0), (other, 0.6)):
        folder.mkdir()
        for rank in (0, 1):
            packed = FIXTURES.parent / "recorded" / f"two_ranks_gloo-rank{rank}.json.gz"
            text = gzip.decompress(packed.read_bytes())
            (folder / f"rank{rank}.json").write_bytes(text[: int(kept**rank * len(text))])
    limits = ["kernels.kernel_count:50%", "kernels.avg_ns:50%", "steps.avg_ns:50%"]
    result = api.compare(base, other, ["kernels", "steps"], fail_on=limits, inconclusive="pass")
    assert result.exit_status == 4
    *reports, judged = result.reports
    assert {row["verdict"] for report in reports for row in report.rows()} <= {None}
    assert [(row["state"], row["reason"]) for row in judged.rows()] == [
        ("inconclusive", "one profile is truncated")] * 3  # fmt: skip


@pytest.mark.parametrize(("damaged", "status"), few([(1, 0), (0, 0), (2, 4), (250, 4)], 2))
def test_kernels_that_could_not_be_read_are_no_improvement(
    tmp_path: Path, damaged: int, status: int
) -> None:
    """Of 500 kernels 0.2 % may be lost, and no more: neither sums nor means are known then."""

    def many(events: Events) -> Events:
        (first, *_), step = events.kernels, 1_000
        more = [replace(first, start_ns=first.start_ns + i * step, end_ns=first.start_ns + i * step + 500)
                for i in range(500)]  # fmt: skip
        return replace(events, kernels=tuple(more), memcpys=())

    base, other = (written(tmp_path / f"{name}.sqlite", many) for name in ("a", "b"))
    with closing(sqlite3.connect(other)) as export:
        export.execute(f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 'x' WHERE rowid <= {damaged}")
        # That the files differ is no wonder.
        export.execute("CREATE TABLE other (a)")
        export.commit()
    for metric in ("kernels.kernel_sum_ns", "kernels.avg_ns"):
        limit = f"{metric}:50%"
        result = api.compare(
            base, other, ["kernels"], fail_on=[limit], inconclusive="pass", run_noise="0%"
        )
        assert result.exit_status == status
        if status:
            assert {row["verdict"] for row in result.reports[0].rows()} == {None}
            assert result.reports[-1].rows()[0]["reason"] == "one side lost more recorded events"


def test_the_same_recording_on_both_sides_is_said(tmp_path: Path) -> None:
    base, changed = written(tmp_path / "a.sqlite"), written(tmp_path / "b.sqlite", CHANGES["slower"])
    copy = tmp_path / "copy.sqlite"
    copy.write_bytes(base.read_bytes())
    for path, name in ((base, "one.db"), (copy, "two.db")):
        nsysconv.import_files([path], tmp_path / name)
    stores = tmp_path / "one.db", tmp_path / "two.db"
    for sides, is_same in (((base, copy), True), (stores, True), ((stores[0], changed), False)):
        result = api.compare(*sides, ["overview"])
        assert ("sides-equal" in {note.slug for note in result.reports[0].notes}) == is_same
        assert result.answer.startswith("same: both sides are the same recording") == is_same


def test_one_recording_on_two_gpus_is_one_recording_still(tmp_path: Path) -> None:
    """Runs on several GPUs are no repeats; that both sides have the same ones is said none the less."""
    (tmp_path / "runs").mkdir()
    first, second = (written(tmp_path / "runs" / f"{name}.sqlite") for name in ("a", "b"))
    with closing(sqlite3.connect(second)) as export, export:
        export.execute("UPDATE TARGET_INFO_GPU SET name = 'another one'")
        export.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = end + 1 WHERE rowid = 1")
    result = api.compare(first.parent, first.parent, ["overview"])
    assert result.answer == "same: both sides are the same recording"
    slugs = {note.slug for note in result.reports[0].notes}
    assert {"sides-equal", "gpu-differs", "work-differs"} <= slugs


def test_what_no_row_matches_is_no_noise(tmp_path: Path) -> None:
    base, other = written(tmp_path / "a.sqlite"), written(tmp_path / "b.sqlite")
    with closing(sqlite3.connect(other)) as export, export:
        # Another recording, and no other time.
        export.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = end + 1 WHERE rowid = 1")
    for pattern, status in (("zzz", 4), ("saxpy", 0)):
        limit = f"kernels[/{pattern}/].kernel_sum_ns:2%"
        for inconclusive, expected in (("fail", 4), ("pass", status)):
            found = api.compare(base, other, ["overview"], fail_on=[limit], inconclusive=inconclusive)
            assert found.exit_status == expected


def test_totals_without_gpu_work_are_no_improvement_either() -> None:
    """Both sides tell kernels, one of them that there were none."""
    logs = FIXTURES / "nvprof_log"
    limit = "kernels[/saxpy/].kernel_sum_ns:3%"
    result = api.compare(logs / "basic-summary.txt", logs / "no_gpu-summary.txt", ["kernels"],
                         fail_on=[limit])  # fmt: skip
    rows = result.reports[0].rows()
    assert {row["where"] for row in rows} == {"only in base"}
    assert {row["verdict"] for row in rows} == {None}
    assert result.exit_status == 4


def test_wrong_words_are_answered_with_right_ones(tmp_path: Path) -> None:
    base = written(tmp_path / "a.sqlite")
    for arguments, hint in (
        ({"reports": ["kernel"]}, "kernels"),
        ({"reports": ["idle_gaps"]}, "idle_summary"),
        ({"match": "fuzzy"}, "signature"),
        ({"fail_on": ["overview.kernel_sum:3%"]}, "kernel_sum_ns"),
        ({"run_noise": "0.3"}, "0.3%"),
        ({"inconclusive": "maybe"}, "pass"),
    ):
        with pytest.raises(UsageError) as caught:
            api.compare(base, base, **arguments)  # type: ignore[arg-type]
        assert hint in str(caught.value)
    with pytest.raises(InputError):
        api.compare(base, tmp_path / "missing.sqlite")
    with pytest.raises(UsageError, match="no file matches"):
        api.compare(base, f"{tmp_path}/*.nothing")


# -- what is said


def test_notes_tell_what_makes_runs_incomparable() -> None:
    nsys = next(path for path in NSYS.iterdir() if path.name.startswith("basic-3.25"))
    trace = FIXTURES / "kineto" / "basic-2.13.json"
    found = {r.name: r for r in api.compare(nsys, trace).reports}
    assert "api-coverage-differs" in {n.slug for n in found["diff_api_vs_kernel"].notes}
    # What one side does not record is said in place of rows.
    assert found["diff_steps"].table is None or found["diff_steps"].rows() is not None


def test_rows_are_added_up_over_what_one_side_does_not_tell(tmp_path: Path) -> None:
    nsys = next(path for path in NSYS.iterdir() if path.name.startswith("basic-3.25"))
    log = FIXTURES / "nvprof_log" / "basic-gpu-trace-cuda8.csv"
    (found,) = api.compare(nsys, log, ["transfers"]).reports
    assert found.rows() == []
    (note,) = [note for note in found.notes if note.slug == "rows-combined"]
    assert "src_kind, dst_kind" in note.text


def test_json_has_both_values_of_every_measure(tmp_path: Path) -> None:
    base, other = written(tmp_path / "a.sqlite"), written(tmp_path / "b.sqlite", CHANGES["slower"])
    status, text = run(
        base, other, "kernels", "-f", "json", "--fail-on", f"{SUM}:1%", "--run-noise", "1%"
    )
    document = json.loads(text)
    limits, kernels = document["reports"]
    (row,) = kernels["rows"]
    said = document["answer"]
    assert said["line"].startswith("FAIL: limits exceeded; same: step period")
    assert said["gate"] == "FAIL"
    assert (said["answer"], said["figure"], said["base_runs"]) == ("same", "step", 1)
    assert (said["limits_exceeded"], said["limits_within"], said["limits_inconclusive"]) == (1, 0, 0)
    assert status == 1
    assert (row["base_kernel_sum_ns"], row["other_kernel_sum_ns"]) == (
        2 * STEPS * 40_000, 2 * STEPS * 44_000)  # fmt: skip
    assert (row["base_med_ns"], row["other_med_ns"]) == (40_000.0, 44_000.0)
    assert limits["rows"][0]["state"] == "exceeded"


def test_markdown_is_short_enough_for_a_comment(tmp_path: Path) -> None:
    base, other = written(tmp_path / "a.sqlite"), written(tmp_path / "b.sqlite", CHANGES["slower"])
    _, text = run(base, other, "kernels", "-f", "markdown")
    header = next(line for line in text.splitlines() if line.startswith("|"))
    assert header.count("|") <= 12
    assert SAXPY.short in text
