"""Commands as a user runs them: what they say, where it goes, and how they end."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import pytest
from conftest import NSYS, ODD, ODD_FILES, UNREADABLE_FILES, few, name_of
from golden_cases import BASIC, FIXTURES, Outcome, run
from write_nsys_rep import write_report

from nsysconv.api.diffing import DEFAULT
from nsysconv.importers.probe import Probe
from nsysconv.queries import CORE
from nsysconv.render import FORMATS, suffix

RANKS = NSYS / "two_processes_one_gpu-3.28.1.sqlite"
NO_GPU = NSYS / "no_gpu-3.25.0.sqlite"
RANGES = NSYS / "ranges-3.28.1.sqlite"


def names_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def failed(outcome: Outcome, status: int, *words: str) -> None:
    """A user's mistake: its status, nothing on stdout, a message with these words."""
    assert outcome.status == status, outcome
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    for word in words:
        assert word in outcome.err


# -- exit statuses and messages


def test_done_is_0(folder: Path) -> None:
    assert run("--version", cwd=folder).out.startswith("nsysconv 0.")
    assert run("--help", cwd=folder).status == 0
    # A default set with reports that are not recorded is done, too.
    assert run("report", NO_GPU, cwd=folder).status == 0


@pytest.mark.parametrize(
    "words",
    [["import", "report1.sqlite", "gone.sqlite", "lost.sqlite", "-o", "job.db"],
     ["diff", "report1.sqlite", "gone.sqlite"],
     ["diff", "report1.sqlite", "gone.sqlite@main"]],
)  # fmt: skip
def test_all_paths_are_looked_for_before_work_begins(
    folder: Path, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_: object) -> None:
        raise AssertionError("work has begun")

    monkeypatch.setattr(Probe, "__init__", opened)
    outcome = run(*words, cwd=folder)
    failed(outcome, 3, "gone.sqlite", "no such file")
    assert ("lost.sqlite: no such file" in outcome.err) == ("lost.sqlite" in words)
    assert names_in(folder) == {"report1.sqlite"}


REPORT, IMPORT, DIFF = "report report1.sqlite", "import report1.sqlite", "diff missing.sqlite gone.sqlite"
NO_FOLDER = ("a b: the folder does not exist", "Make it first: mkdir -p 'a b'")
ALL = f"one report, and there are {2 + len(CORE)}"
# A command, its status, and words of its message.
REFUSED: list[tuple[str, int, Sequence[str]]] = [
    # What is not there.
    ("import nowhere.sqlite", 3, ["nowhere.sqlite: ", "o such file"]),
    ("runs nowhere.db", 3, ["nowhere.db: no such file"]),
    # What is no profile.
    (f"info '{ODD}/truncated.sqlite'", 3, ["cut off"]),
    # Words of the command line.
    ("frobnicate", 2, ["frobnicate"]),
    ("report", 2, []),
    (f"{REPORT} --idle sleep", 2, ["sleep", "no_kernel"]),
    (f"{REPORT} --limit -1", 2, ["--limit"]),
    *((f"{command} --range-names short", 2, ["'grouped', 'exact'"])
      for command in (f"report '{RANGES}'", f"diff '{RANGES}' '{RANGES}'")),
    # Selectors and stores.
    (f"{REPORT}@other", 2, ["'other'"]),
    (f"{IMPORT} '{NO_GPU}'", 2, ["-o STORE.db"]),
    (f"{IMPORT} -o no/job.db", 2, ["mkdir -p no"]),
    # CSV holds one report: refused before anything is looked at, for there is no such profile.
    *((f"report missing.sqlite -f {form}", 2, [ALL, "name one of summary", "-o DIR/"])
      for form in ("csv", "tsv")),
    *((f"report missing.sqlite kernels overview -f {form}", 2, ["and there are 2", "-o DIR/"])
      for form in ("csv", "tsv")),
    *((f"report missing.sqlite {words}", 3, ["no such file"])
      for words in ("kernels -f csv", "-f json", "-f csv -o out/")),
    # Limits of a comparison are a report of their own.
    (f"{DIFF} -f csv", 2, [f"holds one report, and there are {len(DEFAULT)}"]),
    (f"{DIFF} -f csv kernels --fail-on kernels.kernel_sum_ns:3%", 2, ["and there are 2"]),
    (f"{DIFF} -f csv kernels", 3, ["missing.sqlite: no such file"]),
    ("info missing.sqlite -f csv", 2, ["and there are 2", "-o DIR/"]),
    # Where an answer is to go: a file in no folder is refused before anything is looked at.
    *((f"{words} -o 'a b/x.json'", 2, NO_FOLDER) for words in (
        "report gone", "info gone", "diff gone gone", "runs gone", "sql gone 'select 1'")),
    (f"{REPORT} -o all.csv", 2, ["-o DIR/"]),
    (f"{REPORT} -o no/all.md", 2, ["no"]),
]


@pytest.mark.parametrize(("command", "status", "words"), REFUSED, ids=[each[0] for each in REFUSED])
def test_what_is_refused_leaves_a_message_and_no_file(
    folder: Path, command: str, status: int, words: Sequence[str]
) -> None:
    failed(run(*shlex.split(command), cwd=folder), status, *words)
    assert names_in(folder) == {"report1.sqlite"}


@pytest.mark.parametrize("path", UNREADABLE_FILES, ids=name_of)
def test_what_is_no_profile(path: Path, folder: Path) -> None:
    for command in ("report", "info", "import"):
        outcome = run(command, path, cwd=folder)
        failed(outcome, 3, path.name)
        assert len(outcome.err.splitlines()) >= 2, "what, where, and what next"
    assert names_in(folder) == {"report1.sqlite"}


@pytest.mark.parametrize("path", few(ODD_FILES, 1), ids=name_of)
def test_odd_files_give_reports_and_no_traceback(path: Path, folder: Path) -> None:
    outcome = run("report", path, cwd=folder)
    assert outcome.status == 0
    assert outcome.err == ""


def test_a_named_report_that_is_not_recorded_is_4(folder: Path) -> None:
    for name in FORMATS:
        outcome = run("report", NO_GPU, "kernels", "-f", name, cwd=folder)
        assert outcome.status == 4
        assert name != "csv" or "not recorded" in outcome.err.lower()


@pytest.mark.parametrize("width", few([60, 80, 100], 1))
def test_advice_can_be_copied_on_any_terminal(folder: Path, width: int) -> None:
    outcome = run("info", "report1.sqlite", cwd=folder, width=width)
    words = " ".join(outcome.out.split())
    assert "--cuda-graph-trace=node" in words


# -- help


def test_no_help_of_a_command_is_cut(folder: Path) -> None:
    told = run("--help", cwd=folder, width=80).out
    commands = told.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert len(commands) >= 8
    assert not [line for line in commands if line.endswith("...")]


@pytest.mark.parametrize("command", ["report", "import", "diff", "export"])
def test_options_stand_in_groups(command: str, folder: Path) -> None:
    told = run(command, "--help", cwd=folder, width=80).out
    first = told.index("\nContent:\n" if command != "export" else "\nSelection:\n")
    assert first < min(m.start() for m in re.finditer(r"\n(?:Output|Execution):\n", told))
    others = told.partition("\nOptions:\n")[2].splitlines()
    assert [line.split()[0] for line in others if line.startswith("  -")] == ["-h,"]


HEADINGS = re.compile(r"^(?:Content|Names|Selection|Output|Execution|Options):$", re.M)
COMMANDS = ("report", "import", "diff", "export", "info", "sql", "runs", "history", "forget", "why",
            "TARGET", "profile")  # fmt: skip


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_the_examples_come_before_the_options(command: str | None, folder: Path) -> None:
    told = run(*filter(None, [command]), "--help", cwd=folder, width=80).out
    assert max(map(len, told.splitlines())) <= 80
    head = HEADINGS.split(told)[0]
    assert len(head.splitlines()) <= (29 if command is None else 25)
    examples = head.partition("Examples:\n")[2].splitlines()
    assert sum(line.startswith("  ") and line[2] != " " for line in examples) == 3


@pytest.mark.parametrize("command", few(["report", "import", "diff", "export", "info", "sql", "runs",
                                         "history", "forget"], 5))  # fmt: skip
def test_the_examples_are_commands(command: str, folder: Path) -> None:
    examples = run(command, "--help", cwd=folder, width=80).out.partition("Examples:\n")[2]
    lines = [line.strip() for line in examples.splitlines()]
    asked = [line for line in lines if line.startswith(f"nsysconv {command} ")]
    assert asked
    for line in asked:
        outcome = run(*shlex.split(line)[1:], cwd=folder)
        assert "no such option" not in outcome.err.lower()
        assert "no report" not in outcome.err


# -- stores


def test_a_profile_by_rank(folder: Path) -> None:
    run("import", RANKS, NO_GPU, "-o", "job.db", cwd=folder)
    outcome = run("report", "job.db@rank=1", "processes", "-f", "csv", cwd=folder)
    assert outcome.out.splitlines()[1].startswith("two_processes_one_gpu-3.28.1,")
    failed(run("report", "job.db@rank=7", cwd=folder), 2, "0 profiles with rank=7")


def test_an_existing_path_wins_over_the_sign(folder: Path) -> None:
    (folder / "report1.sqlite").rename(folder / "me@home.sqlite")
    outcome = run("report", "me@home.sqlite", "processes", cwd=folder)
    assert outcome.out.startswith("Processes - me@home\n")


def test_an_import_ends_with_the_next_command(folder: Path) -> None:
    one = run("import", "report1.sqlite", "-o", "my job.db", cwd=folder).out.splitlines()
    assert one[-1] == "now: nsysconv 'my job.db'"
    assert [line for line in one if "not recorded" in line] == [
        "not recorded: 13 kinds of information; see nsysconv info 'my job.db@report1'"
    ]
    second = run("import", NO_GPU, "-o", "my job.db", cwd=folder).out.splitlines()
    assert second[-1] == "now: nsysconv 'my job.db@no_gpu-3.25.0'", "of two runs one is new"
    assert run(*shlex.split(second[-1].removeprefix("now: nsysconv ")), cwd=folder).status == 0
    both = run("import", "report1.sqlite", NO_GPU, "-o", "two.db", cwd=folder).out.splitlines()
    assert both[-1] in ("now: nsysconv runs two.db", "now: nsysconv two.db")
    assert run(*shlex.split(both[-1].removeprefix("now: nsysconv ")), cwd=folder).status == 0


def test_the_default_store(folder: Path) -> None:
    first = run("import", "report1.sqlite", cwd=folder)
    assert first.out.startswith("report1.db@report1: 20 api_call")
    before = (folder / "report1.db").read_bytes()
    again = run("import", "report1.sqlite", cwd=folder)
    told = "report1.db@report1: already imported, nothing changed\nnow: nsysconv report1.db\n"
    assert again == Outcome(0, told, "")
    assert (folder / "report1.db").read_bytes() == before


def test_the_default_store_is_in_the_current_folder(folder: Path) -> None:
    (folder / "here").mkdir()
    run("import", "../report1.sqlite", cwd=folder / "here")
    assert names_in(folder) == {"report1.sqlite", "here/report1.db"}


@pytest.mark.parametrize("content", [b"my notes", None], ids=["a file", "another store"])
def test_the_default_store_must_be_new(folder: Path, content: bytes | None) -> None:
    if content is None:
        run("import", NO_GPU, "-o", "report1.db", cwd=folder)
    else:
        (folder / "report1.db").write_bytes(content)
    before = (folder / "report1.db").read_bytes()
    failed(run("import", "report1.sqlite", cwd=folder), 2, "report1.db", "-o OTHER.db")
    assert (folder / "report1.db").read_bytes() == before


def test_no_file_but_a_store_is_written_to(folder: Path) -> None:
    for name in ("notes.db", "foreign.db"):
        target = folder / name
        target.write_bytes(b"notes" if name == "notes.db" else (ODD / "foreign.sqlite").read_bytes())
        before = target.read_bytes()
        failed(run("import", "report1.sqlite", "-o", name, cwd=folder), 3, "not an nsysconv store")
        assert target.read_bytes() == before


def test_a_store_is_no_input_of_its_own(folder: Path) -> None:
    run("import", "report1.sqlite", "-o", "job.db", cwd=folder)
    failed(run("import", "job.db", "-o", "job.db", cwd=folder), 2, "job.db: ", "into itself")


def test_adding_to_a_store_and_replacing(folder: Path) -> None:
    for _ in range(2):
        run("import", "report1.sqlite", "-o", "job.db", cwd=folder)
    assert "1 report1" in run("runs", "job.db", "-f", "tsv", cwd=folder).out.replace("\t", " ")
    outcome = run("import", "report1.sqlite", "-o", "job.db", "--replace", cwd=folder)
    assert outcome.out.startswith("job.db@report1: 20 api_call")
    assert len(run("runs", "job.db", "-f", "csv", cwd=folder).out.splitlines()) == 2


@pytest.mark.parametrize("words", [
    ("report", ""), ("report", "@run1"), ("info", ""), ("import", "", "-o", "new.db"), ("runs", ""),
    ("history", ""), ("history", "@last:2"), ("diff", "", "report1.sqlite"),
    ("diff", "report1.sqlite", ""),
    ("sql", "", "select 1"), ("find", "", "saxpy"), ("forget", "", "last:1"),
])  # fmt: skip
def test_no_path_is_not_the_current_folder(folder: Path, words: tuple[str, ...]) -> None:
    outcome = run(*words, cwd=folder)
    assert (outcome.status, outcome.out) == (2, "")
    assert outcome.err.startswith("nsysconv: '' is no path\n")


@pytest.mark.parametrize("flags", [(), ("-f", "json", "--brief")])
def test_what_was_skipped_is_said_once(flags: tuple[str, ...], tmp_path: Path) -> None:
    shutil.copyfile(FIXTURES / "kineto" / "no_gpu-2.13.json", tmp_path / "a.json")
    shutil.copyfile(tmp_path / "a.json", tmp_path / "b.json")
    (tmp_path / "job.log").write_text("done\n")
    outcome = run(".", *flags, cwd=tmp_path)
    assert "cudaGetDeviceCount" in outcome.out
    said = [line.split(": ", 2)[0] for line in outcome.err.splitlines()]
    assert said == ["skipped", "skipped", "For details on a skipped file"]


def test_a_folder_that_is_imported_again_into_itself(folder: Path) -> None:
    for _ in range(2):
        outcome = run("import", ".", cwd=folder)
        assert outcome.status == 0, outcome
    assert "already imported" in outcome.out
    assert "of another program" not in outcome.err, "it is our own store"


def test_a_folder_without_profiles(folder: Path) -> None:
    (folder / "empty").mkdir()
    failed(run("import", "empty", cwd=folder), 3, "empty: no files in it")
    (folder / "empty" / "notes.txt").write_text("x")
    assert run("import", "empty", cwd=folder).status == 3
    assert names_in(folder) == {"report1.sqlite", "empty/notes.txt"}
    failed(run("report", "empty", cwd=folder), 3, "empty: no profile in it")


def test_strict(folder: Path) -> None:
    bad = ODD / "bad-cells.sqlite"
    failed(run("import", bad, "--strict", cwd=folder), 3, "--strict", "wrong-type")
    assert names_in(folder) == {"report1.sqlite"}
    outcome = run("report", bad, "kernels", "--strict", cwd=folder)
    assert outcome.status == 3
    assert "Kernels by name" in outcome.out
    assert "wrong-type" in outcome.err
    outcome = run("report", bad, "--strict", cwd=folder)
    assert (outcome.status, "! dropped: " in outcome.out) == (3, True), "the answer, too"
    assert run("report", "report1.sqlite", "--strict", cwd=folder).status == 0
    assert run("import", "report1.sqlite", "--strict", cwd=folder).status == 0


def test_report_names_are_completed(folder: Path) -> None:
    line = {"_NSYSCONV_COMPLETE": "complete_bash", "COMP_WORDS": "nsysconv report x gpu",
            "COMP_CWORD": "3"}  # fmt: skip
    with mock.patch.dict(os.environ, line):
        assert run(cwd=folder).out.split() == [
            "gpu_utilization", "gpu_time_util_map", "gpu_gaps", "gpu_time_util"]  # fmt: skip


# -- where answers go


@pytest.mark.parametrize(("words", "names"), [
    (["report", "report1.sqlite"], ["summary", "findings", *CORE]),
    (["info", "report1.sqlite"], ["profile", "facts"]),
])  # fmt: skip
def test_csv_of_several_reports_goes_into_a_folder(
    folder: Path, words: list[str], names: list[str]
) -> None:
    assert run(*words, "-f", "csv", "-o", "out/", cwd=folder).status == 0
    assert names_in(folder / "out") == {f"{name}.csv" for name in names}


@pytest.mark.parametrize("name", few([name for name in FORMATS if name != "column"], 2))
def test_the_suffix_decides(folder: Path, name: str) -> None:
    target = f"answer{suffix(name)}"
    outcome = run("report", "report1.sqlite", "kernels", "-o", target, cwd=folder)
    assert (outcome.status, outcome.out) == (0, "")
    printed = run("report", "report1.sqlite", "kernels", "-f", name, cwd=folder).out
    assert (folder / target).read_text(encoding="utf-8") == printed


def test_options_of_a_report_are_in_the_name_of_its_file(folder: Path) -> None:
    names = ("cuda_gpu_kern_sum:base", "cuda_gpu_kern_sum", "gpukernsum:nvtx-name:base")
    assert run("report", "report1.sqlite", *names, "-o", "out/", cwd=folder).status == 0
    assert names_in(folder / "out") == {"cuda_gpu_kern_sum_base.csv", "cuda_gpu_kern_sum.csv",
                                        "cuda_gpu_kern_sum_nvtx-name_base.csv"}  # fmt: skip


def test_a_printed_table_alone_is_an_array_whose_notes_stand_beside(folder: Path) -> None:
    alone = run("report", "report1.sqlite", "cuda_kern_exec_trace", "-f", "json", cwd=folder)
    assert json.loads(alone.out)[0].keys() >= {"API Start (ns)", "Kernel Name"}
    assert "unlinked-ops" in alone.err
    names = ("cuda_kern_exec_trace", "kernels")
    both = run("report", "report1.sqlite", *names, "-f", "json", cwd=folder)
    assert [report["report"] for report in json.loads(both.out)["reports"]] == list(names)
    assert "unlinked-ops" not in both.err


def test_a_folder_without_a_format_gets_csv(folder: Path) -> None:
    assert run("report", "report1.sqlite", "kernels", "-o", "out/", cwd=folder).status == 0
    assert names_in(folder / "out") == {"kernels.csv"}


def test_a_refused_output_keeps_the_file_that_is_there(folder: Path) -> None:
    (folder / "all.csv").write_text("precious\n")
    failed(run("report", "report1.sqlite", "-o", "all.csv", cwd=folder), 2, "-o DIR/")
    assert (folder / "all.csv").read_text() == "precious\n"


# -- choices


def test_range_names(folder: Path) -> None:
    exactly = ("--range-names", "exact")
    # In exact names each of the two steps has a row; a note counts the rows that did not change.
    for flags, step, count in (((), "ProfilerStep*", 6), (exactly, "ProfilerStep#1", 7)):
        found = run("report", RANGES, "ranges", *flags, "-f", "csv", cwd=folder)
        assert step in found.out
        found = run("diff", RANGES, RANGES, "ranges", *flags, "-f", "csv", cwd=folder)
        assert f"({count} times)" in found.err


# -- sql


# -- reading in place, and nsys's own files


def test_nothing_is_left_beside_a_file(folder: Path) -> None:
    before = (folder / "report1.sqlite").read_bytes()
    stamp = (folder / "report1.sqlite").stat().st_mtime_ns
    for command in ("report", "info"):
        assert run(command, "report1.sqlite", cwd=folder).status == 0
    assert names_in(folder) == {"report1.sqlite"}
    assert (folder / "report1.sqlite").read_bytes() == before
    assert (folder / "report1.sqlite").stat().st_mtime_ns == stamp


@pytest.fixture
def nsys_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with job.nsys-rep, and an empty folder `bin` as PATH."""
    shutil.copyfile(ODD / "report.nsys-rep", tmp_path / "job.nsys-rep")
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path


def fake_nsys(folder: Path, script: str) -> None:
    path = folder / "bin" / "nsys"
    path.write_text(f"#!{sys.executable}\nimport shutil, sys\n{script}")
    path.chmod(0o755)


def test_a_report_file_without_nsys(nsys_report: Path) -> None:
    outcome = run("import", "job.nsys-rep", cwd=nsys_report)
    failed(outcome, 3, "the report is cut off", "Copy it again")


def test_a_report_file_with_nsys(nsys_report: Path) -> None:
    fake_nsys(nsys_report, f"""
if sys.argv[1] == "--version":
    print("NVIDIA Nsight Systems version 2026.2.1")
else:
    assert sys.argv[1:5] == ["export", "--type", "sqlite", "--output"], sys.argv
    assert sys.argv[6] == "job.nsys-rep", sys.argv
    shutil.copyfile({str(FIXTURES / BASIC)!r}, sys.argv[5])
""")
    before = names_in(nsys_report)
    outcome = run("report", "job.nsys-rep", "processes", cwd=nsys_report)
    assert outcome.status == 0, outcome
    assert outcome.out.startswith("Processes - job\n")
    assert "exporting job.nsys-rep with NVIDIA Nsight Systems version 2026.2.1" in outcome.err
    assert names_in(nsys_report) == before
    assert run("import", "job.nsys-rep", cwd=nsys_report).out.startswith("job.db@job: 20 api_call")
    runs = run("runs", "job.db", "-f", "csv", cwd=nsys_report).out
    assert "job.nsys-rep" in runs
    assert "/tmp" not in runs
    assert "already imported" in run("import", "job.nsys-rep", cwd=nsys_report).out
    notes = run("info", "job.db", cwd=nsys_report).out
    assert "exported by NVIDIA Nsight Systems version 2026.2.1, because nsysconv cannot read it" in notes


def test_nsys_is_not_asked_for_a_report_that_is_read(nsys_report: Path) -> None:
    fake_nsys(nsys_report, 'sys.exit("asked")')
    write_report(FIXTURES / BASIC, nsys_report / "whole.nsys-rep")
    outcome = run("report", "whole.nsys-rep", "kernels", cwd=nsys_report)
    assert outcome.status == 0, outcome
    assert "exporting" not in outcome.err
    assert "asked" not in outcome.err


def test_a_report_file_that_nsys_refuses(nsys_report: Path) -> None:
    fake_nsys(nsys_report, 'sys.exit("newer than this nsys")')
    outcome = run("import", "job.nsys-rep", cwd=nsys_report)
    failed(outcome, 3, "newer than this nsys", "exit status 1", "nsys export --type sqlite")
    assert names_in(nsys_report) == {"job.nsys-rep", "bin/nsys"}


def test_the_suffix_alone_makes_no_report_file(nsys_report: Path) -> None:
    shutil.copyfile(FIXTURES / BASIC, nsys_report / "export.nsys-rep")
    assert run("report", "export.nsys-rep", "processes", cwd=nsys_report).status == 0
    shutil.copyfile(ODD / "lfs-pointer.sqlite", nsys_report / "pointer.nsys-rep")
    failed(run("import", "pointer.nsys-rep", cwd=nsys_report), 3, "git lfs pull")
