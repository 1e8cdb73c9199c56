"""A program's place in its job, by the variables of launchers and batch systems; its cores and limits.

Environments hold tokens and passwords. Only the variables named here are read, and of these only
values of the expected shape.
"""

from __future__ import annotations

import os
import re
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

try:
    import resource
except ImportError:  # on Windows, where no limit is known
    resource = None  # type: ignore[assignment]


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


# Each launcher has the variable without which it did not start this process (empty: it has no such
# variable), then those of rank, local rank, world size, local size and node. The innermost launcher
# comes first: torchrun under srun numbers its own processes, and so does mpirun inside the step of a
# batch script. Any script may set RANK, so every launcher but Slurm comes before it (scripts set RANK
# from SLURM_PROCID, and then both are the same).
_LAUNCHERS = (
    ("TORCHELASTIC_RUN_ID", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK"),
    (
        "",
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    (
        "",
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_SIZE",
        "MV2_COMM_WORLD_LOCAL_SIZE",
    ),
    ("", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_SIZE"),
    ("", "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE", "MPI_LOCALNRANKS"),  # MPICH, Intel MPI
    ("", "PMI_RANK", "PMI_LOCAL_RANK", "PMI_SIZE", "PMI_LOCAL_SIZE"),  # Cray MPICH
    ("", "PALS_RANKID", "PALS_LOCAL_RANKID", "", "PALS_LOCAL_SIZE", "PALS_NODEID"),
    ("", "PMIX_RANK"),
    ("", "FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", "FLUX_JOB_SIZE"),
    ("", "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"),
    # A batch script is task 0, too, but not one of a step's tasks.
    ("SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS", "", "SLURM_NODEID"),
    ("SLURM_STEP_ID", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS", "", "SLURM_NODEID"),
)
_NUMBERED_PARTS = ("rank", "local_rank", "world_size", "local_size", "node")
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

VARIABLES = frozenset({*chain(*_LAUNCHERS), *_JOB_NUMBERS, *_JOB_WORDS} - {""})
"""The names of the only variables that are read."""


def variables_of(part: str) -> frozenset[str]:
    """Return the variables that launchers set for a part of Launch, such as `local_rank`."""
    place = 1 + _NUMBERED_PARTS.index(part)
    return frozenset(launcher[place] for launcher in _LAUNCHERS if len(launcher) > place) - {""}


def launch_of(environment: Mapping[str, str]) -> Launch:
    """Return a process's place in its job, as the variables of its environment say.

    The innermost launcher counts; what it does not set is taken from others that set the same rank.
    """
    places = [place for names in _LAUNCHERS if (place := _place(names, environment))]
    same = [place for place in places if place["rank"] == places[0]["rank"]]
    return Launch(**ChainMap(*same), job=_job(environment))


def _place(launcher: tuple[str, ...], environment: Mapping[str, str]) -> dict[str, int]:
    mark, *names = launcher
    numbers = {
        part: number
        for part, name in zip(_NUMBERED_PARTS, names, strict=False)
        if (number := _number(environment, name)) is not None
    }
    return numbers if "rank" in numbers and (not mark or mark in environment) else {}


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


def cores() -> int:
    """Return how many cores this process may use: inside a batch job, those of the job."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def file_size_limit() -> int | None:
    """Return the size in bytes that no file may exceed that this process writes; None: any."""
    return None if resource is None else _limit(resource.RLIMIT_FSIZE)


def address_limit() -> int | None:
    """Return the size in bytes of the addresses that this process may use; None: all."""
    return None if resource is None else _limit(resource.RLIMIT_AS)


def limit_memory(share: float) -> None:
    """Let this process have no more than a share of the machine's memory, where that can be said."""
    if resource is not None:
        most = int(share * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def _limit(which: int) -> int | None:
    limit = resource.getrlimit(which)[0]
    return None if limit == resource.RLIM_INFINITY else limit


_DIMENSIONS = {
    "TP": r"tp|tensor_(?:model_)?parallel",
    "PP": r"pp|pipeline_(?:model_)?parallel",
    "DP": r"dp|data_parallel",
    "EP": r"ep|expert_(?:model_)?parallel",
    "CP": r"cp|context_parallel",
}
_LEADING = {"TP", "PP", "DP"}
_ROLES = ("prefill", "decode", "actor", "critic", "rollout", "reference", "reward")
_NUMBERED = re.compile(
    rf"(?<![a-z])({'|'.join(_DIMENSIONS)})[-_= ]?(\d{{1,6}})(?!\d)", re.IGNORECASE
)
_ROLE = re.compile(rf"(?<![a-z])({'|'.join(_ROLES)})(?![a-z])", re.IGNORECASE)


def dimensions_in(text: str) -> str | None:
    """Return the place in a parallel program that a name says, `TP0 PP1 decode`; None: it says none.

    A dimension with two numbers says nothing, nor do two roles.
    """
    numbers: dict[str, set[int]] = {}
    for dimension, number in _NUMBERED.findall(text):
        numbers.setdefault(dimension.upper(), set()).add(int(number))
    known = {name: each.pop() for name, each in numbers.items() if len(each) == 1}
    if not known.keys() & _LEADING:  # an epoch is called `ep3`, too
        known = {}
    roles = {role.lower() for role in _ROLE.findall(text)}
    return _dimension_words(known, roles.pop() if len(roles) == 1 else None)


def dimensions_of_groups(groups: Mapping[str, Sequence[int]], rank: int | None) -> str | None:
    """Return a rank's place in groups of ranks, by their names (`tp`, `DATA_PARALLEL_GROUP`); None: no
    group of one dimension holds it.
    """
    known: dict[str, int] = {}
    for name, ranks in groups.items():
        found = [
            dimension
            for dimension, pattern in _DIMENSIONS.items()
            if re.search(rf"(?<![a-z])(?:{pattern})(?![a-z])", name, re.IGNORECASE)
        ]
        if (
            rank is not None
            and rank in ranks
            and len(found) == 1
            and not re.search("_and_", name, re.IGNORECASE)
        ):
            known.setdefault(found[0], list(ranks).index(rank))
    return _dimension_words(known, None)


def _dimension_words(known: Mapping[str, int], role: str | None) -> str | None:
    words = [f"{name}{known[name]}" for name in _DIMENSIONS if name in known]
    return " ".join([*words, *([role] if role else [])]) or None
