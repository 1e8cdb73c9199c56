"""`nsysconv TARGET`: the answer of any target, in 25 lines of 100 columns, and in 2 kB for programs."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from conftest import FIXTURES, REAL_FILES, REAL_TRACES, few, name_of, real
from golden_cases import Outcome, run
from one_answer import EXAMPLES
from small_store import Call, Kernel, Memcpy, Total, write

import nsysconv
from nsysconv.codes import TIME_CLASS_COLUMNS
from nsysconv.facts import Fact

BASIC = FIXTURES / "nsys" / "basic-3.25.0.sqlite"
TRACE = FIXTURES / "kineto" / "basic-2.13.json"
MOST_LINES, MOST_COLUMNS, MOST_BYTES = 25, 100, 2000


def check_size(outcome: Outcome) -> list[str]:
    assert outcome.status == 0, outcome.err
    lines = outcome.out.splitlines()
    # A command is copied as it stands: a terminal wraps it where its names are long.
    rows = [-(-max(len(line), 1) // MOST_COLUMNS) for line in lines]
    assert 1 <= sum(rows) <= MOST_LINES, outcome.out
    long = [line for line, count in zip(lines, rows, strict=True) if count > 1]
    assert all("nsysconv " in line for line in long), outcome.out
    assert "Traceback" not in outcome.err
    return lines


def check_brief(target: Path, folder: Path) -> dict[str, Any]:
    outcome = run(str(target), "-f", "json", "--brief", cwd=folder)
    assert outcome.status == 0, outcome.err
    assert len(outcome.out.encode()) <= MOST_BYTES
    document: dict[str, Any] = json.loads(outcome.out)
    checks = {"found_nothing", "could_not_run"}
    words = {"notes", "answer", "lines", "next"}
    assert document.keys() - words - checks == {"format", "devices", "findings", "omitted"}
    # Where there is no work, the answer says so.
    has_work = bool(document["devices"]) and "lines" not in document
    assert ("answer" in document) == (bool(document["findings"]) or not has_work)
    assert len(document["devices"]) <= 2
    assert len(document["findings"]) <= 3
    return document


def job(path: Path, ranks: int, devices: int, copied_ns: int = 1000) -> Path:
    """A run of so many ranks and devices each; rank i copies i + 1 times as long, then computes."""
    for rank in range(ranks):
        rows: list[Any] = []
        for device in range(devices):
            copied = (rank + 1) * copied_ns
            rows += [
                Call(0, 100, device + 1, name="cudaMemcpyAsync"),
                Memcpy(100, 100 + copied, device + 1, device=device, bytes=10_000),
                Kernel(100 + copied, 200_000, device=device, name=f"gemm_{'x' * 300}"),
            ]
        write(
            path, *rows, ranks={1: rank}, label=f"rank{rank}", run="run",
            gpus={device: {"name": f"A GPU with a long name {'y' * 200}"} for device in range(devices)},
        )  # fmt: skip
    return path


@pytest.mark.parametrize(("ranks", "devices"), [
    (1, 1), (1, 8), (3, 4), *(pytest.param(n, 1, marks=pytest.mark.slow) for n in (2, 64))])  # fmt: skip
def test_the_answer_of_many_fits(ranks: int, devices: int, tmp_path: Path) -> None:
    store = job(tmp_path / "job.db", ranks, devices)
    lines = check_size(run("job.db", cwd=tmp_path))
    count = ranks * devices
    bars = [line for line in lines if "busy for " in line]
    assert len(bars) == (count if count <= 4 else 3)
    if count > 4:
        assert f"{count} devices: the least, median and most busy." in lines
    document = check_brief(store, tmp_path)
    assert document["omitted"]["devices"] == count - len(document["devices"])


def test_a_run_answers_for_the_rank_with_most(tmp_path: Path) -> None:
    """Rank 9 copies for 40 of 200 µs: 20 %."""
    job(tmp_path / "job.db", 10, 1, 4000)
    (row,) = [r for r in nsysconv.report_on(tmp_path / "job.db", "findings")[0].rows()
              if r["rule"] == "copy_bound"]  # fmt: skip
    assert (row["rank"], row["saving_ns"]) == (9, 40_000)
    # More than a tenth of the window, which is 199.9 µs, from rank 4 on: 20 µs.
    assert row["device_count"] == 10 - 4
    said = " ".join(run("job.db", cwd=tmp_path).out.split())
    # Computation is 195.9 down to 159.9, 177.9 on average. The largest comes first.
    same = "also seen as copy_bound 20.0 %"
    first = f"1. pageable_copies, saves up to 20.0 % (rank 9, GPU 0; on 10 GPUs; {same}): "
    assert first in said
    assert "2. rank_imbalance, saves up to 9.0 % (rank 0): ranks have unequal amounts of work" in said


@pytest.mark.parametrize("path", few([*EXAMPLES, BASIC], 2), ids=name_of)
def test_the_answer_of_a_fixture_fits(path: Path, tmp_path: Path) -> None:
    check_size(run(str(path), cwd=tmp_path))


@real
@pytest.mark.parametrize("path", [*few(REAL_FILES, 1), *few(REAL_TRACES, 1)], ids=name_of)
def test_the_answer_of_a_real_file_fits(path: Path, tmp_path: Path) -> None:
    outcome = run(str(path), cwd=tmp_path)
    check_size(outcome)
    if len(nsysconv.info(path)) and "GPU" in outcome.out:
        check_brief(path, tmp_path)


def test_the_same_numbers_in_text_json_and_markdown(tmp_path: Path) -> None:
    text = run(str(BASIC), cwd=tmp_path).out
    markdown = run(str(BASIC), "-f", "markdown", cwd=tmp_path).out
    document = json.loads(run(str(BASIC), "-f", "json", cwd=tmp_path).out)
    assert document["format"] == 2
    summary, findings = (each["rows"] for each in document["reports"])
    (row,) = summary
    for column in ("computation_union_ns", "idle_host_ns", "idle_launch_ns", "after_ns"):
        assert column in TIME_CLASS_COLUMNS.values()
        time, share = row[column] / 1000, 100 * row[column] / row["span_ns"]
        line = f"{time:.2f} µs {share:>6.1f} %"
        assert line in text and line in markdown
    for each in findings[1:2]:  # after the calls that failed, which have no time
        head = f"{each['rule']}, saves up to {each['share_pct']:.1f} %: "
        assert head in text and head in markdown
    brief = check_brief(BASIC, tmp_path)
    own = [each["rule"] for each in findings if not each["same_as"]]
    assert [each["rule"] for each in brief["findings"]] == own[:3]
    assert brief["omitted"]["findings"] == len(own) - 3
    assert brief["answer"] in text and brief["answer"] in markdown


def test_what_is_missing_is_said_first(tmp_path: Path) -> None:
    trace = json.loads(TRACE.read_text("utf-8"))
    events = json.dumps({"schemaVersion": 1, "traceEvents": trace["traceEvents"]})
    (tmp_path / "cut.json").write_text(events[: len(events) * 9 // 10])
    lines = check_size(run("cut.json", cwd=tmp_path))
    assert lines[1].startswith("! dropped: the file ends early")
    assert any(line.startswith("→ ") and "nsysconv why cut.json gap:" in line for line in lines)
    document = check_brief(tmp_path / "cut.json", tmp_path)
    assert document["notes"][0]["slug"] == "trace-truncated"
    assert document["notes"][0]["severity"] == "dropped"
    whole = check_brief(TRACE, tmp_path)
    assert "trace-truncated" not in {note["slug"] for note in whole.get("notes", ())}


@pytest.mark.parametrize(("name", "line", "command"), few([
    ("line_profiler/training.lprof", "900.00 µs 90.0 % train.py:13 in train × 100", "cpu_lines"),
    ("pytorch_snapshot/old.pickle", "GPU 0: peak 3.80 kB of 7.17 kB reserved", "memory"),
    ("ncu/details.csv", "6.00 µs bandwidth compute 25 %, memory 70 % saxpy", "kernel_limits"),
    ("nsys/no_gpu-3.25.0.sqlite", "6.50 µs 100.0 % setup", "ranges"),
], 2))  # fmt: skip
def test_programs_are_told_too_what_else_was_recorded(
    name: str, line: str, command: str, tmp_path: Path
) -> None:
    # Hints name as many reports as fit into a line.
    short = Path(name).name
    shutil.copyfile(FIXTURES / name, tmp_path / short)
    document = check_brief(Path(short), tmp_path)
    assert any(each.startswith(line) for each in document["lines"])
    assert any("nsysconv report" in each and command in each for each in document["next"])
    assert document["answer"] not in document["lines"]


def test_what_is_missing_is_said_where_there_is_no_work(tmp_path: Path) -> None:
    event = '{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 5}'
    (tmp_path / "cut.json").write_text(f'{{"schemaVersion": 1, "traceEvents": [{event}, {{"ph": "X"')
    lines = check_size(run("cut.json", cwd=tmp_path))
    assert lines[0].startswith("! dropped: the file ends early")
    assert lines[1] == "cut.json has no timed GPU work. Where the host's time went:"


@pytest.mark.parametrize("part", [("--name", "zzz"), ("--time", "30us:40us")])
def test_a_part_without_gpu_work(part: tuple[str, ...], tmp_path: Path) -> None:
    write(tmp_path / "job.db", Call(0, 10_000), Kernel(10_000, 20_000),
          Call(40_000, 50_000, name="cudaFree"))  # fmt: skip
    assert check_size(run("job.db", *part, cwd=tmp_path)) == [
        "No GPU work is in the part of job.db that you selected.",
        "Without the selection: nsysconv job.db",
    ]


def test_what_is_ignored_is_said(tmp_path: Path) -> None:
    whole, less = (run(str(BASIC), *words, cwd=tmp_path).out
                   for words in ((), ("--ignore", "launch_bound")))  # fmt: skip
    assert "2. launch_bound" in whole
    assert "launch_bound" not in less.replace("left out: launch_bound", "")
    assert "left out: launch_bound" in less
    # However long the path is.
    (far := tmp_path / ("x" * 60)).mkdir()
    copied = far / shutil.copyfile(BASIC, far / BASIC.name)
    assert "left out: launch_bound" in "\n".join(
        check_size(run(str(copied), "--ignore", "launch_bound", cwd=tmp_path)))
    refused = run(str(BASIC), "--ignore", "nosuch", cwd=tmp_path)
    assert (refused.status, "no check 'nosuch'" in refused.err) == (2, True)
    alone = run("report", str(BASIC), "findings", "--ignore", "launch_bound", cwd=tmp_path)
    assert "note rules-ignored: left out: launch_bound" in alone.out
    (report,) = nsysconv.report_on(BASIC, "findings", ignore="launch_bound")
    assert "launch_bound" not in {row["rule"] for row in report.rows()}
    without = run("report", str(BASIC), "kernels", "--ignore", "launch_bound", cwd=tmp_path)
    assert (without.status, "It goes with the report findings." in without.err) == (2, True)


class Ascii(io.StringIO):
    """A terminal that has no other signs."""

    encoding = "ascii"  # type: ignore[assignment]


def test_plain_signs_where_a_terminal_has_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("run_command.Terminal", Ascii)
    outcome = run(str(BASIC), cwd=tmp_path, width=100)
    lines = check_size(outcome)
    assert outcome.out.isascii()
    # 13 of 250 before, 35 of computation, 16 of copies, 132 idle, 54 after: of 60 cells.
    assert lines[4] == f"{'-' * 3}{'#' * 9}{'=' * 3}{'.' * 32}{'-' * 13}"
    assert "->" in outcome.out


def test_of_a_group_what_is_not_recorded_is_no_failure(tmp_path: Path) -> None:
    write(tmp_path / "calls.db", Call(0, 10), holds={Fact.API_CALLS, Fact.THREADS})
    assert run("report", "calls.db", "core", cwd=tmp_path).status == 0
    assert run("report", "calls.db", "core", "kernels", cwd=tmp_path).status == 4
    assert run("report", "calls.db", "kernels", cwd=tmp_path).status == 4
    assert run("report", "calls.db", "gpukernsum", cwd=tmp_path).status == 4


def test_a_word_that_is_a_command_is_a_command(tmp_path: Path) -> None:
    (tmp_path / "runs").write_bytes(BASIC.read_bytes())
    assert run("runs", cwd=tmp_path).status == 2  # of which store?
    assert "Where the time went" in run("./runs", cwd=tmp_path).out


def test_what_is_no_target_is_no_command(tmp_path: Path) -> None:
    outcome = run("nosuch", cwd=tmp_path)
    assert (outcome.status, outcome.out) == (2, "")
    assert "No such command 'nosuch'" in outcome.err
    assert "standard input is not read" in run("-", cwd=tmp_path).err
    # What no command is called like may be one: it is looked for.
    for word in ("./nosuch", "nosuch.sqlite"):
        outcome = run(word, cwd=tmp_path)
        assert (outcome.status, f"{word.removeprefix('./')}: no such file" in outcome.err) == (3, True)
    assert run("nosuch.db@x", cwd=tmp_path).status == 3
    assert "postgresql" in run("postgresql://localhost:1/x", cwd=tmp_path).err


def test_formats_of_one_report_say_how_to_ask(tmp_path: Path) -> None:
    outcome = run("report1.sqlite", "-f", "csv", cwd=tmp_path)
    assert outcome.status == 2
    assert "nsysconv report report1.sqlite summary -f csv; all: -o DIR/" in outcome.err


def test_a_slice_is_said_within_the_width(tmp_path: Path) -> None:
    write(tmp_path / "job.db", Kernel(0, 10**9), Kernel(10**9 + 5, 2 * 10**9), label="x" * 90)
    lines = check_size(run("job.db", "--time", "10%:60%", cwd=tmp_path))
    assert lines[0].endswith("…")


def test_a_slice_of_some_operations_is_said_to_be_one(tmp_path: Path) -> None:
    write(tmp_path / "job.db", Kernel(0, 100, name="gemm"), Kernel(50, 90, stream=9, name="relu"))
    lines = check_size(run("job.db", "--name", "gemm", cwd=tmp_path))
    assert lines[1].startswith("! Other operations ran during this selection")
    assert "! " not in run("job.db", cwd=tmp_path).out


def test_ranks_that_are_missing_are_said(tmp_path: Path) -> None:
    for rank in (0, 3):
        write(tmp_path / "job.db", Kernel(0, 100), ranks={1: rank}, label=f"r{rank}", run="run",
              processes={1: {"world_size": 4}})  # fmt: skip
    lines = check_size(run("job.db", cwd=tmp_path))
    assert lines[1] == "! 2 of 4 ranks are there; missing: 1-2"


def test_an_output_without_a_name(tmp_path: Path) -> None:
    outcome = run(str(BASIC), "-o", "", cwd=tmp_path)
    assert (outcome.status, "-o names no file" in outcome.err) == (2, True)
    assert not list(tmp_path.iterdir())


def test_several_runs_are_named(tmp_path: Path) -> None:
    for label in ("one", "two"):
        write(tmp_path / "job.db", Kernel(0, 10), label=label, run=label)
    lines = check_size(run("job.db", cwd=tmp_path))
    assert lines == [
        "It holds several profiles; choose one: nsysconv job.db@NAME",
        "   one  (1 kernel)",
        "   two  (1 kernel)",
    ]
    assert run("report", "job.db", cwd=tmp_path).status == 2


def test_totals(tmp_path: Path) -> None:
    totals = (Total("kernel", 3, 60, name="add"), Total("kernel", 1, 100, name="scale"))
    write(
        tmp_path / "totals.db", *totals,
        holds={Fact.KERNEL_TOTALS},
    )  # fmt: skip
    lines = check_size(run("totals.db", cwd=tmp_path))
    assert lines[1] == "The largest cost is one kernel, scale: 100 ns."
    assert lines[3].startswith("Only totals per name are recorded")
    assert any(line.startswith("1. one_kernel: One kernel takes 62 % ") for line in lines)


def test_open_without_a_display_says_how_to_fetch_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    page = tmp_path / f"{BASIC.name}.html"
    page.touch()
    outcome = run(str(BASIC), "--open", cwd=tmp_path)
    assert (outcome.status, page.stat().st_size > 0) == (0, True)
    first, second = outcome.out.splitlines()
    assert first == f"{page} (in place of an older file)"
    assert second.startswith("There is no display here. On your own machine: scp ")
    assert second.endswith(f"{os.uname().nodename}:{page} .")
    refused = run(str(BASIC), "--open", "-f", "json", cwd=tmp_path)
    assert (refused.status, "A page is HTML." in refused.err) == (2, True)


def test_open_shows_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import webbrowser

    opened = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or True)
    outcome = run(str(BASIC), "--open", "-o", "mine.html", cwd=tmp_path)
    assert outcome.out == f"{tmp_path / 'mine.html'}: opened\n"
    assert opened == [(tmp_path / "mine.html").as_uri()]


# -- the event to ask about


def asked_why(lines: Sequence[str]) -> list[str]:
    """The words of the command on the line that says how to ask why."""
    (line,) = (line for line in lines if "nsysconv why " in line)
    return shlex.split(line.partition("nsysconv why ")[2].partition(";")[0])


def test_below_the_findings_is_a_command_that_works(tmp_path: Path) -> None:
    store = tmp_path / "job.db"
    write(store, Call(0, 10, 1), Kernel(20, 30, 1, name="relu"), Kernel(900, 990, 2, name="gemm"),
          Call(800, 810, 2))  # fmt: skip
    words = asked_why(check_size(run("job.db", cwd=tmp_path)))
    assert words == ["job.db", "gap:1"]
    assert run("why", *words, cwd=tmp_path).out.splitlines()[1] == "gap:1 [idle]"


def test_of_a_run_it_names_the_profile_that_the_finding_is_of(tmp_path: Path) -> None:
    """The second rank has the larger gap."""
    for rank, late in enumerate((400, 900)):
        write(tmp_path / "job.db", Kernel(0, 300, 0), Call(late - 5, late, 2),
              Kernel(late, 1000, 2, name=f"gemm{rank}"), ranks={1: rank}, label=f"r{rank}",
              run="run")  # fmt: skip
    words = asked_why(check_size(run("job.db", "--ignore", "rank_imbalance", cwd=tmp_path)))
    assert words == ["job.db@r1", "gap:1"]
    assert "it ended as kernel:2 gemm1 began" in run("why", *words, cwd=tmp_path).out


def test_of_a_folder_it_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "ranks").mkdir()
    for name in ("graphs-2.13-7001.json", "graphs-2.13-7002.json"):
        shutil.copy(TRACE.parent / name, tmp_path / "ranks")
    file, event = asked_why(check_size(run("ranks", cwd=tmp_path)))
    assert Path(file).parent == Path("ranks")
    assert run("why", file, event, cwd=tmp_path).status == 0


def test_of_a_folder_of_stores_the_file_is_left_to_be_filled_in(tmp_path: Path) -> None:
    (tmp_path / "ranks").mkdir()
    for rank, late in enumerate((400, 900)):
        write(tmp_path / "ranks" / f"r{rank}.db", Kernel(0, 300, 0), Call(late - 5, late, 2),
              Kernel(late, 1000, 2), ranks={1: rank}, label=f"r{rank}")  # fmt: skip
    lines = check_size(run("ranks", "--ignore", "rank_imbalance", cwd=tmp_path))
    assert asked_why(lines) == ["FILE", "gap:1"]


@pytest.mark.parametrize("name", [f"{'x' * 90}.db", f"{'a b ' * 40}.db", f"{'(y);' * 50}.db"])
def test_commands_with_a_long_target_are_copied_as_they_stand(name: str, tmp_path: Path) -> None:
    write(tmp_path / name, Kernel(0, 10), Call(900, 910, 2), Kernel(920, 990, 2))
    lines = check_size(run(name, cwd=tmp_path))
    typed = shlex.quote(name)
    (why,), (table,) = ([line for line in lines if word in line] for word in ("gap:1", "report "))
    assert f"nsysconv why {typed} gap:1" in why
    assert f"nsysconv report {typed} NAME" in table


LOST_LOG = """\
==7== NVPROF is profiling process 7, command: ./a
==7== Profiling result:
No kernels were profiled.
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
      API calls:   99.00%  1.0000s         2  500.00ms  1.0000us  999.00ms  cudaMalloc
                    1.00%  10.000ms         4  2.5000ms  1.0000us  9.0000ms  cudaLaunchKernel
"""
LOST_TRACE = """{"schemaVersion": 1, "traceEvents": [
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
     "ts": 1, "dur": 5}]}"""


def without_gpu_work(source: Path, target: Path) -> None:
    """Makes a copy of a database of CUPTI's without the GPU's rows."""
    target.write_bytes(source.read_bytes())
    with closing(sqlite3.connect(target)) as connection, connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        for kind in ("KERNEL", "CONCURRENT_KERNEL", "MEMCPY", "MEMCPY2", "MEMSET"):
            if (table := f"CUPTI_ACTIVITY_KIND_{kind}") in tables:
                connection.execute(f"DELETE FROM {table}")


@pytest.mark.parametrize("kind", few(["nsys", "nvprof", "trace", "log"], 2))
def test_launches_without_gpu_work_are_said_in_words(kind: str, tmp_path: Path) -> None:
    if kind in ("nsys", "nvprof"):
        source = {"nsys": BASIC, "nvprof": FIXTURES / "nvprof_database" / "basic-12.nvvp"}[kind]
        without_gpu_work(source, tmp_path / "lost")
    else:
        (tmp_path / "lost").write_text(LOST_LOG if kind == "log" else LOST_TRACE, "utf-8")
    lines = check_size(run("lost", cwd=tmp_path))
    said = next(line for line in lines if line.startswith("! "))
    assert re.match(r"! (?:no GPU work was|API calls launched GPU work, but none was) recorded", said)
    assert "the profiler lost it" in said
    assert "permissions" in lines[lines.index(said) + 1]
    assert "gpu-activity-missing" in run("info", "lost", cwd=tmp_path).out


def test_a_log_without_launches_has_lost_nothing(tmp_path: Path) -> None:
    (tmp_path / "idle").write_text(LOST_LOG.replace("cudaLaunchKernel", "cudaFree"), "utf-8")
    assert "lost" not in run("idle", cwd=tmp_path).out
