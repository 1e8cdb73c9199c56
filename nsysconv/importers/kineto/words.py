"""What the words of a trace mean: categories of events, names of copies, kinds of waits."""

from __future__ import annotations

import re

from nsysconv.codes import DIRECTIONS, MEMORY_KINDS
from nsysconv.importers.kineto.piece import MISSING

# Category, in small letters -> what its rows are. Old spellings beside the new ones.
CATEGORIES = {
    "kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "cuda_runtime": "runtime",
    "hip_runtime": "runtime",
    "runtime": "runtime",
    "xpu_runtime": "runtime",
    "mtia_runtime": "runtime",
    "glow_runtime": "runtime",
    "privateuse1_runtime": "runtime",
    "cuda_driver": "driver",
    "xpu_driver": "driver",
    "privateuse1_driver": "driver",
    "cpu_op": "operator",
    "operator": "operator",
    "hpu_op": "operator",
    "user_annotation": "annotation",
    "user": "annotation",
    "python_function": "python",
    "python": "python",
    "cuda_sync": "sync",
    "xpu_sync": "sync",
    "overhead": "overhead",
    "cpu_instant_event": "instant",
}
# Drawn beside what they repeat: counting them as work would count it twice.
PASSED_OVER = frozenset(
    {
        "gpu_user_annotation",
        "ac2g",
        "async",
        "async_cpu_to_gpu",
        "async_gpu",
        "fwdbwd",
        "forward_backward",
        "trace",
        "cuda_event",
        "external_correlation",
        "cuda_profiler_range",
        "collective_comm",
        "mtia_counters",
        "hardware_counters",
        "xpu_scope_profiler",
    }
)
# Work of accelerators that is in no table of ours: what libkineto and its forks call it, and how
# everything begins that they write of these.
ACCELERATOR_WORK = ("mtia_ccp_events", "mtia_insight", "mtia_workloadd", "mlu_notifier")
ACCELERATORS = ("gcu_", "glow_", "hpu_", "mlu_", "mtia_", "musa_", "npu_", "privateuse1_", "xpu_")
# In the first releases annotations were operators.
ANNOTATION = re.compile(r"ProfilerStep#|Optimizer\.|enumerate\(Data(?:Loader|Pipe)\)#")
DRIVER_OVERHEAD = frozenset(
    {
        "Driver Compiler",
        "Runtime Triggered Module Loading",
        "Lazy Function Loading",
        "Command Buffer Full",
    }
)
# ROCm wrote copies as kernels until March 2024.
OLD_COPIES = {
    "CopyHostToDevice": "HtoD",
    "CopyDeviceToHost": "DtoH",
    "CopyDeviceToDevice": "DtoD",
    "CopyHostToHost": "HtoH",
}
OLD_SET = "FillBuffer"
COMMUNICATION_OPERATOR = "record_param_comms"

_COPY = re.compile(r"([HDAP]to[HDAP])\b(?:\s*\(([^()>]*)->([^()>]*)\))?")
_SET = re.compile(r"Memset\s*\(([^()]+?)\)")
_DIRECTIONS = {word: code for code, word in enumerate(DIRECTIONS)}
_KINDS = {word: code for code, word in enumerate(MEMORY_KINDS)}
PEER = _DIRECTIONS["PtoP"]
"""The code of a copy from one device to another."""
_SYNC_TYPES = ("Unknown Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync")


def accelerator(category: str) -> str | None:
    """What to call a category of an accelerator, in small letters; None for one of anything else.

    Those that are not known by name are called by how they begin: what follows may be anything.
    """
    if category in ACCELERATOR_WORK:
        return category
    return next((f"{name}*" for name in ACCELERATORS if category.startswith(name)), None)


class Words:
    """The meaning of names, in codes; looked up once per name."""

    def __init__(self) -> None:
        self._copies: dict[object, tuple[int, int, int]] = {}

    def copy(self, name: object) -> tuple[int, int, int]:
        """Direction and kinds of memory read and written; MISSING for kinds that are not told."""
        if name not in self._copies:
            text = OLD_COPIES.get(str(name), str(name))
            found = _COPY.search(text)
            direction, source, target = found.groups() if found else ("Unknown", None, None)
            self._copies[name] = (
                _DIRECTIONS.get(direction, 0),
                _KINDS.get((source or "").strip(), MISSING),
                _KINDS.get((target or "").strip(), MISSING),
            )
        return self._copies[name]

    def memory_kind(self, name: object) -> int:
        """Kind of memory that a set writes; MISSING where it is not told."""
        found = _SET.search(str(name))
        return _KINDS.get(found.group(1), MISSING) if found else MISSING

    @staticmethod
    def sync_type(name: object) -> int:
        """A number for the kind of wait, in CUPTI's order; MISSING for others."""
        return _SYNC_TYPES.index(name) if name in _SYNC_TYPES else MISSING
