"""Names of outputs as profilers write them, with `%q{VARIABLE}`, `%h`, `%p`, `%%`, and their completion.

Ranks that write under one name lose each other's reports. So what identifies a rank is added to its
name, unless the pattern has it already.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from nsysconv.errors import CaptureError
from nsysconv.launch import Launch, variables_of

RANK_VARIABLES = variables_of("rank")
LOCAL_RANK_VARIABLES = variables_of("local_rank")
NODE_VARIABLES = variables_of("node")
JOB_VARIABLES = frozenset({
    "SLURM_JOB_ID", "SLURM_JOBID", "SLURM_ARRAY_TASK_ID", "LSB_JOBID", "FLUX_JOB_ID", "PBS_JOBID",
})  # fmt: skip

# These identify a process. Each has the variables or letters that represent it in a pattern.
_IDENTIFYING = {
    "rank": RANK_VARIABLES,
    "local rank": LOCAL_RANK_VARIABLES,
    "node": NODE_VARIABLES,
    "job": JOB_VARIABLES,
    "host": {"%h", "HOSTNAME", "SLURMD_NODENAME"},
    "process": {"%p"},
}

_PART = re.compile(r"%(?:q\{(?P<variable>[^}]*)\}|(?P<letter>[hp%]))")
_NOT_IN_A_NAME = re.compile(r"[^\w.-]+", re.ASCII)


def complete_pattern(pattern: str, suffixes: Sequence[str], launch: Launch, host: str) -> str:
    """Return a pattern unique among the processes of a job: with their ids, unless it has them."""
    words = {part["variable"] or f"%{part['letter']}" for part in _PART.finditer(pattern)}
    parts = {name for name, identifying in _IDENTIFYING.items() if words & identifying}
    if "rank" in parts or (parts & {"host", "node"} and parts & {"local rank", "process"}):
        return pattern
    added = []
    if launch.job is not None and "job" not in parts:
        added.append(_in_a_name(launch.job.partition(" ")[2]))
    if launch.rank is not None:
        added.append(f"rank{launch.rank}")
    elif launch.local_rank is not None:
        added += [_in_a_name(host), f"local{launch.local_rank}"]
    stem, suffix = split_suffix(pattern, suffixes)
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


def split_folder(pattern: str) -> tuple[str, str]:
    """Return the folder (`.` for none) and the name. Raises CaptureError for a folder alone."""
    path = PurePosixPath(pattern)
    if pattern.endswith("/") or not path.name:
        raise CaptureError(
            f"the output is a folder: {pattern!r}", hint="Name a file in it: -o FOLDER/NAME"
        )
    return str(path.parent), path.name


def split_suffix(pattern: str, suffixes: Sequence[str]) -> tuple[str, str]:
    """Return a name and its suffix, empty where it ends in none of these."""
    suffix = next((s for s in suffixes if pattern.endswith(s)), "")
    return pattern.removesuffix(suffix), suffix


def _in_a_name(text: str) -> str:
    return _NOT_IN_A_NAME.sub("_", text).strip("_.")
