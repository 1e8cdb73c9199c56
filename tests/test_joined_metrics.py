"""Metrics of another run at the kernels of a timeline: `--join`.

The made-up program `basic` launches eight kernels, which also start in this order (us):

    place   1       2        3         4       5       6         7        8
    name    saxpy   reduce   stencil   saxpy   apply   reduce    stencil  triton
    blocks  1000    108      16×16×4   500     64      108       16×16×4  54
    start   33      40       71        95      133     160       165      193

The kernel at place n is measured at 10 + n % of peak compute and 50 + n % of peak bandwidth.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FIXTURES, REAL, by_turns, examples, few, name_of, real
from fixtures_ncu import Measured, details, of_workload
from hypothesis import given
from hypothesis import strategies as st
from importing import imported
from scenario_basic import WORKLOAD
from small_store import Call, Kernel, Metric, write
from typer.testing import CliRunner
from workload import Function
from write_nsys_rep import write_report

import nsysconv
from nsysconv.cli.app import app
from nsysconv.errors import InputError, UsageError
from nsysconv.facts import Fact
from nsysconv.notes import Severity
from nsysconv.queries.kernel_metrics import shares_of_peak
from nsysconv.timeline.measured import launch_places, measured, same_kernels

NSYS = FIXTURES / "nsys" / "basic-3.20.3.sqlite"
TIMELINES = [NSYS, FIXTURES / "nsys" / "basic-2020.sqlite", FIXTURES / "kineto" / "basic-2.13.json",
             FIXTURES / "kineto" / "basic-1.9.json", FIXTURES / "nvprof_database" / "basic-12.nvvp",
             FIXTURES / "nvprof_database" / "basic-9.nvprof"]  # fmt: skip


def launches(spell: Callable[[Function], str] = lambda function: function.demangled) -> list[Measured]:
    return of_workload(WORKLOAD, spell)


def metrics_file(folder: Path, measured_launches: Sequence[Measured], name: str = "ncu.csv") -> Path:
    (folder / name).write_text(details(launches=measured_launches), encoding="utf-8")
    return folder / name


def found(profile: nsysconv.OpenProfile) -> list[int | None]:
    """By kernel in the order of their starts: the place of the launch that was measured of it, or None.

    What `why` says of a kernel is asked for directly: 50 + n % of peak bandwidth in this launch.
    """
    start = profile.timeline.profile.columns("kernel", ("start_ns",))["start_ns"]
    rows = [shares_of_peak(profile.timeline, row) for row in np.argsort(start).tolist()]
    return [
        None
        if row.get("memory_pct") is None or row["measured_count"] is not None
        else round(row["memory_pct"]) - 50
        for row in rows
    ]


def notes_of(profile: nsysconv.OpenProfile) -> dict[str, tuple[int, int, str]]:
    """Count, of how many, and place of each note on what was joined."""
    seen = measured(profile.timeline)
    return {note.slug: (note.count, note.of, note.where) for note in seen.notes} if seen else {}


WHOLE = {"metrics-of-another-run": (5, 0, "")}


@pytest.mark.parametrize("timeline", few(TIMELINES, 2), ids=name_of)
def test_every_launch_of_a_workload_is_found(timeline: Path, tmp_path: Path) -> None:
    with nsysconv.open(timeline, join=str(metrics_file(tmp_path, launches()))) as profile:
        assert found(profile) == [1, 2, 3, 4, 5, 6, 7, 8]
        assert notes_of(profile) == WHOLE
        # By kernel time: saxpy 1 and 4, reduce_sum 2 and 6, stencil 3 and 7, apply, triton.
        for spelling in ("demangled", "short"):
            rows = profile.report("kernels", kernel_names=spelling).rows()
            assert [row["memory_pct"] for row in rows if row["name"] != "-"] == [52.5, 54, 55, 55, 58]


def test_a_report_is_a_timeline_too(tmp_path: Path) -> None:
    write_report(NSYS, tmp_path / "run.nsys-rep")
    path = metrics_file(tmp_path, launches())
    with nsysconv.open(path, join=str(tmp_path / "run.nsys-rep")) as profile:
        assert found(profile) == [1, 2, 3, 4, 5, 6, 7, 8]
        # It is called after the timeline, whichever comes first.
        assert profile.profile.ref.label == "run"


SPELLINGS: dict[str, Callable[[Function], str]] = {
    "mangled": lambda function: function.mangled, "itanium": lambda function: function.itanium,
    "cut": lambda function: function.demangled[:14] + "..." * (len(function.demangled) > 14),
    "base": lambda function: function.short,
}  # fmt: skip


@pytest.mark.parametrize("spelling", few(SPELLINGS, 2))
def test_names_are_spelled_in_many_ways(spelling: str, tmp_path: Path) -> None:
    path = metrics_file(tmp_path, launches(SPELLINGS[spelling]))
    with nsysconv.open(NSYS, join=str(path)) as profile:
        assert found(profile) == [1, 2, 3, 4, 5, 6, 7, 8]
        assert notes_of(profile) == WHOLE


# Places of launches in the order in which they were measured; of kernels, by start; and on those that
# were not found: how many of how many.
SUBSETS = {
    # --launch-skip 2 --launch-count 3: stencil, saxpy 500 and apply follow each other once.
    "window": ([3, 4, 5], [None, None, 3, 4, 5, None, None, None], None),
    "filter": ([2, 6], [None, 2, None, None, None, 6, None, None], None),
    # A launch of another kernel says which one it is: after apply, or after triton, which is none.
    "after": ([5, 6], [None, None, None, None, 5, 6, None, None], None),
    "nowhere": ([8, 6], [None, None, None, None, None, None, None, 8], (1, 2)),
    # Two launches of one size: it may be either.
    "either": ([6], [None] * 8, (1, 1)),
    "one size": ([4], [None, None, None, 4, None, None, None, None], None),
    "names reordered": ([8, 5, 3, 7, 2, 6, 1, 4], [1, 2, 3, 4, 5, 6, 7, 8], None),
    "launches reordered": ([4, 1], [None] * 8, (2, 2)),
    # reduce, stencil as places 2, 3 or 6, 7.
    "twice": ([2, 3], [None] * 8, (2, 2)),
    # Stencil, then saxpy, then reduce: once; what precedes and follows is known from that.
    "across": ([3, 4, 6], [None, None, 3, 4, None, 6, None, None], None),
    # Saxpy 500, reduce, stencil: once, too.
    "end": ([4, 6, 7], [None, None, None, 4, None, 6, 7, None], None),
}  # fmt: skip


@pytest.mark.parametrize(("timeline", "name"), by_turns([NSYS, TIMELINES[2]], SUBSETS, 2), ids=name_of)
def test_some_launches_were_measured(name: str, timeline: Path, tmp_path: Path) -> None:
    order, places, loose = SUBSETS[name]
    every = launches()
    path = metrics_file(tmp_path, [every[place - 1] for place in order])
    with nsysconv.open(timeline, join=str(path)) as profile:
        assert found(profile) == places
        unmatched = notes_of(profile).get("launches-unmatched")
        assert (unmatched and unmatched[:2]) == loose


def test_what_is_uncertain_counts_for_the_name(tmp_path: Path) -> None:
    """One of two launches of reduce_sum, of one size: 56 % for both."""
    path = metrics_file(tmp_path, [launches()[5]])
    with nsysconv.open(NSYS, join=str(path)) as profile:
        rows = [profile.why(f"kernel:{place}").rows()[0] for place in (2, 6)]
        assert [(row["memory_pct"], row["measured_count"], row["limit"]) for row in rows] == [
            (56, 1, "latency")
        ] * 2
        (_, _, where) = notes_of(profile)["launches-unmatched"]
        assert where == "void reduce_sum<double>(const T1 *, T1 *, unsigned long)"


@pytest.mark.parametrize("timeline", few([NSYS, TIMELINES[2]], 1), ids=name_of)
def test_other_sizes_are_another_launch(timeline: Path, tmp_path: Path) -> None:
    every = launches()
    every[0] = replace(every[0], blocks=(999, 1, 1))
    every[7] = replace(every[7], threads=(64, 1, 1))
    with nsysconv.open(timeline, join=str(metrics_file(tmp_path, every))) as profile:
        assert found(profile) == [None, 2, 3, None, 5, 6, 7, None]
        assert notes_of(profile)["launches-unmatched"][:2] == (3, 8)


def test_more_launches_were_measured_than_recorded(tmp_path: Path) -> None:
    """All, then two more: those recorded are the first ones. Of three times reduce_sum alone, the
    recorded ones may be the first two or the last two.
    """
    every = launches()
    reduce = every[1]
    with nsysconv.open(NSYS, join=str(metrics_file(tmp_path, [*every, every[3], reduce]))) as profile:
        assert found(profile) == [1, 2, 3, 4, 5, 6, 7, 8]
        assert notes_of(profile)["launches-unmatched"][:2] == (2, 10)
    with nsysconv.open(NSYS, join=str(metrics_file(tmp_path, [reduce] * 3))) as profile:
        assert found(profile) == [None] * 8
        assert notes_of(profile)["launches-unmatched"][:2] == (3, 3)


@pytest.mark.parametrize(("pids", "places"), [
    # The only processes of both sides are the same program's.
    ((7, 7), [1, 2]), ((4242, 4242), [1, 2]),
    # Two that were measured: one has the number of the one here, or none has.
    ((4242, 7), [1, None]), ((8, 7), [None, None]),
])  # fmt: skip
def test_processes_are_matched_by_number_if_there_are_several(
    pids: tuple[int, int], places: list[int | None], tmp_path: Path
) -> None:
    every = launches()
    made = [replace(every[place], pid=pid) for place, pid in zip((4, 7), pids, strict=True)]
    with nsysconv.open(NSYS, join=str(metrics_file(tmp_path, made))) as profile:
        apply, triton = found(profile)[4], found(profile)[7]
        assert [apply and apply - 4, triton and triton - 6] == places


def test_the_order_is_that_of_launches(tmp_path: Path) -> None:
    """The first one launched starts last, on another stream."""
    write(tmp_path / "run.db", Call(0, 1, 1), Call(2, 3, 2), Kernel(50, 60, 1, 7, name="apply"),
          Kernel(10, 20, 2, 8, name="apply"), without={Fact.METRICS})  # fmt: skip
    twice = [launches()[4], replace(launches()[4], memory_pct=56.0)]
    path = metrics_file(tmp_path, twice)
    with nsysconv.open(tmp_path / "run.db", join=str(path)) as profile:
        assert found(profile) == [6, 5]


def test_files_of_several_runs_are_matched_one_by_one(tmp_path: Path) -> None:
    """Two runs of all launches: the mean of the same launch in both, 50 + n and 70 + n."""
    every = launches()
    others = [replace(each, memory_pct=each.memory_pct + 20, pid=7) for each in every]
    paths = [metrics_file(tmp_path, every), metrics_file(tmp_path, others, "second.csv")]
    with nsysconv.open(NSYS, join=map(str, paths)) as profile:
        assert found(profile) == [place + 10 for place in range(1, 9)]
        assert notes_of(profile) == WHOLE
        assert profile.profile.row_count("metric_sample") == 2 * 8 * 11


def test_a_summary_is_of_all_launches_of_a_name(tmp_path: Path) -> None:
    path = tmp_path / "summary.csv"
    text = (FIXTURES / "ncu" / "summary.csv").read_text(encoding="utf-8")
    path.write_text(text.replace("saxpy(int, float, const float *, float *)", "saxpy"), encoding="utf-8")
    with nsysconv.open(NSYS, join=str(path)) as profile:
        assert found(profile) == [None] * 8
        row = profile.why("kernel:1").rows()[0]
        assert (row["memory_pct"], row["compute_pct"], row["limit"], row["measured_count"]) == (
            70, 25, "bandwidth", 2
        )  # fmt: skip
        assert "launches-unmatched" not in notes_of(profile)
        assert notes_of(profile)["metrics-without-kernel"] == (1, 0, "tiny<(int)1>(int *)")


def test_metrics_of_another_program_are_said_to_be(tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text(metrics_file(tmp_path, launches()[:1]).read_text().replace("saxpy", "other"))
    with nsysconv.open(NSYS, join=str(other)) as profile:
        assert found(profile) == [None] * 8
        report = profile.report("kernels")
        assert {row["memory_pct"] for row in report.rows()} == {None}
        (note,) = (note for note in report.notes if note.slug == "metrics-without-kernel")
        assert (note.severity, note.count) == (Severity.DROPPED, 1)
        assert "it may be another program" in note.text


# -- in reports


def test_kernel_limits_have_their_share_of_kernel_time(tmp_path: Path) -> None:
    """Times are the timeline's: saxpy 15 of 38 us. No kernel has more rows, or fewer."""
    path = metrics_file(tmp_path, launches())
    with nsysconv.open(NSYS, join=str(path)) as profile:
        report = profile.report("kernel_limits")
        columns = ("kernel_count", "kernel_sum_ns", "kernel_pct", "compute_pct")
        shown = [tuple(round(row[column], 1) for column in columns) for row in report.rows()]
        assert shown == [(2, 15000, 39.5, 12.5), (2, 11000, 28.9, 14), (2, 5000, 13.2, 15),
                         (1, 4000, 10.5, 15), (1, 3000, 7.9, 18)]  # fmt: skip
        slugs = {note.slug for note in report.notes}
        assert "metrics-of-another-run" in slugs
        # Durations here are those of the program.
        assert "kernels-serialized" not in slugs
        # A slice has the metrics of all launches.
        part = nsysconv.Slice(time=(90_000, 130_000))
        for name in ("kernels", "kernel_limits"):
            (row,) = profile.report(name, slice=part).rows()
            assert (row["kernel_count"], row["compute_pct"], row["memory_pct"]) == (1, 12.5, 52.5)


def test_without_metrics_people_see_no_columns_on_them() -> None:
    runner = CliRunner()
    shown = runner.invoke(app, ["report", str(NSYS), "kernels"]).stdout
    assert "memory" not in shown
    assert "limit" not in shown
    with nsysconv.open(NSYS) as profile:
        assert {row["limit"] for row in profile.report("kernels").rows()} == {None}
        assert {row["kernel_pct"] for row in profile.report("kernel_limits").rows()} == {None}
        row = profile.why("kernel:1").rows()[0]
        assert (row["limit"], row["measured_count"]) == (None, None)


@pytest.mark.parametrize(("memory", "compute", "words"), [
    (51.4, 12, "at 51 % of peak bandwidth and 12 % of peak compute (latency-bound), measured in"),
    (81, 12, "at 81 % of peak bandwidth and 12 % of peak compute (memory-bound), measured in"),
    (7, 93, "at 7 % of peak bandwidth and 93 % of peak compute (compute-bound), measured in"),
])  # fmt: skip
def test_why_says_how_near_to_its_peak_a_kernel_ran(
    memory: float, compute: float, words: str, tmp_path: Path
) -> None:
    every = launches()
    every[4] = replace(every[4], memory_pct=memory, sm_pct=compute)
    path = metrics_file(tmp_path, every)
    shown = CliRunner().invoke(app, ["why", str(NSYS), "kernel:5", str(path), "--join"])
    assert f"{words} this launch" in " ".join(shown.stdout.split())


def test_other_launches_of_the_name_are_said_to_be_others(tmp_path: Path) -> None:
    """The event may come last."""
    path = metrics_file(tmp_path, [launches()[3]])
    words = [str(NSYS), str(path), "kernel:1", "--join"]
    shown = " ".join(CliRunner().invoke(app, ["why", *words]).stdout.split())
    assert "14 % of peak compute (latency-bound), measured in another launch of this name" in shown


def test_a_page_and_an_answer_are_of_all_files(tmp_path: Path) -> None:
    path = metrics_file(tmp_path, launches())
    reports = {report.name: report for report in nsysconv.page(NSYS, join=str(path))}
    for name in ("kernels", "kernel_limits"):
        assert [row["limit"] for row in reports[name].rows()] == ["latency"] * 5
    (report,) = nsysconv.report_on(NSYS, "kernels", join=str(path))
    assert report.rows()[0]["memory_pct"] == 52.5
    shown = CliRunner().invoke(app, [str(NSYS), str(path), "--join"])
    assert shown.exit_code == 0
    # What to go on with is asked of all files, too; it works as it is typed.
    assert f"nsysconv report {NSYS} {path} --join NAME" in shown.stdout
    (why,) = re.findall(r"nsysconv (why .* --join [a-z_]+:\d+)", shown.stdout)
    assert CliRunner().invoke(app, why.split()).exit_code == 0
    assert "8 kernels" in shown.stdout or "kernels 38.00 µs (8)" in shown.stdout


# -- in stores


def test_an_import_keeps_what_it_joins(tmp_path: Path) -> None:
    paths = [NSYS, metrics_file(tmp_path, launches())]
    store = tmp_path / "job.db"
    first = nsysconv.import_files(paths, store, join=True)
    (file,) = first.files
    (profile,) = file.imported
    assert (profile.label, profile.row_counts["kernel"], profile.row_counts["metric_sample"]) == (
        "basic-3.20.3", 8, 88
    )  # fmt: skip
    assert nsysconv.import_files(paths, store, join=True).files[0].imported[0].existing
    copy = tmp_path / "copy.db"
    nsysconv.import_files(store, copy)
    for place in (store, copy):
        with nsysconv.open(place) as opened:
            assert found(opened) == [1, 2, 3, 4, 5, 6, 7, 8]
            assert Fact.METRICS in opened.profile.facts
    assert nsysconv.check(copy).rows() == []


def test_profiles_of_stores_are_joined_too(tmp_path: Path) -> None:
    """Of two in a store one is named; what was joined stays when more is."""
    path = metrics_file(tmp_path, launches()[:5])
    runs, other, both = (tmp_path / name for name in ("runs.db", "ncu.db", "both.db"))
    nsysconv.import_files([NSYS, TIMELINES[2]], runs)
    nsysconv.import_files(path, other)
    with nsysconv.open(f"{runs}@basic-2.13", join=str(other)) as profile:
        assert profile.profile.ref.source == "kineto"
        assert found(profile) == [1, 2, 3, 4, 5, None, None, None]
    nsysconv.import_files([f"{runs}@basic-3.20.3", other], both, join=True)
    last = metrics_file(tmp_path, launches()[5:], "last.csv")
    with nsysconv.open(both, join=str(last)) as profile:
        assert found(profile) == [1, 2, 3, 4, 5, 6, 7, 8]
    with pytest.raises(UsageError, match="2 profiles"):
        nsysconv.open(runs, join=str(other))


def test_metrics_of_the_timeline_itself_are_kept(tmp_path: Path) -> None:
    """7 % for one kernel here, and 80 for the other one in another run."""
    write(tmp_path / "run.db", Call(0, 1, 1), Kernel(2, 3, 1, name="a"), Kernel(4, 9, name="b"),
          occupancy("a", 0.07))  # fmt: skip
    write(tmp_path / "other.db", occupancy("b", 0.75), occupancy("b", 0.85), without={Fact.API_CALLS})
    with nsysconv.open(tmp_path / "run.db", join=str(tmp_path / "other.db")) as profile:
        rows = [(row["name"], row["kernel_sum_ns"], row["achieved_occupancy_pct"])
                for row in profile.report("kernel_limits").rows()]  # fmt: skip
        assert rows == [("b", 5, pytest.approx(80)), ("a", 1, pytest.approx(7))]


def occupancy(kernel: str, value: float) -> Metric:
    return Metric("achieved_occupancy", kernel, value)


# -- what cannot be joined


@pytest.mark.parametrize(("names", "what"), [
    (["raw.csv", "details.csv"], "there is no timeline"),
    (["raw.csv", "missing.csv"], "no such file"),
    (["raw.csv"], "one file alone cannot be joined"),
])  # fmt: skip
def test_there_is_nothing_to_join(names: list[str], what: str) -> None:
    first, *others = (str(FIXTURES / "ncu" / name) for name in names)
    with pytest.raises((InputError, UsageError), match=what):
        nsysconv.open(first, join=others) if others else nsysconv.import_files(first, join=True)


def test_two_timelines_are_no_profile(tmp_path: Path) -> None:
    path = metrics_file(tmp_path, launches())
    with pytest.raises(InputError, match="files of this kind cannot be joined") as error:
        nsysconv.open(NSYS, join=[str(TIMELINES[2]), str(path)])
    assert "metrics of the same program's kernels" in error.value.hint


@pytest.mark.parametrize(("words", "what"), [
    (["report", str(NSYS), "kernels", "--join"], "--join joins the files after the first one"),
    (["report", str(NSYS), "missing.csv", "kernels", "--join"], "missing.csv: no such file"),
    (["why", str(NSYS), "kernel:1", "other", "--join"], "--join joins the files after"),
    (["why", str(NSYS), "kernel:1", "kernel:2"], "one event is explained"),
])  # fmt: skip
def test_a_command_says_what_is_wrong(words: list[str], what: str) -> None:
    with pytest.raises((InputError, UsageError)) as error:
        CliRunner().invoke(app, words, standalone_mode=False, catch_exceptions=False)
    assert what in str(error.value)


# -- names and places


@pytest.mark.parametrize(("here", "there"), [
    ("k", "k"), ("void n::k<float, (int)4>(T1 *)", "k<float,4>(float*)"), ("void n::k<4>(int)", "k"),
    ("void <unnamed>::k<float>(int)", "k(float *)"),
    ("void k<4, std::array<char*, 3ul> >(int)", "void k<(int)4, std::array<char *, (unsigned long)3>>()"),
    ("void k<true, false, -2l>(int)", "void k<(bool)1, (bool)0, (long)-2>(T1)"),
    ("void k<12ull, 5u>(int)", "void k<(unsigned long long)12, (unsigned int)5>(T1)"),
    ("void very_long_name<7>(int)", "void very_long_na..."),
    ("void very_long…", "void very_long_name<7>(int)"), ("void k(int)", "_Z1ki"),
])  # fmt: skip
def test_kernels_of_another_run_are_found_by_their_names(here: str, there: str) -> None:
    symbols = {"void k(int)": "_Z1ki"}
    # Others with the same base name leave only the whole name.
    others = {"void k<9>(int)"} if here.startswith("void k<") else {"another"}
    assert same_kernels({here, *others}, {there}, symbols) == {here: there}


@pytest.mark.parametrize(("kernels", "others", "wanted"), [
    # Without template arguments, either fits.
    ({"k<1>(int)", "k<2>(int)"}, {"k"}, {}),
    ({"k"}, {"k<1>(int)", "k<2>(int)"}, {}),
    # That one has its partner does not say whose the other one is.
    ({"k<1>(int)", "k<2>(int)"}, {"k<1>(int)", "k"}, {"k<1>(int)": "k<1>(int)"}),
    ({"void long_a<1>", "void long_a<2>"}, {"void long_a..."}, {}),
    ({"k"}, {"other"}, {}),
])  # fmt: skip
def test_a_name_that_several_kernels_have_is_the_name_of_none(
    kernels: set[str], others: set[str], wanted: dict[str, str]
) -> None:
    assert same_kernels(kernels, others, {}) == wanted


def test_the_example_of_the_definition() -> None:
    """Timeline s1000 r t s500 t a r, whose places are from 1; blocks of r, t, a are 1."""
    numbers = {"s1000": 0, "s500": 0, "r": 1, "t": 2, "a": 3}
    here = ["s1000", "r", "t", "s500", "t", "a", "r"]

    def places(words: str) -> list[int]:
        every = [*here, *words.split()]
        sizes = np.array([int(word[1:] or 1) for word in every])
        found_there = launch_places(np.array([numbers[word] for word in every]), [sizes], len(here), 4)
        return (found_there + 1).tolist()

    assert places("t s500") == [3, 4]
    assert places("a r") == [6, 7]
    assert places("r") == [0]
    assert places("t t s500 s1000") == [3, 5, 0, 0]


def slow_places(here: list[int], there: list[int]) -> list[int]:
    """The places of launches of one kernel, of these sizes: where the shorter list fits once."""
    short, long = sorted((there, here), key=len)
    fits = [i for i in range(len(long) - len(short) + 1) if long[i : i + len(short)] == short]
    if len(fits) != 1:
        return [-1] * len(there)
    if len(there) <= len(here):
        return [fits[0] + i for i in range(len(there))]
    return [i - fits[0] if 0 <= i - fits[0] < len(here) else -1 for i in range(len(there))]


@examples(300)
@given(here=st.lists(st.integers(1, 3), min_size=1, max_size=8),
       there=st.lists(st.integers(1, 3), min_size=1, max_size=8))  # fmt: skip
def test_places_are_those_where_launches_fit_once(here: list[int], there: list[int]) -> None:
    numbers = np.zeros(len(here) + len(there), np.int64)
    sizes = [np.array([*here, *there], np.int64)]
    assert launch_places(numbers, sizes, len(here), 1).tolist() == slow_places(here, there)


# -- real files


REPORTS = sorted((REAL / "ncu_rep").glob("*.ncu-rep")) or [REAL / "missing"]
TABLES = sorted((REAL / "ncu_csv").glob("*.csv")) or [REAL / "missing"]
MODULE = pytest.mark.skipif(
    importlib.util.find_spec("ncu_report") is None, reason="ncu-report is not installed"
)


@real
@pytest.mark.parametrize("path", [*(pytest.param(path, marks=MODULE) for path in REPORTS), *TABLES],
                         ids=lambda path: path.stem[-24:])  # fmt: skip
def test_every_launch_of_a_real_file_is_found(path: Path, tmp_path: Path) -> None:
    """A timeline is made of the launches that the file tells of."""
    with imported(path) as measured_alone:
        columns = ("name_id", *(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"))
        kernels = measured_alone.columns("kernel", columns)
        names = measured_alone.names(kernels["name_id"])
        rows: list[Any] = []
        for i, name_id in enumerate(kernels["name_id"].tolist()):
            grid, block = (tuple(int(kernels[f"{what}_{axis}"][i]) for axis in "xyz")
                           for what in ("grid", "block"))  # fmt: skip
            at, name = 100 * i, names[name_id]
            kernel = Kernel(at + 2, at + 50, i + 1, name=name, grid=grid, block=block)
            rows += [Call(at, at + 1, i + 1), kernel]
    write(tmp_path / "run.db", *rows, without={Fact.METRICS})
    with nsysconv.open(tmp_path / "run.db", join=str(path)) as profile:
        seen = measured(profile.timeline)
        assert seen is not None
        assert seen.row.tolist() == list(range(len(seen.ids)))
        assert [note.slug for note in seen.notes] == ["metrics-of-another-run"]
        limits = {row["name"]: row["limit"] for row in profile.report("kernels").rows()}
    (alone,) = nsysconv.report_on(path, "kernel_limits")
    assert limits == {row["name"]: row["limit"] for row in alone.rows()}
