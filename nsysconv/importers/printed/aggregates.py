"""Which facts printed totals tell."""

from __future__ import annotations

from nsysconv.facts import Fact

GPU_SUMS = frozenset({Fact.KERNEL_TOTALS, Fact.MEMORY_TOTALS})
"""What a table of all the GPU's work tells: of what is not in it, there was none."""

_FACTS = {
    "kernel": Fact.KERNEL_TOTALS,
    "memcpy": Fact.MEMORY_TOTALS,
    "memset": Fact.MEMORY_TOTALS,
    "unified_memory": Fact.UNIFIED_MEMORY_TOTALS,
    "api_call": Fact.API_TOTALS,
    "range": Fact.RANGE_TOTALS,
    "osrt_call": Fact.OSRT_TOTALS,
}


def fact_of(kind: str) -> Fact:
    """The fact that totals of a kind of codes.AGGREGATE_KINDS are told by."""
    return _FACTS.get(kind, Fact.DIRECTIVE_TOTALS)
