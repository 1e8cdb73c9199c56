"""A program's place in its job, from the variables that launchers and batch systems set.

Environments hold tokens and passwords. Only the variables named here are read, and of these only
values of the expected shape.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class Launch:
    """A process's place in its job; None where no launcher names it.

    `rank` of `world_size` in the whole run, `local_rank` of `local_size` on its node, `node` the node's
    number in the run; `job` the batch system and its number, such as `slurm 1234.0` (step 0).
    """

    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    local_size: int | None = None
    node: int | None = None
    job: str | None = None


@dataclass(frozen=True)
class _Launcher:
    """The variables that a launcher sets. Without the variable `mark` it did not start this process."""

    rank: str
    local_rank: str = ""
    world_size: str = ""
    local_size: str = ""
    node: str = ""
    mark: str = ""


# The innermost first: torchrun under srun numbers its own processes, and so does mpirun inside the
# step of a batch script. Anyone may have set RANK, so every launcher but Slurm goes before it (people
# set it from SLURM_PROCID, and then both are the same).
_LAUNCHERS = (
    _Launcher(
        "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "TORCHELASTIC_RUN_ID"
    ),
    _Launcher(
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    _Launcher(
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_SIZE",
        "MV2_COMM_WORLD_LOCAL_SIZE",
    ),
    _Launcher("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_SIZE"),
    _Launcher("PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS"),  # MPICH, Intel MPI
    _Launcher("PMI_RANK", "PMI_LOCAL_RANK", "PMI_SIZE", "PMI_LOCAL_SIZE"),  # Cray MPICH
    _Launcher("PALS_RANKID", "PALS_LOCAL_RANKID", "", "PALS_LOCAL_SIZE", "PALS_NODEID"),
    _Launcher("PMIX_RANK"),
    _Launcher("FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", "FLUX_JOB_SIZE"),
    _Launcher("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    # A batch script is task 0, too, but not one of a step's tasks.
    _Launcher(
        "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", "", "SLURM_NODEID", "SLURM_STEP_ID"
    ),
    _Launcher("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "", "SLURM_NODEID", "SLURM_STEP_ID"),
)
# Their daemons are tasks of a step on some nodes and not on others: no step is the run's.
_WITH_DAEMONS = ("OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "MPI_LOCALRANKID")

_JOB_NUMBERS = (
    "SLURM_JOB_ID",
    "SLURM_ARRAY_JOB_ID",
    "SLURM_ARRAY_TASK_ID",
    "LSB_JOBID",
    "LSB_JOBINDEX",
)
_JOB_WORDS = ("FLUX_JOB_ID", "PBS_JOBID")

VALUE = r"[\w.\[\]:-]{1,64}"
"""The shape of any value that is read, as a regular expression."""

_NUMBER = re.compile(r"[0-9]{1,9}")
_WORD = re.compile(VALUE, re.ASCII)

VARIABLES = frozenset(
    {
        *(getattr(launcher, part.name) for launcher in _LAUNCHERS for part in fields(launcher)),
        *_JOB_NUMBERS,
        *_JOB_WORDS,
    }
    - {""}
)
"""The names of the only variables that are read."""


def variables_of(part: str) -> frozenset[str]:
    """Return the variables that launchers set for a part of Launch, such as `local_rank`."""
    return frozenset(getattr(launcher, part) for launcher in _LAUNCHERS) - {""}


def launch_of(environment: Mapping[str, str]) -> Launch:
    """Return a process's place in its job, as the variables of its environment say.

    The innermost launcher counts; what it does not set is taken from others that set the same rank.
    """
    places = [_place(launcher, environment) for launcher in _LAUNCHERS]
    ranked = [place for place in places if place is not None]
    if not ranked:
        return Launch(job=_job(environment))
    first, *others = ranked
    for other in others:
        if other.rank == first.rank:
            missing = {
                part.name: getattr(other, part.name)
                for part in fields(Launch)
                if getattr(first, part.name) is None
            }
            first = replace(first, **missing)
    return replace(first, job=_job(environment))


def _place(launcher: _Launcher, environment: Mapping[str, str]) -> Launch | None:
    rank = _number(environment, launcher.rank)
    if rank is None or (launcher.mark and launcher.mark not in environment):
        return None
    return Launch(
        rank,
        _number(environment, launcher.local_rank),
        _number(environment, launcher.world_size),
        _number(environment, launcher.local_size),
        _number(environment, launcher.node),
    )


def _job(environment: Mapping[str, str]) -> str | None:
    # Flux writes its numbers with an f or, where the terminal has one, with a florin sign.
    words = {
        name: environment.get(name, "").replace("\N{LATIN SMALL LETTER F WITH HOOK}", "f")
        for name in _JOB_WORDS
    }
    flux, pbs = (_value(words, name, _WORD) for name in _JOB_WORDS)
    if flux is not None:  # its instances run inside jobs of other systems
        return f"flux {flux}"
    slurm, array, element, lsf, lsf_element = (_number(environment, name) for name in _JOB_NUMBERS)
    if slurm is not None:
        number = f"{slurm}" if array is None or element is None else f"{array}_{element}"
        step = _number(environment, "SLURM_STEP_ID")
        if step is None or any(name in environment for name in _WITH_DAEMONS):
            return f"slurm {number}"
        return f"slurm {number}.{step}"
    if pbs is not None:
        return f"pbs {pbs}"
    if lsf is not None:
        return f"lsf {lsf}[{lsf_element}]" if lsf_element else f"lsf {lsf}"
    return None


def _number(environment: Mapping[str, str], name: str) -> int | None:
    value = _value(environment, name, _NUMBER)
    return None if value is None else int(value)


def _value(environment: Mapping[str, str], name: str, shape: re.Pattern[str]) -> str | None:
    value = environment.get(name, "")
    return value if shape.fullmatch(value) else None
