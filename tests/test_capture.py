"""A rank's capture from the line to the record, through `nsysconv profile` and through its shell twin."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from capturing import (
    NVPROF_PROFILE,
    PYTHON_WRAPPER,
    SCRIPT,
    SHELL_WRAPPER,
    SLURM_RANK_3,
    WRAPPERS,
    Place,
    place,
    wrapped,
)
from conftest import ROOT, few, with_slow

import nsysconv
from nsysconv.capture import atomic_move
from nsysconv.errors import CaptureError
from nsysconv.record import Record, read

both = pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=list(WRAPPERS))
# The shell twin does the same; of each kind of case one is tried with it in `make test`.
python_first = pytest.mark.parametrize(
    ("wrapper",), with_slow(((each,), name == "python") for name, each in WRAPPERS.items())
)

LINE = ("nsys", "profile", "-t", "cuda", "-o", "out/train")
NAME = "out/train.1234.0.rank3"
IMPORTING = (*PYTHON_WRAPPER[:-2],)


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path, **SLURM_RANK_3)


def record(here: Place, name: str = NAME) -> Record:
    found = read(here.here / f"{name}.nsysconv.json")
    assert found is not None
    return found


# ---- A healthy rank.


@both
def test_report_and_record_are_left_and_nothing_else(here: Place, wrapper: Sequence[str]) -> None:
    before = time.time_ns()
    done = here.run(wrapper, [], [*LINE, "true"])
    assert done.returncode == 0, done.stderr
    assert here.files == [f"{NAME}.nsys-rep", f"{NAME}.nsysconv.json"]
    assert here.left == []
    told = record(here)
    assert told.start_utc_ns is not None
    assert told.end_utc_ns is not None
    assert before <= told.start_utc_ns <= told.end_utc_ns <= time.time_ns()
    assert told == Record(
        rank=3, local_rank=1, world_size=8, host=os.uname().nodename, job="slurm 1234.0",
        profiler="nsys", report="train.1234.0.rank3.nsys-rep", store=None, exit_status=0, signal=None,
        start_utc_ns=told.start_utc_ns, end_utc_ns=told.end_utc_ns, problems=(),
    )  # fmt: skip
    (line,) = [line for line in done.stderr.decode().splitlines() if line.startswith("nsysconv")]
    assert f"rank 3 on {os.uname().nodename}: " in line
    assert f"{NAME}.nsys-rep" in line


@both
def test_arguments_pass_through_unchanged(here: Place, wrapper: Sequence[str]) -> None:
    show = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    own = ["a b", "", "'", '"', "$HOME", "`id`", "*", "\\n", "-o", "x", "--", "a\nb", "é", "%p"]
    line = ["nsys", "profile", "-o", "x", "-e", "A=b c", sys.executable, "-c", show, *own, b"\xff"]
    done = subprocess.run(
        wrapped(wrapper, [], line),
        cwd=here.here,
        env=here.environment,
        capture_output=True,
        check=True,
    )
    assert done.stdout.startswith(b"\0".join([*map(os.fsencode, own), b"\xff"]))


@both
@pytest.mark.parametrize("status", few([0, 1, 3, 125, 127, 255], 2))
def test_the_programs_status_is_kept(here: Place, wrapper: Sequence[str], status: int) -> None:
    done = here.run(wrapper, [], [*LINE, "sh", "-c", f"exit {status}"])
    assert done.returncode == status
    assert record(here).exit_status == status
    assert record(here).signal is None


@python_first
def test_a_signal_that_ended_the_program_is_understood(here: Place, wrapper: Sequence[str]) -> None:
    done = here.run(wrapper, [], [*LINE, "sh", "-c", "kill -SEGV $$"])
    assert done.returncode == 128 + signal.SIGSEGV
    assert record(here).signal == signal.SIGSEGV


@both
@pytest.mark.parametrize(
    ("output", "variables", "name"),
    few([
        (["-o", "train"], {}, "train.1234.0.rank3"),
        (["--output=a b/train.nsys-rep"], {}, "a b/train.1234.0.rank3"),
        (["-otrain"], {}, "train.1234.0.rank3"),
        (["-o", "train.%%.%h"], {}, "train.%." + os.uname().nodename + ".1234.0.rank3"),
        (["-o", "%%q{SLURM_PROCID}"], {}, "%q{SLURM_PROCID}.1234.0.rank3"),
        (["-o", "train"], {"SLURM_ARRAY_JOB_ID": "1230", "SLURM_ARRAY_TASK_ID": "4"},
         "train.1230_4.0.rank3"),
        (["-o", "train"], {"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_SIZE": "8"}, "train.1234.rank5"),
        (["-o", "t"], {"RANK": "6", "WORLD_SIZE": "8", "TORCHELASTIC_RUN_ID": "x"}, "t.1234.0.rank6"),
        (["-o", "t"], {"PMI_RANK": "2", "PMI_SIZE": "4"}, "t.1234.0.rank2"),
        (["-o", "t"], {"FLUX_TASK_RANK": "2", "FLUX_JOB_ID": "ƒAbc1"}, "t.fAbc1.rank2"),
        (["-o", "t"], {"SLURM_PROCID": "008"}, "t.1234.0.rank8"),
        (["-o", "t"], {"SLURM_PROCID": "-1"}, "t.1234.0"),
    ], 2),
)  # fmt: skip
def test_names(
    here: Place, wrapper: Sequence[str], output: list[str], variables: dict[str, str], name: str
) -> None:
    done = here.run(wrapper, [], ["nsys", "profile", *output, "true"], **variables)
    assert done.returncode == 0, done.stderr
    assert here.files == [f"{name}.nsys-rep", f"{name}.nsysconv.json"]


PLACES = [
    ({}, [], "out/train", (None, None, None, None)),
    (
        {"PBS_JOBID": "77.head", "PALS_RANKID": "2", "PALS_LOCAL_RANKID": "0", "PALS_NODEID": "1"},
        ["--ranks", "node1:local0"], "out/train.77.head.rank2", (2, 0, None, "pbs 77.head"),
    ),
    # PMIx names the rank alone, and Slurm the rest; the number of an option is neither.
    ({"PMIX_RANK": "3", **SLURM_RANK_3}, ["--ranks", "node1:local1", "--grace", "30"], NAME,
     (3, 1, 8, "slurm 1234.0")),
    ({"PMIX_RANK": "3"}, ["--grace", "30"], "out/train.rank3", (3, None, None, None)),
]  # fmt: skip


@python_first
@pytest.mark.parametrize(("variables", "options", "name", "told"), PLACES)
def test_places_in_jobs(
    tmp_path: Path, wrapper: Sequence[str], variables: dict[str, str], options: list[str], name: str,
    told: tuple[Any, ...],
) -> None:  # fmt: skip
    here = place(tmp_path, **variables)
    assert here.run(wrapper, options, [*LINE, "true"]).returncode == 0
    assert here.files == [f"{name}.nsys-rep", f"{name}.nsysconv.json"]
    found = record(here, name)
    assert (found.rank, found.local_rank, found.world_size, found.job) == told


@both
def test_a_name_that_is_taken_gets_a_number(here: Place, wrapper: Sequence[str]) -> None:
    (here.here / "out").mkdir()
    (here.here / f"{NAME}.sqlite").write_text("an old export")
    for _ in range(2):
        here.run(wrapper, [], [*LINE, "true"])
    assert here.files == [
        f"{NAME}-2.nsys-rep", f"{NAME}-2.nsysconv.json",
        f"{NAME}-3.nsys-rep", f"{NAME}-3.nsysconv.json", f"{NAME}.sqlite",
    ]  # fmt: skip
    assert record(here, f"{NAME}-3").report == "train.1234.0.rank3-3.nsys-rep"
    assert (here.here / f"{NAME}.sqlite").read_text() == "an old export"


@pytest.mark.parametrize(
    ("wrapper", "name"), [(PYTHON_WRAPPER, NAME), (SHELL_WRAPPER, f"{NAME}-2")], ids=list(WRAPPERS)
)
def test_what_nsys_may_overwrite_is_overwritten_by_python_alone(
    here: Place, wrapper: Sequence[str], name: str
) -> None:
    (here.here / "out").mkdir()
    (here.here / f"{NAME}.nsys-rep").write_text("old")
    here.run(wrapper, [], ["nsys", "profile", "-f", "true", "-o", "out/train", "true"])
    assert here.files == sorted({f"{NAME}.nsys-rep", f"{name}.nsys-rep", f"{name}.nsysconv.json"})
    assert (here.here / f"{name}.nsys-rep").stat().st_size > 1000


# ---- The program's surroundings.

SHOW_ENVIRONMENT = "import os; print(sorted(os.environb.items()))"


@both
def test_a_rank_that_is_not_chosen_is_the_bare_program(here: Place, wrapper: Sequence[str]) -> None:
    program = [sys.executable, "-c", SHOW_ENVIRONMENT + "; import sys; sys.exit(7)"]
    bare = subprocess.run(program, env=here.environment, capture_output=True, check=False)
    done = here.process(wrapped(wrapper, ["--ranks", "0,8"], [*LINE, *program]))
    assert (done.returncode, done.stdout, done.stderr) == (7, bare.stdout, b"")
    assert here.files == []


@python_first
def test_a_rank_that_is_not_chosen_keeps_its_process(here: Place, wrapper: Sequence[str]) -> None:
    with here.start(wrapper, ["--ranks", "0"], [*LINE, "sh", "-c", "echo $$"]) as process:
        pid = process.pid
    assert (here.here.parent / "said").read_text() == f"{pid}\n"


@python_first
def test_a_rank_that_is_not_chosen_needs_no_profiler(here: Place, wrapper: Sequence[str]) -> None:
    line = ["/no/such/nsys", "profile", "-o", "x", "echo", "hi"]
    assert here.run(wrapper, ["--ranks", "0"], line).stdout == b"hi\n"


@python_first
@pytest.mark.parametrize(("program", "status"), [("no-such-program", 127), ("/", 126)])
def test_a_bare_program_that_cannot_run(
    here: Place, wrapper: Sequence[str], program: str, status: int
) -> None:
    done = here.run(wrapper, ["--ranks", "0"], [*LINE, program])
    assert done.returncode == status
    assert done.stderr


@pytest.mark.parametrize("ranks", ["0", "3"], ids=["bare", "profiled"])
def test_signals_that_python_ignores_end_the_program_as_ever(here: Place, ranks: str) -> None:
    done = here.run(PYTHON_WRAPPER, ["--ranks", ranks], [*LINE, "sh", "-c", "cat /proc/self/status"])
    ignored = re.search(rb"SigIgn:\s*([0-9a-f]+)", done.stdout)
    assert ignored is not None
    assert not int(ignored[1], 16) & (1 << (signal.SIGPIPE - 1))


@python_first
def test_nsys_works_in_a_folder_of_its_own_and_the_programs_stays(
    here: Place, wrapper: Sequence[str]
) -> None:
    done = here.run(wrapper, [], [*LINE, "sh", "-c", 'echo "$TMPDIR"; echo "$NSYS_TMPDIR"'])
    tmpdir, nsys_tmpdir = done.stdout.decode().splitlines()[:2]
    assert tmpdir == str(here.scratch)
    assert nsys_tmpdir.startswith(f"{here.scratch}/.nsysconv-")


@python_first
def test_scratch_that_is_named_is_everybodys_and_no_pattern(here: Place, wrapper: Sequence[str]) -> None:
    local = here.here.parent / "a %h %%"
    local.mkdir()
    done = here.run(wrapper, ["--scratch", str(local)], [*LINE, "sh", "-c", 'echo "$TMPDIR"'])
    assert done.stdout.decode().splitlines()[0] == str(local)
    assert f"'{local}/.nsysconv-" in done.stdout.decode()
    assert here.files == [f"{NAME}.nsys-rep", f"{NAME}.nsysconv.json"]
    assert list(local.iterdir()) == []


@python_first
def test_scratch_without_room_is_not_used(here: Place, wrapper: Sequence[str]) -> None:
    done = here.run(wrapper, [], [*LINE, "true"], TMPDIR="/no/such/folder")
    assert done.returncode == 0
    assert b"is used as scratch" in done.stderr
    assert here.files == [f"{NAME}.nsys-rep", f"{NAME}.nsysconv.json"]


@python_first
def test_standard_input_is_the_programs(here: Place, wrapper: Sequence[str]) -> None:
    done = subprocess.run(
        wrapped(wrapper, [], [*LINE, "cat"]), cwd=here.here, env=here.environment,
        input=b"words\n", capture_output=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith(b"words\n")


# ---- What is refused before anything starts.


RAN = ("touch", "ran")
BY_BOTH = [
    ([], [], "no command is given"),
    ([], ["ncu", "true"], "not a line of a profiler"),
    ([], ["nsys", "launch", *RAN], "not a line of a profiler"),
    ([], ["nsys", "profile"], "there is no program"),
    ([], ["/no/such/nsys", "profile", "-o", "x", *RAN], "/no/such/nsys"),
    ([], ["nsys", "profile", "-o", "out/", *RAN], "the output is a folder"),
    ([], ["nsys", "profile", "-o", "%p/a", *RAN], "%p"),
    (["--ranks", "x"], [*LINE, *RAN], "names no ranks"),
    (["--ranks", "%0"], [*LINE, *RAN], "names no ranks"),
    (["--ranks", "1,"], [*LINE, *RAN], "names no ranks"),
    (["--unheard-of"], [*LINE, *RAN], "o such option"),
    (["--grace", "x"], [*LINE, *RAN], "grace"),
    (["--scratch", "/no/such/folder"], [*LINE, *RAN], "no such folder"),
]
# Its own -o, which the line must not have, and where the program begins.
BY_SHELL = [
    ([], ["nsys", "profile", *RAN], "-o is missing"),
    (["-o", "x"], ["nsys", "profile", "-t", "cuda", "-o", "y", *RAN], "-o behind --"),
    (["-o", "x"], ["nsys", "profile", "-oy", "--", *RAN], "-oy behind --"),
    (["-o", "x"], ["nsys", "profile", "--output=y", *RAN], "--output=y behind --"),
    (["-o", "x"], ["nvprof", "--export-profile", "y", *RAN], "give -o to"),
    (["-o", "x"], ["nsys", "profile", *RAN, "-o", "y"], "the program's own needs --"),
    (["-o", "x", "--ranks", "0"], ["nsys", "profile", *RAN], "needs a --"),
    (["-o", "x", "--ranks", "3"], ["nsys", "profile", *RAN], "needs a --"),
    (["-o", "x"], ["nsys", "profile", "--"], "there is no program"),
    (["-o", "%q{SLURM_JOB_ID}/x"], ["nsys", "profile", *RAN], "no % is replaced"),
    (["--export", "-o", "x"], ["nsys", "profile", *RAN], "no such option: --export"),
    (["-o"], [], "no command"),
]


@pytest.mark.parametrize(("wrapper", "options", "line", "said"), [
    *few([(PYTHON_WRAPPER, *case) for case in BY_BOTH], 3),
    *few([(SHELL_WRAPPER, *case) for case in BY_BOTH], 3),
    *few([((*SHELL_WRAPPER, *options), [], *case) for options, *case in BY_SHELL], 3),
])  # fmt: skip
def test_nothing_starts(
    here: Place, wrapper: Sequence[str], options: list[str], line: list[str], said: str
) -> None:
    done = here.run(wrapper, options, line)
    assert done.returncode == 125
    assert said in done.stderr.decode()
    assert here.files == []
    assert here.left == []


def test_the_shell_twin_needs_no_separator_where_every_rank_is_profiled(here: Place) -> None:
    wrapper = (*SHELL_WRAPPER, "--output=out/train", "--ranks=all")
    done = here.run(wrapper, [], ["nsys", "profile", "-t", "cuda", "echo", "a", "--", "-o", "b"])
    assert done.stdout.startswith(b"a -- -o b\n"), done.stderr
    assert here.files == [f"{NAME}.nsys-rep", f"{NAME}.nsysconv.json"]


@python_first
def test_nothing_starts_without_the_rank_that_is_asked_for(
    tmp_path: Path, wrapper: Sequence[str]
) -> None:
    here = place(tmp_path)
    done = here.run(wrapper, ["--ranks", "local0"], [*LINE, "touch", "ran"])
    assert done.returncode == 125
    assert b"asks for the local rank, which no variable of a launcher tells" in done.stderr
    assert here.files == []


def test_a_program_that_is_marked(here: Place) -> None:
    line = ["nsys", "profile", "--unheard-of", "x", "-o", "out/train", "echo", "echo"]
    done = here.run(PYTHON_WRAPPER, ["--program", "echo"], line)
    assert done.stdout.startswith(b"echo\n"), done.stderr
    assert f"{NAME}.nsys-rep" in here.files


# ---- nvprof.


@both
def test_nvprof(here: Place, wrapper: Sequence[str]) -> None:
    line = ["nvprof", "--csv", "-o", "out/train.nvprof", "sh", "-c", "exit 2"]
    done = here.run(wrapper, [], line, STANDIN_FIXTURE=str(NVPROF_PROFILE))
    assert done.returncode == 2
    assert here.files == [f"{NAME}.nsysconv.json", f"{NAME}.nvprof"]
    assert (here.here / f"{NAME}.nvprof").read_bytes() == NVPROF_PROFILE.read_bytes()
    assert record(here).profiler == "nvprof"


@pytest.mark.parametrize(("outputs", "files"), [
    (["--log-file", "logs/%p.log", "-o", "out/train.nvprof"],
     [r"logs/\d+\.1234\.0\.rank3\.log", f"{NAME}.nsysconv.json", f"{NAME}.nvprof"]),
    (["--log-file", "out/train.log"], [f"{NAME}.log", f"{NAME}.nsysconv.json"]),
    ([], ["report.1234.0.rank3.nsysconv.json", "report.1234.0.rank3.nvprof"]),
])  # fmt: skip
def test_outputs_of_nvprof(here: Place, outputs: list[str], files: list[str]) -> None:
    """Of a log alone the log is the report; without an output there is one."""
    line = ["nvprof", *outputs, "true"]
    here.run(PYTHON_WRAPPER, [], line, STANDIN_FIXTURE=str(NVPROF_PROFILE))
    assert all(map(re.fullmatch, files, here.files)), here.files
    assert len(here.files) == len(files)
    (told,) = [each.removesuffix(".nsysconv.json") for each in here.files if each.endswith(".json")]
    suffix = ".log" if len(files) == 2 and outputs else ".nvprof"
    assert record(here, told).report == Path(told).name + suffix


# ---- What goes wrong.


@both
@pytest.mark.parametrize(
    ("fault", "status", "problem"),
    [
        ("killed", 137, r"no report: nsys (was killed \(signal 9\)|ended with status 137)"),
        ("no-report", 0, "no report: nsys wrote none"),
        ("unfinished", 0, "no report: nsys wrote none"),
    ],
)
def test_a_rank_that_leaves_no_report_leaves_a_record(
    here: Place, wrapper: Sequence[str], fault: str, status: int, problem: str
) -> None:
    done = here.run(wrapper, [], [*LINE, "true"], STANDIN_FAULTS=f"3:{fault}")
    assert done.returncode == status
    told = record(here)
    assert told.report is None
    assert told.exit_status == status
    (said,) = told.problems
    assert re.fullmatch(problem, said)
    assert said in done.stderr.decode()
    assert here.left == []


@python_first
@pytest.mark.parametrize("output", ["train.%p", "train.nsys-rep"])
def test_the_first_record_becomes_the_last(here: Place, wrapper: Sequence[str], output: str) -> None:
    """Also where the profiler calls its report otherwise than it was to be known before."""
    done = here.run(wrapper, [], ["nsys", "profile", "-o", output, "sh", "-c", "cat *.json"])
    assert b'"exit_status": null' in done.stdout, done.stderr
    (report, told) = here.files
    assert Path(told).name == Path(report).stem + ".nsysconv.json"
    assert record(here, told.removesuffix(".nsysconv.json")).exit_status == 0


@python_first
def test_a_program_that_cannot_leave_a_record_runs_all_the_same(
    here: Place, wrapper: Sequence[str]
) -> None:
    """The name is too long for a file, and so is the report's."""
    line = ["nsys", "profile", "-o", "x" * 250, "sh", "-c", "echo ran; exit 4"]
    done = here.run(wrapper, [], line)
    assert done.stdout.startswith(b"ran\n")
    assert b"the record could not be written" in done.stderr


@python_first
def test_a_recording_that_is_no_report_yet_is_kept(here: Place, wrapper: Sequence[str]) -> None:
    done = here.run(wrapper, [], [*LINE, "true"], STANDIN_FAULTS="3:unfinished")
    (kept,) = [name for name in here.files if name.endswith(".qdstrm")]
    assert kept.startswith("out/")
    assert b"nsys import" in done.stderr


@python_first
def test_a_report_whose_name_was_taken_is_still_found(here: Place, wrapper: Sequence[str]) -> None:
    done = here.run(wrapper, [], [*LINE, "true"], STANDIN_FAULTS="3:clash")
    assert done.returncode == 1
    assert f"{NAME}.nsys-rep" in here.files


@python_first
def test_an_old_report_is_not_taken_for_the_missing_one(here: Place, wrapper: Sequence[str]) -> None:
    here.run(wrapper, [], [*LINE, "true"])
    here.run(wrapper, [], ["nsys", "profile", "-ftrue", *LINE[2:], "true"], STANDIN_FAULTS="3:no-report")
    assert record(here).report == "train.1234.0.rank3.nsys-rep"
    assert record(here, f"{NAME}-2").report is None


@both
def test_half_a_report_is_kept(here: Place, wrapper: Sequence[str]) -> None:
    done = here.run(wrapper, [], [*LINE, "true"], STANDIN_FAULTS="3:full")
    assert done.returncode == 1
    assert b"No space left" in done.stderr
    assert here.files == [f"{NAME}.nsys-rep", f"{NAME}.nsysconv.json"]


@python_first
def test_a_report_that_cannot_be_moved_stays_on_scratch(here: Place, wrapper: Sequence[str]) -> None:
    # The folder is gone when the report is to be moved there; as root, rights would keep nobody out.
    done = here.run(wrapper, [], [*LINE, "sh", "-c", "rm -r out; : > out; exit 4"])
    assert done.returncode == 4
    (left,) = here.left
    reports = list((here.scratch / left).rglob("*.nsys-rep"))
    assert [path.name for path in reports] == ["train.1234.0.rank3.nsys-rep"]
    assert str(reports[0]) in done.stderr.decode()


@both
def test_secrets_stay_out_of_the_record(here: Place, wrapper: Sequence[str]) -> None:
    line = ["nsys", "profile", "-e", "B=SECRET-option", "-o", "out/train", "true", "SECRET-argument"]
    here.run(wrapper, [], line, TOKEN="SECRET-environment", SLURM_JOB_NAME="SECRET-job")
    assert b"SECRET" not in (here.here / f"{NAME}.nsysconv.json").read_bytes()


# ---- Export and import.


def rows(store: Path) -> list[dict[str, Any]]:
    (report,) = nsysconv.report_on(store, "overview")
    return report.rows()


def test_the_report_is_imported_beside_it(here: Place) -> None:
    done = here.process(wrapped(IMPORTING, [], [*LINE, "sh", "-c", "exit 3"]))
    assert done.returncode == 3
    assert here.files == [f"{NAME}.db", f"{NAME}.nsys-rep", f"{NAME}.nsysconv.json"]
    assert record(here).store == "train.1234.0.rank3.db"
    assert b"8 kernels" in done.stderr
    (row,) = rows(here.here / f"{NAME}.db")
    assert (row["rank"], row["kernel_count"]) == (3, 8)
    assert here.left == []


@pytest.mark.parametrize(
    ("options", "kept"),
    few([
        (["--keep", "store"], [".db", ".nsysconv.json"]),
        (["--keep", "export"], [".nsysconv.json", ".sqlite"]),
        (["--keep", "report,export,store"], [".db", ".nsys-rep", ".nsysconv.json", ".sqlite"]),
        (["--store", "all.db"], [".nsys-rep", ".nsysconv.json"]),
        (["--store", "all.db", "--keep", "report,store"], [".db", ".nsys-rep", ".nsysconv.json"]),
    ], 1),
)
def test_what_is_kept(here: Place, options: list[str], kept: list[str]) -> None:
    done = here.run(IMPORTING, options, [*LINE, "true"])
    assert done.returncode == 0
    shared = ["all.db"] if "--store" in options else []
    assert here.files == [*shared, *(f"{NAME}{suffix}" for suffix in kept)]
    assert b"8 kernels" in done.stderr or "export" in options


def test_a_stale_export_is_never_used(here: Place) -> None:
    (here.here / "out").mkdir()
    (here.here / f"{NAME}.sqlite").write_text("an old export")
    here.run(IMPORTING, [], ["nsys", "profile", "-ftrue", *LINE[2:], "true"])
    (row,) = rows(here.here / f"{NAME}.db")
    assert row["kernel_count"] == 8


EXPORTING = ["nsys", "profile", "--export=sqlite", "-o", "out/train", "true"]
OF_NVPROF = {"STANDIN_FIXTURE": str(NVPROF_PROFILE)}
OF_SHELL = f"out/{os.uname().nodename}.3.1234.0.rank3"
NO_EXPORT = {"STANDIN_FAULTS": "3:export-fails"}


# Python alone knows names that tell the rank; its shell twin adds job and rank always.
@pytest.mark.parametrize(("wrapper", "line", "variables", "files"), [
    (PYTHON_WRAPPER, ["nsys", "profile", "true"], {}, "report.1234.0.rank3{.nsys-rep,.nsysconv.json}"),
    (PYTHON_WRAPPER, ["nsys", "profile", "-o", "%q{SLURM_JOB_ID}/train.%q{SLURM_PROCID}", "true"], {},
     "1234/train.3{.nsys-rep,.nsysconv.json}"),
    (SHELL_WRAPPER, ["nsys", "profile", "-o", "out/%h.%q{SLURM_PROCID}", "true"], {},
     OF_SHELL + "{.nsys-rep,.nsysconv.json}"),
    (SHELL_WRAPPER, EXPORTING, {}, NAME + "{.nsys-rep,.nsysconv.json,.sqlite}"),
    # nsys export would fail; nsys profile --export has made the file already.
    (IMPORTING, EXPORTING, NO_EXPORT, NAME + "{.db,.nsys-rep,.nsysconv.json,.sqlite}"),
    # Where the store could not be made.
    ((*IMPORTING, "--keep", "store"), [*LINE, "true"], NO_EXPORT, NAME + "{.nsys-rep,.nsysconv.json}"),
    (IMPORTING, ["nvprof", "-o", "out/train.nvprof", "true"], OF_NVPROF,
     NAME + "{.db,.nsysconv.json,.nvprof}"),
    ((*SHELL_WRAPPER, "-o", "out/train"), ["nvprof", "--log-file", "out/log.%q{SLURM_PROCID}", "true"],
     OF_NVPROF, "out/{log.3,train.1234.0.rank3.nsysconv.json,train.1234.0.rank3.nvprof}"),
])  # fmt: skip
def test_files_that_are_left(
    here: Place, wrapper: Sequence[str], line: list[str], variables: dict[str, str], files: str
) -> None:
    done = here.run(wrapper, [], line, **variables)
    stem, _, suffixes = files.removesuffix("}").partition("{")
    assert here.files == [stem + suffix for suffix in suffixes.split(",")], done.stderr
    assert done.returncode == 0
    assert b"8 kernels" in done.stderr or ".db" not in files


@pytest.mark.parametrize(
    ("fault", "problem"),
    few([
        ("export-fails", "nsys could not export the report (exit status 1)"),
        ("export-killed", "nsys could not export the report (killed by signal 9)"),
        ("export-hangs", "nsys did not export the report within 1 s"),
        ("truncated", "nsys could not export the report (exit status 1)"),
    ], 2),
)
def test_an_export_that_fails_costs_neither_report_nor_status(
    here: Place, fault: str, problem: str
) -> None:
    """The stand-in's report is none that is read without nsys, so that it cannot be imported either."""
    asked = ["--timeout", "1", "--keep", "report,export,store"]
    done = here.run(IMPORTING, asked, [*LINE, "true"], STANDIN_FAULTS=f"3:{fault}")
    assert done.returncode == 0
    assert here.files == [f"{NAME}.nsys-rep", f"{NAME}.nsysconv.json"]
    assert record(here).problems == (problem, "it could not be imported")
    assert problem in done.stderr.decode()
    assert here.left == []


def test_an_import_that_fails_costs_neither_report_nor_status(here: Place) -> None:
    (here.here / "all.db").write_text("no store")
    done = here.run(IMPORTING, ["--store", "all.db"], [*LINE, "true"])
    assert done.returncode == 0
    assert record(here).problems == ("it could not be imported",)
    assert (here.here / "all.db").read_text() == "no store"
    assert f"{NAME}.nsys-rep" in here.files


# ---- Files.


def test_a_report_comes_from_another_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(source: object, target: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", no_links)
    source = tmp_path / "scratch" / "a.nsys-rep"
    source.parent.mkdir()
    source.write_text("new")
    (tmp_path / "a.nsys-rep").write_text("old")
    assert atomic_move.put_report(source, tmp_path, overwrite=False) == tmp_path / "a-2.nsys-rep"
    assert (tmp_path / "a-2.nsys-rep").read_text() == "new"
    assert (tmp_path / "a.nsys-rep").read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a-2.nsys-rep", "a.nsys-rep", "scratch"]


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, target: Path) -> None:
        target.write_text("ha")
        raise OSError(28, "No space left on device")

    def no_links(source: object, target: object) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", no_links)
    monkeypatch.setattr(shutil, "copyfile", full)
    source = tmp_path / "a.nsys-rep"
    source.write_text("half")
    out = tmp_path / "out"
    out.mkdir()
    with pytest.raises(OSError, match="No space left"):
        atomic_move.put_report(source, out, overwrite=False)
    assert list(out.iterdir()) == []


def test_scratch_falls_back_to_the_destination(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic_move, "ROOM_BYTES", 2**62)
    root, about = atomic_move.scratch_root(None, {"TMPDIR": "/tmp"}, tmp_path)
    assert root == tmp_path
    assert re.fullmatch(rf"/tmp: only [\d,]+ MB are free; {tmp_path} is used as scratch", about)
    with pytest.raises(CaptureError, match="no such folder"):
        atomic_move.scratch_root(tmp_path / "missing", {}, tmp_path)


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="no shellcheck")
def test_the_shell_twin_is_clean() -> None:
    subprocess.run(["shellcheck", "-s", "sh", SCRIPT], check=True)


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.sh")), ids=lambda path: path.name)
def test_examples_are_right_by_their_syntax(example: Path) -> None:
    subprocess.run(["bash", "-n", example], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", example], check=True)
