"""What an environment tells of a process's place in its job, and what it must not tell."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from nsysconv.launch import VARIABLES, Launch, launch_of

DECLARED = tomllib.loads(Path(__file__).with_name("launchers.toml").read_text(encoding="utf-8"))
LAUNCHERS = {name: (it["environment"], Launch(**it["launch"])) for name, it in DECLARED.items()}
OPEN_MPI, TORCHRUN, SLURM = (LAUNCHERS[name][0] for name in ("Open MPI", "torchrun", "srun"))


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_each_launcher_gives_the_rank(launcher: str) -> None:
    environment, expected = LAUNCHERS[launcher]
    assert launch_of(environment) == expected


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_only_listed_variables_are_read(launcher: str) -> None:
    """Whoever passes on only VARIABLES, as importers do of what was captured, loses nothing."""
    environment, expected = LAUNCHERS[launcher]
    assert launch_of({k: v for k, v in environment.items() if k in VARIABLES}) == expected


def test_an_environment_without_launcher_gives_no_rank() -> None:
    assert launch_of({"HOME": "/root", "TOKEN": "7"}) == Launch()


SEVERAL = {
    # One torchrun per node: Slurm counts those.
    "torchrun under srun counts processes": (
        {**SLURM, **TORCHRUN}, Launch(9, 1, 16, 8, 1, "slurm 1234.0")),
    "torchrun under srun with PMI": (
        {**SLURM, **TORCHRUN, "PMIX_RANK": "1", "PMI_RANK": "1", "PMI_SIZE": "2"},
        Launch(9, 1, 16, 8, 1, "slurm 1234.0")),
    # Its daemons are tasks of a step on all nodes but the first: two jobs would come of one.
    "mpirun inside a job is of no step": ({**SLURM, **OPEN_MPI}, Launch(5, 1, 8, 4, None, "slurm 1234")),
    "MPI before variables of one's own": ({**OPEN_MPI, "RANK": "0"}, Launch(5, 1, 8, 4)),
}  # fmt: skip


@pytest.mark.parametrize(("environment", "expected"), SEVERAL.values(), ids=SEVERAL)
def test_several_launchers(environment: dict[str, str], expected: Launch) -> None:
    assert launch_of(environment) == expected


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({"PMI_RANK": "5"}, (5, None, None)),
        ({"PMI_RANK": "1"}, (1, 0, 2)),
        ({"FLUX_TASK_RANK": "7", "FLUX_JOB_ID": "f9"}, (7, None, None)),
    ],
    ids=["not taken from another rank", "taken from the same rank", "flux inside slurm"],
)
def test_what_a_launcher_in_slurm_does_not_say(
    variables: dict[str, str], found: tuple[int, int | None, int | None]
) -> None:
    launch = launch_of({**SLURM, **variables})
    assert (launch.rank, launch.local_rank, launch.world_size) == found
    assert launch.job == "flux f9" or "FLUX_JOB_ID" not in variables


class TestJobs:
    def test_a_batch_script_is_no_rank(self) -> None:
        """Slurm numbers it 0, whatever the job's number of tasks; it is in no step."""
        environment = {"SLURM_JOB_ID": "1234", "SLURM_PROCID": "0", "SLURM_NTASKS": "8"}
        assert launch_of(environment) == Launch(job="slurm 1234")

    def test_an_element_of_an_array(self) -> None:
        array = {"SLURM_ARRAY_JOB_ID": "1230", "SLURM_ARRAY_TASK_ID": "7"}
        assert launch_of({**SLURM, **array}).job == "slurm 1230_7.0"
        assert launch_of({"LSB_JOBID": "5", "LSB_JOBINDEX": "3"}).job == "lsf 5[3]"
        assert launch_of({"PBS_JOBID": "77[3].head"}).job == "pbs 77[3].head"

    def test_flux_with_its_own_letter(self) -> None:
        assert launch_of({"FLUX_JOB_ID": "ƒ2kXy"}).job == "flux f2kXy"


@pytest.mark.parametrize(
    "value", ["", " 5", "5 ", "+5", "-5", "5.0", "0x5", "٥", "SECRET", "5\n", "1" * 10]
)
def test_a_value_that_is_no_number_is_ignored(value: str) -> None:
    assert launch_of({"PMI_RANK": value, "SLURM_JOB_ID": value, "LSB_JOBID": value}) == Launch()


@pytest.mark.parametrize("value", ["", "a b", "a@b", "a/b", "a$b", "ä", "a" * 65, "a\n", "\x1b[1m"])
def test_a_job_id_of_another_shape_is_ignored(value: str) -> None:
    assert launch_of({"PBS_JOBID": value, "FLUX_JOB_ID": value}) == Launch()
