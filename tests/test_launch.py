"""What an environment tells of a process's place in its job, and what it must not tell."""

from __future__ import annotations

import pytest

from nsysconv.launch import VARIABLES, Launch, launch_of

OPEN_MPI = {
    "OMPI_COMM_WORLD_RANK": "5",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_SIZE": "8",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "4",
}
TORCHRUN = {
    "RANK": "9",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "16",
    "LOCAL_WORLD_SIZE": "8",
    "GROUP_RANK": "1",
    "TORCHELASTIC_RUN_ID": "none",
}
SLURM = {
    "SLURM_JOB_ID": "1234",
    "SLURM_STEP_ID": "0",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_NTASKS": "2",
}
LAUNCHERS = {
    "Open MPI": (OPEN_MPI, Launch(5, 1, 8, 4)),
    "MVAPICH2": (
        {
            "MV2_COMM_WORLD_RANK": "5",
            "MV2_COMM_WORLD_LOCAL_RANK": "1",
            "MV2_COMM_WORLD_SIZE": "8",
            "MV2_COMM_WORLD_LOCAL_SIZE": "4",
        },
        Launch(5, 1, 8, 4),
    ),
    "MPICH and Intel MPI": (
        {"PMI_RANK": "5", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"},
        Launch(5, 1, 8, 4),
    ),
    "Cray PALS": (
        {
            "PMI_RANK": "5",
            "PMI_SIZE": "8",
            "PMI_LOCAL_RANK": "1",
            "PMI_LOCAL_SIZE": "4",
            "PALS_RANKID": "5",
            "PALS_NODEID": "1",
            "PBS_JOBID": "77.head",
        },
        Launch(5, 1, 8, 4, 1, "pbs 77.head"),
    ),
    "jsrun": (
        {
            "JSM_NAMESPACE_RANK": "5",
            "JSM_NAMESPACE_LOCAL_RANK": "1",
            "JSM_NAMESPACE_SIZE": "8",
            "LSB_JOBID": "5",
            "LSB_JOBINDEX": "0",
        },
        Launch(5, 1, 8, None, None, "lsf 5"),
    ),
    "Flux": (
        {
            "FLUX_TASK_RANK": "5",
            "FLUX_TASK_LOCAL_ID": "1",
            "FLUX_JOB_SIZE": "8",
            "FLUX_JOB_ID": "f2kXy",
        },
        Launch(5, 1, 8, None, None, "flux f2kXy"),
    ),
    "srun": (SLURM, Launch(1, 0, 2, None, 1, "slurm 1234.0")),
    "srun with PMIx": (
        {**SLURM, "PMIX_RANK": "1"},
        Launch(1, 0, 2, None, 1, "slurm 1234.0"),
    ),
    "torchrun": (TORCHRUN, Launch(9, 1, 16, 8, 1)),
    "variables of one's own": (
        {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "3"},
        Launch(3, 3, 4),
    ),
}


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


class TestSeveralLaunchers:
    def test_torchrun_under_srun_counts_processes(self) -> None:
        """One torchrun per node: Slurm counts those."""
        assert launch_of({**SLURM, **TORCHRUN}) == Launch(9, 1, 16, 8, 1, "slurm 1234.0")

    def test_torchrun_under_srun_with_pmi(self) -> None:
        environment = {**SLURM, **TORCHRUN, "PMIX_RANK": "1", "PMI_RANK": "1", "PMI_SIZE": "2"}
        assert launch_of(environment) == Launch(9, 1, 16, 8, 1, "slurm 1234.0")

    def test_mpirun_inside_a_job_is_of_no_step(self) -> None:
        """Its daemons are tasks of a step on all nodes but the first: two jobs would come of one."""
        assert launch_of({**SLURM, **OPEN_MPI}) == Launch(5, 1, 8, 4, None, "slurm 1234")

    def test_what_mpirun_does_not_tell_is_not_taken_from_another_rank(self) -> None:
        told = launch_of({**SLURM, "PMI_RANK": "5"})
        assert (told.rank, told.local_rank, told.world_size) == (5, None, None)

    def test_what_mpirun_does_not_tell_is_taken_from_the_same_rank(self) -> None:
        told = launch_of({**SLURM, "PMI_RANK": "1"})
        assert (told.rank, told.local_rank, told.world_size) == (1, 0, 2)

    def test_mpi_before_variables_of_ones_own(self) -> None:
        assert launch_of({**OPEN_MPI, "RANK": "0"}).rank == 5

    def test_flux_inside_slurm(self) -> None:
        told = launch_of({**SLURM, "FLUX_TASK_RANK": "7", "FLUX_JOB_ID": "f9"})
        assert (told.rank, told.local_rank, told.job) == (7, None, "flux f9")


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
