"""The command of Nsight Compute that profiles one launch of a kernel."""

from __future__ import annotations

import re
import shlex

import numpy as np

from nsysconv.names import without_parameters
from nsysconv.queries.columns import KERNEL_NAME_COLUMNS, kernel_name_ids
from nsysconv.report import MISSING
from nsysconv.timeline.events import OpKind
from nsysconv.timeline.timeline import Timeline
from nsysconv.timeline.vendors import is_of_amd

_INNERMOST = re.compile(r"<[^<>]*>")


def launch_command(timeline: Timeline, op: int) -> str | None:
    """Return the command that profiles this kernel, an operation of the time line, alone.

    It is known by its function's name, as Nsight Compute filters by it, and by how many kernels of that
    name its process had launched before it in the recording. None: it has no name, or runs on AMD's GPUs.
    """
    ops = timeline.ops
    texts = timeline.profile.columns("kernel", ("name_id", KERNEL_NAME_COLUMNS["demangled"]))
    ids = kernel_name_ids(texts, "demangled")
    mine = int(ids[ops.row[op]])
    if mine == MISSING or is_of_amd(timeline):
        return None
    names = timeline.profile.names(np.unique(ids[ids != MISSING]))
    function = function_of(names[mine])
    same = np.array([i for i, name in names.items() if function_of(name) == function])
    kernels = np.flatnonzero((ops.kind == OpKind.KERNEL) & (ops.pid == ops.pid[op]))
    kernels = kernels[np.isin(ids[ops.row[kernels]], same)]
    owner = timeline.owner[kernels]
    began = ops.start[kernels]
    launched = (
        np.where(owner >= 0, timeline.calls.start[owner], began) if len(timeline.calls) else began
    )
    order = kernels[np.lexsort((began, launched))]
    before = int(np.flatnonzero(order == op)[0])
    name = shlex.quote(function)
    return f"ncu --kernel-name {name} --launch-skip {before} --launch-count 1 PROGRAM"


def function_of(name: str) -> str:
    """Return the name of a kernel's function: without its type, namespaces, template and parameters."""
    text = without_parameters(name)
    while (shorter := _INNERMOST.sub("", text)) != text:
        text = shorter
    return text.rpartition("::")[2].split(" ")[-1] or name
