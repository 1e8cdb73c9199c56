"""What the profilers of AMD's GPUs have in common: names of kernels, directions of copies, advice."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterator, Mapping

from nsysconv import codes
from nsysconv.facts import Fact
from nsysconv.notes import Note, Severity

_DIRECTION = re.compile(r"(?:MEMORY_COPY_|Copy)?(Host|Device)_?To_?(Host|Device)", re.IGNORECASE)
_DECORATION = re.compile(r'^"|(?: \[clone \.kd\]|\.kd)?"?$')
# The runtime copies and sets memory with kernels of its own: all sets, small copies and, without the
# DMA engines (HSA_ENABLE_SDMA=0), every copy.
_RUNTIME_KERNEL = re.compile(r"__amd_rocclr_(?:copy|fill)")

TIMELINE = "Record with `rocprofv3 --runtime-trace -- …`."
ADVICE: Mapping[Fact, str] = {
    **dict.fromkeys((Fact.KERNELS, Fact.MEMCPYS, Fact.API_CALLS, Fact.API_LINKS), TIMELINE),
    Fact.MEMSETS: "HIP sets memory with kernels (__amd_rocclr_fillBuffer…): see the report kernels.",
    Fact.UTC: "AMD's profilers record the time since the machine started, not the time of day.",
}
"""Advice that holds whatever the format; each importer adds its own."""
HSA_CALLS = "hsa_calls"
INCLUDABLE: Mapping[str, str] = {
    HSA_CALLS: "calls of HSA, most of them made by the HIP calls around them"
}
"""For importers whose files may have calls of HSA."""


UNNAMED_GPU = "AMD GPU"
"""The name of a GPU of which nothing but its vendor is recorded: advice and words depend on that."""


CLOCK = "max_engine_clk_fcompute"
"""What a description of a GPU calls its highest clock, in MHz."""


def device_columns(number: Callable[[str], int | None]) -> dict[str, int | None]:
    """Return columns of `device`, given the numbers of AMD's own description by their names."""
    version, shared, clock = map(number, ("gfx_target_version", "lds_size_in_kb", CLOCK))
    return {
        "sm_count": number("cu_count"),
        "compute_major": version // 10_000 if version else None,
        "compute_minor": version // 100 % 100 if version else None,
        "max_warps_per_sm": number("max_waves_per_cu"),
        "max_shared_bytes_per_sm": shared * 1024 if shared else None,
        "sm_clock_hz": clock * 1_000_000 if clock else None,
        "threads_per_warp": number("wave_front_size"),
    }


def kernel_name(text: str) -> str:
    """Return a kernel's name or symbol without what AMD's profilers put around it: quotes and `.kd`."""
    return _DECORATION.sub("", text)


def direction(word: str, *, is_peer: bool = False) -> int:
    """Return the code of a copy's direction, by the profiler's word for it.

    `is_peer`: it is between two devices.
    """
    ends = _DIRECTION.fullmatch(word.strip())
    if ends is None:
        return 0
    source, target = (end[0].upper() for end in ends.groups())
    both = "PtoP" if is_peer and source == target == "D" else f"{source}to{target}"
    return codes.DIRECTIONS.index(both)


def real(cell: object) -> float | None:
    """Return the number that a cell spells; None for others, and for those without an end."""
    try:
        value = float(str(cell))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def copies_by_kernels_note(counts: Mapping[str, int], where: str) -> Note | None:
    """Return the note on kernels by which the runtime copied or set memory; None without any.

    `counts`: kernels by name. `where`: the table or file that holds them.
    """
    count = sum(n for name, n in counts.items() if is_runtime_kernel(name))
    text = "kernels of the HIP runtime that copy or set memory; they are counted as kernels"
    note = Note("copies-as-kernels", Severity.INFO, text, count, where, frozenset({Fact.KERNELS}))
    return note if count else None


def is_runtime_kernel(name: str) -> bool:
    """Return whether a kernel is one by which the HIP runtime copies or sets memory."""
    return bool(_RUNTIME_KERNEL.match(name))


def hsa_calls_note(count: int, where: str) -> Note:
    """Return the note on calls of HSA that were left out."""
    text = f"calls of HSA, which HIP makes, were left out; --include {HSA_CALLS} reads them"
    facts = frozenset({Fact.API_CALLS})
    return Note("hsa-calls-left-out", Severity.INFO, text, count, where, facts)


def queues_note(where: str) -> Note:
    """Return the note on queues that are shown as streams."""
    text = "streams were not recorded; hardware queues, which several streams share, are shown"
    facts = frozenset({Fact.KERNELS})
    return Note("queues-as-streams", Severity.INFO, text, where=where, facts=facts)


class LiveMemory:
    """Memory that was taken and not yet given back, by its key: an address, in its process.

    A row that gives memory back has neither size nor agent.
    """

    def __init__(self) -> None:
        """Start without memory."""
        self._blocks: dict[Hashable, tuple[int, int | None]] = {}
        self._unmatched = 0

    def take(self, key: Hashable, size: int, agent: int | None) -> None:
        """Keep the size of a block, and the agent whose memory it is."""
        self._blocks[key] = (size, agent)

    def give_back(self, key: Hashable) -> tuple[int | None, int | None]:
        """Return size and agent of a block; None where it was taken before the recording."""
        size, agent = self._blocks.pop(key, (None, None))
        self._unmatched += size is None
        return size, agent

    def notes(self, where: str) -> Iterator[Note]:
        """Yield a note if memory was given back of which nobody saw how it was taken."""
        if self._unmatched:
            text = (
                "memory was given back that was taken before the recording; its size is not known"
            )
            facts = frozenset({Fact.MEMORY_EVENTS})
            yield Note("free-unmatched", Severity.INFO, text, self._unmatched, where, facts)
