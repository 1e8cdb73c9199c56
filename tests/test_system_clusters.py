"""Ranks under a real Slurm and a real Open MPI, through `nsysconv profile` and its shell twin.

The profiler is a stand-in. Left out, with the reason, where Slurm or Open MPI is missing or does not
start; `make test-system` runs these.
"""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import slurm
from capturing import PYTHON_WRAPPER, SCRIPT, SHELL, WRAPPERS, Place, place, wrapped
from conftest import ROOT

from nsysconv.record import Record, read
from nsysconv.store.location import reading

pytestmark = pytest.mark.system

both = pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=list(WRAPPERS))
IMPORTING = (*PYTHON_WRAPPER[:-2],)
RANKS = range(8)

# Ranks end differently.
STATUS_BY_RANK = "exit $(( ${OMPI_COMM_WORLD_RANK:-$SLURM_PROCID} % 4 ))"


def run(
    words: Sequence[str | Path], here: Place, environment: Mapping[str, str] | None = None,
    *, faults: str = "",
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Runs a command in the working folder, with faults of the profiler on some ranks."""
    variables = {**(environment or {}), **here.environment, "STANDIN_FAULTS": faults}
    return subprocess.run(
        words, cwd=here.here, env=variables, text=True, stdin=subprocess.DEVNULL,
        capture_output=True, check=False, timeout=300,
    )  # fmt: skip


class Launcher:
    """Starts eight ranks. `environment` is what its commands need."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.command, self.environment = command, environment
        self.is_srun = command[0] == "srun"

    def run(
        self, here: Place, wrapper: Sequence[str], options: Sequence[str], *program: str, faults: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Profiles a program."""
        words = wrapped(wrapper, options, [*PROFILE, *program])
        return run([*self.command, *words], here, self.environment, faults=faults)


PROFILE = ("nsys", "profile", "-o", "prof/train")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Mapping[str, str]]:
    try:
        with slurm.running() as environment:
            yield environment
    except slurm.CannotRun as reason:
        pytest.skip(str(reason))


@pytest.fixture(params=["srun", "mpirun"])
def launcher(request: pytest.FixtureRequest) -> Launcher:
    if request.param == "srun":
        return Launcher(["srun", "--quiet", "-n", "8"], request.getfixturevalue("cluster"))
    # A rank that fails does not end the others: every status is to be seen.
    keeps_on = ["--mca", "orte_abort_on_non_zero_status", "0"]
    return Launcher(["mpirun", "--oversubscribe", "-n", "8", *keeps_on], open_mpi())


def open_mpi() -> dict[str, str]:
    """What Open MPI needs to run as root; skips the test where it is not here."""
    if shutil.which("mpirun") is None:
        pytest.skip("no mpirun; .ci/install-system installs Open MPI")
    return {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


def records(here: Place) -> dict[int, Record]:
    """All records below the working folder, by rank."""
    found: dict[int, Record] = {}
    for path in here.here.rglob("*.nsysconv.json"):
        told = read(path)
        assert told is not None
        assert told.rank is not None
        assert told.rank not in found
        found[told.rank] = told
    return dict(sorted(found.items()))


def reports(here: Place) -> list[str]:
    return sorted(path.name for path in here.here.rglob("*.nsys-rep"))


def rank_of(name: str) -> int:
    found = re.search(r"rank(\d+)", name)
    assert found is not None
    return int(found[1])


# ---- Eight ranks.


@both
def test_eight_ranks_leave_their_reports(here: Place, launcher: Launcher, wrapper: Sequence[str]) -> None:
    done = launcher.run(here, wrapper, [], "sh", "-c", STATUS_BY_RANK)
    told = records(here)
    assert list(told) == list(RANKS), done.stderr
    assert {rank: one.exit_status for rank, one in told.items()} == {r: r % 4 for r in RANKS}
    assert [rank_of(name) for name in reports(here)] == list(RANKS)
    assert {one.report for one in told.values()} == set(reports(here))
    assert {one.world_size for one in told.values()} == {8}
    assert sorted(one.local_rank for one in told.values() if one.local_rank is not None) == list(
        RANKS
    )
    assert len({one.job for one in told.values()}) == 1
    assert all(one.problems == () for one in told.values())
    # srun gives the largest; mpirun, told that a failing rank fails nobody else, gives none.
    assert done.returncode == (3 if launcher.is_srun else 0)
    assert here.left == []


@both
def test_every_way_to_lose_a_report_is_recorded(
    here: Place, launcher: Launcher, wrapper: Sequence[str]
) -> None:
    faults = "1:killed 2:no-report 3:clash 4:full 5:unfinished 6:slow"
    done = launcher.run(here, wrapper, [], "true", faults=faults)
    told = records(here)
    assert list(told) == list(RANKS), done.stderr
    assert {rank: one.exit_status for rank, one in told.items()} == {
        0: 0, 1: 137, 2: 0, 3: 1, 4: 1, 5: 0, 6: 0, 7: 0,
    }  # fmt: skip
    # A clash in the profiler's own folder costs nothing; what a full disk left is kept.
    without = {1, 2, 5}
    for rank, one in told.items():
        assert (one.report is None) == (rank in without)
        assert bool(one.problems) == (rank in without)
        assert f"rank {rank} on " in done.stderr
    assert {rank_of(name) for name in reports(here)} == set(RANKS) - without
    assert len(list(here.here.rglob("*.qdstrm"))) == 1
    assert here.left == []


@both
def test_chosen_ranks_are_profiled_and_the_others_are_the_program(
    here: Place, launcher: Launcher, wrapper: Sequence[str]
) -> None:
    program = ["sh", "-c", 'echo "NSYS_TMPDIR=$NSYS_TMPDIR"']
    done = launcher.run(here, wrapper, ["--ranks", "%4"], *program)
    assert done.returncode == 0, done.stderr
    assert list(records(here)) == [0, 4]
    bare = [text for text in done.stdout.splitlines() if text == "NSYS_TMPDIR="]
    assert len(bare) == 6


def ranks_by_run(store: Path) -> list[list[int]]:
    """The ranks of each run of a store."""
    runs: dict[int, list[int]] = {}
    with reading(store) as opened:
        for profile in opened.profiles():
            ranks = [row["rank"] for row in profile.rows("process") if row["rank"] is not None]
            runs.setdefault(profile.attributes["run_id"], []).extend(ranks)
    return [sorted(ranks) for ranks in runs.values()]


@both
def test_a_folder_of_ranks_is_one_run(
    here: Place, launcher: Launcher, wrapper: Sequence[str]
) -> None:
    launcher.run(here, wrapper, [], "true", faults="2:no-report 5:killed")
    done = run([sys.executable, "-m", "nsysconv", "import", "prof", "-o", "job.db"], here)
    assert ranks_by_run(here.here / "job.db") == [[0, 1, 3, 4, 6, 7]], done.stderr
    for rank in (2, 5):
        assert re.search(rf"rank {rank}\b.*no report", done.stdout + done.stderr)


def test_ranks_import_into_one_store_at_once(here: Place, launcher: Launcher) -> None:
    # Outside of a batch system nothing tells which ranks are one run.
    named = [] if launcher.is_srun else ["--run", "trial"]
    done = launcher.run(here, IMPORTING, ["--store", "all.db", *named], "true")
    assert done.returncode == 0, done.stderr
    assert all(one.problems == () for one in records(here).values()), done.stderr
    assert ranks_by_run(here.here / "all.db") == [list(RANKS)]


# ---- Slurm alone.


@both
def test_elements_of_an_array_have_names_of_their_own(
    here: Place, cluster: Mapping[str, str], wrapper: Sequence[str]
) -> None:
    script = here.here / "job.sh"
    words = shlex.join(wrapped(wrapper, [], [*PROFILE, "true"]))
    script.write_text(f"#!/bin/sh\n#SBATCH --array=0-1 --ntasks=2\nsrun --quiet {words}\n")
    assert run(["sbatch", "--wait", "--output=%A_%a.out", script], here, cluster).returncode == 0
    names = [re.sub(r"\.\d+_", ".N_", name) for name in reports(here)]
    said = [path.read_text() for path in here.here.glob("*.out")]
    assert names == [
        "train.N_0.0.rank0.nsys-rep", "train.N_0.0.rank1.nsys-rep",
        "train.N_1.0.rank0.nsys-rep", "train.N_1.0.rank1.nsys-rep",
    ], said  # fmt: skip


@both
@pytest.mark.parametrize("fault", ["", "*:slow"], ids=["quick", "slow"])
def test_a_cancelled_job_leaves_its_reports(
    here: Place, cluster: Mapping[str, str], wrapper: Sequence[str], fault: str
) -> None:
    script = here.here / "job.sh"
    program = ["sh", "-c", ": > started.$SLURM_PROCID; exec sleep 300"]
    line = shlex.join(wrapped(wrapper, [], [*PROFILE, *program]))
    script.write_text(f"#!/bin/sh\nsrun --quiet -n 2 {line}\n")
    words = ["sbatch", "--parsable", "--ntasks=2", "--output=said.out", str(script)]
    submitted = run(words, here, cluster, faults=fault)
    job = submitted.stdout.strip()
    _until(lambda: all((here.here / f"started.{rank}").exists() for rank in (0, 1)))
    assert run(["scancel", job], here, cluster).returncode == 0
    _until(lambda: run(["squeue", "--noheader", "--jobs", job], here, cluster).stdout.strip() == "")
    said = (here.here / "said.out").read_text()
    told = records(here)
    assert list(told) == [0, 1], said
    assert [one.exit_status for one in told.values()] == [143, 143]
    assert [one.signal for one in told.values()] == [signal.SIGTERM, signal.SIGTERM]
    assert [rank_of(name) for name in reports(here)] == [0, 1], said
    assert here.left == []


def _until(ready: Any) -> None:
    end = time.monotonic() + 90
    while not ready():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.2)


# ---- A disk that is really full.


@both
def test_a_full_destination_leaves_the_report_on_scratch(
    here: Place, wrapper: Sequence[str]
) -> None:
    full = here.here / "prof"
    full.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", full], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no small file system can be mounted: {mounted.stderr.decode().strip()}")
    try:
        fill = "cat /dev/zero > prof/fill; exit 3"
        done = here.run(wrapper, [], [*PROFILE, "sh", "-c", fill])
        assert done.returncode == 3
        (left,) = here.scratch.rglob("*.nsys-rep")
        assert str(left) in done.stderr.decode()
        assert sorted(path.name for path in full.iterdir()) == ["fill", "train.nsysconv.json"]
        told = read(full / "train.nsysconv.json")
        assert told is not None
        assert told.report is None
        assert told.exit_status == 3
        (problem,) = told.problems
        assert str(left) in problem
    finally:
        subprocess.run(["umount", full], check=True)


# ---- Examples.

EXAMPLES = ROOT / "examples"


@pytest.fixture
def there(here: Place) -> Place:
    """A folder where the examples find what they name: nsysconv, the shell twin, programs."""
    folder = here.here.parent / "bin"
    programs = {
        folder / "nsysconv": f'exec {sys.executable} -m nsysconv "$@"',
        folder / "nsysconv-rank.sh": f'exec {SHELL} {SCRIPT} "$@"',
        folder / "python": 'echo "ran $*"',
        folder / "torchrun": 'echo "ran $*"',
        here.here / "solver": 'echo "ran $*"',
    }
    for path, words in programs.items():
        path.write_text(f"#!/bin/sh\n{words}\n")
        path.chmod(0o755)
    return here


@pytest.mark.parametrize(
    ("example", "options", "left"),
    [
        ("slurm-srun.sh", ["--nodes=1"], ["train.N.0.rank0.db", "train.N.0.rank0.nsys-rep"]),
        ("slurm-torchrun.sh", ["--nodes=1"], ["node.N.0.rank0.db", "node.N.0.rank0.nsys-rep"]),
        (
            "slurm-array.sh",
            ["--array=2"],
            [f"trial.N_2.0.rank{r}.{suffix}" for r in (0, 1) for suffix in ("db", "nsys-rep")],
        ),
        ("no-python.sh", [], [f"solver.N.0.rank{rank}.nvprof" for rank in (0, 2)]),
    ],
)
def test_examples_for_slurm_run(
    there: Place, cluster: Mapping[str, str], example: str, options: list[str], left: list[str]
) -> None:
    done = run(["sbatch", "--wait", "--output=said.out", *options, EXAMPLES / example], there, cluster)
    said = (there.here / "said.out").read_text()
    assert done.returncode == 0, done.stderr + said
    kept = [p.name for p in there.here.glob("prof/*") if not p.name.endswith(".json")]
    assert sorted(re.sub(r"\.\d+([._])", r".N\1", name, count=1) for name in kept) == left, said
    assert "ran " in said
    if example == "slurm-srun.sh":
        assert "Where the time went - " in said and "Bottlenecks - " in said
        assert said.count("ran train.py") == 4


def test_the_example_for_open_mpi_runs(there: Place) -> None:
    environment = {**open_mpi(), "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    done = run(["bash", EXAMPLES / "open-mpi.sh"], there, environment)
    assert done.returncode == 0, done.stderr
    assert reports(there) == ["solver.rank0.nsys-rep", "solver.rank4.nsys-rep"]
    assert done.stdout.count("ran --steps 100") == 8
