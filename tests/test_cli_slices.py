"""What of a profile to look at, options of reports, and the list of reports, on the command line."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, NSYS, few, name_of
from golden_cases import Outcome, run
from small_store import Call, Kernel, Range, Row, Total, opened, write

from nsysconv.api import Percent, Slice
from nsysconv.api import open as open_profile
from nsysconv.api import reports as list_reports
from nsysconv.cli import commands
from nsysconv.errors import UsageError
from nsysconv.queries import CORE, REPORTS, parse_spec

RANGES = NSYS / "ranges-3.28.1.sqlite"
# A file of each source that has times.
BEYOND = [
    NSYS / "basic-3.20.3.sqlite", FIXTURES / "kineto/basic-2.13.json",
    FIXTURES / "nvprof_database/basic-9.nvprof", FIXTURES / "nvprof_log/basic-both-traces.csv",
    FIXTURES / "nsys_stats/basic-2022-traces.txt",
]  # fmt: skip


def failed(outcome: Outcome, *words: str) -> None:
    """A mistake on the command line: 2, nothing on stdout, a message with these words."""
    assert (outcome.status, outcome.out) == (2, ""), outcome
    assert "Traceback" not in outcome.err
    for word in words:
        assert word in outcome.err, outcome.err


def told(outcome: Outcome) -> dict[str, Any]:
    """The only report of a JSON document."""
    assert outcome.status == 0, outcome
    (report,) = json.loads(outcome.out)["reports"]
    return dict(report)


# -- times


def parsed(time: str) -> Any:
    found = commands.parse_slice(time, skip_first=0, projected=False, devices=None)
    assert found is not None
    return found.time


@pytest.mark.parametrize(("text", "expected"), [
    ("5:1000", (5, 1000)),
    ("5ns:1us", (5, 1_000)),
    ("1us:2µs", (1_000, 2_000)),
    ("1.5ms:2ms", (1_500_000, 2_000_000)),
    ("1.5s/2s", (1_500_000_000, 2_000_000_000)),
    ("0.000000001s:1s", (1, 1_000_000_000)),
    ("0.0000000019s:1s", (1, 1_000_000_000)),
    ("-5:5", (-5, 5)),
    ("-0.5s:0.5s", (-500_000_000, 500_000_000)),
    ("3s:", (3_000_000_000, None)),
    (":3s", (None, 3_000_000_000)),
    ("/3s", (None, 3_000_000_000)),
    (" 1 : 2 ", (1, 2)),
    ("10%:90%", (Percent(10), Percent(90))),
    ("33.3%:", (Percent(Fraction(333, 10)), None)),
    ("1s:50%", (1_000_000_000, Percent(50))),
])  # fmt: skip
def test_times(text: str, expected: Any) -> None:
    assert parsed(text) == expected


@pytest.mark.parametrize(("text", "words"), [
    *((text, None) for text in (
        "5", ":", "", "/", "1:2:3", "1s-2s", "soon:2s", "1 s:2s", "1h:2h", "1e9:2e9", "1.:2s", ".5s:1s",
        "1.5:2", "-1%:5%", "0%:101%", "1s:nan", f"{'9' * 5000}:", "2s:1s", "1:1", "50%:50%")),
    ("1.25us:1.2505us", "ends before it starts"),
])  # fmt: skip
def test_what_is_no_time(text: str, words: str | None) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        parsed(text)
    assert caught.value.hint


def test_no_flag_is_no_slice() -> None:
    assert commands.parse_slice(None, skip_first=0, projected=False, devices=[], name=None) is None


def test_flags_are_one_slice() -> None:
    found = commands.parse_slice("1:2", range="r@d#2", step="5:7", skip_first=3, projected=True,
                                 devices=[0, 1], streams=[7], ranks=[4], processes=[10],
                                 threads=[11], name="gemm")  # fmt: skip
    assert found == Slice(
        time=(1, 2), range="r@d#2", step="5:7", skip_first=3, projected=True, devices=(0, 1),
        streams=(7,), ranks=(4,), processes=(10,), threads=(11,), name="gemm",
    )  # fmt: skip


# -- what is said of it


def test_json_states_the_slice(folder: Path) -> None:
    flags = ["--time", "20us:0.1ms", "--device", "0", "--name", "gemm|saxpy"]
    found = told(run("report", "report1.sqlite", "overview", *flags, "-f", "json", cwd=folder))
    assert found["slice"] == {
        "start_ns": 20_000, "end_ns": 100_000, "devices": [0], "name": "gemm|saxpy"}  # fmt: skip
    assert found["rows"][0]["window_start_ns"] == 20_000
    found = told(run("report", "report1.sqlite", "overview", "-f", "json", cwd=folder))
    assert found["slice"] is None


def test_an_open_time_and_a_share_are_stated_as_they_were_said(folder: Path) -> None:
    for flag, said in (("10%:50.5%", "10%:50.5%"), ("20us:", "20000ns:")):
        found = told(
            run("report", "report1.sqlite", "overview", "--time", flag, "-f", "json", cwd=folder)
        )
        assert found["slice"]["time"] == said
        assert found["slice"]["start_ns"] == found["rows"][0]["window_start_ns"]


@pytest.mark.parametrize(("flags", "heading"), [
    (["--time", "20us/0.05ms"], "slice 20 µs to 50 µs"),
    (["--time", "20us/0.1ms"], "slice 20 µs to 60 µs, time 20000ns:100000ns"),
    (["--step", "1"], "slice 2 µs to 20 µs, step 1"),
    (["--device", "0", "--stream", "7", "--thread", "4300"], "slice device 0, stream 7, thread 4300"),
    (["--skip-first", "1"], "slice 20 µs to 43 µs, steps left out first 1"),
])  # fmt: skip
def test_headings_state_the_slice(flags: list[str], heading: str, folder: Path) -> None:
    outcome = run("report", RANGES, "kernels", *flags, cwd=folder)
    assert outcome.status == 0, outcome
    assert outcome.out.splitlines()[0] == f"Kernels by name - ranges-3.28.1 - {heading}"


@pytest.mark.parametrize(("report", "kind"), few([
    ("kernels", "csv"), ("kernels", "tsv"), ("cuda_gpu_kern_sum", "csv"),
    ("cuda_gpu_kern_sum", "json"), ("cuda_gpu_kern_sum", "column"),
], 2))  # fmt: skip
def test_where_there_is_no_heading_stderr_states_the_slice(
    report: str, kind: str, folder: Path
) -> None:
    flags = ["--time", "20us:0.1ms", "--device", "0", "-f", kind]
    outcome = run("report", "report1.sqlite", report, *flags, cwd=folder)
    assert outcome.status == 0
    assert outcome.err.splitlines()[0] == f"{report}: slice 20 µs to 100 µs, device 0"
    assert "slice" not in run("report", "report1.sqlite", report, "-f", kind, cwd=folder).err


@pytest.mark.parametrize(
    ("path", "is_stored"), few(itertools.product(BEYOND, [True, False]), 1), ids=name_of
)
def test_a_time_beyond_the_recording(path: Path, is_stored: bool, tmp_path: Path) -> None:
    """Of every source, in place and stored: cut to the recording with a note, and outside refused."""
    target = "job.db" if is_stored else str(path)
    if is_stored:
        run("import", str(path), "-o", target, cwd=tmp_path)

    def asked(command: str, *more: str) -> Outcome:
        return run(*command.split(), target, *more, cwd=tmp_path)

    answered = asked("report", "overview", "--time", "0:100000s")
    assert answered.status == 0 and "slice-beyond-recording" in answered.out, answered
    assert "time 0ns:100000000000000ns" in asked("", "--time", "0:100000s").out
    to = ("--to", "chrome", "-o", "made.json")
    assert "slice-beyond-recording" in asked("export", *to, "--time", "0:100000s").err
    assert "slice-beyond-recording" not in asked("report", "overview", "--time", "10%:90%").out
    for command in ("report", "", f"diff {target}", "export --to chrome"):
        outcome = asked(command, "--time", "100000s:200000s")
        assert outcome.status == 2 and "The profile is from" in outcome.err, outcome


def test_the_sides_of_a_diff_are_cut_to_their_recordings(two: Path) -> None:
    found = told(run("diff", "base.db", "other.db", "overview", "--time", "0:2us", "-f", "json", cwd=two))
    slugs = [note["slug"] for note in found["notes"]]
    assert slugs.count("slice-beyond-recording") == 2


def test_of_many_profiles_those_that_have_ended_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    write(tmp_path / "run/a.db", Kernel(0, 100), ranks={1: 0}, label="a")
    write(tmp_path / "run/b.db", Kernel(0, 1000), ranks={1: 1}, label="b")
    found = told(run("report", "run", "overview", "--time", "500:600", "-f", "json", cwd=tmp_path))
    assert [row["profile"] for row in found["rows"]] == ["b"]
    outside = run("report", "run", "overview", "--time", "5000:6000", cwd=tmp_path)
    failed(outside, "is from 0 ns to 100 ns")


def test_a_flag_may_be_repeated(folder: Path) -> None:
    two = NSYS / "two_processes_two_gpus-3.24.7.sqlite"
    found = [told(run("report", two, "overview", *flags, "-f", "json", cwd=folder))["row_count"]
             for flags in ([], ["--device", "0"], ["--device", "0", "--device", "1"])]  # fmt: skip
    assert found == [2, 1, 2]


def test_no_rows_of_a_slice_is_an_answer(folder: Path) -> None:
    outcome = run("report", "report1.sqlite", "kernels", "--time", "0:1", cwd=folder)
    assert (outcome.status, "No rows in this selection." in outcome.out) == (0, True)


@pytest.mark.parametrize(("flags", "words"), [
    (["--time", "5"], ["is not A:B", "For example"]),
    (["--time", "9s:"], ["empty", "report1: "]),
    (["--range", "nothing"], ["no range 'nothing'", "There are: ", "report1: "]),
    (["--step", "99", "--step-range", "iteration *"], ["no step '99'"]),
    (["--skip-first", "-1"], ["--skip-first"]),
    (["--projected"], ["projected"]),
    (["--device", "x"], ["--device"]),
    (["--rank", "9"], ["no rank 9", "There are: 3"]),
    (["--process", "9"], ["no process 9"]),
    (["--name", "("], ["regular expression"]),
])  # fmt: skip
def test_mistakes(flags: list[str], words: list[str], folder: Path) -> None:
    failed(run("report", "report1.sqlite", *flags, cwd=folder), *words)


# -- options of reports


@pytest.mark.parametrize(("spec", "name", "options"), [
    ("launch_stats", "launch_stats", {"long_call_ns": 50_000, "long_queue_ns": 100_000}),
    ("launch_stats:long_queue_ns=7", "launch_stats", {"long_call_ns": 50_000, "long_queue_ns": 7}),
    ("gpu_gaps:gap=1.5", "gpu_gaps", {"gap": 1.5}),
    ("cuda_gpu_kern_sum:base", "cuda_gpu_kern_sum",
     {"nvtx-name": False, "base": True, "mangled": False}),
    ("cuda_gpu_kern_sum:base:nvtx-name", "cuda_gpu_kern_sum",
     {"nvtx-name": True, "base": True, "mangled": False}),
    # A path may hold the signs.
    *((f"kernel_categories:rules={path}", "kernel_categories", {"rules": path})
      for path in ("/tmp/a.toml", r"C:\rules\a.toml", "a=b.toml", "a:b:c")),
])  # fmt: skip
def test_options_of_a_report(spec: str, name: str, options: dict[str, object]) -> None:
    found = parse_spec(spec)
    assert (found.name, found.options, found.text) == (name, options, spec)


@pytest.mark.parametrize(("spec", "words"), [
    ("kernel", ["no report 'kernel'", "kernels", "--list"]),
    ("", ["no report ''"]),
    (":base", ["no report ''"]),
    ("transfers:base", ["no option 'base'", "has no options"]),
    ("kernels:", ["no option ''"]),
    ("launch_stats:long=5", ["no option 'long'", "long_call_ns=50000, long_queue_ns=100000"]),
    ("launch_stats:long_call_ns", ["needs a value"]),
    ("launch_stats:long_call_ns=", ["needs a value"]),
    ("launch_stats:long_call_ns=soon", ["no number"]),
    ("launch_stats:long_call_ns=1.5", ["no number"]),
    ("launch_stats:long_call_ns=5:6", ["no number"]),
    ("gpu_gaps:gap=wide", ["no number"]),
    ("gpu_gaps:gap=nan", ["no number"]),
    ("gpu_gaps:gap=inf", ["no number"]),
    ("cuda_gpu_kern_sum:base=1", ["has no value"]),
    ("cuda_gpu_kern_sum:base:x", ["no option 'x'", "nvtx-name, base, mangled"]),
    ("kernel_categories:rules=", ["needs a value", "rules=…"]),
    (f"launch_stats:long_call_ns={'9' * 5000}", ["no number"]),
    ("launch_stats:long_call_ns=5:long_call_ns=6", ["long_call_ns", "twice"]),
])  # fmt: skip
def test_mistakes_in_options(spec: str, words: list[str], folder: Path) -> None:
    failed(run("report", "report1.sqlite", spec, cwd=folder), *words)


def test_a_report_is_called_as_it_was_asked_for(folder: Path) -> None:
    spec = "launch_stats:long_call_ns=1"
    found = told(run("report", "report1.sqlite", spec, "-f", "json", cwd=folder))
    assert found["report"] == spec
    plain = told(run("report", "report1.sqlite", "launch_stats", "-f", "json", cwd=folder))
    assert sum(row["long_call_count"] for row in plain["rows"]) == 0
    assert sum(row["long_call_count"] for row in found["rows"]) > 0


# -- the list of reports


def test_the_list_of_reports(folder: Path) -> None:
    found = told(run("report", "--list", "-f", "json", cwd=folder))
    names = [row["report"] for row in found["rows"]]
    assert sorted(names) == sorted(REPORTS)
    groups = [row["about"] for row in found["rows"]]
    assert "others" not in groups
    assert len([group for group, _ in itertools.groupby(groups)]) == len(set(groups))
    assert {row["report"] for row in found["rows"] if row["core"] == "yes"} == set(CORE)
    rows = {row["report"]: row for row in found["rows"]}
    assert rows["overview"] == {
        "key": "report=overview", "about": "overview", "report": "overview",
        "title": "Overview by device", "core": "yes", "needs": "kernel events",
        "uses": "memory copies, memsets, unified-memory migrations, graph launches as intervals, "
        "device properties", "options": None}  # fmt: skip
    assert rows["steps"]["needs"] is None
    assert rows["launch_stats"]["options"] == "long_call_ns, long_queue_ns"


def test_what_has_no_steps_and_one_rank_does_not_answer_on_them(folder: Path) -> None:
    rows = {row["report"]: row for row in list_reports(folder / "report1.sqlite").rows()}
    for name, words in (("stragglers", "several ranks"), ("steps", "a word with a number that rises")):
        assert rows[name]["answered"] == "no"
        assert words in rows[name]["missing"]


# Beside facts there are things in words that a report may need.
IN_WORDS = {"cuda_memset_sync", "cuda_memcpy_async", "openacc_sum", "devices"}
# These have a table without rows, or with one row of everything.
IN_WORDS |= {"stragglers", "collective_arrivals", "steps"}


@pytest.mark.parametrize(
    "target", [RANGES, FIXTURES / "nvprof_log" / "basic-summary.txt"], ids=lambda path: path.name
)
def test_the_list_is_what_reports_answer(target: Path) -> None:
    """`yes` is a table, `no` is none."""
    rows = list_reports(target).rows()
    said = {row["report"]: row["answered"] for row in rows}
    with open_profile(target) as profile:
        answers = profile.reports(tuple(said))
    found = {name: "yes" if answer.table is not None else "no"
             for name, answer in zip(said, answers, strict=True)}  # fmt: skip
    assert {name for name in said if said[name] != found[name]} <= IN_WORDS


def test_report_on_nothing(folder: Path) -> None:
    failed(run("report", cwd=folder), "report on what?", "--list")


# -- diff


def steps(first: int, *lengths: int) -> list[Row]:
    """Steps one after the other from `first` on, each launching a kernel of that length at its start."""
    rows: list[Row] = []
    for number, length in enumerate(lengths, 1):
        rows += [Range(first, first + 5, f"ProfilerStep#{number}"), Call(first, first + 2, number),
                 Kernel(first + 10, first + 10 + length, number, name="k")]  # fmt: skip
        first += 10 + length
    return rows


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of three steps: the second began later, and its second step took longer."""
    folder = tmp_path_factory.mktemp("two")
    write(folder / "base.db", *steps(100, 50, 60, 70))
    write(folder / "other.db", *steps(1000, 50, 90, 70))
    return folder


@pytest.mark.parametrize(("flags", "base", "other"), [
    ([], 180, 210),
    (["--step", "2"], 60, 90),
    (["--range", "ProfilerStep#2", "--projected"], 60, 90),
    (["--time", "50%:"], 130, 160),
])  # fmt: skip
def test_the_same_step_of_two_runs(flags: list[str], base: int, other: int, two: Path) -> None:
    """Each in its own time."""
    found = told(run("diff", "base.db", "other.db", "overview", *flags, "-f", "json", cwd=two))
    (row,) = found["rows"]
    assert (row["base_kernel_sum_ns"], row["other_kernel_sum_ns"]) == (base, other)


def test_diff_states_the_slice(two: Path) -> None:
    """Times only where they are those of both sides."""

    def stated(*flags: str) -> Any:
        return told(run("diff", "base.db", "other.db", "overview", *flags, "-f", "json", cwd=two))[
            "slice"
        ]

    assert stated() is None
    assert stated("--step", "2") == {"step": "2"}
    assert stated("--time", "50%:") == {"time": "50%:"}
    assert stated("--time", "0:2us") == {"time": "0ns:2000ns"}
    (two / "other.db").unlink()
    write(two / "other.db", *steps(150, 50, 90, 70))
    assert stated("--time", "160:200") == {"start_ns": 160, "end_ns": 200}
    lines = run("diff", "base.db", "other.db", "overview", "--step", "2", cwd=two).out.splitlines()
    (heading,) = [line for line in lines if line.startswith("What changed")]
    assert heading.endswith("slice step 2")


def test_diff_says_which_side_lacks_the_step(two: Path) -> None:
    write(two / "short.db", *steps(0, 50))
    failed(run("diff", "base.db", "short.db", "--step", "3", cwd=two), "no step '3'")


def test_steps_are_counted_in_the_slice(two: Path) -> None:
    """Runs of three steps and of four are not alike; their second steps are."""
    write(two / "longer.db", *steps(0, 50, 60, 70, 80))

    def slugs(*flags: str) -> set[str]:
        found = told(run("diff", "base.db", "longer.db", "kernels", *flags, "-f", "json", cwd=two))
        return {note["slug"] for note in found["notes"]}

    assert "steps-differ" in slugs()
    assert "steps-differ" not in slugs("--step", "2")


def test_of_a_step_that_has_nothing_no_verdict_is_given(two: Path) -> None:
    """An empty slice is no improvement."""
    # Totals say nothing of a slice: these three kernels may be of any step.
    rows = (*steps(0, 50), Range(500, 600, "ProfilerStep#2"), Total("kernel", 3, 150, name="k"))
    write(two / "empty.db", *rows)
    outcome = run("diff", "base.db", "empty.db", "overview", "--step", "2", "--fail-on",
                  "overview.kernel_sum_ns:3%", cwd=two)  # fmt: skip
    assert outcome.status == 4
    assert "side-empty" in outcome.out + outcome.err


def test_samples_are_of_the_steps_in_the_slice(tmp_path: Path) -> None:
    """Forty steps have an interval; of the ten that are left when thirty are skipped there is none."""
    for name, longer in (("base", 0), ("other", 5)):
        write(tmp_path / f"{name}.db", *steps(1, *(50 + n % 7 + longer for n in range(40))))

    def basis(*flags: str) -> Any:
        found = told(
            run("diff", "base.db", "other.db", "steps", *flags, "-f", "json", cwd=tmp_path)
        )
        return {row["basis"] for row in found["rows"]}

    assert basis() == {"within run"}
    assert basis("--skip-first", "15") == {"within run"}
    assert basis("--skip-first", "30") == {"single run"}
    assert basis("--step", "3") == {"single run"}


def test_samples_hold_only_what_is_in_the_slice() -> None:
    """Twenty-one steps of 60 ns, of which the first is skipped; a call is in the slice or not."""
    from nsysconv.timeline.sliced import sliced
    from nsysconv.timeline.steps import call_sums, kernel_sums, step_durations

    rows = [*steps(1, *[50] * 21), Call(63, 64, 99, name="cudaFree")]
    with opened(*rows) as profile:
        found = sliced(profile.timeline, Slice(skip_first=1))
        for sampled, value in ((step_durations, 60), (kernel_sums, 50)):
            samples = sampled(found)
            assert samples is not None
            assert samples.values.tolist() == [[value] * 20]
        named = call_sums(sliced(profile.timeline, Slice(name="cudaFree")))
        assert named is not None
        assert named.keys == [("runtime", "cudaFree")]
