"""Names of outputs as profilers write them, with `%q{VARIABLE}`, `%h`, `%p`, `%%`, and their completion.

Ranks that write under one name lose each other's reports. So what identifies a rank is added to its
name, unless the pattern has it already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from nsysconv.errors import CaptureError
from nsysconv.launch import Launch

RANK_VARIABLES = frozenset({
    "RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "JSM_NAMESPACE_RANK", "PMI_RANK",
    "PALS_RANKID", "PMIX_RANK", "FLUX_TASK_RANK", "SLURM_PROCID",
})  # fmt: skip
LOCAL_RANK_VARIABLES = frozenset({
    "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
    "JSM_NAMESPACE_LOCAL_RANK", "PMI_LOCAL_RANK", "PALS_LOCAL_RANKID", "FLUX_TASK_LOCAL_ID",
    "SLURM_LOCALID",
})  # fmt: skip
NODE_VARIABLES = frozenset({"SLURM_NODEID", "GROUP_RANK", "PALS_NODEID"})
JOB_VARIABLES = frozenset({
    "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_ARRAY_TASK_ID", "LSB_JOBID", "FLUX_JOB_ID", "PBS_JOBID",
})  # fmt: skip

_PART = re.compile(r"%(?:q\{(?P<variable>[^}]*)\}|(?P<letter>[hp%]))")
_NOT_IN_A_NAME = re.compile(r"[^\w.-]+", re.ASCII)


def complete_pattern(pattern: str, suffixes: Sequence[str], launch: Launch, host: str) -> str:
    """Return the pattern made unique among the processes of a job, before a suffix of `suffixes`.

    A pattern that already differs between ranks is not changed.
    """
    parts = _identifying_parts(pattern)
    is_unique = "rank" in parts or bool(
        parts & {"host", "node"} and parts & {"local rank", "process"}
    )
    if is_unique:
        return pattern
    added = []
    if launch.job is not None and "job" not in parts:
        added.append(_in_a_name(launch.job.partition(" ")[2]))
    if launch.rank is not None:
        added.append(f"rank{launch.rank}")
    elif launch.local_rank is not None:
        added += [_in_a_name(host), f"local{launch.local_rank}"]
    stem, suffix = _split_suffix(pattern, suffixes)
    return ".".join((stem, *added)) + suffix


def expand_pattern(pattern: str, environment: Mapping[str, str], host: str) -> str:
    """Return a folder's pattern expanded as the profiler would expand it.

    Raises CaptureError for variables that are not set, and for `%p`: the folder must be there before the
    process has an id.
    """

    def value(part: re.Match[str]) -> str:
        variable = part["variable"]
        if variable is None and part["letter"] == "p":
            raise CaptureError(
                f"%p in the folder of the output: {pattern}",
                hint="Write it in the name of the file, or name the folder by %q{VARIABLE} or %h.",
            )
        if variable is None:
            return host if part["letter"] == "h" else "%"
        if variable not in environment:
            raise CaptureError(
                f"{part[0]} in the name of the output: {variable} is not set",
                hint="The launcher that was used here sets another; without it the rank is added.",
            )
        return environment[variable]

    return _PART.sub(value, pattern)


def escape_pattern(text: str) -> str:
    """Return a pattern that expands to this text."""
    return text.replace("%", "%%")


def split_folder(pattern: str) -> tuple[str, str]:
    """Return the folder (`.` for none) and the name. Raises CaptureError for a folder alone."""
    path = PurePosixPath(pattern)
    if pattern.endswith("/") or not path.name:
        raise CaptureError(
            f"the output is a folder: {pattern!r}", hint="Name a file in it: -o FOLDER/NAME"
        )
    return str(path.parent), path.name


def _identifying_parts(pattern: str) -> set[str]:
    parts = set()
    for part in _PART.finditer(pattern):
        variable, letter = part["variable"], part["letter"]
        for part_name, variables in (
            ("rank", RANK_VARIABLES),
            ("local rank", LOCAL_RANK_VARIABLES),
            ("node", NODE_VARIABLES),
            ("job", JOB_VARIABLES),
        ):
            if variable in variables:
                parts.add(part_name)
        if letter == "h" or variable in ("HOSTNAME", "SLURMD_NODENAME"):
            parts.add("host")
        if letter == "p":
            parts.add("process")
    return parts


def _split_suffix(pattern: str, suffixes: Sequence[str]) -> tuple[str, str]:
    suffix = next((s for s in suffixes if pattern.endswith(s)), "")
    return pattern.removesuffix(suffix), suffix


def _in_a_name(text: str) -> str:
    return _NOT_IN_A_NAME.sub("_", text).strip("_.")
